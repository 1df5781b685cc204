# SPDX-License-Identifier: BSD-3-Clause
"""What a program printed: its text in plain lines, and the lines from which a check read its numbers.

``numbers.json`` in the folder of a job has these lines for each file that was read: ``{"trial_1/run/stdout": {"latency
message_bytes=8": [12]}}``. Lines count from 1 in the text that `plain` returns.
"""

import json
import re
from itertools import groupby
from pathlib import Path

from plumbline.errors import RecordError

NUMBERS = 'numbers.json'
Lines = dict[str, dict[str, list[int]]]  # file below the folder of the job -> metric with its dims -> lines
# Control sequences of terminals (ECMA-48): colours, titles of windows
_ESCAPE = re.compile(r'\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])')
# In front of lines: the time, as log collectors write it, and the rank, as Open MPI's --tag-output does
_TIME = (
    r'\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?: |$)'
    r'|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}(?=\[)'
)
_TAG = r'\[(?:\d{1,9},\d{1,9}\]<std(?:out|err)>:|[^\s\[\]]{1,200}@\d{1,9},\d{1,9}\]<std(?:out|err)>: ?)'
_MARKED = re.compile(rf'^(?:(?:{_TIME})(?:{_TAG})?|{_TAG})', re.MULTILINE)
# The rank, as `srun -l`, `flux run -l` and MPICH's -prepend-rank write it. Programs begin lines so, too: it is a label
# where several lines in a row have one.
_RANK = re.compile(r'^ *(?:\d{1,7}:|\[\d{1,7}\])(?: |$)', re.MULTILINE)
_ROW_OF_LABELS = 3


def plain(text: str) -> str:
    """Return a text as the program wrote it, lines ended by newlines alone.

    Without byte order mark, control sequences of terminals, and the times and ranks in front of its lines.
    """
    text = text.removeprefix('\ufeff').replace('\r\n', '\n').replace('\r', '\n')
    text = _MARKED.sub('', _ESCAPE.sub('', text))
    if not _RANK.search(text):
        return text
    lines: list[str] = []
    for _, block in groupby(text.split('\n'), lambda line: not line or bool(_RANK.match(line))):
        of_block = list(block)
        labelled = sum(map(bool, map(_RANK.match, of_block))) >= _ROW_OF_LABELS
        lines += [_RANK.sub('', line) for line in of_block] if labelled else of_block
    return '\n'.join(lines)


def write_numbers(folder: Path, lines: Lines) -> None:
    """Write ``numbers.json`` to the folder of a job. Raises OSError."""
    (folder / NUMBERS).write_text(json.dumps(lines, separators=(',', ':')), encoding='utf-8')


def read_numbers(content: bytes) -> Lines:
    """Return the lines that :func:`write_numbers` wrote. Raises RecordError."""
    import msgspec  # here, so that a check needs no package to write them

    try:
        return msgspec.json.decode(content, type=Lines)
    except msgspec.DecodeError:
        raise RecordError(f'{NUMBERS}: expected lines by file and metric, found {content[:80]!r}') from None

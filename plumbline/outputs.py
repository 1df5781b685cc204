# SPDX-License-Identifier: BSD-3-Clause
"""What a program printed: its text in plain lines, and the lines from which a check read its numbers.

``numbers.json`` in the folder of a job has these lines for each file that was read: ``{"trial_1/run/stdout": {"latency
message_bytes=8": [12]}}``. Lines count from 1 in the text that `plain` returns.
"""

import json
import re
from pathlib import Path
from typing import Any

from plumbline.errors import RecordError

NUMBERS = 'numbers.json'
Lines = dict[str, dict[str, list[int]]]  # file below the folder of the job -> metric with its dims -> lines
# Control sequences of terminals (ECMA-48): colours, titles of windows
_ESCAPE = re.compile(r'\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])')


def plain(text: str) -> str:
    """Return a text without the control sequences of terminals, lines ended by newlines alone."""
    return _ESCAPE.sub('', text.replace('\r\n', '\n').replace('\r', '\n'))


def write_numbers(folder: Path, lines: Lines) -> None:
    """Write ``numbers.json`` to the folder of a job. Raises OSError."""
    (folder / NUMBERS).write_text(json.dumps(lines, separators=(',', ':')), encoding='utf-8')


def read_numbers(content: bytes) -> Lines:
    """Return the lines that :func:`write_numbers` wrote. Raises RecordError."""
    try:
        numbers: Any = json.loads(content)
        return {
            str(file): {str(name): [int(line) for line in lines] for name, lines in metrics.items()}
            for file, metrics in numbers.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise RecordError(f'{NUMBERS}: expected lines by file and metric, found {content[:80]!r}') from None

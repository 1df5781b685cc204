# SPDX-License-Identifier: BSD-3-Clause
"""Extract what a program printed from the archive of its case: the lines with its numbers, and its last lines.

The text is untrusted: lines, width and bytes are limited, and unprintable characters are replaced. Nothing is unpacked
to disk.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from plumbline.errors import RecordError
from plumbline.outputs import NUMBERS, Lines, plain, read_numbers
from plumbline.results import EVIDENCE
from postprocess.text import count

MOST_LINES = 40  # most lines shown of a case: a browser window
CONTEXT = 5  # lines before and after a marked line: the titles of BabelStream's table are five above its last row
LAST = 15  # last lines shown of an output without marked lines
LAST_ERRORS = 10  # last lines shown of standard error: a message and where it came from
WIDTH = 160  # most characters of a line; programs print tables of 80 to 132
RUNS = 3  # most runs shown of a case; further ones are similar
MOST_READ = 64 * 2**20  # most unpacked bytes read of an archive, a third of a second; one case has some MiB
_AT_ONCE = 2**17
_Content = bytes | memoryview
_Files = dict[str, memoryview]  # name below the folder of the job -> content, which is not copied
_RUN = re.compile(r'trial_(\d{1,9})/[^/]+')
_OF_JOB = ('place.err', 'rfm_job.err')  # shown if no program printed anything
_SAID = {
    'read': 'marked: where the check read the numbers',
    'computed': 'marked: where the check read the numbers of which it computes the metric',
    'none': 'the check found no number of the metric in it',
    'unknown': 'which lines the numbers come from is not known',
}


@dataclass(frozen=True)
class Wanted:
    """A metric with its dims whose lines are shown, in a `trial`; None: in any trial.

    `lost`: True if it has no number there.
    """

    name: str
    trial: int | None = None
    lost: bool = True


@dataclass(frozen=True)
class Passage:
    """Numbered `lines` of a file, and a description of them.

    `marks`: metric -> numbers of the lines with its numbers.
    """

    caption: str
    lines: list[tuple[int, str]]
    marks: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Excerpt:
    """The parts of a case's output that are shown.

    `problem`: a sentence if something is missing. `read`: unpacked bytes.
    """

    parts: list[Passage]
    problem: str = ''
    read: int = 0


def excerpt(
    results: Path, evidence: str, wanted: Sequence[Wanted], nodes: Iterable[str] = (), failed: bool = False
) -> Excerpt:
    """Return the parts of what a case printed; `evidence`: its archive below `results`.

    `wanted`: the metrics to search for, the worst first. `nodes`: the nodes of the case, which identify its place in
    the archive of a node sweep. `failed`: True if the case failed; then failed runs come first.
    """
    path = results / evidence
    if not path.resolve().is_relative_to((results / EVIDENCE).resolve()):
        return Excerpt([], f'The output is not shown: its archive is not in {EVIDENCE}/ of the results.')
    if not path.is_file():
        return Excerpt([], 'The output is gone: its archive was removed, as ci/nightly --evidence keeps only so much.')
    content, problem = _unpacked(path)
    files: _Files = {}
    try:
        for name, data in _files(content, ','.join(nodes)):
            files[name] = data
    except (tarfile.TarError, ValueError) as error:
        problem = problem or _damaged(error)
    parts = _passages(files, wanted, failed)
    return Excerpt(parts, problem or ('' if parts else 'Its programs printed nothing.'), len(content))


# The archive


def _unpacked(path: Path) -> tuple[bytes, str]:
    """Return at most `MOST_READ` bytes of an archive, and a sentence if there are more or if it is damaged."""
    content, problem = io.BytesIO(), ''
    try:
        with gzip.open(path) as stream:
            # to the checksum at its end: a flipped bit shows another text, or none
            while content.tell() <= MOST_READ and (part := stream.read1(_AT_ONCE)):
                content.write(part)
    except (OSError, EOFError, zlib.error) as error:
        problem = _damaged(error)
    if content.tell() > MOST_READ:
        problem = f'Of its archive only the first {MOST_READ // 2**20} MiB were read.'
        content.truncate(MOST_READ)
    return content.getvalue(), problem


def _damaged(error: Exception) -> str:
    """Return a sentence on an archive that cannot be read."""
    why = ' '.join(str(error).split())[:WIDTH] or type(error).__name__
    return f'The output may be wrong or not complete: its archive is damaged or cannot be read: {why}.'


def _files(content: bytes, place: str) -> Iterator[tuple[str, memoryview]]:
    """Yield name and content of each file of a job, in the order in which they were packed.

    Of the archive of a node sweep only the files of `place`. Raises tarfile.TarError.
    """
    for name, data in _members(content):
        name, of_place = name.partition('/')[2], f'places/{place}'
        if name == f'{of_place}.tar':
            packed = dict(_members(bytes(data)))
            yield from ((inner.removeprefix('./'), packed[inner]) for inner in sorted(packed))
        elif not name.startswith('places/') or name.startswith(of_place):
            yield name.removeprefix(f'{of_place}/'), data


def _members(content: bytes) -> Iterator[tuple[str, memoryview]]:
    """Yield name and content of each regular file in an archive. Raises tarfile.TarError."""
    with tarfile.open(fileobj=io.BytesIO(content), mode='r:') as archive:
        for member in archive:
            if member.isreg() and not member.issparse():
                data = memoryview(content)[member.offset_data : member.offset_data + member.size]
                if len(data) < member.size:
                    raise tarfile.ReadError('unexpected end of data')
                yield member.name, data


class _Run(NamedTuple):
    """One execution of a program: its folder, the number of its trial, and its files by name."""

    folder: str
    trial: int
    files: _Files

    @property
    def failed(self) -> bool:
        """True if the program failed, or was still running when its job ended."""
        return bytes(self.files.get('exit_code', b'')).strip() != b'0'

    def is_of(self, metric: Wanted) -> bool:
        """Return True if the metric is wanted of this trial."""
        return metric.trial in (None, self.trial)


def _passages(files: _Files, wanted: Sequence[Wanted], failed: bool) -> list[Passage]:
    """Return the lines of the outputs and the ends of standard error; if no program printed, the errors of the job."""
    lines = _noted(files.get(NUMBERS, b'{}'))
    runs: dict[str, _Run] = {}
    for name, content in files.items():
        folder, _, file = name.rpartition('/')
        if match := _RUN.fullmatch(folder):
            runs.setdefault(folder, _Run(folder, int(match[1]), {})).files[file] = content
    shown = {run.folder for metric in wanted for run in _runs_with(metric, [*runs.values()], lines)}
    chosen = [run for run in runs.values() if run.folder in shown or (failed and run.failed)]
    outputs = [(run, _output(run, lines, wanted)) for run in chosen or [*runs.values()][-1:]]
    names = [metric.name for metric in wanted]
    outputs.sort(
        key=lambda of: (
            not (failed and of[0].failed),
            min((names.index(name) for name in of[1].marks), default=len(names)),
        )
    )
    parts, room = [], MOST_LINES
    for run, output in outputs[:RUNS]:
        part = output.part(room)
        room -= len(part.lines)
        parts += [part, _end(f'{run.folder}/stderr', run.files.get('stderr', b''), LAST_ERRORS)]
    if not any(part.lines for part in parts):
        parts = [_end(name, files.get(name, b''), LAST_ERRORS) for name in _OF_JOB]
    return [part for part in parts if part.lines]


def _noted(content: _Content) -> Lines:
    """Return the lines that the check noted that it read; without its file of numbers no line is marked."""
    with suppress(RecordError):
        return read_numbers(bytes(content))
    return {}


def _runs_with(metric: Wanted, runs: Sequence[_Run], lines: Lines) -> list[_Run]:
    """Return the first run from which a metric was read; all runs of its trial if it was read from none."""
    own = [run for run in runs if run.is_of(metric)]
    read = {
        file.rpartition('/')[0]
        for file, of in lines.items()
        if metric.name in of and (metric.trial is None or file.startswith(f'trial_{metric.trial}/'))
    }
    return [run for run in own if run.folder in read][:1] if read else own


def _output(run: _Run, lines: Lines, wanted: Sequence[Wanted]) -> _MarkedFile:
    """Return the output of a run with its marked lines."""
    read = {file: of for file, of in lines.items() if file.startswith(f'{run.folder}/')}
    file, noted = next(iter(read.items()), (f'{run.folder}/stdout', {}))
    own = [metric for metric in wanted if run.is_of(metric)]
    marks, how = {metric.name: noted[metric.name] for metric in own or wanted if metric.name in noted}, 'read'
    if not marks and noted and own and not any(metric.name in of for of in lines.values() for metric in own):
        every = sorted({line for of in noted.values() for line in of})
        marks, how = {metric.name: every for metric in own}, 'computed'
    if not marks:
        how = 'none' if file in read and all(metric.lost for metric in own) else 'unknown'
    return _MarkedFile(file, _lines(run.files.get(file.rpartition('/')[2], b'')), marks, how)


class _MarkedFile(NamedTuple):
    """The `lines` of a file; `marks`: metric -> its lines.

    `how`: key of `_SAID`, which says how these lines are known.
    """

    file: str
    lines: list[str]
    marks: dict[str, list[int]]
    how: str

    def part(self, room: int) -> Passage:
        """Return at most `room` lines: the marked lines with their context, else the last lines."""
        marked = list(dict.fromkeys(line for of in self.marks.values() for line in of if 0 < line <= len(self.lines)))
        near = [line + step for far in range(1, CONTEXT + 1) for line in marked for step in (-far, far)]
        around = dict.fromkeys([*marked, *(line for line in near if 0 < line <= len(self.lines))])
        last = range(max(1, len(self.lines) - LAST + 1), len(self.lines) + 1)
        chosen = sorted(list(around or last)[:room])
        hidden = [line for line in marked if line not in chosen]
        more = f', {count(len(hidden), "marked line")} more' if hidden else ''
        shown = {name: [line for line in of if line in chosen] for name, of in self.marks.items()}
        caption = f'{self.file}, {len(chosen)} of {count(len(self.lines), "line")}{more}; {_SAID[self.how]}'
        return Passage(caption, [(line, _shown(self.lines[line - 1])) for line in chosen], shown)


def _end(name: str, content: _Content, most: int) -> Passage:
    """Return the last `most` lines of a file."""
    lines = _lines(content)
    last = range(max(1, len(lines) - most + 1), len(lines) + 1)
    caption = f'{name}, {f"the last {most} of " if len(lines) > most else ""}{count(len(lines), "line")}'
    return Passage(caption, [(line, _shown(lines[line - 1])) for line in last])


def _lines(content: _Content) -> list[str]:
    """Return the lines of a file as a check reads them, without empty lines at the end."""
    text = str(content, 'utf-8', errors='replace')
    return plain(text).rstrip('\n').split('\n') if text.strip() else []


def _shown(line: str) -> str:
    """Return a line that is safe to show: cut to `WIDTH`, without control characters."""
    text = ''.join(letter if letter.isprintable() else '\ufffd' for letter in line[: WIDTH + 1].expandtabs().rstrip())
    return text if len(text) <= WIDTH else f'{text[:WIDTH]} ...'

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
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
_RUN = re.compile(r'trial_(\d{1,9})/[^/]+')
_OF_RUN = ('stdout', 'stderr', 'exit_code')
_OF_JOB = ('place.err', 'rfm_job.err')  # shown if no program printed anything
_SAID = {
    'read': 'marked: where the check read the numbers',
    'computed': 'marked: where the check read the numbers of which it computes the metric',
    'none': 'the check found no number of the metric in it',
    'unknown': 'which lines the numbers come from is not known',
}
_Files = Iterator[tuple[str, Callable[[], bytes]]]  # (name below the folder of the job, function that reads the file)


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
    search = _Search(wanted, failed)
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode='r:') as archive:
            search.read(_files(archive, ','.join(nodes)))
    except (tarfile.TarError, ValueError) as error:
        problem = problem or _damaged(error)
    parts = search.parts()
    return Excerpt(parts, problem or ('' if parts else 'Its programs printed nothing.'), len(content))


# The archive


def _unpacked(path: Path) -> tuple[bytes, str]:
    """Return at most `MOST_READ` bytes of an archive, and a sentence if there are more or if it is damaged."""
    content, problem = bytearray(), ''
    try:
        with gzip.open(path) as stream:
            # to the checksum at its end: a flipped bit shows another text, or none
            while len(content) <= MOST_READ and (part := stream.read(_AT_ONCE)):
                content += part
    except (OSError, EOFError, zlib.error) as error:
        problem = _damaged(error)
    if len(content) > MOST_READ:
        problem = f'Of its archive only the first {MOST_READ // 2**20} MiB were read.'
    return bytes(content[:MOST_READ]), problem


def _damaged(error: Exception) -> str:
    """Return a sentence on an archive that cannot be read."""
    why = ' '.join(str(error).split())[:WIDTH] or type(error).__name__
    return f'The output may be wrong or not complete: its archive is damaged or cannot be read: {why}.'


def _files(archive: tarfile.TarFile, place: str) -> _Files:
    """Yield the files of a job, in the order in which they were packed; of a node sweep only those of `place`."""
    for member in archive:
        name, of_place = member.name.partition('/')[2], f'places/{place}'
        if not member.isreg() or member.issparse() or (name.startswith('places/') and not name.startswith(of_place)):
            continue
        if name == f'{of_place}.tar':
            with tarfile.open(fileobj=io.BytesIO(_content(archive, member)), mode='r:') as packed:
                for inner in sorted(packed.getmembers(), key=lambda inner: inner.name):
                    if inner.isreg() and not inner.issparse():
                        yield inner.name.removeprefix('./'), partial(_content, packed, inner)
        else:
            yield name.removeprefix(f'{of_place}/'), partial(_content, archive, member)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the bytes of a file in an archive."""
    stream = archive.extractfile(member)
    return stream.read() if stream else b''


class _Run(NamedTuple):
    """One execution of a program: its folder, the number of its trial, and its files by name."""

    folder: str
    trial: int
    files: dict[str, bytes]

    @property
    def failed(self) -> bool:
        """True if the program failed, or was still running when its job ended."""
        return self.files.get('exit_code', b'').strip() != b'0'


class _Search:
    """The search for the runs with the wanted metrics."""

    def __init__(self, wanted: Sequence[Wanted], failed: bool):
        self.wanted, self.failed = wanted, failed
        self.lines: Lines = {}  # the lines of which the check noted that it read them
        self.noted: dict[str, set[str]] = {}  # run, trial or '' for all -> metrics that were read there
        self.left = list(wanted)
        self.runs: list[_Run] = []
        self.last: list[_Run] = []  # shown if no run has a wanted metric
        self.job: dict[str, bytes] = {}

    def read(self, files: _Files) -> None:
        """Read the files until everything that is wanted is found."""
        for folder, of in groupby(files, key=lambda file: file[0].rpartition('/')[0]):
            names = _OF_RUN if folder else (NUMBERS, *_OF_JOB)
            own = {
                name.rpartition('/')[2]: content()
                for name, content in of
                if name.rpartition('/')[2] in names or name in self.lines
            }
            if match := _RUN.fullmatch(folder):
                self._keep(_Run(folder, int(match[1]), own))
            elif not folder:
                self._note(own.pop(NUMBERS, b'{}'))
                self.job |= own
            if self.lines and not self.left and not self.failed:
                return

    def _note(self, content: bytes) -> None:
        """Note the lines that the check read, from its file of numbers."""
        with suppress(RecordError):  # without it no line is marked
            self.lines |= read_numbers(content)
        for file, of in self.lines.items():
            for part in (file.rpartition('/')[0], file.partition('/')[0], ''):
                self.noted.setdefault(part, set()).update(of)

    def _keep(self, run: _Run) -> None:
        """Keep a run that has a wanted metric, or that failed."""
        here, trial, every = (self.noted.get(part, set()) for part in (run.folder, f'trial_{run.trial}', ''))
        own = [metric for metric in self.left if metric.trial in (None, run.trial)]
        hits = {
            metric
            for metric in own
            if metric.name in here or metric.name not in (every if metric.trial is None else trial)
        }
        if hits or (self.failed and run.failed):
            self.runs.append(run)
        self.last = [run]
        self.left = [metric for metric in self.left if metric not in hits or metric.name not in here]

    def parts(self) -> list[Passage]:
        """Return the lines of the outputs and the ends of standard error.

        If no program printed, the errors of the job.
        """
        outputs = [(run, self._output(run)) for run in self.runs or self.last]
        outputs.sort(key=lambda of: (not (self.failed and of[0].failed), not of[1].marks, self._rank(of[1])))
        parts, room = [], MOST_LINES
        for run, output in outputs[:RUNS]:
            part = output.part(room)
            room -= len(part.lines)
            parts += [part, _end(f'{run.folder}/stderr', run.files.get('stderr', b''), LAST_ERRORS)]
        if not any(part.lines for part in parts):
            parts = [_end(name, self.job.get(name, b''), LAST_ERRORS) for name in _OF_JOB]
        return [part for part in parts if part.lines]

    def _rank(self, output: _MarkedFile) -> int:
        """Return the index of the first wanted metric that an output has."""
        return next((i for i, metric in enumerate(self.wanted) if metric.name in output.marks), len(self.wanted))

    def _output(self, run: _Run) -> _MarkedFile:
        """Return the output of a run with its marked lines."""
        read = {file: of for file, of in self.lines.items() if file.startswith(f'{run.folder}/')}
        file, noted = next(iter(read.items()), (f'{run.folder}/stdout', {}))
        lines = _lines(run.files.get(file.rpartition('/')[2], b''))
        own = [metric for metric in self.wanted if metric.trial in (None, run.trial)]
        marks, how = {metric.name: noted[metric.name] for metric in own or self.wanted if metric.name in noted}, 'read'
        if not marks and noted and own and self.noted[''].isdisjoint(metric.name for metric in own):
            every = sorted({line for of in noted.values() for line in of})
            marks, how = {metric.name: every for metric in own}, 'computed'
        if not marks:
            how = 'none' if file in read and all(metric.lost for metric in own) else 'unknown'
        return _MarkedFile(file, lines, marks, how)


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


def _end(name: str, content: bytes, most: int) -> Passage:
    """Return the last `most` lines of a file."""
    lines = _lines(content)
    last = range(max(1, len(lines) - most + 1), len(lines) + 1)
    caption = f'{name}, {f"the last {most} of " if len(lines) > most else ""}{count(len(lines), "line")}'
    return Passage(caption, [(line, _shown(lines[line - 1])) for line in last])


def _lines(content: bytes) -> list[str]:
    """Return the lines of a file as a check reads them, without empty lines at the end."""
    return plain(content.decode('utf-8', errors='replace')).rstrip('\n').split('\n') if content.strip() else []


def _shown(line: str) -> str:
    """Return a line that is safe to show: cut to `WIDTH`, without control characters."""
    text = ''.join(letter if letter.isprintable() else '\ufffd' for letter in line[: WIDTH + 1].expandtabs().rstrip())
    return text if len(text) <= WIDTH else f'{text[:WIDTH]} ...'

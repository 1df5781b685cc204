# SPDX-License-Identifier: BSD-3-Clause
"""Notes by persons on the incidents of a site: ``<results>/incidents/<site>.jsonl``, a line for each, never changed."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from plumbline import clock
from plumbline.errors import InputError
from plumbline.files import make_folder, open_own
from plumbline.identity import SeriesId, to_text

What = Literal['acknowledged', 'not acknowledged', 'merged', 'split', 'dated', 'closed']


@dataclass(frozen=True)
class Selection:
    """The part of an incident that becomes another one, by shell patterns of cases and metrics, or of nodes."""

    case: str = ''
    metric: str = ''
    node: str = ''

    def takes(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if the patterns select a series that was measured on `nodes`."""
        return self.takes_series(of) and (not self.node or any(map(self.takes_node, nodes)))

    def takes_series(self, of: SeriesId) -> bool:
        """Return True if `case` matches the check, the check and params, or the case.

        And `metric` the metric, with dims or not.
        """
        of_case = _matches(self.case, of.check, f'{of.check} {to_text(of.params)}', str(of.case))
        return of_case and _matches(self.metric, of.metric, of.name)

    def takes_node(self, node: str) -> bool:
        """Return True if the pattern selects the node; without a pattern of nodes, all nodes are selected."""
        return _matches(self.node, node)

    def __str__(self) -> str:
        """Return the patterns as text: ``case Osu*, node n3``."""
        return ', '.join(f'{name} {pattern}' for name, pattern in asdict(self).items() if pattern)


def _matches(pattern: str, *texts: str) -> bool:
    """Return True if a pattern is empty or matches one of `texts`."""
    return not pattern or pattern in texts or any(fnmatchcase(text, pattern) for text in texts)


class Began(NamedTuple):
    """When an incident began: the day, the first session since then, and the number of sessions until it was found.

    `without`: of a part, the sessions that showed the rest only.
    """

    day: str
    session: str
    sessions: int
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note:
    """What a person noted on the incidents `ids`, why, who it was, and on which day (UTC).

    `after`: the last night of the ledger then, as `fold.Night.key` names it; the note counts from there on.
    `until`: the last day of an acknowledgement. `part`: what is split off; `made`: id of the incident that this part
    became. `began`: by id of an incident or part, when it began; `was`: the day that was found.
    """

    what: What
    ids: tuple[str, ...]
    why: str
    by: str
    day: str
    after: str
    until: str = ''
    part: Selection = Selection()
    made: str = ''
    began: Mapping[str, Began] = field(default_factory=dict, hash=False)
    was: str = ''


def noted(what: What, ids: Sequence[str], why: str, after: str, **more: Any) -> Note:
    """Return a note by the present user, today. Raises InputError for an empty reason."""
    return Note(what, tuple(ids), reason(why), user(), f'{clock.now():%Y-%m-%d}', after, **more)


def reason(why: str) -> str:
    """Return the reason of a person on one line. Raises InputError for an empty text."""
    if not why.strip():
        raise InputError('--why: expected a reason, found an empty text')
    return ' '.join(why.split())


def user() -> str:
    """Return the name of the user; empty if there is none, for example in a container."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return ''


def path_of(results: Path, site: str) -> Path:
    """Return the file of the notes of a site."""
    return results / 'incidents' / f'{site}.jsonl'


def sites(results: Path) -> list[str]:
    """Return the sites with notes."""
    return sorted(path.stem for path in (results / 'incidents').glob('*.jsonl'))


def read(results: Path, site: str) -> list[Note]:
    """Return the notes of a site, the oldest first.

    The rest of a note whose writer was killed, a last line without its end, is no note. Raises InputError for another
    line that is not as it was written; without its ``digest`` a line is read as it is.
    """
    path = path_of(results, site)
    try:
        lines = path.read_bytes().split(b'\n')[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    notes = []
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            if (digest := values.pop('digest', None)) and digest != _digest(values):
                raise ValueError('it is not as it was written')
            if unknown := values.keys() - Note.__dataclass_fields__.keys():
                raise ValueError(f'of what this version does not know: {", ".join(sorted(unknown))}')
            notes.append(msgspec.convert(values, Note))
        except (AttributeError, ValueError) as error:
            what = f'line {number} is not a note on incidents, or damaged ({error})'
            raise InputError(f'{path}: {what}: repair or remove it') from None
    return notes


def append(results: Path, site: str, note: Note) -> None:
    """Write a note, in one piece, behind the others. Raises InputError."""
    path = path_of(results, site)
    read(results, site)  # behind a damaged line, nothing is written
    try:
        make_folder(path.parent)
        with open_own(path, 'a+') as stream:
            half = _end_of_whole_lines(path)
            if half:
                os.ftruncate(stream.fileno(), os.fstat(stream.fileno()).st_size - half)
            stream.write(to_line(note))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f'{path}: cannot be written: {error.strerror}') from None


def to_line(note: Note) -> str:
    """Return the line of a note."""
    values = msgspec.to_builtins(note)
    return json.dumps({'digest': _digest(values), **values}, ensure_ascii=False) + '\n'


def _end_of_whole_lines(path: Path) -> int:
    """Return the number of bytes behind the last whole line, which a killed writer left."""
    return len(path.read_bytes().rpartition(b'\n')[2])


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of a note, by which a changed bit is found where the line is still JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

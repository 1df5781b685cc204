# SPDX-License-Identifier: BSD-3-Clause
"""Notes by persons on the incidents of a site: ``<results>/incidents/<site>.jsonl``, a line for each, never changed."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

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

    Half a line at the end, of a writer that was killed, is no note. Raises InputError for another line that is not as
    it was written; without its ``digest`` a line is read as it is.
    """
    path = path_of(results, site)
    *lines, last = _content(path).split(b'\n')
    notes = []
    for number, line in enumerate(lines, 1):
        try:
            notes.append(_from_line(line))
        except ValueError as error:
            what = f'line {number} is not a note on incidents, or damaged ({error})'
            raise InputError(f'{path}: {what}: repair or remove it') from None
    with suppress(ValueError):
        notes.append(_from_line(last))
    return notes


def _content(path: Path) -> bytes:
    """Return the content of a file; nothing if it is not there. Raises InputError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b''
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None


def _from_line(line: bytes) -> Note:
    """Return the note of a line. Raises ValueError."""
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError('expected names and values')
    if (digest := values.pop('digest', None)) and digest != _digest(values):
        raise ValueError('it is not as it was written')
    if unknown := values.keys() - Note.__dataclass_fields__.keys():
        raise ValueError(f'of what this version does not know: {", ".join(sorted(unknown))}')
    return msgspec.convert(values, Note)


def append(results: Path, site: str, note: Note) -> None:
    """Write a note, in one piece, behind the others. Raises InputError."""
    path = path_of(results, site)
    read(results, site)  # behind a damaged line, nothing is written
    last = _content(path).rpartition(b'\n')[2]
    line = to_line(note)
    try:
        make_folder(path.parent)
        with open_own(path, 'a+') as stream:
            if last:
                try:
                    _from_line(last)
                    line = f'\n{line}'  # as an editor left it
                except ValueError:  # half a line of a writer that was killed
                    os.ftruncate(stream.fileno(), os.fstat(stream.fileno()).st_size - len(last))
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f'{path}: cannot be written: {error.strerror}') from None


def to_line(note: Note) -> str:
    """Return the line of a note."""
    values = msgspec.to_builtins(note)
    return json.dumps({'digest': _digest(values), **values}, ensure_ascii=False) + '\n'


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of a note, by which a changed bit is found where the line is still JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]

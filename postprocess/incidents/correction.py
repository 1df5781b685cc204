# SPDX-License-Identifier: BSD-3-Clause
"""Corrections of incidents by a person: several are one, a part is another incident, or it began on another day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from plumbline.identity import SeriesId, to_text


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
        """Return True if `case` matches the check, with params or not, or the case, and `metric` the metric."""
        return _matches(self.case, of.check, f'{of.check} {to_text(of.params)}', str(of.case)) and _matches(
            self.metric, of.metric, of.name
        )

    def takes_node(self, node: str) -> bool:
        """Return True if the pattern selects the node; without a pattern of nodes, all nodes are selected."""
        return _matches(self.node, node)

    def __str__(self) -> str:
        """Return the patterns as text: ``case Osu*, node n3``."""
        return ', '.join(f'{name} {pattern}' for name, pattern in asdict(self).items() if pattern)


def _matches(pattern: str, *texts: str) -> bool:
    """Return True if a pattern is empty or matches one of `texts`."""
    return not pattern or pattern in texts or any(fnmatchcase(text, pattern) for text in texts)


@dataclass(frozen=True)
class Began:
    """When an incident began: the day, the first session since then, and the number of sessions until it was found."""

    day: str
    session: str
    sessions: int


@dataclass(frozen=True)
class Was:
    """An incident before a correction: its title, the day and session in which it began, and what changed then."""

    id: str
    said: str
    day: str
    session: str
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """What a person did to an incident (``merged``, ``split`` or ``dated``), why, who it was, and on which day (UTC).

    `before`: the incidents before the correction. `made`: id of the incident that a part became. `part`: the part in
    words.
    """

    what: str
    why: str
    by: str
    day: str
    before: tuple[Was, ...]
    made: str = ''
    part: str = ''

    def says(self, id: str) -> str:
        """Return a sentence on what was done, from the view of the incident `id`."""
        first, *others = self.before
        if self.what == 'merged':
            which = f' with {", ".join(f"{one.id} ({one.said})" for one in others)}'
        elif self.what == 'dated':
            which = f', before: since {first.day}'
        else:
            which = f' from {first.id}, {self.part}' if id == self.made else f', {self.part} is {self.made}'
        return f'{self.what} on {self.day}{f" by {self.by}" if self.by else ""}{which}: {self.why}'


def from_dict(values: Mapping[str, Any]) -> Correction:
    """Return the correction that `dataclasses.asdict` converted. Raises KeyError or TypeError."""
    before = tuple(Was(**{**was, 'changed': tuple(was['changed'])}) for was in values['before'])
    return Correction(**{**values, 'before': before})

# SPDX-License-Identifier: BSD-3-Clause
"""What a person corrected of incidents: several are one, a part is another one, it began on another day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from plumbline.identity import SeriesId, to_text
from plumbline.renames import every_id


@dataclass(frozen=True)
class Selection:
    """Which part of an incident is another one, by shell patterns: of cases and metrics, or of nodes.

    An empty pattern selects all.
    """

    case: str = ''
    metric: str = ''
    node: str = ''

    def takes(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if the part holds a series that was measured on some nodes."""
        return self.takes_series(of) and (not self.node or any(map(self.takes_node, nodes)))

    def takes_series(self, of: SeriesId) -> bool:
        """Return True for the check, for check and params, or for the case, and for the metric with its dims or not.

        The names from before a rename count, too.
        """
        return any(
            _matches(self.case, one.check, f'{one.check} {to_text(one.params)}', str(one.case))
            and _matches(self.metric, one.metric, one.name)
            for one in every_id(of)
        )

    def takes_node(self, node: str) -> bool:
        """Return True for each node where no pattern of nodes is given."""
        return _matches(self.node, node)

    def __str__(self) -> str:
        """Return ``case Osu*, node n3``."""
        return ', '.join(f'{name} {pattern}' for name, pattern in asdict(self).items() if pattern)


def _matches(pattern: str, *texts: str) -> bool:
    return not pattern or pattern in texts or any(fnmatchcase(text, pattern) for text in texts)


@dataclass(frozen=True)
class Began:
    """The day on which an incident began, the first session since then, and how many there were until it was found."""

    day: str
    session: str
    sessions: int


@dataclass(frozen=True)
class Was:
    """What an incident was before a correction: what it said, the day and session in which it began, what changed."""

    id: str
    said: str
    day: str
    session: str
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """What was done to an incident (``merged``, ``split`` or ``dated``), why, who did it on which day (UTC).

    `before`: the incidents as they were. `made`: the incident that a part became. `part`: which part that is, in words.
    """

    what: str
    why: str
    by: str
    day: str
    before: tuple[Was, ...]
    made: str = ''
    part: str = ''

    def says(self, id: str) -> str:
        """Return in a sentence what the correction did to one of its incidents."""
        first, *others = self.before
        if self.what == 'merged':
            which = f' with {", ".join(f"{one.id} ({one.said})" for one in others)}'
        elif self.what == 'dated':
            which = f', before: since {first.day}'
        else:
            which = f' from {first.id}, {self.part}' if id == self.made else f', {self.part} is {self.made}'
        return f'{self.what} on {self.day}{f" by {self.by}" if self.by else ""}{which}: {self.why}'


def from_dict(values: Mapping[str, Any]) -> Correction:
    """Return what `dataclasses.asdict` made. Raises KeyError or TypeError."""
    before = tuple(Was(**{**one, 'changed': tuple(one['changed'])}) for one in values['before'])
    return Correction(**{**values, 'before': before})

# SPDX-License-Identifier: BSD-3-Clause
"""What the sessions show of one cause: which nodes are bad or healthy in each, and whether a node has healed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple

from plumbline.causes import Code
from plumbline.identity import SeriesId, natural
from postprocess.incidents.incident import PLACES, Incident
from postprocess.incidents.notes import Selection

#: Largest chance that an incident is not over when it is closed.
_NOT_OVER = Fraction(1, 25)
#: Days after its last bad session in which a fault that was closed, and is shown again, is the same one: a month.
_RETURNS = timedelta(days=31)


@dataclass(frozen=True)
class Seen:
    """What one session shows of an incident. `bad`, `healthy`: nodes, or one empty name if the incident has no nodes.

    `loss`, `interval`: pooled over all its series. `worst`: see `Incident.worst`. `booted`: True if it was the first
    session after a boot of these nodes, or of most of its partition. `code`: of the cause.
    """

    started: str
    bad: tuple[str, ...]
    healthy: tuple[str, ...]
    loss: float | None = None
    interval: tuple[float, float] | None = None
    worst: tuple[float, float] | None = None
    booted: bool = False
    code: Code | None = None

    @property
    def day(self) -> str:
        """The day of the session, UTC."""
        return self.started[:10]


class Course(NamedTuple):
    """The course of an incident on a node: `bad` of `of` sessions up to the last bad one.

    `healthy`: days of those after it. `needed`: so many of them end it.
    """

    bad: int
    of: int
    healthy: tuple[str, ...]
    needed: int

    @property
    def healed(self) -> str:
        """The day on which the node had healed; empty if it has not."""
        return self.healthy[self.needed - 1] if len(self.healthy) >= self.needed else ''


@cache
def _healthy_needed(bad: int, of: int) -> int:
    """Return the healthy sessions in a row that a fault of `bad` of `of` sessions shows with a chance below 4 %.

    (1 - (b + 1) / (N + 2)) ** h < 0.04, with Laplace's estimate of the frequency from b bad of N sessions. That is
    3 after one bad session, 2 after five bad sessions in a row, 6 after two bad sessions of five.
    """
    chance = 1 - Fraction(bad + 1, of + 2)  # exact, so that a fifth squared is not below a twenty-fifth
    healthy = max(int(math.log(_NOT_OVER) / math.log(chance)) - 1, 1)
    while chance**healthy >= _NOT_OVER:
        healthy += 1
    return healthy


@dataclass(frozen=True)
class Part:
    """A cause over sessions: an incident of the ledger has one part, or several that a person merged.

    `incident`: as the last bad session shows it. `seen`: by session, in the order of their time; one at least is bad.
    `accepted`: True if a person recorded its level as the expected one, so that one healthy session closes it. `dated`:
    True if a person said when it began. `back`: the session that showed it again after it had healed; empty if none
    did. `only`, `without`: it has the series that all selections of `only` and none of `without` match.
    """

    id: str
    incident: Incident
    seen: dict[str, Seen] = field(default_factory=dict)
    accepted: bool = False
    dated: bool = False
    back: str = ''
    only: tuple[Selection, ...] = ()
    without: tuple[Selection, ...] = ()

    @property
    def key(self) -> str:
        """The name of what a session looks at: the rest of a split incident has the id of the whole."""
        return ' '.join([self.id, *(f'without {by}' for by in self.without)])

    @property
    def first(self) -> str:
        """The session that found it."""
        return next(iter(self.seen))

    @cached_property
    def bad(self) -> list[Seen]:
        """The entries of the sessions that show it."""
        return [entry for entry in self.seen.values() if entry.bad]

    @property
    def present(self) -> list[Seen]:
        """The entries of the sessions that show it, since it came back if it had healed."""
        names = list(self.seen)
        since = names.index(self.back) if self.back in self.seen else 0
        return [self.seen[name] for name in names[since:] if self.seen[name].bad]

    def takes(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True unless a person has assigned this series on these nodes to another incident."""
        nodes = list(nodes)
        return all(by.takes(of, nodes) for by in self.only) and not any(by.takes(of, nodes) for by in self.without)

    def holds(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if it has this series, measured on one of its nodes."""
        nodes = list(nodes)
        return self.incident.holds(of, nodes) and self.takes(of, nodes)

    def likeness(self, tonight: Incident) -> float:
        """Return how similar it is to `tonight`, an incident of a session; 0 if they are different incidents."""
        if (self.only or self.without) and not any(self.takes(of, tonight.nodes) for of in tonight.series):
            return 0.0
        return likeness(self.incident, tonight)

    @property
    def suspected(self) -> bool:
        """True if it is not certain and only one session shows it."""
        return not self.incident.certain and len(self.bad) < 2

    @cached_property
    def courses(self) -> dict[str, Course]:
        """The course on each node; without nodes, of one empty name."""
        at_once = self.incident.sort == 'session' or self.suspected or self.accepted
        courses: dict[str, Course] = {}
        last: dict[str, str] = {}
        for entry in self.seen.values():
            for name in entry.bad:
                bad, of, healthy, needed = courses.get(name, Course(0, 0, (), 1))
                if len(healthy) >= needed and not returns(last[name], entry.day):
                    bad, of, healthy = 0, 0, ()  # the node had healed: a new fault
                bad, of, last[name] = bad + 1, of + len(healthy) + 1, entry.day
                courses[name] = Course(bad, of, (), 1 if at_once else _healthy_needed(bad, of))
            for name in entry.healthy:
                if name in courses and name not in entry.bad:
                    courses[name] = courses[name]._replace(healthy=(*courses[name].healthy, entry.day))
        return courses

    @property
    def unhealed(self) -> list[str]:
        """The nodes, or one empty name, that have not been healthy for enough sessions."""
        return sorted((name for name, course in self.courses.items() if not course.healed), key=natural)

    @property
    def returned(self) -> bool:
        """True if it came back on a node after a healthy session there."""
        return any(course.bad < course.of for course in self.courses.values())


def returns(last_bad: str, day: str) -> bool:
    """Return True if what was last bad on one day, and healed, is the same fault when it is bad on another `day`."""
    return date.fromisoformat(day) - date.fromisoformat(last_bad) <= _RETURNS


def likeness(known: Incident, tonight: Incident) -> float:
    """Return the similarity of a known incident and one of tonight; 0 if they are different incidents."""
    where, other = known.where, tonight.where
    if known.sort != tonight.sort or bool(where.nodes) != bool(other.nodes):
        return 0.0
    if known.sort == 'session':
        # a node that was lost in another way; other hardware is told by its text alone
        of_node = bool(where.nodes) and where.nodes == other.nodes and known.code == tonight.code == 'node-fail'
        return float(known.cause == tonight.cause or of_node)
    if where.nodes and not set(where.nodes) & set(other.nodes):
        return 0.0
    if any(
        getattr(where, name) and getattr(other, name) and getattr(where, name) != getattr(other, name)
        for name in PLACES
        if name != 'place' or set.isdisjoint(set(where.places), other.places)
    ):  # fmt: skip
        return 0.0
    if (where.device, where.link_class) != (other.device, other.link_class):
        return 0.0
    slow_node = known.sort == 'loss' and where.nodes  # whatever check met it
    if not slow_node and not set(known.checks) & set(tonight.checks):
        return 0.0
    cases = ({of.case for of in both.series} for both in (known, tonight))
    of_part = where.nodes or where.device or where.link_class or where.place
    if not of_part and set.isdisjoint(*cases):
        return 0.0  # another case of the same check
    shared = len(set(known.series) & set(tonight.series))
    named = all(of.metric != '*' for of in (*known.series, *tonight.series))
    return 0.0 if known.sort == 'failure' and named and not shared else 1.0 + shared


def begun(dated: Sequence[tuple[Part, str]], incident: Incident) -> str:
    """Return the session in which an incident began, if a person dated a known incident like it; else an empty text."""
    return next((session for part, session in dated if part.likeness(incident)), '')

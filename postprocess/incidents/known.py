# SPDX-License-Identifier: BSD-3-Clause
"""An incident of the ledger: what each session shows of it, and its state, which follows from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.identity import SeriesId, natural
from postprocess.incidents import STATES, State
from postprocess.incidents.incident import PLACES, Incident, Scope, in_names, pooled_of, together
from postprocess.incidents.notes import Began, Note, Selection
from postprocess.text import count

#: Largest chance that a closed incident is not over.
_NOT_OVER = Fraction(1, 100)
#: The factor of the loss, or of the number of nodes, at which an acknowledged incident counts as new again.
WORSE = 1.5


@dataclass(frozen=True)
class Seen:
    """What one session shows of an incident. `bad`, `healthy`: nodes, or one empty name if the incident has no nodes.

    `loss`, `interval`: pooled over all its series. `worst`: see `Incident.worst`.
    """

    started: str
    bad: tuple[str, ...]
    healthy: tuple[str, ...]
    loss: float | None = None
    interval: tuple[float, float] | None = None
    worst: tuple[float, float] | None = None

    @property
    def day(self) -> str:
        """The day of the session, UTC."""
        return self.started[:10]


class Acknowledged(NamedTuple):
    """The note that acknowledged an incident, the entry of its last bad session then, and the number of series then."""

    note: Note
    seen: Seen
    series: int


class _Course(NamedTuple):
    """The course of an incident on a node: `bad` of `of` sessions up to the last bad one.

    `healthy`: days of those after it.
    """

    bad: int
    of: int
    healthy: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """The number of healthy sessions in a row after which the fault is over."""
        return _healthy_needed(self.bad, self.of)


@cache
def _healthy_needed(bad: int, of: int) -> int:
    """Return the healthy sessions in a row that a fault of `bad` of `of` sessions shows with a chance below 1 %.

    (1 - (b + 1) / (N + 2)) ** h < 0.01, with Laplace's estimate of the frequency from b bad of N sessions. That is
    5 after one bad session, 3 after five bad sessions in a row, 10 after two bad sessions of five.
    """
    chance = 1 - Fraction(bad + 1, of + 2)  # exact, so that a tenth squared is not below a hundredth
    healthy = max(int(math.log(_NOT_OVER) / math.log(chance)) - 1, 1)
    while chance**healthy >= _NOT_OVER:
        healthy += 1
    return healthy


@dataclass(frozen=True)
class Known:
    """An incident in the ledger of `results`: as its last bad session shows it, and what each session shows.

    `accepted`: True if a person recorded its level as the expected one, so that one healthy session closes it.
    `before`: ids of similar incidents that were closed before it was found, the latest first. The other fields follow
    from notes by persons. `parts`: merged incidents, from which `incident` and `seen` are computed (`of_parts`).
    `only`, `without`: it has the series that all selections of `only` and none of `without` match. `dated`: when it
    began. `ended`: the day on which a person closed it. `corrections`: what was noted, in words.
    """

    id: str
    incident: Incident
    seen: dict[str, Seen] = field(default_factory=dict)
    acknowledged: Acknowledged | None = None
    accepted: bool = False
    before: tuple[str, ...] = ()
    results: Path = field(default=Path(), compare=False)
    parts: tuple[Known, ...] = ()
    only: tuple[Selection, ...] = ()
    without: tuple[Selection, ...] = ()
    dated: Began | None = None
    ended: str = ''
    corrections: tuple[tuple[Note, str], ...] = ()

    def __post_init__(self) -> None:
        if self.dated:  # a person's date overrides the date found from sessions
            day, session, sessions = self.dated.day, self.dated.session, self.dated.sessions
            object.__setattr__(self, 'incident', replace(self.incident, day=day, since=session, sessions=sessions))

    @property
    def key(self) -> str:
        """The name of what a session looks at: the rest of a split incident has the id of the whole."""
        return ' '.join([self.id, *(f'without {by}' for by in self.without)])

    @property
    def leaves(self) -> tuple[Known, ...]:
        """The parts of the incident, or the incident itself without parts: these are compared with sessions."""
        return self.parts or (self,)

    @property
    def told(self) -> list[Incident]:
        """The incidents that make up `incident`: its open parts, or `incident` itself without parts."""
        return [part.incident for part in _lasting(self.parts)] or [self.incident]

    @property
    def ids(self) -> set[str]:
        """The id of the incident, and the ids of the incidents that were merged into it."""
        return {self.id, *(part.id for part in self.parts)}

    def each(self, change: Callable[[Known], Known]) -> Known:
        """Return the incident with `change` applied to each of its parts, or to itself without parts."""
        return of_parts(self, [change(part) for part in self.parts]) if self.parts else change(self)

    def takes(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True unless a person has assigned this series on these nodes to another incident."""
        nodes = list(nodes)
        return all(by.takes(of, nodes) for by in self.only) and not any(by.takes(of, nodes) for by in self.without)

    def holds(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if the incident has this series, measured on one of its nodes."""
        nodes = list(nodes)
        return any(leaf.incident.holds(of, nodes) and leaf.takes(of, nodes) for leaf in self.leaves)

    def likeness(self, tonight: Incident) -> float:
        """Return how similar the incident is to `tonight`, an incident of a session.

        0 if they are different incidents.
        """
        if self.parts:
            return max(part.likeness(tonight) for part in self.parts)
        if (self.only or self.without) and not any(self.takes(of, tonight.nodes) for of in tonight.series):
            return 0.0
        return likeness(self.incident, tonight)

    @property
    def first(self) -> str:
        """The session that found the incident."""
        return next(iter(self.seen))

    @property
    def _bad(self) -> list[Seen]:
        """The entries of the sessions that show the incident."""
        return [entry for entry in self.seen.values() if entry.bad]

    @property
    def last_bad(self) -> Seen:
        """The entry of the last session that shows the incident."""
        return self._bad[-1]

    @property
    def last_day(self) -> str:
        """The day of the last session that says something of the incident."""
        return list(self.seen.values())[-1].day

    @property
    def sessions(self) -> int:
        """The number of sessions that show the incident, including sessions before it was found."""
        return self.incident.sessions + len(self._bad) - 1

    def is_new(self, day: str) -> bool:
        """Return True if the session of this day is the first that found it, or shows it worse than acknowledged."""
        before = replace(self, seen=dict(list(self.seen.items())[:-1]))
        shown = not self.healthy_for and self.last_bad.day >= day
        return shown and (not before._bad or (bool(self.worse()) and not before.worse()))

    @property
    def closed(self) -> str:
        """The day on which the incident was closed; empty if it is not closed."""
        if self.ended:
            return self.ended
        return '' if self.unhealed else max(course.healthy[of._needed(course) - 1] for of, _, course in self._courses)

    @property
    def unhealed(self) -> list[str]:
        """The nodes, or one empty name, that have not been healthy for enough sessions."""
        return sorted(
            {name for of, name, course in self._courses if len(course.healthy) < of._needed(course)}, key=natural
        )

    @property
    def closes_in(self) -> int:
        """The number of further healthy sessions that close the incident."""
        return max(0, *(of._needed(course) - len(course.healthy) for of, _, course in self._courses))

    @property
    def returned(self) -> bool:
        """True if the incident came back on a node after a healthy session there."""
        return any(course.bad < course.of for _, _, course in self._courses)

    @property
    def course(self) -> str:
        """The course in words: ``intermittent: bad in 6 of 14 sessions``.

        Empty if no session between bad ones was healthy.
        """
        return f'intermittent: bad in {len(self._bad)} of {count(len(self.seen), "session")}' if self.returned else ''

    @property
    def healthy_for(self) -> int:
        """The number of healthy sessions since the last bad one."""
        return next(i for i, entry in enumerate(reversed(self.seen.values())) if entry.bad)

    @property
    def _suspected(self) -> bool:
        """True if the incident is not certain and only one session shows it."""
        return not self.incident.certain and len(self._bad) < 2

    @property
    def _courses(self) -> list[tuple[Known, str, _Course]]:
        """(incident or part, node, course) for each node; without nodes, for one empty name."""
        if self.parts:
            return [course for part in self.parts for course in part._courses]
        courses: dict[str, _Course] = {}
        for entry in self.seen.values():
            for name in entry.bad:
                before = courses.get(name, _Course(0, 0))
                if before.bad and len(before.healthy) >= self._needed(before):  # the node had healed: a new fault
                    before = _Course(0, 0)
                courses[name] = _Course(before.bad + 1, before.of + len(before.healthy) + 1)
            for name in entry.healthy:
                if name in courses and name not in entry.bad:
                    courses[name] = courses[name]._replace(healthy=(*courses[name].healthy, entry.day))
        return [(self, name, course) for name, course in courses.items()]

    def _needed(self, course: _Course) -> int:
        """Return the number of healthy sessions that close the incident after a course."""
        return 1 if self.incident.sort == 'session' or self._suspected or self.accepted else course.needed

    def worse(self) -> str:
        """Return in words how the incident is worse than what was acknowledged; empty if it is not."""
        then, now = self.acknowledged, self.last_bad
        if then is None:
            return ''
        if further := sorted(set(now.bad) - set(then.seen.bad), key=natural):
            return f'not only {", ".join(then.seen.bad)}, but {", ".join(further)} too'
        if now.loss is not None and then.seen.loss is not None:
            beyond = now.interval and then.seen.interval and now.interval[0] > then.seen.interval[1]
            if beyond or now.loss > WORSE * then.seen.loss:
                return f'a loss of {100 * now.loss:.1f} %, acknowledged with {100 * then.seen.loss:.1f} %'
        if now.worst and then.seen.worst and now.worst[0] > WORSE * then.seen.worst[1]:
            most = f'{100 * then.seen.worst[1]:.1f} % at most'
            return f'a loss of {100 * now.worst[1]:.1f} % in one metric, acknowledged with {most}'
        if (n := len(self.incident.series)) > WORSE * then.series + 1:
            return f'{n} metrics, acknowledged with {then.series}'
        return ''

    def state(self, day: str) -> State:
        """Return the state of the incident on a day (``2026-11-22``), one of `STATES`."""
        if self.closed:
            return 'closed'
        if all(course.healthy for _, _, course in self._courses):
            return 'healing'
        if self._suspected:
            return 'suspected'
        if self.acknowledged and day <= self.acknowledged.note.until and not self.worse():
            return 'acknowledged'
        return 'intermittent' if self.returned else 'open'


def of_parts(known: Known, parts: Sequence[Known]) -> Known:
    """Return a merged incident computed from its `parts`; a part without sessions still attracts similar findings."""
    if not (found := shown(parts)):
        return replace(known, parts=tuple(parts), seen={})
    rows: dict[str, list[Seen]] = {}
    for part in found:
        for uuid, seen in part.seen.items():
            rows.setdefault(uuid, []).append(seen)
    whole = in_time({uuid: _as_one(entries) for uuid, entries in rows.items()})
    begun = min(found, key=lambda one: one.incident.day)
    # sessions that showed other parts before the first part was found are counted already
    before = sum(bool(entry.bad) for entry in whole.values() if entry.started < begun.seen[begun.first].started)
    now = replace(
        _at_all_places([lasting.incident for lasting in _lasting(parts)]),
        since=begun.incident.since, day=begun.incident.day, sessions=max(begun.incident.sessions - before, 1),
    )  # fmt: skip
    return replace(known, incident=now, seen=whole, parts=tuple(parts))


def shown(parts: Iterable[Known]) -> list[Known]:
    """Return the parts that at least one session shows."""
    return [part for part in parts if any(seen.bad for seen in part.seen.values())]


def _lasting(parts: Iterable[Known]) -> list[Known]:
    """Return the parts that are not healed; if all are healed, all parts that were seen."""
    found = shown(parts)
    return [part for part in found if part.unhealed] or found


def _at_all_places(incidents: Sequence[Incident]) -> Incident:
    """Return one incident for several of one sort, at the place that they share."""
    if len(incidents) == 1:
        return incidents[0]
    now, scopes = together(incidents), [incident.where for incident in incidents]
    common = {name: {getattr(of, name) for of in scopes} for name in (*PLACES, 'same_nodes')}
    nodes = now.where.nodes if all(of.nodes for of in scopes) else ()
    where = Scope(now.where.site, nodes=nodes, **{name: of.pop() for name, of in common.items() if len(of) == 1})
    kind = now.kind
    if len({incident.kind for incident in incidents}) > 1 or (kind == 'DEVICE' and not where.device):
        kind = 'NODE' if nodes else 'SYSTEM'
    loss, interval = pooled_of(incidents)
    return replace(
        now, kind=kind, where=where, loss=loss, interval=interval,
        certain=any(incident.certain for incident in incidents),
        changed=tuple(dict.fromkeys(what for incident in incidents for what in incident.changed)),
    )  # fmt: skip


def _as_one(rows: Sequence[Seen]) -> Seen:
    """Return one entry for the entries of one session on the parts of an incident."""
    bad = {name for entry in rows for name in entry.bad}
    loss, interval = pooled_of(entry for entry in rows if entry.bad)
    worst = max((entry.worst for entry in rows if entry.worst), key=lambda of: of[1], default=None)
    healthy = {name for entry in rows for name in entry.healthy} - bad
    return Seen(rows[0].started, in_names(bad), in_names(healthy), loss, interval, worst)


def likeness(known: Incident, tonight: Incident) -> float:
    """Return the similarity of a known incident and one of tonight; 0 if they are different incidents."""
    where, other = known.where, tonight.where
    if known.sort != tonight.sort or bool(where.nodes) != bool(other.nodes):
        return 0.0
    if known.sort == 'session':
        return float(known.cause == tonight.cause or bool(where.nodes and where.nodes == other.nodes))
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
    if known.sort == 'loss' and not of_part and set.isdisjoint(*cases):
        return 0.0  # another case of the same check
    shared = len(set(known.series) & set(tonight.series))
    named = all(of.metric != '*' for of in (*known.series, *tonight.series))
    return 0.0 if known.sort == 'failure' and named and not shared else 1.0 + shared


def in_time(seen: dict[str, Seen]) -> dict[str, Seen]:
    """Return the entries in the order of their sessions."""
    return dict(sorted(seen.items(), key=lambda item: (item[1].started, item[0])))


def in_order(known: Iterable[Known], day: str) -> list[Known]:
    """Return the incidents sorted by state, the worst first; of closed ones the last closed first."""

    def place(one: Known) -> tuple[Any, ...]:
        """Return the sort key of an incident."""
        state = one.state(day)
        closed = -date.fromisoformat(one.closed).toordinal() if state == 'closed' else 0
        return STATES.index(state), closed, -one.incident.severity, one.id

    return sorted(known, key=place)


def told_by(known: Iterable[Known]) -> Callable[[SeriesId, Sequence[str]], str]:
    """Return a function that takes a series and nodes and returns the id of their incident, empty without one.

    An incident with nodes of its own has precedence over one with more nodes or without; closed ones do not count.
    """
    of_series: dict[SeriesId, list[Known]] = {}
    lasting = (incident for incident in known if not incident.closed)
    for one in sorted(lasting, key=lambda one: len(one.incident.own_nodes) or math.inf):
        for of in one.incident.series:
            of_series.setdefault(of, []).append(one)

    def found(of: SeriesId, nodes: Sequence[str]) -> str:
        """Return the id of the incident with this series on these nodes."""
        return next((incident.id for incident in of_series.get(of, ()) if incident.holds(of, nodes)), '')

    return found


def last_day(known: Iterable[Known]) -> str:
    """Return the day of the last session with an entry in any of the incidents; empty without one."""
    return max((seen.day for incident in known for seen in incident.seen.values()), default='')

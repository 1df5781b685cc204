# SPDX-License-Identifier: BSD-3-Clause
"""An incident of the ledger, of one part or of several that a person merged, and its state, which follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

from plumbline.identity import SeriesId, natural
from postprocess.incidents import STATES, State
from postprocess.incidents.incident import PLACES, Incident, Scope, in_names, pooled_of, together
from postprocess.incidents.notes import Note
from postprocess.incidents.part import Course, Part, Seen
from postprocess.text import count

#: The factor of the loss, or of the number of nodes, at which an acknowledged incident counts as new again.
WORSE = 1.5
_PATTERN = 3  # fewest bad sessions with something in common that are no coincidence


class Acknowledged(NamedTuple):
    """The note that acknowledged an incident, and the entry of its last bad session and its series at that time."""

    note: Note
    seen: Seen
    series: tuple[SeriesId, ...]


@dataclass(frozen=True)
class Known:
    """An incident in the ledger.

    `before`: ids of similar incidents that were closed before it was found, the latest first. The other fields follow
    from notes by persons. `parts`: several if incidents were merged. `ended`: the day on which a person closed it, or
    on which the node was named that explains it. `corrections`: what was noted, in words.
    """

    id: str
    parts: tuple[Part, ...]
    acknowledged: Acknowledged | None = None
    before: tuple[str, ...] = ()
    ended: str = ''
    corrections: tuple[tuple[Note, str], ...] = ()

    @cached_property
    def seen(self) -> dict[str, Seen]:
        """What each session shows of all parts, in the order of their time."""
        rows: dict[str, list[Seen]] = {}
        for part in self.parts:
            for uuid, entry in part.seen.items():
                rows.setdefault(uuid, []).append(entry)
        whole = {uuid: _as_one(entries) for uuid, entries in rows.items()}
        return dict(sorted(whole.items(), key=lambda item: (item[1].started, item[0])))

    @cached_property
    def incident(self) -> Incident:
        """The incident as its last bad sessions show it, since its first part began."""
        found = {part.id: part.seen[part.first].started for part in self.parts}
        begun = min(self.parts, key=lambda part: (part.incident.day, found[part.id]))
        # sessions that showed other parts before the first part was found are counted already
        before = sum(bool(entry.bad) for entry in self.seen.values() if entry.started < found[begun.id])
        return replace(
            _at_all_places(self.told),
            since=begun.incident.since, day=begun.incident.day, sessions=max(begun.incident.sessions - before, 1),
        )  # fmt: skip

    @property
    def told(self) -> list[Incident]:
        """The incidents that make up `incident`: of its parts that are not healed, or of all."""
        return [part.incident for part in self.parts if part.unhealed] or [part.incident for part in self.parts]

    @property
    def ids(self) -> set[str]:
        """The id of the incident, and the ids of the incidents that were merged into it."""
        return {self.id, *(part.id for part in self.parts)}

    def holds(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if the incident has this series, measured on one of its nodes."""
        nodes = list(nodes)
        return any(part.holds(of, nodes) for part in self.parts)

    def likeness(self, tonight: Incident) -> float:
        """Return how similar the incident is to `tonight`, an incident of a session; 0 if they are different."""
        return max(part.likeness(tonight) for part in self.parts)

    @property
    def corrected(self) -> list[str]:
        """A sentence for each correction by a person, the oldest first."""
        return [sentence for _, sentence in self.corrections]

    @property
    def first(self) -> str:
        """The session that found the incident."""
        return next(iter(self.seen))

    @property
    def bad(self) -> list[Seen]:
        """The entries of the sessions that show the incident."""
        return [entry for entry in self.seen.values() if entry.bad]

    @property
    def last_bad(self) -> Seen:
        """The entry of the last session that shows the incident."""
        return self.bad[-1]

    @property
    def last_day(self) -> str:
        """The day of the last session that says something of the incident."""
        return list(self.seen.values())[-1].day

    @property
    def sessions(self) -> int:
        """The number of sessions that show the incident, including sessions before it was found."""
        return self.incident.sessions + len(self.bad) - 1

    def is_new(self, when: str) -> bool:
        """Return True if the session of this time is the first that found it, or shows it worse than acknowledged.

        `when`: the time of a session, or a day, which stands for all its sessions.
        """
        shown = not self.healthy_for and self.last_bad.started >= when
        return shown and (not self.bad[1:] or (bool(self.worse()) and not self._worse_at(self.bad[-2])))

    @property
    def _courses(self) -> list[Course]:
        """The course of each part on each of its nodes."""
        return [course for part in self.parts for course in part.courses.values()]

    @cached_property
    def closed(self) -> str:
        """The day on which the incident was closed; empty if it is not closed."""
        return self.ended or ('' if self.unhealed else max(course.healed for course in self._courses))

    @property
    def unhealed(self) -> list[str]:
        """The nodes, or one empty name, that have not been healthy for enough sessions."""
        return sorted({name for part in self.parts for name in part.unhealed}, key=natural)

    @property
    def closes_in(self) -> int:
        """The number of further healthy sessions that close the incident."""
        return max(0, *(course.needed - len(course.healthy) for course in self._courses))

    @property
    def returned(self) -> bool:
        """True if the incident came back on a node after a healthy session there."""
        return any(part.returned for part in self.parts)

    @property
    def course(self) -> str:
        """The course in words: ``intermittent: bad in 6 of 14 sessions``.

        Empty if no session between bad ones was healthy. ``with maintenance`` if three bad sessions or more were the
        first after a boot, and of all sessions that are either at least three of four are both.
        """
        if not self.returned:
            return ''
        often = f'bad in {len(self.bad)} of {count(len(self.seen), "session")}'
        both = sum(entry.booted for entry in self.bad)
        either = sum(bool(entry.booted or entry.bad) for entry in self.seen.values())
        if both < _PATTERN or 4 * both < 3 * either:
            return f'intermittent: {often}'
        after = f'in the first session after a boot on {both} of {len(self.bad)} occasions'
        return f'intermittent, with maintenance: {often}, {after}'

    @property
    def healthy_for(self) -> int:
        """The number of healthy sessions since the last bad one."""
        return next(i for i, entry in enumerate(reversed(self.seen.values())) if entry.bad)

    def worse(self) -> str:
        """Return in words how the incident is worse than what was acknowledged; empty if it is not."""
        return self._worse_at(self.last_bad)

    def _worse_at(self, now: Seen) -> str:
        """Return how what a session shows is worse than what was acknowledged."""
        then = self.acknowledged
        if then is None:
            return ''
        if further := sorted(set(now.bad) - set(then.seen.bad), key=natural):
            return f'not only {", ".join(then.seen.bad)}, but {", ".join(further)} too'
        if now.code and then.seen.code and now.code != then.seen.code:
            return f'another cause ({now.code}), acknowledged with {then.seen.code}'
        if now.loss is not None and then.seen.loss is not None:
            beyond = now.interval and then.seen.interval and now.interval[0] > then.seen.interval[1]
            if beyond or now.loss > WORSE * then.seen.loss:
                return f'a loss of {100 * now.loss:.1f} %, acknowledged with {100 * then.seen.loss:.1f} %'
        if now.worst and then.seen.worst and now.worst[0] > WORSE * then.seen.worst[1]:
            most = f'{100 * then.seen.worst[1]:.1f} % at most'
            return f'a loss of {100 * now.worst[1]:.1f} % in one metric, acknowledged with {most}'
        if other := self._beside(then.series):
            return other
        if (n := len(self.incident.series)) > WORSE * len(then.series) + 1:
            return f'{n} metrics, acknowledged with {len(then.series)}'
        return ''

    def _beside(self, acknowledged: Collection[SeriesId]) -> str:
        """Return in words what is bad beside acknowledged series and has a cause of its own; empty if nothing is known.

        Other cases that fail, and what lost on a node where all that was acknowledged is healthy again.
        """
        now = self.incident
        if now.sort == 'failure' and not now.own_nodes:
            cases = {of.case for of in acknowledged}
            return next((f'{of.case} too' for of in now.series if of.case not in cases), '')
        if now.sort == 'loss' and now.where.nodes and set(now.values).isdisjoint(acknowledged):
            return next((f'{of.what}, and what was acknowledged is healthy' for of in now.values), '')
        return ''

    def state(self, when: str) -> State:
        """Return the state of the incident on a day, of which `when` may be a time (``2026-11-22T04:00:00``)."""
        if self.closed:
            return 'closed'
        if all(course.healthy for course in self._courses):
            return 'healing'
        if not self.incident.certain and not self.bad[1:]:
            return 'suspected'
        if self.acknowledged and when[:10] <= self.acknowledged.note.until and not self.worse():
            return 'acknowledged'
        return 'intermittent' if self.returned else 'open'


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
    if len(rows) == 1:
        return rows[0]
    bad = {name for entry in rows for name in entry.bad}
    loss, interval = pooled_of(entry for entry in rows if entry.bad)
    worst = max((entry.worst for entry in rows if entry.worst), key=lambda of: of[1], default=None)
    healthy = {name for entry in rows for name in entry.healthy} - bad
    booted = any(entry.booted for entry in rows)
    codes = {entry.code for entry in rows if entry.bad}
    code = codes.pop() if len(codes) == 1 else None
    return Seen(rows[0].started, in_names(bad), in_names(healthy), loss, interval, worst, booted, code)


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

# SPDX-License-Identifier: BSD-3-Clause
"""The ledger as a fold: the incidents of a site follow from what each session shows and from the notes of persons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from plumbline.identity import SeriesId
from postprocess.incidents.incident import Incident, Lossy, Scope, in_names, pooled_of, together
from postprocess.incidents.known import WORSE, Known
from postprocess.incidents.notes import Note
from postprocess.incidents.part import Part, Seen, returns
from postprocess.incidents.splits import acknowledged, divided, new_id, sides, since
from postprocess.results.rows import Session


class Look(NamedTuple):
    """Of an incident known before a session: which nodes it shows bad and healthy, one empty name without nodes.

    `accepted`: True if a person recorded the level of the incident as the expected one. `well`: series of a loss that
    were measured where it was, and are healthy.
    """

    bad: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    accepted: bool = False
    well: tuple[SeriesId, ...] = ()


class Booted(NamedTuple):
    """The nodes that booted between the session before and this one, and the partitions of which most nodes did.

    An empty name stands for all partitions.
    """

    nodes: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def holds(self, where: Scope, names: Iterable[str]) -> bool:
        """Return True if this is so of most nodes in `names`; without nodes, of the partition of `where`."""
        nodes = set(filter(None, names))
        return 2 * len(nodes & set(self.nodes)) > len(nodes) if nodes else where.partition in self.partitions


@dataclass(frozen=True)
class NightFacts:
    """What a session shows beside its incidents: a look at known incidents and their parts, by their keys.

    `runs`: the number of its reports then. `ids`: of its incidents, by the id that each had if no session told it
    before, so that ids stay when sessions come or go. `absent`: nodes that were measured lately, but not tonight.
    `fault`: why nodes and stand-ins could not be compared; empty if they were. `booted`: which nodes had booted.
    """

    runs: int = 0
    looks: dict[str, Look] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    fault: str = ''
    booted: Booted = field(default_factory=Booted)


@dataclass(frozen=True)
class Night:
    """What a session showed when it was judged: its own `incidents`, and `facts` beside them."""

    session: Session
    incidents: Sequence[Incident]
    facts: NightFacts = NightFacts()

    @property
    def key(self) -> str:
        """The place of the session among those of its site."""
        return self.session.key


@dataclass(frozen=True)
class Folded:
    """The incidents after some sessions: those that last, by id, and those that are closed, the first closed first."""

    lasting: Mapping[str, Known] = field(default_factory=dict)
    closed: tuple[Known, ...] = ()

    @property
    def known(self) -> list[Known]:
        """All incidents, the first found first."""
        return sorted((*self.closed, *self.lasting.values()), key=lambda one: (one.seen[one.first].started, one.id))

    @property
    def parts(self) -> list[Part]:
        """The parts of the incidents that last: these are compared with sessions."""
        return [part for one in self.lasting.values() for part in one.parts]

    @property
    def slow(self) -> dict[str, float]:
        """The nodes that are slow by themselves, as the last session that measured them showed, each with its loss.

        That is the loss of the series that lost most.
        """
        return {
            node: max(part.incident.loss or 0.0, (part.incident.worst or (0.0, 0.0))[1])
            for part in self.parts
            if part.incident.kind == 'NODE' and part.incident.sort == 'loss' and not part.suspected
            for node, course in part.courses.items()
            if node and not course.healthy
        }


def fold(events: Iterable[Night | Note], state: Folded) -> Folded:
    """Return the state after nights and notes, which are in the order of their time."""
    for event in events:
        state = after(state, event) if isinstance(event, Night) else with_note(state, event)
    return state


def in_turn(nights: Iterable[Night], notes: Iterable[Note]) -> Iterator[Night | Note]:
    """Yield nights, which are in order, and each note behind the last night that it knew."""
    waiting = sorted(notes, key=lambda note: note.after)  # stable: notes of one night stay in order
    for night in nights:
        while waiting and waiting[0].after < night.key:
            yield waiting.pop(0)
        yield night
    yield from waiting


# A session


def after(state: Folded, night: Night) -> Folded:
    """Return the state after a session.

    An incident of the session is the same as a known one, or as a part of it, if sort and scope are equal and they
    share checks; otherwise it is new. One that healed stays known for a month after it was last bad.
    """
    lasting, shown = _assigned(state, night)
    known = []
    for one in lasting.values():
        parts = tuple(_part_after(part, shown.get(part.id, ()), night) for part in one.parts)
        known.append(one if parts == one.parts else replace(one, parts=parts))
    return _sorted_out(state, known)


def told_as(state: Folded, night: Night) -> dict[str, str]:
    """Return the id of each incident of a session after a state, by the id that it had if no session told it before."""
    _, shown = _assigned(state, night)
    return {id_of(incident, night.session.session, set()): id for id, own in shown.items() for incident in own}


def _assigned(state: Folded, night: Night) -> tuple[dict[str, Known], dict[str, list[Incident]]]:
    """Return the incidents that last, with new ones, and what a session shows of each part, by its id."""
    lasting, parts = dict(state.lasting), state.parts
    shown: dict[str, list[Incident]] = {}
    for whole in night.incidents:
        for incident in divided(whole, parts):
            alike = (
                one
                for one in parts
                if not _apart(one.incident, incident, night.incidents) and not _is_over(one, incident, night)
            )
            like, id = max(((one.likeness(incident), one.id) for one in alike), default=(0.0, ''))
            if not like and (again := _returned(state.closed, incident, night.session.day)):
                known, id = again
                lasting[known.id] = replace(  # it was over, and so is what a person said of it
                    known, acknowledged=None,
                    parts=tuple(replace(part, back=night.session.session) for part in known.parts),
                )  # fmt: skip
            elif not like:
                taken = {id for one in (*state.closed, *lasting.values()) for id in one.ids}
                id = night.facts.ids.get(id_of(incident, night.session.session, set()), '')
                id = id if id and id not in taken else id_of(incident, night.session.session, taken)
                over = [one.id for one in reversed(state.closed) if one.likeness(incident)]
                lasting[id] = Known(id, (Part(id, incident),), before=tuple(over))
            shown.setdefault(id, []).append(incident)
    return lasting, shown


def lost_more(now: Lossy, known: Incident) -> bool:
    """Return True if a loss is surely larger than a known one, so that it has a cause of its own."""
    return now.interval is not None and now.interval[0] > WORSE * (known.loss or 0.0)


def _is_over(part: Part, incident: Incident, night: Night) -> bool:
    """Return True if most series of a loss of no node are healthy in a session, and `incident` lost more than that."""
    old, well = part.incident, night.facts.looks.get(part.key, Look()).well
    return not old.own_nodes and 2 * len(well) > len(old.series) and lost_more(incident, old)


def _returned(closed: Sequence[Known], incident: Incident, day: str) -> tuple[Known, str] | None:
    """Return the incident that healed last and is shown again on a `day`, and the id of its part; None without one.

    Not what a person closed or recorded as expected, problems of a session, nor what was only suspected.
    """
    for one in reversed(closed):
        if one.ended or incident.sort == 'session' or not returns(one.last_bad.day, day):
            continue
        alike = [part for part in one.parts if not (part.accepted or part.suspected) and part.likeness(incident)]
        if alike:
            return one, max(alike, key=lambda part: part.likeness(incident)).id
    return None


def _sorted_out(state: Folded, known: Sequence[Known]) -> Folded:
    """Return the state with the incidents `known` in place of those that lasted, and of closed ones that returned."""
    over = sorted((one for one in known if one.closed), key=lambda one: one.closed)
    lasting = {one.id: one for one in known if not one.closed}
    return Folded(lasting, (*(one for one in state.closed if one.id not in lasting), *over))


def _apart(known: Incident, incident: Incident, tonight: Iterable[Incident]) -> bool:
    """Return True if `incident` has some of the nodes of `known`, but a cause of its own.

    That is so if it lost significantly more, or if tonight also shows the place of `known`, such as a rack.
    """
    if not set(incident.where.nodes) < set(known.where.nodes):
        return False
    place = known.where.place
    if place and not incident.where.place and any(other.where.place == place for other in tonight):
        return True
    return bool(known.loss) and lost_more(incident, known)


def _part_after(part: Part, tonight: Sequence[Incident], night: Night) -> Part:
    """Return a part after a session that shows it as `tonight`."""
    look = night.facts.looks.get(part.key, Look())
    if not tonight:
        if look == Look():
            return part
        booted = night.facts.booted.holds(part.incident.where, look.bad or look.healthy)
        loss = part.bad[-1].loss if look.bad else None
        entry = Seen(night.session.time, look.bad, look.healthy, loss, booted=booted)
        seen = part.seen | ({night.session.session: entry} if look.bad or look.healthy else {})
        left = _without(part.incident, look.well) if look.bad else part.incident
        return replace(part, incident=left, accepted=part.accepted or look.accepted, seen=seen)
    now = together(tonight)
    bad = set(now.where.nodes) or {''}
    healthy = set(look.healthy) - bad if part.seen else set()
    booted = night.facts.booted.holds(now.where, bad)
    entry = Seen(
        night.session.time, in_names(bad), in_names(healthy), now.loss, now.interval, now.worst, booted, now.code
    )
    now = _continued(part, now, look.well) if part.seen else now
    part = replace(part, incident=now, seen=part.seen | {night.session.session: entry})
    if part.returned and (shown := [entry for entry in part.present if entry.loss is not None]):
        loss, interval = pooled_of(shown)  # the loss while the incident is present
        return replace(part, incident=replace(now, loss=loss, interval=interval))
    return part


def _without(incident: Incident, well: Collection[SeriesId]) -> Incident:
    """Return a loss without the values of the series that are healthy again; its size is that of the others."""
    values = {of: value for of, value in incident.values.items() if of not in well}
    if not well or len(values) == len(incident.values) or not incident.where.nodes:
        return incident
    loss, interval = pooled_of(value for value in values.values() if value.loss is not None and value.loss < 1)
    loss, interval = (incident.loss, incident.interval) if loss is None else (loss, interval)
    return replace(incident, values=values, loss=loss, interval=interval)


def _continued(part: Part, now: Incident, well: Collection[SeriesId]) -> Incident:
    """Return what a session shows of a known part, with what sessions before it showed; `well`: healthy series.

    What runs on a slow node is by chance, so all series that showed its loss stay, each with its last value: each may
    show that it is over, and the size is that of all.
    """
    old = _without(part.incident, well)
    if now.sort == 'loss' and now.where.nodes:
        values = {**old.values, **now.values}
        lost = [value for value in values.values() if value.loss is not None and value.loss < 1]
        loss, interval = pooled_of(lost) if len(values) > len(now.values) else (now.loss, now.interval)
        now = replace(
            now, checks=in_names({*now.checks, *old.checks}), series=tuple(dict.fromkeys((*now.series, *old.series))),
            values=values, loss=loss, interval=interval,
        )  # fmt: skip
    # a part of something may have begun later than that
    begin = old if part.dated or part.only or part.without or old.day <= now.day else now
    return replace(
        now, kind=old.kind if old.kind == 'SOFTWARE' else now.kind,
        changed=old.changed or now.changed, certain=old.certain or now.certain, sessions=old.sessions,
        since=begin.since, day=begin.day,
        where=replace(now.where, nodes=in_names({*now.where.nodes, *filter(None, part.unhealed)})),
    )  # fmt: skip


def id_of(incident: Incident, session: str, taken: set[str]) -> str:
    """Return the id of an incident that a session told first: judging it again gives the same."""
    return new_id(f'{incident.where} {incident.sort} {incident.checks} {incident.cause} {session}', taken)


# Notes


def with_note(state: Folded, note: Note) -> Folded:
    """Return the state after a note; one on incidents that do not last changes nothing."""
    found = [next((one for one in state.lasting.values() if id in one.ids), None) for id in note.ids]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(note.ids):
        return state
    return _sorted_out(state, [*(one for one in state.lasting.values() if one not in known), *_changed(note, *known)])


def _changed(note: Note, one: Known, *others: Known) -> list[Known]:
    """Return what a note makes of the incidents that it names."""
    if note.what == 'merged':
        return [_merged(note, [one, *others])]
    if note.what == 'split':
        return _split(note, one)
    if note.what == 'acknowledged':
        return [acknowledged(one, note)]
    if note.what == 'not acknowledged':
        return [_corrected(replace(one, acknowledged=None), note)]
    if note.what == 'closed':
        return [_corrected(replace(one, ended=one.last_day), note)]
    return [_dated(note, one)]


def _merged(note: Note, known: Sequence[Known]) -> Known:
    """Return the first incident with the parts of all."""
    first, *others = known
    before = dict.fromkeys(id for incident in known for id in incident.before)
    done = dict.fromkeys(correction for incident in known for correction in incident.corrections)
    parts = tuple(part for incident in known for part in incident.parts)
    whole = Known(first.id, parts, before=tuple(before), corrections=tuple(done))
    reasons = [incident.acknowledged.note for incident in known if incident.acknowledged]
    if len(reasons) == len(known):  # else someone acknowledged only a part of it
        why = '; '.join(dict.fromkeys(one.why for one in reasons))
        whole = acknowledged(whole, replace(min(reasons, key=lambda one: one.until), why=why))
    names = ', '.join(f'{one.id} ({one.incident.title})' for one in others)
    return _corrected(whole, note, f' with {names}')


def _split(note: Note, whole: Known) -> list[Known]:
    """Return the part of an incident and the rest of it; the incident itself if one of them is empty."""
    part, rest = sides(whole, note.part, note.made, note.began)
    if not (part and rest):
        return [whole]
    part = replace(part, corrections=tuple(one for one in whole.corrections if one[0].what == 'dated'))
    return [
        _corrected(part, note, f' from {whole.id}, {note.part}'),
        _corrected(rest, note, f', {note.part} is {note.made}'),
    ]


def _dated(note: Note, one: Known) -> Known:
    """Return the incident without what changed when it seemed to begin: the next session looks for changes again."""
    was, begin = one.incident, note.began[note.ids[0]]
    parts = [replace(part, dated=True, incident=since(part.incident, begin)) for part in one.parts]
    if was.since != begin.session:
        parts = [replace(part, incident=_undated(part.incident)) for part in parts]
    return _corrected(replace(one, parts=tuple(parts)), note, f', before: since {note.was or was.day}')


def _corrected(known: Known, note: Note, how: str = '') -> Known:
    """Return an incident with a sentence on what a person did to it."""
    sentence = f'{note.what} on {note.day}{f" by {note.by}" if note.by else ""}{how}: {note.why}'
    return replace(known, corrections=(*known.corrections, (note, sentence)))


def _undated(incident: Incident) -> Incident:
    kind = incident.kind
    if kind == 'SOFTWARE':
        kind = 'NODE' if incident.where.nodes else 'SYSTEM'
    return replace(incident, kind=kind, changed=())

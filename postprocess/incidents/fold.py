# SPDX-License-Identifier: BSD-3-Clause
"""The ledger as a fold: the incidents of a site follow from what each session shows and from the notes of persons."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from plumbline.identity import SeriesId
from postprocess.incidents.incident import Incident, IncidentKind, Scope, in_names, pooled_of, together
from postprocess.incidents.known import WORSE, Acknowledged, Known, Seen, likeness, of_parts
from postprocess.incidents.notes import Began, Note, Selection
from postprocess.results.rows import Session
from postprocess.text import quantity

_ID_DIGITS = 6
_SHOWN = 3  # most series in the evidence of a part


class Look(NamedTuple):
    """Of an incident known before a session: which nodes it shows bad and healthy, one empty name without nodes.

    `accepted`: True if a person recorded the level of the incident as the expected one.
    """

    bad: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    accepted: bool = False


@dataclass(frozen=True)
class NightFacts:
    """What a session shows beside its incidents: a look at known incidents and their parts, by their keys.

    `runs`: the number of its reports then. `ids`: of its incidents, by the id that each had if no session told it
    before, so that ids stay when sessions come or go. `absent`: nodes that were measured lately, but not tonight.
    `fault`: why nodes and stand-ins could not be compared; empty if they were.
    """

    runs: int = 0
    looks: dict[str, Look] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    fault: str = ''


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

    results: Path
    lasting: Mapping[str, Known] = field(default_factory=dict)
    closed: tuple[Known, ...] = ()

    @property
    def known(self) -> list[Known]:
        """All incidents, the first found first."""
        return sorted((*self.closed, *self.lasting.values()), key=lambda one: (one.seen[one.first].started, one.id))

    @property
    def leaves(self) -> list[Known]:
        """The incidents that last and are compared with sessions, parts in place of what they were merged into."""
        return [leaf for one in self.lasting.values() for leaf in one.leaves]


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
    share checks; otherwise it is new.
    """
    lasting, shown = _assigned(state, night)
    return _sorted_out(
        state, [one.each(lambda leaf: _leaf_after(leaf, shown.get(leaf.id, ()), night)) for one in lasting.values()]
    )


def told_as(state: Folded, night: Night) -> dict[str, str]:
    """Return the id of each incident of a session after a state, by the id that it had if no session told it before."""
    _, shown = _assigned(state, night)
    return {id_of(incident, night.session.session, set()): id for id, own in shown.items() for incident in own}


def _assigned(state: Folded, night: Night) -> tuple[dict[str, Known], dict[str, list[Incident]]]:
    """Return the incidents that last, with new ones, and what a session shows of them and their parts, by id."""
    lasting, leaves = dict(state.lasting), state.leaves
    shown: dict[str, list[Incident]] = {}
    for whole in night.incidents:
        for incident in divided(whole, leaves):
            alike = (one for one in leaves if not _apart(one.incident, incident, night.incidents))
            like, id = max(((one.likeness(incident), one.id) for one in alike), default=(0.0, ''))
            if not like:
                taken = {id for one in (*state.closed, *lasting.values()) for id in one.ids}
                id = night.facts.ids.get(id_of(incident, night.session.session, set()), '')
                id = id if id and id not in taken else id_of(incident, night.session.session, taken)
                over = [one.id for one in reversed(state.closed) if one.likeness(incident)]
                lasting[id] = Known(id, incident, before=tuple(over), results=state.results)
            shown.setdefault(id, []).append(incident)
    return lasting, shown


def _sorted_out(state: Folded, now: Iterable[Known]) -> Folded:
    """Return the state with the incidents `now` in place of those that lasted."""
    known = [one for one in now if one.seen]
    over = sorted((one for one in known if one.closed), key=lambda one: one.closed)
    return Folded(state.results, {one.id: one for one in known if not one.closed}, (*state.closed, *over))


def _apart(known: Incident, incident: Incident, tonight: Iterable[Incident]) -> bool:
    """Return True if `incident` has some of the nodes of `known`, but a cause of its own.

    That is so if it lost significantly more, or if tonight also shows the place of `known`, such as a rack.
    """
    if not set(incident.where.nodes) < set(known.where.nodes):
        return False
    place = known.where.place
    if place and not incident.where.place and any(other.where.place == place for other in tonight):
        return True
    return bool(known.loss and incident.interval and incident.interval[0] > WORSE * known.loss)


def _leaf_after(known: Known, tonight: Sequence[Incident], night: Night) -> Known:
    """Return an incident without parts after a session that shows it as `tonight`."""
    look = night.facts.looks.get(known.key, Look())
    if not tonight:
        known = replace(known, accepted=True) if look.accepted else known
        loss = known.last_bad.loss if look.bad else None
        entry = Seen(night.session.time, look.bad, look.healthy, loss)
        return replace(known, seen=known.seen | ({night.session.session: entry} if look.bad or look.healthy else {}))
    now = together(tonight)
    bad = set(now.where.nodes) or {''}
    healthy = set(look.healthy) - bad if known.seen else set()
    entry = Seen(night.session.time, in_names(bad), in_names(healthy), now.loss, now.interval, now.worst)
    now = _continued(known, now) if known.seen else now
    known = replace(known, incident=now, seen=known.seen | {night.session.session: entry})
    if known.returned and (shown := [entry for entry in known.seen.values() if entry.bad and entry.loss is not None]):
        loss, interval = pooled_of(shown)  # the loss while the incident is present
        return replace(known, incident=replace(now, loss=loss, interval=interval))
    return known


def _continued(known: Known, now: Incident) -> Incident:
    """Return what a session shows of a known incident, with what sessions before it showed."""
    old = known.incident
    is_part = bool(known.only or known.without)  # of something that may have begun earlier
    begin = old if is_part or old.day <= now.day else now
    return replace(
        now, kind=old.kind if old.kind == 'SOFTWARE' else now.kind,
        changed=old.changed or now.changed, certain=old.certain or now.certain, sessions=old.sessions,
        since=begin.since, day=begin.day,
        where=replace(now.where, nodes=in_names({*now.where.nodes, *filter(None, known.unhealed)})),
    )  # fmt: skip


def new_id(text: str, taken: set[str]) -> str:
    """Return an unused id that depends only on `text` and the ids `taken`."""
    n = 0
    while (id := hashlib.sha256(f'{text} {n}'.encode(errors='replace')).hexdigest()[:_ID_DIGITS]) in taken:
        n += 1
    return id


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
        return [_acknowledged(one, note)]
    if note.what == 'not acknowledged':
        return [_corrected(replace(one, acknowledged=None), note)]
    if note.what == 'closed':
        return [_corrected(replace(one, ended=one.last_day), note)]
    return [_dated(note, one)]


def _acknowledged(known: Known, note: Note) -> Known:
    """Return an incident that may stay as it is now."""
    return replace(known, acknowledged=Acknowledged(note, known.last_bad, len(known.incident.series)))


def _merged(note: Note, known: Sequence[Known]) -> Known:
    """Return the first incident with all of the others as its parts."""
    first, *others = known
    parts = [
        replace(leaf, dated=incident.dated or leaf.dated, acknowledged=None, corrections=())
        for incident in known
        for leaf in incident.leaves
    ]
    before = dict.fromkeys(id for incident in known for id in incident.before)
    done = dict.fromkeys(correction for incident in known for correction in incident.corrections)
    whole = Known(first.id, first.incident, before=tuple(before), results=first.results, corrections=tuple(done))
    whole = of_parts(whole, parts)
    acknowledged = [incident.acknowledged.note for incident in known if incident.acknowledged]
    if len(acknowledged) == len(known):  # else someone acknowledged only a part of it
        reasons = '; '.join(dict.fromkeys(one.why for one in acknowledged))
        whole = _acknowledged(whole, replace(min(acknowledged, key=lambda one: one.until), why=reasons))
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
    if was.since != begin.session:
        one = one.each(lambda leaf: replace(leaf, incident=_undated(leaf.incident)))
    return _corrected(replace(one, dated=begin), note, f', before: since {note.was or was.day}')


def _corrected(known: Known, note: Note, how: str = '') -> Known:
    """Return an incident with a sentence on what a person did to it."""
    sentence = f'{note.what} on {note.day}{f" by {note.by}" if note.by else ""}{how}: {note.why}'
    return replace(known, corrections=(*known.corrections, (note, sentence)))


def _undated(incident: Incident) -> Incident:
    kind = incident.kind
    if kind == 'SOFTWARE':
        kind = 'NODE' if incident.where.nodes else 'SYSTEM'
    return replace(incident, kind=kind, changed=())


# Parts


def sides(whole: Known, by: Selection, made: str, began: Mapping[str, Began]) -> tuple[Known | None, Known | None]:
    """Return the part of an incident that a selection takes, with the id `made`, and the rest; None for an empty one.

    `began`: see `Note`.
    """
    taken, rest = (
        [part for leaf in whole.leaves if (part := part_of(leaf, by, is_taken))] for is_taken in (True, False)
    )
    taken = [replace(leaf, id=new_id(f'{leaf.id} {by}', {made})) for leaf in taken]
    return _side(replace(whole, id=made), taken, began), _side(whole, rest, began)


def _side(whole: Known, leaves: Sequence[Known], began: Mapping[str, Began]) -> Known | None:
    """Return one of the two incidents into which `whole` was split, from its `leaves`."""
    if not leaves:
        return None
    if len(leaves) == 1:
        leaves = [replace(leaves[0], id=whole.id)]
    leaves = [_begun(leaf, began[leaf.id]) if leaf.id in began else leaf for leaf in leaves]
    if len(leaves) == 1:
        side = replace(
            leaves[0], id=whole.id, acknowledged=whole.acknowledged, before=whole.before,
            dated=whole.dated or leaves[0].dated, corrections=whole.corrections,
        )  # fmt: skip
    else:
        side = of_parts(whole, leaves)
    return _acknowledged(side, side.acknowledged.note) if side.acknowledged else side


def _begun(leaf: Known, begin: Began) -> Known:
    """Return a part that began when its own series fell, or in a session before that, which came later."""
    seen = {uuid: entry for uuid, entry in leaf.seen.items() if uuid not in begin.without}
    first, entry = next((uuid, entry) for uuid, entry in seen.items() if entry.bad)
    if entry.day < begin.day:
        begin = Began(entry.day, first, 1)
    incident = replace(leaf.incident, since=begin.session, day=begin.day, sessions=begin.sessions)
    return replace(leaf, incident=incident, seen=seen)


def part_of(known: Known, by: Selection, taken: bool) -> Known | None:
    """Return the part of an incident without parts that a selection takes, or, with `taken` False, the rest.

    None if it is empty. The loss of the part is that of its series in the last session that showed the incident; its
    loss in other sessions is unknown.
    """
    incident = restricted(known.incident, by, taken)
    if incident is None:
        return None
    where, nodes = known.incident.where, incident.nodes
    seen = {uuid: row for uuid, entry in known.seen.items() if (row := _seen(entry, where, nodes, by, taken))}
    if not (bad := [uuid for uuid, entry in seen.items() if entry.bad]):
        return None
    last = replace(seen[bad[-1]], loss=incident.loss, interval=incident.interval, worst=incident.worst)
    side = replace(known, incident=incident, seen=seen | {bad[-1]: last})
    return replace(side, only=(*known.only, by)) if taken else replace(side, without=(*known.without, by))


def _seen(entry: Seen, where: Scope, nodes: Sequence[str], by: Selection, taken: bool) -> Seen | None:
    """Return what a session shows of one part; the loss of the part in that session is not known."""
    bad, healthy = entry.bad, entry.healthy
    if by.node and where.nodes:
        bad, healthy = (tuple(name for name in names if by.takes_node(name) == taken) for names in (bad, healthy))
    elif by.node and taken:  # all nodes of the part showed the incident
        own = in_names(nodes)
        bad, healthy = own if bad else (), own if healthy and not bad else ()
    return Seen(entry.started, bad, healthy) if bad or healthy else None


def divided(incident: Incident, leaves: Iterable[Known]) -> list[Incident]:
    """Return an incident of a session, or its parts if it is like incidents that a person split."""
    alike = [leaf for leaf in leaves if (leaf.only or leaf.without) and likeness(leaf.incident, incident)]
    parts = [incident]
    for by in dict.fromkeys(by for leaf in alike for by in (*leaf.only, *leaf.without)):
        parts = [part for whole in parts for part in _both(whole, by)]
    return parts


def _both(incident: Incident, by: Selection) -> list[Incident]:
    """Return the two parts into which a selection divides an incident, or the incident if one part is empty."""
    inside, outside = (restricted(incident, by, taken) for taken in (True, False))
    return [inside, outside] if inside and outside else [incident]


def restricted(incident: Incident, by: Selection, taken: bool) -> Incident | None:
    """Return the part of an incident that a selection takes, or, with `taken` False, the rest; None if it is empty."""
    # after a selection of nodes, each part may have all series
    series = tuple(id for id in incident.series if by.node or by.takes_series(id) == taken)
    nodes = tuple(node for node in incident.nodes if by.takes_node(node) == taken) if by.node else incident.nodes
    if not series or (by.node and not nodes):
        return None
    kind, where = _scope(incident.kind, incident.where, nodes, by, taken)
    values = {id: value for id, value in incident.values.items() if id in series}
    lost = [value for value in values.values() if value.loss is not None and value.loss < 1]
    loss, interval = pooled_of(lost if incident.sort == 'loss' else ())
    share = len(series) / len(incident.series) * len(nodes) / max(len(incident.nodes), 1)
    return replace(
        incident, kind=kind, where=where, series=series, nodes=nodes, values=values, loss=loss, interval=interval,
        checks=tuple(sorted({id.check for id in series})), cost=share * incident.cost,
        evidence=_evidence(series, incident),
    )  # fmt: skip


def _scope(
    kind: IncidentKind, where: Scope, nodes: Iterable[str], by: Selection, taken: bool
) -> tuple[IncidentKind, Scope]:
    """Return the kind and scope of one part of an incident that has this kind and scope."""
    if not by.node:
        return kind, where
    if not taken:
        return kind, replace(where, nodes=tuple(node for node in where.nodes if not by.takes_node(node)))
    own = replace(where, environ='', nodes=in_names(nodes), place='', same_nodes=(), link_class='')
    return 'DEVICE' if where.device else 'NODE', own


def _evidence(series: Sequence[SeriesId], incident: Incident) -> tuple[str, ...]:
    """Return what the worst series of a part measured, because the evidence of the whole is of all series."""
    known = [(id, incident.values[id]) for id in series if id in incident.values][:_SHOWN]
    return tuple(
        f'{id.what}: {quantity(value.value, None, value.unit)}; expected {quantity(value.expected, None, value.unit)}'
        for id, value in known
    )

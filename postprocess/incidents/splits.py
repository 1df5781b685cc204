# SPDX-License-Identifier: BSD-3-Clause
"""Divide incidents into what a person's selection takes and the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plumbline.identity import SeriesId
from postprocess.incidents.incident import Incident, IncidentKind, Scope, in_names, pooled_of
from postprocess.incidents.known import Acknowledged, Known
from postprocess.incidents.notes import Began, Note, Selection
from postprocess.incidents.part import Part, Seen, likeness
from postprocess.text import quantity

_ID_DIGITS = 6
_SHOWN = 3  # most series in the evidence of a part


def new_id(text: str, taken: set[str]) -> str:
    """Return an unused id that depends only on `text` and the ids `taken`."""
    n = 0
    while (id := hashlib.sha256(f'{text} {n}'.encode(errors='replace')).hexdigest()[:_ID_DIGITS]) in taken:
        n += 1
    return id


def acknowledged(known: Known, note: Note) -> Known:
    """Return an incident that may stay as it is now."""
    return replace(known, acknowledged=Acknowledged(note, known.last_bad, known.incident.series))


def sides(whole: Known, by: Selection, made: str, began: Mapping[str, Began]) -> tuple[Known | None, Known | None]:
    """Return the part of an incident that a selection takes, with the id `made`, and the rest; None for an empty one.

    `began`: see `Note`.
    """
    taken, rest = (
        [side for part in whole.parts if (side := part_of(part, by, is_taken))] for is_taken in (True, False)
    )
    taken = [replace(part, id=new_id(f'{part.id} {by}', {made})) for part in taken]
    return _side(whole, made, taken, began), _side(whole, whole.id, rest, began)


def _side(whole: Known, id: str, parts: list[Part], began: Mapping[str, Began]) -> Known | None:
    """Return one of the two incidents into which `whole` was split, from its `parts`."""
    if not parts:
        return None
    if len(parts) == 1:
        parts = [replace(parts[0], id=id)]
    parts = [_begun(part, began[part.id]) if part.id in began else part for part in parts]
    side = replace(whole, id=id, parts=tuple(parts))
    return acknowledged(side, side.acknowledged.note) if side.acknowledged else side


def _begun(part: Part, begin: Began) -> Part:
    """Return a part that began when its own series fell, or in a session before that, which came later."""
    seen = {uuid: entry for uuid, entry in part.seen.items() if uuid not in begin.without}
    found = next(((uuid, entry) for uuid, entry in seen.items() if entry.bad), None)
    if found is None:  # all that showed it since then is no longer stored
        return part
    first, entry = found
    if entry.day < begin.day:
        begin = Began(entry.day, first, 1)
    return replace(part, incident=since(part.incident, begin), seen=seen)


def since(incident: Incident, begin: Began) -> Incident:
    """Return an incident that began when `begin` says."""
    return replace(incident, since=begin.session, day=begin.day, sessions=begin.sessions)


def part_of(part: Part, by: Selection, taken: bool) -> Part | None:
    """Return what a selection takes of a part, or, with `taken` False, the rest; None if it is empty.

    Its loss is that of its series in the last session that showed the whole; in other sessions it is unknown.
    """
    incident = restricted(part.incident, by, taken)
    if incident is None:
        return None
    where, nodes = part.incident.where, incident.nodes
    seen = {uuid: row for uuid, entry in part.seen.items() if (row := _seen(entry, where, nodes, by, taken))}
    if not (bad := [uuid for uuid, entry in seen.items() if entry.bad]):
        return None
    last = replace(seen[bad[-1]], loss=incident.loss, interval=incident.interval, worst=incident.worst)
    side = replace(part, incident=incident, seen=seen | {bad[-1]: last})
    return replace(side, only=(*part.only, by)) if taken else replace(side, without=(*part.without, by))


def _seen(entry: Seen, where: Scope, nodes: Sequence[str], by: Selection, taken: bool) -> Seen | None:
    """Return what a session shows of one part; the loss of the part in that session is not known."""
    bad, healthy = entry.bad, entry.healthy
    if by.node and where.nodes:
        bad, healthy = (tuple(name for name in names if by.takes_node(name) == taken) for names in (bad, healthy))
    elif by.node and taken:  # all nodes of the part showed the incident
        own = in_names(nodes)
        bad, healthy = own if bad else (), own if healthy and not bad else ()
    return Seen(entry.started, bad, healthy) if bad or healthy else None


def divided(incident: Incident, parts: Iterable[Part]) -> list[Incident]:
    """Return an incident of a session, or its parts if it is like incidents that a person split."""
    alike = [part for part in parts if (part.only or part.without) and likeness(part.incident, incident)]
    pieces = [incident]
    for by in dict.fromkeys(by for part in alike for by in (*part.only, *part.without)):
        pieces = [piece for whole in pieces for piece in _both(whole, by)]
    return pieces


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

# SPDX-License-Identifier: BSD-3-Clause
"""Separate the parts of incidents that a person split: in the drafts of tonight, and in known incidents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from plumbline.identity import SeriesId, natural
from postprocess.incidents.correction import Selection
from postprocess.incidents.draft import Draft
from postprocess.incidents.failures import summary_of
from postprocess.incidents.incident import Incident, IncidentKind, NodeLevel, Scope
from postprocess.incidents.known import Known, Seen, likeness
from postprocess.statistics.pooled import pooled


def apart(drafts: Iterable[Draft], known: Sequence[Known]) -> list[Draft]:
    """Return the drafts of a session; a draft like an incident that a person split is split in the same way."""
    leaves = [leaf for incident in known for leaf in incident.leaves if leaf.only or leaf.without]
    divided = []
    for draft in drafts:
        like = draft.finish() if leaves else None
        alike = [leaf for leaf in leaves if like and likeness(leaf.incident, like)]
        parts = [draft]
        for by in dict.fromkeys(by for leaf in alike for by in (*leaf.only, *leaf.without)):
            parts = [part for whole in parts for part in _parts_of(whole, by)]
        divided += parts
    return divided


def begun(known: Sequence[Known], incident: Incident) -> str:
    """Return the session in which an incident began, if a person dated a known incident like it; else an empty text."""
    for whole in known:
        for leaf in whole.leaves:
            dated = whole.dated or leaf.dated
            if dated and leaf.likeness(incident):
                return dated.session
    return ''


def _parts_of(draft: Draft, by: Selection) -> list[Draft]:
    """Return the two parts into which a selection divides a draft, or the draft if one part is empty."""
    inside, outside = (_part_of(draft, by, taken) for taken in (True, False))
    return [inside, outside] if inside and outside else [draft]


def _part_of(draft: Draft, by: Selection, taken: bool) -> Draft | None:
    """Return the part of a draft that a selection takes, or, with `taken` False, the rest; None if it is empty.

    A failed job goes to the part with its verdicts.
    """
    rows = [row for row in draft.rows if by.takes(row.id, row.nodes) == taken]
    judged, own = {row.case_id for row in draft.rows}, {row.case_id for row in rows}
    failed = [
        case
        for case in draft.failed
        if (case.case_id in own if case.case_id in judged else by.takes(case.id.series('*'), case.nodes) == taken)
    ]
    of_rows = {row.id for row in draft.rows}
    series = {row.id for row in rows} | set(_series(draft.series - of_rows, by, taken))
    nodes = {node for row in rows for node in row.nodes} | {node for case in failed for node in case.nodes}
    nodes = {node for node in draft.nodes if by.takes_node(node) == taken} if by.node else nodes or draft.nodes
    if not series or (by.node and not nodes):
        return None
    kind, where = _scope(draft.kind, draft.where, nodes, by, taken)
    return replace(
        draft, kind=kind, where=where, rows=rows, failed=failed, cases={id.case for id in series}, series=series,
        nodes=nodes, cause=summary_of(failed) if failed else draft.cause,
        loss=None if rows else draft.loss, interval=None if rows else draft.interval,
        evidence=[] if rows and draft.sort == 'loss' else draft.evidence, levels=_levels(draft.levels, series, nodes),
        values={id: value for id, value in draft.values.items() if id in series},
    )  # fmt: skip


def part_of(known: Known, by: Selection, taken: bool) -> Known | None:
    """Return the part of a known incident that a selection takes, or, with `taken` False, the rest.

    None if it is empty. The incident has no parts of its own. The loss of the part is that of its series in the last
    session that showed the incident. Its loss in other sessions, and which evidence belongs to it, are unknown until
    the next session is judged.
    """
    incident = known.incident
    series = _series(incident.series, by, taken)
    nodes = tuple(node for node in incident.nodes if by.takes_node(node) == taken) if by.node else incident.nodes
    if not series or (by.node and not nodes):
        return None
    kind, where = _scope(incident.kind, incident.where, nodes, by, taken)
    seen = {uuid: row for uuid, entry in known.seen.items() if (row := _seen(entry, incident.where, nodes, by, taken))}
    if not any(entry.bad for entry in seen.values()):
        return None
    values = {id: value for id, value in incident.values.items() if id in series}
    losses = [(value.loss, value.interval) for value in values.values() if value.loss is not None and value.loss < 1]
    loss, interval = pooled(losses) if losses and incident.sort == 'loss' else (None, None)
    share = len(series) / len(incident.series) * len(nodes) / max(len(incident.nodes), 1)
    incident = replace(
        incident, kind=kind, where=where, series=series, nodes=nodes, values=values, loss=loss, interval=interval,
        checks=tuple(sorted({id.check for id in series})), cost=share * incident.cost, evidence=(),
        levels=tuple(_levels(incident.levels, series, nodes)),
    )  # fmt: skip
    last = [uuid for uuid, entry in seen.items() if entry.bad][-1]
    seen[last] = replace(seen[last], loss=loss, interval=interval, worst=incident.worst)
    side = replace(known, incident=incident, seen=seen)
    return replace(side, only=(*known.only, by)) if taken else replace(side, without=(*known.without, by))


def _series(series: Iterable[SeriesId], by: Selection, taken: bool) -> tuple[SeriesId, ...]:
    """Return the series of one part; after a selection of nodes, each part may have all series."""
    return tuple(id for id in series if by.node or by.takes_series(id) == taken)


def _scope(
    kind: IncidentKind, where: Scope, nodes: Iterable[str], by: Selection, taken: bool
) -> tuple[IncidentKind, Scope]:
    """Return the kind and scope of one part of an incident that has this kind and scope."""
    if not by.node:
        return kind, where
    if not taken:
        return kind, replace(where, nodes=tuple(node for node in where.nodes if not by.takes_node(node)))
    own = tuple(sorted(nodes, key=natural))
    return 'DEVICE' if where.device else 'NODE', replace(
        where, environ='', nodes=own, place='', same_nodes=(), link_class=''
    )


def _levels(levels: Iterable[NodeLevel], series: Iterable[SeriesId], nodes: Iterable[str]) -> list[NodeLevel]:
    """Return the levels of the given series on the given nodes."""
    series, nodes = set(series), set(nodes)
    return [level for level in levels if level.series in series and level.node in nodes]


def _seen(entry: Seen, where: Scope, nodes: Iterable[str], by: Selection, taken: bool) -> Seen | None:
    """Return what a session shows of one part; the loss of the part in that session is not known."""
    bad, healthy = entry.bad, entry.healthy
    if by.node and where.nodes:
        bad, healthy = (tuple(name for name in names if by.takes_node(name) == taken) for names in (bad, healthy))
    elif by.node and taken:  # all nodes of the part showed the incident
        own = tuple(sorted(nodes, key=natural))
        bad, healthy = own if bad else (), own if healthy and not bad else ()
    return Seen(entry.started, bad, healthy) if bad or healthy else None

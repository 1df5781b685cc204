# SPDX-License-Identifier: BSD-3-Clause
"""Decide whether a session shows that a known incident is over, or that it is still there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from statistics import fmean, median

from plumbline.identity import SeriesId, short_name
from plumbline.record import OF_NODE
from postprocess.incidents.accused import accuses
from postprocess.incidents.fold import Look, lost_more
from postprocess.incidents.incident import Incident, in_names
from postprocess.incidents.part import Part
from postprocess.results.rows import CaseRow
from postprocess.verdicts.measured import failure
from postprocess.verdicts.verdict import BAD, Comparison, Verdict

_NO_NUMBER = BAD - {'regressed'}
_SURE = 2.0  # standard deviations: one job of a node that is still slow passes in 2 of 100
_MEASURED = frozenset(('ok', 'improved', 'warning', 'regressed', 'no_reference', 'informational'))


def looks_at(
    parts: Iterable[Part], comparison: Comparison, cases: Sequence[CaseRow], tonight: Sequence[Incident],
    retired: Set[SeriesId] = frozenset(),
) -> dict[str, Look]:  # fmt: skip
    """Return what a session, which shows the incidents `tonight`, shows of those known before, by their keys.

    An incident of `retired` series alone is over: nothing else will show that.
    """
    looks = {}
    for part in parts:
        bad, healthy = seen_again(part, comparison, cases, tonight)
        is_retired = bool(part.incident.series) and retired >= set(part.incident.series)
        if is_retired:
            bad, healthy = set(), set(part.incident.where.nodes) or {''}
        look = Look(
            in_names(bad), in_names(healthy), is_retired or is_recorded(part, comparison), _well(part, comparison)
        )
        if look != Look():
            looks[part.key] = look
    return looks


def seen_again(
    known: Part, comparison: Comparison, cases: Sequence[CaseRow], tonight: Sequence[Incident] = ()
) -> tuple[set[str], set[str]]:
    """Return the nodes of an incident that a session shows to be bad, and the nodes that it shows to be healthy.

    An empty name stands for an incident without nodes. Nodes that were not measured are in neither set. `tonight`: the
    incidents of the session; what one of nodes explains does not show that one of all nodes lasts.
    """
    incident = known.incident
    of_nodes = [one for one in tonight if one.own_nodes and not incident.own_nodes]
    own = [
        row
        for row in comparison.verdicts
        if known.takes(row.id, row.nodes) and not any(one.holds(row.id, row.nodes) for one in of_nodes)
    ]
    if incident.sort == 'session':
        return set(), _without_problem(incident, cases)
    bad: set[str] = set()
    healthy: set[str] = set()
    for node in incident.where.nodes or ('',):
        state = _of_loss(incident, node, own) if incident.sort == 'loss' else _of_failure(incident, node, own, cases)
        if state is not None:
            (healthy if state else bad).add(node)
    return bad, healthy


def _well(known: Part, comparison: Comparison) -> tuple[SeriesId, ...]:
    """Return the series of a loss that a session measured, each of them healthy wherever the loss was."""
    incident = known.incident
    if incident.sort != 'loss':
        return ()
    wanted = set(incident.series)
    rows = [row for row in comparison.verdicts if row.id in wanted and incident.holds(row.id, row.nodes)]
    bad = {row.id for row in rows if row.verdict not in ('ok', 'improved') or not _excludes(row, incident)}
    return tuple(sorted({row.id for row in rows} - bad))


def _without_problem(incident: Incident, cases: Sequence[CaseRow]) -> set[str]:
    """Return the nodes, or one empty name, on which a session does not show a problem again.

    Other hardware, a problem with series, is shown by jobs alone: of it, only where one ran.
    """
    nodes = set(incident.where.nodes) or {''}
    if not incident.series:
        return nodes
    own = [case for case in cases if case.partition == incident.where.partition and case.provenance]
    return nodes & {node for case in own for node in ('', *case.nodes)}


def is_recorded(known: Part, comparison: Comparison) -> bool:
    """Return True if a baseline was recorded from sessions that show the incident, so that its level is now expected.

    Never for incidents of nodes: a baseline from such a session may have been recorded without these nodes.
    """
    wanted, bad = set(known.incident.series), {short_name(uuid) for uuid, seen in known.seen.items() if seen.bad}
    rows = (row for row in comparison.verdicts if row.id in wanted and row.reference)
    of_all = known.incident.sort == 'loss' and not known.incident.where.nodes
    return of_all and any(row.reference and bad & set(row.reference.sessions) for row in rows)


def _of_loss(incident: Incident, node: str, own: Sequence[Verdict]) -> bool | None:
    """Return True if healthy: within the limits of the references; False if still bad, None if too little was measured.

    `own`: verdicts that may belong to the incident.
    """
    wanted = set(incident.series)
    rows = [row for row in own if incident.holds(row.id, row.nodes) and (not node or node in row.nodes)]
    if _is_below_floor(incident, rows):
        return True
    others = [row for row in rows if row.verdict in ('ok', 'improved')]
    most_well = not node and 2 * len({row.id for row in others}) > len(wanted)
    if any(row.verdict == 'regressed' and not (most_well and lost_more(row, incident)) for row in rows):
        return False
    looked_at = [(row, _performance(row, node)) for row in own if row.id in wanted]
    looked_at = [(row, performance) for row, performance in looked_at if performance]
    if looked_at and median(fmean(one) - _half(_lost(incident, row.id)) for row, one in looked_at) < 0:
        return False
    well = {row.id for row in rows if row.verdict in ('ok', 'improved') and (not node or _excludes(row, incident))}
    well |= {row.id for row, performance in looked_at if _regained(row, performance, _lost(incident, row.id))}
    # what ran on a node is by chance: each series that would show the loss there counts
    return True if well and (node or 2 * len(well) >= len(wanted)) else None


def _lost(incident: Incident, of: SeriesId) -> float:
    """Return the loss of a series of an incident; that of all where its own is not known."""
    value = incident.values.get(of)
    return (incident.loss if value is None or value.loss is None else value.loss) or 0.0


def _excludes(row: Verdict, incident: Incident) -> bool:
    """Return True if a series regained more than half of its loss, and its 95 % interval lies below all of it."""
    lost = _lost(incident, row.id)
    if row.loss is None or row.interval is None or not lost:
        return False
    return row.loss < lost / 2 and row.interval[1] < lost


def _is_below_floor(incident: Incident, rows: Sequence[Verdict]) -> bool:
    """Return True if each series of a loss is well, and its loss lies below its floor of today: a person raised it."""
    limits = {row.id: row.limits for row in rows if row.verdict in ('ok', 'improved') and row.limits}
    return all(of in limits and limits[of].is_floor and _lost(incident, of) < limits[of].loss for of in incident.series)


def _performance(row: Verdict, node: str) -> list[float]:
    """Return the logarithms of the performance of further jobs on a node, beside what is expected; empty if none ran.

    A job on several nodes waits for the slowest of them.
    """
    values = [job.value for job in row.jobs if job.purpose == OF_NODE and node in job.nodes]
    if not row.expected or not row.limits or not all(value > 0 for value in values):
        return []
    return [row.quantity.sign * math.log(value / row.expected) for value in values]


def _half(loss: float) -> float:
    """Return the logarithm of the performance that is left after half of a loss."""
    return math.log1p(-min(loss, 0.999)) / 2


def _regained(row: Verdict, performance: Sequence[float], loss: float) -> bool:
    """Return True if each further job on a node regained more than half of a loss, and its noise excludes all of it."""
    sd = row.limits.sd if row.limits and row.limits.sd else 0.0
    least = max(_half(loss), 2 * _half(loss) + _SURE * sd)
    return all(value > least for value in performance)


def _of_failure(incident: Incident, node: str, verdicts: Sequence[Verdict], cases: Sequence[CaseRow]) -> bool | None:
    """Return True if the failure is over on `node`, False if it is still there, None if too little was measured."""
    if incident.named:
        return _of_named(incident, node, cases)
    if node:
        ran = [case for case in cases if node in case.nodes and not case.fixture]
        if any(failure(case) for case in ran if case.check in incident.checks):
            return False
    wanted, whole_cases = set(incident.series), {series.case for series in incident.series if series.metric == '*'}
    rows = [
        row for row in verdicts if (row.id in wanted or row.id.case in whole_cases) and (not node or node in row.nodes)
    ]
    if any(row.verdict in _NO_NUMBER for row in rows):
        return False
    if node and any(not failure(case) for case in ran):
        return True
    measured = {row.id for row in rows if row.verdict in _MEASURED}
    expected = {series for series in wanted if series.metric != '*'}
    return True if measured and 2 * len(measured) >= len(expected) else None


def _of_named(incident: Incident, node: str, cases: Sequence[CaseRow]) -> bool | None:
    """Return True if a job of the incident's checks passed there or names other nodes.

    For a place, on two of its nodes. False if a job names it again, None if no such job ran.
    """
    own = [case for case in cases if case.check in incident.checks and not case.fixture]
    named = [(case, accuses(case, incident, node)) for case in own]
    there = [case for case, bad in named if bad is False or (bad is None and not failure(case))]
    wanted, needed = ({node}, 1) if node else (set(incident.nodes), 2)
    if any(bad for _, bad in named):
        return False
    return any(len(wanted & set(case.nodes)) >= needed for case in there) or None

# SPDX-License-Identifier: BSD-3-Clause
"""Turn the findings of the comparison of nodes, and problems outside the series of a session, into incidents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from plumbline.problems import Problem
from postprocess.history.fleet import Event, Fleet
from postprocess.incidents.draft import Draft, JudgedSession, value_of
from postprocess.incidents.incident import NodeLevel, Scope
from postprocess.text import percent
from postprocess.verdicts.verdict import Verdict

#: An event with at least this loss of performance is certain when it is seen for the first time.
CERTAIN = 0.1
_RESTRICTED = (
    'CPUs may be offline (/sys/devices/system/cpu/online), or kept from the job by a cgroup, a container or taskset; '
    'after a planned change: `plumbline record propose SESSION --epoch NAME`'
)


def add_events(drafts: list[Draft], fleet: Fleet, night: JudgedSession) -> None:
    """Add the events of the fleet to the drafts with the same scope; create drafts for the others.

    Nodes with other hardware than the baseline's are a problem of the session already.
    """
    unlike = {node for problem in night.comparison.problems for node in problem.nodes}
    for event in _system_of_nodes(fleet):
        if unlike.issuperset(event.where.split(',')):
            continue
        of_place = event.where in night.all_places
        of_system = event.kind == 'SYSTEM' or event.where == event.series.partition
        rows = [row for row in night.comparison.verdicts if row.id == event.series]
        well = [row for row in rows if row.verdict in ('ok', 'improved') and row.reference and row.reference.epoch]
        if of_system and 2 * len(well) > len(rows):
            continue  # the sessions that it was compared with were before a planned change
        nodes = () if of_place or of_system else tuple(event.where.split(','))
        sentence = f'{percent(event.of_value)} in {event.series.check} {event.series.name}, compared with {event.how}'
        evidence = ['; '.join([sentence, *event.evidence])]
        same = next((draft for draft in drafts if _covers(draft, event, nodes)), None)
        if same:
            same.evidence += evidence
            continue
        series = event.series
        where = Scope(night.session.site, series.partition, '' if nodes else series.environ, nodes)
        if of_place:
            where = replace(where, environ='', place=event.where)
        elif nodes:
            where = replace(where, device=event.part)
        if nodes:
            _leave_out(drafts, series.check, set(nodes))
        own = [row for row in rows if nodes and set(row.nodes) == set(nodes)]
        levels = _levels(event, nodes, rows)
        expected = levels[0].value if levels else None
        loss = -event.change / 100
        drafts.append(
            Draft(
                'DEVICE' if where.device else event.kind, where, 'loss', cases={series.case}, series={series},
                nodes=set(nodes) or {node for row in rows for node in row.nodes}, loss=loss, interval=event.interval,
                evidence=evidence, levels=levels, certain=loss >= CERTAIN or event.sessions > 1,
                values={series: value_of(own[0], expected, loss, event.interval)} if own else {},
            )
        )  # fmt: skip


def _covers(draft: Draft, event: Event, nodes: Sequence[str]) -> bool:
    """Return True if a draft already has the loss of an event on `nodes`, or of the whole system without nodes."""
    if draft.sort != 'loss':
        return False
    if nodes:
        return bool(set(nodes) & set(draft.where.nodes))
    series = event.series
    return not draft.where.nodes and series.partition == draft.where.partition and series in draft.series


def _leave_out(drafts: Sequence[Draft], check: str, nodes: set[str]) -> None:
    """Remove the losses of a check on nodes that stand out from the drafts of losses that no node causes."""
    for draft in drafts:
        if draft.sort == 'loss' and not draft.where.nodes:
            rows = [
                row for row in draft.rows if row.id.check != check or not row.nodes or not nodes.issuperset(row.nodes)
            ]
            if {row.id for row in rows} == {row.id for row in draft.rows}:
                draft.rows = rows


def _system_of_nodes(fleet: Fleet) -> list[Event]:
    """Return the events; if most nodes stand out in the same check, one event of the system replaces their events."""
    groups: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for event in fleet.events:
        of_node = event.kind == 'NODE' and ',' not in event.where
        groups[(event.series.partition, event.series.check) if of_node else (id(event),)].append(event)
    events = []
    for alike in groups.values():
        if len(alike) > 1 and len(alike) > fleet.nodes / 2:
            worst = sorted(alike, key=lambda event: event.change)[len(alike) // 2]
            events.append(replace(worst, kind='SYSTEM', where=worst.series.partition, interval=None))
        else:
            events += alike
    return events


def _levels(event: Event, nodes: Sequence[str], rows: Sequence[Verdict]) -> list[NodeLevel]:
    """Return the value that a node should have in the worst series of an event, and its ratio to the other nodes."""
    if len(nodes) != 1:
        return []
    values = {
        row.nodes[0]: row.value for row in rows if len(row.nodes) == 1 and row.value is not None and row.value > 0
    }
    if nodes[0] not in values or event.change <= -100:
        return []
    level = values[nodes[0]] * (1 + event.change / 100) ** -event.quantity.sign
    others = [value for node, value in values.items() if node != nodes[0]]
    return [NodeLevel(event.series, nodes[0], level, event.quantity.better, level / median(others) if others else None)]


def add_problems(drafts: list[Draft], problems: Sequence[Problem], night: JudgedSession) -> None:
    """Add a draft for each problem outside the series; a broken stack becomes evidence for the cases that needed it."""
    for problem in problems:
        failures = [draft for draft in drafts if draft.sort == 'failure']
        if any(draft.cause == problem.text for draft in failures):  # the problem is already the cause of these failures
            continue
        place = problem.partition, problem.environ
        of_stack = [draft for draft in failures if (draft.where.partition, draft.where.environ) == place]
        because = failures if problem.kind == 'not measured' else of_stack if problem.kind == 'fixture' else []
        if because:
            because[0].evidence.append(problem.text)
        elif problem.kind == 'node lost':
            where = Scope(night.session.site, problem.partition, nodes=problem.nodes)
            drafts.append(Draft('NODE', where, 'session', nodes={*problem.nodes}, cause=problem.text))
        elif problem.kind == 'hardware':
            drafts.append(_of_hardware(problem, night))
        else:
            drafts.append(Draft('CASE', Scope(night.session.site), 'session', cause=problem.text))


def _of_hardware(problem: Problem, night: JudgedSession) -> Draft:
    """Return the draft of nodes that had other hardware than their baseline, with what they measured."""
    rows = [row for row in night.comparison.verdicts if row.cause == problem.text]
    nodes = set(problem.nodes)
    of_all = len(nodes) > 1 and nodes >= night.nodes[problem.partition]
    where = Scope(night.session.site, problem.partition, nodes=() if of_all else problem.nodes)
    return Draft(
        'SYSTEM' if of_all else 'NODE', where, 'session', rows, [], {row.id.case for row in rows},
        {row.id for row in rows}, nodes, problem.text, evidence=[_RESTRICTED],
    )  # fmt: skip

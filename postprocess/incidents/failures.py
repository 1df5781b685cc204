# SPDX-License-Identifier: BSD-3-Clause
"""Group jobs that failed, and series that are missing or invalid, by cause."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plumbline.causes import SHARED, Cause
from plumbline.grouping import Key, explain
from plumbline.identity import CaseId, natural
from plumbline.problems import Problem
from plumbline.record import EXPERIMENTAL
from postprocess.incidents.accused import drafts_of, names_in
from postprocess.incidents.draft import Draft, JudgedSession, only
from postprocess.incidents.incident import IncidentKind, Scope, in_names
from postprocess.incidents.problems import is_of_hardware
from postprocess.results.rows import CaseRow
from postprocess.results.tables import NEEDED_FAILED
from postprocess.text import named
from postprocess.verdicts.measured import failure, failure_of, is_not_for_this_place, runs_of
from postprocess.verdicts.verdict import Verdict

_NODE_STATES = ('NODE_FAIL', 'BOOT_FAIL')  # states of a job that are caused by its node
_OF_SCHEDULER = ('PREEMPTED', 'CANCELLED', 'REQUEUED')
_NUMBERS = re.compile(r'(?<!exit code )\S*\d\S*')  # and the names of nodes
_WORST_FIRST = ('failed', 'missing', 'invalid')

#: The note on a failed case of a check that never ran on real hardware.
UNPROVEN = (
    'experimental: no such case had run for real when it was released; if the check is at fault, its authors need the '
    'output'
)


@dataclass(frozen=True)
class _Failed:
    """A failed job; `nodes`: where it and all further jobs of its case failed.

    `passed`: later jobs of the case that passed.
    """

    case: CaseRow
    nodes: frozenset[str]
    passed: tuple[CaseRow, ...] = ()

    @property
    def of_node(self) -> bool:
        """True if the job's node is the cause: the case passed when it ran again, or Slurm says so."""
        return bool(self.passed) or self.case.job_state in _NODE_STATES


def failures(night: JudgedSession) -> Iterator[Draft]:
    """Yield a draft for each cause of failed jobs, and of missing or invalid series in jobs that ended normally."""
    rows = defaultdict(list)
    for row in night.comparison.verdicts:
        if row.verdict in _WORST_FIRST:
            rows[row.id.case, row.case_id].append(row)
    failed, healthy = [], []
    drafts: list[Draft] = []
    ended: dict[Problem, list[CaseRow]] = defaultdict(list)
    for runs in runs_of(case for case in night.cases if not case.fixture):
        if is_not_for_this_place(runs[0]) and (runs[0].id, None) not in rows:
            continue
        passed = {node for case in runs if not failure(case) for node in case.nodes}
        for case in runs:
            drafts += drafts_of(case, rows[case.id, case.case_id], sorted(passed, key=natural), night)
        if not (runs := [case for case in runs if not names_in(case)]):
            continue
        bad, well = ([case for case in runs if bool(failure(case)) == wanted] for wanted in (True, False))
        healthy += well
        if well:
            failed += [_Failed(case, frozenset(case.nodes), tuple(well)) for case in bad if _of_its_node(case)]
            failed += [_Failed(case, frozenset()) for case in bad if _of_its_limit(case)]
        elif why := _ended_with(bad[0], night):
            ended[why].append(bad[0])
        else:
            tried = [frozenset(case.nodes) for case in bad if case.nodes]
            failed.append(_Failed(bad[0], frozenset.intersection(*tried) if tried else frozenset()))
    scopes = [_failure_keys(failure, night) for failure in failed]
    well_keys = [_failure_keys(_Failed(case, frozenset(case.nodes)), night) for case in healthy]
    groups = [[failed[place] for place in group.places] for group in explain(scopes, well_keys)]
    drafts += [_failure_draft(group, healthy, rows, night) for group in groups]
    drafts += _ended_drafts(ended, rows, night)
    yield from _merged(drafts)
    explained = {id(row) for row in night.comparison.verdicts if is_of_hardware(row)}
    yield from _without_numbers(night, explained | {id(row) for draft in drafts for row in draft.rows})


def _ended_with(case: CaseRow, night: JudgedSession) -> Problem | None:
    """Return why a case was ended together with its session: the problem of the session if there is one.

    A case that a node sweep could not run at a place has no job and is cancelled.
    """
    cause, problems = _cause_of(case), night.comparison.problems
    if case.result == 'abort':
        return _cut_short(night) or Problem(failure(case) or '', 'cut short')
    parts = (problem for problem in problems if problem.kind == 'part ended' and cause.code == 'not-run')
    return next((problem for problem in parts if problem.why == cause.what), None)


def _cut_short(night: JudgedSession) -> Problem | None:
    """Return why the whole session was ended; None if it was not."""
    return next((problem for problem in night.comparison.problems if problem.kind == 'cut short'), None)


def _ended_drafts(
    ended: dict[Problem, list[CaseRow]], rows: Mapping[tuple[CaseId, int | None], list[Verdict]], night: JudgedSession
) -> Iterator[Draft]:
    """Yield a draft for each reason that ended cases together with their session.

    Such drafts name no node as the cause. The draft of a session that was cut short includes all series that no case
    measured: the session has no record of cases that did not begin.
    """
    began = {case.id for case in night.cases}
    missing = [row for (id, _), own in rows.items() if id not in began for row in own]
    cut = _cut_short(night)
    if cut and missing:
        ended.setdefault(cut, [])
    for problem, failed in ended.items():
        own = [row for case in failed for row in rows.get((case.id, case.case_id), ())]
        own += [row for case in failed for row in rows.get((case.id, None), ())]
        own += missing if problem is cut else []
        cases = {case.id for case in failed} | {row.id.case for row in own}
        where = Scope(night.session.site, only({id.partition for id in cases}), only({id.environ for id in cases}))
        yield Draft(
            'CASE', where, 'failure', own, failed, cases, {row.id for row in own} or {id.series('*') for id in cases},
            {node for case in failed for node in case.nodes}, Cause('not-run', problem.text), problem,
        )  # fmt: skip


def _of_its_node(case: CaseRow) -> bool:
    """Return True if the first run of a case that passed later failed because of its node, not of the scheduler."""
    of_node = case.job_state not in _OF_SCHEDULER and not _of_its_limit(case)
    return bool(case.nodes) and case.result == 'fail' and of_node


def _of_its_limit(case: CaseRow) -> bool:
    """Return True if a job reached its own memory limit, by cgroups or Slurm, while no node was short of memory.

    Slurm reports the same state if the kernel killed a process of the job because the node was short of memory.
    """
    codes = {cause.code for cause in case.causes}
    return 'oom-node' not in codes and (case.job_state == 'OUT_OF_MEMORY' or 'oom-limit' in codes)


def _failure_keys(one: _Failed, night: JudgedSession) -> list[Key]:
    """Return the keys of the scopes in which a failed job lies."""
    case = one.case
    partition, environ, cause = case.partition, case.environ, _alike(case)
    keys: list[Key] = [('crash', partition, *cause)]
    if not one.of_node:
        keys = [('cause', partition, environ, *cause), ('case', str(case.id))]
        keys += [
            ('check', partition, environ, case.check),
            ('environ', partition, environ),
            ('partition', partition),
        ]
    if one.of_node or night.several(partition):
        keys += [('node', node) for node in sorted(one.nodes)]
    return keys + [('place', place) for place in sorted(night.places_of(one.nodes))]


def _cause_of(case: CaseRow) -> Cause:
    """Return the worst cause of a failed job."""
    return next(iter(case.causes), failure_of(case) or Cause('said', ''))


def _alike(case: CaseRow) -> tuple[str, ...]:
    """Return what failed jobs of one cause have in common: the code, and the check unless checks share the code."""
    cause = _cause_of(case)
    return (cause.code,) if cause.code in SHARED else (cause.code, _words(cause) or case.check)


def _words(cause: Cause) -> str:
    """Return in which words causes must agree to be one cause; empty if their code is enough."""
    return _NUMBERS.sub('#', cause.what) if cause.code == 'said' else cause.what if cause.code == 'not-run' else ''


def _failure_draft(
    group: Sequence[_Failed], healthy: Sequence[CaseRow],
    rows: Mapping[tuple[CaseId, int | None], list[Verdict]], night: JudgedSession,
) -> Draft:  # fmt: skip
    """Return the draft for a group of failed jobs; `rows`: (case, case_id) -> verdicts without a number."""
    failed = [failure.case for failure in group]
    nodes = {node for case in failed for node in case.nodes}
    cases = {case.id for case in failed}
    own = [row for case in failed for row in rows.get((case.id, case.case_id), ())]
    own += [row for case in cases for row in rows.get((case, None), ())]
    partition, environ = only({case.partition for case in failed}), only({case.environ for case in failed})
    where = Scope(night.session.site, partition, environ)
    if nodes and (all(failure.of_node for failure in group) or _only_there(group, cases, nodes, healthy)):
        where = replace(where, environ='', nodes=in_names(nodes))
    series = {row.id for row in own}
    first = failed[0]
    stack = night.stacks.get((first.partition, first.environ))
    draft = Draft(
        'NODE' if where.nodes else 'CASE', where, 'failure', own, failed, cases,
        series or {case.series('*') for case in cases}, nodes,
        (failure_of(first, stack) if first.result == NEEDED_FAILED else None) or cause_of(failed),
    )  # fmt: skip
    if any(EXPERIMENTAL in case.tags for case in failed):
        draft.evidence.append(UNPROVEN)
    if all(failure.passed for failure in group):
        again = sorted({node for failure in group for case in failure.passed for node in case.nodes}, key=natural)
        draft.evidence.append(f'passed when it ran again on {named(again)}' if again else 'passed when it ran again')
    return draft


def _only_there(group: Sequence[_Failed], cases: set[CaseId], nodes: set[str], healthy: Sequence[CaseRow]) -> bool:
    """Return True if jobs fail only on `nodes`: their cases pass on more others, or several cases fail on one node."""
    if {node for failure in group for node in failure.nodes} != nodes:  # a case failed on other nodes, too
        return False
    well = {node for case in healthy if case.id in cases for node in case.nodes}
    if well & nodes:
        return False
    others = {node for case in healthy for node in case.nodes} - nodes
    return len(well) > len(nodes) or (len(nodes) == 1 < len(cases) and bool(others))


def _merged(drafts: list[Draft]) -> list[Draft]:
    """Return the drafts; those of the same nodes, of a part of the nodes, or of one place are merged.

    A draft that a job itself named is not merged with failed jobs, because only another such job clears it.
    """
    merged: dict[tuple[object, ...], Draft] = {}
    for draft in drafts:
        scope = draft.where.nodes, draft.where.device, draft.where.place
        first = merged.setdefault((*scope, draft.named) if any(scope) else (id(draft),), draft)
        if first is not draft:
            first.evidence += [str(draft.cause)] * draft.named
            for name in ('rows', 'failed', 'evidence'):
                getattr(first, name).extend(item for item in getattr(draft, name) if item not in getattr(first, name))
            for name in ('cases', 'series', 'nodes'):
                getattr(first, name).update(getattr(draft, name))
            if not draft.named:
                first.cause = cause_of(first.failed)
    return list(merged.values())


def _without_numbers(night: JudgedSession, explained: set[int]) -> Iterator[Draft]:
    """Yield a draft for series that are missing or invalid in jobs that ended well, or that no case measured."""
    groups: dict[tuple[object, ...], list[Verdict]] = defaultdict(list)
    for row in night.comparison.verdicts:
        if row.verdict in _WORST_FIRST and id(row) not in explained:
            alike = row.code if row.case_id is None else row.id.check
            groups[row.verdict, row.id.partition, row.id.environ, row.case_id is None, alike].append(row)
    for rows in groups.values():
        series = {row.id for row in rows}
        where = Scope(night.session.site, rows[0].id.partition, rows[0].id.environ)
        nodes = {node for row in rows for node in row.nodes}
        some = nodes and len(nodes) < len(night.nodes[rows[0].id.partition]) / 2
        kind: IncidentKind = 'CASE'
        if some and rows[0].case_id is not None and _healthy_elsewhere(rows, night):
            kind, where = 'NODE', replace(where, environ='', nodes=in_names(nodes))
        causes = [Cause(row.code or 'said', row.cause) for row in rows]
        cause = _most_frequent(((one.code, _words(one)), one) for one in causes)
        cause = replace(cause, what=f'{rows[0].verdict}: {cause.what}')
        yield Draft(kind, where, 'failure', rows, [], {id.case for id in series}, series, nodes, cause)


def _healthy_elsewhere(rows: Sequence[Verdict], night: JudgedSession) -> bool:
    """Return True if one of the series is healthy in another job."""
    wanted = {row.id for row in rows}
    return any(row.id in wanted and row.verdict in ('ok', 'improved') for row in night.comparison.verdicts)


def cause_of(failed: Iterable[CaseRow]) -> Cause:
    """Return the most frequent cause of failed jobs, in the words of one of them, and the number of other causes."""
    return _most_frequent((_alike(case), failure_of(case) or Cause('said', '')) for case in failed)


def _most_frequent(causes: Iterable[tuple[tuple[str, ...], Cause]]) -> Cause:
    """Return the most frequent of causes, in the words of its first, and the number of other causes.

    `causes`: each with what those that count as one have in common.
    """
    alike: dict[tuple[str, ...], list[Cause]] = defaultdict(list)
    for key, cause in causes:
        alike[key].append(cause)
    first = max(alike.values(), key=len)[0]
    return first if len(alike) == 1 else replace(first, detail=f'{first.detail}; and {len(alike) - 1} other causes')

# SPDX-License-Identifier: BSD-3-Clause
"""Turn problems outside the series of a session into incidents."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.causes import Cause
from plumbline.problems import Problem
from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.incident import Scope
from postprocess.verdicts.verdict import Verdict

_RESTRICTED = (
    'CPUs may be offline (/sys/devices/system/cpu/online), or kept from the job by a cgroup, a container or taskset; '
    'after a planned change: `plumbline record propose SESSION --epoch NAME`'
)


def add_problems(drafts: list[Draft], problems: Sequence[Problem], night: JudgedSession) -> None:
    """Add a draft for each problem outside the series; a broken stack becomes evidence for the cases that needed it."""
    for problem in problems:
        failures = [draft for draft in drafts if draft.sort == 'failure']
        if any(draft.problem == problem for draft in failures):  # the problem is already the cause of these failures
            continue
        place = problem.partition, problem.environ
        of_stack = [draft for draft in failures if (draft.where.partition, draft.where.environ) == place]
        because = failures if problem.kind == 'not measured' else of_stack if problem.kind == 'fixture' else []
        if because:
            because[0].evidence.append(problem.text)
        elif problem.kind == 'node lost':
            where = Scope(night.session.site, problem.partition, nodes=problem.nodes)
            cause = Cause('node-fail', problem.text)
            drafts.append(Draft('NODE', where, 'session', nodes={*problem.nodes}, cause=cause, problem=problem))
        elif problem.kind == 'hardware':
            drafts.append(_of_hardware(problem, night))
        else:
            cause = Cause('said', problem.text)
            drafts.append(Draft('CASE', Scope(night.session.site), 'session', cause=cause, problem=problem))


def is_of_hardware(row: Verdict) -> bool:
    """Return True if a number does not count because its job had other hardware than the baseline."""
    return row.verdict == 'invalid' and row.code == 'settings'


def _of_hardware(problem: Problem, night: JudgedSession) -> Draft:
    """Return the draft of nodes that had other hardware than their baseline, with what they measured."""
    nodes = set(problem.nodes)
    rows = [
        row
        for row in night.comparison.verdicts
        if is_of_hardware(row) and row.id.partition == problem.partition and row.cause == str(problem)
    ]
    of_all = len(nodes) > 1 and nodes >= night.nodes[problem.partition]
    where = Scope(night.session.site, problem.partition, nodes=() if of_all else problem.nodes)
    return Draft(
        'SYSTEM' if of_all else 'NODE', where, 'session', rows, [], {row.id.case for row in rows},
        {row.id for row in rows}, nodes, Cause('settings', problem.text), problem, evidence=[_RESTRICTED],
    )  # fmt: skip

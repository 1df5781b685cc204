# SPDX-License-Identifier: BSD-3-Clause
"""Turn problems outside the series of a session into incidents."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.problems import Problem
from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.incident import Scope

_RESTRICTED = (
    'CPUs may be offline (/sys/devices/system/cpu/online), or kept from the job by a cgroup, a container or taskset; '
    'after a planned change: `plumbline record propose SESSION --epoch NAME`'
)


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

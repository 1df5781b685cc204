# SPDX-License-Identifier: BSD-3-Clause
"""Find what went wrong in a session outside its series: problems that `ci` stored, and failed cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plumbline.identity import natural, to_text
from plumbline.problems import Problem
from plumbline.references import MODES
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.text import count, named
from postprocess.verdicts.measured import Measured, failure, last_runs


def other_hardware(partition: str, had: str, names: Iterable[str]) -> Problem:
    """Return the problem of nodes of a partition on which jobs `had` other hardware than their baseline."""
    nodes = tuple(sorted(names, key=natural))
    text = f'{named(nodes) or partition} had {had}: what ran there is not judged'
    return Problem(text, 'hardware', partition, nodes=nodes)


def problems_of(session: Session, cases: Iterable[CaseRow], rows: Sequence[Measured]) -> list[Problem]:
    """Return what went wrong in a session outside its series; `rows`: what it measured."""
    problems = [*session.problems]
    is_cut_short = any(problem.kind == 'cut short' for problem in problems)
    if session.expected is not None and session.expected != session.ran and not is_cut_short:
        problems.append(Problem(f'{count(session.expected, "case")} expected, {session.ran} ran'))
    if not session.ran:
        problems.append(Problem('no case ran'))
    elif all(row.status != 'measured' for row in rows):
        nothing = f'{count(session.ran, "case")} ran and nothing was measured that counts'
        problems.append(Problem(nothing, 'not measured'))
    if session.mode is not None and session.mode not in MODES:
        modes = ', '.join(MODES)
        problems.append(Problem(f'mode {session.mode!r} is none of {modes}: what it should have measured is unknown'))
    explained = {job.case_id for row in rows for job in row.jobs if job.status != 'measured'}
    for case in last_runs(cases):
        where, wrong = (case.partition, case.environ), [cause for cause in case.causes if cause.code != 'reference']
        at = f'of {case.partition} with {case.environ}'
        if case.fixture and (failed := failure(case) or ', '.join(map(str, wrong))):
            problems.append(Problem(f'fixture {case.name} {at}: {failed}', 'fixture', *where))
        # the performance phase failed for another reason than its metrics, which have verdicts of their own
        elif failure(case) is None and wrong and case.case_id not in explained:
            problems.append(Problem(f'{case.check} {to_text(case.params)} {at}: {wrong[0]}', 'case', *where))
    return list(dict.fromkeys(problems))

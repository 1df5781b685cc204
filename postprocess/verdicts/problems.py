# SPDX-License-Identifier: BSD-3-Clause
"""Find what went wrong in a session outside its series: problems that `ci` stored, and failed cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.identity import natural
from plumbline.references import MODES
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.text import count, named
from postprocess.verdicts.measured import Measured, failure, last_runs

ProblemKind = Literal['hardware', 'cut short', 'part ended', 'node lost', 'not measured', 'fixture', 'case', 'session']
# The sentences of `ci` on a session that was cut short, on a part of a node sweep that was ended, and on a lost node
_STORED: dict[ProblemKind, re.Pattern[str]] = {
    'cut short': re.compile(r'the session did not come to its end: .*'),
    'part ended': re.compile(r'the measurement of \d+ nodes? was ended: (?P<why>.*)'),
    'node lost': re.compile(
        r'(?P<node>\S+)(?: booted at \S+, while the session ran'
        r'| of (?P<partition>\S+) is .*(?:, but not drained| by Slurm itself, not by a person)'
        r'(?:, since this session began)?)'
    ),
}


@dataclass(frozen=True)
class Problem:
    """A sentence on what went wrong, with its facts as data.

    `kind`: ``hardware`` (not that of the baseline; the text is also the cause of the verdicts), ``cut short``, ``part
    ended``, ``node lost``, ``not measured`` (nothing in the session was), ``fixture``, ``case``, or ``session`` for all
    others. `partition`, `environ`, `node`, `nodes`: the place, if the problem has one. `why`: why a part of a node
    sweep was ended.
    """

    text: str
    kind: ProblemKind = 'session'
    partition: str = ''
    environ: str = ''
    node: str = ''
    why: str = ''
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def stored(text: str) -> Problem:
    """Return the problem that a stored sentence describes; no other code parses sentences."""
    for kind, pattern in _STORED.items():
        if match := pattern.fullmatch(text):
            said = match.groupdict('')
            return Problem(text, kind, said.get('partition', ''), node=said.get('node', ''), why=said.get('why', ''))
    return Problem(text)


def other_hardware(unlike: Mapping[tuple[str, str], Iterable[str]]) -> dict[tuple[str, str], Problem]:
    """Return the problem for each (partition, what its jobs had) of `unlike`, which holds the names of the nodes."""
    problems = {}
    for (partition, had), names in unlike.items():
        nodes = tuple(sorted(set(names), key=natural))
        text = f'{named(nodes) or partition} had {had}: what ran there is not judged'
        problems[partition, had] = Problem(text, 'hardware', partition, nodes=nodes)
    return problems


def problems_of(session: Session, cases: Iterable[CaseRow], rows: Sequence[Measured]) -> list[Problem]:
    """Return what went wrong in a session outside its series; `rows`: what it measured."""
    problems = [stored(text) for text in session.problems]
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
        where, reason = (case.partition, case.environ), case.fail_reason or ''
        at = f'of {case.partition} with {case.environ}'
        if case.fixture and (failed := failure(case) or reason):
            problems.append(Problem(f'fixture {case.name} {at}: {failed}', 'fixture', *where))
        # The performance phase failed: because of metrics, which have verdicts of their own, or for another reason
        elif (
            failure(case) is None
            and reason
            and 'failed to meet reference' not in reason
            and case.case_id not in explained
        ):
            problems.append(Problem(f'{case.check} {case.params} {at}: {reason}', 'case', *where))
    return list(dict.fromkeys(problems))

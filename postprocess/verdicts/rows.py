# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts of a session as rows of the table ``verdicts``, and what no row of them says as facts beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from plumbline.causes import Code
from plumbline.problems import Problem
from postprocess.results.judged import to_row
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.verdicts.verdict import BAD, Again, Common, Comparison, Verdict


@dataclass(frozen=True)
class _SessionFacts:
    """The fields of a `Comparison` of a session with its references that are of no single series."""

    problems: list[Problem]
    common: list[Common]
    again: tuple[Again, ...]
    left_out: str
    hints: list[str]
    retire: str
    undecided: int
    busy: int
    busy_jobs: frozenset[int]


def to_rows(verdicts: Iterable[Verdict], cases: Iterable[CaseRow]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table ``verdicts``; `cases`: those of the session."""
    codes = code_of_case(cases)
    return (to_row(verdict) | {'code': code_of(verdict, codes)} for verdict in verdicts)


def code_of_case(cases: Iterable[CaseRow]) -> dict[int, Code]:
    """Return `case_id` -> code of what is most wrong in the case, if its record says it."""
    return {case.case_id: case.why[0].code for case in cases if case.why}


def code_of(verdict: Verdict, codes: Mapping[int, Code]) -> Code | None:
    """Return the code of why a series has no number; None if it has one, or if the code is not known."""
    if verdict.verdict not in BAD:
        return None
    lost = (job.case_id for job in verdict.jobs if job.status != 'measured')
    return next((codes[case_id] for case_id in lost if case_id in codes), None)


def facts_of(comparison: Comparison) -> bytes:
    """Return as JSON what no row of a comparison says."""
    facts = _SessionFacts(**{field.name: getattr(comparison, field.name) for field in fields(_SessionFacts)})
    return json.dumps(msgspec.to_builtins(facts)).encode()  # unlike msgspec's JSON, with numbers that are not finite


def comparison_of(session: Session, verdicts: list[Verdict], facts: bytes) -> Comparison:
    """Return the comparison of which `facts_of` stored the facts."""
    of_session = msgspec.convert(json.loads(facts), _SessionFacts)
    own = {field.name: getattr(of_session, field.name) for field in fields(_SessionFacts)}
    return Comparison(session, None, verdicts, **own)

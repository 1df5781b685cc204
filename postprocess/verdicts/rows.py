# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts of a session as rows of the table ``verdicts``, and what no row of them says as facts beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import msgspec

from plumbline.problems import Problem
from postprocess.results.store import Session
from postprocess.verdicts.verdict import Again, Common, Comparison, Verdict


@dataclass(frozen=True)
class _SessionFacts:
    """The fields of a `Comparison` of a session with its references that are of no single series."""

    problems: list[Problem]
    common: list[Common]
    again: tuple[Again, ...]
    left_out: str
    hints: list[str]
    retire: str
    busy: int
    busy_jobs: frozenset[int]
    common_by_stand_in: list[Common]


def facts_of(comparison: Comparison) -> bytes:
    """Return as JSON what no row of a comparison says."""
    facts = _SessionFacts(**{field.name: getattr(comparison, field.name) for field in fields(_SessionFacts)})
    return json.dumps(msgspec.to_builtins(facts)).encode()  # unlike msgspec's JSON, with numbers that are not finite


def comparison_of(session: Session, verdicts: list[Verdict], facts: bytes) -> Comparison:
    """Return the comparison of which `facts_of` stored the facts."""
    of_session = msgspec.convert(json.loads(facts), _SessionFacts)
    own = {field.name: getattr(of_session, field.name) for field in fields(_SessionFacts)}
    return Comparison(session, None, verdicts, **own)

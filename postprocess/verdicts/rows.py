# SPDX-License-Identifier: BSD-3-Clause
"""Verdicts of a session as rows of the table ``verdicts``, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Limits
from plumbline.problems import Problem
from plumbline.record import Summary
from plumbline.references import Reference
from postprocess.results.store import Session
from postprocess.verdicts.measured import Job
from postprocess.verdicts.verdict import Again, Common, Comparison, Verdict

_SUMMARY = tuple(field.name for field in fields(Summary))
_LIMITS = tuple(field.name for field in fields(Limits))
_REFERENCE = tuple(field.name for field in fields(Reference) if field.name not in ('id', 'quantity'))
_JOB = tuple(field.name for field in fields(Job) if field.name != 'summary')


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


def facts_of(comparison: Comparison) -> bytes:
    """Return as JSON what no row of a comparison says."""
    facts = _SessionFacts(**{field.name: getattr(comparison, field.name) for field in fields(_SessionFacts)})
    return json.dumps(msgspec.to_builtins(facts)).encode()  # unlike msgspec's JSON, with numbers that are not finite


def comparison_of(session: Session, verdicts: list[Verdict], facts: bytes) -> Comparison:
    """Return the comparison of which `facts_of` stored the facts."""
    of_session = msgspec.convert(json.loads(facts), _SessionFacts)
    own = {field.name: getattr(of_session, field.name) for field in fields(_SessionFacts)}
    return Comparison(session, None, verdicts, **own)


def to_row(verdict: Verdict) -> dict[str, Any]:
    """Return the row of a verdict in the table ``verdicts``."""
    reference, limits = verdict.reference, verdict.limits
    low, high = verdict.interval or (None, None)
    return {
        **verdict.id.to_row(), 'unit': verdict.quantity.unit, 'better': verdict.quantity.better,
        'verdict': verdict.verdict, 'cause': verdict.cause, 'code': verdict.code, **_fields(verdict.measured, _SUMMARY),
        'reference': reference and {
            **reference.id.to_row(), 'unit': reference.quantity.unit, 'better': reference.quantity.better,
            **_fields(reference, _REFERENCE),
        },
        'limits': limits and _fields(limits, _LIMITS), 'loss': verdict.loss, 'loss_low': low, 'loss_high': high,
        'window': verdict.window, 'p': verdict.p, 'q': verdict.q, 'case_id': verdict.case_id, 'nodes': verdict.nodes,
        'jobs': [_fields(job, _JOB) | _fields(job.summary, _SUMMARY) for job in verdict.jobs],
    }  # fmt: skip


def _fields(of: object, names: Iterable[str]) -> dict[str, Any]:
    """Return some attributes by name."""
    return {name: getattr(of, name) for name in names}


def from_row(session: Session, row: Mapping[str, Any]) -> Verdict:
    """Return the verdict in a row of the table ``verdicts``."""
    low, high, reference, limits = row['loss_low'], row['loss_high'], row['reference'], row['limits']
    return Verdict(
        row['verdict'], SeriesId.from_row(row), Quantity(row['unit'], row['better']), _summary(row),
        reference and Reference(
            SeriesId.from_row(reference), Quantity(reference['unit'], reference['better']),
            **{name: reference[name] for name in _REFERENCE},
        ),
        limits and Limits(**limits), row['cause'], tuple(row['nodes']), row['p'], row['q'], session.session,
        row['case_id'], row['loss'], None if low is None else (low, high), row['window'],
        tuple(map(_job, row['jobs'])), row['code'],
    )  # fmt: skip


def _summary(row: Mapping[str, Any]) -> Summary:
    return Summary(*(row[name] for name in _SUMMARY))


def _job(row: Mapping[str, Any]) -> Job:
    own = {name: row[name] for name in _JOB} | {'nodes': tuple(row['nodes'])}
    return Job(**own, summary=_summary(row))

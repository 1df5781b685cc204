# SPDX-License-Identifier: BSD-3-Clause
"""Gather what is known of each series of a session by itself, before the series are judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plumbline.causes import sentence
from plumbline.limits import Limits, judges, tolerance_for, with_spread
from plumbline.problems import Problem
from plumbline.references import Reference, References
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session
from postprocess.verdicts import hardware
from postprocess.verdicts.decide import Facts, Loss
from postprocess.verdicts.elsewhere import Elsewhere, beside
from postprocess.verdicts.measured import Measured
from postprocess.verdicts.problems import other_hardware


def facts_of(
    session: Session, rows: Sequence[Measured], cases: Sequence[CaseRow], lookup: References,
    policy: Mapping[str, Any], root: Path | None,
) -> tuple[list[Facts], list[Problem]]:  # fmt: skip
    """Return what is known of each series by itself, and the problem of each other hardware that jobs had."""
    case_of = {case.case_id: case for case in cases}
    elsewhere = None if session.is_of_another_suite else Elsewhere.of(session.site, root)
    facts: list[Facts] = []
    unlike: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        case, tolerance = case_of[row.case_id], tolerance_for(policy, row.id, **row.stated)
        rules = [] if row.id.metric == '*' else judges(lookup, row.id, tolerance)
        if elsewhere and not rules and row.judged and row.status == 'measured':
            rules = elsewhere.rules(row, case)
        if had := _other_hardware(row, rules, case.provenance):
            unlike.setdefault((row.id.partition, had), []).append(place)
        failed = own_test(row, case) if session.is_of_another_suite else ''
        of_others = row.status == 'measured' and rules and not rules[0][1].gates
        loss = beside(row, *rules[0], session.session) if of_others else Loss()
        lost = next(iter(row.lost), None)
        facts.append(Facts(row, rules, session.session, lost, None, failed, loss, tolerance=tolerance))
    problems = []
    for (partition, had), places in unlike.items():
        problems.append(other_hardware(partition, had, {node for place in places for node in rows[place].nodes}))
        for place in places:
            facts[place] = replace(facts[place], hardware=problems[-1])
    return facts, problems


def candidates_of(facts: Sequence[Facts], own: References) -> list[tuple[int, Facts]]:
    """Return (index in `facts`, what is known of the series), once for each reference that a loss is computed against.

    `own`: the references of the site, which tell how much series vary.
    """
    return [
        (place, replace(of, rules=[rule], spread=with_spread(rule[0], own)))
        for place, of in enumerate(facts)
        for rule in of.referenced
    ]


def _other_hardware(row: Measured, rules: Sequence[tuple[Reference, Limits]], provenance: Mapping[str, str]) -> str:
    """Return which other hardware a measured series had than its baseline; empty if the same, or if not known."""
    facts = [reference.facts for reference, _ in rules if reference.kind == 'baseline']
    if row.status != 'measured' or not facts or facts[0].keys().isdisjoint(hardware.HARDWARE):
        return ''
    return hardware.unlike(provenance, facts[0])


def own_test(row: Measured, case: CaseRow) -> str:
    """Return why the test of another suite failed, if this series missed the reference that the test has of its own."""
    if case.fail_phase != 'performance':
        return ''
    missed = [cause.what for cause in case.causes if cause.code == 'reference'] or [row.id.metric]
    why = ': '.join(filter(None, ('its test failed against its own reference', sentence(case.causes))))
    return why if row.id.metric in missed else ''

# SPDX-License-Identifier: BSD-3-Clause
"""Find what a session should have measured, by the references of its site, and did not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from plumbline.causes import Cause
from plumbline.identity import SeriesId
from plumbline.limits import limits, tolerance_for
from plumbline.references import KINDS_OF_FILE, MODES, Reference, References
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.verdicts.decide import Facts
from postprocess.verdicts.measured import Measured, failure_of


def without_judgement(rows: Sequence[Measured], lookup: References) -> list[Measured]:
    """Return the rows; a series becomes missing if its check judged it when it was recorded and no longer does.

    All recorded points of a curve are judged as long as the check judges one of them.
    """

    def curve(row: Measured) -> tuple[Any, ...]:
        """Return what the points of one curve have in common."""
        return row.case_id, row.id.metric, *(name for name, _ in row.id.dims)

    recorded = {id for id, reference in lookup.exact.items() if reference.sessions}
    if all(row.judged or row.id not in recorded for row in rows):
        return list(rows)
    judged = {curve(row) for row in rows if row.judged}
    return [
        row.no_longer_judged() if row.status == 'measured' and row.id in recorded and curve(row) not in judged else row
        for row in rows
    ]


def recorded_together(store: Store, session: Session, lookup: References, rows: list[Measured]) -> set[SeriesId]:
    """Return the series recorded in the sessions that also recorded what a session of another suite measured.

    A session with a selection, such as by ``--name``, counts only beside those with the same one. Empty for a session
    of ours.
    """
    if not session.is_of_another_suite:
        return set()
    behind = frozenset[str]().union(*(lookup.exact[row.id].sessions for row in rows if row.id in lookup.exact))
    if session.narrowed_by:
        behind &= {one.short_name for one in store.sessions(session.site) if one.selection == session.selection}
    return {row.id for row in lookup.exact.values() if row.sessions & behind}


def not_measured(
    lookup: References, rows: list[Measured], cases: list[CaseRow], session: Session, policy: dict[str, Any],
    together: Collection[SeriesId] = (),
) -> list[Facts]:  # fmt: skip
    """Return the facts of each reference that the session should have measured and did not.

    It should have measured the references of the cases that ran; if it ran a whole mode, also the baselines of that
    mode; and a session of another suite, which has no modes, the series in `together`.
    """
    keys = {row.id for row in rows}
    cases = [case for case in cases if not case.fixture]
    ended = {case.id: case for case in cases}
    whole_mode = session.mode in MODES and not session.narrowed_by
    modes = MODES[: MODES.index(session.mode) + 1] if whole_mode else ()

    def in_mode(row: Reference) -> bool:
        """Return True if a session of this mode should have measured the row."""
        partition = session.partition in (None, row.id.partition)
        return row.mode in modes and row.kind not in KINDS_OF_FILE['published'] and partition

    unmet = [
        row
        for row in lookup.exact.values()
        if row.id not in keys
        and row.kind != 'elsewhere'
        and (row.id.case in ended or in_mode(row) or row.id in together)
    ]
    unmet += [row for row in lookup.patterns if in_mode(row) and not any(row.matches(key) for key in keys)]
    facts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.id.case)
        if case is None:
            cause = Cause('not-run', f'no case of this {session.mode or "whole"} session measured it')
        else:
            cause = failure_of(case) or Cause('lost-metric', 'its case ran and does not declare this metric')
        bound = limits(row, tolerance_for(policy, row.id, **row.stated))
        facts.append(Facts(Measured.absent(row.id, row.quantity, cause), [(row, bound)], session.session))
    return facts

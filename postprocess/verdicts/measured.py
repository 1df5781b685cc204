"""What a session measured and what it failed to measure, before any reference is looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from plumbline.identity import NONE, Quantity, SeriesId, from_text
from plumbline.record import NOTHING, Summary
from plumbline.references import MODES
from postprocess.results.store import Session, Store
from postprocess.results.tables import NEEDED_FAILED, reached_its_end
from postprocess.verdicts.stats import mean_of


@dataclass(frozen=True)
class Measured:
    """One series of one case of a session; metric ``*`` stands for a case that declares none.

    `status` is that of `postprocess.results.tables.status_of`; `cause` says why it is not ``measured``. One that is not
    `judged` is judged only where a reference names it. `floor`, `cap` and `usual_spread`: what the check states.
    """

    case_id: int
    id: SeriesId
    quantity: Quantity
    summary: Summary
    nodes: tuple[str, ...]
    mode: str
    status: str
    cause: str
    judged: bool = True
    floor: float | None = None
    cap: float | None = None
    usual_spread: float | None = None

    @property
    def value(self) -> float:
        """The mean of the samples; not a number without any."""
        return mean_of(self.summary)

    @property
    def stated(self) -> dict[str, float | None]:
        """What the check states of its tolerance, for `plumbline.limits.tolerance_for`."""
        return {'floor': self.floor, 'cap': self.cap, 'usual_spread': self.usual_spread}


def smallest_mode(tags: list[str]) -> str:
    """The first of the modes among a case's tags; empty without any."""
    return next((mode for mode in MODES if mode in tags), '')


def failure(case: dict[str, Any]) -> str | None:
    """Return why nothing that a case measured counts; None where it ended well, or failed only against references."""
    if reached_its_end(case['result'], case['fail_phase']):
        return None
    if case['fail_reason']:
        phase = f' in {case["fail_phase"]}' if case['fail_phase'] else ''
        return f'failed{phase}: {case["fail_reason"]}'
    return {
        NEEDED_FAILED: 'not run: a fixture or case that it needs failed',
        'skip': 'not run: ReFrame skipped it',
        'abort': 'not run: the session was aborted',
    }.get(case['result'], f'ended with result {case["result"]!r} in {case["fail_phase"] or "an unknown phase"}')


def measured_in(store: Store, session: Session) -> list[Measured]:
    """Return every series of every case of a session, read from the store."""
    return measured(store.rows('cases', session), store.rows('metrics', session))


def measured(cases: list[dict[str, Any]], metrics: list[dict[str, Any]]) -> list[Measured]:
    """Return every series of every case, from a session's rows of the tables `cases` and `metrics`."""
    declared: dict[int, list[dict[str, Any]]] = {}
    for row in metrics:
        declared.setdefault(row['case_id'], []).append(row)
    broken = {
        (case['partition'], case['environ']): failure(case) for case in cases if case['fixture'] and failure(case)
    }
    found = []
    for case in cases:
        if case['fixture']:
            continue
        failed = failure(case)
        if case['result'] == NEEDED_FAILED and (why := broken.get((case['partition'], case['environ']))):
            failed = f'not run: its stack {case["environ"]} {why}'
        nothing = Measured(
            case_id=case['case_id'], id=SeriesId.from_row(case | {'metric': '*', 'dims': NONE}),
            quantity=Quantity('', ''), summary=NOTHING, nodes=tuple(case['nodes']), mode=smallest_mode(case['tags']),
            status='failed', cause='',
        )  # fmt: skip
        for row in declared.get(case['case_id'], []):
            found.append(
                replace(
                    nothing,
                    id=replace(nothing.id, metric=row['metric'], dims=from_text(row['dims'])),
                    quantity=Quantity(row['unit'], row['better']),
                    summary=Summary(row['n'], row['mean'], row['std'], row['min'], row['max']),
                    status=row['status'],
                    cause=_cause(row, failed),
                    judged=row['judged'],
                    floor=row['floor'],
                    cap=row['cap'],
                    usual_spread=row['usual_spread'],
                )
            )
        if case['case_id'] not in declared and (failed or case['benchmark'] or case['fail_reason']):
            cause = failed or case['fail_reason'] or f'ended with result {case["result"]!r} and declared no metric'
            found.append(replace(nothing, cause=cause))
    return found


def _cause(row: dict[str, Any], failed: str | None) -> str:
    if row['status'] == 'invalid':
        return row['invalid']
    if row['status'] == 'missing':
        return row['missing'] or failed or 'the check declares it and reported no number for it'
    if row['status'] == 'failed':
        return failed or f'a sample is not a finite number (mean {row["mean"]})'
    return ''

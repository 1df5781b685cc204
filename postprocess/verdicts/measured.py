"""What a session measured and what it failed to measure, before any reference is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plumbline.record import NOTHING, Summary
from plumbline.references import MODES, Key
from postprocess.results.store import Session, Store

_NEEDED_FAILED = 'fail_deps'  # ReFrame's result of a case whose fixture failed
_RAN = ('pass', 'xfail', 'xpass')  # ReFrame's results of a case that reached its end


@dataclass(frozen=True)
class Measured:
    """A metric of one case; metric ``*`` stands for a case that names none.

    `status` is ``measured``, ``void`` (not to be believed), ``failed`` (its case is not to be believed) or ``missing``
    (declared, no number); `cause` says why in all but the first.
    """

    case_id: int
    partition: str
    stack: str
    check: str
    case: str
    metric: str
    unit: str
    better: str
    summary: Summary
    nodes: tuple[str, ...]
    mode: str
    status: str
    cause: str
    judged: bool = True  # the other sizes of a curve, say, are shown, and judged only by a reference that names them

    @property
    def key(self) -> Key:
        return self.partition, self.stack, self.check, self.case, self.metric


def smallest_mode(tags: list[str]) -> str:
    """The first of the modes among a case's tags; empty without any."""
    return next((mode for mode in MODES if mode in tags), '')


def failure(case: dict[str, Any]) -> str | None:
    """Why nothing that a case measured counts; None where it ended well, or failed only against its references."""
    if case['result'] in _RAN or (case['result'] == 'fail' and case['fail_phase'] == 'performance'):
        return None
    if case['fail_reason']:
        phase = f' in {case["fail_phase"]}' if case['fail_phase'] else ''
        return f'failed{phase}: {case["fail_reason"]}'
    return {
        _NEEDED_FAILED: 'not run: a fixture or case that it needs failed',
        'skip': 'not run: ReFrame skipped it',
        'abort': 'not run: the session was aborted',
    }.get(case['result'], f'ended with result {case["result"]!r} in {case["fail_phase"] or "an unknown phase"}')


def measured_in(store: Store, session: Session) -> list[Measured]:
    """Every metric of every case of a session, read from the store."""
    return measured(store.rows('cases', session), store.rows('metrics', session))


def measured(cases: list[dict[str, Any]], metrics: list[dict[str, Any]]) -> list[Measured]:
    """Every metric of every case, from the session's rows of the tables `cases` and `metrics`; fixtures have none."""
    declared: dict[int, list[dict]] = {}
    for row in metrics:
        declared.setdefault(row['case_id'], []).append(row)
    broken = {(case['partition'], case['stack']): failure(case) for case in cases if case['fixture'] and failure(case)}
    found = []
    for case in cases:
        if case['fixture']:
            continue
        common = {key: case[key] for key in ('case_id', 'partition', 'stack', 'check', 'case')}
        common |= {'nodes': tuple(case['nodes']), 'mode': smallest_mode(case['tags'])}
        failed = failure(case)
        if case['result'] == _NEEDED_FAILED and (why := broken.get((case['partition'], case['stack']))):
            failed = f'not run: its stack {case["stack"]} {why}'
        for row in declared.get(case['case_id'], []):
            summary = Summary(row['n'], row['mean'], row['std'], row['min'], row['max'])
            status, cause = _status(row, summary, failed, ran=case['result'] != _NEEDED_FAILED)
            found.append(
                Measured(
                    **common, metric=row['metric'], unit=row['unit'], better=row['better'], summary=summary,
                    status=status, cause=cause, judged=row.get('judged') is not False,
                )
            )  # fmt: skip
        if case['case_id'] not in declared and (failed or case['benchmark'] or case['fail_reason']):
            cause = failed or case['fail_reason'] or f'ended with result {case["result"]!r} and declared no metric'
            found.append(
                Measured(**common, metric='*', unit='', better='', summary=NOTHING, status='failed', cause=cause)
            )
    return found


def _status(row: dict[str, Any], summary: Summary, failed: str | None, ran: bool) -> tuple[str, str]:
    if not ran:
        return 'failed', failed
    if row['void']:
        return 'void', row['void']
    if not summary.n:
        return 'missing', row['missing'] or failed or 'the check declares it and reported no number for it'
    if failed:
        return 'failed', failed
    if summary.mean - summary.mean != 0:  # infinite or not a number: would compare as "not worse than"
        return 'failed', f'a sample is not a finite number (mean {summary.mean})'
    return 'measured', ''

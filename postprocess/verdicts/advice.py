"""Tell what to do where little is judged, where checks have changed, and where more sessions would narrow limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from plumbline.limits import PRIOR_DF, Tolerance, limits, spread_of
from plumbline.references import Reference
from postprocess.text import count
from postprocess.verdicts.verdict import Verdict

_LENGTHS = (3, 5, 10, 20, 30)  # sessions of a baseline
_NOTICEABLE = 0.75  # what becomes of the loss that is noticed


def hints(series: Sequence[Verdict], command: Callable[[str], str]) -> list[str]:
    """Return what to do next where next to nothing could be judged. `command`: returns one as it is to be typed."""
    measured = [row for row in series if row.value is not None and row.verdict != 'informational']
    judged = sum(row.reference is not None for row in measured)
    if not measured or 2 * judged > len(measured):
        return []
    if not judged:
        return [
            'No metric of this session has a reference, so nothing was judged. If the machine is as it should be, '
            f'record this session as the baseline: {command("record propose")}, read what it prints, then '
            f'{command("record accept")}.'
        ]
    return [
        f'Only {judged} of {len(measured)} metrics have a reference: {command("record propose")} records the others.'
    ]


def changed_checks(
    series: Sequence[Verdict], cases: Sequence[Mapping[str, Any]], command: Callable[[str], str]
) -> list[str]:
    """Return a sentence where the code of checks is another one than when their baseline was recorded."""
    codes = {case['case_id']: json.loads(case['provenance'] or '{}').get('check_code') for case in cases}
    changed = set()
    for row in {row.case_id: row for row in series if row.reference}.values():
        recorded = row.reference.facts.get('check_code') if row.reference else None
        measured_by = codes.get(row.case_id)
        if recorded and measured_by and measured_by not in recorded.split(' | '):
            changed.add(row.id.check)
    if not changed:
        return []
    which = f'the code of {", ".join(sorted(changed))}' if len(changed) < 6 else f'the code of {len(changed)} checks'
    return [
        f'Since the baseline was recorded, {which} has changed: see `git log checks/`. Where a number means something '
        f'else now, record it anew: {command("record propose --epoch NEW_CHECK")}.'
    ]


def more_sessions(rows: Sequence[tuple[Reference, Tolerance]], command: str) -> str:
    """Return what loss half of the metrics notice, and how many more sessions would lower that; empty without rows.

    `command`: the one that records them.
    """
    if not rows:
        return ''
    n, wanted = narrowing(rows)
    now = _noticed(rows, n)
    notice = (
        '' if now is None else f'With {count(n, "session")} half of the metrics notice a loss of {100 * now:.0f} %; '
    )
    then = wanted and _noticed(rows, wanted)
    if wanted and then is not None:
        more = f'with {count(wanted - n, "more session")} it is {100 * then:.0f} %: then {command}.'
        return notice + more if notice else more.capitalize()
    return notice and f'{notice}more sessions would change little.'


def narrowing(rows: Sequence[tuple[Reference, Tolerance]]) -> tuple[int, int | None]:
    """Return of how many sessions a baseline is, and of how many it notices much smaller losses; None: of no number."""
    n = sessions_of([row for row, _ in rows])
    now = _noticed(rows, n)
    for length in (length for length in _LENGTHS if length > n):
        then = _noticed(rows, length)
        if then is not None and (now is None or then < _NOTICEABLE * now):
            return n, length
    return n, None


def sessions_of(rows: Sequence[Reference]) -> int:
    """Return the median number of sessions behind the rows of a baseline."""
    return round(median(row.n or 1 for row in rows))


def _noticed(rows: Sequence[tuple[Reference, Tolerance]], n: int) -> float | None:
    """Return the median loss that limits of at least `n` sessions notice; None where none of them is known."""
    found = [limits(_of_sessions(row, tolerance, n), tolerance).detectable for row, tolerance in rows]
    known = [loss for loss in found if loss is not None]
    return median(known) if known else None


def _of_sessions(row: Reference, tolerance: Tolerance, n: int) -> Reference:
    """Return a row as it would be with `n` sessions, were its spread right."""
    if row.n is None or row.n >= n:
        return row
    spread, df = spread_of(row)
    if spread is None or df is None:
        spread, df = tolerance.usual_spread, PRIOR_DF
    return replace(row, n=n, spread=spread, df=df + n - row.n, spread_n=n)

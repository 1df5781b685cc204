"""Tell how well series are guarded: which of them a limit can fail, what loss each notices, what more would add."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from plumbline.limits import PRIOR_DF, Tolerance, limits, spread_of
from plumbline.references import Reference
from postprocess.text import count
from postprocess.verdicts.verdict import Comparison, Verdict

#: What a loss in a series leads to: a failure; a warning, as its number is of another machine; nothing, as there is no
#: reference, as it is not measured any more, or as it is informational.
STANDINGS = ('gated', 'elsewhere', 'no_reference', 'vanished', 'informational')
_LENGTHS = (3, 5, 10, 20, 30)  # sessions of a baseline
_NOTICEABLE = 0.75  # what becomes of the loss that is noticed


def standing(row: Verdict) -> str:
    """Return which of `STANDINGS` a series has."""
    if row.limits and row.value is None:
        return 'vanished'
    if row.verdict == 'informational':
        return row.verdict
    return row.limits.gate if row.limits else 'no_reference'


def guarded(comparison: Comparison) -> list[tuple[str, Verdict]]:
    """Return each series with its standing, the least guarded first; equal ones by the loss they notice."""
    rows = [(standing(row), row) for row in comparison.series if row.id.metric != '*']
    least_first = [*reversed(STANDINGS[:-1]), STANDINGS[-1]]

    def detectable(row: Verdict) -> float:
        return (row.limits and row.limits.detectable) or 0.0

    return sorted(rows, key=lambda pair: (least_first.index(pair[0]), -detectable(pair[1])))


def counts(comparison: Comparison) -> dict[str, int]:
    """Return how many series have each standing, without standings that none has."""
    found = Counter(name for name, _ in guarded(comparison))
    return {name: found[name] for name in STANDINGS if found[name]}


def counted(comparison: Comparison) -> str:
    """Return the counts as ``180 gated, 9 no reference``."""
    return ', '.join(f'{n} {name.replace("_", " ")}' for name, n in counts(comparison).items()) or 'no metric'


def guard(comparison: Comparison) -> str:
    """Return how many series are gated, and what losses they notice within one session."""
    noticed = sorted(
        row.limits.detectable
        for name, row in guarded(comparison)
        if name == 'gated' and row.limits and row.limits.detectable
    )
    text = f'Guarded: {counted(comparison)}.'
    if noticed:
        half, every = (f'{100 * loss:.1f} %' for loss in (noticed[len(noticed) // 2], noticed[-1]))
        when = 'Half' if comparison.scope else 'Within one session half'
        text += f' {when} of them notice losses above {half}, all of them losses above {every}.'
    return text


def hints(verdicts: Sequence[Verdict], command: Callable[[str], str]) -> list[str]:
    """Return what to do next where next to nothing could be judged. `command`: returns one as it is to be typed."""
    measured = [row for row in verdicts if row.value is not None and row.verdict != 'informational']
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
    verdicts: Sequence[Verdict], cases: Sequence[Mapping[str, Any]], command: Callable[[str], str]
) -> list[str]:
    """Return a sentence where the code of checks is another one than when their baseline was recorded."""
    codes = {case['case_id']: json.loads(case['provenance'] or '{}').get('check_code') for case in cases}
    changed = set()
    for row in {row.case_id: row for row in verdicts if row.reference}.values():
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

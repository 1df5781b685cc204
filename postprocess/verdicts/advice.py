"""Say in one line what more sessions would add to a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from plumbline.limits import PRIOR_DF, Tolerance, limits, spread_of
from plumbline.references import Reference
from postprocess.text import count

_LENGTHS = (3, 5, 10, 20, 30)  # sessions of a baseline
_NOTICEABLE = 0.75  # what becomes of the loss that is noticed


def more_sessions(rows: Sequence[tuple[Reference, Tolerance]], command: str) -> str:
    """Return what loss half of the metrics notice, and how many more sessions would lower that; empty without rows.

    `command`: the one that records them.
    """
    if not rows:
        return ''
    n = round(median(row.n or 1 for row, _ in rows))
    now = _noticed(rows, n)
    notice = (
        '' if now is None else f'With {count(n, "session")} half of the metrics notice a loss of {100 * now:.0f} %; '
    )
    for length in (length for length in _LENGTHS if length > n):
        then = _noticed(rows, length)
        if then is not None and (now is None or then < _NOTICEABLE * now):
            more = f'with {count(length - n, "more session")} it is {100 * then:.0f} %: then {command}.'
            return notice + more if notice else more.capitalize()
    return notice and f'{notice}more sessions would change little.'


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

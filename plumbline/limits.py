"""Compute how far a series may be from its reference: one rule for the run of a case and for the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from plumbline.identity import SeriesId
from plumbline.references import Reference, References

# Student's t, one-sided, 1 % in the tail, by degrees of freedom 1, 2, ... 30 (any textbook's table); a compute node
# has no scipy. Beyond 30: the normal quantile with the first two terms of the Cornish-Fisher expansion.
_T_99 = (
    31.8205, 6.9646, 4.5407, 3.7469, 3.3649, 3.1427, 2.9980, 2.8965, 2.8214, 2.7638, 2.7181, 2.6810, 2.6503, 2.6245,
    2.6025, 2.5835, 2.5669, 2.5524, 2.5395, 2.5280, 2.5176, 2.5083, 2.4999, 2.4922, 2.4851, 2.4786, 2.4727, 2.4671,
    2.4620, 2.4573,
)  # fmt: skip
_Z_99 = 2.326348
_Z_80 = 0.841621
DEFAULT_FLOOR = 0.02
DEFAULT_CAP = 0.15
#: Sessions that a baseline's spread must come from before it gates.
ENOUGH_SESSIONS = 5


@dataclass(frozen=True)
class Tolerance:
    """The loss of performance that the limit of a series allows: at least floor, at most cap, between 0 and 1.

    `usual_spread`: coefficient of variation between sessions, where the check states it.
    """

    floor: float = DEFAULT_FLOOR
    cap: float = DEFAULT_CAP
    usual_spread: float | None = None


@dataclass(frozen=True)
class Limits:
    """The range of values that count as equal to the reference: beyond `bad` regressed, beyond `good` improved.

    `gate` is ``gated``, or why a value beyond `bad` only warns: ``provisional`` (too few sessions behind the baseline),
    ``too_noisy`` (the interval is wider than the cap), ``elsewhere`` (a number of another machine). `sd` is the
    standard deviation of the logarithm of one further value about the reference's, with `df` degrees of freedom; both
    are None where the spread of the reference is not known. `loss` of performance at `bad`, between 0 and 1: a time
    that is twice as long is a loss of a half. `why`: which of interval, floor and cap set it.
    """

    bad: float
    good: float
    loss: float
    why: str
    gate: str = 'gated'
    sd: float | None = None
    df: float | None = None
    floor: float = 0.0

    @property
    def gates(self) -> bool:
        """True if a value beyond `bad` fails."""
        return self.gate == 'gated'

    @property
    def detectable(self) -> float | None:
        """The loss of performance that is found four times of five: the minimum detectable change."""
        return None if self.sd is None else -math.expm1(math.log1p(-self.loss) - _Z_80 * self.sd)

    def repeats_for(self, loss: float, n: int | None) -> int | None:
        """Return how many jobs per session make `loss` detectable by their mean, with a reference of `n` sessions.

        None where no number of jobs is enough, or the spread is not known.
        """
        wanted, floor = -math.log1p(-loss), -math.log1p(-self.floor)
        if self.sd is None or self.df is None or n is None or floor >= wanted:
            return None
        if not self.sd:
            return 1
        sd = min((wanted - floor) / _Z_80, wanted / (quantile_t99(self.df) + _Z_80))
        rest = (sd / self.sd) ** 2 * (1 + 1 / n) - 1 / n  # what the jobs may add, in variances of one job
        return math.ceil(1 / rest) if rest > 0 else None


def quantile_t99(degrees_of_freedom: float) -> float:
    """Return the 99 % quantile of Student's t. `degrees_of_freedom` >= 1, not always whole: moderated spreads."""
    if degrees_of_freedom < len(_T_99):
        below = int(degrees_of_freedom)
        # linear in 1/df: from 3 degrees of freedom on less than 0.7 % too wide
        share = (1 / below - 1 / degrees_of_freedom) * below * (below + 1)
        return _T_99[below - 1] + share * (_T_99[below] - _T_99[below - 1])
    first, second = (_Z_99**3 + _Z_99) / 4, (5 * _Z_99**5 + 16 * _Z_99**3 + 3 * _Z_99) / 96
    return _Z_99 + first / degrees_of_freedom + second / degrees_of_freedom**2


def limits(row: Reference, tolerance: Tolerance) -> Limits:
    """Return the limits of a series whose reference is `row`; all its values must be above 0.

    Prediction interval for one further value on the log scale: mean * exp(-+ t(0.99, df) * s * sqrt(1 + 1/n)), its
    loss of performance 1 - exp(-t s sqrt(1 + 1/n)) held between floor and cap. s and df are the row's own where it was
    recorded with them, else sqrt(ln(1 + (std/mean)^2)) and n - 1. A published number without spread (std or n unknown,
    or n = 1) gets the usual spread of the metric, but at least the floor; a baseline of one session the cap.
    """
    spread, df = spread_of(row)
    gate, sd = 'gated', None
    if spread is None or df is None or row.n is None:
        usual = -math.expm1(-_Z_99 * math.sqrt(2) * (tolerance.usual_spread or 0.0))  # of two values with that spread
        if row.kind == 'baseline':
            loss, why = tolerance.cap, 'cap: one session shows no spread'
        elif usual > tolerance.floor:
            loss, why = min(usual, tolerance.cap), 'usual spread of the metric: the reference has no spread'
        else:
            loss, why = tolerance.floor, 'floor: the reference has no spread'
    else:
        sd = spread * math.sqrt(1 + 1 / row.n)
        loss, why = -math.expm1(-quantile_t99(df) * sd), f'99 % prediction interval of n={row.n}'
        if loss < tolerance.floor:
            loss, why = tolerance.floor, 'floor'
        elif loss > tolerance.cap:
            loss, why, gate = tolerance.cap, f'cap: too noisy to gate, the interval of n={row.n} is wider', 'too_noisy'
    if row.kind == 'elsewhere':
        gate, why = 'elsewhere', f'{why}; of another machine, only warns'
    elif row.kind == 'baseline' and (row.spread_n or row.n or 0) < ENOUGH_SESSIONS:
        gate, why = 'provisional', f'{why}; of fewer than {ENOUGH_SESSIONS} sessions, only warns'
    less, more = row.mean * (1 - loss), row.mean / (1 - loss)
    bad, good = (less, more) if row.quantity.sign > 0 else (more, less)
    return Limits(bad, good, loss, why, gate, sd, df, tolerance.floor)


def spread_of(row: Reference) -> tuple[float | None, float | None]:
    """Return the standard deviation of the logarithm of one value and its degrees of freedom; None if not known."""
    if row.spread is not None:
        return row.spread, row.df
    if row.std is None or row.n is None or row.n < 2:
        return None, None
    return math.sqrt(math.log1p((row.std / row.mean) ** 2)), row.n - 1


def judges(references: References, of: SeriesId, tolerance: Tolerance) -> list[tuple[Reference, Limits]]:
    """Return the rows that a series is judged by: the first decides, one after it only warns. Raises SiteError.

    While a baseline is of too few sessions, a published number of this machine decides in its place.
    """
    row = references.find(of)
    if row is None:
        return []
    found = [(row, limits(row, tolerance))]
    if found[0][1].gate == 'provisional' and (published := references.published.find(of)):
        bound = limits(published, tolerance)
        found.insert(0 if bound.gates else 1, (published, bound))
    return found


def tolerance_for(
    policy: Mapping[str, Any], of: SeriesId, floor: float | None = None, cap: float | None = None,
    usual_spread: float | None = None,
) -> Tolerance:  # fmt: skip
    """Return the tolerance of a series: what its check states, unless the `policy` of the site says otherwise.

    `policy`: ``tolerance`` of site.yaml. Its rules are shell patterns of check, params, metric and dims, and the last
    that matches wins. None: the check states nothing, and the default of the suite holds.
    """
    floor = policy.get('floor', DEFAULT_FLOOR if floor is None else floor)
    cap = policy.get('cap', max(floor, DEFAULT_CAP if cap is None else cap))
    texts = of.to_row()
    for rule in policy.get('rules', []):
        if all(fnmatchcase(texts[name], rule.get(name, '*')) for name in ('check', 'params', 'metric', 'dims')):
            floor, cap = rule['floor'], rule['cap']
    return Tolerance(min(floor, cap), cap, usual_spread)  # a cap of the site may be below the floor of the check

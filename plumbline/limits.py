# SPDX-License-Identifier: BSD-3-Clause
"""Compute how far a series may be from its reference: one rule for the run of a case and for the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from plumbline.identity import SeriesId
from plumbline.references import Reference, References

# Student's t, one-sided, 1 in 100 000 in the tail, by degrees of freedom 1, 2, ... 10; a compute node has no scipy.
# Beyond 10: the normal quantile with four terms of the Cornish-Fisher expansion (Abramowitz and Stegun, 26.7.5).
_T = (31830.99, 223.6034, 47.9277, 23.3322, 15.5469, 12.0317, 10.1027, 8.9070, 8.1021, 7.5270)
_Z = 4.264891
DEFAULT_FLOOR = 0.02
#: A loss that always counts, however much a series varies.
DEFAULT_CAP = 0.75
#: Coefficient of variation between sessions that holds where a check states none, and the degrees of freedom that the
#: stated or default one counts for.
DEFAULT_SPREAD = 0.02
PRIOR_DF = 4.0
#: So many standard deviations beyond a limit, a loss is found four times of five.
POWER = 0.841621
#: The most jobs that measure a series in one session (the first one and eight further ones), and the assumed
#: correlation between these jobs.
MOST_JOBS = 9
LIKENESS_OF_JOBS = 0.3
_FLOOR = 'floor'  # why a limit is as it is


@dataclass(frozen=True)
class Tolerance:
    """Losses of performance, between 0 and 1: a loss below `floor` never counts, a loss above `cap` always counts.

    `usual_spread`: the coefficient of variation between sessions, as the check states it.
    """

    floor: float = DEFAULT_FLOOR
    cap: float = DEFAULT_CAP
    usual_spread: float = DEFAULT_SPREAD

    @property
    def prior(self) -> float:
        """The usual variance of the logarithm of a session's value, for this kind of metric."""
        return self.usual_spread**2


#: What a value beyond its limit causes: a failure; a warning, where the reference is of another machine; or neither,
#: where something stands in for a reference.
Gate = Literal['gated', 'elsewhere', '']


@dataclass(frozen=True)
class Limits:
    """The limits for the value of one job of a series: a value beyond `bad` fails in the run.

    `loss`: the loss of performance at `bad`, between 0 and 1; a time that is twice as long is a loss of a half. `why`:
    what set the limit: the prediction interval, the floor or the cap. `gate`: ``gated``, or ``elsewhere`` where the
    reference is of another machine, so that a value beyond the limit only warns; empty where something stands in for a
    reference. `sd`: standard deviation of the logarithm of one further value about the reference, with `df` degrees of
    freedom. `detectable`: the loss that one session with reruns finds four times of five, at a site with a thousand
    series. `sd_of_jobs`: standard deviation of the logarithm of the mean of `MOST_JOBS` jobs of one session, on which
    `detectable` rests.
    """

    bad: float
    good: float
    loss: float
    why: str
    gate: Gate = 'gated'
    sd: float | None = None
    df: float | None = None
    detectable: float | None = None
    sd_of_jobs: float | None = None

    @property
    def gates(self) -> bool:
        """True if a value beyond `bad` fails."""
        return self.gate == 'gated'

    @property
    def is_floor(self) -> bool:
        """True if a loss up to the limit never counts, because the floor set it."""
        return self.why == _FLOOR

    def chance(self, loss: float) -> float:
        """Return the chance that one session finds a `loss`, a share of performance below 1; 4 of 5 at `detectable`."""
        if not (self.gates and self.detectable and self.sd_of_jobs):
            return 0.0
        beyond = (math.log1p(-self.detectable) - math.log1p(-loss)) / self.sd_of_jobs + POWER
        return math.erfc(-beyond / math.sqrt(2)) / 2


def quantile_t(df: float) -> float:
    """Return the quantile of Student's t that 1 of 100 000 values exceeds. `df` >= 1, not necessarily an integer."""
    if df < len(_T):
        below = int(df)
        share = (1 / below - 1 / df) * below * (below + 1)  # the logarithm, linear in 1/df: less than 0.6 % too wide
        return _T[below - 1] * (_T[below] / _T[below - 1]) ** share
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / df**power for power, term in enumerate(terms, 1))


def limits(row: Reference, tolerance: Tolerance) -> Limits:
    """Return the limits of a series whose reference is `row`; all values of the series must be above 0.

    The limit is the end of a prediction interval on the log scale, beyond which 1 of 100 000 healthy values lies,
    ``mean * exp(-+ t(df) * s * sqrt(1 + 1/n))`` with s and df of `expected_spread`. The loss at the limit is at least
    the floor and at most the cap.
    """
    variance, df, _ = expected_spread(row, tolerance)
    return _limits(row.mean, row.n, row.kind, row.quantity.sign, variance, df, tolerance)


@lru_cache(2**16)  # in a sweep over nodes, all nodes have the same arguments
def _limits(
    mean: float, n: int | None, kind: str, sign: int, variance: float, df: float, tolerance: Tolerance
) -> Limits:
    error = 1 / n if n else 0.0
    sd = math.sqrt(variance * (1 + error))
    loss, why = -math.expm1(-quantile_t(df) * sd), f'1 healthy value of 100 000 is beyond it, n={n or "unknown"}'
    if loss < tolerance.floor:
        loss, why = tolerance.floor, _FLOOR
    elif loss > tolerance.cap:
        loss, why = tolerance.cap, 'cap'
    gate: Gate = 'gated'
    if kind == 'elsewhere':
        gate, why = 'elsewhere', f'{why}; of another machine, only warns'
    less, more = mean * (1 - loss), mean / (1 - loss)
    bad, good = (less, more) if sign > 0 else (more, less)
    jobs = math.sqrt(variance * (LIKENESS_OF_JOBS + (1 - LIKENESS_OF_JOBS) / MOST_JOBS))
    confirmed = (quantile_t(df + MOST_JOBS - 1) + POWER) * math.hypot(jobs, math.sqrt(variance * error))
    noticed = max(-math.expm1(-confirmed), -math.expm1(math.log1p(-tolerance.floor) - POWER * jobs))
    return Limits(bad, good, loss, why, gate, sd, df, min(noticed, max(tolerance.cap, tolerance.floor)), jobs)


def expected_spread(row: Reference, tolerance: Tolerance) -> tuple[float, float, bool]:
    """Return variance of the logarithm of one session's value, degrees of freedom, and whether the variance is assumed.

    A recorded spread with at least `PRIOR_DF` degrees of freedom is used as it is. A recorded spread with fewer degrees
    of freedom, or the plain std of a row, is averaged with the usual spread of the metric. A row with neither has the
    usual spread, which is assumed. A spread between the jobs of a single session is used as it is and is assumed, too.
    """
    spread, df = spread_of(row)
    if spread is None or df is None:
        return tolerance.prior, PRIOR_DF, True
    if row.spread is not None and row.spread_n == 1:
        return spread**2, PRIOR_DF, True
    if row.spread is not None and df >= PRIOR_DF:
        return spread**2, df, False
    return (PRIOR_DF * tolerance.prior + df * spread**2) / (PRIOR_DF + df), PRIOR_DF + df, False


def spread_of(row: Reference) -> tuple[float | None, float | None]:
    """Return standard deviation of the logarithm of one value and its degrees of freedom; both None if not known."""
    if row.spread is not None:
        return row.spread, row.df
    if row.std is None or row.n is None or row.n < 2:
        return None, None
    return math.sqrt(math.log1p((row.std / row.mean) ** 2)), row.n - 1


def with_spread(reference: Reference, own: References) -> Reference:
    """Return the row that tells how much a series varies between sessions: the site's `own` if `reference` does not.

    The std of a row of one session is not used: it is the std between nodes.
    """
    if reference.kind == 'session':
        reference = replace(reference, std=None)
    if reference.kind == 'baseline' or spread_of(reference)[0] is not None:
        return reference
    row = own.exact.get(reference.id)
    return row if row is not None and row.kind == 'baseline' and row.quantity == reference.quantity else reference


def judges(references: References, series: SeriesId, tolerance: Tolerance) -> list[tuple[Reference, Limits]]:
    """Return the reference rows that a series is judged by, each with its limits. Raises SiteError.

    These are the row that counts and, if this is a baseline, the published row.
    """
    row = references.find(series)
    rows = [row] if row else []
    if row and row.kind == 'baseline' and (published := references.published.find(series)):
        rows.append(published)
    return [(row, limits(row, tolerance)) for row in rows]


def tolerance_for(
    policy: Mapping[str, Any], series: SeriesId, floor: float | None = None, usual_spread: float | None = None
) -> Tolerance:
    """Return the tolerance of a series: what its check states, unless the `policy` of the site says otherwise.

    `policy`: ``tolerance`` of site.yaml. Its rules are shell patterns of check, params, metric and dims; the last one
    that matches wins. `floor` and `usual_spread` are None where the check states nothing; then the default of the suite
    holds. Only a site sets the cap.
    """
    floor = policy.get('floor', DEFAULT_FLOOR if floor is None else floor)
    cap = policy.get('cap', max(floor, DEFAULT_CAP))
    rules = policy.get('rules', [])
    texts = series.to_row() if rules else {}
    for rule in rules:
        named = [(name, rule[name]) for name in ('check', 'params', 'metric', 'dims') if name in rule]
        if all(fnmatchcase(texts[name], pattern) for name, pattern in named):
            floor, cap = rule['floor'], rule['cap']
    # a cap of the site may be below the floor of the check
    return Tolerance(min(floor, cap), cap, usual_spread or DEFAULT_SPREAD)

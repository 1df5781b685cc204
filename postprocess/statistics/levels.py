# SPDX-License-Identifier: BSD-3-Clause
"""Estimate the level of a series and its spread between sessions, with outliers dropped and two levels told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy
from numpy import ndarray

from plumbline.limits import DEFAULT_FLOOR, DEFAULT_SPREAD
from postprocess.statistics.distributions import ENOUGH_METRICS, inliers, moderate
from postprocess.statistics.method import METHOD

_ENOUGH_SESSIONS = 5  # from which an outlier is told from usual variation
_APART = 12.0  # least distance of two levels, in standard deviations inside them
_LEAST_SPREAD = 0.25  # of the usual spread: printed values are rounded, and may be equal


@dataclass(frozen=True)
class Level:
    """The level of one series: which of its values count, and how much a further value would vary.

    `used`: True for each value that counts. `variance` of the logarithm of one session's value with `df` degrees of
    freedom, both None with one session. `usual`: the spread that is usual for such a value here, as far as further jobs
    show it. `levels`: the means and sessions of both levels, the worse first, where there are two; then only the values
    of the worse count. `switched`: the session in which the second level began, if the series stayed there; else None.
    `worse`: where jobs of one session were at both levels, the mean of those at the worse one, of each session that
    counts; then `levels` have jobs in place of sessions.
    """

    used: ndarray
    dropped: int = 0
    variance: float | None = None
    df: float | None = None
    usual: float | None = None
    levels: tuple[tuple[float, int], ...] = ()
    switched: int | None = None
    worse: ndarray | None = None


@dataclass(frozen=True)
class Values:
    """The values of one series, above 0, with the number of their session each, in the order of the sessions.

    `sign`: 1 where higher is better. `usual`: the spread that is usual for its kind of metric. `floor`: the smallest
    loss that matters. `looks`: the values of further jobs of a session, which nothing chose, by its number.
    """

    values: ndarray
    sessions: ndarray
    sign: int = 1
    usual: float = DEFAULT_SPREAD
    floor: float = DEFAULT_FLOOR
    looks: Mapping[int, ndarray] = field(default_factory=dict)

    def jobs(self) -> list[ndarray]:
        """Return all jobs of each session that has further ones."""
        return [numpy.append(self.values[self.sessions == night], more) for night, more in self.looks.items()]


def estimate(series: Sequence[Values]) -> list[Level]:
    """Return the level of each series, with spreads corrected for dropped outliers and shrunk towards usual ones.

    `moderate` finds from all series how far what is usual for their kinds holds at this site. Where several nodes ran
    in a session, all their values count for the spread, and the sessions for the degrees of freedom. What is usual is
    at least what further jobs within a session show (`_usual`).
    """
    levels = [_level(of) for of in series]
    spreads = _usual(series, levels)
    if any(of.looks for of in series):
        levels = [replace(level, usual=float(here)) for level, here in zip(levels, spreads, strict=True)]
    narrowed = _share_by_chance(levels)
    known, variances, degrees, usual = [], [], [], []
    for place, (of, level, here) in enumerate(zip(series, levels, spreads, strict=True)):
        sessions = len(numpy.unique(of.sessions[level.used]))
        if sessions < 2:
            continue
        factor, fewer = _correction(level.dropped / len(level.used), narrowed)
        known.append(place)
        values = of.values[level.used] if level.worse is None else level.worse
        variances.append(numpy.log(values).var(ddof=1) * factor)
        degrees.append(max((sessions - 1) / fewer, 1.0))
        usual.append(here**2)
    if known:
        moderated = moderate(*map(numpy.array, (variances, degrees, usual)))
        for place, variance, df in zip(known, *moderated, strict=True):
            levels[place] = replace(levels[place], variance=float(variance), df=float(df))
    return levels


def _usual(series: Sequence[Values], levels: Sequence[Level]) -> ndarray:
    """Return the spread that is usual for a session's value of each series.

    That of its kind, unless further jobs of a session show more: they have `METHOD.alike` of the variance in common, so
    what differs between them is the rest of it. Moderated over the series, which also tells it of those without further
    jobs. Of minutes it is the least that sessions differ by.
    """
    stated = numpy.array([of.usual for of in series]) ** 2
    squares, df = numpy.zeros(len(series)), numpy.zeros(len(series))
    for place, (of, level) in enumerate(zip(series, levels, strict=True)):
        for jobs in of.jobs():
            logs = numpy.log(jobs)
            if level.levels:
                logs = logs[_is_worse(jobs, of.sign, level)]
            if len(logs) > 1:
                squares[place] += ((logs - logs.mean()) ** 2).sum()
                df[place] += len(logs) - 1
    if not df.any():
        return numpy.sqrt(stated)
    within = squares / numpy.maximum(df, 1) / (1 - METHOD.alike[0])
    within = numpy.where(df > 0, numpy.maximum(within, _LEAST_SPREAD**2 * stated), 0.0)
    return numpy.sqrt(numpy.maximum(stated, moderate(within, df, stated)[0]))


def _is_worse(values: ndarray, sign: int, level: Level) -> ndarray:
    """Return which values are nearer to the worse of two levels."""
    border = numpy.sqrt(level.levels[0][0] * level.levels[1][0])
    return sign * values < sign * border


def _level(of: Values) -> Level:
    logs = numpy.log(of.values)
    sessions, first = numpy.unique(of.sessions, return_index=True)
    means = numpy.add.reduceat(logs, first) / numpy.diff([*first, len(logs)])
    performance = of.sign * means
    if (border := _border(performance, of)) is not None:
        low = performance < border
        found = tuple((math.exp(means[side].mean()), int(side.sum())) for side in (low, ~low))
        changes = numpy.flatnonzero(low[1:] != low[:-1])
        switched = int(sessions[changes[0] + 1]) if len(changes) == 1 else None
        return Level(numpy.isin(of.sessions, sessions[low]), levels=found, switched=switched)
    if (within := _within_a_session(of, sessions)) is not None:
        return within
    if len(sessions) < _ENOUGH_SESSIONS:
        return Level(numpy.ones(len(logs), bool))
    used = inliers(logs)
    return Level(used, dropped=int((~used).sum()))


def _within_a_session(of: Values, sessions: ndarray) -> Level | None:
    """Return the worse of two levels that the jobs of one session were at; None where there are no two."""
    borders = (_border(of.sign * numpy.log(jobs), of) for jobs in of.jobs())
    border = next((found for found in borders if found is not None), None)
    if border is None or len(sessions) < len(of.values):
        return None
    low, high, worse, used = [], [], [], numpy.zeros(len(of.values), bool)
    for place, night in enumerate(of.sessions.tolist()):
        jobs = numpy.log(numpy.append(of.values[place], of.looks.get(night, ())))
        is_low = of.sign * jobs < border
        low += jobs[is_low].tolist()
        high += jobs[~is_low].tolist()
        if is_low.any():
            used[place] = True
            worse.append(math.exp(jobs[is_low].mean()))
    levels = tuple((math.exp(sum(side) / len(side)), len(side)) for side in (low, high))
    return Level(used, levels=levels, worse=numpy.array(worse))


def _border(performance: ndarray, of: Values) -> float | None:
    """Return a value between two levels of at least two sessions each; None where there are no two.

    The gap must exceed 12 standard deviations inside the levels, more with fewer than ten sessions: less than one of a
    thousand series with normal, skewed or autocorrelated noise has such a gap (tests/postprocess/test_levels.py).
    """
    ordered = numpy.sort(performance)
    n = len(ordered)
    if n < _ENOUGH_SESSIONS:
        return None
    ordered -= (middle := ordered.mean())
    below = numpy.arange(2, n - 1)  # sessions in the lower level
    sums = ordered.cumsum()[below - 1]
    within = (ordered**2).sum() - sums**2 / below - (ordered.sum() - sums) ** 2 / (n - below)
    gaps = ordered[below] - ordered[below - 1]
    spreads = numpy.sqrt(numpy.maximum(within, 0) / (n - 2)).clip(_LEAST_SPREAD * of.usual)
    best = (gaps / spreads).argmax()
    if gaps[best] < -math.log1p(-of.floor) or gaps[best] < (_APART + 14 / (n - 4) ** 2) * spreads[best]:
        return None
    return float(middle + (ordered[below[best]] + ordered[below[best] - 1]) / 2)


def _share_by_chance(levels: Sequence[Level]) -> float:
    """Return the share of the series with dropped values that would lose values by chance under normal noise.

    0.12 (5/n)^0.62 of the series of n values lose some (simulated). With fewer than 10 series nothing shows that more
    than chance is at work.
    """
    sizes = numpy.array([len(level.used) for level in levels if len(level.used) >= _ENOUGH_SESSIONS])
    hit = sum(level.dropped > 0 for level in levels)
    if not hit or len(sizes) < ENOUGH_METRICS:
        return 1.0
    return min(1.0, float((0.12 * (5 / sizes) ** 0.62).sum()) / hit)


def _correction(dropped: float, by_chance: float) -> tuple[float, float]:
    """Return the factor of a variance, and the divisor of its degrees of freedom, that correct for dropped values.

    `dropped`: their share of the values. The variance of normal values that 4 scaled median absolute deviations cut is
    too small by 1 + 12 q + 20 q^2, and as uncertain as if it had 1 + 5 q times fewer degrees of freedom (simulated for
    5 to 60 values). If more values are dropped than chance explains, most were outliers, and the correction is smaller.
    """
    narrower = 1 / (1 + 12 * dropped + 20 * dropped**2)
    return 1 / (by_chance * narrower + 1 - by_chance), 1 + 5 * dropped * by_chance

# SPDX-License-Identifier: BSD-3-Clause
"""Estimate the level of a series and its spread between sessions; drop outliers, and tell two levels apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy
from numpy import ndarray

from plumbline.limits import DEFAULT_FLOOR, DEFAULT_SPREAD
from postprocess.statistics.distributions import ENOUGH_METRICS, inliers, moderate
from postprocess.statistics.method import METHOD

_ENOUGH_SESSIONS = 5  # fewest sessions in which to look for outliers and second levels
_APART = 12.0  # least gap between two levels, in standard deviations of the values inside them
_LEAST_SPREAD = 0.25  # least spread as a part of the usual one: printed values are rounded, and may be equal


@dataclass(frozen=True)
class Level:
    """The level of one series: which of its values count, and how much a further value would vary.

    `used`: True for each value that counts. `dropped`: number of outliers. `variance`: of the logarithm of one
    session's value, with `df` degrees of freedom; both None with one session. `usual`: the spread that is usual for
    such a value here, if there are further jobs. `levels`: where the series has two levels, (mean, number of sessions)
    of each, the worse first; then only values of the worse level count. `switched`: the session in which the second
    level began, if the series stayed there; else None. `worse`: where jobs of one session were at both levels, the mean
    of the jobs at the worse level, for each session that counts; the numbers in `levels` are then of jobs, not of
    sessions.
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
    """The values of one series, above 0, and the number of the session of each value, in the order of the sessions.

    `sign`: 1 where higher is better, else -1. `usual`: the usual spread of the kind of metric. `floor`: the smallest
    loss that matters. `looks`: number of a session -> values of its further jobs, which no earlier value selected.
    """

    values: ndarray
    sessions: ndarray
    sign: int = 1
    usual: float = DEFAULT_SPREAD
    floor: float = DEFAULT_FLOOR
    looks: Mapping[int, ndarray] = field(default_factory=dict)

    def jobs(self) -> list[ndarray]:
        """Return for each session with further jobs the values of all its jobs."""
        return [numpy.append(self.values[self.sessions == night], more) for night, more in self.looks.items()]


def estimate(series: Sequence[Values]) -> list[Level]:
    """Return the level of each series.

    Its spread is corrected for dropped outliers and shrunk towards the usual spread. `moderate` finds from all series
    how far the usual spreads hold at this site. Where several nodes ran in a session, all their values count for the
    spread, but only sessions count for the degrees of freedom. The usual spread is at least what further jobs within a
    session show (`usual_spreads`).
    """
    levels = [_level(recorded) for recorded in series]
    spreads = usual_spreads(series, levels)
    if any(recorded.looks for recorded in series):
        levels = [replace(level, usual=float(here)) for level, here in zip(levels, spreads, strict=True)]
    narrowed = _share_by_chance(levels)
    known, variances, degrees, usual = [], [], [], []
    for place, (recorded, level, here) in enumerate(zip(series, levels, spreads, strict=True)):
        sessions = len(numpy.unique(recorded.sessions[level.used]))
        if sessions < 2:
            continue
        factor, fewer = _correction(level.dropped / len(level.used), narrowed)
        known.append(place)
        values = recorded.values[level.used] if level.worse is None else level.worse
        variances.append(numpy.log(values).var(ddof=1) * factor)
        degrees.append(max((sessions - 1) / fewer, 1.0))
        usual.append(here**2)
    if known:
        moderated = moderate(*map(numpy.array, (variances, degrees, usual)))
        for place, variance, df in zip(known, *moderated, strict=True):
            levels[place] = replace(levels[place], variance=float(variance), df=float(df))
    return levels


def usual_spreads(series: Sequence[Values], levels: Sequence[Level]) -> ndarray:
    """Return the usual spread of a session's value for each series.

    It is the spread of the kind of metric, unless further jobs of a session show more: jobs of a session have
    `METHOD.alike` of the variance in common, so they differ by the rest of it. The result is moderated over the series,
    and so gives a spread to series without further jobs. Jobs minutes apart vary the least, so it is a lower bound for
    sessions.
    """
    stated = numpy.array([values.usual for values in series]) ** 2
    squares, df = numpy.zeros(len(series)), numpy.zeros(len(series))
    for place, (values, level) in enumerate(zip(series, levels, strict=True)):
        for jobs in values.jobs():
            logs = numpy.log(jobs)
            if level.levels:
                logs = logs[is_at_worse_level(jobs, values.sign, level)]
            if len(logs) > 1:
                squares[place] += ((logs - logs.mean()) ** 2).sum()
                df[place] += len(logs) - 1
    if not df.any():
        return numpy.sqrt(stated)
    within = squares / numpy.maximum(df, 1) / (1 - METHOD.alike[0])
    within = numpy.where(df > 0, numpy.maximum(within, _LEAST_SPREAD**2 * stated), 0.0)
    return numpy.sqrt(numpy.maximum(stated, moderate(within, df, stated)[0]))


def is_at_worse_level(values: ndarray, sign: int, level: Level) -> ndarray:
    """Return True for each value that is nearer to the worse of two levels."""
    border = numpy.sqrt(level.levels[0][0] * level.levels[1][0])
    return sign * values < sign * border


def _level(of: Values) -> Level:
    """Return the level of one series, without its spread: the worse of two levels, or the values without outliers."""
    logs = numpy.log(of.values)
    sessions, first = numpy.unique(of.sessions, return_index=True)
    means = numpy.add.reduceat(logs, first) / numpy.diff([*first, len(logs)])
    performance = of.sign * means
    if (border := _border(performance, of)) is not None:
        low = performance < border
        two_levels = tuple((math.exp(means[side].mean()), int(side.sum())) for side in (low, ~low))
        changes = numpy.flatnonzero(low[1:] != low[:-1])
        switched = int(sessions[changes[0] + 1]) if len(changes) == 1 else None
        return Level(numpy.isin(of.sessions, sessions[low]), levels=two_levels, switched=switched)
    if (within := _within_a_session(of, sessions)) is not None:
        return within
    if len(sessions) < _ENOUGH_SESSIONS:
        return Level(numpy.ones(len(logs), bool))
    used = inliers(logs)
    return Level(used, dropped=int((~used).sum()))


def _within_a_session(of: Values, sessions: ndarray) -> Level | None:
    """Return the level from the worse of two levels between which jobs of one session differ; None without two levels.

    Also None if a session has several values.
    """
    borders = (_border(of.sign * numpy.log(jobs), of) for jobs in of.jobs())
    border = next((value for value in borders if value is not None), None)
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
    """Return a value between two levels of at least two sessions each; None without two levels.

    The gap must exceed 12 standard deviations inside the levels, and more with fewer than ten sessions: of series with
    normal, skewed or autocorrelated noise, less than one of a thousand has such a gap
    (tests/postprocess/test_levels.py).
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
    """Return which share of the series with dropped values lose values by normal noise alone, as expected.

    Of series with n values, 0.12 (5/n)^0.62 lose some (simulated). Fewer than 10 series cannot show that more than
    chance is at work: then 1.
    """
    sizes = numpy.array([len(level.used) for level in levels if len(level.used) >= _ENOUGH_SESSIONS])
    hit = sum(level.dropped > 0 for level in levels)
    if not hit or len(sizes) < ENOUGH_METRICS:
        return 1.0
    return min(1.0, float((0.12 * (5 / sizes) ** 0.62).sum()) / hit)


def _correction(dropped: float, by_chance: float) -> tuple[float, float]:
    """Return two corrections for dropped values: the factor of a variance, and the divisor of its degrees of freedom.

    `dropped`: share q of the values that was dropped. If 4 scaled median absolute deviations cut normal values, their
    variance is too small by 1 + 12 q + 20 q^2, and as uncertain as with 1 + 5 q times fewer degrees of freedom
    (simulated for 5 to 60 values). `by_chance`: share of the series that chance explains; the others had outliers, so
    the correction is smaller.
    """
    narrower = 1 / (1 + 12 * dropped + 20 * dropped**2)
    return 1 / (by_chance * narrower + 1 - by_chance), 1 + 5 * dropped * by_chance

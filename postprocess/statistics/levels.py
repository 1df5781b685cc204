# SPDX-License-Identifier: BSD-3-Clause
"""Estimate the level of a series and its spread between sessions, with outliers dropped and two levels told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy
from numpy import ndarray

from plumbline.limits import DEFAULT_FLOOR, DEFAULT_SPREAD
from postprocess.statistics.distributions import ENOUGH_METRICS, inliers, moderate

_ENOUGH_SESSIONS = 5  # from which an outlier is told from usual variation
_APART = 12.0  # least distance of two levels, in standard deviations inside them
_LEAST_SPREAD = 0.25  # of the usual spread: printed values are rounded, and may be equal


@dataclass(frozen=True)
class Level:
    """The level of one series: which of its values count, and how much a further value would vary.

    `used`: True for each value that counts. `variance` of the logarithm of one session's value with `df` degrees of
    freedom, both None with one session. `levels`: the means and sessions of both levels, the worse first, where there
    are two; then only the values of the worse count. `switched`: the session in which the second level began, if the
    series stayed there; else None.
    """

    used: ndarray
    dropped: int = 0
    variance: float | None = None
    df: float | None = None
    levels: tuple[tuple[float, int], ...] = ()
    switched: int | None = None


@dataclass(frozen=True)
class Values:
    """The values of one series, above 0, with the number of their session each, in the order of the sessions.

    `sign`: 1 where higher is better. `usual`: the spread that is usual for its kind of metric. `floor`: the smallest
    loss that matters.
    """

    values: ndarray
    sessions: ndarray
    sign: int = 1
    usual: float = DEFAULT_SPREAD
    floor: float = DEFAULT_FLOOR


def estimate(series: Sequence[Values]) -> list[Level]:
    """Return the level of each series, with spreads corrected for dropped outliers and shrunk towards usual ones.

    `moderate` finds from all series how far what is usual for their kinds holds at this site. Where several nodes ran
    in a session, all their values count for the spread, and the sessions for the degrees of freedom.
    """
    levels = [_level(of) for of in series]
    narrowed = _share_by_chance(levels)
    known, variances, degrees, usual = [], [], [], []
    for place, (of, level) in enumerate(zip(series, levels, strict=True)):
        sessions = len(numpy.unique(of.sessions[level.used]))
        if sessions < 2:
            continue
        factor, fewer = _correction(level.dropped / len(level.used), narrowed)
        known.append(place)
        variances.append(numpy.log(of.values[level.used]).var(ddof=1) * factor)
        degrees.append(max((sessions - 1) / fewer, 1.0))
        usual.append(of.usual**2)
    if known:
        moderated = moderate(*map(numpy.array, (variances, degrees, usual)))
        for place, variance, df in zip(known, *moderated, strict=True):
            levels[place] = replace(levels[place], variance=float(variance), df=float(df))
    return levels


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
    if len(sessions) < _ENOUGH_SESSIONS:
        return Level(numpy.ones(len(logs), bool))
    used = inliers(logs)
    return Level(used, dropped=int((~used).sum()))


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

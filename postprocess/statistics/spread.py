# SPDX-License-Identifier: BSD-3-Clause
"""Levels and spreads of the nodes of a series, estimated so that slow nodes and slow sessions do not change them."""

from __future__ import annotations

import math

import numpy
from numpy import ndarray

from plumbline.limits import Tolerance
from postprocess.statistics.baseline import error_of_mean
from postprocess.statistics.distributions import MAD_OF_NORMAL, moderate

FEWEST_SESSIONS = 4  # fewest accepted sessions of a node for a level and spread of its own
FEW, LARGE = 16, 0.15  # with fewer values than FEW, their spread is uncertain: only losses of at least LARGE count
_FALL = 0.001  # chance that a fall is found among the accepted sessions of a node that did not fall
_HEAVY = 0.15  # lower bound of the weight of the tails, as 1 / df: few values cannot show that there are no tails
# (95 % quantile / 75 % quantile of Student's t, 1 / df): how heavy the tails of a distribution are
_TAILS = ((2.44, 0.0), (2.60, 0.1), (2.77, 0.2), (3.08, 0.333), (3.58, 0.5), (6.31, 1.0))


class Levels:
    """The level and the spread of the runs of each node.

    `own`: the level. `sd`: the spread, with `df` degrees of freedom. `n`: number of steady sessions behind both. `phi`:
    correlation of neighboring sessions.
    """

    def __init__(self, left: ndarray, accepted: ndarray, steady: ndarray, floor: float):
        past = until_last(accepted)
        left, accepted, steady = left[:, past], accepted[:, past], steady[:, past]
        self.n = steady.sum(axis=1)
        with numpy.errstate(invalid='ignore'):
            self.own = numpy.where(steady, left, 0.0).sum(axis=1) / self.n
        rest = left - self.own[:, None]
        squares = numpy.where(steady, rest, 0.0)
        enough = self.n >= FEWEST_SESSIONS
        like = _correlation(squares[enough], self.n[enough]) if enough.any() else 0.0
        self.phi = like
        self.sd, self.df = numpy.full(len(left), numpy.nan), numpy.full(len(left), numpy.nan)
        n = self.n[enough]
        variances = (squares[enough] ** 2).sum(axis=1) / (n * (1 - error_of_mean(like, n)))
        variances = numpy.maximum(variances, (floor / 20) ** 2)
        variances, self.df[enough] = moderate(variances, (n - 1.0) * (1 - like**2) / (1 + like**2))
        self.sd[enough] = numpy.sqrt(variances)
        with numpy.errstate(invalid='ignore'):
            self._below = numpy.sort((rest / self.sd[:, None])[accepted & enough[:, None]])

    def share_below(self, deviations: ndarray) -> ndarray:
        """Return the share of all accepted values below each of `deviations`, in spreads of a node from its level."""
        return numpy.searchsorted(self._below, deviations) / max(len(self._below), 1)


def two_way(performance: ndarray, accepted: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return the rest of `performance` without both levels, each node's level, and the fleet's level of each session.

    `performance`: nodes x sessions. `accepted`: True for the values whose median is a node's level; a node without any
    has NaN. If some nodes have enough accepted values, the first estimate of the fleet's levels uses only these nodes:
    one session of a node does not separate the level of the node from that of the session.
    """
    columns = until_last(accepted)
    chosen, past = accepted[:, columns], performance[:, columns]
    own = median(numpy.where(chosen, past, numpy.nan), axis=1)
    few = chosen.sum(axis=1) < FEWEST_SESSIONS
    if not few.all():
        own[few] = numpy.nan
    fleet = median(past - own[:, None], axis=0, better=True)
    own = median(
        numpy.where(chosen, past - fleet, numpy.nan), axis=1
    )  # again, now without the levels of the sessions in which the node ran
    apart = performance - own[:, None]
    fleet = median(apart, axis=0, better=True)
    return apart - fleet, own, fleet


def after_fall(left: ndarray, accepted: ndarray, floor: float) -> ndarray:
    """Return True for the values of each row after its mean fell by at least `floor`: then its level is lost.

    The fall is where Student's t between the accepted values before it and after it is largest.
    """
    from scipy.special import stdtrit

    fallen = numpy.zeros(left.shape, bool)
    past = until_last(accepted)
    if past.stop < FEWEST_SESSIONS + 2:
        return fallen
    accepted = accepted[:, past]
    values = numpy.where(accepted, left[:, past], 0.0)
    n, total = accepted.cumsum(axis=1), values.cumsum(axis=1)
    possible = accepted & (n >= FEWEST_SESSIONS) & (n <= n[:, -1:] - 2)
    with numpy.errstate(divide='ignore', invalid='ignore'):
        fall = total / n - (total[:, -1:] - total) / (n[:, -1:] - n)
    possible &= fall >= floor
    rows = numpy.flatnonzero(possible.any(axis=1))
    if not len(rows):
        return fallen
    values, n, total, fall, possible = values[rows], n[rows], total[rows], fall[rows], possible[rows]
    every, after = n[:, -1:], n[:, -1:] - n
    with numpy.errstate(divide='ignore', invalid='ignore'):
        squares = (values**2).sum(axis=1, keepdims=True) - total**2 / n - (total[:, -1:] - total) ** 2 / after
        within = squares / (every - 2) + (floor / 20) ** 2
        t = numpy.where(possible, fall / numpy.sqrt(within * (1 / n + 1 / after)), -numpy.inf)
    fell = t.max(axis=1) > -stdtrit(every[:, 0] - 2, _FALL)
    place = t.argmax(axis=1)
    fallen[rows] = (numpy.arange(left.shape[1]) > place[:, None]) & fell[:, None]
    return fallen


def until_last(accepted: ndarray) -> slice:
    """Return the columns up to the last one with an accepted value."""
    columns = numpy.flatnonzero(accepted.any(axis=0))
    return slice(0, int(columns[-1]) + 1 if len(columns) else 0)


def _correlation(rest: ndarray, n: ndarray) -> float:
    """Return the correlation of neighboring sessions of a node, corrected for the subtraction of its own level."""
    squares = (rest**2).sum()
    lost = len(n) / n.sum()
    r = (rest[:, 1:] * rest[:, :-1]).sum() / squares if squares else 0.0
    r = (r + lost) / (1 - 3 * lost) if lost < 0.2 else r + lost
    return float(min(max(r - 2 / math.sqrt(n.sum()), 0.0), 0.9))


def bound_of(values: ndarray, p: float, tolerance: Tolerance | None) -> float:
    """Return the distance below the median of `values` that a healthy value exceeds with chance `p`.

    With a tolerance it is at least the floor; with a tolerance and fewer than `FEW` values, also at least `LARGE`.
    """
    from scipy.special import stdtrit

    scale, df = scale_of(values)
    least = -math.log1p(-max(tolerance.floor, LARGE if len(values) < FEW else 0.0)) if tolerance else 0.0
    return max(-float(stdtrit(df, p)) * scale, least)


def scale_of(values: ndarray) -> tuple[float, float]:
    """Return the spread of values around their median, and its degrees of freedom, for Student's t.

    The spread is the median absolute deviation, which is as uncertain as the standard deviation of 0.37 n values. The
    weight of the tails is estimated from the better half, because the worse half holds the slow nodes.
    """
    from scipy.special import stdtrit

    n = len(values)
    apart = values - numpy.median(values)
    scale = float(numpy.median(abs(apart))) / MAD_OF_NORMAL
    df = max(0.37 * n - 1, 1)
    if n >= FEW and scale > 0:
        near, far = numpy.quantile(apart[apart >= 0], [0.5, 0.9])
        ratios, inverse = zip(*_TAILS, strict=True)
        heavy = float(numpy.interp(far / near, ratios, inverse)) if near > 0 else 1.0
        df = max(1 / (1 / df + max(heavy, _HEAVY)), 1)
        scale *= MAD_OF_NORMAL / float(stdtrit(df, 0.75))
    return scale, df


def median(values: ndarray, axis: int = 0, better: bool = False) -> ndarray:
    """Return the median of the finite values along `axis`; NaN without any.

    `better`: of an even number of values, return the larger of the two in the middle: where half of the nodes are slow,
    it is the value of a healthy one.
    """
    if not values.shape[axis]:
        return numpy.full(numpy.delete(values.shape, axis), numpy.nan)
    if axis == 0 and not better and numpy.isfinite(values).all():
        return numpy.median(values, axis=0)  # faster than to sort long columns
    ordered = numpy.sort(values, axis=axis)  # puts NaN last
    n = numpy.expand_dims(numpy.isfinite(values).sum(axis=axis), axis)
    low, high = (numpy.take_along_axis(ordered, numpy.maximum(place, 0), axis) for place in ((n - 1) // 2, n // 2))
    low, high = low.squeeze(axis), numpy.where(n.squeeze(axis) > 0, high.squeeze(axis), numpy.nan)
    return high if better else (low + high) / 2

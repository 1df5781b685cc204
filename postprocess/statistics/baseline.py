# SPDX-License-Identifier: BSD-3-Clause
"""Estimate what M series should be tonight: level, spread, correlation of sessions and jobs, slow sessions.

Values are the logarithm of performance: higher is better, and a difference is a loss. All estimates use first jobs, an
unselected sample, and pairs of jobs of one night; none uses tonight's losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy import ndarray

from postprocess.statistics.distributions import deviate, fit_prior, inliers, scatter, upper
from postprocess.statistics.method import METHOD

_ENOUGH_SERIES = 20  # fewest series for an estimate over a site
_ENOUGH_VALUES = 200  # fewest values of baselines for an estimate of the tail of slow sessions
_MOST_DF = 30.0  # most degrees of freedom of the spread of a kind of metric
_SAME_LEVEL = 2.0  # standard errors within which later sessions are at the level of the baseline
_CLIP = 6.0  # standard deviations at which a value of a level is cut


@dataclass(frozen=True)
class Baseline:
    """What M series should be: arrays of M.

    `mean` of the logarithm of performance over `n` sessions; `variance` of one session about it, with `df` degrees of
    freedom. `prior`: the usual variance of its kind of metric; where `assumed`, the variance is this prior. `floor`:
    logarithm of the smallest loss that matters; `cap`: of the largest that may be noise. `weight`: 1, or less for one
    of many points of a curve. `sessions`: M x N first jobs of the sessions of the baseline, and `second`, a further job
    of the same session; not a number where they are not known.
    """

    mean: ndarray
    variance: ndarray
    df: ndarray
    n: ndarray
    prior: ndarray
    assumed: ndarray
    floor: ndarray
    cap: ndarray
    weight: ndarray
    sessions: ndarray
    second: ndarray

    @cached_property
    def sd(self) -> ndarray:
        """The standard deviation of one session."""
        return numpy.sqrt(self.variance)

    @property
    def shares(self) -> ndarray:
        """The share of each series in the false alarms of a night."""
        return self.weight / self.weight.sum()

    def deviations(self, values: ndarray, cut: float = math.inf) -> ndarray:
        """Return M x ... values in standard deviations above the mean, not beyond `cut`; NaN where there is none."""
        shape = (-1, *[1] * (values.ndim - 1))
        return numpy.clip((values - self.mean.reshape(shape)) / self.sd.reshape(shape), -cut, cut)


@dataclass(frozen=True)
class Expected:
    """A baseline with the estimates from all series of the site together.

    `phi`: correlation of neighbouring sessions; `rho`: correlation of the jobs of one night; `g`: variance of each
    mean, in units of the variance of one session. `tail`: deviations of the sessions of all baselines below their
    means, in standard deviations, ascending. `lasting`: the share of slow sessions times the share of these that last
    into a further job, if that is too large for further jobs to confirm a loss; else 0.
    """

    baseline: Baseline
    phi: float
    rho: float
    g: ndarray
    tail: ndarray
    lasting: float

    def deviate(
        self, loss: ndarray, v: ndarray | float, squares: ndarray | float = 0.0, more: ndarray | float = 0.0
    ) -> ndarray:
        """Return the normal deviate of losses. `v`: their variance in units of the variance of one session.

        `squares`: sum of squares of the jobs about their own mean, with `more` degrees of freedom.
        """
        of = self.baseline
        return deviate(loss / self.error(v, squares, more), of.df + more)

    def error(self, v: ndarray | float, squares: ndarray | float = 0.0, more: ndarray | float = 0.0) -> ndarray:
        """Return the standard error of losses with variance `v`, including that of the mean of the baseline."""
        of = self.baseline
        return numpy.sqrt((of.df * of.variance + squares) / (of.df + more) * (v + self.g))

    @cached_property
    def worst(self) -> float:
        """The worst session of all baselines, in standard deviations below its mean; 0 where few are known."""
        return float(self.tail[-1]) if len(self.tail) >= _ENOUGH_VALUES else 0.0

    @cached_property
    def skew(self) -> float:
        """The skewness of the sessions of all baselines towards low performance, at least 0.

        Deviations are cut as in a window; 0 if few are known.
        """
        if len(self.tail) < _ENOUGH_VALUES:
            return 0.0
        below = numpy.clip(self.tail, -METHOD.cut[0], METHOD.cut[0])
        below = below - below.mean()
        skew = (below**3).mean() / (below**2).mean() ** 1.5
        return float(skew) if skew > 3 * math.sqrt(6 / len(below)) else 0.0

    def usual(self, z: ndarray) -> ndarray:
        """Return deviates of single jobs, reduced to what the share of such values among all baselines justifies."""
        n = len(self.tail)
        if n < _ENOUGH_VALUES:
            return z
        beyond = n - numpy.searchsorted(self.tail, z)
        ranks, places = numpy.unique(beyond, return_inverse=True)
        shares = numpy.array([upper((rank + 0.5) / (n + 1)) if rank else upper(0.3 / n) for rank in ranks.tolist()])
        return numpy.minimum(z, shares[places].reshape(z.shape))

    def is_at_level(self, values: ndarray) -> ndarray:
        """Return which of M x W values are at a lower level that already occurs in the baseline of the series.

        Example: a second mode of the machine. The level is one session far below the mean, or several less far below.
        """
        of, (far, less_far, near) = self.baseline, METHOD.level
        z = of.deviations(of.sessions)
        there = numpy.isfinite(z)
        low = there & (z < -less_far)
        low &= (low.sum(axis=1, keepdims=True) > 1) | (z < -far)
        sessions = numpy.where(low, of.sessions, numpy.nan)
        known = low.any(axis=1)
        if not known.any():
            return numpy.zeros(values.shape, bool)
        bounds = numpy.full((2, len(known)), numpy.nan)
        bounds[:, known] = numpy.nanmin(sessions[known], axis=1), numpy.nanmax(sessions[known], axis=1)
        margin = near * of.sd
        return (values >= (bounds[0] - margin)[:, None]) & (values <= (bounds[1] + margin)[:, None])


def expect(baseline: Baseline, first: ndarray) -> Expected:
    """Return what to expect of the series; `first`: M x W first jobs of the sessions since, tonight last."""
    baseline = _with_accepted_sessions(_with_fitted_spread(baseline, first), first)
    phi = _likeness_of_sessions(baseline, first)
    g = error_of_mean(phi, baseline.n)
    n = numpy.maximum(baseline.n, 2)
    shown = n * (1 - error_of_mean(phi, n)) / (n - 1)  # the share of the variance that correlated sessions show
    baseline = replace(baseline, variance=numpy.where(baseline.assumed, 1, 1 / shown) * baseline.variance)
    z = baseline.deviations(baseline.sessions)
    known = (baseline.n >= METHOD.short)[:, None] & numpy.isfinite(z)
    rho, lasting = _alike(baseline, z, known)
    expected = Expected(baseline, phi, max(rho, phi), g, numpy.sort(-z[known]), lasting)
    scale = _scale_of_tonight(expected, first[:, -1])
    return replace(expected, baseline=replace(baseline, variance=baseline.variance * scale**2))


def error_of_mean(phi: float, n: ndarray) -> ndarray:
    """Return the variance of the mean of `n` sessions, in variances of one session: the sum of phi^|i-j| / n^2."""
    return (n + 2 * phi / (1 - phi) * (n - (1 - phi**n) / (1 - phi))) / n**2


def _with_fitted_spread(baseline: Baseline, first: ndarray) -> Baseline:
    """Return the baseline with assumed variances fitted to the site.

    All series together show the common factor by which the priors of their kinds are wrong here, and how much series
    differ (`fit_prior`). A single session shows it after its median, a loss in common, is removed; three or more show
    it by their variances. The factor of the variance is held between 1/9 and 100.
    """
    unknown = baseline.assumed
    if unknown.sum() < _ENOUGH_SERIES:
        return baseline
    values, prior = first[unknown], baseline.prior[unknown]
    k = numpy.isfinite(values).sum(axis=1)
    centred = values - _mean_of(values)[:, None]
    between = numpy.nansum(centred**2, axis=1) / numpy.maximum(k - 1, 1)
    change = values[:, -1] - baseline.mean[unknown]
    once = (change - numpy.median(change)) ** 2 / (1 + 1 / baseline.n[unknown])
    several = k > 2
    d0, factor = fit_prior(numpy.where(several, between, once) / prior, numpy.where(several, k - 1.0, 1.0))
    variance, df = baseline.variance.copy(), baseline.df.copy()
    variance[unknown] = prior * min(max(factor, 1 / 9), 100)
    df[unknown] = min(max(d0, 1), _MOST_DF)
    return replace(baseline, variance=variance, df=df)


def _with_accepted_sessions(baseline: Baseline, first: ndarray) -> Baseline:
    """Return the baseline extended by later sessions that are older than all windows, up to 30 in total.

    Uses first jobs without outliers, and only if their mean is within `_SAME_LEVEL` standard errors of the accepted
    one: the level must follow neither a drift nor an intermittent fault.
    """
    there = numpy.isfinite(first)
    older = there & (there[:, ::-1].cumsum(axis=1)[:, ::-1] > METHOD.windows[-1])
    older &= older.cumsum(axis=1) <= (METHOD.long - baseline.n)[:, None]
    enough = older.sum(axis=1) >= METHOD.short
    if not enough.any():
        return baseline
    used = numpy.zeros_like(older)
    used[enough] = inliers(numpy.where(older, first, numpy.nan)[enough])
    z = numpy.where(older, baseline.deviations(first, _CLIP), numpy.nan)
    level = baseline.mean + baseline.sd * _mean_of(z)
    k = used.sum(axis=1)
    error = baseline.sd * numpy.sqrt(1 / baseline.n + 1 / numpy.maximum(k, 1))
    alike = enough & (abs(baseline.mean - level) < _SAME_LEVEL * error)
    k = numpy.where(alike, k, 0)
    own = numpy.where(used, first, numpy.nan)
    squares = numpy.nansum((own - _mean_of(own)[:, None]) ** 2, axis=1)
    n, df = baseline.n + k, baseline.df + numpy.maximum(k - 1, 0)
    more = numpy.where(older & alike[:, None], first, numpy.nan)
    return replace(
        baseline,
        mean=(baseline.n * baseline.mean + k * level) / n,
        variance=numpy.where(alike, (baseline.df * baseline.variance + squares) / df, baseline.variance),
        df=df,
        n=n,
        assumed=baseline.assumed & ~alike,
        sessions=numpy.concatenate([baseline.sessions, more], axis=1),
        second=numpy.concatenate([baseline.second, numpy.full(more.shape, numpy.nan)], axis=1),
    )


def _scale_of_tonight(expected: Expected, tonight: ndarray) -> float:
    """Return the factor by which tonight's first values scatter more than usual, at least 1."""
    if len(tonight) < _ENOUGH_SERIES:
        return 1.0
    return scatter(-expected.deviate(expected.baseline.mean - tonight, 1.0))


def _likeness_of_sessions(baseline: Baseline, first: ndarray) -> float:
    """Return phi from the lag-1 products of the baseline's sessions, or of those since where they are not known.

    The ratio of the products to the squares, as the median of all series, so that a lasting loss in some of them has no
    influence. Deviations from a mean of n sessions are negatively correlated, so the ratio is compared with tr1(C S C)
    / tr(C S C), where S = phi^|i-j|, C = I - 1/n and tr1 sums the first off-diagonal. Less than three standard errors
    count as none.
    """
    sessions = baseline.sessions[:, numpy.isfinite(baseline.sessions).any(axis=0)]
    if sessions.shape[1] < 4:
        in_order = numpy.take_along_axis(first, numpy.argsort(numpy.isfinite(first), axis=1, kind='stable'), axis=1)
        sessions = in_order[:, -METHOD.windows[-1] :]
    n = numpy.isfinite(sessions).sum(axis=1)
    sessions = sessions[n > 3]
    if len(sessions) < _ENOUGH_SERIES:
        return 0.0
    z = numpy.nan_to_num(sessions - _mean_of(sessions)[:, None])
    most = 3 * numpy.median(abs(z), axis=1, keepdims=True) / 0.6745
    z = numpy.clip(z, -most, most)
    squares = (z**2).sum(axis=1)
    ratio = numpy.median((z[:, 1:] * z[:, :-1]).sum(axis=1)[squares > 0] / squares[squares > 0])
    length = int(numpy.median(n[n > 3]))
    candidates = numpy.linspace(0, 0.9, 37)
    phi = float(numpy.interp(ratio, [_lag_ratio(length, phi) for phi in candidates], candidates))
    return 0.0 if phi < 3.0 / math.sqrt(len(sessions) * (length - 1)) else phi


def _lag_ratio(n: int, phi: float) -> float:
    s = phi ** abs(numpy.subtract.outer(numpy.arange(n), numpy.arange(n)))
    centre = numpy.eye(n) - 1 / n
    centred = centre @ s @ centre
    return numpy.trace(centred, 1) / numpy.trace(centred)


def _alike(baseline: Baseline, z: ndarray, known: ndarray) -> tuple[float, float]:
    """Return rho and `Expected.lasting` from the pairs of jobs of the baseline's sessions; `z`: of its first jobs.

    rho is the regression slope of the second job on the first. The choice of cases that run twice depends on the first
    job alone, so it does not bias the slope. Some pairs were chosen at random while the baseline was recorded.
    """
    assumed, weight = METHOD.alike
    other = baseline.deviations(baseline.second)
    pairs = known & numpy.isfinite(other)
    one, two = (numpy.clip(of[pairs], -METHOD.cut[0], METHOD.cut[0]) for of in (z, other))
    rho = ((one * two).sum() + assumed * weight) / ((one**2).sum() + weight)
    least, share, lasting = METHOD.slow
    values = z[known]
    slow_share = ((values < -least).mean() - (values > least).mean()) if len(values) else 0.0
    slow = pairs & (z < -least)
    lasts = ((slow & (other < -least / 2)).sum() + 0.5) / (slow.sum() + 1)
    too_many = slow_share > share and lasts > lasting
    return float(min(max(rho, 0.0), 0.9)), slow_share * max(lasts, 0.5) if too_many else 0.0


def _mean_of(values: ndarray) -> ndarray:
    """Return the mean of the numbers in each row; 0 for a row without any."""
    return numpy.nansum(values, axis=1) / numpy.maximum(numpy.isfinite(values).sum(axis=1), 1)

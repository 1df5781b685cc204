# SPDX-License-Identifier: BSD-3-Clause
"""Estimate what M series should be tonight: level, spread, correlation of sessions and jobs, share of slow sessions.

Values are the logarithm of performance: higher is better, and a difference of two values is a loss. All estimates use
first jobs, which nothing selects, and further jobs beside the first one of their night. Tonight changes no level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy import ndarray

from postprocess.statistics.distributions import MAD_OF_NORMAL, deviate, fit_prior, inliers
from postprocess.statistics.method import METHOD

_ENOUGH_SERIES = 20  # fewest series for an estimate over a site
_ENOUGH_VALUES = 200  # fewest values of all baselines together for an estimate of the tail of slow sessions
_MOST_DF = 30.0  # upper bound of the degrees of freedom of an assumed variance
_SAME_LEVEL = 2.0  # standard errors within which later sessions are at the level of the baseline
_STEADY = 1.3  # times the spread that neighbouring sessions show: the most that a short baseline's own spread is
_FEWEST = 4  # fewest sessions whose median absolute deviation says something of a series' own spread
_CLIP = 6.0  # standard deviations from the mean at which a later session is cut, before it changes the level
_NEAR = 3.5  # standard deviations from the mean within which a later session is at the level
_NEXT = 3  # sessions after a night of which the mean first job is the level of its further jobs
_RECENT = 5  # last sessions that are no level of a short baseline yet: a loss that lasts is found within them


@dataclass(frozen=True)
class Baseline:
    """What M series should be; each field is an array of length M, or M x N.

    `mean`: mean logarithm of performance over `n` sessions. `variance`: variance of one session about the mean, with
    `df` degrees of freedom. `prior`: the usual variance of the series' kind of metric; where `assumed` is True,
    `variance` is the prior. `floor` and `cap`: logarithm of the smallest loss that matters, and of the largest that may
    be noise. `weight`: 1, or less for a series that is one of many points of a curve. `sessions`: M x N first jobs of
    the sessions of the baseline. `second`: M x N second jobs of the same sessions. Both are NaN where a job is not
    known.
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
        """The standard deviation of one session of each series."""
        return numpy.sqrt(self.variance)

    @property
    def shares(self) -> ndarray:
        """The share of the false alarms of a night that each series may cause; the shares add up to 1."""
        return self.weight / self.weight.sum()

    def deviations(self, values: ndarray, cut: float = math.inf) -> ndarray:
        """Return `values`, M x ..., in standard deviations above the mean, cut at +/- `cut`; NaN stays NaN."""
        shape = (-1, *[1] * (values.ndim - 1))
        return numpy.clip((values - self.mean.reshape(shape)) / self.sd.reshape(shape), -cut, cut)


@dataclass(frozen=True)
class Expected:
    """A baseline, and what all series of the site together say about sessions and jobs.

    `phi`: correlation of neighbouring sessions. `rho`: correlation of the jobs of one night. `g`: variance of the mean
    of each series, in units of the variance of one session. `tail`: how far each session of all baselines is below its
    mean, in standard deviations, ascending. `usually_slow`: a loss up to this many standard deviations is usual for a
    night, as slow sessions of the baselines lasted into further jobs; 0 if they did not.
    """

    baseline: Baseline
    phi: float
    rho: float
    g: ndarray
    tail: ndarray
    usually_slow: float = 0.0

    def deviate(
        self, loss: ndarray, v: ndarray | float, squares: ndarray | float = 0.0, more: ndarray | float = 0.0
    ) -> ndarray:
        """Return the normal deviate of each loss; `v`: variance of the losses in units of the variance of one session.

        `squares`: sum of squares of the jobs about their own mean, with `more` degrees of freedom.
        """
        baseline = self.baseline
        return deviate(loss / self.error(v, squares, more), baseline.df + more)

    def error(self, v: ndarray | float, squares: ndarray | float = 0.0, more: ndarray | float = 0.0) -> ndarray:
        """Return the standard error of losses; it includes the error of the mean of the baseline.

        Parameters as in `deviate`.
        """
        baseline = self.baseline
        return numpy.sqrt((baseline.df * baseline.variance + squares) / (baseline.df + more) * (v + self.g))

    def is_at_level(self, values: ndarray) -> ndarray:
        """Return True for each of M x W values at a low level that already occurs in the baseline of its series.

        Example: a second mode of the machine. A low level is one session far below the mean, or several sessions less
        far.
        """
        baseline, (far, less_far, near) = self.baseline, METHOD.level
        z = baseline.deviations(baseline.sessions)
        low = z < -less_far
        low &= (low.sum(axis=1, keepdims=True) > 1) | (z < -far)
        # where most sessions are low, a person has set the level above them
        low &= 2 * low.sum(axis=1, keepdims=True) < numpy.isfinite(z).sum(axis=1, keepdims=True)
        least = numpy.where(low, baseline.sessions, math.inf).min(axis=1, initial=math.inf) - near * baseline.sd
        most = numpy.where(low, baseline.sessions, -math.inf).max(axis=1, initial=-math.inf) + near * baseline.sd
        return (values >= least[:, None]) & (values <= most[:, None])

    @cached_property
    def worst(self) -> float:
        """How far the worst session of all baselines is below its mean, in standard deviations.

        0 if few sessions are known.
        """
        return float(self.tail[-1]) if len(self.tail) >= _ENOUGH_VALUES else 0.0


def expect(baseline: Baseline, jobs: ndarray) -> Expected:
    """Return what to expect of each series; `jobs`: M x W x J, of sessions after the baseline, tonight last."""
    first = jobs[..., 0]
    fitted = _with_fitted_spread(baseline, first)
    baseline = _with_accepted_sessions(fitted, _with_own_spread(fitted, first), first)
    phi = _likeness_of_sessions(baseline, first)
    g = error_of_mean(phi, baseline.n)
    n = numpy.maximum(baseline.n, 2)
    shown = n * (1 - error_of_mean(phi, n)) / (n - 1)  # share of the variance that correlated sessions show
    baseline = replace(baseline, variance=numpy.where(baseline.assumed, 1, 1 / shown) * baseline.variance)
    z = baseline.deviations(baseline.sessions)
    known = (baseline.n >= METHOD.short)[:, None] & numpy.isfinite(z)
    rho = _alike(baseline, z, known, jobs)
    return Expected(baseline, phi, max(rho, phi), g, numpy.sort(-z[known]), _usually_slow(baseline, z, known))


def error_of_mean(phi: float, n: ndarray) -> ndarray:
    """Return the variance of the mean of `n` sessions, in units of one session's variance: sum of phi^|i-j| / n^2."""
    return (n + 2 * phi / (1 - phi) * (n - (1 - phi**n) / (1 - phi))) / n**2


def _with_fitted_spread(baseline: Baseline, first: ndarray) -> Baseline:
    """Return the baseline with assumed variances fitted to the site.

    `fit_prior` finds from all series with an assumed variance a common factor by which their priors are wrong, and how
    much the series differ. A series with up to two later sessions contributes its change of tonight, without the median
    change of all series; a series with more contributes the variance of its sessions. The factor is held between 1/9
    and 100.
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


def _with_own_spread(baseline: Baseline, first: ndarray) -> Baseline:
    """Return the baseline with the spread of series of few sessions drawn to that of their sessions before tonight.

    It is the median absolute deviation, as uncertain as the standard deviation of 0.37 n values and n / (n - 0.8) too
    small (Croux and Rousseeuw, 1992); at most `_STEADY` times what neighbours say, which a lasting loss leaves alone.
    """
    values = numpy.column_stack([baseline.mean, packed(first[:, -METHOD.nights - 1 : -1])])
    count = numpy.isfinite(values).sum(axis=1)
    short = (baseline.n < METHOD.short) & (count >= _FEWEST)
    if not short.any():
        return baseline
    own, count = values[short], count[short]
    apart = numpy.nanmedian(abs(own - numpy.nanmedian(own, axis=1, keepdims=True)), axis=1) * count / (count - 0.8)
    steps = numpy.nanmedian(abs(numpy.diff(own, axis=1)), axis=1) / math.sqrt(2)
    spread = numpy.minimum(apart, _STEADY * steps) / MAD_OF_NORMAL
    more = 0.37 * (count - 1)
    variance, df = baseline.variance.copy(), baseline.df.copy()
    variance[short] = (df[short] * variance[short] + more * spread**2) / (df[short] + more)
    df[short] += more
    return replace(baseline, variance=variance, df=df)


def _with_accepted_sessions(fitted: Baseline, baseline: Baseline, first: ndarray) -> Baseline:
    """Return the baseline extended by later sessions that are at its level, up to 30 sessions in total.

    These sessions are older than all windows, or than `_RECENT` sessions where the baseline is short. Their mean is
    within `_SAME_LEVEL` standard errors of that of the baseline: the level must not follow a drift. `fitted`: the
    baseline without what these sessions said of the spread.
    """
    there = numpy.isfinite(first)
    behind = numpy.where(baseline.n < METHOD.short, _RECENT, METHOD.nights)[:, None]
    older = there & (there[:, ::-1].cumsum(axis=1)[:, ::-1] > behind)
    older &= older.cumsum(axis=1) <= (METHOD.long - baseline.n)[:, None]
    at_level = numpy.where(_at_level(baseline, numpy.where(older, first, numpy.nan)), first, numpy.nan)
    level = baseline.mean + baseline.sd * _mean_of(baseline.deviations(at_level, _CLIP))
    used, known = numpy.zeros(first.shape, bool), numpy.isfinite(at_level).any(axis=1)
    used[known] = inliers(at_level[known])
    own, k = numpy.where(used, first, numpy.nan), used.sum(axis=1)
    error = baseline.sd * numpy.sqrt(1 / baseline.n + 1 / numpy.maximum(k, 1))
    alike = (k >= METHOD.short) & (abs(baseline.mean - level) < _SAME_LEVEL * error)
    if not alike.any():
        return baseline
    k = numpy.where(alike, k, 0)
    squares = numpy.nansum((own - _mean_of(own)[:, None]) ** 2, axis=1)
    n, df = baseline.n + k, numpy.where(alike, fitted.df + numpy.maximum(k - 1, 0), baseline.df)
    more = numpy.where(alike[:, None], at_level, numpy.nan)
    return replace(
        baseline,
        mean=(baseline.n * baseline.mean + k * level) / n,
        variance=numpy.where(alike, (fitted.df * fitted.variance + squares) / df, baseline.variance),
        df=df,
        n=n,
        assumed=baseline.assumed & ~alike,
        sessions=numpy.concatenate([baseline.sessions, more], axis=1),
        second=numpy.concatenate([baseline.second, numpy.full(more.shape, numpy.nan)], axis=1),
    )


def _at_level(baseline: Baseline, values: ndarray) -> ndarray:
    """Return True for each value that is near the mean of the baseline and of the values before it that are near it.

    A single value that is far is True, too. So a loss that lasts is never taken for the level, however long it lasts.
    """
    there = numpy.isfinite(values)
    if not there.any():
        return there
    mean, n, near = baseline.mean.copy(), baseline.n.copy(), numpy.zeros(values.shape, bool)
    for place, column in enumerate(values.T):
        own = near[:, place] = abs(column - mean) < _NEAR * baseline.sd * numpy.sqrt(1 + 1 / n)
        n = n + own
        mean = mean + numpy.where(own, (column - mean) / n, 0.0)
    far = there & ~near
    return there & ~(far & (_before(far, there) | _before(far[:, ::-1], there[:, ::-1])[:, ::-1]))


def _before(flags: ndarray, there: ndarray) -> ndarray:
    """Return for each place of each row the flag of the last place before it that is `there`; False without one."""
    places = numpy.where(there, numpy.arange(flags.shape[1]), -1)
    last = numpy.maximum.accumulate(numpy.column_stack([numpy.full(len(flags), -1), places[:, :-1]]), axis=1)
    return numpy.take_along_axis(flags, numpy.maximum(last, 0), axis=1) & (last >= 0)


def _likeness_of_sessions(baseline: Baseline, first: ndarray) -> float:
    """Return phi, the correlation of neighbouring sessions, from the lag-1 products of each series.

    Uses the sessions of the baselines, or the later sessions where these are not known. The estimate is the median over
    all series of lag-1 products / squares, so a lasting loss in some series does not change it. Deviations from a mean
    of n sessions are negatively correlated, so the ratio is compared with tr1(C S C) / tr(C S C), where S = phi^|i-j|,
    C = I - 1/n and tr1 sums the first off-diagonal. Return 0 if phi is less than three standard errors.
    """
    sessions = baseline.sessions[:, numpy.isfinite(baseline.sessions).any(axis=0)]
    if sessions.shape[1] < 4:
        in_order = numpy.take_along_axis(first, numpy.argsort(numpy.isfinite(first), axis=1, kind='stable'), axis=1)
        sessions = in_order[:, -METHOD.nights :]
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
    """Return tr1(C S C) / tr(C S C) of `_likeness_of_sessions` for `n` sessions with correlation `phi`."""
    s = phi ** abs(numpy.subtract.outer(numpy.arange(n), numpy.arange(n)))
    centre = numpy.eye(n) - 1 / n
    centred = centre @ s @ centre
    return numpy.trace(centred, 1) / numpy.trace(centred)


def _alike(baseline: Baseline, z: ndarray, known: ndarray, jobs: ndarray) -> float:
    """Return rho, the correlation of the jobs of a night, from the nights in which cases ran again.

    `z`: deviations of the first jobs of the baselines, M x N; `known`: True where they count. `jobs`: as in `expect`.
    rho is the regression slope of the further jobs on the first one. Whether a case ran again depends on its first jobs
    alone, so it does not bias the slope. Some pairs were chosen at random while the baseline was recorded.
    """
    assumed, weight = METHOD.alike
    most, products, squares = METHOD.cut[0], assumed * weight, weight
    recorded = numpy.where(known, z, math.nan), baseline.deviations(baseline.second, most)
    for firsts, others in (recorded, _ran_again(baseline, jobs)):
        pairs = numpy.isfinite(firsts) & numpy.isfinite(others)
        own = numpy.clip(firsts[pairs], -most, most)
        products += float((own * others[pairs]).sum())
        squares += float((own**2).sum())
    return min(max(products / squares, 0.0), 0.9)


def _ran_again(baseline: Baseline, jobs: ndarray) -> tuple[ndarray, ndarray]:
    """Return deviations of first jobs of the last nights, and those of the mean further job of the same night: M x W.

    From the latter the mean first job of the next sessions is taken off, up to the one before tonight: a loss that
    lasts does not make the jobs of one night alike. NaN where a case did not run again, where the baseline is short,
    and where the first job is so low that it was a fault, which may be repaired by now.
    """
    most = METHOD.cut[0]
    z = baseline.deviations(jobs[:, -METHOD.nights - 1 : -1], most)
    z[baseline.n < METHOD.short] = math.nan
    first, later = z[..., 0], numpy.pad(z[:, 1:, 0], ((0, 0), (0, _NEXT)), constant_values=math.nan)
    level = _mean_or_nan(numpy.lib.stride_tricks.sliding_window_view(later, _NEXT, axis=1))[:, : first.shape[1]]
    return numpy.where(first > -most, first, math.nan), _mean_or_nan(z[..., 1:]) - level


def _usually_slow(baseline: Baseline, z: ndarray, known: ndarray) -> float:
    """Return `Expected.usually_slow`, from the pairs of jobs of the baselines' sessions; parameters as in `_alike`."""
    least, share, lasting, factor = METHOD.slow
    # where most sessions are low, a person has set the level above them
    known = known & (2 * (z < -least).sum(axis=1, keepdims=True) < numpy.isfinite(z).sum(axis=1, keepdims=True))
    values = z[known]
    if not len(values) or (values < -least).mean() - (values > least).mean() <= share:
        return 0.0
    second = baseline.deviations(baseline.second)
    slow = known & (z < -least) & numpy.isfinite(second)
    lasts = ((slow & (second < -least / 2)).sum() + 0.5) / (slow.sum() + 1)
    return factor * float(-values.min()) if lasts > lasting else 0.0


def _mean_of(values: ndarray) -> ndarray:
    """Return the mean of the numbers in each row; 0 for a row without any."""
    return numpy.nansum(values, axis=1) / numpy.maximum(numpy.isfinite(values).sum(axis=1), 1)


def _mean_or_nan(values: ndarray) -> ndarray:
    """Return the mean of the numbers along the last axis; NaN without any."""
    count = numpy.isfinite(values).sum(axis=-1)
    return numpy.where(count > 0, numpy.nansum(values, axis=-1) / numpy.maximum(count, 1), math.nan)


def packed(values: ndarray) -> ndarray:
    """Return M x W values with each row's NaN moved to the end."""
    return numpy.take_along_axis(values, numpy.argsort(~numpy.isfinite(values), axis=1, kind='stable'), axis=1)

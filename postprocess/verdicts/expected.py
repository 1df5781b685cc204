"""Tell what to expect of the series of a site tonight: spreads, levels, and how much alike sessions and jobs are."""

from __future__ import annotations

from dataclasses import replace

import numpy
from numpy import ndarray

from plumbline.limits import LIKENESS_OF_JOBS
from postprocess.verdicts.stats import fit_prior, inliers, scatter
from postprocess.verdicts.trailing import LONG, SHORT, WINDOWS, Baseline, Likeness, Nights

_ENOUGH_SERIES = 20  # from which something is estimated over a site
_MOST_DF = 30.0  # that the spread of a kind of metric has on a site
_LEVELS_APART = 8.0  # standard deviations between two levels of a series
_RHO_WEIGHT = 40.0  # the inverse of the variance of the correlation of jobs that is assumed
_SLOW = 4.0  # standard deviations from which a session is slow
_SAME_LEVEL = 2.0  # standard errors within which later sessions are at the level of the baseline
_CLIP = 6.0  # standard deviations at which a value counts no further


def with_lower_level(baseline: Baseline, nights: Nights) -> tuple[Baseline, ndarray]:
    """Return the baseline with the lower level in place of the mean where a series has two, and which have.

    Two levels: the sorted values of the baseline's sessions and of those since, without tonight, have a gap of
    more than 8 standard deviations within the levels. The lower one is known if the baseline holds it, or if the series
    came back from it twice: a loss that lasts is no level.
    """
    since = numpy.where(nights.k > 0, nights.mean, numpy.nan)[:, :-1]
    history = numpy.concatenate([baseline.sessions, since], axis=1)
    rows = numpy.arange(len(history))
    if history.shape[1] < 4:
        return baseline, numpy.zeros(len(history), bool)
    ordered = numpy.sort(history, axis=1)  # not a number comes last
    gaps = numpy.nan_to_num(numpy.diff(ordered, axis=1), nan=-1.0)
    place = gaps.argmax(axis=1)
    gap, below = gaps[rows, place], ordered[rows, place, None]
    low, high = history <= below, history > below
    lows, highs = low.sum(axis=1), high.sum(axis=1)
    lower, upper = _mean_of(history, low), _mean_of(history, high)
    inner = numpy.where(low, history - lower[:, None], numpy.where(high, history - upper[:, None], 0.0))
    df = numpy.maximum(lows + highs - 2, 1)
    variance = (inner**2).sum(axis=1) / df
    variance = (df * variance + baseline.prior) / (df + 1)
    apart = (gap > _LEVELS_APART * numpy.sqrt(variance)) & (gap > baseline.floor) & (highs > 1)
    recorded = low[:, : baseline.sessions.shape[1]].any(axis=1)
    came_back = (low[:, :-1] & high[:, 1:]).sum(axis=1)
    two = apart & (recorded | (came_back > 1))
    return replace(
        baseline,
        mean=numpy.where(two, lower, baseline.mean),
        variance=numpy.where(two, variance, baseline.variance),
        df=numpy.where(two, df, baseline.df),
        n=numpy.where(two, lows, baseline.n),
        assumed=baseline.assumed & ~two,
        sessions=numpy.where(two[:, None], numpy.nan, baseline.sessions),
    ), two


def _mean_of(values: ndarray, chosen: ndarray) -> ndarray:
    return numpy.where(chosen, values, 0.0).sum(axis=1) / numpy.maximum(chosen.sum(axis=1), 1)


def with_fitted_spread(baseline: Baseline, nights: Nights) -> Baseline:
    """Return the baseline with assumed variances fitted to the site.

    The prior of a kind says how much a metric usually varies; all series together show by what factor that is wrong
    here and how different they are (`fit_prior`). A single session shows it after removing the median, which is a loss
    in common; three or more by their variance. The factor of the variance is held between 1/9 and 100.
    """
    unknown = baseline.assumed
    if unknown.sum() < _ENOUGH_SERIES:
        return baseline
    k = (nights.k[unknown] > 0).sum(axis=1)
    values, prior = nights.first[unknown], baseline.prior[unknown]
    centred = values - _row_mean(values)
    between = numpy.nansum(centred**2, axis=1) / numpy.maximum(k - 1, 1)
    change = values[:, -1] - baseline.mean[unknown]
    once = (change - numpy.median(change)) ** 2 / (1 + 1 / baseline.n[unknown])
    several = k > 2
    d0, factor = fit_prior(numpy.where(several, between, once) / prior, numpy.where(several, k - 1.0, 1.0))
    variance, df = baseline.variance.copy(), baseline.df.copy()
    variance[unknown] = prior * min(max(factor, 1 / 9), 100)
    df[unknown] = min(max(d0, 1), _MOST_DF)
    return replace(baseline, variance=variance, df=df)


def with_accepted_sessions(baseline: Baseline, jobs: ndarray) -> Baseline:
    """Return the baseline sharpened by the sessions after it that are older than all windows, up to `LONG` together.

    The first jobs of sessions count, without outliers, where their mean is within `_SAME_LEVEL` standard errors of the
    accepted one, so that the level does not follow a drift. `jobs`: as in `night.judge`.
    """
    first = jobs[..., 0]
    there = numpy.isfinite(first)
    older = there & (there[:, ::-1].cumsum(axis=1)[:, ::-1] > WINDOWS[-1])
    older &= older.cumsum(axis=1) <= (LONG - baseline.n)[:, None]
    enough = older.sum(axis=1) >= SHORT
    used = numpy.zeros_like(older)
    if enough.any():
        used[enough] = inliers(numpy.where(older, first, numpy.nan)[enough])
    sd = numpy.sqrt(baseline.variance)
    level = baseline.mean + sd * _mean_of(_deviations(first, baseline, _CLIP), older)
    k = used.sum(axis=1)
    error = sd * numpy.sqrt(1 / baseline.n + 1 / numpy.maximum(k, 1))
    alike = enough & (abs(baseline.mean - level) < _SAME_LEVEL * error)
    k = numpy.where(alike, k, 0)
    squares = (numpy.where(used, first - _mean_of(first, used)[:, None], 0.0) ** 2).sum(axis=1)
    n, df = baseline.n + k, baseline.df + numpy.maximum(k - 1, 0)
    return replace(
        baseline,
        mean=(baseline.n * baseline.mean + k * level) / n,
        variance=numpy.where(alike, (baseline.df * baseline.variance + squares) / df, baseline.variance),
        df=df,
        n=n,
        assumed=baseline.assumed & ~alike,
        sessions=numpy.concatenate([baseline.sessions, numpy.where(older & alike[:, None], first, numpy.nan)], axis=1),
    )


def scale_of_tonight(baseline: Baseline, nights: Nights, likeness: Likeness) -> float:
    """Return by how much the first values of tonight scatter more than usual, at least 1."""
    if len(baseline.mean) < _ENOUGH_SERIES:
        return 1.0
    spread = numpy.sqrt(baseline.variance * (1 + likeness.error_of_mean(baseline.n)))
    return scatter((baseline.mean - nights.first[:, -1]) / spread, baseline.df)


def likeness_of(baseline: Baseline, nights: Nights) -> Likeness:
    """Return how much alike the sessions of a site are, and the jobs of a session."""
    phi = _likeness_of_sessions(baseline, nights)
    lasting, doubtful = _slow_sessions(baseline, nights)
    return Likeness(phi, max(_likeness_of_jobs(baseline, nights), phi), lasting, doubtful)


def _likeness_of_sessions(baseline: Baseline, nights: Nights) -> float:
    """Return phi from the lag-1 products of the baseline's sessions, or of those since where they are not known.

    The ratio of the products to the squares, as the median of all series: a loss that lasts in some of them is no
    likeness. Deviations from a mean of n sessions are negatively correlated, so the ratio is compared with
    tr1(C S C) / tr(C S C), where S = phi^|i-j|, C = I - 1/n and tr1 sums the first off-diagonal. Less than two standard
    errors count as none.
    """
    sessions = baseline.sessions[:, numpy.isfinite(baseline.sessions).any(axis=0)]
    if sessions.shape[1] < 4:
        sessions = nights.first
    n = numpy.isfinite(sessions).sum(axis=1)
    sessions = sessions[n > 3]
    if len(sessions) < _ENOUGH_SERIES:
        return 0.0
    z = numpy.nan_to_num(sessions - _row_mean(sessions))
    most = 3 * numpy.median(abs(z), axis=1, keepdims=True) / 0.6745
    z = numpy.clip(z, -most, most)
    squares = (z**2).sum(axis=1)
    ratio = numpy.median((z[:, 1:] * z[:, :-1]).sum(axis=1)[squares > 0] / squares[squares > 0])
    length = int(numpy.median(n[n > 3]))
    candidates = numpy.linspace(0, 0.9, 37)
    phi = float(numpy.interp(ratio, [_lag_ratio(length, phi) for phi in candidates], candidates))
    return 0.0 if phi < 3.0 / numpy.sqrt(len(sessions) * (length - 1)) else phi


def _lag_ratio(n: int, phi: float) -> float:
    s = phi ** abs(numpy.subtract.outer(numpy.arange(n), numpy.arange(n)))
    centre = numpy.eye(n) - 1 / n
    centred = centre @ s @ centre
    return numpy.trace(centred, 1) / numpy.trace(centred)


def _likeness_of_jobs(baseline: Baseline, nights: Nights) -> float:
    """Return rho from two estimates and a prior, each with the inverse of its variance as weight.

    The slope of the second job on the first, of sessions before tonight after which the series was healthy: a loss that
    lasts says nothing. What runs again depends on the first job alone, so the slope is not biased by that choice. And
    the differences d of the further jobs in standard deviations: rho = 1 - mean(d^2) / 2, of series whose standard
    deviation is not merely assumed: those that vary more than assumed run again most.
    """
    jobs = nights.jobs
    if jobs.shape[-1] < 2:
        return LIKENESS_OF_JOBS
    first, second, over = _known_reruns(baseline, nights)
    known = baseline.n >= SHORT
    even, odd = jobs[known, :, 1:-1:2], jobs[known, :, 2::2]
    differences = (even - odd) / numpy.sqrt(2 * baseline.variance[known])[:, None, None]
    squares = numpy.minimum(differences[numpy.isfinite(differences)] ** 2, 9.0)
    weights = (first**2)[over].sum(), len(squares) / 2, _RHO_WEIGHT
    values = (first * second)[over].sum(), (1 - squares / 1.1).sum() / 2, _RHO_WEIGHT * LIKENESS_OF_JOBS
    return float(min(max(sum(values) / sum(weights), 0.0), 0.9))


def _slow_sessions(baseline: Baseline, nights: Nights) -> tuple[bool, bool]:
    """Return whether slow sessions last into their reruns, and whether that is in doubt.

    Known from at least three slow sessions before tonight that were over the session after. Where the baseline shows
    that a hundredth of all sessions is slow, and not yet how its reruns are, tonight's tell: if they do not get better,
    slow sessions may last; if some do, that is in doubt.
    """
    if nights.jobs.shape[-1] < 2:
        return False, False
    first, second, over = _known_reruns(baseline, nights)
    slow = over & (first < -_SLOW)
    if slow.sum() >= 3:
        lasted = (slow & (second < 1 - _SLOW)).sum()
        return bool(lasted >= 3 and lasted >= 0.25 * slow.sum()), False
    recorded = _deviations(baseline.sessions, baseline, _CLIP)
    if (recorded < -_SLOW).sum() < max(0.01 * numpy.isfinite(baseline.sessions).sum(), 3):
        return False, False
    first, second = (_deviations(nights.jobs[:, -1:, job], baseline, _CLIP)[:, 0] for job in (0, 1))
    slow = (first < -_SLOW) & numpy.isfinite(nights.jobs[:, -1, 1])
    better = (slow & (second > 1 - _SLOW)).sum()
    return bool(better < 0.25 * slow.sum()), True


def _known_reruns(baseline: Baseline, nights: Nights) -> tuple[ndarray, ndarray, ndarray]:
    """Return first and second jobs as deviations, and where both are known and the session after was healthy."""
    jobs = nights.jobs
    first, second, after = (
        _deviations(values, baseline, _CLIP) for values in (jobs[:, :-1, 0], jobs[:, :-1, 1], jobs[:, 1:, 0])
    )
    return first, second, numpy.isfinite(jobs[:, :-1, 1]) & (after > -0.5)


def _row_mean(values: ndarray) -> ndarray:
    return numpy.nansum(values, axis=1, keepdims=True) / numpy.maximum(numpy.isfinite(values).sum(axis=1), 1)[:, None]


def _deviations(values: ndarray, baseline: Baseline, clip: float) -> ndarray:
    z = (values - baseline.mean[:, None]) / numpy.sqrt(baseline.variance)[:, None]
    return numpy.where(numpy.isfinite(z), numpy.clip(z, -clip, clip), 0.0)

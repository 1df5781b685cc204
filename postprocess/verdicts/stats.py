"""Statistics of verdicts: pooled summaries, the spread of a baseline, shifts between sessions, false discoveries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import TYPE_CHECKING

from plumbline.record import NOTHING, Summary, summarize

if TYPE_CHECKING:
    from numpy import ndarray

OUTLYING = 4.0  # median absolute deviations, each scaled to the standard deviation of a normal distribution
_MAD_OF_NORMAL = 0.6744898
PRIOR_DF = 4.0  # degrees of freedom of the usual spread of a kind of metric
ENOUGH_METRICS = 10  # fewest series whose variances tell how much variances differ


def pool(summaries: Iterable[Summary]) -> Summary:
    """Return the summary of all samples together; None in place of extremes where a group has none."""
    groups = [group for group in summaries if group.n]
    n = sum(group.n for group in groups)
    if not n:
        return NOTHING
    mean = math.fsum(group.n * mean_of(group) for group in groups) / n
    squares = math.fsum(
        (group.n - 1) * (group.std or 0.0) ** 2 + group.n * (mean_of(group) - mean) ** 2 for group in groups
    )
    least, most = [group.min for group in groups], [group.max for group in groups]
    return Summary(
        n=n,
        mean=mean,
        std=math.sqrt(squares / (n - 1)) if n > 1 else None,
        min=min(value for value in least if value is not None) if None not in least else None,
        max=max(value for value in most if value is not None) if None not in most else None,
    )


def mean_of(summary: Summary) -> float:
    """Return the mean of at least one sample; not a number without any."""
    return math.nan if summary.mean is None else summary.mean


def inliers(values: ndarray) -> ndarray:
    """Return True for each value within 4 scaled MAD of the median, on the log scale along the last axis.

    All values stay where more than a fifth would be dropped: those are a second level of the machine rather than
    outliers, and a limit without them would fail every other session.
    """
    import numpy

    logs = numpy.log(values)
    distance = abs(logs - numpy.median(logs, axis=-1, keepdims=True))
    scale = numpy.median(distance, axis=-1, keepdims=True) / _MAD_OF_NORMAL
    near = distance <= OUTLYING * scale
    return near | (scale == 0) | ((~near).mean(axis=-1, keepdims=True) > 0.2)


def moderate(variances: ndarray, df: ndarray, prior: ndarray | float | None = None) -> tuple[ndarray, ndarray]:
    """Return variances of many series and their degrees of freedom, shrunk towards a common value.

    Each becomes (d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees of freedom, at most those of all series together; d0
    and s0^2 as `fit_prior` finds them. The more the series differ in their spread and the more sessions a series has,
    the less it changes. `prior`: variances that are usual for their kinds, in units of which s0 is common, and which
    fewer than `ENOUGH_METRICS` series are shrunk towards.
    """
    import numpy

    ratios = variances / (1.0 if prior is None else prior)
    own = ratios > 0  # a variance of 0 says nothing about the prior
    if own.sum() >= ENOUGH_METRICS:
        d0, s0 = fit_prior(ratios[own], df[own])
        most = df.sum()
    elif prior is None:
        return variances, df
    else:
        d0, s0, most = PRIOR_DF, 1.0, math.inf
    shrunk = numpy.full_like(ratios, s0) if math.isinf(d0) else (d0 * s0 + df * ratios) / (d0 + df)
    return shrunk * (1.0 if prior is None else prior), numpy.minimum(d0 + df, most)


def fit_prior(variances: ndarray, df: ndarray) -> tuple[float, float]:
    """Return d0 and s0^2 of the distribution of true variances, from estimates above 0 with `df` degrees of freedom.

    Empirical Bayes: they follow a scaled inverse chi-square distribution with d0 degrees of freedom about s0^2, both
    fitted by the moments of the logarithms (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, section 6.2). d0 is
    infinite where they differ no more than by chance.
    """
    import numpy
    from scipy.special import digamma, polygamma

    half, variances = df[variances > 0] / 2, variances[variances > 0]
    logs = numpy.log(variances) - digamma(half) + numpy.log(half)
    excess = logs.var(ddof=1) - polygamma(1, half).mean()
    if excess <= 0:
        return math.inf, math.exp(logs.mean())
    d0 = 2 * _inverse_trigamma(excess)
    return d0, math.exp(logs.mean() + digamma(d0 / 2) - math.log(d0 / 2))


def _inverse_trigamma(value: float) -> float:
    """Return x > 0 with trigamma(x) = `value`, by Newton's method on 1/trigamma, which is convex and nearly linear."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = polygamma(1, x)
        step = trigamma * (1 - trigamma / value) / polygamma(2, x)
        x += step
        if -step / x < 1e-8:
            break
    return float(x)


@dataclass(frozen=True)
class Shift:
    """The change of a series from one set of jobs to another.

    `ratio` of the values after to those before; `error`: the standard error of its logarithm with `df` degrees of
    freedom, both None where it is unknown. `how` says what was compared; `before` and `after` are its summaries.
    """

    before: Summary
    after: Summary
    ratio: float
    error: float | None
    df: float | None
    how: str


def shift_between(before: Mapping[str, Sequence[Summary]], after: Mapping[str, Sequence[Summary]]) -> Shift:
    """Return the change of a series from the summaries of its jobs by node; means must be > 0.

    Paired where at least two nodes ran on both sides: differences between nodes cancel. Else Welch's test between the
    jobs, of the common node if there is one; with one job a side, between the trials of the two.
    """
    both = sorted(before.keys() & after.keys())
    if len(both) > 1:
        old, new = ([fmean(math.log(mean_of(job)) for job in side[node]) for node in both] for side in (before, after))
        parts = [(variance([b - a for a, b in zip(old, new, strict=True)]) / len(both), len(both) - 1)]
        how = f'paired over {len(both)} nodes'
    else:
        jobs = [[job for node in both or side for job in side[node]] for side in (before, after)]
        old, new = ([math.log(mean_of(job)) for job in side] for side in jobs)
        several = [side for side in (old, new) if len(side) > 1]
        if len(several) == 1:  # the single job moves as much as those of the other side
            (side,) = several
            parts = [(variance(side) * (1 / len(old) + 1 / len(new)), len(side) - 1)]
        elif several:
            parts = [(variance(side) / len(side), len(side) - 1) for side in several]
        else:
            trials = [job for (job,) in jobs if job.n > 1]
            parts = [(((job.std or 0.0) / mean_of(job)) ** 2 / job.n, job.n - 1) for job in trials]
        how = f'{len(old)} and {len(new)} jobs' if several else 'trials of one job each'
    squared = sum(part for part, _ in parts)
    df = squared**2 / sum(part**2 / df for part, df in parts) if squared else sum(df for _, df in parts)
    return Shift(
        before=summarize([math.exp(value) for value in old]),
        after=summarize([math.exp(value) for value in new]),
        ratio=math.exp(fmean(new) - fmean(old)),
        error=math.sqrt(squared) if parts else None,
        df=df if parts else None,
        how=how,
    )


def chance(deviations: ndarray, df: ndarray) -> ndarray:
    """Return one-sided p-values of deviations to the bad side, in standard deviations with `df` degrees of freedom."""
    from scipy.special import stdtr

    return stdtr(df, -deviations)


def quantile(share: float, df: ndarray) -> ndarray:
    """Return the quantile of Student's t with `df` degrees of freedom below which a `share` lies."""
    from scipy.special import stdtrit

    return stdtrit(df, share)


def false_discovery_rates(p: ndarray, weight: ndarray | None = None) -> ndarray:
    """Return Benjamini and Hochberg's adjusted p-values: of all flags up to q, a share q is expected to be false.

    `weight`: of each test, 1 without; a test of weight 1/10 counts as a tenth (Genovese, Roeder and Wasserman,
    Biometrika 93 (2006) 509). The same as scipy.stats.false_discovery_control, whose import takes longer than a
    comparison.
    """
    import numpy

    weighted, total = (p, len(p)) if weight is None else (p / weight, weight.sum())
    order = numpy.argsort(weighted)[::-1]  # from the largest
    scaled = weighted[order] * total / numpy.arange(len(p), 0, -1)
    adjusted = numpy.empty(len(p))
    adjusted[order] = numpy.minimum(numpy.minimum.accumulate(scaled), 1)
    return adjusted

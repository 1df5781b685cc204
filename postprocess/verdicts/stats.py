"""Statistics of verdicts: pooled summaries, the spread of a baseline, shifts between sessions, false discoveries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy
from numpy import ndarray

from plumbline.limits import PRIOR_DF
from plumbline.record import NOTHING, Summary, summarize
from postprocess.text import count

OUTLYING = 4.0  # median absolute deviations, each scaled to the standard deviation of a normal distribution
MAD_OF_NORMAL = 0.6744898
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


def inliers(logs: ndarray) -> ndarray:
    """Return True for each logarithm within 4 scaled MAD of the median, along the last axis; False for what is none.

    All values stay where more than a fifth would be dropped: those are a second level of the machine rather than
    outliers, and a limit without them would fail every other session.
    """
    there = numpy.isfinite(logs)
    centre = numpy.nan_to_num(numpy.nanmedian(logs, axis=-1, keepdims=True))
    distance = abs(logs - centre)
    scale = numpy.nan_to_num(numpy.nanmedian(distance, axis=-1, keepdims=True)) / MAD_OF_NORMAL
    far = there & (distance > OUTLYING * scale) & (scale > 0)
    return there & ~(far & (far.sum(axis=-1, keepdims=True) <= 0.2 * there.sum(axis=-1, keepdims=True)))


def moderate(variances: ndarray, df: ndarray, prior: ndarray | float | None = None) -> tuple[ndarray, ndarray]:
    """Return variances of many series and their degrees of freedom, shrunk towards a common value.

    Each becomes (d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees of freedom, at most those of all series together; d0
    and s0^2 as `fit_prior` finds them. The more the series differ in their spread and the more sessions a series has,
    the less it changes. `prior`: the usual variances of their kinds, of which s0^2 is a common factor; fewer than
    `ENOUGH_METRICS` series are shrunk towards the prior itself.
    """
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
    infinite where they differ no more than by chance; fewer than `ENOUGH_METRICS` of them say nothing, and give
    `PRIOR_DF` and 1.
    """
    from scipy.special import digamma, polygamma

    half, variances = df[variances > 0] / 2, variances[variances > 0]
    if len(variances) < ENOUGH_METRICS:
        return PRIOR_DF, 1.0
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

    `ratio` of the values after to those before, of which `before` and `after` are the summaries over jobs. `variance`
    of the logarithm of one job with `df` degrees of freedom, 0 where one job a side shows none; that of the logarithm
    of the ratio is `factor` times that of a job. `how` says what was compared.
    """

    before: Summary
    after: Summary
    ratio: float
    variance: float
    df: int
    factor: float
    how: str


def shift_between(
    before: Mapping[str, Sequence[Summary]], after: Mapping[str, Sequence[Summary]], rho: float = 0.0
) -> Shift:
    """Return the change of a series from the summaries of its jobs by node; means must be > 0.

    The unit is the job. Paired where at least two nodes ran on both sides: differences between nodes cancel. Else the
    jobs of one side against those of the other, on the common node if there is one. `rho`: the correlation of the jobs
    of one side, which they do not show themselves.
    """
    both = sorted(before.keys() & after.keys())
    if len(both) > 1:
        old, new = ([fmean(math.log(mean_of(job)) for job in side[node]) for node in both] for side in (before, after))
        df = len(both) - 1
        squares = df * variance([b - a for a, b in zip(old, new, strict=True)]) / 2
        how = f'paired over {len(both)} nodes'
    else:
        nodes = both or None
        old, new = (
            [math.log(mean_of(job)) for node in nodes or side for job in side[node]] for side in (before, after)
        )
        df = len(old) + len(new) - 2
        squares = sum(variance(side) * (len(side) - 1) for side in (old, new) if len(side) > 1)
        how = f'{count(len(old), "job")} against {len(new)}'
    return Shift(
        before=summarize([math.exp(value) for value in old]),
        after=summarize([math.exp(value) for value in new]),
        ratio=math.exp(fmean(new) - fmean(old)),
        variance=squares / df / (1 - rho) if df else 0.0,
        df=df,
        factor=sum(rho + (1 - rho) / len(side) for side in (old, new)),
        how=how,
    )


def chance(deviations: ndarray, df: ndarray) -> ndarray:
    """Return one-sided p-values of deviations to the bad side, in standard deviations with `df` degrees of freedom."""
    from scipy.special import stdtr

    return stdtr(df, -deviations)


def scatter(losses: ndarray, df: ndarray) -> float:
    """Return by how much values that should follow Student's t with `df` degrees of freedom scatter more, at least 1.

    The smaller of two estimates: from the quartiles, and from the better quarter of the values, which shows it even
    where half of the series lost performance.
    """
    from scipy.special import ndtri

    z = ndtri(numpy.clip(chance(losses, df), 1e-15, 1 - 1e-15))  # normal, and higher is better
    low, high, highest = numpy.quantile(z, [0.25, 0.75, 0.9])
    scale = min((high - low) / 1.349, (highest - high) / 0.607)
    return float(scale) if scale > 1.15 else 1.0


def quantile(share: float, df: ndarray | float) -> ndarray:
    """Return the quantile of Student's t with `df` degrees of freedom below which a `share` lies."""
    from scipy.special import stdtrit

    return stdtrit(df, share)


def false_discovery_rates(p: ndarray, weight: ndarray | None = None) -> ndarray:
    """Return Benjamini and Hochberg's adjusted p-values: of all flags up to q, a share q is expected to be false.

    `weight`: of each test, 1 without; a test of weight 1/10 counts as a tenth (Genovese, Roeder and Wasserman,
    Biometrika 93 (2006) 509). The same as scipy.stats.false_discovery_control, whose import takes longer than a
    comparison.
    """
    weighted, total = (p, len(p)) if weight is None else (p / weight, weight.sum())
    order = numpy.argsort(weighted)[::-1]  # from the largest
    scaled = weighted[order] * total / numpy.arange(len(p), 0, -1)
    adjusted = numpy.empty(len(p))
    adjusted[order] = numpy.minimum(numpy.minimum.accumulate(scaled), 1)
    return adjusted

"""Summaries of samples, the spread of a baseline, and how sure one may be of a whole session's verdicts."""

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
ENOUGH_METRICS = 10  # to learn from how far their spreads differ


def pool(summaries: Iterable[Summary]) -> Summary:
    """The summary of all samples together, from the summaries of the groups they came in."""
    groups = [group for group in summaries if group.n]
    n = sum(group.n for group in groups)
    if not n:
        return NOTHING
    mean = math.fsum(group.n * group.mean for group in groups) / n
    squares = math.fsum(
        (group.n - 1) * (group.std or 0.0) ** 2 + group.n * (group.mean - mean) ** 2 for group in groups
    )
    return Summary(
        n=n,
        mean=mean,
        std=math.sqrt(squares / (n - 1)) if n > 1 else None,
        min=min(group.min for group in groups),
        max=max(group.max for group in groups),
    )


def inliers(values: ndarray) -> ndarray:
    """Which values of a baseline stay, along the last axis: those within 4 MAD of the median, on the log scale.

    All stay where more than a fifth would go: that is no accident of single nights but a second level of the machine,
    and a limit that ignored it would fail every other night.
    """
    import numpy

    logs = numpy.log(values)
    distance = abs(logs - numpy.median(logs, axis=-1, keepdims=True))
    scale = numpy.median(distance, axis=-1, keepdims=True) / _MAD_OF_NORMAL
    near = distance <= OUTLYING * scale
    return near | (scale == 0) | ((~near).mean(axis=-1, keepdims=True) > 0.2)


def moderate(variances: ndarray, df: ndarray) -> tuple[ndarray, ndarray]:
    """Variances of many metrics, each with its degrees of freedom, drawn towards what they have in common.

    Empirical Bayes: the true variances are taken for scaled inverse chi-square with d0 degrees of freedom about s0^2,
    both fitted by the moments of the logarithms (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, section 6.2). Each
    becomes (d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees of freedom, at most those of all metrics together. Metrics
    that differ much in their spread keep nearly their own, and so does one of many sessions.
    """
    import numpy
    from scipy.special import digamma, polygamma

    own = variances > 0  # of equal values: says nothing of the prior
    if own.sum() < ENOUGH_METRICS:
        return variances, df
    half = df[own] / 2
    logs = numpy.log(variances[own]) - digamma(half) + numpy.log(half)
    excess = logs.var(ddof=1) - polygamma(1, half).mean()
    if excess <= 0:  # no more different than chance makes them
        d0, s0 = math.inf, math.exp(logs.mean())
        moderated = numpy.full_like(variances, s0)
    else:
        d0 = 2 * _inverse_trigamma(excess)
        s0 = math.exp(logs.mean() + digamma(d0 / 2) - math.log(d0 / 2))
        moderated = (d0 * s0 + df * variances) / (d0 + df)
    return moderated, numpy.minimum(d0 + df, df.sum())


def _inverse_trigamma(value: float) -> float:
    """The x > 0 whose trigamma is `value`, by Newton's method on 1/trigamma, which is convex and nearly linear."""
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
    """From one set of jobs to another: `ratio` of the values, `error` the standard error of its logarithm with `df`
    degrees of freedom, both None where nothing tells it. `how` says what was compared, `before` and `after` sum it up.
    """

    before: Summary
    after: Summary
    ratio: float
    error: float | None
    df: float | None
    how: str


def shift_between(before: Mapping[str, Sequence[Summary]], after: Mapping[str, Sequence[Summary]]) -> Shift:
    """The change of a metric, from the summaries of its jobs by node; means > 0.

    Paired where two nodes or more ran on both sides, so that the differences between nodes cancel. Else Welch's test
    between the jobs, of the common node if there is one; with one job a side, between the trials of the two.
    """
    both = sorted(before.keys() & after.keys())
    if len(both) > 1:
        old, new = ([fmean(math.log(job.mean) for job in side[node]) for node in both] for side in (before, after))
        parts = [(variance([b - a for a, b in zip(old, new, strict=True)]) / len(both), len(both) - 1)]
        how = f'paired over {len(both)} nodes'
    else:
        jobs = [[job for node in both or side for job in side[node]] for side in (before, after)]
        old, new = ([math.log(job.mean) for job in side] for side in jobs)
        several = [side for side in (old, new) if len(side) > 1]
        if len(several) == 1:  # the single job moves as much as those of the other side
            (side,) = several
            parts = [(variance(side) * (1 / len(old) + 1 / len(new)), len(side) - 1)]
        elif several:
            parts = [(variance(side) / len(side), len(side) - 1) for side in several]
        else:
            trials = [job for (job,) in jobs if job.n > 1]
            parts = [((job.std / job.mean) ** 2 / job.n, job.n - 1) for job in trials]
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
    """One-sided p-values: how often a healthy metric lies `deviations` standard deviations or more on the bad side."""
    from scipy.special import stdtr

    return stdtr(df, -deviations)


def false_discovery_rates(p: ndarray) -> ndarray:
    """Benjamini and Hochberg's adjusted p-values: flagging all up to q makes a share q of the flags false.

    As scipy.stats.false_discovery_control, whose import alone takes longer than a comparison.
    """
    import numpy

    order = numpy.argsort(p)[::-1]  # from the largest
    scaled = p[order] * len(p) / numpy.arange(len(p), 0, -1)
    adjusted = numpy.empty(len(p))
    adjusted[order] = numpy.minimum(numpy.minimum.accumulate(scaled), 1)
    return adjusted

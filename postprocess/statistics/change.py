# SPDX-License-Identifier: BSD-3-Clause
"""Compare performance before and after a change: estimate the loss of each series, then decide.

Arrays of jobs are series x jobs; NaN where a series has fewer. All other arrays have an element a series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy
from numpy import ndarray

from plumbline.limits import POWER
from postprocess.statistics import distributions

_CERTAIN = 0.995  # one-sided quantile of a single decision: 0.5 % of healthy series lose as much
_TOO_WIDE = -math.log1p(-0.2)  # a single decision that cannot exclude a loss of this size is none
_FEWEST = 3  # pairs before the first look
_FALSE = 0.01  # chance that, without a change, any of all series is reported as changed in any look
_LEAST = 1 / 16  # least variance as a part of the usual one: printed numbers are rounded, and may be equal


@dataclass(frozen=True)
class Estimate:
    """The loss of each series, and how well it is known.

    `loss`: mean logarithm of the performance lost. `variance`: of the logarithm of one job, with `df` degrees of
    freedom; 0 with one job on each side. `factor`: variance of the loss / `variance`.
    """

    loss: ndarray
    variance: ndarray
    df: ndarray
    factor: ndarray

    @property
    def error(self) -> ndarray:
        """The standard error of the loss."""
        return numpy.sqrt(self.variance * self.factor)


@dataclass(frozen=True)
class Decision:
    """What the comparison shows of each series.

    `word`: ``regressed``, ``improved``, ``ok``, or ``warning`` where the jobs do not decide. `loss`: mean logarithm of
    the performance lost, with its 95 % interval `low` to `high`, standard `error` and `df` degrees of freedom. `p`: the
    chance of such a loss without a change; `q`: `p` adjusted for the number of series. `limit`: what a loss must exceed
    to count; `noticed`: the loss that is found four times of five. In turn, `q` and `noticed` are NaN. `jobs`: number
    of jobs after the change, or of pairs, that were used; all but `word` and `limit` are NaN where these were too few.
    """

    word: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray
    error: ndarray
    df: ndarray
    p: ndarray
    q: ndarray
    limit: ndarray
    noticed: ndarray
    jobs: ndarray


def estimate(before: ndarray, after: ndarray, paired: ndarray | bool = True, likeness: float = 0.0) -> Estimate:
    """Return the loss of each series from the logarithms of performance of its jobs on both sides.

    Where `paired`, job k of one side belongs to job k of the other, so that what they share cancels. Else all jobs of
    one side are compared with all of the other. `likeness`: correlation of the jobs of one side, which cannot be
    estimated from them. Each side needs a job.
    """
    jobs = [numpy.isfinite(side).sum(axis=1) for side in (before, after)]
    means = [numpy.nansum(side, axis=1) / n for side, n in zip((before, after), jobs, strict=True)]
    loss = means[0] - means[1]
    of_pairs = numpy.nansum((before - after - loss[:, None]) ** 2, axis=1) / 2
    of_sides = [
        numpy.nansum((side - mean[:, None]) ** 2, axis=1) for side, mean in zip((before, after), means, strict=True)
    ]
    squares = numpy.where(paired, of_pairs, of_sides[0] + of_sides[1])
    df = numpy.where(paired, jobs[0] - 1, jobs[0] + jobs[1] - 2).astype(float)
    variance = squares / numpy.maximum(df, 1) / (1 - likeness)
    factor = 2 * likeness + (1 - likeness) * (1 / jobs[0] + 1 / jobs[1])
    return Estimate(loss, numpy.where(df > 0, variance, 0.0), df, factor)


def with_known(own: Estimate, known: ndarray, known_df: ndarray, assumed: ndarray, prior: ndarray) -> Estimate:
    """Return the estimate with variances that rest also on what is known of the series, and on all series together.

    The variance of a job is the `known` one, pooled with the one of the compared jobs. Where that is only `assumed`, it
    is the variance of the compared jobs, shrunk towards the other series and the `prior` of the kind of metric
    (`moderate`); with one job on each side the prior, fitted to the losses of all such series about their median. If
    all series scatter more than that explains, all standard errors grow accordingly.
    """
    variance, df = (known_df * known + own.df * own.variance) / (known_df + own.df), known_df + own.df
    several, single = assumed & (own.df > 0), assumed & (own.df == 0)
    if several.any():
        variance[several], df[several] = distributions.moderate(own.variance[several], own.df[several], prior[several])
    if single.sum() >= distributions.ENOUGH_METRICS:
        squares = (own.loss[single] - numpy.median(own.loss[single])) ** 2 / own.factor[single] / prior[single]
        d0, scale = distributions.fit_prior(squares, numpy.ones(len(squares)))
        variance[single], df[single] = prior[single] * min(max(scale, 1 / 9), 100), min(max(d0, 1), 30)
    if len(own.loss) >= distributions.ENOUGH_METRICS:
        error = numpy.sqrt(variance * own.factor)
        variance *= distributions.scatter(distributions.deviate(-own.loss / error, df)) ** 2
    return replace(own, variance=variance, df=df)


def decide_once(change: Estimate, smallest: ndarray, jobs: ndarray) -> Decision:
    """Return the decision on each series from all `jobs` there will be.

    A series has changed if the 99 % interval of the change excludes 0 and the change is more than `smallest`, a
    logarithm. It is ok if it has not, and the 95 % interval excludes a loss that is larger than that and than 20 %.
    """
    found = _decide(change, smallest, jobs, 1 - _CERTAIN, 1 - _CERTAIN, None, numpy.maximum(smallest, _TOO_WIDE))
    bar = distributions.quantile(_CERTAIN, change.df)
    limit, noticed = (numpy.maximum(deviations * change.error, smallest) for deviations in (bar, bar + POWER))
    return replace(found, q=distributions.false_discovery_rates(found.p), limit=limit, noticed=noticed)


def decide_in_turn(before: ndarray, after: ndarray, quiet: ndarray, smallest: ndarray, prior: ndarray) -> Decision:
    """Return for each series the decision of the first look that decides, else what the last look shows.

    Jobs are in pairs, in the order in which they ran, and there is a look after each. `quiet`: False for a pair whose
    CPUs were busy with other work. `smallest`: logarithm of the smallest loss that matters. `prior`: usual variance of
    a job.

    A series has changed if it lost or gained more than matters, by Student's t of all its pairs. Over all series and
    looks, 1 of 100 comparisons without a change reports one. The k-th look, after k + 2 pairs, may use 1/k(k+1) of that
    chance; these shares add up to 1. A loss also needs so many pairs that a metric with two levels, each half of the
    time, rarely makes all pairs alike: n pairs are alike with chance 2/4^n. A series is ok if the 95 % interval of its
    quiet pairs excludes a loss that matters. Of series that lost exactly the smallest loss that matters, one of ten is
    reported as ok (tests/postprocess/test_before_after.py).
    """
    n, pairs = len(before), numpy.isfinite(before).sum(axis=1)
    numbers = {field.name: numpy.full(n, math.nan) for field in fields(Decision)}
    numbers |= {'word': numpy.full(n, 'warning', dtype='<U9'), 'limit': smallest, 'jobs': pairs.copy()}
    found = Decision(**numbers)
    fewest = max(_FEWEST, math.ceil(math.log(2 * max(n, 1) / _FALSE, 4)))  # fewer pairs may all be alike by chance
    for count in range(2, before.shape[1] + 1):
        asked = numpy.flatnonzero((found.word == 'warning') & (pairs >= count))
        first, then, calm = (of[asked, :count] for of in (before, after, quiet))
        look = count - _FEWEST + 1
        share = _FALSE / (look * (look + 1)) / n / 2 if look > 0 else 0.0
        decision = _decide(
            _of_pairs(first, then, prior[asked]), smallest[asked], numpy.full(len(asked), count),
            share if count >= fewest else 0.0, share, _most(first, then, calm, prior[asked]), smallest[asked],
        )  # fmt: skip
        for name in numbers.keys() - {'limit'}:
            getattr(found, name)[asked] = getattr(decision, name)
    return found


def _of_pairs(before: ndarray, after: ndarray, prior: ndarray) -> Estimate:
    """Return the loss of each series by its pairs alone; the variances of ten or more series are moderated together."""
    own = estimate(before, after)
    variance, df = distributions.moderate(own.variance, own.df)
    return replace(own, variance=numpy.maximum(variance, _LEAST * prior), df=df)


def _most(before: ndarray, after: ndarray, quiet: ndarray, prior: ndarray) -> ndarray:
    """Return the upper end of the 95 % interval of the loss by the `quiet` pairs; infinite where these are too few."""
    n, most = quiet.sum(axis=1), numpy.full(len(before), math.inf)
    known = n > 1  # two tell how much pairs of other series vary
    if known.any():
        first, then = (numpy.where(quiet, side, math.nan)[known] for side in (before, after))
        calm = _of_pairs(first, then, prior[known])
        most[known] = calm.loss + distributions.quantile(0.975, calm.df) * calm.error
    return numpy.where(n >= _FEWEST, most, math.inf)


def _decide(
    change: Estimate, smallest: ndarray, jobs: ndarray, lost: float, gained: float, most: ndarray | None,
    tolerated: ndarray,
) -> Decision:  # fmt: skip
    """Return the decision on each series by one look.

    `lost`, `gained`: largest one-sided chance of a loss and of a gain that count. `most`: the loss that must be at most
    `tolerated` for a series to be ok; the upper end of the 95 % interval if None.
    """
    loss, error = change.loss, change.error
    p = distributions.chance(loss / error, change.df)
    half = distributions.quantile(0.975, change.df) * error
    conditions = [
        (p < lost) & (loss > smallest),
        (1 - p < gained) & (-loss > smallest),
        (loss + half if most is None else most) <= tolerated,
    ]
    word = numpy.select(conditions, ['regressed', 'improved', 'ok'], 'warning')
    unknown = numpy.full(len(loss), math.nan)
    return Decision(word, loss, loss - half, loss + half, error, change.df, p, unknown, smallest, unknown, jobs)

# SPDX-License-Identifier: BSD-3-Clause
"""Decide from pairs of values whether performance was lost; look again after each further pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy
from numpy import ndarray

from postprocess.statistics import distributions

_FEWEST = 3  # pairs before the first look
_FALSE = 0.01  # chance that, without a change, any of all series is reported as changed


@dataclass(frozen=True)
class Pairs:
    """The pairs of one series, in the order in which they were measured.

    `losses`: logarithm of the performance lost from the first value of each pair to the second. `quiet`: False for a
    pair whose CPUs were busy with other work. `smallest`: logarithm of the smallest loss that matters. `least`: lower
    bound of the standard deviation of a loss, because printed numbers are rounded.
    """

    losses: ndarray
    quiet: ndarray
    smallest: float
    least: float


Decided = Literal['regressed', 'improved', 'ok', 'open']


@dataclass(frozen=True)
class Decision:
    """What the pairs of a series show.

    `word`: ``regressed``, ``improved``, ``ok``, or ``open`` if they do not decide. `loss`: mean logarithm of the
    performance lost, with its 95 % interval `low` to `high`, its standard `error` and `df` degrees of freedom. `p`: the
    chance of such a loss without a change. `pairs`: number of pairs that were used. With fewer than two pairs all
    numbers but `pairs` are NaN.
    """

    word: Decided = 'open'
    loss: float = math.nan
    low: float = math.nan
    high: float = math.nan
    error: float = math.nan
    df: float = math.nan
    p: float = math.nan
    pairs: int = 0


def decide(series: Sequence[Pairs]) -> list[Decision]:
    """Return for each series the decision of the first look that decides, else what the last look shows.

    A series has changed if it lost or gained more than matters, by Student's t of all its pairs. Over all series and
    looks, 1 of 100 comparisons without a change reports one. The k-th look, after k + 2 pairs, may use 1/k(k+1) of that
    chance; these shares add up to 1. A loss also needs so many pairs that a metric with two levels, each half of the
    time, rarely makes all pairs alike: n pairs are alike with chance 2/4^n. A series is ok if the 95 % interval of its
    quiet pairs excludes a loss that matters. Of series that lost exactly the smallest loss that matters, one of ten is
    reported as ok (tests/postprocess/test_pairs.py).
    """
    decisions = [Decision(pairs=len(of.losses)) for of in series]
    for count in range(2, max((len(of.losses) for of in series), default=0) + 1):
        places = [i for i, of in enumerate(series) if decisions[i].word == 'open' and len(of.losses) >= count]
        first = [Pairs(series[i].losses[:count], series[i].quiet[:count], series[i].smallest, series[i].least)
                 for i in places]  # fmt: skip
        for place, decision in zip(places, _look(first, len(series)), strict=True):
            decisions[place] = decision
    return decisions


def _look(series: Sequence[Pairs], all_series: int) -> list[Decision]:
    """Return what all given pairs of each series show; `all_series`: number of series that share the false alarms."""
    errors, dfs = _errors(series, [numpy.ones(len(of.quiet), bool) for of in series])
    quiet_errors, quiet_dfs = _errors(series, [of.quiet for of in series])
    fewest = max(_FEWEST, math.ceil(math.log(2 * all_series / _FALSE, 4)))  # fewer pairs may all be alike by chance
    decisions = []
    for i, of in enumerate(series):
        n = len(of.losses)
        loss, error, df = float(of.losses.mean()), errors[i], dfs[i]
        half = float(distributions.quantile(0.975, df)) * error
        p = float(distributions.chance(numpy.array(loss / error), numpy.array(df)))
        word: Decided = 'open'
        look = n - _FEWEST + 1
        if look > 0:
            share = _FALSE / (look * (look + 1)) / all_series / 2
            if n >= fewest and loss > of.smallest and p < share:
                word = 'regressed'
            elif -loss > of.smallest and 1 - p < share:
                word = 'improved'
            elif of.quiet.sum() >= _FEWEST:
                most = float(distributions.quantile(0.975, quiet_dfs[i])) * quiet_errors[i]
                word = 'ok' if of.losses[of.quiet].mean() + most <= of.smallest else 'open'
        decisions.append(Decision(word, loss, loss - half, loss + half, error, df, p, n))
    return decisions


def _errors(series: Sequence[Pairs], used: Sequence[ndarray]) -> tuple[list[float], list[float]]:
    """Return the standard error of the mean loss of each series over its `used` pairs, and the degrees of freedom.

    The variances of ten or more series are moderated together. NaN with fewer than two pairs.
    """
    errors, dfs = [math.nan] * len(series), [math.nan] * len(series)
    known = [i for i, there in enumerate(used) if there.sum() > 1]
    if not known:
        return errors, dfs
    counts = numpy.array([used[i].sum() for i in known])
    own = numpy.array([series[i].losses[used[i]].var(ddof=1) for i in known])
    variances, degrees = distributions.moderate(own, counts - 1.0)
    for i, n, variance, df in zip(known, counts, variances, degrees, strict=True):
        errors[i], dfs[i] = math.sqrt(max(variance, series[i].least ** 2) / n), float(df)
    return errors, dfs

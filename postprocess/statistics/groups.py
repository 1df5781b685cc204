# SPDX-License-Identifier: BSD-3-Clause
"""Judge losses that series have in common: a loss of 2 % in each of 20 series is significant, although each is noise.

The first jobs of a night decide at once: a mean of many series, each of them cut, has no tail of slow jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import ENOUGH_METRICS, deviate, fit_prior, student, tail
from postprocess.statistics.method import METHOD
from postprocess.statistics.pool import Pool

_ALIKE, _DF = 0.3, 2.0  # assumed correlation of the series of a group, and its weight in degrees of freedom
_MOST_DF = 200.0  # upper bound of the degrees of freedom of a fitted prior
_FEWEST_CASES = 3  # fewest cases whose median counts
_FEWEST_JOBS = 3  # a job slows all its series alike, so fewer do not decide
#: A series that lost more than this many times the loss in common has a cause of its own.
MORE = 3


@dataclass(frozen=True)
class Groups:
    """Sets of series. `kinds`: what each set has in common, in words; `members`: the indices of its series."""

    kinds: Sequence[str] = ()
    members: Sequence[ndarray] = ()

    def mean(self, values: ndarray) -> ndarray:
        """Return the mean of each group along the first axis of `values`.

        NaN unless more than half of its series have a number.
        """
        together = numpy.concatenate(self.members)
        starts = numpy.cumsum([0, *map(len, self.members[:-1])])
        there = numpy.isfinite(values)
        count = numpy.add.reduceat(there[together], starts, axis=0, dtype=float)
        total = numpy.add.reduceat(numpy.where(there, values, 0.0)[together], starts, axis=0)
        size = self.sizes.reshape(-1, *[1] * (values.ndim - 1))
        return numpy.where(count * 2 > size, total / numpy.maximum(count, 1), numpy.nan)

    @property
    def sizes(self) -> ndarray:
        """The number of series of each group."""
        return numpy.array([len(part) for part in self.members])

    @property
    def alike(self) -> ndarray:
        """The number of groups that are of the same kind as each group."""
        kinds = list(self.kinds)
        return numpy.array([kinds.count(kind) for kind in kinds], dtype=float)


@dataclass
class InCommon:
    """The groups that lost, by index.

    `red`: their indices. `loss`: index -> (loss, low, high), logarithms: the median loss of the group's series, and its
    95 % interval. `p`: index -> chance of such a loss without a cause. `explained`: True for each series whose loss is
    that of a group. `asks`: True for each series of a group that lost by too few jobs to decide.
    """

    red: list[int] = field(default_factory=list)
    loss: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    p: dict[int, float] = field(default_factory=dict)
    explained: ndarray = field(default_factory=lambda: numpy.zeros(0, bool))
    asks: ndarray = field(default_factory=lambda: numpy.zeros(0, bool))


def judge_groups(
    expected: Expected, groups: Groups, jobs: ndarray, pool: Pool, kinds: int = 1, weather: float = 0.0
) -> InCommon:
    """Return the losses that groups of series have in common tonight.

    `jobs`: M x J jobs of tonight, the first job first. `kinds`: number of kinds of groups, which share the false
    alarms. `weather`: the loss below the floor of most series of the site, which is none of a smaller group. A group
    lost if the mean deviation of its first jobs is low and most of its cases lost no less than the floor, by three jobs
    or more.
    """
    baseline, cut = expected.baseline, METHOD.cut[0]
    in_common = InCommon(explained=numpy.zeros(len(jobs), bool), asks=numpy.zeros(len(jobs), bool))
    if not groups.members:
        return in_common
    recorded = _recorded(expected, groups)
    n = numpy.isfinite(recorded).sum(axis=1)
    centre = numpy.nansum(recorded, axis=1) / numpy.maximum(n, 1)
    variance, df = _spread(groups, recorded, centre, n)
    g = groups.mean(expected.g)
    first = groups.mean(baseline.deviations(jobs[:, 0], cut))
    z = deviate((centre - first) / numpy.sqrt(variance * (1 + g)), df)
    level = METHOD.false * METHOD.shares[2] / kinds / groups.alike
    losses, case = _losses_of(expected, jobs), pool.alike[pool.case]
    first_loss = baseline.mean - jobs[:, 0]
    ran = numpy.zeros(pool.cases, int)
    numpy.maximum.at(ran, pool.case, numpy.isfinite(jobs).sum(axis=1))
    p = tail(numpy.nan_to_num(z, nan=-9.0))
    for index in numpy.flatnonzero(p < level).tolist():
        part = groups.members[index]
        loss = _size(expected, losses, part, case)
        if loss - weather * (2 * len(part) <= len(jobs)) <= METHOD.near * float(numpy.median(baseline.floor[part])):
            continue
        if ran[numpy.unique(pool.case[part])].sum() < _FEWEST_JOBS:
            in_common.asks[part] = True
        else:
            half = float(student(1.96, df[index]) * numpy.sqrt(variance[index] * (1 + g[index])))
            half *= float(numpy.median(baseline.sd[part]))
            in_common.red.append(index)
            in_common.p[index], in_common.loss[index] = float(p[index]), (loss, loss - half, loss + half)
            # further jobs avoid the node of the first one, which may have a loss of its own
            in_common.explained[part] |= numpy.maximum(losses[part], first_loss[part]) < MORE * loss
    return in_common


def _recorded(expected: Expected, groups: Groups) -> ndarray:
    """Return the mean deviation of each group in the sessions of the baseline: groups x N."""
    baseline = expected.baseline
    if not baseline.sessions.shape[1]:
        return numpy.zeros((len(groups.members), 0))
    return groups.mean(baseline.deviations(baseline.sessions, METHOD.cut[0]))


def _size(expected: Expected, losses: ndarray, part: ndarray, case: ndarray) -> float:
    """Return the loss of a group: the mean weighted by precision, without series that have a cause of their own.

    These lost more than `MORE` times the median of its cases, or of its series if it has few cases, or so much less
    that chance does not explain it.
    """
    known = part[numpy.isfinite(losses[part])]
    own, cases = losses[known], numpy.unique(case[known])
    of_cases = numpy.array([_lower_median(own[case[known] == one]) for one in cases])
    middle = _lower_median(own if len(cases) < _FEWEST_CASES else of_cases)
    shared = (own <= MORE * middle) & (own >= middle - METHOD.cut[0] * expected.error(1.0)[known])
    weights = shared / expected.baseline.variance[known]
    return float(own @ weights / weights.sum()) if shared.any() else 0.0


def _lower_median(values: ndarray) -> float:
    """Return the median; of an even number the smaller one in the middle: a loss of only half is none of all."""
    return float(numpy.sort(values)[(len(values) - 1) // 2])


def _losses_of(expected: Expected, jobs: ndarray) -> ndarray:
    """Return the loss of each of M series: the median of up to 4 further jobs, or its first job if no other ran."""
    ran = numpy.isfinite(jobs[:, 1:]).any(axis=1)
    further = numpy.full(len(jobs), numpy.nan)
    further[ran] = numpy.nanmedian(jobs[ran, 1:5], axis=1)
    return expected.baseline.mean - numpy.where(ran, further, jobs[:, 0])


def _spread(groups: Groups, recorded: ndarray, centre: ndarray, n: ndarray) -> tuple[ndarray, ndarray]:
    """Return the variance of the mean of each group, and its degrees of freedom; the series of a group are correlated.

    Where a kind has enough groups, the prior is fitted to the groups of this kind.
    """
    prior = _ALIKE + (1 - _ALIKE) / groups.sizes
    squares = numpy.nansum((recorded - centre[:, None]) ** 2, axis=1)
    variance, df = prior.copy(), numpy.full(len(n), _DF)
    kinds = numpy.array(groups.kinds)
    for kind in set(groups.kinds):
        of_kind = (kinds == kind) & (n > 1)
        d0, s0 = _DF, 1.0
        own = squares[of_kind] / numpy.maximum(n[of_kind] - 1, 1) / prior[of_kind]
        if (own > 0).sum() >= ENOUGH_METRICS:
            d0, s0 = fit_prior(own, n[of_kind] - 1.0)
            d0 = min(d0, _MOST_DF)
        more = n[of_kind] - 1
        variance[of_kind] = prior[of_kind] * (d0 * s0 + more * own) / (d0 + more)
        df[of_kind] = d0 + more
    return variance, df


def highest(groups: Groups, common: InCommon, alone: ndarray) -> list[int]:
    """Return the indices of the groups that show causes: they lost as a group, or most of their series lost `alone`.

    `alone`: True for each of M series that is red and that no slow node explains. The largest group comes first.
    Another group counts if less than half of its series are in groups already chosen.
    """
    red = {*common.red}
    red |= {index for index, part in enumerate(groups.members) if 4 * alone[part].sum() > 3 * len(part)}
    chosen: list[int] = []
    taken = numpy.zeros(len(alone), bool)
    for index in sorted(red, key=lambda index: -len(groups.members[index])):
        part = groups.members[index]
        if 2 * taken[part].sum() < len(part):
            chosen.append(index)
            taken[part] = True
    return chosen

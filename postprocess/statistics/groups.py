# SPDX-License-Identifier: BSD-3-Clause
"""Judge losses that series have in common: the mean deviation of first jobs raises a doubt, further jobs decide.

A loss of 2 % in each of 20 series is significant, although each one is within the noise of its series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import ENOUGH_METRICS, deviate, fit_prior, student, upper
from postprocess.statistics.method import METHOD

_ALIKE, _DF = 0.5, 4.0  # assumed correlation of the series of a group, and its weight in degrees of freedom
_MOST_DF = 200.0  # upper bound of the degrees of freedom of a fitted prior
_CLIPPED = 0.8  # variance of a normal deviate that is cut at 2
_LOOKS = (2, 4)  # numbers of further jobs of the group's cases after which to decide
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
    """The groups that lost, by index, with their losses; and the cases that should run again for undecided groups.

    `red`: indices of the groups that lost. `loss`: index -> (loss, low, high), logarithms: the median loss of the
    group's series by further jobs, and its 95 % interval. `p`: index -> chance of such a loss without a cause.
    `wanted`: case -> number of further jobs that it should have. `healthy`: case -> number of further jobs that ran for
    groups without a loss.
    """

    red: list[int] = field(default_factory=list)
    loss: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    p: dict[int, float] = field(default_factory=dict)
    wanted: dict[int, int] = field(default_factory=dict)
    healthy: dict[int, int] = field(default_factory=dict)

    def tell(self, index: int, p: float, losses: ndarray, half: float, sd: ndarray) -> None:
        """Note a group whose series lost `losses`.

        `half`: half of the 95 % interval, in units of the standard deviations `sd`.
        """
        loss, half = float(numpy.nanmedian(losses)), half * float(numpy.median(sd))
        self.red.append(index)
        self.p[index], self.loss[index] = p, (loss, loss - half, loss + half)


def judge_groups(
    expected: Expected,
    groups: Groups,
    nights: ndarray,
    case: ndarray,
    red: ndarray,
    order: ndarray,
    kinds: int = 1,
    asking: float = 1.0,
) -> InCommon:
    """Return the losses that groups have in common, and the further jobs that undecided groups need.

    `nights`: M x W x J jobs, tonight last, the first job of a night first. `case`: number of the case of each series.
    `red`: True for series that lost by themselves. `order`: rank of each case, drawn for this session; the cases of a
    group with the lowest ranks run for it. `kinds`: number of kinds of groups, and of nodes, that share the false
    alarms. `asking`: how many of the usual questions may be asked.
    """
    in_common = InCommon()
    if not groups.members:
        return in_common
    baseline, cut = expected.baseline, METHOD.cut[1]
    losses = _losses(expected, nights[:, -1], numpy.arange(len(red)))
    # on two nights in a row: on a single night some of many series are far below their means by chance
    before = baseline.mean - nights[:, -2, 0] if nights.shape[1] > 1 else numpy.zeros(len(red))
    far = red | ((losses > cut * baseline.sd) & (before > cut * baseline.sd))
    groups = replace(groups, members=[_without_own_causes(part, losses, far) for part in groups.members])
    recorded = (
        groups.mean(baseline.deviations(baseline.sessions, cut))
        if baseline.sessions.shape[1]
        else numpy.zeros((len(groups.members), 0))
    )
    n = numpy.isfinite(recorded).sum(axis=1)
    centre = numpy.nansum(recorded, axis=1) / numpy.maximum(n, 1)
    variance, df = _spread(groups, recorded, centre, n)
    g = groups.mean(expected.g)
    jobs = nights[:, -1]
    first = groups.mean(baseline.deviations(nights[..., 0], cut))
    z = deviate((centre - first[:, -1]) / numpy.sqrt(variance * (1 + g)), df)
    lasting = _lasting(expected, centre[:, None] - first, variance * numpy.ones(len(g)), df, g)
    asks = numpy.fmax(numpy.nan_to_num(z, nan=-9.0), lasting) > [
        upper(METHOD.group[0] * asking / alike) for alike in groups.alike
    ]
    for index in map(int, numpy.flatnonzero(asks)):
        part = groups.members[index]
        cases = numpy.unique(case[part])
        chosen = cases[numpy.argsort(order[cases], kind='stable')][: METHOD.group[1]]
        own = part[numpy.isin(case[part], chosen)]
        level = METHOD.false * METHOD.shares[2] / kinds / len(_LOOKS) / float(groups.alike[index])
        of_group = variance[index], df[index], float(g[index])
        state = _decide(expected, jobs[own], own, len(part), of_group, level)
        if isinstance(state, int) and (alone := max(float(z[index]), float(lasting[index]))) > upper(level):
            # no further job is needed: a mean of many series, each of them cut, has no tail of slow jobs
            half = 1.96 * float(numpy.sqrt(variance[index] * (1 + g[index])))
            if _shared(expected, jobs, part, part, red):
                in_common.tell(
                    index, 0.5 * math.erfc(alone / 2**0.5), _losses(expected, jobs[part], part), half, baseline.sd[part]
                )
        if isinstance(state, int):
            in_common.wanted |= {int(number): max(state, in_common.wanted.get(int(number), 0)) for number in chosen}
        elif state is None or not _shared(expected, jobs, part, own, red):
            ran = int(numpy.isfinite(jobs[own, 1:]).sum(axis=1).max())
            in_common.healthy |= {int(number): ran for number in chosen}
        else:
            p, half = state
            in_common.tell(index, p, _losses(expected, jobs[own], own), half, baseline.sd[own])
    return in_common


def _decide(
    expected: Expected, jobs: ndarray, own: ndarray, size: int, of_group: tuple[float, float, float], level: float
) -> tuple[float, float] | int | None:
    """Return (p, half of the 95 % interval) of a loss, or the number of further jobs needed, or None without a loss.

    `jobs`: of the series `own`, which are a part of a group of `size` series. `of_group`: variance of the group's mean,
    its degrees of freedom and g. `level`: p below which a loss counts. The interval is in standard deviations.
    """
    variance, df, g = of_group
    baseline, rho, cut = expected.baseline, expected.rho, METHOD.cut[1]
    sd, mean = baseline.sd[own][:, None], baseline.mean[own][:, None]
    variance = variance + _CLIPPED * (1 / len(own) - 1 / size)
    recorded = numpy.clip((baseline.sessions[own] - mean) / sd, -cut, cut)
    centre = float(numpy.nanmean(recorded)) if numpy.isfinite(recorded).any() else 0.0
    values = numpy.clip((jobs[:, 1:] - mean) / sd, -cut, cut)
    for k in _LOOKS:
        some = values[:, :k]
        if some.shape[1] < k or 2 * numpy.isfinite(some[:, -1]).sum() <= len(own):
            return k
        means = numpy.nanmean(some, axis=0)
        squares = float(((means - means.mean()) ** 2).sum()) / (1 - rho)
        error = ((df * variance + squares) / (df + k - 1) * (rho + (1 - rho) / k + g)) ** 0.5
        freedom = numpy.array(df + k - 1)
        z = float(deviate(numpy.array((centre - means.mean()) / error), freedom))
        if z > upper(level):
            return 0.5 * math.erfc(z / 2**0.5), float(student(1.96, freedom)) * error
        if z <= upper(METHOD.go_on):
            return None
    return None


def _lasting(expected: Expected, losses: ndarray, variance: ndarray, df: ndarray, g: ndarray) -> ndarray:
    """Return the largest normal deviate over all windows of each group.

    `losses`: groups x W of first jobs, tonight last. The largest deviate is reduced for the number of windows, so that
    it is as likely as one of a single test.
    """
    best: ndarray = numpy.full(len(losses), -math.inf)
    apart = abs(numpy.subtract.outer(numpy.arange(losses.shape[1]), numpy.arange(losses.shape[1])))
    alike = expected.phi**apart
    for length in (length for length in METHOD.windows if length <= losses.shape[1]):
        recent = losses[:, -length:]
        v = alike[-length:, -length:].mean()
        z = deviate(recent.mean(axis=1) / numpy.sqrt(variance * (v + g)), df)
        shown = recent[:, -1] > upper(METHOD.shown) * numpy.sqrt(variance * (1 + g))
        best = numpy.where(shown, numpy.fmax(best, z), best)
    return numpy.sqrt(numpy.maximum(best, 0) ** 2 - 2 * math.log(len(METHOD.windows)) * (best > 2)) * (best > 2)


def _losses(expected: Expected, jobs: ndarray, own: ndarray) -> ndarray:
    """Return the loss of each of the series `own`: the median of its further jobs, or its first job if no other ran."""
    ran = numpy.isfinite(jobs[:, 1:]).any(axis=1)
    further = numpy.full(len(own), numpy.nan)
    further[ran] = numpy.nanmedian(jobs[ran, 1:5], axis=1)
    return expected.baseline.mean[own] - numpy.where(ran, further, jobs[:, 0])


def _without_own_causes(part: ndarray, losses: ndarray, far: ndarray) -> ndarray:
    """Return the series of a group without the few that are far below their means and lost much more than the others.

    Even if cut, these few would move the mean as if all series had lost something.
    """
    others = part[~far[part]]
    if 2 * len(others) <= len(part):
        return part
    return part[~far[part] | (losses[part] <= MORE * float(numpy.nanmedian(losses[others])))]


def _shared(expected: Expected, jobs: ndarray, part: ndarray, own: ndarray, red: ndarray) -> bool:
    """Return True if the series of a group share the loss, False if only a few of them lost."""
    losses = _losses(expected, jobs[own], own)
    middle = float(numpy.nanmedian(losses))
    if middle <= float(numpy.median(expected.baseline.floor[part])) / 2:
        return False
    others = losses[~red[own]]
    return 4 * len(others) < len(own) or float(numpy.nanmedian(others)) > middle / 2


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

"""Judge all series of a session together: which lost performance, which should run again, what they have in common.

Everything here is arithmetic on arrays of M series, whose values are the logarithm of performance.
`docs/tolerances.md` explains the method, and `studies/verdict_quality.py` measures how often it is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy import ndarray

from plumbline.limits import MOST_JOBS
from postprocess.verdicts import expected
from postprocess.verdicts.stats import ENOUGH_METRICS, chance, false_discovery_rates, fit_prior, quantile
from postprocess.verdicts.trailing import SHORT, WINDOWS, Baseline, Likeness, Nights, Windows, windows

#: How the false alarms are shared out among the windows.
SHARES = (0.40, 0.15, 0.20, 0.10, 0.15)
FALSE = 0.010  # the share of false losses among those found in a session
FALSE_SHORT = 0.005  # the same of baselines of fewer than SHORT sessions, which are rougher
FALSE_COMMON = 0.005  # the chance of a false loss in common in a session
ENOUGH_JOBS = 5  # jobs in a window that confirm a loss
FIRST_DOUBT = 0.025  # a series runs again if its first value is less likely than this,
DOUBT = (0.01, 0.01, 0.005, 0.005, 0.001)  # or one of its windows, by the number of jobs tonight
COMMON_DOUBT = 0.4  # groups that run again on a healthy night, by their first values
COMMON_JOBS = 3, 5  # jobs of a group that confirm its loss, and the most that run
NEAR_FLOOR = 0.75  # a loss counts from this part of the floor on: estimates scatter about the truth
#: A loss is over where tonight's jobs do not show it any more: where they are more likely than this, or than the
#: second where they are fewer than ENOUGH_JOBS.
TONIGHT = 0.05, 0.2
#: A loss that counts against a baseline of fewer than SHORT sessions, if it is so many standard deviations of a usual
#: metric of the site and so unlikely by the scatter of its own jobs.
LARGE, LARGE_SD, LARGE_P = 0.28, 7.0, 0.01
LASTING_WINDOW = 7  # the first window that counts where slow sessions last into their reruns

_CLIP = 2.0  # standard deviations at which one series counts no further: a group is what many have in common
_JOBS = 5  # of a session, which all series of a group should have
_ALIKE, _DF = 0.5, 4.0  # correlation of the series of a group where no sessions show it, and the weight of that


@dataclass(frozen=True)
class Groups:
    """Sets of series. `kinds`: what each set has in common, in words; `members`: the indices of its series."""

    kinds: Sequence[str]
    members: Sequence[ndarray]

    def mean(self, values: ndarray) -> ndarray:
        """Return the mean of each group along the first axis of `values`; not a number where half of it has none."""
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
    def tests(self) -> ndarray:
        """By how much the p of each group is to be corrected: the groups of its kind, times the number of kinds."""
        kinds = list(self.kinds)
        return numpy.array([len(set(kinds)) * kinds.count(kind) for kind in kinds], dtype=float)


@dataclass(frozen=True)
class Answer:
    """The answer for M series: arrays of M.

    `red`: lost performance; `suspect`: in doubt, to run again. `p` and `q`: the chance of a healthy series to look so
    bad in the most telling window, corrected for the number of windows; the same adjusted over all series. `window`:
    sessions of that window; `loss` over it, with its 95 % interval `low` to `high`. Losses are
    logarithms.
    """

    red: ndarray
    improved: ndarray
    suspect: ndarray
    two_levels: ndarray
    p: ndarray
    q: ndarray
    window: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray
    common: GroupAnswer | None
    likeness: Likeness


@dataclass(frozen=True)
class GroupAnswer:
    """The answer for groups of series: arrays of one value a group. `loss`: median of the losses of its series."""

    red: ndarray
    suspect: ndarray
    p: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray


def judge(baseline: Baseline, jobs: ndarray, groups: Groups | None = None) -> Answer:
    """Judge the last session of `jobs`: M x W x J values, not a number where there is none; all series have it.

    `groups`: series that are also judged by what they have in common.
    """
    nights = Nights.of(jobs)
    baseline, two_levels = expected.with_lower_level(baseline, nights)
    baseline = expected.with_accepted_sessions(expected.with_fitted_spread(baseline, nights), jobs)
    likeness = expected.likeness_of(baseline, nights)
    baseline = likeness.with_whole_spread(baseline)
    scale = expected.scale_of_tonight(baseline, nights, likeness)
    found = windows(baseline, nights, likeness, scale)
    p, certain = _chances(baseline, nights, likeness, found, scale)
    q = numpy.where(certain, 0.0, false_discovery_rates(p.min(axis=0), baseline.weight))
    red = certain | (q < numpy.where(baseline.n < SHORT, FALSE_SHORT, FALSE))
    suspect = _suspects(baseline, nights, likeness, found, p.min(axis=0))
    suspect &= ~(certain & (nights.k[:, -1] >= ENOUGH_JOBS))
    common = None
    if groups is not None and groups.members:
        of_groups = _windows_of_groups(groups, baseline, jobs[:, -2 * WINDOWS[-1] :], likeness)
        common = _common(groups, baseline, nights, of_groups, red)
        for index in map(int, numpy.flatnonzero(common.suspect)):
            members = groups.members[index]
            suspect[members] |= nights.k[members, -1] < COMMON_JOBS[1]
    best = numpy.where(p.min(axis=0) < 1, p, found.p / _shares()).argmin(axis=0)
    best[certain] = 0  # tonight's jobs alone decided: an average over healthy sessions is not what was lost
    rows = numpy.arange(len(best))
    loss = found.loss[best, rows]
    half = quantile(0.975, found.df[best, rows]) * found.error[best, rows]
    return Answer(
        red=red, improved=_improved(baseline, found), suspect=suspect, two_levels=two_levels,
        p=p.min(axis=0), q=q, window=numpy.array(WINDOWS)[best], loss=loss, low=loss - half, high=loss + half,
        common=common, likeness=likeness,
    )  # fmt: skip


def _shares() -> ndarray:
    return numpy.array(SHARES)[:, None]


def _log(loss: float) -> float:
    return -math.log1p(-loss)


def _typical(nights: Nights) -> ndarray:
    """Return the median of tonight's jobs, the better of the two in the middle: two jobs show what both lost."""
    ordered = numpy.sort(nights.tonight, axis=1)
    return ordered[numpy.arange(len(ordered)), nights.k[:, -1] // 2]


def _chances(
    baseline: Baseline, nights: Nights, likeness: Likeness, found: Windows, scale: float
) -> tuple[ndarray, ndarray]:
    """Return p of each window, corrected for their number, and which losses count whatever the spread.

    A window counts if it has `ENOUGH_JOBS`, if its loss is near the floor and if tonight shows it, too. Of fewer jobs
    tonight the best one counts, as if it were alone: nothing says yet that the others were not slow by chance. Where
    it is in doubt whether slow sessions last into their reruns, no job of tonight may have been near the baseline.
    """
    jobs, least = nights.k[:, -1], NEAR_FLOOR * baseline.floor
    shown = found.p[0] <= numpy.where(jobs < ENOUGH_JOBS, TONIGHT[1], TONIGHT[0])
    counts = (found.jobs >= ENOUGH_JOBS) & (found.loss >= least) & shown
    alone = baseline.mean - numpy.nanmax(nights.tonight, axis=1)
    if likeness.doubtful:
        counts[: WINDOWS.index(LASTING_WINDOW)] &= (jobs == MOST_JOBS) & (alone > 0.4 * found.loss[0])
    p = numpy.where(counts, found.p / _shares(), 1.0)
    error = scale * numpy.sqrt(baseline.variance * (1 + likeness.error_of_mean(baseline.n)))
    few = (jobs < ENOUGH_JOBS) & (alone >= least)
    p[0] = numpy.where(few, chance(alone / error, baseline.df) / SHARES[0], p[0])
    if likeness.lasting:
        p[: WINDOWS.index(LASTING_WINDOW)] = 1.0
    lost = baseline.mean - _typical(nights)
    short = (baseline.n < SHORT) & (jobs >= ENOUGH_JOBS) & (found.p[0] < LARGE_P)
    large = numpy.maximum(_log(LARGE), LARGE_SD * numpy.sqrt(baseline.variance))
    certain = (lost > baseline.cap) | (short & (numpy.minimum(lost, found.loss[0]) > large))
    return numpy.minimum(p, 1.0), certain


def _suspects(baseline: Baseline, nights: Nights, likeness: Likeness, found: Windows, p: ndarray) -> ndarray:
    """Return which series should run again: in doubt by one of the windows, and not yet sure beyond doubt."""
    jobs, least = nights.k[:, -1], NEAR_FLOOR * baseline.floor
    doubt = numpy.array(DOUBT)[numpy.minimum(jobs, len(DOUBT)) - 1]
    first = WINDOWS.index(LASTING_WINDOW) if likeness.lasting else 0
    considered = numpy.where(found.loss >= least, found.p, 1.0)[first:]
    suspect = considered.min(axis=0) < doubt * baseline.weight
    suspect |= (jobs == 1) & (considered[0] < FIRST_DOUBT * baseline.weight)
    suspect |= (jobs < ENOUGH_JOBS) & (baseline.mean - _typical(nights) > baseline.cap)
    suspect |= (baseline.n < SHORT) & (found.loss[0] > _log(LARGE))
    sure = (jobs >= ENOUGH_JOBS) & (p < FALSE / 3 / baseline.weight.sum() * baseline.weight)
    sure &= baseline.mean - numpy.nanmax(nights.tonight, axis=1) >= least  # no job of tonight was healthy
    return suspect & ~sure & (jobs < MOST_JOBS)


def _common(groups: Groups, baseline: Baseline, nights: Nights, found: Windows, red: ndarray) -> GroupAnswer:
    """Return the answer for groups, from what their windows show; losses only of those in doubt.

    `red`: the series that lost by themselves. A group whose others lost nothing has no loss in common.
    """
    best = (found.p / _shares()).argmin(axis=0)
    rows = numpy.arange(len(best))
    p = numpy.minimum((found.p / _shares())[best, rows] * groups.tests, 1.0)
    doubt = (found.p.min(axis=0) < COMMON_DOUBT / groups.tests) & (found.p[0] <= TONIGHT[0])
    lost = baseline.mean - nights.mean[:, -1]
    loss, half = numpy.zeros(len(p)), numpy.zeros(len(p))
    for index in map(int, numpy.flatnonzero(doubt)):
        part = groups.members[index]
        loss[index] = numpy.median(lost[part])
        doubt[index] &= loss[index] > numpy.median(baseline.floor[part]) / 2
        others = part[~red[part]]
        if 4 * len(others) >= len(part):
            doubt[index] &= numpy.median(lost[others]) > loss[index] / 2
        deviation = numpy.sqrt(numpy.median(baseline.variance[part]))
        half[index] = quantile(0.975, found.df[best[index], index]) * found.error[best[index], index] * deviation
    shared = doubt & (p < FALSE_COMMON) & (found.jobs[best, rows] >= COMMON_JOBS[0])
    return GroupAnswer(shared, doubt & (found.jobs[0] < COMMON_JOBS[1]), p, loss, loss - half, loss + half)


def _windows_of_groups(groups: Groups, baseline: Baseline, jobs: ndarray, likeness: Likeness) -> Windows:
    """Return what each window shows of each group, as if it were a series of its own.

    Its value is the mean of its series, each in standard deviations from its baseline and clipped at 2. Its variance
    comes from the sessions of the baseline, which hold the correlation of its series, shrunk towards that of the groups
    of its kind. `jobs`: M x W x J, the columns being the sessions of the site.
    """
    sd, mean = numpy.sqrt(baseline.variance), baseline.mean
    values = groups.mean(numpy.clip((jobs[..., :_JOBS] - mean[:, None, None]) / sd[:, None, None], -_CLIP, _CLIP))
    recorded = groups.mean(numpy.clip((baseline.sessions - mean[:, None]) / sd[:, None], -_CLIP, _CLIP))
    n = numpy.isfinite(recorded).sum(axis=1)
    centre = numpy.nansum(recorded, axis=1) / numpy.maximum(n, 1)
    squares = numpy.nansum((recorded - centre[:, None]) ** 2, axis=1)
    own = groups.mean(baseline.n.astype(float))
    prior = _ALIKE + (1 - _ALIKE) / groups.sizes
    variance, df = _shrunk(groups, squares, n, prior)
    as_series = Baseline(
        mean=centre, variance=variance, df=df, n=numpy.where(n > 1, n, numpy.maximum(own, 1)), prior=prior,
        assumed=n < 2, floor=numpy.zeros(len(n)), cap=numpy.full(len(n), numpy.inf), weight=numpy.ones(len(n)),
        sessions=recorded,
    )  # fmt: skip
    return windows(as_series, Nights.of(values), likeness)


def _shrunk(groups: Groups, squares: ndarray, n: ndarray, prior: ndarray) -> tuple[ndarray, ndarray]:
    """Return variances and their degrees of freedom: fitted among the groups of a kind where there are enough."""
    variance, df = prior.copy(), numpy.full(len(n), _DF)
    kinds = numpy.array(groups.kinds)
    for kind in set(groups.kinds):
        of_kind = (kinds == kind) & (n > 1)
        d0, s0 = _DF, 1.0
        own = squares[of_kind] / numpy.maximum(n[of_kind] - 1, 1) / prior[of_kind]
        if (own > 0).sum() >= ENOUGH_METRICS:
            d0, s0 = fit_prior(own, n[of_kind] - 1.0)
            d0 = min(d0, 200.0)
        more = n[of_kind] - 1
        variance[of_kind] = prior[of_kind] * (d0 * s0 + more * own) / (d0 + more)
        df[of_kind] = d0 + more
    return variance, df


def _improved(baseline: Baseline, found: Windows) -> ndarray:
    """Return which series are better than the baseline, by the same rule on the other side."""
    p = numpy.where(found.p < 1, chance(-found.loss / found.error, found.df), 1.0) / _shares()
    p = numpy.where(-found.loss >= baseline.floor, p, 1.0).min(axis=0)
    return false_discovery_rates(numpy.minimum(p, 1.0), baseline.weight) < FALSE

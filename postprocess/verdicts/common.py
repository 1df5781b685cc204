"""Judge losses that several series have in common: each may be too small to be seen alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy import ndarray

from postprocess.verdicts.stats import ENOUGH_METRICS, fit_prior
from postprocess.verdicts.trailing import Baseline, Likeness, Nights, Windows, windows

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


def judge_groups(groups: Groups, baseline: Baseline, jobs: ndarray, likeness: Likeness) -> Windows:
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

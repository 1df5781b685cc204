"""Tell what the last sessions show of many series: tonight alone, and windows of up to 14 sessions.

Everything here is arithmetic on arrays. Values are the logarithm of performance: higher is better, and a difference is
a loss. A *job* is one execution of a case; a session has several jobs of a series where its case ran again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy
from numpy import ndarray

from plumbline.limits import LIKENESS_OF_JOBS
from postprocess.verdicts.stats import chance

#: Sessions over which a series is judged: one finds what is large and sudden, fourteen what is small and lasting.
WINDOWS = (1, 2, 3, 7, 14)
SHORT = 5  # a baseline of fewer sessions says little of its series' own spread
LONG = 30  # sessions beyond which more would hardly sharpen a baseline


@dataclass(frozen=True)
class Baseline:
    """What M series should be: arrays of M.

    `mean` of the logarithm of performance over `n` sessions; `variance` of one session about it, with `df` degrees of
    freedom. `prior`: the variance that metrics of its kind usually have; where `assumed`, nothing else is known.
    `floor`: logarithm of the smallest loss that matters; `cap`: of the largest that may be noise. `weight`: 1, or less
    for one of many points of a curve. `sessions`: M x N values of the sessions of the baseline, not a number where they
    are not known.
    """

    mean: ndarray
    variance: ndarray
    df: ndarray
    n: ndarray
    prior: ndarray
    assumed: ndarray
    floor: ndarray
    cap: ndarray
    weight: ndarray
    sessions: ndarray


@dataclass(frozen=True)
class Nights:
    """The last sessions of M series, tonight last: M x W x J values of `jobs`, not a number where there is none.

    A series' sessions without a value are left out, so that windows count sessions that have it.
    """

    jobs: ndarray

    @classmethod
    def of(cls, jobs: ndarray) -> Nights:
        """Return the nights of values whose columns are the sessions of the site."""
        order = numpy.argsort(numpy.isfinite(jobs[..., 0]), axis=1, kind='stable')[:, -WINDOWS[-1] :]
        return cls(numpy.take_along_axis(jobs, order[..., None], axis=1))

    @property
    def first(self) -> ndarray:
        """The value of the first job, M x W."""
        return self.jobs[..., 0]

    @property
    def tonight(self) -> ndarray:
        """The jobs of tonight, M x J."""
        return self.jobs[:, -1]

    @cached_property
    def k(self) -> ndarray:
        """The number of jobs, M x W; 0 where a series has no such session."""
        return numpy.isfinite(self.jobs).sum(axis=-1)

    @cached_property
    def mean(self) -> ndarray:
        """The mean of the jobs, M x W; 0 where there is none."""
        return numpy.nansum(self.jobs, axis=-1) / numpy.maximum(self.k, 1)

    @cached_property
    def squares(self) -> ndarray:
        """The sum of squared deviations of the jobs from their mean, M x W."""
        if self.jobs.shape[-1] == 1:
            return numpy.zeros(self.k.shape)
        return numpy.nansum((self.jobs - self.mean[..., None]) ** 2, axis=-1)


@dataclass(frozen=True)
class Likeness:
    """How much alike values are beyond what the spread between sessions explains.

    `phi`: correlation of neighbouring sessions; `rho`: of the jobs of one session. `lasting`: slow sessions of this
    site last into their reruns and are over the session after, so that reruns confirm nothing; `doubtful`: whether
    they do is not known yet.
    """

    phi: float = 0.0
    rho: float = LIKENESS_OF_JOBS
    lasting: bool = False
    doubtful: bool = False

    def error_of_mean(self, n: ndarray) -> ndarray:
        """Return the variance of the mean of `n` sessions in units of that of one: 1/n^2 times the sum of phi^|i-j|."""
        phi = self.phi
        return (n + 2 * phi / (1 - phi) * (n - (1 - phi**n) / (1 - phi))) / n**2

    def with_whole_spread(self, baseline: Baseline) -> Baseline:
        """Return the baseline with variances corrected for sessions that are alike, whose own scatter is too small."""
        n = numpy.maximum(baseline.n, 2)
        shown = n * (1 - self.error_of_mean(n)) / (n - 1)
        return replace(baseline, variance=numpy.where(baseline.assumed, 1, 1 / shown) * baseline.variance)


@dataclass(frozen=True)
class Windows:
    """What each of `WINDOWS` shows of each series: arrays of windows x M.

    `loss` of performance as a logarithm, its standard `error` with `df` degrees of freedom, the number of `jobs`, and
    `p`, the chance that a healthy series looks as bad or worse; 1 where it has fewer sessions than the window.
    """

    loss: ndarray
    error: ndarray
    df: ndarray
    jobs: ndarray
    p: ndarray


def windows(baseline: Baseline, nights: Nights, likeness: Likeness, scale: float = 1.0) -> Windows:
    """Return Student's t of each window: the mean of its sessions against the baseline, `scale` widens tonight's alone.

    The mean of k jobs of a session has the variance v = rho + (1 - rho) / k in units of that of one session; sessions d
    apart have the covariance phi^d. With weights 1 / v the mean of a window has the variance V, and that of the
    baseline g: t = loss / sqrt(s^2 (V + g)). s^2 pools the baseline's variance with the squares within and between the
    sessions of the window, whose degrees of freedom add to its own.
    """
    rho, length = likeness.rho, nights.k.shape[1]
    apart = abs(numpy.subtract.outer(numpy.arange(length), numpy.arange(length)))
    covariance = numpy.where(apart, likeness.phi**apart, 0.0)
    precision = numpy.where(nights.k > 0, 1 / (rho + (1 - rho) / numpy.maximum(nights.k, 1)), 0.0)
    within = nights.squares / (1 - rho)
    sessions = (nights.k > 0).sum(axis=1)
    g = likeness.error_of_mean(baseline.n)
    rows = []
    for w in WINDOWS:
        tail = slice(-w, None)
        total = precision[:, tail].sum(axis=1)
        weight = precision[:, tail] / total[:, None]
        level = (weight * nights.mean[:, tail]).sum(axis=1)
        variance = 1 / total
        if likeness.phi:
            variance = variance + numpy.einsum('mi,ij,mj->m', weight, covariance[tail, tail], weight)
        between = (precision[:, tail] * (nights.mean[:, tail] - level[:, None]) ** 2).sum(axis=1)
        jobs = nights.k[:, tail].sum(axis=1)
        df = baseline.df + jobs - 1
        usual = baseline.df * baseline.variance * (scale**2 if w == 1 else 1)
        error = numpy.sqrt((usual + within[:, tail].sum(axis=1) + between) / df * (variance + g))
        loss = baseline.mean - level
        rows.append((loss, error, df, jobs, numpy.where(sessions >= w, chance(loss / error, df), 1.0)))
    return Windows(*map(numpy.array, zip(*rows, strict=True)))

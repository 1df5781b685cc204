# SPDX-License-Identifier: BSD-3-Clause
"""The jobs of M series in the last sessions, tests of stretches of sessions, and where a loss ended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import deviate
from postprocess.statistics.method import METHOD

FURTHER = METHOD.looks[-1]  # most further jobs of a case in a session
_STRETCHES = (1, 3, 8)  # lengths in sessions of losses that are searched for
#: Number k of normal values -> variance of the mean of their middle half / variance of one value (simulated).
_MIDDLE = {1: 1.0, 2: 0.5, 4: 0.298, 8: 0.149}


class Stretch(NamedTuple):
    """The test of some sessions in a row, for M series; the fields are arrays of length M.

    `z`: normal deviate of the mean loss, each session cut at 3 standard deviations. `loss`: mean loss without the cut,
    with its standard `error` and `df` degrees of freedom.
    """

    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray


@dataclass(frozen=True)
class Nights:
    """The last sessions of M series, tonight last: `jobs`, M x W x J values, NaN where no job ran.

    The first job of a session is an unselected sample; its result decides whether further jobs run. Sessions in which a
    series has no value are left out for this series, so a window counts only sessions with a value.
    """

    jobs: ndarray

    @classmethod
    def of(cls, jobs: ndarray) -> Nights:
        """Return the nights of `jobs`, M x sessions of the site x J."""
        most = METHOD.windows[-1] + 1
        if numpy.isfinite(jobs[:, -most:, 0]).all():
            return cls(jobs[:, -most:])
        order = numpy.argsort(numpy.isfinite(jobs[..., 0]), axis=1, kind='stable')[:, -most:]
        return cls(numpy.take_along_axis(jobs, order[..., None], axis=1))

    @property
    def first(self) -> ndarray:
        """The values of the first jobs, M x W."""
        return self.jobs[..., 0]

    @cached_property
    def k(self) -> ndarray:
        """The number of jobs of each session, M x W; 0 where a series has no such session."""
        return numpy.isfinite(self.jobs).sum(axis=-1)

    @cached_property
    def mean(self) -> ndarray:
        """The mean of the jobs of each session, M x W; 0 where no job ran."""
        return numpy.nansum(self.jobs, axis=-1) / numpy.maximum(self.k, 1)

    @cached_property
    def squares(self) -> ndarray:
        """The sum of squared deviations of the jobs of each session from their mean, M x W."""
        return numpy.nansum((self.jobs - self.mean[..., None]) ** 2, axis=-1)

    @cached_property
    def only_first(self) -> Nights:
        """The nights without tonight's further jobs."""
        jobs = self.jobs.copy()
        jobs[:, -1, 1:] = numpy.nan
        return Nights(jobs)


class Looks(NamedTuple):
    """What the first k further jobs of one session show, for each k of `METHOD.looks`: arrays of looks x M.

    `there`: True where k further jobs ran. `loss`: mean loss of the middle half of them, with its standard `error` and
    `df`. `squares`: sum of squares of the jobs about their mean / (1 - rho).
    """

    there: ndarray
    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray
    squares: ndarray


def looks(expected: Expected, jobs: ndarray) -> Looks:
    """Return what the further jobs of a session show; `jobs`: M x J, with the first job of the session in column 0."""
    baseline, rho = expected.baseline, expected.rho
    further = numpy.full((len(jobs), FURTHER), numpy.nan)
    further[:, : jobs.shape[1] - 1] = packed(jobs[:, 1:])
    rows = []
    for k in METHOD.looks:
        some = further[:, :k]
        there = numpy.isfinite(some[:, -1])
        some = numpy.where(there[:, None], some, 0.0)
        middle = numpy.sort(some, axis=1)[:, k // 4 : max(k - k // 4, 1)].mean(axis=1)
        squares = ((some - some.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / (1 - rho)
        v, loss = rho + (1 - rho) * _MIDDLE[k], baseline.mean - middle
        z = numpy.where(there, expected.deviate(loss, v, squares, k - 1), 0.0)
        rows.append((there, z, loss, expected.error(v, squares, k - 1), baseline.df + k - 1, squares))
    return Looks(*map(numpy.array, zip(*rows, strict=True)))


def packed(values: ndarray) -> ndarray:
    """Return M x J values with each row's NaN moved to the end."""
    there = numpy.isfinite(values)
    if (there[:, 1:] <= there[:, :-1]).all():
        return values
    return numpy.take_along_axis(values, numpy.argsort(~there, axis=1, kind='stable'), axis=1)


class Stretches:
    """The stretches of the last sessions, and the weight of each session."""

    def __init__(self, expected: Expected, nights: Nights):
        self.expected, self.nights = expected, nights
        baseline, rho = expected.baseline, expected.rho
        there = nights.k > 0
        #: a session of k jobs has the variance rho + (1 - rho) / k, in units of that of one job
        self.precision = numpy.where(there, 1 / (rho + (1 - rho) / numpy.maximum(nights.k, 1)), 0.0)
        self.loss = numpy.where(there, baseline.mean[:, None] - nights.mean, 0.0)
        most = METHOD.cut[0] * baseline.sd[:, None]
        self._cut = numpy.clip(self.loss, -most, most)
        self._within = nights.squares / (1 - rho)
        self._sessions = there.sum(axis=1)

    def of(self, begin: int, end: int) -> Stretch:
        """Return what the sessions in columns `begin` to `end` - 1 show; z is -inf for series that lack one of them."""
        part = slice(begin, end)
        total = self.precision[:, part].sum(axis=1)
        weight = self.precision[:, part] / numpy.maximum(total, 1e-9)[:, None]
        cut = (weight * self._cut[:, part]).sum(axis=1)
        v = 1 / numpy.maximum(total, 1e-9)
        if phi := self.expected.phi:  # sessions d apart have the covariance phi^d
            for d in range(1, min(end - begin, 6)):
                v = v + 2 * phi**d * (weight[:, d:] * weight[:, :-d]).sum(axis=1)
        squares = (self.precision[:, part] * (self._cut[:, part] - cut[:, None]) ** 2 + self._within[:, part]).sum(
            axis=1
        )
        more = numpy.maximum(self.nights.k[:, part].sum(axis=1) - 1, 0)
        whole = self._sessions >= self.loss.shape[1] - begin
        z = self.expected.deviate(cut, v, squares, more)
        # a mean of few skewed values is skewed: subtract the first term of Cornish and Fisher's expansion, halved,
        # because the cut has removed the other half already (by simulation)
        z = z - numpy.maximum(z**2 - 1, 0) * self.expected.skew / 12 / math.sqrt(end - begin)
        z = numpy.where(whole, z, -math.inf)
        loss = (weight * self.loss[:, part]).sum(axis=1)
        return Stretch(z, loss, self.expected.error(v, squares, more), self.expected.baseline.df + more)

    def begun(self, red: ndarray) -> ndarray:
        """Return how many of the last sessions come after the last loss that ended; all sessions if no loss ended.

        The loss was a stretch whose mean is red by itself, and the sessions after it are 20 times likelier without the
        loss than with it: the log likelihood ratio, the sum of loss (loss / 2 - session's loss) / variance, is above
        log 20. By Ville's inequality, that happens to a loss that still lasts with a chance of 1 in 20.
        """
        baseline, width = self.expected.baseline, self.loss.shape[1]
        sessions = numpy.full(len(red), width)
        losses = numpy.maximum(self.loss, -METHOD.cut[0] * baseline.sd[:, None])
        weight = self.precision[:, ::-1].cumsum(axis=1)[:, ::-1]
        total = (self.precision * losses)[:, ::-1].cumsum(axis=1)[:, ::-1]
        variance = math.log(METHOD.over) * baseline.variance
        for place in range(1, width):
            # a quick bound, the largest loss of a session before: only few series can have been red before this place
            worst = losses[:, max(place - _STRETCHES[-1], 0) : place].max(axis=1)
            rows = numpy.flatnonzero(worst * (worst / 2 * weight[:, place] - total[:, place]) > variance)
            if not len(rows):
                continue
            for length in (length for length in _STRETCHES if length <= place):
                before = self.of(place - length, place)
                ratio = before.loss * (before.loss / 2 * weight[:, place] - total[:, place])
                was_red = (deviate(before.loss / before.error, before.df) > red) & numpy.isfinite(before.z)
                sessions[was_red & (ratio > variance)] = width - place
        return sessions

    def since(self, window: ndarray) -> ndarray:
        """Return how many of the last `window` sessions of each series come after the largest change within the window.

        A change counts from 3.5 standard errors of the difference between the sessions before and after it. Without a
        change it is the whole window.
        """
        variance, width = self.expected.baseline.variance, self.loss.shape[1]
        sessions, best = window.copy(), numpy.full(len(window), 3.5)
        place = numpy.arange(width)
        weighted = self.precision * self.loss
        for length in range(1, width):
            after, before = place >= width - length, place >= width - window[:, None]
            before = before & ~after
            of_after = self.precision[:, after].sum(axis=1)
            of_before = (self.precision * before).sum(axis=1)
            known = (of_after > 0) & (of_before > 0)
            of_after, of_before = numpy.where(known, of_after, 1), numpy.where(known, of_before, 1)
            apart = weighted[:, after].sum(axis=1) / of_after - (weighted * before).sum(axis=1) / of_before
            z = numpy.where(known, abs(apart) / numpy.sqrt(variance * (1 / of_after + 1 / of_before)), 0.0)
            sessions = numpy.where(z > best, length, sessions)
            best = numpy.maximum(best, z)
        return sessions

    def windows(self, begun: ndarray) -> Iterator[tuple[int, Stretch]]:
        """Yield (length, stretch) of each window that ends tonight.

        z is -inf for a series whose loss is too small, or whose window begins before the last `begun` sessions.
        """
        width, least = self.loss.shape[1], METHOD.near * self.expected.baseline.floor
        for length in (length for length in METHOD.windows if length <= width):
            stretch = self.of(width - length, width)
            counts = (begun >= length) & (stretch.loss > least)
            yield length, stretch._replace(z=numpy.where(counts, stretch.z, -math.inf))

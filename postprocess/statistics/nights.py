# SPDX-License-Identifier: BSD-3-Clause
"""The jobs of M series in the last sessions, tests of stretches of sessions, and the end of a loss."""

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

FURTHER = METHOD.looks[-1]  # jobs of a case in a session beside the first
_STRETCHES = (1, 3, 8)  # lengths in sessions of losses that are searched for
#: Variance of the mean of the middle half of k normal values, in units of theirs (by simulation).
_MIDDLE = {1: 1.0, 2: 0.5, 4: 0.298, 8: 0.149}


class Stretch(NamedTuple):
    """The test of some sessions in a row, for M series: arrays of M.

    `z`: the normal deviate of their mean, each session cut at 3 standard deviations; `loss` without the cut, with its
    standard `error` and `df` degrees of freedom.
    """

    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray


@dataclass(frozen=True)
class Nights:
    """The last sessions of M series, tonight last: M x W x J values of `jobs`, not a number where there is none.

    The first job of a session is an unselected sample, the others ran because of it. A series' sessions without a value
    are left out, so that windows count sessions that have it.
    """

    jobs: ndarray

    @classmethod
    def of(cls, jobs: ndarray) -> Nights:
        """Return the nights of values whose columns are the sessions of the site."""
        most = METHOD.windows[-1] + 1
        if numpy.isfinite(jobs[:, -most:, 0]).all():
            return cls(jobs[:, -most:])
        order = numpy.argsort(numpy.isfinite(jobs[..., 0]), axis=1, kind='stable')[:, -most:]
        return cls(numpy.take_along_axis(jobs, order[..., None], axis=1))

    @property
    def first(self) -> ndarray:
        """The value of the first job, M x W."""
        return self.jobs[..., 0]

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
        return numpy.nansum((self.jobs - self.mean[..., None]) ** 2, axis=-1)

    @cached_property
    def only_first(self) -> Nights:
        """These nights without the further jobs of tonight."""
        jobs = self.jobs.copy()
        jobs[:, -1, 1:] = numpy.nan
        return Nights(jobs)


class Looks(NamedTuple):
    """What the first k further jobs of one session show, for each k of `METHOD.looks`: arrays of looks x M.

    `there`: whether so many ran. `loss`: that of the middle half of them, with its standard `error` and `df`; `squares`
    about their mean.
    """

    there: ndarray
    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray
    squares: ndarray


def looks(expected: Expected, jobs: ndarray) -> Looks:
    """Return what the further jobs of a session show; `jobs`: M x J, the first one of the session before them."""
    of, rho = expected.baseline, expected.rho
    further = numpy.full((len(jobs), FURTHER), numpy.nan)
    further[:, : jobs.shape[1] - 1] = packed(jobs[:, 1:])
    rows = []
    for k in METHOD.looks:
        some = further[:, :k]
        there = numpy.isfinite(some[:, -1])
        some = numpy.where(there[:, None], some, 0.0)
        middle = numpy.sort(some, axis=1)[:, k // 4 : max(k - k // 4, 1)].mean(axis=1)
        squares = ((some - some.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / (1 - rho)
        v, loss = rho + (1 - rho) * _MIDDLE[k], of.mean - middle
        z = numpy.where(there, expected.deviate(loss, v, squares, k - 1), 0.0)
        rows.append((there, z, loss, expected.error(v, squares, k - 1), of.df + k - 1, squares))
    return Looks(*map(numpy.array, zip(*rows, strict=True)))


def packed(values: ndarray) -> ndarray:
    """Return M x J values with the missing ones moved to the end of each row."""
    there = numpy.isfinite(values)
    if (there[:, 1:] <= there[:, :-1]).all():
        return values
    return numpy.take_along_axis(values, numpy.argsort(~there, axis=1, kind='stable'), axis=1)


class Stretches:
    """The stretches of the last sessions, with how much each session weighs."""

    def __init__(self, expected: Expected, nights: Nights):
        self.expected, self.nights = expected, nights
        of, rho = expected.baseline, expected.rho
        there = nights.k > 0
        #: a session of k jobs has the variance rho + (1 - rho) / k
        self.precision = numpy.where(there, 1 / (rho + (1 - rho) / numpy.maximum(nights.k, 1)), 0.0)
        self.loss = numpy.where(there, of.mean[:, None] - nights.mean, 0.0)
        most = METHOD.cut[0] * of.sd[:, None]
        self._cut = numpy.clip(self.loss, -most, most)
        self._within = nights.squares / (1 - rho)
        self._sessions = there.sum(axis=1)

    def of(self, begin: int, end: int) -> Stretch:
        """Return what the sessions from `begin` to before `end`, places of columns, show; z is -inf where one lacks."""
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
        # a mean of few skewed values is skewed: the first term of Cornish and Fisher's expansion, of which the cut has
        # taken half already (by simulation)
        z = z - numpy.maximum(z**2 - 1, 0) * self.expected.skew / 12 / math.sqrt(end - begin)
        z = numpy.where(whole, z, -math.inf)
        loss = (weight * self.loss[:, part]).sum(axis=1)
        return Stretch(z, loss, self.expected.error(v, squares, more), self.expected.baseline.df + more)

    def begun(self, red: ndarray) -> ndarray:
        """Return how many of the last sessions follow the last loss that is over; all where there is none.

        It was a stretch whose mean is red by itself, and the sessions after it are 20 to 1 likelier without its loss:
        their log likelihood ratio, the sum of loss (loss / 2 - theirs) / variance, is above log 20.
        By Ville's inequality that happens to a lasting loss with a chance of 1 in 20.
        """
        of, width = self.expected.baseline, self.loss.shape[1]
        sessions = numpy.full(len(red), width)
        losses = numpy.maximum(self.loss, -METHOD.cut[0] * of.sd[:, None])
        weight = self.precision[:, ::-1].cumsum(axis=1)[:, ::-1]
        total = (self.precision * losses)[:, ::-1].cumsum(axis=1)[:, ::-1]
        variance = math.log(METHOD.over) * of.variance
        for place in range(1, width):
            # the largest loss of a session before it, for few series can have been red then
            worst = losses[:, max(place - _STRETCHES[-1], 0) : place].max(axis=1)
            rows = numpy.flatnonzero(worst * (worst / 2 * weight[:, place] - total[:, place]) > variance)
            if not len(rows):
                continue
            for length in (length for length in _STRETCHES if length <= place):
                before = self.of(place - length, place)
                ratio = before.loss * (before.loss / 2 * weight[:, place] - total[:, place])
                was_red = (deviate(before.loss / before.error, before.df) > red) & numpy.isfinite(before.z)
                sessions = numpy.where(was_red & (ratio > variance), width - place, sessions)
        return sessions

    def since(self, window: ndarray) -> ndarray:
        """Return how many of the last `window` sessions of each series follow the largest change within them.

        A change counts from 3.5 standard errors of the difference between the sessions before and after it.
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
        """Yield each window that ends tonight; z is -inf where it reaches back before `begun` or shows too little."""
        width, least = self.loss.shape[1], METHOD.near * self.expected.baseline.floor
        for length in (length for length in METHOD.windows if length <= width):
            found = self.of(width - length, width)
            counts = (begun >= length) & (found.loss > least)
            yield length, found._replace(z=numpy.where(counts, found.z, -math.inf))

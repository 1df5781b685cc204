# SPDX-License-Identifier: BSD-3-Clause
"""Judge all series of a session together: which series lost performance, and which cases should run again.

First jobs raise doubts and further jobs decide: a number that raised a doubt never counts as evidence for the loss.
docs/method.md derives the steps, `METHOD` holds the constants, and `studies/worlds.py` measures how often the answer
is wrong. All values here are arrays over M series, in logarithms of performance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Baseline, Expected, expect, packed
from postprocess.statistics.distributions import (
    below_selected,
    deviate,
    false_discovery_rates,
    student,
    tail,
    upper,
    uppers,
)
from postprocess.statistics.further import FURTHER, SERIOUS, Budget, Doubts, More, further_jobs
from postprocess.statistics.groups import Groups, InCommon, judge_groups
from postprocess.statistics.method import METHOD
from postprocess.statistics.nodes import Slow, judge_nodes
from postprocess.statistics.pool import Pool
from postprocess.statistics.usual import beyond_usual

_TONIGHT, _LASTING, _ = (METHOD.false * share for share in METHOD.shares)
_MANY_CASES = 8  # fewest cases whose median is that of the site
_HERE = 2  # further jobs that decide whether a series lost on one node only
_DECIDE = METHOD.looks[-2:]  # further jobs that decide
_LEVEL = 3  # nights in a row at a low level of the baseline that are a loss
_SLOW = 3  # nights in a row that are a loss where single nights are often slow
_SURE = 4  # jobs of a session of which the mean has no tail of single slow jobs
_LARGE = -math.log1p(-METHOD.large[0])
#: Number k of normal values -> variance of the mean of their middle half / variance of one value (simulated).
_MIDDLE = {1: 1.0, 2: 0.5, 4: 0.298, 8: 0.149}


@dataclass(frozen=True)
class Answer:
    """The answer for M series; the fields are arrays of length M.

    `red`: lost performance. `waits`: in doubt, with too few further jobs to decide. `p`: the chance that a healthy
    series looks so bad; `q`: the same among all series. `loss`: logarithm, over the last `window` sessions, with the 95
    % interval `low` to `high`. `more`: the jobs that should run now. `left_out`: case in doubt that the budget leaves
    out -> largest loss of its first jobs.
    """

    red: ndarray
    improved: ndarray
    waits: ndarray
    p: ndarray
    q: ndarray
    window: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray
    common: InCommon
    slow: Slow
    more: list[More]
    left_out: dict[int, float]


def judge(
    baseline: Baseline, jobs: ndarray, pool: Pool, groups: Groups | None = None, budget: Budget | None = None
) -> Answer:
    """Judge the last session of `jobs`, M x W x J values, NaN where a job did not run.

    All series have the last session. `groups`: sets of series that are also judged together. `budget`: of
    further jobs, those of tonight that ran already included; None: none may run.
    """
    groups = groups or Groups()
    expected = expect(baseline, jobs)
    jobs, pool = beyond_usual(expected, jobs, pool)
    slow = judge_nodes(expected, jobs[:, -METHOD.nights :], _since(pool, jobs.shape[1] - METHOD.nights))
    tonight = numpy.where(slow.explained[:, None], math.nan, jobs[:, -1])
    of_most, least = _of_most(expected, jobs, pool), METHOD.near * float(numpy.median(baseline.floor))
    # a common change below the floor, such as a season, accuses no series
    weather = numpy.clip(of_most, 0.0, least)
    common = judge_groups(expected, groups, tonight, pool, len(set(groups.kinds)), float(weather[-1]))
    # what most of the site lost in nights before and no longer loses is no lasting loss of a series
    over = numpy.where((of_most > least) & (of_most[-1] < least), of_most, 0.0)
    left = numpy.where(over > 0, 0.0, weather)
    night = _SeriesTests(expected, jobs + over[:, None], pool, common, slow, left)
    more, left_out = further_jobs(night.doubts, slow, pool, jobs[:, -1], budget or Budget(0.0, 0.0))
    p, window, loss, below, above = night.told()
    q = numpy.minimum(p / expected.baseline.shares, 1.0)
    return Answer(
        red=night.red, improved=night.improved, waits=night.waits > 0, p=p, q=q, window=window, loss=loss,
        low=loss - below, high=loss + above, common=common, slow=slow, more=more, left_out=left_out,
    )  # fmt: skip


def _since(pool: Pool, begin: int) -> Pool:
    """Return the pool without the sessions before `begin`, which becomes the first one."""
    if begin <= 0:
        return pool
    ran = pool.ran[pool.ran[:, 0] >= begin] - [begin, 0, 0, 0]
    return replace(pool, ran=ran)


class _Looks(NamedTuple):
    """What the first k further jobs of tonight show, for each k of `METHOD.looks`: arrays of looks x M.

    `there`: True where k further jobs ran. `asked`: normal deviate of the loss against a reference that includes the
    first jobs, to be compared among the series that were asked. `z`: against the baseline, to be compared among all.
    `loss`: mean loss of the middle half of them, with its standard `error` and `df`.
    """

    there: ndarray
    asked: ndarray
    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray


def _looks(expected: Expected, jobs: ndarray) -> _Looks:
    """Return what the further jobs of tonight show; `jobs`: M x W x J, with the first job of each session in column 0.

    Of `asked` the reference includes the jobs that may have raised the doubt: the first jobs of the last sessions. Mean
    and variance are sufficient, and the choice of series is ancillary to them, so it is independent of this test
    (Basu's theorem): the test is corrected only for the number of series asked. A loss that lasts becomes part of that
    reference, so it is found against the baseline.
    """
    baseline, rho = expected.baseline, expected.rho
    further = numpy.full((len(jobs), FURTHER), numpy.nan)
    further[:, : jobs.shape[2] - 1] = packed(jobs[:, -1, 1:])
    recent = jobs[:, -METHOD.nights :, 0]
    most = METHOD.cut[0] * baseline.sd
    recent = numpy.clip(recent, (baseline.mean - most)[:, None], (baseline.mean + most)[:, None])
    n, more = 1 / expected.g, numpy.isfinite(recent).sum(axis=1)
    mean = (n * baseline.mean + numpy.nansum(recent, axis=1)) / (n + more)
    squares_of_first = numpy.nansum((recent - mean[:, None]) ** 2, axis=1) + n * (baseline.mean - mean) ** 2
    # a night shifts all its jobs alike: the expected shift is rho times the deviation of the first job
    usual = mean + rho * (jobs[:, -1, 0] - mean)
    rows = []
    for k in METHOD.looks:
        some = further[:, :k]
        there = numpy.isfinite(some[:, -1])
        some = numpy.where(there[:, None], some, 0.0)
        middle = numpy.sort(some, axis=1)[:, k // 4 : max(k - k // 4, 1)].mean(axis=1)
        squares = ((some - some.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / (1 - rho)
        df = baseline.df + more + k - 1
        v = rho * (1 - rho) + (1 - rho) * _MIDDLE[k] + 1 / (n + more)
        error = numpy.sqrt((baseline.df * baseline.variance + squares_of_first + squares) / df * v)
        asked = numpy.where(there, deviate((usual - middle) / error, df), 0.0)
        told, loss, df = expected.error(rho + (1 - rho) * _MIDDLE[k], squares, k - 1), baseline.mean - middle, df - more
        rows.append((there, asked, numpy.where(there, deviate(loss / told, df), 0.0), loss, told, df))
    return _Looks(*map(numpy.array, zip(*rows, strict=True)))


def _of_most(expected: Expected, jobs: ndarray, pool: Pool) -> ndarray:
    """Return the loss of most cases in each of W sessions, as logarithm.

    0 in a session of few cases, or of less than half of those of tonight.
    """
    first, one = expected.baseline.mean[:, None] - jobs[..., 0], numpy.ones(len(jobs))
    count = numpy.isfinite(pool.by_case(first, one)).sum(axis=0)
    # a case counts once, however many nodes it ran on
    losses = replace(pool, case=pool.alike[pool.case]).by_case(first, one)
    known = (count >= _MANY_CASES) & (2 * count >= count[-1])
    of_most = numpy.zeros(losses.shape[1])
    of_most[known] = numpy.nanmedian(losses[:, known], axis=0)
    return of_most


class _Window(NamedTuple):
    """The mean loss over the last `length` sessions, with its standard `error` and `df`: arrays of M.

    `z`: normal deviate, each session cut at 3 standard deviations; -inf where the window shows no lasting loss.
    """

    length: int | ndarray
    z: ndarray
    loss: ndarray
    error: ndarray
    df: ndarray


def _windows(expected: Expected, jobs: ndarray, weather: ndarray) -> Iterator[_Window]:
    """Yield the windows that end tonight; `jobs`: M x W x J; `weather`: W.

    Sessions in which a series has no value do not count for it. A loss lasts if tonight shows half of the mean loss, so
    a window does not reach back over a loss that is over.
    """
    baseline, rho = expected.baseline, expected.rho
    # where further jobs ran, the first one, which asked for them, is no evidence
    further = numpy.isfinite(jobs[..., 1:]).sum(axis=2)
    k = numpy.where(further > 0, further, numpy.isfinite(jobs[..., 0]))
    mean = numpy.where(further > 0, numpy.nansum(jobs[..., 1:], axis=2) / numpy.maximum(k, 1), jobs[..., 0])
    last = numpy.argsort(k > 0, axis=1, kind='stable')[:, -METHOD.windows[-1] :]
    k, mean = numpy.take_along_axis(k, last, axis=1), numpy.take_along_axis(mean, last, axis=1)
    losses = baseline.mean[:, None] - mean
    above = losses - weather[last]
    # what several jobs show is no tail
    most = METHOD.cut[0] * baseline.sd[:, None] * numpy.where(k > _SURE, 2, 1)
    tonight = numpy.minimum(losses[:, -1], baseline.mean - jobs[:, -1, 0])
    # a session of k jobs has the variance rho + (1 - rho) / k, in units of that of one job
    precision = 1 / (rho + (1 - rho) / numpy.maximum(k, 1))
    for length in (length for length in METHOD.windows if length <= losses.shape[1]):
        own, part = precision[:, -length:], losses[:, -length:]
        total = own.sum(axis=1)
        bound = most[:, -length:]
        cut = (own * numpy.clip(above[:, -length:], -bound, bound)).sum(axis=1) / total
        v = 1 / total
        for d in range(1, min(length, 6)) if expected.phi else ():  # sessions d apart have the covariance phi^d
            v = v + 2 * expected.phi**d * (own[:, d:] * own[:, :-d]).sum(axis=1) / total**2
        loss = (own * part).sum(axis=1) / total
        squares = (own * (part - loss[:, None]) ** 2).sum(axis=1)
        lasts = (
            (k[:, -length] > 0)
            & ((own * above[:, -length:]).sum(axis=1) / total > METHOD.near * baseline.floor)
            & (tonight > loss / 2)
        )
        z = numpy.where(lasts, expected.deviate(cut, v, squares, length - 1), -math.inf)
        yield _Window(length, z, loss, expected.error(v, squares, length - 1), baseline.df + length - 1)


class _SeriesTests:
    """The tests of single series: arrays of M.

    `z1`: normal deviate of the first job. `asked`: in doubt. `waits`: number of further jobs that are still wanted.
    `last`: index in `METHOD.looks` of the last test, or -1. `tonight`: lost by tonight's further jobs. `lasting`: lost
    over `window`; `over`: also if it is explained. `of_group`: lost together with others, or on a slow node. `there`:
    lost on the node of its first job only. `red`: any of these four. `large`: a loss that counts where the baseline is
    short, infinite elsewhere. `urgent`: loss from which on further jobs wait for no budget.
    """

    def __init__(self, expected: Expected, jobs: ndarray, pool: Pool, common: InCommon, slow: Slow, weather: ndarray):
        self.expected, self.pool, self.slow = expected, pool, slow
        of = self.of = expected.baseline
        self.least = METHOD.near * of.floor
        self.first_loss = of.mean - jobs[:, -1, 0]
        self.z1 = expected.deviate(self.first_loss, 1.0)
        few = of.n < METHOD.short
        self.large = numpy.where(few, numpy.maximum(_LARGE, METHOD.large[1] * of.sd), math.inf)
        self.urgent = numpy.minimum(self.large, of.cap)
        self.explained = slow.explained | common.explained
        self.weather = float(weather[-1])
        first_only = jobs.copy()
        first_only[:, -1, 1:] = numpy.nan
        self.red_at = uppers(_TONIGHT / 4 * of.shares)
        self.lasting_at = uppers(_LASTING / len(METHOD.windows) * of.shares)
        recent = expected.is_at_level(jobs[:, -_LEVEL:, 0])
        # a level of the baseline is no loss, unless it lasts
        at_level = recent[:, -1] & ~(recent.all(axis=1) & (recent.shape[1] == _LEVEL))
        early = list(_windows(expected, first_only, weather))
        self.doubt = self._doubt(early)
        known, _ = self._lasting(early)
        self.asked = (common.asks | (self.doubt > upper(METHOD.doubt))) & ~self.explained & ~known & ~at_level
        self.looks = _looks(expected, jobs)
        self.tonight, self.waits, self.last = self._decide()
        self.tonight = (self.tonight | self._alone()) & (self.first_loss > expected.usually_slow * of.sd)
        self.over, self.window = self._lasting(list(_windows(expected, jobs, weather)))
        self.waits = numpy.where(self.over, 0, self.waits)
        self.lasting = self.over & ~self.explained & ~at_level
        # a group or node that lost confirms the loss of each of its series that is in doubt
        self.of_group = self.explained & (self.doubt > upper(METHOD.doubt))
        self.there, self.loss_there, self.wants_there = self._on_its_node(pool.nodes_of(jobs.shape[1] - 1))
        self.red = self.tonight | self.lasting | self.of_group | self.there
        mirrored = replace(expected, baseline=replace(of, mean=-of.mean))
        better = (-self.z1 > self.red_at) & (-self.first_loss > of.floor)
        for window in _windows(mirrored, -jobs, numpy.zeros(jobs.shape[1])):
            better |= window.z > self.lasting_at
        self.improved = better & ~self.red

    def _doubt(self, windows: list[_Window]) -> ndarray:
        """Return the doubt about each series as a normal deviate: the larger of the first job's and the windows'."""
        z1 = self.expected.deviate(self.first_loss - self.weather, 1.0)
        doubt = numpy.where(self.first_loss > self.least, z1, -math.inf)
        for window in windows:
            doubt = numpy.maximum(doubt, window.z)
        doubt = numpy.where(self.first_loss > self.urgent, numpy.maximum(doubt, SERIOUS), doubt)
        # a curve of k points is in doubt k times as often, so z^2 falls by 2 ln k
        return numpy.where(doubt > 0, numpy.sqrt(numpy.maximum(doubt**2 + 2 * numpy.log(self.of.weight), 0)), doubt)

    def _decide(self) -> tuple[ndarray, ndarray, ndarray]:
        """Return which series lost, the further jobs that each one still needs, and the place of its last test."""
        shown, asked, of = self.looks, self.asked, self.of
        ran = float((of.weight * (asked & shown.there[0])).sum())  # what the budget left out is not tested
        among = {FURTHER: upper(_TONIGHT / 2 / max(ran, 1.0))}
        alive, sure = asked.copy(), numpy.zeros(len(asked), bool)
        waits, last = numpy.zeros(len(asked), int), numpy.full(len(asked), -1)
        for place, k in enumerate(METHOD.looks):
            there, z, loss = shown.there[place], shown.z[place], shown.loss[place]
            waits[alive & ~there & (waits == 0)] = k
            looked = alive & there
            last[looked] = place
            lost = (z > self.red_at) | ((loss > self.large) & (z > upper(METHOD.large[2])))
            lost = lost & (k in _DECIDE) | (shown.asked[place] > among.get(k, math.inf))
            lost &= loss - self.weather > self.least
            sure |= looked & (lost | (loss > of.cap))
            goes_on = (shown.asked[place] > upper(METHOD.go_on)) | ((z > upper(METHOD.go_on)) & (self.doubt > SERIOUS))
            alive = looked & ~sure & goes_on & (loss > 0.4 * of.floor)
        return sure, waits, last

    def _alone(self) -> ndarray:
        """Return which series lost although too few further jobs ran: they are far worse than any single job here."""
        shown = numpy.where(
            self.last < 0, math.inf, self.looks.z[numpy.maximum(self.last, 0), numpy.arange(len(self.last))]
        )
        undecided = self.asked & (self.waits > 0) & (shown > upper(METHOD.go_on))
        # no further job contradicts the loss, so decide over all series by Benjamini and Hochberg's method
        p = tail(self.z1) / self.of.shares / len(self.z1)
        beyond = (false_discovery_rates(p) < _TONIGHT / 4) & (self.z1 > self.expected.worst + 1)
        # else nobody knows how far single jobs are
        beyond &= (self.of.n >= METHOD.short) | (self.expected.worst > 0) | (self.first_loss > self.large)
        return undecided & (beyond & (self.first_loss > self.least) | (self.first_loss > self.of.cap))

    def _on_its_node(self, nodes: dict[int, tuple[int, ...]]) -> tuple[ndarray, ndarray, ndarray]:
        """Return which series lost more on the node of their first job, how much, and the jobs wanted on that node.

        Applies to series that are red by their first job, even beside what jobs on other nodes lost: `judge_nodes`
        needs several cases. Two further jobs on the first node decide; each must be red by itself, beside the same.
        """
        own = numpy.array([nodes[case][0] if len(nodes.get(case, ())) == 1 else -1 for case in self.pool.case.tolist()])
        rows, last = numpy.arange(len(own)), numpy.maximum(self.last, 0)
        elsewhere = numpy.where(self.tonight & (self.last >= 0), self.looks.loss[last, rows], 0.0)
        beside = self.expected.deviate(self.first_loss - elsewhere, 1.0)
        far = self.asked & (beside > numpy.maximum(self.red_at, self.expected.worst)) & (own >= 0)
        far &= (self.last >= 0) & (self.waits == 0) & (self.first_loss - elsewhere > self.least)
        ran = [numpy.where(own == job.nodes[0], job.values, math.nan) for job in self.pool.jobs if len(job.nodes) == 1]
        values = numpy.array([numpy.full(len(far), math.nan), *ran])
        count = numpy.isfinite(values).sum(axis=0)
        least = numpy.nan_to_num(self.of.mean - numpy.fmax.reduce(values, axis=0))
        loss = self.of.mean - numpy.nansum(values, axis=0) / numpy.maximum(count, 1)
        lost = far & (count >= _HERE) & (self.expected.deviate(least - elsewhere, 1.0) > self.red_at)
        lost &= loss - elsewhere > self.least
        return lost, loss, numpy.where(far & (count < _HERE), _HERE - count, 0)

    def _lasting(self, windows: list[_Window]) -> tuple[ndarray, _Window]:
        """Return which series lost over a window, and for each series the shortest such window."""
        m = len(self.of.mean)
        lost, best = numpy.zeros(m, bool), [numpy.ones(m, int), *numpy.zeros((4, m))]
        for window in windows:
            if self.expected.usually_slow and window.length < _SLOW:
                continue
            first = (window.z > self.lasting_at) & ~lost
            lost |= first
            best = [numpy.where(first, new, old) for new, old in zip(window, best, strict=True)]
        return lost, _Window(*best)

    @property
    def doubts(self) -> Doubts:
        """What the series ask for; one that is worse than all baselines, or urgent, waits for no budget."""
        beyond = self.z1 > max(self.expected.worst + 1, 5.0)
        strong = self.asked & (beyond | (self.first_loss > self.urgent))
        return Doubts(self.asked, self.doubt, self.first_loss, self.waits, self.wants_there, strong)

    def told(self) -> tuple[ndarray, ndarray, ndarray, ndarray, ndarray]:
        """Return p, number of sessions, loss, and how far its 95 % interval reaches below and above the loss.

        The numbers are from tonight's further jobs, unless none ran or only a window decided; else from the shortest
        red window; else from the first job. The interval of a red loss takes into account that only large losses are
        reported.
        """
        of, rows = self.of, numpy.arange(len(self.red))
        z, loss = self.z1, self.first_loss
        error, df = self.expected.error(1.0), of.df
        # further jobs of a case avoid the slow node of its first one
        ran = self.looks.there.any(axis=0) & (self.tonight | ~self.over) & ~self.slow.explained
        by_window = self.over & ~ran
        place = numpy.maximum(self.looks.there.sum(axis=0) - 1, 0)  # all jobs that ran, not only those that decided
        jobs = (column[place, rows] for column in self.looks[2:])
        for chosen, source in (ran, jobs), (by_window, self.window[1:]):
            z, loss, error, df = (
                numpy.where(chosen, new, old) for new, old in zip(source, (z, loss, error, df), strict=True)
            )
        v = self.expected.rho + (1 - self.expected.rho) / _HERE
        there = self.expected.deviate(self.loss_there, v), self.loss_there, self.expected.error(v), of.df
        z, loss, error, df = (
            numpy.where(self.there, new, old) for new, old in zip(there, (z, loss, error, df), strict=True)
        )
        window = numpy.where(by_window & ~self.there, self.window.length, 1)
        bar = numpy.where(by_window, self.lasting_at, numpy.where(self.of_group, upper(METHOD.doubt), self.red_at))
        is_told = by_window | self.tonight | self.there | self.of_group
        below = below_selected(deviate(loss / error, df), numpy.where(is_told, bar, -math.inf))
        half = student(1.96, df) * error
        # a loss below the floor never counts
        lower = numpy.maximum(numpy.minimum(loss - half, self.least), loss - student(below, df) * error)
        return tail(z), window, loss, loss - lower, half

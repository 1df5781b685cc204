# SPDX-License-Identifier: BSD-3-Clause
"""Judge all series of a session together: which series lost performance, and which cases should run again.

First jobs raise doubts and further jobs decide: a number that raised a doubt never counts as evidence for the loss.
docs/verdicts.md derives the steps, `METHOD` holds the constants, and `studies/worlds.py` measures how often the answer
is wrong. All values here are arrays over M series, in logarithms of performance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Baseline, Expected, expect
from postprocess.statistics.distributions import (
    below_selected,
    deviate,
    false_discovery_rates,
    student,
    tail,
    upper,
    uppers,
)
from postprocess.statistics.groups import Groups, InCommon, judge_groups
from postprocess.statistics.method import METHOD
from postprocess.statistics.nights import Looks, Nights, Stretch, Stretches, looks
from postprocess.statistics.nodes import Pool, Slow, judge_nodes

_TONIGHT, _LASTING, _ = (METHOD.false * share for share in METHOD.shares)
_HERE = 2  # further jobs that decide whether a series lost on one node only
#: Mean number of further jobs of a case that turns out to be healthy.
A_CASE = 2.0
_AT_MOST = 1.4  # most further jobs of a night / budget, on a night when many cases are not cleared soon
#: The smallest budget of a site, however few its cases: one case can run the four further jobs that decide.
ONE_CASE = 4 / _AT_MOST
_SURE = 3.0  # normal deviate of the further jobs of a case above which more of them run regardless of the budget
_LARGE = -math.log1p(-METHOD.large[0])


class More(NamedTuple):
    """Further jobs of a case: on the node `on`; if `on` is -1, on any node except those in `avoid`."""

    case: int
    jobs: int
    on: int = -1
    avoid: tuple[int, ...] = ()


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


def judge(baseline: Baseline, jobs: ndarray, pool: Pool, groups: Groups | None = None, budget: float = 0.0) -> Answer:
    """Judge the last session of `jobs`, M x W x J values, NaN where a job did not run.

    All series have the last session. `groups`: sets of series that are also judged together. `budget`: number of
    further jobs that may run tonight for cases that turn out to be healthy.
    """
    groups = groups or Groups()
    expected = expect(baseline, jobs[..., 0])
    nights = Nights.of(jobs)
    kinds = len(set(groups.kinds)) + (pool.nodes > 1)
    # on a healthy night, groups and nodes ask on average for at most half of the budget
    of_groups, of_nodes = (math.prod(asking) for asking in (METHOD.group, METHOD.node))
    usual = 2 * of_groups * len(set(groups.kinds)) + of_nodes * (pool.nodes > 1)
    asks = min(budget / 2 / max(usual, 1e-9), 1.0)
    slow = judge_nodes(expected, nights.first[:, -1], pool, kinds, asks)
    night = _Night(expected, nights, pool, slow)
    common = judge_groups(
        expected, groups, jobs[:, -METHOD.windows[-1] :], pool.case, night.red, pool.order, kinds, asks
    )
    more, left_out = _more(night, common, budget)
    p, window, loss, below, above = night.told()
    q = numpy.minimum(p / expected.baseline.shares, 1.0)
    return Answer(
        red=night.red, improved=night.improved(), waits=night.waits > 0, p=p, q=q, window=window, loss=loss,
        low=loss - below, high=loss + above, common=common, slow=slow, more=more, left_out=left_out,
    )  # fmt: skip


class _Night:
    """The tests of single series: arrays of M.

    `asked`: in doubt. `waits`: number of further jobs that are still wanted. `last`: index in `METHOD.looks` of the
    last test, or -1. `tonight`, `lasting`, `there`: lost by tonight's further jobs, over a window, or only on the node
    of the first job. `red`: any of these three.
    """

    def __init__(self, expected: Expected, nights: Nights, pool: Pool, slow: Slow):
        self.expected, self.nights, self.pool, self.slow = expected, nights, pool, slow
        of = self.of = expected.baseline
        self.first_loss = of.mean - nights.first[:, -1]
        self.z1 = expected.deviate(self.first_loss, 1.0)
        self.red_at = uppers(_TONIGHT / 4 * of.shares)
        self.lasting_at = uppers(_LASTING / len(METHOD.windows) * of.shares)
        at_level = expected.is_at_level(nights.first[:, -3:])
        self.at_level = at_level[:, -1] & ~(at_level.all(axis=1) & (at_level.shape[1] == 3))
        self.is_large = (of.n < METHOD.short) & (self.first_loss > numpy.maximum(_LARGE, METHOD.large[1] * of.sd))
        before = Stretches(expected, nights.only_first)
        self.begun = before.begun(self.red_at)
        self.early = list(before.windows(self.begun))
        self.suspicion, self.doubt = self._doubt(self.z1), self._doubt(expected.usual(self.z1))
        node = pool.node[pool.case]
        on_slow = numpy.isin(node, list(slow.loss)) & (node >= 0)  # the slow node explains the loss of the series
        #: cases whose node is in doubt wait until other cases have run on that node
        self.on_hold = numpy.isin(pool.node, list(slow.wanted)) & (pool.node >= 0)
        lasts = self._lasting(self.early)[0]
        self.asked = (self.suspicion > upper(METHOD.doubt)) & ~on_slow & ~lasts & ~self.at_level
        self.looks = looks(expected, nights.jobs[:, -1])
        sure, self.waits, self.last = self._decide(self.looks, self.asked)
        sure |= self._alone()
        full = Stretches(expected, nights)
        self.tonight = sure & ~self.at_level & self._agreed(sure)
        self.lasting, window, self.stretch = self._lasting(list(full.windows(self.begun)))
        self.lasting &= ~on_slow & ~self.at_level
        self.window, width = full.since(window), full.loss.shape[1]
        for sessions in set(self.window[self.window < window].tolist()):
            shorter = full.of(width - sessions, width)
            is_it = (self.window == sessions) & (sessions < window)
            self.stretch = Stretch(*(numpy.where(is_it, a, b) for a, b in zip(shorter, self.stretch, strict=True)))
        self.there, self.loss_there, self.wants_there = self._on_its_node(node)
        self.red = self.tonight | self.lasting | self.there

    def _doubt(self, z1: ndarray) -> ndarray:
        """Return the doubt about each series as a normal deviate: the larger of `z1` and that of the windows."""
        least = METHOD.near * self.of.floor
        doubt = numpy.where(self.first_loss > least, z1, -math.inf)
        for _, stretch in self.early:
            doubt = numpy.maximum(doubt, numpy.where(self.z1 > 0.5, stretch.z, -math.inf) - 0.3)
        doubt = numpy.where(self.is_large | (self.first_loss > self.of.cap), numpy.maximum(doubt, 3.0), doubt)
        # a curve of k points is in doubt k times as often, so z^2 falls by 2 ln k
        return numpy.where(doubt > 0, numpy.sqrt(numpy.maximum(doubt**2 + 2 * numpy.log(self.of.weight), 0)), doubt)

    @property
    def surest(self) -> ndarray:
        """The largest normal deviate of a loss in the further jobs of each case; -inf if no further job ran."""
        rows = numpy.arange(len(self.last))
        z = numpy.where(self.asked & (self.last >= 0), self.looks.z[numpy.maximum(self.last, 0), rows], -math.inf)
        largest = numpy.full(self.pool.cases, -math.inf)
        numpy.maximum.at(largest, self.pool.case, z)
        return largest

    @property
    def strong(self) -> ndarray:
        """True for each series that needs no budget: it is worse than any value of the baselines of the site."""
        factor = METHOD.worst if self.expected.lasting else 1.0  # further jobs of one night are then weaker evidence
        beyond = self.z1 > max(factor * self.expected.worst + 1, METHOD.slow[0])
        return beyond | self.is_large | (self.first_loss > self.of.cap)

    def _decide(self, shown: Looks, asked: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Return which series of `asked` lost, the further jobs that each needs, and the place of its last test."""
        baseline, least = self.of, METHOD.near * self.of.floor
        alive, sure = asked.copy(), numpy.zeros(len(asked), bool)
        waits, last = numpy.zeros(len(asked), int), numpy.full(len(asked), -1)
        together = self._with_what_asked(shown, asked)
        for place, k in enumerate(METHOD.looks):
            there, z, loss = shown.there[place], shown.z[place], shown.loss[place]
            waits[alive & ~there & (waits == 0)] = k
            looked = alive & there
            last[looked] = place
            if k >= 4:
                lost = (z > self.red_at) & (loss > least)
                if k == METHOD.looks[-1]:
                    lost |= together & (loss > least)
                size = numpy.maximum(_LARGE, METHOD.large[1] * baseline.sd)
                lost |= (baseline.n < METHOD.short) & (loss > size) & (z > upper(METHOD.large[2]))
                sure |= looked & lost
            sure |= looked & (loss > baseline.cap)
            alive = looked & ~sure & (z > upper(METHOD.go_on)) & (loss > 0.4 * baseline.floor)
        return sure, waits, last

    def _with_what_asked(self, shown: Looks, asked: ndarray) -> ndarray:
        """Return which series lost by eight further jobs, against a reference that includes the first jobs.

        Mean and variance are sufficient, and the choice of series is ancillary to them. So the choice is independent of
        this test (Basu's theorem), and the test is corrected only for the number of series asked.
        """
        baseline, first = self.of, self.nights.first
        width = first.shape[1]
        recent = (numpy.arange(width) >= width - self.begun[:, None]) & numpy.isfinite(first)
        n, more = 1 / self.expected.g, recent.sum(axis=1)
        values = numpy.where(recent, first, 0.0)
        mean = (n * baseline.mean + values.sum(axis=1)) / (n + more)
        squares = numpy.where(recent, (first - mean[:, None]) ** 2, 0.0).sum(axis=1)
        df = baseline.df + more
        variance = (baseline.df * baseline.variance + n * (baseline.mean - mean) ** 2 + squares) / df
        k, rho = METHOD.looks[-1], self.expected.rho
        # a night shifts all its jobs alike: the expected shift is rho times the deviation of the first job
        usual = mean + rho * (first[:, -1] - mean)
        v = rho * (1 - rho) + (1 - rho) * 0.149 + 1 / (n + more)
        error = numpy.sqrt((df * variance + shown.squares[-1]) / (df + k - 1) * v)
        z = deviate((usual - baseline.mean + shown.loss[-1]) / error, df + k - 1)
        return shown.there[-1] & (z > upper(_TONIGHT / 2 / max(float((baseline.weight * asked).sum()), 1.0)))

    def _alone(self) -> ndarray:
        """Return which series lost although too few further jobs ran: they are far worse than any single job here."""
        shown = numpy.where(
            self.last < 0, math.inf, self.looks.z[numpy.maximum(self.last, 0), numpy.arange(len(self.last))]
        )
        undecided = self.asked & (self.waits > 0) & (shown > upper(METHOD.go_on))
        # no further job contradicts the loss, so decide over all series by Benjamini and Hochberg's method
        p = tail(self.z1) / self.of.shares / len(self.z1)
        beyond = (false_discovery_rates(p) < _TONIGHT / 4) & (self.z1 > self.expected.worst + 1)
        beyond &= self.first_loss > METHOD.near * self.of.floor
        return undecided & (beyond | (self.first_loss > self.of.cap))

    def _on_its_node(self, node: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Return which series lost only on the node of their first job, how much, and the jobs wanted on that node.

        Applies to series that are red by their first job and cleared by jobs on other nodes. Two further jobs on the
        first node decide; each must be red by itself. Usual differences between nodes are smaller, and three slow jobs
        in a row are unlikely by chance.
        """
        by_chance = uppers(numpy.cbrt(_TONIGHT / 4 * self.of.shares))
        far = self.asked & (self.z1 > self.red_at) & (self.expected.usual(self.z1) > by_chance) & (node >= 0)
        far &= (self.last >= 0) & (self.waits == 0) & ~self.tonight
        ran = [job.values for job in self.pool.jobs if job.node == self.pool.node[job.case]]
        values = numpy.array([numpy.full(len(far), numpy.nan), *ran])
        count = numpy.isfinite(values).sum(axis=0)
        least = numpy.nan_to_num(self.of.mean - numpy.fmax.reduce(values, axis=0))
        lost = far & (count >= _HERE) & (self.expected.deviate(least, 1.0) > self.red_at)
        # the reported loss is the mean of the two jobs, as for other further jobs
        loss = self.of.mean - numpy.nansum(values, axis=0) / numpy.maximum(count, 1)
        return lost, loss, numpy.where(far & (count < _HERE), _HERE - count, 0)

    def _agreed(self, sure: ndarray) -> ndarray:
        """Return which losses are confirmed by enough sessions in a row.

        One session is enough, unless slow sessions of this site last into further jobs and the loss is as small as
        theirs.
        """
        if not self.expected.lasting:
            return numpy.ones(len(sure), bool)
        chance = min(1.4 * self.expected.lasting, 0.2)
        needed = math.ceil(math.log(_TONIGHT / len(sure)) / math.log(chance))
        agreed, place = sure.copy(), self.nights.jobs.shape[1] - 1
        for _ in range(needed - 1):
            place -= 1
            if place < 0:
                agreed[:] = False
                break
            shown = looks(self.expected, self.nights.jobs[:, place])
            agreed &= self._decide(shown, numpy.ones(len(sure), bool))[0]
        return agreed | (self.first_loss > METHOD.worst * self.expected.worst * self.of.sd)

    def _lasting(self, windows: list[tuple[int, Stretch]]) -> tuple[ndarray, ndarray, Stretch]:
        """Return which series lost over a window of sessions and in tonight's first job.

        Return also the length in sessions of the shortest such window of each series, and the loss in that window.
        """
        m = len(self.red_at)
        length, lost = numpy.zeros(m, int), numpy.zeros(m, bool)
        best = Stretch(numpy.full(m, -math.inf), numpy.zeros(m), numpy.ones(m), numpy.ones(m))
        for sessions, stretch in windows:
            if self.expected.lasting and sessions < 4:
                continue
            is_red = (stretch.z > self.lasting_at) & (self.z1 > upper(METHOD.shown))
            first = is_red & ~lost
            lost |= is_red
            length[first] = sessions
            best = Stretch(*(numpy.where(first, new, old) for new, old in zip(stretch, best, strict=True)))
        return lost, length, best

    def told(self) -> tuple[ndarray, ndarray, ndarray, ndarray, ndarray]:
        """Return p, number of sessions, loss, and how far its 95 % interval reaches below and above the loss.

        The numbers are from tonight's further jobs, unless none ran or only a window decided; else from the shortest
        red window; else from the first job. The interval of a red loss takes into account that only large losses are
        reported.
        """
        baseline, rows = self.of, numpy.arange(len(self.red))
        z, loss = self.z1, self.first_loss
        window: ndarray = numpy.ones(len(rows), int)
        error, df = self.expected.error(1.0), baseline.df
        ran = (self.last >= 0) & (self.tonight | ~self.lasting)
        by_window = self.lasting & ~ran
        place = numpy.maximum(self.looks.there.sum(axis=0) - 1, 0)  # all jobs that ran, not only those that decided
        for chosen, source, length in (
            (ran, (self.looks.z[place, rows], self.looks.loss[place, rows], self.looks.error[place, rows],
                   self.looks.df[place, rows]), 1),
            (by_window, self.stretch, self.window),
        ):  # fmt: skip
            z, loss, error, df = (
                numpy.where(chosen, new, old) for new, old in zip(source, (z, loss, error, df), strict=True)
            )
            window = numpy.where(chosen, length, window)
        v = self.expected.rho + (1 - self.expected.rho) / _HERE
        there = self.expected.deviate(self.loss_there, v), self.loss_there, self.expected.error(v), baseline.df
        z, loss, error, df = (
            numpy.where(self.there, new, old) for new, old in zip(there, (z, loss, error, df), strict=True)
        )
        bar = numpy.where(by_window, self.lasting_at, self.red_at)
        is_told = by_window | (ran & self.tonight)
        below = below_selected(deviate(loss / error, df), numpy.where(is_told, bar, -math.inf))
        least = METHOD.near * baseline.floor  # a smaller loss never counts
        half = student(1.96, df) * error
        lower = numpy.maximum(numpy.minimum(loss - half, least), loss - student(below, df) * error)
        return tail(z), window, loss, loss - lower, half

    def improved(self) -> ndarray:
        """Return which series are better than the baseline, tonight or over a window."""
        better = (-self.z1 > self.red_at) & (-self.first_loss > self.of.floor)
        full = Stretches(self.expected, self.nights)
        width = self.nights.jobs.shape[1]
        for length in (length for length in METHOD.windows if length <= width):
            stretch = full.of(width - length, width)
            better |= (-stretch.z > self.lasting_at) & (-stretch.loss > self.of.floor) & numpy.isfinite(stretch.z)
        return better & ~self.red


def _more(night: _Night, common: InCommon, budget: float) -> tuple[list[More], dict[int, float]]:
    """Return the jobs that should run now, and the cases in doubt that the budget leaves out, each with its loss.

    Nodes and groups in doubt come first, then cases, the largest doubt first. Jobs of healthy and of undecided cases
    use the budget; jobs of confirmed losses do not.
    """
    pool, cases = night.pool, night.pool.cases
    ran = numpy.zeros(cases, int)
    numpy.maximum.at(ran, pool.case, night.nights.k[:, -1] - 1)
    worst, wanted = numpy.full(cases, -math.inf), numpy.zeros(cases, int)
    numpy.maximum.at(worst, pool.case, numpy.where(night.asked, night.doubt, -math.inf))
    numpy.maximum.at(wanted, pool.case, numpy.where(night.asked, night.waits, 0))
    confirmed, strong = numpy.zeros(cases, bool), numpy.zeros(cases, bool)
    numpy.logical_or.at(confirmed, pool.case, night.tonight)
    numpy.logical_or.at(strong, pool.case, night.asked & night.strong)
    avoid = tuple(sorted({*night.slow.wanted, *night.slow.loss}))

    def elsewhere(case: int, jobs: int) -> More:
        own = int(pool.node[case])
        return More(case, jobs, avoid=tuple(sorted({*avoid, own} - {-1})))

    more = [More(case, 1, node) for node, wants in night.slow.wanted.items() for case in wants]
    there = numpy.zeros(cases, int)
    numpy.maximum.at(there, pool.case, night.wants_there)
    more += [More(case, int(there[case]), int(pool.node[case])) for case in numpy.flatnonzero(there).tolist()]
    spent = night.slow.healthy + len(more) + sum(common.healthy.values())
    for case, jobs in common.wanted.items():
        if jobs > ran[case]:
            more.append(elsewhere(case, int(jobs - ran[case])))
            wanted[case] = 0
        spent += jobs
    sure, goes_on = night.surest, wanted > ran
    left_out: dict[int, float] = {}
    lost = numpy.full(cases, -math.inf)
    numpy.maximum.at(lost, pool.case, numpy.where(night.asked, night.first_loss, -math.inf))
    of_common = common.wanted.keys() | common.healthy.keys()
    healthy = [case for case in numpy.flatnonzero(ran).tolist() if not confirmed[case] and case not in of_common]
    spent += sum(int(ran[case]) for case in healthy)
    # a case that its further jobs have not cleared yet will mostly run all of them
    planned: float = spent + sum(METHOD.looks[-1] - int(ran[case]) for case in healthy if goes_on[case])
    most = math.inf if night.expected.lasting else _SURE
    # first the cases that already have further jobs, the surest loss first; then the others, the largest doubt first
    for case in numpy.lexsort((-worst, -sure, ran == 0)).tolist():
        if not goes_on[case] or night.on_hold[case]:
            continue
        jobs = int(wanted[case] - ran[case])
        fits = spent + jobs <= _AT_MOST * budget if ran[case] else planned + A_CASE <= budget
        if strong[case] or confirmed[case] or sure[case] > most or fits:
            more.append(elsewhere(case, jobs))
            spent += 0 if confirmed[case] else jobs
            planned += 0 if confirmed[case] or ran[case] else A_CASE
        else:
            left_out[case] = float(lost[case])
    return more, left_out


def highest(answer: Answer, groups: Groups) -> list[int]:
    """Return the indices of the groups that show causes: they lost as a group, or most of their series lost alone.

    The largest group comes first. Another group counts if less than half of its series are in groups already chosen.
    """
    red = set(answer.common.red)
    for index, part in enumerate(groups.members):
        if index not in red and 4 * answer.red[part].sum() > 3 * len(part):
            red.add(index)
    chosen: list[int] = []
    taken = numpy.zeros(len(answer.red), bool)
    for index in sorted(red, key=lambda index: -len(groups.members[index])):
        part = groups.members[index]
        if 2 * taken[part].sum() < len(part):
            chosen.append(index)
            taken[part] = True
    return chosen

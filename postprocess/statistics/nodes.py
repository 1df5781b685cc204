# SPDX-License-Identifier: BSD-3-Clause
"""Decide which nodes of a pool are slow, from all jobs that they took part in, tonight and in the nights before.

A job on several nodes waits for the slowest of them, so a job with a slow node shows its whole loss. A job counts
against a node only beside a control: jobs of the same case without this node, in the same night or later. So neither a
case that lost on all nodes nor a loss of the whole site accuses a node.

Two tests share the chance of a false accusation: the mean over all jobs of a node, and the number of its cases that are
far below their level. The second one finds a node that is slow in some of its cases only, as one that lost memory
bandwidth and keeps its Flop rate. How often a healthy job is so far below comes from the jobs of the site, so slow
single jobs, where they are usual, accuse no node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import MAD_OF_NORMAL, upper
from postprocess.statistics.method import METHOD
from postprocess.statistics.pooled import pooled

_ALIKE = 0.5  # assumed correlation of the series of a case, and of the jobs of a case on a node
_ENOUGH = 8  # fewest cases of a night whose median is the level of the night
_SPREAD = 20  # fewest jobs whose scatter is their spread
_ROUNDS = 3  # in which series that did not lose are left out of the loss of a node
_WINDOWS = (1, *METHOD.windows)
_FAR = (3.0, 5.0)  # standard deviations from which on a case is counted as far below its level
_TESTS = 1 + len(_FAR)  # tests of a node in a window: the mean of all its jobs, and these counts


class NodeJob(NamedTuple):
    """A further job of `case` on `nodes`, because one of them is in doubt; `values`: of M series."""

    nodes: tuple[int, ...]
    case: int
    values: ndarray


@dataclass(frozen=True)
class Pool:
    """Where the jobs of the last sessions ran.

    `case`: the case of each of M series. `cases`: number of cases. `ran`: P x 4 numbers (night, case, job, node), one
    row for each node of each job; a night is an index of the sessions judged, tonight the last. `order`: rank of each
    case, drawn for the session. `alike`: a number of each case, equal for the cases of a node sweep that differ only in
    their nodes. `jobs`: tonight's jobs that ran because a node is in doubt. `recorded`: rows (session, case, node) of
    the first jobs of the baseline; a session is an index of those of the baseline.
    """

    case: ndarray
    cases: int
    ran: ndarray
    order: ndarray
    alike: ndarray
    jobs: Sequence[NodeJob] = ()
    recorded: ndarray = field(default_factory=lambda: numpy.zeros((0, 3), int))

    def nodes_of(self, night: int) -> dict[int, tuple[int, ...]]:
        """Return case -> nodes of its first job in a night."""
        nodes: dict[int, tuple[int, ...]] = {}
        for case, node in self.ran[(self.ran[:, 0] == night) & (self.ran[:, 2] == 0)][:, [1, 3]].tolist():
            nodes[case] = (*nodes.get(case, ()), node)
        return nodes


@dataclass
class Slow:
    """What the jobs show about the nodes.

    `loss`: slow node -> (loss, low, high, p), with the 95 % interval low to high. `wanted`: node in doubt -> cases that
    should run on it.
    """

    loss: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    wanted: dict[int, list[int]] = field(default_factory=dict)


def judge_nodes(expected: Expected, jobs: ndarray, pool: Pool, asking: float = 1.0) -> Slow:
    """Return which nodes are slow tonight, and which cases should run on nodes in doubt.

    `jobs`: M x W x J values of the last sessions. `asking`: how many of the usual questions may be asked.
    """
    slow, recorded = Slow(), _recorded(expected, pool)
    table = _Jobs.of(expected, *_beyond_usual(expected, jobs, pool, recorded), recorded)
    nodes = numpy.unique(table.node[table.night[table.job] == table.last])
    if len(nodes) < 2:
        return slow
    # a node may have become slow on any night, so each window has its share of the chance
    bar = upper(METHOD.node_false / len(nodes) / len(table.windows) / _TESTS)
    doubt = upper(METHOD.node[0] * asking / len(nodes) / len(table.windows))
    explained = numpy.zeros(len(table.case), bool)
    while (node := table.most_doubtful(nodes, doubt, explained)) is not None:
        own = table.with_node(node)
        beside = _Beside.of(table, node, explained)
        z, window = beside.most()
        if z > bar and (size := beside.size(expected, pool, window)):
            slow.loss[node] = *size, 0.5 * math.erfc(z / math.sqrt(2))
        elif not table.chosen[own].any():
            needed = min(math.ceil((bar / METHOD.cut[1]) ** 2) + 1, METHOD.node[1])
            there = set(table.case[own & (table.night == table.last)].tolist())
            others = [case for case in _by_size(pool) if pool.alike[case] not in there]
            if len(others) >= needed:
                slow.wanted[node] = others[:needed]
        explained |= own
        nodes = nodes[nodes != node]
    return slow


def _by_size(pool: Pool) -> list[int]:
    """Return the cases that ran tonight, those on fewest nodes first, then as drawn."""
    nodes = pool.nodes_of(int(pool.ran[:, 0].max(initial=-1)))
    return sorted(nodes, key=lambda case: (len(nodes[case]), pool.order[case]))


@dataclass(frozen=True)
class _Jobs:
    """Jobs and their nodes.

    `night`, `case`: of each job; cases that are alike have one number. `own`: its case. `level`: mean deviation of its
    series, in units of its spread, without the level of its night. `loss`: logarithm. `chosen`: True for jobs that ran
    because a node is in doubt. `job`, `node`: a pair for each node of each job. `last`: number of tonight. `column`: of
    each job in `losses`, which are of M series, NaN where a job did not run. `recorded`: levels of the jobs of the
    baseline.
    """

    night: ndarray
    case: ndarray
    own: ndarray
    level: ndarray
    loss: ndarray
    chosen: ndarray
    job: ndarray
    node: ndarray
    last: int
    column: ndarray
    losses: ndarray
    recorded: ndarray

    @classmethod
    def of(cls, expected: Expected, jobs: ndarray, pool: Pool, recorded: ndarray) -> _Jobs:
        """Return the jobs of a pool whose values are known; `recorded`: levels of the jobs of the baseline."""
        baseline, (_, nights, width) = expected.baseline, jobs.shape
        values = jobs.reshape(len(jobs), -1)
        if pool.jobs:
            values = numpy.concatenate([values, numpy.stack([job.values for job in pool.jobs], axis=1)], axis=1)
        deviations = baseline.deviations(values)
        for at in range(nights):  # without the level of the night
            first = deviations[:, at * width]
            if len(numpy.unique(pool.case[numpy.isfinite(first)])) >= _ENOUGH:
                own = [*range(at * width, (at + 1) * width), *range(nights * width, values.shape[1])]
                deviations[:, own[: None if at == nights - 1 else width]] -= numpy.nanmedian(first)
        deviations = _by_case(pool, numpy.clip(deviations, -METHOD.cut[0], METHOD.cut[0]), numpy.ones(len(jobs)))
        of_series = baseline.mean[:, None] - values
        losses = _by_case(pool, of_series, 1 / baseline.variance)
        night, case, number, node = pool.ran.T
        column = night * width + number
        if pool.jobs:
            more = [(of.case, nights * width + place, node) for place, of in enumerate(pool.jobs) for node in of.nodes]
            added = numpy.array(more).T
            case, column, node = (numpy.concatenate(pair) for pair in zip((case, column, node), added, strict=True))
        keys, job = numpy.unique(column * pool.cases + case, return_inverse=True)
        column, case = keys // pool.cases, keys % pool.cases
        level, loss = deviations[case, column], losses[case, column]
        chosen = column >= nights * width
        night = numpy.where(chosen, nights - 1, column // width)
        first = (column % width == 0) & ~chosen
        known = level[first & numpy.isfinite(level)]
        sizes = numpy.maximum(numpy.bincount(pool.case, minlength=pool.cases), 1)
        spread = math.sqrt(float((_ALIKE + (1 - _ALIKE) / sizes).mean()) * (1 + float(expected.g.mean())))
        if len(known) >= _SPREAD:
            spread = max(float(numpy.median(abs(known - numpy.median(known)))) / MAD_OF_NORMAL, spread / 4)
        there = numpy.isfinite(level)
        place = there.cumsum() - 1
        kept = there[job]
        of = pool.alike[case]
        return cls(
            night[there], of[there], case[there], level[there] / spread, loss[there], chosen[there], place[job[kept]],
            node[kept], nights - 1, column[there], of_series, recorded[numpy.isfinite(recorded)] / spread,
        )  # fmt: skip

    @property
    def windows(self) -> tuple[int, ...]:
        """The numbers of last sessions over which nodes are judged; the largest one holds all of them."""
        return _WINDOWS[: 1 + sum(window <= self.last for window in _WINDOWS)]

    def with_node(self, node: int) -> ndarray:
        """Return True for each job that ran on a node."""
        there = numpy.zeros(len(self.case), bool)
        there[self.job[self.node == node]] = True
        return there

    def most_doubtful(self, nodes: ndarray, doubt: float, explained: ndarray) -> int | None:
        """Return the node in doubt whose jobs are the slowest over a window; None without one."""
        best, chosen = self._most_counted(nodes, doubt, explained)
        tonight = numpy.zeros(len(nodes))
        for window in self.windows:
            used = ((self.night > self.last - window) & ~explained)[self.job]
            places = numpy.minimum(numpy.searchsorted(nodes, self.node[used]), len(nodes) - 1)
            is_known = nodes[places] == self.node[used]
            level = numpy.clip(self.level[self.job[used]], -METHOD.cut[0], METHOD.cut[0])[is_known]
            count = numpy.maximum(numpy.bincount(places[is_known], minlength=len(nodes)), 1)
            mean = -numpy.bincount(places[is_known], level, len(nodes)) / count
            tonight = mean if window == 1 else tonight
            # a node that tonight clears is in doubt no longer
            z = numpy.where(tonight > mean / 2, mean * numpy.sqrt(count), -math.inf)
            if len(z) and z.max() > best:
                best, chosen = float(z.max()), int(nodes[z.argmax()])
        return chosen

    def _most_counted(self, nodes: ndarray, doubt: float, explained: ndarray) -> tuple[float, int | None]:
        """Return the largest normal deviate, above `doubt`, of jobs far below their level, and the node; or none.

        Only jobs with a control count: a case that lost may have lost on all nodes.
        """
        best, chosen = doubt, None
        far = numpy.zeros(len(self.case), bool)
        far[self.job] = (self.level < -_FAR[0])[self.job] & ~explained[self.job]
        tonight = self.job[far[self.job] & (self.night[self.job] == self.last)]
        for node in numpy.intersect1d(nodes, self.node[numpy.isin(self.job, tonight)]).tolist():
            beside = _Beside.of(self, node, explained)
            z = max(beside.counted(window, 0) for window in self.windows)
            if z > best:
                best, chosen = z, node
        return best, chosen

    def far_below(self, own: ndarray, level: float, seen: int) -> float:
        """Return the share of healthy jobs that are so far below their level; `own`: True for jobs that do not count.

        `seen`: number of such jobs that are taken to be seen besides.
        """
        others = numpy.concatenate([self.level[~self.chosen & ~own], self.recorded])
        return max(
            (int((others < -level).sum()) + seen) / max(len(others) + seen, 1), 0.5 * math.erfc(level / math.sqrt(2))
        )


@dataclass(frozen=True)
class _Beside:
    """The jobs of a node that count, each beside its controls.

    `own`: True for each job of the table on the node. `job`: numbers of the jobs. `beside`: level, without what the
    controls are below theirs. `level`: the same, cut. `control`: loss of the controls. `tonight`: mean loss of all jobs
    of tonight; 0 without any.
    """

    table: _Jobs
    own: ndarray
    tonight: float
    job: ndarray
    beside: ndarray
    level: ndarray
    control: ndarray

    @classmethod
    def of(cls, table: _Jobs, node: int, explained: ndarray) -> _Beside:
        """Return the jobs of a node that nothing else explains.

        A job without a control counts only if it speaks for the node.
        """
        own = table.with_node(node)
        others = ~own & ~explained
        rows, tonight = [], []
        for job in numpy.flatnonzero(own & ~explained).tolist():
            beside = numpy.flatnonzero(others & (table.case == table.case[job]) & (table.night >= table.night[job]))
            beside = beside[table.night[beside] == table.night[beside].min(initial=table.last)]
            level, control = float(table.level[job]), 0.0
            if len(beside):
                level -= min(float(table.level[beside].mean()), 0.0)
                control = max(float(table.loss[beside].mean()), 0.0)
            if len(beside) or level > 0:
                rows.append((job, level, control))
            if table.night[job] == table.last:
                tonight.append(float(table.loss[job]) - control)
        kept, levels, controls = numpy.array(rows).reshape(-1, 3).T
        cut = numpy.clip(levels, -METHOD.cut[1], METHOD.cut[1])
        return cls(table, own, float(numpy.mean(tonight or [0.0])), kept.astype(int), levels, cut, controls)

    def most(self) -> tuple[float, int]:
        """Return the largest normal deviate of the loss over a window that tonight shows, and the window."""
        best, chosen, night = 0.0, 1, self.table.night[self.job]
        for window in self.table.windows:
            used = night > self.table.last - window
            cases, of, count = numpy.unique(self.table.case[self.job[used]], return_inverse=True, return_counts=True)
            if not len(cases):
                continue
            total = -float((self.level[used] / count[of]).sum())
            z = total / math.sqrt(float((_ALIKE + (1 - _ALIKE) / count).sum()))
            loss = float((self.table.loss[self.job[used]] - self.control[used]).mean())
            if z > best and self.tonight > loss / 2:
                best, chosen = z, window
            if (z := self.counted(window, 1)) > best:
                best, chosen = z, window
        return best, chosen

    def counted(self, window: int, seen: int) -> float:
        """Return the normal deviate of the number of cases far below their level in a window; 0 if tonight has none.

        Tonight clears the node if its share of such jobs is below half of the share in the window.
        """
        night, best = self.table.night[self.job], 0.0
        used = night > self.table.last - window
        _, of, count = numpy.unique(self.table.case[self.job[used]], return_inverse=True, return_counts=True)
        level = numpy.bincount(of, self.beside[used]) / count if len(count) else numpy.zeros(0)
        for far in _FAR:
            slow, tonight = level < -far, self.beside[night == self.table.last] < -far
            if slow.any() and tonight.any() and 2 * tonight.mean() >= slow.mean():
                share = self.table.far_below(self.own, far, seen)
                best = max(best, upper(_at_least(int(slow.sum()), len(slow), share)))
        return best

    def size(self, expected: Expected, pool: Pool, window: int) -> tuple[float, float, float] | None:
        """Return the loss over a window with its 95 % interval, of the series that lost; None below the floor.

        A series did not lose if its own interval holds no loss, and excludes the loss of the others.
        """
        rows, losses, counts = self._of_series(pool, window)
        error = expected.error(_ALIKE + (1 - _ALIKE) / numpy.maximum(counts, 1))[rows]
        lost, found = numpy.ones(len(rows), bool), (0.0, 0.0, 0.0)
        for _ in range(_ROUNDS):
            found = _pooled(losses[lost], error[lost])
            lost = (losses + 1.96 * error > found[0]) | (losses - 1.96 * error > 0)
        return found if found[0] > METHOD.near * float(numpy.median(expected.baseline.floor[rows[lost]])) else None

    def _of_series(self, pool: Pool, window: int) -> tuple[ndarray, ndarray, ndarray]:
        """Return the series of the jobs of a window, the mean loss of each, and the number of jobs of all M series."""
        table, m = self.table, len(pool.case)
        total, count = numpy.zeros(m), numpy.zeros(m)
        for job, control in zip(self.job.tolist(), self.control.tolist(), strict=True):
            if table.night[job] > table.last - window:
                own = pool.case == table.own[job]
                values = table.losses[own, table.column[job]] - control
                total[own] += numpy.nan_to_num(values)
                count[own] += numpy.isfinite(values)
        rows = numpy.flatnonzero(count)
        return rows, total[rows] / count[rows], count


def _recorded(expected: Expected, pool: Pool) -> ndarray:
    """Return the levels of the jobs of the baselines, cases x N, without that of their night; NaN where not known."""
    baseline, g = expected.baseline, expected.g[:, None]
    levels = numpy.where((baseline.n >= METHOD.short)[:, None], baseline.deviations(baseline.sessions), math.nan)
    known = [len(numpy.unique(pool.case[numpy.isfinite(session)])) >= _ENOUGH for session in levels.T]
    centre = numpy.full(levels.shape[1], math.nan)
    centre[known] = numpy.nanmedian(levels[:, known], axis=0)
    # a baseline is closer to its own mean than a session to come
    levels = (levels - centre) * numpy.sqrt((1 + g) / numpy.maximum(1 - g, 0.5))
    return _by_case(pool, numpy.clip(levels, -METHOD.cut[0], METHOD.cut[0]), numpy.ones(len(levels)))


def _beyond_usual(expected: Expected, jobs: ndarray, pool: Pool, recorded: ndarray) -> tuple[ndarray, Pool]:
    """Return the jobs, and the pool with its own, each without what the slowest of its nodes usually loses."""
    usual = _usual(pool, recorded)
    if not usual:
        return jobs, pool
    sd, jobs, slowest = expected.baseline.sd, jobs.copy(), dict[tuple[int, int, int], float]()
    for night, case, job, node in pool.ran.tolist():
        slowest[night, case, job] = max(slowest.get((night, case, job), 0.0), usual.get(node, 0.0))
    order = numpy.argsort(pool.case, kind='stable')
    begin = numpy.searchsorted(pool.case[order], numpy.arange(pool.cases + 1))
    for (night, case, job), loss in slowest.items():
        own = order[begin[case] : begin[case + 1]]
        jobs[own, night, job] += loss * sd[own]
    chosen = [
        job._replace(values=job.values + max(usual.get(node, 0.0) for node in job.nodes) * sd) for job in pool.jobs
    ]
    return jobs, replace(pool, jobs=chosen)


def _usual(pool: Pool, recorded: ndarray) -> dict[int, float]:
    """Return how much jobs on each node usually lose, in standard deviations of a series; only nodes that lose.

    It is the mean loss on the node in the sessions of the baseline, shrunk to 0 as far as the means of all nodes
    scatter by chance.
    """
    session, case, node = pool.recorded.T
    losses = -recorded[case, session]
    there = numpy.isfinite(losses)
    if not there.any():
        return {}
    losses = losses[there] - losses[there].mean()
    nodes, places, count = numpy.unique(node[there], return_inverse=True, return_counts=True)
    means, chance = numpy.bincount(places, losses) / count, float(losses.var()) / count
    between = max(float((means**2 - chance).mean()), 0.0)
    usual = means * between / (between + chance) if between else numpy.zeros(len(nodes))
    return {place: loss for place, loss in zip(nodes.tolist(), usual.tolist(), strict=True) if loss > 0}


def _at_least(count: int, of: int, share: float) -> float:
    """Return the chance that at least `count` cases are counted, each with the chance `share`: a binomial tail."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1))


def _pooled(losses: ndarray, errors: ndarray) -> tuple[float, float, float]:
    """Return the mean of some losses, logarithms, with its 95 % interval."""
    sides = losses, losses - 2 * errors, losses + 2 * errors
    told = [(loss, (low, high)) for loss, low, high in zip(*(-numpy.expm1(-side) for side in sides), strict=True)]
    loss, interval = pooled(told, _ALIKE)
    low, high = interval or (loss, loss)
    return -math.log1p(-loss), -math.log1p(-low), -math.log1p(-high)


def _by_case(pool: Pool, values: ndarray, weight: ndarray) -> ndarray:
    """Return the weighted mean over the series of each case, cases x N, of M x N values; NaN without a value."""
    order = numpy.argsort(pool.case, kind='stable')
    cases, starts = numpy.unique(pool.case[order], return_index=True)
    there = numpy.isfinite(values[order])
    own = weight[order][:, None] * there
    total = numpy.add.reduceat(own * numpy.where(there, values[order], 0.0), starts, axis=0)
    count = numpy.add.reduceat(own, starts, axis=0)
    means = numpy.full((pool.cases, values.shape[1]), numpy.nan)
    means[cases] = numpy.where(count > 0, total / numpy.where(count > 0, count, 1), numpy.nan)
    return means

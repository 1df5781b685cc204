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
from dataclasses import dataclass, field

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import MAD_OF_NORMAL, at_least, upper
from postprocess.statistics.method import METHOD
from postprocess.statistics.pool import Pool
from postprocess.statistics.pooled import pooled
from postprocess.statistics.usual import ENOUGH, recorded_levels

_ALIKE = 0.5  # assumed correlation of the series of a case, and of the jobs of a case on a node
_SPREAD = 20  # fewest jobs whose scatter is their spread
_ROUNDS = 3  # in which series that did not lose are left out of the loss of a node
_WINDOWS = (1, *METHOD.windows)
_FAR = (3.0, 5.0)  # standard deviations from which on a case is counted as far below its level
_NO_NODE = -1
_TESTS = 1 + len(_FAR)  # tests of a node in a window: the mean of all its jobs, and these counts


@dataclass
class Slow:
    """What the jobs show about the nodes.

    `loss`: slow node -> (loss, low, high, p), with the 95 % interval low to high. `apart`: slow node -> series of jobs
    on several nodes that lost less than the node, so it does not explain them. `explained`: True for each of M series
    whose job of tonight ran on a slow node that explains it. `wanted`: node in doubt -> cases that should run on it.
    """

    explained: ndarray
    loss: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    apart: dict[int, ndarray] = field(default_factory=dict)
    wanted: dict[int, list[int]] = field(default_factory=dict)


def judge_nodes(expected: Expected, jobs: ndarray, pool: Pool) -> Slow:
    """Return which nodes are slow tonight, and which cases should run on nodes in doubt.

    `jobs`: M x W x J values of the last sessions.
    """
    slow, recorded = Slow(numpy.zeros(len(pool.case), bool)), recorded_levels(expected, pool)
    table = _Jobs.of(expected, jobs, pool, recorded)
    nodes = numpy.unique(table.node[table.night[table.job] == table.last])
    if len(nodes) < 2:
        return slow
    # a node may have become slow on any night, so each window has its share of the chance
    bar = upper(METHOD.node_false / len(nodes) / len(table.windows) / _TESTS)
    needed = min(math.ceil((bar / METHOD.cut[1]) ** 2) + 1, METHOD.node[1])
    doubt = upper(METHOD.node[0] / len(nodes) / len(table.windows))
    ran = pool.nodes_of(table.last)
    tonight = sorted(ran, key=lambda case: (len(ran[case]), pool.order[case]))  # those on fewest nodes first
    explained_by = numpy.full(len(table.case), _NO_NODE)
    while len(in_doubt := table.in_doubt(nodes, doubt, explained_by == _NO_NODE)):
        left = explained_by == _NO_NODE
        found = _Controlled.of(table, numpy.sort(in_doubt), left[table.job], left).slow(expected, pool, bar, slow)
        # without slow nodes among their controls the others are asked again
        judged = list(found) or in_doubt.tolist()
        for node in judged:
            own = table.jobs_of(node)
            if not found and not table.chosen[own].any():
                ran_here = set(table.case[own[table.night[own] == table.last]].tolist())
                others = [case for case in tonight if pool.alike[case] not in ran_here]
                if len(others) >= needed:
                    slow.wanted[node] = others[:needed]
            explained_by[own[left[own]]] = node
        nodes = numpy.setdiff1d(nodes, judged)
    # the sizes, beside the nodes that are not slow
    last = _Controlled.of(
        table, numpy.array(sorted(slow.loss), int), explained_by[table.job] == table.node, explained_by == _NO_NODE
    )
    last.slow(expected, pool, bar, slow)
    for node in slow.loss:
        there = numpy.isin(pool.case, [case for case, own in ran.items() if node in own])
        there[slow.apart[node]] = False
        slow.explained |= there
    return slow


@dataclass(frozen=True)
class _Jobs:
    """Jobs and their nodes.

    `night`, `case`: of each job; cases that are alike have one number. `own`: its case. `level`: mean deviation of its
    series, in units of its spread, without the level of its night. `loss`: logarithm. `chosen`: True for jobs that ran
    because a node is in doubt. `job`, `node`: a pair for each node of each job, ordered by node. `last`: number of
    tonight. `column`: of each job in `losses`, which are of M series, NaN where a job did not run. `recorded`: levels
    of the jobs of the baseline.
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
            if len(numpy.unique(pool.case[numpy.isfinite(first)])) >= ENOUGH:
                own = [*range(at * width, (at + 1) * width), *range(nights * width, values.shape[1])]
                deviations[:, own[: None if at == nights - 1 else width]] -= numpy.nanmedian(first)
        deviations = pool.by_case(numpy.clip(deviations, -METHOD.cut[0], METHOD.cut[0]), numpy.ones(len(jobs)))
        of_series = baseline.mean[:, None] - values
        losses = pool.by_case(of_series, 1 / baseline.variance)
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
        pairs = numpy.flatnonzero(there[job])
        pairs = pairs[numpy.argsort(node[pairs], kind='stable')]
        of = pool.alike[case]
        return cls(
            night[there], of[there], case[there], level[there] / spread, loss[there], chosen[there], place[job[pairs]],
            node[pairs], nights - 1, column[there], of_series, recorded[numpy.isfinite(recorded)] / spread,
        )  # fmt: skip

    @property
    def windows(self) -> tuple[int, ...]:
        """The numbers of last sessions over which nodes are judged; the largest one holds all of them."""
        return _WINDOWS[: 1 + sum(window <= self.last for window in _WINDOWS)]

    def jobs_of(self, node: int) -> ndarray:
        """Return the numbers of the jobs that ran on a node."""
        begin, end = numpy.searchsorted(self.node, [node, node + 1])
        return self.job[begin:end]

    def in_doubt(self, nodes: ndarray, doubt: float, left: ndarray) -> ndarray:
        """Return the nodes in doubt by the jobs that are `left`, slowest first; of those that share a job the slowest.

        Only jobs with a control count as far below their level: a case that lost may have lost on all nodes.
        """
        beside = _Controlled.of(self, nodes, left[self.job], left)
        z = beside.raised()
        far_tonight = beside.mean_of(beside.night == self.last, self.level[beside.job] < -_FAR[0]) > 0
        for window in self.windows:
            z = numpy.maximum(z, numpy.where(far_tonight, beside.counted(window, 0), -math.inf))
        free, slowest = left.copy(), []
        for place in numpy.argsort(-z, kind='stable').tolist():
            if z[place] <= doubt:
                break
            own = self.jobs_of(int(nodes[place]))
            own = own[left[own]]
            if free[own].all():
                free[own] = False
                slowest.append(int(nodes[place]))
        return numpy.array(slowest, int)

    def far_below(self, level: float, nodes: ndarray, seen: int) -> ndarray:
        """Return the share of healthy jobs that are so far below their level, for each node from the jobs elsewhere.

        `seen`: number of such jobs that are taken to be seen besides.
        """
        first, far = ~self.chosen, self.level < -level
        own = first[self.job]
        place, known = _places(nodes, self.node[own])
        here = numpy.bincount(place[known], minlength=len(nodes))
        far_here = numpy.bincount(place[known], far[self.job[own]][known], len(nodes))
        count = int(first.sum()) + len(self.recorded) + seen - here
        far_count = int(far[first].sum()) + int((self.recorded < -level).sum()) + seen - far_here
        return numpy.maximum(far_count / numpy.maximum(count, 1), 0.5 * math.erfc(level / math.sqrt(2)))


@dataclass(frozen=True)
class _Controlled:
    """Jobs of some nodes, each beside its controls.

    A control is a job of the same case without the node, on the first night from that of the job on that has one.
    `nodes`: N, ascending. `job`: of each pair of a job and a node, with the `place` of the node in `nodes` and
    the `night` and `case` of the job. `level`: of the job, without what the controls are below theirs. `control`: loss
    of the controls. `counts`: True where the pair is evidence: without a control, only if it speaks for the node.
    """

    table: _Jobs
    nodes: ndarray
    job: ndarray
    place: ndarray
    night: ndarray
    case: ndarray
    level: ndarray
    control: ndarray
    counts: ndarray

    @classmethod
    def of(cls, table: _Jobs, nodes: ndarray, pairs: ndarray, others: ndarray) -> _Controlled:
        """Return the jobs of `nodes` where `pairs` of the table is True; `others`: True for jobs that are controls."""
        place, known = _places(nodes, table.node)
        kept = known & pairs
        job, place = table.job[kept], place[kept]
        night, case, level = table.night[job], table.case[job], table.level[job]
        control_level, control = _controls(table, others, job, place)
        has_control = numpy.isfinite(control)
        level = level - numpy.where(has_control, numpy.minimum(control_level, 0.0), 0.0)
        control = numpy.where(has_control, numpy.maximum(control, 0.0), 0.0)
        return cls(table, nodes, job, place, night, case, level, control, has_control | (level > 0))

    def raised(self) -> ndarray:
        """Return the normal deviate of the mean level of each node's jobs, of the window where it is the largest.

        It is -inf for a node that tonight clears: it shows less than half of the mean.
        """
        level = numpy.clip(self.table.level[self.job], -METHOD.cut[0], METHOD.cut[0])
        tonight = -self.mean_of(self.night == self.table.last, level)
        best = numpy.full(len(self.nodes), -math.inf)
        for window in self.table.windows:
            used = self.night > self.table.last - window
            mean, count = -self.mean_of(used, level), numpy.bincount(self.place[used], minlength=len(self.nodes))
            best = numpy.maximum(best, numpy.where(tonight > mean / 2, mean * numpy.sqrt(count), -math.inf))
        return best

    def most(self) -> tuple[ndarray, ndarray]:
        """Return the largest normal deviate of the loss of each node over a window that tonight shows, and the window.

        0 and 1 where no window shows a loss.
        """
        best: ndarray = numpy.zeros(len(self.nodes))
        chosen: ndarray = numpy.ones(len(self.nodes), int)
        loss = self.table.loss[self.job] - self.control
        tonight = self.mean_of(self.night == self.table.last, loss)
        cut = numpy.clip(self.level, -METHOD.cut[1], METHOD.cut[1])
        for window in self.table.windows:
            used = self._used(window)
            place, mean, count = self._by_case(used, cut)
            variance = numpy.bincount(place, _ALIKE + (1 - _ALIKE) / count, len(self.nodes))
            z = -numpy.bincount(place, mean, len(self.nodes)) / numpy.sqrt(numpy.maximum(variance, _ALIKE))
            z = numpy.where(tonight > self.mean_of(used, loss) / 2, z, 0.0)
            z = numpy.maximum(z, self.counted(window, 1))
            chosen = numpy.where(z > best, window, chosen)
            best = numpy.maximum(best, z)
        return best, chosen

    def counted(self, window: int, seen: int) -> ndarray:
        """Return the normal deviate of the number of each node's cases far below their level; 0 if tonight has none.

        Tonight clears a node if its share of such jobs is below half of the share in the window.
        """
        best = numpy.zeros(len(self.nodes))
        place, level, _ = self._by_case(self._used(window), self.level)
        of = numpy.bincount(place, minlength=len(self.nodes))
        for far in _FAR:
            slow = numpy.bincount(place, level < -far, len(self.nodes))
            tonight = self.mean_of(self.night == self.table.last, self.level < -far)
            shown = numpy.flatnonzero((slow > 0) & (tonight > 0) & (2 * tonight * of >= slow))
            if len(shown):
                share = self.table.far_below(far, self.nodes, seen)
                chance = [at_least(int(slow[at]), int(of[at]), float(share[at])) for at in shown]
                best[shown] = numpy.maximum(best[shown], [upper(each) for each in chance])
        return best

    def mean_of(self, used: ndarray, values: ndarray) -> ndarray:
        """Return the mean of the values of the `used` jobs of each node; 0 for a node without one."""
        place, nodes = self.place[used], len(self.nodes)
        return numpy.bincount(place, values[used], nodes) / numpy.maximum(numpy.bincount(place, minlength=nodes), 1)

    def _used(self, window: int) -> ndarray:
        """Return True for each job that is evidence in a window."""
        return self.counts & (self.night > self.table.last - window)

    def _by_case(self, used: ndarray, values: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Return, for each node and case of the `used` jobs, place of the node, mean of the values, number of jobs."""
        cases = int(self.table.case.max(initial=0)) + 1
        keys, of = numpy.unique(self.place[used] * cases + self.case[used], return_inverse=True)
        count = numpy.bincount(of, minlength=len(keys))
        return keys // cases, numpy.bincount(of, values[used], len(keys)) / count, count

    def slow(self, expected: Expected, pool: Pool, bar: float, slow: Slow) -> list[int]:
        """Add the nodes to `slow` that lost beyond `bar`, a normal deviate, and return them."""
        found = []
        for node, z, window in zip(self.nodes.tolist(), *(each.tolist() for each in self.most()), strict=True):
            if z > bar and (size := self.size(expected, pool, node, window)):
                loss, low, high, slow.apart[node] = size
                slow.loss[node] = loss, low, high, 0.5 * math.erfc(z / math.sqrt(2))
                found.append(node)
        return found

    def size(
        self, expected: Expected, pool: Pool, node: int, window: int
    ) -> tuple[float, float, float, ndarray] | None:
        """Return the loss of a node over a window, its 95 % interval, and series apart; None below the floor.

        The loss is that of the series that lost. A series did not lose if its own interval holds no loss, and excludes
        the loss of the others. A job on several nodes that lost less than the node lost for another reason.
        """
        rows, losses, counts, several = self._of_series(pool, node, window)
        error = expected.error(_ALIKE + (1 - _ALIKE) / numpy.maximum(counts, 1))[rows]
        lost, found = numpy.ones(len(rows), bool), (0.0, 0.0, 0.0)
        for _ in range(_ROUNDS):
            found = _pooled(losses[lost], error[lost])
            alike = losses + 1.96 * error > found[0]
            lost = alike | (losses - 1.96 * error > 0) & ~several
        least = METHOD.near * float(numpy.median(expected.baseline.floor[rows[lost]]))
        return (*found, rows[several & ~alike]) if found[0] > least else None

    def _of_series(self, pool: Pool, node: int, window: int) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Return the series of the jobs of a window, and the mean loss of each.

        Also the number of jobs of all M series, and True for each series returned that ran on several nodes.
        """
        table, m = self.table, len(pool.case)
        total, count, several = numpy.zeros(m), numpy.zeros(m), numpy.zeros(m, bool)
        size = numpy.bincount(table.job, minlength=len(table.case))
        own = self._used(window) & (self.nodes[self.place] == node)
        for job, control in zip(self.job[own].tolist(), self.control[own].tolist(), strict=True):
            series = pool.series(int(table.own[job]))
            values = table.losses[series, table.column[job]] - control
            total[series] += numpy.nan_to_num(values)
            count[series] += numpy.isfinite(values)
            several[series] |= size[job] > 1
        rows = numpy.flatnonzero(count)
        return rows, total[rows] / count[rows], count, several[rows]


def _controls(table: _Jobs, others: ndarray, job: ndarray, place: ndarray) -> tuple[ndarray, ndarray]:
    """Return mean level and mean loss of the controls of each pair of a job and the place of a node; NaN without one.

    `others`: True for each job that may be a control.
    """
    nights = table.last + 1
    key = table.case * nights + table.night
    size = int(table.case.max(initial=0) + 1) * nights
    values = numpy.ones(len(key)), table.level, table.loss
    total = [numpy.bincount(key[others], each[others], size) for each in values]
    keys, of = numpy.unique(place * size + key[job], return_inverse=True)
    own = [numpy.bincount(of, each[job] * others[job], len(keys)) for each in values]
    found = numpy.full((2, len(keys)), math.nan)
    left = numpy.arange(len(keys))
    for later in range(nights):
        left = left[keys[left] % nights + later < nights]
        at = keys[left] + later
        group = numpy.minimum(numpy.searchsorted(keys, at), len(keys) - 1)
        is_own = keys[group] == at
        count, level, loss = (
            all_[at % size] - numpy.where(is_own, of_node[group], 0.0) for all_, of_node in zip(total, own, strict=True)
        )
        there = count > 0
        found[:, left[there]] = level[there] / count[there], loss[there] / count[there]
        left = left[~there]
    return found[0, of], found[1, of]


def _places(nodes: ndarray, of: ndarray) -> tuple[ndarray, ndarray]:
    """Return the place of each node of `of` in `nodes`, which ascend, and True where it is one of them."""
    return numpy.searchsorted(nodes, of), numpy.isin(of, nodes)


def _pooled(losses: ndarray, errors: ndarray) -> tuple[float, float, float]:
    """Return the mean of some losses, logarithms, with its 95 % interval."""
    sides = losses, losses - 2 * errors, losses + 2 * errors
    told = [(loss, (low, high)) for loss, low, high in zip(*(-numpy.expm1(-side) for side in sides), strict=True)]
    loss, interval = pooled(told, _ALIKE)
    low, high = interval or (loss, loss)
    return -math.log1p(-loss), -math.log1p(-low), -math.log1p(-high)

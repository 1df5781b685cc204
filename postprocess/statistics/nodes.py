# SPDX-License-Identifier: BSD-3-Clause
"""Decide which nodes of a pool are slow, from all jobs that they took part in, tonight and in the nights before.

A job on several nodes waits for the slowest of them, so a job with a slow node shows its whole loss. A job counts
against a node only beside a control: jobs of the same case without this node, in the same night or later. So neither a
case that lost on all nodes nor a loss of the whole site accuses a node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import MAD_OF_NORMAL, upper
from postprocess.statistics.method import METHOD

_ALIKE = 0.5  # assumed correlation of the series of a case, and of the jobs of a case on a node
_ENOUGH = 8  # fewest cases of a night whose median is the level of the night
_SPREAD = 20  # fewest jobs whose scatter is their spread


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
    their nodes. `jobs`: tonight's jobs that ran because a node is in doubt.
    """

    case: ndarray
    cases: int
    ran: ndarray
    order: ndarray
    alike: ndarray
    jobs: Sequence[NodeJob] = ()

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
    slow = Slow()
    table = _Jobs.of(expected, jobs, pool)
    nodes = numpy.unique(table.node[table.tonight[table.job]])
    if len(nodes) < 2:
        return slow
    bar, doubt = upper(METHOD.node_false / len(nodes)), upper(METHOD.node[0] * asking / len(nodes))
    floor = METHOD.near * float(numpy.median(expected.baseline.floor))
    explained = numpy.zeros(len(table.case), bool)
    while (node := table.most_doubtful(nodes, doubt, explained)) is not None:
        found = table.effect(node, explained)
        own = table.with_node(node)
        if found.z > bar and found.loss > floor and found.tonight > found.loss / 2:
            half = 1.96 * found.error
            p = 0.5 * math.erfc(found.z / math.sqrt(2))
            slow.loss[node] = found.loss, found.loss - half, found.loss + half, p
        elif not table.chosen[own].any():
            needed = min(math.ceil((bar / METHOD.cut[1]) ** 2), METHOD.node[1])
            there = set(table.case[own & table.tonight].tolist())
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


class _Effect(NamedTuple):
    """What the jobs of a node show: normal deviate, loss with its standard error, and the mean loss of tonight."""

    z: float
    loss: float
    error: float
    tonight: float


@dataclass(frozen=True)
class _Jobs:
    """Jobs and their nodes.

    `night`, `case`: of each job; cases that are alike have one number. `level`: mean
    deviation of its series, in units of its spread, without the level of its night. `loss`: logarithm. `tonight`: True
    for the jobs of tonight. `chosen`: True for jobs that ran because a node is in doubt. `job`, `node`: a pair for each
    node of each job.
    """

    night: ndarray
    case: ndarray
    level: ndarray
    loss: ndarray
    tonight: ndarray
    chosen: ndarray
    job: ndarray
    node: ndarray

    @classmethod
    def of(cls, expected: Expected, jobs: ndarray, pool: Pool) -> _Jobs:
        """Return the jobs of a pool whose values are known."""
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
        cut = METHOD.cut[0]
        deviations = _by_case(pool, numpy.clip(deviations, -cut, cut), numpy.ones(len(jobs)))
        losses = _by_case(pool, baseline.mean[:, None] - values, 1 / baseline.variance)
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
            night[there], of[there], level[there] / spread, loss[there], night[there] == nights - 1, chosen[there],
            place[job[kept]], node[kept],
        )  # fmt: skip

    def with_node(self, node: int) -> ndarray:
        """Return True for each job that ran on a node."""
        there = numpy.zeros(len(self.case), bool)
        there[self.job[self.node == node]] = True
        return there

    def most_doubtful(self, nodes: ndarray, doubt: float, explained: ndarray) -> int | None:
        """Return the node in doubt whose jobs are the slowest, tonight or over all nights; None without one."""
        cut = METHOD.cut[0]
        best, chosen = doubt, None
        for part in (self.tonight, numpy.ones(len(self.case), bool)):
            used = (part & ~explained)[self.job]
            places = numpy.searchsorted(nodes, self.node[used])
            places = numpy.minimum(places, len(nodes) - 1)
            is_known = nodes[places] == self.node[used]
            level = numpy.clip(self.level[self.job[used]], -cut, cut)[is_known]
            total = numpy.bincount(places[is_known], level, len(nodes))
            count = numpy.bincount(places[is_known], minlength=len(nodes))
            z = -total / numpy.sqrt(numpy.maximum(count, 1))
            if len(z) and z.max() > best:
                best, chosen = float(z.max()), int(nodes[z.argmax()])
        return chosen

    def effect(self, node: int, explained: ndarray) -> _Effect:
        """Return what the jobs of a node show beside their controls."""
        cut, own = METHOD.cut[1], self.with_node(node) & ~explained
        others = ~self.with_node(node) & ~explained
        by_case: dict[int, list[float]] = {}
        losses, tonight = [], []
        for job in numpy.flatnonzero(own).tolist():
            beside = numpy.flatnonzero(others & (self.case == self.case[job]) & (self.night >= self.night[job]))
            level, loss = float(self.level[job]), float(self.loss[job])
            if len(beside):
                beside = beside[self.night[beside] == self.night[beside].min()]
                level -= min(float(self.level[beside].mean()), 0.0)
                loss -= max(float(self.loss[beside].mean()), 0.0)
            if self.tonight[job]:
                tonight.append(loss)
            if len(beside) or level > 0:
                by_case.setdefault(int(self.case[job]), []).append(min(max(level, -cut), cut))
                losses.append(loss)
        if not losses:
            return _Effect(0.0, 0.0, 0.0, 0.0)
        total = -sum(sum(levels) / len(levels) for levels in by_case.values())
        variance = sum(_ALIKE + (1 - _ALIKE) / len(levels) for levels in by_case.values())
        error = float(numpy.std(losses)) / math.sqrt(len(losses))
        return _Effect(
            total / math.sqrt(variance), float(numpy.mean(losses)), error, float(numpy.mean(tonight or [0.0]))
        )


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

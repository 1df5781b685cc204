# SPDX-License-Identifier: BSD-3-Clause
"""Judge the nodes of a pool, where each case may run on any node.

The first jobs of tonight's cases on a node raise a doubt; other cases that then run on the node decide. A lasting
effect of the node on one series made the first job slow and would make the next job slow too, so that series cannot
confirm the doubt.
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

_FEWEST = 2  # fewest other cases that can decide
_FEW = 20  # with fewer recorded sessions, the spread of tonight's cases counts, if there are at least so many cases
_ALIKE = 0.5  # assumed correlation of the series of a case


class NodeJob(NamedTuple):
    """A further job of `case` that ran on `node` because the node is in doubt; `values`: of M series."""

    node: int
    case: int
    values: ndarray


@dataclass(frozen=True)
class Pool:
    """Where the jobs ran.

    `case`: the case of each of M series. `cases`: number of cases. `node`: the node of tonight's first job of each
    case, -1 if the job had several nodes or its node is not known. `before`: cases x N, the same for the sessions of
    the baseline. `order`: rank of each case, drawn for the session. `jobs`: the jobs that ran because a node is in
    doubt.
    """

    case: ndarray
    cases: int
    node: ndarray
    before: ndarray
    order: ndarray
    jobs: Sequence[NodeJob] = ()

    @property
    def nodes(self) -> int:
        """The number of nodes on which first jobs ran alone tonight."""
        return len(set(self.node[self.node >= 0].tolist()))


@dataclass
class Slow:
    """What the pool shows about its nodes.

    `loss`: node that lost performance -> (loss, low, high, p), with the 95 % interval low to high. `wanted`: node in
    doubt -> cases that should run on it. `healthy`: number of further jobs that ran on nodes without a loss.
    """

    loss: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    wanted: dict[int, list[int]] = field(default_factory=dict)
    healthy: int = 0


def judge_nodes(expected: Expected, first: ndarray, pool: Pool, kinds: int, asking: float = 1.0) -> Slow:
    """Return which nodes are slow, and which cases should run on nodes in doubt.

    `first`: tonight's first jobs of M series. `kinds`: number of kinds of groups and nodes that share the false alarms.
    `asking`: how many of the usual questions may be asked.
    """
    slow = Slow()
    there = pool.node >= 0
    nodes, count = numpy.unique(pool.node[there], return_counts=True)
    if len(nodes) < 2:
        return slow
    baseline, cut = expected.baseline, METHOD.cut[1]
    recorded = _by_case(pool, baseline.deviations(baseline.sessions, cut))
    n = numpy.isfinite(recorded).sum(axis=1)
    centre = numpy.nansum(recorded, axis=1) / numpy.maximum(n, 1)
    rest = recorded - centre[:, None]
    sizes = numpy.bincount(pool.case, minlength=pool.cases)
    squares, df = float(numpy.nansum(rest**2)), int(numpy.maximum(n - 1, 0).sum())
    prior = float((_ALIKE + (1 - _ALIKE) / numpy.maximum(sizes, 1)).mean())
    variance = (4 * prior + squares) / (4 + df)
    g = float(expected.g.mean())
    offset = _offsets(pool, rest, variance)
    tonight = _by_case(pool, baseline.deviations(first[:, None], cut))[:, 0] - centre
    if df < _FEW and (known := numpy.isfinite(tonight)).sum() >= _FEW:  # most nodes are healthy
        own = tonight[known]
        variance = (float(numpy.median(abs(own - numpy.median(own)))) / MAD_OF_NORMAL) ** 2 / (1 + g)
    for node, k in zip(nodes.tolist(), count.tolist(), strict=True):
        usual, error = offset.get(node, (0.0, 0.0))
        mean = float(numpy.nanmean(tonight[pool.node == node]))
        if not usual - mean > upper(METHOD.node[0] * asking / len(nodes)) * math.sqrt(variance * (1 + g) / k + error):
            continue
        others = numpy.flatnonzero(pool.node != node)
        others = others[numpy.argsort(pool.order[others], kind='stable')][: METHOD.node[1]]
        jobs = {job.case: job for job in pool.jobs if job.node == node and pool.node[job.case] != node}
        if len(others) < _FEWEST:
            continue
        if wanted := [case for case in others.tolist() if case not in jobs]:
            slow.wanted[node] = wanted
            continue
        values = numpy.array([job.values for job in jobs.values()])
        losses = baseline.mean - values
        by_job = [
            float(numpy.nanmean(baseline.deviations(job.values, cut)[pool.case == case])) for case, job in jobs.items()
        ]
        deviations = numpy.array(by_job) - centre[list(jobs)]
        z = (usual - float(deviations.mean())) / math.sqrt(variance * (1 + g) / len(jobs) + error)
        middle = float(numpy.nanmedian(losses))
        if z > upper(METHOD.false * METHOD.shares[2] / kinds / len(nodes)) and middle > METHOD.near * float(
            numpy.median(baseline.floor)
        ):
            p = 0.5 * math.erfc(z / math.sqrt(2))
            slow.loss[node] = (*_size(baseline.variance, losses), p)
        else:
            slow.healthy += len(jobs)
    return slow


def _size(variance: ndarray, losses: ndarray) -> tuple[float, float, float]:
    """Return the mean of jobs x M losses, weighted by the precision of each series, and its 95 % interval."""
    there = numpy.isfinite(losses)
    weight = numpy.where(there, 1 / variance, 0.0)
    total = float(weight.sum())
    loss = float(numpy.where(there, losses * weight, 0.0).sum() / total)
    spread = float((numpy.where(there, weight * (losses - loss) ** 2, 0.0)).sum() / max(there.sum() - 1, 1))
    half = 1.96 * math.sqrt(max(spread, 1.0) / total)
    return loss, loss - half, loss + half


def _by_case(pool: Pool, values: ndarray) -> ndarray:
    """Return the mean over the series of each case, cases x N, of M x N values; NaN where a case has no value."""
    means = numpy.full((pool.cases, values.shape[1]), numpy.nan)
    for column in range(values.shape[1]):
        there = numpy.isfinite(values[:, column])
        count = numpy.bincount(pool.case[there], minlength=pool.cases)
        total = numpy.bincount(pool.case[there], values[there, column], minlength=pool.cases)
        means[:, column] = numpy.where(count > 0, total / numpy.maximum(count, 1), numpy.nan)
    return means


def _offsets(pool: Pool, rest: ndarray, variance: float) -> dict[int, tuple[float, float]]:
    """Return for each node its usual difference from the others, over all cases, and the variance of this difference.

    It is the mean on the node in the sessions of the baseline, shrunk to 0 as far as the means of all nodes scatter by
    chance.
    """
    if pool.before.shape != rest.shape:
        return {}
    there = (pool.before >= 0) & numpy.isfinite(rest)
    codes, values = pool.before[there], rest[there]
    if not len(codes):
        return {}
    nodes, places, count = numpy.unique(codes, return_inverse=True, return_counts=True)
    means = numpy.bincount(places, values) / count
    between = max(float((means**2).mean() - (variance / count).mean()), 0.0)
    weight = between / (between + variance / count)
    return {
        int(node): (float(mean * own), float(between * (1 - own)))
        for node, mean, own in zip(nodes, means, weight, strict=True)
    }

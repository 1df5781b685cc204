# SPDX-License-Identifier: BSD-3-Clause
"""What jobs on each node usually lose, by the sessions of the baseline: no loss of tonight."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.method import METHOD
from postprocess.statistics.pool import Pool

ENOUGH = 8  # fewest cases of a night whose median is the level of the night


def recorded_levels(expected: Expected, pool: Pool) -> ndarray:
    """Return the levels of the jobs of the baselines, cases x N, without that of their night; NaN where not known."""
    baseline, g = expected.baseline, expected.g[:, None]
    levels = numpy.where((baseline.n >= METHOD.short)[:, None], baseline.deviations(baseline.sessions), math.nan)
    known = [len(numpy.unique(pool.case[numpy.isfinite(session)])) >= ENOUGH for session in levels.T]
    centre = numpy.full(levels.shape[1], math.nan)
    centre[known] = numpy.nanmedian(levels[:, known], axis=0)
    # a baseline is closer to its own mean than a session to come
    levels = (levels - centre) * numpy.sqrt((1 + g) / numpy.maximum(1 - g, 0.5))
    return pool.by_case(numpy.clip(levels, -METHOD.cut[0], METHOD.cut[0]), numpy.ones(len(levels)))


def beyond_usual(expected: Expected, jobs: ndarray, pool: Pool, recorded: ndarray) -> tuple[ndarray, Pool]:
    """Return the jobs, and the pool with its own, each without what the slowest of its nodes usually loses."""
    usual = _usual(pool, recorded)
    if not usual:
        return jobs, pool
    sd, jobs, slowest = expected.baseline.sd, jobs.copy(), dict[tuple[int, int, int], float]()
    for night, case, job, node in pool.ran.tolist():
        slowest[night, case, job] = max(slowest.get((night, case, job), 0.0), usual.get(node, 0.0))
    for (night, case, job), loss in slowest.items():
        own = pool.series(case)
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

# SPDX-License-Identifier: BSD-3-Clause
"""What jobs on each node usually lose, by the sessions of the baseline: no loss of tonight."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import Expected
from postprocess.statistics.distributions import MAD_OF_NORMAL
from postprocess.statistics.method import METHOD
from postprocess.statistics.pool import Pool

_OF_MEDIAN = math.pi / 2  # variance of a median of normal values in that of their mean
_SURE, _FEWEST = 3.0, 3  # standard errors, and jobs, from which on a node's usual loss is no chance
ENOUGH = 8  # fewest cases of a night whose median is the level of the night


def recorded_levels(expected: Expected, pool: Pool) -> ndarray:
    """Return the levels of the jobs of the baselines, cases x N, without that of their night; NaN where not known."""
    baseline, cut = expected.baseline, METHOD.cut[0]
    levels = _beside_the_night(expected, pool, baseline.deviations(baseline.sessions))
    return pool.by_case(numpy.clip(levels, -cut, cut), numpy.ones(len(levels)))


def beyond_usual(expected: Expected, jobs: ndarray, pool: Pool) -> tuple[ndarray, Pool]:
    """Return the jobs, and the pool with its own, each without what the slowest of its nodes usually loses.

    Only of series with a recorded baseline, whose level the node shares: a published number is that of a good node.
    """
    usual = _usual(expected, pool)
    if not usual:
        return jobs, pool
    recorded = numpy.isfinite(expected.baseline.sessions).any(axis=1)
    jobs, slowest = jobs.copy(), dict[tuple[int, int, int], float]()
    for night, case, job, node in pool.ran.tolist():
        slowest[night, case, job] = max(slowest.get((night, case, job), 0.0), usual.get(node, 0.0))
    for (night, case, job), loss in slowest.items():
        own = pool.series(case)
        jobs[own, night, job] += loss * recorded[own]
    at_most = [max(usual.get(node, 0.0) for node in job.nodes) for job in pool.jobs]
    chosen = [job._replace(values=job.values + loss * recorded) for job, loss in zip(pool.jobs, at_most, strict=True)]
    return jobs, replace(pool, jobs=chosen)


def _usual(expected: Expected, pool: Pool) -> dict[int, float]:
    """Return how much jobs on each node usually lose, as logarithm; only nodes that lose.

    It is the median loss on the node in the sessions of the baseline: whole where that is no chance, else shrunk to 0
    as far as the medians of all nodes scatter by chance.
    """
    baseline = expected.baseline
    levels = _beside_the_night(expected, pool, baseline.sessions - baseline.mean[:, None])
    session, case, node = pool.recorded.T
    losses = -pool.by_case(levels, 1 / baseline.variance)[case, session]
    there = numpy.isfinite(losses)
    if not there.any():
        return {}
    losses = losses[there] - numpy.median(losses[there])
    order = numpy.argsort(node[there], kind='stable')
    nodes, starts, count = numpy.unique(node[there][order], return_index=True, return_counts=True)
    medians = numpy.array([numpy.median(own) for own in numpy.split(losses[order], starts[1:])])
    spread = float(numpy.median(abs(losses))) / MAD_OF_NORMAL
    chance = _OF_MEDIAN * spread**2 / count
    near = numpy.clip(medians, -METHOD.cut[0] * spread, METHOD.cut[0] * spread)
    between = max(float((near**2 - chance).mean()), 0.0)
    usual = medians * between / (between + chance) if between else numpy.zeros(len(nodes))
    usual = numpy.where((medians > _SURE * numpy.sqrt(chance)) & (count >= _FEWEST), medians, usual)
    return {place: loss for place, loss in zip(nodes.tolist(), usual.tolist(), strict=True) if loss > 0}


def _beside_the_night(expected: Expected, pool: Pool, levels: ndarray) -> ndarray:
    """Return levels of the sessions of the baselines, M x N, without that of their night; NaN where not known."""
    baseline, g = expected.baseline, expected.g[:, None]
    levels = numpy.where((baseline.n >= METHOD.short)[:, None], levels, math.nan)
    known = [len(numpy.unique(pool.case[numpy.isfinite(session)])) >= ENOUGH for session in levels.T]
    centre = numpy.full(levels.shape[1], math.nan)
    centre[known] = numpy.nanmedian(levels[:, known], axis=0)
    # a baseline is closer to its own mean than a session to come
    return (levels - centre) * numpy.sqrt((1 + g) / numpy.maximum(1 - g, 0.5))

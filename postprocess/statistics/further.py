# SPDX-License-Identifier: BSD-3-Clause
"""Choose the jobs that should run now, within a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.method import METHOD
from postprocess.statistics.nodes import Slow
from postprocess.statistics.pool import Pool

FURTHER = METHOD.looks[-1]  # most further jobs of a case in a session
SERIOUS = 3.0  # normal deviate of a doubt that is rarely noise
_CREDIT = 6  # sessions whose further jobs a first session may use: so 20 sessions hold the budget
_A_CASE = 2  # mean number of further jobs of a healthy case in doubt


class Budget(NamedTuple):
    """How many further jobs may run tonight: `usual` for doubts that are mostly noise, `most` in all."""

    usual: float
    most: float

    @classmethod
    def of(cls, share: float, cases: int, before: Sequence[int]) -> Budget:
        """Return the budget of a night: a `share` of the `cases`, in the mean of the last sessions.

        `before`: the number of further jobs in each of the sessions before, at most `METHOD.nights` - 1. Small doubts
        use half of it, so that losses find enough left; at least one of them may be asked.
        """
        nights = max(len(before) + 1, _CREDIT)
        most = max(share * cases * nights, FURTHER) - sum(before) if share else 0.0
        return cls(max(share * cases / 2, _A_CASE) if share else 0.0, most)


class More(NamedTuple):
    """Further jobs of a case: on the node `on`; if `on` is -1, on any node except those in `avoid`."""

    case: int
    jobs: int
    on: int = -1
    avoid: tuple[int, ...] = ()


class Doubts(NamedTuple):
    """What M series ask for: arrays of M.

    `asked`: True if it is in doubt, by the normal deviate `doubt` and the `loss` of its first job. `waits`: number of
    further jobs that are still wanted, `there`: those on the node of the first job. `strong`: True if they wait for no
    budget.
    """

    asked: ndarray
    doubt: ndarray
    loss: ndarray
    waits: ndarray
    there: ndarray
    strong: ndarray


def further_jobs(
    doubts: Doubts, slow: Slow, pool: Pool, jobs: ndarray, budget: Budget
) -> tuple[list[More], dict[int, float]]:
    """Return the jobs that should run now, and the cases in doubt that the budget leaves out, each with its loss.

    `jobs`: M x J, of tonight. Nodes in doubt come first, then cases that have further jobs already, then the largest
    doubt.
    """
    cases = pool.cases
    ran = numpy.zeros(cases, int)
    numpy.maximum.at(ran, pool.case, numpy.isfinite(jobs[:, 1:]).sum(axis=1))
    worst, wanted = numpy.full(cases, -math.inf), numpy.zeros(cases, int)
    numpy.maximum.at(worst, pool.case, numpy.where(doubts.asked, doubts.doubt, -math.inf))
    numpy.maximum.at(wanted, pool.case, numpy.where(doubts.asked, doubts.waits, 0))
    lost = numpy.full(cases, -math.inf)
    numpy.maximum.at(lost, pool.case, numpy.where(doubts.asked, doubts.loss, -math.inf))
    strong = numpy.zeros(cases, bool)
    numpy.logical_or.at(strong, pool.case, doubts.strong)
    in_doubt, nodes = {*slow.wanted, *slow.loss}, pool.nodes_of(int(pool.ran[:, 0].max(initial=-1)))
    spent = int(ran.sum()) + len(pool.jobs)
    more = []
    for node, own in slow.wanted.items():
        if spent + len(own) <= budget.most:
            more += [More(case, 1, node) for case in own]
            spent += len(own)
    there = numpy.zeros(cases, int)
    numpy.maximum.at(there, pool.case, doubts.there)
    for case in numpy.flatnonzero(there).tolist():
        if spent + there[case] <= budget.most:
            more.append(More(case, int(there[case]), nodes[case][0]))
            spent += int(there[case])
    left_out: dict[int, float] = {}
    planned = small = 0  # jobs that all cases, and those with small doubts, may still need
    for case in numpy.lexsort((-worst, ran == 0)).tolist():
        count = int(wanted[case] - ran[case])
        if count <= 0:
            continue
        is_small = worst[case] < SERIOUS and not ran[case]
        needs = _A_CASE if is_small else FURTHER - ran[case]
        fits = spent + planned + needs <= budget.most and not (is_small and spent + small + needs > budget.usual)
        if fits or (budget.most and strong[case]) or (ran[case] and spent + count <= budget.most):
            more.append(More(case, count, avoid=tuple(sorted({*in_doubt, *nodes.get(case, ())}))))
            planned += needs
            small += needs * is_small
        else:
            left_out[case] = float(lost[case])
    return more, left_out

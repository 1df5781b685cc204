# SPDX-License-Identifier: BSD-3-Clause
"""The product on a simulated site: the functions that `record`, `compare` and `ci/nightly` call, on arrays."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import numpy
from numpy import ndarray
from numpy.random import Generator

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import DEFAULT_CAP, PRIOR_DF, Tolerance, limits
from plumbline.references import Reference
from postprocess.statistics.baseline import Baseline
from postprocess.statistics.further import FURTHER, Budget
from postprocess.statistics.groups import Groups, highest
from postprocess.statistics.levels import Values, estimate
from postprocess.statistics.method import METHOD
from postprocess.statistics.night import judge
from postprocess.statistics.pool import NodeJob, Pool
from studies.simulated import Cause, Layout, Night, Run

CAP = -math.log1p(-DEFAULT_CAP)


class Product:
    """The product on one site. Values are logarithms, NaN where there is none; nodes C x S, -1 likewise.

    `looks`: values of the further jobs of the first session, M x `World.looks`; None without such jobs.
    """

    looks: ndarray | None = None

    def __init__(self, layout: Layout):
        self.layout = layout
        kinds = ((name, getattr(layout, name)) for name in ('partition', 'environ', 'case'))
        groups = [
            (name, part) for name, of in kinds for part in map(numpy.flatnonzero, of == numpy.unique(of)[:, None])
        ]
        kept = {tuple(part.tolist()): (name, part) for name, part in reversed(groups) if len(part) > 2}
        self.groups = Groups(*map(list, zip(*reversed(kept.values()), strict=True)))
        self.history = numpy.full((len(layout.case), 0, FURTHER + 1), math.nan)
        self.rng = numpy.random.default_rng(1)
        self.ran = numpy.zeros((0, 4), int)
        self.ran_before: list[int] = []
        self.recorded = numpy.zeros((0, 3), int)

    def pairs(self, rng: Generator) -> Collection[int]:
        """Return the cases that run twice in a session of the baseline: at random, on average as the budget allows."""
        return numpy.flatnonzero(rng.random(self.layout.cases) < METHOD.budget[0]).tolist()

    def record(self, first: ndarray, nodes: ndarray, again: ndarray, elsewhere: ndarray) -> None:
        """Keep the baseline that `record propose` computes from n sessions: M x n values on C x S x n nodes.

        `again`, `elsewhere`: values and nodes of second jobs.
        """
        of = self.layout
        case, place, session = numpy.nonzero(nodes >= 0)
        self.recorded = numpy.stack([session, case, nodes[case, place, session]], axis=1)
        there = numpy.isfinite(first)
        looks = [{}] * len(first) if self.looks is None else [{0: numpy.exp(row)} for row in self.looks]
        levels = estimate([
            Values(numpy.exp(row[known]), numpy.flatnonzero(known), 1, usual, of.floor, look)
            if known.any() else Values(numpy.ones(1), numpy.zeros(1, int))
            for row, known, usual, look in zip(first, there, of.usual, looks, strict=True)
        ])  # fmt: skip
        prior = numpy.array([(level.usual or usual) ** 2 for level, usual in zip(levels, of.usual, strict=True)])
        used = there.copy()
        for row, level in enumerate(levels):
            used[row, there[row]] = level.used if there[row].any() else False
        m = len(of.case)
        mean = numpy.nanmean(numpy.where(used, first, numpy.nan), axis=1)
        for row, level in enumerate(levels):
            if level.worse is not None:
                mean[row] = numpy.log(level.worse).mean()
        self.baseline = Baseline(
            mean=mean,
            variance=numpy.array([level.variance or usual for level, usual in zip(levels, prior, strict=True)]),
            df=numpy.array([level.df or PRIOR_DF for level in levels]), n=used.sum(axis=1).astype(float), prior=prior,
            assumed=numpy.array([level.variance is None for level in levels]), floor=numpy.full(m, of.floor),
            cap=numpy.full(m, CAP), weight=numpy.ones(m), sessions=first, second=again,
        )  # fmt: skip
        self.noticed = float(numpy.median([self._detectable(row) for row in range(m)]))

    def _detectable(self, row: int) -> float:
        """Return the loss that a series notices, as `plumbline compare --coverage` tells it."""
        of = self.baseline
        n = max(int(of.n[row]), 1)
        known = {'spread': math.sqrt(of.variance[row]), 'df': of.df[row], 'spread_n': n}
        reference = Reference(
            SeriesId('', '', '', (), ''), Quantity('', 'higher'), 1.0, None, n, 'baseline', '', **known
        )
        return limits(reference, Tolerance(usual_spread=self.layout.usual[row])).detectable or math.nan

    def night(self, first: ndarray, nodes: ndarray, run: Run) -> Night:
        """Judge a night, and run the further jobs that the rule asks for."""
        of, m = self.layout, len(first)
        tonight = numpy.full((m, 1, FURTHER + 1), math.nan)
        tonight[:, 0, 0] = first
        self.history = numpy.concatenate([self.history, tonight], axis=1)
        judged = numpy.flatnonzero(numpy.isfinite(first) & numpy.isfinite(self.baseline.mean))
        baseline = replace(
            self.baseline,
            **{
                name: column[judged]
                for name, column in vars(self.baseline).items()
                if name in Baseline.__dataclass_fields__
            },
        )
        place = numpy.full(m, -1)
        place[judged] = numpy.arange(len(judged))
        parts = [
            (kind, place[part][place[part] >= 0])
            for kind, part in zip(self.groups.kinds, self.groups.members, strict=True)
        ]
        parts = [(kind, part) for kind, part in parts if len(part) > 2]
        groups = Groups(*map(list, zip(*parts, strict=True))) if parts else Groups()
        order = self.rng.permutation(of.cases)
        share = METHOD.budget[float(numpy.median(baseline.n)) >= METHOD.many]
        cases = len(numpy.unique(of.case[judged]))
        before = self.ran_before[1 - METHOD.nights :]
        budget = Budget.of(share, cases, before)
        tonight_is, checks, further = self.history.shape[1] - 1, [], 0

        def note(case: int, job: int, on: ndarray) -> None:
            """Note the nodes of a job of tonight."""
            rows = [(tonight_is, case, job, node) for node in on.tolist() if node >= 0]
            self.ran = numpy.concatenate([self.ran, numpy.array(rows, int).reshape(-1, 4)])

        for case in range(of.cases):
            note(case, 0, nodes[case])
        while True:
            jobs = self.history[judged]
            pool = Pool(of.case[judged], of.cases, self.ran, order, numpy.arange(of.cases), checks, self.recorded)
            answer = judge(baseline, jobs, pool, groups, budget)
            if not answer.more:
                break
            for case, count, on, avoid in answer.more:
                part = of.series(case)
                further += count
                for _ in range(count):
                    values, ran_on = (
                        run(case, on) if on >= 0 else run(case, avoid=avoid if of.nodes > len(avoid) + 4 else ())
                    )
                    if on >= 0:
                        whole = numpy.full(m, math.nan)
                        whole[part] = values
                        checks.append(
                            NodeJob(tuple(node for node in ran_on.tolist() if node >= 0), case, whole[judged])
                        )
                    else:
                        row = self.history[part, -1]
                        k = int(numpy.isfinite(row).any(axis=0).sum())
                        self.history[part, -1, k] = values
                        note(case, k, ran_on)
        self.ran_before.append(further)
        red, loss, low, high = (numpy.full(m, math.nan) for _ in range(4))
        loss[judged], low[judged], high[judged] = (
            numpy.where(answer.red, of, math.nan) for of in (answer.loss, answer.low, answer.high)
        )
        red = numpy.zeros(m, bool)
        red[judged] = answer.red & ~answer.slow.explained  # what a slow node explains is told as the node
        chosen = highest(groups, answer.common, answer.red & ~answer.slow.explained)
        common = [Cause(groups.kinds[index], frozenset(judged[groups.members[index]].tolist())) for index in chosen]
        return Night(red, loss, low, high, common, list(answer.slow.loss))

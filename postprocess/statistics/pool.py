# SPDX-License-Identifier: BSD-3-Clause
"""Where the jobs of the last sessions ran: their cases and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy
from numpy import ndarray


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

    @cached_property
    def _series(self) -> list[ndarray]:
        order = numpy.argsort(self.case, kind='stable')
        return numpy.split(order, numpy.searchsorted(self.case[order], numpy.arange(1, self.cases)))

    def series(self, case: int) -> ndarray:
        """Return the indices of the series of a case."""
        return self._series[case]

    def nodes_of(self, night: int) -> dict[int, tuple[int, ...]]:
        """Return case -> nodes of its first job in a night."""
        nodes: dict[int, tuple[int, ...]] = {}
        for case, node in self.ran[(self.ran[:, 0] == night) & (self.ran[:, 2] == 0)][:, [1, 3]].tolist():
            nodes[case] = (*nodes.get(case, ()), node)
        return nodes

    def by_case(self, values: ndarray, weight: ndarray) -> ndarray:
        """Return the weighted mean over the series of each case, cases x N, of M x N values; NaN without a value."""
        order = numpy.argsort(self.case, kind='stable')
        cases, starts = numpy.unique(self.case[order], return_index=True)
        there = numpy.isfinite(values[order])
        own = weight[order][:, None] * there
        total = numpy.add.reduceat(own * numpy.where(there, values[order], 0.0), starts, axis=0)
        count = numpy.add.reduceat(own, starts, axis=0)
        means = numpy.full((self.cases, values.shape[1]), numpy.nan)
        means[cases] = numpy.where(count > 0, total / numpy.where(count > 0, count, 1), numpy.nan)
        return means

# SPDX-License-Identifier: BSD-3-Clause
"""The base of HPL and HPCG: a table of implementations, a quick and a full size, 1, 2, 4, ... nodes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.reading.metrics import Metric, Spread
from checks.core.topology import Topology, features_of_this_system, node_counts

MOST_STRONG = 8  # most nodes that solve the problem of one node together


class Implementation(NamedTuple):
    """A program for the benchmark. `block_size`: the usual one of HPL. `output`: the file in which HPCG writes."""

    feature: str
    executable: str
    options: Sequence[str] = ()
    on_gpus: bool = False
    block_size: int = 0
    output: str = 'stdout'


def offered_here(implementations: Mapping[str, Implementation]) -> list[str]:
    """Return the implementations that a stack of this system offers; else the first, as a parameter needs a value."""
    offered = features_of_this_system()
    return [name for name, row in implementations.items() if row.feature in offered] or list(implementations)[:1]


class ScaledBenchmark(Benchmark):
    """A check with several `implementations`, of which the parameter `implementation` chooses `self.program`."""

    trials = FEW_TRIALS
    # HPL of 20 runs: 0.05 % (001, Table 59); between sessions the clock of the slowest core counts
    usual_spread = Spread(0.01, floor=0.03)
    implementations: Mapping[str, Implementation]
    solver: str  # dense or sparse
    intensity: str  # high, or the metric of the bytes that the program moves
    size = parameter(['quick', 'full'], loggable=True)
    nodes = parameter(node_counts())
    mpi = True

    def supports(self, topology: Topology) -> bool:
        if self.program.on_gpus and not topology.gpus:
            return False
        if self.size == 'strong' and not 1 < self.nodes <= MOST_STRONG:
            return False
        return self.nodes == 1 or (self.size != 'quick' and self.nodes <= topology.nodes_of_partition)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the site states for this benchmark."""
        return self.partition.benchmarks.get(self.program.feature, {})

    @property
    def nodes_that_it_fills(self) -> int:
        return 1 if self.size == 'strong' else self.nodes

    @property
    def peak(self) -> float | None:
        """The Flop/s of a node for `peak_fraction`; None on GPUs, since sites state the peak of the processors."""
        peaks = self.partition.peaks | self.partition.published_peaks
        return None if self.program.on_gpus else peaks.get('flops_dp')

    def with_figures(self, metrics: list[Metric]) -> list[Metric]:
        """Return the metrics with what follows from the rate `gflops`.

        A share of a peak from a document may be above 1: cores may run faster, up to `flops_dp` of `peaks`.
        """
        rate: dict[str, Any] = {'solver': self.solver}
        if self.nodes == 1 and not self.program.on_gpus:  # the peaks of processors do not bound GPUs
            rate['intensity'] = self.intensity
        if self.size != 'quick':
            rate['scaling'] = 'weak'
        if self.size == 'strong':
            rate |= {'scaling': 'strong', 'one_node': {'size': 'full'}}
        of_document = math.inf if 'flops_dp' in self.partition.published_peaks else None
        more: dict[str, dict[str, Any]] = {'gflops': {'figures': rate}, 'peak_fraction': {'peak': of_document}}
        return [replace(metric, **more.get(metric.name, {})) for metric in metrics]

    @run_after('init')
    def choose(self):
        self.tags = {'quick', 'nightly', 'acceptance'} if self.size == 'quick' else {'acceptance'}
        self.program = self.implementations[self.implementation]
        self.valid_prog_environs, self.executable = [f'+{self.program.feature}'], self.program.executable
        self.executable_opts = [*self.program.options]
        self.num_nodes, self.last_run = self.nodes, 'not yet on a GPU' if self.program.on_gpus else self.last_run

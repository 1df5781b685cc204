"""What HPL and HPCG share: implementations as rows of a table, a quick and a full size, growing numbers of nodes."""

from collections.abc import Mapping
from typing import Any

from reframe.core.builtins import parameter, run_after

from checks.core.benchmark import Benchmark
from checks.core.topology import current_site, node_counts


def offered_here(implementations: Mapping[str, Any]) -> list[str]:
    """Those that a stack of this system offers, for a parameter; the first where none is: ReFrame wants a value."""
    offered = {feature for environ in current_site().environs.values() for feature in environ.features}
    return [name for name, row in implementations.items() if row.feature in offered] or list(implementations)[:1]


class ScaledBenchmark(Benchmark):
    """A check that states `implementations`, rows of feature, executable, options and on_gpus, and its parameter
    `implementation`; the row chosen is `self.program`."""

    trials_by_mode = {'quick': 3, 'nightly': 3, 'acceptance': 5}
    implementations: Mapping[str, Any]
    size = parameter(['quick', 'full'], loggable=True)
    nodes = parameter(node_counts())
    mpi = True
    floor, cap = 0.03, 0.15

    def supports(self, topology):
        if self.program.on_gpus and not topology.gpus:
            return False
        return self.nodes == 1 or (self.size == 'full' and self.nodes <= topology.nodes_of_partition)

    @run_after('init')
    def choose(self):
        self.tags = {'acceptance'} if self.size == 'full' else {'quick', 'nightly', 'acceptance'}
        self.program = self.implementations[self.implementation]
        self.requires, self.executable = self.program.feature, self.program.executable
        self.executable_opts = self.program.options
        self.num_nodes = self.nodes

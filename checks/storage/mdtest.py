# SPDX-License-Identifier: BSD-3-Clause
"""mdtest: operations per second on the metadata of a parallel or local file system."""

from collections.abc import Collection

import reframe as rfm
from reframe.core.builtins import parameter, variable

from checks.core.placement import Execution, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Spread
from checks.core.topology import Topology
from checks.storage.mdtest_output import OPERATIONS, faults_of, metrics_of
from checks.storage.storage import CLIENT_COUNTS, FILE_SYSTEMS, SPREAD, StorageBenchmark, in_job_directory, mapped
from plumbline.record import Dim

# Options of each workload
WORKLOADS = {
    'easy_unique': '-F -u',  # mdtest-easy of IO500: empty files, a directory for each rank
    'easy_shared': '-F',
    'hard_unique': '-F -u -w 3901 -e 3901',
    'hard_shared': '-F -w 3901 -e 3901',  # mdtest-hard of IO500
    'directories_unique': '-D -u',
    'directories_shared': '-D',
}
QUICK = ('easy_unique', 'hard_shared')
ITEMS_OF_RANK = {'quick': 200, 'nightly': 1000, 'full': 10000}
SLOW = 200  # operations/s of one rank, for estimates; a short trial is ended at a tenth of it, a long one at a quarter


class MdtestBenchmark(StorageBenchmark):
    """A check has `workloads`.

    Parses the mean of ``File creation  47811.958  37993.605  41276.148  5660.196``: max, min, mean, std of the
    iterations. `operations` are those of all ranks together, `operations_per_process` of one. Each node stats what the
    next node made, and reads what the node after that made. On one node its own cache of names and attributes answers
    both, on two nodes it answers read.
    """

    valid_prog_environs = ['+mdtest']
    executable = 'mdtest'
    dims = {'place': Dim('name'), 'operation': Dim('name')}
    usual_spread = Spread(SPREAD, floor=0.20)
    iterations = variable(int, value=3)
    workloads: Collection[str]

    def add_runs(self):
        items_of_rank = ITEMS_OF_RANK[self.size]
        self.items = items_of_rank * self.ranks
        stride = self.placement.ranks_per_node if self.num_nodes > 1 else 1
        for name in self.workloads:
            words = f'{WORKLOADS[name]} -n {items_of_rank} -i {self.iterations} -N {stride} -d'
            self.runs[name] = Execution([*words.split(), in_job_directory(name)])
            item = 'Directory' if '-D' in WORKLOADS[name] else 'File'
            self.metrics += metrics_of(name, item, OPERATIONS[item], name)
        self.need_inodes = self.items + 2 * self.ranks + 16
        self.need_bytes = self.need_inodes * 4096  # a block each
        operations = 4 * self.items * self.iterations * len(self.workloads)
        self.estimate(operations / (SLOW * self.ranks))

    def sanity_faults(self, run: Run) -> list[str]:
        faults = faults_of(run.output, self.ranks, self.num_nodes, self.items, self.iterations)
        return super().sanity_faults(run) + faults


@rfm.simple_test
class Mdtest(MdtestBenchmark):
    """Creation, stat, read and removal of files and directories, as in IO500."""

    descr = 'mdtest, metadata rates of a file system'
    file_system = parameter(FILE_SYSTEMS, loggable=True)
    size = parameter(['quick', 'nightly', 'full'], loggable=True)
    nodes = parameter(CLIENT_COUNTS)

    @property
    def workloads(self) -> Collection[str]:
        return QUICK if self.size == 'quick' else WORKLOADS


@rfm.simple_test
class MdtestRanks(MdtestBenchmark):
    """10 000 empty files of each of 2 to 16 processes on 1 to 8 nodes, in one directory (001, section 6.2.4).

    There, one process per node was best: more of them did fewer operations together.
    """

    descr = 'mdtest, numbers of processes'
    dims = MdtestBenchmark.dims | {'processes': Dim('count')}
    file_system = parameter(FILE_SYSTEMS, loggable=True)
    processes = parameter([2, 4, 8, 16], loggable=True)
    nodes = parameter([count for count in CLIENT_COUNTS if count <= 8])
    size = 'full'
    workloads = ['easy_shared']

    def supports(self, topology: Topology) -> bool:
        of_node, rest = divmod(self.processes, self.nodes)
        return not rest and of_node <= len(topology.cores) and super().supports(topology)

    def placement_of_node(self):
        return one_rank_on(mapped(self.topology, 'core', self.processes // self.nodes))

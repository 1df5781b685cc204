"""mdtest: operations a second on the metadata of a parallel or local file system."""

from typing import NamedTuple

import reframe as rfm

from checks.core.metrics import Metric
from checks.core.topology import node_counts
from checks.storage.storage import HERE, StorageBenchmark, file_systems
from checks.storage.storage_output import mdtest_faults, mdtest_row

FILES = {'creation': 'File creation', 'stat': 'File stat', 'read': 'File read', 'removal': 'File removal'}
DIRECTORIES = {'creation': 'Directory creation', 'stat': 'Directory stat', 'removal': 'Directory removal'}


class Kind(NamedTuple):
    options: str
    rows: dict[str, str]
    bytes_of_file: int = 0


KINDS = {
    'easy_unique': Kind('-F -u', FILES),  # mdtest-easy of IO500: empty files, a directory for each rank
    'easy_shared': Kind('-F', FILES),
    'hard_unique': Kind('-F -u -w 3901 -e 3901', FILES, 3901),
    'hard_shared': Kind('-F -w 3901 -e 3901', FILES, 3901),  # mdtest-hard of IO500
    'directories_unique': Kind('-D -u', DIRECTORIES),
    'directories_shared': Kind('-D', DIRECTORIES),
}
QUICK = ('easy_unique', 'hard_shared')
ITEMS_OF_RANK = {'quick': 200, 'nightly': 1000, 'full': 10000}
SLOWEST = 50  # operations/s of all ranks; a trial that goes on for longer is taken for hung


@rfm.simple_test
class Mdtest(StorageBenchmark):
    """Rates of creation, stat, read and removal, ``<kind>_<operation>`` in 1/s of all ranks together; as in IO500.

    Parses ``File creation  47811.958  37993.605  41276.148  5660.196``: max, min, mean, std of the iterations; the
    mean is taken. Each rank stats what the next node made, reads what the one after that made, and so on; on a single
    node its cache of names and attributes answers stat and read, on two nodes read.
    """

    descr = 'mdtest'
    offers = 'mdtest'
    executable = 'mdtest'
    file_system = parameter(file_systems(), loggable=True)
    size = parameter(['quick', 'nightly', 'full'], loggable=True)
    nodes = parameter(node_counts())
    iterations = variable(int, value=3)

    @run_after('setup')
    def choose_runs(self):
        each = ITEMS_OF_RANK[self.size]
        self.items = each * self.ranks
        stride = self.placement.ranks_per_node if self.num_nodes > 1 else 1
        self.metrics = []
        chosen = {name: kind for name, kind in KINDS.items() if self.size != 'quick' or name in QUICK}
        for name, kind in chosen.items():
            words = f'{kind.options} -n {each} -i {self.iterations} -N {stride} -d {HERE}/{name}'
            self.runs[name] = words.split()
            for operation, row in kind.rows.items():
                self.metrics.append(Metric(f'{name}_{operation}', 'ops/s', 'higher', mdtest_row(row), run=name))
                if self.num_nodes > 1:
                    ranks = (r'was launched with (\d+) total',)
                    metric = f'{name}_{operation}_per_process'
                    self.metrics.append(Metric(metric, 'ops/s', 'higher', mdtest_row(row), per=ranks, run=name))
        self.need_inodes = self.items + 2 * self.ranks + 16
        self.need_bytes = self.need_inodes * 4096  # a block for each, whatever it holds
        operations = 4 * self.items * self.iterations * len(chosen)
        self.trial_time_limit = 120 + operations // (SLOWEST * self.ranks)

    def sanity_faults(self, output):
        return mdtest_faults(output, self.ranks, self.num_nodes, self.items, self.iterations)

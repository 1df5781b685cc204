"""What IOR and mdtest share: a file system of the partition, a directory of the job's own on it, and its guard."""

import math
import shlex
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from reframe.core.builtins import run_after, run_before

from checks.core.benchmark import Benchmark
from checks.core.jobscript import ShellText
from checks.core.node_sweep import swept_nodes
from checks.core.placement import Placement, ranks_with_threads
from checks.core.topology import Topology, current_site, node_counts, topologies, topology_of
from checks.core.trials import text_of
from checks.storage.storage_output import complaint_of
from plumbline.paths import results_directory
from plumbline.sites import FileSystem, Partition

HERE = '"$storage_dir"'  # in options: the job's directory, which has its name only when the job runs


class Kind(NamedTuple):
    """One of the kinds in ``site.yaml``. `types`: the kernel's names of it; `*`: any."""

    types: str
    on_all_nodes: bool = False
    of_one_node: bool = False  # each node has one of its own, of which the others see nothing
    own_cache: bool = False  # which nobody can empty, instead of the kernel's
    direct: bool = True  # whether O_DIRECT means something there


KINDS = {
    'lustre': Kind('lustre', on_all_nodes=True),
    'gpfs': Kind('gpfs', on_all_nodes=True, own_cache=True),
    'beegfs': Kind('beegfs beegfs_nodev', on_all_nodes=True),
    'nfs': Kind('nfs nfs4', on_all_nodes=True),
    'local': Kind('ext2 ext3 ext4 xfs btrfs f2fs overlay', of_one_node=True),
    'zfs': Kind('zfs', of_one_node=True, own_cache=True),
    'tmpfs': Kind('tmpfs', of_one_node=True, direct=False),
    'shared': Kind('*', on_all_nodes=True, own_cache=True),
    'any': Kind('*'),
}


def file_systems() -> list[str | None]:
    """The names of all partitions of the current system, for a parameter; ReFrame wants a value where there is none."""
    names = {name for partition in current_site().partitions.values() for name in partition.file_systems}
    return sorted(names) or [None]


def client_counts() -> list[int]:
    """Numbers of nodes for a parameter; one where there is no file system, or ReFrame would make cases for nothing."""
    return node_counts() if file_systems() != [None] else [1]


def partition_of(topology: Topology) -> Partition:
    site = current_site()
    described = (each for each in site.partitions.values() if each.processor)
    return next(each for each in described if topology_of(site.name, each.name) is topology)


def ranks_of_node(topology: Topology) -> Placement:
    """One on each of up to 16 cores, spread over the NUMA domains: a node's file system client needs no more."""
    ranks = min(16, len(topology.cores))
    return ranks_with_threads(topology, ranks, 1)


MAPPINGS = ('core', 'socket')


def mapped(topology: Topology, mapping: str, ranks: int) -> tuple[int, ...]:
    """The cores of the first `ranks` ranks by their first hardware threads: one socket after the other is filled
    (`core`), or the sockets take turns (`socket`)."""
    sockets = [topology.cpus_in(socket) for socket in topology.sockets]
    order = chain(*sockets) if mapping == 'core' else chain(*zip_longest(*sockets))
    return tuple(cpu for cpu in order if cpu is not None)[:ranks]


def rank_counts(topology: Topology | None = None) -> list[int]:
    """1, 2, 4, ... and all cores of such a node, or of each partition of the current system, for a parameter."""
    cores = {len(each.cores) for each in ([topology] if topology else [found for _, found in topologies()])}
    return sorted({2**power for count in cores for power in range(count.bit_length())} | cores) or [1]


def in_job_directory(path: str) -> ShellText:
    """Return `path` below the job's directory, as an option of a program."""
    return ShellText(f'{HERE}/{path}')


class StorageBenchmark(Benchmark):
    """Has the parameter `file_system`, and `nodes`; `size` is quick, nightly or full, and full alone runs on several.

    The check fills `runs` and `metrics` and states in `need_bytes` and `need_inodes` what it needs at most at any time,
    and sets `trial_time_limit`. Each path in its options is `in_job_directory`.
    """

    trials_by_mode = {'quick': 3, 'nightly': 3, 'acceptance': 5}
    mpi = True
    facts = ('storage.txt', 'provenance.txt')
    need_bytes: int
    need_inodes: int

    def supports(self, topology):
        found = partition_of(topology).file_systems.get(self.file_system)
        if found is None or (self.nodes > 1 and not KINDS[found.kind].on_all_nodes):
            return False
        if swept_nodes() and not KINDS[found.kind].of_one_node:
            return False  # the guard knows of one job on a file system, not of one from each node
        return self.nodes == 1 or (self.size == 'full' and self.nodes <= topology.nodes_of_partition)

    @run_after('init')
    def choose_mode(self):
        self.tags = {
            'quick': {'quick', 'nightly', 'acceptance'}, 'nightly': {'nightly', 'acceptance'}, 'full': {'acceptance'}
        }[self.size]  # fmt: skip
        self.num_nodes = self.nodes

    @run_after('setup')
    def look_at_the_file_system(self):
        self.storage: FileSystem = self.partition.file_systems[self.file_system]
        self.kind = KINDS[self.storage.kind]
        self.placement = self.placement_of_node()
        self.ranks = self.placement.ranks_per_node * self.num_nodes
        self.env_vars['PLUMBLINE_RESULTS'] = str(results_directory().resolve())  # a path of site.yaml may say it

    def placement_of_node(self) -> Placement:
        return ranks_of_node(self.topology)

    @run_before('run')
    def work_in_a_directory_of_its_own(self):
        """Open it when programs are found, close it after the last trial."""
        asked = self.storage
        # much later than the job can end: what is there by then was left behind
        seconds = 86400 + self.trials * self.trial_time_limit
        kib = math.ceil(self.need_bytes / 1024)
        numbers = (kib, self.need_inodes, asked.max_percent_of_free, asked.min_percent_left, seconds)
        stripes = (asked.stripe_count or '', int(asked.stripe_size or 0) or '')
        words = shlex.join([self.kind.types, *map(str, (*numbers, *stripes))])
        # the shell of the job puts its variables into the path
        opened = ['source ./storage.sh', f'storage_open "{asked.path}" {words}']
        self.before_trials, self.after_trials = opened, ['storage_close']

    def job_faults(self):
        """A refusal comes first: it is why the job ended."""
        refused = Path(self.stagedir) / 'refused'
        said = [f'refused: {refused.read_text(encoding="utf-8").strip()}'] if refused.exists() else []
        return said + super().job_faults()

    def complaints(self, folder):
        """Both programs print errors to standard output, before MPI_ABORT fills the other one."""
        return complaint_of(text_of(folder / 'stdout'))

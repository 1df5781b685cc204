# SPDX-License-Identifier: BSD-3-Clause
"""The base of IOR and mdtest: a file system of the partition, and a guarded directory of the job on it."""

import math
import shlex
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from reframe.core.builtins import run_after, run_before

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.budget import limit_of_trial
from checks.core.job.node_sweep import swept_nodes
from checks.core.job.script import ShellText
from checks.core.placement import Placement, ranks_with_threads
from checks.core.reading.causes import Run, said
from checks.core.reading.outputs import text_of
from checks.core.topology import Topology, node_counts, on_this_system
from checks.storage.ior_output import complaint_of
from plumbline.paths import results_directory
from plumbline.site.sites import FileSystem

START_OF_RUN = 2  # seconds
SPREAD = 0.1  # single runs differ by 10 % and more (001, Table 33); other users share servers and network
HERE = '"$storage_dir"'  # the job's directory, which gets its name when the job runs


class Kind(NamedTuple):
    """A `kind` of ``site.yaml``. `types`: the kernel's names of it; `*`: any."""

    types: str
    on_all_nodes: bool = False
    of_one_node: bool = False  # each node has its own
    own_cache: bool = False  # beside the kernel's; cannot be emptied
    direct: bool = True  # O_DIRECT has an effect

    def serves(self, nodes: int) -> bool:
        """Return True if so many nodes share it; of a node sweep each must have its own: the guard expects one job."""
        return (nodes == 1 or self.on_all_nodes) and (self.of_one_node or not swept_nodes())


FILE_SYSTEM_KINDS = {
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


FILE_SYSTEMS = on_this_system(lambda topology: topology.file_systems)
#: Numbers of nodes for a parameter; only 1 if there is no file system, as ReFrame would make tests for nothing.
CLIENT_COUNTS = node_counts() if FILE_SYSTEMS != [None] else [1]
MAPPINGS = ('core', 'socket')


def ranks_of_node(topology: Topology) -> Placement:
    """Return a placement of up to 16 ranks over the NUMA domains, enough for the file system client of a node."""
    return ranks_with_threads(topology, min(16, len(topology.cores)), 1)


def mapped(topology: Topology, mapping: str, ranks: int) -> tuple[int, ...]:
    """Return CPUs of the ranks, which fill one socket after the other (`core`) or the sockets in turn (`socket`)."""
    sockets = [topology.cpus_in(socket) for socket in topology.sockets]
    order = chain(*sockets) if mapping == 'core' else chain(*zip_longest(*sockets))
    return tuple(cpu for cpu in order if cpu is not None)[:ranks]


def rank_counts(topology: Topology) -> list[int]:
    """Return 1, 2, 4, ... and all cores of a node, and 1, 2, 4, ... of each socket."""
    cores, sockets = len(topology.cores), len(topology.cpus_by_socket())
    counts = {each * 2**power for each in (1, sockets) for power in range(cores.bit_length())}
    return sorted({count for count in counts if count <= cores} | {cores})


def in_job_directory(path: str) -> ShellText:
    """Return `path` below the job's directory, as an option of a program."""
    return ShellText(f'{HERE}/{path}')


def opening(storage: FileSystem, kind: Kind, need_bytes: float, need_inodes: int, seconds: float) -> str:
    """Return the command that opens the job's directory, if the file system has what it needs.

    `seconds`: the age from which what is there was left behind by another job.
    """
    numbers = (
        math.ceil(need_bytes / 1024), need_inodes, storage.max_percent_of_free, storage.min_percent_left, seconds,
        storage.stripe_count or '', int(storage.stripe_size or 0) or '',
    )  # fmt: skip
    # The shell expands the path
    return f'storage_open "{storage.path}" {shlex.join([kind.types, *map(str, numbers)])}'


class StorageBenchmark(Benchmark):
    """A check with `file_system`, `nodes` and `size`: quick, nightly or full, of which only full uses several nodes.

    In `add_runs` it fills `runs` and `metrics`, with paths `in_job_directory`, calls `estimate`, and sets `need_bytes`
    and `need_inodes` to the most that it needs at any time.
    """

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), ext4 and tmpfs'
    trials = FEW_TRIALS
    mpi = True
    trial_seconds: Any = {'quick': 7, 'nightly': 60, 'full': 1800}  # before their sizes are known

    def supports(self, topology: Topology) -> bool:
        file_system = topology.file_systems.get(self.file_system)
        if file_system is None or not FILE_SYSTEM_KINDS[file_system.kind].serves(self.nodes):
            return False
        return self.nodes == 1 or (self.size == 'full' and self.nodes <= topology.nodes_of_partition)

    @run_after('init')
    def choose_mode(self):
        modes = ('quick', 'nightly', 'acceptance')
        self.tags = {*modes[('quick', 'nightly', 'full').index(self.size) :]}
        self.num_nodes = self.nodes

    @run_after('setup')
    def choose_runs(self):
        self.storage: FileSystem = self.partition.file_systems[self.file_system]
        self.kind = FILE_SYSTEM_KINDS[self.storage.kind]
        self.placement = replace(self.placement_of_node(), must_carry=None)  # its bytes go to file servers
        self.ranks = self.placement.ranks_per_node * self.num_nodes
        self.env_vars['PLUMBLINE_RESULTS'] = str(results_directory().resolve())  # for paths of site.yaml
        self.metrics = []
        self.add_runs()

    def add_runs(self):
        """Fill `runs` and `metrics`, and say what they need."""
        raise NotImplementedError

    def placement_of_node(self) -> Placement:
        return ranks_of_node(self.topology)

    def estimate(self, seconds: float):
        """Set the time limit of a trial, and in the full cases its seconds, from those of its work at a low speed."""
        slow = math.ceil(seconds + START_OF_RUN * len(self.runs))
        self.trial_seconds = slow if self.size == 'full' else self.trial_seconds
        self.trial_time_limit = self.trial_time_limit or limit_of_trial(slow)

    @run_before('run')
    def work_in_a_directory_of_its_own(self):
        """Open the directory after the stack was activated, close it after the last trial."""
        seconds = 86400 + self.trials * self.trial_time_limit  # what is there a day after the job, the job left behind
        opens = opening(self.storage, self.kind, self.need_bytes, self.need_inodes, seconds)
        self.prerun_cmds = ['source ./storage.sh', opens]
        self.postrun_cmds = ['storage_close']

    def sanity_faults(self, run: Run) -> list[str]:
        """Return the error that the program printed to standard output, before MPI_ABORT fills standard error."""
        return said(complaint_of(text_of(run.folder / 'stdout')))

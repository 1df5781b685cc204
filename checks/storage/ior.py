# SPDX-License-Identifier: BSD-3-Clause
"""IOR: bandwidth and operations per second of a parallel or local file system."""

from typing import NamedTuple

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.core.placement import Execution, one_rank_on
from checks.core.topology import features_of_this_system, on_this_system
from checks.storage.ior_output import Requested, answered_by_a_cache, faults_of, metric_of, spread_of
from checks.storage.storage import (
    CLIENT_COUNTS,
    FILE_SYSTEMS,
    HERE,
    MAPPINGS,
    StorageBenchmark,
    in_job_directory,
    mapped,
    rank_counts,
)
from plumbline.record import Dim


class Pattern(NamedTuple):
    """How IOR accesses its files. `share`: part of the case's bytes, below 1 if small transfers would take too long."""

    transfer: int  # bytes
    file_per_process: bool = False
    random: bool = False
    strided: bool = False  # ranks take turns within the file
    share: float = 1

    def of_rank(self, of_node: float, ranks: int) -> tuple[int, int]:
        """Return the bytes of a block and the segments of each rank."""
        share = of_node * self.share
        of_rank = (share if self.share == 1 else min(share, LARGEST_SMALL)) / ranks
        transfers = max(1, int(of_rank / self.transfer))
        return (self.transfer, transfers) if self.strided else (transfers * self.transfer, 1)

    def options(self, api: str, block: int, segments: int, direct: bool) -> list[str]:
        words = f'-a {api} -t {self.transfer} -b {block} -s {segments} -C -g'.split()
        words += ['-F'] * self.file_per_process + ['-z'] * self.random + ['--posix.odirect'] * direct
        words += ['-c'] * (api != 'POSIX' and not self.file_per_process)  # collective, the purpose of MPI-IO
        return [*words, '-O', 'summaryFile=summary.json', '-O', 'summaryFormat=JSON']


MIB = 2**20
PATTERNS = {
    'easy_1m': Pattern(MIB, file_per_process=True),
    'easy_4m': Pattern(4 * MIB, file_per_process=True),
    'shared_1m': Pattern(MIB),
    'shared_4m': Pattern(4 * MIB),
    'random_4k': Pattern(4096, file_per_process=True, random=True, share=1 / 16),  # IOR refuses -C with a shared file
    'hard_47008': Pattern(47008, strided=True, share=1 / 4),  # ior-hard of IO500
}
LARGEST_SMALL = 4 * 2**30  # most bytes of a node in patterns with a share below 1: 2^20 transfers of 4 KiB
SLOW_NODE = 200e6  # bytes/s, for estimates; a short trial is ended at a tenth of it, a long one at a quarter


class IORBenchmark(StorageBenchmark):
    """A check has an `api`, fills its runs with `add`, then calls `need`.

    Parses of IOR's JSON ``"bwMeanMIB": 1549.8897``, MiB/s, and of random access ``"OPsMean": 25651.6267``, 1/s: the
    mean of the repetitions. Writing includes fsync. Each rank reads what a rank of another node wrote; on a single
    node, it reads its own file after the pages were dropped.
    """

    executable = 'ior'
    dims = {'pattern': Dim('name'), 'access': Dim('name'), 'io': Dim('name')}
    floor = 0.15
    output = 'summary.json'
    repetitions = variable(int, value=3)

    @run_after('setup')
    def start_without_runs(self):
        self.requested: dict[str, Requested] = {}
        self.metrics = []

    def bytes_of_node(self) -> int:
        """Return the bytes of a node in the full cases: as the site states, else more than its caches hold."""
        return int(self.storage.size or 2 * self.topology.memory_bytes)

    def add(self, name: str, of_node: int, direct: bool = False, read: bool = True):
        """Add the runs ``<name>[_direct]_write`` and ``..._read`` of a pattern; the last one removes the files."""
        pattern, files = PATTERNS[name], f'{name}{"_direct" * direct}'
        dims = {'pattern': name} | ({'io': 'direct'} if direct else {})
        block, segments = pattern.of_rank(of_node, self.placement.ranks_per_node)
        words = [*pattern.options(self.api, block, segments, direct), '-o', in_job_directory(files)]
        for operation in ('write', 'read') if read else ('write',):
            run = f'{files}_{operation}'
            options = ['-w', '-e', *['-k'] * read] if operation == 'write' else ['-r']
            # reading again would be answered by the cache, and IOR removes files after each repetition
            times = self.repetitions if operation == 'write' else 1
            size = pattern.transfer, block, segments
            wanted = (*size, self.ranks, self.num_nodes, times, pattern.file_per_process)
            self.requested[run] = Requested(operation, self.api, *wanted)
            drops = operation == 'read' and not direct and self.num_nodes == 1  # the cache of the node that wrote
            before = f'storage_drop {HERE}/{files}*' if drops else ''
            self.runs[run] = Execution([*words, *options, '-i', str(times)], before=before)
            if operation == 'write' or direct or self.num_nodes > 1 or not self.kind.own_cache:
                self.metrics.append(metric_of(pattern.random, dims | {'access': operation}, run=run))

    def need(self):
        """Set the bytes, inodes and time that the runs need; each pattern removes its files before the next one."""
        self.need_bytes = max(each.bytes_of_file for each in self.requested.values())
        self.need_inodes = self.ranks + 2
        moved = sum(each.bytes_of_file * each.repetitions for each in self.requested.values())
        self.estimate(moved / (self.num_nodes * SLOW_NODE))

    def sanity_faults(self, run):
        faults = faults_of(run.output, self.requested[run.name])
        if not faults:
            spreads = (run.provenance.get(run.name), spread_of(run.output))
            run.provenance[run.name] = '; '.join(filter(None, spreads))
        return faults

    def invalid_reason(self, metric, value, run):
        cached = answered_by_a_cache(run.folder / 'cached', run.provenance.get('file_system_type'))
        return cached or super().invalid_reason(metric, value, run)


QUICK = ('easy_1m', 'hard_47008')
BYTES_OF_NODE = {'quick': 64 * MIB, 'nightly': 256 * MIB}
BYTES_OF_RANK = 64 * MIB  # of IORRanks
APIS = ['POSIX', 'MPIIO', *(['HDF5'] if 'ior-hdf5' in features_of_this_system() else [])]


@rfm.simple_test
class IOR(IORBenchmark):
    """Writes and reads files with each pattern of IO500 and of 001, Table 19, buffered and with ``io=direct``."""

    descr = 'IOR, bandwidth of a file system'
    file_system = parameter(FILE_SYSTEMS, loggable=True)
    api = parameter(APIS, loggable=True)
    size = parameter(['quick', 'nightly', 'full'], loggable=True)
    nodes = parameter(CLIENT_COUNTS)

    def supports(self, topology):
        return super().supports(topology) and (self.size != 'quick' or self.api == 'POSIX')

    @run_after('init')
    def choose_offer(self):
        self.valid_prog_environs = ['+ior-hdf5' if self.api == 'HDF5' else '+ior']

    @run_after('setup')
    def choose_runs(self):
        of_node = BYTES_OF_NODE.get(self.size) or self.bytes_of_node()
        for name, pattern in PATTERNS.items():
            if (self.size == 'quick' and name not in QUICK) or (pattern.random and self.api == 'HDF5'):
                continue
            self.add(name, of_node)
            # only POSIX has O_DIRECT, which takes whole blocks of the device
            if self.api == 'POSIX' and self.size != 'quick' and self.kind.direct and pattern.transfer % 4096 == 0:
                self.add(name, of_node, direct=True)
        same = 'the node that wrote, with O_DIRECT or after its cache dropped the files'
        self.provenance['readers'] = same if self.num_nodes == 1 else 'ranks of another node than the one that wrote'
        self.need()


@rfm.simple_test
class IORRanks(IORBenchmark):
    """Writes with 1, 2, 4, ... ranks of a node that fill one socket after the other, or take turns among the sockets.

    As in 002 Fig. 11, ``pattern=easy_1m`` and ``shared_1m``: on a node of 12 sockets, filling them was faster, and a
    shared file did not gain from more than half a socket.
    """

    descr = 'IOR, ranks mapped by core and by socket'
    dims = IORBenchmark.dims | {'ranks_per_node': Dim('count')}
    valid_prog_environs = ['+ior']
    api = 'POSIX'
    file_system = parameter(FILE_SYSTEMS, loggable=True)
    mapping = parameter(MAPPINGS, loggable=True)
    ranks_per_node = parameter(on_this_system(rank_counts), loggable=True)
    size, nodes = 'full', 1

    def supports(self, topology):
        if self.ranks_per_node not in rank_counts(topology):
            return False
        first = mapped(topology, MAPPINGS[0], self.ranks_per_node)
        differs = set(mapped(topology, self.mapping, self.ranks_per_node)) != set(first)
        return super().supports(topology) and (differs or self.mapping == MAPPINGS[0])

    def placement_of_node(self):
        return one_rank_on(mapped(self.topology, self.mapping, self.ranks_per_node))

    @run_after('setup')
    def choose_runs(self):
        of_node = min(self.bytes_of_node(), BYTES_OF_RANK * self.ranks)
        for name in ('easy_1m', 'shared_1m'):
            for direct in (False, True) if self.kind.direct else (False,):
                self.add(name, of_node, direct, read=False)
        self.need()

# SPDX-License-Identifier: BSD-3-Clause
"""IOR: bandwidth and operations per second of a parallel or local file system."""

from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.core.placement import Execution, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Spread
from checks.core.topology import Topology, features_of_this_system, on_this_system
from checks.storage.ior_output import answered_by_a_cache, bytes_of_files, faults_of, metric_of, spread_of
from checks.storage.storage import (
    CLIENT_COUNTS,
    FILE_SYSTEMS,
    HERE,
    MAPPINGS,
    SPREAD,
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

    def asked(self, api: str, files: str, of_node: float, ranks: int, direct: bool) -> tuple[list[str], dict[str, Any]]:
        """Return IOR's options, and what its summary then says of them; of so many bytes and ranks of a node."""
        share = of_node * self.share
        of_rank = (share if self.share == 1 else min(share, LARGEST_SMALL)) / ranks
        transfers = max(1, int(of_rank / self.transfer))
        block, segments = (self.transfer, transfers) if self.strided else (transfers * self.transfer, 1)
        words = f'-a {api} -t {self.transfer} -b {block} -s {segments} -C -g'.split()
        words += ['-F'] * self.file_per_process + ['-z'] * self.random + ['--posix.odirect'] * direct
        words += ['-c'] * (api != 'POSIX' and not self.file_per_process)  # collective, the purpose of MPI-IO
        summary = {
            'API': api, 'transferSize': self.transfer, 'blockSize': block, 'segmentCount': segments,
            'filePerProc': self.file_per_process, 'reorderTasks': True,  # each rank reads what another one wrote
        }  # fmt: skip
        return [*words, '-O', 'summaryFile=summary.json', '-O', 'summaryFormat=JSON', '-o', files], summary


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
    """A check has an `api`, `operations` and `patterns`.

    Parses of IOR's JSON ``"bwMeanMIB": 1549.8897``, MiB/s, and of random access ``"OPsMean": 25651.6267``, 1/s: the
    mean of the repetitions. Writing includes fsync. Each rank reads what a rank of another node wrote; on a single
    node, it reads its own file after the pages were dropped.
    """

    executable = 'ior'
    operations = ['write', 'read']
    dims = {'pattern': Dim('name'), 'access': Dim('name'), 'io': Dim('name')}
    usual_spread = Spread(SPREAD, floor=0.15)
    output = 'summary.json'
    repetitions = variable(int, value=3)

    def patterns(self) -> Iterable[tuple[str, bool]]:
        """Yield the name of each pattern, and whether by O_DIRECT."""
        raise NotImplementedError

    def bytes_of_node(self) -> int:
        """Return the bytes of a node: in the full cases as the site states, else more than its caches hold."""
        return int(self.storage.size or 2 * self.topology.memory_bytes)

    def add_runs(self):
        """Add the runs of all patterns; each removes its files before the next one."""
        self.requested: dict[str, dict[str, Any]] = {}
        for name, direct in self.patterns():
            self.add(name, direct)
        sizes = [bytes_of_files(each) for each in self.requested.values()]
        self.need_bytes, self.need_inodes = max(sizes), self.ranks + 2
        moved = sum(size * each['repetitions'] for size, each in zip(sizes, self.requested.values(), strict=True))
        self.estimate(moved / (self.num_nodes * SLOW_NODE))

    def add(self, name: str, direct: bool):
        """Add the runs ``<name>[_direct]_write`` and ``..._read`` of a pattern; the last one removes the files."""
        pattern, files = PATTERNS[name], f'{name}{"_direct" * direct}'
        dims = {'pattern': name} | ({'io': 'direct'} if direct else {})
        path, ranks = in_job_directory(files), self.placement.ranks_per_node
        words, summary = pattern.asked(self.api, path, self.bytes_of_node(), ranks, direct)
        for operation in self.operations:
            run = f'{files}_{operation}'
            options = ['-w', '-e', *['-k'] * ('read' in self.operations)] if operation == 'write' else ['-r']
            # reading again would be answered by the cache, and IOR removes files after each repetition
            times = self.repetitions if operation == 'write' else 1
            self.requested[run] = summary | {
                'operation': operation, 'numTasks': self.ranks, 'nodes': self.num_nodes, 'repetitions': times,
            }  # fmt: skip
            cached = operation == 'read' and not direct and self.num_nodes == 1  # by the node that wrote
            before = f'storage_drop {HERE}/{files}*' if cached else ''
            self.runs[run] = Execution([*words, *options, '-i', str(times)], before=before)
            if not (cached and self.kind.own_cache):
                self.metrics.append(metric_of(pattern.random, dims | {'access': operation}, run=run))

    def sanity_faults(self, run: Run) -> list[str]:
        faults = faults_of(run.output, self.requested[run.name])
        if not faults:
            spreads = (run.provenance.get(run.name), spread_of(run.output))
            run.provenance[run.name] = '; '.join(filter(None, spreads))
        run.invalid.extend(answered_by_a_cache(run.folder / 'cached', run.provenance.get('file_system_type')))
        return super().sanity_faults(run) + faults


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

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and (self.size != 'quick' or self.api == 'POSIX')

    @run_after('init')
    def choose_offer(self):
        self.valid_prog_environs = ['+ior-hdf5' if self.api == 'HDF5' else '+ior']

    def bytes_of_node(self):
        return BYTES_OF_NODE.get(self.size) or super().bytes_of_node()

    def patterns(self):
        for name, pattern in PATTERNS.items():
            if (self.size == 'quick' and name not in QUICK) or (pattern.random and self.api == 'HDF5'):
                continue
            yield name, False
            # only POSIX has O_DIRECT, which takes whole blocks of the device
            if self.api == 'POSIX' and self.size != 'quick' and self.kind.direct and pattern.transfer % 4096 == 0:
                yield name, True
        same = 'the node that wrote, with O_DIRECT or after its cache dropped the files'
        self.provenance['readers'] = same if self.num_nodes == 1 else 'ranks of another node than the one that wrote'


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
    operations = ['write']

    def supports(self, topology: Topology) -> bool:
        if self.ranks_per_node not in rank_counts(topology):
            return False
        first = mapped(topology, MAPPINGS[0], self.ranks_per_node)
        differs = set(mapped(topology, self.mapping, self.ranks_per_node)) != set(first)
        return super().supports(topology) and (differs or self.mapping == MAPPINGS[0])

    def placement_of_node(self):
        return one_rank_on(mapped(self.topology, self.mapping, self.ranks_per_node))

    def bytes_of_node(self):
        return min(super().bytes_of_node(), BYTES_OF_RANK * self.ranks)

    def patterns(self):
        return product(('easy_1m', 'shared_1m'), (False, True) if self.kind.direct else (False,))

"""IOR: bandwidth and operations a second of a parallel or local file system."""

from typing import NamedTuple

import reframe as rfm

from checks.core.metrics import Metric
from checks.core.topology import current_site, node_counts
from checks.storage.storage import HERE, StorageBenchmark, file_systems
from checks.storage.storage_output import Asked, ior_faults, ior_spread


class Pattern(NamedTuple):
    """`share`: part of the case's bytes; small transfers take too long for all of them."""

    transfer: int  # bytes
    file_per_process: bool = False
    random: bool = False
    strided: bool = False  # ranks take turns within the file
    share: float = 1


MIB = 2**20
PATTERNS = {
    'easy_1m': Pattern(MIB, file_per_process=True),
    'easy_4m': Pattern(4 * MIB, file_per_process=True),
    'shared_1m': Pattern(MIB),
    'shared_4m': Pattern(4 * MIB),
    'random_4k': Pattern(4096, file_per_process=True, random=True, share=1 / 16),  # IOR refuses -C with a shared one
    'hard_47008': Pattern(47008, strided=True, share=1 / 4),  # ior-hard of IO500
}
QUICK = ('easy_1m', 'hard_47008')
BYTES_OF_NODE = {'quick': 64 * MIB, 'nightly': 256 * MIB}
SLOWEST_NODE = 20e6  # bytes/s; a trial that goes on for longer is taken for hung
LARGEST_SMALL = 4 * 2**30  # bytes of a node in the patterns that do not move all: a million transfers of 4 KiB
KEPT = 0.01  # of a file in the reader's cache, above which the rate is void


def apis() -> list[str]:
    """Those that the stacks of the current system offer; IOR is built with HDF5 where the feature says so."""
    offered = {feature for stack in current_site().stacks.values() for feature in stack.features}
    return ['POSIX', 'MPIIO', *(['HDF5'] if 'ior-hdf5' in offered else [])]


@rfm.simple_test
class IOR(StorageBenchmark):
    """Writes and reads files with each pattern, ``<pattern>[_direct]_<write|read>``; patterns as in IO500 and 000.

    Parses of IOR's JSON ``"bwMeanMIB": 1549.8897``, MiB/s, and of random access ``"OPsMean": 25651.6267``, 1/s: the
    mean of the repetitions. Writing includes fsync. Each rank reads what one of another node wrote; on a single node,
    where IOR lets each read its own, the file's pages are dropped first, which is verified, or with O_DIRECT there are
    none. Reads are repeated by trials alone.
    """

    descr = 'IOR'
    executable = 'ior'
    file_system = parameter(file_systems(), loggable=True)
    api = parameter(apis(), loggable=True)
    size = parameter(['quick', 'nightly', 'full'], loggable=True)
    nodes = parameter(node_counts())
    repetitions = variable(int, value=3)
    output = 'summary.json'

    def exists_on(self, topology):
        return super().exists_on(topology) and (self.size != 'quick' or self.api == 'POSIX')

    @run_after('init')
    def choose_offer(self):
        self.offers = 'ior-hdf5' if self.api == 'HDF5' else 'ior'

    @run_after('setup')
    def choose_runs(self):
        self.asked: dict[str, Asked] = {}
        self.metrics = []
        of_node = BYTES_OF_NODE.get(self.size) or int(self.storage.size or 2 * self.topology.memory_bytes)
        for name, pattern in PATTERNS.items():
            if (self.size == 'quick' and name not in QUICK) or (pattern.random and self.api == 'HDF5'):
                continue
            # O_DIRECT wants whole blocks of the device, and only POSIX has it
            for direct in (False, True) if self.api == 'POSIX' and self.size != 'quick' else (False,):
                if not (direct and pattern.transfer % 4096):
                    self.add(name + '_direct' * direct, pattern, direct, of_node)
        if self.num_nodes > 1:
            self.remarks['readers'] = 'ranks of another node than the one that wrote'
        else:
            self.remarks['readers'] = 'the node that wrote, with O_DIRECT or after its cache dropped the files'
        blocks = [each.block * each.segments * each.ranks * each.repetitions for each in self.asked.values()]
        self.need_bytes = max(each.block * each.segments * each.ranks for each in self.asked.values())
        self.need_inodes = self.ranks + 2
        self.trial_time_limit = 120 + int(sum(blocks) / (self.num_nodes * SLOWEST_NODE))

    def add(self, name: str, pattern: Pattern, direct: bool, of_node: int):
        """The two runs of a pattern; the second one removes the files."""
        share = of_node * pattern.share
        of_rank = (share if pattern.share == 1 else min(share, LARGEST_SMALL)) / self.placement.ranks_per_node
        transfers = max(1, int(of_rank / pattern.transfer))
        block, segments = (1, transfers) if pattern.strided else (transfers, 1)
        words = f'-a {self.api} -t {pattern.transfer} -b {block * pattern.transfer} -s {segments} -C -g'.split()
        words += ['-F'] * pattern.file_per_process + ['-z'] * pattern.random + ['--posix.odirect'] * direct
        words += ['-c'] * (self.api != 'POSIX' and not pattern.file_per_process)  # collective, what MPI-IO is there for
        words += ['-O', 'summaryFile=summary.json', '-O', 'summaryFormat=JSON', '-o', f'{HERE}/{name}']
        unit, number = ('ops/s', 'OPsMean') if pattern.random else ('MiB/s', 'bwMeanMIB')
        for operation, options in (('write', ['-w', '-k', '-e']), ('read', ['-r'])):
            run = f'{name}_{operation}'
            # reading again would find what the first time brought into the cache, and IOR removes files after each
            times = self.repetitions if operation == 'write' else 1
            self.runs[run] = [*words, *options, '-i', str(times)]
            self.asked[run] = Asked(
                operation, self.api, pattern.transfer, block * pattern.transfer, segments, self.ranks, self.num_nodes,
                times, pattern.file_per_process,
            )  # fmt: skip
            if operation == 'write' or direct or self.num_nodes > 1 or not self.kind.own_cache:
                self.metrics.append(Metric(run, unit, 'higher', rf'"{number}": (\S+?),', run=run))

    def shell_case(self, name, options):
        """Before a buffered read on the node that wrote, its cache is emptied of the files."""
        case = super().shell_case(name, options)
        if self.num_nodes > 1 or not name.endswith('_read') or name.endswith('_direct_read'):
            return case
        files = f'"$storage_dir"/{name.removesuffix("_read")}*'
        return case.removesuffix(';;') + f'; storage_drop {files} ;;'

    def sanity_faults(self, output):
        return ior_faults(output, self.asked[self.reading])

    def measure_run(self, trial, run, folder):
        self.cached = folder / 'cached'
        faults = super().measure_run(trial, run, folder)
        if not faults:
            self.remarks[run] = '; '.join(
                filter(None, (self.remarks.get(run), ior_spread((folder / self.output).read_text(encoding='utf-8'))))
            )
        return faults

    def void_reason(self, metric, value):
        if self.cached.exists() and self.remarks.get('file_system_type') != 'tmpfs':  # there the cache is what there is
            kept, _, whole = self.cached.read_text().partition(' ')
            if kept == 'unknown':
                self.remarks['page_cache'] = 'asked to drop the files; not verified, fincore is not installed'
            elif int(kept) > KEPT * int(whole):
                return f'{int(kept)} of {int(whole)} bytes were in the cache of the node that read them'
            if self.remarks.get('file_system_type') in ('zfs', 'gpfs'):
                return 'this file system has a cache of its own, which cannot be emptied'
        return super().void_reason(metric, value)

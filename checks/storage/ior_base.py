"""What all checks of IOR share: its patterns of access, its options, and whether a cache can have answered."""

from typing import NamedTuple

from reframe.core.builtins import run_after, variable

from checks.core.trials import Metric
from checks.storage.storage import HERE, StorageBenchmark, in_job_directory
from checks.storage.storage_output import Asked, ior_faults, ior_spread
from plumbline.record import Dim


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
LARGEST_SMALL = 4 * 2**30  # bytes of a node in the patterns that do not move all: a million transfers of 4 KiB
SLOWEST_NODE = 20e6  # bytes/s; a trial that goes on for longer is taken for hung
KEPT = 0.01  # of a file in the reader's cache, above which the rate is void


class IORBenchmark(StorageBenchmark):
    """A check has an `api` and fills its runs with `add`, then calls `need`.

    Parses of IOR's JSON ``"bwMeanMIB": 1549.8897``, MiB/s, and of random access ``"OPsMean": 25651.6267``, 1/s: the
    mean of the repetitions. Writing includes fsync. Each rank reads what one of another node wrote; on a single node,
    where IOR lets each read its own, the file's pages are dropped first, which is verified, or with O_DIRECT there are
    none. Reads are repeated by trials alone.
    """

    executable = 'ior'
    dims = {'pattern': Dim('name'), 'access': Dim('name'), 'io': Dim('name')}
    floor, cap = 0.15, 0.40
    output = 'summary.json'
    repetitions = variable(int, value=3)

    @run_after('setup')
    def start_without_runs(self):
        self.asked: dict[str, Asked] = {}
        self.metrics = []

    def bytes_of_node(self) -> int:
        """Return the bytes of a node in the full cases: what the site says, else more than its caches hold."""
        return int(self.storage.size or 2 * self.topology.memory_bytes)

    def add(self, name: str, of_node: int, direct: bool = False, read: bool = True):
        """Add the runs ``<name>[_direct]_write`` and ``..._read`` of a pattern; the last one removes the files."""
        pattern_name, pattern = name, PATTERNS[name]
        name += '_direct' * direct
        share = of_node * pattern.share
        of_rank = (share if pattern.share == 1 else min(share, LARGEST_SMALL)) / self.placement.ranks_per_node
        transfers = max(1, int(of_rank / pattern.transfer))
        block, segments = (1, transfers) if pattern.strided else (transfers, 1)
        words = f'-a {self.api} -t {pattern.transfer} -b {block * pattern.transfer} -s {segments} -C -g'.split()
        words += ['-F'] * pattern.file_per_process + ['-z'] * pattern.random + ['--posix.odirect'] * direct
        words += ['-c'] * (self.api != 'POSIX' and not pattern.file_per_process)  # collective, what MPI-IO is there for
        words += ['-O', 'summaryFile=summary.json', '-O', 'summaryFormat=JSON', '-o', in_job_directory(name)]
        unit, number = ('ops/s', 'OPsMean') if pattern.random else ('MiB/s', 'bwMeanMIB')
        for operation in ('write', 'read') if read else ('write',):
            run = f'{name}_{operation}'
            options = ['-w', '-e', *['-k'] * read] if operation == 'write' else ['-r']
            # reading again would find what the first time brought into the cache, and IOR removes files after each
            times = self.repetitions if operation == 'write' else 1
            self.runs[run] = [*words, *options, '-i', str(times)]
            self.asked[run] = Asked(
                operation, self.api, pattern.transfer, block * pattern.transfer, segments, self.ranks, self.num_nodes,
                times, pattern.file_per_process,
            )  # fmt: skip
            if operation == 'read' and not direct and self.num_nodes == 1:
                self.before_run[run] = f'storage_drop {HERE}/{name}*'  # the cache of the node that wrote
            if operation == 'write' or direct or self.num_nodes > 1 or not self.kind.own_cache:
                dims = {'pattern': pattern_name, 'access': operation} | ({'io': 'direct'} if direct else {})
                metric = 'operations' if pattern.random else 'bandwidth'
                self.metrics.append(Metric(metric, unit, 'higher', rf'"{number}": (\S+?),', dims, run=run))

    def need(self):
        """State what the runs need, of which each pattern removes its files before the next one."""
        self.need_bytes = max(each.bytes_of_file for each in self.asked.values())
        self.need_inodes = self.ranks + 2
        moved = sum(each.bytes_of_file * each.repetitions for each in self.asked.values())
        self.trial_time_limit = 120 + int(moved / (self.num_nodes * SLOWEST_NODE))

    def sanity_faults(self, run):
        if faults := ior_faults(run.output, self.asked[run.name]):
            return faults
        spreads = (run.provenance.get(run.name), ior_spread(run.output))
        run.provenance[run.name] = '; '.join(filter(None, spreads))
        return []

    def invalid_reason(self, metric, value, run):
        system, cached = run.provenance.get('file_system_type'), run.folder / 'cached'
        if cached.exists() and system != 'tmpfs':  # there the cache is what there is
            if system in ('zfs', 'gpfs'):
                return 'this file system has a cache of its own, which cannot be emptied'
            kept, _, whole = cached.read_text().partition(' ')
            if kept == 'unknown':
                return 'nothing tells whether a cache answered: fincore (util-linux 2.30) is not installed'
            if int(kept) > KEPT * int(whole):
                return f'{int(kept)} of {int(whole)} bytes were in the cache of the node that read them'
        return super().invalid_reason(metric, value, run)

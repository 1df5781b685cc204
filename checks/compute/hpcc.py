"""HPC Challenge: HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT and ping-pong in one program."""

import math
import re
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.compute.hpl_input import nearly_square
from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.placement import one_rank_per_core
from checks.core.trials import Metric

# HPL's parameters above its separator line, hpcc's own below; blocking and algorithm are those that hpcc ships.
INPUT = Path(__file__).with_name('hpccinf.template')


def faults_of(output: str, n: int) -> list[str]:
    """Return one sentence for each sign that an hpccoutf.txt is not of a complete, correct run of order `n`."""
    signs = (
        (r'^Success=1$', 'the summary has no Success=1'),
        (r'\)\*N\)=\s+\S+ \.+ PASSED$', "HPL's residual check did not pass"),
        (rf'^HPL_N={n}$', f'HPL did not solve N={n}'),
    )
    return [sentence for pattern, sentence in signs if not re.search(pattern, output, re.MULTILINE)]


def summary(key: str, unit: str, better: str = 'higher', peak: str | None = None) -> Metric:
    """Return the metric of a line of the summary section, such as ``StarSTREAM_Triad=31.5825``."""
    return Metric(key, unit, better, rf'^{key}=(\S+)$', peak=peak)


# Star: every rank at the same time, the mean of one rank; Single: one rank alone; MPI: all ranks together
METRICS = [
    summary('HPL_Tflops', 'TFlop/s', peak='flops_dp'),
    *(summary(f'{who}DGEMM_Gflops', 'GFlop/s', peak='flops_dp') for who in ('Star', 'Single')),
    *(summary(f'{who}STREAM_{kernel}', 'GB/s', peak='memory_bandwidth')
      for who in ('Star', 'Single') for kernel in ('Copy', 'Scale', 'Add', 'Triad')),
    *(summary(f'{who}RandomAccess{generator}_GUPs', 'GUp/s')
      for who in ('MPI', 'Star', 'Single') for generator in ('', '_LCG')),
    *(summary(f'{who}FFT_Gflops', 'GFlop/s', peak='flops_dp') for who in ('MPI', 'Star', 'Single')),
    summary('PTRANS_GBs', 'GB/s'),
    *(summary(f'{which}PingPongLatency_usec', 'us', 'lower') for which in ('Max', 'Min', 'Avg')),
    *(summary(f'{order}OrderedRingLatency_usec', 'us', 'lower') for order in ('Naturally', 'Randomly')),
    *(summary(f'{which}PingPongBandwidth_GBytes', 'GB/s') for which in ('Max', 'Min', 'Avg')),
    *(summary(f'{order}OrderedRingBandwidth_GBytes', 'GB/s') for order in ('Naturally', 'Randomly')),
]  # fmt: skip


@rfm.simple_test
class HPCC(Benchmark):
    """All performance figures of HPC Challenge 1.5 with one rank a core.

    `size=quick` takes the smallest matrix whose STREAM arrays exceed the last-level caches four times (hpcc gives each
    rank three arrays of N^2 / (3 ranks) doubles); `size=full` fills 80 % of the memory.
    """

    descr = 'HPC Challenge'
    trials_by_mode = FEW_TRIALS
    # as those of HPL, LikwidBandwidth and OSU; no source for the others
    usual_spread = {
        'HPL*': 0.01, '*DGEMM*': 0.01, '*STREAM*': 0.015, 'MaxPingPong*': 0.1, '*PingPongLatency*': 0.04,
        '*PingPongBandwidth*': 0.02, '*': 0.03,
    }  # fmt: skip
    size = parameter(['quick', 'full'], loggable=True)
    memory_fraction = variable(float, value=0.8)
    block_size = variable(int, value=192)
    requires = 'hpcc'
    executable = 'hpcc'
    mpi = True
    output = 'hpccoutf.txt'
    inputs = ['hpccinf.txt']
    metrics = METRICS

    def supports(self, topology):
        return len(topology.cores) > 1  # hpcc's ping-pong takes two ranks

    @run_after('init')
    def choose_modes(self):
        self.tags = {'acceptance'} if self.size == 'full' else {'quick', 'nightly', 'acceptance'}
        self.trial_time_limit = 7200 if self.size == 'full' else 900

    @run_after('setup')
    def write_input(self):
        self.placement = one_rank_per_core(self.topology)
        self.n = self.matrix_order()
        p, q = nearly_square(self.placement.ranks_per_node * self.num_nodes)
        text = INPUT.read_text(encoding='utf-8').format(n=self.n, nb=self.block_size, p=p, q=q)
        Path(self.stagedir, 'hpccinf.txt').write_text(text, encoding='utf-8')
        self.provenance |= {'hpl_n': str(self.n), 'hpl_nb': str(self.block_size), 'hpl_grid': f'{p}x{q}'}

    def matrix_order(self) -> int:
        """Return N: a multiple of the block size whose N^2 doubles fill the requested part of the nodes' memory."""
        available = self.memory_fraction * self.topology.memory_bytes * self.num_nodes
        wanted = self.bytes_beyond_caches() if self.size == 'quick' else available
        return int(math.sqrt(min(wanted, available) / 8) / self.block_size + (self.size == 'quick')) * self.block_size

    def bytes_beyond_caches(self) -> float:
        """Return the matrix size whose STREAM arrays are four times the cache, of one rank and of all together."""
        cpus, ranks = self.topology.cpu_of_core, self.placement.ranks_per_node
        alone = ranks * self.topology.last_level_cache_bytes(cpus[:1])
        return self.num_nodes * 3 * 4 * max(alone, self.topology.last_level_cache_bytes(cpus))

    def invalid_reason(self, metric, value, run):
        if 'STREAM' in metric.name and self.n**2 * 8 < self.bytes_beyond_caches():
            return 'the memory is too small for STREAM arrays of four times the last-level cache'
        return super().invalid_reason(metric, value, run)

    def sanity_faults(self, run):
        return faults_of(run.output, self.n)

# SPDX-License-Identifier: BSD-3-Clause
"""HPC Challenge: HPL, DGEMM, STREAM, PTRANS, RandomAccess, FFT and ping-pong in one program."""

import math
import re
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.compute.hpl import dat_of, lines_of, matrix_order, operations
from checks.core import budget
from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.placement import one_rank_per_core
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology
from plumbline.record import Better

# What follows HPL's parameters in hpcc's input: a separator, and that PTRANS has no further sizes of matrix and block
OF_PTRANS = '#\n0 # of additional problem sizes\n1200 values of N\n0 # of additional blocking sizes\n40 values of NB\n'
BLOCK = 192  # NB of HPL
FULL = 0.8  # part of the memory that `size=full` fills
# RandomAccess: half of the measured updates/s, in local memory and among all ranks; seconds of everything else
UPDATES_OF_CORE, UPDATES_OF_RANK, START = 50e6, 4e6, 4.0


def faults_of(output: str, n: int) -> list[str]:
    """Return one sentence for each sign that an hpccoutf.txt is not of a complete, correct run of order `n`."""
    signs = (
        (r'^Success=1$', 'the summary has no Success=1'),
        (r'\)\*N\)=\s+\S+ \.+ PASSED$', "HPL's residual check did not pass"),
        (rf'^HPL_N={n}$', f'HPL did not solve N={n}'),
    )
    return [sentence for pattern, sentence in signs if not re.search(pattern, output, re.MULTILINE)]


def matrix_beyond_caches(topology: Topology, nodes: int) -> dict[str, float]:
    """Return the bytes of the matrix with which STREAM's arrays are four times the caches: of all ranks, and of one."""
    of_one_rank, every = (
        topology.last_level_cache_bytes(cpus) for cpus in (topology.cpu_of_core[:1], topology.cpu_of_core)
    )
    three_arrays = 3 * budget.BEYOND_CACHES * nodes
    return {'Star': three_arrays * every, 'Single': three_arrays * len(topology.cores) * of_one_rank}


def seconds_of(matrix: float, ranks: int, dense: float) -> float:
    """Return the estimated seconds of a trial for a matrix of `matrix` bytes. `dense`: Flop/s of all ranks.

    Measured on two cores of Zen 4 at N=10176, in seconds: HPL 7.5, DGEMM 5, RandomAccess 32. The tables of RandomAccess
    are powers of two, and it stops after 60 s where all ranks work on one table.
    """
    n, table = math.sqrt(matrix / 8), 2 ** int(math.log2(max(2.0, matrix / 8 / ranks)))
    dgemm = 4 * (n / math.sqrt(3 * ranks)) ** 3 * ranks / dense
    random_access = 16 * table / UPDATES_OF_CORE + 2 * min(60, 4 * table / UPDATES_OF_RANK)
    return START + operations(n) / dense + dgemm + random_access


def summary(key: str, unit: str, better: Better = 'higher', peak: str | None = None) -> Metric:
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
    rank three arrays of N^2 / (3 ranks) doubles); `size=full` fills 80 % of the memory; both within the time of a
    trial. On a busy machine without references, `quick` takes a smaller one, and its metrics are informational.

    Parses the lines of its summary, such as ``StarSTREAM_Triad=31.5825``.
    """

    descr = 'HPC Challenge'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    trials = FEW_TRIALS | {'quick': 2}
    trial_seconds = {'quick': 55, 'full': 7200}
    # as those of HPL, LikwidBandwidth and OSU; no source for the others
    usual_spread = {
        'HPL*': 0.01, '*DGEMM*': 0.01, '*STREAM*': 0.015, 'MaxPingPong*': 0.1, '*PingPongLatency*': 0.04,
        '*PingPongBandwidth*': 0.02, '*': 0.03,
    }  # fmt: skip
    size = parameter(['quick', 'full'], loggable=True)
    valid_prog_environs = ['+hpcc']
    executable = 'hpcc'
    mpi = True
    output = 'hpccoutf.txt'
    metrics = METRICS

    def supports(self, topology: Topology) -> bool:
        return len(topology.cores) > 1  # hpcc's ping-pong takes two ranks

    @run_after('init')
    def choose_modes(self):
        self.tags = {'acceptance'} if self.size == 'full' else {'quick', 'nightly', 'acceptance'}

    @run_after('setup')
    def write_input(self):
        self.placement = one_rank_per_core(self.topology)
        ranks = self.placement.ranks_per_node * self.num_nodes
        self.n = self.choose_order(ranks)
        lines = lines_of(self.n, BLOCK, ranks, {})
        Path(self.stagedir, 'hpccinf.txt').write_text(dat_of(lines, device=8) + OF_PTRANS, encoding='utf-8')
        self.provenance |= {'hpl_n': str(self.n), 'hpl_nb': str(BLOCK), 'hpl_grid': f'{lines["Ps"]}x{lines["Qs"]}'}

    def choose_order(self, ranks: int) -> int:
        """Return N, a multiple of the block size; make STREAMs informational whose arrays fit into the caches."""
        beyond = matrix_beyond_caches(self.topology, self.num_nodes)
        wanted: float = 8 * (math.ceil(math.sqrt(max(beyond.values()) / 8) / BLOCK) * BLOCK) ** 2
        share = budget.MEMORY_SHARE if self.size == 'quick' else FULL
        if self.size == 'full':
            wanted = share * self.topology.memory_bytes * self.num_nodes
        dense = budget.dense_rate(self.topology, self.partition.peaks) * self.num_nodes
        size = self.fit(wanted, 0, lambda matrix: seconds_of(matrix, ranks, dense), share, yields=self.size == 'quick')
        n = matrix_order(size, BLOCK)
        for who, needed in beyond.items():
            if 8 * n**2 < needed:
                self.metrics = budget.informational(self.metrics, f'{who}STREAM*')
                self.provenance[f'informational_{who}STREAM'] = 'arrays below four times the last-level caches'
        return n

    def sanity_faults(self, run: Run) -> list[str]:
        return faults_of(run.output, self.n)

# SPDX-License-Identifier: BSD-3-Clause
"""likwid-bench's assembly kernels: peak Flop/s by instruction set, and bandwidth of each level of the memory.

They correspond to the FPU and MEM micro-kernels of the MareNostrum 5 paper (000, sections 3.1 and 3.2).
"""

import functools
import math
import re
from collections.abc import Mapping, Sequence

import reframe as rfm
from reframe.core.builtins import parameter, run_after, variable

from checks.core import budget
from checks.core.benchmark import USUAL_TRIALS, Benchmark
from checks.core.job.script import ShellText
from checks.core.placement import Execution, Placement
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology, on_this_system, topologies
from plumbline.record import Dim

LONGEST = 50  # seconds of a trial; sizes are cut to keep it
# Instruction set -> (archspec's name of it, suffix of likwid's kernels, the same with fused multiply-add)
ISAS = {
    'scalar': ('', '', ''),
    'sse': ('sse2', '_sse', '_sse'),
    'avx': ('avx', '_avx', '_avx_fma'),
    'avx512': ('avx512f', '_avx512', '_avx512_fma'),
}
USUAL_SPREAD = 0.015  # STREAM between executions: 0.1 % on one node (002, section IV-E), several % on virtual ones
ARRAYS = {'load': 1, 'store': 1, 'copy': 2, 'stream': 3, 'triad': 4}  # likwid-bench -l KERNEL, "Number of streams"
# Seconds, by its source and as measured: until likwid-bench knows the clock; of a loop that it doubles until it lasts 1
# s
START, LOOP = 1.1, 1.45
WITH_FMA_VARIANT = ('peakflops', 'peakflops_sp', 'stream', 'triad')
# likwid's cycles are ticks of the nominal clock, whatever clock the cores run at.
OF_ONE_CORE_AND_CYCLE = (r'^Cycles:\s+(\d+)$', r'^Using (\d+) threads$')
FLOP_RATE = r'^MFlops/s:\s+(\d+\.\d\d)$'
FLOPS = r'^Number of Flops:\s+(\d+)$'
BYTE_RATE = r'^MByte/s:\s+(\d+\.\d\d)$'
BYTES = r'^Data volume \(Byte\):\s+(\d+)$'


def faults_of(output: str, cpus: tuple[int, ...]) -> list[str]:
    """Return a sentence if the threads did not run on `cpus`, each on one of its own."""
    ran_on = sorted(map(int, re.findall(r'^Group: .* running on hwthread (\d{1,6})\b', output, re.MULTILINE)))
    requested = sorted(cpus)
    return [] if ran_on == requested else [f'threads were requested on CPUs {requested} and ran on {ran_on}']


def allocated_from(output: str) -> set[int]:
    """Return the hardware threads that first touched the arrays: the memory is in their NUMA domains."""
    return set(map(int, re.findall(r'^Allocate: Process running on hwthread (\d{1,6})\b', output, re.MULTILINE)))


def repetitions(seconds: int) -> ShellText:
    """Return the option that says how often the loop is repeated.

    In the first trial one thread finds the number of repetitions that takes `seconds`, which costs twice the measured
    loop. Later trials use the same number, so that all do the same work.
    """
    of_first = "sed -n 's/^Iterations per thread:[[:space:]]*/-i /p' ../../trial_1/$run/stdout 2> /dev/null"
    return ShellText(f'$({of_first} | grep . || echo -s {seconds})')


def isas_of(topology: Topology) -> list[str]:
    """Return the instruction sets of a processor, the widest last."""
    return [isa for isa, (extension, *_) in ISAS.items() if topology.has_instructions(extension or None)]


class Likwid(Benchmark):
    """Runs likwid-bench, which binds its threads itself and prints where they ran."""

    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    valid_prog_environs = ['+likwid']
    executable = 'likwid-bench'
    usual_spread: float | Mapping[str, float] = USUAL_SPREAD
    #: Shortest time of the measured loop, in seconds.
    loop_seconds = variable(int, value=1)

    def supports(self, topology: Topology) -> bool:
        # it chooses cores by a stride in hardware threads, so all must have the same number
        return super().supports(topology) and len(set(map(len, topology.cores))) == 1

    def seconds_of(self, runs: int, slowdown: float = 1) -> float:
        """Return the seconds of a trial with `runs` runs, averaged over all trials.

        `slowdown`: factor by which the other threads slow a thread down in the measured loop, the only part in which
        they work.
        """
        return runs * (START + LOOP * self.loop_seconds * (slowdown + 2 / self.trials_of_case))

    def seconds_beyond_caches(self, kernels: Sequence[str], size: float, topology: Topology) -> float:
        """Return the seconds of runs on arrays in memory; `size`: bytes of the arrays of the kernel with the most."""
        cores, rates = len(topology.cores), [budget.memory_rate(topology, {}, threads) for threads in (1, None)]
        touched = sum(ARRAYS[kernel] for kernel in kernels) / max(ARRAYS[kernel] for kernel in kernels)
        return self.seconds_of(len(kernels), cores * rates[0] / rates[1]) + touched * size / budget.FIRST_TOUCH

    def beyond_caches(self, kernels: Sequence[str], *groups: tuple[int, ...], runs: int = 1) -> float:
        """Return the size of an array in units of the last-level caches: 4, or less if the time of a trial requires it.

        `kernels` run one after the other, each on all `groups` of cores; a trial repeats this `runs` times.
        """
        caches = budget.BEYOND_CACHES * sum(map(self.topology.last_level_cache_bytes, groups))
        largest = max(ARRAYS[kernel] for kernel in kernels)
        wanted = largest * caches

        def seconds_of(size: float) -> float:
            return self.seconds_beyond_caches(kernels, size, self.topology)

        return budget.BEYOND_CACHES * self.fit(wanted, wanted, seconds_of, runs=runs) / wanted


Layout = dict[int, tuple[int, ...]]  # NUMA domain -> its cores in use, so that each domain can keep its data local


@functools.cache
def layouts(topology: Topology) -> dict[str, Layout]:
    """Return all layouts of a node in the order below; of layouts on the same cores, only the first.

    node: all cores. core: the first core. half_close: the first half of the cores, domain after domain. half_spread:
    every second core of every domain. socket<i>, numa<i>: all cores of socket or domain i.
    """
    domains = [topology.cpus_in(domain) for domain in topology.numa_domains]
    half = len(topology.cores) // 2
    close: list[tuple[int, ...]] = []
    for cpus in domains:
        close.append(cpus[: half - sum(map(len, close))])
    candidates = {'node': domains, 'core': [domains[0][:1]], 'half_close': close}
    candidates['half_spread'] = [cpus[::2] for cpus in domains]
    for i, socket in enumerate(topology.sockets):
        candidates[f'socket{i}'] = [tuple(cpu for cpu in cpus if cpu in socket) for cpus in domains]
    for i, cpus in enumerate(domains):
        candidates[f'numa{i}'] = [cpus if j == i else () for j in range(len(domains))]
    distinct: dict[str, Layout] = {}
    for name, by_domain in candidates.items():
        layout = {i: cpus for i, cpus in enumerate(by_domain) if cpus}
        if layout and layout not in distinct.values():
            distinct[name] = layout
    return distinct


def flop_metrics(run: str, dims: dict[str, str], peak: float | None, whole: bool = False) -> list[Metric]:
    """Return the metrics of one run: GFlop/s of all its cores, Flop of a core in a nominal cycle, part of the peak.

    `whole`: the cores are those of a node, whose roof the rate is.
    """
    figures = {'roof': 'flops', 'dims': {'precision': 'dp'}} if whole else {}
    metrics = [
        Metric('flops', 'GFlop/s', 'higher', FLOP_RATE, dims, scale=1e-3, run=run,
               peak='flops_dp' if dims.get('precision') == 'dp' else None, figures=figures),
        Metric('flop_per_cycle', 'Flop/cycle', 'higher', FLOPS, dims, per=OF_ONE_CORE_AND_CYCLE, run=run),
    ]  # fmt: skip
    if peak:
        metrics.append(Metric('peak_fraction', '1', 'higher', FLOP_RATE, dims, scale=1e6 / peak, run=run))
    return metrics


def bandwidth_metrics(kernel: str, peak: str | None, whole: bool = False) -> list[Metric]:
    """Return the metrics of the run `kernel`: GB/s of all its cores, and bytes of one core in a nominal cycle.

    `whole`: it is the bandwidth of the memory of a node, whose roof it is.
    """
    dims, figures = {'kernel': kernel}, {'roof': 'bandwidth'} if whole else {}
    per = OF_ONE_CORE_AND_CYCLE
    return [
        Metric('bandwidth', 'GB/s', 'higher', BYTE_RATE, dims, scale=1e-3, run=kernel, peak=peak, figures=figures),
        Metric('bytes_per_cycle', 'B/cycle', 'higher', BYTES, dims, per=per, run=kernel),
    ]


class LikwidBench(Likwid):
    """likwid-bench on the cores of one layout."""

    trials = USUAL_TRIALS | {'quick': 2}
    trial_seconds = None  # as its kernels take
    layout = parameter(on_this_system(layouts), loggable=True)

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and self.layout in layouts(topology)

    def takes_seconds(self) -> bool:
        """Return True if this case is short enough for mode quick."""
        return self.layout == 'node'

    @run_after('init')
    def choose_modes(self):
        modes = {'acceptance': True, 'nightly': self.layout in ('node', 'core'), 'quick': self.takes_seconds()}
        self.tags = {mode for mode, has_it in modes.items() if has_it}

    def choose_budget(self):
        known = [self.seconds_on(topology) for _, topology in topologies() if self.supports(topology)]
        self.trial_seconds = self.trial_seconds or min(LONGEST, math.ceil(max(known, default=0)))
        super().choose_budget()

    def seconds_on(self, topology: Topology) -> float:
        """Return the mean seconds of a trial on such a node, with sizes that nothing cuts."""
        return self.seconds_of(len(ARRAYS))

    @run_after('setup')
    def place(self):
        self.by_domain = layouts(self.topology)[self.layout]
        self.cores_in_use = tuple(cpu for cpus in self.by_domain.values() for cpu in cpus)
        self.placement = Placement(1, None)

    def options(self, kernel: str, isa: str, bytes_of_group) -> list[str]:
        """Return the options for `kernel`: a work group for each NUMA domain, with `bytes_of_group(cpus)` of arrays."""
        fused = self.topology.has_instructions('fma') and kernel in WITH_FMA_VARIANT
        options = ['-t', kernel + ISAS[isa][2 if fused else 1], repetitions(self.loop_seconds)]
        stride = self.topology.threads_per_core * (2 if self.layout == 'half_spread' else 1)
        for domain, cpus in self.by_domain.items():
            options += ['-w', f'M{domain}:{bytes_of_group(cpus) / 1000:.0f}kB:{len(cpus)}:1:{stride}']
        return options

    def sanity_faults(self, run: Run) -> list[str]:
        return faults_of(run.output, self.cores_in_use)


@rfm.simple_test
class LikwidPeakFlops(LikwidBench):
    """Sustained Flop/s of multiply-add on registers by instruction set and precision (000, table 2).

    Parses ``MFlops/s:  58565.12``. `flop_per_cycle` is that of one core in a nominal cycle: a core above its nominal
    clock exceeds the theoretical V x N x 2 of 000, table 1. `peak_fraction` compares with V x N x 2 at the highest
    clock of a core, of a whole node of each core, where the site knows both.
    """

    descr = 'likwid-bench peakflops'
    dims = {'isa': Dim('name'), 'precision': Dim('name')}
    usual_spread = 0.01  # the clock of the cores; EP between executions: 0.2 % (002, section IV-E)

    def seconds_on(self, topology: Topology) -> float:
        return self.seconds_of(2 * len(isas_of(topology)))

    @run_after('setup')
    def choose_kernels(self):
        self.metrics = []
        for isa in isas_of(self.topology):
            for precision, kernel in (('dp', 'peakflops'), ('sp', 'peakflops_sp')):
                run, dims = f'{isa}_{precision}', {'isa': isa, 'precision': precision}
                self.runs[run] = Execution(
                    self.options(kernel, isa, lambda cpus: self.topology.cache_bytes(1, cpus) / 2)
                )
                self.metrics += flop_metrics(run, dims, self.theoretical_peak(run), self.layout == 'node')

    def theoretical_peak(self, run: str) -> float | None:
        """Return the Flop/s of all cores in use, V x N x 2 at their highest clock; None where the site lacks either.

        `flops_dp` of a node has the clock of each of its cores, which may be of several kinds.
        """
        of_cycle, peaks = self.partition.flop_per_cycle, self.partition.peaks
        self.provenance[f'theoretical_flop_per_cycle_{run}'] = str(of_cycle.get(run, 'not known'))
        if run not in of_cycle or 'core_clock' not in peaks:
            return None
        clocks = peaks['core_clock'] * len(self.cores_in_use)
        widest = max((number for name, number in of_cycle.items() if name.endswith('_dp')), default=0)
        if widest and 'flops_dp' in peaks and len(self.cores_in_use) == len(self.topology.cores):
            clocks = min(clocks, peaks['flops_dp'] / widest)
        return of_cycle[run] * clocks


@rfm.simple_test
class LikwidBandwidth(LikwidBench):
    """Bandwidth of five kernels inside each cache level and in memory (000, table 3 and figure 6), widest vectors.

    Parses ``MByte/s:  34125.70``: the bytes that the kernel names, without write-allocate traffic.
    `bytes_per_cycle` is that of one core in a nominal cycle. Arrays fill half of L1, L2 or L3; in memory each is four
    times the last-level cache.
    """

    descr = 'likwid-bench bandwidth'
    dims = {'kernel': Dim('name')}
    level = parameter(['L1', 'L2', 'L3', 'memory'], loggable=True)

    def supports(self, topology: Topology) -> bool:
        return super().supports(topology) and (
            self.level == 'memory' or topology.cache_bytes(int(self.level[1]), topology.cpu_of_core) > 0
        )

    def seconds_on(self, topology: Topology) -> float:
        if self.level != 'memory' or not topology.caches:
            return super().seconds_on(topology)
        caches = topology.last_level_cache_bytes(topology.cpu_of_core)
        size = budget.BEYOND_CACHES * max(ARRAYS.values()) * caches
        return self.seconds_beyond_caches([*ARRAYS], size, topology)

    def takes_seconds(self):
        return super().takes_seconds() and self.level == 'memory'

    @run_after('setup')
    def choose_kernels(self):
        self.metrics, groups = [], [*self.by_domain.values()]
        self.beyond = self.beyond_caches([*ARRAYS], *groups) if self.level == 'memory' else 0
        peak = 'memory_bandwidth' if self.level == 'memory' else None
        widest = isas_of(self.topology)[-1]
        for kernel, arrays in ARRAYS.items():
            self.runs[kernel] = Execution(self.options(kernel, widest, functools.partial(self.size, arrays)))
            self.metrics += bandwidth_metrics(kernel, peak, (self.layout, self.level) == ('node', 'memory'))

    def size(self, arrays: int, cpus: tuple[int, ...]) -> float:
        """Return the bytes of all arrays of a work group on `cpus` with which it works in this level."""
        if self.level == 'memory':
            return self.beyond * arrays * self.topology.last_level_cache_bytes(cpus)
        return self.topology.cache_bytes(int(self.level[1]), cpus) / 2

# SPDX-License-Identifier: BSD-3-Clause
"""likwid-bench's assembly kernels: peak Flop/s by instruction set, and bandwidth of each level of the memory.

They correspond to the FPU and MEM micro-kernels of the MareNostrum 5 paper (000, sections 3.1 and 3.2).
"""

import functools
import math

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from checks.core import budget
from checks.core.benchmark import Benchmark
from checks.core.job.spec import Execution
from checks.core.placement import Placement
from checks.core.reading.trials import Metric
from checks.core.topology import Topology, layouts, on_this_system, topologies
from checks.memory import likwid_base as likwid
from plumbline.record import Dim

LONGEST = 50  # seconds of a trial; sizes are cut to keep it


def flop_metrics(run: str, dims: dict[str, str], peak: float | None) -> list[Metric]:
    """Return the metrics of one run: GFlop/s of all its cores, Flop of a core in a nominal cycle, part of the peak."""
    metrics = [
        Metric('flops', 'GFlop/s', 'higher', likwid.FLOP_RATE, dims, scale=1e-3, run=run,
               peak='flops_dp' if dims.get('precision') == 'dp' else None),
        Metric('flop_per_cycle', 'Flop/cycle', 'higher', likwid.FLOPS, dims, per=likwid.OF_ONE_CORE_AND_CYCLE, run=run),
    ]  # fmt: skip
    if peak:
        metrics.append(Metric('peak_fraction', '1', 'higher', likwid.FLOP_RATE, dims, scale=1e6 / peak, run=run))
    return metrics


def bandwidth_metrics(kernel: str, peak: str | None) -> list[Metric]:
    """Return the metrics of the run `kernel`: GB/s of all its cores, and bytes of one core in a nominal cycle."""
    dims = {'kernel': kernel}
    per = likwid.OF_ONE_CORE_AND_CYCLE
    return [
        Metric('bandwidth', 'GB/s', 'higher', likwid.BYTE_RATE, dims, scale=1e-3, run=kernel, peak=peak),
        Metric('bytes_per_cycle', 'B/cycle', 'higher', likwid.BYTES, dims, per=per, run=kernel),
    ]


class LikwidBench(likwid.Likwid):
    """likwid-bench on the cores of one layout."""

    trials_by_mode = Benchmark.trials_by_mode | {'quick': 2}
    layout = parameter(on_this_system(layouts), loggable=True)

    def supports(self, topology):
        return super().supports(topology) and self.layout in layouts(topology)

    def takes_seconds(self) -> bool:
        """Return True if this case is short enough for mode quick."""
        return self.layout == 'node'

    @run_after('init')
    def choose_modes(self):
        modes = {'acceptance': True, 'nightly': self.layout in ('node', 'core'), 'quick': self.takes_seconds()}
        self.tags = {mode for mode, has_it in modes.items() if has_it}

    def seconds_on(self, topology: Topology) -> float:
        """Return the mean seconds of a trial on such a node, with sizes that nothing cuts."""
        return self.seconds_of(len(likwid.ARRAYS))

    def choose_budget(self):
        known = [self.seconds_on(topology) for _, topology in topologies() if self.supports(topology)]
        self.seconds = min(LONGEST, math.ceil(max(known, default=0)))
        super().choose_budget()

    @run_after('setup')
    def place(self):
        self.by_domain = layouts(self.topology)[self.layout]
        self.cores_in_use = tuple(cpu for cpus in self.by_domain.values() for cpu in cpus)
        self.placement = Placement(1, None)

    def options(self, kernel: str, isa: str, bytes_of_group) -> list[str]:
        """Return the options for `kernel`: a work group for each NUMA domain, with `bytes_of_group(cpus)` of arrays."""
        fused = self.topology.has_instructions('fma') and kernel in likwid.WITH_FMA_VARIANT
        options = ['-t', kernel + likwid.ISAS[isa][2 if fused else 1], likwid.repetitions(self.loop_seconds)]
        stride = self.topology.threads_per_core * (2 if self.layout == 'half_spread' else 1)
        for domain, cpus in self.by_domain.items():
            options += ['-w', f'M{domain}:{bytes_of_group(cpus) / 1000:.0f}kB:{len(cpus)}:1:{stride}']
        return options

    def sanity_faults(self, run):
        return likwid.faults_of(run.output, self.cores_in_use)


@rfm.simple_test
class LikwidPeakFlops(LikwidBench):
    """Sustained Flop/s of multiply-add on registers by instruction set and precision (000, table 2).

    Parses ``MFlops/s:  58565.12``. `flop_per_cycle` is that of one core in a nominal cycle: a core above its nominal
    clock exceeds the theoretical V x N x 2 of 000, table 1. `peak_fraction` compares with V x N x 2 at the highest
    clock of a core, where the site knows both.
    """

    descr = 'likwid-bench peakflops'
    dims = {'isa': Dim('name'), 'precision': Dim('name')}
    usual_spread = 0.01  # the clock of the cores; EP between executions: 0.2 % (002, section IV-E)

    @property
    def figures(self):
        return {'flops': {'roof': 'flops', 'dims': {'precision': 'dp'}}} if self.layout == 'node' else {}

    def seconds_on(self, topology):
        return self.seconds_of(2 * len(likwid.isas_of(topology)))

    @run_after('setup')
    def choose_kernels(self):
        self.metrics = []
        for isa in likwid.isas_of(self.topology):
            for precision, kernel in (('dp', 'peakflops'), ('sp', 'peakflops_sp')):
                run, dims = f'{isa}_{precision}', {'isa': isa, 'precision': precision}
                self.runs[run] = Execution(
                    self.options(kernel, isa, lambda cpus: self.topology.cache_bytes(1, cpus) / 2)
                )
                self.metrics += flop_metrics(run, dims, self.theoretical_peak(run))

    def theoretical_peak(self, run: str) -> float | None:
        """Return the Flop/s of all cores in use, V x N x 2 at their highest clock; None where the site lacks either."""
        flop_per_cycle, clock = self.partition.flop_per_cycle.get(run), self.partition.peaks.get('core_clock')
        self.provenance[f'theoretical_flop_per_cycle_{run}'] = str(flop_per_cycle or 'not known')
        return flop_per_cycle * clock * len(self.cores_in_use) if flop_per_cycle and clock else None


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

    @property
    def figures(self):
        return {'bandwidth': {'roof': 'bandwidth'}} if (self.layout, self.level) == ('node', 'memory') else {}

    def supports(self, topology):
        return super().supports(topology) and (
            self.level == 'memory' or topology.cache_bytes(int(self.level[1]), topology.cpu_of_core) > 0
        )

    def seconds_on(self, topology):
        if self.level != 'memory' or not topology.caches:
            return super().seconds_on(topology)
        caches = topology.last_level_cache_bytes(topology.cpu_of_core)
        size = budget.BEYOND_CACHES * max(likwid.ARRAYS.values()) * caches
        return self.seconds_beyond_caches([*likwid.ARRAYS], size, topology)

    def takes_seconds(self):
        return super().takes_seconds() and self.level == 'memory'

    @run_after('setup')
    def choose_kernels(self):
        self.metrics, groups = [], [*self.by_domain.values()]
        self.beyond = self.beyond_caches([*likwid.ARRAYS], *groups) if self.level == 'memory' else 0
        peak = 'memory_bandwidth' if self.level == 'memory' else None
        widest = likwid.isas_of(self.topology)[-1]
        for kernel, arrays in likwid.ARRAYS.items():
            self.runs[kernel] = Execution(self.options(kernel, widest, functools.partial(self.size, arrays)))
            self.metrics += bandwidth_metrics(kernel, peak)

    def size(self, arrays: int, cpus: tuple[int, ...]) -> float:
        """Return the bytes of all arrays of a work group on `cpus` with which it works in this level."""
        if self.level == 'memory':
            return self.beyond * arrays * self.topology.last_level_cache_bytes(cpus)
        return self.topology.cache_bytes(int(self.level[1]), cpus) / 2

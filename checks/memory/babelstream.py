# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream in the memory of the host: OpenMP bindings and their best, threads, array sizes, kinds of memory."""

import itertools
import math
from dataclasses import replace
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after, run_before, variable

from checks.core import budget
from checks.core.benchmark import Benchmark
from checks.core.meters.power_cap import UnderPowerCap
from checks.core.placement import Execution, Placement
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, mean, series_of
from checks.core.topology import Topology, on_this_system, topologies
from checks.memory.babelstream_output import bandwidth, failed_validations, faults_of
from plumbline.record import Dim, Record

SWEPT_ELEMENTS = [2**power for power in range(14, 28)]  # 003, appendix B.2: 16 k to 128 M doubles
FEWEST_REPETITIONS = 15  # the best of 15 is close to the best of 100
PASSES = 16  # over an array in a repetition of all kernels, with the reads before writes
START = 3.0  # seconds until the arrays are filled
# Table 1 of the US DOE study (003): OMP_NUM_THREADS (one, all cores, all hardware threads), OMP_PROC_BIND, OMP_PLACES
BINDINGS = {
    'one': ('one', None, None),
    'one-true': ('one', 'true', None),
    'cores': ('cores', None, None),
    'cores-true': ('cores', 'true', None),
    'cores-spread': ('cores', 'spread', 'cores'),
    'threads': ('threads', None, None),
    'threads-true': ('threads', 'true', None),
    'threads-close': ('threads', 'close', 'threads'),
}


def differs(binding: str, topology: Topology) -> bool:
    """Return True if a binding differs from the earlier ones on such a node: without SMT, threads equal cores."""
    return topology.threads_per_core > 1 or binding not in ('threads', 'threads-true')


class BabelStream(Benchmark):
    """The base of every BabelStream check: arrays, repetitions and sanity.

    Parses the rate of ``Triad       45644.122   0.01764     0.02890     0.01994``: MBytes/sec; min, max, average s.
    """

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), OpenMP'
    #: How often the program repeats each kernel: its default, or less often if the time of a trial does not suffice.
    repetitions = variable(int, value=100)
    trial_seconds: Any = 18
    dims = {'kernel': Dim('name')}
    usual_spread = 0.015  # 0.05 to 3.5 % within 100 runs, median 0.4 % of all cores and 1.3 % of one (003, Table 4)
    elements: dict[str, int]  # of an array, by run

    def stream(self, elements: int, run: str = 'run') -> list[str]:
        """Return the options of one run with arrays of `elements` doubles."""
        self.elements = getattr(self, 'elements', {}) | {run: elements}
        return ['--arraysize', str(elements), '--numtimes', str(self.repetitions)]

    def repeat_in_time(self, once: float, runs: int):
        """Lower the repetitions to what the time of a trial allows; `once`: seconds of one repetition of all runs."""
        allowed = int((self.trial_seconds - START * runs) / once)
        self.repetitions = min(self.repetitions, max(FEWEST_REPETITIONS, allowed))

    def sanity_faults(self, run: Run) -> list[str]:
        return failed_validations(run.errors) + faults_of(run.output, self.elements[run.name], self.repetitions)


class BabelStreamOnHost(BabelStream):
    """One process that may use the whole node; OpenMP places its threads."""

    efficiency_of = 'bandwidth'
    valid_prog_environs = ['+babelstream-omp']
    executable = 'omp-stream'

    def whole_node(self, threads: int, proc_bind: str | None = None, places: str | None = None, *wrapper: str):
        """Return a placement of one process with these threads, started through the words of `wrapper`."""
        return Placement(1, (self.topology.all_cpus,), threads, proc_bind, places, wrapper=wrapper)

    def rate(self, threads: int) -> float:
        return budget.memory_rate(self.topology, self.partition.peaks, threads)

    def doubles(self, *threads: int) -> list[int]:
        """Return the array elements for runs with these numbers of threads: at least four times all caches.

        If the time is too short, first the repetitions are reduced, then the arrays.
        """
        of_one_core, of_all = map(
            self.topology.last_level_cache_bytes, (self.topology.cpu_of_core[:1], self.topology.cpu_of_core)
        )
        wanted = max(2**25, math.ceil(budget.BEYOND_CACHES * of_all / 8 / 2**20) * 2**20)
        self.repeat_in_time(sum(PASSES * 8 * wanted / self.rate(count) for count in threads), len(threads))

        def fitting(count: int) -> int:
            needed = 3 * budget.BEYOND_CACHES * min(of_all, count * of_one_core)
            pace = self.repetitions * PASSES / 3 / self.rate(count)
            size = self.fit(24 * wanted, needed, lambda size: START + pace * size, runs=len(threads))
            return int(size) // 24

        return [fitting(count) for count in threads]


@rfm.simple_test
class BabelStreamHost(BabelStreamOnHost):
    """Sustainable bandwidth of the host's memory, for each binding of Table 1 of 003 that differs here."""

    descr = 'BabelStream, OpenMP'
    binding = parameter(list(BINDINGS), loggable=True)
    metrics = [replace(bandwidth(), figures={'roof': 'bandwidth'})]
    trial_seconds = None  # as its binding needs

    def supports(self, topology: Topology) -> bool:
        return differs(self.binding, topology)

    @run_after('init')
    def choose_modes(self):
        quick = self.binding == 'cores-spread'
        self.tags = {'nightly', 'acceptance'} | ({'quick'} if quick else set())
        self.trial_seconds = self.trial_seconds or (18 if quick else 90)

    @run_after('setup')
    def place(self):
        count, proc_bind, places = BINDINGS[self.binding]
        threads = {'one': 1, 'cores': len(self.topology.cores), 'threads': len(self.topology.all_cpus)}[count]
        self.placement = self.whole_node(threads, proc_bind, places)
        (elements,) = self.doubles(threads)
        self.executable_opts = self.stream(elements)


@rfm.simple_test
class BabelStreamPowerCap(UnderPowerCap, BabelStreamHost):
    """GB/s, energy and GB/J of each kernel; the kernels need half the power of the processors (002, figure 12)."""

    descr = 'BabelStream under a power cap'
    last_run = 'not yet under a real cap'
    binding = parameter(['cores-spread'], loggable=True)


@rfm.simple_test
class BabelStreamBest(Benchmark):
    """The best kernel with the best binding, of one thread and of all, as in Table 4 of 003.

    Runs nothing: takes the samples of the kernel and binding with the highest mean from the BabelStreamHost cases of
    this session, and names both in its provenance.
    """

    descr = 'BabelStream, best over kernels and bindings'
    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), OpenMP'
    valid_prog_environs = ['+babelstream-omp']
    tags = {'nightly', 'acceptance'}
    local = True
    executable = 'true'
    metrics = [Metric('single_best', 'GB/s', 'higher'), Metric('all_best', 'GB/s', 'higher')]
    usual_spread = BabelStream.usual_spread

    @run_after('init')
    def depend_on_bindings(self):
        exist = [name for name in BINDINGS if any(differs(name, topology) for _, topology in topologies())]
        variants = BabelStreamHost.get_variant_nums(binding=exist.__contains__)
        self.parts = [BabelStreamHost.variant_name(variant) for variant in variants]
        for name in self.parts:
            self.depends_on(name)

    @run_before('run')
    def assemble_job(self):
        self.trials = 0

    def derive(self, record: Record) -> None:
        cases = [self.getdep(name) for name in self.parts]
        for metric, one_thread in (('single_best', True), ('all_best', False)):
            measured = {
                (case.binding, dict(series.dims)['kernel']): series
                for case in cases
                for _, _, series in case.result.series()
                if (BINDINGS[case.binding][0] == 'one') is one_thread and series.samples and not series.invalid
            }
            if measured:
                best = max(measured, key=lambda which: mean(measured[which]))
                one, taken = series_of(record, metric), measured[best]
                one.samples, one.judged = taken.samples, taken.judged
                record.provenance[metric] = '{1} with binding {0}'.format(*best)
        record.provenance['binary_sha256'] = cases[0].result.provenance.get('binary_sha256', '')
        record.trials = cases[0].trials


@rfm.simple_test
class BabelStreamThreads(BabelStreamOnHost):
    """All kernels over the number of threads, close and spread (000, figures 6, 8 and 28).

    1, 2, 4, ... threads, a full socket, 75 % of the cores, all cores.
    """

    descr = 'BabelStream over threads'
    trial_seconds = 1800
    dims = BabelStream.dims | {'proc_bind': Dim('name'), 'threads': Dim('count')}
    tags = {'acceptance'}

    @run_after('setup')
    def sweep(self):
        cores, socket = len(self.topology.cores), len(self.topology.cpus_in(self.topology.sockets[0]))
        counts = sorted({2**power for power in range(cores.bit_length())} | {socket, max(1, 3 * cores // 4), cores})
        self.metrics, runs = [], list(itertools.product(('close', 'spread'), counts))
        for (proc_bind, threads), elements in zip(runs, self.doubles(*(count for _, count in runs)), strict=True):
            run = f'{proc_bind}_{threads}'
            of_run = {'OMP_NUM_THREADS': str(threads), 'OMP_PROC_BIND': proc_bind}
            self.runs[run] = Execution(self.stream(elements, run), of_run)
            self.metrics.append(bandwidth(run, proc_bind=proc_bind, threads=threads))
        self.placement = self.whole_node(cores, 'close', 'cores')


@rfm.simple_test
class BabelStreamSizes(BabelStreamOnHost):
    """All kernels over the size of an array, 16 k to 128 M doubles (003, appendix B.2), on all cores, spread.

    Arrays below four times the last-level cache measure caches, and have no peak. 003 swept the sizes under each
    binding, and shows the largest alone, which `BabelStreamHost` measures under each.
    """

    descr = 'BabelStream over array sizes'
    trial_seconds = 300
    dims = BabelStream.dims | {'elements': Dim('size', '1')}
    tags = {'acceptance'}

    @run_after('setup')
    def sweep(self):
        cpus = self.topology.cpu_of_core
        room = 0.8 * self.topology.memory_bytes / (3 * 8)
        beyond_caches = budget.BEYOND_CACHES * self.topology.last_level_cache_bytes(cpus) / 8
        self.metrics, swept = [], [*filter(room.__gt__, SWEPT_ELEMENTS)]
        self.repeat_in_time(PASSES * 8 * sum(swept) / self.rate(len(cpus)), len(swept))
        for elements in swept:
            run = f'elements_{elements}'
            self.runs[run] = Execution(self.stream(elements, run))
            peak = 'memory_bandwidth' if elements >= beyond_caches else None
            self.metrics.append(bandwidth(run, peak, elements=elements))
        self.placement = self.whole_node(len(cpus), 'spread', 'cores')


@rfm.simple_test
class BabelStreamMemory(BabelStreamOnHost):
    """Each kind of memory of a node that has several, such as HBM beside DDR (000, section 6): all cores, spread."""

    descr = 'BabelStream by kind of memory'
    kind = parameter(on_this_system(lambda topology: topology.memory_kinds), loggable=True)
    tags = {'nightly', 'acceptance'}
    metrics = [bandwidth(peak=None)]

    def supports(self, topology: Topology) -> bool:
        return self.kind in topology.memory_kinds

    @run_after('setup')
    def place(self):
        domains = ','.join(map(str, self.topology.memory_kinds[self.kind]))
        cores = len(self.topology.cores)
        self.placement = self.whole_node(cores, 'spread', 'cores', 'numactl', f'--membind={domains}')
        (elements,) = self.doubles(cores)
        self.executable_opts = self.stream(elements)

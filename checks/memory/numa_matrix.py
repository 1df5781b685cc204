"""Memory between the NUMA domains of a node: bandwidth and latency from each to each, and all at the same time.

They are figure 1 and table II of the Superdome Flex paper (002), which measured with Intel's Memory Latency Checker.
"""

import math
from statistics import fmean

import reframe as rfm
from reframe.core.builtins import run_after, variable

from checks.core.benchmark import Benchmark
from checks.core.placement import self_binding
from checks.core.trials import Metric, by_trial, series_of
from checks.memory.likwid import ARRAYS, ISAS, cpus_used
from checks.memory.numa import allocated_from, coefficient_of_variation, distance_classes, normalized_range
from plumbline.units import UNITS


class NumaDomains(Benchmark):
    """What the checks below share: domains by number, and metrics computed from several runs of a trial."""

    tags = {'nightly', 'acceptance'}

    @run_after('setup')
    def look_at_the_domains(self):
        self.placement = self_binding()
        self.domains = self.topology.numa_domains
        self.cpus = [self.topology.cpus_in(domain) for domain in self.domains]
        self.metrics = []

    def add(self, record, name: str, inputs: list[str], function):
        """The sample of `name` in each trial that measured all `inputs`: `function` of their values."""
        series_of(record, name).samples = by_trial([series_of(record, each) for each in inputs], function)


class LikwidOnDomains(NumaDomains):
    """likwid-bench on the cores of a domain, and arrays of four times their last-level cache in one domain's memory."""

    requires = 'likwid'
    executable = 'likwid-bench'
    #: Shortest time of the measured loop, in seconds.
    loop_seconds = variable(int, value=1)

    def rate(self, run: str) -> Metric:
        return Metric(run, 'GB/s', 'higher', r'^MByte/s:\s+(\S+)', scale=1e-3, run=run, peak='memory_bandwidth')

    def options(self, kernel: str, cores: int, memory: int) -> list[str]:
        widest = [suffix for extension, suffix, _ in ISAS.values() if self.topology.has_instructions(extension)][-1]
        arrays, cpus = ARRAYS[kernel], self.cpus[cores]
        size = f'{4 * arrays * self.topology.last_level_cache_bytes(cpus) / 1000:.0f}kB'
        group = f'M{cores}:{size}:{len(cpus)}:1:{self.topology.threads_per_core}'
        streams = ','.join(f'{array}:M{memory}' for array in range(arrays))
        return ['-t', kernel + widest, '-s', str(self.loop_seconds), '-w', f'{group}-{streams}']

    def sanity_faults(self, run):
        cores, memory = self.places[run.name]
        asked, ran_on, allocated = sorted(self.cpus[cores]), cpus_used(run.output), allocated_from(run.output)
        faults = [] if ran_on == asked else [f'threads were asked on CPUs {asked} and ran on {ran_on}']
        if not allocated or not allocated <= self.domains[memory]:
            faults.append(f'memory was asked in NUMA domain {memory} and allocated from CPUs {sorted(allocated)}')
        return faults

    def invalid_reason(self, metric, value, run):
        """One domain's memory is taken to deliver no more than its share of the node's peak."""
        peak, domains = self.partition.peaks.get(metric.peak, math.inf) / UNITS[metric.unit], len(self.domains)
        if value <= peak / domains:
            return None
        return f'{value:.6g} {metric.unit} is above 1/{domains} of the physical peak of {peak:.6g} {metric.unit}'


class Matrix(rfm.RegressionTestPlugin):
    """A run and a metric for each pair of domains, and the mean of each class of distance."""

    trials_by_mode = {'quick': 3, 'nightly': 3, 'acceptance': 5}

    def add_pairs(self, quantity: str):
        """Fills `places`: run -> (domain of the cores, domain of the memory)."""
        pairs = [(i, j) for i in range(len(self.domains)) for j in range(len(self.domains))]
        self.places = {f'{quantity}_{i}_{j}': (i, j) for i, j in pairs}
        self.classes = {
            f'{quantity}_{name}': [f'{quantity}_{i}_{j}' for i, j in members]
            for name, members in distance_classes(self.topology.numa_distances, len(self.domains)).items()
        }
        self.provenance |= {name: ' '.join(members) for name, members in self.classes.items()}
        rows = self.topology.numa_distances
        self.provenance['numa_distances'] = '; '.join(' '.join(map(str, row)) for row in rows) or 'not known'
        self.trial_time_limit = 30 * len(pairs)

    def derive(self, record):
        for name, members in self.classes.items():
            self.add(record, name, members, fmean)


@rfm.simple_test
class NumaBandwidth(Matrix, LikwidOnDomains):
    """Loads by all cores of domain i from the memory of domain j, each pair alone: ``bandwidth_<i>_<j>``.

    Parses ``MByte/s:  28835.97``. Arrays are placed by first touch from a core of domain j.
    """

    descr = 'Bandwidth between NUMA domains'

    @run_after('setup')
    def choose_runs(self):
        self.add_pairs('bandwidth')
        self.runs |= {run: self.options('load', *pair) for run, pair in self.places.items()}
        self.metrics = [self.rate(run) for run in self.places]
        self.metrics += [Metric(name, 'GB/s', 'higher') for name in self.classes]


@rfm.simple_test
class NumaLatency(Matrix, NumaDomains):
    """A chain of dependent loads by one core of domain i in the memory of domain j: ``latency_<i>_<j>``.

    Parses the last line of multichase, ``126.3``: ns of one load, mean of its samples. Random order within 64 pages
    at a time, so that neither prefetchers nor missing page translations count; one load every 128 bytes, a pair of
    cache lines, over eight times the lines of the core's last-level cache.
    """

    descr = 'Latency between NUMA domains'
    requires = 'multichase'
    executable = 'multichase'
    #: Samples of half a second; the program measures one more and drops it.
    half_seconds = variable(int, value=3)

    @run_after('setup')
    def choose_runs(self):
        self.add_pairs('latency')
        first_cores = [cpus[0] for cpus in self.cpus]
        cache = max(self.topology.last_level_cache_bytes((core,)) for core in first_cores)
        self.memory_mib = 4 * math.ceil(8 * 2 * cache / 2**22)  # whole runs of 64 pages, even where a page has 64 KiB
        for run, (cores, memory) in self.places.items():
            self.run_env[run] = {'PLUMBLINE_CPUS': str(first_cores[cores])}
            self.runs[run] = [
                '-v', '-a', '-n', str(self.half_seconds), '-s', '128', '-m', f'{self.memory_mib}m',
                '-W', f'{self.topology.numa_ids[memory]}:1',
            ]  # fmt: skip
        self.metrics = [Metric(run, 'ns', 'lower', r'^\s*(\d+\.\d+)$', run=run) for run in self.places]
        self.metrics += [Metric(name, 'ns', 'lower') for name in self.classes]

    def sanity_faults(self, run):
        asked = f'total_memory = {self.memory_mib * 2**20} '
        return [] if asked in run.output else [f'the chain is not as long as asked: expected {asked.strip()}']


@rfm.simple_test
class NumaStream(LikwidOnDomains):
    """STREAM's triad in every domain at the same time, a process for each on its own cores and memory.

    Parses ``MByte/s:  27677.84``. ``triad_cv`` and ``triad_range`` are of the times that equal work takes, as in 002;
    a node of one domain has neither.
    """

    descr = 'STREAM triad in all NUMA domains at once'
    concurrent = True
    loop_seconds = 2

    @run_after('setup')
    def choose_runs(self):
        self.places = {f'triad_{i}': (i, i) for i in range(len(self.domains))}
        self.runs |= {run: self.options('stream', *place) for run, place in self.places.items()}
        self.metrics = [self.rate(run) for run in self.places]
        self.metrics.append(Metric('triad_total', 'GB/s', 'higher'))
        if len(self.domains) > 1:
            self.metrics += [Metric('triad_cv', '1', 'lower'), Metric('triad_range', '1', 'lower')]

    def derive(self, record):
        rates = list(self.places)
        self.add(record, 'triad_total', rates, sum)
        if len(self.domains) > 1:
            self.add(record, 'triad_cv', rates, lambda values: coefficient_of_variation([1 / rate for rate in values]))
            self.add(record, 'triad_range', rates, lambda values: normalized_range([1 / rate for rate in values]))

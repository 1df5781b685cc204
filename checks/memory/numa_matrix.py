# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the NUMA domains of a node: bandwidth and latency from each to each, and of all at the same time.

As figure 1 and table II of the Superdome Flex paper (002), which used Intel's Memory Latency Checker.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.placement import Execution, Placement, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, Of
from checks.memory import likwid
from checks.memory.cache_latency import LATENCY, SAMPLES, chase_faults, chase_options
from checks.memory.likwid import ARRAYS, BYTE_RATE, ISAS, Likwid, allocated_from, faults_of, isas_of, repetitions
from plumbline.record import Better, Dim

CHAIN_RATE = 0.5e9  # bytes/s at which multichase makes its chain
Pair = tuple[int, int]  # the domain of the cores, the domain of the memory


def distance_classes(distances: Sequence[Sequence[int]], domains: int) -> dict[str, list[Pair]]:
    """Return the pairs of domains by class of distance, nearest first.

    ``local`` is the diagonal. All others are ``remote`` if their distances are equal or unknown. Otherwise the largest
    step in the sorted distances separates ``same_group`` from ``other_group``; if a group has several distances, each
    is a class of its own, such as ``same_group_16``.
    """
    classes = {'local': [(i, i) for i in range(domains)]}
    remote = [(i, j) for i in range(domains) for j in range(domains) if i != j]
    levels = sorted({distances[i][j] for i, j in remote}) if distances else []
    if remote and len(levels) < 2:
        classes['remote'] = remote
    elif remote:
        step = max(range(1, len(levels)), key=lambda k: levels[k] / levels[k - 1])
        for group, members in (('same_group', levels[:step]), ('other_group', levels[step:])):
            for level in members:
                name = group if len(members) == 1 else f'{group}_{level}'
                classes[name] = [(i, j) for i, j in remote if distances[i][j] == level]
    return classes


def coefficient_of_variation(times: Sequence[float]) -> float:
    """Return the standard deviation of the times of equal work, over their mean."""
    return stdev(times) / fmean(times)


def normalized_range(times: Sequence[float]) -> float:
    """Return (tmax - tmin) / tmin: how much longer the slowest takes than the fastest (002, section IV-E)."""
    return max(times) / min(times) - 1


def name_of(pair: Pair) -> str:
    """Return the value of the dim `pair`."""
    return '{}-{}'.format(*pair)


class NumaDomains(rfm.RegressionTestPlugin):
    """What the checks below share: modes, the domains by number, and the cores of each."""

    @run_after('init')
    def choose_modes(self):
        self.tags = {'nightly', 'acceptance'}

    @run_after('setup')
    def look_at_the_domains(self):
        self.placement = Placement(1, None)
        self.domains = self.topology.numa_domains
        self.cpus = [self.topology.cpus_in(domain) for domain in self.domains]
        self.metrics = []


class LikwidOnDomains(NumaDomains, Likwid):
    """likwid-bench on the cores of a domain, and arrays of four times their last-level cache in one domain's memory."""

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), one NUMA domain'

    def rate(self, metric: str, run: str, **dims: object) -> Metric:
        """Return the metric of a run; the memory of a domain delivers at most its share of the node's peak."""
        whole = self.partition.peaks.get('memory_bandwidth')
        peak = whole and whole / len(self.domains)
        return Metric(metric, 'GB/s', 'higher', BYTE_RATE, dims, scale=1e-3, run=run, peak=peak)

    def options(self, kernel: str, cores: int, memory: int) -> list[str]:
        arrays, cpus, (_, suffix, _) = ARRAYS[kernel], self.cpus[cores], ISAS[isas_of(self.topology)[-1]]
        size = f'{self.beyond * arrays * self.topology.last_level_cache_bytes(cpus) / 1000:.0f}kB'
        group = f'M{cores}:{size}:{len(cpus)}:1:{self.topology.threads_per_core}'
        streams = ','.join(f'{array}:M{memory}' for array in range(arrays))
        return ['-t', kernel + suffix, repetitions(self.loop_seconds), '-w', f'{group}-{streams}']

    def sanity_faults(self, run: Run) -> list[str]:
        cores, memory = self.places[run.name]
        faults, allocated = faults_of(run.output, self.cpus[cores]), allocated_from(run.output)
        if not allocated or not allocated <= self.domains[memory]:
            faults.append(f'memory was requested in NUMA domain {memory} and allocated from CPUs {sorted(allocated)}')
        return faults


class Matrix(rfm.RegressionTestPlugin):
    """A run for each pair of domains, a series for each pair and each class of distance."""

    dims = {'pair': Dim('pair'), 'distance': Dim('name')}

    def add_pairs(self, quantity: str):
        """Fill `places`: run -> (domain of the cores, domain of the memory); and `classes`: distance -> pairs."""
        pairs = [(i, j) for i in range(len(self.domains)) for j in range(len(self.domains))]
        self.places = {f'{quantity}_{i}_{j}': (i, j) for i, j in pairs}
        self.classes = distance_classes(self.topology.numa_distances, len(self.domains))
        self.provenance |= {
            f'{quantity}_{name}': ' '.join(map(name_of, members)) for name, members in self.classes.items()
        }
        rows = [' '.join(map(str, row)) for row in self.topology.numa_distances]
        self.provenance['numa_distances'] = '; '.join(rows) or 'not known'
        self.trial_seconds *= len(pairs)  # the budget is for one pair

    def by_distance(self, quantity: str, unit: str, better: Better) -> list[Metric]:
        """Return the means over the pairs of each class."""
        return [
            Metric(quantity, unit, better, dims={'distance': name},
                   of=Of(quantity, fmean, {'pair': list(map(name_of, members))}))
            for name, members in self.classes.items()
        ]  # fmt: skip


@rfm.simple_test
class NumaBandwidth(Matrix, LikwidOnDomains):
    """Loads by all cores of domain i from the memory of domain j, each pair alone: ``pair=<i>-<j>``.

    Parses ``MByte/s:  28835.97``. Arrays are placed by first touch from a core of domain j.
    """

    descr = 'Bandwidth between NUMA domains'
    trials = FEW_TRIALS

    @run_after('setup')
    def choose_runs(self):
        self.add_pairs('bandwidth')
        self.beyond = self.beyond_caches(['load'], max(self.cpus, key=len), runs=len(self.places))
        self.estimates *= len(self.places)
        self.runs |= {run: Execution(self.options('load', *pair)) for run, pair in self.places.items()}
        self.metrics = [self.rate('bandwidth', run, pair=name_of(pair)) for run, pair in self.places.items()]
        self.metrics += self.by_distance('bandwidth', 'GB/s', 'higher')


@rfm.simple_test
class NumaLatency(Matrix, NumaDomains, Benchmark):
    """A chain of dependent loads by one core of domain i in the memory of domain j: ``pair=<i>-<j>``.

    Parses the last line of multichase, ``126.3``: ns of one load, mean of its samples. The order is random within 64
    pages at a time, so that neither prefetchers nor page translations count; one load every 128 bytes, a pair of cache
    lines, over eight times the lines of the core's last-level cache.
    """

    descr = 'Latency between NUMA domains'
    trials = FEW_TRIALS
    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), one NUMA domain'
    usual_spread = 0.02  # no source
    valid_prog_environs = ['+multichase']
    executable = 'multichase'

    @run_after('setup')
    def choose_runs(self):
        self.add_pairs('latency')
        first_cores = [cpus[0] for cpus in self.cpus]
        cache = max(self.topology.last_level_cache_bytes((core,)) for core in first_cores)
        wanted, start = 16 * cache, 2 + SAMPLES / 2
        chain = self.fit(wanted, wanted / 2, lambda size: start + size / CHAIN_RATE, runs=len(self.places))
        self.estimates *= len(self.places)
        self.memory_mib = 4 * math.ceil(chain / 2**22)  # whole runs of 64 pages of up to 64 KiB
        for run, (cores, memory) in self.places.items():
            options = chase_options(128, f'{self.memory_mib}m', '-W', f'{self.topology.numa_ids[memory]}:1')
            self.runs[run] = Execution(options, placement=one_rank_on((first_cores[cores],)))
        self.metrics = [
            Metric('latency', 'ns', 'lower', LATENCY, {'pair': name_of(pair)}, run=run)
            for run, pair in self.places.items()
        ]
        self.metrics += self.by_distance('latency', 'ns', 'lower')

    def sanity_faults(self, run: Run) -> list[str]:
        return chase_faults(run.output, self.memory_mib * 2**20)


@rfm.simple_test
class NumaStream(LikwidOnDomains):
    """STREAM's triad in every domain at the same time, a process for each on its own cores and memory.

    Parses ``MByte/s:  27677.84``. ``triad_cv`` and ``triad_range`` are of the times of equal work, as in 002; a node
    of one domain has neither.
    """

    descr = 'STREAM triad in all NUMA domains at once'
    loop_seconds = 2
    trial_seconds = 20  # on all cores of a large node 11 without an array
    dims = {'domain': Dim('name')}
    # the difference of domains that are alike varies as much as the domains: no source
    usual_spread = {'triad_cv': 0.3, 'triad_range': 0.3, '*': likwid.USUAL_SPREAD}

    @run_after('setup')
    def choose_runs(self):
        self.places = {f'triad_{i}': (i, i) for i in range(len(self.domains))}
        self.beyond = self.beyond_caches(['stream'], *self.cpus)
        self.runs |= {run: Execution(self.options('stream', *place)) for run, place in self.places.items()}
        triads = [self.rate('triad', run, domain=domain) for run, (domain, _) in self.places.items()]
        self.metrics = [replace(triad, figures={'balance': 'domain'}) for triad in triads]
        intensity = {'intensity': 2 / 24}  # two Flop, three doubles
        self.metrics.append(Metric('triad_total', 'GB/s', 'higher', of=Of('triad', sum), figures=intensity))
        for name, spread in (('triad_cv', coefficient_of_variation), ('triad_range', normalized_range)):
            of_times = Of('triad', lambda rates, spread=spread: spread([1 / rate for rate in rates]))
            self.metrics += [Metric(name, '1', 'lower', of=of_times)] * (len(self.domains) > 1)

    def job_spec(self):
        return replace(super().job_spec(), concurrent=True)

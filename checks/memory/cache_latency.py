# SPDX-License-Identifier: BSD-3-Clause
"""Latency of each level of the caches of one core."""

import re

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core.benchmark import FEW_TRIALS, Benchmark
from checks.core.placement import Execution, one_rank_on
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric
from checks.core.topology import Topology
from plumbline.record import Dim

LOCALITY = 2**18  # bytes within which multichase's order is random: 64 pages, so that translations do not count
SAMPLES = 3  # of half a second; the program measures one more and drops it
LATENCY = r'^(?=.{6}) *(\d+\.\d+)$'  # the last line: mean ns of the samples, six characters or more


def chase_options(stride: int, size: str, *more: str) -> list[str]:
    """Return the options of a chain of this size with a pointer every `stride` bytes."""
    return ['-v', '-a', '-n', str(SAMPLES), '-s', str(stride), '-m', size, *more]


def chase_faults(output: str, size: int) -> list[str]:
    """Return a sentence if multichase did not take all samples of a chain of `size` bytes."""
    faults = []
    if f'total_memory = {size} ' not in output:
        faults.append(f'the chain is not as long as requested: expected total_memory = {size}')
    if (taken := len(re.findall(r'^ +[0-9.]+ +avg=', output, re.MULTILINE))) != SAMPLES:
        faults.append(f'{SAMPLES} samples were requested, multichase took {taken}')
    return faults


def chain_within(cache: int) -> tuple[int, int]:
    """Return the bytes of a chain that fills half of a cache, and the bytes within which its order is random."""
    locality = min(LOCALITY, cache // 2)
    return cache // 2 // locality * locality, locality


@rfm.simple_test
class CacheLatency(Benchmark):
    """A chain of dependent loads by one core in half of each of its caches: ``level=L1``.

    Parses the last line of multichase, `` 1.156``: ns of one load, mean of its samples; one load in each line of 64
    bytes, in random order.
    """

    descr = 'Latency of the caches of one core'
    last_run = '2026-11-22, virtual machine, 2 cores (AMD EPYC, Zen 4)'
    trials = FEW_TRIALS
    tags = {'nightly', 'acceptance'}
    valid_prog_environs = ['+multichase']
    executable = 'multichase'
    dims = {'level': Dim('name')}
    usual_spread = 0.02  # no source

    def supports(self, topology: Topology) -> bool:
        return bool(topology.caches)

    @run_after('setup')
    def choose_runs(self):
        core = self.topology.cpu_of_core[:1]
        self.placement = one_rank_on(core)
        levels = sorted({cache.level for cache in self.topology.caches})
        self.chains = {f'L{level}': chain_within(self.topology.cache_bytes(level, core)) for level in levels}
        self.runs |= {
            level: Execution(chase_options(64, str(size), '-T', str(locality)))
            for level, (size, locality) in self.chains.items()
        }
        self.estimates = [len(levels) * (1 + SAMPLES / 2)]
        self.metrics = [Metric('latency', 'ns', 'lower', LATENCY, {'level': level}, run=level) for level in self.runs]

    def sanity_faults(self, run: Run) -> list[str]:
        return chase_faults(run.output, self.chains[run.name][0])

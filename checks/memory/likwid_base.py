# SPDX-License-Identifier: BSD-3-Clause
"""likwid-bench: its kernels, what it prints of rates, cycles, threads and memory, and the base of its checks."""

import re
from collections.abc import Mapping, Sequence

from reframe.core.builtins import variable

from checks.core import budget
from checks.core.benchmark import Benchmark
from checks.core.job.script import ShellText
from checks.core.topology import Topology

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

    def supports(self, topology):
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

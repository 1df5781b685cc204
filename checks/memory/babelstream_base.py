# SPDX-License-Identifier: BSD-3-Clause
"""BabelStream: five kernels over three arrays, in the memory of the host and of each device.

All of its programs print lines such as ``Triad   45644.122   0.01764   0.02890   0.01994``: the rate of the best
repetition in MB/s (10^6 bytes), then the shortest, longest and mean time. The rate counts the bytes that the kernel
names: twice the array for copy, mul and dot, three times for add and triad, no write-allocate traffic.
"""

import re

from reframe.core.builtins import variable

from checks.core.benchmark import Benchmark
from checks.core.reading.agreement import Agreement, Claim, Traces, at_most, printed
from checks.core.reading.trials import Metric
from plumbline.record import Dim

ARRAYS = {'copy': 2, 'mul': 2, 'add': 3, 'triad': 3, 'dot': 2}  # arrays whose bytes a kernel counts
KERNELS = tuple(ARRAYS)
KERNEL = {'kernel': Dim('name')}
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


def bandwidth(run: str = 'run', peak: str | None = 'memory_bandwidth', **dims: object) -> Metric:
    """Return the five rates of one run with these further dims."""
    rows = rf'^(?P<kernel>{"|".join(map(str.title, KERNELS))}) +(?P<value>\d+\.\d{{3}})(?: +\d+\.\d{{5}}){{3}} *$'
    expected = {'kernel': KERNELS}
    return Metric('bandwidth', 'GB/s', 'higher', rows, dims, expected, scale=1e-3, run=run, peak=peak)


_ROW = rf'^(?P<kernel>{"|".join(map(str.title, KERNELS))}) +(?P<rate>\d+\.\d{{3}})' + ''.join(
    rf' +(?P<{which}>\d+\.\d{{5}})' for which in ('least', 'most', 'mean')
)


def agreement(elements: int) -> Agreement:
    """Return what must hold in each row of a run on arrays of `elements` doubles."""
    return Agreement(_ROW, [
        Claim('rate and shortest time', lambda row: (
            row['rate'] * row['least'], ARRAYS[row['kernel'].lower()] * 8e-6 * elements)),
        Claim('shortest and mean time', lambda row: (row['least'], row['mean']), at_most),
        Claim('mean and longest time', lambda row: (row['mean'], row['most']), at_most),
    ])  # fmt: skip


def traces_of(output: str, repetitions: int) -> Traces:
    """Return the time of all repetitions but the first, which the mean leaves out."""
    means = [printed(match['mean']) for match in re.finditer(_ROW, output, re.MULTILINE)]
    return Traces(seconds=(repetitions - 1) * sum(means, printed('0')))


def faults_of(output: str, elements: int, repetitions: int) -> list[str]:
    """Return one sentence for each sign that an output is not that of a complete run of `elements` doubles."""
    size = f'{elements * 8e-6:.1f} MB'
    header = r'^Function\s+(?:MBytes/sec|MB/s)\s+Min \(sec\)\s+Max\s+Average\s*$'
    signs = (
        (header, 'no one table in MB/s of four columns'),
        (r'^Precision: double\s*$', 'it did not run in double precision'),
        (rf'^(?:Array size: {re.escape(size)} \(=|Number of elements: {elements}$)', f'the arrays are not of {size}'),
        (rf'^Running .*\b{repetitions} times', f'it did not say that it ran {repetitions} times'),
    )
    faults = [sentence for pattern, sentence in signs if len(re.findall(pattern, output, re.MULTILINE)) != 1]
    return faults or agreement(elements).faults(output)


class BabelStream(Benchmark):
    """The arrays, repetitions and sanity of every variant."""

    last_run = '2026-11-21, virtual machine, 2 cores (AMD EPYC, Zen 4), OpenMP'
    #: Times that the program repeats each kernel: its default, or fewer where the time of a trial does not suffice.
    repetitions = variable(int, value=100)
    seconds = 18
    dims = KERNEL
    usual_spread = 0.015  # 0.05 to 3.5 % within 100 runs, median 0.4 % of all cores and 1.3 % of one (003, Table 4)
    elements: dict[str, int]  # of an array, by run

    def stream(self, elements: int, run: str = 'run', device: int | None = None) -> list[str]:
        """Return the options of one run with arrays of `elements` doubles."""
        self.elements = getattr(self, 'elements', {}) | {run: elements}
        on_device = [] if device is None else ['--device', str(device)]
        return ['--arraysize', str(elements), '--numtimes', str(self.repetitions), *on_device]

    def repeat_in_time(self, once: float, runs: int):
        """Lower the repetitions to what the time of a trial allows; `once`: seconds of one repetition of all runs."""
        allowed = int((self.trial_seconds - START * runs) / once)
        self.repetitions = min(self.repetitions, max(FEWEST_REPETITIONS, allowed))

    def sanity_faults(self, run):
        said = [f'the program says: {line}' for line in run.errors.splitlines() if line.startswith('Validation failed')]
        return said + faults_of(run.output, self.elements[run.name], self.repetitions)

    def traces(self, run):
        return traces_of(run.output, self.repetitions)

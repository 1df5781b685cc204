# SPDX-License-Identifier: BSD-3-Clause
"""The output of BabelStream.

All of its programs print lines such as ``Triad   45644.122   0.01764   0.02890   0.01994``: the rate of the best
repetition in MB/s (10^6 bytes), then the shortest, longest and mean time. The rate counts the bytes that the kernel
names: twice the array for copy, mul and dot, three times for add and triad, no write-allocate traffic.
"""

import re

from checks.core.reading.agreement import Agreement, Claim, Span, Traces, at_most, exact, printed
from checks.core.reading.trials import Metric

ARRAYS = {'copy': 2, 'mul': 2, 'add': 3, 'triad': 3, 'dot': 2}  # arrays whose bytes a kernel counts
KERNELS = tuple(ARRAYS)


def bandwidth(run: str = 'run', peak: str | None = 'memory_bandwidth', **dims: object) -> Metric:
    """Return the five rates of one run with these further dims."""
    rows = rf'^(?P<kernel>{"|".join(map(str.title, KERNELS))}) +(?P<value>\d+\.\d{{3}})(?: +\d+\.\d{{5}}){{3}} *$'
    expected = {'kernel': KERNELS}
    return Metric('bandwidth', 'GB/s', 'higher', rows, dims, expected, scale=1e-3, run=run, peak=peak)


_ROW = rf'^(?P<kernel>{"|".join(map(str.title, KERNELS))}) +(?P<rate>\d+\.\d{{3}})' + ''.join(
    rf' +(?P<{which}>\d+\.\d{{5}})' for which in ('least', 'most', 'mean')
)


HEADER = (
    r'^Function\s+(?:MBytes/sec|MB/s)\s+Min \(sec\)\s+Max\s+Average\s*$', 'no one table in MB/s of four columns',
)  # fmt: skip


def agreement(megabytes: Span) -> Agreement:
    """Return what must hold in each row of a run on arrays of so many MB each."""
    return Agreement(_ROW, [
        Claim('rate and shortest time', lambda row: (
            row['rate'] * row['least'], ARRAYS[row['kernel'].lower()] * megabytes)),
        Claim('shortest and mean time', lambda row: (row['least'], row['mean']), at_most),
        Claim('mean and longest time', lambda row: (row['mean'], row['most']), at_most),
    ], words=('kernel',))  # fmt: skip


def broken_rows(output: str) -> list[str]:
    """Return a sentence for each row of a kernel whose columns cannot be told apart."""
    rows = re.findall(rf'^(?:{"|".join(map(str.title, KERNELS))})\b.*', output, re.MULTILINE)
    found = [' '.join(row.split())[:80] for row in rows if not re.match(_ROW, row)]
    return [f'cannot parse row: expected a rate and three times, found {row}' for row in found]


def traces_of(output: str, repetitions: int) -> Traces:
    """Return the time of all repetitions but the first, which the mean leaves out."""
    means = [printed(match['mean']) for match in re.finditer(_ROW, output, re.MULTILINE)]
    return Traces(seconds=(repetitions - 1) * sum(means, printed('0')))


def faults_of(output: str, elements: int, repetitions: int) -> list[str]:
    """Return one sentence for each sign that an output is not that of a complete run of `elements` doubles."""
    size = f'{elements * 8e-6:.1f} MB'
    signs = (
        HEADER,
        (r'^Precision: double\s*$', 'it did not run in double precision'),
        (rf'^(?:Array size: {re.escape(size)} \(=|Number of elements: {elements}$)', f'the arrays are not of {size}'),
        (rf'^Running .*\b{repetitions} times', f'it did not say that it ran {repetitions} times'),
    )
    faults = [sentence for pattern, sentence in signs if len(re.findall(pattern, output, re.MULTILINE)) != 1]
    return faults or broken_rows(output) + agreement(exact(elements * 8e-6)).faults(output)

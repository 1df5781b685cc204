# SPDX-License-Identifier: BSD-3-Clause
"""The output of BabelStream.

All of its programs print lines such as ``Triad   45644.122   0.01764   0.02890   0.01994``: the rate of the best
repetition in MB/s (10^6 bytes), then the shortest, longest and mean time. The rate counts the bytes that the kernel
names: twice the array for copy, mul and dot, three times for add and triad, no write-allocate traffic.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading import saved
from checks.core.reading.metrics import Metric
from plumbline.measurement import Measurement

ARRAYS = {'copy': 2, 'mul': 2, 'add': 3, 'triad': 3, 'dot': 2}  # whose bytes the rate of a kernel counts
KERNELS = tuple(ARRAYS)
_NAME = rf'^(?P<kernel>{"|".join(map(str.title, KERNELS))})'
_ROW = rf'{_NAME} +(?P<value>\d+\.\d{{3}}) +(\d+\.\d{{5}})(?: +\d+\.\d{{5}}){{2}} *$'
HEADER = (
    r'^Function\s+(?:MBytes/sec|MB/s)\s+Min \(sec\)\s+Max\s+Average\s*$', 'no one table in MB/s of four columns',
)  # fmt: skip


def bandwidth(run: str = 'run', peak: str | None = 'memory_bandwidth', **dims: object) -> Metric:
    """Return the five rates of one run with these further dims."""
    return Metric('bandwidth', 'GB/s', 'higher', _ROW, dims, {'kernel': KERNELS}, scale=1e-3, run=run, peak=peak)


def broken_rows(output: str) -> list[str]:
    """Return a sentence for each row of a kernel whose columns cannot be told apart."""
    rows = [match[0] for match in re.finditer(rf'{_NAME}\b.*', output, re.MULTILINE)]
    found = [' '.join(row.split())[:80] for row in rows if not re.match(_ROW, row)]
    return [f'cannot parse row: expected a rate and three times, found {row}' for row in found]


def contradictions(output: str, size: float, rounded: float = 0.0) -> list[str]:
    """Return a sentence for each row whose shortest time is not that of its rate, within the printed digits.

    `size`: of an array in MB, known to +- `rounded`.
    """
    faults = []
    for row in re.finditer(_ROW, output, re.MULTILINE):
        kernel, rate, shortest = row['kernel'], float(row['value']), float(row[3])
        arrays, slowest = ARRAYS[kernel.lower()], max(rate - 0.0005, 1e-9)
        least, most = arrays * (size - rounded) / (rate + 0.0005), arrays * (size + rounded) / slowest
        if not least - 0.500001e-5 <= shortest <= most + 0.500001e-5:
            faults.append(f'{kernel}: {rate:.3f} MB/s would take {least:.5f} s, it says {shortest:.5f} s')
    return faults


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
    return faults or broken_rows(output) or contradictions(output, elements * 8e-6)


def failed_validations(printed: str) -> list[str]:
    """Return a sentence for each array that is wrong; the program prints them to standard error."""
    return [f'the program says: {line}' for line in re.findall(r'^Validation failed.*', printed, re.MULTILINE)]


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the rate of each kernel; all count as failed if the program says that its validation failed."""
    begin = saved.begins(r'^(?:BabelStream *\n(?:Version: .*\n)?)?Implementation: ')
    yield from saved.results_of(path, begin, 'Implementation: OpenMP', _run)


def _run(part: saved.Part) -> Iterator[saved.Result]:
    megabytes = part.stated('the size of an array', r'^Array size: ([0-9]{1,12}\.[0-9]) MB')
    part.stated('its repetitions', r'^Running .*\b([0-9]{1,9}) times')
    params = {
        'implementation': part.stated('the implementation', r'^Implementation: (.*\S) *$'),
        'precision': part.stated('the precision', r'^Precision: (double|float) *$'), 'array_mb': megabytes,
    }  # fmt: skip
    faults = failed_validations(part.output)
    pattern, fault = HEADER
    faults += [fault] * (len(re.findall(pattern, part.output, re.MULTILINE)) != 1)
    faults += broken_rows(part.output) or contradictions(part.output, float(megabytes), rounded=0.05)
    header = part.output.partition('\nFunction')[0]
    yield saved.Result('BabelStream', params, [bandwidth()], part.output, faults, header)

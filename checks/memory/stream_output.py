# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of STREAM: McCalpin's in C and Fortran, and the one for GPUs that prints the same table.

``Copy:           15092.6     0.010712     0.010601     0.011147``: the best rate, then the mean, shortest and longest
time in s.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading.metrics import Metric
from checks.core.reading.saved import Part, Result, begins, results_of
from plumbline.measurement import Measurement
from plumbline.units import UNITS

_KERNELS = ('copy', 'scale', 'add', 'triad')
_NUMBER = r'[0-9]+\.[0-9]+'
_ROWS = rf'^(?P<kernel>{"|".join(map(str.title, _KERNELS))}): +(?P<value>{_NUMBER})(?: +{_NUMBER}){{3}} *$'
_HEADER = r'^Function +(?:Best )?Rate \(?([A-Za-z]+/s)\)?' + ''.join(
    rf' +{which} time(?:\(s\))?' for which in ('Avg', 'Min', 'Max')
)
_STATED = {
    'array': r'^ *Array size = +([0-9]{1,15})(?:,| \(elements\))', 'megabytes': r'Array size \(.*\) = *([0-9.]+ MB)',
    'threads': r'^ *Number of Threads counted = ([0-9]+)',
}  # fmt: skip
_WRONG = r'^ *(?:Failed Validation|Solution is not|For array .*, [1-9][0-9]* errors were found).*'


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the rate of each kernel; all count as failed if the solution did not validate."""
    begin = begins(rf'^(?:STREAM version|.*STREAM Benchmark implementation|Array size|{_HEADER[1:]})', '^Triad:')
    yield from results_of(path, begin, 'Function    Best Rate MB/s  Avg time     Min time     Max time', _run)


def _run(part: Part) -> Iterator[Result]:
    unit = part.stated('the columns of the table', _HEADER)
    if unit not in UNITS:
        raise ValueError(f'expected rates in MB/s or GB/s, found {unit}')
    first = {name: next(iter(re.findall(pattern, part.output, re.MULTILINE)), '') for name, pattern in _STATED.items()}
    faults = [f'the program says: {line.strip()}' for line in re.findall(_WRONG, part.output, re.MULTILINE)]
    params = {'array': first['array'] or first['megabytes'], 'threads': first['threads']}
    metric = Metric('bandwidth', unit, 'higher', _ROWS, {}, {'kernel': _KERNELS})
    header = '\n'.join(re.findall(r'^(?:STREAM version|This system uses|Array size|Memory per).*', part.output, re.M))
    yield Result('STREAM', params, [metric], part.output, faults, header)

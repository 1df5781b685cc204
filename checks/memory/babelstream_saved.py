# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of BabelStream, of the five kernels in any programming model, also of several runs."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading.saved import Part, Result, begins, results_of
from checks.memory import babelstream_output as babelstream
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield the rate of each kernel; all count as failed if the program says that its validation failed."""
    begin = begins(r'^(?:BabelStream *\n(?:Version: .*\n)?)?Implementation: ')
    yield from results_of(path, begin, 'Implementation: OpenMP', _run)


def _run(part: Part) -> Iterator[Result]:
    megabytes = part.stated('the size of an array', r'^Array size: ([0-9]{1,12}\.[0-9]) MB')
    part.stated('its repetitions', r'^Running .*\b([0-9]{1,9}) times')
    params = {
        'implementation': part.stated('the implementation', r'^Implementation: (.*\S) *$'),
        'precision': part.stated('the precision', r'^Precision: (double|float) *$'), 'array_mb': megabytes,
    }  # fmt: skip
    faults = [f'the program says: {line}' for line in re.findall(r'^Validation failed.*', part.output, re.MULTILINE)]
    pattern, fault = babelstream.HEADER
    faults += [fault] * (len(re.findall(pattern, part.output, re.MULTILINE)) != 1)
    faults += babelstream.broken_rows(part.output)
    header = part.output.partition('\nFunction')[0]
    yield Result('BabelStream', params, [babelstream.bandwidth()], part.output, faults, header)

# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of BabelStream, of the five kernels in any programming model."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading.agreement import printed
from checks.core.reading.saved import measured, saved
from checks.memory import babelstream_output as babelstream
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement]:
    """Yield the rate of each kernel; all count as failed if the program says that its validation failed."""
    output = saved(path)

    def stated(what: str, pattern: str) -> str:
        matches = re.findall(pattern, output, re.MULTILINE)
        if len(matches) != 1:
            raise ValueError(f'expected one line of BabelStream with {what}, found {len(matches)}')
        return matches[0]

    megabytes = stated('the size of an array', r'^Array size: ([0-9]{1,12}\.[0-9]) MB')
    stated('its repetitions', r'^Running .*\b([0-9]{1,9}) times')
    params = {
        'implementation': stated('the implementation', r'^Implementation: (.*\S) *$'),
        'precision': stated('the precision', r'^Precision: (double|float) *$'), 'array_mb': megabytes,
    }  # fmt: skip
    faults = [f'the program says: {line}' for line in re.findall(r'^Validation failed.*', output, re.MULTILINE)]
    pattern, fault = babelstream.HEADER
    faults += [fault] * (len(re.findall(pattern, output, re.MULTILINE)) != 1)
    faults += babelstream.agreement(printed(megabytes)).faults(output)
    yield from measured('BabelStream', params, [babelstream.bandwidth()], output, faults)

# SPDX-License-Identifier: BSD-3-Clause
"""Saved results of HPCG: the file ``HPCG-Benchmark*.txt`` of 3.1, or the YAML of 3.0."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.compute import hpcg_output as hpcg
from checks.core.reading.saved import measured, saved
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement]:
    """Yield the rating and the modelled bandwidths. A result that HPCG calls invalid has failed."""
    output = saved(path)

    def stated(section: str, key: str) -> int:
        matches = re.findall(hpcg.figure(section, key, '([0-9]{1,9})'), output, re.MULTILINE)
        if len(matches) != 1:
            raise ValueError(f'expected {key} of {section} once, found it {len(matches)} times')
        return int(matches[0])

    ranks = stated('Machine Summary', 'Distributed Processes')
    threads = stated('Machine Summary', 'Threads per processes')
    x, y, z = (stated('Local Domain Dimensions', f'n{axis}') for axis in 'xyz')
    params = {'grid': f'{x}x{y}x{z}', 'ranks': ranks, 'threads': threads}
    faults = hpcg.faults_of(output, (x, y, z), ranks, threads)
    yield from measured('HPCG', params, hpcg.metrics_of(1, None), output, faults)

# SPDX-License-Identifier: BSD-3-Clause
"""Saved results of HPCG: the file ``HPCG-Benchmark*.txt`` of 3.1, or the YAML of 3.0."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.compute import hpcg_output as hpcg
from checks.core.reading.saved import Part, Result, begins, results_of
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield the rating and the modelled bandwidths. A result that HPCG calls invalid has failed."""
    begin = begins(r'^Machine Summary(?:::Distributed Processes=|: *\n)')
    yield from results_of(path, begin, 'Machine Summary::Distributed Processes=2', _run)


def _run(part: Part) -> Iterator[Result]:
    def stated(section: str, key: str) -> int:
        return int(part.stated(f'{key} of {section}', hpcg.figure(section, key, '([0-9]{1,18})')))

    ranks, threads = (stated('Machine Summary', key) for key in ('Distributed Processes', 'Threads per processes'))
    x, y = (stated('Local Domain Dimensions', f'n{axis}') for axis in 'xy')
    z = stated('Linear System Information', 'Number of Equations') // max(1, ranks * x * y)  # NVIDIA's prints no nz
    params = {'grid': f'{x}x{y}x{z}', 'ranks': ranks, 'threads': threads}
    if hpcg.is_quick(part.output):
        params['path'] = 'quick'
    faults = hpcg.faults_of(part.output, (x, y, z), ranks, threads)
    dates = re.findall(r'\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d', part.file)  # as 3.1 names it
    yield Result('HPCG', params, hpcg.metrics_of(1, None), part.output, faults, dates=dates)

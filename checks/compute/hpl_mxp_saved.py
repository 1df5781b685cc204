# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of NVIDIA's HPL-MxP, also of several runs."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.compute import hpl_mxp_output as hpl_mxp
from checks.core.reading.saved import Part, Result, begins, results_of
from plumbline.measurement import Measurement


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield both rates; they count as failed if the residual did not PASS."""
    begin = begins(r'^ *\|\|Ax-b\|\|_oo / \(EPS |^ *N = [0-9]+, NB = ', r'^ *LU GFLOPS = ')
    yield from results_of(path, begin, 'N = 258048, NB = 1024, NPROW = 4, NPCOL = 2, SLOPPY-TYPE = 2', _run)


def _run(part: Part) -> Iterator[Result]:
    sizes = hpl_mxp.SIZES.findall(part.output)
    if len(sizes) != 1:
        raise ValueError(f'expected one line "N = ..., NB = ..., NPROW = ..., NPCOL = ...", found {len(sizes)}')
    n, nb, p, q = map(int, sizes[0])
    precision = re.findall(r'SLOPPY-TYPE = (\w+)', part.output)
    params = {'n': n, 'nb': nb, 'p': p, 'q': q, 'sloppy_type': ''.join(precision[:1])}
    faults = hpl_mxp.faults_of(part.output, n, nb, (p, q))
    yield Result('HPL-MxP', params, hpl_mxp.METRICS, part.output, faults)

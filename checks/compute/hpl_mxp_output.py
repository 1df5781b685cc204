# SPDX-License-Identifier: BSD-3-Clause
"""The output of NVIDIA's HPL-MxP.

It prints ``GFLOPS = 4.3468e+05, per GPU =   54335.58 ------ The HPL-MxP performance``, with the refinement, and ``LU
GFLOPS = ...`` without it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading import saved
from checks.core.reading.metrics import Metric
from plumbline.measurement import Measurement

_RATE = r'= +(?P<value>[0-9]\.[0-9]{4}e\+[0-9]{2}), per GPU = +([0-9]+\.[0-9]{2}) .*$'
_RESIDUAL = re.compile(r'^ *\|\|Ax-b\|\|_oo / \(EPS .*\) = +\S+ \.{6} PASSED *$', re.MULTILINE)
_SIZES = re.compile(r'^ *N = ([0-9]+), NB = ([0-9]+), NPROW = ([0-9]+), NPCOL = ([0-9]+),', re.MULTILINE)
METRICS = [
    Metric('gflops', 'GFlop/s', 'higher', rf'^ *GFLOPS {_RATE}'),
    Metric('lu_gflops', 'GFlop/s', 'higher', rf'^ *LU GFLOPS {_RATE}', judged=False),
]


def faults_of(output: str, order: int, block: int, grid: tuple[int, int]) -> list[str]:
    """Return one sentence for each sign that an output is not of a solution of this size on this grid of GPUs."""
    faults = [] if len(_RESIDUAL.findall(output)) == 1 else ['the solution is wrong, or no residual was checked']
    asked = [tuple(map(str, (order, block, *grid)))]
    if (sizes := _SIZES.findall(output)) != asked:
        faults.append(f'expected N, NB, NPROW, NPCOL {asked}, found {sizes}')
    return faults


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield both rates; they count as failed if the residual did not PASS."""
    begin = saved.begins(r'^ *\|\|Ax-b\|\|_oo / \(EPS |^ *N = [0-9]+, NB = ', r'^ *LU GFLOPS = ')
    yield from saved.results_of(path, begin, 'N = 258048, NB = 1024, NPROW = 4, NPCOL = 2, SLOPPY-TYPE = 2', _run)


def _run(part: saved.Part) -> Iterator[saved.Result]:
    sizes = _SIZES.findall(part.output)
    if len(sizes) != 1:
        raise ValueError(f'expected one line "N = ..., NB = ..., NPROW = ..., NPCOL = ...", found {len(sizes)}')
    n, nb, p, q = map(int, sizes[0])
    precision = re.findall(r'SLOPPY-TYPE = (\w+)', part.output)
    params = {'n': n, 'nb': nb, 'p': p, 'q': q, 'sloppy_type': ''.join(precision[:1])}
    faults = faults_of(part.output, n, nb, (p, q))
    yield saved.Result('HPL-MxP', params, METRICS, part.output, faults)

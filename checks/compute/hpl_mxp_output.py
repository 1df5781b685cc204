# SPDX-License-Identifier: BSD-3-Clause
"""The output of NVIDIA's HPL-MxP.

It prints ``GFLOPS = 4.3468e+05, per GPU =   54335.58 ------ The HPL-MxP performance``, with the refinement, and ``LU
GFLOPS = ...`` without it.
"""

import re

from checks.core.reading.trials import Metric

_RATE = r'= +(?P<value>[0-9]\.[0-9]{4}e\+[0-9]{2}), per GPU = +([0-9]+\.[0-9]{2}) .*$'
_RESIDUAL = re.compile(r'^ *\|\|Ax-b\|\|_oo / \(EPS .*\) = +\S+ \.{6} PASSED *$', re.MULTILINE)
SIZES = re.compile(r'^ *N = ([0-9]+), NB = ([0-9]+), NPROW = ([0-9]+), NPCOL = ([0-9]+),', re.MULTILINE)
METRICS = [
    Metric('gflops', 'GFlop/s', 'higher', rf'^ *GFLOPS {_RATE}'),
    Metric('lu_gflops', 'GFlop/s', 'higher', rf'^ *LU GFLOPS {_RATE}', judged=False),
]


def faults_of(output: str, order: int, block: int, grid: tuple[int, int]) -> list[str]:
    """Return one sentence for each sign that an output is not of a solution of this size on this grid of GPUs."""
    faults = [] if len(_RESIDUAL.findall(output)) == 1 else ['the solution is wrong, or no residual was checked']
    asked = [tuple(map(str, (order, block, *grid)))]
    if (sizes := SIZES.findall(output)) != asked:
        faults.append(f'expected N, NB, NPROW, NPCOL {asked}, found {sizes}')
    return faults

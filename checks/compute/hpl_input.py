# SPDX-License-Identifier: BSD-3-Clause
"""HPL.dat, which Netlib's HPL 2.3, NVIDIA's and AMD's read alike."""

from __future__ import annotations

import math

from plumbline.errors import SiteError

# The lines of HPL.dat in its order and by its names, with the algorithm that hpcc ships: row-major grid, right-looking
# panels in Crout's recursion, modified ring broadcast, lookahead of one. None: computed for the nodes.
LINES: dict[str, str | None] = {
    'Ns': None, 'NBs': None, 'PMAP': '0', 'Ps': None, 'Qs': None, 'threshold': '16.0',
    'PFACTs': '2', 'NBMINs': '4', 'NDIVs': '2', 'RFACTs': '1', 'BCASTs': '1', 'DEPTHs': '1',
    'SWAP': '2', 'swapping threshold': '64', 'L1': '0', 'U': '0', 'Equilibration': '1', 'memory alignment': '8',
}  # fmt: skip
ALGORITHMS = ('PFACTs', 'NBMINs', 'NDIVs', 'RFACTs', 'BCASTs', 'DEPTHs')
COUNTED = ('Ns', 'NBs', 'Ps', *ALGORITHMS)  # a line before these has the number of values; Qs has as many values as Ps

Configuration = tuple[int, int, int, int]  # N, NB, P, Q


def nearly_square(ranks: int) -> tuple[int, int]:
    """Return P <= Q with P x Q = `ranks`, as close as the divisors allow."""
    p = next(p for p in range(math.isqrt(ranks), 0, -1) if ranks % p == 0)
    return p, ranks // p


def matrix_order(memory: float, block_size: int) -> int:
    """Return N: the largest multiple of the block size whose N^2 doubles fit into `memory` bytes."""
    return math.isqrt(int(memory) // 8) // block_size * block_size


def operations(n: float) -> float:
    """Return the floating-point operations that HPL counts for a system of order `n`."""
    return 2 / 3 * n**3 + 3 / 2 * n**2


def lines_of(n: int, block_size: int, ranks: int, site: dict[str, object]) -> dict[str, str]:
    """Return all lines of HPL.dat by name: each as the site states it, else computed, else the default."""
    p, q = nearly_square(ranks)
    computed = {'Ns': n, 'NBs': block_size, 'Ps': p, 'Qs': q}
    return {name: ' '.join(str(value).split()) for name, value in (LINES | computed | site).items()}


def text_of(lines: dict[str, str]) -> str:
    """Return HPL.dat with these lines; results go to standard output."""
    text = ['HPL.dat', 'written by Plumbline', 'HPL.out', '6 device out']
    for name in LINES:
        text += [f'{len(lines[name].split())} # of {name}'] if name in COUNTED else []
        text.append(f'{lines[name]} {name}')
    return '\n'.join(text) + '\n'


def configurations(lines: dict[str, str], ranks: int) -> tuple[Configuration, ...]:
    """Return the systems that HPL will solve, one for each test. Raises SiteError if a grid uses not all `ranks`."""
    ns, nbs, ps, qs = ([int(value) for value in lines[name].split()] for name in ('Ns', 'NBs', 'Ps', 'Qs'))
    if len(ps) != len(qs) or any(p * q != ranks for p, q in zip(ps, qs, strict=True)):
        raise SiteError(f'benchmarks.hpl.lines: expected grids Ps x Qs of {ranks} ranks, found {ps} x {qs}')
    algorithms = math.prod(len(lines[name].split()) for name in ALGORITHMS)
    return tuple(
        (n, nb, p, q) for p, q in zip(ps, qs, strict=True) for n in ns for nb in nbs for _ in range(algorithms)
    )

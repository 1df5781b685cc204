"""The grids of HPCG, and what it writes.

3.1 writes every figure as ``section::key=value``; 3.0, from which vendors still derive, as YAML: ``section:`` and below
it ``  key: value``. Both end each line: a number at the end of a file that was cut is none.
"""

import math
import re

from checks.core.trials import Metric

NUMBER = r'([0-9.eE+-]+)'
FINAL = '(?:_+ )?Final Summary(?: _+)?'
RATING = 'HPCG result is VALID with a GFLOP/s rating of'
OVERHEAD = 'Total with convergence and optimization phase overhead'
TESTS = {
    'Spectral Convergence Tests': 'spectral convergence',
    'Departure from Symmetry [^:=\n]+': 'departure from symmetry',
    'Iteration Count Information': 'iteration count',
    'Reproducibility Information': 'reproducibility',
}
# What HPCG counts as "Total memory used for data" for one point of the local grid, halos apart (they add at most 1 %):
# 629 bytes of matrix and vectors, 601 for each point of the coarser grids. The process takes 12 % more.
BYTES_PER_POINT = 629 + 601 * (1 / 8 + 1 / 64 + 1 / 512)


def local_grid(points: float) -> tuple[int, int, int]:
    """The smallest nearly cubic grid of at least `points` points.

    Its sides are multiples of 8, which three coarser grids need, and at least 16: HPCG replaces a shorter one."""
    grid = [16, 16, 16]
    while math.prod(grid) < points:
        grid[grid.index(min(grid))] += 8
    return tuple(grid)


def process_grid(ranks: int) -> tuple[int, ...]:
    """The factors x <= y <= z of `ranks` that HPCG chooses: those with the smallest surface."""
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    pairs = ((x, y) for x in divisors for y in divisors if x <= y and ranks % (x * y) == 0 and y <= ranks // (x * y))
    return min(((x, y, ranks // (x * y)) for x, y in pairs), key=lambda g: g[0] * g[1] + g[1] * g[2] + g[0] * g[2])


def accepts(ranks: int) -> bool:
    """Whether HPCG starts with so many ranks: it refuses process grids whose sides differ more than eightfold."""
    x, *_, z = process_grid(ranks)
    return 8 * x >= z


def figure(section: str, key: str, value: str = NUMBER) -> str:
    """A pattern of one line of either version."""
    return rf'^(?:{section}::|{section}: *\n(?: .*\n)*?  ){key}(?:=|: ){value}\n'


def metrics_of(nodes: int, peak: float | None) -> list[Metric]:
    """What a run on `nodes` nodes measures; `peak` of one node in Flop/s.

    The GB/s are a model and not traffic, so no physical peak bounds them: HPCG counts a write for each nonzero where a
    sweep writes one for each row, and 12 bytes a nonzero whatever an optimized version stores or a cache keeps.
    """
    rating = figure(FINAL, RATING)
    metrics = [
        Metric('gflops', 'GFlop/s', 'higher', rating, peak='flops_dp' if peak else None),
        Metric('raw_read_bandwidth', 'GB/s', 'higher', figure('GB/s Summary', 'Raw Read B/W')),
        Metric('raw_write_bandwidth', 'GB/s', 'higher', figure('GB/s Summary', 'Raw Write B/W')),
        Metric('raw_total_bandwidth', 'GB/s', 'higher', figure('GB/s Summary', 'Raw Total B/W')),
        Metric('total_bandwidth', 'GB/s', 'higher', figure('GB/s Summary', OVERHEAD)),
    ]
    if nodes > 1:
        metrics.append(Metric('gflops_per_node', 'GFlop/s', 'higher', rating, scale=1 / nodes, draw={'ideal': 'none'}))
    if peak:
        metrics.append(Metric('peak_fraction', '1', 'higher', rating, scale=1e9 / (peak * nodes)))
    return metrics


def faults_of(output: str, grid: tuple[int, int, int], ranks: int, threads: int) -> list[str]:
    """One sentence for each sign that this is no valid run of `ranks` x `threads` with a local grid of `grid`."""

    def found(section: str, key: str) -> str:
        values = re.findall(figure(section, key, r'(\S+)'), output, re.MULTILINE)
        return values[0] if len(values) == 1 else f'printed {len(values)} times'

    def number(section: str, key: str) -> float:
        text = found(section, key)
        return int(text) if text.isascii() and text.isdigit() else math.nan

    faults = ['HPCG says that its result is INVALID'] if 'INVALID' in output else []
    if 'QuickPath' in output:
        faults.append('HPCG took its quick path and not the run time that was asked')
    for section, name in TESTS.items():
        if (result := found(section, 'Result')) != 'PASSED':
            faults.append(f'the test of {name} is {result}, expected PASSED')
    # of a stencil of 27 points on this grid; HPCG computes its Flop from it, and its counter overflows at 2^31 a rank
    nonzero = math.prod(3 * number('Global Problem Dimensions', f'Global n{axis}') - 2 for axis in 'xyz')
    for section, key, expected in (
        ('Machine Summary', 'Distributed Processes', ranks),
        ('Machine Summary', 'Threads per processes', threads),
        *(('Local Domain Dimensions', f'n{axis}', points) for axis, points in zip('xyz', grid, strict=True)),
        ('Linear System Information', 'Number of Equations', ranks * math.prod(grid)),
        ('Linear System Information', 'Number of Nonzero Terms', nonzero),
    ):
        if number(section, key) != expected:
            faults.append(f'{key} is {found(section, key)}, expected {expected}')
    iterations = 'Iteration Count Information', 'Optimized CG iterations per set'
    least = number('Iteration Count Information', 'Reference CG iterations per set')
    if not number(*iterations) >= least > 0:
        faults.append(f'{iterations[1]} is {found(*iterations)}, expected {least} or more, as the reference took')
    return faults

# SPDX-License-Identifier: BSD-3-Clause
"""The grids of HPCG and its output.

3.1 writes every figure as ``section::key=value``; 3.0, from which vendors still derive, as YAML: ``section:`` and below
it ``  key: value``. Patterns include the end of the line, so that a number cut off at the end of a file does not match.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading import saved
from checks.core.reading.metrics import Metric
from plumbline.measurement import Measurement

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
# HPCG's "Total memory used for data" of one point of the local grid, without halos (at most 1 % more): 629 bytes of
# matrix and vectors, 601 for each point of the coarser grids. The process takes 12 % more.
BYTES_PER_POINT = 629 + 601 * (1 / 8 + 1 / 64 + 1 / 512)


def local_grid(points: float) -> tuple[int, int, int]:
    """Return the smallest nearly cubic grid of at least `points` points.

    Its sides are multiples of 8, for three coarser grids, and at least 16: HPCG replaces a shorter one.
    """
    grid = [16, 16, 16]
    while math.prod(grid) < points:
        grid[grid.index(min(grid))] += 8
    x, y, z = grid
    return x, y, z


def process_grid(ranks: int) -> tuple[int, ...]:
    """Return the factors x <= y <= z of `ranks` that HPCG chooses: the factors with the smallest surface."""
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    pairs = ((x, y) for x in divisors for y in divisors if x <= y and ranks % (x * y) == 0 and y <= ranks // (x * y))
    return min(((x, y, ranks // (x * y)) for x, y in pairs), key=lambda g: g[0] * g[1] + g[1] * g[2] + g[0] * g[2])


def accepts(ranks: int) -> bool:
    """Return True if HPCG starts with so many ranks: the sides of their grid may differ at most eightfold."""
    x, *_, z = process_grid(ranks)
    return 8 * x >= z


def figure(section: str, key: str, value: str = NUMBER) -> str:
    """Return a pattern that matches the line of `key` in `section`, as 3.1 or as 3.0 prints it.

    `value`: the pattern of the value in that line.
    """
    return rf'^(?:{section}::|{section}: *\n(?: .*\n)*?  ){key}(?:=|: ){value}\n'


def metrics_of(nodes: int, peak: float | None) -> list[Metric]:
    """Return the metrics of a run on `nodes` nodes; `peak` of one node in Flop/s.

    No physical peak bounds the GB/s, which HPCG models: it counts a write for each nonzero where a sweep writes one for
    each row, and 12 bytes per nonzero whatever an optimized version stores or a cache keeps.
    """
    rating = figure(FINAL, RATING)
    metrics = [Metric('gflops', 'GFlop/s', 'higher', rating, peak='flops_dp' if peak else None)]
    for key in ('Read', 'Write', 'Total'):
        row = figure('GB/s Summary', f'Raw {key} B/W')
        metrics.append(Metric(f'raw_{key.lower()}_bandwidth', 'GB/s', 'higher', row))
    metrics.append(Metric('raw_spmv', 'GFlop/s', 'higher', figure('GFLOP/s Summary', 'Raw SpMV'), judged=False))
    metrics.append(Metric('total_bandwidth', 'GB/s', 'higher', figure('GB/s Summary', OVERHEAD)))
    if nodes > 1:
        metrics.append(Metric('gflops_per_node', 'GFlop/s', 'higher', rating, scale=1 / nodes, draw={'ideal': 'none'}))
    if peak:
        metrics.append(Metric('peak_fraction', '1', 'higher', rating, scale=1e9 / (peak * nodes)))
    return metrics


def is_quick(output: str) -> bool:
    """Return True if HPCG took its quick path, in which it runs for another time than was requested."""
    return 'QuickPath' in output


def faults_of(output: str, grid: tuple[int, int, int], ranks: int, threads: int) -> list[str]:
    """Return one sentence for each sign that an output is no valid run of `ranks` x `threads` with this local grid."""

    def found(section: str, key: str) -> str:
        values = re.findall(figure(section, key, r'(\S+)'), output, re.MULTILINE)
        if key == 'nz' and not values:  # NVIDIA's prints none; the number of equations says it, too
            values = [str(grid[2])]
        return values[0][:40] if len(values) == 1 else f'printed {len(values)} times'

    def number(section: str, key: str) -> float:
        text = found(section, key)
        return int(text) if re.fullmatch('[0-9]{1,18}', text) else math.nan

    faults = ['HPCG says that its result is INVALID'] if 'INVALID' in output else []
    headings = [re.findall(f'^{unit} Summary: *$', output, re.MULTILINE) for unit in ('GB/s', 'GFLOP/s')]
    # In 3.0, the keys below the second heading would count as keys of the first
    if len(headings[0]) != len(headings[1]):
        faults.append('the headings of its summaries are not complete')
    for section, name in TESTS.items():
        if (result := found(section, 'Result')) != 'PASSED':
            faults.append(f'the test of {name} is {result}, expected PASSED')
    # of a 27-point stencil on this grid; HPCG computes its Flop from it, and its counter overflows at 2^31 per rank
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
        faults.append(f'{iterations[1]} is {found(*iterations)}, expected at least the {least} of the reference')
    return faults


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the rating and the modelled bandwidths of a saved file; one that HPCG calls invalid has failed."""
    begin = saved.begins(r'^Machine Summary(?:::Distributed Processes=|: *\n)')
    yield from saved.results_of(path, begin, 'Machine Summary::Distributed Processes=2', _run)


def _run(part: saved.Part) -> Iterator[saved.Result]:
    def stated(section: str, key: str) -> int:
        return int(part.stated(f'{key} of {section}', figure(section, key, '([0-9]{1,18})')))

    ranks, threads = (stated('Machine Summary', key) for key in ('Distributed Processes', 'Threads per processes'))
    x, y = (stated('Local Domain Dimensions', f'n{axis}') for axis in 'xy')
    z = stated('Linear System Information', 'Number of Equations') // max(1, ranks * x * y)  # NVIDIA's prints no nz
    params = {'grid': f'{x}x{y}x{z}', 'ranks': ranks, 'threads': threads}
    if is_quick(part.output):
        params['path'] = 'quick'
    faults = faults_of(part.output, (x, y, z), ranks, threads)
    dates = re.findall(r'\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d', part.file)  # as 3.1 names it
    yield saved.Result('HPCG', params, metrics_of(1, None), part.output, faults, dates=dates)

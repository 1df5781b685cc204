# SPDX-License-Identifier: BSD-3-Clause
"""HPCG's output of both versions, and the grids that it is asked to solve."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scratch import OUTPUTS

from checks.compute.hpcg_output import (
    BYTES_PER_POINT,
    accepts,
    faults_of,
    is_quick,
    local_grid,
    metrics_of,
    process_grid,
)

# file -> (local grid, ranks, threads), and what it says: rating, raw read, write and total, SpMV, total with overhead
RUNS = {
    'hpcg-3.1.txt': (((32, 32, 32), 2, 1), (1.43461, 8.9696, 2.07342, 11.043, 2.30442, 10.895)),
    'hpcg-3.1-threads.txt': (((32, 32, 32), 1, 2), (0.404721, 2.5295, 0.584763, 3.11426, 0.898245, 3.07463)),
    'hpcg-3.0.txt': (((32, 32, 32), 2, 1), (0.559133, 3.48766, 0.806209, 4.29387, 0.994265, 4.24628)),
}
METRICS = metrics_of(4, 100e9)
OTHERS = ['raw_read_bandwidth', 'raw_write_bandwidth', 'raw_total_bandwidth', 'raw_spmv', 'total_bandwidth']
TEXTS = {name: (OUTPUTS / name).read_text(encoding='utf-8') for name in RUNS}


def rates_of(output: str) -> dict[str, float]:
    """What can be read of an output."""
    readings = {metric.name: metric.reading_of(output) for metric in METRICS}
    return {name: reading.values[()] for name, reading in readings.items() if not reading.missing}


@each_row('name', RUNS)
def test_every_figure_of_a_recorded_run(recorded, name):
    asked, (rating, *others) = RUNS[name]
    output = recorded(name)
    assert faults_of(output, *asked) == []
    expected = {'gflops': rating, 'gflops_per_node': rating / 4, 'peak_fraction': rating / 400}
    assert rates_of(output) == pytest.approx(expected | dict(zip(OTHERS, others, strict=True)), rel=1e-12)


@each_row(
    ('name', 'grid', 'ranks', 'threads', 'faults'),
    [
        ('3.1-invalid', (32, 32, 32), 2, 1, [
            'HPCG says that its result is INVALID', 'the test of departure from symmetry is FAILED, expected PASSED',
        ]),
        # it was asked for 24 x 8 x 8, and took another grid in silence
        ('3.1-grid-8', (24, 8, 8), 2, 1, [
            'ny is 24, expected 8', 'nz is 24, expected 8', 'Number of Equations is 27648, expected 3072',
        ]),
        ('3.0', (32, 32, 32), 8, 11, [
            'Distributed Processes is 2, expected 8', 'Threads per processes is 1, expected 11',
            'Number of Equations is 65536, expected 262144',
        ]),
        ('3.0-quick-path', (32, 32, 32), 2, 1, []),
    ],
)  # fmt: skip
def test_what_was_not_asked_for_or_is_invalid_is_named(recorded, name, grid, ranks, threads, faults):
    output = recorded(f'hpcg-{name}.txt')
    assert faults_of(output, grid, ranks, threads) == faults
    assert ('gflops' in rates_of(output)) is (name != '3.1-invalid') and is_quick(output) is ('quick' in name)


def test_nvidias_prints_no_nz(recorded):
    output = re.sub('Local Domain Dimensions::nz=.*\n', '', recorded('hpcg-3.1.txt'))
    assert faults_of(output, (32, 32, 32), 2, 1) == []
    (fault,) = faults_of(output, (32, 32, 16), 2, 1)
    assert 'Number of Equations is 65536, expected 32768' in fault


@each_row('name', RUNS)
@each_row(
    ('pattern', 'replacement', 'words'),
    [
        (r'(Reproducibility Information(?:::|: *\n +)Result\W+)PASSED', r'\1FAILED', 'reproducibility is FAILED'),
        (r'(Optimized CG iterations per set\W+)50', r'\g<1>49', 'per set is 49, expected at least the 50'),
        (r'(System Information(?:::|: *\n(?: .*\n)+? +)Number of Nonzero Terms\W+)\d', r'\1-9', 'Nonzero Terms'),
        (r'(Global nz\W+)32', r'\g<1>64', 'Number of Nonzero Terms'),
    ],
)
def test_each_sign_of_a_run_that_is_not_sound(name, pattern, replacement, words):
    output, changed = re.subn(pattern, replacement, TEXTS[name], count=1)
    assert changed == 1
    assert any(words in fault for fault in faults_of(output, *RUNS[name][0]))


@each_row('name', RUNS)
def test_no_line_that_says_something_can_be_lost(name):
    lines, needed = TEXTS[name].splitlines(keepends=True), 0
    for index in range(len(lines)):
        output = ''.join(lines[:index] + lines[index + 1 :])
        needed += len(rates_of(output)) < len(METRICS) or bool(faults_of(output, *RUNS[name][0]))
    # six figures, four results, two rank counts, two local and three global sides, two sums, two iteration counts,
    # and of 3.0 the headers of the sections; the local nz may be missing
    assert needed == (21 if '3.1' in name else 32)


@given(st.floats(1, 1e9), st.integers(1, 512))
def test_the_local_grid_fills_what_was_asked_and_little_more(node_bytes, ranks):
    points = node_bytes * 1e3 / ranks / BYTES_PER_POINT
    grid = local_grid(points)
    assert all(side % 8 == 0 and side >= 16 for side in grid)
    assert max(grid) - min(grid) <= 8
    assert math.prod(grid) >= points
    smaller = (max(grid) - 8) * math.prod(grid) / max(grid)
    assert grid == (16, 16, 16) or smaller < points


@each_row('name', RUNS)
def test_hpcg_counts_the_bytes_of_a_point_as_we_do(name):
    (grid, ranks, _), _ = RUNS[name]
    (gbytes,) = re.findall(r'Total memory used for data \(Gbytes\)\W+(\S+)', TEXTS[name])
    counted = float(gbytes) * 1e9 / (ranks * math.prod(grid))
    assert 0.99999 < counted / BYTES_PER_POINT < 1.01


def test_process_grids_are_those_that_hpcg_printed(recorded):
    refused = recorded('hpcg-3.1-ranks-11.txt')
    assert '(11,1,1) are invalid' in refused and process_grid(11) == (1, 1, 11) and not accepts(11) and accepts(1)
    for name, ((_, ranks, _), _) in RUNS.items():
        sides = sorted(map(int, re.findall(r'\bnp[xyz]\W+(\d+)', TEXTS[name])))
        assert process_grid(ranks) == tuple(sides) and accepts(ranks)

# SPDX-License-Identifier: BSD-3-Clause
"""heFFTe's outputs: recorded, cut, and of another transform than was asked for."""

from reading import value_of
from rows import each_row
from scratch import OUTPUTS

from checks.compute import fft

TEXT = (OUTPUTS / 'heffte-2.4.1-stock.txt').read_text()
SIZE = (64, 64, 256)


def test_a_recorded_run_has_its_rate_and_no_fault():
    (metric,) = fft.Fft.metrics
    assert f'Performance:  {value_of(metric, TEXT):g} GFlops/s' in TEXT
    assert fft.faults_of(TEXT, 'stock', SIZE, 2) == []


@each_row(('old', 'new', 'says'), [
    ('Backend:   stock', 'Backend:   fftw', "Backend: stock, found ['fftw']"),
    ('64x64x256', '64x64x128', 'Size: 64x64x256'),
    ('MPI ranks:    2', 'MPI ranks:    1', 'MPI ranks: 2'),
    ('e-14', 'e-10', 'error below the tolerance'),
])  # fmt: skip
def test_a_wrong_output_says_why(old, new, says):
    assert TEXT.count(old) == 1
    assert any(says in fault for fault in fft.faults_of(TEXT.replace(old, new), 'stock', SIZE, 2))


@each_row(('ranks', 'points', 'size'), [
    (2, 2**19, (64, 64, 256)), (8, 2**26, (256, 256, 8192)), (6, 2**26, (256, 256, 6144)),
])  # fmt: skip
def test_each_rank_has_as_many_points_whatever_their_number(ranks, points, size):
    assert fft.size_of(ranks, points) == size
    assert size[0] * size[1] * size[2] == points * ranks

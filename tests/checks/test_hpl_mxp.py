# SPDX-License-Identifier: BSD-3-Clause
"""An output of HPL-MxP that others published: read, cut and changed."""

import pytest
from reading import values_of
from rows import each_row

from checks.compute import hpl_mxp_output as output_of
from checks.core.reading.outputs import text_of


@pytest.fixture
def whole(recorded):
    return recorded('hpl-mxp-nvidia.txt')


def test_the_rate_to_report_and_that_of_the_factorization(whole):
    assert output_of.faults_of(whole, 258048, 1024, (4, 2)) == []
    assert [list(values_of(metric, whole).values()) for metric in output_of.METRICS] == [[4.3468e5], [2.494e6]]


def test_colours_are_no_part_of_a_line(whole, tmp_path):
    coloured = whole.replace('      GFLOPS =', '\x1b[0;31m      GFLOPS =').replace(
        ' ------', '\x1b[0m\x1b[0;34m ------'
    )
    (tmp_path / 'stdout').write_text(coloured)
    assert coloured != whole and text_of(tmp_path / 'stdout') == whole


def test_a_cut_output_has_a_fault_or_no_rate(whole):
    end = whole.index('per GPU')
    for length in range(end):
        cut = whole[:length]
        assert output_of.faults_of(cut, 258048, 1024, (4, 2)) or not output_of.METRICS[0].reading_of(cut).values


@each_row(('old', 'new', 'says'), [
    ('PASSED', 'FAILED', 'the solution is wrong'),
    ('N = 258048', 'N = 248048', 'found [('),
    ('NPROW = 4, NPCOL = 2', 'NPROW = 2, NPCOL = 4', 'expected N, NB, NPROW, NPCOL'),
])  # fmt: skip
def test_another_solution_than_the_one_asked_for_is_a_fault(whole, old, new, says):
    (fault,) = output_of.faults_of(whole.replace(old, new), 258048, 1024, (4, 2))
    assert says in fault


def test_each_gpu_has_as_much_of_the_matrix(reframe_runtime):
    from checks.compute import hpl_mxp as mxp

    assert [mxp.order_of(ranks, 61440) for ranks in (1, 4, 16)] == [61440, 122880, 245760]

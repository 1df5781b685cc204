# SPDX-License-Identifier: BSD-3-Clause
"""An output of HPL-MxP that others published: read, cut and changed."""

import pytest
from reading import values_of
from rows import each_row

from checks.compute import hpl_mxp as mxp
from checks.compute import hpl_mxp_output as output_of


@pytest.fixture
def whole(recorded):
    return recorded('hpl-mxp-nvidia.txt')


def test_the_rate_to_report_and_that_of_the_factorization(whole):
    assert output_of.faults_of(whole, 258048, 1024, (4, 2)) == []
    assert [list(values_of(metric, whole).values()) for metric in output_of.METRICS] == [[4.3468e5], [2.494e6]]


@each_row(('old', 'new', 'says'), [
    ('PASSED', 'FAILED', 'the solution is wrong'),
    ('N = 258048', 'N = 248048', 'found [('),
    ('NPROW = 4, NPCOL = 2', 'NPROW = 2, NPCOL = 4', 'expected N, NB, NPROW, NPCOL'),
])  # fmt: skip
def test_another_solution_than_the_one_asked_for_is_a_fault(whole, old, new, says):
    (fault,) = output_of.faults_of(whole.replace(old, new), 258048, 1024, (4, 2))
    assert says in fault


def test_each_gpu_has_as_much_of_the_matrix():
    assert [mxp.order_of(ranks, 61440) for ranks in (1, 4, 16)] == [61440, 122880, 245760]

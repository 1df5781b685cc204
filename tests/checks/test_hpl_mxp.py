# SPDX-License-Identifier: BSD-3-Clause
"""An output of HPL-MxP that others published: read, cut and changed."""

import pytest
from reading import values_of
from rows import each_row


@pytest.fixture
def mxp(reframe_runtime):
    from checks.compute import hpl_mxp

    return hpl_mxp


@pytest.fixture
def whole(recorded):
    return recorded('hpl-mxp-nvidia.txt')


def test_the_rate_to_report_and_that_of_the_factorization(mxp, whole):
    assert mxp.faults_of(whole, 258048, (4, 2)) == []
    assert [list(values_of(metric, whole).values()) for metric in mxp.HplMxp.metrics] == [[4.3468e5], [2.494e6]]


def test_a_cut_output_has_a_fault_or_no_rate(mxp, whole):
    end = whole.index('per GPU')
    for length in range(end):
        assert mxp.faults_of(whole[:length], 258048, (4, 2)) or not list(mxp.HplMxp.metrics[0].found(whole[:length]))


@each_row(('old', 'new', 'says'), [
    ('PASSED', 'FAILED', 'the solution is wrong'),
    ('N = 258048', 'N = 248048', 'found [('),
    ('NPROW = 4, NPCOL = 2', 'NPROW = 2, NPCOL = 4', 'expected N, NB, NPROW, NPCOL'),
    ('4.3468e+05', '4.4468e+05', 'the rates of all GPUs and of one contradict each other'),
])  # fmt: skip
def test_another_solution_than_the_one_asked_for_is_a_fault(mxp, whole, old, new, says):
    (fault,) = mxp.faults_of(whole.replace(old, new), 258048, (4, 2))
    assert says in fault


def test_each_gpu_has_as_much_of_the_matrix(mxp):
    assert [mxp.order_of(ranks, 61440) for ranks in (1, 4, 16)] == [61440, 122880, 245760]

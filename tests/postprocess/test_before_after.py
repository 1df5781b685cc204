# SPDX-License-Identifier: BSD-3-Clause
"""Before and after a change: decided once or in turn, by hand and on noise whose truth is known."""

import math

import numpy
import pytest
from rows import each_row
from run_reports import BEGAN, case, metric, report

from plumbline.errors import InputError
from postprocess.results.store import Store
from postprocess.statistics.change import Estimate, decide_in_turn, decide_once
from postprocess.verdicts.before_after import compare_pairs


def decide(*series, busy=(), smallest=0.05):
    """Return the decision on series, each given by the losses of its pairs; `busy`: places of pairs on busy CPUs."""
    after = numpy.full((len(series), max(map(len, series))), math.nan)
    for place, losses in enumerate(series):
        after[place, : len(losses)] = numpy.negative(losses)
    quiet = numpy.isfinite(after)
    quiet[:, list(busy)] = False
    before, usual = numpy.where(numpy.isfinite(after), 0.0, math.nan), numpy.full(len(series), 0.01**2)
    return decide_in_turn(before, after, quiet, numpy.full(len(series), -math.log1p(-smallest)), usual)


def word(*series, busy=()):
    return decide(*series, busy=busy).word.tolist()


def test_four_pairs_by_hand():
    # mean 0.10, standard error sqrt(0.0002 / 3 / 4) = 0.00408: t = 24.49 with 3 degrees of freedom
    lost = decide((0.10, 0.11, 0.09, 0.10))
    assert (lost.word, lost.jobs, lost.df) == ('regressed', 4, 3)
    assert decide((0.10, 0.11, 0.09, 0.10, -0.5, -0.5)).jobs == 4, 'a decision stays'
    x = 24.4949 / math.sqrt(3)  # the distribution of t with 3 degrees of freedom in closed form
    assert lost.p == pytest.approx(0.5 - (x / (1 + x * x) + math.atan(x)) / math.pi, rel=1e-3)
    # of t, 97.5 % are below 3.1824
    numbers = [of.item() for of in (lost.loss, lost.low, lost.high)]
    assert numbers == pytest.approx([0.1, 0.1 - 0.01299, 0.1 + 0.01299], abs=1e-5)
    assert word((-0.10, -0.11, -0.09)) == ['improved']
    assert word((0.10, 0.11, 0.09)) == ['warning'], 'two levels of a metric are so by chance once in 32'
    # with five series 2 * 5 / 4^4 is more than 0.01, and 2 * 5 / 4^5 is not
    others = [(0.3, -0.3, 0.1, 0.2, -0.1)] * 4
    assert word((0.10, 0.11, 0.09, 0.10), *others)[0] == 'warning'
    assert word((0.10, 0.11, 0.09, 0.10, 0.10), *others)[0] == 'regressed'


@each_row(('losses', 'busy', 'expected'), [
    ((0.001, -0.002, 0.001), (), 'ok'), ((0.001, -0.002, 0.001), (1,), 'warning'),  # two quiet pairs tell nothing
    ((0.001, -0.002, 0.001, 0.0), (1,), 'ok'), ((0.04, -0.05, 0.03), (), 'warning'),
    ((0.03, 0.03, 0.03), (), 'ok'),  # lost for certain, and less than matters
    ((0.10, 0.11, 0.09, 0.10), (0, 1, 2, 3), 'regressed'),  # what takes CPUs from both states in turn makes no loss
])  # fmt: skip
def test_a_loss_is_decided_by_its_size_and_the_quiet_pairs(losses, busy, expected):
    assert word(losses, busy=busy) == [expected]


def test_one_decision_by_hand():
    """With 3 degrees of freedom t is 5.841 at 99.5 % and 3.182 at 97.5 %; 0.2231 is the logarithm of a loss of 20 %."""
    error = numpy.array([0.01, 0.01, 0.01, 0.01, 0.1, 0.001])
    loss = numpy.array([0.05, 0.06, -0.06, -0.05, 0.0, 0.02])
    three, one = numpy.full(6, 3.0), numpy.ones(6)
    found = decide_once(Estimate(loss, error**2, three, one), numpy.full(6, 0.03), one)
    assert found.word.tolist() == ['ok', 'regressed', 'improved', 'ok', 'warning', 'ok']
    assert found.limit == pytest.approx([0.05841] * 4 + [0.5841, 0.03], rel=1e-3)
    assert found.noticed == pytest.approx([0.06683] * 4 + [0.6683, 0.03], rel=1e-3)
    assert found.high - loss == pytest.approx(3.182 * error, rel=1e-3)


def sessions(work, before, after, number=1, **load):
    """Store a session of each state in turn, each of `number` metrics; return them in pairs."""
    for pair, rates in enumerate(zip(before, after, strict=True)):
        for state, rate in zip('ba', rates, strict=True):
            metrics = {f'm{i}': metric([rate] if rate else []) for i in range(number)}
            one = case(metrics=metrics, provenance=load, missing={'m0': 'no line'})
            work.ingest(report(one, uuid=f'{state}{pair}', began=BEGAN + 100 * pair + 10 * (state == 'a')))
    store = Store(work.results)
    return store, [(store.find(f'b{i}'), store.find(f'a{i}')) for i in range(len(before))]


def test_a_loss_in_pairs_that_drift_together(work):
    store, stored = sessions(work, (100, 80, 60, 90, 100), (90, 72.2, 53.9, 81, 50))
    found = compare_pairs(store, stored, 0.05)
    (row,) = found.verdicts
    assert (found.word, found.exit_code, row.verdict, row.window) == ('FAILED', 1, 'regressed', 4)
    # the fourth root of the ratios of four pairs; the fifth came when it was decided
    assert row.loss == pytest.approx(1 - (0.9 * 0.9025 * 53.9 / 60 * 0.9) ** 0.25)
    assert 'lost 10.0 %' in row.cause
    # the geometric means of the four pairs, and the value that lost 5 %
    before = (100 * 80 * 60 * 90) ** 0.25
    assert (row.expected, row.value) == pytest.approx((before, (90 * 72.2 * 53.9 * 81) ** 0.25))
    assert (row.limit, row.limits.why) == (pytest.approx(0.95 * before), 'floor, 4 pairs of jobs')


@pytest.mark.parametrize(('before', 'after', 'load', 'says'), [
    ((100, 130, 100), (130, 100, 70), {}, 'cannot tell: gain of'),
    ((100, 100, 100), (100, 100.1, 100), {'load_beside': '1.7'}, '3 of them beside busy CPUs'),
])  # fmt: skip
def test_what_cannot_be_told_is_inconclusive(work, before, after, load, says):
    found = compare_pairs(*sessions(work, before, after, **load), 0.05)
    assert (found.word, found.exit_code, found.undecided) == ('INCONCLUSIVE', 3, 1)
    assert found.verdicts[0].verdict == 'warning' and says in found.verdicts[0].cause


@pytest.mark.parametrize(('before', 'after', 'verdict', 'code'), [
    ((100, 101, 99), (100, 100, 99), 'ok', 0),
    ((100, 100, 100), (100, 100, 0), 'missing', 1),  # one number lost after the change
    ((0, 0, 0), (100, 100, 100), 'warning', 1),  # nothing was measured before the change
])  # fmt: skip
def test_equal_states_are_ok_and_numbers_that_were_lost_are_not(work, before, after, verdict, code):
    found = compare_pairs(*sessions(work, before, after), 0.05)
    assert (found.verdicts[0].verdict, found.exit_code) == (verdict, code)


def test_a_case_that_failed_once_after_the_change_is_told_as_failed(work):
    store, stored = sessions(work, (100, 100, 100), (100, 100, 100))
    failed = case(metrics={'m0': metric([100])}, result='fail', fail_phase='sanity', fail_reason='lost')
    work.ingest(report(failed, uuid='failed', began=BEGAN + 115))
    found = compare_pairs(Store(work.results), [stored[0], (stored[1][0], store.find('failed')), stored[2]], 0.05)
    assert [(row.verdict, row.cause) for row in found.verdicts] == [('failed', 'failed: lost')]
    assert found.exit_code == 1


def test_the_fewer_series_are_asked_for_the_fewer_pairs_decide(work):
    """Chance agreement below 1 %: 30 series need 7 pairs (30 x 2 / 4^7), one series 4 (2 / 4^4)."""
    store, stored = sessions(work, (100, 100.1, 100.2, 100.3), (70, 70.1, 70.2, 70.3), number=30)
    found = compare_pairs(store, stored, 0.05)
    assert found.counts == {'warning': 30} and found.exit_code == 3
    one = found.verdicts[7].id
    (row,) = compare_pairs(store, stored, 0.05, {one}).verdicts
    assert (row.id, row.verdict, row.window) == (one, 'regressed', 4)
    with pytest.raises(InputError, match='m99: no session of the comparison measured it'):
        compare_pairs(store, stored, 0.05, {one, one.case.series('m99')})

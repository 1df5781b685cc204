# SPDX-License-Identifier: BSD-3-Clause
"""Two states measured in turn: decided by their pairs, by hand and on noise whose truth is known."""

import math
import random

import numpy
import pytest
from run_reports import BEGAN, case, metric, report

from plumbline.errors import InputError
from postprocess.results.store import Store
from postprocess.statistics.paired import Pairs, decide
from postprocess.verdicts.pairs import compare_pairs


def pairs(*losses, busy=(), smallest=0.05):
    quiet = numpy.array([place not in busy for place in range(len(losses))], bool)
    return Pairs(numpy.array(losses), quiet, -math.log1p(-smallest), 0.0035)


def word(*series):
    return [decision.word for decision in decide(series)]


def test_four_pairs_by_hand():
    # mean 0.10, standard error sqrt(0.0002 / 3 / 4) = 0.00408: t = 24.49 with 3 degrees of freedom
    lost = decide([pairs(0.10, 0.11, 0.09, 0.10)])[0]
    assert (lost.word, lost.pairs, lost.df) == ('regressed', 4, 3)
    x = 24.4949 / math.sqrt(3)  # the distribution of t with 3 degrees of freedom in closed form
    assert lost.p == pytest.approx(0.5 - (x / (1 + x * x) + math.atan(x)) / math.pi, rel=1e-3)
    # of t, 97.5 % are below 3.1824
    assert (lost.loss, lost.low, lost.high) == pytest.approx((0.1, 0.1 - 0.01299, 0.1 + 0.01299), abs=1e-5)
    assert word(pairs(-0.10, -0.11, -0.09)) == ['improved']
    assert word(pairs(0.10, 0.11, 0.09)) == ['open'], 'two levels of a metric are so by chance once in 32'
    # with five series 2 * 5 / 4^4 is more than 0.01, and 2 * 5 / 4^5 is not
    others = [pairs(0.3, -0.3, 0.1, 0.2, -0.1)] * 4
    assert word(pairs(0.10, 0.11, 0.09, 0.10), *others)[0] == 'open'
    assert word(pairs(0.10, 0.11, 0.09, 0.10, 0.10), *others)[0] == 'regressed'


@pytest.mark.parametrize(
    ('losses', 'busy', 'expected'),
    [
        ((0.001, -0.002, 0.001), (), 'ok'),
        ((0.001, -0.002, 0.001), (1,), 'open'),  # two quiet pairs tell nothing
        ((0.001, -0.002, 0.001, 0.0), (1,), 'ok'),
        ((0.03, 0.03, 0.03), (), 'ok'),  # lost for certain, and less than matters
        ((0.04, -0.05, 0.03), (), 'open'),
        ((0.10, 0.11, 0.09, 0.10), (0, 1, 2, 3), 'regressed'),  # what takes CPUs from both states in turn makes no loss
    ],
)
def test_what_is_decided(losses, busy, expected):
    assert word(pairs(*losses, busy=busy)) == [expected]


def test_a_decision_stays():
    assert decide([pairs(0.10, 0.11, 0.09, 0.10, -0.5, -0.5)])[0].pairs == 4


@pytest.mark.parametrize('levels', [False, True])
def test_noise_alone_is_not_told_as_a_loss(levels):
    rng = numpy.random.default_rng(7)

    def of_noise():
        values = rng.normal(0, 0.03, (16, 2))
        if levels:  # a job is at one of two levels 30 % apart
            values += rng.choice([0.0, 0.3], (16, 2))
        return pairs(*(values[:, 0] - values[:, 1]))

    found = [word(*(of_noise() for _ in range(5))) for _ in range(150)]
    changed = sum('regressed' in words or 'improved' in words for words in found)
    assert changed <= 6  # 2 x 1 % of 150 are 3
    if not levels:
        assert sum(words.count('ok') for words in found) > 0.9 * 5 * 150


def test_a_loss_that_matters_is_rarely_told_as_ok():
    rng = numpy.random.default_rng(3)
    found = [word(pairs(*rng.normal(0.0513, 0.03, 16)))[0] for _ in range(300)]  # just 5 %
    assert found.count('ok') <= 45
    found = [word(pairs(*rng.normal(0.105, 0.03, 16)))[0] for _ in range(300)]  # 10 %
    assert found.count('ok') <= 3 and found.count('regressed') > 290


def sessions(work, before, after, **load):
    """Store a session of each state in turn; return them in pairs."""
    for number, rates in enumerate(zip(before, after, strict=True)):
        for state, rate in zip('ba', rates, strict=True):
            metrics = {'rate': metric([rate])} if rate else {'rate': metric([])}
            one = case(metrics=metrics, provenance=load, missing={'rate': 'no line'})
            work.ingest(report(one, uuid=f'{state}{number}', began=BEGAN + 100 * number + 10 * (state == 'a')))
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


def test_what_cannot_be_told_is_inconclusive(work):
    store, stored = sessions(work, (100, 130, 100), (130, 100, 70))
    found = compare_pairs(store, stored, 0.05)
    assert (found.word, found.exit_code, found.undecided) == ('INCONCLUSIVE', 3, 1)
    assert 'cannot tell: gain of' in found.verdicts[0].cause


def test_pairs_beside_busy_cpus_clear_nothing(work):
    store, stored = sessions(work, (100, 100, 100), (100, 100.1, 100), load_beside='1.7')
    found = compare_pairs(store, stored, 0.05)
    assert (found.exit_code, found.verdicts[0].verdict) == (3, 'warning')
    assert '3 of them beside busy CPUs' in found.verdicts[0].cause


def test_equal_states_are_ok(work):
    rng = random.Random(1)
    store, stored = sessions(work, *([100 + rng.gauss(0, 1) for _ in range(5)] for _ in range(2)))
    assert compare_pairs(store, stored, 0.05).exit_code == 0


@pytest.mark.parametrize(
    ('before', 'after', 'verdict', 'code'),
    [
        ((100, 100, 100), (100, 100, 0), 'missing', 1),  # one number lost after the change
        ((0, 0, 0), (100, 100, 100), 'warning', 1),  # nothing was measured before the change
    ],
)
def test_numbers_that_were_lost(work, before, after, verdict, code):
    store, stored = sessions(work, before, after)
    found = compare_pairs(store, stored, 0.05)
    assert (found.verdicts[0].verdict, found.exit_code) == (verdict, code)


def test_a_case_that_failed_once_after_the_change_is_told_as_failed(work):
    store, stored = sessions(work, (100, 100, 100), (100, 100, 100))
    failed = case(metrics={'rate': metric([100])}, result='fail', fail_phase='sanity', fail_reason='lost')
    work.ingest(report(failed, uuid='failed', began=BEGAN + 115))
    found = compare_pairs(Store(work.results), [stored[0], (stored[1][0], store.find('failed')), stored[2]], 0.05)
    assert [(row.verdict, row.cause) for row in found.verdicts] == [('failed', 'failed: lost')]
    assert found.exit_code == 1


def test_the_fewer_series_are_asked_for_the_fewer_pairs_decide(work):
    """Chance agreement below 1 %: 30 series need 7 pairs (30 x 2 / 4^7), one series 4 (2 / 4^4)."""
    for number in range(4):
        for state, rate in (('b', 100.0), ('a', 70.0)):
            metrics = {f'm{i}': metric([rate + 0.1 * number]) for i in range(30)}
            began = BEGAN + 100 * number + 10 * (state == 'a')
            work.ingest(report(case(metrics=metrics), uuid=f'{state}{number}', began=began))
    store = Store(work.results)
    stored = [(store.find(f'b{i}'), store.find(f'a{i}')) for i in range(4)]
    found = compare_pairs(store, stored, 0.05)
    assert found.counts == {'warning': 30} and found.exit_code == 3
    one = found.verdicts[7].id
    (row,) = compare_pairs(store, stored, 0.05, {one}).verdicts
    assert (row.id, row.verdict, row.window) == (one, 'regressed', 4)
    with pytest.raises(InputError, match='m99: no session of the comparison measured it'):
        compare_pairs(store, stored, 0.05, {one, one.case.series('m99')})

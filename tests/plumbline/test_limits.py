# SPDX-License-Identifier: BSD-3-Clause
"""The limits of a metric: against scipy, and what must hold for any reference."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scipy import stats

from plumbline.identity import Quantity, SeriesId, from_text
from plumbline.limits import Tolerance, expected_spread, judges, limits, quantile_t, tolerance_for
from plumbline.references import Reference, References

WIDE = Tolerance(1e-9, 0.999999)
ID = SeriesId('node', 'system', 'HPCC', (), 'HPL')
positive = st.floats(1e-6, 1e15)
spread = st.floats(0, 0.2)


def row(mean=100.0, std=1.0, n=10, better='higher', kind='baseline', **fields) -> Reference:
    return Reference(ID, Quantity('GFlop/s', better), mean, std, n, kind, 'x', **fields)


def test_students_t_is_scipys():
    for degrees in (*range(1, 200), 1000, 100_000):
        assert quantile_t(degrees) == pytest.approx(stats.t.isf(1e-5, degrees), rel=2e-3)
    for degrees in (3.1, 3.5, 4.4, 5.7, 9.9, 29.5, 30.0, 30.5):  # as moderation makes them
        assert 0.998 < quantile_t(degrees) / stats.t.isf(1e-5, degrees) < 1.007


def test_the_interval_is_the_prediction_interval_of_the_logarithm():
    bound = limits(row(spread=0.01, df=13.0, spread_n=10), WIDE)
    expected = math.exp(-stats.t.isf(1e-5, 13) * 0.01 * math.sqrt(1.1))
    assert bound.bad == pytest.approx(100 * expected, rel=1e-4)
    assert limits(row(better='lower', spread=0.01, df=13.0, spread_n=10), WIDE).bad == pytest.approx(
        100 / expected, rel=1e-4
    )
    # four times of five beyond the limit of nine jobs, which have 13 + 9 - 1 degrees of freedom
    beyond = (stats.t.isf(1e-5, 21) + stats.norm.isf(0.2)) * math.hypot(bound.sd_of_jobs, 0.01 / math.sqrt(10))
    assert bound.detectable == pytest.approx(-math.expm1(-beyond), rel=1e-3)


@given(positive, spread, st.integers(2, 1000), st.floats(0.001, 0.3), st.floats(0.3, 0.9))
def test_never_tighter_than_the_floor_and_never_looser_than_the_cap(mean, cv, n, floor, cap):
    rate, time = (limits(row(mean, mean * cv, n, better), Tolerance(floor, cap)) for better in ('higher', 'lower'))
    assert floor - 1e-12 <= rate.loss == time.loss <= cap + 1e-12
    assert rate.bad == pytest.approx(mean * (1 - rate.loss))
    assert time.bad == pytest.approx(mean / (1 - rate.loss))
    assert rate.bad < mean < rate.good and time.good < mean < time.bad


@given(positive, st.floats(0.001, 0.1), st.integers(2, 500))
def test_more_values_and_less_spread_never_loosen_it(mean, cv, n):
    bound = limits(row(mean, mean * cv, n), WIDE)
    assert limits(row(mean, mean * cv, n + 1), WIDE).loss <= bound.loss
    assert limits(row(mean, mean * cv / 2, n), WIDE).loss <= bound.loss


@each_row(('std', 'n'), [(None, None), (0.0, 1), (None, 5)])
def test_a_number_without_spread_gets_the_usual_spread_of_its_metric_and_gates(std, n):
    bounds = [limits(row(std=std, n=n, kind='published'), Tolerance(usual_spread=s)) for s in (0.02, 0.05)]
    assert bounds[0].gates
    error = math.sqrt(1 + (1 / n if n else 0))  # a published number without n is taken as exact
    assert bounds[0].loss == pytest.approx(1 - math.exp(-stats.t.isf(1e-5, 4) * 0.02 * error), rel=1e-3)
    assert bounds[1].loss > bounds[0].loss


def test_a_baseline_of_one_session_gates_and_never_beyond_a_loss_of_three_quarters():
    assert limits(row(n=1), Tolerance()).bad == pytest.approx(51.7, abs=0.1)
    noisy = limits(row(n=1), Tolerance(usual_spread=0.3))
    assert (noisy.bad, noisy.why, noisy.gates) == (pytest.approx(25), 'cap', True)


@each_row(
    ('fields', 'gate'),
    [
        ({}, 'gated'),
        ({'n': 1, 'spread': 0.01, 'df': 9.0, 'spread_n': 10}, 'gated'),  # the first session of an epoch
        ({'kind': 'published', 'n': 3}, 'gated'),
        ({'kind': 'elsewhere'}, 'elsewhere'),
        ({'kind': 'session', 'n': 3}, 'gated'),
    ],
)
def test_what_gates_and_what_only_warns(fields, gate):
    bound = limits(row(**fields), Tolerance())
    assert (bound.gate, bound.gates) == (gate, gate == 'gated')
    assert bound.loss <= 0.75


def test_the_recorded_spread_counts_before_that_of_the_row_and_is_drawn_to_what_is_usual():
    assert expected_spread(row(std=9.0, n=4, spread=0.01, df=8.0, spread_n=4), Tolerance()) == (1e-4, 8, False)
    few = expected_spread(row(spread=0.001, df=1.0, spread_n=2, n=2), Tolerance(usual_spread=0.02))
    assert few == (pytest.approx((4 * 0.02**2 + 0.001**2) / 5), 5, False)
    assert expected_spread(row(n=1), Tolerance(usual_spread=0.03)) == (0.03**2, 4, True)


def test_a_published_number_of_this_machine_is_judged_beside_the_baseline():
    baseline = row(n=4)
    published, elsewhere = row(mean=90.0, kind='published', n=100), row(mean=120.0, kind='elsewhere', n=100)

    def found(*rows):
        return [(one.kind, bound.gates) for one, bound in judges(References(rows), ID, Tolerance())]

    assert found() == []
    assert found(baseline) == [('baseline', True)]
    assert found(baseline, published) == [('baseline', True), ('published', True)]
    assert found(baseline, elsewhere) == [('baseline', True), ('elsewhere', False)]
    assert found(elsewhere, published) == [('published', True)]
    assert found(elsewhere) == [('elsewhere', False)]


def test_what_the_check_states_holds_where_the_site_has_no_policy():
    assert tolerance_for({}, ID) == Tolerance(0.02, 0.75)
    assert tolerance_for({}, ID, 0.15, 0.05) == Tolerance(0.15, 0.75, 0.05)
    assert tolerance_for({'floor': 0.01, 'cap': 0.2}, ID, 0.15) == Tolerance(0.01, 0.2)
    assert tolerance_for({'cap': 0.1}, ID, 0.15) == Tolerance(0.1, 0.1)  # nor the floor above the site's cap


def test_the_last_matching_rule_of_the_policy_counts():
    policy = {
        'floor': 0.03,
        'rules': [
            {'check': 'Likwid*', 'floor': 0.1, 'cap': 0.4, 'why': 'x'},
            {'check': 'LikwidBandwidth', 'params': '*level=memory', 'floor': 0.2, 'cap': 0.5, 'why': 'x'},
            {'metric': 'bandwidth', 'dims': 'kernel=st*', 'floor': 0.3, 'cap': 0.6, 'why': 'x'},
        ],
    }

    def likwid(level, kernel):
        params = from_text(f'layout=node,level={level}')
        return SeriesId('node', 'cpu', 'LikwidBandwidth', params, 'bandwidth', from_text(f'kernel={kernel}'))

    assert tolerance_for(policy, ID) == Tolerance(0.03, 0.75)
    assert tolerance_for(policy, likwid('L1', 'load')) == Tolerance(0.1, 0.4)
    assert tolerance_for(policy, likwid('memory', 'load')) == Tolerance(0.2, 0.5)
    assert tolerance_for(policy, likwid('memory', 'store')) == Tolerance(0.3, 0.6)


def test_the_spread_of_the_jobs_of_one_session_stands_for_what_is_usual_and_is_assumed():
    of = row(100.0, 3.0, 1, spread=0.1, df=4.0, spread_n=1)
    assert expected_spread(of, Tolerance(usual_spread=0.015)) == (pytest.approx(0.01), 4.0, True)
    # of 4 degrees of freedom, Student's t that 1 of 100 000 exceeds is 23.33: 100 exp(-23.33 x 0.1 x sqrt(2)) is 3.7
    assert limits(of, Tolerance(usual_spread=0.015)).bad == pytest.approx(25.0)

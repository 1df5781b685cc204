"""The limits of a metric: against scipy, and what must hold for any reference."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from site_configs import load_site
from site_configs.gate import Tolerance, limits, quantile_t99, tolerance_for

WIDE = Tolerance(1e-9, 0.999999)
positive = st.floats(1e-6, 1e15)
spread = st.floats(0, 0.2)


def test_students_t_is_scipys():
    for degrees in (*range(1, 200), 1000, 100_000):
        assert quantile_t99(degrees) == pytest.approx(stats.t.ppf(0.99, degrees), rel=1e-3)


def test_the_interval_is_the_prediction_interval_of_the_logarithm():
    bound = limits(100, 1, 10, 'higher', WIDE)
    s = math.sqrt(math.log1p(0.01**2))
    assert bound.bad == pytest.approx(100 * math.exp(-stats.t.ppf(0.99, 9) * s * math.sqrt(1.1)), rel=1e-5)
    assert limits(100, 1, 10, 'lower', WIDE).bad == pytest.approx(10_000 / bound.bad, rel=1e-4)


def test_one_per_cent_of_healthy_values_lie_beyond_it():
    rng = stats.norm(100, 1)
    alarms = 0
    for seed in range(4000):
        *baseline, tonight = rng.rvs(11, random_state=seed)
        bound = limits(sum(baseline) / 10, float(stats.tstd(baseline)), 10, 'higher', WIDE)
        alarms += tonight < bound.bad
    assert 0.005 < alarms / 4000 < 0.016  # 99 % of repetitions of this with an exact interval


@given(positive, spread, st.integers(2, 1000), st.floats(0.001, 0.3), st.floats(0.3, 0.9))
def test_never_tighter_than_the_floor_and_never_looser_than_the_cap(mean, cv, n, floor, cap):
    rate, time = (limits(mean, mean * cv, n, better, Tolerance(floor, cap)) for better in ('higher', 'lower'))
    assert floor - 1e-12 <= rate.loss == time.loss <= cap + 1e-12
    assert rate.bad == pytest.approx(mean * (1 - rate.loss))
    assert time.bad == pytest.approx(mean / (1 - rate.loss))
    assert rate.bad < mean < rate.good and time.good < mean < time.bad


def test_a_loss_of_a_half_is_half_the_rate_and_twice_the_time():
    half = Tolerance(0.5, 0.5)
    assert limits(10, 0.1, 5, 'higher', half).bad == 5
    assert limits(10, 0.1, 5, 'lower', half).bad == 20


@given(positive, st.floats(0.001, 0.1), st.integers(2, 500))
def test_more_values_and_less_spread_never_loosen_it(mean, cv, n):
    bound = limits(mean, mean * cv, n, 'higher', WIDE)
    assert limits(mean, mean * cv, n + 1, 'higher', WIDE).loss <= bound.loss
    assert limits(mean, mean * cv / 2, n, 'higher', WIDE).loss <= bound.loss


@pytest.mark.parametrize(('std', 'n'), [(None, None), (0.0, 1), (None, 5)])
def test_a_reference_without_spread_gets_the_cap(std, n):
    bound = limits(100, std, n, 'higher', Tolerance())
    assert bound.bad == pytest.approx(85)
    assert 'no spread' in bound.why


def test_the_last_matching_rule_of_the_policy_counts():
    policy = {
        'floor': 0.03,
        'rules': [
            {'check': 'Likwid*', 'floor': 0.1, 'cap': 0.4, 'why': 'x'},
            {
                'check': 'LikwidBandwidth',
                'case': '*level=memory',
                'metric': 'load*',
                'floor': 0.2,
                'cap': 0.5,
                'why': 'x',
            },
        ],
    }
    assert tolerance_for(policy, 'HPCC', '-', 'HPL') == Tolerance(0.03, 0.15)
    assert tolerance_for(policy, 'LikwidBandwidth', 'layout=node,level=L1', 'load') == Tolerance(0.1, 0.4)
    assert tolerance_for(policy, 'LikwidBandwidth', 'layout=node,level=memory', 'load') == Tolerance(0.2, 0.5)


def test_hpl_that_lost_a_quarter_regresses_even_on_a_machine_that_nobody_described():
    policy = load_site('localhost').tolerance
    bound = limits(1.3, 0.2, 3, 'higher', tolerance_for(policy, 'HPCC', 'size=quick', 'HPL_Tflops'))
    assert bound.bad > 1.0 * 1.1

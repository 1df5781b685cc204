"""The limits of a metric: against scipy, and what must hold for any reference."""

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scipy import stats

from plumbline.identity import Quantity, SeriesId, from_text
from plumbline.limits import Tolerance, judges, limits, quantile_t99, tolerance_for
from plumbline.references import Reference, References
from plumbline.sites import load_site

WIDE = Tolerance(1e-9, 0.999999)
ID = SeriesId('node', 'system', 'HPCC', (), 'HPL')
positive = st.floats(1e-6, 1e15)
spread = st.floats(0, 0.2)


def row(mean=100.0, std=1.0, n=10, better='higher', kind='baseline', **fields) -> Reference:
    return Reference(ID, Quantity('GFlop/s', better), mean, std, n, kind, 'x', **fields)


def test_students_t_is_scipys():
    for degrees in (*range(1, 200), 1000, 100_000):
        assert quantile_t99(degrees) == pytest.approx(stats.t.ppf(0.99, degrees), rel=1e-3)
    for degrees in (3.1, 3.5, 4.4, 5.7, 9.9, 29.5, 30.0, 30.5):  # as moderation makes them
        assert 0.999 < quantile_t99(degrees) / stats.t.ppf(0.99, degrees) < 1.007


def test_the_interval_is_the_prediction_interval_of_the_logarithm():
    bound = limits(row(), WIDE)
    s = math.sqrt(math.log1p(0.01**2))
    assert bound.bad == pytest.approx(100 * math.exp(-stats.t.ppf(0.99, 9) * s * math.sqrt(1.1)), rel=1e-5)
    assert limits(row(better='lower'), WIDE).bad == pytest.approx(10_000 / bound.bad, rel=1e-4)


def share_of_alarms(sessions: int) -> float:
    """Share of healthy values beyond the limit of a baseline of ten, over so many baselines."""
    values = numpy.random.default_rng(1).normal(100, 1, (sessions, 11))
    bounds = [limits(row(of.mean(), of.std(ddof=1)), WIDE).bad for of in values[:, :10]]
    return float((values[:, 10] < bounds).mean())


@pytest.mark.slow
def test_one_per_cent_of_healthy_values_lie_beyond_it():
    assert share_of_alarms(20_000) == pytest.approx(0.01, abs=0.002)


def test_about_one_per_cent_of_healthy_values_lie_beyond_it():
    assert 0 < share_of_alarms(1000) < 0.02


@given(positive, spread, st.integers(2, 1000), st.floats(0.001, 0.3), st.floats(0.3, 0.9))
def test_never_tighter_than_the_floor_and_never_looser_than_the_cap(mean, cv, n, floor, cap):
    rate, time = (limits(row(mean, mean * cv, n, better), Tolerance(floor, cap)) for better in ('higher', 'lower'))
    assert floor - 1e-12 <= rate.loss == time.loss <= cap + 1e-12
    assert rate.bad == pytest.approx(mean * (1 - rate.loss))
    assert time.bad == pytest.approx(mean / (1 - rate.loss))
    assert rate.bad < mean < rate.good and time.good < mean < time.bad


def test_a_loss_of_a_half_is_half_the_rate_and_twice_the_time():
    half = Tolerance(0.5, 0.5)
    assert limits(row(10, 0.1, 5), half).bad == 5
    assert limits(row(10, 0.1, 5, 'lower'), half).bad == 20


@given(positive, st.floats(0.001, 0.1), st.integers(2, 500))
def test_more_values_and_less_spread_never_loosen_it(mean, cv, n):
    bound = limits(row(mean, mean * cv, n), WIDE)
    assert limits(row(mean, mean * cv, n + 1), WIDE).loss <= bound.loss
    assert limits(row(mean, mean * cv / 2, n), WIDE).loss <= bound.loss


@each_row(('std', 'n'), [(None, None), (0.0, 1), (None, 5)])
def test_a_published_number_without_spread_gets_the_floor_and_gates(std, n):
    bound = limits(row(std=std, n=n, kind='published'), Tolerance())
    assert bound.bad == pytest.approx(98)
    assert bound.gates
    assert bound.why == 'floor: the reference has no spread'
    assert (bound.detectable, bound.repeats_for(0.05, n)) == (None, None)


def test_one_session_warns_beyond_the_cap():
    bound = limits(row(n=1), Tolerance())
    assert (bound.bad, bound.gate) == (pytest.approx(85), 'provisional')


@each_row(
    ('fields', 'gate'),
    [
        ({}, 'gated'),
        ({'n': 5}, 'gated'),
        ({'n': 4}, 'provisional'),
        ({'n': 1, 'spread': 0.01, 'df': 9.0, 'spread_n': 10}, 'gated'),  # the first session of an epoch
        ({'n': 3, 'spread': 0.01, 'df': 9.0, 'spread_n': 3}, 'provisional'),  # moderation is no session
        ({'std': 10.0}, 'too_noisy'),
        ({'kind': 'published', 'n': 3}, 'gated'),
        ({'kind': 'elsewhere'}, 'elsewhere'),
        ({'kind': 'session', 'n': 3}, 'gated'),
    ],
)
def test_what_gates_and_what_only_warns(fields, gate):
    bound = limits(row(**fields), Tolerance())
    assert (bound.gate, bound.gates) == (gate, gate == 'gated')
    assert bound.loss <= 0.15


def test_the_recorded_spread_counts_before_that_of_the_row():
    bound = limits(row(std=9.0, n=4, spread=0.01, df=8.0, spread_n=4), WIDE)
    assert bound.bad == pytest.approx(100 * math.exp(-stats.t.ppf(0.99, 8) * 0.01 * math.sqrt(1.25)), rel=1e-5)


def test_a_published_number_of_this_machine_decides_while_the_baseline_is_of_few_sessions():
    few, many = row(n=4), row(n=5)
    published, elsewhere = row(mean=90.0, kind='published', n=100), row(mean=120.0, kind='elsewhere', n=100)

    def found(*rows):
        return [(one.kind, bound.gates) for one, bound in judges(References(rows), ID, Tolerance())]

    assert found() == []
    assert found(many, published) == [('baseline', True)]
    assert found(few) == [('baseline', False)]
    assert found(few, published) == [('published', True), ('baseline', False)]
    assert found(few, elsewhere) == [('baseline', False), ('elsewhere', False)]
    assert found(elsewhere, published) == [('published', True)]
    assert found(elsewhere) == [('elsewhere', False)]


def test_a_detectable_loss_is_found_four_times_of_five():
    bound = limits(row(), Tolerance())
    rng = numpy.random.default_rng(1)
    tonight = 100 * (1 - bound.detectable) * numpy.exp(rng.normal(0, bound.sd, 20_000))
    assert (tonight < bound.bad).mean() == pytest.approx(0.8, abs=0.01)


@given(st.floats(0.001, 0.1), st.integers(5, 50), st.floats(0.005, 0.04))
def test_so_many_repeats_and_no_fewer_make_a_loss_of_5_per_cent_detectable(cv, n, floor):
    bound = limits(row(std=100 * cv, n=n), Tolerance(floor, 0.9))
    repeats = bound.repeats_for(0.05, n)
    one = bound.sd / math.sqrt(1 + 1 / n)

    def detectable(jobs):
        sd = one * math.sqrt(1 / jobs + 1 / n)
        return 1 - math.exp(-(max(quantile_t99(bound.df) * sd, -math.log1p(-floor)) + 0.8416 * sd))

    if repeats is None:
        assert detectable(1e12) > 0.05 - 1e-6
    else:
        assert detectable(repeats) <= 0.05 + 1e-6
        assert repeats == 1 or detectable(repeats - 1) > 0.05 - 1e-6


def test_what_the_check_states_holds_where_the_site_has_no_policy():
    assert tolerance_for({}, ID) == Tolerance(0.02, 0.15)
    assert tolerance_for({}, ID, 0.03) == Tolerance(0.03, 0.15)
    assert tolerance_for({}, ID, 0.15, 0.40, 0.05) == Tolerance(0.15, 0.40, 0.05)
    assert tolerance_for({}, ID, 0.2) == Tolerance(0.2, 0.2)  # the cap is never below the floor
    assert tolerance_for({'floor': 0.01, 'cap': 0.2}, ID, 0.15, 0.40) == Tolerance(0.01, 0.2)
    assert tolerance_for({'floor': 0.5}, ID) == Tolerance(0.5, 0.5)
    assert tolerance_for({'cap': 0.1}, ID, 0.15, 0.40) == Tolerance(0.1, 0.1)  # nor the floor above the site's cap


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

    assert tolerance_for(policy, ID) == Tolerance(0.03, 0.15)
    assert tolerance_for(policy, likwid('L1', 'load')) == Tolerance(0.1, 0.4)
    assert tolerance_for(policy, likwid('memory', 'load')) == Tolerance(0.2, 0.5)
    assert tolerance_for(policy, likwid('memory', 'store')) == Tolerance(0.3, 0.6)


def test_a_published_number_without_spread_gets_the_usual_spread_of_its_metric():
    bare = row(std=None, n=None, kind='published')
    assert limits(bare, Tolerance()).loss == 0.02
    assert limits(bare, Tolerance(usual_spread=0.001)).loss == 0.02  # not below the floor
    noisy = limits(bare, Tolerance(usual_spread=0.03))
    # two values of that spread differ by more once in a hundred
    assert noisy.loss == pytest.approx(1 - math.exp(-stats.norm.ppf(0.99) * 0.03 * math.sqrt(2)), rel=1e-5)
    assert limits(bare, Tolerance(usual_spread=0.5)).loss == 0.15


def test_hpl_that_lost_a_quarter_is_beyond_the_limit_even_on_a_machine_that_nobody_described():
    hpl = SeriesId('node', 'system', 'HPCC', from_text('size=quick'), 'HPL_Tflops')
    tolerance = tolerance_for(load_site('localhost').tolerance, hpl)
    assert limits(row(1.3, 0.2, 3), tolerance).bad > 1.0 * 1.1

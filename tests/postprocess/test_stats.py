# SPDX-License-Identifier: BSD-3-Clause
"""Statistics against numpy, and the limits that follow from them."""

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from plumbline.record import Summary, summarize
from postprocess.statistics.change import estimate
from postprocess.statistics.distributions import (
    _inverse_trigamma,
    below_selected,
    chance,
    deviate,
    digamma,
    false_discovery_rates,
    moderate,
    proportion,
    student,
    tail,
    trigamma,
    upper,
)
from postprocess.verdicts.measured import pool

values = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30)


@given(st.lists(values, min_size=1, max_size=5))
def test_pooled_groups_equal_numpy_on_all_samples(groups):
    pooled = pool(summarize(group) for group in groups)
    together = numpy.concatenate(groups)
    assert pooled.n == len(together)
    assert (pooled.min, pooled.max) == (together.min(), together.max())
    assert math.isclose(pooled.mean, together.mean(), rel_tol=1e-9)
    if pooled.n == 1:
        assert pooled.std is None
    else:
        assert math.isclose(pooled.std, together.std(ddof=1), rel_tol=1e-6, abs_tol=1e-6 * together.max())


def test_groups_without_samples_change_nothing():
    assert pool([summarize([]), summarize([])]) == Summary(0, None, None, None, None)
    assert pool([summarize([]), summarize([1.0, 3.0])]) == Summary(2, 2.0, pytest.approx(math.sqrt(2)), 1.0, 3.0)


def test_the_prior_of_the_spreads_is_found_again():
    """Variances drawn from the model itself, with d0 = 6 and s0 = 0.01."""
    rng = numpy.random.default_rng(3)
    true = 6 * 0.01**2 / rng.chisquare(6, 20_000)
    df = numpy.full(20_000, 3.0)
    variances, more = moderate(true * rng.chisquare(3, 20_000) / 3, df)
    assert more[0] == pytest.approx(9, abs=0.4)
    t = rng.standard_normal(20_000) * numpy.sqrt(true / variances)
    assert (t < stats.t.ppf(0.01, more[0])).mean() == pytest.approx(0.01, abs=0.002)  # as Student's t with d0 + d


def test_few_metrics_and_metrics_without_any_spread_teach_nothing():
    own, df = numpy.array([1.0, 4.0, 9.0]), numpy.array([4.0, 4.0, 4.0])
    assert moderate(own, df)[0] is own
    zeros = numpy.zeros(50)
    assert moderate(zeros, numpy.full(50, 4.0))[0] is zeros


@given(st.lists(st.floats(1e-8, 1.0), min_size=10, max_size=40), st.integers(1, 30))
def test_moderation_moves_no_variance_beyond_the_others_and_takes_no_degrees_away(own, degrees):
    own, df = numpy.array(own), numpy.full(len(own), float(degrees))
    variances, more = moderate(own, df)
    assert numpy.isfinite(variances).all() and (variances > 0).all()
    assert (more >= df).all() and (more <= df.sum()).all()
    order = numpy.argsort(own)
    assert (numpy.diff(variances[order]) >= -1e-12 * variances.max()).all()


@given(st.floats(1e-3, 1e6))
def test_digamma_trigamma_and_its_inverse_are_scipys(x):
    assert digamma(numpy.array([x]))[0] == pytest.approx(special.digamma(x), rel=1e-7, abs=1e-7)
    assert trigamma(numpy.array([x]))[0] == pytest.approx(special.polygamma(1, x), rel=1e-8)
    if x < 1e3:
        assert special.polygamma(1, _inverse_trigamma(x)) == pytest.approx(x, rel=1e-4)


@given(st.floats(-8, 8), st.floats(4, 200))
def test_normal_deviates_have_the_tails_of_students_t(t, df):
    z = float(deviate(numpy.array(t), numpy.array(df)))
    assert z == pytest.approx(-stats.norm.ppf(stats.t.sf(t, df)), rel=0.012, abs=0.005)
    assert student(z, numpy.array([df]))[0] == pytest.approx(t, abs=1e-6)


@given(st.floats(1e-12, 0.5))
def test_normal_tails_are_scipys(p):
    assert upper(p) == pytest.approx(stats.norm.isf(p), abs=1e-6)
    assert tail(numpy.array([upper(p)]))[0] == pytest.approx(p, rel=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_false_discovery_rates_are_scipys(p):
    assert false_discovery_rates(numpy.array(p)) == pytest.approx(stats.false_discovery_control(p))


def test_chance_is_students_t():
    expected = [stats.t.sf(2.0, 3), stats.t.sf(-1.0, 9.5)]
    assert chance(numpy.array([2.0, -1.0]), numpy.array([3.0, 9.5])) == pytest.approx(expected)


@pytest.mark.parametrize(('times', 'of'), [(0, 9), (9, 9), (3, 40)])
def test_the_interval_of_a_share_is_that_of_scipy(times, of):
    assert proportion(times, of) == pytest.approx([*stats.binomtest(times, of).proportion_ci()], abs=1e-9)


def change(before, after, paired=False, likeness=0.0):
    """Return the estimate for one series."""
    sides = numpy.log([numpy.pad(side, (0, 4 - len(side)), constant_values=math.nan) for side in (before, after)])
    return estimate(sides[:1], sides[1:], paired, likeness)


def test_the_jobs_of_two_sides_are_compared():
    old, new = [100.0, 101, 99, 100.5], [97.0, 95, 96]
    found = change(old, new)
    expected = stats.ttest_ind(numpy.log(old), numpy.log(new))
    assert (found.loss / found.error, found.df) == (pytest.approx(expected.statistic), expected.df)


def test_jobs_of_one_day_are_less_than_independent():
    old, new = [100.0, 101], [97.0, 95]
    apart, together = change(old, new), change(old, new, likeness=0.3)
    assert together.factor == pytest.approx(2 * (0.3 + 0.7 / 2)) and apart.factor == 1
    assert together.variance == pytest.approx(apart.variance / 0.7)


def test_what_ran_on_both_sides_is_paired():
    found = change([100.0, math.sqrt(50 * 52), 200.0], [95.0, 48.0, 191.0], paired=True)
    pairs = numpy.log([100 / 95, math.sqrt(50 * 52) / 48, 200 / 191])
    assert found.loss == pytest.approx(pairs.mean())
    assert (found.error, found.df) == (pytest.approx(stats.sem(pairs)), 2)


def test_series_of_both_kinds_are_estimated_side_by_side():
    """Four equal jobs before: paired the losses 0 and 0.2 vary by 0.02 / 2 a job, unpaired the sides by 0.02 / 2."""
    before, after = numpy.full((2, 2), 1.0), numpy.array([[1.0, 0.8]] * 2)
    found = estimate(before, after, numpy.array([True, False]))
    assert found.loss == pytest.approx(0.1)
    assert found.variance == pytest.approx([0.01, 0.01]) and found.df.tolist() == [1, 2]


def test_one_job_beside_several_moves_as_they_do_and_two_do_not_show_how_jobs_differ():
    found = change([100.0, 102.0, 98.0], [90.0])
    assert found.variance == pytest.approx(numpy.log([100, 102, 98]).var(ddof=1))
    assert (found.df, found.factor) == (2, pytest.approx(1 / 3 + 1))
    found = change([100.0], [90.0])
    assert (found.variance, found.df, found.factor) == (0, 0, 2)


def test_variances_of_few_series_are_drawn_to_the_prior_of_their_kind():
    variances, df = moderate(numpy.array([0.0, 4e-4]), numpy.array([1.0, 1.0]), numpy.array([1e-4, 1e-4]))
    assert variances == pytest.approx([(4 * 1e-4 + 0) / 5, (4 * 1e-4 + 4e-4) / 5])
    assert df.tolist() == [5, 5]


def test_kinds_of_metrics_teach_each_other_relative_to_their_priors():
    rng = numpy.random.default_rng(1)
    prior = numpy.repeat([1e-4, 1e-2], 50)
    own = prior * rng.chisquare(9, 100) / 9
    variances, df = moderate(own, numpy.full(100, 9.0), prior)
    assert numpy.allclose(variances, prior, rtol=0.25)  # they differ by chance only, and so get nearly one factor
    assert (df > 100).all()


@pytest.mark.parametrize('true', [2.0, 4.0, 6.0])
def test_the_interval_of_what_is_told_because_it_is_large_covers_the_truth(true):
    """Of values above 4.3 alone, by simulation; the plain interval covers 0, 94 and 97 %."""
    values = true + numpy.random.default_rng(1).standard_normal(400_000)
    told = values[values > 4.3][:4000]
    covers = (told - below_selected(told, numpy.full(len(told), 4.3)) <= true) & (true <= told + 1.96)
    assert 0.95 < covers.mean() < 0.99

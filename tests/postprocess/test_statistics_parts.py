# SPDX-License-Identifier: BSD-3-Clause
"""Steps, drifts, levels, groups, limits and looks of the statistics on a few numbers, worked out by hand."""

import math

import numpy
import pytest
from baselines import baseline, expected
from rows import each_row
from scipy import stats

from postprocess.statistics import changepoints, coverage, groups, levels
from postprocess.statistics.baseline import _with_accepted_sessions, _with_fitted_spread, _with_own_spread
from postprocess.statistics.changepoints import Control
from postprocess.statistics.groups import Groups, InCommon, highest
from postprocess.statistics.levels import Level, Values
from postprocess.statistics.lowest import lowest

NAN = math.nan


def approx(values):
    return pytest.approx(numpy.asarray(values, float), nan_ok=True, rel=1e-6, abs=1e-9)


def student_of(z, df):
    """The t with that deviate."""
    return math.sqrt(df * math.expm1((z * (8 * df + 3) / (8 * df + 1)) ** 2 / df))


# Levels


def values_of(sign=1, usual=0.02, floor=0.02, looks=None):
    return Values(numpy.ones(1), numpy.zeros(1, int), sign, usual, floor, looks or {})


@each_row(('performance', 'usual', 'floor', 'border'), [
    # a quarter of the usual spread is 0.01: 12 + 14 / (5 - 4)^2 = 26 times that, or 12 + 14 / 4 = 15.5 times of six
    ([0.27, 0, 0.27, 0, 0.27], 0.04, 0.02, 0.135), ([0, 0, 0.25, 0.25, 0.25], 0.04, 0.02, None),
    ([0, 0, 0.16, 0.16, 0.16, 0.16], 0.04, 0.02, 0.08), ([0, 0, 0.15, 0.15, 0.15, 0.15], 0.04, 0.02, None),
    # at least the floor: -ln 0.7 = 0.357
    ([0, 0, 0.36, 0.36, 0.36], 0.001, 0.3, 0.18), ([0, 0, 0.35, 0.35, 0.35], 0.001, 0.3, None),
    # one session is no level, and four are too few
    ([0, 0.5, 0.5, 0.5, 0.5], 0.001, 0.02, None), ([0, 0, 0.5, 0.5], 0.001, 0.02, None),
    # squares of 6 x 0.02^2 over 6 - 2: a spread of 0.0245, 15.5 of which are 0.380
    ([-0.02, 0.02, 0.41, 0.41, 0.45, 0.45], 0.001, 0.02, 0.215),
    ([-0.02, 0.02, 0.39, 0.39, 0.43, 0.43], 0.001, 0.02, None),
])  # fmt: skip
def test_two_levels_are_apart_by_many_spreads_and_the_floor(performance, usual, floor, border):
    found = levels._border(numpy.array(performance, float), values_of(usual=usual, floor=floor))
    assert found == (None if border is None else approx(border))


def test_the_worse_level_ends_at_the_geometric_middle():
    """Of 90 and 100 it is 94.87; a time of 94.8 s is nearer to the better one."""
    values = numpy.array([94.8, 94.9])
    assert levels.is_at_worse_level(values, 1, Level(values, levels=((90.0, 1), (100.0, 1)))).tolist() == [True, False]
    assert levels.is_at_worse_level(values, -1, Level(values, levels=((100.0, 1), (90.0, 1)))).tolist() == [False, True]


@each_row(('sizes', 'hit', 'share'), [
    ([5] * 10, 2, 0.6), ([5] * 10, 1, 1.0), ([5] * 9, 2, 1.0), ([5] * 10 + [4] * 3, 2, 0.6),
    ([10] * 20, 4, 0.6 * 0.5**0.62),
])  # fmt: skip
def test_dropped_values_are_by_chance_where_no_more_series_have_any(sizes, hit, share):
    of = [Level(numpy.ones(size, bool), dropped=int(place < hit)) for place, size in enumerate(sizes)]
    assert levels._share_by_chance(of) == approx(share)


def test_what_further_jobs_show_is_usual_where_it_is_more_than_the_kind():
    """Logarithms 0 and 0.1: squares 0.005 over 0.7 are 17.9 times 0.02^2, drawn to 1 by four degrees of freedom."""
    of = [values_of(looks={0: numpy.exp([0.1])}), values_of(usual=0.05), values_of(looks={0: numpy.ones(3)})]
    plain = [Level(numpy.ones(1, bool))] * 3
    wide = 0.02 * math.sqrt((4 + 0.005 / 0.7 / 0.0004) / 5)
    assert levels.usual_spreads(of, plain) == approx([wide, 0.05, 0.02])
    assert levels.usual_spreads(of[1:2], plain[:1]) == approx([0.05])
    # of two levels only the jobs at the worse one: 1 and exp(0.1), not exp(0.5)
    two = Level(numpy.ones(1, bool), levels=((1.0, 2), (math.exp(0.5), 1)))
    assert levels.usual_spreads([values_of(looks={0: numpy.exp([0.1, 0.5])})], [two]) == approx([wide])


# Steps and drift


def test_a_series_about_its_levels():
    """Five values about 0 and six about 1: the sizes of the rest are 0 to 0.02, one value is far."""
    values = numpy.array([-0.02, -0.01, 0.0, 0.01, 0.02, 0.98, 0.99, 1.0, 1.0, 1.01, 2.0])
    of = changepoints._Rest(values, [5])
    # the median of 0, 0, 0, 0.01 x 4, 0.02 x 3, 1 is 0.01, times 11 / (11 - 2.5), three times: 0.0576
    bound = 3 * 0.01 / 0.6744898 * 11 / 8.5
    assert (of.far, of.places) == (1, 2)
    assert of.means == approx([0.0, 1 + (bound - 0.02) / 6])
    mean = (bound - 0.02) / 6
    left = [-0.02, -0.01, 0, 0, 0.01, bound]
    assert of.squares == approx(0.001 + sum((one - mean) ** 2 for one in left))
    assert changepoints._Rest(numpy.zeros(9), []).places == 1 and changepoints._Rest(numpy.zeros(10), []).places == 1
    assert changepoints._Rest(numpy.ones(6), []).far == 0


@each_row(('step', 'far', 'floor', 'p'), [
    # squares 0.002 of 10 (1 - 1/5) degrees of freedom: an error of sqrt(0.00025 x 2 / 5) = 0.01
    (0.1, 1e-6, 0.02, 2 * stats.t.sf(10, 8)), (-0.1, 1e-6, 0.02, 2 * stats.t.sf(10, 8)),
    # five of five beyond the middle by chance
    (0.1, 0.3, 0.02, 0.3**5), (-0.1, 0.3, 0.02, 0.3**5),
    # a spread of at least 1 / 20 of the floor, 0.02: an error of 0.02 x sqrt(2 / 5)
    (0.1, 1e-6, 0.4, 2 * stats.t.sf(0.1 / 0.02 / math.sqrt(0.4), 8)),
])  # fmt: skip
def test_the_chance_of_a_step(step, far, floor, p):
    noise = numpy.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    of = changepoints._Rest(numpy.concatenate([noise, step + noise]), [5])
    assert changepoints.chances_of_steps(of, floor, Control(0.0, far, 1)) == [approx(p)]


def weekly(slope, a, weeks=8):
    """A line with the same -3a to 3a in each week, whose median is the line's value on the fourth day."""
    return slope * numpy.arange(7 * weeks) + numpy.tile(a * numpy.array([-2, 3, -1, 0, 1, -3, 2]), weeks)


@each_row(('slope', 'days', 'is_drift'), [
    # 49 days from the middle of the first week to that of the eighth, 56 to that of the ninth
    (0.00041, 56, True), (0.0004, 56, False), (-0.00041, 56, True), (0.01, 55, False), (0.00036, 63, True),
    (0.00035, 63, False), (0.00036, 62, False),
])  # fmt: skip
def test_a_drift_reaches_the_floor_in_eight_weeks_or_more(slope, days, is_drift):
    assert changepoints.drifts(slope * numpy.arange(days), 0.02, Control(0.0, 0.0, 1)) is is_drift


@each_row(('likeness', 'df', 'wider'), [(0.0, 54.0, 1.0), (0.2, 56 * 0.96 / 1.04 - 2, 1.5)])
def test_a_drift_is_significant_over_all_series(likeness, df, wider):
    """Offsets of -3a to 3a have the variance 4 a^2; the slope of 56 values the error 1.3 x 2a sqrt(12 / 56^3)."""
    error = 1.3 * 2 * 0.01 * math.sqrt(12 / 56**3) * math.sqrt(wider)
    p = 2 * stats.t.sf(0.001 / error, df)
    for series, drifts in ((0.99 * 0.003 / p, True), (1.01 * 0.003 / p, False)):
        found = changepoints.drifts(weekly(0.001, 0.01), 0.02, Control(likeness, 0.0, series))
        assert found is drifts, (series, p)


@each_row(('bend', 'begin'), [(0, 0), (1, 2), (10, 11), (20, 21), (25, 21)])
def test_a_level_becomes_a_slope_at_its_bend(bend, begin):
    """30 values; the slope lasts for ten at least."""
    values = 0.1 * numpy.maximum(numpy.arange(30.0) - bend, 0) + 3
    found, line = changepoints.hinge(values)
    assert found == begin and (bend == 25 or line == approx(values))


def test_one_outlier_hardly_moves_a_slope():
    rng = numpy.random.default_rng(1)
    values = 0.1 * numpy.maximum(numpy.arange(40.0) - 15, 0) + 0.01 * rng.standard_normal(40)
    found, line = changepoints.hinge(values)
    values[30] += 50
    again, moved = changepoints.hinge(values)
    assert abs(again - found) <= 12 and abs(moved[-1] - line[-1]) < 0.5


@each_row(('away', 'ends', 'is_line'), [
    # +-0.01 in turn: 0.2 off any level; a line 0.015 away 0.3, one 0.017 away 0.34
    (0.009, [10], True), (0.015, [10], False), (0.015, [10, 14], True), (0.017, [10, 14], False),
    (0.017, [4, 10, 14], True),
])  # fmt: skip
def test_a_line_is_taken_where_levels_fit_no_better(away, ends, is_line):
    """A second step costs ln(20)^1.5 = 5.19 times the noise, 0.02 / 0.6745 / sqrt(2): 0.109."""
    values = 0.01 * numpy.array([1.0, -1.0] * 10)
    assert changepoints._is_line(values, numpy.full(20, away), ends) is is_line


# What a baseline learns from later sessions


@each_row(('change', 'variance'), [
    # all squares alike: c^2 / 1.2 / 0.04 times exp(ln 0.5 - digamma(0.5)) = 3.562, held between 1/9 and 100
    (0.1, 0.01 / 1.2 * 3.5621), (2.0, 4.0), (0.01, 0.04 / 9),
])  # fmt: skip
def test_assumed_spreads_are_fitted_to_the_site(change, variance):
    values = numpy.array([[-0.5 + change], [-0.5 - change]] * 10)  # 0.5 is lost in common
    assumed = baseline(20, assumed=numpy.ones(20, bool))
    of = _with_fitted_spread(assumed, values)
    assert of.variance == pytest.approx(numpy.full(20, variance), rel=1e-4) and of.df.tolist() == [30.0] * 20
    # two sessions tell no more than the last one, three tell by their variance: c^2 exp(-digamma(1))
    two = numpy.concatenate([values + 9, values], axis=1)
    assert _with_fitted_spread(assumed, two).variance == approx(of.variance)
    three = numpy.array([[7 - 0.1, 7, 7 + 0.1]] * 20)
    found = _with_fitted_spread(assumed, three)
    assert found.variance == pytest.approx(numpy.full(20, 0.01 * math.exp(0.5772157)), rel=1e-4)


def test_fewer_than_20_assumed_spreads_are_kept_and_known_ones_always():
    of = baseline(25, assumed=numpy.arange(25) < 19)
    assert _with_fitted_spread(of, numpy.ones((25, 1))) is of
    of = baseline(25, assumed=numpy.arange(25) < 20)
    found = _with_fitted_spread(of, numpy.tile([[0.1], [-0.1]], (13, 1))[:25])
    assert found.variance[20:].tolist() == [0.01] * 5 and found.df[20:].tolist() == [4.0] * 5
    assert (found.variance[:20] != 0.01).all()


def later(older, sessions=20):
    """A series with these values before the last 14 sessions, which are far away."""
    return numpy.array([[*older, *[-5.0] * (sessions - len(older))]])


PATTERN = numpy.array([0.01, -0.01, 0.02, -0.02, 0.03, -0.03])


def accepted(of, first):
    return _with_accepted_sessions(of, of, first)


def test_sessions_older_than_all_windows_are_accepted():
    """Six at 0.05, within two errors of 0.1 sqrt(1/5 + 1/6): 6 x 0.05 / 11; squares 0.0028 of 5 more degrees."""
    of = baseline(1, assumed=numpy.ones(1, bool))
    found = accepted(of, later(0.05 + PATTERN))
    assert (found.n, found.mean, found.df) == (approx([11]), approx([0.3 / 11]), approx([9]))
    assert found.variance == approx([(0.04 + 0.0028) / 9]) and not found.assumed[0]
    assert found.sessions[0, 5:] == approx([*(0.05 + PATTERN), *[NAN] * 14])
    # two errors are 0.1211
    assert accepted(of, later(0.12 + PATTERN)).n == approx([11])
    apart = accepted(of, later(0.123 + PATTERN))
    assert (apart.n, apart.mean, apart.variance, apart.df) == (approx([5]), approx([0]), approx([0.01]), approx([4]))
    assert apart.assumed[0] and numpy.isnan(apart.sessions).all()


def test_a_loss_that_lasts_is_no_level_and_a_single_slow_session_belongs_to_it():
    of = baseline(1)
    lost = numpy.array([*PATTERN, -0.5, -0.51, -0.5, -0.51, -0.5, -0.52])
    assert accepted(of, later(lost, 26)).n == approx([11]), 'the six before it'
    slow = numpy.array([*PATTERN[:3], -0.5, *PATTERN[3:]])
    assert accepted(of, later(slow, 21)).n == approx([11]), 'an outlier counts for the level alone'
    assert accepted(of, later(slow, 21)).mean < accepted(of, later(PATTERN)).mean


def test_a_short_baseline_takes_sessions_that_are_five_nights_old_and_its_own_spread():
    """MAD of seven values 0.6: 0.6 x 7 / 6.2 / 0.6745 = 1.004; (4 x 0.01 + 2.22 x 1.004 ** 2) / 6.22 = 0.605 ** 2."""
    short = baseline(1, n=numpy.array([1.0]), df=numpy.array([4.0]))
    assert accepted(short, later(PATTERN[:5], 10)).n == approx([6])
    assert accepted(short, later(PATTERN[:4], 9)) is short
    noisy = _with_own_spread(short, later(numpy.array([0.6, -0.6, 0.3, -0.3, 0.6, -0.6]), 7))
    assert noisy.df == approx([4 + 0.37 * 6]) and round(float(noisy.sd[0]), 3) == 0.605
    oldest = numpy.array([[0.6, *[NAN] * 8, -0.6, 0.3, -0.3, 0.6, -0.6, -5.0]])  # 14 sessions before tonight
    assert _with_own_spread(short, oldest).sd == approx(noisy.sd)
    assert _with_own_spread(short, numpy.insert(oldest, 1, NAN, axis=1)).df == approx([4 + 0.37 * 5])
    lost = _with_own_spread(short, later(numpy.array([0.01, -0.01, 0.01, -0.5, -0.51, -0.5, -0.51]), 8))
    assert lost.sd[0] < 0.11, 'a lasting loss adds nothing to it'


def test_five_to_thirty_sessions_are_accepted():
    of = baseline(1)
    assert accepted(of, later(PATTERN[:4], 18)) is of
    assert accepted(of, later(PATTERN[:5], 19)).n == approx([10])
    assert accepted(baseline(1, n=numpy.array([25.0])), later(PATTERN)).n == approx([30])
    full = baseline(1, n=numpy.array([26.0]))
    assert accepted(full, later(PATTERN)) is full


def test_an_outlier_among_later_sessions_counts_for_the_level_only_up_to_six_deviations():
    """One at 10 deviations below counts as 6: (0 x 5 - 0.6) / 6 = -0.1; five of six are kept."""
    found = accepted(baseline(1), later([0.01, -0.01, 0.02, -0.02, 0.0, -1.0]))
    assert (found.n, found.mean) == (approx([10]), approx([5 * -0.1 / 10]))
    assert (found.df, found.variance) == (approx([8]), approx([(0.04 + 0.001) / 8]))


# Groups


def test_the_mean_of_a_group_needs_more_than_half_of_it():
    of = Groups(('a', 'b', 'a'), [numpy.array([0, 1]), numpy.array([1, 2, 3]), numpy.array([0])])
    assert of.mean(numpy.array([1.0, NAN, 3.0, 5.0])) == approx([NAN, 4.0, 1.0])
    assert of.mean(numpy.array([[1.0, 2.0], [3.0, NAN], [NAN, NAN], [NAN, 1.0]])) == approx(
        [[2.0, NAN], [NAN, NAN], [1.0, 2.0]]
    )
    assert of.sizes.tolist() == [2, 3, 1] and of.alike.tolist() == [2.0, 1.0, 2.0]


@each_row(('losses', 'case', 'loss'), [
    ([0.1, 0.1, 0.1, 0.1], [0, 0, 1, 1], 0.1), ([0.1, 0.2, 0.3], [0, 1, 2], 0.2), ([0.1, NAN], [0, 1], 0.1),
    ([0.01, 0.03, 0.2, 0.2], [0, 0, 1, 1], 0.02),  # the median is that of the better half
    # each case counts once, however many nodes it ran on
    ([0.01, 0.01, 0.2, 0.2, 0.2, 0.2], [0, 1, 2, 2, 2, 2], 0.01),
    ([0.1, 0.1, 0.31], [0, 1, 2], 0.1), ([0.1, 0.1, 0.3], [0, 1, 2], 0.5 / 3), ([-0.1, -0.2, 0.2], [0, 0, 0], 0.0),
    # half of the nodes of each of three cases
    ([0.0, 0.5, 0.0, 0.5, 0.0, 0.5], [0, 0, 1, 1, 2, 2], 0.0),
    # 0.19 is 3.1 standard deviations of 0.1 below the median: it lost for no such cause; 0.21 may have
    ([0.5, 0.5, 0.5, 0.19], [0, 1, 2, 3], 0.5), ([0.5, 0.5, 0.5, 0.21], [0, 1, 2, 3], 0.4275),
])  # fmt: skip
def test_the_size_of_a_group_is_the_mean_of_those_that_share_it(losses, case, loss):
    of = expected(baseline(len(losses)))
    assert groups._size(of, numpy.array(losses), numpy.arange(len(losses)), numpy.array(case)) == approx(loss)


def test_the_spread_of_a_group_is_drawn_to_that_of_series_somewhat_alike():
    """0.3 + 0.7 / 2 for two series, with two degrees of freedom; three sessions at -0.1, 0, 0.1 add 0.02 of two."""
    of = Groups(('a', 'a', 'b'), [numpy.array([0, 1])] * 3)
    recorded = numpy.array([[-0.1, 0.0, 0.1], [0.3, NAN, NAN], [0.0, 0.0, NAN]])
    centre = numpy.array([0.0, 0.3, 0.0])
    variance, df = groups._spread(of, recorded, centre, numpy.array([3, 1, 2]))
    assert variance == approx([(2 * 0.65 + 0.02) / 4, 0.65, 2 * 0.65 / 3]) and df == approx([4, 2, 3])


@each_row(('red', 'common', 'members', 'chosen'), [
    ([0, 1, 2, 3], [], [[0, 1, 2, 3], [4, 5]], [0]), ([0, 1, 2], [], [[0, 1, 2, 3]], []),
    ([], [1], [[0, 1, 2], [3, 4]], [1]),
    # the widest first; half of the second is in it, less than half of the third
    ([], [0, 1, 2], [[0, 1], [1, 2, 3, 4], [4, 5, 6]], [1, 2]),
])  # fmt: skip
def test_groups_that_lost_show_causes_the_widest_first(red, common, members, chosen):
    groups = Groups(['x'] * len(members), [numpy.array(part) for part in members])
    assert highest(groups, InCommon(red=common), numpy.isin(numpy.arange(7), red)) == chosen


# Limits of node checks


def test_the_limit_of_a_node_is_a_prediction_of_its_own_values():
    """50 values at 1 +- s: t of 49 degrees of freedom at 0.0001 for one series, 0.00002 for five.

    At least 5 %, and none where only a loss of more than 20 % is noticed.
    """
    assert lowest([1.0] * 49, [], 1) is None and lowest([1.0] * 50, [], 1).limit == approx(0.95)
    for s, series in ((0.015, 1), (0.025, 1), (0.015, 5)):
        sd = s * math.sqrt(50 / 49)
        below = student_of(stats.norm.isf(1e-4 / series), 49) * sd * math.sqrt(1 + 1 / 50)
        found = lowest(numpy.exp([s, -s] * 25), [], series)
        assert (found.level, found.notices) == (approx(1.0), approx(1 - math.exp(-below - 3.03 * sd)))
        assert found.limit == approx(math.exp(-below)) and found.limit < 0.95
    little = lowest(numpy.exp([0.001, -0.001] * 25), [], 1)
    assert little.limit == approx(0.95)
    assert little.notices == approx(1 - 0.95 * math.exp(-3.03 * 0.001 * math.sqrt(50 / 49)))
    much = lowest(numpy.exp([0.035, -0.035] * 25), [], 1)
    assert much.notices > 0.2 and much.limit == 0.0


def test_the_limit_of_a_new_node_comes_from_eight_others():
    """Levels at +-0.01 and values at +-0.005 about them: sqrt(0.01^2 x 8/7 + 0.005^2)."""
    peers = [numpy.exp([side * 0.01 - 0.005, side * 0.01 + 0.005]) for side in (1, -1) * 4]
    assert lowest([1.0] * 49, peers[:7], 1) is None
    sd = math.sqrt(0.0001 * 8 / 7 + 0.000025)
    below = student_of(stats.norm.isf(1e-4), 7) * sd * math.sqrt(1 + 1 / 8)
    found = lowest([1.0] * 49, peers, 1)
    assert (found.level, found.notices) == (approx(1.0), approx(1 - math.exp(-below - 3.03 * sd)))
    assert lowest([2.0] * 50, peers, 1).level == approx(2.0)


# Looks


FOUND = numpy.array([[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]])


def test_what_several_looks_find():
    for looks, covered in (((), [0, 0]), ((0, 2), [0.75, 0.5])):
        assert coverage.covered(FOUND, looks) == approx(covered)


@each_row(('found', 'weight', 'cost', 'budget', 'first', 'chosen'), [
    # gains 1, 0.5, 1.5 of costs 1, 1, 2
    (FOUND, [2, 1], [1, 1, 2], 2, (), [0, 1]), (FOUND, [2, 1], [1, 1, 2], 1, (), [0]),
    (FOUND, [2, 1], [1, 1, 2], 0.9, (), []), (FOUND, [2, 0.9], [1, 1, 2], 4, (), [0, 2, 1]),
    # beside the first: gains 0.6 and 1.1, of which the larger alone is more than what fits by gain per cost
    (FOUND, [2, 1.2], [1, 1, 2], 2, (0,), [2]), (FOUND, [2, 1.2], [1, 1, 2], 1.9, (0,), [1]),
    ([[0.1, 0], [0, 1]], [1, 1], [0.01, 1], 1, (), [1]), ([[0.1, 0], [0, 1]], [1, 1], [0.01, 1], 0.99, (), [0]),
    ([[0.0, 0], [0, 0]], [1, 1], [1, 1], 9, (), []), ([[1.0, 0], [1, 0]], [1, 1], [1, 2], 9, (), [0]),
])  # fmt: skip
def test_looks_are_chosen_by_gain_per_cost(found, weight, cost, budget, first, chosen):
    arrays = (numpy.array(part, float) for part in (found, weight, cost))
    assert coverage.most_found(*arrays, budget, first) == chosen


@each_row(('age', 'cost', 'budget', 'chosen'), [
    # from half of 28 days on, the oldest first, in half of the budget
    ([14, 13.9, 20], [1, 1, 1], 4, [2, 0]), ([14, 15, 20], [1, 1, 1], 4, [2, 1]), ([1, 2, 3], [1, 1, 1], 9, []),
    ([20, numpy.inf, 20], [1, 1, 1], 4, [1, 0]), ([], [], 1, []),
    # what does not fit leaves room for what is younger; the oldest always fits
    ([20, 19, 18], [1, 2, 1], 4, [0, 2]), ([20, 19], [4, 1], 4, [0]),
])  # fmt: skip
def test_rotation_takes_what_is_due(age, cost, budget, chosen):
    assert coverage.due(numpy.array(age, float), 28, numpy.array(cost, float), budget) == chosen

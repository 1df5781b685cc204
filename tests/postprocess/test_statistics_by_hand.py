# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the statistics on a few numbers, beside the same computed by hand or by loops over single values."""

import math

import numpy
import pytest
from baselines import baseline, expected
from rows import each_row
from scipy import stats

from plumbline.limits import Tolerance
from postprocess.statistics import groups, nodes, spread
from postprocess.statistics.baseline import _alike, _mean_of, error_of_mean
from postprocess.statistics.distributions import inliers, scatter, upper
from postprocess.statistics.method import METHOD
from postprocess.statistics.nights import FURTHER, Nights, Stretches, looks, packed

NAN = math.nan


def approx(values):
    return pytest.approx(numpy.asarray(values, float), nan_ok=True, rel=1e-9, abs=1e-12)


#: Two series in three sessions of up to three jobs, the second one without the middle session.
JOBS = numpy.array([
    [[0.1, NAN, NAN], [-0.1, 0.1, NAN], [-0.3, -0.1, -0.2]], [[0.2, 0.4, NAN], [NAN, NAN, NAN], [0.5, NAN, NAN]],
])  # fmt: skip


def test_the_jobs_of_the_last_sessions():
    of = Nights(JOBS)
    assert of.first == approx([[0.1, -0.1, -0.3], [0.2, NAN, 0.5]])
    assert of.k.tolist() == [[1, 2, 3], [2, 0, 1]]
    assert of.mean == approx([[0.1, 0.0, -0.2], [0.3, 0.0, 0.5]])
    # 2 x 0.1^2, 2 x 0.1^2, 2 x 0.1^2
    assert of.squares == approx([[0.0, 0.02, 0.02], [0.02, 0.0, 0.0]])
    assert of.only_first.jobs[:, -1] == approx([[-0.3, NAN, NAN], [0.5, NAN, NAN]])
    assert of.only_first.jobs[:, :-1] == approx(JOBS[:, :-1]) and of.jobs[0, 2, 1] == -0.1
    # sessions without a value are left out: what is kept is moved to the end
    assert Nights.of(JOBS).jobs[1] == approx([JOBS[1, 1], JOBS[1, 0], JOBS[1, 2]])
    most = METHOD.windows[-1] + 1
    long = numpy.arange(2.0 * (most + 3)).reshape(2, most + 3, 1)
    assert Nights.of(long).jobs == approx(long[:, 3:])
    long[0, most, 0] = NAN
    assert Nights.of(long).jobs[0, :, 0] == approx([*range(2, most), most + 1, most + 2])
    assert Nights.of(long).jobs[1] == approx(long[1, 3:])


@each_row(('values', 'moved'), [
    ([[1.0, NAN, 2.0], [NAN, 3.0, NAN]], [[1.0, 2.0, NAN], [3.0, NAN, NAN]]),
    ([[1.0, 2.0, NAN], [3.0, NAN, NAN]], [[1.0, 2.0, NAN], [3.0, NAN, NAN]]),
    ([[NAN, NAN, 1.0], [1.0, NAN, NAN]], [[1.0, NAN, NAN], [1.0, NAN, NAN]]),
])  # fmt: skip
def test_values_that_are_none_move_to_the_end(values, moved):
    assert packed(numpy.array(values)) == approx(moved)


def test_the_middle_half_of_the_further_jobs_is_their_loss():
    of = expected(baseline(2, mean=numpy.array([1.0, 1.0])), rho=0.2, g=0.1)
    jobs = numpy.full((2, 9), NAN)
    jobs[0, 1:] = [0.5, 0.9, 0.1, 0.7, 0.3, 0.8, 0.6, 0.2]
    jobs[1, :4] = [9.0, 0.5, NAN, 0.7]
    found = looks(of, jobs)
    assert METHOD.looks == (1, 2, 4, 8) and FURTHER == 8
    assert found.there.T.tolist() == [[True] * 4, [True, True, False, False]]
    # means of 0.5; 0.5, 0.9; 0.5, 0.7 of the first four; 0.3, 0.5, 0.6, 0.7 of all in their order
    assert 1 - found.loss[:, 0] == approx([0.5, 0.7, 0.6, 0.525]) and 1 - found.loss[:2, 1] == approx([0.5, 0.6])
    middle = {1: 1.0, 2: 0.5, 4: 0.298, 8: 0.149}
    for place, k in enumerate(METHOD.looks):
        own = jobs[0, 1 : k + 1]
        squares = sum((value - own.mean()) ** 2 for value in own) / 0.8
        error = math.sqrt((4 * 0.01 + squares) / (4 + k - 1) * (0.2 + 0.8 * middle[k] + 0.1))
        assert found.squares[place, 0] == approx(squares) and found.error[place, 0] == approx(error)
        assert found.df[place, 0] == 4 + k - 1
        assert found.z[place, 0] == approx(normal_of(found.loss[place, 0] / error, 4 + k - 1))
    assert found.z[2:, 1].tolist() == [0.0, 0.0]
    fewer = looks(of, jobs[:, :4])
    assert fewer.there.T.tolist() == [[True, True, False, False]] * 2 and fewer.z[:2] == approx(found.z[:2])


def normal_of(t, df):
    """Wallace's normal deviate of Student's t."""
    return math.copysign(1, t) * (8 * df + 1) / (8 * df + 3) * math.sqrt(df * math.log1p(t * t / df))


@pytest.mark.parametrize(('phi', 'rho', 'skewed'), [(0.0, 0.0, False), (0.3, 0.4, False), (0.2, 0.3, True)])
def test_a_stretch_of_sessions_weighs_each_by_its_precision(phi, rho, skewed):
    """Ten sessions, none beyond three standard deviations of 0.1; covariances go five sessions far."""
    rng = numpy.random.default_rng(7)
    jobs = numpy.where(rng.random((2, 10, 3)) < 0.6, 0.15 * rng.standard_normal((2, 10, 3)), NAN)
    jobs[0, :, 0] = jobs[0, :, 1] - 0.05
    jobs[0, :, 0] = numpy.nan_to_num(jobs[0, :, 0], nan=-0.6)
    tail = numpy.sort(numpy.concatenate([numpy.full(250, -0.5), numpy.full(50, 2.5)])) if skewed else ()
    of = expected(phi=phi, rho=rho, g=0.2, tail=tail)
    # two values, 250 at -0.5 and 50 at 2.5: mean 0, second moment 1.25, third 2.5
    skew = 2.5 / 1.25**1.5 if skewed else 0.0
    assert of.skew == approx(skew)
    nights, stretches = Nights(jobs), Stretches(of, Nights(jobs))
    for begin, end in ((0, 10), (2, 10), (7, 10), (3, 6)):
        found = stretches.of(begin, end)
        for series in (0, 1):
            weights, losses, cuts, squares, k_all = [], [], [], 0.0, 0
            for session in range(begin, end):
                own = [value for value in jobs[series, session] if value == value]
                k_all += len(own)
                mean = sum(own) / len(own) if own else 0.0
                weights.append(1 / (rho + (1 - rho) / len(own)) if own else 0.0)
                losses.append(-mean)
                cuts.append(min(max(-mean, -0.3), 0.3))
                squares += sum((value - mean) ** 2 for value in own) / (1 - rho)
            total = sum(weights)
            share = [weight / total for weight in weights]
            cut = sum(a * b for a, b in zip(share, cuts, strict=True))
            v = 1 / total + 2 * sum(
                phi**d * share[i] * share[i + d] for d in range(1, min(end - begin, 6)) for i in range(end - begin - d)
            )
            squares += sum(weight * (one - cut) ** 2 for weight, one in zip(weights, cuts, strict=True))
            more = max(k_all - 1, 0)
            error = math.sqrt((4 * 0.01 + squares) / (4 + more) * (v + 0.2))
            z = normal_of(cut / error, 4 + more)
            z -= max(z**2 - 1, 0) * skew / 12 / math.sqrt(end - begin)
            measured = sum(bool(numpy.isfinite(jobs[series, session]).any()) for session in range(10))
            if measured < 10 - begin:
                z = -math.inf
            assert found.z[series] == approx(z), (begin, end, series)
            assert found.loss[series] == approx(sum(a * b for a, b in zip(share, losses, strict=True)))
            assert (found.error[series], found.df[series]) == (approx(error), 4 + more)
    assert nights.k.shape == (2, 10)


def test_a_window_reaches_no_further_than_the_last_change_and_counts_from_the_floor():
    """Five sessions: the first series lost 0.1 on average, the second 0.01; the floor is 0.02."""
    jobs = numpy.array([[[-0.1]] * 5, [[-0.01]] * 5])
    found = dict(Stretches(expected(), Nights(jobs)).windows(numpy.array([3, 5])))
    assert [*found] == [2, 3, 5]
    assert [numpy.isfinite(of.z).tolist() for of in found.values()] == [[True, False], [True, False], [False, False]]
    exact = dict(Stretches(expected(), Nights(jobs * 1.6)).windows(numpy.array([5, 5])))  # 0.016 is above 0.75 x 0.02
    assert all(numpy.isfinite(of.z).all() for of in exact.values())


def test_a_change_within_a_window_is_where_the_difference_is_largest():
    """From 0 to -1 before the last three of six sessions: 1 / sqrt(0.01 (1/3 + 1/3)) = 12.2 standard errors."""
    jobs = numpy.array([[[0.0]] * 3 + [[-1.0]] * 3, [[0.01]] * 6])
    assert Stretches(expected(), Nights(jobs)).since(numpy.array([6, 6])).tolist() == [3, 6]
    assert Stretches(expected(), Nights(jobs)).since(numpy.array([3, 2])).tolist() == [3, 2]
    # 3.5 standard errors of sqrt(0.01 (1/3 + 1/3)) are 0.2858
    for step, sessions in ((0.285, 6), (0.287, 3)):
        some = numpy.array([[[0.0]] * 3 + [[-step]] * 3])
        assert Stretches(expected(baseline(1)), Nights(some)).since(numpy.array([6])).tolist() == [sessions]


def test_what_is_expected_of_single_jobs():
    of = expected(baseline(2, mean=numpy.array([1.0, 0.0])), g=0.25)
    # (4 x 0.01 + 0.02) / 6 x (1 + 0.25) = 0.0125
    assert of.error(1.0, 0.02, 2) == approx([math.sqrt(0.0125)] * 2)
    assert of.deviate(numpy.array([0.2, -0.2]), 1.0, 0.02, 2) == approx(
        [normal_of(0.2 / math.sqrt(0.0125), 6), -normal_of(0.2 / math.sqrt(0.0125), 6)]
    )
    assert of.baseline.deviations(numpy.array([[1.2, 0.5], [-0.5, NAN]]), 3.0) == approx([[2.0, -3.0], [-3.0, NAN]])
    assert baseline(2, weight=numpy.array([1.0, 3.0])).shares == approx([0.25, 0.75])
    few, many = (expected(tail=numpy.linspace(-2, 2, n)) for n in (199, 200))
    z = numpy.array([[3.0, 0.0], [-5.0, 1.9]])
    assert (few.worst, many.worst, few.skew, many.skew) == (0.0, 2.0, 0.0, 0.0)
    assert few.usual(z) == approx(z)
    # none of 200 is beyond 3, 100 beyond 0, 200 beyond -5 (cut at 0), 5 beyond 1.9
    of_normal = stats.norm.isf
    assert many.usual(z) == approx(
        [[of_normal(0.3 / 200), min(0.0, of_normal(100.5 / 201))], [-5.0, min(1.9, of_normal(5.5 / 201))]]
    )


def test_a_skew_counts_from_three_standard_errors():
    """Of 600 values three standard errors are 3 sqrt(6 / 600) = 0.3: 300 +- 1 and one tail value more or less."""
    for above, counts in ((310, False), (350, True)):
        tail = numpy.sort(numpy.concatenate([numpy.full(above, -1.0), numpy.full(600 - above, 1.0)]))
        share = above / 600
        # a variable of two values: (1 - 2 p) / sqrt(p (1 - p)), p of the upper one
        skew = (2 * share - 1) / math.sqrt(share * (1 - share))
        assert expected(tail=tail).skew == approx(skew if counts else 0.0)


@each_row(('sessions', 'values', 'is_there'), [
    # one session 7 standard deviations below, or two of 4, are a level; tonight is within 3 of it
    ([0.0, -0.71, 0.0], [-1.0, -1.02, -0.42, -0.40], [True, False, True, False]),
    ([0.0, -0.69, 0.0], [-0.69], [False]), ([0.0, -0.41, -0.5], [-0.75, -0.81, -0.15, -0.1], [True, False, True,
    False]),
    ([0.0, -0.39, -0.5], [-0.5], [False]), ([NAN, NAN, 0.0], [-0.5], [False]),
])  # fmt: skip
def test_a_lower_level_of_the_baseline_is_known_again(sessions, values, is_there):
    of = expected(baseline(2, sessions=numpy.array([sessions, [0.0, 0.0, 0.0]])))
    found = of.is_at_level(numpy.array([values, values]))
    assert found.tolist() == [is_there, [False] * len(values)]


def test_jobs_of_one_night_are_as_alike_as_their_pairs_show():
    """Pairs (1, 0.5) and (-2, 1): the products -1.5 and the squares 5, beside 0.3 worth 20 pairs: (6 - 1.5) / 25."""
    of = baseline(1, sessions=numpy.array([[0.1, -0.2, 0.3]]), second=numpy.array([[0.05, 0.1, NAN]]))
    z = of.deviations(of.sessions)
    assert _alike(of, z, numpy.isfinite(z)) == (approx(4.5 / 25), 0.0)
    # two slow of 100 sessions at 6 deviations, whose second jobs are slow, too: 2.5 of 3 last
    sessions, second = numpy.zeros((1, 100)), numpy.full((1, 100), NAN)
    sessions[0, :2], second[0, :2] = -0.6, -0.3
    of = baseline(1, sessions=sessions, second=second)
    z = of.deviations(sessions)
    # products 2 x 3 x 3 and squares 2 x 9, cut at 3
    assert _alike(of, z, z == z) == (approx((18 + 6) / (18 + 20)), approx(0.02 * 2.5 / 3))
    second[0, :2] = 0.0
    # none of two lasts: 0.5 of 3 are below the share that counts
    assert _alike(baseline(1, sessions=sessions, second=second), z, z == z)[1] == 0.0
    assert _mean_of(numpy.array([[1.0, NAN, 2.0], [NAN, NAN, NAN]])) == approx([1.5, 0.0])


@each_row(('phi', 'n'), [(0.0, 4), (0.5, 1), (0.5, 4), (0.3, 7)])
def test_the_error_of_a_mean_of_correlated_sessions(phi, n):
    expected_of = sum(phi ** abs(i - j) for i in range(n) for j in range(n)) / n**2
    assert error_of_mean(phi, numpy.array([float(n)])) == approx([expected_of])


# Nodes and groups


def pool(case, cases, before=None, node=None):
    before = numpy.full((cases, 0), -1) if before is None else numpy.array(before)
    return nodes.Pool(numpy.array(case), cases, numpy.array(node or [-1] * cases), before, numpy.arange(cases))


def test_the_loss_of_a_node_is_weighted_by_precision():
    """Variances 0.01 and 0.04 weigh 100 and 25: (100 x 0.1 + 25 x 0.2 + 100 x 0.3) / 225 = 0.2."""
    losses = numpy.array([[0.1, 0.2], [0.3, NAN]])
    # squares 100 x 0.01 + 0 + 100 x 0.01 = 2 of two degrees of freedom: a spread of 1
    half = 1.96 / 15
    assert nodes._size(numpy.array([0.01, 0.04]), losses) == approx([0.2, 0.2 - half, 0.2 + half])
    # squares of 20 times as far: 400 times the variance
    wide = nodes._size(numpy.array([0.01, 0.04]), numpy.array([[-1.8, 0.2], [2.2, NAN]]))
    assert wide == approx([0.2, 0.2 - 20 * half, 0.2 + 20 * half])
    assert nodes._size(numpy.array([0.01]), numpy.array([[0.5]])) == approx([0.5, 0.5 - 0.196, 0.5 + 0.196])


def test_what_the_cases_measured_and_what_each_node_usually_differs():
    values = numpy.array([[1.0, NAN], [3.0, NAN], [5.0, 6.0]])
    assert nodes._by_case(pool([0, 0, 1], 3), values) == approx([[2.0, NAN], [5.0, 6.0], [NAN, NAN]])
    rest = numpy.array([[0.3, -0.1, NAN], [0.1, -0.3, 0.2]])
    of = pool([0, 1], 2, before=[[4, 7, 4], [4, 7, -1]])
    # nodes 4 and 7: means 0.2 and -0.2 of two values each; variance 0.02: between 0.04 - 0.01, weight 0.03 / 0.04
    found = nodes._offsets(of, rest, 0.02)
    assert found.keys() == {4, 7}
    assert found[4] == approx([0.15, 0.03 * 0.25]) and found[7] == approx([-0.15, 0.03 * 0.25])
    assert nodes._offsets(of, rest[:, :2], 0.02) == {} and nodes._offsets(pool([0], 1, [[-1]]), rest[:1, :1], 1.0) == {}
    assert pool([0], 4, node=[2, -1, 2, 3]).nodes == 2


def decided(jobs, level=0.001, centre=None, size=None):
    of = baseline(len(jobs), sessions=numpy.full((len(jobs), 3), NAN if centre is None else centre))
    return groups._decide(
        expected(of, rho=0.2), numpy.array(jobs), numpy.arange(len(jobs)), size or len(jobs), (0.5, 6, 0.1), level
    )


def test_a_group_is_decided_by_further_jobs_of_more_than_half_of_its_series():
    """Cuts at two standard deviations of 0.1; the first column is the first job, which does not decide."""
    assert decided([[0.0, 0.0, NAN, NAN, NAN]] * 4) == 2
    assert decided([[0.0, 0.0, 0.0, NAN, NAN]] * 4) is None
    half = [[0.0, -0.2, -0.2, NAN, NAN], [0.0, NAN, NAN, NAN, NAN]]
    assert decided(half) == 2 and decided([*half, half[0]]) != 2
    # of two jobs of 1 and 2 deviations: squares 0.5 / 0.8, error of (6 x 0.5 + 0.625) / 7 x (0.2 + 0.8 / 2 + 0.1)
    for values, mean, variance, size in (
        ([0.0, -0.3, -0.3], 2.0, 3 / 7, 3), ([0.0, -0.1, -0.3], 1.5, 3.625 / 7, 3),
        # of three series of six, 0.8 x (1 / 3 - 1 / 6) more
        ([0.0, -0.3, -0.3], 2.0, 6 * (0.5 + 0.8 / 6) / 7, 6),
    ):  # fmt: skip
        error = math.sqrt(variance * 0.7)
        z = normal_of(mean / error, 7)
        width = math.sqrt(7 * math.expm1((1.96 * 59 / 57) ** 2 / 7)) * error
        assert decided([values] * 3, stats.norm.sf(z) * 1.01, size=size) == (approx(stats.norm.sf(z)), approx(width))
        assert decided([values] * 3, stats.norm.sf(z) * 0.99, size=size) == 4
    # a baseline whose sessions are as low themselves: no loss
    assert decided([[0.0, -0.3, -0.3]] * 3, level=0.4, centre=-0.2) is None


# Spreads


@each_row(('values', 'axis', 'better', 'found'), [
    ([[1.0, 5.0], [3.0, 6.0], [2.0, 9.0]], 0, False, [2.0, 6.0]),
    ([[1.0, NAN], [3.0, 6.0], [2.0, 9.0], [8.0, NAN]], 0, False, [2.5, 7.5]),
    ([[1.0, NAN], [3.0, 6.0], [2.0, 9.0], [8.0, NAN]], 0, True, [3.0, 9.0]),
    ([[1.0, 4.0, 2.0], [NAN, NAN, NAN], [3.0, NAN, 5.0]], 1, False, [2.0, NAN, 4.0]),
    ([[1.0, 4.0, 2.0], [NAN, NAN, NAN], [3.0, NAN, 5.0]], 1, True, [2.0, NAN, 5.0]),
    ([[], []], 1, False, [NAN, NAN]),
])  # fmt: skip
def test_a_median_is_of_the_values_that_there_are(values, axis, better, found):
    assert spread.median(numpy.array(values), axis, better) == approx(found)


def test_the_spread_of_few_values_is_their_median_deviation():
    values = numpy.array([1.0, 2.0, 3.0, 4.0, 7.0])  # deviations 2, 1, 0, 1, 4: median 1
    scale, df = spread.scale_of(values)
    assert (scale, df) == (approx(1 / 0.6744898), 1)  # 0.37 x 5 - 1 is below 1
    # 0.37 x 15 - 1 = 4.55; deviations of -7 to 7: the median of their sizes is 4
    scale, df = spread.scale_of(numpy.arange(15.0))
    assert (scale, df) == (approx(4 / 0.6744898), approx(4.55))
    low = -stats.t.ppf(0.01, 4.55) * 4 / 0.6744898
    assert spread.bound_of(numpy.arange(15.0), 0.01, None) == approx(low)
    for floor, least in ((0.02, -math.log(0.85)), (0.3, -math.log(0.7))):
        assert spread.bound_of(numpy.full(15, 5.0), 0.01, Tolerance(floor, 1.0, 0.01)) == approx(least)
    assert spread.bound_of(numpy.full(16, 5.0), 0.01, Tolerance(0.02, 1.0, 0.01)) == approx(-math.log(0.98))


def test_the_tails_of_many_values_come_from_their_better_half():
    """41 values from -20 to 20: of 0 to 20 the median is 10, the 90 % quantile 18: a ratio of 1.8, no heavy tail."""
    scale, df = spread.scale_of(numpy.arange(-20.0, 21.0))
    freedom = 1 / (1 / (0.37 * 41 - 1) + 0.15)
    assert (scale, df) == (approx(10 / stats.t.ppf(0.75, freedom)), approx(freedom))
    heavy = numpy.concatenate([numpy.arange(-20.0, 18.0), [60.0, 60.0, 60.0]])
    # of 0 to 17 and three of 60 the median is 10, the 90 % quantile 60 where three of 21 lie above: a ratio of 6
    scale, df = spread.scale_of(heavy)
    share = 0.5 + 0.5 * (6 - 3.58) / (6.31 - 3.58)
    freedom = 1 / (1 / (0.37 * 41 - 1) + share)
    assert df == approx(max(freedom, 1)) and scale == approx(10 / stats.t.ppf(0.75, max(freedom, 1)))


@each_row(('accepted', 'stop'), [([[0, 0], [0, 0]], 0), ([[1, 0, 0], [0, 1, 0]], 2), ([[0, 0, 1]], 3)])
def test_columns_count_up_to_the_last_accepted_one(accepted, stop):
    assert spread.until_last(numpy.array(accepted, bool)) == slice(0, stop)


def test_a_value_that_fell_is_no_level_to_keep():
    """Six sessions at 0 and four at -0.1: all after the sixth; a fall below the floor is none."""
    left = numpy.array([[0.001, -0.001] * 3 + [-0.1] * 4, [0.001, -0.001] * 5])
    found = spread.after_fall(left, numpy.ones(left.shape, bool), 0.05)
    assert found.tolist() == [[False] * 6 + [True] * 4, [False] * 10]
    assert not spread.after_fall(left, numpy.ones(left.shape, bool), 0.11).any()
    assert not spread.after_fall(left[:, :5], numpy.ones((2, 5), bool), 0.0).any()
    # at least four values before the fall and two after it
    short = numpy.array([[0.001, -0.001, 0.001, -0.001, -0.1, -0.1]])
    assert spread.after_fall(short, numpy.ones((1, 6), bool), 0.05).tolist() == [[False] * 4 + [True] * 2]


# Distributions


def test_outliers_are_dropped_unless_they_are_a_second_level():
    near = [1.0, 1.1, 0.9, 1.05, 0.95]
    assert inliers(numpy.array([*near, 9.0])).tolist() == [True] * 5 + [False]
    assert inliers(numpy.array([*near, 9.0, NAN])).tolist() == [True] * 5 + [False, False]
    assert inliers(numpy.array([*near, 9.0, 9.1])).all()  # two of seven
    assert inliers(numpy.array([1.0] * 5 + [9.0])).all()  # no spread: nothing is far
    # four scaled median deviations: the median of |0.1, ...| is 0.1 / 0.67449 x 4 = 0.593
    for far, inside in ((0.59, True), (0.6, False)):
        assert inliers(numpy.array([-0.1, 0.1, -0.1, 0.1, 0.0, 0.0, -0.1, 0.1, far])).tolist()[-1] is inside


def test_the_scatter_counts_from_15_percent_on_and_only_where_the_better_half_shows_it():
    normal = stats.norm.ppf((numpy.arange(1000) + 0.5) / 1000)
    assert scatter(normal) == 1.0 and scatter(1.14 * normal) == 1.0
    assert scatter(1.3 * normal) == pytest.approx(1.3, abs=0.005)
    assert scatter(numpy.where(normal < 0, 5 * normal, normal)) == 1.0
    assert [upper(p) for p in (0.5, 0.9, 0.025)] == [approx(0.0), approx(0.0), approx(stats.norm.isf(0.025))]

# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the statistics on a few numbers, beside the same computed by hand or by loops over single values."""

import math

import numpy
import pytest
from baselines import baseline
from rows import each_row
from scipy import stats

from postprocess.statistics.baseline import _alike, _mean_of, error_of_mean
from postprocess.statistics.distributions import inliers, scatter, spread_around_median, upper

NAN = math.nan


def approx(values):
    return pytest.approx(numpy.asarray(values, float), nan_ok=True, rel=1e-9, abs=1e-12)


def test_jobs_of_one_night_are_as_alike_as_their_pairs_show():
    """Pairs (1, 0.5) and (-2, 1): the products -1.5 and the squares 5, beside 0.3 worth 20 pairs: (6 - 1.5) / 25."""
    of = baseline(1, sessions=numpy.array([[0.1, -0.2, 0.3]]), second=numpy.array([[0.05, 0.1, NAN]]))
    z = of.deviations(of.sessions)
    jobs = numpy.full((1, 4, 3), NAN)
    jobs[0, :, 0] = -0.2, 0.1, NAN, -0.3  # tonight last, which says nothing
    assert _alike(of, z, numpy.isfinite(z), jobs) == approx(4.5 / 25)
    jobs[0, 0, 1:] = -0.05, -0.15  # -1 beside the level 1 of the next session: the pair (-2, -2)
    assert _alike(of, z, numpy.isfinite(z), jobs) == approx((4.5 + 4) / (25 + 4))
    jobs[0, 1:] = -0.2  # the loss lasts: level -2, pairs (-2, 1) and (-2, 0)
    assert _alike(of, z, numpy.isfinite(z), jobs) == approx((4.5 - 2) / (25 + 2 * 4))
    jobs[0, 0] = -0.31  # a fault
    jobs[0, 1:, 1:] = NAN
    assert _alike(of, z, numpy.isfinite(z), jobs) == approx(4.5 / 25)
    assert _mean_of(numpy.array([[1.0, NAN, 2.0], [NAN, NAN, NAN]])) == approx([1.5, 0.0])


@each_row(('phi', 'n'), [(0.0, 4), (0.5, 1), (0.5, 4), (0.3, 7)])
def test_the_error_of_a_mean_of_correlated_sessions(phi, n):
    expected_of = sum(phi ** abs(i - j) for i in range(n) for j in range(n)) / n**2
    assert error_of_mean(phi, numpy.array([float(n)])) == approx([expected_of])


# Spreads


def test_the_spread_of_few_values_is_their_median_deviation():
    values = numpy.array([1.0, 2.0, 3.0, 4.0, 7.0])  # deviations 2, 1, 0, 1, 4: median 1
    scale, df = spread_around_median(values)
    assert (scale, df) == (approx(1 / 0.6744898), 1)  # 0.37 x 5 - 1 is below 1
    # 0.37 x 15 - 1 = 4.55; deviations of -7 to 7: the median of their sizes is 4
    scale, df = spread_around_median(numpy.arange(15.0))
    assert (scale, df) == (approx(4 / 0.6744898), approx(4.55))


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

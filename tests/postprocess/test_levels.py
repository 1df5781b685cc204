# SPDX-License-Identifier: BSD-3-Clause
"""The level and the spread of a series, on noise whose truth is known; seeded."""

import numpy
import pytest
from rows import each_row
from scipy import stats

from postprocess.statistics.levels import Values, estimate


def skewed(rng, shape):
    return -(rng.standard_gamma(4, shape) - 4) / 2


def slow(rng, shape):
    """One night of twenty is slow."""
    return rng.standard_normal(shape) - (rng.random(shape) < 0.05) * rng.uniform(3, 10, shape)


def site(x, cv, **facts):
    nights = numpy.arange(x.shape[1])
    return [Values(numpy.exp(row), nights, **facts) for row in cv[:, None] * x]


def cvs(rng, n):
    return 0.01 * numpy.exp(numpy.log(2) * rng.standard_normal(n))


def test_dropped_outliers_do_not_narrow_the_interval():
    """Of normal noise the next value is beyond the 99 % interval in 1 %, also where values were dropped by chance."""
    rng, nights = numpy.random.default_rng(10), 10
    cv, beyond = cvs(rng, 4000), []
    x = rng.standard_normal((4000, nights + 1))
    for of, level, sd, row in zip(site(x[:, :nights], cv), estimate(site(x[:, :nights], cv)), cv, x, strict=True):
        used = numpy.log(of.values[level.used])
        t = (used.mean() - sd * row[-1]) / numpy.sqrt(level.variance * (1 + 1 / len(used)))
        beyond.append((level.dropped > 0, stats.t.sf(t, level.df) < 0.01))
    dropped, beyond = numpy.array(beyond).T
    assert 0.04 < dropped.mean() < 0.15
    assert beyond.mean() == pytest.approx(0.01, abs=0.005)
    assert beyond[dropped].mean() < 0.03  # without a correction 3 to 10 %


@each_row('noise', [skewed, slow])
def test_one_level_is_hardly_ever_called_two(noise):
    rng = numpy.random.default_rng(5)
    found, cv = 0, numpy.full(1000, 0.03)
    for nights in (5, 8, 20):
        found += sum(bool(level.levels) for level in estimate(site(noise(rng, (1000, nights)), cv)))
    assert found <= 3  # of 3000


@each_row('nights', [8, 30])
def test_two_levels_are_told_apart(nights):
    rng = numpy.random.default_rng(7)
    x = rng.standard_normal((200, nights))
    low = rng.random((200, nights)) < 0.5
    cv = numpy.full(200, 0.01)
    levels = estimate(site(x - 30 * low, cv))
    enough = (low.sum(axis=1) > 1) & (low.sum(axis=1) < nights - 1)
    found = numpy.array([bool(level.levels) for level in levels])
    assert found[enough].mean() > 0.95 and not found[~enough].any()
    for level, lows in zip(levels, low, strict=True):
        if level.levels:
            assert (level.used == lows).all()
            assert level.levels[0] == (pytest.approx(0.74, abs=0.02), lows.sum())
            assert numpy.sqrt(level.variance) < 0.03


def test_rounded_values_are_no_two_levels():
    steps = numpy.array([0.17, 0.18, 0.17, 0.17, 0.18, 0.18, 0.17, 0.18])  # a latency with two digits
    (level,) = estimate([Values(steps, numpy.arange(8), sign=-1, usual=0.03, floor=0.05)])
    assert not level.levels and level.used.all() and level.variance > 0


def test_the_session_of_a_lasting_change_is_named():
    values = numpy.array([100, 101, 100.5, 80, 80.2, 80.1])
    (level,) = estimate([Values(values, numpy.array([2, 3, 5, 7, 8, 9]))])
    assert (len(level.levels), level.switched) == (2, 7)


def test_nodes_of_a_session_are_one_value_of_it():
    values = numpy.array([100.0, 60, 101, 61, 99, 59, 100, 60, 100.5, 60.5])  # a fast and a slow node
    (level,) = estimate([Values(values, numpy.repeat(numpy.arange(5), 2))])
    assert not level.levels and level.used.all() and level.df == pytest.approx(8)


def test_further_jobs_of_one_session_show_what_is_usual_on_this_machine():
    """30 series vary by 10 % where their checks say 2 %, and 30 by 1 %; jobs of a session share 0.3 of the variance."""
    rng = numpy.random.default_rng(3)
    cv = numpy.repeat([0.1, 0.01], 30)
    common = numpy.sqrt(0.3) * rng.standard_normal((60, 1))
    jobs = common + numpy.sqrt(0.7) * rng.standard_normal((60, 6))
    values = numpy.exp(cv[:, None] * jobs)
    levels = estimate([Values(row[:1], numpy.zeros(1, int), looks={0: row[1:]}) for row in values])
    usual = numpy.array([level.usual for level in levels])
    assert numpy.median(usual[:30]) == pytest.approx(0.1, rel=0.25)
    assert (usual[30:] >= 0.02).all() and numpy.median(usual[30:]) == 0.02, 'minutes never say less than the check'
    assert all(level.variance is None for level in levels), 'how much sessions differ, one does not show'


def test_the_worse_of_two_levels_within_one_session_counts():
    jobs = numpy.array([120.1, 95.0, 119.8, 95.2, 120.0, 94.9, 119.9, 95.1])
    (high,) = estimate([Values(jobs[:1], numpy.zeros(1, int), looks={0: jobs[1:]})])
    assert high.levels == ((pytest.approx(95.05, abs=0.1), 4), (pytest.approx(119.95, abs=0.1), 4))
    assert high.worse == pytest.approx([95.05], abs=0.1), 'although its first job was at the better one'
    assert high.usual == 0.02, 'not the distance between the levels'
    (low,) = estimate([Values(1 / jobs[:1], numpy.zeros(1, int), sign=-1, looks={0: 1 / jobs[1:]})])
    assert low.worse == pytest.approx([1 / 95.05], rel=1e-3)

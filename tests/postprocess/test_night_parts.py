# SPDX-License-Identifier: BSD-3-Clause
"""The tests of single series in a night, each method on its own, on a few numbers worked out by hand."""

import math

import numpy
import pytest
from rows import each_row

from postprocess.statistics.baseline import Baseline, Expected
from postprocess.statistics.groups import Groups, judge_groups
from postprocess.statistics.method import METHOD
from postprocess.statistics.night import ONE_CASE, _Night
from postprocess.statistics.nights import Looks, Nights, Stretch, Stretches
from postprocess.statistics.nodes import NodeJob, Pool, Slow

NAN = math.nan


def approx(values):
    return pytest.approx(numpy.asarray(values, float), nan_ok=True)


def baseline(m, n=5.0):
    """Of m series at 0 with a standard deviation of 0.1, a floor of 0.02 and a cap of 1."""
    return Baseline(
        mean=numpy.zeros(m), variance=numpy.full(m, 0.01), df=numpy.full(m, 4.0), n=numpy.full(m, n),
        prior=numpy.full(m, 0.04), assumed=numpy.zeros(m, bool), floor=numpy.full(m, 0.02), cap=numpy.ones(m),
        weight=numpy.ones(m), sessions=numpy.full((m, 5), NAN), second=numpy.full((m, 5), NAN),
    )  # fmt: skip


def night(m, of=None, tail=(), lasting=0.0, **facts):
    """A night of which only these facts are known; a first loss of 0.05 at 4 deviations where nothing else is said."""
    found = object.__new__(_Night)
    found.of = of or baseline(m)
    found.expected = Expected(found.of, 0.0, 0.0, numpy.zeros(m), numpy.array(tail), lasting)
    found.first_loss, found.z1 = numpy.full(m, 0.05), numpy.full(m, 4.0)
    found.red_at, found.lasting_at = numpy.full(m, 3.0), numpy.full(m, 3.0)
    found.is_large, found.asked, found.tonight = numpy.zeros(m, bool), numpy.ones(m, bool), numpy.zeros(m, bool)
    found.last, found.waits, found.early = numpy.full(m, -1), numpy.zeros(m, int), []
    found.pool = Pool(numpy.arange(m), m, numpy.full(m, -1), numpy.full((m, 0), -1), numpy.arange(m))
    found.slow = Slow()
    vars(found).update({name: numpy.array(of) if isinstance(of, list) else of for name, of in facts.items()})
    return found


def shown(*series):
    """The looks at 1, 2, 4, 8 further jobs; each series has for those that ran its z and loss."""
    there, z, loss = numpy.zeros((4, len(series)), bool), numpy.zeros((4, len(series))), numpy.zeros((4, len(series)))
    for i, of in enumerate(series):
        for place, (deviate, lost) in enumerate(of):
            there[place, i], z[place, i], loss[place, i] = True, deviate, lost
    ones = numpy.ones((4, len(series)))
    return Looks(there, z, loss, 0.1 * ones, 4 * ones, 0 * ones)


def stretch(*z, loss=0.1):
    m = len(z)
    return Stretch(numpy.array(z), numpy.full(m, loss), numpy.full(m, 0.1), numpy.full(m, 4.0))


def test_what_raises_a_doubt():
    """0.015 is three quarters of the floor."""
    of = night(2, first_loss=[0.016, 0.014])
    assert of._doubt(numpy.array([2.0, 2.0])) == approx([2, -math.inf])
    # a window counts 0.3 less, while tonight is beyond 0.5
    of = night(3, first_loss=[0.016, 0.014, 0.014], z1=[0.51, 0.51, 0.5], early=((2, stretch(3.0, 3.0, 3.0)),))
    assert of._doubt(numpy.array([2.0, 2.0, 2.0])) == approx([2.7, 2.7, -math.inf])
    # a large loss is in doubt by 3 at least
    of = night(3, first_loss=[1.1, 0.9, 0.9], is_large=[False, True, False])
    assert of._doubt(numpy.array([1.0, 1.0, 4.0])) == approx([3, 3, 4])
    of = night(2)
    of.of.weight[:] = 0.5
    assert of._doubt(numpy.array([2.0, 1.0])) == approx([math.sqrt(4 + 2 * math.log(0.5)), 0])


@each_row(('z1', 'first_loss', 'large', 'tail', 'lasting', 'strong'), [
    (5.1, 0.1, False, (), 0.0, True), (4.9, 0.1, False, (), 0.0, False), (4.9, 0.1, True, (), 0.0, True),
    (0.0, 1.1, False, (), 0.0, True), (0.0, 0.9, False, (), 0.0, False),
    # beyond the worst session of all by 1, or by 1.2 times where slow sessions last
    (9.1, 0.1, False, (8.0,), 0.0, True), (8.9, 0.1, False, (8.0,), 0.0, False),
    (10.7, 0.1, False, (8.0,), 0.1, True), (10.5, 0.1, False, (8.0,), 0.1, False),
])  # fmt: skip
def test_a_loss_beyond_all_others_needs_no_budget(z1, first_loss, large, tail, lasting, strong):
    every = [*[0.0] * 199, *tail] if tail else ()
    of = night(1, tail=every, lasting=lasting, z1=[z1], first_loss=[first_loss], is_large=[large])
    assert of.strong.tolist() == [strong]


def test_the_smallest_budget_lets_one_case_run_the_four_jobs_that_decide():
    """A night may run 1.4 times its budget."""
    assert approx(4.0) == 1.4 * ONE_CASE


def test_the_surest_loss_of_a_case_is_that_of_its_last_look():
    of = night(4, last=[0, -1, 1, 0], asked=[True, True, True, False])
    of.pool = Pool(numpy.array([0, 0, 1, 2]), 4, *[numpy.full(4, -1)] * 2, numpy.arange(4))
    of.looks = shown([(2.0, 0.1)], [(9.0, 0.1)], [(1.0, 0.1), (-3.0, 0.1)], [(4.0, 0.1)])
    assert of.surest == approx([2, -3, -math.inf, -math.inf])


GOES_ON = [(2.0, 0.5)] * 2


@each_row(('looks', 'n', 'together', 'sure', 'waits', 'last'), [
    # red at 3 deviations and 0.015, from four jobs on
    ([*GOES_ON, (3.1, 0.016)], 5, False, True, 0, 2), ([*GOES_ON, (3.1, 0.014)], 5, False, False, 8, 2),
    ([*GOES_ON, (2.9, 0.1)], 5, False, False, 8, 2), ([(3.5, 0.1), (3.5, 0.1)], 5, False, False, 4, 1),
    ([(3.5, 0.1)], 5, False, False, 2, 0), ([], 5, False, False, 1, -1),
    # eight jobs decide with the first ones, too
    ([*GOES_ON, (2.9, 0.1), (2.9, 0.1)], 5, True, True, 0, 3), ([*GOES_ON, (2.9, 0.1)], 5, True, False, 8, 2),
    ([*GOES_ON, (2.9, 0.1), (2.9, 0.014)], 5, True, False, 0, 3),
    ([*GOES_ON, (2.9, 0.1), (2.9, 0.1)], 5, False, False, 0, 3),
    # 1.2816 goes on, and 0.4 of the floor
    ([(1.29, 0.1)], 5, False, False, 2, 0), ([(1.27, 0.1)], 5, False, False, 0, 0),
    ([(2.0, 0.0081)], 5, False, False, 2, 0), ([(2.0, 0.0079)], 5, False, False, 0, 0),
    # beyond the cap one job is enough
    ([(0.0, 1.1)], 5, False, True, 0, 0), ([(0.0, 0.9)], 5, False, False, 0, 0),
    # against few sessions 7 deviations of 0.1 and a chance of 0.01, which is 2.326
    ([*GOES_ON, (2.4, 0.71)], 4, False, True, 0, 2), ([*GOES_ON, (2.4, 0.71)], 5, False, False, 8, 2),
    ([*GOES_ON, (2.4, 0.69)], 4, False, False, 8, 2), ([*GOES_ON, (2.3, 0.71)], 4, False, False, 8, 2),
])  # fmt: skip
def test_further_jobs_decide_step_by_step(looks, n, together, sure, waits, last):
    of = night(1, baseline(1, n))
    of._with_what_asked = lambda shown, asked: numpy.array([together])
    assert [part.tolist() for part in of._decide(shown(looks), numpy.array([True]))] == [[sure], [waits], [last]]
    assert [part.tolist() for part in of._decide(shown(looks), numpy.array([False]))] == [[False], [0], [-1]]


@each_row(('z1', 'loss', 'waits', 'last', 'further', 'worst', 'lost'), [
    # chances 0.00135 and 0.00187, twice that of two series: red below 0.0135 / 4 = 0.0034
    (3.0, 0.05, 1, -1, 0.0, None, True), (2.9, 0.05, 1, -1, 0.0, None, False), (6.0, 0.05, 0, -1, 0.0, None, False),
    (6.0, 0.014, 1, -1, 0.0, None, False), (6.0, 0.016, 1, -1, 0.0, None, True),
    # a further job that contradicts
    (6.0, 0.05, 2, 0, 1.27, None, False), (6.0, 0.05, 2, 0, 1.29, None, True),
    (0.0, 1.1, 1, -1, 0.0, None, True), (0.0, 0.9, 1, -1, 0.0, None, False),
    # one deviation beyond the worst session
    (4.1, 0.05, 1, -1, 0.0, 3.0, True), (3.9, 0.05, 1, -1, 0.0, 3.0, False),
])  # fmt: skip
def test_a_first_job_alone_is_red_where_it_is_beyond_all(z1, loss, waits, last, further, worst, lost):
    tail = () if worst is None else [*[0.0] * 199, worst]
    of = night(2, tail=tail, z1=[z1, 0.0], first_loss=[loss, 0.0], waits=[waits, 1], last=[last, -1])
    of.looks = shown([(further, 0.1)], [])
    assert of._alone().tolist() == [lost, False]
    of.asked = numpy.array([False, True])
    assert not of._alone().any()


@each_row(('z1', 'lasting', 'lost', 'window', 'z'), [
    # tonight must be beyond 0.842; where slow sessions last, windows count from four on
    (0.85, 0.0, [True, True, False], [2, 5, 0], [3.1, 4.0, -math.inf]), (0.84, 0.0, [False] * 3, [0] * 3, None),
    (0.85, 0.1, [True, True, False], [5, 5, 0], [5.0, 4.0, -math.inf]),
])  # fmt: skip
def test_the_shortest_red_window_tells_a_lasting_loss(z1, lasting, lost, window, z):
    of = night(3, lasting=lasting, z1=[z1] * 3)
    windows = [(2, stretch(3.1, 2.9, 2.9)), (5, stretch(5.0, 4.0, 2.9)), (8, stretch(9.0, 9.0, 3.0))]
    found, length, best = of._lasting(windows)
    assert (found.tolist(), length.tolist()) == (lost, window)
    assert best.z == approx(z or [-math.inf] * 3)


@each_row(('sessions', 'lasting', 'lost_before', 'loss', 'agreed'), [
    (1, 0.0, [], 0.05, True), (1, 0.05, [], 0.05, False), (2, 0.05, [True], 0.05, True),
    (2, 0.05, [False], 0.05, False),
    # ln(0.0135) / ln(0.2) = 2.7: three sessions, and as many for a larger share
    (3, 0.15, [True, True], 0.05, True), (2, 0.15, [True], 0.05, False), (3, 0.15, [True, False], 0.05, False),
    (3, 0.9, [True, True], 0.05, True),
    # 1.2 times the worst session of 3 deviations of 0.1
    (1, 0.05, [], 0.37, True), (1, 0.05, [], 0.35, False),
])  # fmt: skip
def test_several_sessions_confirm_a_loss_where_slow_ones_last(sessions, lasting, lost_before, loss, agreed):
    of = night(1, tail=[*[0.0] * 199, 3.0], lasting=lasting, first_loss=[loss])
    of.nights = Nights(numpy.zeros((1, sessions, 9)))
    answers = iter(lost_before)
    of._decide = lambda shown, asked: (numpy.array([next(answers)]),)
    assert of._agreed(numpy.array([True])).tolist() == [agreed]


def on_node(values, **facts):
    """Two series in cases on nodes 3 and 4; `values` of further jobs of the first case on node 3."""
    known = {'last': [0, 0], 'z1': [4.0, 4.0], 'red_at': [2.0, 2.0]}
    of = night(2, **known | facts)
    jobs = [NodeJob(node, case, numpy.array([value, NAN])) for node, case, value in values]
    of.pool = Pool(numpy.arange(2), 2, numpy.array([3, 4]), numpy.full((2, 0), -1), numpy.arange(2), jobs)
    lost, loss, wants = of._on_its_node(of.pool.node)
    return lost.tolist(), loss[0], wants.tolist()


def test_two_jobs_on_its_own_node_decide_on_a_series_that_others_cleared():
    """0.5 is 5 deviations of 0.1: 2.65 as a normal deviate with 4 degrees of freedom."""
    assert on_node([])[2] == [2, 2] and on_node([(3, 0, -0.5)])[2] == [1, 2]
    lost, loss, wants = on_node([(3, 0, -0.5), (3, 0, -0.7)])
    assert (lost, wants) == ([True, False], [0, 2]) and loss == approx(0.6)
    # each of both must be red, and jobs on other nodes do not count
    assert on_node([(3, 0, -0.5), (3, 0, -0.1)])[0] == [False, False]
    assert on_node([(4, 0, -0.5), (3, 0, -0.5)])[2] == [1, 2]
    for other in (
        {'asked': [False, False]}, {'z1': [1.9, 1.9]}, {'last': [-1, -1]}, {'waits': [1, 1]}, {'tonight': [True, True]},
    ):  # fmt: skip
        assert on_node([], **other)[2] == [0, 0], other


@each_row(('z1', 'loss', 'red', 'better'), [
    (-3.1, -0.021, False, True), (-3.1, -0.019, False, False), (-2.9, -0.021, False, False),
    (-3.1, -0.021, True, False),
    (3.1, -0.021, False, False), (-3.1, 0.021, False, False),
])  # fmt: skip
def test_a_gain_of_one_night(z1, loss, red, better):
    of = night(1, z1=[z1], first_loss=[loss], red=[red])
    of.nights = Nights(numpy.zeros((1, 1, 9)))
    assert of.improved().tolist() == [better]


def test_a_gain_of_a_window():
    """Two sessions that are 0.2 better: both windows of two sessions and their direction count."""
    for value, at, better in ((0.2, 0.99, True), (0.2, 1.01, False), (-0.2, 0.99, False), (0.019, 0.01, False)):
        of = night(1, z1=[0.0], first_loss=[0.0], red=[False])
        of.nights = Nights(numpy.full((1, 2, 1), value))
        z = -Stretches(of.expected, of.nights).of(0, 2).z
        of.lasting_at = abs(z) * at
        assert of.improved().tolist() == [better], (value, at)


@each_row(('loss', 'order', 'wanted'), [
    # two deviations of sqrt(0.5 + 0.5 / 12) are 1.9 as a normal deviate, more than 1.55; one is 1.1
    (0.2, range(6), {0, 1, 2, 3}), (0.2, range(5, -1, -1), {2, 3, 4, 5}), (0.1, range(6), set()),
])  # fmt: skip
def test_a_group_in_doubt_runs_four_of_its_cases(loss, order, wanted):
    jobs = numpy.full((12, 1, 9), NAN)
    jobs[..., 0] = -loss
    expected = Expected(baseline(12), 0.0, 0.0, numpy.zeros(12), numpy.array(()), 0.0)
    found = judge_groups(
        expected, Groups(['check'], [numpy.arange(12)]), jobs, numpy.arange(12) // 2, numpy.zeros(12, bool),
        numpy.array(order),
    )  # fmt: skip
    assert found.wanted == dict.fromkeys(wanted, 2) and not found.red and METHOD.group[1] == 4


def test_no_group_tells_nothing():
    expected = Expected(baseline(1), 0.0, 0.0, numpy.zeros(1), numpy.array(()), 0.0)
    found = judge_groups(expected, Groups(), numpy.zeros((1, 1, 9)), numpy.zeros(1, int), numpy.zeros(1, bool), None)
    assert (found.red, found.wanted) == ([], {})

# SPDX-License-Identifier: BSD-3-Clause
"""The answer of a session for many series: first jobs ask, further jobs decide."""

import math
from dataclasses import replace

import numpy
import pytest
from scratch import ROOT

from postprocess.statistics.baseline import Baseline, expect
from postprocess.statistics.further import Budget
from postprocess.statistics.groups import Groups
from postprocess.statistics.method import METHOD
from postprocess.statistics.night import judge
from postprocess.statistics.pool import NodeJob, Pool
from postprocess.statistics.usual import beyond_usual

M, CASES = 40, 5  # series in cases of 8
CASE = numpy.arange(M) // 8


def baseline(m=M, n=10, cv=0.01, df=9.0, sessions=None, second=None):
    nothing = numpy.full((m, n), math.nan)
    return Baseline(
        mean=numpy.zeros(m), variance=numpy.full(m, cv**2), df=numpy.full(m, df), n=numpy.full(m, float(n)),
        prior=numpy.full(m, 0.02**2), assumed=numpy.full(m, n == 1), floor=numpy.full(m, 0.0202),
        cap=numpy.full(m, 1.386), weight=numpy.ones(m), sessions=nothing if sessions is None else sessions,
        second=nothing if second is None else second,
    )  # fmt: skip


def pool(m=M, ran=(), jobs=()):
    """`ran`: (night, case, job, node) of each node of each job; without any, no node is known."""
    cases = -(-m // 8)
    of = numpy.array(ran, int).reshape(-1, 4)
    return Pool(numpy.arange(m) // 8, cases, of, numpy.arange(cases), numpy.arange(cases), jobs)


def nights(*values, m=M, seed=1):
    """Jobs of `m` healthy series for as many sessions as `values`; the first series has those values, job by job."""
    jobs = numpy.full((m, len(values), 9), math.nan)
    jobs[:, :, 0] = 0.004 * numpy.random.default_rng(seed).standard_normal((m, len(values)))  # never in doubt
    for night, of_night in enumerate(values):
        jobs[0, night, :] = math.nan
        jobs[0, night, : len(of_night)] = of_night
    return jobs


def answer(*values, budget=20.0, of=None, **more):
    return judge(of or baseline(), nights(*values, **more), pool(), None, Budget(budget, budget))


def noisy(loss, jobs):
    """So many jobs about a loss, 0.5 % apart."""
    return [-loss + 0.005 * (job % 3 - 1) for job in range(jobs)]


def test_a_large_loss_in_the_only_job_is_red_and_runs_again_and_a_healthy_further_job_clears_it():
    found = answer([-0.5])
    assert found.red[0] and not found.red[1:].any()
    assert [(more.case, more.jobs) for more in found.more] == [(0, 1)]
    found = answer([-0.5, 0.0])
    assert not found.red.any() and not found.more


@pytest.mark.parametrize(('n', 'tail', 'is_red'), [(10, False, True), (3, True, True), (3, False, False)])
def test_a_first_job_alone_decides_only_where_something_tells_how_far_single_jobs_are(n, tail, is_red):
    """The series' own sessions, or many sessions of the others."""
    sessions = 0.01 * numpy.random.default_rng(3).standard_normal((M, 30)) if tail else None
    known = baseline(n=30 if tail else n, df=20.0, sessions=sessions)
    known = replace(known, n=numpy.where(numpy.arange(M) > 0, known.n, n))
    assert answer([-0.3], of=known, budget=0.0).red[0] == is_red


@pytest.mark.parametrize(('loss', 'n', 'is_large'), [(0.4, 3, True), (0.3, 3, False), (0.4, 6, False)])
def test_a_loss_of_28_percent_and_7_standard_deviations_needs_no_budget_where_the_baseline_is_short(loss, n, is_large):
    """1.5 degrees of freedom leave a healthy job and four further ones a chance of 3 and 0.4 % to be so low."""
    short = baseline(n=n, df=1.5, cv=0.04)
    assert bool(answer([-loss], of=short, budget=0.5).more) == is_large
    further = [-loss + scatter for scatter in (-0.1, 0.1, 0.05, -0.05)]
    assert answer([-loss, *further], of=short, budget=0.5).red[0] == is_large
    assert not answer([-loss, *further[:2]], of=short, budget=0.5).red[0], 'two do not decide'


def test_further_jobs_run_in_steps_of_1_2_4_and_8_and_confirm_a_loss_whose_size_is_theirs_alone():
    for ran, wanted in ((1, 1), (2, 2), (4, 4)):
        found = answer([-0.04, *noisy(0.03, ran)])
        assert [(more.case, more.jobs) for more in found.more] == [(0, wanted)]
    found = answer([-0.09, *noisy(0.05, 8)])
    assert found.red[0] and not found.more and found.window[0] == 1
    # the middle four of -0.055 (3), -0.05 (3), -0.045 (2); the first job was chosen for what it lost
    assert found.loss[0] == pytest.approx(0.05125)
    assert found.low[0] < 0.05 < found.high[0]


def in_doubt(loss):
    """One night on which one series of each of the five cases lost so much."""
    jobs = nights([0.0])
    jobs[:, 0, 0] = 0.0
    jobs[::8, 0, 0] = -loss
    return jobs


def test_small_doubts_use_half_of_the_budget_and_what_is_left_out_is_told():
    found = judge(baseline(), in_doubt(0.027), pool(), None, Budget(4.0, 40.0))  # a healthy case takes two in the mean
    assert len(found.more) == 2 and len(found.left_out) == 3
    assert all(loss == pytest.approx(0.027) for loss in found.left_out.values())


def test_large_doubts_use_all_of_the_budget_and_a_case_is_decided_before_the_next_begins():
    jobs = in_doubt(0.045)

    def asked():
        more = judge(baseline(), jobs, pool(), None, Budget(0.0, 16.0)).more
        return [(one.case, one.jobs) for one in more]

    assert asked() == [(0, 1), (1, 1)], 'eight jobs each'
    jobs[:16, 0, 1] = jobs[:16, 0, 0]
    assert asked() == [(0, 1), (1, 1)]
    jobs[:16, 0, 1] = 0.0  # cleared
    assert asked() == [(2, 1)]


def test_a_loss_beyond_all_that_the_baseline_holds_waits_for_no_budget():
    assert [more.case for more in answer([-0.2], budget=1.0).more] == [0]
    assert not answer([-0.033], budget=1.0).more
    assert not answer([-0.2], budget=0.0).more, 'a site that allows no further jobs'


@pytest.mark.parametrize(('share', 'cases', 'before', 'budget'), [
    (0.25, 40, [], (5.0, 60.0)),  # a first session may use those of six
    (0.25, 40, [10] * 6, (5.0, 10.0)), (0.25, 40, [30, 50], (5.0, -20.0)),
    (0.08, 5, [], (2.0, 8.0)), (0.08, 5, [8], (2.0, 0.0)), (0.0, 40, [], (0.0, 0.0)),  # one small doubt may be asked
])  # fmt: skip
def test_further_jobs_are_a_share_of_the_cases_over_the_last_sessions(share, cases, before, budget):
    assert Budget.of(share, cases, before) == pytest.approx(budget)


def test_a_repaired_fault_of_others_changes_no_p():
    quiet = numpy.full((M, 4, 9), math.nan)
    quiet[..., 0] = 0.005 * numpy.random.default_rng(2).standard_normal((M, 4))
    quiet[0, -1, :] = [-0.3, *noisy(0.3, 8)]
    fault = quiet.copy()
    fault[8:16, 1, :] = -0.1  # another case, two nights ago, all nine jobs
    before, after = (judge(baseline(), jobs, pool(), None, Budget(20.0, 20.0)) for jobs in (quiet, fault))
    assert before.red[0] and after.red[0]
    assert after.p[0] == before.p[0] and after.loss[0] == before.loss[0]


def test_a_loss_that_became_worse_is_told_as_it_is_since_then():
    found = answer([0.0], *[[-0.07]] * 6, *[[-0.75]] * 4, of=baseline(n=26, df=25.0))
    assert found.red[0] and found.window[0] <= 4
    assert found.loss[0] == pytest.approx(0.75) and found.low[0] < 0.75 < found.high[0]


def test_a_slow_loss_does_not_become_normal():
    found = answer(*[[0.002 * (night % 3 - 1) - 0.002 * night] for night in range(60)])
    assert found.red[0] and found.loss[0] > 0.1


def test_the_first_sessions_after_a_baseline_narrow_it_and_a_loss_among_them_does_not_move_it():
    jobs = nights(*[[0.002 * (night % 3 - 1)] for night in range(40)])
    before, after = (judge(baseline(n=3, df=4.0), jobs[:, -sessions:], pool()) for sessions in (14, 40))
    assert numpy.median(after.high - after.low) < 0.9 * numpy.median(before.high - before.low)
    lost = answer(*[[-0.05 + 0.002 * (night % 3 - 1)] for night in range(60)])
    assert lost.red[0] and lost.loss[0] == pytest.approx(0.05, abs=0.005)


def test_a_small_loss_that_lasts_is_found_without_further_jobs_and_told_over_its_sessions():
    """Sessions without a value are left out of them."""
    history = nights(*[[-0.03]] * 7)
    gaps = numpy.full((M, 14, 9), math.nan)
    gaps[:, 1::2] = history
    whole, with_gaps = (judge(baseline(), jobs, pool()) for jobs in (history, gaps))
    assert whole.red[0] and whole.window[0] > 1 and whole.loss[0] == pytest.approx(0.03, abs=0.004)
    assert (with_gaps.loss[0], with_gaps.window[0]) == (whole.loss[0], whole.window[0])
    found = answer(noisy(0.05, 9), [-0.052])
    assert found.red[0] and not found.more, 'it was found before'


def test_a_gain_that_lasts_is_an_improvement():
    found = answer(*[[0.05]] * 5)
    assert found.improved[0] and not found.red.any()


def test_points_of_a_curve_share_the_false_alarms_of_one_metric():
    jobs = nights([-0.028])
    alone = judge(baseline(), jobs, pool(), None, Budget(20.0, 20.0))
    weights = numpy.where(numpy.arange(M) < 8, 1 / 8, 1.0)
    of_curve = judge(replace(baseline(), weight=weights), jobs, pool(), None, Budget(20.0, 20.0))
    assert [more.case for more in alone.more] == [0] and not of_curve.more


# What series have in common


def together(loss):
    """40 series of CV 2 % in two groups, the first of which lost so much in each."""
    rng = numpy.random.default_rng(7)
    of = baseline(cv=0.02, sessions=0.02 * rng.standard_normal((M, 10)))
    jobs = numpy.full((M, 1, 9), math.nan)
    jobs[:, 0, 0] = 0.01 * rng.standard_normal(M)
    jobs[:20, 0, 0] -= loss
    groups = Groups(['environ'] * 2, [numpy.arange(20), numpy.arange(20, 40)])
    return judge(replace(of, floor=numpy.full(M, 0.0202)), jobs, pool(), groups, Budget(20.0, 20.0))


def test_a_loss_in_common_is_found_by_first_jobs_though_each_is_too_small():
    found = together(0.03)
    assert found.common.red == [0] and not found.more, 'its series need no further jobs'
    loss, low, high = found.common.loss[0]
    assert low < 0.03 < high and loss == pytest.approx(0.03, abs=0.005)
    assert found.red.any() and not found.red[20:].any(), 'the group confirms the series in doubt'


def test_a_loss_in_common_below_the_floor_is_none():
    rng = numpy.random.default_rng(7)
    of = replace(baseline(sessions=0.01 * rng.standard_normal((M, 10))), floor=numpy.full(M, 0.05))
    jobs = numpy.full((M, 9, 9), math.nan)
    jobs[..., 0] = 0.003 * rng.standard_normal((M, 9)) - 0.035
    found = judge(of, jobs, pool(), Groups(['partition'], [numpy.arange(M)]), Budget(20.0, 20.0))
    assert found.common.red == [] and not found.red.any() and not found.more


def test_a_common_change_below_the_floor_accuses_no_series():
    """Ten cases are 1.6 % slower in all nights, as in a warm season; two of their series 1 % more than the others."""
    rng = numpy.random.default_rng(8)
    jobs = numpy.full((80, 14, 9), math.nan)
    jobs[..., 0] = 0.003 * rng.standard_normal((80, 14)) - 0.016
    jobs[:2, :, 0] -= 0.01
    found = judge(baseline(80), jobs, pool(80), None, Budget(20.0, 20.0))
    assert not found.red.any() and not found.more


def test_a_group_of_one_job_asks_and_further_jobs_of_its_case_decide():
    rng = numpy.random.default_rng(7)
    of = baseline(8, cv=0.02, sessions=0.02 * rng.standard_normal((8, 10)))
    jobs = numpy.full((8, 1, 9), math.nan)
    jobs[:, 0, 0] = 0.003 * rng.standard_normal(8) - 0.05

    def found():
        answer = judge(of, jobs, pool(8), Groups(['partition'], [numpy.arange(8)]), Budget(20.0, 20.0))
        return answer.common.red, answer.red.any(), [more.case for more in answer.more]

    assert found() == ([], False, [0])
    jobs[:, 0, 1:3] = jobs[:, 0, :1]
    assert found()[0] == [0]
    jobs[:, 0, 1:3] = 0.0
    assert found() == ([], False, [])


def on_one_node(others, tonight):
    """Five series of a node on ten nights: two lost 0.1, the others `others` and at last `tonight`.

    Ten healthy series of another node are beside them.
    """
    rng = numpy.random.default_rng(7)
    jobs = numpy.full((M, 10, 9), math.nan)
    jobs[..., 0] = 0.002 * rng.standard_normal((M, 10))
    jobs[:2, :, 0] -= 0.1
    jobs[2:5, :, 0] -= others
    jobs[2:5, -1, 0] = -numpy.array(tonight)
    of, each = baseline(sessions=0.01 * rng.standard_normal((M, 10))), numpy.arange(M)  # series of cases of their own
    groups = Groups(['node'] * 2, [numpy.arange(5), numpy.arange(5, 15)])
    return judge(of, jobs, Pool(each, M, numpy.zeros((0, 4), int), each, each), groups)


def test_what_two_of_five_series_lost_is_no_loss_in_common_and_what_all_lost_beside_it_is():
    found = on_one_node(0.011, (0.013, 0.011, -0.003))
    assert found.red.nonzero()[0].tolist() == [0, 1] and found.common.red == []
    found = on_one_node(0.021, (0.021, 0.021, 0.021))
    assert found.red.nonzero()[0].tolist() == [0, 1, 2, 3, 4] and found.common.red == [0]
    loss, low, high = found.common.loss[0]
    assert low > 0 and loss == pytest.approx(0.021) and high < 0.04


def often_slow(lasts):
    """Baselines in which one session of twenty is 8 standard deviations low, as is the second job of it if it lasts.

    The first series had none.
    """
    rng = numpy.random.default_rng(6)
    sessions, second = 0.01 * rng.standard_normal((2, M, 30))
    slow = (rng.random((M, 30)) < 0.05) & (numpy.arange(M) > 0)[:, None]
    return baseline(n=30, df=29.0, sessions=sessions - 0.08 * slow, second=second - 0.08 * (slow & lasts))


@pytest.mark.parametrize(('lasts', 'loss', 'nights', 'is_red'), [
    (False, 0.08, 1, True), (True, 0.08, 1, False), (True, 0.3, 1, True), (True, 0.08, 2, False), (True, 0.08, 3, True)
])  # fmt: skip
def test_a_slow_night_is_no_loss_where_single_nights_are_often_slow(lasts, loss, nights, is_red):
    """Unless it is much slower than the slowest of the baselines, or lasts for three nights."""
    tonight = [noisy(loss, 9)] * nights
    assert answer(*tonight, of=often_slow(lasts)).red[0] == is_red


def at_a_level(sessions, nights):
    """The first series has these sessions in its baseline, and loses 10 % on so many nights, in all jobs."""
    recorded = 0.01 * numpy.random.default_rng(3).standard_normal((M, 10))
    recorded[0, : len(sessions)] = sessions
    of = baseline(sessions=recorded)
    return answer(*[noisy(0.0, 1)] * 3, *[noisy(0.1, 9)] * nights, of=of)


def test_a_low_level_of_the_baseline_is_no_loss_until_the_third_night_in_a_row():
    assert at_a_level([], 1).red[0]
    for seen in ([-0.1], [-0.06, -0.09]):
        assert not at_a_level(seen, 2).red[0] and not any(more.case == 0 for more in at_a_level(seen, 2).more)
        assert at_a_level(seen, 3).red[0]
    assert at_a_level([-0.1] * 6, 1).red[0], 'a person has set the level above what was recorded'
    assert at_a_level([-0.06], 1).red[0], 'one session, not far enough below'
    assert at_a_level([-0.2], 1).red[0], 'another level'


def test_the_page_prints_the_constants_of_the_code():
    page = (ROOT / 'docs/method.md').read_text(encoding='utf-8')
    for row in METHOD.table():
        assert '| `{constant}` | {value} | {meaning} |'.format(**row) in page


# Nodes


def nights_on(nodes_of, slow, loss, sessions=1, m=64, cases=(), reruns=(), seed=8):
    """Series of eight cases for some nights, and where they ran: case `c` of night `t` on `nodes_of(t, c)`.

    A job with node `slow` loses `loss` from its slowest node on, as do `cases` on all nodes. `reruns`: (case, nodes) of
    further jobs tonight.
    """
    rng = numpy.random.default_rng(seed)
    jobs, ran, case = numpy.full((m, sessions, 9), math.nan), [], numpy.arange(m) // 8
    done = [(night, own, 0, nodes_of(night, own)) for night in range(sessions) for own in range(m // 8)]
    count = {}
    for own, nodes in reruns:
        count[own] = count.get(own, 0) + 1
        done.append((sessions - 1, own, count[own], nodes))
    for night, own, job, nodes in done:
        lost = loss * (slow in nodes or own in cases)
        jobs[case == own, night, job] = 0.01 * rng.standard_normal(8) - lost
        ran += [(night, own, job, node) for node in nodes]
    return jobs, ran


def judged(jobs, ran, checks=(), m=64):
    of = baseline(m, sessions=0.01 * numpy.random.default_rng(9).standard_normal((m, 10)))
    return judge(of, jobs, pool(m, ran, checks), None, Budget(20.0, 20.0))


def job_on(node, case, loss, m=64):
    values = numpy.full(m, math.nan)
    values[8 * case : 8 * case + 8] = 0.01 * numpy.random.default_rng(case).standard_normal(8) - loss
    return NodeJob((node,), case, values)


def test_cases_of_other_nodes_decide_on_a_node_in_doubt():
    night = nights_on(lambda night, case: [case % 4], 2, 0.05)
    asked = judged(*night)
    wanted = {more.case for more in asked.more if more.on == 2}
    assert len(wanted) >= 4 and not wanted & {2, 6}, 'those that ran there first cannot confirm themselves'
    named = judged(*night, [job_on(2, case, 0.05) for case in wanted])
    loss, low, high, _ = named.slow.loss[2]
    assert low < 0.05 < high and loss == pytest.approx(0.05, abs=0.01)
    assert {case // 8 for case in numpy.flatnonzero(named.red)} == {2, 6}, 'the series of its own cases'
    assert not any(more.on >= 0 for more in named.more)
    cleared = judged(*night, [job_on(2, case, 0.0) for case in wanted])
    assert not cleared.slow.loss


def on_three(night, case):
    """Three nodes of 16: node 13 takes part in two of the eight jobs of a night."""
    draw = numpy.random.default_rng(100 * night + case).permutation(13)[:2].tolist()
    return [13 if (case + night) % 4 == 0 else int(14 + case % 2), *draw]


def test_the_slowest_node_of_jobs_on_several_is_named_by_what_they_share():
    """Each slow job ran again without node 13, and was well."""
    night = nights_on(on_three, 13, 0.1, sessions=3)
    again = [case for case in range(8) if 13 in on_three(2, case)]
    found = judged(*nights_on(on_three, 13, 0.1, sessions=3, reruns=[(case, [0, 1, 2]) for case in again]))
    assert list(found.slow.loss) == [13] and found.slow.loss[13][0] == pytest.approx(0.1, abs=0.02)
    assert {more.on for more in judged(*night).more if more.on >= 0} <= {13}, 'its partners are not in doubt'
    for loss, sessions in ((0.0, 3), (0.012, 14)):
        assert not judged(*nights_on(on_three, 13, loss, sessions)).slow.loss, 'a small lasting difference is none'


def test_a_node_that_is_well_tonight_is_not_slow_however_slow_it_was():
    jobs, ran = nights_on(on_three, 13, 0.1, sessions=4)
    assert list(judged(jobs, ran).slow.loss) == [13]
    jobs[:, -1, 0] = 0.0  # repaired
    assert not judged(jobs, ran).slow.loss


def in_even_cases(loss, slow_jobs=0.0):
    """Eight cases on seven nodes for eight nights: the even cases lose `loss` on node 3, and some single jobs 10 %.

    Tonight each of these ran again on another node, and was well.
    """
    again = [(case, [6]) for case in (0, 2, 4, 6) if (case + 7) % 6 == 3]
    jobs, ran = nights_on(lambda night, case: [(case + night) % 6], 3, 0.0, sessions=8, reruns=again)
    single = numpy.random.default_rng(4).random((8, 8)) < slow_jobs
    for night, case, job, node in ran:
        own = slice(8 * case, 8 * case + 8)
        jobs[own, night, job] -= loss * (node == 3 and case % 2 == 0) + 0.1 * (job == 0 and single[night, case])
    return jobs, ran


def test_a_node_that_is_slow_in_half_of_its_cases_is_named_with_the_loss_of_these():
    """As one that lost memory bandwidth and keeps its Flop rate."""
    jobs, ran = in_even_cases(0.1)
    tonight = {case for night, case, _, node in ran if night == 7 and node == 3}
    asked = judged(jobs, ran)
    named = judged(jobs, ran, [job_on(3, case, 0.1 * (case % 2 == 0)) for case in range(8) if case not in tonight])
    assert list(named.slow.loss) == [3], asked.more
    loss, low, high, _ = named.slow.loss[3]
    assert low < 0.1 < high and loss == pytest.approx(0.1, abs=0.01)
    assert not judged(*in_even_cases(0.0, slow_jobs=0.2)).slow.loss, 'single slow jobs, where they are usual'


def test_a_node_that_is_as_slow_as_while_the_baseline_was_recorded_is_not_named():
    recorded = 0.01 * numpy.random.default_rng(9).standard_normal((64, 10))
    where = [(night, case, (case + night) % 4) for night in range(10) for case in range(8)]
    for night, case, node in where:
        recorded[8 * case : 8 * case + 8, night] -= 0.03 * (node == 2)
    of = baseline(64, cv=0.015, sessions=recorded - recorded.mean(axis=1, keepdims=True))
    jobs, ran = nights_on(lambda night, case: [(case + night) % 4], 2, 0.03, sessions=4)
    jobs -= recorded.mean()
    checks = [job_on(2, case, 0.02) for case in range(5)]
    known = replace(pool(64, ran, checks), recorded=numpy.array(where))
    assert list(judge(of, jobs, pool(64, ran, checks)).slow.loss) == [2], 'so slow that it would be named'
    assert not judge(of, jobs, known).slow.loss
    jobs[:, -1, 0][numpy.isin(numpy.arange(64) // 8, [c for n, c, _, h in ran if n == 3 and h == 2])] -= 0.1
    later = replace(known, jobs=[job_on(2, case, 0.12) for case in range(5)])
    assert list(judge(of, jobs, later).slow.loss) == [2], 'it became slower'


def test_neither_a_loss_of_the_site_nor_one_of_some_cases_accuses_a_node():
    several = nights_on(lambda night, case: [(case + night) % 4], -1, 0.06, sessions=3, cases=range(8))
    assert not judged(*several).slow.loss
    two = nights_on(lambda night, case: [case % 4], -1, 0.06, cases=(2, 6))  # both of node 2
    assert not judged(*two).slow.loss
    checks = [job_on(2, case, 0.0) for case in (0, 1, 3, 4, 5)]
    assert not judged(*two, checks).slow.loss


def sweep(nodes, cases, slow, loss, pairs=0):
    """One night of `cases` on each node, and of one on `pairs` of neighbours; nodes of `slow` lose `loss` alone."""
    rng = numpy.random.default_rng(5)
    own = [[node] for _ in range(cases) for node in range(nodes)] + [[2 * i, 2 * i + 1] for i in range(pairs)]
    jobs = numpy.full((len(own), 1, 9), math.nan)
    jobs[:, 0, 0] = 0.01 * rng.standard_normal(len(own))
    jobs[[len(of) == 1 and of[0] in slow for of in own], 0, 0] -= loss
    ran = numpy.array([(0, case, 0, node) for case, of in enumerate(own) for node in of])
    each = numpy.arange(len(own))
    return jobs, Pool(each, len(own), ran, each, numpy.minimum(each // nodes, cases))


def test_in_a_node_sweep_the_other_nodes_of_tonight_are_the_control():
    """Also where each of them lost, too."""
    jobs, of = sweep(8, 6, {3}, 0.06)
    for night in (jobs, jobs - 0.1):
        assert list(judge(baseline(48), night, of).slow.loss) == [3]


def test_each_of_many_slow_nodes_is_named_with_its_loss_and_no_other():
    """The jobs of the other slow nodes are no controls."""
    jobs, of = sweep(100, 8, range(0, 100, 4), 0.1)
    found = judge(baseline(800), jobs, of).slow
    assert sorted(found.loss) == list(range(0, 100, 4))
    losses = [loss for loss, *_ in found.loss.values()]
    assert numpy.mean(losses) == pytest.approx(0.1, abs=0.005), 'not less, although a quarter of the nodes are slow'
    assert numpy.mean([0.05 < low < 0.1 < high < 0.15 for _, low, high, _ in found.loss.values()]) > 0.9


def test_a_job_on_several_nodes_that_lost_less_than_the_slow_one_is_not_explained_by_it():
    """Node 4 loses 40 % in six cases; the pairs of the nodes 0 to 7 lose 15 %, one of them with node 4."""
    jobs, of = sweep(16, 6, {4}, 0.5, pairs=8)
    jobs[96:100, 0, 0] -= 0.16
    found = judge(baseline(len(jobs)), jobs, of, None, Budget(20.0, 20.0))
    assert list(found.slow.loss) == [4] and found.slow.loss[4][0] == pytest.approx(0.5, abs=0.02)
    assert found.slow.explained[4::16][:6].all() and not found.slow.explained[96:].any()
    assert {*numpy.flatnonzero(found.red), *(more.case for more in found.more)} >= {96, 97, 98, 99}


@pytest.mark.parametrize('there', [[], [-0.4], [-0.4, -0.4], [-0.4, 0.0]])
def test_a_case_that_other_nodes_clear_is_decided_by_two_more_jobs_on_its_own(there):
    jobs = [NodeJob((3,), 0, numpy.array([value, *[math.nan] * 7])) for value in there]
    of = pool(m=8, ran=[(0, 0, 0, 3), (0, 0, 1, 4)], jobs=jobs)
    found = judge(baseline(m=8), nights([-0.4, 0.0], m=8), of, None, Budget(20.0, 20.0))
    assert [(more.case, more.jobs, more.on) for more in found.more] == (
        [(0, 2 - len(there), 3)] if len(there) < 2 else []
    )
    assert found.red[0] == (there == [-0.4, -0.4]) and not found.red[1:].any()
    assert (found.loss[0] == pytest.approx(0.4) and found.q[0] < 0.001) or not found.red[0]


@pytest.mark.parametrize('loss', [0.035, 0.04, 0.05])
def test_the_interval_of_what_a_first_job_alone_decides_covers_the_loss(loss):
    """Of losses near the limit, only those are told whose first job was low by chance."""
    m, size, covers = 160, -math.log1p(-loss), []
    for seed in range(60):
        rng = numpy.random.default_rng(seed)
        first = rng.normal(0, 0.01, (m, 10))
        known = replace(baseline(m=m, sessions=first), mean=first.mean(axis=1), df=numpy.full(m, 27.0))
        jobs = numpy.full((m, 1, 9), math.nan)
        jobs[:, 0, 0] = rng.normal(0, 0.01, m)
        jobs[::40, 0, 0] -= size
        found = judge(known, jobs, pool(m), Groups(), None)
        covers += [found.low[one] <= size <= found.high[one] for one in range(0, m, 40) if found.red[one]]
    assert len(covers) > 10 and numpy.mean(covers) >= 0.93


def test_what_is_lost_on_one_node_counts_above_the_floor():
    jobs = [NodeJob((3,), 0, numpy.array([-0.12, *[math.nan] * 7]))] * 2
    of = pool(m=8, ran=[(0, 0, 0, 3), (0, 0, 1, 4)], jobs=jobs)
    for floor, is_red in ((0.05, True), (0.15, False)):
        limits = replace(baseline(m=8), floor=numpy.full(8, floor))
        assert judge(limits, nights([-0.3, 0.0], m=8), of, None, Budget(20.0, 20.0)).red[0] == is_red


def test_a_swept_case_that_lost_below_the_floor_is_not_what_most_of_a_site_lost():
    """Sixteen cases of one check, one a node, and six others, of which the last loses 3 % for four nights."""
    m, swept, rng = 44, 16, numpy.random.default_rng(4)
    case = numpy.arange(m) // 2
    jobs = numpy.full((m, 4, 9), math.nan)
    jobs[:, :, 0] = rng.normal(0, 0.004, (m, 4))
    jobs[: 2 * swept, :, 0] -= 0.0166
    jobs[-2:, :, 0] -= 0.03
    jobs[-2:, -1, 1:] = rng.normal(-0.03, 0.004, (2, 8))
    alike = numpy.where(numpy.arange(22) < swept, 0, numpy.arange(22))
    ran = [(night, number, 0, number % 16) for night in range(4) for number in range(22)]
    of = Pool(case, 22, numpy.array(ran), numpy.arange(22), alike, (), numpy.zeros((0, 3), int))
    known = baseline(m=m, cv=0.004, sessions=rng.normal(0, 0.004, (m, 10)))
    found = judge(known, jobs, of, Groups(), Budget(5.0, 20.0))
    assert found.red[-2:].all() and found.loss[-1] == pytest.approx(0.03, abs=0.005)


def test_what_a_node_lost_in_the_baseline_is_no_loss_of_it_but_one_against_a_published_number():
    """Sixteen cases of a series on four nodes in turn, of which node 0 always lost 6 %; the last four are published."""
    m, n = 16, 12
    node = numpy.add.outer(numpy.arange(m), numpy.arange(n)) % 4
    sessions = 0.004 * numpy.random.default_rng(2).standard_normal((m, n)) - 0.06 * (node == 0)
    sessions[-4:] = math.nan
    each = numpy.arange(m)
    ran = [(0, case, 0, case % 4) for case in range(m)]
    recorded = [(night, case, node[case, night]) for night in range(n) for case in range(m)]
    of = Pool(each, m, numpy.array(ran), each, each, recorded=numpy.array(recorded))
    jobs = numpy.full((m, 1, 2), math.nan)
    jobs[:, 0, 0] = -0.06 * (each % 4 == 0)
    found, _ = beyond_usual(expect(baseline(m, n, sessions=sessions), jobs), jobs, of)
    assert found[:12, 0, 0] == pytest.approx(0, abs=0.005)
    assert found[12, 0, 0] == -0.06, 'the published number is that of a good node'

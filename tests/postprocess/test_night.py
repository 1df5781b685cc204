# SPDX-License-Identifier: BSD-3-Clause
"""The answer of a session for many series: first jobs ask, further jobs decide."""

import math
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

from postprocess.statistics.baseline import Baseline
from postprocess.statistics.groups import Groups
from postprocess.statistics.method import METHOD
from postprocess.statistics.night import judge
from postprocess.statistics.nodes import NodeJob, Pool

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


def pool(m=M, node=None, jobs=(), before=0):
    cases = -(-m // 8)
    nodes = numpy.full(cases, -1) if node is None else numpy.array(node)
    return Pool(numpy.arange(m) // 8, cases, nodes, numpy.full((cases, before), -1), numpy.arange(cases), jobs)


def nights(*values, m=M, seed=1):
    """Jobs of `m` healthy series for as many sessions as `values`; the first series has those values, job by job."""
    jobs = numpy.full((m, len(values), 9), math.nan)
    jobs[:, :, 0] = 0.004 * numpy.random.default_rng(seed).standard_normal((m, len(values)))  # never in doubt
    for night, of_night in enumerate(values):
        jobs[0, night, :] = math.nan
        jobs[0, night, : len(of_night)] = of_night
    return jobs


def answer(*values, budget=5.0, of=None, **more):
    return judge(of or baseline(), nights(*values, **more), pool(), None, budget)


def noisy(loss, jobs):
    """So many jobs about a loss, 0.5 % apart."""
    return [-loss + 0.005 * (job % 3 - 1) for job in range(jobs)]


def test_a_large_loss_in_the_only_job_is_red_and_runs_again():
    found = answer([-0.5])
    assert found.red[0] and not found.red[1:].any()
    assert [(more.case, more.jobs) for more in found.more] == [(0, 1)]


def test_a_healthy_further_job_clears_a_case_however_slow_the_first_was():
    found = answer([-0.5, 0.0])
    assert not found.red.any() and not found.more


@pytest.mark.parametrize(('ran', 'wanted'), [(1, 1), (2, 2), (4, 4)])
def test_further_jobs_run_in_steps_of_1_2_4_and_8(ran, wanted):
    found = answer([-0.04, *noisy(0.025, ran)])
    assert [(more.case, more.jobs) for more in found.more] == [(0, wanted)]


def test_eight_further_jobs_confirm_a_loss_whose_size_is_theirs_alone():
    found = answer([-0.09, *noisy(0.05, 8)])
    assert found.red[0] and not found.more and found.window[0] == 1
    # the middle four of -0.055 (3), -0.05 (3), -0.045 (2); the first job was chosen for what it lost
    assert found.loss[0] == pytest.approx(0.05125)
    assert found.low[0] < 0.05 < found.high[0]


def test_jobs_of_healthy_cases_use_up_the_budget_and_confirmed_ones_do_not():
    jobs = nights(*[[0.0]])
    jobs[:, 0, 0] = 0.0
    jobs[::8, 0, 0] = -0.033  # one series of each case is in doubt
    found = judge(baseline(), jobs, pool(), None, 4.0)  # a healthy case takes two in the mean
    assert len(found.more) == 2 and len(found.left_out) == 3
    jobs[:16, 0, 1:3] = 0.0  # both were healthy
    assert not judge(baseline(), jobs, pool(), None, 4.0).more
    jobs[0, 0, 1:] = noisy(0.06, 8)  # one has lost: its jobs were no waste
    assert [more.case for more in judge(baseline(), jobs, pool(), None, 4.0).more] == [2]


def test_a_loss_beyond_all_that_the_baseline_holds_waits_for_no_budget():
    assert [more.case for more in answer([-0.2], budget=0.0).more] == [0]
    assert not answer([-0.033], budget=0.0).more


def test_a_repaired_fault_of_others_changes_no_p():
    quiet = numpy.full((M, 4, 9), math.nan)
    quiet[..., 0] = 0.005 * numpy.random.default_rng(2).standard_normal((M, 4))
    quiet[0, -1, :] = [-0.3, *noisy(0.3, 8)]
    fault = quiet.copy()
    fault[8:16, 1, :] = -0.1  # another case, two nights ago, all nine jobs
    before, after = (judge(baseline(), jobs, pool(), None, 5.0) for jobs in (quiet, fault))
    assert before.red[0] and after.red[0]
    assert after.p[0] == before.p[0] and after.loss[0] == before.loss[0]


def test_a_fault_that_comes_and_goes_never_becomes_the_reference():
    rng = numpy.random.default_rng(4)
    of = baseline(sessions=0.01 * rng.standard_normal((M, 10)))
    history = []
    for night in range(45):
        bad = night % 5 < 2
        history.append(noisy(0.105, 9) if bad else [0.005 * rng.standard_normal()])
        found = judge(of, nights(*history), pool(), None, 5.0)
        assert found.red[0] == bad, f'night {night}'
        assert not found.improved[0]
        if bad:
            assert found.loss[0] == pytest.approx(0.105, abs=0.01)


def test_a_loss_that_is_over_tonight_is_not_red():
    history = [noisy(0.05, 9)] * 5
    assert answer(*history).red[0]
    assert not answer(*history, [0.0]).red[0]


def test_a_small_loss_that_lasts_is_found_without_further_jobs_and_told_over_its_sessions():
    found = answer(*[[-0.03 + 0.004 * (night % 3 - 1)] for night in range(7)])
    assert found.red[0] and found.window[0] > 1
    assert found.loss[0] == pytest.approx(0.03, abs=0.004)


def test_a_loss_that_became_worse_is_told_as_it_is_since_then():
    found = answer([0.0], *[[-0.07]] * 6, *[[-0.75]] * 4, of=baseline(n=26, df=25.0))
    assert found.red[0] and found.window[0] <= 4
    assert found.loss[0] == pytest.approx(0.75) and found.low[0] < 0.75 < found.high[0]


def test_a_loss_that_lasts_and_was_found_needs_no_further_jobs():
    found = answer(noisy(0.05, 9), [-0.052], [-0.049])
    assert found.red[0] and not found.more


def test_a_slow_loss_does_not_become_normal():
    jobs = nights(*[[0.002 * (night % 3 - 1) - 0.002 * night] for night in range(60)])
    assert judge(baseline(), jobs[:, :20], pool()).red[0]
    found = judge(baseline(), jobs, pool())
    assert found.red[0] and found.loss[0] > 0.1


def test_the_first_sessions_after_a_baseline_narrow_it_and_a_loss_among_them_does_not_move_it():
    jobs = nights(*[[0.002 * (night % 3 - 1)] for night in range(40)])
    before, after = (judge(baseline(n=3, df=4.0), jobs[:, -sessions:], pool()) for sessions in (14, 40))
    widths = [numpy.median(found.high - found.low) for found in (before, after)]
    assert widths[1] < 0.9 * widths[0]
    lost = answer(*[[-0.05 + 0.002 * (night % 3 - 1)] for night in range(60)])
    assert lost.red[0] and lost.loss[0] == pytest.approx(0.05, abs=0.005)


def test_sessions_without_a_value_are_left_out_of_the_windows():
    history = nights(*[[-0.03]] * 7)
    gaps = numpy.full((M, 14, 9), math.nan)
    gaps[:, 1::2] = history
    whole, with_gaps = (judge(baseline(), jobs, pool()) for jobs in (history, gaps))
    assert whole.red[0] and whole.window[0] > 1
    assert (with_gaps.loss[0], with_gaps.window[0]) == (whole.loss[0], whole.window[0])


def test_a_lower_level_that_the_baseline_holds_is_no_loss_for_two_sessions():
    sessions = 0.01 * numpy.random.default_rng(5).standard_normal((M, 10))
    sessions[0, 3] = -0.15
    of = baseline(sessions=sessions)
    assert not answer(noisy(0.15, 9), of=of).red[0]
    assert answer(noisy(0.15, 9)).red[0], 'without it in the baseline'
    assert answer(noisy(0.30, 9), of=of).red[0], 'twice as low'
    assert answer(*[noisy(0.15, 9)] * 3, of=of).red[0], 'a level that lasts'


def test_slow_sessions_that_last_into_further_jobs_need_several_nights_to_be_a_loss():
    rng = numpy.random.default_rng(6)
    sessions = 0.01 * rng.standard_normal((M, 20))
    second = 0.01 * rng.standard_normal((M, 20))
    slow = rng.random(sessions.shape) < 0.05
    sessions[slow] -= 0.07
    second[slow] -= 0.07
    of = baseline(n=20, df=19.0, sessions=sessions, second=second)
    assert not answer(noisy(0.07, 9), of=of).red[0]
    assert answer(*[noisy(0.07, 9)] * 8, of=of).red[0]
    assert answer(noisy(0.4, 9), of=of).red[0], 'far beyond any slow session'


def test_a_gain_that_lasts_is_an_improvement():
    found = answer(*[[0.05]] * 5)
    assert found.improved[0] and not found.red.any()


def test_points_of_a_curve_share_the_false_alarms_of_one_metric():
    jobs = nights([-0.028])
    alone = judge(baseline(), jobs, pool(), None, 5.0)
    weights = numpy.where(numpy.arange(M) < 8, 1 / 8, 1.0)
    of_curve = judge(replace(baseline(), weight=weights), jobs, pool(), None, 5.0)
    assert [more.case for more in alone.more] == [0] and not of_curve.more


# What series have in common


def together(loss, further):
    """20 series of CV 2 % that lost 3 % each, as further jobs of their cases say, too, or do not."""
    rng = numpy.random.default_rng(7)
    of = baseline(cv=0.02, sessions=0.02 * rng.standard_normal((M, 10)))
    jobs = numpy.full((M, 1, 9), math.nan)
    jobs[:, 0, 0] = 0.02 * rng.standard_normal(M)
    jobs[:20, 0, 0] -= loss
    if further is not None:
        jobs[:24, 0, 1:5] = 0.02 * rng.standard_normal((24, 4))
        jobs[:20, 0, 1:5] -= further
    groups = Groups(['environ'] * 2, [numpy.arange(20), numpy.arange(20, 40)])
    return judge(of, jobs, pool(), groups, 20.0)


def test_a_loss_in_common_is_found_though_each_is_too_small():
    asked = together(0.03, None)
    assert {more.case for more in asked.more} >= {0, 1, 2}, 'its cases'
    found = together(0.03, 0.03)
    assert found.common.red == [0] and not found.red.any()
    loss, low, high = found.common.loss[0]
    assert low < 0.03 < high and loss == pytest.approx(0.03, abs=0.01)


def test_further_jobs_clear_a_group():
    assert together(0.03, 0.0).common.red == []


def on_one_node(others, tonight, two=0.1, last=10):
    """Five series of a node on ten nights: two lost `two` on the last ones, the others `others` and at last `tonight`.

    Ten healthy series of another node are beside them.
    """
    rng = numpy.random.default_rng(7)
    jobs = numpy.full((M, 10, 9), math.nan)
    jobs[..., 0] = 0.002 * rng.standard_normal((M, 10))
    jobs[:2, -last:, 0] -= two
    jobs[2:5, :, 0] -= others
    jobs[2:5, -1, 0] = -numpy.array(tonight)
    of = baseline(sessions=0.01 * rng.standard_normal((M, 10)))
    return judge(of, jobs, pool(), Groups(['node'] * 2, [numpy.arange(5), numpy.arange(5, 15)]), 20.0)


def test_what_two_of_five_series_lost_is_no_loss_in_common():
    found = on_one_node(0.011, (0.013, 0.011, -0.003))
    assert found.red.nonzero()[0].tolist() == [0, 1] and found.common.red == []


def test_what_two_lost_is_none_in_common_though_neither_is_sure_by_itself():
    found = on_one_node(0.011, (0.018, 0.011, 0.01), two=0.04, last=4)
    assert not found.red.any() and found.common.red == []


def test_a_loss_in_common_beside_a_larger_one_of_few_is_found():
    found = on_one_node(0.015, (0.015, 0.015, 0.015))
    assert found.red.nonzero()[0].tolist() == [0, 1] and found.common.red == [0]
    loss, low, high = found.common.loss[0]
    assert low > 0 and loss == pytest.approx(0.015) and high < 0.03


# Nodes of a pool


def on_nodes(slow, jobs=()):
    """Eight cases on four nodes; `slow`: what those on node 2 lost."""
    m = 64
    rng = numpy.random.default_rng(8)
    of = baseline(m, sessions=0.01 * rng.standard_normal((m, 10)))
    values = numpy.full((m, 1, 9), math.nan)
    values[:, 0, 0] = 0.01 * rng.standard_normal(m)
    node = numpy.array([0, 1, 2, 3] * 2)
    values[node[numpy.arange(m) // 8] == 2, 0, 0] -= slow
    return judge(of, values, pool(m, node, jobs, before=10), None, 20.0)


def job_on_2(case, loss):
    values = numpy.full(64, math.nan)
    values[8 * case : 8 * case + 8] = 0.01 * numpy.random.default_rng(case).standard_normal(8) - loss
    return NodeJob(2, case, values)


def test_cases_of_other_nodes_decide_on_a_node_in_doubt():
    asked = on_nodes(0.05)
    wanted = {more.case for more in asked.more if more.on == 2}
    assert len(wanted) == 4 and not wanted & {2, 6}, 'those that ran there first cannot confirm themselves'
    assert not any(more.on != 2 and more.case in (2, 6) for more in asked.more), 'they wait for the answer'
    named = on_nodes(0.05, [job_on_2(case, 0.05) for case in wanted])
    loss, low, high, _ = named.slow.loss[2]
    assert low < 0.05 < high and loss == pytest.approx(0.05, abs=0.01)
    cleared = on_nodes(0.05, [job_on_2(case, 0.0) for case in wanted])
    assert not cleared.slow.loss
    assert {more.case for more in cleared.more} >= {2, 6}, 'so the cases themselves are in doubt'


@pytest.mark.parametrize('there', [[], [-0.4], [-0.4, -0.4], [-0.4, 0.0]])
def test_a_case_that_other_nodes_clear_is_decided_by_two_more_jobs_on_its_own(there):
    jobs = []
    for value in there:
        values = numpy.full(8, numpy.nan)
        values[0] = value
        jobs.append(NodeJob(3, 0, values))
    found = judge(baseline(m=8), nights([-0.4, 0.0], m=8), pool(m=8, node=[3], jobs=jobs), None, 5.0)
    assert [(more.case, more.jobs, more.on) for more in found.more] == (
        [(0, 2 - len(there), 3)] if len(there) < 2 else []
    )
    assert found.red[0] == (there == [-0.4, -0.4]) and not found.red[1:].any()
    assert (found.loss[0] == pytest.approx(0.4) and found.q[0] < 0.001) or not found.red[0]


def test_healthy_nodes_are_not_in_doubt():
    found = on_nodes(0.0)
    assert not found.slow.loss and not any(more.on >= 0 for more in found.more)


def test_the_page_prints_the_constants_of_the_code():
    page = (Path(__file__).resolve().parents[2] / 'docs/tolerances.md').read_text(encoding='utf-8')
    for row in METHOD.table():
        assert '| `{constant}` | {value} | {meaning} |'.format(**row) in page


@pytest.mark.parametrize(('low', 'is_red'), [(0.0, True), (4.0, False)])
def test_where_sessions_are_skewed_a_window_that_is_just_red_is_not(low, is_red):
    """Five nights of 2.3 standard deviations; in baselines of the same spread one session of ten is 4 lower."""
    rng = numpy.random.default_rng(2)
    sessions = rng.standard_normal((M, 30)) - low * (rng.random((M, 30)) < 0.1)
    sessions = (sessions - sessions.mean(axis=1, keepdims=True)) / sessions.std(axis=1, ddof=1, keepdims=True)
    found = answer([0.0], *[[-0.023]] * 5, of=baseline(n=30, df=29.0, sessions=0.01 * sessions))
    assert found.red[0] == is_red

"""The answer of a session for many series, on simulated sites whose truth is known."""

import math
from dataclasses import replace

import numpy
import pytest

from postprocess.verdicts.night import Groups, judge
from postprocess.verdicts.trailing import Baseline
from studies.verdict_quality import LOST, METRICS, Site, gamma, recorded, simulate, slow_jobs


def baseline(m=40, n=10, cv=0.01, df=9.0, sessions=None):
    return Baseline(
        mean=numpy.zeros(m), variance=numpy.full(m, cv**2), df=numpy.full(m, df), n=numpy.full(m, float(n)),
        prior=numpy.full(m, 0.02**2), assumed=numpy.full(m, n == 1), floor=numpy.full(m, 0.0202),
        cap=numpy.full(m, 1.386), weight=numpy.ones(m),
        sessions=numpy.full((m, n), math.nan) if sessions is None else sessions,
    )  # fmt: skip


def nights(*values, m=40, seed=1):
    """Jobs of `m` healthy series for as many sessions as `values`; the first series has those values, job by job."""
    jobs = numpy.full((m, len(values), 9), math.nan)
    jobs[:, :, 0] = 0.01 * numpy.random.default_rng(seed).standard_normal((m, len(values)))
    for night, of_night in enumerate(values):
        jobs[0, night, :] = math.nan
        jobs[0, night, : len(of_night)] = of_night
    return jobs


@pytest.mark.parametrize('noise', [None, gamma, slow_jobs])
def test_a_healthy_site_is_rarely_red(noise):
    sites = [simulate(replace(Site(nights=8), **({'noise': noise} if noise else {})), number) for number in range(4)]
    assert sum(one.red.sum() for one in sites) <= 1  # of 32 nights; 2 % are allowed
    assert numpy.mean([one.again for one in sites]) <= 0.10


def test_losses_are_found_the_same_night():
    found = [simulate(Site(loss=0.05, nights=1), number).found for number in range(3)]
    assert numpy.mean(found) >= 0.95


def test_small_losses_are_found_within_days_and_noisy_metrics_are_useful():
    within_3 = [simulate(Site(loss=0.03, nights=3), number).found.any(axis=0) for number in range(3)]
    assert numpy.mean(within_3) >= 0.85
    within_14 = [simulate(Site(loss=0.05, lost_cv=0.03, n=20), number).found.any(axis=0) for number in range(2)]
    assert numpy.mean(within_14) >= 0.80


@pytest.mark.parametrize(('n', 'cv'), [(1, 0.1), (10, 0.3)])
def test_a_loss_of_90_percent_is_found_whatever_the_baseline(n, cv):
    assert simulate(Site(loss=0.9, lost_cv=cv, n=n, nights=1), 1).found.all()


def test_all_metrics_may_lose_at_once_against_one_session():
    site = Site(loss=0.9, lost=numpy.arange(METRICS), n=1, nights=1)
    assert simulate(site, 1).found.all()


def test_a_loss_in_common_is_found_though_each_is_too_small():
    site = Site(loss=0.02, cv=0.02, factor=1.0, lost=numpy.arange(20), nights=1)
    assert sum(simulate(site, number).red[0] for number in range(5)) >= 3


def test_one_healthy_rerun_leaves_a_loss_in_doubt_and_nine_decide():
    lost = judge(baseline(), nights([-0.5]))
    assert lost.red[0] and lost.suspect[0]
    one_healthy = judge(baseline(), nights([-0.5, 0.0]))
    assert not one_healthy.red[0]
    confirmed = judge(baseline(), nights([-0.05 + 0.005 * (job % 3) for job in range(9)]))
    assert confirmed.red[0] and not confirmed.suspect[0]
    assert confirmed.low[0] < confirmed.loss[0] < confirmed.high[0]
    assert -math.expm1(-confirmed.loss[0]) == pytest.approx(0.044, abs=0.003)


def test_a_loss_beyond_the_cap_is_told_as_it_is_tonight():
    history = [0.7] * 5, [0.7] * 5, [1.5] * 5, *[[0.0]] * 3, [1.5] * 9
    jobs = 0.005 * numpy.random.default_rng(1).standard_normal((9, len(history), 9))
    for night, losses in enumerate(history):
        jobs[:, night, : len(losses)] -= losses
        jobs[:, night, len(losses) :] = math.nan
    found = judge(baseline(m=9, n=1, df=4.0), jobs)
    assert found.red.all() and (found.window == 1).all()
    assert found.loss == pytest.approx(1.5, abs=0.02)


def test_a_loss_that_is_over_tonight_is_not_red():
    history = [[-0.05] * 9] * 5
    assert judge(baseline(), nights(*history)).red[0]
    assert not judge(baseline(), nights(*history, [0.0])).red[0]


def test_the_first_sessions_after_a_baseline_narrow_it_and_a_loss_among_them_does_not_move_it():
    jobs = nights(*[[0.002 * (night % 3 - 1)] for night in range(40)])
    before, after = (judge(baseline(n=3, df=4.0), jobs[:, -sessions:]) for sessions in (14, 40))
    widths = [numpy.median(found.high - found.low) for found in (before, after)]
    assert widths[1] < 0.7 * widths[0]
    lost = nights(*[[-0.05 + 0.002 * (night % 3 - 1)] * 5 for night in range(60)])
    assert judge(baseline(), lost).red[0]
    assert judge(baseline(), lost).loss[0] == pytest.approx(0.05, abs=0.005)


def test_a_slow_loss_does_not_become_normal():
    jobs = nights(*[[0.002 * (night % 3 - 1) - 0.002 * night] * 5 for night in range(60)])
    assert judge(baseline(), jobs[:, :20]).red[0]
    found = judge(baseline(), jobs)
    assert found.red[0] and found.loss[0] > 0.1


def test_sessions_without_a_value_are_left_out_of_the_windows():
    history = nights(*[[-0.03]] * 7)
    gaps = numpy.full((40, 14, 9), math.nan)
    gaps[:, ::2] = history
    gaps[:, -1] = history[:, -1]
    gaps[:, -2] = math.nan
    assert judge(baseline(), gaps).loss[0] == pytest.approx(judge(baseline(), history).loss[0])


def test_a_level_that_the_baseline_holds_is_known_and_a_loss_below_it_is_not():
    sessions = 0.01 * numpy.random.default_rng(2).standard_normal((40, 10))
    sessions[0, [2, 5]] -= 0.3
    known = baseline(sessions=sessions)
    at_level = judge(known, nights([-0.3] * 5))
    assert at_level.two_levels[0] and not at_level.red[0]
    below = judge(known, nights([-0.5] * 9))
    assert below.red[0]
    assert judge(baseline(), nights([-0.3] * 5)).red[0]  # never seen before


def test_jobs_that_are_alike_are_not_independent_evidence():
    rng = numpy.random.default_rng(3)
    alike = numpy.full((40, 8, 9), math.nan)
    alike[:, :, 0] = 0.01 * rng.standard_normal((40, 8))
    alike[:, :, 1:3] = alike[:, :, :1] + 0.001 * rng.standard_normal((40, 8, 2))
    assert judge(baseline(), alike).likeness.rho > 0.8
    alike[:, :, 1:3] = 0.01 * rng.standard_normal((40, 8, 2))
    assert judge(baseline(), alike).likeness.rho < 0.2


def test_a_group_has_the_median_loss_of_its_series():
    jobs = nights([-0.02] * 3)
    jobs[:20, :, :3] = -0.02 + 0.01 * numpy.random.default_rng(5).standard_normal((20, 1, 3))
    sessions = 0.01 * numpy.random.default_rng(6).standard_normal((40, 10))
    groups = Groups(['environ', 'environ'], [numpy.arange(20), numpy.arange(20, 40)])
    found = judge(baseline(sessions=sessions), jobs, groups).common
    assert found.red.tolist() == [True, False]
    assert found.loss[0] == pytest.approx(0.02, abs=0.005)
    assert found.low[0] < 0.02 < found.high[0]


def test_what_some_series_of_a_group_lost_is_not_common_to_the_others():
    jobs = nights([-0.1] * 5)
    jobs[:10, :, :5] = -0.1 + 0.01 * numpy.random.default_rng(5).standard_normal((10, 1, 5))
    sessions = 0.01 * numpy.random.default_rng(6).standard_normal((40, 10))
    found = judge(
        baseline(sessions=sessions),
        jobs,
        Groups(['node'] * 3, [numpy.arange(16), numpy.arange(10), numpy.array([0, 1, 2, 10])]),
    )
    assert found.red[:10].all() and not found.red[10:].any()
    assert found.common.red.tolist() == [False, True, False]


def test_a_baseline_without_spread_takes_that_of_its_kind_fitted_to_the_site():
    sessions = 0.1 * numpy.random.default_rng(4).standard_normal((METRICS, 2))
    one = recorded(sessions[:, :1], numpy.full(METRICS, 0.02**2))
    assert not judge(one, sessions[:, 1:, None]).red.any()
    worse = sessions[:, 1:, None] - 2.3 * numpy.isin(numpy.arange(METRICS), LOST)[:, None, None]
    assert judge(one, worse).red[LOST].all()

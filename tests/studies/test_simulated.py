# SPDX-License-Identifier: BSD-3-Clause
"""Simulated sites are what they say: noise, nodes, losses and a past, by arithmetic on their values."""

import math

import numpy
import pytest
from rows import each_row

from studies.simulated import Cause, Loss, Site, World


def first_jobs(site, nights=60):
    """The values of first jobs, M x nights, and their nodes, C x nights, in standard deviations from the level."""
    values, nodes = zip(*(site.first(night) for night in range(-site.world.n, nights)), strict=True)
    return (numpy.stack(values, 1) - site.level[:, None]) / site.cv[:, None], numpy.stack(nodes, 1)


def correlation(a, b):
    return float(numpy.corrcoef(a.ravel(), b.ravel())[0, 1])


@each_row('noise', ['normal', 'gamma', 'common', 'AR(1)', 'weekly', 'alike'])
def test_noise_has_mean_0_and_variance_1(noise):
    z, _ = first_jobs(Site(World(noise), noise, 1), 130)
    assert abs(z.mean()) < 0.02 and z.var() == pytest.approx(1, abs=0.04)  # 56000 values


def test_nights_of_ar_1_are_half_like_the_night_before():
    z, _ = first_jobs(Site(World('AR(1)'), 'x', 1))
    assert correlation(z[:, 1:], z[:, :-1]) == pytest.approx(0.5, abs=0.03)


@each_row(('noise', 'expected'), [('normal', 0), ('alike', 0.5), ('AR(1)', 0.5), ('common', 0), ('steps', 0)])
def test_a_further_job_is_as_like_the_first_as_its_noise_says(noise, expected):
    site = Site(World(noise, factor=1.0), 'x', 1)
    pairs = []
    for night in range(-10, 20):
        first, _ = site.first(night)
        again = numpy.concatenate([site.job(case)[0] for case in range(50)])
        pairs.append((first - site.level, again - site.level))
    first, again = map(numpy.array, zip(*pairs, strict=True))
    assert correlation(first, again) == pytest.approx(expected, abs=0.03)


def test_series_of_a_case_share_half_of_the_variance_where_noise_is_common():
    z, _ = first_jobs(Site(World('common'), 'x', 1))
    assert correlation(z[0::8], z[1::8]) == pytest.approx(0.5, abs=0.05)
    assert abs(correlation(z[7:-1:8], z[8::8])) < 0.05, 'another case'


def test_effects_of_nodes_last_and_differ_between_series_and_offsets_do_not():
    site = Site(World(nodes=16, effects=1.0), 'x', 1)
    site.first(-10)
    jobs = [[[site.job(case, node)[0] for case in range(4)] for _ in range(30)] for node in (0, 1)]
    z = (numpy.mean(jobs, axis=1).reshape(2, 32) - site.level[:32]) / site.cv[:32]
    assert correlation(z, site.effects[:32, :2].T) > 0.95, 'the noise of 30 jobs is 0.18 of an effect'
    assert abs(correlation(site.effects[:, 0], site.effects[:, 1])) < 0.15
    site = Site(World(nodes=4, offsets=1.0), 'x', 1)
    assert (site.effects == site.effects[0]).all() and len(set(site.effects[0])) == 4


def test_a_planted_loss_lowers_its_series_by_its_logarithm_and_no_other_on_its_nights_alone():
    def played(losses):
        site = Site(World(losses=losses), 'x', 1)
        return numpy.stack([site.first(night)[0] for night in range(-10, 8)], 1)[:, 10:], site

    healthy, _ = played(())
    lossy, site = played((Loss('series', 0.05, start=1, stop=7, every=5, on=2),))
    lost = sorted(place for causes in site.lost for cause in causes for place in cause.members)
    assert len(lost) == 4 and len(set(site.layout.case[lost])) == 4
    change = lossy - healthy
    for night in range(8):
        expected = math.log(0.95) if night in (1, 2, 6) else 0.0  # nights 1 and 2 of five, until 7
        assert change[lost, night] == pytest.approx(expected)
    assert not numpy.delete(change, lost, axis=0).any()


def test_a_slow_node_slows_what_runs_on_it_and_nothing_else():
    worlds = (World(nodes=4, losses=losses) for losses in ((), (Loss('node', 0.05),)))
    sites = [Site(world, 'x', 2) for world in worlds]  # site 2 plants it on node 2
    for site in sites:
        site.first(0)
    first = [site.first(1) for site in sites]
    assert (first[0][1] == first[1][1]).all(), 'the same nodes'
    change = (first[1][0] - first[0][0]).reshape(50, 8)
    assert change == pytest.approx(numpy.where(first[0][1][:, 0] == 2, math.log(0.95), 0.0)[:, None].repeat(8, 1))
    assert sites[1].planted(1) == [Cause('node', node=2)]
    jobs = [site.job(0, 2)[0] for site in sites]
    assert jobs[1] - jobs[0] == pytest.approx(math.log(0.95))


def test_a_further_job_never_runs_on_a_node_to_avoid_and_runs_on_the_one_it_is_told():
    site = Site(World(nodes=3), 'x', 1)
    site.first(-10)
    assert {int(site.job(0, avoid=[1])[1][0]) for _ in range(50)} == {0, 2}
    assert {int(site.job(0)[1][0]) for _ in range(50)} == {0, 1, 2}
    assert site.job(0, 1)[1].tolist() == [1]
    with pytest.raises(ValueError, match=r'case 0: too few of 3 nodes without \[0, 1, 2\]'):
        site.job(0, avoid=[2, 0, 1])


def test_a_job_on_several_nodes_waits_for_the_slowest():
    plain, slowed = (Site(World(nodes=8, span=(2, 4), losses=losses), 'x', 2) for losses in ((), (Loss('node', 0.1),)))
    values, nodes = plain.first(0)
    assert set((nodes >= 0).sum(axis=1).tolist()) == {2, 3, 4}
    assert all(len(set(own[own >= 0].tolist())) == (own >= 0).sum() for own in nodes)
    change = (slowed.first(0)[0] - values).reshape(50, 8)[:, 0]
    assert change == pytest.approx(numpy.where((nodes == 2).any(axis=1), math.log(0.9), 0.0))
    own = plain.job(3, 5, avoid=[1])[1]
    assert own[0] == 5 and 1 not in own and (own >= 0).sum() == (nodes[3] >= 0).sum()


def test_first_jobs_are_the_same_whatever_further_jobs_run():
    calm, busy = (Site(World('AR(1)', nodes=16, effects=1.0), 'x', 1) for _ in range(2))
    for night in range(-10, 5):
        values = [site.first(night) for site in (calm, busy)]
        assert (values[0][0] == values[1][0]).all() and (values[0][1] == values[1][1]).all()
        for case in range(night + 10):
            busy.job(case)
    assert (calm.job(3)[0] != busy.job(4)[0]).any()

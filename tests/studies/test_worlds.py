# SPDX-License-Identifier: BSD-3-Clause
"""Worlds of a few sites each, by the functions of `record` and `compare`: what a site must be told, and what not."""

from collections.abc import Iterable
from dataclasses import replace

from studies.simulated import Loss, World
from studies.worlds import play

SITE = World(m=160, environ=(5,), factor=1.5, nodes=16, effects=1.0)
ONE = World(m=160, n=1)


def played(world: World, sites: Iterable[int] = range(8)):
    return [play(world, 'small', number).nights for number in sites]


def test_a_site_of_one_recorded_session_finds_a_loss_in_its_first_week():
    lost = Loss('case', 0.1, 0.01, start=5)
    found = [
        any(night.said.is_red for night in nights)
        for nights in played(replace(ONE, losses=(lost,), skipped=5, nights=8))
    ]
    assert sum(found) >= 7


def test_the_healthy_nights_of_a_site_of_one_recorded_session_are_seldom_red():
    red = [night.said.is_red for nights in played(ONE) for night in nights]
    assert sum(red) <= 0.04 * len(red)


def test_the_night_after_a_loss_of_the_whole_site_for_twelve_nights_is_green():
    for nights in played(replace(SITE, nights=14, losses=(Loss('all', 0.05, start=1, stop=13),)), range(6, 11)):
        assert [night.said.is_red for night in nights] == [False, *[True] * 12, False]


def test_a_node_that_was_slow_when_the_baseline_was_recorded_is_not_named():
    named = [
        bool(night.said.nodes)
        for nights in played(replace(SITE, losses=(Loss('node', 0.06, start=-100),)))
        for night in nights
    ]
    assert not any(named)

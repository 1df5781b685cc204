# SPDX-License-Identifier: BSD-3-Clause
"""Sites as they are, night after night through `ingest`, `record`, `compare` and `incidents`, with their further jobs.

Small worlds, of one seed each; `studies/nights.py` and `studies/worlds.py` measure the same with intervals.
"""

import pytest
from run_reports import Workplace

from studies.nights import Nights
from studies.simulated import Loss, World

SMALL = {'m': 80, 'n': 10, 'factor': 1.3}


@pytest.fixture
def play(tmp_path):
    return lambda **world: Nights(Workplace(tmp_path), World(**SMALL | world)).recorded()


def told(document, *states):
    return [one for one in document['incidents'] if one['state'] in (states or ('open',))]


def test_a_pool_of_16_healthy_nodes_with_lasting_differences_is_never_red(play):
    nights, further = play(nodes=16, effects=1.0).play(3)
    assert [document['exit_code'] for document in nights] == [0] * 3
    assert not any(document['incidents'] for document in nights), 'nobody is suspected'
    assert further <= 0.5


def test_a_slow_node_is_named_by_the_cases_that_ran_there_and_nothing_else_is(play):
    nights, _ = play(m=240, nodes=8, effects=1.0, losses=(Loss('node', 0.05),)).play(2)
    (one,) = told(nights[1])
    assert (one['kind'], one['where']) == ('NODE', 'n0')
    assert one['loss'] == pytest.approx(5, abs=1.5)


def test_a_loss_of_the_whole_site_is_one_incident_every_night_and_accuses_no_node(play):
    nights, _ = play(m=160, nodes=16, effects=1.0, losses=(Loss('all', 0.05, start=1, stop=6),)).play(7)
    assert [document['exit_code'] for document in nights] == [0, *[1] * 5, 0]
    (ids,) = {tuple(one['id'] for one in document['incidents']) for document in nights[1:]}
    assert len(ids) == 1
    for document in nights[1:6]:
        (one,) = document['incidents']
        assert one['kind'] == 'SYSTEM' and one['loss'] == pytest.approx(5, abs=0.5)


def test_a_node_that_was_slow_in_cases_on_several_nodes_is_green_the_night_after_its_repair(play):
    world = {'m': 240, 'nodes': 32, 'span': (2, 4), 'effects': 1.0, 'losses': (Loss('node', 0.1, stop=3),)}
    nights, _ = play(**world).play(7)
    assert [document['exit_code'] for document in nights] == [1] * 3 + [0] * 4
    assert {(one['kind'], one['where']) for document in nights for one in document['incidents']} == {('NODE', 'n0')}
    assert not told(nights[6], 'open', 'healing')


def test_a_node_that_is_slow_again_after_it_had_healed_is_the_same_incident(play):
    lost = Loss('node', 0.1, start=0, every=6)
    nights, _ = play(m=160, nodes=8, effects=1.0, losses=(lost,)).play(8)
    assert [document['exit_code'] for document in nights] == [1, 0, 0, 0, 0, 0, 1, 0]
    (first,), (again,) = told(nights[0]), told(nights[6], 'intermittent')
    assert first['id'] == again['id'] and any(one['state'] == 'closed' for one in nights[3]['incidents'])


def test_what_the_whole_site_lost_below_the_floor_is_told_once_and_accuses_nothing(play):
    nights = play(losses=(Loss('all', 0.014, start=2),))
    for begin, end, told in ((0, 4, False), (4, 9, True)):
        nights.play(end, begin)
        lines = [line for line in nights.work.run('report').stdout.splitlines() if 'the whole site was' in line]
        assert len(lines) == told and not nights.work.compare()['incidents']
    assert 'the whole site was 1.' in lines[0] and 'in the last 7 sessions, since 20' in lines[0]

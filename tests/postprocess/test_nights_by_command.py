# SPDX-License-Identifier: BSD-3-Clause
"""Sites as they are, night after night through `ingest`, `record`, `compare` and `incidents`, with their further jobs.

Small worlds, of one seed each; `studies/worlds.py` measures the same with intervals.
"""

import pytest
from nights_by_command import Nights
from run_reports import Workplace

from studies.simulated import Loss, World

SMALL = {'m': 80, 'n': 10, 'factor': 1.3}


@pytest.fixture
def play(tmp_path):
    return lambda **world: Nights(Workplace(tmp_path), World(**SMALL | world)).recorded()


def told(document, *states):
    return [one for one in document['incidents'] if one['state'] in (states or ('open',))]


def test_a_pool_of_16_healthy_nodes_with_lasting_differences_is_never_red(play):
    nights, further = play(nodes=16, effects=1.0).play(5)
    assert [document['exit_code'] for document in nights] == [0] * 5
    assert not any(document['incidents'] for document in nights), 'nobody is suspected'
    assert further <= 0.4


def test_a_repaired_fault_of_others_does_not_hide_a_loss(play):
    """8 metrics lose 10 % for one night; two nights later one of another case loses 30 %."""
    site = play(losses=(Loss('case', 0.1, 0.01, start=0, stop=1), Loss('series', 0.3, 0.01, start=2)))
    (fault, healed, lost), _ = site.play(3)
    assert (fault['exit_code'], healed['exit_code'], lost['exit_code']) == (1, 0, 1)
    regressed = {(row['check'], row['metric']) for row in lost['verdicts'] if row['verdict'] == 'regressed'}
    assert len(regressed) == 4, 'each of the four series that lost'


def test_a_fault_that_comes_and_goes_stays_red_on_its_nights_and_never_becomes_the_reference(play):
    site = play(losses=(Loss('case', 0.1, 0.01, every=5, on=2),))
    nights, _ = site.play(7)
    bad = [night % 5 < 2 for night in range(7)]
    assert [document['exit_code'] for document in nights] == [int(is_bad) for is_bad in bad]
    for document, is_bad in zip(nights, bad, strict=True):
        counts = document['counts']
        assert counts.get('regressed', 0) == (8 if is_bad else 0) and not counts.get('improved')
        for one in told(document):
            assert one['loss'] == pytest.approx(10, abs=1)


def test_a_slow_node_is_named_by_the_cases_that_ran_there_and_nothing_else_is(play):
    nights, _ = play(m=240, nodes=8, effects=1.0, losses=(Loss('node', 0.05),)).play(2)
    (one,) = told(nights[1])
    assert (one['kind'], one['where']) == ('NODE', 'n0')
    assert one['loss'] == pytest.approx(5, abs=1.5)


def test_the_slow_node_of_cases_on_several_is_named_within_three_nights_and_nothing_else_is(play):
    """Node 0 of 16 takes part in one or two of the ten cases of a night, which wait for it."""
    nights, _ = play(nodes=16, span=(2, 4), effects=1.0, losses=(Loss('node', 0.1),)).play(3)
    assert nights[2]['exit_code'] == 1
    (one,) = told(nights[2])
    assert (one['kind'], one['where']) == ('NODE', 'n0') and one['loss'] == pytest.approx(10, abs=2)


def test_a_loss_of_the_whole_site_is_one_incident_every_night_and_accuses_no_node(play):
    nights, _ = play(m=160, nodes=16, effects=1.0, losses=(Loss('all', 0.05, start=1, stop=6),)).play(7)
    assert [document['exit_code'] for document in nights] == [0, *[1] * 5, 0]
    (ids,) = {tuple(one['id'] for one in document['incidents']) for document in nights[1:]}
    assert len(ids) == 1
    for document in nights[1:6]:
        (one,) = document['incidents']
        assert one['kind'] == 'SYSTEM' and one['loss'] == pytest.approx(5, abs=0.5)


def test_a_loss_below_the_floor_is_none_however_many_share_it(play):
    nights, _ = play(losses=(Loss('all', 0.014),)).play(4)
    assert [document['exit_code'] for document in nights] == [0] * 4
    assert not any(document['incidents'] for document in nights)


def test_a_node_that_was_repaired_is_one_incident_green_the_next_night_and_closed_within_a_week(play):
    nights, _ = play(m=160, nodes=8, effects=1.0, losses=(Loss('node', 0.1, stop=4),)).play(10)
    assert [document['exit_code'] for document in nights] == [1] * 4 + [0] * 6
    of_node = [one for document in nights for one in document['incidents'] if one['where'] == 'n0']
    assert len({one['id'] for one in of_node}) == 1 and not told(nights[9], 'open', 'healing')


def test_the_only_case_of_a_site_is_red_where_one_node_is_slow_and_names_it(play):
    """No other case could judge the node: two more jobs of this one there do."""
    site = play(m=8, nodes=4, losses=(Loss('node', 0.39),))
    night = next(night for night in range(50) if site.site.first(night)[1][0, 0] == 0)
    document, _ = site.judged(night)
    (one,) = told(document)
    assert document['exit_code'] == 1 and document['counts'] == {'regressed': 8}
    assert (one['kind'], one['where']) == ('NODE', 'n0')
    assert one['loss'] == pytest.approx(39, abs=4)

# SPDX-License-Identifier: BSD-3-Clause
"""The plan of a night: what it chooses, by hand and by enumeration, and what it says."""

import json
import math
import re
from datetime import datetime
from itertools import combinations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from run_reports import BEGAN, case, metric, reference, report

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Tolerance, limits
from plumbline.references import Reference
from postprocess.history import faults, plan
from postprocess.history.plan import CaseName
from postprocess.results.store import Store
from postprocess.statistics.coverage import due, most_found


@given(st.data())
def test_greedy_is_within_its_guarantee_of_the_optimum(data):
    looks, kinds = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    chances = st.lists(st.floats(0, 1), min_size=kinds, max_size=kinds)
    found = numpy.array([data.draw(chances) for _ in range(looks)])
    cost = numpy.array([data.draw(st.floats(0.1, 10)) for _ in range(looks)])
    weight, budget = numpy.ones(kinds), data.draw(st.floats(0.1, 30))
    chosen = most_found(found, weight, cost, budget)
    assert cost[chosen].sum() <= budget + 1e-9 and len({*chosen}) == len(chosen)

    def value(looked):
        return sum(1 - math.prod(1 - found[look, kind] for look in looked) for kind in range(kinds))

    sets = (one for n in range(looks + 1) for one in combinations(range(looks), n))
    best = max(value(one) for one in sets if cost[list(one)].sum() <= budget)
    assert value(chosen) >= (1 - 1 / math.e) / 2 * best - 1e-9


def test_every_look_is_taken_within_its_longest_time():
    cost, waited = numpy.array([3.0, 5.0, 8.0, 2.0, 9.0]), numpy.ones(5)
    for _ in range(60):
        looked = due(waited, 7, cost, 12.0)
        assert cost[looked].sum() <= 12.0
        waited += 1
        waited[looked] = 1
        assert (waited <= 7).all()


def test_the_chance_of_a_look_by_hand():
    """A baseline of many sessions with a spread of 1 %: nine jobs of likeness 0.3 have one of 0.615 %."""
    id = SeriesId('cpu', 'system', 'HPL', (), 'gflops')
    row = Reference(
        id, Quantity('GFlop/s', 'higher'), 100.0, 1.0, 10**6, 'baseline', 'x', spread=0.01, df=10**6, spread_n=10**6
    )
    bound = limits(row, Tolerance(floor=0.001))
    jobs = 0.01 * math.sqrt(0.3 + 0.7 / 9)
    assert bound.sd_of_jobs == pytest.approx(jobs)
    assert bound.chance(bound.detectable) == pytest.approx(0.8, abs=1e-6)
    # 4.265 standard deviations of the mean is where a healthy value of 100 000 is: half of such losses are beyond it
    assert bound.chance(1 - math.exp(-4.264891 * jobs)) == pytest.approx(0.5, abs=1e-3)
    assert bound.chance(0.0001) < 1e-4 and bound.chance(0.1) > 0.999


@each_row(('check', 'metric', 'between', 'fault', 'loss'), [
    ('BabelStreamHost', 'bandwidth', False, 'memory channel lost', 0.083),
    ('BabelStreamSizes', 'bandwidth', False, 'memory channel lost', 0.0),
    ('OsuBandwidth', 'bidirectional_bandwidth', True, 'network rail down', 0.5),
    ('OsuBandwidth', 'bidirectional_bandwidth', False, 'network rail down', 0.0),
])  # fmt: skip
def test_what_a_fault_takes_from_a_series(check, metric, between, fault, loss):
    known = {one.name: one for one in faults.faults()}
    assert known[fault].of(SeriesId('cpu', 'system', check, (), metric), between) == loss
    assert known[fault].source


NIGHTS = {  # check, params: metric, seconds of its trials, nodes
    ('BabelStreamHost', '-'): ('bandwidth', 30.0, ['n1']),
    ('OsuBandwidth', '-'): ('bandwidth', 12.0, ['n1', 'n2']),
    ('HPL', '-'): ('gflops', 3597.0, ['n1', 'n2']),
    ('IOR', '-'): ('bandwidth', 597.0, ['n2']),
    ('BabelStreamDevice', 'device=0,model=cuda'): ('best', 7.0, ['n1']),
    ('BabelStreamDevice', 'device=1,model=cuda'): ('best', 7.0, ['n1']),
}


def night(number, chosen=NIGHTS, uuid='', **session):
    entries = []
    for (check, params), (name, seconds, nodes) in NIGHTS.items():
        if (check, params) in chosen:
            entry = case(check, params, {name: metric([99.9, 100.1])}, nodes=nodes)
            entry['record']['trial_seconds'] = [seconds]
            entries.append(entry)
    content = report(*entries, uuid=uuid or f'night{number:03}', mode='nightly', began=BEGAN + 86400 * number)
    content['session_info'] |= session
    return content


@pytest.fixture
def planned(work, monkeypatch):
    """Three whole nights, the last on 2026-11-23; it is the evening of the 24th."""
    work.reference(*(
        reference(check=check, params=params, metric=name, std='0.5', n='30', mode='nightly')
        for (check, params), (name, *_) in NIGHTS.items()
    ))  # fmt: skip
    work.ingest(*(night(number) for number in range(3)))
    monkeypatch.setattr('postprocess.history.plan.now', lambda: datetime(2026, 11, 24, 10, 38, 51))
    return work


def choose(work, minutes, *arguments, **options):
    return plan.plan(Store(work.results), None, minutes, *arguments, root=work.sites, **options)


def test_a_plan_of_a_site(planned):
    found = choose(planned, 2)
    assert found.budget == 240, 'two minutes on two nodes, those of the largest case'
    assert {look.place.name for look in found.chosen} == {
        'BabelStreamHost', 'OsuBandwidth', 'BabelStreamDevice %device=0 %model=cuda',
        'BabelStreamDevice %device=1 %model=cuda',
    }  # fmt: skip
    assert {look.place.name: look.cost for look in found.chosen}['OsuBandwidth'] == 2 * (12 + 3)
    assert {look.place.name for look in found.too_long} == {'HPL', 'IOR'}
    of = {one.fault.name: one for one in found.coverage}
    # a whole job on one of two nodes; a loss of 8 % of a series that varies by 0.5 % is certain
    assert of['memory channel lost'].tonight == pytest.approx(0.5, abs=1e-3)
    assert of['network rail down'].tonight == pytest.approx(1, abs=1e-3), 'on both nodes'
    assert of['file server slow'].tonight == 0 and of['file server slow'].whole == pytest.approx(1, abs=1e-3)
    # each case sees its device of one node of two
    assert of['GPU memory rows'].tonight == pytest.approx(0.5, abs=1e-2)
    assert not of['metadata server slow'].measured


def test_a_case_that_never_ran_and_one_not_looked_at_for_long_come_first(planned):
    places = {look.place: look.seconds for look in choose(planned, 2).looks}
    new = CaseName('cpu', 'system', 'Mdtest')
    found = choose(planned, 2, places={**places, new: 100.0})
    assert found.chosen[0].place == new and found.reason(found.chosen[0]) == 'rotation: it never ran here'
    only = [key for key in NIGHTS if key[0] != 'IOR']
    planned.ingest(*(night(number, only) for number in range(3, 6)))
    found = choose(planned, 11, None, 2)  # IOR ran last a day and more ago, those that ran later are not due
    assert 'IOR' in {look.place.name for look in found.chosen[: found.rotation]}


def test_a_plan_tells_cases_reasons_and_the_command_that_runs_it(planned):
    answer = planned.run('plan', '--minutes', '2', '--why')
    assert answer.exit_code == 0, answer.output
    assert 'cluster: 4 of 6 cases' in answer.stdout and 'rail down 1.00 (bandwidth)' in answer.stdout
    assert 'longer than the whole budget: HPL (2 h), IOR (10 min)' in answer.stdout
    assert re.match(r'OK: finds .*; `ci/nightly --minutes 2` runs it$', answer.stdout.splitlines()[-1])
    one_node = planned.run('plan', '--minutes', '2', '--nodes', '1').stdout
    assert 'OsuBandwidth' not in one_node.partition('not covered')[0]
    assert '`ci/nightly --minutes 2 --nodes 1` runs it' in one_node.splitlines()[-1]
    document = json.loads(planned.run('plan', '--minutes', '2', '--format', 'json').stdout)
    assert {row['fault']: row['whole'] for row in document['faults']}['network rail down'] == pytest.approx(1, abs=1e-3)
    assert {row['name'] for row in document['cases']} >= {'BabelStreamHost', 'OsuBandwidth'}
    assert all(row['why'] for row in document['cases'])


def test_a_night_that_cannot_be_planned_is_an_error(planned, tmp_path):
    (tmp_path / 'empty').mkdir()
    for minutes, results, says in (
        ('0.1', None, 'no case fits into 0.1 minutes on 2 nodes: the shortest, BabelStreamDevice %device=0'),
        ('2', tmp_path / 'empty', 'holds no session of any site'),
    ):
        answer = planned.run('plan', '--minutes', minutes, results=results)
        assert answer.exit_code == 2 and says in answer.stderr
    planned.reference()
    answer = planned.run('plan', '--minutes', '2')
    assert answer.exit_code == 2 and 'measured shows a fault by a reference' in answer.stderr


def test_a_planned_night_misses_nothing(planned):
    """Of a whole night that lacks cases they are missing; of a narrowed one they are not."""
    few = [('BabelStreamHost', '-'), ('OsuBandwidth', '-')]
    planned.ingest(night(3, few))
    assert {row['verdict'] for row in planned.compare()['verdicts']} == {'ok', 'missing'}
    planned.ingest(night(4, few, plumbline_narrowed_by='["minutes=2"]', plumbline_plan='[{"why": "x"}]'))
    document = planned.compare()
    assert {row['verdict'] for row in document['verdicts']} == {'ok'} and len(document['verdicts']) == 2

# SPDX-License-Identifier: BSD-3-Clause
"""What an incident names of its loss, and how it is made of verdicts and failed jobs."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.record import NOTHING, Summary
from postprocess.incidents.draft import Draft, JudgedSession, pooled_loss
from postprocess.incidents.incident import Incident, Scope, Value, together
from postprocess.verdicts.verdict import Verdict

CASE = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY = CASE.series('triad', ()), CASE.series('copy', ())
OSU = CaseId('cpu', 'system', 'Osu', ()).series('latency', ())


def verdict(of=TRIAD, loss=None, interval=None, case_id=1, value=90.0, better='higher', **fields):
    measured = NOTHING if value is None else Summary(2, value, 1.0, value - 1, value + 1)
    return Verdict(
        'regressed', of, Quantity('GB/s', better), measured, loss=loss, interval=interval, case_id=case_id, **fields
    )  # fmt: skip


def incident(sort='loss', series=(TRIAD,), checks=('STREAM',), where=None, better='higher', unit='GB/s', **fields):
    values = {of: Value(unit, better) for of in series}
    return Incident(
        'NODE', where or Scope('site', 'cpu', nodes=('n1',)), sort, checks, series, ('n1',), values=values, **fields
    )


@each_row(('fields', 'size', 'range_'), [
    ({'loss': 0.07}, '7.0 % less', ''), ({'loss': -0.07, 'interval': (-0.08, -0.06)}, '7.0 % more', '6.0 to 8.0 %'),
    # as many digits as tell the ends apart
    ({'loss': 0.07, 'interval': (0.06999, 0.07001)}, '7.000 % less', '6.999 to 7.001 %'),
    ({'loss': 0.07, 'interval': (0.07, 0.07)}, '7.0 % less', '7.0 to 7.0 %'),
    # a fifth of the performance is lost where a time is 1 / 0.8 = 1.25 times as long; all of it counts as 0.999
    ({'loss': 0.2, 'interval': (0.1, 0.3), 'better': 'lower', 'unit': 'us'}, '25.0 % slower', '11.1 to 42.9 %'),
    ({'loss': 1.0, 'better': 'lower', 'unit': 'us'}, '99900.0 % slower', ''),
    ({'loss': -0.25, 'better': 'lower', 'unit': 'us'}, '20.0 % faster', ''),
    ({'loss': 0.2, 'better': 'lower', 'unit': 'W'}, '25.0 % more', ''),
])  # fmt: skip
def test_the_size_of_a_loss_is_told_in_the_direction_of_its_values(fields, size, range_):
    one = incident(**fields)
    assert (one.size, one.range) == (size, range_)


@each_row(('fields', 'first', 'named'), [
    ({'series': (TRIAD, OSU, COPY), 'checks': ('Osu', 'STREAM')}, 'STREAM size=big triad', '2 other metrics in Osu'),
    ({'checks': ('A', 'B', 'C', 'D', 'E', 'STREAM')}, 'STREAM size=big triad', '6 checks'),
    ({'sort': 'failure', 'cause': 'lost; and more', 'brief': 'lost', 'series': (TRIAD, COPY)}, 'STREAM size=big',
     ': lost ...'),
    ({'sort': 'failure', 'cause': 'lost', 'series': (CASE.series('*', ()),)}, 'STREAM size=big', ': lost'),
    ({'sort': 'failure', 'cause': 'lost', 'series': (), 'checks': ('A', 'B')}, 'A, B', ': lost'),
    ({'sort': 'session', 'cause': '3 cases expected; 2 ran'}, '3 cases', '2 ran'),
])  # fmt: skip
def test_what_is_wrong_is_told_with_the_worst_series_first(fields, first, named):
    one = incident(**fields)
    assert one.subject.startswith(first) and named in one.subject
    assert all(part in one.title for part in ('NODE', 'n1', first))


@each_row(('where', 'said', 'name'), [
    (Scope('site'), 'site', 'STREAM'), (Scope('site', 'cpu', 'system'), 'cpu/system', 'STREAM'),
    (Scope('site', environ='system'), 'site/system', 'STREAM'),
    (Scope('site', 'cpu', nodes=('n1', 'n2')), 'n1, n2', 'n1, n2'),
    (Scope('site', 'gpu', nodes=('g1',), device='device 2'), 'g1 device 2', 'g1 device 2'),
    (Scope('site', 'gpu', link_class='A'), 'link class A of gpu', 'link class A of gpu'),
    (Scope('site', place='rack r3', nodes=('n1',)), 'rack r3 (n1)', 'rack r3 (n1)'),
])  # fmt: skip
def test_a_place_is_named_as_narrow_as_it_is_known(where, said, name):
    assert str(where) == said and incident(where=where).name == name


def test_an_incident_holds_its_series_on_its_own_nodes():
    assert incident().holds(TRIAD, ['n1', 'n2'])
    assert not incident().holds(TRIAD, ['n2']) and not incident().holds(COPY, ['n1'])
    anywhere, of_place = incident(where=Scope('site')), incident(where=Scope('site', place='rack r1'))
    assert anywhere.holds(TRIAD, ['n9']) and anywhere.own_nodes == ()
    assert of_place.holds(TRIAD, ['n1']) and not of_place.holds(TRIAD, ['n9']) and of_place.own_nodes == ('n1',)


def test_the_worst_series_is_told_with_the_lower_end_of_its_interval():
    of = {TRIAD: Value('GB/s', 'higher', loss=0.1, interval=(0.05, 0.15)), COPY: Value('GB/s', 'higher', loss=0.2)}
    assert replace(incident(), values=of).worst == (0.2, 0.2)
    assert replace(incident(), values={TRIAD: of[TRIAD], OSU: Value('us', 'lower')}).worst == (0.05, 0.1)
    assert replace(incident(), values={}).worst is None
    costs = {'cost': 3.0, 'loss': 0.2}
    assert [incident(**{key: costs[key]}).severity for key in costs] == [3.0, 0.2]
    assert incident(sort='failure').severity == 1.0 and incident(sort='session', cost=3.0).severity == math.inf


def test_of_several_incidents_the_costliest_gets_all_of_the_others():
    small = incident(series=(COPY,), cost=1.0, evidence=('a', 'b'), next_steps=('x',), archives=('p',))
    large = replace(
        incident(series=(TRIAD, COPY), cost=2.5, evidence=('b', 'c'), checks=('Osu', 'STREAM'),
                 where=Scope('site', nodes=('n10',))),
        nodes=('n10', 'n9'), values={COPY: Value('GB/s', 'higher', 5.0)},
    )  # fmt: skip
    assert together([small]) is small
    assert together([small, large]) == replace(
        large, cost=3.5, nodes=('n1', 'n9', 'n10'), evidence=('b', 'c', 'a'), next_steps=('x',), archives=('p',),
        values={COPY: Value('GB/s', 'higher', 5.0)}, where=Scope('site', nodes=('n1', 'n10')),
    )  # fmt: skip


# Incidents in the making


def test_a_draft_becomes_an_incident_with_the_largest_loss_of_each_series_first():
    rows = [
        verdict(TRIAD, 0.1, (0.05, 0.15)), verdict(TRIAD, 0.3, (0.2, 0.4), case_id=2, value=70.0),
        verdict(TRIAD, None, case_id=3),
        verdict(COPY, 0.2, (0.1, 0.3)), verdict(OSU, -0.05, (-0.1, 0.0)),
    ]  # fmt: skip
    found = Draft('NODE', Scope('site'), 'loss', rows, cases={CASE}, series={OSU, COPY, TRIAD}, nodes={'n10', 'n9'},
                  loss=0.25, interval=(0.2, 0.3)).finish()  # fmt: skip
    assert (found.checks, found.series, found.nodes) == (('Osu', 'STREAM'), (TRIAD, COPY, OSU), ('n9', 'n10'))
    assert found.values == {
        OSU: Value('GB/s', 'higher', 90.0, 2, None, -0.05, (-0.1, 0.0)),
        COPY: Value('GB/s', 'higher', 90.0, 2, None, 0.2, (0.1, 0.3)),
        TRIAD: Value('GB/s', 'higher', 70.0, 2, None, 0.3, (0.2, 0.4)),
    }
    assert (found.loss, found.interval) == (0.25, (0.2, 0.3))
    assert found.cost == pytest.approx(0.6), '0.1 + 0.3 + 0.2; a gain costs nothing'


@each_row(('sort', 'rows', 'failed', 'loss', 'cost'), [
    ('loss', [], 0, 0.4, 0.4), ('loss', [verdict(loss=0.1)], 0, 0.4, 0.4), ('loss', [verdict(loss=0.5)], 0, 0.4, 0.5),
    ('loss', [verdict()], 0, None, 0.0), ('failure', [verdict(loss=0.5)] * 3, 2, None, 3.0),
    ('failure', [verdict()], 2, None, 2.0), ('session', [], 0, None, 1.0),
])  # fmt: skip
def test_a_loss_costs_its_sum_and_a_failure_each_that_failed(sort, rows, failed, loss, cost):
    draft = Draft('NODE', Scope('site'), sort, rows, [SimpleNamespace(id=CASE)] * failed, loss=loss)
    assert draft.finish().cost == cost


def test_losses_are_pooled_where_they_are_known():
    assert pooled_loss([]) == pooled_loss([verdict(), verdict(loss=1.0)]) == (None, None)
    loss, (low, high) = pooled_loss([verdict(loss=0.1, interval=(0.09, 0.11))])
    assert loss == pytest.approx(0.1, abs=1e-3)
    assert (low, high) == (pytest.approx(0.09, abs=2e-3), pytest.approx(0.11, abs=2e-3))
    # four losses, each a standard error of 0.0056 beside the mean: of one job they have one error in common, with which
    # the interval is as wide as that of one; of four jobs their scatter shows that they have not
    rows = [verdict(loss=loss, interval=(loss - 0.01, loss + 0.01)) for loss in (0.095, 0.105) * 2]
    of_one_job, of_four = (
        pooled_loss([replace(row, case_id=case * number) for number, row in enumerate(rows)])[1] for case in (0, 1)
    )
    assert of_one_job[1] - of_one_job[0] == pytest.approx(0.02, abs=1e-3)
    assert of_four[1] - of_four[0] < 0.018


def test_places_of_the_nodes_that_a_session_used():
    ran = {'cpu': ['n1', 'n2'], 'gpu': ['g1']}
    cases = [SimpleNamespace(partition=part, nodes=nodes, fixture=False) for part, nodes in ran.items()]
    both = {'rack r1', 'switch s1'}
    places = {'n1': both, 'n2': both | {'row 1'}, 'n3': {'rack r1'}, 'g1': {'row 1'}}
    store = SimpleNamespace(cases=lambda session: cases)
    found = JudgedSession(store, SimpleNamespace(session='s', common=[]), [], places)
    assert found.several('cpu') and not found.several('gpu') and not found.several('')
    # of n1 and n2 alone both are in the rack and at the switch; of all nodes the rack has n3, too
    assert found.same_nodes('rack r1', 'cpu') == ('switch s1',) and found.same_nodes('row 1', 'cpu') == ()
    assert found.places_of(['n1', 'n9']) == {'rack r1', 'switch s1'}

# SPDX-License-Identifier: BSD-3-Clause
"""What the comparison of nodes shows, as drafts of incidents: how certain, where, and what a node should have."""

from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row
from run_reports import verdict_of

from plumbline.identity import Quantity, SeriesId
from plumbline.problems import Problem
from postprocess.history.fleet import Event, Fleet, _drain, _lately, _left_out, drain, write_drain
from postprocess.history.fleet_events import _covers, _leave_out, add_events, add_problems
from postprocess.incidents.draft import Draft
from postprocess.incidents.incident import Scope
from postprocess.incidents.ledger import Entry

TRIAD = SeriesId('cpu', 'system', 'STREAM', (), 'triad')


def event(where='n1', change=-20.0, better='higher', **more):
    of = {'kind': 'NODE', 'where': where, 'series': TRIAD, 'quantity': Quantity('GB/s', better), 'count': 1}
    return Event(change=change, how='the other nodes', **of | more)


def drafts_of(*events, nodes=10, values=None):
    """The drafts of a night in which the nodes measured these values."""
    better = events[0].quantity.better
    rows = [
        replace(verdict_of(TRIAD, value, better=better), nodes=(node,))
        for node, value in (values or {'n1': 80}).items()
    ]
    session = SimpleNamespace(site='s')
    night = SimpleNamespace(
        session=session, all_places=('rack 1',), comparison=SimpleNamespace(verdicts=rows, problems=[])
    )
    drafts = []
    add_events(drafts, Fleet(session, nodes, 20, list(events), {}, [], []), night)
    return drafts


@each_row(
    ('change', 'sessions', 'certain'),
    [(-10.0, 1, True), (-9.9, 1, False), (-9.9, 2, True), (-50.0, 1, True), (-50.0, 2, True)],
)
def test_a_loss_of_a_tenth_is_certain_at_once_and_a_smaller_one_after_two_sessions(change, sessions, certain):
    (draft,) = drafts_of(event(change=change, sessions=sessions))
    assert draft.certain is certain and draft.loss == pytest.approx(-change / 100)


@each_row(
    ('better', 'values', 'level', 'ratio'),
    [
        ('higher', {'n1': 80.0, 'n2': 90.0, 'n3': 110.0, 'n4': 130.0}, 100.0, 100 / 110),
        ('lower', {'n1': 125.0, 'n2': 90.0, 'n3': 110.0}, 100.0, 1.0),  # 25 % more time are 20 % less performance
        ('higher', {'n1': 80.0}, 100.0, None),
    ],
)
def test_the_value_that_a_node_should_have_and_its_ratio_to_the_others(better, values, level, ratio):
    (draft,) = drafts_of(event(better=better), values=values)
    (found,) = draft.levels
    assert (found.node, found.value, found.ratio) == ('n1', pytest.approx(level), ratio and pytest.approx(ratio))
    assert draft.values[TRIAD].expected == pytest.approx(level)


def test_a_node_that_measured_nothing_or_several_nodes_have_no_level():
    assert drafts_of(event(), values={'n2': 90.0})[0].levels == []
    assert drafts_of(event(change=-100.0))[0].levels == []
    assert drafts_of(event(where='n1,n2'))[0].levels == []


@each_row(('slow', 'nodes', 'kinds'), [(2, 4, ['NODE'] * 2), (3, 4, ['SYSTEM']), (1, 1, ['NODE']), (2, 3, ['SYSTEM'])])
def test_most_nodes_that_stand_out_alike_are_the_system(slow, nodes, kinds):
    drafts = drafts_of(*(event(f'n{number}', -20.0 - number) for number in range(slow)), nodes=nodes)
    assert [draft.kind for draft in drafts] == kinds
    if kinds == ['SYSTEM']:
        # of 20, 21 and 22 % the middle one; of two the smaller loss
        assert drafts[0].loss == pytest.approx({3: 0.21, 2: 0.20}[slow])
        assert drafts[0].where.nodes == () and drafts[0].where.partition == 'cpu'


def test_where_an_event_is():
    (of_node,) = drafts_of(event(part='device 3'))
    assert (of_node.kind, of_node.where.nodes, of_node.where.device) == ('DEVICE', ('n1',), 'device 3')
    (of_place,) = drafts_of(event('rack 1', kind='FABRIC'))
    assert (of_place.kind, of_place.where.nodes, of_place.where.place) == ('FABRIC', (), 'rack 1')
    same = drafts_of(event(), event(change=-30.0, evidence=('hot',)))
    assert len(same) == 1 and len(same[0].evidence) == 2 and same[0].evidence[1].endswith('the other nodes; hot')


def draft(sort='loss', nodes=(), partition='cpu', series=(TRIAD,), environ='', **more):
    return Draft('SYSTEM', Scope('s', partition, environ, nodes=nodes), sort, series=set(series), **more)


@each_row(('of', 'nodes', 'covers'), [
    (draft(nodes=('n1', 'n2')), ('n1',), True), (draft(nodes=('n2',)), ('n1',), False), (draft(), ('n1',), False),
    (draft('failure', ('n1',)), ('n1',), False), (draft(), (), True), (draft(nodes=('n1',)), (), False),
    (draft(partition='gpu'), (), False), (draft(series=(replace(TRIAD, metric='copy'),)), (), False),
    (draft('failure'), (), False),
])  # fmt: skip
def test_a_loss_of_the_same_nodes_or_series_covers_an_event(of, nodes, covers):
    assert _covers(of, event(), nodes) is covers


def test_what_stands_out_on_a_node_is_left_out_of_the_losses_of_all():
    rows = [replace(verdict_of(of, 80), nodes=nodes) for of, nodes in (
        (TRIAD, ('n1',)), (TRIAD, ('n2',)), (TRIAD, ('n1', 'n2')), (TRIAD, ()), (replace(TRIAD, check='Osu'), ('n1',)),
    )]  # fmt: skip
    of_all, of_node, failed = draft(rows=rows), draft(nodes=('n1',), rows=rows), draft('failure', rows=rows)
    alone = draft(rows=rows[:1])
    _leave_out([of_all, of_node, failed, alone], 'STREAM', {'n1'})
    assert (of_all.rows, of_node.rows, failed.rows) == (rows[1:], rows, rows)
    assert alone.rows == rows[:1], 'a series has no other row'
    assert _leave_out([of_all], 'STREAM', {'n1', 'n2'}) is None and of_all.rows == [*rows[3:]]


@each_row(('problem', 'drafts', 'evidence', 'new'), [
    (Problem('x'), [], [], ('CASE', ())), (Problem('x', 'node lost', 'cpu', nodes=('n1',)), [], [], ('NODE', ('n1',))),
    (Problem('x', 'not measured'), [draft('failure')], ['x'], None),
    (Problem('x', 'not measured'), [draft()], [], ('CASE', ())),
    (Problem('x', 'fixture', 'cpu', 'system'), [draft('failure', environ='system')], ['x'], None),
    (Problem('x', 'fixture', 'cpu', 'system'), [draft('failure', environ='gcc')], [], ('CASE', ())),
    (Problem('x', 'session', 'cpu', 'system'), [draft('failure', environ='system')], [], ('CASE', ())),
    (Problem('x', 'not measured'), [draft('failure', cause='x')], [], None),
])  # fmt: skip
def test_a_problem_is_told_of_what_it_broke_or_is_an_incident_of_its_own(problem, drafts, evidence, new):
    drafts = [replace(one, evidence=[]) for one in drafts]
    before = len(drafts)
    add_problems(drafts, [problem], SimpleNamespace(session=SimpleNamespace(site='s')))
    assert [line for one in drafts[:before] for line in one.evidence] == evidence
    assert [(one.kind, one.where.nodes) for one in drafts[before:]] == ([new] if new else [])
    assert all((one.sort, one.cause) == ('session', 'x') for one in drafts[before:])


SESSIONS = [SimpleNamespace(session=f's{i}', day=f'2026-11-0{i}') for i in range(1, 6)]


@each_row(('session', 'of', 'node', 'drained'), [
    ('s4', {}, 'n1', True), ('s3', {}, 'n1', True), ('s2', {}, 'n1', False), ('s5', {}, 'n1', False),
    ('s4', {'kind': 'FABRIC'}, 'n1', False), ('s4', {}, 'n2', False), ('s4', {'where': 'n1,n2'}, 'n1,n2', False),
])  # fmt: skip
def test_a_node_that_stood_out_in_one_of_the_two_sessions_before_is_to_be_drained(session, of, node, drained):
    found = _drain([event(**of)], [Entry('2026-11-04', session, node, 'NODE', 'x')], SESSIONS)
    assert set(found) == ({'n1'} if drained else set())
    if drained:
        assert '2026-11-05' in found['n1'] and 'STREAM triad -20.0 %' in found['n1']


def test_the_commands_that_drain_are_written_in_the_order_of_the_nodes(tmp_path):
    session = SimpleNamespace(site='s', day='2026-11-05')
    assert write_drain(session, {}, tmp_path) is None and not list(tmp_path.iterdir())
    path = write_drain(session, {'n2': 'b', 'n1': 'a'}, tmp_path)
    assert path == tmp_path / 'proposals/drain-s-2026-11-05.txt'
    assert path.read_text() == f'{drain("n1", "a")}\n{drain("n2", "b")}\n'
    assert "NodeName='a b'" in drain('a b', 'x') and "Reason='plumbline x'" in drain('a b', 'x')


def a_table(*before, tonight=4):
    """Return a table of nodes that ran in `before` of the three sessions before tonight, and in none before these."""
    ran = numpy.full((len(before), 9), numpy.nan)
    for row, n in zip(ran, before, strict=True):
        row[-1 - n : -1] = 1.0
    ran[:tonight, -1] = 1.0
    return SimpleNamespace(nodes=[f'n{i}' for i in range(len(before))], performance=ran)


def test_nodes_that_ran_lately_are_those_of_two_of_three_sessions_before():
    assert _lately([a_table(0, 1, 2, 3)]) == {'n2', 'n3'}
    assert _lately([a_table(3, 3, 3, 3, tonight=3)]) == set(), 'too few ran tonight to be compared'
    early = a_table(3, 3, 3, 3)
    early.performance[:, :-1] = numpy.roll(early.performance[:, :-1], -3, axis=1)
    assert _lately([early]) == set(), 'four sessions ago and earlier'
    pair = a_table(3, 3, 3, 3)
    pair.nodes[0] = 'n1,n2'
    assert _lately([pair, a_table(0, 0, 0, 0)]) == {'n1', 'n2', 'n3'}


def test_metrics_of_fewer_than_four_nodes_are_counted():
    assert _left_out([a_table(1, 1, 1, 1)]) == []
    (said,) = _left_out([a_table(1, 1, 1, 1), a_table(1, 1, 1, 1, tonight=3), a_table(1, 1, 1)])
    assert said.startswith('2 metrics') and '4 nodes' in said

# SPDX-License-Identifier: BSD-3-Clause
"""What the comparison of nodes shows, as drafts of incidents: how certain, where, and what a node should have."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rows import each_row
from run_reports import verdict_of

from plumbline.identity import Quantity, SeriesId
from postprocess.history.fleet import Event, Fleet
from postprocess.history.fleet_events import add_events

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
    night = SimpleNamespace(session=session, all_places=('rack 1',), comparison=SimpleNamespace(verdicts=rows))
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

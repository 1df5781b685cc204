# SPDX-License-Identifier: BSD-3-Clause
"""How views of commands cut what is long, draw what is a course, and say when something was."""

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.history import plan as plans
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Known, Seen
from postprocess.verdicts.verdict import Verdict
from postprocess.views import baseline, incidents, plan, standing, table, verdicts

CASE = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY = CASE.series('triad', ()), CASE.series('copy', ())
RATE = Quantity('GB/s', 'higher')


def stub(**fields):
    return SimpleNamespace(**fields)


# A site


@pytest.fixture
def utc(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv('TZ', 'UTC')
        time.tzset()
        yield
    time.tzset()


@each_row(('then', 'now', 'says'), [
    ('22 23:51', '23 00:09', '18 min ago'), ('22 23:51', '22 23:51', 'just now'), ('22 23:51', '22 23:52', '1 min ago'),
    ('22 23:51', '23 00:50', '59 min ago'), ('22 23:51', '23 00:51', '1 h ago'), ('22 23:51', '23 05:59', '6 h ago'),
    ('22 23:51', '23 06:00', 'last night'), ('22 18:00', '23 23:00', 'last night'),
    ('23 05:59', '23 09:00', 'last night'),
    ('23 06:00', '23 23:30', '17 h ago'), ('22 17:59', '23 09:00', 'yesterday'), ('22 10:38', '23 01:00', 'yesterday'),
    ('20 23:51', '23 00:09', '3 days ago'), ('21 23:51', '23 08:00', '2 days ago'),
    ('23 12:00', '23 11:00', 'just now'),  # another host's clock is ahead
])  # fmt: skip
def test_ages_are_told_as_people_say_them(then, now, says, utc):
    assert standing.ago(*(datetime.fromisoformat(f'2026-11-{time}') for time in (then, now))) == says


def test_which_night_it_was_is_told_in_the_time_zone_of_the_host(utc, monkeypatch):
    then, now = datetime(2026, 11, 22, 13), datetime(2026, 11, 23, 0)
    assert standing.ago(then, now) == '11 h ago'
    monkeypatch.setenv('TZ', 'Asia/Tokyo')  # from 22:00 to 9:00
    time.tzset()
    assert standing.ago(then, now) == 'last night'


# Verdicts


def verdict(kind, of=TRIAD, value=90.0, expected=100.0, **fields):
    reference = expected and Reference(of, RATE, expected, 1.0, 3, 'baseline', 'session x')
    limit = expected and Limits(0.95 * expected, expected, 0.05, 'the floor')
    measured = NOTHING if value is None else Summary(2, value, 1.0, value - 1, value + 1)
    return Verdict(kind, of, RATE, measured, reference, limit, **fields)


@each_row(('levels', 'marks', 'expected', 'limit', 'drawn'), [
    (None, (), 100.0, 95.0, ''), ([], (), 100.0, 95.0, ''),
    # from 95 to 105 in seven steps: 100 is the middle one
    ([95.0, 100.0, None, 105.0], (1, 3), 100.0, 95.0, '▁|▄ |▇'), ([90.0, 100.0, 110.0], (0,), 100.0, 95.0, '|▁▄▇'),
    ([1.0, 2.0], (), None, None, '▁▇'), ([2.0, 2.0], (), None, None, '▁▁'), ([None], (), None, None, ' '),
    ([1.0, 2.0], (), 1.5, None, '▁▇'),
])  # fmt: skip
def test_levels_are_drawn_between_the_lowest_and_the_highest(levels, marks, expected, limit, drawn):
    assert verdicts._sparkline(levels, marks, expected, limit) == drawn


def test_a_row_of_a_verdict_has_each_number_in_its_unit():
    bound = {'loss': 0.1, 'interval': (0.05, 0.15), 'window': 3, 'nodes': ('n1',), 'p': 0.01, 'case_id': 7}
    full = verdicts.to_row(verdict('regressed', **bound), 2)
    expected = {
        'verdict': 'regressed', 'value': 90.0, 'std': 1.0, 'n': 2, 'min': 89.0, 'max': 91.0, 'expected': 100.0,
        'expected_std': 1.0, 'expected_n': 3, 'limit': 95.0, 'limit_why': 'the floor', 'loss': 10.0, 'loss_low': 5.0,
        'loss_high': 15.0, 'window': 3, 'nodes': ['n1'], 'places': 2, 'deviation': pytest.approx(-10.0),
        'gate': 'gated',
        'reference_kind': 'baseline', 'epoch': '', 'reference_source': 'session x', 'sd': None, 'df': None,
        'marks': (), 'history': None, 'case_id': 7,
    }  # fmt: skip
    assert {key: full[key] for key in expected} == expected
    (column,) = [column for column in verdicts.COMPARED if column.key == 'loss']
    assert column.text(full) == '10.0 (5.0 to 15.0) % in 3 sessions'
    none = verdicts.to_row(verdict('no_reference', expected=None))
    assert (none['expected'], none['expected_n'], none['limit'], none['limit_why'], none['loss'], none['loss_low']) == (
        None, None, None, '', None, None,
    )  # fmt: skip
    assert (none['gate'], none['sd'], none['detectable'], none['reference_kind'], none['epoch']) == (
        '',
        None,
        None,
        '',
        '',
    )


# Incidents


def known_incident(id='abc', bad=('n1',), healthy=(), **fields):
    of = {
        'cause': '', 'loss': 0.1, 'interval': (0.08, 0.12), 'since': 's1', 'day': '2026-11-22', 'sessions': 2,
        'changed': ('kernel: a -> b',), 'evidence': ('measured 90', 'others 100', 'third'),
        'values': {TRIAD: Value('GB/s', 'higher', 90.0, 2, 100.0, 0.1, (0.08, 0.12))}, 'archives': ('evidence/x',),
    } | fields  # fmt: skip
    where = of.pop('where', Scope('demo', 'cpu', nodes=('n1',)))
    incident = Incident('NODE', where, 'loss', ('STREAM',), (TRIAD, COPY), ('n1', 'n2'), **of)
    seen = {'s1': Seen('2026-11-22T01:00:00', ('n1',), (), 0.1), 's2': Seen('2026-11-23T01:00:00', bad, healthy, None)}
    return Known(id, incident, seen, results=Path('results'))


def test_incidents_share_the_lines_that_there_are():
    many = [known_incident(f'id{i}') for i in range(4)]
    day = '2026-11-23'
    for most in (3, 4, 5, 9, 16, 40):
        lines = incidents.first_lines(many, day, most)
        assert len(lines) <= most
        named = 4 if most >= 4 else most - 1
        assert [line.split()[0] for line in lines if line.startswith('id')] == [f'id{i}' for i in range(named)]
        assert lines[-1].startswith('and 2 other incidents: plumbline incidents') is (most == 3)
    full = incidents.first_lines(many[:1], day, 40)
    assert '  measured 90' in full and '  others 100' in full and '  third' not in full
    healed = incidents.first_lines([known_incident('abc', (), ('n1', 'n2'))], day, 40)
    assert healed[0].startswith('abc healing: NODE n1: 10.0 % less') and 'measured 90' not in ' '.join(healed)
    said = list(incidents.markdown(many[:1], day))
    assert said[0].startswith('- **open** `id0` NODE n1: 10.0 % less (8.0 to 12.0 %) in STREAM size=big triad')
    assert said[1:] == ['  - changed then: kernel: a -> b', '  - on n2']


def test_a_long_command_can_be_copied_from_its_lines():
    command = ' '.join(['word'] * 40)
    one = known_incident(next_steps=(command,))
    shown = incidents.details(one, '2026-11-23').before
    assert command in ' '.join(shown.replace(' \\\n', ' ').split()) and ' \\\n' in shown


# Any table


def test_what_json_and_csv_cannot_hold_is_left_out():
    assert table.to_json({'a': [float('inf'), 1.5, (float('nan'),)], 'b': {'c': 'x'}}) == (
        '{\n  "a": [\n    null,\n    1.5,\n    [\n      null\n    ]\n  ],\n  "b": {\n    "c": "x"\n  }\n}\n'
    )
    assert [table.as_text(value) for value in (None, {'a': 1}, ('a', 2), 0)] == ['', 'a 1', 'a, 2', '0']
    assert [table.Column('x', title).heading for title in ('n', 'name', None)] == ['n', 'Name', '']
    column = table.Column('x', 'x', unit='%')
    assert [column.text({'x': value}) for value in (1, None)] == ['1 %', '']


# Of many, the first


def proposal(**fields):
    sessions = [
        stub(session=f'night{day}-and-more', short_name=f'night{day}-', day=f'2026-11-{day}') for day in (20, 21)
    ]
    known = {
        'site': 'demo', 'rows': [], 'refused': [], 'taken': sessions, 'left_out': {}, 'unusable': [], 'doubted': False,
        'ended': {}, 'in_force': frozenset(),
    }  # fmt: skip
    return stub(**known | fields)


def test_of_many_sentences_of_a_proposal_the_first_20_are_told():
    left = {f'night{number:03}': 'narrowed' for number in range(22)}
    sessions = [stub(session='', short_name=f'{number:08}', day='2026-11-20') for number in range(21)]
    shown = baseline.proposal(proposal(left_out=left, taken=sessions), None, '', str)
    taken, *notes = shown.notes
    assert taken == 'taken: 21 sessions of 2026-11-20: 00000000, ..., ' + ', '.join(f'{i:08}' for i in range(2, 21))
    assert len(notes) == 21 and notes[19:] == ['left out: session night019: narrowed', 'and 2 sessions more']
    shown = baseline.proposal(proposal(left_out=dict(list(left.items())[:20]), taken=sessions[:20]), None, '', str)
    assert len(shown.notes) == 21 and shown.notes[0].endswith(', '.join(f'{i:08}' for i in range(20)))
    assert shown.notes[-1] == 'left out: session night019: narrowed'
    assert baseline.proposal(proposal(taken=[]), None, '', str).notes == []


def look(name, nodes=1, seconds=60.0):
    return plans.PossibleCase(plans.CaseName('cpu', 'system', name), seconds, nodes, 1.0, None, {})


def a_plan(**fields):
    looks = [look('A'), look('B', 2, 90.0), look('C'), look('D'), look('E')]
    fault = {name: stub(name=name, where='node', source='x') for name in ('slow', 'cold', 'worn', 'none', 'half')}
    known = {
        'site': 'demo', 'minutes': 4.0, 'budget': 240.0, 'longest': 7, 'looks': looks, 'chosen': looks[:2],
        'rotation': 1,
        'coverage': [
            plans.Coverage(fault['slow'], True, 0.9, 0.95, 1.0), plans.Coverage(fault['cold'], True, 0.1, 0.5, 0.2),
            plans.Coverage(fault['worn'], True, 0.1, 0.4, 0.2), plans.Coverage(fault['none'], False, 0.0, 0.0, 0.0),
            plans.Coverage(fault['half'], True, 0.5, 0.5, 0.5),
        ],
        'share': 0.9, 'late': [], 'too_long': [], 'unguarded': 0, 'reason': lambda one: f'why {one.place.name}',
    }  # fmt: skip
    return stub(**known | fields)


def test_a_plan_names_what_it_does_not_find():
    """Of five classes of faults the night finds one well, the whole night one more, and of one there is no case."""
    shown = plan.plan(a_plan(late=a_plan().looks, unguarded=2), why=False)
    uncovered = [line.rpartition(': ')[2] for line in shown.after.splitlines() if line.startswith('not covered')]
    assert uncovered[:3] == ['cold', 'worn', 'none']
    assert uncovered[3].startswith('A (1 min), B (3 min), C (1 min)')
    assert 'nothing judges 2 series' in shown.after
    # 0.9 + 0.1 + 0.1 + 0.5 and 0.95 + 0.5 + 0.4 + 0.5
    assert '1.6 of 4' in shown.after and '2.4' in shown.after


def compared(*rows, **fields):
    known = {
        'verdicts': rows, 'problems': [], 'common': [], 'hints': [], 'guard': 'all', 'nothing_to_compare_with': False,
        'scope': 'two sessions', 'word': 'FAILED', 'headline': '1 regressed', 'exit_code': 1, 'counts': {},
        'session': stub(site='demo', session='s1', started=datetime(2026, 11, 23, 1), mode='quick', narrowed_by=()),
    }  # fmt: skip
    return stub(**known | fields)


def test_the_first_ten_warnings_that_belong_to_no_incident_are_told():
    rows = [verdict('warning', CASE.series(f'm{i:02}', ()), cause=f'busy {i}') for i in range(12)]

    def told(rows, known=()):
        digest = stub(known=known, day='2026-11-23', word='OK', headline='2 ok')
        text = verdicts.summary(compared(*rows), digest)
        return [line.split()[-2:] for line in text.splitlines() if 'busy' in line or 'more' in line]

    assert told(rows)[9:] == [['busy', '9'], ['2', 'more']] and len(told(rows[:10])) == 10
    one = known_incident()
    one = replace(one, incident=replace(one.incident, series=(rows[0].id,)))
    assert told(rows[:2], [one]) == [['busy', '1']]

# SPDX-License-Identifier: BSD-3-Clause
"""How views cut what is long, draw what is a course and say when something was; one description of columns for all."""

import csv
import io
import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Known
from postprocess.incidents.part import Part, Seen
from postprocess.text import percent, quantity
from postprocess.verdicts.verdict import Verdict
from postprocess.views import incidents, standing, verdicts
from postprocess.views.table import Column, View, to_markdown

CASE = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY = CASE.series('triad', ()), CASE.series('copy', ())
RATE = Quantity('GB/s', 'higher')
RESULTS = Path('results')


def stub(**fields):
    return SimpleNamespace(**fields)


# A site


@each_row(('then', 'now', 'says'), [
    ('22 23:51', '22 23:51', 'just now'), ('22 23:51', '23 00:50', '59 min ago'), ('22 23:51', '23 05:59', '6 h ago'),
    ('22 10:38', '23 10:37', '23 h ago'), ('22 10:38', '23 10:38', 'yesterday'), ('20 23:51', '23 00:09', '3 days ago'),
    ('23 12:00', '23 11:00', 'just now'),  # another host's clock is ahead
])  # fmt: skip
def test_ages_are_told_as_people_say_them(then, now, says):
    assert standing.ago(*(datetime.fromisoformat(f'2026-11-{time}') for time in (then, now))) == says


# Verdicts


def verdict(kind, of=TRIAD, value=90.0, expected=100.0, **fields):
    reference = expected and Reference(of, RATE, expected, 1.0, 3, 'baseline', 'session x')
    limit = expected and Limits(0.95 * expected, expected, 0.05, 'the floor')
    measured = NOTHING if value is None else Summary(2, value, 1.0, value - 1, value + 1)
    return Verdict(kind, of, RATE, measured, reference, limit, **fields)


@each_row(('levels', 'marks', 'expected', 'limit', 'drawn'), [
    (None, (), 100.0, 95.0, ''),
    # from 95 to 105 in seven steps: 100 is the middle one
    ([95.0, 100.0, None, 105.0], (1, 3), 100.0, 95.0, '▁|▄ |▇'), ([90.0, 100.0, 110.0], (0,), 100.0, 95.0, '|▁▄▇'),
    ([1.0, 2.0], (), None, None, '▁▇'), ([2.0, 2.0], (), None, None, '▁▁'), ([None], (), None, None, ' '),
])  # fmt: skip
def test_levels_are_drawn_between_the_lowest_and_the_highest(levels, marks, expected, limit, drawn):
    assert verdicts._sparkline(levels, marks, expected, limit) == drawn


def test_a_row_of_a_verdict_has_each_number_in_its_unit():
    full = verdicts.to_row(verdict('regressed', loss=0.1, interval=(0.05, 0.15), window=3, nodes=('n1',)), 2)
    expected = {
        'value': 90.0, 'std': 1.0, 'n': 2, 'min': 89.0, 'max': 91.0, 'expected': 100.0, 'expected_std': 1.0,
        'expected_n': 3, 'limit': 95.0, 'loss': 10.0, 'loss_low': 5.0, 'loss_high': 15.0,
        'deviation': pytest.approx(-10.0), 'nodes': ['n1'], 'places': 2, 'gate': 'gated',
        'reference_kind': 'baseline', 'reference_source': 'session x',
    }  # fmt: skip
    assert {key: full[key] for key in expected} == expected
    (column,) = [column for column in verdicts.COMPARED if column.key == 'loss']
    assert column.text(full) == '10.0 (5.0 to 15.0) % in 3 sessions'
    none = verdicts.to_row(verdict('no_reference', expected=None))
    assert {none[key] for key in ('expected', 'expected_n', 'limit', 'loss', 'loss_low')} == {None}
    assert {none[key] for key in ('gate', 'limit_why', 'reference_kind')} == {''}


# Incidents


def known_incident(id='abc', bad=('n1',), healthy=(), **fields):
    of = {
        'cause': '', 'loss': 0.1, 'interval': (0.08, 0.12), 'since': 's1', 'day': '2026-11-22', 'sessions': 2,
        'series': (TRIAD, COPY),
        'changed': ('kernel: a -> b',), 'evidence': ('measured 90', 'others 100', 'third'),
        'values': {TRIAD: Value('GB/s', 'higher', 90.0, 2, 100.0, 0.1, (0.08, 0.12))}, 'archives': ('evidence/x',),
    } | fields  # fmt: skip
    where = of.pop('where', Scope('demo', 'cpu', nodes=('n1',)))
    incident = Incident('NODE', where, 'loss', ('STREAM',), of.pop('series'), ('n1', 'n2'), **of)
    seen = {'s1': Seen('2026-11-22T01:00:00', ('n1',), (), 0.1), 's2': Seen('2026-11-23T01:00:00', bad, healthy, None)}
    return Known(id, (Part(id, incident, seen),))


def test_incidents_share_the_lines_that_there_are():
    many = [known_incident(f'id{i}') for i in range(4)]
    day = '2026-11-23'
    for most in (3, 4, 5, 9, 16, 40):
        lines = incidents.first_lines(many, day, most, RESULTS)
        assert len(lines) <= most
        named = 4 if most >= 4 else most - 1
        assert [line.split()[0] for line in lines if line.startswith('id')] == [f'id{i}' for i in range(named)]
        assert lines[-1].startswith('and 2 other incidents: plumbline incidents') is (most == 3)
    full = incidents.first_lines(many[:1], day, 40, RESULTS)
    assert '  measured 90' in full and '  others 100' in full and '  third' not in full
    healed = incidents.first_lines([known_incident('abc', (), ('n1', 'n2'))], day, 40, RESULTS)
    assert healed[0].startswith('abc healing: NODE n1: 10.0 % less') and 'measured 90' not in ' '.join(healed)
    said = list(incidents.markdown(many[:1], day))
    assert said[0].startswith('- **open** `id0` NODE n1: 10.0 % less (8.0 to 12.0 %) in STREAM size=big triad')
    assert said[1:] == ['  - changed then: kernel: a -> b', '  - on n2']


def test_a_long_command_can_be_copied():
    command = ' '.join(['word'] * 40)
    one = known_incident(next_steps=(command,))
    assert f'  $ {command}' in incidents.details(one, '2026-11-23', RESULTS).before.splitlines()


def test_the_first_ten_warnings_that_belong_to_no_incident_are_told():
    rows = [verdict('warning', CASE.series(f'm{i:02}', ()), cause=f'busy {i}') for i in range(12)]

    def told(rows, known=()):
        comparison = stub(
            verdicts=rows, problems=[], common=[], hints=[], guard='all', nothing_to_compare_with=False, counts={},
            scope='two sessions', word='FAILED', headline='1 regressed', exit_code=1,
            session=stub(site='demo', session='s1', started=datetime(2026, 11, 23), mode='quick', narrowed_by=()),
        )  # fmt: skip
        digest = stub(known=known, results=RESULTS, when='2026-11-23T04:00:00', word='OK', headline='2 ok')
        text = verdicts.summary(comparison, digest)
        return [line.split()[-2:] for line in text.splitlines() if 'busy' in line or 'more' in line]

    assert told(rows)[9:] == [['busy', '9'], ['2', 'more']] and len(told(rows[:10])) == 10
    one = known_incident(series=(rows[0].id,))
    assert told(rows[:2], [one]) == [['busy', '1']]


# Any table

COLUMNS = [
    Column('name', 'name'),
    Column('mean', 'measured', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('unit'),
    Column('change', 'change', percent, number=True),
    Column('nodes', 'nodes'),
]
ROWS = [
    {'name': 'a|b', 'mean': 61.4, 'std': 0.35, 'unit': 'GB/s', 'change': -3.14, 'nodes': ['n1', 'n2']},
    {'name': 'none', 'mean': None, 'std': None, 'unit': 'GB/s', 'change': None, 'nodes': ()},
    {'name': 'wild', 'mean': float('inf'), 'std': None, 'unit': 's', 'change': 0.0, 'nodes': ['n1']},
]
VIEW = View(COLUMNS, ROWS, before='above', after='below', name='rows', document={'site': 'x'})


def test_people_see_the_columns_with_a_title_formatted():
    above, empty, header, rule, *rows, after_rows, below = VIEW.render('table').splitlines()
    assert (above, empty, after_rows, below) == ('above', '', '', 'below')
    assert header.split() == ['name', 'measured', 'change', 'nodes']
    assert set(rule) == {'-', ' '}
    assert rows[0].split('  ')[0] == 'a|b'
    assert '61.4 ± 0.35 GB/s' in rows[0] and '-3.1 %' in rows[0] and 'n1, n2' in rows[0]
    assert rows[1] == 'none'


@pytest.mark.parametrize(('width', 'left'), [(40, 'abc'), (34, 'ac'), (18, 'a')])
def test_columns_give_way_by_their_priority_and_a_text_keeps_its_width(width, left):
    columns = [Column('a', 'a', priority=1, width=8), Column('b', 'b', priority=3), Column('c', 'c', priority=2)]
    text = View(columns, [dict.fromkeys('abc', 'x' * 30)]).render('table', width)
    assert ''.join(text.splitlines()[0].split()) == left
    first = min(len(cell) for cell in text.splitlines()[2].split('  '))
    assert first >= 8


@pytest.mark.parametrize('width', [200, 60, 40, 20])
def test_a_table_fits_the_terminal_and_says_what_is_left_out(width):
    names = 'abcdefgh'
    columns = [Column(name, name * 5, priority=1 if name == 'h' else 2) for name in names]
    text = View(columns, [{name: name * 20 for name in names}]).render('table', width)
    head, _, row, *note = text.splitlines()
    assert max(map(len, (head, row))) <= width and head.split()[-1] == 'hhhhh'
    left_out = len(names) - len(head.split())
    assert note == ([f'{left_out} more columns on a wider terminal, and in --format csv'] if left_out else [])


def test_markdown_for_a_comment_is_short_enough_and_says_what_is_left_out():
    rows = [{'a': f'row {i} ' + 'x' * 60} for i in range(2000)]
    text = View([Column('a', 'a')], rows, markdown='**FAILED**\n' + '- why\n' * 20_000).render('markdown')
    assert 50_000 < len(text) <= 60_000
    assert text.startswith('**FAILED**\n') and '<summary>2000 verdicts, the first ' in text and 'row 0 ' in text


def test_programs_get_every_key_and_the_plain_values():
    rows = list(csv.DictReader(io.StringIO(VIEW.render('csv'))))
    assert list(rows[0]) == ['name', 'mean', 'std', 'unit', 'change', 'nodes']
    assert (rows[0]['change'], rows[0]['nodes'], rows[1]['mean']) == ('-3.14', 'n1; n2', '')
    document = json.loads(VIEW.render('json'), parse_constant=lambda name: pytest.fail(f'{name} is no JSON'))
    assert document['site'] == 'x'
    assert document['rows'][0] == ROWS[0]
    assert document['rows'][2]['mean'] is None


@each_row('format', ['table', 'markdown', 'csv'])
def test_a_table_without_rows_is_no_error(format):
    assert View(COLUMNS, []).render(format).endswith('\n')


def test_text_of_others_is_no_markup_in_a_table():
    row = {'a': 'n1 | `x` <img src=x> *b*\n[l](u) \\| &lt;', 'b': 1}
    (_, _, line) = to_markdown([row], [Column('a', 'a'), Column('b', 'b')]).splitlines()
    assert line == r'| n1 \| \`x\` \<img src=x> \*b\* \[l\](u) \\\| \&lt; | 1 |'

# SPDX-License-Identifier: BSD-3-Clause
"""One description of columns, in every format."""

import csv
import io
import json

import pytest
from rows import each_row

from postprocess.text import quantity, signed
from postprocess.views.table import Column, View, to_markdown

COLUMNS = [
    Column('name', 'name'),
    Column('mean', 'measured', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('unit'),
    Column('change', 'change', signed, '%', number=True),
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


def test_markdown_has_as_many_cells_in_every_line():
    lines = [line for line in VIEW.render('markdown').splitlines() if line.startswith('|')]
    assert len(lines) == 2 + len(ROWS)
    assert {line.replace('\\|', '').count('|') for line in lines} == {5}


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

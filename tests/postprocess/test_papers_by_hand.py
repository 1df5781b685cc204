# SPDX-License-Identifier: BSD-3-Clause
"""Single cells of the tables of the papers: units, digits, percent of a peak, formulas and contradictions."""

import math
import re
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.papers import annex, energy, tables
from postprocess.papers.tables import CELL
from postprocess.verdicts.measured import pool

STREAM = CaseId('cpu', 'system', 'STREAM', (('size', 'big'), ('threads', '4')))


def number(mean=100.0, std=None, n=3, unit='GB/s', printed='', note='', kind='published'):
    id = STREAM.series('triad', ())
    return Reference(id, Quantity(unit, 'higher'), mean, std, n, kind, '001 Table 7', note=note, printed=printed)


PARTITION = SimpleNamespace(peaks={'memory_bandwidth': 200e9}, published_peaks={'flops': 1e12})


@each_row(('row', 'column', 'entry', 'shown'), [
    (number(12.345, 0.5), {}, {}, {'text': '12.35 ± 0.50', 'mean': 12.345, 'std': 0.5}),
    (number(12.345, 0.5), {'spread': False}, {}, {'text': '12.35', 'mean': 12.345, 'std': 0.5}),
    (number(12.345, 0.5), {'unit': 'MB/s', 'format': '.0f'}, {},
     {'text': '12345 ± 500', 'mean': 12345.0, 'std': 500.0, 'unit': 'MB/s'}),
    (number(12.345), {'times': 10, 'format': '.1f'}, {}, {'text': '123.5', 'mean': 123.45}),
    # 100 GB/s of 200 GB/s; of a peak of the row, and of two nodes
    (number(), {'percent_of': 'memory_bandwidth'}, {},
     {'text': '50.00', 'mean': 50.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'memory_bandwidth'}, {'nodes': '2'},
     {'text': '25.00', 'mean': 25.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'memory_bandwidth'}, {'peak': '400 GB/s'},
     {'text': '25.00', 'mean': 25.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(50.0, unit='GFlop/s'), {'percent_of': 'flops'}, {},
     {'text': '5.00', 'mean': 5.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'none'}, {}, None),
    (number(63.0, printed='63.0'), {'format': 'g'}, {}, {'text': '63.0', 'mean': 63.0}),
    (number(63.0, printed='63.0e0'), {'format': 'g'}, {}, {'text': '63', 'mean': 63.0}),
    (number(63.0, printed='63.0'), {'format': 'g', 'times': 2}, {}, {'text': '126', 'mean': 126.0}),
    (number(63.0, 1.2345, printed='63.0'), {'format': 'printed'}, {}, {'text': '63.0 ± 1.23', 'mean': 63.0,
    'std': 1.2345}),
    (number(note='middle of 90.5 to 109.5 of it'), {}, {}, {'text': '90.5 to 109.5', 'mean': 100.0}),
    (number(note='twice', kind='invalid'), {}, {}, {'text': '100.00', 'mean': 100.0, 'fault': 'twice'}),
])  # fmt: skip
def test_a_number_is_shown_in_the_unit_of_its_column(row, column, entry, shown):
    known = {'std': None, 'n': 3, 'unit': 'GB/s', 'source': '001 Table 7', 'fault': ''}
    found = tables._shown(row, {'title': 'x'} | column, entry, PARTITION)
    assert found == (CELL if shown is None else known | shown)


def test_numbers_of_unlike_kinds_are_refused():
    said = 'STREAM triad (001 Table 7) is in GB/s, and the column Power in W'
    with pytest.raises(InputError, match=re.escape(said)):
        tables._shown(number(), {'title': 'Power', 'unit': 'W'}, {}, PARTITION)
    with pytest.raises(InputError, match='is in GB/s, and the column x in GFlop/s'):
        tables._shown(number(), {'title': 'x', 'unit': 'GFlop/s'}, {}, PARTITION)


@each_row(('value', 'printed', 'shown'), [
    (9.161, '9.16', '9.16'), (0.0286, '0.029', '0.029'), (12345.0, '9447', '12345'), (123.4, '86.5', '123.'),
    (99.94, '86.5', '99.9'), (1.0, '4e-3', '1.'), (1.5, '', '2'), (1000.0, '123', '1000'), (999.0, '123', '999.'),
])  # fmt: skip
def test_a_number_keeps_the_significant_digits_of_its_source(value, printed, shown):
    assert f'{value:{tables._as_printed(value, printed)}}' == shown


@each_row(('text', 'off'), [
    # half of the last digit
    ('9.16', 0.5 / 916), ('63 ± 1.5', 0.5 / 63), ('', 0.0), ('0.05', 0.1),
])  # fmt: skip
def test_a_printed_number_is_rounded(text, off):
    assert tables._rounding(text) == pytest.approx(off)


def cell(text, mean, unit, source='001 Table 7'):
    return CELL | {'text': text, 'mean': mean, 'unit': unit, 'source': source}


def test_a_formula_is_computed_of_the_columns_before_it_and_of_words_of_the_row():
    """10 W x 2 nodes x 5000 ms are 100 J."""
    cells = [
        ({'title': 'Power', 'group': 'All'}, cell('10', 10.0, 'W')), ({'title': 'Time'}, cell('5.0', 5000.0, 'ms',
        'x')),
        ({'title': 'Energy'}, cell('130', 130.0, 'J')),
    ]  # fmt: skip
    column = {'computed': 'energy', 'of': ['All Power', 'Time', 'nodes'], 'unit': 'J', 'title': 'E'}
    found = tables._computed(column, {'nodes': '2'}, cells)
    assert found == CELL | {
        'text': '100.00', 'mean': pytest.approx(100.0), 'unit': 'J', 'source': 'computed from 001 Table 7, x',
    }  # fmt: skip
    assert cells[2][1]['fault'] == ''
    # off by 30 of 130: 23 %, and rounding explains 0.5 / 10 + 0.5 / 50 + 0.5 / 130 of it
    for within, fault in (
        (0.16, 'off by 23% from what follows from the other columns, expected 22% at most'),
        (0.17, ''),
    ):
        cells[2][1]['fault'] = ''
        tables._computed(column | {'agrees_with': 'Energy', 'within': within}, {'nodes': '2'}, cells)
        assert cells[2][1]['fault'] == fault
    tables._computed(column | {'agrees_with': 'Energy', 'within': 0.01}, {'nodes': '2'}, cells)
    tables._computed(column | {'agrees_with': 'Energy', 'within': 0.01}, {'nodes': '2'}, cells)
    assert cells[2][1]['fault'].count('off by 23%') == 2 and '; ' in cells[2][1]['fault']
    assert tables._computed(column, {}, cells) == CELL
    cells[0][1]['mean'] = None
    assert tables._computed(column, {'nodes': '2'}, cells) == CELL
    assert (
        tables._computed(column | {'format': '.0f'}, {'nodes': '2'}, [*cells[1:], (cells[0][0], cell('9', 9e3, 'W'))])[
            'text'
        ]
        == '90000'
    )


def test_the_formulas_of_the_papers():
    assert (energy.energy(10.0, 5.0), energy.energy(10.0, 5.0, 3), energy.energy_delay(10.0, 5.0)) == (
        50.0,
        150.0,
        50.0,
    )
    assert (energy.efficiency(10.0, 4.0), energy.power(10.0, 4.0)) == (2.5, 2.5)
    # 2 / 3 x 30^3 + 3 / 2 x 30^2 = 18000 + 1350
    assert energy.hpl_seconds(30.0, 10.0) == pytest.approx(1935.0)
    assert (
        energy.contradiction(100.0, 106.0, 0.05)
        == 'off by 6% from what follows from the other columns, expected 5% at most'
    )
    assert energy.contradiction(100.0, 94.0, 0.07) == '' and energy.contradiction(100.0, 105.0, 0.05) == ''
    assert energy.contradiction(50.0, 56.0, 0.1).startswith('off by 12%')


@each_row(('wanted', 'partition', 'fits'), [
    ({}, 'cpu', True), ({}, 'gpu', False), ({'check': 'Osu'}, 'cpu', False), ({'metric': 'copy'}, 'cpu', False),
    ({'dims': {'a': '1'}}, 'cpu', False), ({'params': {'size': 'big'}}, 'cpu', True),
    ({'params': {'size': 'small'}}, 'cpu', False), ({'params': {'size': 'big', 'x': None}}, 'cpu', True),
    ({'params': {'size': None}}, 'cpu', False), ({'params': {'size': 'big', 'threads': '8'}}, 'cpu', False),
])  # fmt: skip
def test_a_number_fits_the_source_of_a_column(wanted, partition, fits):
    assert tables._fits(number(), partition, {'check': 'STREAM', 'metric': 'triad'} | wanted) is fits


def test_numbers_of_one_column_are_pooled():
    """10 +- 1 of three and 20 of one: 12.5; squares 2 x 1 + 3 x 2.5^2 + 7.5^2 = 77, of three degrees of freedom."""
    one, two = number(10.0, 1.0, 3), number(20.0, None, 1)
    assert tables._together([one], {}) is one
    both = tables._together([one, two], {'title': 'x'})
    assert (both.mean, both.std, both.n) == (12.5, pytest.approx(math.sqrt(77 / 3)), 4)
    with pytest.raises(InputError, match='2 rows belong into the column x; expected n in each, or one row'):
        tables._together([one, number(n=None)], {'title': 'x'})
    assert pool([NOTHING]) == NOTHING
    assert pool([Summary(1, 5.0, None, 5.0, 5.0)]) == Summary(1, 5.0, None, 5.0, 5.0)
    assert pool([Summary(1, 5.0, None, 5.0, 5.0), NOTHING, Summary(1, 7.0, None, 7.0, None)]) == Summary(
        2, 6.0, pytest.approx(math.sqrt(2)), 5.0, None
    )


def test_blanks_of_a_source_are_filled_by_words_of_the_row():
    source = {'check': 'STREAM', 'params': {'isa': '{isa}', 'x': None}, 'n': 8}
    assert tables._filled(source, {'isa': 'sse'}) == {'check': 'STREAM', 'params': {'isa': 'sse', 'x': None}, 'n': '8'}
    with pytest.raises(KeyError):
        tables._filled(source, {})


def test_a_row_of_the_annex_has_its_figures_in_their_units():
    row = dict.fromkeys(annex.rows()[0], '') | {
        'table': '36', 'code': 'hydro-x', 'prototype': 'BSC-1', 'site': 'tegra2', 'partition': 'node', 'size': '100',
        'n': '3', 'time': '2.0', 'power': '10.5', 'rate': '4e3', 'spread': '1.5 2', 'invalid': 'power rate',
        'note': 'odd',
    }  # fmt: skip
    found = annex._figures(row)
    assert list(found) == ['time', 'power', 'rate']
    id = CaseId('node', '*', 'hydro-x', ())

    def of(name, unit, better, mean, std, kind, printed):
        return Reference(
            id.series(name, ()), Quantity(unit, better), mean, std, 3, kind, '001 Table 36', note='odd', printed=printed
        )

    assert found == {
        'time': of('time', 's', 'lower', 2.0, pytest.approx(0.03), 'unmeasured', '2.0'),
        'power': of('power', 'W', 'lower', 10.5, pytest.approx(0.21), 'invalid', '10.5'),
        'rate': of('rate', 'kU/s', 'higher', 4000.0, None, 'invalid', '4e3'),
    }
    assert {name: one.quantity for name, one in found.items()} == {
        'time': Quantity('s', 'lower'), 'power': Quantity('W', 'lower'), 'rate': Quantity('kU/s', 'higher'),
    }  # fmt: skip
    assert [one.printed for one in found.values()] == ['2.0', '10.5', '4e3']


def test_an_entry_of_the_annex_has_its_words_and_its_share_of_the_peak(monkeypatch):
    base = dict.fromkeys(annex.rows()[0], '') | {
        'table': '36', 'code': 'a', 'prototype': 'BSC-1', 'site': 's', 'partition': 'p', 'size': '100', 'n': '1',
        'rate': '4',
    }  # fmt: skip
    rows = (base, base | {'nodes': '2', 'threads': '1', 'fill': '5', 'model': 'MPI', 'peak': '3 GFlop/s'},
    base | {'peak': 'none'},
            base | {'code': 'b'})  # fmt: skip
    monkeypatch.setattr(annex, 'rows', lambda: rows)
    first, second, third = annex.entries('a')
    assert {key: value for key, value in first.items() if key != 'printed'} == {
        'title': '36: BSC-1, 100', 'site': 's', 'partition': 'p', 'nodes': '1', 'texts': {},
    }  # fmt: skip
    assert {key: value for key, value in second.items() if key != 'printed'} == {
        'title': '36: BSC-1, 2 nodes, 1 thread, 100 5 %', 'site': 's', 'partition': 'p', 'nodes': '2',
        'texts': {'Model': 'MPI'}, 'peak': '3 GFlop/s',
    }  # fmt: skip
    assert first['printed'].keys() == second['printed'].keys() == {'rate', 'share'} and third['printed'].keys() == {
        'rate'
    }
    assert 'peak' not in third and first['printed']['share'].mean == 4.0

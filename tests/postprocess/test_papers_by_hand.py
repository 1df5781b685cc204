# SPDX-License-Identifier: BSD-3-Clause
"""Single cells of the tables of the papers: units, digits, percent of a peak, and formulas."""

from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.references import Reference
from postprocess.papers import energy, tables
from postprocess.papers.tables import CELL

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
    (number(), {'percent_of': 'memory_bandwidth'}, {'peak': '400 GB/s', 'nodes': '2'},
     {'text': '12.50', 'mean': 12.5, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(50.0, unit='GFlop/s'), {'percent_of': 'flops'}, {},
     {'text': '5.00', 'mean': 5.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'none'}, {}, None),
    (number(63.0, printed='63.0'), {'format': 'g'}, {}, {'text': '63.0', 'mean': 63.0}),
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


@each_row(('value', 'printed', 'shown'), [
    (9.161, '9.16', '9.16'), (0.0286, '0.029', '0.029'), (12345.0, '9447', '12345'), (123.4, '86.5', '123.'),
    (99.94, '86.5', '99.9'), (1.0, '4e-3', '1.'), (1.5, '', '2'), (1000.0, '123', '1000'), (999.0, '123', '999.'),
])  # fmt: skip
def test_a_number_keeps_the_significant_digits_of_its_source(value, printed, shown):
    assert f'{value:{tables._as_printed(value, printed)}}' == shown


def test_the_formulas_of_the_papers():
    assert (energy.energy(10.0, 5.0, 3), energy.energy_delay(10.0, 5.0)) == (150.0, 50.0)
    assert (energy.efficiency(10.0, 4.0), energy.power(10.0, 4.0)) == (2.5, 2.5)
    # 2 / 3 x 30^3 + 3 / 2 x 30^2 = 18000 + 1350
    assert energy.hpl_seconds(30.0, 10.0) == pytest.approx(1935.0)
    assert energy.contradiction(100.0, 94.0, 0.07) == '' and energy.contradiction(100.0, 105.0, 0.05) == ''
    assert energy.contradiction(50.0, 56.0, 0.1).startswith('off by 12%')

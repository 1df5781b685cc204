# SPDX-License-Identifier: BSD-3-Clause
"""Units: the factor of each to the base unit of its dimension, which direction is better, and durations."""

import pytest
from rows import each_row

from plumbline.units import UNITS, better, dimension, factor, in_base_unit, number_in, seconds

# Written out: a wrong factor would move each peak and limit that is stated in the unit
FACTORS = {
    'B/s': 1, 'kB/s': 1000, 'KiB/s': 1024, 'TiB/s': 1_099_511_627_776, 'kFlop/s': 1000,
    'EFlop/s': 1_000_000_000_000_000_000, 'kB': 1000, 'MB': 1_000_000, 'TB': 1_000_000_000_000,
    'PB': 1_000_000_000_000_000, 'PiB': 1_125_899_906_842_624, 'kHz': 1000, 'kJ': 1000,
    'MB/s': 1_000_000, 'GB/s': 1_000_000_000, 'TB/s': 1_000_000_000_000, 'MiB/s': 1_048_576,
    'GiB/s': 1_073_741_824, 'Flop/s': 1, 'MFlop/s': 1_000_000, 'GFlop/s': 1_000_000_000,
    'TFlop/s': 1_000_000_000_000, 'PFlop/s': 1_000_000_000_000_000, 'B': 1, 'KiB': 1024, 'MiB': 1_048_576,
    'GiB': 1_073_741_824, 'TiB': 1_099_511_627_776, 'GB': 1_000_000_000, 'Hz': 1, 'MHz': 1_000_000,
    'GHz': 1_000_000_000, 's': 1, 'ms': 0.001, 'us': 0.000_001, 'ns': 0.000_000_001, 'Up/s': 1,
    'GUp/s': 1_000_000_000, 'kU/s': 1000, 'ops/s': 1, 'GTEPS': 1_000_000_000, 'Flop/cycle': 1, 'B/cycle': 1, '1': 1,
    'W': 1, 'kW': 1000, 'MW': 1_000_000, 'J': 1, 'MJ': 1_000_000, 'kWh': 3_600_000, 'J s': 1,
    'kWh h': 12_960_000_000, 'MB/J': 1_000_000, 'GB/J': 1_000_000_000, 'MFlop/J': 1_000_000,
    'GFlop/J': 1_000_000_000, 'kU/J': 1000,
}  # fmt: skip


def test_the_factor_of_each_unit():
    assert UNITS == FACTORS


@each_row(
    ('unit', 'to', 'times'),
    [
        ('GB/s', 'MB/s', 1000), ('ms', 's', 0.001), ('GB/s', 'GB', None), ('GB', 'GB/s', None), ('s', 'W', None),
        ('furlongs', 'furlongs', 1), ('furlongs', 's', None), ('s', 'furlongs', None),
    ],
)  # fmt: skip
def test_a_unit_becomes_another_of_its_kind_only(unit, to, times):
    assert factor(unit, to) == (times and pytest.approx(times))


@each_row(
    ('text', 'number'),
    [('614.4 GB/s', 614_400_000_000), ('256 GiB', 274_877_906_944), ('100 ms', 0.1), ('2 kWh', 7_200_000)],
)
def test_a_quantity_in_its_base_unit(text, number):
    assert in_base_unit(text) == pytest.approx(number)


@each_row('text, of', [('5 furlongs', None), ('5GB/s', None), ('5 GB/s', 'time'), ('fast GB/s', None)])
def test_another_form_or_dimension_is_refused(text, of):
    with pytest.raises(ValueError):
        in_base_unit(text, of)


@each_row(
    ('unit', 'of', 'best'),
    [
        ('GB/s', 'bandwidth', 'higher'), ('PFlop/s', 'Flop rate', 'higher'), ('GUp/s', 'rate', 'higher'),
        ('GFlop/J', 'efficiency', 'higher'), ('GHz', 'frequency', 'higher'), ('us', 'time', 'lower'),
        ('kW', 'power', 'lower'), ('kWh', 'energy', 'lower'), ('J s', 'energy-delay product', 'lower'),
        ('GiB', 'size', None), ('1', 'number', None),
    ],
)  # fmt: skip
def test_which_direction_is_better(unit, of, best):
    assert (dimension(unit), better(unit)) == (of, best)


@each_row('text, number', [('1d12h', 129_600), ('90m', 5400), ('1h0m1s', 3601), ('45s', 45)])
def test_a_duration_in_seconds(text, number):
    assert seconds(text) == number


@each_row('text', ['', '90', '1h1d', '36 hours'])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match='expected days, hours, minutes and seconds'):
        seconds(text)


def test_a_text_that_may_be_a_number():
    assert [number_in(text) for text in ('2.5', '0', '', None, 'n1')] == [2.5, 0.0, None, None, None]

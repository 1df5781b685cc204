# SPDX-License-Identifier: BSD-3-Clause
"""Units: the factor of each to the base unit of its dimension, which direction is better, and durations."""

import re

import pytest
from rows import each_row

from plumbline.units import UNITS, factor, in_base_unit, in_words, number_in, plain, seconds

PREFIXES = {
    'n': 1e-9, 'u': 1e-6, 'm': 1e-3, '': 1, 'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12, 'P': 1e15, 'E': 1e18,
    'Ki': 1024, 'Mi': 1024**2, 'Gi': 1024**3, 'Ti': 1024**4, 'Pi': 1024**5,
}  # fmt: skip
#: A kilowatt hour is 3.6 million joules.
OTHERS = {'kWh': 3_600_000, 'kWh h': 12_960_000_000, 'ops/s': 1, '1': 1}
PREFIXED = re.compile(r'([numkKMGTPE]?i?)(?:(?:B|Flop|U)(?:/s|/J|/cycle)?|Up/s|TEPS|Hz|s|W|J|J s)')


@each_row('unit', UNITS)
def test_the_factor_of_a_unit_is_that_of_its_prefix(unit):
    assert UNITS[unit] == (OTHERS[unit] if unit in OTHERS else PREFIXES[PREFIXED.fullmatch(unit)[1]])


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
    ('text', 'of', 'number'),
    [
        ('614.4 GB/s', None, 614_400_000_000), ('256 GiB', None, 274_877_906_944), ('2 kWh', None, 7_200_000),
        ('5 furlongs', None, None), ('5GB/s', None, None), ('5 GB/s', 'time', None), ('fast GB/s', None, None),
    ],
)  # fmt: skip
def test_a_quantity_in_its_base_unit_or_refused(text, of, number):
    if number:
        assert in_base_unit(text, of) == pytest.approx(number)
    else:
        with pytest.raises(ValueError):
            in_base_unit(text, of)


@each_row('text, number', [('1d12h', 129_600), ('1h0m1s', 3601), ('', None), ('90', None), ('1h1d', None)])
def test_a_duration_in_seconds(text, number):
    if number:
        assert seconds(text) == number
    else:
        with pytest.raises(ValueError, match='expected days, hours, minutes and seconds'):
            seconds(text)


@each_row(
    ('elapsed', 'words'),
    [
        (0.4, '0 s'), (59.4, '59 s'), (59.6, '1 min'), (61, '1 min 1 s'), (3599, '59 min 59 s'), (3600, '1 h'),
        (3659, '1 h'), (7500, '2 h 5 min'), (90000, '25 h'),
    ],
)  # fmt: skip
def test_seconds_in_words(elapsed, words):
    assert in_words(elapsed) == words


@each_row(
    ('unit', 'as_ours'),
    [
        ('GB/s', 'GB/s'), (' GBytes/sec ', 'GB/s'), ('MBps', 'MB/s'), ('MiByte/s', 'MiB/s'), ('usec', 'us'),
        ('µs', 'us'), ('seconds', 's'), ('GFLOPS', 'GFlop/s'), ('TFlops/sec', 'TFlop/s'), ('flops', 'Flop/s'),
        ('Bytes', 'B'), ('ops / s', 'ops / s'), (' widgets ', 'widgets'),
    ],
)  # fmt: skip
def test_a_unit_as_we_write_it(unit, as_ours):
    assert plain(unit) == as_ours


def test_a_text_that_may_be_a_number():
    assert [number_in(text) for text in ('2.5', '0', '', None, 'n1')] == [2.5, 0.0, None, None, None]

# SPDX-License-Identifier: BSD-3-Clause
"""What readers of formats have in common: numbers, names, times and rows."""

import math
from datetime import datetime, timedelta

import pytest
from rows import each_row

from postprocess.readers import fields

NOON = datetime(2026, 11, 2, 12)


@each_row(('value', 'found'), [
    (' 2.5 ', 2.5), ('1e3', 1000.0), (True, None), ('1_0', None), ('\uff11', None), ('inf', None), ('x', None),
])  # fmt: skip
def test_a_number_is_finite_and_written_in_ascii(value, found):
    if found is None:
        with pytest.raises(ValueError, match=r'expected a (finite )?number|could not convert'):
            fields.number(value)
    else:
        assert fields.number(value) == found
    assert math.isnan(fields.number('nan'))


@each_row(('text', 'found'), [
    ('size=8, kernel=copy', {'size': '8', 'kernel': 'copy'}), ('a=b=c', {'a': 'b=c'}),
    ({'a': 1, 'b': None}, {'a': '1'}), ('=1', None), ('a=1,b', None), ('', None),
])  # fmt: skip
def test_names_and_values_are_told_apart(text, found):
    if found is None:
        with pytest.raises(ValueError, match='expected name=value,name=value, found'):
            fields.names(text)
    else:
        assert fields.names(text) == found


@each_row(('value', 'found'), [
    # 1e11 s are 1157407 days and 35200 s after 1970; more are milliseconds
    (1793620800, NOON), ('1793620800000', NOON), ('1793620800.5', NOON + timedelta(seconds=0.5)),
    ('2026-11-02T12:00:00Z', NOON), ('2026-11-02 12:00:00', NOON), ('2026-11-02T13:00:00+01:00', NOON), (NOON, NOON),
    (1e11, datetime(1970, 1, 1) + timedelta(days=1157407, seconds=35200)),
])  # fmt: skip
def test_a_time_is_told_in_utc(value, found):
    assert fields.utc(value) == found


def test_rows_are_whole_and_names_are_there_once():
    with pytest.raises(ValueError, match='row 2: expected 2 fields, found 1'):
        fields.named_rows([['a', 'b'], ['1', '2'], ['3']])
    with pytest.raises(ValueError, match='expected columns of different names, found a, a'):
        fields.named_rows([['a', 'a']])
    with pytest.raises(ValueError, match="the key 'b' is there twice"):
        fields.json_of('{"a": 1, "b": 1, "b": 2}')

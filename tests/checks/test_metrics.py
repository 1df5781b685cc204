"""Reading a number from an output, or saying why there is none."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.core.metrics import Metric, NotMeasured

RATE = Metric('rate', 'GB/s', 'higher', r'^rate=(\S+)$')


@given(st.floats(min_value=1e-300, max_value=1e300), st.lists(st.text(alphabet='abc =\t'), max_size=5))
def test_any_positive_number_among_other_lines_is_read_back(number, lines):
    assert RATE.read('\n'.join([*lines, f'rate={number!r}', *lines])) == number


@pytest.mark.parametrize(
    ('output', 'why'),
    [
        ('', 'matched nothing'),
        ('rate=1\nrate=2', 'matched 2 times'),
        ('rate=fast', "'fast' is not a number"),
        ('rate=nan', 'finite number above zero'),
        ('rate=inf', 'finite number above zero'),
        ('rate=0.0', 'finite number above zero'),
        ('rate=-3', 'finite number above zero'),
        ('rate=1\r', 'matched nothing'),
    ],
)
def test_what_is_no_measurement_is_refused_with_its_cause(output, why):
    with pytest.raises(NotMeasured, match=re.escape(why)):
        RATE.read(output)


def test_scale_and_divisors():
    per_core = Metric('x', 'Flop/cycle', 'higher', r'^flops: (\S+)', per=(r'^cycles: (\S+)', r'^(\d+) cores'), scale=2)
    assert per_core.read('flops: 100\ncycles: 5\n4 cores') == 10
    with pytest.raises(NotMeasured):
        per_core.read('flops: 100\ncycles: 0\n4 cores')
    with pytest.raises(NotMeasured):
        per_core.read('flops: 100\n4 cores')


@given(st.text())
def test_garbage_never_becomes_a_number_in_silence(text):
    try:
        value = RATE.read(text)
    except NotMeasured:
        return
    assert math.isfinite(value) and value > 0

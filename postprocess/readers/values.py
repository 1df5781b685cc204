# SPDX-License-Identifier: BSD-3-Clause
"""Performance values of any ReFrame test: they have a name, a unit, a reference and bounds, but no direction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from plumbline.causes import Cause
from plumbline.units import UNITS, better, number_in
from postprocess.results.rows import MetricRow

FLOOR_OF_TIMES = 0.05  # times of other suites vary more than rates
_RATE = re.compile(r'.*/ ?[nmu]?s(?:ec(?:onds?)?)?|.*(?:flops?|iops|ops|teps)', re.IGNORECASE)
_COST = re.compile(r'.*/ ?(?:op|iter(?:ation)?)')  # such as ns/iter, and B/op of Go's benchmarks
_NAMES_OF_TIMES = re.compile(r'time|latency|seconds|duration|lat(?:_|\b)', re.IGNORECASE)  # of metrics without a unit


def by_bounds(lower: float | None, upper: float | None) -> str:
    """Return the better direction by the only bound; empty without a bound, and with two."""
    if (lower is None) == (upper is None):
        return ''
    return 'higher' if upper is None else 'lower'


def by_unit(unit: str) -> str | None:
    """Return the better direction of a unit; None if the unit does not say it."""
    if unit in UNITS:
        return better(unit)
    return 'higher' if _RATE.fullmatch(unit) else 'lower' if _COST.fullmatch(unit) else None


def fault(value: float, row: MetricRow) -> str:
    """Return why a value of a series is no measurement; empty if it may be one.

    Times, rates and other physical quantities are above 0. A count may be 0, and what is better lower not below.
    """
    unit, lower = row.quantity.unit, row.quantity.better == 'lower'
    above_zero = bool(by_unit(unit)) or (not unit and lower and _NAMES_OF_TIMES.search(row.metric) is not None)
    if not row.judged or value > 0 or not (above_zero or (lower and value < 0)):
        return ''
    wanted = 'a number above 0' if above_zero else 'a number that is not below 0'
    return f'{row.metric}: {value:g} {unit}'.rstrip() + f' is no measurement: expected {wanted}'


def beyond(
    metric: str, unit: str, value: float | None, reference: float | None, parts: Sequence[float | None],
    is_within: bool | None,
) -> Cause | None:  # fmt: skip
    """Return as the cause of a failure that a value is beyond its bounds; None if it is within them.

    `parts`: the lower and the upper bound as parts of the reference, such as -0.05 and 0.05. `is_within`: what the test
    itself found; None: as ReFrame finds it, which takes bounds of the size of a negative reference.
    """
    low, high = (reference + abs(reference) * part if reference and part is not None else None for part in parts)
    if is_within is None:
        is_within = value is None or ((low is None or value >= low) and (high is None or value <= high))
    if is_within:
        return None
    sides = [f'{word} {bound:g}' for word, bound in (('at least', low), ('at most', high)) if bound is not None]
    found = 'no number' if value is None else f'{value:g} {unit}'.rstrip()
    return Cause('reference', metric, detail=f': {found}' + (f', expected {" and ".join(sides)}' if sides else ''))


def number(value: Any) -> float | None:
    """Return a number, also from a text, NaN and infinities included; None for anything else."""
    return number_in(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None

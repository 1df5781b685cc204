# SPDX-License-Identifier: BSD-3-Clause
"""Performance values as any ReFrame test has them: a name, a unit, a reference and bounds, and no direction."""

from __future__ import annotations

import re
from typing import Any

from plumbline.identity import NONE
from plumbline.units import UNITS, better, dimension, number_in, plain

_FLOOR_OF_TIMES = 0.05  # times of other suites move more than rates
_RATE = re.compile(r'.*/ ?s(?:ec(?:onds?)?)?|.*(?:flops?|iops|ops|teps)', re.IGNORECASE)


def metric(name: str, unit: str, lower: float | None, upper: float | None) -> dict[str, Any]:
    """Return the columns of a metric. Its direction is that of its one bound, else that of its unit, else higher."""
    unit = plain(unit)
    row = {'metric': name, 'dims': NONE, 'unit': unit, 'judged': True}
    row |= {'better': _by_bounds(lower, upper) or _by_unit(unit) or 'higher'}
    return row | ({'floor': _FLOOR_OF_TIMES} if unit in UNITS and dimension(unit) == 'time' else {})


def is_known(unit: str, lower: float | None, upper: float | None) -> bool:
    """Return whether bounds or unit say which direction is better."""
    return bool(_by_bounds(lower, upper) or _by_unit(plain(unit)))


def _by_bounds(lower: float | None, upper: float | None) -> str | None:
    if (lower is None) == (upper is None):
        return None
    return 'higher' if upper is None else 'lower'


def _by_unit(unit: str) -> str | None:
    if unit in UNITS:
        return better(unit)
    return 'higher' if _RATE.fullmatch(unit) else None


def is_within(value: float, reference: float | None, lower: float | None, upper: float | None) -> bool:
    """Return whether a value is within its bounds, parts of the reference such as -0.05 and 0.05."""
    low, high = (reference * (1 + bound) if reference and bound is not None else None for bound in (lower, upper))
    return (low is None or value >= low) and (high is None or value <= high)


def number(value: Any) -> float | None:
    """Return a finite number, or a text of one; None for anything else."""
    return number_in(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None

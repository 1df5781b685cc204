# SPDX-License-Identifier: BSD-3-Clause
"""Performance values as any ReFrame test has them: a name, a unit, a reference and bounds, and no direction."""

from __future__ import annotations

from typing import Any

from plumbline.identity import NONE
from plumbline.units import number_in

_TIMES = ('s', 'ms', 'us', 'ns', 'sec', 'secs', 'second', 'seconds', 'usec', 'nsec')
_FLOOR_OF_TIMES = 0.05  # times of other suites move more than rates


def metric(name: str, unit: str, lower: float | None, upper: float | None) -> dict[str, Any]:
    """Return the columns of a metric. Its direction is that of its one bound, else that of its unit."""
    better = 'lower' if unit in _TIMES else 'higher'
    if (lower is None) != (upper is None):
        better = 'higher' if upper is None else 'lower'
    row = {'metric': name, 'dims': NONE, 'unit': unit, 'better': better, 'judged': True}
    return row | ({'floor': _FLOOR_OF_TIMES} if unit in _TIMES else {})


def is_within(value: float, reference: float | None, lower: float | None, upper: float | None) -> bool:
    """Return whether a value is within its bounds, parts of the reference such as -0.05 and 0.05."""
    low, high = (reference * (1 + bound) if reference and bound is not None else None for bound in (lower, upper))
    return (low is None or value >= low) and (high is None or value <= high)


def number(value: Any) -> float | None:
    """Return a finite number, or a text of one; None for anything else."""
    return number_in(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None

"""The one definition of "how far from its reference may a metric be", for the run and for the comparison after it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

# Student's t, one-sided, 1 % in the tail, by degrees of freedom 1, 2, ... 30 (any textbook's table); a compute node
# has no scipy. Beyond 30: the normal quantile with the first two terms of the Cornish-Fisher expansion.
_T_99 = (
    31.8205, 6.9646, 4.5407, 3.7469, 3.3649, 3.1427, 2.9980, 2.8965, 2.8214, 2.7638, 2.7181, 2.6810, 2.6503, 2.6245,
    2.6025, 2.5835, 2.5669, 2.5524, 2.5395, 2.5280, 2.5176, 2.5083, 2.4999, 2.4922, 2.4851, 2.4786, 2.4727, 2.4671,
    2.4620, 2.4573,
)  # fmt: skip
_Z_99 = 2.326348
DEFAULT_FLOOR = 0.02
DEFAULT_CAP = 0.15


@dataclass(frozen=True)
class Tolerance:
    """Policy of a site for a metric: the loss of performance that the limit allows is at least floor, at most cap."""

    floor: float = DEFAULT_FLOOR
    cap: float = DEFAULT_CAP


@dataclass(frozen=True)
class Limits:
    """The values of a metric that end "as the reference": beyond `bad` it regressed, beyond `good` it improved."""

    bad: float
    good: float
    loss: float  # of performance at `bad`, between 0 and 1; a time that is twice as long is a loss of a half
    why: str  # which of interval, floor and cap set it


def quantile_t99(degrees_of_freedom: int) -> float:
    """99 % quantile of Student's t. `degrees_of_freedom` >= 1."""
    if degrees_of_freedom <= len(_T_99):
        return _T_99[degrees_of_freedom - 1]
    first, second = (_Z_99**3 + _Z_99) / 4, (5 * _Z_99**5 + 16 * _Z_99**3 + 3 * _Z_99) / 96
    return _Z_99 + first / degrees_of_freedom + second / degrees_of_freedom**2


def limits(mean: float, std: float | None, n: int | None, better: str, tolerance: Tolerance) -> Limits:
    """Limits of a metric whose reference is `mean` and `std` (its unit) over `n` values, all > 0.

    Prediction interval for one further value on the log scale: mean * exp(-+ t(0.99, n-1) * s * sqrt(1 + 1/n)) with
    s = sqrt(ln(1 + (std/mean)^2)), its loss of performance 1 - exp(-t s sqrt(1 + 1/n)) held between the floor and
    the cap of the site's policy. A reference without spread (std or n unknown, or n = 1) gets the cap.
    """
    if std is None or n is None or n < 2:
        loss, why = tolerance.cap, 'cap: the reference has no spread'
    else:
        s = math.sqrt(math.log1p((std / mean) ** 2))
        loss, why = -math.expm1(-quantile_t99(n - 1) * s * math.sqrt(1 + 1 / n)), f'99 % prediction interval of n={n}'
        if loss < tolerance.floor:
            loss, why = tolerance.floor, 'floor'
        elif loss > tolerance.cap:
            loss, why = tolerance.cap, f'cap: the interval of n={n} is wider'
    less, more = mean * (1 - loss), mean / (1 - loss)
    return Limits(less, more, loss, why) if better == 'higher' else Limits(more, less, loss, why)


def tolerance_for(policy: dict[str, Any], check: str, case: str, metric: str) -> Tolerance:
    """The policy's rule for a metric; rules are shell patterns and the last that matches wins."""
    found = Tolerance(policy.get('floor', DEFAULT_FLOOR), policy.get('cap', DEFAULT_CAP))
    for rule in policy.get('rules', []):
        wanted = (rule.get('check', '*'), rule.get('case', '*'), rule.get('metric', '*'))
        if all(fnmatchcase(text, pattern) for text, pattern in zip((check, case, metric), wanted, strict=True)):
            found = Tolerance(rule['floor'], rule['cap'])
    return found

"""A metric of a check and how its number is read from what one trial printed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


class NotMeasured(ValueError):
    """A trial's output holds no usable number for a metric; the message says why."""


@dataclass(frozen=True)
class Metric:
    """One measured quantity of a case.

    `pattern` is a regular expression (``^`` and ``$`` match at lines) whose one group is the number; it must match
    exactly once in a trial's output. The value is that number times `scale`, divided by the number that each pattern
    of `per` finds in the same way, in `unit`. A metric without a pattern is computed from others by the check's
    `derive`. `run` names the run of the trial that prints it. `peak` names the entry of the partition's peaks that
    bounds the metric. One that is not `judged` is stored, and judged only where somebody wrote a reference for it.
    """

    name: str
    unit: str
    better: str
    pattern: str | None = None
    per: tuple[str, ...] = ()
    scale: float = 1.0
    run: str = 'run'
    peak: str | None = None
    judged: bool = True

    def read(self, output: str) -> float:
        """The metric's value of one trial, finite and above zero. Raises NotMeasured."""
        value = self._number(self.pattern, output) * self.scale
        for pattern in self.per:
            divisor = self._number(pattern, output)
            value = value / divisor if divisor else math.nan
        if not (math.isfinite(value) and value > 0):
            raise NotMeasured(f'{value} {self.unit} is no measurement: expected a finite number above zero')
        return value

    @staticmethod
    def _number(pattern: str, output: str) -> float:
        found = re.findall(pattern, output, re.MULTILINE)
        if len(found) != 1:
            times = f'{len(found)} times' if found else 'nothing'
            raise NotMeasured(f'pattern {pattern!r} matched {times}, expected one number')
        try:
            return float(found[0])
        except ValueError:
            raise NotMeasured(f'{found[0]!r} is not a number') from None

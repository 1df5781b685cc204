# SPDX-License-Identifier: BSD-3-Clause
"""Check that an output is consistent with itself, and with the clock and nodes of its job. Imports no ReFrame.

Programs print redundant numbers, such as a rate beside bytes and a time. Each printed number stands for the interval of
all numbers that round to its digits (a span), and arithmetic on spans gives the interval of all results. Two spans of
the same quantity overlap in every correct output, so no other tolerance is needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.meters.health import short
from checks.core.reading.outputs import seconds_of

_ARITHMETIC = 1e-9  # relative: programs compute in double precision, and lose a few of its 16 digits
_UPTIME = 0.02  # s: the kernel gives the uptime in hundredths, at start and end
_CLOCKS = 60.0  # s that the clocks of a launch node and of a compute node, or of two nodes, may differ
_FORMATS = (  # of ctime, Google Benchmark, mdtest and HPCG
    '%a %b %d %H:%M:%S %Y', '%Y-%m-%dT%H:%M:%S%z', '%Y-%m-%d %H:%M:%S', '%m/%d/%Y %H:%M:%S', '%Y-%m-%d_%H-%M-%S',
)  # fmt: skip
CTIME = r'\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}'


@dataclass(frozen=True)
class Span:
    """All numbers from `low` to `high`, neither below zero."""

    low: float
    high: float

    def __add__(self, other: Span | float) -> Span:
        other = exact(other)
        return Span(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Span | float) -> Span:
        other = exact(other)
        return Span(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: Span | float) -> Span:
        other = exact(other)
        return Span(self.low / other.high if other.high else math.inf, self.high / other.low if other.low else math.inf)

    __radd__, __rmul__ = __add__, __mul__

    def __str__(self) -> str:
        return f'{(self.low + self.high) / 2:.6g}'


def exact(number: Span | float) -> Span:
    """Return the span of one number."""
    return number if isinstance(number, Span) else Span(number, number)


def printed(text: str, digits: int = 0, whole: bool = False) -> Span:
    """Return the numbers that round to `text`. An integer is exact, unless `whole` says that it was rounded.

    `digits`: significant digits of C's %g, which leaves out zeros at the end. What is beyond all floats is infinite,
    and contradicts each number that is not; what is no number contradicts all.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal('NaN')
    if number.is_nan():
        return exact(math.nan)
    if math.isinf(float(number)):
        return exact(math.inf)
    exponent = int(number.as_tuple().exponent)
    if digits and number:
        exponent = min(exponent, number.adjusted() + 1 - digits)
    elif not digits and not whole and re.fullmatch('[0-9]+', text):
        return exact(float(number))
    half = 0.5 * 10.0 ** (exponent if number else min(exponent, 0))  # 0e999 is zero
    return Span(max(0.0, float(number) - half), float(number) + half)


def equal(left: Span, right: Span, within: float = _ARITHMETIC) -> bool:
    """Return True if both may be the same number, up to the relative difference `within`."""
    return at_most(left, right, within) and at_most(right, left, within)


def at_most(left: Span, right: Span, within: float = _ARITHMETIC) -> bool:
    """Return True if `left` may be at most `right`, up to the relative difference `within`."""
    return left.low <= right.high * (1 + within)


class Claim(NamedTuple):
    """A condition on the numbers of a row: `holds` must be true of the two values of `sides`. `what`: their names."""

    what: str
    sides: Callable[[Mapping[str, Any]], tuple[Span | float, Span | float]]
    holds: Callable[[Span, Span], bool] = equal


def contradictions(claims: Sequence[Claim], numbers: Mapping[str, Any], where: str = '') -> list[str]:
    """Return a sentence for each claim that `numbers` (by name) contradict; skip claims on what is no number."""
    faults, place = [], f' in {where!r}' if where else ''
    for names, sides, holds in claims:
        try:
            left, right = map(exact, sides(numbers))
        except (KeyError, TypeError):
            continue
        except OverflowError:
            faults.append(f'{names} contradict each other{place}: one is beyond all numbers')
            continue
        if not holds(left, right):
            faults.append(f'{names} contradict each other{place}: {left} and {right}')
    return faults


@dataclass(frozen=True)
class Agreement:
    """What must be true of each row that a program prints.

    `rows`: a regular expression (``^`` and ``$`` match at lines). `claims` get its named groups: each as a span, which
    is NaN where the text is no number and so contradicts all; None where the group is not there. `digits`, `whole`: how
    the numbers are rounded, see `printed`; `whole` names groups. `words`: groups of words, given as they are.
    """

    rows: str
    claims: Sequence[Claim]
    digits: int = 0
    whole: Collection[str] = ()
    words: Collection[str] = ()

    def faults(self, output: str) -> list[str]:
        """Return a sentence for each claim that a row of an output contradicts."""
        matches = re.finditer(self.rows, output, re.MULTILINE)
        return [fault for match in matches for fault in self.of(match.groupdict(), ' '.join(match[0].split())[:100])]

    def of(self, row: Mapping[str, str | None], where: str = '') -> list[str]:
        """Return a sentence for each claim that a row (name -> text) contradicts."""
        return contradictions(self.claims, {name: self._read(name, text) for name, text in row.items()}, where)

    def _read(self, name: str, text: str | None) -> Span | str | None:
        if text is None or name in self.words:
            return text
        is_number = re.fullmatch(r'[0-9]{1,24}(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?', text)
        return printed(text if is_number else 'NaN', self.digits, name in self.whole)


@dataclass(frozen=True)
class Traces:
    """When and where an output was made, as it says itself.

    `seconds`: lower bound of the run time. `dates`: as printed. `epochs`: in seconds since 1970. `hosts`: names.
    """

    seconds: Span | float = 0.0
    dates: Sequence[str] = ()
    epochs: Sequence[float] = ()
    hosts: Collection[str] = ()

    def faults(self, trial: Path, zone: str, known: Collection[str]) -> Iterator[str]:
        """Yield a sentence for each trace that contradicts the job files in the folder `trial`.

        `zone`: offset of the node's local time to UTC, such as ``+0100``; without it local dates are not checked.
        `known`: names of the job's nodes; empty: unknown.
        """
        nodes = {short(name) for name in known}
        if nodes and (others := sorted({name for name in self.hosts if short(name) not in nodes})):
            yield f'it says that it ran on {", ".join(others[:3])}, and the job ran on {", ".join(sorted(nodes)[:3])}'
        if not (marks := _marks(trial)):
            return
        for date, instants in self._instants(zone):
            if all(not marks[0] - _CLOCKS <= instant <= marks[1] + _CLOCKS for instant in instants):
                began = datetime.fromtimestamp(marks[0], timezone.utc)
                yield f'it was printed at another time: it says {date}, and the trial began at {began:%F %T} UTC'
                return

    def _instants(self, zone: str) -> Iterator[tuple[str, list[float]]]:
        """Yield each date with its possible seconds since 1970: as local time, or as UTC (in a container)."""
        yield from ((str(epoch), [epoch]) for epoch in self.epochs)
        for text in self.dates:
            if (date := date_of(text)) and date.tzinfo:
                yield text, [date.timestamp()]
            elif date and re.fullmatch(r'[+-]\d{4}', zone):
                hours, minutes = int(zone[1:3]), int(zone[3:])
                offset = (1 if zone[0] == '+' else -1) * timedelta(hours=hours, minutes=minutes)
                yield text, [(date - by).replace(tzinfo=timezone.utc).timestamp() for by in (offset, timedelta())]


def date_of(text: str) -> datetime | None:
    """Return a time that a program printed; None if its form is not known."""
    for form in _FORMATS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def _marks(trial: Path) -> tuple[float, float] | None:
    """Return when a trial began and ended, in seconds since 1970; None if it did not end."""
    try:
        began, ended = (float((trial / name).read_text().split()[0]) for name in ('started', 'ended'))
    except (OSError, ValueError, IndexError):
        return None
    return began, ended


def too_long(seconds: Sequence[Span | float], at_once: bool, trial: Path) -> str:
    """Return a sentence if the run times that the programs report exceed that of the trial.

    `seconds`: the time that each run reports. `at_once`: whether the runs ran at the same time.
    """
    times = seconds_of(trial)
    reported = (max if at_once else sum)([exact(run).low for run in seconds] or [0.0])
    if not times or reported * (1 - 1e-3) <= max(times) + _UPTIME:  # clocks are slewed by at most 0.05 %
        return ''
    return f'by its own times it ran for {reported:.6g} s, and the whole trial took {max(times):.2f} s'

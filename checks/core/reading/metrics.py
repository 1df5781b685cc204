# SPDX-License-Identifier: BSD-3-Clause
"""The metrics of a check: what they expect, how an output is read, and the series of a record. Imports no ReFrame."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

from plumbline import units
from plumbline.identity import Pairs, pairs, to_text
from plumbline.record import Better, Record, Sample, Series

_NUMBER = re.compile(r'[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)', re.IGNORECASE)
_LONGEST = 64  # characters; a longer text is no number


class OutputRow(NamedTuple):
    """A number in an output with the dims that its row names. `lines`: where it was read, from 1; none: not known."""

    dims: Mapping[str, str]
    number: str | float
    lines: tuple[int, ...] = ()


class Of(NamedTuple):
    """What a metric is computed from: a function of the values that the series of another metric have in a trial.

    `at`: dim -> its value, or the values, of the series that count; without it all that are read from an output do.
    """

    metric: str
    function: Callable[[list[float]], float]
    at: Mapping[str, object] = {}

    def points(self, metrics: Sequence[Metric]) -> list[Pairs]:
        """Return the dims of the series that count, of those that `metrics` read from an output."""
        wanted = {dim: of if isinstance(of, (list, tuple)) else [of] for dim, of in self.at.items()}
        read = [point for each in metrics if each.name == self.metric and not each.computed for point in each.points()]
        return [
            point
            for point in read
            if all(dict(point).get(dim, '') in map(str, values) for dim, values in wanted.items())
        ]


class Spread(NamedTuple):
    """How much the metrics of a check vary, each the mean of its trials.

    `usual`: coefficient of variation from session to session; a number, or pattern of metric names -> number, of which
    the first that matches holds. `floor`: the least loss that counts; None: the default of the suite.
    """

    usual: float | Mapping[str, float] | None
    floor: float | None = None

    def of(self, metric: str) -> float | None:
        """Return the usual coefficient of variation of a metric."""
        if not isinstance(self.usual, Mapping):
            return self.usual
        return next((spread for pattern, spread in self.usual.items() if fnmatchcase(metric, pattern)), None)


class NotMeasured(ValueError):
    """Report that an output has no usable number for a metric, and why."""


@dataclass(frozen=True)
class Metric:
    """One kind of quantity that a run of a check measures, and how to read it from the output of that run.

    `unit`: one of `plumbline.units.UNITS`. `better`: ``higher`` or ``lower``. Raises ValueError for others.
    `read`: a regular expression (``^`` and ``$`` match at lines), or a function of the output that yields its rows and
    raises NotMeasured. The pattern's group ``value``, or its only group, is the number; each other named group is a
    dim, whose value is taken in lower case. Without `read` the metric is computed: from another one, as `of` says, or
    by the check's `derive`.
    `dims`: the dims that all rows of this run share. `expected`: dim -> the values that must appear, each exactly once;
    of several dims, each combination.
    The value is the number times `scale`, divided by the number that each pattern of `per` finds once in the output.
    `run`: name of the run that prints it. `peak`: what no value may exceed: an entry of the partition's peaks, of a
    node, or a number in B/s or Flop/s; a part of a whole may not exceed 1 unless its peak is infinite.
    `judged`: whether a series needs a reference, or a function of its dims; others are informational.
    `draw`: how to draw it where the kinds of its dims do not say so; `figures`: what follows from it over several
    cases, see :class:`plumbline.record.Record`.
    """

    name: str
    unit: str
    better: Better
    read: str | Callable[[str], Iterable[OutputRow]] | None = None
    dims: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, Sequence[object]] = field(default_factory=dict)
    per: tuple[str, ...] = ()
    scale: float = 1.0
    run: str = 'run'
    peak: str | float | None = None
    judged: bool | Callable[[Mapping[str, str]], bool] = True
    draw: Mapping[str, Any] | None = None
    figures: Mapping[str, object] = field(default_factory=dict)
    of: Of | None = None

    def __post_init__(self) -> None:
        if fault := units.fault_of(self.unit, self.better):
            raise ValueError(f'metric {self.name}: {fault}')

    @property
    def computed(self) -> bool:
        """True if the metric is computed instead of read from an output."""
        return self.read is None

    def points(self) -> list[Pairs]:
        """Return the dims of each series that must be measured."""
        combinations = product(*self.expected.values())
        return [pairs({**self.dims, **dict(zip(self.expected, values, strict=True))}) for values in combinations]

    def is_judged(self, dims: Pairs) -> bool:
        """Return True if the series at `dims` needs a reference."""
        return self.judged(dict(dims)) if callable(self.judged) else self.judged

    def invalid_reason(self, value: float) -> str | None:
        """Return why a value cannot be true; None if it can. `peak` is a number here, or not known."""
        if self.better == 'lower' and self.unit != '1' and value <= 0:  # else it would be the best ever
            return f'{value:.6g} {self.unit} is not above 0'
        if self.peak is None and self.unit == '1' and self.better == 'higher' and value > 1:
            return f'{value:.4g} of the theoretical peak'
        if self.peak is None or isinstance(self.peak, str) or value * units.UNITS[self.unit] <= self.peak:
            return None
        return f'{value:.6g} {self.unit} is above the physical peak of {self.peak / units.UNITS[self.unit]:.6g}'

    def reading_of(self, output: str) -> Reading:
        """Return the value of each expected point, or why it has none, and a fault for each unexpected row."""
        points = self.points()
        try:
            rows = list(self.read(output)) if callable(self.read) else _rows(self.read or '', output)
            divisors = [_rows(pattern, output) for pattern in self.per]
            divisor = math.prod(_only([row.number for row in of]) for of in divisors)
        except NotMeasured as reason:
            return Reading({}, dict.fromkeys(points, str(reason)), [], set(), {})
        of_divisors = [line for of in divisors for row in of for line in row.lines]
        found: dict[Pairs, list[OutputRow]] = defaultdict(list)
        for row in rows:
            found[pairs({**self.dims, **row.dims})].append(row)
        unexpected = [f'unexpected row: {to_text(dims)[:80]}' for dims in found if dims not in points]
        reading = Reading({}, {}, unexpected, {len(found.get(point, ())) for point in points}, {})
        for point in points:
            its = found.get(point, [])
            if lines := [*of_divisors, *(line for row in its for line in row.lines)] if its else []:
                reading.lines[point] = lines
            try:
                reading.values[point] = self._value([row.number for row in its], divisor)
            except NotMeasured as reason:
                reading.missing[point] = str(reason)
        return reading

    def _value(self, numbers: list[str | float], divisor: float) -> float:
        """Return the value of the only one of `numbers`, finite and above zero. Raises NotMeasured."""
        value = _only(numbers) * self.scale
        value = value / divisor if divisor else math.nan
        if not (math.isfinite(value) and value > 0):
            raise NotMeasured(f'{value} {self.unit} is not a measurement: expected a finite number above zero')
        return value


def _only(numbers: Sequence[str | float]) -> float:
    """Return the only one of the numbers that a pattern matched. Raises NotMeasured."""
    if len(numbers) != 1:
        there = f'there {len(numbers)} times' if numbers else 'not in the output'
        raise NotMeasured(f'its line is {there}, expected once')
    (number,) = numbers
    if isinstance(number, str) and not (len(number) <= _LONGEST and _NUMBER.fullmatch(number)):
        raise NotMeasured(f'{number[:_LONGEST]!r} is not a number')
    return float(number)


def _rows(pattern: str, output: str) -> list[OutputRow]:
    """Return the numbers that a pattern matches, with the dims of its named groups."""
    rows, line, before = [], 1, 0
    for match in re.finditer(pattern, output, re.MULTILINE):
        named = {'value': match[1]} | match.groupdict()
        value = named.pop('value') + _cut_off(match)
        at = match.start('value' if 'value' in match.re.groupindex else 1)
        line, before = line + output.count('\n', before, at), at
        rows.append(OutputRow({name: text.lower() for name, text in named.items()}, value, (line,)))
    return rows


def _cut_off(match: re.Match[str]) -> str:
    """Return text that makes a number unreadable if its line lacks a newline: digits may be missing."""
    return ' (the output ends here)' if match.end() == len(match.string) and not match[0].endswith('\n') else ''


class Reading(NamedTuple):
    """The values of a metric in one output and the reasons for missing ones, both by dims; and faults of the output.

    `times`: how often the points were found, such as {1}. `lines`: line numbers of the values, as far as they are
    known.
    """

    values: dict[Pairs, float]
    missing: dict[Pairs, str]
    faults: list[str]
    times: set[int]
    lines: dict[Pairs, list[int]]


def series_of(record: Record, metric: str, **dims: object) -> Series:
    """Return the series of a metric at these dims. Raises KeyError where the plan declares none."""
    wanted = pairs(dims)
    for series in record.metrics[metric].series:
        if series.dims == wanted:
            return series
    raise KeyError(f'{metric} {to_text(wanted)}')


def figures_of(metrics: Sequence[Metric]) -> dict[str, dict[str, object]]:
    """Return what follows from each metric, and its peak, in its unit, if all its series have the same."""
    found = {metric.name: dict(metric.figures) for metric in metrics if metric.figures}
    peaks: dict[str, set[float | None]] = defaultdict(set)
    for metric in metrics:
        peak = None if isinstance(metric.peak, str) else metric.peak
        peaks[metric.name].add(peak / units.UNITS[metric.unit] if peak and math.isfinite(peak) else None)
    for name, (peak, *others) in peaks.items():
        if peak and not others:
            found.setdefault(name, {})['peak'] = peak
    return found


def by_trial(inputs: Sequence[Series], function: Callable[[list[float]], float]) -> list[Sample]:
    """Return `function` of the values of all `inputs`, for each trial that they all have measured."""
    measured = [{trial: value for trial, _, value in source.samples} for source in inputs]
    nodes = {trial: node for source in inputs for trial, node, _ in source.samples}
    trials = sorted(set.intersection(*map(set, measured))) if measured else []
    return [(trial, nodes[trial], function([each[trial] for each in measured])) for trial in trials]


def compute(record: Record, metrics: Sequence[Metric]) -> None:
    """Add the samples of the metrics that are computed from another one, if that has a value in each trial."""
    for metric in metrics:
        if of := metric.of:
            inputs = [series_of(record, of.metric, **dict(point)) for point in of.points(metrics)]
            if inputs and all(len(series.samples) == record.trials for series in inputs):
                series_of(record, metric.name, **metric.dims).samples = by_trial(inputs, of.function)


def mark_impossible(record: Record, metrics: Sequence[Metric], nodes: str) -> None:
    """Call the computed series invalid that have a value that cannot be true; `nodes`: those of the job."""
    for metric in metrics:
        for point in metric.points() if metric.computed else ():
            series = series_of(record, metric.name, **dict(point))
            for trial, where, value in series.samples:
                if why := metric.invalid_reason(value):
                    at = f'trial {trial}' if where == nodes else where
                    series.invalid = series.invalid or f'{at}: {why}'


def mean(series: Series) -> float:
    """Return the mean of the samples of a series that has some."""
    return fmean(value for _, _, value in series.samples)


def variable_name(metric: str, dims: Pairs) -> str:
    """Return the name of ReFrame's performance variable of a series: ``latency message_bytes=8``."""
    return f'{metric} {to_text(dims)}' if dims else metric

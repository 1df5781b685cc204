"""SVG paths of the report: axes, curves in a box, the history of a series, and strips of samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy

from postprocess.text import number

LOGARITHMIC = 30  # ratio of the largest to the smallest value from which an axis of values is logarithmic
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 8, 20  # room for the texts around the box of a plot, in pixels
_STRIP_STEPS = 40  # distinct places in a strip: enough to see two levels, few enough for a small page
_STRIP_WIDTH, _STRIP_HEIGHT = 100, 14
Ticks = list[tuple[int, str]]  # place in pixels, text


def drawable(value: float) -> bool:
    """Return True for a number whose ratios and logarithms do not overflow; every real measurement is one."""
    return value == 0 or 1e-100 < abs(value) < 1e100


def all_drawable(values: numpy.ndarray) -> bool:
    """Return True if :func:`drawable` holds for every element."""
    size = abs(values)
    return bool(((size < 1e100) & ((size > 1e-100) | (size == 0))).all())


@dataclass(frozen=True)
class Line:
    """The SVG paths of one series in a plot.

    `band`: the usual range of earlier sessions; `limits` and `bad`: marks; `ideal`: values of perfect scaling;
    `points`: what each x value of the plot shows, None where the line has no value.
    """

    label: str
    path: str
    dots: str = ''
    band: str = ''
    limits: str = ''
    expected: str = ''
    bad: str = ''
    ideal: str = ''
    points: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Lines in a box of `width` by `height` pixels. `x`: what the x axis shows; `steps`: marks of changes, numbered."""

    title: str
    unit: str
    x: str
    width: int
    height: int
    x_ticks: Ticks
    y_ticks: Ticks
    lines: list[Line]
    x_values: tuple[str, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    kind: str = 'plot'


class Axis:
    """Map numbers to pixels between `start` and `end`; `logarithmic` None: decided by the range of the values.

    Numbers outside the range, and those without a logarithm on a logarithmic axis, are drawn at its ends.
    """

    def __init__(self, values: Sequence[float], start: int, end: int, logarithmic: bool | None = None):
        positive = [value for value in values if value > 0]
        if logarithmic is None:
            logarithmic = min(values) > 0 and max(values) / min(values) >= LOGARITHMIC
        self.logarithmic = logarithmic and bool(positive)
        shown = positive if self.logarithmic else values
        low, high = min(shown), max(shown)
        if low == high:
            half = (abs(low) or 1) / 2
            low, high = (low / 2, high * 2) if self.logarithmic else (low - half, high + half)
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> int:
        """Return the place of `value` in pixels."""
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else 0
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(max(share, 0), 1) * (self.end - self.start))

    def places(self, values: numpy.ndarray) -> numpy.ndarray:
        """Return the places of many numbers within the ends of the axis."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, values = math.log(low), math.log(high), numpy.log(values)
        return numpy.rint(self.start + (values - low) / (high - low) * (self.end - self.start)).astype(int)

    def ticks(self) -> Ticks:
        """Return about five round numbers with their places."""
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            values = [10.0**power for power in powers[:: max(1, len(powers) // 5)]]
            if self.high / self.low < 1000:
                values = [value * factor for value in values for factor in (1, 3)]
        else:
            rough = (self.high - self.low) / 4
            unit = 10 ** math.floor(math.log10(rough))
            step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
            values = [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        slack = 1e-9 * (self.high - self.low)
        return [(self(value), number(value)) for value in values if self.low - slack <= value <= self.high + slack]


def joined(points: Iterable[tuple[int, int]]) -> str:
    """Return the path through `points`."""
    path = ' '.join(f'{x} {y}' for x, y in points)
    return f'M{path}' if path else ''


def marks(points: Iterable[tuple[int, int]], half: int = 0) -> str:
    """Return a horizontal mark of 2 `half` pixels at each point; with 0 a dot, drawn by the line caps."""
    return ''.join(f'M{x - half} {y}h{2 * half}' for x, y in points)


def history(
    title: str, unit: str, started: numpy.ndarray, values: numpy.ndarray, steps: Sequence[tuple[datetime, int]],
    limit: float | None, expected: float | None, bad: float | None = None,
) -> Plot:  # fmt: skip
    """Plot the values of a series over its sessions.

    `started`: their times, datetime64; `steps`: time and number of each change found. `limit` and `expected` are lines
    across the plot, with a band between the limit and what is as far on the other side. `bad`: a value of the last
    session that fell short, such as that of one node, beside which the median of all looks healthy.
    """
    width, height = 640, 120
    times = started.astype('datetime64[s]').astype(float)
    beyond = 2 * expected - limit if limit is not None and expected is not None else None
    levels = [level for level in (limit, expected, bad, beyond) if level is not None]
    x_axis = Axis(times[[0, -1]].tolist(), LEFT, width - RIGHT, False)
    y_axis = Axis([float(values.min()), float(values.max()), *levels], height - BOTTOM, TOP)
    path = numpy.stack((x_axis.places(times), y_axis.places(values)), axis=1)
    limits, mean = ('' if level is None else f'M{LEFT} {y_axis(level)}H{width - RIGHT}' for level in (limit, expected))
    band = '' if beyond is None else f'{limits}V{y_axis(beyond)}H{LEFT}'
    line = Line(
        '', _relative(path), band=band,
        dots=marks(path.tolist()) if len(times) < 60 else '', limits=limits, expected=mean,
        bad='' if bad is None else marks([(int(path[-1, 0]), y_axis(bad))]),
    )  # fmt: skip
    days = numpy.datetime_as_string(started[[0, -1]], 'D').tolist()
    ends = dict.fromkeys(zip(path[[0, -1], 0].tolist(), days, strict=True))
    changes = ((x_axis(float(numpy.datetime64(time, 's').astype(float))), i) for time, i in steps)
    return Plot(title, unit, '', width, height, list(ends), y_axis.ticks(), [line], steps=tuple(changes))


def _relative(path: numpy.ndarray) -> str:
    """Return the SVG path through points, each from the one before: half as long as with their places."""
    steps = ' '.join(map(str, numpy.diff(path, axis=0).ravel().tolist())).replace(' -', '-')
    return f'M{path[0, 0]} {path[0, 1]}' + (f'l{steps}' if steps else '')


def strip(values: Sequence[float], limit: float | None, expected: float | None) -> dict[str, str] | None:
    """Return the paths of a strip of 100 by 14 pixels: a tick for each place, taller where it holds more values.

    ``samples``, ``limit`` and ``expected`` are paths, the last two empty where there is no such number. None without a
    finite value.
    """
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return None
    levels = [level for level in (limit, expected) if level is not None]
    low, high = min([*values, *levels]), max([*values, *levels])
    span = (high - low) or abs(high) or 1.0

    def place(value: float) -> int:
        step = round((value - low) / span * _STRIP_STEPS) if high > low else _STRIP_STEPS // 2
        return 2 + step * (_STRIP_WIDTH - 4) // _STRIP_STEPS

    ticks = Counter(map(place, values))
    most = max(ticks.values())
    path = ''.join(f'M{x} {_STRIP_HEIGHT}v-{4 + round(8 * n / most)}' for x, n in sorted(ticks.items()))
    lines = {
        name: '' if level is None else f'M{place(level)} 0v{_STRIP_HEIGHT}'
        for name, level in (('limit', limit), ('expected', expected))
    }
    return {'samples': path} | lines

# SPDX-License-Identifier: BSD-3-Clause
"""SVG paths of the report: axes, and curves in a box."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from postprocess.text import number

LOGARITHMIC = 30  # the value axis is logarithmic if the largest value / the smallest value is at least this
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 8, 20  # room for the texts around the box of a plot, in pixels
Ticks = list[tuple[int, str]]  # (place in pixels, text)


@dataclass(frozen=True)
class Line:
    """The SVG paths of one series in a plot.

    `band`: usual range in earlier sessions. `limits`: range within the limits. `bad`: marks of bad values. `ideal`:
    values of perfect scaling. The other fields have one element for each x value of the plot, None if nothing is there:
    `points`: the series shown; `efficiency`: value / ideal, in %; `usual`: ends of the band.
    """

    label: str
    path: str
    dots: str = ''
    band: str = ''
    limits: str = ''
    bad: str = ''
    ideal: str = ''
    points: tuple[Any, ...] = ()
    efficiency: tuple[float | None, ...] = ()
    usual: tuple[tuple[float, float] | None, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Lines in a box of `width` by `height` pixels; `x`: what the x axis shows; `x_values`: its `places` as text."""

    title: str
    unit: str
    x: str
    width: int
    height: int
    x_ticks: Ticks
    y_ticks: Ticks
    lines: list[Line]
    x_values: tuple[str, ...] = ()
    places: tuple[float, ...] = ()
    is_logarithmic: bool = False
    kind: str = 'plot'


class Axis:
    """A map from numbers to pixels between `start` and `end`; with `logarithmic` None, the range of the values decides.

    Numbers outside the range, and numbers without a logarithm on a logarithmic axis, are drawn at its ends.
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

    def apart(self, values: Iterable[float], width: int, text: Callable[[Any], str]) -> Ticks:
        """Return the ascending `values` as text, each with its place; only those at least `width` pixels apart."""
        ticks: Ticks = []
        for value in values:
            if not ticks or self(value) - ticks[-1][0] >= width:
                ticks.append((self(value), text(value)))
        return ticks

    def ticks(self) -> Ticks:
        """Return about five round numbers, each as text with its place."""
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


def around(outline: Sequence[tuple[int, int, int]]) -> str:
    """Return the path around the area between two heights at each x."""
    return joined([(x, y) for x, y, _ in outline] + [(x, y) for x, _, y in reversed(outline)])


def dots(points: Iterable[tuple[int, int]]) -> str:
    """Return the path of a dot at each point; the line caps make the dots."""
    return ''.join(f'M{x} {y}h0' for x, y in points)


def crosses(points: Iterable[tuple[int, int]]) -> str:
    """Return the path of a cross at each point, which differs from a dot even without colour."""
    return ''.join(f'M{x - 4} {y - 4}l8 8m-8 0l8-8' for x, y in points)

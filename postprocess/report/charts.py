# SPDX-License-Identifier: BSD-3-Clause
"""Charts of the series of a check, chosen by the kinds of its dims.

- A ``size`` dim is the logarithmic x axis of curves, a ``count`` the linear one; the param ``num_nodes`` is a count.
- A ``pair`` makes a matrix from row to column, and with an x axis in the series also a curve for each pair.
- Everything else (``name`` dims, params, the metric) labels lines. A series that is neither is in no chart.

A check overrides this for a metric in ``draw`` of its record: ``x`` names the dim or param of the x axis, and ``title``
replaces the name of the metric. ``ideal: proportional`` adds the line of values that grow with x, ``ideal: none`` omits
it; rates over ``num_nodes`` have this line by default. Curves are SVG paths. Matrices are tables with shaded cells,
which a screen reader can read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plumbline.identity import Dim, SeriesId, natural
from plumbline.units import number_in
from postprocess.report import plots
from postprocess.report.plots import BOTTOM, LEFT, LOGARITHMIC, RIGHT, TOP, Axis, Line, Plot
from postprocess.text import count, number
from postprocess.verdicts.verdict import BAD
from postprocess.views.series import SeriesRow, drawable

FEW = 8  # most lines of a chart that a reader can distinguish
_FEWEST_POINTS = 3  # fewest points of curves
_TICK_WIDTH = 44  # pixels between texts of the x axis
METRIC = ''  # key of the metric in the facts: no dim or param has an empty name
NODES = 'num_nodes'
_CLASS = 'link_class'

Facts = dict[str, str]  # what distinguishes a series from others of its check: params, dims, and the metric
Usual = Mapping[SeriesId, tuple[float, float]]  # series -> range of most of its values in earlier sessions


@dataclass(frozen=True)
class Style:
    """What the records of a check say on how to draw its series: `dims` by name, in order, and `draw` by metric."""

    dims: Mapping[str, Dim] = field(default_factory=dict)
    draw: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def kind(self, name: str) -> str:
        """Return the kind of a dim or param; ``name`` if it is not declared."""
        declared = self.dims.get(name)
        return declared.kind if declared else 'count' if name == NODES else 'name'

    def x_of(self, series: SeriesId) -> str | None:
        """Return the dim or param along the x axis of a series; None if no dim or param is a number."""
        numeric = [name for name, value in (*series.dims, *series.params) if drawable(number_in(value))]
        wanted = self.draw.get(series.metric, {}).get('x')
        if wanted in numeric:
            return wanted
        for kind in ('size', 'count'):
            names = [name for name in numeric if name != NODES and self.kind(name) == kind]
            if names:
                return names[0]
        return NODES if NODES in numeric else None

    def pair_of(self, series: SeriesId) -> str | None:
        """Return the name of the dim that is a pair; None without one."""
        return next((name for name, value in series.dims if self.kind(name) == 'pair' and '-' in value), None)

    def axis_text(self, name: str) -> str:
        """Return the text at an axis, such as ``message_bytes (B)``."""
        unit = self.dims[name].unit if name in self.dims else ''
        return f'{name} ({unit})' if unit not in ('', '1') else name

    def title(self, of: Sequence[Facts]) -> str:
        """Return the facts that all of `of` have in common, the metric first."""
        common = {name: value for name, value in of[0].items() if all(facts.get(name) == value for facts in of)}
        metric = common.pop(METRIC, '')
        metric = str(self.draw.get(metric, {}).get('title') or metric)
        return ' '.join([metric, *(f'{name}={value}' for name, value in common.items())]).strip()


@dataclass(frozen=True)
class GridCell:
    """A cell. `share`: from 0, the worst value, to 1; None without a value. `mark`: the link class of a pair."""

    series: SeriesRow
    share: float | None = None
    mark: str = ''


@dataclass(frozen=True)
class Grid:
    """A matrix with shaded cells. `marks`: mark of a cell -> its meaning."""

    title: str
    unit: str
    rows: list[str]
    columns: list[str]
    cells: list[list[GridCell | None]]
    marks: dict[str, str]
    kind: str = 'grid'


Curve = tuple[Facts, dict[float, SeriesRow]]  # (what the line shows, place on the x axis -> series)
Point = tuple[Facts, SeriesRow]


def charts_of(
    series: Iterable[SeriesRow], style: Style, usual: Usual, link_classes: Mapping[str, str]
) -> list[Plot | Grid]:
    """Return the charts of the series of one check on one partition with one environ.

    `usual`: the usual range of the series that may be points of a curve. `link_classes`: name -> description.
    """
    curves, pairs = _sorted_by_shape([one for one in series if one.series.metric != '*'], style)
    charts: list[Plot | Grid] = []
    for (x, unit), lines in curves.items():
        lines = list(filter(None, map(_measured, lines)))
        charts += [_plot(part, unit, x, style, usual) for part in _divided(lines)]
    for unit, members in pairs:
        if len({i for i, _ in members}) > 1 and len({j for _, j in members}) > 1:
            charts.append(_matrix(unit, members, style, link_classes))
    return charts


def _sorted_by_shape(
    series: list[SeriesRow], style: Style
) -> tuple[dict[tuple[str, str], list[Curve]], list[tuple[str, dict[tuple[str, str], Point]]]]:
    """Return curves by (x axis, unit), and the cells of matrices with their unit."""
    several_nodes = any(name == NODES for one in series for name, _ in one.series.params)
    lines: dict[tuple[str, str], dict[tuple[Any, ...], dict[float, Point]]] = defaultdict(lambda: defaultdict(dict))
    squares: dict[tuple[str, tuple[Any, ...]], dict[float, dict[tuple[str, str], Point]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for one in series:
        facts = {NODES: '1'} if several_nodes else {}
        facts |= dict(one.series.params) | dict(one.series.dims) | {METRIC: one.series.metric}
        x, pair = style.x_of(one.series) or (NODES if several_nodes else None), style.pair_of(one.series)
        place = float(facts[x]) if x else 0.0
        if x:
            lines[x, one.quantity.unit][_without(facts, x)][place] = (facts, one)
        if pair:
            start, _, end = facts[pair].partition('-')
            squares[one.quantity.unit, _without(facts, x, pair, _CLASS)][place][start, end] = (facts, one)
    curves: dict[tuple[str, str], list[Curve]] = defaultdict(list)
    for (x, unit), own in lines.items():
        long = {rest for rest, points in own.items() if len(points) > 1}
        if len({place for rest in long for place in own[rest]}) < _FEWEST_POINTS:
            long = set()
        for rest, points in own.items():
            if rest in long:
                curves[x, unit].append((dict(rest), {place: one for place, (_, one) in points.items()}))
    pairs = []
    for (unit, _), sizes in squares.items():
        lower = next(iter(next(iter(sizes.values())).values()))[1].quantity.better == 'lower'
        pairs.append((unit, sizes[min(sizes) if lower else max(sizes)]))
    return curves, pairs


def _without(facts: Facts, *names: str | None) -> tuple[tuple[str, str], ...]:
    """Return the facts without some names."""
    return tuple((name, value) for name, value in facts.items() if name not in names)


def _measured(curve: Curve) -> Curve | None:
    """Return a curve without points that have no value; None if no point is left."""
    facts, points = curve
    points = {x: one for x, one in points.items() if one.value is not None}
    return (facts, points) if points else None


def varying(of: Sequence[Facts]) -> list[str]:
    """Return the names whose values differ; not ``num_nodes`` if the other names imply it."""
    every = dict.fromkeys(name for facts in of for name in facts)
    names = [name for name in every if len({facts.get(name) for facts in of}) > 1]
    others = [name for name in names if name != NODES]
    implied = len({tuple(map(facts.get, others)) for facts in of}) == len(
        {tuple(map(facts.get, names)) for facts in of}
    )
    return others if implied else names


def _divided(lines: list[Curve]) -> list[list[Curve]]:
    """Return the lines in groups, one for each chart, of at most `FEW` lines if possible.

    Each step divides by the name with the fewest values; the lines of a chart then have this value in common.
    """
    if not lines:
        return []
    names = varying([facts for facts, _ in lines])
    if len(lines) <= FEW or len(names) < 2:
        return [lines]
    name = min(names, key=lambda name: len({facts.get(name) for facts, _ in lines}))
    parts: dict[str | None, list[Curve]] = defaultdict(list)
    for facts, points in lines:
        parts[facts.get(name)].append((facts, points))
    return [chart for part in parts.values() for chart in _divided(part)]


def _label(facts: Facts, names: Sequence[str]) -> str:
    """Return the values of `names`, the metric first."""
    shown = sorted((name for name in names if name in facts), key=lambda name: name != METRIC)
    return ' '.join(count(int(facts[name]), 'node') if name == NODES else facts[name] for name in shown)


def counted(x: float) -> str:
    """Return a number as text: ``16 Ki`` for a multiple of 1024, else as it is."""
    for power, prefix in ((20, 'Mi'), (10, 'Ki')):
        if x >= 2**power and x % 2**power == 0:
            return f'{x / 2**power:.0f} {prefix}'
    return f'{x:.0f}' if x == int(x) else number(x)


def _plot(curves: list[Curve], unit: str, x: str, style: Style, usual: Usual) -> Plot:
    """Return the plot of some curves over `x`."""
    names = varying([facts for facts, _ in curves])
    curves = sorted(curves, key=lambda curve: natural(_label(curve[0], names)))
    numbers = sorted({place for _, points in curves for place in points})
    few = len(curves) <= FEW
    shown = [one for _, points in curves for one in points.values()]
    bands = [
        {place: usual[one.series] for place, one in points.items() if few and one.series in usual}
        for _, points in curves
    ]
    usually = 'proportional' if x == NODES and unit.endswith('/s') else 'none'
    ideals = [
        _proportional(points) if style.draw.get(facts[METRIC], {}).get('ideal', usually) == 'proportional' else {}
        for facts, points in curves
    ]
    values = [one.value for one in shown if one.value is not None]
    values += [one.worst.limit for one in shown if few and one.worst.limit is not None]
    values += [end for band in bands for ends in band.values() for end in ends]
    values += [value for ideal in ideals for value in ideal.values()]
    if min(values) > 0 and max(values) < LOGARITHMIC * min(values):
        values.append(0.0)  # on an axis from 0, small noise looks small
    width, height = 480, 240
    x_axis = Axis(numbers, LEFT, width - RIGHT, style.kind(x) == 'size')
    y_axis = Axis(values, height - BOTTOM, TOP)
    lines = []
    for (facts, points), band, ideal in zip(curves, bands, ideals, strict=True):
        at = [(x_axis(place), y_axis(one.value or 0.0), one.worst) for place, one in sorted(points.items())]
        path = [(left, top) for left, top, _ in at]
        outline = sorted((x_axis(place), y_axis(low), y_axis(high)) for place, (low, high) in band.items())
        allowed = [
            (left, y_axis(row.limit), y_axis(2 * row.expected - row.limit))
            for left, _, row in at
            if few and row.limit is not None and row.expected is not None
        ]
        lines.append(
            Line(
                _label(facts, names) or facts[METRIC], plots.joined(path), dots=plots.dots(path),
                band=plots.around(outline), limits=plots.around(allowed),
                bad=plots.crosses((x, y) for x, y, row in at if row.verdict in BAD),
                ideal=plots.joined((x_axis(place), y_axis(value)) for place, value in sorted(ideal.items())),
                points=tuple(points.get(place) for place in numbers),
                usual=tuple(map(band.get, numbers)),
                efficiency=tuple(
                    100 * (points[place].value or 0.0) / ideal[place] if ideal.get(place) else None for place in numbers
                ),
            )
        )  # fmt: skip
    x_ticks = x_axis.apart(numbers, _TICK_WIDTH, counted)
    title = style.title([facts for facts, _ in curves])
    return Plot(
        title, unit, style.axis_text(x), width, height, x_ticks, y_axis.ticks(), lines, tuple(map(counted, numbers)),
        tuple(numbers), x_axis.logarithmic,
    )  # fmt: skip


def _proportional(points: dict[float, SeriesRow]) -> dict[float, float]:
    """Return the values that grow in proportion to x from the first point; none if that is at 0 or below."""
    first = min(points)
    return {place: (points[first].value or 0.0) * place / first for place in points} if first > 0 else {}


def _matrix(unit: str, members: dict[tuple[str, str], Point], style: Style, link_classes: Mapping[str, str]) -> Grid:
    """Return the matrix of pairs: one row for each start, one column for each end.

    Shades follow the logarithms: on a linear scale, next to a domain's own memory all others would look alike (002,
    figure 1b).
    """
    rows, columns = (sorted({pair[side] for pair in members}, key=natural) for side in (0, 1))
    values = [one.value for _, one in members.values() if one.value is not None]
    low, high = min(values, default=0), max(values, default=0)

    def shade(one: SeriesRow) -> float | None:
        """Return how light a cell is, from 0, the worst value, to 1."""
        if one.value is None or not 0 < low < high:
            return None if one.value is None else 1.0
        share = math.log(one.value / low) / math.log(high / low)
        return share if one.quantity.better == 'higher' else 1 - share

    def cell(row: str, column: str) -> GridCell | None:
        """Return the cell of a pair; None if it was not measured."""
        if (row, column) not in members:
            return None
        facts, one = members[row, column]
        return GridCell(one, shade(one), mark=facts.get(_CLASS, ''))

    of = [facts for facts, _ in members.values()]
    common = [{name: value for name, value in facts.items() if name != _CLASS} for facts in of]
    marks = sorted({facts.get(_CLASS, '') for facts in of} - {''})
    return Grid(
        style.title(common), unit, rows, columns, [[cell(i, j) for j in columns] for i in rows],
        {mark: link_classes.get(mark, '') for mark in marks},
    )  # fmt: skip

"""The charts of the report: curves, matrices and bars of the metrics of a check, strips of samples, and histories.

What is drawn how is told by the names of metrics and cases, so a new check needs nothing here:

- ``latency_1``, ``latency_2``, ...: a curve over the number; ``latency_1_0_3``: a curve for each pair of devices;
- ``latency_0_1``, ``latency_0_2``, ...: a matrix, from each to each; cases that differ in ``link_class`` share one;
- cases that differ in a number, such as ``num_nodes=4``: a curve over that number;
- all others that have a unit in common: a table with a bar in each cell.

Curves are paths of inline SVG; matrices and bars are tables whose cells have a background, so they can be read aloud.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from statistics import median

import numpy

from plumbline.identity import to_text
from postprocess.text import count, number
from postprocess.verdicts.verdict import BAD, Verdict

FEW = 8  # lines of a chart that one can tell from each other
_FEWEST_POINTS = 3
_FEWEST_BARS = 4
_LOGARITHMIC = 30  # largest through smallest value of an axis from which on its logarithms are shown
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 8, 20  # room for the texts around the box of a plot
_STRIP_STEPS = 40  # distinct places in a strip: enough to see two levels, few enough for a small page
_STRIP_WIDTH, _STRIP_HEIGHT = 100, 14
_NUMBERED = re.compile(r'(.+?)((?:_\d+){1,3})')
_PER_NODE = '_per_node'


def drawable(value: float) -> bool:
    """Whether it is a number that arithmetic takes anywhere, which no measurement fails."""
    return value == 0 or 1e-100 < abs(value) < 1e100


def all_drawable(values: numpy.ndarray) -> bool:
    size = abs(values)
    return bool(((size < 1e100) & ((size > 1e-100) | (size == 0))).all())


@dataclass(frozen=True, eq=False)
class Group:
    """The verdicts of one metric, the worst first: one for each of the jobs that measured it."""

    id: int
    rows: list[Verdict]

    @property
    def worst(self) -> Verdict:
        return self.rows[0]

    @cached_property
    def value(self) -> float | None:
        """The median over the jobs, of what can be drawn."""
        values = [row.value for row in self.rows if row.value is not None and drawable(row.value)]
        return median(values) if values else None

    @property
    def fell_short(self) -> str:
        """``3 of 16``, where some of several jobs fell short."""
        bad = sum(row.verdict in BAD for row in self.rows)
        return f'{bad} of {len(self.rows)}' if 0 < bad < len(self.rows) else ''

    @cached_property
    def parameters(self) -> dict[str, str]:
        return dict(self.worst.id.params)


@dataclass(frozen=True)
class Cell:
    """`share`: in a matrix from 0, the worst, to 1; in bars of the longest bar; None without a value. `limit`: that of
    the limit."""

    group: Group
    share: float | None = None
    limit: float | None = None
    mark: str = ''


@dataclass(frozen=True)
class Table:
    """`kind`: ``heat`` or ``bars``; `marks`: the marks of its cells and what they mean."""

    kind: str
    title: str
    unit: str
    rows: list[str]
    columns: list[str]
    cells: list[list[Cell | None]]
    marks: dict[str, str]


@dataclass(frozen=True)
class Line:
    """Paths of a plot. `band`: the nights before; `limits` and `bad`: short marks; `ideal`: were scaling perfect."""

    label: str
    path: str
    dots: str = ''
    band: str = ''
    limits: str = ''
    expected: str = ''
    bad: str = ''
    ideal: str = ''
    groups: tuple[Group | None, ...] = ()  # one for each number on the axis


Ticks = list[tuple[int, str]]


@dataclass(frozen=True)
class Plot:
    """Lines in a box; ticks are places and texts, `steps` places and numbers."""

    title: str
    unit: str
    over: str
    width: int
    height: int
    x_ticks: Ticks
    y_ticks: Ticks
    lines: list[Line]
    x_values: tuple[str, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    kind: str = 'plot'


Key = tuple[str, str, str, str, str]  # partition, stack, check, case, metric
Usual = dict[Key, tuple[float, float]]  # where most of the nights before were
_Like = dict[str, str]  # what tells a metric from others: the parameters of its case, and `metric`, its name
_Curve = tuple[_Like, dict[int, Group]]


def charts_of(
    groups: Iterable[Group], usual: Usual, link_classes: dict[str, str], over: str = ''
) -> list[Plot | Table]:
    """The charts of one check in one place. `link_classes`: what each is; `over`: what a number in a name counts."""
    curves, matrices, plain = _by_name([group for group in groups if group.worst.id.metric != '*'])
    scaling, plain = _over_parameter(plain)
    found: list[Plot | Table] = []
    for of, what in ((curves, over), *((lines, name) for name, lines in scaling.items())):
        for unit, lines in of.items():
            lines = list(filter(None, map(_measured, lines)))
            found += [_plot(part, unit, what, usual) for part in _divided(lines)]
    found += [_matrix(*of, cells, link_classes) for of, cells in matrices.items() if _is_matrix(cells)]
    return [*found, *_bars(plain)]


def _by_name(
    groups: list[Group],
) -> tuple[dict[str, list[_Curve]], dict[tuple[str, str], dict], list[tuple[_Like, Group]]]:
    """Curves by unit, matrices by title and unit, and what is neither."""
    one_node = {'num_nodes': '1'} if any('num_nodes' in group.parameters for group in groups) else {}
    numbered: dict[tuple, dict[tuple[int, ...], Group]] = defaultdict(dict)
    plain = []
    for group in groups:
        row = group.worst
        if found := _NUMBERED.fullmatch(row.id.name):
            numbers = tuple(map(int, found[2][1:].split('_')))
            numbered[row.id.params, found[1], row.quantity.unit, len(numbers)][numbers] = group
        else:
            plain.append((one_node | group.parameters | {'metric': row.id.name}, group))
    curves: dict[str, list[_Curve]] = defaultdict(list)
    matrices: dict[tuple[str, str], dict[tuple[int, int], Group]] = defaultdict(dict)
    for (_, stem, unit, length), members in numbered.items():
        first = next(iter(members.values()))
        like = one_node | first.parameters | {'metric': stem}
        of = [f'{name}={value}' for name, value in first.parameters.items() if name != 'link_class']
        if length == 2:
            matrices[' '.join((stem, *of)), unit].update(members)
        elif length == 3:
            size = (min if first.worst.quantity.better == 'lower' else max)(x for x, *_ in members)
            for pair in dict.fromkeys(numbers[1:] for numbers in members):
                points = {x: group for (x, *its), group in members.items() if tuple(its) == pair}
                curves[unit].append((like | {'pair': '-'.join(map(str, pair))}, points))
                if size in points:
                    matrices[' '.join((f'{stem}_{size}', *of)), unit][pair] = points[size]
        elif len(members) >= _FEWEST_POINTS and not _are_names(x for (x,) in members):
            curves[unit].append((like, {x: group for (x,), group in members.items()}))
        else:
            plain += ((like | {'number': str(x)}, group) for (x,), group in members.items())
    return curves, matrices, plain


def _measured(curve: _Curve) -> _Curve | None:
    like, points = curve
    points = {x: group for x, group in points.items() if group.value is not None}
    return (like, points) if points else None


def _are_names(numbers: Iterable[int]) -> bool:
    """0, 1, 2, ... number devices or domains, and count nothing."""
    found = sorted(numbers)
    return found == list(range(len(found)))


def _over_parameter(
    plain: list[tuple[_Like, Group]],
) -> tuple[dict[str, dict[str, list[_Curve]]], list[tuple[_Like, Group]]]:
    """By parameter and unit the curves over the parameter of the cases that counts something, the one with the most
    values; and what has none."""
    values: dict[str, set[str]] = defaultdict(set)
    for like, _ in plain:
        for name, value in like.items():
            values[name].add(value)
    counts = [
        name for name, found in values.items()
        if len(found) >= _FEWEST_POINTS and all(map(str.isdecimal, found)) and not _are_names(map(int, found))
    ]  # fmt: skip
    if not counts:
        return {}, plain
    over = max(counts, key=lambda name: len(values[name]))
    lines: dict[tuple, list[tuple[_Like, Group]]] = defaultdict(list)
    for like, group in plain:
        rest = {name: value for name, value in like.items() if name != over}
        lines[group.worst.quantity.unit, over in like, tuple(rest.items())].append((like, group))
    curves: dict[str, list[_Curve]] = defaultdict(list)
    left = []
    for (unit, has, rest), points in lines.items():
        if has and len(points) > 1:
            curves[unit].append((dict(rest), {int(like[over]): group for like, group in points}))
        else:
            left += points
    return {over: curves}, left


def _varying(of: Sequence[dict[str, str]]) -> list[str]:
    """The names whose values are not the same everywhere, without ``num_nodes`` where the others tell it."""
    every = dict.fromkeys(name for one in of for name in one)
    names = [name for name in every if len({one.get(name) for one in of}) > 1]
    others = [name for name in names if name != 'num_nodes']
    told = {tuple(map(one.get, others)) for one in of}
    return others if len(told) == len({tuple(map(one.get, names)) for one in of}) else names


def _divided(lines: list[_Curve]) -> list[list[_Curve]]:
    """The lines of each of as many charts as it takes to have few lines in each: a parameter at a time becomes one that
    all lines of a chart have in common, the one with the fewest values first."""
    names = _varying([like for like, _ in lines])
    if not lines:
        return []
    if len(lines) <= FEW or len(names) < 2:
        return [lines]
    name = min(names, key=lambda name: len({like.get(name) for like, _ in lines}))
    parts: dict[str | None, list[_Curve]] = defaultdict(list)
    for like, points in lines:
        parts[like.get(name)].append((like, points))
    return [chart for part in parts.values() for chart in _divided(part)]


def _title(of: Sequence[_Like]) -> str:
    """What all have in common, the metric first."""
    common = {name: value for name, value in of[0].items() if all(one.get(name) == value for one in of)}
    metric = common.pop('metric', '')
    return ' '.join([metric, *(f'{name}={value}' for name, value in common.items())]).strip()


def _label(like: dict[str, str], varying: Sequence[str]) -> str:
    said = (count(int(like[name]), 'node') if name == 'num_nodes' else like[name] for name in varying if name in like)
    return ' '.join(said)


def _natural(text: str) -> list:
    """Sorts numbers in a text by their size."""
    return [int(part) if part.isdecimal() else part for part in re.split(r'(\d+)', text)]


class _Axis:
    """From numbers to places between `start` and `end`."""

    def __init__(self, values: Sequence[float], start: int, end: int, logarithmic: bool | None = None):
        low, high = min(values), max(values)
        self.log = low > 0 and (high / low >= _LOGARITHMIC if logarithmic is None else logarithmic)
        if low == high:
            low, high = (low / 2, high * 2) if self.log else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> int:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else 0
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(max(share, 0), 1) * (self.end - self.start))

    def places(self, values: numpy.ndarray) -> numpy.ndarray:
        """Of many numbers within the ends of the axis."""
        low, high = self.low, self.high
        if self.log:
            low, high, values = math.log(low), math.log(high), numpy.log(values)
        return numpy.rint(self.start + (values - low) / (high - low) * (self.end - self.start)).astype(int)

    def ticks(self) -> Ticks:
        """Round numbers, about five."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            step = max(1, len(powers) // 5)
            values = [10.0**power for power in powers[::step]]
            if self.high / self.low < 1000:
                values = [value * factor for value in values for factor in (1, 3)]
        else:
            rough = (self.high - self.low) / 4
            unit = 10 ** math.floor(math.log10(rough))
            step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
            values = [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        slack = 1e-9 * (self.high - self.low)
        return [(self(value), number(value)) for value in values if self.low - slack <= value <= self.high + slack]


def _counted(x: int) -> str:
    """``16 Ki``: of sizes, which are powers of two."""
    for power, prefix in ((20, 'Mi'), (10, 'Ki')):
        if x >= 2**power and x % 2**power == 0:
            return f'{x >> power} {prefix}'
    return str(x)


def _joined(points: Iterable[tuple[int, int]]) -> str:
    path = ' '.join(f'{x} {y}' for x, y in points)
    return f'M{path}' if path else ''


def _marks(points: Iterable[tuple[int, int]], half: int) -> str:
    """A short horizontal line at each point; a dot where `half` is 0."""
    return ''.join(f'M{x - half} {y}h{2 * half}' for x, y in points)


def _plot(curves: list[_Curve], unit: str, over: str, usual: Usual) -> Plot:
    names = _varying([like for like, _ in curves])
    curves = sorted(curves, key=lambda curve: _natural(_label(curve[0], names)))
    numbers = sorted({x for _, points in curves for x in points})
    few = len(curves) <= FEW
    bands = [
        {x: usual[_key(group)] for x, group in points.items() if few and _key(group) in usual} for _, points in curves
    ]
    shown = [group for _, points in curves for group in points.values()]
    values = [group.value for group in shown]
    values += [group.worst.limit for group in shown if few and group.worst.limit is not None]
    values += [end for band in bands for ends in band.values() for end in ends]
    ideals = [_ideal(like, points) if over == 'num_nodes' and unit.endswith('/s') else {} for like, points in curves]
    values += [value for ideal in ideals for value in ideal.values()]
    if min(values) > 0 and max(values) < _LOGARITHMIC * min(values):
        values.append(0.0)  # so that little noise looks little
    width, height = 480, 240
    x_axis = _Axis(numbers, _LEFT, width - _RIGHT, logarithmic=numbers[0] > 0 and numbers[-1] >= 16 * numbers[0])
    y_axis = _Axis(values, height - _BOTTOM, _TOP)
    lines = []
    for (like, points), band, ideal in zip(curves, bands, ideals, strict=True):
        at = [(x_axis(x), y_axis(points[x].value), points[x].worst) for x in sorted(points)]
        path = [(x, y) for x, y, _ in at]
        outline = sorted((x_axis(x), y_axis(low), y_axis(high)) for x, (low, high) in band.items())
        limits = [(x, y_axis(row.limit)) for x, _, row in at if row.limit is not None] if few else ()
        lines.append(
            Line(
                _label(like, names) or like['metric'], _joined(path), dots=_marks(path, 0),
                band=_joined([(x, low) for x, low, _ in outline] + [(x, high) for x, _, high in reversed(outline)]),
                limits=_marks(limits, 4), bad=_marks(((x, y) for x, y, row in at if row.verdict in BAD), 0),
                ideal=_joined((x_axis(x), y_axis(value)) for x, value in sorted(ideal.items())),
                groups=tuple(points.get(x) for x in numbers),
            )
        )  # fmt: skip
    x_ticks: Ticks = []
    for x in numbers:  # those that leave room for their texts
        if not x_ticks or x_axis(x) - x_ticks[-1][0] >= 44:
            x_ticks.append((x_axis(x), _counted(x)))
    title = _title([like for like, _ in curves])
    return Plot(title, unit, over, width, height, x_ticks, y_axis.ticks(), lines, tuple(map(_counted, numbers)))


def _ideal(like: _Like, points: dict[int, Group]) -> dict[int, float]:
    """As much more than the first as there are more nodes; nothing for what is per node."""
    if like['metric'].endswith(_PER_NODE):
        return {}
    first = min(points)
    return {x: points[first].value * x / first for x in points}


def _key(group: Group) -> Key:
    row = group.worst
    return row.id.partition, row.id.environ, row.id.check, to_text(row.id.params), row.id.name


def history(
    title: str, unit: str, nights: numpy.ndarray, values: numpy.ndarray, steps: Sequence[tuple[datetime, int]],
    limit: float | None, expected: float | None,
) -> Plot:  # fmt: skip
    """The values of a metric over its nights (their times), and the numbers of the changes found at some of them."""
    width, height = 640, 120
    times = nights.astype('datetime64[s]').astype(float)
    marks = [mark for mark in (limit, expected) if mark is not None]
    x_axis = _Axis(times[[0, -1]].tolist(), _LEFT, width - _RIGHT, False)
    y_axis = _Axis([float(values.min()), float(values.max()), *marks], height - _BOTTOM, _TOP)
    path = numpy.stack((x_axis.places(times), y_axis.places(values)), axis=1)
    across = ('' if mark is None else f'M{_LEFT} {y_axis(mark)}H{width - _RIGHT}' for mark in (limit, expected))
    joined = ' '.join(map(str, path.ravel().tolist()))
    line = Line('', f'M{joined}', _marks(path.tolist(), 0) if len(times) < 60 else '', '', *across)
    days = numpy.datetime_as_string(nights[[0, -1]], 'D').tolist()
    ends = dict.fromkeys(zip(path[[0, -1], 0].tolist(), days, strict=True))
    changes = ((x_axis(float(numpy.datetime64(night, 's').astype(float))), i) for night, i in steps)
    return Plot(title, unit, '', width, height, list(ends), y_axis.ticks(), [line], steps=tuple(changes))


def strip(row: Verdict, values: Sequence[float]) -> dict[str, str] | None:
    """SVG paths of a strip 100 wide and 14 high: a tick a place, the taller the more values it holds.

    `values` are samples, or those of all nodes. ``samples``, ``limit`` and ``expected`` are the paths, the last two
    empty where there is no such number; None without finite values.
    """
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return None
    marks = [mark for mark in (row.limit, row.expected) if mark is not None]
    low, high = min([*values, *marks]), max([*values, *marks])
    span = (high - low) or abs(high) or 1.0

    def place(value: float) -> int:
        step = round((value - low) / span * _STRIP_STEPS) if high > low else _STRIP_STEPS // 2
        return 2 + step * (_STRIP_WIDTH - 4) // _STRIP_STEPS

    ticks = Counter(place(value) for value in values)
    most = max(ticks.values())
    path = ''.join(f'M{x} {_STRIP_HEIGHT}v-{4 + round(8 * n / most)}' for x, n in sorted(ticks.items()))
    line = {
        name: '' if value is None else f'M{place(value)} 0v{_STRIP_HEIGHT}'
        for name, value in (('limit', row.limit), ('expected', row.expected))
    }
    return {'samples': path, **line}


def _is_matrix(cells: dict[tuple[int, int], Group]) -> bool:
    return len({i for i, _ in cells}) > 1 and len({j for _, j in cells}) > 1


def _matrix(title: str, unit: str, cells: dict[tuple[int, int], Group], link_classes: dict[str, str]) -> Table:
    """A row for what the first number is, a column for the second.

    Shades are of logarithms: beside a domain's own memory all others would look alike (002, figure 1b).
    """
    rows, columns = sorted({i for i, _ in cells}), sorted({j for _, j in cells})
    values = [group.value for group in cells.values() if group.value is not None]
    low, high = min(values, default=0), max(values, default=0)

    def shade(group: Group) -> float | None:
        if group.value is None or not 0 < low < high:
            return None if group.value is None else 1.0
        share = math.log(group.value / low) / math.log(high / low)
        return share if group.worst.quantity.better == 'higher' else 1 - share

    def cell(i: int, j: int) -> Cell | None:
        group = cells.get((i, j))
        return group and Cell(group, shade(group), mark=group.parameters.get('link_class', ''))

    marks = dict.fromkeys(sorted({group.parameters.get('link_class', '') for group in cells.values()} - {''}))
    return Table(
        'heat', title, unit, [*map(str, rows)], [*map(str, columns)], [[cell(i, j) for j in columns] for i in rows],
        {mark: link_classes.get(mark, '') for mark in marks},
    )  # fmt: skip


def _bars(plain: list[tuple[_Like, Group]]) -> list[Table]:
    """A table for each unit, of metrics by what else differs; the more numerous of both are its rows."""
    units: dict[str, list[tuple[_Like, Group]]] = defaultdict(list)
    for like, group in plain:
        units[group.worst.quantity.unit].append((like, group))
    found = []
    for unit, members in units.items():
        if len(members) < _FEWEST_BARS:
            continue
        names = _varying([like for like, _ in members])
        sides = [name for name in names if name != 'metric']
        nothing = 'all' if sides else unit or 'value'
        cells = {(_label(like, sides) or nothing, like['metric']): group for like, group in members}
        rows, columns = (sorted({key[side] for key in cells}, key=_natural) for side in (0, 1))
        longest = max(max(group.value or 0, group.worst.limit or 0) for group in cells.values()) or 1.0

        def cell(row: str, column: str, cells=cells, longest=longest) -> Cell | None:
            if (group := cells.get((row, column))) is None:
                return None
            shares = (None if value is None else value / longest for value in (group.value, group.worst.limit))
            return Cell(group, *shares)

        table = [[cell(row, column) for column in columns] for row in rows]
        if len(columns) > len(rows):
            rows, columns, table = columns, rows, [list(column) for column in zip(*table, strict=True)]
        title = _title([like for like, _ in members])
        found.append(Table('bars', title, unit, rows, columns, table, {}))
    return found

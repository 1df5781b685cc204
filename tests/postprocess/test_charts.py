# SPDX-License-Identifier: BSD-3-Clause
"""Which charts are drawn of the series of a check, and where their points are."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import each_row
from run_reports import verdict_of

from plumbline.identity import SeriesId, from_text
from plumbline.record import Dim
from postprocess.report.charts import Grid, Style, charts_of
from postprocess.report.plots import Axis, Plot
from postprocess.views.series import SeriesRow

SIZE, THREADS, PAIR, NAME = Dim('size', 'B'), Dim('count'), Dim('pair'), Dim('name')
DIMS = {'message_bytes': SIZE, 'threads': THREADS, 'pair': PAIR, 'kernel': NAME, 'device': NAME}


def series(params, metric, dims=''):
    return SeriesId('gpu', 'rocm', 'A', from_text(params), metric, from_text(dims))


def judged(*rows):
    """Series of (params, metric, dims, value), with further fields of their verdict."""
    found = []
    for id, (params, metric, dims, value, *more) in enumerate(rows):
        found.append(SeriesRow(id, [verdict_of(series(params, metric, dims), value, **(more[0] if more else {}))]))
    return found


def drawn(*rows, usual=None, classes=None, dims=DIMS, **draw):
    return charts_of(judged(*rows), Style(dims, draw), usual or {}, classes or {})


def points(path):
    numbers = [float(number) for number in re.findall(r'-?[\d.]+', path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def values(grid):
    return [[cell and cell.series.value for cell in line] for line in grid.cells]


def curve(params, metric, sizes, dims='', **fields):
    return [(params, metric, f'message_bytes={size}{dims}', float(size), fields) for size in sizes]


@each_row(('values', 'logarithmic', 'places'), [
    ([0.0, 10.0], None, {0.0: 100, 5.0: 60, 10.0: 20, 99.0: 20, -1.0: 100}),
    # 1 to 10 000 is wide enough for logarithms: each power is a quarter
    ([1.0, 1e4], None, {1.0: 100, 10.0: 80, 100.0: 60, 1e4: 20, 0.0: 100, -5.0: 100}),
    ([1.0, 1e4], False, {5000.5: 60}), ([-1.0, 0.0, 1.0, 4.0], True, {1.0: 100, 2.0: 60, 4.0: 20}),
    # a single value is in the middle: from half to three halves of it, or to the double on a logarithmic axis
    ([4.0], None, {2.0: 100, 4.0: 60, 6.0: 20}), ([0.0], None, {-0.5: 100, 0.0: 60, 0.5: 20}),
    ([4.0], True, {2.0: 100, 4.0: 60, 8.0: 20}),
])  # fmt: skip
def test_an_axis_maps_values_to_pixels(values, logarithmic, places):
    axis = Axis(values, 100, 20, logarithmic)
    assert {value: axis(value) for value in places} == places


@each_row(('values', 'logarithmic', 'ticks'), [
    ([0.0, 10.0], False, ['0', '5', '10']), ([0.0, 8.0], False, ['0', '2', '4', '6', '8']),
    ([9.0, 11.1], False, ['9', '10', '11']), ([2.0, 40.0], True, ['3', '10', '30']),
    ([1.0, 999.0], True, ['1', '3', '10', '30', '100', '300']), ([1.0, 1000.0], True, ['1', '10', '100', '1000']),
    ([1.0, 1e10], True, ['1', '100', '10000', '1000000', '100000000', '1e+10']),
])  # fmt: skip
def test_ticks_are_round_numbers(values, logarithmic, ticks):
    assert [text for _, text in Axis(values, 0, 100, logarithmic).ticks()] == ticks


def test_a_size_is_a_logarithmic_axis_and_params_are_lines():
    sizes = [4**power for power in range(11)]
    (plot,) = drawn(*curve('pair=near', 'rate', sizes), *curve('pair=far', 'rate', sizes))
    assert (plot.title, plot.unit, plot.x) == ('rate', 'GB/s', 'message_bytes (B)')
    assert [line.label for line in plot.lines] == ['far', 'near']
    assert plot.x_values[4:6] + plot.x_values[-1:] == ('256', '1 Ki', '1 Mi')
    path = points(plot.lines[0].path)
    steps = {round(b[0] - a[0], -1) for a, b in pairwise(path)}
    assert len(path) == 11 and len(steps) == 1, 'sizes are equally far apart: the axis is logarithmic'
    assert [y for _, y in path] == sorted((y for _, y in path), reverse=True), 'larger values are further up'
    assert [one.value for one in plot.lines[0].points] == [float(size) for size in sizes]


def test_a_message_of_no_bytes_is_at_the_left_end():
    (plot,) = drawn(*curve('-', 'rate', (0, 1, 2, 4, 1024)))
    places = [x for x, _ in points(plot.lines[0].path)]
    assert places[0] == places[1] < places[2] < places[3] < places[4]


def test_a_curve_has_the_sessions_before_as_a_band_its_limits_and_crosses_at_what_fell_short():
    sizes = (1, 4, 16, 64)
    rows = curve('-', 'rate', sizes)
    rows[2] = (*rows[2][:4], {'limit': 20.0, 'expected': 25.0, 'verdict': 'regressed'})
    usual = {series('-', 'rate', f'message_bytes={size}'): (size * 0.9, size * 1.1) for size in sizes}
    (plot,) = drawn(*rows, usual=usual)
    (line,) = plot.lines
    assert len(points(line.band)) == 8
    (limit, _), cross = points(line.limits), points(line.bad)[0]
    bad = points(line.path)[2]
    assert (cross[0] + 4, cross[1] + 4) == bad
    assert limit[0] == bad[0] and limit[1] < bad[1], 'the limit is above the value that fell short of it'


def test_each_pair_is_a_line_and_the_size_that_matters_a_matrix():
    rows = [
        row
        for pair in ('0-1', '0-2', '1-2')
        for row in curve('link_class=A', 'latency', (1, 2, 4, 8), f',pair={pair}', unit='us', better='lower')
    ]
    plot, grid = drawn(*rows)
    assert [line.label for line in plot.lines] == ['0-1', '0-2', '1-2']
    assert grid.title == 'latency message_bytes=1'
    assert values(grid) == [[1, 1], [None, 1]]
    rows = [(*row[:4], {}) for row in rows]
    assert drawn(*rows)[1].title == 'latency message_bytes=8', 'where higher is better, the largest size'


def test_many_lines_are_divided_by_the_param_with_the_fewest_values():
    cases = [f'layout={layout},num_nodes={n}' for layout in ('core', 'node') for n in (2, 4, 8, 16, 32)]
    plots = drawn(*(row for case in cases for row in curve(case, 'bcast', (1, 8, 64))))
    assert [plot.title for plot in plots] == ['bcast layout=core', 'bcast layout=node']
    assert [line.label for line in plots[0].lines] == [f'{n} nodes' for n in (2, 4, 8, 16, 32)]


def test_a_param_that_the_others_imply_is_no_label():
    (plot,) = drawn(*curve('num_nodes=2,pair=two_nodes', 'rate', (1, 2, 4)), *curve('pair=near', 'rate', (1, 2, 4)))
    assert [line.label for line in plot.lines] == ['near', 'two_nodes']


def test_of_growing_numbers_of_nodes_the_ideal_line_grows_in_proportion_from_the_first_point():
    rows = [
        (f'num_nodes={n}', 'gflops', '', value, {'unit': 'GFlop/s'})
        for n, value in ((2, 100.0), (4, 160.0), (8, 240.0))
    ]
    (plot,) = drawn(*rows, gflops={'title': 'HPL'})
    (line,) = plot.lines
    assert (plot.title, plot.x, plot.x_values) == ('HPL', 'num_nodes', ('2', '4', '8'))
    assert line.efficiency == pytest.approx((100, 80, 60)), 'of 100, 200 and 400'
    (left, low), (middle, half), (right, high) = points(line.ideal)
    assert points(line.path)[0] == (left, low) and points(line.path)[-1][1] > high, 'less than the ideal is below it'
    assert (right - left) / (middle - left) == pytest.approx(3, rel=0.01)
    assert (low - high) / (low - half) == pytest.approx(3, rel=0.01)
    assert not drawn(*rows, gflops={'ideal': 'none'})[0].lines[0].ideal, 'a rate per node does not grow'
    times = [(params, metric, dims, value, {'unit': 's'}) for params, metric, dims, value, _ in rows]
    assert not drawn(*times)[0].lines[0].ideal, 'a time does not grow with the nodes'
    assert drawn(*times, gflops={'ideal': 'proportional'})[0].lines[0].ideal


def test_a_check_may_declare_or_choose_a_param_as_axis():
    rows = [(f'processes={n}', 'operations', '', 10.0 * n) for n in (2, 4, 8)]
    assert [chart.x for chart in drawn(*rows, dims={'processes': Dim('count')})] == ['processes']
    assert [chart.x for chart in drawn(*rows, operations={'x': 'processes'})] == ['processes']
    assert not drawn(*rows)


def test_numbers_of_devices_are_no_axis():
    rows = [('-', 'bandwidth', f'device={i},kernel={k}', 1.0 + i) for i in range(4) for k in ('copy', 'dot')]
    assert drawn(*rows) == []


def test_matrices_of_link_classes_are_one_with_the_class_in_each_cell():
    rows = [
        ('link_class=A,pairs=all', 'bandwidth', 'pair=0-1', 100.0),
        ('link_class=A,pairs=all', 'bandwidth', 'pair=2-3', 100.0),
        ('link_class=B,pairs=all', 'bandwidth', 'pair=0-2', 25.0),
        ('link_class=B,pairs=all', 'bandwidth', 'pair=1-3', 50.0),
    ]
    (grid,) = drawn(*rows, classes={'A': 'four links'})
    assert (grid.title, grid.rows, grid.columns) == ('bandwidth pairs=all', ['0', '1', '2'], ['1', '2', '3'])
    assert values(grid) == [[100, 25, None], [None, None, 50], [None, None, 100]]
    assert grid.marks == {'A': 'four links', 'B': ''}
    assert [cell.mark for line in grid.cells for cell in line if cell] == ['A', 'B', 'B', 'A']
    assert [round(cell.share, 2) for line in grid.cells for cell in line if cell] == [1, 0, 0.5, 1]


def test_of_latencies_the_lowest_is_the_best():
    cells = {'0-0': 80.0, '0-1': 320.0, '1-0': 160.0, '1-1': 80.0}
    (grid,) = drawn(*(('-', 'latency', f'pair={pair}', v, {'better': 'lower'}) for pair, v in cells.items()))
    assert [[round(cell.share, 2) for cell in line] for line in grid.cells] == [[1, 0], [0.5, 1]]


def test_equal_pairs_look_equal_and_one_that_was_not_measured_has_no_shade():
    cells = {'0-0': 5.0, '0-1': 5.0, '1-0': 5.0, '1-1': None}
    (grid,) = drawn(*(('-', 'rate', f'pair={pair}', v) for pair, v in cells.items()))
    assert [[cell.share for cell in line] for line in grid.cells] == [[1, 1], [1, None]]


@each_row('pairs', [['0-0'], ['0-0', '0-1'], ['0-1', '0-2', '0-3', '0-4']])
def test_one_row_is_no_matrix(pairs):
    assert drawn(*(('-', 'rate', f'pair={pair}', 1.0) for pair in pairs)) == []


def test_a_series_of_many_nodes_is_drawn_at_its_median():
    rows = [one.worst for one in judged(*(('-', 'a', '', float(value)) for value in (1, 7, 8, 9)))]
    assert SeriesRow(0, rows).value == 7.5


metrics = st.sampled_from(['a', 'b_1', '_', '*'])
cases = st.sampled_from(['-', 'n=1', 'n=2', 'n=8', 'num_nodes=2', 'link_class=A', 'x=y,z=', 'n='])
dims = st.sampled_from(
    ['', 'pair=0-1', 'pair=1-0', 'pair=1-1', 'pair=none',
     *(f'message_bytes={x}' for x in (0, 1, 4, '1e999', 'nan', 'x')),
     'message_bytes=8,pair=0-1', 'message_bytes=9,pair=1-0', 'threads=1', 'threads=-5', 'threads=7', 'kernel=a']
)  # fmt: skip
numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@example([('-', 'a', 'message_bytes=8,pair=0-1', -1.2e308, {'limit': None})])
@example([('-', 'a', f'message_bytes={i}', 5e-324 * i, {'limit': 5.0}) for i in (1, 2, 4)])
@example([('-', 'a', f'threads={i}', 1.0, {'limit': 5.0}) for i in (-5, 1, 7)])
@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(cases, metrics, dims, numbers, st.fixed_dictionaries({'limit': st.none() | st.floats(1, 10)})),
        unique_by=lambda row: row[:3],
    )
)
def test_whatever_was_measured_can_be_drawn_inside_its_box(rows):
    for chart in drawn(*rows, a={'ideal': 'proportional'}):
        if isinstance(chart, Grid):
            assert all(len(line) == len(chart.columns) for line in chart.cells) and len(chart.cells) == len(chart.rows)
        else:
            assert isinstance(chart, Plot)
            for line in chart.lines:
                assert all(0 <= x <= chart.width and 0 <= y <= chart.height for x, y in points(line.path))
                assert len(line.points) == len(chart.x_values)

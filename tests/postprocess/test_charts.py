"""What is drawn of the metrics of a check."""

import re
from datetime import datetime, timedelta
from itertools import pairwise

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_reports import verdict_of

from plumbline.identity import SeriesId, from_text
from postprocess.report.charts import Group, Plot, Table, charts_of, history, strip


def groups(*rows):
    """Of (case, metric, value), with these further fields."""
    found = []
    for id, (case, metric, value, *more) in enumerate(rows):
        series = SeriesId('gpu', 'rocm', 'A', from_text(case), metric)
        found.append(Group(id, [verdict_of(series, value, **(more[0] if more else {}))]))
    return found


def drawn(*rows, usual=None, classes=None, over=''):
    return charts_of(groups(*rows), usual or {}, classes or {}, over)


def points(path):
    numbers = [float(number) for number in re.findall(r'-?[\d.]+', path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def values(table):
    return [[cell and cell.group.value for cell in line] for line in table.cells]


def curve(case, stem, sizes, suffix='', **fields):
    return [(case, f'{stem}_{size}{suffix}', float(size), fields) for size in sizes]


def test_numbers_in_names_are_a_curve_and_cases_its_lines():
    sizes = [2**power for power in range(12)]
    (plot,) = drawn(*curve('pair=near', 'rate', sizes), *curve('pair=far', 'rate', sizes), over='bytes')
    assert (plot.title, plot.unit, plot.over) == ('rate', 'GB/s', 'bytes')
    assert [line.label for line in plot.lines] == ['far', 'near']
    assert plot.x_values[-2:] == ('1 Ki', '2 Ki')
    path = points(plot.lines[0].path)
    steps = {round(b[0] - a[0], -1) for a, b in pairwise(path)}
    assert len(path) == 12 and len(steps) == 1, 'sizes are equally far apart: the axis is logarithmic'
    assert [y for _, y in path] == sorted((y for _, y in path), reverse=True), 'larger values are further up'
    assert [group.value for group in plot.lines[0].groups] == [float(size) for size in sizes]


def test_a_curve_has_the_nights_before_as_a_band_and_marks_at_limits_and_what_fell_short():
    sizes = (1, 4, 16, 64)
    rows = curve('-', 'rate', sizes)
    rows[2] = ('-', 'rate_16', 16.0, {'limit': 20.0, 'verdict': 'regressed'})
    usual = {('gpu', 'rocm', 'A', '-', f'rate_{size}'): (size * 0.9, size * 1.1) for size in sizes}
    (plot,) = drawn(*rows, usual=usual)
    (line,) = plot.lines
    assert len(points(line.band)) == 8
    ((x, y), _) = points(line.limits.replace('h', ' ') + ' 0')[:2]
    (bad,) = points(line.bad.removesuffix('h0'))
    assert bad == points(line.path)[2]
    assert x == bad[0] - 4 and y < bad[1], 'the limit is above the value that fell short of it'


def test_sizes_that_are_too_near_to_be_told_apart_are_points_of_one_place():
    sizes = (1, 1_000_000, 1_000_001, 1_000_002)
    (plot,) = drawn(*(('-', f'rate_{size}', 5.0) for size in sizes))
    places = points(plot.lines[0].path)
    assert len(places) == 4 and len(set(places)) == 2


def test_each_pair_of_devices_is_a_line_and_the_size_that_matters_a_matrix():
    rows = [
        row
        for pair in ('_0_1', '_0_2', '_1_2')
        for row in curve('link_class=A', 'latency', (1, 2, 4, 8), pair, unit='us', better='lower')
    ]
    plot, table = drawn(*rows)
    assert [line.label for line in plot.lines] == ['0-1', '0-2', '1-2']
    assert table.title == 'latency_1'
    assert values(table) == [[1, 1], [None, 1]]
    rows = [(case, metric, value, {}) for case, metric, value, _ in rows]
    assert drawn(*rows)[1].title == 'latency_8', 'of what should be high, the largest size'


def test_many_lines_are_divided_by_the_parameter_with_the_fewest_values():
    sizes = (1, 8, 64)
    cases = [f'layout={layout},num_nodes={n}' for layout in ('core', 'node') for n in (2, 4, 8, 16, 32)]
    plots = drawn(*(row for case in cases for row in curve(case, 'bcast', sizes)))
    assert [plot.title for plot in plots] == ['bcast layout=core', 'bcast layout=node']
    assert [line.label for line in plots[0].lines] == [f'{n} nodes' for n in (2, 4, 8, 16, 32)]


def test_a_parameter_that_the_others_tell_is_no_label():
    plots = drawn(*curve('num_nodes=2,pair=two_nodes', 'rate', (1, 2, 4)), *curve('pair=near', 'rate', (1, 2, 4)))
    assert [line.label for line in plots[0].lines] == ['near', 'two_nodes']


def test_cases_of_growing_numbers_of_nodes_are_a_curve_beside_perfect_scaling():
    rows = [(f'num_nodes={n}' if n > 1 else '-', 'gflops', 50.0 * n**0.9, {'unit': 'GFlop/s'}) for n in (1, 2, 4, 8)]
    (plot,) = drawn(*rows)
    (line,) = plot.lines
    assert (plot.over, plot.x_values) == ('num_nodes', ('1', '2', '4', '8'))
    path, ideal = points(line.path), points(line.ideal)
    assert path[0] == ideal[0]
    assert path[-1][1] > ideal[-1][1], 'what is measured is below what perfect scaling would give'


def test_devices_are_no_axis():
    (table,) = drawn(*((f'device={i}', name, 1.0 + i) for i in range(4) for name in ('copy', 'dot')))
    assert (table.kind, table.rows, table.columns) == ('bars', ['0', '1', '2', '3'], ['copy', 'dot'])
    (table,) = drawn(*(('-', f'{name}_{i}', 1.0 + i) for i in range(4) for name in ('copy', 'dot')))
    assert (table.rows, table.columns) == (['0', '1', '2', '3'], ['copy', 'dot'])


def test_matrices_of_link_classes_are_one_with_the_class_in_each_cell():
    rows = [
        ('link_class=A,pairs=all', 'bandwidth_0_1', 100.0),
        ('link_class=A,pairs=all', 'bandwidth_2_3', 100.0),
        ('link_class=B,pairs=all', 'bandwidth_0_2', 25.0),
        ('link_class=B,pairs=all', 'bandwidth_1_3', 50.0),
    ]
    (table,) = drawn(*rows, classes={'A': 'four links'})
    assert (table.title, table.rows, table.columns) == ('bandwidth pairs=all', ['0', '1', '2'], ['1', '2', '3'])
    assert values(table) == [[100, 25, None], [None, None, 50], [None, None, 100]]
    assert table.marks == {'A': 'four links', 'B': ''}
    assert [cell.mark for line in table.cells for cell in line if cell] == ['A', 'B', 'B', 'A']
    assert [round(cell.share, 2) for line in table.cells for cell in line if cell] == [1, 0, 0.5, 1]


def test_of_latencies_the_lowest_is_the_best():
    cells = {(0, 0): 80.0, (0, 1): 320.0, (1, 0): 160.0, (1, 1): 80.0}
    (table,) = drawn(*(('-', f'latency_{i}_{j}', v, {'better': 'lower'}) for (i, j), v in cells.items()))
    assert [[round(cell.share, 2) for cell in line] for line in table.cells] == [[1, 0], [0.5, 1]]


def test_equal_pairs_look_equal_and_one_that_was_not_measured_has_no_shade():
    cells = {(0, 0): 5.0, (0, 1): 5.0, (1, 0): 5.0, (1, 1): None}
    (table,) = drawn(*(('-', f'rate_{i}_{j}', v) for (i, j), v in cells.items()))
    assert [[cell.share for cell in line] for line in table.cells] == [[1, 1], [1, None]]


@pytest.mark.parametrize('names', [['rate_0_0'], ['rate_0_0', 'rate_0_1']])
def test_one_row_is_no_matrix(names):
    assert drawn(*(('-', name, 1.0) for name in names)) == []


def test_bars_are_shares_of_the_longest_and_units_apart():
    rows = [(f'binding={b}', k, v) for b, v in (('close', 100.0), ('spread', 50.0)) for k in ('copy', 'mul', 'triad')]
    rows[0] = ('binding=close', 'copy', 100.0, {'limit': 80.0})
    (table,) = drawn(*rows, ('binding=close', 'time', 3.0, {'unit': 's'}))
    assert (table.rows, table.columns) == (['copy', 'mul', 'triad'], ['close', 'spread'])
    assert (table.cells[0][0].share, table.cells[0][0].limit, table.cells[0][1].share) == (1, 0.8, 0.5)


def test_a_metric_of_many_nodes_is_drawn_at_its_median():
    rows = [group.worst for group in groups(*(('-', 'a', float(value)) for value in (1, 7, 8, 9)))]
    assert Group(0, rows).value == 7.5


def test_a_history_has_its_limit_and_its_steps_where_they_were():
    nights = [datetime(2026, 11, 1) + timedelta(days=day) for day in range(11)]
    times, values = numpy.array(nights, 'datetime64[s]'), numpy.array([100.0] * 5 + [50.0] * 6)
    plot = history('a', 'GB/s', times, values, [(nights[5], 3)], limit=90.0, expected=100.0)
    (line,) = plot.lines
    path = points(line.path)
    assert plot.steps == ((path[5][0], 3),)
    ((_, limit),) = points(line.limits.split('H')[0])
    assert path[0][1] < limit < path[-1][1]
    assert [text for _, text in plot.x_ticks] == ['2026-11-01', '2026-11-11']


names = st.sampled_from(
    ['a', 'a_1', 'a_2', 'a_4', 'a_0_0', 'a_0_1', 'a_1_0', 'a_1_1', 'a_8_0_1', 'a_9_1_0', 'b_', '_', '*']
)
cases = st.sampled_from(['-', 'n=1', 'n=2', 'n=8', 'num_nodes=2', 'link_class=A', 'x=y,z=', 'n='])
numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@example([('-', 'a_8_0_1', -1.2e308, {'limit': None})])
@example([('-', f'a_{i}', 5e-324 * i, {'limit': 5.0}) for i in (1, 2, 4)])
@settings(max_examples=500)
@given(
    st.lists(
        st.tuples(cases, names, numbers, st.fixed_dictionaries({'limit': st.none() | st.floats(1, 10)})),
        unique_by=lambda row: row[:2],
    )
)
def test_whatever_was_measured_can_be_drawn_inside_its_box(rows):
    for chart in drawn(*rows):
        if isinstance(chart, Table):
            assert all(len(line) == len(chart.columns) for line in chart.cells) and len(chart.cells) == len(chart.rows)
        else:
            assert isinstance(chart, Plot)
            for line in chart.lines:
                assert all(0 <= x <= chart.width and 0 <= y <= chart.height for x, y in points(line.path))
                assert len(line.groups) == len(chart.x_values)


def ticks(path):
    return [(int(x), int(height)) for x, height in re.findall(r'M(\d+) 14v-(\d+)', path)]


def verdict(**fields):
    return verdict_of(SeriesId('cpu', 'system', 'A', (), 'x'), **fields)


def test_two_levels_are_two_groups_of_ticks():
    shape = strip(verdict(limit=60.0, expected=100.0), [70.0] * 3 + [100.0] * 6)
    low, high = ticks(shape['samples'])
    assert low[0] < high[0] - 20
    assert low[1] < high[1]
    assert shape['limit'] == 'M2 0v14'
    assert shape['expected'] == 'M98 0v14'


@pytest.mark.parametrize('samples', [[5.0], [5.0, 5.0], [0.0, 0.0]])
def test_samples_without_spread_have_a_strip(samples):
    shape = strip(verdict(), samples)
    assert ticks(shape['samples']) == [(50, 12)]
    assert shape['limit'] == shape['expected'] == ''


def test_no_strip_without_finite_samples():
    assert strip(verdict(), []) is None
    assert strip(verdict(), [float('nan')]) is None

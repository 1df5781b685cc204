# SPDX-License-Identifier: BSD-3-Clause
"""Single parts of the page and of JUnit: axes, ticks, labels, cells, cards and test cases, on a few values."""

import xml.etree.ElementTree as ET
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row

from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity, to_text
from plumbline.limits import Limits
from plumbline.record import Summary
from plumbline.references import Reference
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Known, Seen
from postprocess.report import cards, charts, details, junit, page, pictures, plots, printed, site_data, site_nodes
from postprocess.results.excerpts import Shown
from postprocess.verdicts.verdict import Verdict
from postprocess.views import history, nodes, session
from postprocess.views.series import SeriesRow, drawable

STREAM = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY = STREAM.series('triad', ()), STREAM.series('copy', ())


def stub(**fields):
    return SimpleNamespace(**fields)


def verdict(kind, of=TRIAD, case_id=1, value=90.0, **fields):
    row = Reference(of, Quantity('GB/s', 'higher'), 100.0, 1.0, 3, 'baseline', 'x')
    return Verdict(
        kind, of, row.quantity, Summary(1, value, None, value, value), row, Limits(95.0, 105.0, 0.05, ''),
        case_id=case_id,
        **fields,
    )  # fmt: skip


# Axes


@each_row(('values', 'logarithmic', 'places'), [
    ([0.0, 10.0], None, {0.0: 100, 5.0: 60, 10.0: 20, 99.0: 20, -1.0: 100}),
    # 1 to 10 000 is wide enough for logarithms: each power is a quarter
    ([1.0, 1e4], None, {1.0: 100, 10.0: 80, 100.0: 60, 1e4: 20, 0.0: 100, -5.0: 100}),
    ([10.0, 1000.0], True, {10.0: 100, 100.0: 60, 1000.0: 20}),
    ([1.0, 1e4], False, {5000.5: 60}), ([-1.0, 0.0, 1.0, 4.0], True, {1.0: 100, 2.0: 60, 4.0: 20}),
    ([0.0, -1.0], True, {-0.5: 60}),
    # a single value is in the middle: from half to three halves of it, or to the double on a logarithmic axis
    ([4.0], None, {2.0: 100, 4.0: 60, 6.0: 20}), ([0.0], None, {-0.5: 100, 0.0: 60, 0.5: 20}),
    ([4.0], True, {2.0: 100, 4.0: 60, 8.0: 20}),
])  # fmt: skip
def test_an_axis_maps_values_to_pixels(values, logarithmic, places):
    axis = plots.Axis(values, 100, 20, logarithmic)
    assert {value: axis(value) for value in places} == places


@each_row(('values', 'logarithmic', 'ticks'), [
    ([0.0, 10.0], False, ['0', '5', '10']), ([0.0, 8.0], False, ['0', '2', '4', '6', '8']),
    ([0.0, 3.9], False, ['0', '1', '2', '3']), ([9.0, 11.1], False, ['9', '10', '11']),
    ([1.0, 1e4], True, ['1', '10', '100', '1000', '10000']), ([2.0, 40.0], True, ['3', '10', '30']),
    ([20.0, 400.0], True, ['30', '100', '300']),
    ([1.0, 999.0], True, ['1', '3', '10', '30', '100', '300']), ([1.0, 1000.0], True, ['1', '10', '100', '1000']),
    ([1.0, 1e10], True, ['1', '100', '10000', '1000000', '100000000', '1e+10']),
])  # fmt: skip
def test_ticks_are_round_numbers(values, logarithmic, ticks):
    assert [text for _, text in plots.Axis(values, 0, 100, logarithmic).ticks()] == ticks


def test_paths_of_a_picture():
    points = [(1, 2), (3, 4)]
    assert plots.joined(points) == 'M1 2 3 4' and plots.joined([]) == '' and plots.dots(points) == 'M1 2h0M3 4h0'
    assert plots.around([(1, 5, 9), (2, 6, 8)]) == 'M1 5 2 6 2 8 1 9'
    assert plots.crosses([(10, 20)]) == 'M6 16l8 8m-8 0l8-8'
    assert [drawable(value) for value in (None, 0.0, 1.0, -1e99, 1e100, 1e-100, 1e101)] == [
        False, True, True, True, False, False, False,
    ]  # fmt: skip


# Charts


@each_row(('x', 'text'), [
    (512.0, '512'), (1024.0, '1 Ki'), (1536.0, '1536'), (65536.0, '64 Ki'), (2.0**20, '1 Mi'), (3 * 2.0**19, '1536 Ki'),
    (2.5, '2.5'), (0.0, '0'),
])  # fmt: skip
def test_a_size_is_counted_in_powers_of_1024(x, text):
    assert charts.counted(x) == text


def test_lines_are_told_apart_by_what_differs():
    facts = [
        {'num_nodes': '1', charts.METRIC: 'a', 'x': '1'}, {'num_nodes': '1', charts.METRIC: 'b', 'x': '1'},
        {'num_nodes': '2', charts.METRIC: 'a', 'x': '1'},
    ]  # fmt: skip
    assert charts.varying(facts) == ['num_nodes', charts.METRIC] and charts.varying(facts[:2]) == [charts.METRIC]
    # where the other names tell all lines apart, the number of nodes is left out
    assert (
        charts.varying([facts[0], facts[2] | {charts.METRIC: 'b'}]) == [charts.METRIC]
        and charts.varying(facts[:1]) == []
    )
    assert charts.varying([facts[0], facts[2]]) == ['num_nodes']
    assert charts._label(facts[2], ['num_nodes', charts.METRIC, 'none']) == 'a 2 nodes'
    assert charts._label(facts[0], ['num_nodes']) == '1 node' and charts._label(facts[0], []) == ''


def test_many_lines_are_divided_by_the_name_with_the_fewest_values():
    lines = [({'metric': 'm', 'a': str(i % 2), 'b': str(i)}, {}) for i in range(2 * charts.FEW)]
    parts = charts._divided(lines)
    assert [len(part) for part in parts] == [charts.FEW] * 2
    assert [{facts['a'] for facts, _ in part} for part in parts] == [{'0'}, {'1'}]
    assert charts._divided(lines[: charts.FEW]) == [lines[: charts.FEW]] and charts._divided([]) == []
    one = [({'metric': 'm', 'b': str(i)}, {}) for i in range(2 * charts.FEW)]
    assert charts._divided(one) == [one]


def test_perfect_scaling_grows_from_the_first_point():
    points = {2.0: stub(value=10.0), 4.0: stub(value=15.0), 1.0: stub(value=6.0)}
    assert charts._proportional(points) == {2.0: 12.0, 4.0: 24.0, 1.0: 6.0}
    assert charts._proportional({0.0: stub(value=1.0)}) == {}


STYLE = stub(title=lambda of: 'title', dims=['pair'], kind=lambda name: 'name')


def judged(value, better='higher', limit=None):
    return stub(value=value, quantity=Quantity('GB/s', better), worst=stub(limit=limit))


def test_a_matrix_is_shaded_by_logarithms_the_best_full():
    for better, shades in (('higher', [0.0, 0.5, 1.0]), ('lower', [1.0, 0.5, 0.0])):
        members = {
            ('10', '0'): ({'link_class': 'A'}, judged(1.0, better)), ('9', '0'): ({}, judged(10.0, better)),
            ('9', '1'): ({'link_class': 'B'}, judged(100.0, better)), ('10', '1'): ({}, judged(None, better)),
        }  # fmt: skip
        grid = charts._matrix('GB/s', members, STYLE, {'A': 'NVLink'})
        assert (grid.rows, grid.columns) == (['9', '10'], ['0', '1'])
        found = {(i, j): grid.cells[y][x] for y, i in enumerate(grid.rows) for x, j in enumerate(grid.columns)}
        assert [found[place].share for place in (('10', '0'), ('9', '0'), ('9', '1'))] == pytest.approx(shades)
        assert found['10', '1'].share is None and found['9', '1'].mark == 'B'
    alone = charts._matrix('GB/s', {('0', '1'): ({}, judged(5.0)), ('1', '0'): ({}, judged(5.0))}, STYLE, {})
    assert alone.cells[0][0] is None and alone.cells[0][1].share == alone.cells[1][0].share == 1.0


# Tables, cards


def test_the_cells_of_a_table_link_to_what_they_name():
    row = {'name': 'n 1', 'incidents': ['abc', 'def'], 'bad': 2, 'worst': 'triad', 'worst_id': 7}
    columns = {column.key: column for column in nodes.NODES}
    assert columns['name'].links(row) == [('n 1', '#n=n%201')] and columns['bad'].links(row) == [('2', '')]
    assert columns['incidents'].links(row) == [('abc', '#iabc'), ('def', '#idef')]
    assert columns['worst'].links(row) == [('triad', '#m7')]
    assert columns['worst'].links(row | {'worst_id': None}) == [('triad', '')]
    assert columns['incidents'].links(row | {'incidents': []}) == []
    shown = page.template('parts.html.j2').module.rows(stub(columns=[*columns.values()][1:4:2]), [row])
    assert '<td data-column="bad" class="r b" data-v="2.00">2</td>' in shown and '<a href="#iabc">abc</a> <a' in shown
    assert str(page._broken('a,<b>')) == 'a,<wbr>&lt;b&gt;'


def test_the_worst_series_are_one_row_for_each_cause():
    def of(id, kind, metric, nodes=('n1',), jobs=1, **fields):
        return SeriesRow(id, jobs * [verdict(kind, STREAM.series(metric, ()), None, nodes=nodes, **fields)])

    rows = session.worst([
        of(1, 'regressed', 'a', cause='slow', nodes=('n1', 'n2', 'n3', 'n4', 'n5'), jobs=2),
        of(2, 'regressed', 'b', cause='slow'), of(3, 'ok', 'c'), of(4, 'failed', 'd', cause='lost'),
        of(5, 'failed', 'e', cause='lost'), of(6, 'warning', 'f', cause='busy', nodes=()),
    ], stub(known=[]))  # fmt: skip
    assert [(row['id'], row['verdict'], row['what'].rpartition(' size=big ')[2]) for row in rows] == [
        (1, 'regressed', 'a'), (2, 'regressed', 'b'), (4, 'failed', 'd and 1 other metric'), (6, 'warning', 'f'),
    ]  # fmt: skip
    assert [row['where'] for row in rows] == [
        'cpu/system on n1, n2, n3, n4 ..., the worst of 2 jobs', 'cpu/system on n1', 'cpu/system on n1', 'cpu/system',
    ]  # fmt: skip


def incident(nodes=(), where=None, **fields):
    return Incident(
        'NODE', where or Scope('demo', 'cpu', 'system'), 'loss', ('STREAM',), (TRIAD, COPY), tuple(nodes), **fields
    )


@each_row(('nodes', 'sizes', 'says'), [
    ((), {'cpu': 8}, 'cpu/system'), (('n1', 'n2', 'n3'), {'cpu': 8}, 'cpu/system, n1, n2, n3'),
    (('n1', 'n2', 'n3', 'n4'), {'cpu': 8}, 'cpu/system, 4 of 8 nodes'), (('n1', 'n2'), {'cpu': 2},
    'cpu/system, 2 of 2 nodes'),
    (('n1',), {}, 'cpu/system, 1 of 1 node'), (('n1', 'n2'), {'cpu': 1}, 'cpu/system, 2 of 2 nodes'),
])  # fmt: skip
def test_a_card_tells_on_how_many_nodes_it_was_seen(nodes, sizes, says):
    assert cards._where(incident(nodes), sizes) == says
    assert cards._where(incident(nodes, Scope('demo', 'cpu', nodes=('n9',))), sizes) == 'n9'


def test_a_card_has_the_deviation_of_its_values():
    assert cards._deviation(Value('GB/s', 'higher', 90.0, 1, 100.0)) == pytest.approx(-10.0)
    for none in (
        None,
        Value('x', 'higher', None, 1, 100.0),
        Value('x', 'higher', 90.0),
        Value('x', 'higher', 9.0, 1, 0.0),
    ):
        assert cards._deviation(none) is None
    known = [stub(id='a', closed='', incident=stub(series=[TRIAD])), stub(id='b', closed='',
    incident=stub(series=[TRIAD, COPY])),
             stub(id='c', closed='2026', incident=stub(series=[COPY]))]  # fmt: skip
    assert session.incidents_of(stub(known=known)) == {TRIAD: ['a', 'b'], COPY: ['b']}


def test_a_spark_begins_with_the_first_tenth_and_marks_when_it_began():
    sessions = [stub(epoch=100 * i, day=f'2026-11-{i + 1:02}') for i in range(20)]
    levels = [(i, 0.0 if i < 10 else -0.1) for i in range(20)]
    one = incident(day='2026-11-11', values={TRIAD: Value('GB/s', 'higher', 1.0, 1, 1.0)})
    found = cards._spark(stub(sessions=sessions), levels, one)
    assert (
        found.text == 'median, against their own median where they have no reference: +0.0 % on 2026-11-01, -9.5 % now'
    )
    # sessions 0 to 19 from pixel 3 to 235; 0 to -9.5 with a range from -9.5 to 1 over pixels 40 to 4
    left = 3 + round(10 / 19 * 232)
    assert found.since == f'M{left} 0V44' and found.path.startswith('M3 7 ') and found.last == 'M235 40h0'
    assert found.reference == 'M0 7H240'
    both = {of: Value('us', 'lower', 1.0, 1, 1.0) for of in (TRIAD, COPY)}
    lower = cards._spark(stub(sessions=sessions), levels, incident(day='2026-11-01', values=both))
    assert lower.text == 'median, against the references: +0.0 % on 2026-11-01, +10.5 % now' and lower.since == ''


# Outputs


def test_the_lines_of_bad_verdicts_of_jobs_with_an_archive_are_shown(monkeypatch):
    monkeypatch.setattr(
        printed, 'archives_of', lambda digest, cases: {'a': {'p': [first]}, 'over': {'p': [verdict('ok', COPY, 5)]}}
    )
    first = verdict('regressed', COPY, 1)
    rows = [verdict('regressed'), verdict('ok', case_id=2), verdict('missing', case_id=None), verdict('failed',
    case_id=3),
            verdict('warning', case_id=4), verdict('regressed')]  # fmt: skip
    digest = stub(of_state=lambda *of: [stub(id='over')], comparison=stub(verdicts=rows))
    cases = {number: stub(evidence='' if number == 3 else 'x') for number in range(1, 6)}
    found = printed._wanted(cases, digest)
    assert found == {1: [first, rows[0]], 4: [rows[4]]}


@each_row(('values', 'trials', 'sign', 'invalid', 'wanted'), [
    ({}, 2, 1, False, Shown('triad')), ({1: 5.0, 2: 3.0, 3: 4.0}, 3, 1, False, Shown('triad', 2, lost=False)),
    ({1: 5.0, 2: 3.0, 3: 4.0}, 3, -1, False, Shown('triad', 1, lost=False)),
    ({1: 5.0, 2: 3.0, 3: 4.0}, 3, 1, True, Shown('triad', 1, lost=False)),
    ({1: 5.0, 3: 4.0}, 3, 1, False, Shown('triad', 2)), ({1: 5.0}, None, 1, False, Shown('triad', 1, lost=False)),
])  # fmt: skip
def test_the_trial_that_lacks_its_number_or_is_the_worst_is_shown(values, trials, sign, invalid, wanted):
    samples = {(7, 'triad', '-'): values} if values else {}
    assert printed._lines_of(TRIAD, sign, invalid, stub(case_id=7, trials=trials), samples) == wanted


# JUnit


def test_verdicts_and_incidents_are_test_cases():
    def plain(element):
        (child,) = element
        said = child.get('message') or child.text
        return element.get('classname'), element.get('name'), child.tag, said, child.get('type')

    assert plain(junit._bad(verdict('failed', nodes=('n1',), cause='x'), 'name', '')) == (
        'cpu.system.STREAM', 'name', 'failure', 'triad on n1: failed: x', 'failed',
    )  # fmt: skip
    assert plain(junit._bad(verdict('failed', cause='x'), 'name', 'abc'))[2:4] == (
        'skipped', 'triad: failed: x; acknowledged with incident abc',
    )  # fmt: skip
    rows = [verdict('ok'), verdict('ok'), verdict('no_reference'), verdict('warning', COPY, cause='busy')]
    assert plain(junit._others(rows))[1:4] == (
        'cpu/system STREAM', 'system-out', '1 warning, 2 ok, 1 no reference\ncpu/system STREAM size=big copy: busy',
    )  # fmt: skip
    said = plain(junit._others([rows[3]] * 25))[3].splitlines()
    assert (said[0], len(said)) == ('25 warning', 21)  # of a check, the first 20 are told
    assert plain(junit._others(rows[2:3]))[2:4] == ('skipped', '1 no reference: no reference to judge by')
    seen = {'s': Seen('2026-11-22T01:00:00', ('n1',), ())}
    known = Known('abc', incident(('n1', 'n2'), loss=0.1, evidence=('a', 'b')), seen, results=Path('r'))
    what = '10.0 % less in STREAM size=big triad and 1 other metric'
    assert plain(junit._incident(known, '2026-11-22')) == (
        'incident.NODE', 'abc cpu/system', 'failure', f'{what}; on n1, n2; a; b', 'NODE',
    )  # fmt: skip


def test_a_document_of_junit_counts_its_test_cases():
    rows = [
        verdict('regressed', nodes=('n1',), cause='x'), verdict('regressed', nodes=('n1',), cause='y', case_id=2),
        verdict('regressed', nodes=(), cause='z', case_id=3), verdict('ok', COPY), verdict('missing', COPY,
        cause='gone'),
    ]  # fmt: skip
    session = stub(site='demo', started=datetime(2026, 11, 22, 1), hostname='login\x001')
    found = stub(session=session, verdicts=rows, problems=[stub(text='1 ran'), stub(text='late')])
    root = ET.fromstring(junit.to_junit(found))
    assert [(suite.get('name'), suite.get('tests'), suite.get('failures'), suite.get('skipped'), suite.get('hostname'))
            for suite in root] == [
        ('demo:cpu', '5', '4', '0', 'login1'), ('demo:session', '2', '2', '0', 'login1'),
    ]  # fmt: skip
    triad = 'cpu/system STREAM size=big triad'
    assert [one.get('name') for one in root[0]] == [
        'cpu/system STREAM size=big copy', triad, f'{triad} on n1', f'{triad} on n1 job 2', 'cpu/system STREAM',
    ]  # fmt: skip
    assert [one.get('name') for one in root[1]] == ['problem 1', 'problem 2']


# Histories


def test_a_picture_of_a_history_has_its_limits_band_crosses_and_days():
    # a day is a pixel, from 52 on; 105 is at the top, 8, and 70 at the bottom, 220
    times = [86400 * day for day in (0, 90, 179, 576)]
    past = {
        'at': [0, 1, 2, 3], 'history': [100.0, 98.0, 80.0, 96.0], 'limit': 95.0, 'expected': 100.0, 'bad': 70.0,
        'low': [98.0, 97.0, None, 95.0], 'high': [102.0, 99.0, None, None], 'changes': [(1, 'kernel')],
        'name': 'triad', 'unit': 'GB/s',
    }  # fmt: skip
    plot = pictures._past(past, times)
    (line,) = plot.lines
    assert (line.label, plot.title, plot.unit, plot.since) == (
        'median of the nodes',
        'triad',
        'GB/s',
        [(142, 'kernel')],
    )
    assert [x for x, _ in plot.x_ticks] == [52, 142, 628], 'a tick needs 90 pixels'
    assert line.path == 'M52 38 142 50 231 159 628 63' and line.ideal == 'M52 38 628 38'
    assert line.limits == 'M52 69 628 69 628 8 52 8' and line.band == 'M52 50 142 56 142 44 52 26'
    assert line.bad == plots.crosses([(231, 159), (628, 220)])
    bare = {'at': [0, 3], 'history': [1.0, 3.0], 'changes': [], 'name': 'x', 'unit': '', 'expected': 9.0}
    (line,) = pictures._past(bare, times).lines
    assert (line.label, line.path, line.limits, line.ideal, line.bad, line.band) == (
        'measured', 'M52 220 628 8', '', '', '', ''
    )  # fmt: skip


@each_row(('value', 'ends', 'inside'), [
    (90.0, (95.0, 105.0), False), (95.0, (95.0, 105.0), True), (200.0, (95.0, 105.0), True),
    (110.0, (105.0, 95.0), False), (105.0, (105.0, 95.0), True), (1.0, (105.0, 95.0), True),
])  # fmt: skip
def test_a_value_is_inside_on_the_good_side_of_its_limit(value, ends, inside):
    assert pictures._inside(value, ends) is inside


def past(values, of=TRIAD, sessions=None):
    sessions = range(len(values)) if sessions is None else sessions
    return stub(
        series=of, quantity=Quantity('GB/s', 'higher'), values=numpy.array(values), sessions=numpy.array(sessions)
    )


def a_digest(histories=(), changes=None, n=4, **fields):
    sessions = [
        stub(session=f's{i}', site='demo', day=f'2026-11-0{i + 1}', started=datetime(2026, 11, i + 1),
             report='r/run.json', report_sha256='0123456789abcdef')
        for i in range(n)
    ]  # fmt: skip
    trend = None if changes is None else stub(changes=changes(sessions))
    return stub(histories=histories, sessions=sessions, trend=trend, **fields)


def test_a_history_of_three_sessions_is_told_with_its_changes():
    def changes(sessions):
        return [
            stub(series=of, quantity=Quantity('GB/s', 'higher'), change=-3.1, since=sessions[2], with_it=with_it)
            for of, with_it in ((TRIAD, ('kernel 6.1 -> 6.6', 'x')), (TRIAD, ()), (COPY, ()))
        ]

    def told(kind='ok', values=(1.0, 2.0, 3.00049), bands=None, case_id=1, nodes=('n1',), **fields):
        series = [SeriesRow(7, [verdict(kind, case_id=case_id)])]
        found = details._histories(series, {1: stub(nodes=nodes)}, bands or {}, a_digest([past(values)], changes))
        return found.get(7)

    assert told(values=(1.0, 2.0)) is None and told(values=(1.0, 2.0, 1e200)) is None
    found = told()
    assert (found['at'], found['history']) == ([0, 1, 2], [1.0, 2.0, 3.0]) and not {'bad', 'low', 'node'} & {*found}
    assert found['changes'] == [(2, '-3.1 % 3 Nov, kernel 6.1 -> 6.6'), (2, '-3.1 % 3 Nov')]
    assert 'GB/s, higher is better' in found['told'] and 'of the jobs' in found['told'] and 'n = 1 ' in found['told']
    assert told('regressed')['bad'] == 90.0 and 'node' not in told('regressed')
    ends = numpy.array([1.0, 2.0, numpy.nan, 4.0])
    band = {7: stub(low=ends, high=10 * ends)}
    found = told('regressed', bands=band)
    assert (found['low'], found['high'], found['node']) == ([1.0, 2.0, None], [10.0, 20.0, None], 'n1')
    assert 'of the nodes' in found['told'] and 'node' not in told('ok', bands=band)
    assert 'node' not in told('regressed', bands=band, nodes=('n1', 'n2'))
    assert 'node' not in told('regressed', bands=band, case_id=None)
    other = details._histories([], {}, {}, a_digest([past((1.0, 2.0, 3.0))]))
    assert other == {}


def test_changes_of_one_session_and_direction_are_one_and_drifts_one_of_a_case():
    def changes(sessions):
        return [
            stub(kind=kind, since=sessions[at], with_it=(), series=of, change=change, quantity='q')
            for kind, at, of, change in (
                ('step', 1, TRIAD, -1.0), ('step', 1, COPY, -2.0), ('step', 1, TRIAD, 1.0), ('step', 2, TRIAD, -1.0),
                ('drift', 1, TRIAD, -1.0), ('drift', 3, COPY, -1.0),
            )
        ]  # fmt: skip

    found = history.alike(a_digest(changes=changes), {(TRIAD, 'q'): 4})
    assert [one.ids for one in found] == [[4, None], [4], [4], [4, None]] and history.alike(a_digest(), {}) == []
    assert [change.change for change in found[0].changes] == [-1.0, -2.0]


def test_the_source_of_a_picture_names_site_sessions_and_report():
    sessions = a_digest().sessions
    several, one = details.source(sessions), details.source(sessions[:1])
    assert all('Site demo' in told and 'run.json (sha256 0123456789ab)' in told for told in (several, one))
    assert 's0 to s3' in several and 's0 of 2026-11-01' in one and ' to ' not in one


def test_details_of_a_metric_tell_its_worst_job_beside_what_was_expected():
    rows = [verdict('regressed', case_id=i, value=80.0 + i, loss=0.2, interval=(0.1, 0.3), window=2, p=0.01, q=0.02)
            for i in range(22)]  # fmt: skip
    found = details._metric(SeriesRow(7, rows), {(0, 'triad', to_text(())): {'n1': '80 80'}})
    assert (len(found['jobs']), found['more']) == (20, 2) and found['jobs'][0] == ['regressed', 0, {'n1': '80 80'}]
    assert found['jobs'][1] == ['regressed', 1, {}] and (found['limit'], found['expected']) == (95.0, 100.0)
    # the median of 80 to 101
    told = found['facts']
    assert '80 GB/s' in told['Measured'] and 'n = 1, 80 to 80: ' in told['Measured'] and 'is 90.5' in told['Measured']
    assert '100 ± 1 GB/s, n = 3' in told['Expected'] and '95' in told['Limit']
    assert all(words in told['Change'] for words in ('-20.0 %', '20.0 %', '10.0 to 30.0 %', '2 sessions', 'q = 0.02'))
    well = details._metric(SeriesRow(7, [verdict('ok', p=0.5, q=0.5)]), {})
    assert 'q =' not in well['facts']['Change'] and 'median' not in well['facts']['Measured'] and 'more' not in well
    no = Verdict('missing', TRIAD, Quantity('GB/s', 'higher'), cause='gone')
    assert details._metric(SeriesRow(7, [no]), {}) == {
        'name': 'STREAM size=big triad', 'unit': 'GB/s', 'where': 'cpu/system', 'verdict': 'missing', 'cause': 'gone',
    }  # fmt: skip


# A published site


@each_row(('value', 'shown'), [
    (None, None), (1e200, None), (float('nan'), None), (0.0, 0), (2.0, 2), (123456.0, 123500), (-0.123456, -0.1235),
])  # fmt: skip
def test_numbers_of_a_published_site_have_four_digits(value, shown):
    found = site_data.short(value)
    assert found == shown and type(found) is type(shown)


def test_data_of_a_published_site_are_read_again_or_refused_with_the_way_out(tmp_path):
    file = tmp_path / 'nodes.js'
    assert site_data.site_content(file, tmp_path) is None
    with file.open('wb') as stream:
        site_data.write({'schema': 1, 'a': [1.5, None]}, stream)
    assert file.read_text() == 'plumbline({"schema":1,"a":[1.5,null]})\n'
    assert site_data.site_content(file, tmp_path) == {'schema': 1, 'a': [1.5, None]}
    for text, says in (
        ('plumbline({"schema":2})\n', 'schema 2.*update'),
        ('x', 'remove'),
        ('plumbline([])\n', 'remove'),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=says):
            site_data.site_content(file, tmp_path)


def test_nodes_that_incidents_named_get_a_file_each(tmp_path):
    def known_on(id, *days, nodes=('n10', 'n2'), day=''):
        shown = {f's{i}': Seen(f'2026-11-{i:02}T00:00:00', *of) for i, of in days}
        where = Scope('site', nodes=nodes)
        return Known(id, Incident('NODE', where, 'loss', (), (), nodes, day=day), shown)

    nodes = site_nodes.PublishedNodes(tmp_path)
    bad, well = (('n2',), ()), ((), ('n2',))
    assert nodes._name([known_on('a', (3, bad), (4, well), (5, bad))]) == {'n2'}
    assert nodes._nodes == {'n2': {'incidents': {'a': ['2026-11-03', '2026-11-05', 2]}, 'file': 0}}
    later = [known_on('b', (6, (('n10', 'n2'), ())), day='2026-11-01'), known_on('c', (7, (('',), ())), nodes=('n3',))]
    assert nodes._name(later) == {'n3', 'n10'}
    assert nodes._nodes['n2']['incidents']['b'] == ['2026-11-01', '2026-11-06', 1]
    assert [nodes._nodes[name]['file'] for name in ('n2', 'n3', 'n10')] == [0, 1, 2]
    assert nodes._nodes['n3']['incidents'] == {'c': ['2026-11-07', '2026-11-07', 1]}
    assert sorted(file.name for file in nodes.files()) == ['node-0.js', 'node-1.js', 'node-2.js', 'nodes.js']

    def add(name, epoch, typical=1.23456, of=TRIAD):
        row = stub(typical=typical, furthest=None, series=of, counted='')
        nodes._add(name, stub(session=f's{epoch}', epoch=epoch), row, {TRIAD: 5})

    add('n2', 20)
    assert nodes._files['n2']['rows'] == {'s20': [1.235, None, 5, '']}
    kept = {'incidents', 'file'}
    assert {key: of for key, of in nodes._nodes['n2'].items() if key not in kept} == {
        'at': 20, 'typical': 1.235, 'series': 5,
    }  # fmt: skip
    add('n2', 10, 9.0)
    assert nodes._nodes['n2']['typical'] == 1.235 and nodes._files['n2']['rows']['s10'][0] == 9, (
        'older than what is shown'
    )
    add('n2', 20, 8.0, None)
    assert (nodes._nodes['n2']['typical'], 'series' in nodes._nodes['n2'], nodes._nodes['n2']['file']) == (8, False, 0)
    add('n7', 5)
    assert nodes._nodes['n7'] == {'at': 5, 'typical': 1.235, 'series': 5} and 'n7' not in nodes._files

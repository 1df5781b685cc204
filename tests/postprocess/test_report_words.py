# SPDX-License-Identifier: BSD-3-Clause
"""Single parts of the page and of JUnit: axes, ticks, labels, cells, cards and test cases, on a few values."""

from datetime import datetime
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row

from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits
from plumbline.record import Summary
from plumbline.references import Reference
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.report import cards, charts, details, pictures, plots, printed, site_data
from postprocess.results.excerpts import Shown
from postprocess.verdicts.verdict import Verdict
from postprocess.views import history, session
from postprocess.views.series import SeriesRow, short

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


# Charts


@each_row(('x', 'text'), [
    (512.0, '512'), (1024.0, '1 Ki'), (1536.0, '1536'), (65536.0, '64 Ki'), (2.0**20, '1 Mi'), (3 * 2.0**19, '1536 Ki'),
    (2.5, '2.5'), (0.0, '0'),
])  # fmt: skip
def test_a_size_is_counted_in_powers_of_1024(x, text):
    assert charts.counted(x) == text


# Tables, cards


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


@each_row(('values', 'trials', 'sign', 'invalid', 'wanted'), [
    ({}, 2, 1, False, Shown('triad')), ({1: 5.0, 2: 3.0, 3: 4.0}, 3, 1, False, Shown('triad', 2, lost=False)),
    ({1: 5.0, 2: 3.0, 3: 4.0}, 3, -1, False, Shown('triad', 1, lost=False)),
    ({1: 5.0, 2: 3.0, 3: 4.0}, 3, 1, True, Shown('triad', 1, lost=False)),
    ({1: 5.0, 3: 4.0}, 3, 1, False, Shown('triad', 2)), ({1: 5.0}, None, 1, False, Shown('triad', 1, lost=False)),
])  # fmt: skip
def test_the_trial_that_lacks_its_number_or_is_the_worst_is_shown(values, trials, sign, invalid, wanted):
    samples = {(7, 'triad', ()): {'n1': [*values.items()]}} if values else {}
    assert printed._lines_of(TRIAD, sign, invalid, stub(case_id=7, trials=trials), samples) == wanted


def test_details_of_a_metric_tell_its_worst_job_beside_what_was_expected():
    rows = [verdict('regressed', case_id=i, value=80.0 + i, loss=0.2, interval=(0.1, 0.3), window=2, p=0.01, q=0.02)
            for i in range(22)]  # fmt: skip
    found = details._metric(SeriesRow(7, rows), {(0, 'triad', ()): {'n1': [(1, 80.0), (2, 80.0)]}})
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
    found = short(value)
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

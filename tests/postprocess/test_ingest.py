# SPDX-License-Identifier: BSD-3-Clause
"""Run reports into the store: whole, once, and never in silence."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from rows import each_row
from run_reports import SITE, case, metric, report, rows_of

from plumbline.errors import InputError
from plumbline.identity import to_text
from plumbline.record import MetricRecord, Record, Series
from postprocess.readers.run_reports import check_and_params, read_report
from postprocess.results.store import Store
from postprocess.results.tables import TABLES
from postprocess.verdicts.measured import measured_in

GOOD = case(
    metrics={'triad': metric([1.0, 2.0, 3.0], node='n7'), 'copy': metric([])}, missing={'copy': 'not in the output'},
    provenance={'binary_sha256': 'ab' * 32}, nodes=('n7', 'n8'),
)  # fmt: skip


def files(work):
    return sorted(work.results.rglob('*.parquet'))


def test_a_session_is_a_file_of_each_table_and_comes_back_as_it_was(work):
    work.ingest(report(GOOD, mode='quick'), expected='3', problem='checks/x.py does not import')
    assert [path.relative_to(work.results).parts[1] for path in files(work)] == sorted(TABLES)
    assert {path.parent.name for path in files(work)} == {'month=2026-11'}
    store = Store(work.results)
    session = store.find()
    assert (session.site, session.session, session.mode, session.ran, session.expected) == (
        SITE, 'aaaa1111', 'quick', 1, 3,
    )  # fmt: skip
    assert session.started == datetime(2026, 11, 21, 10, 38, 51)
    assert [*map(str, session.problems)] == ['checks/x.py does not import']
    assert (session.reframe, session.hostname) == ('4.10.4', 'login1')
    (entry,) = rows_of(store, 'cases', session)
    assert (entry['check'], entry['params'], entry['environ'], entry['partition']) == (
        'STREAM', 'size=big', 'system', 'cpu',
    )  # fmt: skip
    assert entry['nodes'] == ['n7', 'n8']
    assert entry['job_state'] == 'COMPLETED'
    assert json.loads(entry['provenance']) == {'binary_sha256': 'ab' * 32}
    copy, triad = sorted(rows_of(store, 'metrics', session), key=lambda row: row['metric'])
    assert (triad['n'], triad['mean'], triad['std'], triad['min'], triad['max']) == (3, 2.0, 1.0, 1.0, 3.0)
    assert (copy['n'], copy['mean'], copy['missing']) == (0, None, 'not in the output')
    samples = [(row['trial'], row['node'], row['value']) for row in rows_of(store, 'samples', session)]
    assert samples == [(1, 'n7', 1.0), (2, 'n7', 2.0), (3, 'n7', 3.0)]


def test_the_same_report_twice_changes_nothing_and_says_so(work):
    work.ingest(report(GOOD), expected='1')
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(work)}
    again = work.ingest(report(GOOD), expected='2')
    assert 'in the store already: nothing changed; --expected and --problem are as they were' in again.output
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(work)} == before


def test_another_report_of_the_same_session_is_refused(work):
    work.ingest(report(GOOD))
    before = {path: path.read_bytes() for path in files(work)}
    result = work.run('ingest', work.write(report(GOOD, GOOD | {'unique_name': 'other'})))
    assert result.exit_code == 2
    assert 'another report of session aaaa1111' in result.stderr
    assert {path: path.read_bytes() for path in files(work)} == before


def test_bad_reports_are_named_and_the_good_ones_come_in(work):
    good = [work.write(report(GOOD, uuid=uuid)) for uuid in ('aaaa0001', 'bbbb0002')]
    truncated = work.reports / 'truncated.json'
    truncated.write_text(good[0].read_text()[:-30])
    other = work.reports / 'other.json'
    other.write_text('{"tests": []}')
    binary = work.reports / 'binary.json'
    binary.write_bytes(b'\xff\xfe\x00')
    absent = work.reports / 'absent.json'
    result = work.run('ingest', truncated, good[0], other, binary, absent, work.reports, good[1])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 5
    for line, path in zip(lines, (truncated, other, binary, absent, work.reports), strict=True):
        assert line.startswith(f'plumbline: {path}: ')
    assert 'cut short' in lines[0]
    assert 'missing required field `session_info`' in lines[1]
    store = Store(work.results)
    assert {store.find(uuid).session for uuid in ('aaaa', 'bbbb')} == {'aaaa0001', 'bbbb0002'}


def broken(**record):
    entry = case(metrics={'triad': metric([1.0])})
    entry['record'] |= record
    return report(entry)


def with_metric(**fields):
    return report(case(metrics={'triad': metric([1.0]) | fields}))


@pytest.mark.parametrize(
    ('content', 'says'),
    [
        ([], 'Expected `object`, got `array`'),
        (report() | {'runs': None}, 'Expected `array`, got `null` - at `$.runs`'),
        (report() | {'runs': [{'testcases': [{}]}]}, 'field `unique_name` - at `$.runs[0].testcases[0]`'),
        (report(GOOD | {'plumbline_purpose': 'x'}), "Invalid enum value 'x' - at `$.runs[0].testcases[0].plumbline_"),
        (
            report() | {'session_info': report()['session_info'] | {'data_version': '5.0'}},
            'expected 3.x or 4.x, found 5.0',
        ),
        (broken(schema=2), 'schema: expected 1, found 2: update Plumbline'),
        (broken(metrics=[]), 'Expected `object`, got `array` - at `$.metrics`'),
        (broken(metrics={'triad': {'unit': 'GB/s'}}), 'missing required field `better` - at `$.metrics[...]`'),
        (with_metric(better='up'), "Invalid enum value 'up' - at `$.metrics[...].better`"),
        (with_metric(samples=[[1, 'n1', 'fast']]), 'Expected `float`, got `str`'),
        (with_metric(samples=[[1, 2]]), 'Expected `array` of length 3, got 2 - at `$.metrics[...].series[0]'),
        (broken(params='x'), 'params: expected an object'),
        (report(GOOD | {'job_completion_time_unix': 'noon'}), 'Expected `float | null`, got `str` - at `$.runs[0]'),
        (report(GOOD, uuid='../../etc/x'), "found '../../etc/x'"),
        (report(case(site='a'), case(site='b')), 'expected one site, found a, b'),
        (report(), 'no case ran'),
        (report(GOOD, began=1e20), 'is no time: expected seconds since 1970'),
        (report(GOOD, began=float('nan')), 'is no time'),
        (report(GOOD, began=-1.0), 'is no time'),
        (report(GOOD) | {'restored_cases': 7}, 'Expected `array | null`, got `int` - at `$.restored_cases`'),
    ],
)
def test_what_is_wrong_in_a_report_is_said_with_its_place(work, content, says):
    path = work.write(content, 'report.json')
    with pytest.raises(InputError) as caught:
        read_report(path)
    assert str(caught.value).startswith(f'{path}: ')
    assert says in str(caught.value)
    assert '\n' not in str(caught.value)


def test_messages_become_plain_lines(work):
    words = '\x1b[31mred\x1b[0m\x00 and\ttab \ud800'
    work.ingest(report(case(result='fail', fail_phase='run', fail_reason=words)), problem='a\nb')
    store = Store(work.results)
    session = store.find()
    assert [*map(str, session.problems)] == ['a b'] and store.cases(session)[0].causes[0].what == 'red and tab'


@each_row('content', [broken(job={'exitcode': 2**40}), report(case(nodes=('n\udcff',)))])
def test_a_value_that_does_not_fit_its_table_is_said_and_nothing_is_written(work, content):
    path = work.write(content)
    result = work.run('ingest', path)
    assert result.exit_code == 2
    assert f'{path}: a value does not fit the table cases' in result.stderr
    assert files(work) == []


def test_a_write_that_fails_half_way_leaves_no_file(work, monkeypatch):
    report_read = read_report(work.write(report(GOOD)))
    whole = os.fsync
    calls = iter([None, None])

    def full_disk(descriptor):
        if next(calls, 'full') == 'full':
            raise OSError(28, 'No space left on device')
        whole(descriptor)

    monkeypatch.setattr('os.fsync', full_disk)
    with pytest.raises(InputError, match='No space left on device'):
        Store(work.results).add(report_read)
    assert files(work) == []


def test_a_session_without_its_sessions_file_does_not_exist(work):
    work.ingest(report(GOOD))
    next(work.results.glob('store/sessions/*/*/*.parquet')).unlink()
    with pytest.raises(InputError, match='holds no session'):
        Store(work.results).find()


def test_every_run_of_a_case_is_kept(work):
    first = case(metrics={'triad': metric([1.0])}, result='fail', fail_phase='sanity', fail_reason='bad')
    steady = case(check='Other', metrics={'triad': metric([5.0])})
    work.ingest(report(GOOD, earlier_runs=[[first, steady]]))
    store = Store(work.results)
    session = store.find()
    assert (session.ran, session.runs) == (2, 2)
    assert [(c['check'], c['round'], c['result']) for c in rows_of(store, 'cases', session)] == [
        ('STREAM', 0, 'fail'), ('Other', 0, 'pass'), ('STREAM', 1, 'pass'),
    ]  # fmt: skip
    stream, other = (row for row in measured_in(store, session) if row.id.metric == 'triad')
    assert [(job.round, job.status) for job in stream.jobs] == [(0, 'failed'), (1, 'measured')]
    assert (stream.status, stream.value, stream.summary.n, other.value) == ('measured', 2.0, 3, 5.0)


def test_a_report_with_further_runs_takes_the_place_of_the_first(work):
    work.ingest(report(GOOD))
    work.ingest(report(GOOD, earlier_runs=[[GOOD]]))
    store = Store(work.results)
    (session,) = store.sessions('cluster')
    assert (session.runs, session.ran, len(rows_of(store, 'cases', session))) == (2, 1, 2)


def test_a_real_report_of_reframe_is_read():
    path = Path(__file__).parent.parent / 'data' / 'reframe-4.10.4-distribute.json'
    found = read_report(path)
    assert found.session.site == 'localhost'
    assert found.session.mode == 'quick'
    assert found.session.ran == 2
    assert [(row.check, to_text(row.params), row.round) for row in found.cases if not row.fixture] == [
        ('Desc', 'num=1.5,size=quick', 0), ('Desc', 'num=1.5,size=full', 0),
        ('Desc', 'num=1.5,size=quick', 1), ('Desc', 'num=1.5,size=full', 1),
    ]  # fmt: skip
    assert [row.benchmark for row in found.cases] == 2 * [False, True, True]


def test_check_and_params_of_a_display_name():
    check, params = check_and_params('A %z=1 %b=x=y %stack.v=2 %.nid=n1 %.part=s:p')
    assert (check, to_text(params)) == ('A', 'b=x=y,z=1') and check_and_params('HPCC') == ('HPCC', ())


def test_the_same_dims_twice_in_a_metric_are_refused(work):
    record = Record('OsuLatency', (), trials=1, metrics={'latency': MetricRecord('us', 'lower', [Series(), Series()])})
    result = work.run('ingest', work.write(report(case() | {'record': record.to_dict()})))
    assert result.exit_code == 2
    assert 'record.metrics.latency: series: expected different dims' in result.stderr

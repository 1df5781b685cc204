# SPDX-License-Identifier: BSD-3-Clause
"""Performance logs of other suites into the store: each line once, with what ReFrame leaves open decided."""

import csv
import io
import re
from collections import Counter

import pytest
from run_reports import rows_of
from scratch import OUTPUTS, ROOT

from postprocess import open_results
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

OTHER_SUITES = ROOT / 'tests/data/other-suites'
RECORDED = OUTPUTS / 'reframe-perflog.txt'
HEADER = (
    'result|job_completion_time|environ|job_nodelist|jobid|name|partition|bw_value|bw_unit|bw_ref|bw_lower_thres|'
    'bw_upper_thres|system'
)


def line(day=1, value='98.5', result='pass', bounds='100|-0.05|None', unit='GB/s', nodes='n1', job=7, system='box'):
    time = f'2026-11-{day:02}T02:00:00+01:00'
    return f'{result}|{time}|gnu|{nodes}|{job}|Bench %size=big|cpu|{value}|{unit}|{bounds}|{system}'


def log(work, *lines, name='Bench.log', header=HEADER):
    path = work.reports / name
    path.write_text('\n'.join([header, *lines]) + '\n')
    return path


def ingest(work, *paths, code=0):
    result = work.run('ingest', '--perflog', *paths)
    assert result.exit_code == code, result.output
    return result


def metrics(work):
    store = Store(work.results)
    return [row for session in store.sessions('*') for row in measured_in(store, session)]


def test_a_log_that_reframe_wrote(work):
    assert re.search(r'session [0-9a-f]{12}-perflog-2026-11-21 of', ingest(work, RECORDED).stdout)
    store = Store(work.results)
    session = store.find()
    assert (session.site, session.source, session.ran) == ('generic', 'perflog', 4)
    cases = rows_of(store, 'cases', session)
    assert {(row['check'], row['params'], row['partition'], row['environ']) for row in cases} == {
        ('Guest', 'size=small', 'default', 'builtin'), ('Guest', 'size=big', 'default', 'builtin'),
    }  # fmt: skip
    assert all(row['nodes'] == ['vm'] for row in cases)
    assert {row['fail_phase'] for row in cases} == {'performance'}  # lat is beyond its reference
    rows = metrics(work)
    assert {(row.id.metric, row.quantity.unit, row.quantity.better, row.summary.mean, row.status) for row in rows} == {
        ('bw', 'GB/s', 'higher', 98.5, 'measured'), ('lat', 'us', 'lower', 1.25, 'measured'),
    }  # fmt: skip


def test_a_log_that_grew_adds_its_new_lines_only(work):
    path = log(work, line(1), line(2))
    assert ingest(work, path).stdout.count('-perflog-') == 2
    assert ingest(work, path).stdout == 'nothing new: the store has all of it already\n'
    path = log(work, line(1), line(2), line(2, job=8), line(3))
    assert ingest(work, path, log(work, line(3), name='copy.log')).stdout.count('1 case, 1 sample') == 2
    store = Store(work.results)
    assert len(open_results(work.results).samples('box')) == 4
    assert f'{store.find().started:%Y-%m-%d %H:%M}' == '2026-11-03 01:00'  # UTC


def at(time, name='Bench', result='pass'):
    return f'{result}|2026-11-03T{time}:00+00:00|gnu|n1|7|{name}|cpu|98.5|GB/s|100|-0.05|None|box'


@pytest.mark.parametrize(
    ('lines', 'sizes'),
    [
        ([at('02:00', 'A'), at('02:01', 'B'), at('02:50', 'B'), at('03:30', 'A'), at('03:31', 'B')], [2, 1, 2]),
        # the second run began after the longest pause, though it measured first what the first one lacked
        ([at('02:00', 'A'), at('03:00', 'B'), at('03:01', 'A')], [1, 2]),
        ([at('02:00', 'A', 'fail'), at('02:01', 'A')], [2]),  # by --max-retries
        ([at(f'{hour:02}:00', 'A') for hour in range(7)], [1] * 7),
    ],
)
def test_each_run_of_a_day_is_a_session_that_its_name_tells_from_others(work, lines, sizes):
    ingest(work, log(work, *lines))
    sessions = sorted(Store(work.results).sessions('box'), key=lambda session: session.started)
    assert [session.ran for session in sessions] == sizes
    assert len({session.session[:8] for session in sessions}) == len(sizes)
    if sizes[1:]:
        first, last = sessions[0].session[:8], sessions[-1].session[:8]
        assert f'session {last}' in (said := work.run('compare', first, last).output) or first in said
    assert ingest(work, log(work, *lines)).stdout.startswith('nothing new')


@pytest.mark.parametrize(
    ('bounds', 'unit', 'better'),
    [
        ('100|-0.05|None', 'us', 'higher'), ('100|None|0.05', 'GB/s', 'lower'), ('None|None|None', 'us', 'lower'),
        ('null|null|null', 'GB/s', 'higher'), ('100|-0.1|0.1', 's', 'lower'), ('0|None|None', '', 'higher'),
    ],
)  # fmt: skip
def test_the_better_direction_is_that_of_the_bound_else_of_the_unit(work, bounds, unit, better):
    ingest(work, log(work, line(bounds=bounds, unit=unit)))
    assert [row.quantity.better for row in metrics(work)] == [better]


def test_a_case_that_failed_within_its_references_counts_for_nothing(work):
    ingest(work, log(work, line(1, result='fail', value='94'), line(2, result='fail', value='96')))
    assert [row.status for row in metrics(work)] == ['measured', 'failed']


def test_without_a_result_a_case_beyond_its_reference_has_failed(work):
    of_debt = line(3, value='-98', bounds='-100|-0.05|None'), line(4, value='-106', bounds='-100|-0.05|None')
    rows = (HEADER, line(1, value='94'), line(2, value='96'), *of_debt)
    header, *lines = (row.split('|', 1)[1] for row in rows)
    ingest(work, log(work, *lines, header=header))
    store = Store(work.results)
    cases = [case for session in store.sessions('*') for case in rows_of(store, 'cases', session)]
    assert [(case['result'], case['fail_phase']) for case in cases] == [
        ('fail', 'performance'), ('pass', None),
        ('pass', None), ('fail', 'performance'),  # 5 % of 100 below -100 are allowed
    ]  # fmt: skip
    assert '(1 failed)' in ingest(work, log(work, line(5, value='94', result='fail'), name='b.log')).stdout


def test_lines_that_cannot_be_used_are_counted_and_the_others_come_in(work):
    path = log(
        work,
        'pass|null|gnu|n1|7|Bench|cpu|1|GB/s|1|-0.1|None|box',
        'cut|off',
        line(1),
        line(2, system='../../x'),
        line(3, value='n/a'),
    )
    result = ingest(work, path, code=2)
    assert f'{path}: left out 3 lines' in result.stderr
    assert [(row.id.metric, row.status) for row in metrics(work)] == [('bw', 'measured'), ('*', 'failed')]


@pytest.mark.parametrize('content', [b'', b'\xff\xfe\x00', b'a,b\n1,2\n', b'result\n'])
def test_a_file_that_is_no_log_is_named(work, content):
    path = work.reports / 'other.log'
    path.write_bytes(content)
    result = ingest(work, path, work.reports / 'absent.log', code=2)
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f'plumbline: {path}: not a performance log')
    assert lines[1] == f'plumbline: {work.reports / "absent.log"}: cannot be read: No such file or directory'


def test_bytes_that_are_no_text_and_abbreviated_nodes(work):
    path = log(work, line(1, nodes='n[1-3],n7'))
    path.write_bytes(path.read_bytes().replace(b'Bench', b'B\xe9nch'))
    ingest(work, path)
    store = Store(work.results)
    (row,) = rows_of(store, 'cases', store.find())
    assert row['check'] == 'B\ufffdnch'
    assert row['nodes'] == ['n1', 'n2', 'n3', 'n7']


def test_commas_separate_as_well(work):
    path = log(work, line(1).replace('|', ','), header=HEADER.replace('|', ','))
    ingest(work, path)
    assert [row.summary.mean for row in metrics(work)] == [98.5]


@pytest.mark.parametrize('form', ['compat', 'words', 'rfm3'])
def test_logs_of_other_format_strings(work, form):
    log = OUTPUTS / f'reframe-perflog-{form}.txt'
    said = ingest(work, log)
    names = r'(triad|latency)=([\d.]+)'
    printed = sorted((name, float(value)) for name, value in re.findall(names, log.read_text()))
    assert len(printed) in (4, 8) and f'{len(printed)} samples' in said.stdout
    rows = metrics(work)
    assert sorted((row.id.metric, row.summary.mean) for row in rows) == printed
    assert {(row.id.metric, row.quantity.unit, row.quantity.better) for row in rows} == {
        ('triad', 'GB/s', 'higher'), ('latency', 'us', 'lower'),
    }  # fmt: skip
    store = Store(work.results)
    assert {(row['check'], row['partition'], row['environ']) for row in rows_of(store, 'cases', store.find())} == {
        ('StreamLike', 'login', 'builtin'), ('StreamLike', 'login', 'gnu'),
    }  # fmt: skip
    assert store.find().site == 'box'


LOG = 'job_completion_time|name|environ|'


@pytest.mark.parametrize(
    ('header', 'text', 'found'),
    [
        # the folders of the file are system and partition, as by default
        (LOG + 'bw_value|bw_unit', '{}|A|gnu|7.5|GB/s', {'bw': 7.5}),
        # names with blanks, brackets and `=`, whose variable has a line of its own
        (LOG + 'perf_var=perf_value|perf_unit', '{}|A|gnu|copy n=8=7.5|GB/s', {'copy n=8': 7.5}),
        (LOG + 'i/o [max]_var=i/o [max]_value i/o [max]_unit', '{}|A|gnu|i/o [max]=7.5 GB/s', {'i/o [max]': 7.5}),
        (LOG + 'Max Error_value|Max Error_unit', '{}|A|gnu|1e-09|1', {'Max Error': 1e-9}),
        (LOG + 'jobid=jobid|v: bw_value', '{}|A|gnu|jobid=3|v: 7.5', {'bw': 7.5}),
    ],
)
def test_values_are_found_in_logs_of_other_columns(work, header, text, found):
    path = work.reports / 'box' / 'cpu' / 'A.log'
    path.parent.mkdir(parents=True)
    path.write_text(f'{header}\n{text.format("2026-11-03T02:00:00+01:00")}\n')
    ingest(work, path)
    assert {row.id.metric: row.summary.mean for row in metrics(work)} == found
    assert {(row.id.partition, row.id.environ) for row in metrics(work)} == {('cpu', 'gnu')}
    assert Store(work.results).find().site == 'box'


@pytest.mark.parametrize(('jobs', 'cases'), [((7, 7), 1), ((7, 8), 2)])
def test_variables_of_a_line_each_are_of_one_case_where_the_job_is_the_same(work, jobs, cases):
    header = 'job_completion_time|name|environ|jobid|perf_var=perf_value|perf_unit'
    values = ('bw=7.5|GB/s', 'delay=3|us')
    lines = [f'2026-11-03T02:00:00|A|gnu|{job}|{value}' for job, value in zip(jobs, values, strict=True)]
    ingest(work, log(work, *lines, header=header))
    store = Store(work.results)
    assert sum(len(store.cases(session)) for session in store.sessions('*')) == cases
    assert {row.id.metric for row in metrics(work)} == {'bw', 'delay'}


def test_a_log_that_names_no_environ_or_has_a_value_that_is_none_is_named(work):
    path = log(work, 'pass|2026-11-03T02:00:00|A|7.5', header='result|job_completion_time|name|bw_value')
    assert 'it names no environ' in ingest(work, path, code=2).stderr
    path = log(work, '2026-11-03T02:00:00|A|g|bw=x7', header=LOG + 'perf_var=perf_value')
    assert f'{path}: left out 1 lines' in ingest(work, path, code=2).stderr


# Values of each case in the logs of a test, counted in their lines
LOGS = {
    'cscs': {'StreamTest': 14, 'CPULatencyTest': 4}, 'eessi': {'EESSI_MPI4PY': 24, 'EESSI_NumPy': 50},
    'excalibur': {'StreamBenchmark': 40},
}  # fmt: skip


def logged(line):
    """The values in a line of a log, by metric: of its columns, or as ``triad=3460.5``."""
    header, values = line
    columns = dict(zip(header.split('|'), values.split('|'), strict=True))
    if 'perf_var=perf_value' in columns:
        metric, _, value = columns['perf_var=perf_value'].partition('=')
        return [(metric, float(value))]
    return [(name.removesuffix('_value'), float(text)) for name, text in columns.items() if name.endswith('_value')]


@pytest.mark.parametrize('name', LOGS)
def test_each_value_of_the_logs_is_stored(work, name):
    files = sorted((OTHER_SUITES / 'logs' / name).rglob('*.log'))
    expected, tests = Counter(), Counter()
    for path in files:
        header, *lines = path.read_text().splitlines()
        for metric, value in (found for line in lines for found in logged((header, line))):
            expected[path.parts[-2], path.stem, metric, round(value, 9)] += 1
            tests[path.stem] += 1
    assert tests == LOGS[name]
    expected = Counter({key: n for key, n in expected.items() if key[-1]})  # a time printed as 0.00 s is none
    said = work.run('ingest', '--perflog', *files)
    assert said.exit_code == 0, said.output
    rows = csv.DictReader(io.StringIO(work.run('export', '--to', 'csv', '--table', 'samples').stdout))
    assert Counter((r['partition'], r['check'], r['metric'], round(float(r['value']), 9)) for r in rows) == expected


def test_a_device_is_refused(work):
    assert '/dev/zero: expected a file, found a device' in ingest(work, '/dev/zero', code=2).stderr

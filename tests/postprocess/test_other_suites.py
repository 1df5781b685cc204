# SPDX-License-Identifier: BSD-3-Clause
"""Run reports and results databases of other suites reach a verdict, without a site file and with all their values."""

import copy
import json
import random
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_reports import BEGAN
from scratch import ROOT

from plumbline.errors import InputError
from plumbline.identity import to_text
from postprocess.readers.cmdline import without_names
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

RECORDED = ROOT / 'tests/data/other-suites'
# As the terminal printed them: bandwidth and latency of size=small, of size=large
PRINTED = {
    '4.6.4': (90.201, 1.29, 91.955, 1.27), '4.7.4': (95.141, 1.2, 90.186, 1.29), '4.8.4': (92.415, 1.2, 98.299, 1.23),
    '4.9.2': (94.317, 1.28, 94.108, 1.29), '4.10.4': (99.206, 1.28, 95.265, 1.24),
}  # fmt: skip
DAY = 86400
RATES = [95.2, 94.7, 95.1, 95.6, 94.9, 95.3, 95.0, 94.8, 95.4, 95.2]  # of healthy nights


def document(version='4.10.4'):
    return json.loads((RECORDED / f'reframe-{version}.json').read_text())


def night(number, rate, names='^StreamLike', system='cluster'):
    """A run report of one night, in which the first of its tests measured `rate`."""
    report = document()
    info, tests = report['session_info'], report['runs'][0]['testcases']
    began = BEGAN + number * DAY
    info |= {
        'uuid': f'{number:08x}-0000', 'time_start_unix': began, 'time_end_unix': began + 60,
        'cmdline': f'/opt/reframe/bin/reframe -C ours.py -c tests -n {shlex.quote(names)} -r', 'hostname': 'login1',
    }  # fmt: skip
    tests[:] = tests[:2]
    report['runs'][0]['num_cases'] = len(tests)
    for place, test in enumerate(tests):
        values = {name.split(':')[-1]: value for name, value in test['perfvalues'].items()}
        values['triad'][0] = rate if place == 0 else RATES[number % 10]
        values['latency'][0] = 1.2 + RATES[number % 10] / 1e4
        test['perfvalues'] = {f'{system}:cpu:{name}': value for name, value in values.items()}
        test |= {'system': system, 'partition': 'cpu', 'job_nodelist': ['n1'], 'result': 'pass'}
    return report


def values_in(results):
    store = Store(results)
    return {
        (row.id.check, to_text(row.id.params), row.id.metric): (
            row.summary.mean, row.quantity.unit, row.quantity.better,
        )
        for session in store.sessions('*')
        for row in measured_in(store, session)
        if row.summary.n
    }  # fmt: skip


@pytest.mark.parametrize('version', PRINTED)
def test_each_value_of_a_report_is_read(work, version):
    said = work.run('ingest', RECORDED / f'reframe-{version}.json')
    assert said.exit_code == 0 and '4 cases (1 failed), 6 samples' in said.stdout, said.output
    rate, latency, rate_of_large, latency_of_large = PRINTED[version]
    assert values_in(work.results) == {
        ('StreamLike', 'size=small', 'triad'): (rate, 'GB/s', 'higher'),
        ('StreamLike', 'size=small', 'latency'): (latency, 'us', 'lower'),
        ('StreamLike', 'size=large', 'triad'): (rate_of_large, 'GB/s', 'higher'),
        ('StreamLike', 'size=large', 'latency'): (latency_of_large, 'us', 'lower'),
        ('Counts', '-', 'copy-rate'): (1234567.875, 'MB/s', 'higher'),
        ('Counts', '-', 'ratio'): (0.5, '', 'higher'),
    }
    red = work.run('compare')
    assert red.exit_code == 1 and '1 != 0' in red.stdout, red.output
    status = work.run('status')
    assert status.exit_code == 1 and 'measured by another suite; 1 partition' in status.stdout


def test_a_loss_is_found_the_same_night_and_runs_again_by_its_own_command(work):
    for number, rate in enumerate(RATES):
        work.ingest(night(number, rate))
    assert work.run('record propose').exit_code == 0
    assert work.run('record accept').exit_code == 0
    work.ingest(night(10, 95.1))
    assert work.run('compare').exit_code == 0, work.run('compare').output
    work.ingest(night(11, 95.1 * 0.93))
    red = work.run('compare')
    assert red.exit_code == 1 and '1 incident open' in red.stdout, red.output
    assert 'cpu/builtin' in red.stdout and 'StreamLike' in red.stdout and '-7.' in red.stdout
    said = re.sub(r'\\\n +', '', red.stdout)  # commands are broken at 80 columns
    again = next(line for line in said.splitlines() if line.strip().startswith('$ ') and 'reframe' in line)
    assert shlex.split(again)[1:] == [
        '/opt/reframe/bin/reframe', '-C', 'ours.py', '-c', 'tests', '-r', '-n', r'^StreamLike%size=small',
    ]  # fmt: skip
    assert 'ci/nightly' not in red.stdout
    page = work.run('report')
    assert page.exit_code in (0, 1) and 'ci/nightly --no-provision' not in (work.results / 'report.html').read_text()


@pytest.mark.parametrize('values', [{'a:b:rate': [1.0]}, {'a:b:rate': 7}, [1]])
def test_values_of_another_form_are_named(work, values):
    report = night(0, 95.0)
    report['runs'][0]['testcases'][0]['perfvalues'] = values
    said = work.run('ingest', work.write(report))
    assert said.exit_code == 2 and 'perfvalues' in said.output and 'expected' in said.output


def test_a_value_that_is_no_number_is_missing(work):
    report = night(0, 95.0)
    report['runs'][0]['testcases'][0]['perfvalues']['cluster:cpu:triad'][0] = None
    work.ingest(report)
    store = Store(work.results)
    (lost,) = [row for row in measured_in(store, store.find()) if row.status == 'missing']
    assert lost.id.metric == 'triad' and 'its value is None' in str(lost.cause)


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('reframe -n A -c x -r', ['reframe', '-c', 'x', '-r']),
        ("reframe -c x --name='A|B' -nC -rv", ['reframe', '-c', 'x', '-rv']),
        ('reframe -c x -rn A', ['reframe', '-c', 'x', '-r']),
        ('reframe -rvnA --nam B', ['reframe', '-rv']),
        ("reframe -c 'x", []),
        ('', []),
    ],
)
def test_a_command_without_its_names(line, words):
    assert without_names(line) == words


def scalars(node, path=()):
    if isinstance(node, (dict, list)):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from scalars(value, (*path, key))
    else:
        yield path


@given(st.sampled_from([*PRINTED]), st.integers(0, 10**9), st.sampled_from([None, '', 7, -1e400, 'x', [], {}, True]))
@settings(max_examples=200, deadline=None)
def test_a_report_with_another_value_somewhere_is_read_or_named(tmp_path_factory, version, seed, value):
    report = copy.deepcopy(document(version))
    path = random.Random(seed).choice(list(scalars(report)))
    node = report
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    file = tmp_path_factory.getbasetemp() / f'mutated-{version}.json'
    file.write_text(json.dumps(report))
    try:
        found = read_report(file)
    except InputError as error:
        assert str(file) in str(error)
        return
    assert len(found.samples) == 6 or (path[-2:-1] and 'perf' in str(path)) or path[-1] in ('fixture', 'result'), path


def cases_of(results):
    store = Store(results)
    return store.rows('cases', store.find())


def test_nodes_in_the_short_form_that_a_performance_report_leaves(work):
    report = night(0, 95.0)
    for test in report['runs'][0]['testcases']:
        test['job_nodelist'] = 'n[08-10],login1'  # after --performance-report, with ReFrame 4.10.4
    work.ingest(report)
    assert all(sorted(row['nodes']) == ['login1', 'n08', 'n09', 'n10'] for row in cases_of(work.results))
    report['runs'][0]['testcases'][0]['job_nodelist'] = 'n[1-'
    said = work.run('ingest', work.write(report, 'other.json'))
    assert said.exit_code == 2 and "names of nodes such as n[1-3],login1, found 'n[1-'" in said.output


def test_repetitions_are_jobs_of_one_case(work):
    report = night(0, 95.0)
    tests = report['runs'][0]['testcases']
    tests[:] = [
        test | {'display_name': f'{test["display_name"]} %.repeat_no={again}', 'unique_name': f'{test["name"]}_{again}'}
        for test in tests
        for again in (0, 1)
    ]
    said = work.ingest(report)
    store = Store(work.results)
    rows = measured_in(store, store.find())
    assert store.find().ran == 2 and len(rows) == len({row.id for row in rows}) == 4, said
    assert {row.summary.n for row in rows} == {2}


def test_cases_that_the_end_of_a_duration_cut_off_were_measured_before(work):
    report = night(0, 95.0)
    cut = {'result': 'abort', 'fail_phase': 'run', 'fail_reason': 'aborted due to RunSessionTimeout', 'perfvalues': {}}
    last = [test | cut for test in report['runs'][0]['testcases']]
    report['runs'].append({'testcases': last})
    work.ingest(report)
    assert [row['result'] for row in cases_of(work.results)] == ['pass', 'pass']
    alone = night(1, 95.0)
    alone['runs'][0]['testcases'][0] |= cut
    work.ingest(alone)
    assert sorted(row['result'] for row in cases_of(work.results)) == ['abort', 'pass']


def test_restored_cases_are_of_the_session_that_measured_them(work):
    report = night(0, 95.0)
    report['restored_cases'] = [test | {'session_uuid': 'cafe0001'} for test in report['runs'][0]['testcases']]
    said = work.run('ingest', work.write(report))
    assert said.exit_code == 0 and '2 cases restored from session cafe0001, whose own report' in said.output
    assert len(cases_of(work.results)) == 2


def test_what_a_test_of_others_may_have_costs_no_value(work):
    report = night(0, 95.0)
    first, second = report['runs'][0]['testcases']
    second['fixture'] = True  # a fixture may have performance variables
    first['record'] = 'best so far'  # a loggable variable of that name
    first['perfvalues'] = {f'cluster:cpu:{way}:4k': [9.5, 0, None, None, 'GB/s', 'pass'] for way in ('read', 'write')}
    work.ingest(report)
    assert sorted(metric for _, _, metric in values_in(work.results)) == ['latency', 'read:4k', 'triad', 'write:4k']


def test_tests_that_are_gone_are_named(work):
    """A report of chosen tests lacks nothing, one with fewer cases than ReFrame counted and the baseline has does."""
    for number, rate in enumerate(RATES):
        work.ingest(night(number, rate))
    assert work.run('record propose').exit_code == 0 and work.run('record accept').exit_code == 0
    by_hand = night(10, 95.1, names='^StreamLike%size=small')
    del by_hand['runs'][0]['testcases'][1:]
    by_hand['runs'][0]['num_cases'] = 1
    work.ingest(by_hand)
    assert work.run('compare').exit_code == 0, work.run('compare').output
    gone = night(11, 95.1)
    del gone['runs'][0]['testcases'][1:]
    gone['runs'][0]['num_cases'] = 2
    work.ingest(gone)
    red = work.run('compare')
    assert red.exit_code == 1 and '2 missing' in red.stdout, red.output
    assert 'counts 2 cases and has 1' in re.sub(r'\s+', ' ', red.stdout), red.output

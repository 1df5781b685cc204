# SPDX-License-Identifier: BSD-3-Clause
"""Reports and logs of other suites reach a verdict without a site file: every value is read, every failure is told."""

import copy
import csv
import io
import json
import random
import re
import shlex
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each_row
from run_reports import BEGAN, DAY, record, rows_of
from scratch import ROOT
from suite_reports import report as suite_report

from plumbline.errors import InputError
from postprocess.readers.cmdline import read_cmdline, without_names
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

RECORDED = ROOT / 'tests/data/other-suites'
VERSIONS = '4.6.4', '4.7.4', '4.8.4', '4.9.2', '4.10.4'
# Values in each report: the lines `P:` that the terminal printed
REPORTS = {
    'cscs-failures': 15, 'cscs-retries': 8, 'cscs-reruns': 10, 'eessi-skips': 25, 'eessi-repeats': 24,
    'excalibur-repeats': 16, 'excalibur-4.6.3': 8,
} | {f'reframe-{version}': 6 for version in VERSIONS}  # fmt: skip
RATES = [95.2, 94.7, 95.1, 95.6, 94.9, 95.3, 95.0, 94.8, 95.4, 95.2]  # of healthy nights


def document(name='reframe-4.10.4'):
    return json.loads((RECORDED / f'{name}.json').read_text())


def written(report):
    """The values in a report: partition, environ, name of the test, metric, unit, value."""
    found = []
    for case in (case for run in report['runs'] for case in run['testcases']):
        if 'perfvars' in case:  # ReFrame before 4.7
            place = case['system'].partition(':')[2], case['environment'], case['display_name']
            found += [(*place, value['name'], value['unit'], value['value']) for value in case['perfvars'] or ()]
        else:
            place = case['partition'], case['environ'], case['display_name']
            found += [(*place, key.split(':')[2], one[4], one[0]) for key, one in case['perfvalues'].items()]
    return Counter((*place, round(value, 9)) for *place, value in found if value is not None)  # it failed before


def stored(work):
    """The same of the store, as it exports its tables."""

    def table(name):
        answer = work.run('export', '--to', 'csv', '--table', name)
        assert answer.exit_code == 0, answer.output
        return list(csv.DictReader(io.StringIO(answer.stdout)))

    names = {(case['session'], case['case_id']): case['name'] for case in table('cases')}
    units = {(one['session'], one['case_id'], one['metric']): one['unit'] for one in table('metrics')}
    return Counter(
        (
            one['partition'], one['environ'], names[one['session'], one['case_id']], one['metric'],
            units[one['session'], one['case_id'], one['metric']], round(float(one['value']), 9),
        )
        for one in table('samples')
    )  # fmt: skip


def without_repetition(values):
    """The values under the names of their tests, without the number of the repetition."""
    of_all = ((*key[:2], re.sub(r' %\.repeat_no=\d+', '', key[2]), *key[3:]) for key in values.elements())
    return Counter(of_all)


@pytest.mark.parametrize('name', REPORTS)
def test_each_value_of_a_report_is_stored(work, name):
    said = work.run('ingest', RECORDED / f'{name}.json')
    expected = written(document(name))
    assert said.exit_code == 0 and sum(expected.values()) == REPORTS[name], said.output
    no_times = [key for key in expected if key[-1] == 0 and key[-2] == 's']  # `cholesky`, printed as 0.00 s
    assert len(no_times) == 2 * (name == 'eessi-repeats')
    for key in no_times:
        del expected[key]
    assert without_repetition(stored(work)) == without_repetition(expected)


def test_a_test_that_missed_its_own_reference_is_an_incident_until_a_baseline_judges_it(work):
    report = document('cscs-reruns')  # of two runs
    said = work.run('ingest', RECORDED / 'cscs-reruns.json', '--results', work.reports / 'elsewhere')
    assert ': 5 cases (3 failed), 10 samples' in said.stdout, said.output
    work.ingest(another_night(report, 0))
    red = work.run('compare')
    assert red.exit_code == 1 and 'FAILED: 1 incident open, 1 new; 3 failed, 2 no reference' in red.stdout, red.output
    assert 'bandwidth: 1.0651 GB/s, expected at least 243 and at most 297' in ' '.join(red.stdout.split())
    assert work.run('record propose').exit_code == 0
    assert work.run('record accept').exit_code == 0
    work.ingest(another_night(report, 1))
    assert work.run('compare').exit_code == 0, work.run('compare').output


def test_only_the_metric_that_missed_its_reference_failed(work):
    report = document('cscs-failures')
    (latency,) = [case for case in report['runs'][0]['testcases'] if case['display_name'] == 'CPULatencyTest']
    report['runs'][0]['testcases'] = [latency]
    for name, values in latency['perfvalues'].items():
        if not name.endswith('latencyL1'):
            values[0], values[5] = values[1], 'pass'
    work.ingest(report)
    red = work.run('compare')
    assert red.exit_code == 1 and '1 failed, 3 no reference' in red.stdout, red.output


def test_a_skipped_test_is_told_and_lost_only_where_a_baseline_has_it(work):
    report = document('eessi-skips')
    said = work.run('ingest', RECORDED / 'eessi-skips.json')
    assert '14 cases (2 skipped), 25 samples' in said.stdout, said.output
    fine = work.run('compare')
    assert fine.exit_code == 0 and '25 no reference' in fine.stdout, fine.output
    assert work.run('record propose').exit_code == 0
    assert work.run('record accept').exit_code == 0
    after = another_night(report, 12)
    (lost,) = [case for case in after['runs'][0]['testcases']
               if 'MPI4PY %scale=1_core' in case['display_name'] and case['partition'] == 'rome']  # fmt: skip
    lost |= {'result': 'skip', 'perfvalues': {}, 'job_nodelist': []}
    work.ingest(after)
    red = work.run('compare')
    assert red.exit_code == 1 and '1 missing' in red.stdout and 'ReFrame skipped it' in ' '.join(red.stdout.split()), (
        red.output
    )


def another_night(report, number):
    """A copy of a real report of another day."""
    report = copy.deepcopy(report)
    info, days = report['session_info'], (number - 12) * DAY
    info |= {'uuid': f'{number:08x}-{info["uuid"][9:]}'}
    info |= {key: info[key] + days + 1 for key in ('time_start_unix', 'time_end_unix')}
    for case in (case for run in report['runs'] for case in run['testcases']):
        if case.get('job_completion_time_unix'):
            case['job_completion_time_unix'] += days
    return report


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


def test_values_have_their_directions_and_the_case_that_failed_is_told(work):
    """The values as the terminal printed them."""
    said = work.run('ingest', RECORDED / 'reframe-4.10.4.json')
    assert said.exit_code == 0 and '4 cases (1 failed), 6 samples' in said.stdout, said.output
    store = Store(work.results)
    rows = [row for row in measured_in(store, store.find()) if row.summary.n]
    assert {(row.id.name, row.value, row.quantity.unit, row.quantity.better) for row in rows} == {
        ('triad', 99.206, 'GB/s', 'higher'), ('latency', 1.28, 'us', 'lower'), ('triad', 95.265, 'GB/s', 'higher'),
        ('latency', 1.24, 'us', 'lower'), ('copy-rate', 1234567.875, 'MB/s', 'higher'), ('ratio', 0.5, '', 'higher'),
    }  # fmt: skip
    red = work.run('compare')
    assert red.exit_code == 1 and '1 != 0' in red.stdout, red.output
    status = work.run('status')
    assert status.exit_code == 1 and 'measured by another suite; 1 partition' in status.stdout


def test_a_loss_is_found_the_same_night_and_runs_again_by_its_own_command(work):
    for number, rate in enumerate(RATES):
        work.ingest(night(number, rate))
    record(work)
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
    assert said.exit_code == 2 and 'perfvalues' in said.output and 'expected' in said.output.lower()


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


@given(st.sampled_from(VERSIONS), st.integers(0, 10**9), st.sampled_from([None, '', 7, -1e400, 'x', [], {}, True]))
@settings(max_examples=200, deadline=None)
def test_a_report_with_another_value_somewhere_is_read_or_named(tmp_path_factory, version, seed, value):
    report = document(f'reframe-{version}')
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
    assert found.number_of_samples == 6 or (path[-2:-1] and 'perf' in str(path)) or path[-1] in ('fixture', 'result'), (
        path
    )


def cases_of(results):
    store = Store(results)
    return rows_of(store, 'cases', store.find())


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
    assert sorted(metric for *_, metric, _, _ in stored(work)) == ['latency', 'read:4k', 'triad', 'write:4k']


def test_tests_that_are_gone_are_named(work):
    """A report of chosen tests lacks nothing, one with fewer cases than ReFrame counted and the baseline has does."""
    for number, rate in enumerate(RATES):
        work.ingest(night(number, rate))
    record(work)
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


# What a command line of ReFrame leaves out


@each_row(
    ('arguments', 'options'),
    [
        ('-c checks/ -R -r --mode=nightly -S HPCC.trials=2 -J time=10', ()),
        ('-rnHPCC', ('--name',)),
        ('--nam HPCC -r', ('--name',)),
        ('--exclude-t slow -r', ('--exclude-tag',)),
        ('-r -x HPCC', ('--exclude',)),
        ('-r -t memory', ('--tag',)),
        ('-r --tag=nightly', ()),
        ('-r -E \'name == "x"\'', ('--filter-expr',)),
        ('-r --distribute=all', ('--distribute',)),
        ('-r --restore-session=0.json --failed', ('--restore-session', '--failed')),
    ],
)
def test_options_that_leave_cases_out(arguments, options):
    assert read_cmdline(f'reframe {arguments}', 'nightly').narrowed_by == options


def test_the_tag_of_another_mode_leaves_cases_out():
    assert read_cmdline('reframe -r -t quick', 'nightly').narrowed_by == ('--tag',)


def test_mode_and_system_are_read_from_the_command_line():
    selection = read_cmdline('/opt/bin/reframe --mode nightly --system=mn5:gpp -r')
    assert (selection.mode, selection.site) == ('nightly', 'mn5') and 'system=mn5:gpp' in selection.selection
    assert read_cmdline('reframe --mode=quick -r', 'acceptance').mode == 'acceptance', 'that of the session counts'


def test_an_unreadable_command_line_is_no_whole_mode():
    assert read_cmdline('reframe -r "unclosed', 'quick').narrowed_by


@each_row('line, dry', [('reframe -r', False), ('reframe --dry-run', True), ("/opt/reframe -n 'a b' --dry", True)])
def test_a_dry_run_is_known_by_its_option(line, dry):
    assert read_cmdline(line).is_dry_run is dry


def test_a_suite_of_which_no_regex_matches_any_more_lost_its_metrics(work):
    """Also without a site file: ReFrame calls a test passed that found no value."""
    for number in range(3):
        work.ingest(suite_report([('copy', 90.0 + number / 10, 'GB/s')], number))
    assert [work.run(f'record {step}').exit_code for step in ('propose', 'accept')] == [0, 0]
    work.ingest(suite_report([], 3))
    assert work.compare()['counts'] == {'missing': 1}
    assert work.run('status').exit_code == 1

# SPDX-License-Identifier: BSD-3-Clause
"""Run reports and performance logs recorded from three public suites: every value is read, every failure is told."""

import copy
import csv
import io
import json
import re
from collections import Counter

import pytest
from scratch import ROOT

RECORDED = ROOT / 'tests/data/other-suites'
DAY = 86400
# Values in each report: the lines `P:` that the terminal printed
REPORTS = {
    'cscs-failures': 15, 'cscs-retries': 8, 'cscs-reruns': 10, 'eessi-skips': 25, 'eessi-repeats': 24,
    'excalibur-repeats': 16, 'excalibur-4.6.3': 8,
}  # fmt: skip


def document(name):
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
    return Counter((*place, round(value, 9)) for *place, value in found)


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
    files = sorted((RECORDED / 'logs' / name).rglob('*.log'))
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


def test_a_test_that_missed_its_own_reference_is_an_incident_until_a_baseline_judges_it(work):
    report = document('cscs-reruns')  # of two runs
    said = work.run('ingest', RECORDED / 'cscs-reruns.json', '--results', work.reports / 'elsewhere')
    assert ': 5 cases (3 failed), 10 samples' in said.stdout, said.output
    work.ingest(night(report, 0))
    red = work.run('compare')
    assert red.exit_code == 1 and 'FAILED: 1 incident open, 1 new; 3 failed, 2 no reference' in red.stdout, red.output
    assert 'bandwidth: 1.0651 GB/s, expected at least 243 and at most 297' in ' '.join(red.stdout.split())
    assert work.run('record propose').exit_code == 0
    assert work.run('record accept').exit_code == 0
    work.ingest(night(report, 1))
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
    after = night(report, 12)
    (lost,) = [case for case in after['runs'][0]['testcases']
               if 'MPI4PY %scale=1_core' in case['display_name'] and case['partition'] == 'rome']  # fmt: skip
    lost |= {'result': 'skip', 'perfvalues': {}, 'job_nodelist': []}
    work.ingest(after)
    red = work.run('compare')
    assert red.exit_code == 1 and '1 missing' in red.stdout and 'ReFrame skipped it' in ' '.join(red.stdout.split()), (
        red.output
    )


def night(report, number):
    """A copy of a real report of another day."""
    report = copy.deepcopy(report)
    info, days = report['session_info'], (number - 12) * DAY
    info |= {'uuid': f'{number:08x}-{info["uuid"][9:]}'}
    info |= {key: info[key] + days + 1 for key in ('time_start_unix', 'time_end_unix')}
    for case in (case for run in report['runs'] for case in run['testcases']):
        if case.get('job_completion_time_unix'):
            case['job_completion_time_unix'] += days
    return report

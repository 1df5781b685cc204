# SPDX-License-Identifier: BSD-3-Clause
"""Each verdict, and which of them goes before which."""

import json
import math
import random

import pytest
from browser import unpacked
from reading import value_of
from run_reports import BEGAN, case, metric, nights, only, record, reference, report
from scratch import OUTPUTS

from checks.compute.hpl_output import faults_of, metrics_of
from plumbline.paths import SUITE_SITES


@pytest.mark.parametrize(('values', 'better', 'verdict'), [
    ([99.0, 100.0], 'higher', 'ok'), ([90.0, 91.0], 'higher', 'regressed'), ([90.0, 91.0], 'lower', 'improved'),
    ([109.0, 110.0], 'lower', 'regressed'),
])  # fmt: skip
def test_a_mean_is_judged_by_its_reference(work, values, better, verdict):
    row = only(work.judge(case(metrics={'triad': metric(values, better=better)}), reference(better=better)))
    assert row['verdict'] == verdict
    assert row['value'] == pytest.approx(sum(values) / 2)
    assert (row['expected'], row['expected_std'], row['expected_n']) == (100, 1, 10)
    assert row['deviation'] == pytest.approx(row['value'] - 100)
    assert 'n=10' in row['limit_why']
    assert (row['reference_kind'], row['reference_source'], row['session']) == ('baseline', 'session x', 'aaaa1111')
    assert ('expected 100' in row['cause']) == (verdict == 'regressed')
    assert row['loss_low'] < row['loss'] < row['loss_high'] and row['window'] == 1


def test_a_value_beyond_the_limit_of_the_run_has_regressed(work):
    limit = only(work.judge(case(metrics={'triad': metric([100.0])}), reference()))['limit']
    assert 85 < limit < 95
    work.ingest(report(case(metrics={'triad': metric([limit * (1 - 1e-9)])}), uuid='bbbb'))
    assert only(work.compare('bbbb'))['verdict'] == 'regressed'


def test_the_tolerance_of_the_site_holds(work):
    site = work.sites / 'cluster/site.yaml'
    site.write_text(site.read_text().replace('floor: 0.02', 'floor: 0.02, cap: 0.10'))
    row = only(work.judge(case(metrics={'triad': metric([91.0])}), reference(std='30')))
    assert (row['limit'], row['verdict']) == (pytest.approx(90), 'ok')  # cap of the site: 10 %
    work.ingest(report(case(metrics={'triad': metric([80.0])}), uuid='bbbb'))
    assert only(work.compare('bbbb'))['verdict'] == 'regressed'  # however much it varies


def test_void_without_a_reference_is_void(work):
    document = work.judge(case(metrics={'triad': metric([100.0], invalid='above the peak'), 'copy': metric([1.0])}))
    assert document['counts'] == {'invalid': 1, 'no_reference': 1}
    assert document['exit_code'] == 1


def test_a_case_that_failed_otherwise_than_by_its_performance_fails_its_metrics(work):
    said = 'xhpl was killed by SIGSEGV (exit code 139) in trial 1 of 3 on n1: "x"; all output: evidence/demo/a.tar.gz'
    entry = case(
        metrics={'triad': metric([100.0])}, result='fail', fail_phase='sanity', fail_reason=f'sanity error:\n{said}'
    )
    row = only(work.judge(entry, reference()))
    assert (row['verdict'], row['cause']) == ('failed', f'failed: {said}')
    summary = ' '.join(work.run('compare', '--summary').stdout.split())
    assert f'failed: {said}' in summary and 'sanity' not in summary, "it is told without ReFrame's words"


def test_a_case_that_failed_by_its_performance_is_judged_by_each_metric(work):
    entry = case(
        metrics={'triad': metric([80.0]), 'copy': metric([100.0])}, result='fail', fail_phase='performance',
        fail_reason='performance error: failed to meet reference(s): triad=80',
        perfvalues={'cluster:cpu:triad': [80.0, 100.0, -0.05, None, 'GB/s']},
    )  # fmt: skip
    document = work.judge(entry, reference(), reference(metric='copy'))
    assert document['counts'] == {'regressed': 1, 'ok': 1}
    assert document['problems'] == []


def test_a_declared_metric_without_samples(work):
    entry = case(metrics={'triad': metric(), 'copy': metric(), 'add': metric([1.0])}, missing={'triad': 'no match'})
    document = work.judge(entry, reference())
    rows = {row['metric']: (row['verdict'], row['cause']) for row in document['verdicts']}
    assert rows['triad'] == ('missing', 'no match')
    assert rows['copy'] == ('failed', 'the check declares it and reported no number for it')
    assert rows['add'][0] == 'no_reference'


@pytest.mark.parametrize('record', [{}, None, '<undefined>'])
def test_a_case_without_a_record_is_one_failed_row_and_misses_its_references_too(work, record):
    entry = case(result='fail', fail_phase='setup', fail_reason='no such file', record=record)
    row = only(work.judge(entry))
    assert (row['verdict'], row['metric'], row['params'], row['cause']) == (
        'failed', '*', 'size=big', 'failed in setup: no such file',
    )  # fmt: skip
    work.reference(reference())
    document = work.compare()
    assert document['counts'] == {'missing': 1, 'failed': 1}
    assert {row['cause'] for row in document['verdicts']} == {'failed in setup: no such file'}


def test_a_test_that_is_no_benchmark_has_no_verdict_but_its_failure_counts(work):
    good = case(metrics={'triad': metric([100.0])})
    foreign = case(check='Foreign')
    del foreign['record']
    work.reference(reference())
    work.ingest(report(good, foreign, uuid='aaaa'))
    assert work.compare('aaaa')['counts'] == {'ok': 1}
    failing = foreign | {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'x'}
    work.ingest(report(good, failing, uuid='bbbb'))
    assert work.compare('bbbb')['counts'] == {'failed': 1, 'ok': 1}


def test_every_result_without_a_reason_gets_one(work):
    """Also a benchmark that passed without a record fails."""
    said = {'skip': 'skipped', 'fail_deps': 'needs failed', 'abort': 'aborted', '<unknown>': 'unknown', 'pass': 'pass'}
    work.ingest(report(*(case(check=f'C{number}', result=result) for number, result in enumerate(said))))
    rows = {row['check']: row for row in work.compare()['verdicts']}
    for number, words in enumerate(said.values()):
        row = rows[f'C{number}']
        assert (row['verdict'], row['metric']) == ('failed', '*') and words in row['cause']


def test_a_number_that_is_not_finite_is_never_ok(work):
    values = {
        f'{better}_{value}': metric([value, 100.0], better=better)
        for value in (math.nan, math.inf, -math.inf)
        for better in ('higher', 'lower')
    }
    rows = [reference(metric=name, better=of['better']) for name, of in values.items()]
    verdicts = work.judge(case(metrics=values), *rows)['verdicts']
    assert [(row['verdict'], row['value']) for row in verdicts] == [('failed', None)] * 6


@pytest.mark.parametrize(('unit', 'fields', 'cause'), [
    ('GB/s', {'unit': 'MB/s'}, 'unit differs: measured GB/s, the reference (baseline, session x) says MB/s'),
    ('1', {'unit': '1', 'better': 'lower'}, 'better differs: measured higher'),
])  # fmt: skip
def test_a_reference_in_another_unit_or_direction_fails_with_a_sentence(work, unit, fields, cause):
    row = only(work.judge(case(metrics={'triad': metric([100.0], unit)}), reference(**fields)))
    assert row['verdict'] == 'failed' and row['cause'].startswith(cause)


# Warnings, reruns, and all metrics together


def test_a_number_of_another_machine_warns_and_never_fails(work):
    elsewhere = reference(kind='elsewhere', source='a paper', mode='')
    work.reference(elsewhere, elsewhere | {'metric': 'copy'}, file='published.csv')
    work.ingest(report(case(metrics={'triad': metric([50.0])})))
    document = work.compare()
    assert (document['counts'], document['exit_code']) == ({'warning': 1}, 0)
    assert 'of another machine, only warns' in only(document)['cause']


def test_every_metric_90_percent_worse_than_one_accepted_session_is_red(work):
    values = {f'm{i}': 10.0 + i for i in range(40)}
    nights(work, [{name: factor * value for name, value in values.items()} for factor in (1, 1.01, 0.1)])
    record(work, 'night00')
    assert work.compare('night01')['counts'] == {'ok': 40}
    document = work.compare('night02')
    assert (document['counts'], document['exit_code']) == ({'regressed': 40}, 1)


@pytest.mark.parametrize(('better', 'reruns', 'verdict', 'says'), [
    ('higher', [('n1', 91.0), ('n1', 89.0), ('n2', 90.0), ('n2', 100.0)], 'regressed', '5 jobs'),
    ('higher', [('n1', None), ('n2', None)], 'regressed', 'expected 100'),
    ('lower', [('n1', 112.4), ('n2', 113.6)], 'regressed', '3 jobs: 111, 112.4, 113.6'),
    ('lower', [('n1', 100.0), ('n2', 99.0)], 'warning', 'not confirmed'),
])  # fmt: skip
def test_distinct_jobs_decide(work, better, reruns, verdict, says):
    work.reference(reference(better=better))
    first = 90.0 if better == 'higher' else 111.0
    work.ingest(report(case(metrics={'triad': metric([first], better=better)}), uuid='session'))
    words = []
    for number, (node, value) in enumerate(reruns):
        again = metric([] if value is None else [value], better=better)
        words += ['--rerun', work.write(report(case(metrics={'triad': again}, nodes=(node,)), uuid=f'rerun-{number}'))]
    document = work.compare('session', *words)
    row = only(document)
    assert row['verdict'] == verdict and says in row['cause']
    assert document['exit_code'] == int(verdict == 'regressed')
    assert work.run('report', 'session', *words).exit_code == document['exit_code']
    assert says in json.dumps(unpacked(work.results / 'report.html'))


@pytest.mark.parametrize(('job', 'verdict'), [
    (case(metrics={'triad': metric([900.0], invalid='above the peak')}), 'invalid'),
    (case(metrics={'triad': metric()}, missing={'triad': 'no line'}), 'missing'),
    (case(metrics={'triad': metric()}, result='fail', fail_phase='run', fail_reason='exit code 3'), 'ok'),
])  # fmt: skip
def test_another_job_makes_up_for_a_failed_case_and_not_for_a_number_lost_or_untrue(work, job, verdict):
    work.reference(reference())
    good = case(metrics={'triad': metric([100.0])})
    for uuid, runs in {'first': (job, good), 'last': (good, job)}.items():
        work.ingest(report(runs[1], earlier_runs=[[runs[0]]], uuid=f'{uuid}-{verdict}'))
        assert only(work.compare(f'{uuid}-{verdict}'))['verdict'] == verdict


def test_a_report_that_is_given_twice_counts_once(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([90.0])}), uuid='aaaa'))
    again = ['--rerun', work.write(report(case(metrics={'triad': metric([89.0])}), uuid='bbbb'))]
    once, twice = (only(work.compare('aaaa', *again * times)) for times in (1, 2))
    assert once == twice and '2 jobs' in once['cause']


def test_nights_add_up_to_a_small_loss(work):
    work.reference(*(reference(metric=name) for name in ('triad', 'copy')))
    nights(work, [{'triad': 97.5 + 0.3 * (day % 3), 'copy': 99.7 + 0.3 * (day % 3)} for day in range(14)])
    assert set(work.verdicts('night00').values()) == {'ok'}
    copy, triad = sorted(work.compare()['verdicts'], key=lambda row: row['metric'])
    assert (copy['verdict'], triad['verdict']) == ('ok', 'regressed') and triad['window'] > 1
    assert triad['loss'] == pytest.approx(2.2, abs=0.3)


def curve(factors):
    """A latency by message size: every size is measured, one is judged by itself."""
    metrics = {
        f'latency message_bytes={2**power}': metric([(1 + 2**power / 1000) / factor], 'us', 'lower')
        | {'judged': power == 3}
        for power, factor in enumerate(factors)
    }
    return case('Osu', 'nodes=2', metrics, dims={'message_bytes': ('size', 'B')})


@pytest.mark.parametrize(
    ('lost', 'share'), [(range(12, 13), 0.5), (range(8, 16), 0.9)], ids=['half at one size', 'a tenth at eight sizes']
)
def test_every_size_of_a_curve_counts(work, lost, share):
    rng = random.Random(1)

    def night(day, share=1.0):
        factors = [math.exp(rng.gauss(0, 0.01)) * (share if power in lost else 1) for power in range(20)]
        return report(curve(factors), uuid=f'{day}000', began=BEGAN + 86400 * day)

    work.ingest(*map(night, range(8)))
    record(work)
    work.ingest(night(8))
    assert work.compare()['counts'] == {'ok': 20}
    work.ingest(night(9, share))
    document = work.compare()
    assert document['exit_code'] == 1
    regressed = {row['dims'] for row in document['verdicts'] if row['verdict'] == 'regressed'}
    assert regressed == {f'message_bytes={2**power}' for power in lost}


@pytest.mark.parametrize(('row', 'verdict'), [
    # 2/3 N^3 + 3/2 N^2 = 3.2156311e15 operations, and their time at 6.61 and 5.50 TFlop/s
    ('WC00C2R2      168960   384     1     2             486.48            6.61000e+03', 'ok'),
    ('WC00C2R2      168960   384     1     2             584.66            5.50000e+03', 'regressed'),
])  # fmt: skip
def test_an_output_of_intels_hpl_is_judged_by_the_row_of_marenostrum_5(work, row, verdict):
    """The row of 000, Table 4, is 6.61 TFlop/s and 92.19 % of 7.17: the recorded output with a result of this size."""
    recorded = (OUTPUTS / 'hpl-intel-2024.0-run-1.txt').read_text()
    (line,) = [line for line in recorded.splitlines() if line.startswith('WC00C2R2')]
    output, asked = recorded.replace(line, row), ((168960, 384, 1, 2),)
    assert faults_of(output, asked) == []
    found = {one.name: (one.unit, value_of(one, output)) for one in metrics_of(asked, 1, 7.17e12)}
    (work.sites / 'marenostrum5').symlink_to(SUITE_SITES / 'marenostrum5')
    metrics = {name: metric([found[name][1]], found[name][0]) for name in ('gflops', 'peak_fraction')}
    parameters = 'implementation=netlib,size=full'
    work.ingest(report(case('HPL', parameters, metrics, 'gpp-ddr', 'mkl', site='marenostrum5'), mode='acceptance'))
    rows = {of['metric']: of for of in work.compare()['verdicts'] if of['check'] == 'HPL' and of['value'] is not None}
    assert (rows['gflops']['expected'], rows['peak_fraction']['expected']) == (6610, pytest.approx(0.9219))
    assert {of['verdict'] for of in rows.values()} == {verdict}

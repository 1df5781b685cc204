# SPDX-License-Identifier: BSD-3-Clause
"""Each verdict, and which of them goes before which."""

import json
import math
import random
from types import SimpleNamespace

import pytest
from browser import unpacked
from reading import value_of
from run_reports import BEGAN, case, metric, only, reference, report
from scratch import OUTPUTS

from checks.compute.hpl_output import faults_of, metrics_of
from plumbline.paths import SUITE_SITES
from postprocess.verdicts.measured import failure


@pytest.mark.parametrize(
    ('values', 'better', 'verdict'),
    [
        ([99.0, 100.0], 'higher', 'ok'),
        ([90.0, 91.0], 'higher', 'regressed'),
        ([109.0, 110.0], 'higher', 'improved'),
        ([99.0, 100.0], 'lower', 'ok'),
        ([90.0, 91.0], 'lower', 'improved'),
        ([109.0, 110.0], 'lower', 'regressed'),
    ],
)
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


def test_the_mean_decides_and_not_a_single_sample(work):
    assert only(work.judge(case(metrics={'triad': metric([120.0, 80.0])}), reference()))['verdict'] == 'ok'


def test_the_tolerance_of_the_site_holds(work):
    site = work.sites / 'cluster/site.yaml'
    site.write_text(site.read_text().replace('floor: 0.02', 'floor: 0.02, cap: 0.10'))
    row = only(work.judge(case(metrics={'triad': metric([91.0])}), reference(std='30')))
    assert (row['limit'], row['verdict']) == (pytest.approx(90), 'ok')  # cap of the site: 10 %
    work.ingest(report(case(metrics={'triad': metric([80.0])}), uuid='bbbb'))
    assert only(work.compare('bbbb'))['verdict'] == 'regressed'  # however much it varies


def test_without_any_reference_it_is_said_once_how_to_record_one(work):
    work.ingest(report(case(metrics={name: metric([1.0]) for name in ('triad', 'copy', 'add')})))
    for arguments in ([], ['--summary'], ['--format', 'markdown']):
        result = work.run('compare', *arguments)
        assert result.exit_code == 0
        text = ' '.join(result.output.split())
        assert text.count('plumbline record propose') == text.count('plumbline record accept') == 1
        assert '3 no reference' in text


def test_void_goes_before_everything(work):
    entry = case(
        metrics={'triad': metric([100.0], invalid='above the peak')},
        result='fail',
        fail_phase='sanity',
        fail_reason='bad',
    )
    row = only(work.judge(entry, reference(unit='MB/s')))
    assert (row['verdict'], row['cause'], row['value']) == ('invalid', 'above the peak', 100)


def test_void_without_a_reference_is_void(work):
    document = work.judge(case(metrics={'triad': metric([100.0], invalid='above the peak'), 'copy': metric([1.0])}))
    assert document['counts'] == {'invalid': 1, 'no_reference': 1}
    assert document['exit_code'] == 1


def test_a_case_that_failed_otherwise_than_by_its_performance_fails_its_metrics(work):
    entry = case(
        metrics={'triad': metric([100.0])}, result='fail', fail_phase='sanity', fail_reason='job 7\nended in TIMEOUT'
    )
    row = only(work.judge(entry, reference()))
    assert (row['verdict'], row['cause']) == ('failed', 'failed: job 7 ended in TIMEOUT')


def test_a_case_that_failed_by_its_performance_is_judged_by_each_metric(work):
    entry = case(
        metrics={'triad': metric([80.0]), 'copy': metric([100.0])}, result='fail', fail_phase='performance',
        fail_reason='performance error: failed to meet reference(s): triad=80',
        perfvalues={'cluster:cpu:triad': [80.0, 100.0, -0.05, None, 'GB/s']},
    )  # fmt: skip
    document = work.judge(entry, reference(), reference(metric='copy'))
    assert document['counts'] == {'regressed': 1, 'ok': 1}
    assert document['problems'] == []


def test_a_performance_phase_that_failed_for_something_no_metric_shows_is_a_problem(work):
    entry = case(
        metrics={'triad': metric([100.0])}, result='fail', fail_phase='performance',
        fail_reason='performance error: declared and not measured: extra',
    )  # fmt: skip
    document = work.judge(entry, reference())
    assert document['exit_code'] == 1
    assert document['problems'] == [f'STREAM size=big of cpu with system: {entry["fail_reason"]}']


def test_a_declared_metric_without_samples(work):
    entry = case(metrics={'triad': metric(), 'copy': metric(), 'add': metric([1.0])}, missing={'triad': 'no match'})
    document = work.judge(entry, reference())
    rows = {row['metric']: (row['verdict'], row['cause']) for row in document['verdicts']}
    assert rows['triad'] == ('missing', 'no match')
    assert rows['copy'] == ('failed', 'the check declares it and reported no number for it')
    assert rows['add'][0] == 'no_reference'


@pytest.mark.parametrize('record', [{}, None, '<undefined>'])
def test_a_case_without_a_record_is_one_failed_row(work, record):
    entry = case(result='fail', fail_phase='setup', fail_reason='no such file', record=record)
    row = only(work.judge(entry))
    assert (row['verdict'], row['metric'], row['params'], row['cause']) == (
        'failed', '*', 'size=big', 'failed in setup: no such file',
    )  # fmt: skip


def test_a_case_without_a_record_misses_its_references_too(work):
    entry = case(result='fail', fail_phase='setup', fail_reason='no such file')
    document = work.judge(entry, reference())
    assert document['counts'] == {'missing': 1, 'failed': 1}
    assert {row['cause'] for row in document['verdicts']} == {'failed in setup: no such file'}


def test_a_benchmark_that_passed_without_a_record_fails(work):
    row = only(work.judge(case()))
    assert (row['verdict'], row['metric']) == ('failed', '*')


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


@pytest.mark.parametrize(
    ('result', 'says'),
    [('skip', 'skipped'), ('fail_deps', 'needs failed'), ('abort', 'aborted'), ('<unknown>', 'unknown')],
)
def test_every_result_without_a_reason_gets_one(work, result, says):
    row = only(work.judge(case(result=result)))
    assert row['verdict'] == 'failed'
    assert says in row['cause']


def test_the_sentence_of_a_failed_case_is_in_the_summary_without_reframes_words(work):
    said = 'xhpl was killed by SIGSEGV (exit code 139) in trial 1 of 3 on n1: "x"; all output: evidence/demo/a.tar.gz'
    work.ingest(report(case(result='fail', fail_phase='sanity', fail_reason=f'sanity error: {said}')))
    summary = ' '.join(work.run('compare', '--summary').stdout.split())
    assert f'failed: {said}' in summary and 'sanity' not in summary


def test_a_result_reframe_may_add_later_is_a_failure():
    assert failure(SimpleNamespace(result='new', fail_phase=None, why=[], evidence=''))


@pytest.mark.parametrize('value', [float('nan'), float('inf'), float('-inf')])
def test_a_number_that_is_not_finite_is_never_ok(work, value):
    for better in ('higher', 'lower'):
        entry = case(metrics={'triad': metric([value, 100.0], better=better)})
        uuid = f'{better}-0'
        work.reference(reference(better=better))
        work.ingest(report(entry, uuid=uuid))
        row = only(work.compare(uuid))
        assert row['verdict'] == 'failed'
        assert row['value'] is None


def test_a_reference_in_another_unit_fails_with_a_sentence(work):
    row = only(work.judge(case(metrics={'triad': metric([100.0])}), reference(unit='MB/s')))
    assert row['verdict'] == 'failed'
    assert row['cause'] == 'unit differs: measured GB/s, the reference (baseline, session x) says MB/s'


def test_a_reference_with_the_other_direction_fails_with_a_sentence(work):
    row = only(work.judge(case(metrics={'triad': metric([100.0], unit='1')}), reference(unit='1', better='lower')))
    assert row['verdict'] == 'failed'
    assert row['cause'].startswith('better differs: measured higher')


def test_the_same_case_on_another_partition_or_stack_has_its_own_verdict(work):
    work.reference(reference(), reference(partition='gpu', mean='50'), reference(environ='other', mean='200'))
    metrics = {'triad': metric([100.0])}
    work.ingest(
        report(case(metrics=metrics), case(metrics=metrics, partition='gpu'), case(metrics=metrics, stack='other'))
    )
    rows = work.compare()['verdicts']
    assert {(row['partition'], row['environ']): row['verdict'] for row in rows} == {
        ('cpu', 'system'): 'ok', ('gpu', 'system'): 'improved', ('cpu', 'other'): 'regressed',
    }  # fmt: skip


def test_every_node_of_a_distributed_case_is_judged(work):
    entries = [
        case(metrics={'triad': metric([value], node=node)}, nodes=(node,), unique_name=f'STREAM_{node}')
        for node, value in (('n1', 100.0), ('n2', 50.0))
    ]
    work.reference(reference())
    work.ingest(report(*entries))
    document = work.compare()
    assert [(row['verdict'], row['nodes']) for row in document['verdicts']] == [('regressed', ['n2']), ('ok', ['n1'])]
    assert document['counts'] == {'regressed': 1}  # one metric
    assert '1 gated' in ' '.join(work.run('compare', '--summary').stdout.split())


# The session as a whole


# Warnings, reruns, and all metrics together


def test_a_number_of_another_machine_warns_and_never_fails(work):
    elsewhere = reference(kind='elsewhere', source='a paper', mode='')
    work.reference(elsewhere, elsewhere | {'metric': 'copy'}, file='published.csv')
    work.ingest(report(case(metrics={'triad': metric([50.0])})))
    document = work.compare()
    assert (document['counts'], document['exit_code']) == ({'warning': 1}, 0)
    assert 'of another machine, only warns' in only(document)['cause']
    assert 'Warnings' in work.run('compare', '--summary').stdout


def test_a_noisy_metric_gates_at_its_own_interval(work):
    document = work.judge(case(metrics={'triad': metric([70.0])}), reference(std='30'))
    assert (document['counts'], document['exit_code']) == ({'ok': 1}, 0)
    assert only(document)['gate'] == 'gated'
    work.ingest(report(case(metrics={'triad': metric([10.0])}), uuid='bbbb'))
    document = work.compare('bbbb')
    assert (document['counts'], document['exit_code']) == ({'regressed': 1}, 1)


def test_every_metric_90_percent_worse_than_one_accepted_session_is_red(work):
    names = [f'm{i}' for i in range(40)]

    def session(uuid, factor, began):
        values = {name: metric([factor * (10 + i), factor * (10.1 + i)]) for i, name in enumerate(names)}
        return report(case(metrics=values), uuid=uuid, mode='quick', began=began)

    work.ingest(session('aaaa', 1, BEGAN), session('bbbb', 1.01, BEGAN + 86400), session('cccc', 0.1, BEGAN + 172800))
    work.run('record propose', 'aaaa')
    assert work.run('record accept').exit_code == 0
    assert work.compare('bbbb')['counts'] == {'ok': 40}
    document = work.compare('cccc')
    assert (document['counts'], document['exit_code']) == ({'regressed': 40}, 1)


@pytest.mark.parametrize(
    ('reruns', 'verdict', 'says'),
    [
        ([('n1', 89.0), ('n2', 88.0)], 'regressed', '3 jobs: 90, 89, 88'),
        ([('n1', 100.0)], 'warning', '2 jobs: 90, 100'),
        ([('n1', 100.0), ('n2', 101.0)], 'warning', 'not confirmed'),
        ([('n1', 91.0), ('n1', 89.0), ('n2', 90.0), ('n2', 100.0)], 'regressed', '5 jobs'),
        ([('n1', None), ('n2', None)], 'regressed', 'expected 100'),
    ],
)
def test_distinct_jobs_decide(work, reruns, verdict, says):
    for better in ('higher', 'lower'):

        def value(v, better=better):
            return v if better == 'higher' else 10_000 / v

        work.reference(reference(better=better))
        session = f'{better}-session'
        work.ingest(report(case(metrics={'triad': metric([value(90.0)], better=better)}), uuid=session))
        words = []
        for number, (node, v) in enumerate(reruns):
            again = metric([] if v is None else [value(v)], better=better)
            again = report(case(metrics={'triad': again}, nodes=(node,)), uuid=f'{better}-{number}')
            words += ['--rerun', work.write(again)]
        document = work.compare(session, *words)
        row = only(document)
        assert row['verdict'] == verdict
        assert document['exit_code'] == int(verdict == 'regressed')
        if better == 'higher':
            assert says in row['cause']
            assert work.run('report', session, *words).exit_code == document['exit_code']
            assert says in json.dumps(unpacked(work.results / 'report.html'))


@pytest.mark.parametrize(
    ('job', 'verdict'),
    [
        (case(metrics={'triad': metric([900.0], invalid='above the peak')}), 'invalid'),
        (case(metrics={'triad': metric()}, missing={'triad': 'no line'}), 'missing'),
        (case(metrics={'triad': metric()}, result='fail', fail_phase='run', fail_reason='exit code 3'), 'ok'),
    ],
)
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
    for day in range(14):
        values = {'triad': 97.5 + 0.3 * (day % 3), 'copy': 99.7 + 0.3 * (day % 3)}
        metrics = {name: metric([value]) for name, value in values.items()}
        work.ingest(report(case(metrics=metrics), uuid=f'{day:04}', began=BEGAN + 86400 * day))
    assert only_of(work.compare('0000'), 'triad')['verdict'] == 'ok'
    row = only_of(work.compare('0013'), 'triad')
    assert row['verdict'] == 'regressed' and row['window'] > 1
    assert row['loss'] == pytest.approx(2.2, abs=0.3)
    assert only_of(work.compare('0013'), 'copy')['verdict'] == 'ok'


def only_of(document, name):
    (row,) = (row for row in document['verdicts'] if row['metric'] == name)
    return row


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

    def noise():
        return [math.exp(rng.gauss(0, 0.01)) for _ in range(20)]

    work.ingest(*(report(curve(noise()), uuid=f'{day}000', began=BEGAN + 86400 * day) for day in range(8)))
    assert work.run('record', 'propose').exit_code == 0
    work.run('record', 'accept')
    work.ingest(report(curve(noise()), uuid='aaaa', began=BEGAN + 86400 * 8))
    assert work.compare('aaaa')['counts'] == {'ok': 20}
    slow = [factor * (share if power in lost else 1) for power, factor in enumerate(noise())]
    work.ingest(report(curve(slow), uuid='bbbb', began=BEGAN + 86400 * 9))
    document = work.compare('bbbb')
    assert document['exit_code'] == 1
    regressed = {row['dims'] for row in document['verdicts'] if row['verdict'] == 'regressed'}
    assert regressed == {f'message_bytes={2**power}' for power in lost}


def test_the_chances_of_all_metrics_together(work):
    rng = random.Random(2)
    names = [f'm{i}' for i in range(100)]
    work.reference(*(reference(metric=name) for name in names))
    values = {name: rng.gauss(100, 1) for name in names} | {'m0': 96.8, 'm1': 80.0}
    work.ingest(report(case(metrics={name: metric([value]) for name, value in values.items()})))
    document = work.compare()
    rows = {row['metric']: row for row in document['verdicts']}
    assert document['counts'] == {'regressed': 1, 'ok': 99}
    assert rows['m0']['p'] > 0.01 > rows['m1']['q'] > rows['m1']['p']
    assert rows['m0']['q'] > 0.05
    summary = ' '.join(work.run('compare', '--summary').stdout.split())
    assert 'each notices losses above' in summary


@pytest.mark.parametrize(
    ('row', 'verdict'),
    [
        # 2/3 N^3 + 3/2 N^2 = 3.2156311e15 operations, and their time at 6.61, 6.67 and 5.50 TFlop/s
        ('WC00C2R2      168960   384     1     2             486.48            6.61000e+03', 'ok'),
        ('WC00C2R2      168960   384     1     2             482.10            6.67005e+03', 'ok'),
        ('WC00C2R2      168960   384     1     2             584.66            5.50000e+03', 'regressed'),
    ],
)
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

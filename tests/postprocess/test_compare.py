"""Each verdict, which of them goes before which, and what a session should have measured."""

import json
import math

import pytest
from run_reports import case, metric, only, reference, report
from scipy import stats

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
    assert row['limit_why'] == '99 % prediction interval of n=10'
    assert (row['reference_kind'], row['reference_source'], row['session']) == ('baseline', 'session x', 'aaaa1111')
    assert ('limit' in row['cause']) == (verdict == 'regressed')


def test_the_limit_itself_is_ok_and_just_below_is_not(work):
    limit = only(work.judge(case(metrics={'triad': metric([100.0])}), reference()))['limit']
    for uuid, value, verdict in (('bbbb', limit, 'ok'), ('cccc', limit * (1 - 1e-9), 'regressed')):
        work.ingest(report(case(metrics={'triad': metric([value])}), uuid=uuid))
        assert only(work.compare(uuid))['verdict'] == verdict


def test_the_mean_decides_and_not_a_single_sample(work):
    assert only(work.judge(case(metrics={'triad': metric([120.0, 80.0])}), reference()))['verdict'] == 'ok'


def test_the_tolerance_of_the_site_holds(work):
    row = only(work.judge(case(metrics={'triad': metric([91.0])}), reference(std='30')))
    assert (row['limit'], row['verdict']) == (pytest.approx(90), 'ok')  # cap of the site: 10 %


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
        metrics={'triad': metric([100.0], void='above the peak')}, result='fail', fail_phase='sanity', fail_reason='bad'
    )
    row = only(work.judge(entry, reference(unit='MB/s')))
    assert (row['verdict'], row['cause'], row['value']) == ('invalid', 'above the peak', 100)


def test_void_without_a_reference_is_void(work):
    document = work.judge(case(metrics={'triad': metric([100.0], void='above the peak'), 'copy': metric([1.0])}))
    assert document['counts'] == {'invalid': 1, 'no_reference': 1}
    assert document['exit_code'] == 1


def test_a_case_that_failed_otherwise_than_by_its_performance_fails_its_metrics(work):
    entry = case(
        metrics={'triad': metric([100.0])}, result='fail', fail_phase='sanity', fail_reason='job 7\nended in TIMEOUT'
    )
    row = only(work.judge(entry, reference()))
    assert (row['verdict'], row['cause']) == ('failed', 'failed in sanity: job 7 ended in TIMEOUT')


def test_a_case_that_failed_by_its_performance_is_judged_by_each_metric(work):
    entry = case(
        metrics={'triad': metric([80.0]), 'copy': metric([100.0])}, result='fail', fail_phase='performance',
        fail_reason='performance error: failed to meet reference(s): triad=80',
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


def test_a_result_reframe_may_add_later_is_a_failure():
    assert failure({'result': 'new', 'fail_phase': None, 'fail_reason': None})


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
    row = only(work.judge(case(metrics={'triad': metric([100.0])}), reference(better='lower')))
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
    assert work.compare()['counts'] == {'regressed': 1, 'ok': 1}


# Scope: what should have been measured


def absent(**fields):
    return reference(**{'params': 'size=small'} | fields)


@pytest.mark.parametrize(
    ('row', 'session', 'missing'),
    [
        (absent(), {'mode': 'quick'}, True),
        (absent(), {'mode': 'nightly'}, True),
        (absent(mode='nightly'), {'mode': 'quick'}, False),
        (absent(mode=''), {'mode': 'acceptance'}, False),
        (absent(), {}, False),
        (absent(), {'cmdline': 'reframe --mode=quick -r'}, True),
        (absent(), {'mode': 'quick', 'cmdline': 'reframe -r -n STREAM'}, False),
        (absent(), {'mode': 'quick', 'cmdline': 'reframe -r -c checks/memory -R'}, True),
        (absent(), {'mode': 'quick', 'cmdline': 'reframe -r --distribute'}, False),
        (absent(partition='gpu'), {'mode': 'quick', 'cmdline': 'reframe --system=cluster:cpu -r'}, False),
        (absent(partition='gpu'), {'mode': 'quick', 'cmdline': 'reframe --system=cluster -r'}, True),
        (absent(check='Other', params='*'), {'mode': 'quick'}, True),
        (absent(check='Other', params='*'), {}, False),
        (reference(metric='copy'), {}, True),
        (reference(metric='copy', environ='other'), {}, False),
        (reference(metric='copy', environ='*'), {}, False),
        (reference(metric='*', params='*'), {'mode': 'quick'}, False),
    ],
)
def test_which_references_a_session_should_have_met(work, row, session, missing):
    document = work.judge(case(metrics={'triad': metric([100.0])}), row, **session)
    found = [verdict for verdict in document['verdicts'] if verdict['verdict'] == 'missing']
    assert bool(found) == missing
    assert document['exit_code'] == int(missing)
    if missing:
        assert found[0]['cause']
        assert found[0]['value'] is None
        assert found[0]['expected'] == 100


def test_a_published_row_is_missed_only_by_the_case_it_names(work):
    work.reference(
        reference(kind='published', params='size=small', mode='quick'), reference(kind='published', metric='copy'),
        file='published.csv',
    )  # fmt: skip
    work.ingest(report(case(metrics={'triad': metric([100.0])}), mode='quick'))
    assert work.verdicts() == {
        ('STREAM', 'size=big', 'copy'): 'missing', ('STREAM', 'size=big', 'triad'): 'no_reference',
    }  # fmt: skip


def test_a_baseline_goes_before_a_published_row(work):
    work.reference(reference(kind='published', mean='200', mode=''), file='published.csv')
    row = only(work.judge(case(metrics={'triad': metric([100.0])}), reference()))
    assert (row['verdict'], row['reference_kind']) == ('ok', 'baseline')


# The session as a whole


def test_fewer_cases_than_expected_fail(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([100.0])})), expected='2')
    document = work.compare()
    assert (document['counts'], document['problems']) == ({'ok': 1}, ['2 cases expected, 1 ran'])
    assert document['exit_code'] == 1


def test_a_problem_outside_the_cases_fails(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([100.0])})), expected='1', problem='checks/x.py does not import')
    assert work.compare()['problems'] == ['checks/x.py does not import']


def test_a_session_in_which_no_case_ran_fails(work):
    work.ingest(report(), site='cluster')
    document = work.compare()
    assert (document['problems'], document['verdicts']) == (['no case ran'], [])
    assert document['exit_code'] == 1


def test_a_session_that_measured_nothing_fails(work):
    foreign = case()
    del foreign['record']
    work.ingest(report(foreign))
    document = work.compare()
    assert document['problems'] == ['1 case ran and nothing was measured that counts']
    assert document['exit_code'] == 1


def test_a_failed_fixture_fails(work):
    fixture = case(
        check='Stack', parameters='-', fixture=True, result='fail', fail_phase='compile', fail_reason='no compiler'
    )
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([100.0])}), fixture))
    document = work.compare()
    assert document['counts'] == {'ok': 1}
    assert document['problems'] == ['fixture Stack of cpu with system: failed in compile: no compiler']
    assert document['exit_code'] == 1


def test_an_unknown_mode_is_a_problem(work):
    document = work.judge(case(metrics={'triad': metric([100.0])}), reference(), mode='weekly')
    assert "'weekly' is none of quick, nightly, acceptance" in document['problems'][0]


# Warnings, reruns, and all metrics together


def test_a_number_of_another_machine_warns_and_never_fails(work):
    elsewhere = reference(kind='elsewhere', source='a paper', mode='')
    work.reference(elsewhere, elsewhere | {'metric': 'copy'}, file='published.csv')
    work.ingest(report(case(metrics={'triad': metric([50.0])})))
    document = work.compare()
    assert (document['counts'], document['exit_code']) == ({'warning': 1}, 0)
    assert 'of another machine, only warns' in only(document)['cause']
    assert 'Warnings' in work.run('compare', '--summary').stdout


def test_a_metric_too_noisy_to_gate_warns(work):
    document = work.judge(case(metrics={'triad': metric([50.0])}), reference(std='30'))
    assert (document['counts'], document['exit_code']) == ({'warning': 1}, 0)
    assert only(document)['gate'] == 'too_noisy'


@pytest.mark.parametrize(
    ('reruns', 'verdict', 'where', 'says'),
    [
        ([('n1', 89.0), ('n2', 88.0)], 'regressed', 'system', 'also on other nodes'),
        ([('n1', 89.0), ('n2', 100.0)], 'regressed', 'node', 'look at n1'),
        ([('n1', 89.0), ('n1', 100.0)], 'regressed', '', 'median 90: confirmed'),
        ([('n1', 100.0), ('n2', 100.0)], 'warning', '', 'not confirmed'),
        ([('n1', 100.0), ('n2', 88.0)], 'regressed', 'system', 'also on other nodes'),
        ([('n1', None), ('n2', None)], 'regressed', '', 'no rerun has a number of it'),
    ],
)
def test_the_median_of_three_decides_and_other_nodes_tell_node_from_system(work, reruns, verdict, where, says):
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
        assert (row['verdict'], row['where']) == (verdict, where)
        assert document['exit_code'] == int(verdict == 'regressed')
        if better == 'higher':
            assert says in row['cause']
            assert work.run('report', session, *words).exit_code == 0
            assert says in (work.results / 'report.html').read_text()


def test_reruns_do_not_excuse_what_is_missing_and_must_be_of_the_site(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric()}), uuid='aaaa'))
    good = work.write(report(case(metrics={'triad': metric([100.0])}), uuid='bbbb'))
    assert work.compare('aaaa', '--rerun', good)['counts'] == {'missing': 1}
    other = work.write(report(case(metrics={'triad': metric([100.0])}, site='elsewhere'), uuid='cccc'))
    answer = work.run('compare', 'aaaa', '--rerun', other)
    assert answer.exit_code == 2 and 'is of site elsewhere' in answer.stderr


def test_the_interval_excludes_no_change_where_the_limit_does(work):
    limit = only(work.judge(case(metrics={'triad': metric([100.0])}), reference()))['limit']
    for uuid, factor in (('bbbb', 1.0001), ('cccc', 0.9999)):
        work.ingest(report(case(metrics={'triad': metric([factor * limit])}), uuid=uuid))
        row = only(work.compare(uuid))
        assert row['ratio'] == pytest.approx(factor * limit / 100)
        assert (row['ratio_high'] < 1) == (row['verdict'] == 'regressed') == (factor < 1)


def test_the_chances_of_all_metrics_together(work):
    names = [f'm{i}' for i in range(100)]
    work.reference(*(reference(metric=name) for name in names))
    values = dict.fromkeys(names, 100.0) | {'m0': 96.8, 'm1': 80.0}
    work.ingest(report(case(metrics={name: metric([value]) for name, value in values.items()})))
    document = work.compare()
    rows = {row['metric']: row for row in document['verdicts']}
    assert document['counts'] == {'regressed': 2, 'ok': 98}
    assert document['expected_false_flags'] == pytest.approx(1, rel=1e-3)  # 100 limits of 99 %
    s = math.sqrt(math.log1p(0.01**2) * 1.1)
    assert rows['m0']['p'] == pytest.approx(stats.t.sf(-math.log(0.968) / s, 9))
    assert rows['m0']['q'] > 0.05 > rows['m1']['q']
    assert rows['m2']['p'] == pytest.approx(0.5)
    summary = ' '.join(work.run('compare', '--summary').stdout.split())
    assert '2 of the 100 gated with a known spread; 1 expected by chance' in summary
    assert '1 stand among all' in summary


def test_coverage_counts_what_is_guarded_and_what_each_metric_would_notice(work):
    rows = [
        reference(metric='sure'), reference(metric='young', n='4'), reference(metric='wild', std='30'),
        reference(metric='steady', std='0'), reference(metric='gone', params='size=small'),
    ]  # fmt: skip
    work.reference(*rows)
    work.reference(reference(metric='far', kind='elsewhere', mode=''), file='published.csv')
    names = ('sure', 'young', 'wild', 'steady', 'far', 'new')
    metrics = {name: metric([100.0]) for name in names} | {'curve': metric([1.0]) | {'judged': False}}
    work.ingest(report(case(metrics=metrics), mode='quick'))
    result = work.run('compare', '--coverage', '--format', 'json')
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document['counts'] == {
        'gated': 2, 'provisional': 1, 'too_noisy': 1, 'elsewhere': 1, 'no_reference': 1, 'vanished': 1,
        'informational': 1,
    }  # fmt: skip
    found = {row['metric']: row for row in document['metrics']}
    assert found['sure']['detectable'] == pytest.approx(3.8, abs=0.1)
    assert (found['sure']['repeats'], found['steady']['repeats'], found['wild']['repeats']) == (1, 1, None)
    assert found['steady']['detectable'] == pytest.approx(2)
    assert document['metrics'][0]['standing'] == 'vanished'
    table = work.run('compare', '--coverage').stdout
    assert table.splitlines()[-1] == (
        '2 gated, 1 provisional, 1 too noisy, 1 elsewhere, 1 no reference, 1 vanished, 1 informational'
    )
    assert work.run('compare', '--coverage', '--format', 'csv').stdout.count('\n') == 1 + 8
    assert '| gated |' in work.run('compare', '--coverage', '--format', 'markdown').stdout


def test_a_metric_that_is_only_shown_is_judged_by_a_reference_that_names_it(work):
    metrics = {'at_8_bytes': metric([50.0]) | {'judged': False}, 'at_64_bytes': metric([50.0]) | {'judged': False}}
    work.reference(reference(metric='at_8_bytes', kind='published', mode=''), file='published.csv')
    work.ingest(report(case(metrics=metrics), uuid='aaaa'))
    assert work.verdicts() == {
        ('STREAM', 'size=big', 'at_8_bytes'): 'regressed', ('STREAM', 'size=big', 'at_64_bytes'): 'informational',
    }  # fmt: skip
    assert work.compare('aaaa', '--against', 'aaaa')['counts'] == {'informational': 2}
    assert work.compare('aaaa', 'aaaa')['counts'] == {'informational': 2}


def test_coverage_is_no_verdict(work):
    work.judge(case(metrics={'triad': metric([50.0])}), reference())
    assert work.run('compare', '--coverage').exit_code == 0

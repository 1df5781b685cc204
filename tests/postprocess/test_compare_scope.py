# SPDX-License-Identifier: BSD-3-Clause
"""What a session should have measured, and what of it has a reference."""

import json

import pytest
from run_reports import BEGAN, case, metric, only, record, reference, report

ABSENT = {'params': 'size=small'}
QUICK = {'mode': 'quick'}


@pytest.mark.parametrize(('row', 'session', 'missing'), [
    (ABSENT, QUICK, True), (ABSENT, {'mode': 'nightly'}, True), (ABSENT | {'mode': 'nightly'}, QUICK, False),
    (ABSENT | {'mode': ''}, {'mode': 'acceptance'}, False), (ABSENT, {}, False),
    (ABSENT, {'cmdline': 'reframe --mode=quick -r'}, True),
    (ABSENT, QUICK | {'cmdline': 'reframe -r -n STREAM'}, False),
    (ABSENT, QUICK | {'cmdline': 'reframe -r -c checks/memory -R'}, True),
    (ABSENT, QUICK | {'cmdline': 'reframe -r --distribute'}, False),
    (ABSENT | {'partition': 'gpu'}, QUICK | {'cmdline': 'reframe --system=cluster:cpu -r'}, False),
    (ABSENT | {'partition': 'gpu'}, QUICK | {'cmdline': 'reframe --system=cluster -r'}, True),
    ({'check': 'Other', 'params': '*'}, QUICK, True), ({'check': 'Other', 'params': '*'}, {}, False),
    ({'metric': 'copy'}, {}, True), ({'metric': 'copy', 'environ': 'other'}, {}, False),
    ({'metric': 'copy', 'environ': '*'}, {}, False), ({'metric': '*', 'params': '*'}, QUICK, False),
])  # fmt: skip
def test_which_references_a_session_should_have_met(work, row, session, missing):
    document = work.judge(case(metrics={'triad': metric([100.0])}), reference(**row), **session)
    found = [verdict for verdict in document['verdicts'] if verdict['verdict'] == 'missing']
    assert bool(found) == missing
    assert document['exit_code'] == int(missing)
    for one in found:
        assert one['cause'] and (one['value'], one['expected']) == (None, 100)


def test_a_published_row_is_missed_only_by_the_case_it_names(work):
    work.reference(
        reference(kind='published', params='size=small', mode='quick'), reference(kind='published', metric='copy'),
        file='published.csv',
    )  # fmt: skip
    work.ingest(report(case(metrics={'triad': metric([100.0])}), mode='quick'))
    assert work.verdicts() == {
        ('STREAM', 'size=big', 'copy'): 'missing', ('STREAM', 'size=big', 'triad'): 'no_reference',
    }  # fmt: skip


def test_a_published_number_is_judged_beside_the_baseline(work):
    work.reference(reference(kind='published', mean='200', mode=''), file='published.csv')
    row = only(work.judge(case(metrics={'triad': metric([100.0])}), reference()))
    assert (row['verdict'], row['reference_kind']) == ('regressed', 'published')  # the baseline is no excuse for it
    work.reference(reference(kind='published', mean='99', mode=''), file='published.csv')
    row = only(work.compare())
    assert (row['verdict'], row['reference_kind']) == ('ok', 'baseline')
    work.reference(reference(kind='published', mean='99', mode='', unit='MB/s'), file='published.csv')
    row = only(work.compare())
    assert row['verdict'] == 'failed' and 'the reference (published, ' in row['cause']


MEASURED = case(metrics={'triad': metric([100.0])})
FOREIGN = {key: value for key, value in case().items() if key != 'record'}
STACK = case('Stack', '-', fixture=True, result='fail', fail_phase='compile', fail_reason='no compiler')


@pytest.mark.parametrize(('content', 'options', 'problem'), [
    (report(MEASURED), {'expected': '2'}, '2 cases expected, 1 ran'),
    (report(MEASURED), {'expected': '1', 'problem': 'checks/x.py does not import'}, 'checks/x.py does not import'),
    (report(), {'site': 'cluster'}, 'no case ran'),
    (report(FOREIGN), {}, '1 case ran and nothing was measured that counts'),
    (report(MEASURED, STACK), {}, 'fixture Stack of cpu with system: failed in compile: no compiler'),
    (report(MEASURED, mode='weekly'), {}, "mode 'weekly' is none of quick, nightly, acceptance"),
])  # fmt: skip
def test_a_session_that_is_not_whole_fails_though_no_metric_does(work, content, options, problem):
    work.ingest(content, **options)
    document = work.compare()
    (told,) = document['problems']
    assert told.startswith(problem) and document['exit_code'] == 1
    assert document['counts'] in ({}, {'no_reference': 1})


def test_reruns_do_not_excuse_what_is_missing_and_must_be_of_the_site(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric()}), uuid='aaaa'))
    good = work.write(report(case(metrics={'triad': metric([100.0])}), uuid='bbbb'))
    assert work.compare('aaaa', '--rerun', good)['counts'] == {'missing': 1}
    other = work.write(report(case(metrics={'triad': metric([100.0])}, site='elsewhere'), uuid='cccc'))
    answer = work.run('compare', 'aaaa', '--rerun', other)
    assert answer.exit_code == 2 and 'is of site elsewhere' in answer.stderr


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
        'gated': 4, 'elsewhere': 1, 'no_reference': 1, 'vanished': 1, 'informational': 1,
    }  # fmt: skip
    found = {row['metric']: row for row in document['metrics']}
    assert 2 < found['steady']['detectable'] < found['sure']['detectable'] < found['young']['detectable'] < 20
    assert 50 < found['wild']['detectable'] <= 75
    assert document['metrics'][0]['standing'] == 'vanished'
    table = work.run('compare', '--coverage').stdout
    assert table.splitlines()[-1] == '4 gated, 1 elsewhere, 1 no reference, 1 vanished, 1 informational (not judged)'
    assert work.run('compare', '--coverage', '--format', 'csv').stdout.count('\n') == 1 + 8


def test_a_metric_that_its_check_judges_no_longer_has_lost_its_baseline(work):
    """Data within the caches would hide any loss of the memory."""

    def stream(value, judged):
        metrics = {f'm{i}': metric([value, 1.001 * value]) | {'judged': judged} for i in range(3)}
        return case(metrics=metrics, provenance={'size_cut': '1 MiB of 1 GiB'})

    work.ingest(report(stream(100.0, True), uuid='aaaa'))
    record(work)
    work.ingest(report(stream(400.0, False), uuid='bbbb', began=BEGAN + 86400))
    document = work.compare('bbbb')
    assert (document['counts'], document['exit_code']) == ({'missing': 3}, 1)
    assert 'judges it no longer' in document['verdicts'][0]['cause']
    assert [one['kind'] for one in document['incidents']] == ['CASE']
    assert work.compare('aaaa', 'bbbb')['counts'] == {'missing': 3}
    assert work.run('compare', '--coverage').exit_code == 1


def test_a_metric_that_is_only_shown_is_judged_by_a_reference_that_names_it(work):
    metrics = {'at_8_bytes': metric([50.0]) | {'judged': False}, 'at_64_bytes': metric([50.0]) | {'judged': False}}
    work.reference(reference(metric='at_8_bytes', kind='published', mode=''), file='published.csv')
    work.ingest(report(case(metrics=metrics), uuid='aaaa'))
    assert work.verdicts() == {
        ('STREAM', 'size=big', 'at_8_bytes'): 'regressed', ('STREAM', 'size=big', 'at_64_bytes'): 'informational',
    }  # fmt: skip
    work.ingest(report(case(metrics=metrics), uuid='bbbb', began=BEGAN + 86400))
    assert work.compare('aaaa', 'bbbb')['counts'] == {'informational': 2}


def test_coverage_is_no_verdict(work):
    work.judge(case(metrics={'triad': metric([50.0])}), reference())
    assert work.run('compare', '--coverage').exit_code == 0

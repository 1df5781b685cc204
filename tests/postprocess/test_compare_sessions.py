# SPDX-License-Identifier: BSD-3-Clause
"""Sessions compared with other sessions, and days with days."""

import json
import math
import random

import pytest
from run_reports import BEGAN, case, metric, on_nodes, only, reference, report
from scipy.stats import binomtest


def test_another_session_as_reference(work):
    before = {'triad': metric([100.0, 101.0, 99.0]), 'copy': metric([5.0, 5.1]), 'add': metric([1.0], invalid='no')}
    after = {'triad': metric([80.0]), 'add': metric([1.0])}
    work.ingest(report(case(metrics=before), uuid='aaaa'))
    work.ingest(report(case(metrics=after), uuid='bbbb', began=BEGAN + 60))
    work.reference(reference(mean='80'))
    assert work.verdicts()['STREAM', 'size=big', 'triad'] == 'ok'
    rows = {row['metric']: row for row in work.compare('aaaa', 'latest')['verdicts']}
    assert {name: row['verdict'] for name, row in rows.items()} == {
        'triad': 'regressed', 'copy': 'missing', 'add': 'no_reference',
    }  # fmt: skip


def test_zero_is_no_reference_and_a_number_that_became_zero_is_not_ok(work):
    work.ingest(report(case(metrics={'rate': metric([9.0])}), uuid='aaaa'))
    work.ingest(report(case(metrics={'rate': metric([0.0])}), uuid='bbbb', began=BEGAN + 60))
    work.ingest(report(case(metrics={'rate': metric([0.0])}), uuid='cccc', began=BEGAN + 120))
    assert only(work.compare('bbbb', 'cccc'))['verdict'] == 'no_reference'
    found = work.run('compare', 'aaaa', 'bbbb', '--summary')
    assert found.exit_code == 3 and 'cannot tell: 1 job against 0' in found.stdout


def night(value, uuid, day, nodes=('n1',), mode='quick', **metrics):
    """A session of the metric triad about `value`, or of `metrics`, on that day of January 2026."""
    metrics = {name: metric([0.999 * v, 1.001 * v]) for name, v in ({'triad': value} | metrics).items()}
    return report(case(metrics=metrics, nodes=nodes), uuid=uuid, mode=mode, began=1_767_261_600 + (day - 1) * 86400)


def test_two_jobs_are_compared_by_what_is_usual_for_such_metrics(work):
    work.ingest(night(100, 'aaaa', 1), night(80, 'bbbb', 2))
    row = only(work.compare('aaaa', 'bbbb'))
    assert (row['verdict'], row['n'], row['session']) == ('regressed', 1, 'bbbb')
    assert row['ratio'] == pytest.approx(0.8) and row['reference_source'] == 'session aaaa'
    assert 0 < row['loss_low'] < 20 < row['loss_high'] and 5 < row['detectable'] < 20
    assert row['limit_why'].endswith('1 job against 1')
    assert only(work.compare('bbbb', 'aaaa'))['verdict'] == 'improved'


@pytest.mark.parametrize(('before', 'after'), [
    ('aaaa', 'aaaa'), ('bbbb', 'latest'), ('2026-01-01..2026-01-02', 'aaaa'),
    ('2026-01-01..2026-01-02', '2026-01-02..2026-01-03'),
])  # fmt: skip
def test_a_session_is_not_compared_with_itself(work, before, after):
    """It always agrees with itself, so the comparison would be ok whatever changed."""
    work.ingest(night(100, 'aaaa', 1), night(80, 'bbbb', 2))
    refused = work.run('compare', before, after)
    assert refused.exit_code == 2 and 'before and after' in refused.stderr, refused.output


def test_every_job_of_a_session_counts_and_one_that_lost_its_number_fails(work):
    def jobs(uuid, day, *values):
        samples = [metric([value] if value else []) for value in values]
        *earlier, last = [case(metrics={'triad': one}, missing={'triad': 'no line'}) for one in samples]
        work.ingest(report(last, uuid=uuid, began=BEGAN + day * 86400, earlier_runs=[[run] for run in earlier]))

    jobs('aaaa', 0, 100, 101, 99)
    jobs('bbbb', 1, 94, 93, 95)
    jobs('cccc', 2, 100, 101, 0)
    row = only(work.compare('aaaa', 'bbbb'))
    assert (row['verdict'], row['n'], row['expected_n']) == ('regressed', 3, 3)
    assert row['limit_why'].endswith('3 jobs against 3')
    row = only(work.compare('aaaa', 'cccc'))
    assert (row['verdict'], row['cause']) == ('missing', 'no line')


def test_jobs_that_differ_too_much_for_their_number_tell_nothing(work):
    for number, value in enumerate((100, 155, 101, 150), 1):
        work.ingest(night(value, f'aaa{number}', 1 + number % 2))
    for number, value in enumerate((100, 140, 75, 135), 1):
        work.ingest(night(value, f'bbb{number}', 3 + number % 2))
    found = work.run('compare', '2026-01-01..2026-01-02', '2026-01-03..2026-01-04', '--summary')
    assert found.exit_code == 3 and 'INCONCLUSIVE: 1 warning' in found.stdout
    assert 'cannot tell: gain of' in ' '.join(found.stdout.split()) and 'compare more sessions' in found.stdout


def test_healthy_metrics_of_two_jobs_rarely_regress(work):
    rng = random.Random(3)
    for uuid, day in (('aaaa', 1), ('bbbb', 2)):
        # the trials of a job are much more alike than jobs are
        values = {f'm{i}': 100 * math.exp(rng.gauss(0, 0.02)) for i in range(200)}
        work.ingest(night(100, uuid, day, **values))
    assert work.compare('aaaa', 'bbbb')['counts'].get('regressed', 0) <= 3


def test_the_difference_between_nodes_does_not_hide_a_loss_on_all_of_them(work):
    speeds = {'n1': 100, 'n2': 60, 'n3': 150, 'n4': 90}
    for uuid, day, factor in (('aaaa', 1, 1.0), ('bbbb', 2, 0.93)):
        entries = on_nodes({node: factor * speed for node, speed in speeds.items()})
        work.ingest(report(*entries, uuid=uuid, began=BEGAN + day))
    row = only(work.compare('aaaa', 'bbbb'))
    assert (row['verdict'], row['ratio']) == ('regressed', pytest.approx(0.93))
    assert row['limit_why'].endswith('paired over 4 nodes')


def test_of_several_sessions_the_newest_may_not_fail_and_of_the_others_only_what_is_good_counts(work):
    failed = case(metrics={'triad': metric([50.0])}, result='fail', fail_phase='sanity', fail_reason='x')
    work.ingest(*(night(100 + day, f'a{day}', day) for day in (1, 2, 3)))
    work.ingest(night(102, 'b1', 4), report(failed, uuid='b2', began=1_767_261_600 + 4 * 86400), night(101, 'b3', 6))
    row = only(work.compare('2026-01-01..2026-01-03', '2026-01-04..2026-01-06'))
    assert (row['verdict'], row['n'], row['value']) == ('ok', 2, pytest.approx(101.5, abs=0.01))
    assert only(work.compare('2026-01-01..2026-01-03', '2026-01-04..2026-01-05'))['verdict'] == 'failed'


def test_a_metric_that_the_later_sessions_lack_is_missing(work):
    work.ingest(night(100, 'aaaa', 1, copy=50), night(100, 'bbbb', 2))
    document = work.compare('aaaa', 'bbbb')
    assert document['counts'] == {'missing': 1, 'ok': 1}
    rerun = work.reports / 'aaaa.json'
    assert work.run('compare', 'aaaa', 'bbbb', '--rerun', rerun).exit_code == 2
    assert work.run('compare', 'aaaa', '2025-01-01..2025-01-02').exit_code == 2


def test_beside_a_comparison_is_the_history_of_each_series(work):
    """Of 24 nights each level is the median of three, cut where a side begins: 0, 3, 5, 8, 11, 14, 17, 20, 23."""
    for i in range(24):
        gone = {'add': 1} if i < 20 else {}
        work.ingest(night((80 if i >= 14 else 100) + (5 if i == 12 else 0), f'a{i:03}', i + 1, **gone))
    document = work.compare('a005', 'a023')
    (row,) = (row for row in document['verdicts'] if row['metric'] == 'triad')
    assert row['history'] == [100, 100, 100, 100, 100, 80, 80, 80, 80]
    assert document['history'][:3] == [['a000', 'a002'], ['a003', 'a004'], ['a005', 'a007']]
    assert document['history'][-1] == ['a023', 'a023']
    (gone,) = (row for row in document['verdicts'] if row['metric'] == 'add')
    assert gone['history'] == [1] * 7 + [None] * 2
    assert 86 < row['limit'] < 90, 'the range is from 80 to what is as far above 100: 110 to 114, 4 of 6 steps to 100'
    assert '▅▅|▅▅▅▁▁▁|▁' in work.run('compare', 'a005', 'a023').stdout
    assert r'| ▅▅\|▅▅▅▁▁▁\|▁ |' in work.run('compare', 'a005', 'a023', '--format', 'markdown').stdout
    assert '80.0; 80.0; 80.0; 80.0' in work.run('compare', 'a005', 'a023', '--format', 'csv').stdout
    turned = work.compare('a023', 'a005')['verdicts']
    assert next(one for one in turned if one['metric'] == 'triad')['history'] == row['history']
    assert work.compare('a023')['history'] == [], 'of one session the page has the history'


def test_how_often_a_comparison_of_the_same_state_is_red(work):
    """Ten nights in five pairs, one of them with a loss; a night of another mode has no partner."""
    for number in range(10):
        work.ingest(night(100 + 0.1 * number if number != 7 else 60, f'{number}aaa', number + 1))
    work.ingest(night(10, 'bbbb', 3, mode='nightly'))
    found = json.loads(work.run('compare', '--same', '2026-01-01..2026-01-10', '--format', 'json').stdout)
    assert (found['pairs'], found['red']) == (5, 1)
    (pair,) = found['not_ok']
    assert (pair['before'], pair['after'], pair['worse']) == ('6aaa', '7aaa', 1) and 'triad' in pair['worst']
    shown = work.run('compare', '--same', '2026-01-01..2026-01-10')
    low, high = binomtest(1, 5).proportion_ci()
    assert shown.exit_code == 0
    assert f'1 of 5, 20 % (95 % interval {100 * low:.1f} to {100 * high:.1f} %)' in ' '.join(shown.stdout.split())
    for words in (['latest', '--same', '2026-01-01..2026-01-10', '--summary'], ['--same', '2026-01-01..2026-01-01']):
        assert work.run('compare', *words).exit_code == 2


def test_what_nodes_in_common_notice_is_not_said_of_one_of_them(work):
    """One of eight nodes loses 10 %, the mean of all hardly 1 %, which is below the floor."""
    for day in range(1, 7):
        slow = 0.9 if day > 3 else 1.0
        values = {f'n{number}': (100 + number) * (slow if number == 3 else 1.0) for number in range(8)}
        work.ingest(report(*on_nodes(values), uuid=f'{day:08}', began=1_767_261_600 + (day - 1) * 86400))
    said = work.run('compare', '2026-01-01..2026-01-03', '2026-01-04..2026-01-06', '--summary')
    assert said.exit_code == 0, said.output
    text = ' '.join(said.stdout.split())
    assert 'as a mean over its nodes; one slow node is named by `plumbline compare SESSION`' in text, text

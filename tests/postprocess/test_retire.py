# SPDX-License-Identifier: BSD-3-Clause
"""Metrics that are renamed or deleted: what `record propose` leaves out, and `record retire`."""

import json
import os
import shlex
from datetime import datetime

import pytest
from run_reports import BEGAN, DAY, SITE, case, metric, record, reference, report

from plumbline.references import read_references


def night(work, number, *names, value=100.0, entries=(), **fields):
    """Ingest a whole quick session: STREAM with metrics of these names, and further `entries`."""
    metrics = {name: metric([0.999 * value, 1.001 * value]) for name in names}
    content = report(
        case(metrics=metrics, **fields), *entries, uuid=f'{number:08x}', mode='quick', began=BEGAN + number * DAY
    )
    work.ingest(content)


def proposed(work, *words):
    """The names of the proposed rows, and the document."""
    document = json.loads(work.run('record propose', '--format', 'json', *words).stdout)
    return {row['metric'] for row in document['changes']}, document


def in_force(work, file='baseline.csv'):
    return {row.id.name for row in read_references(work.sites / SITE / file, 'baseline')}


def retire(work, *words, code=0):
    result = work.run('record retire', *words)
    assert result.exit_code == code, result.output
    return result


def test_a_case_that_failed_or_lost_a_number_tells_nothing_of_its_metrics(work):
    night(work, 0, 'copy', 'triad')
    night(work, 1, result='fail', fail_phase='sanity', fail_reason='exit code 1')
    metrics = {'copy': metric([100.0]), 'triad': metric([])}
    work.ingest(report(case(metrics=metrics), uuid='lost', mode='quick', began=BEGAN + 2 * DAY))
    names, document = proposed(work)
    assert names == {'copy', 'triad'} and document['ended'] == []


def test_a_row_that_is_missing_names_the_command_that_retires_it(work):
    for number in range(2):
        night(work, number, 'copy', 'triad')
    record(work)
    night(work, 2, 'copy', 'triad_bandwidth')
    document = work.compare()
    assert document['counts'] == {'missing': 1, 'ok': 1, 'no_reference': 1}
    (hint,) = [one for one in document['hints'] if 'record retire' in one]
    (incident,) = document['incidents']
    (step,) = [one for one in incident['next_steps'] if 'record retire' in one]
    options = f'--results {work.results} --site {SITE}'
    assert document['retire'] == "plumbline record retire 'STREAM triad' --why REASON"
    assert step == f'{document["retire"]} {options}'
    assert f"`plumbline record retire 'STREAM triad' --why REASON --results={work.results} --references=" in hint
    _, proposal = proposed(work)
    (ended,) = proposal['ended']
    assert ended.endswith(f'since session {2:08x}; retire its rows: {hint.partition("good: ")[2].rstrip(".")}')

    result = retire(work, shlex.split(step)[3], '--why', 'renamed; see the change')
    assert 'retired: cpu/system STREAM size=big triad: 100 GB/s, ' in result.stdout
    assert '1 row retired, 1 left' in result.stdout
    assert in_force(work) == {'copy'} and in_force(work, 'retired.csv') == {'triad'}
    path = work.sites / SITE / 'retired.csv'
    assert 'renamed, see the change' in path.read_text()
    path.write_text(path.read_text().replace('retired=', 'retired=about '))  # as a person may write it
    assert work.compare()['counts'] == {'ok': 1, 'no_reference': 1}
    assert set(record(work)) == in_force(work) == {'copy', 'triad_bandwidth'}


def test_an_incident_of_retired_rows_alone_is_over(work):
    for number in range(2):
        night(work, number, 'copy', 'triad')
    record(work)
    for number in (2, 3):
        night(work, number, 'copy')
        assert [one['state'] for one in work.compare()['incidents']] == ['open']
    retire(work, 'STREAM triad', '--why', 'renamed')
    document = work.compare()
    assert (document['exit_code'], [one['state'] for one in document['incidents']]) == (0, ['closed'])
    night(work, 4, 'copy')
    assert work.compare()['exit_code'] == 0 and not work.compare()['incidents']


def test_a_proposal_from_one_session_reads_back_to_the_last_that_measured_its_series(work, monkeypatch):
    """Each night is a portion of its own."""
    monkeypatch.setattr('postprocess.results.store._CASES_AT_ONCE', 0)
    for number in range(6):
        night(work, number, 'copy', *['triad'] * (number < 3))
    work.reference(reference(), reference(metric='copy'))
    (ended,) = proposed(work, 'latest')[1]['ended']
    assert ended.startswith(f'cpu/system STREAM size=big triad: no longer measured since session {3:08x};')


def test_what_is_retired_comes_back_only_by_sessions_after_that(work, monkeypatch):
    """A check that is deleted never does."""
    old = case(check='Old', metrics={'triad': metric([50.0])})
    for number in range(3):
        night(work, number, 'copy', 'triad', entries=[old])
    record(work)
    now = [None]
    monkeypatch.setattr('plumbline.clock.now', lambda: now[0])
    now[0] = datetime(2026, 11, 24, 0, 0)
    night(work, 3, 'copy', 'triad')
    assert work.compare()['counts'] == {'missing': 1, 'ok': 2}
    retire(work, 'Old', 'STREAM tri*', '--why', ' a; test')
    assert in_force(work) == {'copy'}
    assert '"retired 2026-11-24: a, test; ' in (work.sites / SITE / 'retired.csv').read_text()
    now[0] = datetime(2026, 11, 24, 12, 0)
    assert proposed(work)[0] == {'copy', 'triad'}, 'the session of 10:38 is after midnight'
    now[0] = datetime(2026, 11, 25, 0, 0)
    work.run('record accept')
    retire(work, 'STREAM triad', '--why', 'again')
    assert proposed(work)[0] == {'copy'}
    night(work, 4, 'copy', 'triad')
    now[0] = datetime(2050, 1, 1)
    assert work.compare()['counts'] == {'ok': 1, 'no_reference': 1}
    names, document = proposed(work)
    assert names == {'copy', 'triad'}
    (row,) = [row for row in document['changes'] if row['metric'] == 'triad']
    assert (row['change'], row['n']) == ('new', 1)


@pytest.mark.parametrize(('patterns', 'left'), [
    (['STREAM'], {'Osu'}), (['gpu/* STREAM *'], {'cpu', 'Osu'}), (['cpu/system STREAM size=big triad'], {'gpu', 'Osu'}),
    (['Osu latency bytes=8'], {'cpu', 'gpu'}), (['Os[tu]', 'gpu/*'], {'cpu'}), (['*'], set()),
])  # fmt: skip
def test_a_pattern_is_of_the_check_of_its_metric_or_of_the_series(work, patterns, left):
    rows = {
        'cpu': reference(), 'gpu': reference(partition='gpu'),
        'Osu': reference(check='Osu', params='-', metric='latency', dims='bytes=8', better='lower'),
    }  # fmt: skip
    work.reference(*rows.values())
    retire(work, *patterns, '--site', SITE, '--why', 'a test')
    kept = read_references(work.baseline, 'baseline')
    assert {'Osu' if row.id.check == 'Osu' else row.id.partition for row in kept} == left


@pytest.mark.parametrize(('words', 'says'), [
    (('STREAM', 'Nosuch', '--why', 'x'), "'Nosuch' selects none of its 2 rows"),
    (('STREAM', '--why', ' '), '--why: expected a reason'),
])  # fmt: skip
def test_what_cannot_be_retired_changes_nothing(work, words, says):
    work.reference(reference(), reference(metric='copy'))
    before = work.baseline.read_bytes()
    assert says in retire(work, *words, '--site', SITE, code=2).stderr
    assert work.baseline.read_bytes() == before and not (work.sites / SITE / 'retired.csv').exists()


def test_a_proposal_that_waits_loses_what_is_retired(work):
    night(work, 0, 'copy', 'triad')
    record(work)
    work.run('record propose')
    assert 'the proposal that waits lost 1 row, too' in retire(work, 'STREAM triad', '--why', 'x').stdout
    work.run('record accept')
    assert in_force(work) == {'copy'}


def test_what_a_killed_command_left_beside_a_baseline_is_removed(work):
    """Only a file of its own form, and only after an hour, in which its writer would have ended."""
    night(work, 0, 'copy', 'triad')
    work.run('record propose')
    names = '.baseline.csv.new.host.7.abcd', '.baseline.csv.new.host.8.abcd', '.baseline.csv.old', 'baseline.csv.new.x'
    for name in names:
        (work.sites / SITE / name).write_text('half')
        os.utime(work.sites / SITE / name, (BEGAN, BEGAN))
    os.utime(work.sites / SITE / names[1])
    assert work.run('record accept').exit_code == 0
    assert [name for name in names if (work.sites / SITE / name).exists()] == list(names[1:])
    os.utime(work.sites / SITE / names[1], (BEGAN, BEGAN))
    retire(work, 'STREAM copy', '--why', 'gone')
    assert [name for name in names if (work.sites / SITE / name).exists()] == list(names[2:])


def test_a_row_that_left_the_baseline_otherwise_is_a_problem_of_each_night(work):
    """A merge loses the row of a metric that is 50 % slower: no night is green, and no advice records the slow one."""
    for number in range(3):
        night(work, number, 'copy', 'triad')
    record(work)
    assert work.run('compare').exit_code == 0
    whole = work.baseline.read_text()
    work.baseline.write_text(''.join(line for line in whole.splitlines(True) if ',triad,' not in line))
    for number in (3, 4):
        slow = case(metrics={'copy': metric([99.9, 100.1]), 'triad': metric([49.9, 50.1])})
        work.ingest(report(slow, uuid=f'{number:08x}', mode='quick', began=BEGAN + number * DAY))
        red = work.run('compare')
        assert red.exit_code == 1 and 'lacks 1 row' in red.stdout, red.output
        assert ': cpu/system STREAM size=big triad; restore the file' in ' '.join(red.stdout.split())
        assert work.run('status').exit_code == 1
    document = json.loads(work.run('record propose', '--format', 'json', 'latest').stdout)
    (withheld,) = document['withheld']  # the slow level beside the row that was lost
    assert 'triad' in withheld, withheld
    work.baseline.write_text(whole)
    again = work.run('compare')
    assert 'lacks 1 row' not in again.stdout and 'regressed' in again.stdout, again.output
    retire(work, 'STREAM triad', '--why', 'not needed')
    assert 'lacks' not in work.run('compare').stdout


def test_a_row_that_nothing_ever_measured_is_none_that_is_lost(work):
    """A name is misspelled by hand, judged, and put right again: the row of the misspelled name is forgotten."""
    for number in range(3):
        night(work, number, 'copy', 'triad')
    record(work)
    assert work.run('compare').exit_code == 0
    whole = work.baseline.read_text()
    work.baseline.write_text(whole.replace(',triad,', ',triadd,'))
    misspelled = work.run('compare')
    assert misspelled.exit_code == 1 and 'lacks 1 row' in misspelled.stdout, misspelled.output
    work.baseline.write_text(whole)
    for number in (3, 4):
        right = work.run('compare')
        assert right.exit_code == 0 and 'lacks' not in right.stdout, right.output
        night(work, number, 'copy', 'triad')
    assert 'triadd' not in (work.results / 'judged' / f'{SITE}.csv').read_text()

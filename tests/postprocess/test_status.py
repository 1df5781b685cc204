# SPDX-License-Identifier: BSD-3-Clause
"""Where a site stands, and what a person has to do next, from its first session to a red one."""

import fcntl
import json
import re

from commands import run_command
from run_reports import BEGAN, SITE, case, metric, nights, record, reference, report

NAMES = 'copy', 'triad'


def night(work, number, value=100.0, **fields):
    nights(work, [dict.fromkeys(NAMES, value)], first=number, **fields)


def status(work, code=0):
    """What stands behind each word, with every run of blanks one blank."""
    answer = work.run('status', '--site', SITE)
    assert answer.exit_code == code, answer.output
    lines = answer.stdout.splitlines()
    assert len(lines) <= 15
    return {what: ' '.join(text.split()) for what, text in re.findall(r'^(\w+) +(.*(?:\n +.*)*)', answer.stdout, re.M)}


def test_the_first_week_always_says_what_to_do_next(work):
    assert f'`ci/nightly --site {SITE}`' in status(work)['next']
    night(work, 0)
    first = status(work)
    assert first['baseline'] == 'none' and 'no reference' in first['coverage']
    assert '`plumbline record propose --results=' in first['next']
    work.run('record propose')
    assert '`plumbline record accept ' in status(work)['next']
    work.run('record accept')
    assert status(work)['next'] == '1 of 3 sessions for narrow limits; nothing to do'
    night(work, 1, 100.1)
    second = status(work)
    assert second['session'].startswith('2026-11-22 10:38 UTC, quick,') and '2 sessions so far' in second['session']
    assert second['baseline'].startswith('2 rows of 1 session, recorded 2026-11-21')
    assert second['next'].startswith('2 of 3 sessions')
    night(work, 2, 99.9)
    assert '3 of 3 sessions for narrow limits: `plumbline record propose ' in status(work)['next']
    record(work)
    assert re.fullmatch(r'3 of \d+ sessions for narrow limits; nothing to do', status(work)['next'])
    night(work, 3, 40.0)
    red = status(work, code=1)
    assert red['incidents'] == '1 open' and red['verdicts'] == '2 regressed'
    assert re.match(r'1 incident open: `plumbline incidents show [0-9a-f]{6} --results ', red['next'])


def test_busy_sessions_are_no_baseline_and_need_a_look(work):
    busy = {'load_beside': '3.20'}
    night(work, 0, provenance=busy)
    assert (
        '1 case ran on busy nodes: measure again while they are quiet; then `plumbline record propose'
        in status(work)['next']
    )
    night(work, 1)
    assert 'if the machine is as it should be' in status(work)['next']
    night(work, 2)
    record(work)
    entry = case(metrics={name: metric([100.0]) for name in NAMES}, provenance=busy)
    twice = report(entry, uuid='twice', mode='quick', began=BEGAN + 3 * 86400, earlier_runs=[[entry]])
    work.ingest(twice)
    assert status(work)['next'].startswith('1 case ran on busy nodes: `plumbline compare --summary')


def test_a_selection_of_checks_is_no_session_for_a_baseline(work):
    night(work, 0)
    record(work)
    entry = case(metrics={name: metric([100.0]) for name in NAMES})
    content = report(entry, uuid='narrow', mode='quick', began=BEGAN + 86400)
    content['session_info']['plumbline_narrowed_by'] = '["name=STREAM"]'
    work.ingest(content)
    assert status(work)['next'].startswith('1 of 3 sessions')
    assert 'narrowed by name=STREAM, against' in ' '.join(work.run('compare', '--summary').stdout.split())


def test_a_session_with_nothing_to_record_is_no_session_for_a_baseline(work):
    """Its case failed, lost a number, or ran beside other work: `record propose` would take nothing of it."""
    night(work, 0)
    record(work)
    failed = case(result='fail', fail_phase='sanity', fail_reason='exit code 1')
    lost = case(metrics=dict.fromkeys(NAMES, metric([])))
    busy = case(metrics=dict.fromkeys(NAMES, metric([100.0])), provenance={'load_beside': '3.20'})
    for number, entry in enumerate((failed, lost, busy), 1):
        work.ingest(report(entry, uuid=f'{number:08x}', mode='quick', began=BEGAN + number * 86400))
        work.run('compare')
    night(work, 4)
    for incident in work.compare()['incidents']:
        work.run('incidents close', incident['id'], '--why', 'repaired')
    assert status(work)['next'] == '2 of 3 sessions for narrow limits; nothing to do'
    night(work, 5)
    assert status(work)['next'].startswith('3 of 3 sessions for narrow limits: `plumbline record propose ')
    assert work.run('record propose').exit_code == 0


def test_a_baseline_that_holds_less_than_half_is_to_be_recorded_again(work):
    work.reference(reference(metric='triad'))
    metrics = {name: metric([100.0]) for name in ('copy', 'scale', 'triad')}
    work.ingest(report(case(metrics=metrics), mode='quick'))
    assert status(work)['next'].startswith('Only 1 of 3 metrics have a reference: `plumbline record propose ')


def test_a_stack_that_is_not_installed_is_named_with_its_command(tmp_path):
    environment = {'PLUMBLINE_SOFTWARE': str(tmp_path), 'PLUMBLINE_RESULTS': str(tmp_path)}
    answer = run_command(['status', '--site', 'marenostrum5'], env=environment)
    assert 'cpu of ' in answer.stdout and 'not installed' in answer.stdout
    assert '`ci/provision --site marenostrum5`' in answer.stdout


def test_each_site_of_a_store_has_its_block_and_the_worst_is_the_exit_code(work):
    other = work.sites / 'other'
    other.mkdir()
    (other / 'site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text().replace('login', 'front'))
    work.reference(reference())
    for name, uuid in ((SITE, 'aaaa'), ('other', 'bbbb')):
        work.ingest(report(case(metrics={'triad': metric([50.0])}, site=name), uuid=uuid, mode='quick'))
    answer = work.run('status')
    first, second = answer.stdout.split('\n\n')
    assert answer.exit_code == 1 and answer.stderr == ''
    assert re.match(f'site +{SITE}: ', first) and re.search('incidents +1 open', first)
    assert re.match('site +other: ', second) and 'there is no baseline yet' in second and '--site=other' in second
    assert work.run('status', '--site', 'other').stdout == second
    answer = work.run('status', '--site', 'nosuch')
    assert (answer.exit_code, answer.stdout) == (2, '') and f"no site 'nosuch'; it has {SITE}, other" in answer.stderr

    (other / 'site.yaml').write_text('partitions: 3\n')
    answer = work.run('status')
    assert answer.exit_code == 2 and str(other / 'site.yaml') in answer.stderr
    assert re.search('incidents +1 open', answer.stdout), 'the other site is told all the same'


def begun(work, ended):
    """What `ci/nightly` keeps of a session of three cases while it measures."""
    (work.results / 'logs').mkdir(parents=True, exist_ok=True)
    (work.results / 'logs/20261122T010203Z.journal').write_text('{}\n' * ended)
    (work.results / 'nightly.lock').touch()
    unfinished = {'command': ['reframe', f'--system={SITE}'], 'stamp': '20261122T010203Z', 'expected': 3}
    (work.results / 'nightly-unfinished.json').write_text(json.dumps(unfinished | {'started': BEGAN}))


def test_a_session_that_runs_or_was_killed_is_told(work):
    begun(work, 2)
    with (work.results / 'nightly.lock').open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = status(work)
        assert 'measures now' in found['now'] and '2 of 3 cases' in found['now']
        assert 'next' not in found, 'it is measured for the first time already'
    found = status(work, code=1)
    assert 'ended after 2 of 3 cases: the same command goes on' in found['now']
    night(work, 0)
    assert {'now', 'next', 'session'} <= set(status(work, code=1))
    path = work.results / 'nightly-unfinished.json'
    whole = path.read_text()
    for other in (whole.replace(SITE, 'other'), whole[:20]):
        path.write_text(other)
        assert 'now' not in status(work), 'it is of another site, or was cut'

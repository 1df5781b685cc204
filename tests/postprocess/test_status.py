"""Where a site stands, and what a person has to do next, from its first session to a red one."""

import re

from run_reports import BEGAN, SITE, case, metric, reference, report
from typer.testing import CliRunner

from postprocess.cli import app


def night(work, number, value=100.0, **fields):
    entry = case(metrics={name: metric([value, value * 1.001]) for name in ('copy', 'triad')}, **fields)
    work.ingest(report(entry, uuid=f'night{number:02}', mode='quick', began=BEGAN + number * 86400), expected=1)


def status(work, code=0):
    """What stands behind each word, with every run of blanks one blank."""
    answer = work.run('status', '--site', SITE)
    assert answer.exit_code == code, answer.output
    lines = answer.stdout.splitlines()
    assert len(lines) <= 15
    return {what: ' '.join(text.split()) for what, text in re.findall(r'^(\w+) +(.*(?:\n +.*)*)', answer.stdout, re.M)}


def test_the_first_week_always_says_what_to_do_next(work):
    assert status(work)['next'] == f'measure for the first time: `ci/nightly --site {SITE}`'
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
    assert second['session'].startswith('2026-11-22 10:38 UTC, quick,') and '1 of 1 case; 2 in all' in second['session']
    assert second['baseline'].startswith('2 rows of 1 session, recorded 2026-11-21')
    assert second['next'] == '2 of 3 sessions for narrow limits; nothing to do'
    night(work, 2, 99.9)
    assert '3 of 3 sessions for narrow limits: `plumbline record propose ' in status(work)['next']
    work.run('record propose')
    work.run('record accept')
    wanted = status(work)['next']
    assert re.fullmatch(r'3 of \d+ sessions for narrow limits; nothing to do', wanted)
    night(work, 3, 40.0)
    red = status(work, code=1)
    assert red['incidents'] == '1 open' and red['verdicts'] == '2 regressed'
    assert re.match(r'1 incident open: `plumbline incidents show [0-9a-f]{6} --results ', red['next'])


def test_busy_sessions_alone_are_no_baseline(work):
    night(work, 0, provenance={'load_beside': '3.20'})
    assert '1 case ran on busy nodes: run `ci/nightly` again while they are quiet' in status(work)['next']
    night(work, 1)
    assert 'if the machine is as it should be' in status(work)['next']


def test_a_selection_of_checks_is_no_session_for_a_baseline(work):
    night(work, 0)
    work.run('record propose')
    work.run('record accept')
    entry = case(metrics={name: metric([100.0]) for name in ('copy', 'triad')})
    content = report(entry, uuid='narrow', mode='quick', began=BEGAN + 86400)
    content['session_info']['plumbline_narrowed_by'] = '["name=STREAM"]'
    work.ingest(content)
    assert status(work)['next'].startswith('1 of 3 sessions')
    assert 'narrowed by name=STREAM, against' in ' '.join(work.run('compare', '--summary').stdout.split())


def test_a_baseline_of_another_store_counts_from_its_day(work):
    work.reference(*(reference(metric=name, n=1, std='', recorded_at='2026-11-21') for name in ('copy', 'triad')))
    for number in range(2):
        night(work, number)
    assert status(work)['next'].startswith('2 of ')


def test_a_baseline_that_holds_less_than_half_is_to_be_recorded_again(work):
    work.reference(reference(metric='triad'))
    metrics = {name: metric([100.0]) for name in ('copy', 'scale', 'triad')}
    work.ingest(report(case(metrics=metrics), mode='quick'))
    assert status(work)['next'].startswith('Only 1 of 3 metrics have a reference: `plumbline record propose ')


def test_a_stack_that_is_not_installed_is_named_with_its_command(tmp_path):
    environment = {'PLUMBLINE_SOFTWARE': str(tmp_path), 'PLUMBLINE_RESULTS': str(tmp_path)}
    answer = CliRunner().invoke(app, ['status', '--site', 'marenostrum5'], env=environment)
    assert 'cpu of ' in answer.stdout and 'not installed' in answer.stdout
    assert '`ci/provision --site marenostrum5`' in answer.stdout


def test_a_check_that_changed_since_its_baseline_is_named(work):
    night(work, 0, provenance={'check_code': 'aaaa'})
    work.run('record propose')
    work.run('record accept')
    night(work, 1, provenance={'check_code': 'aaaa'})
    assert 'code' not in status(work)['next']
    night(work, 2, provenance={'check_code': 'bbbb'})
    said = status(work)['next']
    assert said.startswith('Since the baseline was recorded, the code of STREAM has changed') and '--epoch' in said
    assert 'the code of STREAM has changed' in ' '.join(work.run('compare', '--summary').stdout.split())

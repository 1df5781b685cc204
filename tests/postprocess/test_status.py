# SPDX-License-Identifier: BSD-3-Clause
"""Where a site stands, and what a person has to do next, from its first session to a red one."""

import fcntl
import json
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
    assert (
        second['session'].startswith('2026-11-22 10:38 UTC, quick,')
        and '1 of 1 case; 2 sessions so far' in second['session']
    )
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


def test_a_case_that_ran_twice_on_busy_nodes_is_one_case(work):
    entry = case(metrics={'triad': metric([1.0, 1.1])}, provenance={'load_beside': '3.20'})
    work.ingest(report(entry, uuid='twice', mode='quick', earlier_runs=[[entry]]))
    assert '1 case ran on busy nodes; ' in work.run('compare', '--summary').output
    assert '1 case ran on busy nodes: ' in status(work)['next']


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


def test_each_site_of_a_store_has_its_block_and_the_worst_is_the_exit_code(work):
    other = work.sites / 'other'
    other.mkdir()
    (other / 'site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text().replace('login', 'front'))
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([50.0])}), mode='quick'))
    work.ingest(report(case(metrics={'triad': metric([50.0])}, site='other'), uuid='bbbb', mode='quick'))
    answer = work.run('status')
    first, second = answer.stdout.split('\n\n')
    assert answer.exit_code == 1 and answer.stderr == ''
    assert re.match(f'site +{SITE}: ', first) and re.search('incidents +1 open', first)
    assert re.match('site +other: ', second) and re.search(
        r'next +there is no baseline yet;.*--site=other', second, re.S
    )
    assert work.run('status', '--site', 'other').stdout == second

    (other / 'site.yaml').write_text('partitions: 3\n')
    answer = work.run('status')
    assert answer.exit_code == 2 and str(other / 'site.yaml') in answer.stderr
    assert re.search('incidents +1 open', answer.stdout)
    # also where the broken site is the first one, and the others are not
    (other / 'site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text())
    first = work.sites / 'about'
    first.mkdir()
    (first / 'site.yaml').write_text('partitions: 3\n')
    work.ingest(report(case(metrics={'triad': metric([50.0])}, site='about'), uuid='cccc', mode='quick'))
    assert work.run('status').exit_code == 2


def test_a_site_that_is_not_there_is_answered_with_those_that_are(work):
    (work.sites / 'other').mkdir()
    (work.sites / 'other/site.yaml').write_text((work.sites / SITE / 'site.yaml').read_text())
    answer = work.run('status', '--site', 'nosuch')
    assert (answer.exit_code, answer.stdout) == (2, '')
    assert answer.stderr == f"plumbline: {work.sites}: has no site 'nosuch'; it has {SITE}, other\n"


def test_what_has_no_reference_while_others_have_is_told_by_its_place(work):
    names = [f'm{i}' for i in range(10)]
    work.reference(*(reference(metric=name) for name in names))
    metrics = {name: metric([100.0]) for name in names}

    def said(*entries):
        work.ingest(report(case(metrics=metrics), *entries, uuid=f'{said.number:08x}', began=BEGAN + said.number))
        said.number += 1
        return status(work)['next']

    said.number = 1
    few = {name: metric([100.0]) for name in names[:2]}
    assert 'No reference' not in said()
    then = 'If they are as they should be: `plumbline record propose '
    assert said(case(partition='gpu', metrics=few)).startswith(f'No reference yet: partition gpu (2 metrics). {then}')
    assert said(case(stack='other', metrics=few)).startswith(
        f'No reference yet: environ other of partition cpu (2 metrics). {then}'
    )
    assert said(case(check='New', metrics=few)).startswith(
        f'No reference yet: New with environ system of partition cpu (2 metrics). {then}'
    )
    assert work.run('compare').stdout.rstrip().endswith('OK: 10 ok, 2 no reference')


def test_gains_after_an_upgrade_are_told_with_what_changed(work):
    names = ('copy', 'triad', 'add', 'scale')

    def measure(number, value, kernel):
        entry = case(metrics={name: metric([value, value * 1.001]) for name in names}, provenance={'kernel': kernel})
        work.ingest(report(entry, uuid=f'night{number}', mode='quick', began=BEGAN + number * 86400))
        return [hint for hint in work.compare()['hints'] if 'better than' in hint]

    for number in range(3):
        measure(number, 100.0, '6.1')
    work.run('record propose')
    work.run('record accept')
    assert measure(3, 100.2, '6.2') == []
    (hint,) = measure(4, 130.0, '6.2')
    assert hint.startswith(
        '4 of 4 metrics are better than their references since kernel 6.1 -> 6.2: if that is to stay'
    )
    assert '`plumbline record propose --epoch WHAT_CHANGED' in hint


def test_a_first_night_whose_cases_failed_is_not_proposed_as_a_baseline(work):
    bad = case(check='Bad', metrics={'rate': metric([])}, result='fail', fail_phase='sanity', fail_reason='no output')
    work.ingest(report(case(), bad, uuid='first', mode='quick'), problem=None)
    (hint,) = work.compare()['hints']
    assert hint.startswith('There is no baseline yet, and 1 of 2 cases of this session failed or did not end: repair')
    assert 'as it should be' not in hint


def test_one_case_of_many_that_failed_or_passed_when_it_ran_again_does_not_stop_a_baseline(work):
    good = [case(check=f'Good{i}', metrics={'rate': metric([100.0])}) for i in range(3)]
    bad = case(check='Bad', metrics={'rate': metric([])}, result='fail', fail_phase='sanity', fail_reason='no output')
    content = report(*good, bad, uuid='first', mode='quick')
    work.ingest(content, problem=None)
    (hint,) = work.compare()['hints']
    said = '1 of 4 cases of this session failed or did not end and will not be in it.'
    assert 'record accept' in hint and hint.endswith(said)
    again = case(check='Bad', metrics={'rate': metric([100.0])})
    work.ingest(content | {'runs': [*content['runs'], {'run_index': 1, 'testcases': [again]}]})
    (hint,) = work.compare()['hints']
    assert 'record accept' in hint and 'failed' not in hint


def test_a_session_that_needs_a_look_is_not_nothing_to_do(work):
    for number in range(3):
        night(work, number)
    work.run('record propose')
    work.run('record accept')
    night(work, 3, provenance={'load_beside': '3.20'})
    assert status(work)['next'].startswith('1 case ran on busy nodes: `plumbline compare --summary')


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
        assert found['now'] == 'a session of 2026-11-21 10:38 UTC measures now; 2 of 3 cases have ended'
        assert 'next' not in found, 'it is measured for the first time already'
    found = status(work, code=1)
    assert 'ended after 2 of 3 cases: `ci/nightly` goes on with it or stores it' in found['now']
    night(work, 0)
    assert {'now', 'next', 'session'} <= set(status(work, code=1))
    (work.results / 'nightly-unfinished.json').unlink()
    assert 'now' not in status(work)


def test_a_session_of_another_site_or_a_file_that_was_cut_is_not_told(work):
    night(work, 0)
    begun(work, 2)
    path = work.results / 'nightly-unfinished.json'
    path.write_text(path.read_text().replace(SITE, 'other'))
    assert 'now' not in status(work)
    path.write_text(path.read_text()[:20])
    assert 'now' not in status(work)

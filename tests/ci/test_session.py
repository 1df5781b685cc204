"""What is kept of a session that did not come to its own end, and how one that hangs is ended."""

import json
import os
import subprocess
import sys
import time

import pytest

from ci import session as module
from ci.session import Run, Session, add_second_run, case_of, end_processes, failed, only, read_journal


def case(name: str, result: str = 'pass', **more) -> dict:
    known = {
        'unique_name': name, 'display_name': name, 'hashcode': f'hash-{name}', 'system': 's', 'partition': 'p',
        'environ': 'e', 'result': result, 'fixture': '~' in name, 'fail_phase': 'sanity' if result == 'fail' else None,
        'fail_reason': 'a reason' if result == 'fail' else None, 'job_nodelist': ['n1'],
        'record': {'job': {'nodes': ['n1']}},
    }  # fmt: skip
    return known | more


@pytest.fixture
def session(tmp_path):
    for folder in ('logs', 'reports'):
        (tmp_path / folder).mkdir()
    return Session.new(tmp_path, 's', 'quick', ['reframe', '-n', 'two words'], 2)


def write_journal(session, *cases: dict, cut: str = ''):
    session.journal.write_text(''.join(json.dumps(one) + '\n' for one in cases) + cut)


def test_a_journal_is_read_up_to_the_line_that_a_full_disk_cut(session):
    write_journal(session, case('a'), case('b ~s:p+e'), cut='{"unique_name": "c", "resu')
    found = read_journal(session.journal)
    assert [(one['display_name'], one['fixture']) for one in found] == [('a', False), ('b ~s:p+e', True)]
    assert read_journal(session.journal.with_name('nosuch')) == []


def test_without_a_report_the_journal_is_one(session):
    write_journal(session, case('a'))
    content = session.content()
    assert content['session_info']['cmdline'] == "reframe -n 'two words'"
    assert content['session_info']['time_end_unix'] >= content['session_info']['time_start_unix']
    assert [one['display_name'] for one in content['runs'][0]['testcases']] == ['a']


def test_a_report_counts_before_the_journal_and_the_journal_before_an_abort(session):
    info = {'uuid': 'u', 'time_start_unix': 1}
    run = {'run_index': 0, 'testcases': [case('a', 'fail'), case('b', 'abort'), case('c', 'abort')]}
    session.report.write_text(json.dumps({'session_info': info, 'runs': [run]}))
    write_journal(session, case('a'), case('b'), case('earlier'))
    found = {one['display_name']: one['result'] for one in session.content()['runs'][0]['testcases']}
    assert found == {'a': 'fail', 'b': 'pass', 'earlier': 'pass', 'c': 'abort'}


def test_a_session_is_remembered_until_it_is_forgotten(session, tmp_path):
    assert Session.remembered(tmp_path) is None
    session.remember()
    assert Session.remembered(tmp_path) == session
    (tmp_path / module.UNFINISHED).write_text('{"cut')
    assert Session.remembered(tmp_path) is None
    session.forget()
    assert not (tmp_path / module.UNFINISHED).exists()


def test_no_session_takes_the_files_of_another(session, tmp_path, monkeypatch):
    """Such as one of the same second, before the clock was set back."""
    session.log.touch()
    stamps = [session.stamp, session.stamp, '20260102T030405Z']
    monkeypatch.setattr(module, 'stamp_now', lambda: stamps.pop(0))
    assert Session.new(tmp_path, 's', 'quick', [], 0).stamp == '20260102T030405Z'


def test_cases_of_distribute_are_selected_after_it_made_them():
    cases = [('1a', 's:p+e'), ('1a', 's:p+f'), ('2b', 's:p+e')]
    assert only(cases, ['reframe', '-n', 'X']) == (['-n/1a', '-n/2b'], {})
    for word in ('--distribute', '--distribute=idle'):
        assert only(cases, ['reframe', word]) == (['--distribute=all'], {'PLUMBLINE_CASES': '1a 2b'})


def test_what_ran_again_keeps_its_first_failure():
    slow = case('slow', 'fail', fail_phase='performance')
    content = {'runs': [{'testcases': [case('a', 'fail'), slow, case('x ~f')]}]}
    wanted = [case_of(one) for one in failed(content)]
    assert wanted == [('hash-a', 's:p+e')], 'a value beyond its limit is no failure to measure'
    again = {'runs': [{'testcases': [case('a'), case('slow')]}]}
    (sentence,) = add_second_run(content, again, wanted)
    assert sentence == 'a: passed when it ran again; at first it failed on n1: a reason'
    (added,) = content['runs'][1]['testcases']
    assert added['record']['provenance'] == {'first_failure': 'failed on n1: a reason'}
    assert failed(content) == []


def test_a_reframe_that_does_not_end_is_ended(session, monkeypatch):
    """Neither on an interrupt nor when told: a grandchild that ignores both goes, too."""
    monkeypatch.setattr(module, 'GRACE', 1.0)
    stubborn = 'trap "" INT TERM; (while :; do sleep 0.1; done) & echo started; while :; do sleep 0.1; done'
    run = Run(['bash', '-c', stubborn], session, time.monotonic() + 0.5, {})
    began = time.monotonic()
    assert run.wait() == -9
    assert time.monotonic() - began < 10
    assert run.ended_by == 'the time budget is used up'
    assert not run.may_go_on
    assert end_processes(session.results) == 0, 'something was left running'


def test_only_processes_of_these_results_are_ended(tmp_path):
    environment = os.environ | {module.SESSION_VARIABLE: str(tmp_path / 'mine')}
    mine = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], env=environment)
    other = subprocess.Popen(['sleep', '60'], env=environment | {module.SESSION_VARIABLE: str(tmp_path / 'mine2')})
    try:
        assert end_processes(tmp_path / 'mine') == 1
        assert mine.wait() == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()

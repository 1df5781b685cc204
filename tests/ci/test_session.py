# SPDX-License-Identifier: BSD-3-Clause
"""A session: its command line, what is kept where it did not come to its own end, how one that hangs is ended."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row
from stand_ins import ReFrame, Slurm

from ci import planned
from ci import process as of_process
from ci import session as module
from ci.cases import add_runs, case_of, cut_short, failed
from ci.no_case import lacking
from ci.process import Ended, Process, end_processes, owner_of
from ci.progress import Progress, Seconds
from ci.session import CaseSelection, PlannedSession
from plumbline import settings
from plumbline.errors import InputError
from postprocess.history.unfinished import unfinished

WORDS = ('-n', 'two words')


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
    return PlannedSession.new(tmp_path, CaseSelection('s', 'quick', WORDS, ('node_sweep',)), 2)


def write_journal(session, *cases: dict, cut: str = ''):
    session.journal.write_text(''.join(json.dumps(one) + '\n' for one in cases) + cut)


def names(content: dict) -> list[str]:
    return [one['display_name'] for one in content['runs'][0]['testcases']]


def test_without_a_report_the_journal_is_one_up_to_the_line_that_a_full_disk_cut(session):
    assert session.done() == set()
    write_journal(session, case('a'), case('b ~s:p+e'), cut='{"unique_name": "c", "resu')
    content = session.content()
    assert names(content) == ['a', 'b ~s:p+e']
    assert content['session_info']['cmdline'].endswith("--system=s --mode=quick -n 'two words'")
    assert content['session_info']['time_end_unix'] >= content['session_info']['time_start_unix']
    assert session.done() == {('hash-a', 's:p+e')}, 'a fixture is no case'


def test_a_planned_session_is_resumed_with_its_own_cases_and_by_no_whole_night(session, tmp_path):
    whole = CaseSelection('s', 'quick', WORDS)
    narrowed = CaseSelection('s', 'quick', WORDS, ('minutes=5',))
    killed = PlannedSession.new(tmp_path, narrowed, 1)
    chosen = {('hash-a', 's:p+e')}
    planned.record(killed, chosen)
    killed.remember()
    found = PlannedSession.unfinished(tmp_path)
    assert found.can_resume(narrowed) and not found.can_resume(whole)
    assert not PlannedSession.new(tmp_path, whole, 2).can_resume(narrowed)
    assert planned.recorded(found) == chosen and planned.recorded(session) == set()
    assert json.loads(found.content()['session_info']['plumbline_narrowed_by'])[-1] == 'minutes=5'


def test_a_report_counts_before_the_journal_and_the_journal_before_an_abort(session):
    info = {'uuid': 'u', 'time_start_unix': 1}
    run = {'run_index': 0, 'testcases': [case('a', 'fail'), case('b', 'abort'), case('c', 'abort')]}
    session.report.write_text(json.dumps({'session_info': info, 'runs': [run]}))
    write_journal(session, case('a'), case('b'), case('earlier'))
    found = {one['display_name']: one['result'] for one in session.content()['runs'][0]['testcases']}
    assert found == {'a': 'fail', 'b': 'pass', 'earlier': 'pass', 'c': 'abort'}


def test_a_session_is_remembered_until_it_is_forgotten(session, tmp_path):
    assert PlannedSession.unfinished(tmp_path) is None
    session.remember()
    assert PlannedSession.unfinished(tmp_path) == session
    (tmp_path / module.UNFINISHED).write_text('{"cut')
    assert PlannedSession.unfinished(tmp_path) is None
    session.forget()
    assert not (tmp_path / module.UNFINISHED).exists()


def test_no_session_takes_the_files_of_another(session, tmp_path):
    """Such as one of the same second, before the clock was set back."""
    session.log.touch()
    assert PlannedSession.new(tmp_path, CaseSelection('s', 'quick'), 0).stamp != session.stamp


@pytest.fixture
def reframe(tmp_path, monkeypatch):
    (tmp_path / 'bin').mkdir()
    monkeypatch.setenv('PATH', f'{tmp_path / "bin"}:/usr/bin:/bin')
    found = ReFrame(tmp_path / 'bin')
    found.reports(case('a'))
    return found


def run(session, reframe, *args, **kwargs) -> tuple[list[str], dict[str, str]]:
    """Run the session; return the words of its ReFrame and its environment."""
    session.run(time.monotonic() + 60, *args, **kwargs)
    variables = (reframe.folder / 'environment').read_text().splitlines()
    return reframe.runs[-1].split(), dict(line.split('=', 1) for line in variables if '=' in line)


def test_the_run_report_says_what_was_selected(session):
    """As data, whatever ReFrame was started with: a resumed session selects the cases that are left."""
    info = {'uuid': 'u', 'time_start_unix': 1, 'cmdline': 'reframe -n/1a'}
    session.report.write_text(json.dumps({'session_info': info, 'runs': [{'run_index': 0, 'testcases': []}]}))
    found = session.content()['session_info']
    assert found['cmdline'] == 'reframe -n/1a', 'the recorded command line was edited'
    assert json.loads(found['plumbline_selection']) == ['mode=quick', 'system=s', 'name=two words']
    assert json.loads(found['plumbline_narrowed_by']) == ['--name', 'node_sweep']
    assert json.loads(CaseSelection('s', 'quick').recorded['plumbline_narrowed_by']) == []


@each_row('words', [('-p', 'e'), ('-pe',), ('--prgenv=e',), ('-n', 'A', '--prg', 'e')])
def test_environs_are_selected_without_the_option_mode_which_would_select_all(words):
    selection = CaseSelection('s', 'quick', words)
    options = ['--tag=quick', '--session-extras=plumbline_mode=quick', '--setvar=mode=quick', *words]
    assert selection.command[-len(options) :] == options and '--mode=quick' not in selection.command
    assert json.loads(selection.recorded['plumbline_selection'])[0] == 'mode=quick'


def test_reframe_gets_selection_report_stage_and_journal(session, reframe):
    words, variables = run(session, reframe)
    assert [word for word in words if word.startswith('-c')], 'no check file'
    files = [f'--report-file={session.report}', f'--stage={session.stage()}']
    assert words[-8:] == ['--system=s', '--mode=quick', '-n', 'two', 'words', '-r', *files]
    assert variables[settings.JOURNAL.name] == str(session.journal)
    assert variables[settings.OWNER.name] == owner_of(Path(session.results))
    words, variables = run(session, reframe, {}, part='-retry', shell=['env', 'OF_THE_SHELL=x'], times=3)
    assert variables['OF_THE_SHELL'] == 'x' and words.count('-n') == 1, 'names of ReFrame are alternatives'
    assert f'--report-file={session.part("-retry")}' in words and settings.JOURNAL.name not in variables
    assert '--reruns=2' in words


@each_row('words, generated', [([], 0), (['--distribute=idle'], 1), (['--repeat=2', '--dist', '-Pa=1', '-Pb=2'], 3)])
def test_the_cases_that_run_again(words, generated, tmp_path, reframe):
    (tmp_path / 'logs').mkdir(exist_ok=True)
    session = PlannedSession.new(tmp_path, CaseSelection('s', 'quick', tuple(words)), 0, f'of{generated}')
    cases = {('1a', 's:p+e'): ['--nodelist=n1'], ('1a', 's:q+f'): [], ('2b', 's:p+e'): ()}
    command, variables = run(session, reframe, cases, trials={('2b', 's:p+e'): 40})
    assert command.count('--distribute=all') == session.distributes
    assert json.loads(Path(variables[settings.CASES.name]).read_text()) == {
        'generated': generated, 'cases': {'1a': {'s:p+e': ['--nodelist=n1'], 's:q+f': []}, '2b': {'s:p+e': []}},
        'trials': {'2b': {'s:p+e': 40}},
    }  # fmt: skip


def test_a_session_that_got_a_signal_starts_no_further_reframe(session, reframe):
    reframe.ends('sleep 0.3; kill -TERM $PPID; exec sleep 60')
    assert session.run(time.monotonic() + 60).told_to_end and session.ended_by == signal.SIGTERM
    assert session.run(time.monotonic() + 60, {}, '-retry').told_to_end and len(reframe.runs) == 1
    assert not session.run_again({}, {}, time.monotonic() + 60, '-look1')


def test_a_session_is_resumed_for_the_same_selection_within_20_hours_and_not_before_it_began(session):
    same, began = CaseSelection('s', 'quick', WORDS, ('node_sweep',)), time.time()
    assert not session.can_resume(CaseSelection('s', 'nightly', WORDS))
    for later, can in ((0, True), (-60, False), (71940, True), (72000, False)):
        session.started = began - later
        assert session.can_resume(same) == can
    session.started, session.recorded = began, session.recorded | {'more': 'x'}
    assert session.can_resume(same)


def test_what_ran_again_is_a_run_of_its_own_beside_the_first():
    slow = case('slow', 'fail', fail_phase='performance')
    content = {'runs': [{'testcases': [case('a', 'fail'), slow, case('x ~f')]}]}
    wanted = [case_of(one) for one in failed(content)]
    assert wanted == [('hash-a', 's:p+e')], 'a value beyond its limit is no failure to measure'
    add_runs(content, {'runs': [{'testcases': [case('a'), case('slow')]}, {'testcases': [case('a')]}]}, wanted)
    assert [[one['display_name'] for one in run['testcases']] for run in content['runs']] == [
        ['a', 'slow', 'x ~f'], ['a'], ['a'],
    ]  # fmt: skip
    assert content['runs'][0]['testcases'][0]['result'] == 'fail', 'the first failure is kept'
    assert [run.get('run_index') for run in content['runs'][1:]] == [1, 2]
    assert failed({'runs': [{'testcases': [case('a', 'xpass'), case('b', 'xfail')]}]}) == []
    assert failed(content) == []


def test_a_case_that_was_aborted_and_ran_later_has_not_failed():
    content = {'runs': [{'testcases': [case('a', 'abort'), case('b', 'abort')]}]}
    add_runs(content, {'runs': [{'testcases': [case('a')]}]}, [('hash-a', 's:p+e')])
    assert [(one['display_name'], one['result']) for run in content['runs'] for one in run['testcases']] == [
        ('b', 'abort'), ('a', 'pass'),
    ]  # fmt: skip


def test_a_reframe_that_does_not_end_is_ended(session, monkeypatch):
    """Neither on an interrupt nor when told: a grandchild that ignores both goes, too."""
    monkeypatch.setenv(settings.GRACE.name, '1')
    waits = 'for i in $(seq 200); do sleep 0.1; done'
    stubborn = f'trap "" INT TERM; ({waits}) & echo started; {waits}'
    progress = Progress(Seconds(), waits=lambda: 'Priority of 7')
    deadline = time.monotonic() + 0.5
    process = Process(['bash', '-c', stubborn], session.log, Path(session.results), deadline, {}, progress)
    why = 'the time budget is used up; jobs waited in the queue: Priority of 7'
    assert process.wait() == Ended(-9, why, True)
    assert end_processes(Path(session.results)) == 0, 'something was left running'


def test_a_signal_before_reframe_runs_ends_it_as_soon_as_it_does(session):
    process = Process(['sleep', '60'], session.log, Path(session.results), time.monotonic() + 60, {})
    process.end('told to end by SIGTERM', signal.SIGTERM)
    began = time.monotonic()
    ended = process.wait()
    assert (ended.code, ended.why, ended.by_signal) == (-2, 'told to end by SIGTERM', signal.SIGTERM)
    assert time.monotonic() - began < 30


def test_a_second_interrupt_kills(session, reframe):
    reframe.ends(
        'trap "" INT; sleep 0.3; kill -INT $PPID; sleep 0.5; kill -INT $PPID; for i in $(seq 200); do sleep 0.1; done'
    )
    ended = session.run(time.monotonic() + 60)
    assert (ended.code, ended.why, ended.by_signal) == (-9, 'interrupted by Ctrl-C', signal.SIGINT)


def test_only_processes_of_these_results_are_ended(tmp_path):
    for name in ('mine', 'a container/mine'):  # of another directory that has the same path in its own file system
        (tmp_path / name).mkdir(parents=True)
    environment = os.environ | {settings.OWNER.name: owner_of(tmp_path / 'mine')}
    mine = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], env=environment)
    environment[settings.OWNER.name] = owner_of(tmp_path / 'a container/mine')
    other = subprocess.Popen(['sleep', '60'], env=environment)
    try:
        assert end_processes(tmp_path / 'mine') == 1
        assert mine.wait() == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_status_knows_a_session_that_is_not_stored_yet(session):
    results = Path(session.results)
    session.remember()
    (results / 'nightly.lock').touch()
    session.journal.parent.mkdir(exist_ok=True)
    session.journal.write_text('{}\n')
    found = unfinished(results, 's')
    assert found and (found.ended, found.expected, found.runs) == (1, session.expected, False)
    session.forget()
    assert unfinished(results, 's') is None


# What ReFrame answers


@pytest.fixture
def listing(reframe, monkeypatch):
    """A ReFrame that is asked what there is."""

    def says(out: str, err: str = '', budgets: str = ''):
        for name, text in {'listed': out, 'checks': out, 'warnings': err, 'budgets': budgets}.items():
            (reframe.folder / name).write_text(text)

    monkeypatch.setattr(CaseSelection, '_checks', ([Path('checks/a.py')], ['b.py: is not valid Python']))
    return says


def test_the_cases_are_listed_with_their_budgets_and_what_was_left_out(listing, reframe):
    listing(
        '- STREAM %x=1 /1a2b @s:p+e\n    ^build ~s:p+e /ffff @s:p+e\n'
        '\x1b[31m  ^ Needed /3c @s:q+e\x1b[0m\n- no hash @s:p\nConcretized 2 test case(s)\n',
        'WARNING: skipping test file c.py: no module\n', '1a2b 57 checks/a.py\n',
    )  # fmt: skip
    selection = CaseSelection('s', 'quick', WORDS)
    cases, problems = selection.list_cases()
    assert cases == {('1a2b', 's:p+e'): 'STREAM %x=1', ('3c', 's:q+e'): 'Needed'}
    assert problems == ['b.py: is not valid Python', 'ReFrame: skipping test file c.py: no module']
    assert '-cchecks/a.py' in (reframe.folder / 'listing').read_text() and selection.budgets == {'1a2b': 60.0}
    assert selection.needs == {('1a2b', 's:p+e'): {('3c', 's:q+e')}}


def test_a_listing_with_a_variable_that_no_check_has_is_refused(listing):
    listing('- A /a @s:p+e\nConcretized 1 test case(s)\n', "test 'A': the following variables were not set: 'x'\n")
    with pytest.raises(InputError, match='-S x=1: no selected check has'):
        CaseSelection('s', 'quick', ('-S', 'x=1')).list_cases()


def test_a_case_needs_what_stands_below_it_also_indirectly(listing):
    listing(
        '- A /a @s:p+e\n    ^B %x=1 /b @s:p+e\n      ^C /c @s:p+e\n    ^D /d @s:p+e\n- E /e @s:p+e\n'
        '- F /f @s:p+e\n    ^C /c @s:p+e\nConcretized 6 test case(s)\n',
    )  # fmt: skip
    selection = CaseSelection('s', 'quick')
    selection.list_cases()
    needs = {dependent[0]: sorted(name for name, _ in needed) for dependent, needed in selection.needs.items()}
    assert needs == {'a': ['b', 'c', 'd'], 'b': ['c'], 'f': ['c']}


def test_a_case_runs_again_with_what_it_depends_on_which_is_told_apart(session, reframe):
    content = {'runs': [{'testcases': [case('a'), case('b'), case('c', 'fail')]}]}
    needed, wanted = ('hash-a', 's:p+e'), ('hash-c', 's:p+e')
    session.needs = {wanted: {needed}}
    reframe.reports(case('a'), case('b', 'skip'), case('c'))
    assert session.run_again(content, {wanted: ['--nodelist=n1']}, time.monotonic() + 60, '-retry', purpose='look')
    assert json.loads(reframe.runs[0][: reframe.runs[0].index('}}') + 2] + '}')['cases'] == {
        'hash-a': {'s:p+e': ['--nodelist=n1']}, 'hash-c': {'s:p+e': ['--nodelist=n1']},
    }  # fmt: skip
    added = [(one['display_name'], one['plumbline_purpose']) for one in content['runs'][1]['testcases']]
    assert added == [('a', 'rest'), ('c', 'look')]


@each_row(
    'out, err, said',
    [
        ('', '', 'no output'), ('first\nlast\n', '', ': last'),
        ('x\n', 'ERROR: no such site\nmore\n', 'ERROR: no such site'),
        ('', '\x1b[31mERROR\x1b[0m: red\n', ': ERROR: red'),
    ],
)  # fmt: skip
def test_a_reframe_that_cannot_list_is_quoted(out, err, said, listing):
    listing(out, err)
    with pytest.raises(InputError, match=f'{said}$'):
        CaseSelection('s', 'quick').list_cases()


def test_why_checks_cannot_run_is_told_by_feature_or_mode(listing, reframe):
    checks = [
        {'name': 'HPL %x=1', 'features': ['hpl', 'cpu'], 'tags': ['quick', 'nightly']},
        {'name': 'GEMM', 'features': ['gemm', 'hpl'], 'tags': ['quick']},
        {'name': 'OSU', 'features': ['osu'], 'tags': ['nightly', 'acceptance']},
        {'name': 'STREAM', 'features': ['cpu'], 'tags': ['quick']},
        {'name': 'Own', 'valid_prog_environs': ['system'], 'tags': ['quick']},
    ]  # fmt: skip
    listing(f'a banner\n{json.dumps(checks, indent=2)}'.replace('[\n  {', '[\n{'))
    environs = {'e': SimpleNamespace(features=['cpu'])}
    site = SimpleNamespace(name='s', environs=environs, not_found={'hpl': 'xhpl not on PATH'})
    assert list(lacking(CaseSelection('s', 'quick', WORDS), site)) == [
        'HPL: requires the feature hpl: xhpl not on PATH',
        'GEMM: requires the feature gemm: no environ of site s has it in site.yaml',
        'GEMM: requires the feature hpl: xhpl not on PATH',
        'OSU: requires another mode than quick (its tags: acceptance, nightly)',
    ]
    assert '--mode' not in (reframe.folder / 'listing').read_text()
    listing('no list')
    assert list(lacking(CaseSelection('s', 'quick'), site)) == []


@each_row('words, distributes', [((), False), (('--distribute',), True), (('--dist=all',), True), (('-n', 'a'), False)])
def test_a_selection_that_makes_a_case_for_each_node(words, distributes):
    assert CaseSelection('s', 'quick', words).distributes == distributes


def test_checks_of_nodes_run_first_then_short_ones_and_files_without_checks_are_left_out(
    monkeypatch, tmp_path, reframe
):
    for name, text in {
        'a/gpu': '@rfm.simple_test\nclass A: pass', 'node/z': '@simple_test\nclass Z: pass', 'core/base': 'x = 1',
        'b/short': '@rfm.simple_test\nclass B: pass', 'b/wrong': 'x = 1\ny =\n', 'c/own': '    # @rfm.simple_test\n',
    }.items():  # fmt: skip
        path = tmp_path / f'checks/{name}.py'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(module, 'ROOT', tmp_path)
    selection = CaseSelection('s', 'quick')
    reframe.lists()
    _, (problem,) = selection.list_cases()

    def order():
        return [Path(word[2:]).stem for word in selection.command if word.startswith('-c')]

    assert order() == ['z', 'gpu', 'short'] and 'wrong.py:2: ' in problem
    for name, seconds in {'a/gpu': 9, 'b/short': 3, 'node/z': 60}.items():
        selection.shortest[f'{tmp_path}/checks/{name}.py'] = seconds
    assert order() == ['z', 'short', 'gpu']


# What a session keeps


def test_jobs_of_a_run_that_was_ended_are_cancelled(session, reframe, capsys):
    slurm = Slurm(reframe.folder)
    slurm.says('squeue', f'7|{session.stage()}/a\n', '')
    slurm.runs('scancel', '')
    session.run(time.monotonic() + 60, {})
    assert slurm.of('scancel') == []
    reframe.ends('kill -SEGV $$')
    slurm.says('squeue', f'7|{session.stage()}/a\n', '')
    session.run(time.monotonic() + 60, {})
    assert 'plumbline: cancelled 1 job of it' in capsys.readouterr().out and slurm.of('scancel') == [['7']]


def test_what_cases_took_is_kept_where_they_measured(session, tmp_path):
    cases = [
        case('a', time_run=5.0), case('b', 'fail', time_run=6.0), case('c', 'xfail', time_run=7.0), case('d'),
        case('e ~f', time_run=8.0), case('f', time_run=None),
    ]  # fmt: skip
    session.remember_seconds({'runs': [{'testcases': cases}, {'testcases': [case('a', time_run=99.0)]}]}, 12.0)
    assert Seconds.read(tmp_path).took == {'hash-a s:p+e': 5.0, 'hash-c s:p+e': 7.0}


@each_row('further, ran', [(None, False), ([], True), ([case('a')], True)])
def test_a_part_counts_as_run_if_it_left_a_report(further, ran, session, reframe):
    session.part('-retry').unlink(missing_ok=True)
    session.report.unlink(missing_ok=True)
    (reframe.folder / 'report').unlink(missing_ok=True)
    if further is not None:
        reframe.reports(*further)
    content, wanted = {'runs': [{'testcases': [case('a', 'fail')]}]}, {('hash-a', 's:p+e'): ()}
    assert session.run_again(content, wanted, time.monotonic() + 60, '-retry', 2, purpose='look') == ran
    assert len(content['runs']) == 1 + bool(further) and session.report.exists() == ran
    if further:
        (added,) = content['runs'][1]['testcases']
        assert (added['run_index'], added['plumbline_purpose']) == (1, 'look')


@each_row(
    'results, jobs, said',
    [
        (['pass', 'fail'], 0, '2 of 2 cases'), (['pass', 'abort'], 0, '1 of 2 cases'),
        (['abort'] * 5, 5, 'while n0, n1, n2 and 2 more ran'), (['abort'] * 4, 1, '0 of 2 cases, while n0 ran'),
    ],
)  # fmt: skip
def test_a_session_that_was_cut_short_says_after_how_many_cases(results, jobs, said):
    cases = [case(f'n{n}', result, jobid='7' if n < jobs else None) for n, result in enumerate(results)]
    content = {'runs': [{'testcases': [*cases, case('x ~f', 'abort')]}]}
    problem = cut_short(content, 'no time', 2)
    assert str(problem).endswith(said) and (problem.kind, problem.why) == ('cut short', 'no time')
    assert [one.get('plumbline_not_run') == 'no time' for one in cases] == [result == 'abort' for result in results]
    assert ['no time' in str(one['fail_reason']) for one in cases] == [result == 'abort' for result in results]


def test_partitions_without_a_queue_run_as_many_jobs_as_the_site_allows_or_eight(monkeypatch):
    entries = {'own': {'scheduler': 'local'}, 'few': {'scheduler': 'local', 'max_jobs': 2}, 'q': {'scheduler': 'slurm'}}
    site = SimpleNamespace(
        name='s', partitions={name: SimpleNamespace(name=name, entry=entry) for name, entry in entries.items()}
    )
    assert module._most_at_once(site) == {'s:own': 8, 's:few': 2} and not module.runs_here(site)
    del site.partitions['q']
    assert module.runs_here(site)


# A process that runs


def clocked(monkeypatch, *offsets):
    values = list(offsets)
    monkeypatch.setattr(of_process, '_clock_offset', lambda: values.pop(0))


@each_row('change, words', [(0, ''), (60, ''), (-60, ''), (61, 'forward by 61 s'), (-61, 'back by 61 s')])
def test_a_clock_that_was_set_by_more_than_a_minute_is_told(change, words, session, monkeypatch):
    clocked(monkeypatch, 1000.0, 1000.0 + change)
    ended = Process(['true'], session.log, Path(session.results), time.monotonic() + 60, {}).wait()
    assert ended.code == 0 and len(ended.warnings) == bool(words)
    assert not words or words in ended.warnings[0]


@each_row(
    'command, code, why',
    [('exit 3', 3, ''), ('kill -SEGV $$', -11, 'SIGSEGV'), ('echo "WARNING: skipping test file a.py"', 0, '')],
)
def test_how_a_process_ended(command, code, why, session):
    ended = Process(['sh', '-c', command], session.log, Path(session.results), time.monotonic() + 60, {'A': 'b'}).wait()
    assert ended.code == code and why in ended.why and bool(ended.why) == bool(why)
    assert ended.warnings == (['ReFrame: skipping test file a.py'] if 'echo' in command else [])
    assert (ended.told_to_end, ended.by_signal) == (False, False)


@each_row('lines, found', [
    (["skipping test 'X': type error"] * 2, 1),
    (['skipping test file x: y'], 1), (['WARNING: failed to save the report: z'], 1), (['failed to open a file'], 0),
    (['cp: No space left on device'], 1), (['run session stopped: SIGINT'], 1), (['all ok'], 0),
    (['skipping evaluation of performance variable a: b', 'other', 'failed to write results: c'], 2),
])  # fmt: skip
def test_lines_of_reframe_that_make_a_session_incomplete(lines, found):
    assert len(of_process.troubles(lines)) == found


def test_ctrl_c_at_the_terminal_reaches_a_process_through_us_alone(session):
    """It leads a session of the terminal of its own."""
    told = 'echo $(cut -d" " -f6 /proc/$$/stat) = $$'
    Process(['sh', '-c', told], session.log, Path(session.results), time.monotonic() + 60, {}).wait()
    leader, _, process = session.log.read_text().split()
    assert leader == process

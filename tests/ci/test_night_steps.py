# SPDX-License-Identifier: BSD-3-Clause
"""The steps of a night one by one: what runs, what runs again, what is kept and said, and the exit code."""

import argparse
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row
from test_session import case, names

from ci import nightly as module
from ci import session as of_session
from ci.nightly import NightlyRun, parse
from ci.process import Ended
from ci.progress import Seconds
from ci.session import UNFINISHED, CaseSelection, Lack, PlannedSession
from ci.slurm_nodes import NodeOut, Nodes
from plumbline import settings
from plumbline.signals import Signalled
from plumbline.site.sites import Environ, Partition, Site

A, B = ('hash-a', 's:p+e'), ('hash-b', 's:p+e')
SITE = Site('s', '', (), {}, {'e': Environ('e', 'path', ('cpu', 'stream'))})
HERE = Site('localhost', '', (), {}, {}, not_found={'hpl': 'no xhpl on PATH'})


@each_row(
    'words, wrong',
    [
        ([], ''), (['--minutes=0.5', '--nodes=2'], ''), (['--minutes=0'], 'found 0'), (['--minutes=-1'], 'found -1'),
        (['--minutes=inf'], 'found inf'), (['--minutes=nan'], 'found nan'), (['--nodes=2'], 'needs --minutes'),
    ],
)  # fmt: skip
def test_minutes_are_a_number_above_nothing_and_nodes_go_with_them(words, wrong, capsys):
    if not wrong:
        assert isinstance(parse(words), argparse.Namespace)
        return
    with pytest.raises(SystemExit):
        parse(words)
    assert wrong in capsys.readouterr().err


def test_the_defaults_of_the_command_line():
    found = parse([])
    assert (found.keep_days, found.evidence) == (90, 20)
    assert (found.quiet, found.no_retry, found.no_resume) == (False, False, False)
    found = parse(['--quiet', '--no-retry', '--no-resume', '--max-wait=2m', '--duration=1h', '--no-provision'])
    assert (found.quiet, found.no_retry, found.no_resume) == (True, True, True)
    assert (found.max_wait, found.duration, found.provision) == (120, 3600, 'never')


# The whole command


class Called:
    """The command with a night that ends with `code`."""

    def __init__(self, monkeypatch, *words: str, code=0, attention=False, judged=True):
        self.told, self.ran = [], []
        monkeypatch.setattr(sys, 'argv', ['nightly', *words])
        monkeypatch.setattr(module.notify, 'take_addresses', lambda: ['json://a'])
        monkeypatch.setattr(module.notify, 'notify', lambda *given: self.told.append(given))

        def run(night, site, results):
            print('what a night prints')
            assert night.arguments.selection == [] and not night.needs_attention
            night.needs_attention, night.summary = attention, results
            night.outcome = SimpleNamespace(hints=['record a baseline']) if judged else None
            return code

        monkeypatch.setattr(NightlyRun, 'run', run)
        monkeypatch.setattr(module.command, 'run', lambda _, work: work(SITE, Path('results')))
        self.before = time.time()
        self.code = module.main()


@each_row(
    'words, code, attention, judged, told, printed, hint',
    [
        ([], 0, False, True, False, True, False), ([], 1, False, True, True, True, False),
        ([], 130, False, True, False, True, False),
        ([], 0, True, True, True, True, False), (['--quiet'], 0, False, True, False, False, True),
        (['--quiet'], 1, False, True, True, True, False), (['--quiet'], 0, True, True, True, True, False),
        (['--quiet'], 0, False, False, False, False, False),
    ],
)  # fmt: skip
def test_a_night_that_is_ok_tells_nobody_and_a_quiet_one_prints_only_hints(
    words, code, attention, judged, told, printed, hint, monkeypatch, capfd
):
    with open(1, 'w', closefd=False) as stdout:
        monkeypatch.setattr(sys, 'stdout', stdout)
        called = Called(monkeypatch, *words, code=code, attention=attention, judged=judged)
    said = capfd.readouterr().out
    assert called.code == code
    assert bool(called.told) == told and ('what a night prints' in said) == printed and ('a baseline' in said) == hint
    if told:
        ((addresses, summary, since, outcome),) = called.told
        assert addresses == ['json://a'] and summary == Path('results') and outcome.hints
        assert called.before <= since <= time.time()


def test_artifacts_of_an_earlier_run_go_and_other_files_stay(tmp_path):
    folder = tmp_path / 'new/artifacts'
    NightlyRun(parse([f'--artifacts={folder}'])).clear_artifacts()
    for name in ('report.html', 'verdicts.md', 'verdicts.xml', 'other'):
        (folder / name).touch()
    NightlyRun(parse([f'--artifacts={folder}'])).clear_artifacts()
    assert [path.name for path in folder.iterdir()] == ['other']
    NightlyRun(parse([])).clear_artifacts()


@each_row(
    'site, words, mode, seconds, selected',
    [
        ('s', [], 'nightly', 43200, ()), ('localhost', [], 'quick', 7200, ()),
        ('s', ['--mode=acceptance'], 'acceptance', 604800, ()), ('localhost', ['--mode=nightly'], 'nightly', 43200, ()),
        ('s', ['--duration=10m', '--max-wait=2m', '-n', 'STREAM'], 'nightly', 600,
         ('-n', 'STREAM', '-Smax_pending_time=120s')),
    ],
)  # fmt: skip
def test_the_mode_and_the_time_of_a_night(site, words, mode, seconds, selected, tmp_path, monkeypatch):
    measured, tidied = [], []
    night = NightlyRun(parse(['--no-provision', '--keep-days=3', '--evidence=0.5', *words]))
    monkeypatch.setattr(night, '_measure', lambda selection: measured.append(selection) or 4)
    monkeypatch.setattr(module.cleanup, 'tidy', lambda *given: tidied.append(given))
    assert night.run(SimpleNamespace(name=site), tmp_path) == 4
    (found,) = measured
    assert (found.system, found.mode, found.words) == (site, mode, selected)
    assert night.deadline - time.monotonic() == pytest.approx(seconds, abs=5)
    assert tidied == [(tmp_path, 3, 2**29)] and night.summary == tmp_path / 'summary.txt'


def test_stacks_are_installed_by_a_process_that_can_be_found(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(module.subprocess, 'run', lambda words, **options: started.append((words, options)))
    module.provision(tmp_path, '--only-packages')
    ((words, options),) = started
    assert words[1:] == ['-m', 'ci.provision', '--only-packages'] and options['check'] is False
    assert options['env'][settings.OWNER.name] == module.owner_of(tmp_path)


# What is measured


@pytest.fixture
def world(monkeypatch, tmp_path):
    """ReFrame with the cases a and b, a site without Slurm, and what follows the measurement, which is written down."""
    for folder in ('logs', 'reports'):
        (tmp_path / folder).mkdir()
    found = SimpleNamespace(
        cases={A: 'a', B: 'b'}, entries=[case('a'), case('b')], ended=Ended(), ran=[], then=[], judged=[], problems=[],
        nodes=[], results=tmp_path, chosen={}, kind='a virtual machine', stored=[], provisioned=[],
    )  # fmt: skip
    stamps = iter(f'stamp{number}' for number in range(99))
    monkeypatch.setattr(of_session, '_stamp_now', lambda: next(stamps))
    monkeypatch.setattr(CaseSelection, '_checks', ([], []))
    monkeypatch.setattr(CaseSelection, 'list_cases', lambda _: (found.cases, found.problems))

    def run(session, deadline, cases=None, part=''):
        found.ran.append(cases and list(cases))
        found.provisioned.append('measured')
        if found.entries is not None:
            info = {'uuid': 'u', 'time_start_unix': 1, 'cmdline': ''}
            runs = [{'run_index': 0, 'testcases': found.entries}]
            session.report.write_text(json.dumps({'session_info': info, 'runs': runs}))
        session.ended_by = found.ended.by_signal
        return found.ended

    monkeypatch.setattr(PlannedSession, 'run', run)
    monkeypatch.setattr(Nodes, 'now', lambda _: found.nodes.pop(0) if found.nodes else Nodes([], {}))
    monkeypatch.setattr(module, 'provision', lambda _, *options: found.provisioned.append(''.join(options)))
    monkeypatch.setattr(module.planned, 'choose', lambda *given: found.then.append(given) or found.chosen)
    monkeypatch.setattr(module, 'kind_of', lambda: found.kind)
    monkeypatch.setattr(NightlyRun, '_retry', lambda *_: found.then.append('retry'))
    monkeypatch.setattr(module, 'complete', lambda *_: found.then.append('complete') or ['trials left'])
    monkeypatch.setattr(module, 'look_again', lambda *_: found.then.append('look'))

    def judge(night, session, content, may_go_on):
        kept = json.loads(session.report.read_text())
        found.judged.append((session, kept, may_go_on))
        return 5

    monkeypatch.setattr(NightlyRun, '_judge', judge)
    monkeypatch.setattr(module.outcome, 'store', lambda *given: found.stored.append(given) or ['stored'])
    return found


def measured(world, *words: str, site: Site = SITE, install: str = '--no-provision') -> NightlyRun:
    """A night whose end is written down in `world`, with its exit code in `code`."""
    night = NightlyRun(parse([*install.split(), *words]))
    night.code = night.run(site, world.results)
    return night


WHOLE = CaseSelection('s', 'nightly')


def test_a_night_runs_all_cases_and_what_follows_them(world, capsys):
    world.problems = ['a file is not valid']
    out = [NodeOut('n1', 'p', 'down', ''), NodeOut('n2', 'p', 'maint', '')]
    lost = NodeOut('n3', 'p', 'down', 'no power')
    world.nodes = [Nodes(out, {}), Nodes([*out, lost], {})]
    night = measured(world)
    assert night.code == 5
    assert world.ran == [None] and world.then == ['retry', 'complete', 'look']
    ((session, kept, may_go_on),) = world.judged
    assert may_go_on and session.expected == 2 and 'plumbline_machine' not in kept['session_info']
    first, second, third, fourth = map(str, night.problems)
    assert (first, third) == ('a file is not valid', 'trials left') and second.startswith('n1 of p is down')
    assert fourth.startswith('n3 of p is down (no power)')
    said = capsys.readouterr().out
    assert 'site s, mode nightly: 2 cases\n' in said and 'left out: n1' in said and 'left out: n2' in said
    assert 'the cases took 0 s\n' in said and f'{session.log}' in said
    for absent in ('resumes', 'this machine', 'minutes', 'expected'):
        assert absent not in said
    assert Seconds.read(world.results).took == {}
    assert (world.results / UNFINISHED).exists(), 'it is forgotten once it is stored'


def test_the_time_that_is_expected_is_told_and_what_it_took_is_learned(world, capsys):
    known = Seconds({'hash-a s:p+e': 100.0, 'hash-b s:p+e': 20.0})
    known.write(world.results)
    world.entries = [case('a', time_run=7.0), case('b', 'fail', time_run=9.0)]
    measured(world)
    said = capsys.readouterr().out
    assert 'nightly: 2 cases, about 2 min by' in said and 'took 0 s, expected about 2 min by' in said
    assert Seconds.read(world.results).took == {'hash-a s:p+e': 7.0, 'hash-b s:p+e': 20.0}


def test_the_first_verdict_is_on_what_is_stored_before_further_jobs_run(world, monkeypatch, capsys):
    monkeypatch.setattr(module, 'look_again', lambda *given: given[-1]())
    monkeypatch.setattr(module.outcome, 'verdict_so_far', lambda results, uuid: f'OK: session {uuid}')
    measured(world)
    ((results, report, expected, problems, site),) = world.stored
    assert (results, expected, [*map(str, problems)], site) == (world.results, 2, ['trials left'], 's')
    assert report.exists() and 'plumbline: first verdict: OK: session u\n' in capsys.readouterr().out


@each_row(
    'words, ended, steps, may_go_on',
    [
        ([], Ended(why='no time', told_to_end=True), [], False), (['--no-retry'], Ended(), ['complete'], False),
        ([], Ended(why='ended by SIGSEGV'), ['retry', 'complete', 'look'], True),
    ],
)  # fmt: skip
def test_what_follows_a_run_that_was_ended(words, ended, steps, may_go_on, world, monkeypatch, capsys):
    """No stack is built behind a night that was told to end."""
    monkeypatch.setattr(module, 'load_site', lambda _: HERE)
    world.then, world.judged, world.provisioned, world.ended = [], [], [], ended
    world.entries = [case('a'), case('b', 'abort')]
    Seconds().write(world.results)
    night = measured(world, '--provision=after', *words, site=HERE)
    assert night.code == 5
    assert world.provisioned == ['--only-packages', 'measured', *[''] * (not ended.told_to_end)]
    assert world.then == steps and world.judged[0][2] == may_go_on
    assert any(ended.why in problem and '1 of 2' in problem for problem in map(str, night.problems)) == bool(ended.why)
    assert ('the cases took' in capsys.readouterr().out) != bool(ended.why)


@each_row(
    'site, install, steps',
    [
        (HERE, '', ['--only-packages', 'measured', '']),  # a verdict within minutes, whatever Spack takes
        (HERE, '--provision=before', ['', 'measured']), (HERE, '--no-provision', ['measured']),
        (SITE, '', ['', 'measured']), (SITE, '--provision=after', ['--only-packages', 'measured', '']),
    ],
)  # fmt: skip
def test_a_machine_without_a_site_file_measures_what_is_there_before_it_builds(
    site, install, steps, world, monkeypatch
):
    monkeypatch.setattr(module, 'load_site', lambda _: site)
    world.provisioned.clear()
    measured(world, site=site, install=install)
    assert world.provisioned == steps


def test_a_night_whose_time_is_used_up_runs_no_failed_case_again(world, monkeypatch):
    monkeypatch.setattr(PlannedSession, 'run', lambda session, deadline, *_: time.sleep(1.01) or write(session))

    def write(session):
        info = {'uuid': 'u', 'time_start_unix': 1, 'cmdline': ''}
        content = {'session_info': info, 'runs': [{'run_index': 0, 'testcases': [case('a', 'fail')]}]}
        session.report.write_text(json.dumps(content))
        return Ended()

    assert measured(world, '--duration=1s').code == 5 and world.then == ['complete', 'look']


def test_a_warning_is_told_once_though_the_listing_told_it(world):
    world.problems, world.ended = ['twice'], Ended(warnings=['twice', 'once'])
    night = measured(world, '--no-retry')
    assert [*map(str, night.problems)] == ['twice', 'once', 'trials left']


@each_row('site, kind, told', [(HERE, 'a laptop', True), (HERE, '', False), (SITE, 'a laptop', False)])
def test_the_kind_of_an_undescribed_machine_is_told_and_kept(site, kind, told, world, capsys):
    world.kind = kind
    measured(world, site=site)
    kept = world.judged[-1][1]['session_info']
    assert kept.get('plumbline_machine') == (kind if told else None)
    assert ('this machine: a laptop' in capsys.readouterr().out) == told


def test_a_night_of_minutes_runs_what_is_chosen(world, capsys):
    world.chosen = {B: 'never measured'}
    measured(world, '--minutes=7', '--nodes=3')
    assert world.ran == [[B]]
    session = world.judged[0][0]
    assert session.expected == 1 and json.loads(session.recorded['plumbline_narrowed_by']) == ['minutes=7']
    assert world.then[0][0] == world.results and world.then[0][4:] == (7.0, 3)
    assert '1 case of 2 in 7 minutes' in capsys.readouterr().out
    assert 'never measured' in session.recorded['plumbline_plan']


@each_row(
    'words, cases, asked', [(['--minutes=7'], {A: 'a'}, True), (['--minutes=7'], {}, False), ([], {A: 'a'}, False)]
)
def test_where_nothing_is_chosen_all_cases_run(words, cases, asked, world):
    world.cases, world.then, world.judged = cases, [], []
    measured(world, *words)
    assert world.ran[-1] is None and isinstance(world.then[0], tuple) == asked
    assert json.loads(world.judged[0][0].recorded['plumbline_narrowed_by']) == []


# A night that was killed


def killed(world, *done: dict) -> PlannedSession:
    session = PlannedSession.new(world.results, WHOLE, 2, 'killed')
    session.journal.write_text(''.join(json.dumps(one) + '\n' for one in done))
    session.remember()
    return session


def test_a_killed_night_is_resumed_with_the_cases_that_are_left(world, capsys):
    session, world.entries = killed(world, case('a')), [case('b')]
    assert measured(world).code == 5
    assert world.ran == [[B]] and world.judged[0][0] == session and world.stored == []
    assert [one['display_name'] for one in world.judged[0][1]['runs'][0]['testcases']] == ['a', 'b']
    assert 'resumes the session of killed: 1 of them are done' in capsys.readouterr().out


def test_a_killed_night_of_minutes_goes_on_with_what_was_chosen_then(world, capsys):
    session = killed(world)
    selection = module.replace(WHOLE, narrowed_by=('minutes=7',))
    session.recorded = selection.recorded
    module.planned.record(session, world.cases, {B: 'as it was planned'})
    session.journal.write_text(json.dumps(case('b')) + '\n')
    session.remember()
    world.chosen, world.entries = {A: 'another plan'}, [case('b')]
    measured(world, '--minutes=7')
    assert world.ran == [] and 'nightly: 1 case of 2 in 7 minutes' in capsys.readouterr().out
    assert 'as it was planned' in world.judged[0][0].recorded['plumbline_plan']


def test_where_all_had_ended_nothing_runs(world):
    killed(world, case('a'), case('b'))
    assert measured(world).code == 5 and world.ran == []


@each_row('words, done, stored', [(['--no-resume'], 1, True), (['--mode=quick'], 1, True), ([], 0, False)])
def test_a_killed_night_that_is_not_resumed_is_stored(words, done, stored, world, capsys):
    world.stored.clear(), world.ran.clear()
    session = killed(world, *[case('a')] * done)
    measured(world, *words)
    assert world.ran == [None] and len(world.stored) == stored and not session.journal.exists()
    if stored:
        ((results, report, expected, (why,), site),) = world.stored
        assert (results, report, expected, site) == (world.results, session.report, 2, 's')
        assert 'killed after 1 of 2 cases' in why.text and 'plumbline: stored' in capsys.readouterr().out
        session.report.unlink()
    world.judged.pop()[0].forget()


def test_what_a_person_ended_is_no_fault_and_goes_on(world, monkeypatch, capsys):
    monkeypatch.setattr(module, 'load_site', lambda _: SITE)
    world.ended = Ended(why='interrupted by Ctrl-C', told_to_end=True, by_signal=signal.SIGINT)
    world.entries = [case('a'), case('b', 'abort')]
    killed(world, case('a'))
    assert measured(world, '--provision=after').code == 130 and world.provisioned == ['--only-packages', 'measured']
    assert capsys.readouterr().out.splitlines()[-2:] == [
        'plumbline: not run to the end: b', 'plumbline: ended by you after 1 of 2 cases; `ci/nightly` goes on',
    ]  # fmt: skip
    assert (world.then, world.judged, world.stored) == ([], [], []), 'a session that a person ended was judged'
    assert PlannedSession.unfinished(world.results).ended_by == signal.SIGINT
    world.ended, world.entries = Ended(), [case('a'), case('b')]
    measured(world, '--no-resume')
    ((_, report, expected, problems, _),) = world.stored
    content = json.loads(report.read_text())
    assert (expected, problems) == (1, []) and names(content) == ['a']
    assert json.loads(content['session_info']['plumbline_narrowed_by']) == ['ended by a person']


@each_row('result, is_kept', [('abort', False), ('fail', True)])
def test_what_was_ended_before_its_first_case_did_leaves_no_report(result, is_kept, world):
    session = killed(world)
    session.report.write_text(json.dumps({'session_info': {}, 'runs': [{'testcases': [case('a', result)]}]}))
    measured(world)
    assert world.stored == [] and session.report.exists() is is_kept
    session.report.unlink(missing_ok=True)
    world.judged.pop()[0].forget()


@each_row('number, by_a_person', [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_ctrl_c_between_two_runs_of_reframe_is_no_kill(number, by_a_person, world, monkeypatch):
    session = killed(world, case('a'))

    def told(*_):
        raise Signalled(number)

    monkeypatch.setattr(PlannedSession, 'run', told)
    with pytest.raises(Signalled):
        measured(world)
    assert (PlannedSession.unfinished(world.results).ended_by == signal.SIGINT) is by_a_person
    session.forget()


@each_row('number, judged, code', [(signal.SIGINT, 0, 130), (signal.SIGTERM, 1, 5)])
def test_a_night_that_is_ended_in_its_further_jobs_runs_no_others(number, judged, code, world, monkeypatch, capsys):
    """Of a time limit, what was measured is judged; after Ctrl-C the next night goes on from there."""
    world.then, world.judged = [], []
    monkeypatch.setattr(NightlyRun, '_retry', lambda _, session, *given: setattr(session, 'ended_by', number))
    assert measured(world).code == code and world.then == ['complete']
    assert [may_go_on for *_, may_go_on in world.judged] == [False] * judged
    session = PlannedSession.unfinished(world.results)
    session.forget()


# Where nothing ran


@pytest.fixture
def lacking(monkeypatch):
    lacks = {Lack('the feature hpl', 'hpl'): ['HPL', 'HPLMxP'], Lack('another mode than nightly'): ['OSU']}
    asked = []
    monkeypatch.setattr(CaseSelection, 'lacking', lambda _, features: asked.append(features) or lacks)
    return asked


@each_row(
    'cases, words, code, names, absent',
    [
        ({}, [], 0, ['no case can run here in mode nightly;'], ['with the options', 'requires', 'did you mean']),
        ({}, ['-n', '^STREM$', '-t', 'x'], 0,
         ['options -n', 'did you mean', 'HPL, HPLMxP: requires the feature hpl: ', 'site s has it', 'OSU: requires'],
         ['another mode than nightly:']),
        ({}, ['-t', 'STREM'], 0, ['options -t STREM', 'requires'], ['did you mean']),
        ({A: 'a'}, ['-n', 'STREM'], 3, ['exit code 3'], ['no case can run', 'requires']),
    ],
)  # fmt: skip
def test_why_nothing_ran(cases, words, code, names, absent, world, lacking, monkeypatch, capsys):
    monkeypatch.setattr(module, 'checks_of', lambda _: frozenset({'STREAM', 'HPL'}))
    world.cases, world.entries, world.ended = cases, [], Ended(code)
    world.problems = ['a file is not valid']
    assert measured(world, *words).code == 1
    said = capsys.readouterr()
    for name in names:
        assert name in said.err
    for name in absent:
        assert name not in said.err
    assert 'a file is not valid' in said.err and world.judged == [] and not (world.results / UNFINISHED).exists()


def test_a_partition_without_a_processor_is_named_and_no_other_cause(world, lacking, monkeypatch, capsys):
    monkeypatch.setattr(module, 'checks_of', lambda _: frozenset({'HPL'}))
    world.cases, world.entries = {}, []
    site = Site('s', '', (), {'node': Partition('node', {}, ())}, {})
    assert measured(world, '-n', 'HPL', site=site).code == 1
    said = capsys.readouterr().err
    assert 's: site.yaml describes no processor of node: no case exists there' in said
    assert 'requires' not in said and lacking == []


def test_a_benchmark_that_was_not_found_is_named_with_the_reason(world, lacking, monkeypatch, capsys):
    monkeypatch.setattr(module, 'checks_of', lambda _: frozenset())
    world.cases, world.entries = {}, []
    measured(world, '-n', 'HPL', site=HERE)
    said = capsys.readouterr()
    assert 'the feature hpl: no xhpl on PATH' in said.err and 'not run' not in said.out
    assert lacking == [set()]
    measured(world, site=replace(HERE, not_found={'hpl': 'no stack', 'hpcg': 'no stack'}))
    assert 'plumbline: not run: hpl, hpcg: no stack' in capsys.readouterr().out.splitlines()


# What runs again


@each_row(
    'entries, after, wanted, passed',
    [
        ([case('a', 'fail'), case('b')], [case('a')], [A], 'a passed when it ran again; before: a reason\n'),
        ([case('a', 'fail'), case('b')], [case('a', 'fail')], [A], ''),
        ([case('a'), case('b', 'abort')], [], [B], ''), ([case('a')], [case('b')], [B], ''),
        ([case('a'), case('b')], [], None, ''),
        ([case('a', 'fail', fail_reason='x' * 300), case('b')], [case('a')], [A], f'before: {"x" * 200}\n'),
        ([case('a', 'error', fail_reason=None), case('b')], [case('a')], [A], 'before: error\n'),
    ],
)  # fmt: skip
def test_a_case_that_failed_or_did_not_run_runs_once_more(entries, after, wanted, passed, tmp_path, capsys):
    asked = []

    def run_again(content, cases, deadline, part):
        asked.append((list(cases), deadline, part))
        content['runs'].append({'testcases': after})

    night = NightlyRun(parse([]))
    night.deadline = 7.0
    content = {'runs': [{'testcases': entries}]}
    night._retry(SimpleNamespace(run_again=run_again), content, [A, B])
    assert asked == ([(wanted, 7.0, '-retry')] if wanted else [])
    said = capsys.readouterr().out
    assert said.endswith(passed) and ('passed when' in said) == bool(passed)
    assert ('runs 1 failed case once more' in said) == bool(wanted)


# The verdict


@pytest.fixture
def judge(world, monkeypatch):
    """The night `run(words)`, which is judged with `code`; the page has `faults`, and what is published `fault`."""
    monkeypatch.undo()
    found = SimpleNamespace(code=0, faults=[], fault='', attention=False, done=[], junit=None)
    results = world.results

    def outcome_of(results, uuid, junit, markdown):
        found.junit, found.markdown = junit, markdown
        junit.write_text('junit')
        return SimpleNamespace(exit_code=found.code, summary='a summary\n')

    def look_back(results, uuid):
        if not found.faults:
            (results / 'report.html').write_text('page')
        return SimpleNamespace(show=lambda: ['a node\n'], needs_attention=found.attention, faults=found.faults)

    def publish(*given):
        found.done.append(('publish', *given))
        return ['published: u'], found.fault

    monkeypatch.setattr(module.outcome, 'store', lambda *given: found.done.append(('store', *given)) or [])
    monkeypatch.setattr(module.outcome, 'outcome_of', outcome_of)
    monkeypatch.setattr(module.outcome, 'look_back', look_back)
    monkeypatch.setattr(module.outcome, 'publish', publish)
    monkeypatch.setattr(module.notify, 'write_prometheus', lambda *given: found.done.append(('prometheus', *given)))
    monkeypatch.setattr(module, 'rerun', lambda *given: given[-1]() and found.done.append('rerun'))
    monkeypatch.setattr(CaseSelection, '_checks', ([], []))
    session = PlannedSession.new(results, WHOLE, 2, 'stamp')

    def run(*words, may_go_on=True):
        found.done.clear()
        session.journal.touch()
        night = NightlyRun(parse(list(words)))
        night.site, night.results, night.deadline, night.problems = SITE, results, 0.0, ['a problem']
        found.exit = night._judge(session, {'session_info': {'uuid': 'u'}}, may_go_on)
        return night

    found.run, found.results, found.session = run, results, session
    return found


@each_row(
    'code, faults, fault, exit_code',
    [(0, [], '', 0), (1, [], '', 1), (3, ['x'], '', 3), (0, ['x'], '', 1), (0, [], 'full disk', 1), (0, ['x'], 'y', 1)],
)
def test_the_exit_code_is_that_of_the_verdict_or_of_what_was_not_written(
    code, faults, fault, exit_code, judge, tmp_path, capsys
):
    judge.code, judge.faults, judge.fault = code, faults, fault
    folder = tmp_path / f'artifacts{code}{faults}{fault}'
    folder.mkdir()
    night = judge.run(f'--artifacts={folder}', '--publish=pages', '--prometheus=node.prom')
    assert judge.exit == exit_code
    assert sorted(path.name for path in folder.iterdir()) == [*['report.html'] * (not faults), 'verdicts.xml']
    assert judge.markdown == folder / 'verdicts.md'
    assert [one[0] for one in judge.done] == ['store', 'store', 'publish', 'prometheus']
    assert judge.done[0] == ('store', judge.results, judge.session.report, 2, ['a problem'], 's') == judge.done[1]
    assert judge.done[2][1:] == (judge.results, 's', Path('pages'))
    assert judge.done[3][1:] == (Path('node.prom'), night.outcome, exit_code)
    said = capsys.readouterr()
    assert (
        'a summary\n' in said.out and 'published: u' in said.out and ('full disk' in said.err) == (fault == 'full disk')
    )
    assert ('was not published' in said.err) == bool(fault)
    assert (judge.results / 'summary.txt').read_text() == 'a summary\na node\n'
    assert not judge.session.journal.exists()


@each_row('attention', [False, True])
def test_without_options_nothing_is_published_and_one_may_be_told(attention, judge, capsys):
    judge.attention = attention
    night = judge.run(may_go_on=False)
    assert [one[0] for one in judge.done] == ['store'] and judge.exit == 0
    assert night.needs_attention == attention and judge.markdown is None
    assert judge.junit == judge.session.report.with_suffix('.xml')
    assert 'published' not in ''.join(capsys.readouterr())

# SPDX-License-Identifier: BSD-3-Clause
"""What a night runs, runs again, keeps and says, and its exit code: the command with a stand-in for ReFrame.

`tests/end_to_end/test_nightly.py` has nights of a real ReFrame; here its answers are files, and the verdict is given.
"""

import json
import re
import signal
import subprocess
import time
from contextlib import redirect_stdout

import pytest
import test_session
from rows import each_row
from stand_ins import SITE, ReFrame, no_files_of_checks
from test_session import names

from ci import measuring, planned
from ci import nightly as module
from ci.nightly import NightlyRun, parse
from ci.outcome import LookBack, Outcome
from ci.progress import Seconds
from ci.session import UNFINISHED, CaseSelection, PlannedSession
from plumbline import settings
from plumbline.signals import Signalled

PROCESSOR = 'processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}'


def case(name: str, result: str = 'pass', **more) -> dict:
    record = {'provenance': {}, 'metrics': {}, 'job': {'nodes': ['n1']}}
    return test_session.case(name, result, hashcode=name * 2, record=record, **more)


class World:
    """A site s and a ReFrame with two cases. What is stored is written down; a test sets the rest of the verdict."""

    def __init__(self, monkeypatch, folder):
        self.results, self.site_file = folder / 'results', folder / 'sites/s/site.yaml'
        for below in (folder / 'bin', self.site_file.parent, self.results / 'logs', self.results / 'reports'):
            below.mkdir(parents=True)
        self.describe(PROCESSOR)
        self.reframe = ReFrame(folder / 'bin')
        self.reframe.lists('a', 'b')
        self.reframe.reports(case('a'), case('b'))
        self.code, self.faults, self.is_new, self.hints, self.plan_of, self.fault = 0, [], False, [], set(), ''
        self.stored, self.steps = [], []
        monkeypatch.setenv('PATH', f'{self.reframe.folder}:/usr/bin:/bin')
        variables = {settings.SITES: self.site_file.parents[1], settings.SITE: 's', settings.BUSY: 0}
        for setting, value in variables.items():
            monkeypatch.setenv(setting.name, str(value))
        no_files_of_checks(monkeypatch)
        for step in ('so_far.store', 'outcome.outcome_of', 'outcome.look_back', 'rerun.in_doubt', 'planned.plan'):
            monkeypatch.setattr(f'ci.{step}', getattr(self, step.partition('.')[2]))
        monkeypatch.setattr(module, 'run_plumbline', self.run_plumbline)
        monkeypatch.setattr(module.notify, 'write_prometheus', lambda path, judged, code: path.write_text(f'{code}'))
        monkeypatch.setattr(module, 'provision', lambda _, *options: self.steps.append(('provision', *options)))
        self.monkeypatch = monkeypatch

    def describe(self, processor: str):
        self.site_file.write_text(SITE.replace('[e]}', f'[e], {processor}}}'))

    def night(self, *words: str, provisions: bool = False) -> int:
        """Run the command and return its exit code."""
        options = [f'--results={self.results}', *['--no-provision'] * (not provisions)]
        return module.main([*options, *words])

    @property
    def ran(self) -> list[tuple[str, str]]:
        """The cases that each run was told to run, all of them where it was not told any, and its command line."""
        return [(''.join(re.findall(r'"(\w)\1"', line)) or 'all', line) for line in self.reframe.runs]

    def store(self, results, report, expected, problems, site=None) -> list[str]:
        self.steps.append(('store',))
        self.stored.append((json.loads(report.read_text()), expected, [*map(str, problems)]))
        return ['stored']

    def in_doubt(self, results, uuid) -> tuple:
        self.steps.append(('in doubt',))
        return ()

    def plan(self, results, site, minutes, nodes, places) -> set:
        assert (minutes, nodes) == (7, 3)
        return self.plan_of & places.keys()

    def outcome_of(self, results, uuid, junit, markdown, strict) -> Outcome:
        assert not strict
        junit.write_text('junit')
        return Outcome('s', 'nightly', self.code, {'ok': 2}, [], 'a summary\n', [], self.hints, 'the next step')

    def look_back(self, results, uuid) -> LookBack:
        (results / 'report.html').write_text('page')
        return LookBack(['a node'], self.faults, self.is_new)

    def run_plumbline(self, *words):
        assert words[0] == 'publish' and words[2:] == (f'--results={self.results}', '--site=s')
        return subprocess.CompletedProcess(words, 2 * bool(self.fault), 'u\n', f'plumbline: {self.fault}\n')

    def killed(self, *done: dict, **fields) -> PlannedSession:
        """A session of both cases that was killed after some were done."""
        session = PlannedSession.new(self.results, CaseSelection('s', 'nightly', **fields), 2, 'killed')
        session.journal.write_text(''.join(json.dumps(one) + '\n' for one in done))
        session.remember()
        return session


@pytest.fixture
def world(monkeypatch, tmp_path):
    return World(monkeypatch, tmp_path)


@each_row(
    'words, wrong',
    [
        (['--minutes=0'], 'found 0'), (['--minutes=inf'], 'found inf'), (['--minutes=nan'], 'found nan'),
        (['--nodes=2'], 'needs --minutes'), (['--keep-days=-1'], '--keep-days: expected 0 or more, found -1'),
        (['--evidence=-0.5'], '--evidence: expected 0 or more, found -0.5'), (['--evidence=nan'], 'found nan'),
    ],
)  # fmt: skip
def test_numbers_of_options_have_a_least_and_nodes_go_with_minutes(words, wrong, capsys):
    with pytest.raises(SystemExit):
        parse(words)
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize(
    'option', ['--publish={}/file', '--artifacts={}/file', '--prometheus={}/none/x', '--prometheus={}']
)
def test_a_place_that_cannot_be_written_is_refused_before_the_night(option, tmp_path, capsys):
    (tmp_path / 'file').touch()
    with pytest.raises(SystemExit):
        parse([option.format(tmp_path)])
    assert f'{option.partition("=")[0]}: expected a f' in capsys.readouterr().err and not (tmp_path / 'no').exists()


def test_artifacts_where_no_folder_can_be_made_are_a_usage_error(world, capsys):
    assert world.night('--artifacts=/proc/nothing/x') == 2 and world.ran == []
    assert '--artifacts: /proc/nothing/x: No such file' in capsys.readouterr().err


# The whole command


@pytest.mark.parametrize(
    'words, code, is_new, told, printed, hint',
    [
        ([], 0, False, False, True, False), ([], 1, False, True, True, False), ([], 0, True, True, True, False),
        (['--quiet'], 0, False, False, False, True), (['--quiet'], 1, False, True, True, True),
        (['--quiet'], 0, True, True, True, True),
    ],
)  # fmt: skip
def test_a_night_that_is_ok_tells_nobody_and_a_quiet_one_prints_only_hints(
    words, code, is_new, told, printed, hint, world, capfd
):
    """Nothing answers at the address, so whoever is told of is named."""
    world.code, world.is_new, world.hints = code, is_new, ['record a baseline']
    world.monkeypatch.setenv(settings.NOTIFY.name, 'nosuch://address')
    with open(1, 'w', closefd=False) as stdout, redirect_stdout(stdout):
        assert world.night(*words) == code
    said = capfd.readouterr()
    assert ('a summary' in said.out, f'{settings.NOTIFY.name}: number 1' in said.err) == (printed, told)
    assert ('plumbline: record a baseline' in said.out) == (hint and not printed)


def test_artifacts_of_an_earlier_run_go_and_other_files_stay(tmp_path):
    folder = tmp_path / 'new/artifacts'
    NightlyRun(parse([f'--artifacts={folder}'])).clear_artifacts()
    for name in ('report.html', 'verdicts.md', 'verdicts.xml', 'other'):
        (folder / name).touch()
    NightlyRun(parse([f'--artifacts={folder}'])).clear_artifacts()
    assert [path.name for path in folder.iterdir()] == ['other']


@pytest.mark.parametrize(
    'site, words, mode, seconds',
    [
        ('s', [], 'nightly', 43200), ('localhost', [], 'quick', 7200),
        ('s', ['--mode=acceptance'], 'acceptance', 604800),
        ('s', ['--duration=10m', '--max-wait=2m', '-n', 'STREAM'], 'nightly', 600),
    ],
)  # fmt: skip
def test_the_mode_and_the_time_of_a_night(site, words, mode, seconds, world):
    world.monkeypatch.setenv(settings.SITE.name, site)
    night = NightlyRun(parse(['--no-provision', *words]))
    night.run(module.load_site(site), world.results)
    assert night.deadline - time.monotonic() == pytest.approx(seconds, abs=60)
    command = world.ran[-1][1]
    assert f'--system={site} --mode={mode}' in command
    assert ('-n STREAM -Smax_pending_time=120s' in command) == ('-n' in words)


def test_stacks_are_installed_by_a_process_that_can_be_found(tmp_path, monkeypatch):
    """A Python that says how it was started, and ends."""
    says = """\
import json, os, sys
json.dump([sys.orig_argv, dict(os.environ)], open(os.environ['SAID'], 'w'))
os._exit(0)
"""
    (tmp_path / 'sitecustomize.py').write_text(says)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.setenv('SAID', str(tmp_path / 'said'))
    module.provision(tmp_path, '--only-packages')
    words, variables = json.loads((tmp_path / 'said').read_text())
    assert words[1:] == ['-m', 'ci.provision', '--only-packages']
    assert variables[settings.OWNER.name] == module.owner_of(tmp_path)


# What is measured


def test_a_night_tells_how_long_it_should_take_and_learns_what_it_took(world, capsys):
    Seconds({'aa s:p+e': 100.0, 'bb s:p+e': 20.0}).write(world.results)
    world.reframe.lists('a', 'b', warning='WARNING: skipping test file c.py: no module')
    world.reframe.ends('echo "WARNING: skipping test file c.py: no module"; echo "WARNING: skipping test file d.py: x"')
    world.reframe.reports(case('a', time_run=7.0), case('b', 'fail', fail_phase='performance', time_run=9.0))
    assert world.night() == 0
    said = capsys.readouterr().out
    assert 'site s, mode nightly: 2 cases, about 2 min by' in said and 'took 0 s, expected about 2 min by' in said
    assert Seconds.read(world.results).took == {'aa s:p+e': 7.0, 'bb s:p+e': 20.0}
    assert world.steps == [('store',), ('in doubt',)] and [cases for cases, _ in world.ran] == ['all']
    ((_, expected, problems),) = world.stored
    assert expected == 2 and ['c.py' in problem for problem in problems] == [True, False], 'each is told once'
    assert not (world.results / UNFINISHED).exists()
    assert (world.results / 'summary.txt').read_text() == 'a summary\nplumbline: a node\n'


@pytest.mark.parametrize(
    'site, words, steps',
    [
        ('s', [], ['provision', 'store']), ('s', ['--no-provision'], ['store']),
        ('localhost', [], ['provision --only-packages', 'store', 'provision']),  # a verdict within minutes
        ('localhost', ['--no-provision'], ['store']),
    ],
)  # fmt: skip
def test_a_machine_without_a_site_file_measures_what_is_there_before_it_builds(site, words, steps, world):
    world.monkeypatch.setenv(settings.SITE.name, site)
    NightlyRun(parse(['--no-retry', *words])).run(module.load_site(site), world.results)
    assert [' '.join(step) for step in world.steps] == steps


@pytest.mark.parametrize(
    'signal, steps', [
    ('', ['store', 'in doubt', 'provision']), ('kill -SEGV $$', ['store', 'in doubt', 'provision']),
    ('sleep 0.3; kill -TERM $PPID; exec sleep 60', ['store']),
])  # fmt: skip
def test_no_stack_is_built_and_nothing_runs_again_behind_a_night_that_was_told_to_end(signal, steps, world, capsys):
    world.reframe.reports(case('a'), case('b', 'abort'))
    world.reframe.ends(signal)
    world.monkeypatch.setenv(settings.SITE.name, 'localhost')
    world.night(provisions=True)
    assert [' '.join(step) for step in world.steps][1:] == steps
    reruns = [cases for cases, words in world.ran if '-retry' in words]
    assert reruns == ['b'] * len(reruns) and ('provision' in steps) == bool(reruns)
    (why,) = world.stored[-1][2] or ['']
    assert ('1 of 2 cases' in why) == bool(signal) != ('the cases took' in capsys.readouterr().out)


def test_a_night_whose_time_is_used_up_runs_no_failed_case_again(world):
    world.reframe.reports(case('a', 'fail'), case('b'))
    world.reframe.ends('trap "exit 1" INT; sleep 2')
    world.night('--duration=1s')
    assert len(world.ran) == 1


def test_a_night_of_minutes_runs_what_is_chosen(world, capsys):
    world.plan_of = {('p', 'e', 'b')}
    world.night('--minutes=7', '--nodes=3', '--no-retry')
    assert [cases for cases, _ in world.ran] == ['b'] and '1 case of 2 in 7 minutes' in capsys.readouterr().out
    ((content, expected, _),) = world.stored
    assert expected == 1 and json.loads(content['session_info']['plumbline_narrowed_by']) == ['minutes=7']
    assert json.loads(content['session_info']['plumbline_plan']) == [['bb', 's:p+e']]


# A night that was killed


def test_a_killed_night_is_resumed_with_the_cases_that_are_left(world, capsys):
    world.killed(case('a'))
    world.reframe.reports(case('b'))
    assert world.night() == 0
    assert [cases for cases, _ in world.ran] == ['b'] and len(world.stored) == 1
    assert names(world.stored[0][0]) == ['a', 'b']
    assert 'resumes the session of killed: 1 of them are done' in capsys.readouterr().out


def depends(world):
    """Let b depend on a."""
    listed = '- b /bb @s:p+e\n    ^a /aa @s:p+e\nConcretized 2 test case(s)\n'
    (world.reframe.folder / 'listed').write_text(listed)


@pytest.mark.parametrize('words', [[], ['--no-retry']])
def test_a_killed_night_runs_what_a_case_that_is_left_depends_on_once_more(words, world):
    depends(world)
    world.killed(case('a', 'fail'))
    world.reframe.reports(case('a'), case('b'))
    assert world.night(*words) == 0
    assert [cases for cases, _ in world.ran] == ['ab']
    first, again = world.stored[0][0]['runs']
    assert [(one['display_name'], one['result']) for one in first['testcases']] == [('a', 'fail')]
    assert [(one['display_name'], one['plumbline_purpose']) for one in again['testcases']] == [
        ('a', 'rest'), ('b', 'rest'),
    ]  # fmt: skip


def test_a_night_of_minutes_chooses_no_case_whose_dependencies_it_does_not_run(world):
    depends(world)
    world.reframe.reports(case('a'))
    for chosen, ran in (('ab', 'ab'), ('a', 'a')):
        world.plan_of = {('p', 'e', name) for name in chosen}
        world.night('--minutes=7', '--nodes=3', '--no-retry')
        assert world.stored[-1][1] == len(ran)
    world.plan_of = {('p', 'e', 'b')}
    assert world.night('--minutes=7', '--nodes=3') == 2


def test_a_killed_night_of_minutes_goes_on_with_what_was_chosen_then(world, capsys):
    session = world.killed(case('b'), narrowed_by=('minutes=7',))
    planned.record(session, {('bb', 's:p+e')})
    session.remember()
    world.plan_of = {('p', 'e', 'a')}
    world.night('--minutes=7', '--nodes=3')
    assert world.ran == [] and 'nightly: 1 case of 2 in 7 minutes' in capsys.readouterr().out
    assert json.loads(world.stored[0][0]['session_info']['plumbline_plan']) == [['bb', 's:p+e']]


@pytest.mark.parametrize('words, done, stored', [(['--no-resume'], 1, 1), (['--mode=quick'], 1, 1), ([], 0, 0)])
def test_a_killed_night_that_is_not_resumed_is_stored(words, done, stored, world):
    session = world.killed(*[case('a')] * done)
    world.night('--no-retry', *words)
    assert world.ran[-1][0] == 'all' and not session.journal.exists() and len(world.stored) == 1 + stored
    if stored:
        content, expected, (why,) = world.stored[0]
        assert names(content) == ['a'] and expected == 2 and 'killed after 1 of 2 cases' in why


@pytest.mark.parametrize('results, is_kept', [(['abort'], False), (['abort', 'fail'], True)])
def test_what_was_ended_before_its_first_case_did_leaves_no_report(results, is_kept, world):
    session = world.killed()
    cases = [case(name, result) for name, result in zip('ab', results, strict=False)]
    session.report.write_text(json.dumps({'session_info': {}, 'runs': [{'testcases': cases}]}))
    world.night('--no-retry')
    assert len(world.stored) == 1 and session.report.exists() is is_kept


@pytest.mark.parametrize('number, by_a_person', [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_ctrl_c_between_two_runs_of_reframe_is_no_kill(number, by_a_person, world):
    def told(*_):
        raise Signalled(number)

    world.killed(case('a'))
    world.monkeypatch.setattr(measuring, 'complete', told)
    assert world.night() == 128 + number
    assert (PlannedSession.unfinished(world.results).ended_by == signal.SIGINT) is by_a_person


@pytest.mark.parametrize('number, judged, code', [('INT', 0, 130), ('TERM', 1, 0)])
def test_a_night_that_is_ended_in_its_further_jobs_runs_no_others(number, judged, code, world):
    """Of a time limit, what was measured is judged; after Ctrl-C the next night goes on from there."""
    world.reframe.reports(case('a', 'fail'), case('b'))
    world.reframe.ends(f'case "$*" in *-retry*) sleep 0.3; kill -{number} $PPID; exec sleep 60 ;; esac')
    assert world.night('--no-resume') == code
    assert '-retry' in world.ran[-1][1] and len(world.stored) == judged
    assert (world.results / UNFINISHED).exists() is not bool(judged)


# Where nothing ran


DESCRIBED = [
    {'name': 'HPL %x=1', 'features': ['hpl'], 'tags': ['nightly']}, {'name': 'OSU', 'features': [], 'tags': ['quick']},
]  # fmt: skip


@pytest.mark.parametrize(
    'words, described, named, absent',
    [
        ([], True, ['no case can run here in mode nightly;'], ['with the options', 'requires', 'did you mean']),
        (['-n', '^HPC$'], True,
         ['options -n', 'did you mean', 'HPL: requires the feature hpl: ', 'site s has it', 'OSU: requires'], []),
        (['-n', 'HPL'], False, ['s: site.yaml describes no processor of p: no case exists there'], ['requires']),
    ],
)  # fmt: skip
def test_a_night_without_a_case_says_what_is_missing(words, described, named, absent, world, capsys):
    (world.reframe.folder / 'checks').write_text(f'a banner\n{json.dumps(DESCRIBED)}'.replace('[{', '[\n{', 1))
    world.describe(PROCESSOR if described else '')
    world.reframe.lists(warning='WARNING: skipping test file c.py: no module')
    world.reframe.reports()
    assert world.night(*words) == 1 and world.stored == [] and not (world.results / UNFINISHED).exists()
    said = capsys.readouterr().err
    assert [name for name in (*named, 'c.py: no module') if name not in said] == [], said
    assert [name for name in absent if name in said] == []


def test_a_night_without_an_environ_says_so(world, capsys):
    world.site_file.write_text(world.site_file.read_text().replace('environs: [e]', 'environs: []'))
    world.reframe.lists()
    world.reframe.reports()
    assert world.night() == 1 and 's: site.yaml gives p no environs: no case exists there' in capsys.readouterr().err


def test_a_reframe_that_runs_nothing_and_ends_well_is_no_night(world, capsys):
    (world.reframe.folder / 'report').unlink()
    assert world.night() == 1 and world.stored == []
    assert 'ReFrame ended with exit code 0 and wrote no report' in capsys.readouterr().err


# What runs again


@pytest.mark.parametrize(
    'first, after, reason, said',
    [
        ('fail', 'pass', 'a reason', 'a passed when it ran again; before: a reason\n'),
        ('fail', 'fail', 'a reason', ''),
        ('fail', 'pass', 'x' * 300, f'before: {"x" * 200}\n'), ('error', 'pass', None, 'before: error\n'),
    ],
)  # fmt: skip
def test_a_case_that_failed_runs_once_more(first, after, reason, said, world, capsys):
    world.reframe.reports(case('a', after))
    (world.reframe.folder / 'report').rename(world.reframe.folder / 'after')
    world.reframe.reports(case('a', first, fail_reason=reason), case('b'))
    world.reframe.ends('cp after report')
    world.night()
    printed = capsys.readouterr().out
    assert [cases for cases, _ in world.ran[-2:]] == ['all', 'a'] and 'runs 1 failed case once more' in printed
    assert ('passed when' in printed) == bool(said) and said in printed
    assert [one['result'] for run in world.stored[0][0]['runs'] for one in run['testcases']] == [first, 'pass', after]


# The verdict


@pytest.mark.parametrize(
    'code, faults, fault, exit_code',
    [(0, [], '', 0), (1, [], '', 1), (3, ['x'], '', 3), (0, ['x'], '', 1), (0, [], 'full disk', 1)],
)
def test_the_exit_code_is_that_of_the_verdict_or_of_what_was_not_written(
    code, faults, fault, exit_code, world, tmp_path, capsys
):
    world.code, world.faults, world.fault = code, faults, fault
    folder, metrics = tmp_path / 'artifacts', tmp_path / 'node.prom'
    assert world.night(f'--artifacts={folder}', f'--publish={tmp_path}', f'--prometheus={metrics}') == exit_code
    # the page of today may lack a part
    assert sorted(path.name for path in folder.iterdir()) == [*['report.html'] * (not faults), 'verdicts.xml']
    assert metrics.read_text() == f'{exit_code}'
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if line == 'plumbline: x'] == ['plumbline: x'] * len(faults)
    assert 'published: u' in said.out and ('was not published: full disk' in said.err) == bool(fault)


@each_row('again, results, is_whole', [('pass', ['pass', 'pass'], True), ('abort', ['pass', 'abort'], False)])
def test_a_session_of_which_the_retry_measured_the_rest_came_to_its_end(
    again, results, is_whole, monkeypatch, tmp_path, capsys
):
    """ReFrame is killed while b runs."""
    world = World(monkeypatch, tmp_path / again)
    world.reframe.reports(case('b', again))
    (world.reframe.folder / 'report').rename(world.reframe.folder / 'rest')
    world.reframe.reports(case('a'), case('b', 'abort'))
    world.reframe.ends('case "$*" in *-retry*) cp rest "$file" ;; *) kill -KILL $$ ;; esac')
    world.night()
    content, expected, problems = world.stored[-1]
    assert [one['result'] for run in content['runs'] for one in run['testcases']] == results and expected == 2
    assert problems == [] if is_whole else 'ReFrame was ended by SIGKILL after 1 of 2 cases' in problems[0]
    assert ('SIGKILL; the cases that were left have run' in capsys.readouterr().out) == is_whole

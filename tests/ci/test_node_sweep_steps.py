# SPDX-License-Identifier: BSD-3-Clause
"""The steps of a node sweep: the nodes of an allocation, its time, what ends it, and what is said of the rest."""

import itertools
import json
import os
import subprocess
import time
from types import SimpleNamespace

import pytest
from rows import each_row
from test_sweep import ONE, TWO, record
from test_sweep import entry as swept

from ci import node_sweep as module
from ci import session
from ci.node_sweep import NODES, NodeSweep, parse, partition_of
from ci.process import Ended
from ci.session import CaseSelection, PlannedSession, case_of
from ci.slurm_nodes import NodeOut
from ci.sweep import PART, STATE, Allocation, Sweep
from plumbline import settings
from plumbline.errors import InputError
from plumbline.signals import Signalled
from plumbline.site.sites import Partition, Site


def site_of(*slurm: str) -> Site:
    entries = {name: {'scheduler': 'slurm', 'access': ['-p compute', '-A me']} for name in slurm}
    partitions = {name: Partition(name, entry) for name, entry in ({'own': {'scheduler': 'local'}} | entries).items()}
    return Site('s', '', (), partitions, {})


def test_the_partition_is_the_named_one_or_the_only_one_with_slurm():
    assert partition_of(site_of('p'), None).name == 'p'
    assert partition_of(site_of('p', 'q'), 'q').name == 'q'
    for site, name, found in (
        (site_of('p', 'q'), None, 'p, q'), (site_of('p'), 'own', 'own'), (site_of(), None, 'no partition'),
    ):  # fmt: skip
        with pytest.raises(InputError, match=found):
            partition_of(site, name)


def test_the_defaults_of_the_command_line():
    found = parse([])
    assert (found.mode, found.max_nodes, found.time_limit, found.rounds, found.anew) == (
        'quick',
        None,
        3600,
        None,
        False,
    )
    found = parse(['--max-nodes=4', '--time-limit=90m', '--rounds=2', '--anew'])
    assert (found.max_nodes, found.time_limit, found.rounds, found.anew) == (4, 5400, 2, True)


@each_row('option', ['--max-nodes=0', '--rounds=0', '--time-limit=soon'])
def test_a_number_that_cannot_be_is_refused(option, capsys):
    with pytest.raises(SystemExit, match='2'):
        parse([option])
    assert f'argument {option.partition("=")[0]}: expected ' in capsys.readouterr().err


@pytest.fixture
def slurm(monkeypatch):
    """Slurm and ReFrame as the sweep meets them: `free` nodes, all `nodes`, those `out`, and the `cases` of ReFrame."""
    found = SimpleNamespace(free=['n1', 'n2', 'n3'], nodes=[], out=[], cases={ONE: 'one'}, single={}, problems=[])
    monkeypatch.setattr(CaseSelection, '_checks', ([], []))
    stamps = (f'stamp{number}' for number in itertools.count())  # those of a second would wait for each other
    monkeypatch.setattr(session, '_stamp_now', lambda: next(stamps))
    monkeypatch.setattr(module, 'free_nodes', lambda _: list(found.free))
    monkeypatch.setattr(module, 'nodes_of', lambda *_: [(name, '') for name in found.nodes])
    monkeypatch.setattr(module, 'nodes_out', lambda _: found.out)

    def list_cases(_, variables):
        of_one_node = variables.get(settings.NODE_SWEEP_ROUNDS.name) == '0'
        return dict(found.single if of_one_node else found.cases), found.problems

    monkeypatch.setattr(CaseSelection, 'list_cases', list_cases)
    for name in ('SLURM_JOB_ID', settings.NODE_SWEEP_ROUNDS.name):
        monkeypatch.delenv(name, raising=False)
    return found


def sweep_of(results, *words: str) -> NodeSweep:
    for folder in ('logs', 'reports/parts'):
        (results / folder).mkdir(parents=True, exist_ok=True)
    return NodeSweep(site_of('p'), parse(list(words)), results)


# Before an allocation


@each_row('inside, left', [(True, ['SLURM_CONF']), (False, ['SLURM_CONF', 'SLURM_NTASKS'])])
def test_in_a_job_its_variables_but_for_the_configuration_are_removed(inside, left, slurm, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith('SLURM_')]:
        monkeypatch.delenv(name)
    monkeypatch.setenv('SLURM_CONF', '/etc/slurm.conf')
    monkeypatch.setenv('SLURM_NTASKS', '8')
    if inside:
        monkeypatch.setenv('SLURM_JOB_ID', '7')
    sweep_of(tmp_path)
    assert sorted(name for name in os.environ if name.startswith('SLURM_')) == left


def test_the_rounds_of_pairs_are_told_to_the_checks(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv(settings.NODE_SWEEP_ROUNDS.name, '9')
    sweep_of(tmp_path)
    assert os.environ[settings.NODE_SWEEP_ROUNDS.name] == '9'
    sweep_of(tmp_path, '--rounds=2')
    assert os.environ[settings.NODE_SWEEP_ROUNDS.name] == '2'


@each_row('words, resumed', [([], True), (['--anew'], False), (['--mode=nightly'], False)])
def test_a_sweep_that_was_killed_is_resumed_or_stored(words, resumed, slurm, tmp_path, monkeypatch):
    stored = []
    monkeypatch.setattr(
        NodeSweep, '_store', lambda _, sweep, content: stored.append((sweep.uuid, content['session_info']['uuid']))
    )
    left = Sweep.new(CaseSelection('s:p', 'quick', (), ('node_sweep',)))
    left.cases, left.nodes = {ONE: 'one'}, ['n1']
    left.parts.append(Allocation(PlannedSession.new(tmp_path, CaseSelection('s:p', 'quick'), 0, 'stamp'), ['n1']))
    left.remember(tmp_path)
    found = sweep_of(tmp_path, *words).sweep
    assert (found.uuid == left.uuid) == (tmp_path / STATE).exists() == resumed
    assert stored == ([] if resumed else [(left.uuid, left.uuid)])


def test_no_sweep_begins_without_a_free_node_or_a_case(slurm, tmp_path):
    slurm.cases = {}
    with pytest.raises(InputError, match='no case is left'):
        sweep_of(tmp_path).run()
    slurm.free = []
    with pytest.raises(InputError, match='s:p: no node is free'):
        sweep_of(tmp_path).run()


# 400 nodes are 200 pairs at once, in 399 rounds: 79,800 of one case. 300 nodes are 150 in 299: 44,850.
# The limit itself, 50,000, is 200 pairs in 250 rounds
@each_row(
    'nodes, single, pairs, rounds, refused',
    [
        (300, 1, 1, None, 2), (400, 1, 1, None, 1), (400, 2, 0, None, 0), (300, 0, 1, None, 0), (400, 0, 1, 250, 0),
        (400, 0, 1, 251, 1), (400, 0, 1, 1, 0), (2, 30000, 30000, 1, 0), (100002, 0, 2, 1, 0),
    ],
)  # fmt: skip
def test_too_many_pairs_of_nodes_are_refused_with_the_rounds_that_would_do(
    nodes, single, pairs, rounds, refused, slurm, tmp_path, monkeypatch
):
    slurm.single = {(f'single{number}', ''): '' for number in range(single)}
    slurm.cases = slurm.single | {(f'pair{number}', ''): '' for number in range(pairs)}
    sweep = sweep_of(tmp_path)
    if rounds:
        monkeypatch.setenv(settings.NODE_SWEEP_ROUNDS.name, str(rounds))
    else:
        monkeypatch.delenv(settings.NODE_SWEEP_ROUNDS.name, raising=False)
    names = [f'n{number}' for number in range(nodes)]
    if refused == 1:
        with pytest.raises(InputError, match=f'--rounds {50000 // (nodes // 2) // pairs} or less'):
            sweep._cases_on(names)
    else:
        assert sweep._cases_on(names) == slurm.cases
        assert (tmp_path / NODES).read_text().split() == names


# The run


class Measured:
    """The allocations of a sweep, which `_measure` would hold: the nodes and cases of each."""

    def __init__(self, monkeypatch, then=lambda nodes: ''):
        self.parts, self.ended = [], []
        monkeypatch.setattr(NodeSweep, '_measure', lambda _, *given: self.measure(*given))
        monkeypatch.setattr(NodeSweep, '_conclude', lambda _, ended: self.ended.append(ended) or 0)
        self.then = then

    def measure(self, nodes, cases):
        self.parts.append((nodes, cases))
        return self.then(nodes)


@pytest.fixture
def measured(monkeypatch):
    return Measured(monkeypatch)


def test_allocations_follow_each_other_until_each_node_had_its_turn(slurm, measured, tmp_path, capsys):
    slurm.nodes = ['n1', 'n2', 'n3', 'busy', 'lost']
    slurm.out = [NodeOut('lost', 'p', 'down', ''), NodeOut('theirs', 'q', 'down', ''), NodeOut('m', 'p', 'maint', '')]
    slurm.problems = ['a check file is not valid']
    sweep = sweep_of(tmp_path, '--max-nodes=2')
    assert sweep.run() == 0
    assert measured.parts == [(['n1', 'n2'], None), (['n3'], None)] and measured.ended == ['']
    assert sweep.sweep.nodes == ['n1', 'n2', 'n3'] and sweep.sweep.absent == {} and sweep.sweep.cases == {ONE: 'one'}
    assert (tmp_path / NODES).read_text() == 'n1\nn2\n', 'cases are listed for as many nodes as one allocation has'
    said = capsys.readouterr().out
    assert 'busy, not measured: busy\n' in said and '1 cases on each of 3 free nodes' in said
    assert 'left out: lost' in said and 'left out: m' in said and 'theirs' not in said and 'resumes' not in said
    assert [*map(str, sweep.problems)] == ['a check file is not valid', 'lost of p is down, but not drained']


def test_nodes_that_are_busy_by_their_turn_are_absent(slurm, monkeypatch, tmp_path, capsys):
    def take(nodes):
        slurm.free = []
        return ''

    measured = Measured(monkeypatch, take)
    sweep = sweep_of(tmp_path, '--max-nodes=1')
    sweep.run()
    assert measured.parts == [(['n1'], None)] and measured.ended == ['']
    assert list(sweep.sweep.absent) == ['n2', 'n3']
    assert 'busy' not in capsys.readouterr().out


def test_no_allocation_follows_one_that_a_signal_ended(slurm, monkeypatch, tmp_path):
    measured = Measured(monkeypatch, lambda nodes: 'interrupted')
    sweep_of(tmp_path, '--max-nodes=1').run()
    assert measured.parts == [(['n1'], None)] and measured.ended == ['interrupted']

    def told(nodes):
        raise Signalled(15)

    measured = Measured(monkeypatch, told)
    sweep_of(tmp_path).run()
    assert measured.ended == ['ended by SIGTERM']


def test_a_resumed_sweep_runs_what_is_missing_and_nodes_that_are_new(slurm, measured, tmp_path, capsys):
    """n1 has both cases, n2 lacks the second, n3 is new."""
    sweep = sweep_of(tmp_path)
    part = Allocation(PlannedSession.new(tmp_path, sweep.selection, 0, 'stamp'), ['n1', 'n2'], why='interrupted')
    late = record('n2', code=None, state='CANCELLED')
    info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
    cases = [swept('one', record('n1'), record('n2')), swept('two', record('n1'), late)]
    part.session.part(PART).write_text(json.dumps({'session_info': info, 'runs': [{'testcases': cases}]}))
    sweep.sweep.nodes, sweep.sweep.cases, sweep.sweep.parts = ['n1', 'n2'], {ONE: 'one', TWO: 'two'}, [part]
    sweep.run()
    assert measured.parts == [(['n2'], [TWO]), (['n3'], None)]
    assert sweep.sweep.round == 1
    assert 'resumes a node sweep: 1 node done, 1 not yet' in capsys.readouterr().out
    slurm.free = []
    sweep.sweep.nodes = ['n1', 'n2']
    assert sweep.run() == 0, 'what is resumed needs no free node to begin'


# An allocation


class Job:
    """What salloc says, how ReFrame ends in the job, and the state that squeue tells then."""

    def __init__(self, monkeypatch, said='salloc: Granted job allocation 42\n', ended=None, state='RUNNING\n'):
        self.said, self.ended, self.state, self.asked, self.below = said, ended or Ended(), state, [], []
        monkeypatch.setattr(module.subprocess, 'run', self.salloc)
        monkeypatch.setattr(module, 'ask', self.ask)
        monkeypatch.setattr(module, 'cancel_jobs_below', self.below.append)
        monkeypatch.setattr(PlannedSession, 'run', lambda _, *given: self.run(*given))

    def salloc(self, words, **options):
        self.words, self.cwd = words, options['cwd']
        return subprocess.CompletedProcess(words, 0, '', self.said)

    def ask(self, *words):
        self.asked.append(words[0])
        return self.state if words[0] == 'squeue' else ''

    def run(self, deadline, cases, part, variables):
        self.deadline, self.cases, self.part, self.variables = deadline - time.monotonic(), cases, part, variables
        if isinstance(self.ended, BaseException):
            raise self.ended
        return self.ended


@each_row('limit, minutes, until', [('1h', 60, 3540), ('90s', 1, 45), ('30s', 1, 15), ('2m', 2, 60)])
def test_a_job_holds_the_nodes_for_the_time_limit_and_reframe_may_read_longer(
    limit, minutes, until, slurm, tmp_path, monkeypatch
):
    """The trials end a minute before the job does, or at half of its time."""
    job, sweep = Job(monkeypatch), sweep_of(tmp_path, f'--time-limit={limit}')
    sweep.options = ['--nice=3']
    assert sweep._measure(['n1', 'n2'], None) == '' and sweep.problems == []
    assert {'--nodes=2', f'--time={minutes}', f'--nodelist={tmp_path / NODES}', '--nice=3', '-A', 'me'} <= {*job.words}
    assert (tmp_path / NODES).read_text() == 'n1\nn2\n' and f'--chdir={job.cwd}' in job.words
    assert job.cases is None and job.part == PART and job.variables['SLURM_JOB_ID'] == '42'
    assert int(job.variables[settings.NODE_SWEEP_UNTIL.name]) == pytest.approx(time.time() + until, abs=3)
    assert job.deadline == pytest.approx(sweep.time_limit + 1800, abs=3)
    assert job.asked == ['squeue', 'scancel'] and job.below == [job.cwd]


@each_row(
    'state, ended, why, stops',
    [
        ('RUNNING\n', Ended(), '', ''), (None, Ended(), '', ''), ('', Ended(), '', ''),
        ('PREEMPTED\n', Ended(), 'job 42 ended in state PREEMPTED', ''),
        ('PREEMPTED\n', Ended(why='no time'), 'no time', ''),
        ('RUNNING\n', Ended(why='told', by_signal=True), 'told', 'told'),
        ('', Signalled(2), 'interrupted', 'interrupted'),
    ],
)  # fmt: skip
def test_what_ended_an_allocation_and_whether_another_follows(state, ended, why, stops, slurm, tmp_path, monkeypatch):
    job, sweep = Job(monkeypatch, ended=ended, state=state), sweep_of(tmp_path)
    sweep.sweep.round = 3
    assert sweep._measure(['n1'], [ONE]) == stops
    assert job.cases == {ONE: ()} and job.asked[-1] == 'scancel'
    (part,) = Sweep.unfinished(tmp_path).parts
    assert (part.why, part.nodes, part.cases, part.round) == (why, ['n1'], [ONE], 3)
    assert len(sweep.problems) == bool(why) and all(why in problem.text for problem in sweep.problems)
    for left in tmp_path.rglob('*'):  # the next row has a sweep of its own
        if left.is_file():
            left.unlink()


def test_without_a_job_salloc_is_quoted(slurm, tmp_path, monkeypatch):
    job = Job(monkeypatch, said='salloc: error:\n  no such node\n')
    sweep = sweep_of(tmp_path)
    assert sweep._measure(['n1'], None) == ''
    assert sweep.sweep.parts[0].why == 'salloc: error: no such node' and job.asked == []
    job.said = ''
    sweep._measure(['n2'], None)
    assert sweep.sweep.parts[1].why


# The end


@pytest.fixture
def judged(monkeypatch):
    """The verdict: its exit code, and the faults of the page. `stored`: how many cases of which problems."""
    found = SimpleNamespace(exit_code=0, summary='a summary\n', faults=[], stored=[], show=lambda: None)
    monkeypatch.setattr(
        module.outcome, 'store', lambda _, path, number, problems, site: found.stored.append((number, problems)) or []
    )
    monkeypatch.setattr(module.outcome, 'outcome_of', lambda *_: found)
    monkeypatch.setattr(module.outcome, 'look_back', lambda *_: found)
    return found


def measured_on(sweep: NodeSweep, *places: dict, nodes: list[str]):
    part = Allocation(PlannedSession.new(sweep.results, sweep.selection, 0, 'stamp'), nodes, why='')
    info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
    entry = swept('one', *places)
    part.session.part(PART).write_text(json.dumps({'session_info': info, 'runs': [{'testcases': [entry]}]}))
    sweep.sweep.nodes, sweep.sweep.cases, sweep.sweep.parts = list(nodes), {case_of(entry): 'one'}, [part]
    sweep.sweep.remember(sweep.results)
    return part


@each_row('code, faults, expected', [(0, [], 0), (1, [], 1), (3, ['x'], 3), (0, ['x'], 1)])
def test_a_whole_sweep_is_stored_judged_and_forgotten(code, faults, expected, slurm, judged, tmp_path, capsys):
    sweep, judged.exit_code, judged.faults = sweep_of(tmp_path), code, faults
    part = measured_on(
        sweep, record('n1'), record('n2', code=3, state='FAILED', faults=['exit code 3']), nodes=['n1', 'n2']
    )
    sweep.problems = ['a problem']
    assert sweep._conclude('') == expected
    assert not (tmp_path / STATE).exists()
    assert judged.stored[-1] == (2, ['a problem'])
    kept = json.loads(part.session.report.read_text())
    assert len(kept['runs'][0]['testcases']) == 2 and kept['session_info']['uuid'] == sweep.sweep.uuid
    said = capsys.readouterr()
    assert 'a summary' in said.out and f'plumbline fleet {sweep.sweep.uuid[:8]}' in said.out and said.err == ''
    assert 'n2: exit code 3' in said.out and 'nid=n1:' not in said.out, 'only what failed is named'
    for file in (part.session.report, part.session.part(PART)):
        file.unlink()


@each_row('code, expected', [(0, 1), (3, 3)])
def test_a_sweep_that_lacks_cases_is_kept_and_names_the_nodes(code, expected, slurm, judged, tmp_path, capsys):
    sweep, judged.exit_code = sweep_of(tmp_path), code
    late = [record(f'n{number}', code=None, state='CANCELLED') for number in (2, 3)]
    part = measured_on(sweep, record('n1'), *late, nodes=['n1', 'n2', 'n3'])
    assert sweep._conclude('interrupted') == expected
    said = capsys.readouterr().err
    assert 'interrupted; 2 cases did not run, on n2 n3; ' in said
    assert Sweep.unfinished(tmp_path) == sweep.sweep
    assert sweep._conclude('') == expected and 'plumbline: 2 cases' in capsys.readouterr().err
    for file in (part.session.report, part.session.part(PART)):
        file.unlink()


@each_row('ended, said', [('interrupted', 'plumbline: interrupted\n'), ('', '2 nodes were not measured')])
def test_where_no_allocation_began_only_why_is_said(ended, said, slurm, judged, tmp_path, capsys):
    sweep = sweep_of(tmp_path)
    sweep.sweep.absent = {'n1': '', 'n2': ''}
    assert sweep._conclude(ended) == 1 and judged.stored == []
    printed = capsys.readouterr().err
    assert said in printed and printed.endswith('n1 n2\n') != bool(ended)


def test_of_many_nodes_twenty_are_named():
    names = [f'n{number}' for number in range(22)]
    assert module._some(names[:20]).split() == names[:20]
    assert module._some(names[:21]).split() == [*names[:20], 'and', '1', 'more']
    assert module._some(names).endswith(' n19 and 2 more')

# SPDX-License-Identifier: BSD-3-Clause
"""The steps of a node sweep: the nodes of an allocation, its time, what ends it, and what is said of the rest.

`tests/end_to_end/test_node_sweep.py` has node sweeps of a real Slurm; here programs answer as it would.
"""

import json
import os
import time
from types import SimpleNamespace

import pytest
from rows import each_row
from stand_ins import ReFrame, Slurm, no_files_of_checks
from test_sweep import entry, record

from ci import node_sweep as module
from ci.cases import cases_in
from ci.node_sweep import NODES, NodeSweep, parse, partition_of
from ci.session import CaseSelection, PlannedSession
from ci.sweep import STATE, Allocation, Sweep
from plumbline import settings
from plumbline.errors import InputError
from plumbline.site.sites import Partition, Site

ROUNDS = settings.NODE_SWEEP_ROUNDS.name


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


@each_row('option', ['--max-nodes=0', '--rounds=0', '--time-limit=soon'])
def test_a_number_that_cannot_be_is_refused(option, capsys):
    with pytest.raises(SystemExit, match='2'):
        parse([option])
    assert f'argument {option.partition("=")[0]}: expected ' in capsys.readouterr().err


class Fleet:
    """The partition p of three free nodes, and a ReFrame with one case a. `stored`: its number of cases and problems.

    The verdict has `code` and `faults`.
    """

    def __init__(self, monkeypatch, folder):
        self.results = folder / 'results'
        for below in (folder / 'bin', self.results / 'logs', self.results / 'reports/parts'):
            below.mkdir(parents=True)
        self.slurm, self.reframe = Slurm(folder / 'bin'), ReFrame(folder / 'bin')
        self.free('n1', 'n2', 'n3')
        self.slurm.runs('salloc', f'cat {self.results / NODES} >> held; echo "Granted job allocation 42" >&2')
        self.is_then('RUNNING')
        self.slurm.runs('scancel', '')
        self.reframe.lists('a')
        self.code, self.faults, self.stored = 0, [], []
        for name in [name for name in os.environ if name.startswith('SLURM_')]:
            monkeypatch.delenv(name)
        monkeypatch.delenv(ROUNDS, raising=False)
        monkeypatch.setenv('PATH', f'{folder / "bin"}:/usr/bin:/bin')
        no_files_of_checks(monkeypatch)
        for step in ('so_far.store', 'outcome.outcome_of', 'outcome.look_back'):
            monkeypatch.setattr(f'ci.{step}', getattr(self, step.partition('.')[2]))

    def free(self, *nodes: str, **others: str):
        """These nodes are idle, the others in the state that is given."""
        states = {**dict.fromkeys(nodes, 'idle'), **others}
        (self.slurm.folder / 'states').write_text(
            ''.join(f'{name}|{state}|root|none\n' for name, state in states.items())
        )
        self.slurm.runs('sinfo', 'case "$*" in *%E*) cat states ;; *) cut -d"|" -f1,2 states ;; esac')

    def is_then(self, state: str):
        """After ReFrame, the job is in this state."""
        self.slurm.runs('squeue', f'case "$*" in *states=all*) echo {state} ;; esac')

    def sweep(self, *words: str) -> NodeSweep:
        return NodeSweep(site_of('p'), parse(list(words)), self.results)

    @property
    def held(self) -> list[str]:
        """The nodes of all allocations, one after the other."""
        held = self.slurm.folder / 'held'
        return held.read_text().split() if held.exists() else []

    @property
    def why(self) -> str:
        """Why the last allocation of the sweep that waits to be resumed ended."""
        return Sweep.unfinished(self.results).parts[-1].why

    def store(self, results, report, number, problems, site=None) -> list[str]:
        self.stored.append((json.loads(report.read_text()), number, [*map(str, problems)]))
        return ['stored']

    def outcome_of(self, results, uuid, junit):
        return SimpleNamespace(exit_code=self.code, summary='a summary\n')

    def look_back(self, results, uuid):
        return module.outcome.LookBack([], self.faults, False)


@pytest.fixture
def fleet(monkeypatch, tmp_path):
    return Fleet(monkeypatch, tmp_path)


def measured(name: str, *places: dict) -> dict:
    return entry(name, *places, hashcode=name * 2)


# Before an allocation


@each_row('inside, left', [(True, ['SLURM_CONF']), (False, ['SLURM_CONF', 'SLURM_NTASKS'])])
def test_in_a_job_its_variables_but_for_the_configuration_are_removed(inside, left, fleet, monkeypatch):
    monkeypatch.setenv('SLURM_CONF', '/etc/slurm.conf')
    monkeypatch.setenv('SLURM_NTASKS', '8')
    if inside:
        monkeypatch.setenv('SLURM_JOB_ID', '7')
    fleet.sweep()
    assert sorted(name for name in os.environ if name.startswith('SLURM_')) == left


@each_row('words, resumed', [([], True), (['--anew'], False), (['--mode=nightly'], False)])
def test_a_sweep_that_was_killed_is_resumed_or_stored(words, resumed, fleet):
    fleet.stored.clear()
    left = Sweep.new(CaseSelection('s:p', 'quick', (), ('node_sweep',)))
    left.cases, left.nodes = {('aa', 's:p+e'): 'a'}, ['n1']
    left.parts.append(Allocation(PlannedSession.new(fleet.results, CaseSelection('s:p', 'quick'), 0, 'old'), ['n1']))
    left.remember(fleet.results)
    found = fleet.sweep(*words).sweep
    assert (found.uuid == left.uuid) == (fleet.results / STATE).exists() == resumed
    assert [content['session_info']['uuid'] for content, *_ in fleet.stored] == ([] if resumed else [left.uuid])


def test_no_sweep_begins_without_a_free_node_or_a_case(fleet):
    fleet.reframe.lists()
    with pytest.raises(InputError, match='no case is left'):
        fleet.sweep().run()
    fleet.free(n1='allocated')
    with pytest.raises(InputError, match='s:p: no node is free'):
        fleet.sweep().run()


def test_a_slurm_that_does_not_answer_is_told_apart_from_nodes_that_are_not_free(fleet):
    fleet.free()
    fleet.slurm.runs('sinfo', 'echo "Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(InputError, match='s:p: Slurm did not answer, or has no node'):
        fleet.sweep().run()


# 400 nodes are 200 pairs at once, in 399 rounds: 79,800 of one case. 300 nodes are 150 in 299: 44,850.
# The limit itself, 50,000, is 200 pairs in 250 rounds
@pytest.mark.parametrize(
    ('nodes', 'single', 'pairs', 'rounds', 'refused'),
    [
        (300, 1, 1, None, False), (400, 1, 1, None, True), (400, 2, 0, None, False), (400, 0, 1, 250, False),
        (400, 0, 1, 251, True),
    ],
)  # fmt: skip
def test_too_many_pairs_of_nodes_are_refused_with_the_rounds_that_would_do(
    nodes, single, pairs, rounds, refused, fleet
):
    fleet.free(*(f'n{number}' for number in range(nodes)))
    fleet.slurm.runs('salloc', 'exit 1')
    fleet.reframe.lists(*'ab'[:single], rounds='0')
    fleet.reframe.lists(*'ab'[:single], *'c'[:pairs])
    words = [f'--rounds={rounds}'] if rounds else []
    if rounds:
        (fleet.slurm.folder / f'listed{rounds}').write_text((fleet.slurm.folder / 'listed').read_text())
    if refused:
        with pytest.raises(InputError, match='--rounds 250 or less'):
            fleet.sweep(*words).run()
    else:
        assert fleet.sweep(*words).run() == 1 and fleet.slurm.of('salloc')
    assert os.environ.get(ROUNDS) == (str(rounds) if rounds else None), 'the checks are told'


# The run


def test_allocations_follow_each_other_until_each_node_had_its_turn(fleet, capsys):
    busy = {f'busy{number}': 'allocated' for number in range(40)}
    fleet.free('n1', 'n2', 'n3', lost='down', m='maint', **busy)
    fleet.reframe.lists('a', warning='WARNING: skipping test file x.py: no module')
    sweep = fleet.sweep('--max-nodes=2')
    assert sweep.run() == 1
    assert fleet.held == ['n1', 'n2', 'n3'] and len(fleet.reframe.runs) == 2
    said = capsys.readouterr().out
    assert 'not measured: 40 nodes, busy[0-39]\n' in said and '1 cases on each of 3 free nodes' in said
    assert 'left out: lost' in said and 'left out: m' in said and 'resumes' not in said
    problems = fleet.stored[-1][2]
    assert 'x.py: no module' in problems[0] and problems[1] == 'lost of p is down, but not drained'
    assert len(problems) == 2


def test_nodes_that_are_busy_by_their_turn_are_not_measured(fleet, capsys):
    fleet.reframe.ends('sed -i s/idle/allocated/ states')
    sweep = fleet.sweep('--max-nodes=1')
    sweep.run()
    assert fleet.held == ['n1'] and [*sweep.sweep.absent] == ['n2', 'n3']
    assert 'did not run, on n1, n2, n3' in capsys.readouterr().err


def test_where_no_allocation_began_its_nodes_are_named(fleet, capsys):
    (fleet.slurm.folder / 'reframe').write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\nsed -i s/idle/allocated/ states\ncat listed\n'
    )
    assert fleet.sweep().run() == 1 and fleet.stored == []
    assert capsys.readouterr().err.endswith('no longer free: n1, n2, n3\n')


def test_a_resumed_sweep_runs_what_is_missing_and_nodes_that_are_new(fleet, capsys):
    """n1 is done, n2 was late, n3 is new."""
    fleet.free('n1', 'n2')
    fleet.reframe.reports(measured('a', record('n1'), record('n2', code=None, state='CANCELLED')))
    fleet.sweep().run()
    fleet.free('n1', 'n2', 'n3')
    fleet.reframe.reports(measured('a', record('n2'), record('n3')))
    resumed = fleet.sweep()
    assert resumed.run() == 0 and resumed.sweep.round == 1
    assert fleet.held == ['n1', 'n2', 'n2', 'n3']
    assert ['"aa"' in run for run in fleet.reframe.runs] == [False, True, False], 'only the cases that were missing'
    assert 'resumes a node sweep: 1 node done, 1 not yet' in capsys.readouterr().out
    assert fleet.stored[-1][1:] == (3, [])


def test_no_allocation_follows_one_that_a_signal_ended(fleet):
    fleet.reframe.ends('sleep 0.3; kill -TERM $PPID; exec sleep 60')
    fleet.sweep('--max-nodes=1').run()
    assert fleet.held == ['n1'] and fleet.why == 'told to end by SIGTERM'


# An allocation


@pytest.mark.parametrize(('limit', 'minutes', 'until'), [('1h', 60, 3540), ('90s', 1, 45), ('2m', 2, 60)])
def test_a_job_holds_the_nodes_for_the_time_limit_and_trials_end_before_it(limit, minutes, until, fleet):
    """The trials end a minute before the job does, or at half of its time."""
    sweep = fleet.sweep(f'--time-limit={limit}')
    sweep.options = ['--nice=3']
    sweep.run()
    (words,) = fleet.slurm.of('salloc')
    assert {'--nodes=3', f'--time={minutes}', f'--nodelist={fleet.results / NODES}', '--nice=3', '-A', 'me'} <= {*words}
    assert int(fleet.reframe.runs[0].split()[0]) == pytest.approx(time.time() + until, abs=5)
    assert ['42'] in fleet.slurm.of('scancel')


@pytest.mark.parametrize(
    ('salloc', 'state', 'why'),
    [
        ('', 'RUNNING', ''), ('', 'PREEMPTED', 'job 42 ended in state PREEMPTED'),
        ('printf "salloc: error:\\n  no such node\\n" >&2', '', 'salloc: error: no such node'),
        ('exit 1', '', 'salloc gave no job'),
    ],
)  # fmt: skip
def test_what_ended_an_allocation(salloc, state, why, fleet):
    fleet.is_then(state)
    if salloc:
        fleet.slurm.runs('salloc', salloc)
    fleet.sweep().run()
    assert fleet.why == why and [why in problem for problem in fleet.stored[-1][2]] == [True] * bool(why)


@each_row('squeue', ['echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1', 'exit 0'])
def test_an_allocation_of_which_slurm_says_nothing_accuses_no_node_and_is_resumed(squeue, fleet):
    """As after an outage, or once the controller has forgotten the job."""
    fleet.free('n1')
    down = record('n1', code=None, state='NODE_FAIL', faults=['a node failed before its first trial'])
    fleet.reframe.reports(measured('a', down))
    fleet.slurm.runs('squeue', f'case "$*" in *states=all*) {squeue} ;; esac')
    sweep = fleet.sweep('--anew')
    sweep.run()
    assert fleet.why == 'squeue does not say how job 42 ended'
    content, missing = sweep.sweep.content()
    assert [case['job_state'] for case in cases_in(content)] == ['CANCELLED'] and len(missing) == 1
    (problem,) = fleet.stored[-1][2]
    assert fleet.why in problem


# The end


@pytest.mark.parametrize(('code', 'faults', 'expected'), [(0, [], 0), (1, [], 1), (3, ['x'], 3), (0, ['x'], 1)])
def test_a_whole_sweep_is_stored_judged_and_forgotten(code, faults, expected, fleet, capsys):
    fleet.code, fleet.faults = code, faults
    fleet.free('n1', 'n2')
    failed = record('n2', code=3, state='FAILED', faults=['exit code 3'])
    fleet.reframe.reports(measured('a', record('n1'), failed))
    sweep = fleet.sweep()
    assert sweep.run() == expected and not (fleet.results / STATE).exists()
    ((content, number, problems),) = fleet.stored
    assert (number, problems, content['session_info']['uuid']) == (2, [], sweep.sweep.uuid)
    said = capsys.readouterr().out
    assert f'plumbline fleet {sweep.sweep.uuid[:8]}' in said
    assert 'n2: exit code 3' in said and 'nid=n1:' not in said, 'only what failed is named'


@pytest.mark.parametrize(('code', 'expected'), [(0, 1), (3, 3)])
def test_a_sweep_that_lacks_cases_is_kept_and_names_the_nodes(code, expected, fleet, capsys):
    fleet.code = code
    late = [record(f'n{number}', code=None, state='CANCELLED') for number in (2, 3)]
    fleet.reframe.reports(measured('a', record('n1'), *late))
    sweep = fleet.sweep()
    assert sweep.run() == expected
    assert 'plumbline: 2 cases did not run, on n2, n3; ' in capsys.readouterr().err
    assert Sweep.unfinished(fleet.results) == sweep.sweep

# SPDX-License-Identifier: BSD-3-Clause
"""When ci/sweep-idle refuses to begin, and which ends of its job are no fault of a node."""

import json
import os
from datetime import datetime
from types import SimpleNamespace

import pytest
from rows import each_row
from test_sweep import ONE, TWO, entry, record

from ci import node_sweep, sweep_idle
from ci.session import CaseSelection, PlannedSession
from ci.sweep import PART, STATE, Allocation, Sweep
from ci.sweep_idle import IdleSweep, parse
from plumbline import settings
from plumbline.errors import InputError
from plumbline.site.sites import Partition, Site

CONFIG = 'PreemptMode             = {}\nPreemptType             = {}\nPreemptExemptTime       = 00:00:00\n'


def require(monkeypatch, said, users_may_wait=False):
    monkeypatch.setattr(sweep_idle, 'ask', lambda *_: said)
    IdleSweep._require_preemption(SimpleNamespace(place='s:p', minutes=10, users_may_wait=users_may_wait))


@pytest.mark.parametrize(
    ('said', 'found'),
    [
        (CONFIG.format('OFF', 'preempt/none'), 'PreemptType preempt/none'),
        (None, 'not told by scontrol'),  # Slurm does not answer
        (CONFIG.format('SUSPEND,GANG', 'preempt/qos'), 'PreemptMode SUSPEND,GANG'),
    ],
)
def test_it_refuses_where_its_job_would_not_end_for_a_user(monkeypatch, said, found):
    with pytest.raises(InputError, match=found):
        require(monkeypatch, said)


def test_waiting_users_can_be_accepted_a_suspended_benchmark_cannot(monkeypatch):
    require(monkeypatch, CONFIG.format('CANCEL', 'preempt/partition_prio'))
    require(monkeypatch, CONFIG.format('OFF', 'preempt/none'), users_may_wait=True)
    for mode in ('SUSPEND', 'GANG'):
        with pytest.raises(InputError, match=mode):
            require(monkeypatch, CONFIG.format(mode, 'preempt/qos'))
    with pytest.raises(InputError, match='SUSPEND'):
        require(monkeypatch, CONFIG.format('SUSPEND,GANG', 'preempt/qos'), users_may_wait=True)


# The words are those of Slurm 22.05 where a node was taken, drained, preempted, or went down under the job
@pytest.mark.parametrize(
    ('why', 'gave_way'),
    [
        ('job 17 ended in state PREEMPTED', True),
        ('job 17 ended in state CANCELLED', True),
        ('job 17 ended in state NODE_FAIL', False),
        ('job 17 ended in state TIMEOUT', False),
        ('salloc: Pending job allocation 2 salloc: job 2 queued and waiting for resources salloc: error: '
         'Unable to allocate resources: Connection timed out', True),
        ('salloc: Required node not available (down, drained or reserved)', True),
        ('salloc: error: Job submit/allocate failed: Invalid partition name specified', False),
    ],
)  # fmt: skip
def test_only_what_the_scheduler_wanted_is_no_fault(why, gave_way):
    assert bool(sweep_idle._GAVE_WAY.match(why)) is gave_way


def test_the_command_line():
    found = parse([])
    assert (found.max_nodes, found.minutes, found.time_limit, found.salloc, found.mode) == (1, 10, 600, [], 'quick')
    assert (found.rounds, found.anew, found.users_may_wait) == (None, False, False)
    found = parse(['--minutes=3', '--max-nodes=2', '--salloc=--qos=a', '--salloc=-Ab', '--users-may-wait'])
    assert (found.max_nodes, found.time_limit, found.salloc, found.users_may_wait) == (2, 180, ['--qos=a', '-Ab'], True)


class Idle:
    """An idle sweep over `free` nodes, of which `seen` were measured before; its job ends as `why` says.

    `places`: what the job measured, for each node.
    """

    def __init__(
        self, monkeypatch, results, *words: str, free=('n1', 'n2', 'n3'), seen=(), why='', places=None, chosen=()
    ):
        self.results, self.stored, self.asked, self.judged = results, [], [], 0
        for folder in ('logs', 'reports/parts'):
            (results / folder).mkdir(parents=True, exist_ok=True)
        self.cases, self.chosen = {ONE: 'one', TWO: 'two'}, dict(chosen)
        monkeypatch.setattr(CaseSelection, '_checks', ([], []))
        monkeypatch.setattr(IdleSweep, '_require_preemption', lambda _: None)
        monkeypatch.setattr(IdleSweep, '_cases_on', lambda _, nodes: self.cases)
        monkeypatch.setattr(sweep_idle, 'free_nodes', lambda _: list(free))
        monkeypatch.setattr(sweep_idle.outcome, 'last_looks', lambda *_: dict(seen))
        monkeypatch.setattr(sweep_idle.planned, 'choose', lambda *given: self.asked.append(given[4:]) or self.chosen)
        monkeypatch.setattr(node_sweep.outcome, 'store', lambda *given: self.stored.append(given[2:4]) or [])
        monkeypatch.setattr(
            sweep_idle.outcome, 'outcome_of', lambda *_: SimpleNamespace(summary='a summary\n', exit_code=self.judged)
        )
        monkeypatch.delenv(settings.NODE_SWEEP_ROUNDS.name, raising=False)
        monkeypatch.setenv(settings.NODE_SWEEP_ROUNDS.name, '9')
        partition = Partition('p', {'scheduler': 'slurm'})
        self.sweep = IdleSweep(Site('s', '', (), {'p': partition}, {}), parse(list(words)), results)

        def hold(part):
            if places is not None:
                info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
                content = {'session_info': info, 'runs': [{'testcases': [entry('one', *places)]}]}
                part.session.part(PART).write_text(json.dumps(content))
            self.held = part
            return why

        monkeypatch.setattr(self.sweep, '_hold_and_run', hold)


@each_row('nodes, held', [(1, ['n2']), (2, ['n2', 'n3']), (9, ['n2', 'n3', 'n1'])])
def test_the_nodes_that_were_seen_longest_ago_are_measured_first(nodes, held, monkeypatch, tmp_path, capsys):
    """n2 was never seen."""
    seen = {'n1': datetime(2026, 11, 20, 3, 4), 'n3': datetime(2026, 11, 19)}
    places = [record(node) for node in held]
    idle = Idle(
        monkeypatch, tmp_path / f'{nodes}', f'--max-nodes={nodes}', seen=seen, places=places, chosen={ONE: 'new'}
    )
    assert idle.sweep.run() == 0 and idle.held.nodes == held and idle.held.cases == [ONE]
    assert idle.asked == [(10, 1)] and os.environ[settings.NODE_SWEEP_ROUNDS.name] == '0'
    said = capsys.readouterr().out
    assert '1 case on n2' in said and ('n1 (last seen 2026-11-20 03:04)' in said) == ('n1' in held)
    assert 'a summary' in said and 'n2 (last' not in said
    assert idle.stored == [(len(held), [])] and not (idle.results / STATE).exists()
    assert idle.sweep.options == ['--nice=10000'] and 'new' in idle.sweep.sweep.recorded['plumbline_plan']
    assert json.loads(idle.sweep.sweep.recorded['plumbline_narrowed_by']) == ['node_sweep', 'idle', 'minutes=10']


def test_where_nothing_can_be_planned_all_cases_run(monkeypatch, tmp_path):
    idle = Idle(monkeypatch, tmp_path, '--salloc=--qos=a', '--minutes=7')
    idle.sweep.run()
    assert idle.held.cases == [ONE, TWO] and idle.asked == [(7, 1)]
    assert idle.sweep.options == ['--nice=10000', '--qos=a']


def test_without_an_idle_node_it_ends_well(monkeypatch, tmp_path, capsys):
    idle = Idle(monkeypatch, tmp_path, free=())
    assert idle.sweep.run() == 0 and 's:p: no node is idle' in capsys.readouterr().out
    assert idle.asked == []


PREEMPTED, DOWN = 'job 4 ended in state PREEMPTED', 'job 4 ended in state NODE_FAIL'
BUSY = 'salloc: error: Unable to allocate resources: Connection timed out'


@each_row(
    'why, late, judged, code, stored, wanted',
    [
        ('', False, 0, 0, 2, None), ('', False, 1, 1, 2, None), ('', True, 0, 0, 2, None),
        (PREEMPTED, False, 0, 0, 1, True), (PREEMPTED, False, 3, 3, 1, True),
        (PREEMPTED, True, 0, 0, None, True), (DOWN, False, 0, 1, 2, False),
        (DOWN, False, 3, 3, 2, False), (BUSY, None, 0, 0, None, True),
        ('salloc: error: Invalid partition', None, 0, 1, None, False),
    ],
)  # fmt: skip
def test_what_was_measured_to_its_end_is_stored(why, late, judged, code, stored, wanted, monkeypatch, tmp_path, capsys):
    """Of the cases one and two on n1, one was measured, or none where it was `late`; None: the job never began."""
    place = record('n1', code=None, state='CANCELLED') if late else record('n1')
    results = tmp_path / f'{why[:30].replace(":", "")}{late}{judged}'
    idle = Idle(monkeypatch, results, free=('n1',), why=why, places=None if late is None else [place])
    idle.judged = judged
    assert idle.sweep.run() == code
    problems = [] if wanted is not False else [f'1 node was ended: {why}']
    assert [number for number, _ in idle.stored] == ([stored] if stored else [])
    for _, said in idle.stored:
        assert [problem.text.removeprefix('the measurement of ') for problem in said] == problems
    printed = capsys.readouterr()
    assert ('were wanted' in printed.out, 'idle nodes failed' in printed.err) == (wanted is True, wanted is False)
    assert ('nothing was measured' in printed.out) == (stored is None and late is True)
    assert ('a summary' in printed.out) == bool(stored)
    assert not (results / STATE).exists()


def test_what_a_killed_idle_sweep_measured_is_stored_and_a_node_sweep_is_left_to_its_own_command(monkeypatch, tmp_path):
    idle = Idle(monkeypatch, tmp_path)
    left = Sweep.new(idle.sweep.selection)
    left.cases, left.nodes = {ONE: 'one'}, ['n1']
    left.parts.append(Allocation(PlannedSession.new(tmp_path, idle.sweep.selection, 0, 'killed'), ['n1']))
    info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
    content = {'session_info': info, 'runs': [{'testcases': [entry('one', record('n1'))]}]}
    left.parts[0].session.part(PART).write_text(json.dumps(content))
    left.remember(tmp_path)
    following = Idle(monkeypatch, tmp_path)
    assert following.stored == [(1, [])] and following.sweep.sweep.uuid != left.uuid
    assert not (tmp_path / STATE).exists()
    left.recorded = CaseSelection('s:p', 'quick', (), ('node_sweep',)).recorded
    left.remember(tmp_path)
    with pytest.raises(InputError, match='a node sweep is incomplete'):
        Idle(monkeypatch, tmp_path)
    assert (tmp_path / STATE).exists()

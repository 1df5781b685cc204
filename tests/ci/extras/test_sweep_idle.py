# SPDX-License-Identifier: BSD-3-Clause
"""When ci/sweep-idle refuses to begin, which nodes it measures, and which ends of its job are no fault of a node."""

import json
import os
from datetime import datetime

import pytest
from test_node_sweep_steps import Fleet, measured, site_of
from test_sweep import record

from ci.extras import sweep_idle
from ci.extras.sweep_idle import IdleSweep, parse
from ci.session import CaseSelection, PlannedSession
from ci.sweep import PART, STATE, Allocation, Sweep
from plumbline import settings
from plumbline.errors import InputError

CONFIG = 'PreemptMode             = {}\nPreemptType             = {}\nPreemptExemptTime       = 00:00:00\n'


class IdleFleet(Fleet):
    """Some idle nodes of which some were `seen` before; `plan` says which cases find most."""

    def __init__(self, monkeypatch, folder):
        super().__init__(monkeypatch, folder)
        self.slurm.says('scontrol', CONFIG.format('CANCEL', 'preempt/partition_prio'))
        self.reframe.lists('a', 'b')
        self.seen, self.plan, self.asked = {}, 'no night can be planned', []
        monkeypatch.setattr(sweep_idle, 'last_looks', lambda *_: self.seen)
        monkeypatch.setattr(sweep_idle.planned, 'plan', self.planned)

    def planned(self, results, site, minutes, nodes, places):
        self.asked.append((minutes, nodes))
        return self.plan

    def sweep(self, *words: str) -> IdleSweep:
        return IdleSweep(site_of('p'), parse(list(words)), self.results)


@pytest.fixture
def fleet(monkeypatch, tmp_path):
    monkeypatch.setenv(settings.NODE_SWEEP_ROUNDS.name, '9')  # which a sweep changes
    return IdleFleet(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ('mode', 'kind', 'words', 'found'),
    [
        ('OFF', 'preempt/none', [], 'PreemptType preempt/none'), ('', '', [], 'PreemptType not told by scontrol'),
        ('SUSPEND,GANG', 'preempt/qos', [], 'PreemptMode SUSPEND,GANG'),
        ('GANG', 'preempt/qos', ['--users-may-wait'], 'PreemptMode GANG'),
        ('OFF', 'preempt/none', ['--users-may-wait'], ''),
    ],
)  # fmt: skip
def test_it_refuses_where_its_job_would_not_end_for_a_user(mode, kind, words, found, fleet):
    """Users may accept to wait; what a suspended benchmark measures is wrong."""
    fleet.slurm.says('scontrol', CONFIG.format(mode, kind) if kind else '')
    fleet.free()
    if not found:
        assert fleet.sweep(*words).run() == 0
        return
    with pytest.raises(InputError, match=found):
        fleet.sweep(*words).run()


@pytest.mark.parametrize(('nodes', 'held'), [(1, ['n2']), (2, ['n2', 'n3']), (9, ['n2', 'n3', 'n1'])])
def test_the_nodes_that_were_seen_longest_ago_are_measured_first(nodes, held, fleet, capsys):
    """n2 was never seen."""
    fleet.seen = {'n1': datetime(2026, 11, 20, 3, 4), 'n3': datetime(2026, 11, 19)}
    fleet.plan = {('p', 'e', 'a')}
    fleet.reframe.reports(measured('a', *map(record, held)))
    assert fleet.sweep(f'--max-nodes={nodes}').run() == 0 and fleet.held == held
    assert fleet.asked == [(10, 1)] and os.environ[settings.NODE_SWEEP_ROUNDS.name] == '0'
    said = capsys.readouterr().out
    assert '1 case on n2' in said and ('n1 (last seen 2026-11-20 03:04)' in said) == ('n1' in held)
    assert 'a summary' in said and 'n2 (last' not in said and not (fleet.results / STATE).exists()
    ((content, number, problems),) = fleet.stored
    assert (number, problems) == (len(held), [])
    assert json.loads(content['session_info']['plumbline_plan']) == [['aa', 's:p+e']]
    narrowed_by = json.loads(content['session_info']['plumbline_narrowed_by'])
    assert narrowed_by == ['node_sweep', 'idle', 'minutes=10']
    assert '"aa"' in fleet.reframe.runs[0] and '"bb"' not in fleet.reframe.runs[0]


def test_where_nothing_can_be_planned_all_cases_run(fleet):
    fleet.sweep('--salloc=--qos=a', '--minutes=7').run()
    assert '"aa"' in fleet.reframe.runs[0] and '"bb"' in fleet.reframe.runs[0] and fleet.asked == [(7, 1)]
    assert {'--nice=10000', '--qos=a', '--time=7', '--nodes=1'} <= {*fleet.slurm.of('salloc')[0]}


def test_without_an_idle_node_it_ends_well(fleet, capsys):
    fleet.free()
    assert fleet.sweep().run() == 0 and 's:p: no node is idle' in capsys.readouterr().out
    assert fleet.asked == []


# The words of salloc and the states are those of Slurm 22.05 where a node was taken, drained, preempted or went down
NEVER = 'echo "salloc: {}" >&2; exit 1'
TIMED_OUT = 'Pending job allocation 2 salloc: job 2 queued and waiting for resources salloc: error: Unable to allocate '
TIMED_OUT += 'resources: Connection timed out'


@pytest.mark.parametrize(
    ('state', 'is_late', 'judged', 'code', 'stored', 'wanted'),
    [
        ('RUNNING', False, 0, 0, 2, None), ('RUNNING', False, 1, 1, 2, None), ('RUNNING', True, 0, 0, 2, None),
        ('PREEMPTED', False, 0, 0, 1, True), ('CANCELLED', False, 3, 3, 1, True), ('PREEMPTED', True, 0, 0, None, True),
        ('NODE_FAIL', False, 0, 1, 2, False), ('TIMEOUT', False, 3, 3, 2, False),
    ],
)  # fmt: skip
def test_what_was_measured_to_its_end_is_stored(state, is_late, judged, code, stored, wanted, fleet, capsys):
    """Of the cases a and b on n1, a was measured, or none where it was late."""
    fleet.free('n1')
    fleet.is_then(state)
    fleet.reframe.reports(
        measured('a', record('n1', code=None, state='CANCELLED') if is_late else record('n1')),
    )
    fleet.code = judged
    assert fleet.sweep().run() == code and not (fleet.results / STATE).exists()
    problems = [] if wanted is not False else [f'the measurement of 1 node was ended: job 42 ended in state {state}']
    assert [one[1:] for one in fleet.stored] == ([(stored, problems)] if stored else [])
    printed = capsys.readouterr()
    assert ('were wanted' in printed.out, 'idle nodes failed' in printed.err) == (wanted is True, wanted is False)
    assert ('nothing was measured' in printed.out) != ('a summary' in printed.out) == bool(stored)


@pytest.mark.parametrize(
    ('said', 'code'),
    [
        (TIMED_OUT, 0), ('Required node not available (down, drained or reserved)', 0),
        ('error: Job submit/allocate failed: Invalid partition name specified', 1),
    ],
)  # fmt: skip
def test_a_node_that_is_not_had_is_no_fault_and_a_wrong_option_is(said, code, fleet):
    fleet.slurm.runs('salloc', NEVER.format(said))
    assert fleet.sweep().run() == code and fleet.stored == [] and not (fleet.results / STATE).exists()


def test_what_a_killed_idle_sweep_measured_is_stored_and_a_node_sweep_is_left_to_its_own_command(fleet):
    idle = fleet.sweep()
    left = Sweep.new(idle.selection)
    left.cases, left.nodes = {('aa', 's:p+e'): 'a'}, ['n1']
    left.parts.append(Allocation(PlannedSession.new(fleet.results, idle.selection, 0, 'killed'), ['n1']))
    info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
    content = {'session_info': info, 'runs': [{'testcases': [measured('a', record('n1'))]}]}
    left.parts[0].session.part(PART).write_text(json.dumps(content))
    left.remember(fleet.results)
    assert fleet.sweep().sweep.uuid != left.uuid and [one[1:] for one in fleet.stored] == [(1, [])]
    assert not (fleet.results / STATE).exists()
    left.recorded = CaseSelection('s:p', 'quick', (), ('node_sweep',)).recorded
    left.remember(fleet.results)
    with pytest.raises(InputError, match='a node sweep is incomplete'):
        fleet.sweep()
    assert (fleet.results / STATE).exists()

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that do not answer: for a moment, or for good."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rows import each_row

from ci import slurm_nodes
from postprocess.verdicts import problems

SITE = SimpleNamespace(
    partitions={'p': SimpleNamespace(name='p', entry={'scheduler': 'slurm', 'access': ['-p compute']})}
)


@pytest.fixture
def answers(monkeypatch):
    """What sinfo says, one answer after the other; the last one again and again."""
    given = []
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: given.pop(0) if len(given) > 1 else given[0])
    monkeypatch.setattr(slurm_nodes.time, 'sleep', lambda seconds: None)
    return given


def test_a_node_that_answers_in_a_moment_is_not_lost(answers):
    answers += [
        'n1|unknown|Unknown|none\nn2|idle*|Unknown|none\n', 'n1|idle|Unknown|none\nn2|idle*|Unknown|none\n',
        'n1|idle|Unknown|none\nn2|idle|Unknown|none\n',
    ]  # fmt: skip
    assert slurm_nodes.nodes_out(SITE) == []


def test_a_node_that_does_not_answer_is_lost(answers, monkeypatch):
    monkeypatch.setattr(slurm_nodes, '_ANSWER', 0)
    answers.append('n1|idle*|Unknown|none\nn2|idle|Unknown|none\n')
    (node,) = slurm_nodes.nodes_out(SITE)
    assert str(node) == 'n1 of p is idle*' and node.problem == 'n1 of p is idle*, but not drained'


def test_a_node_that_slurm_gave_up_is_not_waited_for(answers):
    answers += ['n1|down*|slurm|Not responding\nn2|drained|root|disk | fan\n', 'n1|idle|none|\nn2|idle||none\n']
    assert [(node.name, node.problem, node.reason) for node in slurm_nodes.nodes_out(SITE)] == [
        ('n1', 'n1 of p is down* (Not responding), but not drained', 'Not responding'), ('n2', '', 'disk | fan'),
    ]  # fmt: skip


@each_row(
    'state, user, reason, by_slurm',
    [
        ('drained', 'slurm', 'Prolog error', True), ('drained', 'slurm', 'of a later version', True),
        ('draining', 'root', 'Kill task failed (JobId=4 StepId=0)', True), ('drained', 'root', 'NHC: gone', True),
        ('drained', 'root', 'Low RealMemory (reported:9 < 100.00% of configured:10)', True),
        ('drained', 'root', 'gres/gpu count reported lower than configured (3 < 4)', True),
        ('drained*', 'root', 'Not responding', True), ('drained', 'root', 'GPU 3 is not responding', False),
        ('drained', 'ann', 'Kill task failed, new DIMM ordered', False), ('drained', 'Unknown', '', False),
        ('maint', 'slurm', 'none', False), ('reserved', 'Unknown', 'none', False),
    ],
)  # fmt: skip
def test_a_drain_of_slurm_is_a_finding_and_one_of_a_person_is_planned(state, user, reason, by_slurm, monkeypatch):
    said = {'sinfo': f'n1|{state}|{user}|{reason}\n', 'scontrol': 'SlurmdUser = root(0)\nSlurmUser  = slurm(64030)\n'}
    monkeypatch.setattr(slurm_nodes, 'ask', lambda program, *words: said[program])
    (node,) = slurm_nodes.nodes_out(SITE)
    assert node.by_slurm == by_slurm
    assert bool(node.problem) == by_slurm, 'planned maintenance is no finding'
    found = problems.stored(node.problem or '')
    assert not by_slurm or (found.kind, found.node, found.partition) == ('node lost', 'n1', 'p')


def test_a_node_whose_prolog_failed(recorded, monkeypatch):
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: recorded('sinfo-22.05.8-prolog-error.txt'))
    (node,) = slurm_nodes.nodes_out(SITE)
    assert node.problem == 'n1 of p is drained (Prolog error) by Slurm itself, not by a person'


def test_what_happened_to_nodes_while_a_session_ran_is_told_once_and_planned_work_is_not():
    """n1 was draining by Slurm before, and n6 drained by a person, who boots it now; n2 and n4 are drained since, the
    latter by a person; n3 booted, and n5 as it was lost."""
    draining = slurm_nodes.NodeOut('n1', 'p', 'draining', 'Prolog error', by_slurm=True)
    planned = slurm_nodes.NodeOut('n6', 'p', 'drained', 'new DIMM')
    before = slurm_nodes.Nodes([draining, planned], {f'n{number}': '2026-11-01T00:00:00' for number in range(1, 7)})
    out = [
        replace(draining, state='drained'),
        replace(planned, state='down*'),
        slurm_nodes.NodeOut('n2', 'p', 'draining', 'Kill task failed', by_slurm=True),
        slurm_nodes.NodeOut('n4', 'p', 'drained', 'new DIMM'),
        slurm_nodes.NodeOut('n5', 'p', 'down', 'Node unexpectedly rebooted'),
    ]
    booted = before.booted | dict.fromkeys(('n3', 'n5', 'n6'), '2026-11-22T02:13:40')
    found = slurm_nodes.Nodes(out, booted).problems_since(before)
    assert found == [
        'n2 of p is draining (Kill task failed) by Slurm itself, not by a person, since this session began',
        'n5 of p is down (Node unexpectedly rebooted), but not drained, since this session began',
        'n3 booted at 2026-11-22T02:13:40, while the session ran',
    ]
    read = [problems.stored(text) for text in found]
    assert [(one.kind, one.node, one.partition) for one in read] == [
        ('node lost', 'n2', 'p'), ('node lost', 'n5', 'p'), ('node lost', 'n3', ''),
    ]  # fmt: skip


def test_boot_times_are_read_from_scontrol(answers, monkeypatch):
    """Of two nodes as Slurm 22.05 prints them, one of which never answered."""
    said = (
        'NodeName=n1 Arch=x86_64 CoresPerSocket=1 State=IDLE BootTime=2026-11-23T20:01:13 LastBusyTime=Unknown\n'
        'NodeName=n2 Arch=x86_64 State=DOWN BootTime=None LastBusyTime=Unknown\n'
    )
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: said if command[0] == 'scontrol' else '')
    assert slurm_nodes.Nodes.now(SITE).booted == {'n1': '2026-11-23T20:01:13'}


def test_jobs_that_wait_are_told_with_slurms_reason(monkeypatch, tmp_path):
    lines = [f'{job}|Licenses|{tmp_path}/stage/a' for job in range(10, 17)]
    lines += [f'20|JobHeldUser|{tmp_path}/stage/b', f'21|Priority|{tmp_path}/other']
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: '\n'.join(lines))
    said = slurm_nodes.waiting_below(tmp_path / 'stage')
    assert said == 'Licenses of 10, 11, 12, 13, 14 and 2 more; JobHeldUser of 20'
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: None)  # where there is no Slurm
    assert slurm_nodes.waiting_below(tmp_path) == ''

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that do not answer: for a moment, or for good."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from rows import each_row

from ci import slurm_nodes

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
    found = [(problem.kind, problem.nodes, problem.partition) for problem in node.problems()]
    assert found == [('node lost', ('n1',), 'p')] * by_slurm


def test_a_node_whose_prolog_failed(recorded, monkeypatch):
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: recorded('sinfo-22.05.8-prolog-error.txt'))
    (node,) = slurm_nodes.nodes_out(SITE)
    assert node.problem == 'n1 of p is drained (Prolog error) by Slurm itself, not by a person'


def test_what_happened_to_nodes_while_a_session_ran_is_told_once_and_planned_work_is_not():
    """n1 was draining by Slurm before, and n6 drained by a person, who boots it now; n2 and n4 are drained since, the
    latter by a person; n3 booted, and n5 as it was lost."""
    draining = slurm_nodes.NodeOut('n1', 'p', 'draining', 'Prolog error', by_slurm=True)
    planned = slurm_nodes.NodeOut('n6', 'p', 'drained', 'new DIMM')
    began = datetime(2026, 11, 22, 1, 0).timestamp()
    long_ago = dict.fromkeys((f'n{number}' for number in range(1, 7)), began - 2e6)
    before = slurm_nodes.Nodes([draining, planned], long_ago, began)
    out = [
        replace(draining, state='drained'),
        replace(planned, state='down*'),
        slurm_nodes.NodeOut('n2', 'p', 'draining', 'Kill task failed', by_slurm=True),
        slurm_nodes.NodeOut('n4', 'p', 'drained', 'new DIMM'),
        slurm_nodes.NodeOut('n5', 'p', 'down', 'Node unexpectedly rebooted'),
    ]
    boot = datetime(2026, 11, 22, 2, 13, 40).timestamp()
    booted = before.booted | dict.fromkeys(('n3', 'n5', 'n6'), boot)
    found = slurm_nodes.Nodes(out, booted).problems_since(before)
    assert [*map(str, found)] == [
        'n2 of p is draining (Kill task failed) by Slurm itself, not by a person, since this session began',
        'n5 of p is down (Node unexpectedly rebooted), but not drained, since this session began',
        'n3 booted at 2026-11-22T02:13:40, while the session ran',
    ]
    assert [(one.kind, one.nodes, one.partition) for one in found] == [
        ('node lost', ('n2',), 'p'), ('node lost', ('n5',), 'p'), ('node lost', ('n3',), ''),
    ]  # fmt: skip


@each_row(
    'before, after, is_boot',
    [
        (-7200, -7199, False), (-7200, -7141, False), (-20, 41, False), (-7200, 30, True), (-7200, -7261, False),
        (-90, 59, False), (-90, 61, True), (-7200, -6599, True), (-7200, -7801, True), (None, 300, False),
    ],
)  # fmt: skip
def test_a_boot_time_that_jitters_is_no_boot(before, after, is_boot):
    """Seconds from the first look; Slurm computes them anew at each registration of the node."""
    first = slurm_nodes.Nodes([], {} if before is None else {'n1': 1e9 + before}, 1e9)
    assert bool(slurm_nodes.Nodes([], {'n1': 1e9 + after}, 1e9 + 600).problems_since(first)) == is_boot


def test_boot_times_are_read_from_scontrol_for_nodes_of_the_site(answers, monkeypatch):
    """Of nodes as Slurm 22.05 prints them: n2 never answered, n9 is in no partition of the site."""
    said = (
        'NodeName=n1 Arch=x86_64 CoresPerSocket=1 State=IDLE BootTime=1795833737 LastBusyTime=Unknown\n'
        'NodeName=n2 Arch=x86_64 State=DOWN BootTime=None LastBusyTime=Unknown\n'
        'NodeName=n9 Arch=x86_64 State=IDLE BootTime=1795833737 LastBusyTime=Unknown\n'
    )
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: said if command[0] == 'scontrol' else 'n1\nn2\n')
    monkeypatch.setattr(slurm_nodes, 'nodes_out', lambda site: [])
    assert slurm_nodes.Nodes.now(SITE).booted == {'n1': 1795833737}


@each_row('own', ['', 'n1 n2'])
def test_nodes_of_the_own_reservation_are_free_and_not_left_out(own, monkeypatch):
    """As real Slurm 22.05 prints them; n3 is reserved for others, n4 of the reservation is drained, n5 is at work."""
    states = 'n1|maint|Unknown|none\nn2|reserved|Unknown|none\nn3|reserved|Unknown|none\n'
    states += 'n4|drained|ann|disk\nn5|allocated$|Unknown|none\n'
    answers = {
        'sinfo': states, 'reservation': 'ReservationName=acc Nodes=n[1-2,4-5] NodeCnt=4\n',
        'hostnames': 'n1\nn2\nn4\nn5\n',
    }  # fmt: skip

    def ask(program, *words):
        if program == 'scontrol':
            return answers.get(words[-2])
        fields = words[2].removeprefix('--format=').count('|') + 1
        return ''.join('|'.join(line.split('|')[:fields]) + '\n' for line in states.splitlines())

    monkeypatch.setattr(slurm_nodes, 'ask', ask)
    access = ['-p compute', '--reservation=acc'] if own else ['-p compute']
    one = partition('slurm', *access)
    assert slurm_nodes.free_nodes(one) == own.split()
    out = slurm_nodes.nodes_out(SimpleNamespace(partitions={'p': one}))
    assert [node.name for node in out] == (['n3', 'n4'] if own else ['n1', 'n2', 'n3', 'n4'])


def test_a_program_that_hangs_is_named_once_and_the_nodes_are_not_known(monkeypatch, tmp_path, capsys):
    """A real sinfo that hangs: asked once, although a session looks twice and asks more than once in each look."""
    path = tmp_path / 'sinfo'
    path.write_text(f'#!/bin/sh\necho asked >> {tmp_path}/times\nexec sleep 60\n')
    path.chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    monkeypatch.setattr('plumbline.programs.TIME_LIMIT', 0.2)
    monkeypatch.setattr(slurm_nodes, '_hung', {})
    before = slurm_nodes.Nodes.now(SITE)
    (problem,) = slurm_nodes.Nodes.now(SITE).problems_since(before)
    assert problem.text.startswith('sinfo did not answer') and 'not known' in problem.text
    assert (tmp_path / 'times').read_text() == 'asked\n'
    assert capsys.readouterr().out.count('sinfo did not end within 0.2 s') == 1


def test_jobs_that_wait_are_told_with_slurms_reason(monkeypatch, tmp_path):
    lines = [f'{job}|Licenses|{tmp_path}/stage/a' for job in range(10, 17)]
    lines += [f'20|JobHeldUser|{tmp_path}/stage/b', f'21|Priority|{tmp_path}/other']
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: '\n'.join(lines))
    said = slurm_nodes.waiting_below(tmp_path / 'stage')
    assert said == 'Licenses of 10, 11, 12, 13, 14 and 2 more; JobHeldUser of 20'
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *command: None)  # where there is no Slurm
    assert slurm_nodes.waiting_below(tmp_path) == ''


def partition(scheduler='slurm', *access):
    return SimpleNamespace(name='p', entry={'scheduler': scheduler} | ({'access': list(access)} if access else {}))


@each_row(
    'access, queue',
    [
        ([], None), (['-p compute'], 'compute'), (['--partition=a', '-A me'], 'a'), (['-A me', '-pb'], 'b'),
        (['--part c'], None), (['-C "a b" -p d'], 'd'),
    ],
)  # fmt: skip
def test_the_queue_is_read_from_the_options_of_the_partition(access, queue, monkeypatch):
    asked = []
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: asked.append(words))
    assert slurm_nodes.slurm_queue(partition('slurm', *access)) == queue
    assert slurm_nodes.nodes_of(partition('slurm', *access), '%N') == []
    assert asked[0][4:] == (('--partition', queue) if queue else ())


def test_a_node_of_several_partitions_is_told_once_with_all_fields(monkeypatch):
    said = 'n1|idle|a|b\nn1|idle|a|b\nn2|mixed||x|y\nn3|idle||\n'
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: said)
    expected = [('n1', 'idle', 'a', 'b'), ('n2', 'mixed', '', 'x|y'), ('n3', 'idle', '', '')]
    assert slurm_nodes.nodes_of(partition('slurm', '-p p'), '%N|%T|%u|%E') == expected
    said = 'p*|n1|idle\np*|n2|mixed\np*|n3|idle*\np*|n4|idle\nq|n1|idle\nq|n5|idle\n'
    assert slurm_nodes.free_nodes(partition()) == ['n1', 'n4'], 'those of the default partition'
    said = said.replace('*|', '|')
    assert slurm_nodes.free_nodes(partition()) == ['n1', 'n4', 'n5'], 'there is no default partition'


def test_only_slurm_is_asked(monkeypatch):
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: pytest.fail('Slurm was asked'))
    site = SimpleNamespace(partitions={'p': partition('local'), 'q': partition('pbs')})
    assert slurm_nodes.Nodes.now(site) == slurm_nodes.Nodes([], {})
    site.partitions['r'] = partition('slurm')
    assert [one.entry['scheduler'] for one in slurm_nodes.slurm_partitions(site)] == ['slurm']


@each_row(
    'state, undecided, planned',
    [
        ('idle*', True, False), ('unknown', True, False), ('down', False, False), ('down*', False, False),
        ('fail', False, False), ('inval', False, False), ('drained', False, True), ('draining*', False, True),
        ('maint', False, True), ('reserved', False, True),
    ],
)  # fmt: skip
def test_the_states_of_nodes_that_take_no_jobs(state, undecided, planned):
    node = slurm_nodes.NodeOut('n1', 'p', state, '')
    assert (node.undecided, not node.problem) == (undecided, planned)
    assert str(node) == f'n1 of p is {state}'
    assert not node.problem or 'not drained' in node.problem


def test_a_node_is_waited_for_half_a_minute(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: 'n1|idle*|Unknown|none\n')
    monkeypatch.setattr(slurm_nodes.time, 'monotonic', lambda: now[0])
    monkeypatch.setattr(slurm_nodes.time, 'sleep', lambda seconds: now.__setitem__(0, now[0] + seconds))
    (node,) = slurm_nodes.nodes_out(SITE)
    assert str(node) == 'n1 of p is idle*' and node.problem == 'n1 of p is idle*, but not drained' and now[0] == 31


@each_row(
    'user, reason, by_slurm',
    [
        ('slurm', 'whatever', True), ('bob', 'Not responding', False), ('root', 'Not responding', True),
        ('root', 'new disk', False), ('Unknown', 'gres/gpu count too low (3 < 4)', True),
        ('Unknown', 'gpu count is odd', False),
    ],
)  # fmt: skip
def test_who_drained_a_node(user, reason, by_slurm, monkeypatch):
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: 'SlurmUser = slurm(64030)\n')
    assert slurm_nodes.is_of_slurm(user, reason) == by_slurm
    monkeypatch.setattr(slurm_nodes, 'ask', lambda *words: None)
    assert not slurm_nodes.is_of_slurm('slurm', 'whatever'), 'its name is not known'


class Queue:
    """The jobs in Slurm's queue below folders; `scancel` empties it after `seconds`, unless Slurm does not answer."""

    def __init__(self, monkeypatch, jobs, seconds=1.0, answers=True):
        self.jobs, self.seconds, self.answers, self.now, self.end, self.cancelled = (
            jobs,
            seconds,
            answers,
            0.0,
            None,
            (),
        )
        monkeypatch.setattr(slurm_nodes, 'ask', self.ask)
        monkeypatch.setattr(slurm_nodes.time, 'monotonic', lambda: self.now)
        monkeypatch.setattr(slurm_nodes.time, 'sleep', lambda seconds: setattr(self, 'now', self.now + seconds))

    def ask(self, program, *words):
        if program == 'scancel':
            self.cancelled, self.end = words, self.now + self.seconds
            return '' if self.answers else None
        left = {} if self.end is not None and self.now >= self.end else self.jobs
        return ''.join(f'{job}|{where}\n' for job, where in left.items())


@each_row('seconds, waited', [(0, 0.0), (1, 1.0), (59.7, 60.0), (999, 60.0)])
def test_cancelled_jobs_are_waited_for_a_minute_at_most(seconds, waited, monkeypatch, tmp_path):
    queue = Queue(monkeypatch, {'7': f'{tmp_path}/a/b', '8': f'{tmp_path}', '9': f'{tmp_path}x/a'}, seconds)
    assert slurm_nodes.jobs_below(tmp_path) == ['7', '8']
    said = slurm_nodes.cancel_jobs_below(tmp_path)
    assert said.startswith('cancelled 2 jobs') and said.endswith(': 7 8')
    assert queue.cancelled == ('7', '8') and queue.now == waited


def test_jobs_that_cannot_be_cancelled_are_told_and_twenty_are_named(monkeypatch, tmp_path):
    jobs = {f'{number}': f'{tmp_path}/a' for number in range(10, 31)}
    queue = Queue(monkeypatch, jobs, answers=False)
    said = slurm_nodes.cancel_jobs_below(tmp_path)
    assert said.startswith('could not cancel 21 jobs') and said.endswith(' 28 29') and queue.now == 0
    assert len(queue.cancelled) == 21
    assert slurm_nodes.cancel_jobs_below(tmp_path / 'b') == ''


def test_slurm_is_asked_without_the_formats_of_a_user(monkeypatch):
    given = []
    monkeypatch.setenv('SINFO_FORMAT', 'x')
    monkeypatch.setenv('SQUEUE_SORT', 'x')
    monkeypatch.setenv('SLURM_CONF', 'x')
    monkeypatch.setenv('SLURM_TIME_FORMAT', 'relative')
    monkeypatch.setattr(slurm_nodes, 'output_of', lambda command, env: given.append(env) or 'said')
    assert slurm_nodes.ask('sinfo') == 'said'
    assert not {'SINFO_FORMAT', 'SQUEUE_SORT'} & {*given[0]} and given[0]['SLURM_CONF'] == 'x'
    assert given[0]['SLURM_TIME_FORMAT'] == '%s', 'times are read as seconds since 1970'

    def absent(command, env):
        raise ValueError('not found')

    monkeypatch.setattr(slurm_nodes, 'output_of', absent)
    assert slurm_nodes.ask('sinfo') is None

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that do not answer: for a moment, or for good."""

import time
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from rows import each_row
from stand_ins import Slurm

from ci import slurm_nodes

SITE = SimpleNamespace(
    partitions={'p': SimpleNamespace(name='p', entry={'scheduler': 'slurm', 'access': ['-p compute']})}
)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    (tmp_path / 'slurm').mkdir()
    monkeypatch.setenv('PATH', f'{tmp_path / "slurm"}:/usr/bin:/bin')
    return Slurm(tmp_path / 'slurm')


@pytest.fixture
def clock(monkeypatch):
    """The seconds that pass where the product sleeps; Python itself sleeps for less until a program ends."""
    passed, sleep = [0.0], time.sleep

    def wait(seconds):
        if seconds < 0.5:
            sleep(seconds)
        else:
            passed[0] += seconds

    monkeypatch.setattr(slurm_nodes.time, 'monotonic', lambda: passed[0])
    monkeypatch.setattr(slurm_nodes.time, 'sleep', wait)
    return passed


def test_a_node_that_answers_in_a_moment_is_not_lost(slurm, clock):
    slurm.says(
        'sinfo',
        'n1|unknown|Unknown|none\nn2|idle*|Unknown|none\n',
        'n1|idle|Unknown|none\nn2|idle*|Unknown|none\n',
        'n1|idle|Unknown|none\nn2|idle|Unknown|none\n',
    )
    assert slurm_nodes.nodes_out(SITE) == [] and clock[0] == 2


def test_a_node_is_waited_for_half_a_minute_unless_slurm_gave_it_up(slurm, clock):
    slurm.says('sinfo', 'n1|down*|slurm|Not responding\nn2|drained|root|disk | fan\nn3|fail|root|none\n')
    first, drained, fails = slurm_nodes.nodes_out(SITE)
    assert (first.name, first.reason) == ('n1', 'Not responding') and 'down*' in first.problem
    assert (drained.name, drained.problem, drained.reason) == ('n2', '', 'disk | fan')
    assert (fails.name, fails.reason) == ('n3', '') and 'fail' in fails.problem
    assert clock[0] == 0
    slurm.says('sinfo', 'n1|idle*|Unknown|none\n')
    (node,) = slurm_nodes.nodes_out(SITE)
    assert 'idle*' in node.problem and clock[0] == 31


@each_row(
    'state, user, reason, by_slurm',
    [
        ('drained', 'slurm', 'of a later version', True),
        ('draining', 'root', 'Kill task failed (JobId=4 StepId=0)', True), ('drained', 'root', 'NHC: gone', True),
        ('drained', 'root', 'Low RealMemory (reported:9 < 100.00% of configured:10)', True),
        ('drained', 'root', 'gres/gpu count reported lower than configured (3 < 4)', True),
        ('drained*', 'root', 'Not responding', True), ('drained', 'root', 'GPU 3 is not responding', False),
        ('drained', 'ann', 'Kill task failed, new DIMM ordered', False), ('drained', 'Unknown', '', False),
        ('drained', 'Unknown', 'gres/gpu count too low (3 < 4)', True), ('drained', 'root', 'gpu count is odd', False),
        ('maint', 'slurm', 'none', False), ('reserved', 'Unknown', 'none', False),
    ],
)  # fmt: skip
def test_a_drain_of_slurm_is_a_finding_and_one_of_a_person_is_planned(state, user, reason, by_slurm, slurm):
    slurm.says('sinfo', f'n1|{state}|{user}|{reason}\n')
    slurm.says('scontrol', 'SlurmdUser = root(0)\nSlurmUser  = slurm(64030)\n')
    (node,) = slurm_nodes.nodes_out(SITE)
    found = [(problem.kind, problem.nodes, problem.partition) for problem in node.problems()]
    assert found == [('node lost', ('n1',), 'p')] * by_slurm, 'planned maintenance is no finding'
    assert ('by Slurm itself' in node.problem) == by_slurm


def test_a_node_whose_prolog_failed(recorded, slurm):
    slurm.says('sinfo', recorded('sinfo-22.05.8-prolog-error.txt'))
    (node,) = slurm_nodes.nodes_out(SITE)
    assert node.by_slurm and 'Prolog error' in node.problem


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
    for one, name in zip(found, ['Kill task failed', 'Node unexpectedly rebooted', '2026-11-22T02:13:40'], strict=True):
        assert name in str(one)
    assert [(one.kind, one.nodes, one.partition) for one in found] == [
        ('node lost', ('n2',), 'p'), ('node lost', ('n5',), 'p'), ('node lost', ('n3',), ''),
    ]  # fmt: skip


@each_row(
    'before, after, is_boot',
    [
        (-7200, -7199, False), (-20, 41, False), (-7200, 30, True), (-7200, -7261, False), (-90, 59, False),
        (-90, 61, True), (-7200, -7801, True), (None, 300, False),
    ],
)  # fmt: skip
def test_a_boot_time_that_jitters_is_no_boot(before, after, is_boot):
    """Seconds from the first look; Slurm computes them anew at each registration of the node."""
    first = slurm_nodes.Nodes([], {} if before is None else {'n1': 1e9 + before}, 1e9)
    assert bool(slurm_nodes.Nodes([], {'n1': 1e9 + after}, 1e9 + 600).problems_since(first)) == is_boot


def test_boot_times_are_read_from_scontrol_for_nodes_of_the_site(slurm):
    """Of nodes as Slurm 22.05 prints them: n2 never answered, n9 is in no partition of the site."""
    said = (
        'NodeName=n1 Arch=x86_64 CoresPerSocket=1 State=IDLE BootTime=1795833737 LastBusyTime=Unknown\n'
        'NodeName=n2 Arch=x86_64 State=DOWN BootTime=None LastBusyTime=Unknown\n'
        'NodeName=n9 Arch=x86_64 State=IDLE BootTime=1795833737 LastBusyTime=Unknown\n'
    )
    slurm.says('scontrol', said)
    slurm.says('sinfo', 'n1\nn2\n', 'n1|idle|Unknown|none\nn2|idle|Unknown|none\n')
    assert slurm_nodes.Nodes.now(SITE).booted == {'n1': 1795833737}


@each_row('own', ['', 'n1 n2'])
def test_nodes_of_the_own_reservation_are_free_and_not_left_out(own, slurm):
    """As real Slurm 22.05 prints them; n3 is reserved for others, n4 of the reservation is drained, n5 is at work."""
    states = 'n1|maint|Unknown|none\nn2|reserved|Unknown|none\nn3|reserved|Unknown|none\n'
    states += 'n4|drained|ann|disk\nn5|allocated$|Unknown|none\n'
    (slurm.folder / 'states').write_text(states)
    slurm.runs('sinfo', 'case "$*" in *%E*) cat states ;; *) cut -d"|" -f1,2 states ;; esac')
    slurm.runs(
        'scontrol',
        """case "$*" in
*reservation*) echo 'ReservationName=acc Nodes=n[1-2,4-5] NodeCnt=4' ;;
*hostnames*) printf 'n1\\nn2\\nn4\\nn5\\n' ;;
esac""",
    )
    access = ['-p compute', '--reservation=acc'] if own else ['-p compute']
    one = partition('slurm', *access)
    assert slurm_nodes.free_nodes(one) == own.split()
    out = slurm_nodes.nodes_out(SimpleNamespace(partitions={'p': one}))
    assert [node.name for node in out] == (['n3', 'n4'] if own else ['n1', 'n2', 'n3', 'n4'])


def test_a_program_that_hangs_is_named_once_and_the_nodes_are_not_known(monkeypatch, slurm, capsys, impatient):
    """Asked once, although a session looks twice and asks more than once in each look."""
    slurm.runs('sinfo', 'exec sleep 60')
    monkeypatch.setattr(slurm_nodes, '_hung', {})
    before = slurm_nodes.Nodes.now(SITE)
    (problem,) = slurm_nodes.Nodes.now(SITE).problems_since(before)
    assert problem.text.startswith('sinfo did not answer') and 'not known' in problem.text
    assert len(slurm.asked) == 1
    assert capsys.readouterr().out.count('sinfo did not end within 0.2 s') == 1


def test_jobs_that_wait_are_told_with_slurms_reason(monkeypatch, slurm, tmp_path):
    lines = [f'{job}|Licenses|{tmp_path}/stage/a' for job in range(10, 17)]
    lines += [f'20|JobHeldUser|{tmp_path}/stage/b', f'21|Priority|{tmp_path}/other']
    slurm.says('squeue', '\n'.join(lines))
    said = slurm_nodes.waiting_below(tmp_path / 'stage')
    assert 'Licenses' in said and '14' in said and 'JobHeldUser of 20' in said and '21' not in said
    monkeypatch.setenv('PATH', str(tmp_path))  # where there is no Slurm
    assert slurm_nodes.waiting_below(tmp_path) == ''


def partition(scheduler='slurm', *access):
    return SimpleNamespace(name='p', entry={'scheduler': scheduler} | ({'access': list(access)} if access else {}))


@each_row(
    'access, queue',
    [
        ([], None), (['--partition=a', '-A me'], 'a'), (['-A me', '-pb'], 'b'), (['-C "a b" -p d'], 'd'),
    ],
)  # fmt: skip
def test_the_queue_is_read_from_the_options_of_the_partition(access, queue, slurm):
    slurm.says('sinfo', '')
    assert slurm_nodes.slurm_queue(partition('slurm', *access)) == queue
    assert slurm_nodes.nodes_of(partition('slurm', *access), '%N') == []
    assert slurm.asked[-1][4:] == (['--partition', queue] if queue else [])


def test_a_node_of_several_partitions_is_told_once_with_all_fields(slurm):
    slurm.says('sinfo', 'n1|idle|a|b\nn1|idle|a|b\nn2|mixed||x|y\nn3|idle||\n')
    expected = [('n1', 'idle', 'a', 'b'), ('n2', 'mixed', '', 'x|y'), ('n3', 'idle', '', '')]
    assert slurm_nodes.nodes_of(partition('slurm', '-p p'), '%N|%T|%u|%E') == expected
    said = 'p*|n1|idle\np*|n2|mixed\np*|n3|idle*\np*|n4|idle\nq|n1|idle\nq|n5|idle\n'
    slurm.says('sinfo', said)
    assert slurm_nodes.free_nodes(partition()) == ['n1', 'n4'], 'those of the default partition'
    slurm.says('sinfo', said.replace('*|', '|'))
    assert slurm_nodes.free_nodes(partition()) == ['n1', 'n4', 'n5'], 'there is no default partition'


def test_only_slurm_is_asked(slurm):
    slurm.says('sinfo', '')
    site = SimpleNamespace(partitions={'p': partition('local'), 'q': partition('pbs')})
    assert slurm_nodes.Nodes.now(site) == slurm_nodes.Nodes([], {}) and slurm.asked == []
    site.partitions['r'] = partition('slurm')
    assert [one.entry['scheduler'] for one in slurm_nodes.slurm_partitions(site)] == ['slurm']


#: Jobs leave the queue a call after they were cancelled
QUEUE = '[ -e late ] || ! grep -q scancel calls || [ "$(grep -c squeue calls)" -lt 4 ] || exit 0\ncat jobs'


@pytest.fixture
def queue(slurm, tmp_path):
    """Slurm's queue with three jobs, of which two are below the folder."""
    (slurm.folder / 'jobs').write_text(f'7|{tmp_path}/a/b\n8|{tmp_path}\n9|{tmp_path}x/a\n')
    slurm.runs('squeue', QUEUE)
    slurm.runs('scancel', '')
    return slurm


@pytest.mark.parametrize(('is_late', 'waited'), [(False, 1), (True, 60)])
def test_cancelled_jobs_are_waited_for_a_minute_at_most(is_late, waited, queue, clock, tmp_path):
    if is_late:
        (queue.folder / 'late').touch()
    said = slurm_nodes.cancel_jobs_below(tmp_path)
    assert said.startswith('cancelled 2 jobs') and said.endswith(': 7 8')
    assert ['scancel', '7', '8'] in queue.asked and clock[0] == waited


def test_jobs_that_cannot_be_cancelled_are_told_and_twenty_are_named(queue, clock, tmp_path):
    (queue.folder / 'jobs').write_text(''.join(f'{number}|{tmp_path}/a\n' for number in range(10, 31)))
    queue.runs('scancel', 'exit 1')
    said = slurm_nodes.cancel_jobs_below(tmp_path)
    assert said.startswith('could not cancel 21 jobs') and said.endswith(' 28 29') and clock[0] == 0
    assert len(queue.asked[-1]) == 22
    assert slurm_nodes.cancel_jobs_below(tmp_path / 'b') == ''


def test_slurm_is_asked_without_the_formats_of_a_user(monkeypatch, slurm):
    slurm.runs('sinfo', 'env')
    for name in ('SINFO_FORMAT', 'SQUEUE_SORT', 'SLURM_CONF', 'SLURM_TIME_FORMAT'):
        monkeypatch.setenv(name, 'x')
    given = dict(line.split('=', 1) for line in slurm_nodes.ask('sinfo').splitlines())
    assert not {'SINFO_FORMAT', 'SQUEUE_SORT'} & {*given} and given['SLURM_CONF'] == 'x'
    assert given['SLURM_TIME_FORMAT'] == '%s', 'times are read as seconds since 1970'

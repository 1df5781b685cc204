# SPDX-License-Identifier: BSD-3-Clause
"""Nightly runs on a real Slurm with faults: measurements are kept, every loss has a cause and a node."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from scratch import wait_for

# Each case does what its name says, once: a second run of it is a good one
FAULTS = r'''import reframe as rfm

from checks.core.benchmark import Benchmark
from checks.core.reading.metrics import Metric
from checks.core.placement import Placement


@rfm.simple_test
class Fault(Benchmark):
    """A benchmark with a parameter for what goes wrong."""

    valid_prog_environs = ['+demo']
    executable = 'demo'
    tags = {'quick', 'nightly', 'acceptance'}
    fault = parameter([FAULTS], loggable=True)
    metrics = [
        Metric('rate', 'GB/s', 'higher', r'^rate: (\S+)$'),
        Metric('delay', 'us', 'lower', r'^delay: (\S+)$'),
    ]

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, ((0,),))
        self.executable_opts = [self.fault]
        if self.fault == 'waits':
            self.job.options = ['--begin=now+1hour']
            self.max_pending_time = '3s'
        if self.fault == 'held':
            self.job.options = ['--hold']
        if self.fault == 'memory':
            self.job.options = ['--mem=60']
'''
PROGRAM = """\
echo "rate: 50.$RANDOM"
[ $1 = half ] || echo "delay: 1.20$RANDOM"
[ $1 = memory ] && limit=60 || limit=1000
if [ $1 != none ] && [ $1 != half ] && [ ! -e FOLDER/$1 ]; then
    echo "$SLURM_JOB_ID $SLURMD_NODENAME" > FOLDER/$1
    if [ $1 = memory ]; then
        x=$(head -c 200000000 /dev/zero | tr '\\0' x)
    fi
    exec sleep SECONDS
fi
"""


class Night:
    """A scratch clone whose only partition is one of Slurm's, and the means to disturb its jobs."""

    def __init__(self, clone, slurm, folder: Path):
        self.clone, self.folder = clone, folder
        self.slurm = slurm | {'PATH': f'{clone.environment()["PATH"]}:{slurm["PATH"]}'}
        self.run_folder = Path(slurm['SLURM_CONF']).parent / 'run'
        folder.mkdir()
        text = clone.site_file.read_text().replace('name: node', 'name: compute').replace('max_jobs: 1', 'max_jobs: 8')
        local = 'scheduler: local\n    launcher: local\n'
        assert local in text
        remote = 'scheduler: slurm\n    launcher: srun\n    access: [-p compute]\n'
        clone.site_file.write_text(text.replace(local, remote) + 'env_keep: [CLOCK_AHEAD]\n')
        (clone.root / 'checks/demo.py').unlink()
        clone.without_our_checks()

    def prepare(self, *faults: str, seconds: int = 60):
        names = ', '.join(map(repr, faults))
        (self.clone.root / 'checks/fault.py').write_text(FAULTS.replace('FAULTS', names))
        self.clone.program(PROGRAM.replace('FOLDER', str(self.folder)).replace('SECONDS', str(seconds)))

    def start(self, *options: str, selection: tuple[str, ...] = (), **environment: str) -> subprocess.Popen:
        return self.clone.start('ci.nightly', *self.words(*options, selection=selection), **self.slurm | environment)

    def start_alone(self, **environment: str) -> subprocess.Popen:
        """Start a night in no fork: its environment and its children are those of a person's."""
        return subprocess.Popen(
            [sys.executable, '-m', 'ci.nightly', *self.words()],
            cwd=self.clone.root, env=self.clone.environment(**self.slurm | environment), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def words(self, *options: str, selection: tuple[str, ...] = ()) -> tuple[str, ...]:
        return ('--no-provision', '--mode=quick', *options, '--', '-S', 'trials=1', *selection)

    def nightly(self, *options: str, selection: tuple[str, ...] = (), **environment: str):
        return self.clone.fork('ci.nightly', *self.words(*options, selection=selection), **self.slurm | environment)

    def tell(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(words, env=os.environ | self.slurm, capture_output=True, text=True, check=False)

    def job_of(self, fault: str) -> tuple[str, str]:
        """Job and node of a case, once it runs."""
        wait_for(lambda: (self.folder / fault).exists() and len((self.folder / fault).read_text().split()) == 2, 120)
        return tuple((self.folder / fault).read_text().split())

    def after(self, fault: str, *words: str):
        """Run a command in the background once the case of a fault runs; {job} and {node} stand for its own."""

        def say():
            job, node = self.job_of(fault)
            self.told[fault] = self.tell(*(word.format(job=job, node=node) for word in words))

        self.told = getattr(self, 'told', {})
        threading.Thread(target=say, daemon=True).start()

    def queue(self) -> str:
        return self.tell('squeue', '--noheader').stdout

    def _compared(self) -> dict:
        return json.loads(self.clone.plumbline('compare', '--format', 'json').stdout)

    def verdicts(self) -> dict[tuple[str, str], dict]:
        return {(row['params'].partition('=')[2], row['metric']): row for row in self._compared()['verdicts']}

    def incidents(self) -> list[dict]:
        return self._compared()['incidents']

    def cases(self) -> dict[str, list[dict]]:
        """By fault: what each run of its case says, in the last session's report."""
        reports = [path for path in self.clone.results.glob('reports/*Z.json')]
        report = json.loads(max(reports, key=lambda path: path.stat().st_mtime).read_text())
        found = {}
        for run in report['runs']:
            for case in run['testcases']:
                if not case['fixture']:
                    found.setdefault(case['fault'], []).append(case)
        return found


@pytest.fixture
def night(clone, slurm, tmp_path):
    one = Night(clone, slurm, tmp_path / 'faults')
    wait_for(lambda: '*' not in one.tell('sinfo', '--noheader', '--format=%T').stdout, 90)  # each node answers
    yield one
    for daemon in ('slurmctld', 'slurmdbd'):
        if not (one.run_folder / f'{daemon}.pid').exists():
            start(one, daemon)
    one.tell('scancel', '--user=root', '--full')
    for node in ('n1', 'n2', 'n3'):
        one.tell('scontrol', 'update', f'NodeName={node}', 'State=resume')
    wait_for(lambda: not one.queue().strip())
    wait_for(lambda: one.tell('sinfo', '-h', '-p', 'compute', '-t', 'idle', '-o', '%D').stdout.strip() == '3')


def test_one_night_with_many_faults(night):
    """Each fault fails its case with cause and node; a case that then passes leaves an incident of its node.

    A file of checks that does not load is named, and costs the other checks nothing.
    """
    # on a busy machine it takes Slurm more than a minute to end all that are to end
    night.prepare('late', 'none', 'node', 'preempted', 'memory', 'waits', 'half', 'requeued', seconds=150)
    night.after('node', 'scontrol', 'update', 'NodeName={node}', 'State=down', 'Reason=test')
    urgent = ['-p', 'urgent', '-w', '{node}', '--exclusive', '--wrap', 'sleep 1', '-o', '/dev/null']
    night.after('preempted', 'sbatch', *urgent)
    # its time is up in a second, and Slurm ends it within half a minute; no limit can be less than a minute
    night.after('late', 'sh', '-c', 'scontrol update JobId={job} EndTime=$(date -d "1 sec" +%FT%T)')
    night.after('requeued', 'sh', '-c', 'scontrol requeue {job}; scancel {job}')
    checks = night.clone.root / 'checks'
    (checks / 'typo.py').write_text('import reframe as rfm\n\n@rfm.simple_test\nclass Typo(:\n')
    (checks / 'absent.py').write_text(
        'import reframe as rfm\nimport nosuchmodule\n\n@rfm.simple_test\nclass A:\n    pass\n'
    )
    answer = night.nightly(selection=('-n', 'Fault'))
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert night.queue() == ''
    said = ' '.join(answer.stdout.split())
    assert 'typo.py:4' in said and re.search(r'absent\.py.*nosuchmodule', said), said
    cases, incidents = night.cases(), [one for one in night.incidents() if one['kind'] == 'NODE']
    (retry,) = night.clone.results.glob('reports/parts/*-retry.json')
    ran = [case['fault'] for run in json.loads(retry.read_text())['runs'] for case in run['testcases']]
    failed = sorted(fault for fault, runs in cases.items() if runs[0]['result'] != 'pass')
    assert sorted(ran) == failed, 'not exactly what failed ran again, although all were selected by name'
    for fault, words in {
        'node': 'NODE_FAIL', 'preempted': 'PREEMPTED', 'memory': 'exit code', 'requeued': 'CANCELLED',
        'late': 'TIMEOUT',
    }.items():  # fmt: skip
        first, second = cases[fault]
        assert first['result'] == 'fail' and words in first['fail_reason'], (fault, first['fail_reason'])
        node = (night.folder / fault).read_text().split()[1]
        assert f'on {node}' in first['fail_reason']
        assert second['result'] == 'pass', (fault, second['fail_reason'])
        said = [' '.join([one['what'], *one['evidence']]) for one in incidents if node in one['nodes']]
        of_scheduler = fault in ('preempted', 'requeued')
        assert any(f'fault={fault}' in text for text in said) != of_scheduler, (fault, incidents)
        told = f'fault={fault} passed when it ran again; before: '
        assert told in answer.stdout and words in answer.stdout.partition(told)[2].partition('\n')[0]
    assert 'isabled' in night.told['requeued'].stderr, 'Slurm may run a job twice in one stage directory'
    assert [case['result'] for case in cases['none']] == ['pass']
    verdicts = night.verdicts()
    assert {key: row['verdict'] for key, row in verdicts.items() if key[0] in ('none', 'node')} == {
        ('none', 'rate'): 'no_reference', ('none', 'delay'): 'no_reference',
        ('node', 'rate'): 'no_reference', ('node', 'delay'): 'no_reference',
    }  # fmt: skip
    assert verdicts['half', 'rate']['value'] == pytest.approx(50.5, abs=0.6)
    assert 'not in the output' in verdicts['half', 'delay']['cause']
    assert verdicts['waits', 'rate']['n'] == 0
    assert (
        "before it had a node; it may be pending for at most 3 s, and Slurm's reason was BeginTime"
        in (verdicts['waits', 'rate']['cause'])
    )


def test_a_node_that_slurm_drains_meanwhile_and_why_a_job_waited_are_incidents_tonight(night):
    """Slurm drains a node where it cannot kill a task, and the case there passes; a job is held to the end."""
    night.prepare('drained', 'held', seconds=1)
    night.after('drained', 'scontrol', 'update', 'NodeName={node}', 'State=drain', 'Reason=Kill task failed')
    answer = night.nightly('--duration=16s', selection=('-n', 'Fault'), PLUMBLINE_GRACE='20')
    assert answer.returncode == 1, answer.stdout + answer.stderr
    node, of_nodes = (night.folder / 'drained').read_text().split()[1], {}
    for one in night.incidents():
        of_nodes[','.join(one['nodes'])] = ' '.join([one['kind'], one['what'], *one['evidence']])
    assert re.search(r'^NODE .*Kill task failed.*since this session began', of_nodes[node]), of_nodes
    assert [case['result'] for case in night.cases()['drained']] == ['pass']
    said = ' '.join(answer.stdout.split())  # without the ends of lines
    assert 'the time budget is used up; jobs waited in the queue: JobHeldUser of ' in said
    assert any('JobHeldUser' in words for words in of_nodes.values()), of_nodes
    assert night.queue() == ''


def test_a_controller_and_accounting_that_are_away_for_a_while(night):
    """The controller at submission and while jobs run, the accounting database until all have ended. Jobs that wait
    when the controller is back wait for nodes that have not answered it yet; that is no reason to give them up."""
    night.prepare('none', 'one', seconds=3)
    running = night.start()
    wait_for(lambda: list(night.clone.results.glob('logs/*.log')))
    stop(night, 'slurmctld')
    wait_for(lambda: list(night.clone.results.glob('nightly-stage/*/demo/compute/system/Fault*/rfm_job.sh')))
    start(night, 'slurmctld')
    night.job_of('one')
    stop(night, 'slurmctld', 'slurmdbd')
    time.sleep(1)
    start(night, 'slurmctld')
    output, _ = running.communicate(timeout=120)
    assert running.returncode == 0, output
    results = {fault: [run['result'] for run in runs] for fault, runs in night.cases().items()}
    assert results == {'none': ['pass'], 'one': ['pass']}, output
    assert night.queue() == ''


def test_nodes_that_have_not_answered_yet_are_not_lost(night, monkeypatch):
    from ci.slurm_nodes import nodes_of, nodes_out

    for name, value in night.slurm.items():
        monkeypatch.setenv(name, value)
    partition = SimpleNamespace(name='compute', entry={'scheduler': 'slurm', 'access': ['-p compute']})
    stop(night, 'slurmctld')
    start(night, 'slurmctld')
    assert {state for _, state in nodes_of(partition, '%N|%T')} == {'unknown'}, 'so this test shows nothing'
    site = SimpleNamespace(partitions={'compute': partition})
    assert nodes_out(site) == []
    for node, reason in (('n1', 'Kill task failed (JobId=4 StepId=0)'), ('n2', 'disk')):
        night.tell('scontrol', 'update', f'NodeName={node}', 'State=drain', f'Reason={reason}')
    said = 'n1 of compute is drained (Kill task failed (JobId=4 StepId=0)) by Slurm itself, not by a person'
    assert {node.name: node.problem for node in nodes_out(site)} == {'n1': said, 'n2': ''}


def test_a_new_registration_is_no_boot_and_nodes_of_the_own_reservation_are_free(night, monkeypatch):
    from ci.slurm_nodes import Nodes, free_nodes

    for name, value in night.slurm.items():
        monkeypatch.setenv(name, value)
    partition = SimpleNamespace(name='compute', entry={'scheduler': 'slurm', 'access': ['-p compute']})
    site = SimpleNamespace(partitions={'compute': partition})
    before = Nodes.now(site)
    assert before.booted.keys() == {'n1', 'n2', 'n3'}, 'expected no node that the site cannot use'
    assert all(0 < before.asked - booted < 1e9 for booted in before.booted.values())
    made = ['users=root', 'starttime=now', 'duration=10']
    night.tell('scontrol', 'create', 'reservation', 'reservationname=own', 'nodes=n1', 'flags=maint', *made)
    night.tell('scontrol', 'create', 'reservation', 'reservationname=other', 'nodes=n2', *made)
    try:
        assert night.tell('scontrol', 'reconfigure').returncode == 0
        wait_for(lambda: {'maint', 'reserved'} <= {node.state for node in Nodes.now(site).out}, 60)
        earlier = dataclasses.replace(before, booted={name: when - 1 for name, when in before.booted.items()})
        assert Nodes.now(site).problems_since(before) == Nodes.now(site).problems_since(earlier) == []
        assert free_nodes(partition) == ['n3']
        partition.entry['access'] += ['--reservation=own']
        assert free_nodes(partition) == ['n1']
        assert [node.name for node in Nodes.now(site).out] == ['n2']
    finally:
        for name in ('own', 'other'):
            night.tell('scontrol', 'delete', f'reservationname={name}')


def test_a_night_without_accounting(night):
    """The controller itself says how the jobs ended."""
    night.prepare('none', 'requeued', seconds=300)
    night.after('requeued', 'scancel', '{job}')
    configuration = Path(night.slurm['SLURM_CONF'])
    without = configuration.with_name('without.conf')
    without.write_text(re.sub('^Accounting', '#', configuration.read_text(), flags=re.MULTILINE))
    night.slurm['SLURM_CONF'] = str(without)
    assert 'accounting storage is disabled' in night.tell('sacct').stderr
    answer = night.nightly()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert night.queue() == ''
    cases = night.cases()
    assert [run['result'] for run in cases['none']] == ['pass']
    first, second = cases['requeued']
    node = (night.folder / 'requeued').read_text().split()[1]
    assert 'CANCELLED' in first['fail_reason'] and f'on {node}' in first['fail_reason']
    assert (second['result'], second['record']['job']['exitcode']) == ('pass', 0)


def stands_in(night, name: str, lines: str):
    """Put a program before that of Slurm; what asks Slurm waits 2 s for it in place of a minute."""
    folder = night.folder / 'bin'
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/bash\n{lines}\n')
    (folder / name).chmod(0o755)
    night.slurm['PATH'] = f'{folder}:{night.slurm["PATH"].removeprefix(f"{folder}:")}'
    programs = night.clone.root / 'plumbline/programs.py'
    programs.write_text(re.sub(r'^TIME_LIMIT = \S+', 'TIME_LIMIT = 2.0', programs.read_text(), flags=re.MULTILINE))


def test_programs_of_slurm_that_hang_or_get_no_answer_lose_nothing(night):
    """sbatch says what it says when the controller answers too late, although the job is in the queue."""
    night.prepare('none')
    late = 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation'
    stands_in(night, 'sbatch', f'PATH={night.slurm["PATH"]} sbatch "$@" && echo "{late}" >&2; exit 1')
    stands_in(night, 'sacct', 'exec sleep 1000')
    answer = night.nightly()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    ((case,),) = night.cases().values()
    assert case['result'] == 'pass' and case['record']['job']['state'] == 'COMPLETED'
    assert {row['n'] for row in night.verdicts().values()} == {1}
    (log,) = night.clone.results.glob('logs/*.log')
    assert log.read_text().count('sacct: did not end within 2 s') == 1, 'a program that hangs is not asked at each look'


def test_a_job_that_the_controller_forgot(night):
    """The controller is killed and comes back with an older state; accounting says RUNNING for good."""
    night.prepare('none', 'one', seconds=600)
    state = night.run_folder.with_name('state')
    kept = night.folder / 'state'
    shutil.copytree(state, kept)
    # it is lost when its time limit is over; Slurm itself ends no job before a minute
    running = night.start('--no-retry', selection=('-S', 'time_limit=10s'), PLUMBLINE_PATIENCE='3')
    job, node = night.job_of('one')
    wait_for(lambda: 'RUNNING' in night.tell('sacct', '-nXP', '-j', job, '-o', 'State').stdout)
    try:
        os.kill(int((night.run_folder / 'slurmctld.pid').read_text()), signal.SIGKILL)
        shutil.copytree(kept, state, dirs_exist_ok=True)
        start(night, 'slurmctld')
        output, _ = running.communicate(timeout=180)
        assert running.returncode == 1, output
        (case,) = night.cases()['one']
        why = case['fail_reason']
        assert case['record']['job']['state'] == 'LOST' and 'in trial 1 of 1' in why and f'on {node}' in why
        assert 'controller' in why and night.tell('sacct', '-nXP', '-j', job, '-o', 'State').stdout.strip() in why
    finally:
        running.kill()
        while int(night.tell('sbatch', '-H', '--parsable', '-o', '/dev/null', '--wrap', 'true').stdout) < int(job):
            pass  # so that no later test gets the number of a job that accounting knows


STALE = {
    'sbatch': 'echo Submitted batch job 7', 'sinfo': '', 'scontrol': 'echo n1',
    'sacct': 'touch "${0%/*}/../asked"; echo "7|RUNNING|0:0|Unknown|n1"',
    'squeue': 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1',
    'scancel': 'echo "scancel: error: Kill job error on job id 7: Invalid job id specified" >&2; exit 1',
}  # fmt: skip


def test_a_signal_ends_a_session_whose_job_nobody_knows(clone, tmp_path):
    night = Night(clone, {'SLURM_CONF': str(tmp_path / 'etc/slurm.conf'), 'PATH': ''}, tmp_path / 'faults')
    night.prepare('none')
    for name, lines in STALE.items():
        stands_in(night, name, lines)
    command = ['reframe', '-C', 'reframe_settings/settings.py', '-c', 'checks/fault.py', '-r']
    running = subprocess.Popen(
        command, cwd=clone.root, env=clone.environment(**night.slurm), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    wait_for((night.folder / 'asked').exists)
    running.send_signal(signal.SIGTERM)
    try:
        output, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode and 'job 7 is lost' in output and 'accounting says RUNNING' in output, output


def stop(night, *daemons: str):
    pids = [int((night.run_folder / f'{daemon}.pid').read_text()) for daemon in daemons]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)  # killed, it would come back without what it had not yet written
    wait_for(lambda: not any(Path(f'/proc/{pid}').exists() for pid in pids))
    for daemon in daemons:
        (night.run_folder / f'{daemon}.pid').unlink(missing_ok=True)


def start(night, *daemons: str):
    for daemon in daemons:
        assert night.tell(daemon).returncode == 0


def test_a_reframe_that_is_killed_loses_nothing_that_was_measured(night):
    night.prepare('none', 'one', seconds=300)
    running = night.start_alone()
    night.job_of('one')
    wait_for(lambda: list(night.clone.results.glob('logs/*.journal')))
    wait_for(lambda: '"none"' in next(night.clone.results.glob('logs/*.journal')).read_text())
    (reframe,) = Path(f'/proc/{running.pid}/task/{running.pid}/children').read_text().split()
    os.kill(int(reframe), signal.SIGKILL)
    output, _ = running.communicate(timeout=120)
    assert running.returncode == 0, output
    assert 'ReFrame was ended by SIGKILL' in ' '.join(output.split())
    cases = night.cases()
    assert [case['result'] for case in cases['none']] == ['pass']
    assert [case['result'] for case in cases['one']] == ['pass'], 'it was not run once more'
    assert night.verdicts()['none', 'rate']['n'] == 1
    assert night.queue() == ''


def test_a_nightly_that_is_killed_is_resumed(night):
    night.prepare('none', 'one', seconds=300)
    running = night.start()
    job, _ = night.job_of('one')
    other = night.nightly()
    assert other.returncode == 2 and re.search(r'\(process \d+ since', other.stderr)
    wait_for(lambda: '"none"' in ''.join(path.read_text() for path in night.clone.results.glob('logs/*.journal')))
    running.kill()
    running.wait()
    assert job in night.queue()
    second = night.nightly()
    assert second.returncode == 0, second.stdout + second.stderr
    assert 'a run before this one was killed; ended ' in second.stdout  # ReFrame, which may cancel its job itself
    assert job not in night.queue()
    assert '1 of them are done' in second.stdout
    cases = night.cases()
    assert {fault: [case['result'] for case in runs] for fault, runs in cases.items()} == {
        'none': ['pass'], 'one': ['pass'],
    }  # fmt: skip
    first, after = (int(cases[fault][0]['record']['job']['id']) for fault in ('none', 'one'))
    assert first <= int(job) + 1 and after > int(job), 'the case that was done ran again'
    assert night.queue() == ''


def test_a_slow_node_and_a_lost_one(night):
    """The slow node is named after reruns there and elsewhere, the lost one beside it, and the night fails."""
    from test_faults import baseline

    night.prepare('none')
    night.clone.program('[ $SLURMD_NODENAME = n1 ] && echo "rate: 30.5" || echo "rate: 50.5"; echo "delay: 1.25"')
    baseline(night.clone, partition='compute', check='Fault', params='fault=none')
    night.tell('scontrol', 'update', 'NodeName=n2', 'State=down', 'Reason=lost')
    answer = night.nightly()
    said = ' '.join(answer.stdout.split())
    assert answer.returncode == 1, said
    assert 'n2 of compute is down (lost), but not drained' in said
    row = night.verdicts()['none', 'rate']
    assert (row['verdict'], row['value']) == ('regressed', 30.5)
    assert 'NODE n2: n2 of compute is down' in said
    (slow,) = (one for one in night.incidents() if one['where'] == 'n1')
    assert f'{slow["id"]} NODE n1: 39.0 % less' in said
    told = ' '.join(slow['evidence'])  # after what else ran on this host
    assert re.search(r' 30.5 GB/s on n1, run again: 50.5 GB/s on n\d+; 30.5, 30.5 GB/s on n1; expected 50 ', told), told


def test_cases_of_distribute_run_again(night):
    """Each on its own node: one that failed, and one beyond its limit. The run does not wait for a drained node."""
    from test_faults import baseline

    night.prepare('none')
    night.clone.program(
        f'case $SLURMD_NODENAME in n1) [ -e {night.folder}/n1 ] || {{ touch {night.folder}/n1; exit 3; }} ;;\n'
        'n3) echo "rate: 30.5"; echo "delay: 1.25"; exit ;; esac\necho "rate: 50.5"; echo "delay: 1.25"'
    )
    baseline(night.clone, partition='compute', check='Fault', params='fault=none')
    night.tell('scontrol', 'update', 'NodeName=n2', 'State=drain', 'Reason=disk')
    answer = night.nightly(selection=('--distribute=all',), PLUMBLINE_PATIENCE='3')
    assert answer.returncode == 1, answer.stdout + answer.stderr
    runs = {}
    for case in night.cases()['none']:
        runs.setdefault(case['display_name'].partition('%.nid=')[2], []).append(case)
    assert {node: [case['result'] for case in cases] for node, cases in runs.items()} == {
        'n1': ['fail', 'pass'], 'n2': ['fail', 'fail'], 'n3': ['fail'] * 5,
    }  # fmt: skip
    assert runs['n1'][1]['job_nodelist'] == ['n1']
    assert 'exit code 3 in trial 1 of' in runs['n1'][0]['fail_reason']
    assert all('ReqNodeNotAvail' in case['fail_reason'] for case in runs['n2'])
    said = ' '.join(answer.stdout.split())
    found = {(one['kind'], one['where']): one for one in night.incidents()}
    assert {('NODE', 'n1'), ('NODE', 'n3')} <= found.keys(), found
    crashed, slow = found['NODE', 'n1'], found['NODE', 'n3']
    assert 'exit code 3 in trial 1 of' in crashed['cause'] and 'passed when it ran again on n1' in crashed['evidence']
    assert slow['loss'] == pytest.approx(39, abs=1) and 'rate: 30.5 GB/s on n3' in ' '.join(slow['evidence'])
    assert 'scontrol show node n3' in slow['next_steps']
    assert f'{crashed["id"]} NODE n1' in said and f'{slow["id"]} NODE n3' in said
    assert night.queue() == ''


def test_nodes_of_one_partition_get_no_jobs_of_another(night):
    night.prepare('none')
    text = night.clone.site_file.read_text()
    start, end = text.index('  - name: compute'), text.index('environments:')
    other = text[start:end].replace('name: compute', 'name: debug').replace('-p compute', '-p debug')
    night.clone.site_file.write_text(text[:end] + other + text[end:])
    listed = night.clone.reframe('--distribute=all', '-lC', checks='checks/fault.py', **night.slurm).stdout
    found = re.findall(r'%.nid=(\w+) /\w+ @demo:(\w+)', listed)
    assert sorted(found) == [('n1', 'compute'), ('n2', 'compute'), ('n3', 'compute'), ('n3', 'debug'), ('n4', 'debug')]


@contextmanager
def small_file_system(folder: Path, options: str):
    folder.mkdir(parents=True)
    if os.geteuid() or subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'none', folder], check=False).returncode:
        pytest.skip('tmpfs cannot be mounted here')
    try:
        yield
    finally:
        subprocess.run(['umount', folder], check=True)


def test_a_stage_directory_that_is_full(night):
    """What was measured before is stored; the case that filled it fails with this cause and its node.

    It fills it when the other case has left: that would free some of it again.
    """
    night.prepare('fills', 'none')
    stage = night.clone.results / 'nightly-stage'
    night.clone.program(
        'echo "rate: 50.$RANDOM"\n'
        f'[ $1 = none ] || {{ until [ -s {night.clone.results}/logs/*.journal ] &&\n'
        f'[ $(ls -d {stage}/*/demo/compute/system/Fault* | wc -l) = 1 ]; do sleep 0.5; done; yes > fill; }}\n'
        'echo "delay: 1.20$RANDOM"'
    )
    with small_file_system(stage, 'size=2m'):
        answer = night.nightly()
    assert answer.returncode == 1, answer.stdout + answer.stderr
    cases = night.cases()
    assert [run['result'] for run in cases['none']] == ['pass']
    first, second = cases['fills']
    assert f'the file system of {stage}' in first['fail_reason'] and 'is full' in first['fail_reason']
    assert f'on {first["job_nodelist"][0]}' in first['fail_reason']
    assert 'is full' in second['fail_reason'] or 'No space left on device' in second['fail_reason']
    assert night.verdicts()['none', 'rate']['n'] == 1
    assert night.queue() == ''


@pytest.fixture
def clock(tmp_path):
    """`clock(days)` sets the clock of all that has its environment; that of Slurm's daemons stays."""
    compiler, library, ahead = shutil.which('cc'), tmp_path / 'clock.so', tmp_path / 'ahead'
    if compiler is None:
        pytest.skip('cc is not installed')
    subprocess.run([compiler, '-shared', '-fPIC', '-o', library, Path(__file__).with_name('clock.c')], check=True)

    def set_to(days: int):
        ahead.write_text(f'{days * 86400}')

    set_to.environment = {'LD_PRELOAD': str(library), 'CLOCK_AHEAD': str(ahead)}
    return set_to


def test_a_clock_that_is_set_during_the_night(night, clock):
    """The clock of a first run is 100 days ahead and is corrected; in a second one it jumps ahead."""
    night.prepare('one', seconds=4)
    logs = []
    for before, after, how in ((100, 0, 'back'), (0, 100, 'forward')):
        (night.folder / 'one').unlink(missing_ok=True)
        clock(before)
        running = night.start_alone(**clock.environment)
        night.job_of('one')
        clock(after)
        output, _ = running.communicate(timeout=120)
        assert running.returncode == 1, output
        said = ' '.join(output.split())
        assert f'the clock of this host was set {how} by 86' in said
        first, second = night.cases()['one']
        assert re.search(r'the clock was set by [-+]86\d+ s in trial \d of \d on n\d', first['fail_reason'])
        assert second['result'] == 'pass', output
        assert 0 <= second['record']['trial_seconds'][0] < 10  # in steps of 10 ms
        assert {row['n'] for row in night.verdicts().values()} == {1}
        assert night.queue() == ''
        logs.append(len(list(night.clone.results.glob('logs/*.log'))))
    assert logs == [1, 2], 'the log of a night that looks old was removed'

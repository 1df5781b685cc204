# SPDX-License-Identifier: BSD-3-Clause
"""`reframe_settings.schedulers` without a cluster; tests/end_to_end/test_slurm*.py have a real Slurm."""

import os
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.schedulers import Job as ReframeJob
from scratch import ROOT

from reframe_settings import schedulers

COMPARE_REFRAME = """
import importlib, inspect, os, runpy, sys
from contextlib import suppress
from pathlib import Path
import reframe

top = Path(reframe.__file__).parent
for path in top.rglob('*.py'):
    with suppress(ImportError):  # a module that this backend needs is not installed
        importlib.import_module('.'.join(('reframe', *path.relative_to(top).with_suffix('').parts)))

def contents():
    modules = {name: module for name, module in sys.modules.items() if name.split('.')[0] == 'reframe'}
    found = {(name, key): value for name, module in modules.items() for key, value in vars(module).items()}
    for (name, key), value in list(found.items()):
        if inspect.isclass(value) and value.__module__ == name:
            found |= {(f'{name}.{key}', attribute): kept for attribute, kept in vars(value).items()}
    return found

before = contents()
sys.path.insert(0, os.getcwd())
runpy.run_path('reframe_settings/settings.py')
import checks.core.benchmark, reframe_settings.schedulers
after = contents()
changed = [key for key, value in before.items() if after.get(key) is not value]
assert ('reframe.core.schedulers.slurm.SlurmJobScheduler', 'poll') in before
assert not changed, changed
"""


def test_nothing_of_reframe_is_replaced():
    answer = subprocess.run(
        [sys.executable, '-c', COMPARE_REFRAME], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_each_scheduler_keeps_the_word_of_the_site_in_reports():
    wrong = []
    for word in ('local', 'slurm', 'squeue', 'pbs', 'pbspro', 'torque', 'lsf'):
        theirs, ours = getscheduler(word), getscheduler(schedulers.register(word))
        if theirs is ours or (ours.registered_name, ours.is_local) != (word, theirs.is_local):
            wrong.append(word)
    assert not wrong and schedulers.register('nosuch') == 'nosuch'  # left to ReFrame's own message
    assert issubclass(getscheduler(schedulers.register('local')), getscheduler('local'))


class Clock:
    """The clocks as `schedulers` sees them: sleeping takes no time, and the time of day can be set."""

    def __init__(self):
        self.monotonic_now, self.ahead = 1000.0, 1_700_000_000.0

    def time(self):
        return self.monotonic_now + self.ahead

    def monotonic(self):
        return self.monotonic_now

    def sleep(self, seconds):
        self.monotonic_now += seconds


class TenSeconds:
    """A scheduler whose jobs take ten seconds."""

    def submit(self, job):
        job._submit_time = schedulers.time.time()

    def poll(self, *jobs):
        self.elapsed = [schedulers.time.time() - job._submit_time for job in jobs]

    def finished(self, job):
        return schedulers.time.monotonic() - job.submitted >= 10


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(schedulers, 'time', clock)
    monkeypatch.setattr(schedulers.SteadyClock, '_offset', clock.ahead)
    return clock


@pytest.mark.parametrize('step', [-86400.0, 86400.0])
def test_a_set_clock_ends_the_poll_with_the_first_job_and_shifts_no_time_limit(clock, step):
    scheduler = type('Steady', (schedulers.SteadyClock, TenSeconds), {})()
    first, second = SimpleNamespace(), SimpleNamespace()
    scheduler.submit(first)
    clock.sleep(4)
    scheduler.submit(second)
    scheduler.poll(first, None, second)
    assert scheduler.elapsed == [4, 0]
    clock.ahead += step
    scheduler.poll(first, second)
    assert scheduler.elapsed == [10, 6], 'polled until one job had ended, by a clock that is not set'
    scheduler.poll(second)
    assert scheduler.elapsed == [6], 'one such wait is enough'
    clock.ahead -= schedulers.CLOCK_STEP / 2
    scheduler.poll(second)
    assert scheduler.elapsed[0] < 10, 'a small step waits for no job'


@pytest.mark.parametrize(('fields', 'cpus'), [({'cpus_of_node': 64}, 64), ({}, 4)])
def test_a_job_of_pbs_asks_for_all_cpus_of_its_nodes(fields, cpus):
    pbs = type('Pbs', (schedulers.OnWholeNodes, getscheduler('pbs')), {'get_option': lambda *words: None})()
    job = pbs.make_job('job')
    vars(job).update(num_tasks=8, num_tasks_per_node=4, **fields)
    assert f'#PBS -l select=2:mpiprocs=4:ncpus={cpus}' in pbs.emit_preamble(job)


def test_rows_of_slurm_are_read_by_job():
    text = (
        '12|COMPLETED|0:0|1700000000|n[1-2]\n'
        '13_1|RUNNING|0:0|Unknown|n1\n13_2|CANCELLED by 0|1:0|1700000001|None assigned\n'
        '14+0|TIMEOUT|0:15|1700000002|n1\nslurm: error: no number\n'
    )
    rows = schedulers._rows(text, lambda status: int(status.partition(':')[0]))
    assert {job: [(row.state, row.exit_code) for row in found] for job, found in rows.items()} == {
        '12': [('COMPLETED', 0)], '13': [('RUNNING', 0), ('CANCELLED', 1)], '14': [('TIMEOUT', 0)],
    }  # fmt: skip
    assert rows['12'][0].nodes == 'n[1-2]'


class Slurm(schedulers.Squeue):
    """Slurm whose commands print what `answers` has by their first word, instead of being run."""

    _sacct, _squeue = 'sacct', 'squeue'

    def __init__(self, accounting=False):
        super().__init__()
        self._patience, self.logged, self.accounting = 300, [], accounting

    def get_option(self, option):
        return {'slurm_job_cancel_reasons': ['ReqNodeNotAvail', 'BadConstraints'], 'job_submit_timeout': 60}.get(
            option, ''
        )

    def log(self, message, **options):
        self.logged.append(message)


class Job(SimpleNamespace):
    """A job of a case; `_state` is what a poll found."""

    def __init__(self, **given):
        given = {'jobid': '12', '_state': None, 'max_pending_time': None, 'time_limit': 600, 'submitted': 0.0} | given
        super().__init__(is_cancelling=False, **given)

    state = property(lambda self: self._state)
    __hash__ = object.__hash__  # ReFrame keeps jobs as keys


@pytest.fixture
def answers(monkeypatch):
    """By program: its exit code, what it prints, and its errors, if they are others; 124 stands for one that hangs."""
    answers = {'scontrol': (0, 'n1\n')}
    answers['asked'] = asked = []

    def run_command(words, timeout, **options):
        program = words.split()[0]
        asked.append(program)
        status, text, *errors = answers[program]
        if status == 124:
            raise SpawnedProcessTimeout(words, '', '', timeout)
        return SimpleNamespace(returncode=status, stdout=text, stderr=(errors or ['it was refused' * bool(status)])[0])

    monkeypatch.setattr(schedulers.osext, 'run_command', run_command)
    monkeypatch.setattr(schedulers, 'temp_environment', lambda **options: nullcontext())
    return answers


def test_the_controller_tells_an_exit_code_as_a_wait_status(answers):
    answers['squeue'] = 0, '12|COMPLETED|0|1700000000|n1\n13|FAILED|768|1700000001|n2\n14|TIMEOUT|15|1700000002|n3\n'
    found = Slurm()._from_controller(['12', '13', '14'])
    assert {job: row.exit_code for job, (row,) in found.items()} == {'12': 0, '13': 3, '14': 0}
    answers['squeue'] = 1, ''
    assert Slurm()._from_controller(['12']) is None


@pytest.fixture
def scancel(tmp_path, monkeypatch):
    """Put a program `scancel` into PATH that runs a script; return the file with the jobs of each call."""

    def scancel(script=''):
        program, called = tmp_path / 'bin/scancel', tmp_path / 'cancelled'
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\necho "$*" >> {called}\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv('PATH', f'{program.parent}:/usr/bin:/bin')
        return called

    return scancel


def test_a_job_without_a_node_is_cancelled_after_a_while_and_other_reasons_at_once(answers, clock, scancel):
    """ReFrame cancels a job anew with each poll until its state says so."""
    cancelled = scancel()
    jobs, slurm = [Job(jobid=number, submitted=clock.monotonic()) for number in ('12', '13')], Slurm(accounting=True)
    answers['sacct'] = 0, '12|PENDING|0:0|Unknown|None assigned\n13|PENDING|0:0|Unknown|None assigned\n'

    def poll(reason):
        answers['squeue'] = 0, f'12|{reason}\n13|BadConstraints\n'
        slurm.poll(*jobs)
        return cancelled.read_text().splitlines()

    no_node = 'ReqNodeNotAvail, UnavailableNodes:n1'
    assert poll(no_node) == ['13']
    clock.sleep(299)
    assert poll(no_node) == ['13'] * 2
    clock.sleep(1)
    assert poll(no_node)[2:] == ['12 13']
    poll('Priority')
    assert poll(no_node)[3:] == ['13', '13'], 'the node was there in between, and its absence counts anew'


UNKNOWN = 1, '', 'slurm_load_jobs error: Invalid job id specified'


@pytest.mark.parametrize('state', ['RUNNING', 'REQUEUED'])
def test_a_job_that_the_controller_forgot_is_lost_after_its_time(state, answers, clock):
    """A job that Slurm counts as waiting after the patience, one that it counts as running after its limit, too."""
    slurm, job = Slurm(accounting=True), Job(submitted=clock.monotonic())
    answers['sacct'], answers['squeue'] = (0, f'12|{state}|0:0|Unknown|n[1-2]\n'), UNKNOWN
    slurm.poll(job)
    lost_after = 900 if state == 'RUNNING' else 300
    clock.sleep(lost_after - 1)
    slurm.poll(job)
    assert job.state == state and not slurm.finished(job)
    clock.sleep(2)
    slurm.poll(job)
    assert job.state == 'LOST' and slurm.finished(job)
    assert 'controller' in job.lost and state in job.lost
    slurm.poll(job)
    assert job.state == 'LOST', 'it does not come back'


def test_a_job_of_a_session_that_ends_is_lost_at_once_if_nobody_knows_it(answers, scancel):
    scancel('echo Invalid job id specified >&2; exit 1')
    slurm, job = Slurm(accounting=True), Job(submitted=schedulers.time.monotonic())
    answers['sacct'], answers['squeue'] = (0, '12|RUNNING|0:0|Unknown|n1\n'), UNKNOWN
    slurm.poll(job)
    assert job.state == 'RUNNING'
    slurm.cancel_many([job])
    slurm.poll(job)
    assert job.state == 'LOST'


def test_a_job_that_waits_long_is_not_lost_while_the_controller_knows_it(answers, clock):
    slurm, job = Slurm(accounting=True), Job(submitted=clock.monotonic())
    answers['sacct'] = 0, '12|PENDING|0:0|Unknown|None assigned\n'
    answers['squeue'] = 0, '12|Licenses\n'
    for _ in range(3):
        clock.sleep(5000)
        slurm.poll(job)
    assert (job.state, job.waits_for) == ('PENDING', 'Licenses')
    from checks.core.reading.causes import Ending

    job._state, job.nodelist, job.exitcode, job.stderr = 'CANCELLED', [], None, 'none'
    assert 'Licenses' in Ending.of(job, Path('none'), 3).remark


def test_an_outage_of_slurm_leaves_jobs_as_they_are_and_after_half_an_hour_they_are_lost(answers, clock):
    slurm, job = Slurm(), Job(submitted=clock.monotonic(), _state='RUNNING')
    for outage in range(2):
        answers['squeue'] = 1, ''
        for _ in range(3):
            clock.sleep(500)
            slurm.poll(job)
        assert getattr(job, '_nodespec', '') == outage * 'n1'
        answers['squeue'] = 0, '12|RUNNING|0|Unknown|n1\n'
        slurm.poll(job)
    assert (job._state, job._nodespec) == ('RUNNING', 'n1')
    answers['squeue'] = 1, ''
    clock.sleep(1800)
    slurm.poll(job)
    assert job.state == 'RUNNING'
    clock.sleep(1)
    slurm.poll(job)
    assert job.state == 'LOST' and 'squeue: it was refused' in job.lost


def test_without_accounting_a_job_that_the_controller_forgot_has_ended(answers, clock):
    slurm, job = Slurm(), Job(submitted=clock.monotonic(), _state='RUNNING')
    answers['squeue'] = UNKNOWN
    slurm.poll(job)
    assert job.state == 'RUNNING', 'it may not know the job yet'
    clock.sleep(schedulers.SqueueJobScheduler.SQUEUE_DELAY + 1)
    slurm.poll(job)
    assert job.state == 'COMPLETED' and slurm.finished(job)


# What ReFrame's backends that learn no exit code are answered on a job that has ended
ENDED = {
    'bjobs': (0, '12 me DONE batch\n'), 'qstat -xml': (0, '<job_info><queue_info/><job_info/></job_info>'),
    'qstat -f ': (153, ''), 'qstat -xf': (153, ''), 'oarstat': (0, 'Job_Id: 12\n    state = Terminated\n'),
}  # fmt: skip


@pytest.mark.parametrize('word', ['lsf', 'sge', 'pbs', 'torque', 'oar'])
def test_a_job_whose_exit_code_no_scheduler_tells_ended_well_if_its_script_came_to_its_end(word, tmp_path, monkeypatch):
    from checks.core.reading.causes import Ending

    def answer(words, **_):
        code, printed = next(told for begin, told in ENDED.items() if words.startswith(begin))
        return subprocess.CompletedProcess(words, code, printed, '')

    for name in ('lsf', 'sge', 'pbs', 'oar'):
        module = import_module(f'reframe.core.schedulers.{name}')
        monkeypatch.setattr(module.osext, 'run_command', answer)
        monkeypatch.setattr(module, '_run_strict', answer)
    scheduler = getscheduler(schedulers.register(word))()
    job = ReframeJob.create(scheduler, getlauncher('local')(), name='job', workdir=str(tmp_path))
    job._jobid, job._submit_time = '12', schedulers.time.time()
    for name in (job.stdout, job.stderr):
        (tmp_path / name).touch()
    scheduler.poll(job)
    assert scheduler.finished(job) and job.exitcode is None
    ending = Ending.of(job, tmp_path, None)
    assert not ending.well and ending.own_fault
    (tmp_path / 'job_ended').touch()
    assert Ending.of(job, tmp_path, None).well
    job._exitcode = 256
    assert not Ending.of(job, tmp_path, None).well, 'the scheduler knows better'
    job._exitcode, job._state = None, 'CANCELLED'
    assert not Ending.of(job, tmp_path, None).well


def test_a_program_that_hangs_is_not_asked_for_ten_minutes(answers, clock):
    slurm, job = Slurm(accounting=True), Job(submitted=clock.monotonic())
    answers['sacct'], answers['squeue'] = (124, ''), (0, '12|RUNNING|0|Unknown|n1\n')
    for _ in range(3):
        slurm.poll(job)
        assert job.state == 'RUNNING'
    assert answers['asked'].count('sacct') == 1
    assert any('sacct: did not end within 60 s' in line for line in slurm.logged)
    clock.sleep(601)
    slurm.poll(job)
    assert answers['asked'].count('sacct') == 2


@pytest.mark.parametrize(
    'errors, queue, found',
    [
        ('Socket timed out on send/recv operation', '7|FOLDER\n8|FOLDER\n9|/other\n', '8'),
        ('Socket timed out on send/recv operation', '6|FOLDER\n9|/other\n', None),
        ('Invalid account', '8|FOLDER\n', None), (None, '8|FOLDER\n', '8'),
    ],
)  # fmt: skip
def test_a_job_that_slurm_took_without_an_answer_is_found_by_its_folder(
    errors, queue, found, answers, clock, monkeypatch
):
    """None: sbatch did not end in time. Job 6 was submitted from that folder before."""

    def sbatch(self, args):
        if errors is None:
            raise SpawnedProcessTimeout('sbatch job.sh', '', '', 60)
        raise SpawnedProcessError('sbatch job.sh', '', errors, 1)

    slurm = Slurm()
    slurm._taken = {'6'}
    answers['squeue'] = 0, queue.replace('FOLDER', os.getcwd())
    monkeypatch.setattr(schedulers.SlurmJobScheduler, 'sbatch', sbatch)
    with pytest.raises(SpawnedProcessError) if found is None else nullcontext():
        assert slurm.sbatch(['job.sh']).stdout == f'Submitted batch job {found}'

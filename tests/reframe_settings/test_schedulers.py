# SPDX-License-Identifier: BSD-3-Clause
"""`reframe_settings.schedulers` without a cluster; tests/end_to_end/test_slurm*.py have a real Slurm."""

import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from reframe.core.backends import getscheduler
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
    assert not wrong
    assert issubclass(getscheduler(schedulers.register('local')), getscheduler('local'))


def test_a_scheduler_that_reframe_lacks_is_left_to_its_own_message():
    assert schedulers.register('nosuch') == 'nosuch'


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


def test_a_small_step_of_the_clock_waits_for_no_job(clock):
    scheduler = type('Steady', (schedulers.SteadyClock, TenSeconds), {})()
    job = SimpleNamespace()
    scheduler.submit(job)
    clock.ahead -= schedulers.CLOCK_STEP / 2
    scheduler.poll(job)
    assert scheduler.elapsed == [0]


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

    _squeue = 'squeue'

    def __init__(self):
        super().__init__()
        self._patience, self.logged = 300, []

    def get_option(self, option):
        return 3 if option == 'max_sacct_failures' else ''

    def log(self, message, **options):
        self.logged.append(message)


@pytest.fixture
def answers(monkeypatch):
    answers = {}

    def run_command(words, **options):
        status, text = answers[words.split()[0]]
        return SimpleNamespace(returncode=status, stdout=text, stderr='it was refused' * bool(status))

    monkeypatch.setattr(schedulers.osext, 'run_command', run_command)
    monkeypatch.setattr(schedulers, 'temp_environment', lambda **options: nullcontext())
    return answers


def test_the_controller_tells_an_exit_code_as_a_wait_status(answers):
    answers['squeue'] = 0, '12|COMPLETED|0|1700000000|n1\n13|FAILED|768|1700000001|n2\n14|TIMEOUT|15|1700000002|n3\n'
    found = Slurm()._from_controller(['12', '13', '14'])
    assert {job: row.exit_code for job, (row,) in found.items()} == {'12': 0, '13': 3, '14': 0}
    answers['squeue'] = 1, ''
    assert Slurm()._from_controller(['12']) is None


def test_a_job_without_a_node_is_cancelled_after_a_while_and_other_reasons_at_once(answers, clock, monkeypatch):
    given = []
    ours = schedulers.SlurmJobScheduler
    monkeypatch.setattr(ours, '_cancel_if_blocked', lambda self, jobs, reasons: given.append(reasons))
    answers['squeue'] = 0, '12|ReqNodeNotAvail, UnavailableNodes:n1\n13|BadConstraints\n'
    jobs, slurm = [SimpleNamespace(jobid=number, state='PENDING') for number in ('12', '13')], Slurm()
    unavailable, wrong = {'12': ['ReqNodeNotAvail, UnavailableNodes:n1']}, {'13': ['BadConstraints']}
    slurm._cancel_if_blocked(jobs)
    assert given == [wrong]
    clock.sleep(299)
    slurm._cancel_if_blocked(jobs)
    assert given == [wrong] * 2
    clock.sleep(1)
    slurm._cancel_if_blocked(jobs)
    assert given[2:] == [unavailable | wrong]
    answers['squeue'] = 0, '12|Priority\n13|BadConstraints\n'
    slurm._cancel_if_blocked(jobs)
    answers['squeue'] = 0, '12|ReqNodeNotAvail, UnavailableNodes:n1\n'
    slurm._cancel_if_blocked(jobs)
    assert len(given) == 4, 'the node was there in between, and its absence counts anew'


def test_how_long_a_node_may_be_away(monkeypatch):
    monkeypatch.delenv('PLUMBLINE_PATIENCE', raising=False)
    assert schedulers.settings.PATIENCE.get() == 120


def test_an_outage_of_slurm_leaves_jobs_as_they_are_and_a_long_one_is_an_error(answers):
    slurm, job = Slurm(), SimpleNamespace(jobid='12', state='RUNNING', max_pending_time=None)
    for outage in range(2):
        answers['squeue'] = 1, ''
        for _ in range(3):
            slurm.poll(job)
        assert getattr(job, '_nodespec', '') == outage * 'n1'
        answers['squeue'] = 0, '12|RUNNING|0|Unknown|n1\n'
        slurm.poll(job)
    assert len(slurm.logged) == 6 and (job._state, job._nodespec) == ('RUNNING', 'n1')
    answers['squeue'] = 1, ''
    with pytest.raises(schedulers.JobSchedulerError, match='no answer on its jobs 4 times in a row'):
        for _ in range(4):
            slurm.poll(job)

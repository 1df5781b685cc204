# SPDX-License-Identifier: BSD-3-Clause
"""ReFrame's schedulers for unattended runs, as subclasses with names of their own; `settings.py` chooses them."""

import functools
import logging
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from reframe.core.backends import getscheduler, register_scheduler
from reframe.core.exceptions import ConfigError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.runtime import temp_environment
from reframe.core.schedulers.local import LocalJobScheduler
from reframe.core.schedulers.slurm import (
    SlurmJobScheduler,
    SqueueJobScheduler,
    slurm_state_completed,
    slurm_state_pending,
)
from reframe.utility import osext

from plumbline import settings
from plumbline.programs import TIME_LIMIT
from plumbline.site.schedulers import scheduler

CLOCK_STEP = 10  # seconds; a smaller step of the clock delays ReFrame by no more than that
OUTAGE = 1800  # seconds in which Slurm may give no answer on a job, or longer if the limit of the job is longer
NOT_ASKED = 600  # seconds for which a program that did not end in time is not asked again
TAKEN = 30  # seconds in which a job that Slurm took without an answer must show in the queue
_HANGS = 124  # exit code that stands for a program that did not end in time, as `timeout` has it
# Of sbatch: the job may have been taken. From SchedMD/slurm 22.05, src/common/slurm_errno.c
_UNANSWERED = re.compile('timed out|Zero Bytes were transmitted')


def clock_offset() -> float:
    """Return the seconds from the monotonic clock to the time of day; constant unless the time of day is set."""
    return time.time() - time.monotonic()


class _JobState(NamedTuple):
    """What Slurm says about a job. `end`: the time of its end in seconds since 1970, or a word."""

    state: str
    exit_code: int
    end: str
    nodes: str


class SteadyClock:
    """Mixin for a scheduler of ReFrame: keep time limits and pauses right while the clock of this host is set.

    ReFrame subtracts times of day. After a step of the clock, time limits of local jobs and waiting times of queued
    jobs would be wrong, and ReFrame would pause between two looks at its jobs for as long as the clock was set back.
    """

    _offset = clock_offset()  # when ReFrame last began to measure its pauses; shared by the whole process

    def submit(self, job):
        super().submit(job)
        job.submitted = time.monotonic()

    def poll(self, *given):
        jobs = [job for job in given if job is not None]
        self._poll_in_step(jobs)
        if jobs and abs(clock_offset() - SteadyClock._offset) > CLOCK_STEP:
            # Only the end of a job makes ReFrame measure its pauses anew, so wait for that here
            while not any(self.finished(job) for job in jobs):
                time.sleep(1)
                self._poll_in_step(jobs)
            SteadyClock._offset = clock_offset()

    def _poll_in_step(self, jobs):
        for job in jobs:
            if hasattr(job, 'submitted'):
                job._submit_time = job.submitted + clock_offset()
        super().poll(*jobs)


class Local(LocalJobScheduler):
    """Run jobs as processes on this host; a job beyond its time limit ends with state TIMEOUT, as under Slurm.

    ReFrame's own scheduler raises an error instead, and the check could not read the trials before the limit.
    """

    def finished(self, job) -> bool:
        """Return True if the job has ended."""
        if job.state == 'TIMEOUT':
            job._exception = None
        return super().finished(job)


class Slurm(SlurmJobScheduler):
    """Slurm whose jobs survive an outage or restart of its database or controller, and preemption.

    A job that Slurm itself has lost ends in the state LOST, and `lost` of the job says why.
    """

    accounting = True

    def __init__(self):
        super().__init__()
        self._patience = settings.PATIENCE.get()
        self._answered = time.monotonic()  # when Slurm last gave an answer on its jobs
        self._silent = ''  # what it said since
        self._asked_from: dict[str, float] = {}  # program that hung -> value of time.monotonic()
        self._unavailable_since: dict[str, float] = {}  # job -> time.monotonic()
        self._unknown_since: dict[str, float] = {}  # the same
        self._taken: set[str] = set()  # jobs that were submitted

    def sbatch(self, args):
        """Submit a job. One that Slurm took although sbatch got no answer is found in the queue by its folder."""
        try:
            submitted = super().sbatch(args)
        except SpawnedProcessError as error:
            hangs = isinstance(error, SpawnedProcessTimeout)
            job = self._job_in(os.getcwd()) if hangs or _UNANSWERED.search(error.stderr) else None
            if not job:
                raise
            self.log(f'sbatch got no answer, but Slurm took the job: {job}', level=logging.WARNING)
            submitted = subprocess.CompletedProcess(args, 0, f'Submitted batch job {job}', error.stderr)
        self._taken.update(re.findall(r'job (\d+)', submitted.stdout))
        return submitted

    def _job_in(self, folder: str) -> str | None:
        """Return the job of a folder that was just submitted; None if there is none after `TAKEN` seconds."""
        end = time.monotonic() + TAKEN
        while True:
            printed = self._run(f'{self._squeue} -h -t all --me -o "%A|%Z"').stdout
            jobs = dict(re.findall(r'^(\d+)\|(.*)$', printed, re.MULTILINE))
            if found := [job for job, where in jobs.items() if where == folder and job not in self._taken]:
                return max(found, key=int)
            if time.monotonic() > end:
                return None
            time.sleep(2)

    def cancel_many(self, jobs):
        """Cancel jobs; if scancel fails, such as for a job that the controller forgot, the session still ends."""
        for job in jobs:
            job.must_end = True
        try:
            super().cancel_many(jobs)
        except SpawnedProcessError as error:
            self.log(f'scancel failed: {error}', level=logging.WARNING)

    def finished(self, job) -> bool:
        """Return True if the job has ended. PREEMPTED is an end, too: jobs are submitted with ``--no-requeue``."""
        return slurm_state_completed(job.state and re.sub('PREEMPTED|LOST', 'CANCELLED', job.state))

    def poll(self, *given):
        """Set state, exit code and nodes of jobs, and cancel those that cannot start. In an outage, change nothing.

        A job is lost if the controller does not know it while accounting says that it has not ended, for
        ``PLUMBLINE_PATIENCE`` seconds or after its time limit; or if Slurm gave no answer for `OUTAGE` seconds.
        """
        jobs = [job for job in given if job is not None and job.state != 'LOST']
        if not jobs:
            return
        known = self._ask_slurm([job.jobid for job in jobs])
        if known is None:
            self._end_after_an_outage(jobs)
            return
        self._answered, self._silent = time.monotonic(), ''
        for job in jobs:
            if job.jobid in known:
                self._update(job, known[job.jobid])
            elif not self.accounting:
                self._forgotten(job)
        waiting = [job for job in jobs if not self.finished(job)]
        reasons = self._reasons(
            [
                job
                for job in waiting
                if slurm_state_pending(job.state) or job.jobid not in known or self._is_late(job) or _must_end(job)
            ]
        )
        self._end_unknown(waiting, reasons)
        self._cancel_if_blocked(waiting, reasons)
        self._cancel_if_pending_too_long(waiting)

    def _run(self, words: str) -> subprocess.CompletedProcess[str]:
        """Return the answer of a program of Slurm; one that hung fails for `NOT_ASKED` seconds without being asked."""
        program = words.split()[0]
        if time.monotonic() < self._asked_from.get(program, -inf):
            return subprocess.CompletedProcess(words, _HANGS, '', 'it hung and is not asked again yet')
        answer = _run(words)
        if answer.returncode == _HANGS:
            self._asked_from[program] = time.monotonic() + NOT_ASKED
        if answer.returncode and 'Invalid job id' not in answer.stderr:
            self._silent = f'{program}: {answer.stderr.strip()}'
            self.log(f'Slurm gives no answer: {self._silent}', level=logging.WARNING)
        return answer

    def _ask_slurm(self, jobs: list[str]) -> dict[str, list[_JobState]] | None:
        """Return the rows of each job that Slurm knows; None if it gives no answer."""
        with temp_environment(env_vars={'SLURM_TIME_FORMAT': '%s'}):
            if self.accounting:
                return self._from_database(jobs) or self._from_controller(jobs) or None
            return self._from_controller(jobs)

    def _from_database(self, jobs: list[str]) -> dict[str, list[_JobState]] | None:
        # Ask without a start time: a job may have begun before the clock was set back
        words = f'{self._sacct} -S 1970-01-01 -E 2038-01-01 -n -P -X -j {",".join(jobs)}'
        answer = self._run(f'{words} -o JobID,State,ExitCode,End,NodeList')
        return None if answer.returncode else _rows(answer.stdout, lambda status: int(status.partition(':')[0]))

    def _from_controller(self, jobs: list[str]) -> dict[str, list[_JobState]] | None:
        """Ask slurmctld, which knows a job until MinJobAge (default 300 s) after its end."""
        fields = ','.join(f'{name}:|' for name in ('JobArrayID', 'State', 'exit_code', 'EndTime', 'NodeList'))
        answer = self._run(f'{self._squeue} -h -t all -j {",".join(jobs)} -O "{fields}"')
        if answer.returncode and 'Invalid job id' not in answer.stderr:
            return None
        return _rows(answer.stdout, lambda status: int(status) >> 8)

    def _reasons(self, jobs) -> dict[str, str] | None:
        """Return why each job that the controller knows waits, in Slurm's words; None if it gives no answer."""
        if not jobs:
            return {}
        numbers = ','.join(job.jobid for job in jobs)
        answer = self._run(f'{self._squeue} -h -t all -j {numbers} -o "%A|%r"')
        if answer.returncode and 'Invalid job id' not in answer.stderr:
            return None
        reasons = dict(re.findall(r'^(\d+)\|(.*)$', answer.stdout, re.MULTILINE))
        now, before = time.monotonic(), self._unknown_since
        self._unknown_since = {job.jobid: before.get(job.jobid, now) for job in jobs if job.jobid not in reasons}
        for job in jobs:
            job.waits_for = reasons.get(job.jobid, '')
        return reasons

    def _is_late(self, job) -> bool:
        """Return True if the job would have reached its time limit by now, had it begun at once."""
        return time.monotonic() - job.submitted > (getattr(job, 'time_limit', None) or 0) + self._patience

    def _end_unknown(self, jobs, reasons):
        """End jobs that the controller does not know, after a while that lets accounting catch up."""
        now = time.monotonic()
        for job in jobs if reasons is not None else ():
            since = self._unknown_since.get(job.jobid, now)
            if job.jobid in self._unknown_since and (
                now - since >= self._patience or self._is_late(job) or _must_end(job)
            ):
                state = f'accounting says {job.state}' if self.accounting else f'it was {job.state}'
                self._lose(job, f'the controller of Slurm does not know it, and {state}')

    def _end_after_an_outage(self, jobs):
        silence = time.monotonic() - self._answered
        for job in jobs:
            limit = (getattr(job, 'time_limit', None) or 0) + self._patience
            if silence > (self._patience if _must_end(job) else max(OUTAGE, limit)):
                self._lose(job, f'Slurm gave no answer on it for {silence:.0f} s: {self._silent}')

    def _lose(self, job, why: str):
        job._state, job.lost = 'LOST', why
        self._list_nodes(job)
        self.log(f'job {job.jobid} is lost: {why}', level=logging.WARNING)

    def _update(self, job, rows: list[_JobState]):
        """Set state, nodes and exit code of a job from its rows; a job array or a heterogeneous job has several."""
        job._state = ','.join(row.state for row in rows)
        job._nodespec = ','.join(row.nodes for row in rows)
        if self.finished(job):
            job._exitcode = max(row.exit_code for row in rows)
            self._update_completion_time(job, [row.end for row in rows])
            self._list_nodes(job)

    def _list_nodes(self, job):
        # ReFrame fills the list of nodes only for states that it knows as final
        job._nodelist = _run(f'scontrol show hostname {job._nodespec}', log=False).stdout.split()

    @staticmethod
    def host_of(node: str) -> str:
        """Return Slurm's host name of a node, for ranks whose host has another name than their node."""
        return _host_of(node)

    def _forgotten(self, job):
        """Treat a job that the controller no longer knows as ended without an exit code, as ReFrame does."""
        if time.monotonic() - job.submitted > SqueueJobScheduler.SQUEUE_DELAY:
            job._state = 'CANCELLED' if job.is_cancelling else 'COMPLETED'

    def _cancel_if_blocked(self, jobs, reasons=None):
        """Cancel jobs that wait for a reason in ``slurm_job_cancel_reasons``; for ReqNodeNotAvail only after a while.

        slurmctld reports that no node is available for some time after its restart.
        """
        now, before = time.monotonic(), self._unavailable_since
        waiting = {job.jobid: reasons[job.jobid] for job in jobs if reasons and reasons.get(job.jobid)}
        since = {job: before.get(job, now) for job, reason in waiting.items() if reason.startswith('ReqNodeNotAvail')}
        self._unavailable_since = since
        if final := {job: [reason] for job, reason in waiting.items() if now - since.get(job, -inf) >= self._patience}:
            super()._cancel_if_blocked(jobs, final)


class Squeue(Slurm):
    """Slurm without accounting: the controller alone says how jobs ended."""

    accounting = False


def _must_end(job) -> bool:
    """Return True if the job was told to end."""
    return getattr(job, 'must_end', False)


def _run(words: str, **options) -> subprocess.CompletedProcess[str]:
    """Return the answer of a command of Slurm; one that does not end in time fails."""
    try:
        return osext.run_command(words, timeout=TIME_LIMIT, **options)
    except SpawnedProcessTimeout:
        return subprocess.CompletedProcess(words, _HANGS, '', f'did not end within {TIME_LIMIT:g} s')


@functools.cache
def _host_of(node: str) -> str:
    answer = _run(f'scontrol -a show node -o {shlex.quote(node)}', log=False)
    match = re.search(r'\bNodeHostName=(\S+)', answer.stdout)
    return match[1] if match else node


class OnWholeNodes:
    """Mixin for PBS: request all CPUs of the nodes, because cgroups confine a job to those it requested."""

    def emit_preamble(self, job):
        ranks = '{num_tasks_per_node}'
        self.TASKS_OPT = f'-l select={{num_nodes}}:mpiprocs={ranks}:ncpus={getattr(job, "cpus_of_node", ranks)}'
        return super().emit_preamble(job)


def _rows(text: str, exit_code: Callable[[str], int]) -> dict[str, list[_JobState]]:
    """Parse lines such as ``12_1|COMPLETED|0:0|1700000000|n[1-2]``; return them by job."""
    rows: dict[str, list[_JobState]] = {}
    for line in text.splitlines():
        if re.match(r'\d', line):
            number, state, status, end, nodes, *_ = line.split('|')
            row = _JobState(state.split()[0], exit_code(status), end, nodes)  # the first word of `CANCELLED by 0`
            rows.setdefault(re.split('[_+]', number)[0], []).append(row)
    return rows


@functools.cache
def register(word: str) -> str:
    """Register the suite's subclass of ReFrame's scheduler `word`; return its name for ReFrame's configuration."""
    try:
        theirs = getscheduler(word)
    except ConfigError:
        return word  # ReFrame itself reports the unknown name, with its partition
    base = {'local': Local, 'slurm': Slurm, 'squeue': Squeue}.get(word, theirs)
    mixins = (SteadyClock, OnWholeNodes) if scheduler(word).places_ranks else (SteadyClock,)
    ours = type(f'Steady{base.__name__}', (*mixins, base), {})
    register_scheduler(f'plumbline-{word}', local=theirs.is_local)(ours)
    ours.registered_name = word  # reports, logs and `%scheduler=` of a check have ReFrame's word
    return f'plumbline-{word}'

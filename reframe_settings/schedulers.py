# SPDX-License-Identifier: BSD-3-Clause
"""ReFrame's schedulers for unattended runs, as subclasses with names of their own; `settings.py` chooses them."""

import functools
import logging
import re
import shlex
import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from reframe.core.backends import getscheduler, register_scheduler
from reframe.core.exceptions import ConfigError, JobSchedulerError
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
from plumbline.site.schedulers import scheduler

CLOCK_STEP = 10  # seconds; a smaller step of the clock delays ReFrame by no more than that


def clock_offset() -> float:
    """Return the seconds from the monotonic clock to the time of day; constant unless the time of day is set."""
    return time.time() - time.monotonic()


class _Row(NamedTuple):
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
    """Slurm whose jobs survive an outage or restart of its database or controller, and preemption."""

    accounting = True

    def __init__(self):
        super().__init__()
        self._patience = settings.PATIENCE.get()
        self._failures = 0  # how often in a row Slurm gave no answer
        self._unavailable_since: dict[str, float] = {}  # job -> time.monotonic()

    def finished(self, job) -> bool:
        """Return True if the job has ended. PREEMPTED is an end, too: jobs are submitted with ``--no-requeue``."""
        return slurm_state_completed(job.state and job.state.replace('PREEMPTED', 'CANCELLED'))

    def poll(self, *given):
        """Set state, exit code and nodes of jobs, and cancel those that cannot start. In an outage, change nothing.

        Raises JobSchedulerError after ``max_sacct_failures`` consecutive queries without an answer.
        """
        jobs = [job for job in given if job is not None]
        if not jobs:
            return
        known = self._ask_slurm([job.jobid for job in jobs])
        self._failures = 0 if known is not None else self._failures + 1
        if self._failures > self._max_sacct_failures:
            raise JobSchedulerError(f'Slurm gave no answer on its jobs {self._failures} times in a row')
        if known is None:
            return
        for job in jobs:
            if job.jobid in known:
                self._update(job, known[job.jobid])
            elif not self.accounting:
                self._forgotten(job)
        waiting = [job for job in jobs if not self.finished(job)]
        self._cancel_if_blocked(waiting)
        self._cancel_if_pending_too_long(waiting)

    def _ask_slurm(self, jobs: list[str]) -> dict[str, list[_Row]] | None:
        """Return the rows of each job that Slurm knows; None if it gives no answer."""
        with temp_environment(env_vars={'SLURM_TIME_FORMAT': '%s'}):
            if self.accounting:
                return self._from_database(jobs) or self._from_controller(jobs) or None
            return self._from_controller(jobs)

    def _from_database(self, jobs: list[str]) -> dict[str, list[_Row]] | None:
        # Ask without a start time: a job may have begun before the clock was set back
        words = f'{self._sacct} -S 1970-01-01 -E 2038-01-01 -n -P -X -j {",".join(jobs)}'
        answer = osext.run_command(f'{words} -o JobID,State,ExitCode,End,NodeList')
        if answer.returncode:
            self.log(f'sacct failed: {answer.stderr}')
            return None
        return _rows(answer.stdout, lambda status: int(status.partition(':')[0]))

    def _from_controller(self, jobs: list[str]) -> dict[str, list[_Row]] | None:
        """Ask slurmctld, which knows a job until MinJobAge (default 300 s) after its end."""
        fields = ','.join(f'{name}:|' for name in ('JobArrayID', 'State', 'exit_code', 'EndTime', 'NodeList'))
        answer = osext.run_command(f'{self._squeue} -h -t all -j {",".join(jobs)} -O "{fields}"')
        if answer.returncode and 'Invalid job id' not in answer.stderr:
            self.log(f'squeue failed: {answer.stderr}', level=logging.WARNING)
            return None
        return _rows(answer.stdout, lambda status: int(status) >> 8)

    def _update(self, job, rows: list[_Row]):
        """Set state, nodes and exit code of a job from its rows; a job array or a heterogeneous job has several."""
        job._state = ','.join(row.state for row in rows)
        job._nodespec = ','.join(row.nodes for row in rows)
        if self.finished(job):
            job._exitcode = max(row.exit_code for row in rows)
            self._update_completion_time(job, [row.end for row in rows])
            # ReFrame fills the list of nodes only for states that it knows as final
            job._nodelist = osext.run_command(f'scontrol show hostname {job._nodespec}', log=False).stdout.split()

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
        pending = [job.jobid for job in jobs if slurm_state_pending(job.state)]
        if not pending:
            return
        answer = osext.run_command(f'{self._squeue} -h -j {",".join(pending)} -o "%A|%r"')
        waiting = re.findall(r'^(\d+)\|(.*)$', answer.stdout, re.MULTILINE)
        now, before = time.monotonic(), self._unavailable_since
        since = {job: before.get(job, now) for job, reason in waiting if reason.startswith('ReqNodeNotAvail')}
        self._unavailable_since = since
        if final := {job: [reason] for job, reason in waiting if now - since.get(job, -inf) >= self._patience}:
            super()._cancel_if_blocked(jobs, final)


class Squeue(Slurm):
    """Slurm without accounting: the controller alone says how jobs ended."""

    accounting = False


@functools.cache
def _host_of(node: str) -> str:
    answer = osext.run_command(f'scontrol -a show node -o {shlex.quote(node)}', log=False)
    match = re.search(r'\bNodeHostName=(\S+)', answer.stdout)
    return match[1] if match else node


class OnWholeNodes:
    """Mixin for PBS: request all CPUs of the nodes, because cgroups confine a job to those it requested."""

    def emit_preamble(self, job):
        ranks = '{num_tasks_per_node}'
        self.TASKS_OPT = f'-l select={{num_nodes}}:mpiprocs={ranks}:ncpus={getattr(job, "cpus_of_node", ranks)}'
        return super().emit_preamble(job)


def _rows(text: str, exit_code: Callable[[str], int]) -> dict[str, list[_Row]]:
    """Parse lines such as ``12_1|COMPLETED|0:0|1700000000|n[1-2]``; return them by job."""
    rows: dict[str, list[_Row]] = {}
    for line in text.splitlines():
        if re.match(r'\d', line):
            number, state, status, end, nodes, *_ = line.split('|')
            row = _Row(state.split()[0], exit_code(status), end, nodes)  # the first word of `CANCELLED by 0`
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

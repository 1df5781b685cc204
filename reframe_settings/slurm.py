"""What ReFrame 4.10 does otherwise than a night on a real cluster needs; `settings.py` imports this before any job."""

from __future__ import annotations

import os
import re
import time
import warnings
from math import inf
from types import SimpleNamespace

from reframe.core import fields, variables
from reframe.core.exceptions import SpawnedProcessError
from reframe.core.schedulers import local, pbs, slurm
from reframe.core.warnings import ReframeDeprecationWarning
from reframe.frontend.executors import policies
from reframe.utility import osext

#: Seconds for which the nodes of a waiting job may be unavailable before the job is cancelled.
PATIENCE = float(os.environ.get('PLUMBLINE_PATIENCE', 120))

# ReFrame waits for ever for a preempted job: it expects that Slurm will start it again. It must not: what the first run
# left in the stage directory would spoil the second.
_completed = slurm.slurm_state_completed
slurm.slurm_state_completed = lambda state: state == 'PREEMPTED' or _completed(state)


# ReFrame subtracts times of day. Set back by an hour, the clock would make it sleep for an hour between two looks at
# its jobs; set forward, it would take local jobs for hung and waiting ones for forgotten.
_BEGAN = time.time() - time.monotonic()


def _steady() -> float:
    """The time of day as if nobody had set the clock since ReFrame started."""
    return _BEGAN + time.monotonic()


_CLOCK = vars(time) | {'time': _steady}
for _module in (local, pbs, policies, slurm):
    _module.time = SimpleNamespace(**_CLOCK)


# ReFrame asks sacct for jobs since a day, which loses them when the clock is set back: here whenever they ran, as it
# names them. And where sacct has no answer, its database being away or not there at all, the controller has: it knows a
# job until MinJobAge after its end, 300 s unless the site says otherwise.
_run_strict = slurm._run_strict


def _ask_sacct(command: str, **options):
    question = re.fullmatch(r'sacct(.*) -S \S+ (-P -j (\S+) .*)', command)
    if not question:
        return _run_strict(command, **options)
    clusters, rest, jobs = question.groups()
    try:
        return _run_strict(f'sacct{clusters} -S 1970-01-01 -E 2038-01-01 {rest}', **options)
    except SpawnedProcessError:
        fields = ','.join(f'{name}:|' for name in ('JobID', 'State', 'exit_code', 'EndTime', 'NodeList'))
        answer = osext.run_command(f'squeue{clusters} -h -t all -j {jobs} -O "{fields}"')
        found = re.findall(r'^(\d+\|\w+)\|(\d+)\|(.*)\|$', answer.stdout, re.MULTILINE)
        if not found:
            raise
        lines = (f'{state}|{int(status) >> 8}:{int(status) & 127}|{place}' for state, status, place in found)
        return SimpleNamespace(stdout='\n'.join(lines))


slurm._run_strict = _ask_sacct


# ReFrame cancels a job as soon as Slurm says that its nodes are not available. For the first seconds of a controller
# that was restarted Slurm says so of all nodes, and goes on for a while after they have answered.
_cancel_if_blocked = slurm.SlurmJobScheduler._cancel_if_blocked


def _cancel_if_blocked_for_long(self, jobs, reasons: dict[str, list[str]] | None = None):
    """`reasons`: those for which Slurm lets each job wait, where they are known already."""
    if reasons is None:
        pending = [job.jobid for job in jobs if slurm.slurm_state_pending(job.state)]
        if not pending:
            return
        answer = osext.run_command(f'{self._squeue} -h -j {",".join(pending)} -o "%A|%r"')
        reasons = {number: [reason] for number, reason in re.findall(r'^(\d+)\|(.*)$', answer.stdout, re.MULTILINE)}
    now, before = time.monotonic(), getattr(self, '_unavailable_since', {})
    self._unavailable_since = {
        number: before.get(number, now)
        for number, why in reasons.items()
        if any(reason.startswith('ReqNodeNotAvail') for reason in why)
    }
    long = {n: why for n, why in reasons.items() if now - self._unavailable_since.get(n, -inf) >= PATIENCE}
    if long:
        _cancel_if_blocked(self, jobs, long)


slurm.SlurmJobScheduler._cancel_if_blocked = _cancel_if_blocked_for_long


# To say where a deprecated variable is used, ReFrame looks through the stack and all loaded modules. It does so twice
# for each test that it makes, even while it keeps such warnings back: half of the time of a long listing.
_warn_of_deprecation = variables.user_deprecation_warning


def _warn_unless_kept_back(message: str, from_version: str = '0.0.0'):
    action, _, category, *_ = warnings.filters[0]
    if (action, category) != ('ignore', ReframeDeprecationWarning):
        _warn_of_deprecation(message, from_version)


fields.user_deprecation_warning = variables.user_deprecation_warning = _warn_unless_kept_back

# SPDX-License-Identifier: BSD-3-Clause
"""Ask Slurm for the nodes of a site and the jobs of a run. Other schedulers are not asked."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plumbline.programs import output_of
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Partition, Site

_CANCELLED = 60  # seconds in which cancelled jobs must leave the queue
_ANSWER = 30  # seconds in which a node must answer a controller that was restarted
# Beginnings of the reasons that Slurm itself or its health check writes. From SchedMD/slurm 25.11 and 22.05, by file of
# src/; the reason of NHC is from mej/nhc, helpers/node-mark-offline
_REASONS_OF_SLURM = (
    'Not responding',  # slurmctld/ping_nodes.c
    'Node unexpectedly rebooted', 'Prolog error', 'Job env setup error', 'Epilog error',  # slurmctld/node_mgr.c
    'Low RealMemory', 'Low TmpDisk', 'Low CPUs', 'Low socket*core*thread count',  # the same
    'Prolog/Epilog failure', 'Duplicate jobid',  # slurmctld/agent.c
    'batch job complete failure',  # slurmctld/proc_req.c
    'ResumeTimeout reached', 'reboot timed out',  # slurmctld/power_save.c
    'Kill task failed', 'Step not running',  # slurmd/slurmstepd/step_terminate_monitor.c
    'SlurmdSpoolDir is full', 'switch_g_job_postfini failed',  # slurmd/slurmstepd/mgr.c
    'NHC: ', 'plumbline: ',  # the latter is from node-check, see docs/node-check.md
)  # fmt: skip
_RESOURCE_LOST = re.compile(r'\S+ (count (too low|reported lower|changed)|type (\(\S+\) reported|changed))')  # gres.c
# How sinfo's names of states begin: taken out by an administrator, lost, and not yet known. A star at the end: the node
# does not answer
_PLANNED = ('drain', 'maint', 'reserved')
_LOST = ('down', 'fail', 'inval')
_UNKNOWN = ('unknown',)


@dataclass(frozen=True)
class NodeOut:
    """A node that takes no jobs."""

    name: str
    partition: str
    state: str
    reason: str
    by_slurm: bool = False  # Slurm itself took the node out

    @property
    def undecided(self) -> bool:
        """True if Slurm does not know the state of the node yet, such as after a restart of the controller."""
        return not self.state.startswith(_PLANNED + _LOST)

    @property
    def problem(self) -> str:
        """A sentence if the node is out although no administrator took it out; empty for planned maintenance."""
        if not self.state.startswith(_PLANNED):
            return f'{self}, but not drained'
        return f'{self} by Slurm itself, not by a person' if self.by_slurm else ''

    def __str__(self) -> str:
        return f'{self.name} of {self.partition} is {self.state}' + (f' ({self.reason})' if self.reason else '')


def nodes_out(site: Site) -> list[NodeOut]:
    """Return the nodes of the site's Slurm partitions that take no jobs, each once; waits for undecided ones."""
    end = time.monotonic() + _ANSWER
    while True:
        out = _nodes_out(site)
        if not any(node.undecided for node in out) or time.monotonic() > end:
            return out
        time.sleep(1)


def _nodes_out(site: Site) -> list[NodeOut]:
    out: dict[str, NodeOut] = {}
    for partition in slurm_partitions(site):
        for name, state, user, reason in nodes_of(partition, '%N|%T|%u|%E'):
            if state.startswith(_PLANNED + _LOST + _UNKNOWN) or state.endswith('*'):
                text = '' if reason == 'none' else reason
                by_slurm = state.startswith('drain') and is_of_slurm(user, text)
                out.setdefault(name, NodeOut(name, partition.name, state, text, by_slurm))
    return list(out.values())


@dataclass(frozen=True)
class Nodes:
    """The nodes of a site at one time: those that take no jobs, and when each of Slurm's nodes booted."""

    out: list[NodeOut]
    booted: dict[str, str]

    @classmethod
    def now(cls, site: Site) -> Nodes:
        """Return the present state of the nodes of a site, by asking Slurm."""
        partitions = slurm_partitions(site)
        printed = ask('scontrol', '--oneliner', 'show', 'nodes') or '' if partitions else ''
        booted = dict(re.findall(r'^NodeName=(\S+) .*? BootTime=(\d\S+)', printed, re.MULTILINE))
        return cls(nodes_out(site), booted)

    def problems_since(self, before: Nodes) -> list[str]:
        """Return a sentence for each node that was lost, or booted, since `before` without being planned.

        A node that took no jobs at `before` is left out: it was reported then, or an administrator works on it.
        """
        known = {node.name for node in before.out}
        lost = [node for node in self.out if node.problem and node.name not in known]
        known |= {node.name for node in lost}
        booted = [
            f'{name} booted at {when}, while the session ran'
            for name, when in self.booted.items()
            if before.booted.get(name, when) != when and name not in known
        ]
        return [f'{node.problem}, since this session began' for node in lost] + booted


def is_of_slurm(user: str, reason: str) -> bool:
    """Return True if Slurm or its health check drained a node. `user`, `reason`: who set which reason, by sinfo.

    Slurm sets reasons as the user of slurmctld or as root. As a person may be root, too, a reason of root counts only
    if it is one that Slurm writes.
    """
    if user not in ('root', 'Unknown'):
        return user == _slurm_user()
    return reason.startswith(_REASONS_OF_SLURM) or bool(_RESOURCE_LOST.match(reason))


def _slurm_user() -> str | None:
    match = re.search(r'^SlurmUser\s*=\s*(\w+)', ask('scontrol', 'show', 'config') or '', re.MULTILINE)
    return match and match[1]


def free_nodes(partition: Partition) -> list[str]:
    """Return the names of the idle nodes of a partition, in Slurm's order."""
    return [name for name, state in nodes_of(partition, '%N|%T') if state == 'idle']


def nodes_of(partition: Partition, form: str) -> list[tuple[str, ...]]:
    """Return the fields `form` of sinfo for each node of a partition; empty if Slurm does not answer."""
    name = ['--partition', queue] if (queue := slurm_queue(partition)) else []
    lines = ask('sinfo', '--noheader', '--Node', f'--format={form}', *name) or ''
    return list(dict.fromkeys(tuple(line.split('|', form.count('|'))) for line in lines.splitlines()))


def slurm_partitions(site: Site) -> list[Partition]:
    """Return the partitions whose jobs Slurm schedules."""
    return [partition for partition in site.partitions.values() if scheduler(partition.entry['scheduler']).is_slurm]


def access_options(partition: Partition) -> list[str]:
    """Return the options with which the site reaches a partition, one word each."""
    return shlex.split(' '.join(partition.entry.get('access', [])))


def slurm_queue(partition: Partition) -> str | None:
    """Return Slurm's name of a partition, from the options with which the site reaches it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument('-p', '--partition')
    return parser.parse_known_args(access_options(partition))[0].partition


def jobs_below(folder: Path) -> list[str]:
    """Return this user's jobs in the queue that were submitted from below a folder, such as a stage directory."""
    lines = ask('squeue', '--me', '--noheader', '--format=%i|%Z') or ''
    pairs = (line.split('|', 1) for line in lines.splitlines())
    return [job for job, where in pairs if Path(where).is_relative_to(folder)]


def waiting_below(folder: Path) -> str:
    """Return why jobs below a folder wait, in Slurm's words: ``Resources of 12, 13; Licenses of 14``; else empty."""
    lines = ask('squeue', '--me', '--noheader', '--states=PENDING', '--format=%i|%r|%Z') or ''
    waiting: dict[str, list[str]] = {}
    for job, reason, where in (line.split('|', 2) for line in lines.splitlines()):
        if Path(where).is_relative_to(folder):
            waiting.setdefault(reason, []).append(job)
    return '; '.join(f'{reason} of {_some_jobs(jobs)}' for reason, jobs in waiting.items())


def _some_jobs(jobs: Sequence[str]) -> str:
    return ', '.join(jobs[:5]) + (f' and {len(jobs) - 5} more' if jobs[5:] else '')


def cancel_jobs_below(folder: Path) -> str:
    """Cancel the jobs of :func:`jobs_below`; return a sentence on what was done, empty if there were none."""
    jobs = jobs_below(folder)
    if not jobs:
        return ''
    named = f'{len(jobs)} jobs of it in the queue: {" ".join(jobs[:20])}'
    if ask('scancel', *jobs) is None:
        return f'could not cancel {named}'
    end = time.monotonic() + _CANCELLED
    while jobs_below(folder) and time.monotonic() < end:  # their nodes are not free before the jobs are gone
        time.sleep(0.5)
    return f'cancelled {named}'


def ask(*command: str) -> str | None:
    """Return what a command printed; None if it is not installed, failed or did not answer in time."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(('SINFO_', 'SQUEUE_'))}
    try:
        return output_of(command, env=environment)
    except ValueError:
        return None

# SPDX-License-Identifier: BSD-3-Clause
"""Ask Slurm for the nodes of a site and the jobs of a run. Other schedulers are not asked."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from plumbline.problems import Problem
from plumbline.programs import TIME_LIMIT, TimedOut, output_of
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Partition, Site
from postprocess.text import count, some

_CANCELLED = 60  # seconds in which cancelled jobs must leave the queue
_ANSWER = 30  # seconds in which a node must answer a controller that was restarted
# slurmctld computes the time of a boot as its clock minus the uptime at each registration: it jitters by seconds
_BOOT_AFTER = 60  # seconds: a boot later than the first look by more than that counts
_BOOT_MOVED = 600  # seconds: so does one that moved by more than that
_HUNG = 600  # seconds for which a program that did not answer is not asked again
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
# Of a node of a reservation: only its jobs get the node
_RESERVED = re.compile('(idle|maint|reserved|planned)[$-]?')

_hung: dict[str, float] = {}  # program that did not end in time -> value of time.monotonic() from which it is asked


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

    def problems(self, since: str = '') -> list[Problem]:
        """Return what is wrong if the node is out although no administrator took it out, with `since` when."""
        lost = Problem(f'{self.problem}{since}', 'node lost', self.partition, nodes=(self.name,))
        return [lost] if self.problem else []

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
        own = reserved_nodes(partition)
        for name, state, user, reason in nodes_of(partition, '%N|%T|%u|%E'):
            if name in own and _RESERVED.fullmatch(state):
                continue
            if state.startswith(_PLANNED + _LOST + _UNKNOWN) or state.endswith('*'):
                text = '' if reason == 'none' else reason
                by_slurm = state.startswith('drain') and is_of_slurm(user, text)
                out.setdefault(name, NodeOut(name, partition.name, state, text, by_slurm))
    return list(out.values())


@dataclass(frozen=True)
class Nodes:
    """The nodes of a site at one time: those that take no jobs, and when each node of Slurm booted.

    `booted` and `asked`, the time of the look: seconds since 1970. `hung`: the programs of Slurm that did not answer.
    """

    out: list[NodeOut]
    booted: dict[str, float]
    asked: float = field(default=0.0, compare=False)
    hung: tuple[str, ...] = ()

    @classmethod
    def now(cls, site: Site) -> Nodes:
        """Return the present state of the nodes of a site, by asking Slurm."""
        partitions, asked = slurm_partitions(site), time.time()
        names = {name for partition in partitions for (name,) in nodes_of(partition, '%N')}
        printed = ask('scontrol', '--oneliner', 'show', 'nodes') or '' if names else ''
        booted = re.findall(r'^NodeName=(\S+) .*? BootTime=(\d+) ', printed, re.MULTILINE)
        out = nodes_out(site)
        return cls(out, {name: float(when) for name, when in booted if name in names}, asked, tuple(_hung))

    def problems_since(self, before: Nodes) -> list[Problem]:
        """Return a problem for each node that was lost, or booted, since `before` without being planned.

        A node that took no jobs at `before` is left out: it was reported then, or an administrator works on it.
        """
        known = {node.name for node in before.out}
        lost = [node for node in self.out if node.problem and node.name not in known]
        known |= {node.name for node in lost}
        booted = [
            Problem(f'{name} booted at {_time(when)}, while the session ran', 'node lost', nodes=(name,))
            for name, when in self.booted.items()
            if name in before.booted and name not in known and _is_boot(when, before.booted[name], before.asked)
        ]
        unknown = [
            Problem(
                f'{program} did not answer within {TIME_LIMIT:g} s, so whether nodes were lost is not known: '
                'run it by hand'
            )
            for program in dict.fromkeys((*before.hung, *self.hung))
        ]
        gone = [problem for node in lost for problem in node.problems(', since this session began')]
        return gone + booted + unknown


def _time(when: float) -> str:
    return datetime.fromtimestamp(when).isoformat(timespec='seconds')


def _is_boot(when: float, before: float, asked: float) -> bool:
    """Return True if a node booted after `asked`: its time of boot was `before` and is `when`."""
    moved = abs(when - before)
    return moved > _BOOT_MOVED or (moved > _BOOT_AFTER and when - asked > _BOOT_AFTER)


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
    """Return the names of the nodes of a partition on which a job can start now, in Slurm's order.

    They are the idle ones; if the site reaches the partition by a reservation, those of the reservation without a job.
    """
    rows = nodes_of(partition, '%N|%T')
    if not reservation_of(partition):
        return [name for name, state in rows if state == 'idle']
    own = reserved_nodes(partition)
    return [name for name, state in rows if name in own and _RESERVED.fullmatch(state)]


def nodes_of(partition: Partition, form: str) -> list[tuple[str, ...]]:
    """Return the fields `form` of sinfo for each node of a partition; empty if Slurm does not answer."""
    queue = slurm_queue(partition)
    fields, of_queue = (form, ['--partition', queue]) if queue else (f'%P|{form}', [])
    lines = (ask('sinfo', '--noheader', '--Node', f'--format={fields}', *of_queue) or '').splitlines()
    if not queue:  # the site takes Slurm's default partition, which has a star; where there is none, any
        pairs = [line.split('|', 1) for line in lines]
        default = [fields for name, fields in pairs if name.endswith('*')]
        lines = default or [fields for _, fields in pairs]
    return list(dict.fromkeys(tuple(line.split('|', form.count('|'))) for line in lines))


def slurm_partitions(site: Site) -> list[Partition]:
    """Return the partitions whose jobs Slurm schedules."""
    return [partition for partition in site.partitions.values() if scheduler(partition.entry['scheduler']).is_slurm]


def access_options(partition: Partition) -> list[str]:
    """Return the options with which the site reaches a partition, one word each."""
    return shlex.split(' '.join(partition.entry.get('access', [])))


def slurm_queue(partition: Partition) -> str | None:
    """Return Slurm's name of a partition, from the options with which the site reaches it."""
    return _option(partition, '-p', '--partition')


def reservation_of(partition: Partition) -> str | None:
    """Return the reservation by which the site reaches a partition; None without one."""
    return _option(partition, '--reservation')


def _option(partition: Partition, *names: str) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(*names, dest='value')
    return parser.parse_known_args(access_options(partition))[0].value


def reserved_nodes(partition: Partition) -> set[str]:
    """Return the nodes of the reservation by which the site reaches a partition; empty without one."""
    nodes: set[str] = set()
    for name in filter(None, (reservation_of(partition) or '').split(',')):
        printed = ask('scontrol', '--oneliner', 'show', 'reservation', name) or ''
        if match := re.search(r' Nodes=(\S+)', printed):
            nodes.update((ask('scontrol', 'show', 'hostnames', match[1]) or '').split())
    return nodes


def hold(partition: Partition, seconds: int, folder: Path, options: Sequence[str]) -> tuple[str, str]:
    """Hold idle nodes of a partition, whole, for a time; return the job, or an empty text and why there is none.

    `options`: of salloc, which name the nodes. Job steps start in `folder`.
    """
    words = ['salloc', '--no-shell', '--exclusive', '--no-kill', '--immediate=60', f'--time={max(1, seconds // 60)}']
    answer = subprocess.run(
        [*words, f'--chdir={folder}', *access_options(partition), *options], cwd=folder, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if job := re.search(r'Granted job allocation (\d+)', answer.stderr):
        return job[1], ''
    return '', ' '.join(answer.stderr.split()) or 'salloc gave no job'


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
    return '; '.join(f'{reason} of {some(jobs, 5)}' for reason, jobs in waiting.items())


def cancel_jobs_below(folder: Path) -> str:
    """Cancel the jobs of :func:`jobs_below`; return a sentence on what was done, empty if there were none."""
    jobs = jobs_below(folder)
    if not jobs:
        return ''
    named = f'{count(len(jobs), "job")} of it in the queue: {" ".join(jobs[:20])}'
    if ask('scancel', *jobs) is None:
        return f'could not cancel {named}'
    end = time.monotonic() + _CANCELLED
    while jobs_below(folder) and time.monotonic() < end:  # their nodes are not free before the jobs are gone
        time.sleep(0.5)
    return f'cancelled {named}'


def ask(*command: str) -> str | None:
    """Return what a command printed; None if it is not installed, failed or did not answer in time.

    A program that did not answer is named, and not asked again for ten minutes. Times are in seconds since 1970.
    """
    if time.monotonic() < _hung.get(command[0], 0):
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith(('SINFO_', 'SQUEUE_'))}
    try:
        printed = output_of(command, env=environment | {'SLURM_TIME_FORMAT': '%s'})
    except TimedOut as error:
        _hung[command[0]] = time.monotonic() + _HUNG
        print(f'plumbline: {command[0]} {error}; it is asked again after {_HUNG // 60} minutes', flush=True)
        return None
    except ValueError:
        return None
    _hung.pop(command[0], None)
    return printed

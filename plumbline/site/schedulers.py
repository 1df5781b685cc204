# SPDX-License-Identifier: BSD-3-Clause
"""What is known of each scheduler, in one table, and the nodes of a cluster as Slurm, PBS, LSF and Flux list them.

Outputs of real clusters, which the tests read: `tests/outputs`.
"""

import getpass
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from plumbline.errors import InputError
from plumbline.programs import output_of

SINFO = ['sinfo', '--noheader', '--exact', '--format=%R|%D|%X|%Y|%Z|%m|%G|%l']


@dataclass(frozen=True)
class Scheduler:
    """What is known of a scheduler.

    `queued`: jobs wait for nodes, so each needs a time limit. `is_slurm`: its commands tell the state of nodes and
    jobs, send a job to named nodes, and start a process on each node of a job. `ends_cleanly`: the exit trap of a job
    runs even if the job is killed. `places_ranks`: ReFrame's directives for it ask for ranks, not for whole nodes.
    `launchers`: launchers that need a job of this scheduler, or of another scheduler that lists them.
    """

    queued: bool = True
    is_slurm: bool = False
    ends_cleanly: bool = False
    places_ranks: bool = False
    launchers: tuple[str, ...] = ()


#: The schedulers that site.yaml may name, by ReFrame's name.
SCHEDULERS = {
    'local': Scheduler(queued=False, ends_cleanly=True, launchers=('srunalloc',)),
    'ssh': Scheduler(queued=False, ends_cleanly=True),
    'slurm': Scheduler(is_slurm=True, ends_cleanly=True, launchers=('srun', 'alps', 'ibrun')),
    'squeue': Scheduler(is_slurm=True, ends_cleanly=True, launchers=('srun', 'ibrun')),
    'pbs': Scheduler(places_ranks=True, launchers=('pals', 'alps')),
    'pbspro': Scheduler(places_ranks=True, launchers=('pals', 'alps')),
    'torque': Scheduler(launchers=('alps',)),
    'lsf': Scheduler(launchers=('jsrun', 'lrun', 'lrun-gpu')),
    'oar': Scheduler(),
    'sge': Scheduler(),
}


#: Launchers of machines that run job scripts on a launch or service node, so that even one plain process needs the
#: launcher: user guides of Summit (docs.olcf.ornl.gov) and Theta (docs.alcf.anl.gov).
ON_LAUNCH_NODES = frozenset({'jsrun', 'lrun', 'lrun-gpu', 'alps'})


def scheduler(name: str | None) -> Scheduler:
    """Return what is known of a scheduler; the defaults if it is not in the table, such as one of another suite."""
    return SCHEDULERS.get(name or '', Scheduler())


def launched_by(launcher: str) -> tuple[str, ...]:
    """Return the schedulers in whose jobs a launcher works; empty if it works in any."""
    return tuple(name for name, scheduler in SCHEDULERS.items() if launcher in scheduler.launchers)


@dataclass(frozen=True)
class EqualNodes:
    """Equal nodes of a partition or queue; memory in MiB. `sockets`: 0 where the scheduler counts CPUs only.

    `access`: the options of a job that get these nodes; `to_add`: further options that it may need.
    """

    partition: str
    number: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory: int
    gpus: tuple[tuple[str, int], ...] = ()  # (the scheduler's name of the model, number in a node)
    max_time: str = ''  # of a job, as site.yaml has it; empty where the scheduler sets no limit
    scheduler: str = 'slurm'
    launcher: str = 'srun'
    access: tuple[str, ...] = ()
    to_add: str = ''

    @property
    def cpus(self) -> int:
        return (self.sockets or 1) * self.cores_per_socket * self.threads_per_core

    def __str__(self) -> str:
        gpus = ''.join(f', {n} x {model or "GPU"}' for model, n in self.gpus)
        cores = (
            f'{count(self.sockets, "socket")}, {count(self.sockets * self.cores_per_socket, "core")}'
            if self.sockets
            else count(self.cpus, 'CPU')
        )
        return f'{count(self.number, "node")} of {cores}, {self.memory} MiB{gpus}'


def count(number: int, name: str) -> str:
    return f'{number} {name}{"s" if number != 1 else ""}'


def nodes_of_cluster() -> tuple[list[EqualNodes], str | None]:
    """Return the nodes of all partitions of the scheduler on PATH, and why there are none."""
    for command, read in _READERS:
        if shutil.which(command[0]) is None:
            continue
        try:
            printed = output_of(command)
        except ValueError as error:
            return [], f'{command[0]} {error}'
        listed = [nodes for nodes in read(printed) if nodes.number]
        return listed, None if listed else f'{command[0]} lists no node'
    return [], None


def of_slurm(printed: str) -> list[EqualNodes]:
    """Parse lines such as ``gpu|16|2|64|2|515000|gpu:a100:4(S:0-1),nvme:1|1-00:00:00``. Raises InputError.

    Where slurm.conf states CPUs alone, Slurm takes each for a socket of one core.
    """
    listed = []
    for line in printed.splitlines():
        try:
            name, *numbers, resources, limit = line.strip().split('|')
            number, sockets, cores, threads, memory = map(int, numbers)
        except ValueError:
            raise InputError(
                f'sinfo: expected name, five numbers, GRES, time limit between bars, found {line!r}'
            ) from None
        if sockets > 1 and cores == threads == 1:
            sockets, cores = 0, sockets
        gpus = re.findall(r'(?:^|,)gpu:(?:([^:,(]+):)?(\d+)', resources)
        time = re.fullmatch(r'(?:(\d+)-)?(?:(\d+):)?(\d+):\d+', limit)
        parts = zip(time.groups(), 'dhm', strict=True) if time else ()
        max_time = ''.join(f'{int(n)}{unit}' for n, unit in parts if int(n or 0))
        models = tuple((model, int(n)) for model, n in gpus)
        access = (f'-p {name}',)
        listed.append(EqualNodes(name, number, sockets, cores, threads, memory, models, max_time, access=access))
    return listed


def of_pbs(printed: str) -> list[EqualNodes]:
    """Parse ``pbsnodes -a``: a line with the name of a vnode, then indented lines ``key = value``.

    The vnodes of a host are one node. Its partition is the queue that it names, else ``nodes``.
    """
    hosts: dict[str, list[dict[str, str]]] = {}
    for block in re.split(r'\n\s*\n', printed.strip()):
        values = dict(re.findall(r'^\s+([\w.]+) = (.*?)\s*$', block, re.MULTILINE))
        available = {key.rpartition('.')[2]: value for key, value in values.items() if '_available.' in key}
        name = available.get('host') or block.split(maxsplit=1)[0]
        hosts.setdefault(name, []).append(available | {'queue': values.get('queue', '')})
    kinds = []
    for vnodes in hosts.values():
        total = {key: sum(int(vnode.get(key, 0)) for vnode in vnodes) for key in ('ncpus', 'ngpus')}
        memory = sum(_mebibytes(vnode.get('mem', '0kb')) for vnode in vnodes) // 1024 * 1024
        kinds.append((vnodes[0]['queue'], total['ncpus'], memory, vnodes[0].get('gputype', ''), total['ngpus']))
    launcher = 'pals' if 'pals' in os.path.realpath(shutil.which('mpiexec') or '') else 'mpiexec'
    return [
        EqualNodes(
            queue or 'nodes', number, 0, cpus, 1, memory, ((model, gpus),) if gpus else (), '', 'pbs', launcher,
            ('-l place=scatter:excl', *([f'-q {queue}'] if queue else [])), '-A PROJECT' + ', -q QUEUE' * (not queue),
        )
        for (queue, cpus, memory, model, gpus), number in Counter(kinds).items() if cpus
    ]  # fmt: skip


def of_lsf(printed: str) -> list[EqualNodes]:
    """Parse ``lshosts -w``: HOST_NAME, type, model, cpuf, ncpus, maxmem, maxswp, server, RESOURCES in a line.

    Hosts with the resource ``mg`` manage the cluster; they count only if there are no other hosts.
    """
    rows = [line.split(maxsplit=8) for line in printed.splitlines()[1:]]
    hosts = [row for row in rows if len(row) == 9 and row[7] == 'Yes' and row[4].isdecimal()]
    workers = [row for row in hosts if 'mg' not in row[8].strip('()').split()] or hosts
    kinds = Counter((row[2], int(row[4]), _mebibytes(row[5])) for row in workers)
    launcher = 'jsrun' if shutil.which('jsrun') else 'mpirun'
    return [
        EqualNodes(model, number, 0, cpus, 1, memory, (), '', 'lsf', launcher, (), '-q QUEUE, -P PROJECT')
        for (model, cpus, memory), number in kinds.items()
    ]


def of_flux(printed: str) -> list[EqualNodes]:
    """Parse ``flux resource R``: RFC 20's JSON. Each property of nodes, such as the name of a queue, is a partition."""
    resources = json.loads(printed)['execution']
    kinds: dict[int, tuple[int, int]] = {}
    for entry in resources['R_lite']:
        cores, gpus = (len(ids_in(entry['children'].get(key, ''))) for key in ('core', 'gpu'))
        kinds |= dict.fromkeys(ids_in(entry['rank']), (cores, gpus))
    listed = []
    for name, ranks in (resources.get('properties') or {'': ','.join(map(str, kinds))}).items():
        for (cores, gpus), number in Counter(kinds[rank] for rank in ids_in(ranks) if rank in kinds).items():
            listed.append(
                EqualNodes(
                    name or 'nodes', number, 0, cores, 1, 1, (('', gpus),) if gpus else (), '', 'squeue', 'srun',
                    (f'-p {name}',) if name else (), '-A BANK; load flux_wrappers, the commands of Slurm',
                )
            )  # fmt: skip
    return listed


_READERS: tuple[tuple[list[str], Callable[[str], list[EqualNodes]]], ...] = (
    (SINFO, of_slurm),
    (['flux', 'resource', 'R'], of_flux),
    (['pbsnodes', '-a'], of_pbs),
    (['lshosts', '-w'], of_lsf),
)


def must_state(partition: str) -> tuple[tuple[str, ...], str]:
    """Return options with the account and QOS that a job of this user needs in a partition of Slurm, and other choices.

    $SLURM_ACCOUNT comes first; the user's default account and QOS are left to Slurm where the partition takes them.
    Both are empty where Slurm keeps no accounts. Raises InputError where the partition takes no account of the user.
    """
    if account := os.environ.get('SLURM_ACCOUNT'):
        return (f'-A {account}',), ''
    user = getpass.getuser()
    show = ['sacctmgr', '--noheader', '--parsable2', 'show']
    try:
        (default,) = output_of([*show, 'user', user, 'format=DefaultAccount']).split() or ('',)
        rows = output_of([*show, 'associations', f'user={user}', 'format=Account,Partition,QOS,DefaultQOS'])
        limits = dict(re.findall(r'(\w+)=(\S*)', output_of(['scontrol', '--oneliner', 'show', 'partition', partition])))
    except ValueError:
        return (), ''
    if not rows.strip():
        return (), ''
    mine: dict[str, tuple[list[str], str]] = {}  # account -> its QOS that the partition takes, the usual one first
    for account, only, names, usual in (row.split('|') for row in rows.split()):
        of_account = names.split(',')
        usual = usual or ('normal' if 'normal' in of_account else of_account[0])
        qos = sorted((name for name in of_account if _takes(limits, 'Qos', name)), key=lambda one: one != usual)
        if qos and only in ('', partition) and _takes(limits, 'Accounts', account):
            mine[account] = qos, usual
    if not mine:
        raise InputError(f'it takes no account with a QOS of {user}')
    account = default if default in mine else min(mine)
    qos, usual = mine[account]
    options = [f'-A {account}'] * (account != default) + [f'-q {qos[0]}'] * (qos[0] != usual)
    others = [f'-A {name}' for name in sorted(mine) if name != account] + [f'-q {name}' for name in qos[1:]]
    return tuple(options), ', '.join(others)


def _takes(limits: dict[str, str], kind: str, name: str) -> bool:
    """Return True if a partition lets in jobs of an account or QOS. `limits`: of ``scontrol show partition``."""
    allow = limits.get(f'Allow{kind}', 'ALL')
    return (allow == 'ALL' or name in allow.split(',')) and name not in limits.get(f'Deny{kind}', '').split(',')


def _mebibytes(text: str) -> int:
    """Return the MiB of a size such as ``527672492kb`` or ``30.7G``; 1, as Slurm's default, if none is stated."""
    match = re.fullmatch(r'([\d.]+)([kKmMgGtT]?)[bB]?', text)
    return int(float(match[1]) * 1024.0 ** ('kmgt'.index(match[2].lower()) - 1 if match[2] else -2)) if match else 1


def ids_in(text: str) -> list[int]:
    """Return the numbers in a list such as ``0-3,7``."""
    ends = [part.split('-') for part in text.split(',') if part]
    return [number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]

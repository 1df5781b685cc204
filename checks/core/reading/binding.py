# SPDX-License-Identifier: BSD-3-Clause
"""What each rank of a job got, and how it differs from what was requested. Imports no ReFrame."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from checks.core.placement import APART, UNBOUND, Placement, parse_cpu_list
from checks.core.reading.health import short
from checks.core.reading.watched import Watched, parse
from plumbline.machine.vendors import VENDORS


class Gpu(NamedTuple):
    """A GPU by the kernel and its vendor's tool: PCI address, the NUMA domain near it (-1: not known), name."""

    address: str
    near: int
    name: str


@dataclass(frozen=True)
class Granted:
    """What one rank actually got. The CPUs are always known, the rest only if it was requested.

    `host`: the host name of its node. `watched`: the looks at the rank while its program ran. `after`: seconds from the
    last line of its binding file to the end of its run. `devices`: number of a GPU -> UUID; `gpus`: number of a GPU ->
    what the kernel says of it. `nics`: name of a network device -> rate, if the kernel knows it. `switch`: the switch
    of its node, if Slurm knows it. `sockets`, `numa`: those of its CPUs, by the kernel's numbers.
    """

    cpus: frozenset[int]
    devices: dict[int, str] = field(default_factory=dict)
    gpus: dict[int, Gpu] = field(default_factory=dict, compare=False)
    memory: frozenset[int] = frozenset()
    nics: dict[str, str] = field(default_factory=dict)
    switch: str = ''
    sockets: frozenset[int] = frozenset()
    numa: frozenset[int] = frozenset()
    host: str = field(default='', compare=False)
    watched: Watched = field(default_factory=Watched, compare=False)
    after: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        words = [','.join(map(str, sorted(self.cpus)))]
        words += [f'GPU {number} {uuid}' for number, uuid in self.devices.items()]
        words += [f'memory of NUMA {",".join(map(str, sorted(self.memory)))}'] * bool(self.memory)
        words += [f'{name} {rate}'.strip() for name, rate in self.nics.items()]
        return '; '.join([*words, *[f'switch {self.switch}'] * bool(self.switch)])


def granted(trial: Path) -> dict[str, Granted]:
    """Return what each rank of a trial got, by ``<node>.<local rank>``, from the files that ``parts/rank.sh`` wrote.

    The first line of a file is the list of CPUs; ``host n1``, ``gpu 0 GPU-6f3c...``, ``gpu_is 0 0000:c1:00.0 3 NVIDIA
    A100``, ``memory 0,1``, ``switch spine.leaf``, ``nic mlx5_0 200 Gb/sec (4X HDR)``, ``socket 0``, ``numa 3`` follow,
    then the lines of ``parts/watch.sh``.
    """
    exit_code, by_rank = trial / 'exit_code', {}
    for path in sorted(trial.glob('binding.*')):
        of_rank = _granted(path.read_text(encoding='utf-8', errors='replace').splitlines())
        after = exit_code.stat().st_mtime - path.stat().st_mtime if exit_code.exists() else 0.0
        by_rank[path.name.removeprefix('binding.')] = replace(of_rank, after=after)
    return by_rank


def nodes_of(named: Sequence[str], wanted: int, stage: Path, host_of: Callable[[str], str] | None) -> list[str]:
    """Return the nodes of a job: those that the scheduler `named` and, if `wanted` is more, those that ranks reported.

    The accounting of Slurm 22.05 has named only the first node of a job that backfill started.
    """
    if host_of is None or len(named) >= wanted:
        return list(named)
    known = {short(name) for node in named for name in (node, host_of(node))}
    ranks = {path.name.removeprefix('binding.').rpartition('.')[0] for path in stage.glob('trial_*/*/binding.*')}
    return [*named, *sorted(node for node in ranks if short(node) not in known)]


def _granted(lines: list[str]) -> Granted:
    by_key: dict[str, list[list[str]]] = defaultdict(list)
    for key, *words in filter(None, map(str.split, lines[1:])):
        by_key[key].append(words)

    def numbers(key: str) -> frozenset[int]:
        return frozenset().union(*(parse_cpu_list(words[0]) for words in by_key[key]))

    return Granted(
        cpus=parse_cpu_list(''.join(lines[:1])),
        devices={int(words[0]): words[1] for words in by_key['gpu']},
        gpus={int(words[0]): Gpu(words[1], int(words[2]), ' '.join(words[3:])) for words in by_key['gpu_is']},
        memory=numbers('memory'),
        nics={words[0]: ' '.join(words[1:]) for words in by_key['nic']},
        switch=''.join(words[0] for words in by_key['switch']),
        sockets=numbers('socket'),
        numa=numbers('numa'),
        host=''.join(words[0] for words in by_key['host']),
        watched=parse(lines[1:]),
    )


@dataclass(frozen=True)
class Request:
    """What the ranks of a job must get and keep, on `num_nodes` nodes.

    `host_of`: the scheduler's host name of a node; None where no scheduler chose the nodes. `near`: the NUMA domain of
    each GPU of a node, where the site states it. `archs`: the architecture of each. `looks_required`: a program that
    ran for seconds without a look is a fault.
    """

    placement: Placement
    num_nodes: int = 1
    host_of: Callable[[str], str] | None = None
    near: Sequence[int] = ()
    archs: Sequence[str] = ()
    looks_required: bool = True


def binding_faults(request: Request, actual: dict[str, Granted], nodes: Sequence[str] = ()) -> list[str]:
    """Return one sentence for each rank that did not get or keep what was requested, or did not report.

    `nodes`: the nodes of the job by its scheduler.
    """
    placement, expected, faults = request.placement, request.placement.ranks_per_node * request.num_nodes, []
    if len(actual) != expected:
        faults.append(f'{expected} ranks were requested, {len(actual)} reported their binding')
    if request.host_of:
        faults += _host_faults(actual, nodes, request.host_of)
    for rank, has in actual.items():
        local_rank = int(rank.rpartition('.')[2])
        for name, what in (
            ('cpus', 'run on CPUs'),
            ('devices', 'see GPUs'),
            ('memory', 'take memory from NUMA nodes'),
            ('nics', 'use network devices'),
        ):
            lists = getattr(placement, name)
            requested = set(lists[local_rank]) if lists and local_rank < len(lists) else set()
            got = set(getattr(has, name))
            if lists is not None and requested != got:
                faults.append(f'rank {rank} was requested to {what} {sorted(requested)} and got {sorted(got)}')
        moved = has.watched.faults(has.cpus, UNBOUND | placement.env_vars) + _gpu_faults(placement, has)
        moved += [unseen] if request.looks_required and (unseen := has.watched.unseen(has.after)) else []
        faults += [f'rank {rank}: {fault}' for fault in moved]
    switches = [has.switch or 'one that Slurm does not name' for has in actual.values()]
    named = all(has.switch for has in actual.values())
    if placement.switches and not (named and (len(set(switches)) == 1) == (placement.switches == 'same')):
        names = ' and '.join(switches)
        faults.append(f'{placement.switches} switches of the nodes were requested, and they are {names}')
    return faults + _relation_faults(placement, actual) + _device_faults(actual) + _order_faults(actual, request.near)


def _host_faults(actual: dict[str, Granted], nodes: Sequence[str], host_of: Callable[[str], str]) -> list[str]:
    """Return a sentence for each rank whose node is not one of the job, or whose host is not that node."""
    faults = []
    for rank, got in actual.items():
        node = rank.rpartition('.')[0]
        known = {short(name) for name in nodes}
        if nodes and short(node) not in known and short(node) not in {short(host_of(name)) for name in nodes}:
            had = ','.join(nodes)
            faults.append(f'rank {rank} says that it ran on {node}; its host is {got.host}, the job had {had}')
        elif got.host and short(got.host) not in (short(node), short(host := host_of(node))):
            faults.append(f'rank {rank} ran on host {got.host}; the job says {node}, which is host {host}')
    return faults


def _gpu_faults(placement: Placement, got: Granted) -> list[str]:
    """Return a sentence for each process of a rank that sees other GPUs than job/rank.sh has set."""
    if not got.devices or placement.gpu is None:
        return []
    vendor = VENDORS[placement.gpu]
    allowed = ','.join(map(str, got.devices)), ','.join(got.devices.values())
    return got.watched.device_faults(vendor.visible, allowed, vendor.hides)


def _relation_faults(placement: Placement, actual: dict[str, Granted]) -> list[str]:
    """Return a sentence if the domains of two ranks contradict `apart`, for example because site.yaml is wrong."""
    if placement.apart is None or len(actual) != 2:
        return []
    first, second = actual.values()
    same = (first.sockets == second.sockets, first.numa == second.numa)
    if first.sockets and all(want in (None, got) for want, got in zip(APART[placement.apart], same, strict=True)):
        return []

    def text(numbers: frozenset[int]) -> str:
        return ','.join(map(str, sorted(numbers))) or 'unknown'

    ranks = ' and '.join(
        f'rank {rank} on CPU {text(got.cpus)} of socket {text(got.sockets)}, NUMA domain {text(got.numa)}'
        for rank, got in actual.items()
    )
    return [f'{placement.apart} was requested, and the kernel has {ranks}: see processor in site.yaml']


def _device_faults(actual: dict[str, Granted]) -> list[str]:
    """Return a sentence for each GPU of a node to which ranks give different numbers."""
    seen = [
        (*rank.rpartition('.')[::2], number, uuid)
        for rank, got in actual.items()
        for number, uuid in got.devices.items()
    ]
    return [
        f'GPU {number} of rank {node}.{rank} is {uuid}, GPU {its_number} of rank {its_node}.{its_rank} is {its_uuid}'
        for (node, rank, number, uuid), (its_node, its_rank, its_number, its_uuid) in combinations(seen, 2)
        if node == its_node and (number == its_number) != (uuid == its_uuid)
    ]


def _order_faults(actual: Mapping[str, Granted], near: Sequence[int]) -> list[str]:
    """Return a sentence on GPUs whose NUMA domain the site states otherwise than the kernel: the order may be wrong."""
    gpus = {number: gpu for got in actual.values() for number, gpu in got.gpus.items()}
    wrong = [
        f'GPU {number} at {gpu.address} is near NUMA domain {gpu.near} by the kernel'
        for number, gpu in sorted(gpus.items())
        if number < len(near) and gpu.near not in (-1, near[number])
    ]
    stated = ', '.join(map(str, near))
    return [f'{"; ".join(wrong)}; site.yaml states the domains {stated} of GPU 0, 1, ...'] if wrong else []


def unlike(said: Iterable[str], actual: Mapping[str, Granted], archs: Sequence[str]) -> list[str]:
    """Return a sentence for each device that a program says it used although it was not given to it.

    `said`: each device as ``name`` or ``name at PCI address``. A name matches a GPU if it contains its architecture,
    one of `archs`, or if one of the two names contains the other; signs such as (R) are ignored.
    """
    gpus = [gpu for got in actual.values() for gpu in got.gpus.values()]
    faults = []
    for device in dict.fromkeys(said) if gpus else ():
        name, _, address = device.partition(' at ')
        at = [gpu for gpu in gpus if not address or gpu.address in ('-', address) or gpu.address.startswith(address)]
        words = _plain(name)
        if not any(not gpu.name or _plain(gpu.name) in words or words in _plain(gpu.name) for gpu in at) and not (
            at and any(arch and arch in name for arch in archs)
        ):
            had = ', '.join(f'{gpu.name} at {gpu.address}' for gpu in gpus)
            faults.append(f'the program says that it ran on {device}; it was given {had}')
    return faults


def _plain(name: str) -> str:
    return re.sub(r'\((?:r|tm)\)|[^a-z0-9]', '', name.lower())

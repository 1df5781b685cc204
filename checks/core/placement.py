# SPDX-License-Identifier: BSD-3-Clause
"""Placement: the CPUs, memory, GPUs and network devices requested for each rank, and what each rank actually got."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.meters.health import short
from checks.core.reading.watched import Watched, parse, parse_cpu_list
from checks.core.topology import Topology, features_of_this_system, on_this_system
from plumbline.machine.vendors import AMD, NVIDIA, VENDORS, vendors_of

_BINDING = ('OMP_PROC_BIND', 'OMP_PLACES', 'GOMP_CPU_AFFINITY', 'KMP_AFFINITY')
# Launcher or library -> settings that stop it from binding the ranks, since job/rank.sh does that. Sources: srun(1);
# mpirun(1) of Open MPI 1.7 to 4, on which Spectrum MPI is built; prte_info of PRRTE, in Open MPI 5; MPICH's
# src/pm/hydra; Intel MPI's developer reference, Process Pinning; user guides of MVAPICH2 and MVAPICH 3; mpiexec(1) of
# HPE PALS. Two have options only, which the launcher is given: jsrun --bind none, flux run -o cpu-affinity=off.
UNBOUND = {
    'SLURM_CPU_BIND': 'none',
    'OMPI_MCA_hwloc_base_binding_policy': 'none',
    'PRTE_MCA_hwloc_default_binding_policy': 'none',
    'HYDRA_BINDING': 'none',
    'I_MPI_PIN': '0',
    'MV2_ENABLE_AFFINITY': '0',
    'MVP_ENABLE_AFFINITY': '0',
    'PALS_CPU_BIND': 'none',
}
# Variables of a job to whose number of CPUs srun would limit its steps
_STEP = ('SLURM_CPUS_PER_TASK', 'SRUN_CPUS_PER_TASK')
# Field of a placement -> variable of job/rank.sh with its list for each local rank, separated by colons
LISTS = {
    'cpus': 'PLUMBLINE_CPUS',
    'memory': 'PLUMBLINE_MEMORY',
    'devices': 'PLUMBLINE_DEVICES',
    'nics': 'PLUMBLINE_NICS',
}
Lists = tuple[tuple[int, ...], ...]
# Relation of two ranks -> (same socket, same NUMA domain); None: either
APART = {'same_numa': (True, True), 'same_socket': (True, False), 'different_socket': (False, None)}


@dataclass(frozen=True)
class Placement:
    """What the ranks of one node request; None: what the launcher gives them.

    `cpus`: the hardware threads of each local rank, or None where the benchmark binds its threads itself. `threads`:
    OpenMP threads of a rank; `proc_bind` and `places` bind them within the rank's CPUs. `devices`: the GPUs that each
    local rank sees, with the numbers of their vendor's tool; `gpu`: the vendor's kind, a key of VENDORS. `memory`: the
    NUMA nodes, by the operating system's numbers, of each rank's memory. `nics`: the network device of each rank, such
    as mlx5_0. `switches`: whether the nodes are at the ``same`` switch or at ``different`` ones. `apart`: the relation
    of two ranks as the kernel reports it, a key of APART. `across`: the lists have an entry for each rank of the job,
    one per node, instead of for each local rank.
    """

    ranks_per_node: int
    cpus: Lists | None
    threads: int = 1
    proc_bind: str | None = None
    places: str | None = None
    devices: Lists | None = None
    gpu: str | None = None
    memory: Lists | None = None
    nics: tuple[tuple[str, ...], ...] | None = None
    switches: str | None = None
    apart: str | None = None
    across: bool = False

    @property
    def env_vars(self) -> dict[str, str]:
        """The variables of the job, with the lists of all ranks."""
        requested = {'OMP_NUM_THREADS': str(self.threads)}
        if self.proc_bind:
            requested['OMP_PROC_BIND'] = self.proc_bind
        if self.places:
            requested['OMP_PLACES'] = self.places
        if self.gpu:
            requested['PLUMBLINE_GPU'] = self.gpu
        if self.gpu and self.devices is not None:
            requested['PLUMBLINE_VISIBLE'] = VENDORS[self.gpu].visibility
        if self.apart:
            requested['PLUMBLINE_LOCATE'] = '1'
        if self.across:
            requested['PLUMBLINE_ACROSS'] = '1'
        return requested | self.lists

    @property
    def lists(self) -> dict[str, str]:
        """The variables with the lists of all ranks; runs on different CPUs and GPUs have different lists."""
        requested = {variable: getattr(self, name) for name, variable in LISTS.items()}
        return {
            variable: ':'.join(','.join(map(str, items)) for items in lists)
            for variable, lists in requested.items()
            if lists is not None
        }

    def with_lists(self, variables: Mapping[str, str]) -> Placement:
        """Return this placement with the lists that the `variables` of a run replace."""
        named = {name: variables[variable].split(':') for name, variable in LISTS.items() if variable in variables}
        lists: dict[str, Any] = {
            name: tuple(tuple(items.split(',') if name == 'nics' else parse_cpu_list(items)) for items in own)
            for name, own in named.items()
        }
        return replace(self, **lists)

    @property
    def unset(self) -> list[str]:
        """Variables of the user that must not reach the benchmark, and of the job that must not reach srun."""
        return [name for name in _BINDING if name not in self.env_vars] + list(_STEP)


def one_rank_per_core(topology: Topology) -> Placement:
    """Return a placement with a rank on the first hardware thread of every core."""
    return one_rank_on(topology.cpu_of_core)


def one_rank_on(cpus: tuple[int, ...]) -> Placement:
    """Return a placement with a rank on each of `cpus`."""
    return Placement(len(cpus), tuple((cpu,) for cpu in cpus))


def one_rank_each(topology: Topology) -> dict[str, Placement]:
    """Return the placements `node` (a rank on its first core), `socket` and `core`; only those that differ."""
    candidates = {
        'node': topology.cpu_of_core[:1],
        'socket': tuple(cpus[0] for cpus in topology.cpus_by_socket()),
        'core': topology.cpu_of_core,
    }
    placements: dict[str, Placement] = {}
    for name, cpus in candidates.items():
        if one_rank_on(cpus) not in placements.values():
            placements[name] = one_rank_on(cpus)
    return placements


def ranks_with_threads(topology: Topology, ranks: int, threads: int | None = None) -> Placement:
    """Spread `ranks` evenly over NUMA domains, else sockets, else the node; each has `threads` consecutive cores.

    Without `threads` the ranks share all cores. Raises ValueError where a domain has too few cores.
    """
    whole = (frozenset(cpu for core in topology.cores for cpu in core),)
    candidates = (topology.numa_domains, topology.sockets, whole)
    domains = next(parts for parts in candidates if ranks % len(parts) == 0)
    per_domain, cpus = ranks // len(domains), []
    for domain in domains:
        cores = topology.cpus_in(domain)
        share = len(cores) // per_domain
        taken = share if threads is None else threads
        if not 0 < taken <= share:
            raise ValueError(f'{ranks} ranks of {threads or 1} cores: {len(cores)} cores a domain do not suffice')
        cpus += [cores[i * share : i * share + taken] for i in range(per_domain)]
    return Placement(ranks, tuple(cpus), threads=min(map(len, cpus)), proc_bind='close', places='cores')


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
    words_of_lines = [line.split() for line in lines[1:]]

    def numbers(key: str) -> frozenset[int]:
        return frozenset().union(*(parse_cpu_list(words[1]) for words in words_of_lines if words[:1] == [key]))

    return Granted(
        cpus=parse_cpu_list(''.join(lines[:1])),
        devices={int(words[1]): words[2] for words in words_of_lines if words[:1] == ['gpu']},
        gpus={
            int(words[1]): Gpu(words[2], int(words[3]), ' '.join(words[4:]))
            for words in words_of_lines
            if words[:1] == ['gpu_is']
        },
        memory=numbers('memory'),
        nics={words[1]: ' '.join(words[2:]) for words in words_of_lines if words[:1] == ['nic']},
        switch=''.join(words[1] for words in words_of_lines if words[:1] == ['switch']),
        sockets=numbers('socket'),
        numa=numbers('numa'),
        host=''.join(words[1] for words in words_of_lines if words[:1] == ['host']),
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


def add_actual(record: dict[str, Any], actual: Mapping[str, Granted], run: str = '') -> None:
    """Add the placement of the ranks in a trial to a record; of its trials, it keeps the fewest looks at a rank."""
    got, watched = record.setdefault('actual', {}), record.setdefault('watched', {})
    for rank, has in actual.items():
        key = f'{run} {rank}'.strip()
        got[key] = str(has)
        watched[key] = min(watched.get(key, str(has.watched)), str(has.watched), key=_looks)


def _looks(watched: str) -> int:
    number = watched.partition(' ')[0]
    return int(number) if number.isdecimal() else -1


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


# The devices of a node, and the programming models that can use them

# Programming model -> (feature of the stack, program, beginning of the architectures that it is for: `Vendor.arch`,
# ``opencl`` or nothing)
Models = Mapping[str, tuple[str, str, str]]
# Builds of OSU Micro-Benchmarks for buffers of GPUs, by the names of its option -d
OSU_MODELS: Models = {'cuda': ('osu-cuda', '', NVIDIA.arch), 'rocm': ('osu-rocm', '', AMD.arch)}


def models_for(topology: Topology, models: Models) -> list[str]:
    """Return those of `models` that the devices of a node can run; any OpenCL device has the architecture opencl."""
    archs = {arch for arch in topology.gpus if arch} | ({'opencl'} if topology.opencl_devices else set())
    return [model for model, (*_, prefix) in models.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system(models: Models) -> list[str | None]:
    """Return those of `models` that a partition can run and a stack offers, as values of a parameter."""
    offered = {model: row for model, row in models.items() if row[0] in features_of_this_system()}
    return on_this_system(lambda topology: models_for(topology, offered))


def one_process(topology: Topology, devices: Iterable[int]) -> Placement:
    """Return a placement of a process on all CPUs that sees only these GPUs, or all if the vendor cannot hide any."""
    seen, everywhere = tuple(devices), Placement(1, (topology.all_cpus,))
    vendor = next((vendor for vendor in vendors_of(topology.gpus) if vendor.visible), None)
    if vendor is None or any(device >= len(topology.gpus) for device in seen):  # such as an OpenCL device
        return everywhere
    return replace(everywhere, devices=(seen,), gpu=vendor.kind)


def cpus_of_devices(topology: Topology) -> Lists:
    """Return the cores for each device: an equal share of its NUMA domain, divided among the devices near that domain.

    If the site does not state near domains, the cores of the node are divided in order. Empty if there are fewer cores
    than devices.
    """
    near, lists = topology.gpu_numa_ids, []
    if not near:
        enough = 0 < len(topology.gpus) <= len(topology.cores)
        return ranks_with_threads(topology, len(topology.gpus)).cpus or () if enough else ()
    for device, domain in enumerate(near):
        cores = topology.cpus_in(topology.numa_domains[topology.numa_ids.index(domain)])
        share = len(cores) // near.count(domain)
        first = near[:device].count(domain) * share
        lists.append(cores[first : first + share])
    return tuple(lists) if all(lists) else ()


def devices_of_this_system() -> list[int | None]:
    """Return the numbers of the GPUs, or of other OpenCL devices, of a node, as values of a parameter."""
    return on_this_system(lambda topology: range(max(len(topology.gpus), topology.opencl_devices)))


def one_rank_per_gpu(topology: Topology) -> Placement:
    """Return a placement with a rank on the cores near each GPU, for programs that give local rank i the GPU i."""
    return replace(ranks_with_threads(topology, len(topology.gpus)), cpus=cpus_of_devices(topology))

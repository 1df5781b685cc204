"""Placement: the CPUs, memory, GPUs and network devices requested for each rank, and what each rank actually got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from checks.core.topology import Topology, features_of_this_system, on_this_system

_BINDING = ('OMP_PROC_BIND', 'OMP_PLACES', 'GOMP_CPU_AFFINITY', 'KMP_AFFINITY')
_STEP = ('SLURM_CPUS_PER_TASK', 'SRUN_CPUS_PER_TASK')  # of the job; srun would limit its steps to them
# Field of a placement -> variable of job/rank.sh with its list for each local rank, separated by colons
_LISTS = {
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
    """What the ranks of one node request; None: as the launcher gives it.

    `cpus`: the hardware threads of each local rank, or None where the benchmark binds its threads itself. `threads`:
    OpenMP threads of a rank; `proc_bind` and `places` bind them within the rank's CPUs. `devices`: the GPUs that each
    local rank sees, numbered as nvidia-smi (`gpu` is cuda) or ROCm (rocm) does. `memory`: the NUMA nodes, by the
    operating system's numbers, of each rank's memory. `nics`: the network device of each, such as mlx5_0. `switches`
    of all nodes: same or different. `apart`: the relation of two ranks by the kernel's account, a key of APART.
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
        if self.apart:
            requested['PLUMBLINE_LOCATE'] = '1'
        for name, variable in _LISTS.items():
            if (lists := getattr(self, name)) is not None:
                requested[variable] = ':'.join(','.join(map(str, items)) for items in lists)
        return requested

    def with_lists(self, variables: Mapping[str, str]) -> Placement:
        """Return this placement with the lists that the variables of a single run replace."""
        named = {name: variables[variable].split(':') for name, variable in _LISTS.items() if variable in variables}
        return replace(self, **{
            name: tuple(tuple(items.split(',') if name == 'nics' else parse_cpu_list(items)) for items in lists)
            for name, lists in named.items()
        })  # fmt: skip

    @property
    def unset(self) -> list[str]:
        """Variables of the account that must not reach the benchmark, and of the job that must not reach srun."""
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
    kept: dict[str, Placement] = {}
    for name, cpus in candidates.items():
        if one_rank_on(cpus) not in kept.values():
            kept[name] = one_rank_on(cpus)
    return kept


def ranks_with_threads(topology: Topology, ranks: int, threads: int | None = None) -> Placement:
    """Spread `ranks` evenly over NUMA domains, else sockets, else the node; each has `threads` consecutive cores.

    Without `threads` the ranks share all cores. Raises ValueError where a domain has too few cores.
    """
    whole = (frozenset(cpu for core in topology.cores for cpu in core),)
    candidates = (topology.numa_domains, topology.sockets, whole)
    domains = next(found for found in candidates if ranks % len(found) == 0)
    per_domain, cpus = ranks // len(domains), []
    for domain in domains:
        cores = topology.cpus_in(domain)
        share = len(cores) // per_domain
        taken = share if threads is None else threads
        if not 0 < taken <= share:
            raise ValueError(f'{ranks} ranks of {threads or 1} cores: {len(cores)} cores a domain do not suffice')
        cpus += [cores[i * share : i * share + taken] for i in range(per_domain)]
    return Placement(ranks, tuple(cpus), threads=min(map(len, cpus)), proc_bind='close', places='cores')


def parse_cpu_list(text: str) -> frozenset[int]:
    """Parse the kernel's list format: ``0-3,8`` is 0, 1, 2, 3, 8; an empty text is no CPU."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(',')):
        first, _, last = part.partition('-')
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


@dataclass(frozen=True)
class Granted:
    """What one rank actually got; all but the CPUs only where it was requested.

    `devices`: the UUID of each by its number. `nics`: the rate of each by its name, where the kernel knows it.
    `switch`: what its node is connected to, where Slurm knows it. `sockets`, `numa`: of its CPUs, by the kernel's
    numbers.
    """

    cpus: frozenset[int]
    devices: dict[int, str] = field(default_factory=dict)
    memory: frozenset[int] = frozenset()
    nics: dict[str, str] = field(default_factory=dict)
    switch: str = ''
    sockets: frozenset[int] = frozenset()
    numa: frozenset[int] = frozenset()

    def __str__(self) -> str:
        words = [','.join(map(str, sorted(self.cpus)))]
        words += [f'GPU {number} {uuid}' for number, uuid in self.devices.items()]
        words += [f'memory of NUMA {",".join(map(str, sorted(self.memory)))}'] * bool(self.memory)
        words += [f'{name} {rate}'.strip() for name, rate in self.nics.items()]
        return '; '.join([*words, *[f'switch {self.switch}'] * bool(self.switch)])


def granted(trial: Path) -> dict[str, Granted]:
    """Return what each rank of a trial got, by ``<node>.<local rank>``, from the files that ``job/rank.sh`` wrote.

    Their first line is the list of CPUs; ``gpu 0 GPU-6f3c...``, ``memory 0,1``, ``nic mlx5_0 200 Gb/sec (4X HDR)``,
    ``switch spine.leaf``, ``socket 0``, ``numa 3`` follow.
    """
    return {
        path.name.removeprefix('binding.'): _granted(path.read_text(encoding='utf-8').splitlines())
        for path in sorted(trial.glob('binding.*'))
    }


def _granted(lines: list[str]) -> Granted:
    found = [line.split() for line in lines[1:]]

    def numbers(key: str) -> frozenset[int]:
        return frozenset().union(*(parse_cpu_list(words[1]) for words in found if words[:1] == [key]))

    return Granted(
        cpus=parse_cpu_list(''.join(lines[:1])),
        devices={int(words[1]): words[2] for words in found if words[:1] == ['gpu']},
        memory=numbers('memory'),
        nics={words[1]: ' '.join(words[2:]) for words in found if words[:1] == ['nic']},
        switch=''.join(words[1] for words in found if words[:1] == ['switch']),
        sockets=numbers('socket'),
        numa=numbers('numa'),
    )


def binding_faults(placement: Placement, actual: dict[str, Granted], num_nodes: int) -> list[str]:
    """Return one sentence for each rank that did not get what was requested, or did not report."""
    expected, faults = placement.ranks_per_node * num_nodes, []
    if len(actual) != expected:
        faults.append(f'{expected} ranks were requested, {len(actual)} reported their binding')
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
    switches = [has.switch or 'one that Slurm does not name' for has in actual.values()]
    named = all(has.switch for has in actual.values())
    if placement.switches and not (named and (len(set(switches)) == 1) == (placement.switches == 'same')):
        found = ' and '.join(switches)
        faults.append(f'{placement.switches} switches of the nodes were requested, and they are {found}')
    return faults + _relation_faults(placement, actual) + _device_faults(actual)


def _relation_faults(placement: Placement, actual: dict[str, Granted]) -> list[str]:
    """Compare sockets and NUMA domains of two ranks with `apart`: the site may describe the node wrongly."""
    if placement.apart is None or len(actual) != 2:
        return []
    first, second = actual.values()
    same = (first.sockets == second.sockets, first.numa == second.numa)
    if first.sockets and all(want in (None, has) for want, has in zip(APART[placement.apart], same, strict=True)):
        return []

    def text(numbers: frozenset[int]) -> str:
        return ','.join(map(str, sorted(numbers))) or 'unknown'

    ranks = ' and '.join(
        f'rank {rank} on CPU {text(has.cpus)} of socket {text(has.sockets)}, NUMA domain {text(has.numa)}'
        for rank, has in actual.items()
    )
    return [f'{placement.apart} was requested, and the kernel has {ranks}: see processor in site.yaml']


def _device_faults(actual: dict[str, Granted]) -> list[str]:
    """Return the GPUs of a node that ranks number differently: a number must be one GPU, and a GPU one number."""
    seen = [
        (*rank.rpartition('.')[::2], number, uuid)
        for rank, has in actual.items()
        for number, uuid in has.devices.items()
    ]
    return [
        f'GPU {number} of rank {node}.{rank} is {uuid}, GPU {its_number} of rank {its_node}.{its_rank} is {its_uuid}'
        for (node, rank, number, uuid), (its_node, its_rank, its_number, its_uuid) in combinations(seen, 2)
        if node == its_node and (number == its_number) != (uuid == its_uuid)
    ]


# The devices of a node, and the programming models that can use them

# Programming model -> (feature of the stack, program, prefix of the architectures that it is for)
Models = Mapping[str, tuple[str, str, str]]


def models_for(topology: Topology, models: Models) -> list[str]:
    """Return those of `models` that the devices of a node can run."""
    archs = {arch for arch in topology.gpus if arch}
    return [model for model, (*_, prefix) in models.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system(models: Models) -> list[str | None]:
    """Return those that a partition can run and a stack offers, for a parameter."""
    offered = {model: row for model, row in models.items() if row[0] in features_of_this_system()}
    return on_this_system(lambda topology: models_for(topology, offered))


def cpus_of_devices(topology: Topology) -> Lists:
    """Return the cores for each device: an even share of its NUMA domain with the other devices near to that.

    If the site does not say which domain is near, a share of the node, in the order of both. Empty where there are
    fewer cores than devices.
    """
    near, lists = topology.gpu_numa_ids, []
    if not near:
        enough = 0 < len(topology.gpus) <= len(topology.cores)
        return ranks_with_threads(topology, len(topology.gpus)).cpus if enough else ()
    for device, domain in enumerate(near):
        cores = topology.cpus_in(topology.numa_domains[topology.numa_ids.index(domain)])
        share = len(cores) // near.count(domain)
        first = near[:device].count(domain) * share
        lists.append(cores[first : first + share])
    return tuple(lists) if all(lists) else ()


def devices_of_this_system() -> list[int | None]:
    """Return the numbers of the GPUs of a node, for a parameter."""
    return on_this_system(lambda topology: range(len(topology.gpus)))

"""Where each rank runs and which GPUs it sees, asked before the run and compared with what each rank really got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from checks.core.topology import Topology, current_site, topologies

_BINDING = ('OMP_PROC_BIND', 'OMP_PLACES', 'GOMP_CPU_AFFINITY', 'KMP_AFFINITY')
_STEP = ('SLURM_CPUS_PER_TASK', 'SRUN_CPUS_PER_TASK')  # of the job, by which srun would give a step no more than these
# Field of a placement -> the variable that holds its list for each local rank, colons between, for job/rank.sh
_LISTS = {
    'cpus': 'PLUMBLINE_CPUS',
    'memory': 'PLUMBLINE_MEMORY',
    'devices': 'PLUMBLINE_DEVICES',
    'nics': 'PLUMBLINE_NICS',
}
Lists = tuple[tuple[int, ...], ...]
# Two ranks: whether their socket is the same, and their NUMA domain; None: either
APART = {'same_numa': (True, True), 'same_socket': (True, False), 'different_socket': (False, None)}


@dataclass(frozen=True)
class Placement:
    """The ranks of one node. `cpus`: the hardware threads of each local rank, or None where the benchmark binds its
    threads itself. `threads`: OpenMP threads of a rank; `proc_bind` and `places` bind them within the rank's CPUs.

    `devices`: the GPUs that each local rank sees, numbered as nvidia-smi (`gpu` is cuda) or ROCm (rocm) does. `memory`:
    the NUMA nodes, by the operating system's numbers, that each may take memory from. `nics`: the network device of
    each, such as mlx5_0. What is None stays as the launcher gives it. `switches` of all nodes: same or different.
    `apart`: what two ranks of a node are to each other by the kernel's account, one of APART.
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
        """For the job, the lists of each rank among them."""
        asked = {'OMP_NUM_THREADS': str(self.threads)}
        if self.proc_bind:
            asked['OMP_PROC_BIND'] = self.proc_bind
        if self.places:
            asked['OMP_PLACES'] = self.places
        if self.gpu:
            asked['PLUMBLINE_GPU'] = self.gpu
        if self.apart:
            asked['PLUMBLINE_LOCATE'] = '1'
        for name, variable in _LISTS.items():
            if (lists := getattr(self, name)) is not None:
                asked[variable] = ':'.join(','.join(map(str, items)) for items in lists)
        return asked

    def with_lists(self, variables: Mapping[str, str]) -> Placement:
        """The same with what the variables of a single run name; unchanged where they name nothing."""
        named = {name: variables[variable].split(':') for name, variable in _LISTS.items() if variable in variables}
        return replace(self, **{
            name: tuple(tuple(items.split(',') if name == 'nics' else parse_cpu_list(items)) for items in lists)
            for name, lists in named.items()
        })  # fmt: skip

    @property
    def unset(self) -> list[str]:
        """What must not reach the benchmark from the account's own environment, and srun from the job's."""
        return [name for name in _BINDING if name not in self.env_vars] + list(_STEP)


def one_rank_per_core(topology: Topology) -> Placement:
    """A rank on the first hardware thread of every core of the node."""
    return one_rank_on(topology.cpu_of_core)


def one_rank_on(cpus: tuple[int, ...]) -> Placement:
    """A rank on each of `cpus`."""
    return Placement(len(cpus), tuple((cpu,) for cpu in cpus))


def one_rank_each(topology: Topology) -> dict[str, Placement]:
    """One rank a `node`, on its first core, one a `socket`, and one a `core`; only those that differ."""
    sockets = [cpus for socket in topology.sockets if (cpus := topology.cpus_in(socket))]
    candidates = {
        'node': topology.cpu_of_core[:1],
        'socket': tuple(cpus[0] for cpus in sockets),
        'core': topology.cpu_of_core,
    }
    kept: dict[str, Placement] = {}
    for name, cpus in candidates.items():
        if one_rank_on(cpus) not in kept.values():
            kept[name] = one_rank_on(cpus)
    return kept


def ranks_with_threads(topology: Topology, ranks: int, threads: int | None = None) -> Placement:
    """`ranks` spread evenly over NUMA domains, else sockets, else the node; each has `threads` consecutive cores.

    Without `threads` the ranks share all cores. Raises ValueError where the cores of a domain do not suffice.
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


def self_binding() -> Placement:
    """One process that binds its threads itself; its check verifies them from what it prints."""
    return Placement(1, None)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The kernel's list format: ``0-3,8`` is 0, 1, 2, 3, 8; an empty text is no CPU."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(',')):
        first, _, last = part.partition('-')
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


@dataclass(frozen=True)
class Granted:
    """What one rank got: devices, memory, network devices, sockets and NUMA domains only where they were asked for.
    `devices`: the UUID of each by its number. `nics`: the rate of each by its name, where the kernel tells. `switch`:
    what its node is connected to, where Slurm tells. `sockets` and `numa` of its CPUs have the kernel's numbers."""

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
        words += [f'memory of NUMA {",".join(map(str, sorted(self.memory)))}'] if self.memory else []
        words += [f'{name} {rate}'.strip() for name, rate in self.nics.items()]
        return '; '.join([*words, *([f'switch {self.switch}'] if self.switch else [])])


def granted(trial: Path) -> dict[str, Granted]:
    """What each rank of a trial got, by ``<node>.<local rank>``, from the files that ``job/rank.sh`` wrote.

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


def binding_faults(placement: Placement, got: dict[str, Granted], num_nodes: int) -> list[str]:
    """One sentence for each rank that did not get what was asked, or did not report at all."""
    expected = placement.ranks_per_node * num_nodes
    faults = []
    if len(got) != expected:
        faults.append(f'{expected} ranks were asked, {len(got)} reported their binding')
    for rank, has in got.items():
        local_rank = int(rank.rpartition('.')[2])
        for name, verb in (
            ('cpus', 'run on CPUs'),
            ('devices', 'see GPUs'),
            ('memory', 'take memory from NUMA nodes'),
            ('nics', 'use network devices'),
        ):
            lists = getattr(placement, name)
            asked = set(lists[local_rank]) if lists and local_rank < len(lists) else set()
            if lists is not None and asked != set(getattr(has, name)):
                faults.append(f'rank {rank} was asked to {verb} {sorted(asked)} and got {sorted(getattr(has, name))}')
    switches = [has.switch or 'one that Slurm does not name' for has in got.values()]
    named = all(has.switch for has in got.values())
    if placement.switches and not (named and (len(set(switches)) == 1) == (placement.switches == 'same')):
        faults.append(f'{placement.switches} switches of the nodes were asked, and they are {" and ".join(switches)}')
    return faults + _not_apart(placement, got) + _mixed_up_devices(got)


def _not_apart(placement: Placement, got: dict[str, Granted]) -> list[str]:
    """Where the site describes other sockets and NUMA domains than the node has, the CPUs that were asked are not the
    ones that were meant."""
    if placement.apart is None or len(got) != 2:
        return []
    first, second = got.values()
    same = (first.sockets == second.sockets, first.numa == second.numa)
    if first.sockets and all(want in (None, has) for want, has in zip(APART[placement.apart], same, strict=True)):
        return []

    def said(numbers: frozenset[int]) -> str:
        return ','.join(map(str, sorted(numbers))) or 'unknown'

    ranks = ' and '.join(
        f'rank {rank} on CPU {said(has.cpus)} of socket {said(has.sockets)}, NUMA domain {said(has.numa)}'
        for rank, has in got.items()
    )
    return [f'{placement.apart} was asked, and the kernel has {ranks}: see processor in site.yaml']


def _mixed_up_devices(got: dict[str, Granted]) -> list[str]:
    """On a node one number must be one GPU for all ranks, and another number another GPU."""
    seen = [
        (*rank.rpartition('.')[::2], number, uuid) for rank, has in got.items() for number, uuid in has.devices.items()
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
    """Those of `models` that the devices of a node can run."""
    archs = {arch for arch in topology.gpus if arch}
    return [model for model, (*_, prefix) in models.items() if any(arch.startswith(prefix) for arch in archs)]


def models_of_this_system(models: Models) -> list[str | None]:
    """Those that a partition can run and a stack offers; a parameter must not be empty, and None exists nowhere."""
    offered = {feature for environ in current_site().environs.values() for feature in environ.features}
    able = {model for _, topology in topologies() for model in models_for(topology, models)}
    return [model for model, (feature, *_) in models.items() if model in able and feature in offered] or [None]


def cpus_of_devices(topology: Topology) -> Lists:
    """The cores for each device: of its NUMA domain an even share with the others near to that. Where nobody says
    which domain is near, of the node, in the order of both. Empty where there are fewer cores than devices."""
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


def devices_of_this_system() -> list[int]:
    return list(range(max((len(topology.gpus) for _, topology in topologies()), default=0) or 1))

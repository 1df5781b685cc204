# SPDX-License-Identifier: BSD-3-Clause
"""Placement: the CPUs, memory, GPUs and network devices that each rank requests. Imports no ReFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from plumbline.machine.vendors import VENDORS, vendors_of

if TYPE_CHECKING:
    from checks.core.topology import Topology

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
# Variables of a job to whose number of CPUs srun would limit its steps; and of a user, by which it may put neighbouring
# ranks on different nodes, so that both of a pair between nodes are on one
_STEP = ('SLURM_CPUS_PER_TASK', 'SRUN_CPUS_PER_TASK', 'SLURM_DISTRIBUTION')
# Field of a placement -> variable of job/rank.sh with its list for each local rank, separated by colons
LISTS = {
    'cpus': 'PLUMBLINE_CPUS',
    'memory': 'PLUMBLINE_MEMORY',
    'devices': 'PLUMBLINE_DEVICES',
    'nics': 'PLUMBLINE_NICS',
}
Cpus = frozenset[int]
Lists = tuple[tuple[int, ...], ...]
# Relation of two ranks -> (same socket, same NUMA domain); None: either
APART = {'same_numa': (True, True), 'same_socket': (True, False), 'different_socket': (False, None)}


def parse_cpu_list(text: str) -> Cpus:
    """Parse the kernel's list format: ``0-3,8`` is 0, 1, 2, 3, 8; an empty text is no CPU."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(',')):
        first, _, last = part.partition('-')
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def cpu_list(cpus: Cpus) -> str:
    """Return CPUs in the kernel's list format."""
    starts = [cpu for cpu in sorted(cpus) if cpu - 1 not in cpus]
    ends = [cpu for cpu in sorted(cpus) if cpu + 1 not in cpus]
    return ','.join(f'{a}' if a == b else f'{a}-{b}' for a, b in zip(starts, ends, strict=True))


@dataclass(frozen=True)
class Placement:
    """What the ranks of one node request; None: what the launcher gives them.

    `cpus`: the hardware threads of each local rank, or None where the benchmark binds its threads itself. `threads`:
    OpenMP threads of a rank; `proc_bind` and `places` bind them within the rank's CPUs. `devices`: the GPUs that each
    local rank sees, with the numbers of their vendor's tool; `gpu`: the vendor's kind, a key of VENDORS. `memory`: the
    NUMA nodes, by the operating system's numbers, of each rank's memory. `nics`: the network device of each rank, such
    as mlx5_0. `switches`: whether the nodes are at the ``same`` switch or at ``different`` ones. `apart`: the relation
    of two ranks as the kernel reports it, a key of APART. `across`: the lists have an entry for each rank of the job,
    one per node, instead of for each local rank. `must_carry`: the network devices that must each carry bytes between
    nodes, if not `nics`; None: the ranks send each other nothing. `wrapper`: words before the program, such as numactl.
    `gpu_buffers`: whether the ranks hand GPU buffers to MPI; None: that depends on the build of the program.
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
    must_carry: tuple[str, ...] | None = ()
    wrapper: tuple[str, ...] = ()
    gpu_buffers: bool | None = False

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

    @property
    def carriers(self) -> tuple[str, ...] | None:
        """The network devices that must each carry bytes between nodes; none: any may; None: the ranks send nothing."""
        if self.must_carry is None:
            return None
        return self.must_carry or tuple(dict.fromkeys(name for of_rank in self.nics or () for name in of_rank))

    @property
    def unset(self) -> list[str]:
        """Variables of the user that must not reach the benchmark, and of the job that must not reach srun."""
        return [name for name in _BINDING if name not in self.env_vars] + list(_STEP)


#: What the launcher gives a process.
ONE_RANK = Placement(1, None)


class Execution(NamedTuple):
    """One execution of a program in each trial.

    `env_vars`: variables of this one; the others of its trial have what the job has set. `before`: a shell command just
    before it. `program`: where each execution has a program of its own; empty: that of the check. `placement`: where
    its ranks run, if not as those of the check.
    """

    options: Sequence[str]
    env_vars: Mapping[str, str] = {}
    before: str = ''
    program: str = ''
    placement: Placement | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The variables that it sets: `env_vars`, and the lists of its placement, not its threads."""
        return {**(self.placement.lists if self.placement else {}), **self.env_vars}


def one_rank_per_core(topology: Topology) -> Placement:
    """Return a placement with a rank on the first hardware thread of every core."""
    return one_rank_on(topology.cpu_of_core)


def one_rank_on(cpus: tuple[int, ...]) -> Placement:
    """Return a placement with a rank on each of `cpus`."""
    return Placement(len(cpus), tuple((cpu,) for cpu in cpus))


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


# On GPUs


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


def gpu_of_ranks(topology: Topology) -> str:
    """Return the kind of the GPUs of a node, if each can have a rank that sees it alone; else an empty text."""
    kinds = [vendor.kind for vendor in vendors_of(topology.gpus) if vendor.visible]
    return kinds[0] if kinds and cpus_of_devices(topology) else ''


def one_rank_per_gpu(topology: Topology) -> Placement:
    """Return a placement with a rank on the cores near each GPU, for programs that give local rank i the GPU i."""
    ranks = ranks_with_threads(topology, len(topology.gpus))
    return replace(ranks, cpus=cpus_of_devices(topology), gpu_buffers=None)

"""Which CPUs each rank gets, asked before the run and compared afterwards with what each rank really got."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from checks.core.topology import Topology

_OPENMP_BINDING = ('OMP_PROC_BIND', 'OMP_PLACES', 'GOMP_CPU_AFFINITY', 'KMP_AFFINITY')


@dataclass(frozen=True)
class Placement:
    """The ranks of one node. `cpus`: the hardware threads of each local rank, or None where the benchmark binds its
    threads itself. `threads`: OpenMP threads of a rank; `proc_bind` and `places` bind them within the rank's CPUs."""

    ranks_per_node: int
    cpus: tuple[tuple[int, ...], ...] | None
    threads: int = 1
    proc_bind: str | None = None
    places: str | None = None

    @property
    def env_vars(self) -> dict[str, str]:
        """For the job; ``PLUMBLINE_CPUS`` holds one CPU list a local rank, colons between, for ``job/rank.sh``."""
        asked = {'OMP_NUM_THREADS': str(self.threads)}
        if self.proc_bind:
            asked['OMP_PROC_BIND'] = self.proc_bind
        if self.places:
            asked['OMP_PLACES'] = self.places
        if self.cpus is not None:
            asked['PLUMBLINE_CPUS'] = ':'.join(','.join(map(str, cpus)) for cpus in self.cpus)
        return asked

    def with_cpus(self, lists: str | None) -> Placement:
        """The same on the CPUs that a run's own ``PLUMBLINE_CPUS`` names; unchanged without them."""
        return self if lists is None else replace(self, cpus=tuple(tuple(parse_cpu_list(c)) for c in lists.split(':')))

    @property
    def unset(self) -> list[str]:
        """What must not reach the benchmark from the account's own environment."""
        return [name for name in _OPENMP_BINDING if name not in self.env_vars]


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


def granted(trial: Path) -> dict[str, frozenset[int]]:
    """The CPUs that each rank of a trial got, by ``<node>.<local rank>``, from the files that ``job/rank.sh`` wrote."""
    return {
        path.name.removeprefix('binding.'): parse_cpu_list(path.read_text(encoding='utf-8'))
        for path in sorted(trial.glob('binding.*'))
    }


def binding_faults(placement: Placement, got: dict[str, frozenset[int]], num_nodes: int) -> list[str]:
    """One sentence for each rank that did not get what was asked, or did not report at all."""
    expected = placement.ranks_per_node * num_nodes
    faults = []
    if len(got) != expected:
        faults.append(f'{expected} ranks were asked, {len(got)} reported their binding')
    if placement.cpus is not None:
        for rank, cpus in got.items():
            local_rank = int(rank.rpartition('.')[2])
            asked = placement.cpus[local_rank] if local_rank < len(placement.cpus) else ()
            if cpus != frozenset(asked):
                faults.append(f'rank {rank} was asked to run on CPUs {sorted(asked)} and got {sorted(cpus)}')
    return faults

"""Sets of cores of a node that a benchmark of one process runs on, by name; a node has only those that differ."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from checks.core.topology import Topology, topologies


@dataclass(frozen=True)
class Group:
    """Cores of one NUMA domain: every `stride`-th of it from its first, by their first hardware threads."""

    numa_domain: int
    cpus: tuple[int, ...]
    stride: int = 1


@dataclass(frozen=True)
class Layout:
    """The cores in use, a group a NUMA domain, so that each group can keep its data local."""

    groups: tuple[Group, ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(cpu for group in self.groups for cpu in group.cpus)


# The names: node: all cores. half_close: the first half of them, domain after domain. half_spread: every second core
# of every domain. socket<i>, numa<i>: all cores of one. core: the first one.
def layouts_of_this_system() -> list[str]:
    """The names that at least one partition of the current system has; for a check's parameter."""
    names = [name for _, topology in topologies() for name in layouts(topology)]
    return list(dict.fromkeys(names)) or ['node']


def layout_of(name: str, topology: Topology) -> Layout | None:
    """The layout `name` on such a node; None where such a node has none of that name."""
    return layouts(topology).get(name)


def pairs_of_this_system() -> list[str]:
    """The names of pairs of cores that at least one partition of the current system has; for a check's parameter."""
    names = [name for _, topology in topologies() for name in pairs(topology)]
    return list(dict.fromkeys(names)) or ['same_numa']


def pairs(topology: Topology) -> dict[str, tuple[int, ...]]:
    """Where two processes that talk to each other run: on two CPUs of one node, or on one CPU of each of two nodes.

    same_numa: the first two cores. same_socket: in two NUMA domains of a socket. different_socket: in two sockets.
    first_last: the ends of a node of one socket. two_nodes: the first core of each. Of several on the same cores, the
    first.
    """
    first, last = topology.cpu_of_core[0], topology.cpu_of_core[-1]
    domains = [cpus for domain in topology.numa_domains if (cpus := topology.cpus_in(domain))]
    sockets = [cpus for socket in topology.sockets if (cpus := topology.cpus_in(socket))]
    candidates = {
        'same_numa': [cpus[:2] for cpus in domains],
        'same_socket': [(first, cpus[0]) for cpus in domains[1:] if cpus[0] in sockets[0]],
        'different_socket': [(first, cpus[0]) for cpus in sockets[1:]],
        'first_last': [(first, last)] if len(sockets) == 1 else [],
    }
    kept: dict[str, tuple[int, ...]] = {}
    for name, found in candidates.items():
        usable = [cpus for cpus in found if len(set(cpus)) == 2 and cpus not in kept.values()]
        if usable:
            kept[name] = usable[0]
    if topology.nodes_of_partition > 1:
        kept['two_nodes'] = (first,)
    return kept


def link_classes_of_this_system() -> list[str | None]:
    """The classes of paths between two GPUs that a partition of the current system has; for a check's parameter, which
    must not be empty: None exists nowhere."""
    return list(dict.fromkeys(name for _, topology in topologies() for name in topology.link_classes)) or [None]


def gpu_pairs(topology: Topology, link_class: str | None, pairs: str) -> tuple[tuple[int, int], ...]:
    """(from, to) of the paths of a class: `all` of them; the `first`, which stands for its class in quick runs; or a
    single one, such as `0_1`, which ReFrame's ``-P`` asks for.

    Empty where such a node has no such class or path, and for `all` where the first is all there is.
    """
    found = topology.link_classes.get(link_class, ())
    if pairs == 'first':
        return found[:1]
    if pairs == 'all':
        return found if len(found) > 1 else ()
    return tuple((a, b) for a, b in found if pairs == f'{a}_{b}')


@functools.cache
def layouts(topology: Topology) -> dict[str, Layout]:
    """All layouts of a node; of several on the same cores, the first of the list above."""
    domains = [topology.cpus_in(domain) for domain in topology.numa_domains]
    half, close = len(topology.cores) // 2, []
    for cpus in domains:
        close.append(cpus[: half - sum(map(len, close))])
    candidates = {
        'node': _groups(domains),
        'core': _groups([domains[0][:1]]),
        'half_close': _groups(close),
        'half_spread': _groups([cpus[::2] for cpus in domains], stride=2),
    }
    for i, socket in enumerate(topology.sockets):
        candidates[f'socket{i}'] = _groups([tuple(cpu for cpu in cpus if cpu in socket) for cpus in domains])
    for i, cpus in enumerate(domains):
        candidates[f'numa{i}'] = _groups([cpus if j == i else () for j in range(len(domains))])
    kept: dict[str, Layout] = {}
    for name, layout in candidates.items():
        if layout.cpus and all(set(layout.cpus) != set(other.cpus) for other in kept.values()):
            kept[name] = layout
    return kept


def _groups(domains: list[tuple[int, ...]], stride: int = 1) -> Layout:
    return Layout(tuple(Group(i, cpus, stride) for i, cpus in enumerate(domains) if cpus))

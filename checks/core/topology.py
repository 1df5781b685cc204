# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of a partition as the checks see them: cores, NUMA domains, sockets, caches, memory and peaks."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import archspec.cpu
import reframe.core.runtime as rt
from reframe.core.exceptions import SkipTestError
from reframe.core.logging import getlogger

from plumbline.errors import SiteError
from plumbline.machine.node import bits, cores_of
from plumbline.site.sites import FileSystem, LinkClass, Site, load_site, reframe_feature
from plumbline.units import in_base_unit

#: The largest last-level cache per core on the market is 48 MiB (EPYC 9184X: 768 MiB, 16 cores). A virtual machine may
#: report the whole cache of its host for its few cores.
LARGEST_CACHE_OF_CORE = 64 * 2**20


@dataclass(frozen=True)
class Cache:
    """One cache: size in bytes, and the hardware threads that share it."""

    level: int
    size: int
    cpus: frozenset[int]


@dataclass(frozen=True, eq=False)  # one object per partition, so that results are cached by identity
class Topology:
    """One node of a partition. CPU numbers are the operating system's; a core is the tuple of its hardware threads."""

    cores: tuple[tuple[int, ...], ...]
    numa_domains: tuple[frozenset[int], ...]
    sockets: tuple[frozenset[int], ...]
    caches: tuple[Cache, ...]
    arch: str
    described_memory: float | None
    nodes_of_partition: int = 1
    launcher: str = ''  # as site.yaml names it
    memory_kinds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # kind -> NUMA domains
    gpus: tuple[str, ...] = ()  # architecture of each, such as sm_90 or gfx90a
    gpu_models: tuple[str, ...] = ()  # of each, as site.yaml or the driver names it; empty if unknown
    opencl_devices: int = 0  # the GPUs, or devices of type opencl, such as processors through PoCL
    unified: bool = False  # whether host and GPUs address one memory
    gpu_numa_ids: tuple[int, ...] = ()  # the NUMA domain near each, one of numa_ids; empty if unknown
    link_classes: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)  # best first
    numa_distances: tuple[tuple[int, ...], ...] = ()  # from the cores of each domain to the memory of each
    numa_ids: tuple[int, ...] = ()  # the operating system's numbers of the domains
    resources: tuple[str, ...] = ()  # names of what jobs can request from the scheduler
    nics: tuple[str, ...] = ()  # network devices, as the kernel names them
    nic_numa_ids: tuple[int, ...] = ()  # the NUMA domain near each, one of numa_ids; empty if unknown
    file_systems: Mapping[str, FileSystem] = field(default_factory=dict)
    expects: tuple[tuple[str, str], ...] = ()  # how a node must be set
    power_caps: tuple[int, ...] = ()  # W
    cache_note: str = ''  # why caches have another size than reported
    from_reframe: bool = False  # whether a ReFrame configuration of the site's own describes it

    @functools.cached_property
    def cpu_of_core(self) -> tuple[int, ...]:
        """The first hardware thread of every core, in the order of sockets and NUMA domains."""
        return tuple(core[0] for core in self.cores)

    @property
    def all_cpus(self) -> tuple[int, ...]:
        """All hardware threads, sorted."""
        return tuple(sorted(cpu for core in self.cores for cpu in core))

    @property
    def threads_per_core(self) -> int:
        return max(len(core) for core in self.cores)

    @property
    def memory_bytes(self) -> float:
        """Memory of the node. Raises what :meth:`undescribed` returns where the site does not describe it."""
        if self.described_memory is None:
            raise self.undescribed('the memory of this partition is not described: memory_per_node in site.yaml')
        return self.described_memory

    def undescribed(self, what: str) -> Exception:
        """Return the error for a fact that is not described: `what`, as SiteError.

        If a ReFrame configuration, which cannot state such facts, describes the site, it is a reason to skip the case.
        """
        return SkipTestError(what) if self.from_reframe else SiteError(what)

    def cpus_in(self, domain: frozenset[int]) -> tuple[int, ...]:
        """Return the first hardware thread of every core of a socket or NUMA domain."""
        return tuple(cpu for cpu in self.cpu_of_core if cpu in domain)

    def cpu_near_nic(self, nic: int = 0) -> int:
        """Return the first core of the NUMA domain near a network device, by its number, else of the node."""
        if nic < len(self.nic_numa_ids):
            near = self.cpus_in(self.numa_domains[self.numa_ids.index(self.nic_numa_ids[nic])])
            return next(iter(near), self.cpu_of_core[0])  # the system may keep all cores of a domain
        return self.cpu_of_core[0]

    @property
    def hardware(self) -> dict[str, str]:
        """The facts by which machines with equal hardware are found, for the provenance: sockets and GPUs of a node."""
        gpus = Counter(self.gpu_models)
        facts = {
            'sockets': str(len(self.cpus_by_socket())),
            'gpus': '; '.join(f'{n} x {gpu}' for gpu, n in gpus.items()),
        }
        return {name: value for name, value in facts.items() if value}

    def cpus_by_socket(self) -> list[tuple[int, ...]]:
        """Return the first hardware threads of the cores of each socket that has cores."""
        return [cpus for socket in self.sockets if (cpus := self.cpus_in(socket))]

    def cache_bytes(self, level: int, cpus: tuple[int, ...]) -> int:
        """Return the size of all caches of `level` that the hardware threads `cpus` share; 0 where there is none."""
        return sum(cache.size for cache in self.caches if cache.level == level and not cache.cpus.isdisjoint(cpus))

    def last_level_cache_bytes(self, cpus: tuple[int, ...]) -> int:
        """Return the size of the last-level caches of `cpus`. Raises as `memory_bytes` where none is described."""
        if not self.caches:
            raise self.undescribed('the caches of this partition are not described: processor.caches in site.yaml')
        return self.cache_bytes(max(cache.level for cache in self.caches), cpus)

    def has_instructions(self, extension: str | None) -> bool:
        """Return True if the processor has an extension, by archspec's name, such as avx2; None needs none."""
        known = archspec.cpu.TARGETS.get(self.arch)
        return extension is None or (known is not None and extension in known)


def current_site() -> Site:
    return load_site(rt.runtime().system.name)


def features_of_this_system() -> set[str]:
    """Return the features of all environs of the current system."""
    return {feature for environ in current_site().environs.values() for feature in environ.features}


def environs_with(features: Sequence[str]) -> list[str]:
    """Return ReFrame's selection of the environs with these features, by feature or by name.

    A check that requires nothing gets the first environ of each partition, preferably one without Spack.
    """
    site = current_site()
    if features and site.from_reframe:  # its environs may state their features by other means
        return [name for name, environ in site.environs.items() if not {*features}.isdisjoint(environ.features)]
    if features:
        return [f'+{reframe_feature(name)}' for name in features]
    first_environs = [
        sorted(partition.environs, key=lambda name: site.environs[name].provider == 'spack')[:1]
        for partition in site.partitions.values()
    ]
    return list(dict.fromkeys(name for names in first_environs for name in names))


def topologies() -> list[tuple[str, Topology]]:
    """Return the partitions of the current system that have a described processor, as full name -> topology."""
    site = current_site()
    described = [name for name, partition in site.partitions.items() if partition.processor]
    warn_undescribed(site.name, tuple(name for name in site.partitions if name not in described))
    return [(f'{site.name}:{name}', topology_of(site.name, name)) for name in described]


@functools.cache
def warn_undescribed(site: str, partitions: tuple[str, ...]):
    """Warn once that these partitions have no case."""
    if partitions:
        names = ', '.join(partitions)
        getlogger().warning(f'{site}: site.yaml describes no processor of {names}: no case exists there')


def on_this_system(values_of: Callable[[Topology], Iterable[Any]]) -> list[Any]:
    """Return the distinct values of a parameter over all partitions of the current system.

    ``[None]`` if there are none, since ReFrame requires a value; no partition supports it.
    """
    return list(dict.fromkeys(value for _, topology in topologies() for value in values_of(topology))) or [None]


def node_counts() -> list[int]:
    """Return 1, 2, 4, ... up to the nodes of the largest partition of the current system, for a parameter."""
    largest = max((topology.nodes_of_partition for _, topology in topologies()), default=1)
    return [2**power for power in range(largest.bit_length())]


@functools.cache
def topology_of(site: str, partition: str) -> Topology:
    """Return the nodes of a partition. Raises SiteError where the site does not describe their processor."""
    described = load_site(site).partitions[partition]
    processor = described.processor
    if not processor:
        raise SiteError(f'{site}:{partition}: site.yaml describes no processor')
    fields = _from_masks(processor) if 'topology' in processor else _from_counts(processor)
    if not fields['cores']:
        raise SiteError(f'{site}:{partition}: processor.reserved_cores leaves no core to the jobs')
    fields |= _believable(fields['caches'], fields['cores'])
    fields |= _numa(f'{site}:{partition}', processor, len(fields['numa_domains']))
    devices = described.entry.get('devices', [])
    gpus = [device for device in devices if device['type'] == 'gpu']
    opencl = [device for device in devices if device['type'] == 'opencl'] or gpus
    return Topology(
        arch=processor.get('arch', ''),
        described_memory=described.memory_bytes,
        nodes_of_partition=described.num_nodes,
        launcher=described.entry['launcher'],
        memory_kinds={kind: tuple(domains) for kind, domains in described.memory_kinds.items()},
        link_classes={name: _pairs_of(links) for name, links in described.link_classes.items()},
        gpus=tuple(device.get('arch', '') for device in gpus for _ in range(device['num_devices'])),
        gpu_models=tuple(device['model'] for device in gpus if 'model' in device for _ in range(device['num_devices'])),
        opencl_devices=sum(device['num_devices'] for device in opencl),
        unified=any(device.get('unified', False) for device in gpus),
        gpu_numa_ids=tuple(number for device in gpus for number in device.get('numa_domains', ())),
        resources=tuple(resource['name'] for resource in described.entry.get('resources', [])),
        nics=tuple(described.entry.get('nics', ())),
        nic_numa_ids=tuple(described.entry.get('nic_numa_domains', ())),
        file_systems=described.file_systems,
        expects=described.expects,
        power_caps=caps_of(described.power_cap),
        from_reframe=load_site(site).from_reframe,
        **fields,
    )


def caps_of(stated: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the power caps to measure, in W: those of site.yaml and the usual one, with which 002 compares."""
    watts = [round(in_base_unit(cap)) for cap in stated.get('caps', ())]
    return tuple(dict.fromkeys([*watts, round(in_base_unit(stated['normal']))])) if watts else ()


def _believable(caches: Sequence[Cache], cores: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Return the caches, implausibly large ones reduced, and a note on the reductions."""
    believed, notes = [], []
    for cache in caches:
        sharing = sum(not cache.cpus.isdisjoint(core) for core in cores)
        most = LARGEST_CACHE_OF_CORE * sharing
        if cache.size > most > 0:
            notes.append(
                f'L{cache.level} of {cache.size / 2**20:.0f} MiB for {sharing} cores counts as {most / 2**20:.0f} MiB'
            )
            cache = replace(cache, size=most)
        believed.append(cache)
    why = ': no processor has more than 64 MiB a core; a virtual machine may report that of its host'
    return {'caches': tuple(believed), 'cache_note': '; '.join(dict.fromkeys(notes)) + why if notes else ''}


def _pairs_of(links: LinkClass) -> tuple[tuple[int, int], ...]:
    """Return (from, to) of every path of a link class that is measured."""
    return links.pairs + (tuple((b, a) for a, b in links.pairs) if links.both_directions else ())


def _numa(where: str, processor: dict[str, Any], domains: int) -> dict[str, Any]:
    """Return numbers and distances of the NUMA domains. Raises SiteError if their number is not `domains`."""
    ids = tuple(processor.get('numa_ids', range(domains)))
    distances = tuple(map(tuple, processor.get('numa_distances', ())))
    if len(ids) != domains or (distances and [len(row) for row in distances] != [domains] * domains):
        raise SiteError(
            f'{where}: processor.numa_ids, numa_distances: expected {domains} numbers, and {domains} rows of {domains}'
        )
    return {'numa_ids': ids, 'numa_distances': distances}


def _from_masks(processor: dict[str, Any]) -> dict[str, Any]:
    """Read ReFrame's detected topology, whose sets of hardware threads are hexadecimal masks."""
    topology, cores = processor['topology'], cores_of(processor)
    whole = frozenset(cpu for core in cores for cpu in core)  # a kernel without NUMA lists no domain
    numa_domains = sorted((bits(mask) for mask in topology['numa_nodes']), key=min) or [whole]
    order = {cpu: index for index, domain in enumerate(numa_domains) for cpu in domain}
    return {
        'cores': tuple(sorted(_of_jobs(processor, cores), key=lambda core: (order.get(core[0], 0), core[0]))),
        'numa_domains': tuple(numa_domains),
        'sockets': tuple(sorted((bits(mask) for mask in topology['sockets']), key=min)),
        'caches': tuple(
            Cache(int(cache['type'][1:]), cache['size'], bits(mask))
            for cache in topology['caches']
            for mask in cache['cpusets']
        ),
    }


def _from_counts(processor: dict[str, Any]) -> dict[str, Any]:
    """Build the topology of a described node: its cores belong to one socket after the other."""
    per_core, n_sockets, cores = processor['num_cpus_per_core'], processor['num_sockets'], cores_of(processor)
    n_cores = len(cores)

    def split(count: int) -> tuple[frozenset[int], ...]:
        size = max(1, n_cores // count)
        return tuple(
            frozenset(cpu for core in cores[first : first + size] for cpu in core)
            for first in range(0, n_cores, size)
        )  # fmt: skip

    caches = []
    for level, cache in processor.get('caches', {}).items():
        shared_by = max(1, cache['num_cpus'] // per_core)
        size = int(in_base_unit(cache['size']))
        caches += [Cache(int(level[1:]), size, cpus) for cpus in split(max(1, n_cores // shared_by))]
    return {
        'cores': tuple(_of_jobs(processor, cores)),
        'numa_domains': split(processor.get('num_numa_domains', n_sockets)),
        'sockets': split(n_sockets),
        'caches': tuple(caches),
    }


def _of_jobs(processor: dict[str, Any], cores: Iterable[tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """Return the cores that the system does not keep for itself."""
    return (core for core in cores if core[0] not in processor.get('reserved_cores', ()))


def gpu_pairs(topology: Topology, link_class: str | None, pairs: str) -> tuple[tuple[int, int], ...]:
    """Return (from, to) of the paths of a link class that `pairs` selects.

    `pairs`: `all`; the `first`, for quick runs; or one, such as `0_1`, by ReFrame's option ``-P``.

    Empty if a node has no such class or path, and for `all` if there is only one path.
    """
    paths = topology.link_classes.get(link_class or '', ())
    if pairs == 'first':
        return paths[:1]
    if pairs == 'all':
        return paths if len(paths) > 1 else ()
    return tuple((a, b) for a, b in paths if pairs == f'{a}_{b}')

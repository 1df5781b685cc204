# SPDX-License-Identifier: BSD-3-Clause
"""The sites of ``site_configs/``: which one this is, and each with its partitions and environments."""

import functools
import platform
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plumbline import checkout, settings
from plumbline.errors import InputError, SiteError, did_you_mean, expected_one_of
from plumbline.files import read_yaml
from plumbline.paths import site_file, site_folders
from plumbline.site.file import read_site_file
from plumbline.site.schedulers import scheduler
from plumbline.units import in_base_unit, seconds

UNDESCRIBED = 'localhost'  # the site of a host that no other site describes

# The keys that ReFrame has too; they go to it unchanged, the processor after detection.
_REFRAME_PARTITION_KEYS = (
    'name', 'descr', 'scheduler', 'launcher', 'access', 'environs', 'max_jobs', 'time_limit', 'modules', 'env_vars',
    'prepare_cmds', 'sched_options', 'container_platforms', 'resources', 'features', 'extras', 'devices',
)  # fmt: skip
_REFRAME_PROCESSOR_KEYS = (
    'arch', 'vendor', 'model', 'platform', 'num_cpus', 'num_cpus_per_core', 'num_cpus_per_socket', 'num_sockets',
    'topology',
)  # fmt: skip


# The keys of a partition that the checks read as the file states them.
_AS_STATED = ('name', 'num_nodes', 'transport', 'looks', 'memory_kinds', 'benchmarks', 'energy', 'power_cap')


@dataclass(frozen=True)
class Environ:
    """One ReFrame environment of a site: where its benchmarks come from, and which it has."""

    name: str
    provider: str
    features: tuple[str, ...] = ()
    prefix: str | None = None
    mpi: str | None = None  # family, a key of plumbline.site.mpi.FAMILIES
    modules: tuple[str, ...] = ()
    env_vars: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FileSystem:
    """One file system of a partition that the storage checks may write to, and how much. Sizes in bytes."""

    path: str
    kind: str
    size: float | None = None  # written by each node in the full cases; None: twice its memory
    max_percent_of_free: int = 5
    min_percent_left: int = 10
    stripe_count: int | None = None
    stripe_size: float | None = None
    if_free: float | None = None  # a detected site has it only where this much is free


@dataclass(frozen=True)
class LinkClass:
    """A kind of path between two GPUs of a node. Pairs of device numbers; peak in bytes/s, one way."""

    pairs: tuple[tuple[int, int], ...]
    descr: str = ''
    peak: float | None = None
    both_directions: bool = False  # measure both directions of a pair, since its path is not symmetric


@dataclass(frozen=True)
class Partition:
    """A set of equal nodes. Sizes in bytes, rates in bytes/s, Flop/s and Hz, all of one node."""

    name: str
    entry: dict[str, Any] = field(repr=False)
    environs: tuple[str, ...] = ()
    memory_bytes: float | None = None
    peaks: dict[str, float] = field(default_factory=dict)
    published_peaks: dict[str, float] = field(default_factory=dict)  # as a publication counts them, where that differs
    flop_per_cycle: dict[str, float] = field(default_factory=dict)
    num_nodes: int = 1
    transport: str = 'direct'  # between nodes: direct (fabric, any memory), host (fabric, host memory only) or sockets
    looks: str = 'required'  # at programs while they run: required, where_possible
    max_time: int | None = None  # seconds; no job of it asks for more
    memory_kinds: dict[str, list[int]] = field(default_factory=dict)  # such as hbm -> its NUMA domains
    benchmarks: dict[str, dict[str, Any]] = field(default_factory=dict)  # settings of single benchmarks, by name
    file_systems: dict[str, FileSystem] = field(default_factory=dict)
    link_classes: dict[str, LinkClass] = field(default_factory=dict)  # best first
    energy: dict[str, dict[str, Any]] = field(default_factory=dict)  # meters by name
    power_cap: dict[str, Any] = field(default_factory=dict)
    expects: tuple[tuple[str, str], ...] = ()  # settings of a node and their values, as job/settings.sh compares them

    @property
    def processor(self) -> dict[str, Any]:
        return self.entry.get('processor', {})

    def network_peak(self, nics: Collection[str] = ()) -> float | None:
        """Return the most bytes/s that a node sends to others through `nics`; if empty, through all of its devices."""
        peak, known = self.peaks.get('network_bandwidth'), self.entry.get('nics', ())
        return peak * len(nics) / len(known) if peak and nics else peak

    def reframe(self) -> dict[str, Any]:
        """Return this partition as an entry of ReFrame's ``partitions``."""
        known = {key: self.entry[key] for key in _REFRAME_PARTITION_KEYS if key in self.entry}
        if 'devices' in known:
            known['devices'] = [
                {k: v for k, v in device.items() if k not in ('numa_domains', 'unified')} for device in known['devices']
            ]
        if self.processor:
            known['processor'] = {k: v for k, v in self.processor.items() if k in _REFRAME_PROCESSOR_KEYS}
        return known


@dataclass(frozen=True)
class Site:
    """One cluster as its ``site.yaml`` describes it."""

    name: str
    descr: str
    hostnames: tuple[str, ...]
    partitions: dict[str, Partition]
    environs: dict[str, Environ]
    tolerance: dict[str, Any] = field(default_factory=dict)
    retired: int | None = None
    modules_system: str | None = None
    env_vars: tuple[tuple[str, str], ...] = ()
    env_keep: tuple[str, ...] = ()  # shell patterns of further variables that its jobs get from the user
    not_found: dict[str, str] = field(default_factory=dict)  # benchmark -> why detection did not find it
    from_reframe: bool = False  # whether a ReFrame configuration of the site's own describes the rest

    def absent(self) -> dict[str, str]:
        """Return the benchmarks that detection did not find, those with one cause joined by commas, and the cause."""
        causes = dict.fromkeys(self.not_found.values())
        return {', '.join(name for name, why in self.not_found.items() if why == cause): cause for cause in causes}

    def matches(self, hostname: str) -> bool:
        """Return True if one of the site's patterns matches the beginning of `hostname`."""
        return any(re.match(pattern, hostname) for pattern in self.hostnames)

    def reframe(self) -> dict[str, Any]:
        """Return this site as an entry of ReFrame's ``systems``, without its environments."""
        system = {
            'name': self.name,
            'descr': self.descr,
            'hostnames': list(self.hostnames),
            'env_vars': [list(pair) for pair in self.env_vars],
            'partitions': [partition.reframe() for partition in self.partitions.values()],
        }
        return system | ({'modules_system': self.modules_system} if self.modules_system else {})

    def reframe_environments(self) -> list[dict[str, Any]]:
        """Return the entries of ReFrame's ``environments``."""
        return [
            {
                'name': environ.name,
                'features': [reframe_feature(name) for name in environ.features],
                'modules': list(environ.modules),
                'env_vars': [list(pair) for pair in environ.env_vars],
                'target_systems': [self.name],
            }
            for environ in self.environs.values()
        ]


def reframe_feature(name: str) -> str:
    """Return a feature as ReFrame names it: from version 4.11 on without hyphens."""
    return name.replace('-', '_')


def named(option: str, name: str) -> str:
    """Return `name` if a site may have it. Raises InputError, which names the `option`."""
    if not re.fullmatch('[a-zA-Z_][a-zA-Z0-9_-]*', name):
        expected = 'expected a letter, then letters, digits, "_" and "-", such as mycluster'
        raise InputError(f'{option}: {expected}; found {name!r}')
    return name


def site_names(root: Path | None = None) -> list[str]:
    """Return the sorted names of all sites that have a ``site.yaml``. Raises SiteError if there is none."""
    if not root and (wrong := checkout.fault()):
        raise SiteError(wrong)
    folders = site_folders(root)
    if names := sorted({path.parent.name for folder in folders for path in folder.glob('*/site.yaml')}):
        return names
    raise SiteError(
        f'{folders[0]}: expected a folder with a site.yaml, found none; `plumbline probe --name SITE` writes one'
    )


def must_exist(name: str, root: Path | None) -> None:
    """Raise InputError unless the site folders have the site `name`."""
    if name not in (names := site_names(root)):
        guess, known = did_you_mean(name, names), ', '.join(names) or 'none'
        raise InputError(f'{site_folders(root)[0]}: has no site {name!r}{guess}; it has {known}')


def name_of_this_site(root: Path | None = None) -> str:
    """Return ``$PLUMBLINE_SITE``, else the first site with a pattern of this host's name, else :data:`UNDESCRIBED`.

    Raises SiteError if there is no such site, or if a site with a faulty file may be the site of this host.
    """
    names = site_names(root)
    if chosen := settings.SITE.get():
        if chosen not in names:
            raise SiteError(f'--site or PLUMBLINE_SITE={chosen}: {expected_one_of(chosen, names)}')
        return chosen
    host, doubtful = platform.node(), None
    for name in names:
        # a complete check of every site would take three times as long
        if name == UNDESCRIBED or not _may_describe(site_file(name, 'site.yaml', root), host):
            continue
        try:
            if load_site(name, root).matches(host):
                return name
        except SiteError as error:
            doubtful = doubtful or error
    if doubtful:
        raise SiteError(f'{doubtful} (to go on without that site: PLUMBLINE_SITE={UNDESCRIBED})')
    return UNDESCRIBED


def _may_describe(path: Path, host: str) -> bool:
    """Return True if the hostnames of a site.yaml match `host`, or if the file cannot be read."""
    try:
        patterns = read_yaml(path)['hostnames']
        return any(re.match(pattern, host) for pattern in patterns)
    except (SiteError, KeyError, TypeError, re.error):
        return True


_given: dict[str, Site] = {}


def give(site: Site) -> None:
    """Make `site`, which comes from a ReFrame configuration, known to :func:`load_site`."""
    _given[site.name] = site


def load_site(name: str, root: Path | None = None) -> Site:
    """Return the site `name`, completed from this machine where it says ``detect: true``. Raises SiteError."""
    return _given.get(name) or read_site(name, site_file(name, 'site.yaml', root))


@functools.cache
def read_site(name: str, path: Path) -> Site:
    """Return the site that a ``site.yaml`` describes. Raises SiteError."""
    entry = read_site_file(path)
    not_found = {}
    if entry.get('detect') is True:
        from plumbline.machine import detect  # a described site does not pay for the import

        not_found = detect.complete(name, entry)
    return site_of(name, entry, not_found)


def site_of(name: str, entry: dict[str, Any], not_found: dict[str, str] | None = None) -> Site:
    """Return the site that the content of a ``site.yaml`` describes."""
    return Site(
        name=name,
        descr=entry.get('descr', ''),
        hostnames=tuple(entry.get('hostnames', ())),
        partitions={item['name']: _partition(item) for item in entry.get('partitions', [])},
        environs={item['name']: _environ(item) for item in entry.get('environments', [])},
        tolerance=entry.get('tolerance', {}),
        retired=entry.get('retired'),
        modules_system=entry.get('modules_system'),
        env_vars=_env_vars(entry),
        env_keep=(*entry.get('env_keep', ()), *re.findall(r'\$\{?(\w+)', str(entry))),  # also what its paths name
        not_found=not_found or {},
        from_reframe=entry.get('detect') == 'reframe',
    )


def _environ(item: dict[str, Any]) -> Environ:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
    return Environ(**{'provider': 'system'} | fields | {'env_vars': _env_vars(item)})


def _partition(item: dict[str, Any]) -> Partition:
    peaks = dict(item.get('peaks', {}))
    flop_per_cycle = peaks.pop('flop_per_cycle', {})
    return Partition(
        entry=item | {'env_vars': [list(pair) for pair in _env_vars(item)]},
        environs=tuple(item.get('environs', ())),
        memory_bytes=in_base_unit(item['memory_per_node']) if 'memory_per_node' in item else None,
        peaks={key: in_base_unit(value) for key, value in peaks.items()},
        published_peaks={key: in_base_unit(value) for key, value in item.get('published_peaks', {}).items()},
        flop_per_cycle=flop_per_cycle,
        max_time=_max_time(item),
        file_systems={name: _file_system(described) for name, described in item.get('file_systems', {}).items()},
        link_classes={name: _link_class(described) for name, described in item.get('link_classes', {}).items()},
        expects=tuple(_expected(item.get('expects', {}))),
        **{key: item[key] for key in _AS_STATED if key in item},
    )


def _expected(expects: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each expected setting as text; a list of values yields one entry for each."""
    for key, value in expects.items():
        if isinstance(value, dict):
            yield from ((key, f'{path} {kind}') for path, kind in value.items())
        elif key == 'core_clock':
            yield key, f'{in_base_unit(value) / 1e6:.0f} MHz'
        else:
            yield from ((key, str(int(single) if isinstance(single, bool) else single)) for single in _listed(value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _max_time(item: dict[str, Any]) -> int | None:
    """Return the longest time in s that a job may ask for, a day by default; None without a queue."""
    stated = item.get('max_time') or ('1d' if scheduler(item.get('scheduler')).queued else None)
    return seconds(stated) if stated else None


def _link_class(item: dict[str, Any]) -> LinkClass:
    peak = {'peak': in_base_unit(item['peak'])} if 'peak' in item else {}
    return LinkClass(**item | peak | {'pairs': tuple(map(tuple, item['pairs']))})


def _file_system(item: dict[str, Any]) -> FileSystem:
    sizes: dict[str, Any] = {key: in_base_unit(item[key]) for key in ('size', 'stripe_size', 'if_free') if key in item}
    return FileSystem(**item | sizes)


def _env_vars(item: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the environment variables as text, as ReFrame wants them; YAML has numbers and booleans too."""
    return tuple((str(key), str(value)) for key, value in item.get('env_vars', []))

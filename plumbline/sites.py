"""Reads ``site_configs/<site>/site.yaml``, checks it against ``site.schema.json`` and says where it is wrong."""

from __future__ import annotations

import functools
import json
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from plumbline import checkout, settings
from plumbline.errors import SiteError
from plumbline.paths import SCHEMAS, SITES, YAML_LOADER
from plumbline.units import in_base_unit

UNDESCRIBED = 'localhost'  # the site of a host that nobody described

# What ReFrame knows too goes on to it unchanged (processor after completion).
_REFRAME_PARTITION_KEYS = (
    'name', 'descr', 'scheduler', 'launcher', 'access', 'environs', 'max_jobs', 'time_limit', 'modules', 'env_vars',
    'prepare_cmds', 'sched_options', 'container_platforms', 'resources', 'features', 'extras', 'devices',
)  # fmt: skip
_REFRAME_PROCESSOR_KEYS = (
    'arch', 'vendor', 'model', 'platform', 'num_cpus', 'num_cpus_per_core', 'num_cpus_per_socket', 'num_sockets',
    'topology',
)  # fmt: skip


@dataclass(frozen=True)
class Stack:
    """One ReFrame environment of a site: where its benchmarks come from and which it offers."""

    name: str
    provider: str
    features: tuple[str, ...] = ()
    prefix: str | None = None
    modules: tuple[str, ...] = ()
    env_vars: tuple[tuple[str, str], ...] = ()

    def reframe(self) -> dict[str, Any]:
        return {
            'name': self.name,
            'features': list(self.features),
            'modules': list(self.modules),
            'env_vars': [list(pair) for pair in self.env_vars],
        }


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
    if_free: float | None = None  # of a detected site: only where that much is free


@dataclass(frozen=True)
class LinkClass:
    """A kind of path between two GPUs of a node. Pairs of device numbers; peak in bytes/s, one way."""

    pairs: tuple[tuple[int, int], ...]
    descr: str = ''
    peak: float | None = None
    both_directions: bool = False  # whether a pair is measured both ways, since its path is not symmetric


@dataclass(frozen=True)
class Partition:
    """A set of like nodes. Sizes in bytes, rates in bytes/s, Flop/s and Hz, all of one node."""

    name: str
    entry: dict[str, Any] = field(repr=False)
    environs: tuple[str, ...] = ()
    memory_bytes: float | None = None
    peaks: dict[str, float] = field(default_factory=dict)
    flop_per_cycle: dict[str, float] = field(default_factory=dict)
    num_nodes: int = 1
    memory_kinds: dict[str, list[int]] = field(default_factory=dict)  # such as hbm -> its NUMA domains
    benchmarks: dict[str, dict[str, Any]] = field(default_factory=dict)  # settings of single benchmarks, by name
    file_systems: dict[str, FileSystem] = field(default_factory=dict)
    link_classes: dict[str, LinkClass] = field(default_factory=dict)  # best first

    @property
    def processor(self) -> dict[str, Any]:
        return self.entry.get('processor', {})

    def reframe(self) -> dict[str, Any]:
        known = {key: self.entry[key] for key in _REFRAME_PARTITION_KEYS if key in self.entry}
        if 'devices' in known:
            known['devices'] = [{k: v for k, v in device.items() if k != 'numa_domains'} for device in known['devices']]
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
    stacks: dict[str, Stack]
    tolerance: dict[str, Any] = field(default_factory=dict)
    retired: int | None = None
    modules_system: str | None = None
    env_vars: tuple[tuple[str, str], ...] = ()
    not_found: dict[str, str] = field(default_factory=dict)  # benchmark -> what detection looked for in vain

    @property
    def folder(self) -> Path:
        return SITES / self.name

    def matches(self, hostname: str) -> bool:
        return any(re.match(pattern, hostname) for pattern in self.hostnames)

    def reframe(self) -> dict[str, Any]:
        """This site as an entry of ReFrame's ``systems``; its environments are in :meth:`reframe_environments`."""
        system = {
            'name': self.name,
            'descr': self.descr,
            'hostnames': list(self.hostnames),
            'env_vars': [list(pair) for pair in self.env_vars],
            'partitions': [p.reframe() for p in self.partitions.values()],
        }
        return system | ({'modules_system': self.modules_system} if self.modules_system else {})

    def reframe_environments(self) -> list[dict[str, Any]]:
        return [stack.reframe() | {'target_systems': [self.name]} for stack in self.stacks.values()]


def site_names(root: Path = SITES) -> list[str]:
    """Return the folders of `root` that hold a ``site.yaml``, sorted. Raises SiteError if there is none."""
    if root == SITES and (wrong := checkout.fault()):
        raise SiteError(wrong)
    if names := sorted(path.parent.name for path in root.glob('*/site.yaml')):
        return names
    raise SiteError(f'{root}: expected a folder for each site, with a site.yaml in it')


def name_of_this_site(root: Path = SITES) -> str:
    """``$PLUMBLINE_SITE``, else the first described site whose hostnames match this host, else :data:`UNDESCRIBED`.

    Raises SiteError where that is no site, or where a site that does not load may be the one.
    """
    chosen = settings.SITE.get()
    if chosen:
        if chosen not in site_names(root):
            raise SiteError(f'PLUMBLINE_SITE={chosen}: expected one of {", ".join(site_names(root))}')
        return chosen
    host, doubtful = platform.node(), None
    for name in site_names(root):
        if name == UNDESCRIBED or not _may_describe(root / name / 'site.yaml', host):
            continue  # its other keys need no check, which costs three times as much
        try:
            if load_site(name, root).matches(host):
                return name
        except SiteError as error:
            doubtful = doubtful or error
    if doubtful:
        raise SiteError(f'{doubtful} (to go on without that site: PLUMBLINE_SITE={UNDESCRIBED})')
    return UNDESCRIBED


def _may_describe(path: Path, host: str) -> bool:
    """Whether the site of a file describes `host`, by its hostnames alone; True where those cannot be read."""
    try:
        patterns = yaml.load(path.read_text(encoding='utf-8'), Loader=YAML_LOADER)['hostnames']
        return any(re.match(pattern, host) for pattern in patterns)
    except (OSError, ValueError, KeyError, TypeError, re.error, yaml.YAMLError):
        return True


@functools.cache
def load_site(name: str, root: Path = SITES) -> Site:
    """The site `name`, completed from this machine where it says ``detect: true``. Raises SiteError."""
    path = root / name / 'site.yaml'
    entry = read_site_file(path)
    not_found = {}
    if entry.get('detect'):
        from plumbline.machine import detect  # only here: a described site pays nothing for it

        not_found = detect.complete(name, entry)
    return _build(name, entry, path, not_found)


def read_site_file(path: Path) -> dict[str, Any]:
    """The checked content of a ``site.yaml``, nothing detected yet. Raises SiteError."""
    try:
        text = path.read_text(encoding='utf-8')
        node = yaml.compose(text, Loader=YAML_LOADER)
        entry = yaml.load(text, Loader=YAML_LOADER)
    except OSError as error:
        raise SiteError(f'{path}: cannot be read: {error.strerror}') from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SiteError(f'{path}:{mark.line + 1}: not valid YAML: {error.problem}') from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SiteError(f'{path}: not valid YAML: {" ".join(str(error).split())}') from None
    _refuse_double_keys(node, path)
    wrong = next(_validator().iter_errors(entry), None)
    if wrong is not None:
        raise SiteError(_say(wrong, node, path))
    _refuse_wrong_pairs(entry, node, path)
    return entry


@functools.cache
def _validator():
    import jsonschema

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text(encoding='utf-8'))
    formats = jsonschema.FormatChecker(['regex'])
    formats.checks('quantity', raises=ValueError)(lambda text: not isinstance(text, str) or in_base_unit(text) >= 0)
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def _say(error, node: yaml.Node, path: Path) -> str:
    """One sentence for a schema error: file, line, key, what was expected."""
    where = list(error.absolute_path)
    if error.validator == 'additionalProperties':
        allowed = sorted(error.schema.get('properties', {})) or sorted(error.schema.get('patternProperties', {}))
        known = error.schema.get('properties', {})
        patterns = error.schema.get('patternProperties', {})
        unknown = next(k for k in error.instance if k not in known and not any(re.search(p, str(k)) for p in patterns))
        where, expected = [*where, unknown], f'unknown key; expected one of {", ".join(allowed)}'
    elif error.validator == 'required':
        missing = next(key for key in error.validator_value if key not in error.instance)
        expected = f'misses the key {missing!r}'
    elif error.validator == 'type':
        expected = f'expected {error.validator_value}, found {error.instance!r}'
    elif error.validator == 'enum':
        expected = f'expected one of {", ".join(map(str, error.validator_value))}, found {error.instance!r}'
    elif error.validator == 'format' and error.validator_value == 'quantity':
        expected = f'expected a number and a unit such as "256 GiB" or "614.4 GB/s", found {error.instance!r}'
    else:
        expected = error.message
    key = '.'.join(str(part) for part in where) or 'the file'
    return f'{path}:{_line(node, where)}: {key}: {expected}'


def _line(node: yaml.Node | None, where: list[Any]) -> int:
    """The line, from 1, of the deepest part of the path `where` that the file has."""
    line = node.start_mark.line if node is not None else 0
    for part in where:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _refuse_double_keys(node: yaml.Node | None, path: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise SiteError(f'{path}:{line}: {key.value}: stands twice, first in line {seen[key.value]}')
            seen[key.value] = line
            _refuse_double_keys(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_double_keys(item, path)


def _refuse_wrong_pairs(entry: dict[str, Any], node: yaml.Node, path: Path) -> None:
    """A pair is two GPUs of the partition, and has one path: it stands in one link class, once, whichever way round."""
    for number, partition in enumerate(entry['partitions']):
        gpus = sum(device['num_devices'] for device in partition.get('devices', []) if device['type'] == 'gpu')
        first: dict[frozenset[int], str] = {}
        for name, item in partition.get('link_classes', {}).items():
            for index, pair in enumerate(item['pairs']):
                numbers = frozenset(n for n in pair if type(n) is int and 0 <= n < gpus) if type(pair) is list else ()
                if not len(numbers) == 2 == len(pair):
                    wrong = f'expected two different ones of the {gpus} GPUs of the key devices, numbered from 0'
                elif numbers in first:
                    wrong = f'this pair stands already in class {first[numbers]}'
                else:
                    first[numbers] = name
                    continue
                where = ['partitions', number, 'link_classes', name, 'pairs', index]
                key = '.'.join(map(str, where))
                raise SiteError(f'{path}:{_line(node, where)}: {key}: {pair}: {wrong}')


def _build(name: str, entry: dict[str, Any], path: Path, not_found: dict[str, str]) -> Site:
    stacks = {}
    for item in entry['environments']:
        if item['name'] in stacks:
            raise SiteError(f'{path}: environments: {item["name"]!r} stands twice')
        fields = {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
        fields['env_vars'] = _pairs(item)
        if item['provider'] == 'modules' and entry.get('modules_system', 'nomod') == 'nomod':
            raise SiteError(f'{path}: environments.{item["name"]}: provider modules needs the key modules_system')
        stacks[item['name']] = Stack(**fields)
    partitions = {}
    for item in entry['partitions']:
        if item['name'] in partitions:
            raise SiteError(f'{path}: partitions: {item["name"]!r} stands twice')
        for stack in item['environs']:
            if stack not in stacks:
                raise SiteError(
                    f'{path}: partitions.{item["name"]}.environs: {stack!r} is no environment of this file; '
                    f'expected one of {", ".join(stacks)}'
                )
        for file_system, described in item.get('file_systems', {}).items():
            if 'if_free' in described and not entry.get('detect'):
                where = f'partitions.{item["name"]}.file_systems.{file_system}.if_free'
                raise SiteError(f'{path}: {where}: only a site with detect: true can look at its machine')
        partitions[item['name']] = _partition(item)
    return Site(
        name=name,
        descr=entry['descr'],
        hostnames=tuple(entry['hostnames']),
        partitions=partitions,
        stacks=stacks,
        tolerance=entry.get('tolerance', {}),
        retired=entry.get('retired'),
        modules_system=entry.get('modules_system'),
        env_vars=_pairs(entry),
        not_found=not_found,
    )


def _partition(item: dict[str, Any]) -> Partition:
    peaks = dict(item.get('peaks', {}))
    flop_per_cycle = peaks.pop('flop_per_cycle', {})
    return Partition(
        name=item['name'],
        entry=item | {'env_vars': [list(pair) for pair in _pairs(item)]},
        environs=tuple(item['environs']),
        memory_bytes=in_base_unit(item['memory_per_node']) if 'memory_per_node' in item else None,
        peaks={key: in_base_unit(value) for key, value in peaks.items()},
        flop_per_cycle=flop_per_cycle,
        num_nodes=item.get('num_nodes', 1),
        memory_kinds=item.get('memory_kinds', {}),
        benchmarks=item.get('benchmarks', {}),
        file_systems={name: _file_system(found) for name, found in item.get('file_systems', {}).items()},
        link_classes={name: _link_class(found) for name, found in item.get('link_classes', {}).items()},
    )


def _link_class(item: dict[str, Any]) -> LinkClass:
    peak = {'peak': in_base_unit(item['peak'])} if 'peak' in item else {}
    return LinkClass(**item | peak | {'pairs': tuple(map(tuple, item['pairs']))})


def _file_system(item: dict[str, Any]) -> FileSystem:
    sizes = {key: in_base_unit(item[key]) for key in ('size', 'stripe_size', 'if_free') if key in item}
    return FileSystem(**item | sizes)


def _pairs(item: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """ReFrame wants environment variables as text; YAML gives numbers and booleans too."""
    return tuple((str(key), str(value)) for key, value in item.get('env_vars', []))

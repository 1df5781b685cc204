# SPDX-License-Identifier: BSD-3-Clause
"""Read a ``site.yaml``, check it, and report what is wrong with file, line, key and what was expected."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError, expected_one_of
from plumbline.files import read_yaml
from plumbline.limits import DEFAULT_CAP
from plumbline.machine.vendors import VENDORS, vendors_of
from plumbline.paths import SCHEMAS
from plumbline.site.schedulers import launched_by, scheduler
from plumbline.units import EXAMPLES, in_base_unit, seconds
from plumbline.yaml_faults import Fault, explain, line_of, messages

_GPU_ARCH = re.compile('|'.join(vendor.archs for vendor in VENDORS.values()))
_RANGE = re.compile(r'((>=|<=|>|<) *[^<>= ]+ *)+')


def read_site_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``site.yaml`` after all checks that need no other file. Raises SiteError if one fails."""
    entry = read_yaml(path)
    for message in _messages(path, entry):
        raise SiteError(message)
    return entry


def faults_of_site_file(path: Path) -> list[str]:
    """Return a sentence for each mistake in a ``site.yaml``, in the order of its lines."""
    try:
        sentences = set(_messages(path, read_yaml(path), complete=True))
    except SiteError as error:
        return [str(error)]
    return sorted(sentences, key=lambda message: (int(message.removeprefix(f'{path}:').partition(':')[0]), message))


def place_of(path: Path, *key: str | int) -> str:
    """Return file, line and key of a part of a ``site.yaml``, as its messages begin."""
    place = tuple(map(str, key))
    return f'{path}:{line_of(path, place)}: {".".join(place)}'


def _messages(path: Path, entry: Any, complete: bool = False) -> Iterator[str]:
    yield from messages(path, _faults(entry, complete))


def _faults(entry: Any, complete: bool) -> Iterator[Fault]:
    """Yield path and fault of each mistake; with `complete` also those of `use`. Skips contents of malformed parts."""
    broken = set()
    for error in _validator().iter_errors(entry):
        for path, wrong in explain(error):
            broken.add(tuple(path[:2]))
            yield path, wrong
    if isinstance(entry, dict) and not any(len(path) < 2 for path in broken) and entry.get('detect') != 'reframe':
        contradictory = [*_inconsistencies(entry, broken)]
        yield from contradictory
        if complete:
            from plumbline.site.use import faults_of_use  # a site that only loads does not pay for it

            yield from faults_of_use(entry, broken | {tuple(path[:2]) for path, _ in contradictory})


def _is_positive(dimension: str, text: str) -> bool:
    return in_base_unit(text, of=dimension) > 0


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text(encoding='utf-8'))
    formats = jsonschema.FormatChecker(['regex'])

    def define(name: str, is_right: Callable[[str], object]) -> None:
        formats.checks(name, raises=ValueError)(lambda text: not isinstance(text, str) or bool(is_right(text)))

    for dimension in EXAMPLES:
        define(dimension, functools.partial(_is_positive, dimension))
    define('duration', lambda text: seconds(text) > 0)
    define('version', lambda text: text[:1] not in '<>=' or _RANGE.fullmatch(text))
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


# What the schema cannot express: numbers and words that contradict each other


def contradictions(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield path and fault of each contradiction in an entry of the right form."""
    return _inconsistencies(entry, frozenset())


def _inconsistencies(entry: dict[str, Any], broken: Set[tuple[Any, ...]]) -> Iterator[Fault]:
    """Yield path and fault of each contradiction, except in `broken` parts, whose form is already wrong."""
    parts = {
        key: [(number, item) for number, item in enumerate(entry[key]) if (key, number) not in broken]
        for key in ('environments', 'partitions')
    }
    for key, items in parts.items():
        first: dict[str, int] = {}
        for number, item in items:
            if first.setdefault(item['name'], number) != number:
                yield [key, number], f'{item["name"]!r} is there twice'
    for number, item in parts['environments']:
        if item['provider'] == 'modules' and entry.get('modules_system', 'nomod') == 'nomod':
            yield ['environments', number], 'provider modules needs the key modules_system'
    environs = [item['name'] for item in entry['environments'] if isinstance(item, dict) and 'name' in item]
    for number, item in parts['partitions']:
        for path, wrong in _of_partition(item, environs, bool(entry.get('detect'))):
            yield ['partitions', number, *path], wrong
    if not any(path[0] == 'tolerance' for path in broken):
        yield from _of_tolerance(entry.get('tolerance', {}))


def _of_partition(item: dict[str, Any], environs: list[str], detect: bool) -> Iterator[Fault]:
    for index, environ in enumerate(item['environs']):
        if environ not in environs:
            yield ['environs', index], f'is not an environment of this file; {expected_one_of(environ, environs)}'
    for name, file_system in item.get('file_systems', {}).items():
        if 'if_free' in file_system and not detect:
            yield ['file_systems', name, 'if_free'], 'needs detect: true, as only then the machine is read'
    needed = launched_by(item['launcher'])
    if needed and item['scheduler'] not in needed:
        yield ['launcher'], f'{item["launcher"]} needs scheduler {" or ".join(needed)}, found {item["scheduler"]}'
    if 'power_cap' in item and not scheduler(item['scheduler']).ends_cleanly:
        yield (
            ['power_cap'],
            f'needs Slurm or no scheduler: {item["scheduler"]} would not restore the cap after a killed job',
        )
    of_processor = [*_of_processor(item['processor'])] if 'processor' in item else []
    yield from ((['processor', *path], wrong) for path, wrong in of_processor)
    yield from _of_devices(item, near=not of_processor)
    yield from _of_nics(item, near=not of_processor)
    yield from _of_expects(item)
    yield from _of_link_classes(item)


def _of_processor(processor: dict[str, Any]) -> Iterator[Fault]:
    """Yield contradictions between the numbers of CPUs, sockets and NUMA domains."""
    cpus, per_core, sockets = (processor[key] for key in ('num_cpus', 'num_cpus_per_core', 'num_sockets'))
    cores, domains = cpus // per_core, _number_of_domains(processor)
    if 'arch' in processor:
        yield from _of_arch(processor['arch'])
    if cpus % per_core:
        yield ['num_cpus'], f'expected a multiple of num_cpus_per_core, {per_core}; found {cpus}'
    elif cores % sockets:
        yield ['num_cpus'], f'expected the same cores in each of {sockets} sockets; found {cores} cores, {cpus} CPUs'
    elif domains < sockets or domains % sockets:
        yield ['num_numa_domains'], f'expected a multiple of num_sockets, {sockets}; found {domains}'
    elif cores % domains:
        yield ['num_numa_domains'], f'expected the same cores in each domain; found {domains} domains of {cores} cores'
    else:
        yield from _of_parts(processor, cpus, sockets, domains)


def _number_of_domains(processor: dict[str, Any]) -> int:
    in_topology = len(processor.get('topology', {}).get('numa_nodes', ()))
    return processor.get('num_numa_domains') or in_topology or processor.get('num_sockets', 0)


def _of_parts(processor: dict[str, Any], cpus: int, sockets: int, domains: int) -> Iterator[Fault]:
    of_socket = processor.get('num_cpus_per_socket')
    if of_socket and of_socket * sockets != cpus:
        yield ['num_cpus_per_socket'], f'expected {cpus} CPUs in {sockets} sockets; found {of_socket} in each'
    for level, cache in processor.get('caches', {}).items():
        if cpus % cache['num_cpus']:
            yield ['caches', level, 'num_cpus'], f'expected a divisor of num_cpus, {cpus}; found {cache["num_cpus"]}'
    ids, distances = processor.get('numa_ids'), processor.get('numa_distances')
    if ids and (len(ids) != domains or len(set(ids)) != domains):
        yield ['numa_ids'], f'expected {domains} different numbers, one for each NUMA domain; found {ids}'
    if distances and [len(row) for row in distances] != [domains] * domains:
        yield ['numa_distances'], f'expected {domains} rows of {domains} numbers, one for each NUMA domain'


def _of_arch(arch: str) -> Iterator[Fault]:
    from archspec.cpu import TARGETS  # takes 40 ms, and most commands read no site with a processor

    if arch not in TARGETS:
        yield ['arch'], f'expected what `archspec cpu` prints on a node; {expected_one_of(arch, TARGETS)}'


def _of_devices(partition: dict[str, Any], near: bool) -> Iterator[Fault]:
    """Yield wrong types, architectures and numbers of NUMA domains of GPUs; with `near` also wrong NUMA domains."""
    processor = partition.get('processor', {})
    domains = processor.get('numa_ids') or range(_number_of_domains(processor))
    gpus = [device for device in partition.get('devices', []) if device['type'] == 'gpu']
    partly = len({'numa_domains' in device for device in gpus}) > 1
    for index, device in enumerate(partition.get('devices', [])):
        if partly and device in gpus and 'numa_domains' not in device:
            yield ['devices', index], 'lacks numa_domains: state it for all GPUs of the node, or for none'
        path, near_domains = ['devices', index], device.get('numa_domains', [])
        if device['type'] != 'gpu' and (device['type'].lower()[:3] == 'gpu' or vendors_of([device.get('arch', '')])):
            yield [*path, 'type'], f'expected gpu, as the checks look for GPUs; found {device["type"]!r}'
        if near_domains and len(near_domains) != device['num_devices']:
            wanted = f'{device["num_devices"]} numbers, one for each device'
            yield [*path, 'numa_domains'], f'expected {wanted}; found {len(near_domains)}'
        for wrong in sorted(set(near_domains) - set(domains)) if processor and near else ():
            known = ', '.join(map(str, domains))
            yield [*path, 'numa_domains'], f'expected NUMA domains of the node, {known}; found {wrong}'
        arch = device.get('arch', '')
        if device['type'] == 'gpu' and arch and not _GPU_ARCH.fullmatch(arch):
            guess = f': did you mean sm_{arch.strip("sm_-")}?' if re.fullmatch(r'sm[_-]?[0-9]+', arch) else ''
            yield [*path, 'arch'], f'expected a GPU architecture such as sm_90 or gfx90a; found {arch!r}{guess}'


def _of_nics(partition: dict[str, Any], near: bool) -> Iterator[Fault]:
    """Yield a wrong number of NUMA domains of network devices; with `near` also wrong NUMA domains."""
    near_domains, processor = partition.get('nic_numa_domains', []), partition.get('processor', {})
    if near_domains and len(near_domains) != (number := len(partition.get('nics', []))):
        yield ['nic_numa_domains'], f'expected {number} numbers, one for each of nics; found {len(near_domains)}'
    domains = processor.get('numa_ids') or range(_number_of_domains(processor))
    for wrong in sorted(set(near_domains) - set(domains)) if processor and near else ():
        known = ', '.join(map(str, domains))
        yield ['nic_numa_domains'], f'expected NUMA domains of the node, {known}; found {wrong}'


def _of_expects(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each expected number that contradicts the description of the node."""
    expects, processor = partition.get('expects', {}), partition.get('processor', {})
    domains = len(processor.get('topology', {}).get('numa_nodes', ()))
    described = {
        'numa_domains': domains or processor.get('num_numa_domains', processor.get('num_sockets')),
        'gpus': sum(device['num_devices'] for device in partition.get('devices', []) if device['type'] == 'gpu'),
    }
    for key, number in described.items():
        if key in expects and processor and expects[key] != number:
            yield (
                ['expects', key],
                f'expected {number}, as processor and devices describe the node; found {expects[key]}',
            )


def _of_link_classes(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each pair that is not two GPUs of the partition, or that is in two classes."""
    classes = partition.get('link_classes', {})
    gpus = sum(device['num_devices'] for device in partition.get('devices', []) if device['type'] == 'gpu')
    first: dict[frozenset[int], str] = {}
    for name, item in classes.items():
        for index, pair in enumerate(item['pairs']):
            path = ['link_classes', name, 'pairs', index]
            known = type(pair) is list and all(type(number) is int and 0 <= number < gpus for number in pair)
            numbers = frozenset(pair) if known else frozenset()
            if not len(numbers) == 2 == len(pair):
                yield path, f'{pair}: expected two different ones of the {gpus} GPUs of the key devices, from 0'
            elif numbers in first:
                yield path, f'{pair}: is in class {first[numbers]} already'
            else:
                first[numbers] = name


def _of_tolerance(tolerance: dict[str, Any]) -> Iterator[Fault]:
    """Yield each floor above its cap: a loss below the floor never counts, a loss above the cap always counts."""
    rules = [(['rules', index], rule) for index, rule in enumerate(tolerance.get('rules', []))]
    for path, rule in [([], tolerance), *rules]:
        floor, cap = rule.get('floor', 0), rule.get('cap', DEFAULT_CAP)
        if floor > cap:
            yield ['tolerance', *path, 'floor'], f'expected at most the cap, {cap:g}; found {floor:g}'

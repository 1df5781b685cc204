# SPDX-License-Identifier: BSD-3-Clause
"""Read a ``site.yaml``, check it, and report what is wrong with file, line, key and what was expected."""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError, did_you_mean, expected_one_of
from plumbline.files import read_yaml
from plumbline.limits import DEFAULT_CAP
from plumbline.machine.node import cores_of, gpus_in, number_of_gpus
from plumbline.machine.vendors import VENDORS, vendors_of
from plumbline.paths import SCHEMAS
from plumbline.site.schedulers import launched_by, scheduler
from plumbline.units import EXAMPLES, in_base_unit, seconds
from plumbline.yaml_faults import Fault, explain, first_of, items, line_of, messages, within

_GPU_ARCH = re.compile('|'.join(vendor.archs for vendor in VENDORS.values()))
_RANGE = re.compile(r'((>=|<=|>|<) *[^<>= ]+ *)+')


def read_site_file(path: Path) -> dict[str, Any]:
    """Return the content of a ``site.yaml`` after all checks that need no other file. Raises SiteError if one fails."""
    entry = read_yaml(path)
    for message in messages(path, _faults(entry)):
        raise SiteError(message)
    return entry


def faults_of_site_file(path: Path, more: Callable[[Any], Iterable[Fault]] = lambda entry: ()) -> list[str]:
    """Return a sentence for each mistake in a ``site.yaml``, in the order of its lines.

    First those of the form of the file; without any, contradictions; without any, what would not have its effect.
    `more`: content of the file -> faults by other files of the site.
    """
    from plumbline.site.use import faults_of_use  # a site that only loads does not pay for it

    try:
        sentences = set(messages(path, _faults(read_yaml(path), (faults_of_use, more))))
    except SiteError as error:
        return [str(error)]
    return sorted(sentences, key=lambda message: (int(message.removeprefix(f'{path}:').partition(':')[0]), message))


def place_of(path: Path, *key: str | int) -> str:
    """Return file, line and key of a part of a ``site.yaml``, as its messages begin."""
    place = tuple(map(str, key))
    return f'{path}:{line_of(path, place)}: {".".join(place)}'


def _faults(entry: Any, more: Sequence[Callable[[Any], Iterable[Fault]]] = ()) -> list[Fault]:
    """Return path and fault of each mistake by the schema, or of each contradiction, or by the functions `more`."""
    stages: list[Iterable[Fault]] = [explain(_validator().iter_errors(entry))]
    if isinstance(entry, dict) and entry.get('detect') != 'reframe':
        stages += [contradictions(entry), (fault for rules in more for fault in rules(entry))]
    return first_of(stages)


def _is_positive(dimension: str, text: str) -> bool:
    return in_base_unit(text, of=dimension) > 0


def _between(validator: Any, limits: list[str], text: Any, schema: Any) -> Iterator[Any]:
    """Check the keyword ``between`` of the schema: least and most of any hardware; beyond them a unit is wrong."""
    import jsonschema

    least, most = map(in_base_unit, limits)
    try:
        right = least <= in_base_unit(text) <= most
    except (ValueError, AttributeError):
        return  # its format is wrong
    if not right:
        yield jsonschema.ValidationError(text)


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
    draft = jsonschema.Draft202012Validator
    # 192.0 is an integer to JSON Schema, and a float to all that read the site
    whole = draft.TYPE_CHECKER.redefine('integer', lambda _, value: type(value) is int)
    extend: Any = jsonschema.validators.extend  # untyped
    return extend(draft, {'between': _between}, type_checker=whole)(schema, format_checker=formats)


# What the schema cannot express: numbers and words that contradict each other


def contradictions(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield path and fault of each contradiction in an entry of the right form."""
    for key in ('environments', 'partitions'):
        yield from _of_names(entry, key)
    for place, item in items(entry, 'environments'):
        yield from within(place, _of_environ(item, entry))
    for place, item in items(entry, 'partitions'):
        for rule in (_of_environs, _of_file_systems):
            yield from within(place, rule(item, entry))
        for of_node in _OF_PARTITION:
            yield from within(place, of_node(item))
        for of_processor in _OF_PROCESSOR if 'processor' in item else ():
            yield from within([*place, 'processor'], of_processor(item['processor']))
    yield from within(['tolerance'], _of_tolerance(entry))


def _of_names(entry: dict[str, Any], key: str) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for number, item in enumerate(entry[key]):
        if first.setdefault(item['name'], number) != number:
            yield [key, number], f'{item["name"]!r} is there twice'


def _of_environ(item: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    if item['provider'] == 'modules' and entry.get('modules_system', 'nomod') == 'nomod':
        yield [], 'provider modules needs the key modules_system'


def _of_environs(item: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    known = [environ['name'] for environ in entry['environments']]
    for index, environ in enumerate(item['environs']):
        if environ not in known:
            yield ['environs', index], f'is not an environment of this file; {expected_one_of(environ, known)}'


def _of_file_systems(item: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    for name, file_system in item.get('file_systems', {}).items():
        if file_system.get('if_free') and not entry.get('detect'):
            yield ['file_systems', name, 'if_free'], 'needs detect: true, as only then the machine is read'


def _of_launcher(item: dict[str, Any]) -> Iterator[Fault]:
    needed = launched_by(item['launcher'])
    if needed and item['scheduler'] not in needed:
        yield ['launcher'], f'{item["launcher"]} needs scheduler {" or ".join(needed)}, found {item["scheduler"]}'


def _of_power_cap(item: dict[str, Any]) -> Iterator[Fault]:
    if 'power_cap' in item and not scheduler(item['scheduler']).ends_cleanly:
        yield (
            ['power_cap'],
            f'needs Slurm or no scheduler: {item["scheduler"]} would not restore the cap after a killed job',
        )


def _of_network(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield a bandwidth of the network that is above the rates of its devices, which are in bits."""
    peak, nics, rate = (
        partition.get('peaks', {}).get('network_bandwidth'), partition.get('nics', ()),
        partition.get('expects', {}).get('nic_rate'),
    )  # fmt: skip
    if peak and nics and rate and in_base_unit(peak) > (most := len(nics) * float(rate.split()[0]) * 1e9 / 8) * 1.01:
        why = f'at most {most / 1e9:g} GB/s of {len(nics)} network devices of {rate}, 8 bits a byte'
        yield ['peaks', 'network_bandwidth'], f'expected {why}; found {peak}'


def _of_cores(processor: dict[str, Any]) -> Iterator[Fault]:
    """Yield contradictions between the numbers of CPUs, sockets and NUMA domains."""
    if 'topology' in processor:
        return  # its cores may differ, and its sockets
    cpus, per_core, sockets = (processor[key] for key in ('num_cpus', 'num_cpus_per_core', 'num_sockets'))
    cores, domains = cpus // per_core, _number_of_domains(processor)
    apart = domains % sockets and sockets % domains  # a domain may have several sockets: NPS0 of AMD's processors
    unusual = sockets & (sockets - 1)  # not 1, 2, 4, 8, ...: if it divides nothing, it is the wrong number
    if cpus % per_core:
        yield ['num_cpus'], f'expected a multiple of num_cpus_per_core, {per_core}; found {cpus}'
    elif unusual and (cores % sockets or apart):
        of = f'{cores} cores' if cores % sockets else f'{domains} NUMA domains'
        yield ['num_sockets'], f'expected a divisor of the {of} of a node; found {sockets}'
    elif cores % sockets:
        yield ['num_cpus'], f'expected the same cores in each of {sockets} sockets; found {cores} cores, {cpus} CPUs'
    elif apart:
        yield ['num_numa_domains'], f'expected a multiple or a divisor of num_sockets, {sockets}; found {domains}'
    elif cores % domains:
        yield ['num_numa_domains'], f'expected the same cores in each domain; found {domains} domains of {cores} cores'


def _of_reserved_cores(processor: dict[str, Any]) -> Iterator[Fault]:
    reserved = processor.get('reserved_cores', [])
    cores = [core[0] for core in cores_of(processor)] if reserved else []
    for index, number in enumerate(reserved):
        if number not in cores:
            yield ['reserved_cores', index], f'expected the first hardware thread of a core of the node; found {number}'
    if cores and {*cores} <= {*reserved}:
        yield ['reserved_cores'], f'leaves no core of the {len(cores)} to the jobs'


def _number_of_domains(processor: dict[str, Any]) -> int:
    if 'topology' in processor:
        return len(processor['topology'].get('numa_nodes', ())) or 1
    return processor.get('num_numa_domains') or processor.get('num_sockets', 0)


def _of_sockets(processor: dict[str, Any]) -> Iterator[Fault]:
    of_socket, sockets, cpus = (processor.get(f'num_{key}') for key in ('cpus_per_socket', 'sockets', 'cpus'))
    if of_socket and of_socket * sockets != cpus and 'topology' not in processor:
        yield ['num_cpus_per_socket'], f'expected {cpus} CPUs in {sockets} sockets; found {of_socket} in each'


def _of_caches(processor: dict[str, Any]) -> Iterator[Fault]:
    for level, cache in processor.get('caches', {}).items():
        if (cpus := processor['num_cpus']) % (sharing := cache['num_cpus']):
            yield ['caches', level, 'num_cpus'], f'expected a divisor of num_cpus, {cpus}; found {sharing}'


def _of_domains(processor: dict[str, Any]) -> Iterator[Fault]:
    domains, ids, distances = (
        _number_of_domains(processor), processor.get('numa_ids'), processor.get('numa_distances'),
    )  # fmt: skip
    if ids and (len(ids) != domains or len(set(ids)) != domains):
        yield ['numa_ids'], f'expected {domains} different numbers, one for each NUMA domain; found {ids}'
    if distances and [len(row) for row in distances] != [domains] * domains:
        yield ['numa_distances'], f'expected {domains} rows of {domains} numbers, one for each NUMA domain'


def _of_arch(processor: dict[str, Any]) -> Iterator[Fault]:
    from archspec.cpu import TARGETS  # takes 40 ms, and most commands read no site with a processor

    if (arch := processor.get('arch')) and arch not in TARGETS:
        yield ['arch'], f'expected what `archspec cpu` prints on a node; found {arch!r}{did_you_mean(arch, TARGETS)}'


def _of_devices(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield wrong types, architectures and NUMA domains of GPUs."""
    gpus = gpus_in(partition)
    partly = len({'numa_domains' in device for device in gpus}) > 1
    for index, device in enumerate(partition.get('devices', [])):
        if partly and device in gpus and 'numa_domains' not in device:
            yield ['devices', index], 'lacks numa_domains: state it for all GPUs of the node, or for none'
        path = ['devices', index]
        if device['type'] != 'gpu' and (device['type'].lower()[:3] == 'gpu' or vendors_of([device.get('arch', '')])):
            yield [*path, 'type'], f'expected gpu, as the checks look for GPUs; found {device["type"]!r}'
        arch = device.get('arch', '')
        if device['type'] == 'gpu' and arch and not _GPU_ARCH.fullmatch(arch):
            guess = f': did you mean sm_{arch.strip("sm_-")}?' if re.fullmatch(r'sm[_-]?[0-9]+', arch) else ''
            yield [*path, 'arch'], f'expected a GPU architecture such as sm_90 or gfx90a; found {arch!r}{guess}'


def _of_near(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the NUMA domains that are stated to be near GPUs and network devices."""
    stated_near = [
        (['devices', index, 'numa_domains'], device.get('numa_domains'), device['num_devices'], 'device')
        for index, device in enumerate(partition.get('devices', []))
    ]
    nics = len(partition.get('nics', []))
    stated_near.append((['nic_numa_domains'], partition.get('nic_numa_domains'), nics, 'of nics'))
    for path, near, number, what in stated_near:
        if near and len(near) != number:
            yield path, f'expected {number} numbers, one for each {what}; found {len(near)}'
    processor = partition.get('processor', {})
    domains: list[int] = processor.get('numa_ids') or [*range(_number_of_domains(processor))]
    known = ', '.join(map(str, domains))
    for path, near, _, _ in stated_near:
        for outside in {*near} - {*domains} if near and domains else ():
            yield path, f'expected NUMA domains of the node, {known}; found {outside}'


def _of_expects(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each expected number that contradicts the description of the node."""
    expects, processor = partition.get('expects', {}), partition.get('processor', {})
    domains = len(processor.get('topology', {}).get('numa_nodes', ()))
    described = {
        'numa_domains': domains or processor.get('num_numa_domains', processor.get('num_sockets')),
        'gpus': number_of_gpus(partition),
    }
    for key, number in described.items():
        if key in expects and processor and expects[key] != number:
            yield (
                ['expects', key],
                f'expected {number}, as processor and devices describe the node; found {expects[key]}',
            )


def _of_link_classes(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each pair that is not two GPUs of the partition, or that is in two classes; without GPUs, that alone."""
    classes = partition.get('link_classes', {})
    gpus = number_of_gpus(partition)
    first: dict[frozenset[int], str] = {}
    if classes and not gpus:
        yield ['link_classes'], 'expected GPUs in the key devices, as its classes are of pairs of them; found none'
    for name, item in classes.items() if gpus else ():
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


def _of_tolerance(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield each floor above its cap: a loss below the floor never counts, a loss above the cap always counts."""
    tolerance = entry.get('tolerance', {})
    rules = [(['rules', index], rule) for index, rule in enumerate(tolerance.get('rules', []))]
    for path, rule in [([], tolerance), *rules]:
        floor, cap = rule.get('floor', 0), rule.get('cap', DEFAULT_CAP)
        if floor > cap:
            yield [*path, 'floor'], f'expected at most the cap, {cap:g}; found {floor:g}'


_OF_PROCESSOR = (_of_arch, _of_cores, _of_reserved_cores, _of_sockets, _of_caches, _of_domains)
_OF_PARTITION = (
    _of_launcher, _of_power_cap, _of_network, _of_devices, _of_near, _of_expects, _of_link_classes,
)  # fmt: skip

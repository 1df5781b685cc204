# SPDX-License-Identifier: BSD-3-Clause
"""Find entries of a ``site.yaml`` that have the right form but would not have their intended effect on the machine.

A site with such entries loads all the same; ``plumbline sites --check`` names them.
"""

import importlib.util
import json
import re
from collections.abc import Iterator, Sequence, Set
from datetime import date
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from plumbline.errors import expected_one_of
from plumbline.machine.vendors import VENDORS, vendors_of
from plumbline.site.job_directives import RULES, faults_of_option, gpus_asked_for, gpus_of_node, sets_of_each_job
from plumbline.site.magnitudes import faults_of_magnitudes
from plumbline.site.schedulers import scheduler
from plumbline.stacks.manifest import known_benchmarks
from plumbline.units import in_base_unit, seconds

#: The path of keys in the file, and what is wrong there.
Fault = tuple[list[Any], str]
_INTERFACE = re.compile(r'hsn\d+')  # interface of the Slingshot network device with the same number: hsn0 of cxi0
_ETHERNET = re.compile(r'ib\d+|eth\d+|en[opsx]\w+')  # network interfaces, which MPI uses by sockets alone
_BUFFERS_ON_GPUS = ('osu-cuda', 'osu-rocm', 'heffte-cuda', 'heffte-rocm')
_THREADS = 8  # hardware threads of a core, at most: POWER8 to POWER10
_METERS = {vendor.meter.name: vendor for vendor in VENDORS.values() if vendor.meter}
_PATTERNS = ('check', 'params', 'metric', 'dims')


def faults_of_use(entry: dict[str, Any], broken: Set[tuple[Any, ...]]) -> Iterator[Fault]:
    """Yield path and fault of each such entry, except in `broken` parts, whose form is already wrong."""
    sound = [item for number, item in enumerate(entry['environments']) if ('environments', number) not in broken]
    environs = {item['name']: item for item in sound}
    system = 'modules_system' in entry
    for number, item in enumerate(entry['environments']):
        if ('environments', number) not in broken:
            faults = (*_of_environ(item), *_of_variables(item), *_of_modules(item, system))
            yield from ((['environments', number, *path], wrong) for path, wrong in faults)
    of_site = [] if any(path[0] == 'env_vars' for path in broken) else entry.get('env_vars', [])
    yield from _of_variables({'env_vars': of_site})
    whole = [(n, item) for n, item in enumerate(entry['partitions']) if ('partitions', n) not in broken]
    for number, item in whole:
        known = [environs[name] for name in item['environs'] if name in environs]
        of_parts = (of_site, *(part.get('env_vars', []) for part in (item, *known)))
        variables = {str(name) for part in of_parts for name, _ in part}
        faults = (
            *_of_links(item), *_of_jobs(item), *([] if 'retired' in entry else _beside_each_other(item)),
            *_of_use(item, variables), *_of_network(item), *_of_meters(item),
            *_of_caches(item), *_of_kinds(item), *_of_settings(item), *faults_of_magnitudes(item),
            *_repeated(item, 'environs'), *_of_variables(item), *_of_modules(item, system),
        )  # fmt: skip
        yield from ((['partitions', number, *path], wrong) for path, wrong in faults)
    if len(whole) == len(entry['partitions']) and len(sound) == len(entry['environments']):
        yield from _of_unused(entry)
        yield from _of_features(entry)
    if not any(path[0] in ('hostnames', 'retired') for path in broken):
        yield from _of_names(entry)
    if not any(path[0] == 'tolerance' for path in broken):
        yield from _of_rules(entry.get('tolerance', {}))
    yield from _by_reframe(entry, [number for number, _ in whole])


def _gpus(partition: dict[str, Any]) -> list[dict[str, Any]]:
    return [device for device in partition.get('devices', []) if device['type'] == 'gpu']


def _number_of_gpus(partition: dict[str, Any]) -> int:
    return sum(device['num_devices'] for device in _gpus(partition))


def _repeated(part: dict[str, Any], key: str) -> Iterator[Fault]:
    """Yield each item of a list that the list has before."""
    items = part.get(key, [])
    for index, item in enumerate(items):
        if (first := items.index(item)) < index:
            yield [key, index], f'{item!r} is there twice, first as number {first} of {key}'


# The site as a whole


def _of_names(entry: dict[str, Any]) -> Iterator[Fault]:
    for index, pattern in enumerate(entry['hostnames']):
        if re.match(pattern, '\0') and not entry.get('detect'):
            yield (
                ['hostnames', index],
                f'{pattern!r} matches the name of every host, which would all be taken for this site; '
                "expected a pattern of its login nodes, such as '^login[0-9]+'",
            )
        elif re.search(r'(^|\w)\*', pattern):
            meant = re.sub(r'(^|\w)\*', r'\1.*', pattern)
            yield ['hostnames', index], f'{pattern!r} is a pattern of a shell; expected a regular expression: {meant!r}'
    yield from _repeated(entry, 'hostnames')
    if entry.get('retired', 0) > (year := date.today().year):
        yield ['retired'], f'expected a year in which it was switched off, {year} at most; found {entry["retired"]}'


def _of_variables(part: dict[str, Any]) -> Iterator[Fault]:
    names = [str(name) for name, _ in part.get('env_vars', [])]
    for index, name in enumerate(names):
        if not re.fullmatch(r'[A-Za-z_]\w*', name):
            yield ['env_vars', index], f'expected [NAME, value] with the name of a variable; found {name!r}'
        elif names.index(name) < index:
            yield ['env_vars', index], f'{name} is set twice there; the shell keeps the last value'


def _of_unused(entry: dict[str, Any]) -> Iterator[Fault]:
    used = {name for item in entry['partitions'] for name in item['environs']}
    for number, item in enumerate(entry['environments']):
        if used and item.get('name') not in used:  # a site that only keeps numbers uses no environment
            partitions = ', '.join(part['name'] for part in entry['partitions'])
            yield (
                ['environments', number, 'name'],
                f'no partition uses the environment {item.get("name")!r}, so nothing of it would run; '
                f'expected it in environs of one of {partitions}',
            )


def _of_features(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield each benchmark for a kind of GPU that no partition of its environment has."""
    archs_of: dict[str, set[str]] = {}
    for item in entry['partitions']:
        for name in item['environs']:
            archs = [device.get('arch', '') for device in _gpus(item)] if 'processor' in item else ['']
            archs_of.setdefault(name, set()).update(archs)
    known = known_benchmarks()
    for number, item in enumerate(entry['environments']):
        known_archs = archs_of.get(item.get('name', ''))
        if known_archs is None or '' in known_archs or entry.get('detect'):  # where nobody says what the nodes have
            continue
        kinds = {vendor.kind for vendor in vendors_of(known_archs)}
        for index, feature in enumerate(item.get('features', [])):
            kind = known.get(feature, {}).get('gpu')
            if kind and kind not in kinds:
                has = f'GPUs of {", ".join(sorted(known_archs))}' if known_archs else 'no GPU'
                why = f'{feature} needs GPUs of the kind {kind}, and the partitions of this environment have {has}'
                yield ['environments', number, 'features', index], why


def _of_environ(item: dict[str, Any]) -> Iterator[Fault]:
    stated = [[str(word) for word in pair] for pair in item.get('env_vars', [])]
    if item.get('mpi') == 'intel-oneapi-mpi' and ['I_MPI_OFFLOAD', '1'] not in stated:
        why = (
            'Intel MPI passes buffers of NVIDIA GPUs from 2021.13 on alone, and of AMD GPUs never; '
            'expected another MPI, or I_MPI_OFFLOAD: 1 in env_vars of this environment'
        )
        for index, feature in enumerate(item.get('features', [])):
            if feature in _BUFFERS_ON_GPUS:
                yield ['features', index], why
    if 'prefix' in item and not item['prefix'].startswith(('/', '$')):
        yield ['prefix'], f'expected an absolute path, as jobs run in folders of their own; found {item["prefix"]!r}'
    for key in ('features', 'modules'):
        yield from _repeated(item, key)


def _of_modules(part: dict[str, Any], system: bool) -> Iterator[Fault]:
    """Yield modules that nothing would load, where the site names no modules `system`."""
    if part.get('modules') and not system and part.get('provider') != 'modules':
        yield ['modules'], 'would not be loaded: the site has no modules_system; expected that key, or no modules'


def _of_rules(tolerance: dict[str, Any]) -> Iterator[Fault]:
    """Yield rules that hold for everything, and rules that a later rule hides: the last one that matches wins."""
    last: dict[tuple[Any, ...], int] = {}
    rules = tolerance.get('rules', [])
    for index, rule in enumerate(rules):
        last[tuple(rule.get(name) for name in _PATTERNS)] = index
    for index, rule in enumerate(rules):
        path = ['tolerance', 'rules', index]
        if not any(name in rule for name in _PATTERNS):
            yield (
                path,
                f'names none of {", ".join(_PATTERNS)}, so it holds for everything and hides the rules before it; '
                'expected one of them, or floor and cap of tolerance itself',
            )
        elif (later := last[tuple(rule.get(name) for name in _PATTERNS)]) != index:
            yield path, f'has no effect: rule {later} is for the same, and the last one wins'


# Jobs


def _of_jobs(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield options that the scheduler does not have or that contradict the node, and contradictory limits of jobs."""
    queue, access, runs = partition.get('queue', {}), partition.get('access', []), partition['scheduler']
    processor, gpus = partition.get('processor', {}), _number_of_gpus(partition)
    for index, option in enumerate(access):
        for why in faults_of_option(option, runs) if runs in RULES else ():
            yield ['access', index], why
        if own := sets_of_each_job(option, runs):
            yield (
                ['access', index],
                f'{own} is stated for each job by the suite, from what the case needs; expected none',
            )
        asked = gpus_of_node(option)
        if asked is not None and asked != gpus:
            has = f'devices says that a node has {gpus}' if gpus else 'devices says of no GPU'
            yield ['access', index], f'asks for {asked} GPUs of a node, and {has}; expected the same number'
    if not scheduler(runs).queued and access:
        yield ['access', 0], f'has no effect: scheduler {runs} takes no options; expected none, or another scheduler'
    if 'time_limit' in partition and 'max_time' in partition:
        limit, longest = partition['time_limit'], partition['max_time']
        if seconds(limit) > seconds(longest):
            yield ['time_limit'], f'expected at most max_time, {longest}; found {limit}'
    if not processor:
        return
    per_core = processor['num_cpus_per_core']
    cores = processor['num_cpus'] // per_core
    if queue.get('threads_per_core', 1) > per_core:
        threads = queue['threads_per_core']
        yield ['queue', 'threads_per_core'], f'expected at most num_cpus_per_core, {per_core}; found {threads}'
    if queue.get('system_cores', 0) >= cores:
        yield (
            ['queue', 'system_cores'],
            f'expected fewer than the {cores} cores of a node; found {queue["system_cores"]}',
        )
    yield from _of_reserved(processor, cores)


def _beside_each_other(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield a fault if jobs without a scheduler would measure at the same time."""
    if partition['scheduler'] == 'local' and partition.get('processor') and partition.get('max_jobs') != 1:
        has = f'found {partition["max_jobs"]}' if 'max_jobs' in partition else 'without it 8 run at a time'
        why = f'expected max_jobs: 1, as benchmarks would run beside each other on this machine; {has}'
        yield (['max_jobs'] if 'max_jobs' in partition else []), why


def _of_reserved(processor: dict[str, Any], cores: int) -> Iterator[Fault]:
    """Yield reserved cores that the node does not have; the number of a core is that of its first hardware thread."""
    step = processor['num_cpus_per_core'] if processor.get('consecutive_threads') else 1
    reserved = processor.get('reserved_cores', [])
    for index, core in enumerate(reserved):
        if core % step or core >= cores * step:
            by = f'0, {step}, {2 * step} up to {(cores - 1) * step}' if step > 1 else f'0 to {cores - 1}'
            yield (
                ['processor', 'reserved_cores', index],
                f'expected the first hardware thread of one of the {cores} cores, {by}; found {core}',
            )
    yield from ((['processor', *path], wrong) for path, wrong in _repeated(processor, 'reserved_cores'))
    if reserved and len(set(reserved)) >= cores:
        yield ['processor', 'reserved_cores'], f'leaves no core to the jobs: all {cores} are reserved'


def _of_use(partition: dict[str, Any], variables: Set[str]) -> Iterator[Fault]:
    """Yield what a partition lacks for its GPUs or its queue. `variables`: environment variables that its jobs have."""
    queue, runs, gpus = partition.get('queue', {}), partition['scheduler'], _gpus(partition)
    asked = queue.get('gives_gpus') or any(map(gpus_asked_for, partition.get('access', [])))
    if runs == 'slurm' and gpus and not asked:
        yield (
            ['access'],
            'asks for no GPU, and steps of Slurm get none then; expected '
            f'--gpus-per-node={_number_of_gpus(partition)}, '
            'or queue: {gives_gpus: true} where jobs need not ask',
        )
    intel = any(device.get('arch', '').startswith(('intel', 'xe')) for device in gpus)
    if intel and 'ONEAPI_DEVICE_SELECTOR' not in variables:
        why = 'lacks ONEAPI_DEVICE_SELECTOR: a device of SYCL may be the processor then; expected level_zero:gpu'
        yield ['env_vars'], why
    if runs in ('pbs', 'pbspro') and 'queue' in queue.get('needs', []) and 'max_jobs' not in partition:
        yield [], 'lacks the key max_jobs: as many as the queue takes of a user; without it 8 are submitted at a time'
    for index, device in enumerate(partition.get('devices', [])):
        if device['type'] == 'gpu' and 'arch' not in device:
            yield ['devices', index], 'lacks arch, so no check of GPUs has a case; expected one such as sm_90 or gfx90a'


def _of_network(partition: dict[str, Any]) -> Iterator[Fault]:
    nics = partition.get('nics', [])
    yield from _repeated(partition, 'nics')
    for index, nic in enumerate(nics if partition.get('transport') != 'sockets' else ()):
        if _INTERFACE.fullmatch(nic):
            device = nic.replace('hsn', 'cxi')
            why = f'is the Ethernet interface of a Slingshot device, which MPI uses by sockets alone; expected {device}'
            yield ['nics', index], why
        elif _ETHERNET.fullmatch(nic):
            why = 'is a network interface, which MPI uses by sockets alone; expected a device of '
            yield ['nics', index], f'{why}/sys/class/infiniband such as mlx5_0, or transport: sockets'
    if partition.get('expects', {}).get('nics', len(nics)) < len(nics):
        expected = partition['expects']['nics']
        yield ['expects', 'nics'], f'expected at least the {len(nics)} of the key nics; found {expected}'


# The node


def _of_caches(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each cache that is larger, or shared by more CPUs, than a cache of the next level."""
    caches = sorted(partition.get('processor', {}).get('caches', {}).items())
    for (name, near), (further, far) in pairwise(caches):
        if in_base_unit(near['size']) > in_base_unit(far['size']):
            found = f'found {near["size"]}, and {further} has {far["size"]}'
            yield ['processor', 'caches', name, 'size'], f'expected no more than one cache of {further}; {found}'
        if near['num_cpus'] > far['num_cpus']:
            found = f'found {near["num_cpus"]}, and {further} has {far["num_cpus"]}'
            yield ['processor', 'caches', name, 'num_cpus'], f'expected no more CPUs than share {further}; {found}'


def _of_kinds(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield NUMA domains with two kinds of memory, or with a smaller distance to another domain than to themselves."""
    processor = partition.get('processor', {})
    if not processor:
        return
    number = processor.get('num_numa_domains') or len(processor.get('topology', {}).get('numa_nodes', ()))
    of_kind: dict[int, str] = {}
    for kind, domains in partition.get('memory_kinds', {}).items():
        for index, domain in enumerate(domains):
            if domain in of_kind:
                yield ['memory_kinds', kind, index], f'domain {domain} is of the kind {of_kind[domain]} already'
            of_kind.setdefault(domain, kind)
    for row, distances in enumerate(processor.get('numa_distances', [])):
        if row < len(distances) and distances[row] != min(distances):
            yield (
                ['processor', 'numa_distances', row],
                f'expected the least distance in its column {row}, as to itself; found {distances[row]}',
            )
    if number and number > processor['num_cpus']:
        yield ['processor', 'num_numa_domains'], f'expected at most the {processor["num_cpus"]} CPUs; found {number}'


def _of_settings(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each setting that contradicts the processor: vendor, platform, threads per core, `smt_active`."""
    processor, expects = partition.get('processor', {}), partition.get('expects', {})
    if not processor:
        return
    per_core = processor['num_cpus_per_core']
    if per_core > _THREADS:
        yield (
            ['processor', 'num_cpus_per_core'],
            f'expected the hardware threads of one core, {_THREADS} at most; found {per_core}, as cores of a socket',
        )
    if 'smt_active' in expects and expects['smt_active'] != (per_core > 1):
        has = f'num_cpus_per_core is {per_core}'
        yield ['expects', 'smt_active'], f'expected {"on" if per_core > 1 else "off"}, as {has}; found the opposite'
    if 'arch' in processor:
        from archspec.cpu import TARGETS  # takes 40 ms

        of = TARGETS.get(processor['arch'])
        for key, known in (('vendor', of and of.vendor), ('platform', of and str(of.family))):
            if known and known != 'generic' and processor.get(key, known) != known:
                yield ['processor', key], f'expected {known}, as of {processor["arch"]}; found {processor[key]!r}'


def _of_links(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield the faults of `link_classes`: pairs of GPUs without a class, and classes that are not listed best first."""
    classes, gpus = partition.get('link_classes', {}), _number_of_gpus(partition)
    known = {frozenset(pair) for item in classes.values() for pair in item['pairs']}
    lacking = [pair for pair in combinations(range(gpus), 2) if classes and frozenset(pair) not in known]
    if lacking:
        some = ', '.join(f'[{a}, {b}]' for a, b in lacking[:5]) + (', ...' if lacking[5:] else '')
        why = f'expected a class for each pair of the {gpus} GPUs; {len(lacking)} are in none: {some}'
        yield ['link_classes'], why
    peaks = [(name, item['peak']) for name, item in classes.items() if 'peak' in item]
    for (better, high), (name, peak) in pairwise(peaks):
        if in_base_unit(peak) > in_base_unit(high):
            yield ['link_classes', name, 'peak'], f'expected the best class first: {peak} is above {high} of {better}'


def _of_meters(partition: dict[str, Any]) -> Iterator[Fault]:
    kinds = {vendor.kind for vendor in vendors_of(device.get('arch', '') for device in _gpus(partition))}
    for name in partition.get('energy', {}):
        if name in _METERS and _METERS[name].kind not in kinds:
            yield ['energy', name], f'reads GPUs of the kind {_METERS[name].kind}, of which devices has none'
    if cap := partition.get('power_cap'):
        normal = in_base_unit(cap['normal'])
        for index, power in enumerate(cap['caps']):
            if in_base_unit(power) > normal:
                yield ['power_cap', 'caps', index], f'expected at most normal, {cap["normal"]}; found {power}'
        yield from ((['power_cap', *path], wrong) for path, wrong in _repeated(cap, 'caps'))
    offered = partition.get('file_systems', {})
    paths = [item['path'] for item in offered.values()]
    for index, (name, path) in enumerate(zip(offered, paths, strict=True)):
        if paths.index(path) < index:
            yield ['file_systems', name, 'path'], f'{path} is that of {[*offered][paths.index(path)]}, too'


# ReFrame's own rules for the keys that it has

#: The classes of reframe/core/containers.py of ReFrame 4.10; its schema takes any text.
_CONTAINER_PLATFORMS = ('Apptainer', 'Docker', 'Sarus', 'Shifter', 'Singularity')


def _by_reframe(entry: dict[str, Any], whole: Sequence[int]) -> Iterator[Fault]:
    """Yield what ReFrame's own schema refuses in the keys that go to it unchanged."""
    package = importlib.util.find_spec('reframe')
    if package is None or not package.origin or entry.get('detect'):
        return
    import jsonschema

    path = Path(package.origin).parent / 'schemas' / 'config.json'
    try:
        schema = json.loads(path.read_text(encoding='utf-8'))
        of_partition = schema['properties']['systems']['items']['properties']['partitions']['items']['properties']
    except (OSError, ValueError, KeyError):
        return
    for number in whole:
        for key in ('container_platforms', 'resources', 'sched_options', 'extras', 'features'):
            if key in entry['partitions'][number] and key in of_partition:
                part = {'defs': schema.get('defs', {}), '$defs': schema.get('$defs', {}), **of_partition[key]}
                for error in jsonschema.Draft7Validator(part).iter_errors(entry['partitions'][number][key]):
                    wrong = error.message
                    if error.validator == 'enum':
                        wrong = expected_one_of(error.instance, error.validator_value)
                    yield ['partitions', number, key, *error.absolute_path], f'ReFrame would refuse it: {wrong}'
        for index, platform in enumerate(entry['partitions'][number].get('container_platforms', ())):
            if isinstance(platform, dict) and platform.get('type', 'Docker') not in _CONTAINER_PLATFORMS:
                wrong = expected_one_of(platform['type'], _CONTAINER_PLATFORMS)  # ReFrame would ignore it
                yield ['partitions', number, 'container_platforms', index, 'type'], wrong

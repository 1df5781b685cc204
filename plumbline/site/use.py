# SPDX-License-Identifier: BSD-3-Clause
"""Find entries of a ``site.yaml`` that have the right form but would not have their intended effect on the machine.

A site with such entries loads all the same; ``plumbline sites --check`` names them.
"""

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

from plumbline.machine.node import gpus_in, number_of_gpus
from plumbline.machine.vendors import VENDORS, vendors_of
from plumbline.site.job_directives import RULES, faults_of_access, gpus_asked_for, gpus_of_node
from plumbline.site.magnitudes import faults_of_magnitudes
from plumbline.site.schedulers import scheduler
from plumbline.stacks.manifest import known_benchmarks
from plumbline.units import in_base_unit, seconds
from plumbline.yaml_faults import Fault, Rule, items

_INTERFACE = re.compile(r'hsn\d+')  # interface of the Slingshot network device with the same number: hsn0 of cxi0
_DEVICE = re.compile(r'(mlx[45]|hfi1|efa)[-_. ]?(\d+)')  # as the kernel names it but for what is between: mlx5_0
_ETHERNET = re.compile(r'ib\d+|eth\d+|en[opsx]\w+')  # network interfaces, which MPI uses by sockets alone
_BUFFERS_ON_GPUS = ('osu-cuda', 'osu-rocm', 'heffte-cuda', 'heffte-rocm')
_METERS = {vendor.meter.name: vendor for vendor in VENDORS.values() if vendor.meter}
_PATTERNS = ('check', 'params', 'metric', 'dims')


def rules_of_use(entry: Any) -> Iterator[Rule]:
    """Yield the rules for each part of the content of a ``site.yaml``."""
    if dict.get(entry, 'detect') == 'reframe':
        return
    for place, item in [([], entry), *items(entry, 'environments'), *items(entry, 'partitions')]:
        yield place, _of_variables(item)
        yield place, _of_modules(item, entry)
    for place, item in items(entry, 'environments'):
        yield place, _of_intel_mpi(item)
        yield from ((place, _repeated(item, key)) for key in ('features', 'modules'))
    for place, item in items(entry, 'partitions'):
        yield from ((place, rule(item)) for rule in _OF_PARTITION)
        yield from ((place, rule(item, entry)) for rule in (_of_max_jobs, _of_sycl))
        yield from ((place, _repeated(item, key)) for key in ('environs', 'nics'))
    yield from (([], rule(entry)) for rule in (_of_unused, _of_features, _of_hostnames, _of_rules))
    yield [], _repeated(entry, 'hostnames')


def _repeated(part: dict[str, Any], key: str) -> Iterator[Fault]:
    """Yield each item of a list that the list has before."""
    items = part.get(key, [])
    for index, item in enumerate(items):
        if (first := items.index(item)) < index:
            yield [key, index], f'{item!r} is there twice, first as number {first} of {key}'


# The site as a whole


def _of_hostnames(entry: dict[str, Any]) -> Iterator[Fault]:
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
        if used and item['name'] not in used:  # a site that only keeps numbers uses no environment
            partitions = ', '.join(part['name'] for part in entry['partitions'])
            yield (
                ['environments', number, 'name'],
                f'no partition uses the environment {item["name"]!r}, so nothing of it would run; '
                f'expected it in environs of one of {partitions}',
            )


def _of_features(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield each benchmark for a kind of GPU that no partition of its environment has."""
    archs_of: dict[str, set[str]] = {}
    for item in entry['partitions']:
        for name in item['environs']:
            archs = [device.get('arch', '') for device in gpus_in(item)] if 'processor' in item else ['']
            archs_of.setdefault(name, set()).update(archs)
    known = known_benchmarks()
    for number, item in enumerate(entry['environments']):
        known_archs = archs_of.get(item['name'])
        if known_archs is None or '' in known_archs or entry.get('detect'):  # where nobody says what the nodes have
            continue
        kinds = {vendor.kind for vendor in vendors_of(known_archs)}
        for index, feature in enumerate(item.get('features', [])):
            kind = known.get(feature, {}).get('gpu')
            if kind and kind not in kinds:
                has = f'GPUs of {", ".join(sorted(known_archs))}' if known_archs else 'no GPU'
                why = f'{feature} needs GPUs of the kind {kind}, and the partitions of this environment have {has}'
                yield ['environments', number, 'features', index], why


def _of_intel_mpi(item: dict[str, Any]) -> Iterator[Fault]:
    stated = [[str(word) for word in pair] for pair in item.get('env_vars', [])]
    if item.get('mpi') == 'intel-oneapi-mpi' and ['I_MPI_OFFLOAD', '1'] not in stated:
        why = (
            'Intel MPI passes buffers of NVIDIA GPUs from 2021.13 on alone, and of AMD GPUs never; '
            'expected another MPI, or I_MPI_OFFLOAD: 1 in env_vars of this environment'
        )
        for index, feature in enumerate(item.get('features', [])):
            if feature in _BUFFERS_ON_GPUS:
                yield ['features', index], why


def _of_modules(part: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield modules that nothing would load."""
    if part.get('modules') and part.get('provider') != 'modules' and 'modules_system' not in entry:
        yield ['modules'], 'would not be loaded: the site has no modules_system; expected that key, or no modules'


def _of_rules(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield rules that hold for everything, and rules that a later rule hides: the last one that matches wins."""
    last: dict[tuple[Any, ...], int] = {}
    rules = entry.get('tolerance', {}).get('rules', [])
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


def _of_access(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield options that the scheduler does not have, or that contradict the node."""
    access, runs = partition.get('access', []), partition['scheduler']
    for index, option in enumerate(access):
        for why in faults_of_access(option, runs) if runs in RULES else ():
            yield ['access', index], why
        asked = gpus_of_node(option)
        if asked is not None and asked != (gpus := number_of_gpus(partition)):
            has = f'devices says that a node has {gpus}' if gpus else 'devices says of no GPU'
            yield ['access', index], f'asks for {asked} GPUs of a node, and {has}; expected the same number'
    if not scheduler(runs).queued and access:
        yield ['access', 0], f'has no effect: scheduler {runs} takes no options; expected none, or another scheduler'


def _of_flux(partition: dict[str, Any]) -> Iterator[Fault]:
    if partition['scheduler'] == 'flux':
        why = 'ReFrame submits each job to flux as one task of one core; expected squeue, by the wrappers of Flux'
        yield ['scheduler'], why


def _of_times(partition: dict[str, Any]) -> Iterator[Fault]:
    if 'time_limit' in partition and 'max_time' in partition:
        limit, longest = partition['time_limit'], partition['max_time']
        if seconds(limit) > seconds(longest):
            yield ['time_limit'], f'expected at most max_time, {longest}; found {limit}'


def _of_threads(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield threads and cores of a job or of the system that a node does not have."""
    if not (processor := partition.get('processor')):
        return
    queue, per_core = partition.get('queue', {}), processor['num_cpus_per_core']
    if (threads := queue.get('threads_per_core', 1)) > per_core:
        yield ['queue', 'threads_per_core'], f'expected at most num_cpus_per_core, {per_core}; found {threads}'
    cores = processor['num_cpus'] // per_core
    if (of_system := queue.get('system_cores', 0)) >= cores:
        yield ['queue', 'system_cores'], f'expected fewer than the {cores} cores of a node; found {of_system}'
    yield from _of_reserved(processor, cores)


def _of_max_jobs(partition: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield a number of jobs with which they would measure beside each other, or the queue would refuse some."""
    runs, needs = partition['scheduler'], partition.get('queue', {}).get('needs', [])
    if runs == 'local' and partition.get('processor') and 'retired' not in entry and partition.get('max_jobs') != 1:
        has = f'found {partition["max_jobs"]}' if 'max_jobs' in partition else 'without it 8 run at a time'
        yield ['max_jobs'], f'expected 1, as benchmarks would run beside each other on this machine; {has}'
    if runs in ('pbs', 'pbspro') and 'queue' in needs and 'max_jobs' not in partition:
        yield ['max_jobs'], 'is missing: as many as the queue takes of a user; without it 8 are submitted at a time'


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


def _of_gpus(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield what a partition lacks for its GPUs."""
    for index, device in enumerate(partition.get('devices', [])):
        if device['type'] == 'gpu' and 'arch' not in device:
            yield ['devices', index], 'lacks arch, so no check of GPUs has a case; expected one such as sm_90 or gfx90a'
    gpus = gpus_in(partition)
    asked = partition.get('queue', {}).get('gives_gpus') or any(map(gpus_asked_for, partition.get('access', [])))
    if partition['scheduler'] == 'slurm' and gpus and not asked:
        yield (
            ['access'],
            'asks for no GPU, and steps of Slurm get none then; expected '
            f'--gpus-per-node={number_of_gpus(partition)}, '
            'or queue: {gives_gpus: true} where jobs need not ask',
        )


def _of_sycl(partition: dict[str, Any], entry: dict[str, Any]) -> Iterator[Fault]:
    if any(device.get('arch', '').startswith(('intel', 'xe')) for device in gpus_in(partition)):
        environs = [environ for environ in entry['environments'] if environ['name'] in partition['environs']]
        parts = (entry, partition, *environs)
        if 'ONEAPI_DEVICE_SELECTOR' not in {str(name) for part in parts for name, _ in part.get('env_vars', [])}:
            why = 'lacks ONEAPI_DEVICE_SELECTOR: a device of SYCL may be the processor then; expected level_zero:gpu'
            yield ['env_vars'], why


def _of_network(partition: dict[str, Any]) -> Iterator[Fault]:
    nics = partition.get('nics', [])
    for index, nic in enumerate(nics if partition.get('transport') != 'sockets' else ()):
        if _INTERFACE.fullmatch(nic):
            device = nic.replace('hsn', 'cxi')
            why = f'is the Ethernet interface of a Slingshot device, which MPI uses by sockets alone; expected {device}'
            yield ['nics', index], why
        elif (driver := _DEVICE.fullmatch(nic)) and nic != (device := f'{driver[1]}_{driver[2]}'):
            yield ['nics', index], f'no device of /sys/class/infiniband has such a name; expected {device}'
        elif _ETHERNET.fullmatch(nic):
            why = 'is a network interface, which MPI uses by sockets alone; expected a device of '
            yield ['nics', index], f'{why}/sys/class/infiniband such as mlx5_0, or transport: sockets'
    if partition.get('expects', {}).get('nics', len(nics)) < len(nics):
        expected = partition['expects']['nics']
        yield ['expects', 'nics'], f'expected at least the {len(nics)} of the key nics; found {expected}'


# The node


def _of_caches(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield each cache that is larger, or shared by more CPUs, than a cache of the next level."""
    for (name, near), (further, far) in pairwise(sorted(partition.get('processor', {}).get('caches', {}).items())):
        if near['num_cpus'] > far['num_cpus']:
            found = f'found {near["num_cpus"]}, and {further} has {far["num_cpus"]}'
            yield ['processor', 'caches', name, 'num_cpus'], f'expected no more CPUs than share {further}; {found}'
        if in_base_unit(near['size']) > in_base_unit(far['size']):
            found = f'found {near["size"]}, and {further} has {far["size"]}'
            yield ['processor', 'caches', name, 'size'], f'expected no more than one cache of {further}; {found}'


def _of_kinds(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield NUMA domains with two kinds of memory."""
    of_kind: dict[int, str] = {}
    for kind, domains in partition.get('memory_kinds', {}).items():
        for index, domain in enumerate(domains):
            if domain in of_kind:
                yield ['memory_kinds', kind, index], f'domain {domain} is of the kind {of_kind[domain]} already'
            of_kind.setdefault(domain, kind)


def _of_domains(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield NUMA domains without a CPU, or with a smaller distance to another domain than to themselves."""
    processor = partition.get('processor', {})
    for row, distances in enumerate(processor.get('numa_distances', [])):
        if row < len(distances) and distances[row] != min(distances):
            yield (
                ['processor', 'numa_distances', row],
                f'expected the least distance in its column {row}, as to itself; found {distances[row]}',
            )
    if (number := processor.get('num_numa_domains', 1)) > (cpus := processor.get('num_cpus', number)):
        yield ['processor', 'num_numa_domains'], f'expected at most the {cpus} CPUs; found {number}'


def _of_smt(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield `smt_active` against the threads of a core, and a number of CPUs that is that of the cores."""
    if not (processor := partition.get('processor')):
        return
    per_core, cpus = processor['num_cpus_per_core'], processor['num_cpus']
    if 'smt_active' in (expects := partition.get('expects', {})) and expects['smt_active'] != (per_core > 1):
        has = f'num_cpus_per_core is {per_core}'
        yield ['expects', 'smt_active'], f'expected {"on" if per_core > 1 else "off"}, as {has}; found the opposite'
    for cores, why in _counted_cores(partition, processor) if per_core > 1 else ():
        if 0.9 < cores / cpus < 1.1:
            expected = f'{per_core * cpus} hardware threads, as {why} and num_cpus_per_core is {per_core}'
            yield ['processor', 'num_cpus'], f'expected {expected}; found {cpus}, the number of cores'


def _counted_cores(partition: dict[str, Any], processor: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield the cores of a node by the name of its processor and by its peaks, and what says so."""
    if named := re.search(r'(\d+)-Core', processor.get('model', '')):
        yield int(named[1]) * processor['num_sockets'], f'model says {named[0]}'
    peaks = partition.get('peaks', {})
    of_cycle = [number for name, number in peaks.get('flop_per_cycle', {}).items() if name.endswith('_dp')]
    if of_cycle and 'flops_dp' in peaks and 'core_clock' in peaks:
        cores = in_base_unit(peaks['flops_dp']) / in_base_unit(peaks['core_clock']) / max(of_cycle)
        yield cores, f'flops_dp is that of {cores:.0f} cores'


def _of_arch(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield a vendor or platform that is not that of the architecture."""
    if 'arch' in (processor := partition.get('processor', {})):
        from archspec.cpu import TARGETS  # takes 40 ms

        of = TARGETS.get(processor['arch'])
        for key, known in (('vendor', of and of.vendor), ('platform', of and str(of.family))):
            if known and known != 'generic' and processor.get(key, known) != known:
                yield ['processor', key], f'expected {known}, as of {processor["arch"]}; found {processor[key]!r}'


def _of_links(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield the faults of `link_classes`: pairs of GPUs without a class, and classes that are not listed best first."""
    classes, gpus = partition.get('link_classes', {}), number_of_gpus(partition)
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
    kinds = {vendor.kind for vendor in vendors_of(device.get('arch', '') for device in gpus_in(partition))}
    for name in partition.get('energy', {}):
        if name in _METERS and _METERS[name].kind not in kinds:
            yield ['energy', name], f'reads GPUs of the kind {_METERS[name].kind}, of which devices has none'


def _of_caps(partition: dict[str, Any]) -> Iterator[Fault]:
    if cap := partition.get('power_cap'):
        for index, power in enumerate(cap['caps']):
            if in_base_unit(power) > in_base_unit(cap['normal']):
                yield ['power_cap', 'caps', index], f'expected at most normal, {cap["normal"]}; found {power}'
        yield from ((['power_cap', *path], wrong) for path, wrong in _repeated(cap, 'caps'))


def _of_paths(partition: dict[str, Any]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for name, item in partition.get('file_systems', {}).items():
        if (other := first.setdefault(item['path'], name)) != name:
            yield ['file_systems', name, 'path'], f'{item["path"]} is that of {other}, too'


# In this order: what an earlier rule finds wrong is hidden from the later ones
_OF_PARTITION = (
    faults_of_magnitudes, _of_arch, _of_smt, _of_threads, _of_caches, _of_kinds, _of_domains,
    _of_links, _of_gpus, _of_access, _of_flux, _of_times, _of_network, _of_meters, _of_caps, _of_paths,
)  # fmt: skip

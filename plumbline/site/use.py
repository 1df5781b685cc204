# SPDX-License-Identifier: BSD-3-Clause
"""Find entries of a ``site.yaml`` that have the right form but would not have their intended effect on the machine.

A site with such entries loads all the same; ``plumbline sites --check`` names them.
"""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from plumbline.machine.node import gpus_in, number_of_gpus
from plumbline.machine.vendors import vendors_of
from plumbline.stacks.manifest import known_benchmarks
from plumbline.units import in_base_unit
from plumbline.yaml_faults import Fault, items, within

_BUFFERS_ON_GPUS = ('osu-cuda', 'osu-rocm', 'heffte-cuda', 'heffte-rocm')
_PATTERNS = ('check', 'params', 'metric', 'dims')


def faults_of_use(entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield path and fault of each such entry in the content of a ``site.yaml``."""
    for place, item in items(entry, 'environments'):
        yield from within(place, _of_intel_mpi(item))
    for place, item in items(entry, 'partitions'):
        for rule in _OF_PARTITION:
            yield from within(place, rule(item))
    for of_site in (_of_unused, _of_features, _of_hostnames, _of_rules):
        yield from of_site(entry)


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


def gpus_asked_for(option: str) -> bool:
    """Return whether one or several options of sbatch, such as ``--gpus-per-node=4``, ask for GPUs."""
    return bool(re.search(r'(^|\s)(--gpus(-per-(node|task|socket))?[= ]|-G ?|--gres[= ](.*,)?gpu\b)', option))


def gpus_of_node(option: str) -> int | None:
    """Return how many GPUs of a node an option of Slurm or PBS asks for, such as ``--gres=gpu:4``; None if for none."""
    number = re.search(r'--gpus-per-node[= ](?:[A-Za-z]\w*:)?(\d+)|--gres[= ](?:\S*,)?gpu:(?:[A-Za-z]\w*:)?(\d+)|'
                       r'\bngpus=(\d+)', option)  # fmt: skip
    return int(next(filter(None, number.groups()))) if number else None


def _of_access(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield options that ask for other GPUs than the node has."""
    for index, option in enumerate(partition.get('access', [])):
        asked = gpus_of_node(option)
        if asked is not None and asked != (gpus := number_of_gpus(partition)):
            has = f'devices says that a node has {gpus}' if gpus else 'devices says of no GPU'
            yield ['access', index], f'asks for {asked} GPUs of a node, and {has}; expected the same number'


def _of_place(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield jobs of PBS that share their nodes: ReFrame asks Slurm and LSF for whole nodes by itself."""
    whole = re.compile(r'(^|\s)-l *(\S*,)?place=(\S*:)?excl(host)?\b')
    if partition['scheduler'] in ('pbs', 'pbspro') and not any(map(whole.search, partition.get('access', []))):
        why = 'asks for no whole nodes: other jobs would run beside the benchmark; expected -l place=scatter:excl'
        yield ['access'], why


def _of_constraint(partition: dict[str, Any]) -> Iterator[Fault]:
    words = ' '.join(partition.get('access', [])).split()
    if 'constraint' in partition.get('queue', {}).get('needs', []) and not any(
        word.startswith(('-C', '--constraint')) for word in words
    ):
        yield ['access'], 'states no constraint, and queue.needs says that each job needs one'


def _of_max_jobs(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield a number of jobs with which they would measure beside each other."""
    if partition['scheduler'] == 'local' and partition.get('processor') and partition.get('max_jobs') != 1:
        has = f'found {partition["max_jobs"]}' if 'max_jobs' in partition else 'without it 8 run at a time'
        yield ['max_jobs'], f'expected 1, as benchmarks would run beside each other on this machine; {has}'


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


def _of_smt(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield a number of CPUs that is that of the cores: half of the machine would be measured."""
    if not (processor := partition.get('processor')):
        return
    per_core, cpus = processor['num_cpus_per_core'], processor['num_cpus']
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


def _of_links(partition: dict[str, Any]) -> Iterator[Fault]:
    """Yield pairs of GPUs without a link class: they would not be measured."""
    classes, gpus = partition.get('link_classes', {}), number_of_gpus(partition)
    known = {frozenset(pair) for item in classes.values() for pair in item['pairs']}
    lacking = [pair for pair in combinations(range(gpus), 2) if classes and frozenset(pair) not in known]
    if lacking:
        some = ', '.join(f'[{a}, {b}]' for a, b in lacking[:5]) + (', ...' if lacking[5:] else '')
        why = f'expected a class for each pair of the {gpus} GPUs; {len(lacking)} are in none: {some}'
        yield ['link_classes'], why


_OF_PARTITION = _of_smt, _of_links, _of_gpus, _of_access, _of_place, _of_constraint, _of_max_jobs

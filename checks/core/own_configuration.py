# SPDX-License-Identifier: BSD-3-Clause
"""Describe the system of a site's own ReFrame configuration in the same objects as a ``site.yaml`` does.

Processor, devices, scheduler, launcher and environs are those of ReFrame's runtime and of the topology files that it
read. A ``site.yaml`` of the system's name with ``detect: reframe`` adds what ReFrame does not know.
"""

from __future__ import annotations

import functools
import os
import re
import string
from collections.abc import Iterable, Iterator
from typing import Any

import reframe.core.runtime as rt
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.schedulers import Job
from reframe.core.systems import System, SystemPartition

from plumbline.errors import SiteError, expected_one_of
from plumbline.machine import detect
from plumbline.machine.vendors import AMD, INTEL, NVIDIA
from plumbline.paths import site_file
from plumbline.programs import output_of
from plumbline.site.file import contradictions, read_site_file
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Site, give, reframe_feature, site_of
from plumbline.stacks.manifest import known_benchmarks

BENCHMARKS = 'plumbline'  # key of a partition's `extras`: environ -> its benchmarks
LOOKED_FOR = 'path'  # provider of an environ whose benchmarks nothing states: their programs are looked for on PATH
# What partitions of other suites have as a feature, or as `gpu_vendor` of `extras`
_VENDORS = {
    'nvidia': NVIDIA, 'nvgpu': NVIDIA, 'cuda': NVIDIA, 'amd': AMD, 'amdgpu': AMD, 'rocm': AMD, 'hip': AMD,
    'intel': INTEL,
}  # fmt: skip
# Keys of `extras` with the memory of a node that jobs may ask for, in MiB: EESSI/test-suite, cscs-reframe-tests
_MEMORY = ('mem_per_node', 'cn_memory')
_COUNTS = ('num_cpus', 'num_cpus_per_core', 'num_sockets')
_UNUSED = ('arch', 'num_cpus_per_socket')  # keys of a processor that the checks do not use
_OF_JOBS = ('scheduler', 'launcher', 'environs')  # keys that only ReFrame's configuration states
_NO_PROCESSOR = (
    "ReFrame knows no num_cpus, num_cpus_per_core and num_sockets of its processor: its configuration's `processor`, "
    'general/remote_detect, or a file that `reframe --detect-host-topology` writes on a node says them'
)


def use() -> None:
    """Make the system that ReFrame has selected the site that the checks see."""
    give(_described()[0])


def fault() -> str:
    """Return why the checks have no case on the system that ReFrame has selected; empty if they have some."""
    return _described()[1]


@functools.cache
def _described() -> tuple[Site, str]:
    """Return ReFrame's system as a site, and why it has no case."""
    system = rt.runtime().system
    entry = {'detect': 'reframe', 'descr': system.descr, 'hostnames': system.hostnames, 'partitions': []}
    try:
        stated = _stated(system.name)
        environs = {environ.name: environ for part in system.partitions for environ in part.environs}
        whole = entry | {
            'partitions': _joined(system.name, 'partitions', map(_partition, system.partitions), stated),
            'environments': _joined(system.name, 'environments', _environs(system, environs.values()), stated),
            'tolerance': stated.get('tolerance', {}),
        }
        left_out = _left_out(whole['partitions'], _contradictions(system.name, whole, stated))
        whole['partitions'] = [partition for partition in whole['partitions'] if partition['name'] not in left_out]
        left_out |= _without_devices(system, whole['partitions'])
        why = f'{system.name}: no case on ' + '; '.join(f'{name}: {reason}' for name, reason in left_out.items())
        if not whole['partitions']:
            raise SiteError(why)
    except SiteError as error:
        return site_of(system.name, entry), str(error)
    if left_out:
        getlogger().info(why)
    return site_of(system.name, whole), ''


def _stated(name: str) -> dict[str, Any]:
    """Return what the ``site.yaml`` of a system adds to ReFrame's configuration; empty if there is no such file."""
    path = site_file(name, 'site.yaml')
    entry = read_site_file(path) if path.exists() else {}
    return entry if entry.get('detect') == 'reframe' else {}


def _joined(system: str, key: str, known: Iterable[dict[str, Any]], stated: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items that ReFrame knows, each with what ``site.yaml`` states of it.

    Raises SiteError if ``site.yaml`` states an item that ReFrame does not know.
    """
    items = {item['name']: item for item in known}
    for item in stated.get(key, []):
        if item['name'] not in items:
            where = f'{site_file(system, "site.yaml")}: {key}'
            raise SiteError(f"{where}: not of ReFrame's configuration: {expected_one_of(item['name'], [*items])}")
        items[item['name']] |= {name: value for name, value in item.items() if name not in _OF_JOBS}
        if 'features' in item:
            items[item['name']]['provider'] = 'system'
    return [*items.values()]


def _contradictions(system: str, whole: dict[str, Any], stated: dict[str, Any]) -> dict[str, str]:
    """Return, by partition, a contradiction in the processor that ReFrame describes.

    Raises SiteError for a contradiction in what ``site.yaml`` states.
    """
    added = {item['name']: item for item in stated.get('partitions', [])}
    by_partition: dict[str, str] = {}
    for (kind, index, *path), wrong in contradictions(whole):
        item, key = whole[kind][index] if kind == 'partitions' else {}, '.'.join(map(str, path))
        if path and path[0] in added.get(item.get('name'), ()):
            raise SiteError(f'{site_file(system, "site.yaml")}: {item["name"]}: {key}: {wrong}')
        if path[:1] == ['processor'] and path[1] not in _UNUSED and 'topology' not in item['processor']:
            by_partition.setdefault(item['name'], f'{key}: {wrong}')
    return by_partition


def _left_out(partitions: list[dict[str, Any]], wrong: dict[str, str]) -> dict[str, str]:
    """Return, by partition, why it can have no case; only partitions without a case are named."""
    queued = any(scheduler(partition['scheduler']).queued for partition in partitions)
    reasons = dict(wrong)
    for partition in partitions:
        if queued and not scheduler(partition['scheduler']).queued:
            reasons[partition['name']] = 'others log in there, as it is beside partitions with a scheduler'
        elif not partition['environs']:
            reasons[partition['name']] = 'it has no environs'
        elif 'processor' not in partition:
            reasons[partition['name']] = _NO_PROCESSOR
    return reasons


def _without_devices(system: System, partitions: list[dict[str, Any]]) -> dict[str, str]:
    """Return what is lacking of partitions whose features name GPUs that nothing describes."""
    features = {part.name: part.features for part in system.partitions}
    return {
        f'the GPUs of {partition["name"]}': 'its `devices` do not say how many'
        for partition in partitions
        if {'gpu', *_VENDORS} & {*features[partition['name']]} and not partition.get('devices')
    }


def _partition(part: SystemPartition) -> dict[str, Any]:
    """Return a partition as ``site.yaml`` would describe it; a partition without a scheduler is this machine."""
    known = {key: part.json()[key] for key in ('name', 'descr', 'resources', *_OF_JOBS)}
    is_here = not scheduler(known['scheduler']).queued
    entry = (dict(detect.this_machine()) if is_here else {}) | known
    processor = dict(part.processor.info)
    if is_here and 'topology' in processor:
        entry['processor'] = detect.restrict_to(processor, os.sched_getaffinity(0))
    elif not is_here and all(processor.get(key) for key in _COUNTS):
        entry['processor'] = processor
    if part.devices:
        entry['devices'] = [_device(device.info, part) for device in part.devices]
        entry.pop('link_classes', None)  # they number the detected GPUs
    entry['num_nodes'] = 1 if is_here else _nodes(part)
    memory = next((part.extras[key] for key in _MEMORY if key in part.extras), None)
    return entry | ({'memory_per_node': f'{memory} MiB'} if memory else {})


def _nodes(part: SystemPartition) -> int:
    """Return the number of nodes of a partition, as its scheduler lists them; 1 if ReFrame cannot ask the scheduler."""
    try:
        job = Job.create(part.scheduler, part.launcher_type(), name='nodes', sched_access=part.access)
        return len(part.scheduler.filternodes(job, part.scheduler.allnodes())) or 1
    except (NotImplementedError, ReframeError, OSError):
        return 1


def _device(info: dict[str, Any], part: SystemPartition) -> dict[str, Any]:
    """Return a device; if its architecture is not stated, `arch` is the beginning of those of its vendor."""
    words = [str(part.extras.get('gpu_vendor', '')).lower(), *part.features]
    vendor = next((_VENDORS[word] for word in words if word in _VENDORS), None)
    return {'num_devices': 1, 'arch': vendor.arch if vendor else ''} | info


def _environs(system: System, environs: Iterable[Environment]) -> Iterator[dict[str, Any]]:
    """Yield environs with their benchmarks: from features or `extras` of a partition, else all to look for."""
    by_feature = {reframe_feature(name): name for name in known_benchmarks()}
    extras: dict[str, set[str]] = {}
    for part in system.partitions:
        for name, features in part.extras.get(BENCHMARKS, {}).items():
            extras.setdefault(name, set()).update(map(reframe_feature, features))
    for environ in environs:
        words = extras.get(environ.name, set())
        if unknown := words - {*by_feature}:
            raise SiteError(
                f'{system.name}: extras.{BENCHMARKS}.{environ.name}: '
                f'{expected_one_of(min(unknown), [*known_benchmarks()])}'
            )
        words |= {*map(reframe_feature, environ.features)} & {*by_feature}
        has = [name for word, name in by_feature.items() if word in words] if words else [*_programs()]
        # the job reports a module that does not load; module systems other than Lmod and Tmod have another command
        modules = [*environ.modules] if re.match('l?mod|tmod', system.modules_system.name) else []
        yield {
            'name': environ.name, 'features': has, 'provider': 'system' if words else LOOKED_FOR, 'modules': modules,
        }  # fmt: skip


@functools.cache
def _programs() -> dict[str, list[str]]:
    """Return the programs of each benchmark that can be found by its programs."""
    return {name: of['executables'] for name, of in known_benchmarks().items() if 'executables' in of}


def lacking(part: SystemPartition, environ: Environment, features: Iterable[str]) -> str:
    """Return why an environ, whose benchmarks nothing states, has none of `features`; empty if it has one."""
    try:
        on_path, where = _found(part.name, environ.name), 'PATH'
    except (ReframeError, ValueError) as error:
        on_path, where = frozenset(), f'PATH, as its modules and commands do not load here: {error}'
    lacks, launcher = {}, part.json()['launcher']
    for feature in features:
        programs = [name for name in _programs().get(feature, ()) if name != 'mpirun' or 'mpirun' in launcher]
        lacks[feature] = [name for name in programs if name not in on_path]
    if not all(lacks.values()) or not lacks:
        return ''
    feature, absent = next(iter(lacks.items()))
    return (
        f'{environ.name} has no {", ".join(absent)} on its {where}; looked for on this host: where only the nodes have '
        f'it, name {reframe_feature(feature)} in the features of {environ.name}'
    )


@functools.cache
def _found(partition: str, environ: str) -> frozenset[str]:
    """Return the programs on PATH after what a job of ReFrame loads. Raises ReframeError or ValueError."""
    part = next(candidate for candidate in rt.runtime().system.partitions if candidate.name == partition)
    names = sorted({name for programs in _programs().values() for name in programs})
    load = [*part.prepare_cmds, *rt.emit_loadenv_commands(part.local_env, part.environment(environ))]
    look = f'for name in {" ".join(names)}; do command -v $name > /dev/null && echo "has $name"; done; true'
    return frozenset(re.findall(r'^has (\S+)$', output_of(['bash', '-c', '\n'.join([*load, look])]), re.MULTILINE))


def resources_of_gpus(part: SystemPartition, number: int) -> dict[str, dict[str, int]]:
    """Return the resources of a partition that take a number of GPUs alone, with that of a node."""
    fields = {
        name: {field for option in options for _, field, *_ in string.Formatter().parse(option) if field}
        for name, options in part.resources.items()
    }
    return {name: {'num_gpus_per_node': number} for name, of in fields.items() if of == {'num_gpus_per_node'}}

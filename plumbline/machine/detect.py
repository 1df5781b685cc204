# SPDX-License-Identifier: BSD-3-Clause
"""Detect this machine: processor, memory, GPUs, peaks, and which benchmarks are on PATH.

The facts are cached in ``$XDG_CACHE_HOME/plumbline`` by host name, boot id and the hardware threads that this process
may use. PATH is searched each time, since a benchmark is installed without a reboot.
"""

import csv
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from plumbline.errors import InputError
from plumbline.files import read_yaml, write_text
from plumbline.machine.gpu_links import divided, find_link_classes, near_numa_domains
from plumbline.machine.node import Node, cores_of, counts_of, first_cpu, kernel_text, processor_of, this_node
from plumbline.machine.vendors import VENDORS, Vendor, vendors_of
from plumbline.programs import output_of
from plumbline.stacks.manifest import Installed, features_of, known_benchmarks, spack_not_reached
from plumbline.units import in_base_unit

_HERE = Path(__file__).resolve().parent
_PROC = Path('/proc')
# The files that the cached facts depend on.
_CODE = ('detect.py', 'gpu_links.py', 'gpu_tables.py', 'node.py', 'vendors.py', 'microarchitectures.yaml')


def complete(name: str, entry: dict[str, Any]) -> dict[str, str]:
    """Fill in what `entry`, the content of a site.yaml, leaves out; return why benchmarks were not found, by name."""
    machine = this_machine()
    faults = {'pairs of GPUs': machine.pop('no_link_classes', None), 'whole GPUs': machine.pop('divided_gpus', None)}
    missing = {what: fault for what, fault in faults.items() if fault}
    for partition in entry['partitions']:
        stated = set(partition)
        for key, value in machine.items():
            if key != 'link_classes' or 'devices' not in stated:  # its pairs are numbers of detected devices
                partition.setdefault(key, value)
        for file_system, described in list(partition.get('file_systems', {}).items()):
            if 'if_free' in described and (reason := lacking_for(described)):
                del partition['file_systems'][file_system]
                missing[f'ior, mdtest on {file_system}'] = reason
    return _complete_environs(name, entry, machine.get('devices', [])) | missing


def _complete_environs(site: str, entry: dict[str, Any], devices: list[dict[str, Any]]) -> dict[str, str]:
    """Set the features of each environment; return why benchmarks were not found, by name.

    Only the first environment that has a benchmark gets it as a feature, so that it is measured once.
    """
    partition = entry['partitions'][0]['name']
    gpus = gpu_kinds(devices)
    provided: set[str] = set()
    missing: dict[str, str] = {}
    mend = 'Spack could not be reached' if spack_not_reached().exists() else 'ci/provision installs it'
    for environ in entry['environments']:
        if 'features' in environ:
            provided |= set(environ['features'])
            continue
        lacking = lacking_on_path() if environ['provider'] == 'system' else {}
        if environ['provider'] == 'spack' and environ['name'] in ('cpu', *gpus):
            installed = Installed(site, partition, environ['name'])
            fault = installed.fault()
            reason = f'stack {installed.stack}: {fault} ({mend})' if fault else None
            lacking = dict.fromkeys(features_of(installed.manifest().specs), reason)
        for name, reason in lacking.items():
            wanted = not known_benchmarks()[name].get('optional')
            if reason and wanted and known_benchmarks()[name].get('gpu', 'cpu') in ('cpu', *gpus):
                missing[name] = reason  # the last one, of a stack, is where it would come from
        environ['features'] = [name for name, reason in lacking.items() if reason is None and name not in provided]
        provided |= set(environ['features'])
    return {name: reason for name, reason in missing.items() if name not in provided}


def lacking_for(file_system: dict[str, Any], proc: Path = _PROC) -> str | None:
    """Return why this machine lacks a file system of site.yaml with ``if_free`` bytes free; None if it has it."""
    path, wanted = file_system['path'], in_base_unit(file_system['if_free'])
    mounts = [line.split()[1:3] for line in kernel_text(proc / 'self/mounts').splitlines()]
    kind = next((kind for mounted_on, kind in reversed(mounts) if mounted_on == path), None)
    if kind != file_system['kind']:
        return f'{path}: expected a mounted file system of kind {file_system["kind"]}'
    stat = os.statvfs(path)
    free = stat.f_bavail * stat.f_frsize
    if free < wanted:
        return f'{path}: expected {wanted / 2**30:.1f} GiB free, found {free / 2**30:.1f}'
    return None


def gpu_kinds(devices: list[dict[str, Any]]) -> set[str]:
    """Return the kinds of GPUs, such as ``cuda``; the stacks of an undescribed machine have these names."""
    return {vendor.kind for vendor in vendors_of(device.get('arch', '') for device in devices)}


def lacking_on_path() -> dict[str, str | None]:
    """Return, for each benchmark with programs, which are not on PATH or why a trial run fails; None if it can run."""
    lacking = {}
    for feature, wants in known_benchmarks().items():
        if programs := wants.get('executables'):
            absent = [name for name in programs if shutil.which(name) is None]
            lacking[feature] = f'{", ".join(absent)} not on PATH' if absent else _fault_of(wants.get('works'))
    return lacking


def _fault_of(command: list[str] | None) -> str | None:
    """Return why a short run of a program fails here; None if it works or has no such test. Cached until a reboot.

    Example: likwid-bench, where a container or virtual machine hides the processor's registers.
    """
    if not command:
        return None
    program = Path(shutil.which(command[0]) or command[0])

    def fault() -> str | None:
        try:
            output_of(command, time_limit=20)
        except ValueError as error:
            return f'{shlex.join(command)} {error}'
        return None

    return _cached(f'works-{command[0]}', f'{program.resolve()} {program.stat().st_mtime_ns} {command}', fault)


def this_machine() -> dict[str, Any]:
    """Return the facts of this machine as keys of a partition of site.yaml, from the cache if it has them."""
    code = hashlib.sha256(b''.join((_HERE / name).read_bytes() for name in _CODE)).hexdigest()
    return _cached('machine', code, detect_machine)


def _cached(kind: str, depends_on: str, detect: Callable[[], Any]) -> Any:
    """Return the result of `detect`, from a cache if boot, hardware threads and `depends_on` are the same as before."""
    boot_id = kernel_text(_PROC / 'sys/kernel/random/boot_id') or 'unknown'
    allowed = ','.join(map(str, sorted(os.sched_getaffinity(0))))
    key = hashlib.sha256(f'{platform.node()} {boot_id} {allowed} {depends_on}'.encode()).hexdigest()[:16]
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    path = cache / 'plumbline' / f'{kind}-{platform.node()}-{key}.json'
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError):
        facts = detect()
    with suppress(InputError):  # without a cache the facts are detected each time
        write_text(path, json.dumps(facts))
    return facts


def detect_machine(allowed: set[int] | None = None, node: Node | None = None) -> dict[str, Any]:
    """Return processor, memory, GPUs, link classes and peaks of a node as keys of a partition of site.yaml.

    `node`: this node by default. The processor has the hardware threads `allowed`, by default those that this process
    may use. Raises SiteError.
    """
    allowed = allowed or os.sched_getaffinity(0)
    node = node or this_node()
    processor = processor_of(node)
    processor['topology']['caches'] = processor['topology']['caches'] or caches_of_libc(processor['topology'], node)
    processor = restrict_to(processor, allowed)
    numbers = numa_distances(allowed, node.root)
    if len(numbers.get('numa_ids', ())) == len(processor['topology']['numa_nodes']):
        processor |= numbers
    machine: dict[str, Any] = {'processor': processor}
    if memory := memory_bytes(node.root):
        machine['memory_per_node'] = f'{memory} B'
    if devices := [device for vendor in VENDORS.values() for device in gpus_of(vendor, node)]:
        machine['devices'] = devices
        near = near_numa_domains(sum(device['num_devices'] for device in devices), node.root)
        if len(devices) == 1 and near and set(near) <= set(processor.get('numa_ids', ())):
            devices[0]['numa_domains'] = near
        links, fault = find_link_classes(devices, node)
        told = {'link_classes': links, 'no_link_classes': fault, 'divided_gpus': divided(devices, node.root)}
        machine |= {key: value for key, value in told.items() if value}
    if peaks := _peaks(processor, node.root):
        machine['peaks'] = peaks
    return machine


def caches_of_libc(topology: dict[str, Any], node: Node) -> list[dict[str, Any]]:
    """Return the caches that the C library knows, for where the kernel shows none, as in many containers.

    The C library does not say which CPUs share a cache: each core counts as having L1 and L2, each socket L3.
    """
    caches = []
    for level, name, owners in ((1, 'LEVEL1_DCACHE_SIZE', 'cores'), (2, 'LEVEL2_CACHE_SIZE', 'cores'),
                                (3, 'LEVEL3_CACHE_SIZE', 'sockets')):  # fmt: skip
        with suppress(ValueError):
            if size := int(node.output_of(['getconf', name])):
                caches.append({'type': f'L{level}', 'size': size, 'cpusets': topology[owners]})
    return caches


def restrict_to(processor: dict[str, Any], allowed: set[int]) -> dict[str, Any]:
    """Return a processor with only the hardware threads `allowed` (cgroup, taskset)."""
    allow = sum(1 << cpu for cpu in allowed)

    def cut(masks: list[str]) -> list[str]:
        return [hex(int(mask, 16) & allow) for mask in masks if int(mask, 16) & allow]

    whole = processor['topology']
    topology = {key: cut(whole[key]) for key in ('numa_nodes', 'sockets', 'cores')}
    topology['caches'] = [cache | {'cpusets': cpus} for cache in whole['caches'] if (cpus := cut(cache['cpusets']))]
    return processor | {'topology': topology} | counts_of(topology)


def numa_distances(allowed: set[int], root: Path) -> dict[str, Any]:
    """Return numbers and distances of the NUMA domains with CPUs of `allowed`, ordered by their first CPU.

    Without distances that the kernel does not show, or by which another domain is nearer than itself; empty without
    domains.
    """
    allow = sum(1 << cpu for cpu in allowed)
    nodes = sorted((root / 'sys/devices/system/node').glob('node[0-9]*'), key=lambda node: int(node.name[4:]))
    distances = {}  # (lowest bit of the CPUs, column) -> a row of distances to all `nodes`
    for column, node in enumerate(nodes):
        cpus = int((kernel_text(node / 'cpumap').replace(',', '') or '0'), 16) & allow
        if cpus:
            distances[cpus & -cpus, column] = [int(word) for word in kernel_text(node / 'distance').split()]
    columns = [column for _, column in sorted(distances)]
    ids = {'numa_ids': [int(nodes[column].name[4:]) for column in columns]} if columns else {}
    if not columns or any(len(row) != len(nodes) for row in distances.values()):
        return ids
    rows = [[row[column] for column in columns] for _, row in sorted(distances.items())]
    return ids | ({'numa_distances': rows} if all(0 < row[i] == min(row) for i, row in enumerate(rows)) else {})


def memory_bytes(root: Path) -> int | None:
    """Return the kernel's MemTotal, or a lower limit of this process's cgroup or one above; None if none is shown."""
    files = (group / f'memory.{name}' for group in _memory_cgroups(root) for name in ('max', 'limit_in_bytes'))
    total = re.findall(r'^MemTotal: *(\d+)', kernel_text(root / 'proc/meminfo'), re.MULTILINE)  # in kB
    limits = [int(text) for file in files if (text := kernel_text(file)).isdigit()]
    return min([*limits, *(int(kb) * 1024 for kb in total)], default=None)


def _memory_cgroups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's cgroups that may limit memory, each up to its mount: cgroups(7)."""
    of_process = [line.split(':', 2) for line in kernel_text(root / 'proc/self/cgroup').splitlines()]
    for fields in map(str.split, kernel_text(root / 'proc/self/mountinfo').splitlines()):
        *_, kind, _, options = fields
        if kind == 'cgroup2' or (kind == 'cgroup' and 'memory' in options.split(',')):
            version = '' if kind == 'cgroup2' else 'memory'
            paths = [path for _, controllers, path in of_process if version in controllers.split(',')]
            mounted_on = root / fields[4].lstrip('/')
            below = PurePosixPath(os.path.relpath(paths[0], fields[3]) if paths else '.')
            group = mounted_on / ('' if '..' in below.parts else below)
            for folder in (group, *group.parents):
                yield folder
                if folder == mounted_on:
                    break


def gpus_of(vendor: Vendor, node: Node) -> list[dict[str, Any]]:
    """Return the GPUs of a vendor by model and architecture, as its program or kernel driver lists them."""
    gpus: list[tuple[str, str]] = []
    if vendor.query:
        with suppress(ValueError):  # no driver, or a driver without a GPU
            rows = csv.reader(node.output_of(vendor.query).splitlines(), skipinitialspace=True)
            gpus = [(model, vendor.arch + capability.replace('.', '')) for model, capability in rows]
    elif vendor.in_kernel:
        files, parse = vendor.in_kernel
        gpus = [gpu for path in sorted((node.root / 'sys').glob(files)) if (gpu := parse(kernel_text(path)))]
    return [
        {'type': 'gpu', 'model': model, 'arch': arch, 'num_devices': gpus.count((model, arch))}
        for model, arch in sorted(set(gpus))
    ]


def _peaks(processor: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the theoretical Flop/cycle of a core, the highest clock, and the node's Flop/s if both are known."""
    peaks: dict[str, Any] = {}
    if flop_per_cycle := flop_per_cycle_of(kernel_text(root / 'proc/cpuinfo')):
        peaks['flop_per_cycle'] = flop_per_cycle
    cpus = root / 'sys/devices/system/cpu'
    boosts = kernel_text(cpus / 'cpufreq/boost') == '1'
    clock_of_cpu = {
        int(path.parts[-3][3:]): int(text)
        for path in cpus.glob('cpu[0-9]*/cpufreq/cpuinfo_max_freq')
        if (text := kernel_text(path)).isdigit()
        # acpi-cpufreq before Linux 5.11 leaves out the boost: then it is the first of these
        and not (boosts and text in kernel_text(path.with_name('scaling_available_frequencies')).split())
    }  # in kHz; cores may differ, and the threads of a core
    clocks = [max(clock_of_cpu.get(cpu, 0) for cpu in core) for core in cores_of(processor)]
    if highest := max(clocks):
        peaks['core_clock'] = f'{highest / 1000:.0f} MHz'
        if flop_per_cycle:
            widest = max(value for key, value in flop_per_cycle.items() if key.endswith('_dp'))
            peaks['flops_dp'] = f'{widest * sum(clock or highest for clock in clocks) / 1e6:.1f} GFlop/s'
    return peaks


def flop_per_cycle_of(cpuinfo: str) -> dict[str, int]:
    """Return V x N x 2 by instruction set and precision for the first processor of a /proc/cpuinfo; empty if unknown.

    V: elements of a vector register, N: fused multiply-add pipelines, as in ``microarchitectures.yaml``.
    """
    first = first_cpu(cpuinfo)
    elements = {'scalar': (1, 1), 'sse': (2, 4), 'avx': (4, 8), 'avx512': (8, 16)}  # (double, single) precision
    for row in read_yaml(_HERE / 'microarchitectures.yaml'):
        same = first.get('vendor_id') == row['vendor'] and first.get('cpu family') == str(row['family'])
        if same and any(low <= int(first['model']) <= high for low, high in row['models']):
            return {
                f'{isa}_{precision}': size * pipelines * 2
                for isa, pipelines in row['fma_pipelines'].items()
                for precision, size in zip(('dp', 'sp'), elements[isa], strict=True)
            }
    return {}

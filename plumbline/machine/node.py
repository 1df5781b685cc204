# SPDX-License-Identifier: BSD-3-Clause
"""A node to describe: this one, or one whose kernel files and program outputs `node.sh` printed."""

import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError
from plumbline.machine.vendors import asked
from plumbline.paths import ROOT
from plumbline.programs import output_of

SCRIPT = Path(__file__).with_name('node.sh')
PARTS = ROOT / 'checks/core/job/parts'
SETTINGS = ('bash', str(PARTS / 'settings.sh'), 'facts')
_COUNTS = ('numa_domains', 'hugepages', 'gpus', 'nics')
_SWITCHES = ('smt_active', 'numa_balancing', 'turbo', 'gpu_ecc', 'gpu_persistence', 'gpu_mig', 'gpu_peer_memory', 'acs')
_OF_THIS_BOOT = ('BOOT_IMAGE=', 'root=', 'initrd=')  # words that differ between equal nodes
_SHARED = ('lustre', 'gpfs', 'beegfs', 'beegfs_nodev', 'nfs', 'nfs4', 'ceph', 'wekafs', 'panfs')
_CPUS = 'sys/devices/system/cpu'
_UNITS = {'K': 2**10, 'M': 2**20, 'G': 2**30}


@dataclass(frozen=True)
class Node:
    """A node to describe: the root of its kernel files, and a function that runs a program of it (raises ValueError).

    `machine`: its ``uname -m``. `name` and `partition`: as Slurm names them in a job; empty elsewhere.
    """

    name: str = ''
    root: Path = Path('/')
    machine: str = platform.machine()
    output_of: Callable[[Sequence[str]], str] = output_of
    partition: str = ''


def this_node() -> Node:
    """Return the node of this process."""
    return Node(os.environ.get('SLURMD_NODENAME', ''), partition=os.environ.get('SLURM_JOB_PARTITION', ''))


def command() -> list[str]:
    """Return the command that prints what `unpack` reads of a node; the node needs bash, but no file of the suite."""
    script = SCRIPT.read_text(encoding='utf-8')
    settings = [path.read_text(encoding='utf-8') for path in (*sorted(PARTS.glob('gpu_*.sh')), Path(SETTINGS[1]))]
    return ['bash', '-c', script, 'node', '\n'.join(settings), *asked()]


def unpack(printed: str, folder: Path) -> Node:
    """Return the node that `node.sh` printed; write its kernel files below `folder`. Raises ValueError."""
    lines_of: dict[str, list[str]] = {}
    for line in printed.splitlines():
        name, _, text = line.partition('\t')
        lines_of.setdefault(name, []).append(text)
    if '$ end' not in lines_of:
        raise ValueError(f'expected the description of a node, found {printed[:80]!r}')
    for name, lines in lines_of.items():
        if name.startswith(('/sys/', '/proc/')) and '..' not in Path(name).parts:
            path = folder / name[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('\n'.join(lines) + '\n', encoding='utf-8')

    def output_there(command: Sequence[str]) -> str:
        name = 'settings' if tuple(command) == SETTINGS else ' '.join(command)
        if f'$ {name}' not in lines_of:
            raise ValueError(
                f'ended with {lines_of[f"! {name}"][0]}' if f'! {name}' in lines_of else 'is not on its PATH'
            )
        return '\n'.join(lines_of[f'$ {name}']) + '\n'

    return Node(lines_of['$ name'][0], folder, lines_of['$ machine'][0], output_there, lines_of['$ partition'][0])


def cpus_of(node: Node) -> set[int]:
    """Return the numbers of all hardware threads of a node."""
    return {int(path.name[3:]) for path in (node.root / _CPUS).glob('cpu[0-9]*')}


def processor_of(node: Node) -> dict[str, Any]:
    """Return the processor of a node with ReFrame's keys, but without cache line sizes. Raises SiteError.

    A kernel without NUMA, or with CPUs in several domains, has one domain. `arch` is empty where archspec knows none.
    """
    cpus = node.root / _CPUS
    cores, sockets = (
        _masks(list(cpus.glob(f'cpu[0-9]*/topology/{name}'))) or _masks(list(cpus.glob(f'cpu[0-9]*/topology/{older}')))
        for name, older in (('core_cpus', 'thread_siblings'), ('package_cpus', 'core_siblings'))
    )
    if not cores or not sockets:
        raise SiteError(
            f'the processor cannot be detected: /{_CPUS}: expected cpu0/topology/core_cpus and package_cpus'
        )
    caches: dict[tuple[str, int], list[Path]] = {}
    for index in cpus.glob('cpu[0-9]*/cache/index[0-9]*'):
        level, kind, size = (kernel_text(index / name) for name in ('level', 'type', 'size'))
        if (level, kind) != ('1', 'Instruction') and (amount := re.match(r'([1-9]\d*)(\w?)', size)):
            caches.setdefault((f'L{level}', int(amount[1]) * _UNITS.get(amount[2], 1)), []).append(index)
    domains = _masks(list((node.root / 'sys/devices/system/node').glob('node[0-9]*/cpumap')))
    whole = sum(int(mask, 16) for mask in cores)
    topology = {
        'numa_nodes': domains if _are_apart(domains) else [hex(whole)],
        'sockets': sockets,
        'cores': cores,
        'caches': [
            {'type': kind, 'size': size, 'num_cpus': int(masks[0], 16).bit_count(), 'cpusets': masks}
            for (kind, size), indices in sorted(caches.items())
            if (masks := _masks([index / 'shared_cpu_map' for index in indices]))
        ],
    }
    first = first_cpu(kernel_text(node.root / 'proc/cpuinfo'))
    arch, vendor = _arch(first, node.machine)
    return {
        'arch': arch,
        'vendor': vendor,
        'model': first.get('model name') or first.get('cpu', 'N/A'),
        'platform': node.machine,
        **counts_of(topology),
        'topology': topology,
    }


def first_cpu(cpuinfo: str) -> dict[str, str]:
    """Return the facts of the first hardware thread in the text of a /proc/cpuinfo."""
    return dict(re.findall(r'^(.+?)\s*: *(.*?)\s*$', cpuinfo.split('\n\n')[0], re.MULTILINE))


def counts_of(topology: dict[str, Any]) -> dict[str, int]:
    """Return ReFrame's counts of the CPUs of a topology; where cores or sockets differ, of the largest."""
    cores, sockets = ([int(mask, 16).bit_count() for mask in topology[key]] for key in ('cores', 'sockets'))
    return {
        'num_cpus': sum(cores),
        'num_cpus_per_core': max(cores),
        'num_cpus_per_socket': max(sockets),
        'num_sockets': len(sockets),
    }


def cores_of(processor: dict[str, Any]) -> list[tuple[int, ...]]:
    """Return the hardware threads of each core of a processor of site.yaml, in the order of their first threads.

    Described by counts, they have Linux's usual numbers: all cores come first, then their second hardware threads; on
    POWER the threads of a core follow each other.
    """
    if 'topology' in processor:
        return sorted(tuple(sorted(bits(mask))) for mask in processor['topology']['cores'])
    per_core = processor['num_cpus_per_core']
    number = processor['num_cpus'] // per_core
    if processor.get('consecutive_threads'):
        return [tuple(range(first, first + per_core)) for first in range(0, number * per_core, per_core)]
    return [tuple(range(core, number * per_core, number)) for core in range(number)]


def bits(mask: str) -> frozenset[int]:
    """Return the CPUs of a hexadecimal mask."""
    number = int(mask, 16)
    return frozenset(bit for bit in range(number.bit_length()) if number >> bit & 1)


def gpus_in(partition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the devices of a partition of site.yaml that are GPUs."""
    return [device for device in partition.get('devices', []) if device['type'] == 'gpu']


def number_of_gpus(partition: dict[str, Any]) -> int:
    """Return the number of GPUs of a node of a partition of site.yaml."""
    return sum(device['num_devices'] for device in gpus_in(partition))


def _arch(cpuinfo: dict[str, str], machine: str) -> tuple[str, str]:
    """Return the microarchitecture as archspec names it, by the rules of its ``host()``, and its vendor.

    Both are empty if archspec does not know the architecture.
    """
    from archspec.cpu import TARGETS  # `ci/provision --help` has no environment yet
    from archspec.cpu.detect import COMPATIBILITY_CHECKS, partial_uarch
    from archspec.cpu.schema import TARGETS_JSON

    implementer = cpuinfo.get('CPU implementer', '')
    power = re.search(r'POWER(\d+)', cpuinfo.get('cpu', ''))
    info = partial_uarch(
        name=cpuinfo.get('uarch', '').rpartition(',')[2].replace('-', ''),  # RISC-V: `sifive,u74-mc` is u74mc
        vendor=cpuinfo.get('vendor_id') or TARGETS_JSON['conversions']['arm_vendors'].get(implementer, implementer),
        features=set((cpuinfo.get('flags') or cpuinfo.get('Features', '')).split()),
        generation=int(power[1]) if power else 0,
        cpu_part=cpuinfo.get('CPU part', ''),
    )
    rules = COMPATIBILITY_CHECKS | dict.fromkeys(  # archspec's rule of POWER asks which machine this is
        ('ppc64', 'ppc64le'), lambda info, target: target.generation <= info.generation
    )
    fits = rules.get(machine, lambda info, target: target.name == machine)
    known = [target for target in TARGETS.values() if str(target.family) == machine and fits(info, target)]
    generic = max((target for target in known if target.vendor == 'generic'), key=_depth, default=None)
    same_part = [target for target in known if info.cpu_part and target.cpu_part == info.cpu_part]
    best = max((target for target in same_part or known if generic and target > generic), key=_depth, default=generic)
    return (best.name, best.vendor) if best else ('', '')


def _depth(target: Any) -> tuple[int, int]:
    return len(target.ancestors), len(target.features)


def _masks(paths: list[Path]) -> list[str]:
    """Return the distinct, non-empty sets of CPUs that files hold, sorted by their lowest CPU."""
    masks = {int(text.replace(',', ''), 16) for path in paths if (text := kernel_text(path))}
    return [hex(mask) for mask in sorted(masks - {0}, key=lambda mask: mask & -mask)]


def _are_apart(masks: list[str]) -> bool:
    """Return True if there are sets of CPUs, and no CPU is in two of them."""
    every = [cpu for mask in masks for cpu in bits(mask)]
    return 0 < len(every) == len(set(every))


def kernel_text(path: Path) -> str:
    """Return the text of a file of the kernel; empty if it cannot be read."""
    try:
        return path.read_text(encoding='utf-8', errors='replace').strip('\0 \n\t')
    except OSError:
        return ''


def settings_of(node: Node) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings that can be read on a node, and why others have no value, such as where CPUs differ."""
    try:
        lines = node.output_of(SETTINGS).splitlines()
    except ValueError:
        return {}, {}
    settings: dict[str, list[str]] = {}
    for line in lines:
        key, state, value = line.split('\t')
        if state != '!':
            settings.setdefault(key, []).append(value)
    expects: dict[str, Any] = {}
    differs: dict[str, str] = {}
    for key, values in settings.items():
        known = list(dict.fromkeys(values))
        if key == 'kernel_command_line':
            expects[key] = [word for word in known if not word.startswith(_OF_THIS_BOOT) and word not in ('ro', 'rw')]
        elif key == 'file_systems':
            shared = [mount.rsplit(' ', 1) for mount in known if mount.rpartition(' ')[2] in _SHARED]
            expects |= {key: dict(shared)} if shared else {}
        elif len(known) > 1:
            differs[key] = f'not the same for all: {", ".join(known)}'
        else:
            expects[key] = _value(key, known[0])
    return expects, differs


def _value(key: str, text: str) -> Any:
    if key in _COUNTS:
        return int(text)
    if key in _SWITCHES:
        return text == '1'
    return text.partition('[')[2].partition(']')[0] if key == 'transparent_hugepages' else text

# SPDX-License-Identifier: BSD-3-Clause
"""Write a site.yaml of this machine or cluster: what is detected, and comments on what is not.

The scheduler lists the partitions and what their nodes have. NUMA domains, caches, GPU links and peaks are detected on
a node: this machine if there is no scheduler; else the node of the Slurm job that this runs in, the node that a file
describes, or a node of a job in each partition.
"""

import datetime
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from plumbline import checkout
from plumbline.errors import InputError, SiteError
from plumbline.machine import detect
from plumbline.machine.node import PARTS, SCRIPT, SETTINGS, Node, cpus_of, settings_of, this_node, unpack
from plumbline.machine.node import command as command_of_node
from plumbline.machine.vendors import asked
from plumbline.paths import site_folders
from plumbline.programs import output_of
from plumbline.site.file import read_site_file
from plumbline.site.schedulers import SINFO, EqualNodes, count, must_state, nodes_of_cluster, of_slurm
from plumbline.site.sites import named
from plumbline.units import in_base_unit

_WAIT = 60  # seconds for the job of a partition to start
_JOB_LIMIT = 300.0  # seconds until it has ended


def destination(name: str | None, output: Path | None, force: bool) -> Path | None:
    """Return the path of the site `name`, or `output`; None for standard output. Raises InputError."""
    if name is not None and output is not None:
        raise InputError('--name and --output: expected only one of them')
    if name is not None and named('--name', name) and (wrong := checkout.fault()):
        raise InputError(f'--name {name}: {wrong}')
    path = output if name is None else site_folders()[0] / name / 'site.yaml'
    if path is not None and path.exists() and not force:
        raise InputError(f'{path}: exists already; --force replaces it')
    return path


def of_file(path: Path, folder: Path) -> Node:
    """Return the node that `node.sh` printed into the file at `path`, unpacked below `folder`. Raises InputError."""
    try:
        return unpack(path.read_text(encoding='utf-8', errors='replace'), folder)
    except ValueError as error:
        raise InputError(f'{path}: {error}') from None


def site_yaml(tell: Callable[[str], None] | None = None, node: Node | None = None) -> str:
    """Return the text of a site.yaml for this machine or cluster. Raises InputError.

    `node`: a node to describe in full instead of the node of this process; if it has no partition of Slurm, it is
    described alone. `tell`: outside a job, run a job in each partition of Slurm and announce it with this function. A
    partition that accepts no account of this user is left out.
    """
    node, alone = node or this_node(), bool(node and not node.partition)
    listed, why_not = ([], '') if alone else nodes_of_cluster()
    slurm, closed = _open_partitions(listed)
    here = _nodes_like(node, slurm) if slurm else None
    seen = {}
    if tell and not here:
        for name, why in closed.items():
            tell(f'partition {name}: left out: {why}')
        seen = {
            nodes: _from_job(nodes, _others(nodes, slurm), tell)
            for nodes in _one_kind_each(slurm, None)
            if nodes.scheduler == 'slurm'
        }
    host = (here and os.environ.get('SLURM_SUBMIT_HOST')) or platform.node()
    lines = [
        f'# Written by `plumbline probe` on {platform.node()}, {datetime.date.today()}.',
        '# Check it: what could not be detected is left out, and a comment says what to add.',
    ]
    if slurm and not all(seen.get(nodes) for nodes in _one_kind_each(slurm, here)):
        lines += [
            '# The partitions are as the scheduler lists them. Their NUMA domains, caches, links between GPUs and',
            '# peaks are in the output of `plumbline probe --node FILE`, once this has looked at one of their nodes:',
            *(f'#   {_look_at(nodes)} > FILE' for nodes in _one_kind_each(slurm, here)),
        ]
    elif why_not:
        lines.append(f'# The scheduler did not answer: {why_not}')
    lines += [
        f'descr: {_flow(host)}  # add what it is',
        f'hostnames: [{_flow("^" + re.escape(host) + "$")}]  # regular expressions of the login nodes',
        'partitions:',
        *(f'  # left out: {name}: {why}' for name, why in closed.items()),
    ]
    for nodes in _one_kind_each(slurm, here):
        lines += seen.get(nodes) or _partition(nodes, _others(nodes, slurm), node if nodes == here else None)
    if not listed:
        lines += _local_partition(node)
    reasons = detect.lacking_on_path()
    features = [name for name, lacking in reasons.items() if lacking is None]
    broken = [f'  # {name}: {why}' for name, why in reasons.items() if why and not why.endswith('not on PATH')]
    lines += [
        'environments:',
        f'  - {{name: system, provider: system, features: {_flow(features)}}}  # found on PATH',
        *broken,
        '  # add {name: cpu, provider: spack, features: [hpcc, osu]} and its spack_envs/<site>/cpu, or modules',
    ]
    text = '\n'.join(lines) + '\n'
    _check(text)
    return text


def _check(text: str) -> None:
    """Raise InputError if the text is not a valid site.yaml."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'site.yaml'
        path.write_text(text, encoding='utf-8')
        try:
            read_site_file(path)
        except SiteError as error:
            wrong = str(error).removeprefix(f'{folder}/')
            raise InputError(f'what was detected here is not a valid site: {wrong}') from None


def _open_partitions(listed: list[EqualNodes]) -> tuple[list[EqualNodes], dict[str, str]]:
    """Return the nodes with the options that a job of this user needs, and why other partitions are left out."""
    partitions, closed, stated = [], {}, {}
    for nodes in listed:
        if nodes.scheduler == 'slurm' and nodes.partition not in stated:
            try:
                stated[nodes.partition] = must_state(nodes.partition)
            except InputError as error:
                closed[nodes.partition] = str(error)
        if nodes.partition not in closed:
            options, others = stated.get(nodes.partition, ((), nodes.to_add))
            partitions.append(replace(nodes, access=(*nodes.access, *options), to_add=others))
    if listed and not partitions:
        raise InputError('; '.join(f'partition {name}: {why}' for name, why in closed.items()))
    return partitions, closed


def _nodes_like(node: Node, slurm: list[EqualNodes]) -> EqualNodes | None:
    """Return the kind of nodes that the `node` of this Slurm job is of; None outside a job. Raises InputError."""
    if not node.partition or not node.name:
        return None
    where = f'node {node.name}, partition {node.partition}'
    try:
        (this,) = of_slurm(output_of([*SINFO, f'--nodes={node.name}', f'--partition={node.partition}']))
    except ValueError as error:
        raise InputError(f'{where}: sinfo {error}') from None
    equal = [nodes for nodes in slurm if replace(nodes, number=1, access=this.access, to_add=this.to_add) == this]
    if not equal:
        raise InputError(f'{where}: expected its kind in the output of {" ".join(SINFO)}')
    return equal[0]


def _one_kind_each(slurm: list[EqualNodes], here: EqualNodes | None) -> list[EqualNodes]:
    """Return one kind of nodes for each partition: the kind of this job, else the most frequent one."""
    kinds: dict[str, EqualNodes] = {}
    for nodes in sorted(slurm, key=lambda nodes: (nodes == here, nodes.number)):
        kinds[nodes.partition] = nodes
    return [nodes for nodes in slurm if kinds[nodes.partition] == nodes]


def _others(nodes: EqualNodes, slurm: list[EqualNodes]) -> list[EqualNodes]:
    return [other for other in slurm if other.partition == nodes.partition and other != nodes]


def _from_job(nodes: EqualNodes, others: list[EqualNodes], tell: Callable[[str], None]) -> list[str]:
    """Return the lines of a partition, completed by a job on one of its nodes; empty if no job ran."""
    command = [*_srun(nodes).split(), f'--immediate={_WAIT}', *command_of_node()]
    tell(f'partition {nodes.partition}: a job looks at one of its nodes')
    try:
        printed = output_of(command, time_limit=_JOB_LIMIT)
        with tempfile.TemporaryDirectory() as folder:
            return _partition(nodes, others, unpack(printed, Path(folder)))
    except (ValueError, InputError, SiteError) as error:
        tell(f'partition {nodes.partition}: described as Slurm does, without caches and NUMA domains: srun: {error}')
        return []


def _srun(nodes: EqualNodes) -> str:
    gpus = sum(number for _, number in nodes.gpus)
    requested = f' --gpus-per-node={gpus}' if gpus else ''
    return f'srun {" ".join(nodes.access)} -N 1 -n 1 --exclusive{requested}'


def _look_at(nodes: EqualNodes) -> str:
    """Return the shell command that prints the description of one of `nodes`, without Python on the node."""
    look = f'bash {SCRIPT} "$(cat {PARTS}/gpu_*.sh {SETTINGS[1]})" {shlex.join(asked())}'
    return f'{_srun(nodes)} {look}' if nodes.scheduler == 'slurm' else look


def _partition(nodes: EqualNodes, others: list[EqualNodes], node: Node | None) -> list[str]:
    name = re.sub('[^a-zA-Z0-9_-]', '_', nodes.partition)
    shape = {'num_cpus_per_core': nodes.threads_per_core, 'num_sockets': nodes.sockets or 1}
    machine: dict[str, Any] = {
        'processor': {'num_cpus': nodes.cpus} | shape,
        'devices': [
            {'type': 'gpu', 'num_devices': number} | ({'model': model} if model else {}) for model, number in nodes.gpus
        ],
    }
    if node:
        machine |= _detected(node, cpus_of(node))  # the whole node, also where the job has only a part of it
        stated, sees = sum(n for _, n in nodes.gpus), sum(device['num_devices'] for device in machine['devices'])
        if sees < stated:
            raise InputError(
                f'this job sees {sees} of the {count(stated, "GPU")} of its node; expected all, as with: {_srun(nodes)}'
            )
    if nodes.memory > 1:  # 1: Slurm's default, not configured
        machine['memory_per_node'] = f'{nodes.memory} MiB'
    return [
        f'  - name: {name if re.match("[a-zA-Z_]", name) else "p" + name}'
        + (f'  # detected on node {node.name}' if node else ''),
        f'    scheduler: {nodes.scheduler}',
        f'    launcher: {nodes.launcher}',
        f'    access: {_flow(list(nodes.access))}'
        + (f'  # to add, or in place: {nodes.to_add}' if nodes.to_add else ''),
        '    environs: [system]',
        f'    num_nodes: {nodes.number}',
        *([f'    max_time: {nodes.max_time}'] if nodes.max_time else []),
        *_geometry(nodes, machine['processor'] if node else None),
        *(f'    # it also has {other}: add a partition for them, with -C FEATURE in its access' for other in others),
        *_node(machine, node),
    ]


def _geometry(nodes: EqualNodes, kernels: dict[str, Any] | None) -> list[str]:
    """Return a comment where the sockets and threads that the scheduler states are unknown, or not the kernel's."""
    if not kernels:
        wrong = '    # its scheduler counts CPUs only: correct num_cpus_per_core and num_sockets'
        return [] if nodes.sockets else [wrong]
    stated = {
        'num_sockets': nodes.sockets, 'num_cpus': nodes.cpus, 'num_cpus_per_core': nodes.threads_per_core,
    }  # fmt: skip
    if all(kernels.get(key, number) == number for key, number in stated.items()):
        return []
    return [f'    # sockets, cores and threads are those of the kernel; Slurm states {nodes}']


def _detected(node: Node, allowed: set[int] | None) -> dict[str, Any]:
    machine = detect.detect_machine(allowed, node)
    if memory := machine.get('memory_per_node'):
        machine['memory_per_node'] = f'{int(in_base_unit(memory)) // 2**20} MiB'
    return machine


def _local_partition(node: Node) -> list[str]:
    return [
        '  - name: node',
        '    scheduler: local',
        '    launcher: mpirun',
        '    environs: [system]',
        '    max_jobs: 1  # benchmarks of one node must not run at the same time',
        '    env_vars:',
        '      - [OMPI_MCA_hwloc_base_binding_policy, none]  # the suite binds each rank itself',
        '      - [OMPI_ALLOW_RUN_AS_ROOT, 1]  # these two harm no other user; without them root starts no rank',
        '      - [OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, 1]',
        *_node(_detected(node, None if node.root == Path('/') else cpus_of(node)), node),
    ]


def _node(machine: dict[str, Any], node: Node | None) -> list[str]:
    """Return the lines of processor, memory, GPUs, links and peaks. `node`: where they were detected, if anywhere."""
    lines = ['    processor:']
    processor = _in_counts(machine['processor'])
    lines += [f'      {key}: {_flow(value)}' for key, value in processor.items() if value not in ('', 'N/A', {})]
    if not node:
        lines.append('      # add arch (as archspec names it), num_numa_domains, caches')
    elif not processor.get('arch'):
        lines.append(f'      # arch is left out: archspec knows none of {node.machine}')
    if node and 'numa_distances' not in processor:
        lines.append('      # numa_distances are left out: the kernel shows none that fit its domains')
    if node and not machine['processor']['topology']['caches']:
        lines.append('      # add caches: neither the kernel nor the C library tells them')
    memory = machine.get('memory_per_node')
    lines.append(f'    memory_per_node: {memory}' if memory else '    # add memory_per_node')
    if devices := machine.get('devices'):
        lines += ['    devices:', *(f'      - {_flow(device)}' for device in devices)]
        if any('arch' not in device for device in devices):
            lines.append('      # add arch to each, such as sm_80 or gfx90a')
        lines += [f'      # {machine["divided_gpus"]}'] if 'divided_gpus' in machine else []
        lines += _links(machine, sum(device['num_devices'] for device in devices))
    if peaks := machine.get('peaks'):
        lines += ['    peaks:', *(f'      {key}: {_flow(value)}' for key, value in peaks.items())]
    lines += _expects(machine, node) if node else ['    # add expects: how each node must be set']
    lines.append('    # add to peaks: memory_bandwidth of a node, such as 409.6 GB/s (channels x MT/s x 8 B)')
    if devices:
        lines.append('    # add to peaks: device_memory_bandwidth of one device')
    return lines


def _expects(machine: dict[str, Any], node: Node) -> list[str]:
    expects, differs = settings_of(node)
    processor = machine['processor']
    seen_of = {
        'smt_active': processor['num_cpus_per_core'] > 1,
        'numa_domains': len(processor.get('topology', {}).get('numa_nodes', ())),
        'gpus': sum(device['num_devices'] for device in machine.get('devices', ())),
    }
    for key, seen in seen_of.items():
        if expects.get(key, seen) != seen:  # this process may use a part of the node
            differs[key] = f'the node has {expects.pop(key)}, this process sees {seen}'
    return (
        [
            '    expects:  # how this node is set; ranges such as ">=6.1 <6.2" are versions, too',
            *(f'      {key}: {_flow(value)}' for key, value in expects.items()),
            *(f'      # {key}: {why}' for key, why in differs.items()),
        ]
        if expects
        else []
    )


def _links(machine: dict[str, Any], gpus: int) -> list[str]:
    if classes := machine.get('link_classes'):
        return [
            '    link_classes:  # best first; add peak, one way, such as 100 GB/s',
            *(f'      {name}: {_flow(item)}' for name, item in classes.items()),
        ]
    if gpus < 2:
        return []
    reason = f' ({machine["no_link_classes"]})' if 'no_link_classes' in machine else ''
    return [f'    # add link_classes, such as {{A: {{pairs: [[0, 1]], descr: NVLink}}}}{reason}']


def _in_counts(processor: dict[str, Any]) -> dict[str, Any]:
    """Return the processor as counts, without CPU masks, if thread 0 of every core is numbered first."""
    if 'topology' not in processor:
        return processor
    topology, threads = processor['topology'], processor['num_cpus_per_core']
    cores = len(topology['cores'])

    def usual(masks: list[str]) -> bool:
        size = max(1, cores // len(masks))
        groups = {
            sum(1 << core + cores * thread for core in range(first, first + size) for thread in range(threads))
            for first in range(0, cores, size)
        }
        return groups == {int(mask, 16) for mask in masks}

    caches = {cache['type']: cache for cache in topology['caches']}
    shared = [topology['cores'], topology['sockets'], topology['numa_nodes'], *(c['cpusets'] for c in caches.values())]
    if len(caches) != len(topology['caches']) or not all(map(usual, shared)):
        return processor
    counts = {key: value for key, value in processor.items() if key not in ('topology', 'numa_ids', 'numa_distances')}
    counts['num_numa_domains'] = len(topology['numa_nodes'])
    counts |= {key: processor[key] for key in ('numa_ids', 'numa_distances') if key in processor}
    counts['caches'] = {
        name: {'size': f'{cache["size"] // 1024} KiB', 'num_cpus': processor['num_cpus'] // len(cache['cpusets'])}
        for name, cache in sorted(caches.items())
    }
    return counts


def _flow(value: Any) -> str:
    """Return `value` as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix('...\n').strip()

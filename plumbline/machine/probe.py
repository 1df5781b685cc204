"""A site.yaml of the machine or cluster at hand: what can be found out, and comments on what cannot.

Slurm says which partitions there are and what their nodes have. NUMA domains, caches, links between GPUs and peaks are
those of a node: of this machine where there is no Slurm, else of the node of the Slurm job that this runs in.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from plumbline import checkout
from plumbline.errors import InputError, SiteError
from plumbline.machine import detect
from plumbline.machine.gpu_links import answer
from plumbline.paths import SITES
from plumbline.sites import load_site
from plumbline.units import in_base_unit
from postprocess.text import count

_SINFO = ['sinfo', '--noheader', '--exact', '--format=%R|%D|%X|%Y|%Z|%m|%G']


@dataclass(frozen=True)
class Nodes:
    """Like nodes of a Slurm partition; memory in MiB."""

    partition: str
    number: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory: int
    gpus: tuple[tuple[str, int], ...]  # (model as Slurm names it, how many of a node)

    def __str__(self) -> str:
        gpus = ''.join(f', {n} x {model or "GPU"}' for model, n in self.gpus)
        cores = count(self.sockets * self.cores_per_socket, 'core')
        return f'{count(self.number, "node")} of {count(self.sockets, "socket")}, {cores}, {self.memory} MiB{gpus}'


def destination(name: str | None, output: Path | None, force: bool) -> Path | None:
    """Where the file goes: to the site `name`, to `output`, or nowhere. Raises InputError."""
    if name is not None and output is not None:
        raise InputError('--name and --output: expected one of them')
    if name is not None and not re.fullmatch('[a-zA-Z_][a-zA-Z0-9_-]*', name):
        raise InputError(f'--name {name}: expected a letter, then letters, digits, "_" and "-"')
    if name is not None and (wrong := checkout.fault()):
        raise InputError(f'--name {name}: {wrong}')
    path = output if name is None else SITES / name / 'site.yaml'
    if path is not None and path.exists() and not force:
        raise InputError(f'{path}: is there already; --force replaces it')
    return path


def site_yaml() -> str:
    """The text of a site.yaml for this machine or cluster. Raises InputError."""
    slurm, why_not = _slurm()
    here = _this_node(slurm) if slurm else None
    host = (here and os.environ.get('SLURM_SUBMIT_HOST')) or platform.node()
    lines = [
        f'# Written by `plumbline probe` on {platform.node()}, {datetime.date.today()}.',
        '# Check it: what could not be found out is left out, and a comment says what to add.',
    ]
    if slurm:
        lines += [
            '# Partitions are what Slurm says of them: no processor of a login node is described. NUMA domains,',
            '# caches, links between GPUs and peaks of one are in what this command prints on a node of it:',
            *(f'#   {_srun(nodes)}' for nodes in _one_kind_each(slurm, here)),
        ]
    elif why_not:
        lines.append(f'# Slurm is not described: {why_not}')
    lines += [
        f'descr: {_flow(host)}  # add what it is',
        f'hostnames: [{_flow("^" + re.escape(host) + "$")}]  # regular expressions of the login nodes',
        'partitions:',
    ]
    for nodes in _one_kind_each(slurm, here):
        others = [other for other in slurm if other.partition == nodes.partition and other != nodes]
        lines += _slurm_partition(nodes, others, of_this_node=nodes == here)
    if not slurm:
        lines += _local_partition()
    features = [name for name, lacking in detect.lacking_on_path().items() if lacking is None]
    lines += [
        'environments:',
        f'  - {{name: system, provider: system, features: {_flow(features)}}}  # what is on PATH here',
        '  # add {name: cpu, provider: spack, features: [hpcc, osu]} and its spack_envs/<site>/cpu, or modules',
    ]
    text = '\n'.join(lines) + '\n'
    _check(text)
    return text


def _check(text: str) -> None:
    """Raises InputError where what was found out makes no valid site."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'site' / 'site.yaml'
        path.parent.mkdir()
        path.write_text(text, encoding='utf-8')
        try:
            load_site('site', Path(folder))
        except SiteError as error:
            raise InputError(f'what was found out here makes no valid site: {error}') from None


def _slurm() -> tuple[list[Nodes], str | None]:
    """The nodes of all partitions; none, and why, where ``sinfo`` has no answer."""
    if shutil.which('sinfo') is None:
        return [], None
    try:
        said = answer(_SINFO)
    except ValueError as error:
        return [], f'sinfo {error}'
    found = [nodes for nodes in map(_nodes, said.splitlines()) if nodes.number]
    return found, None if found else 'sinfo lists no node'


def _nodes(line: str) -> Nodes:
    """Reads ``gpu|16|2|64|2|515000|gpu:a100:4(S:0-1),nvme:1``."""
    try:
        name, *numbers, resources = line.strip().split('|')
        number, sockets, cores, threads, memory = map(int, numbers)
    except ValueError:
        raise InputError(f'sinfo: expected a name, five numbers and the GRES between bars, found {line!r}') from None
    gpus = re.findall(r'(?:^|,)gpu:(?:([^:,(]+):)?(\d+)', resources)
    return Nodes(name, number, sockets, cores, threads, memory, tuple((model, int(n)) for model, n in gpus))


def _this_node(slurm: list[Nodes]) -> Nodes | None:
    """The nodes like that of the Slurm job that this runs in; None in no job. Raises InputError."""
    partition, node = os.environ.get('SLURM_JOB_PARTITION'), os.environ.get('SLURMD_NODENAME')
    if not partition or not node:
        return None
    try:
        this = _nodes(answer([*_SINFO, f'--nodes={node}', f'--partition={partition}']))
    except ValueError as error:
        raise InputError(f'node {node}, partition {partition}: sinfo {error}') from None
    like_it = [nodes for nodes in slurm if replace(nodes, number=1) == this]
    if not like_it:
        raise InputError(f'node {node}, partition {partition}: sinfo without a node lists none like it')
    return like_it[0]


def _one_kind_each(slurm: list[Nodes], here: Nodes | None) -> list[Nodes]:
    """For each partition one kind of nodes: that of this job, else the most numerous one."""
    kinds: dict[str, Nodes] = {}
    for nodes in sorted(slurm, key=lambda nodes: (nodes == here, nodes.number)):
        kinds[nodes.partition] = nodes
    return [nodes for nodes in slurm if kinds[nodes.partition] == nodes]


def _srun(nodes: Nodes) -> str:
    gpus = sum(number for _, number in nodes.gpus)
    asked = f' --gpus-per-node={gpus}' if gpus else ''
    return f'srun -p {nodes.partition} -N 1 -n 1 --exclusive{asked} plumbline probe'


def _slurm_partition(nodes: Nodes, others: list[Nodes], of_this_node: bool) -> list[str]:
    name = re.sub('[^a-zA-Z0-9_-]', '_', nodes.partition)
    cores = nodes.sockets * nodes.cores_per_socket
    threads = nodes.threads_per_core
    machine: dict[str, Any] = {
        'processor': {'num_cpus': cores * threads, 'num_cpus_per_core': threads, 'num_sockets': nodes.sockets},
        'devices': [
            {'type': 'gpu', 'num_devices': number} | ({'model': model} if model else {}) for model, number in nodes.gpus
        ],
    }
    if of_this_node:
        # the node as a whole, whichever part of it the job has
        machine |= _detected(set(range(os.sysconf('SC_NPROCESSORS_CONF'))))
        _must_see_all_gpus(nodes, machine['devices'])
    if nodes.memory > 1:  # 1 is what Slurm says where its administrator says nothing
        machine['memory_per_node'] = f'{nodes.memory} MiB'
    return [
        f'  - name: {name if re.match("[a-zA-Z_]", name) else "p" + name}'
        + (f'  # as its node {os.environ["SLURMD_NODENAME"]} is' if of_this_node else ''),
        '    scheduler: slurm',
        '    launcher: srun',
        f'    access: {_flow([f"-p {nodes.partition}"])}  # add -A ACCOUNT and the like where jobs need them',
        '    environs: [system]',
        f'    num_nodes: {nodes.number}',
        *(f'    # {other} are in it too: add a partition for them, with -C FEATURE in its access' for other in others),
        *_node(machine, known=of_this_node),
    ]


def _must_see_all_gpus(nodes: Nodes, devices: list[dict[str, Any]]) -> None:
    has, sees = sum(n for _, n in nodes.gpus), sum(device['num_devices'] for device in devices)
    if sees < has:
        raise InputError(f'this job sees {sees} of the {count(has, "GPU")} of its node; expected all: {_srun(nodes)}')


def _detected(allowed: set[int] | None = None) -> dict[str, Any]:
    machine = detect.detect_machine(allowed)
    return machine | {'memory_per_node': f'{int(in_base_unit(machine["memory_per_node"])) // 2**20} MiB'}


def _local_partition() -> list[str]:
    return [
        '  - name: node',
        '    scheduler: local',
        '    launcher: mpirun',
        '    environs: [system]',
        '    max_jobs: 1  # benchmarks of one node must not run beside each other',
        '    env_vars: [[OMPI_MCA_hwloc_base_binding_policy, none]]  # the suite binds each rank itself',
        *_node(_detected(), known=True),
    ]


def _node(machine: dict[str, Any], known: bool) -> list[str]:
    """Processor, memory, GPUs, links and peaks of a node; `known`: detected on one, not only said by Slurm."""
    lines = ['    processor:']
    lines += [f'      {key}: {_flow(value)}' for key, value in _in_counts(machine['processor']).items()]
    if not known:
        lines.append('      # add arch (as archspec names it), num_numa_domains, caches')
    memory = machine.get('memory_per_node')
    lines.append(f'    memory_per_node: {memory}' if memory else '    # add memory_per_node')
    if devices := machine.get('devices'):
        lines += ['    devices:', *(f'      - {_flow(device)}' for device in devices)]
        if any('arch' not in device for device in devices):
            lines.append('      # add arch to each, such as sm_80 or gfx90a')
        lines += _links(machine, sum(device['num_devices'] for device in devices))
    if peaks := machine.get('peaks'):
        lines += ['    peaks:', *(f'      {key}: {_flow(value)}' for key, value in peaks.items())]
    lines.append('    # add to peaks: memory_bandwidth of a node, such as 409.6 GB/s (channels x MT/s x 8 B)')
    if devices:
        lines.append('    # add to peaks: device_memory_bandwidth of one device')
    return lines


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
    """A processor without its masks, where they follow the usual numbering: cores first, socket by socket, then their
    second hardware threads."""
    if 'topology' not in processor:
        return processor
    topology, threads = processor['topology'], processor['num_cpus_per_core']
    cores = len(topology['cores'])

    def usual(masks: list[str]) -> bool:
        size = cores // len(masks)
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
    """YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix('...\n').strip()

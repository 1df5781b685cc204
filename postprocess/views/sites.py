# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the sites, and of the partitions of one site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError
from plumbline.machine.node import cores_of
from plumbline.paths import site_file
from plumbline.references import FILES, read_references
from plumbline.site.sites import Partition, load_site, must_exist, site_names
from postprocess.site_check import Checked
from postprocess.text import count, number, wrapped
from postprocess.views.table import Column, View

_SITES = (
    Column('site', 'site', width=20),
    Column(
        'descr', 'description', lambda descr, problem: descr or 'cannot be loaded' * bool(problem), beside=('problem',)
    ),
    *(Column(name, name) for name in ('partitions', 'environs')),
    *(Column(name, name, number=True) for name in ('published', 'baseline', 'retired')),
    Column('problem'),
)
_PARTITIONS = (
    *(Column(name, name) for name in ('partition', 'scheduler', 'environs', 'processor', 'memory', 'devices')),
    Column('peaks', 'peaks of a node'),
)


def overview(root: Path | None = None) -> View:
    """Return the sites below `root`, those of retired machines last; `problem`: why a site cannot be loaded."""
    rows: list[dict[str, Any]] = []
    for name in site_names(root):
        row: dict[str, Any] = {
            'site': name, 'descr': '', 'partitions': [], 'environs': [], 'published': None, 'baseline': None,
            'retired': None, 'problem': '',
        }  # fmt: skip
        try:
            site = load_site(name, root)
            row |= {'descr': site.descr, 'partitions': list(site.partitions), 'environs': list(site.environs)}
            row |= {'retired': site.retired, **_limits(name, root)}
        except SiteError as error:
            row['problem'] = str(error)
        rows.append(row)
    return View(
        _SITES,
        sorted(rows, key=lambda row: row['retired'] is not None),
        notes=[row['problem'] for row in rows if row['problem']],
    )


def details(name: str, root: Path | None = None) -> View:
    """Return one site; CSV has one line for each partition.

    Raises InputError for an unknown site, SiteError for wrong files.
    """
    must_exist(name, root)
    site, limits = load_site(name, root), _limits(name, root)
    retired = f', retired {site.retired}' if site.retired else ''
    environs = [
        {'environ': stack.name, 'provider': stack.provider, 'benchmarks': list(stack.features)}
        for stack in site.environs.values()
    ]
    partitions = [_partition(partition) for partition in site.partitions.values()]
    before = [
        wrapped(f'{name}: {site.descr}{retired}', '', '  '),
        f'hostnames: {", ".join(site.hostnames)}',
        f'references: {limits["published"]} published, {limits["baseline"]} of the baseline',
    ]
    after = [
        f'environ {stack.name} ({stack.provider}): {", ".join(stack.features) or "no benchmark"}'
        for stack in site.environs.values()
    ]
    after += [f'not found: {benchmarks}: {reason}' for benchmarks, reason in site.absent().items()]
    after = [wrapped(line, '', '  ').rstrip() for line in after]
    document = {
        'site': name, 'descr': site.descr, 'hostnames': list(site.hostnames), 'retired': site.retired,
        'environs': environs, 'not_found': dict(site.not_found), **limits,
    }  # fmt: skip
    return View(
        _PARTITIONS, partitions, '\n'.join(before), '\n'.join(after), name='partitions', document=document, blocks=True
    )  # fmt: skip


def outcome(checked: Sequence[Checked]) -> str:
    """Return the verdict on checked sites: the number of mistakes, or of the things that were checked.

    For example ``ok: 102 cases, 41 references``.
    """
    if mistakes := sum(len(site.mistakes) for site in checked):
        return count(mistakes, 'mistake')
    parts = [count(len(checked), 'site')] if len(checked) > 1 else []
    for noun, numbers in (
        ('partition', [len(site.nodes) or None for site in checked if site.cases is None]),
        ('case', [site.cases for site in checked]),
        ('reference', [site.references for site in checked if site.nodes]),
        ('job script', [site.scripts for site in checked]),
    ):  # fmt: skip
        known = [number for number in numbers if number is not None]
        parts += [count(sum(known), noun)] if known else []
    return f'ok: {", ".join(parts)}'


def _limits(name: str, root: Path | None) -> dict[str, int]:
    """Return kind of reference file -> number of its rows that are limits."""
    paths = {kind: site_file(name, file, root) for kind, file in FILES.items()}
    return {
        kind: sum(row.is_limit for row in read_references(path, kind)) if path.exists() else 0
        for kind, path in paths.items()
    }


def _partition(partition: Partition) -> dict[str, Any]:
    """Return a partition as plain values by the keys of `_PARTITIONS`."""
    peaks = {key: str(value) for key, value in partition.entry.get('peaks', {}).items() if key != 'flop_per_cycle'}
    double = {key: value for key, value in partition.flop_per_cycle.items() if key.endswith('_dp')}
    if double:
        widest = max(double, key=lambda name: double[name])
        peaks[f'flop_per_cycle.{widest}'] = f'{double[widest]:g}'
    devices = partition.entry.get('devices', [])
    return {
        'partition': partition.name,
        'scheduler': partition.entry.get('scheduler', ''),
        'environs': list(partition.environs),
        'processor': _processor(partition.processor),
        'memory': f'{number(partition.memory_bytes / 2**30)} GiB' if partition.memory_bytes else '',
        'devices': [f'{device["num_devices"]} x {device.get("model", device["type"])}' for device in devices],
        'peaks': peaks,
    }


def _processor(processor: dict[str, Any]) -> str:
    """Return a processor as text: ``AMD EPYC 7763, 2 sockets, 128 cores, 256 threads``; empty if it is unknown."""
    if not processor:
        return ''
    threads, sockets = processor['num_cpus'], processor['num_sockets']
    cores = len(cores_of(processor))
    name = processor.get('model') or processor.get('arch') or 'unnamed processor'
    return f'{name}, {count(sockets, "socket")}, {count(cores, "core")}, {count(threads, "thread")}'

"""Facts about the sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plumbline.errors import InputError, SiteError
from plumbline.paths import SITES, site_file
from plumbline.references import FILES, Reference, read_references
from plumbline.sites import Partition, load_site, site_names
from postprocess.text import count, number


def overview(root: Path = SITES) -> list[dict[str, Any]]:
    """Return a row for each site below `root`, those of retired machines last.

    `problem` says what is wrong with the files of a site.
    """
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
    return sorted(rows, key=lambda row: row['retired'] is not None)


def details(name: str, root: Path = SITES) -> dict[str, Any]:
    """Return the facts about one site. Raises InputError for an unknown site, SiteError for wrong files."""
    must_exist(name, root)
    site = load_site(name, root)
    return {
        'site': name,
        'descr': site.descr,
        'hostnames': list(site.hostnames),
        'retired': site.retired,
        'partitions': [_partition(partition) for partition in site.partitions.values()],
        'environs': [
            {'environ': stack.name, 'provider': stack.provider, 'benchmarks': list(stack.features)}
            for stack in site.environs.values()
        ],
        'not_found': dict(site.not_found),
        **_limits(name, root),
    }


def must_exist(name: str, root: Path) -> None:
    """Raise InputError unless `root` has the site `name`."""
    if name not in site_names(root):
        raise InputError(f'{root}: has no site {name!r}; it has {", ".join(site_names(root)) or "none"}')


def _limits(name: str, root: Path) -> dict[str, int]:
    """Return how many rows of each reference file are limits."""
    return {kind: sum(row.is_limit for row in _rows(name, kind, root)) for kind in FILES}


def _rows(name: str, kind: str, root: Path) -> list[Reference]:
    path = site_file(name, FILES[kind], root)
    return read_references(path, kind) if path.exists() else []


def _partition(partition: Partition) -> dict[str, Any]:
    peaks = {key: str(value) for key, value in partition.entry.get('peaks', {}).items() if key != 'flop_per_cycle'}
    double = {key: value for key, value in partition.flop_per_cycle.items() if key.endswith('_dp')}
    if double:
        widest = max(double, key=lambda name: double[name])
        peaks[f'flop_per_cycle.{widest}'] = f'{double[widest]:g}'
    devices = partition.entry.get('devices', [])
    return {
        'partition': partition.name,
        'scheduler': partition.entry['scheduler'],
        'environs': list(partition.environs),
        'processor': _processor(partition.processor),
        'memory': f'{number(partition.memory_bytes / 2**30)} GiB' if partition.memory_bytes else '',
        'devices': [f'{device["num_devices"]} x {device.get("model", device["type"])}' for device in devices],
        'peaks': peaks,
    }


def _processor(processor: dict[str, Any]) -> str:
    """Return ``AMD EPYC 7763, 2 sockets, 128 cores, 256 threads``; empty where the processor is unknown."""
    if not processor:
        return ''
    threads, sockets = processor['num_cpus'], processor['num_sockets']
    cores = threads // processor['num_cpus_per_core']
    name = processor.get('model') or processor.get('arch') or 'unnamed processor'
    return f'{name}, {count(sockets, "socket")}, {count(cores, "core")}, {count(threads, "thread")}'

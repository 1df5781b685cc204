"""Facts about the sites, and the check of all their files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from plumbline.errors import InputError, SiteError
from plumbline.identity import SeriesId, from_text, natural, to_text
from plumbline.paths import ROOT, SITES
from plumbline.programs import find_reframe, output_of
from plumbline.record import from_dict
from plumbline.references import FILES, Reference, read_references
from plumbline.sites import Partition, Site, load_site, site_names
from plumbline.stacks.manifest import backs, known_benchmarks, manifest_path, read_manifest
from postprocess.results.reports import check_and_params
from postprocess.text import count, number

_ANY = '*'  # metric of a check that names its metrics only when it runs
_DESCRIBE_LIMIT = 300  # seconds; listing takes a few, more on a slow parallel file system


@dataclass(frozen=True)
class Fault:
    """An error in the files of a site, or a note about what could not be checked."""

    message: str
    is_error: bool = True


def overview(root: Path = SITES) -> list[dict[str, Any]]:
    """Return a row for each site below `root`; `problem` says what is wrong with the files of a site."""
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
    return rows


def details(name: str, root: Path = SITES) -> dict[str, Any]:
    """Return the facts about one site. Raises InputError for an unknown site, SiteError for wrong files."""
    _must_exist(name, root)
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


def check(name: str | None, root: Path = SITES) -> list[Fault]:
    """Return what is wrong with the files of all sites, or of one. Raises InputError for an unknown one."""
    if name is not None:
        _must_exist(name, root)
    reframe = find_reframe()
    without = 'reframe is not on PATH: whether references meet a case was not checked'
    with ThreadPoolExecutor() as pool:
        of_sites = pool.map(lambda site: list(_check_site(site, root, reframe)), [name] if name else site_names(root))
        return [*([] if reframe else [Fault(without, is_error=False)]), *chain.from_iterable(of_sites)]


def _check_site(name: str, root: Path, reframe: str | None) -> Iterator[Fault]:
    site, rows = None, []
    try:
        site = load_site(name, root)
    except SiteError as error:
        yield Fault(str(error))
    for kind, file in FILES.items():
        try:
            # a line of the file for each row, after that of the column names
            rows += [(f'{root / name / file}:{line}', row) for line, row in enumerate(_rows(name, kind, root), start=2)]
        except SiteError as error:
            yield Fault(str(error))
    if site is not None:
        yield from map(Fault, _faults_of_stacks(site))
    if site is None or reframe is None or not rows:
        return
    try:
        keys = _metric_keys(site, _describe(reframe, name))
    except InputError as error:
        yield Fault(f'{name}: its cases cannot be listed: {error}')
        return
    for where, row in rows:
        if row.is_limit and not _meets_a_case(row, keys):
            yield Fault(f'{where}: {_why_unmatched(row, site, keys)}')
    unknown = {key.check for key in keys if key.metric == _ANY}
    if unlisted := unknown & {row.id.check for _, row in rows}:
        message = 'known only when they run; their references were not checked'
        yield Fault(f'{name}: the metrics of {_some(unlisted)} are {message}', is_error=False)


def _faults_of_stacks(site: Site) -> Iterator[str]:
    """Yield what is wrong with the Spack environments of a site: manifest, lock, features without a spec."""
    for stack in site.environs.values():
        if stack.provider != 'spack':
            continue
        try:
            manifest = read_manifest(manifest_path(site.name, stack.name))
            specs = manifest.specs
        except SiteError as error:
            yield f'{site.name}: stack {stack.name}: {error}'
            continue
        if wrong := manifest.lock_fault():
            yield wrong
        for feature in stack.features:
            if feature not in known_benchmarks():
                expected = _some(known_benchmarks(), most=len(known_benchmarks()))
                yield f'{site.name}: stack {stack.name}: {feature!r} is no benchmark; expected one of {expected}'
            elif not any(backs(spec, feature) for spec in specs):
                yield f'{site.name}: stack {stack.name} has feature {feature}: no spec of {manifest.path} provides it'


def _describe(reframe: str, site: str) -> list[dict[str, Any]]:
    """Return what ``reframe --describe`` prints about each test of a site. Raises InputError."""
    settings, checks = ROOT / 'reframe_settings' / 'settings.py', ROOT / 'checks'
    command = [reframe, '-C', str(settings), f'--system={site}', '-c', str(checks), '-R', '--describe']
    environment = os.environ | {'PLUMBLINE_SITE': site}  # ReFrame loads no other site
    try:
        return json.loads(output_of(command, time_limit=_DESCRIBE_LIMIT, env=environment))
    except ValueError as error:
        raise InputError(f'`{" ".join(command)}` {error}') from None


def _metric_keys(site: Site, described: list[dict[str, Any]]) -> set[SeriesId]:
    """The key of every metric that the described tests can measure on the partitions of `site`.

    A test that names its metrics only when it runs has the metric ``*``.
    """
    keys = set()
    for test in described:
        record = test.get('record')
        if isinstance(record, dict) and 'check' in record:
            found = from_dict(record)
            check_name, params = found.check, found.params
            metrics = [(metric, one.dims) for metric, _, one in found.series()]
        else:
            check_name, text = check_and_params(test['display_name'])
            params, metrics = from_text(text), [(name, ()) for name in test['perf_variables']]
        named = {system.partition(':')[2] for system in test['valid_systems'] if system.startswith(f'{site.name}:')}
        for partition in site.partitions.values():
            if not named or partition.name in named:
                of = [(partition.name, environ, check_name, params) for environ in partition.environs]
                keys |= {SeriesId(*case, *name) for case in of for name in metrics or [(_ANY, ())]}
    return keys


def _meets_a_case(row: Reference, keys: set[SeriesId]) -> bool:
    if not row.is_pattern:
        return row.id in keys or replace(row.id, metric=_ANY, dims=()) in keys
    # a test that names its metrics only when it runs may have that of the row
    named = (replace(key, metric=row.id.metric, dims=row.id.dims) if key.metric == _ANY else key for key in keys)
    return any(map(row.matches, named))


def _why_unmatched(row: Reference, site: Site, keys: set[SeriesId]) -> str:
    """The first column from the left in which no case of the site has what the row says."""
    partitions, stacks = sorted(site.partitions), sorted(site.environs)
    of = row.id
    if of.partition != '*' and of.partition not in partitions:
        return f'partition {of.partition!r}: the site has {", ".join(partitions)}'
    if of.environ != '*' and of.environ not in stacks:
        return f'environ {of.environ!r}: the site has {", ".join(stacks)}'
    cases: dict[str, dict[str, set[str]]] = {}
    for key in keys:
        cases.setdefault(key.check, {}).setdefault(to_text(key.params), set()).add(key.name)
    if of.check != '*' and of.check not in cases:
        return f'check {of.check!r}: the checks that can run on this site are {_some(cases) or "none"}'
    of_check, params = cases.get(of.check, {}), to_text(of.params)
    if params in of_check and of_check[params].isdisjoint((of.name, _ANY)):
        return f'metric {of.name!r}: {of.check} {params} measures {_some(of_check[params])}'
    if not row.is_pattern and params not in of_check:
        return f'params {params!r}: {of.check} has {_some(of_check)}'
    return f'no series of this site is {of}'


def _some(names, most: int = 8) -> str:
    names = sorted(names, key=natural)
    return '; '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')


def _must_exist(name: str, root: Path) -> None:
    if name not in site_names(root):
        raise InputError(f'{root}: has no site {name!r}; it has {", ".join(site_names(root)) or "none"}')


def _limits(name: str, root: Path) -> dict[str, int]:
    """Return how many rows of each reference file are limits."""
    return {kind: sum(row.is_limit for row in _rows(name, kind, root)) for kind in FILES}


def _rows(name: str, kind: str, root: Path) -> list[Reference]:
    path = root / name / FILES[kind]
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

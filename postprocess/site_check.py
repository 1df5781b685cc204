# SPDX-License-Identifier: BSD-3-Clause
"""Check all files of a site; on demand also that each reference has a case, and the job script of each case."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.machine.node import cores_of
from plumbline.paths import site_file
from plumbline.programs import find_reframe
from plumbline.references import ELSEWHERE, FILES, Reference, read_rows
from plumbline.site.file import faults_of_site_file
from plumbline.site.job_rules import missing_words, refusals_of_sbatch
from plumbline.site.locations import locations
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import (
    UNDESCRIBED,
    Partition,
    Site,
    load_site,
    must_exist,
    site_names,
)
from plumbline.stacks.manifest import known_benchmarks
from postprocess.site_cases import Case, Rows, rehearse, rules_of_no_series, some_of, unknown_features, unmet_rows
from postprocess.site_rules import faults_of_site, future_dates, rows_of_nothing, unstated_mpi
from postprocess.text import count, some


@dataclass
class Checked:
    """The result of checking a site: mistakes, and notes on what could not be checked.

    `nodes`: a line for each partition, to compare with what was meant. `cases`, `scripts`: number checked, None if none
    were. `references`: number of limits.
    """

    site: str
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    cases: int | None = None
    scripts: int | None = None
    references: int = 0


def check(
    name: str | None, root: Path | None = None, files: bool = True, cases: bool = False, jobs: bool = False
) -> list[Checked]:
    """Check all sites, or the site `name`: its `files`, its `cases` in a dry run, and the scripts of its `jobs`.

    Raises InputError for an unknown site, and for `jobs` without ReFrame; SiteError if there is no site.
    """
    if name is not None:
        must_exist(name, root)
    names = [name] if name else site_names(root)
    reframe = find_reframe() if cases or jobs else None
    if jobs and reframe is None:
        raise InputError('reframe is not on PATH: it writes the job scripts that are checked')
    if not (cases or jobs):
        results = [_check_site(site, root, None, True, False, False) for site in names]
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            work = partial(_check_site, root=root, reframe=reframe, files=files, cases=cases, jobs=jobs)
            results = list(pool.map(work, names))
    if files and name is not None and not results[0].mistakes:
        results[0].notes += _lacks(load_site(name, root))
    return results


def _check_site(name: str, root: Path | None, reframe: str | None, files: bool, cases: bool, jobs: bool) -> Checked:
    """Return the result of checking one site."""
    checked, rows = Checked(name), []
    if files:
        rows = _check_files(checked, root)
    if not (cases or jobs) or (files and not checked.nodes):
        return checked
    site = load_site(name, root)
    if reframe is None:
        checked.notes.append('reframe is not on PATH: whether features and references meet a case was not checked')
        return checked
    folder = Path(tempfile.mkdtemp(prefix=f'plumbline-jobs-{name}-'))
    try:
        listed = rehearse(reframe, name, folder) if _has_cases(site) else []
    except InputError as error:
        checked.mistakes.append(f'{name}: its cases cannot be listed: {error}')
        shutil.rmtree(folder)
        return checked
    checked.cases = len(listed)
    if cases:
        _check_cases(checked, site, site_file(name, 'site.yaml', root), rows, listed)
    if not (jobs and _check_scripts(checked, site, [case for case in listed if case.submitted], folder)):
        shutil.rmtree(folder)
    return checked


def _check_files(found: Checked, root: Path | None) -> list[tuple[str, Reference]]:
    """Add the mistakes in the files of a site, and what its nodes are, to `found`.

    Return the rows of its references.
    """
    described = site_file(found.site, 'site.yaml', root)
    rows: list[tuple[str, Reference]] = []
    of_rows: list[str] = []
    for kind, file in FILES.items():
        path = site_file(found.site, file, root)
        if path.exists():
            right, wrong = read_rows(path, kind)
            of_rows += wrong
            rows += [(f'{path}:{line}', row) for line, row in right]
    found.mistakes += faults_of_site_file(described, partial(faults_of_site, found.site, rows)) + of_rows
    if (path := site_file(found.site, ELSEWHERE, root)).exists():
        from postprocess.verdicts.elsewhere import read  # the store, which it imports, takes half a second

        try:
            read(path)
        except SiteError as error:
            found.mistakes.append(str(error))
    found.references = sum(row.is_limit for _, row in rows)
    found.mistakes += future_dates(rows)
    try:
        locations(found.site, root)
        site = load_site(found.site, root)
    except InputError as error:
        found.mistakes.append(str(error))
        return rows
    except SiteError as error:  # a mistake in the file of the site, or hardware that cannot be detected
        found.mistakes += [] if found.mistakes else [str(error)]
        return rows
    found.nodes = [f'{found.site}:{partition.name}: {node_of(partition)}' for partition in site.partitions.values()]
    found.mistakes += rows_of_nothing(site, rows)
    found.notes += unstated_mpi(site, described)
    return rows


def _check_cases(found: Checked, site: Site, path: Path, rows: Rows, cases: Sequence[Case]) -> None:
    """Add the mistakes that the cases of a site show to `found`."""
    by_fault: dict[str, list[str]] = {}
    for case in (case for case in cases if case.fault):
        by_fault.setdefault(f'{case.id.partition}: {case.fault.partition(": | ")[0]}', []).append(case.name)
    found.mistakes += [
        f'{site.name}: {count(len(of), "case")} of partition {fault}: {some_of(of, 3)}'
        for fault, of in by_fault.items()
    ]
    found.mistakes += unknown_features(site, path, cases)
    found.mistakes += rules_of_no_series(site, path, cases)
    found.mistakes += unmet_rows(site, rows, cases)
    unlisted = {case.id.check for case in cases if not case.record.metrics} & {row.id.check for _, row in rows}
    if unlisted:
        message = 'known only when they run; their references were not checked'
        found.notes.append(f'{site.name}: the metrics of {some_of(unlisted)} are {message}')


def _check_scripts(found: Checked, site: Site, cases: Sequence[Case], folder: Path) -> bool:
    """Ask sbatch about the job scripts of cases, on a node of the site; return True if a person should read them."""
    of_slurm: dict[Path, str] = {}
    times: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        times.setdefault((case.id.partition, case.time_limit), []).append(case.name)
        if scheduler(site.partitions[case.id.partition].entry['scheduler']).is_slurm:
            of_slurm[case.script] = case.script.read_text(encoding='utf-8')
    for (of, arithmetic), names in times.items():
        found.notes += [f'{site.name}:{of}: {some(names, 1)}: {arithmetic}'] if arithmetic else []
    found.scripts = len(cases)
    if to_state := sorted({word for one in site.partitions.values() for word in missing_words(one)}):
        what = ', '.join(to_state)
        found.notes.append(
            f'{site.name}: each job needs its {what}: reframe -J, or SBATCH_ACCOUNT, SBATCH_QOS for Slurm'
        )
    if to_state or not (of_slurm and site.matches(platform.node()) and shutil.which('sbatch')):
        if cases:
            found.notes.append(f'{site.name}: no scheduler was asked; its job scripts are in {folder}')
        return bool(cases)
    refused = [f'{path}: sbatch --test-only: {why}' for path, why in refusals_of_sbatch(of_slurm)]
    found.mistakes += refused
    found.notes += [] if refused else [f'{site.name}: sbatch --test-only takes these job scripts']
    return bool(refused)


def node_of(partition: Partition) -> str:
    """Return a node as text: ``2 sockets x 64 cores x 2 threads, 4 GPUs, 4 NICs, 512 GiB, 10 nodes``, as stated."""
    processor, entry = partition.processor, partition.entry
    parts = ['its nodes are not described, so it has no case']
    if processor:
        sockets, threads, cpus = (processor[f'num_{key}'] for key in ('sockets', 'cpus_per_core', 'cpus'))
        cores, of_socket = len(cores_of(processor)), processor.get('num_cpus_per_socket', cpus // sockets)
        parts = [f'{count(sockets, "socket")} x {count(cores // sockets, "core")} x {count(threads, "thread")}']
        if not cores * threads == of_socket * sockets == cpus:  # cores differ, or sockets
            parts = [f'{count(sockets, "socket")}, {count(cores, "core")}, {count(cpus, "thread")}']
    for device in entry.get('devices', []):
        kind = {'gpu': 'GPU'}.get(device['type'], device['type'])
        parts.append(count(device['num_devices'], kind) + (f' {device["arch"]}' if 'arch' in device else ''))
    if nics := entry.get('nics'):
        parts.append(count(len(nics), 'NIC'))
    if memory := partition.memory_bytes:
        parts.append(entry['memory_per_node'] if memory < 2**30 else f'{memory / 2**30:.4g} GiB')
    if 'num_nodes' in entry:
        parts.append(count(partition.num_nodes, 'node'))
    return ', '.join(parts)


def _lacks(site: Site) -> Iterator[str]:
    """Yield what a site does not state, and what that costs: it is no mistake, but a person should know it."""
    for partition in site.partitions.values():
        caches = partition.processor.get('topology', partition.processor).get('caches')
        for key, is_there, costs in (
            ('processor.caches', caches, 'checks whose sizes follow from them fail'),
            ('memory_per_node', partition.memory_bytes, 'sizes may exceed the memory'),
            ('peaks.memory_bandwidth', partition.peaks.get('memory_bandwidth'), 'no bandwidth is too high to be true'),
        ):  # fmt: skip
            if partition.processor and not is_there:
                yield f'{site.name}: partition {partition.name} has no {key}: {costs}'
        if not partition.environs:
            yield f'{site.name}: partition {partition.name} has no environs: it has no case'
        featureless = partition.environs and not any(site.environs[name].features for name in partition.environs)
        if featureless:
            yield f'{site.name}: no environ of partition {partition.name} has features: it has no case of this suite'
        stated, nics = partition.entry.get('expects', {}).get('nics', 0), partition.entry.get('nics', ())
        if nics and stated > len(nics):
            yield (
                f'{site.name}: partition {partition.name} expects {stated} nics and names {len(nics)} in the key nics: '
                'the others are not measured'
            )
    if not (site.hostnames or site.retired or site.name == UNDESCRIBED):
        yield f'{site.name}: hostnames is empty: the site is chosen by --site or PLUMBLINE_SITE alone'
    offered = {feature for environ in site.environs.values() for feature in environ.features}
    wanted = {name for name, row in known_benchmarks().items() if 'gpu' not in row and not row.get('optional')}
    if absent := sorted(wanted - offered):
        yield f'{site.name}: no environ offers {", ".join(absent)}: their checks have no case'


def _has_cases(site: Site) -> bool:
    """Return True if a partition of the site can have cases."""
    return any(
        (partition.processor and partition.environs) or partition.entry.get('detect')
        for partition in site.partitions.values()
    )

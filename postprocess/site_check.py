"""The check of all files of a site: that nothing in them is wrong, and that each reference has a case."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

from plumbline.errors import InputError, SiteError, expected_one_of
from plumbline.identity import Quantity, SeriesId, natural, to_text
from plumbline.job_directives import RULES
from plumbline.job_rules import faults_of_script, missing_words
from plumbline.mpi import FAMILIES
from plumbline.paths import SITES, site_file
from plumbline.programs import find_reframe
from plumbline.references import FILES, Reference, read_rows
from plumbline.site_file import faults_of_site_file, place_of
from plumbline.sites import Site, load_site, site_names
from plumbline.stacks.manifest import backs, known_benchmarks, manifest_path, read_manifest
from postprocess.rehearsal import ANY, Case, rehearse
from postprocess.sites import must_exist
from postprocess.text import count

_Rows = Sequence[tuple[str, Reference]]  # file and line, row


@dataclass
class Checked:
    """What was found in the files of a site: mistakes, and notes on what could not be checked."""

    site: str
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: int = 0
    references: int = 0


def check(name: str | None, root: Path = SITES) -> list[Checked]:
    """Check the files of all sites, or of one. Raises InputError for an unknown one, SiteError for none."""
    if name is not None:
        must_exist(name, root)
    names = [name] if name else site_names(root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(partial(_check_site, root=root, reframe=find_reframe()), names))
    if name is not None and found[0].cases and not found[0].mistakes:
        found[0].notes += _lacks(load_site(name, root))
    return found


def _check_site(name: str, root: Path, reframe: str | None) -> Checked:
    found = Checked(name)
    rows: list[tuple[str, Reference]] = []
    found.mistakes += faults_of_site_file(site_file(name, 'site.yaml', root))
    for kind, file in FILES.items():
        path = site_file(name, file, root)
        if path.exists():
            right, wrong = read_rows(path, kind)
            found.mistakes += wrong
            rows += [(f'{path}:{line}', row) for line, row in right]
    found.references = sum(row.is_limit for _, row in rows)
    found.mistakes += _future_dates(rows)
    try:
        site = load_site(name, root)
    except SiteError as error:  # a mistake in its file, or what cannot be detected
        found.mistakes += [] if found.mistakes else [str(error)]
        return found
    found.mistakes += _faults_of_stacks(site)
    if reframe is None:
        found.notes.append('reframe is not on PATH: whether features and references meet a case was not checked')
        return found
    try:
        with tempfile.TemporaryDirectory(prefix='plumbline-') as folder:
            cases = rehearse(reframe, name, Path(folder)) if _has_cases(site) else []
    except InputError as error:
        found.mistakes.append(f'{name}: its cases cannot be listed: {error}')
        return found
    found.cases = len(cases)
    by_fault: dict[str, list[str]] = {}
    for case in cases:
        by_fault.setdefault(f'{case.partition}: {case.fault.partition(": | ")[0]}' if case.fault else '', []).append(
            case.name
        )
    by_fault.pop('', None)
    found.mistakes += [
        f'{name}: {count(len(of), "case")} of partition {fault}: {_some(of, 3)}' for fault, of in by_fault.items()
    ]
    found.mistakes += _unknown_features(site, site_file(name, 'site.yaml', root), cases)
    found.notes += _unstated_mpi(site, site_file(name, 'site.yaml', root))
    found.mistakes += _unmet_rows(site, rows, cases)
    unlisted = {case.record.check for case in cases if not case.record.metrics} & {row.id.check for _, row in rows}
    if unlisted:
        message = 'known only when they run; their references were not checked'
        found.notes.append(f'{name}: the metrics of {_some(unlisted)} are {message}')
    return found


def check_jobs(name: str, root: Path = SITES) -> Checked:
    """Check the job scripts of all cases of a site, with the trials of the longest mode.

    They stay where a mistake names them. Raises InputError, also where ReFrame is not installed.
    """
    must_exist(name, root)
    site, found, reframe = load_site(name, root), Checked(name), find_reframe()
    if reframe is None:
        raise InputError('reframe is not on PATH: it writes the job scripts that are checked')
    folder = Path(tempfile.mkdtemp(prefix=f'plumbline-jobs-{name}-'))
    cases = [case for case in rehearse(reframe, name, folder) if case.submitted] if _has_cases(site) else []
    by_fault: dict[tuple[str, str, str], list[str]] = {}
    to_state: set[str] = set()
    times: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        times.setdefault((case.partition, case.time_limit), []).append(case.name)
        partition, text = site.partitions[case.partition], case.script.read_text(encoding='utf-8')
        for line, option, why in faults_of_script(text, partition):
            by_fault.setdefault((case.partition, option, why), []).append(f'{case.script}:{line}')
        to_state |= set(missing_words(text, partition))
    for (_, option, why), places in by_fault.items():
        others = f' (and in {count(len(places) - 1, "other script")})' if places[1:] else ''
        found.mistakes.append(f'{places[0]}: {option}: {why}{others}')
    if not found.mistakes:
        shutil.rmtree(folder)
    for (of, arithmetic), names in times.items():
        others = f' and {len(names) - 1} more' if names[1:] else ''
        found.notes += [f'{name}:{of}: {names[0]}{others}: {arithmetic}'] if arithmetic else []
    if to_state:
        what = ', '.join(sorted(to_state))
        found.notes.append(f'{name}: each job needs its {what}: reframe -J, or SBATCH_ACCOUNT, SBATCH_QOS for Slurm')
    if unjudged := {p.entry['scheduler'] for p in site.partitions.values()} - {*RULES}:
        found.notes.append(f'{name}: no rules of scheduler {_some(unjudged)} are known: its scripts were not checked')
    found.cases = len(cases)
    return found


def _lacks(site: Site) -> Iterator[str]:
    """Yield what a site does not say, and what that costs: no mistake, but silence would look like all is there."""
    for partition in site.partitions.values():
        caches = partition.processor.get('topology', partition.processor).get('caches')
        for key, is_there, costs in (
            ('processor.caches', caches, 'checks whose sizes follow from them fail'),
            ('memory_per_node', partition.memory_bytes, 'sizes may exceed the memory'),
            ('peaks.memory_bandwidth', partition.peaks.get('memory_bandwidth'), 'no bandwidth is too high to be true'),
        ):  # fmt: skip
            if partition.processor and not is_there:
                yield f'{site.name}: partition {partition.name} has no {key}: {costs}'
    offered = {feature for environ in site.environs.values() for feature in environ.features}
    wanted = {name for name, row in known_benchmarks().items() if 'gpu' not in row and not row.get('optional')}
    if absent := sorted(wanted - offered):
        yield f'{site.name}: no environ offers {", ".join(absent)}: their checks have no case'


def _has_cases(site: Site) -> bool:
    return any(partition.processor and partition.environs for partition in site.partitions.values()) or any(
        partition.entry.get('detect') for partition in site.partitions.values()
    )


def _future_dates(rows: _Rows) -> Iterator[str]:
    """Yield rows that were recorded after tomorrow; whoever reads references at night does without this check."""
    tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).date().isoformat()
    for where, row in rows:
        if row.recorded_at[:10] > tomorrow:
            yield f'{where}: recorded_at: {row.recorded_at} is in the future'


def _unknown_features(site: Site, path: Path, cases: Sequence[Case]) -> Iterator[str]:
    """Yield each feature of an environ that neither the suite nor a check of this site knows."""
    known = {*known_benchmarks(), *(feature for case in cases for feature in case.requires)}
    for number, stack in enumerate(site.environs.values()):
        for index, feature in enumerate(stack.features):
            if feature not in known:
                where = place_of(path, 'environments', number, 'features', index)
                yield f'{where}: no check requires it; {expected_one_of(feature, sorted(known))}'


def _unstated_mpi(site: Site, path: Path) -> Iterator[str]:
    """Yield environs with buffers on GPUs whose MPI is not known: it may copy them through the host."""
    for number, stack in enumerate(site.environs.values()):
        if {'osu-cuda', 'osu-rocm'} & set(stack.features) and stack.mpi is None:
            families = ', '.join(FAMILIES)
            yield f'{place_of(path, "environments", number)}: state mpi, the family of its MPI: one of {families}'


def _unmet_rows(site: Site, rows: _Rows, cases: Sequence[Case]) -> Iterator[str]:
    """Yield each reference that no case measures, in another unit, or above its physical peak."""
    series = {key: facts for case in cases for key, facts in case.series().items()}
    for where, row in rows:
        if not row.is_limit:
            continue
        met = _met(row, series)
        if not met:
            yield f'{where}: {_why_unmatched(row, site, series)}'
            continue
        quantity = next(quantity for quantity, _ in met)
        if quantity and (why := row.mismatch(quantity)):
            yield f'{where}: {why}'
        peaks = [peak for of, peak in met if peak is not None and of == row.quantity]
        if row.kind != 'elsewhere' and peaks and row.mean > max(peaks):
            unit = row.quantity.unit
            yield f'{where}: mean: {row.mean:g} {unit} is above the physical peak in site.yaml, {max(peaks):g} {unit}'


_Series = dict[SeriesId, tuple[Quantity | None, float | None]]


def _met(row: Reference, series: _Series) -> set[tuple[Quantity | None, float | None]]:
    if not row.is_pattern:
        found = series.get(row.id) or series.get(replace(row.id, metric=ANY, dims=()))
        return {found} if found else set()
    # a test that names its metrics only when it runs may have that of the row
    named = (
        (replace(key, metric=row.id.metric, dims=row.id.dims) if key.metric == ANY else key, facts)
        for key, facts in series.items()
    )
    return {facts for key, facts in named if row.matches(key)}


def _why_unmatched(row: Reference, site: Site, series: Iterable[SeriesId]) -> str:
    """The first column from the left in which no case of the site has what the row says."""
    of = row.id
    if of.partition != '*' and of.partition not in site.partitions:
        return f'partition {of.partition!r}: {expected_one_of(of.partition, sorted(site.partitions))}'
    if of.environ != '*' and of.environ not in site.environs:
        return f'environ {of.environ!r}: {expected_one_of(of.environ, sorted(site.environs))}'
    cases: dict[str, dict[str, set[str]]] = {}
    for key in series:
        cases.setdefault(key.check, {}).setdefault(to_text(key.params), set()).add(key.name)
    if of.check != '*' and of.check not in cases:
        return f'check {of.check!r}: no such case on this site; {expected_one_of(of.check, sorted(cases))}'
    of_check, params = cases.get(of.check, {}), to_text(of.params)
    if params in of_check and of_check[params].isdisjoint((of.name, ANY)):
        return f'metric {of.name!r}: {of.check} {params} measures {_some(of_check[params])}'
    if not row.is_pattern and params not in of_check:
        return f'params {params!r}: {of.check} has {_some(of_check)}'
    return f'no series of this site is {of}'


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
            if feature in known_benchmarks() and not any(backs(spec, feature) for spec in specs):
                yield f'{site.name}: stack {stack.name} has feature {feature}: no spec of {manifest.path} provides it'


def _some(names: Iterable[str], most: int = 8) -> str:
    names = sorted(names, key=natural)
    return '; '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')

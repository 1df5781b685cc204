# SPDX-License-Identifier: BSD-3-Clause
"""Check all files of a site: that nothing in them is wrong, and that each reference has a case."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.errors import InputError, SiteError, expected_one_of
from plumbline.identity import CaseId, Quantity, SeriesId, from_text, natural, to_text
from plumbline.machine.vendors import VENDORS
from plumbline.paths import ROOT, site_file
from plumbline.programs import find_reframe, output_of
from plumbline.record import Record, from_dict
from plumbline.references import FILES, Reference, read_rows
from plumbline.site.file import faults_of_site_file, place_of
from plumbline.site.job_directives import RULES
from plumbline.site.job_rules import faults_of_script, missing_words
from plumbline.site.mpi import FAMILIES
from plumbline.site.sites import Site, load_site, must_exist, site_names
from plumbline.stacks.manifest import backs, known_benchmarks, manifest_path, read_manifest
from postprocess.readers.run_reports import check_and_params
from postprocess.text import count

_ANY = '*'  # metric of a check of others, whose metrics are known only when it runs
_TIME_LIMIT = 900  # seconds; a site takes 5 to 30 on a slow machine
_Rows = Sequence[tuple[str, Reference]]  # file and line, row
_Series = dict[SeriesId, tuple[Quantity | None, float | None]]  # what each is, and its peak


@dataclass
class Checked:
    """What was found in the files of a site: mistakes, and notes on what could not be checked."""

    site: str
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cases: int = 0
    references: int = 0


def check(name: str | None, root: Path | None = None) -> list[Checked]:
    """Check the files of all sites, or of one. Raises InputError for an unknown one, SiteError for none."""
    if name is not None:
        must_exist(name, root)
    names = [name] if name else site_names(root)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(partial(_check_site, root=root, reframe=find_reframe()), names))
    if name is not None and found[0].cases and not found[0].mistakes:
        found[0].notes += _lacks(load_site(name, root))
    return found


def _check_site(name: str, root: Path | None, reframe: str | None) -> Checked:
    found, described = Checked(name), site_file(name, 'site.yaml', root)
    rows: list[tuple[str, Reference]] = []
    found.mistakes += faults_of_site_file(described)
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
    for case in (case for case in cases if case.fault):
        by_fault.setdefault(f'{case.id.partition}: {case.fault.partition(": | ")[0]}', []).append(case.name)
    found.mistakes += [
        f'{name}: {count(len(of), "case")} of partition {fault}: {_some(of, 3)}' for fault, of in by_fault.items()
    ]
    found.mistakes += _unknown_features(site, described, cases)
    found.notes += _unstated_mpi(site, described)
    found.mistakes += _unmet_rows(site, rows, cases)
    unlisted = {case.id.check for case in cases if not case.record.metrics} & {row.id.check for _, row in rows}
    if unlisted:
        message = 'known only when they run; their references were not checked'
        found.notes.append(f'{name}: the metrics of {_some(unlisted)} are {message}')
    return found


def check_jobs(name: str, root: Path | None = None) -> Checked:
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
        times.setdefault((case.id.partition, case.time_limit), []).append(case.name)
        partition, text = site.partitions[case.id.partition], case.script.read_text(encoding='utf-8')
        for line, option, why in faults_of_script(text, partition):
            by_fault.setdefault((case.id.partition, option, why), []).append(f'{case.script}:{line}')
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
    return any((one.processor and one.environs) or one.entry.get('detect') for one in site.partitions.values())


def _future_dates(rows: _Rows) -> Iterator[str]:
    """Yield rows that were recorded after tomorrow. A night does not check this."""
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
        if {f'osu-{kind}' for kind in VENDORS} & set(stack.features) and stack.mpi is None:
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


def _met(row: Reference, series: _Series) -> set[tuple[Quantity | None, float | None]]:
    if not row.is_pattern:
        found = series.get(row.id) or series.get(replace(row.id, metric=_ANY, dims=()))
        return {found} if found else set()
    # a test that names its metrics only when it runs may have that of the row
    named = (
        (replace(key, metric=row.id.metric, dims=row.id.dims) if key.metric == _ANY else key, facts)
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
    if params in of_check and of_check[params].isdisjoint((of.name, _ANY)):
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


# The cases that ReFrame makes of a site, with the job script of each: a dry run of all checks


@dataclass(frozen=True)
class Case:
    """One case of a site. `peaks`: the physical peak of a series by its name, in the unit of its metric."""

    id: CaseId
    name: str
    requires: tuple[str, ...]
    record: Record
    peaks: dict[str, float]
    script: Path
    fault: str = ''
    submitted: bool = True  # to the scheduler; the others run where ReFrame does
    time_limit: str = ''  # its arithmetic, in words

    def series(self) -> _Series:
        """Return what each series is, and its peak; a check of others has one with the metric ``*``."""
        found: _Series = {}
        for metric, facts, one in self.record.series():
            key = self.id.series(metric, one.dims)
            found[key] = facts.quantity, self.peaks.get(key.name)
        return found or {self.id.series(_ANY): (None, None)}


def rehearse(reframe: str, site: str, folder: Path) -> list[Case]:
    """Dry-run all checks on a site of this checkout, below `folder`; return its cases. Raises InputError.

    Cases of all modes are made, with the trials of the longest.
    """
    report = folder / f'{site}.json'
    command = [
        reframe, '-C', str(ROOT / 'reframe_settings' / 'settings.py'), f'--system={site}',
        '-c', str(ROOT / 'checks'), '-R', '--dry-run', '-Smode=acceptance', f'--report-file={report}',
    ]  # fmt: skip
    # ReFrame loads no other site, and writes nothing into the results of this one
    environment = os.environ | {'PLUMBLINE_SITE': site, 'PLUMBLINE_RESULTS': str(folder)}
    environment.pop('RFM_CONFIG_FILES', None)
    said = ''
    try:
        output_of(command, time_limit=_TIME_LIMIT, env=environment)
    except ValueError as error:  # also where single cases fail, of which the report tells more
        said = f'`{" ".join(command)}` {error}'
    try:
        (run,) = json.loads(report.read_text(encoding='utf-8'))['runs']
        return [_case(case) for case in run['testcases'] if not case['fixture']]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(said or f'`{" ".join(command)}` wrote no report: {error}') from None


def _case(case: dict[str, Any]) -> Case:
    if isinstance(case.get('record'), dict):
        record = from_dict(case['record'])
    else:
        check, params = check_and_params(case['display_name'])
        record = Record(check, from_text(params))
    return Case(
        id=CaseId(case['partition'], case['environ'], record.check, record.params), name=case['display_name'],
        requires=tuple(str(case.get('requires') or '').split()), record=record, peaks=case.get('peaks') or {},
        script=Path(case['stagedir']) / 'rfm_job.sh', fault=case['fail_reason'] or '',
        submitted=not case.get('local'), time_limit=(case.get('time_limits') or {}).get(case['partition'], ''),
    )  # fmt: skip

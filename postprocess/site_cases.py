# SPDX-License-Identifier: BSD-3-Clause
"""The cases that ReFrame makes on a site, from a dry run of all checks, and what of a site's files meets none."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plumbline.errors import InputError, expected_one_of
from plumbline.identity import CaseId, Quantity, SeriesId, natural, to_text
from plumbline.paths import ROOT
from plumbline.programs import output_of
from plumbline.record import Record, from_dict
from plumbline.references import Reference
from plumbline.site.file import place_of
from plumbline.site.sites import Site, reframe_feature
from plumbline.stacks.manifest import known_benchmarks
from postprocess.readers.report_form import reason_of
from postprocess.readers.run_reports import check_and_params
from postprocess.text import some

ANY_METRIC = '*'  # metric of other suites' checks, whose metrics are known only when they run
_BELOW_PEAK = 1000.0  # no series without a message size is so many times below its physical peak
_TIME_LIMIT = 900  # seconds; a site takes 5 to 30 on a slow machine
SeriesFacts = dict[SeriesId, tuple[Quantity | None, float | None]]  # series -> (its quantity, its physical peak)
Rows = Sequence[tuple[str, Reference]]  # (file and line, row)


@dataclass(frozen=True)
class Case:
    """One case of a site. `features`: as ReFrame names those that an environ of the case must have.

    `peaks`: name of a series -> its physical peak, in the unit of its metric.
    """

    id: CaseId
    name: str
    features: tuple[str, ...]
    record: Record
    peaks: dict[str, float]
    script: Path
    fault: str = ''
    submitted: bool = True  # to the scheduler; other cases run where ReFrame runs
    time_limit: str = ''  # how the time limit was computed, in words

    def series(self) -> SeriesFacts:
        """Return series -> its quantity and peak; a check of another suite has one series with the metric ``*``."""
        facts_of: SeriesFacts = {}
        for metric, facts, declared in self.record.series():
            key = self.id.series(metric, declared.dims)
            facts_of[key] = facts.quantity, self.peaks.get(key.name)
        return facts_of or {self.id.series(ANY_METRIC): (None, None)}


def rehearse(reframe: str, site: str, folder: Path) -> list[Case]:
    """Dry-run all checks on a site of this checkout, below `folder`; return the cases. Raises InputError.

    The cases of all modes are made, with the trials of the longest mode.
    """
    report = folder / f'{site}.json'
    command = [
        reframe, '-C', str(ROOT / 'reframe_settings' / 'settings.py'), f'--system={site}',
        '-c', str(ROOT / 'checks'), '-R', '--dry-run', '-Smode=acceptance', f'--report-file={report}',
    ]  # fmt: skip
    # so that ReFrame loads no other site, and writes nothing into the results of this site
    environment = os.environ | {'PLUMBLINE_SITE': site, 'PLUMBLINE_RESULTS': str(folder)}
    environment['RFM_RESOLVE_MODULE_CONFLICTS'] = 'no'  # else a host without the site's module system could not do it
    environment.pop('RFM_CONFIG_FILES', None)
    message = ''
    try:
        output_of(command, time_limit=_TIME_LIMIT, env=environment)
    except ValueError as error:  # also raised if single cases fail; the report then has more details
        message = f'`{" ".join(command)}` {error}'
    try:
        (run,) = json.loads(report.read_text(encoding='utf-8'))['runs']
        return [_case(case) for case in run['testcases'] if not case['fixture']]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(message or f'`{" ".join(command)}` wrote no report: {error}') from None


def _case(case: dict[str, Any]) -> Case:
    """Return the case of an entry of the report."""
    if isinstance(case.get('record'), dict):
        record = from_dict(case['record'])
    else:
        check, params = check_and_params(case['display_name'])
        record = Record(check, params)
    started = case['stagedir'] is not None
    return Case(
        id=CaseId(case['partition'], case['environ'], record.check, record.params), name=case['display_name'],
        features=tuple(word[1:] for word in case.get('valid_prog_environs') or () if word[:1] == '+'), record=record,
        peaks=case.get('peaks') or {},
        script=Path(case['stagedir'] or '') / 'rfm_job.sh',
        fault=reason_of(case.get('fail_reason')) or ('' if started else 'a case that it uses failed'),
        submitted=started and not case.get('local'),
        time_limit=(case.get('time_limits') or {}).get(case['partition'], ''),
    )  # fmt: skip


def rules_of_no_series(site: Site, path: Path, cases: Sequence[Case]) -> Iterator[str]:
    """Yield each tolerance rule for a check that has cases here, if the rule matches none of their series."""
    series = [key.to_row() for case in cases if case.record.metrics for key in case.series()]
    for number, rule in enumerate(site.tolerance.get('rules', [])):
        of_check = [row for row in series if fnmatchcase(row['check'], rule.get('check', '*'))]
        for column in ('params', 'metric', 'dims'):
            matching = [row for row in of_check if fnmatchcase(row[column], rule.get(column, '*'))]
            if of_check and not matching and 'check' in rule:
                where = place_of(path, 'tolerance', 'rules', number, column)
                has = some_of({row[column] for row in of_check})
                yield f'{where}: {rule[column]!r} meets no series, so the rule has no effect; {rule["check"]} has {has}'
                break
            of_check = matching


def unknown_features(site: Site, path: Path, cases: Sequence[Case]) -> Iterator[str]:
    """Yield each feature of an environ that no check of this site requires; `is_misspelt` has told the others."""
    known, of_checks = {*known_benchmarks()}, {feature for case in cases for feature in case.features}
    for number, stack in enumerate(site.environs.values()):
        for index, feature in enumerate(stack.features):
            if feature not in known and reframe_feature(feature) not in of_checks and not is_misspelt(feature):
                where = place_of(path, 'environments', number, 'features', index)
                yield f'{where}: no check requires it; {expected_one_of(feature, sorted(known))}'


def is_misspelt(feature: str) -> bool:
    """Return True for a feature that is almost the name of a benchmark; a site's own checks have others."""
    known = [*known_benchmarks()]
    return feature not in known and bool(difflib.get_close_matches(feature.lower(), known, 1, 0.7))


def unmet_rows(site: Site, rows: Rows, cases: Sequence[Case]) -> Iterator[str]:
    """Yield each reference that no case measures, that has another unit, or that is above its physical peak."""
    series = {key: facts for case in cases for key, facts in case.series().items()}
    for where, row in rows:
        if not row.is_limit or not _is_of(site, row):
            continue
        met = _met(row, series)
        if not met:
            yield f'{where}: {_why_unmatched(row, series)}'
            continue
        quantity = next(quantity for quantity, _ in met)
        if quantity and (why := row.mismatch(quantity)):
            yield f'{where}: {why}'
        peaks = [peak for of, peak in met if peak is not None and of == row.quantity]
        if row.kind != 'elsewhere' and peaks and row.mean > max(peaks):
            unit = row.quantity.unit
            yield f'{where}: mean: {row.mean:g} {unit} is above the physical peak in site.yaml, {max(peaks):g} {unit}'
        elif row.kind != 'elsewhere' and peaks and not row.id.dims and row.mean < min(peaks) / _BELOW_PEAK:
            unit, peak = row.quantity.unit, min(peaks)
            why = f'is {peak / row.mean:.0f} times below the physical peak in site.yaml, {peak:g} {unit}'
            yield f'{where}: mean: {row.mean:g} {unit} {why}: a slip of the unit?'


def _is_of(site: Site, row: Reference) -> bool:
    """Return True if the site has the partition and the environ of a reference."""
    return row.id.partition in ('*', *site.partitions) and row.id.environ in ('*', *site.environs)


def _met(row: Reference, series: SeriesFacts) -> set[tuple[Quantity | None, float | None]]:
    """Return the quantity and peak of the series that a reference matches."""
    if not row.is_pattern:
        own_facts = series.get(row.id) or series.get(replace(row.id, metric=ANY_METRIC, dims=()))
        return {own_facts} if own_facts else set()
    # a test whose metrics are known only when it runs may have the metric of the row
    named = (
        (replace(key, metric=row.id.metric, dims=row.id.dims) if key.metric == ANY_METRIC else key, facts)
        for key, facts in series.items()
    )
    return {facts for key, facts in named if row.matches(key)}


def _why_unmatched(row: Reference, series: Iterable[SeriesId]) -> str:
    """Return the first column from the left in which no case of the site has the value of the row, and its choices."""
    id_ = row.id
    cases: dict[str, dict[str, set[str]]] = {}
    for key in series:
        cases.setdefault(key.check, {}).setdefault(to_text(key.params), set()).add(key.name)
    if id_.check != '*' and id_.check not in cases:
        return f'check {id_.check!r}: no such case on this site; {expected_one_of(id_.check, sorted(cases))}'
    of_check, params = cases.get(id_.check, {}), to_text(id_.params)
    if params in of_check and of_check[params].isdisjoint((id_.name, ANY_METRIC)):
        return f'metric {id_.name!r}: {id_.check} {params} measures {some_of(of_check[params])}'
    if not row.is_pattern and params not in of_check:
        return f'params {params!r}: {id_.check} has {some_of(of_check)}'
    return f'no series of this site is {id_}'


def some_of(names: Iterable[str], most: int = 8) -> str:
    """Return the first names in their natural order, and the number of the others."""
    return some(sorted(names, key=natural), most, '; ')

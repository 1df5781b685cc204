# SPDX-License-Identifier: BSD-3-Clause
"""Rules for the files of a site whose other side is in another file: references, checks, stacks, hardware."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plumbline.checkout import checks_of
from plumbline.errors import SiteError, expected_one_of
from plumbline.machine.vendors import VENDORS
from plumbline.paths import ROOT
from plumbline.site.file import place_of
from plumbline.site.mpi import FAMILIES
from plumbline.site.sites import Site
from plumbline.stacks.manifest import backs, known_benchmarks, manifest_path, read_manifest
from plumbline.yaml_faults import Fault, items, within
from postprocess.site_cases import Rows, is_misspelt


def future_dates(rows: Rows) -> Iterator[str]:
    """Yield the rows that were recorded after tomorrow; a night does not check this."""
    tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).date().isoformat()
    for where, row in rows:
        if row.recorded_at[:10] > tomorrow:
            yield f'{where}: recorded_at: {row.recorded_at} is in the future'


def faults_of_site(site: str, rows: Rows, entry: dict[str, Any]) -> Iterator[Fault]:
    """Yield the faults of a ``site.yaml`` whose other side is in another file."""
    yield from within(['tolerance', 'rules'], _rules_of_no_check(entry, rows))
    for place, environ in items(entry, 'environments'):
        yield from within(place, _faults_of_stack(site, environ))
        yield from within(place, _misspelt_features(environ))


def _rules_of_no_check(entry: dict[str, Any], rows: Rows) -> Iterator[Fault]:
    """Yield each tolerance rule for a check that neither the suite nor a reference of the site has."""
    known = {*checks_of(ROOT / 'checks'), *(row.id.check for _, row in rows)}
    for number, rule in enumerate(entry.get('tolerance', {}).get('rules', [])):
        pattern = rule.get('check', '*')
        if known and not any(fnmatchcase(name, pattern) for name in known):
            expected = expected_one_of(pattern, sorted(known))
            yield [number, 'check'], f'no check has this name, so the rule has no effect; {expected}'


def _misspelt_features(environ: dict[str, Any]) -> Iterator[Fault]:
    for index, feature in enumerate(environ.get('features', ())):
        if is_misspelt(feature):
            yield ['features', index], f'no check requires it; {expected_one_of(feature, sorted(known_benchmarks()))}'


def rows_of_nothing(site: Site, rows: Rows) -> Iterator[str]:
    """Yield each reference whose partition or environ the site lacks."""
    for where, row in rows:
        for what, name, known in (
            ('partition', row.id.partition, site.partitions), ('environ', row.id.environ, site.environs),
        ):  # fmt: skip
            if row.is_limit and name not in ('*', *known):
                yield f'{where}: {what} {name!r}: {expected_one_of(name, sorted(known))}'


def unstated_mpi(site: Site, path: Path) -> Iterator[str]:
    """Yield the environs with buffers on GPUs whose MPI is not stated: it may copy the buffers through the host."""
    for number, stack in enumerate(site.environs.values()):
        if {f'osu-{kind}' for kind in VENDORS} & set(stack.features) and stack.mpi is None:
            families = ', '.join(FAMILIES)
            yield f'{place_of(path, "environments", number)}: state mpi, the family of its MPI: one of {families}'


def _faults_of_stack(site: str, environ: dict[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with the Spack environment of an environ: manifest, lock, and features without a spec."""
    if environ.get('provider') != 'spack':
        return
    try:
        manifest = read_manifest(manifest_path(site, environ['name']))
        specs = manifest.specs
    except SiteError as error:
        yield ['provider'], str(error)
        return
    if wrong := manifest.lock_fault():
        yield ['provider'], wrong
    for index, feature in enumerate(environ.get('features', ())):
        if feature in known_benchmarks() and not any(backs(spec, feature) for spec in specs):
            yield ['features', index], f'no spec of {manifest.path} provides {feature}'

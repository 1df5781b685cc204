"""Tables of the sites, and of the partitions of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from postprocess.site_check import Checked
from postprocess.text import count
from postprocess.views.table import Column, View

_SITES = (
    Column('site', 'site'),
    Column('descr', 'description'),
    *(Column(name, name) for name in ('partitions', 'environs')),
    *(Column(name, name, number=True) for name in ('published', 'baseline', 'retired')),
    Column('problem', 'problem'),
)
_PARTITIONS = (
    *(Column(name, name) for name in ('partition', 'scheduler', 'environs', 'processor', 'memory', 'devices')),
    Column('peaks', 'peaks of a node'),
)


def overview(rows: Sequence[dict[str, Any]]) -> View:
    """Return the list of the sites, as :func:`postprocess.sites.overview` makes it."""
    return View(_SITES, rows)


def details(site: dict[str, Any]) -> View:
    """Return one site, as :func:`postprocess.sites.details` describes it; CSV has a line for each partition."""
    retired = f', retired {site["retired"]}' if site['retired'] else ''
    before = [
        f'{site["site"]}: {site["descr"]}{retired}',
        f'hostnames: {", ".join(site["hostnames"])}',
        f'references: {site["published"]} published, {site["baseline"]} of the baseline',
    ]
    after = [
        f'environ {one["environ"]} ({one["provider"]}): {", ".join(one["benchmarks"]) or "no benchmark"}'
        for one in site['environs']
    ]
    after += [f'not found: {benchmark}: {reason}' for benchmark, reason in site['not_found'].items()]
    return View(_PARTITIONS, site['partitions'], '\n'.join(before), '\n'.join(after), name='partitions', document=site)


def outcome(checked: Sequence[Checked], jobs: bool = False) -> str:
    """Return ``ok: 102 cases, 41 references`` or the number of mistakes; of several sites in all.

    `jobs`: the last is about the job scripts, one of each case.
    """
    mistakes = sum(len(one.mistakes) for one in checked)
    if mistakes:
        return count(mistakes, 'mistake')
    if jobs and len(checked) == 1:
        return f'ok: {count(checked[0].cases, "job script")}'
    scripts = f', {count(checked[-1].cases, "job script")}' if jobs else ''
    checked = checked[:-1] if jobs else checked
    sites = f'{count(len(checked), "site")}, ' if len(checked) > 1 else ''
    cases, references = sum(one.cases for one in checked), sum(one.references for one in checked)
    return f'ok: {sites}{count(cases, "case")}, {count(references, "reference")}{scripts}'

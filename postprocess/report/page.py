# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about a session; it opens from a file, prints, and needs no network."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from plumbline.errors import SiteError
from plumbline.files import write_text
from plumbline.identity import Dim, SeriesId, natural, to_text
from plumbline.paths import site_folder
from plumbline.site.sites import load_site
from plumbline.units import UNITS
from postprocess.history.digest import Digest, add_history
from postprocess.incidents.words import commands, corrected, lead, since, with_options
from postprocess.report.cards import cards
from postprocess.report.charts import Grid, Judged, Style, Usual, charts_of, judged_series, told
from postprocess.report.details import alike, packed, unfolded
from postprocess.report.fleet import nodes
from postprocess.report.overview import leading, overview
from postprocess.report.plots import Plot
from postprocess.report.printed import printed
from postprocess.report.tables import broken, of_changes, of_figures, of_incidents, of_nodes, of_verdicts, of_worst
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count, decimals, fixed, number, percent, quantity
from postprocess.verdicts.derived import OF_PEAK, Derived, derived
from postprocess.verdicts.measured import failure
from postprocess.verdicts.verdict import BAD, Comparison
from postprocess.views.incidents import same_nodes

_TEMPLATES = Path(__file__).resolve().parent / 'templates'
_FIRST = 8  # most series on the first screen, and most changes that are drawn
_CARDS = 12  # most incidents on the first screen
_FEW = 4  # most incidents for which the first command is shown without unfolding
_ROWS = 100  # most rows of a table without script; the script adds the others
_FEWEST_SESSIONS = 3  # fewest sessions of a usual range
_UPLOT = Path(__file__).resolve().parent / 'uplot'
_CLASSES = {'ok': 'o', 'improved': 'i', 'no_reference': 'u', 'informational': 'u', 'warning': 'w'}


@jinja2.pass_context
def _link(context: jinja2.runtime.Context, path: Path) -> str:
    """Return the address of a file for a link on the page."""
    return _address(path, context['folder'])


def _address(path: Path, folder: Path) -> str:
    """Return the address of a file, relative to `folder`."""
    return quote(os.path.relpath(path, folder))


def _compiled() -> jinja2.BytecodeCache | None:
    """Return the cache of compiled templates; without it, compiling takes a tenth of the time of a report."""
    folder = _TEMPLATES / '__pycache__'
    if sys.dont_write_bytecode:
        return None
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return jinja2.FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


@functools.cache
def template(name: str) -> jinja2.Template:
    """Return a template of the pages, with the filters and functions that all templates use."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, bytecode_cache=_compiled(),
    )  # fmt: skip
    environment.filters |= {
        'number': number, 'percent': percent, 'text': to_text, 'broken': broken, 'link': _link,
        'fixed': fixed, 'packed': packed, 'day': day_of, 'told': told,
    }  # fmt: skip
    environment.globals |= {
        'quantity': quantity, 'count': count, 'classes': _CLASSES, 'bad': BAD, 'became': since, 'commands': commands,
        'corrected': corrected, 'same_nodes': same_nodes, 'decimals': decimals,
    }  # fmt: skip
    return environment.get_template(name)


def write_page(path: Path, store: Store, digest: Digest, root: Path | None = None, days: int = 90) -> None:
    """Write the page of a session with `days` of history, which it adds to the digest. Raises InputError."""
    add_history(digest, store, root, days)
    write_text(path, to_html(digest.comparison, store, digest, root, path.parent))


def to_html(
    comparison: Comparison, store: Store, digest: Digest, root: Path | None = None, folder: Path | None = None,
    home: str = '',
) -> str:  # fmt: skip
    """Return the page; `folder`: where it will be, links to evidence are relative to it. [default: the results]

    `home`: address of the page of all sessions, given for a published page, which has no evidence and no links to it.
    Raises InputError if the store cannot be read.
    """
    session, folder = comparison.session, folder or store.folder.parent
    series = judged_series(comparison)
    judged = [one for one in series if one.worst.verdict != 'informational']
    cases = {case.case_id: case for case in store.cases(session)}
    checks = checks_of(series, cases, store, digest.sessions, root)
    incidents, causes = of_incidents(digest), {one.incident.cause for one in digest.known}
    ran_on = {(case.partition, node) for case in cases.values() for node in case.nodes}
    sizes = Counter(partition for partition, _ in ran_on)
    fleet = nodes(judged, cases, digest, root)
    places = _places(series)
    changes = alike(digest, {(one.series, one.quantity): one.id for one in judged})
    boxes = overview(judged, places)
    usable = (row for row in comparison.verdicts if row.verdict not in BAD - {'regressed'})
    figures = derived(usable, cases.values())
    names = sorted({node for _, node in ran_on}, key=natural)
    nightly = with_options('ci/nightly', store.folder.parent, session.site)
    outputs = {} if home else printed({one.series: one.id for one in series}, cases, digest, store)
    return template('report.html.j2').render(
        home=home, folder=folder, cards=cards(digest, store, judged, cases, sizes), lead=lead(digest.known, digest.day),
        problems=[*(one.text for one in comparison.problems if one.text not in causes), *digest.faults],
        comparison=comparison, session=session, digest=digest, sessions=digest.sessions,
        counts={verdict: n for verdict, n in comparison.counts.items() if verdict != 'informational'},
        informational=comparison.counts.get('informational', 0), first=_FIRST, most=_CARDS, few=_FEW, static=_ROWS,
        guard=comparison.guard, coverage=comparison.standings,
        hints=[_with_code(hint) for hint in comparison.hints], judged=judged, places=places,
        metrics=of_verdicts(judged, places, digest), fleet=of_nodes(fleet), figures=of_figures(figures),
        worst=of_worst(one for one in judged if one.series not in incidents),
        changes=changes, change_table=of_changes(changes, digest), checks=checks,
        overview=boxes, drawn=leading(boxes, _ROWS),
        details=unfolded(
            series, cases, fleet, store, digest, outputs, lambda path: '' if home else _address(path, folder)
        ),
        provenance=_provenance(cases.values()), not_run=_not_run(comparison, cases.values()),
        absent=_absent(session),
        nodes=names, several_nodes=len(names) > 1, is_first=comparison.nothing_to_compare_with,
        beside=_with_code(_beside(figures)), behind=next((one for one in fleet if one.worst), None),
        nightly=nightly, uplot=uplot(),
    )  # fmt: skip


def uplot() -> dict[str, str]:
    """Return name -> text of the files of the library that draws histories."""
    return {path.name: path.read_text(encoding='utf-8') for path in _UPLOT.iterdir()}


def _places(series: Sequence[Judged]) -> dict[int, int]:
    """Return id -> decimals of the numbers of each series; all series of a metric of a check have the same."""
    groups: dict[tuple[str, str, str], list[Judged]] = {}
    for metric in series:
        groups.setdefault((metric.series.check, metric.series.metric, metric.quantity.unit), []).append(metric)
    return {
        metric.id: places
        for own in groups.values()
        for places in (decimals(value for metric in own for value in (metric.value, metric.worst.expected)),)
        for metric in own
    }


class Check(NamedTuple):
    """The charts of a check on a partition with an environ."""

    name: str
    place: str
    counts: str
    charts: list[Plot | Grid]


def checks_of(
    series: Sequence[Judged], cases: Mapping[int, CaseRow], store: Store, sessions: Sequence[Session],
    root: Path | None = None,
) -> list[Check]:  # fmt: skip
    """Return the checks with charts of the last of `sessions`; earlier sessions give the usual range of curves."""
    groups: dict[tuple[str, str, str], list[Judged]] = {}
    for metric in series:
        groups.setdefault((metric.series.check, metric.series.partition, metric.series.environ), []).append(metric)
    styles = {key: _style(own, cases) for key, own in groups.items()}
    curves = {
        (key[0], metric.series.metric)
        for key, own in groups.items()
        for metric in own
        if styles[key].x_of(metric.series)
    }
    usual = _usual(store, sessions[:-1], curves)
    link_classes = _link_classes(sessions[-1].site, root)
    checks = []
    for key, own in sorted(groups.items()):
        check, partition, environ = key
        classes = {name: descr for (of, name), descr in link_classes.items() if of == partition}
        charts = charts_of(own, styles[key], usual, classes)
        verdicts = Counter(metric.worst.verdict for metric in own)
        counts = ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in verdicts.items())
        if charts:
            checks.append(Check(check, f'{partition}/{environ}', counts, charts))
    return checks


def _style(series: Iterable[Judged], cases: Mapping[int, CaseRow]) -> Style:
    """Return what the records of some series declare about their dims and how to draw them."""
    dims: dict[str, Dim] = {}
    draw: dict[str, dict[str, Any]] = {}
    own = [cases[row.case_id] for metric in series for row in metric.rows if row.case_id is not None]
    for texts in dict.fromkeys((case.dims, case.draw) for case in own):  # most cases declare the same
        of_dims, of_draw = (json.loads(text or '{}') for text in texts)
        dims |= {name: Dim(**dim) for name, dim in of_dims.items()}
        draw |= of_draw
    return Style(dims, draw)


def _usual(store: Store, before: Sequence[Session], curves: Iterable[tuple[str, str]]) -> Usual:
    """Return series -> 5th and 95th percentile over earlier sessions; `curves`: (check, metric) of these series."""
    wanted = sorted(curves)
    if len(before) < _FEWEST_SESSIONS or not wanted:
        return {}
    rows = store.select(
        f"""
        SELECT "partition", environ, "check", params, metric, metrics.dims AS dims,
            quantile_cont(mean, 0.05) AS low, quantile_cont(mean, 0.95) AS high
        FROM metrics JOIN cases USING (night, case_id) JOIN wanted USING ("check", metric)
        WHERE status = 'measured'
        GROUP BY ALL HAVING count(DISTINCT night) >= {_FEWEST_SESSIONS}
        """,
        before,
        wanted={'check': [check for check, _ in wanted], 'metric': [metric for _, metric in wanted]},
    )
    return {SeriesId.from_row(row): (row['low'], row['high']) for row in rows}


def _link_classes(site: str, root: Path | None) -> dict[tuple[str, str], str]:
    """Return (partition, link class) -> its description."""
    descriptions = {}
    with suppress(SiteError):  # the site may have no site.yaml
        for partition in load_site(site, site_folder(site, root).parent).partitions.values():
            for name, link in partition.link_classes.items():
                peak = f', peak {link.peak / UNITS["GB/s"]:.4g} GB/s' if link.peak else ''
                descriptions[partition.name, name] = f'{link.descr}{peak}'
    return descriptions


def _provenance(cases: Iterable[CaseRow]) -> dict[str, dict[str, list[str]]]:
    """Return check -> fact -> its values in the cases of the check, the most frequent first.

    What all checks have in common comes once, before them.
    """
    facts: dict[str, dict[str, Counter[str]]] = {}
    for case in cases:
        place = f'{case.check} on {case.partition} with {case.environ}'
        for key, value in json.loads(case.provenance).items():
            facts.setdefault(place, {}).setdefault(key, Counter())[str(value)] += 1
    told = {
        place: {key: [value for value, _ in values.most_common()] for key, values in sorted(of_check.items())}
        for place, of_check in sorted(facts.items())
    }
    if len(told) < 2:
        return told
    first = next(iter(told.values()))
    common = {key: values for key, values in first.items() if all(of.get(key) == values for of in told.values())}
    own = {place: {key: of[key] for key in of if key not in common} for place, of in told.items()}
    return {name: of for name, of in ({'Every check': common} | own).items() if of}


def _not_run(comparison: Comparison, cases: Iterable[CaseRow]) -> list[tuple[str, str]]:
    """Return (what was not run or not measured, why)."""
    causes: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case.result in ('skip', 'fail_deps', 'abort'):
            causes[f'{case.check} {case.params} on {case.partition}', failure(case) or ''] = []
    for row in comparison.verdicts:
        if row.case_id is None:
            key = f'{row.id.check} {to_text(row.id.params)} on {row.id.partition}', row.cause
            causes.setdefault(key, []).append(row.id.name)

    def named(what: str, metrics: list[str]) -> str:
        """Return a case with its metrics, or with their number."""
        return f'{what} {", ".join(metrics) if len(metrics) < 4 else count(len(metrics), "metric")}'.strip()

    return [(named(what, metrics) if metrics else what, why) for (what, why), metrics in causes.items()]


def _absent(session: Session) -> list[tuple[str, str]]:
    """Return (benchmark, why it cannot run) for each that the site has no program for, if this host knows it."""
    if session.hostname == platform.node():  # only on its own host is it known what a detected site lacks
        with suppress(SiteError):  # without a site.yaml it is not known what the site lacks
            return [*load_site(session.site).not_found.items()]
    return []


def _beside(figures: Iterable[Derived]) -> str:
    """Return a hint on where the peaks of the hardware are shown, or how to state them."""
    if any(figure.what == OF_PEAK for figure in figures):
        return 'The table below has them beside its peaks.'
    return 'Where site.yaml states the `peaks` of a partition, its numbers stand beside them from then on.'


def day_of(epoch: int) -> str:
    """Return the day (UTC) of a time in seconds since 1970."""
    return f'{datetime.fromtimestamp(epoch, timezone.utc):%Y-%m-%d}'


def _with_code(text: str) -> Markup:
    """Return text as HTML in which parts in backquotes are shown as code."""
    return Markup(re.sub('`(.+?)`', r'<code>\1</code>', str(escape(text))))  # noqa: S704 # nosec B704  escaped

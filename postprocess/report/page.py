# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about a session; it opens from a file, prints, and needs no network."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from plumbline.files import write_text
from plumbline.identity import natural, to_text
from postprocess.history.digest import Digest, add_history
from postprocess.incidents.words import commands, lead, since, with_options
from postprocess.report.by_check import Check, OverviewRow, checks_of, overview
from postprocess.report.cards import Card, cards
from postprocess.report.charts import told
from postprocess.report.details import packed, unfolded
from postprocess.report.printed import printed
from postprocess.results.store import Session, Store
from postprocess.text import count, decimals, fixed, number, percent, quantity
from postprocess.verdicts.derived import OF_PEAK, derived
from postprocess.verdicts.verdict import BAD, Comparison
from postprocess.views.history import TREND, alike
from postprocess.views.incidents import same_nodes
from postprocess.views.nodes import NODES, node_rows
from postprocess.views.series import SeriesRow, series_rows
from postprocess.views.session import DERIVED, METRICS, WORST, absent, not_run, provenance, series_table, worst
from postprocess.views.table import Column, TableRow, View

_TEMPLATES = Path(__file__).resolve().parent / 'templates'
_FIRST = 8  # most series on the first screen, and most changes that are drawn
_CARDS = 12  # most incidents on the first screen
_FEW = 4  # most incidents for which the first command is shown without unfolding
_ROWS = 100  # most rows of a table without script; the script adds the others
_UPLOT = Path(__file__).resolve().parent / 'uplot'
_CLASSES = {'ok': 'o', 'improved': 'i', 'no_reference': 'u', 'informational': 'u', 'warning': 'w'}


def _compiled() -> jinja2.BytecodeCache | None:
    """Return the cache of compiled templates; without it, compiling takes a tenth of the time of a report."""
    folder = _TEMPLATES / '__pycache__'
    if sys.dont_write_bytecode:
        return None
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return jinja2.FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


@functools.cache
def template(name: str, own: Path = _TEMPLATES) -> jinja2.Template:
    """Return a template of the folder `own`, with the parts, filters and functions that all templates use."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([own, _TEMPLATES]), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, bytecode_cache=_compiled(),
    )  # fmt: skip
    environment.filters |= {
        'number': number, 'percent': percent, 'text': to_text, 'broken': _broken,
        'fixed': fixed, 'packed': packed, 'day': day_of, 'told': told, 'with_code': _with_code,
    }  # fmt: skip
    environment.globals |= {
        'quantity': quantity, 'count': count, 'classes': _CLASSES, 'bad': BAD, 'became': since, 'commands': commands,
        'rows': _rows, 'same_nodes': same_nodes, 'decimals': decimals, 'absent': absent,
        'lead': lead, 'uplot': uplot, 'OF_PEAK': OF_PEAK, 'FIRST': _FIRST, 'CARDS': _CARDS, 'FEW': _FEW, 'ROWS': _ROWS,
    }  # fmt: skip
    return environment.get_template(name)


def write_page(path: Path, store: Store, digest: Digest, root: Path | None = None, days: int = 90) -> None:
    """Write the page of a session with `days` of history, which it adds to the digest. Raises InputError."""
    add_history(digest, store, root, days)
    write_text(path, to_html(page_of(digest, store, root, path.parent)))


@dataclass(frozen=True)
class Page:
    """All that the page of a session shows; `link`: makes the address of a file of evidence.

    `home`: address of the page of all sessions, only of a published page, which has no evidence. `series`: the judged
    ones. `behind`: the node that is furthest behind the others. `details`: what the script shows on demand.
    """

    digest: Digest
    link: Callable[[Path], str]
    home: str
    series: list[SeriesRow]
    nodes: list[str]
    cards: list[Card]
    tables: dict[str, View]
    overview: tuple[list[OverviewRow], list[OverviewRow]]
    checks: list[Check]
    behind: TableRow | None
    provenance: dict[str, dict[str, list[str]]]
    not_run: list[tuple[str, str]]
    nightly: str
    details: dict[str, Any]

    @property
    def comparison(self) -> Comparison:
        """The verdicts of the session."""
        return self.digest.comparison

    @property
    def session(self) -> Session:
        """The session that is shown."""
        return self.digest.comparison.session

    @property
    def is_first(self) -> bool:
        """True if no series has a reference of this machine."""
        return self.comparison.nothing_to_compare_with

    @property
    def counts(self) -> dict[str, int]:
        """Verdict -> number of judged series."""
        return {verdict: n for verdict, n in self.comparison.counts.items() if verdict != 'informational'}

    @property
    def problems(self) -> list[str]:
        """What went wrong outside the series, and is no incident."""
        causes = {known.incident.cause for known in self.digest.known}
        return [*(one.text for one in self.comparison.problems if one.text not in causes), *self.digest.faults]


def page_of(digest: Digest, store: Store, root: Path | None = None, folder: Path | None = None, home: str = '') -> Page:
    """Return the page of the session of a digest with history. Raises InputError if the store cannot be read.

    `folder`: where it will be. [default: the results]
    """
    comparison, results = digest.comparison, store.folder.parent
    session = comparison.session
    every = series_rows(comparison)
    series = [one for one in every if one.worst.verdict != 'informational']
    cases = {case.case_id: case for case in store.cases(session)}
    ran_on = {(case.partition, node) for case in cases.values() for node in case.nodes}
    nodes = node_rows(every, cases, digest, store, root)
    usable = (row for row in comparison.verdicts if row.verdict not in BAD - {'regressed'})
    tables = (
        _table('verdicts', METRICS, series_table(series, digest)),
        _table('fleet', NODES, nodes),
        _table('figures', DERIVED, [vars(one) for one in derived(usable, cases.values())]),
        _table('worst', WORST, worst(series, digest)),
        _table('changes', TREND, alike(digest, {(one.series, one.quantity): one.id for one in series})),
    )

    def link(path: Path) -> str:
        """Return the address of a file relative to the page; empty on a published page."""
        return '' if home else quote(os.path.relpath(path, folder or results))

    outputs = {} if home else printed({one.series: one.id for one in every}, cases, digest, store)
    return Page(
        digest, link, home, series, sorted({node for _, node in ran_on}, key=natural),
        cards(digest, store, series, cases, Counter(partition for partition, _ in ran_on)),
        {one.name: one for one in tables}, overview(series, _ROWS),
        checks_of(every, cases, store, digest.sessions, root), next((one for one in nodes if one['worst']), None),
        provenance(cases.values()), not_run(comparison, cases.values()),
        with_options('ci/nightly', results, session.site),
        unfolded(every, cases, nodes, store, digest, outputs, link),
    )  # fmt: skip


def to_html(page: Page) -> str:
    """Return the page as HTML."""
    return template('report.html.j2').render(page=page)


def _table(name: str, columns: Sequence[Column], rows: Sequence[TableRow]) -> View:
    """Return a table of the `columns` that the page shows, without those that are empty."""
    wanted = (column for column in columns if column.title is not None and column.on_page)
    return View([column for column in wanted if any(map(column.text, rows))], rows, name=name)


def uplot() -> dict[str, str]:
    """Return name -> text of the files of the library that draws histories."""
    return {path.name: path.read_text(encoding='utf-8') for path in _UPLOT.iterdir()}


def day_of(epoch: int) -> str:
    """Return the day (UTC) of a time in seconds since 1970."""
    return f'{datetime.fromtimestamp(epoch, timezone.utc):%Y-%m-%d}'


def _with_code(text: str) -> Markup:
    """Return text as HTML in which parts in backquotes are shown as code."""
    return Markup(re.sub('`(.+?)`', r'<code>\1</code>', str(escape(text))))  # noqa: S704 # nosec B704  escaped


def _broken(text: str) -> Markup:
    """Return text as HTML that a browser may break after a comma and a ``=``."""
    breakable = str(escape(text)).replace(',', ',<wbr>').replace('=', '=<wbr>')
    return Markup(breakable)  # noqa: S704 # nosec B704  escaped


def _rows(table: View, rows: Sequence[TableRow]) -> Markup:
    """Return `rows` of a table as HTML; a template would take four times as long for thousands of cells."""
    cells = (_cells(column, rows) for column in table.columns)
    lines = (f'<tr>{"".join(line)}</tr>\n' for line in zip(*cells, strict=True))
    return Markup(''.join(lines))  # noqa: S704 # nosec B704  escaped


def _cells(column: Column, rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the cell of each row in a column; ``data-v``: the number by which the page sorts."""
    begin, kind = f'<td data-column="{column.key}"', ' class="r"' if column.number else ''
    for row in rows:
        sort, parts = '', column.links(row)
        if column.key == 'verdict':
            kind = f' class="v {row["verdict"]}"'
        elif column.key == 'bad':
            kind = ' class="r b"' if row['bad'] else ' class="r"'
        if column.sort and any(text for text, _ in parts):
            order = row[column.sort.removeprefix('-')]
            sort = '' if order is None else f' data-v="{order:.2f}"'
        shown = ' '.join(
            f'<a href="{escape(address)}">{_broken(text)}</a>' if address else _broken(text) for text, address in parts
        )
        yield f'{begin}{kind}{sort}>{shown}</td>'

# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about a session; it opens from a file, prints, and needs no network."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from plumbline.files import write_text
from plumbline.identity import natural
from postprocess.history.digest import Digest, add_history
from postprocess.incidents.words import with_options
from postprocess.report.by_check import Check, OverviewRow, checks_of, overview
from postprocess.report.cards import Card, cards
from postprocess.report.details import unfolded
from postprocess.report.html import ROWS, template
from postprocess.report.printed import printed
from postprocess.report.tables import tables_of
from postprocess.results.store import Session, Store
from postprocess.verdicts.verdict import Comparison
from postprocess.views.series import SeriesRow, series_rows
from postprocess.views.session import not_run
from postprocess.views.table import TableRow, View


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
    tables = tables_of(digest, every, series, cases, root)
    nodes = tables['fleet'].rows

    def link(path: Path) -> str:
        """Return the address of a file relative to the page; empty on a published page."""
        return '' if home else quote(os.path.relpath(path, folder or results))

    outputs = {} if home else printed({one.series: one.id for one in every}, cases, digest, store)
    return Page(
        digest, link, home, series, sorted({node for _, node in ran_on}, key=natural),
        cards(digest, store, series, cases, Counter(partition for partition, _ in ran_on)),
        tables, overview(series, ROWS),
        checks_of(every, cases, store, digest.sessions, root), next((one for one in nodes if one['worst']), None),
        not_run(comparison, cases.values()), with_options('ci/nightly', results, session.site),
        unfolded(every, cases, nodes, store, digest, outputs, link),
    )  # fmt: skip


def to_html(page: Page) -> str:
    """Return the page as HTML."""
    return template('report.html.j2').render(page=page)

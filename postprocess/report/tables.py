# SPDX-License-Identifier: BSD-3-Clause
"""Make the tables of the page of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from postprocess.history.digest import Digest
from postprocess.results.rows import CaseRow
from postprocess.verdicts.derived import derived
from postprocess.verdicts.verdict import BAD
from postprocess.views.history import TREND, alike
from postprocess.views.nodes import NODES, node_rows
from postprocess.views.series import SeriesRow
from postprocess.views.session import DERIVED, METRICS, series_table
from postprocess.views.table import Column, TableRow, View


def tables_of(
    digest: Digest, every: Sequence[SeriesRow], judged: Sequence[SeriesRow], cases: Mapping[int, CaseRow],
    root: Path | None = None,
) -> dict[str, View]:  # fmt: skip
    """Return the tables of metrics, nodes, computed figures and changes, by name; `judged`: those of `every` series."""
    usable = (row for row in digest.comparison.verdicts if row.verdict not in BAD - {'regressed'})
    tables = (
        _table('verdicts', METRICS, series_table(judged, digest)),
        _table('fleet', NODES, node_rows(every, cases, digest, root)),
        _table('figures', DERIVED, [vars(one) for one in derived(usable, cases.values())]),
        _table('changes', TREND, alike(digest, {(one.series, one.quantity): one.id for one in judged})),
    )
    return {one.name: one for one in tables}


def _table(name: str, columns: Sequence[Column], rows: Sequence[TableRow]) -> View:
    """Return a table of the `columns` that the page shows, without those that are empty."""
    wanted = (column for column in columns if column.title is not None and column.on_page)
    return View([column for column in wanted if any(map(column.text, rows))], rows, name=name)

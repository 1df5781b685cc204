# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the page, made from the same columns as those of the terminal, Markdown, CSV and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from plumbline.identity import NONE, SeriesId
from postprocess.history.digest import Digest
from postprocess.incidents.known import told_by
from postprocess.report.charts import Judged
from postprocess.report.details import Alike
from postprocess.report.fleet import NodeRow
from postprocess.text import count, percent
from postprocess.verdicts.derived import Derived
from postprocess.verdicts.verdict import BAD
from postprocess.views import history, verdicts
from postprocess.views.nodes import NODES
from postprocess.views.series import SERIES
from postprocess.views.table import Column, TableRow

_NAMED = 4  # most nodes of a case that are named
_PLACED = replace(SERIES[0], format=lambda _, where: where, beside=('where',), width=16)
_WORST = (
    Column('verdict', 'verdict', width=9),
    Column('what', 'what', width=24),
    Column('where', 'where', width=16),
    Column('deviation', 'deviation', percent, number=True),
    Column('cause', 'why', width=24),
)
_DERIVED = (
    Column('what', 'figure', width=16),
    Column('value', 'value', '{:.3g}'.format, number=True),
    Column('of', 'of', '{}, {}/{}'.format, beside=('partition', 'environ'), width=24),
    Column('formula', 'formula', width=24),
    Column('source', 'source', width=24),
)
Address = Callable[[TableRow, str], str]  # returns the address to which a text in a row is linked


class Table(NamedTuple):
    """A table of the page, with rows that are ready to be shown."""

    id: str
    columns: list[Column]
    rows: list[Markup]


def table(
    id: str, columns: Sequence[Column], rows: Iterable[TableRow], addresses: Mapping[str, Address] | None = None,
    classes: Mapping[str, Callable[[TableRow], str]] | None = None,
) -> Table:  # fmt: skip
    """Return a table of the `columns` that the page shows, without empty ones.

    `addresses`, `classes`: key of a column -> addresses to which its cells are linked, and their style.
    """
    rows, to, look = list(rows), addresses or {}, classes or {}
    wanted = (column for column in columns if column.title is not None and column.on_page)
    shown = [column for column in wanted if any(map(column.text, rows))]
    cells = (''.join(_cell(column, row, to.get(column.key), look.get(column.key)) for column in shown) for row in rows)
    return Table(id, shown, [Markup(f'<tr>{own}</tr>\n') for own in cells])  # noqa: S704 # nosec B704  escaped


def of_verdicts(judged: Sequence[Judged], places: Mapping[int, int], digest: Digest) -> Table:
    """Return every metric with its worst verdict, and where that is from; `places`: id -> decimals of its numbers.

    The incidents of a metric: first the one of the job that is shown.
    """
    ids, told = of_incidents(digest), told_by(digest.known)
    rows = (
        {
            **verdicts.to_row(metric.worst, places[metric.id]),
            'id': metric.id,
            'where': _where(metric) + ', busy' * (metric.worst.case_id in digest.comparison.busy_jobs),
            'incident': sorted(ids.get(metric.series, []), key=told(metric.series, metric.worst.nodes).__ne__),
        }
        for metric in judged
    )
    addresses = {'incident': _to_incident, 'metric': _to_metric}
    columns = [_PLACED if column.key == 'partition' else column for column in verdicts.COMPARED]
    return table('verdicts', columns, rows, addresses, {'verdict': _as_verdict})


def of_incidents(digest: Digest) -> dict[SeriesId, list[str]]:
    """Return series -> ids of the incidents, not closed, that it belongs to."""
    ids: dict[SeriesId, list[str]] = {}
    for known in digest.known:
        for of in known.incident.series if not known.closed else ():
            ids.setdefault(of, []).append(known.id)
    return ids


def of_nodes(nodes: Iterable[NodeRow]) -> Table:
    """Return the table of all nodes."""
    addresses = {
        'name': lambda _, name: f'#n={quote(name)}',
        'incidents': _to_incident,
        'worst': lambda row, _: f'#m{row["worst_id"]}',
    }
    fell_short = {'bad': lambda row: 'b' if row['bad'] else ''}
    return table('fleet', NODES, (node.to_row() for node in nodes), addresses, fell_short)


def of_worst(judged: Iterable[Judged]) -> Table:
    """Return the series that are bad or warn; series of a case with one cause share a row that gives their number."""
    groups: dict[tuple[object, ...], list[Judged]] = {}
    for metric in judged:
        row = metric.worst
        if row.verdict in (*BAD, 'warning'):
            own = metric.series if row.verdict in ('regressed', 'warning') else None
            groups.setdefault((row.verdict, metric.series.case, row.cause, own), []).append(metric)
    rows = (
        {
            'id': metric.id, 'verdict': metric.worst.verdict, 'what': _with_others(metric.series.what, len(own)),
            'where': _where(metric), 'deviation': metric.worst.deviation, 'cause': metric.worst.cause,
        }
        for own in groups.values()
        for metric in own[:1]
    )  # fmt: skip
    return table('worst', _WORST, rows, {'what': _to_metric}, {'verdict': _as_verdict})


def of_changes(changes: Iterable[Alike], digest: Digest) -> Table:
    """Return the changes of the histories, one row for each group of changes."""
    rows = (
        {
            **history.to_row(first), 'kind': f'{first.kind}, new' if first in digest.new else first.kind, 'dims': NONE,
            'metric': _with_others(first.series.name, len(own.changes)), 'id': own.ids[0],
        }
        for own in changes
        for first in own.changes[:1]
    )  # fmt: skip
    return table('changes', history.TREND, rows, {'metric': _to_metric})


def of_figures(figures: Iterable[Derived]) -> Table:
    """Return the figures that follow from the numbers of the session."""
    return table('figures', _DERIVED, map(vars, figures))


def _to_incident(_: TableRow, id: str) -> str:
    """Return the address of an incident on the page."""
    return f'#i{id}'


def _to_metric(row: TableRow, _: str) -> str:
    """Return the address of a metric on the page; empty if it has none."""
    return '' if row['id'] is None else f'#m{row["id"]}'


def _as_verdict(row: TableRow) -> str:
    """Return the style of a verdict."""
    return f'v {row["verdict"]}'


def _with_others(name: str, n: int) -> str:
    """Return a name, and the number of other metrics if there are any."""
    return name if n == 1 else f'{name} and {count(n - 1, "other metric")}'


def _where(judged: Judged) -> str:
    """Return the place of a series: ``cpu/system on n1, n2, the worst of 4 jobs``."""
    nodes = judged.worst.nodes
    on = f' on {", ".join(nodes[:_NAMED])}{" ..." if len(nodes) > _NAMED else ""}' if nodes else ''
    others = f', the worst of {count(len(judged.rows), "job")}' if len(judged.rows) > 1 else ''
    return f'{judged.series.partition}/{judged.series.environ}{on}{others}'


def broken(text: str) -> Markup:
    """Return a text that a browser may break after a comma and a ``=``."""
    return Markup(re.sub('[,=]', r'\g<0><wbr>', str(escape(text))))  # noqa: S704 # nosec B704  escaped


def _cell(column: Column, row: TableRow, address: Address | None, look: Callable[[TableRow], str] | None) -> str:
    """Return the HTML of a cell."""
    value, text = row[column.key], column.text(row)
    parts = value if address and isinstance(value, list) else [text]
    inside = ' '.join(_linked(part, address(row, part) if address and part else '') for part in parts)
    kinds = ' '.join(filter(None, ('r' if column.number else '', look(row) if look else '')))
    kind = f' class="{escape(kinds)}"' if kinds else ''
    by = row[column.sort.removeprefix('-')] if column.sort else None
    order = f' data-v="{by:.2f}"' if by is not None and text else ''
    return f'<td data-column="{column.key}"{kind}{order}>{inside}</td>'


def _linked(text: str, address: str) -> Markup:
    """Return a text as HTML, linked to `address` if that is not empty."""
    return Markup('<a href="{}">{}</a>').format(address, broken(text)) if address else broken(text)

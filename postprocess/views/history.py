# SPDX-License-Identifier: BSD-3-Clause
"""The table of the history of a site: steps and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from plumbline.identity import NONE, Quantity, SeriesId
from postprocess.text import count, number, percent
from postprocess.views.series import QUANTITY, of_series
from postprocess.views.table import Column, TableRow, View
from postprocess.views.verdicts import with_others

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.history.trend import Change, Trend

#: The columns of a change, in the order of CSV, JSON and the page.
TREND = (
    Column('kind', 'kind', width=5, priority=1),
    Column('since', 'since', width=10, priority=1),
    *QUANTITY,
    *map(Column, ('before', 'session')),
    Column('was', 'was', number, number=True),
    Column('became', 'is', lambda value, unit: f'{number(value)} {unit}', number=True, beside=('unit',)),
    Column('change', 'performance', percent, number=True, priority=1),
    Column('sessions', 'sessions', number=True, priority=3),
    Column('with_it', 'changed with it', '; '.join, width=16),
)


def trend(found: Trend, recent: int) -> View:
    """Return the changes in the history of a site.

    The last line counts those for the worse in the last `recent` sessions.
    """
    first, last = (found.sessions[place].day for place in (0, -1))
    looked_at = f'{count(found.examined, "metric")} over {count(len(found.sessions), "session")}'
    worse = count(len(found.recent(recent)), 'change')
    return View(
        TREND,
        [to_row(change) for change in found.changes],
        before=f'{found.site}: {looked_at}, {first} to {last}',
        after=f'{worse} for the worse in the last {count(recent, "session")}, {len(found.changes)} in all',
        name='changes',
        document={
            'site': found.site, 'sessions': len(found.sessions), 'metrics': found.examined, 'left_out': found.left_out,
        },
        notes=[f'not examined: {line}' for line in found.left_out],
    )  # fmt: skip


def to_row(change: Change) -> TableRow:
    """Return a change as plain values by the keys of `TREND`."""
    return of_series(change.series, change.quantity) | {
        'kind': change.kind,
        'since': change.since.day,
        'before': change.before.day,
        'session': change.session.session,
        **{name: getattr(change, name) for name in ('was', 'became', 'change', 'sessions', 'with_it')},
    }


def alike(digest: Digest, ids: Mapping[tuple[SeriesId, Quantity], int]) -> list[TableRow]:
    """Return the changes of the histories in groups: steps by session and what changed with them, drifts by case.

    A row is the worst change of a group by the keys of `TREND`, with the number of the others; `what`: its series.
    `ids`: numbers of the series on the page.
    """
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in digest.trend.changes if digest.trend else ():
        of = (change.since.session, change.with_it) if change.kind == 'step' else change.series.case
        groups.setdefault((change.kind, of, change.change > 0), []).append(change)
    rows: list[TableRow] = []
    for worst, *others in groups.values():
        rows.append({
            **to_row(worst), 'kind': f'{worst.kind}, new' if worst in digest.new else worst.kind, 'dims': NONE,
            'metric': with_others(worst.series.name, 1 + len(others)), 'what': worst.series.what,
            'id': ids.get((worst.series, worst.quantity)),
        })  # fmt: skip
    return rows

# SPDX-License-Identifier: BSD-3-Clause
"""The histories of the series of a site over its sessions, read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy
import pyarrow as pa
from numpy import ndarray

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Tolerance, tolerance_for
from plumbline.paths import site_folder
from postprocess.results.rows import typed_row
from postprocess.results.store import Session, Store
from postprocess.verdicts.candidates import lists_in
from postprocess.verdicts.policy import site_policy

_SESSIONS = 90  # fewest sessions of a course, as on the page of all sessions
_LEVELS = 10  # spans of a course; each side that is compared may add one
_LISTS = {'sessions': numpy.int32, 'values': numpy.float64}
# One row for each series: its names, the floor in its last session, and lists. Histories use logarithms, so only values
# above zero count.
_HISTORIES = """
    WITH found AS (
        SELECT "case", any_value(metric) AS metric, any_value(dims) AS dims, any_value(unit) AS unit,
            any_value(better) AS better, arg_max("floor", night) AS "floor", list(night::INT) AS sessions,
            list(mean) AS "values"
        FROM first_jobs WHERE judged AND mean > 0 GROUP BY "case", hash(metric, dims, unit, better)
    )
    SELECT * EXCLUDE "case" FROM case_names JOIN found USING ("case")
"""


@dataclass(frozen=True, eq=False)
class History:
    """The values of a series: in ``sessions[i]``, the median over its cases.

    `sessions`: indices in the sessions that were asked for.
    """

    series: SeriesId
    quantity: Quantity
    tolerance: Tolerance
    sessions: ndarray
    values: ndarray

    @property
    def performance(self) -> ndarray:
        """Natural logarithm of the values, negated where lower is better, so that a loss is always a fall."""
        return self.quantity.sign * numpy.log(self.values)


def by_session(store: Store, sessions: Sequence[Session], root: Path | None = None) -> list[History]:
    """Return the history of each series, in the order of the sessions; a value is the median over all nodes."""
    tables = store.query_portions(_HISTORIES, sessions)
    return [_medians(history) for history in _histories(tables, sessions, root)]


@dataclass(frozen=True)
class Course:
    """The levels of series over consecutive `spans` of sessions: the median over each span.

    `marks`: indices of the spans that begin with a compared session. A level is None if no session has a value.
    """

    spans: list[Sequence[Session]]
    marks: tuple[int, ...]
    levels: dict[tuple[SeriesId, Quantity], list[float | None]]


def course(store: Store, sides: Sequence[Sequence[Session]], root: Path | None = None) -> Course:
    """Return the levels of each series up to the later of two compared sides, over at least the last 90 sessions.

    There are at most 12 levels. Raises InputError if the store cannot be read.
    """
    every = store.sessions(sides[0][0].site)
    places = {session.session: place for place, session in enumerate(every)}
    starts, end = [places[side[0].session] for side in sides], 1 + max(places[side[-1].session] for side in sides)
    begin = max(min(*starts, end - _SESSIONS), 0)
    size = -(-(end - begin) // _LEVELS)
    edges = sorted({begin, *starts, end})
    cuts = [*(cut for pair in pairwise(edges) for cut in range(*pair, size)), end]
    levels = {}
    for history in by_session(store, every[begin:end], root):
        at = numpy.searchsorted(history.sessions, [cut - begin for cut in cuts])
        own = [history.values[first:last] for first, last in pairwise(at)]
        levels[history.series, history.quantity] = [float(numpy.median(part)) if part.size else None for part in own]
    return Course(
        [every[first:last] for first, last in pairwise(cuts)], tuple(sorted({*map(cuts.index, starts)})), levels
    )


def _histories(tables: Iterable[pa.Table], sessions: Sequence[Session], root: Path | None) -> list[History]:
    """Return one history for each series of the tables, sorted; the sessions of a table are later than those before."""
    floors: dict[tuple[SeriesId, Quantity], float | None] = {}
    parts: dict[tuple[SeriesId, Quantity], list[list[ndarray]]] = {}
    for table in tables:
        columns = [lists_in(table[name], kind) for name, kind in _LISTS.items()] if table.num_rows else []
        rows = map(typed_row, table.drop_columns(list(_LISTS)).to_pylist())
        for row, *arrays in zip(rows, *columns, strict=True):
            key = row['id'], row['quantity']
            floors[key] = floors.get(key) if row['floor'] is None else row['floor']
            parts.setdefault(key, []).append([array.copy() for array in arrays])  # not the whole table
    if not parts:
        return []
    # sites that are not described have the default tolerances
    described = (site_folder(sessions[-1].site, root) / 'site.yaml').exists()
    policy = site_policy(sessions[-1], root) if described else {}
    histories = []
    for (series, quantity), of_tables in sorted(parts.items(), key=lambda one: one[0]):
        tolerance = tolerance_for(policy, series, floors[series, quantity])
        arrays = map(numpy.concatenate, zip(*of_tables, strict=True))
        histories.append(History(series, quantity, tolerance, *arrays))
    return histories


def _medians(history: History) -> History:
    """Return the history in the order of the sessions, with one value, the median, for each session."""
    order = numpy.argsort(history.sessions, kind='stable')
    sessions, values = history.sessions[order], history.values[order]
    if not (sessions[1:] > sessions[:-1]).all():
        sessions, first = numpy.unique(sessions, return_index=True)
        values = numpy.array([numpy.median(part) for part in numpy.split(values, first[1:])])
    return replace(history, sessions=sessions, values=values)

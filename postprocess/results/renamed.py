# SPDX-License-Identifier: BSD-3-Clause
"""Read rows of the store under today's names (`plumbline.renames`); the files keep the names of their time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plumbline.errors import InputError
from plumbline.identity import from_text, to_text
from plumbline.renames import TABLE, Names, renames

if TYPE_CHECKING:
    import duckdb

_OF_METRICS = ('draw', 'figures')  # columns of the table `cases` with JSON: metric -> value


def cases(rows: Iterable[dict[str, Any]]) -> None:
    """Give rows of the table `cases` today's names. Raises InputError if two different cases would become one."""
    known = renames()
    concerned = [(row, names) for row in rows if (names := known.get(row['check']))]
    stored: dict[tuple[str, str], tuple[str, str]] = {}
    for row, names in concerned:
        old, new = (row['check'], row['params']), (names.check, _params(names, row['params']))
        if (other := stored.setdefault(new, old)) != old:
            raise _both(' '.join(other), ' '.join(old), 'the session')
        row |= {'check': new[0], 'params': new[1], 'name': _name(names, row['name'])}
        row |= {column: _keys(row[column], names.metrics) for column in _OF_METRICS}
        row['dims'] = _keys(row['dims'], names.params)


def numbers(rows: Iterable[dict[str, Any]], of_cases: Iterable[Mapping[str, Any]]) -> None:
    """Give rows of the table `metrics` or `samples` today's names; `of_cases`: the rows of their cases.

    Raises InputError if a case has a metric under both its old and its new name.
    """
    known = renames()
    own = {case['case_id']: names for case in of_cases if (names := known.get(case['check'])) and names.metrics}
    concerned = [row for row in rows if row['case_id'] in own]
    stored = {(row['case_id'], row['metric']) for row in concerned}
    for row in concerned:
        names, old = own[row['case_id']], row['metric']
        row['metric'] = new = names.metric(old)
        if new != old and (row['case_id'], new) in stored:
            raise _both(old, new, names.check)


def _both(old: str, other: str, kind: str) -> InputError:
    """Return the error that something has both an old name and the new one."""
    return InputError(f'{TABLE}: {kind} has both {old!r} and {other!r}: expected a new name that nothing had')


def select_cases(database: duckdb.DuckDBPyConnection, rows: str) -> str:
    """Return a query for `rows` with today's check and params; `rows`: a query for rows of the table `cases`."""
    concerned = [check for check, names in renames().items() if check != names.check or names.params or names.values]
    if not concerned:
        return rows
    sql = f'SELECT DISTINCT "check", params FROM ({rows}) WHERE "check" IN (SELECT unnest(?))'
    stored = database.execute(sql, [concerned]).fetchall()
    table = [(check, params, (names := renames()[check]).check, _params(names, params)) for check, params in stored]
    _create(database, 'renamed_cases', ('check', 'params', 'check_today', 'params_today'), table)
    return f"""
        SELECT * EXCLUDE (check_today, params_today)
            REPLACE (coalesce(check_today, "check") AS "check", coalesce(params_today, params) AS params)
        FROM ({rows}) LEFT JOIN renamed_cases USING ("check", params)
    """


def select_numbers(database: duckdb.DuckDBPyConnection, rows: str, of_cases: str) -> str:
    """Return a query for `rows` with today's metrics.

    `rows`: a query for rows of the table `metrics` or `samples`. `of_cases`: a query for the rows of their cases.
    """
    table = [(check, old, new) for check, names in renames().items() for old, new in names.metrics.items()]
    if not table:
        return rows
    _create(database, 'renamed_metrics', ('check', 'metric', 'metric_today'), table)
    return f"""
        SELECT * EXCLUDE (metric_today) REPLACE (coalesce(metric_today, metric) AS metric)
        FROM ({rows}) LEFT JOIN (
            SELECT session, case_id, metric, metric_today FROM ({of_cases}) JOIN renamed_metrics USING ("check")
        ) USING (session, case_id, metric)
    """


def _create(
    database: duckdb.DuckDBPyConnection, name: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    """Create a temporary table of texts in the database."""
    selected = ', '.join(f'unnest(?::VARCHAR[]) AS "{column}"' for column in columns)
    values = [[row[place] for row in rows] for place in range(len(columns))]
    database.execute(f'CREATE OR REPLACE TEMP TABLE {name} AS SELECT {selected}', values)


def _params(names: Names, text: str) -> str:
    """Return params with today's names and values."""
    return to_text(names.pairs(from_text(text)))


def _name(names: Names, name: str) -> str:
    """Return ReFrame's name of a case, such as ``STREAM %size=big %cpu.nid=n1``, with today's check and params."""
    _, *params = name.split(' %')
    return ' %'.join([names.check, *('='.join(names.pair(*param.partition('=')[::2])) for param in params)])


def _keys(text: str | None, today: Mapping[str, str]) -> str | None:
    """Return a JSON object with today's names as keys; empty text and None are unchanged."""
    return text and json.dumps({today.get(name, name): value for name, value in json.loads(text).items()})

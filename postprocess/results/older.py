"""Read what earlier schemas of the store wrote: old column names, and metric names that held dims.

Schema 6 lacks `purpose`, and schema 5 also `figures` and `health`. Schema 4 has `cap`, which nothing reads any more.
Schema 3 also lacks `round`. Schema 2 also has `stack`, `case`, `void` and `binding`, and no dims; schema 1 also lacks
`judged` and `source`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from plumbline.identity import to_text
from plumbline.migration import DIMS, floor_of_schema_1, metric_and_dims
from postprocess.results.tables import SCHEMA, TABLES, status_of

if TYPE_CHECKING:
    import duckdb


class _LookUp(NamedTuple):
    """A table of what each distinct key of the old rows `r`, and their cases `c`, means."""

    keys: tuple[str, ...]
    columns: str
    meaning: Callable[..., tuple[Any, ...]]


def _named(check: str, name: str) -> tuple[str, str]:
    metric, dims = metric_and_dims(check, name)
    return metric, to_text(dims)


#: From this schema on, names are those of the present one: only whole columns came and went.
SINCE = 3


def columns_of(table: str, schema: int) -> str:
    """Return the columns to select from a file of schema `SINCE` or later for the present schema."""
    if schema == SCHEMA:
        return '*'
    without = ' EXCLUDE (cap)' if table == 'metrics' and schema < 5 else ''
    more = ", '' AS purpose" if table == 'cases' else ''
    more += ", '{}' AS figures, '{}' AS health" if table == 'cases' and schema < 6 else ''
    more += ', 0::INTEGER AS round' if table == 'cases' and schema < 4 else ''
    return f'*{without} REPLACE ({SCHEMA} AS schema){more}'


_LOOK_UPS = {
    'named': _LookUp(
        ('c."check"', 'r.metric'), 'key_0 VARCHAR, key_1 VARCHAR, metric VARCHAR, dims VARCHAR', _named,
    ),
    'tolerated': _LookUp(
        ('c."check"', 'r.unit'), 'key_0 VARCHAR, key_1 VARCHAR, "floor" DOUBLE',
        lambda *key: (floor_of_schema_1(*key),),
    ),
    'counted': _LookUp(
        (
            'c.result', "coalesce(c.fail_phase, '')", 'r.void IS NOT NULL', 'r.n > 0',
            'coalesce(isfinite(r.mean), false)',
        ),
        'key_0 VARCHAR, key_1 VARCHAR, key_2 BOOLEAN, key_3 BOOLEAN, key_4 BOOLEAN, status VARCHAR',
        lambda *key: (status_of(*key),),
    ),
}  # fmt: skip
_USED = {'samples': ('named',), 'metrics': ('named', 'tolerated', 'counted'), 'cases': ()}
_DECLARED = json.dumps({name: asdict(dim) for name, dim in DIMS.items()})
_DIMS = f"if(r.benchmark, '{_DECLARED}', '{{}}')"
_NAMED = {'metric': 'named.metric', 'dims': 'named.dims'}
#: What the columns of a table are in its old rows, where that is not the same name.
_COLUMNS = {
    'samples': _NAMED,
    'metrics': _NAMED | {
        'status': 'counted.status', 'invalid': 'r.void', 'judged': 'coalesce(r.judged, true)',
        'usual_spread': 'NULL::DOUBLE', 'floor': 'tolerated."floor"',
    },
    'cases': {
        'round': '0::INTEGER', 'purpose': "''",
        'environ': 'r.stack', 'params': 'r."case"', 'dims': _DIMS, 'draw': "'{}'",
        'figures': "'{}'", 'health': "'{}'",
        'evidence': "''",
        'placement': """replace(replace(r.binding, '"asked":', '"requested":'), '"got":', '"actual":')""",
    },
}  # fmt: skip
_CASE = 'JOIN old_cases AS c USING (session, case_id)'


def select(database: duckdb.DuckDBPyConnection, table: str, files: Mapping[str, str]) -> str:
    """Return a query for the rows of old files in the columns of the present schema, in the order of the files.

    `files` of each table, as a list in DuckDB's syntax. Needs a table ``nights`` of the sessions wanted. Names and
    results are few, whatever the number of rows: each is looked up once, in Python, and joined.
    """
    for name in {'cases', table}:
        rows = f'FROM read_parquet({files[name]}, union_by_name=true, hive_partitioning=false, file_row_number=true)'
        if name == 'metrics':  # the files of schema 1 lack a column
            rows += ' UNION ALL BY NAME SELECT NULL::BOOLEAN AS judged WHERE false'
        database.execute(f'CREATE OR REPLACE TEMP VIEW old_{name} AS FROM ({rows}) SEMI JOIN nights USING (session)')
    joins = [_CASE] if _USED[table] else []
    for name in _USED[table]:
        look_up = _LOOK_UPS[name]
        keys = ', '.join(look_up.keys)
        found = database.execute(f'SELECT DISTINCT {keys} FROM old_{table} AS r {_CASE}').fetchall()
        database.execute(f'CREATE OR REPLACE TEMP TABLE {name} ({look_up.columns})')
        if found:
            columns = zip(*((*key, *look_up.meaning(*key)) for key in found), strict=True)
            lists = [list(column) for column in columns]
            database.execute(f'INSERT INTO {name} SELECT {", ".join("unnest(?)" for _ in lists)}', lists)
        joins.append(f'JOIN {name} ON ({", ".join(f"{name}.key_{i}" for i in range(len(look_up.keys)))}) = ({keys})')
    own = _COLUMNS[table]
    columns_of_rows = ', '.join(
        f'{own.get(name, _quoted(name))} AS "{name}"' for name in TABLES[table].names if name != 'schema'
    )
    return (
        f'SELECT {SCHEMA} AS schema, {columns_of_rows} FROM old_{table} AS r {" ".join(joins)} '
        'ORDER BY r.file_row_number'
    )


def _quoted(column: str) -> str:
    return f'r."{column}"'

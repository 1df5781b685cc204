# SPDX-License-Identifier: BSD-3-Clause
"""The results store as tidy pandas DataFrames, the public interface for notebooks and scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from plumbline.causes import sentence
from plumbline.identity import ID_COLUMNS, from_text
from plumbline.paths import results_directory
from postprocess.results.database import quoted
from postprocess.results.rows import causes_in
from postprocess.results.store import Session, Store
from postprocess.results.tables import JUDGED
from postprocess.text import not_a_formula

if TYPE_CHECKING:
    import pandas

_OF_METRICS = (
    'unit', 'better', 'n', 'mean', 'std', 'min', 'max', 'status', 'judged', 'invalid', 'missing', 'usual_spread',
    'floor',
)  # fmt: skip
_OF_VERDICTS = """
    case_id, "partition", environ, "check", params, metric, dims, unit, better, verdict, code, cause, mean, verdicts.n,
    std, reference.mean AS expected, reference.kind AS kind, reference.source AS source, limits.bad AS "limit",
    limits.gate AS gate, loss, loss_low, loss_high, "window", p, q, array_to_string(nodes, ',') AS nodes,
    stand_in, to_json(jobs)::VARCHAR AS jobs
"""
_OF_FINDINGS = """
    kind, sort, "partition", environ, array_to_string(scope_nodes, ',') AS scope_nodes, device, link_class, place,
    array_to_string(checks, ',') AS checks, array_to_string(nodes, ',') AS nodes, code, cause, loss, loss_low,
    loss_high, cost, certain, named, since, "day", findings.sessions, array_to_string(changed, '; ') AS changed,
    array_to_string(evidence, '; ') AS evidence, to_json(series)::VARCHAR AS series
"""
#: What tells the points of a time series apart, except dims.
LABELS = ('site', 'partition', 'environ', 'check', 'params', 'metric', 'unit', 'better', 'nodes')


class Results:
    """The sessions below one results directory. See docs/results-api.md for the columns.

    Every method reads the store anew. Filters: `site`: name of one site. `days`: counted back from the newest session
    of each site. `check`: name of a check or a pattern such as ``Osu*``. All methods raise InputError if the store
    cannot be read. `judge`: called with the store, a table that follows from others, and the sessions to be read of it.
    """

    def __init__(self, folder: str | Path | None, judge: Callable[[Store, str, Sequence[Session]], None]):
        self.store, self._judge = Store(results_directory() if folder is None else Path(folder)), judge

    def sessions(self, site: str | None = None, days: float | None = None) -> pandas.DataFrame:
        """Return one row for each session, in the order in which they started."""
        return _frame(self.tables('sessions', site, days))

    def cases(self, site: str | None = None, days: float | None = None, check: str = '*') -> pandas.DataFrame:
        """Return one row for each test case of each session, without fixtures."""
        return _frame(self.tables('cases', site, days, check))

    def metrics(
        self, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> pandas.DataFrame:
        """Return one row for each series of each case: its identity, and the statistics of its samples.

        A value counts as measured if `status` is ``measured``. `dims`: give each dim a column of its own.
        """
        return _frame(self.tables('metrics', site, days, check, dims))

    def samples(
        self, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> pandas.DataFrame:
        """Return one row for each sample: the identity of its series, trial, node and value.

        `dims`: give each dim a column of its own.
        """
        return _frame(self.tables('samples', site, days, check, dims))

    def verdicts(
        self, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> pandas.DataFrame:
        """Return one row for each verdict of each session; sessions that were not judged as of today are judged.

        `dims`: give each dim a column of its own. Raises SiteError if a file of the site is wrong.
        """
        return _frame(self.tables('verdicts', site, days, check, dims))

    def findings(self, site: str | None = None, days: float | None = None, check: str = '*') -> pandas.DataFrame:
        """Return one row for each incident as one session shows it, without the ledger; as :meth:`verdicts`."""
        return _frame(self.tables('findings', site, days, check))

    def tables(
        self, name: str, site: str | None = None, days: float | None = None, check: str = '*', dims: bool = False
    ) -> Iterator[pa.Table]:
        """Yield the rows of the method `name` as Arrow tables, in portions that fit into memory."""
        if name in JUDGED:
            for one in self._sites(site):
                self._judge(self.store, name, _recent(self.store.sessions(one), days))
        tables = self._portions(_sql(name, check), site, days)
        if name == 'cases':
            return map(_with_reasons, tables)
        if not dims:
            return tables
        of_rows = self._portions(f'SELECT DISTINCT dims FROM ({_sql(name, check)})', site, days)
        found = {text for table in of_rows for text in table['dims'].to_pylist()}
        return with_dims(tables, sorted(found))

    def points(self, site: str | None = None, days: float | None = None, check: str = '*') -> Iterator[pa.Table]:
        """Yield the means of each series on a set of nodes in a session, sorted by series, in portions.

        Times are in whole seconds, because `promtool check` reads no others.
        """
        names = ', '.join(f'"{name}"' for name in LABELS[1:-1])
        sql = f"""
            SELECT measured.site, {names}, array_to_string(nodes, ',') AS nodes, dims,
                date_trunc('second', started) AS started, avg(mean) AS mean, min("min") AS "min", max("max") AS "max",
                sum(n) AS n
            FROM measured JOIN sessions USING (night) WHERE {_of(check, 'measured')}
            GROUP BY ALL ORDER BY ALL
        """
        for name in self._sites(site):
            yield from self.store.stream(sql, _recent(self.store.sessions(name), days))

    def checks(self, site: str | None = None) -> list[str]:
        """Return the names of all checks, sorted."""
        of_portions = self._portions('SELECT DISTINCT "check" FROM cases WHERE NOT fixture', site, None)
        return sorted({name for table in of_portions for name in table['check'].to_pylist()})

    def _sites(self, site: str | None) -> list[str]:
        """Return the sites to read, one at a time: two sites may have sessions with the same uuid."""
        return [site] if site else self.store.sites() or ['*']

    def _portions(self, sql: str, site: str | None, days: float | None) -> Iterator[pa.Table]:
        """Yield the result of a query over the sessions of one site or of all sites."""
        for name in self._sites(site):
            yield from self.store.query_portions(sql, _recent(self.store.sessions(name), days))


def _with_reasons(cases: pa.Table) -> pa.Table:
    """Return rows of cases with their causes as a sentence; rows older than the column `causes` have it stored."""
    said = cases.schema.get_field_index('fail_reason')
    stored = cases[said].to_pylist() if said >= 0 else [None] * len(cases)
    known = zip(cases['causes'].to_pylist(), cases['evidence'].to_pylist(), stored, strict=True)
    reasons = pa.array([sentence(causes_in(causes), evidence) or old for causes, evidence, old in known], pa.string())
    others = cases.remove_column(said) if said >= 0 else cases
    return others.add_column(others.schema.get_field_index('fail_phase') + 1, 'fail_reason', reasons)


def write_parquet(tables: Iterator[pa.Table], stream: BinaryIO) -> None:
    """Write the rows of `tables`, at least one, as one Parquet file."""
    first = next(tables)
    with pq.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table.select(first.schema.names))  # older files have other columns last


def _of(check: str, table: str = 'cases') -> str:
    """Return the condition of SQL for the rows of a check or of those of a pattern."""
    return f'{table}."check" GLOB {quoted(check)}'


def _sql(name: str, check: str) -> str:
    """Return the query for the rows of a method of `Results`."""
    if name == 'sessions':
        return 'SELECT * EXCLUDE (schema, month, night, checksums) FROM sessions ORDER BY night'
    if name == 'cases':
        return f"""
            SELECT cases.site, cases.session, started, cases.* EXCLUDE (schema, session, site, month, night, fixture)
            FROM cases JOIN sessions USING (night)
            WHERE NOT fixture AND {_of(check)} ORDER BY cases.night, case_id
        """
    if name in JUDGED:
        return _sql_of_judged(name, check)
    columns = {
        'metrics': ', '.join([*(f'metrics."{own}"' for own in _OF_METRICS), "array_to_string(nodes, ',') AS nodes"]),
        'samples': 'trial, node, value',
    }
    names = ', '.join(f'{name if column in ("metric", "dims") else "cases"}."{column}"' for column in ID_COLUMNS)
    order = ', '.join(['night', *(f'{name}.{column}' for column in ('case_id', 'metric', 'dims'))])
    return f"""
        SELECT cases.site, cases.session, started, {name}.case_id, {names}, {columns[name]}
        FROM {name} JOIN cases USING (night, case_id) JOIN sessions USING (night)
        WHERE {_of(check)} ORDER BY {order}{', trial, node' * (name == 'samples')}
    """


def _sql_of_judged(name: str, check: str) -> str:
    """Return the query for the rows of the table ``verdicts`` or ``findings``."""
    if name == 'verdicts':
        columns, order, wanted = _OF_VERDICTS, [*(f'"{column}"' for column in ID_COLUMNS), 'nodes'], _of(check, name)
    else:
        columns, order = _OF_FINDINGS, ['cost DESC', 'kind', '"partition"', 'environ', 'scope_nodes', 'cause']
        wanted = f'len([1 FOR one IN findings.checks IF one GLOB {quoted(check)}]) > 0'
        wanted = 'true' if check == '*' else wanted  # what is of the whole session has no checks
    return f"""
        SELECT {name}.site, {name}.session, started, {columns} FROM {name} JOIN sessions USING (night)
        WHERE {wanted} ORDER BY {name}.night, {', '.join(order)}
    """


def _frame(tables: Iterable[pa.Table]) -> pandas.DataFrame:
    """Return the rows of all tables; a column of whole dims has numbers, and NA where a series has no such dim."""
    import pandas

    found = [*tables]
    filled = [table for table in found if table.num_rows] or found[:1]
    return pa.concat_tables(filled, promote_options='default').to_pandas(
        types_mapper={pa.int64(): pandas.Int64Dtype()}.get
    )


def with_dims(tables: Iterable[pa.Table], texts: Sequence[str]) -> Iterator[pa.Table]:
    """Yield `tables` with one column for each dim of `texts` in place of `dims`; one of whole numbers has numbers.

    `texts`: all different values of `dims`. A dim that a series does not have is null. Raises ValueError if a dim has
    the name of a column.
    """
    rows = [dict(from_text(text)) for text in texts]
    values = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        known = [row.get(name) for row in rows]
        whole = all(text is None or re.fullmatch(r'\d{1,18}', text) for text in known)
        numbers = [text and int(text) for text in known] if whole else known
        values[name] = pa.array(numbers, pa.int64() if whole else pa.string())
    for table in tables:
        if clash := sorted(values.keys() & set(table.column_names)):
            raise ValueError(f'dims {", ".join(clash)} have the names of columns: use the column dims')
        rows_of = pc.index_in(table['dims'], value_set=pa.array(texts, pa.string()))
        place = table.column_names.index('dims')
        table = table.remove_column(place)
        for name, value in reversed(values.items()):
            table = table.add_column(place, name, value.take(rows_of.combine_chunks()))
        yield table


def _recent(sessions: Sequence[Session], days: float | None) -> list[Session]:
    """Return the sessions of the last `days`, counted from the newest; None: all."""
    if days is None or not sessions:
        return list(sessions)
    since = max(session.started for session in sessions) - timedelta(days=days)
    return [session for session in sessions if session.started >= since]


def to_csv(frame: pandas.DataFrame, header: bool = True) -> str:
    """Return a table as CSV in which no text is a formula of a spreadsheet."""
    from pandas.api.types import infer_dtype

    written = frame.rename(columns=not_a_formula)
    for name in written.columns:
        kind = infer_dtype(written[name])
        if kind == 'datetime64':
            written[name] = written[name].map(str, na_action='ignore')  # the form of one time depends on no other
        elif kind == 'string':
            texts = {text: not_a_formula(text) for text in written[name].dropna().unique()}
            if any(text != safe for text, safe in texts.items()):
                written[name] = written[name].map(texts)
    return written.to_csv(index=False, header=header, lineterminator='\n')


def to_csv_parts(tables: Iterable[pa.Table]) -> Iterator[str]:
    """Yield `tables` as the parts of one CSV."""
    import pandas

    kinds = {pa.int32(): pandas.Int32Dtype(), pa.int64(): pandas.Int64Dtype()}  # a part may lack numbers
    for place, table in enumerate(tables):
        yield to_csv(table.to_pandas(types_mapper=kinds.get), header=place == 0)

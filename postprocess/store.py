"""The results store: Parquet files that DuckDB reads, one of each table for every session.

``<results>/store/<table>/site=<site>/month=YYYY-MM/<session>.parquet``; times are UTC. The file of the table
`sessions` takes its place last: a session whose writing was cut short does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from postprocess.errors import InputError
from postprocess.files import write_whole
from postprocess.runreport import RunReport

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
_TIME = pa.timestamp('us')
_WORDS = pa.list_(pa.string())


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema({'schema': pa.int32(), 'session': pa.string(), **columns})


# In the order in which their files are written. `case_id` is a number within the session.
TABLES = {
    'samples': _schema(
        case_id=pa.int32(), metric=pa.string(), trial=pa.int32(), node=pa.string(), value=pa.float64()
    ),
    'metrics': _schema(
        case_id=pa.int32(), metric=pa.string(), unit=pa.string(), better=pa.string(), n=pa.int32(), mean=pa.float64(),
        std=pa.float64(), min=pa.float64(), max=pa.float64(), void=pa.string(), missing=pa.string(),
    ),
    'cases': _schema(
        case_id=pa.int32(), partition=pa.string(), stack=pa.string(), check=pa.string(), case=pa.string(),
        name=pa.string(), fixture=pa.bool_(), benchmark=pa.bool_(), result=pa.string(), fail_phase=pa.string(),
        fail_reason=pa.string(), tags=_WORDS, trials=pa.int32(), scheduler=pa.string(), job_id=pa.string(),
        job_state=pa.string(), job_exitcode=pa.int32(), nodes=_WORDS, completed=_TIME, time_setup=pa.float64(),
        time_compile=pa.float64(), time_run=pa.float64(), time_sanity=pa.float64(), time_performance=pa.float64(),
        time_total=pa.float64(), trial_seconds=pa.list_(pa.float64()), binding=pa.string(), provenance=pa.string(),
    ),
    'sessions': _schema(
        started=_TIME, ended=_TIME, hostname=pa.string(), user=pa.string(), reframe=pa.string(), mode=pa.string(),
        cmdline=pa.string(), runs=pa.int32(), ran=pa.int32(), expected=pa.int32(), problems=_WORDS,
        report=pa.string(), report_sha256=pa.string(),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Session:
    """One stored session. `ran`: cases of its report; `expected`: cases that were to run, None where nobody said."""

    site: str
    month: str
    schema: int
    session: str
    started: datetime
    ended: datetime
    hostname: str
    user: str | None
    reframe: str
    mode: str | None
    cmdline: str
    runs: int
    ran: int
    expected: int | None
    problems: list[str]
    report: str
    report_sha256: str


class Store:
    """The store below a results directory. All methods raise InputError where a file cannot be read or written."""

    def __init__(self, results: Path):
        self.folder = results / 'store'
        self._connection = duckdb.connect()

    def add(self, report: RunReport) -> bool:
        """Write a session; False where the store has it already, from the same report."""
        row = report.session
        stored = self._path('sessions', report.site, f'{row["started"]:%Y-%m}', row['session'])
        if stored.exists():
            if self._read(stored)[0]['report_sha256'] != row['report_sha256']:
                raise InputError(
                    f'{row["report"]}: the store holds another report of session {row["session"]}; '
                    f'nothing was changed (to replace it, remove {stored})'
                )
            return False
        rows = {
            'samples': report.samples, 'metrics': report.metrics, 'cases': report.cases, 'sessions': [report.session],
        }  # fmt: skip
        common = {'schema': SCHEMA, 'session': row['session']}
        files = {}
        for table, schema in TABLES.items():
            path = self._path(table, report.site, f'{row["started"]:%Y-%m}', row['session'])
            try:
                content = pa.Table.from_pylist([common | item for item in rows[table]], schema)
            except (TypeError, ValueError, OverflowError) as error:  # Arrow's errors are of these kinds
                raise InputError(f'{row["report"]}: a value does not fit the table {table}: {error}') from None
            files[path] = lambda stream, content=content: pq.write_table(content, stream)
        write_whole(files)
        return True

    def find(self, name: str = 'latest', site: str | None = None) -> Session:
        """The session whose uuid begins with `name`, or the one that started last; of `site` where that is given."""
        folders = f'site={site or "*"}'
        if name == 'latest':
            sites = {path.name: path for path in (self.folder / 'sessions').glob(folders)}
            if len(sites) > 1:
                names = ', '.join(sorted(sites)).replace('site=', '')
                raise InputError(f'{self.folder}: holds several sites, {names}: name one with --site')
            months = {path.parent for folder in sites.values() for path in folder.glob('month=*/*.parquet')}
            rows = self._read(max(months) / '*.parquet') if months else []
            found = [max(rows, key=lambda row: (row['started'], row['session']))] if rows else []
        else:
            matching = [
                path
                for path in (self.folder / 'sessions').glob(f'{folders}/month=*/*.parquet')
                if path.name.startswith(name)
            ]
            if len(matching) > 1:
                uuids = ', '.join(sorted(path.stem for path in matching))
                raise InputError(f'{name!r} is the beginning of several sessions: {uuids}')
            found = self._read(matching[0]) if matching else []
        if not found:
            wanted = 'no session' if name == 'latest' else f'no session whose uuid begins with {name!r}'
            of_site = f' of site {site}' if site else ''
            raise InputError(f'{self.folder}: holds {wanted}{of_site}; `plumbline ingest REPORT` puts one there')
        session = Session(**found[0])
        if session.schema > SCHEMA:
            raise InputError(
                f'session {session.session} was stored with schema {session.schema}, this version knows up to {SCHEMA}'
            )
        return session

    def rows(self, table: str, session: Session) -> list[dict[str, Any]]:
        """The rows of one session, missing values as None."""
        return self._read(self._path(table, session.site, session.month, session.session))

    def frame(self, table: str, site: str = '*') -> pandas.DataFrame:
        """A table over the whole history of a site, or of all sites, with the columns `site` and `month`."""
        return self._query(self.folder / table / f'site={site}' / '*' / '*.parquet').df()

    def _path(self, table: str, site: str, month: str, session: str) -> Path:
        return self.folder / table / f'site={site}' / f'month={month}' / f'{session}.parquet'

    def _read(self, files: Path) -> list[dict[str, Any]]:
        return self._query(files).to_arrow_table().to_pylist()

    def _query(self, files: Path) -> duckdb.DuckDBPyRelation:
        # autocast off: a month or a site named 2024 is text
        query = 'FROM read_parquet(?, hive_partitioning=true, hive_types_autocast=false, union_by_name=true)'
        try:
            return self._connection.sql(query, params=[str(files)])
        except duckdb.Error as error:
            raise InputError(f'{files}: cannot be read: {str(error).splitlines()[0]}') from None

# SPDX-License-Identifier: BSD-3-Clause
"""The results store: Parquet files below a results directory, read with pyarrow, and across sessions with DuckDB.

``<results>/store/<table>/site=<site>/month=YYYY-MM/<file>.parquet``; times are UTC. A session is one file in each
table, named by its uuid. The file of the table `sessions` is put in place last, so a session whose writing was cut
short does not exist. Files are not rewritten until their month is over; then `compact` combines the sessions of the
month. There are no locks: any number of processes, on any hosts that share the file system, may read, add and compact.
Between the writing of a compacted file and the removal of the old files, sessions exist twice; then the file with the
most sessions counts.

A session that a person took out keeps its rows in these files; ``<results>/store/forgotten/site=<site>/<uuid>.json``
says why, and as long as this file exists, no method but `forgotten` returns the session.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.clock import is_ahead
from plumbline.errors import InputError, SiteError, did_you_mean
from plumbline.files import write_text, write_whole
from plumbline.identity import short_name
from plumbline.paths import is_elsewhere
from plumbline.problems import Problem
from plumbline.site.sites import name_of_this_site
from postprocess.results import judged
from postprocess.results.rows import CaseRow, MetricRow, typed
from postprocess.results.tables import (
    JUDGED,
    SCHEMA,
    TABLES,
    Gone,
    RunReport,
    listed,
    opened,
    read_table,
    table_of,
    with_sums,
    write_table,
)

if TYPE_CHECKING:
    import duckdb

_TOGETHER = 'together-'  # beginning of the names of files with several sessions
_CASES_AT_ONCE = 20_000  # most cases of several sessions whose rows are in memory at once
_ROWS_AT_ONCE = 50_000  # of a result that is read in portions
_Result = TypeVar('_Result')


@dataclass(frozen=True)
class Session:
    """One stored session. `ran`: cases of its report; `expected`: cases that should have run, None if not known.

    `selection`: what was asked for, each as ``option=value`` with ReFrame's long name of the option, such as
    ``name=Osu``; `narrowed_by`: the options that left out cases of the mode. `source`: where `report` came from:
    ``report``, ``database``; of another suite ``other report``, ``other database``, ``perflog``. `file`: the name of
    the files of the month that hold the session. `problem_facts`: JSON of those of `problems` that have facts.
    """

    site: str
    month: str
    file: str
    schema: int
    session: str
    started: datetime
    ended: datetime
    hostname: str
    user: str | None
    reframe: str
    mode: str | None
    cmdline: str
    selection: list[str]
    narrowed_by: list[str]
    runs: int
    ran: int
    expected: int | None
    problems: list[str]
    report: str
    report_sha256: str
    source: str
    problem_facts: str | None = None

    @property
    def stored_problems(self) -> list[Problem]:
        """What went wrong outside the cases, as `ci` and the reader of its report found it."""
        facts = {
            fact['text']: Problem(**fact | {'nodes': (*fact['nodes'],)})
            for fact in json.loads(self.problem_facts or '[]')
        }
        return [facts.get(text, Problem(text)) for text in self.problems]

    @property
    def short_name(self) -> str:
        """The part of its uuid that names it."""
        return short_name(self.session)

    @property
    def day(self) -> str:
        """The day on which the session started, UTC."""
        return f'{self.started:%Y-%m-%d}'

    @property
    def is_of_another_suite(self) -> bool:
        """True if the session ran with another ReFrame configuration than ours, with tests of others or our checks."""
        return self.source not in ('report', 'database')

    @property
    def epoch(self) -> int:
        """When the session started, in seconds since 1970, independent of the time zone of this machine."""
        return int(self.started.replace(tzinfo=timezone.utc).timestamp())

    @property
    def partition(self) -> str | None:
        """The partition that was asked for; None unless it was exactly one."""
        system = next((word for word in self.selection if word.startswith('system=')), '')
        return system.partition(':')[2] or None


@dataclass(frozen=True)
class Forgotten:
    """A session that was taken out of the store: `why`, `by` whom, and on which `day`, UTC."""

    site: str
    session: str
    why: str
    by: str
    day: str

    def __str__(self) -> str:
        by = f' by {self.by}' if self.by else ''
        return f'session {self.session} of {self.site} was forgotten on {self.day}{by}: {self.why}'


class ForgottenError(InputError):
    """A session is asked for, or ingested again, that was taken out of the store."""


class Store:
    """The store below a results directory. All methods raise InputError if a file cannot be read or written."""

    def __init__(self, results: Path):
        self.folder = results / 'store'
        self._usable: set[Path] = set()  # files that could be opened
        self._read: dict[Path, tuple[Any, list[Session]]] = {}

    # Writing

    def add(self, report: RunReport) -> bool:
        """Write a session; return False if the store already has it, from the same report or another source.

        A later report of a stored session, in which cases have run again, replaces the earlier one. Raises
        ForgottenError for a session that was taken out.
        """
        row = report.session
        session, month = row['session'], f'{row["started"]:%Y-%m}'
        for forgotten in self.forgotten(report.site):
            if forgotten.session == session:
                raise self._gone(forgotten)
        stored = [
            stored_session
            for stored_session in self.sessions(report.site, name=session)
            if stored_session.session == session
        ]
        if stored:
            same_source = row['source'] == stored[0].source and row['report_sha256'] != stored[0].report_sha256
            if same_source and (row['runs'] <= stored[0].runs or stored[0].file != session):
                raise InputError(
                    f'{row["report"]}: the store holds another report of session {session}; nothing was changed '
                    f'(to replace it, remove {self._path("sessions", stored[0])})'
                )
            if not same_source:
                return False
        tables = {}
        rows = {'samples': report.samples, 'metrics': report.metrics, 'cases': report.cases, 'sessions': [row]}
        for table in TABLES:
            try:
                tables[table] = table_of(table, session, rows[table])
            except (TypeError, ValueError, OverflowError) as error:  # Arrow's errors are of these kinds
                raise InputError(f'{row["report"]}: a value does not fit the table {table}: {error}') from None
        self.write(report.site, month, session, tables)
        return True

    def write(self, site: str, month: str, file: str, tables: dict[str, pa.Table]) -> None:
        """Write tables to their files, either all or none."""
        write = {self._file(table, site, month, file): partial(write_table, tables[table]) for table in TABLES}
        write_whole(with_sums(write))

    def compact(self, site: str) -> list[str]:
        """Combine the sessions of each month except the last into one file; return these months."""
        done = []
        months = sorted({_place(path)[1] for path in self.files(site)})
        for month in months[:-1]:
            before = self.files(site, month)
            try:
                sessions = self._every(site, month)
                if len(before) < 2:
                    continue
                names = ' '.join(sorted(session.session for session in sessions))
                file = _TOGETHER + hashlib.sha256(names.encode()).hexdigest()[:16]
                paths = {table: self._file(table, site, month, file) for table in TABLES}
                write_whole(
                    with_sums({path: partial(self._write_together, of, sessions) for of, path in paths.items()})
                )
            except (Gone, InputError):  # another process compacts this month, or a file is damaged: reading reports it
                continue
            for path in before:
                if path.stem != file:
                    for table in reversed(TABLES):
                        self._file(table, site, month, path.stem).unlink(missing_ok=True)
                    path.with_suffix('.sums').unlink(missing_ok=True)
            done.append(month)
        return done

    def forget(self, session: Session, why: str, by: str, day: str) -> None:
        """Take a session out; its rows stay in their files, for `restore`."""
        facts = {'why': why, 'by': by, 'day': day}
        write_text(self._note(session.site, session.session), json.dumps(facts, ensure_ascii=False) + '\n')

    def restore(self, forgotten: Forgotten) -> None:
        """Undo `forget`."""
        try:
            self._note(forgotten.site, forgotten.session).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f'{error.filename}: cannot be removed: {error.strerror}') from None

    def forgotten(self, site: str = '*') -> list[Forgotten]:
        """Return the sessions that were taken out, sorted by site and uuid."""
        found = []
        folders = [path for path in listed(self.folder / 'forgotten') if fnmatchcase(path.name, f'site={site}')]
        for path in sorted(path for folder in folders for path in listed(folder) if path.suffix == '.json'):
            try:
                facts = json.loads(path.read_bytes())
                found.append(Forgotten(path.parent.name.partition('=')[2], path.stem, **facts))
            except FileNotFoundError:  # restored meanwhile
                continue
            except (OSError, ValueError, TypeError) as error:
                raise InputError(
                    f'{path}: cannot be read: {error}; it says why a session was forgotten: repair it, or remove it to '
                    'restore the session'
                ) from None
        return found

    def _note(self, site: str, session: str) -> Path:
        """Return the file that says why a session was taken out."""
        return self.folder / 'forgotten' / f'site={site}' / f'{session}.json'

    def _gone(self, forgotten: Forgotten) -> ForgottenError:
        """Return the error for a session that was taken out, with the command that brings it back."""
        back = self.command(f'store forget {short_name(forgotten.session)} --restore', forgotten.site)
        return ForgottenError(f'{forgotten}; {back} brings it back')

    def _write_together(self, table: str, sessions: list[Session], stream: BinaryIO) -> None:
        """Write the rows of `sessions`, in portions that fit into memory.

        Each session is a row group of its own, so that it can be read alone.
        """
        with pq.ParquetWriter(stream, TABLES[table], write_page_checksum=True) as writer:
            for _, some in portions(sessions):
                for rows in self._tables(table, some):
                    writer.write_table(rows)

    # Reading

    def files(self, site: str = '*', month: str = '*') -> list[Path]:
        """Return the files of the table `sessions`, sorted by site, month and name."""
        folders = [self.folder / 'sessions']
        for wanted in (f'site={site}', f'month={month}', '*.parquet'):
            folders = [path for folder in folders for path in listed(folder) if fnmatchcase(path.name, wanted)]
        return sorted(folders)

    def find(self, name: str = 'latest', site: str | None = None) -> Session:
        """Return the session whose uuid begins with `name`, or the latest; of `site` if that is given.

        If the store has several sites, the latest session is that of this host's site.
        """
        sites = [known for known in self.sites() if site in (None, known)]
        if name == 'latest':
            if len(sites) > 1:
                with suppress(SiteError):
                    sites = [known for known in sites if known == name_of_this_site()] or sites
            if len(sites) > 1:
                raise InputError(f'{self.folder}: holds several sites, {", ".join(sites)}: name one with --site')
            sessions = [session for known in sites for session in self._latest(known)]
        elif not name:
            raise InputError('expected the beginning of the uuid of a session or "latest", found nothing')
        else:
            sessions = [session for known in sites for session in self.sessions(known, name=name)]
        if len(sessions) > 1:
            uuids = ', '.join(sorted(f'{session.session} of {session.site}' for session in sessions))
            raise InputError(f'{name!r} is the beginning of several sessions: {uuids}')
        for forgotten in self.forgotten(site or '*') if not sessions and name != 'latest' else ():
            if forgotten.session.startswith(name):
                raise self._gone(forgotten)
        if not sessions:
            wanted = 'no session' if name == 'latest' else f'no session whose uuid begins with {name!r}'
            of_site = f' of site {site}' if site else ''
            if site and not sites:
                of_site += did_you_mean(site, self.sites())
            hint = 'run ci/nightly, or `plumbline ingest REPORT`' if not self.sites() else ''
            if re.match(r'\d{4}-\d\d-', name):
                hint = 'that is no uuid; days are FROM..TO, such as 2026-11-01..2026-11-30'
            raise InputError(f'{self.folder}: holds {wanted}{of_site}{hint and ": " + hint}')
        return sessions[0]

    def _latest(self, site: str) -> list[Session]:
        """Return the session that started last.

        A session from the future, by a wrong clock, only if there is no other.
        """
        for month in sorted({_place(path)[1] for path in self.files(site)}, reverse=True):
            if sessions := [session for session in self.sessions(site, month) if not is_ahead(session.started)]:
                return sessions[-1:]
        return self.sessions(site)[-1:]

    def sites(self) -> list[str]:
        """Return the names of the sites that have sessions."""
        sites = sorted({_place(path)[0] for path in self.files()})
        perhaps_empty = {forgotten.site for forgotten in self.forgotten()}
        return [site for site in sites if site not in perhaps_empty or self.sessions(site)]

    def command(self, words: str, site: str, root: Path | None = None) -> str:
        """Return a command to type, with the options that it needs to use these results and references."""
        results = self.folder.parent
        options = [f'--results={results.absolute()}'] if is_elsewhere(results) else []
        options += [f'--site={site}'] if len(self.sites()) > 1 else []
        options += [f'--references={root}'] if root else []
        return f'`{shlex.join(["plumbline", *shlex.split(words), *options])}`'

    def history(self, last: Session, days: int | None = None) -> list[Session]:
        """Return the sessions of a site up to `last`, in the order in which they started.

        With `days`, only the last ones.
        """
        sessions = [session for session in self.sessions(last.site) if _order(session) <= _order(last)]
        since = last.started - timedelta(days=days) if days else datetime.min
        return [session for session in sessions if session.started > since]

    def reports_up_to(self, last: Session) -> Iterator[str]:
        """Yield what identifies the sessions up to `last` and the reports that each was stored from.

        Of the months before, the files are not read: each is identified by its name, size and time.
        """
        for path in self.files(last.site):
            if _place(path)[1] < last.month:
                with suppress(FileNotFoundError):  # another process compacts its month
                    now = path.stat()
                    yield f'{path.parent.name}/{path.name} {now.st_size} {now.st_mtime_ns}'
        for one in self.sessions(last.site, last.month):
            if _order(one) <= _order(last):
                yield f'{one.session} {one.runs} {one.report_sha256}'
        if out := {forgotten.session for forgotten in self.forgotten(last.site)}:
            for one in self._every(last.site):
                if one.session in out and _order(one) <= _order(last):
                    yield f'{one.session} forgotten'

    def rows(self, table: str, session: Session) -> list[dict[str, Any]]:
        """Return the rows of one session, missing values as None."""
        return self._follow([session], lambda sessions: next(self._tables(table, sessions)).to_pylist())

    def cases(self, session: Session) -> list[CaseRow]:
        """Return the rows of the cases of one session."""
        return typed(CaseRow, self.rows('cases', session))

    def metrics(self, session: Session) -> list[MetricRow]:
        """Return the rows of the metrics of one session."""
        return typed(MetricRow, self.rows('metrics', session))

    def query(self, sql: str, sessions: Sequence[Session], **more: dict[str, list[Any]]) -> pa.Table:
        """Return the result of a query in DuckDB's SQL over the tables, which hold only the rows of `sessions`.

        Every row also has `site`, `month` and `night`, the index of its session in `sessions`. A number counts if
        ``metrics.status = 'measured'``. `more`: further tables, name -> column -> values.
        """
        return self._follow(list(sessions), partial(self._query, sql, more, self._as_table))

    def query_portions(self, sql: str, sessions: Sequence[Session], **more: dict[str, list[Any]]) -> Iterator[pa.Table]:
        """Yield the result of a query for each portion of `sessions`, in memory that does not grow with their number.

        `night` is the index in all `sessions`. Only for queries that ask for nothing across sessions.
        """
        for begin, some in portions(sessions) if sessions else [(0, sessions)]:
            yield self._follow(list(some), partial(self._query, sql, more, self._as_table, begin=begin))

    def stream(self, sql: str, sessions: Sequence[Session]) -> Iterator[pa.Table]:
        """Yield the result of a query over all `sessions` in portions; what does not fit into memory waits on disk."""

        def begun(sql: str) -> Iterator[pa.RecordBatch]:
            """Return the rows of a query that has read its files."""
            batches = self._duckdb.sql(sql).to_arrow_reader(_ROWS_AT_ONCE)
            return chain([*islice(batches, 1)], batches)

        for batch in self._follow(list(sessions), partial(self._query, sql, {}, begun)):
            yield pa.Table.from_batches([batch])

    def select(self, sql: str, sessions: Sequence[Session], **more: dict[str, list[Any]]) -> list[dict[str, Any]]:
        """Return the rows of a query, see `query`; for few rows this is a third faster."""
        return self._follow(list(sessions), partial(self._query, sql, more, self._as_rows))

    def _as_table(self, sql: str) -> pa.Table:
        return self._duckdb.sql(sql).to_arrow_table()

    def _as_rows(self, sql: str) -> list[dict[str, Any]]:
        result = self._duckdb.execute(sql)  # binds the query once, `sql` twice
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def _query(
        self, sql: str, more: dict[str, dict[str, list[Any]]], run: Callable[[str], _Result], sessions: list[Session],
        begin: int = 0,
    ) -> _Result:  # fmt: skip
        """Return the result of a query, once; `begin`: `night` of the first of `sessions`.

        Raises Gone if a file was compacted meanwhile, InputError.
        """
        import duckdb

        nights = {name: [getattr(session, name) for session in sessions] for name in ('session', 'site', 'month')}
        try:
            # Not tables of pyarrow: DuckDB would import pandas for them, which takes longer than the query
            places = {'night': list(range(begin, begin + len(sessions)))}
            for name, columns in (more | {'nights': nights | places}).items():
                selected = ', '.join(f'unnest(?) AS "{column}"' for column in columns)
                self._duckdb.execute(f'CREATE OR REPLACE TEMP TABLE {name} AS SELECT {selected}', [*columns.values()])
            parts = []
            for table in (*TABLES, *JUDGED):
                if re.search(rf'\b(FROM|JOIN)\s+{table}\b', sql, re.IGNORECASE):
                    for path in self._paths(table, sessions) - self._usable:
                        if table in JUDGED:
                            judged.read_whole(path)  # DuckDB verifies no checksum
                        with opened(path):  # DuckDB would read a foreign file as one without rows of these sessions
                            self._usable.add(path)
                    rows = self._select(table, sessions)
                    # not materialized: a query reads the columns that it names; not a view, which is bound once more
                    parts.append(f'{table} AS NOT MATERIALIZED (FROM ({rows}) JOIN nights USING (session))')
            return run(_with(parts, sql))
        except duckdb.IOException as error:
            raise Gone(f'{self.folder}: cannot be read: {str(error).splitlines()[0]}') from None
        except duckdb.Error as error:
            raise InputError(f'{self.folder}: cannot be read: {str(error).splitlines()[0]}') from None

    def _select(self, table: str, sessions: list[Session]) -> str:
        """Return a query for the rows of `sessions`."""
        paths = self._paths(table, sessions)
        if table == 'sessions' or not paths:
            known = [vars(session) for session in sessions] if table == 'sessions' else []
            self._duckdb.register(f'of_{table}', pa.Table.from_pylist(known, (TABLES | JUDGED)[table]))
            return f'FROM of_{table}'
        if table in JUDGED:
            names = ', '.join(sorted(quoted(str(path)) for path in paths))
            return f'FROM read_parquet([{names}], hive_partitioning=false, union_by_name=true)'
        return self._from_files(table, sessions)

    def _paths(self, table: str, sessions: Sequence[Session]) -> set[Path]:
        """Return the files of `sessions` in a table; in one of `JUDGED`, of the sessions that were judged."""
        if table in JUDGED:
            return {path for session in sessions if (path := judged.path_of(self, table, session)).exists()}
        return {self._path(table, session) for session in sessions}

    def _from_files(self, table: str, sessions: list[Session]) -> str:
        """Return a query for the rows in the files of `sessions`."""
        chosen: dict[Path, set[str]] = {}
        for session in sessions:
            chosen.setdefault(self._path(table, session), set()).add(session.session)
        paths = ', '.join(sorted(quoted(str(path)) for path in chosen))
        all_of = {session.session for session in sessions}
        # if files of several sessions overlap, as after two stores were copied into one, each row counts once
        doubled = [
            f'(filename = {quoted(str(path))} AND session IN ({", ".join(map(quoted, sorted(others)))}))'
            for path, own in sorted(chosen.items())
            if path.name.startswith(_TOGETHER) and (others := (self._names_in(path) & all_of) - own)
        ]
        options = 'hive_partitioning=false, union_by_name=true'  # files of an earlier version lack a column
        rows = f'FROM read_parquet([{paths}], {options})'
        if doubled:
            rows = f'FROM read_parquet([{paths}], {options}, filename=true)'
            rows = f'SELECT * EXCLUDE (filename) {rows} WHERE NOT ({" OR ".join(doubled)})'
        return f'{rows} UNION ALL BY NAME SELECT NULL::VARCHAR AS causes WHERE false' if table == 'cases' else rows

    def _names_in(self, path: Path) -> set[str]:
        """Return the uuids of the sessions in a file of any table."""
        index = self.folder / 'sessions' / Path(*path.parts[-3:])
        return {session.session for session in self._sessions_in(index)}

    @cached_property
    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        """The connection of this store to the database of the process."""
        return _instance().cursor()

    def _tables(self, table: str, sessions: Sequence[Session]) -> Iterator[pa.Table]:
        """Yield the rows of each of `sessions`."""
        for session in sessions:
            alone = not session.file.startswith(_TOGETHER)
            yield read_table(self._path(table, session), None if alone else session.session)

    def sessions(self, site: str, month: str = '*', name: str = '') -> list[Session]:
        """Return the sessions in the order in which they started; `name`: the beginning of their uuid."""
        out = {(forgotten.site, forgotten.session) for forgotten in self.forgotten(site)}
        return [one for one in self._every(site, month, name) if (one.site, one.session) not in out]

    def _every(self, site: str, month: str = '*', name: str = '') -> list[Session]:
        """Return the sessions with those that were taken out."""

        def read(_: object) -> list[Session]:
            """Return the sessions in the present files."""
            files = [path for path in self.files(site, month) if path.name.startswith((name, _TOGETHER))]
            sessions: dict[tuple[str, str], Session] = {}
            for stored in sorted(map(self._sessions_in, files), key=len, reverse=True):
                for session in stored:
                    if session.session.startswith(name):
                        sessions.setdefault((session.site, session.session), session)
            return sorted(sessions.values(), key=_order)

        return self._follow([], read)

    def _sessions_in(self, path: Path) -> list[Session]:
        """Return the sessions in a file of the table `sessions`; a file that did not change is read only once."""
        try:
            now = path.stat()
        except OSError:
            now = None
        state = now and (now.st_ino, now.st_mtime_ns, now.st_size)
        if path not in self._read or self._read[path][0] != state:
            rows = read_table(path).to_pylist()
            self._read[path] = state, [Session(*_place(path), path.stem, **_known(row)) for row in rows]
        return self._read[path][1]

    def _follow(self, sessions: list[Session], action: Callable[[list[Session]], _Result]) -> _Result:
        """Return ``action(sessions)``; if another process compacted them meanwhile, repeat it with their new files."""
        for _ in range(20):  # several processes may compact month after month
            try:
                return action(sessions)
            except Gone as gone:
                message = str(gone)
                now = {(s.site, s.session): s for site in {s.site for s in sessions} for s in self.sessions(site)}
                sessions = [now.get((session.site, session.session), session) for session in sessions]
        raise InputError(message)

    def _path(self, table: str, session: Session) -> Path:
        """Return the file of a session in a table."""
        return self._file(table, session.site, session.month, session.file)

    def _file(self, table: str, site: str, month: str, file: str) -> Path:
        """Return the path of a file of a table."""
        return self.folder / table / f'site={site}' / f'month={month}' / f'{file}.parquet'


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """Return the only DuckDB database of this process, because each one takes 35 ms to start."""
    import duckdb

    # What does not fit into memory goes to files, by default in the current directory. Not all cores are used: a login
    # node is shared, and hundreds of threads would also share the memory.
    threads = min(4, os.cpu_count() or 1)
    database = duckdb.connect(config={'memory_limit': '1GB', 'temp_directory': _own_folder(), 'threads': threads})
    database.execute('SET parquet_metadata_cache = true')  # the queries of a command read the same files
    return database


def portions(sessions: Sequence[Session]) -> Iterator[tuple[int, Sequence[Session]]]:
    """Yield the sessions in portions whose rows fit into memory, each with the index of its first session."""
    begin, cases = 0, 0
    for end, session in enumerate(sessions, start=1):
        cases += session.ran
        if cases > _CASES_AT_ONCE or end == len(sessions):
            yield begin, sessions[begin:end]
            begin, cases = end, 0


def _own_folder() -> str:
    """Return a folder below /tmp that only this user may enter, because DuckDB's files there may be read by all."""
    folder = Path(tempfile.gettempdir(), f'plumbline-{os.getuid()}')
    with suppress(OSError):
        folder.mkdir(0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return str(folder)
    return tempfile.mkdtemp(prefix='plumbline-')  # another user was first


def _with(parts: list[str], sql: str) -> str:
    """Return a query that begins with further parts of ``WITH``."""
    body = re.sub(r'\A(\s*--.*\n)*\s*', '', sql)
    own = re.match(r'WITH\b', body, re.IGNORECASE)
    return f'WITH {", ".join(parts)}{f", {body[own.end() :]}" if own else f" {body}"}' if parts else sql


def _place(path: Path) -> tuple[str, str]:
    """Return the site and month of a file, from its path."""
    site, month = (folder.partition('=')[2] for folder in path.parts[-3:-1])
    return site, month


def _order(session: Session) -> tuple[datetime, str]:
    """Return the sort key of a session."""
    return session.started, session.session


def quoted(text: str) -> str:
    """Return `text` as a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table `sessions`. Raises InputError for a row of a later schema."""
    if row['schema'] > SCHEMA:
        raise InputError(
            f'session {row["session"]} was stored with schema {row["schema"]}, this version knows up to {SCHEMA}: '
            'update Plumbline'
        )
    return row

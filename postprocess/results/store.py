# SPDX-License-Identifier: BSD-3-Clause
"""The results store: Parquet files below a results directory, read with pyarrow, and across sessions with DuckDB.

``<results>/store/<table>/site=<site>/month=YYYY-MM/<uuid>.parquet``; times are UTC. A session is one file in each
table, found by listing. Its file of the table `sessions` is put in place last, so a session whose writing was cut short
does not exist. There are no locks: any number of processes, on any hosts that share the file system, may read and add.

A session that a person took out keeps its files; ``<results>/store/forgotten/site=<site>/<uuid>.json`` says why, and as
long as this file exists, no method but `forgotten` returns the session.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from plumbline.clock import is_ahead
from plumbline.errors import InputError, SiteError, did_you_mean
from plumbline.files import write_text
from plumbline.identity import from_text, short_name
from plumbline.paths import is_elsewhere
from plumbline.site.sites import name_of_this_site
from postprocess.results import judged
from postprocess.results.database import instance, quoted
from postprocess.results.files import (
    listed,
    path_of,
    place_of,
    read_session,
    read_table,
    sessions_to_arrow,
    to_arrow,
    verify,
    write_session,
)
from postprocess.results.rows import CaseRow, MetricRow, Samples, SessionRows, typed, typed_row
from postprocess.results.rows import Session as Session
from postprocess.results.tables import JUDGED, OF_CASES, RELATIONS, TABLES

if TYPE_CHECKING:
    import duckdb

_CASES_AT_ONCE = 40_000  # most cases of several sessions whose rows are in memory at once: 90 nights of 400
_ROWS_AT_ONCE = 50_000  # of a result that is read in portions
_NAMED = re.compile(r'(?:\bFROM|\bJOIN|,)\s+(\w+)', re.IGNORECASE)  # the tables of a query, and maybe columns


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
        self._usable: set[Path] = set()  # files that are verified

    # Writing

    def add(self, rows: SessionRows) -> bool:
        """Write a session; return False if the store already has it, from the same report or another source.

        A later report of a stored session, in which cases have run again, replaces the earlier one. Raises
        ForgottenError for a session that was taken out.
        """
        new = rows.session
        for forgotten in self.forgotten(new.site):
            if forgotten.session == new.session:
                raise self._gone(forgotten)
        index = self.path('sessions', new)
        for stored in self.sessions(new.site, name=new.session):
            if stored.session != new.session:
                continue
            if new.source != stored.source or new.report_sha256 == stored.report_sha256:
                return False
            if new.runs <= stored.runs:
                raise InputError(
                    f'{new.report}: the store holds another report of session {new.session}; nothing was changed '
                    f'(to replace it, remove {index})'
                )
        table, tables = '', {}
        try:
            for table in OF_CASES:
                tables[table] = to_arrow(table, new.session, rows.columns(table))
            table = 'sessions'
            write_session(index, new, tables)
        except InputError:
            raise
        except (TypeError, ValueError, OverflowError) as error:  # Arrow's errors are of these kinds
            raise InputError(f'{new.report}: a value does not fit the table {table}: {error}') from None
        return True

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

    # Reading

    def files(self, site: str = '*', month: str = '*', table: str = 'sessions') -> list[Path]:
        """Return the files of a table, sorted by site, month and name."""
        folders = [self.folder / table]
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
        for month in sorted({place_of(path)[1] for path in self.files(site)}, reverse=True):
            if sessions := [session for session in self.sessions(site, month) if not is_ahead(session.started)]:
                return sessions[-1:]
        return self.sessions(site)[-1:]

    def sites(self) -> list[str]:
        """Return the names of the sites that have sessions."""
        sites = sorted({place_of(path)[0] for path in self.files()})
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
        sessions = [session for session in self.sessions(last.site) if session.key <= last.key]
        since = last.started - timedelta(days=days) if days else datetime.min
        return [session for session in sessions if session.started > since]

    def reports_up_to(self, last: Session) -> Iterator[str]:
        """Yield what identifies the sessions up to `last` and the reports that each was stored from.

        Of the months before, the files are not read: each is identified by its name, size and time.
        """
        for path in self.files(last.site):
            if place_of(path)[1] < last.month:
                with suppress(FileNotFoundError):  # a repair has moved it
                    now = path.stat()
                    yield f'{path.parent.name}/{path.name} {now.st_size} {now.st_mtime_ns}'
        for one in self.sessions(last.site, last.month):
            if one.key <= last.key:
                yield f'{one.session} {one.runs} {one.report_sha256}'
        if out := {forgotten.session for forgotten in self.forgotten(last.site)}:
            for one in self._every(last.site):
                if one.session in out and one.key <= last.key:
                    yield f'{one.session} forgotten'

    def cases(self, session: Session) -> list[CaseRow]:
        """Return the rows of the cases of one session."""
        return typed(CaseRow, read_table(self.path('cases', session)))

    def rows(self, session: Session) -> SessionRows:
        """Return the rows of one session, without its samples."""
        metrics = typed(MetricRow, read_table(self.path('metrics', session)))
        return SessionRows(session, cases=self.cases(session), metrics=metrics)

    def samples(self, session: Session, cases: Iterable[int]) -> Samples:
        """Return every sample of some cases of one session, of a series sorted by node and trial."""
        sql = """
            SELECT case_id, metric, dims, list((trial, node, value) ORDER BY node, trial)
            FROM samples JOIN wanted USING (case_id) GROUP BY case_id, metric, dims
        """
        rows = self.select(sql, [session], wanted={'case_id': list(cases)})
        return {(case, metric, from_text(dims)): samples for case, metric, dims, samples in map(dict.values, rows)}

    def query(self, sql: str, sessions: Sequence[Session], **more: dict[str, list[Any]]) -> pa.Table:
        """Return the result of a query in DuckDB's SQL over the tables, which hold only the rows of `sessions`.

        Every row also has `site`, `month` and `night`, the index of its session in `sessions`. The numbers that count
        are in `measured`, see `postprocess.results.tables.RELATIONS`. `more`: further tables, name -> column -> values;
        a column `id` with series or cases is the columns of their identity.
        """
        with self._prepared(sql, sessions, more) as whole:
            return self._duckdb.sql(whole).to_arrow_table()

    def query_portions(self, sql: str, sessions: Sequence[Session]) -> Iterator[pa.Table]:
        """Yield the result of a query for each portion of `sessions`, in memory that does not grow with their number.

        `night` is the index in all `sessions`. Only for queries that ask for nothing across sessions.
        """
        for begin, some in portions(sessions) if sessions else [(0, sessions)]:
            with self._prepared(sql, some, {}, begin) as whole:
                table = self._duckdb.sql(whole).to_arrow_table()
            yield table

    def stream(self, sql: str, sessions: Sequence[Session]) -> Iterator[pa.Table]:
        """Yield the result of a query over all `sessions` in portions; what does not fit into memory waits on disk."""
        with self._prepared(sql, sessions, {}) as whole:
            batches = self._duckdb.sql(whole).to_arrow_reader(_ROWS_AT_ONCE)
            first = [*islice(batches, 1)]  # for which the files are read
        for batch in chain(first, batches):
            yield pa.Table.from_batches([batch])

    def select(self, sql: str, sessions: Sequence[Session], **more: dict[str, list[Any]]) -> list[dict[str, Any]]:
        """Return the rows of a query, see `query`, as `typed_row` returns them; for few rows this is a third faster."""
        with self._prepared(sql, sessions, more) as whole:
            result = self._duckdb.execute(whole)  # binds the query once, `sql` twice
            names = [column[0] for column in result.description or ()]
            return [typed_row(dict(zip(names, row, strict=True))) for row in result.fetchall()]

    @contextmanager
    def _prepared(
        self, sql: str, sessions: Sequence[Session], more: dict[str, dict[str, list[Any]]], begin: int = 0
    ) -> Iterator[str]:
        """Yield the whole SQL of a query, to be run within; `begin`: `night` of the first of `sessions`."""
        import duckdb

        nights = {name: [getattr(session, name) for session in sessions] for name in ('session', 'site', 'month')}
        try:
            # Not tables of pyarrow: DuckDB would import pandas for them, which takes longer than the query
            places = {'night': list(range(begin, begin + len(sessions)))}
            for name, given in (more | {'nights': nights | places}).items():
                columns = _named(given)
                selected = ', '.join(f'unnest(?) AS "{column}"' for column in columns)
                self._duckdb.execute(f'CREATE OR REPLACE TEMP TABLE {name} AS SELECT {selected}', [*columns.values()])
            named = {*_NAMED.findall(sql)}
            for relation in reversed(RELATIONS):
                named |= {*_NAMED.findall(RELATIONS[relation])} if relation in named else set()
            # not materialized: a query reads the columns that it names; not views, which are bound once more
            parts = [
                f'{table} AS NOT MATERIALIZED (FROM ({self._select(table, sessions)}) JOIN nights USING (session))'
                for table in (*TABLES, *JUDGED)
                if table in named
            ]
            parts += [f'{name} AS NOT MATERIALIZED ({own})' for name, own in RELATIONS.items() if name in named]
            yield f'WITH {", ".join(parts)} FROM ({sql})' if parts else sql
        except duckdb.Error as error:
            raise InputError(f'{self.folder}: cannot be read: {str(error).splitlines()[0]}') from None

    def _select(self, table: str, sessions: Sequence[Session]) -> str:
        """Return a query for the rows of `sessions`, whose files are verified: DuckDB itself verifies no checksum."""
        if table == 'sessions':
            self._duckdb.register('of_sessions', sessions_to_arrow(sessions))
            return 'FROM of_sessions'
        paths = [self.path(table, session) for session in sessions]
        if table in JUDGED:
            paths = [path for path in paths if path.exists()]
        for path in {*paths} - self._usable:
            judged.read_whole(path) if table in JUDGED else verify(path)
            self._usable.add(path)
        # with the columns that files of an earlier version lack; `Schema.empty_table` would import pandas
        self._duckdb.register(f'no_{table}', pa.Table.from_batches([], (TABLES | JUDGED)[table]))
        if not paths:
            return f'FROM no_{table}'
        names = ', '.join(quoted(str(path)) for path in paths)
        rows = f'FROM read_parquet([{names}], hive_partitioning=false, union_by_name=true)'
        return f'{rows} UNION ALL BY NAME FROM no_{table}'

    @cached_property
    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        """The connection of this store to the database of the process."""
        return instance().cursor()

    def sessions(self, site: str, month: str = '*', name: str = '') -> list[Session]:
        """Return the sessions in the order in which they started; `name`: the beginning of their uuid."""
        out = {(forgotten.site, forgotten.session) for forgotten in self.forgotten(site)}
        return [one for one in self._every(site, month, name) if (one.site, one.session) not in out]

    def _every(self, site: str, month: str = '*', name: str = '') -> list[Session]:
        """Return the sessions with those that were taken out."""
        paths = [path for path in self.files(site, month) if path.name.startswith(name)]
        return sorted(map(read_session, paths), key=lambda session: session.key)

    def path(self, table: str, session: Session) -> Path:
        """Return the file of a session in a table."""
        return path_of(self.folder, table, session.site, session.month, session.session)


def _named(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return a further table of a query, with the columns of an identity in place of `id`."""
    columns = dict(table)
    ids = [id.to_row() for id in columns.pop('id', ())]
    return columns | {name: [of[name] for of in ids] for name in (ids[0] if ids else ())}


def portions(sessions: Sequence[Session]) -> Iterator[tuple[int, Sequence[Session]]]:
    """Yield the sessions in portions whose rows fit into memory, each with the index of its first session."""
    begin, cases = 0, 0
    for end, session in enumerate(sessions, start=1):
        cases += session.ran
        if cases > _CASES_AT_ONCE or end == len(sessions):
            yield begin, sessions[begin:end]
            begin, cases = end, 0

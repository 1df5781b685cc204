# SPDX-License-Identifier: BSD-3-Clause
"""The Parquet files of the store: ``<table>/site=<site>/month=YYYY-MM/<uuid>.parquet``, written once and verified.

Parquet's own checksums cover pages and not the footer. The row of a session therefore holds in `checksums` those of the
whole files of its other tables, and under ``sessions`` the one of the row itself. A file of what was judged holds its
own in its metadata, after `SEAL`. Each error names the file.
"""

from __future__ import annotations

import io
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import write_whole
from plumbline.problems import Problem
from postprocess.results.rows import Session
from postprocess.results.tables import JUDGED, SCHEMA, TABLES

_CHANGED = 'its bytes are not those that were written'
SEAL = b'crc32 of the whole file: '
#: Value of the metadata of a file that `sealed` completes.
UNSEALED = SEAL + b'00000000'
_State = tuple[int, int, int]  # inode, time and size of a file
_verified: dict[Path, _State] = {}  # file that this process has verified
_sessions: dict[Path, tuple[_State, Session]] = {}  # file of the table sessions -> its row


def path_of(store: Path, table: str, site: str, month: str, session: str) -> Path:
    """Return the file of a session in a table of the folder `store`."""
    return store / table / f'site={site}' / f'month={month}' / f'{session}.parquet'


def place_of(path: Path) -> tuple[str, str]:
    """Return the site and month of a file, from its path."""
    site, month = (folder.partition('=')[2] for folder in path.parts[-3:-1])
    return site, month


def in_table(path: Path, table: str) -> Path:
    """Return the file of the same session in another table."""
    return path.parents[3] / table / Path(*path.parts[-3:])


def listed(folder: Path) -> list[Path]:
    """Return the paths in a folder; none if it does not exist.

    Raises InputError, where `glob` would ignore the error.
    """
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f'{folder}: cannot be read: {error.strerror}') from None


def write_session(index: Path, session: Session, tables: Mapping[str, pa.Table]) -> None:
    """Write all files of a session, or none; `index`: its file of the table `sessions`, which is put in place last.

    `tables`: the rows of the other tables. Raises InputError.
    """
    contents, sums = {}, {}
    for table, rows in tables.items():
        contents[in_table(index, table)] = whole = _as_parquet(rows)
        sums[table] = zlib.crc32(whole)
    sums['sessions'] = _checksum_of(sessions_to_arrow([session]).to_pylist()[0])
    contents[index] = _as_parquet(sessions_to_arrow([replace(session, checksums=json.dumps(sums))]))
    write_whole({path: methodcaller('write', whole) for path, whole in contents.items()})


def to_arrow(table: str, session: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return the rows of a session as an Arrow table. Raises TypeError, ValueError or OverflowError."""
    schema, rows = TABLES[table], len(next(iter(columns.values()), ()))
    whole = {'schema': [SCHEMA] * rows, 'session': [session] * rows, **columns}
    return pa.table([pa.array(whole.get(field.name, ()), field.type) for field in schema], schema=schema)


def sessions_to_arrow(sessions: Iterable[Session]) -> pa.Table:
    """Return sessions as rows of their table. Raises TypeError, ValueError or OverflowError."""
    rows = []
    for session in sessions:
        facts = [vars(problem) for problem in session.problems if problem.kind != 'session']
        columns = {'problems': [*map(str, session.problems)], 'problem_facts': json.dumps(facts) if facts else None}
        rows.append(vars(session) | columns)
    return pa.Table.from_pylist(rows, TABLES['sessions'])


def problems_in(row: Mapping[str, Any]) -> list[Problem]:
    """Return the problems in a row of the table `sessions`: the texts of all, and JSON of those that have facts."""
    facts = json.loads(row.get('problem_facts') or '[]')
    known = {fact['text']: Problem(**fact | {'nodes': (*fact['nodes'],)}) for fact in facts}
    return [known.get(text, Problem(text)) for text in row['problems']]


def session_in(row: Mapping[str, Any], site: str) -> Session:
    """Return the session in a row of the table `sessions`. Raises LookupError, TypeError, ValueError."""
    columns = {name: value for name, value in row.items() if name != 'problem_facts'}
    return Session(site, **columns | {'problems': problems_in(row)})


def _as_parquet(rows: pa.Table) -> bytes:
    """Return `rows` as the content of a Parquet file."""
    stream = io.BytesIO()
    pq.write_table(rows, stream, write_page_checksum=True)
    return stream.getvalue()


def _checksum_of(row: Mapping[str, Any]) -> int:
    """Return the checksum of the row of a session, without its column `checksums`."""
    stated = {name: value for name, value in row.items() if name != 'checksums' and value is not None}
    return zlib.crc32(json.dumps(stated, sort_keys=True, default=str).encode())


def read_session(index: Path) -> Session:
    """Return the session of a verified file; one that did not change is read only once. Raises InputError."""
    with _errors(index):
        state = _state(index)
        if index not in _sessions or _sessions[index][0] != state:
            content = pa.BufferReader(index.read_bytes())  # of a small file, read at once
            with pq.ParquetFile(content, page_checksum_verification=True) as file:
                if 'checksums' not in file.schema_arrow.names and index.with_suffix('.sums').exists():
                    raise InputError(f'{index}: of a version before 1.0: `plumbline store repair` converts the store')
                (row,) = file.read(use_threads=False).to_pylist()
            if row['schema'] > SCHEMA:
                raise InputError(
                    f'session {row["session"]} was stored with schema {row["schema"]}, this version knows up to '
                    f'{SCHEMA}: update Plumbline'
                )
            if row['session'] != index.stem or json.loads(row['checksums'])['sessions'] != _checksum_of(row):
                raise ValueError(_CHANGED)
            _sessions[index] = state, session_in(row, place_of(index)[0])
    return _sessions[index][1]


def read_table(path: Path) -> pa.Table:
    """Return the rows of a file of any table. Raises InputError."""
    with opened(path) as file:
        return file.read(use_threads=False)  # the file is small: to start threads takes as long as to read it


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file of any table but `sessions`. Raises InputError if it is missing, damaged or not of the store."""
    if path.parts[-4] in TABLES:
        verify(path)
    with _errors(path):
        if path.parts[-4] in JUDGED:
            _verify_seal(path.read_bytes())
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file


def sealed(content: bytes) -> bytes:
    """Return a Parquet file with its checksum in place of the zeros of `UNSEALED`, the last text of its metadata."""
    place = content.rindex(UNSEALED)
    return content[:place] + SEAL + f'{zlib.crc32(content):08x}'.encode() + content[place + len(UNSEALED) :]


def _verify_seal(content: bytes) -> None:
    """Raise ValueError if a file is not as it was sealed; one of an earlier version has no seal."""
    place = content.rfind(SEAL)
    if place >= 0 and sealed(content[:place] + UNSEALED + content[place + len(UNSEALED) :]) != content:
        raise ValueError(_CHANGED)


def verify(path: Path) -> None:
    """Compare a file of any table but `sessions` with its checksum, once in a process. Raises InputError."""
    with _errors(path):
        if _verified.get(path) == (state := _state(path)):
            return
        for wait in (0.1, 0.4, 0):  # another process may be replacing it by a later report of the session
            sums = json.loads(read_session(in_table(path, 'sessions')).checksums or '{}')
            if sums[path.parts[-4]] == zlib.crc32(path.read_bytes()):
                break
            if not wait:
                raise ValueError(_CHANGED)
            time.sleep(wait)
        _verified[path] = state


def _state(path: Path) -> _State:
    """Return what changes when a file is replaced. Raises OSError."""
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Raise what goes wrong with a file of the store as InputError that says how to replace the file."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f'{path}: the file of a stored session is missing; {_to_replace(path)}') from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno:
            raise InputError(f'{path}: cannot be read: {os.strerror(error.errno)}') from None
        said = str(error) if isinstance(error, (OSError, ValueError)) else ''
        why = (said or _CHANGED).splitlines()[0].rstrip('.')
        raise InputError(f'{path}: damaged, or not a file of the store: {why}; {_to_replace(path)}') from None


def _to_replace(path: Path) -> str:
    """Return how to replace a damaged or missing file."""
    if path.parts[-4] in JUDGED:
        return 'remove it, and the session is judged again'
    return f'to replace it, remove {in_table(path, "sessions")} and ingest its reports again'

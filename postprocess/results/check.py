# SPDX-License-Identifier: BSD-3-Clause
"""Check that the files of a store are complete, readable and unchanged."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import remove_abandoned, write_text
from plumbline.results import EVIDENCE
from postprocess.results import judged
from postprocess.results.store import Store
from postprocess.results.tables import TABLES, Gone, has_sums, read_table, verify

_WRITING = 3600.0  # seconds after which an unfinished file belongs to a writer that was killed


def faults(store: Store, reports: Mapping[Path, str | None]) -> Iterator[str]:
    """Yield a sentence for each fault in the files of a store.

    Every page of every file is read, and its checksum verified. The session of each of the run `reports` must be in
    the store, and the report be as it was when that was stored.
    """
    known: set[str] = set()
    where: dict[str, Path] = {}
    stored_from: dict[tuple[str | None, str], str] = {}  # session and name of its report -> sha256
    all_known = True
    for index in store.files():
        try:
            known |= (sessions := read_whole(index))
            for name in sorted(sessions & where.keys()):
                yield f'{index}: holds session {name}, which {where[name].name} holds too; each of its rows counts once'
            where |= dict.fromkeys(sessions, index)
            for row in read_table(index).select(['session', 'report', 'report_sha256', 'source']).to_pylist():
                if row['source'].endswith('report'):
                    stored_from[row['session'], Path(row['report']).name] = row['report_sha256']
            if not has_sums(index):
                yield f'{index}: has no file of checksums, so that not all damage would be found'
        except Gone:  # another process has compacted its month
            continue
        except InputError as error:
            all_known = False
            yield f'{error}'
    for path in orphans(store):
        yield (
            f'{path}: its file of the table sessions is missing, removed or never written: ingest the report '
            f'of session {path.stem} again, or remove this file'
        )
    for path in judged.files(store):
        try:
            judged.read_whole(path)
            if all_known and path.stem not in known:
                yield f'{path}: session {path.stem}, from which it follows, is not in the store: remove this file'
        except (Gone, InputError) as error:
            yield f'{error}'
    for report, session in reports.items():
        if session not in known:
            yield f'{report}: session {session or "of no uuid"} is not in the store: ingest the report again'
        elif stored_from.get((session, report.name), '') not in ('', sha256_of(report)):
            yield f'{report}: has changed since session {session} was stored from it, as its sha256 says: restore it'


def evidence_faults(results: Path) -> Iterator[str]:
    """Yield a sentence for each archive of evidence that is damaged; each is read to the checksum at its end."""
    for archive in sorted((results / EVIDENCE).rglob('*.tar.gz')):
        try:
            with gzip.open(archive) as stream:
                while stream.read(2**20):
                    pass
        except FileNotFoundError:  # a run has removed it meanwhile
            continue
        except (OSError, EOFError, zlib.error) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            yield f'{archive}: damaged, so what its programs printed cannot be trusted: {why}; restore or remove it'


def read_whole(index: Path) -> set[str]:
    """Read a file of the table `sessions` and the same files of the other tables; return its sessions.

    Raises InputError.
    """
    sessions = _sessions_in(index)
    for table in TABLES:
        if foreign := _sessions_in(index.parents[3] / table / Path(*index.parts[-3:])) - sessions:
            raise InputError(f'{index}: has no session {", ".join(sorted(foreign))} of the table {table}')
    return sessions


def orphans(store: Store) -> list[Path]:
    """Return the files of other tables whose file of the table `sessions` is missing.

    A writer makes the folder of that file before it puts the others in place.
    """
    return [
        path
        for table in set(TABLES) - {'sessions'}
        for path in sorted((store.folder / table).glob('*/*/*.parquet'))
        if not (index := store.folder / 'sessions' / Path(*path.parts[-3:])).exists()
        and not (index.parent.exists() and _is_recent(path))
    ]


def part(store: Store, seconds: float) -> list[str]:
    """Read files of a store for `seconds`, the longest unread first; return a sentence for each fault.

    ``store-read.json`` of the results directory keeps when each file was last read.
    """
    record = store.folder.parent / 'store-read.json'
    try:
        known: dict[str, float] = json.loads(record.read_bytes())
        last = {index: float(known.get(str(index.relative_to(store.folder)), 0)) for index in store.files()}
    except (OSError, ValueError, TypeError, AttributeError):
        last = dict.fromkeys(store.files(), 0.0)
    faults, end = [], time.monotonic() + seconds
    for index in sorted(last, key=lambda index: last[index]):
        try:
            read_whole(index)
        except InputError as error:
            faults.append(f'{error}')
        last[index] = time.time()
        if time.monotonic() > end:
            break
    write_text(record, json.dumps({str(index.relative_to(store.folder)): when for index, when in last.items()}))
    return faults


def sweep(store: Store) -> list[Path]:
    """Remove unfinished files older than an hour, which killed writers left; return their paths."""
    parts = ('store', EVIDENCE, 'incidents', 'judged', 'proposals', 'reports')
    return [path for part in parts for path in remove_abandoned(store.folder.parent / part)]


def _sessions_in(path: Path) -> set[str]:
    """Read a whole file; return the sessions of its rows. Raises InputError."""
    sessions: set[str] = set()
    try:
        verify(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                sessions.update(file.read_row_group(group)['session'].to_pylist())
    except FileNotFoundError:
        raise InputError(f'{path}: the file of a stored session is missing') from None
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(f'{path}: damaged: {str(error).splitlines()[0]}') from None
    return sessions


def _is_recent(path: Path) -> bool:
    """Return True if a file was changed so recently that its writer may still be running."""
    try:
        return time.time() - path.stat().st_mtime < _WRITING
    except FileNotFoundError:  # a writer has finished it meanwhile
        return True


def sha256_of(report: Path) -> str:
    """Return the checksum of a run report; empty if it cannot be read."""
    try:
        return hashlib.sha256(report.read_bytes()).hexdigest()
    except OSError:
        return ''

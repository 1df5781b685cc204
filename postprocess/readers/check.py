# SPDX-License-Identifier: BSD-3-Clause
"""Check that the files of a store are complete and unchanged, and repair it from the run reports."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import time
import zlib
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import make_folder, remove_abandoned
from plumbline.results import EVIDENCE
from postprocess.readers.cmdline import read_cmdline
from postprocess.readers.rules import place, read_rules
from postprocess.readers.run_reports import read_report
from postprocess.results import judged, old_layout
from postprocess.results.files import in_table, problems_in, read_session, verify
from postprocess.results.store import Session, Store
from postprocess.results.tables import JUDGED, OF_CASES
from postprocess.text import count

ASIDE = 'store-damaged'  # folder of the results directory for damaged files
_WRITING = 3600.0  # seconds after which an unfinished file belongs to a writer that was killed


def faults(store: Store) -> Iterator[str]:
    """Yield a sentence for each fault in the files of a store, each of which is read and verified.

    The session of each run report must be in the store, and the report be as it was when that was stored.
    """
    known: dict[str, Session] = {}
    all_known = True
    for index in store.files():
        try:
            known[index.stem] = read_whole(index)
        except InputError as error:
            all_known = False
            yield f'{error}'
    for path in orphans(store):
        yield (
            f'{path}: its file of the table sessions is missing, removed or never written: ingest the report '
            f'of session {path.stem} again, or remove this file'
        )
    for _, fault in _faults_of_judged(store, known if all_known else None):
        yield f'{fault}'
    for report, session in _reports_below(store.folder.parent).items():
        stored = known.get(session or '')
        if stored is None:
            yield f'{report}: session {session or "of no uuid"} is not in the store: ingest the report again'
        elif is_of(stored, report) and stored.report_sha256 not in ('', sha256_of(report)):
            yield f'{report}: has changed since session {session} was stored from it, as its sha256 says: restore it'


def _faults_of_judged(store: Store, known: Container[str] | None) -> Iterator[tuple[Path, InputError]]:
    """Yield each file of what was judged that is damaged, or of a session that is not `known`; None: all are."""
    for path in (path for table in JUDGED for path in store.files(table=table)):
        try:
            judged.read_whole(path)
            if known is not None and path.stem not in known:
                raise InputError(f'{path}: session {path.stem}, from which it follows, is not in the store')
        except InputError as error:
            yield path, error


def _reports_below(results: Path) -> dict[Path, str | None]:
    """Return run report -> uuid of its session, None if it cannot be read, of a results directory without dry runs."""
    found: dict[Path, str | None] = {}
    for path in sorted(results.glob('reports/*.json')):
        try:
            info = json.loads(path.read_bytes())['session_info']
            if not read_cmdline(str(info.get('cmdline'))).is_dry_run:
                found[path] = info['uuid']
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            found[path] = None
    return found


def is_of(session: Session, report: Path) -> bool:
    """Return True if a session was stored from the run `report`."""
    return session.source.endswith('report') and Path(session.report).name == report.name


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


def read_whole(index: Path) -> Session:
    """Read all files of a session, and return it. Raises InputError."""
    session = read_session(index)
    for table in OF_CASES:
        verify(in_table(index, table))
    return session


def orphans(store: Store) -> list[Path]:
    """Return the files of other tables whose file of the table `sessions` is missing.

    A writer makes the folder of that file before it puts the others in place.
    """
    return [
        path
        for table in OF_CASES
        for path in store.files(table=table)
        if not (index := in_table(path, 'sessions')).exists() and not (index.parent.exists() and _is_recent(path))
    ]


def part(store: Store, seconds: float) -> list[str]:
    """Read files of a store for `seconds`, in another order each time; return a sentence for each fault."""
    faults, end = [], time.monotonic() + seconds
    indexes = store.files()
    random.shuffle(indexes)
    for index in indexes:
        try:
            read_whole(index)
        except InputError as error:
            faults.append(f'{error}')
        if time.monotonic() > end:
            break
    return faults


def sweep(store: Store) -> list[Path]:
    """Remove unfinished files older than an hour, which killed writers left; return their paths."""
    parts = ('store', EVIDENCE, 'incidents', 'judged', 'proposals', 'reports')
    return [path for part in parts for path in remove_abandoned(store.folder.parent / part)]


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


def repair(store: Store) -> Iterator[str]:
    """Yield a sentence for each step of the repair; the last ones say which sessions are lost. Raises InputError.

    A store of a version before 1.0 is converted first. Nothing is deleted: damaged files, and the files of the same
    sessions in the other tables, are moved to ``store-damaged/``. A repair that was killed at any point continues when
    it is started again.
    """
    aside = store.folder.parent / ASIDE
    yield from old_layout.convert(store.folder)
    absent = {in_table(path, 'sessions') for path in orphans(store)}
    for index in [*store.files(), *sorted(absent)]:
        try:
            read_whole(index)
        except InputError as error:
            for path in (index, *(in_table(index, table) for table in OF_CASES)):  # without the first it is not stored
                _move(path, store.folder, aside)
            yield f'{error}; kept in {aside}'
    known = {session.session for session in store.sessions('*')} | {gone.session for gone in store.forgotten()}
    damaged = _sessions_aside(aside)
    changed = set()
    for path, uuid in _reports_below(store.folder.parent).items():
        try:
            if uuid in known:
                continue
            report = read_report(path, rules=read_rules(place()))
            if row := damaged.get(uuid or ''):
                if row.get('source', '').endswith('report') and row['report_sha256'] != sha256_of(path):
                    changed.add(uuid)
                    raise InputError(
                        f'{path}: has changed since session {uuid} was stored from it, as its sha256 says, and is not '
                        'ingested; restore it, or, if you know why it changed, `plumbline ingest` it'
                    )
                if 'problems' in row:
                    own = replace(report.session, expected=row['expected'], problems=problems_in(row))
                    report = replace(report, session=own)
            store.add(report)
            known.add(report.session.session)
            yield f'{path}: session {uuid} is ingested again: {count(report.number_of_samples, "sample")}'
        except InputError as error:
            yield f'{error}'
    for path, fault in _faults_of_judged(store, known):
        _move(path, store.folder, aside)
        yield f'{fault}; kept in {aside}'
    for uuid in sorted(damaged.keys() - known - changed):
        yield f'session {uuid} is lost: it has no run report in {store.folder.parent / "reports"}; see {aside}'


def _move(path: Path, store: Path, aside: Path) -> None:
    """Move one file of the store aside, if it exists."""
    to = aside / path.relative_to(store)
    make_folder(to.parent)
    while to.exists():
        to = to.with_name(f'{to.name}.again')
    if path.exists():
        path.rename(to)


def _sessions_aside(aside: Path) -> dict[str, dict[str, Any]]:
    """Return uuid -> what can still be read of each session in the files that were moved aside."""
    sessions: dict[str, dict[str, Any]] = {}
    for path in sorted(aside.glob('*/*/*/*.parquet*')):
        row = sessions.setdefault(path.name.partition('.')[0], {})
        if path.parts[-4] == 'sessions':
            try:
                (own,) = pq.read_table(path, page_checksum_verification=True).to_pylist()
                row |= own
            except (OSError, ValueError, pa.ArrowException):
                continue
    return sessions

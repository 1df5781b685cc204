# SPDX-License-Identifier: BSD-3-Clause
"""Repair a store: move damaged files aside, and ingest their sessions again from the run reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import make_folder
from postprocess.readers.rules import read_rules
from postprocess.readers.run_reports import read_report, reports_below
from postprocess.results import check, judged
from postprocess.results.store import Store
from postprocess.results.tables import TABLES, has_sums, write_sums
from postprocess.text import count

ASIDE = 'store-damaged'  # folder of the results directory for damaged files


def repair(store: Store) -> Iterator[str]:
    """Yield a sentence for each step of the repair; the last ones say which sessions are lost.

    Nothing is deleted: damaged files, and the files of the same sessions in the other tables, are moved to
    ``store-damaged/``. A repair that was killed at any point continues when it is started again.
    """
    aside = store.folder.parent / ASIDE
    absent = {store.folder / 'sessions' / Path(*path.parts[-3:]) for path in check.orphans(store)}
    for index in [*store.files(), *sorted(absent)]:
        try:
            check.read_whole(index)
            if not has_sums(index):
                write_sums(index)
                yield f'{index}: its checksums were missing and are written now'
        except InputError as error:
            _move(index, store.folder, aside)
            yield f'{error}; kept in {aside}'
    known = {session.session for session in store.sessions('*')} | {gone.session for gone in store.forgotten()}
    damaged = _sessions_aside(aside)
    changed = set()
    for path, uuid in reports_below(store.folder.parent).items():
        try:
            if uuid in known:
                continue
            report = read_report(path, rules=read_rules())
            if row := damaged.get(uuid or ''):
                of_report = row.get('source', '').endswith('report')
                if of_report and row['report_sha256'] != report.session['report_sha256']:
                    changed.add(uuid)
                    raise InputError(
                        f'{path}: has changed since session {uuid} was stored from it, as its sha256 says, and is not '
                        'ingested; restore it, or, if you know why it changed, `plumbline ingest` it'
                    )
                report.session.update(
                    {key: row[key] for key in ('expected', 'problems', 'problem_facts') if key in row}
                )
            store.add(report)
            known.add(report.session['session'])
            yield f'{path}: session {uuid} is ingested again: {count(len(report.samples), "sample")}'
        except InputError as error:
            yield f'{error}'
    for path in judged.files(store):
        try:
            judged.read_whole(path)
            if path.stem not in known:
                raise InputError(f'{path}: session {path.stem}, from which it follows, is not in the store')
        except InputError as error:
            _aside(path, store.folder, aside)
            yield f'{error}; kept in {aside}'
    for uuid in sorted(damaged.keys() - known - changed):
        yield f'session {uuid} is lost: it has no run report in {store.folder.parent / "reports"}; see {aside}'


def _move(index: Path, store: Path, aside: Path) -> None:
    """Move the files of an index in all tables.

    The index itself first, because without it its sessions are not in the store.
    """
    below = index.relative_to(store / 'sessions')
    for table in ('sessions', *(name for name in TABLES if name != 'sessions')):
        for path in (store / table / below, (store / table / below).with_suffix('.sums')):
            if path.exists():
                _aside(path, store, aside)


def _aside(path: Path, store: Path, aside: Path) -> None:
    """Move one file of the store aside."""
    to = aside / path.relative_to(store)
    make_folder(to.parent)
    while to.exists():
        to = to.with_name(f'{to.name}.again')
    path.rename(to)


def _sessions_aside(aside: Path) -> dict[str, dict[str, Any]]:
    """Return uuid -> what can still be read of each session in the files that were moved aside."""
    sessions: dict[str, dict[str, Any]] = {}
    for path in sorted(aside.glob('*/*/*/*.parquet*')):
        try:
            rows = pq.read_table(path, page_checksum_verification=True)
            for row in rows.to_pylist() if path.parts[-4] == 'sessions' else rows.select(['session']).to_pylist():
                sessions[row['session']] = {**row, **sessions.get(row['session'], {})}
        except (OSError, ValueError, KeyError, pa.ArrowException):
            sessions.setdefault(path.name.partition('.')[0], {})
    return {uuid: row for uuid, row in sessions.items() if not uuid.startswith('together-')}

# SPDX-License-Identifier: BSD-3-Clause
"""Read the baseline of a site, and notice rows that left it without `plumbline record retire`, as by a merge."""

from __future__ import annotations

from pathlib import Path

from plumbline.errors import SiteError
from plumbline.identity import SeriesId
from plumbline.paths import site_file
from plumbline.problems import Problem
from plumbline.references import FILES, Reference, read_references
from postprocess.results.store import Store
from postprocess.text import count, some

RETIRED = 'retired.csv'  # beside baseline.csv
_SHOWN = 3  # rows that a sentence names
_MEASURED = 'SELECT DISTINCT "partition", environ, "check", params, metric, dims FROM measured'


def read_baseline(site: str, root: Path | None = None) -> list[Reference]:
    """Return the rows of the ``baseline.csv`` of a site; no rows if there is no file. Raises SiteError."""
    path = site_file(site, FILES['baseline'], root)
    return read_references(path, 'baseline') if path.exists() else []


def read_retired(site: str, root: Path | None) -> list[Reference]:
    """Return the rows that were retired from the baseline of a site. Raises SiteError."""
    path = site_file(site, RETIRED, root)
    return read_references(path, 'baseline') if path.exists() else []


def retired(site: str, root: Path | None) -> frozenset[SeriesId]:
    """Return the series of which a row was retired and none is in the baseline of a site. Raises SiteError."""
    gone = {row.id for row in read_retired(site, root)}
    return frozenset(gone - {row.id for row in read_baseline(site, root)}) if gone else frozenset()


def lost(store: Store, site: str, root: Path | None) -> dict[SeriesId, Reference]:
    """Return the rows that a judged session knew, and that neither ``baseline.csv`` nor ``retired.csv`` holds.

    A row that no stored session ever measured, such as one with a misspelled name, is none that can be lost; one in
    ``retired.csv`` that was recorded earlier than the known one is not that row. Raises SiteError for a file that is
    wrong, InputError if the store cannot be read.
    """
    results = store.folder.parent
    known = {} if is_remembered(results, site, root) else known_rows(results, site)
    there = {row.id for row in read_baseline(site, root)} if known else set()
    gone = {row.id: row.recorded_at for row in read_retired(site, root)} if known else {}
    absent = {
        id: row for id, row in known.items() if id not in there and not (id in gone and gone[id] >= row.recorded_at)
    }
    measured = {row['id'] for row in store.select(_MEASURED, store.sessions(site))} if absent else set()
    return {
        id: row
        for id, row in absent.items()
        if id in measured or (row.is_pattern and any(row.matches(of) for of in measured))
    }


def problems(store: Store, site: str, root: Path | None) -> list[Problem]:
    """Return the problem that rows are lost, if they are."""
    try:
        rows = lost(store, site, root)
    except SiteError as error:
        return [Problem(f'{error}; remove the file, and the next session keeps the rows of the baseline anew')]
    if not rows:
        return []
    where, lacks = site_file(site, FILES['baseline'], root), count(len(rows), 'row')
    return [
        Problem(
            f'{where}: lacks {lacks} that the last judged session knew and `plumbline record retire` did not take out: '
            f'{some([*map(str, sorted(rows))], _SHOWN, "; ")}; restore the file'
        )
    ]


def known_rows(results: Path, site: str) -> dict[SeriesId, Reference]:
    """Return the rows that the judged sessions of a site knew. Raises SiteError."""
    path = known_file(results, site)
    return {row.id: row for row in read_references(path, 'baseline')} if path.exists() else {}


def is_remembered(results: Path, site: str, root: Path | None) -> bool:
    """Return True if the judged sessions of a site knew its ``baseline.csv`` as it stands, to the byte."""
    try:
        return known_file(results, site).read_bytes() == site_file(site, FILES['baseline'], root).read_bytes()
    except OSError:  # the first session, or a file that its reader complains of
        return False


def known_file(results: Path, site: str) -> Path:
    """Return the path of the rows that the judged sessions of a site knew."""
    return results / 'judged' / f'{site}.csv'

"""Which nodes stood out when: a CSV file a session below ``<results>/ledger/<site>/``, for programs and for people."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from plumbline.errors import InputError
from plumbline.files import write_text
from postprocess.results.store import Session
from postprocess.text import to_csv


@dataclass(frozen=True)
class Entry:
    """A node, or several joined by commas, that stood out in a session. `change`: of the worst metric, in %."""

    date: str
    session: str
    node: str
    kind: str
    check: str
    case: str
    metric: str
    change: float
    how: str


def write(results: Path, session: Session, entries: Iterable[Entry]) -> None:
    """Keep the entries of a session in place of those it had."""
    path = _folder(results, session.site) / f'{session.started:%Y-%m-%d}.{session.session}.csv'
    rows = [asdict(entry) for entry in entries]
    if rows or path.exists():
        write_text(path, to_csv(rows, [field.name for field in fields(Entry)]))


def read(results: Path, site: str) -> list[Entry]:
    """All entries of a site, the oldest first. Raises InputError for a file that is none of ours."""
    found = []
    for path in sorted(_folder(results, site).glob('*.csv')):
        try:
            with path.open(encoding='utf-8', newline='') as lines:
                found += [Entry(**row | {'change': float(row['change'])}) for row in csv.DictReader(lines)]
        except OSError as error:
            raise InputError(f'{path}: cannot be read: {error.strerror}') from None
        except (ValueError, TypeError, KeyError, csv.Error):
            columns = ','.join(field.name for field in fields(Entry))
            raise InputError(f'{path}: expected the columns {columns}, all filled in; remove or repair it') from None
    return found


def _folder(results: Path, site: str) -> Path:
    return results / 'ledger' / site

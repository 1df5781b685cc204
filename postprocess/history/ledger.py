"""Which nodes stood out when: a CSV file a session below ``<results>/ledger/<site>/``, for programs and for people."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from plumbline.errors import InputError
from plumbline.files import write_text
from postprocess.results.store import Session
from postprocess.text import Column, percent, to_csv, to_json, to_markdown, to_table


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


def print_entries(entries: Sequence[Entry], format: str) -> None:
    import typer

    if format in ('json', 'csv'):
        rows = [asdict(entry) for entry in entries]
        text = to_json(rows) if format == 'json' else to_csv(rows, [field.name for field in fields(Entry)])
    else:
        text = (to_markdown if format == 'markdown' else to_table)(entries, _SHOWN)
    typer.echo(text, nl=False)


_SHOWN = [
    Column('date', lambda entry: entry.date),
    Column('node', lambda entry: entry.node),
    Column('', lambda entry: entry.kind),
    Column('check', lambda entry: entry.check),
    Column('case', lambda entry: entry.case),
    Column('metric', lambda entry: entry.metric),
    Column('performance', lambda entry: percent(entry.change), number=True),
    Column('compared with', lambda entry: entry.how),
]


def _folder(results: Path, site: str) -> Path:
    return results / 'ledger' / site

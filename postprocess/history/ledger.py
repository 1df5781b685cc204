"""Which nodes stood out when: a CSV file for each session below ``<results>/ledger/<site>/``."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import SeriesId, from_text, to_text
from plumbline.migration import metric_and_dims
from postprocess.results.store import Session
from postprocess.text import to_csv

COLUMNS = (
    'date', 'session', 'node', 'kind', 'partition', 'environ', 'check', 'params', 'metric', 'dims', 'change', 'how',
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A node, or several joined by commas, that stood out in a session, and its worst series.

    `change`: of the performance, in %. `how`: what it was compared with.
    """

    date: str
    session: str
    node: str
    kind: str
    series: SeriesId
    change: float
    how: str

    def as_dict(self) -> dict[str, object]:
        """Return the entry by `COLUMNS`."""
        of = self.series
        texts = (of.partition, of.environ, of.check, to_text(of.params), of.metric, to_text(of.dims))
        values = (self.date, self.session, self.node, self.kind, *texts, self.change, self.how)
        return dict(zip(COLUMNS, values, strict=True))


def write(results: Path, session: Session, entries: Iterable[Entry]) -> None:
    """Replace the entries of a session."""
    path = _folder(results, session.site) / f'{session.started:%Y-%m-%d}.{session.session}.csv'
    rows = [entry.as_dict() for entry in entries]
    if rows or path.exists():
        write_text(path, to_csv(rows, COLUMNS))


def read(results: Path, site: str) -> list[Entry]:
    """Return all entries of a site, the oldest first. Raises InputError for a file that has other columns."""
    found = []
    for path in sorted(_folder(results, site).glob('*.csv')):
        try:
            with path.open(encoding='utf-8', newline='') as lines:
                found += [_entry(row) for row in csv.DictReader(lines)]
        except OSError as error:
            raise InputError(f'{path}: cannot be read: {error.strerror}') from None
        except (AttributeError, ValueError, TypeError, KeyError, csv.Error):
            raise InputError(
                f'{path}: expected the columns {",".join(COLUMNS)}, all filled in; remove or repair it'
            ) from None
    return found


def _entry(row: dict[str, str]) -> Entry:
    if 'case' in row:  # as earlier versions wrote it, without partition and environ
        metric, dims = metric_and_dims(row['check'], row['metric'])
        series = SeriesId('', '', row['check'], from_text(row['case']), metric, dims)
    else:
        params, dims = from_text(row['params']), from_text(row['dims'])
        series = SeriesId(row['partition'], row['environ'], row['check'], params, row['metric'], dims)
    return Entry(row['date'], row['session'], row['node'], row['kind'], series, float(row['change']), row['how'])


def _folder(results: Path, site: str) -> Path:
    return results / 'ledger' / site

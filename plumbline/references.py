# SPDX-License-Identifier: BSD-3-Clause
"""References of a site: ``published.csv`` and ``baseline.csv``, read, checked and looked up."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from plumbline.errors import SiteError, expected_one_of
from plumbline.identity import ANY, ID_COLUMNS, Pairs, Quantity, SeriesId, from_text, short_name, to_text
from plumbline.paths import site_file
from plumbline.units import fault_of, number_in

COLUMNS = (
    *ID_COLUMNS, 'unit', 'better', 'mean', 'std', 'n', 'kind', 'source', 'recorded_at', 'mode', 'note',
)  # fmt: skip
#: Further columns of a baseline.csv that `plumbline record` wrote; a file written by hand may omit them.
RECORDED = ('spread', 'df', 'spread_n', 'usual_spread', 'floor', 'epoch', 'provenance')
#: The further column of a published.csv: the software of the measurement, as far as its source names it.
SOFTWARE = ('software',)
#: Each mode runs all that the modes before it run; a row's mode is the smallest that measures it.
MODES = ('quick', 'nightly', 'acceptance')
_WORDS = ('partition', 'environ', 'check', 'metric')  # the fields of an id that are one text
FILES = {'published': 'published.csv', 'baseline': 'baseline.csv'}
#: The file of a site with what machines with the same hardware reach, which other sites shared.
ELSEWHERE = 'elsewhere.csv'
#: Kinds of rows that are never a limit. They stay in the file, with the reason as a note, so that nobody adds them
#: again. unmeasured: no check measures the number by the definition of its source; invalid: known to be wrong.
NO_LIMIT = ('unmeasured', 'invalid')
#: The kinds of rows that each file holds. elsewhere: published for another machine like this one; such a row only
#: warns.
KINDS_OF_FILE = {'published': ('published', 'elsewhere', *NO_LIMIT), 'baseline': ('baseline',)}
_STANDING = ('elsewhere', 'published', 'session', 'baseline')  # from weakest to strongest


def options_of_mode(mode: str) -> list[str]:
    """Return ReFrame's options for a mode: it runs the checks with its name as tag, which state their trials in it."""
    return [f'--tag={mode}', f'--session-extras=plumbline_mode={mode}', f'--setvar=mode={mode}']


@dataclass(frozen=True)
class Reference:
    """What a series should be. `mean` and `std` in the unit of `quantity`.

    `id` may be a pattern: ``*`` for a whole field, ``name=*`` for one value of params or dims. `std` and `n` of
    published numbers may be unknown (None); a baseline's n counts sessions. `spread` is the standard deviation of the
    logarithm of one value that the limit uses, with `df` degrees of freedom, from `spread_n` sessions; these are more
    than n where a new epoch changed the mean alone. `usual_spread` and `floor`: what the check states of its tolerance.
    """

    id: SeriesId
    quantity: Quantity
    mean: float
    std: float | None
    n: int | None
    kind: str
    source: str
    recorded_at: str = ''
    mode: str = ''
    note: str = ''
    software: str = ''
    spread: float | None = None
    df: float | None = None
    spread_n: int | None = None
    usual_spread: float | None = None
    floor: float | None = None
    epoch: str = ''
    provenance: str = ''
    printed: str = field(default='', compare=False)  # the mean with the digits of the file

    @cached_property
    def facts(self) -> dict[str, str]:
        """The parts of `provenance` by name."""
        parts = (part.partition('=') for part in self.provenance.split('; '))
        return {name: value for name, _, value in parts}

    @cached_property
    def sessions(self) -> frozenset[str]:
        """The sessions that the row was computed from, by their first 8 characters, if `provenance` names them."""
        return frozenset(short_name(name.strip()) for name in self.facts.get('sessions', '').split(',')) - {''}

    @property
    def has_two_levels(self) -> bool:
        """True if the values of the series had two levels; the row describes the worse level."""
        return 'levels' in self.facts

    @property
    def origin(self) -> str:
        """The source of the number, and its software where that is known."""
        return f'{self.source} ({self.software})' if self.software else self.source

    @property
    def is_limit(self) -> bool:
        """False for rows of the kinds `NO_LIMIT`."""
        return self.kind not in NO_LIMIT

    @property
    def stated(self) -> dict[str, float | None]:
        """Floor and usual spread that the check states, as arguments of `plumbline.limits.tolerance_for`."""
        return {'floor': self.floor, 'usual_spread': self.usual_spread}

    @cached_property
    def is_pattern(self) -> bool:
        """True if one of the fields of `id` holds a wildcard."""
        return any('*' in text for text in self.id.to_row().values())

    def matches(self, of: SeriesId) -> bool:
        """Return True if `id`, which may be a pattern, matches the series."""
        return (
            all(getattr(self.id, name) in ('*', getattr(of, name)) for name in _WORDS)
            and _pairs_match(self.id.params, of.params)
            and _pairs_match(self.id.dims, of.dims)
        )

    @property
    def rank(self) -> tuple[int, int]:
        """A sort key: of several matching rows the largest wins. Baselines are first, then ids before patterns."""
        fields = [getattr(self.id, name) for name in _WORDS]
        pairs = [value for of in (self.id.params, self.id.dims) for _, value in of or (('', ''),)]
        return _STANDING.index(self.kind), sum(text != '*' for text in fields + pairs)

    def mismatch(self, quantity: Quantity) -> str:
        """Return why a number of `quantity` cannot be compared with this row; empty where it can."""
        for what in ('unit', 'better'):
            measured, stated = getattr(quantity, what), getattr(self.quantity, what)
            if measured != stated:
                return f'{what} differs: measured {measured}, the reference ({self.kind}, {self.source}) says {stated}'
        return ''

    def to_row(self) -> dict[str, Any]:
        """Return the columns of a reference file, `RECORDED` last."""
        values = vars(self) | self.id.to_row() | {'unit': self.quantity.unit, 'better': self.quantity.better}
        return {column: values[column] for column in (*COLUMNS, *RECORDED)}


def _pairs_match(pattern: Pairs, of: Pairs) -> bool:
    if pattern in (ANY, of):
        return True
    return len(pattern) == len(of) and all(
        name == theirs and wanted in ('*', value) for (name, wanted), (theirs, value) in zip(pattern, of, strict=True)
    )


class References:
    """The rows of a site, for look-up. Rows without a wildcard, which are nearly all, are found in a dictionary."""

    def __init__(self, rows: Iterable[Reference]):
        self.rows = list(rows)
        self.patterns = [row for row in self.rows if row.is_pattern]
        self.exact: dict[SeriesId, Reference] = {}  # id without a wildcard -> the row that counts
        for row in self.rows:
            if not row.is_pattern and (row.id not in self.exact or row.rank > self.exact[row.id].rank):
                self.exact[row.id] = row

    @cached_property
    def published(self) -> References:
        """The rows that were not recorded here."""
        return References(row for row in self.rows if row.kind in KINDS_OF_FILE['published'])

    def find(self, of: SeriesId) -> Reference | None:
        """Return the row that counts for a series, or None. Raises SiteError when two match it equally well."""
        exact = self.exact.get(of)
        if exact is not None and exact.kind not in KINDS_OF_FILE['published']:
            return exact  # nothing is more specific, and no kind has precedence over it
        matching = [row for row in self.patterns if row.matches(of)] + ([exact] if exact else [])
        matching.sort(key=lambda row: row.rank, reverse=True)
        if len(matching) > 1 and matching[0].rank == matching[1].rank:
            raise SiteError(
                f'{of}: two {matching[0].kind} rows match it equally well: {matching[0].id} and {matching[1].id}'
            )
        return matching[0] if matching else None


def load_references(site: str, root: Path | None = None) -> References:
    """Return the rows of both files of a site that can be limits; a file may be absent. Raises SiteError."""
    files = ((kind, site_file(site, name, root)) for kind, name in FILES.items())
    rows = (row for kind, path in files if path.exists() for row in read_references(path, kind))
    return References(row for row in rows if row.is_limit)


def read_references(path: Path, kind: str) -> list[Reference]:
    """Return all rows of one file, also those that are never a limit; a file that did not change is read only once.

    Raises SiteError naming file, line, column and what was expected.
    """
    state = None
    with suppress(OSError):  # else `read_rows` says what is wrong
        status = path.stat()
        state = status.st_ino, status.st_mtime_ns, status.st_size
    return [*_read(path, kind, state)]


@cache
def _read(path: Path, kind: str, state: tuple[int, int, int] | None) -> list[Reference]:
    rows, faults = read_rows(path, kind)
    for message in faults:
        raise SiteError(message)
    return [row for _, row in rows]


def read_rows(path: Path, kind: str) -> tuple[list[tuple[int, Reference]], list[str]]:
    """Return the valid rows of a file with their line numbers, and a sentence for each mistake in the other rows."""
    rows: list[tuple[int, Reference]] = []
    faults: list[str] = []
    described = kind != 'baseline' or (path.parent / 'site.yaml').exists()  # other suites have units of their own
    first_lines: dict[SeriesId, int] = {}
    further = RECORDED if kind == 'baseline' else SOFTWARE
    try:
        with path.open(newline='', encoding='utf-8') as stream:
            reader = csv.DictReader(stream, strict=True)
            columns = tuple(reader.fieldnames or ())
            if columns not in (COLUMNS, COLUMNS + further):
                return [], [f'{path}:1: {_columns_expected(columns, further)}']
            for entry in reader:
                line = reader.line_num
                if None in entry or None in entry.values():
                    faults.append(f'{path}:{line}: expected {len(columns)} fields')
                    continue
                wrong = list(_faults_of(entry, kind, described))
                faults += [f'{path}:{line}: {message}' for message in wrong]
                if wrong:
                    continue
                row = _row(entry)
                first = first_lines.setdefault(row.id, line)
                if first != line:
                    faults.append(f'{path}:{line}: the same {", ".join(ID_COLUMNS)} as line {first}')
                rows.append((line, row))
    except OSError as error:
        faults.append(f'{path}: cannot be read: {error.strerror}')
    except (csv.Error, UnicodeDecodeError) as error:
        faults.append(f'{path}: not a valid CSV file: {error}')
    return rows, faults


def _columns_expected(found: tuple[str, ...], further: tuple[str, ...]) -> str:
    if set(COLUMNS) <= set(found) and (unknown := set(found) - {*COLUMNS, *further}):
        return f'columns {", ".join(sorted(unknown))} are unknown: update Plumbline if a later version wrote the file'
    return f'expected the columns {",".join(COLUMNS)}, and perhaps {",".join(further)}'


def _faults_of(entry: Mapping[str, str], kind: str, described: bool) -> Iterator[str]:
    """Yield each fault of a row: its column, and what was expected there."""
    for column in (*ID_COLUMNS, 'source'):
        if not entry[column]:
            yield f'{column}: is empty'
    for column, allowed in (('kind', KINDS_OF_FILE[kind]), ('mode', ('', *MODES))):
        if entry[column] not in allowed:
            yield f'{column}: {expected_one_of(entry[column], allowed)}'
    if fault := fault_of(entry['unit'] if described else '1', entry['better']):
        yield fault
    yield from faults_of_pairs(entry)
    if entry['recorded_at'] and not _is_date(entry['recorded_at']):
        yield f'recorded_at: expected a date such as 2026-11-21; found {entry["recorded_at"]!r}'
    if entry['kind'] in NO_LIMIT and not entry['note']:
        yield f'note: is empty; a row of kind {entry["kind"]} says why it is no limit'
    if kind == 'baseline' and not (entry['n'] and (entry['std'] or entry['n'] == '1')):
        yield 'std and n: a baseline row needs both; of one session n alone'
    if bool(entry['std']) != bool(entry['n']) and kind != 'baseline':
        yield 'std and n: give both, or neither where the source has no spread'
    if len({bool(entry.get(column)) for column in ('spread', 'df', 'spread_n')}) > 1:
        yield 'spread, df and spread_n: give all three or none'
    for column in ('mean', 'std', 'spread', 'df', 'usual_spread', 'floor', 'n', 'spread_n'):
        if text := entry.get(column):
            value = number_in(entry.get(column))
            if value is None or not (math.isfinite(value) and value >= 0):
                yield f'{column}: expected a finite number of at least 0, found {text!r}'
            elif column in ('n', 'spread_n') and (value != int(value) or value < 1):
                yield f'{column}: expected a whole number of values, found {text!r}'
            elif column == 'df' and value < 1:
                yield f'df: expected at least 1, found {text!r}'
    if not number_in(entry['mean']):
        yield f'mean: expected a number above 0, found {entry["mean"]!r}'


def faults_of_pairs(entry: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong in the columns ``params`` and ``dims`` of a row."""
    for column in ('params', 'dims'):
        try:
            if to_text(from_text(entry[column])) != entry[column]:
                raise ValueError('expected its name=value pairs sorted by name')
        except ValueError as error:
            yield f'{column}: {error}; found {entry[column]!r}'


def _is_date(text: str) -> bool:
    """Return True if `text` is a date, or a date and time, that the calendar has."""
    try:
        datetime.fromisoformat(text.replace('Z', '+00:00'))
    except ValueError:
        return False
    return True


def _row(entry: Mapping[str, str]) -> Reference:
    """Return the reference in a row that has no faults."""
    counts = {column: int(float(entry[column])) if entry.get(column) else None for column in ('n', 'spread_n')}
    mean = number_in(entry['mean'])
    assert mean is not None  # this would be a fault
    return Reference(
        id=SeriesId.from_row(entry), quantity=Quantity(entry['unit'], entry['better']), mean=mean,
        std=number_in(entry.get('std')), n=counts['n'], kind=entry['kind'], source=entry['source'],
        recorded_at=entry['recorded_at'], mode=entry['mode'], note=entry['note'],
        software=entry.get('software', ''),
        spread=number_in(entry.get('spread')), df=number_in(entry.get('df')), spread_n=counts['spread_n'],
        usual_spread=number_in(entry.get('usual_spread')), floor=number_in(entry.get('floor')),
        epoch=entry.get('epoch', ''), provenance=entry.get('provenance', ''), printed=entry['mean'],
    )  # fmt: skip

"""References of a site: ``published.csv`` and ``baseline.csv``, read, checked and looked up."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plumbline.errors import SiteError
from plumbline.paths import SITES
from plumbline.units import UNITS

COLUMNS = (
    'partition', 'check', 'case', 'metric', 'unit', 'better', 'mean', 'std', 'n', 'kind', 'source', 'recorded_at',
    'stack', 'mode', 'note',
)  # fmt: skip
# What `plumbline record` knows besides; a baseline.csv written by hand may do without.
RECORDED = ('spread', 'df', 'spread_n', 'epoch', 'provenance')
# Each mode runs all that the modes before it run; a row's mode is the smallest that measures it.
MODES = ('quick', 'nightly', 'acceptance')
Key = tuple[str, str, str, str, str]  # partition, stack, check, case, metric
FILES = {'published': 'published.csv', 'baseline': 'baseline.csv'}
# Kinds of rows that are never a limit, so that nobody adds their numbers again; each says why in its note.
# unmeasured: no check measures this by the definition of its source; void: known to be wrong.
NO_LIMIT = ('unmeasured', 'void')
# The kinds of row that a file holds. `elsewhere`: published for another machine like this one; it warns, never fails.
KINDS = {'published': ('published', 'elsewhere', *NO_LIMIT), 'baseline': ('baseline',)}
_STANDING = ('elsewhere', 'published', 'session', 'baseline')  # the last that matches goes before the others


@dataclass(frozen=True)
class Reference:
    """What a metric should be. `mean` and `std` in `unit`; std and n may be unknown (None) for published numbers.

    A baseline's n counts sessions. `spread` is the standard deviation of the logarithm of one value that the limit
    uses, with `df` degrees of freedom, from `spread_n` sessions: more than n where an epoch moved only the mean.
    """

    partition: str
    check: str
    case: str
    metric: str
    unit: str
    better: str
    mean: float
    std: float | None
    n: int | None
    kind: str
    source: str
    recorded_at: str = ''
    stack: str = '*'
    mode: str = ''
    note: str = ''
    spread: float | None = None
    df: float | None = None
    spread_n: int | None = None
    epoch: str = ''
    provenance: str = ''

    @property
    def key(self) -> Key:
        return self.partition, self.stack, self.check, self.case, self.metric

    @property
    def is_limit(self) -> bool:
        return self.kind not in NO_LIMIT

    @property
    def is_pattern(self) -> bool:
        return any('*' in field for field in self.key)

    def matches(self, key: Key) -> bool:
        partition, stack, check, case, metric = key
        plain = ((self.partition, partition), (self.stack, stack), (self.check, check), (self.metric, metric))
        return all(mine in ('*', theirs) for mine, theirs in plain) and _case_matches(self.case, case)

    @property
    def rank(self) -> tuple[int, int]:
        """Which of several matching rows wins: a baseline before a published one, then the most specific."""
        fields = [self.partition, self.stack, self.check, self.metric, *self.case.split(',')]
        return _STANDING.index(self.kind), sum(not field.endswith('*') for field in fields)


def canonical_case(parameters: dict[str, object]) -> str:
    """The text that names a case: ``key=value`` pairs sorted by key and joined by commas; ``-`` without parameters."""
    return ','.join(f'{key}={value}' for key, value in sorted(parameters.items())) or '-'


def _case_matches(pattern: str, case: str) -> bool:
    if pattern in ('*', case):
        return True
    mine, theirs = pattern.split(','), case.split(',')
    return len(mine) == len(theirs) and all(
        m == t or (m.endswith('=*') and t.startswith(m[:-1])) for m, t in zip(mine, theirs, strict=True)
    )


class References:
    """The rows of a site, for look-up. Rows without a wildcard, nearly all, stand in a dictionary; only patterns are
    searched."""

    def __init__(self, rows: Iterable[Reference]):
        self.rows = list(rows)
        self.patterns = [row for row in self.rows if row.is_pattern]
        self._exact: dict[Key, Reference] = {}
        for row in self.rows:
            if not row.is_pattern and (row.key not in self._exact or row.rank > self._exact[row.key].rank):
                self._exact[row.key] = row

    @property
    def exact(self) -> Iterable[Reference]:
        """The row that counts of each key without a wildcard."""
        return self._exact.values()

    @cached_property
    def published(self) -> References:
        """Those that were not recorded here."""
        return References(row for row in self.rows if row.kind in KINDS['published'])

    def find(self, key: Key) -> Reference | None:
        """The row that counts for a metric, or None. Raises SiteError when two have the same right to it."""
        exact = self._exact.get(key)
        if exact is not None and exact.kind not in KINDS['published']:
            return exact  # nothing is more specific, and no kind goes before it
        found = [row for row in self.patterns if row.matches(key)] + ([exact] if exact else [])
        found.sort(key=lambda row: row.rank, reverse=True)
        if len(found) > 1 and found[0].rank == found[1].rank:
            raise SiteError(
                f'{" ".join(key)}: two {found[0].kind} rows match it equally well: {found[0].key} and {found[1].key}'
            )
        return found[0] if found else None


def load_references(site: str, root: Path = SITES) -> References:
    """The limits of both files of a site; one that does not exist holds no rows. Raises SiteError."""
    rows = []
    for kind, name in FILES.items():
        path = root / site / name
        if path.exists():
            rows += [row for row in read_references(path, kind) if row.is_limit]
    return References(rows)


def read_references(path: Path, kind: str) -> list[Reference]:
    """All rows of one file, limits or not. Raises SiteError naming file, line, column and what was expected."""
    rows: list[Reference] = []
    first_lines: dict[tuple, int] = {}
    try:
        with path.open(newline='', encoding='utf-8') as stream:
            reader = csv.DictReader(stream, strict=True)
            further = RECORDED if kind == 'baseline' else ()
            if tuple(reader.fieldnames or ()) not in (COLUMNS, COLUMNS + further):
                more = f', and perhaps {",".join(further)}' if further else ''
                raise SiteError(f'{path}:1: expected the columns {",".join(COLUMNS)}{more}')
            for entry in reader:
                where = f'{path}:{reader.line_num}'
                row = _row(entry, kind, where)
                first = first_lines.setdefault(row.key, reader.line_num)
                if first != reader.line_num:
                    raise SiteError(f'{where}: the same partition, stack, check, case and metric as line {first}')
                rows.append(row)
    except OSError as error:
        raise SiteError(f'{path}: cannot be read: {error.strerror}') from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise SiteError(f'{path}: not a valid CSV file: {error}') from None
    return rows


def _row(entry: dict[str, str | None], kind: str, where: str) -> Reference:
    if None in entry or None in entry.values():
        raise SiteError(f'{where}: expected {len([column for column in entry if column])} fields')
    for column in ('partition', 'check', 'case', 'metric', 'source', 'stack'):
        if not entry[column]:
            raise SiteError(f'{where}: {column}: is empty')
    for column, allowed in (
        ('unit', UNITS), ('better', ('higher', 'lower')), ('kind', KINDS[kind]), ('mode', ('', *MODES)),
    ):  # fmt: skip
        if entry[column] not in allowed:
            raise SiteError(f'{where}: {column}: expected one of {", ".join(allowed)}; found {entry[column]!r}')
    if entry['case'] not in ('*', ','.join(sorted(entry['case'].split(',')))):
        raise SiteError(f'{where}: case: expected its key=value pairs sorted; found {entry["case"]!r}')
    if entry['kind'] in NO_LIMIT and not entry['note']:
        raise SiteError(f'{where}: note: a row of kind {entry["kind"]} says why it is no limit')
    if kind == 'baseline' and not (entry['std'] and entry['n']):
        raise SiteError(f'{where}: std and n: a baseline row needs both')
    if bool(entry['std']) != bool(entry['n']):
        raise SiteError(f'{where}: std and n: give both, or neither where the source has no spread')
    if len({bool(entry.get(column)) for column in ('spread', 'df', 'spread_n')}) > 1:
        raise SiteError(f'{where}: spread, df and spread_n: give all three or none')
    numbers: dict[str, float | None] = {column: _number(entry, column, where) for column in ('std', 'spread', 'df')}
    for column in ('n', 'spread_n'):
        value = _number(entry, column, where)
        if value is not None and (value != int(value) or value < 1):
            raise SiteError(f'{where}: {column}: expected a whole number of values, found {entry[column]!r}')
        numbers[column] = None if value is None else int(value)
    if numbers['df'] is not None and numbers['df'] < 1:
        raise SiteError(f'{where}: df: expected at least 1, found {entry["df"]!r}')
    mean = _number(entry, 'mean', where)
    if not mean:
        raise SiteError(f'{where}: mean: expected a number above 0, found {entry["mean"]!r}')
    return Reference(**entry | numbers | {'mean': mean})


def _number(entry: dict[str, str], column: str, where: str) -> float | None:
    if not entry.get(column):
        return None
    try:
        value = float(entry[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise SiteError(f'{where}: {column}: expected a finite number of at least 0, found {entry[column]!r}')
    return value

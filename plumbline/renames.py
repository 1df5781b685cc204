# SPDX-License-Identifier: BSD-3-Clause
"""Renames of checks, metrics, params and values of params, from ``renames.csv`` beside this file.

Data written before a rename keeps the old names; the code that reads such data gets today's names from here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from plumbline.errors import InputError, expected_one_of
from plumbline.identity import Pairs, SeriesId

TABLE = Path(__file__).with_name('renames.csv')
COLUMNS = ('kind', 'check', 'old', 'new', 'since')
#: What can be renamed. `value`: a value of a param, written as ``name=value``.
RENAMED_KINDS = ('check', 'metric', 'param', 'value')
_VERSION = re.compile(r'\d+\.\d+\.\d+')


@dataclass(frozen=True)
class Names:
    """Today's names of a check, of its metrics and of its params, by their earlier names.

    `values`: (today's name of a param, earlier value) -> today's value.
    """

    check: str
    metrics: Mapping[str, str]
    params: Mapping[str, str]
    values: Mapping[tuple[str, str], str]

    def metric(self, name: str) -> str:
        """Return today's name of a metric."""
        return self.metrics.get(name, name)

    def pair(self, name: str, value: str) -> tuple[str, str]:
        """Return a param with today's name and value."""
        name = self.params.get(name, name)
        return name, self.values.get((name, value), value)

    def pairs(self, of: Pairs) -> Pairs:
        """Return params with today's names and values."""
        return tuple(sorted(self.pair(*pair) for pair in of))


class _Rename(NamedTuple):
    line: int
    check: str
    old: str
    new: str


def renames() -> Mapping[str, Names]:
    """Return the names of each check with renames, by each name that it has had. Raises InputError for a bad table."""
    return _read(TABLE)


def check_today(name: str) -> str:
    """Return today's name of a check."""
    names = renames().get(name)
    return names.check if names else name


def today(of: SeriesId) -> SeriesId:
    """Return today's id of a series, or of a pattern of series."""
    names = renames().get(of.check)
    if names is None:
        return of
    return replace(of, check=names.check, params=names.pairs(of.params), metric=names.metric(of.metric))


def every_id(of: SeriesId) -> Iterator[SeriesId]:
    """Yield today's id of a series and all its earlier ids, for patterns that were written before a rename."""
    yield of
    known = renames()
    if names := known.get(of.check):
        checks = [check for check, names_of_check in known.items() if names_of_check is names]
        metrics = {of.metric, *(old for old in names.metrics if names.metric(old) == of.metric)}
        params = product(*({pair, *_earlier(names, *pair)} for pair in of.params))
        for check, pairs, metric in product(checks, params, metrics):
            earlier = replace(of, check=check, params=tuple(sorted(pairs)), metric=metric)
            if earlier != of:
                yield earlier


def _earlier(names: Names, name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield a param under each of its names with each of its values."""
    values = (old for (param, old), new in names.values.items() if (param, new) == (name, value))
    every_name = (old for old, new in names.params.items() if new == name)
    yield from product((name, *every_name), (value, *values))


@cache
def _read(path: Path) -> dict[str, Names]:
    rows: dict[str, list[_Rename]] = {kind: [] for kind in RENAMED_KINDS}
    for kind, row in _rows(path):
        rows[kind].append(row)
    checks = _resolved(path, rows['check'])
    own = {
        kind: [row._replace(check=checks.get(row.check, row.check)) for row in rows[kind]] for kind in RENAMED_KINDS[1:]
    }
    by_name = {}
    for check in dict.fromkeys([*checks.values(), *(row.check for of in own.values() for row in of)]):
        metrics, params = (
            _resolved(path, [row for row in own[kind] if row.check == check]) for kind in ('metric', 'param')
        )
        values = _resolved(path, [_of_param(path, row, params) for row in own['value'] if row.check == check])
        pairs = {old.partition('=')[::2]: new.partition('=')[2] for old, new in values.items()}
        by_name[check] = Names(check, metrics, params, pairs)
    return by_name | {old: by_name[new] for old, new in checks.items()}


def _rows(path: Path) -> Iterator[tuple[str, _Rename]]:
    """Yield the rows of the table with their kinds."""
    try:
        with path.open(newline='', encoding='utf-8') as stream:
            reader = csv.DictReader(stream, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise InputError(f'{path}:1: expected the columns {",".join(COLUMNS)}')
            for row in reader:
                if fault := _fault(row):
                    raise InputError(f'{path}:{reader.line_num}: {fault}')
                yield row['kind'], _Rename(reader.line_num, row['check'], row['old'], row['new'])
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f'{path}: not a valid CSV file: {error}') from None


def _fault(row: Mapping[str, str]) -> str:
    """Return what is wrong with a row, and what was expected; empty if nothing is wrong."""
    if None in row or None in row.values():
        return f'expected {len(COLUMNS)} fields'
    if row['kind'] not in RENAMED_KINDS:
        return f'kind: {expected_one_of(row["kind"], RENAMED_KINDS)}'
    if bool(row['check']) != (row['kind'] != 'check'):
        return 'check: expected the check of a metric, param or value, and nothing for a check'
    for column in ('old', 'new'):
        if not row[column] or (row['kind'] == 'value' and not all(row[column].partition('='))):
            return f'{column}: expected {"name=value" if row["kind"] == "value" else "a name"}, found {row[column]!r}'
    if not _VERSION.fullmatch(row['since']):
        return f'since: expected a version such as 1.2.0, found {row["since"]!r}'
    return ''


def _of_param(path: Path, row: _Rename, params: Mapping[str, str]) -> _Rename:
    """Return the rename `row` of a value, with the param under today's name. Raises InputError."""
    (old, _, before), (new, _, after) = row.old.partition('='), row.new.partition('=')
    old, new = params.get(old, old), params.get(new, new)
    if old != new:
        raise InputError(f'{path}:{row.line}: expected two values of one param, found {row.old!r} and {row.new!r}')
    return row._replace(old=f'{old}={before}', new=f'{new}={after}')


def _resolved(path: Path, rows: Iterable[_Rename]) -> dict[str, str]:
    """Return today's name of each old name.

    Raises InputError if two names were renamed to the same name, or if an old name became a new one again.
    """
    by_old: dict[str, _Rename] = {}
    by_new: dict[str, _Rename] = {}
    for row in rows:
        if before := by_old.get(row.old):
            raise InputError(
                f'{path}:{row.line}: {row.old!r} has another new name, {before.new!r} of line {before.line}'
            )
        if before := by_new.get(row.new):
            raise InputError(
                f'{path}:{row.line}: {row.old!r} and {before.old!r} of line {before.line} would both be {row.new!r}: '
                'expected a new name that no other had'
            )
        by_old[row.old] = by_new[row.new] = row
    today_of = {}
    for old, row in by_old.items():
        passed = [row]
        while passed[-1].new in by_old and passed[-1].new != old:
            passed.append(by_old[passed[-1].new])
        if passed[-1].new == old:
            last = max(passed, key=lambda one: one.line)
            raise InputError(
                f'{path}:{last.line}: {last.new!r} is an old name of itself: expected one never used before'
            )
        today_of[old] = passed[-1].new
    return today_of

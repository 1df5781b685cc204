# SPDX-License-Identifier: BSD-3-Clause
"""JUBE's result tables with ``style="csv"``, and its result databases (SQLite).

A table does not say which columns were measured; columns with a unit (``<pattern unit="s">``, printed as
``seconds[s]``) count as measured. In a database columns of type float count, because JUBE 2.7.1 refuses units there.
"""

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import better_by_name, local
from postprocess.readers import fields
from postprocess.readers.run_reports import is_database

_SEPARATORS = ',;\t|'
_SPREAD = re.compile(r'_(?:std|cnt|min|max|first|last)$')  # ends of the names of JUBE's statistics other than the mean


def read(path: Path) -> Iterator[Measurement]:
    """Yield the measured columns of each row; the other columns are params, and rows with equal params are trials."""
    trials: Counter[tuple[str, ...]] = Counter()
    for row, units in _of_database(path) if is_database(path) else _of_table(path):
        others = {name: str(value) for name, value in row.items() if name not in units and value not in (None, '')}
        check = others.pop('jube_benchmark_name', path.stem)
        session, at = others.pop('jube_benchmark_id', ''), others.pop('jube_benchmark_start', None)
        params = {name: value for name, value in others.items() if not name.startswith('jube_')}
        case = check, session, *map('='.join, params.items())
        trials[case] += 1
        for column, unit in units.items():
            value, metric = (
                math.nan if row[column] in (None, '') else fields.number(row[column]),
                column.partition('[')[0],
            )
            yield Measurement(
                check=check, params=params, metric=metric, value=value, unit=unit, trial=trials[case],
                time=local(at) if at else None, session=session and f'{check} {session}',
                better='' if unit else better_by_name(metric), judged=not _SPREAD.search(metric),
            )  # fmt: skip


def _of_table(path: Path) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """Yield (row, column -> unit of the measured columns) of a CSV table."""
    lines = fields.lines_of(path)
    separator = max(_SEPARATORS, key=lines[0].count) if lines else ','
    for row in fields.named_rows(fields.csv_of(lines, separator)):
        units = {name: match[1] for name in row if (match := re.fullmatch(r'.+\[(.+)\]', name))}
        if not units:
            raise ValueError(f'expected a column with a unit, such as seconds[s], found {", ".join(row):.80}')
        yield row, units


def _of_database(path: Path) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """Yield (row, column -> unit of the measured columns) of a database."""
    try:
        with closing(sqlite3.connect(f'{path.absolute().as_uri()}?mode=ro', uri=True)) as database:
            if (state := database.execute('PRAGMA integrity_check').fetchone()) != ('ok',):
                raise ValueError(f'the database is damaged: {state}')
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                quoted = '"{}"'.format(table.replace('"', '""'))
                columns = database.execute(f'PRAGMA table_info({quoted})').fetchall()
                units = {name: '' for _, name, kind, *_ in columns if kind == 'float'}
                if not units:
                    raise ValueError(f'table {table:.40}: expected a column of type float')
                for row in database.execute(f'SELECT * FROM {quoted}').fetchall():
                    named = dict(zip((name for _, name, *_ in columns), row, strict=True))
                    yield {'jube_benchmark_name': table} | named, units
    except sqlite3.Error as error:
        raise ValueError(f'not a database of SQLite: {error}') from None

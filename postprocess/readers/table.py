# SPDX-License-Identifier: BSD-3-Clause
"""A table with named columns (docs/keep-your-suite.md): CSV, JSON lines or Parquet, by the suffix of the file."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plumbline.measurement import Measurement
from postprocess.readers import fields
from postprocess.results.node_checks import COLUMNS


def read(path: Path) -> Iterator[Measurement]:
    """Yield the number of each row."""
    rows = _rows(path)
    names = {name for row in rows for name in row}
    if unknown := names - {*COLUMNS}:
        raise ValueError(f'expected columns of {", ".join(COLUMNS)}, found {", ".join(sorted(unknown))}')
    if rows and (lacking := {'check', 'metric', 'value'} - names):
        raise ValueError(f'expected the columns check, metric and value, found no {", ".join(sorted(lacking))}')
    for number, row in enumerate(rows, 1):
        columns: dict[str, Any] = {'check': '', 'metric': '', 'where': f'row {number}'}
        columns |= {name: value for name, value in row.items() if value not in (None, '')}
        try:
            columns |= {name: fields.names(columns[name]) for name in ('params', 'dims') if name in columns}
            columns |= {'time': fields.utc(columns['time'])} if 'time' in columns else {}
            trial = str(columns.get('trial', 1))
            if not re.fullmatch('[0-9]{1,9}', trial):
                raise ValueError(f'trial: expected a number from 1 on, found {trial:.40}')
            columns |= {'value': fields.number(columns.get('value', math.nan)), 'trial': int(trial)}
            yield Measurement(**columns)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f'row {number}: {error}') from None


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file by the names of their columns."""
    if path.suffix == '.csv':
        return list(fields.named_rows(fields.csv_of(fields.lines_of(path))))
    if path.suffix in ('.jsonl', '.ndjson'):
        return [dict(fields.json_of(line)) for line in fields.lines_of(path) if line.strip()]
    if path.suffix == '.parquet':
        import pyarrow
        import pyarrow.parquet

        try:
            return pyarrow.parquet.read_table(path).to_pylist()
        except pyarrow.ArrowException as error:
            raise ValueError(str(error)) from None
    raise ValueError(f'expected a name that ends with .csv, .jsonl, .ndjson, .parquet, found {path.name}')

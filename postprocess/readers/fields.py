# SPDX-License-Identifier: BSD-3-Clause
"""What formats are made of: JSON, rows of CSV, numbers, names and times. All functions raise ValueError."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


def json_of(text: bytes | str) -> Any:
    """Return the value of a JSON text. A repeated key is an error, because the first value would be lost."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f'not JSON, or cut off: {error}') from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict. Raises ValueError for a repeated key."""
    content = dict(pairs)
    if len(content) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f'the key {next(key for key in content if keys.count(key) > 1)!r:.60} is there twice')
    return content


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text file; it must end with a line feed, or the last number may lack digits."""
    text = path.read_text(encoding='utf-8-sig')
    if text and not text.endswith('\n'):
        raise ValueError('the last line has no end; was the file cut off?')
    return text.splitlines()


def csv_of(lines: Sequence[str], separator: str = ',') -> list[list[str]]:
    """Return the fields of each line that is not empty."""
    try:
        return [row for row in csv.reader(lines, delimiter=separator, strict=True) if row]
    except csv.Error as error:
        raise ValueError(f'not CSV: {error}') from None


def named_rows(rows: Sequence[list[str]]) -> list[dict[str, str]]:
    """Return rows of CSV as dicts, by the names in the first row; all rows must have as many fields as the first."""
    names = rows[0] if rows else []
    if len(set(names)) != len(names):
        raise ValueError(f'expected columns of different names, found {", ".join(names)}')
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(names):
            raise ValueError(f'row {number}: expected {len(names)} fields, found {len(row)}')
    return [dict(zip(names, row, strict=True)) for row in rows[1:]]


def number(value: Any) -> float:
    """Return a finite number, or NaN if the value says NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f'expected a number, found {value!r:.40}')
    if isinstance(value, str) and ('_' in value or not value.isascii()):
        raise ValueError(f'expected a number, found {value!r:.40}')
    try:
        finite = float(value)
    except (ValueError, OverflowError):
        raise ValueError(f'expected a number, found {value!r:.40}') from None
    if math.isinf(finite):
        raise ValueError(f'expected a finite number, found {value!r:.40}')
    return finite


def names(text: Any) -> dict[str, str]:
    """Return a text such as ``size=8,kernel=copy``, or a mapping, as names and values."""
    if isinstance(text, dict):
        return {str(name): str(value) for name, value in text.items() if value is not None}
    parts = [part.partition('=') for part in str(text).split(',')]
    if not all(name and sign for name, sign, _ in parts):
        raise ValueError(f'expected name=value,name=value, found {text!r:.60}')
    return {name.strip(): value.strip() for name, _, value in parts}


def utc(value: Any) -> datetime:
    """Return a time in UTC, from ISO 8601, seconds since 1970, or milliseconds since 1970."""
    if isinstance(value, datetime):
        time = value
    elif isinstance(value, (int, float)) or re.fullmatch(r'\d{9,13}(\.\d+)?', str(value)):
        seconds = float(value)
        time = datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, timezone.utc)
    else:
        try:
            time = datetime.fromisoformat(str(value).replace('Z', '+00:00'))
        except ValueError:
            raise ValueError(f'expected a time such as 2026-11-01T02:00:00Z, found {value!r:.40}') from None
    return time.astimezone(timezone.utc).replace(tzinfo=None) if time.tzinfo else time

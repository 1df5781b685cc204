"""How numbers and rows look in every output, and one table in four formats."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FORMATS = ('table', 'markdown', 'json', 'csv')


@dataclass(frozen=True)
class Column:
    """A column of a shown table: its title, the text of a row in it, and whether that is a number."""

    title: str
    text: Callable[[Any], str]
    number: bool = False


def number(value: float | None) -> str:
    """Four significant digits, all digits before the point; empty for None."""
    if value is None:
        return ''
    return f'{value:.0f}' if 1e4 <= abs(value) < 1e9 else f'{value:.4g}'


def quantity(mean: float | None, std: float | None, unit: str) -> str:
    """``61.4 ± 0.35 GFlop/s``; without a spread only the mean."""
    if mean is None:
        return ''
    spread = '' if std is None else f' ± {std:.2g}' if std < 100 else f' ± {std:.0f}'
    return f'{number(mean)}{spread} {unit}'.rstrip()


def percent(value: float | None) -> str:
    return '' if value is None else f'{round(value, 1) + 0.0:+.1f} %'  # + 0.0: no "-0.0"


def count(n: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f'{n} {noun}' if n == 1 else f'{n} {noun}s'


def to_markdown(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    lines = [
        [column.title for column in columns],
        ['---:' if column.number else '---' for column in columns],
        *([column.text(row).replace('|', '\\|').replace('\n', ' ') for column in columns] for row in rows),
    ]
    return ''.join(f'| {" | ".join(cells)} |\n' for cells in lines)


def to_csv(rows: Sequence[dict[str, Any]], fields: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, extrasaction='ignore', lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def to_json(value: Any) -> str:
    """JSON that every reader takes: a number that is not finite, which JSON does not have, becomes null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + '\n'


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value


def to_table(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    """Aligned columns under their titles, a line to a row; rich takes seconds for thousands of rows."""
    cells = [[column.title for column in columns], *([column.text(row) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ['-' * width for width in widths])
    aligned = [
        (
            text.rjust(width) if column.number else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        )
        for line in cells
    ]
    return ''.join('  '.join(line).rstrip() + '\n' for line in aligned)

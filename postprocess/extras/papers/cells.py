# SPDX-License-Identifier: BSD-3-Clause
"""A cell of a table: a number in the unit and the digits of its column, or a figure that follows from others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plumbline.errors import InputError
from plumbline.record import Summary
from plumbline.references import Reference
from plumbline.site.sites import Partition, Site
from plumbline.units import UNITS, dimension, in_base_unit
from postprocess.extras.papers.energy import FORMULAS, contradiction
from postprocess.verdicts.measured import mean_of, pool

#: A cell: a number as text and as mean, standard deviation and n in `unit`; or only a text. `fault`: why the number is
#: known to be wrong.
CELL: dict[str, Any] = {
    'text': '', 'mean': None, 'std': None, 'n': None, 'unit': '', 'source': '', 'fault': '',
}  # fmt: skip
_NOT_CONVERTED = ('rate', 'efficiency', 'number')  # dimensions whose units count different things, so no conversion
_RANGE = re.compile(r'middle of ([0-9.]+) to ([0-9.]+)')  # in the note of a number that was published as a range


def placed(row: str, site: str, kind: str, column: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell with its place in the table."""
    place = {'row': row, 'site': site, 'kind': kind, 'group': column.get('group', ''), 'column': column['title']}
    return {**place, **cell}


def cell_of(
    column: dict[str, Any], entry: dict[str, Any], site: Site, numbers: list[Reference], used: set[int]
) -> dict[str, Any]:
    """Return the cell of a column in a row.

    It shows the text that the row has for it, a `peak` of the site, or the first source in `from` that has a number.
    The keys of the row and of the column fill the blanks of a source.
    """
    partition = site.partitions[entry.get('partition', next(iter(site.partitions)))]
    if column['title'] in entry.get('texts', {}):
        return CELL | {'text': str(entry['texts'][column['title']])}
    if 'printed' in column:
        printed = entry.get('printed', {}).get(column['printed'])
        return _shown(printed, column, entry, partition) if printed else CELL
    if 'peak' in column:
        peaks = partition.entry.get('peaks', {}) | partition.entry.get('published_peaks', {})
        return CELL | {'text': peaks.get(column['peak'], '').split(' ')[0]}
    if 'printed' in entry:
        return CELL
    for source in column['from'] if isinstance(column['from'], list) else [column['from']]:
        try:
            wanted = _filled(source, entry | column)
        except KeyError:
            continue  # the row lacks a word that this source needs
        if fitting := [row for row in numbers if _fits(row, partition.name, wanted)]:
            used.update(map(id, fitting))
            return _shown(_together(fitting, column), column, entry, partition)
    return CELL


def computed_cell(
    column: dict[str, Any], entry: dict[str, Any], cells: list[tuple[dict[str, Any], dict[str, Any]]]
) -> dict[str, Any]:
    """Return the cell of a column that a formula computes from earlier columns and words of the row, named in `of`.

    The printed number in the column `agrees_with` gets a fault if it differs from the result by more than `within`.
    """
    by_title = {f'{before.get("group", "")} {before["title"]}'.strip(): cell for before, cell in cells}
    inputs = [
        float(entry.get(name, 'nan')) if (cell := by_title.get(name)) is None else
        math.nan if cell['mean'] is None else cell['mean'] * UNITS[cell['unit']]
        for name in column['of']
    ]  # fmt: skip
    value = FORMULAS[column['computed']](*inputs) / UNITS[column['unit']]
    if math.isnan(value):
        return CELL
    printed = by_title.get(column.get('agrees_with', ''), CELL)
    if printed['mean'] is not None:
        own = printed['mean'] * UNITS[printed['unit']] / UNITS[column['unit']]
        texts = (by_title[name]['text'] for name in (*column['of'], column['agrees_with']) if name in by_title)
        why = contradiction(own, value, column['within'] + sum(map(_rounding, texts)))
        printed['fault'] = '; '.join(filter(None, [printed['fault'], why]))
    inputs_of = [by_title[name]['source'].removeprefix('computed from ') for name in column['of'] if name in by_title]
    text = f'{value:{column.get("format", ".2f")}}'
    return CELL | {
        'text': text,
        'mean': value,
        'unit': column['unit'],
        'source': f'computed from {", ".join(dict.fromkeys(inputs_of))}',
    }


def as_printed(value: float, printed: str) -> str:
    """Return the format of a value that keeps the significant digits of the printed number."""
    digits = len(printed.partition('e')[0].replace('.', '').lstrip('0'))
    return '.0f' if abs(value) >= 10**digits else f'#.{max(digits, 1)}g'


def _rounding(text: str) -> float:
    """Return the relative error that a printed number may have because it is rounded."""
    number = text.partition(' ')[0]
    return 0.5 / float(number.replace('.', '') or 'inf') if number else 0.0


def _filled(source: Any, words: Mapping[str, Any]) -> Any:
    """Return a source of a layout with its blanks, such as ``{isa}``, filled from `words`. Raises KeyError.

    None stays None: a param of None must not be there.
    """
    if isinstance(source, dict):
        return {name: _filled(value, words) for name, value in source.items()}
    return None if source is None else str(source).format_map(words)


def _fits(row: Reference, partition: str, wanted: Mapping[str, Any]) -> bool:
    """Return True if a number, whose id may be a pattern, has the check, metric and dims of a source.

    Params that the source does not name may have any value.
    """
    of_source = wanted['check'], wanted['metric'], wanted.get('dims', {})
    params = dict(row.id.params)
    return (
        row.id.partition in ('*', partition)
        and (row.id.check, row.id.metric, dict(row.id.dims)) == of_source
        and all(params.get(name) in ('*', value) for name, value in wanted.get('params', {}).items())
    )


def _together(rows: list[Reference], column: dict[str, Any]) -> Reference:
    """Return the numbers that fit a column as one number, over all their samples. Raises InputError if one has no n."""
    if len(rows) == 1:
        return rows[0]
    if unknown := [row for row in rows if not row.n]:
        raise InputError(
            f'{unknown[0].id} ({unknown[0].source}): {len(rows)} rows belong into the column {column["title"]}; '
            'expected n in each, or one row'
        )
    summary = pool(Summary(row.n or 0, row.mean, row.std, None, None) for row in rows)
    return replace(rows[0], mean=mean_of(summary), std=summary.std, n=summary.n)


def _shown(row: Reference, column: dict[str, Any], entry: dict[str, Any], partition: Partition) -> dict[str, Any]:
    """Return the cell of a number: in % of a peak of all nodes of the row, in the column's unit, or in its own.

    The factor `times` of a column is for percent and powers of ten.
    """
    own = row.quantity.unit
    unit = column.get('unit', own)
    if 'percent_of' in column:
        peaks = partition.peaks | partition.published_peaks
        peak = in_base_unit(entry['peak']) if 'peak' in entry else peaks.get(column['percent_of'])
        if peak is None:
            return CELL
        unit, scale = '%', 100 * UNITS[own] / (peak * int(entry.get('nodes', 1)))
    elif unit == own or dimension(unit) == dimension(own) not in _NOT_CONVERTED:
        scale = UNITS[own] / UNITS[unit] * float(column.get('times', 1))
    else:
        name = f'{row.id.check} {row.id.name} ({row.source})'
        raise InputError(f'{name} is in {own}, and the column {column["title"]} in {unit}')
    mean, std, spec = row.mean * scale, row.std and row.std * scale, column.get('format', '.2f')
    of_std = '.3g' if spec == 'printed' else spec
    spec = as_printed(mean, row.printed) if spec == 'printed' else spec
    spread = '' if std is None or not column.get('spread', True) else f' ± {std:{of_std}}'
    text = f'{mean:{spec}}'.replace('.e', 'e').rstrip('.') + spread
    if of_range := _RANGE.search(row.note):
        text = f'{of_range[1]} to {of_range[2]}'
    elif spec == 'g' and scale == 1 and row.printed.replace('.', '').isdigit():
        text = f'{row.printed}{spread}'  # as printed: 63.0, not 63
    return {
        'text': text, 'mean': mean, 'std': std, 'n': row.n, 'unit': unit,
        'source': f'computed from {row.source}' if 'percent_of' in column else row.source,
        'fault': row.note if row.kind == 'invalid' else '',
    }  # fmt: skip

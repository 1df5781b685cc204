# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the annex of the PRACE report (001, Tables 36 to 110), digit for digit, in ``annex.csv``.

Times are in seconds, power and energy in watts and joules, for one iteration of the code; `rate` and `efficiency` are
in the units of `_UNITS_OF`. `spread`: the standard deviations of the five figures in %, if they are printed. `invalid`:
the figures that are known to be wrong, and `note`: why. `peak`: given if it is not the peak of the partition, or
``none``.
"""

from __future__ import annotations

import csv
import functools
from pathlib import Path
from typing import Any

from plumbline.identity import Quantity, SeriesId
from plumbline.references import Reference
from plumbline.units import better
from postprocess.text import count

_FILE = Path(__file__).with_name('annex.csv')
_FIGURES = ('time', 'power', 'energy', 'rate', 'efficiency')
_UNITS = {'time': 's', 'power': 'W', 'energy': 'J'}
#: Code -> units of its rate and efficiency; the codes of EuroBen (mod2am, mod2as, mod2f) use MFlop.
_UNITS_OF = {'hydro': ('kU/s', 'kU/J'), 'linpack': ('GFlop/s', 'MFlop/J'), 'stream': ('MB/s', 'MB/J')}


@functools.cache
def rows() -> tuple[dict[str, str], ...]:
    """Return the rows of the file."""
    with _FILE.open(newline='', encoding='utf-8') as file:
        return tuple(csv.DictReader(file))


def entries(code: str) -> list[dict[str, Any]]:
    """Return the rows of a code for a layout of tables: their texts, and in ``printed`` name -> figure."""
    layout_rows = []
    for row in rows():
        if row['code'] != code:
            continue
        figures = _figures(row)
        if row['peak'] != 'none':
            figures['share'] = figures['rate']
        words = [f'{row["table"]}: {row["prototype"]}']
        words += [count(int(row[name]), name[:-1]) for name in ('nodes', 'threads') if row[name]]
        title = ', '.join([*words, row['size'] + (f' {row["fill"]} %' if row['fill'] else '')])
        of_peak = {'peak': row['peak']} if row['peak'] not in ('', 'none') else {}
        layout_rows.append(
            {
                'title': title, 'site': row['site'], 'partition': row['partition'], 'nodes': row['nodes'] or '1',
                'texts': {'Model': row['model']} if row['model'] else {}, 'printed': figures, **of_peak,
            }
        )  # fmt: skip
    return layout_rows


def _figures(row: dict[str, str]) -> dict[str, Reference]:
    """Return name -> figure of a row."""
    rate, efficiency = _UNITS_OF.get(row['code'].partition('-')[0], ('MFlop/s', 'MFlop/J'))
    units = {**_UNITS, 'rate': rate, 'efficiency': efficiency}
    spreads = dict(zip(_FIGURES, map(float, row['spread'].split()), strict=False))
    figures = {}
    for name in _FIGURES:
        if not row[name]:
            continue
        mean, kind = float(row[name]), 'invalid' if name in row['invalid'].split() else 'unmeasured'
        figures[name] = Reference(
            SeriesId(row['partition'], '*', row['code'], (), name),
            Quantity(units[name], str(better(units[name]))), mean,
            mean * spreads[name] / 100 if name in spreads else None, int(row['n']), kind,
            f'001 Table {row["table"]}', note=row['note'], printed=row[name],
        )  # fmt: skip
    return figures

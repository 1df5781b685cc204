# SPDX-License-Identifier: BSD-3-Clause
"""The templates of pages, with what they call: filters, rows of tables, and the library that draws histories."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from postprocess.incidents.words import commands, lead, since
from postprocess.report.details import packed
from postprocess.text import count, fixed, percent
from postprocess.verdicts.derived import OF_PEAK
from postprocess.verdicts.verdict import BAD
from postprocess.views.incidents import same_nodes
from postprocess.views.table import Column, TableRow, View

ROWS = 100  # most rows of a table without script; the script adds the others
_TEMPLATES = Path(__file__).resolve().parent / 'templates'
_FIRST = 8  # most series on the first screen, and most changes that are drawn
_CARDS = 12  # most incidents on the first screen
_FEW = 4  # most incidents for which the first command is shown without unfolding
_UPLOT = Path(__file__).resolve().parent / 'uplot'
_CLASSES = {'ok': 'o', 'improved': 'i', 'no_reference': 'u', 'informational': 'u', 'warning': 'w'}


@functools.cache
def template(name: str, own: Path = _TEMPLATES) -> jinja2.Template:
    """Return a template of the folder `own`, with the parts, filters and functions that all templates use."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([own, _TEMPLATES]), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        'percent': percent, 'broken': _broken, 'fixed': fixed, 'packed': packed, 'day': day_of, 'with_code': _with_code,
    }  # fmt: skip
    environment.globals |= {
        'count': count, 'classes': _CLASSES, 'bad': BAD, 'became': since, 'commands': commands, 'rows': _rows,
        'same_nodes': same_nodes, 'lead': lead, 'uplot': uplot, 'OF_PEAK': OF_PEAK,
        'FIRST': _FIRST, 'CARDS': _CARDS, 'FEW': _FEW, 'ROWS': ROWS,
    }  # fmt: skip
    return environment.get_template(name)


def uplot() -> dict[str, str]:
    """Return name -> text of the files of the library that draws histories."""
    return {path.name: path.read_text(encoding='utf-8') for path in _UPLOT.iterdir()}


def day_of(epoch: int) -> str:
    """Return the day (UTC) of a time in seconds since 1970."""
    return f'{datetime.fromtimestamp(epoch, timezone.utc):%Y-%m-%d}'


def _with_code(text: str) -> Markup:
    """Return text as HTML in which parts in backquotes are shown as code."""
    return Markup(re.sub('`(.+?)`', r'<code>\1</code>', str(escape(text))))  # noqa: S704 # nosec B704  escaped


def _broken(text: str) -> Markup:
    """Return text as HTML that a browser may break after a comma and a ``=``."""
    breakable = str(escape(text)).replace(',', ',<wbr>').replace('=', '=<wbr>')
    return Markup(breakable)  # noqa: S704 # nosec B704  escaped


def _rows(table: View, rows: Sequence[TableRow]) -> Markup:
    """Return `rows` of a table as HTML; a template would take four times as long for thousands of cells."""
    cells = (_cells(column, rows) for column in table.columns)
    lines = (f'<tr>{"".join(line)}</tr>\n' for line in zip(*cells, strict=True))
    return Markup(''.join(lines))  # noqa: S704 # nosec B704  escaped


def _cells(column: Column, rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the cell of each row in a column; ``data-v``: the number by which the page sorts."""
    begin, kind = f'<td data-column="{column.key}"', ' class="r"' if column.number else ''
    for row in rows:
        sort, parts = '', column.links(row)
        if column.key == 'verdict':
            kind = f' class="v {row["verdict"]}"'
        elif column.key == 'bad':
            kind = ' class="r b"' if row['bad'] else ' class="r"'
        if column.sort and any(text for text, _ in parts):
            order = row[column.sort.removeprefix('-')]
            sort = '' if order is None else f' data-v="{order:.2f}"'
        shown = ' '.join(
            f'<a href="{escape(address)}">{_broken(text)}</a>' if address else _broken(text) for text, address in parts
        )
        yield f'{begin}{kind}{sort}>{shown}</td>'

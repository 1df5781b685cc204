# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the papers in every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from postprocess.results.frames import to_csv
from postprocess.views.table import Column, to_json, to_markdown

if TYPE_CHECKING:
    from postprocess.extras.papers.tables import Table


def formatted_tables(found: Sequence[Table], format: str) -> str:
    """Return tables as ``table``, ``markdown`` or ``latex``; as ``csv`` or ``json`` with one entry for each cell."""
    if format in ('csv', 'json'):
        import pandas

        cells = pandas.concat([table.cells for table in found])
        return to_json(cells.to_dict('records')) if format == 'json' else to_csv(cells)
    return '\n'.join(_FORMATS[format](table) for table in found)


def _markdown(table: Table) -> str:
    """Return a table in Markdown."""
    titles = [f'{group}: {title}' if group else title for group, title in table.columns]
    columns = [Column(table.row_title, table.row_title), *(Column(title, title, number=True) for title in titles)]
    rows = [dict(zip((table.row_title, *titles), line, strict=True)) for line in table.texts.itertuples(name=None)]
    notes = ''.join(f'\n{note}\n' for note in table.notes)
    return f'**{table.title}**\n\n{to_markdown(rows, columns)}{notes}'


def _text(table: Table) -> str:
    """Return a table as plain text."""
    return '\n'.join([table.title, table.texts.to_string(), *table.notes, ''])


def _latex(table: Table) -> str:
    """Return a table in LaTeX."""
    caption, aligned = ' '.join([table.title, *table.notes]), 'l' + 'r' * len(table.columns)
    latex = table.texts.to_latex(caption=caption, column_format=aligned, escape=True)
    return latex.replace('±', r'$\pm$').replace(' - ', ' -- ').replace(' > ', ' $>$ ')


_FORMATS = {'table': _text, 'markdown': _markdown, 'latex': _latex}

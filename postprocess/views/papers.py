"""The tables of the papers in every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from postprocess.text import to_csv
from postprocess.views.table import Column, to_json, to_markdown

if TYPE_CHECKING:
    import pandas

    from postprocess.papers.tables import Table


def tables(found: Sequence[Table], format: str) -> str:
    """Return tables as ``table``, ``markdown`` or ``latex``; tidy as ``csv`` or ``json``, an entry a cell with text."""
    if format in ('csv', 'json'):
        rows = [
            {'table': table.title, 'row': row.title, 'site': row.site, 'kind': row.kind}
            | {'group': group, 'column': title}
            | asdict(cell)
            for table in found
            for row in table.rows
            for (group, title), cell in zip(table.columns, row.cells, strict=True)
            if cell.text
        ]
        return to_json(rows) if format == 'json' else to_csv(rows, list(rows[0]))
    return '\n'.join(_FORMATS[format](table) for table in found)


def _markdown(table: Table) -> str:
    titles = [f'{group}: {title}' if group else title for group, title in table.columns]
    columns = [Column('row', table.row_title)]
    columns += [Column(str(place), title, number=True) for place, title in enumerate(titles)]
    rows = [{'row': row.title} | {str(place): cell.text for place, cell in enumerate(row.cells)} for row in table.rows]
    notes = ''.join(f'\n{note}\n' for note in table.notes)
    return f'**{table.title}**\n\n{to_markdown(rows, columns)}{notes}'


def _text(table: Table) -> str:
    return '\n'.join([table.title, _frame(table).to_string(), *table.notes, ''])


def _latex(table: Table) -> str:
    aligned = 'l' + 'r' * len(table.columns)
    latex = _frame(table).to_latex(caption=' '.join([table.title, *table.notes]), column_format=aligned, escape=True)
    return latex.replace('±', r'$\pm$').replace(' - ', ' -- ').replace(' > ', ' $>$ ')


def _frame(table: Table) -> pandas.DataFrame:
    import pandas

    columns = pandas.MultiIndex.from_tuples(table.columns, names=('', table.row_title))
    cells = [[cell.text for cell in row.cells] for row in table.rows]
    return pandas.DataFrame(cells, index=[row.title for row in table.rows], columns=columns)


_FORMATS = {'table': _text, 'markdown': _markdown, 'latex': _latex}

# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the papers, with what a site measured below what was published; their layouts are YAML files here."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.errors import InputError
from plumbline.files import read_yaml
from plumbline.identity import NONE, to_text
from plumbline.paths import site_file, site_folder
from plumbline.references import FILES, Reference, read_references
from plumbline.site.sites import Site, load_site
from postprocess.extras.papers.annex import entries
from postprocess.extras.papers.annex import rows as rows_of_annex
from postprocess.extras.papers.cells import CELL, as_printed, cell_of, computed_cell, placed
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in

if TYPE_CHECKING:
    import pandas

_LAYOUTS = Path(__file__).parent
STYLES = tuple(sorted(path.stem for path in _LAYOUTS.glob('*.yaml')))


@dataclass(frozen=True)
class Table:
    """A table of a paper. `columns`: (group, title) of each; `note`: what is wrong with the paper's table.

    `cells`: one row for each cell with a text: `table`, `row`, `site`, `kind` (``published``, ``measured``, or
    ``range`` over several sites), `group`, `column`, and the keys of `CELL`.
    """

    title: str
    row_title: str
    note: str
    columns: list[tuple[str, str]]
    cells: pandas.DataFrame

    @property
    def texts(self) -> pandas.DataFrame:
        """The table as it is printed."""
        import pandas

        wide = self.cells.pivot(index='row', columns=['group', 'column'], values='text').fillna('')
        columns = pandas.MultiIndex.from_tuples(self.columns, names=('', self.row_title))
        return wide.reindex(index=self.cells['row'].unique()).reindex(columns=columns, fill_value='').rename_axis(None)

    @property
    def notes(self) -> list[str]:
        """The note, and a sentence for all numbers of the table that are wrong for one reason."""
        wrong = self.cells[self.cells['fault'] != ''].groupby(['row', 'fault'], sort=False)['column'].agg(', '.join)
        together: dict[tuple[str, str], list[str]] = {}
        for row, fault, columns in wrong.reset_index().itertuples(index=False):
            together.setdefault((columns, fault), []).append(row)
        lines = [
            f'Not to be believed: {"; ".join(rows)}: {columns}: {fault}' for (columns, fault), rows in together.items()
        ]
        return [*filter(None, [self.note]), *lines]


def paper_tables(
    style: str, sites: list[str], store: Store | None, session: str, root: Path | None = None
) -> list[Table]:
    """Return the tables of a style: of all its sites, or only of `sites`, which need not be in the paper.

    If the store holds a site, a row shows what its `session` (``latest``, or the beginning of a uuid) measured. Raises
    InputError if there is nothing to show, SiteError if a file of a site is wrong.
    """
    import pandas

    layouts = read_yaml(_LAYOUTS / f'{style}.yaml')
    for layout in layouts:
        if 'annex' in layout:
            layout['rows'] = entries(layout['annex'])
    of_paper = dict.fromkeys(row['site'] for layout in layouts for row in layout.get('rows', []))
    of_paper |= dict.fromkeys(site for layout in layouts for site in layout.get('sites', []))
    # `root` may hold only references
    known = {name: load_site(name, site_folder(name, root).parent) for name in sites or of_paper}
    numbers = {('published', name): _published(name, root) for name in known}
    if store:
        stored = {store.find(session).site} if session != 'latest' else set(store.sites())
        if session != 'latest' and stored.isdisjoint(known):
            raise InputError(f'session {session} is of site {", ".join(stored)}, which was not asked for: name it, too')
        numbers |= {('measured', name): _measured(name, store, session) for name in known.keys() & stored}
    others = [
        {'title': f'{name}:{partition}', 'site': name, 'partition': partition}
        for name in known.keys() - of_paper
        for partition in known[name].partitions
    ]
    tables: dict[str, Table] = {}
    used: set[int] = set()
    for layout in layouts:
        if 'lines' in layout:
            cells = _lines(layout, sites)
        elif 'ranges' in layout:
            cells = _ranges(layout, tables)
        elif 'rest_of' in layout:
            cells = _rest(layout, numbers, used)
        else:
            cells = _cells(layout, others, known, numbers, used)
        if cells:
            columns = [(column.get('group', ''), column['title']) for column in layout['columns']]
            frame = pandas.DataFrame([{'table': layout['title'], **cell} for cell in cells], dtype=object)
            tables[layout['name']] = Table(layout['title'], layout['row_title'], layout.get('note', ''), columns, frame)
    if not tables:
        raise InputError(f'{", ".join(known)}: neither a published nor a measured number belongs into style {style}')
    return list(tables.values())


def _published(site: str, root: Path | None) -> list[Reference]:
    """Return all published numbers of a site, also those that no check measures and those known to be wrong."""
    path = site_file(site, FILES['published'], root)
    return read_references(path, 'published') if path.exists() else []


def _measured(site: str, store: Store, session: str) -> list[Reference]:
    """Return what a session of the site measured."""
    stored = store.find(session, site)
    source = f'session {stored.session}'
    return [
        Reference(row.id, row.quantity, row.value, row.summary.std, row.summary.n, 'session', source)
        for row in measured_in(store, stored)
        if row.status == 'measured'
    ]


def _lines(layout: dict[str, Any], sites: Collection[str]) -> list[dict[str, Any]]:
    """Return the cells of a table of words: of all its lines, or only those of `sites`."""
    return [
        placed(line['title'], line.get('site', ''), 'published', column, CELL | {'text': text})
        for line in layout['lines']
        if not sites or line.get('site') in sites
        for column, text in zip(layout['columns'], line['texts'], strict=True)
    ]


def _cells(
    layout: dict[str, Any],
    others: list[dict[str, Any]],
    known: Mapping[str, Site],
    numbers: Mapping[tuple[str, str], list[Reference]],
    used: set[int],
) -> list[dict[str, Any]]:
    """Return the cells of the paper's rows of the known sites, then of `others`; rows without a number are left out.

    Adds to `used` the id() of each number that a cell shows.
    """
    all_cells = []
    for entry in [entry for entry in layout['rows'] if entry['site'] in known] + others:
        site = known[entry['site']]
        for kind, title in (('published', entry['title']), ('measured', f'{entry["title"]}, measured')):
            if kind == 'measured' and 'printed' in entry:
                continue  # the figures of this row were measured with another code
            own = numbers.get((kind, site.name), [])
            cells: list[tuple[dict[str, Any], dict[str, Any]]] = []
            for column in layout['columns']:
                if 'computed' in column:
                    cells.append((column, computed_cell(column, entry, cells)))
                else:
                    cells.append((column, cell_of(column, entry, site, own, used)))
            if any(cell['mean'] is not None for _, cell in cells):
                all_cells += [placed(title, site.name, kind, column, cell) for column, cell in cells if cell['text']]
    return all_cells


def _rest(
    layout: dict[str, Any], numbers: Mapping[tuple[str, str], list[Reference]], used: Collection[int]
) -> list[dict[str, Any]]:
    """Return the cells of each published number of a paper that no other table shows, and why no check measures it."""
    paper, annexed, cells = layout['rest_of'], {f'001 Table {row["table"]}' for row in rows_of_annex()}, []
    for (kind, site), own in numbers.items():
        for row in own if kind == 'published' else ():
            if not row.source.startswith(f'{paper} ') or id(row) in used or row.source in annexed:
                continue
            id_ = row.id
            what = ' '.join(text for text in (to_text(id_.params), id_.metric, to_text(id_.dims)) if text != NONE)
            name = f'{row.source.removeprefix(f"{paper} ")}, {site}:{id_.partition}: {id_.check} {what}'
            unit = row.quantity.unit
            text = f'{row.mean:{as_printed(row.mean, row.printed)}}'.rstrip('.') + f' {unit}' * (unit != '1')
            number = {'text': text, 'mean': row.mean, 'std': row.std, 'n': row.n, 'unit': unit, 'source': row.source}
            for column, cell in (('Value', number), ('Remark', {'text': row.note})):
                cells.append(placed(name, site, kind, {'title': column}, CELL | cell))
    return cells


def _ranges(layout: dict[str, Any], made: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Return the lowest and highest published mean of groups of sites, over columns of the tables in `made`."""
    ranges = []
    for group, column in itertools.product(layout['ranges'], layout['columns']):
        sites, of = group['sites'], column['of']
        if of['table'] not in made:
            continue
        cells = made[of['table']].cells.dropna(subset='mean')
        place = (cells['group'] == of.get('group', '')) & (cells['column'] == of['title'])
        cells = cells[place & (cells['kind'] == 'published') & cells['site'].isin(sites)]
        if len(cells):
            text = f'{cells["mean"].min():.2f} - {cells["mean"].max():.2f}'
            cell = CELL | {'text': text, 'unit': cells['unit'].iloc[0]}
            ranges.append(placed(group['title'], ', '.join(sites), 'range', column, cell))
    return ranges

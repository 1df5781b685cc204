# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the papers, with what a site measured below what was published; their layouts are YAML files here."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plumbline.errors import InputError
from plumbline.files import read_yaml
from plumbline.identity import NONE, to_text
from plumbline.paths import site_file, site_folder
from plumbline.record import Summary
from plumbline.references import FILES, Reference, read_references
from plumbline.site.sites import Partition, Site, load_site
from plumbline.units import UNITS, dimension, in_base_unit
from postprocess.papers.annex import entries
from postprocess.papers.annex import rows as rows_of_annex
from postprocess.papers.energy import FORMULAS, contradiction
from postprocess.results.store import Store
from postprocess.verdicts.measured import mean_of, measured_in, pool

if TYPE_CHECKING:
    import pandas

_ANNEX = re.compile(r'(\d+: .+, )([^,]+)')  # title of a row of the annex: code and size
_LAYOUTS = Path(__file__).parent
_NOT_CONVERTED = ('rate', 'efficiency', 'number')  # dimensions whose units count different things, so no conversion
STYLES = tuple(sorted(path.stem for path in _LAYOUTS.glob('*.yaml')))
#: A cell: a number as text and as mean, standard deviation and n in `unit`; or only a text. `fault`: why the number is
#: known to be wrong.
CELL: dict[str, Any] = {
    'text': '', 'mean': None, 'std': None, 'n': None, 'unit': '', 'source': '', 'fault': '',
}  # fmt: skip


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
        """The note, and a sentence for each number of the table that is known to be wrong."""
        wrong = self.cells[self.cells['fault'] != ''].groupby(['row', 'fault'], sort=False)['column'].agg(', '.join)
        together: dict[tuple[str, ...], list[str]] = {}
        for row, fault, columns in wrong.reset_index().itertuples(index=False):
            of_annex = _ANNEX.fullmatch(row)  # in a sweep, all sizes with the same fault share a sentence
            prefix, size = (of_annex[1], of_annex[2]) if of_annex else (row, '')
            together.setdefault((prefix, columns, fault), []).append(size)
        lines = [
            f'Not to be believed: {prefix}{"; ".join(sizes)}, {columns}: {fault}'
            for (prefix, columns, fault), sizes in together.items()
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
        if 'ranges' in layout:
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


_RANGE = re.compile(r'middle of ([0-9.]+) to ([0-9.]+)')  # in the note of a number that was published as a range


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
                computed = 'computed' in column
                cells.append(
                    (column, _computed(column, entry, cells) if computed else _cell(column, entry, site, own, used))
                )
            if any(cell['mean'] is not None for _, cell in cells):
                all_cells += [placed(title, site.name, kind, column, cell) for column, cell in cells if cell['text']]
    return all_cells


def placed(row: str, site: str, kind: str, column: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell with its place in the table."""
    place = {'row': row, 'site': site, 'kind': kind, 'group': column.get('group', ''), 'column': column['title']}
    return {**place, **cell}


def _cell(
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


def _computed(
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


def _as_printed(value: float, printed: str) -> str:
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
    spec = _as_printed(mean, row.printed) if spec == 'printed' else spec
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
            text = f'{row.mean:{_as_printed(row.mean, row.printed)}}'.rstrip('.') + f' {unit}' * (unit != '1')
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

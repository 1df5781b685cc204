"""The tables of the papers, with what a site measured below what was published; their layouts are YAML files here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.files import read_yaml
from plumbline.identity import SeriesId
from plumbline.paths import SITES, site_folder
from plumbline.record import Summary
from plumbline.references import FILES, read_references
from plumbline.sites import Partition, Site, load_site
from plumbline.units import UNITS, in_base_unit
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in
from postprocess.verdicts.stats import pool

_LAYOUTS = Path(__file__).parent
_CONVERTED = ('B/s', 'Flop/s')  # ends of units that a column may show in another size of them
_ANY = '*'
STYLES = tuple(sorted(path.stem for path in _LAYOUTS.glob('*.yaml')))


@dataclass(frozen=True)
class Cell:
    """A number as its text and as mean, standard deviation and n in `unit`; or a text alone.

    `fault`: why the number is known to be wrong.
    """

    text: str = ''
    mean: float | None = None
    std: float | None = None
    n: int | None = None
    unit: str = ''
    source: str = ''
    fault: str = ''


@dataclass(frozen=True)
class Row:
    """A cell for each column. `kind`: ``published``, ``measured``, or ``range`` over several sites."""

    title: str
    site: str
    kind: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """A table of a paper. `columns`: (group, title) of each; `note`: what is wrong with the paper's table."""

    title: str
    row_title: str
    columns: list[tuple[str, str]]
    rows: list[Row]
    note: str = ''

    @property
    def notes(self) -> list[str]:
        """The note, and a sentence for each number of the table that is known to be wrong."""
        wrong: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            for (_, title), cell in zip(self.columns, row.cells, strict=True):
                if cell.fault:
                    wrong.setdefault((row.title, cell.fault), []).append(title)
        lines = [f'Not to be believed: {row}, {", ".join(titles)}: {fault}' for (row, fault), titles in wrong.items()]
        return [*filter(None, [self.note]), *lines]


@dataclass(frozen=True)
class _Number:
    """A published or measured number. `series` of a published one may have ``*`` for any value."""

    series: SeriesId
    summary: Summary
    unit: str
    source: str
    fault: str = ''

    def fits(self, partition: str, wanted: _Wanted) -> bool:
        """Return True if it is of the metric and dims that are wanted; params that are not named may be any."""
        of, params = self.series, dict(self.series.params)
        return (
            (of.check, of.metric, dict(of.dims)) == (wanted.check, wanted.metric, wanted.dims)
            and of.partition in (_ANY, partition)
            and all(params.get(name) in (_ANY, value) for name, value in wanted.params.items())
        )


@dataclass(frozen=True)
class _Wanted:
    """What a column shows in a row. A param of None must not be there."""

    check: str
    metric: str
    params: dict[str, str | None]
    dims: dict[str, str]

    @classmethod
    def of(cls, source: Mapping[str, Any], words: Mapping[str, Any]) -> _Wanted:
        """Fill the blanks of a source of a layout, such as ``{isa}``. Raises KeyError where `words` lack one."""

        def filled(names: Mapping[str, Any]) -> dict[str, Any]:
            return {name: value if value is None else str(value).format_map(words) for name, value in names.items()}

        check, metric = (source[key].format_map(words) for key in ('check', 'metric'))
        return cls(check, metric, filled(source.get('params', {})), filled(source.get('dims', {})))


def tables(style: str, sites: list[str], store: Store | None, session: str, root: Path = SITES) -> list[Table]:
    """Return the tables of a style: of all its sites, or of `sites` alone, which need not be the paper's.

    Where the store holds a site, a row shows what its `session` (``latest``, or how its uuid begins) measured. Raises
    InputError where there is nothing to show, SiteError where a file of a site is wrong.
    """
    layouts = read_yaml(_LAYOUTS / f'{style}.yaml')
    of_paper = dict.fromkeys(row['site'] for layout in layouts for row in layout.get('rows', []))
    known: dict[str, Site] = {}
    for name in sites or of_paper:  # `root` may hold references alone
        known[name] = load_site(name, site_folder(name, root).parent)
    numbers = {('published', name): _published(name, root) for name in known}
    stored = set(store.sites()) if store else set()
    if store and session != 'latest':
        stored = {store.find(session).site}
        if stored.isdisjoint(known):
            raise InputError(f'session {session} is of site {", ".join(stored)}, which was not asked for: name it, too')
    if store:
        numbers |= {('measured', name): _measured(name, store, session) for name in known.keys() & stored}
    others = [
        {'title': f'{name}:{partition}', 'site': name, 'partition': partition}
        for name in known.keys() - of_paper
        for partition in known[name].partitions
    ]
    made: dict[str, Table] = {}
    for layout in layouts:
        columns = [(column.get('group', ''), column['title']) for column in layout['columns']]
        rows = _ranges(layout, made) if 'ranges' in layout else _rows(layout, others, known, numbers)
        if rows:
            titles = layout['title'], layout['row_title']
            made[layout['name']] = Table(*titles, columns, rows, layout.get('note', ''))
    if not made:
        raise InputError(f'{", ".join(known)}: neither a published nor a measured number belongs into style {style}')
    return list(made.values())


def _published(site: str, root: Path) -> list[_Number]:
    """Return all that was published, also what no check measures and what is known to be wrong."""
    path = root / site / FILES['published']
    return [
        _Number(
            row.id, Summary(row.n or 0, row.mean, row.std, None, None), row.quantity.unit, row.source,
            row.note if row.kind == 'invalid' else '',
        )
        for row in (read_references(path, 'published') if path.exists() else [])
    ]  # fmt: skip


def _measured(site: str, store: Store, session: str) -> list[_Number]:
    """Return what a session of the site measured."""
    found = store.find(session, site)
    return [
        _Number(row.id, row.summary, row.quantity.unit, f'session {found.session}')
        for row in measured_in(store, found)
        if row.status == 'measured'
    ]


def _rows(
    layout: dict[str, Any],
    others: list[dict[str, Any]],
    known: Mapping[str, Site],
    numbers: Mapping[tuple[str, str], list[_Number]],
) -> list[Row]:
    """Return the paper's rows of the known sites, then those of `others`, without rows that hold no number."""
    rows = []
    for entry in [entry for entry in layout['rows'] if entry['site'] in known] + others:
        site = known[entry['site']]
        for kind in ('published', 'measured'):
            found = numbers.get((kind, site.name), [])
            cells = [_cell(column, entry, site, found) for column in layout['columns']]
            if any(cell.mean is not None for cell in cells):
                title = entry['title'] if kind == 'published' else f'{entry["title"]}, measured'
                rows.append(Row(title, site.name, kind, cells))
    return rows


def _cell(column: dict[str, Any], entry: dict[str, Any], site: Site, numbers: Sequence[_Number]) -> Cell:
    """Return the cell of a column in a row.

    It shows the text that the row has for it, a `peak` of the site, or the first of the sources in `from` that has a
    number. The keys of the row and of the column fill the blanks of a source.
    """
    partition = site.partitions[entry.get('partition', next(iter(site.partitions)))]
    if column['title'] in entry.get('texts', {}):
        return Cell(str(entry['texts'][column['title']]))
    if 'peak' in column:
        return Cell(partition.entry.get('peaks', {}).get(column['peak'], '').split(' ')[0])
    for source in column['from'] if isinstance(column['from'], list) else [column['from']]:
        try:
            wanted = _Wanted.of(source, entry | column)
        except KeyError:
            continue  # the row lacks a word that this source needs
        found = [number for number in numbers if number.fits(partition.name, wanted)]
        if found:
            summary = found[0].summary if len(found) == 1 else pool(number.summary for number in found)
            if summary.mean is None:  # numbers without n cannot be pooled
                what = f'{site.name}:{partition.name} {found[0].series.check} {found[0].series.name}'
                raise InputError(
                    f'{what}: {len(found)} published rows without n belong into {column["title"]}; expected one'
                )
            return _shown(summary, summary.mean, found[0], column, _peak(column, entry, partition))
    return Cell()


def _peak(column: Mapping[str, Any], entry: Mapping[str, Any], partition: Partition) -> float | None:
    """Return the peak that the column shows a percentage of, in base units, of all nodes of the row."""
    peak = in_base_unit(entry['peak']) if 'peak' in entry else partition.peaks.get(column.get('percent_of', ''))
    return peak and peak * int(entry.get('nodes', 1))


def _shown(summary: Summary, mean: float, number: _Number, column: Mapping[str, Any], peak: float | None) -> Cell:
    """Return a number in percent of a peak, in the unit of the column, or in its own.

    The factor `times` of a column is for percent and powers of ten.
    """
    if 'percent_of' in column:
        if peak is None:
            return Cell()
        unit, scale = '%', 100 * UNITS[number.unit] / peak
    else:
        unit = column.get('unit', number.unit)
        if unit != number.unit and not any(unit.endswith(end) and number.unit.endswith(end) for end in _CONVERTED):
            what = f'{number.series.check} {number.series.name} ({number.source})'
            raise InputError(f'{what} is in {number.unit}, and the column {column["title"]} in {unit}')
        scale = UNITS[number.unit] / UNITS[unit] * float(column.get('times', 1))
    std = None if summary.std is None else summary.std * scale
    spec = column.get('format', '.2f')
    text = f'{mean * scale:{spec}}' + ('' if std is None or not column.get('spread', True) else f' ± {std:{spec}}')
    return Cell(text, mean * scale, std, summary.n or None, unit, number.source, number.fault)


def _ranges(layout: dict[str, Any], made: Mapping[str, Table]) -> list[Row]:
    """Return the lowest and highest published mean of groups of sites, over columns of the tables in `made`."""
    rows = []
    for group in layout['ranges']:
        cells = [_range(column, group['sites'], made) for column in layout['columns']]
        if any(cell.text for cell in cells):
            rows.append(Row(group['title'], ', '.join(group['sites']), 'range', cells))
    return rows


def _range(column: dict[str, Any], sites: Sequence[str], made: Mapping[str, Table]) -> Cell:
    table = made.get(column['of']['table'])
    if table is None:
        return Cell()
    place = table.columns.index((column['of'].get('group', ''), column['of']['title']))
    cells = [row.cells[place] for row in table.rows if row.site in sites and row.kind == 'published']
    means = [cell.mean for cell in cells if cell.mean is not None]
    if not means:
        return Cell()
    unit = next(cell.unit for cell in cells if cell.mean is not None)
    low, high = (f'{mean:{column.get("format", ".2f")}}' for mean in (min(means), max(means)))
    return Cell(f'{low} - {high}', unit=unit)

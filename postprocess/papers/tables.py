"""The tables of the papers, with what a site measured beside what was published; their layouts are in ``tables/``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plumbline.errors import InputError
from plumbline.paths import SITES, YAML_LOADER
from plumbline.record import Summary
from plumbline.references import FILES, read_references
from plumbline.sites import Site, load_site
from plumbline.units import UNITS, in_base_unit
from postprocess.results.store import Store
from postprocess.verdicts.measured import measured_in
from postprocess.verdicts.stats import pool

_LAYOUTS = Path(__file__).parent
_CONVERTED = ('B/s', 'Flop/s')  # ends of units that a column may show in another size of them
STYLES = tuple(sorted(path.stem for path in _LAYOUTS.glob('*.yaml')))


@dataclass(frozen=True)
class Cell:
    """A number as its text, and as it is: mean, standard deviation and n, in `unit`; or a text alone."""

    text: str = ''
    mean: float | None = None
    std: float | None = None
    n: int | None = None
    unit: str = ''
    source: str = ''
    fault: str = ''  # why the number is known to be wrong


@dataclass(frozen=True)
class Row:
    """`kind`: ``published``, ``measured``, or ``range`` over several sites. A cell for each column of the table."""

    title: str
    site: str
    kind: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """`columns`: (group, title) of each. `note`: where the paper's table is not to be believed."""

    title: str
    row_title: str
    columns: list[tuple[str, str]]
    rows: list[Row]
    note: str = ''

    @property
    def notes(self) -> list[str]:
        """The note, and why each number of the table is not to be believed that is known not to be."""
        wrong: dict[tuple[str, str], list[str]] = {}
        for row in self.rows:
            for (_, title), cell in zip(self.columns, row.cells, strict=True):
                if cell.fault:
                    wrong.setdefault((row.title, cell.fault), []).append(title)
        lines = [f'Not to be believed: {row}, {", ".join(titles)}: {fault}' for (row, fault), titles in wrong.items()]
        return [*filter(None, [self.note]), *lines]


@dataclass(frozen=True)
class _Number:
    partition: str
    check: str
    parameters: dict[str, str]  # of the case
    metric: str
    summary: Summary
    unit: str
    source: str
    fault: str = ''  # why a published number is known to be wrong


def tables(style: str, sites: list[str], store: Store | None, session: str, root: Path = SITES) -> list[Table]:
    """The tables of a style: of all its sites, or of `sites` alone, which need not be the paper's.

    Where the store holds a site, a row says what its `session` (``latest``, or how its uuid begins) measured. Raises
    InputError where there is nothing to show, SiteError where a file of a site is wrong.
    """
    layouts = yaml.load((_LAYOUTS / f'{style}.yaml').read_text(encoding='utf-8'), Loader=YAML_LOADER)
    of_paper = dict.fromkeys(row['site'] for layout in layouts for row in layout.get('rows', []))
    known: dict[str, Site] = {}
    for name in sites or of_paper:  # `root` may hold references alone
        known[name] = load_site(name, root if (root / name / 'site.yaml').exists() else SITES)
    numbers = {('published', name): _published(name, root) for name in known}
    stored = set(store.sites()) if store else set()
    if store and session != 'latest':
        stored = {store.find(session).site}
        if stored.isdisjoint(known):
            raise InputError(f'session {session} is of site {", ".join(stored)}, which was not asked for: name it, too')
    for name in known.keys() & stored:
        numbers['measured', name] = _measured(name, store, session)
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
            names = layout['title'], layout['row_title']
            made[layout['name']] = Table(*names, columns, rows, layout.get('note', ''))
    if not made:
        raise InputError(f'{", ".join(known)}: neither a published nor a measured number belongs into style {style}')
    return list(made.values())


def _published(site: str, root: Path) -> list[_Number]:
    """All that was published, also what no check measures, and what is known to be wrong."""
    path = root / site / FILES['published']
    return [
        _Number(
            row.partition, row.check, _parameters(row.case), row.metric,
            Summary(row.n or 0, row.mean, row.std, None, None), row.unit, row.source,
            row.note if row.kind == 'void' else '',
        )
        for row in (read_references(path, 'published') if path.exists() else [])
    ]  # fmt: skip


def _measured(site: str, store: Store, session: str) -> list[_Number]:
    found = store.find(session, site)
    source = f'session {found.session}'
    return [
        _Number(
            row.id.partition, row.id.check, dict(row.id.params), row.id.name, row.summary, row.quantity.unit, source
        )
        for row in measured_in(store, found)
        if row.status == 'measured'
    ]


def _parameters(case: str) -> dict[str, str]:
    return dict(pair.split('=', 1) for pair in case.split(',') if '=' in pair)


def _rows(
    layout: dict[str, Any],
    others: list[dict[str, Any]],
    known: dict[str, Site],
    numbers: dict[tuple[str, str], list[_Number]],
) -> list[Row]:
    """The paper's rows of the sites asked for, then those of `others`; without those that hold no number."""
    entries = [entry for entry in layout['rows'] if entry['site'] in known] + others
    rows = []
    for entry in entries:
        site = known[entry['site']]
        for kind in ('published', 'measured'):
            found = numbers.get((kind, site.name), [])
            cells = [_cell(column, entry, site, found) for column in layout['columns']]
            if any(cell.mean is not None for cell in cells):
                title = entry['title'] if kind == 'published' else f'{entry["title"]}, measured'
                rows.append(Row(title, site.name, kind, cells))
    return rows


def _cell(column: dict[str, Any], entry: dict[str, Any], site: Site, numbers: list[_Number]) -> Cell:
    """A column shows a `peak` of the site, or what its `from` names: check, metric and case, or several of these, of
    which the first that has a number counts. The keys of the row, then of the column fill in the blanks of these words.
    What stands in no reference, the row has in its `texts`."""
    partition = site.partitions[entry.get('partition', next(iter(site.partitions)))]
    if column['title'] in entry.get('texts', {}):
        return Cell(str(entry['texts'][column['title']]))
    if 'peak' in column:
        return Cell(partition.entry.get('peaks', {}).get(column['peak'], '').split(' ')[0])
    words = entry | column
    for source in column['from'] if isinstance(column['from'], list) else [column['from']]:
        try:
            check, metric = (source[key].format_map(words) for key in ('check', 'metric'))
            case = source.get('case', {})  # a parameter that must not be there is null
            wanted = {key: value if value is None else str(value).format_map(words) for key, value in case.items()}
        except KeyError:
            continue  # the row does not have what this one asks for
        found = [
            number
            for number in numbers
            if (number.check, number.metric) == (check, metric)
            and number.partition in ('*', partition.name)
            and all(number.parameters.get(key) in ('*', value) for key, value in wanted.items())
        ]
        if found:
            summary = found[0].summary if len(found) == 1 else pool(number.summary for number in found)
            if summary.mean is None:  # numbers without n cannot be pooled
                what = f'{site.name}:{partition.name} {check} {metric}'
                raise InputError(
                    f'{what}: {len(found)} published rows without n belong into {column["title"]}; expected one'
                )
            peak = in_base_unit(entry['peak']) if 'peak' in entry else partition.peaks.get(column.get('percent_of'))
            return _shown(summary, found[0], column, peak and peak * int(entry.get('nodes', 1)))
    return Cell()


def _shown(summary: Summary, number: _Number, column: dict[str, Any], peak: float | None) -> Cell:
    """In percent of a peak, in the unit of the column, or in its own; `times` is for percent and powers of ten."""
    if 'percent_of' in column:
        if peak is None:
            return Cell()
        unit, scale = '%', 100 * UNITS[number.unit] / peak
    else:
        unit = column.get('unit', number.unit)
        if unit != number.unit and not any(unit.endswith(end) and number.unit.endswith(end) for end in _CONVERTED):
            what = f'{number.check} {number.metric} ({number.source})'
            raise InputError(f'{what} is in {number.unit}, and the column {column["title"]} in {unit}')
        scale = UNITS[number.unit] / UNITS[unit] * float(column.get('times', 1))
    mean, std = summary.mean * scale, None if summary.std is None else summary.std * scale
    spec = column.get('format', '.2f')
    text = f'{mean:{spec}}' + ('' if std is None or not column.get('spread', True) else f' ± {std:{spec}}')
    return Cell(text, mean, std, summary.n or None, unit, number.source, number.fault)


def _ranges(layout: dict[str, Any], made: dict[str, Table]) -> list[Row]:
    """Lowest and highest published mean of a group of sites, over the columns of tables before this one."""
    rows = []
    for group in layout['ranges']:
        cells = [_range(column, group['sites'], made) for column in layout['columns']]
        if any(cell.text for cell in cells):
            rows.append(Row(group['title'], ', '.join(group['sites']), 'range', cells))
    return rows


def _range(column: dict[str, Any], sites: list[str], made: dict[str, Table]) -> Cell:
    table = made.get(column['of']['table'])
    if table is None:
        return Cell()
    place = table.columns.index((column['of'].get('group', ''), column['of']['title']))
    found = [row.cells[place] for row in table.rows if row.site in sites and row.kind == 'published']
    found = sorted((cell for cell in found if cell.mean is not None), key=lambda cell: cell.mean)
    if not found:
        return Cell()
    low, high = (f'{cell.mean:{column.get("format", ".2f")}}' for cell in (found[0], found[-1]))
    return Cell(f'{low} - {high}', unit=found[0].unit)

"""One self-contained HTML page about a session; opens from a file, prints, and needs no network."""

from __future__ import annotations

import json
import math
import platform
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from postprocess.compare import BAD, Comparison, MetricVerdict
from postprocess.measured import failure
from postprocess.show import HOW_TO_RECORD, headline, origin
from postprocess.store import Store
from postprocess.text import count, number, percent, quantity
from site_configs import SiteError, load_site

_TEMPLATES = Path(__file__).resolve().parent / 'templates'
_STEPS = 40  # distinct places of samples in a strip: enough to see two levels, few enough for a small page
_WIDTH, _HEIGHT = 100, 14
_PAIR = re.compile(r'(.+)_(\d+)_(\d+)')  # from and to, such as NUMA domains


def to_html(comparison: Comparison, store: Store) -> str:
    """The page. Raises InputError where the store cannot be read."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {'number': number, 'percent': percent}
    environment.globals |= {'quantity': quantity, 'count': count}
    samples = _samples(store.rows('samples', comparison.session))
    cases = store.rows('cases', comparison.session)
    return environment.get_template('report.html.j2').render(
        comparison=comparison,
        session=comparison.session,
        headline=headline(comparison),
        origin=origin(comparison),
        how_to_record=HOW_TO_RECORD,
        bad=BAD,
        fell_short=[row for row in comparison.verdicts if row.verdict in BAD],
        heat_maps=heat_maps(comparison.verdicts),
        strips=[strip(row, samples.get((row.case_id, row.metric), ())) for row in comparison.verdicts],
        provenance=_provenance(cases),
        not_run=_not_run(comparison, cases),
        nodes=sorted({node for case in cases for node in case['nodes']}),
    )


def strip(row: MetricVerdict, samples: Sequence[float]) -> dict[str, str] | None:
    """SVG paths of a strip 100 wide and 14 high: a tick a place, the taller the more samples it holds.

    ``samples``, ``limit`` and ``expected`` are the paths, the last two empty where there is no such number; None
    without finite samples.
    """
    values = [value for value in samples if value - value == 0]
    if not values:
        return None
    marks = [mark for mark in (row.limit, row.expected) if mark is not None]
    low, high = min(values + marks), max(values + marks)
    span = (high - low) or abs(high) or 1.0

    def place(value: float) -> int:
        step = round((value - low) / span * _STEPS) if high > low else _STEPS // 2
        return 2 + step * (_WIDTH - 4) // _STEPS

    ticks = Counter(place(value) for value in values)
    most = max(ticks.values())
    path = ''.join(f'M{x} {_HEIGHT}v-{4 + round(8 * n / most)}' for x, n in sorted(ticks.items()))
    line = {
        name: '' if value is None else f'M{place(value)} 0v{_HEIGHT}'
        for name, value in (('limit', row.limit), ('expected', row.expected))
    }
    return {'samples': path, **line}


@dataclass(frozen=True)
class HeatMap:
    """The metrics ``<name>_<i>_<j>`` of a case as a table, a row an i and a column a j.

    `cells` holds None where there is no such metric. `shade` of a value is from 0, the worst of the table, to 1, by its
    logarithm: beside a domain's own memory all others would look alike (002, figure 1b).
    """

    title: str
    unit: str
    rows: list[int]
    columns: list[int]
    cells: list[list[MetricVerdict | None]]

    def shade(self, row: MetricVerdict) -> float:
        values = [cell.value for line in self.cells for cell in line if cell and cell.value is not None]
        low, high = min(values), max(values)
        if not 0 < low < high:
            return 1.0
        share = math.log(row.value / low) / math.log(high / low)
        return share if row.better == 'higher' else 1 - share


def heat_maps(verdicts: Sequence[MetricVerdict]) -> list[HeatMap]:
    """One for each group of metrics with two numbers at the end of their names, at least two rows and columns."""
    groups: dict[tuple[str, str], dict[tuple[int, int], MetricVerdict]] = {}
    for row in verdicts:
        if found := _PAIR.fullmatch(row.metric):
            case = '' if row.case == '-' else f' {row.case}'
            title = f'{row.check}{case} {found[1]} on {row.partition}/{row.stack}'
            groups.setdefault((title, row.unit), {})[int(found[2]), int(found[3])] = row
    maps = []
    for (title, unit), cells in groups.items():
        rows, columns = sorted({i for i, _ in cells}), sorted({j for _, j in cells})
        if len(rows) > 1 and len(columns) > 1:
            maps.append(HeatMap(title, unit, rows, columns, [[cells.get((i, j)) for j in columns] for i in rows]))
    return maps


def _samples(rows: list[dict[str, Any]]) -> dict[tuple[int, str], list[float]]:
    found: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        found.setdefault((row['case_id'], row['metric']), []).append(row['value'])
    return found


def _provenance(cases: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """By check: each fact of its cases with the values it took, the one of most cases first."""
    facts: dict[str, dict[str, Counter]] = {}
    for case in cases:
        place = f'{case["check"]} on {case["partition"]} with {case["stack"]}'
        for key, value in json.loads(case['provenance']).items():
            facts.setdefault(place, {}).setdefault(key, Counter())[str(value)] += 1
    return {
        place: {key: [value for value, _ in values.most_common()] for key, values in sorted(of_check.items())}
        for place, of_check in sorted(facts.items())
    }


def _not_run(comparison: Comparison, cases: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What was not run or not measured, and why."""
    found = []
    for case in cases:
        if case['result'] in ('skip', 'fail_deps', 'abort'):
            found.append((f'{case["check"]} {case["case"]} on {case["partition"]}', failure(case)))
    for row in comparison.verdicts:
        if row.case_id is None:
            found.append((f'{row.check} {row.case} {row.metric} on {row.partition}', row.cause))
    session = comparison.session
    if session.hostname == platform.node():  # what a detected site lacks is known only where it is detected
        with suppress(SiteError):  # a site that is described elsewhere: nothing is known of what it lacks
            found += ((f'benchmark {name}', reason) for name, reason in load_site(session.site).not_found.items())
    return found

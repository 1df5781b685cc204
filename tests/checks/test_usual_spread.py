# SPDX-License-Identifier: BSD-3-Clause
"""The usual spread that each check states, and the floor of its tolerance, which docs/tolerances.md has."""

import re
from statistics import median

from reading import plan_of
from rows import each_row
from scratch import ROOT

from checks.core.reading.metrics import Metric
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references


def test_no_usual_spread_is_below_that_of_runs_of_one_session(classes):
    """Of 100 runs in the papers, whose spread is a lower bound."""
    sites = [path.parent.name for path in SUITE_SITES.glob('*/published.csv')]
    measured: dict[tuple[str, str], list[float]] = {}
    for row in (row for site in sites for row in load_references(site).published.rows):
        if row.kind == 'published' and row.std is not None and (row.n or 0) >= 10:
            measured.setdefault((row.id.check, row.id.metric), []).append(row.std / row.mean)
    assert len(measured) >= 10
    for (check, metric), spreads in measured.items():
        kind = Metric(metric, 'GB/s', 'higher', 'x')
        record = plan_of(check, (), [kind], usual_spread=classes[check].usual_spread).empty_record()
        assert median(spreads) <= record.metrics[metric].usual_spread, (check, metric)


PAGE = (ROOT / 'docs/tolerances.md').read_text(encoding='utf-8')
TABLE = PAGE.partition('The last two rows are the defaults')[0]
DEFAULTS = {name: int(floor) / 100 for name, floor in re.findall(r'^\| ([^|]+) \| (\d+) % \| \D', TABLE, re.MULTILINE)}


@each_row(
    ('line', 'check', 'unit'),
    [
        ('bandwidth and all else', 'BabelStreamBest', 'GB/s'),
        ('times: `s`, `ms`, `us`, `ns`', 'OsuLatency', 'us'),
        ('HPL, HPCG', 'HPL', 'GFlop/s'),
        ('IOR', 'IOR', 'MiB/s'),
        ('mdtest', 'Mdtest', 'ops/s'),
    ],
)
def test_the_default_floors_are_those_of_the_page(line, check, unit, classes):
    assert len(DEFAULTS) == 5
    metric = Metric('any', unit, 'lower' if line.startswith('times') else 'higher', 'x')
    plan = plan_of(check, (), [metric], usual_spread=classes[check].usual_spread)
    assert plan.empty_record().metrics['any'].floor == DEFAULTS[line]

# SPDX-License-Identifier: BSD-3-Clause
"""The table of defaults in docs/tolerances.md says what the checks state."""

import re

from reading import plan_of
from rows import each_row
from scratch import ROOT

from checks.core.reading.trials import Metric

PAGE = (ROOT / 'docs/tolerances.md').read_text(encoding='utf-8')
TABLE = PAGE.partition('The last two rows are the defaults')[0]
DEFAULTS = {name: int(floor) / 100 for name, floor in re.findall(r'^\| ([^|]+) \| (\d+) % \| \D', TABLE, re.MULTILINE)}


@each_row(
    ('line', 'check', 'unit'),
    [
        ('bandwidth and all else', 'BabelStreamBest', 'GB/s'),
        ('times: `s`, `ms`, `us`, `ns`', 'OsuLatency', 'us'),
        ('times: `s`, `ms`, `us`, `ns`', 'NumaLatency', 'ns'),
        ('HPL, HPCG', 'HPL', 'GFlop/s'),
        ('HPL, HPCG', 'HPCG', 'GFlop/s'),
        ('IOR', 'IOR', 'MiB/s'),
        ('mdtest', 'Mdtest', 'ops/s'),
    ],
)
def test_the_defaults(line, check, unit, classes):
    assert len(DEFAULTS) == 5
    metric = Metric('any', unit, 'lower' if line.startswith('times') else 'higher', 'x')
    plan = plan_of(check, (), [metric], floor=classes[check].floor)
    assert plan.empty_record().metrics['any'].floor == DEFAULTS[line]

"""The table of defaults in docs/tolerances.md says what the gate does."""

import re

import pytest
from rows import each_row
from scratch import ROOT

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Tolerance, limits, tolerance_for
from plumbline.migration import tolerance_of_schema_1
from plumbline.references import Reference

PAGE = (ROOT / 'docs/tolerances.md').read_text(encoding='utf-8')
DEFAULTS = {
    name: Tolerance(int(floor) / 100, int(cap) / 100)
    for name, floor, cap in re.findall(r'^\| ([^|]+) \| (\d+) % \| (\d+) % \|', PAGE, re.MULTILINE)
}


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
def test_the_defaults(line, check, unit):
    assert len(DEFAULTS) == 5
    assert tolerance_for({}, SeriesId('', '', check, (), 'any'), *tolerance_of_schema_1(check, unit)) == DEFAULTS[line]


def test_a_number_without_a_spread_gets_the_floor_and_says_so():
    of = SeriesId('node', 'cpu', 'HPL', (), 'gflops')
    row = Reference(of, Quantity('GFlop/s', 'higher'), 100.0, None, None, 'published', 'a paper')
    bound = limits(row, tolerance_for({}, of, *tolerance_of_schema_1('HPL', 'GFlop/s')))
    assert bound.bad == pytest.approx(97) and bound.gates
    assert f'`{bound.why}`' in ' '.join(PAGE.split())

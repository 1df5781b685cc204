"""Every metric name that checks of schema 1 listed in dry runs of three sites has a metric and declared dims."""

import json

import pytest
from scratch import ROOT

from plumbline.migration import metric_and_dims

NAMES = json.loads((ROOT / 'tests/data/metric_names_of_schema_1.json').read_text())


@pytest.mark.parametrize('check', NAMES)
def test_every_old_name_is_a_series_of_its_own_with_declared_dims(check, classes):
    found = [metric_and_dims(check, name) for name in NAMES[check]]
    assert len(set(found)) == len(found) > 0
    assert {dim for _, dims in found for dim, _ in dims} <= set(classes[check].dims)
    changed = {name for name, (metric, dims) in zip(NAMES[check], found, strict=True) if dims}
    without_dims = {'HPL', 'HPCG', 'HPCC', 'BabelStreamBest'}
    assert bool(changed) is (check not in without_dims)

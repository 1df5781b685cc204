# SPDX-License-Identifier: BSD-3-Clause
"""The usual spread that each check states, against the spread of 100 runs in the papers, which is a lower bound."""

from statistics import median

from checks.core.reading.trials import usual_spread_of
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references


def test_every_metric_of_a_check_has_a_usual_spread(classes):
    assert len(classes) > 25
    for name, check in classes.items():
        assert 0.001 <= usual_spread_of('a metric without a pattern of its own', check.usual_spread) <= 0.3, name


def test_no_usual_spread_is_below_that_of_runs_of_one_session(classes):
    sites = [path.parent.name for path in SUITE_SITES.glob('*/published.csv')]
    measured: dict[tuple[str, str], list[float]] = {}
    for row in (row for site in sites for row in load_references(site).published.rows):
        if row.kind == 'published' and row.std is not None and (row.n or 0) >= 10:
            measured.setdefault((row.id.check, row.id.metric), []).append(row.std / row.mean)
    assert len(measured) >= 10
    for (check, metric), spreads in measured.items():
        assert median(spreads) <= usual_spread_of(metric, classes[check].usual_spread), (check, metric)

# SPDX-License-Identifier: BSD-3-Clause
"""Convert the numbers of another suite to the units of its earlier sessions, so that GB/s and MB/s are one series."""

from __future__ import annotations

from dataclasses import replace

from plumbline.identity import Pairs, SeriesId
from plumbline.units import factor
from postprocess.results.rows import RunReport
from postprocess.results.store import Store

_SESSIONS = 20  # last sessions in which the unit of a series is looked up
_SQL = """
    SELECT "partition", environ, "check", params, metric, metrics.dims, arg_max(unit, night) AS unit
    FROM metrics JOIN cases USING (night, case_id) WHERE n > 0 GROUP BY ALL
"""


def convert(store: Store, report: RunReport) -> tuple[RunReport, list[str]]:
    """Return `report`, of another suite, in the units of its earlier sessions, and a sentence for each other unit."""
    of_site = store.sessions(report.session.site)
    earlier = [session for session in of_site if session.is_of_another_suite][-_SESSIONS:]
    if not earlier:
        return report, []
    units = {SeriesId.from_row(row): row['unit'] for row in store.select(_SQL, earlier)}
    cases = {case.case_id: case for case in report.cases}
    by: dict[tuple[int, str, Pairs], float] = {}
    sentences: dict[str, None] = {}
    metrics = []
    for row in report.metrics:
        case = cases[row.case_id]
        before = units.get(case.id.series(row.metric, row.dims))
        times = factor(row.unit, before) if before is not None and before != row.unit else None
        if before is not None and times is not None:
            by[row.case_id, row.metric, row.dims] = times
            sentences[f'{case.check} {row.metric} is in {row.unit}, converted to {before} as before'] = None
            mean, std, low, high = (_times(of, times) for of in (row.mean, row.std, row.min, row.max))
            row = row._replace(unit=before, mean=mean, std=std, min=low, max=high)
        metrics.append(row)
    samples = [each._replace(value=each.value * by.get(each[:3], 1.0)) for each in report.samples]
    return replace(report, metrics=metrics, samples=samples), [*sentences]


def _times(value: float | None, factor: float) -> float | None:
    """Return `value` times `factor`; None stays None."""
    return None if value is None else value * factor

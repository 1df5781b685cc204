# SPDX-License-Identifier: BSD-3-Clause
"""Convert the numbers of another suite to the units of its earlier sessions, so that GB/s and MB/s are one series."""

from __future__ import annotations

from typing import Any

from plumbline.identity import ID_COLUMNS
from plumbline.units import factor
from postprocess.results.store import Store
from postprocess.results.tables import RunReport

_SESSIONS = 20  # last sessions in which the unit of a series is looked up
_SQL = """
    SELECT "partition", environ, "check", params, metric, metrics.dims, arg_max(unit, night) AS unit
    FROM metrics JOIN cases USING (night, case_id) WHERE n > 0 GROUP BY ALL
"""


def convert(store: Store, report: RunReport) -> list[str]:
    """Convert the numbers of `report`, of another suite, to the units of earlier sessions.

    Return a sentence for each.
    """
    earlier = [session for session in store.sessions(report.site) if session.is_of_another_suite][-_SESSIONS:]
    if not earlier:
        return []
    units = {tuple(row[name] for name in ID_COLUMNS): row['unit'] for row in store.select(_SQL, earlier)}
    cases = {case['case_id']: case for case in report.cases}
    by: dict[tuple[int, str, str], float] = {}
    sentences: dict[str, None] = {}
    for row in report.metrics:
        case = cases[row['case_id']]
        before = units.get(tuple({**case, **row}[name] for name in ID_COLUMNS))
        times = factor(row['unit'], before) if before is not None and before != row['unit'] else None
        if before is not None and times is not None:
            by[row['case_id'], row['metric'], row['dims']] = times
            sentences[f'{case["check"]} {row["metric"]} is in {row["unit"]}, converted to {before} as before'] = None
            row |= {name: _times(row[name], times) for name in ('mean', 'std', 'min', 'max')} | {'unit': before}
    for sample in report.samples:
        sample['value'] *= by.get((sample['case_id'], sample['metric'], sample['dims']), 1.0)
    return [*sentences]


def _times(value: Any, factor: float) -> Any:
    """Return `value` times `factor`; None stays None."""
    return None if value is None else value * factor

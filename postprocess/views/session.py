# SPDX-License-Identifier: BSD-3-Clause
"""What the page of a session shows beside its incidents and charts: rows of its tables, and what did not run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from plumbline.identity import SeriesId, to_text
from postprocess.incidents.known import told_by
from postprocess.results.rows import CaseRow
from postprocess.text import count
from postprocess.verdicts.measured import failure
from postprocess.verdicts.verdict import Comparison
from postprocess.views import verdicts
from postprocess.views.series import SERIES, SeriesRow
from postprocess.views.table import Column, TableRow

if TYPE_CHECKING:
    from postprocess.history.digest import Digest

_NAMED = 4  # most nodes of a case that are named
_PLACED = replace(SERIES[0], format=lambda _, where: where, beside=('where',), width=16)
#: The columns of :func:`series_table`.
METRICS = tuple(_PLACED if column.key == 'partition' else column for column in verdicts.COMPARED)
#: The columns of the figures of :func:`postprocess.verdicts.derived.derived`.
DERIVED = (
    Column('what', 'figure', width=16),
    Column('value', 'value', '{:.3g}'.format, number=True),
    Column('of', 'of', '{}, {}/{}'.format, beside=('partition', 'environ'), width=24),
    Column('formula', 'formula', width=24),
    Column('source', 'source', width=24),
)


def incidents_of(digest: Digest) -> dict[SeriesId, list[str]]:
    """Return series -> ids of the incidents, not closed, that it belongs to."""
    ids: dict[SeriesId, list[str]] = {}
    for known in digest.known:
        for of in known.incident.series if not known.closed else ():
            ids.setdefault(of, []).append(known.id)
    return ids


def series_table(series: Iterable[SeriesRow], digest: Digest) -> list[TableRow]:
    """Return each series with its worst verdict and its incidents, first the one of the job that is shown."""
    ids, told = incidents_of(digest), told_by(digest.known)
    return [
        {
            **verdicts.to_row(one.worst, one.decimals),
            'id': one.id,
            'where': _where(one) + ', busy' * (one.worst.case_id in digest.comparison.busy_jobs),
            'incident': sorted(ids.get(one.series, []), key=told(one.series, one.worst.nodes).__ne__),
        }
        for one in series
    ]


def _where(one: SeriesRow) -> str:
    """Return the place of a series: ``cpu/system on n1, n2, the worst of 4 jobs``."""
    nodes = one.worst.nodes
    on = f' on {", ".join(nodes[:_NAMED])}{" ..." if len(nodes) > _NAMED else ""}' if nodes else ''
    others = f', the worst of {count(len(one.jobs), "job")}' if len(one.jobs) > 1 else ''
    return f'{one.series.partition}/{one.series.environ}{on}{others}'


def not_run(comparison: Comparison, cases: Iterable[CaseRow]) -> list[tuple[str, str]]:
    """Return (what was not run or not measured, why)."""
    causes: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case.result in ('skip', 'fail_deps', 'abort'):
            causes[f'{case.check} {to_text(case.params)} on {case.partition}', failure(case) or ''] = []
    for row in comparison.verdicts:
        if row.case_id is None:
            key = f'{row.id.check} {to_text(row.id.params)} on {row.id.partition}', row.cause
            causes.setdefault(key, []).append(row.id.name)
    return [
        (f'{what} {", ".join(metrics) if len(metrics) < 4 else count(len(metrics), "metric")}'.strip(), why)
        for (what, why), metrics in causes.items()
    ]

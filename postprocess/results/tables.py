"""The tables of the results store: their columns, and what makes a number count as measured."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

SCHEMA = 5
_TIME = pa.timestamp('us')
_WORDS = pa.list_(pa.string())
#: Columns that each table begins with.
COMMON = {'schema': pa.int32(), 'session': pa.string()}


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(COMMON | columns)


#: In the order in which their files are written. `case_id` is a number within the session; `round` is 0 for the first
#: run of a case, 1 for the next; `params` and `dims` of
#: metrics and samples are texts of `plumbline.identity.to_text`; `dims`, `draw`, `placement` and `provenance` of a case
#: are JSON. `status` of a metric is that of `status_of`; `selection` and `narrowed_by` are explained in `Session`.
TABLES = {
    'samples': _schema(
        case_id=pa.int32(), metric=pa.string(), dims=pa.string(), trial=pa.int32(), node=pa.string(),
        value=pa.float64(),
    ),
    'metrics': _schema(
        case_id=pa.int32(), metric=pa.string(), dims=pa.string(), unit=pa.string(), better=pa.string(), n=pa.int32(),
        mean=pa.float64(), std=pa.float64(), min=pa.float64(), max=pa.float64(), status=pa.string(),
        invalid=pa.string(), missing=pa.string(), judged=pa.bool_(), usual_spread=pa.float64(), floor=pa.float64(),
    ),
    'cases': _schema(
        case_id=pa.int32(), round=pa.int32(), partition=pa.string(), environ=pa.string(), check=pa.string(),
        params=pa.string(),
        name=pa.string(), fixture=pa.bool_(), benchmark=pa.bool_(), result=pa.string(), fail_phase=pa.string(),
        fail_reason=pa.string(), tags=_WORDS, trials=pa.int32(), scheduler=pa.string(), job_id=pa.string(),
        job_state=pa.string(), job_exitcode=pa.int32(), nodes=_WORDS, completed=_TIME, time_setup=pa.float64(),
        time_compile=pa.float64(), time_run=pa.float64(), time_sanity=pa.float64(), time_performance=pa.float64(),
        time_total=pa.float64(), trial_seconds=pa.list_(pa.float64()), dims=pa.string(), draw=pa.string(),
        placement=pa.string(), provenance=pa.string(), evidence=pa.string(),
    ),
    'sessions': _schema(
        started=_TIME, ended=_TIME, hostname=pa.string(), user=pa.string(), reframe=pa.string(), mode=pa.string(),
        cmdline=pa.string(), selection=_WORDS, narrowed_by=_WORDS, runs=pa.int32(), ran=pa.int32(),
        expected=pa.int32(), problems=_WORDS, report=pa.string(), report_sha256=pa.string(), source=pa.string(),
    ),
}  # fmt: skip

#: ReFrame's result of a case whose fixture failed.
NEEDED_FAILED = 'fail_deps'


def reached_its_end(result: str, fail_phase: str | None) -> bool:
    """Return True if the numbers of a case can be believed: it passed, or failed only against its references."""
    return result in ('pass', 'xfail', 'xpass') or (result == 'fail' and fail_phase == 'performance')


def status_of(result: str, fail_phase: str | None, invalid: bool, n: int, finite: bool) -> str:
    """Return what a series is in a session, from the result of its case: the one definition of what was measured.

    ``measured``; ``invalid``: the check found that its numbers cannot be true; ``missing``: declared, and without a
    number; ``failed``: its case failed, or its mean is not finite. `n`: number of samples.
    """
    if result == NEEDED_FAILED:
        return 'failed'
    if invalid:
        return 'invalid'
    if not n:
        return 'missing'
    return 'measured' if reached_its_end(result, fail_phase) and finite else 'failed'


def metric_row(case: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Return `row` of the table `metrics` with its case's id and its status; keys that it lacks are null there."""
    finite = row['mean'] is not None and math.isfinite(row['mean'])
    status = status_of(case['result'], case['fail_phase'], bool(row.get('invalid')), row['n'], finite)
    return {'case_id': case['case_id'], 'status': status} | row


def table_of(table: str, session: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows of a session as an Arrow table. Raises TypeError, ValueError or OverflowError."""
    schema = TABLES[table]
    own = pa.Table.from_pylist(rows, pa.schema(list(schema)[len(COMMON) :]))
    common = pa.repeat(pa.scalar(SCHEMA, COMMON['schema']), len(rows)), pa.repeat(session, len(rows))
    return pa.Table.from_arrays([*common, *own.columns], schema=schema)

# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the results store: their columns, and which numbers count as measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pyarrow as pa

from plumbline.identity import ID_COLUMNS

SCHEMA = 1
_TIME = pa.timestamp('us')
_WORDS = pa.list_(pa.string())
#: The first columns of each table.
COMMON = {'schema': pa.int32(), 'session': pa.string()}


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Return the schema of a table with the common columns and `columns`."""
    return pa.schema(COMMON | columns)


#: Table -> schema, in the order in which their files are written. `case_id`: a number within the session. `round`: 0
#: for the first run of a case, 1 for the next. `purpose` of a further run: ``node`` if a node is in doubt, ``look`` if
#: it shows how much a metric varies before there is a baseline, ``rest`` if it is what the first run left. `params` and
#: `dims` of metrics and samples: texts of `plumbline.identity.to_text`. `dims`, `draw`, `figures`, `placement`,
#: `provenance`, `health` and `causes` of a case: JSON. `status` of a metric: see `status_of`. `selection`,
#: `narrowed_by` and `problems`: see `Session`. `problem_facts`: JSON of those of `problems` that have facts.
#: `checksums`: JSON, see `postprocess.results.files`.
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
        case_id=pa.int32(), round=pa.int32(), purpose=pa.string(), partition=pa.string(), environ=pa.string(),
        check=pa.string(), params=pa.string(), name=pa.string(), fixture=pa.bool_(), benchmark=pa.bool_(),
        result=pa.string(), fail_phase=pa.string(), tags=_WORDS, trials=pa.int32(),
        scheduler=pa.string(), job_id=pa.string(), job_state=pa.string(), job_exitcode=pa.int32(), nodes=_WORDS,
        completed=_TIME, time_setup=pa.float64(), time_compile=pa.float64(), time_run=pa.float64(),
        time_sanity=pa.float64(), time_performance=pa.float64(), time_total=pa.float64(),
        trial_seconds=pa.list_(pa.float64()), dims=pa.string(), draw=pa.string(), figures=pa.string(),
        placement=pa.string(), provenance=pa.string(), health=pa.string(), causes=pa.string(), evidence=pa.string(),
    ),
    'sessions': _schema(
        started=_TIME, ended=_TIME, hostname=pa.string(), user=pa.string(), reframe=pa.string(), mode=pa.string(),
        cmdline=pa.string(), selection=_WORDS, narrowed_by=_WORDS, runs=pa.int32(), ran=pa.int32(),
        expected=pa.int32(), problems=_WORDS, problem_facts=pa.string(), report=pa.string(),
        report_sha256=pa.string(), source=pa.string(), checksums=pa.string(),
    ),
}  # fmt: skip

#: Tables with the rows of the cases of a session, which are put in place before its row in `sessions`.
OF_CASES = tuple(table for table in TABLES if table != 'sessions')

_SERIES = dict.fromkeys(ID_COLUMNS, pa.string())
_QUANTITY = dict.fromkeys(('unit', 'better'), pa.string())
_SUMMARY = {'n': pa.int64()} | dict.fromkeys(('mean', 'std', 'min', 'max'), pa.float64())
_LOSS = dict.fromkeys(('loss', 'loss_low', 'loss_high'), pa.float64())
_REFERENCE = pa.struct(
    _SERIES | _QUANTITY
    | {'mean': pa.float64(), 'std': pa.float64(), 'n': pa.int64()}
    | dict.fromkeys(('kind', 'source', 'recorded_at', 'mode', 'note', 'software'), pa.string())
    | {'spread': pa.float64(), 'df': pa.float64(), 'spread_n': pa.int64()}
    | dict.fromkeys(('usual_spread', 'floor'), pa.float64())
    | dict.fromkeys(('epoch', 'provenance', 'printed'), pa.string())
)  # fmt: skip
_LIMITS = pa.struct(
    dict.fromkeys(('bad', 'good', 'loss'), pa.float64()) | dict.fromkeys(('why', 'gate'), pa.string())
    | dict.fromkeys(('sd', 'df', 'detectable', 'sd_of_jobs'), pa.float64())
)  # fmt: skip
_JOB = pa.struct(
    {'round': pa.int32(), 'case_id': pa.int32(), 'nodes': _WORDS} | _SUMMARY
    | {'status': pa.string(), 'cause': pa.string(), 'ended': pa.bool_(), 'purpose': pa.string(), 'code': pa.string()}
)  # fmt: skip
_VALUE = pa.struct(_SERIES | _QUANTITY | {'value': pa.float64(), 'n': pa.int64(), 'expected': pa.float64()} | _LOSS)
#: Table -> schema of the tables that follow from the others, and are written when a session is judged: what
#: `postprocess.verdicts.verdict.Verdict` and `postprocess.incidents.incident.Incident` say. `code`: of the cause;
#: `brief`: its first part.
JUDGED = {
    'verdicts': _schema(
        **_SERIES, **_QUANTITY, verdict=pa.string(), cause=pa.string(), code=pa.string(), **_SUMMARY,
        reference=_REFERENCE, limits=_LIMITS, **_LOSS, window=pa.int32(), p=pa.float64(), q=pa.float64(),
        case_id=pa.int32(), nodes=_WORDS, stand_in=pa.string(), jobs=pa.list_(_JOB),
    ),
    'findings': _schema(
        kind=pa.string(), sort=pa.string(), partition=pa.string(), environ=pa.string(), scope_nodes=_WORDS,
        device=pa.string(), link_class=pa.string(), place=pa.string(), same_nodes=_WORDS, checks=_WORDS,
        series=pa.list_(_VALUE), nodes=_WORDS, cause=pa.string(), brief=pa.string(), code=pa.string(), **_LOSS,
        since=pa.string(), day=pa.string(), sessions=pa.int32(), changed=_WORDS, evidence=_WORDS, next_steps=_WORDS,
        certain=pa.bool_(), archives=_WORDS, named=pa.bool_(), cost=pa.float64(),
    ),
}  # fmt: skip

#: Columns that files of an earlier version may lack -> what their rows have.
LATER = {'brief': ''}

#: Whether the numbers of a series count, see `status_of`.
Status = Literal['measured', 'invalid', 'missing', 'failed']
#: ReFrame's result of a case if its fixture failed.
NEEDED_FAILED = 'fail_deps'


def reached_its_end(result: str, fail_phase: str | None) -> bool:
    """Return True if the numbers of a case are valid: it passed, or failed only against its references."""
    return result in ('pass', 'xfail', 'xpass') or (result == 'fail' and fail_phase == 'performance')


#: The same as SQL.
REACHED_ITS_END = ' OR '.join(
    f"(result = '{result}' AND coalesce(fail_phase, '') = '{phase}')"
    for result in ('pass', 'xfail', 'xpass', 'fail')
    for phase in ('', 'performance')
    if reached_its_end(result, phase)
)


def status_of(result: str, fail_phase: str | None, invalid: bool, n: int, finite: bool) -> Status:
    """Return the status of a series in a session from the result of its case; the only definition of ``measured``.

    ``measured``; ``invalid``: the check found that its numbers cannot be true; ``missing``: declared, but without a
    number; ``failed``: its case failed, or its mean is not finite. `n`: number of samples. `finite`: True if the mean
    is finite.
    """
    if result == NEEDED_FAILED:
        return 'failed'
    if invalid:
        return 'invalid'
    if not n:
        return 'missing'
    return 'measured' if reached_its_end(result, fail_phase) and finite else 'failed'


def facts_in_sql(names: Iterable[str]) -> str:
    """Return the SQL of facts of the provenance of a case: a list of texts as `names`, NULL where it lacks one."""
    return f'json_extract_string(provenance, {[f"$.{name}" for name in names]})'


#: The nodes of a case as one text: ``n1``, or ``n1,n2`` for a case on several.
NODE = "array_to_string(list_sort(nodes), ',')"
#: A hash of the names of a case.
CASE_HASH = 'hash("partition", environ, "check", params)'
#: Relation -> its SQL over the tables and the relations before it, for queries.
#: `measured`: each series in each job that measured it, with the columns of its case, its `node`, and a hash of the
#: names of its case, which `case_names` resolves: grouping by hashes takes half the time of grouping by names, and 64
#: bits are enough to tell cases apart.
#: `first_jobs`: the same without further jobs. A case, which in a node sweep has the node in its name, runs again
#: because of a bad or a missing number; so only the first of its jobs that measured a series shows usual level and
#: spread.
RELATIONS = {
    'measured': f"""
        SELECT metrics.* EXCLUDE ("schema"), of_case.* EXCLUDE (night, case_id)
        FROM metrics JOIN (
            SELECT * EXCLUDE ("schema", "session", site, "month", dims), {NODE} AS node, {CASE_HASH} AS "case"
            FROM cases WHERE NOT fixture
        ) AS of_case USING (night, case_id)
        WHERE status = 'measured'
    """,
    'first_jobs': """
        SELECT * FROM measured ANTI JOIN (
            SELECT night, case_id, metric, dims FROM measured
            SEMI JOIN (SELECT night, "partition", environ, name FROM cases WHERE round > 0)
                USING (night, "partition", environ, name)
            QUALIFY round > 0 AND row_number() OVER (
                PARTITION BY night, "partition", environ, name, metric, dims ORDER BY round, case_id
            ) > 1
        ) USING (night, case_id, metric, dims)
    """,
    'case_names': f"""
        SELECT {CASE_HASH} AS "case", any_value("partition") AS "partition", any_value(environ) AS environ,
            any_value("check") AS "check", any_value(params) AS params
        FROM cases WHERE NOT fixture GROUP BY ALL
    """,
}

# SPDX-License-Identifier: BSD-3-Clause
"""Read from the store the values that may go into a baseline, and the doubts about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import pyarrow as pa
from numpy import ndarray

from plumbline.identity import CaseId, Quantity, SeriesId
from plumbline.record import LOOK
from plumbline.units import UNITS
from postprocess.results.rows import CaseRow, MetricRow, SessionRows, typed, typed_row
from postprocess.results.store import Session, Store, portions
from postprocess.results.tables import CASE_HASH, NODE, REACHED_ITS_END, facts_in_sql
from postprocess.text import digits
from postprocess.verdicts.hardware import HARDWARE, unlike_jobs
from postprocess.verdicts.health import LOADS, disturbances
from postprocess.verdicts.measured import measured, smallest_mode

#: Name of the fact in the provenance of a case that identifies the binary that ran.
BINARY = 'binary_sha256'
#: The facts of the provenance of cases that are kept with a baseline, as possible causes of a later difference.
FACTS = (BINARY, 'check_code', 'stack_lock', 'kernel', 'driver', 'library_libmpi', 'library_libmpich', *HARDWARE)
_LISTS = {'nights': numpy.int32, 'cases': numpy.int32, 'values': numpy.float64, 'std': numpy.float64}
# One row for each series and unit; its lists have one element for each first job: with further jobs the mean would be
# too good and vary too little. Every point of a curve is recorded, although its check names only few points as metrics
# of their own.
_SERIES = """
    WITH jobs AS (
        SELECT * FROM first_jobs LEFT JOIN (
            SELECT night AS of_night, case_id AS of_case, metric AS of_metric,
                regexp_replace(dims, '=[^,]*', '', 'g') AS of_names
            FROM metrics SEMI JOIN (SELECT night, case_id FROM metrics WHERE NOT judged) USING (night, case_id)
            GROUP BY ALL HAVING bool_or(judged)
        ) ON NOT judged AND of_night = night AND of_case = case_id AND of_metric = metric
            AND of_names = regexp_replace(dims, '=[^,]*', '', 'g')
        WHERE judged OR of_night IS NOT NULL
    ), found AS (
        SELECT "case", any_value(metric) AS metric, any_value(dims) AS dims, any_value(unit) AS unit,
            any_value(better) AS better, arg_max("floor", night) AS "floor",
            arg_max(usual_spread, night) AS usual_spread, list_distinct(flatten(list(DISTINCT tags))) AS tags,
            list(night::INT) AS nights, list(case_id::INT) AS cases, list(mean) AS "values", list(node) AS nodes,
            list(coalesce(std, 'nan'::DOUBLE)) AS std
        FROM jobs GROUP BY "case", hash(metric, dims, unit, better)
    )
    SELECT * EXCLUDE "case" FROM case_names JOIN found USING ("case")
"""
_LOOKS = f"""
    SELECT "partition", environ, "check", params, metric, dims, unit, better, night::INT AS night,
        list(mean ORDER BY round, case_id) AS "values"
    FROM measured WHERE purpose = '{LOOK}' AND mean > 0 GROUP BY ALL
"""
_BUSY = f"""
    SELECT night, case_id, "partition", environ, "check", params, {NODE} AS node,
        [TRY_CAST(fact AS DOUBLE) FOR fact IN {facts_in_sql(LOADS)}] AS loads
    FROM cases WHERE NOT fixture AND {{where}}
    ORDER BY night, case_id
"""
_ACCUSED = """
    SELECT night, case_id, "partition", environ, "check", params, why,
        if(list_contains(nodes, suspect), suspect, '') AS node
    FROM cases JOIN suspects USING (night)
    WHERE NOT fixture
        AND (list_contains(nodes, suspect) OR suspect = concat("partition", '/', environ, ' ', "check", ' ', params))
"""
# All runs of each case that failed to measure something in one of its runs
_UNMEASURED = f"""
    SELECT * FROM {{table}} SEMI JOIN (
        SELECT DISTINCT night, again.case_id FROM cases AS again JOIN (
            SELECT night, "partition", environ, name, fixture FROM cases
            LEFT JOIN (SELECT DISTINCT night, case_id, true AS lost FROM metrics WHERE status != 'measured')
                USING (night, case_id)
            WHERE lost OR NOT ({REACHED_ITS_END})
        ) USING (night, "partition", environ, name, fixture)
    ) USING (night, case_id)
    ORDER BY night, case_id
"""
# Each series of the cases that ran to their end in some sessions: the last night that declared (or judged) it, and the
# first night after that in which its case ran without it. A curve counts as judged if one of its points is judged.
_DECLARED = f"""
    WITH own AS (
        SELECT night, case_id, {CASE_HASH} AS "case" FROM cases WHERE NOT fixture AND ({REACHED_ITS_END})
    ), declared AS (
        SELECT DISTINCT own."case", night, metric, dims FROM metrics JOIN own USING (night, case_id)
        QUALIFY bool_or(judged) OVER (PARTITION BY night, case_id, metric, regexp_replace(dims, '=[^,]*', '', 'g'))
    ), ran AS (
        SELECT own."case", list(DISTINCT night) AS nights FROM own SEMI JOIN metrics USING (night, case_id) GROUP BY ALL
    ), latest AS (SELECT "case", metric, dims, max(night) AS latest FROM declared GROUP BY ALL)
    SELECT case_names.* EXCLUDE "case", metric, dims, list_min([one FOR one IN nights IF one > latest]) AS without,
        list_min(nights) AS first
    FROM ran LEFT JOIN latest USING ("case") JOIN case_names USING ("case")
"""


@dataclass(frozen=True, eq=False)
class Candidate:
    """The values of one series; each array has one element for each job.

    `nights`: index of the job's session in the sessions read. `cases`: its `case_id`. `std`: of the trials of the job,
    NaN with one trial. `stated`: floor and usual spread as the check states them. `looks`: index of a session -> values
    of further jobs, which no earlier value selected.
    """

    id: SeriesId
    quantity: Quantity
    mode: str
    stated: dict[str, float | None]
    nights: ndarray
    cases: ndarray
    values: ndarray
    std: ndarray
    nodes: ndarray
    looks: Mapping[int, ndarray] = field(default_factory=dict)

    def only(self, chosen: ndarray) -> Candidate:
        """Return the candidate with the jobs for which `chosen` is True, or with the jobs at the indices `chosen`."""
        arrays = {name: getattr(self, name)[chosen] for name in ('nights', 'cases', 'values', 'std', 'nodes')}
        return replace(self, **arrays)


@dataclass(frozen=True)
class Doubt:
    """A reason why the numbers of a job should not become a baseline.

    `night`: index of the session in the sessions read. `node`: the doubtful node, or empty.
    """

    night: int
    case_id: int
    case: CaseId
    node: str
    why: str

    def __str__(self) -> str:
        return f'{self.why} ({self.case.check} on {self.node})' if self.node else f'{self.why} ({self.case.check})'


@dataclass(frozen=True)
class Refusal:
    """A series that cannot be recorded, and the sessions concerned; no sessions if the cause concerns all of them."""

    id: SeriesId
    cause: str
    sessions: tuple[str, ...] = ()


def read_candidates(store: Store, sessions: Sequence[Session]) -> list[Candidate]:
    """Return what the sessions measured, sorted by series; one candidate for each unit and direction of a series."""
    table = store.query(_SERIES, sessions)
    if not table.num_rows:
        return []
    looks: dict[tuple[SeriesId, Quantity], dict[int, ndarray]] = {}
    for row in store.select(_LOOKS, sessions):
        looks.setdefault((row['id'], row['quantity']), {})[row['night']] = numpy.array(row['values'])
    nodes = table['nodes'].combine_chunks()
    names, codes = _dictionary(nodes.values)
    offsets = nodes.offsets.to_pylist()[1:-1]
    columns = zip(*(lists_in(table[name], kind) for name, kind in _LISTS.items()), strict=True)
    rows = map(typed_row, table.drop_columns(['nodes', *_LISTS]).to_pylist())
    candidates = []
    for row, arrays, places in zip(rows, columns, numpy.split(codes, offsets), strict=True):
        stated = {name: row[name] for name in ('floor', 'usual_spread')}
        id, quantity, mode = row['id'], row['quantity'], smallest_mode(row['tags'])
        lists = dict(zip(_LISTS, arrays, strict=True))
        of = Candidate(id, quantity, mode, stated, **lists, nodes=names[places], looks=looks.get((id, quantity), {}))
        candidates.append(of.only(numpy.lexsort((of.cases, of.nights))))
    return sorted(candidates, key=lambda of: (of.id, of.quantity))


#: Session -> (node, or case as text) -> why the numbers of this node or case are doubtful.
Accused = Mapping[str, Mapping[str, str]]


def read_doubts(store: Store, sessions: Sequence[Session], accused: Accused) -> dict[tuple[int, int], Doubt]:
    """Return (session, case) of each doubtful job -> the doubt: the load of its nodes, or an incident."""
    busy = [f'coalesce(loads[{i}] > {most}, false)' for i, (most, _) in enumerate(LOADS.values(), 1)]
    rows = store.select(_BUSY.format(where=f"contains(provenance, 'load_beside') AND ({' OR '.join(busy)})"), sessions)
    doubts = {}
    for row in rows:
        whys = disturbances(dict(zip(LOADS, row['loads'], strict=True)))
        doubts[row['night'], row['case_id']] = _doubt(row, '; '.join(whys))
    suspects = [
        (night, name, why)
        for night, session in enumerate(sessions)
        for name, why in accused.get(session.session, {}).items()
    ]
    if suspects:
        columns = dict(zip(('night', 'suspect', 'why'), map(list, zip(*suspects, strict=True)), strict=True))
        for row in store.select(_ACCUSED, sessions, suspects=columns):
            doubts[row['night'], row['case_id']] = _doubt(row, row['why'])
    return doubts


def read_unlike(
    store: Store, sessions: Sequence[Session], recorded: Mapping[CaseId, Mapping[str, str]]
) -> dict[tuple[int, int], Doubt]:
    """Return (session, case) of each job with other hardware than `recorded` -> the doubt; see `unlike_jobs`."""
    jobs = unlike_jobs(store, sessions, recorded)
    return {(job.night, job.case_id): Doubt(job.night, job.case_id, job.case, job.node, job.why) for job in jobs}


def number_of_cases(doubts: Iterable[Doubt]) -> int:
    """Return how many cases the doubtful jobs are of; a case may have run several times."""
    return len({(str(doubt.case), doubt.node) for doubt in doubts})


def _doubt(row: Mapping[str, Any], why: str) -> Doubt:
    """Return the doubt about the job of a row of the table `cases`."""
    return Doubt(row['night'], row['case_id'], row['id'], row['node'], why)


def unusable(group: Sequence[Candidate], any_unit: bool) -> str:
    """Return why the values of a series cannot be a reference; empty if they can.

    `group`: one candidate for each unit and direction of the series. `any_unit`: it is of another suite, with units of
    its own.
    """
    candidate = group[0]
    if len(group) > 1:
        quantities = '; '.join(f'{one.quantity.unit}, {one.quantity.better} is better' for one in group)
        return (
            f'its unit or direction differs between the sessions: {quantities}; to record the present one, name the '
            'sessions that have it: `plumbline record propose SESSION...`'
        )
    if not any_unit and candidate.quantity.unit not in UNITS:
        return f'unit {candidate.quantity.unit!r} is none of {", ".join(UNITS)}'
    if not float(digits(float(candidate.values.min()))) > 0:
        return f'mean {candidate.values.min():.6g}: a reference must be above 0'
    return ''


def read_unmeasured(store: Store, sessions: Sequence[Session]) -> list[Refusal]:
    """Return the series that at least one session failed to measure, one refusal for each cause."""
    cases, metrics = (store.query(_UNMEASURED.format(table=table), sessions) for table in ('cases', 'metrics'))
    rows = [SessionRows(session) for session in sessions]
    for night, case in zip(cases['night'].to_pylist(), typed(CaseRow, cases), strict=True):
        rows[night].cases.append(case)
    for night, metric in zip(metrics['night'].to_pylist(), typed(MetricRow, metrics), strict=True):
        rows[night].metrics.append(metric)
    refusals: dict[tuple[SeriesId, str], list[str]] = {}
    for of_session in rows:
        for row in measured(of_session):
            if row.status != 'measured':
                cause = str(row.cause) if row.status == 'failed' else f'{row.status}: {row.cause}'
                refusals.setdefault((row.id, cause), []).append(of_session.session.session)
    return [Refusal(of, cause, tuple(names)) for (of, cause), names in refusals.items()]


def read_ended(store: Store, sessions: Sequence[Session], wanted: Collection[SeriesId]) -> dict[SeriesId, Session]:
    """Return series -> first session without it, for each of `wanted` that its case no longer declares or judges.

    Reads from the newest session back to the one that declared the last of `wanted`.
    """
    open_of: dict[CaseId, set[SeriesId]] = {}
    for series in wanted:
        open_of.setdefault(series.case, set()).add(series)
    first_of: dict[CaseId, int] = {}
    ended: dict[SeriesId, Session] = {}
    for begin, some in reversed([*portions(sessions)]):
        if not open_of:
            break
        ran: dict[CaseId, int] = {}
        for row in store.select(_DECLARED, some):
            id = row['id']  # of a series, or of a case without any
            case = id.case if isinstance(id, SeriesId) else id
            ran[case] = begin + row['first']
            if id not in open_of.get(case, ()):
                continue
            open_of[case].discard(id)
            without = first_of.get(case) if row['without'] is None else begin + row['without']
            if without is not None:
                ended[id] = sessions[without]
        first_of |= ran
        open_of = {case: series for case, series in open_of.items() if series}
    return ended


class KeptFacts:
    """The facts of the provenance of each case in each session that are kept with a baseline."""

    def __init__(self, store: Store, sessions: Sequence[Session]):
        rows = store.select(
            f'SELECT "partition", environ, "check", params, {facts_in_sql(FACTS)} AS facts, '
            'list(DISTINCT night) AS nights FROM cases WHERE NOT fixture GROUP BY ALL',
            sessions,
        )
        self._found: dict[CaseId, list[tuple[list[str | None], set[int]]]] = {}
        for row in rows:
            self._found.setdefault(row['id'], []).append((row['facts'], set(row['nights'])))

    def of(self, case: CaseId, nights: set[int]) -> dict[str, list[str]]:
        """Return the values that each fact had in the sessions `nights`, sorted."""
        known: dict[str, set[str]] = {}
        for facts, seen in self._found.get(case, ()):
            if not nights.isdisjoint(seen):
                for name, value in zip(FACTS, facts, strict=True):
                    if value is not None:
                        known.setdefault(name, set()).add(value)
        return {name: sorted(values) for name, values in known.items()}


def evidence_of(store: Store, sessions: Sequence[Session], jobs: Collection[tuple[int, int]]) -> list[str]:
    """Return the archives of what the benchmarks of `jobs` wrote; `jobs`: (session, case)."""
    if not jobs:
        return []
    nights, cases = ([int(number) for number in ones] for ones in zip(*sorted(jobs), strict=True))
    sql = (
        "SELECT DISTINCT evidence FROM cases JOIN wanted USING (night, case_id) WHERE evidence != '' ORDER BY evidence"
    )
    rows = store.select(sql, sessions, wanted={'night': nights, 'case_id': cases})
    return [row['evidence'] for row in rows]


def _dictionary(texts: pa.Array) -> tuple[ndarray, ndarray]:
    """Return the different texts of an array, and for each element the index of its text."""
    encoded = texts.dictionary_encode()
    return numpy.array(encoded.dictionary.to_pylist(), object), encoded.indices.to_numpy(zero_copy_only=False)


def lists_in(column: pa.ChunkedArray, kind: type) -> Iterator[ndarray]:
    """Yield the lists of a column as arrays, without a copy and without pandas, which pyarrow's own way imports."""
    lists = column.combine_chunks()
    flat: ndarray = numpy.frombuffer(lists.values.buffers()[1], kind)
    yield from numpy.split(flat[: lists.offsets[-1].as_py()], lists.offsets.to_pylist()[1:-1])

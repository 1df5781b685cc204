# SPDX-License-Identifier: BSD-3-Clause
"""Gather the inputs for judging a session: references, earlier sessions, and where jobs ran."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy
from numpy import ndarray

from plumbline.identity import CaseId, SeriesId
from plumbline.limits import MOST_JOBS, expected_spread, limits
from plumbline.record import LOOK, OF_NODE, REST
from postprocess.results.store import Session, Store
from postprocess.statistics.baseline import Baseline
from postprocess.statistics.distributions import ENOUGH_METRICS, inliers, moderate
from postprocess.statistics.method import METHOD
from postprocess.statistics.pool import NodeJob, Pool
from postprocess.text import named
from postprocess.verdicts.candidates import Accused
from postprocess.verdicts.decide import Facts
from postprocess.verdicts.hardware import HARDWARE, unlike_jobs

_SESSIONS = 2 * METHOD.nights  # last sessions that are read: not every session has every series
_EXACT = 10**6  # assumed sessions behind a published number without an error: the number is taken as exact
_FEWEST = 3  # fewest sessions of a node that tell its own level


def on_own_nodes(rows: Sequence[Facts], recorded: ndarray) -> tuple[list[Facts], ndarray]:
    """Return the rows and what was recorded; a series measured on several nodes gets level and spread of its own node.

    A lasting difference between nodes is not a loss of tonight, so the reference is moved by it. It stays if the
    difference is beyond the limit or known from fewer than three sessions. `recorded`: rows x N x jobs; what a node
    lost meanwhile is left out.
    """
    several, moved_rows, recorded = _on_several_nodes(rows), list(rows), recorded.copy()
    recorded_on = numpy.isfinite(recorded[..., 0]).sum(axis=1)
    of_series: dict[tuple[SeriesId, float], list[int]] = {}
    for place, row in enumerate(rows):
        if row.measured.id in several and recorded_on[place] >= _FEWEST:
            of_series.setdefault((row.measured.id, row.reference.mean), []).append(place)
    for places in of_series.values():
        first = recorded[places, :, 0]
        # a loss while the baseline was recorded is not part of the level
        lost = numpy.isfinite(first) & ~inliers(first)
        recorded[places] = numpy.where(lost[..., None], numpy.nan, recorded[places])
        first = numpy.where(lost, numpy.nan, first)
        n = numpy.isfinite(first).sum(axis=1)
        level = numpy.nanmean(first, axis=1)
        squares = numpy.nansum((first - level[:, None]) ** 2, axis=1)
        if len(places) >= ENOUGH_METRICS:  # nodes differ in their spread, too
            variance, df = moderate(squares / (n - 1), n - 1.0)
        else:
            df = numpy.full(len(places), (n - 1.0).sum())
            variance = squares.sum() / df
        beside = level - numpy.average(level, weights=n)
        of_nodes = zip(beside.tolist(), numpy.sqrt(variance).tolist(), df.tolist(), n.tolist(), strict=True)
        for place, known in zip(places, of_nodes, strict=True):
            moved_rows[place] = _moved(rows[place], *known)
    return moved_rows, recorded


def _moved(row: Facts, more: float, sd: float, df: float, sessions: int) -> Facts:
    """Return the row with its reference moved by `more`, the difference of its node in the logarithm of performance.

    `sd`, `df`: spread of a session on the node, and its degrees of freedom; `sessions`: number behind `more`.
    """
    old = row.reference
    mean = old.mean * math.exp(row.sign * more)
    if row.sign * mean <= row.sign * row.bound.bad:
        return row
    reference = replace(
        old, mean=mean, std=sd * mean, n=sessions, spread=sd, df=df, spread_n=round(df) + 1,
        source=f'{old.source}, on {named(row.measured.nodes)}',
    )  # fmt: skip
    return replace(row, rules=[(reference, limits(reference, row.tolerance))], spread=None)


def _on_several_nodes(rows: Sequence[Facts]) -> set[SeriesId]:
    """Return the series that several of the rows have."""
    return {id for id, number in Counter(row.measured.id for row in rows).items() if number > 1}


def baseline_of(rows: Sequence[Facts], recorded: ndarray, weights: ndarray) -> Baseline:
    """Return the references of `rows` as arrays; `recorded`: the jobs of the sessions behind the references."""
    spreads = [expected_spread(row.spread or row.reference, row.tolerance) for row in rows]
    variance, df, assumed = (numpy.array(column) for column in zip(*spreads, strict=True))
    prior = numpy.where(assumed, variance, [row.tolerance.prior for row in rows])
    # the logarithm of the mean of values is above the mean of their logarithms by half of the variance
    mean = [
        row.sign * (math.log(row.reference.mean) - variance_of_row / 2 * (not unknown))
        for row, variance_of_row, unknown in zip(rows, variance, assumed, strict=True)
    ]
    return Baseline(
        mean=numpy.array(mean),
        variance=numpy.maximum(variance, prior / 16),  # printed values are rounded, so recorded values may be equal
        df=df,
        n=numpy.array([float(row.reference.n or _EXACT) for row in rows]),
        prior=prior,
        assumed=assumed,
        floor=numpy.array([-math.log1p(-row.tolerance.floor) for row in rows]),
        cap=numpy.array([-math.log1p(-row.tolerance.cap) for row in rows]),
        weight=weights,
        sessions=recorded[..., 0],
        second=recorded[..., 1],
    )


def with_tonight(since: ndarray, rows: Sequence[Facts]) -> ndarray:
    """Return rows x W x jobs: the jobs of the sessions `since` the baseline, and then the jobs of this session."""
    tonight = [row.jobs[:MOST_JOBS] for row in rows]
    jobs = numpy.full((len(rows), since.shape[1] + 1, max(since.shape[2], *map(len, tonight))), numpy.nan)
    jobs[:, :-1, : since.shape[2]] = since
    for row, values in zip(jobs, tonight, strict=True):
        row[-1, : len(values)] = values
    return jobs


@dataclass(frozen=True)
class Earlier:
    """The jobs of earlier sessions: of the baselines, `behind` them, and later ones.

    `recorded`: jobs of the sessions of the baselines, rows x N x jobs. `since`: jobs of the W `sessions` after them,
    rows x W x jobs.
    """

    sessions: Sequence[Session]
    behind: Sequence[Session]
    recorded: ndarray
    since: ndarray


def earlier_sessions(store: Store, last: Session, rows: Sequence[Facts]) -> Earlier:
    """Return the jobs of the sessions before `last`.

    The sessions of a baseline are named in its provenance; later sessions begin with the day on which the row was
    recorded. A case that ran on several nodes in one session is followed on each node.
    """
    earlier = [session for session in store.history(last) if session.session != last.session]
    names = numpy.array([session.short_name for session in earlier], str)
    days = numpy.array([session.day for session in earlier], str)

    @cache
    def parts(named: frozenset[str], day: str) -> ndarray:  # 1: session of the baseline; 2: later session
        return numpy.where(numpy.isin(names, [*named]), 1, 2 * (days >= day))

    which = numpy.array([parts(row.reference.sessions, row.reference.recorded_at) for row in rows])
    since = which == 2
    first = since & (since.cumsum(axis=1) <= METHOD.long)
    chosen = ((which == 1) | first).any(axis=0)
    chosen[-_SESSIONS:] = True
    if not chosen.any():
        nothing = numpy.full((len(rows), 0, 2), numpy.nan)
        return Earlier([], [], nothing, nothing)
    which = which[:, chosen]
    sessions = [session for session, wanted in zip(earlier, chosen, strict=True) if wanted]
    values = _read(store, sessions, rows)
    behind, later = (which == 1).any(axis=0), (which == 2).any(axis=0)
    return Earlier(
        [session for session, is_later in zip(sessions, later, strict=True) if is_later],
        [session for session, is_behind in zip(sessions, behind, strict=True) if is_behind],
        numpy.where((which == 1)[..., None], values, numpy.nan)[:, behind],
        numpy.where((which == 2)[..., None], values, numpy.nan)[:, later],
    )


def without(accused: Accused, earlier: Earlier, rows: Sequence[Facts]) -> ndarray:
    """Return what was recorded of `rows`, NaN for the nodes and cases that are `accused` in a session."""
    recorded = earlier.recorded.copy()
    for place, session in enumerate(earlier.behind):
        if names := set(accused.get(session.session, ())):
            doubtful = [str(row.measured.id.case) in names or bool(names & {*row.measured.nodes}) for row in rows]
            recorded[doubtful, place] = numpy.nan
    return recorded


@dataclass(frozen=True)
class Cases:
    """The cases of some rows: `ids`, the `case_id` of the first job of each case, and the `pool` of nodes.

    `names`: the node names that the numbers in `pool` stand for. `further`: number of further jobs in each of the last
    sessions before.
    """

    ids: list[int]
    names: list[str]
    pool: Pool
    further: list[int]


def cases_of(
    store: Store, session: Session, rows: Sequence[Facts], before: Sequence[Session],
    behind: Sequence[Session] = (),
) -> Cases:  # fmt: skip
    """Return where the jobs of `rows` ran, tonight and in the sessions `before`, of which the last ones count.

    Of cases that ran on several nodes, as in a node sweep, only the jobs of tonight count. `behind`: the sessions of
    the baselines.
    """
    ids = list(dict.fromkeys(row.measured.case_id for row in rows))
    number_of = {case_id: number for number, case_id in enumerate(ids)}
    of_case: dict[CaseId, set[int]] = {}
    for row in rows:
        of_case.setdefault(row.measured.id.case, set()).add(number_of[row.measured.case_id])
    alike = numpy.arange(len(ids))
    for numbers in of_case.values():
        alike[list(numbers)] = min(numbers)
    names: dict[str, int] = {}
    ran: set[tuple[int, int, int, int]] = set()
    jobs: dict[tuple[tuple[int, ...], int, int], ndarray] = {}
    for index, row in enumerate(rows):
        own, place = number_of[row.measured.case_id], 0
        for job in row.measured.measuring:
            nodes = tuple(names.setdefault(node, len(names)) for node in job.nodes)
            if job.purpose == OF_NODE:
                key = nodes, own, job.case_id
                jobs.setdefault(key, numpy.full(len(rows), numpy.nan))[index] = row.performance(job.value)
            else:
                ran |= {(len(before), own, place, node) for node in nodes if place < MOST_JOBS}
                place += 1
    last = list(before[1 - METHOD.nights :])
    known = {case: min(numbers) for case, numbers in of_case.items() if len(numbers) == 1}
    skipped = len(before) - len(last)
    ran |= {(night + skipped, case, job, node) for night, case, job, node in _ran_in(store, last, known, names)}
    recorded = _ran_in(store, behind, known, names) if len(names) > 1 else set()
    further = {row['night']: row['further'] for row in store.select(_FURTHER, last)} if last else {}
    draw = numpy.random.default_rng(int(hashlib.sha256(session.session.encode()).hexdigest()[:12], 16))
    pool = Pool(
        numpy.array([number_of[row.measured.case_id] for row in rows]), len(ids),
        numpy.array(sorted(ran), int).reshape(-1, 4), draw.permutation(len(ids)), alike,
        [NodeJob(nodes, own, values) for (nodes, own, _), values in jobs.items()],
        numpy.array(sorted((night, case, node) for night, case, job, node in recorded if not job), int).reshape(-1, 3),
    )  # fmt: skip
    return Cases(ids, list(names), pool, [further.get(night, 0) for night in range(len(last))])


def _ran_in(
    store: Store, sessions: Sequence[Session], known: dict[CaseId, int], names: dict[str, int]
) -> set[tuple[int, int, int, int]]:
    """Return (night, case, job, node) of the jobs of some sessions; `known`: cases that count; adds to `names`."""
    return {
        (job['night'], known[job['id']], job['job'], names.setdefault(node, len(names)))
        for job in (store.select(_NODES, sessions) if sessions else ())
        if job['id'] in known and job['job'] < MOST_JOBS
        for node in job['nodes']
    }


_NODES = """
    SELECT night, "partition", environ, "check", params, nodes, row_number() OVER (
        PARTITION BY night, "partition", environ, "check", params ORDER BY round, case_id
    ) - 1 AS job
    FROM cases SEMI JOIN measured USING (night, case_id) WHERE purpose != 'node'
"""
_FURTHER = f"""
    SELECT night, count(*) AS further FROM cases
    WHERE NOT fixture AND round > 0 AND purpose NOT IN ('{LOOK}', '{REST}') GROUP BY ALL
"""


def _read(store: Store, sessions: Sequence[Session], rows: Sequence[Facts]) -> ndarray:
    """Return the performance of each job, rows x sessions x jobs; NaN where there is no number.

    The last dimension is the largest number of jobs that ran, at least 2. With the allowed maximum, a thousand nodes
    would take 2 GB.
    """
    several = _on_several_nodes(rows)
    all_series: dict[tuple[Any, ...], int] = {}
    wanted: dict[tuple[int, str], int] = {}
    place = []
    for row in rows:
        id, quantity = row.measured.id, row.reference.quantity
        key = id, quantity.unit, quantity.better, id in several
        nodes = ','.join(sorted(row.measured.nodes)) if id in several else ''
        place.append(wanted.setdefault((all_series.setdefault(key, len(all_series)), nodes), len(wanted)))
    columns = 'id', 'unit', 'better', 'by_nodes'
    table = {name: list(values) for name, values in zip(columns, zip(*all_series, strict=True), strict=True)}
    number, nodes_of = (list(values) for values in zip(*wanted, strict=True))
    table_of_jobs = store.query(
        """
        -- Materialized: DuckDB else joins each case with all series of its check, or each value with all nodes
        WITH jobs AS MATERIALIZED (
            SELECT partition, environ, "check", params, metric, dims, unit, better, node, night, round, case_id, mean
            FROM measured WHERE mean > 0 AND purpose != 'node'
        ), numbered AS MATERIALIZED (
            SELECT number, CASE WHEN by_nodes THEN node ELSE '' END AS node, night, round, case_id, mean
            FROM jobs JOIN series USING (partition, environ, "check", params, metric, dims, unit, better)
        )
        SELECT place::BIGINT AS place, night::BIGINT AS night, mean FROM numbered JOIN wanted USING (number, node)
        ORDER BY place, night, round, case_id
        """,
        list(sessions),
        series=table | {'number': list(range(len(all_series)))},
        wanted={'number': number, 'node': nodes_of, 'place': list(range(len(wanted)))},
    )
    values: ndarray = numpy.full((len(wanted), len(sessions), 2), numpy.nan)
    if table_of_jobs.num_rows:
        # not with to_numpy, which imports pandas: the import takes longer than the query
        series, night, value = (
            numpy.frombuffer(table_of_jobs[name].combine_chunks().buffers()[1], kind, table_of_jobs.num_rows)
            for name, kind in (('place', 'i8'), ('night', 'i8'), ('mean', 'f8'))
        )
        begins = numpy.flatnonzero(numpy.diff(series, prepend=-1) | numpy.diff(night, prepend=-1))
        job = numpy.arange(len(series)) - numpy.repeat(begins, numpy.diff([*begins, len(series)]))
        used = job < MOST_JOBS
        values = numpy.full((*values.shape[:2], max(int(numpy.max(job[used])) + 1, 2)), numpy.nan)
        values[series[used], night[used], job[used]] = numpy.log(value[used])
    values = values[place]
    recorded = {
        row.measured.id.case: row.reference.facts for row in rows if not HARDWARE.keys().isdisjoint(row.reference.facts)
    }
    if recorded:
        rows_of: dict[CaseId, list[int]] = {}
        for index, row in enumerate(rows):
            rows_of.setdefault(row.measured.id.case, []).append(index)
        for unlike in unlike_jobs(store, sessions, recorded):
            for index in rows_of.get(unlike.case, ()) if unlike.case in recorded else ():
                measured = rows[index].measured
                if measured.id not in several or unlike.node == ','.join(sorted(measured.nodes)):
                    values[index, unlike.night] = numpy.nan
    return values * numpy.array([row.sign for row in rows])[:, None, None]

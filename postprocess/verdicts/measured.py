# SPDX-License-Identifier: BSD-3-Clause
"""Collect what a session measured and failed to measure; references are not used here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from plumbline.causes import Cause, Code, sentence
from plumbline.identity import Pairs, Quantity, SeriesId
from plumbline.record import NOTHING, Purpose, Summary
from plumbline.references import MODES
from postprocess.results.rows import NO_CASE, CaseRow, MetricRow, SessionRows
from postprocess.results.store import Session, Store
from postprocess.results.tables import NEEDED_FAILED, Status, reached_its_end

_NOT_RUN = {
    'abort': 'not run to its end: the session was aborted',
    NEEDED_FAILED: 'not run: a fixture or case that it needs failed',
    'skip': 'not run: ReFrame skipped it',
}


def pool(summaries: Iterable[Summary]) -> Summary:
    """Return the summary of all samples together; min and max are None if they are unknown in one of the summaries."""
    groups = [group for group in summaries if group.n]
    if len(groups) == 1:
        return groups[0]
    n = sum(group.n for group in groups)
    if not n:
        return NOTHING
    mean = math.fsum(group.n * mean_of(group) for group in groups) / n
    squares = math.fsum(
        (group.n - 1) * (group.std or 0.0) ** 2 + group.n * (mean_of(group) - mean) ** 2 for group in groups
    )
    least, most = [group.min for group in groups], [group.max for group in groups]
    return Summary(
        n=n,
        mean=mean,
        std=math.sqrt(squares / (n - 1)) if n > 1 else None,
        min=min(value for value in least if value is not None) if None not in least else None,
        max=max(value for value in most if value is not None) if None not in most else None,
    )


def mean_of(summary: Summary) -> float:
    """Return the mean of the samples; NaN without samples."""
    return math.nan if summary.mean is None else summary.mean


@dataclass(frozen=True)
class Job:
    """What one job measured of a series.

    `status`: as `postprocess.results.tables.status_of` returns it. `round`: 0 for the first run of the case in its
    session, 1 for the next. `cause`, `code`: why the status is not ``measured``. `ended`: True if the case came to its
    end. `purpose`: ``node`` if the job ran because its node is in doubt.
    """

    round: int
    case_id: int
    nodes: tuple[str, ...]
    summary: Summary
    status: Status
    cause: str
    ended: bool = True
    purpose: Purpose = ''
    code: Code | None = None

    @property
    def value(self) -> float:
        """The mean of the samples; NaN without samples."""
        return mean_of(self.summary)


@dataclass(frozen=True)
class Measured:
    """One series of one case of a session, from all `jobs` of the case; metric ``*`` stands for a case without metrics.

    A series with `judged` False is judged only if a reference names it. `stated`: floor and usual spread as the check
    states them, for `plumbline.limits.tolerance_for`.
    """

    id: SeriesId
    quantity: Quantity
    mode: str
    jobs: tuple[Job, ...]
    judged: bool = True
    stated: dict[str, float | None] = field(default_factory=dict)

    @classmethod
    def absent(cls, id: SeriesId, quantity: Quantity, why: Cause) -> Measured:
        """Return a series that no case of the session measured."""
        return cls(id, quantity, '', (Job(0, NO_CASE, (), NOTHING, 'missing', str(why), ended=False, code=why.code),))

    def no_longer_judged(self) -> Measured:
        """Return the series as missing: its check judged it when its reference was recorded, and no longer does."""
        why = 'its check judges it no longer, as it did for the reference: see size_cut in the provenance'
        jobs = [replace(job, summary=NOTHING, status='missing', cause=why, code='lost-metric') for job in self.jobs]
        return replace(self, jobs=tuple(jobs))

    @cached_property
    def measuring(self) -> tuple[Job, ...]:
        """The jobs with status ``measured``, in the order in which they ran."""
        return tuple(job for job in self.jobs if job.status == 'measured')

    @cached_property
    def first(self) -> Job:
        """The first job that measured the series, or the first job of all."""
        return (self.measuring or self.jobs)[0]

    @property
    def lost(self) -> tuple[Job, ...]:
        """The jobs that came to their end without a valid number."""
        return tuple(job for job in self.jobs if job.ended and job.status in ('missing', 'invalid'))

    @cached_property
    def summary(self) -> Summary:
        """The summary of all samples that were measured on `nodes`."""
        here = [job.summary for job in self.measuring if set(job.nodes) == set(self.nodes)]
        return pool(here) if self.status == 'measured' else self.first.summary

    @property
    def case_id(self) -> int:
        """The `case_id` of the first job that measured the series."""
        return self.first.case_id

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of the first job that measured the series."""
        return self.first.nodes

    @property
    def status(self) -> Status:
        """The status of the first job that measured the series, from `postprocess.results.tables.status_of`."""
        return self.first.status

    @property
    def cause(self) -> str:
        """Why the status is not ``measured``."""
        return self.first.cause

    @cached_property
    def value(self) -> float:
        """The mean of the samples; NaN without samples."""
        return mean_of(self.summary)


def smallest_mode(tags: list[str]) -> str:
    """Return the smallest mode among the tags of a case; empty without any."""
    return next((mode for mode in MODES if mode in tags), '')


def failure(case: CaseRow) -> str | None:
    """Return `failure_of` as a sentence."""
    why = failure_of(case)
    return str(why) if why else None


def failure_of(case: CaseRow, stack: CaseRow | None = None) -> Cause | None:
    """Return why the numbers of a case do not count: its worst cause, with all that is known besides as `detail`.

    None if it ended normally, or failed only against references. `stack`: the fixture of its stack, if that failed.
    """
    if reached_its_end(case.result, case.fail_phase):
        return None
    if case.result == NEEDED_FAILED and stack and (why := failure_of(stack)):
        return replace(why, what=f'not run: its stack {case.environ} {why.what}')
    if not case.causes:
        other = f'ended with result {case.result!r} in {case.fail_phase or "an unknown phase"}'
        return Cause('not-run', _NOT_RUN[case.result]) if case.result in _NOT_RUN else Cause('said', other)
    worst = case.causes[0]
    phase = f' in {case.fail_phase}' if case.fail_phase not in (None, '', 'sanity') else ''
    ended = 'not run to its end: ' if worst.code == 'not-run' else '' if case.result == 'abort' else f'failed{phase}: '
    first = str(replace(worst, remedy=''))
    return Cause(worst.code, ended + first, detail=sentence(case.causes, case.evidence).removeprefix(first))


def broken_stacks(cases: Iterable[CaseRow]) -> dict[tuple[str, str], CaseRow]:
    """Return (partition, environ) -> the fixture of the stack, where its last run failed."""
    stacks = last_runs(case for case in cases if case.fixture)
    return {(case.partition, case.environ): case for case in stacks if failure_of(case)}


def is_not_for_this_place(case: CaseRow) -> bool:
    """Return True if a test of another suite skipped itself: then it is missing only if a reference names it."""
    return case.result == 'skip' and not case.benchmark


def measured_in(store: Store, session: Session) -> list[Measured]:
    """Return every series of every case of a session, read from the store."""
    return measured(store.rows(session))


def last_runs(cases: Iterable[CaseRow]) -> list[CaseRow]:
    """Return the last run of each case and fixture of a session; `cases` in the order in which they ran."""
    return [runs[-1] for runs in runs_of(cases)]


def measured(rows: SessionRows) -> list[Measured]:
    """Return every series of every case of a session."""
    declared: dict[int, dict[tuple[str, Pairs], MetricRow]] = {}
    for row in rows.metrics:
        declared.setdefault(row.case_id, {})[row.metric, row.dims] = row
    stacks = broken_stacks(rows.cases)
    all_series = []
    for runs in runs_of(case for case in rows.cases if not case.fixture):
        failures = [failure_of(case, stacks.get((case.partition, case.environ))) for case in runs]
        series = {key: row for case in runs for key, row in declared.get(case.case_id, {}).items()}
        first, mode = runs[0], next(filter(None, (smallest_mode(case.tags) for case in runs)), '')
        case_id = first.id
        for (metric, dims), facts in series.items():
            jobs = [
                _job(case, declared.get(case.case_id, {}).get((metric, dims)), failed)
                for case, failed in zip(runs, failures, strict=True)
            ]
            id = case_id.series(metric, dims)
            stated = {'floor': facts.floor, 'usual_spread': facts.usual_spread}
            all_series.append(Measured(id, facts.quantity, mode, tuple(jobs), facts.judged, stated))
        if not series and not is_not_for_this_place(first) and (failures[0] or first.benchmark or first.causes):
            jobs = [_job(case, None, failed) for case, failed in zip(runs, failures, strict=True)]
            all_series.append(Measured(case_id.series('*'), Quantity('', ''), mode, tuple(jobs)))
    return all_series


def _of_case(case: CaseRow) -> tuple[str, ...]:
    """Return what identifies a case over its runs."""
    return case.partition, case.environ, case.name


def runs_of(cases: Iterable[CaseRow]) -> Iterable[list[CaseRow]]:
    """Return the runs of each case, in order. In the first round, cases with equal identity are kept apart."""
    groups: list[list[CaseRow]] = []
    known: dict[tuple[str, ...], list[CaseRow]] = {}
    for case in cases:
        if case.round and (runs := known.get(_of_case(case))):
            runs.append(case)
        else:
            groups.append([case])
            known.setdefault(_of_case(case), groups[-1])
    return groups


def _job(case: CaseRow, row: MetricRow | None, failed: Cause | None) -> Job:
    """Return the job of a case for a series; `row` is None if the case does not declare the series."""
    summary = row.summary if row else NOTHING
    status: Status = row.status if row else 'failed'
    why = None if status == 'measured' else _cause(case, row, failed)
    return Job(
        case.round, case.case_id, tuple(case.nodes), summary, status, str(why or ''), failed is None,
        case.purpose, why.code if why else None,
    )  # fmt: skip


def _cause(case: CaseRow, row: MetricRow | None, failed: Cause | None) -> Cause:
    """Return why a case has no number of a series that counts."""
    if row and row.status == 'invalid':
        return Cause('invalid', row.invalid or '')
    if row and row.status == 'missing' and row.missing:
        return Cause(failed.code if failed else 'lost-metric', row.missing)
    if failed:
        return failed
    if row and row.status == 'failed':
        return Cause('invalid', f'a sample is not a finite number (mean {row.summary.mean})')
    if row:
        return Cause('lost-metric', 'the check declares it and reported no number for it')
    nothing = f'ended with result {case.result!r} and declared no such metric'
    return Cause(case.causes[0].code if case.causes else 'lost-metric', sentence(case.causes) or nothing)

# SPDX-License-Identifier: BSD-3-Clause
"""Collect what the sessions before and after a change measured of each series, and pair their jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy
from numpy import ndarray

from plumbline.identity import SeriesId
from plumbline.limits import Tolerance
from plumbline.references import Reference
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.health import busy_beside
from postprocess.verdicts.measured import Measured, measured


@dataclass(frozen=True)
class Read:
    """The cases of a session, and what it measured. `turn`: number of its pair, if sessions were measured in turn."""

    session: Session
    cases: list[CaseRow]
    rows: list[Measured]
    turn: int = 0

    @classmethod
    def of(cls, store: Store, session: Session, turn: int = 0) -> Read:
        """Read a session from the store."""
        rows = store.rows(session)
        return cls(session, rows.cases, measured(rows), turn)


@dataclass
class Side:
    """What the sessions of one side measured of a series.

    `jobs`: (turn, nodes joined by commas) -> logarithm of the performance of each job there, and whether its CPUs were
    busy with other work.
    """

    rows: list[Measured] = field(default_factory=list)
    jobs: dict[tuple[int, str], list[tuple[float, bool]]] = field(default_factory=dict)

    @property
    def usable(self) -> list[Measured]:
        """The rows that can be compared."""
        return [row for row in self.rows if _is_usable(row)]


def sides_of(reads: Iterable[Read]) -> dict[SeriesId, Side]:
    """Return series -> what the sessions measured of it."""
    series: dict[SeriesId, Side] = {}
    for read in reads:
        busy = {case.case_id for case in read.cases if busy_beside(case)}
        for row in read.rows:
            side = series.setdefault(row.id, Side())
            side.rows.append(row)
            for job in row.measuring if _is_usable(row) else ():
                if job.value > 0:
                    where = read.turn, ','.join(sorted(job.nodes))
                    performance = row.quantity.sign * math.log(job.value)
                    side.jobs.setdefault(where, []).append((performance, job.case_id in busy))
    return series


def _is_usable(row: Measured) -> bool:
    """Return True for a row that can be compared: a measured number above 0 that the check judges."""
    return row.status == 'measured' and row.judged and row.value > 0


@dataclass(frozen=True)
class Changed:
    """A series of both sides: the logarithm of performance of each job, or of each of its pairs.

    `place`: index of the series in the facts. `quiet`: of each pair of jobs measured in turn, whether its CPUs did no
    other work; empty if jobs were not measured in turn. Either side may be without a job.
    """

    place: int
    reference: Reference
    tolerance: Tolerance
    before: list[float]
    after: list[float]
    paired: bool
    quiet: list[bool]
    in_turn: bool

    @property
    def smallest(self) -> float:
        """The logarithm of the smallest loss that counts, the floor."""
        return -math.log1p(-self.tolerance.floor)

    @classmethod
    def of(
        cls, place: int, reference: Reference, tolerance: Tolerance, before: Side, after: Side, in_turn: bool
    ) -> Changed:
        """Pair the jobs on the same nodes, `in_turn` those of each turn; of one node or none, compare all jobs."""
        both, sides = sorted(before.jobs.keys() & after.jobs.keys()), (before, after)
        paired = in_turn or len(both) > 1
        if paired:
            old, new = ([fmean(value for value, _ in side.jobs[where]) for where in both] for side in sides)
        else:
            old, new = ([value for where in both or side.jobs for value, _ in side.jobs[where]] for side in sides)
        quiet = [not any(busy for side in sides for _, busy in side.jobs[where]) for where in both if in_turn]
        return cls(place, reference, tolerance, old, new, paired, quiet, in_turn)

    def how(self, used: int) -> str:
        """Return what was compared, in words; `used`: number of pairs that were used."""
        if not self.paired:
            return f'{count(len(self.before), "job")} against {len(self.after)}'
        if not self.in_turn:
            return f'paired over {len(self.before)} nodes'
        busy = self.quiet[:used].count(False)
        return f'{count(used, "pair")} of jobs' + (f', {busy} of them beside busy CPUs' if busy else '')


def jobs_of(series: Sequence[Changed]) -> tuple[ndarray, ndarray]:
    """Return the jobs of both sides, each series x jobs; NaN where a series has fewer."""
    most = max(len(side) for one in series for side in (one.before, one.after))
    before, after = numpy.full((2, len(series), most), math.nan)
    for place, one in enumerate(series):
        before[place, : len(one.before)], after[place, : len(one.after)] = one.before, one.after
    return before, after

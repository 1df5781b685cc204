# SPDX-License-Identifier: BSD-3-Clause
"""Incidents in the making, and the facts of one session that they are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from plumbline.identity import CaseId, SeriesId, natural
from postprocess.incidents.incident import Incident, NodeLevel, Scope, Value
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics.pooled import pooled
from postprocess.verdicts.verdict import Comparison, Verdict


@dataclass
class JudgedSession:
    """The facts of one session: its cases, what they measured, and its verdicts."""

    store: Store
    comparison: Comparison
    before: Sequence[Session]
    places: Mapping[str, set[str]]  # of each node, such as ``switch s3``

    def __post_init__(self) -> None:
        self.session = self.comparison.session
        self.cases = self.store.cases(self.session)
        self.nodes: dict[str, set[str]] = defaultdict(set)  # of each partition
        for case in self.cases:
            self.nodes[case.partition] |= set(case.nodes)

    def several(self, partition: str) -> bool:
        """Return True if the session used several nodes of a partition: only then can one of them stand out."""
        return len(self.nodes[partition]) > 1

    @cached_property
    def all_places(self) -> set[str]:
        return set().union(*self.places.values())

    def same_nodes(self, place: str, partition: str) -> tuple[str, ...]:
        """Return the other places of just the nodes of a place that the session used."""
        nodes: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes[partition] or self.places:
            for one in self.places.get(node, ()):
                nodes[one].add(node)
        return tuple(sorted(one for one in nodes if one != place and nodes[one] == nodes.get(place)))

    def places_of(self, nodes: Iterable[str]) -> set[str]:
        return {place for node in nodes for place in self.places.get(node, ())}


@dataclass
class Draft:
    """An incident in the making: verdicts, or jobs that failed, with one cause.

    `sort`: ``loss``, ``failure`` or ``session``. `nodes`: where it was seen. `certain`: False for what only the
    comparison of nodes shows, the first time. `named`: by a job itself.
    """

    kind: str
    where: Scope
    sort: str
    rows: list[Verdict] = field(default_factory=list)
    failed: list[CaseRow] = field(default_factory=list)
    cases: set[CaseId] = field(default_factory=set)
    series: set[SeriesId] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cause: str = ''
    loss: float | None = None
    interval: tuple[float, float] | None = None
    evidence: list[str] = field(default_factory=list)
    levels: list[NodeLevel] = field(default_factory=list)
    certain: bool = True
    values: dict[SeriesId, Value] = field(default_factory=dict)
    named: bool = False

    def finish(self) -> Incident:
        """Return the incident, without what only its history tells."""
        checks = {id.check for id in self.series} | {id.check for id in self.cases}
        losses = {id: row.loss or 0.0 for id, row in self._worst.items()}
        by_loss = sorted(self.series, key=lambda series: (-losses.get(series, 0.0), series))
        loss, interval = (self.loss, self.interval) if self.loss is not None else pooled_loss(self.rows)
        return Incident(
            self.kind, self.where, self.sort, tuple(sorted(checks)), tuple(by_loss),
            tuple(sorted(self.nodes, key=natural)), self.cause, loss, interval, evidence=tuple(self.evidence),
            levels=tuple(self.levels), certain=self.certain, named=self.named,
            values=self.values | {id: value_of(row) for id, row in self._worst.items() if id in self.series},
            cost=self._cost(loss),
        )  # fmt: skip

    def _cost(self, loss: float | None) -> float:
        if self.sort == 'loss':
            told = sum(max(row.loss, 0.0) for row in self.rows if row.loss is not None)
            return float(max(told, loss or 0.0))  # only the comparison of nodes may have seen it
        return float(max(len(self.rows), len(self.failed), 1))

    @property
    def _worst(self) -> dict[SeriesId, Verdict]:
        """The verdict of each series, of several the one with the largest loss."""
        return {row.id: row for row in sorted(self.rows, key=lambda row: row.loss or 0.0)}


def value_of(
    row: Verdict, expected: float | None = None, loss: float | None = None, interval: tuple[float, float] | None = None
) -> Value:
    """Return what a series measured; `expected`, `loss` and `interval`: where they are not those of its reference."""
    against = (row.expected, row.loss, row.interval) if expected is None else (expected, loss, interval)
    return Value(row.quantity.unit, row.quantity.better, row.value, row.measured.n, *against)


def pooled_loss(rows: Sequence[Verdict]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean loss of several series with its 95 % interval; both None without any.

    What one job measured has one error: that of its node, its session and its job.
    """
    told = [(row.loss, row.interval) for row in rows if row.loss is not None and row.loss < 1]
    alike = 1.0 if len({row.case_id for row in rows}) == 1 else None
    return pooled(told, alike) if told else (None, None)


def only(names: set[str]) -> str:
    """Return the only name of a set; empty if it has several."""
    return next(iter(names)) if len(names) == 1 else ''

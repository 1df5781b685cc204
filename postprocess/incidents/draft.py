# SPDX-License-Identifier: BSD-3-Clause
"""Incidents in the making, and what one session contributes to make them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plumbline.causes import Cause
from plumbline.identity import CaseId, SeriesId
from plumbline.problems import Problem
from postprocess.incidents.incident import Incident, IncidentKind, Scope, Sort, Value, in_names, pooled_of
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.verdicts.measured import broken_stacks
from postprocess.verdicts.verdict import Comparison, Verdict


@dataclass
class JudgedSession:
    """One judged session: its cases, the nodes it used, and its verdicts; `before`: the earlier sessions.

    `slow`: node -> its loss, of the nodes that are slow by themselves, tonight or, as far as the ledger knows, before.
    """

    store: Store
    comparison: Comparison
    before: Sequence[Session]
    places: Mapping[str, set[str]]  # node -> its places, such as ``switch s3``
    slow: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session = self.comparison.session
        self.slow = {**self.slow, **{one.where: one.loss for one in self.comparison.common if one.kind == 'node'}}
        self.cases = self.store.cases(self.session)
        self.stacks = broken_stacks(self.cases)
        self.nodes: dict[str, set[str]] = defaultdict(set)  # partition -> its nodes that the session used
        for case in self.cases:
            self.nodes[case.partition] |= set(case.nodes)

    def several(self, partition: str) -> bool:
        """Return True if one of the nodes of a partition that the session used can stand out.

        That is, if there are several, or the only one is known to be slow by itself.
        """
        return len(self.nodes[partition]) > 1 or not self.slow.keys().isdisjoint(self.nodes[partition])

    def same_nodes(self, place: str, partition: str) -> tuple[str, ...]:
        """Return the other places that have exactly the nodes of `place`, among the nodes that the session used."""
        nodes: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes[partition] or self.places:
            for name in self.places.get(node, ()):
                nodes[name].add(node)
        return tuple(sorted(name for name in nodes if name != place and nodes[name] == nodes.get(place)))

    def places_of(self, nodes: Iterable[str]) -> set[str]:
        """Return the places of `nodes`."""
        return {place for node in nodes for place in self.places.get(node, ())}


@dataclass
class Draft:
    """An incident in the making: verdicts, or failed jobs, with one cause.

    `sort`: ``loss``, ``failure`` or ``session``. `nodes`: where it was seen. `problem`: of the session, if it is one.
    `certain`: False for the first finding that only the comparison of nodes shows. `named`: True if a job itself named
    it.
    """

    kind: IncidentKind
    where: Scope
    sort: Sort
    rows: list[Verdict] = field(default_factory=list)
    failed: list[CaseRow] = field(default_factory=list)
    cases: set[CaseId] = field(default_factory=set)
    series: set[SeriesId] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    cause: Cause | None = None
    problem: Problem | None = None
    loss: float | None = None
    interval: tuple[float, float] | None = None
    evidence: list[str] = field(default_factory=list)
    certain: bool = True
    named: bool = False

    @property
    def slow_node(self) -> str:
        """The node of which the whole draft is a loss; empty if it is of a part of a node, of several, or a failure."""
        of_one = self.kind == 'NODE' and self.sort == 'loss' and not (self.where.device or self.where.place)
        return only(set(self.where.nodes)) if of_one else ''

    def finish(self) -> Incident:
        """Return the incident, without the facts that only its history shows."""
        checks = {id.check for id in self.series} | {id.check for id in self.cases}
        losses = {id: row.loss or 0.0 for id, row in self._worst.items()}
        by_loss = sorted(self.series, key=lambda series: (-losses.get(series, 0.0), series))
        loss, interval = (self.loss, self.interval) if self.loss is not None else pooled_loss(self.rows)
        return Incident(
            self.kind, self.where, self.sort, tuple(sorted(checks)), tuple(by_loss),
            in_names(self.nodes), str(self.cause or ''), loss, interval, evidence=tuple(self.evidence),
            certain=self.certain, named=self.named,
            values={id: _value_of(row) for id, row in self._worst.items() if id in self.series},
            cost=self._cost(loss), brief=self.brief, code=self.cause.code if self.cause else None,
        )  # fmt: skip

    @property
    def brief(self) -> str:
        """The first part of the cause; empty if that is all."""
        return self.cause.what if self.cause and self.cause.what != str(self.cause) else ''

    def _cost(self, loss: float | None) -> float:
        """Return the sum of the losses, or the number of verdicts or jobs that failed."""
        if self.sort == 'loss':
            total = sum(max(row.loss, 0.0) for row in self.rows if row.loss is not None)
            return float(max(total, loss or 0.0))  # the comparison of nodes may be the only one to see the loss
        return float(max(len(self.rows), len(self.failed), 1))

    @property
    def _worst(self) -> dict[SeriesId, Verdict]:
        """Series -> the verdict of the series with the largest loss."""
        return {row.id: row for row in sorted(self.rows, key=lambda row: row.loss or 0.0)}


def _value_of(row: Verdict) -> Value:
    """Return what a series measured."""
    unit, better = row.quantity.unit, row.quantity.better
    return Value(unit, better, row.value, row.measured.n, row.expected, row.loss, row.interval)


def pooled_loss(rows: Sequence[Verdict]) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean loss of several series with its 95 % interval; both None without any.

    The values of one job share one error: that of its node, its session and the job.
    """
    losses = [row for row in rows if row.loss is not None and row.loss < 1]
    return pooled_of(losses, 1.0 if len({row.case_id for row in rows}) == 1 else None)


def only(names: set[str]) -> str:
    """Return the only name of a set; empty if there are several or none."""
    return next(iter(names)) if len(names) == 1 else ''

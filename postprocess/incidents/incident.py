# SPDX-License-Identifier: BSD-3-Clause
"""The incident: verdicts with one cause, with scope, size, beginning, evidence and next steps."""

from __future__ import annotations

import math
import textwrap
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from plumbline.identity import SeriesId, natural, to_text
from plumbline.renames import check_today, today
from postprocess.text import count, named

#: SYSTEM: all nodes of a partition or environ; NODE; FABRIC: what lies between nodes or devices; DEVICE: a part of a
#: node; SOFTWARE: what changed in it explains the loss; CASE: one case, wherever it runs.
INCIDENT_KINDS = ('SYSTEM', 'NODE', 'FABRIC', 'DEVICE', 'SOFTWARE', 'CASE')
_CHECKS = 4  # further checks that are named
_Any = TypeVar('_Any')
_TIMES = frozenset(('s', 'ms', 'us', 'ns'))


@dataclass(frozen=True)
class Scope:
    """Where an incident is; an empty field means all. `nodes`: those that are its cause, not all that show it.

    `same_nodes`: further places with the same nodes as `place`, which no measurement can distinguish.
    """

    site: str
    partition: str = ''
    environ: str = ''
    nodes: tuple[str, ...] = ()
    device: str = ''
    link_class: str = ''
    place: str = ''
    same_nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return ``n3``, ``n3 device 2``, ``rack r3 and switch s3``, ``link class A of gpu`` or ``cpu/system``."""
        inside = self.device or (f'link class {self.link_class}' if self.link_class else '')
        around = f'{self.partition or self.site}{f"/{self.environ}" if self.environ else ""}'
        if self.place:
            places = ' and '.join(self.places)
            return f'{places} ({named(self.nodes)})' if self.nodes else places
        if self.nodes:
            return f'{named(self.nodes)} {inside}'.rstrip()
        return f'{inside} of {around}' if inside else around

    @property
    def places(self) -> tuple[str, ...]:
        """The place and those with the same nodes."""
        return (self.place, *self.same_nodes)


@dataclass(frozen=True)
class NodeLevel:
    """The value that a node should have in a series, and its ratio to the median of the other nodes, if any."""

    series: SeriesId
    node: str
    value: float
    better: str
    ratio: float | None


@dataclass(frozen=True)
class Value:
    """The value of a series when an incident was seen last: the mean of `n` samples, beside the one `expected`.

    `loss`: share of the performance, with its `interval`. What is not known is None.
    """

    unit: str
    better: str
    value: float | None = None
    n: int = 0
    expected: float | None = None
    loss: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Incident:
    """What belongs together in one session. `sort`: ``loss`` of performance, ``failure`` or ``session``.

    `series`: the worst first; `values`: of those that were judged. `nodes`: all that show it. `cause`: a sentence, of a
    failure. `loss`: share of the performance, pooled over the series, with its `interval`. `cost`: the sum over series
    and nodes, of which each that failed counts as lost. `since` and `day`: the
    session in which it began, `sessions`: how many show it. `changed`: what changed then. `archives`: with the output
    of the benchmark, relative to the results. `next_steps`: commands. `certain`: False for what only the comparison of
    nodes shows; it counts when it is seen again. `named`: whether a job itself named it; only such a job clears it.
    """

    kind: str
    where: Scope
    sort: str
    checks: tuple[str, ...]
    series: tuple[SeriesId, ...]
    nodes: tuple[str, ...]
    cause: str = ''
    loss: float | None = None
    interval: tuple[float, float] | None = None
    since: str = ''
    day: str = ''
    sessions: int = 1
    changed: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    levels: tuple[NodeLevel, ...] = ()
    certain: bool = True
    values: Mapping[SeriesId, Value] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    named: bool = False
    cost: float = 0.0

    @property
    def severity(self) -> float:
        """Sort key by severity: incidents of the whole session first, then by cost."""
        return math.inf if self.sort == 'session' else self.cost or self.loss or 1.0

    @property
    def own_nodes(self) -> tuple[str, ...]:
        """The nodes that are its cause: those that it names, or the nodes of its place that show it."""
        return self.where.nodes or (self.nodes if self.where.place else ())

    @property
    def name(self) -> str:
        """A short name: nodes, their part or what lies between them; for a case its check, for a session the cause."""
        of = self.where
        if of.nodes or of.device or of.link_class or of.place:
            return str(of)
        return self.checks[0] if self.checks else textwrap.shorten(self.cause, 40, placeholder=' ...')

    def holds(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if it is of a series on some nodes."""
        return of in self._all_series and (not self.own_nodes or bool(set(self.own_nodes) & set(nodes)))

    @cached_property
    def _all_series(self) -> frozenset[SeriesId]:
        return frozenset(self.series)

    @property
    def worst(self) -> tuple[float, float] | None:
        """The loss of the series that lost most, with the lower end of its interval; None if unknown."""
        losses = [(value.loss, value.interval) for value in self.values.values() if value.loss]
        loss, interval = max(losses, key=lambda known: known[0], default=(None, None))
        return None if loss is None else (interval[0] if interval else loss, loss)

    @property
    def title(self) -> str:
        """Kind, place and what is wrong in one sentence."""
        return f'{self.kind} {self.where}: {self.what}'

    @property
    def what(self) -> str:
        """Return what is wrong, and how much, in one sentence."""
        size = self.size + (f' ({self.range})' if self.range else '')
        return f'{size} in {self.subject}' if self.sort == 'loss' else self.subject

    @property
    def lower_is_better(self) -> bool:
        """Whether all its series are better if lower, such as times."""
        known = [self.values[of].better for of in self.series if of in self.values]
        return bool(known) and set(known) == {'lower'}

    def change(self, loss: float) -> float:
        """Return the relative change of the values that corresponds to a loss of performance."""
        return 1 / (1 - min(loss, 0.999)) - 1 if self.lower_is_better else loss

    @property
    def size(self) -> str:
        """Return by how much the values changed: ``7.0 % less``, ``8.0 % slower``; empty where it is not known."""
        if self.loss is None:
            return ''
        units = {self.values[of].unit for of in self.series if of in self.values}
        words = ('slower', 'faster') if units and units <= _TIMES else ('more', 'less')
        words = words if self.lower_is_better else ('less', 'more')
        return f'{100 * abs(self.change(self.loss)):.1f} % {words[self.loss < 0]}'

    @property
    def range(self) -> str:
        """Return the interval of `size`, with digits that tell its ends apart; empty where it is not known."""
        if not self.interval:
            return ''
        sign = -1 if (self.loss or 0) < 0 else 1
        low, high = sorted(100 * sign * self.change(end) for end in self.interval)
        places = next((n for n in (1, 2, 3) if round(low, n) != round(high, n)), 1)
        return f'{low:.{places}f} to {high:.{places}f} %'

    @property
    def subject(self) -> str:
        """Return what a loss is in, or what failed and why."""
        if self.sort == 'session':
            return self.cause
        metrics = [of for of in self.series if of.metric != '*']
        worst = self.series[0] if self.series else None
        name = f'{worst.check} {to_text(worst.params)}' if worst else ', '.join(self.checks)
        others = sorted(set(self.checks) - {worst.check if worst else ''})
        beside = f' and {count(len(metrics) - 1, "other metric")}' if len(metrics) > 1 else ''
        beside += f' in {", ".join(others)} too' if 0 < len(others) <= _CHECKS else ''
        beside += f' of {len(others) + 1} checks' if len(others) > _CHECKS else ''
        if self.sort == 'failure':
            cause, _, more = self.cause.partition('; ')  # all of it is in the evidence
            return f'{name}{f" {metrics[0].name}" if len(metrics) == 1 else beside}: {cause}{" ..." if more else ""}'
        return f'{name} {worst.name if worst else ""}{beside}'

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; see :func:`from_dict`."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != 'values'}
        series = [of.to_row() | (vars(self.values[of]) if of in self.values else {}) for of in self.series]
        levels = [vars(level) | {'series': level.series.to_row()} for level in self.levels]
        return own | {'where': vars(self.where), 'series': series, 'levels': levels}


def together(incidents: Sequence[Incident]) -> Incident:
    """Merge incidents of one sort: the costliest one gets the series, nodes and evidence of all."""
    first, *others = ordered = sorted(incidents, key=lambda one: -one.severity)
    if not others:
        return first

    def every(of: Callable[[Incident], Iterable[_Any]]) -> tuple[_Any, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(map(of, ordered))))

    return replace(
        first, cost=sum(one.cost for one in ordered), checks=tuple(sorted(every(lambda one: one.checks), key=natural)),
        series=every(lambda one: one.series), nodes=tuple(sorted(every(lambda one: one.nodes), key=natural)),
        evidence=every(lambda one: one.evidence), next_steps=every(lambda one: one.next_steps),
        archives=every(lambda one: one.archives), values={**ChainMap(*(dict(one.values) for one in ordered))},
        where=replace(first.where, nodes=tuple(sorted(every(lambda one: one.where.nodes), key=natural))),
    )  # fmt: skip


def from_dict(values: Mapping[str, Any]) -> Incident:
    """Return what :meth:`Incident.to_dict` wrote, with today's names. Raises KeyError, TypeError or ValueError."""
    own = {name: frozen(value) for name, value in values.items()}
    rows = {today(SeriesId.from_row(row)): row for row in values['series']}
    numbers = {
        of: Value(**{name: frozen(row[name]) for name in Value.__dataclass_fields__ if name in row})
        for of, row in rows.items()
        if 'unit' in row  # the others were not judged
    }
    levels = tuple(
        NodeLevel(**level | {'series': today(SeriesId.from_row(level['series']))}) for level in values['levels']
    )
    where = Scope(**{name: frozen(value) for name, value in values['where'].items()})
    checks = tuple(check_today(check) for check in values['checks'])
    return Incident(
        **own | {'where': where, 'checks': checks, 'series': tuple(rows), 'levels': levels, 'values': numbers}
    )


def frozen(value: Any) -> Any:
    """Convert nested lists of JSON to tuples."""
    return tuple(value) if isinstance(value, list) else value

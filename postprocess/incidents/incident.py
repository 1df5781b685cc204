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
from typing import Literal, Protocol, TypeVar

from plumbline.causes import Code
from plumbline.identity import SeriesId, natural, to_text
from postprocess.statistics.pooled import pooled
from postprocess.text import count, named

#: SYSTEM: all nodes of a partition or environ; NODE: some nodes; FABRIC: what lies between nodes or devices; DEVICE: a
#: part of a node; SOFTWARE: a loss that a change of software explains; CASE: one case, wherever it runs.
IncidentKind = Literal['SYSTEM', 'NODE', 'FABRIC', 'DEVICE', 'SOFTWARE', 'CASE']
Sort = Literal['loss', 'failure', 'session']
#: Fields of a scope that name a place.
PLACES = ('partition', 'environ', 'device', 'link_class', 'place')
_CHECKS = 4  # most further checks that a sentence names
_Any = TypeVar('_Any')
_TIMES = frozenset(('s', 'ms', 'us', 'ns'))


class Lossy(Protocol):
    """What lost a share of its performance, with the 95 % interval of the loss; None if unknown."""

    @property
    def loss(self) -> float | None: ...

    @property
    def interval(self) -> tuple[float, float] | None: ...


@dataclass(frozen=True)
class Scope:
    """Where an incident is; an empty field means all.

    `nodes`: the nodes that are its cause, not all nodes that show it. `same_nodes`: further places with the same nodes
    as `place`, which no measurement can distinguish from it.
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
        """The place and the other places with the same nodes."""
        return (self.place, *self.same_nodes)


@dataclass(frozen=True)
class Value:
    """The value of a series when an incident was last seen: the mean of `n` samples, and the `expected` value.

    `loss`: share of the performance, with its 95 % `interval`. Unknown fields are None.
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
    """The findings of one session that have one cause.

    `sort`: ``loss`` of performance, ``failure`` or ``session``. `series`: the worst first; `values`: of the judged
    ones. `nodes`: all nodes that show it. `cause`: a sentence, for a failure; `brief`: its first part, if it
    has several; `code`: of the cause. `loss`: share of the performance, pooled over the series, with its 95 %
    `interval`. `cost`: sum of the losses over series and nodes; each failed one counts 1. `since` and `day`: the
    session in which it began; `sessions`: how many sessions show it. `changed`: what changed then. `archives`: with the
    output of the benchmarks, relative to the results. `next_steps`: commands. `certain`: False if a single job without
    a baseline shows it, see `postprocess.verdicts.stand_in`; then it counts when it is seen again. `named`: True if a
    job itself named it; only such a job clears it.
    """

    kind: IncidentKind
    where: Scope
    sort: Sort
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
    certain: bool = True
    values: Mapping[SeriesId, Value] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    named: bool = False
    cost: float = 0.0
    brief: str = ''
    code: Code | None = None

    @property
    def severity(self) -> float:
        """Sort key: incidents of the whole session first, then by cost."""
        return math.inf if self.sort == 'session' else self.cost or self.loss or 1.0

    @property
    def own_nodes(self) -> tuple[str, ...]:
        """The nodes that cause the incident: the nodes of its scope, or the nodes of its place that show it."""
        return self.where.nodes or (self.nodes if self.where.place else ())

    @property
    def is_of_a_change(self) -> bool:
        """True if all nodes lost with a change of the machine, which may have been planned: then it is a new epoch."""
        return self.sort == 'loss' and bool(self.changed) and not self.own_nodes

    @property
    def name(self) -> str:
        """A short name: the place in words; for a case its check, for a session the cause."""
        where = self.where
        if where.nodes or where.device or where.link_class or where.place:
            return str(where)
        return self.checks[0] if self.checks else textwrap.shorten(self.cause, 40, placeholder=' ...')

    def holds(self, of: SeriesId, nodes: Iterable[str]) -> bool:
        """Return True if the incident has this series, measured on one of its nodes."""
        return of in self._all_series and (not self.own_nodes or bool(set(self.own_nodes) & set(nodes)))

    @cached_property
    def _all_series(self) -> frozenset[SeriesId]:
        """The series, for fast look-up."""
        return frozenset(self.series)

    @property
    def worst(self) -> tuple[float, float] | None:
        """Of the series that lost most: (lower end of the interval of the loss, loss); None if unknown."""
        losses = [(value.loss, value.interval) for value in self.values.values() if value.loss]
        loss, interval = max(losses, key=lambda known: known[0], default=(None, None))
        return None if loss is None else (interval[0] if interval else loss, loss)

    @property
    def title(self) -> str:
        """Kind, scope and what is wrong, in one sentence."""
        return f'{self.kind} {self.where}: {self.what}'

    @property
    def what(self) -> str:
        """What is wrong, and by how much, in one sentence."""
        size = self.size + (f' ({self.range})' if self.range else '')
        return f'{size} in {self.subject}' if self.sort == 'loss' else self.subject

    @property
    def lower_is_better(self) -> bool:
        """True if all series of the incident are better if lower, such as times."""
        known = [self.values[of].better for of in self.series if of in self.values]
        return bool(known) and set(known) == {'lower'}

    def change(self, loss: float) -> float:
        """Return the relative change of the values that a loss of performance means; both are shares."""
        return 1 / (1 - min(loss, 0.999)) - 1 if self.lower_is_better else loss

    @property
    def size(self) -> str:
        """By how much the values changed: ``7.0 % less``, ``8.0 % slower``; empty if it is not known."""
        if self.loss is None:
            return ''
        units = {self.values[of].unit for of in self.series if of in self.values}
        words = ('slower', 'faster') if units and units <= _TIMES else ('more', 'less')
        words = words if self.lower_is_better else ('less', 'more')
        return f'{100 * abs(self.change(self.loss)):.{self._places}f} % {words[self.loss < 0]}'

    @property
    def range(self) -> str:
        """The interval of `size` in %; empty if it is not known."""
        return ' to '.join(f'{end:.{self._places}f}' for end in self._ends) + ' %' if self._ends else ''

    @property
    def _ends(self) -> list[float]:
        """The ends of the interval of `size` in %; empty if it is not known."""
        sign = -1 if (self.loss or 0) < 0 else 1
        return sorted(100 * sign * self.change(end) for end in self.interval or ())

    @property
    def _places(self) -> int:
        """The decimals of `size` and `range`: enough to tell the ends of the interval apart."""
        low, high = self._ends or (0.0, 1.0)
        return next((n for n in (1, 2, 3) if round(low, n) != round(high, n)), 1)

    @property
    def subject(self) -> str:
        """The metrics that lost performance, or what failed and why."""
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
            cause = f'{self.brief} ...' if self.brief else self.cause  # the whole cause is in the evidence
            return f'{name}{f" {metrics[0].name}" if len(metrics) == 1 else beside}: {cause}'
        return f'{name} {worst.name if worst else ""}{beside}'


def in_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names sorted with their numbers in order."""
    return tuple(sorted(names, key=natural))


def pooled_of(of: Iterable[Lossy], alike: float | None = None) -> tuple[float | None, tuple[float, float] | None]:
    """Return the mean loss of those that have one, with its 95 % interval; see `pooled`. Both None without any."""
    losses = [(one.loss, one.interval) for one in of if one.loss is not None]
    return pooled(losses, alike) if losses else (None, None)


def together(incidents: Sequence[Incident]) -> Incident:
    """Return one incident for several of one sort: the costliest, with the series, nodes and evidence of all."""
    first, *others = ordered = sorted(incidents, key=lambda one: -one.severity)
    if not others:
        return first

    def every(of: Callable[[Incident], Iterable[_Any]]) -> tuple[_Any, ...]:
        """Return the values that `of` returns for all incidents, each value once."""
        return tuple(dict.fromkeys(chain.from_iterable(map(of, ordered))))

    return replace(
        first, cost=sum(incident.cost for incident in ordered),
        checks=in_names(every(lambda one: one.checks)),
        series=every(lambda one: one.series), nodes=in_names(every(lambda one: one.nodes)),
        evidence=every(lambda one: one.evidence), next_steps=every(lambda one: one.next_steps),
        archives=every(lambda one: one.archives), values={**ChainMap(*(dict(incident.values) for incident in ordered))},
        where=replace(first.where, nodes=in_names(every(lambda one: one.where.nodes))),
    )  # fmt: skip

# SPDX-License-Identifier: BSD-3-Clause
"""Choose the cases of tonight that find most faults per node-second, and tell what is not covered.

The chance that a case finds a class of faults is that of its best series, by the spread and the limits that judge it,
times the share of the nodes that it looks at. Cases that rotation needs come first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy import ndarray

from plumbline.clock import now
from plumbline.errors import InputError
from plumbline.identity import CaseId, Quantity, SeriesId
from plumbline.limits import judges, limits, spread_of, tolerance_for
from plumbline.references import Reference, load_references
from plumbline.units import in_words
from postprocess.history.faults import Fault, faults
from postprocess.results.store import Session, Store
from postprocess.statistics.coverage import at_most, covered, due, most_found
from postprocess.statistics.distributions import inliers
from postprocess.statistics.method import METHOD
from postprocess.text import count
from postprocess.verdicts.compare import site_policy, with_spread

DAYS = 90  # of the history that is read
LONGEST = 28  # days between two looks at a case
WEEK = 7  # nights
_NAMED = 3  # classes of faults in the reason of a case
_BESIDES = 3.0  # seconds of a job besides its trials
_CASES = """
    SELECT cases."partition", cases.environ, name, "check", params, max(night) AS last, max(len(nodes)) AS nodes,
        median(CASE WHEN list_sum(trial_seconds) > 0 THEN list_sum(trial_seconds) + ? ELSE time_run END) AS seconds
    FROM cases WHERE NOT fixture AND round = 0 GROUP BY ALL ORDER BY ALL
""".replace('?', f'{_BESIDES}')
_SERIES = """
    SELECT "partition", environ, name, "check", params, metric, metrics.dims AS dims, unit, better,
        arg_max(usual_spread, night) AS usual_spread, arg_max(floor, night) AS floor, list(ln(mean)) AS logs
    FROM metrics JOIN cases USING (night, case_id)
    WHERE status = 'measured' AND mean > 0 AND round = 0 GROUP BY ALL
"""
_NODES = """
    SELECT "partition", count(DISTINCT node) AS n
    FROM (SELECT "partition", unnest(nodes) AS node FROM cases) GROUP BY ALL
"""


class NothingKnown(InputError):
    """Nothing was measured yet, or nothing that was has a reference: only a whole night helps."""


class Place(NamedTuple):
    """A case as ReFrame names it."""

    partition: str
    environ: str
    name: str


class Found(NamedTuple):
    """The chance that one look finds a class of faults; `series`: the one that shows it, None for the check itself.

    `loss`: that the fault causes there.
    """

    chance: float
    series: SeriesId | None = None
    loss: float = 1.0


@dataclass(frozen=True)
class Look:
    """A case that may run: on how many `nodes`, for how many `seconds`, `age` days after it ran last.

    `found`: by the name of the class of faults. Of a case that never ran, `age` is infinite and nothing else is known.
    """

    place: Place
    seconds: float
    nodes: int = 1
    age: float = math.inf
    case: CaseId | None = None
    found: Mapping[str, Found] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Its node-seconds."""
        return max(self.nodes * self.seconds, 1e-3)


class Coverage(NamedTuple):
    """The chance that a fault of a class is found tonight, by the whole night, and within a week of such nights.

    `measured`: whether any case measures what it changes.
    """

    fault: Fault
    tonight: float
    whole: float
    week: float
    measured: bool


@dataclass(frozen=True)
class Plan:
    """The cases of tonight: `chosen`, with why each was. `rotation`: how many of them, the first ones, are due.

    `budget` in node-seconds. `share`: of the best possible within the budget, at least. `late`: cases that must wait
    longer than `longest` days, as the budget is too small. `too_long`: cases longer than the whole budget. `unguarded`:
    series without a reference that judges them.
    """

    site: str
    minutes: float
    budget: float
    longest: int
    looks: Sequence[Look]
    chosen: Sequence[Look]
    rotation: int
    coverage: Sequence[Coverage]
    share: float
    late: Sequence[Look]
    too_long: Sequence[Look]
    unguarded: int

    def reason(self, look: Look) -> str:
        """Return in words why a chosen case runs tonight."""
        if self.chosen.index(look) >= self.rotation:
            return f'finds {look_finds(look)}'
        waited = 'it never ran here' if math.isinf(look.age) else f'it ran last {look.age:.0f} days ago'
        return f'rotation: {waited}'


def look_finds(look: Look) -> str:
    """Return the classes of faults that a look finds, with how surely and by which series, the surest first."""
    told = sorted(look.found.items(), key=lambda item: -item[1].chance)
    words = [
        f'{name} {chance:.2f}' + (f' ({series.name})' if series else '') for name, (chance, series, _) in told[:_NAMED]
    ]
    return ', '.join(words) + (f' and {len(told) - _NAMED} more' if len(told) > _NAMED else '')


def plan(
    store: Store, site: str | None, minutes: float, nodes: int | None = None, longest: int = LONGEST,
    places: Mapping[Place, float] | None = None, root: Path | None = None,
) -> Plan:  # fmt: skip
    """Return what to run tonight in `minutes` on so many `nodes`, by default as many as the largest case has.

    `places`: the cases that ReFrame would run, with the seconds that one that never ran should take; by default those
    of the store. Raises NothingKnown; InputError where no case fits into the time.
    """
    if not store.sites() or (site and site not in store.sites()):
        raise NothingKnown(f'{store.folder}: holds no session of {site or "any site"}, so no night can be planned')
    last = store.find('latest', site)
    sessions = store.history(last, DAYS)
    looks, unguarded = _looks(store, sessions, root)
    if places is not None:
        known = {look.place: look for look in looks}
        looks = [known.get(place) or Look(place, seconds) for place, seconds in places.items()]
    if not any(look.found for look in looks):
        raise NothingKnown(
            f'{store.folder}: nothing that site {last.site} measured has a reference, so no night can be planned: '
            f'run whole nights, then {store.command("record propose", last.site, root)}'
        )
    nodes = nodes or max(look.nodes for look in looks)
    limit = 60 * minutes
    fits = [look for look in looks if look.nodes <= nodes and look.seconds <= limit]
    if not fits:
        shortest = min(looks, key=lambda look: look.cost)
        raise InputError(
            f'no case fits into {minutes:g} minutes on {count(nodes, "node")}: the shortest, {shortest.place.name}, '
            f'took {in_words(shortest.seconds)} on {count(shortest.nodes, "node")}'
        )
    budget = limit * nodes
    devices = _columns(looks)
    weight = numpy.array([1 / sum(fault is one for one, _ in devices) for fault, _ in devices])
    found = _matrix(fits, devices)
    cost = numpy.array([look.cost for look in fits])
    left = numpy.array([longest - look.age for look in fits])
    value = found @ weight
    week: list[int] = []
    chosen, rotation = [], 0
    for night in range(WEEK):
        first = due(left, cost, value, budget)
        spent = float(cost[first].sum())
        looked = [*first, *most_found(found, weight, cost, budget - spent, first)]
        if not night:
            chosen, rotation = looked, len(first)
        week += looked
        left -= 1
        left[looked] = longest - 1
    tonight, whole = covered(found, chosen), covered(_matrix(looks, devices), range(len(looks)))
    weekly, reached = covered(found, week), {name for look in looks for name in look.found}
    coverage = [
        Coverage(
            fault,
            _mean_of(tonight, devices, fault),
            _mean_of(whole, devices, fault),
            _mean_of(weekly, devices, fault),
            fault.name in reached,
        )
        for fault in faults()
    ]
    best = min(at_most(found, weight, cost, budget, of) for of in ([], chosen))
    return Plan(
        last.site, minutes, budget, longest, looks, [fits[place] for place in chosen], rotation,
        coverage,
        float(weight @ tonight) / best if best else 1.0,
        [look for place, look in enumerate(fits) if longest - look.age <= 1 and place not in set(chosen)],
        [look for look in looks if look not in fits], unguarded,
    )  # fmt: skip


def _looks(store: Store, sessions: Sequence[Session], root: Path | None) -> tuple[list[Look], int]:
    """Return what each case of the sessions can find, and how many series nothing judges."""
    site, today = sessions[-1], now()
    lookup, policy = load_references(site.site, root), site_policy(site, root)
    parts = {row['partition']: row['n'] for row in store.query(_NODES, sessions).to_pylist()}
    found: dict[Place, dict[str, Found]] = {}
    sizes = {_place_of(row): row for row in store.query(_CASES, sessions).to_pylist()}
    unguarded = 0
    for row in store.query(_SERIES, sessions).to_pylist():
        series, place = SeriesId.from_row(row), _place_of(row)
        nodes = sizes[place]['nodes'] or 1
        tolerance = tolerance_for(policy, series, row['floor'], row['usual_spread'])
        quantity = Quantity(row['unit'], row['better'])
        rules = [
            rule for rule, bound in judges(lookup, series, tolerance) if bound.gates and not rule.mismatch(quantity)
        ]
        bounds = [limits(_spread(with_spread(rule, lookup), row['logs']), tolerance) for rule in rules]
        unguarded += not bounds
        share = min(nodes / max(parts.get(series.partition, 1), 1), 1.0)
        for fault in faults():
            part = 1.0 if fault.where == 'site' else share
            loss = fault.of(series, nodes > 1)
            chance = part * max((bound.chance(loss) for bound in bounds), default=0.0) if loss else 0.0
            best = Found(part) if series.check in fault.shown_by else Found(chance, series, loss)
            own = found.setdefault(place, {})
            if best.chance > 0.005 and best.chance > own.get(fault.name, Found(0.0)).chance:
                own[fault.name] = best
    ages = [(today - session.started).total_seconds() / 86400 for session in sessions]
    looks = [
        Look(place, row['seconds'] or _BESIDES, row['nodes'] or 1, ages[row['last']], CaseId.from_row(row),
             found.get(place, {}))
        for place, row in sizes.items()
    ]  # fmt: skip
    return looks, unguarded


def _place_of(row: Mapping[str, Any]) -> Place:
    return Place(row['partition'], row['environ'], row['name'])


def _spread(reference: Reference, logs: Sequence[float]) -> Reference:
    """Return the reference with the spread of the sessions of the store where that is larger than its own."""
    values = numpy.array(logs)
    values = values[inliers(values)]
    if len(values) < METHOD.short:
        return reference
    spread, known = float(values.std(ddof=1)), spread_of(reference)[0]
    if known is not None and known >= spread:
        return reference
    return replace(reference, spread=spread, df=len(values) - 1.0, spread_n=len(values))


def _columns(looks: Collection[Look]) -> list[tuple[Fault, str]]:
    """Return the classes of faults, those of one device once for each device that cases name."""
    names: dict[str, set[str]] = {fault.name: set() for fault in faults()}
    for look in looks:
        for name in look.found:
            names[name].add(_device_of(look))
    return [
        (fault, device)
        for fault in faults()
        for device in (sorted(names[fault.name] - {''}) if fault.where == 'device' else []) or ['']
    ]


def _device_of(look: Look) -> str:
    return dict(look.case.params).get('device', '') if look.case else ''


def _matrix(looks: Sequence[Look], columns: Sequence[tuple[Fault, str]]) -> ndarray:
    """Return the chance that each look finds the faults of `columns`, looks x columns."""
    rows = [
        [
            look.found[fault.name].chance if fault.name in look.found and _device_of(look) in ('', device) else 0.0
            for fault, device in columns
        ]
        for look in looks
    ]
    return numpy.array(rows).reshape(len(looks), len(columns))


def _mean_of(chances: ndarray, columns: Sequence[tuple[Fault, str]], fault: Fault) -> float:
    return float(numpy.mean([chance for chance, (one, _) in zip(chances, columns, strict=True) if one is fault]))

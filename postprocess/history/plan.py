# SPDX-License-Identifier: BSD-3-Clause
"""Choose the cases of tonight that find the most faults per node-second, and say what they do not cover.

The chance that a case finds a class of faults is the chance of its best series, from the spread and the limits that
judge the series, times the share of the nodes that the case runs on. Cases that rotation needs come first.
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
from plumbline.identity import CaseId, SeriesId
from plumbline.limits import Limits, judges, limits, spread_of, tolerance_for, with_spread
from plumbline.references import Reference, load_references
from plumbline.units import in_words
from postprocess.history.faults import Fault, faults
from postprocess.results.store import Session, Store
from postprocess.statistics.coverage import covered, due, most_found
from postprocess.statistics.distributions import inliers
from postprocess.statistics.method import METHOD
from postprocess.text import count
from postprocess.verdicts.policy import site_policy

DAYS = 90  # days of the history that is read
LONGEST = 28  # most days between two looks at a case
_SMALLEST = 0.001  # smallest chance of a find that counts
_NAMED = 3  # most classes of faults in the reason of a case
_BESIDES = 3.0  # seconds of a job besides its trials
#: `last`: when it ran last to its end or to a fault of its own; NULL if each time something else ended it.
_CASES = """
    SELECT cases."partition", cases.environ, name, "check", params, max(len(nodes)) AS nodes,
        max(night) FILTER (result NOT IN ('abort', 'skip')) AS last,
        median(CASE WHEN list_sum(trial_seconds) > 0 THEN list_sum(trial_seconds) + ? ELSE time_run END) AS seconds
    FROM cases WHERE NOT fixture AND round = 0 GROUP BY ALL ORDER BY ALL
""".replace('?', f'{_BESIDES}')
_SERIES = """
    SELECT "partition", environ, name, "check", params, metric, dims, unit, better,
        arg_max(usual_spread, night) AS usual_spread, arg_max(floor, night) AS floor, list(ln(mean)) AS logs
    FROM first_jobs WHERE mean > 0 GROUP BY ALL
"""
_NODES = """
    SELECT "partition", count(DISTINCT node) AS n
    FROM (SELECT "partition", unnest(nodes) AS node FROM cases) GROUP BY ALL
"""


class NothingKnown(InputError):
    """Nothing was measured yet, or no measured series has a reference: only whole nights help."""


class CaseName(NamedTuple):
    """A case, as ReFrame names it."""

    partition: str
    environ: str
    name: str


class Chance(NamedTuple):
    """The chance that one look finds a class of faults.

    `series`: the series that shows it, None for the check itself.
    """

    chance: float
    series: SeriesId | None = None


@dataclass(frozen=True)
class PossibleCase:
    """A case that may run on `nodes` nodes for `seconds`; `age`: days since it last ran.

    `found`: class of faults -> chance to find it. For a case that never ran, `age` is infinite and only `place` and
    `seconds` are known.
    """

    place: CaseName
    seconds: float
    nodes: int = 1
    age: float = math.inf
    case: CaseId | None = None
    found: Mapping[str, Chance] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """The cost of the look in node-seconds."""
        return max(self.nodes * self.seconds, 1e-3)


class Coverage(NamedTuple):
    """The chance to find a fault of a class tonight, and in a whole night. `measured`: True if any case can find it."""

    fault: Fault
    measured: bool
    tonight: float
    whole: float


@dataclass(frozen=True)
class NightPlan:
    """The cases of tonight: `chosen`, of which the first `rotation` are due by rotation.

    `budget`: in node-seconds. `late`: cases that must wait longer than `longest` days, because the budget is too small.
    `too_long`: cases that do not fit into the budget. `unguarded`: number of series that no reference judges.
    """

    site: str
    minutes: float
    budget: float
    longest: int
    looks: Sequence[PossibleCase]
    chosen: Sequence[PossibleCase]
    rotation: int
    coverage: Sequence[Coverage]
    late: Sequence[PossibleCase]
    too_long: Sequence[PossibleCase]
    unguarded: int

    def reason(self, look: PossibleCase) -> str:
        """Return in words why a chosen case runs tonight."""
        if self.chosen.index(look) >= self.rotation:
            return f'finds {look_finds(look)}'
        waited = 'it never ran here' if math.isinf(look.age) else f'it ran last {count(round(look.age), "day")} ago'
        return f'rotation: {waited}'


def look_finds(look: PossibleCase) -> str:
    """Return the classes of faults that a look finds, each with its chance and series, the surest first."""
    finds = sorted(look.found.items(), key=lambda item: -item[1].chance)
    words = [
        f'{name} {chance:.2f}' + (f' ({series.name})' if series else '') for name, (chance, series) in finds[:_NAMED]
    ]
    return ', '.join(words) + (f' and {len(finds) - _NAMED} more' if len(finds) > _NAMED else '')


def plan(
    store: Store, site: str | None, minutes: float, nodes: int | None = None, longest: int = LONGEST,
    places: Mapping[CaseName, float] | None = None, root: Path | None = None,
) -> NightPlan:  # fmt: skip
    """Return what to run tonight in `minutes` on `nodes` nodes; None: as many as the largest case has.

    `places`: cases that ReFrame would run -> seconds to assume for a case that never ran; None: the cases of the store.
    Raises NothingKnown; InputError if no case fits into the time.
    """
    if not store.sites() or (site and site not in store.sites()):
        raise NothingKnown(f'{store.folder}: holds no session of {site or "any site"}, so no night can be planned')
    last = store.find('latest', site)
    looks, unguarded = _looks(store, store.history(last, DAYS), root)
    if places is not None:
        known = {look.place: look for look in looks}
        looks = [known.get(place) or PossibleCase(place, seconds) for place, seconds in places.items()]
    if not any(look.found for look in looks):
        propose = store.command('record propose', last.site, root)
        raise NothingKnown(
            f'{store.folder}: nothing that site {last.site} measured shows a fault by a reference, so no night can be '
            f'planned: run whole nights, then {propose}'
        )
    return choose(looks, last.site, minutes, nodes, longest, unguarded)


def choose(
    looks: Sequence[PossibleCase], site: str, minutes: float, nodes: int | None = None, longest: int = LONGEST,
    unguarded: int = 0,
) -> NightPlan:  # fmt: skip
    """Return the plan of a night that chooses among `looks`. Raises InputError if none fits into the time."""
    nodes = nodes or max(look.nodes for look in looks)
    limit, budget = 60 * minutes, 60 * minutes * nodes
    fits = [look for look in looks if look.nodes <= nodes and look.seconds <= limit]
    if not fits:
        shortest = min(looks, key=lambda look: look.cost)
        raise InputError(
            f'no case fits into {minutes:g} minutes on {count(nodes, "node")}: the shortest, {shortest.place.name}, '
            f'took {in_words(shortest.seconds)} on {count(shortest.nodes, "node")}'
        )
    columns = _columns(looks)
    weight = numpy.array([1 / sum(fault is other for other, _ in columns) for fault, _ in columns])
    finds, cost = _matrix(fits, columns), numpy.array([look.cost for look in fits])
    age = numpy.array([look.age for look in fits])
    first = due(age, longest, cost, budget)
    chosen = [*first, *most_found(finds, weight, cost, budget - float(cost[first].sum()), first)]
    late = age >= longest - 1
    late[chosen] = False
    tonight, whole = covered(finds, chosen), covered(_matrix(looks, columns), range(len(looks)))
    reached = {name for look in looks for name in look.found}
    coverage = []
    for fault in faults():
        own = [place for place, (other, _) in enumerate(columns) if other is fault]
        coverage.append(Coverage(fault, fault.name in reached, float(tonight[own].mean()), float(whole[own].mean())))
    return NightPlan(
        site, minutes, budget, longest, looks, [fits[place] for place in chosen], len(first), coverage,
        [fits[place] for place in numpy.flatnonzero(late)], [look for look in looks if look not in fits], unguarded,
    )  # fmt: skip


def _looks(store: Store, sessions: Sequence[Session], root: Path | None) -> tuple[list[PossibleCase], int]:
    """Return what each case of the sessions can find, and the number of series that no reference judges."""
    site, today = sessions[-1].site, now()
    lookup, policy = load_references(site, root), site_policy(sessions[-1], root)
    parts = {row['partition']: row['n'] for row in store.select(_NODES, sessions)}
    cases = {_place_of(row): row for row in store.select(_CASES, sessions)}
    finds: dict[CaseName, dict[str, Chance]] = {place: {} for place in cases}
    unguarded = 0
    for row in store.select(_SERIES, sessions):
        series, place = row['id'], _place_of(row)
        tolerance = tolerance_for(policy, series, row['floor'], row['usual_spread'])
        rules = [rule for rule, bound in judges(lookup, series, tolerance) if bound.gates]
        bounds = [
            limits(_with_later(with_spread(rule, lookup), row['logs']), tolerance)
            for rule in rules
            if not rule.mismatch(row['quantity'])
        ]
        unguarded += not bounds
        nodes = cases[place]['nodes'] or 1
        for name, find in chances(series, bounds, nodes, parts.get(series.partition, 1)).items():
            finds[place][name] = max(find, finds[place].get(name, find), key=lambda each: each.chance)
    ages = [(today - session.started).total_seconds() / 86400 for session in sessions]
    return [
        PossibleCase(
            place,
            row['seconds'] or _BESIDES,
            row['nodes'] or 1,
            math.inf if row['last'] is None else ages[row['last']],
            row['id'],
            finds[place],
        )
        for place, row in cases.items()
    ], unguarded


def chances(series: SeriesId, bounds: Sequence[Limits], nodes: int, of_nodes: int) -> dict[str, Chance]:
    """Return the classes of faults that a series shows, measured on `nodes` of the `of_nodes` nodes of its partition.

    `bounds`: the limits that judge the series. A check may also show a fault by failing because of it (`shown_by`).
    """
    finds = {}
    for fault in faults():
        share = 1.0 if fault.where == 'site' else min(nodes / of_nodes, 1.0)
        loss = fault.of(series, nodes > 1)
        chance = share * max((bound.chance(loss) for bound in bounds), default=0.0) if loss else 0.0
        if series.check in fault.shown_by:
            finds[fault.name] = Chance(share)
        elif chance > _SMALLEST:
            finds[fault.name] = Chance(chance, series)
    return finds


def _place_of(row: Mapping[str, Any]) -> CaseName:
    """Return the case of a row."""
    return CaseName(row['id'].partition, row['id'].environ, row['name'])


def _with_later(reference: Reference, logs: Sequence[float]) -> Reference:
    """Return the reference, with the spread of the sessions in the store if that is larger than its own."""
    values = numpy.array(logs)
    values = values[inliers(values)]
    if len(values) < METHOD.short:
        return reference
    spread, known = float(values.std(ddof=1)), spread_of(reference)[0]
    if known is not None and known >= spread:
        return reference
    return replace(reference, spread=spread, df=len(values) - 1.0, spread_n=len(values))


def _columns(looks: Collection[PossibleCase]) -> list[tuple[Fault, str]]:
    """Return (class of faults, device): one for each class.

    For a class on devices one for each device that cases name.
    """
    names: dict[str, set[str]] = {fault.name: set() for fault in faults()}
    for look in looks:
        for name in look.found:
            names[name].add(_device_of(look))
    return [
        (fault, device)
        for fault in faults()
        for device in (sorted(names[fault.name] - {''}) if fault.where == 'device' else []) or ['']
    ]


def _device_of(look: PossibleCase) -> str:
    """Return the device that a case measures; empty without one."""
    return dict(look.case.params).get('device', '') if look.case else ''


def _matrix(looks: Sequence[PossibleCase], columns: Sequence[tuple[Fault, str]]) -> ndarray:
    """Return the chance that each look finds the faults of each of `columns`, looks x columns."""
    rows = [
        [
            look.found[fault.name].chance if fault.name in look.found and _device_of(look) in ('', device) else 0.0
            for fault, device in columns
        ]
        for look in looks
    ]
    return numpy.array(rows).reshape(len(looks), len(columns))

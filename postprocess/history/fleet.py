"""Which nodes of a session stand out, and whether it is they, what lies between them, their software or the system."""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
from numpy import ndarray

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.limits import Tolerance, limits
from plumbline.paths import SITES
from plumbline.references import References, load_references
from postprocess.history import ledger
from postprocess.history.series import Metric, Policy, Series, by_node, changed, facts, facts_of, unlike
from postprocess.results.store import Session, Store
from postprocess.text import count, percent
from postprocess.verdicts.stats import chance, false_discovery_rates

FEWEST_NODES = 4  # that are compared with each other
FEWEST_NIGHTS = 4  # that tell what a node used to be so well that the others of the night need not be asked
FALSE_NODES = 0.05  # chance that a session of healthy nodes flags any of them
FALSE_SYSTEMS = 0.05  # share of the metrics flagged for the whole system that are false
FEW = 16  # values that say so little of their spread that the cap takes the place of the floor
LOCATIONS = 'locations.csv'
_MAD_OF_NORMAL = 0.67449
# Standard deviation of normal values in scaled median absolute deviations about the medians of 2, 3, ... 9 of them, by
# simulation; of n more: n / (n - 1.25).
_OF_FEW = (1.42, 2.15, 1.39, 1.38, 1.29, 1.22, 1.20, 1.16)
_BEFORE = 3  # sessions whose provenance is compared with that of the last


@dataclass(frozen=True, eq=False)
class Table:
    """The performance (`Series.performance`) of a metric, a row a node and a column a session, NaN where there is none.

    The last column is the session to be judged.
    """

    of: Metric
    nodes: list[str]
    performance: ndarray


@dataclass(frozen=True)
class Flag:
    """A node, or several of one job joined by commas, that a metric flags; `loss` on the logarithmic scale, below 0."""

    of: Metric
    node: str
    loss: float
    how: str


@dataclass(frozen=True)
class Event:
    """What stands out. `kind`: SYSTEM, NODE, FABRIC or SOFTWARE; `where`: a node, nodes, a place or a partition.

    `change`: of the performance of `metric`, the worst of the `metrics` that tell of it, in %. `how`: what with it was
    compared. `evidence`: further facts.
    """

    kind: str
    where: str
    metric: Metric
    change: float
    metrics: int
    how: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """What stands out in a session. `drain`: the nodes that it is proposed to drain, with the reason."""

    session: Session
    nodes: int
    nights: int
    events: list[Event]
    drain: dict[str, str]
    left_out: list[str]


#: The performance that the baseline of a metric expects, and that at its limit; None without a baseline.
Recorded = Callable[[Metric], tuple[float, float] | None]


def tables(series: Iterable[Series], nodes: Sequence[str], nights: int) -> list[Table]:
    """A table of so many nights for each series."""
    found = []
    for one in series:
        own, rows = numpy.unique(one.nodes, return_inverse=True)
        table = numpy.full((len(own), nights), numpy.nan)
        table[rows, one.nights] = performance = one.performance
        if numpy.isfinite(table).sum() < len(performance):  # a node that ran a case more than once
            cells = defaultdict(list)
            for *cell, value in zip(rows, one.nights, performance, strict=True):
                cells[tuple(cell)].append(value)
            for cell, values in cells.items():
                table[cell] = numpy.median(values)
        found.append(Table(one.of, [nodes[i] for i in own], table))
    return found


def of_night(found: Iterable[Table], night: int, nights: int) -> list[Table]:
    """The tables that have `night`, which becomes their last, and up to `nights` before it."""
    return [
        replace(table, performance=table.performance[:, max(night - nights, 0) : night + 1])
        for table in found
        if numpy.isfinite(table.performance[:, night]).any()
    ]


def outliers(
    found: Sequence[Table],
    tolerance: Callable[[Metric], Tolerance],
    recorded: Recorded = lambda metric: None,
    flagged: Collection[tuple[str, int]] = (),
) -> tuple[list[Flag], list[Flag]]:
    """The nodes that stand out in the last session, and the metrics whose whole fleet does, as flags of ``*``.

    A night (its column) at which a node was `flagged` does not count for what the node used to be: a node that stays
    slow stays flagged.
    """
    large = [table for table in found if numpy.isfinite(table.performance[:, -1]).sum() >= FEWEST_NODES]
    families = list(siblings(found))
    tests = sum(map(_comparisons, large)) + sum(family.performance.size for family in families)
    p = -math.expm1(math.log1p(-FALSE_NODES) / max(tests, 1))  # Sidak's: of one of so many healthy values
    flags, whole = [], []
    for table in large:
        known = _without(table, flagged)
        left, night = two_way(known.performance)
        flags += _beyond(known, left, tolerance(table.of), p, recorded(table.of))
        whole.append(_whole(table.of, night, table.performance[:, -1], recorded(table.of)))
    for family in families:
        flags += _beyond_siblings(family, tolerance(family.of[0]), p)
    return flags, _systems(whole, tolerance)


def two_way(performance: ndarray) -> tuple[ndarray, ndarray]:
    """What is left of a table of nodes by nights without each node's own level and the fleet's level of each night, and
    the latter.

    A node without past nights has no level, and nothing is left of it. Where there are nodes with enough past nights,
    the fleet's levels are first taken from them alone: a node cannot tell its own level from that of its only night.
    """
    past = performance[:, :-1]
    own = _median(past, axis=1)
    few = _nights(performance) < FEWEST_NIGHTS
    if not few.all():
        own[few] = numpy.nan
    night = _median(performance - own[:, None], axis=0)
    own = _median(past - night[:-1], axis=1)  # again, without the nights that a node was not there
    night = _median(performance - own[:, None], axis=0)
    return performance - own[:, None] - night, night


def _nights(performance: ndarray) -> ndarray:
    """How many past nights each node has."""
    return numpy.isfinite(performance[:, :-1]).sum(axis=1)


def _comparisons(table: Table) -> int:
    """A node of few past nights is compared with those and with the others of the night."""
    nights = _nights(table.performance)
    return len(nights) + int(((nights > 0) & (nights < FEWEST_NIGHTS)).sum())


def _beyond(
    table: Table, left: ndarray, tolerance: Tolerance, p: float, recorded: tuple[float, float] | None
) -> Iterator[Flag]:
    """The nodes below what they used to be; those with few past nights, also below the others or the recorded limit."""
    least = -math.log1p(-tolerance.floor)
    tonight = left[:, -1]
    nights = _nights(left)
    known = numpy.isfinite(tonight)
    slow = numpy.zeros(len(tonight), bool)
    if known.any():
        bound = numpy.maximum(_times_spread(p, numpy.isfinite(left).sum()) * _spread(left), least)
        slow = tonight < -bound
        for i in numpy.flatnonzero(slow):
            how = f'its own {count(nights[i], "night")} and the fleet of {known.sum()}'
            yield Flag(table.of, table.nodes[i], float(tonight[i]), how)
    now = table.performance[:, -1]
    new = numpy.isfinite(now) & (nights < FEWEST_NIGHTS) & ~slow
    if new.any():
        there = numpy.isfinite(now).sum()
        apart = now - _median(now)
        least = -math.log1p(-(tolerance.cap if there < FEW else tolerance.floor))
        bound = max(_times_spread(p, there) * _median(abs(apart)) / _MAD_OF_NORMAL, least)
        fleet_is_well = recorded is not None and _median(now) >= recorded[1]
        for i in numpy.flatnonzero(new):
            if apart[i] < -bound:
                yield Flag(table.of, table.nodes[i], float(apart[i]), f'the fleet of {there} on this night')
            elif fleet_is_well and now[i] < recorded[1]:
                yield Flag(table.of, table.nodes[i], float(apart[i]), 'the limit against the recorded baseline')


def _spread(left: ndarray) -> ndarray:
    """Standard deviation of what is left tonight of each node, were it healthy: that of one run, as of past nights or
    more where the better half of tonight shows that beyond its own uncertainty, with that of the node's level.

    The worse half of tonight would hide the nodes that fell behind when they are many.
    """
    past, tonight = left[:, :-1], left[:, -1]
    nights = _nights(left)
    with_level = numpy.sqrt(1 + 1.5 / (nights + 0.5))  # the variance of a median of so many, by simulation
    runs = tonight / with_level
    several = nights > 1  # a single night is the node's level
    values, levels = nights[several].sum(), numpy.isfinite(past[several]).any(axis=0).sum()
    if values >= FEW and values > levels:
        n = round(nights[several].mean())
        of_few = _OF_FEW[n - 2] if n < 2 + len(_OF_FEW) else n / (n - 1.25)
        usual = _median(abs(past[several]).ravel()) * of_few * math.sqrt(values / (values - levels))
    else:
        usual = _median(abs(runs))
    better = runs[runs > 0]
    tonights = _median(better) / (1 + 1.17 / math.sqrt(len(better))) if len(better) else 0.0
    return with_level * max(usual, tonights) / _MAD_OF_NORMAL


def _times_spread(p: float, n: int) -> float:
    """How many spreads below the median a healthy value is with chance `p`, where the spread is the median absolute
    deviation of n values, which is as uncertain as the standard deviation of 0.37 n."""
    from scipy.special import stdtrit

    return -float(stdtrit(max(0.37 * n - 1, 1), p))


def _without(table: Table, flagged: Collection[tuple[str, int]]) -> Table:
    """The table without the past nights at which its nodes were flagged."""
    rows = {node: row for row, node in enumerate(table.nodes)}
    last = table.performance.shape[1] - 1
    cells = [(rows[node], night) for node, night in flagged if node in rows and night < last]
    if not cells:
        return table
    performance = table.performance.copy()
    performance[tuple(zip(*cells, strict=True))] = numpy.nan
    return replace(table, performance=performance)


def _median(values: ndarray, axis: int = 0) -> ndarray:
    """The median of what is a number; not a number where nothing is."""
    if not values.shape[axis]:
        return numpy.full(numpy.delete(values.shape, axis), numpy.nan)
    ordered = numpy.sort(values, axis=axis)  # puts what is no number last
    n = numpy.expand_dims(numpy.isfinite(values).sum(axis=axis), axis)
    low, high = (numpy.take_along_axis(ordered, numpy.maximum(place, 0), axis) for place in ((n - 1) // 2, n // 2))
    low, high = low.squeeze(axis), numpy.where(n.squeeze(axis) > 0, high.squeeze(axis), numpy.nan)
    return (low + high) / 2


# Siblings: the devices, sockets or NUMA domains of a node


@dataclass(frozen=True, eq=False)
class Family:
    """One metric of the like devices of a node tonight, a row a node and a column a device."""

    of: list[Metric]
    labels: list[str]
    nodes: list[str]
    performance: ndarray


_DEVICE_IN_CASE = re.compile(r'((?:^|,)device=|=socket|=numa)(\d+)(?=,|$)')
_DEVICE_IN_METRIC = re.compile(r'(?!.*_\d+_\d+$)(.+)_(\d+)')
_PAIR_IN_METRIC = re.compile(r'(.+)_(\d+_\d+)')


def siblings(found: Iterable[Table]) -> Iterator[Family]:
    """The devices that are measured alike: in cases that differ only in ``device=`` or in the number of a socket or a
    NUMA domain; in metrics of one case that end in the number of a device, or in that of a pair in a link class.
    """
    groups: dict[tuple, dict[str, Table]] = defaultdict(dict)
    for table in found:
        of = table.of
        if place := _DEVICE_IN_CASE.search(of.case):
            case = of.case[: place.start(2)] + '*' + of.case[place.end(2) :]
            groups[replace(of, case=case), False][place[0].lstrip(',=')] = table
        elif 'link_class=' in of.case and (place := _PAIR_IN_METRIC.fullmatch(of.metric)):
            groups[replace(of, metric=f'{place[1]}_*'), False][place[2]] = table
        elif place := _DEVICE_IN_METRIC.fullmatch(of.metric):
            groups[replace(of, metric=f'{place[1]}_*'), True][place[2]] = table
    for (_, numbered), members in groups.items():
        if len(members) < 2 or (numbered and set(members) != set(map(str, range(len(members))))):
            continue  # numbers that are not 0, 1, 2 ... are sizes of messages
        nodes = sorted({node for table in members.values() for node in table.nodes})
        rows = {node: row for row, node in enumerate(nodes)}
        performance = numpy.full((len(nodes), len(members)), numpy.nan)
        for column, table in enumerate(members.values()):
            performance[[rows[node] for node in table.nodes], column] = table.performance[:, -1]
        yield Family([table.of for table in members.values()], list(members), nodes, performance)


def _beyond_siblings(family: Family, tolerance: Tolerance, p: float) -> Iterator[Flag]:
    """Devices below the others of their node, further than such devices differ in all nodes together."""
    performance = family.performance
    others = [_median(numpy.delete(performance, column, axis=1), axis=1) for column in range(len(family.of))]
    apart = performance - numpy.stack(others, axis=1)
    if len(family.nodes) >= FEWEST_NODES:
        apart = apart - _median(apart, axis=0)  # the first device may be slower in every node
    measured = numpy.isfinite(apart)
    least = -math.log1p(-(tolerance.cap if measured.sum() < FEW else tolerance.floor))
    # of two or three, one that is slow makes up the spread
    spread = _median(abs(apart).ravel()) / _MAD_OF_NORMAL if measured.sum() >= FEWEST_NODES else 0.0
    bound = max(_times_spread(p, measured.sum()) * spread, least)
    for row, column in zip(*numpy.nonzero(apart < -bound), strict=True):
        how = f'the other {measured[row].sum() - 1} of its node'
        yield Flag(family.of[column], family.nodes[row], float(apart[row, column]), how)


# The system


def _whole(of: Metric, night: ndarray, now: ndarray, recorded: tuple[float, float] | None) -> tuple[Flag, float] | None:
    """The loss of the fleet's median, and the chance of one as large in a healthy system."""
    past, tonight = night[:-1][numpy.isfinite(night[:-1])], night[-1]
    if len(past) >= FEWEST_NIGHTS and numpy.isfinite(tonight):
        loss = tonight - past.mean()
        sd = max(past.std(ddof=1), 1e-6) * math.sqrt(1 + 1 / len(past))
        return Flag(of, '*', float(loss), f'the {len(past)} nights before'), float(chance(-loss / sd, len(past) - 1))
    if recorded and (middle := _median(now)) < recorded[1]:
        return Flag(of, '*', float(middle - recorded[0]), 'the recorded baseline'), 0.0
    return None


def _systems(whole: Sequence[tuple[Flag, float] | None], tolerance: Callable[[Metric], Tolerance]) -> list[Flag]:
    """Those that fell by at least the floor and, adjusted for the number of metrics, not by chance."""
    found = list(filter(None, whole))
    if not found:
        return []
    rates = false_discovery_rates(numpy.array([p for _, p in found]))
    return [
        flag
        for (flag, _), rate in zip(found, rates, strict=True)
        if rate <= FALSE_SYSTEMS and flag.loss <= math.log1p(-tolerance(flag.of).floor)
    ]


# A session


def fleet(
    store: Store, last: Session, days: int, results: Path, root: Path = SITES, keep: bool = True,
    sessions: Sequence[Session] | None = None,
) -> Fleet:  # fmt: skip
    """What stands out in the session `last` by those of so many days before it; `keep`: which nodes do, in the ledger;
    `sessions`: those days', where they are known already.

    Raises InputError for a store, ledger or location table that cannot be read, SiteError for a file of the site.
    """
    sessions = store.history(last, days) if sessions is None else sessions
    nights = {session.session: night for night, session in enumerate(sessions)}
    policy, where = Policy.of(last.site, root), locations(last.site, root)
    known = ledger.read(results, last.site)
    before = [entry for entry in known if entry.session in nights and entry.session != last.session]
    series, nodes = by_node(store, sessions)
    found = of_night(tables(series, nodes, len(sessions)), len(sessions) - 1, len(sessions))
    flagged = {(entry.node, nights[entry.session]) for entry in before}
    flags, systems = outliers(found, policy.tolerance, recorded(last.site, root, policy), flagged)
    measured = {
        node
        for table in found
        for node, value in zip(table.nodes, table.performance[:, -1], strict=True)
        if numpy.isfinite(value)
    }
    events = _system_events(systems) + _node_events(flags, measured, where)
    events = _with_software(store, sessions, events)
    if keep:
        ledger.write(results, last, [_entry(last, event) for event in events if event.where in measured])
    alone = {node for nodes in measured for node in nodes.split(',')}
    return Fleet(last, len(alone), len(sessions), events, _drain(events, before, sessions), _left_out(found))


def locations(site: str, root: Path = SITES) -> dict[str, set[str]]:
    """The places that each node is in, such as ``switch s3``, from the site's ``locations.csv``; none without one.

    Its first column is `node`, each other one a kind of place. Raises InputError.
    """
    path = next((path for folder in (root, SITES) if (path := folder / site / LOCATIONS).exists()), None)
    if path is None:
        return {}
    try:
        with path.open(encoding='utf-8', newline='') as lines:
            header, *rows = [row for row in csv.reader(lines) if row] or [['']]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f'{path}: cannot be read as CSV: {error}') from None
    if header[0] != 'node' or len(header) < 2:
        raise InputError(f'{path}: expected the columns node and at least one kind of place, found {",".join(header)}')
    found = {}
    for row in rows:
        if len(row) != len(header) or row[0] in found:
            raise InputError(f'{path}: node {row[0]}: expected one row of {len(header)} columns')
        found[row[0]] = {f'{kind} {name}' for kind, name in zip(header[1:], row[1:], strict=True) if name}
    return found


def recorded(site: str, root: Path, policy: Policy) -> Recorded:
    """The baselines of a site."""
    references = References(row for row in load_references(site, root).rows if row.kind == 'baseline')

    def found(of: Metric) -> tuple[float, float] | None:
        row = references.find((of.partition, of.stack, of.check, of.case, of.metric))
        if row is None or (row.unit, row.better) != (of.unit, of.better):
            return None
        bound = limits(row, policy.tolerance(of))
        return tuple(of.sign * math.log(value) for value in (row.mean, bound.bad)) if bound.gates else None

    return found


def _event(kind: str, where: str, flags: Sequence[Flag], *evidence: str) -> Event:
    worst = min(flags, key=lambda flag: flag.loss)
    metrics = len({flag.of for flag in flags})
    return Event(kind, where, worst.of, 100 * math.expm1(worst.loss), metrics, worst.how, evidence)


def _system_events(systems: Iterable[Flag]) -> list[Event]:
    """One for each check of a partition."""
    groups = defaultdict(list)
    for flag in systems:
        groups[flag.of.partition, flag.of.check].append(flag)
    return sorted((_event('SYSTEM', key[0], flags) for key, flags in groups.items()), key=lambda event: event.change)


def _node_events(flags: Iterable[Flag], measured: Iterable[str], where: dict[str, set[str]]) -> list[Event]:
    """One for each node, and for what lies between the nodes of the slow jobs of several that no node explains."""
    by_node: dict[str, list[Flag]] = defaultdict(list)
    for flag in flags:
        by_node[flag.node].append(flag)
    slow = {names: set(names.split(',')) for names in by_node if ',' in names}
    healthy = [set(names.split(',')) for names in measured if ',' in names and names not in slow]
    found = {node: _event('NODE', node, own) for node, own in by_node.items() if node not in slow}
    for node, event in found.items():
        own = [names for names, nodes in slow.items() if node in nodes]
        if own:
            found[node] = replace(event, evidence=(f'so are its jobs with other nodes: {len(own)}',))
        for names in own:
            del slow[names]
    events = list(found.values())
    while slow:
        kind, place, explained = _explains(slow, healthy, where)
        own = [flag for names in explained for flag in by_node[names]]
        of = sum(_touches(nodes, place, where) for nodes in healthy)
        events.append(
            _event(kind, place, own, f'slow: {len(explained)} of {len(explained) + of} jobs over several nodes there')
        )
        for names in explained:
            del slow[names]
    return sorted(events, key=lambda event: event.change)


def _touches(nodes: set[str], place: str, where: dict[str, set[str]]) -> bool:
    return place in nodes or any(place in where.get(node, ()) for node in nodes)


def _explains(
    slow: dict[str, set[str]], healthy: Sequence[set[str]], where: dict[str, set[str]]
) -> tuple[str, str, list[str]]:
    """NODE or FABRIC, the node or place with the most slow jobs beyond its healthy ones, and those jobs; where none has
    two or more, the nodes of one job."""
    nodes = sorted(set().union(*slow.values()))
    places = sorted({place for node in nodes for place in where.get(node, ())})
    best = (1, 'FABRIC', next(iter(slow)), [next(iter(slow))])
    for kind, candidates in (('NODE', nodes), ('FABRIC', places)):
        for place in candidates:
            hit = [names for names, of in slow.items() if _touches(of, place, where)]
            score = len(hit) - sum(_touches(of, place, where) for of in healthy)
            if score > best[0]:
                best = (score, kind, place, hit)
    return best[1:]


def _with_software(store: Store, sessions: Sequence[Session], events: list[Event]) -> list[Event]:
    """The events with what changed in the provenance of their worst metric: they are SOFTWARE then."""
    last = len(sessions) - 1
    nights = range(max(last - _BEFORE, 0), last)
    found = facts(store, sessions, [(event.metric, night) for event in events for night in (*nights, last)])
    told = []
    for event in events:
        node = '*' if event.kind == 'SYSTEM' else event.where
        before, now = (facts_of(found, event.metric, some, node) for some in (nights, [last]))
        said = changed(before, now)
        if event.kind != 'SYSTEM':
            everywhere = changed(*(facts_of(found, event.metric, some) for some in (nights, [last])))
            said = [sentence for sentence in said if sentence not in everywhere]
            said += unlike(found, event.metric, last, node) if not said else []
        kind = 'SOFTWARE' if said else event.kind
        told.append(replace(event, kind=kind, evidence=(*event.evidence, *said)))
    return told


def _drain(events: Iterable[Event], before: Sequence[ledger.Entry], sessions: Sequence[Session]) -> dict[str, str]:
    """The nodes that stood out in this and in one of the two sessions before it, with the reason."""
    lately = {session.session for session in sessions[-3:-1]}
    again = {entry.node for entry in before if entry.session in lately}
    day = f'{sessions[-1].started:%Y-%m-%d}'
    return {
        event.where: f'{day} {event.metric.check} {event.metric.metric} {percent(event.change)}, not for the first time'
        for event in events
        if event.kind == 'NODE' and event.where in again and ',' not in event.where
    }


def _entry(session: Session, event: Event) -> ledger.Entry:
    of = event.metric
    return ledger.Entry(
        f'{session.started:%Y-%m-%d}', session.session, event.where, event.kind, of.check, of.case, of.metric,
        round(event.change, 2), event.how,
    )  # fmt: skip


def _left_out(found: Sequence[Table]) -> list[str]:
    few = [table for table in found if numpy.isfinite(table.performance[:, -1]).sum() < FEWEST_NODES]
    if not few:
        return []
    return [f'{count(len(few), "metric")} of fewer than {FEWEST_NODES} nodes: only the devices of a node are compared']


def write_drain(found: Fleet, results: Path) -> Path | None:
    """Write the proposal as commands for a person to run; None, and no file, where there is nothing to propose."""
    if not found.drain:
        return None
    path = results / 'proposals' / f'drain-{found.session.site}-{found.session.started:%Y-%m-%d}.txt'
    lines = [
        f'scontrol update NodeName={shlex.quote(node)} State=DRAIN Reason={shlex.quote(f"plumbline {reason}")}\n'
        for node, reason in sorted(found.drain.items())
    ]
    write_text(path, ''.join(lines))
    return path

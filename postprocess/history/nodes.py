"""Nodes that stand out in a session, by statistics: against their own past, the fleet, and the like parts of a node."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy
from numpy import ndarray

from plumbline.identity import Pairs, Quantity, SeriesId
from plumbline.limits import Tolerance
from postprocess.history.series import History
from postprocess.text import count
from postprocess.verdicts.stats import chance, false_discovery_rates

FEWEST_NODES = 4  # that are compared with each other
FEWEST_SESSIONS = 4  # that tell a node's own level so well that the other nodes of the session need not be asked
FALSE_NODES = 0.05  # chance that a session of healthy nodes flags any of them
FALSE_SYSTEMS = 0.05  # share of the series flagged for the whole system that are false
FEW = 16  # values that say so little of their spread that the cap takes the place of the floor
WHOLE = '*'  # in place of a node: the whole fleet
#: Dims and params that name one of several like parts of a node. Values are alike that differ only in their number:
#: ``socket0`` and ``socket1``. Pairs of GPUs are alike within a link class.
PARTS = ('device', 'domain', 'layout')
PAIR, LINK_CLASS = 'pair', 'link_class'
_MAD_OF_NORMAL = 0.67449
# Standard deviation of normal values in scaled median absolute deviations about the medians of 2, 3, ... 9 of them, by
# simulation; of n more: n / (n - 1.25).
_OF_FEW = (1.42, 2.15, 1.39, 1.38, 1.29, 1.22, 1.20, 1.16)


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The performance (`History.performance`) of a series: a row a node, a column a session, NaN without a value.

    The last column is the session to be judged.
    """

    series: SeriesId
    quantity: Quantity
    tolerance: Tolerance
    nodes: list[str]
    performance: ndarray


@dataclass(frozen=True)
class Flag:
    """A series in which a node stands out.

    `node`: its name, several of one job joined by commas, or `WHOLE`. `loss`: of performance, logarithm, below 0.
    `how`: what it was compared with.
    """

    series: SeriesId
    quantity: Quantity
    node: str
    loss: float
    how: str


#: Return the performance that the baseline of a series expects, and that at its limit; None without a baseline.
Recorded = Callable[[NodeTable], tuple[float, float] | None]


def tables(histories: Iterable[History], nodes: Sequence[str], sessions: int) -> list[NodeTable]:
    """Return a table of so many sessions for each history; its nodes are places in `nodes`."""
    found = []
    for history in histories:
        own, rows = numpy.unique(history.nodes, return_inverse=True)
        table = numpy.full((len(own), sessions), numpy.nan)
        table[rows, history.sessions] = performance = history.performance
        if numpy.isfinite(table).sum() < len(performance):  # a node that ran a case more than once
            cells: dict[tuple[int, int], list[float]] = defaultdict(list)
            for row, session, value in zip(rows, history.sessions, performance, strict=True):
                cells[row, session].append(value)
            for cell, values in cells.items():
                table[cell] = numpy.median(values)
        names = [nodes[place] for place in own]
        found.append(NodeTable(history.series, history.quantity, history.tolerance, names, table))
    return found


def until(found: Iterable[NodeTable], session: int, before: int) -> list[NodeTable]:
    """Return the tables that have `session`, which becomes their last, with up to so many sessions before it."""
    return [
        replace(table, performance=table.performance[:, max(session - before, 0) : session + 1])
        for table in found
        if numpy.isfinite(table.performance[:, session]).any()
    ]


def outliers(
    found: Sequence[NodeTable],
    recorded: Recorded = lambda table: None,
    flagged: Collection[tuple[str, int]] = (),
) -> tuple[list[Flag], list[Flag]]:
    """Return the nodes that stand out in the last session, and the series in which the whole fleet does.

    A session (its column) in which a node was `flagged` does not count for the node's own level: a node that stays slow
    stays flagged.
    """
    large = [table for table in found if numpy.isfinite(table.performance[:, -1]).sum() >= FEWEST_NODES]
    families = list(siblings(found))
    tests = sum(map(_comparisons, large)) + sum(family.performance.size for family in families)
    p = -math.expm1(math.log1p(-FALSE_NODES) / max(tests, 1))  # Sidak's: of one of so many healthy values
    flags: list[Flag] = []
    whole = []
    for table in large:
        known = _without(table, flagged)
        left, fleet = two_way(known.performance)
        flags += _beyond(known, left, p, recorded(table))
        whole.append(_whole(table, fleet, recorded(table)))
    for family in families:
        flags += _beyond_siblings(family, p)
    return flags, _systems(list(filter(None, whole)))


def two_way(performance: ndarray) -> tuple[ndarray, ndarray]:
    """Remove each node's own level and the fleet's level of each session; return the rest and the fleet's levels.

    A node without past sessions has no level, so the rest of its row is NaN. Where some nodes have enough past
    sessions, the fleet's levels come from them first: a node cannot tell its own level from that of its only session.
    """
    past = performance[:, :-1]
    own = _median(past, axis=1)
    few = _past(performance) < FEWEST_SESSIONS
    if not few.all():
        own[few] = numpy.nan
    fleet = _median(performance - own[:, None], axis=0)
    own = _median(past - fleet[:-1], axis=1)  # again: a node may have been away in sessions that were slow for all
    fleet = _median(performance - own[:, None], axis=0)
    return performance - own[:, None] - fleet, fleet


def _past(performance: ndarray) -> ndarray:
    """Return the number of past sessions of each node."""
    return numpy.isfinite(performance[:, :-1]).sum(axis=1)


def _comparisons(table: NodeTable) -> int:
    """Return the number of tests: a node of few past sessions is compared with those and with the other nodes."""
    past = _past(table.performance)
    return len(past) + int(((past > 0) & (past < FEWEST_SESSIONS)).sum())


def _beyond(table: NodeTable, left: ndarray, p: float, recorded: tuple[float, float] | None) -> Iterator[Flag]:
    """Yield the nodes below their own level; those with few past sessions also if below the others or the limit."""

    def flag(i: int, loss: float, how: str) -> Flag:
        return Flag(table.series, table.quantity, table.nodes[i], loss, how)

    least = -math.log1p(-table.tolerance.floor)
    last = left[:, -1]
    past = _past(left)
    known = numpy.isfinite(last)
    slow = numpy.zeros(len(last), bool)
    if known.any():
        bound = numpy.maximum(_times_spread(p, numpy.isfinite(left).sum()) * _spread(left), least)
        slow = last < -bound
        for i in numpy.flatnonzero(slow):
            yield flag(int(i), float(last[i]), f'its own {count(past[i], "session")} and the fleet of {known.sum()}')
    now = table.performance[:, -1]
    new = numpy.isfinite(now) & (past < FEWEST_SESSIONS) & ~slow
    if new.any():
        there = numpy.isfinite(now).sum()
        apart = now - _median(now)
        least = -math.log1p(-(table.tolerance.cap if there < FEW else table.tolerance.floor))
        limit = max(_times_spread(p, there) * float(_median(abs(apart))) / _MAD_OF_NORMAL, least)
        fleet_is_well = recorded is not None and _median(now) >= recorded[1]
        for i in numpy.flatnonzero(new):
            if apart[i] < -limit:
                yield flag(int(i), float(apart[i]), f'the fleet of {there} in this session')
            elif recorded is not None and fleet_is_well and now[i] < recorded[1]:
                yield flag(int(i), float(apart[i]), 'the limit against the recorded baseline')


def _spread(left: ndarray) -> ndarray:
    """Return the standard deviation of each healthy node's rest in the last session.

    It is that of one run and of the node's own level. That of a run comes from past sessions, or is larger where the
    better half of the last session shows it beyond its own uncertainty; the worse half would hide the nodes that fell
    behind when they are many.
    """
    past, last = left[:, :-1], left[:, -1]
    sessions = _past(left)
    with_level = numpy.sqrt(1 + 1.5 / (sessions + 0.5))  # the variance of a median of so many, by simulation
    runs = last / with_level
    several = sessions > 1  # a single session is the node's level
    values, levels = sessions[several].sum(), numpy.isfinite(past[several]).any(axis=0).sum()
    if values >= FEW and values > levels:
        n = round(sessions[several].mean())
        of_few = _OF_FEW[n - 2] if n < 2 + len(_OF_FEW) else n / (n - 1.25)
        usual = _median(abs(past[several]).ravel()) * of_few * math.sqrt(values / (values - levels))
    else:
        usual = _median(abs(runs))
    better = runs[runs > 0]
    lasts = _median(better) / (1 + 1.17 / math.sqrt(len(better))) if len(better) else 0.0
    return with_level * max(usual, lasts) / _MAD_OF_NORMAL


def _times_spread(p: float, n: int) -> float:
    """Return the distance below the median, in spreads, that a healthy value exceeds with chance `p`.

    The spread is the median absolute deviation of n values, as uncertain as the standard deviation of 0.37 n.
    """
    from scipy.special import stdtrit

    return -float(stdtrit(max(0.37 * n - 1, 1), p))


def _without(table: NodeTable, flagged: Collection[tuple[str, int]]) -> NodeTable:
    """Return the table without the past sessions in which its nodes were flagged."""
    rows = {node: row for row, node in enumerate(table.nodes)}
    last = table.performance.shape[1] - 1
    cells = [(rows[node], session) for node, session in flagged if node in rows and session < last]
    if not cells:
        return table
    performance = table.performance.copy()
    performance[tuple(zip(*cells, strict=True))] = numpy.nan
    return replace(table, performance=performance)


def _median(values: ndarray, axis: int = 0) -> ndarray:
    """Return the median of the finite values; NaN where there is none."""
    if not values.shape[axis]:
        return numpy.full(numpy.delete(values.shape, axis), numpy.nan)
    ordered = numpy.sort(values, axis=axis)  # puts NaN last
    n = numpy.expand_dims(numpy.isfinite(values).sum(axis=axis), axis)
    low, high = (numpy.take_along_axis(ordered, numpy.maximum(place, 0), axis) for place in ((n - 1) // 2, n // 2))
    low, high = low.squeeze(axis), numpy.where(n.squeeze(axis) > 0, high.squeeze(axis), numpy.nan)
    return (low + high) / 2


# Siblings: the like parts of a node


@dataclass(frozen=True, eq=False)
class Family:
    """One quantity of the like parts of a node in the last session: a row a node, a column a part."""

    parts: list[NodeTable]
    nodes: list[str]
    performance: ndarray


def siblings(found: Iterable[NodeTable]) -> Iterator[Family]:
    """Yield the series that measure the like parts of a node (see `PARTS`): they differ in nothing else."""
    groups: dict[tuple, dict[str, NodeTable]] = defaultdict(dict)
    for table in found:
        of = table.series
        linked = any(name == LINK_CLASS for name, _ in of.params)
        for name, value in (*of.params, *of.dims):
            if name in PARTS or (name == PAIR and linked):
                alike = value.rstrip('0123456789') if name in PARTS else ''
                rest = replace(of, params=_without_name(of.params, name), dims=_without_name(of.dims, name))
                if alike != value:  # it has a number
                    groups[rest, table.quantity, name, alike][value] = table
                break
    for members in groups.values():
        if len(members) < 2:
            continue
        nodes = sorted({node for table in members.values() for node in table.nodes})
        rows = {node: row for row, node in enumerate(nodes)}
        performance = numpy.full((len(nodes), len(members)), numpy.nan)
        for column, table in enumerate(members.values()):
            performance[[rows[node] for node in table.nodes], column] = table.performance[:, -1]
        yield Family(list(members.values()), nodes, performance)


def _without_name(pairs: Pairs, name: str) -> Pairs:
    return tuple(pair for pair in pairs if pair[0] != name)


def _beyond_siblings(family: Family, p: float) -> Iterator[Flag]:
    """Yield the parts below the others of their node, further than such parts differ in all nodes together."""
    performance, tolerance = family.performance, family.parts[0].tolerance
    others = [_median(numpy.delete(performance, column, axis=1), axis=1) for column in range(len(family.parts))]
    apart = performance - numpy.stack(others, axis=1)
    if len(family.nodes) >= FEWEST_NODES:
        apart = apart - _median(apart, axis=0)  # the first device may be slower in every node
    measured = numpy.isfinite(apart)
    least = -math.log1p(-(tolerance.cap if measured.sum() < FEW else tolerance.floor))
    # of two or three, one that is slow makes up the spread
    spread = _median(abs(apart).ravel()) / _MAD_OF_NORMAL if measured.sum() >= FEWEST_NODES else 0.0
    bound = max(_times_spread(p, measured.sum()) * spread, least)
    for row, column in zip(*numpy.nonzero(apart < -bound), strict=True):
        part, how = family.parts[column], f'the other {measured[row].sum() - 1} of its node'
        yield Flag(part.series, part.quantity, family.nodes[row], float(apart[row, column]), how)


# The whole system

_Whole = tuple[Flag, Tolerance, float]  # of a loss, and the chance of one as large in a healthy system


def _whole(table: NodeTable, fleet: ndarray, recorded: tuple[float, float] | None) -> _Whole | None:
    """Return the loss of the fleet's level against past sessions or, where they are few, the recorded baseline."""

    def whole(loss: float, how: str, p: float) -> _Whole:
        return Flag(table.series, table.quantity, WHOLE, loss, how), table.tolerance, p

    past, last = fleet[:-1][numpy.isfinite(fleet[:-1])], fleet[-1]
    if len(past) >= FEWEST_SESSIONS and numpy.isfinite(last):
        loss = last - past.mean()
        sd = max(past.std(ddof=1), 1e-6) * math.sqrt(1 + 1 / len(past))
        p = chance(numpy.array(-loss / sd), numpy.array(len(past) - 1))
        return whole(float(loss), f'the {len(past)} sessions before', float(p))
    middle = _median(table.performance[:, -1])
    if recorded and middle < recorded[1]:
        return whole(float(middle - recorded[0]), 'the recorded baseline', 0.0)
    return None


def _systems(found: list[_Whole]) -> list[Flag]:
    """Return the losses of at least the floor that are, adjusted for the number of series, not by chance."""
    if not found:
        return []
    rates = false_discovery_rates(numpy.array([p for *_, p in found]))
    return [
        flag
        for (flag, tolerance, _), rate in zip(found, rates, strict=True)
        if rate <= FALSE_SYSTEMS and flag.loss <= math.log1p(-tolerance.floor)
    ]

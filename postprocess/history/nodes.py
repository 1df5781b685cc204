# SPDX-License-Identifier: BSD-3-Clause
"""Find nodes that stand out in a session: against their own past, the other nodes, or the equal parts of a node."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy import ndarray

from plumbline.identity import Pairs, Quantity, SeriesId
from plumbline.limits import Tolerance
from postprocess.history.series import History
from postprocess.statistics import spread
from postprocess.statistics.baseline import error_of_mean
from postprocess.statistics.distributions import MAD_OF_NORMAL, OUTLYING, chance, false_discovery_rates
from postprocess.text import count

FEWEST_NODES = 4  # fewest nodes that are compared with each other
ACCEPTED = 20  # most first sessions of a node that define its accepted level
FALSE_NODES = 0.04  # expected number of nodes flagged in a session of healthy nodes
FALSE_SYSTEMS = 0.05  # largest expected share of false ones among the series flagged for the whole system
WHOLE = '*'  # stands for the whole fleet in place of the name of a node
#: Number of last sessions whose mean is compared with the accepted level -> share of the false nodes that it may cause.
#: One session shows large losses, several show small losses that last.
WINDOWS = {1: 0.25, 2: 0.15, 4: 0.5, 7: 0.1}
#: Dims and params that name one of several equal parts of a node. Parts are comparable if only their numbers differ, as
#: in ``socket0`` and ``socket1``; pairs of GPUs are comparable within a link class.
PARTS = ('device', 'domain', 'layout')
PAIR, LINK_CLASS = 'pair', 'link_class'


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The performance (`History.performance`) of a series: one row a node, one column a session, NaN without a value.

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

    `node`: its name, several nodes of one job joined by commas, or `WHOLE`. `loss`: logarithm of performance, below 0,
    the mean over the last `sessions` sessions; `error`: half of its 95 % interval. `how`: what it was compared with.
    `part`: of the node, such as ``device 3``.
    """

    series: SeriesId
    quantity: Quantity
    node: str
    loss: float
    how: str
    sessions: int = 1
    part: str = ''
    error: float = math.nan


#: Returns (performance that the baseline of a series expects, performance at its limit); None without a baseline.
Recorded = Callable[[NodeTable], tuple[float, float] | None]


def node_tables(histories: Iterable[History], nodes: Sequence[str], sessions: int) -> list[NodeTable]:
    """Return for each history a table with `sessions` columns; the nodes of a history are indices in `nodes`."""
    tables = []
    for history in histories:
        there = numpy.zeros(len(nodes), bool)  # much faster than numpy.unique
        there[history.nodes] = True
        own, rows = numpy.flatnonzero(there).tolist(), (there.cumsum() - 1)[history.nodes]
        table = numpy.full((len(own), sessions), numpy.nan)
        table[rows, history.sessions] = performance = history.performance
        if numpy.isfinite(table).sum() < len(performance):  # a node ran a case more than once
            cells: dict[tuple[int, int], list[float]] = defaultdict(list)
            for row, session, value in zip(rows, history.sessions, performance, strict=True):
                cells[row, session].append(value)
            for cell, values in cells.items():
                table[cell] = numpy.median(values)
        names = [nodes[place] for place in own]
        tables.append(NodeTable(history.series, history.quantity, history.tolerance, names, table))
    return tables


def until(measured: Iterable[NodeTable], session: int, before: int) -> list[NodeTable]:
    """Return the tables with values in `session`, cut to this session and up to `before` sessions before it."""
    return [
        replace(table, performance=table.performance[:, max(session - before, 0) : session + 1])
        for table in measured
        if numpy.isfinite(table.performance[:, session]).any()
    ]


def outliers(
    measured: Sequence[NodeTable],
    recorded: Recorded = lambda table: None,
    flagged: Collection[tuple[str, int]] = (),
    accepted: Collection[int] = (),
) -> tuple[list[Flag], list[Flag]]:
    """Return the nodes that stand out in the last session, and the series in which the whole fleet does.

    A node should keep the level of its accepted sessions. These are the sessions of the baseline (columns in
    `accepted`) if the node ran in enough of them, else its first sessions, in both cases up to a fall. Sessions in
    which the node was `flagged` (node, column) do not count, so a node that stays slow stays flagged.
    """
    large = [table for table in measured if numpy.isfinite(table.performance[:, -1]).sum() >= FEWEST_NODES]
    families = list(siblings(measured))
    tests = sum(len(table.nodes) for table in large) + sum(family.performance.size for family in families)
    p = FALSE_NODES / max(tests, 1)
    flags: list[Flag] = []
    whole: list[_Whole | None] = []
    for table in large:
        fleet = _Fleet(table, p, recorded(table), _cells(table, flagged), accepted)
        own = list(fleet.flags())
        if len(own) > fleet.there / 2:  # if more than half are flagged, the cause is not in single nodes
            own = [replace(own[0], node=WHOLE, loss=float(numpy.median([flag.loss for flag in own])), error=math.nan)]
            whole.append((own[0], table.tolerance, 0.0))
        else:
            flags += own
            whole.append(fleet.whole())
    for family in families:
        flags += _beyond_siblings(family, p)
    return flags, _systems(list(filter(None, whole)))


def _cells(table: NodeTable, flagged: Collection[tuple[str, int]]) -> tuple[list[int], list[int]]:
    """Return the rows and columns of the past sessions in which nodes of the table were flagged."""
    rows = {node: row for row, node in enumerate(table.nodes)}
    last = table.performance.shape[1] - 1
    cells = [(rows[node], column) for node, column in flagged if node in rows and column < last]
    return [row for row, _ in cells], [column for _, column in cells]


class _Fleet:
    """The nodes of one series in the last session, compared with their accepted levels and with the other nodes.

    `accepted`: True for values that show the level of their node. `left`: performance minus the node's level and the
    fleet's level in each session; NaN for a node without a level. `own`: level of each node. `levels`: the fleet's
    level in each session. `steady`: accepted values without slow runs.
    """

    def __init__(
        self, table: NodeTable, p: float, recorded: tuple[float, float] | None, flagged: tuple[list[int], list[int]],
        accepted: Collection[int],
    ):  # fmt: skip
        self.table, self.p, self.recorded = table, p, recorded
        self.floor = -math.log1p(-table.tolerance.floor)
        self.finite = numpy.isfinite(table.performance)
        self.there = int(self.finite[:, -1].sum())
        usable = self.finite.copy()
        usable[:, -1] = False
        usable[flagged] = False
        self.accepted = usable & (usable.cumsum(axis=1) <= ACCEPTED)
        columns = numpy.isin(numpy.arange(usable.shape[1]), sorted(accepted))
        reviewed = (usable & columns).sum(axis=1) >= spread.FEWEST_SESSIONS
        self.accepted[reviewed] = (usable & columns)[reviewed]
        self.left, self.own, self.levels = spread.two_way(table.performance, self.accepted)
        self.accepted &= ~spread.after_fall(self.left, self.accepted, self.floor)
        self._reject_unlike(~reviewed)
        # a randomly slow run counts for the frequency of slow runs, not for level and spread
        past = spread.until_last(self.accepted)
        apart = numpy.where(self.accepted[:, past], abs(self.left[:, past]), numpy.nan)
        self.steady = self.accepted.copy()
        self.steady[:, past] &= apart <= OUTLYING / MAD_OF_NORMAL * spread.median(apart, axis=1)[:, None]

    def _reject_unlike(self, nodes: ndarray) -> None:
        """Accept no value of those of `nodes` whose level is far below the others: they were always slow."""
        known = numpy.isfinite(self.own)
        if known.sum() >= FEWEST_NODES:
            apart = self.own - numpy.median(self.own[known])
            bound = spread.bound_of(apart[known], self.p, self.table.tolerance)
            self.accepted[nodes & known & (apart < -bound)] = False

    def flags(self) -> Iterator[Flag]:
        """Yield the nodes that are below their own level.

        Nodes with few accepted sessions are also compared with the others.
        """
        sessions = self.accepted.sum(axis=1)
        loss, window, error = self._below_own(sessions)
        for i in numpy.flatnonzero(window).tolist():
            how = f'its own {count(int(sessions[i]), "session")} and the fleet of {self.there}'
            over = f', over {count(int(window[i]), "session")}' if window[i] > 1 else ''
            yield self._flag(i, loss[i], how + over, error[i], int(window[i]))
        new = self.finite[:, -1] & (sessions < spread.FEWEST_SESSIONS) & (window == 0)
        if new.any():
            yield from self._new(new, sessions)

    def _flag(self, i: int, loss: float, how: str, error: float, sessions: int = 1) -> Flag:
        """Return the flag of the node in row `i`."""
        table = self.table
        return Flag(table.series, table.quantity, table.nodes[i], float(loss), how, sessions, error=float(error))

    def _below_own(self, sessions: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        """Return for each node its loss against the accepted level, its number of sessions, and half its 95 % interval.

        The number of sessions is 0 without a significant loss. Student's t of the mean of the last sessions, with the
        node's own spread, moderated over the nodes, and the correlation of neighboring sessions. p is at least the
        chance of so many randomly slow runs, as frequent as in the accepted sessions of all nodes. The last session
        alone must lose at least half of the floor.
        """
        from scipy.special import bdtrc, stdtr, stdtrit

        loss, window = numpy.zeros(len(sessions)), numpy.zeros(len(sessions), int)
        half = numpy.full(len(sessions), numpy.nan)
        last = numpy.arange(self.finite.shape[1])[-max(WINDOWS) :][None].repeat(len(sessions), axis=0)
        if not self.finite[:, last[0]].all():  # take the last sessions in which the node ran
            last = numpy.argsort(self.finite, axis=1, kind='stable')[:, -max(WINDOWS) :]
        recent = numpy.take_along_axis(self.left, last, axis=1)
        judged = self.finite[:, -1] & (sessions >= spread.FEWEST_SESSIONS)
        best = numpy.full(len(sessions), self.p)
        levels = None
        for size, share in WINDOWS.items():
            before = self.steady
            if numpy.take_along_axis(self.steady, last[:, -size:], axis=1).any():
                before = self.steady.copy()
                numpy.put_along_axis(before, last[:, -size:], False, axis=1)
            if levels is None or before is not self.steady:
                levels = spread.Levels(self.left, self.accepted, before, self.floor)
            means = recent[:, -size:].mean(axis=1)  # NaN with fewer sessions
            change = means - levels.own
            rows = numpy.flatnonzero(judged & (change < -self.floor) & (recent[:, -1] - levels.own < -self.floor / 2))
            rows = rows[levels.n[rows] >= spread.FEWEST_SESSIONS]
            if not len(rows):
                continue
            error = error_of_mean(levels.phi, numpy.array(float(size)))
            change, sd, df = change[rows], levels.sd[rows], levels.df[rows]
            if size > 1:  # the last sessions also show the spread
                further = size * (1 - error)
                squares = recent[rows, -size:].var(axis=1) * size
                sd, df = numpy.sqrt((df * sd**2 + squares) / (df + further)), df + further
            of_change = sd * numpy.sqrt(error + error_of_mean(levels.phi, levels.n[rows]))
            p = stdtr(df, change / of_change)
            low = change / 2 if size > 1 else change
            lows = (recent[rows, -size:] - levels.own[rows, None] <= low[:, None]).sum(axis=1)
            p = numpy.maximum(p, bdtrc(lows - 1, size, levels.share_below(low / sd))) / share
            slow = p < best[rows]
            best[rows[slow]], loss[rows[slow]], window[rows[slow]] = p[slow], change[slow], size
            half[rows[slow]] = (of_change * stdtrit(df, 0.975))[slow]
        return loss, window, half

    def _new(self, new: ndarray, sessions: ndarray) -> Iterator[Flag]:
        """Yield the `new` nodes that are below their own few sessions, below the other nodes or the recorded limit."""
        now = self.table.performance[:, -1]
        apart = now - spread.median(now)
        p = self.p / 2  # for each of two comparisons
        beside = spread.bound_of(apart[numpy.isfinite(apart)], p, self.table.tolerance)
        moved = self.left[:, -1] / numpy.sqrt(1 + 1 / numpy.maximum(sessions, 1))
        moved[sessions == 0] = numpy.nan
        known = moved[numpy.isfinite(moved)]
        bound = max(spread.bound_of(known, p, None), self.floor) if len(known) >= FEWEST_NODES else math.inf
        half, half_moved = (
            _half(apart[numpy.isfinite(apart)]),
            _half(known) * numpy.sqrt(1 + 1 / numpy.maximum(sessions, 1)),
        )
        is_well = self.recorded is not None and spread.median(now) >= self.recorded[0] - self.floor
        for i in numpy.flatnonzero(new).tolist():
            if moved[i] < -bound:
                how = f'its own {count(int(sessions[i]), "session")} and the fleet of {self.there}'
                yield self._flag(i, self.left[i, -1], how, half_moved[i])
            elif apart[i] < -beside:
                yield self._flag(i, apart[i], f'the fleet of {self.there} in this session', half)
            elif self.recorded is not None and is_well and now[i] < self.recorded[1] and apart[i] < -self.floor:
                yield self._flag(i, apart[i], 'the limit against the recorded baseline', half)

    def whole(self) -> _Whole | None:
        """Return the loss of the whole fleet against its accepted sessions or the recorded baseline.

        None without either.
        """

        def whole(loss: float, how: str, p: float) -> _Whole:
            """Return the flag of the fleet, with tolerance and p."""
            return Flag(self.table.series, self.table.quantity, WHOLE, loss, how), self.table.tolerance, p

        accepted = (self.accepted.sum(axis=0) > 0) & numpy.isfinite(self.levels)
        accepted &= ~spread.after_fall(self.levels[None], accepted[None], self.floor)[0]
        past, last = self.levels[accepted], self.levels[-1]
        if len(past) >= spread.FEWEST_SESSIONS and numpy.isfinite(last):
            loss = last - past.mean()
            sd = max(past.std(ddof=1), 1e-6) * math.sqrt(1 + 1 / len(past))
            p = chance(numpy.array(-loss / sd), numpy.array(len(past) - 1))
            return whole(float(loss), f'the {len(past)} sessions before', float(p))
        middle = spread.median(self.table.performance[:, -1])
        if self.recorded and middle < self.recorded[1]:
            return whole(float(middle - self.recorded[0]), 'the recorded baseline', 0.0)
        return None


def _half(values: ndarray) -> float:
    """Return half of the 95 % interval of one value around the median of all; NaN with too few values."""
    from scipy.special import stdtrit

    if len(values) < FEWEST_NODES:
        return math.nan
    scale, df = spread.scale_of(values)
    return scale * float(stdtrit(df, 0.975)) or math.nan


# Siblings: the equal parts of a node


@dataclass(frozen=True, eq=False)
class Family:
    """One quantity of the equal parts of nodes in the last session; `performance`: one row a node, one column a part.

    `names`: of the parts, such as ``device 3``.
    """

    parts: list[NodeTable]
    names: list[str]
    nodes: list[str]
    performance: ndarray


def siblings(measured: Iterable[NodeTable]) -> Iterator[Family]:
    """Yield the series that measure equal parts of a node (see `PARTS`): they differ only in the name of the part."""
    groups: dict[tuple[Any, ...], dict[str, NodeTable]] = defaultdict(dict)
    for table in measured:
        series = table.series
        linked = any(name == LINK_CLASS for name, _ in series.params)
        for name, value in (*series.params, *series.dims):
            if name in PARTS or (name == PAIR and linked):
                alike = value.rstrip('0123456789') if name in PARTS else ''
                rest = replace(series, params=_without_name(series.params, name), dims=_without_name(series.dims, name))
                if alike != value:  # the name has a number
                    groups[rest, table.quantity, name, alike][value] = table
                break
    for (_, _, name, _), members in groups.items():
        if len(members) < 2:
            continue
        nodes = sorted({node for table in members.values() for node in table.nodes})
        rows = {node: row for row, node in enumerate(nodes)}
        performance = numpy.full((len(nodes), len(members)), numpy.nan)
        for column, table in enumerate(members.values()):
            performance[[rows[node] for node in table.nodes], column] = table.performance[:, -1]
        yield Family(list(members.values()), [f'{name} {value}' for value in members], nodes, performance)


def _without_name(pairs: Pairs, name: str) -> Pairs:
    """Return the pairs without the one called `name`."""
    return tuple(pair for pair in pairs if pair[0] != name)


def _beyond_siblings(family: Family, p: float) -> Iterator[Flag]:
    """Yield the parts that are below the other parts of their node by more than parts usually differ in all nodes."""
    performance, tolerance = family.performance, family.parts[0].tolerance
    others = [spread.median(numpy.delete(performance, column, axis=1), axis=1) for column in range(len(family.parts))]
    apart = performance - numpy.stack(others, axis=1)
    if len(family.nodes) >= FEWEST_NODES:
        apart = apart - spread.median(apart, axis=0)  # the first device may be slower in every node
    measured = numpy.isfinite(apart)
    # with two or three parts, one slow part would determine the spread
    several = apart[measured] if measured.sum() >= FEWEST_NODES else numpy.zeros(1)
    bound, half = spread.bound_of(several, p, tolerance), _half(several)
    for row, column in zip(*numpy.nonzero(apart < -bound), strict=True):
        part, how = family.parts[column], f'the other {measured[row].sum() - 1} of its node'
        yield Flag(
            part.series, part.quantity, family.nodes[row], float(apart[row, column]), how, part=family.names[column],
            error=half,
        )  # fmt: skip


# The whole system

_Whole = tuple[Flag, Tolerance, float]  # a loss, its tolerance, and the chance of such a loss in a healthy system


def _systems(wholes: list[_Whole]) -> list[Flag]:
    """Return the losses of at least the floor that are significant, adjusted for the number of series."""
    if not wholes:
        return []
    rates = false_discovery_rates(numpy.array([p for *_, p in wholes]))
    return [
        flag
        for (flag, tolerance, _), rate in zip(wholes, rates, strict=True)
        if rate <= FALSE_SYSTEMS and flag.loss <= math.log1p(-tolerance.floor)
    ]

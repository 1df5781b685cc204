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
from postprocess.verdicts.stats import OUTLYING, chance, false_discovery_rates, moderate

FEWEST_NODES = 4  # that are compared with each other
FEWEST_SESSIONS = 4  # accepted ones of a node that tell its own level and spread
ACCEPTED = 20  # first sessions of a node whose level is what it should keep
FALSE_NODES = 0.04  # expected nodes flagged in a session of healthy nodes
FALSE_SYSTEMS = 0.05  # share of the series flagged for the whole system that are false
FEW, LARGE = 16, 0.15  # values that say so little of their spread that only such a loss counts
WHOLE = '*'  # in place of a node: the whole fleet
#: Last sessions whose mean is compared with the accepted level, and the share of the false nodes that each may cause:
#: one session finds what is large, several find what is small and lasts.
WINDOWS = {1: 0.25, 2: 0.15, 4: 0.5, 7: 0.1}
#: Dims and params that name one of several like parts of a node. Values are alike that differ only in their number:
#: ``socket0`` and ``socket1``. Pairs of GPUs are alike within a link class.
PARTS = ('device', 'domain', 'layout')
PAIR, LINK_CLASS = 'pair', 'link_class'
_MAD_OF_NORMAL = 0.67449
_FALL = 0.001  # chance of a fall among the accepted sessions of a node that did not fall
_HEAVY = 0.15  # least weight of the tails, as 1 / df: so few values cannot show that there is none
# Ratio of the 95 % to the 75 % quantile of Student's t by 1 / df: how heavy the tails of a distribution are
_TAILS = ((2.44, 0.0), (2.60, 0.1), (2.77, 0.2), (3.08, 0.333), (3.58, 0.5), (6.31, 1.0))


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

    `node`: its name, several of one job joined by commas, or `WHOLE`. `loss`: of performance, logarithm, below 0, the
    mean over the last so many `sessions`. `how`: what it was compared with. `part`: of the node, such as ``device 3``.
    """

    series: SeriesId
    quantity: Quantity
    node: str
    loss: float
    how: str
    sessions: int = 1
    part: str = ''


#: Return the performance that the baseline of a series expects, and that at its limit; None without a baseline.
Recorded = Callable[[NodeTable], tuple[float, float] | None]


def tables(histories: Iterable[History], nodes: Sequence[str], sessions: int) -> list[NodeTable]:
    """Return a table of so many sessions for each history; its nodes are places in `nodes`."""
    found = []
    for history in histories:
        there = numpy.zeros(len(nodes), bool)  # much faster than numpy.unique
        there[history.nodes] = True
        own, rows = numpy.flatnonzero(there).tolist(), (there.cumsum() - 1)[history.nodes]
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
    accepted: Collection[int] = (),
) -> tuple[list[Flag], list[Flag]]:
    """Return the nodes that stand out in the last session, and the series in which the whole fleet does.

    The level that a node should keep is that of its accepted sessions: those of the baseline (columns in `accepted`)
    where it ran in enough of them, else its first ones, up to a fall. A session in which it was `flagged` (node and
    column) is none. So a node that stays slow stays flagged, with or without those flags.
    """
    large = [table for table in found if numpy.isfinite(table.performance[:, -1]).sum() >= FEWEST_NODES]
    families = list(siblings(found))
    tests = sum(len(table.nodes) for table in large) + sum(family.performance.size for family in families)
    p = FALSE_NODES / max(tests, 1)
    flags: list[Flag] = []
    whole: list[_Whole | None] = []
    for table in large:
        fleet = _Fleet(table, p, recorded(table), _cells(table, flagged), accepted)
        own = list(fleet.flags())
        if len(own) > fleet.there / 2:  # all of them together are no one node's
            own = [replace(own[0], node=WHOLE, loss=float(numpy.median([flag.loss for flag in own])))]
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
    """The nodes of one series in the last session, each beside its accepted level and the others.

    `accepted`: which values tell the level of their node. `left`: performance without the node's level and that of the
    fleet in each session; NaN for a node without a level. `levels`: of the fleet, a session each.
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
        reviewed = (usable & columns).sum(axis=1) >= FEWEST_SESSIONS
        self.accepted[reviewed] = (usable & columns)[reviewed]
        self.left, self.own, self.levels = two_way(table.performance, self.accepted)
        self.accepted &= ~_after_fall(self.left, self.accepted, self.floor)
        self._reject_unlike(~reviewed)
        # a run that was slow by chance says how often that happens, and nothing of the level and spread
        past = _until_last(self.accepted)
        apart = numpy.where(self.accepted[:, past], abs(self.left[:, past]), numpy.nan)
        self.steady = self.accepted.copy()
        self.steady[:, past] &= apart <= OUTLYING / _MAD_OF_NORMAL * _median(apart, axis=1)[:, None]

    def _reject_unlike(self, nodes: ndarray) -> None:
        """Let those of `nodes` without a level of their own whose level is far below that of the others."""
        known = numpy.isfinite(self.own)
        if known.sum() >= FEWEST_NODES:
            apart = self.own - numpy.median(self.own[known])
            self.accepted[nodes & known & (apart < -_bound(apart[known], self.p, self.table.tolerance))] = False

    def flags(self) -> Iterator[Flag]:
        """Yield the nodes below their own level; those of few accepted sessions also if below the others."""
        sessions = self.accepted.sum(axis=1)
        loss, window = self._below_own(sessions)
        for i in numpy.flatnonzero(window).tolist():
            how = f'its own {count(int(sessions[i]), "session")} and the fleet of {self.there}'
            over = f', over {count(int(window[i]), "session")}' if window[i] > 1 else ''
            yield self._flag(i, loss[i], how + over, int(window[i]))
        new = self.finite[:, -1] & (sessions < FEWEST_SESSIONS) & (window == 0)
        if new.any():
            yield from self._new(new, sessions)

    def _flag(self, i: int, loss: float, how: str, sessions: int = 1) -> Flag:
        return Flag(self.table.series, self.table.quantity, self.table.nodes[i], float(loss), how, sessions)

    def _below_own(self, sessions: ndarray) -> tuple[ndarray, ndarray]:
        """Return the loss of each node against its accepted level, and over how many sessions: 0 where it is none.

        Student's t of the mean of the last sessions, with the node's own spread, moderated over the nodes, and the
        correlation of neighboring sessions. p is at least that of as many runs that are slow by chance, as the accepted
        sessions of all nodes show them. The last session itself must show half of the floor.
        """
        from scipy.special import bdtrc, stdtr

        loss, window = numpy.zeros(len(sessions)), numpy.zeros(len(sessions), int)
        last = numpy.arange(self.finite.shape[1])[-max(WINDOWS) :][None].repeat(len(sessions), axis=0)
        if not self.finite[:, last[0]].all():  # those in which a node ran
            last = numpy.argsort(self.finite, axis=1, kind='stable')[:, -max(WINDOWS) :]
        recent = numpy.take_along_axis(self.left, last, axis=1)
        judged = self.finite[:, -1] & (sessions >= FEWEST_SESSIONS)
        best = numpy.full(len(sessions), self.p)
        levels = None
        for size, share in WINDOWS.items():
            before = self.steady
            if numpy.take_along_axis(self.steady, last[:, -size:], axis=1).any():
                before = self.steady.copy()
                numpy.put_along_axis(before, last[:, -size:], False, axis=1)
            if levels is None or before is not self.steady:
                levels = _Levels(self.left, self.accepted, before, self.floor)
            means = recent[:, -size:].mean(axis=1)  # NaN of fewer sessions
            change = means - levels.own
            of = numpy.flatnonzero(judged & (change < -self.floor) & (recent[:, -1] - levels.own < -self.floor / 2))
            of = of[levels.n[of] >= FEWEST_SESSIONS]
            if not len(of):
                continue
            change, sd, df = change[of], levels.sd[of], levels.df[of]
            if size > 1:  # the last sessions tell of the spread, too
                further = size * (1 - levels.of_mean[size])
                squares = recent[of, -size:].var(axis=1) * size
                sd, df = numpy.sqrt((df * sd**2 + squares) / (df + further)), df + further
            p = stdtr(df, change / (sd * numpy.sqrt(levels.of_mean[size] + levels.of_mean[levels.n[of]])))
            low = change / 2 if size > 1 else change
            lows = (recent[of, -size:] - levels.own[of, None] <= low[:, None]).sum(axis=1)
            p = numpy.maximum(p, bdtrc(lows - 1, size, levels.share_below(low / sd))) / share
            slow = p < best[of]
            best[of[slow]], loss[of[slow]], window[of[slow]] = p[slow], change[slow], size
        return loss, window

    def _new(self, new: ndarray, sessions: ndarray) -> Iterator[Flag]:
        """Yield those of the `new` nodes that are below their few sessions, the other nodes or the recorded limit."""
        now = self.table.performance[:, -1]
        apart = now - _median(now)
        p = self.p / 2  # of two comparisons
        beside = _bound(apart[numpy.isfinite(apart)], p, self.table.tolerance)
        moved = self.left[:, -1] / numpy.sqrt(1 + 1 / numpy.maximum(sessions, 1))
        moved[sessions == 0] = numpy.nan
        known = moved[numpy.isfinite(moved)]
        bound = max(_bound(known, p, None), self.floor) if len(known) >= FEWEST_NODES else math.inf
        is_well = self.recorded is not None and _median(now) >= self.recorded[0] - self.floor
        for i in numpy.flatnonzero(new).tolist():
            if moved[i] < -bound:
                how = f'its own {count(int(sessions[i]), "session")} and the fleet of {self.there}'
                yield self._flag(i, self.left[i, -1], how)
            elif apart[i] < -beside:
                yield self._flag(i, apart[i], f'the fleet of {self.there} in this session')
            elif self.recorded is not None and is_well and now[i] < self.recorded[1] and apart[i] < -self.floor:
                yield self._flag(i, apart[i], 'the limit against the recorded baseline')

    def whole(self) -> _Whole | None:
        """Return the loss of the fleet's level against its accepted sessions or the recorded baseline."""

        def whole(loss: float, how: str, p: float) -> _Whole:
            return Flag(self.table.series, self.table.quantity, WHOLE, loss, how), self.table.tolerance, p

        accepted = (self.accepted.sum(axis=0) > 0) & numpy.isfinite(self.levels)
        accepted &= ~_after_fall(self.levels[None], accepted[None], self.floor)[0]
        past, last = self.levels[accepted], self.levels[-1]
        if len(past) >= FEWEST_SESSIONS and numpy.isfinite(last):
            loss = last - past.mean()
            sd = max(past.std(ddof=1), 1e-6) * math.sqrt(1 + 1 / len(past))
            p = chance(numpy.array(-loss / sd), numpy.array(len(past) - 1))
            return whole(float(loss), f'the {len(past)} sessions before', float(p))
        middle = _median(self.table.performance[:, -1])
        if self.recorded and middle < self.recorded[1]:
            return whole(float(middle - self.recorded[0]), 'the recorded baseline', 0.0)
        return None


class _Levels:
    """The own level of each node, the spread `sd` of its runs with `df` degrees of freedom, from `n` steady sessions.

    `of_mean`: variance of the mean of so many neighboring sessions, in variances of one.
    """

    def __init__(self, left: ndarray, accepted: ndarray, steady: ndarray, floor: float):
        past = _until_last(accepted)
        left, accepted, steady = left[:, past], accepted[:, past], steady[:, past]
        self.n = steady.sum(axis=1)
        with numpy.errstate(invalid='ignore'):
            self.own = numpy.where(steady, left, 0.0).sum(axis=1) / self.n
        rest = left - self.own[:, None]
        squares = numpy.where(steady, rest, 0.0)
        enough = self.n >= FEWEST_SESSIONS
        like = _likeness(squares[enough], self.n[enough]) if enough.any() else 0.0
        self.of_mean = _variance_of_mean(like, max(int(self.n.max(initial=0)), *WINDOWS))
        self.sd, self.df = numpy.full(len(left), numpy.nan), numpy.full(len(left), numpy.nan)
        n = self.n[enough]
        variances = (squares[enough] ** 2).sum(axis=1) / (n * (1 - self.of_mean[n]))
        variances = numpy.maximum(variances, (floor / 20) ** 2)
        variances, self.df[enough] = moderate(variances, (n - 1.0) * (1 - like**2) / (1 + like**2))
        self.sd[enough] = numpy.sqrt(variances)
        with numpy.errstate(invalid='ignore'):
            self._below = numpy.sort((rest / self.sd[:, None])[accepted & enough[:, None]])

    def share_below(self, deviations: ndarray) -> ndarray:
        """Return the share of all accepted values, in spreads of their nodes, that are below each of `deviations`."""
        return numpy.searchsorted(self._below, deviations) / max(len(self._below), 1)


def two_way(performance: ndarray, accepted: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return what is left without each node's own level and the fleet's level of each session, and both levels.

    `accepted`: the values that a node's level is the median of; without any, the rest of its row is NaN. Where some
    nodes have enough of them, the fleet's levels come from those first: a node cannot tell its own level from that of
    its only session.
    """
    columns = _until_last(accepted)
    chosen, past = accepted[:, columns], performance[:, columns]
    own = _median(numpy.where(chosen, past, numpy.nan), axis=1)
    few = chosen.sum(axis=1) < FEWEST_SESSIONS
    if not few.all():
        own[few] = numpy.nan
    fleet = _median(past - own[:, None], axis=0)
    own = _median(numpy.where(chosen, past - fleet, numpy.nan), axis=1)  # again: it may have been away
    apart = performance - own[:, None]
    fleet = _median(apart, axis=0)
    return apart - fleet, own, fleet


def _after_fall(left: ndarray, accepted: ndarray, floor: float) -> ndarray:
    """Return True for the values of each row after its mean fell by at least `floor`: no level to keep.

    The fall is where Student's t between the accepted values before and after it is largest.
    """
    from scipy.special import stdtrit

    found = numpy.zeros(left.shape, bool)
    past = _until_last(accepted)
    if past.stop < FEWEST_SESSIONS + 2:
        return found
    accepted = accepted[:, past]
    values = numpy.where(accepted, left[:, past], 0.0)
    n, total = accepted.cumsum(axis=1), values.cumsum(axis=1)
    possible = accepted & (n >= FEWEST_SESSIONS) & (n <= n[:, -1:] - 2)
    with numpy.errstate(divide='ignore', invalid='ignore'):
        fall = total / n - (total[:, -1:] - total) / (n[:, -1:] - n)
    possible &= fall >= floor
    rows = numpy.flatnonzero(possible.any(axis=1))
    if not len(rows):
        return found
    values, n, total, fall, possible = values[rows], n[rows], total[rows], fall[rows], possible[rows]
    every, after = n[:, -1:], n[:, -1:] - n
    with numpy.errstate(divide='ignore', invalid='ignore'):
        squares = (values**2).sum(axis=1, keepdims=True) - total**2 / n - (total[:, -1:] - total) ** 2 / after
        within = squares / (every - 2) + (floor / 20) ** 2
        t = numpy.where(possible, fall / numpy.sqrt(within * (1 / n + 1 / after)), -numpy.inf)
    fell = t.max(axis=1) > -stdtrit(every[:, 0] - 2, _FALL)
    place = t.argmax(axis=1)
    found[rows] = (numpy.arange(left.shape[1]) > place[:, None]) & fell[:, None]
    return found


def _until_last(accepted: ndarray) -> slice:
    """Return the columns up to the last one with an accepted value."""
    columns = numpy.flatnonzero(accepted.any(axis=0))
    return slice(0, int(columns[-1]) + 1 if len(columns) else 0)


def _likeness(rest: ndarray, n: ndarray) -> float:
    """Return the correlation of neighboring sessions of a node from those of all, corrected for their own levels."""
    squares = (rest**2).sum()
    lost = len(n) / n.sum()
    r = (rest[:, 1:] * rest[:, :-1]).sum() / squares if squares else 0.0
    r = (r + lost) / (1 - 3 * lost) if lost < 0.2 else r + lost
    return float(min(max(r - 2 / math.sqrt(n.sum()), 0.0), 0.9))


def _variance_of_mean(like: float, most: int) -> ndarray:
    """Return the variance of the mean of 0, 1, ... neighboring values, in variances of one: an AR(1) process."""
    apart = numpy.arange(1, most + 1)
    sums = [1 + 2 * ((1 - apart[: n - 1] / n) * like ** apart[: n - 1]).sum() for n in apart]
    return numpy.array([numpy.nan, *sums]) / numpy.array([1, *apart])


def _bound(values: ndarray, p: float, tolerance: Tolerance | None) -> float:
    """Return the distance below the median of `values` that a healthy one exceeds with chance `p`.

    Their spread is the median absolute deviation, as uncertain as the standard deviation of 0.37 n. How heavy the tails
    are comes from the better half: the worse one holds the slow nodes. With a tolerance, at least its floor; of few
    values `LARGE`.
    """
    from scipy.special import stdtrit

    n = len(values)
    apart = values - numpy.median(values)
    scale = float(numpy.median(abs(apart))) / _MAD_OF_NORMAL
    df = max(0.37 * n - 1, 1)
    if n >= FEW and scale > 0:
        near, far = numpy.quantile(apart[apart >= 0], [0.5, 0.9])
        ratios, inverse = zip(*_TAILS, strict=True)
        heavy = float(numpy.interp(far / near, ratios, inverse)) if near > 0 else 1.0
        df = max(1 / (1 / df + max(heavy, _HEAVY)), 1)
        scale *= _MAD_OF_NORMAL / float(stdtrit(df, 0.75))
    least = -math.log1p(-max(tolerance.floor, LARGE if n < FEW else 0.0)) if tolerance else 0.0
    return max(-float(stdtrit(df, p)) * scale, least)


def _median(values: ndarray, axis: int = 0) -> ndarray:
    """Return the median of the finite values; NaN where there is none."""
    if not values.shape[axis]:
        return numpy.full(numpy.delete(values.shape, axis), numpy.nan)
    if axis == 0 and numpy.isfinite(values).all():
        return numpy.median(values, axis=0)  # faster than to sort long columns
    ordered = numpy.sort(values, axis=axis)  # puts NaN last
    n = numpy.expand_dims(numpy.isfinite(values).sum(axis=axis), axis)
    low, high = (numpy.take_along_axis(ordered, numpy.maximum(place, 0), axis) for place in ((n - 1) // 2, n // 2))
    low, high = low.squeeze(axis), numpy.where(n.squeeze(axis) > 0, high.squeeze(axis), numpy.nan)
    return (low + high) / 2


# Siblings: the like parts of a node


@dataclass(frozen=True, eq=False)
class Family:
    """One quantity of the like parts of a node in the last session: a row a node, a column a part.

    `names` of the parts, such as ``device 3``.
    """

    parts: list[NodeTable]
    names: list[str]
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
    return tuple(pair for pair in pairs if pair[0] != name)


def _beyond_siblings(family: Family, p: float) -> Iterator[Flag]:
    """Yield the parts below the others of their node, further than such parts differ in all nodes together."""
    performance, tolerance = family.performance, family.parts[0].tolerance
    others = [_median(numpy.delete(performance, column, axis=1), axis=1) for column in range(len(family.parts))]
    apart = performance - numpy.stack(others, axis=1)
    if len(family.nodes) >= FEWEST_NODES:
        apart = apart - _median(apart, axis=0)  # the first device may be slower in every node
    measured = numpy.isfinite(apart)
    # of two or three, one that is slow makes up the spread
    several = apart[measured] if measured.sum() >= FEWEST_NODES else numpy.zeros(1)
    bound = _bound(several, p, tolerance)
    for row, column in zip(*numpy.nonzero(apart < -bound), strict=True):
        part, how = family.parts[column], f'the other {measured[row].sum() - 1} of its node'
        yield Flag(
            part.series, part.quantity, family.nodes[row], float(apart[row, column]), how, part=family.names[column]
        )


# The whole system

_Whole = tuple[Flag, Tolerance, float]  # of a loss, and the chance of one as large in a healthy system


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

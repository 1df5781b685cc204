"""Since when a metric is another one: steps and slow drift in its nightly history, and what changed at that time."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view

from plumbline.paths import SITES
from postprocess.history.series import Metric, Policy, Series, by_night, changed, facts, facts_of
from postprocess.results.store import Session, Store
from postprocess.text import count

SHORTEST = 5  # nights of a segment: a step is seen on the fifth night
_WEEK = 7  # nights whose median is one point of the drift test: nights that follow each other are not independent
_WEEKS = 8  # fewest points of a drift test
_DRIFT_CHANCE = 0.0005
_RUNNING = 20  # nights on either side of a running median
_EVERY = 5  # nights for which one running median is taken
_AROUND = 3  # nights before and after a step whose provenance is compared
_SERIES_AT_ONCE = 128  # as many as the processor's cache holds
_LEVELS = 128
_MAD_OF_NORMAL = 0.67449


@dataclass(frozen=True)
class Change:
    """A metric that changed. `kind`: ``step`` or ``drift``; `change`: of the performance in %, below 0 for the worse.

    A step is between the nights `before` and `night`, and from its level `was` to `became` (in the unit of the metric);
    a drift began at `before`, at the latest, and lasts. `with_it`: what changed in the provenance at the step.
    """

    kind: str
    metric: Metric
    before: Session
    night: Session
    was: float
    became: float
    change: float
    nights: int
    with_it: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trend:
    """What changed at a site between its sessions, the worst first, and what could not be looked at and why."""

    site: str
    sessions: list[Session]
    looked_at: int
    changes: list[Change]
    left_out: list[str]

    def recent(self, days: int) -> list[Change]:
        """What became worse in the last days, or still becomes worse."""
        since = self.sessions[-1].started - timedelta(days=days)
        return [c for c in self.changes if c.change < 0 and (c.kind == 'drift' or c.night.started > since)]


def trend(store: Store, sessions: Sequence[Session], root: Path = SITES, series: list[Series] | None = None) -> Trend:
    """The changes in the history of a site; `series`: what :func:`by_night` says of it, where that is known already.

    Raises InputError where the store cannot be read.
    """
    sessions = list(sessions)
    policy = Policy.of(sessions[-1].site, root)
    series, left_out = _one_unit(by_night(store, sessions) if series is None else series)
    short = [one for one in series if len(one.nights) < 2 * SHORTEST]
    if short:
        left_out.append(f'{count(len(short), "metric")} with fewer than {2 * SHORTEST} nights, such as {short[0].of}')
    long = [one for one in series if len(one.nights) >= 2 * SHORTEST]
    floors = [policy.tolerance(one.of).floor for one in long]
    found = []
    for one, ends, floor in zip(long, steps([one.performance for one in long], floors), floors, strict=True):
        found += _changes(one, ends, floor, sessions)
    found = _with_facts(store, sessions, found)
    return Trend(sessions[-1].site, sessions, len(long), sorted(found, key=lambda change: change.change), left_out)


def steps(series: Sequence[ndarray], floors: Sequence[float]) -> list[list[int]]:
    """Where each series steps from one level to another: the places of the first values of the new levels.

    `series` are logarithms of nightly values, of any lengths. The levels minimise the sum of absolute deviations plus
    (ln n)^1.5 for each step, in units of the noise (what PELT finds with an L1 cost; Killick et al., JASA 107 (2012)
    1590), none is shorter than 5 nights, and steps of a loss or gain below the floor, a share, do not count.
    """
    found: list[list[int]] = [[] for _ in series]
    lengths = defaultdict(list)
    for i, values in enumerate(series):
        if len(values) >= 2 * SHORTEST:
            lengths[len(values)].append(i)
    for n, places in lengths.items():
        for first in range(0, len(places), _SERIES_AT_ONCE):
            chosen = places[first : first + _SERIES_AT_ONCE]
            values = numpy.stack([series[i] for i in chosen])
            least = numpy.array([-math.log1p(-floors[i]) for i in chosen])
            # without noise, such as of a constant, a step below the floor would cost as much as one above it
            scale = numpy.maximum(noise(values), least / 20)
            for i, row, ends, floor in zip(
                chosen, values, levels(values / scale[:, None], math.log(n) ** 1.5), least, strict=True
            ):
                found[i] = _at_least(row, ends, floor)
    return found


def noise(values: ndarray) -> ndarray:
    """Standard deviation of each row about its level, from the median of its absolute first differences.

    That sees no steps. It sees too little of a noise that lasts for more than a night: where r, the correlation of
    neighbours about their running median, is beyond its own uncertainty, the noise of many nights together is larger by
    sqrt(1 + r) / (1 - r), as in an AR(1) process.
    """
    differences = numpy.median(abs(numpy.diff(values)), axis=1) / _MAD_OF_NORMAL / math.sqrt(2)
    rest = values - _running_medians(values)
    rest = numpy.clip(rest, -5 * differences[:, None], 5 * differences[:, None])  # one bad night is no correlation
    variance = (rest**2).sum(axis=1)
    r = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / numpy.where(variance > 0, variance, 1)
    r = numpy.clip(r - 1.4 / math.sqrt(values.shape[1]), 0, 0.9)
    return differences * numpy.sqrt(1 + r) / (1 - r)


def _running_medians(values: ndarray) -> ndarray:
    """That of the nights around every few, for them all; beyond its ends a row goes on as its mirror image."""
    n = values.shape[1]
    padded = numpy.pad(values, ((0, 0), (_RUNNING, _RUNNING)), mode='symmetric')
    centres = numpy.minimum(numpy.arange(_EVERY // 2, n + _EVERY // 2, _EVERY), n - 1)
    windows = sliding_window_view(padded, 2 * _RUNNING + 1, axis=1)[:, centres]
    medians = numpy.partition(windows, _RUNNING, axis=2)[:, :, _RUNNING]
    return numpy.repeat(medians, _EVERY, axis=1)[:, :n]


def levels(scaled: ndarray, penalty: float) -> list[list[int]]:
    """The segments of each row whose absolute deviations from their medians plus `penalty` a step are the least.

    Returns the places where segments after the first begin. Dynamic programming over the levels that a segment can
    have, which are the values of its row (of a long one 128 of them, evenly by rank): ``best[j]`` is the least cost of
    the first j values, ``running[q]`` that of the first j when the last segment is at level q. All rows are computed
    side by side. ruptures' Pelt(model="l1", min_size=5, jump=1) finds the same in a second for a series of a year, too
    long for thousands of them.
    """
    rows, n = scaled.shape
    scaled = scaled.astype(numpy.float32)
    places = numpy.unique(numpy.linspace(0, n - 1, min(n, _LEVELS)).round().astype(int))
    level = numpy.sort(scaled, axis=1)[:, places]
    running = numpy.full(level.shape, numpy.inf, numpy.float32)
    begins = numpy.zeros(level.shape, numpy.int32)
    last_few: deque[ndarray] = deque()
    together = numpy.zeros(level.shape, numpy.float32)  # the sum of the last few
    best = numpy.full((rows, n + 1), numpy.inf, numpy.float32)
    best[:, 0] = -penalty  # the first segment is no step
    came_from = numpy.zeros((rows, n + 1), numpy.int32)
    each = numpy.arange(rows)
    for j in range(1, n + 1):
        away = last_few.popleft() if len(last_few) == SHORTEST else numpy.empty_like(level)
        if len(last_few) == SHORTEST - 1 and j > SHORTEST:
            together -= away
        numpy.subtract(scaled[:, j - 1, None], level, out=away)
        numpy.abs(away, out=away)
        last_few.append(away)
        together += away
        running += away
        if j < SHORTEST:
            continue
        fresh = together + (best[:, j - SHORTEST, None] + penalty)
        better = fresh < running
        numpy.copyto(running, fresh, where=better)
        numpy.copyto(begins, j - SHORTEST, where=better)
        least = running.argmin(axis=1)
        best[:, j] = running[each, least]
        came_from[:, j] = begins[each, least]
    return [list(_trace(row)) for row in came_from.tolist()]


def _trace(came_from: list[int]) -> list[int]:
    ends, j = [], came_from[-1]
    while j:
        ends.append(j)
        j = came_from[j]
    return ends[::-1]


def _at_least(values: ndarray, ends: list[int], floor: float) -> list[int]:
    """The steps that are left when the smallest one below `floor` is taken away, until there is none."""
    ends = list(ends)
    while ends:
        sizes = [abs(after - before) for before, after in pairwise(_medians(values, ends))]
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[smallest] >= floor:
            break
        del ends[smallest]
    return ends


def _medians(values: ndarray, ends: Sequence[int]) -> list[float]:
    return [float(numpy.median(part)) for part in numpy.split(values, ends)]


def drift(values: ndarray, floor: float, ends: Sequence[int] = ()) -> float | None:
    """The change over the whole of a series, where its weekly medians fall or rise by at least `floor`.

    Their slope is that of Theil and Sen, and must differ from none at the level of 0.05 % by Kendall's tau. Where the
    series has steps at `ends`, the slope must also describe it better than those, or a step would be a drift, too.
    """
    weeks = len(values) // _WEEK
    if weeks < _WEEKS:
        return None
    weekly = numpy.sort(values[len(values) - weeks * _WEEK :].reshape(weeks, _WEEK), axis=1)[:, _WEEK // 2]
    quarter = weeks // 4
    if abs(median(weekly[-quarter:].tolist()) - median(weekly[:quarter].tolist())) < floor / 2:
        return None  # spares the test, which takes longer than all the rest
    i, j = numpy.triu_indices(weeks, 1)
    slope = numpy.median((weekly[j] - weekly[i]) / (j - i))
    change = float(slope * (weeks - 1))
    if abs(change) < floor:
        return None
    from scipy.stats import kendalltau  # takes half a second

    if kendalltau(range(weeks), weekly).pvalue >= _DRIFT_CHANCE:
        return None
    if ends:
        rest = values - slope / _WEEK * numpy.arange(len(values))
        off_line = abs(rest - numpy.median(rest)).sum()
        off_steps = sum(abs(part - numpy.median(part)).sum() for part in numpy.split(values, ends))
        further = math.log(len(values)) ** 1.5 * float(noise(values[None])[0]) * (len(ends) - 1)
        return change if off_line <= off_steps + further else None
    return change


def _one_unit(series: list[Series]) -> tuple[list[Series], list[str]]:
    """The series in the unit and direction that each metric has now; and what was left out by that."""
    latest: dict[tuple, Series] = {}
    for one in series:
        key = (one.of.partition, one.of.stack, one.of.check, one.of.case, one.of.metric)
        if key not in latest or latest[key].nights[-1] < one.nights[-1]:
            latest[key] = one
    left_out = [
        f'{one.of}: {count(len(one.nights), "night")} in {one.of.unit}, {one.of.better} is better: not so any more'
        for one in series
        if one not in latest.values()
    ]
    return list(latest.values()), left_out


def _changes(series: Series, ends: list[int], floor: float, sessions: list[Session]) -> Iterator[Change]:
    performance, least = series.performance, -math.log1p(-floor)
    change = drift(performance, least, ends)
    if change is not None:
        ends = []
    elif not ends:
        return
    medians = _medians(performance, ends)
    for place, end, (was, became) in zip(ends, [*ends, len(performance)][1:], pairwise(medians), strict=True):
        before, night = (sessions[series.nights[i]] for i in (place - 1, place))
        values = _values(series, was, became)
        yield Change('step', series.of, before, night, *values, _percent(became - was), end - place)
    last = ends[-1] if ends else 0
    change = drift(performance[last:], least) if ends else change
    if change is not None:
        values = _values(series, medians[-1] - change / 2, medians[-1] + change / 2)
        before, night = (sessions[series.nights[i]] for i in (last, -1))
        yield Change('drift', series.of, before, night, *values, _percent(change), len(performance) - last)


def _values(series: Series, *performance: float) -> tuple[float, ...]:
    return tuple(math.exp(series.of.sign * value) for value in performance)


def _percent(change: float) -> float:
    return 100 * math.expm1(change)


def _with_facts(store: Store, sessions: list[Session], changes: list[Change]) -> list[Change]:
    """The steps with what changed in the provenance of their cases."""
    sides = {}
    places = {session: i for i, session in enumerate(session.session for session in sessions)}
    for i, change in enumerate(changes):
        if change.kind == 'step':
            before, night = places[change.before.session], places[change.night.session]
            sides[i] = (
                range(max(before - _AROUND + 1, 0), before + 1),
                range(night, min(night + _AROUND, len(places))),
            )
    wanted = [(changes[i].metric, night) for i, both in sides.items() for side in both for night in side]
    found = facts(store, sessions, wanted)
    for i, both in sides.items():
        before, after = (facts_of(found, changes[i].metric, side) for side in both)
        changes[i] = replace(changes[i], with_it=tuple(changed(before, after)))
    return changes

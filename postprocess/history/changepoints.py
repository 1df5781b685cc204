"""Steps and drift in series of values: where they are, and which ones are no chance."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import numpy
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view

SHORTEST = 5  # values of a segment: a step is found at its fifth value
_WEEK = 7  # values whose median is one point of the drift test: values that follow each other are not independent
_WEEKS = 8  # fewest points of a drift test
_DRIFT_CHANCE = 0.0005
_RUNNING = 20  # values on either side of a running median
_EVERY = 5  # values for which one running median is taken
_SERIES_AT_ONCE = 128  # as many as the processor's cache holds
_LEVELS = 128
_MAD_OF_NORMAL = 0.67449


def steps(series: Sequence[ndarray], floors: Sequence[float]) -> list[list[int]]:
    """Return the steps of each series from one level to another: the places of the first values of the new levels.

    `series`: logarithms of values, of any lengths. `floors`: the smallest loss or gain of each that counts, a share.
    The levels minimize the sum of absolute deviations plus (ln n)^1.5 for each step, in units of the noise (what PELT
    finds with an L1 cost; Killick et al., JASA 107 (2012) 1590). No level is shorter than 5 values.
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
    """Return the standard deviation of each row about its level, from the median of its absolute first differences.

    Steps do not show in those, and correlated noise shows too little: where r, the correlation of neighbors about their
    running median, is beyond its own uncertainty, the noise of many values together is larger by sqrt(1 + r) / (1 - r),
    as in an AR(1) process.
    """
    differences = numpy.median(abs(numpy.diff(values)), axis=1) / _MAD_OF_NORMAL / math.sqrt(2)
    rest = values - _running_medians(values)
    rest = numpy.clip(rest, -5 * differences[:, None], 5 * differences[:, None])  # one bad value is no correlation
    variance = (rest**2).sum(axis=1)
    r = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / numpy.where(variance > 0, variance, 1)
    r = numpy.clip(r - 1.4 / math.sqrt(values.shape[1]), 0, 0.9)
    return differences * numpy.sqrt(1 + r) / (1 - r)


def _running_medians(values: ndarray) -> ndarray:
    """Return the running median over 41 values, computed for every 5th one, the ends of a row mirrored."""
    n = values.shape[1]
    padded = numpy.pad(values, ((0, 0), (_RUNNING, _RUNNING)), mode='symmetric')
    centres = numpy.minimum(numpy.arange(_EVERY // 2, n + _EVERY // 2, _EVERY), n - 1)
    windows = sliding_window_view(padded, 2 * _RUNNING + 1, axis=1)[:, centres]
    middle = numpy.partition(windows, _RUNNING, axis=2)[:, :, _RUNNING]
    return numpy.repeat(middle, _EVERY, axis=1)[:, :n]


def levels(scaled: ndarray, penalty: float) -> list[list[int]]:
    """Return the segments of each row with the least absolute deviations from their medians plus `penalty` a step.

    A segment is the place where it begins; the first one is left out. Dynamic programming over the levels that a
    segment can have, which are the values of its row (of a long one 128 of them, evenly by rank): ``best[j]`` is the
    least cost of the first j values, ``running[q]`` that of the first j when the last segment is at level q. All rows
    are computed side by side. ruptures' Pelt(model="l1", min_size=5, jump=1) finds the same in a second for a series of
    a year, too long for thousands of them.
    """
    rows, n = scaled.shape
    scaled = scaled.astype(numpy.float32)
    places = numpy.unique(numpy.linspace(0, n - 1, min(n, _LEVELS)).round().astype(int))
    level = numpy.sort(scaled, axis=1)[:, places]
    running = numpy.full(level.shape, numpy.inf, numpy.float32)
    begins = numpy.zeros(level.shape, numpy.int32)
    last_few: deque[ndarray] = deque()
    together = numpy.zeros(level.shape, numpy.float32)  # sum of the last few
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
    """Return the steps that remain after removing the smallest one below `floor` until there is none."""
    ends = list(ends)
    while ends:
        sizes = [abs(after - before) for before, after in pairwise(medians(values, ends))]
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[smallest] >= floor:
            break
        del ends[smallest]
    return ends


def medians(values: ndarray, ends: Sequence[int]) -> list[float]:
    """Return the median of each segment of `values`; the segments after the first begin at `ends`."""
    return [float(numpy.median(part)) for part in numpy.split(values, ends)]


def drift(values: ndarray, floor: float, ends: Sequence[int] = ()) -> float | None:
    """Return the change over the whole of a series whose weekly medians drift by at least `floor`; None without drift.

    `values` and `floor` are logarithms. The slope is that of Theil and Sen, and must differ from 0 at the level of
    0.05 % by Kendall's tau. Where the series has steps at `ends`, the slope must also describe it better than those: a
    step alone is no drift.
    """
    weeks = len(values) // _WEEK
    if weeks < _WEEKS:
        return None
    weekly = numpy.sort(values[len(values) - weeks * _WEEK :].reshape(weeks, _WEEK), axis=1)[:, _WEEK // 2]
    quarter = weeks // 4
    if abs(median(weekly[-quarter:].tolist()) - median(weekly[:quarter].tolist())) < floor / 2:
        return None  # without the test, which takes longer than all the rest
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

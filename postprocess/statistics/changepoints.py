# SPDX-License-Identifier: BSD-3-Clause
"""Find steps and drifts in series of values, and decide which of them are statistically significant.

Candidates for steps are the borders of the segmentation with the least cost (`levels`). A step counts if it is at least
as large as the floor of its series and if the test of its two levels, controlled over all series of the site, is
significant. All series are cut at once, 0.3 ms for each series of a year. ruptures takes about 1 s with the
same cost, and 4 ms with a Gaussian kernel, which finds 195 of 200 steps of two standard deviations for our 192.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy
from numpy import ndarray

from postprocess.statistics.baseline import error_of_mean
from postprocess.statistics.distributions import MAD_OF_NORMAL, false_discovery_rates

SHORTEST = 5  # values of a segment: a step is found at its fifth value
FALSE_STEPS = 0.007  # chance of a false step at a site without steps; at others, share of its steps that are false
FALSE_DRIFTS = 0.003  # chance of a false drift at a site without drifts
_WEEK = 7  # values whose median is one point of the drift test
_WEEKS = 8  # fewest points of a drift test
_SLOPE = 1.3  # standard error of the Theil-Sen slope / that of the least-squares slope, for normal values (simulated)
_SERIES_AT_ONCE = 128  # as many as the processor's cache holds
_LEVELS = 128  # most levels that a segment can have
_FAR = 3  # standard deviations from the level at which a value is cut


class Drift(NamedTuple):
    """A change that lasts until the last value: level `was` up to index `begin`, then a slope to level `became`."""

    begin: int
    was: float
    became: float


@dataclass(frozen=True)
class Found:
    """What changed in a series: `steps`, the indices of the first values of new levels, and the drift after them."""

    steps: list[int]
    drift: Drift | None = None


@dataclass(frozen=True)
class Control:
    """Estimates from all series of a site that the test of a change in one series uses.

    `likeness`: correlation of neighboring values. `far`: share of the values that are far from their level. `series`:
    number of series. `chance`: largest p of a step that counts, before it is divided by the places where a step could
    be.
    """

    likeness: float
    far: float
    series: int
    chance: float = 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom that one value contributes to the variance."""
        return (1 - self.likeness**2) / (1 + self.likeness**2)


def changes(
    series: Sequence[ndarray], floors: Sequence[float], control: Control | None = None
) -> tuple[list[Found], Control]:
    """Return the steps and the drift of each series of a site, and the estimates from all series that the tests used.

    `series`: logarithms of values; lengths may differ. `floors`: the smallest loss or gain of each series that counts,
    a share. `control`: the estimates from all series of the site, if `series` are only some of them. A level has at
    least 5 values.
    """
    least = [-math.log1p(-floor) for floor in floors]
    rests = [_Rest(values, ends) for values, ends in zip(series, _candidates(series, least), strict=True)]
    if control is None:
        control = _controlled(rests, least)
    all_changes = []
    for rest, floor in zip(rests, least, strict=True):
        reduced, _ = _reduced(rest, floor, control)
        all_changes.append(_with_drift(rest.values, floor, reduced.ends, control))
    return all_changes, control


# Candidates


def _candidates(series: Sequence[ndarray], least: Sequence[float]) -> list[list[int]]:
    """Return for each series the indices where a new level begins.

    The levels minimize the sum of absolute deviations plus (ln n)^1.5 for each step, in units of the noise (what PELT
    finds with an L1 cost; Killick et al., JASA 107 (2012) 1590). A series of fewer than 10 values has none.
    """
    begins: list[list[int]] = [[] for _ in series]
    lengths = defaultdict(list)
    for i, values in enumerate(series):
        if len(values) >= 2 * SHORTEST:
            lengths[len(values)].append(i)
    for n, places in lengths.items():
        for first in range(0, len(places), _SERIES_AT_ONCE):
            chosen = places[first : first + _SERIES_AT_ONCE]
            values = numpy.stack([series[i] for i in chosen])
            # without noise, as in a constant series, a step below the floor would cost as much as one above it
            scale = numpy.maximum(noise(values), numpy.array([least[i] for i in chosen]) / 20)
            for i, ends in zip(chosen, levels(values / scale[:, None], math.log(n) ** 1.5), strict=True):
                begins[i] = ends
    return begins


def noise(values: ndarray) -> ndarray:
    """Return the standard deviation of each row about its level, from the median of its absolute first differences.

    Steps change it little.
    """
    return numpy.median(abs(numpy.diff(values)), axis=1) / MAD_OF_NORMAL / math.sqrt(2)


def levels(scaled: ndarray, penalty: float) -> list[list[int]]:
    """Return the segments of each row with the least absolute deviations from their medians plus `penalty` a step.

    A segment is given by the index where it begins; the first segment is left out. Dynamic programming over the levels
    that a segment can have: the values of its row, or in a long row 128 of them, evenly by rank. ``best[j]`` is the
    least cost of the first j values; ``running[q]`` is the least cost of the first j values if the last segment is at
    level q. All rows are computed side by side. ruptures' Pelt(model="l1", min_size=5, jump=1) finds the same, but
    takes a second for a series of a year: too long for thousands of series.
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
    """Return the begins of the segments after the first, from the begin of the last segment before each place."""
    ends, j = [], came_from[-1]
    while j:
        ends.append(j)
        j = came_from[j]
    return ends[::-1]


# Tests


class _Rest:
    """The values of a series, and their deviations from its levels, which begin at `ends`.

    `means`: of the levels. `rest`: for each level, its values minus the mean, cut at `_FAR` standard deviations. `far`:
    number of values that were cut.
    """

    def __init__(self, values: ndarray, ends: Sequence[int]):
        self.values, self.ends = values, list(ends)
        self.parts = numpy.split(values, self.ends)
        middles = [float(numpy.median(part)) for part in self.parts]
        rest = [part - middle for part, middle in zip(self.parts, middles, strict=True)]
        n = max(len(values), 2)
        scale = float(numpy.median(abs(numpy.concatenate(rest)))) / MAD_OF_NORMAL * n / (n - 1.25 * len(rest))
        bound = _FAR * scale or math.inf
        self.far = sum(int((abs(part) > bound).sum()) for part in rest)
        rest = [numpy.clip(part, -bound, bound) for part in rest]
        self.means = [middle + float(part.mean()) for middle, part in zip(middles, rest, strict=True)]
        self.rest = [part - part.mean() for part in rest]

    @property
    def places(self) -> int:
        """The number of places where a step could be."""
        return max(len(self.values) - 2 * SHORTEST + 1, 1)

    @property
    def squares(self) -> float:
        """The sum of the squares of all deviations."""
        return sum(float(part @ part) for part in self.rest)


def _controlled(rests: Sequence[_Rest], least: Sequence[float]) -> Control:
    """Return the estimates from all series, with the false discovery rate of steps controlled over all series.

    The correlation of neighbors is corrected for the part that subtracting the levels takes away. p of a series is p of
    its least certain step times the number of places where a step could be (Benjamini and Hochberg over series).
    """
    long = [(rest, floor) for rest, floor in zip(rests, least, strict=True) if len(rest.values) >= 2 * SHORTEST]
    rests = [rest for rest, _ in long]
    n = sum(len(rest.values) for rest in rests)
    if not n:
        return Control(0.0, 0.0, 0)
    r = 0.0
    for rest in rests:
        if squares := rest.squares:
            r += sum(float(part[1:] @ part[:-1]) for part in rest.rest) / squares * len(rest.values) / n
    lost = sum(len(rest.rest) for rest in rests) / n
    likeness = min(max((r + lost) / (1 - 3 * lost), 0.0), 0.9)
    control = Control(likeness, (sum(rest.far for rest in rests) + 1) / (n + 1), len(rests), FALSE_STEPS)
    p = []
    for rest, floor in long:
        reduced, largest = _reduced(rest, floor, control)
        p.append(largest * reduced.places)
    all_p = numpy.array(p)
    accepted = all_p[false_discovery_rates(all_p) <= FALSE_STEPS]
    return replace(control, chance=max([FALSE_STEPS / len(rests), *accepted.tolist()]))


def _reduced(rest: _Rest, floor: float, control: Control) -> tuple[_Rest, float]:
    """Remove steps, the worst first, until each step is at least `floor` and not by chance.

    Return the rest and its largest p. The worst step is the smallest one if that is below the floor, else the one with
    the largest p. p is 1 without a step.
    """
    while rest.ends:
        sizes = [abs(after - before) for before, after in pairwise(numpy.median(part) for part in rest.parts)]
        worst = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[worst] >= floor:
            p = chances_of_steps(rest, floor, control)
            worst = max(range(len(p)), key=p.__getitem__)
            if p[worst] * rest.places <= control.chance:
                return rest, p[worst]
        rest = _Rest(rest.values, rest.ends[:worst] + rest.ends[worst + 1 :])
    return rest, 1.0


def chances_of_steps(rest: _Rest, floor: float, control: Control) -> list[float]:
    """Return p of each step: the larger of p by Student's t between its levels, and p that it is outlying sessions.

    The second p is the chance that as many values of one level lie on its side of the middle between both levels, if
    each of them is there as an outlier. So three slow sessions of five are no new level.
    """
    from scipy.special import bdtrc, stdtr  # takes a tenth of a second

    variances = error_of_mean(control.likeness, numpy.array([len(part) for part in rest.parts], float))
    freedom = sum(len(part) * (1 - of) for part, of in zip(rest.parts, variances, strict=True))
    sd = max(math.sqrt(rest.squares / freedom), floor / 20)
    df = max(freedom * control.freedom, 1)
    far = max(control.far, rest.far / len(rest.values))
    chances = []
    for i, (before, after) in enumerate(pairwise(rest.means)):
        change, middle = after - before, (before + after) / 2
        p = 2 * float(stdtr(df, -abs(change) / sd / math.sqrt(variances[i] + variances[i + 1])))
        for part, side in ((rest.parts[i], -change), (rest.parts[i + 1], change)):
            there = int((side * (part - middle) > 0).sum())
            p = max(p, float(bdtrc(there - 1, len(part), far)))
        chances.append(p)
    return chances


def medians(values: ndarray, ends: Sequence[int]) -> list[float]:
    """Return the median of each segment of `values`; the segments after the first begin at `ends`."""
    return [float(numpy.median(part)) for part in numpy.split(values, ends)]


# Drift


def _with_drift(values: ndarray, floor: float, ends: list[int], control: Control) -> Found:
    """Return the steps `ends`, or the first of them and then a drift, if a drift fits better than the later steps."""
    for n, first in enumerate([0, *ends]):
        rest, after = values[first:], [end - first for end in ends[n:]]
        if len(rest) >= 2 * SHORTEST and (after or drifts(rest, floor, control)):
            begin, line = hinge(rest)
            change = float(line[-1] - line[0])
            if abs(change) >= floor and (not after or _is_line(rest, line, after)):
                return Found(ends[:n], Drift(first + begin, float(line[0]), float(line[-1])))
    return Found(ends)


def drifts(values: ndarray, floor: float, control: Control) -> bool:
    """Return True if the weekly medians of a series without steps drift by at least `floor`.

    The slope is that of Theil and Sen; Student's t decides whether it differs from 0.
    """
    weeks = len(values) // _WEEK
    if weeks < _WEEKS:
        return False
    weekly = numpy.sort(values[len(values) - weeks * _WEEK :].reshape(weeks, _WEEK), axis=1)[:, _WEEK // 2]
    quarter = weeks // 4
    if abs(median(weekly[-quarter:].tolist()) - median(weekly[:quarter].tolist())) < floor / 2:
        return False  # without the test, which takes longer than all the rest
    i, j = numpy.triu_indices(weeks, 1)
    slope = float(numpy.median((weekly[j] - weekly[i]) / (j - i))) / _WEEK
    n = weeks * _WEEK
    if abs(slope * (n - _WEEK)) < floor:
        return False
    from scipy.special import stdtr

    rest = _Rest(values[-n:] - slope * numpy.arange(n), [])
    df = max(n * control.freedom - 2, 1)
    like = (1 + control.likeness) / (1 - control.likeness)
    error = _SLOPE * max(math.sqrt(rest.squares / n * like), floor / 20) * math.sqrt(12 / n**3)
    return bool(2 * stdtr(df, -abs(slope) / error) * control.series <= FALSE_DRIFTS)


def hinge(values: ndarray, shortest: int = 2 * SHORTEST - 1) -> tuple[int, ndarray]:
    """Return the index where a level becomes a slope, and the fitted line: least squares with distant values cut.

    The slope has at least `shortest` steps. Hudson, JASA 61 (1966) 1097.
    """
    n = len(values)
    last = numpy.arange(n - shortest)  # candidates for the last value of the level
    lasts = (n - 1 - last).astype(float)
    mean_x = lasts * (lasts + 1) / 2 / n
    squares = lasts * (lasts + 1) * (2 * lasts + 1) / 6 - n * mean_x**2
    near = values
    for _ in range(3):
        sums = near[::-1].cumsum().cumsum()[::-1]  # of x * values, x being 1 for the first value of a slope
        along = sums[last + 1] - mean_x * near.sum()
        best = int(numpy.argmax(along**2 / squares))
        slope = along[best] / squares[best]
        line = near.mean() + slope * (numpy.maximum(numpy.arange(n) - best, 0) - mean_x[best])
        rest = values - line
        bound = _FAR * float(numpy.median(abs(rest))) / MAD_OF_NORMAL or math.inf
        near = line + numpy.clip(rest, -bound, bound)
    return best + 1 if best else 0, line


def _is_line(values: ndarray, line: ndarray, ends: Sequence[int]) -> bool:
    """Return True if `line` describes the values better than levels that begin at `ends`."""
    off_line = abs(values - line).sum()
    off_steps = sum(abs(part - numpy.median(part)).sum() for part in numpy.split(values, ends))
    return bool(off_line <= off_steps + math.log(len(values)) ** 1.5 * float(noise(values[None])[0]) * (len(ends) - 1))

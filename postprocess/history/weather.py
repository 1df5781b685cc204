# SPDX-License-Identifier: BSD-3-Clause
"""Tell what a whole site lost below the floor, such as by the season, of which no series is accused."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy
from numpy import ndarray

from plumbline.identity import CaseId
from postprocess.history.series import History
from postprocess.results.store import Session
from postprocess.statistics.method import METHOD
from postprocess.verdicts.verdict import Comparison

_NIGHTS = 7  # whose mean is told
_CASES = 8  # fewest cases whose median is that of the site, as in `postprocess.statistics.night`


def below(comparison: Comparison, histories: Iterable[History], sessions: Sequence[Session]) -> str:
    """Return a sentence if a site is below its baseline by half of the floor in the mean of a week, or ''.

    From `METHOD.near` of the floor on, it is an incident. `histories`: over `sessions`, the last of which is compared.
    """
    levels = {row.id: row.reference for row in comparison.series if row.reference and row.reference.kind == 'baseline'}
    losses: dict[CaseId, list[ndarray]] = defaultdict(list)
    floors = []
    for history in histories:
        level = levels.get(history.series)
        if level and level.mean > 0 and level.quantity == history.quantity:
            own = numpy.full(len(sessions), math.nan)
            own[history.sessions] = level.quantity.sign * math.log(level.mean) - history.performance
            losses[history.series.case].append(own)
            floors.append(history.tolerance.floor)
    if len(losses) < _CASES:
        return ''
    of_cases = numpy.array([_mean(numpy.array(own)) for own in losses.values()])
    nights = numpy.flatnonzero(numpy.isfinite(of_cases).sum(axis=0) >= _CASES)
    if len(nights) < _NIGHTS or nights[-1] != len(sessions) - 1:
        return ''
    of_site = numpy.nanmedian(of_cases[:, nights], axis=0)
    means = numpy.convolve(of_site, numpy.full(_NIGHTS, 1 / _NIGHTS), mode='valid')
    floor = -math.log1p(-float(numpy.median(floors)))
    healthy = numpy.flatnonzero(means < floor / 2)
    first = int(healthy[-1]) + 1 if len(healthy) else 0
    if first == len(means) or means[-1] >= METHOD.near * floor:
        return ''
    return (
        f'the whole site was {-100 * math.expm1(-means[-1]):.1f} % below its baseline in the last {_NIGHTS} sessions, '
        f'since {sessions[nights[first]].day}: less than the floor, so it accuses no metric'
    )


def _mean(rows: ndarray) -> ndarray:
    """Return the mean of the numbers in each column; NaN for a column without any."""
    count = numpy.isfinite(rows).sum(axis=0)
    return numpy.where(count > 0, numpy.nansum(rows, axis=0) / numpy.maximum(count, 1), math.nan)

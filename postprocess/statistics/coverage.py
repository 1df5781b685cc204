# SPDX-License-Identifier: BSD-3-Clause
"""Choose looks that find the most faults within a budget: rotation first, then a cost-aware greedy cover.

`found`: array looks x faults, the chance that a look finds a fault that is there. The chance that a set of looks finds
a fault, 1 - prod(1 - found), is monotone and submodular in the set, and so is its weighted sum over faults.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy
from numpy import ndarray


def covered(found: ndarray, looks: Sequence[int]) -> ndarray:
    """Return the chance that at least one of `looks` finds each fault."""
    return 1 - numpy.prod(1 - found[list(looks)], axis=0)


def most_found(found: ndarray, weight: ndarray, cost: ndarray, budget: float, first: Sequence[int] = ()) -> list[int]:
    """Return the looks to add to those of `first`, in the order of their choice.

    `weight`: of each fault. `cost`: of each look, above 0, in the unit of `budget`. The result is the better of two:
    the lazy greedy choice by gain per cost, and the best single look. Without `first` it reaches at least (1 - 1/e) / 2
    of the best that fits into `budget` (Leskovec et al., KDD 2007). A look that gains nothing is not chosen.
    """
    start = 1 - covered(found, first)
    missed, room, chosen = start.copy(), budget, []
    alone = found @ (weight * start)
    queue = [(-gain / cost[look], look) for look, gain in enumerate(alone.tolist()) if look not in set(first)]
    heapq.heapify(queue)
    while queue:  # gains only shrink: if the present gain of a look is still the largest, it is the best
        _, look = heapq.heappop(queue)
        if cost[look] > room:
            continue
        ratio = float(found[look] @ (weight * missed)) / cost[look]
        if queue and ratio < -queue[0][0]:
            heapq.heappush(queue, (-ratio, look))
        elif ratio > 0:
            chosen.append(look)
            room -= cost[look]
            missed *= 1 - found[look]
    fits = numpy.where(cost <= budget, alone, 0.0)
    fits[list(first)] = 0.0
    best = int(numpy.argmax(fits)) if len(fits) else 0
    if len(fits) and fits[best] > weight @ (start - missed):
        return [best]
    return chosen


def due(age: ndarray, longest: float, cost: ndarray, budget: float) -> list[int]:
    """Return the looks that rotation needs tonight, the oldest first, in at most half of `budget`.

    `age`: days since each look was taken. It is due from half of `longest` on: those that were taken in one night are
    not due in one night again. The oldest may take the whole budget, so that none waits for ever.
    """
    chosen: list[int] = []
    for look in numpy.argsort(-age, kind='stable').tolist():
        if age[look] >= longest / 2 and (not chosen or cost[[*chosen, look]].sum() <= budget / 2):
            chosen.append(look)
    return chosen

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


def at_most(found: ndarray, weight: ndarray, cost: ndarray, budget: float, looks: Sequence[int]) -> float:
    """Return a bound of what any looks within `budget` find, from the gains beyond `looks` (Leskovec et al.)."""
    missed = 1 - covered(found, looks)
    gains = found @ (weight * missed)
    gains[list(looks)] = 0.0
    order = numpy.argsort(-gains / cost)
    share = numpy.clip((budget - numpy.cumsum(cost[order]) + cost[order]) / cost[order], 0, 1)
    return float(min(weight @ (1 - missed) + share @ gains[order], weight.sum()))


def due(left: ndarray, cost: ndarray, value: ndarray, budget: float) -> list[int]:
    """Return the looks that rotation needs tonight, the most urgent first, as far as `budget` suffices.

    `left`: nights until each look is due; 1 or less means tonight. Of equally urgent looks, those with more `value` per
    `cost` come first. Looks that are due tonight may take the whole budget. Other looks get the least constant rate of
    cost per night that meets all dates, and at most half of the budget.
    """
    order = numpy.lexsort((-value / cost, left))
    nights = numpy.maximum(left[order], 1)
    fits = cost[order] <= budget
    rate = float((numpy.cumsum(numpy.where(fits, cost[order], 0.0)) / nights).max(initial=0.0))
    chosen, spent = [], 0.0
    for look in order.tolist():
        room = budget if left[look] <= 1 else min(rate, budget / 2)
        if spent + cost[look] <= room:
            chosen.append(look)
            spent += cost[look]
    return chosen

# SPDX-License-Identifier: BSD-3-Clause
"""The lowest value that a healthy node may show, from its own earlier values or those of its peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from postprocess.statistics.distributions import student, upper

FALSE_DRAINS = 1e-4  # share of healthy checks that fail
FLOOR = 0.05  # smallest loss that drains: an update of kernel or firmware may cost a few percent
OWN = 50  # fewest earlier checks of a node for a comparison with itself
WIDEST = 0.2  # a metric is judged only if a loss of this size is found
PEERS = 8  # fewest other nodes for a comparison with them
_FOUND = 2.33 + 0.7  # 99 % of normal deviates are below 2.33; the best of eight looks is 0.7 above a single one


@dataclass(frozen=True)
class Lowest:
    """The limit of one metric: `level` and `limit` in its unit.

    `notices`: the smallest loss that 99 of 100 checks find. `limit` is 0 if earlier values scatter too much, for
    example on a machine with two levels.
    """

    level: float
    limit: float
    notices: float


def lowest(own: Sequence[float], peers: Sequence[Sequence[float]], series: int) -> Lowest | None:
    """Return the limit of a metric for which higher is better; None without enough values.

    `own`: one value of each earlier healthy check of this node. `peers`: the same for each other node. `series`: number
    of metrics that are judged at once. The limit is the prediction limit of a further value: level - t s sqrt(1 + 1/n)
    on the log scale, with Student's t at `FALSE_DRAINS` / `series`, and at least `FLOOR` below the level. All values
    count for s, outliers too: each is a check that was low for a while although nothing was wrong.
    """
    if len(own) >= OWN:
        logs = numpy.log(own)
        n, level, deviation = len(logs), float(numpy.median(logs)), float(logs.std(ddof=1))
    elif len(peers) >= PEERS:
        levels = numpy.array([numpy.median(numpy.log(values)) for values in peers])
        rest = numpy.concatenate([numpy.log(values) - level for values, level in zip(peers, levels, strict=True)])
        n, level = len(levels), float(numpy.median(levels))
        deviation = math.hypot(float(levels.std(ddof=1)), float(rest.std()))
    else:
        return None
    t = float(student(upper(FALSE_DRAINS / series), numpy.array(n - 1.0)))
    below = max(t * deviation * math.sqrt(1 + 1 / n), -math.log1p(-FLOOR))
    notices = -math.expm1(-below - _FOUND * deviation)
    return Lowest(math.exp(level), math.exp(level - below) if notices <= WIDEST else 0.0, notices)

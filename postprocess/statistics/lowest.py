# SPDX-License-Identifier: BSD-3-Clause
"""The lowest value that a healthy node may show: of its own earlier values, or of its peers'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from postprocess.statistics.distributions import student, upper

FALSE_DRAINS = 1e-4  # of healthy checks
FLOOR = 0.05  # smallest loss that drains: an update of kernel or firmware may cost a few percent
OWN = 50  # earlier checks of the node from which on it is compared with itself
WIDEST = 0.2  # largest loss that must be waited for; where only more is found, nothing is judged
PEERS = 8  # other nodes from which on it is compared with them
_FOUND = 2.33 + 0.7  # deviates: 99 % are below the first; the best of eight looks is above a single one by the second


@dataclass(frozen=True)
class Lowest:
    """`level` and `limit` in the unit of the metric; `notices`: the smallest loss that is found in 99 of 100 checks.

    `limit` is 0 where earlier values scatter too much, as where a machine has two levels.
    """

    level: float
    limit: float
    notices: float


def lowest(own: Sequence[float], peers: Sequence[Sequence[float]], series: int) -> Lowest | None:
    """Return the limit for a metric that is better higher, of `series` judged at once; None without enough values.

    `own`: one value of each earlier healthy check of this node; `peers`: the same of other nodes. The limit is the
    prediction limit of a further value: level - t s sqrt(1 + 1/n) on the log scale, with Student's t at
    `FALSE_DRAINS` / `series`, and at least `FLOOR` below the level. All values count for s, outliers too: each is a
    check that was low for a while although nothing was wrong.
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

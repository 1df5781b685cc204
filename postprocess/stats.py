"""Mean, standard deviation, n, minimum and maximum: computed together, so that they travel together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """Of n samples, in their unit. Without samples all but n are None; `std` (n - 1 below the line) needs two."""

    n: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


def summarize(values: Sequence[float]) -> Summary:
    """The summary of `values`; a value that is not finite makes the mean not finite."""
    import numpy  # only on the way into the store: comparing stored summaries does not pay for it

    if not values:
        return Summary(0, None, None, None, None)
    array = numpy.asarray(values, dtype=float)
    with numpy.errstate(all='ignore'):
        std = float(array.std(ddof=1)) if len(array) > 1 else None
        return Summary(len(array), float(array.mean()), std, float(array.min()), float(array.max()))


def pool(summaries: Iterable[Summary]) -> Summary:
    """The summary of all samples together, from the summaries of the groups they came in."""
    groups = [group for group in summaries if group.n]
    n = sum(group.n for group in groups)
    if not n:
        return Summary(0, None, None, None, None)
    mean = math.fsum(group.n * group.mean for group in groups) / n
    squares = math.fsum(
        (group.n - 1) * (group.std or 0.0) ** 2 + group.n * (group.mean - mean) ** 2 for group in groups
    )
    return Summary(
        n=n,
        mean=mean,
        std=math.sqrt(squares / (n - 1)) if n > 1 else None,
        min=min(group.min for group in groups),
        max=max(group.max for group in groups),
    )

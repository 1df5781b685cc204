# SPDX-License-Identifier: BSD-3-Clause
"""The loss that several series of a night, or several nights of a series, show together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

_SURE = 0.9  # chance that the errors are at most as correlated as assumed

Told = tuple[float, tuple[float, float] | None]  # a loss as a share of the performance, and its 95 % interval


def pooled(told: Sequence[Told], alike: float | None = None) -> Told:
    """Return the mean of several losses, weighted by the inverse of their variances, with its 95 % interval.

    The errors of the losses are not independent: nights share the error of the reference, series share the errors of
    the session and of its jobs. `alike`: correlation of the errors; None: the largest one that the scatter allows,
    because correlated errors scatter less than their intervals. Losses that differ by more than their intervals widen
    the interval of the mean. A loss without an interval counts only if fewer than two have one; then the mean has none.
    """
    known = [(-math.log1p(-loss), _error(of)) for loss, of in told if of and loss < 1 and max(of) < 1]
    if len(known) < 2:
        if len(told) == 1:
            return told[0]
        return sum(loss for loss, _ in told) / len(told), None
    losses, errors = numpy.array(known).T
    errors = numpy.maximum(errors, 1e-6)
    weights = errors**-2 / (errors**-2).sum()
    middle = float(weights @ losses)
    scatter = float((((losses - middle) / errors) ** 2).sum())
    if alike is None:
        from scipy.special import chdtri  # takes a tenth of a second

        alike = min(max(1 - scatter / float(chdtri(len(known) - 1, 1 - _SURE)), 0.0), 1.0)
    wider = max(scatter / (len(known) - 1), 1.0)
    own, shared = float(weights**2 @ errors**2), float(weights @ errors) ** 2
    error = math.sqrt(max(alike * shared + (1 - alike) * own, wider * own))
    return -math.expm1(-middle), (-math.expm1(2 * error - middle), -math.expm1(-2 * error - middle))


def _error(interval: tuple[float, float]) -> float:
    """Return the standard error of the logarithm of a loss from its 95 % interval."""
    low, high = interval
    return (math.log1p(-low) - math.log1p(-high)) / 4

# SPDX-License-Identifier: BSD-3-Clause
"""The columns that name a series, and shares; they are the same in every table."""

from __future__ import annotations

from dataclasses import asdict

from plumbline.identity import NONE, Quantity, SeriesId
from postprocess.views.table import Column


def _with_dims(metric: str, dims: str) -> str:
    """Return a metric with its dims, if it has any."""
    return metric if dims == NONE else f'{metric} {dims}'


#: The columns of :meth:`SeriesId.to_row`.
SERIES = (
    Column('partition', 'partition', '{}/{}'.format, beside=('environ',)),
    Column('environ'),
    Column('check', 'check', width=12, priority=1),
    Column('params', 'params', width=12, priority=1),
    Column('metric', 'metric', _with_dims, beside=('dims',), width=12, priority=1),
    Column('dims'),
)
#: The columns of :func:`of_series`: a series and its quantity.
QUANTITY = (*SERIES, Column('unit'), Column('better'))


def in_percent(share: float | None) -> float | None:
    """Return a share in %; None stays None."""
    return None if share is None else 100 * share


def interval(low: float | None, high: float | None) -> str:
    """Return an interval as text, such as ``1.5 to 2.5 %``; empty without both ends."""
    return '' if low is None or high is None else f'{low:.1f} to {high:.1f} %'


def of_series(series: SeriesId, quantity: Quantity) -> dict[str, object]:
    """Return the values of the columns `QUANTITY`."""
    return {**series.to_row(), **asdict(quantity)}

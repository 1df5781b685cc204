"""The columns that name a series, alike in every table."""

from __future__ import annotations

from typing import Any

from postprocess.views.table import Column

SERIES = (
    Column('partition', 'partition', '{}/{}'.format, beside=('environ',)),
    Column('environ'),
    Column('check', 'check'),
    Column('params', 'params'),
    Column('metric', 'metric'),
)


def of_series(of: Any) -> dict[str, Any]:
    """Return the values of `SERIES`, and the unit and direction, of a metric."""
    return {
        'partition': of.partition, 'environ': of.stack, 'check': of.check, 'params': of.case, 'metric': of.metric,
        'unit': of.unit, 'better': of.better,
    }  # fmt: skip

"""The columns that name a series, alike in every table."""

from __future__ import annotations

from plumbline.identity import Quantity, SeriesId, to_text
from postprocess.views.table import Column, Row


def _with_dims(metric: str, dims: str) -> str:
    return metric if dims == '-' else f'{metric} {dims}'


SERIES = (
    Column('partition', 'partition', '{}/{}'.format, beside=('environ',)),
    Column('environ'),
    Column('check', 'check'),
    Column('params', 'params'),
    Column('metric', 'metric', _with_dims, beside=('dims',)),
    Column('dims'),
)


def name_of(of: SeriesId) -> Row:
    """Return the values of `SERIES`; `params` and `dims` as ``a=1,b=2``, ``-`` where there are none."""
    return {
        'partition': of.partition, 'environ': of.environ, 'check': of.check, 'params': to_text(of.params),
        'metric': of.metric, 'dims': to_text(of.dims),
    }  # fmt: skip


def of_series(of: SeriesId, quantity: Quantity) -> dict[str, object]:
    """Return the values of `SERIES`, and the unit and direction, of a series."""
    return {**name_of(of), 'unit': quantity.unit, 'better': quantity.better}

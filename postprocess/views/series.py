# SPDX-License-Identifier: BSD-3-Clause
"""The columns that name a series, and shares; they are the same in every table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeGuard

from plumbline.identity import NONE, Quantity, SeriesId
from postprocess.text import decimals
from postprocess.verdicts.verdict import BAD, Comparison, Verdict
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
    Column('metric', 'metric', _with_dims, beside=('dims',), width=12, priority=1, link=('#m', 'id')),
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
    return {**series.to_row(), 'unit': quantity.unit, 'better': quantity.better}


def drawable(value: float | None) -> TypeGuard[float]:
    """Return True for a number whose ratios and logarithms do not overflow; that holds for every real measurement."""
    return value is not None and (value == 0 or 1e-100 < abs(value) < 1e100)


def short(value: float | None) -> float | int | None:
    """Return a number with four significant digits; None if it cannot be drawn."""
    if not drawable(value):
        return None
    rounded = float(f'{value:.4g}')
    return int(rounded) if rounded.is_integer() else rounded


@dataclass(eq=False)
class SeriesRow:
    """A series of a session with the verdicts of all jobs that measured it, the worst first.

    `id`: its number on the page. `decimals`: of its numbers as text; all series of a metric of a check have the same.
    """

    id: int
    jobs: list[Verdict]
    decimals: int = 2

    @cached_property
    def worst(self) -> Verdict:
        """The worst verdict, which stands for the series."""
        return self.jobs[0]

    @cached_property
    def series(self) -> SeriesId:
        """The identity of the series."""
        return self.worst.id

    @cached_property
    def quantity(self) -> Quantity:
        """The unit and direction of the series."""
        return self.worst.quantity

    @cached_property
    def value(self) -> float | None:
        """The median over the jobs, of the values that can be drawn; None without any."""
        values = [job.value for job in self.jobs if drawable(job.value)]
        return median(values) if values else None

    @property
    def fell_short(self) -> str:
        """How many of several jobs are bad, as ``3 of 16``; empty if all or none are."""
        bad = sum(job.verdict in BAD for job in self.jobs)
        return f'{bad} of {len(self.jobs)}' if 0 < bad < len(self.jobs) else ''


def series_rows(comparison: Comparison) -> list[SeriesRow]:
    """Return the series of a session in the order of their first verdict."""
    by_series: dict[SeriesId, list[Verdict]] = {}
    for verdict in comparison.verdicts:
        by_series.setdefault(verdict.id, []).append(verdict)
    rows = [SeriesRow(id, jobs) for id, jobs in enumerate(by_series.values())]
    alike: dict[tuple[str, str, str], list[SeriesRow]] = {}
    for row in rows:
        alike.setdefault((row.series.check, row.series.metric, row.quantity.unit), []).append(row)
    for group in alike.values():
        places = decimals(number for row in group for number in (row.value, row.worst.expected))
        for row in group:
            row.decimals = places
    return rows

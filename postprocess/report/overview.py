# SPDX-License-Identifier: BSD-3-Clause
"""The overview of the page: one box for each metric, labelled by what distinguishes it within its check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from postprocess.report.charts import METRIC, NODES, Facts, Judged, counted, varying
from postprocess.text import count, fixed


class Box(NamedTuple):
    """A metric: its label within the row, and its value with unit, or why it has none."""

    judged: Judged
    label: str
    value: str


class OverviewRow(NamedTuple):
    """The metrics of a check on a partition with an environ."""

    check: str
    place: str
    boxes: list[Box]


def overview(judged: Sequence[Judged], places: Mapping[int, int]) -> list[OverviewRow]:
    """Return one row for each check and place, in an order that does not change from session to session.

    `places`: id of a metric -> decimals of its value.
    """
    by_row: dict[tuple[str, str], list[Judged]] = {}
    for metric in sorted(judged, key=lambda judged: judged.series.sort_key):
        series = metric.series
        by_row.setdefault((series.check, f'{series.partition}/{series.environ}'), []).append(metric)
    return [
        OverviewRow(
            *key,
            [
                Box(metric, label, _value(metric, places[metric.id]))
                for metric, label in zip(own, _labels(own), strict=True)
            ],
        )
        for key, own in sorted(by_row.items())
    ]


def leading(rows: Sequence[OverviewRow], most: int) -> int:
    """Return how many rows contain the first `most` boxes."""
    before = accumulate((len(row.boxes) for row in rows), initial=0)
    return sum(n < most for n, _ in zip(before, rows, strict=False))


def _labels(own: Sequence[Judged]) -> list[str]:
    """Return the label of each metric of a check: the facts in which the metrics differ."""
    facts = [{METRIC: metric.series.metric, **dict(metric.series.params), **dict(metric.series.dims)} for metric in own]
    names = varying(facts) or [METRIC]
    return [' '.join(_fact(name, fact) for name in names if name in fact) for fact in facts]


def _fact(name: str, facts: Facts) -> str:
    """Return a fact in as few words as possible: ``triad``, ``2 nodes``, ``message_bytes=8``."""
    value = facts[name]
    if name == METRIC:
        return 'the case' if value == '*' else value
    if name == NODES and value.isdigit():
        return count(int(value), 'node')
    if name.endswith('bytes') and value.isdigit():
        value = counted(int(value))
    return value if value[:1].isalpha() else f'{name}={value}'


def _value(judged: Judged, places: int) -> str:
    """Return the value of a metric with its unit, or its verdict without a value."""
    unit = '' if judged.quantity.unit == '1' else judged.quantity.unit
    return judged.worst.verdict if judged.value is None else f'{fixed(judged.value, places)} {unit}'.rstrip()

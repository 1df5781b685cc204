# SPDX-License-Identifier: BSD-3-Clause
"""The overview of the page: each series of a check, labelled by what distinguishes it within the check."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from postprocess.report.charts import METRIC, NODES, Facts, counted, varying
from postprocess.text import count
from postprocess.views.series import SeriesRow


class OverviewRow(NamedTuple):
    """The series of a check on a partition with an environ, each with its label within the check."""

    check: str
    place: str
    boxes: list[tuple[SeriesRow, str]]


def overview(series: Sequence[SeriesRow]) -> list[OverviewRow]:
    """Return one row for each check and place, in an order that does not change from session to session."""
    by_row: dict[tuple[str, str], list[SeriesRow]] = {}
    for one in sorted(series, key=lambda one: one.series.sort_key):
        by_row.setdefault((one.series.check, f'{one.series.partition}/{one.series.environ}'), []).append(one)
    return [OverviewRow(*key, list(zip(own, _labels(own), strict=True))) for key, own in sorted(by_row.items())]


def leading(rows: Sequence[OverviewRow], most: int) -> int:
    """Return how many rows contain the first `most` series."""
    before = accumulate((len(row.boxes) for row in rows), initial=0)
    return sum(n < most for n, _ in zip(before, rows, strict=False))


def _labels(own: Sequence[SeriesRow]) -> list[str]:
    """Return the label of each series of a check: the facts in which they differ."""
    facts = [{METRIC: one.series.metric, **dict(one.series.params), **dict(one.series.dims)} for one in own]
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

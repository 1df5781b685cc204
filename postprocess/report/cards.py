# SPDX-License-Identifier: BSD-3-Clause
"""Incidents as the page shows them: one card for each, with the course of its level over the sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy

from postprocess.history.digest import Digest
from postprocess.incidents.incident import Incident, Value
from postprocess.incidents.known import Known
from postprocess.incidents.levels import levels
from postprocess.report.plots import Axis, joined
from postprocess.report.printed import Cases, archives_of
from postprocess.results.store import Store
from postprocess.text import count, percent
from postprocess.views.series import SeriesRow

_FEWEST_SESSIONS = 3  # fewest sessions of a level that is drawn
_NAMED = 3  # most nodes that a card names
_WIDTH, _HEIGHT = 240, 44  # pixels of the drawn level


class Spark(NamedTuple):
    """The SVG paths of a level over time, in a box of `width` by `height` pixels; `text`: the same in words."""

    path: str
    last: str
    reference: str
    since: str
    text: str
    width: int = _WIDTH
    height: int = _HEIGHT


class Card(NamedTuple):
    """An incident, with its state and place in words, its series in this session, and its level.

    `series`: each with its deviation in %, None if it is not known. `outputs`: the archives of its evidence, each with
    the number of its case in this session, None for an archive of another session.
    """

    known: Known
    state: str
    where: str
    series: list[tuple[SeriesRow, float | None]]
    spark: Spark | None
    outputs: list[tuple[str, int | None]]


def cards(
    digest: Digest, store: Store, series: Sequence[SeriesRow], cases: Cases, sizes: Mapping[str, int]
) -> list[Card]:
    """Return a card for each incident of a digest; `sizes`: partition -> number of its nodes that took part.

    Raises InputError if the store cannot be read.
    """
    sparks, archives = _sparks(digest, store), archives_of(digest, cases)
    by_series = {row.series: row for row in series}
    return [
        Card(
            one, one.state(digest.day), _where(one.incident, sizes),
            [(by_series[of], _deviation(one.incident.values.get(of))) for of in one.incident.series if of in by_series],
            sparks.get(one.id),
            [(path, archives[one.id][path][0].case_id if path in archives.get(one.id, {}) else None)
             for path in one.incident.archives],
        )
        for one in digest.known
    ]  # fmt: skip


def _deviation(of: Value | None) -> float | None:
    """Return the difference of a value from the expected value, in %; None if one of them is not known."""
    return 100 * (of.value / of.expected - 1) if of and of.value is not None and of.expected else None


def _where(incident: Incident, sizes: Mapping[str, int]) -> str:
    """Return the place of an incident in words: ``nid000011``, or ``cpu/system, 16 of 16 nodes``."""
    where, n = incident.where, len(incident.nodes)
    if where.nodes or not n:
        return str(where)
    total = sizes.get(where.partition, 0)
    some = n <= _NAMED and n < total
    return f'{where}, ' + (', '.join(incident.nodes) if some else f'{n} of {count(max(total, n), "node")}')


def _sparks(digest: Digest, store: Store) -> dict[str, Spark]:
    """Return id -> drawn level of each incident that is a loss and was measured in enough sessions."""
    known = {incident.id: incident for incident in digest.known}
    return {
        id: _spark(digest, list(zip(*map(list, of), strict=True)), known[id].incident)
        for id, of in levels(store, digest.sessions, {id: incident.told for id, incident in known.items()}).items()
        if len(of[0]) >= _FEWEST_SESSIONS
    }


def _spark(digest: Digest, levels: Sequence[tuple[int, float]], incident: Incident) -> Spark:
    """Return the drawing of the level of an incident; `levels`: (index of the session, logarithm of performance)."""
    times = [digest.sessions[night].epoch for night, _ in levels]
    sign = -1 if incident.lower_is_better else 1
    changes = [100 * math.expm1(sign * level) for _, level in levels]
    x, y = Axis(times, 3, _WIDTH - 5, False), Axis([*changes, 0.0, -2.0 * sign, sign], _HEIGHT - 4, 4, False)
    points = [(x(time), y(change)) for time, change in zip(times, changes, strict=True)]
    began = next((left for (night, _), (left, _) in zip(levels, points, strict=True)
                  if digest.sessions[night].day >= incident.day), None)  # fmt: skip
    at_first = float(numpy.median(changes[: max(1, len(changes) // 10)]))
    first = digest.sessions[levels[0][0]].day
    known = all(of in incident.values and incident.values[of].expected for of in incident.series)
    beside = 'the references' if known else 'their own median where they have no reference'
    text = f'median, against {beside}: {percent(at_first)} on {first}, {percent(changes[-1])} now'
    return Spark(
        joined(points), f'M{points[-1][0]} {points[-1][1]}h0', f'M0 {y(0.0)}H{_WIDTH}',
        '' if began is None or began <= points[0][0] else f'M{began} 0V{_HEIGHT}', text,
    )  # fmt: skip

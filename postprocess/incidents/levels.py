# SPDX-License-Identifier: BSD-3-Clause
"""Follow the performance of the series of an incident over the sessions, and find when it began to fall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

import numpy
from numpy import ndarray

from plumbline.identity import SeriesId
from postprocess.incidents.incident import Incident, Value
from postprocess.results.store import Session, Store
from postprocess.statistics.changepoints import hinge

_POOLED = 50  # most series, and most nodes, of an incident that are read, spread evenly from the worst to the least
_MEDIAN = 0.954  # median absolute difference of two normal values, in their standard deviations
_LEAST, _MOST = 0.01, 0.99  # losses outside this range are dated as if at its ends
_SHARPEST = 6  # largest assumed loss / spread
_ENDS = 8.0  # log likelihood of contrary sessions that ends a run
_SLOPE = 3  # least length of a drift in sessions
_CLEAR = 4.0  # a slope must explain a sum of squares larger by this many variances than a step does
_FEWEST = 3  # fewest jobs on other nodes for a comparison with their median
# A rate that fell to 0 counts as if at the end of this range.
_LOGARITHM = f"ln(greatest(mean / expected, {1 - _MOST})) * CASE better WHEN 'lower' THEN -1 ELSE 1 END"
# For each session the median over series and nodes of the logarithm of performance / reference; a series without a
# reference is compared with its own median.
_LEVELS = f"""
    WITH known AS (
        SELECT * REPLACE (coalesce(expected, median(mean) OVER (PARTITION BY incident, series, of_node)) AS expected)
        FROM wanted JOIN measured USING ("partition", environ, "check", params, metric, dims)
        WHERE of_node = '' OR list_contains(nodes, of_node)
    ), found AS (SELECT incident, night, {_LOGARITHM} AS level FROM known WHERE expected > 0)
    SELECT incident, night, median(level) AS level FROM found GROUP BY ALL ORDER BY night
"""
# The same minus the median of the other nodes in that session, if enough of them ran the series: a node that lost 5 %
# two sessions ago is dated right in 99 % where the whole site lost 3 % eight sessions before that, without it in 5 %.
_BESIDE = f"""
    WITH known AS (
        SELECT * REPLACE (coalesce(expected, median(mean) OVER (PARTITION BY incident, series, nodes)) AS expected)
        FROM wanted JOIN measured USING ("partition", environ, "check", params, metric, dims)
    ), every AS (
        SELECT incident, series, own, nodes, night, {_LOGARITHM} AS level FROM known WHERE expected > 0
    ), others AS (
        SELECT incident, series, night, median(level) AS usual FROM every
        WHERE NOT list_has_any(nodes, own) GROUP BY ALL HAVING count(*) >= {_FEWEST}
    )
    SELECT incident, night, median(level - usual) AS level FROM every JOIN others USING (incident, series, night)
    WHERE list_has_any(nodes, own) GROUP BY ALL ORDER BY night
"""
_Any = TypeVar('_Any')
Levels = tuple[ndarray, ndarray]  # indices of sessions, and the logarithm of performance in each of them


def levels(store: Store, sessions: Sequence[Session], incidents: Mapping[str, Sequence[Incident]]) -> dict[str, Levels]:
    """Return key of incidents -> their level in the sessions that measured them, pooled over their series.

    Raises InputError if the store cannot be read.
    """
    rows = [
        (key, of, incident.values.get(of), {'of_node': node})
        for key, own in incidents.items()
        for incident in own
        if incident.sort == 'loss'
        for of, node in product(evenly_spread(incident.series), evenly_spread(incident.own_nodes) or ('',))
    ]
    return _by_incident(store, sessions, _LEVELS, rows)


def beside(store: Store, sessions: Sequence[Session], incidents: Mapping[str, Incident]) -> dict[str, Levels]:
    """Return the level of each loss of nodes relative to the other nodes, which shows whether only these nodes lost.

    Only sessions in which enough other nodes ran the same series count. Raises InputError if the store cannot be read.
    """
    rows = [
        (key, of, incident.values.get(of), {'own': list(incident.own_nodes)})
        for key, incident in incidents.items()
        if incident.sort == 'loss' and incident.own_nodes
        for of in evenly_spread(incident.series)
    ]
    return _by_incident(store, sessions, _BESIDE, rows)


def _by_incident(
    store: Store,
    sessions: Sequence[Session],
    sql: str,
    rows: Sequence[tuple[str, SeriesId, Value | None, dict[str, Any]]],
) -> dict[str, Levels]:
    """Return the result of a query for each incident; `rows`: (key of an incident, series, its value, its nodes)."""
    if not rows or not sessions:
        return {}
    wanted: dict[str, list[Any]] = {
        'id': [of for _, of, *_ in rows],
        'incident': [key for key, *_ in rows],
        'series': [str(of) for _, of, *_ in rows],
        'expected': [float(value.expected) if value and value.expected else None for _, _, value, _ in rows],
    }
    wanted |= {name: [nodes[name] for *_, nodes in rows] for name in rows[0][-1]}
    points: dict[str, list[tuple[int, float]]] = {}
    for row in store.select(sql, sessions, wanted=wanted):
        points.setdefault(row['incident'], []).append((row['night'], row['level']))
    return {
        key: (numpy.array([night for night, _ in of]), numpy.array([at for _, at in of])) for key, of in points.items()
    }


def evenly_spread(of: Sequence[_Any]) -> Sequence[_Any]:
    """Return at most `_POOLED` of the values, evenly spread."""
    return of[:: -(-len(of) // _POOLED)] if of else of


def began(level: Levels, loss: float, last: int) -> int:
    """Return the index of the session, up to `last`, in which a loss began; `loss`: a share of the performance.

    A step begins with the first session of the last run in which the loss is likelier than no loss. One session that is
    slightly better does not end the run; healthy sessions do. A drift begins where the level turned down, if a slope
    describes this run and the healthy run before it better than a step does.
    """
    nights, values = level
    nights, values = nights[nights <= last], values[nights <= last]
    if len(values) < 2:
        return int(nights[0]) if len(nights) else last
    size = -math.log1p(-min(max(loss, _LEAST), _MOST))
    spread = float(numpy.median(abs(numpy.diff(values)))) / _MEDIAN
    spread = max(spread, size / _SHARPEST)
    # log likelihood ratio of the loss against none; each session is limited to this distance
    evidence = (-size / 2 - numpy.clip(values, -size, 0.0)) * size / spread**2
    begin = _run(evidence)
    healthy = _run(-evidence[:begin]) if begin else 0
    turned = start_of_slope(numpy.clip(values[healthy:], -2 * size, size), spread)
    return int(nights[begin if turned is None else healthy + turned])


def shows(level: Levels, loss: float, last: int) -> bool:
    """Return True if the loss is likelier than no loss at the level of the session with index `last`."""
    nights, values = level
    return bool((values[nights == last] < math.log1p(-min(max(loss, _LEAST), _MOST)) / 2).any())


def _run(evidence: ndarray) -> int:
    """Return the start of the final run with the most evidence; `_ENDS` of evidence against it ends the search."""
    sums = evidence[::-1].cumsum()
    best = numpy.maximum.accumulate(sums)
    ended = numpy.flatnonzero(best - sums > _ENDS)
    sums = sums[: ended[0]] if len(ended) else sums
    return len(evidence) - 1 - int(numpy.argmax(sums))


def start_of_slope(values: ndarray, spread: float) -> int | None:
    """Return the start of a slope that lasts until the end; None if a step describes the values as well."""
    n = len(values)
    if n <= _SLOPE:
        return None
    begin, line = hinge(values, _SLOPE)
    sizes = numpy.arange(1, n)  # of the level before a step
    fallen = numpy.maximum((values - values.mean()).cumsum()[:-1], 0.0)
    by_step = (fallen**2 * n / sizes / (n - sizes)).max()  # sum of squares that the best step explains
    by_slope = ((line - line.mean()) ** 2).sum() if line[-1] < line[0] else 0.0
    return max(begin, 1) if by_slope > by_step + _CLEAR * spread**2 else None

# SPDX-License-Identifier: BSD-3-Clause
"""How the performance of what an incident is of went over the sessions, and when that began to fall."""

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

_POOLED = 50  # series of an incident, and nodes, evenly from the worst to the least
_MEDIAN = 0.954  # size of the difference of two normal values, in their standard deviations
_LEAST, _MOST = 0.01, 0.99  # losses are dated as if they were within these
_SHARPEST = 6  # how many times its spread a loss is taken to be at most
_ENDS = 8.0  # log of the likelihood of other sessions in between with which a run ends
_SLOPE = 3  # sessions that a drift lasts at least
_CLEAR = 4.0  # variances by which a slope must describe the values better than a step
_FEWEST = 3  # jobs on other nodes whose median a node is compared with
# The median over series and nodes of their performance in each session, as a logarithm, beside the references; of a
# series without one beside its own median. What a value and its case have in common is one condition, a tuple: as four,
# the query takes twice the time with DuckDB 2.0.
_LEVELS = """
    WITH found AS (
        SELECT incident, cases.night AS night,
            ln(mean / coalesce(expected, median(mean) OVER (PARTITION BY incident, series, node)))
            * CASE better WHEN 'lower' THEN -1 ELSE 1 END AS level
        FROM wanted JOIN cases USING ("partition", environ, "check", params)
            JOIN metrics ON (metrics.night, metrics.case_id, metrics.metric, metrics.dims)
                = (cases.night, cases.case_id, wanted.metric, wanted.dims)
        WHERE status = 'measured' AND mean > 0 AND (node = '' OR list_contains(nodes, node))
    )
    SELECT incident, night, median(level) AS level FROM found GROUP BY ALL ORDER BY night
"""
# The same beside the median of the other nodes in that session, where enough of them ran the series, each as above.
_BESIDE = f"""
    WITH every AS (
        SELECT incident, series, own, nodes, cases.night AS night,
            ln(mean / coalesce(expected, median(mean) OVER (PARTITION BY incident, series, nodes)))
            * CASE better WHEN 'lower' THEN -1 ELSE 1 END AS level
        FROM wanted JOIN cases USING ("partition", environ, "check", params)
            JOIN metrics ON (metrics.night, metrics.case_id, metrics.metric, metrics.dims)
                = (cases.night, cases.case_id, wanted.metric, wanted.dims)
        WHERE status = 'measured' AND mean > 0
    ), others AS (
        SELECT incident, series, night, median(level) AS usual FROM every
        WHERE NOT list_has_any(nodes, own) GROUP BY ALL HAVING count(*) >= {_FEWEST}
    )
    SELECT incident, night, median(level - usual) AS level FROM every JOIN others USING (incident, series, night)
    WHERE list_has_any(nodes, own) GROUP BY ALL ORDER BY night
"""
_Any = TypeVar('_Any')
Levels = tuple[ndarray, ndarray]  # places of sessions, and the logarithm of the performance in each


def levels(store: Store, sessions: Sequence[Session], incidents: Mapping[str, Sequence[Incident]]) -> dict[str, Levels]:
    """Return the level of each loss in those of the sessions that measured it, by its key; of some, that of all.

    Raises InputError where the store cannot be read.
    """
    rows = [
        (key, of, one.values.get(of), {'node': node})
        for key, own in incidents.items()
        for one in own
        if one.sort == 'loss'
        for of, node in product(_some(one.series), _some(one.own_nodes) or ('',))
    ]
    return _by_incident(store, sessions, _LEVELS, rows)


def beside(store: Store, sessions: Sequence[Session], incidents: Mapping[str, Incident]) -> dict[str, Levels]:
    """Return the level of each loss that is of nodes beside that of the other nodes, which tells it from one of all.

    Of the sessions in which enough other nodes ran the same. Raises InputError where the store cannot be read.
    """
    rows = [
        (key, of, one.values.get(of), {'own': list(one.own_nodes)})
        for key, one in incidents.items()
        if one.sort == 'loss' and one.own_nodes
        for of in _some(one.series)
    ]
    return _by_incident(store, sessions, _BESIDE, rows)


def _by_incident(
    store: Store,
    sessions: Sequence[Session],
    sql: str,
    rows: Sequence[tuple[str, SeriesId, Value | None, dict[str, Any]]],
) -> dict[str, Levels]:
    """Return what a query says of `rows`: the key of an incident, one of its series with its value, and its nodes."""
    if not rows or not sessions:
        return {}
    wanted: dict[str, list[Any]] = {
        'incident': [key for key, *_ in rows], 'series': [str(of) for _, of, *_ in rows],
        'expected': [float(value.expected) if value and value.expected else None for _, _, value, _ in rows],
    }  # fmt: skip
    columns = [of.to_row() | nodes for _, of, _, nodes in rows]
    wanted |= {name: [row[name] for row in columns] for name in columns[0]}
    found: dict[str, list[tuple[int, float]]] = {}
    for row in store.query(sql, sessions, wanted=wanted).to_pylist():
        found.setdefault(row['incident'], []).append((row['night'], row['level']))
    return {
        key: (numpy.array([night for night, _ in of]), numpy.array([at for _, at in of])) for key, of in found.items()
    }


def _some(of: Sequence[_Any]) -> Sequence[_Any]:
    return of[:: -(-len(of) // _POOLED)] if of else of


def began(level: Levels, loss: float, last: int) -> int:
    """Return the session, of those up to `last`, in which a loss began, a share of the performance.

    That of a step is the first of the run of sessions that are more like the loss than like none, up to the last one; a
    session in between that is only a little better does not end the run, as healthy ones do. That of a drift is where
    the level turned down: where a slope describes this run and the healthy one before it better than a step.
    """
    nights, values = level
    nights, values = nights[nights <= last], values[nights <= last]
    if len(values) < 2:
        return int(nights[0]) if len(nights) else last
    size = -math.log1p(-min(max(loss, _LEAST), _MOST))
    spread = float(numpy.median(abs(numpy.diff(values)))) / _MEDIAN
    spread = max(spread, size / _SHARPEST)
    # log of the likelihood of the loss beside that of none, each session at most as far as these two
    evidence = (-size / 2 - numpy.clip(values, -size, 0.0)) * size / spread**2
    begin = _run(evidence)
    healthy = _run(-evidence[:begin]) if begin else 0
    turned = _turned(numpy.clip(values[healthy:], -2 * size, size), spread)
    return int(nights[begin if turned is None else healthy + turned])


def shows(level: Levels, loss: float, last: int) -> bool:
    """Return True if the level in the session `last` is more like a loss than like none."""
    nights, values = level
    return bool((values[nights == last] < math.log1p(-min(max(loss, _LEAST), _MOST)) / 2).any())


def _run(evidence: ndarray) -> int:
    """Return where the run at the end begins that has most evidence; what speaks as much against it ends the search."""
    sums = evidence[::-1].cumsum()
    best = numpy.maximum.accumulate(sums)
    ended = numpy.flatnonzero(best - sums > _ENDS)
    sums = sums[: ended[0]] if len(ended) else sums
    return len(evidence) - 1 - int(numpy.argmax(sums))


def _turned(values: ndarray, spread: float) -> int | None:
    """Return where a slope begins that lasts until the end; None where a step describes the values as well."""
    place = numpy.arange(len(values))
    steps = (place >= place[1:, None]).astype(float)
    slopes = numpy.maximum(place - place[:-_SLOPE, None], 0).astype(float)

    def explained(lines: ndarray) -> ndarray:
        """Return the sum of squares that each line, down from a level, takes away."""
        lines = lines - lines.mean(axis=1, keepdims=True)
        return numpy.minimum(lines @ (values - values.mean()), 0) ** 2 / (lines**2).sum(axis=1)

    if not len(slopes):
        return None
    by_slope = explained(slopes)
    best = int(numpy.argmax(by_slope))
    return best + 1 if by_slope[best] > explained(steps).max() + _CLEAR * spread**2 else None

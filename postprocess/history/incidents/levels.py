"""How the performance of what an incident is of went over the sessions, and when that began to fall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy
from numpy import ndarray

from postprocess.history.changepoints import drift_in
from postprocess.history.incidents.incident import Incident
from postprocess.results.store import Session, Store

_POOLED = 50  # series of an incident, the worst first, and nodes
_LEAST = 0.01  # loss that is dated as a drift
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
Levels = tuple[ndarray, ndarray]  # places of sessions, and the logarithm of the performance in each


def levels(store: Store, sessions: Sequence[Session], incidents: Mapping[str, Incident]) -> dict[str, Levels]:
    """Return the level of each incident that is a loss in those of the sessions that measured it, by its key.

    Raises InputError where the store cannot be read.
    """
    rows = [
        (key, str(of), node, of.to_row(), value and value.expected)
        for key, one in incidents.items()
        if one.sort == 'loss'
        for of, node in product(one.series[:_POOLED], one.where.nodes[:_POOLED] or ('',))
        for value in (one.values.get(of),)
    ]
    if not rows or not sessions:
        return {}
    wanted: dict[str, list] = {
        'incident': [key for key, *_ in rows], 'series': [name for _, name, *_ in rows],
        'node': [node for _, _, node, *_ in rows], 'expected': [float(mean) if mean else None for *_, mean in rows],
    }  # fmt: skip
    wanted |= {name: [row[name] for *_, row, _ in rows] for name in rows[0][3]}
    found: dict[str, list[tuple[int, float]]] = {}
    for row in store.query(_LEVELS, sessions, wanted=wanted).to_pylist():
        found.setdefault(row['incident'], []).append((row['night'], row['level']))
    return {
        key: (numpy.array([night for night, _ in of]), numpy.array([at for _, at in of])) for key, of in found.items()
    }


def began(level: Levels, loss: float, last: int) -> int:
    """Return the session, of those up to `last`, in which a loss began, a share of the performance.

    That of a drift began where the level turned down; any other is seen since the first session of at least half of it
    without a better one after it.
    """
    nights, values = level
    if (drift := drift_in(values, max(loss, _LEAST) / 2)) and drift.became < drift.was:
        return int(nights[drift.begin])
    before = nights < last
    well = nights[before & (values >= math.log1p(-loss / 2))]
    bad = nights[before & (nights > (well[-1] if len(well) else -1))]
    return int(bad[0]) if len(bad) else last

# SPDX-License-Identifier: BSD-3-Clause
"""Compare each node with the others that measured the same series in the same session."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.identity import SeriesId
from postprocess.results.rows import typed_row
from postprocess.results.store import Session, Store
from postprocess.verdicts.stand_in import FEWEST_NODES

# Difference in % of each node's value from the median of the nodes that each measured the same series alone
_LEVELS = f"""
    WITH alone AS (
        SELECT "partition", environ, "check", params, metric, dims, node, any_value(better) AS better,
            median(mean) AS value
        FROM measured WHERE judged AND len(nodes) = 1 AND mean > 0 GROUP BY ALL
    ), beside AS (
        SELECT *, count(*) OVER same AS n,
            100 * (value / median(value) OVER same - 1) * CASE better WHEN 'lower' THEN -1 ELSE 1 END AS change
        FROM alone WINDOW same AS (PARTITION BY "partition", environ, "check", params, metric, dims)
    ), found AS (
        SELECT node, median(change) AS typical, min(change) AS furthest,
            arg_min(struct_pack("partition", environ, "check", params, metric, dims), change) AS series
        FROM beside WHERE n >= {FEWEST_NODES} GROUP BY ALL
    ), ran AS (SELECT DISTINCT unnest(nodes) AS node FROM cases WHERE NOT fixture)
    FROM ran LEFT JOIN found USING (node) ORDER BY node
"""


@dataclass(frozen=True)
class Beside:
    """A node in one session, compared with the median of the nodes.

    `typical`: median difference of its metrics; `furthest`: the worst difference, of the metric `series`. Both in %;
    None if too few other nodes measured the same.
    """

    typical: float | None
    furthest: float | None
    series: SeriesId | None


def beside(store: Store, session: Session) -> dict[str, Beside]:
    """Return node -> the node compared with the others in a session. Raises InputError if the store cannot be read."""
    by_node = {}
    for row in store.select(_LEVELS, [session]):
        series = typed_row(row['series'])['id'] if row['series'] else None
        by_node[row['node']] = Beside(row['typical'], row['furthest'], series)
    return by_node

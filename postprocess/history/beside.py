# SPDX-License-Identifier: BSD-3-Clause
"""Compare each node with the others that measured the same series in the same session, and read its counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from plumbline.identity import SeriesId
from postprocess.results.rows import decoded
from postprocess.results.store import Session, Store
from postprocess.verdicts.health import counted, facts_by_node
from postprocess.verdicts.stand_in import FEWEST_NODES

# Difference in % of each node's value from the median of the nodes that each measured the same series alone
_LEVELS = f"""
    WITH alone AS (
        SELECT night, "partition", environ, "check", params, metric, dims, node, any_value(better) AS better,
            median(mean) AS value
        FROM measured WHERE judged AND len(nodes) = 1 AND mean > 0 GROUP BY ALL
    ), beside AS (
        SELECT *, count(*) OVER same AS n,
            100 * (value / median(value) OVER same - 1) * CASE better WHEN 'lower' THEN -1 ELSE 1 END AS change
        FROM alone WINDOW same AS (PARTITION BY night, "partition", environ, "check", params, metric, dims)
    ), found AS (
        SELECT night, node, median(change) AS typical, min(change) AS furthest,
            arg_min(struct_pack("partition", environ, "check", params, metric, dims), change) AS series
        FROM beside WHERE n >= {FEWEST_NODES} GROUP BY ALL
    ), ran AS (SELECT DISTINCT night, unnest(nodes) AS node FROM cases WHERE NOT fixture)
    FROM ran LEFT JOIN found USING (night, node){{wanted}} ORDER BY night, node
"""
# Read only jobs with counters above zero, which are few
_COUNTED = """
    SELECT DISTINCT night, nodes, provenance, health FROM cases
    WHERE regexp_matches(concat(provenance, health), '"(clock_throttled|health_\\w+)": *"[1-9]')
"""


@dataclass(frozen=True)
class Beside:
    """A node in one session, compared with the median of the nodes.

    `typical`: median difference of its metrics; `furthest`: the worst difference, of the metric `series`. Both in %;
    None if too few other nodes measured the same. `counted`: its errors and heat in words.
    """

    typical: float | None
    furthest: float | None
    series: SeriesId | None
    counted: str = ''


def beside(
    store: Store, sessions: Sequence[Session], nodes: Collection[str] | None = None
) -> dict[tuple[int, str], Beside]:
    """Return (index of a session, node) -> the node compared with the others in this session.

    `nodes`: only these. Raises InputError if the store cannot be read.
    """
    only = '' if nodes is None else ' SEMI JOIN wanted USING (node)'
    wanted = {'wanted': {'node': sorted(nodes or ())}}
    counters = _counted(store, sessions)
    by_node = {}
    for row in store.select(_LEVELS.format(wanted=only), sessions, **wanted):
        key = row['night'], row['node']
        series = SeriesId.from_row(row['series']) if row['series'] else None
        by_node[key] = Beside(row['typical'], row['furthest'], series, counters.get(key, ''))
    return by_node


def _counted(store: Store, sessions: Sequence[Session]) -> dict[tuple[int, str], str]:
    """Return the counters of each node in each session in words, without zeros."""
    facts: dict[tuple[int, str], list[Mapping[str, str]]] = defaultdict(list)
    for case in store.select(_COUNTED, sessions):
        provenance, health = decoded(case['provenance']), decoded(case['health'])
        for node, own in facts_by_node(case['nodes'], provenance, health).items():
            facts[case['night'], node].append(own)
    return {key: ', '.join(words) for key, own in facts.items() if (words := counted(own))}

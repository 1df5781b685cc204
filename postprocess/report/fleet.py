"""The nodes of a session, each beside the others that measured the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from plumbline.identity import natural
from postprocess.history.digest import Digest
from postprocess.history.nodes import FEWEST_NODES
from postprocess.report.charts import Judged
from postprocess.verdicts.verdict import BAD


class Node(NamedTuple):
    """A node. `bad` of its `metrics` fell short; `typical`: how far from the other nodes half of them are, in %.

    `worst`: the metric that is furthest behind them, by so many %. `incidents`: ids of those that are of the node.
    `before`: the days on which it stood out earlier; `drain`: why it is proposed to drain it.
    """

    name: str
    metrics: int
    bad: int
    typical: float | None
    worst: Judged | None
    furthest: float | None
    incidents: list[str]
    before: list[str]
    places: str
    drain: str


def nodes(
    series: Sequence[Judged], cases: Mapping[int, Mapping[str, Any]], digest: Digest, located: Mapping[str, set[str]]
) -> list[Node]:
    """Return the nodes on which judged series were measured, the worst first."""
    metrics: dict[str, set[int]] = {}
    bad: dict[str, set[int]] = {}
    beside: dict[str, list[tuple[float, Judged]]] = {}
    for one in series:
        values: dict[str, list[float]] = {}
        for row in one.rows:
            names: Sequence[str] = cases[row.case_id]['nodes'] if row.case_id is not None else []
            for name in names:
                metrics.setdefault(name, set()).add(one.id)
                if row.verdict in BAD:
                    bad.setdefault(name, set()).add(one.id)
            if len(names) == 1 and row.value is not None and row.value > 0:
                values.setdefault(names[0], []).append(row.value)
        if len(values) >= FEWEST_NODES:
            own = {name: median(of) for name, of in values.items()}
            level = median(own.values())
            for name, value in own.items():
                beside.setdefault(name, []).append((100 * one.quantity.sign * (value / level - 1), one))
    incidents: dict[str, list[str]] = {}
    for known in digest.of_state('open', 'acknowledged', 'suspected'):
        for name in known.incident.where.nodes:
            incidents.setdefault(name, []).append(known.id)
    found = []
    for name, measured in metrics.items():
        changes = beside.get(name, [])
        furthest, worst = min(changes, key=lambda change: change[0], default=(None, None))
        typical = median(change for change, _ in changes) if changes else None
        place = ', '.join(sorted(located.get(name, ()), key=natural))
        drain = digest.fleet.drain.get(name, '') if digest.fleet else ''
        theirs, before, short = incidents.get(name, []), digest.before.get(name, []), len(bad.get(name, ()))
        found.append(Node(name, len(measured), short, typical, worst, furthest, theirs, before, place, drain))
    return sorted(found, key=lambda node: (not node.incidents, node.furthest or 0.0, natural(node.name)))

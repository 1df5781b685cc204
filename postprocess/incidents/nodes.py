# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of a session: which it misses, as those before had them, and which booted since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from postprocess.incidents.fold import Booted
from postprocess.incidents.incident import in_names
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.verdicts.stand_in import FEWEST_NODES

_LATELY = 3  # sessions before: a node that most of them measured is missed
_MEASURED = f"""
    SELECT count(DISTINCT night) AS nights, node
    FROM (SELECT night, nodes[1] AS node, "partition", environ, "check", params FROM cases
        WHERE NOT fixture AND len(nodes) = 1)
    SEMI JOIN (
        SELECT "partition", environ, "check", params FROM cases
        WHERE night = (SELECT max(night) FROM nights) AND NOT fixture AND len(nodes) = 1
        GROUP BY ALL HAVING count(DISTINCT nodes) >= {FEWEST_NODES}
    ) USING ("partition", environ, "check", params)
    WHERE night < (SELECT max(night) FROM nights)
    GROUP BY node HAVING 2 * nights > {_LATELY}
"""


def absent(store: Store, sessions: Sequence[Session], cases: Sequence[CaseRow]) -> tuple[str, ...]:
    """Return the nodes that did not run in the last session, and measured its cases in most of those just before."""
    ran = {node for case in cases for node in case.nodes}
    lately = {row['node'] for row in store.select(_MEASURED, sessions[-1 - _LATELY :])}
    return in_names(lately - ran)


def booted(cases: Sequence[CaseRow], session: Session, before: Sequence[Session]) -> Booted:
    """Return what booted since the last session `before` of the same mode, by the cases of a session.

    A case says it of its first node, one from before it was recorded of none.
    """
    last = next((one.epoch for one in reversed(before) if one.mode == session.mode), None)
    since: dict[str, dict[str, bool]] = defaultdict(dict)  # partition, or all -> node -> whether it booted
    for case in cases:
        time = case.provenance.get('boot_time', '')
        if last is not None and case.nodes and time.isdecimal():
            for name in ('', case.partition):
                since[name][case.nodes[0]] = int(time) > last
    nodes = in_names(node for node, did in since[''].items() if did)
    return Booted(nodes, in_names(name for name, of in since.items() if 2 * sum(of.values()) > len(of)))

# SPDX-License-Identifier: BSD-3-Clause
"""When the nodes of a site were last measured."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ci.isolated import isolated


@isolated
def last_looks(results: Path, site: str) -> dict[str, datetime]:
    """Return, by node, the begin in UTC of the last session of a site on it, within the last 60 days."""
    from postprocess.results.store import Store

    store = Store(results)
    if site not in store.sites():
        return {}
    sessions = store.history(store.find('latest', site), days=60)
    sql = 'SELECT node, max(night) AS night FROM (SELECT night, unnest(nodes) AS node FROM cases) GROUP BY node'
    return {row['node']: sessions[row['night']].started for row in store.select(sql, sessions)}

# SPDX-License-Identifier: BSD-3-Clause
"""The table of the nodes of a session, each compared with the other nodes that measured the same."""

from __future__ import annotations

from collections.abc import Sequence

from postprocess.text import count, signed
from postprocess.views.table import Column, TableRow, View

#: The columns of a node, in the order of CSV, JSON and the page; `typical`, `furthest`: difference from others in %.
NODES = (
    Column('name', 'node', priority=1),
    Column('incidents', 'incident', width=6, priority=1),
    Column('drain', 'drain', lambda why: 'proposed' if why else '', width=8),
    Column('bad', 'bad', number=True, sort='-bad', priority=1),
    Column('metrics', 'metrics', number=True, priority=3),
    Column('typical', 'typical', signed, '%', number=True, priority=3),
    Column('furthest', 'furthest behind', signed, '%', number=True, priority=1),
    Column('worst', 'metric', width=24),
    Column('before', 'before', priority=3),
    Column('places', 'place', width=14),
)


def listing(rows: Sequence[TableRow], session: str) -> View:
    """Return all nodes of a session, the worst first."""
    bad = sum(bool(row['bad']) for row in rows)
    return View(NODES, rows, after=f'{count(len(rows), "node")} in session {session}; metrics of {bad} fell short')

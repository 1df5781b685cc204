# SPDX-License-Identifier: BSD-3-Clause
"""The table of the nodes of a session, each compared with the other nodes that measured the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.errors import InputError
from plumbline.identity import natural
from plumbline.site.locations import locations
from postprocess.history.beside import Beside, beside
from postprocess.incidents import FAILING
from postprocess.results.rows import CaseRow
from postprocess.results.store import Store
from postprocess.text import count, signed
from postprocess.verdicts.verdict import BAD
from postprocess.views.series import SeriesRow
from postprocess.views.table import Column, TableRow, View

if TYPE_CHECKING:
    from postprocess.history.digest import Digest

#: The columns of a node, in the order of CSV, JSON and the page; `typical`, `furthest`: difference from others in %.
NODES = (
    Column('name', 'node', priority=1, link=('#n=', '')),
    Column('incidents', 'incident', width=6, priority=1, link=('#i', '')),
    Column('drain', 'drain', lambda why: 'proposed' if why else '', width=8),
    Column('bad', 'bad', number=True, sort='-bad', priority=1),
    Column('metrics', 'metrics', number=True, priority=3),
    Column('typical', 'typical', signed, '%', number=True, priority=3),
    Column('furthest', 'furthest behind', signed, '%', number=True, priority=1),
    Column('worst', 'metric', width=24, link=('#m', 'worst_id')),
    Column('before', 'before', priority=3),
    Column('places', 'place', width=14),
)
_NOT_COMPARED = Beside(None, None, None)


@dataclass(frozen=True)
class NodeRow:
    """A node of a session.

    `metrics`: numbers of its series; `bad`: of the bad ones. `typical`: median difference from the other nodes, in %.
    `worst`: the series with the largest difference, which is `furthest` %; `worst_id`: its number. `incidents`: ids of
    its incidents. `before`: the earlier days on which it stood out. `drain`: why it is proposed to drain it.
    """

    name: str
    metrics: list[int]
    bad: list[int]
    typical: float | None
    furthest: float | None
    worst: str
    worst_id: int | None
    incidents: list[str]
    before: list[str]
    places: str
    drain: str

    def to_row(self) -> TableRow:
        """Return the node as plain values by the keys of the columns `NODES`, and the number of its worst series."""
        return asdict(self) | {'bad': len(self.bad), 'metrics': len(self.metrics)}


def places_of(site: str, root: Path | None = None) -> dict[str, list[str]]:
    """Return the places of each node as its site states them; empty if that cannot be read."""
    with suppress(InputError):  # the digest reports this error
        return {name: sorted(places, key=natural) for name, places in locations(site, root).items()}
    return {}


def node_rows(
    series: Sequence[SeriesRow], cases: Mapping[int, CaseRow], digest: Digest, store: Store, root: Path | None = None
) -> list[NodeRow]:
    """Return the nodes on which the judged ones of `series` were measured, the worst first.

    Raises InputError if the store cannot be read.
    """
    session = digest.comparison.session
    metrics: dict[str, set[int]] = {}
    bad: dict[str, set[int]] = {}
    for one in series:
        for job in one.jobs if one.worst.verdict != 'informational' else ():
            for name in cases[job.case_id].nodes if job.case_id is not None else ():
                metrics.setdefault(name, set()).add(one.id)
                if job.verdict in BAD:
                    bad.setdefault(name, set()).add(one.id)
    incidents: dict[str, list[str]] = {}
    for known in digest.of_state(*FAILING, 'acknowledged', 'suspected'):
        for name in known.incident.own_nodes:
            incidents.setdefault(name, []).append(known.id)
    drain, places = digest.to_drain, places_of(session.site, root)
    ids, compared = {one.series: one.id for one in series}, beside(store, [session])
    rows = []
    for name, measured in metrics.items():
        of = compared.get((0, name), _NOT_COMPARED)
        rows.append(
            NodeRow(
                name, sorted(measured), sorted(bad.get(name, ())), of.typical, of.furthest,
                of.series.what if of.series else '', ids.get(of.series) if of.series else None,
                incidents.get(name, []), digest.before.get(name, []),
                ', '.join(places.get(name, ())), drain.get(name, ''),
            )
        )  # fmt: skip
    return sorted(rows, key=lambda node: (not node.incidents, node.furthest or 0.0, natural(node.name)))


def listing(rows: Sequence[NodeRow], nodes: int, digest: Digest) -> View:
    """Return some of the `nodes` of a session, the worst first."""
    drain = digest.drain
    bad, guilty = sum(bool(row.bad) for row in rows), sum(bool(row.incidents) for row in rows)
    after = f'{count(nodes, "node")} in session {digest.comparison.session.session}: {guilty} with an incident'
    after += f', {bad} with metrics that fell short'
    proposal = f'{drain}: a proposal to drain {count(len(digest.to_drain), "node")}; no node was drained'
    return View(NODES, [row.to_row() for row in rows], after=after, notes=[proposal] if drain else [])

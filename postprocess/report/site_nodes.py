# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of a published site: ``data/nodes.js`` has all nodes, ``data/node-<n>.js`` the sessions of one node.

Only nodes that an incident has named have a file of their own, so a site does not grow with nodes times sessions. When
a node is named for the first time, its earlier sessions are read from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from plumbline.identity import SeriesId, natural
from postprocess.history.beside import Beside, beside
from postprocess.incidents.known import Known
from postprocess.report import site_data
from postprocess.report.site_data import Content
from postprocess.results.store import Session, Store
from postprocess.views.nodes import places_of
from postprocess.views.series import short


class PublishedNodes:
    """The nodes of a site as they are published in `place`. Raises InputError if a file cannot be read."""

    def __init__(self, place: Path):
        self._place = place
        self._content = site_data.read(place, 'nodes', runs={}, nodes={})
        self._files: dict[str, Content] = {}  # node that an incident named -> content of its file
        self._runs: dict[str, int] = self._content['runs']
        self._nodes: dict[str, Content] = self._content['nodes']

    def update(
        self, store: Store, sessions: Sequence[Session], known: Iterable[Known], series: Mapping[SeriesId, int],
        root: Path | None = None,
    ) -> None:  # fmt: skip
        """Add what is new in the `sessions` of the store, and write the files.

        `known`: the incidents of the site. `series`: the numbers of the series. Raises InputError if the store cannot
        be read, or a file cannot be read or written.
        """
        begun = self._name(known)
        new = {session.session for session in sessions if session.runs > self._runs.get(session.session, -1)}
        self._runs |= {session.session: session.runs for session in sessions}
        for _, own in groupby(sessions, key=lambda session: session.month):
            of_month = list(own)
            for wanted, nodes in (([each for each in of_month if each.session in new], None),
                                  ([each for each in of_month if each.session not in new], begun)):  # fmt: skip
                if wanted and nodes != set():
                    for (night, name), row in beside(store, wanted, nodes).items():
                        self._add(name, wanted[night], row, series)
        for name, places in places_of(sessions[-1].site, root).items():
            if name in self._nodes and places:
                self._nodes[name]['place'] = places
        site_data.write(self._place, *self._files.values(), self._content)

    def _name(self, known: Iterable[Known]) -> set[str]:
        """Note which incidents named which nodes; return the nodes that are named for the first time."""
        for incident in known:
            own = incident.incident.own_nodes
            for name in {*own, *(name for seen in incident.seen.values() for name in seen.bad if name)}:
                days = sorted(seen.day for seen in incident.seen.values() if {name, ''} & {*seen.bad})
                if days:
                    noted = self._nodes.setdefault(name, {}).setdefault('incidents', {})
                    noted[incident.id] = [min(days[0], incident.incident.day or days[0]), days[-1], len(days)]
        named = [name for name, node in self._nodes.items() if 'incidents' in node]
        begun = {name for name in named if 'file' not in self._nodes[name]}
        number = len(named) - len(begun)
        for name in sorted(begun, key=natural):
            self._nodes[name]['file'] = number
            number += 1
        for name in named:
            self._files[name] = site_data.read(self._place, f'node-{self._nodes[name]["file"]}', node=name, rows={})
        return begun

    def _add(self, name: str, session: Session, row: Beside, series: Mapping[SeriesId, int]) -> None:
        """Add the comparison of a node in a session."""
        values = {
            'typical': short(row.typical), 'furthest': short(row.furthest),
            'series': series.get(row.series) if row.series else None, 'counted': row.counted,
        }  # fmt: skip
        node = self._nodes.setdefault(name, {})
        if session.epoch >= node.get('at', 0):
            unchanged = {key: node[key] for key in ('incidents', 'file', 'place') if key in node}
            shown = {key: value for key, value in values.items() if value not in (None, '')}
            self._nodes[name] = unchanged | {'at': session.epoch} | shown
        if name in self._files:
            self._files[name]['rows'][session.session] = list(values.values())

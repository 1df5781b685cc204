# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of a published site: ``data/nodes.js`` has all nodes, ``data/node-<n>.js`` the sessions of one node.

Only nodes that an incident has named have a file of their own, so a site does not grow with nodes times sessions. When
a node is named for the first time, its earlier sessions are read from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from plumbline.errors import InputError
from plumbline.identity import SeriesId, natural
from plumbline.site.locations import locations
from postprocess.history.beside import Beside, beside
from postprocess.incidents.known import Known
from postprocess.report.site_data import SCHEMA, Content, site_content
from postprocess.results.store import Session, Store
from postprocess.views.series import short


class PublishedNodes:
    """The nodes of a site as they are published in `place`. Raises InputError if a file cannot be read."""

    def __init__(self, place: Path):
        self._place = place
        self.content = self._read('nodes') or {'schema': SCHEMA, 'name': 'nodes', 'runs': {}, 'nodes': {}}
        self._files: dict[str, Content] = {}  # node that an incident named -> content of its file
        self._runs: dict[str, int] = self.content['runs']
        self._nodes: dict[str, Content] = self.content['nodes']

    def files(self) -> dict[Path, Content]:
        """Return path -> content of all files."""
        return {self._file(file['name']): file for file in (*self._files.values(), self.content)}

    def update(
        self, store: Store, sessions: Sequence[Session], known: Iterable[Known], series: Mapping[SeriesId, int],
        root: Path | None = None,
    ) -> None:  # fmt: skip
        """Add what is new in the `sessions` of the store.

        `known`: the incidents of the site. `series`: the numbers of the series. Raises InputError if the store cannot
        be read.
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
        self._locate(sessions[-1].site, root)

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
            file = f'node-{self._nodes[name]["file"]}'
            self._files[name] = self._read(file) or {'schema': SCHEMA, 'name': file, 'node': name, 'rows': {}}
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

    def _locate(self, site: str, root: Path | None) -> None:
        """Add the places of the nodes."""
        located: Mapping[str, set[str]] = {}
        with suppress(InputError):  # the digest reports this error
            located = locations(site, root)
        for name, node in self._nodes.items():
            if places := sorted(located.get(name, ()), key=natural):
                node['place'] = places

    def _read(self, name: str) -> Content | None:
        """Return the content of a file; None if there is none."""
        return site_content(self._file(name), self._place)

    def _file(self, name: str) -> Path:
        """Return the path of a file."""
        return self._place / f'data/{name}.js'

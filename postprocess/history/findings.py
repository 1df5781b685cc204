# SPDX-License-Identifier: BSD-3-Clause
"""What a session itself shows to be wrong, as rows of the table ``findings``; the ledger follows it over sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.causes import Code
from plumbline.identity import SeriesId
from plumbline.site.locations import locations
from postprocess.history.fleet import Fleet, fleet
from postprocess.history.fleet_events import add_events, add_problems
from postprocess.incidents import ledger
from postprocess.incidents.alike import joined
from postprocess.incidents.background import Background
from postprocess.incidents.division import apart, begun
from postprocess.incidents.draft import Draft, JudgedSession
from postprocess.incidents.failures import failures
from postprocess.incidents.incident import Incident, NodeLevel, Scope, Value, frozen
from postprocess.incidents.known import Known
from postprocess.incidents.losses import losses
from postprocess.results import judged
from postprocess.results.store import Session, Store
from postprocess.verdicts import stored
from postprocess.verdicts.rows import code_of, code_of_case
from postprocess.verdicts.stored import verdicts_of
from postprocess.verdicts.verdict import Comparison

FLEET_DAYS = 30  # days before the session that show a node's own level
_TABLE = 'findings'
_PLACES = ('partition', 'environ', 'device', 'link_class', 'place')  # fields of a scope that are one text
_PLAIN = ('kind', 'sort', 'cause', 'loss', 'since', 'day', 'sessions', 'certain', 'named', 'cost')
_LISTS = ('checks', 'nodes', 'changed', 'evidence', 'next_steps', 'archives')


class Findings:
    """What a judged session shows to be wrong, before the ledger follows it.

    `of_nodes`: None if the nodes could not be compared; then the table of places may be wrong, too.
    """

    def __init__(self, store: Store, comparison: Comparison, of_nodes: Fleet | None, root: Path | None):
        self.sessions = store.history(comparison.session)
        places = {} if of_nodes is None else locations(comparison.session.site, root)
        self.night = night = JudgedSession(store, comparison, self.sessions[:-1], places)
        self._drafts = [*failures(night), *losses(night)]
        if of_nodes is not None:
            add_events(self._drafts, of_nodes, night)
        add_problems(self._drafts, comparison.problems, night)

    def incidents(self, known: Sequence[Known] = ()) -> list[Incident]:
        """Return the incidents, the worst first.

        A person's corrections of similar incidents in `known` decide how they are divided and when they began.
        """
        night = self.night
        background = Background(night.store, self.sessions, night.comparison, night.cases)
        incidents = background.add(self._divided(known), partial(begun, known))
        return sorted(incidents, key=lambda one: (-one.severity, one.where.partition, one.checks))

    def are_changed_by(self, known: Sequence[Known]) -> bool:
        """Return True if the incidents would be others without `known`."""
        dated = any(leaf.dated for one in known for leaf in (one, *one.leaves))
        return dated or self._divided(known) != self._divided(())

    def _divided(self, known: Sequence[Known]) -> list[Draft]:
        """Return the incidents in the making, those of nodes with one cause together and corrected ones apart."""
        return [
            replace(draft, where=replace(draft.where, same_nodes=self._beside(draft))) if draft.where.place else draft
            for draft in apart(joined(self._drafts, known, self.night), known)
        ]

    def _beside(self, draft: Draft) -> tuple[str, ...]:
        """Return the other places with the same nodes."""
        return self.night.same_nodes(draft.where.place, draft.where.partition)

    def rows(self, incidents: Sequence[Incident]) -> list[dict[str, Any]]:
        """Return the rows of the table ``findings``."""
        codes = code_of_case(self.night.cases)
        known = [(row, code) for row in self.night.comparison.verdicts if (code := code_of(row, codes))]

        def most(incident: Incident) -> Code | None:
            """Return the code of the cause of most of its verdicts."""
            own = Counter(code for row, code in known if incident.holds(row.id, row.nodes))
            return own.most_common(1)[0][0] if own and incident.sort == 'failure' else None

        return [_to_row(incident, most(incident)) for incident in incidents]


def findings_of(store: Store, session: Session, root: Path | None = None) -> list[Incident]:
    """Return what a session itself shows to be wrong, the worst first: stored, else found and stored.

    Raises InputError, SiteError.
    """
    before = follows_from(store, session, root)
    if known := judged.read(store, _TABLE, session, before, partial(_from_row, session)):
        return known[1]
    comparison = verdicts_of(store, session, root)
    found = Findings(store, comparison, fleet(store, session, FLEET_DAYS, store.folder.parent, root), root)
    incidents = found.incidents()
    keep(found, incidents, before, root)
    return incidents


def keep(found: Findings, incidents: Sequence[Incident], before: str, root: Path | None) -> None:
    """Store the incidents of a session if they still follow from what they followed from `before` they were found."""
    store, session = found.night.store, found.night.session
    if follows_from(store, session, root) == before:
        judged.write(store, _TABLE, session, before, found.rows(incidents))


def are_kept(store: Store, session: Session, before: str) -> bool:
    """Return True if the findings of a session are stored and follow from `before`, of `follows_from`."""
    return judged.is_stored(store, _TABLE, session, before)


def follows_from(store: Store, session: Session, root: Path | None = None) -> str:
    """Return a checksum of all that findings follow from: verdicts, and the nodes that stood out up to that day."""
    return stored.follows_from(store, session, root, *(
        f'{entry.session} {entry.node}' for entry in ledger.entries(store.folder.parent, session.site)
        if entry.date <= session.day and entry.session != session.session
    ))  # fmt: skip


def judge_all(store: Store, table: str, sessions: Sequence[Session], root: Path | None = None) -> None:
    """Judge those of `sessions` whose rows of `table`, ``verdicts`` or ``findings``, are not stored as they are today.

    Raises InputError, SiteError.
    """
    known, judge = (stored.follows_from, verdicts_of) if table == stored.TABLE else (follows_from, findings_of)
    for session in sessions:
        if not judged.is_stored(store, table, session, known(store, session, root)):
            judge(store, session, root)


def _to_row(incident: Incident, code: Code | None) -> dict[str, Any]:
    where = incident.where
    return {
        **{name: getattr(incident, name) for name in (*_PLAIN, *_LISTS)}, **_interval(incident.interval), 'code': code,
        **{name: getattr(where, name) for name in _PLACES}, 'scope_nodes': where.nodes, 'same_nodes': where.same_nodes,
        'series': [of.to_row() | _of_value(incident.values.get(of)) for of in incident.series],
        'levels': [vars(level) | level.series.to_row() for level in incident.levels],
    }  # fmt: skip


def _of_value(value: Value | None) -> dict[str, Any]:
    return vars(value) | _interval(value.interval) if value else {}


def _interval(ends: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = ends or (None, None)
    return {'loss_low': low, 'loss_high': high}


def _ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    return None if row['loss_low'] is None else (row['loss_low'], row['loss_high'])


def _from_row(session: Session, row: Mapping[str, Any]) -> Incident:
    where = Scope(
        session.site, **{name: row[name] for name in _PLACES}, nodes=tuple(row['scope_nodes']),
        same_nodes=tuple(row['same_nodes']),
    )  # fmt: skip
    values = {
        SeriesId.from_row(of): Value(
            of['unit'], of['better'], of['value'], of['n'], of['expected'], of['loss'], _ends(of)
        )
        for of in row['series']
        if of['unit'] is not None  # else it was not judged
    }
    levels = (
        NodeLevel(SeriesId.from_row(of), of['node'], of['value'], of['better'], of['ratio']) for of in row['levels']
    )
    return Incident(
        where=where, series=tuple(map(SeriesId.from_row, row['series'])), values=values, levels=tuple(levels),
        interval=_ends(row), **{name: frozen(row[name]) for name in (*_PLAIN, *_LISTS)},
    )  # fmt: skip

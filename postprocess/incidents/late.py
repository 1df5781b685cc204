# SPDX-License-Identifier: BSD-3-Clause
"""Enter a session that is judged after newer ones into the ledger, in chronological order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from postprocess.incidents.incident import Incident
from postprocess.incidents.known import Known, Seen, ledger_after, started
from postprocess.results.store import Session

#: Later sessions that are judged again for an incident that the late session shows.
LATER = 14

#: Returns the nodes (or one empty name) of an incident that a session shows to be bad, and those that it shows healthy.
Shows = Callable[[Session, Known], tuple[set[str], set[str]]]


def enter(
    ledger: Sequence[Known], then: Sequence[Known], session: Session, later: Sequence[Session], shows: Shows
) -> tuple[list[Known], dict[str, str], list[str]]:
    """Return the ledger with the findings of a late session, old id -> new id, and notes on what was not examined.

    `then`: the incidents of the session, as known when it ran. `later`: the sessions after it, in order; the first
    `LATER` of them are examined for the incidents of this session. An incident that a later session found keeps its id.
    """
    whole = {incident.id: incident for incident in ledger}
    ids: dict[str, str] = {}
    notes: list[str] = []
    for id in {incident.id for incident in ledger if session.session in incident.seen} - {
        incident.id for incident in then
    }:
        _put(whole, _without(whole[id], session))
    for incident in then:
        known, row = whole.get(incident.id), incident.seen.get(session.session)
        if known is None:
            known = incident
        else:
            known = _without(known, session)
            known = _with(known, incident, session)
        if row and row.bad:
            followed = _followed(known, later[:LATER], shows, whole)
            if followed.id != incident.id:
                ids[incident.id] = followed.id
            known = followed
            unseen = [missed for missed in later[LATER:] if missed.session not in known.seen]
            if unseen and not known.closed:
                notes.append(
                    f'incident {known.id}: only the first {LATER} of the {len(later)} sessions after session '
                    f'{session.short_name} were looked at for it; the next session that measures it tells its state'
                )
        _put(whole, known)
    return list(whole.values()), ids, notes


def _put(whole: dict[str, Known], incident: Known) -> None:
    """Replace an incident, or remove it if no session shows it any more."""
    if any(seen.bad for seen in incident.seen.values()):
        whole[incident.id] = incident
    else:
        whole.pop(incident.id, None)


def _without(incident: Known, session: Session) -> Known:
    """Return an incident without the entry of a session."""
    return incident.of_sessions(lambda uuid, _: uuid != session.session)


def _with(known: Known, told: Known, session: Session) -> Known:
    """Return a known incident with the entries of `session` on it or its parts, taken from `told`."""
    own = {leaf.id: leaf for leaf in told.leaves}

    def more(leaf: Known) -> Known:
        """Return one part with its entry."""
        row = own[leaf.id].seen.get(session.session) if leaf.id in own else None
        return _with_rows(leaf, own[leaf.id].incident, {session.session: row}) if row else leaf

    return known.each(more)


def _with_rows(known: Known, incident: Incident, rows: dict[str, Seen]) -> Known:
    """Return a known incident with the entries `rows` of other sessions.

    `incident`: its form in the last of these sessions.
    """
    seen = dict(sorted((known.seen | rows).items(), key=lambda item: (item[1].started, item[0])))
    last = [uuid for uuid, entry in seen.items() if entry.bad][-1:]
    newest = incident if not known.seen or (last and last[0] in rows) else known.incident
    first = min(known.incident, incident, key=lambda one: one.day)
    return replace(known, seen=seen, incident=replace(newest, since=first.since, day=first.day))


def _followed(incident: Known, later: Sequence[Session], shows: Shows, whole: dict[str, Known]) -> Known:
    """Return an incident with the entries of later sessions, until it is closed or another session found it, too."""
    for session in later:
        before = _before(incident, session)
        if before.closed:
            break
        for other in whole.values():
            if other.id != incident.id and not incident.parts and (same := _same_leaves(before, other, session)):
                return other.each(partial(_joined, before=before, ids=same))
        if session.session not in incident.seen:
            (now,) = ledger_after([before], session, [], partial(shows, session), lambda _: False, incident.results)
            incident = _with(incident, now, session)
    return incident


def _before(known: Known, session: Session) -> Known:
    """Return an incident with the entries before a session only."""
    return known.of_sessions(lambda _, seen: seen.started < started(session))


def _joined(known: Known, before: Known, ids: set[str]) -> Known:
    """Return an incident merged with its earlier form; an incident whose id is not in `ids` is unchanged."""
    if known.id not in ids:
        return known
    joined = _with_rows(known, before.incident, before.seen)
    return replace(joined, incident=replace(joined.incident, sessions=before.incident.sessions))


def _same_leaves(incident: Known, other: Known, session: Session) -> set[str]:
    """Return the ids of the parts of `other` that `session` found, although `incident` was known before."""
    leaves = (leaf for leaf in other.leaves if leaf.seen and leaf.first == session.session)
    return {leaf.id for leaf in leaves if _same(incident, leaf, session)}


def _same(incident: Known, other: Known, session: Session) -> bool:
    """Return True if `other`, which `session` found, was known before it as `incident`."""
    judged = ledger_after(
        [incident], session, [other.incident], lambda _: (set(), set()), lambda _: False, incident.results
    )
    return len(judged) == 1 and other.likeness(incident.incident) > 0

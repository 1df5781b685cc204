# SPDX-License-Identifier: BSD-3-Clause
"""What persons note on incidents: acknowledged, closed, several are one, a part is another one, or when one began."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from plumbline import clock
from plumbline.errors import InputError
from postprocess.incidents import notes
from postprocess.incidents.background import BACK
from postprocess.incidents.known import Known
from postprocess.incidents.ledger import Ledger, find, read_ledger
from postprocess.incidents.levels import began, levels
from postprocess.incidents.notes import Began, Note, Selection, What
from postprocess.incidents.part import Part
from postprocess.incidents.splits import new_id, sides
from postprocess.results.store import Session, Store
from postprocess.text import count

_SORTS = {'loss': 'a loss of performance', 'failure': 'a failure', 'session': 'a problem of a session'}
_NAMED = 5  # most cases, metrics or nodes that an error names


def acknowledge(results: Path, id: str, why: str, until: str, site: str | None = None) -> Known:
    """Note why an incident may stay, and until which day; return it. Raises InputError."""
    name, known = find(results, id, site)
    try:
        until = date.fromisoformat(until).isoformat()
    except ValueError:
        raise InputError(f'--until: expected a day such as 2026-12-31, found {until!r}') from None
    if until < (day := Ledger(Store(results), name).last[:10]):
        raise InputError(f'--until: {until} is before the last session, which was on {day}')
    if known.closed:
        raise InputError(f'incident {known.id} was closed on {known.closed}: there is nothing to acknowledge')
    return _written(results, name, 'acknowledged', [known], why, until=until)[0]


def end_acknowledgement(results: Path, id: str, why: str, site: str | None = None) -> Known:
    """Note that an incident may not stay any longer; return it. Raises InputError."""
    name, known = find(results, id, site)
    if not known.acknowledged:
        raise InputError(f'incident {known.id} is not acknowledged')
    return _written(results, name, 'not acknowledged', [known], why)[0]


def close(results: Path, id: str, why: str, site: str | None = None) -> Known:
    """Note that an incident is over, whatever was measured; return it. Raises InputError."""
    name, known = find(results, id, site)
    _must_last(known)
    return _written(results, name, 'closed', [known], why)[0]


def merge(results: Path, ids: Sequence[str], why: str, site: str | None = None) -> Known:
    """Merge incidents into the first of them, and return it. Raises InputError."""
    named = [find(results, id, site) for id in ids]
    known = [incident for _, incident in named]
    if len({incident.id for incident in known}) < max(2, len(known)):
        raise InputError(
            f'ID: expected at least two different incidents, found {", ".join(incident.id for incident in known)}'
        )
    (name, first), *others = named
    for other, incident in others:
        if other != name:
            raise InputError(
                f'incident {first.id} is of site {name}, {incident.id} of {other}: one site has no part of it'
            )
    for incident in known:
        _must_last(incident)
    for incident in known[1:]:
        if (one_is := _SORTS[incident.incident.sort]) != (first_is := _SORTS[first.incident.sort]):
            raise InputError(
                f'incident {first.id} is {first_is}, {incident.id} {one_is}: expected incidents of one sort'
            )
    return _written(results, name, 'merged', known, why)[0]


def split(results: Path, id: str, by: Selection, why: str, site: str | None = None) -> tuple[Known, Known]:
    """Make a part of an incident an incident of its own; return the part and the rest. Raises InputError."""
    if bool(by.node) == bool(by.case or by.metric):
        raise InputError('expected --case or --metric or both, or --node alone: which part becomes an incident')
    name, known = find(results, id, site)
    _must_last(known)
    if known.incident.sort == 'session':
        raise InputError(f'incident {known.id} is a problem of a session: it has no parts')
    made = new_id(f'{known.id} {by}', {id_ for other in read_ledger(results, name) for id_ in other.ids})
    both = sides(known, by, made, {})
    if not all(both):
        how_much = 'all' if both[0] else 'nothing'
        raise InputError(f'{by} takes {how_much} of incident {known.id}: expected a part of {parts_in(known, by)}')
    store = Store(results)
    parts = [part for side in both if side for part in side.parts if not part.dated]
    begun = {part.id: at for part in parts if (at := _began(part, store, store.sessions(name)))}
    part, rest = _written(results, name, 'split', [known], why, part=by, made=made, began=begun)
    return part, rest


def date_it(results: Path, id: str, day: str, why: str, site: str | None = None) -> Known:
    """Note the day or session in which an incident began, and return the incident. Raises InputError."""
    name, known = find(results, id, site)
    sessions = Store(results).sessions(name)
    since, day = session_from(sessions, day)
    first = known.bad[0]
    if day > first.day or since.time > first.started:
        raise InputError(f'DAY: {day} is after {first.day}, when a session showed incident {known.id} first')
    until_found = sum(since.time <= session.time <= first.started for session in sessions)
    begun = {known.id: Began(day, since.session, until_found)}
    return _written(results, name, 'dated', [known], why, began=begun, was=known.incident.day)[0]


def _written(results: Path, site: str, what: What, known: Sequence[Known], why: str, **more: Any) -> list[Known]:
    """Write a note of the present user on incidents; return these, behind the one that a split made, as they are then.

    Raises InputError for an empty reason.
    """
    last, today = Ledger(Store(results), site).last, f'{clock.now():%Y-%m-%d}'
    note = Note(what, tuple(one.id for one in known), notes.reason(why), notes.user(), today, last, **more)
    notes.append(results, site, note)
    now = read_ledger(results, site)
    return [one for id in (note.made, *note.ids) for one in now if id and one.id == id]


def _must_last(known: Known) -> None:
    """Raise InputError if an incident is closed."""
    if known.closed:
        raise InputError(f'incident {known.id} was closed on {known.closed}: only those that last can be corrected so')


def parts_in(known: Known, by: Selection) -> str:
    """Return the names among which a selection can choose."""
    series = sorted(known.incident.series, key=lambda series: series.sort_key)
    names = (
        known.incident.nodes if by.node
        else dict.fromkeys(of.name for of in series) if by.metric
        else dict.fromkeys(str(of.case) for of in series)
    )  # fmt: skip
    shown = list(names)[:_NAMED]
    more = f' and {count(len(names) - len(shown), "other")}' if len(names) > len(shown) else ''
    return (', '.join(shown) or 'its nodes, and it names none') + more


def _began(part: Part, store: Store, sessions: Sequence[Session]) -> Began | None:
    """Return in which session the series of a part fell; None without their levels."""
    sessions = [session for session in sessions if session.time <= part.bad[-1].started][-BACK:]
    level = levels(store, sessions, {part.id: [part.incident]})
    if not level:
        return None
    since = sessions[began(level[part.id], part.incident.loss or 0.0, len(sessions) - 1)]
    first = next(entry.started for entry in part.bad if entry.started >= since.time)
    until_found = sum(since.time <= session.time <= first for session in sessions)
    rest = tuple(uuid for uuid, entry in part.seen.items() if entry.started < since.time)
    return Began(since.day, since.session, until_found, rest)


def session_from(sessions: Sequence[Session], text: str) -> tuple[Session, str]:
    """Return the first session since a day, or the session whose uuid begins with `text`; and its day.

    Raises InputError.
    """
    try:
        day = date.fromisoformat(text).isoformat()
    except ValueError:
        beginning = [session for session in sessions if text and session.session.startswith(text)]
        if len(beginning) == 1:
            return beginning[0], beginning[0].day
        is_it = 'the beginning of several' if beginning else 'neither'
        expected = 'expected a day such as 2026-11-22, or the beginning of the uuid of a session'
        raise InputError(f'DAY: {expected}; {text!r} is {is_it}') from None
    if day < sessions[0].day:
        raise InputError(f'DAY: {day} is before the first session of the store, which was on {sessions[0].day}')
    if day > sessions[-1].day:
        raise InputError(f'DAY: {day} is after the last session of the store, which was on {sessions[-1].day}')
    return next(session for session in sessions if session.day >= day), day

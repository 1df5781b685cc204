# SPDX-License-Identifier: BSD-3-Clause
"""Correct incidents of the ledger: merge several, split one, or say when one began.

Later sessions keep the correction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from plumbline import clock
from plumbline.errors import InputError
from postprocess.incidents import ledger
from postprocess.incidents.background import BACK
from postprocess.incidents.correction import Began, Correction, Selection, Was
from postprocess.incidents.division import part_of
from postprocess.incidents.incident import Incident
from postprocess.incidents.known import ID_DIGITS, Known, of_parts, started
from postprocess.incidents.levels import began, levels
from postprocess.results.store import Session, Store
from postprocess.text import count

_SORTS = {'loss': 'a loss of performance', 'failure': 'a failure', 'session': 'a problem of a session'}
_NAMED = 5  # most cases, metrics or nodes that an error names


def merge(results: Path, ids: Sequence[str], why: str, site: str | None = None) -> Known:
    """Merge incidents into the first of them, and return it. Raises InputError."""
    why = ledger.reason(why)
    named = [ledger.find(results, id, site) for id in ids]
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
    parts = [
        replace(leaf, dated=incident.dated or leaf.dated, acknowledged=None, corrections=())
        for incident in known
        for leaf in incident.leaves
    ]
    before = dict.fromkeys(id for incident in known for id in incident.before)
    done = dict.fromkeys(correction for incident in known for correction in incident.corrections)
    done[_correction('merged', why, known)] = None
    whole = Known(first.id, first.incident, before=tuple(before), results=results, corrections=tuple(done))
    whole = of_parts(whole, parts)
    noted = [incident.acknowledged for incident in known]
    if all(noted):  # else someone acknowledged only a part of it
        last = min((incident for incident in noted if incident), key=lambda one: one.until)
        reasons = '; '.join(dict.fromkeys(incident.why for incident in noted if incident))
        last = replace(last, why=reasons, seen=whole.last_bad, series=len(whole.incident.series))
        whole = replace(whole, acknowledged=last)
    ledger.write(results, name, known, [whole])
    return whole


def split(results: Path, id: str, by: Selection, why: str, site: str | None = None) -> tuple[Known, Known]:
    """Make a part of an incident an incident of its own; return the part and the rest. Raises InputError."""
    why = ledger.reason(why)
    if bool(by.node) == bool(by.case or by.metric):
        raise InputError('expected --case or --metric or both, or --node alone: which part becomes an incident')
    name, known = ledger.find(results, id, site)
    _must_last(known)
    if known.incident.sort == 'session':
        raise InputError(f'incident {known.id} is a problem of a session: it has no parts')
    sides = [[part for leaf in known.leaves if (part := part_of(leaf, by, taken))] for taken in (True, False)]
    if not all(sides):
        how_much = 'all' if sides[0] else 'nothing'
        raise InputError(f'{by} takes {how_much} of incident {known.id}: expected a part of {_parts_in(known, by)}')
    store = Store(results)
    sessions = store.sessions(name)
    taken = {id_ for other in ledger.read_ledger(results, name) for id_ in other.ids}
    new = _new_id(f'{known.id} {by}', taken)
    correction = _correction('split', why, [known], new, str(by))
    inside = [replace(leaf, id=_new_id(f'{leaf.id} {by}', {*taken, new})) for leaf in sides[0]]
    dates = [id_ for id_ in known.corrections if id_.what == 'dated']  # the rest keeps the other corrections
    part = _side(replace(known, id=new, corrections=(*dates, correction)), inside, store, sessions)
    rest = _side(replace(known, corrections=(*known.corrections, correction)), sides[1], store, sessions)
    ledger.write(
        results, name, [known], [part, rest]
    )  # until the rest is written with the correction, the part does not count
    return part, rest


def date_it(results: Path, id: str, day: str, why: str, site: str | None = None) -> Known:
    """Note the day or session in which an incident began, and return the incident. Raises InputError."""
    why = ledger.reason(why)
    name, known = ledger.find(results, id, site)
    sessions = Store(results).sessions(name)
    since, day = _since(sessions, day)
    first = next(entry for entry in known.seen.values() if entry.bad)
    if day > first.day or started(since) > first.started:
        raise InputError(f'DAY: {day} is after {first.day}, when a session showed incident {known.id} first')
    until_found = sum(started(since) <= started(entry) <= first.started for entry in sessions)
    correction = _correction('dated', why, [known])
    dated = replace(
        known.each(lambda leaf: replace(leaf, incident=_undated(leaf.incident))),
        dated=Began(day, since.session, until_found), corrections=(*known.corrections, correction),
    )  # fmt: skip
    ledger.write(results, name, [known], [dated])
    return dated


def _undated(incident: Incident) -> Incident:
    """Return an incident without what changed when it seemed to begin.

    The next judged session looks for changes again.
    """
    kind = incident.kind
    if kind == 'SOFTWARE':
        kind = 'NODE' if incident.where.nodes else 'SYSTEM'
    return replace(incident, kind=kind, changed=())


def _must_last(known: Known) -> None:
    """Raise InputError if an incident is closed."""
    if known.closed:
        raise InputError(f'incident {known.id} was closed on {known.closed}: only those that last can be corrected so')


def _correction(kind: str, why: str, known: Sequence[Known], made: str = '', part: str = '') -> Correction:
    """Return the correction of `known` by the present user, today."""
    before = tuple(
        Was(
            incident.id,
            incident.incident.title,
            incident.incident.day,
            incident.incident.since,
            incident.incident.changed,
        )
        for incident in known
    )
    return Correction(kind, why, ledger.user(), f'{clock.now():%Y-%m-%d}', before, made, part)


def _new_id(text: str, taken: set[str]) -> str:
    """Return an unused id that depends only on `text` and the ids `taken`."""
    number = 0
    while (id := hashlib.sha256(f'{text} {number}'.encode(errors='replace')).hexdigest()[:ID_DIGITS]) in taken:
        number += 1
    return id


def _parts_in(known: Known, by: Selection) -> str:
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


def _side(known: Known, leaves: Sequence[Known], store: Store, sessions: Sequence[Session]) -> Known:
    """Return one of the two incidents into which `known` was split, from its `leaves`."""
    leaves = [leaf if known.dated or leaf.dated else _begun(leaf, store, sessions) for leaf in leaves]
    if len(leaves) == 1:
        side = replace(
            leaves[0], id=known.id, acknowledged=known.acknowledged, before=known.before,
            dated=known.dated or leaves[0].dated, corrections=known.corrections,
        )  # fmt: skip
    else:
        side = of_parts(known, leaves)
    if side.acknowledged:
        noted = replace(side.acknowledged, seen=side.last_bad, series=len(side.incident.series))
        side = replace(side, acknowledged=noted)
    return side


def _begun(known: Known, store: Store, sessions: Sequence[Session]) -> Known:
    """Return a part of a loss, beginning with the session in which its own series fell."""
    sessions = [entry for entry in sessions if started(entry) <= known.last_bad.started][-BACK:]
    level = levels(store, sessions, {known.id: [known.incident]})
    if not level:
        return known
    since = sessions[began(level[known.id], known.incident.loss or 0.0, len(sessions) - 1)]
    seen = {uuid: entry for uuid, entry in known.seen.items() if entry.started >= started(since)}
    first = next(entry for entry in seen.values() if entry.bad).started
    until_found = sum(started(since) <= started(entry) <= first for entry in sessions)
    incident = replace(known.incident, since=since.session, day=since.day, sessions=until_found)
    return replace(known, incident=incident, seen=seen)


def _since(sessions: Sequence[Session], text: str) -> tuple[Session, str]:
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

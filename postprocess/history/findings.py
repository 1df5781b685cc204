# SPDX-License-Identifier: BSD-3-Clause
"""Store what judged sessions show, from which the ledger follows.

It is found once for the reports of a session, by the references and the notes of that day: later ones do not change
what a night of the past told. Only the newest session is looked at again when something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from plumbline.errors import SiteError
from plumbline.identity import SeriesId
from postprocess.history.verdicts import are_stored, ledger_of, verdicts_of
from postprocess.incidents.fold import Folded, Look, Night, after, fold
from postprocess.incidents.healing import looks_at
from postprocess.incidents.known import Known
from postprocess.incidents.ledger import Ledger, note_judged
from postprocess.incidents.rows import TABLE, facts_from_json, facts_to_json, from_row, to_row
from postprocess.incidents.shown import shown_by
from postprocess.results import judged
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts import stored
from postprocess.verdicts.baseline_files import read_baseline, retired
from postprocess.verdicts.verdict import Comparison


def findings_of(
    store: Store, ledger: Ledger, comparison: Comparison, root: Path | None = None, newest: bool = True,
    keep: bool = True, anew: bool = False,
) -> Night:  # fmt: skip
    """Return what the session of a comparison shows, by the references of today; found, unless that was done before.

    With `keep`, it is stored if the session is the `newest` of its site, or was never judged with all its reports: what
    an older session told at its time stays. `anew`: nothing stored is used. Raises InputError, SiteError.
    """
    session, before = comparison.session, ledger.before(comparison.session)
    state = follows_from(store, session, ledger, before, root)
    known = None if anew else judged.read(store, TABLE, session, state, partial(from_row, session))
    if known:
        return Night(session, known[1], facts_from_json(known[0]))
    gone: frozenset[SeriesId] = frozenset()
    with suppress(SiteError):  # a problem of the session names a file that is wrong
        gone = retired(session.site, root)
    found = shown_by(comparison.with_stand_ins, ledger, before, gone, root)
    told = ledger.facts_of(session)
    late = not newest and (told is None or told.runs != session.runs)
    if keep and (newest or late):
        _write(store, found, state)
        note_judged(ledger.results, session)
        if late:
            return _enter(store, ledger, found, root)
    return found


def follows_from(store: Store, session: Session, ledger: Ledger, before: Folded, root: Path | None = None) -> str:
    """Return a checksum of all that findings follow from: verdicts, incidents before, and their dates by persons."""
    known = [f'{part.key} {list(part.seen)}' for part in before.parts]
    return stored.follows_from(store, session, root, *known, *(f'{part.key} {begin}' for part, begin in ledger.dated))


def judge_all(store: Store, table: str, sessions: Sequence[Session], root: Path | None = None) -> None:
    """Judge those of `sessions`, in order, whose rows of `table`, ``verdicts`` or ``findings``, are not stored.

    Of verdicts, those that are not as they would be today. Raises InputError, SiteError.
    """

    @cache
    def ledger_of_site() -> Ledger:
        return ledger_of(store, sessions[0].site, sessions[0])  # as it was known then

    for session in sessions:
        if table == TABLE:
            ledger = Ledger(store, session.site, session)
            if not ledger.facts_of(session):
                newest = session.session == ledger.sessions[-1].session
                findings_of(store, ledger, verdicts_of(store, session, root), root, newest)
        elif not are_stored(store, session, root, ledger_of_site):
            verdicts_of(store, session, root, ledger=ledger_of_site)


def never_judged(ledger: Ledger, root: Path | None = None) -> str:
    """Return a sentence on the sessions that nobody judged, with the command that judges the first; empty without any.

    What a baseline was recorded from, a person has seen.
    """
    if not (unjudged := ledger.unjudged):
        return ''
    recorded = {name for row in read_baseline(ledger.site, root) for name in row.sessions}
    if not (left := [one for one in unjudged if one.short_name not in recorded]):
        return ''
    command = ledger.store.command(f'compare {left[0].short_name}', ledger.site, root)
    return f'{count(len(left), "session")} never judged: {command}'


def _write(store: Store, found: Night, state: str) -> None:
    """Store what a session shows. Raises InputError."""
    judged.write(store, TABLE, found.session, state, map(to_row, found.incidents), facts_to_json(found.facts))


def _enter(store: Store, ledger: Ledger, late: Night, root: Path | None) -> Night:
    """Let the sessions after a late one, which was just stored, tell of the incidents that it shows; return it.

    An incident that a later session told first keeps its id. Raises InputError, SiteError.
    """
    own = late.session.session
    others = [night for night in ledger.whole().nights if night.session.session != own]
    before = fold(others, Folded()).known
    state = fold([*(night for night in others if night.key < late.key), late], Folded())
    asked: list[tuple[Night, dict[str, Look]]] = []  # a session, and its looks at incidents of the late one
    for night in others:
        if night.key > late.key:
            unseen = [part for part in state.parts if own in part.seen and part.key not in night.facts.looks]
            if unseen:
                comparison = verdicts_of(store, night.session, root).with_stand_ins
                looks = looks_at(unseen, comparison, store.cases(night.session), night.incidents)
                asked.append((night, looks))
                night = replace(night, facts=replace(night.facts, looks=night.facts.looks | looks))
            state = after(state, night)
    ids = {id: _known_since(id, own, before, state.known) for id in late.facts.ids.values()}
    for night, looks in asked:
        named = {ids.get(key, key): look for key, look in looks.items()} | night.facts.looks
        judged.replace_facts(store, TABLE, night.session, facts_to_json(replace(night.facts, looks=named)))
    late = replace(late, facts=replace(late.facts, ids={told: ids[id] for told, id in late.facts.ids.items()}))
    judged.replace_facts(store, TABLE, late.session, facts_to_json(late.facts))
    return late


def _known_since(id: str, late: str, before: Sequence[Known], after: Sequence[Known]) -> str:
    """Return the id under which later sessions told an incident before, if a late session tells it first now."""
    ids = {one.id for one in after}
    now = [one for one in after if one.id == id and one.first == late]
    gone = (was for was in before if was.id not in ids)
    return next((was.id for one in now for was in gone if was.first in one.seen and one.likeness(was.incident)), id)

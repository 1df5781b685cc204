# SPDX-License-Identifier: BSD-3-Clause
"""Find what a judged session shows to be wrong, and what of the incidents before it; the ledger follows from that.

It is found once for the reports of a session, by the references and the notes of that day: later ones do not change
what a night of the past told. Only the newest session is looked at again when something changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.site.locations import locations
from postprocess.history.verdicts import are_stored, ledger_of, verdicts_of
from postprocess.incidents.alike import joined
from postprocess.incidents.background import Background
from postprocess.incidents.draft import JudgedSession
from postprocess.incidents.failures import failures
from postprocess.incidents.fold import Folded, Look, Night, NightFacts, after, fold, told_as
from postprocess.incidents.healing import is_recorded, seen_again
from postprocess.incidents.incident import Incident, in_names
from postprocess.incidents.known import Known
from postprocess.incidents.ledger import Ledger, note_judged
from postprocess.incidents.losses import losses
from postprocess.incidents.part import Part
from postprocess.incidents.problems import add_problems
from postprocess.incidents.rows import TABLE, facts_from_json, facts_to_json, from_row, to_row
from postprocess.results import judged
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.verdicts import stored
from postprocess.verdicts.stand_in import FEWEST_NODES
from postprocess.verdicts.verdict import Comparison

_LATELY = 3  # sessions before: a node that most of them measured is missed
_MEASURED = f"""
    SELECT count(DISTINCT night) AS nights, node
    FROM (SELECT night, nodes[1] AS node, "partition", environ, "check", params FROM cases
        WHERE NOT fixture AND len(nodes) = 1)
    SEMI JOIN (
        SELECT "partition", environ, "check", params FROM cases
        WHERE night = (SELECT max(night) FROM nights) AND NOT fixture AND len(nodes) = 1
        GROUP BY ALL HAVING count(DISTINCT nodes) >= {FEWEST_NODES}
    ) USING ("partition", environ, "check", params)
    WHERE night < (SELECT max(night) FROM nights)
    GROUP BY node HAVING 2 * nights > {_LATELY}
"""


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
    found = _find(store, ledger, comparison.with_stand_ins, before, root)
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


def _find(store: Store, ledger: Ledger, comparison: Comparison, before: Folded, root: Path | None) -> Night:
    """Look for what a session shows, with what stands in for baselines; `before`: the incidents before it."""
    session, fault = comparison.session, comparison.fault
    sessions, cases = store.history(session), store.cases(session)
    places: dict[str, set[str]] = {}
    try:
        places = locations(session.site, root)
    except (InputError, SiteError) as error:
        fault = f'the nodes were not compared: {error}'
    night = JudgedSession(store, comparison, sessions[:-1], places, before.slow)
    drafts = [*failures(night), *losses(night)]
    add_problems(drafts, comparison.problems, night)
    drafts = joined(drafts, before.parts, night)
    for draft in drafts:
        if draft.rows and all(row.reference and row.reference.kind == 'session' for row in draft.rows):
            # without further jobs, which only a baseline asks for, a single job proves nothing
            draft.certain = len({row.case_id for row in draft.rows}) > 1 or any(row.window > 1 for row in draft.rows)
        if draft.where.place:
            draft.where = replace(draft.where, same_nodes=night.same_nodes(draft.where.place, draft.where.partition))
    incidents = Background(night).add(drafts, partial(_begun, ledger.dated))
    incidents.sort(key=lambda one: (-one.severity, one.where.partition, one.checks))
    # an incident that was split or merged after this session had its form of today and another one
    then = ledger.before(session, noted_later=False)
    parts = {part.key: part for state in (before, then) for part in state.parts}
    looks, was = _looks(parts.values(), comparison, cases, incidents), ledger.facts_of(session) or NightFacts()
    found = Night(session, incidents, NightFacts(session.runs, looks, was.ids, _absent(store, sessions, cases), fault))
    return replace(found, facts=replace(found.facts, ids=told_as(then, found)))


def _absent(store: Store, sessions: Sequence[Session], cases: Sequence[CaseRow]) -> tuple[str, ...]:
    """Return the nodes that did not run in the last session, and measured its cases in most of those just before."""
    ran = {node for case in cases for node in case.nodes}
    lately = {row['node'] for row in store.select(_MEASURED, sessions[-1 - _LATELY :])}
    return in_names(lately - ran)


def _begun(dated: Sequence[tuple[Part, str]], incident: Incident) -> str:
    """Return the session in which an incident began, if a person dated a known incident like it; else an empty text."""
    return next((session for part, session in dated if part.likeness(incident)), '')


def _looks(
    parts: Iterable[Part], comparison: Comparison, cases: Sequence[CaseRow], tonight: Sequence[Incident]
) -> dict[str, Look]:
    """Return what a session, which shows the incidents `tonight`, shows of those known before, by their keys."""
    looks = {}
    for part in parts:
        bad, healthy = seen_again(part, comparison, cases, tonight)
        look = Look(in_names(bad), in_names(healthy), is_recorded(part, comparison))
        if look != Look():
            looks[part.key] = look
    return looks


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
                looks = _looks(unseen, comparison, store.cases(night.session), night.incidents)
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

# SPDX-License-Identifier: BSD-3-Clause
"""Find what a judged session shows: its incidents, and how those known before it fare."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.identity import SeriesId
from plumbline.site.locations import locations
from postprocess.incidents.alike import joined
from postprocess.incidents.background import Background
from postprocess.incidents.draft import JudgedSession
from postprocess.incidents.failures import failures
from postprocess.incidents.fold import Folded, Night, NightFacts, told_as
from postprocess.incidents.healing import looks_at
from postprocess.incidents.ledger import Ledger
from postprocess.incidents.losses import losses
from postprocess.incidents.nodes import absent, booted
from postprocess.incidents.part import begun
from postprocess.incidents.problems import add_problems
from postprocess.verdicts.verdict import Comparison


def shown_by(
    comparison: Comparison, ledger: Ledger, before: Folded, retired: Set[SeriesId], root: Path | None
) -> Night:  # fmt: skip
    """Return what a session shows, judged with what stands in for baselines.

    `before`: the incidents before it. `retired`: see `looks_at`.
    """
    session, fault, store = comparison.session, comparison.fault, ledger.store
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
    incidents = Background(night).add(drafts, partial(begun, ledger.dated))
    incidents.sort(key=lambda one: (-one.severity, one.where.partition, one.checks))
    # an incident that was split or merged after this session had its form of today and another one
    then = ledger.before(session, noted_later=False)
    parts = {part.key: part for state in (before, then) for part in state.parts}
    looks = looks_at(parts.values(), comparison, cases, incidents, retired)
    was = ledger.facts_of(session) or NightFacts()
    facts = NightFacts(
        session.runs, looks, was.ids, absent(store, sessions, cases), fault, booted(cases, session, sessions[:-1])
    )
    found = Night(session, incidents, facts)
    return replace(found, facts=replace(found.facts, ids=told_as(then, found)))

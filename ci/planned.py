# SPDX-License-Identifier: BSD-3-Clause
"""A night with a limit of minutes: `plumbline plan` chooses among the cases that ReFrame would run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from ci.cases import Case, place_of
from ci.isolated import isolated
from ci.session import CaseSelection, PlannedSession
from ci.sweep import Sweep
from plumbline.errors import InputError

NARROWED = 'minutes'  # beginning of the entry of such a night in `Selection.narrowed_by`
_RECORDED = 'plumbline_plan'  # key in `session_info`


def choose(
    results: Path, site: str, selection: CaseSelection, cases: Mapping[Case, str], minutes: float, nodes: int | None
) -> set[Case]:
    """Return the chosen ones of `cases`; print why and return nothing if none can be planned.

    No case is chosen without those that it depends on. Raises InputError if no case fits into the time.
    """
    seconds = selection.seconds(results)
    places = {case: (*place_of(case)[1:], name) for case, name in cases.items()}
    chosen = plan(results, site, minutes, nodes, {place: seconds.of(case) for case, place in places.items()})
    if isinstance(chosen, str):
        print(f'plumbline: {chosen}; all cases of mode {selection.mode} run', flush=True)
        return set()
    wanted = {case for case, place in places.items() if place in chosen}
    # a case that depends on others would run them, too, and take their time
    planned = {case for case in wanted if selection.needs.get(case, set()) <= wanted}
    if not planned:
        raise InputError('each chosen case depends on others, which do not fit into the time')
    return planned


@isolated
def plan(
    results: Path, site: str, minutes: float, nodes: int | None, places: Mapping[tuple[str, str, str], float]
) -> set[tuple[str, str, str]] | str:
    """Return the cases of a planned night, or a sentence on why none can be planned yet.

    `places`: (partition, environ, name) of each case that may run -> its estimated seconds. Raises InputError.
    """
    from postprocess.history import plan as module
    from postprocess.results.store import Store

    try:
        known = {module.CaseName(*place): seconds for place, seconds in places.items()}
        night = module.plan(Store(results), site, minutes, nodes, places=known)
    except module.NothingKnown as why:
        return str(why)
    return {(*look.place,) for look in night.chosen}


def record(session: PlannedSession | Sweep, chosen: Collection[Case]) -> None:
    """Keep in the record of a session which cases were chosen, for when it is resumed."""
    session.recorded |= {_RECORDED: json.dumps([*chosen])} if chosen else {}


def recorded(session: PlannedSession) -> set[Case]:
    """Return the cases that were chosen for a session; empty if it was not planned."""
    return {(name, place) for name, place in json.loads(session.recorded.get(_RECORDED, '[]'))}

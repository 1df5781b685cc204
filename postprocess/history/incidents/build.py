"""Make the incidents of a session from its verdicts, failed jobs, comparison of nodes and problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plumbline.locations import locations
from plumbline.paths import SITES
from postprocess.history.fleet import Fleet
from postprocess.history.incidents.background import Background
from postprocess.history.incidents.draft import Night
from postprocess.history.incidents.events import add_events, add_problems
from postprocess.history.incidents.failures import failures
from postprocess.history.incidents.incident import Incident
from postprocess.history.incidents.losses import losses
from postprocess.results.store import Session, Store
from postprocess.verdicts.verdict import Comparison


def incidents(
    comparison: Comparison, fleet: Fleet | None, store: Store, sessions: Sequence[Session], root: Path = SITES
) -> list[Incident]:
    """Return the incidents of a session, the worst first. `sessions`: up to this one, the last, for what was before.

    Raises InputError where the store or the table of locations cannot be read.
    """
    places = {} if fleet is None else locations(comparison.session.site, root)  # None: they may be wrong
    night = Night(store, comparison.session, comparison, sessions[:-1], places)
    drafts = [*failures(night), *losses(night)]
    if fleet is not None:
        add_events(drafts, fleet, night)
    add_problems(drafts, comparison.problems, night)
    found = Background(store, sessions, comparison, night.cases).add(drafts)
    return sorted(found, key=lambda one: (-one.severity, one.where.partition, one.checks))

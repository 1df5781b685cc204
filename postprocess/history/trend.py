# SPDX-License-Identifier: BSD-3-Clause
"""Find since when a series is different: steps and drift in its history, and what changed at that time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from plumbline.identity import Quantity, SeriesId
from postprocess.history.series import History, by_session
from postprocess.incidents.provenance import Provenance, around
from postprocess.results.store import Session, Store
from postprocess.statistics.changepoints import SHORTEST, Control, Found, changes, medians
from postprocess.text import count

_NEW_FOR = 3 * SHORTEST  # sessions after a step during which its first detection still counts as new


@dataclass(frozen=True)
class Change:
    """A change in the history of a series. `kind`: ``step`` or ``drift``; `change`: of the performance, in %.

    A step is between the sessions `before` and `session`, from the level `was` to the level `became`, which has lasted
    for `sessions` sessions. A drift began at `before` and lasts until `session`. Levels are in the unit of `quantity`.
    `with_it`: what changed in the provenance at the step.
    """

    kind: str
    series: SeriesId
    quantity: Quantity
    before: Session
    session: Session
    was: float
    became: float
    change: float
    sessions: int
    with_it: tuple[str, ...] = ()

    @property
    def since(self) -> Session:
        """The first session of a step, or the session at which a drift began."""
        return self.session if self.kind == 'step' else self.before


@dataclass(frozen=True)
class Trend:
    """The changes of a site between its sessions, the worst first, and what was left out and why.

    `examined`: number of series. `control`: estimates from all series that the tests used.
    """

    site: str
    sessions: list[Session]
    examined: int
    changes: list[Change]
    left_out: list[str]
    control: Control

    def recent(self, sessions: int) -> list[Change]:
        """Return the steps for the worse in the last `sessions` sessions, and the drifts for the worse, which last."""
        last = {session.session for session in self.sessions[-sessions:]}
        return [c for c in self.changes if c.change < 0 and (c.kind == 'drift' or c.session.session in last)]


def trend(
    store: Store, sessions: Sequence[Session], root: Path | None = None, histories: list[History] | None = None,
    control: Control | None = None,
) -> Trend:  # fmt: skip
    """Find the changes in the history of a site; `histories`: from :func:`by_session`, if they are known already.

    `control`: from the trend of all series, if `histories` are only some of them. Raises InputError if the store cannot
    be read.
    """
    sessions = list(sessions)
    histories, left_out = _one_unit(by_session(store, sessions, root) if histories is None else histories)
    short = [history for history in histories if len(history.sessions) < 2 * SHORTEST]
    if short:
        few = f'{count(len(short), "metric")} with fewer than {2 * SHORTEST} sessions'
        left_out.append(f'{few}, such as {short[0].series}')
    long = [history for history in histories if len(history.sessions) >= 2 * SHORTEST]
    all_found, control = changes(
        [history.performance for history in long], [history.tolerance.floor for history in long], control
    )
    all_changes = [
        change for history, own in zip(long, all_found, strict=True) for change in _changes(history, own, sessions)
    ]
    all_changes = sorted(_with_provenance(store, sessions, all_changes), key=lambda change: change.change)
    return Trend(sessions[-1].site, sessions, len(long), all_changes, left_out, control)


def new_changes(store: Store, found: Trend, histories: Sequence[History], root: Path | None) -> list[Change]:
    """Return the recent changes for the worse that were not yet found in the session before.

    `found`: the trend of all sessions. Raises InputError if the store cannot be read.
    """
    places = {session.session: place for place, session in enumerate(found.sessions)}
    by_series = {(history.series, history.quantity): history for history in histories}

    def settled(step: Change) -> bool:
        """Return True if the date of the step is certain.

        Three bad sessions are at first found as a level of five sessions, dated two sessions too early.
        """
        history = by_series[step.series, step.quantity]
        first = math.log(history.values[history.sessions == places[step.session.session]][0])
        return step.sessions <= _NEW_FOR and abs(first - math.log(step.became)) < abs(first - math.log(step.was))

    def worse(changes: list[Change]) -> list[Change]:
        """Return the changes for the worse whose date is certain."""
        return [change for change in changes if change.change < 0 and (change.kind == 'drift' or settled(change))]

    new = worse(found.changes)
    if not new:
        return []
    last = len(found.sessions) - 1
    shorter = []
    for history in (by_series[key] for key in dict.fromkeys((change.series, change.quantity) for change in new)):
        earlier = history.sessions < last
        shorter.append(replace(history, sessions=history.sessions[earlier], values=history.values[earlier]))
    known: dict[tuple[SeriesId, Quantity, str], list[int]] = {}
    for change in worse(trend(store, found.sessions[:-1], root, shorter, found.control).changes):
        key = change.series, change.quantity, change.kind
        known.setdefault(key, []).append(places[change.session.session])

    def seen(change: Change) -> bool:
        """Return True if the change was found in the session before, too."""
        others = known.get((change.series, change.quantity, change.kind), [])
        place = places[change.session.session]
        return any(change.kind == 'drift' or abs(other - place) < SHORTEST for other in others)

    return [change for change in new if not seen(change)]


def _one_unit(histories: list[History]) -> tuple[list[History], list[str]]:
    """Return the histories in the present unit and direction of each series, and sentences on the ones left out."""
    latest: dict[SeriesId, History] = {}
    for history in histories:
        if history.series not in latest or latest[history.series].sessions[-1] < history.sessions[-1]:
            latest[history.series] = history
    left_out = [
        f'{history.series}: {count(len(history.sessions), "session")} in {history.quantity.unit}, '
        f'{history.quantity.better} is better; now in {latest[history.series].quantity.unit}, '
        f'{latest[history.series].quantity.better} is better'
        for history in histories
        if history is not latest[history.series]
    ]
    return list(latest.values()), left_out


def _changes(history: History, found: Found, sessions: list[Session]) -> Iterator[Change]:
    """Yield the steps of a history, and its drift."""
    if not found.steps and found.drift is None:
        return
    performance, ends = history.performance, found.steps

    def change(kind: str, first: int, last: int, was: float, became: float, lasts: int) -> Change:
        """Return a change between the values at indices `first` and `last`; levels are logarithms of performance."""
        before, session = (sessions[history.sessions[place]] for place in (first, last))
        old, new = (math.exp(history.quantity.sign * level) for level in (was, became))
        percent = 100 * math.expm1(became - was)
        return Change(kind, history.series, history.quantity, before, session, old, new, percent, lasts)

    levels = medians(performance, ends)
    for place, end, (was, became) in zip(ends, [*ends, len(performance)][1:], pairwise(levels), strict=True):
        yield change('step', place - 1, place, was, became, end - place)
    if found.drift is not None:
        begin, was, became = found.drift
        yield change('drift', begin, -1, was, became, len(performance) - begin)


def _with_provenance(store: Store, sessions: list[Session], changes: list[Change]) -> list[Change]:
    """Return the changes; a step gets what changed in the provenance of its case."""
    places = {session.session: place for place, session in enumerate(sessions)}
    sides: dict[int, tuple[range, range]] = {}
    for i, change in enumerate(changes):
        if change.kind == 'step':
            sides[i] = around(places[change.before.session], places[change.session.session], len(places))
    wanted = [(changes[i].series.case, place) for i, both in sides.items() for side in both for place in side]
    provenance = Provenance.read(store, sessions, wanted)
    for i, both in sides.items():
        changes[i] = replace(changes[i], with_it=tuple(map(str, provenance.change(changes[i].series.case, *both))))
    return changes

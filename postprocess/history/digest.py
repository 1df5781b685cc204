"""The digest of a session: nodes that stand out and what is new in the history, for the page and in a few lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.identity import Quantity, SeriesId, to_text
from plumbline.paths import SITES
from postprocess.history import ledger
from postprocess.history.changepoints import SHORTEST
from postprocess.history.fleet import Event, Fleet, fleet, write_drain
from postprocess.history.series import History, by_session
from postprocess.history.trend import Change, Trend, trend
from postprocess.results.store import Session, Store
from postprocess.text import count, number, percent

_FLEET_DAYS = 30  # before the session, that tell a node's own level
_NEW_FOR = 3 * SHORTEST  # sessions after a step in which it may still be found for the first time
_LINES = 5  # of nodes, and of changes


@dataclass
class Digest:
    """What a session shows beside its verdicts.

    `fleet` and `trend` are None where they could not be made; `faults` says why, a sentence each. `before`: the days on
    which a node stood out earlier; `repeated`: what stands out now and did in one of the two sessions before; `new`:
    changes for the worse that the session before did not show yet; `drain`: the file that proposes to drain nodes.
    """

    sessions: list[Session]
    fleet: Fleet | None = None
    trend: Trend | None = None
    histories: list[History] = field(default_factory=list)
    before: dict[str, list[str]] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    new: list[Change] = field(default_factory=list)
    drain: Path | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def needs_attention(self) -> bool:
        """Return True if a node stands out again or a change is new: one bad run of one of many nodes is neither."""
        return bool(self.repeated or self.new)

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each of the worst events and changes, what stands out again first."""
        events = self.fleet.events if self.fleet else []
        events = sorted(events, key=lambda event: event.where not in self.repeated)
        for event in events[:_LINES]:
            yield _of_event(event, event.where in self.repeated)
        if len(events) > _LINES:
            yield f'{len(events) - _LINES} more stand out, see the page or plumbline fleet'
        if self.fleet and self.drain:
            yield f'proposal to drain {count(len(self.fleet.drain), "node")}, no node was drained: {self.drain}'
        alike: dict[tuple, list[Change]] = {}
        for change in self.new:
            key = change.kind, f'{change.since.started:%Y-%m-%d}', change.series.check, change.with_it
            alike.setdefault(key, []).append(change)
        for changes in list(alike.values())[:_LINES]:
            yield _of_changes(changes)
        if len(alike) > _LINES:
            yield f'{len(alike) - _LINES} more changes are new, see the page or plumbline trend'


def digest(store: Store, session: Session, days: int, root: Path = SITES, keep: bool = False) -> Digest:
    """Make the digest of a session from those of so many days before it.

    `keep`: write the nodes that stand out to the ledger, and propose to drain those that do so again. Raises InputError
    only where the list of sessions cannot be read.
    """
    results = store.folder.parent
    found = Digest(store.history(session, days))
    try:
        since = session.started - timedelta(days=min(days, _FLEET_DAYS))
        recent = [one for one in found.sessions if one.started > since]
        found.fleet = fleet(store, session, days, results, root, keep, recent)
        found.before, found.repeated = _before(ledger.read(results, session.site), found.sessions, found.fleet)
        found.drain = write_drain(found.fleet, results) if keep else None
    except (InputError, SiteError) as error:
        found.faults.append(f'the nodes were not compared: {error}')
    try:
        found.histories = by_session(store, found.sessions, root)
        found.trend = trend(store, found.sessions, root, found.histories)
        found.new = _new(store, found.trend, found.histories, root)
    except (InputError, SiteError) as error:
        found.faults.append(f'the history was not examined: {error}')
    return found


def _before(
    entries: Sequence[ledger.Entry], sessions: Sequence[Session], compared: Fleet
) -> tuple[dict[str, list[str]], set[str]]:
    """Return the earlier days of each node in the ledger, and the nodes that stand out again."""
    known = {session.session for session in sessions[:-1]}
    days: dict[str, list[str]] = {}
    for entry in entries:
        if entry.session in known:
            days.setdefault(entry.node, []).append(entry.date)
    lately = {session.session for session in sessions[-3:-1]}
    flagged = {entry.node for entry in entries if entry.session in lately}
    return days, flagged & {event.where for event in compared.events}


def _new(store: Store, found: Trend, histories: Sequence[History], root: Path) -> list[Change]:
    """Return the recent changes for the worse that were not found in the session before."""
    places = {session.session: place for place, session in enumerate(found.sessions)}
    of = {(one.series, one.quantity): one for one in histories}

    def settled(step: Change) -> bool:
        """Return True if the date of the step is certain.

        Three bad sessions are found as a level of five that begins two sessions early.
        """
        one = of[step.series, step.quantity]
        first = math.log(one.values[one.sessions == places[step.session.session]][0])
        return step.sessions <= _NEW_FOR and abs(first - math.log(step.became)) < abs(first - math.log(step.was))

    def worse(changes: list[Change]) -> list[Change]:
        return [change for change in changes if change.change < 0 and (change.kind == 'drift' or settled(change))]

    new = worse(found.changes)
    if not new:
        return []
    last = len(found.sessions) - 1
    shorter = []
    for one in (of[key] for key in dict.fromkeys((change.series, change.quantity) for change in new)):
        earlier = one.sessions < last
        shorter.append(replace(one, sessions=one.sessions[earlier], values=one.values[earlier]))
    known: dict[tuple[SeriesId, Quantity, str], list[int]] = {}
    for change in worse(trend(store, found.sessions[:-1], root, shorter, found.control).changes):
        key = change.series, change.quantity, change.kind
        known.setdefault(key, []).append(places[change.session.session])

    def seen(change: Change) -> bool:
        others = known.get((change.series, change.quantity, change.kind), [])
        place = places[change.session.session]
        return any(change.kind == 'drift' or abs(other - place) < SHORTEST for other in others)

    return [change for change in new if not seen(change)]


def _of_event(event: Event, repeated: bool) -> str:
    where = f'{event.kind} {event.where}{", not for the first time" if repeated else ""}'
    what = f'{percent(event.change)} in {_metrics(event.series, event.count)}'
    return '; '.join([f'{where}: {what}, compared with {event.how}', *event.evidence])


def _of_changes(changes: Sequence[Change]) -> str:
    """Return a sentence on the worst, the first, of the changes of one kind, day and check."""
    worst = changes[0]
    what = f'{percent(worst.change)} in {_metrics(worst.series, len(changes))}'
    values = f'{number(worst.was)} to {number(worst.became)} {worst.quantity.unit}'
    changed = f'; changed with it: {", ".join(worst.with_it)}' if worst.with_it else ''
    return f'{worst.kind} since {worst.since.started:%Y-%m-%d}: {what}: {values}{changed}'


def _metrics(worst: SeriesId, n: int) -> str:
    others = f' and {count(n - 1, "other metric")}' if n > 1 else ''
    return f'{worst.check} {to_text(worst.params)} {worst.name}{others}'

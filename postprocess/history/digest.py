"""What stands out among the nodes of a session, and what is new in its history: for the page, and in a few lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.paths import SITES
from postprocess.history import ledger
from postprocess.history.fleet import Event, Fleet, fleet, write_drain
from postprocess.history.series import Metric, Series, by_night
from postprocess.history.trend import SHORTEST, Change, Trend, trend
from postprocess.results.store import Session, Store
from postprocess.text import count, number, percent

_FLEET_DAYS = 30  # that tell how the nodes were
_NEW_FOR = 3 * SHORTEST  # nights after a step on which it may still be seen for the first time
_LINES = 5  # of nodes, and of changes


@dataclass
class Night:
    """`fleet` and `trend` are None where they could not be made; `faults` says why, a sentence each.

    `before`: the days before on which nodes stood out, by node; `again`: what stands out now and did so in one of the
    two sessions before, too; `new`: the changes for the worse that the session before did not show yet; `drain`: the
    file with the proposal to drain nodes, where one was written.
    """

    sessions: list[Session]
    fleet: Fleet | None = None
    trend: Trend | None = None
    series: list[Series] = field(default_factory=list)
    before: dict[str, list[str]] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    new: list[Change] = field(default_factory=list)
    drain: Path | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def to_be_told(self) -> bool:
        """Whether anybody should look: one bad run of one of many nodes is no reason, a second one is."""
        return bool(self.again or self.new)

    def lines(self) -> Iterator[str]:
        """A sentence for each of the worst, what stands out again first."""
        events = self.fleet.events if self.fleet else []
        events = sorted(events, key=lambda event: event.where not in self.again)
        for event in events[:_LINES]:
            yield _of_event(event, event.where in self.again)
        if len(events) > _LINES:
            yield f'{len(events) - _LINES} more stand out, see the page or plumbline fleet'
        if self.fleet and self.drain:
            yield f'proposal to drain {count(len(self.fleet.drain), "node")}, nothing was drained: {self.drain}'
        alike: dict[tuple, list[Change]] = {}
        for change in self.new:
            alike.setdefault((change.kind, _since(change), change.metric.check, change.with_it), []).append(change)
        for changes in list(alike.values())[:_LINES]:
            yield _of_changes(changes)
        if len(alike) > _LINES:
            yield f'{len(alike) - _LINES} more changes are new, see the page or plumbline trend'


def look(store: Store, session: Session, days: int, root: Path = SITES, keep: bool = False) -> Night:
    """Of a session and those of so many days before it. `keep`: the nodes that stand out, in the ledger, and a proposal
    to drain those that do so again.

    Raises InputError only where the store cannot be read.
    """
    results = store.folder.parent
    night = Night(store.history(session, days))
    try:
        since = session.started - timedelta(days=min(days, _FLEET_DAYS))
        lately = [one for one in night.sessions if one.started > since]
        night.fleet = fleet(store, session, days, results, root, keep, lately)
        night.before, night.again = _before(ledger.read(results, session.site), night)
        night.drain = write_drain(night.fleet, results) if keep else None
    except (InputError, SiteError) as error:
        night.faults.append(f'the nodes were not compared: {error}')
    try:
        night.series = by_night(store, night.sessions)
        night.trend = trend(store, night.sessions, root, night.series)
        night.new = _new(store, night.trend, night.series, root)
    except (InputError, SiteError) as error:
        night.faults.append(f'the history was not looked at: {error}')
    return night


def _before(entries: Sequence[ledger.Entry], night: Night) -> tuple[dict[str, list[str]], set[str]]:
    known = {session.session for session in night.sessions[:-1]}
    days: dict[str, list[str]] = {}
    for entry in entries:
        if entry.session in known:
            days.setdefault(entry.node, []).append(entry.date)
    lately = {session.session for session in night.sessions[-3:-1]}
    flagged = {entry.node for entry in entries if entry.session in lately}
    return days, flagged & {event.where for event in night.fleet.events}


def _new(store: Store, found: Trend, series: Sequence[Series], root: Path) -> list[Change]:
    """What became worse of late and was not seen in the session before."""
    place = {session.session: i for i, session in enumerate(found.sessions)}
    of = {one.of: one for one in series}

    def settled(step: Change) -> bool:
        """Three bad nights are seen as a level of five that begins two nights early: with those it has its date."""
        one = of[step.metric]
        first = math.log(one.values[one.nights == place[step.night.session]][0])
        return step.nights <= _NEW_FOR and abs(first - math.log(step.became)) < abs(first - math.log(step.was))

    def worse(changes: list[Change]) -> list[Change]:
        return [change for change in changes if change.change < 0 and (change.kind == 'drift' or settled(change))]

    new = worse(found.changes)
    if not new:
        return []
    last = len(found.sessions) - 1
    shorter = [
        replace(one, nights=one.nights[one.nights < last], values=one.values[one.nights < last])
        for one in (of[metric] for metric in dict.fromkeys(change.metric for change in new))
    ]
    known: dict[tuple[Metric, str], list[int]] = {}
    for change in worse(trend(store, found.sessions[:-1], root, shorter).changes):
        known.setdefault((change.metric, change.kind), []).append(place[change.night.session])

    def seen(change: Change) -> bool:
        nights, night = known.get((change.metric, change.kind), []), place[change.night.session]
        return any(change.kind == 'drift' or abs(other - night) < SHORTEST for other in nights)

    return [change for change in new if not seen(change)]


def _of_event(event: Event, again: bool) -> str:
    where = f'{event.kind} {event.where}{", not for the first time" if again else ""}'
    what = f'{percent(event.change)} in {_metrics(event.metric, event.metrics)}'
    return '; '.join([f'{where}: {what}, compared with {event.how}', *event.evidence])


def _of_changes(changes: Sequence[Change]) -> str:
    """Of one kind and day and of one check: the worst, which comes first, and how many there are."""
    worst = changes[0]
    what = f'{percent(worst.change)} in {_metrics(worst.metric, len(changes))}'
    values = f'{number(worst.was)} to {number(worst.became)} {worst.metric.unit}'
    changed = f'; changed with it: {", ".join(worst.with_it)}' if worst.with_it else ''
    return f'{worst.kind} since {_since(worst)}: {what}: {values}{changed}'


def _metrics(worst: Metric, n: int) -> str:
    others = f' and {count(n - 1, "other metric")}' if n > 1 else ''
    return f'{worst.check} {worst.case} {worst.metric}{others}'


def _since(change: Change) -> str:
    return f'{(change.night if change.kind == "step" else change.before).started:%Y-%m-%d}'

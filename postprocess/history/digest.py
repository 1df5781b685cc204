# SPDX-License-Identifier: BSD-3-Clause
"""The digest of a session: its verdicts as incidents, the nodes that stand out, and what is new in the history."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from plumbline.errors import InputError, SiteError
from postprocess.history.drain import to_drain, write_drain
from postprocess.history.findings import findings_of, never_judged
from postprocess.history.series import History, by_session
from postprocess.history.trend import Change, Trend, new_changes, trend
from postprocess.history.verdicts import verdicts_of
from postprocess.history.weather import below
from postprocess.incidents import FAILING, State, ledger
from postprocess.incidents.known import Known, in_order
from postprocess.incidents.recheck import rechecks
from postprocess.results.store import Session, Store
from postprocess.text import count, named, number, percent
from postprocess.verdicts.advice import few_judged
from postprocess.verdicts.proposals import remember
from postprocess.verdicts.verdict import Comparison

_LINES = 5  # most lines on new changes


@dataclass
class Digest:
    """The outcome of a session of the store in `results`.

    `known`: the open incidents of the ledger and those that the session closed, the most urgent first. `absent`: nodes
    that were measured in recent sessions, but not in this one, though others were. `unjudged`: a sentence on sessions
    of which nobody knows what they show. `to_drain`: node -> why it might be drained; `drain`: the file with it.
    `faults`: why a part could not be made, one sentence each. `strict`: True if an incident that heals fails it, too.
    `add_history` fills the other fields, over `sessions`: `before`, node -> earlier days on which it stood out;
    `trend`: None if it could not be made; `new`: changes for the worse that were not yet known after the session
    before; `weather`: see `history.weather`.
    """

    comparison: Comparison
    results: Path = field(default=Path(), compare=False)
    known: list[Known] = field(default_factory=list)
    absent: Sequence[str] = ()
    unjudged: str = ''
    to_drain: dict[str, str] = field(default_factory=dict)
    drain: Path | None = None
    faults: list[str] = field(default_factory=list)
    strict: bool = False
    sessions: list[Session] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)
    trend: Trend | None = None
    before: dict[str, list[str]] = field(default_factory=dict)
    new: list[Change] = field(default_factory=list)
    weather: str = ''

    @property
    def day(self) -> str:
        """The day of the session, UTC."""
        return self.comparison.session.day

    @property
    def when(self) -> str:
        """The time of the session, UTC: an incident is new at that time, not on its day."""
        return self.comparison.session.time

    def of_state(self, *states: State) -> list[Known]:
        """Return the incidents that have one of the `states` on the day of the session."""
        return [incident for incident in self.known if incident.state(self.day) in states]

    @property
    def exit_code(self) -> int:
        """1 while an incident is open and not acknowledged, with `strict` also while it heals, else 0."""
        return int(bool(self.of_state(*FAILING) or (self.strict and self.of_state('healing'))))

    @property
    def doubts(self) -> list[str]:
        """Reasons why a person should look although nothing failed, each in a few words."""
        warnings = self.comparison.counts.get('warning', 0)
        return [*self.beside_counts, *([count(warnings, 'warning')] if warnings else [])]

    @property
    def beside_counts(self) -> list[str]:
        """The doubts that the counts of verdicts do not show."""
        counts, suspected = self.comparison.counts, len(self.of_state('suspected'))
        elsewhere = 'elsewhere' in self.comparison.standings
        not_judged = 'only compared with other machines' if elsewhere else 'nothing was judged'
        return [
            *([not_judged] if self.comparison.nothing_to_compare_with or not counts else []),
            *(
                ['few metrics have a reference']
                if few_judged(self.comparison.series) and not self.comparison.nothing_to_compare_with
                else []
            ),
            *([f'{count(suspected, "incident")} suspected'] if suspected else []),
            *([f'{count(len(self.absent), "node")} not measured'] if self.absent else []),
            *([f'{count(self.comparison.busy, "case")} ran on busy nodes'] if self.comparison.busy else []),
            *([self.unjudged] if self.unjudged else []),
            *self.faults,
        ]

    @property
    def word(self) -> Literal['FAILED', 'NEEDS A LOOK', 'OK']:
        """The outcome in one word: ``FAILED``, ``OK``, or ``NEEDS A LOOK`` if nothing failed but there are `doubts`."""
        return 'FAILED' if self.exit_code else 'NEEDS A LOOK' if self.doubts else 'OK'

    @property
    def standing(self) -> str:
        """The incidents by state: ``3 incidents open, 1 new, 1 intermittent, 1 acknowledged``; empty without any."""
        is_open = self.of_state(*FAILING)
        kinds = (
            (sum(incident.is_new(self.when) for incident in is_open), 'new'),
            (len(self.of_state('intermittent')), 'intermittent'),
        )
        parts = [f'{count(len(is_open), "incident")} open', *(f'{n} {word}' for n, word in kinds if n)]
        parts = parts if is_open else []
        others: tuple[State, ...] = ('acknowledged', 'suspected', 'healing')
        return ', '.join(
            [*parts, *(f'{len(of_that_state)} {state}' for state in others if (of_that_state := self.of_state(state)))]
        )

    @property
    def headline(self) -> str:
        """Incidents and verdicts: ``2 incidents open, 1 new, 1 acknowledged; 95 regressed, 305 ok``."""
        return '; '.join(filter(None, (self.standing, self.comparison.headline)))

    def lines(self) -> Iterator[str]:
        """Yield sentences on absent nodes, on nodes to drain, on what all lost and on new changes."""
        if self.absent:
            yield f'not measured in this session, and lately they were: {named(self.absent)}'
        if self.drain:
            yield f'proposal to drain {count(len(self.to_drain), "node")}, no node was drained: {self.drain}'
        if self.weather:
            yield self.weather
        alike: dict[tuple[object, ...], list[Change]] = {}
        for change in self.new:
            key = change.kind, change.since.day, change.series.check, change.with_it
            alike.setdefault(key, []).append(change)
        for changes in list(alike.values())[:_LINES]:
            yield _of_changes(changes)
        if len(alike) > _LINES:
            yield f'{len(alike) - _LINES} more changes are new, see the page or plumbline trend'


def judge(
    store: Store, name: str = 'latest', site: str | None = None, root: Path | None = None, reruns: Sequence[Path] = (),
    late: bool = True,
) -> Digest:  # fmt: skip
    """Judge the session whose uuid begins with `name`, see `Store.find`, and follow its incidents in the ledger.

    What the newest session of a site shows is stored; with `late`, also what an older one shows that was never judged.
    Raises InputError and SiteError.
    """
    session = store.find(name, site)
    results, last = store.folder.parent, store.find('latest', session.site)
    newest, writable = last.session == session.session, os.access(results, os.W_OK)
    faults: list[str] = []
    if newest and writable:
        try:
            remember(store, session.site, root)  # before it is judged: verdicts follow from these rows, too
        except (InputError, SiteError) as error:
            faults.append(f'the rows of the baseline were not kept: {error}')
    outcome = Digest(verdicts_of(store, session, root, reruns), results, faults=faults)
    keep = writable and not reruns and (newest or (late and session.started <= last.started))
    try:
        book = ledger.Ledger(store, session.site, session)
    except InputError as error:  # say it, and what the session itself shows
        faults.append(f'the incidents were not followed: {error}')
        book, keep = ledger.Unreadable(store, session.site), False
    try:
        found = findings_of(store, book, outcome.comparison, root, newest, keep, anew=bool(reruns))
    except (InputError, SiteError) as error:
        try:
            found = findings_of(store, book, outcome.comparison, root, newest, keep=False, anew=True)
        except (InputError, SiteError):  # what it follows from cannot be read; the verdict is known all the same
            faults.append(f'the incidents were not followed: {error}')
            return outcome
        faults.append(f'the incidents were not kept: {error}')
    faults += [found.facts.fault] * bool(found.facts.fault)
    if keep and newest:
        book.keep(session)
    elif keep:
        book = ledger.Ledger(store, session.site, session)  # of which later sessions may tell more now
    book.put(found)
    known = book.known(session).known
    if newest:
        more = rechecks(store, known, outcome.comparison, root)
        outcome.comparison = replace(outcome.comparison, again=(*more, *outcome.comparison.again))
    shown = [one for one in known if not one.closed or session.session in one.seen]
    outcome.known, outcome.absent = in_order(shown, outcome.day), found.facts.absent
    outcome.unjudged = never_judged(book, root) if newest else ''
    outcome.to_drain = to_drain(outcome.known, session, store.history(session)[:-1])
    try:
        outcome.drain = write_drain(session, outcome.to_drain, results) if newest else None
    except InputError as error:
        outcome.faults.append(f'the proposal to drain nodes was not written: {error}')
    return outcome


def add_history(digest: Digest, store: Store, root: Path | None = None, days: int = 90) -> None:
    """Add the history to a digest: changes of every series over the last `days`, and the days on which nodes stood out.

    Raises InputError if the store cannot be read.
    """
    session = digest.comparison.session
    digest.sessions = store.history(session, days)
    with suppress(InputError):  # the comparison of nodes reports an unreadable ledger
        digest.before = _before(ledger.read_ledger(store.folder.parent, session.site), digest.sessions)
    try:
        digest.histories = by_session(store, digest.sessions, root)
        digest.trend = trend(store, digest.sessions, root, digest.histories)
        digest.new = new_changes(store, digest.trend, digest.histories, root)
        digest.weather = below(digest.comparison, digest.histories, digest.sessions)
    except (InputError, SiteError) as error:
        digest.faults.append(f'the history was not examined: {error}')


def _before(known: Sequence[Known], sessions: Sequence[Session]) -> dict[str, list[str]]:
    """Return node -> the earlier days on which it stood out."""
    days: dict[str, set[str]] = {}
    for session in sessions[:-1]:
        for node in {node for one in known if session.session in one.seen for node in one.seen[session.session].bad}:
            days.setdefault(node, set()).add(session.day)
    return {node: sorted(own) for node, own in days.items() if node}


def _of_changes(changes: Sequence[Change]) -> str:
    """Return a sentence on changes of one kind, day and check; it describes the first change, which is the worst."""
    worst = changes[0]
    others = f' and {count(len(changes) - 1, "other metric")}' if changes[1:] else ''
    change = f'{percent(100 * (worst.became / worst.was - 1))} in {worst.series.what}{others}'
    values = f'{number(worst.was)} to {number(worst.became)} {worst.quantity.unit}'
    changed = f'; changed with it: {", ".join(worst.with_it)}' if worst.with_it else ''
    return f'{worst.kind} since {worst.since.day}: {change}: {values}{changed}'

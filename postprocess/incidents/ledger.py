# SPDX-License-Identifier: BSD-3-Clause
"""The ledger of a site: the fold of what its judged sessions show and of the notes of persons.

It is stored nowhere: any state of it can be made again from the table ``findings`` of the store and the notes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from plumbline.errors import InputError, did_you_mean
from postprocess.incidents import notes
from postprocess.incidents.fold import Night, State, fold, in_turn, key_of
from postprocess.incidents.known import Known
from postprocess.incidents.notes import Note
from postprocess.incidents.old_ledger import take_over
from postprocess.incidents.rows import TABLE, Facts, facts_from_json, from_row, night_of
from postprocess.results import judged
from postprocess.results.files import listed
from postprocess.results.store import Session, Store


class Ledger:
    """The judged sessions of a site and the notes on its incidents, which follow from both.

    `facts`: by uuid of a judged session. Raises InputError for a damaged file.
    """

    def __init__(self, results: Path, site: str, store: Store | None = None, judging: str = ''):
        """Read them; what was stored of the session `judging` may be damaged, because it is judged again."""
        self.results, self.site = results, site
        store = store or Store(results)
        take_over(store, site)
        self.sessions = store.sessions(site)
        self.facts: dict[str, Facts] = {}
        self.nights: list[Night] = []
        for session in self.sessions:
            try:
                found = judged.read_any(store, TABLE, session, partial(from_row, session))
            except InputError:
                if session.session != judging:
                    raise
                found = None
            if found:
                self.facts[session.session] = facts = facts_from_json(found[0])
                self.nights.append(night_of(session, facts, found[1]))
        self.notes = notes.read(results, site)

    @property
    def last(self) -> str:
        """The key of the last night; empty without one."""
        return self.nights[-1].key if self.nights else ''

    @property
    def events(self) -> Iterator[Night | Note]:
        """The nights and notes in the order of their time."""
        return in_turn(self.nights, self.notes)

    def known(self, last: Session | None = None, day: str = '') -> State:
        """Return the incidents after all nights and notes.

        `last`: after the nights up to this session. `day`: after what was judged and noted up to that day.
        """
        until = key_of(last.time, last.session) if last else self.last
        nights = [night for night in self.nights if night.key <= until and _is_until(night.started, day)]
        return self._after(nights, [note for note in self.notes if _is_until(note.day, day)])

    @property
    def dated(self) -> list[tuple[Known, str]]:
        """The incidents and parts that last of which a person said when they began, each with that session."""
        pairs = ((leaf, one.dated or leaf.dated) for one in self.known().lasting.values() for leaf in one.leaves)
        return [(leaf, begin.session) for leaf, begin in pairs if begin]

    def put(self, night: Night) -> None:
        """Let a night take its place, or that of what was known of its session."""
        others = [other for other in self.nights if other.session != night.session]
        self.nights = sorted([*others, night], key=lambda night: night.key)

    def before(self, session: Session, noted_later: bool = True) -> State:
        """Return the incidents before a session; without `noted_later`, as the notes up to it tell them."""
        key = key_of(session.time, session.session)
        by_persons = [note for note in self.notes if noted_later or note.after < key]
        return self._after([night for night in self.nights if night.key < key], by_persons)

    def _after(self, nights: Sequence[Night], by_persons: Sequence[Note]) -> State:
        return fold(in_turn(nights, by_persons), State(self.results))


def _is_until(time: str, day: str) -> bool:
    """Return True if a time is on `day` or before it, or no day is given."""
    return not day or time[:10] <= day


def read_ledger(results: Path, site: str, day: str = '') -> list[Known]:
    """Return the incidents of a site, the first found first; with `day`, as they were known on that day.

    Raises InputError for a file that cannot be used.
    """
    return Ledger(results, site).known(day=day).known


def sites(results: Path) -> list[str]:
    """Return the names of the sites of which a session was judged, or something was noted. Raises InputError."""
    judged_ones = [path for path in listed(results / 'store' / TABLE) if path.is_dir()]
    old = [path for path in listed(results / 'incidents') if path.is_dir() and path.suffix != '.before']
    return sorted({path.name.removeprefix('site=') for path in (*judged_ones, *old)} | {*notes.sites(results)})


def faults(store: Store) -> Iterator[str]:
    """Yield a sentence for each file of notes that cannot be used."""
    results = store.folder.parent
    for site in notes.sites(results):
        try:
            notes.read(results, site)
        except InputError as error:
            yield f'{error}'


def find(results: Path, id: str, site: str | None = None, day: str = '') -> tuple[str, Known]:
    """Return the site and the incident for which its id, or the id of a part, begins with `id`; on a `day` if given.

    Raises InputError unless exactly one incident matches.
    """
    every = [
        (name, incident)
        for name in ([site] if site else sites(results))
        for incident in read_ledger(results, name, day)
    ]
    matching = [(name, one) for name, one in every if any(known.startswith(id) for known in one.ids)]
    if len(matching) == 1 and id:
        return matching[0]
    if matching and id:
        raise InputError(f'{id!r} is the beginning of several incidents: {", ".join(one.id for _, one in matching)}')
    guess = did_you_mean(id, [known for _, incident in every for known in incident.ids])
    raise InputError(f'{results}: no incident has the id {id!r}{guess}; `plumbline incidents` lists them')


# Nodes by session


class Entry(NamedTuple):
    """A node, or several joined by commas, that stood out in a session; `how`: names its incident."""

    date: str
    session: str
    node: str
    kind: str
    how: str


def entries(results: Path, site: str) -> list[Entry]:
    """Return the nodes that stood out, the oldest session first. Raises InputError for a file that cannot be used."""
    return entries_of(read_ledger(results, site))


def entries_of(known: Iterable[Known]) -> list[Entry]:
    """Return the nodes that stood out in incidents, the oldest session first."""
    return sorted(
        Entry(seen.day, uuid, node, incident.incident.kind, f'incident {incident.id}')
        for incident in known
        for uuid, seen in incident.seen.items()
        for node in seen.bad
        if node
    )


def accused(results: Path, sessions: Sequence[Session], epoch: str) -> dict[str, dict[str, str]]:
    """Return the sessions that incidents make doubtful: session -> node (or case, if without nodes) -> incident.

    An incident makes all sessions doubtful from its first bad one until it healed. An `epoch`, a planned change of the
    machine, explains the incidents that began in `sessions`.
    """
    doubts: dict[str, dict[str, str]] = defaultdict(dict)
    own = {session.session for session in sessions}
    for site in {session.site for session in sessions}:
        for incident in read_ledger(results, site):
            if epoch and incident.first in own:
                continue
            what = f'incident {incident.id}: {incident.incident.kind}{"" if incident.closed else ", not healed"}'
            cases = {str(of.case) for of in incident.incident.series} if incident.incident.sort == 'loss' else set()
            began = min(seen.started for seen in incident.seen.values())
            for session in sessions:
                bad = set(incident.seen[session.session].bad) if session.session in incident.seen else set()
                lasts = session.session == incident.incident.since or session.time >= began
                bad |= set(incident.unhealed) if lasts and not incident.closed else set()
                names = bad - {''} | (cases if '' in bad else set())
                doubts[session.session] = dict.fromkeys(names, what) | doubts[session.session]
    return doubts

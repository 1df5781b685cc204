# SPDX-License-Identifier: BSD-3-Clause
"""The ledger of a site: the fold of what its judged sessions show and of the notes of persons.

Any state of it can be made again from the table ``findings`` of the store and the notes; what is kept of it in
``<results>/judged/<site>.ledger`` only spares the reading.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from plumbline.errors import InputError, did_you_mean
from plumbline.files import write_text, write_whole
from postprocess.incidents import notes
from postprocess.incidents.fold import Folded, Night, NightFacts, fold, in_turn
from postprocess.incidents.known import Known
from postprocess.incidents.notes import Note
from postprocess.incidents.old_ledger import take_over
from postprocess.incidents.part import Part
from postprocess.incidents.rows import TABLE, facts_from_json, from_row
from postprocess.results import fingerprint, judged
from postprocess.results.files import listed
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts.stored import code


class _Checkpoint(NamedTuple):
    """The incidents after the first `nights`, which spares a command from reading what all sessions of years showed.

    `nights`: uuid of each session, and what changes when its file is replaced. `notes`: those that count.
    `code`: checksum of our own code.
    """

    nights: list[tuple[str, str]]
    notes: list[Note]
    code: str
    state: Folded


_BEGINNING = _Checkpoint([], [], '', Folded())


class Ledger:
    """The judged sessions of a site and the notes on its incidents, which follow from both.

    `nights`: the last of them, among these the session `judging` and all later ones; all after `whole`. Raises
    InputError for a damaged or missing file.
    """

    def __init__(self, store: Store, site: str, judging: Session | None = None):
        """Read them; what was stored of the session `judging` may be damaged, because it is judged again."""
        self.store, self.site, self.judging = store, site, judging
        self.results = store.folder.parent
        take_over(store, site)
        self.sessions = store.sessions(site)
        self.notes = notes.read(self.results, site)
        self._files = [(one, state) for one in self.sessions if (state := fingerprint.state(store.path(TABLE, one)))]
        self._must_be_whole()
        self._start = self._checkpoint()
        self._read(self._files[len(self._start.nights) :])

    def _must_be_whole(self) -> None:
        """Raise InputError if what a judged session showed is not there any more."""
        there = {session.session for session, _ in self._files}
        listed = {words[0] for words in map(str.split, _judged(self.results, self.site)) if len(words) == 1}
        if lost := [one for one in self.sessions if one.session in listed - there and one != self.judging]:
            path, first = self.store.path(TABLE, lost[0]), lost[0].short_name
            which = f'{path}: what session {first} showed is missing'
            more = f', and that of {count(len(lost) - 1, "other session")}' if lost[1:] else ''
            raise InputError(f'{which}{more}: {self.store.command(f"compare {first}", self.site)} judges it again')

    def whole(self) -> Ledger:
        """Return the same, with all nights."""
        if self._start.nights:
            self._start = _BEGINNING
            self._read(self._files)
        return self

    def _read(self, files: Sequence[tuple[Session, str]]) -> None:
        """Read what sessions showed."""
        self.nights: list[Night] = []
        for session, _ in files:
            try:
                facts, incidents = judged.read_any(self.store, TABLE, session, partial(from_row, session))
            except InputError:
                if session != self.judging:
                    raise
            else:
                self.nights.append(Night(session, incidents, facts_from_json(facts)))

    def _checkpoint(self) -> _Checkpoint:
        """Return what was kept, if it is of before the judged session, and its nights and notes are as they were.

        Else the beginning.
        """
        with suppress(OSError, zlib.error, msgspec.DecodeError, ValueError, IndexError):
            text = zlib.decompress(self._path.read_bytes())
            kept = msgspec.msgpack.decode(text, type=_Checkpoint, dec_hook=lambda type, value: type(value))
            files = self._files[: len(kept.nights)]
            nights, last = [(session.session, state) for session, state in files], files[-1][0]
            is_before = self.judging is None or last.key < self.judging.key
            if is_before and (kept.nights, kept.notes, kept.code) == (nights, self._noted_before(last), code()):
                return kept
        return _BEGINNING

    def keep(self, newest: Session) -> None:
        """Keep the incidents before the newest session, for the next command; this is done once a night."""
        files = [(session, state) for session, state in self._files if session != newest]
        if len(files) > len(self._start.nights):
            last = files[-1][0]
            own = self._noted_before(last)
            state = self._after([night for night in self.nights if night.key <= last.key], own)
            kept = _Checkpoint([(session.session, of) for session, of in files], own, code(), state)
            content = zlib.compress(msgspec.msgpack.encode(kept, enc_hook=str), 1)
            with suppress(InputError):
                write_whole({self._path: lambda stream: stream.write(content)})

    def _noted_before(self, session: Session) -> list[Note]:
        """Return the notes that count before a session."""
        return [note for note in self.notes if note.after < session.key]

    @property
    def _path(self) -> Path:
        return self.results / 'judged' / f'{self.site}.ledger'

    @property
    def last(self) -> str:
        """The key of the last night; empty without one."""
        return self._files[-1][0].key if self._files else ''

    def known(self, last: Session | None = None, day: str = '') -> Folded:
        """Return the incidents after all nights and notes.

        `last`: after the nights up to this session. `day`: after what was judged and noted up to that day.
        """
        if day:
            self.whole()
        nights = [
            night
            for night in self.nights
            if (not last or night.key <= last.key) and (not day or night.session.day <= day)
        ]
        return self._after(nights, [note for note in self.notes if not day or note.day <= day])

    def before(self, session: Session, noted_later: bool = True) -> Folded:
        """Return the incidents before a session; without `noted_later`, as the notes up to it tell them."""
        by_persons = self.notes if noted_later else self._noted_before(session)
        return self._after([night for night in self.nights if night.key < session.key], by_persons)

    def facts_of(self, session: Session) -> NightFacts | None:
        """Return the facts of a session; None if it was never judged."""
        return next((night.facts for night in self.nights if night.session.session == session.session), None)

    @property
    def unjudged(self) -> list[Session]:
        """The whole sessions of a mode since the first judged one that never were, such as one that came late."""
        told = {session.session for session, _ in self._files}
        since = self._files[0][0].key if self._files else ''
        return [
            one
            for one in self.sessions
            if one.key > since and one.session not in told and one != self.judging
            if told and one.mode and not one.narrowed_by
        ]

    @property
    def dated(self) -> list[tuple[Part, str]]:
        """The parts that last of which a person said when they began, each with that session."""
        return [(part, part.incident.since) for part in self.known().parts if part.dated]

    def put(self, night: Night) -> None:
        """Let a night take its place, or that of what was known of its session."""
        others = [other for other in self.nights if other.session.session != night.session.session]
        self.nights = sorted([*others, night], key=lambda night: night.key)

    def _after(self, nights: Sequence[Night], by_persons: Sequence[Note]) -> Folded:
        later = [note for note in by_persons if note not in self._start.notes]
        return fold(in_turn(nights, later), self._start.state)


class Unreadable(Ledger):
    """A ledger that cannot be read: what a session itself shows can still be told, and nothing is kept."""

    def __init__(self, store: Store, site: str):
        self.store, self.site, self.results = store, site, store.folder.parent
        self.sessions, self.notes, self.nights, self._files, self.judging = store.sessions(site), [], [], [], None
        self._start = _BEGINNING


def note_judged(results: Path, session: Session) -> None:
    """Note for good that a session was judged, so that it is missed when it is lost. Raises InputError."""
    before = _judged(results, session.site)
    if session.session not in before:
        write_text(_list_of(results, session.site), ''.join(f'{line}\n' for line in [*before, session.session]))


def _judged(results: Path, site: str) -> list[str]:
    """Return the uuids of the judged sessions; what a version before 1.0 wrote has a number of reports behind it."""
    path = _list_of(results, site)
    try:
        return path.read_text(encoding='utf-8').splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise InputError(f'{path}: cannot be read: {error}; remove it, or repair it') from None


def _list_of(results: Path, site: str) -> Path:
    """Return the path of the file that names the judged sessions of a site."""
    return results / 'judged' / f'{site}.txt'


def read_ledger(results: Path, site: str, day: str = '') -> list[Known]:
    """Return the incidents of a site, the first found first; with `day`, as they were known on that day.

    Raises InputError for a file that cannot be used.
    """
    return Ledger(Store(results), site).known(day=day).known


def sites(results: Path) -> list[str]:
    """Return the names of the sites of which a session was judged, or something was noted. Raises InputError."""
    judged_ones = [path for path in listed(results / 'store' / TABLE) if path.is_dir()]
    old = [path for path in listed(results / 'incidents') if path.is_dir() and path.suffix != '.before']
    return sorted({path.name.removeprefix('site=') for path in (*judged_ones, *old)} | {*notes.sites(results)})


def faults(store: Store) -> Iterator[str]:
    """Yield a sentence for each file from which the ledger follows that is damaged or missing, and for lost sessions.

    Also for each note on an incident that does not exist, such as of a session that was forgotten since.
    """
    results = store.folder.parent
    for site in sorted({*sites(results), *(path.stem for path in (results / 'judged').glob('*.txt'))}):
        try:
            ledger = Ledger(store, site)
            ids = {id for one in ledger.known().known for id in one.ids} | {note.made for note in ledger.notes}
            for note in ledger.notes:
                if lost := [id for id in note.ids if id not in ids]:
                    yield f'{notes.path_of(results, site)}: no incident has the id {lost[0]}, which was {note.what}'
        except InputError as error:
            yield f'{error}'
        with suppress(InputError):  # a damaged list of sessions, which the check of the store names
            known = {session.session for session in store.sessions(site)}
            known |= {gone.session for gone in store.forgotten(site)}
            for session in sorted({line.split()[0] for line in _judged(results, site) if line.strip()} - known):
                yield f'session {session} of {site} was judged and is not in the store: ingest its report again'


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


def accused(results: Path, sessions: Sequence[Session], epoch: str) -> dict[str, dict[str, str]]:
    """Return the sessions that incidents make doubtful: session -> node (or case, if without nodes) -> incident.

    An incident makes all sessions doubtful from its first bad one until it healed. An `epoch`, a planned change of the
    machine, explains the incidents that `sessions` told first, or that began with the change of this name, but for the
    losses of single nodes.
    """
    own = {session.session for session in sessions}

    def is_explained(one: Known) -> bool:
        """Return True if the epoch explains an incident."""
        began_with_it = one.first in own or (one.incident.is_of_a_change and epoch in one.incident.changed)
        return bool(epoch) and began_with_it and not (one.incident.sort == 'loss' and one.incident.own_nodes)

    known = [one for site in {session.site for session in sessions} for one in read_ledger(results, site)]
    return accused_by([one for one in known if not is_explained(one)], sessions)


def accused_by(known: Iterable[Known], sessions: Sequence[Session]) -> dict[str, dict[str, str]]:
    """Return what `accused` returns, for incidents that are read already and that no epoch explains."""
    doubts: dict[str, dict[str, str]] = defaultdict(dict)
    for incident in known:
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

# SPDX-License-Identifier: BSD-3-Clause
"""Propose rows of ``baseline.csv`` from sessions, and withhold rows for which a person must give a reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

import numpy

from plumbline.clock import is_ahead
from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import Limits, Tolerance, limits, tolerance_for
from plumbline.references import Reference, load_references
from plumbline.site.sites import UNDESCRIBED
from postprocess.results.store import Session, Store
from postprocess.statistics.levels import Level, Values, estimate
from postprocess.text import count, digits
from postprocess.verdicts.baseline_files import lost, read_baseline, read_retired
from postprocess.verdicts.baseline_row import part, retired_at, row_of, with_spread_of
from postprocess.verdicts.candidates import (
    Accused,
    Candidate,
    Doubt,
    KeptFacts,
    Refusal,
    evidence_of,
    read_candidates,
    read_doubts,
    read_ended,
    read_unlike,
    read_unmeasured,
    unusable,
)  # fmt: skip
from postprocess.verdicts.hardware import HARDWARE
from postprocess.verdicts.objections import (
    LASTING,
    Objection,
    both_levels,
    doubtful_jobs,
    slow_loss,
    summary_of,
    two_levels,
    worse,
)  # fmt: skip
from postprocess.verdicts.policy import site_policy

NEWEST = 400  #: sessions that a proposal uses if none were named
_NOTHING = 'holds nothing that can be recorded'
_BEFORE = 'is from before the baseline in force'


@dataclass(frozen=True)
class Replacement:
    """A proposed row, and the row of the same series that it replaces.

    `objections`: reasons against the row, for which a person must give a reason. `withheld`: True if a reason is needed
    and was not given.
    """

    new: Reference
    new_limits: Limits
    old: Reference | None
    old_limits: Limits | None
    tolerance: Tolerance
    objections: tuple[Objection, ...] = ()
    withheld: bool = False

    @property
    def what(self) -> str:
        """The state of the row: ``withheld``, ``new``, ``changed`` or ``same``."""
        if self.withheld:
            return 'withheld'
        if self.old is None:
            return 'new'
        compared = ('mean', 'std', 'n', 'unit', 'spread', 'df', 'epoch')
        old, new = ([digits(row[field]) for field in compared] for row in (self.old.to_row(), self.new.to_row()))
        return 'same' if old == new else 'changed'

    @property
    def difference(self) -> float | None:
        """Change of the mean in %; None without an old row in the same unit and direction."""
        if self.old is None or self.old.quantity != self.new.quantity:
            return None
        return 100 * (self.new.mean / self.old.mean - 1)


@dataclass(frozen=True)
class Wanted:
    """The request for a proposal.

    `named`: the sessions were chosen by name. `although`: the reason to record doubtful rows. `epoch`: name of a
    planned change of the machine just before these sessions.
    """

    named: bool = False
    although: str = ''
    epoch: str = ''


@dataclass(frozen=True)
class Proposal:
    """The proposed rows of a site, including withheld ones, and what was refused.

    `taken`: the sessions that the rows were computed from. `left_out`: session -> objections to its jobs, or why no job
    was used. `unusable`: sessions without anything to record, if they were named or there is no row at all. `doubted`:
    with a reason, more could be recorded. `evidence`: the archives of the newest job behind each row. `ended`: series
    that the newest session of their case no longer measures -> the first session without them. `in_force`: the series
    that have a row in the baseline.
    """

    site: str
    rows: list[Replacement]
    refused: list[Refusal]
    taken: list[Session]
    left_out: dict[str, str]
    unusable: list[str]
    doubted: bool
    evidence: list[str]
    ended: dict[SeriesId, Session] = field(default_factory=dict)
    in_force: frozenset[SeriesId] = frozenset()

    @property
    def complete(self) -> bool:
        """True if everything that was asked for is proposed."""
        return not (self.unusable or self.doubted) and any(not row.withheld for row in self.rows)


def propose(
    store: Store,
    sessions: Iterable[Session],
    root: Path | None = None,
    wanted: Wanted = Wanted(),
    accused: Accused | None = None,
) -> Proposal:
    """Return new baseline rows from `sessions`, together with the rows in force below `root`.

    If sessions were not named, a series uses the jobs without objections, beginning with the first session of its row
    in force. A value is the mean of the trials of one job; n counts sessions, and the spread is the spread between
    sessions. A row of one session has no spread of its own: its limits follow from the usual spread that its check
    states. Of a series with two levels the worse level is proposed. A series that its case no longer measures is not
    proposed. Raises InputError if the sessions are of several sites, SiteError if a file of the site is wrong.
    """
    chosen = sorted(
        {session.session: session for session in sessions}.values(), key=lambda one: (one.started, one.session)
    )
    sites = sorted({session.site for session in chosen})
    if len(sites) != 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a proposal is for one')
    if not wanted.named:
        chosen = [session for session in chosen if not is_ahead(session.started)] or chosen
    return _Recorder(store, chosen, root, wanted, read_doubts(store, chosen, accused or {})).proposal()


def stand_ins(
    store: Store, sessions: Sequence[Session], wanted: Collection[SeriesId], accused: Accused, root: Path | None = None
) -> dict[SeriesId, Reference]:
    """Return the rows that a baseline of `sessions` would have for the `wanted` series, without doubtful ones.

    Raises InputError, SiteError.
    """
    recorder = _Recorder(store, list(sessions), root, Wanted(), read_doubts(store, sessions, accused))
    _, rows = recorder.rows([of for of in read_candidates(store, sessions) if of.id in wanted])
    return {row.new.id: row.new for row in rows if not row.withheld}


class _Recorder:
    """Turns measurements into rows; collects `refused` and `doubted` of the proposal on the way."""

    def __init__(
        self,
        store: Store,
        sessions: list[Session],
        root: Path | None,
        wanted: Wanted,
        doubts: dict[tuple[int, int], Doubt],
    ):
        self.store, self.sessions, self.wanted = store, sessions, wanted
        self.site = sessions[0].site
        self.of_site = store.sessions(self.site)
        self.policy = site_policy(sessions[-1], root)
        self.published = load_references(self.site, root).published
        self.in_force = lost(store, self.site, root) | {row.id: row for row in read_baseline(self.site, root)}
        self.retired = {row.id: retired_at(row) for row in read_retired(self.site, root)}
        # an epoch explains an incident of the case in the first sessions of that epoch
        explained = {(row.id.case, name) for row in self.in_force.values() if row.epoch for name in row.sessions}
        self.doubts = {
            job: doubt
            for job, doubt in doubts.items()
            if doubt.node or (doubt.case, sessions[doubt.night].short_name) not in explained
        }
        if not wanted.epoch:  # a planned change of the machine explains other hardware
            rows = (row for row in self.in_force.values() if not HARDWARE.keys().isdisjoint(row.facts))
            self.doubts |= read_unlike(store, sessions, {row.id.case: row.facts for row in rows})
        self.refused: list[Refusal] = []
        self.doubted = False

    def proposal(self) -> Proposal:
        """Return the proposal from all sessions."""
        of_site = [session for session in self.of_site if not is_ahead(session.started)] or self.sessions
        measured = read_candidates(self.store, self.sessions)
        ended = read_ended(self.store, of_site, {of.id for of in measured} | self.in_force.keys())
        measured = [of for of in measured if of.id not in ended]
        chosen, rows = self.rows(measured)
        taken = sorted({night for of in chosen for night in of.nights.tolist()})
        left_out = self.left_out(measured, chosen, taken)
        strict = self.wanted.named or not rows
        empty = [name for name, why in left_out.items() if strict and why == _NOTHING]
        newest = {_jobs(of)[-1] for of in chosen}
        return Proposal(
            self.site, rows, self.refused + read_unmeasured(self.store, self.sessions),
            [self.sessions[night] for night in taken], left_out, empty,
            self.doubted or any(row.withheld for row in rows), evidence_of(self.store, self.sessions, newest), ended,
            frozenset(self.in_force),
        )  # fmt: skip

    def rows(self, measured: Sequence[Candidate]) -> tuple[list[Candidate], list[Replacement]]:
        """Return the jobs that count of each series, and its proposed row."""
        groups = groupby(measured, key=lambda of: of.id)
        chosen = [of for of in (self.choose(list(group)) for _, group in groups) if of is not None]
        levels = estimate([self.values(of) for of in chosen])
        facts = KeptFacts(self.store, self.sessions)
        return chosen, [self.replacement(of, level, facts) for of, level in zip(chosen, levels, strict=True)]

    def choose(self, group: list[Candidate]) -> Candidate | None:
        """Return the jobs of a series that count; if none counts, note a refusal and return None."""
        candidate = group[0]
        if not self.wanted.named and (since := self.since(candidate.id)):
            candidate = candidate.only(
                numpy.array([self.sessions[night].started >= since for night in candidate.nights])
            )
        if not len(candidate.values):
            return None
        good = numpy.array([job not in self.doubts for job in _jobs(candidate)])
        if not good.all() and not (self.wanted.although and (self.wanted.named or not good.any())):
            self.doubted |= self.wanted.named or not good.any()
            if not good.any():
                first = self.doubts[_jobs(candidate)[0]]
                cause = f'{count(len(good), "job")}, none good enough for a baseline: {first}'
                self.refused.append(Refusal(candidate.id, cause))
                return None
            candidate = candidate.only(good)
        if cause := unusable([candidate, *group[1:]], self.sessions[-1].is_of_another_suite):
            self.refused.append(Refusal(candidate.id, cause))
            return None
        return candidate

    def since(self, of: SeriesId) -> datetime | None:
        """Return when the baseline of a series begins: at the first session of its row, or after it was retired."""
        old = self.in_force.get(of)
        if old is None:
            return self.retired.get(of)
        starts = [session.started for session in self.of_site if session.short_name in old.sessions]
        if starts:
            return min(starts)
        day = old.facts.get('dates', '')[:10] or (old.recorded_at if old.epoch else '')
        try:
            return datetime.fromisoformat(day) if day else None
        except ValueError:  # someone wrote the row by hand
            return None

    def values(self, of: Candidate) -> Values:
        """Return the values of a candidate with its usual spread and floor."""
        tolerance = self.tolerance(of)
        nights = set(of.nights.tolist())
        looks = {night: values for night, values in of.looks.items() if night in nights}
        return Values(of.values, of.nights, of.quantity.sign, tolerance.usual_spread, tolerance.floor, looks)

    def tolerance(self, of: Candidate) -> Tolerance:
        """Return the tolerance of a candidate: what the site states, else what its check states."""
        return tolerance_for(self.policy, of.id, **of.stated)

    def replacement(self, of: Candidate, level: Level, facts: KeptFacts) -> Replacement:
        """Return the proposed row of a series, the row in force, and the objections to the proposed row."""
        old, tolerance, wanted = self.in_force.get(of.id), self.tolerance(of), self.wanted
        used = of.only(level.used)
        if level.worse is not None:
            used = replace(used, values=level.worse)
        nights = list(dict.fromkeys(used.nights.tolist()))
        new = row_of(used, level, [self.sessions[night] for night in nights], facts.of(of.id.case, set(nights)))
        if self.alternates(level):
            new = replace(new, note=f'{new.note}; {both_levels(level, of.quantity.unit)}')
        if old and (wanted.epoch or (old.epoch and (old.spread_n or 0) > (new.n or 0))):
            new = with_spread_of(new, old)  # the level has changed, but not how much the metric varies
        new = replace(new, epoch=wanted.epoch or (old.epoch if old else ''))
        objections = doubtful_jobs(used, self.doubts)
        if not self.alternates(level):
            objections += two_levels(level, of.quantity.unit, self.sessions)
        objections += slow_loss(used, tolerance, self.sessions)
        objections += worse(new, None if wanted.epoch else old, self.published.find(of.id), tolerance)
        accepted = (old.facts.get('although', '') if old else '').partition(': ')
        due = [
            objection
            for objection in objections
            if objection.kind not in LASTING or objection.kind not in accepted[0].split(',')
        ]
        withheld = bool(due) and not wanted.although
        if objections and not withheld:
            why = part(wanted.although if due else accepted[2])
            kinds = ','.join(sorted({objection.kind for objection in objections}))
            note = '; '.join([new.note, *(objection.why for objection in objections), f'although: {why}'])
            new = replace(new, note=note, provenance=f'although={kinds}: {why}; {new.provenance}')
        old_limits = limits(old, tolerance) if old else None
        return Replacement(new, limits(new, tolerance), old, old_limits, tolerance, tuple(due), withheld)

    def alternates(self, level: Level) -> bool:
        """Return True if a machine alternates between two levels by itself, so that no person can explain the change.

        That is so if jobs of one session are at both levels, or sessions of an undescribed machine are.
        """
        to_and_fro = bool(level.levels) and level.switched is None
        return to_and_fro and (level.worse is not None or self.site == UNDESCRIBED)

    def left_out(
        self, measured: Sequence[Candidate], found: Sequence[Candidate], taken: Sequence[int]
    ) -> dict[str, str]:
        """Return session -> why some or all of its jobs are not in `found`."""
        doubts: dict[int, list[Doubt]] = {}
        used = {job for of in found for job in _jobs(of)} if self.doubts else set()
        for job, doubt in self.doubts.items():
            if job not in used:
                doubts.setdefault(doubt.night, []).append(doubt)
        nights = {night for of in measured for night in of.nights.tolist()}
        reasons: dict[str, str] = {}
        for night, session in enumerate(self.sessions):
            if night in doubts:
                reasons[session.session] = ('some of its jobs: ' if night in taken else '') + summary_of(doubts[night])
            elif night not in taken:
                reasons[session.session] = _BEFORE if night in nights and not self.wanted.named else _NOTHING
        return reasons


def _jobs(of: Candidate) -> list[tuple[int, int]]:
    """Return the (session, case) of each job of a candidate."""
    return list(zip(of.nights.tolist(), of.cases.tolist(), strict=True))

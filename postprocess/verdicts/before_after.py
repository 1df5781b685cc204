# SPDX-License-Identifier: BSD-3-Clause
"""Compare sessions before and after a change: two sessions, two spans of days, or sessions measured in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy
from numpy import ndarray

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import LIKENESS_OF_JOBS, Limits, Tolerance, expected_spread, limits, tolerance_for, with_spread
from plumbline.record import summarize
from plumbline.references import Reference, References, load_references
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics.change import Decision, decide_in_turn, decide_once, estimate, with_known
from postprocess.text import count, number
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.health import busy_beside
from postprocess.verdicts.measured import Measured, mean_of, measured
from postprocess.verdicts.missing import not_measured
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.verdict import Comparison, worst_first


def sessions_named(store: Store, name: str, site: str | None = None) -> list[Session]:
    """Return the session whose uuid begins with `name`, the ``latest``, or all that started in the days ``FROM..TO``.

    Days are UTC, both included. Raises InputError if there is no such session.
    """
    if '..' not in name:
        return [store.find(name, site)]
    try:
        first, last = map(date.fromisoformat, name.split('..'))
    except ValueError:
        raise InputError(f'{name}: expected two days such as 2026-11-01..2026-11-30') from None
    newest = store.find('latest', site)
    sessions = [session for session in store.sessions(newest.site) if first <= session.started.date() <= last]
    if not sessions:
        raise InputError(f'{store.folder}: no session started in the days {name}')
    return sessions


def compare_windows(
    store: Store, before: Sequence[Session], after: Sequence[Session], root: Path | None = None
) -> Comparison:
    """Judge how each series changed from the sessions `before` to the sessions `after`.

    If at least two nodes ran on both sides, they are paired. How much single jobs differ is estimated from the jobs of
    both sides, the baseline of the site below `root`, the other series, and the usual spread of the kind of metric;
    `decide_once` decides, with the floor of the site's policy. Only in the newest session a missing number is bad; in
    earlier ones only valid numbers count. Raises InputError if the sessions are of several sites.
    """
    sites = sorted({session.site for session in (*before, *after)})
    if len(sites) > 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a comparison is of one')
    policy, own = site_policy(after[-1], root), load_references(sites[0], root)
    old, new = ([_Read.of(store, session) for session in side] for side in (before, after))
    # jobs of one day share the conditions of the day
    longest = max(max(each.started for each in side) - min(each.started for each in side) for side in (before, after))
    likeness = LIKENESS_OF_JOBS if longest < timedelta(days=1) else 0.0

    def answer(series: Sequence[_Changed]) -> Decision:
        """Decide once, by the compared jobs and by what is known of each series."""
        change = estimate(*_jobs(series), numpy.array([one.paired for one in series]), likeness)
        spreads = (expected_spread(with_spread(one.reference, own), one.tolerance) for one in series)
        known, known_df, assumed = map(numpy.array, zip(*spreads, strict=True))
        jobs = numpy.array([len(one.after) for one in series])
        return decide_once(with_known(change, known, known_df, assumed, _priors(series)), _smallest(series), jobs)

    scope = f'{sites[0]}, {_named(after)}, against {_named(before)}'
    return _compare(old, new, answer, scope, policy)


def compare_pairs(
    store: Store, pairs: Sequence[tuple[Session, Session]], smallest: float, only: Collection[SeriesId] = ()
) -> Comparison:
    """Judge how each series changed in `pairs`: a session before and a session after a change, measured in turn.

    Jobs on the same nodes in the sessions of a pair are paired, and nothing else is known of a series: `decide_in_turn`
    decides. A number missing in any session after the change is bad. `smallest`: share of performance, above 0; a
    smaller loss does not matter. If the check states a larger floor, that counts. `only`: the series to judge, all of
    them by default: the fewer, the fewer pairs decide. Raises InputError, also if no session measured one of `only`.
    """
    old, new = (
        [_Read.of(store, session, turn) for turn, session in enumerate(side)] for side in zip(*pairs, strict=True)
    )

    def answer(series: Sequence[_Changed]) -> Decision:
        """Decide by the pairs of jobs alone, those of all rounds in their order."""
        before, after = _jobs(series)
        quiet = numpy.zeros(before.shape, bool)
        for place, one in enumerate(series):
            quiet[place, : len(one.quiet)] = one.quiet
        return decide_in_turn(before, after, quiet, _smallest(series), _priors(series))

    scope = f'{new[-1].session.site}, {len(pairs)} pairs of sessions before and after the change'
    return _compare(old, new, answer, scope, {}, in_turn=True, smallest=smallest, only=only)


@dataclass(frozen=True)
class _Read:
    """The cases of a session, and what it measured. `turn`: number of its pair, if sessions were measured in turn."""

    session: Session
    cases: list[CaseRow]
    rows: list[Measured]
    turn: int = 0

    @classmethod
    def of(cls, store: Store, session: Session, turn: int = 0) -> _Read:
        """Read a session from the store."""
        rows = store.rows(session)
        return cls(session, rows.cases, measured(rows), turn)


@dataclass
class _Side:
    """What the sessions of one side measured of a series.

    `jobs`: (turn, nodes joined by commas) -> logarithm of the performance of each job there, and whether its CPUs were
    busy with other work.
    """

    rows: list[Measured] = field(default_factory=list)
    jobs: dict[tuple[int, str], list[tuple[float, bool]]] = field(default_factory=dict)

    @property
    def usable(self) -> list[Measured]:
        """The rows that can be compared."""
        return [row for row in self.rows if _is_usable(row)]


@dataclass(frozen=True)
class _Changed:
    """A series of both sides: the logarithm of performance of each job, or of each of its pairs.

    `place`: index of the series in the facts. `quiet`: of each pair of jobs measured in turn, whether its CPUs did no
    other work; empty if jobs were not measured in turn. Either side may be without a job.
    """

    place: int
    reference: Reference
    tolerance: Tolerance
    before: list[float]
    after: list[float]
    paired: bool
    quiet: list[bool]
    in_turn: bool

    @property
    def smallest(self) -> float:
        """The logarithm of the smallest loss that counts, the floor."""
        return -math.log1p(-self.tolerance.floor)

    @classmethod
    def of(
        cls, place: int, reference: Reference, tolerance: Tolerance, before: _Side, after: _Side, in_turn: bool
    ) -> _Changed:
        """Pair the jobs on the same nodes, `in_turn` those of each turn; of one node or none, compare all jobs."""
        both, sides = sorted(before.jobs.keys() & after.jobs.keys()), (before, after)
        paired = in_turn or len(both) > 1
        if paired:
            old, new = ([fmean(value for value, _ in side.jobs[where]) for where in both] for side in sides)
        else:
            old, new = ([value for where in both or side.jobs for value, _ in side.jobs[where]] for side in sides)
        quiet = [not any(busy for side in sides for _, busy in side.jobs[where]) for where in both if in_turn]
        return cls(place, reference, tolerance, old, new, paired, quiet, in_turn)

    def how(self, used: int) -> str:
        """Return what was compared, in words; `used`: number of pairs that were used."""
        if not self.paired:
            return f'{count(len(self.before), "job")} against {len(self.after)}'
        if not self.in_turn:
            return f'paired over {len(self.before)} nodes'
        busy = self.quiet[:used].count(False)
        return f'{count(used, "pair")} of jobs' + (f', {busy} of them beside busy CPUs' if busy else '')


def _jobs(series: Sequence[_Changed]) -> tuple[ndarray, ndarray]:
    """Return the jobs of both sides, each series x jobs; NaN where a series has fewer."""
    most = max(len(side) for one in series for side in (one.before, one.after))
    before, after = numpy.full((2, len(series), most), math.nan)
    for place, one in enumerate(series):
        before[place, : len(one.before)], after[place, : len(one.after)] = one.before, one.after
    return before, after


def _smallest(series: Sequence[_Changed]) -> ndarray:
    """Return the smallest loss of each series that counts."""
    return numpy.array([one.smallest for one in series])


def _priors(series: Sequence[_Changed]) -> ndarray:
    """Return the usual variance of each series' kind of metric."""
    return numpy.array([one.tolerance.prior for one in series])


def _compare(
    old: Sequence[_Read], new: Sequence[_Read], answer: Callable[[Sequence[_Changed]], Decision], scope: str,
    policy: dict[str, Any], in_turn: bool = False, smallest: float = 0.0, only: Collection[SeriesId] = (),
) -> Comparison:  # fmt: skip
    """Judge how each series changed from the sessions `old` to the sessions `new`.

    `answer`: decides on all series that have jobs on both sides. `in_turn`: the sessions were measured in turn, so what
    is wrong in any of them is bad; else what is wrong in the newest. `smallest`: the least floor, a share.
    """
    sides = _sides(old), _sides(new)
    if lost := set(only) - sides[0].keys() - sides[1].keys():  # nothing measured must not read as nothing lost
        raise InputError(f'{min(lost)}: no session of the comparison measured it')
    before, after = ({of: side for of, side in series.items() if not only or of in only} for series in sides)
    newest, strict = new[-1].session, new if in_turn else new[-1:]
    names = [read.session.short_name for read in old]
    source = f'session{"s" * (len(names) > 1)} {", ".join(names)}'
    references = {of: _reference(good, source) for of, side in before.items() if (good := side.usable)}
    bad = {row.id: row for read in reversed(strict) for row in read.rows if row.status != 'measured' or row.lost}
    facts: list[Facts] = []
    asked: list[_Changed] = []
    for of, side in after.items():
        row, reference = bad.get(of) or (side.usable or side.rows)[-1], references.get(of)
        row = row.no_longer_judged() if reference and not row.judged else row
        stated = tolerance_for(policy, of, **row.stated)
        tolerance = replace(stated, floor=max(stated.floor, smallest))
        rules = [(reference, limits(reference, tolerance))] if reference else []
        unknown = in_turn and row.judged and reference is None
        loss = Loss('warning', 'cannot tell: no number above 0 before the change') if unknown else Loss()
        facts.append(Facts(row, rules, newest.session, next(iter(row.lost), None) if of in bad else None, loss=loss))
        if reference and facts[-1].referenced and not facts[-1].lost:
            asked.append(_Changed.of(len(facts) - 1, reference, tolerance, before[of], side, in_turn))
    for place, loss in _losses(asked, answer):
        facts[place] = replace(facts[place], loss=loss)
    rows, cases = [row for read in new for row in read.rows], [case for read in strict for case in read.cases]
    is_whole = newest.is_of_another_suite and any(read.session.selection == newest.selection for read in old)
    together = references if is_whole else ()
    facts += not_measured(References(references.values()), rows, cases, newest, policy, together)
    verdicts = [decide(of) for of in facts]
    judged = [*(old if in_turn else ()), *strict]
    problems = [problem for read in judged for problem in problems_of(read.session, read.cases, read.rows)]
    unique = list({str(problem): problem for problem in problems}.values())
    return Comparison(newest, old[-1].session, worst_first(verdicts), unique, scope)


def _sides(reads: Iterable[_Read]) -> dict[SeriesId, _Side]:
    """Return series -> what the sessions measured of it."""
    series: dict[SeriesId, _Side] = {}
    for read in reads:
        busy = {case.case_id for case in read.cases if busy_beside(case)}
        for row in read.rows:
            side = series.setdefault(row.id, _Side())
            side.rows.append(row)
            for job in row.measuring if _is_usable(row) else ():
                if job.value > 0:
                    where = read.turn, ','.join(sorted(job.nodes))
                    performance = row.quantity.sign * math.log(job.value)
                    side.jobs.setdefault(where, []).append((performance, job.case_id in busy))
    return series


def _is_usable(row: Measured) -> bool:
    """Return True for a row that can be compared: a measured number above 0 that the check judges."""
    return row.status == 'measured' and row.judged and row.value > 0


def _reference(rows: Sequence[Measured], source: str) -> Reference:
    """Return a reference made from the rows that were measured before."""
    first, summary = rows[0], summarize([row.value for row in rows])
    return Reference(
        id=first.id, quantity=first.quantity, mean=mean_of(summary), std=summary.std, n=summary.n,
        kind='session', source=source, mode=first.mode,
    )  # fmt: skip


def _losses(asked: Sequence[_Changed], answer: Callable[[Sequence[_Changed]], Decision]) -> Iterable[tuple[int, Loss]]:
    """Yield the place and the loss of each series that has a reference."""
    on_both = [one for one in asked if one.before and one.after]
    decision = answer(on_both) if on_both else None
    losses = {one.place: _loss(one, decision, i) for i, one in enumerate(on_both) if decision}
    for one in asked:
        yield one.place, losses.get(one.place) or Loss('warning', f'cannot tell: {one.how(len(one.after))}')


def _loss(one: _Changed, decision: Decision, i: int) -> Loss | None:
    """Return the loss of a series from the decision on it, the i-th; None if it has too few jobs for any.

    Values are geometric means of what was compared: their ratio is the change.
    """
    loss, low, high, error, df, p, q, limit, noticed = (
        float(of[i])
        for of in (
            decision.loss, decision.low, decision.high, decision.error, decision.df, decision.p, decision.q,
            decision.limit, decision.noticed,
        )
    )  # fmt: skip
    if math.isnan(loss):
        return None
    used, quantity = int(decision.jobs[i]), one.reference.quantity
    before, after = one.before[:used] if one.paired else one.before, one.after[:used]
    old, new = (summarize([math.exp(quantity.sign * value) for value in side]) for side in (before, after))
    expected, value = (math.exp(quantity.sign * fmean(side)) for side in (before, after))
    bad, good = (expected * math.exp(quantity.sign * change) for change in (-limit, limit))
    how = one.how(used)
    why = f'{"floor" if limit == one.smallest else "99 % interval of the change"}, {how}'
    found = None if math.isnan(noticed) else _share(noticed)
    shown = Loss(
        'ok', limits=Limits(bad, good, _share(limit), why, 'gated', error, df, found), p=p,
        q=None if math.isnan(q) else q, measured=replace(new, mean=value), loss=_share(loss),
        interval=(_share(low), _share(high)), window=used,
        reference=replace(one.reference, mean=expected, std=old.std, n=old.n),
    )  # fmt: skip
    word = decision.word[i]
    if word == 'regressed':
        cause = (
            f'{number(value)} {quantity.unit}, {number(expected)} before: lost {100 * _share(loss):.1f} % '
            f'(95 % interval {100 * _share(low):.1f} to {100 * _share(high):.1f} %; {how})'
        )
        return replace(shown, shows='regressed', cause=cause)
    if word == 'warning':
        cause = f'cannot tell: {_in_words(low)} to {_in_words(high)} (95 % interval, {how}); compare more sessions'
        return replace(shown, shows='warning', cause=cause)
    return replace(shown, shows='improved' if word == 'improved' else 'ok')


def _share(loss: float) -> float:
    """Return the share of performance lost from its logarithm."""
    return -math.expm1(-loss)


def _in_words(loss: float) -> str:
    """Return the logarithm of a loss as text: ``gain of 5 %`` or ``loss of 5 %``."""
    return f'{"loss" if loss > 0 else "gain"} of {100 * abs(_share(loss)):.0f} %'


def _named(sessions: Sequence[Session]) -> str:
    """Return the sessions in words: the only session with its time, or their number and first and last day."""
    first, last = sessions[0], sessions[-1]
    if len(sessions) == 1:
        return f'session {first.session} of {first.started:%Y-%m-%d %H:%M} UTC'
    return f'{len(sessions)} sessions of {first.day} to {last.day}'

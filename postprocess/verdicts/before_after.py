# SPDX-License-Identifier: BSD-3-Clause
"""Compare sessions before and after a change: two sessions, two spans of days, or sessions measured in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy
from numpy import ndarray

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import LIKENESS_OF_JOBS, Limits, expected_spread, limits, tolerance_for, with_spread
from plumbline.record import summarize
from plumbline.references import Reference, References, load_references
from postprocess.results.store import Session, Store
from postprocess.statistics.change import Decision, decide_in_turn, decide_once, estimate, with_known
from postprocess.text import number
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.measured import Measured, mean_of
from postprocess.verdicts.missing import not_measured
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.sides import Changed, Read, jobs_of, sides_of
from postprocess.verdicts.verdict import Comparison, worst_first


def compare_windows(
    store: Store, before: Sequence[Session], after: Sequence[Session], root: Path | None = None
) -> Comparison:
    """Judge how each series changed from the sessions `before` to the sessions `after`.

    If at least two nodes ran on both sides, they are paired. How much single jobs differ is estimated from the jobs of
    both sides, the baseline of the site below `root`, the other series, and the usual spread of the kind of metric;
    `decide_once` decides, with the floor of the site's policy. Only in the newest session a missing number is bad; in
    earlier ones only valid numbers count. Raises InputError if the sessions are of several sites, or one is on both
    sides.
    """
    if twice := {each.session for each in before} & {each.session for each in after}:
        raise InputError(f'session {min(twice)} is both before and after: expected other sessions on each side')
    sites = sorted({session.site for session in (*before, *after)})
    if len(sites) > 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a comparison is of one')
    policy, own = site_policy(after[-1], root), load_references(sites[0], root)
    old, new = ([Read.of(store, session) for session in side] for side in (before, after))
    # jobs of one day share the conditions of the day
    longest = max(max(each.started for each in side) - min(each.started for each in side) for side in (before, after))
    likeness = LIKENESS_OF_JOBS if longest < timedelta(days=1) else 0.0

    def answer(series: Sequence[Changed]) -> Decision:
        """Decide once, by the compared jobs and by what is known of each series."""
        change = estimate(*jobs_of(series), numpy.array([one.paired for one in series]), likeness)
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
        [Read.of(store, session, turn) for turn, session in enumerate(side)] for side in zip(*pairs, strict=True)
    )

    def answer(series: Sequence[Changed]) -> Decision:
        """Decide by the pairs of jobs alone, those of all rounds in their order."""
        before, after = jobs_of(series)
        quiet = numpy.zeros(before.shape, bool)
        for place, one in enumerate(series):
            quiet[place, : len(one.quiet)] = one.quiet
        return decide_in_turn(before, after, quiet, _smallest(series), _priors(series))

    scope = f'{new[-1].session.site}, {len(pairs)} pairs of sessions before and after the change'
    return _compare(old, new, answer, scope, {}, in_turn=True, smallest=smallest, only=only)


def _smallest(series: Sequence[Changed]) -> ndarray:
    """Return the smallest loss of each series that counts."""
    return numpy.array([one.smallest for one in series])


def _priors(series: Sequence[Changed]) -> ndarray:
    """Return the usual variance of each series' kind of metric."""
    return numpy.array([one.tolerance.prior for one in series])


def _compare(
    old: Sequence[Read], new: Sequence[Read], answer: Callable[[Sequence[Changed]], Decision], scope: str,
    policy: dict[str, Any], in_turn: bool = False, smallest: float = 0.0, only: Collection[SeriesId] = (),
) -> Comparison:  # fmt: skip
    """Judge how each series changed from the sessions `old` to the sessions `new`.

    `answer`: decides on all series that have jobs on both sides. `in_turn`: the sessions were measured in turn, so what
    is wrong in any of them is bad; else what is wrong in the newest. `smallest`: the least floor, a share.
    """
    sides = sides_of(old), sides_of(new)
    if lost := set(only) - sides[0].keys() - sides[1].keys():  # nothing measured must not read as nothing lost
        raise InputError(f'{min(lost)}: no session of the comparison measured it')
    before, after = ({of: side for of, side in series.items() if not only or of in only} for series in sides)
    newest, strict = new[-1].session, new if in_turn else new[-1:]
    names = [read.session.short_name for read in old]
    source = f'session{"s" * (len(names) > 1)} {", ".join(names)}'
    references = {of: _reference(good, source) for of, side in before.items() if (good := side.usable)}
    bad = {row.id: row for read in reversed(strict) for row in read.rows if row.status != 'measured' or row.lost}
    facts: list[Facts] = []
    asked: list[Changed] = []
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
            asked.append(Changed.of(len(facts) - 1, reference, tolerance, before[of], side, in_turn))
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


def _reference(rows: Sequence[Measured], source: str) -> Reference:
    """Return a reference made from the rows that were measured before."""
    first, summary = rows[0], summarize([row.value for row in rows])
    return Reference(
        id=first.id, quantity=first.quantity, mean=mean_of(summary), std=summary.std, n=summary.n,
        kind='session', source=source, mode=first.mode,
    )  # fmt: skip


def _losses(asked: Sequence[Changed], answer: Callable[[Sequence[Changed]], Decision]) -> Iterable[tuple[int, Loss]]:
    """Yield the place and the loss of each series that has a reference."""
    on_both = [one for one in asked if one.before and one.after]
    decision = answer(on_both) if on_both else None
    losses = {one.place: _loss(one, decision, i) for i, one in enumerate(on_both) if decision}
    for one in asked:
        yield one.place, losses.get(one.place) or Loss('warning', f'cannot tell: {one.how(len(one.after))}')


def _loss(one: Changed, decision: Decision, i: int) -> Loss | None:
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

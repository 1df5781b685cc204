# SPDX-License-Identifier: BSD-3-Clause
"""Compare two states that were measured in turn: each session of the first state with one session of the second."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import Limits, limits, tolerance_for
from plumbline.record import summarize
from plumbline.references import Reference, References
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics import paired
from postprocess.statistics.paired import Decision, Pairs
from postprocess.text import count, number
from postprocess.verdicts import compare
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.health import busy_beside
from postprocess.verdicts.measured import Job, Measured, measured
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.verdict import Comparison, worst_first
from postprocess.verdicts.windows import in_words, session_reference, undecided_in, usable

_NOT_BEFORE = 'cannot tell: not measured before the change'
_LEAST_SPREAD = 0.25  # least spread as a part of the usual one: printed numbers are rounded, and may be equal


@dataclass
class _Series:
    """What the sessions of both states measured of a series.

    `losses`: logarithm of the performance lost in each pair of jobs on the same nodes. `quiet`: True for a pair whose
    CPUs did no other work.
    """

    before: list[Measured] = field(default_factory=list)
    after: list[Measured] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    quiet: list[bool] = field(default_factory=list)


def compare_pairs(
    store: Store, pairs: Sequence[tuple[Session, Session]], smallest: float, only: Collection[SeriesId] = ()
) -> Comparison:
    """Judge how each series changed in `pairs`: a session before and a session after a change, measured in turn.

    `smallest`: share of performance, above 0; a smaller loss does not matter. If the check states a larger floor, that
    counts. `only`: the series to judge, all of them by default: the fewer, the fewer pairs decide. A series that the
    pairs neither clear nor convict is a `warning`. Raises InputError, also if no session measured one of `only`.
    """
    all_series: dict[SeriesId, _Series] = {}
    rows: list[Measured] = []
    cases: list[CaseRow] = []
    problems = []
    for pair in pairs:
        sides = []
        for session in pair:
            own = store.cases(session)
            sides.append((measured(own, store.metrics(session)), own))
            problems += problems_of(session, own, sides[-1][0])
        _add(all_series, *sides)
        rows += sides[1][0]
        cases += sides[1][1]
    if lost := set(only) - all_series.keys():  # nothing measured must not read as nothing lost
        raise InputError(f'{min(lost)}: no session of the comparison measured it')
    all_series = {of: series for of, series in all_series.items() if not only or of in only}
    newest = pairs[-1][1]
    source = f'sessions {", ".join(before.short_name for before, _ in pairs)}'
    references = {
        of: session_reference(good, source) for of, series in all_series.items() if (good := usable(series.before))
    }
    facts: list[Facts] = []
    asked: list[tuple[int, Pairs]] = []
    for of, series in all_series.items():
        if not series.after:
            continue
        bad = next((row for row in series.after if row.status != 'measured' or row.lost), None)
        row, reference = bad or series.after[-1], references.get(of)
        if reference and not row.judged:
            row = row.no_longer_judged()
        tolerance = replace(tolerance_for({}, of, **row.stated), cap=1.0)
        tolerance = replace(tolerance, floor=max(tolerance.floor, smallest))
        rules = [(reference, limits(reference, tolerance))] if reference else []
        unknown = Loss('warning', _NOT_BEFORE) if reference is None and row.judged else Loss()
        facts.append(Facts(row, rules, newest.session, next(iter(row.lost), None) if bad else None, loss=unknown))
        if facts[-1].referenced and not facts[-1].lost:
            least = _LEAST_SPREAD * math.sqrt(2) * tolerance.usual_spread
            asked.append((len(facts) - 1, Pairs(
                numpy.array(series.losses), numpy.array(series.quiet, bool), -math.log1p(-tolerance.floor), least
            )))  # fmt: skip
    for (place, of_series), decision in zip(asked, paired.decide([of_series for _, of_series in asked]), strict=True):
        row, [(reference, _)] = facts[place].row, facts[place].rules
        loss = _loss(reference, all_series[row.id], of_series, decision)
        facts[place] = replace(facts[place], loss=loss)
    facts += compare.not_measured(References(references.values()), rows, cases, newest, {})
    verdicts = [decide(of) for of in facts]
    scope = f'{newest.site}, {len(pairs)} pairs of sessions before and after the change'
    unique_problems = list({str(problem): problem for problem in problems}.values())
    return Comparison(
        newest, pairs[-1][0], worst_first(verdicts), unique_problems, scope, undecided=undecided_in(verdicts)
    )


def _add(
    found: dict[SeriesId, _Series],
    before: tuple[list[Measured], list[CaseRow]],
    after: tuple[list[Measured], list[CaseRow]],
) -> None:
    """Add what a pair of sessions measured to `found`."""
    jobs: list[dict[SeriesId, dict[str, list[Job]]]] = [{}, {}]
    for side, (rows, _) in zip(jobs, (before, after), strict=True):
        for row in rows:
            series = found.setdefault(row.id, _Series())
            (series.before if side is jobs[0] else series.after).append(row)
            for job in (job for good in usable([row]) for job in good.measuring if job.value > 0):
                side.setdefault(row.id, {}).setdefault(','.join(sorted(job.nodes)), []).append(job)
    busy = [{case.case_id for case in cases if busy_beside(case)} for _, cases in (before, after)]
    signs = {row.id: row.quantity.sign for row in after[0]}
    for of in sorted(jobs[0].keys() & jobs[1].keys()):
        sides = [side[of] for side in jobs]
        for nodes in sorted(sides[0].keys() & sides[1].keys()):
            old, new = (fmean(math.log(job.value) for job in side[nodes]) for side in sides)
            found[of].losses.append(signs[of] * (old - new))
            found[of].quiet.append(
                not any(job.case_id in loud for side, loud in zip(sides, busy, strict=True) for job in side[nodes])
            )


def _loss(before: Reference, series: _Series, pairs: Pairs, decision: Decision) -> Loss:
    """Return the loss of a series that was measured on both sides, from the decision on its pairs."""
    if decision.pairs < 2:
        return Loss('warning', f'cannot tell: {_paired(pairs)}')
    low, high = (-math.expm1(-loss) for loss in (decision.low, decision.high))
    # losses refer to the geometric mean
    logs = [math.log(row.value) for row in usable(series.before)]
    of_before, expected = summarize([math.exp(value) for value in logs]), math.exp(fmean(logs))
    quantity = before.quantity
    floor = -math.expm1(-pairs.smallest)
    less, more = expected * (1 - floor), expected / (1 - floor)
    worst, best = (less, more) if quantity.sign > 0 else (more, less)
    summary = summarize([row.value for row in usable(series.after)])
    value = expected * math.exp(-quantity.sign * decision.loss)
    how = _paired(pairs)
    shown = Loss(
        'ok', measured=replace(summary, mean=value), p=decision.p,
        reference=replace(before, mean=expected, std=of_before.std, n=of_before.n),
        limits=Limits(worst, best, floor, how, 'gated', decision.error, decision.df),
        loss=-math.expm1(-decision.loss), interval=(low, high), window=decision.pairs,
    )  # fmt: skip
    if decision.word == 'open':
        cause_open = f'cannot tell: {in_words(low)} to {in_words(high)} (95 % interval, {how})'
        return replace(shown, shows='warning', cause=cause_open)
    if decision.word != 'regressed':
        return replace(shown, shows=decision.word)
    cause = (
        f'{number(value)} {quantity.unit}, {number(expected)} before: lost {-100 * math.expm1(-decision.loss):.1f} % '
        f'(95 % interval {100 * low:.1f} to {100 * high:.1f} %; {how})'
    )
    return replace(shown, shows='regressed', cause=cause)


def _paired(pairs: Pairs) -> str:
    """Return the number of pairs in words, and how many of them had busy CPUs."""
    n, busy = len(pairs.losses), int((~pairs.quiet).sum())
    text = f'{count(n, "pair")} of jobs'
    return f'{text}, {busy} of them beside busy CPUs' if busy else text

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
from postprocess.statistics.paired import Decision, Pairs, decide
from postprocess.text import count, number
from postprocess.verdicts import compare
from postprocess.verdicts.health import busy_beside
from postprocess.verdicts.measured import Job, Measured, measured
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.verdict import Comparison, Verdict, worst_first
from postprocess.verdicts.windows import in_words, session_reference, undecided_in, usable

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
    verdicts = []
    asked: list[tuple[int, Pairs]] = []
    for of, series in all_series.items():
        if not series.after:
            continue
        bad = next((row for row in series.after if row.status != 'measured' or row.lost), None)
        row, reference = bad or series.after[-1], references.get(of)
        if reference and not row.judged:
            row = compare.not_judged(row)
        tolerance = replace(tolerance_for({}, of, **row.stated), cap=1.0)
        tolerance = replace(tolerance, floor=max(tolerance.floor, smallest))
        verdict = compare.verdict_of(
            row, [(reference, limits(reference, tolerance))] if reference else [], newest.session
        )
        verdicts.append(compare.lost_number(verdict, row) if bad else verdict)
        if reference and verdicts[-1].verdict == 'ok':
            least = _LEAST_SPREAD * math.sqrt(2) * tolerance.usual_spread
            asked.append((len(verdicts) - 1, Pairs(
                numpy.array(series.losses), numpy.array(series.quiet, bool), -math.log1p(-tolerance.floor), least
            )))  # fmt: skip
        elif reference is None and row.judged and row.status == 'measured':
            verdicts[-1] = replace(verdicts[-1], verdict='warning', cause='cannot tell: not measured before the change')
    for (place, of_series), decision in zip(asked, decide([of_series for _, of_series in asked]), strict=True):
        verdicts[place] = _verdict(verdicts[place], all_series[verdicts[place].id], of_series, decision)
    verdicts += compare.not_measured(References(references.values()), rows, cases, newest, {})
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


def _verdict(verdict: Verdict, series: _Series, pairs: Pairs, decision: Decision) -> Verdict:
    """Return the verdict of a series that was measured on both sides, from the decision on its pairs."""
    if decision.pairs < 2:
        return replace(verdict, verdict='warning', cause=f'cannot tell: {_paired(pairs)}')
    low, high = (-math.expm1(-loss) for loss in (decision.low, decision.high))
    reference = _before(series, verdict)
    expected = reference.mean
    floor = -math.expm1(-pairs.smallest)
    less, more = expected * (1 - floor), expected / (1 - floor)
    worst, best = (less, more) if verdict.quantity.sign > 0 else (more, less)
    summary = summarize([row.value for row in usable(series.after)])
    value = expected * math.exp(-verdict.quantity.sign * decision.loss)
    how = _paired(pairs)
    judged = replace(
        verdict, measured=replace(summary, mean=value), reference=reference, p=decision.p,
        limits=Limits(worst, best, floor, how, 'gated', decision.error, decision.df),
        loss=-math.expm1(-decision.loss), interval=(low, high), window=decision.pairs,
    )  # fmt: skip
    if decision.word == 'open':
        cause_open = f'cannot tell: {in_words(low)} to {in_words(high)} (95 % interval, {how})'
        return replace(judged, verdict='warning', cause=cause_open)
    if decision.word != 'regressed':
        return replace(judged, verdict=decision.word)
    unit = verdict.quantity.unit
    cause = (
        f'{number(value)} {unit}, {number(expected)} before: lost {-100 * math.expm1(-decision.loss):.1f} % '
        f'(95 % interval {100 * low:.1f} to {100 * high:.1f} %; {how})'
    )
    return replace(judged, verdict='regressed', cause=cause)


def _before(series: _Series, verdict: Verdict) -> Reference:
    """Return the reference of the series with its mean before the change: the geometric mean, to which losses refer."""
    assert verdict.reference is not None  # nosec B101  for the type checker: only series with a reference were asked
    logs = [math.log(row.value) for row in usable(series.before)]
    summary = summarize([math.exp(value) for value in logs])
    return replace(verdict.reference, mean=math.exp(fmean(logs)), std=summary.std, n=summary.n)


def _paired(pairs: Pairs) -> str:
    """Return the number of pairs in words, and how many of them had busy CPUs."""
    n, busy = len(pairs.losses), int((~pairs.quiet).sum())
    text = f'{count(n, "pair")} of jobs'
    return f'{text}, {busy} of them beside busy CPUs' if busy else text

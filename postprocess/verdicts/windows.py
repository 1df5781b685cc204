# SPDX-License-Identifier: BSD-3-Clause
"""Compare two sessions, or two spans of days; nodes that ran on both sides are paired."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from statistics import fmean, variance

import numpy

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import LIKENESS_OF_JOBS, POWER, Limits, Tolerance, expected_spread, limits, tolerance_for
from plumbline.record import Summary, summarize
from plumbline.references import Reference, References, load_references
from postprocess.results.store import Session, Store
from postprocess.statistics import distributions
from postprocess.text import count, number
from postprocess.verdicts import compare
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.measured import Measured, mean_of, measured, measured_in
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.verdict import Comparison, Verdict, worst_first

CERTAIN = 0.995  # one-sided quantile: 0.5 % of healthy series change as much

_TOO_WIDE = 0.2  # a comparison that cannot exclude a loss of this size is inconclusive


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


@dataclass(frozen=True)
class Shift:
    """The change of a series from one set of jobs to another.

    `before`, `after`: summaries over the jobs. `ratio`: values after / values before. `variance`: of the logarithm of
    one job, with `df` degrees of freedom; 0 with one job on each side. `factor`: variance of the logarithm of the ratio
    / `variance`. `how`: what was compared, in words.
    """

    before: Summary
    after: Summary
    ratio: float
    variance: float
    df: int
    factor: float
    how: str


def shift_between(
    before: Mapping[str, Sequence[Summary]], after: Mapping[str, Sequence[Summary]], rho: float = 0.0
) -> Shift:
    """Return the change of a series from summaries of its jobs, node -> jobs; means must be > 0.

    If at least two nodes ran on both sides, they are paired, so that differences between nodes cancel. Else the jobs of
    one side are compared with those of the other, on the common node if there is one. `rho`: correlation of the jobs of
    one side, which cannot be estimated from them.
    """
    both = sorted(before.keys() & after.keys())
    if len(both) > 1:
        old, new = ([fmean(math.log(mean_of(job)) for job in side[node]) for node in both] for side in (before, after))
        df = len(both) - 1
        squares = df * variance([b - a for a, b in zip(old, new, strict=True)]) / 2
        how = f'paired over {len(both)} nodes'
    else:
        nodes = both or None
        old, new = (
            [math.log(mean_of(job)) for node in nodes or side for job in side[node]] for side in (before, after)
        )
        df = len(old) + len(new) - 2
        squares = sum(variance(side) * (len(side) - 1) for side in (old, new) if len(side) > 1)
        how = f'{count(len(old), "job")} against {len(new)}'
    return Shift(
        before=summarize([math.exp(value) for value in old]),
        after=summarize([math.exp(value) for value in new]),
        ratio=math.exp(fmean(new) - fmean(old)),
        variance=squares / df / (1 - rho) if df else 0.0,
        df=df,
        factor=sum(rho + (1 - rho) / len(side) for side in (old, new)),
        how=how,
    )


def compare_windows(
    store: Store, before: Sequence[Session], after: Sequence[Session], root: Path | None = None
) -> Comparison:
    """Judge how each series changed from the sessions `before` to the sessions `after`.

    A series regressed if the 99 % interval of the ratio lies wholly on the bad side of 1 and the loss is more than the
    floor of the site's policy. How much single jobs differ is estimated from the jobs of both sides, the baseline of
    the site, the other series, and the usual spread of the kind of metric. Raises InputError if the sessions are of
    several sites.
    """
    sites = sorted({session.site for session in (*before, *after)})
    if len(sites) > 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a comparison is of one')
    policy, newest = compare.site_policy(after[-1], root), after[-1]
    own = load_references(sites[0], root)
    old, new = by_series(store, before), by_series(store, after)
    source = f'session {", ".join(session.short_name for session in before)}'
    references = {key: session_reference(good, source) for key, group in old.items() if (good := usable(group))}
    cases = store.cases(newest)
    latest = measured(cases, store.metrics(newest))
    # only in the newest session a missing number is bad; in earlier ones only valid numbers count
    bad = {row.id: row for row in latest if row.status != 'measured' or row.lost}
    facts: list[Facts] = []
    changes: list[Shifted] = []
    for key, group in new.items():
        good = usable(group)
        row = bad.get(key) or (good or group)[-1]
        reference = references.get(key) if row.judged or any(earlier.judged for earlier in old.get(key, ())) else None
        row = row.no_longer_judged() if reference and not row.judged else row
        tolerance = tolerance_for(policy, key, **row.stated)
        rules = [(reference, limits(reference, tolerance))] if reference else []
        facts.append(Facts(row, rules, newest.session, next(iter(row.lost), None) if key in bad else None))
        if reference and good and facts[-1].referenced and not facts[-1].lost:
            shift = shift_between(_by_node(usable(old[key])), _by_node(good), _likeness(before, after))
            spread = compare.with_spread(reference, own)
            changes.append(Shifted(len(facts) - 1, shift, tolerance, spread))
    for change, certainty in zip(changes, certainties(changes), strict=True):
        of = facts[change.place]
        facts[change.place] = replace(of, loss=_loss(change, of.rules[0][0], certainty))
    rows = [row for group in new.values() for row in group]
    is_whole = newest.is_of_another_suite and any(session.selection == newest.selection for session in before)
    together = references if is_whole else ()
    facts += compare.not_measured(References(references.values()), rows, cases, newest, policy, together)
    verdicts = [decide(of) for of in facts]
    problems = problems_of(newest, cases, latest)
    scope = f'{newest.site}, {_named(after)}, against {_named(before)}'
    return Comparison(newest, before[-1], worst_first(verdicts), problems, scope, undecided=undecided_in(verdicts))


def undecided_in(verdicts: Sequence[Verdict]) -> int:
    """Return the number of series for which a comparison of sessions could not tell: only these have a warning."""
    return sum(verdict.verdict == 'warning' for verdict in verdicts)


def _likeness(before: Sequence[Session], after: Sequence[Session]) -> float:
    """Return the assumed correlation of the jobs of a side: jobs of one day share the conditions of the day."""
    spans = (
        max(session.started for session in side) - min(session.started for session in side) for side in (before, after)
    )
    return LIKENESS_OF_JOBS if max(spans) < timedelta(days=1) else 0.0


@dataclass(frozen=True)
class Shifted:
    """The change of the series at index `place` of the facts.

    `spread`: the row that tells how much the series varies.
    """

    place: int
    shift: Shift
    tolerance: Tolerance
    spread: Reference

    @property
    def loss(self) -> float:
        """The logarithm of the performance that was lost."""
        return -self.spread.quantity.sign * math.log(self.shift.ratio)


@dataclass(frozen=True)
class Certainty:
    """The standard `error` of the logarithm of a change with `df` degrees of freedom, and the chance of such a loss.

    `p`: the chance of such a loss without any change; `q`: `p` adjusted for the number of series.
    """

    error: float
    df: float
    p: float
    q: float


def certainties(changes: Sequence[Shifted]) -> list[Certainty]:
    """Return the certainty of each change, estimated from all changes together.

    The variance of a job is the one of the recorded baseline, pooled with the one of the compared jobs. Without a
    baseline it is the variance of the compared jobs, shrunk towards the other series and the usual variance of the kind
    of metric (`moderate`). With one job on each side it is the usual variance, fitted to the changes of all series
    about their median. If all series scatter more than that explains, all standard errors grow accordingly.
    """
    if not changes:
        return []
    loss = numpy.array([change.loss for change in changes])
    own, own_df, factor = (
        numpy.array([float(getattr(change.shift, name)) for change in changes]) for name in ('variance', 'df', 'factor')
    )
    known, known_df, assumed = (
        numpy.array(column)
        for column in zip(*(expected_spread(change.spread, change.tolerance) for change in changes), strict=True)
    )
    variance, df = (known_df * known + own_df * own) / (known_df + own_df), known_df + own_df
    prior = numpy.array([change.tolerance.prior for change in changes])
    several, single = assumed & (own_df > 0), assumed & (own_df == 0)
    if several.any():
        variance[several], df[several] = distributions.moderate(own[several], own_df[several], prior[several])
    if single.sum() >= distributions.ENOUGH_METRICS:
        squares = (loss[single] - numpy.median(loss[single])) ** 2 / factor[single] / prior[single]
        d0, scale = distributions.fit_prior(squares, numpy.ones(len(squares)))
        variance[single], df[single] = prior[single] * min(max(scale, 1 / 9), 100), min(max(d0, 1), 30)
    error = numpy.sqrt(variance * factor)
    if len(changes) >= distributions.ENOUGH_METRICS:
        error *= distributions.scatter(distributions.deviate(-loss / error, df))
    p = distributions.chance(loss / error, df)
    return [
        Certainty(*map(float, numbers))
        for numbers in zip(error, df, p, distributions.false_discovery_rates(p), strict=True)
    ]


def _loss(change: Shifted, reference: Reference, found: Certainty) -> Loss:
    """Return the loss of a series that was measured on both sides, from its change and the certainty of it."""
    shift, quantity, floor = change.shift, reference.quantity, change.tolerance.floor
    most, t975 = (float(distributions.quantile(share, found.df)) for share in (CERTAIN, 0.975))
    loss = max(-math.expm1(-most * found.error), floor)
    expected = mean_of(shift.before)
    less, more = expected * (1 - loss), expected / (1 - loss)
    worst, best = (less, more) if quantity.sign > 0 else (more, less)
    noticed = max(-math.expm1(-(most + POWER) * found.error), floor)
    why = f'{"floor" if loss == floor else "99 % interval of the change"}, {shift.how}'
    bound = Limits(worst, best, loss, why, 'gated', found.error, found.df, noticed)
    low, high = (-math.expm1(-(change.loss + part * t975 * found.error)) for part in (-1, 1))
    shown = Loss(
        'ok', limits=bound, measured=replace(shift.after, mean=expected * shift.ratio), p=found.p, q=found.q,
        reference=replace(reference, mean=expected, std=shift.before.std, n=shift.before.n),
        loss=-math.expm1(-change.loss), interval=(low, high), window=shift.after.n,
    )  # fmt: skip
    if -change.loss > -math.log1p(-loss):
        return replace(shown, shows='improved')
    if change.loss <= -math.log1p(-loss):
        if high <= max(floor, _TOO_WIDE):
            return shown
        cause = f'cannot tell: {in_words(low)} to {in_words(high)} (95 % interval, {shift.how}); compare more sessions'
        return replace(shown, shows='warning', cause=cause)
    lost = -100 * math.expm1(-change.loss)
    cause = (
        f'{number(expected * shift.ratio)} {quantity.unit}, {number(expected)} before: lost {lost:.1f} % '
        f'(95 % interval {100 * low:.1f} to {100 * high:.1f} %; limit {number(worst)}, {why})'
    )
    return replace(shown, shows='regressed', cause=cause)


def in_words(loss: float) -> str:
    """Return a loss, a share, as text: ``gain of 5 %`` or ``loss of 5 %``."""
    return f'{"loss" if loss > 0 else "gain"} of {100 * abs(loss):.0f} %'


def by_series(store: Store, sessions: Sequence[Session]) -> dict[SeriesId, list[Measured]]:
    """Return series -> what each of the sessions measured."""
    series: dict[SeriesId, list[Measured]] = {}
    for session in sessions:
        for row in measured_in(store, session):
            series.setdefault(row.id, []).append(row)
    return series


def usable(group: Sequence[Measured]) -> list[Measured]:
    """Return the rows that can be compared: measured numbers above 0 that the check judges."""
    return [row for row in group if row.status == 'measured' and row.judged and row.value > 0]


def _by_node(rows: Sequence[Measured]) -> dict[str, list[Summary]]:
    """Return nodes, joined by commas -> summaries of the jobs that ran on them."""
    summaries: dict[str, list[Summary]] = {}
    for job in (job for row in rows for job in row.measuring if job.value > 0):
        summaries.setdefault(','.join(sorted(job.nodes)), []).append(job.summary)
    return summaries


def session_reference(rows: Sequence[Measured], source: str) -> Reference:
    """Return a reference made from the rows that were measured before."""
    first, summary = rows[0], summarize([row.value for row in rows])
    return Reference(
        id=first.id, quantity=first.quantity, mean=mean_of(summary), std=summary.std, n=summary.n,
        kind='session', source=source, mode=first.mode,
    )  # fmt: skip


def _named(sessions: Sequence[Session]) -> str:
    """Return the sessions in words: the only session with its time, or their number and first and last day."""
    first, last = sessions[0], sessions[-1]
    if len(sessions) == 1:
        return f'session {first.session} of {first.started:%Y-%m-%d %H:%M} UTC'
    return f'{len(sessions)} sessions of {first.day} to {last.day}'

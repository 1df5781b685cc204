# SPDX-License-Identifier: BSD-3-Clause
"""Judge the series of a session together: their losses, losses in common, and which jobs should run now."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy

from plumbline.record import OF_NODE
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.statistics import further, night
from postprocess.statistics.groups import Groups, highest
from postprocess.statistics.method import METHOD
from postprocess.text import count, number
from postprocess.verdicts import gather, sets
from postprocess.verdicts.candidates import Accused
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.health import Health
from postprocess.verdicts.measured import failure, runs_of
from postprocess.verdicts.verdict import Again, Common

_WHOLE = ('partition', 'environ')  # kinds of groups of which a single series needs no cause of its own
_PAIR = 'chosen at random, to tell how much alike the jobs of a session are'


def judge_together(
    store: Store, session: Session, facts: Sequence[Facts],
    candidates: Sequence[tuple[int, Facts]], cases: list[CaseRow], share: float | None,
    accused: Accused | None = None,
) -> tuple[list[Facts], list[Common], list[Again], str]:  # fmt: skip
    """Return the facts of all series with their losses, losses in common, jobs that should run, and a sentence.

    The sentence says which doubts the budget left out. `candidates`: (index in `facts`, what is known of the series);
    a series with two references is there twice. `share`: further jobs a night as a share of the cases, if the site
    states it. `accused`: what no level is computed from.
    """
    alike = _pairs(session, cases, {row.measured.case_id for _, row in candidates})
    if not candidates:
        return list(facts), [], alike, ''
    places, rows = [place for place, _ in candidates], [row for _, row in candidates]
    earlier = gather.earlier_sessions(store, session, rows)
    rows, recorded = gather.on_own_nodes(rows, gather.without(accused or {}, earlier, rows))
    jobs = gather.with_tonight(earlier.since, rows)
    curves = sets.curves_of(rows, sets.sizes_of(cases))
    groups, names = sets.groups_of(rows, curves)
    where = gather.cases_of(store, session, rows, earlier.sessions, earlier.behind)
    baseline = gather.baseline_of(rows, recorded, sets.weights_of(rows, curves))
    if share is None:
        share = METHOD.budget[float(numpy.median(baseline.n)) >= METHOD.many]
    budget = further.Budget.of(share, len(where.ids), where.further)
    answer = night.judge(baseline, jobs, where.pool, groups, budget)
    common = _in_common(answer, groups, names, rows) + _slow_nodes(answer, where, rows)
    found, health = list(facts), Health(cases)
    for index in numpy.argsort(~answer.red, kind='stable'):  # of two references, one that the series missed decides
        if not found[place := places[index]].loss.shows:
            found[place] = replace(found[place], loss=_loss(rows[index], answer, int(index), session, health))
    for place in dict.fromkeys(places) if common else ():
        verdict = decide(found[place])
        shared = next((str(loss) for loss in common if loss.holds(verdict)), '')
        found[place] = replace(found[place], common=shared)
    return found, common, _further_jobs(answer, where, cases) + alike, _left_out(answer, share)


def _loss(row: Facts, found: night.Answer, index: int, session: Session, health: Health) -> Loss:
    """Return the loss of a series against the reference of `row`, from the answer for the whole session."""
    loss, low, high = (-math.expm1(-float(values[index])) for values in (found.loss, found.low, found.high))
    shown = Loss(
        'improved' if found.improved[index] else 'ok', '', row.reference, row.bound, None, loss, (low, high),
        int(found.window[index]), float(found.p[index]), float(found.q[index]),
    )  # fmt: skip
    if found.red[index]:
        slowed = health.of([row.measured.id.case], row.measured.nodes)
        causes = [*(f'{node}: {words}' for node, words in slowed.items()), _cause(shown, row, session, 'confirmed')]
        return replace(shown, shows='regressed', cause='; '.join(causes))
    if any(row.sign * (job.value - row.bound.bad) < 0 for job in row.measured.measuring if job.purpose != OF_NODE):
        what = 'in doubt: it should run again' if found.waits[index] else 'not confirmed'
        return replace(shown, shows='warning', cause=_cause(shown, row, session, what))
    return shown


def _cause(loss: Loss, row: Facts, session: Session, what: str) -> str:
    """Return a loss in words: value, expected value, loss with its interval, and `what` follows."""
    reference, jobs = row.reference, row.measured.measuring
    low, high = loss.interval or (0.0, 0.0)
    lost = f'{100 * loss.loss:.1f} %' if loss.loss and loss.loss > 0 else 'nothing'
    over = 'tonight' if loss.window == 1 else f'over {loss.window} sessions'
    values = ', '.join(number(job.value) for job in jobs)
    ran = f'; {len(jobs)} jobs: {values}' if len(jobs) > 1 else ''
    return (
        f'{number(row.measured.value)} {row.measured.quantity.unit} in session {session.session}, expected '
        f'{number(reference.mean)} ({reference.kind}, {reference.source}): lost {lost} {over} (95 % interval '
        f'{100 * low:.1f} to {100 * high:.1f} %){ran}: {what}'
    )


def _in_common(found: night.Answer, groups: Groups, names: Sequence[str], rows: Sequence[Facts]) -> list[Common]:
    """Return the losses that groups of series share, the largest group first, one loss for each distinct cause.

    A group within an environ, or of one check, is left out if most of its series regressed by themselves: incidents
    show what they share.
    """
    common = []
    for index in highest(groups, found.common, found.red & ~found.slow.explained):
        members = groups.members[index]
        whole = groups.kinds[index] in _WHOLE and len({rows[member].measured.id.check for member in members}) > 1
        alone = 4 * found.red[members].sum() > 3 * len(members) and not whole
        if index in found.common.loss and not alone:
            loss, low, high = (-math.expm1(-size) for size in found.common.loss[index])
            series = tuple(dict.fromkeys(rows[member].measured.id for member in members))
            common.append(Common(groups.kinds[index], names[index], series, loss, (low, high), found.common.p[index]))
    return common


def _slow_nodes(found: night.Answer, of: gather.Cases, rows: Sequence[Facts]) -> list[Common]:
    """Return the nodes that lost performance, each as a loss in common of the series measured on it."""
    common = []
    for node, (*sizes, p) in found.slow.loss.items():
        loss, low, high = (-math.expm1(-size) for size in sizes)
        apart = set(found.slow.apart[node].tolist())
        there = [
            row.measured.id
            for place, row in enumerate(rows)
            if of.names[node] in row.measured.nodes and place not in apart
        ]
        common.append(Common('node', of.names[node], tuple(dict.fromkeys(there)), loss, (low, high), p))
    return common


def _further_jobs(found: night.Answer, of: gather.Cases, cases: list[CaseRow]) -> list[Again]:
    """Return the jobs of the answer that should run now, with the names that ReFrame knows."""
    known = {case.case_id: case for case in cases}
    again = []
    for more in found.more:
        case = known[of.ids[more.case]]
        on = of.names[more.on] if more.on >= 0 else ''
        why = f'{on} is in doubt' if on else 'in doubt'
        place = case.case_id, case.partition, case.environ, case.name
        again.append(Again(*place, more.jobs, on, tuple(of.names[node] for node in more.avoid), why))
    return again


def _left_out(found: night.Answer, share: float) -> str:
    """Return a sentence on the cases in doubt for which the budget was too small; empty without any."""
    if not found.left_out:
        return ''
    most = -100 * math.expm1(-max(found.left_out.values()))
    return (
        f'In doubt and not run again, since further jobs are at most {100 * share:g} % of the cases (`further_jobs` of '
        f'the site): {count(len(found.left_out), "case")} whose first jobs lost up to {most:.1f} %; what lasts is '
        'found in the next nights.'
    )


def _pairs(session: Session, cases: list[CaseRow], judged: Collection[int]) -> list[Again]:
    """Return random cases without a reference that should run twice, to show the correlation of the jobs of a night.

    Their number is a share of the cases, so a small site has none; cases that already ran twice count.
    """
    runs = [run for run in runs_of(case for case in cases if not case.fixture) if run[0].case_id not in judged]
    first = [run[0] for run in runs if run[0].benchmark and not failure(run[0])]
    chosen = sorted(first, key=lambda case: _draw(f'{session.session} {case.case_id}'))
    done = {run[0].case_id for run in runs if len(run) > 1}
    return [
        Again(case.case_id, case.partition, case.environ, case.name, 1, '', tuple(case.nodes), _PAIR)
        for case in chosen[: round(METHOD.budget[1] * len(chosen))]
        if case.case_id not in done
    ]


def _draw(text: str) -> float:
    """Return a number from 0 to 1 that depends only on `text`."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12

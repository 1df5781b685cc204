# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session: join what it measured with what it should have measured."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy

from plumbline.causes import sentence
from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import Limits, judges, limits, spread_of, tolerance_for
from plumbline.paths import site_file, site_folder
from plumbline.record import NOTHING, OF_NODE
from plumbline.references import KINDS_OF_FILE, MODES, Reference, References, load_references
from plumbline.site.file import read_site_file
from postprocess.readers.run_reports import read_report
from postprocess.results.rows import CaseRow, MetricRow, typed
from postprocess.results.store import Session, Store
from postprocess.statistics import night
from postprocess.statistics.groups import Groups
from postprocess.statistics.method import METHOD
from postprocess.text import count, number
from postprocess.verdicts import baseline_files, gather, hardware
from postprocess.verdicts.advice import changed_checks, hints, improved, retiring
from postprocess.verdicts.candidates import number_of_cases, read_doubts
from postprocess.verdicts.elsewhere import Elsewhere
from postprocess.verdicts.health import Health
from postprocess.verdicts.measured import Measured, failure, measured, runs_of
from postprocess.verdicts.problems import other_hardware, problems_of
from postprocess.verdicts.verdict import BAD, Again, Common, Comparison, Verdict, VerdictName, worst_first

_PAIR = 'chosen at random, to tell how much alike the jobs of a session are'


def judge_session(store: Store, session: Session, root: Path | None = None, reruns: Sequence[Path] = ()) -> Comparison:
    """Judge `session` by the references of its site below `root`.

    `reruns`: run reports of the same cases, run again; a report that is given twice counts once. Raises SiteError if a
    file of the site is wrong, InputError if the store or a report cannot be read or a report is of another site.
    """
    cases = store.cases(session)
    rows = measured(cases, store.metrics(session))
    lookup = load_references(session.site, root)
    rows = without_judgement(with_reruns(rows, reruns, session), lookup)
    policy = site_policy(session, root)
    by_id = {case.case_id: case for case in cases}
    verdicts, candidates = [], []
    unlike: dict[tuple[str, str], list[str]] = {}
    not_judged_there: dict[int, tuple[str, str]] = {}  # index in `verdicts` -> key of `unlike`
    elsewhere = None if session.is_of_another_suite else Elsewhere.of(session.site, root)
    for row in rows:
        tolerance = tolerance_for(policy, row.id, **row.stated)
        rules = [] if row.id.metric == '*' else judges(lookup, row.id, tolerance)
        if elsewhere and not rules and row.judged and row.status == 'measured':
            rules = elsewhere.rules(row, by_id[row.case_id])
        verdict = verdict_of(row, rules, session.session)
        verdicts.append(of_its_own_test(verdict, by_id[row.case_id]) if session.is_of_another_suite else verdict)
        if had := _other_hardware(row, rules, by_id[row.case_id].provenance):
            not_judged_there[len(verdicts) - 1] = key = row.id.partition, had
            unlike.setdefault(key, []).extend(row.nodes)
        elif verdicts[-1].verdict == 'ok':
            candidates += [
                (
                    len(verdicts) - 1,
                    gather.ReferencedSeries(row, reference, bound, tolerance, with_spread(reference, lookup)),
                )
                for reference, bound in rules
                if bound.gates and not reference.mismatch(row.quantity)
            ]
    of_hardware = other_hardware(unlike)
    for place, key in not_judged_there.items():
        verdicts[place] = replace(verdicts[place], verdict='invalid', cause=of_hardware[key].text)
    share = policy.get('further_jobs')
    verdicts, common, again, left_out = _as_a_whole(store, session, verdicts, candidates, cases, share)
    again += _pairs(session, cases, {row.measured.case_id for _, row in candidates})
    health = Health(cases)
    verdicts = [health.in_cause(lost_number(verdict, row)) for verdict, row in zip(verdicts, rows, strict=True)]
    together = recorded_together(store, session, lookup, rows)
    verdicts += not_measured(lookup, rows, cases, session, policy, together)
    problems = [*of_hardware.values(), *problems_of(session, cases, rows)]
    problems += baseline_files.problems(store.folder.parent, session.site, root)
    command = partial(store.command, site=session.site, root=root)
    busy = read_doubts(store, [session], {})
    comparison = Comparison(
        session, None, worst_first(verdicts), problems, common=common, again=tuple(again), left_out=left_out,
        busy=number_of_cases(busy.values()), busy_jobs=frozenset(case_id for _, case_id in busy),
    )  # fmt: skip
    n, retire = retiring(verdicts, cases, lookup.exact.values())
    sentences = hints(comparison.series, cases, command, comparison.busy)
    sentences += changed_checks(comparison.series, cases, command) + improved(comparison.series, cases, command)
    if retire:
        sentences.append(
            f'Nothing measured {count(n, "metric")} of the baseline, and no job of theirs failed. What is gone for '
            f'good: {command(retire)}.'
        )
    return replace(comparison, hints=sentences, retire=retire)


def _other_hardware(row: Measured, rules: Sequence[tuple[Reference, Limits]], provenance: str) -> str:
    """Return which other hardware a measured series had than its baseline; empty if the same, or if not known."""
    facts = [reference.facts for reference, _ in rules if reference.kind == 'baseline']
    if row.status != 'measured' or not facts or facts[0].keys().isdisjoint(hardware.HARDWARE):
        return ''
    return hardware.unlike(_facts_of(provenance), facts[0])


@lru_cache(2**10)
def _facts_of(provenance: str) -> dict[str, str]:
    """Return the facts of a case; its series are judged one after the other."""
    return json.loads(provenance or '{}')


def without_judgement(rows: Sequence[Measured], lookup: References) -> list[Measured]:
    """Return the rows; a series becomes missing if its check judged it when it was recorded and no longer does.

    All recorded points of a curve are judged as long as the check judges one of them.
    """

    def curve(row: Measured) -> tuple[Any, ...]:
        """Return what the points of one curve have in common."""
        return row.case_id, row.id.metric, *(name for name, _ in row.id.dims)

    recorded = {id for id, reference in lookup.exact.items() if reference.sessions}
    if all(row.judged or row.id not in recorded for row in rows):
        return list(rows)
    judged = {curve(row) for row in rows if row.judged}
    return [
        not_judged(row) if row.status == 'measured' and row.id in recorded and curve(row) not in judged else row
        for row in rows
    ]


def not_judged(row: Measured) -> Measured:
    """Return the series as missing, because its check judged it when its reference was recorded and no longer does."""
    why = 'its check judges it no longer, as it did for the reference: see size_cut in the provenance'
    return replace(row, jobs=tuple(replace(job, summary=NOTHING, status='missing', cause=why) for job in row.jobs))


def lost_number(verdict: Verdict, row: Measured) -> Verdict:
    """Return the verdict of a series; a job without a valid number makes it bad, even if other jobs have a number."""
    if not row.lost or verdict.verdict in BAD:
        return verdict
    lost = row.lost[0]
    return replace(
        verdict, verdict='invalid' if lost.status == 'invalid' else 'missing', cause=lost.cause, nodes=lost.nodes
    )


def of_its_own_test(verdict: Verdict, case: CaseRow) -> Verdict:
    """Return the verdict as failed if only another suite has a reference, and its test failed against it."""
    beyond = [cause.what for cause in case.why if cause.code == 'reference'] or [verdict.id.metric]
    if verdict.verdict != 'no_reference' or case.fail_phase != 'performance' or verdict.id.metric not in beyond:
        return verdict
    why = ': '.join(filter(None, ('its test failed against its own reference', sentence(case.why))))
    return replace(verdict, verdict='failed', cause=why)


def with_spread(reference: Reference, own: References) -> Reference:
    """Return the row that tells how much a series varies between sessions: the site's `own` if `reference` does not.

    The std of a row of one session is not used: it is the std between nodes.
    """
    if reference.kind == 'session':
        reference = replace(reference, std=None)
    if reference.kind == 'baseline' or spread_of(reference)[0] is not None:
        return reference
    row = own.exact.get(reference.id)
    return row if row is not None and row.kind == 'baseline' and row.quantity == reference.quantity else reference


def _as_a_whole(
    store: Store,
    session: Session,
    verdicts: list[Verdict],
    candidates: Sequence[tuple[int, gather.ReferencedSeries]],
    cases: list[CaseRow],
    share: float | None,
) -> tuple[list[Verdict], list[Common], list[Again], str]:
    """Judge the series of a session together; return verdicts, losses in common, jobs that should run, and a sentence.

    The sentence says which doubts the budget left out. `candidates`: (index in `verdicts`, what is known of the
    series); a series with two references is there twice. `share`: further jobs a night as a share of the cases, if the
    site states it.
    """
    if not candidates:
        return verdicts, [], [], ''
    places, rows = [place for place, _ in candidates], [row for _, row in candidates]
    earlier = gather.earlier_sessions(store, session, rows)
    rows = gather.on_own_nodes(rows, earlier.recorded)
    jobs = gather.with_tonight(earlier.since, rows)
    curves = gather.curves_of(rows, gather.sizes_of(cases))
    groups, names = gather.groups_of(rows, curves)
    where = gather.cases_of(store, session, rows, earlier.sessions)
    baseline = gather.baseline_of(rows, earlier.recorded, gather.weights_of(rows, curves))
    if share is None:
        share = METHOD.budget[float(numpy.median(baseline.n)) >= METHOD.many]
    # rounded at random, so that small sites have this share in the mean; one case can be decided on any night
    budget = share * len(where.ids) + 2 * night.A_CASE * (_draw(session.session) - 0.5)
    budget = max(budget, night.ONE_CASE) if share else 0.0
    answer = night.judge(baseline, jobs, where.pool, groups, budget)
    verdicts, decided = list(verdicts), set()
    for index in numpy.argsort(~answer.red, kind='stable'):  # of two references, one that the series missed decides
        place, row = places[index], rows[index]
        if place not in decided:
            decided.add(place)
            verdicts[place] = _decided(verdicts[place], row, answer, int(index))
    common = _in_common(answer, groups, names, rows) + _slow_nodes(answer, where, rows)
    for loss in common:
        for place in places:
            if verdicts[place].verdict == 'ok' and loss.holds(verdicts[place]):
                verdicts[place] = replace(verdicts[place], verdict='warning', cause=str(loss))
    return verdicts, common, _further_jobs(answer, where, cases), _left_out(answer, share)


def _draw(text: str) -> float:
    """Return a number from 0 to 1 that depends only on `text`."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


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


def _decided(verdict: Verdict, row: gather.ReferencedSeries, found: night.Answer, index: int) -> Verdict:
    """Return the verdict of a series by the reference of `row`, from the answer for the whole session."""
    loss, low, high = (-math.expm1(-float(values[index])) for values in (found.loss, found.low, found.high))
    name: VerdictName = 'improved' if found.improved[index] else 'ok'
    what = ''
    if found.red[index]:
        name, what = 'regressed', 'confirmed'
    elif any(row.sign * (job.value - row.bound.bad) < 0 for job in row.measured.measuring if job.purpose != OF_NODE):
        name, what = 'warning', 'in doubt: it should run again' if found.waits[index] else 'not confirmed'
    verdict = replace(
        verdict, verdict=name, reference=row.reference, limits=row.bound, loss=loss, interval=(low, high),
        window=int(found.window[index]), p=float(found.p[index]), q=float(found.q[index]),
    )  # fmt: skip
    return replace(verdict, cause=_cause(verdict, row, what)) if what else verdict


def _cause(verdict: Verdict, row: gather.ReferencedSeries, what: str) -> str:
    """Return the cause of a verdict in words: value, expected value, loss with its interval, and `what` follows."""
    reference, jobs = row.reference, row.measured.measuring
    low, high = verdict.interval or (0.0, 0.0)
    loss = f'{100 * verdict.loss:.1f} %' if verdict.loss and verdict.loss > 0 else 'nothing'
    over = 'tonight' if verdict.window == 1 else f'over {verdict.window} sessions'
    values = ', '.join(number(job.value) for job in jobs)
    ran = f'; {len(jobs)} jobs: {values}' if len(jobs) > 1 else ''
    return (
        f'{number(verdict.value)} {row.measured.quantity.unit} in session {verdict.session}, expected '
        f'{number(reference.mean)} ({_origin(reference)}): lost {loss} {over} (95 % interval {100 * low:.1f} to '
        f'{100 * high:.1f} %){ran}: {what}'
    )


def _in_common(
    found: night.Answer, groups: Groups, names: Sequence[str], rows: Sequence[gather.ReferencedSeries]
) -> list[Common]:
    """Return the losses that groups of series share, the largest group first, one loss for each distinct cause.

    A group is left out if most of its series regressed by themselves: incidents show what these series share.
    """
    common = []
    for index in night.highest(found, groups):
        members = groups.members[index]
        if index in found.common.loss and 4 * found.red[members].sum() <= 3 * len(members):
            loss, low, high = (-math.expm1(-size) for size in found.common.loss[index])
            series = tuple(dict.fromkeys(rows[member].measured.id for member in members))
            common.append(Common(groups.kinds[index], names[index], series, loss, (low, high), found.common.p[index]))
    return common


def _slow_nodes(found: night.Answer, of: gather.Cases, rows: Sequence[gather.ReferencedSeries]) -> list[Common]:
    """Return the nodes that lost performance, each as a loss in common of the series measured on it."""
    common = []
    for node, (*sizes, p) in found.slow.loss.items():
        loss, low, high = (-math.expm1(-size) for size in sizes)
        there = [row.measured.id for row in rows if of.names[node] in row.measured.nodes]
        common.append(Common('node', of.names[node], tuple(dict.fromkeys(there)), loss, (low, high), p))
    return common


def with_reruns(rows: list[Measured], reruns: Sequence[Path], session: Session) -> list[Measured]:
    """Return the series of a session with added jobs from run reports of the same cases; each report counts once."""
    known = {session.session}
    for number_of, path in enumerate(reruns, 1):
        report = read_report(path, session.site)
        if report.site != session.site:
            raise InputError(f'{report.session["report"]}: is of site {report.site}, the session of {session.site}')
        if report.session['session'] in known:
            continue
        known.add(report.session['session'])
        again: dict[SeriesId, list[Measured]] = {}
        for row in measured(typed(CaseRow, report.cases), typed(MetricRow, report.metrics)):
            again.setdefault(row.id, []).append(row)
        several = {of for of, n in Counter(row.id for row in rows).items() if n > 1}
        rows = [
            replace(row, jobs=(*row.jobs, *(
                replace(job, round=number_of, case_id=row.case_id)
                for rerun in again.get(row.id, ()) if row.status == 'measured'
                if row.id not in several or set(rerun.nodes) == set(row.nodes)
                for job in rerun.jobs
            )))
            for row in rows
        ]  # fmt: skip
    return rows


def site_policy(session: Session, root: Path | None = None) -> dict[str, Any]:
    """Return the tolerances in the ``site.yaml`` of the session's site below `root`, else in the suite's own file.

    A site where only another suite measured, or nothing did, needs no such file. Raises InputError, SiteError.
    """
    site = session.site
    path = site_folder(site, root) / 'site.yaml'
    if not path.exists() and (session.is_of_another_suite or not session.ran):
        return {}
    if not path.exists():
        raise InputError(f'site {site} is not described: expected {path}')
    if not site_file(site, '', root).is_dir():
        raise InputError(f'{root}: expected a folder {site} with the references of that site, found none')
    return read_site_file(path).get('tolerance', {})


def verdict_of(row: Measured, rules: Sequence[tuple[Reference, Limits]], session: str) -> Verdict:
    """Return the verdict of one series by the first of `rules`, as far as no other series is needed.

    A number with a reference of this machine is `ok` for now: all series of the session together decide.
    """
    reference, bound = rules[0] if rules else (None, None)
    verdict: VerdictName
    status, cause, value, sign = row.status, row.cause, row.value, row.quantity.sign
    if status != 'measured':
        verdict = 'failed' if status == 'missing' and not rules else status
    elif reference is None or bound is None:
        verdict = 'no_reference' if row.judged else 'informational'
    elif why := next(filter(None, (rule.mismatch(row.quantity) for rule, _ in rules)), ''):
        verdict, cause = 'failed', why
    elif bound.gates or sign * value >= sign * bound.bad:  # better than another machine is no improvement of this one
        verdict = 'ok'
    else:
        verdict, side = 'warning', 'below' if sign > 0 else 'above'
        cause = (
            f'{number(value)} {row.quantity.unit} in session {session} is {side} the limit {number(bound.bad)} '
            f'({bound.why}); expected {number(reference.mean)} ({_origin(reference)})'
        )
    return Verdict(
        verdict, row.id, row.quantity, row.summary, reference, bound, cause, row.nodes, session=session,
        case_id=row.case_id, jobs=row.jobs,
    )  # fmt: skip


def recorded_together(store: Store, session: Session, lookup: References, rows: list[Measured]) -> set[SeriesId]:
    """Return the series recorded in the sessions that also recorded what a session of another suite measured.

    A session with a selection, such as by ``--name``, counts only beside those with the same one. Empty for a session
    of ours.
    """
    if not session.is_of_another_suite:
        return set()
    behind = frozenset[str]().union(*(lookup.exact[row.id].sessions for row in rows if row.id in lookup.exact))
    if session.narrowed_by:
        behind &= {one.short_name for one in store.sessions(session.site) if one.selection == session.selection}
    return {row.id for row in lookup.exact.values() if row.sessions & behind}


def not_measured(
    lookup: References, rows: list[Measured], cases: list[CaseRow], session: Session, policy: dict[str, Any],
    together: Collection[SeriesId] = (),
) -> list[Verdict]:  # fmt: skip
    """Return the verdict `missing` for each reference that the session should have measured and did not.

    It should have measured the references of the cases that ran; if it ran a whole mode, also the baselines of that
    mode; and a session of another suite, which has no modes, the series in `together`.
    """
    keys = {row.id for row in rows}
    cases = [case for case in cases if not case.fixture]
    ended = {case.id: case for case in cases}
    whole_mode = session.mode in MODES and not session.narrowed_by
    modes = MODES[: MODES.index(session.mode) + 1] if whole_mode else ()

    def in_mode(row: Reference) -> bool:
        """Return True if a session of this mode should have measured the row."""
        partition = session.partition in (None, row.id.partition)
        return row.mode in modes and row.kind not in KINDS_OF_FILE['published'] and partition

    unmet = [
        row
        for row in lookup.exact.values()
        if row.id not in keys
        and row.kind != 'elsewhere'
        and (row.id.case in ended or in_mode(row) or row.id in together)
    ]
    unmet += [row for row in lookup.patterns if in_mode(row) and not any(row.matches(key) for key in keys)]
    verdicts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.id.case)
        if case is None:
            cause = f'no case of this {session.mode or "whole"} session measured it'
        else:
            cause = failure(case) or 'its case ran and does not declare this metric'
        bound = limits(row, tolerance_for(policy, row.id, **row.stated))
        verdicts.append(Verdict('missing', row.id, row.quantity, NOTHING, row, bound, cause, session=session.session))
    return verdicts


def _origin(row: Reference) -> str:
    """Return the kind and source of a reference."""
    return f'{row.kind}, {row.source}'

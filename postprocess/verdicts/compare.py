# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session: join what it measured with what it should have measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.causes import Cause, sentence
from plumbline.errors import InputError, SiteError
from plumbline.identity import SeriesId
from plumbline.limits import Limits, Tolerance, judges, limits, spread_of, tolerance_for
from plumbline.problems import Problem
from plumbline.references import KINDS_OF_FILE, MODES, Reference, References, load_references
from postprocess.readers.run_reports import read_report
from postprocess.results.rows import CaseRow
from postprocess.results.store import Session, Store
from postprocess.text import count
from postprocess.verdicts import baseline_files, hardware
from postprocess.verdicts.advice import changed_checks, hints, improved, retiring
from postprocess.verdicts.candidates import Accused, number_of_cases, read_doubts
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.elsewhere import Elsewhere, beside
from postprocess.verdicts.measured import Measured, failure_of, measured
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.problems import other_hardware, problems_of
from postprocess.verdicts.stand_in import with_stand_ins
from postprocess.verdicts.together import judge_together
from postprocess.verdicts.verdict import Common, Comparison, worst_first


def judge_session(
    store: Store, session: Session, root: Path | None = None, reruns: Sequence[Path] = (),
    accused: Callable[[], Accused] = dict,
) -> Comparison:  # fmt: skip
    """Judge `session` by the references of its site below `root`.

    `reruns`: run reports of the same cases, run again; a report that is given twice counts once. `accused`: returns
    what was wrong in the sessions that may stand in for a baseline, see `stand_in.first_sessions`. Raises SiteError if
    a file of the site is wrong, InputError if the store or a report cannot be read or a report is of another site.
    """
    stored = store.rows(session)
    cases, rows = stored.cases, measured(stored)
    lookup = load_references(session.site, root)
    rows = without_judgement(with_reruns(rows, reruns, session), lookup)
    policy = site_policy(session, root)
    tolerances = [tolerance_for(policy, row.id, **row.stated) for row in rows]
    facts, of_hardware = _facts(session, rows, cases, lookup, tolerances, root)
    candidates = [
        (place, replace(of, rules=[rule], spread=with_spread(rule[0], lookup)))
        for place, of in enumerate(facts)
        for rule in of.referenced
    ]
    share = policy.get('further_jobs')
    facts, common, again, left_out = judge_together(store, session, facts, candidates, cases, share)
    in_common: list[Common] = []
    fault = ''
    try:
        facts, in_common = with_stand_ins(store, session, facts, cases, policy, accused, root)
    except (InputError, SiteError) as error:
        fault = f'the nodes were not compared: {error}'
    facts += not_measured(lookup, rows, cases, session, policy, recorded_together(store, session, lookup, rows))
    verdicts = [decide(of) for of in facts]
    problems = [*of_hardware, *problems_of(session, cases, rows)]
    problems += baseline_files.problems(store.folder.parent, session.site, root)
    command = partial(store.command, site=session.site, root=root)
    busy = read_doubts(store, [session], {})
    comparison = Comparison(
        session, None, worst_first(verdicts), problems, common=common, again=tuple(again), left_out=left_out,
        busy=number_of_cases(busy.values()), busy_jobs=frozenset(case_id for _, case_id in busy),
        common_by_stand_in=in_common, fault=fault,
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


def _facts(
    session: Session, rows: Sequence[Measured], cases: Sequence[CaseRow], lookup: References,
    tolerances: Sequence[Tolerance], root: Path | None,
) -> tuple[list[Facts], list[Problem]]:  # fmt: skip
    """Return what is known of each series by itself, and the problem of each other hardware that jobs had."""
    case_of = {case.case_id: case for case in cases}
    elsewhere = None if session.is_of_another_suite else Elsewhere.of(session.site, root)
    facts: list[Facts] = []
    unlike: dict[tuple[str, str], list[int]] = {}
    for place, (row, tolerance) in enumerate(zip(rows, tolerances, strict=True)):
        case = case_of[row.case_id]
        rules = [] if row.id.metric == '*' else judges(lookup, row.id, tolerance)
        if elsewhere and not rules and row.judged and row.status == 'measured':
            rules = elsewhere.rules(row, case)
        if had := _other_hardware(row, rules, case.provenance):
            unlike.setdefault((row.id.partition, had), []).append(place)
        failed = own_test(row, case) if session.is_of_another_suite else ''
        of_others = row.status == 'measured' and rules and not rules[0][1].gates
        loss = beside(row, *rules[0], session.session) if of_others else Loss()
        lost = next(iter(row.lost), None)
        facts.append(Facts(row, rules, session.session, lost, None, failed, loss, tolerance=tolerance))
    problems = []
    for (partition, had), places in unlike.items():
        problems.append(other_hardware(partition, had, {node for place in places for node in rows[place].nodes}))
        for place in places:
            facts[place] = replace(facts[place], hardware=problems[-1])
    return facts, problems


def _other_hardware(row: Measured, rules: Sequence[tuple[Reference, Limits]], provenance: Mapping[str, str]) -> str:
    """Return which other hardware a measured series had than its baseline; empty if the same, or if not known."""
    facts = [reference.facts for reference, _ in rules if reference.kind == 'baseline']
    if row.status != 'measured' or not facts or facts[0].keys().isdisjoint(hardware.HARDWARE):
        return ''
    return hardware.unlike(provenance, facts[0])


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
        row.no_longer_judged() if row.status == 'measured' and row.id in recorded and curve(row) not in judged else row
        for row in rows
    ]


def own_test(row: Measured, case: CaseRow) -> str:
    """Return why the test of another suite failed, if this series missed the reference that the test has of its own."""
    if case.fail_phase != 'performance':
        return ''
    missed = [cause.what for cause in case.causes if cause.code == 'reference'] or [row.id.metric]
    why = ': '.join(filter(None, ('its test failed against its own reference', sentence(case.causes))))
    return why if row.id.metric in missed else ''


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


def with_reruns(rows: list[Measured], reruns: Sequence[Path], session: Session) -> list[Measured]:
    """Return the series of a session with added jobs from run reports of the same cases; each report counts once."""
    known = {session.session}
    for number_of, path in enumerate(reruns, 1):
        report = read_report(path, session.site)
        again_session = report.session
        if again_session.site != session.site:
            raise InputError(f'{path}: is of site {again_session.site}, the session of {session.site}')
        if again_session.session in known:
            continue
        known.add(again_session.session)
        again: dict[SeriesId, list[Measured]] = {}
        for row in measured(report):
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
) -> list[Facts]:  # fmt: skip
    """Return the facts of each reference that the session should have measured and did not.

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
    facts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.id.case)
        if case is None:
            cause = Cause('not-run', f'no case of this {session.mode or "whole"} session measured it')
        else:
            cause = failure_of(case) or Cause('lost-metric', 'its case ran and does not declare this metric')
        bound = limits(row, tolerance_for(policy, row.id, **row.stated))
        facts.append(Facts(Measured.absent(row.id, row.quantity, cause), [(row, bound)], session.session))
    return facts

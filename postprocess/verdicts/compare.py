"""Judge a session: an outer join of what it measured with what it should have measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from plumbline.errors import InputError
from plumbline.identity import CaseId, SeriesId, from_text
from plumbline.limits import Limits, judges, limits, tolerance_for
from plumbline.paths import SITES, site_folder
from plumbline.record import NOTHING
from plumbline.references import KINDS, MODES, Reference, References, load_references
from plumbline.site_file import read_site_file
from postprocess.results.reports import RunReport, read_report
from postprocess.results.store import Session, Store
from postprocess.text import count, number
from postprocess.verdicts.measured import Measured, failure, last_runs, measured, measured_in
from postprocess.verdicts.stats import chance, false_discovery_rates, mean_of, pool
from postprocess.verdicts.verdict import Comparison, Verdict, worst_first

#: Ends the problem of a session in which every case failed.
NOTHING_MEASURED = 'ran and nothing was measured that counts'


def judge_session(
    store: Store,
    session: Session,
    against: Session | None = None,
    root: Path = SITES,
    reruns: Sequence[Path] = (),
) -> Comparison:
    """Judge `session` by the references of its site below `root`, or by what the session `against` measured.

    `reruns`: run reports of the same cases, run again. A metric beyond its limit has regressed unless the median of all
    its values is within it. Raises SiteError for a wrong file of the site, InputError for a store or report that cannot
    be read, or a report of another site.
    """
    cases = store.rows('cases', session)
    rows = measured(cases, store.rows('metrics', session))
    reasons: dict[SeriesId, str] = {}
    if against is None:
        references: list[Reference] = load_references(session.site, root).rows
    else:
        references, reasons = references_from(measured_in(store, against), against)
    policy = site_policy(session.site, root)
    lookup = References(references)
    again = [_by_key(read_report(path, session.site), session) for path in reruns]
    verdicts = []
    for row in rows:
        rules = [] if row.id.metric == '*' else judges(lookup, row.id, tolerance_for(policy, row.id, **row.stated))
        verdict = judge(row, rules, session.session, reasons.get(row.id, ''))
        if again and verdict.verdict == 'regressed':
            verdict = confirm(verdict, row, again)
        verdicts.append(verdict)
    verdicts += not_measured(lookup, rows, cases, session, policy)
    verdicts, false_flags = with_chances(verdicts)
    problems = session_problems(session, cases, rows)
    return Comparison(session, against, worst_first(verdicts), problems, false_flags)


def site_policy(site: str, root: Path = SITES) -> dict[str, Any]:
    """Return the tolerances of a ``site.yaml``: below `root`, or the suite's where `root` holds only references."""
    path = site_folder(site, root) / 'site.yaml'
    if not path.exists():
        raise InputError(f'site {site} is not described: expected {root / site / "site.yaml"}')
    return read_site_file(path).get('tolerance', {})


def judge(row: Measured, rules: Sequence[tuple[Reference, Limits]], session: str, no_reference: str = '') -> Verdict:
    """Return the verdict of one series by the first of `rules`; a second one only warns.

    `no_reference`: why there is no reference, where that is known.
    """
    judged = Verdict(
        row.status, row.id, row.quantity, row.summary, cause=row.cause, nodes=row.nodes, session=session,
        case_id=row.case_id,
    )  # fmt: skip
    if not rules:
        if row.status != 'measured':
            return replace(judged, verdict='failed' if row.status == 'missing' else row.status)
        return replace(judged, verdict='no_reference' if row.judged else 'informational', cause=no_reference)
    reference, bound = rules[0]
    judged = replace(judged, reference=reference, limits=bound)
    if row.status != 'measured':
        return judged
    if why := reference.mismatch(row.quantity):
        return replace(judged, verdict='failed', cause=why)
    value, sign = row.value, row.quantity.sign
    for other, its in rules:
        if other.quantity == row.quantity and sign * value < sign * its.bad:
            cause = (
                f'{value:.6g} {row.quantity.unit} in session {session} is {"below" if sign > 0 else "above"} the '
                f'limit {its.bad:.6g} ({its.why}); expected {other.mean:.6g} ({_origin(other)})'
            )
            return replace(judged, verdict='regressed' if its is bound and its.gates else 'warning', cause=cause)
    return replace(judged, verdict='improved' if sign * value > sign * bound.good else 'ok')


def confirm(verdict: Verdict, row: Measured, reruns: Sequence[dict[SeriesId, list[Measured]]]) -> Verdict:
    """Return the verdict of a series beyond its limit after its case was run again, on the same nodes or on others.

    It is `regressed` if the median of all its values is beyond the limit, else a `warning`. `where` is ``system`` if
    other nodes are beyond the limit, too, and ``node`` if only the same ones are.
    """
    here, elsewhere = [], []
    for rerun in reruns:
        found = [again for again in rerun.get(row.id, ()) if again.status == 'measured']
        same = [again.value for again in found if set(again.nodes) == set(row.nodes)]
        if same:
            here.append(median(same))
        elif found:
            elsewhere.append(median(again.value for again in found))
    if not here + elsewhere:
        return replace(verdict, cause=f'{verdict.cause}; not confirmed: no rerun has a number of it')
    said = [
        f'{", ".join(map(number, values))} on {which} nodes'
        for values, which in ((here, 'the same'), (elsewhere, 'other'))
        if values
    ]
    middle = median([row.value, *here, *elsewhere])

    def beyond(value: float) -> bool:
        return verdict.limit is not None and row.quantity.sign * (value - verdict.limit) < 0

    evidence = f'{verdict.cause}; run again: {" and ".join(said)}, median {number(middle)}'
    if not beyond(middle):
        return replace(verdict, verdict='warning', cause=f'{evidence}: not confirmed')
    if any(map(beyond, elsewhere)):
        return replace(verdict, where='system', cause=f'{evidence}: confirmed, also on other nodes: the system')
    if elsewhere:
        nodes = ', '.join(row.nodes)
        return replace(verdict, where='node', cause=f'{evidence}: confirmed, not on other nodes: look at {nodes}')
    return replace(verdict, cause=f'{evidence}: confirmed')


def with_chances(verdicts: list[Verdict]) -> tuple[list[Verdict], float]:
    """Return the verdicts with `p` and `q`, and the expected number of false flags among all of them."""
    import numpy

    tested = [  # place, losses on the log scale of the value and of the limit, and the spread
        (i, -row.quantity.sign * math.log(row.ratio), -math.log1p(-row.limits.loss), row.limits.sd, row.limits.df)
        for i, row in enumerate(verdicts)
        if row.limits and row.limits.gates and row.limits.sd and row.ratio and row.ratio > 0
    ]
    if not tested:
        return verdicts, 0.0
    places, worse, margins, sd, df = zip(*tested, strict=True)
    p = chance(numpy.divide(worse, sd), numpy.asarray(df))
    verdicts = list(verdicts)
    for i, mine, adjusted in zip(places, p, false_discovery_rates(p), strict=True):
        verdicts[i] = replace(verdicts[i], p=float(mine), q=float(adjusted))
    return verdicts, float(chance(numpy.divide(margins, sd), numpy.asarray(df)).sum())


def _by_key(report: RunReport, session: Session) -> dict[SeriesId, list[Measured]]:
    """Return what a rerun of `session` measured. Raises InputError where it ran on another site."""
    if report.site != session.site:
        raise InputError(f'{report.session["report"]}: is of site {report.site}, the session of {session.site}')
    found: dict[SeriesId, list[Measured]] = {}
    for row in measured(report.cases, report.metrics):
        found.setdefault(row.id, []).append(row)
    return found


def references_from(rows: Iterable[Measured], session: Session) -> tuple[list[Reference], dict[SeriesId, str]]:
    """Return what a session measured as references for another; and by key, why other series are no reference."""
    groups: dict[SeriesId, list[Measured]] = {}
    reasons: dict[SeriesId, str] = {}
    for row in rows:
        if row.status == 'measured' and row.judged:
            groups.setdefault(row.id, []).append(row)
        elif row.judged:
            reasons[row.id] = f'{row.status} in session {session.session}: {row.cause}'
    references = []
    for key, group in groups.items():
        summary, first = pool(row.summary for row in group), group[0]
        mean = mean_of(summary)
        if mean <= 0:
            reasons[key] = f'a reference must be above 0, session {session.session} measured {mean:.6g}'
            continue
        references.append(
            Reference(
                id=key, quantity=first.quantity, mean=mean, std=summary.std, n=summary.n, kind='session',
                source=f'session {session.session} on {session.hostname}', mode=first.mode,
            )
        )  # fmt: skip
    return references, reasons


def session_problems(session: Session, cases: list[dict[str, Any]], rows: list[Measured]) -> list[str]:
    """Return what went wrong outside the series, a sentence each."""
    problems = list(session.problems)
    if session.expected is not None and session.expected != session.ran:
        problems.append(f'{count(session.expected, "case")} expected, {session.ran} ran')
    if not session.ran:
        problems.append('no case ran')
    elif all(row.status != 'measured' for row in rows):
        problems.append(f'{count(session.ran, "case")} {NOTHING_MEASURED}')
    if session.mode is not None and session.mode not in MODES:
        problems.append(f'mode {session.mode!r} is none of {", ".join(MODES)}: what it should have measured is unknown')
    explained = {job.case_id for row in rows for job in row.jobs if job.status != 'measured'}
    for case in last_runs(cases):
        reason = case['fail_reason'] or ''
        if case['fixture'] and (failed := failure(case) or reason):
            problems.append(f'fixture {case["name"]} of {case["partition"]} with {case["environ"]}: {failed}')
        # The performance phase fails for what the metrics show, or for something else that no metric shows
        elif (
            failure(case) is None
            and reason
            and 'failed to meet reference' not in reason
            and case['case_id'] not in explained
        ):
            problems.append(f'{case["check"]} {case["params"]} of {case["partition"]} with {case["environ"]}: {reason}')
    return list(dict.fromkeys(problems))


def not_measured(
    lookup: References,
    rows: list[Measured],
    cases: list[dict[str, Any]],
    session: Session,
    policy: dict[str, Any],
) -> list[Verdict]:
    """Return the verdict `missing` for each reference that the session should have measured and did not.

    It should have measured those of the cases that ran, and, where it ran a whole mode, the baselines of that mode.
    """
    keys = {row.id for row in rows}
    cases = [case for case in cases if not case['fixture']]
    ended = {
        CaseId(case['partition'], case['environ'], case['check'], from_text(case['params'])): case for case in cases
    }
    whole_mode = session.mode in MODES and not session.narrowed_by
    modes = MODES[: MODES.index(session.mode) + 1] if whole_mode else ()

    def in_mode(row: Reference) -> bool:
        partition = session.partition in (None, row.id.partition)
        return row.mode in modes and row.kind not in KINDS['published'] and partition

    unmet = [
        row
        for row in lookup.exact.values()
        if row.id not in keys and row.kind != 'elsewhere' and (row.id.case in ended or in_mode(row))
    ]
    unmet += [row for row in lookup.patterns if in_mode(row) and not any(row.matches(key) for key in keys)]
    verdicts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.id.case)
        if case is None:
            cause = f'no case of this {session.mode} session measured it'
        else:
            cause = failure(case) or 'its case ran and does not declare this metric'
        bound = limits(row, tolerance_for(policy, row.id))
        verdicts.append(Verdict('missing', row.id, row.quantity, NOTHING, row, bound, cause, session=session.session))
    return verdicts


def _origin(row: Reference) -> str:
    return f'{row.kind}, {row.source}'

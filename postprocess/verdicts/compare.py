"""The verdict of every metric of a session: an outer join of what it measured with what it should have measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from plumbline.errors import InputError
from plumbline.limits import Limits, judges, limits, quantile_t99, tolerance_for
from plumbline.paths import SITES
from plumbline.references import KINDS, MODES, Key, Reference, References, load_references
from plumbline.site_file import read_site_file
from postprocess.results.reports import RunReport, read_report
from postprocess.results.store import Session, Store
from postprocess.text import count, number
from postprocess.verdicts.measured import Measured, failure, measured, measured_in
from postprocess.verdicts.stats import chance, false_discovery_rates, pool

#: From worst to best.
VERDICTS = (
    'regressed', 'missing', 'failed', 'invalid', 'warned', 'improved', 'ok', 'no_reference', 'not_judged',
)  # fmt: skip
WANTED = 0.05  # the loss that each metric should notice
BAD = frozenset(('regressed', 'missing', 'failed', 'invalid'))


@dataclass(frozen=True)
class MetricVerdict:
    """One metric judged. Numbers are in `unit`, `deviation` in % of the expected mean; None: there is no such number.

    `limit` is the worst value that is still ok, `ratio` that of value to expected with its 98 % interval from the
    spread of the reference: all of it on one side of 1 means that the metric moved. `gate` says whether a value beyond
    the limit fails or why it only warns (`plumbline.limits.Limits`). `sd` and `df` are those of the logarithm of one
    value. `p` is the chance that a healthy metric is as bad as this or worse, `q` the same adjusted for the number of
    metrics. `detectable` is the loss in % that the limit finds four times of five, `repeats` how many jobs a night
    would bring it to 5 %. `where` is ``node`` or ``system`` when reruns tell. `session` is where `value` comes from,
    `reference_source` where `expected` does.
    """

    verdict: str
    partition: str
    stack: str
    check: str
    case: str
    metric: str
    unit: str
    better: str
    value: float | None = None
    std: float | None = None
    n: int = 0
    min: float | None = None
    max: float | None = None
    nodes: int = 0
    expected: float | None = None
    expected_std: float | None = None
    expected_n: int | None = None
    limit: float | None = None
    limit_why: str = ''
    deviation: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    gate: str = ''
    sd: float | None = None
    df: float | None = None
    p: float | None = None
    q: float | None = None
    detectable: float | None = None
    repeats: int | None = None
    where: str = ''
    cause: str = ''
    reference_kind: str = ''
    reference_source: str = ''
    epoch: str = ''
    session: str = ''
    case_id: int | None = None

    @property
    def worse_by(self) -> float:
        """Deviation in the bad direction in %, for sorting; 0 without a reference."""
        deviation = self.deviation or 0.0
        return -deviation if self.better == 'higher' else deviation


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a session, worst first, and what went wrong outside its metrics.

    `false_flags`: how many metrics of a healthy machine would be beyond their limits on such a night, before any rerun.
    `scope` names what is compared where that is more than one session on either side.
    """

    session: Session
    against: Session | None
    verdicts: list[MetricVerdict]
    problems: list[str]
    false_flags: float = 0.0
    scope: str = ''

    @property
    def counts(self) -> dict[str, int]:
        """How many metrics got each verdict, from worst to best, without those that none got."""
        found = Counter(row.verdict for row in self.verdicts)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}

    @property
    def exit_code(self) -> int:
        return int(bool(self.problems) or not BAD.isdisjoint(self.counts))

    @property
    def nothing_to_compare_with(self) -> bool:
        return set(self.counts) - {'not_judged'} == {'no_reference'}


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
    reasons: dict[Key, str] = {}
    if against is None:
        references: list[Reference] = load_references(session.site, root).rows
    else:
        references, reasons = references_from(measured_in(store, against), against)
    policy = site_policy(session.site, root)
    lookup = References(references)
    again = [_by_key(read_report(path, session.site), session) for path in reruns]
    verdicts = []
    for row in rows:
        rules = [] if row.id.metric == '*' else judges(lookup, row.key, policy)
        verdict = judge(row, rules, session.session, reasons.get(row.key, ''))
        if again and verdict.verdict == 'regressed':
            verdict = confirm(verdict, row, again)
        verdicts.append(verdict)
    verdicts += not_measured(lookup, rows, cases, session, policy)
    verdicts, false_flags = with_chances(verdicts)
    problems = session_problems(session, cases, rows)
    return Comparison(session, against, worst_first(verdicts), problems, false_flags)


def worst_first(verdicts: list[MetricVerdict]) -> list[MetricVerdict]:
    return sorted(verdicts, key=lambda row: (VERDICTS.index(row.verdict), -row.worse_by, *_key(row)))


def site_policy(site: str, root: Path = SITES) -> dict[str, Any]:
    """The tolerances of a ``site.yaml``: of the one below `root`, or the suite's where `root` holds only references."""
    path = next((path for folder in (root, SITES) if (path := folder / site / 'site.yaml').exists()), None)
    if path is None:
        raise InputError(f'site {site} is not described: expected {root / site / "site.yaml"}')
    return read_site_file(path).get('tolerance', {})


def judge(
    row: Measured, rules: Sequence[tuple[Reference, Limits]], session: str, no_reference: str = ''
) -> MetricVerdict:
    """The verdict of one metric by the first of `rules`; a second one only warns. `no_reference`: why there is none,
    where somebody knows."""
    common = _describe(row, session)
    if not rules:
        if row.status != 'measured':
            return MetricVerdict('failed' if row.status == 'missing' else row.status, **common, cause=row.cause)
        if not row.judged:
            return MetricVerdict('not_judged', **common)
        return MetricVerdict('no_reference', **common, cause=no_reference)
    reference, bound = rules[0]
    common |= _describe_reference(reference, bound)
    if row.status != 'measured':
        return MetricVerdict(row.status, **common, cause=row.cause)
    for what, mine, theirs in (
        ('unit', row.quantity.unit, reference.unit),
        ('better', row.quantity.better, reference.better),
    ):
        if mine != theirs:
            cause = f'{what} differs: measured {mine}, the reference ({_origin(reference)}) says {theirs}'
            return MetricVerdict('failed', **common, cause=cause)
    value = row.summary.mean
    sign = row.quantity.sign
    verdict, cause = 'improved' if sign * value > sign * bound.good else 'ok', ''
    for other, its in rules:
        if other.unit == row.quantity.unit and sign * value < sign * its.bad:
            verdict = 'regressed' if its is bound and its.gates else 'warned'
            cause = (
                f'{value:.6g} {row.quantity.unit} in session {session} is {"below" if sign > 0 else "above"} the limit '
                f'{its.bad:.6g} ({its.why}); expected {other.mean:.6g} ({_origin(other)})'
            )
            break
    ratio = value / reference.mean
    interval = {}
    if bound.sd is not None:
        factor = math.exp(quantile_t99(bound.df) * bound.sd)
        interval = {'ratio_low': ratio / factor, 'ratio_high': ratio * factor}
    return MetricVerdict(
        verdict, **common, cause=cause, limit=bound.bad, deviation=100 * (ratio - 1), ratio=ratio, **interval
    )


def confirm(verdict: MetricVerdict, row: Measured, reruns: Sequence[dict[Key, list[Measured]]]) -> MetricVerdict:
    """What becomes of a metric beyond its limit when its case has been run again, on the same nodes or on others.

    It has regressed when the median of all its values is beyond the limit, and warns otherwise. It is the `system` when
    other nodes are beyond the limit, too, and the `node` when only the same ones are.
    """
    here, elsewhere = [], []
    for rerun in reruns:
        found = [again for again in rerun.get(row.key, ()) if again.status == 'measured']
        same = [again.summary.mean for again in found if set(again.nodes) == set(row.nodes)]
        if same:
            here.append(median(same))
        elif found:
            elsewhere.append(median(again.summary.mean for again in found))
    if not here + elsewhere:
        return replace(verdict, cause=f'{verdict.cause}; not confirmed: no rerun has a number of it')
    said = [
        f'{", ".join(map(number, values))} on {which} nodes'
        for values, which in ((here, 'the same'), (elsewhere, 'other'))
        if values
    ]
    middle = median([row.summary.mean, *here, *elsewhere])

    def beyond(value: float) -> bool:
        return value < verdict.limit if row.quantity.sign > 0 else value > verdict.limit

    evidence = f'{verdict.cause}; run again: {" and ".join(said)}, median {number(middle)}'
    if not beyond(middle):
        return replace(verdict, verdict='warned', cause=f'{evidence}: not confirmed')
    if any(map(beyond, elsewhere)):
        return replace(verdict, where='system', cause=f'{evidence}: confirmed, also on other nodes: the system')
    if elsewhere:
        nodes = ', '.join(row.nodes)
        return replace(verdict, where='node', cause=f'{evidence}: confirmed, not on other nodes: look at {nodes}')
    return replace(verdict, cause=f'{evidence}: confirmed')


def with_chances(verdicts: list[MetricVerdict]) -> tuple[list[MetricVerdict], float]:
    """The verdicts with `p` and `q`, and how many false flags are to be expected of all of them together."""
    import numpy

    places = [i for i, row in enumerate(verdicts) if row.gate == 'gated' and row.sd and (row.ratio or 0) > 0]
    if not places:
        return verdicts, 0.0
    rows = [verdicts[i] for i in places]
    sd, df = numpy.array([(row.sd, row.df) for row in rows]).T
    worse = [-math.log(row.ratio) if row.better == 'higher' else math.log(row.ratio) for row in rows]
    margins = [abs(math.log(row.limit / row.expected)) for row in rows]
    p = chance(worse / sd, df)
    verdicts = list(verdicts)
    for i, mine, adjusted in zip(places, p, false_discovery_rates(p), strict=True):
        verdicts[i] = replace(verdicts[i], p=float(mine), q=float(adjusted))
    return verdicts, float(chance(margins / sd, df).sum())


def _by_key(report: RunReport, session: Session) -> dict[Key, list[Measured]]:
    """What a rerun of `session` measured. Raises InputError where it ran elsewhere."""
    if report.site != session.site:
        raise InputError(f'{report.session["report"]}: is of site {report.site}, the session of {session.site}')
    found: dict[Key, list[Measured]] = {}
    for row in measured(report.cases, report.metrics):
        found.setdefault(row.key, []).append(row)
    return found


def references_from(rows: Iterable[Measured], session: Session) -> tuple[list[Reference], dict[Key, str]]:
    """What a session measured as references for another; and why the rest of it is none, by key."""
    groups: dict[Key, list[Measured]] = {}
    reasons: dict[Key, str] = {}
    for row in rows:
        if row.status == 'measured' and row.judged:
            groups.setdefault(row.key, []).append(row)
        elif row.judged:
            reasons[row.key] = f'{row.status} in session {session.session}: {row.cause}'
    references = []
    for key, group in groups.items():
        summary, first = pool(row.summary for row in group), group[0]
        if summary.mean <= 0:
            reasons[key] = f'a reference must be above 0, session {session.session} measured {summary.mean:.6g}'
            continue
        partition, stack, check, case, metric = key
        references.append(
            Reference(
                partition=partition, stack=stack, check=check, case=case, metric=metric, unit=first.quantity.unit,
                better=first.quantity.better, mean=summary.mean, std=summary.std, n=summary.n, kind='session',
                source=f'session {session.session} on {session.hostname}', mode=first.mode,
            )
        )  # fmt: skip
    return references, reasons


def session_problems(session: Session, cases: list[dict[str, Any]], rows: list[Measured]) -> list[str]:
    """What went wrong outside the metrics, a sentence each."""
    problems = list(session.problems)
    if session.expected is not None and session.expected != session.ran:
        problems.append(f'{count(session.expected, "case")} expected, {session.ran} ran')
    if not session.ran:
        problems.append('no case ran')
    elif all(row.status != 'measured' for row in rows):
        problems.append(f'{count(session.ran, "case")} ran and nothing was measured that counts')
    if session.mode is not None and session.mode not in MODES:
        problems.append(
            f'mode {session.mode!r} is none of {", ".join(MODES)}: nobody can tell what it should have measured'
        )
    explained = {row.case_id for row in rows if row.status != 'measured'}
    for case in cases:
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
) -> list[MetricVerdict]:
    """`missing` for each reference that the session should have met with a metric and did not.

    It should have met those of the cases it ran, and, where it ran a whole mode, the baselines that belong to it.
    """
    keys = {row.key for row in rows}
    cases = [case for case in cases if not case['fixture']]
    ended = {(case['partition'], case['environ'], case['check'], case['params']): case for case in cases}
    whole_mode = session.mode in MODES and not session.narrowed_by
    modes = MODES[: MODES.index(session.mode) + 1] if whole_mode else ()

    def in_mode(row: Reference) -> bool:
        partition = session.partition in (None, row.partition)
        return row.mode in modes and row.kind not in KINDS['published'] and partition

    unmet = [
        row
        for row in lookup.exact
        if row.key not in keys and row.kind != 'elsewhere' and (row.key[:4] in ended or in_mode(row))
    ]
    unmet += [row for row in lookup.patterns if in_mode(row) and not any(row.matches(key) for key in keys)]
    verdicts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.key[:4])
        if case is None:
            cause = f'no case of this {session.mode} session measured it'
        else:
            cause = failure(case) or 'its case ran and does not declare this metric'
        bound = limits(row, tolerance_for(policy, *row.key[2:], row.unit))
        verdicts.append(
            MetricVerdict(
                'missing', *_key(row), row.unit, row.better, cause=cause, session=session.session,
                **_describe_reference(row, bound),
            )
        )  # fmt: skip
    return verdicts


def _describe(row: Measured, session: str) -> dict[str, Any]:
    summary = row.summary
    return {
        **dict(zip(('partition', 'stack', 'check', 'case', 'metric'), row.key, strict=True)),
        'unit': row.quantity.unit, 'better': row.quantity.better,
        'value': summary.mean, 'std': summary.std, 'n': summary.n,
        'min': summary.min, 'max': summary.max, 'nodes': len(row.nodes), 'session': session, 'case_id': row.case_id,
    }  # fmt: skip


def _describe_reference(row: Reference, bound: Limits) -> dict[str, Any]:
    return {
        'expected': row.mean, 'expected_std': row.std, 'expected_n': row.n, 'reference_kind': row.kind,
        'reference_source': row.source, 'epoch': row.epoch, 'limit_why': bound.why, 'gate': bound.gate,
        'sd': bound.sd, 'df': bound.df, 'detectable': None if bound.sd is None else 100 * bound.detectable,
        'repeats': bound.repeats_for(WANTED, row.n),
    }  # fmt: skip


def _origin(row: Reference) -> str:
    return f'{row.kind}, {row.source}'


def _key(row: MetricVerdict | Reference) -> Key:
    return row.partition, row.stack, row.check, row.case, row.metric

"""The verdict of every metric of a session: an outer join of what it measured with what it should have measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from postprocess.cmdline import Selection, read_cmdline
from postprocess.measured import Measured, failure, measured, measured_in
from postprocess.stats import pool
from postprocess.store import Session, Store
from postprocess.text import count
from site_configs.gate import limits, tolerance_for
from site_configs.loader import SITES, read_site_file
from site_configs.references import MODES, Key, Reference, References, load_references

#: From worst to best.
VERDICTS = ('regressed', 'missing', 'failed', 'void', 'improved', 'ok', 'no_reference')
BAD = frozenset(('regressed', 'missing', 'failed', 'void'))


@dataclass(frozen=True)
class MetricVerdict:
    """One metric judged. Numbers are in `unit`, `deviation` in % of the expected mean; None: there is no such number.

    `limit` is the worst value that is still ok. `session` is where `value` comes from, `reference_source` where
    `expected` does.
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
    cause: str = ''
    reference_kind: str = ''
    reference_source: str = ''
    session: str = ''
    case_id: int | None = None

    @property
    def worse_by(self) -> float:
        """Deviation in the bad direction in %, for sorting; 0 without a reference."""
        deviation = self.deviation or 0.0
        return -deviation if self.better == 'higher' else deviation


@dataclass(frozen=True)
class Comparison:
    """All verdicts of a session, worst first, and what went wrong outside its metrics."""

    session: Session
    against: Session | None
    verdicts: list[MetricVerdict]
    problems: list[str]

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
        return set(self.counts) == {'no_reference'}

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            'site': self.session.site,
            'session': self.session.session,
            'started': f'{self.session.started:%Y-%m-%dT%H:%M:%SZ}',
            'mode': self.session.mode,
            'against': self.against and self.against.session,
            'exit_code': self.exit_code,
            'counts': self.counts,
            'problems': self.problems,
            'verdicts': [asdict(row) for row in self.verdicts],
        }


def compare(store: Store, session: Session, against: Session | None = None, root: Path = SITES) -> Comparison:
    """Judge `session` by the references of its site below `root`, or by what the session `against` measured.

    Raises SiteError for a site or reference file that is wrong, InputError for a store that cannot be read.
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
    verdicts = []
    for row in rows:
        reference = None if row.metric == '*' else lookup.find(row.key)
        verdicts.append(judge(row, reference, policy, session.session, reasons.get(row.key, '')))
    selection = read_cmdline(session.cmdline, session.mode)
    verdicts += _not_measured(lookup, rows, cases, selection, session.session)
    verdicts.sort(key=lambda row: (VERDICTS.index(row.verdict), -row.worse_by, *_key(row)))
    problems = session_problems(session, cases, rows, selection)
    return Comparison(session, against, verdicts, problems)


def site_policy(site: str, root: Path = SITES) -> dict[str, Any]:
    """The tolerances of a ``site.yaml``: of the one below `root`, or the suite's where `root` holds only references."""
    path = root / site / 'site.yaml'
    return read_site_file(path if path.exists() else SITES / site / 'site.yaml').get('tolerance', {})


def judge(
    row: Measured, reference: Reference | None, policy: dict[str, Any], session: str, no_reference: str = ''
) -> MetricVerdict:
    """The verdict of one metric. `no_reference`: why it has none, where somebody knows."""
    common = _describe(row, session)
    if reference is None:
        if row.status == 'measured':
            return MetricVerdict('no_reference', **common, cause=no_reference)
        return MetricVerdict('failed' if row.status == 'missing' else row.status, **common, cause=row.cause)
    common |= _describe_reference(reference)
    if row.status != 'measured':
        return MetricVerdict(row.status, **common, cause=row.cause)
    for what, mine, theirs in (('unit', row.unit, reference.unit), ('better', row.better, reference.better)):
        if mine != theirs:
            origin = f'the reference ({reference.kind}, {reference.source})'
            cause = f'{what} differs: measured {mine}, {origin} says {theirs}'
            return MetricVerdict('failed', **common, cause=cause)
    tolerance = tolerance_for(policy, row.check, row.case, row.metric)
    bound = limits(reference.mean, reference.std, reference.n, row.better, tolerance)
    value = row.summary.mean
    sign = 1 if row.better == 'higher' else -1
    if sign * value < sign * bound.bad:
        verdict = 'regressed'
        cause = (
            f'{value:.6g} {row.unit} in session {session} is {"below" if sign > 0 else "above"} the limit '
            f'{bound.bad:.6g} ({bound.why}); expected {reference.mean:.6g} ({reference.kind}, {reference.source})'
        )
    else:
        verdict, cause = 'improved' if sign * value > sign * bound.good else 'ok', ''
    return MetricVerdict(
        verdict, **common, cause=cause, limit=bound.bad, limit_why=bound.why,
        deviation=100 * (value / reference.mean - 1),
    )  # fmt: skip


def references_from(rows: Iterable[Measured], session: Session) -> tuple[list[Reference], dict[Key, str]]:
    """What a session measured as references for another; and why the rest of it is none, by key."""
    groups: dict[Key, list[Measured]] = {}
    reasons: dict[Key, str] = {}
    for row in rows:
        if row.status == 'measured':
            groups.setdefault(row.key, []).append(row)
        else:
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
                partition=partition, stack=stack, check=check, case=case, metric=metric, unit=first.unit,
                better=first.better, mean=summary.mean, std=summary.std, n=summary.n, kind='session',
                source=f'session {session.session} on {session.hostname}', mode=first.mode,
            )
        )  # fmt: skip
    return references, reasons


def session_problems(
    session: Session, cases: list[dict[str, Any]], rows: list[Measured], selection: Selection
) -> list[str]:
    """What went wrong outside the metrics, a sentence each."""
    problems = list(session.problems)
    if session.expected is not None and session.expected != session.ran:
        problems.append(f'{count(session.expected, "case")} expected, {session.ran} ran')
    if not session.ran:
        problems.append('no case ran')
    elif all(row.status != 'measured' for row in rows):
        problems.append(f'{count(session.ran, "case")} ran and nothing was measured that counts')
    if selection.mode is not None and selection.mode not in MODES:
        problems.append(
            f'mode {selection.mode!r} is none of {", ".join(MODES)}: nobody can tell what it should have measured'
        )
    for case in cases:
        reason = case['fail_reason'] or ''
        if case['fixture'] and (failed := failure(case) or reason):
            problems.append(f'fixture {case["name"]} of {case["partition"]} with {case["stack"]}: {failed}')
        # The performance phase fails for what the metrics show, or for something else that no metric shows
        elif failure(case) is None and reason and 'failed to meet reference' not in reason:
            shown = any(row.case_id == case['case_id'] and row.status != 'measured' for row in rows)
            if not shown:
                problems.append(f'{case["check"]} {case["case"]} of {case["partition"]} with {case["stack"]}: {reason}')
    return list(dict.fromkeys(problems))


def _not_measured(
    lookup: References, rows: list[Measured], cases: list[dict[str, Any]], selection: Selection, session: str
) -> list[MetricVerdict]:
    """`missing` for each reference that the session should have met with a metric and did not.

    It should have met those of the cases it ran, and, where it ran a whole mode, the baselines that belong to it.
    """
    keys = {row.key for row in rows}
    cases = [case for case in cases if not case['fixture']]
    ended = {(case['partition'], case['stack'], case['check'], case['case']): case for case in cases}
    whole_mode = selection.mode in MODES and not selection.narrowed_by
    modes = MODES[: MODES.index(selection.mode) + 1] if whole_mode else ()

    def in_mode(row: Reference) -> bool:
        partition = selection.partition in (None, row.partition)
        return row.mode in modes and row.kind != 'published' and partition

    unmet = [row for row in lookup.exact if row.key not in keys and (row.key[:4] in ended or in_mode(row))]
    unmet += [row for row in lookup.patterns if in_mode(row) and not any(row.matches(key) for key in keys)]
    verdicts = []
    for row in unmet:
        case = None if row.is_pattern else ended.get(row.key[:4])
        if case is None:
            cause = f'no case of this {selection.mode} session measured it'
        else:
            cause = failure(case) or 'its case ran and does not declare this metric'
        partition, stack, check, case_name, metric = row.key
        verdicts.append(
            MetricVerdict(
                'missing', partition, stack, check, case_name, metric, row.unit, row.better, cause=cause,
                session=session, **_describe_reference(row),
            )
        )  # fmt: skip
    return verdicts


def _describe(row: Measured, session: str) -> dict[str, Any]:
    summary = row.summary
    return {
        'partition': row.partition, 'stack': row.stack, 'check': row.check, 'case': row.case, 'metric': row.metric,
        'unit': row.unit, 'better': row.better, 'value': summary.mean, 'std': summary.std, 'n': summary.n,
        'min': summary.min, 'max': summary.max, 'nodes': len(row.nodes), 'session': session, 'case_id': row.case_id,
    }  # fmt: skip


def _describe_reference(row: Reference) -> dict[str, Any]:
    return {
        'expected': row.mean, 'expected_std': row.std, 'expected_n': row.n, 'reference_kind': row.kind,
        'reference_source': row.source,
    }  # fmt: skip


def _key(row: MetricVerdict) -> Key:
    return row.partition, row.stack, row.check, row.case, row.metric

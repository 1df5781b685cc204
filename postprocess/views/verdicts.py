"""Tables of verdicts, of what is guarded and of proposed baselines; the summary of a nightly run."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from postprocess.text import count, number, percent, quantity, signed
from postprocess.verdicts import coverage
from postprocess.verdicts.baseline import Change, Proposal, refusals
from postprocess.verdicts.compare import BAD, WANTED, Comparison, MetricVerdict
from postprocess.views.table import Column, Row, View

HOW_TO_RECORD = (
    'No metric of this session has a reference, so nothing was judged. If the machine is as it should be, record '
    'this session as the baseline: `plumbline record propose`, read what it prints, then `plumbline record accept`.'
)
SUMMARY_WIDTH = 80
FALSE_SHARE = 0.05  # of the flags that stand among all metrics of a session
_NAMES = (
    Column('partition', 'partition', '{}/{}'.format, beside=('stack',)),
    Column('stack'),
    Column('check', 'check'),
    Column('case', 'case'),
    Column('metric', 'metric'),
)

_COMPARED = [
    Column('verdict', 'verdict'),
    *_NAMES,
    Column('unit'),
    Column('better'),
    Column('value', 'measured', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('n', 'n', lambda n: str(n or ''), number=True),
    Column('min'),
    Column('max'),
    Column('nodes'),
    Column('expected', 'expected', quantity, number=True, beside=('expected_std', 'unit')),
    Column('expected_std'),
    Column('expected_n'),
    Column('limit', 'limit', number, number=True),
    Column('deviation', 'deviation', signed, '%', number=True),
    Column('ratio'),
    Column('ratio_low', '98 % interval', lambda low, high: _interval(low, high), number=True, beside=('ratio_high',)),
    Column('ratio_high'),
    Column('limit_why', 'limit from'),
    Column('gate'),
    *map(Column, ('sd', 'df', 'p', 'q', 'detectable', 'repeats', 'where', 'cause')),
    Column('reference_kind', 'source', lambda kind, source: _source(kind, source), beside=('reference_source',)),
    *map(Column, ('reference_source', 'epoch', 'session', 'case_id')),
]
_COVERAGE = [
    Column('standing', '', lambda name: name.replace('_', ' ')),
    *_NAMES,
    Column('expected_n', 'n', number=True),
    Column('detectable', 'notices', lambda loss: signed(loss and -loss), '%', number=True),
    Column('repeats', f'jobs for {WANTED:.0%}', number=True),
    Column('limit_why', 'limit from', lambda why, cause: why or cause, beside=('cause',)),
    *map(Column, ('reference_kind', 'reference_source', 'cause')),
]
_CHANGES = [
    Column('change', ''),
    *_NAMES,
    Column('unit'),
    Column('better'),
    Column('old_mean', 'old', quantity, number=True, beside=('old_std', 'old_unit')),
    Column('old_std'),
    Column('old_unit'),
    Column('old_limit', 'limit', number, number=True),
    Column('mean', 'new', quantity, number=True, beside=('std', 'unit')),
    Column('std'),
    Column('limit', 'limit', number, number=True),
    Column('difference', 'moves', signed, '%', number=True),
    Column('n', 'n', number=True),
    Column('limit_why', 'limit from'),
    Column('gate'),
    Column('kind'),
    Column('source'),
    Column('recorded_at', 'recorded'),
    Column('mode'),
    Column('note', 'from'),
    *map(Column, ('spread', 'df', 'spread_n')),
    Column('epoch', 'epoch'),
    Column('provenance'),
]


def comparison(found: Comparison) -> View:
    """Return every verdict, the worst first, with the summary below; Markdown begins with verdict and causes."""
    return View(
        _COMPARED,
        [asdict(row) for row in found.verdicts],
        after=summary(found),
        markdown=_findings(found),
        name='verdicts',
        document={
            'site': found.session.site,
            'session': found.session.session,
            'started': f'{found.session.started:%Y-%m-%dT%H:%M:%SZ}',
            'mode': found.session.mode,
            'against': found.against and found.against.session,
            'scope': found.scope,
            'exit_code': found.exit_code,
            'counts': found.counts,
            'expected_false_flags': found.false_flags,
            'problems': found.problems,
        },
    )


def guarded(found: Comparison) -> View:
    """Return which metrics can fail, and the loss that each would notice, the least guarded first."""
    rows = [asdict(row) | {'standing': standing} for standing, row in coverage.guarded(found)]
    return View(
        _COVERAGE, rows, after=coverage.headline(found), name='metrics', document={'counts': coverage.counts(found)}
    )


def proposal(found: Proposal, path: Path | None) -> View:
    """Return how proposed baseline rows differ from those in force; `path`: the file of the proposal, if any."""
    refused = refusals(found)
    rows = count(len(found.changes), 'row')
    saved = [f'{path}: {rows}; `plumbline record accept` puts them in force'] if path else []
    return View(
        _CHANGES,
        [_of_change(change) for change in found.changes],
        before=f'Proposed baseline of {found.site}',
        name='changes',
        document={'site': found.site, 'refused': refused},
        notes=[f'refused: {line}' for line in refused] + saved,
        faults=[f'session {session} holds nothing that can be recorded' for session in found.unusable],
    )


def changes(found: Sequence[Change]) -> View:
    """Return baseline rows before and after."""
    return View(_CHANGES, [_of_change(change) for change in found])


def _of_change(change: Change) -> Row:
    old, new = change.old, change.new
    return asdict(new) | {
        'change': change.what,
        'old_mean': old and old.mean,
        'old_std': old and old.std,
        'old_unit': old.unit if old else '',
        'old_limit': change.old_limits and change.old_limits.bad,
        'limit': change.new_limits.bad,
        'limit_why': change.new_limits.why,
        'difference': change.difference,
        'gate': change.new_limits.gate,
    }


def headline(comparison: Comparison) -> str:
    """What came out, in a few words: ``2 regressed, 1 missing, 40 ok``."""
    return ', '.join(f'{n} {verdict.replace("_", " ")}' for verdict, n in comparison.counts.items()) or 'no metric'


def origin(comparison: Comparison) -> str:
    """Which session was judged, and by what."""
    if comparison.scope:
        return comparison.scope
    session = comparison.session
    mode = f', mode {session.mode}' if session.mode else ''
    by = f'session {comparison.against.session}' if comparison.against else 'the references of the site'
    return f'{session.site}, session {session.session}, {session.started:%Y-%m-%d %H:%M} UTC{mode}, against {by}'


def summary(comparison: Comparison) -> str:
    """Counts, problems, the worst deviations and every failure with its cause; fits a terminal of 80 columns."""
    worst = [row for row in comparison.verdicts if row.deviation is not None and round(row.worse_by, 1) > 0]
    worst.sort(key=lambda row: row.worse_by, reverse=True)
    parts = [_wrap(origin(comparison))]
    for title, lines in (
        ('Furthest on the bad side of their references', [_distance(row) for row in worst[:8]]),
        ('Problems of the session', comparison.problems),
        ('Failures', list(_causes(comparison))),
        ('Warnings', list(_causes(comparison, ('warned',)))),
    ):
        if lines:
            parts += ['', title, *(_wrap(line, '  ') for line in lines)]
    if comparison.nothing_to_compare_with:
        parts += ['', _wrap(HOW_TO_RECORD)]
    else:
        parts += ['', _wrap(guard(comparison))]
    return '\n'.join([*parts, '', _wrap(f'{_word(comparison)} {headline(comparison)}')]) + '\n'


def _findings(comparison: Comparison) -> str:
    """Return verdict, problems and causes as GitHub's Markdown."""
    lines = [f'**{_word(comparison)}** {headline(comparison)}', '', origin(comparison), '']
    lines += [f'- {problem}' for problem in comparison.problems]
    lines += [f'- {line}' for line in (*_causes(comparison), *_causes(comparison, ('warned',)))]
    lines += [HOW_TO_RECORD] if comparison.nothing_to_compare_with else ['', guard(comparison)]
    return '\n'.join(lines).rstrip()


def guard(comparison: Comparison) -> str:
    """How many metrics are gated, and how many flags are chance: of many metrics some are always beyond 99 %."""
    tested = [row for row in comparison.verdicts if row.q is not None]
    lines = [f'Guarded: {coverage.headline(comparison)}.']
    if tested:
        flags = sum(row.verdict == 'regressed' for row in tested)
        certain = sum(row.verdict == 'regressed' and row.q <= FALSE_SHARE for row in tested)
        chance = f'{comparison.false_flags:.2g}' if comparison.false_flags < 10 else f'{comparison.false_flags:.0f}'
        lines.append(
            f'Flagged: {flags} of the {len(tested)} gated with a known spread; {chance} expected '
            f'by chance before reruns; {certain} stand among all (Benjamini-Hochberg, {FALSE_SHARE:.0%}).'
        )
    return ' '.join(lines)


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ''
    return f'{percent(100 * (low - 1))} to {percent(100 * (high - 1))}'


def _source(kind: str, source: str) -> str:
    return textwrap.shorten(f'{kind}: {source}'.strip(': '), 48)


def _distance(row: MetricVerdict) -> str:
    value, limit = quantity(row.value, None, row.unit), number(row.limit)
    return f'{percent(row.deviation)}  {row.check} {row.case} {row.metric}: {value}, limit {limit}'


def _wrap(line: str, indent: str = '') -> str:
    return textwrap.fill(
        line,
        SUMMARY_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent * 2,
        break_on_hyphens=False,
        break_long_words=False,  # a path can be copied
    )


def _word(comparison: Comparison) -> str:
    return 'FAILED:' if comparison.exit_code else 'OK:'


def _causes(comparison: Comparison, verdicts: Collection[str] = BAD) -> Iterator[str]:
    """A line for each cause of such a verdict; the metrics of a case that share their cause share the line."""
    groups: dict[tuple[str, ...], list[MetricVerdict]] = {}
    for row in comparison.verdicts:
        if row.verdict in verdicts:
            own = row.metric if row.verdict in ('regressed', 'warned') else ''
            group = (row.verdict, row.partition, row.stack, row.check, row.case, row.cause, own)
            groups.setdefault(group, []).append(row)
    for (verdict, partition, stack, check, case, cause, _), rows in groups.items():
        names = [row.metric for row in rows if row.metric != '*']
        metrics = f' {", ".join(names)}' if len(names) <= 3 else f' {count(len(names), "metric")}'
        yield f'{verdict}: {partition}/{stack} {check} {case}{metrics if names else ""}: {cause}'

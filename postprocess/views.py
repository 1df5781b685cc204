"""A comparison on the terminal, as Markdown, and as the short summary of a nightly run."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator

from postprocess.text import Column, count, number, percent, quantity, to_markdown, to_table
from postprocess.verdicts import coverage
from postprocess.verdicts.compare import BAD, Comparison, MetricVerdict

HOW_TO_RECORD = (
    'No metric of this session has a reference, so nothing was judged. If the machine is as it should be, record '
    'this session as the baseline: `plumbline record propose`, read what it prints, then `plumbline record accept`.'
)
SUMMARY_WIDTH = 80
FALSE_SHARE = 0.05  # of the flags that stand among all metrics of a session

_JUDGED = [
    Column('verdict', lambda row: row.verdict),
    Column('check', lambda row: row.check),
    Column('case', lambda row: row.case),
    Column('metric', lambda row: row.metric),
    Column('measured', lambda row: quantity(row.value, row.std, row.unit), number=True),
    Column('n', lambda row: str(row.n or ''), number=True),
    Column('expected', lambda row: quantity(row.expected, row.expected_std, row.unit), number=True),
    Column('limit', lambda row: number(row.limit), number=True),
    Column('deviation', lambda row: percent(row.deviation), number=True),
    Column('98 % interval', lambda row: _interval(row), number=True),
    Column('limit from', lambda row: row.limit_why),
    Column('source', lambda row: textwrap.shorten(f'{row.reference_kind}: {row.reference_source}'.strip(': '), 48)),
]
_PLACE = [Column('partition', lambda row: row.partition), Column('stack', lambda row: row.stack)]


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


def table(comparison: Comparison) -> str:
    """Every verdict, worst first, in a table for each partition and stack."""
    parts = []
    for partition, stack in sorted({(row.partition, row.stack) for row in comparison.verdicts}):
        rows = [row for row in comparison.verdicts if (row.partition, row.stack) == (partition, stack)]
        parts.append(f'partition {partition}, stack {stack}\n{to_table(rows, _JUDGED)}')
    return '\n'.join(parts)


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


def markdown(comparison: Comparison) -> str:
    """Verdict, problems, causes and the whole table as GitHub's Markdown."""
    lines = [f'**{_word(comparison)}** {headline(comparison)}', '', origin(comparison), '']
    lines += [f'- {problem}' for problem in comparison.problems]
    lines += [f'- {line}' for line in (*_causes(comparison), *_causes(comparison, ('warned',)))]
    if comparison.nothing_to_compare_with:
        lines += [HOW_TO_RECORD]
    else:
        lines += ['', guard(comparison)]
    return '\n'.join(lines).rstrip() + '\n\n' + to_markdown(comparison.verdicts, _PLACE + _JUDGED)


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


def _interval(row: MetricVerdict) -> str:
    if row.ratio_low is None:
        return ''
    return f'{percent(100 * (row.ratio_low - 1))} to {percent(100 * (row.ratio_high - 1))}'


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

# SPDX-License-Identifier: BSD-3-Clause
"""Tables of verdicts and of guarded series, and the summary of a session."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from postprocess.incidents.known import told_by
from postprocess.text import count, fixed, number, percent, quantity, wrapped
from postprocess.verdicts.verdict import BAD, Comparison, Verdict
from postprocess.views import incidents as views
from postprocess.views.series import QUANTITY, SERIES, in_percent, of_series
from postprocess.views.table import Column, TableRow, View, in_markdown

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.history.series import Course

SUMMARY_LINES = 25
_FIRST = 10  # most warnings that are shown
_BLOCKS = '▁▂▃▄▅▆▇'  # an odd number, so that values at the expected level share one character
_COURSE = 'history: medians of the sessions up to the later side; | begins a side'


@cache  # there are few different sources
def _source(kind: str, source: str) -> str:
    """Return the kind and source of a reference, shortened."""
    return textwrap.shorten(f'{kind}: {source}'.strip(': '), 48)


def _lost(loss: float | None, low: float | None, high: float | None, window: int) -> str:
    """Return a loss with its interval, and the number of sessions if there are several."""
    text = '' if loss is None or low is None or high is None else f'{loss:.1f} ({low:.1f} to {high:.1f}) %'
    return f'{text} in {window} sessions' if text and window > 1 else text


def _measured(value: float | None, std: float | None, unit: str, places: int | None) -> str:
    """Return a value with unit as text: with `places` decimals if given, else with significant digits."""
    if value is None or places is None:
        return quantity(value, std, unit)
    return f'{fixed(value, places, std)} {"" if unit == "1" else unit}'.rstrip()


def _sparkline(
    levels: Sequence[float | None] | None, marks: Collection[int], expected: float | None, limit: float | None
) -> str:
    """Return a block character for each level, by its height between lowest and highest, with a bar before each mark.

    The range includes the limit and its mirror image about the expected value, so that noise looks small.
    """
    if not levels:
        return ''
    shown = [level for level in levels if level is not None]
    shown += [limit, 2 * expected - limit] if expected is not None and limit is not None else []
    low, high = min(shown, default=0.0), max(shown, default=0.0)

    def drawn(level: float | None) -> str:
        """Return the character of a level."""
        return ' ' if level is None else _BLOCKS[round((level - low) / (high - low or 1) * (len(_BLOCKS) - 1))]

    return ''.join(f'{"|" if i in marks else ""}{drawn(level)}' for i, level in enumerate(levels))


#: The columns of a verdict, in the order of CSV, JSON and the page.
COMPARED = (
    Column('incident', 'incident', width=6, priority=1, link=('#i', '')),
    Column('verdict', 'verdict', lambda verdict: verdict.replace('_', ' '), width=9, priority=1),
    *QUANTITY,
    Column('value', 'measured', _measured, number=True, beside=('std', 'unit', 'places')),
    Column('std'),
    Column('n', 'n', lambda n: str(n or ''), number=True, priority=3),
    *map(Column, ('min', 'max', 'nodes')),
    Column('expected', 'expected', _measured, number=True, beside=('expected_std', 'unit', 'places')),
    *map(Column, ('expected_std', 'expected_n')),
    Column('limit', 'limit', lambda value, places: _measured(value, None, '', places), number=True, beside=('places',)),
    Column('limit_why', 'limit from', priority=3, on_page=False),
    Column('deviation', 'deviation', percent, number=True, priority=1, sort='-worse_by'),
    Column(
        'history', 'history', _sparkline, beside=('marks', 'expected', 'limit'), width=14, priority=1, on_page=False
    ),
    Column('ratio'),
    Column(
        'loss',
        'lost (95 % interval)',
        _lost,
        beside=('loss_low', 'loss_high', 'window'),
        width=14,
        priority=3,
        sort='-loss',
    ),
    *map(Column, ('loss_low', 'loss_high', 'window', 'gate', 'sd', 'df', 'p', 'q', 'detectable', 'cause')),
    Column('reference_kind', 'source', _source, beside=('reference_source',), priority=3, on_page=False),
    *map(Column, ('reference_source', 'epoch', 'session', 'case_id')),
)
_OF_VERDICT = (
    'verdict', 'value', 'expected', 'limit', 'deviation', 'worse_by', 'ratio', 'window', 'p', 'q', 'cause', 'session',
    'case_id',
)  # fmt: skip
_COVERAGE = (
    Column('standing', '', lambda name: name.replace('_', ' ')),
    *SERIES,
    Column('expected_n', 'n', number=True),
    Column('detectable', 'notices', lambda loss: percent(loss and -loss), number=True),
    Column('limit_why', 'limit from', lambda why, cause: why or cause, beside=('cause',)),
    *map(Column, ('reference_kind', 'reference_source', 'cause')),
)


def to_row(verdict: Verdict, places: int | None = None) -> TableRow:
    """Return a verdict as plain values by the keys of `COMPARED`; None for a number that does not exist.

    Numbers are in `unit`; `deviation`, losses and `detectable` in %. `places`: decimals of its numbers as text, so that
    numbers in a column can be compared.
    """
    reference, bound = verdict.reference, verdict.limits
    loss, low, high = (in_percent(of) for of in (verdict.loss, *(verdict.interval or (None, None))))
    return {
        **of_series(verdict.id, verdict.quantity),
        **vars(verdict.measured),
        **{name: getattr(verdict, name) for name in _OF_VERDICT},
        'places': places,
        'history': None,
        'marks': (),
        'nodes': list(verdict.nodes),
        'expected_std': reference.std if reference and verdict.expected is not None else None,
        'expected_n': reference and reference.n,
        'limit_why': bound.why if bound else '',
        'loss': loss,
        'loss_low': low,
        'loss_high': high,
        'gate': bound.gate if bound else '',
        'sd': bound and bound.sd,
        'df': bound and bound.df,
        'detectable': in_percent(bound.detectable if bound else None),
        'reference_kind': reference.kind if reference else '',
        'reference_source': reference.origin if reference else '',
        'epoch': reference.epoch if reference else '',
    }


def comparison(found: Comparison, digest: Digest | None = None, course: Course | None = None) -> View:
    """Return every verdict, the worst first, with the incidents before and the summary after them.

    `course`: the levels of the series in the sessions up to the later one of a comparison of two.
    """
    incidents = digest.known if digest else []
    incident = told_by(incidents)
    return View(
        COMPARED,
        [{'incident': incident(row.id, row.nodes), **to_row(row), **_beside(row, course)} for row in found.verdicts],
        before='\n'.join(views.first_lines(incidents, digest.when, 60, digest.results)) if digest else '',
        after=(f'{_COURSE}\n\n' if course else '') + summary(found, digest, alone=False),
        markdown=_findings(found, digest),
        name='verdicts',
        document={
            'site': found.session.site, 'session': found.session.session,
            'started': f'{found.session.started:%Y-%m-%dT%H:%M:%SZ}', 'mode': found.session.mode,
            'against': found.against and found.against.session, 'scope': found.scope,
            'exit_code': (digest or found).exit_code,
            'incidents': [views.to_row(one, digest.day, digest.results) for one in incidents] if digest else [],
            'counts': found.counts, 'problems': [*map(str, found.problems)], 'hints': found.hints,
            'retire': found.retire and f'plumbline {found.retire}',
            'common': [
                {'kind': common.kind, 'where': common.where, 'series': len(common.series), 'loss': 100 * common.loss,
                 'p': common.p}
                for common in found.common
            ],
            'left_out': found.left_out, 'undecided': found.undecided, 'busy': found.busy,
            'history': [[span[0].session, span[-1].session] for span in course.spans] if course else [],
            'again': [vars(again) | {'not_on': list(again.not_on)} for again in found.again],
        },
    )  # fmt: skip


def _beside(row: Verdict, course: Course | None) -> TableRow:
    """Return the levels of a series in the course, for the column `history`."""
    levels = course.levels.get((row.id, row.quantity)) if course else None
    if not course or not levels:
        return {}
    return {'history': [level and float(f'{level:.4g}') for level in levels], 'marks': course.marks}


def published(found: Comparison, digest: Digest) -> str:
    """Return what is wrong in a session in GitHub's Markdown, short enough for a comment."""
    view = comparison(found, digest)
    return replace(view, rows=[row for row in view.rows if row['verdict'] in (*BAD, 'warning')]).render('markdown')


def guarded(found: Comparison) -> View:
    """Return which series can fail, and the loss that each of them would notice; the least guarded first."""
    return View(
        _COVERAGE,
        [{'standing': row.standing, **to_row(row)} for row in found.guarded],
        after=found.coverage,
        name='metrics',
        document={'counts': found.standings},
    )


def summary(found: Comparison, digest: Digest | None = None, alone: bool = True, verdict_last: bool = False) -> str:
    """Return verdict, incidents and what is guarded, wrapped but for commands; at most 25 lines for a session.

    Without a `digest`, as for two compared sessions, every failure with its cause is shown in place of incidents. With
    `alone` False, the summary follows the incidents and the table, and ends with the verdict. A command sets
    `verdict_last`, so that the verdict is the last line; in a message the verdict is the first line.
    """
    verdict = wrapped(verdict_of(digest or found))
    known = digest.known if digest and alone else []
    rest = [row for row in found.verdicts if alone and not known and (digest or row.verdict not in BAD)]
    worst = [row for row in rest if row.deviation is not None and round(row.worse_by, 1) > 0]
    worst.sort(key=lambda row: row.worse_by, reverse=True)
    lines_after = []
    for title, lines in (
        ('Furthest on the bad side of their references', [_distance(row) for row in worst[: 4 if digest else 8]]),
        ('Problems of the session', [] if digest else [*map(str, found.problems)]),
        ('Losses in common', [] if digest else list(map(str, found.common))),
        ('Failures', [] if digest else list(_causes(found.verdicts))),
        ('Warnings', _warnings(found, digest, 2 if known else _FIRST)),
    ):
        if lines:
            lines_after += ['', title, *(wrapped(line, '  ', '    ') for line in lines)]
    lines_after += ['', *map(wrapped, _guard(found))]
    head = [verdict, wrapped(origin(found))]
    if known and digest:
        used = sum(part.count('\n') + 1 for part in (*head, *lines_after))
        room = max(SUMMARY_LINES - 1 - verdict_last - used, 5)
        head += ['', *views.first_lines(known, digest.when, room, digest.results)]
    parts = [*head[1:], *lines_after, '', verdict] if verdict_last or not alone else [*head, *lines_after]
    return '\n'.join(parts) + '\n'


def origin(found: Comparison) -> str:
    """Return which session was judged, and by which references."""
    if found.scope:
        return found.scope
    session = found.session
    mode = f', mode {session.mode}' if session.mode else ''
    mode += f', narrowed by {", ".join(session.narrowed_by)}' if session.narrowed_by else ''
    began = f'{session.started:%Y-%m-%d %H:%M} UTC{mode}'
    return f'{session.site}, session {session.session}, {began}, against the references of the site'


def _findings(found: Comparison, digest: Digest | None) -> str:
    """Return verdict, incidents and causes in GitHub's Markdown."""
    lines = [f'**{in_markdown(verdict_of(digest or found))}**', '']
    lines += [in_markdown(origin(found)), '']
    if digest:
        lines += views.markdown(digest.known, digest.when)
        causes: Iterable[str] = ()
    else:
        causes = (*map(str, (*found.problems, *found.common)), *_causes(found.verdicts))
    lines += [f'- {in_markdown(line)}' for line in (*causes, *_warnings(found, digest))]
    return '\n'.join([*lines, '', *_guard(found)])


def _guard(found: Comparison) -> list[str]:
    """Return what to do next if little was judged, and what is guarded."""
    return found.hints + ([] if found.nothing_to_compare_with else [f'Guarded: {found.guard}'])


def _warnings(found: Comparison, digest: Digest | None, most: int = _FIRST) -> list[str]:
    """Return the first warnings that belong to no incident."""
    known = {of for incident in digest.known for of in incident.incident.series} if digest else set()
    rows = [row for row in found.verdicts if row.id not in known]
    lines = list(_causes(rows, ('warning',)))
    return lines[:most] + ([f'and {len(lines) - most} more'] if len(lines) > most else [])


def _distance(row: Verdict) -> str:
    """Return how far a series is from its expected value, and its limit."""
    value, limit = quantity(row.value, None, row.quantity.unit), number(row.limit)
    return f'{percent(row.deviation)}  {row.id.what}: {value}, limit {limit}'


def verdict_of(found: Comparison | Digest) -> str:
    """Return the verdict in one line, such as ``FAILED: 1 incident open; 3 regressed``, or why a person should look."""
    doubts = getattr(found, 'beside_counts', []) if found.word == 'NEEDS A LOOK' else []
    return f'{found.word}: {"; ".join([*doubts, found.headline])}'


def _causes(rows: Iterable[Verdict], verdicts: Collection[str] = BAD) -> Iterator[str]:
    """Yield a line for each cause of the verdicts in `verdicts`; series of a case with the same cause share a line."""
    for alike in by_cause(rows, verdicts):
        names = [row.id.name for row in alike if row.id.metric != '*']
        metrics = f' {", ".join(names)}' if len(names) <= 3 else f' {count(len(names), "metric")}'
        yield f'{alike[0].verdict}: {alike[0].id.case}{metrics if names else ""}: {alike[0].cause}'


def by_cause(rows: Iterable[Verdict], verdicts: Collection[str]) -> list[list[Verdict]]:
    """Return the `rows` with one of the `verdicts`; series of a case with the same cause, and no loss, are together."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for row in rows:
        if row.verdict in verdicts:
            own = row.id if row.verdict in ('regressed', 'warning') else None
            groups.setdefault((row.verdict, row.id.case, row.cause, own), []).append(row)
    return [*groups.values()]


def with_others(name: str, n: int) -> str:
    """Return a name, and the number of other metrics if there are any."""
    return name if n == 1 else f'{name} and {count(n - 1, "other metric")}'

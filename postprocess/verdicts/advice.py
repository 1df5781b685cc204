# SPDX-License-Identifier: BSD-3-Clause
"""Say what to do next: where few series have references, checks have changed, or more sessions would narrow limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from plumbline.limits import PRIOR_DF, Tolerance, limits, spread_of
from plumbline.references import Reference
from postprocess.results.rows import CaseRow
from postprocess.text import count
from postprocess.verdicts.measured import failure, last_runs
from postprocess.verdicts.selection import command_of
from postprocess.verdicts.verdict import Comparison, Verdict

_NAMED = 5  # most places without a reference that a hint names
_FEWEST_BETTER = 3  # fewest better series for a hint
_CHANGES = (
    'kernel',
    'driver',
    'stack_lock',
    'library_libmpi',
    'library_libmpich',
)  # facts that may speed up all series
_LENGTHS = (3, 5, 10, 20, 30)  # numbers of sessions of a baseline that are tried
_NOTICEABLE = 0.75  # more sessions are advised if they lower the noticeable loss to this part of it


def with_advice(
    comparison: Comparison, cases: Sequence[CaseRow], recorded: Iterable[Reference], command: Callable[[str], str]
) -> Comparison:
    """Return a judged session with sentences on what to do next, and what to retire from its baseline.

    `recorded`: all rows of the references. `command`: makes a full command line of its argument.
    """
    series = comparison.series
    sentences = hints(series, cases, command, comparison.busy)
    sentences += changed_checks(series, cases, command) + improved(series, cases, command)
    n, retire = retiring(comparison.verdicts, cases, recorded)
    if retire:
        sentences.append(
            f'Nothing measured {count(n, "metric")} of the baseline, and no job of theirs failed. What is gone for '
            f'good: {command(retire)}.'
        )
    return replace(comparison, hints=sentences, retire=retire)


def hints(
    series: Sequence[Verdict], cases: Sequence[CaseRow], command: Callable[[str], str], busy: int = 0
) -> list[str]:
    """Return hints on what to do next if something could not be judged.

    `command`: makes a full command line of its argument. `busy`: how many cases ran on busy nodes.
    """
    measured = _measured(series)
    judged = sum(row.is_referenced for row in measured)
    ran = [case for case in last_runs(case for case in cases if not case.fixture) if case.result != 'skip']
    lost = sum(bool(failure(case)) for case in ran)
    but = f'{lost} of {count(len(ran), "case")} of this session failed or did not end'
    is_new = not any(row.is_referenced for row in series)
    if is_new and lost and (2 * lost >= len(ran) or not measured):  # a baseline cannot hold what was not measured
        again = f'repair them, measure again, then {command("record propose")}.'
        return [f'There is no baseline yet, and {but}: {again}']
    if measured and not judged and busy:
        return [
            f'{_not_judged(measured)}, and {count(busy, "case")} ran on busy nodes: measure again while they are '
            f'quiet, then {command("record propose")}.'
        ]
    if measured and not judged:
        return [
            f'{_not_judged(measured)}. If the machine is as it should be, record this session as the baseline: '
            f'{command("record propose")}, read what it prints, then {command("record accept")}.'
            + (f' {but} and will not be in it.' if lost else '')
        ]
    if few_judged(series):
        which = f'{judged} of {len(measured)} metrics'
        return [f'Only {which} have a reference: {command("record propose")} records the others.']
    if where := _unguarded(measured):
        return [f'No reference yet: {"; ".join(where)}. If they are as they should be: {command("record propose")}.']
    return []


def _not_judged(measured: Sequence[Verdict]) -> str:
    """Return what it means for these series that none has a reference of this machine."""
    others = [row for row in measured if row.standing == 'elsewhere']
    if not others:
        return 'No metric of this session has a reference, so nothing was judged'
    worse = sum(row.verdict == 'warning' for row in others)
    return (
        f'No metric of this session has a reference of this machine; of {count(len(measured), "metric")} '
        f'{len(others)} could be compared with the same hardware elsewhere, {worse or "none"} of them worse than '
        'expected'
    ) + (': look there first' if worse else '')


def few_judged(series: Sequence[Verdict]) -> bool:
    """Return True if at most half of the measured series have a reference."""
    measured = _measured(series)
    return bool(measured) and 2 * sum(row.is_referenced for row in measured) <= len(measured)


def _measured(series: Sequence[Verdict]) -> list[Verdict]:
    """Return the series with a value, without the informational ones."""
    return [row for row in series if row.value is not None and row.verdict != 'informational']


def _unguarded(measured: Sequence[Verdict]) -> list[str]:
    """Return the places (partition, environ or check) without any reference, each with its number of metrics.

    A check without a reference is counted at the widest place without one.
    """
    unguarded: dict[str, int] = {}
    known = {place for row in measured if row.is_referenced for place in _places(row)}
    for row in measured:
        if not row.is_referenced and (place := next((widest for widest in _places(row) if widest not in known), None)):
            unguarded[place] = unguarded.get(place, 0) + 1
    places = [f'{place} ({count(n, "metric")})' for place, n in unguarded.items()]
    return places if len(places) <= _NAMED else [*places[:_NAMED], f'and {len(places) - _NAMED} more']


def _places(row: Verdict) -> tuple[str, str, str]:
    """Return the partition, environ and check of a series in words, the widest place first."""
    id = row.id
    environ = f'environ {id.environ} of partition {id.partition}'
    return f'partition {id.partition}', environ, f'{id.check} with {environ}'


def retiring(verdicts: Sequence[Verdict], cases: Iterable[CaseRow], recorded: Iterable[Reference]) -> tuple[int, str]:
    """Return the number of baseline series that no job measured although none failed, and the command to retire them.

    `recorded`: all rows of the references. The command is from `command_of`; it is empty without such series.
    """
    failed = {case.id for case in cases if not case.fixture and failure(case)}
    gone = {
        row.id
        for row in verdicts
        if row.verdict == 'missing' and row.case_id is None and row.id.case not in failed
        if row.reference and row.reference.kind == 'baseline' and not row.reference.is_pattern
    }
    # a new name of what is gone is measured already, and will be recorded
    others = ({row.id for row in recorded if row.kind == 'baseline'} | {row.id for row in verdicts}) - gone
    return len(gone), command_of(gone, others) if gone else ''


def changed_checks(series: Sequence[Verdict], cases: Sequence[CaseRow], command: Callable[[str], str]) -> list[str]:
    """Return a sentence if the code of checks has changed since their baseline was recorded."""
    codes: dict[int | None, str | None] = {case.case_id: case.provenance.get('check_code') for case in cases}
    changed = set()
    for row in {row.case_id: row for row in series if row.is_referenced}.values():
        recorded = row.reference.facts.get('check_code') if row.reference else None
        measured_by = codes.get(row.case_id)
        if recorded and measured_by and measured_by not in recorded.split(' | '):
            changed.add(row.id.check)
    if not changed:
        return []
    which = f'the code of {", ".join(sorted(changed))}' if len(changed) < 6 else f'the code of {len(changed)} checks'
    return [
        f'Since the baseline was recorded, {which} has changed: see `git log checks/`. Where a number means something '
        f'else now, record it anew: {command("record propose --epoch NEW_CHECK")}.'
    ]


def improved(series: Sequence[Verdict], cases: Sequence[CaseRow], command: Callable[[str], str]) -> list[str]:
    """Return a sentence if most judged series are better than their references; it names what changed since then."""
    judged = [row for row in series if row.reference is not None and row.value is not None]
    better = [row for row in judged if row.verdict == 'improved']
    if len(better) < _FEWEST_BETTER or 2 * len(better) <= len(judged):
        return []
    now = {case.case_id: case.provenance for case in cases}
    changed: Counter[str] = Counter()
    for row in better:
        for name, before in row.reference.facts.items() if row.reference else ():
            after = now[row.case_id].get(name) if row.case_id in now else None
            if name in _CHANGES and before and after and after not in before.split(' | '):
                changed[f'{name} {before} -> {after}'] += 1
    since = [change for change, n in changed.items() if 2 * n > len(better)]
    return [
        f'{len(better)} of {count(len(judged), "metric")} are better than their references'
        f'{f" since {since[0]}" if since else ""}: if that is to stay, record it: '
        f'{command("record propose --epoch WHAT_CHANGED")}.'
    ]


def in_doubt(rows: Sequence[tuple[Reference, Tolerance]], command: str) -> str:
    """Return a sentence on rows that were recorded although their jobs were in doubt, as on busy nodes; empty without.

    `command`: the command that records other sessions.
    """
    doubtful = [row for row in rows if 'jobs' in row[0].facts.get('although', '').partition(': ')[0].split(',')]
    if not doubtful:
        return ''
    now = _noticed(doubtful, sessions_of([row for row, _ in doubtful]))
    only = (
        '' if now is None else f': half of them notice only losses above {100 * now:.0f} %, and what loses less passes'
    )
    which = f'{len(doubtful)} of {count(len(rows), "row")}'
    return f'{which} rest on jobs in doubt, such as those of busy nodes{only}. After a quiet night: {command}.'


def more_sessions(rows: Sequence[tuple[Reference, Tolerance]], command: str) -> str:
    """Return a sentence: the median noticeable loss, and how many more sessions would lower it; empty without rows.

    `command`: the command that records these sessions.
    """
    if not rows:
        return ''
    n, wanted = narrowing(rows)
    now = _noticed(rows, n)
    of = f'With a baseline of {count(n, "session")} half of the metrics notice a loss of '
    notice = '' if now is None else f'{of}{100 * now:.0f} %; '
    then = wanted and _noticed(rows, wanted)
    if wanted and then is not None and now is not None and then >= _NOTICEABLE * now:
        after = f'{"after" if notice else "After"} {count(wanted - n, "more session")}'
        return f'{notice}{after} it is known how much they vary here: then {command}.'
    if wanted and then is not None:
        is_it = 'it is' if notice else 'half of the metrics notice a loss of'
        more = f'after {count(wanted - n, "more session")} {is_it} {100 * then:.0f} %: then {command}.'
        return notice + more if notice else more.capitalize()
    return notice and f'{notice}more sessions would change little.'


def narrowing(rows: Sequence[tuple[Reference, Tolerance]]) -> tuple[int, int | None]:
    """Return (sessions in the baseline, sessions needed to notice losses a quarter smaller, or None).

    One or two sessions do not show how much metrics vary, so for them the answer is at least three sessions.
    """
    n = sessions_of([row for row, _ in rows])
    now = _noticed(rows, n)
    for length in (length for length in _LENGTHS if length > n):
        then = _noticed(rows, length)
        if then is not None and (now is None or then < _NOTICEABLE * now):
            return n, length
    return n, _LENGTHS[0] if n < _LENGTHS[0] else None


def sessions_of(rows: Sequence[Reference]) -> int:
    """Return the median number of sessions behind the rows of a baseline."""
    return round(median(row.n or 1 for row in rows))


def _noticed(rows: Sequence[tuple[Reference, Tolerance]], n: int) -> float | None:
    """Return the median noticeable loss if each row had at least `n` sessions; None if it is unknown."""
    losses = [limits(_of_sessions(row, tolerance, n), tolerance).detectable for row, tolerance in rows]
    known = [loss for loss in losses if loss is not None]
    return median(known) if known else None


def _of_sessions(row: Reference, tolerance: Tolerance, n: int) -> Reference:
    """Return the row as it would be with `n` sessions and the same spread."""
    if row.n is None or row.n >= n:
        return row
    spread, df = spread_of(row)
    if spread is None or df is None:
        spread, df = tolerance.usual_spread, PRIOR_DF
    return replace(row, n=n, spread=spread, df=df + n - row.n, spread_n=n)

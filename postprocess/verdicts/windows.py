"""Compare two sessions, or two spans of days: paired where the same nodes ran on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.limits import limits, tolerance_for
from plumbline.paths import SITES
from plumbline.record import Summary, summarize
from plumbline.references import Reference, References
from postprocess.results.store import Session, Store
from postprocess.verdicts.compare import judge, not_measured, session_problems, site_policy, with_chances
from postprocess.verdicts.measured import Measured, measured, measured_in
from postprocess.verdicts.stats import Shift, mean_of, shift_between
from postprocess.verdicts.verdict import Comparison, worst_first


def sessions_named(store: Store, name: str, site: str | None = None) -> list[Session]:
    """Return one session by the beginning of its uuid or ``latest``, or all that started in the days ``FROM..TO``.

    Days are UTC, both included. Raises InputError where there is no such session.
    """
    if '..' not in name:
        return [store.find(name, site)]
    try:
        first, last = map(date.fromisoformat, name.split('..'))
    except ValueError:
        raise InputError(f'{name}: expected two days such as 2026-11-01..2026-11-30') from None
    newest = store.find('latest', site)
    found = [one for one in store.sessions(newest.site) if first <= one.started.date() <= last]
    if not found:
        raise InputError(f'{store.folder}: no session started in the days {name}')
    return found


def compare_windows(
    store: Store, before: Sequence[Session], after: Sequence[Session], root: Path = SITES
) -> Comparison:
    """Judge how each series changed from the sessions `before` to those `after`.

    It regressed if the 98 % interval of the ratio lies wholly on the bad side of 1 and the loss is more than the floor
    of the site's policy; where the interval is wider than the cap, that is a warning. Raises InputError where the
    sessions are of several sites.
    """
    sites = sorted({session.site for session in (*before, *after)})
    if len(sites) > 1:
        raise InputError(f'the sessions are of several sites, {", ".join(sites)}: a comparison is of one')
    policy, newest = site_policy(sites[0], root), after[-1]
    old, new = _by_key(store, before), _by_key(store, after)
    source = f'session {", ".join(session.session[:8] for session in before)}'
    references = {key: _reference(good, source) for key, group in old.items() if (good := _usable(group))}
    cases = store.rows('cases', newest)
    latest = measured(cases, store.rows('metrics', newest))
    bad = {row.id: row for row in latest if row.status != 'measured'}  # of earlier sessions only good numbers count
    verdicts = []
    for key, group in new.items():
        rules, good = [], _usable(group)
        row = bad.get(key) or (good or group)[-1]
        if row.judged and key in references:
            reference, how = references[key], ''
            if good:
                shift = shift_between(_by_node(_usable(old[key])), _by_node(good))
                moved = replace(shift.after, mean=mean_of(shift.before) * shift.ratio)
                row = replace(row, jobs=(replace((row.measuring or row.jobs)[0], summary=moved),))
                reference, how = _with_error(reference, shift), f', {shift.how}'
            bound = limits(reference, tolerance_for(policy, key, **row.stated))
            rules = [(reference, replace(bound, why=bound.why + how))]
        verdicts.append(judge(row, rules, newest.session))
    rows = [row for group in new.values() for row in group]
    lookup = References(references.values())
    verdicts += not_measured(lookup, rows, cases, newest, policy)
    verdicts, false_flags = with_chances(verdicts)
    problems = session_problems(newest, cases, latest)
    scope = f'{newest.site}, {_named(after)}, against {_named(before)}'
    return Comparison(newest, before[-1], worst_first(verdicts), problems, false_flags, scope)


def _by_key(store: Store, sessions: Sequence[Session]) -> dict[SeriesId, list[Measured]]:
    found: dict[SeriesId, list[Measured]] = {}
    for session in sessions:
        for row in measured_in(store, session):
            found.setdefault(row.id, []).append(row)
    return found


def _usable(group: Sequence[Measured]) -> list[Measured]:
    return [row for row in group if row.status == 'measured' and row.judged and row.value > 0]


def _by_node(rows: Sequence[Measured]) -> dict[str, list[Summary]]:
    """Return what each set of nodes measured, a summary for each job."""
    found: dict[str, list[Summary]] = {}
    for row in rows:
        found.setdefault(','.join(sorted(row.nodes)), []).append(row.summary)
    return found


def _reference(rows: Sequence[Measured], source: str) -> Reference:
    first, summary = rows[0], summarize([row.value for row in rows])
    return Reference(
        id=first.id, quantity=first.quantity, mean=mean_of(summary), std=summary.std, n=summary.n,
        kind='session', source=source, mode=first.mode,
    )  # fmt: skip


def _with_error(reference: Reference, shift: Shift) -> Reference:
    """Return the reference whose limits follow from the standard error of the shift; n: jobs that are compared."""
    n = shift.before.n
    reference = replace(reference, mean=mean_of(shift.before), std=shift.before.std, n=n)
    if shift.error is None:
        return reference
    return replace(reference, spread=shift.error / math.sqrt(1 + 1 / n), df=shift.df)


def _named(sessions: Sequence[Session]) -> str:
    first, last = sessions[0], sessions[-1]
    if len(sessions) == 1:
        return f'session {first.session} of {first.started:%Y-%m-%d %H:%M} UTC'
    return f'{len(sessions)} sessions of {first.started:%Y-%m-%d} to {last.started:%Y-%m-%d}'

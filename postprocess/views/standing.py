"""Where a site stands, in a few lines."""

from __future__ import annotations

import re
import textwrap
from datetime import datetime

from postprocess.history.incidents.known import STATES
from postprocess.history.standing import Standing
from postprocess.text import count
from postprocess.verdicts import coverage
from postprocess.verdicts.advice import sessions_of
from postprocess.views.verdicts import SUMMARY_WIDTH

_INDENT = 11
_BLANK = '\0'  # of a command, which stays on one line, to be copied


def lines(found: Standing, now: datetime) -> str:
    """Return site, stacks, last session, baseline, incidents, coverage and next step; `now`: UTC, for ages."""
    wrapped = (
        textwrap.fill(
            re.sub('`.+?`', lambda command: command[0].replace(' ', _BLANK), text), SUMMARY_WIDTH,
            initial_indent=what.ljust(_INDENT), subsequent_indent=' ' * _INDENT, break_on_hyphens=False,
            break_long_words=False,
        )
        for what, text in _parts(found, now)
    )  # fmt: skip
    return '\n'.join(wrapped).replace(_BLANK, ' ')


def _parts(found: Standing, now: datetime) -> list[tuple[str, str]]:
    partitions = count(len(found.site.partitions), 'partition')
    parts = [('site', f'{found.site.name}: {textwrap.shorten(found.site.descr, 50)}; {partitions}')]
    if found.stacks:
        wrong = [f'{stack}: {fault}' for stack, fault in found.stacks.items() if fault]
        more = f', and {len(wrong) - 1} more' if len(wrong) > 1 else ''
        all_up = f'{count(len(found.stacks), "stack")} installed'
        parts.append(('stacks', f'{wrong[0]}{more}: `ci/provision --site {found.site.name}`' if wrong else all_up))
    if not found.last or not found.comparison:
        return [*parts, ('session', 'none yet'), ('next', found.next)]
    last, rows, day = found.last, found.baseline, f'{found.last.started:%Y-%m-%d}'
    of = f'{last.ran} of {count(last.expected or last.ran, "case")}'
    ago = _ago(last.started, now)
    mode = f' {last.mode},' if last.mode else ''
    parts.append(('session', f'{last.started:%Y-%m-%d %H:%M} UTC,{mode} {ago}: {of}; {found.sessions} in all'))
    parts.append(('verdicts', found.comparison.headline))
    newest = max((row.recorded_at for row in rows), default='')
    recorded = f', recorded {newest}, {_ago(datetime.fromisoformat(newest), now)}' if newest else ''
    sessions = count(sessions_of(rows), 'session') if rows else ''
    parts.append(('baseline', f'{count(len(rows), "row")} of {sessions}{recorded}' if rows else 'none'))
    states = [one.state(day) for one in found.known]
    counted = ', '.join(f'{states.count(state)} {state}' for state in STATES if state in states)
    parts.append(('incidents', counted or 'none'))
    parts.append(('coverage', coverage.guard(found.comparison).removeprefix('Guarded: ')))
    return [*parts, ('next', found.next)]


def _ago(then: datetime, now: datetime) -> str:
    days = (now.date() - then.date()).days
    return 'today' if days < 1 else f'{count(days, "day")} ago'

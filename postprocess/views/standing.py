"""Where a site stands, in a few lines."""

from __future__ import annotations

import re
import textwrap
from datetime import datetime

from postprocess.history.incidents import STATES
from postprocess.history.standing import Standing
from postprocess.text import count, wrapped
from postprocess.verdicts.advice import sessions_of

_BLANK = '\0'  # of a command, which stays on one line, to be copied


def lines(found: Standing, now: datetime) -> str:
    """Return site, stacks, last session, baseline, incidents, coverage and next step; `now`: UTC, for ages."""

    def part(what: str, text: str) -> str:
        text = re.sub('`.+?`', lambda command: command[0].replace(' ', _BLANK), text)
        return wrapped(text, f'{what:11}', ' ' * 11)

    return '\n'.join(part(*one) for one in _parts(found, now)).replace(_BLANK, ' ')


def _parts(found: Standing, now: datetime) -> list[tuple[str, str]]:
    partitions = count(len(found.site.partitions), 'partition')
    parts = [('site', f'{found.site.name}: {textwrap.shorten(found.site.descr, 50)}; {partitions}')]
    if found.stacks:
        wrong = [f'{stack}: {fault}' for stack, fault in found.stacks.items() if fault]
        more = f', and {len(wrong) - 1} more' if len(wrong) > 1 else ''
        all_up = f'{count(len(found.stacks), "stack")} installed'
        parts.append(('stacks', f'{wrong[0]}{more}: `ci/provision --site {found.site.name}`' if wrong else all_up))
    if not found.digest:
        return [*parts, ('session', 'none yet'), ('next', found.next)]
    comparison, rows = found.digest.comparison, found.baseline
    last = comparison.session
    of = f'{last.ran} of {count(last.expected or last.ran, "case")}'
    ago = _ago(last.started, now)
    mode = f' {last.mode},' if last.mode else ''
    parts.append(('session', f'{last.started:%Y-%m-%d %H:%M} UTC,{mode} {ago}: {of}; {found.sessions} in all'))
    parts.append(('verdicts', comparison.headline))
    newest = max((row.recorded_at for row in rows), default='')
    recorded = f', recorded {newest}, {_ago(datetime.fromisoformat(newest), now)}' if newest else ''
    sessions = count(sessions_of(rows), 'session') if rows else ''
    parts.append(('baseline', f'{count(len(rows), "row")} of {sessions}{recorded}' if rows else 'none'))
    counted = ', '.join(f'{len(known)} {state}' for state in STATES if (known := found.digest.of_state(state)))
    parts.append(('incidents', counted or 'none'))
    parts.append(('coverage', comparison.guard.removeprefix('Guarded: ')))
    return [*parts, ('next', found.next)]


def _ago(then: datetime, now: datetime) -> str:
    days = (now.date() - then.date()).days
    return 'today' if days < 1 else f'{count(days, "day")} ago'

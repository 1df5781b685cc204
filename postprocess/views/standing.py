# SPDX-License-Identifier: BSD-3-Clause
"""Where a site stands, in a few lines."""

from __future__ import annotations

import re
import textwrap
from datetime import datetime

from postprocess.history.kept import Standing
from postprocess.text import count, wrapped

_BLANK = '\0'  # stands for the blanks of a command, so that it stays on one line and can be copied


def lines(found: Standing, now: datetime, unfinished: str = '') -> str:
    """Return site, stacks, last session, baseline, incidents, coverage and next step as text; `now`: in UTC, for ages.

    `unfinished`: a sentence on a session that is running or was killed.
    """

    def part(what: str, text: str) -> str:
        """Return one part with its title, wrapped."""
        text = re.sub('`.+?`', lambda command: command[0].replace(' ', _BLANK), text)
        return wrapped(text, f'{what:11}', ' ' * 11)

    parts = _parts(found, now)
    if unfinished:  # if no session is stored yet, it replaces the advice to start one
        parts[-1:] = [('now', unfinished), *(parts[-1:] if found.sessions else [])]
    return '\n'.join(part(*titled) for titled in parts).replace(_BLANK, ' ')


def _parts(found: Standing, now: datetime) -> list[tuple[str, str]]:
    """Return (title, text) of each part."""
    partitions = count(found.partitions, 'partition')
    parts = [('site', f'{found.site}: {textwrap.shorten(found.description, 50)}; {partitions}')]
    if found.stacks:
        wrong = [f'{stack}: {fault}' for stack, fault in found.faults().items()]
        more = f', and {len(wrong) - 1} more' if len(wrong) > 1 else ''
        all_up = '' if wrong else f'{count(len(found.stacks), "stack")} installed; {found.linkage()}'
        parts.append(('stacks', f'{wrong[0]}{more}: `ci/provision --site {found.site}`' if wrong else all_up))
    if not found.sessions:
        return [*parts, ('session', 'none yet'), ('next', found.next)]
    mode = f' {found.mode},' if found.mode else ''
    ran = f'{found.ran} of {count(found.expected, "case")}; {count(found.sessions, "session")} so far'
    session = f'{found.started:%Y-%m-%d %H:%M} UTC,{mode} {ago(found.started, now)}: {ran}'
    day = found.recorded
    recorded = f', recorded {day}, {_days_ago(datetime.fromisoformat(day), now)}' if day else ''
    counted = ', '.join(f'{n} {state}' for state, n in found.incidents.items())
    return [
        *parts,
        ('session', session),
        ('verdicts', found.verdicts),
        ('baseline', f'{count(found.rows, "row")} of {count(found.of, "session")}{recorded}' if found.rows else 'none'),
        ('incidents', 'not known' if found.unknown else counted or 'none'),
        ('coverage', found.coverage),
        ('next', found.next),
    ]


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago a time was: ``18 min ago``, ``5 h ago``, ``3 days ago``; both in UTC."""
    minutes = int((now - then).total_seconds() // 60)
    if minutes < 60:
        return f'{minutes} min ago' if minutes > 0 else 'just now'
    return f'{minutes // 60} h ago' if minutes < 24 * 60 else _days_ago(then, now)


def _days_ago(then: datetime, now: datetime) -> str:
    """Return how long ago a day was, in words."""
    days = (now.date() - then.date()).days
    return 'today' if days < 1 else 'yesterday' if days == 1 else f'{days} days ago'

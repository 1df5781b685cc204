"""Say what became of an incident, and what to do next."""

from __future__ import annotations

import shlex

from postprocess.history.ledger import HEALTHY, Known
from postprocess.text import count


def since(known: Known, day: str) -> str:
    """Return since when an incident is known, and what became of it."""
    incident, noted, state = known.incident, known.acknowledged, known.state(day)
    lasts = f'in {count(known.sessions, "session")} since {incident.day}'
    parts = ['new in this session' if known.sessions == 1 and not known.healthy_for else lasts]
    if state == 'suspected':
        parts.append('suspected: it counts when it is seen again')
    if known.healthy_for and state != 'closed':
        last = 'session' if known.healthy_for == 1 else f'{known.healthy_for} sessions'
        parts.append(f'healthy in the last {last}; it is closed after {HEALTHY}')
    elif state != 'closed' and known.last_bad.day < day:
        parts.append(f'last seen on {known.last_bad.day}')
    if noted and state == 'acknowledged':
        parts.append(f'acknowledged until {noted.until}{f" by {noted.by}" if noted.by else ""}: {noted.why}')
    if noted and state == 'open':
        worse = known.worse()
        before = f'worse than acknowledged: {worse}' if worse else f'acknowledged until {noted.until}, which is over'
        parts.append(f'{before}; the reason was: {noted.why}')
    return '; '.join(parts)


def commands(known: Known, day: str) -> list[str]:
    """Return what to run next; where tonight is healthy, nothing has to be measured."""
    shown = [*(() if known.healthy_for else known.incident.next_steps), f'plumbline incidents show {known.id}']
    if known.state(day) in ('closed', 'acknowledged'):
        return shown
    return [*shown, f'plumbline incidents acknowledge {known.id} --why {shlex.quote("REASON")} --until DAY']

# SPDX-License-Identifier: BSD-3-Clause
"""Incidents in words: since when, which of several first, and the commands to run next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from plumbline.paths import is_elsewhere
from postprocess.incidents import FAILING
from postprocess.incidents.known import Known
from postprocess.results.store import Store
from postprocess.text import count

_BESIDE = 3  # most further incidents that a sentence names


def since(known: Known, when: str) -> str:
    """Return in words when an incident began and how it continued; `when`: a day, or the time of a session."""
    incident, state = known.incident, known.state(when)
    noted = known.acknowledged.note if known.acknowledged else None
    lasts = f'in {count(known.sessions, "session")} since {incident.day}'
    lasts = f'since {incident.day}; {known.course}' if known.course else lasts
    if known.is_new(when):
        found = 'found in this session; ' if not known.bad[1:] else ''
        lasts = 'new in this session' if known.sessions == 1 else f'new: {found}{lasts}'
    parts = [lasts]
    if known.before:
        parts.append(f'seen before: {", ".join(known.before[:_BESIDE])}')
    if state == 'suspected':
        parts.append('suspected: it counts when it is seen again')
    if state == 'healing':
        last = 'session' if known.healthy_for == 1 else f'{known.healthy_for} sessions'
        parts.append(f'healthy in the last {last}; it is closed after {known.closes_in} more')
    elif state != 'closed' and known.last_bad.started < when:
        parts.append(f'last seen on {known.last_bad.day}')
    if noted and state == 'acknowledged':
        parts.append(f'acknowledged until {noted.until}{f" by {noted.by}" if noted.by else ""}: {noted.why}')
    if noted and state in FAILING:
        worse = known.worse()
        before = f'worse than acknowledged: {worse}' if worse else f'acknowledged until {noted.until}, which is over'
        parts.append(f'{before}; the reason was: {noted.why}')
    return '; '.join(parts)


def lead(known: Sequence[Known], when: str) -> str:
    """Return the failing incidents in one sentence, the costliest first; empty if fewer than two are failing."""
    failing = [incident for incident in known if incident.state(when) in FAILING]
    if len(failing) < 2:
        return ''
    first, *others = (incident.incident for incident in failing)
    on = f' on {count(len(first.nodes), "node")}' if len(first.nodes) > 1 and not first.where.nodes else ''
    changed = f', with {first.changed[0]}' if first.changed else ''
    sentence = f'{first.where}: {first.what}{on}{changed}'
    beside = list(dict.fromkeys(incident.name for incident in others))[:_BESIDE]
    more = sum(incident.name not in beside for incident in others)
    return f'{sentence}; besides {", ".join(beside)}' + (f' and {count(more, "other incident")}' if more else '')


def commands(known: Known, when: str, results: Path) -> list[str]:
    """Return the commands to run next, for the ledger of `results`; no measurements if everything is healthy."""
    state = known.state(when)
    measure = () if state in ('healing', 'closed') else known.incident.next_steps
    steps = [*measure, f'plumbline incidents show {known.id}']
    if state in (*FAILING, 'suspected'):
        steps.append(f'plumbline incidents acknowledge {known.id} --why REASON --until DAY')
    return [with_options(command, results, known.incident.where.site) for command in steps]


@lru_cache
def _options(results: Path, site: str) -> str:
    """Return the options that a command on a site needs: none for the only site in the checkout's own results."""
    elsewhere = [f'--results {shlex.quote(str(results.absolute()))}'] if is_elsewhere(results) else []
    return ' '.join([*elsewhere, f'--site {shlex.quote(site)}'] if elsewhere or len(Store(results).sites()) > 1 else [])


def with_options(command: str, results: Path, site: str) -> str:
    """Return a command; if it is one of ours, with the options that find the results of a site."""
    options = _options(results, site)
    if not options or command.split()[0] not in ('plumbline', 'ci/nightly'):
        return command
    own, separator, of_reframe = command.partition(' -- ')
    return f'{own} {options}{separator}{of_reframe}'

# SPDX-License-Identifier: BSD-3-Clause
"""Tell others how a night ended: messages by apprise, and a text file for Prometheus."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from ci.outcome import Outcome
from plumbline import settings
from plumbline.checkout import pip_requirement
from plumbline.files import write_text
from postprocess.incidents import STATES


def take_addresses() -> list[str]:
    """Return the addresses to notify, as apprise writes them: ``mailto://``, ``slack://``, ``mmost://``, ``json://``.

    They come from ``$PLUMBLINE_NOTIFY``, separated by blanks, and the file that ``$PLUMBLINE_NOTIFY_FILE`` names, one a
    line. Addresses hold secrets, so both variables are removed from the environment before jobs and logs could see
    them.
    """
    text, path = settings.NOTIFY.get(), settings.NOTIFY_FILE.get()
    for setting in (settings.NOTIFY, settings.NOTIFY_FILE):
        os.environ.pop(setting.name, None)
    if path:
        try:
            text += ' ' + Path(path).read_text(encoding='utf-8')
        except OSError as error:
            print(f'plumbline: no message will be sent to its addresses: {path}: {error.strerror}', file=sys.stderr)
    return text.split()


def notify(addresses: list[str], summary: Path | None, since: float, outcome: Outcome | None = None) -> None:
    """Send the text of a file, if it was written after `since`, to each address.

    A failure is printed without the address. The title is that of `outcome`, if the session was judged.
    """
    if not addresses:
        return
    try:
        import apprise
    except ImportError:
        needed = f'pip install {shlex.join(pip_requirement("notify"))}'
        print(f'plumbline: no message was sent: {settings.NOTIFY.name} needs: {needed}', file=sys.stderr)
        return
    site = settings.SITE.get() or platform.node()
    body = f'ci/nightly on {platform.node()} ended with an error; its log has the cause'
    with suppress(OSError):
        if summary and summary.stat().st_mtime >= since:
            body = summary.read_text(encoding='utf-8')
    title = outcome.title if outcome else f'{site} is not as it was'
    for number, address in enumerate(addresses, start=1):
        messenger = apprise.Apprise()
        known = messenger.add(address)
        if not (known and messenger.notify(title=f'plumbline: {title}', body=body)):
            why = 'could not be reached' if known else 'is no address that apprise knows'
            print(f'plumbline: {settings.NOTIFY.name}: number {number} of {len(addresses)} {why}', file=sys.stderr)


def write_prometheus(path: Path, outcome: Outcome, code: int) -> None:
    """Write the outcome in Prometheus' text format; the file is complete or absent, as node_exporter needs."""
    labels = f'site="{outcome.site}",mode="{outcome.mode}"'
    states = Counter(incident['state'] for incident in outcome.incidents)
    lasting = [incident for incident in outcome.incidents if incident['state'] != 'closed']
    lines = [
        '# HELP plumbline_incidents Incidents of the site by state after the last session.',
        '# TYPE plumbline_incidents gauge',
        *(f'plumbline_incidents{{{labels},state="{state}"}} {states[state]}' for state in STATES),
        '# HELP plumbline_incident_sessions In how many sessions an incident that is not closed was seen.',
        '# TYPE plumbline_incident_sessions gauge',
        *(_incident('sessions', labels, incident, incident['sessions']) for incident in lasting),
        '# HELP plumbline_incident_loss Share of performance that an incident lost, where it is one of performance.',
        '# TYPE plumbline_incident_loss gauge',
        *(
            _incident('loss', labels, incident, incident['loss'] / 100)
            for incident in lasting
            if incident['loss'] is not None
        ),
        '# HELP plumbline_verdicts Metrics of the last session by verdict.',
        '# TYPE plumbline_verdicts gauge',
        *(f'plumbline_verdicts{{{labels},verdict="{name}"}} {n}' for name, n in outcome.counts.items()),
        '# HELP plumbline_problems What went wrong outside the metrics of the last session.',
        '# TYPE plumbline_problems gauge',
        f'plumbline_problems{{{labels}}} {len(outcome.problems)}',
        '# HELP plumbline_exit_code Exit code of the last session: 0 all ok.',
        '# TYPE plumbline_exit_code gauge',
        f'plumbline_exit_code{{{labels}}} {code}',
        '# HELP plumbline_last_run_seconds When the last session was judged, in seconds since 1970.',
        '# TYPE plumbline_last_run_seconds gauge',
        f'plumbline_last_run_seconds{{{labels}}} {time.time():.0f}',
    ]
    write_text(path, '\n'.join([*lines, '']))
    path.chmod(0o644)  # node_exporter is another user


def _incident(name: str, labels: str, incident: dict[str, Any], value: float) -> str:
    """Return the line of an incident; a label with a number of the session would begin a new series every night."""
    names = {name: incident[name] for name in ('id', 'state', 'kind', 'where', 'since')}
    names |= {name: ','.join(incident[name]) for name in ('checks', 'nodes')}
    text = ','.join(f'{name}="{_escaped(value)}"' for name, value in names.items())
    return f'plumbline_incident_{name}{{{labels},{text}}} {value:g}'


def _escaped(text: str) -> str:
    return text.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')

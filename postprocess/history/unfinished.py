# SPDX-License-Identifier: BSD-3-Clause
"""The session that runs now, or was ended early, from the files that `ci/nightly` keeps while it measures."""

from __future__ import annotations

import fcntl
import json
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple


class Unfinished(NamedTuple):
    """A session that is not stored yet: `ended` of the `expected` cases have ended; `started` in UTC.

    `runs`: it still runs.
    """

    started: datetime
    ended: int
    expected: int
    runs: bool

    def __str__(self) -> str:
        cases = f'{self.ended} of {self.expected} cases'
        began = f'{self.started:%Y-%m-%d %H:%M} UTC'
        if self.runs:
            return f'a session of {began} measures now; {cases} have ended'
        follows = 'the same command goes on with it, another `ci/nightly` stores it'
        return f'the session of {began} ended after {cases}: {follows}'


def unfinished(results: Path, site: str) -> Unfinished | None:
    """Return the session of `site` that began and was not stored; None without one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        session = json.loads((results / 'nightly-unfinished.json').read_text(encoding='utf-8'))
        if f'--system={site}' not in [word.partition(':')[0] for word in session['command']]:
            return None
        journal = results / 'logs' / f'{session["stamp"]}.journal'
        ended = journal.read_text(encoding='utf-8').count('\n') if journal.exists() else 0
        started = datetime.fromtimestamp(session['started'], timezone.utc).replace(tzinfo=None)
        return Unfinished(started, ended, session['expected'], _is_locked(results / 'nightly.lock'))
    return None


def _is_locked(path: Path) -> bool:
    """Return True if a command holds the lock of the results; the kernel releases the lock of a killed command."""
    with path.open(encoding='utf-8') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False

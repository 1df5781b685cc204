# SPDX-License-Identifier: BSD-3-Clause
"""Tell others how a night ended: messages by apprise, and a text file for Prometheus."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path

from ci.outcome import Outcome
from plumbline import settings
from plumbline.checkout import pip_requirement
from plumbline.errors import InputError
from plumbline.files import write_text


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


def writer_for_prometheus() -> Callable[..., str]:
    """Return the function that writes Prometheus' text format. Raises InputError if none is installed."""
    writers = [*entry_points(group='plumbline.outcomes', name='prometheus')]
    if not writers:
        raise InputError('--prometheus: no entry point prometheus of the group plumbline.outcomes is installed')
    writer: Callable[..., str] = writers[0].load()
    return writer


def write_prometheus(path: Path, outcome: Outcome, code: int) -> None:
    """Write the outcome in Prometheus' text format; the file is complete or absent, as node_exporter needs."""
    text = writer_for_prometheus()(
        outcome.site, outcome.mode, outcome.counts, len(outcome.problems), outcome.incidents, code
    )
    write_text(path, text)
    path.chmod(0o644)  # node_exporter is another user

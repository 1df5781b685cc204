"""Tells others how a night ended: messages by apprise, and a text file for Prometheus."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path

from ci.cleanup import SUMMARY
from plumbline.checkout import pip_requirement

ADDRESSES = 'PLUMBLINE_NOTIFY'
_SECRETS = (ADDRESSES, 'PLUMBLINE_NOTIFY_FILE')


def take_addresses() -> list[str]:
    """The addresses to tell, as apprise writes them: ``mailto://``, ``slack://``, ``mmost://``, ``json://``, ...

    From ``$PLUMBLINE_NOTIFY``, blanks between, or one a line from the file that ``$PLUMBLINE_NOTIFY_FILE`` names. They
    hold secrets: both variables leave the environment here, before jobs and logs could see it.
    """
    text, path = (os.environ.pop(name, '') for name in _SECRETS)
    if path:
        try:
            text += ' ' + Path(path).read_text(encoding='utf-8')
        except OSError as error:
            print(f'plumbline: nobody will be told: {path}: {error.strerror}', file=sys.stderr)
    return text.split()


def notify(addresses: list[str], results: Path, since: float):
    """Sends the summary, if there is one since then, to each address. What fails is said without the address."""
    if not addresses:
        return
    try:
        import apprise
    except ImportError:
        needed = f'pip install {shlex.join(pip_requirement("notify"))}'
        print(f'plumbline: nobody was told: {ADDRESSES} needs: {needed}', file=sys.stderr)
        return
    site = os.environ.get('PLUMBLINE_SITE', platform.node())
    body = f'ci/nightly on {platform.node()} ended with an error; its log says which'
    with suppress(OSError):
        if (results / SUMMARY).stat().st_mtime >= since:
            body = (results / SUMMARY).read_text(encoding='utf-8')
    for number, address in enumerate(addresses, start=1):
        one = apprise.Apprise()
        known = one.add(address)
        if not (known and one.notify(title=f'plumbline: {site} is not as it was', body=body)):
            why = 'could not be told' if known else 'is no address that apprise knows'
            print(f'plumbline: {ADDRESSES}: number {number} of {len(addresses)} {why}', file=sys.stderr)


def write_prometheus(path: Path, comparison: dict, code: int):
    """The outcome in Prometheus' text format; the file is there whole or not at all, as node_exporter wants it."""
    labels = f'site="{comparison["site"]}",mode="{comparison["mode"]}"'
    lines = [
        '# HELP plumbline_verdicts Metrics of the last session by verdict.',
        '# TYPE plumbline_verdicts gauge',
        *(f'plumbline_verdicts{{{labels},verdict="{name}"}} {n}' for name, n in comparison['counts'].items()),
        '# HELP plumbline_problems What went wrong outside the metrics of the last session.',
        '# TYPE plumbline_problems gauge',
        f'plumbline_problems{{{labels}}} {len(comparison["problems"])}',
        '# HELP plumbline_exit_code Exit code of the last session: 0 all ok.',
        '# TYPE plumbline_exit_code gauge',
        f'plumbline_exit_code{{{labels}}} {code}',
        '# HELP plumbline_last_run_seconds When the last session was judged, in seconds since 1970.',
        '# TYPE plumbline_last_run_seconds gauge',
        f'plumbline_last_run_seconds{{{labels}}} {time.time():.0f}',
    ]
    new = path.with_name(f'.{path.name}.{os.getpid()}')
    new.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    new.chmod(0o644)
    new.replace(path)

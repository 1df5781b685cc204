# SPDX-License-Identifier: BSD-3-Clause
"""Look up the meaning of error messages, signals, exit codes and job states in the table ``signatures.yaml``."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

from plumbline.causes import Code
from plumbline.files import read_yaml

_TABLE = Path(__file__).with_suffix('.yaml')


class Meaning(NamedTuple):
    """The meaning of a failure, its code and the usual remedy; `line`: the line of output that shows it, if any."""

    code: Code
    means: str
    remedy: str
    line: str = ''


@functools.cache
def table() -> dict[str, Any]:
    """Return the table by its sections."""
    return read_yaml(_TABLE)


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    return [(re.compile('|'.join(row['patterns']), re.IGNORECASE), row) for row in table()['printed']]


def of_text(text: str, environ: str) -> Meaning | None:
    """Return the meaning of the first row of the table that a line of `text` matches."""
    lines = text.splitlines()
    for pattern, row in _patterns():
        if line := next(filter(pattern.search, lines), None):
            return _meaning(row, environ, line.strip())
    return None


@functools.cache
def _deaths() -> re.Pattern[str]:
    return re.compile('|'.join(table()['died']))


def of_death(text: str) -> str:
    """Return the line by which bash reports a killed program, without line numbers; empty without one."""
    line = next(filter(_deaths().search, text.splitlines()), '') if text else ''  # the table takes a while to load
    return re.sub(r'^\S+: line \d+: +\d+ ', '', line).strip()


def of_signal(name: str) -> Meaning | None:
    """Return the meaning of a signal such as ``SIGSEGV``."""
    return _meaning(table()['signals'].get(name))


def of_exit_code(code: int | None, environ: str) -> Meaning | None:
    """Return the meaning of an exit code of a shell that stands for no signal."""
    return _meaning(table()['exit_codes'].get(code), environ)


def of_state(state: str, limit: str) -> Meaning:
    """Return the meaning of the state of a job; `limit`: its time limit in words."""
    known = table()['states'].get(
        state, {'code': 'exit-code', 'means': 'the job did not end well', 'remedy': 'see its output'}
    )
    return Meaning(known['code'], known['means'].replace('{limit}', limit), known['remedy'])


def _meaning(row: dict[str, Any] | None, environ: str = '', line: str = '') -> Meaning | None:
    if row is None:
        return None
    means, remedy = (row[name].replace('{environ}', environ) for name in ('means', 'remedy'))
    return Meaning(row['code'], means, remedy, line)

# SPDX-License-Identifier: BSD-3-Clause
"""End a command on a signal: print one line, exit with the code of the signal, leave nothing half-written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signalled(BaseException):
    """Report that a signal asked this process to end; not an Exception, so that only explicit handlers catch it."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as in shells

    def __str__(self) -> str:
        return 'interrupted' if self.args == ('SIGINT',) else f'ended by {self.args[0]}'


@contextmanager
def ending_signals() -> Iterator[None]:
    """Raise Signalled at SIGINT, SIGTERM and SIGHUP, also where a shell or nohup started this process without them."""
    before = {number: signal.signal(number, _raise) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ignored() -> Iterator[None]:
    """Ignore the signals while a program runs that handles them itself."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore() -> None:
    """Ignore the signals from now on: another process handles them, or this one is already ending."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _raise(number: int, _: object) -> None:
    raise Signalled(number)

# SPDX-License-Identifier: BSD-3-Clause
"""Run the steps after a measurement, such as judging a session, in a process beside the command.

A crash, also of a library, loses only the result of its step. The process loads its libraries once and stays for the
steps that follow; it ends before ReFrame measures, so that no memory is held meanwhile.
"""

from __future__ import annotations

import atexit
import functools
import gc
import multiprocessing
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, TypeVar

from plumbline.errors import InputError, SiteError
from plumbline.signals import ENDING, Signalled

_SPAWN = multiprocessing.get_context('spawn')  # a fork would copy locks that threads of this process hold
_Arguments = ParamSpec('_Arguments')
_Result = TypeVar('_Result')


class CrashError(RuntimeError):
    """Report that a step ended without a result; the message names the step and says how it ended."""


#: What a step raises.
FAULTS = (CrashError, InputError, SiteError, OSError)


def isolated(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function run in the process of the steps; it raises one of `FAULTS`."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            answer = _STEPS.run(call, args, kwargs)
        except Signalled:  # files are written completely or not at all
            _STEPS.kill()
            raise
        except EOFError:
            time.sleep(0.1)  # a signal to the process group also reaches this process
            code = _STEPS.end() or 0
            how = f'by {signal.Signals(-code).name}' if code < 0 else 'with the traceback above'
            raise CrashError(f'{function.__name__.strip("_")}: ended {how}') from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


class _Steps:
    """The process of the steps, from the first one until `end`; a step after that starts another."""

    _process: BaseProcess | None = None
    _connection: Connection

    def run(self, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the answer of a step. Raises EOFError if its process ended before, or while it answered."""
        if self._process is None or not self._process.is_alive():
            self._start()
        try:
            self._connection.send((step, args, kwargs))
            return self._connection.recv()
        except OSError:
            raise EOFError from None

    def _start(self) -> None:
        """Start a process in which signals stay blocked: Ctrl-C also reaches it, but the command handles it."""
        self.end()
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, self._connection), daemon=True)
        resource_tracker.ensure_running()  # `start` would start it, and it unblocks signals
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()

    def end(self) -> int | None:
        """Let the process end, if there is one; return its exit code."""
        if self._process is None or not self._process.pid:
            return None
        self._connection.close()
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        """End the process whatever it does."""
        if self._process and self._process.pid:
            self._process.kill()
        self.end()


_STEPS = _Steps()
atexit.register(_STEPS.end)  # before multiprocessing waits for its processes
end_steps = _STEPS.end


def _serve(connection: Connection, of_command: Connection) -> None:
    """Send the result of each step, or the error that it raised, until the command closes its side."""
    of_command.close()
    gc.disable()  # as for the command line: a step needs its objects to the end
    while True:
        try:
            step, args, kwargs = connection.recv()
        except (EOFError, ConnectionError):  # the command has ended the steps, or was killed
            return
        try:
            answer = step.__wrapped__(*args, **kwargs)
        except (InputError, SiteError, OSError) as error:
            answer = error
        with suppress(ConnectionError):
            connection.send(answer)

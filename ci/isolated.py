# SPDX-License-Identifier: BSD-3-Clause
"""Run the steps after a measurement, such as judging a session, each in a process of its own.

A crash, also of a library, loses only the result of its step, and no memory is held while ReFrame measures.
"""

from __future__ import annotations

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
    """Make a function run in another process; it raises one of `FAULTS`."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        ours, theirs = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_run, args=(theirs, call, args, kwargs), daemon=True)
        try:
            _start(process)
            theirs.close()
            answer = _received(ours)
        except Signalled:  # files are written completely or not at all
            if process.pid:
                process.kill()
            raise
        except EOFError:
            time.sleep(0.1)  # a signal to the process group also reaches this process
            process.join()
            code = process.exitcode or 0
            how = f'by {signal.Signals(-code).name}' if code < 0 else 'with the traceback above'
            raise CrashError(f'{function.__name__.strip("_")}: ended {how}') from None
        finally:
            if process.pid:
                process.join()
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


def _start(process: BaseProcess) -> None:
    """Start a process in which signals stay blocked: Ctrl-C also reaches it, but the command handles it."""
    resource_tracker.ensure_running()  # `start` would start it, and it unblocks signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _received(connection: Connection) -> Any:
    """Return the answer of a step. Raises EOFError if its process ended before, or while it answered."""
    try:
        return connection.recv()
    except OSError:
        raise EOFError from None


def _run(connection: Connection, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Send the result of a step, or the error that it raised."""
    gc.disable()  # as for the command line: a step needs its objects to the end
    try:
        answer = step.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
    except (InputError, SiteError, OSError) as error:
        answer = error
    with suppress(BrokenPipeError):  # the command was killed
        connection.send(answer)

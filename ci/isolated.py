# SPDX-License-Identifier: BSD-3-Clause
"""Run the steps after a measurement, such as judging a session, in another process than the command.

A crash, also of a library, loses only the result of its step. Steps that follow each other share a process, so the
libraries are loaded once; `let_go` ends it, so that its memory is free while ReFrame measures.
"""

from __future__ import annotations

import atexit
import functools
import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, TypeVar

from plumbline.errors import InputError, SiteError
from plumbline.signals import ENDING, Signalled, ignore

_SPAWN = multiprocessing.get_context('spawn')  # a fork would copy locks that threads of this process hold
_Arguments = ParamSpec('_Arguments')
_Result = TypeVar('_Result')


class CrashError(RuntimeError):
    """Report that a step ended without a result; the message names the step and says how it ended."""


#: What a step raises.
FAULTS = (CrashError, InputError, SiteError, OSError)


class _Worker:
    """A process that runs the steps which it is sent, with the environment of the time when it began."""

    def __init__(self) -> None:
        self.context = _context()
        self.connection, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        try:
            _start(self.process)
        except Signalled:
            if self.process.pid:
                self.process.kill()
                self.process.join()
            raise
        theirs.close()

    def answer(self, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a step, or the error that it raised. Raises EOFError if the process ended."""
        try:
            self.connection.send((step, args, kwargs))
            return self.connection.recv()
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None

    def end(self, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(None)
        self.connection.close()
        self.process.join()


_worker: _Worker | None = None


def isolated(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function run in another process; it raises one of `FAULTS`."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        worker = _running()
        try:
            answer = worker.answer(call, args, kwargs)
        except Signalled:  # files are written completely or not at all
            let_go(kill=True)
            raise
        except EOFError:
            time.sleep(0.1)  # a signal to the process group also reaches this process
            let_go()
            code = worker.process.exitcode or 0
            how = f'by {signal.Signals(-code).name}' if code < 0 else 'with the traceback above'
            raise CrashError(f'{function.__name__.strip("_")}: ended {how}') from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    return call


def let_go(kill: bool = False) -> None:
    """End the process of the steps, if there is one; `kill`: also in the middle of a step."""
    global _worker
    worker, _worker = _worker, None
    if worker and worker.context[0] == os.getpid():
        worker.end(kill)


atexit.register(let_go)  # before that of multiprocessing, which waits for the process


def _running() -> _Worker:
    """Return the process of the steps; a new one if there is none, or if it has another environment."""
    global _worker
    if not (_worker and _worker.context == _context() and _worker.process.is_alive()):
        let_go()
        _worker = _Worker()
    return _worker


def _context() -> tuple[int, str, dict[str, str]]:
    """Return what a process takes from the one that starts it; a fork has no part in the processes of its parent."""
    return os.getpid(), os.getcwd(), dict(os.environ)


def _start(process: BaseProcess) -> None:
    """Start a process with signals blocked: while it loads what `_serve` needs, it does not ignore them yet."""
    resource_tracker.ensure_running()  # `start` would start it, and it unblocks signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(connection: Connection) -> None:
    """Answer one step after the other, until the command ends."""
    ignore()  # Ctrl-C also reaches this process, but the command handles it
    gc.disable()  # as for the command line: a step needs its objects to the end
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while message := connection.recv():
            step, args, kwargs = message
            try:
                answer = step.__wrapped__(*args, **kwargs)
            except (InputError, SiteError, OSError) as error:
                answer = error
            connection.send(answer)
            gc.collect()

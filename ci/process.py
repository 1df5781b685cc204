# SPDX-License-Identifier: BSD-3-Clause
"""A running ReFrame: keep and follow its output, end it in time, find and end the processes that it started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ci.isolated import end_steps
from ci.progress import Progress, Seconds
from plumbline import settings
from plumbline.files import open_own
from plumbline.paths import ROOT
from plumbline.signals import ENDING

CLOCK_TOLERANCE = 60  # seconds by which the clock may be set during a run before it is reported
COLOUR = re.compile(r'\x1b\[[0-9;]*m')
# Faults that make a session look better than it is, although ReFrame only warns
_TROUBLE = re.compile(
    r'skipping test .*|skipping evaluation of performance variable.*|failed to \w+ .*(?:report|database|results).*'
    r'|.*No space left on device.*|run session stopped.*'
)


@dataclass
class Ended:
    """How a run of ReFrame ended.

    `code`: its exit code, or minus the number of the signal that killed it. `why`: why it was ended early, else empty.
    `told_to_end`: this process ended it, so no further run may follow. `by_signal`: the signal that this process got
    and ended it for; 0: none. `warnings`: sentences.
    """

    code: int = 0
    why: str = ''
    told_to_end: bool = False
    by_signal: int = 0
    warnings: list[str] = field(default_factory=list)


class Process:
    """Run a command and print its :class:`ci.progress.Progress`; its whole output goes to `log`.

    At `deadline`, a value of ``time.monotonic()``, on SIGTERM, SIGHUP and Ctrl-C the command is asked to end, which
    ReFrame does by cancelling its jobs and writing its report. If it has not ended after ``PLUMBLINE_GRACE`` seconds,
    or at a second Ctrl-C, it is killed. `results` marks the process and all that it starts, see :func:`owner_of`.
    """

    def __init__(
        self, command: Sequence[str], log: Path, results: Path, deadline: float, variables: Mapping[str, str],
        progress: Progress | None = None,
    ):  # fmt: skip
        self.command, self.log, self.results, self.deadline = command, log, results, deadline
        self.progress = progress or Progress(Seconds())
        self.environment = {**os.environ, settings.OWNER.name: owner_of(results), **variables}
        self._ended = Ended()
        self._process: subprocess.Popen[str] | None = None
        self._early: tuple[str, int] | None = None  # why, and by which signal, it is to end before it began

    def wait(self) -> Ended:
        """Run the command to its end."""
        end_steps()
        ended, offset = self._ended, _clock_offset()
        before = {number: signal.signal(number, self._told) for number in ENDING}
        with open_own(self.log, 'a') as log:
            self._process = subprocess.Popen(
                self.command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors='replace', bufsize=1, start_new_session=True,  # Ctrl-C reaches it once: from here
            )  # fmt: skip
            budget = _later(self.deadline - time.monotonic(), self.end, 'the time budget is used up')
            if self._early:
                self.end(*self._early)
            with self.progress:
                self._follow(log)
            ended.code = self._process.wait()
            budget.cancel()
            if not ended.told_to_end:  # a further signal must not prevent storing what was measured
                for number, handler in before.items():
                    signal.signal(number, handler)
            else:  # `why` is more precise than ReFrame, which reports each end as an interrupt by the user
                ended.warnings = [warning for warning in ended.warnings if 'run session stopped' not in warning]
        change = _clock_offset() - offset
        if abs(change) > CLOCK_TOLERANCE:
            direction = 'forward' if change > 0 else 'back'
            ended.warnings.append(
                f'the clock of this host was set {direction} by {abs(change):.0f} s during the session'
            )
        if ended.code < 0 and not ended.why:
            ended.why = f'ReFrame was ended by {signal.Signals(-ended.code).name}'
        if ended.why:
            end_processes(self.results)
        return ended

    def end(self, why: str, by_signal: int = 0) -> None:
        """Ask the process to end, and kill it if it has not ended after the grace period."""
        if self._process is None:
            self._early = why, by_signal
        if self._ended.why or self._process is None or self._process.poll() is not None:
            return
        self._ended.why, self._ended.told_to_end, self._ended.by_signal = why, True, by_signal
        if not by_signal and (waiting := self.progress.waits()):  # ask the queue before ReFrame cancels the jobs
            self._ended.why = f'{why}; jobs waited in the queue: {waiting}'
        self._process.send_signal(signal.SIGINT)
        grace = settings.GRACE.get()
        for seconds, number in ((grace / 2, signal.SIGTERM), (grace, signal.SIGKILL)):
            _later(seconds, self._send, number)

    def _told(self, number: int, _: object) -> None:
        if number != signal.SIGINT:
            self.end(f'told to end by {signal.Signals(number).name}', number)
        elif self._ended.why:
            self._send(signal.SIGKILL)
        else:
            print('plumbline: interrupted: ends the running cases and keeps what was measured', flush=True)
            self.end('interrupted by Ctrl-C', number)

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            if number == signal.SIGKILL:
                end_processes(self.results)  # a process that keeps the output open would block wait()

    def _follow(self, log: TextIO) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(OSError):  # a full disk must not end the run
                log.write(line)
            plain = COLOUR.sub('', line)
            self._ended.warnings += troubles([plain])
            self.progress.follow(plain)


def troubles(lines: Iterable[str]) -> list[str]:
    """Return a sentence for each different line of ReFrame's output that makes a session incomplete."""
    found = (f'ReFrame: {match[0].strip()}' for line in lines if (match := _TROUBLE.search(line)))
    return list(dict.fromkeys(found))


def owner_of(results: Path) -> str:
    """Return an id for runs with this results directory, unique among all runs of this user on this host.

    It is not the path, as two containers may have the same path.
    """
    boot, state = Path('/proc/sys/kernel/random/boot_id').read_text().strip(), results.stat()
    return f'{boot} {os.readlink("/proc/self/ns/pid")} {state.st_dev}.{state.st_ino}'


def end_processes(results: Path) -> int:
    """Kill the processes on this host that a run with these results started; return their number.

    The environment variable ``PLUMBLINE_OWNER`` distinguishes them from all other processes of this user.
    """
    pids = list(_processes_of(f'{settings.OWNER.name}={owner_of(results)}'.encode()))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def _processes_of(variable: bytes) -> Iterator[int]:
    for process in Path('/proc').glob('[0-9]*'):
        with suppress(OSError):  # ended meanwhile, or of another user
            if variable in (process / 'environ').read_bytes().split(b'\0'):
                yield int(process.name)


def _clock_offset() -> float:
    """Return the time of day minus the monotonic clock in seconds: constant until the clock is set."""
    return time.time() - time.monotonic()


def _later(seconds: float, call: Callable[..., Any], *arguments: Any) -> threading.Timer:
    timer = threading.Timer(max(0.0, seconds), call, arguments)
    timer.daemon = True
    timer.start()
    return timer

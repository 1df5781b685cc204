# SPDX-License-Identifier: BSD-3-Clause
"""Estimate how long a session takes, and show its progress.

The estimate for a case is the time of its last job, or the budget of its check if it never ran here. Nothing polls:
each line of ReFrame's output prints a line, and a minute without one prints a sign of life.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from plumbline.files import write_text
from plumbline.units import in_words
from postprocess.text import count

FILE = 'seconds-of-cases.json'  # below the results
HEARTBEAT = 60.0
BESIDES = 3.0  # seconds of ReFrame and the job besides the trials
_STARTED = re.compile(r'\[\s*RUN\s*\] (.*?) /(\w+) @(\S+)')
_FINISHED = re.compile(r'\[\s*(OK|FAIL|SKIP|ABORT|XFAIL|XPASS)\s*\] \(\s*(\d+)/(\d+)\) (.*?) /(\w+) @(\S+)')


def key(case: tuple[str, str]) -> str:
    """Return the key of a case: ReFrame's hash and the place where it runs."""
    return ' '.join(case)


@dataclass
class Seconds:
    """The seconds of cases. `took`: of their last jobs, by `key`. `budgets`: of their checks, by ReFrame's hash.

    `at_once`: how many jobs ran at the same time on average, in the last session.
    """

    took: dict[str, float] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    at_once: float = 1.0

    @classmethod
    def read(cls, results: Path) -> Seconds:
        """Return what :meth:`write` wrote; without any seconds if it cannot be read."""
        with suppress(OSError, ValueError, TypeError):
            return cls(**json.loads((results / FILE).read_text(encoding='utf-8')))
        return cls()

    def write(self, results: Path) -> None:
        """Write these seconds to a file below `results`, for the next session."""
        write_text(results / FILE, json.dumps(asdict(self)))

    def of(self, case: tuple[str, str]) -> float:
        """Return the seconds that a case should take; 0 where nothing is known."""
        return self.took.get(key(case), self.budgets.get(case[0], 0.0))

    def of_session(self, cases: Iterable[tuple[str, str]]) -> float:
        """Return the estimated seconds of a session of these cases."""
        return sum(map(self.of, cases)) / self.at_once

    def words_for(self, cases: Sequence[tuple[str, str]]) -> str:
        """Return the estimated time of a session and what it is estimated from; empty if nothing is known."""
        if not (seconds := self.of_session(cases)):
            return ''
        known = sum(key(case) in self.took for case in cases)
        by = 'their last jobs' if known == len(cases) else 'their last jobs or budgets' if known else 'their budgets'
        return f'about {in_words(seconds)} by {by}'

    def learn(self, cases: Mapping[tuple[str, str], float], elapsed: float) -> None:
        """Keep the seconds of the jobs of a session, and how many ran at once in its `elapsed` seconds."""
        self.took |= {key(case): round(seconds, 1) for case, seconds in cases.items()}
        if elapsed > 0 and len(cases) >= len(self.took) / 2:  # few cases do not show how many jobs run at the same time
            self.at_once = max(1.0, sum(cases.values()) / elapsed)


def budgets_in(lines: Iterable[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of each check by ReFrame's hash, and of the shortest check of each file.

    `lines`: as `checks/core/budget.py` writes them.
    """
    of_check: dict[str, float] = {}
    of_file: dict[str, float] = {}
    for name, text, path in (line.rstrip('\n').split(' ', 2) for line in lines):
        of_check[name] = seconds = BESIDES + float(text)
        of_file[path] = min(seconds, of_file.get(path, seconds))
    return of_check, of_file


class Progress:
    """Print a line for each case that ends, and a line each minute in which none ends, until this context is left.

    `waits`: returns in words why jobs wait in the queue. `at_once`: how many jobs of a partition without a queue run at
    the same time, by ``SYSTEM:PARTITION``. ReFrame says at once that all cases run, although most wait for others.
    `clock`: returns the seconds that go on.
    """

    def __init__(
        self, seconds: Seconds, heartbeat: float = HEARTBEAT, waits: Callable[[], str] = str,
        at_once: Mapping[str, int] | None = None, clock: Callable[[], float] = time.monotonic,
    ):  # fmt: skip
        self.seconds, self.heartbeat, self.started, self._now = seconds, heartbeat, clock(), clock
        self.waits, self._at_once = waits, at_once or {}
        # cases that have not ended, in ReFrame's order: name, and when they began; None if they wait for other cases
        self._waiting: dict[tuple[str, str], tuple[str, float | None]] = {}
        self._done, self._total, self._moved = 0, 0, self.started
        self._took = self._expected = 0.0  # seconds of the ended cases for which both are known
        self._spoke, self._ended = threading.Event(), False
        self._speaker = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Progress:
        self._speaker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._spoke.set()

    def follow(self, line: str) -> None:
        """Follow ReFrame by a line of its output, without colours."""
        if match := _STARTED.search(line):
            self._waiting[match[2], match[3]] = f'{match[1]} @{match[3]}', None
            self._begin(match[3])
            self._total = max(self._total, self._done + len(self._waiting))
        elif match := _FINISHED.search(line):
            result, done, total, name, code, place = match.groups()
            self._done, self._total, self._moved = int(done), int(total), self._now()
            _, began = self._waiting.pop((code, place), ('', None))
            self._begin(place)
            took = '' if began is None else f' in {in_words(self._moved - began)}'
            expected = self.seconds.of((code, place))
            if began is not None and expected:
                self._took, self._expected = self._took + self._moved - began, self._expected + expected
                took += f', expected {in_words(expected)}'
            self.say(f'{result:<5} {name} @{place}{took}', goes_on=result != 'ABORT')
            self._spoke.set()

    def _begin(self, place: str) -> None:
        """Note when the cases of a partition begin: as many as can run at the same time."""
        partition = place.partition('+')[0]
        here = [case for case in self._waiting if case[1].partition('+')[0] == partition]
        for case in here[: self._at_once.get(partition)]:
            name, began = self._waiting[case]
            self._waiting[case] = name, self._now() if began is None else began

    def say(self, what: str, goes_on: bool = True) -> None:
        """Print a line with the time that has passed and the cases that ended; `goes_on`: with what is left, too."""
        now = self._now()
        minutes, seconds = divmod(int(now - self.started), 60)
        to_go = self._left(now) if goes_on else 0.0
        about = f'; about {in_words(to_go)} left' if to_go > 0 else ''
        clock = f'{minutes // 60:02}:{minutes % 60:02}:{seconds:02}'
        print(f'  {clock} [{self._done}/{self._total}] {what}{about}', flush=True)

    def _left(self, now: float) -> float:
        """Return the estimated seconds to the end, if cases go on as slowly as those that ended."""
        waiting = list(self._waiting)
        # few seconds say little of all
        slowness = self._took / self._expected if self._expected > HEARTBEAT else 1.0
        first, others = (slowness * self.seconds.of_session(part) for part in (waiting[:1], waiting[1:]))
        return others + max(first - (now - self._moved), 0.0)

    def _beat(self) -> None:
        while not self._ended:
            if self._spoke.wait(self.heartbeat):
                self._spoke.clear()
            elif waiting := list(self._waiting):
                name, _ = self._waiting.get(waiting[0], ('', None))  # it may end at any time, also in `waits`
                why = self.waits()
                queue = f'; in the queue: {why}' if why else ''
                self.say(f'{count(len(waiting), "case")} to end, first {name}{queue}')
            else:
                self.say('ReFrame works')

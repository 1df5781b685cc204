"""One session of ReFrame: its files, its run within a time budget, and what it measured even when it was killed."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ci.slurm_nodes import cancel_jobs_below
from plumbline.paths import ROOT

SESSION_VARIABLE = 'PLUMBLINE_OWNER'  # in the environment of all that a run starts; its value names the results
STAGE = 'nightly-stage'  # below the results, a folder a session: what its failed cases left
UNFINISHED = 'nightly-unfinished.json'  # below the results, while a session runs
GRACE = float(os.environ.get('PLUMBLINE_GRACE', 90))  # seconds that ReFrame has to cancel its jobs and write its report
CLOCK_SET = 60  # seconds by which the clock may be set during a session without a word
# What ReFrame only warns of, and what would make a session look better than it is
_TROUBLE = re.compile(
    r'skipping test file.*|skipping evaluation of performance variable.*|failed to \w+ .*(?:report|database|results).*'
    r'|.*No space left on device.*|run session stopped.*'
)
_FINISHED = re.compile(r'\[\s*(OK|FAIL|SKIP|ABORT|XFAIL|XPASS)\s*\] \(\s*(\d+)/(\d+)\) (.*?) /\w+ @(\S+)')
_COLOUR = re.compile(r'\x1b\[[0-9;]*m')
_MEASURED = ('pass', 'xfail', 'xpass')

Case = tuple[str, str]  # ReFrame's hash of a case, and its system:partition+environment
Content = dict[str, Any]  # of a run report


@dataclass
class Session:
    """What is to be run, and the beginning of the names of its files. `mode` and `command` are the whole session's."""

    results: str
    stamp: str
    site: str
    mode: str
    command: list[str]
    expected: int
    started: float

    @classmethod
    def new(cls, results: Path, site: str, mode: str, command: list[str], expected: int) -> Session:
        # a session of this very second: of two in a row, or from before the clock was set back
        while any(results.glob(f'*/{(stamp := stamp_now())}*')):
            time.sleep(0.2)
        return cls(str(results), stamp, site, mode, command, expected, time.time())

    def file(self, folder: str, ending: str) -> Path:
        return Path(self.results, folder, self.stamp + ending)

    @property
    def report(self) -> Path:
        return self.file('reports', '.json')

    def part(self, ending: str) -> Path:
        """The run report of what is no session by itself."""
        return self.file('reports/parts', f'{ending}.json')

    @property
    def log(self) -> Path:
        return self.file('logs', '.log')

    @property
    def journal(self) -> Path:
        return self.file('logs', '.journal')

    def remember(self):
        """Until it is `forgotten`: the next run finds it, if this one is killed."""
        save(Path(self.results, UNFINISHED), asdict(self))

    def forget(self):
        Path(self.results, UNFINISHED).unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    @classmethod
    def remembered(cls, results: Path) -> Session | None:
        try:
            return cls(**json.loads((results / UNFINISHED).read_text(encoding='utf-8')))
        except (OSError, ValueError, TypeError):
            return None

    def options(self, ending: str = '') -> list[str]:
        """ReFrame's, that say where a part of this session leaves its files."""
        report = self.part(ending) if ending else self.report
        return ['-r', f'--report-file={report}', f'--stage={Path(self.results, STAGE, self.stamp + ending)}']

    def content(self) -> Content:
        """The run report, with the cases of the journal that it lacks; where ReFrame left none, of these alone."""
        try:
            content = json.loads(self.report.read_text(encoding='utf-8'))
        except (OSError, ValueError):
            content = self._without_report()
        content['session_info'] |= {'cmdline': shlex.join(self.command), 'time_start_unix': self.started}
        cases = content['runs'][0]['testcases']
        known = {identity(case) for case in cases if case['result'] != 'abort'}
        kept = [case for case in read_journal(self.journal) if identity(case) not in known]
        names = {identity(case) for case in kept}
        cases[:] = kept + [case for case in cases if identity(case) not in names]
        return content

    def _without_report(self) -> Content:
        ended = self.journal.stat().st_mtime if self.journal.exists() else self.started
        info = {
            'data_version': '4.2', 'uuid': str(uuid.uuid4()), 'hostname': platform.node(),
            'user': os.environ.get('USER'), 'version': version('reframe-hpc'), 'plumbline_mode': self.mode,
            'time_start_unix': self.started, 'time_end_unix': max(self.started, ended),
        }  # fmt: skip
        return {'session_info': info, 'runs': [{'run_index': 0, 'testcases': []}]}


def stamp_now() -> str:
    return datetime.now(timezone.utc).strftime('%Y%m%dT%H%M%SZ')


def save(path: Path, content: Any):
    """As JSON, whole or not at all: a full disk leaves what was there before."""
    new = path.with_name(f'.{path.name}.new')
    new.write_text(json.dumps(content), encoding='utf-8')
    new.replace(path)


def identity(case: dict[str, Any]) -> tuple[str, ...]:
    return tuple(case[key] for key in ('unique_name', 'display_name', 'system', 'partition', 'environ'))


def case_of(entry: dict[str, Any]) -> Case:
    return entry['hashcode'], f'{entry["system"]}:{entry["partition"]}+{entry["environ"]}'


def distributes(command: list[str]) -> bool:
    return any(word.startswith('--dist') for word in command)


def only(cases: Iterable[Case], command: list[str]) -> tuple[list[str], dict[str, str]]:
    """ReFrame's options that select these cases of a command, and variables that do so where it distributes: what it
    makes for each node it makes after it has selected. Their nodes need not be idle any more."""
    names = list(dict.fromkeys(name for name, _ in cases))
    if distributes(command):
        return ['--distribute=all'], {'PLUMBLINE_CASES': ' '.join(names)}
    return [f'-n/{name}' for name in names], {}


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The cases that ended, as a run report has them; the last line may be cut where the disk was full."""
    cases = {}
    with suppress(OSError):
        for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
            with suppress(ValueError, KeyError):
                case = json.loads(line)
                case['fixture'] = '~' in case['display_name']
                cases[identity(case)] = case
    return list(cases.values())


def failed(content: Content) -> list[dict[str, Any]]:
    """The cases that did not measure: not those that measured a value beyond its limit."""
    return [
        case
        for case in last_of_each(content)
        if not case['fixture'] and case['result'] not in _MEASURED and case.get('fail_phase') != 'performance'
    ]


def last_of_each(content: Content) -> Iterable[dict[str, Any]]:
    return {identity(case): case for run in content['runs'] for case in run['testcases']}.values()


def add_second_run(content: Content, again: Content, wanted: Iterable[Case]) -> list[str]:
    """Puts what cases gave when they ran again into the report, as ReFrame does with its own retries.

    Each keeps its first failure in its provenance. Returns a sentence for each that then passed.
    """
    first = {case_of(case): case for case in last_of_each(content) if not case['fixture']}
    wanted, said, cases = set(wanted), [], []
    for case in last_of_each(again):
        if case['fixture'] or case_of(case) not in wanted:
            continue
        before = first.get(case_of(case))
        if before is not None and isinstance(case.get('record'), dict) and case['record']:
            case['record'].setdefault('provenance', {})['first_failure'] = why_failed(before)
        if before is not None and case['result'] in _MEASURED:
            said.append(f'{case["display_name"]}: passed when it ran again; at first it {why_failed(before)}')
        cases.append(case | {'run_index': 1})
    content['runs'].append({'run_index': 1, 'testcases': cases})
    return said


def why_failed(case: dict[str, Any]) -> str:
    record = case.get('record') if isinstance(case.get('record'), dict) else {}
    nodes = ','.join((record or {}).get('job', {}).get('nodes') or case.get('job_nodelist') or [])
    reason = ' '.join(_COLOUR.sub('', str(case.get('fail_reason') or case['result'])).split())[:300]
    return f'failed{f" on {nodes}" if nodes else ""}: {reason}'


class Run:
    """ReFrame in the making of a session, until `deadline` (of `time.monotonic`)."""

    def __init__(self, command: list[str], session: Session, deadline: float, variables: dict[str, str]):
        self.command, self.session, self.deadline = command, session, deadline
        self.environment = os.environ | {SESSION_VARIABLE: session.results} | variables
        self.ended_by = ''  # why it did not come to its own end
        self.may_go_on = True  # whether what ended it was not meant for the whole run
        self.warnings: list[str] = []

    def wait(self) -> int:
        """ReFrame's exit code; prints a line of progress for each finished case."""
        ahead = clock_ahead()
        with self.session.log.open('a', encoding='utf-8') as kept:
            self.process = subprocess.Popen(
                self.command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors='replace', bufsize=1, start_new_session=True,  # a Ctrl-C is for us to pass on, once
            )  # fmt: skip
            budget = later(self.deadline - time.monotonic(), self.end, 'the time budget is used up')
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda number, _: self.end(f'told to end by {signal.Signals(number).name}'))
            try:
                self._follow(kept)
            except KeyboardInterrupt:
                self.end('interrupted')
                self._follow(kept)
            code = self.process.wait()
            budget.cancel()
        if abs(set_by := clock_ahead() - ahead) > CLOCK_SET:
            how = 'forward' if set_by > 0 else 'back'
            self.warnings.append(f'the clock of this host was set {how} by {abs(set_by):.0f} s during the session')
        if code < 0 and not self.ended_by:
            self.ended_by = f'ReFrame was ended by {signal.Signals(-code).name}'
        elif self.ended_by:
            self.may_go_on = False
        if self.ended_by:
            end_processes(self.session.results)
            if said := cancel_jobs_below(Path(self.session.results, STAGE)):
                print(f'plumbline: {said}', flush=True)
        return code

    def end(self, why: str):
        """Asks ReFrame to cancel its jobs and write its report; after a while ends it without."""
        if self.ended_by or self.process.poll() is not None:
            return
        self.ended_by = why
        self.process.send_signal(signal.SIGINT)
        for seconds, number in ((GRACE / 2, signal.SIGTERM), (GRACE, signal.SIGKILL)):
            later(seconds, self._end_now, number)

    def _end_now(self, number: int):
        if self.process.poll() is None:
            self.process.send_signal(number)
            if number == signal.SIGKILL:
                end_processes(self.session.results)

    def _follow(self, kept):
        began = time.monotonic()
        for line in self.process.stdout:
            with suppress(OSError):  # a full disk must not end the run
                kept.write(line)
            plain = _COLOUR.sub('', line)
            self.warnings += troubles([plain])
            if found := _FINISHED.search(plain):
                result, done, total, name, place = found.groups()
                elapsed = time.strftime('%H:%M:%S', time.gmtime(time.monotonic() - began))
                print(f'  {elapsed} [{done}/{total}] {result:<5} {name} @{place}', flush=True)


def clock_ahead() -> float:
    """Seconds from the clock that nobody can set to the time of day: always the same, until somebody sets that one."""
    return time.time() - time.monotonic()


def later(seconds: float, call: Callable, *arguments) -> threading.Timer:
    timer = threading.Timer(max(0.0, seconds), call, arguments)
    timer.daemon = True
    timer.start()
    return timer


def troubles(lines: Iterable[str]) -> list[str]:
    return [f'ReFrame: {found[0].strip()}' for line in lines if (found := _TROUBLE.search(line))]


def end_processes(results: Path | str) -> int:
    """Ends what a run with these results left running on this host; returns how many processes that were.

    The environment variable tells them from everything else of this user.
    """
    left = list(_processes_of(f'{SESSION_VARIABLE}={results}'.encode()))
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _processes_of(variable: bytes) -> Iterator[int]:
    for process in Path('/proc').glob('[0-9]*'):
        with suppress(OSError):  # ended meanwhile, or another user's
            if variable in (process / 'environ').read_bytes().split(b'\0'):
                yield int(process.name)

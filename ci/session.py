# SPDX-License-Identifier: BSD-3-Clause
"""One run of ReFrame: command line, files, time budget, resumption, and what it measured even when it was killed.

    selection = CaseSelection('mysite', 'nightly', ('-n', '^Osu'))
    cases, problems = selection.list_cases()
    session = PlannedSession.new(results, selection, len(cases))
    ended = session.run(time.monotonic() + 3600)
    content = session.content()

`content` is ReFrame's run report with the cases that it lacks because ReFrame was killed.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path

from ci.cases import MEASURED, Case, Content, Entry, add_runs, case_of, identity
from ci.process import COLOUR, Ended, Process, troubles
from ci.progress import Progress, Seconds, budgets_in
from ci.set_variables import refuse_unset
from ci.slurm_nodes import cancel_jobs_below, waiting_below
from plumbline import settings
from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.paths import ROOT
from plumbline.references import options_of_mode
from plumbline.results import STAGE
from plumbline.site.schedulers import scheduler
from plumbline.site.sites import Site, load_site, name_of_this_site
from postprocess.readers.cmdline import Chosen, read_cmdline

UNFINISHED = 'nightly-unfinished.json'  # below the results, while a session runs
RESUMABLE = 20 * 3600  # seconds after its start within which a killed session can be resumed
# A case, listed itself or as a dependency of another; fixtures have a ~
_LISTED = re.compile(r'^(\s*)[-^] ?([^~]*)/(\w+) @(\S+)$')
_CONCRETIZED = 'Concretized '
_CHECK = re.compile(r'^@(\w+\.)?simple_test\b', re.MULTILINE)
_GENERATORS = (('-P', '--par'), '--repe', '--dist')  # beginnings of options that generate tests from selected tests
_MOST_JOBS = 8  # at the same time, of a partition without ``max_jobs``: ReFrame's default


@dataclass(frozen=True)
class CaseSelection:
    """The cases that ReFrame is asked to run on a `system`, ``SITE`` or ``SITE:PARTITION``.

    `words`: further options of ReFrame. `narrowed_by`: what else leaves cases out on purpose, such as ``node_sweep``.
    `budgets`: hash of a check -> seconds of all its trials; `shortest`: file -> those of its shortest check. `needs`:
    case -> the cases that it depends on, which ReFrame runs in the same run. All are filled in when the cases are
    listed.
    """

    system: str
    mode: str
    words: tuple[str, ...] = ()
    narrowed_by: tuple[str, ...] = ()
    budgets: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    shortest: dict[str, float] = field(default_factory=dict, compare=False, repr=False)
    needs: dict[Case, set[Case]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def options(self) -> list[str]:
        """ReFrame's options that select the cases."""
        return [f'--system={self.system}', f'--mode={self.mode}', *self.words]

    @property
    def command(self) -> list[str]:
        """ReFrame's command line without its last part, which says what to do with the cases.

        With ``--mode``, ReFrame parses the command line twice and adds ``--prgenv`` to its default, all environs.
        """
        configuration = ROOT / 'reframe_settings/settings.py'
        files = sorted(self._checks[0], key=self._order)
        options = self.options
        if '--prgenv' in self._chosen.narrowed_by:
            options = [f'--system={self.system}', *options_of_mode(self.mode), *self.words]
        return ['reframe', '-C', str(configuration), '-R', *(f'-c{path}' for path in files), *options]

    @property
    def _chosen(self) -> Chosen:
        return read_cmdline(shlex.join(['reframe', *self.options]))

    @property
    def recorded(self) -> dict[str, str]:
        """What the run report says of the selection: JSON lists in ``session_info``, which `readers` reads."""
        chosen = self._chosen
        narrowed_by = [*chosen.narrowed_by, *self.narrowed_by]
        return {
            'plumbline_mode': self.mode, 'plumbline_selection': json.dumps(chosen.selection),
            'plumbline_narrowed_by': json.dumps(narrowed_by),
        }  # fmt: skip

    @property
    def distributes(self) -> bool:
        """True if ReFrame makes a case for each node."""
        return any(word.startswith('--dist') for word in self.words)

    def list_cases(self, variables: Mapping[str, str] | None = None) -> tuple[dict[Case, str], list[str]]:
        """Return the names of the cases without their fixtures, and a sentence for each check file that was left out.

        Raises InputError where ReFrame cannot list them, or an option ``-S`` sets nothing.
        """
        _, problems = self._checks
        with tempfile.NamedTemporaryFile('r', encoding='utf-8') as budgets:
            environment = {**os.environ, settings.BUDGETS.name: budgets.name, **(variables or {})}
            answer = subprocess.run(
                [*self.command, '-lC'], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            of_check, of_file = budgets_in(budgets)
        self.budgets.update(of_check)
        self.shortest.update(of_file)
        lines = [COLOUR.sub('', line) for line in (answer.stdout + answer.stderr).splitlines()]
        if any(line.startswith(_CONCRETIZED) for line in lines):
            refuse_unset(self.words, lines, bool(self._chosen.narrowed_by))
            matches = [match for line in lines if (match := _LISTED.match(line))]
            self.needs.update(_dependencies(matches))
            return {(match[3], match[4]): match[2].strip() for match in matches}, [*problems, *troubles(lines)]
        error = next((line for line in lines if 'ERROR' in line), lines[-1] if lines else 'no output')
        raise InputError(f'ReFrame cannot list the checks: {error.strip()}')

    def seconds(self, results: Path) -> Seconds:
        """Return the seconds of cases, with the budgets of the listed ones, which are kept in `results`."""
        known = Seconds.read(results)
        known.budgets |= self.budgets
        known.write(results)
        return known

    @cached_property
    def _checks(self) -> tuple[list[Path], list[str]]:
        """The files that hold checks, and a sentence for each that is not valid Python: ReFrame would stop there."""
        good, problems = [], []
        for path in sorted((ROOT / 'checks').rglob('*.py')):
            source = path.read_text(encoding='utf-8')
            try:
                compile(source, path, 'exec')
            except SyntaxError as error:
                problems.append(f'{path}:{error.lineno}: not valid Python, its checks were left out: {error.msg}')
                continue
            if _CHECK.search(source):
                good.append(path)
        return good, problems

    def _order(self, path: Path) -> tuple[bool, float, Path]:
        """Sort key of a file: ReFrame starts the cases of checks/node first, then by the shortest check of a file."""
        return path.parent.name != 'node', self.shortest.get(str(path), 0.0), path


@dataclass
class PlannedSession:
    """A session: what is to run, and where its files are.

    `recorded`, `distributes` and `needs`: as in its `CaseSelection`. `started`: seconds since 1970. `ended_by`: the
    signal that ended its last run, after which no other run begins; 0: none.
    """

    results: str
    stamp: str
    recorded: dict[str, str]
    distributes: bool
    command: list[str]
    expected: int
    started: float
    ended_by: int = 0
    needs: dict[Case, set[Case]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def new(cls, results: Path, selection: CaseSelection, expected: int, stamp: str = '') -> PlannedSession:
        """Return a session whose files do not exist yet. `stamp`: their name; by default from the present time."""
        # a session of this very second may exist: of two in a row, or from before the clock was set back
        stamp = stamp or _stamp_now()
        while any(results.glob(f'*/{stamp}*')) or any(results.glob(f'reports/parts/{stamp}*')):
            time.sleep(0.2)
            stamp = _stamp_now()
        return cls(
            str(results), stamp, selection.recorded, selection.distributes, selection.command, expected, time.time(),
            needs=selection.needs,
        )  # fmt: skip

    @classmethod
    def unfinished(cls, results: Path) -> PlannedSession | None:
        """Return the session that was killed before it was stored, if there is one."""
        try:
            return cls(**json.loads((results / UNFINISHED).read_text(encoding='utf-8')))
        except (OSError, ValueError, TypeError):
            return None

    def can_resume(self, selection: CaseSelection) -> bool:
        """Return True if the session had the same selection and began less than `RESUMABLE` seconds ago."""
        same = self.command == selection.command and all(
            self.recorded.get(key) == value for key, value in selection.recorded.items()
        )
        return same and 0 <= time.time() - self.started < RESUMABLE

    def remember(self) -> None:
        """Persist the session for :meth:`unfinished`; `needs` are listed again when it is resumed."""
        write_text(Path(self.results, UNFINISHED), json.dumps(asdict(replace(self, needs={}))))

    def forget(self) -> None:
        """Remove what :meth:`remember` wrote, and the journal."""
        Path(self.results, UNFINISHED).unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    @property
    def report(self) -> Path:
        """The path of the run report."""
        return self.part('')

    def part(self, ending: str) -> Path:
        """Return the run report of a part of the session, such as ``-retry``; without an ending, of the whole."""
        return Path(self.results, 'reports/parts' if ending else 'reports', f'{self.stamp}{ending}.json')

    def stage(self, ending: str = '') -> Path:
        """Return the stage directory of the session or of a part of it."""
        return Path(self.results, STAGE, self.stamp + ending)

    @property
    def log(self) -> Path:
        """The file with all that ReFrame printed."""
        return Path(self.results, 'logs', f'{self.stamp}.log')

    @property
    def journal(self) -> Path:
        """The file to which ReFrame writes a line for each case that has ended."""
        return Path(self.results, 'logs', f'{self.stamp}.journal')

    def run(
        self, deadline: float, cases: Mapping[Case, Sequence[str]] | None = None, part: str = '',
        variables: Mapping[str, str] | None = None, shell: Sequence[str] = (), times: int = 1,
        trials: Mapping[Case, int] | None = None,
    ) -> Ended:  # fmt: skip
        """Run ReFrame until it ends or `deadline`, a value of ``time.monotonic()``; not at all after a signal.

        `cases`: the only cases to run, each with options of the scheduler for its job, and beside them those that they
        depend on; None: all selected. `part`: ending of the names of a part of the session, which has a report of its
        own. `variables`: for the environment of ReFrame. `shell`: words before the command; they must end by executing
        it. `times`: how often each case runs. `trials`: number of trials of those of `cases` that do not run all.
        """
        if self.ended_by:
            return Ended(why='an earlier part was told to end', told_to_end=True, by_signal=self.ended_by)
        options = ['-r', f'--report-file={self.part(part)}', f'--stage={self.stage(part)}']
        options += [f'--reruns={times - 1}'] if times > 1 else []
        # all jobs of a session have the same sizes; where the command measured no load, the usual ones
        environment = {settings.BUSY.name: f'{settings.BUSY.get() or 0:g}'}
        if cases is not None:
            # For these nodes, also if they are no longer idle
            options += ['--distribute=all'] if self.distributes else []
            needed = {one: options for case, options in cases.items() for one in self.needs.get(case, ())}
            environment[settings.CASES.name] = str(self._write_cases({**needed, **cases}, part, trials or {}))
        if not part:
            environment[settings.JOURNAL.name] = str(self.journal)
        command = [*shell, *self.command, *options]
        results = Path(self.results)
        waits = partial(waiting_below, results / STAGE)
        at_once = _most_at_once(load_site(name_of_this_site()))
        progress = Progress(Seconds.read(results), waits=waits, at_once=at_once)
        ended = Process(command, self.log, results, deadline, {**environment, **(variables or {})}, progress).wait()
        self.ended_by = ended.by_signal
        if ended.why and (cancelled := cancel_jobs_below(results / STAGE)):
            print(f'plumbline: {cancelled}', flush=True)
        return ended

    def _write_cases(self, cases: Mapping[Case, Sequence[str]], part: str, trials: Mapping[Case, int]) -> Path:
        """Write the file that `checks/core/job/again.py` reads (no option of ReFrame selects such pairs); return it."""
        by_hash: dict[str, dict[str, list[str]]] = {}
        trials_by_hash: dict[str, dict[str, int]] = {}
        for (name, place), options in cases.items():
            by_hash.setdefault(name, {})[place] = list(options)
            if (name, place) in trials:
                trials_by_hash.setdefault(name, {})[place] = trials[name, place]
        generated = sum(any(word.startswith(kind) for word in self.command) for kind in _GENERATORS)
        path = self.log.with_name(f'{self.stamp}{part}.cases')
        write_text(path, json.dumps({'generated': generated, 'cases': by_hash, 'trials': trials_by_hash}))
        return path

    def remember_seconds(self, content: Content, elapsed: float) -> None:
        """Keep how long the jobs of the cases took, for estimates of later sessions."""
        seconds = Seconds.read(Path(self.results))
        first = [case for case in content['runs'][0]['testcases'] if not case['fixture']]
        measured = (case for case in first if case['result'] in MEASURED and case.get('time_run'))
        seconds.learn({case_of(case): case['time_run'] for case in measured}, elapsed)
        seconds.write(Path(self.results))

    def done(self) -> set[Case]:
        """Return the cases that have ended according to the journal."""
        return {case_of(entry) for entry in self._journal_entries() if not entry['fixture']}

    def content(self, part: str = '') -> Content:
        """Return the run report of the session, or of its `part`, with the cases that only the journal has.

        If there is no report, it has only the cases of the journal.
        """
        try:
            content = json.loads(self.part(part).read_text(encoding='utf-8'))
        except (OSError, ValueError):
            content = self._without_report()
        content['session_info'] |= {'time_start_unix': self.started, **self.recorded}
        cases = content['runs'][0]['testcases']
        known = {identity(case) for case in cases if case['result'] != 'abort'}
        added = [case for case in self._journal_entries() if identity(case) not in known]
        names = {identity(case) for case in added}
        cases[:] = added + [case for case in cases if identity(case) not in names]
        return content

    def write(self, content: Content) -> None:
        """Write the run report of the session."""
        write_text(self.report, json.dumps(content))

    def content_in_part(self) -> Content:
        """Return the run report of what a person ended: narrowed on purpose to the cases that came to their end.

        A second Ctrl-C makes ReFrame say of others that they failed.
        """
        content, done = self.content(), self.done()
        run, recorded = content['runs'][0], 'plumbline_narrowed_by'
        ended = (case for case in run['testcases'] if case['result'] != 'abort')
        run['testcases'] = [case for case in ended if case['fixture'] or case_of(case) in done]
        run['num_cases'] = len(run['testcases'])  # ReFrame's counts those that did not begin, too
        content['session_info'][recorded] = json.dumps([*json.loads(self.recorded[recorded]), 'ended by a person'])
        return content

    def _without_report(self) -> Content:
        ended = self.journal.stat().st_mtime if self.journal.exists() else self.started
        info = {
            'data_version': '4.2', 'uuid': str(uuid.uuid4()), 'hostname': platform.node(),
            'user': os.environ.get('USER'), 'version': version('reframe-hpc'), 'cmdline': shlex.join(self.command),
            'time_end_unix': max(self.started, ended),
        }  # fmt: skip
        return {'session_info': info, 'runs': [{'run_index': 0, 'testcases': []}]}

    def _journal_entries(self) -> list[Entry]:
        """Return the cases of the journal as in a run report; skip lines that are cut, as on a full disk."""
        cases = {}
        with suppress(OSError):
            for line in self.journal.read_text(encoding='utf-8', errors='replace').splitlines():
                with suppress(ValueError, KeyError):
                    case = json.loads(line)
                    case['fixture'] = '~' in case['display_name']
                    cases[identity(case)] = case
        return list(cases.values())

    def run_again(
        self, content: Content, wanted: Mapping[Case, Sequence[str]], deadline: float, part: str, times: int = 1,
        trials: Mapping[Case, int] | None = None, purpose: str = '',
    ) -> bool:  # fmt: skip
        """Run cases again `times` times and add each time to `content`. Return True if any ran.

        `purpose`: why the cases run again, see `postprocess.results.tables`. The cases that they depend on run again,
        too.
        """
        self.run(deadline, wanted, part, times=times, trials=trials)
        if not self.part(part).exists():
            return False
        needed = {one for case in wanted for one in self.needs.get(case, ())}
        add_runs(content, json.loads(self.part(part).read_text(encoding='utf-8')), wanted, purpose, needed)
        self.write(content)
        return True


def _dependencies(listed: Iterable[re.Match[str]]) -> dict[Case, set[Case]]:
    """Return which cases each case depends on, itself or through another one: ReFrame indents them below it."""
    needs: dict[Case, set[Case]] = {}
    above: list[tuple[int, Case]] = []
    for match in listed:
        indent, case = len(match[1]), (match[3], match[4])
        above = [one for one in above if one[0] < indent]
        for _, dependent in above:
            needs.setdefault(dependent, set()).add(case)
        above.append((indent, case))
    return needs


def _stamp_now() -> str:
    return datetime.now(timezone.utc).strftime('%Y%m%dT%H%M%SZ')


def runs_here(site: Site) -> bool:
    """Return True if all cases of a site run on this host."""
    return {partition.entry.get('scheduler') for partition in site.partitions.values()} == {'local'}


def _most_at_once(site: Site) -> dict[str, int]:
    """Return how many jobs of a partition without a queue run at the same time, by ``SITE:PARTITION``."""
    own = [partition for partition in site.partitions.values() if not scheduler(partition.entry['scheduler']).queued]
    return {f'{site.name}:{partition.name}': partition.entry.get('max_jobs', _MOST_JOBS) for partition in own}

# SPDX-License-Identifier: BSD-3-Clause
"""The main job: run the checks of a mode on this site, store, compare with the references, write the report.

`ci/nightly` sets up the Python environment and calls this. Exit code: 0 all ok, 1 a regression or anything missing,
failed or invalid, 2 usage or input error, 130 Ctrl-C. ReFrame's whole output is kept in ``<results>/logs``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ci import cleanup, command, no_case, notify, outcome, planned
from ci.cases import Case, Content, case_of, cases_in, cut_short, failed
from ci.command import duration
from ci.process import Ended, owner_of
from ci.rerun import complete, look_again, rerun
from ci.session import CaseSelection, PlannedSession, runs_here
from ci.slurm_nodes import Nodes
from plumbline import settings
from plumbline.files import open_own, write_text
from plumbline.node_check.jobs import Busy, warning
from plumbline.paths import ROOT
from plumbline.problems import Problem
from plumbline.references import MODES
from plumbline.signals import Signalled
from plumbline.site.sites import UNDESCRIBED, Site, load_site, read_site
from plumbline.units import in_words
from postprocess.text import count, one_line, some

INTERRUPTED = 128 + signal.SIGINT  # exit code after Ctrl-C, as in shells
_SHOWN = 5  # cases that are named
BUDGET = {'quick': '2h', 'nightly': '12h', 'acceptance': '7d'}  # of a mode, unless --duration is given


def main(words: list[str] | None = None) -> int:
    started, arguments = time.time(), parse(sys.argv[1:] if words is None else words)
    addresses = notify.take_addresses()
    silence = command.Silence()
    with silence if arguments.quiet else contextlib.nullcontext():
        night = NightlyRun(arguments)

        def work() -> int:
            night.clear_artifacts()  # first of all: an error may end this run later
            return command.run(arguments, night.run)

        code = command.exit_code_of(work, Path.cwd)
        silence.is_broken = code != 0 or night.needs_attention
        if silence.is_broken and code != INTERRUPTED:  # the person who ended it knows
            notify.notify(addresses, night.summary, started, night.outcome)
    quiet = arguments.quiet and not silence.is_broken
    for hint in night.outcome.hints if quiet and night.outcome else ():
        print(f'plumbline: {hint}')
    return code


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('nightly', __doc__)
    command.add_common_options(parser)
    usual = 'nightly, and quick on a machine without a site.yaml'
    parser.add_argument('--mode', choices=MODES, help=f'how much to run (default: {usual})')
    budgets = ', '.join(f'{mode} {budget}' for mode, budget in BUDGET.items())
    parser.add_argument(
        '--duration', type=duration, metavar='TIME', help=f'time budget, such as 8h or 1h30m (default: {budgets})'
    )
    parser.add_argument(
        '--minutes',
        type=float,
        metavar='N',
        help='run only the cases of the mode that find most in so many minutes: docs/plan.md',
    )
    parser.add_argument(
        '--nodes', type=command.positive, metavar='N', help='with --minutes: at a time (default: of the largest case)'
    )
    parser.add_argument(
        '--max-wait', type=duration, metavar='TIME', help='cancel a job that has waited so long for its nodes'
    )
    parser.add_argument('--no-retry', action='store_true', help='run no failed case and no case in doubt again')
    parser.add_argument(
        '--no-resume', action='store_true', help='do not resume a session that was killed or ended by Ctrl-C'
    )
    parser.add_argument(
        '--provision', choices=('before', 'after', 'never'),
        help='when to install the stacks (default: before, and after on a machine without a site.yaml)',
    )  # fmt: skip
    parser.add_argument(
        '--no-provision', action='store_const', const='never', dest='provision', help='the same as --provision never'
    )
    parser.add_argument('--strict', action='store_true', help='exit code 1 also while an incident heals')
    parser.add_argument('--keep-days', type=int, default=90, help='of logs and JUnit files (default: %(default)s)')
    parser.add_argument(
        '--evidence', type=float, default=20, metavar='GIB', help="to keep of benchmarks' output (default: %(default)s)"
    )
    parser.add_argument('--quiet', action='store_true', help='print nothing when all was judged and is ok')
    parser.add_argument(
        '--artifacts',
        type=command.folder,
        metavar='DIR',
        help='report.html, verdicts.md and verdicts.xml of this run; without a result there are none',
    )
    parser.add_argument(
        '--publish',
        type=command.folder,
        metavar='DIR',
        help='add the session to the site of `plumbline publish` in DIR',
    )
    parser.add_argument('--prometheus', type=Path, metavar='FILE', help="the outcome for node_exporter's textfile")
    given = parser.parse_args(words)
    if given.prometheus:
        notify.writer_for_prometheus()  # else it would be missed only after the night
    if given.minutes is not None and not 0 < given.minutes < math.inf:
        parser.error(f'argument --minutes: expected more than 0, found {given.minutes:g}')
    if given.nodes and given.minutes is None:
        parser.error('argument --nodes: needs --minutes')
    return given


class NightlyRun:
    """One nightly run. `needs_attention`: the history shows something new, even if all metrics are ok."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.needs_attention = False
        self.outcome: outcome.Outcome | None = None
        self.summary: Path | None = None  # the file of the summary, once its place is known
        self.problems: list[Problem] = []  # what went wrong outside the cases
        self._told_to_end = False

    def run(self, site: Site, results: Path) -> int:
        """Run the night and return its exit code; the caller holds the lock of the results directory."""
        # programs that are installed already give results within minutes; a stack may take Spack an hour
        when = self.arguments.provision or ('after' if site.name == UNDESCRIBED else 'before')
        if when != 'never':
            provision(results, *['--only-packages'] * (when == 'after'))
            read_site.cache_clear()
            site = load_site(site.name)
        self.site, self.results, self.summary = site, results, results / cleanup.SUMMARY
        mode = self.arguments.mode or ('quick' if site.name == UNDESCRIBED else 'nightly')
        self.deadline = time.monotonic() + (self.arguments.duration or duration(BUDGET[mode]))
        words = list(self.arguments.selection)
        if self.arguments.max_wait:
            words.append(f'-Smax_pending_time={self.arguments.max_wait}s')
        try:
            code = self._measure(CaseSelection(site.name, mode, tuple(words)))
        except Signalled as told:  # between two runs of ReFrame
            if told.exit_code == INTERRUPTED and (session := PlannedSession.unfinished(results)):
                session.ended_by = signal.SIGINT
                session.remember()
            raise
        if when == 'after' and not self._told_to_end:
            provision(results)
        if self.outcome:
            print(f'plumbline: next: {self.outcome.next}')
        cleanup.tidy(results, self.arguments.keep_days, self.arguments.evidence * 2**30)
        return code

    def _measure(self, selection: CaseSelection) -> int:
        busy = Busy()
        named, problems = selection.list_cases()
        if runs_here(self.site) and settings.BUSY.get() is None:  # one number for all jobs of the session
            os.environ[settings.BUSY.name] = f'{busy.cpus():.2f}'
        minutes, chosen = self.arguments.minutes, {}
        if minutes is not None and named:
            chosen = planned.choose(self.results, self.site.name, selection, named, minutes, self.arguments.nodes)
        if chosen:
            selection = replace(selection, narrowed_by=(f'{planned.NARROWED}={minutes:g}',))
        self.problems += map(Problem, problems)
        session, done = self._resumed(selection)
        chosen = (planned.recorded(session) if session else {}) or chosen
        cases = [case for case in named if not chosen or case in chosen]
        session = session or PlannedSession.new(self.results, selection, len(cases))
        planned.record(session, named, chosen)
        remaining = [case for case in cases if case not in done]
        expected = selection.seconds(self.results).words_for(remaining)
        of = f' of {len(named)} in {minutes:g} minutes' if chosen else ''
        words = [f'plumbline: site {self.site.name}, mode {selection.mode}: {count(len(cases), "case")}{of}', expected]
        print(*filter(None, words), sep=', ', flush=True)
        if done:
            print(f'plumbline: resumes the session of {session.stamp}: {len(cases) - len(remaining)} of them are done')
        if disturbed := warning(settings.BUSY.get() or 0.0):
            print(f'plumbline: {disturbed}')
        nodes = Nodes.now(self.site)
        for node in nodes.out:
            print(f'plumbline: left out: {node}')
            self.problems += node.problems()
        print(f'plumbline: all output of ReFrame: {session.log}', flush=True)

        session.remember()
        ended, began = Ended(), time.monotonic()
        if remaining or not done:
            ended = session.run(self.deadline, dict.fromkeys(remaining, ()) if done or chosen else None)
        if session.ended_by == signal.SIGINT:
            return self._ended_by_a_person(session, named, cases)
        self.problems += [warned for warned in map(Problem, ended.warnings) if warned not in self.problems]
        content, elapsed = session.content(), time.monotonic() - began
        if ended.why:
            self.problems.append(cut_short(content, ended.why, len(cases)))
        else:
            words = [f'plumbline: the cases took {in_words(elapsed)}', expected and f'expected {expected}']
            print(*filter(None, words), sep=', ', flush=True)
            session.remember_seconds(content, elapsed)
        if not content['runs'][0]['testcases']:
            session.forget()
            return self._nothing_ran(session, ended, selection if not cases else None)
        may_go_on = not self.arguments.no_retry and not ended.told_to_end
        if may_go_on and time.monotonic() < self.deadline:
            self._retry(session, content, cases)
        if not ended.told_to_end:
            self.problems += map(Problem, complete(session, content, self.site, self.deadline))
        if may_go_on and not session.ended_by:
            look_again(session, content, self.site, self.deadline, partial(self._first_verdict, session, content))
        if session.ended_by == signal.SIGINT:
            return self._ended_by_a_person(session, named, cases)
        self.problems += Nodes.now(self.site).problems_since(nodes)
        write_text(session.report, json.dumps(content))
        self._told_to_end = ended.told_to_end or bool(session.ended_by)
        return self._judge(session, content, not (self.arguments.no_retry or self._told_to_end))

    def clear_artifacts(self) -> None:
        """Remove artifacts of earlier runs, so that nobody takes them for results of this run."""
        if folder := self.arguments.artifacts:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ('report.html', 'verdicts.md', 'verdicts.xml'):
                (folder / name).unlink(missing_ok=True)

    def _resumed(self, selection: CaseSelection) -> tuple[PlannedSession | None, set[Case]]:
        """Return a killed session and its finished cases if it can be resumed; otherwise store it and return None."""
        killed = PlannedSession.unfinished(self.results)
        done = killed.done() if killed else set()
        if killed is None:
            return None, done
        by_a_person = killed.ended_by == signal.SIGINT
        if done and killed.can_resume(selection) and not self.arguments.no_resume:
            killed.ended_by = 0
            return killed, done
        if done and by_a_person:  # what a person left out is no fault
            write_text(killed.report, json.dumps(killed.content_in_part()))
            killed.expected = len(done)
            self._store(killed, [])
        elif done:
            write_text(killed.report, json.dumps(killed.content()))
            why = f'killed after {len(done)} of {killed.expected} cases, and the next session did not resume it'
            self._store(killed, [Problem(why)])
        elif all(case['result'] == 'abort' for case in cases_in(killed.content())):
            killed.report.unlink(missing_ok=True)  # of what was ended before its first case did, it says nothing
        killed.forget()
        return None, set()

    def _ended_by_a_person(self, session: PlannedSession, named: Mapping[Case, str], cases: Sequence[Case]) -> int:
        """Keep the session for the next run, and print what did not run; return the exit code of Ctrl-C."""
        session.remember()
        self._told_to_end, done = True, session.done()
        if left := [named[case] for case in cases if case not in done]:
            print(f'plumbline: not run to the end: {some(left, _SHOWN)}')
        ended = f'ended by you after {len(cases) - len(left)} of {count(len(cases), "case")}'
        print(f'plumbline: {ended}; `ci/nightly` goes on', flush=True)
        return INTERRUPTED

    def _store(self, session: PlannedSession, problems: list[Problem], silently: bool = False) -> None:
        for sentence in outcome.store(self.results, session.report, session.expected, problems, self.site.name):
            if not silently:
                print(f'plumbline: {sentence}', flush=True)

    def _nothing_ran(self, session: PlannedSession, ended: Ended, empty: CaseSelection | None) -> int:
        """Print why nothing was measured; return exit code 1. `empty`: the selection, if it holds no case."""
        for problem in self.problems:
            print(f'plumbline: {problem}', file=sys.stderr)
        self._name_absent_benchmarks()
        why = f'ReFrame ended with exit code {ended.code} and wrote no report'
        if empty:
            *lacks, why = no_case.reasons(empty, self.arguments.selection, self.site)
            for lack in lacks:
                print(f'plumbline: {lack}', file=sys.stderr)
        print(f'plumbline: {why}; all output of ReFrame: {session.log}', file=sys.stderr)
        return 1

    def _retry(self, session: PlannedSession, content: Content, cases: list[Case]) -> None:
        """Run cases again that failed before they measured, or that a killed ReFrame did not run."""
        known = {case_of(case) for case in cases_in(content)}
        lost = {case_of(case): case for case in failed(content)}
        wanted = [*lost, *(case for case in cases if case not in known)]
        if wanted:
            print(f'plumbline: runs {count(len(wanted), "failed case")} once more', flush=True)
            session.run_again(content, dict.fromkeys(wanted, ()), self.deadline, '-retry')
        for case in {*lost} - {case_of(case) for case in failed(content)}:
            why = (one_line(lost[case]['fail_reason']) or lost[case]['result'])[:200]
            print(f'plumbline: {lost[case]["display_name"]} passed when it ran again; before: {why}', flush=True)

    def _first_verdict(self, session: PlannedSession, content: Content) -> None:
        """Store what was measured so far and print the verdict on it, for the person who waits for the first one."""
        write_text(session.report, json.dumps(content))
        self._store(session, self.problems, silently=True)
        verdict = outcome.verdict_so_far(self.results, content['session_info']['uuid'])
        print(f'plumbline: first verdict: {verdict}', flush=True)

    def _judge(self, session: PlannedSession, content: Content, may_go_on: bool) -> int:
        """Store the session, confirm regressions, print and keep the verdict, look at nodes and history.

        Return the exit code of the verdict; 1 instead of 0 if page, nodes, history or publication failed.
        """
        uuid = content['session_info']['uuid']
        self._store(session, self.problems)
        session.forget()
        if may_go_on:
            again = partial(self._store, session, self.problems, silently=True)
            rerun(session, content, self.site, self.deadline, again)
        junit, folder = session.report.with_suffix('.xml'), self.arguments.artifacts
        strict = self.arguments.strict
        self.outcome = judged = outcome.outcome_of(self.results, uuid, junit, folder and folder / 'verdicts.md', strict)
        summary = self.results / cleanup.SUMMARY
        write_text(summary, judged.summary)
        print(judged.summary, end='', flush=True)
        looked = self._look_back(uuid, summary)
        if folder:
            shutil.copy(junit, folder / 'verdicts.xml')
            if looked:
                shutil.copy(self.results / 'report.html', folder)
        published = self._publish()
        code = judged.exit_code or int(not (looked and published))
        if session.ended_by == signal.SIGINT:
            self._told_to_end, code = True, INTERRUPTED
            print('plumbline: ended by you before the last further jobs', flush=True)
        if self.arguments.prometheus:
            notify.write_prometheus(self.arguments.prometheus, judged, code)
        self._name_absent_benchmarks()
        print(f'plumbline: report: {self.results / "report.html"}', flush=True)
        return code

    def _look_back(self, uuid: str, summary: Path) -> bool:
        """Write the page; print, and add to the summary, what the nodes and the history show.

        Return True if nothing of this failed.
        """
        look = outcome.look_back(self.results, uuid)
        with open_own(summary, 'a') as stream:
            stream.writelines(look.show())
        self.needs_attention = look.needs_attention
        return not look.faults

    def _publish(self) -> bool:
        """Call `plumbline publish`, if asked to; return False, after printing a sentence, if that failed."""
        if not self.arguments.publish:
            return True
        folder = Path(self.arguments.publish).absolute()
        answer = run_plumbline('publish', str(folder), f'--results={self.results}', f'--site={self.site.name}')
        for sentence in answer.stdout.splitlines():
            print(f'plumbline: published: {sentence}')
        if answer.returncode:
            why = one_line(answer.stderr.removeprefix('plumbline: '))
            print(f'plumbline: the session was not published: {why}', file=sys.stderr)
        return answer.returncode == 0

    def _name_absent_benchmarks(self) -> None:
        # With a selection, most benchmarks are not meant to run
        absent = {} if self.arguments.selection else self.site.absent()
        for benchmarks, reason in absent.items():
            print(f'plumbline: not run: {benchmarks}: {reason}')


def run_plumbline(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `plumbline`; return what it printed."""
    command = [sys.executable, '-m', 'plumbline', *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def provision(results: Path, *options: str) -> None:
    """Call `ci/provision` with `options` in a process that a later run can find if this one is killed.

    A stack that cannot be installed is named, and its cases fail in the run.
    """
    environment = os.environ | {settings.OWNER.name: owner_of(results)}
    subprocess.run([sys.executable, '-m', 'ci.provision', *options], cwd=ROOT, env=environment, check=False)


if __name__ == '__main__':
    sys.exit(main())

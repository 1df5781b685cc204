# SPDX-License-Identifier: BSD-3-Clause
"""The main job: run the checks of a mode on this site, store, compare with the references, write the report.

`ci/nightly` sets up the Python environment and calls this. Exit code: 0 all ok, 1 a regression or anything missing,
failed or invalid, 2 usage or input error, 130 Ctrl-C. ReFrame's whole output is kept in ``<results>/logs``.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from ci import cleanup, command, notify, outcome
from ci.command import duration
from ci.isolated import end_steps
from ci.measuring import INTERRUPTED, Measuring
from ci.process import owner_of
from ci.rerun import rerun
from ci.session import CaseSelection, PlannedSession
from plumbline import settings
from plumbline.errors import InputError
from plumbline.files import open_own, write_text
from plumbline.paths import ROOT
from plumbline.references import MODES
from plumbline.signals import Signalled
from plumbline.site.sites import UNDESCRIBED, Site, load_site, read_site
from postprocess.text import one_line

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
    parser.add_argument('--no-provision', action='store_true', help='install neither stacks nor Debian packages')
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
        if not given.prometheus.parent.is_dir() or given.prometheus.is_dir():
            parser.error(f'argument --prometheus: expected a file in a folder that exists, found {given.prometheus}')
    if given.minutes is not None and not 0 < given.minutes < math.inf:
        parser.error(f'argument --minutes: expected more than 0, found {given.minutes:g}')
    for option, number in (('--keep-days', given.keep_days), ('--evidence', given.evidence)):
        if not number >= 0:  # not a number, neither
            parser.error(f'argument {option}: expected 0 or more, found {number:g}')
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

    def run(self, site: Site, results: Path) -> int:
        """Run the night and return its exit code; the caller holds the lock of the results directory."""
        # programs that are installed already give results within minutes; a stack may take Spack an hour
        provisions, later = not self.arguments.no_provision, site.name == UNDESCRIBED
        if provisions:
            provision(results, *['--only-packages'] * later)
            read_site.cache_clear()
            site = load_site(site.name)
        self.site, self.results, self.summary = site, results, results / cleanup.SUMMARY
        mode = self.arguments.mode or ('quick' if site.name == UNDESCRIBED else 'nightly')
        self.deadline = time.monotonic() + (self.arguments.duration or duration(BUDGET[mode]))
        words = list(self.arguments.selection)
        if self.arguments.max_wait:
            words.append(f'-Smax_pending_time={self.arguments.max_wait}s')
        measuring = Measuring(site, self.arguments, results, self.deadline)
        try:
            code = measuring.run(CaseSelection(site.name, mode, tuple(words)))
            if code is None:
                code = self._judge(measuring)
        except Signalled as told:  # between two runs of ReFrame
            if told.exit_code == INTERRUPTED and (session := PlannedSession.unfinished(results)):
                session.ended_by = signal.SIGINT
                session.remember()
            raise
        if provisions and later and not measuring.told_to_end:
            provision(results)
        if self.outcome:
            print(f'plumbline: next: {self.outcome.next}')
        cleanup.tidy(results, self.arguments.keep_days, self.arguments.evidence * 2**30)
        return code

    def clear_artifacts(self) -> None:
        """Remove artifacts of earlier runs, so that nobody takes them for results of this run. Raises InputError."""
        if folder := self.arguments.artifacts:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f'--artifacts: {folder}: {error.strerror}') from None
            for name in ('report.html', 'verdicts.md', 'verdicts.xml'):
                (folder / name).unlink(missing_ok=True)

    def _judge(self, measuring: Measuring) -> int:
        """Store the session, confirm regressions, print and keep the verdict, look at nodes and history.

        Return the exit code of the verdict; 1 instead of 0 if page, nodes, history or publication failed.
        """
        session, uuid = measuring.session, measuring.content['session_info']['uuid']
        measuring.store()
        session.forget()
        if measuring.may_go_on:
            again = partial(measuring.store, silently=True)
            rerun(session, measuring.content, self.site, self.deadline, again)
        junit, folder = session.report.with_suffix('.xml'), self.arguments.artifacts
        strict = self.arguments.strict
        self.outcome = judged = outcome.outcome_of(self.results, uuid, junit, folder and folder / 'verdicts.md', strict)
        summary = self.results / cleanup.SUMMARY
        write_text(summary, judged.summary)
        print(judged.summary, end='', flush=True)
        look = outcome.look_back(self.results, uuid)
        with open_own(summary, 'a') as stream:
            stream.writelines(look.show())
        self.needs_attention = look.needs_attention
        if folder:
            shutil.copy(junit, folder / 'verdicts.xml')
            if not look.faults:
                shutil.copy(self.results / 'report.html', folder)
        published = self._publish()
        code = judged.exit_code or int(bool(look.faults) or not published)
        if session.ended_by == signal.SIGINT:
            measuring.told_to_end, code = True, INTERRUPTED
            print('plumbline: ended by you before the last further jobs', flush=True)
        if self.arguments.prometheus:
            notify.write_prometheus(self.arguments.prometheus, judged, code)
        measuring.name_absent_benchmarks()
        print(f'plumbline: report: {self.results / "report.html"}', flush=True)
        return code

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


def run_plumbline(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `plumbline`; return what it printed."""
    command = [sys.executable, '-m', 'plumbline', *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def provision(results: Path, *options: str) -> None:
    """Call `ci/provision` with `options` in a process that a later run can find if this one is killed.

    A stack that cannot be installed is named, and its cases fail in the run.
    """
    end_steps()  # a stack may take an hour
    environment = os.environ | {settings.OWNER.name: owner_of(results)}
    subprocess.run([sys.executable, '-m', 'ci.provision', *options], cwd=ROOT, env=environment, check=False)


if __name__ == '__main__':
    sys.exit(main())

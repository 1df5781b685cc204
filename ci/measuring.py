# SPDX-License-Identifier: BSD-3-Clause
"""What a night measures, before it is judged: one session, also of a night that was killed, and what runs again."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ci import no_case, planned, so_far
from ci.cases import Case, Content, case_of, cases_in, cut_short
from ci.process import Ended
from ci.rerun import complete, look_again, retry
from ci.session import CaseSelection, PlannedSession, runs_here
from ci.slurm_nodes import Nodes
from plumbline import settings
from plumbline.node_check.jobs import Busy, warning
from plumbline.problems import Problem
from plumbline.record import REST
from plumbline.site.sites import Site
from plumbline.units import in_words
from postprocess.text import count, some

INTERRUPTED = 128 + signal.SIGINT  # exit code after Ctrl-C, as in shells
_SHOWN = 5  # cases that are named


class Measuring:
    """The runs of ReFrame in a night until `deadline`, a value of ``time.monotonic()``.

    `session` and its `content` are what was measured. `problems`: what went wrong outside the cases. `told_to_end`:
    nothing may run any more.
    """

    session: PlannedSession
    content: Content

    def __init__(self, site: Site, arguments: argparse.Namespace, results: Path, deadline: float):
        self.site, self.arguments, self.results, self.deadline = site, arguments, results, deadline
        self.problems: list[Problem] = []
        self.told_to_end = False

    @property
    def may_go_on(self) -> bool:
        """True if cases in doubt may run again."""
        return not (self.arguments.no_retry or self.told_to_end)

    def run(self, selection: CaseSelection) -> int | None:
        """Run the selected cases; return None if there is something to judge, else the exit code."""
        busy = Busy()
        named, problems = selection.list_cases()
        if runs_here(self.site) and settings.BUSY.get() is None:  # one number for all jobs of the session
            os.environ[settings.BUSY.name] = f'{busy.cpus():.2f}'
        self.problems += map(Problem, problems)
        cases, done = self._begin(selection, named)
        remaining = [case for case in cases if case not in done]
        expected = selection.seconds(self.results).words_for(remaining)
        self._announce(selection.mode, len(named), cases, done, expected)
        nodes = Nodes.now(self.site)
        for node in nodes.out:
            print(f'plumbline: left out: {node}')
            self.problems += node.problems()
        print(f'plumbline: all output of ReFrame: {self.session.log}', flush=True)

        self.session.remember()
        ended, began = Ended(), time.monotonic()
        # a case that depends on one that is done needs it in its own run of ReFrame: both run after the others
        dependent = [case for case in remaining if done & self.session.needs.get(case, set())]
        first = [case for case in remaining if case not in dependent]
        if first or not done:
            chosen = dict.fromkeys(first, ()) if len(first) < len(named) else None
            ended = self.session.run(self.deadline, chosen)
        if self.session.ended_by == signal.SIGINT:
            return self._ended_by_a_person(named, cases)
        warned = map(Problem, dict.fromkeys(ended.warnings))
        self.problems += [problem for problem in warned if problem not in self.problems]
        self.content, elapsed = self.session.content(), time.monotonic() - began
        if ended.why:
            self.problems.append(cut_short(self.content, ended.why, len(cases)))
        else:
            words = [f'plumbline: the cases took {in_words(elapsed)}', expected and f'expected {expected}']
            print(*filter(None, words), sep=', ', flush=True)
            self.session.remember_seconds(self.content, elapsed)
        if not self.content['runs'][0]['testcases']:
            self.session.forget()
            return self._nothing_ran(ended, selection if not cases else None)
        self.told_to_end = ended.told_to_end
        if dependent and not self.told_to_end:
            rest = dict.fromkeys(dependent, ())
            self.session.run_again(self.content, rest, self.deadline, '-dependent', purpose=REST)
        self._run_again(cases)
        if self.session.ended_by == signal.SIGINT:
            return self._ended_by_a_person(named, cases)
        self.told_to_end = self.told_to_end or bool(self.session.ended_by)
        self.problems += Nodes.now(self.site).problems_since(nodes)
        return None

    def store(self, silently: bool = False) -> None:
        """Store what was measured so far."""
        self.session.write(self.content)
        self._store(self.session, self.problems, silently)

    def name_absent_benchmarks(self) -> None:
        """Print which benchmarks did not run, and why; with a selection, most are not meant to."""
        absent = {} if self.arguments.selection else self.site.absent()
        for benchmarks, reason in absent.items():
            print(f'plumbline: not run: {benchmarks}: {reason}')

    def _begin(self, selection: CaseSelection, named: Mapping[Case, str]) -> tuple[list[Case], set[Case]]:
        """Begin a session, or go on with one that was killed; return its cases, and those of them that have ended."""
        minutes, chosen = self.arguments.minutes, set[Case]()
        if minutes is not None and named:
            chosen = planned.choose(self.results, self.site.name, selection, named, minutes, self.arguments.nodes)
        if chosen:
            selection = replace(selection, narrowed_by=(f'{planned.NARROWED}={minutes:g}',))
        resumed, done = self._resumed(selection)
        chosen = (planned.recorded(resumed) if resumed else set()) or chosen
        cases = [case for case in named if not chosen or case in chosen]
        self.session = resumed or PlannedSession.new(self.results, selection, len(cases))
        planned.record(self.session, chosen)
        return cases, done

    def _announce(self, mode: str, listed: int, cases: Sequence[Case], done: set[Case], expected: str) -> None:
        of = f' of {listed} in {self.arguments.minutes:g} minutes' if planned.recorded(self.session) else ''
        words = [f'plumbline: site {self.site.name}, mode {mode}: {count(len(cases), "case")}{of}', expected]
        print(*filter(None, words), sep=', ', flush=True)
        if done:
            ended = len(done.intersection(cases))
            print(f'plumbline: resumes the session of {self.session.stamp}: {ended} of them are done')
        if disturbed := warning(settings.BUSY.get() or 0.0):
            print(f'plumbline: {disturbed}')

    def _resumed(self, selection: CaseSelection) -> tuple[PlannedSession | None, set[Case]]:
        """Return a killed session and its finished cases if it can be resumed; otherwise store it and return None."""
        killed = PlannedSession.unfinished(self.results)
        done = killed.done() if killed else set()
        if killed is None:
            return None, done
        by_a_person = killed.ended_by == signal.SIGINT
        if done and killed.can_resume(selection) and not self.arguments.no_resume:
            killed.ended_by, killed.needs = 0, selection.needs
            return killed, done
        if done and by_a_person:  # what a person left out is no fault
            killed.write(killed.content_in_part())
            killed.expected = len(done)
            self._store(killed, [])
        elif done:
            killed.write(killed.content())
            why = f'killed after {len(done)} of {killed.expected} cases, and the next session did not resume it'
            self._store(killed, [Problem(why)])
        elif all(case['result'] == 'abort' for case in cases_in(killed.content())):
            killed.report.unlink(missing_ok=True)  # of what was ended before its first case did, it says nothing
        killed.forget()
        return None, set()

    def _run_again(self, cases: Sequence[Case]) -> None:
        """Run what failed before it measured, trials that are left, and on a new machine what shows how it varies."""
        if self.told_to_end:
            return
        if self.may_go_on and time.monotonic() < self.deadline:
            retry(self.session, self.content, cases, self.deadline)
            if not self._unfinished(cases):
                for cut in [problem for problem in self.problems if problem.kind == 'cut short']:
                    self.problems.remove(cut)
                    print(f'plumbline: {cut.why}; the cases that were left have run to their end', flush=True)
        self.problems += map(Problem, complete(self.session, self.content, self.site, self.deadline))
        if self.may_go_on and not self.session.ended_by:
            look_again(self.session, self.content, self.site, self.deadline, self._first_verdict)

    def _unfinished(self, cases: Sequence[Case]) -> set[Case]:
        """Return the cases that have not come to their end."""
        return set(cases) - {case_of(entry) for entry in cases_in(self.content) if entry['result'] != 'abort'}

    def _first_verdict(self) -> None:
        """Store what was measured so far and print the verdict on it, for the person who waits for the first one."""
        self.store(silently=True)
        verdict = so_far.first_verdict(self.results, self.content['session_info']['uuid'])
        print(f'plumbline: first verdict: {verdict}', flush=True)

    def _ended_by_a_person(self, named: Mapping[Case, str], cases: Sequence[Case]) -> int:
        """Keep the session for the next run, and print what did not run; return the exit code of Ctrl-C."""
        self.session.remember()
        self.told_to_end, done = True, self.session.done()
        if left := [named[case] for case in cases if case not in done]:
            print(f'plumbline: not run to the end: {some(left, _SHOWN)}')
        ended = f'ended by you after {len(cases) - len(left)} of {count(len(cases), "case")}'
        print(f'plumbline: {ended}; the same command goes on', flush=True)
        return INTERRUPTED

    def _nothing_ran(self, ended: Ended, empty: CaseSelection | None) -> int:
        """Print why nothing was measured; return exit code 1. `empty`: the selection, if it holds no case."""
        for problem in self.problems:
            print(f'plumbline: {problem}', file=sys.stderr)
        self.name_absent_benchmarks()
        why = f'ReFrame ended with exit code {ended.code} and wrote no report'
        if empty:
            *lacks, why = no_case.reasons(empty, self.arguments.selection, self.site)
            for lack in lacks:
                print(f'plumbline: {lack}', file=sys.stderr)
        print(f'plumbline: {why}; all output of ReFrame: {self.session.log}', file=sys.stderr)
        return 1

    def _store(self, session: PlannedSession, problems: list[Problem], silently: bool = False) -> None:
        sentences = so_far.store(self.results, session.report, session.expected, problems, self.site.name)
        for sentence in sentences if not silently else ():
            print(f'plumbline: {sentence}', flush=True)

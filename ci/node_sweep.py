# SPDX-License-Identifier: BSD-3-Clause
"""Run the checks on every free node of a Slurm partition by itself, on all nodes at the same time.

One allocation holds at most ``--max-nodes`` nodes for at most ``--time-limit``; the next one holds the nodes that are
left. The result is one session with a case for each node, as with ``--distribute``; ``plumbline fleet`` finds the nodes
that stand out. A node sweep that was killed is resumed. Exit code: 0 all ok, 1 anything that is not, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ci import command, outcome, so_far
from ci.cases import Case, Content, cases_in
from ci.command import duration, positive
from ci.session import CaseSelection, PlannedSession
from ci.slurm_nodes import (
    ask,
    cancel_jobs_below,
    free_nodes,
    hold,
    nodes_of,
    nodes_out,
    reservation_of,
    slurm_partitions,
)
from ci.sweep import PART, STATE, Allocation, Sweep, part_ended, too_many_pairs
from plumbline import settings
from plumbline.errors import InputError, expected_one_of
from plumbline.files import write_text
from plumbline.problems import Problem
from plumbline.references import MODES
from plumbline.signals import Signalled
from plumbline.site.sites import Partition, Site
from postprocess.text import count, named

NODES = 'node-sweep-nodes'  # below the results: the nodes of an allocation, one a line, for ReFrame and for Slurm
MARGIN = 60  # seconds at the end of an allocation for ending what runs
READING = 1800  # seconds after the allocation in which ReFrame may read the files of the nodes


def main() -> int:
    arguments = parse(sys.argv[1:])
    return command.run(arguments, lambda site, results: NodeSweep(site, arguments, results).run())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that measure nodes of one partition."""
    command.add_common_options(parser)
    parser.add_argument('--partition', help="the site's name of it (default: its only Slurm partition)")
    parser.add_argument('--mode', choices=MODES, default='quick', help='whose checks and trials (default: %(default)s)')


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('node-sweep', __doc__)
    add_options(parser)
    parser.add_argument('--max-nodes', type=positive, metavar='N', help='hold no more nodes than these at a time')
    parser.add_argument(
        '--time-limit', type=duration, default='1h', metavar='TIME', help='hold them no longer (default: %(default)s)'
    )
    parser.add_argument(
        '--rounds', type=positive, metavar='N', help='of cases on two nodes: a sample of the pairs, N for each node'
    )
    parser.add_argument('--anew', action='store_true', help='start from the first node where a node sweep was killed')
    return parser.parse_args(words)


def partition_of(site: Site, name: str | None) -> Partition:
    """Return the Slurm partition of this name, or the only one. Raises InputError."""
    known = {partition.name: partition for partition in slurm_partitions(site)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        if not known:
            raise InputError(f'--partition: site {site.name} has no partition with scheduler slurm')
        raise InputError(f'--partition: of site {site.name} {expected_one_of(name or "nothing", known)}')
    return known[name]


class NodeSweep:
    """The command: it runs the cases that `sweep` lacks, and stores the whole sweep."""

    def __init__(self, site: Site, arguments: argparse.Namespace, results: Path):
        self.site, self.arguments, self.results, self.time_limit = site, arguments, results, arguments.time_limit
        self.partition = partition_of(site, arguments.partition)
        self.place = f'{site.name}:{self.partition.name}'
        self.selection = CaseSelection(self.place, arguments.mode, tuple(arguments.selection), ('node_sweep',))
        self.max_nodes = arguments.max_nodes
        self.problems: list[Problem] = []  # what went wrong outside the cases
        self.stopped = False  # whether a signal ended it
        self.options: list[str] = []  # further options of salloc
        if 'SLURM_JOB_ID' in os.environ:  # set by scrontab, for example: srun would take nodes and tasks from it
            for name in [name for name in os.environ if name.startswith('SLURM_') and name != 'SLURM_CONF']:
                del os.environ[name]
        if arguments.rounds:
            os.environ[settings.NODE_SWEEP_ROUNDS.name] = str(arguments.rounds)
        self.sweep = self._begin()

    def _begin(self) -> Sweep:
        """Return the sweep to be resumed, or a new one; an earlier sweep that is not resumed is stored first."""
        unfinished = Sweep.unfinished(self.results)
        if unfinished and (self.arguments.anew or not unfinished.can_resume(self.selection)):
            print('plumbline: stores an earlier, incomplete node sweep and starts a new one')
            self._store(unfinished, unfinished.content()[0])
            (self.results / STATE).unlink()
            unfinished = None
        return unfinished or Sweep.new(self.selection)

    def run(self) -> int:
        """Run the sweep and return its exit code; the caller holds the lock of the results directory."""
        free, sweep = free_nodes(self.partition), self.sweep
        if not free and not sweep.parts:
            raise InputError(f'{self.place}: {self._not_answered() or "no node is free"}')
        work: list[tuple[list[str], list[Case] | None]] = []
        if sweep.parts:
            _, missing = sweep.content()
            sweep.round += 1
            work += sweep.left(missing)
            again = {node for nodes, _ in work for node in nodes}
            done = len(set(sweep.nodes) - again)
            print(f'plumbline: resumes a node sweep: {count(done, "node")} done, {len(again)} not yet')
        if new := [node for node in free if node not in sweep.nodes]:
            sweep.nodes += new
            sweep.cases |= self._cases_on(new[: self.max_nodes])
            work.append((new, None))
            name = reservation_of(self.partition)
            of = f' of the reservation {name}' if name else ''
            print(f'plumbline: {self.place}: {len(sweep.cases)} cases on each of {len(new)} free nodes{of}', flush=True)
        self._name_others({*free, *sweep.nodes})
        try:
            ended = self._work_off(work)
        except Signalled as told:
            ended = str(told)
        return self._conclude(ended)

    def _work_off(self, work: list[tuple[list[str], list[Case] | None]]) -> str:
        """Run the cases in one allocation after the other; return why the node sweep must stop, empty if it is done."""
        for waiting, cases in work:
            while waiting:
                free = set(free_nodes(self.partition))
                chunk = [node for node in waiting if node in free][: self.max_nodes]
                if not chunk:
                    why = self._not_answered() or 'the node was no longer free'
                    self.sweep.absent |= dict.fromkeys(waiting, why)
                    break
                waiting = [node for node in waiting if node not in set(chunk)]
                if ended := self._measure(chunk, cases):
                    return ended
        return ''

    def _not_answered(self) -> str:
        """Return a sentence if Slurm names no node of the partition, free or not; else an empty text."""
        known = nodes_of(self.partition, '%N')
        return '' if known else 'Slurm did not answer, or has no node of this partition: run `sinfo` by hand'

    def _name_others(self, known: set[str]) -> None:
        """Print the nodes that take no jobs or are busy."""
        out = [node for node in nodes_out(self.site) if node.partition == self.partition.name]
        known |= {node.name for node in out}
        if busy := [name for name, _ in nodes_of(self.partition, '%N|%T') if name not in known]:
            print(f'plumbline: busy, not measured: {named(busy)}')
        for node in out:
            print(f'plumbline: left out: {node}')
            self.problems += node.problems()

    def _nodes_file(self, nodes: Sequence[str]) -> Path:
        path = self.results / NODES
        write_text(path, '\n'.join([*nodes, '']))
        return path

    def _cases_on(self, nodes: Sequence[str]) -> dict[Case, str]:
        """Return the names of the cases on `nodes`. Raises InputError if there is none, or for too many pairs."""
        variables = {settings.NODE_SWEEP.name: str(self._nodes_file(nodes))}
        cases, problems = self.selection.list_cases(variables)
        self.problems += map(Problem, problems)
        if not cases:
            raise InputError('no case is left: a node sweep runs those on one node or two')
        if too_many_pairs(len(nodes), len(cases)):
            single, _ = self.selection.list_cases(variables | {settings.NODE_SWEEP_ROUNDS.name: '0'})
            if why := too_many_pairs(len(nodes), len(cases) - len(single)):
                raise InputError(why)
        return cases

    def _measure(self, nodes: list[str], cases: list[Case] | None) -> str:
        """Run the cases on some nodes; return why the node sweep must end here, empty if it may go on."""
        part = Allocation(PlannedSession.new(self.results, self.selection, 0), nodes, cases, round=self.sweep.round)
        self.sweep.parts.append(part)
        self.sweep.remember(self.results)
        try:
            part.why = self._hold_and_run(part)
        except Signalled as told:
            part.why, self.stopped = str(told), True
        self.sweep.remember(self.results)
        if part.why:
            self.problems.append(part_ended(len(nodes), part.why))
        return part.why if self.stopped else ''

    def _hold_and_run(self, part: Allocation) -> str:
        """Run ReFrame in an allocation of the nodes; return why it ended before all cases had run, or nothing."""
        session, nodes = part.session, part.nodes
        stage = session.stage(PART)
        stage.mkdir(parents=True)
        names = self._nodes_file(nodes)
        options = ['--job-name=plumbline-node-sweep', f'--nodes={len(nodes)}', f'--nodelist={names}', *self.options]
        job, why = hold(self.partition, self.time_limit, stage, options)
        if not job:
            return why
        print(f'plumbline: job {job} holds {count(len(nodes), "node")} for at most {self.time_limit} s', flush=True)
        until = time.time() + max(self.time_limit - MARGIN, self.time_limit / 2)
        variables = {
            settings.NODE_SWEEP.name: str(names), settings.NODE_SWEEP_UNTIL.name: str(int(until)),
            settings.JOURNAL.name: str(session.journal), 'SLURM_JOB_ID': job,
        }  # fmt: skip
        try:
            wanted = None if part.cases is None else dict.fromkeys(part.cases, ())
            ended = session.run(time.monotonic() + self.time_limit + READING, wanted, PART, variables)
            self.stopped = bool(ended.by_signal)
            state = (ask('squeue', '--noheader', f'--jobs={job}', '--states=all', '--format=%T') or '').strip()
            if ended.why or state == 'RUNNING':
                return ended.why
            part.state = state
            return f'job {job} ended in state {state}' if state else f'squeue does not say how job {job} ended'
        finally:
            ask('scancel', job)
            cancel_jobs_below(stage)

    def _conclude(self, ended: str) -> int:
        """Store the allocations as one session, judge it and write its page; keep the state if it can be resumed."""
        if not self.sweep.parts:
            absent = [*self.sweep.absent]
            why = ended or f'{count(len(absent), "node")}: not measured, no longer free: {named(absent)}'
            print(f'plumbline: {why}', file=sys.stderr)
            return 1
        content, missing = self.sweep.content()
        for case in cases_in(content):
            if case['result'] != 'pass':
                print(f'plumbline: {case["display_name"]}: {case["fail_reason"]}')
        path = self._store(self.sweep, content)
        judged = outcome.outcome_of(self.results, self.sweep.uuid, path.with_suffix('.xml'))
        print(judged.summary, end='', flush=True)
        looked = outcome.look_back(self.results, self.sweep.uuid)
        looked.show()
        print(f'plumbline: report: {self.results / "report.html"}')
        command = f'plumbline fleet {self.sweep.uuid[:8]} --results={self.results}'
        print(f'plumbline: which nodes stand out: {command}')
        if not missing:
            (self.results / STATE).unlink(missing_ok=True)
            return judged.exit_code or int(bool(looked.faults))
        self.sweep.remember(self.results)
        nodes = list(dict.fromkeys(node for _, place in missing for node in place))
        print(
            f'plumbline: {f"{ended}; " if ended else ""}{count(len(missing), "case")} did not run, on {named(nodes)}; '
            'the same command resumes', file=sys.stderr,
        )  # fmt: skip
        return judged.exit_code or 1

    def _store(self, sweep: Sweep, content: Content) -> Path:
        """Store a node sweep as one session; return its run report."""
        problems = [*self.problems, *sweep.problems(content)]
        session = sweep.parts[0].session
        session.write(content)
        path = session.report
        for sentence in so_far.store(self.results, path, len(cases_in(content)), problems, self.site.name):
            print(f'plumbline: {sentence}', flush=True)
        return path


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Measure idle nodes of a Slurm partition, the longest unseen first, in a job that ends when others want its nodes.

Meant for cron, every few minutes. Each node runs, by itself, the cases that find most in the given minutes, as
`plumbline plan` chooses them. What ended before the job had to give way is stored as a session. Exit code: 0 all ok, or
no node was idle, or the nodes were wanted; 1 anything that is not ok, 2 usage.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ci import command, outcome, planned
from ci.cases import cases_in
from ci.command import positive
from ci.isolated import isolated
from ci.node_sweep import NodeSweep, add_options
from ci.slurm_nodes import ask, free_nodes
from ci.sweep import STATE, Sweep, is_missing, part_ended
from plumbline import settings
from plumbline.errors import InputError
from plumbline.site.sites import Site
from postprocess.text import count

NARROWED = 'idle'  # in `Selection.narrowed_by` of such a session
_NICE = 10_000  # so that these jobs have the least priority, unless others ask for less
_GAVE_WAY = ('PREEMPTED', 'CANCELLED', 'REQUEUED')  # Slurm's states of a job that are no fault of its nodes
# What salloc of 22.05 says if a node was taken, or drained, since it was seen idle
_TAKEN = re.compile(r'salloc: .*(Unable to allocate resources: Connection timed out|Required node not available)')


def main() -> int:
    arguments = parse(sys.argv[1:])
    return command.run(arguments, lambda site, results: IdleSweep(site, arguments, results).run())


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('sweep-idle', __doc__)
    add_options(parser)
    parser.add_argument('--max-nodes', type=positive, default=1, metavar='K', help='at a time (default: %(default)s)')
    parser.add_argument('--minutes', type=positive, default=10, metavar='M', help='of a node (default: %(default)s)')
    parser.add_argument(
        '--salloc', action='append', default=[], metavar='OPTION',
        help='an option with which jobs can be preempted, such as --salloc=--qos=scavenger; repeatable',
    )  # fmt: skip
    parser.add_argument('--users-may-wait', action='store_true', help='also where Slurm preempts no job')
    arguments = parser.parse_args(words)
    arguments.time_limit, arguments.rounds, arguments.anew = 60 * arguments.minutes, None, False
    return arguments


class IdleSweep(NodeSweep):
    """The command: a node sweep over few nodes whose missing cases are left out, not resumed."""

    def __init__(self, site: Site, arguments: argparse.Namespace, results: Path):
        super().__init__(site, arguments, results)
        self.minutes, self.users_may_wait = arguments.minutes, arguments.users_may_wait
        self.options = [f'--nice={_NICE}', *arguments.salloc]
        os.environ[settings.NODE_SWEEP_ROUNDS.name] = '0'  # no cases on two nodes

    def _begin(self) -> Sweep:
        """Return a new sweep. What an idle sweep measured before it was killed is stored first.

        Raises InputError if a node sweep in the same results directory waits to be resumed.
        """
        narrowed_by = (*self.selection.narrowed_by, NARROWED, f'{planned.NARROWED}={self.arguments.minutes}')
        self.selection = replace(self.selection, narrowed_by=narrowed_by)
        if unfinished := Sweep.unfinished(self.results):
            if NARROWED not in unfinished.recorded.get('plumbline_narrowed_by', ''):
                raise InputError(
                    f'{self.results / STATE}: a node sweep is incomplete: let ci/node-sweep resume it first'
                )
            self._store_sweep(unfinished, gave_way=True)
        return Sweep.new(self.selection)

    def run(self) -> int:
        """Measure idle nodes and return the exit code; the caller holds the lock of the results directory."""
        self._require_preemption()
        seen = last_looks(self.results, self.site.name)
        free = sorted(free_nodes(self.partition), key=lambda node: seen.get(node, datetime.min))[: self.max_nodes]
        if not free:
            print(f'plumbline: {self.place}: no node is idle')
            return 0
        cases = self._cases_on(free)
        chosen = planned.choose(self.results, self.site.name, self.selection, cases, self.minutes, 1)
        self.sweep.nodes, self.sweep.cases = free, {case: cases[case] for case in chosen or cases}
        planned.record(self.sweep, chosen)
        nodes = ', '.join(f'{node} (last seen {seen[node]:%Y-%m-%d %H:%M})' if node in seen else node for node in free)
        print(f'plumbline: {self.place}: {count(len(self.sweep.cases), "case")} on {nodes}', flush=True)
        self._measure(free, list(self.sweep.cases))
        (part,) = self.sweep.parts
        why = part.why
        gave_way = part.state in _GAVE_WAY or bool(_TAKEN.match(why))
        if why:
            what = 'the nodes were wanted' if gave_way else 'the job of the idle nodes failed'
            print(f'plumbline: {what}: {why}', file=sys.stdout if gave_way else sys.stderr)
        if why.startswith('salloc: '):  # the job never began
            (self.results / STATE).unlink()
            return int(not gave_way)
        path = self._store_sweep(self.sweep, gave_way)
        if not path:
            print('plumbline: nothing was measured to its end')
            return 0
        judged = outcome.outcome_of(self.results, self.sweep.uuid, path.with_suffix('.xml'))
        print(judged.summary, end='', flush=True)
        return judged.exit_code or int(bool(why) and not gave_way)

    def _require_preemption(self) -> None:
        """Raise InputError if Slurm would not end this job for a user's job, or would only suspend it."""
        printed = ask('scontrol', 'show', 'config') or ''
        configuration = dict(re.findall(r'^(Preempt\w+)\s*=\s*(\S+)', printed, re.MULTILINE))
        kind, mode = configuration.get('PreemptType', 'not told by scontrol'), configuration.get('PreemptMode', '')
        if not kind.startswith('preempt/') or kind == 'preempt/none':
            if not self.users_may_wait:
                raise InputError(
                    f'{self.place}: expected a Slurm that preempts jobs, found PreemptType {kind}: a job of a user may '
                    f'wait {self.minutes} minutes for a node that is measured; --users-may-wait accepts that'
                )
        elif 'SUSPEND' in mode or 'GANG' in mode:
            raise InputError(
                f'{self.place}: expected a Slurm that ends a job for another one, found PreemptMode {mode}, which '
                'suspends it: what a suspended benchmark measures is wrong'
            )

    def _store_sweep(self, sweep: Sweep, gave_way: bool) -> Path | None:
        """Store a sweep; return its run report, None if nothing is left to store.

        If the sweep `gave_way`, the cases that it did not measure to their end are left out, and so is the sentence on
        its early end.
        """
        content, _ = sweep.content()
        if gave_way:
            ended = [part_ended(len(part.nodes), part.why) for part in sweep.parts]
            self.problems = [problem for problem in self.problems if problem not in ended]
            for run in content['runs']:  # a case that was cut short says nothing about its nodes
                run['testcases'] = [case for case in run['testcases'] if case['fixture'] or not is_missing(case)]
        path = self._store(sweep, content) if cases_in(content) else None
        (self.results / STATE).unlink(missing_ok=True)
        return path


@isolated
def last_looks(results: Path, site: str) -> dict[str, datetime]:
    """Return, by node, the begin in UTC of the last session of a site on it, within the last 60 days."""
    from postprocess.results.store import Store

    store = Store(results)
    if site not in store.sites():
        return {}
    sessions = store.history(store.find('latest', site), days=60)
    sql = 'SELECT node, max(night) AS night FROM (SELECT night, unnest(nodes) AS node FROM cases) GROUP BY node'
    return {row['node']: sessions[row['night']].started for row in store.select(sql, sessions)}


if __name__ == '__main__':
    sys.exit(main())

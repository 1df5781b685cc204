"""Run the checks on every free node of a Slurm partition by itself, on all nodes at the same time.

One allocation holds at most ``--max-nodes`` nodes for at most ``--time-limit``; the next one holds the nodes that are
left. The result is one session with a case for each node, as with ``--distribute``; ``plumbline fleet`` finds the nodes
that stand out. A node sweep that was killed is resumed. Exit code: 0 all ok, 1 anything that is not, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ci import command, outcome
from ci.command import duration, positive
from ci.process import Ended
from ci.session import Content, Entry, Selection, Session, cases_in
from ci.slurm_nodes import access_options, ask, cancel_jobs_below, free_nodes, nodes_of, nodes_out, slurm_partitions
from plumbline import settings
from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.references import MODES
from plumbline.rounds import number_of_rounds
from plumbline.sites import Partition, Site

STATE = 'node-sweep-unfinished.json'  # below the results: the reports of a node sweep that has nodes left
RESUMABLE = 7 * 86400  # seconds after which a node sweep that was killed starts again from the first node
NODES = 'node-sweep-nodes'  # below the results: the nodes of an allocation, one a line, for ReFrame and for Slurm
PART = '-part'  # of the names of what belongs to one allocation
MARGIN = 60  # seconds at the end of an allocation for ending what runs
READING = 1800  # seconds after the allocation that ReFrame may take to read what the nodes left
MOST_PAIRS = 50_000  # of nodes, of all cases of an allocation: with OSU's latency they take 4 GB of memory to judge


def main() -> int:
    arguments = parse(sys.argv[1:])
    return command.run(arguments, lambda site, results: NodeSweep(site, arguments, results).run())


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('node-sweep', __doc__)
    command.add_common_options(parser)
    parser.add_argument('--partition', help="the site's name of it (default: its only Slurm partition)")
    parser.add_argument('--mode', choices=MODES, default='quick', help='whose checks and trials (default: %(default)s)')
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
        names = ', '.join(known) or 'none: it has no partition with scheduler slurm'
        raise InputError(f'--partition: expected one of site {site.name}: {names}; found {name or "nothing"}')
    return known[name]


class NodeSweep:
    """One node sweep. `done`: the run report and the nodes of each allocation that has ended."""

    def __init__(self, site: Site, arguments: argparse.Namespace, results: Path):
        self.site, self.results, self.time_limit = site, results, arguments.time_limit
        self.partition = partition_of(site, arguments.partition)
        self.place = f'{site.name}:{self.partition.name}'
        self.selection = Selection(self.place, arguments.mode, tuple(arguments.selection), ('node_sweep',))
        self.max_nodes = arguments.max_nodes
        self.problems: list[str] = []  # what went wrong outside the cases
        self.done: list[dict[str, Any]] = [] if arguments.anew else self._resumed()
        if arguments.rounds:
            os.environ[settings.NODE_SWEEP_ROUNDS.name] = str(arguments.rounds)

    def run(self) -> int:
        """Return the exit code; the caller holds the lock of the results directory."""
        if 'SLURM_JOB_ID' in os.environ:  # of scrontab, say: srun would take its nodes and tasks for those of ours
            for name in [name for name in os.environ if name.startswith('SLURM_') and name != 'SLURM_CONF']:
                del os.environ[name]
        free, seen = free_nodes(self.partition), {node for chunk in self.done for node in chunk['nodes']}
        left = [node for node in free if node not in seen]
        if not free and not self.done:
            raise InputError(f'{self.place}: no node is free')
        size = self.max_nodes or len(left)
        if left:
            cases = self._count_cases(left[:size])
            print(f'plumbline: {self.place}: {cases} cases on each of {len(left)} free nodes', flush=True)
        self._name_others({*free, *seen})
        if seen:
            print(f'plumbline: resumes a node sweep: {len(seen)} nodes are done')
        while left:
            free_now = set(free_nodes(self.partition))
            chunk = [node for node in left if node in free_now][:size]
            if not chunk:
                self.problems.append(f'{len(left)} nodes were not measured: no longer free: {_some(left)}')
                break
            held = set(chunk)
            left = [node for node in left if node not in held]
            if ended := self._measure(chunk):
                print(f'plumbline: {ended}; the same command resumes', file=sys.stderr)
                return 1
        if not self.done:
            print(f'plumbline: {"; ".join(self.problems)}', file=sys.stderr)
            return 1
        return self._conclude()

    def _resumed(self) -> list[dict[str, Any]]:
        """Return what a node sweep of the same cases left that was killed before it had all nodes."""
        try:
            state = json.loads((self.results / STATE).read_text(encoding='utf-8'))
            same = state['command'] == self.selection.command and 0 <= time.time() - state['time'] < RESUMABLE
            return state['done'] if same else []
        except (OSError, ValueError, KeyError):
            return []

    def _name_others(self, known: set[str]) -> None:
        """Name the nodes that take no jobs or are busy."""
        out = [node for node in nodes_out(self.site) if node.partition == self.partition.name]
        known |= {node.name for node in out}
        if busy := [name for name, _ in nodes_of(self.partition, '%N|%T') if name not in known]:
            print(f'plumbline: busy, not measured: {_some(busy)}')
        for node in out:
            print(f'plumbline: left out: {node}')
            self.problems += [node.problem] if node.problem else []

    def _nodes_file(self, nodes: Sequence[str]) -> Path:
        path = self.results / NODES
        path.write_text('\n'.join([*nodes, '']), encoding='utf-8')
        return path

    def _count_cases(self, nodes: Sequence[str]) -> int:
        """Return the number of cases on such nodes. Raises InputError on none, and on too many pairs of nodes."""
        variables = {settings.NODE_SWEEP.name: str(self._nodes_file(nodes))}
        cases, problems = self.selection.list_cases(variables)
        self.problems += problems
        if not cases:
            raise InputError('no case is left: a node sweep runs those on one node or two')
        at_once, rounds = len(nodes) // 2, number_of_rounds(len(nodes))
        if at_once * rounds * len(cases) > MOST_PAIRS:
            single, _ = self.selection.list_cases(variables | {settings.NODE_SWEEP_ROUNDS.name: '0'})
            of_pairs = len(cases) - len(single)
            if rounds > 1 and at_once * rounds * of_pairs > MOST_PAIRS:
                raise InputError(
                    f'cases on two nodes: {of_pairs}, and {len(nodes)} nodes are {at_once * rounds} pairs in {rounds} '
                    f'rounds; expected at most {MOST_PAIRS} pairs of all cases: choose a sample, --rounds '
                    f'{max(1, MOST_PAIRS // at_once // of_pairs)} or less, or fewer cases, or lower --max-nodes'
                )
        return len(cases)

    def _measure(self, nodes: list[str]) -> str:
        """Run the cases on some nodes; return why the node sweep must end here, empty where it may go on."""
        session = Session.new(self.results, self.selection, 0)
        ended = self._hold_and_run(session, nodes)
        why, report = ended.why, session.part(PART)
        for_all = why if why.startswith(('interrupted', 'told to end')) else ''
        if not report.exists():
            cause = why or 'ReFrame wrote no report'
            self.problems.append(f'{len(nodes)} nodes were not measured: {cause}: {session.log}')
            return for_all
        self.problems += [f'the measurement of {len(nodes)} nodes was ended: {why}'] if why else []
        self.done.append({'report': str(report), 'nodes': nodes})
        state = {'command': self.selection.command, 'time': time.time(), 'done': self.done}
        write_text(self.results / STATE, json.dumps(state))
        return for_all

    def _hold_and_run(self, session: Session, nodes: list[str]) -> Ended:
        """Run ReFrame in an allocation of these nodes."""
        stage = session.stage(PART)
        stage.mkdir(parents=True)
        names = self._nodes_file(nodes)
        words = ['salloc', '--no-shell', '--exclusive', '--no-kill', '--job-name=plumbline-node-sweep',
                 '--immediate=60', f'--nodes={len(nodes)}', f'--nodelist={names}',
                 f'--time={max(1, self.time_limit // 60)}', f'--chdir={stage}']  # fmt: skip
        answer = subprocess.run(
            [*words, *access_options(self.partition)], cwd=stage, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        job = re.search(r'Granted job allocation (\d+)', answer.stderr)
        if not job:
            return Ended(why=' '.join(answer.stderr.split()))
        print(f'plumbline: job {job[1]} holds {len(nodes)} nodes for at most {self.time_limit} s', flush=True)
        until = time.time() + max(self.time_limit - MARGIN, self.time_limit / 2)
        variables = {
            settings.NODE_SWEEP.name: str(names), settings.NODE_SWEEP_UNTIL.name: str(int(until)),
            'SLURM_JOB_ID': job[1],
        }  # fmt: skip
        try:
            return session.run(time.monotonic() + self.time_limit + READING, part=PART, variables=variables)
        finally:
            ask('scancel', job[1])
            cancel_jobs_below(stage)

    def _conclude(self) -> int:
        """Store the allocations as one session, judge it and write its page."""
        contents = [json.loads(Path(chunk['report']).read_text(encoding='utf-8')) for chunk in self.done]
        names = [{case['display_name'] for case in cases_in(content)} for content in contents]
        for chunk, ran in zip(self.done, names, strict=True):  # a single node that is left over has no pairs
            lacks = sorted(set().union(*names) - ran)
            self.problems += [f'{name}: not run on {_some(chunk["nodes"])}' for name in lacks]
        content = merge(contents, self.selection)
        path = self.results / 'reports' / Path(self.done[-1]['report']).name.replace(PART, '')
        write_text(path, json.dumps(content))
        cases = cases_in(content)
        for case in cases:
            if case['result'] != 'pass':
                print(f'plumbline: {case["display_name"]}: {case["fail_reason"]}')
        uuid = content['session_info']['uuid']
        for sentence in outcome.store(self.results, path, len(cases), self.problems, self.site.name):
            print(f'plumbline: {sentence}', flush=True)
        (self.results / STATE).unlink(missing_ok=True)
        judged = outcome.judge(self.results, uuid, path.with_suffix('.xml'))
        print(judged.summary, end='', flush=True)
        faults = outcome.look_back(self.results, uuid).faults
        for fault in faults:
            print(f'plumbline: {fault}', file=sys.stderr)
        print(f'plumbline: report: {self.results / "report.html"}')
        print(f'plumbline: which nodes stand out: plumbline fleet {uuid[:8]} --results={self.results}')
        return judged.exit_code or int(bool(faults))


def merge(contents: Sequence[Content], selection: Selection) -> Content:
    """Return one run report of several allocations, with a case for each place of each case.

    ReFrame writes the same of ``--distribute``.
    """
    cases: list[Entry] = []
    for case in (case for content in contents for run in content['runs'] for case in run['testcases']):
        places = case.get('record', {}).get('swept', []) if isinstance(case.get('record'), dict) else []
        cases += [_of_place(case, place) for place in places] if places and not case['fixture'] else [case]
    started = contents[0]['session_info']['time_start_unix']
    info = contents[-1]['session_info'] | {'time_start_unix': started, **selection.recorded}
    return {'session_info': info, 'runs': [{'run_index': 0, 'testcases': cases}]}


def _of_place(case: Entry, place: dict[str, Any]) -> Entry:
    """Return the case of one place, a node or a pair of nodes, of the case of all places."""
    record = dict(place)
    faults, breaches, nodes = record.pop('faults'), record.pop('breaches'), record['job']['nodes']
    wrong, phase = (faults, 'sanity') if faults else (breaches, 'performance')
    return case | {
        'display_name': f'{case["display_name"]} %.nid={",".join(nodes)}',
        'unique_name': f'{case["unique_name"]}_{"_".join(nodes)}',
        'record': record, 'job_nodelist': nodes, 'jobid': record['job']['id'], 'scheduler': 'slurm', 'perfvalues': {},
        'result': 'fail' if wrong else 'pass', 'fail_phase': phase if wrong else None,
        'fail_reason': f'{",".join(nodes)}: {"; ".join(wrong[:3])}' if wrong else None,
    }  # fmt: skip


def _some(nodes: Sequence[str]) -> str:
    return ' '.join(nodes[:20]) + (f' and {len(nodes) - 20} more' if nodes[20:] else '')


if __name__ == '__main__':
    sys.exit(main())

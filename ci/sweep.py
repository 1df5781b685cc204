# SPDX-License-Identifier: BSD-3-Clause
"""The state of a node sweep: what it was to run, what it has, what is missing; in a file until nothing is missing."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ci.cases import Case, Content, Entry, case_of, cases_in, left_out, place_of, record_of
from ci.session import RESUMABLE, CaseSelection, PlannedSession
from plumbline.files import write_text
from plumbline.problems import Problem
from plumbline.record import REST
from plumbline.rounds import Place, number_of_rounds, rounds_of
from postprocess.text import count

STATE = 'node-sweep-unfinished.json'  # below the results, while anything is missing
PART = '-part'  # in the names of the files of one allocation
_KILLED = 'ci/node-sweep was killed'
_KILLS = (130, 137, 143)  # exit codes of processes that SIGINT, SIGKILL and SIGTERM ended
# Pairs of nodes in all cases of an allocation: to judge them, with OSU's latency, takes 4 GB of memory
MOST_PAIRS = 50_000
_CANCELLED = 'CANCELLED'  # Slurm's state of a job that can be resumed


@dataclass
class Allocation:
    """One allocation of a node sweep.

    `cases`: the cases that it runs; None: all of the node sweep. `why`: why it ended before it had run them, else
    empty; `state`: that of its job if this is why. `round`: how often the node sweep had been resumed by then.
    """

    session: PlannedSession
    nodes: list[str]
    cases: list[Case] | None = None
    why: str = _KILLED
    round: int = 0
    state: str = ''


@dataclass
class Sweep:
    """One node sweep. `cases`: case -> name. `nodes`: the nodes that were to run. `absent`: node -> why it did not."""

    command: list[str]
    recorded: dict[str, str]
    cases: dict[Case, str] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    parts: list[Allocation] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    round: int = 0
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def new(cls, selection: CaseSelection) -> Sweep:
        """Return a node sweep of no nodes yet."""
        return cls(selection.command, selection.recorded)

    @classmethod
    def unfinished(cls, results: Path) -> Sweep | None:
        """Return the incomplete node sweep, if there is one."""
        try:
            content = json.loads((results / STATE).read_text(encoding='utf-8'))
            cases = {(name, place): text for name, place, text in content.pop('cases')}
            parts = [
                Allocation(**part | {'session': PlannedSession(**part['session'])}) for part in content.pop('parts')
            ]
            for part in parts:
                part.cases = part.cases and [(name, place) for name, place in part.cases]
            return cls(**content, cases=cases, parts=parts)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def can_resume(self, selection: CaseSelection) -> bool:
        """Return True if this sweep had the same selection and began less than `RESUMABLE` seconds ago."""
        if not self.parts:
            return False
        age = time.time() - self.parts[0].session.started
        return self.command == selection.command and 0 <= age < RESUMABLE

    def remember(self, results: Path) -> None:
        """Write this sweep to a file for :meth:`unfinished`."""
        cases = [[*case, name] for case, name in self.cases.items()]
        write_text(results / STATE, json.dumps(asdict(self) | {'cases': cases}))

    def content(self) -> tuple[Content, list[tuple[Case, Place]]]:
        """Return one run report of all allocations, and each case and place that is missing.

        A case that did not run on a place has an entry, too, whose metrics are missing with the cause; ReFrame writes
        the same for ``--distribute``. The report has a further run for each time that the sweep was resumed.
        """
        contents = [part.session.content(PART) for part in self.parts]
        ran = [{case_of(case): case for case in cases_in(content)} for content in contents]
        known = {case: entry for entries in reversed(ran) for case, entry in entries.items()}
        entry_of: dict[tuple[Case, Place], Entry] = {}
        runs: dict[tuple[Case, Place], int] = {}
        for part, entries in zip(self.parts, ran, strict=True):
            for case in part.cases or self.cases:
                for place, entry in self._of_part(case, part, entries.get(case), known.get(case)):
                    if is_missing(entry_of.get((case, place))):
                        entry_of[case, place] = entry
                        runs[case, place] = self.round if is_missing(entry) else part.round
        for case in self.cases:
            met = {node for of, place in entry_of if of == case for node in place}
            if nodes_of_place(known.get(case)) > 1:  # all pairs of held nodes are known
                met |= {node for part in self.parts if case in (part.cases or self.cases) for node in part.nodes}
            for node in self.nodes:
                if node not in met:
                    why = self.absent.get(node, 'the node sweep was ended before its turn')
                    entry_of[case, (node,)] = _missing(case, self.cases[case], known.get(case), (node,), why)
        info = contents[-1]['session_info'] | {'uuid': self.uuid, 'time_start_unix': self.parts[0].session.started}
        rest = [case for content in contents for run in content['runs'] for case in run['testcases'] if case['fixture']]
        missing = [key for key, entry in entry_of.items() if is_missing(entry)]
        cases: list[list[Entry]] = [rest, *([] for _ in range(self.round))]
        for key, entry in entry_of.items():
            number = runs.get(key, self.round)
            cases[number].append(entry | {'plumbline_purpose': REST} if number else entry)
        numbered = [{'run_index': number, 'testcases': entries} for number, entries in enumerate(cases)]
        return {'session_info': info | self.recorded, 'runs': numbered}, missing

    def problems(self, content: Content) -> list[Problem]:
        """Return a problem for each case that left trials out, and for each case on two nodes that had only one."""
        pairs = {case_of(case) for case in cases_in(content) if nodes_of_place(case) > 1}
        short = {self.cases[case_of(case)]: reason for case in cases_in(content) if (reason := left_out(case))}
        return [Problem(f'{name}: {reason}; a node sweep runs no further job') for name, reason in short.items()] + [
            Problem(f'{self.cases[case]}: not run on {part.nodes[0]}')
            for case in self.cases
            for part in self.parts
            if case in pairs and len(part.nodes) == 1
        ]

    def _of_part(
        self, case: Case, part: Allocation, ran: Entry | None, template: Entry | None
    ) -> Iterator[tuple[Place, Entry]]:
        """Yield each place of an allocation with the entry of a case there. `ran`: ReFrame's entry for all places."""
        name, why = self.cases[case], part.why or 'ReFrame ended without it'
        swept = {tuple(at_place['job']['nodes']): at_place for at_place in record_of(ran).get('swept', ())}
        # places that ran, and those that should have: the rounds asked for now may be fewer
        planned = (place for places in rounds_of(part.nodes, nodes_of_place(template)) for place in places)
        for place in dict.fromkeys([*swept, *planned]):
            if ran and place in swept:
                # without an end, or killed: it ended with the whole allocation
                ended = part.why and swept[place]['job']['exitcode'] in (None, *_KILLS)
                yield place, _missing(case, name, ran, place, why) if ended else _of_place(ran, swept[place])
            elif ran and ran['result'] not in ('abort', 'pass'):
                failed = {'result': ran['result'], 'fail_phase': ran['fail_phase'], 'job_state': 'FAILED'}
                failed['plumbline_not_run'] = ''
                yield place, _missing(case, name, ran, place, str(ran['fail_reason'])) | failed
            else:
                yield place, _missing(case, name, template, place, why)

    def left(self, missing: Iterable[tuple[Case, Place]]) -> list[tuple[list[str], list[Case]]]:
        """Return the nodes that must run again, in lists with their cases; of a pair, all nodes of its allocation."""
        nodes_of_case: dict[Case, list[str]] = {}
        for case, place in missing:
            nodes = nodes_of_case.setdefault(case, [])
            nodes += [node for node in self._met(place) if node not in nodes]
        groups: dict[tuple[str, ...], list[Case]] = {}
        for case, nodes in nodes_of_case.items():
            groups.setdefault(tuple(sorted(nodes, key=self.nodes.index)), []).append(case)
        return [(list(nodes), cases) for nodes, cases in groups.items()]

    def _met(self, place: Place) -> Sequence[str]:
        if len(place) == 1:
            return place
        return next((part.nodes for part in self.parts if set(place) <= set(part.nodes)), place)


def too_many_pairs(nodes: int, cases: int) -> str:
    """Return a sentence if an allocation of so many nodes is too large for cases on two nodes; empty if it is not."""
    at_once, rounds = nodes // 2, number_of_rounds(nodes)
    if rounds < 2 or at_once * rounds * cases <= MOST_PAIRS:
        return ''
    return (
        f'cases on two nodes: {cases}, and {nodes} nodes are {at_once * rounds} pairs in {rounds} rounds; expected at '
        f'most {MOST_PAIRS} pairs of all cases: choose a sample, --rounds {max(1, MOST_PAIRS // at_once // cases)} or '
        'less, or fewer cases, or lower --max-nodes'
    )


def part_ended(nodes: int, why: str) -> Problem:
    """Return the problem of the session whose allocation was ended."""
    return Problem(f'the measurement of {count(nodes, "node")} was ended: {why}', 'part ended', why=why)


def nodes_of_place(case: Entry | None) -> int:
    """Return on how many nodes a case runs; 1 if ReFrame wrote no entry of it."""
    return int((case or {}).get('num_nodes') or 1)


def is_missing(case: Entry | None) -> bool:
    """Return True if a case was cut short, not by a fault of its nodes, so that it can be resumed."""
    return case is None or case['job_state'] == _CANCELLED


def _of_place(case: Entry, place: dict[str, Any]) -> Entry:
    """Return the entry of one place, a node or a pair of nodes, from the entry `case` of all places."""
    record = dict(place)
    faults, breaches, job = record.pop('faults'), record.pop('breaches'), record['job']
    nodes = ','.join(job['nodes'])
    wrong, phase = (faults, 'sanity') if faults else (breaches, 'performance')
    record['causes'] += [{'code': 'reference', 'what': breach} for breach in breaches]
    return case | _names(case['display_name'], case['unique_name'], job['nodes']) | {
        'record': record, 'job_nodelist': job['nodes'], 'jobid': job['id'], 'scheduler': 'slurm', 'perfvalues': {},
        'job_state': job['state'], 'result': 'fail' if wrong else 'pass', 'fail_phase': phase if wrong else None,
        'fail_reason': f'{nodes}: {"; ".join(wrong[:3])}' if wrong else None,
    }  # fmt: skip


def _missing(case: Case, name: str, template: Entry | None, place: Place, why: str) -> Entry:
    """Return the entry of a case that did not run on a place; `template`: the same case elsewhere, for its series."""
    system, partition, environ = place_of(case)
    entry: Entry = {
        'unique_name': name.replace(' %', '_'), 'hashcode': case[0], 'fixture': False, 'system': system,
        'partition': partition, 'environ': environ,
    }  # fmt: skip
    job = {'id': '', 'nodes': list(place), 'state': _CANCELLED, 'exitcode': None}
    entry |= template or {}
    if known := record_of(template):
        lost: Entry = {'samples': [], 'invalid': None, 'missing': why}
        metrics = {
            metric: facts | {'series': [series | lost for series in facts['series']]}
            for metric, facts in known['metrics'].items()
        }
        record = {key: value for key, value in known.items() if key != 'swept'}
        entry['record'] = record | {'metrics': metrics, 'job': job, 'trial_seconds': [], 'evidence': ''}
    return entry | _names(name, entry['unique_name'], place) | {
        'job_nodelist': list(place), 'jobid': None, 'job_state': _CANCELLED, 'perfvalues': {}, 'result': 'fail',
        'fail_phase': 'run', 'fail_reason': f'{",".join(place)}: {why}', 'plumbline_not_run': why,
        'job_exitcode': None,
    }  # fmt: skip


def _names(display_name: str, unique_name: str, nodes: Sequence[str]) -> dict[str, str]:
    return {
        'display_name': f'{display_name} %.nid={",".join(nodes)}', 'unique_name': f'{unique_name}_{"_".join(nodes)}'
    }  # fmt: skip

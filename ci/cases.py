# SPDX-License-Identifier: BSD-3-Clause
"""The cases of a run report: which one an entry is of, what it says, and the runs of further jobs beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ci.slurm_nodes import slurm_partitions
from plumbline.problems import Problem
from plumbline.record import REST
from plumbline.site.sites import Site
from postprocess.text import count, some

#: ReFrame's results of a case that measured.
MEASURED = ('pass', 'xfail', 'xpass')

Case = tuple[str, str]  # ReFrame's hash of a case, and its system:partition+environ
Content = dict[str, Any]  # a run report
Entry = dict[str, Any]  # a case of a run report


def case_of(entry: Entry) -> Case:
    """Return the case of an entry of a run report."""
    return entry['hashcode'], f'{entry["system"]}:{entry["partition"]}+{entry["environ"]}'


def place_of(case: Case) -> tuple[str, str, str]:
    """Return system, partition and environ of a case."""
    system, _, rest = case[1].partition(':')
    partition, _, environ = rest.partition('+')
    return system, partition, environ


def name_of(entry: Entry) -> tuple[str, str, str]:
    """Return (partition, environ, name) of an entry, by which the store knows its case."""
    return entry['partition'], entry['environ'], entry['display_name']


def identity(entry: Entry) -> tuple[str, ...]:
    """Return what is the same in the entries of a case in all runs of a session."""
    return tuple(entry[key] for key in ('unique_name', 'display_name', 'system', 'partition', 'environ'))


def cases_in(content: Content, every_run: bool = False) -> list[Entry]:
    """Return the last run of each case of a run report, or every one, without fixtures."""
    cases = [case for run in content['runs'] for case in run['testcases'] if not case['fixture']]
    return cases if every_run else list({identity(case): case for case in cases}.values())


def record_of(entry: Entry | None) -> dict[str, Any]:
    """Return the record of a case; empty if the case ended too early to have one."""
    record = (entry or {}).get('record')
    return record if isinstance(record, dict) else {}


def nodes_of(entry: Entry) -> list[str]:
    """Return the nodes of the job of a case; empty if it ended too early to have some."""
    return record_of(entry).get('job', {}).get('nodes', [])


def left_out(entry: Entry) -> str:
    """Return a sentence on the trials that the queue allowed no time for; empty if all trials ran."""
    return record_of(entry).get('provenance', {}).get('trials_left_out', '')


def trials_not_run(entry: Entry) -> int:
    """Return how many trials the queue allowed no time for."""
    return int(record_of(entry).get('provenance', {}).get('trials_not_run', 0))


def on_their_nodes(cases: Sequence[Entry], site: Site) -> dict[Case, list[str]]:
    """Return each case with Slurm's option for the nodes of its job."""
    of_slurm = {partition.name for partition in slurm_partitions(site)}
    return {
        case_of(entry): [f'--nodelist={",".join(nodes)}'] if entry['partition'] in of_slurm and nodes else []
        for entry in cases
        for nodes in [nodes_of(entry)]
    }


def failed(content: Content) -> list[Entry]:
    """Return the cases that did not measure; a case with a value beyond its limit has measured."""
    return [
        case for case in cases_in(content) if case['result'] not in MEASURED and case.get('fail_phase') != 'performance'
    ]


def cut_short(content: Content, why: str, expected: int) -> Problem:
    """Write into each unfinished case why it did not end; return the problem of the session."""
    cut = [case for case in cases_in(content) if case['result'] == 'abort']
    for case in cut:
        case |= {'fail_reason': f'not run to its end: {why}', 'plumbline_not_run': why}
    running = [case['display_name'] for case in cut if case.get('jobid')]
    while_ran = f', while {some(running, 3)} ran'
    done = len(cases_in(content)) - len(cut)
    sentence = f'the session did not come to its end: {why} after {done} of {count(expected, "case")}'
    return Problem(sentence + while_ran * bool(running), 'cut short', why=why)


def add_runs(
    content: Content, further: Content, wanted: Iterable[Case], purpose: str = '', needed: Iterable[Case] = ()
) -> None:
    """Add the runs of the report `further` to `content`, as ReFrame adds its own retries; only the `wanted` cases.

    The `needed` ones, which ran only because a wanted case depends on them, are added with the purpose `REST`. If a
    case had not run because the session was aborted, only its new run stays in `content`.
    """
    purposes, ran = {**dict.fromkeys(needed, REST), **dict.fromkeys(wanted, purpose)}, set()
    for run in further['runs']:
        number = len(content['runs'])
        cases = [
            case | {'run_index': number, 'plumbline_purpose': purposes.get(case_of(case), purpose)}
            for case in run['testcases']
            if case['fixture'] or case_of(case) in purposes
        ]
        if any(not case['fixture'] for case in cases):
            content['runs'].append({'run_index': number, 'testcases': cases})
            ran |= {identity(case) for case in cases}
    first = content['runs'][0]
    first['testcases'] = [case for case in first['testcases'] if case['result'] != 'abort' or identity(case) not in ran]

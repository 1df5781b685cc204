# SPDX-License-Identifier: BSD-3-Clause
"""Run cases again: that failed, for trials that did not fit into their job, without a baseline, for series in doubt.

One bad value is no evidence against a node.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci.cases import (
    MEASURED,
    Case,
    Content,
    Entry,
    case_of,
    cases_in,
    failed,
    identity,
    left_out,
    name_of,
    nodes_of,
    on_their_nodes,
    trials_not_run,
)
from ci.progress import BESIDES
from ci.session import PlannedSession
from ci.slurm_nodes import free_nodes, slurm_partitions
from ci.so_far import in_doubt
from plumbline.record import LOOK, OF_NODE, REST
from plumbline.references import load_references
from plumbline.site.sites import UNDESCRIBED, Site
from postprocess.text import count, one_line

if TYPE_CHECKING:
    from postprocess.verdicts.verdict import Again

# Most steps of further jobs in a session: 1, 2, 4 and 8 jobs of a case, and cases for which time is left later
STEPS = 8
LOOKING = 90.0  # seconds of further jobs while a site has no baseline
LOOKS = 8  # further jobs of a case, at most
SHORTEST = 1800.0  # seconds that reruns may always take; if longer, then no longer than the session itself


def retry(session: PlannedSession, content: Content, cases: Sequence[Case], deadline: float) -> None:
    """Run cases again that failed before they measured, or that a killed ReFrame did not run."""
    known = {case_of(case) for case in cases_in(content)}
    lost = {case_of(case): case for case in failed(content)}
    wanted = [*lost, *(case for case in cases if case not in known)]
    if wanted:
        print(f'plumbline: runs {count(len(wanted), "failed case")} once more', flush=True)
        session.run_again(content, dict.fromkeys(wanted, ()), deadline, '-retry', purpose=REST)
    for case in {*lost} - {case_of(case) for case in failed(content)}:
        why = (one_line(lost[case]['fail_reason']) or lost[case]['result'])[:200]
        print(f'plumbline: {lost[case]["display_name"]} passed when it ran again; before: {why}', flush=True)


def complete(session: PlannedSession, content: Content, site: Site, deadline: float) -> list[str]:
    """Run in further jobs the trials that the queue allowed no time for; add them to `content`.

    These jobs run on the nodes of the first job. Return a sentence for each case whose trials did not all run by
    `deadline`.
    """
    number = 1
    while time.monotonic() < deadline and (cases := _incomplete(content)):
        number += 1
        trials = {case_of(case): trials_not_run(case) for case in cases}
        print(f'plumbline: {count(len(cases), "case")} had no time for all trials in a job: job {number}', flush=True)
        options = on_their_nodes(cases, site)
        ran = session.run_again(content, options, deadline, f'-part{number}', trials=trials, purpose=REST)
        if not ran or all(case['result'] == 'abort' for case in content['runs'][-1]['testcases']):
            break
    return [f'{case["display_name"]}: {left_out(case)}; no job ran them' for case in _incomplete(content)]


def _incomplete(content: Content) -> list[Entry]:
    """Return the last run of each case that has trials left; a run that was aborted ran none of them."""
    ran = [case for case in cases_in(content, every_run=True) if case['result'] != 'abort']
    return [case for case in {identity(case): case for case in ran}.values() if trials_not_run(case)]


def look_again(
    session: PlannedSession, content: Content, site: Site, deadline: float, first: Callable[[], object]
) -> None:
    """Run short cases again on an undescribed machine without a baseline, to show how much their metrics vary there.

    The shortest case of each check and environ runs, with one trial in a job, in rounds, as often as `LOOKING` seconds
    allow; none that depends on others, which would run as well. `first` is called before them, if any run.
    """
    if site.name != UNDESCRIBED or any(row.kind == 'baseline' for row in load_references(site.name).rows):
        return
    planned = _looks([case for case in cases_in(content) if case_of(case) not in session.needs])
    if not planned or time.monotonic() >= deadline:
        return
    first()
    words = f'{count(sum(planned.values()), "further short job")} of {count(len(planned), "case")}'
    print(f'plumbline: there is no baseline yet: runs {words}, to see how much the metrics vary here', flush=True)
    done = 0
    for times in sorted(set(planned.values())):  # cases that run more often go on without the others
        wanted = {case: () for case, often in planned.items() if often >= times}
        trials = dict.fromkeys(wanted, 1)
        session.run_again(content, wanted, deadline, f'-look{times}', times - done, trials=trials, purpose=LOOK)
        done = times


def _looks(cases: Sequence[Entry]) -> dict[Case, int]:
    """Return how often cases run again: the shortest of each check and environ once, then all for equally long."""
    shortest: dict[tuple[str, str, str], Entry] = {}
    for entry in sorted(cases, key=lambda entry: entry.get('time_run') or 0.0, reverse=True):
        if entry['result'] in MEASURED and any(
            metric.get('judged', True) for metric in entry['record']['metrics'].values()
        ):
            shortest[entry['partition'], entry['environ'], entry['record']['check']] = entry
    seconds = {
        case_of(entry): entry['time_run'] / max(entry['record'].get('trials') or 1, 1) + BESIDES
        for entry in shortest.values()
        if entry.get('time_run')
    }
    planned, seconds_left, wanted = dict.fromkeys(seconds, 0), LOOKING, list(seconds)
    while wanted:
        case = min(wanted, key=lambda case: (planned[case] > 0, (planned[case] + 1) * seconds[case]))
        if seconds[case] > seconds_left or planned[case] == LOOKS:
            wanted.remove(case)
            continue
        planned[case] += 1
        seconds_left -= seconds[case]
    return {case: times for case, times in planned.items() if times}


def rerun(session: PlannedSession, content: Content, site: Site, deadline: float, store: Callable[[], object]) -> None:
    """Run further jobs of the cases in doubt and add them to `content`, until nothing is in doubt or the time is over.

    These jobs run on other nodes than the first job if enough are free, or on a node that is itself in doubt. A case of
    ``--distribute`` stays on its node. `store` puts `content` into the store; it is called after each step.
    """
    deadline = min(deadline, time.monotonic() + max(time.time() - session.started, SHORTEST))
    for step in range(1, STEPS + 1):
        asked = in_doubt(Path(session.results), content['session_info']['uuid'])
        free = {} if session.distributes else {of.name: set(free_nodes(of)) for of in slurm_partitions(site)}
        wanted = [again for again in asked if not again.if_free or again.on in free.get(again.partition, ())]
        if not wanted or time.monotonic() >= deadline:
            return
        jobs, cases = sum(again.jobs for again in wanted), len({again.case_id for again in wanted})
        print(f'plumbline: runs {count(jobs, "further job")} of {count(cases, "case")} in doubt', flush=True)
        first = {name_of(case): case for case in reversed(cases_in(content, every_run=True))}
        ran = False
        for number, part in enumerate(_at_once(wanted), 1):
            times, purpose = part[0].jobs, OF_NODE if part[0].on else ''
            known = [(first[_key_of(again)], again) for again in part if _key_of(again) in first]
            if session.distributes:
                options = on_their_nodes([case for case, _ in known], site)
            else:
                options = {case_of(case): _nodes_for(again, case, free.get(again.partition)) for case, again in known}
            name = f'-rerun{step}' + (f'-{number}' if number > 1 else '')
            ran |= session.run_again(content, options, deadline, name, times, purpose=purpose)
        if not ran:
            return
        store()


def _at_once(wanted: Sequence[Again]) -> list[list[Again]]:
    """Return the jobs in parts for one run of ReFrame each: no case twice, the same number of jobs for all cases."""
    parts: dict[tuple[int, bool, int], list[Again]] = {}
    seen: Counter[tuple[int, bool]] = Counter()
    for again in wanted:
        kind = again.case_id, bool(again.on)
        parts.setdefault((again.jobs, bool(again.on), seen[kind]), []).append(again)
        seen[kind] += 1
    return list(parts.values())


def _key_of(again: Again) -> tuple[str, str, str]:
    return again.partition, again.environ, again.name


def _nodes_for(again: Again, case: Entry, free: set[str] | None) -> list[str]:
    """Return Slurm's options for the nodes of a further job. `free`: of its partition; None: Slurm cannot be asked."""
    if free is None:
        return []
    if again.on:
        return [f'--nodelist={again.on}']
    others = again.not_on and len(free - set(again.not_on)) >= len(nodes_of(case))
    return [f'--exclude={",".join(again.not_on)}'] if others else []

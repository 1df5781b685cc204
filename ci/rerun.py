"""Run cases again: for the trials that their job had no time for, and where a series is in doubt.

One bad value is no evidence against a node.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from ci import outcome
from ci.session import Case, Content, Entry, Session, case_of, cases_in, left_out, trials_not_run
from ci.slurm_nodes import free_nodes, slurm_partitions
from plumbline.sites import Site
from postprocess.text import count

#: Jobs of a case in a session: after each step it runs on only if it is still in doubt.
STEPS = (1, 2, 3, 5, 9)
SHORTEST = 1800.0  # seconds that reruns may take at least; else no longer than the session itself


def complete(session: Session, content: Content, site: Site, deadline: float) -> list[str]:
    """Run the trials that the queue allowed no time for in further jobs, which are added to `content`.

    They run on the nodes of the first job. Return a sentence for each case whose trials did not all run by `deadline`.
    """
    number = 1
    while time.monotonic() < deadline and (cases := _incomplete(content)):
        number += 1
        left = {case_of(case): trials_not_run(case) for case in cases}
        print(f'plumbline: {count(len(cases), "case")} had no time for all trials in a job: job {number}', flush=True)
        if not session.run_again(
            content, _with_options(session, cases, site, 1), deadline, f'-part{number}', trials=left
        ):
            break
    return [f'{case["display_name"]}: {left_out(case)}; no job ran them' for case in _incomplete(content)]


def _incomplete(content: Content) -> list[Entry]:
    """Return the last run of each case that has trials left."""
    return [case for case in cases_in(content) if trials_not_run(case)]


def rerun(session: Session, content: Content, site: Site, deadline: float, store: Callable[[], object]) -> None:
    """Run the cases in doubt again and add their jobs to `content`, until the doubt is gone or the time is over.

    The second job runs on the nodes of the first, the third on others where they are free, further ones anywhere. A
    case of ``--distribute`` stays on its node. `store` puts `content` into the store; it is called after each step.
    """
    deadline = min(deadline, time.monotonic() + max(time.time() - session.started, SHORTEST))
    for have, wanted in pairwise(STEPS):
        doubtful = _in_doubt(session, content)
        if not doubtful or time.monotonic() >= deadline:
            return
        print(f'plumbline: runs {count(len(doubtful), "case")} in doubt again, up to {wanted} jobs in all', flush=True)
        wanted_cases = _with_options(session, doubtful, site, have)
        if not session.run_again(content, wanted_cases, deadline, f'-rerun{have}', wanted - have):
            return
        store()


def _with_options(session: Session, cases: list[Entry], site: Site, have: int) -> dict[Case, list[str]]:
    """Return each case that has run so many times, with Slurm's options for its nodes."""
    found: dict[Case, list[str]] = {case_of(case): [] for case in cases}
    if have > 2 and not session.distributes:
        return found
    free = {partition.name: set(free_nodes(partition)) for partition in slurm_partitions(site)}
    elsewhere = have == 2 and not session.distributes
    for case in cases:
        if case['partition'] in free:
            nodes = case['record']['job']['nodes']
            found[case_of(case)] = _node_options(nodes, free[case['partition']], elsewhere)
    return found


def _node_options(nodes: list[str], free: set[str], elsewhere: bool) -> list[str]:
    """Return Slurm's options for these nodes, or for others where as many of them are free."""
    if elsewhere and len(free - set(nodes)) >= len(nodes):
        return [f'--exclude={",".join(nodes)}']
    return [f'--nodelist={",".join(nodes)}']


def _in_doubt(session: Session, content: Content) -> list[Entry]:
    """Return the first run of each case that has a series in doubt."""
    wanted = outcome.in_doubt(Path(session.results), content['session_info']['uuid'])
    first = {case_of(case): case for case in reversed(cases_in(content, every_run=True))}
    return [case for case in first.values() if (case['partition'], case['environ'], case['display_name']) in wanted]

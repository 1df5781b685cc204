"""Run the cases again that have a regressed metric: one bad value must not blame a node."""

from __future__ import annotations

import json
from pathlib import Path

from ci import outcome
from ci.session import Content, Entry, Session, case_of, cases_in
from ci.slurm_nodes import free_nodes, slurm_partitions
from plumbline import settings
from plumbline.sites import Site

ROUNDS = ('same', 'other')  # nodes; with the first value there are three, of which the median decides


def rerun(session: Session, content: Content, site: Site, deadline: float) -> list[Path]:
    """Return the run reports of two reruns: on the nodes of the first value, and on other nodes where they are free.

    A case of ``--distribute`` runs on its own node both times: the session has a value of each other node already.
    """
    breached = _breached(session, content)
    if not breached:
        return []
    free = {partition.name: set(free_nodes(partition)) for partition in slurm_partitions(site)}
    print(f'plumbline: runs {len(breached)} cases with a metric beyond its limit again, twice', flush=True)
    reports = []
    for which in ROUNDS:
        elsewhere = which == 'other' and not session.distributes
        options = {
            case['hashcode']: _node_options(case['record']['job']['nodes'], free[case['partition']], elsewhere)
            for case in breached
            if case['partition'] in free
        }
        variables = {settings.JOB_OPTIONS.name: json.dumps(options)}
        session.run(deadline, map(case_of, breached), f'-{which}', variables)
        if (path := session.part(f'-{which}')).exists():
            reports.append(path)
    return reports


def _node_options(nodes: list[str], free: set[str], elsewhere: bool) -> list[str]:
    """Return Slurm's options for these nodes, or for others where as many of them are free."""
    if elsewhere and len(free - set(nodes)) >= len(nodes):
        return [f'--exclude={",".join(nodes)}']
    return [f'--nodelist={",".join(nodes)}']


def _breached(session: Session, content: Content) -> list[Entry]:
    """Return the cases that ReFrame found beyond a limit and of which a metric regressed."""
    cases = [case for case in cases_in(content) if case['result'] == 'fail' and case['fail_phase'] == 'performance']
    if not cases:
        return []
    regressed = outcome.regressed_cases(Path(session.results), content['session_info']['uuid'])
    return [case for case in cases if (case['partition'], case['display_name']) in regressed]

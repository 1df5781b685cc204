"""Runs the cases whose metrics are beyond their limits again: one bad number must not accuse a node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ci.session import Content, Run, Session, case_of, distributes, last_of_each, only
from ci.slurm_nodes import free_nodes, slurm_partitions
from plumbline.identity import pairs, to_text
from plumbline.paths import ROOT
from plumbline.sites import Site

ROUNDS = ('same', 'other')  # nodes; with the first number three values, of which the median decides


def confirm(session: Session, content: Content, site: Site, deadline: float) -> list[Path]:
    """The run reports of the reruns, first on the nodes of the first number, then on others where there are others.

    A case of ``--distribute`` runs on its own node both times: the others have run it already.
    """
    breached = breaches(session, content)
    if not breached:
        return []
    free = {partition.name: set(free_nodes(partition)) for partition in slurm_partitions(site)}
    print(f'plumbline: runs {len(breached)} cases with a metric beyond its limit again, twice', flush=True)
    options, variables = only(map(case_of, breached), session.command)
    pinned = distributes(session.command)
    reports = []
    for which in ROUNDS:
        asked = {
            case['hashcode']: nodes_asked(
                'same' if pinned else which, case['record']['job']['nodes'], free[case['partition']]
            )
            for case in breached
            if case['partition'] in free and case['scheduler'] in ('slurm', 'squeue')
        }
        command = [*session.command, *options, *session.options(f'-{which}')]
        Run(command, session, deadline, variables | {'PLUMBLINE_JOB_OPTIONS': json.dumps(asked)}).wait()
        if (path := session.part(f'-{which}')).exists():
            reports.append(path)
    return reports


def nodes_asked(which: str, nodes: list[str], free: set[str]) -> list[str]:
    """Slurm's options for these nodes or for others; for these again, where too few others are free."""
    if which == 'other' and len(free - set(nodes)) >= len(nodes):
        return [f'--exclude={",".join(nodes)}']
    return [f'--nodelist={",".join(nodes)}']


def breaches(session: Session, content: Content) -> list[dict]:
    """The cases of which `plumbline compare` says that a metric regressed."""
    cases = [
        case
        for case in last_of_each(content)
        if not case['fixture'] and case['result'] == 'fail' and case['fail_phase'] == 'performance'
    ]
    if not cases:
        return []
    command = [sys.executable, '-m', 'postprocess.cli', 'compare', content['session_info']['uuid'], '--format=json']
    answer = subprocess.run(
        [*command, f'--results={session.results}'], cwd=ROOT, capture_output=True, text=True, check=False
    )
    regressed = {
        tuple(row[key] for key in ('partition', 'environ', 'check', 'params'))
        for row in json.loads(answer.stdout)['verdicts']
        if row['verdict'] == 'regressed'
    }
    return [
        case
        for case in cases  # on several nodes, each that ReFrame found beyond its limit
        if (case['partition'], case['environ'], case['record']['check'], to_text(pairs(case['record']['params'])))
        in regressed
    ]

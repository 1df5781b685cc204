"""Fleet acceptance: every free node of a Slurm partition runs the checks by itself, all at the same time.

One allocation holds at most ``--max-nodes`` nodes for at most ``--time-limit``; the next one holds the nodes that are
left. The outcome is one session with a case for each node, as of ``--distribute``; ``plumbline fleet`` tells which
nodes stand out. A sweep that was ended is carried on. Exit code: 0 all ok, 1 anything that is not, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ci.nightly import Stop, check_files, duration, list_cases, locked, plumbline
from ci.session import STAGE, Content, Run, Session, save
from ci.slurm_nodes import access_options, ask, cancel_jobs_below, free_nodes, nodes_of, nodes_out, slurm_partitions
from plumbline.paths import ROOT
from plumbline.references import MODES
from plumbline.rounds import number_of_rounds
from plumbline.sites import Partition, Site

STATE = 'sweep-unfinished.json'  # below the results: the reports of a sweep that has nodes left
CARRIED_ON_FOR = 7 * 86400  # seconds after which a sweep that was ended begins anew
NODES = 'sweep-nodes'  # below the results: the nodes of an allocation, one a line, for ReFrame and for Slurm
PART = '-part'  # of the names of what belongs to one allocation
MARGIN = 60  # seconds of an allocation that are left for ending what runs
READING = 1800  # seconds after it that ReFrame may take to read what the nodes left
MOST_PAIRS = 50_000  # of nodes, of all cases of an allocation: with OSU's latency they take 4 GB of memory to judge


def main() -> int:
    arguments = parse(sys.argv[1:])
    return locked(
        arguments, lambda site, results: sweep(site, partition_of(site, arguments.partition), arguments, results)
    )


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='ci/sweep', description=__doc__.splitlines()[0])
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    parser.add_argument('--partition', help="the site's name of it (default: its only Slurm partition)")
    parser.add_argument('--mode', choices=MODES, default='quick', help='whose checks and trials (default: %(default)s)')
    parser.add_argument('--max-nodes', type=int, metavar='N', help='hold no more nodes than these at a time')
    parser.add_argument(
        '--time-limit', type=duration, default='1h', metavar='TIME', help='hold them no longer (default: %(default)s)'
    )
    parser.add_argument(
        '--rounds', type=int, metavar='N', help='of cases between two nodes: a sample of the pairs, N for each node'
    )
    parser.add_argument('--anew', action='store_true', help='begin again where a sweep was ended')
    parser.add_argument('--results', help='results directory (default: $PLUMBLINE_RESULTS or results/ of the clone)')
    parser.add_argument('selection', nargs='*', metavar='-- REFRAME_OPTION', help="after --: ReFrame's own selection")
    arguments = parser.parse_args(words)
    if arguments.max_nodes is not None and arguments.max_nodes < 1:
        parser.error(f'argument --max-nodes: expected 1 or more, found {arguments.max_nodes}')
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error(f'argument --rounds: expected 1 or more, found {arguments.rounds}')
    return arguments


def partition_of(site: Site, name: str | None) -> Partition:
    known = {partition.name: partition for partition in slurm_partitions(site)}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        names = ', '.join(known) or 'none: it has no partition with scheduler slurm'
        raise Stop(f'--partition: expected one of site {site.name}: {names}; found {name or "nothing"}')
    return known[name]


def sweep(site: Site, partition: Partition, arguments: argparse.Namespace, results: Path) -> int:
    if 'SLURM_JOB_ID' in os.environ:  # of scrontab, say: srun would take that job's nodes and tasks for those of ours
        for name in [name for name in os.environ if name.startswith('SLURM_') and name != 'SLURM_CONF']:
            del os.environ[name]
    files, problems = check_files(ROOT / 'checks')
    reframe = ['reframe', '-C', str(ROOT / 'reframe_settings/settings.py'), '-R', *(f'-c{path}' for path in files)]
    reframe += [f'--system={site.name}:{partition.name}', f'--mode={arguments.mode}', *arguments.selection]
    done = [] if arguments.anew else earlier(results, reframe)
    out = [node for node in nodes_out(site) if node.partition == partition.name]
    free, seen = free_nodes(partition), {node for chunk in done for node in chunk['nodes']}
    left = [node for node in free if node not in seen]
    if not free and not done:
        raise Stop(f'{site.name}:{partition.name}: no node is free')
    size = arguments.max_nodes or len(left)
    if arguments.rounds:
        os.environ['PLUMBLINE_SWEEP_ROUNDS'] = str(arguments.rounds)
    if left:
        cases, trouble = cases_of(reframe, left[:size], results)
        problems += trouble
        print(f'plumbline: {site.name}:{partition.name}: {cases} cases on each of {len(left)} free nodes', flush=True)
    known = {*free, *seen, *(node.name for node in out)}
    busy = [name for name, _ in nodes_of(partition, '%N|%T') if name not in known]
    if busy:
        print(f'plumbline: busy, not swept: {some(busy)}')
    if seen:
        print(f'plumbline: carries on a sweep: {len(seen)} nodes are done')
    for node in out:
        print(f'plumbline: left out: {node}')
        problems += [f'{node}: nobody drained it'] if node.lost else []
    while left:
        free = set(free_nodes(partition))
        chunk = [node for node in left if node in free][:size]
        if not chunk:
            problems.append(f'{len(left)} nodes were not swept: no longer free: {some(left)}')
            break
        held = set(chunk)
        left = [node for node in left if node not in held]
        session, why = hold_and_run(site, partition, arguments, results, reframe, chunk)
        if not session.part(PART).exists():
            problems.append(f'{len(chunk)} nodes were not swept: {why or "ReFrame wrote no report"}: {session.log}')
            continue
        problems += [f'the sweep of {len(chunk)} nodes was ended: {why}'] if why else []
        done.append({'report': str(session.part(PART)), 'nodes': chunk})
        remember(results, reframe, done)
        if why.startswith(('interrupted', 'told to end')):
            print(f'plumbline: {why}; the same command carries on', file=sys.stderr)
            return 1
    if not done:
        print(f'plumbline: {"; ".join(problems)}', file=sys.stderr)
        return 1
    return conclude(done, problems, results)


def some(nodes: list[str]) -> str:
    return ' '.join(nodes[:20]) + (f' and {len(nodes) - 20} more' if nodes[20:] else '')


def named(nodes: list[str], results: Path) -> str:
    """The file of their names."""
    path = results / NODES
    path.write_text('\n'.join([*nodes, '']), encoding='utf-8')
    return str(path)


def cases_of(reframe: list[str], nodes: list[str], results: Path) -> tuple[int, list[str]]:
    """How many there are on such nodes, and what ReFrame warns of. Raises Stop on none, and on too many pairs."""
    os.environ['PLUMBLINE_SWEEP'] = named(nodes, results)
    cases, trouble = list_cases(reframe)
    if not cases:
        raise Stop('no case can be swept: they run on one node or two, and these were all left out')
    at_once, rounds = len(nodes) // 2, number_of_rounds(len(nodes))
    if at_once * rounds * len(cases) > MOST_PAIRS:
        os.environ['PLUMBLINE_SWEEP_ROUNDS'] = '0'
        of_pairs = len(cases) - len(list_cases(reframe)[0])
        os.environ['PLUMBLINE_SWEEP_ROUNDS'] = str(rounds)
        if rounds > 1 and at_once * rounds * of_pairs > MOST_PAIRS:
            raise Stop(
                f'cases on two nodes: {of_pairs}, and {len(nodes)} nodes are {at_once * rounds} pairs in {rounds} '
                f'rounds; expected at most {MOST_PAIRS} pairs of all cases: choose a sample, --rounds '
                f'{max(1, MOST_PAIRS // at_once // of_pairs)} or less, or fewer cases, or lower --max-nodes'
            )
    return len(cases), trouble


def hold_and_run(
    site: Site, partition: Partition, arguments: argparse.Namespace, results: Path, reframe: list[str], nodes: list[str]
) -> tuple[Session, str]:
    """An allocation of these nodes and ReFrame in it; returns the session and why it did not come to its own end."""
    session = Session.new(results, site.name, arguments.mode, reframe, 0)
    while session.part(PART).exists():  # two allocations within a second
        time.sleep(0.2)
        session = Session.new(results, site.name, arguments.mode, reframe, 0)
    stage = results / STAGE / (session.stamp + PART)
    stage.mkdir(parents=True)
    seconds, names = arguments.time_limit, named(nodes, results)
    words = ['salloc', '--no-shell', '--exclusive', '--no-kill', '--job-name=plumbline-sweep', '--immediate=60',
             f'--nodes={len(nodes)}', f'--nodelist={names}', f'--time={max(1, seconds // 60)}',
             f'--chdir={stage}']  # fmt: skip
    asked = subprocess.run(
        [*words, *access_options(partition)], cwd=stage, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    job = re.search(r'Granted job allocation (\d+)', asked.stderr)
    if not job:
        return session, ' '.join(asked.stderr.split())
    print(f'plumbline: job {job[1]} holds {len(nodes)} nodes for at most {seconds} s', flush=True)
    until = time.time() + max(seconds - MARGIN, seconds / 2)
    variables = {'PLUMBLINE_SWEEP': names, 'PLUMBLINE_SWEEP_UNTIL': str(int(until)), 'SLURM_JOB_ID': job[1]}
    try:
        run = Run([*reframe, *session.options(PART)], session, time.monotonic() + seconds + READING, variables)
        run.wait()
        return session, run.ended_by
    finally:
        ask('scancel', job[1])
        cancel_jobs_below(stage)


def earlier(results: Path, reframe: list[str]) -> list[dict[str, Any]]:
    """What a sweep of the same cases left that was ended before it had all nodes."""
    try:
        state = json.loads((results / STATE).read_text(encoding='utf-8'))
        same = state['command'] == reframe and 0 <= time.time() - state['time'] < CARRIED_ON_FOR
        return state['done'] if same else []
    except (OSError, ValueError, KeyError):
        return []


def remember(results: Path, reframe: list[str], done: list[dict[str, Any]]):
    save(results / STATE, {'command': reframe, 'time': time.time(), 'done': done})


def conclude(done: list[dict[str, Any]], problems: list[str], results: Path) -> int:
    """One session of all allocations; stored, judged and looked through for nodes that stand out."""
    contents = [json.loads(Path(chunk['report']).read_text(encoding='utf-8')) for chunk in done]
    names = [{case['display_name'] for case in cases_in(content)} for content in contents]
    for chunk, ran in zip(done, names, strict=True):  # a single node that is left over has no pairs
        lacks = sorted(set().union(*names) - ran)
        problems += [f'{name}: not run on {some(chunk["nodes"])}' for name in lacks]
    content = split(contents)
    path = results / 'reports' / Path(done[-1]['report']).name.replace(PART, '')
    save(path, content)
    ran = cases_in(content)
    for case in ran:
        if case['result'] != 'pass':
            print(f'plumbline: {case["display_name"]}: {case["fail_reason"]}')
    uuid = content['session_info']['uuid']
    notes = [f'--problem={sentence}' for sentence in problems]
    if code := plumbline('ingest', str(path), f'--expected={len(ran)}', *notes, results=results):
        return code
    (results / STATE).unlink(missing_ok=True)
    plumbline('report', uuid, results=results)
    code = plumbline('compare', uuid, '--summary', f'--junit={path.with_suffix(".xml")}', results=results)
    print(f'plumbline: which nodes stand out: plumbline fleet {uuid[:8]} --results={results}')
    return code


def cases_in(content: Content) -> list[dict[str, Any]]:
    return [case for run in content['runs'] for case in run['testcases'] if not case['fixture']]


def split(contents: list[Content]) -> Content:
    """The run report with a case for each place of each swept case, as ReFrame would write of ``--distribute``."""
    cases = []
    for case in (case for content in contents for run in content['runs'] for case in run['testcases']):
        places = case.get('record', {}).get('swept', []) if isinstance(case.get('record'), dict) else []
        if case['fixture'] or not places:
            cases.append(case)
            continue
        for place in places:
            record = dict(place)
            faults, breaches, nodes = record.pop('faults'), record.pop('breaches'), record['job']['nodes']
            wrong, phase = (faults, 'sanity') if faults else (breaches, 'performance')
            name = f'{case["display_name"]} %.nid={",".join(nodes)}'
            cases.append(case | {
                'display_name': name, 'unique_name': f'{case["unique_name"]}_{"_".join(nodes)}', 'record': record,
                'job_nodelist': nodes, 'jobid': record['job']['id'], 'scheduler': 'slurm', 'perfvalues': {},
                'result': 'fail' if wrong else 'pass', 'fail_phase': phase if wrong else None,
                'fail_reason': f'{",".join(nodes)}: {"; ".join(wrong[:3])}' if wrong else None,
            })  # fmt: skip
    last = contents[-1]
    info = last['session_info'] | {'time_start_unix': contents[0]['session_info']['time_start_unix']}
    info['cmdline'] += ' --distribute'  # or nobody could tell that these are not all cases of the mode
    return {'session_info': info, 'runs': [{'run_index': 0, 'testcases': cases}]}


if __name__ == '__main__':
    sys.exit(main())

"""Runs chosen checks before and after a change, interleaved A B A B on the same nodes, and compares them in pairs.

``--before`` and ``--after`` are shell commands that put each state in place: ``module swap``, ``export
PLUMBLINE_SOFTWARE=...``, a script that changes the nodes. They run in the shell that then becomes ReFrame, so what
they export reaches the jobs. Sessions stay in a store of their own below ``<results>/changes``: they are no nights.
Exit code of ``plumbline compare``: 1 where a metric became worse or could not be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from ci.nightly import Stop, check_files, duration, list_cases, locked, plumbline
from ci.session import Run, Session, last_of_each
from plumbline.paths import ROOT
from plumbline.references import MODES
from postprocess.results.store import Store
from postprocess.verdicts.windows import compare_windows
from postprocess.views import verdicts as views


def main() -> int:
    arguments = parse(sys.argv[1:])
    return locked(arguments, lambda site, results: compare_change(site.name, arguments, results))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='ci/compare-change', description=__doc__.splitlines()[0])
    parser.add_argument('--before', default='true', metavar='COMMAND', help='shell command for the state before')
    parser.add_argument('--after', default='true', metavar='COMMAND', help='shell command for the state after')
    parser.add_argument('--rounds', type=int, default=4, help='sessions of each state (default: %(default)s)')
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    parser.add_argument('--mode', choices=MODES, default='quick', help='whose checks and trials (default: %(default)s)')
    parser.add_argument(
        '--duration', type=duration, default='4h', metavar='TIME', help='of all together (default: %(default)s)'
    )
    parser.add_argument('--results', help='results directory (default: $PLUMBLINE_RESULTS or results/ of the clone)')
    parser.add_argument('selection', nargs='*', metavar='-- REFRAME_OPTION', help="after --: ReFrame's own selection")
    arguments = parser.parse_args(words)
    if arguments.before == arguments.after:
        parser.error('--before and --after: expected two commands that differ')
    if arguments.rounds < 1:
        parser.error(f'argument --rounds: expected 1 or more, found {arguments.rounds}')
    return arguments


def compare_change(site: str, arguments: argparse.Namespace, results: Path) -> int:
    files, problems = check_files(ROOT / 'checks')
    reframe = ['reframe', '-C', str(ROOT / 'reframe_settings/settings.py'), '-R', *(f'-c{path}' for path in files)]
    reframe += [f'--system={site}', f'--mode={arguments.mode}', *arguments.selection]
    cases, trouble = list_cases(reframe)
    if not cases:
        raise Stop('no case can run here')
    for problem in [*problems, *trouble]:
        print(f'plumbline: {problem}', file=sys.stderr)
    home = results / 'changes' / time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())
    for folder in ('reports', 'logs'):
        (home / folder).mkdir(parents=True)
    print(f'plumbline: {len(cases)} cases, {arguments.rounds} times before and after the change: {home}', flush=True)

    deadline = time.monotonic() + arguments.duration
    uuids: dict[str, list[str]] = {'before': [], 'after': []}
    nodes: dict[str, list[str]] = {}
    for number in range(1, arguments.rounds + 1):
        for state, command in (('before', arguments.before), ('after', arguments.after)):
            print(f'plumbline: {state}, {number} of {arguments.rounds}', flush=True)
            session = Session(str(home), f'{number}-{state}', site, arguments.mode, reframe, len(cases), time.time())
            shell = ['bash', '-c', f'{command}\n[ $? -eq 0 ] || exit; exec "$@"', 'compare-change']
            run = Run([*shell, *reframe, *session.options()], session, deadline,
                      {'PLUMBLINE_JOB_OPTIONS': json.dumps(nodes)})  # fmt: skip
            code = run.wait()
            if not session.report.exists():
                raise Stop(f'{state}: the command or ReFrame ended with exit code {code}: {session.log}')
            content = session.content()
            nodes = nodes or nodes_of(content)
            said = [f'--problem={run.ended_by}'] if run.ended_by else []
            if code := plumbline('ingest', str(session.report), f'--expected={len(cases)}', *said, results=home):
                return code
            uuids[state].append(content['session_info']['uuid'])
            if run.ended_by and not run.may_go_on:
                raise Stop(f'ended in round {number} of {arguments.rounds}: {run.ended_by}; the sessions are in {home}')
    store = Store(home)
    comparison = compare_windows(store, *([store.find(uuid) for uuid in uuids[state]] for state in ('before', 'after')))
    print(views.comparison(comparison).render('table'), end='')
    return comparison.exit_code


def nodes_of(content: dict) -> dict[str, list[str]]:
    """Slurm's options that bring each case of a session back to the nodes where it ran, by ReFrame's hash."""
    return {
        case['hashcode']: [f'--nodelist={",".join(case["job_nodelist"])}']
        for case in last_of_each(content)
        if not case['fixture'] and case['job_nodelist'] and case['scheduler'] in ('slurm', 'squeue')
    }


if __name__ == '__main__':
    sys.exit(main())

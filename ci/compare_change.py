# SPDX-License-Identifier: BSD-3-Clause
"""Run chosen checks before and after a change in turn, on the same nodes, until the answer is decided.

``--before`` and ``--after`` are shell commands that put each state in place: ``module swap``, ``export
PLUMBLINE_SOFTWARE=...``, a script that changes the nodes. They run in the shell that then becomes ReFrame, and what
they export reaches the jobs. The sessions have a store of their own below ``<results>/changes``: they are no nights.
It ends when a metric is worse for certain; with ``--to-the-end``, when each metric is decided.
Exit code 1 where a metric became worse or was lost, 3 where nothing did and some could not be told, 0 where all are ok.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection
from pathlib import Path

from ci import command, no_case, so_far
from ci.cases import Case, Content, case_of, cases_in, left_out, name_of, on_their_nodes
from ci.command import duration, positive
from ci.pairs import PairsOutcome, compare_pairs
from ci.process import Ended
from ci.session import CaseSelection, PlannedSession
from plumbline import settings
from plumbline.errors import InputError
from plumbline.files import make_folder
from plumbline.identity import SeriesId
from plumbline.problems import Problem
from plumbline.references import MODES
from plumbline.site.sites import Site
from postprocess.text import count

# Becomes ReFrame in the state that `command` makes, and names what it exported: jobs get no other unknown variables
_SHELL = f"""_exported=$(export -p)
{{command}}
[ $? -eq 0 ] || exit
_exported=$(export -p | grep -vxFf <(echo "$_exported"))
export {settings.EXPORTED.name}=$(sed -n 's/^declare -x \\([[:alnum:]_]*\\)=.*/\\1/p' <<< "$_exported")
exec "$@"
"""


def main() -> int:
    arguments = parse(sys.argv[1:])
    return command.run(arguments, lambda site, results: compare_change(site, arguments, results))


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('compare-change', __doc__)
    command.add_common_options(parser)
    parser.add_argument('--before', default='true', metavar='COMMAND', help='shell command for the state before')
    parser.add_argument('--after', default='true', metavar='COMMAND', help='shell command for the state after')
    parser.add_argument(
        '--same', action='store_true',
        help='measure the state before twice, and say how many metrics this gate tells as worse here though none is',
    )  # fmt: skip
    parser.add_argument(
        '--smallest', type=loss, default='5%', metavar='LOSS',
        help='the loss of performance that matters, where a check states no larger one (default: %(default)s)',
    )  # fmt: skip
    parser.add_argument('--to-the-end', action='store_true', help='decide the other metrics, too, after one is worse')
    parser.add_argument('--mode', choices=MODES, default='quick', help='whose checks and trials (default: %(default)s)')
    add_limits(parser, rounds=16)
    arguments = parser.parse_args(words)
    if arguments.same:
        if arguments.after != 'true':
            parser.error('--same measures the state before twice: give no --after')
        arguments.after, arguments.to_the_end = arguments.before, True
    elif arguments.before == arguments.after:
        parser.error('--before and --after: expected two commands that differ')
    return arguments


def add_limits(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Add the options that limit a comparison, with so many rounds by default."""
    parser.add_argument(
        '--rounds', type=positive, default=rounds, help='sessions of each state, at most (default: %(default)s)'
    )
    parser.add_argument(
        '--duration', type=duration, default='4h', metavar='TIME', help='of all together (default: %(default)s)'
    )


def loss(text: str) -> float:
    """Return the share that a text such as ``5%`` or ``0.05`` states, for argparse."""
    try:
        share = float(text.removesuffix('%')) / (100 if text.endswith('%') else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f'expected a loss such as 5%, found {text}')
    return share


def compare_change(site: Site, arguments: argparse.Namespace, results: Path) -> int:
    """Return the exit code of the comparison; the caller holds the lock of the results directory."""
    change = measure(site, arguments, results)
    print(change.text, end='')
    if arguments.same and change.wrong:
        print(change.wrong)
    return change.exit_code


def measure(site: Site, arguments: argparse.Namespace, results: Path, only: Collection[SeriesId] = ()) -> PairsOutcome:
    """Return what became of the series `only`, of all by default, once that is decided; say each step."""
    selection = CaseSelection(site.name, arguments.mode, tuple(arguments.selection))
    cases = _listed(selection, arguments.selection, site)
    home = results / 'changes' / time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())
    for folder in ('reports', 'logs'):
        make_folder(home / folder)
    print(f'plumbline: {count(len(cases), "case")} before and after the change: {home}', flush=True)

    states = {'before': arguments.before, 'after': arguments.after}
    deadline = time.monotonic() + arguments.duration
    pairs: list[tuple[str, str]] = []
    nodes: dict[Case, list[str]] = {}
    undecided, change = None, PairsOutcome('', 3, frozenset())
    for number in range(1, arguments.rounds + 1):
        began, uuids = time.monotonic(), {}
        # Each state is first in turn, so that a drift slows both alike
        for state in sorted(states, reverse=number % 2 == 1):
            print(f'plumbline: {state}, {number} of {arguments.rounds} at most', flush=True)
            session = PlannedSession.new(home, selection, len(undecided or cases), f'{number}-{state}')
            shell = ['bash', '-c', _SHELL.format(command=states[state]), 'compare-change']
            wanted = {case: nodes[case] for case in undecided or nodes if case in nodes}
            ended = session.run(deadline, wanted or None, shell=shell)  # nosec B604  text for the job
            if not session.report.exists() and (ended.told_to_end or not ended.why):
                raise InputError(f'{state}: the command or ReFrame ended with exit code {ended.code}: {session.log}')
            content = _stored(session, ended, len(undecided or cases), site)
            if ended.told_to_end:
                where = f'ended in round {number} of {arguments.rounds}: {ended.why}'
                if ended.by_signal or not pairs:
                    raise InputError(f'{where}; the sessions are in {home}')
                print(f'plumbline: {where}; the rounds before it decide', flush=True)
                return change
            if ended.why:
                print(f'plumbline: round {number} does not count: {state}: {ended.why}', flush=True)
                break
            nodes = nodes or on_their_nodes(cases_in(content), site)
            uuids[state] = content['session_info']['uuid']
        if len(uuids) < len(states):
            continue
        pairs.append((uuids['before'], uuids['after']))
        change = compare_pairs(home, pairs, arguments.smallest, only)
        undecided = {case_of(case) for case in cases_in(content) if name_of(case) in change.undecided}
        if not undecided:
            break
        if change.exit_code == 1 and not arguments.to_the_end:
            others = f'{count(len(undecided), "case")} with other metrics undecided; --to-the-end goes on with them'
            print(f'plumbline: a metric is worse or lost, so the change fails; {others}')
            break
        took = time.monotonic() - began
        if time.monotonic() + took > deadline:
            print(f'plumbline: no time for another round of {took:.0f} s', flush=True)
            break
        print(f'plumbline: {count(len(undecided), "case")} undecided', flush=True)
    return change


def _listed(selection: CaseSelection, words: list[str], site: Site) -> dict[Case, str]:
    """Return the cases of a selection, by `words`, with their names. Raises InputError if there is none."""
    cases, problems = selection.list_cases()
    *lacks, why = [*problems, ''] if cases else no_case.reasons(selection, words, site)
    for lack in lacks:
        print(f'plumbline: {lack}', file=sys.stderr)
    if not cases:
        raise InputError(why)
    return cases


def _stored(session: PlannedSession, ended: Ended, expected: int, site: Site) -> Content:
    """Store a session of so many cases, also one of a ReFrame that was killed; return its run report."""
    content = session.content()
    session.write(content)
    problems = [f'{case["display_name"]}: {reason}' for case in cases_in(content) if (reason := left_out(case))]
    problems = [ended.why] * bool(ended.why) + problems
    so_far.store(Path(session.results), session.report, expected, [*map(Problem, problems)], site.name)
    session.forget()
    return content


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Find which of the libraries that changed when an incident began explains it.

The case that lost most runs as it is now and, in turn, with the old libraries that are still on this machine, loaded in
place of the new ones (LD_PRELOAD): first all of them, then half of what is left, until one remains.
Exit code 0: one library explains the loss; 3: none, or it cannot be told; 2: usage or input error.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ci import command, compare_change
from ci.extras.suspects import Suspects, suspects
from plumbline.errors import InputError
from plumbline.identity import name_pattern
from plumbline.site.sites import Site

_EXPLAINED = 0.6  # share of the incident's loss that a library must explain: of two that cost the same, none does
#: Returns how much performance the case lost, in words, compared with the same case with these old libraries;
#: empty if it did not, None if that cannot be told.
Explains = Callable[[Sequence[str]], str | None]


def main() -> int:
    arguments = parse(sys.argv[1:])
    return command.run(arguments, lambda site, results: why(site, arguments, results))


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('why', __doc__)
    command.add_common_options(parser)
    parser.add_argument('id', metavar='ID', help='the incident, as `plumbline incidents` names it')
    compare_change.add_limits(parser, rounds=8)
    return parser.parse_args(words)


def why(site: Site, arguments: argparse.Namespace, results: Path) -> int:
    """Return the exit code of the search; the caller holds the lock of the results directory."""
    found = suspects(results, arguments.id, site.name)
    print(f'plumbline: {found.incident}', flush=True)
    for sentence in found.others:
        print(f'plumbline: cannot be undone here: {sentence}', flush=True)
    if not found.libraries:
        print('plumbline: cannot tell: no old library that this program loads is still on this machine')
        return 3
    print(f'plumbline: old libraries that are still here: {", ".join(found.libraries)}')
    deadline = time.monotonic() + arguments.duration

    def explains(names: Sequence[str]) -> str | None:
        """Measure the case with these old libraries, and as it is now."""
        files = ':'.join(file for name in names for file in found.libraries[name])
        print(f'plumbline: measures with the old {", ".join(names)}', flush=True)
        left = max(int(deadline - time.monotonic()), 1)
        change = compare_change.measure(site, _comparison(arguments, found, files, left), results, {found.series})
        lacking = [file for name in names for file in found.libraries[name] if file not in change.preloaded]
        if lacking:  # else a loader or scheduler that drops them reads as a library that explains nothing
            raise InputError(f'{lacking[0]}: not every job of {found.case} loaded it, though LD_PRELOAD names it')
        if change.exit_code == 1 and not change.worst:  # a session failed, or a metric was lost
            print(change.text, end='')
            return None
        return {1: change.worst, 0: ''}.get(change.exit_code)

    name, words = search(list(found.libraries), explains)
    if name:
        print(f'EXPLAINED: {name}: {words}')
        return 0
    print(f'CANNOT TELL: {words}')
    return 3


def search(names: Sequence[str], explains: Explains) -> tuple[str, str]:
    """Return the library that explains the loss, and how much it explains; else an empty name, and why there is none.

    The sides of a comparison differ in one half of what is left. The one that remains was measured alone.
    """
    left, words = list(names), explains(names)
    if words is None:
        return '', f'with the old {", ".join(names)} the difference is not decided'
    if not words:
        return '', f'it is as slow with the old {", ".join(names)}'
    while len(left) > 1:
        half, others = left[: len(left) // 2], left[len(left) // 2 :]
        said = explains(half)
        if said is None and not (words := explains(others)):  # on a busy machine, only a difference is certain
            return '', f'it is one of {", ".join(left)}; with half of them old, the difference is not decided'
        left, words = (half, said) if said else (others, words if said is None else '')
    words = words or explains(left)  # it remained because the others did not explain it
    if not words:
        decided = 'is not decided' if words is None else 'explains nothing'
        return '', f'the old {", ".join(names)} together explain it, but {left[0]}, which remains, {decided} by itself'
    return left[0], words


def _comparison(arguments: argparse.Namespace, of: Suspects, files: str, left: int) -> argparse.Namespace:
    """Return the arguments of a comparison of the case with the libraries `files`, and as it is now."""
    preload = f'export LD_PRELOAD={shlex.quote(files)}${{LD_PRELOAD:+:$LD_PRELOAD}}'
    smallest, where = max(_EXPLAINED * of.loss, 0.01), f'--system={of.site}:{of.series.partition}'
    return compare_change.parse([
        f'--before={preload}', '--after=true', f'--mode={of.mode}', f'--rounds={arguments.rounds}',
        f'--smallest={smallest}', f'--duration={left}s', '--', where, '-n', f'{name_pattern(of.case)}$',
        *arguments.selection,
    ])  # fmt: skip


if __name__ == '__main__':
    sys.exit(main())

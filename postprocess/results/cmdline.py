"""Read which cases were selected from the command line of a plain ``reframe``; our drivers record it as data."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Selection:
    """Which cases a ReFrame run was asked for.

    `selection`: each option that chooses cases as ``option=value``, with ReFrame's long name of it: ``name=Osu``,
    ``system=cluster:cpu``, ``cpu-only``. `narrowed_by`: those that left cases out, such as ``--name``.
    """

    mode: str | None = None
    site: str | None = None
    partition: str | None = None
    narrowed_by: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    """Return a parser of ReFrame's options that choose cases, and of the flags that may share a word with them."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    for short, long in (
        ('-n', '--name'), ('-x', '--exclude'), ('-T', '--exclude-tag'), ('-t', '--tag'), ('-E', '--filter-expr'),
        ('-p', '--prgenv'), (None, '--maintainer'),
    ):  # fmt: skip
        parser.add_argument(*filter(None, (short, long)), action='append', default=[])
    for long in ('--distribute', '--restore-session'):
        parser.add_argument(long, nargs='?', const='')
    for long in ('--cpu-only', '--gpu-only', '--failed'):
        parser.add_argument(long, action='store_true')
    for long in ('--mode', '--system'):
        parser.add_argument(long)
    for flag in 'rRvq':
        parser.add_argument(f'-{flag}', action='count', dest=f'flag_{flag}')
    return parser


_NARROWING = (
    'name', 'exclude', 'exclude_tag', 'tag', 'filter_expr', 'prgenv', 'maintainer', 'distribute', 'restore_session',
    'cpu_only', 'gpu_only', 'failed',
)  # fmt: skip


def read_cmdline(text: str, mode: str | None = None) -> Selection:
    """Return the selection of a command line. `mode`: what the session itself names; without it ``--mode`` counts.

    A tag equal to the mode leaves no case out: a mode selects by its own tag.
    """
    try:
        options, _ = _parser().parse_known_args(shlex.split(text)[1:])
    except ValueError as error:  # ReFrame would not accept it either
        return Selection(mode=mode, narrowed_by=(f'an unreadable command line ({error})',))
    mode = mode or options.mode
    selection = tuple(_asked(options))
    options.tag = [tag for tag in options.tag if tag != mode]
    site, _, partition = (options.system or '').partition(':')
    used = (name for name in _NARROWING if getattr(options, name) not in (None, False, []))
    narrowed = tuple(f'--{name.replace("_", "-")}' for name in used)
    return Selection(mode, site or None, partition or None, narrowed, selection)


def _asked(options: argparse.Namespace) -> Iterator[str]:
    for name in ('mode', 'system', *_NARROWING):
        given = getattr(options, name)
        for value in given if isinstance(given, list) else [given]:
            if value not in (None, False):
                yield name.replace('_', '-') + (f'={value}' if value not in (True, '') else '')

# SPDX-License-Identifier: BSD-3-Clause
"""Read from the command line of a plain ``reframe`` which cases were selected; our drivers record this as data."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from typing import NoReturn

# ReFrame's options that leave cases out: options that may be repeated, with an optional value, and without a value
_LISTS = {
    '--name': '-n', '--exclude': '-x', '--exclude-tag': '-T', '--tag': '-t', '--filter-expr': '-E', '--prgenv': '-p',
    '--maintainer': None,
}  # fmt: skip
_PERHAPS_WITH_VALUE = ('--distribute', '--restore-session')
_SWITCHES = ('--cpu-only', '--gpu-only', '--failed')
_DRY_RUN = '--dry-run'


@dataclass(frozen=True)
class Chosen:
    """The cases that a ReFrame run was asked for.

    `selection`: each option that chooses cases, as ``option=value`` with ReFrame's long name of the option:
    ``name=Osu``, ``system=cluster:cpu``, ``cpu-only``. `narrowed_by`: the options that left cases out, such as
    ``--name``. `is_dry_run`: nothing was executed.
    """

    mode: str | None = None
    site: str | None = None
    narrowed_by: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()
    is_dry_run: bool = False


class _ReframeOptions(argparse.ArgumentParser):
    """A parser that raises ValueError where argparse would end the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    """Return a parser for ReFrame's options that choose cases, and for the flags that may share a word with them."""
    parser = _ReframeOptions(add_help=False)  # with abbreviated options, as ReFrame's
    for long in ('--mode', '--system'):
        parser.add_argument(long, dest=long)
    for long, short in _LISTS.items():
        parser.add_argument(*filter(None, (short, long)), dest=long, action='append', default=[])
    for long in _PERHAPS_WITH_VALUE:
        parser.add_argument(long, dest=long, nargs='?', const='')
    for long in _SWITCHES:
        parser.add_argument(long, dest=long, action='store_const', const='')
    parser.add_argument(_DRY_RUN, dest=_DRY_RUN, action='store_true')
    for flag in 'rRvq':
        parser.add_argument(f'-{flag}', action='count')
    return parser


def read_cmdline(text: str, mode: str | None = None) -> Chosen:
    """Return the selection of a command line; `mode`: the session's own mode, None: the one of ``--mode``.

    A tag equal to the mode leaves no case out, because a mode selects by its own tag.
    """
    try:
        options = vars(_parser().parse_known_args(shlex.split(text)[1:])[0])
    except ValueError as error:  # ReFrame would not accept this command line either
        return Chosen(mode=mode, narrowed_by=(f'an unreadable command line ({error})',))
    mode = mode or options['--mode']
    site = (options['--system'] or '').partition(':')[0]
    asked = [
        (name, value)
        for name in ('--mode', '--system', *_LISTS, *_PERHAPS_WITH_VALUE, *_SWITCHES)
        for value in (options[name] if isinstance(options[name], list) else [options[name]])
        if value is not None
    ]
    selection = tuple(name[2:] + (f'={value}' if value else '') for name, value in asked)
    free = {('--tag', mode), ('--mode', options['--mode']), ('--system', options['--system'])}
    narrowed_by = tuple(dict.fromkeys(name for name, value in asked if (name, value) not in free))
    return Chosen(mode, site or None, narrowed_by, selection, options[_DRY_RUN])


def without_names(text: str) -> list[str]:
    """Return the words of a command line without its option ``--name``; no words if it cannot be read."""
    parser = _ReframeOptions(add_help=False)
    parser.add_argument('-n', '--name', action='append')
    try:
        program, *words = shlex.split(text)
        apart = [part for word in words for part in re.sub(r'^(-[lrRvq]+)n(.*)', r'\1\0-n\2', word).split('\0')]
        return [program, *parser.parse_known_args(apart)[1]]
    except ValueError:
        return []

# SPDX-License-Identifier: BSD-3-Clause
"""What all commands share: the application, its options and its output."""

from __future__ import annotations

import gc
import io
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TextIO, TypeVar

import typer
from typer.core import TyperGroup

from plumbline.errors import InputError, SiteError
from plumbline.files import keep_others_from_writing
from plumbline.signals import Signalled, ending_signals, ignore

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.results.store import Session, Store
    from postprocess.verdicts.verdict import Comparison
    from postprocess.views.table import View

_Function = TypeVar('_Function', bound=Callable[..., Any])
#: Regular expression of words -> the style in which a terminal shows them.
_STYLES = {
    r'^FAILED:|\b(regressed|missing|failed|invalid)\b': '1;31', '^NEEDS A LOOK:|\bwarning\b': '1;33', '^OK:': '1;32',
    r'^[0-9a-f]{6}(?= )': '1', r'^ *\$ .*(?:\\\n.*)*': '36',
}  # fmt: skip


class CommandGroup(TyperGroup):
    """Commands, in whose list each has its first sentence in full."""

    #: Title of a part of the list -> its commands; without any, all that no part before it has.
    parts: Mapping[str, Sequence[str]] = {'Commands': ()}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands, part by part."""
        left = {name: command.help or '' for name, command in self.commands.items()}
        for title, names in self.parts.items():
            part = [(name, re.split(r'(?<=\.)\s', left.pop(name), maxsplit=1)[0]) for name in names or [*left]]
            if part:
                with formatter.section(title):
                    formatter.write_dl(part)


class _Commands(CommandGroup):
    """The group of all commands; it reports an input or file system error as one sentence, with exit code 2.

    `debug`: print the traceback before the sentence.
    """

    debug = False
    parts = {
        'In the first week': ('status', 'compare', 'report', 'incidents', 'record', 'sites'),
        'Set up a site': ('init', 'probe', 'demo'),
        'Nodes and history': ('fleet', 'node-check', 'trend', 'plan'),
        'Results': ('ingest', 'gate', 'export', 'store'),
        'Extras': (),
    }

    def __init__(self, **given: Any):
        super().__init__(**given)
        below = [
            command for group in self.commands.values() for command in (group, *getattr(group, 'commands', {}).values())
        ]
        for command in below:  # the help of other commands says when the exit code is 1
            if 'xit code' not in (command.help or ''):
                command.epilog = 'Exit code: 0, or 2 if the input cannot be used.'

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with. Raises InputError for a program of ci/."""
        from plumbline.paths import ROOT

        name = args[0] if args else ''
        is_of_ci = re.fullmatch('[a-z-]+', name) and (ROOT / 'ci' / name).is_file()
        if is_of_ci and name not in self.commands:
            raise InputError(f'{name}: is no command of plumbline but a program of the checkout: ci/{name}')
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; print input and file system errors on standard error and end with exit code 2."""
        try:
            return super().main(*args, **kwargs)
        except (OSError, InputError, SiteError) as error:
            if self.debug:
                traceback.print_exception(error)
            if isinstance(error, OSError) and error.filename:
                complain(f'{error.filename}: {error.strerror}')
            else:
                complain(error)
        sys.exit(2)


class _Output(io.FileIO):
    """Standard output. If its reader goes away, as with `| head`, work and exit code do not change."""

    def write(self, data: Any) -> int:
        """Write `data`; discard it if its reader has gone away. Raises OSError."""
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # discard what follows, too
            if isinstance(error, BrokenPipeError):
                return len(data)
            raise OSError(error.errno, error.strerror, 'standard output') from None


def complain(fault: object) -> None:
    """Print `fault` as one line on standard error, even if it contains line feeds."""
    typer.echo(f'plumbline: {" ".join(str(fault).split())}', err=True)


def say(text: str, for_people: bool = True) -> None:
    """Print a text; on a terminal, its verdict and bad words have a colour. NO_COLOR and FORCE_COLOR override that."""
    force = bool(os.environ.get('FORCE_COLOR'))
    if for_people and not os.environ.get('NO_COLOR') and (force or sys.stdout.isatty()):
        for words, style in _STYLES.items():
            text = re.sub(words, rf'\033[{style}m\g<0>\033[0m', text, flags=re.MULTILINE)
    typer.echo(text, nl=False, color=force or None)


def show(view: View, format: str, width: int | None = None) -> None:
    """Print a view; except with a table, its notes go to standard error. Its faults always do.

    `width`: of a table if there is no terminal; None: as wide as its texts.
    """
    on_terminal = format == 'table' and sys.stdout.isatty()
    say(view.render(format, shutil.get_terminal_size().columns if on_terminal else width), format == 'table')
    for note in view.notes if format != 'table' else ():
        typer.echo(note, err=True)
    for fault in view.faults:
        complain(fault)


def sessions_named(store: Store, name: str, site: str | None = None) -> list[Session]:
    """Return the session whose uuid begins with `name`, the ``latest``, or all that started in the days ``FROM..TO``.

    Days are UTC, both included. Raises InputError if there is no such session.
    """
    if '..' not in name:
        return [store.find(name, site)]
    try:
        first, last = map(date.fromisoformat, name.split('..'))
    except ValueError:
        raise InputError(f'{name}: expected two days such as 2026-11-01..2026-11-30') from None
    newest = store.find('latest', site)
    sessions = [session for session in store.sessions(newest.site) if first <= session.started.date() <= last]
    if not sessions:
        raise InputError(f'{store.folder}: no session started in the days {name}')
    return sessions


def write_junit(path: Path | None, comparison: Comparison, digest: Digest | None) -> None:
    """Write verdicts as JUnit XML, if a file is given."""
    if path:
        from plumbline.files import write_whole
        from postprocess.report.junit import to_junit

        write_whole({path: lambda stream: stream.write(to_junit(comparison, digest))})


def end_with(code: int, faults: Sequence[str]) -> NoReturn:
    """Print the faults of an answer and end the command: with `code`, or with 2 if the answer lacks a part."""
    for fault in faults:
        complain(fault)
    raise typer.Exit(2 if faults else code)


# rich_markup_mode=None: help in plain text appears twice as fast
app = typer.Typer(
    cls=_Commands, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True,
    context_settings={'help_option_names': ['-h', '--help']},
    help='Check whether this machine still performs as it did when it was accepted. '
    'Exit codes: 0 all ok, 1 something regressed, is missing or failed, 2 the input cannot be used. '
    'What measures are programs of the checkout: ci/nightly every night; also ci/node-sweep, ci/compare-change, '
    'ci/provision and others in ci/.',
)  # fmt: skip


def _print_version(wanted: bool) -> None:
    """Print the version and end the command, if it is wanted."""
    if wanted:
        from plumbline.checkout import version

        typer.echo(f'plumbline {version()}')
        raise typer.Exit


@app.callback()
def _settings(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option('--version', callback=_print_version, is_eager=True, help='Print the version and exit.')
    ] = False,
    debug: Annotated[bool, typer.Option('--debug', help='Print the traceback of an input error, too.')] = False,
    sites: Annotated[
        str, typer.Option('--sites', metavar='DIR[:DIR]', help='Folders of your own site folders; the first wins.')
    ] = '',
) -> None:
    """Apply the options that come before the command."""
    context.command.debug = debug  # type: ignore[attr-defined]
    if sites:
        from plumbline.paths import choose_sites

        choose_sites(sites)


def _there(option: typer.CallbackParam, given: Path | None) -> Path | None:
    """Return the folder of an option. Raises InputError if there is none: it would seem that it holds nothing."""
    if given and not given.is_dir():
        raise InputError(f'{option.opts[0]}: {given}: there is no such folder')
    return given


def _results(option: typer.CallbackParam, given: Path | None) -> Path:
    """Return the results directory: the given one, else the one that ReFrame writes to. Raises InputError."""
    return _usable(_there(option, given))


def _usable(given: Path | None) -> Path:
    """Return the results directory, which need not exist. Raises InputError if its name cannot be used."""
    from plumbline.paths import results_directory, usable
    from plumbline.results import refuse_writable_by_all

    results = usable(given.absolute()) and given if given else results_directory()
    if str(results).encode(errors='ignore').decode() != str(results):  # Arrow and DuckDB accept only names in UTF-8
        raise InputError(f'{results}: expected a results directory whose name is UTF-8')
    refuse_writable_by_all(results)
    return results


def a_folder(text: str) -> Path:
    """Return the folder that a word names, which need not exist. Raises BadParameter."""
    if not text:  # a variable of the shell that is not set; a Path would be the current folder
        raise typer.BadParameter('expected a folder, found an empty text')
    if Path(text).exists() and not Path(text).is_dir():
        raise typer.BadParameter(f'expected a folder, found the file {text}')
    return Path(text)


def in_a_folder(given: Path | None) -> Path | None:
    """Return the file to write. Raises InputError if its folder does not exist: it is not made."""
    if given and not given.parent.is_dir():
        raise InputError(f'{given}: there is no folder {given.parent}; make it, or correct the name')
    return given


#: Option with its command, such as ``init --suite`` -> the function of an extra that carries it out.
BY_EXTRAS: dict[str, Callable[..., Any]] = {}


def carries_out(option: str) -> Callable[[_Function], _Function]:
    """Return a decorator for the function by which an extra carries out an option."""

    def register(function: _Function) -> _Function:
        BY_EXTRAS[option] = function
        return function

    return register


def by_extra(option: str) -> Callable[..., Any]:
    """Return the function that carries out an option. Raises InputError if its extra was removed."""
    if option not in BY_EXTRAS:
        raise InputError(f'{option}: its folder of postprocess/extras is not there')
    return BY_EXTRAS[option]


def _of_results(callback: Callable[..., Path], more: str = '') -> Any:
    """Return the option for the results directory."""
    default = '[default: $PLUMBLINE_RESULTS, else results/ of this clone]'
    about = f'Directory with the run reports and the store{more}. {default}'
    return typer.Option('--results', parser=a_folder, metavar='RESULTS', callback=callback, help=about)


#: Value of an option that was not given; the callback of the option returns the path to use instead.
DEFAULT: Any = None
Results = Annotated[Path, _of_results(_results)]
NewResults = Annotated[Path, _of_results(_usable, '; made where it is not there')]
References = Annotated[
    Path | None,
    typer.Option(
        '--references', parser=a_folder, metavar='REFERENCES', callback=_there,
        help='Folder of site folders, in place of site_configs/.',
    ),
]  # fmt: skip
SiteName = Annotated[str | None, typer.Option('--site', envvar='PLUMBLINE_SITE', help='Only this site.')]
SessionName = Annotated[
    str, typer.Argument(metavar='SESSION', help='Beginning of its uuid, or "latest", the last that started.')
]
Reruns = Annotated[
    list[Path] | None,
    typer.Option(
        '--rerun', metavar='REPORT',
        help='Run report of a rerun, on the same nodes or on others; may be given again. A series beyond its limit '
        'fails only if the median of all its values is beyond it, too.',
    ),
]  # fmt: skip
Junit = Annotated[
    Path | None, typer.Option(help='Write the verdicts as JUnit XML, too.', dir_okay=False, callback=in_a_folder)
]
Format = Annotated[Literal['table', 'markdown', 'json', 'csv'], typer.Option('--format', help='How to print it.')]


def days_before(help: str) -> Any:
    """Return an option for a number of days, at most a century so that a date can be computed."""
    return typer.Option(min=1, max=36525, help=help)


def main() -> None:
    """Run the command line."""
    gc.disable()  # a command needs most objects until it ends; collection would take a tenth of the time
    keep_others_from_writing()
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)
    with ending_signals():
        try:
            app(prog_name='plumbline')
        except Signalled as told:
            ignore()
            complain(told)
            sys.exit(told.exit_code)


def _stream(number: int, given: TextIO | None) -> io.TextIOWrapper:
    """Return a stream in the encoding of `given` that escapes text which the encoding lacks.

    For None, a stream to nowhere.
    """
    if given is None:
        return open(os.devnull, 'w', encoding='utf-8')
    raw = io.BufferedWriter(_Output(number, 'w', closefd=False))
    return io.TextIOWrapper(raw, given.encoding, 'backslashreplace', line_buffering=number == 2)

# SPDX-License-Identifier: BSD-3-Clause
"""What the commands of this folder share: options, the lock of the results directory, errors as exit codes."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ci.isolated import CrashError
from ci.process import end_processes
from ci.slurm_nodes import cancel_jobs_below
from plumbline import settings
from plumbline.checkout import version
from plumbline.errors import InputError, SiteError, did_you_mean
from plumbline.files import keep_others_from_writing, make_folder, open_own
from plumbline.paths import ROOT, choose_sites, results_directory, usable
from plumbline.results import EVIDENCE, STAGE, refuse_links, refuse_writable_by_all
from plumbline.signals import Signalled, ending_signals, ignore
from plumbline.site.sites import Site, load_site, name_of_this_site
from plumbline.stacks.install import StackError
from plumbline.units import seconds
from postprocess.readers.cmdline import read_cmdline


def duration(text: str) -> int:
    """Return the seconds of a duration such as ``1d2h3m4s`` or ``90m``, for argparse."""
    try:
        return seconds(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a time such as 8h, 90m or 1h30m, found {text!r}') from None


def folder(text: str) -> Path:
    """Return the folder that a word names, for argparse; an empty text would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError('expected a folder, found an empty text')
    if (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f'expected a folder, found the file {text}')
    return path


def positive(text: str) -> int:
    """Return an integer of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'expected 1 or more, found {text}')
    return int(text)


_DEEP = 4  # folders of the results: store, table, site, month
_OF_ONE_RUN = (STAGE, EVIDENCE, 'changes')  # folders below which each run has a folder of its own

#: Options of ReFrame that choose cases or set something for them. Commands take them before ``--``, too.
OF_REFRAME = (
    ('-n', '--name'), ('-x', '--exclude'), ('-t', '--tag'), ('-T', '--exclude-tag'), ('-p', '--prgenv'),
    ('-E', '--filter-expr'), ('-S', '--setvar'), ('-J', '--job-option'),
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """A parser that puts options of ReFrame in front of the selection, and suggests a name for an unknown option."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = [name for name in self._option_string_actions if name.startswith('--')]
            of_reframe = "; ReFrame's own options stand after --" * ('--name' in known)
            self.error(f'no such option: {unknown[0]}{did_you_mean(unknown[0], known)}{of_reframe}')
        if chosen := found.__dict__.pop('of_reframe', None):
            found.selection = [*chain.from_iterable(chosen), *found.selection]
        if read_cmdline(shlex.join(['reframe', *getattr(found, 'selection', ())])).is_dry_run:
            self.error('a dry run measures nothing; `plumbline sites SITE --cases --jobs` shows what would run')
        return found


def new_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``ci/<name>``; its help has the first line and the exit codes of the docstring `doc`."""
    text = ' '.join((doc or '').split())
    codes = text[text.index('Exit code') :] if 'Exit code' in text else None
    parser = _Parser(prog=f'ci/{name}', description=(doc or '').splitlines()[0], epilog=codes)
    parser.add_argument('--version', action='version', version=f'plumbline {version()}')
    return parser


def _of_reframe(option: str, value: str) -> tuple[str, str]:
    return option, value


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that run ReFrame."""
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    parser.add_argument('--sites', metavar='DIR[:DIR]', help='folders of your own site folders; the first wins')
    parser.add_argument(
        '--results', type=folder, help='results directory (default: $PLUMBLINE_RESULTS or results/ of the clone)'
    )
    group = parser.add_argument_group("ReFrame's own selection, also after --")
    for short, long in OF_REFRAME:
        value = long.removeprefix('--').upper().replace('-', '_')
        group.add_argument(
            short, long, action='append', dest='of_reframe', metavar=value, type=partial(_of_reframe, short)
        )
    parser.add_argument('selection', nargs='*', metavar='-- REFRAME_OPTION', help="after --: ReFrame's own selection")


def run(arguments: argparse.Namespace, work: Callable[[Site, Path], int]) -> int:
    """Return the exit code of `work`, called with the site and its locked results directory; 2 for a bad input."""
    if arguments.results:
        os.environ[settings.RESULTS.name] = str(Path(arguments.results).absolute())

    def locked() -> int:
        if arguments.sites:
            choose_sites(arguments.sites)
        usable(ROOT)
        results = results_directory()
        name = choose_site(arguments.site)
        _writable(results)
        with _lock(results):
            _clean_up_after_a_kill(results)
            return work(load_site(name), results)

    return exit_code_of(locked, results_directory)


def choose_site(name: str | None) -> str:
    """Return `name`, else the name of this host's site; processes that this one starts get it by ``PLUMBLINE_SITE``."""
    if name:
        os.environ[settings.SITE.name] = name
    os.environ[settings.SITE.name] = chosen = name_of_this_site()
    return chosen


def exit_code_of(work: Callable[[], int], folder: Callable[[], Path]) -> int:
    """Return the exit code of `work`; print an error as one line.

    `folder`: where `work` writes, for an error without a file name, such as of a full disk. SIGINT, SIGTERM and SIGHUP
    end `work`, too: the exit code is 128 plus the number of the signal.
    """
    keep_others_from_writing()
    with ending_signals():
        try:
            return _exit_code_of(work, folder)
        except Signalled as told:
            ignore()
            print(f'plumbline: {told}', file=sys.stderr)
            return told.exit_code


def _exit_code_of(work: Callable[[], int], folder: Callable[[], Path]) -> int:
    try:
        settings.check()
        return work()
    except (InputError, SiteError, StackError) as error:
        print(f'plumbline: {error}', file=sys.stderr)
        return 2
    except CrashError as error:
        print(f'plumbline: {error}', file=sys.stderr)
    except OSError as error:
        print(f'plumbline: {error.filename or folder()}: {error.strerror}', file=sys.stderr)
    return 1


def _writable(results: Path) -> None:
    if re.search(r'\s', str(results)):
        raise InputError(f'{results}: ReFrame cannot run jobs below a path with a blank; choose another with --results')
    try:
        str(results).encode()
    except UnicodeEncodeError:  # Arrow and DuckDB know no other names
        raise InputError(f'{results}: expected a results directory whose name is UTF-8') from None
    refuse_writable_by_all(results)
    refuse_links(results)
    try:
        for folder in (results / 'reports', results / 'logs'):
            make_folder(folder)
        tempfile.TemporaryFile(dir=results).close()
    except OSError as error:
        raise InputError(f'{results}: the results directory cannot be written: {error.strerror}') from None
    shared = stat.S_ISGID | stat.S_IWGRP
    if results.stat().st_mode & shared == shared:
        os.umask(os.umask(0) & ~stat.S_IRWXG)  # another user of the group may continue with what this run writes
    if path := _read_only_below(results):
        raise InputError(
            f'{path}: cannot be written by this user, and belongs to {path.owner()}: results that a group shares need '
            f'chmod -R g+w {results} and chmod g+s of each folder below it'
        )


def _read_only_below(results: Path) -> Path | None:
    """Return a folder, or a log that runs append to, that this user may not write: a run would fail after hours."""
    for name, below, files in os.walk(results):
        folder = Path(name)
        depth = len(folder.relative_to(results).parts)
        if depth == _DEEP or (depth == 1 and folder.name in _OF_ONE_RUN):
            below.clear()
        written = [folder, *(folder / file for file in files if file == 'nightly.lock' or file.endswith('.log'))]
        # logs of sessions have names of their own
        for path in written if folder.name != 'logs' else (folder,):
            if not os.access(path, os.W_OK, effective_ids=True):
                return path
    return None


@contextlib.contextmanager
def _lock(results: Path) -> Iterator[None]:
    """Hold ``<results>/nightly.lock``; the kernel releases it however this process ends. Raises InputError."""
    with open_own(results / 'nightly.lock', 'a+') as lock:
        for wait in (0.2, 0):  # `plumbline status` holds the lock for a moment, to test it
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):  # EAGAIN and EACCES: another process holds it
                time.sleep(wait)
            except OSError as error:
                raise InputError(
                    f'{lock.name}: cannot be locked: {error.strerror}; choose a file system with locks with --results '
                    '(of Lustre, one that is mounted with the option flock)'
                ) from None
        else:
            lock.seek(0)
            holder = lock.read().strip() or 'just started'
            raise InputError(f'another nightly run writes to {results} ({holder})') from None
        lock.truncate(0)
        lock.write(f'process {os.getpid()} since {datetime.now().isoformat(timespec="seconds")}')
        lock.flush()
        yield


def _clean_up_after_a_kill(results: Path) -> None:
    """End the processes on this host and the jobs in Slurm's queue that a killed command left.

    This process holds the lock, so they belong to no running command; ReFrame started by hand uses another stage
    directory. Each comparison of a change has a home of its own, of which the newest may have been killed.
    """
    for home in (results, *sorted(results.glob('changes/*'))[-1:]):
        if ended := end_processes(home):
            print(f'plumbline: a run before this one was killed; ended {ended} processes that it left')
        if cancelled := cancel_jobs_below(home / STAGE):
            print(f'plumbline: a run before this one was killed; {cancelled}')


class Silence:
    """A context that hides standard output, also of child processes, and prints it at its end if `is_broken`."""

    is_broken = True

    def __enter__(self) -> Silence:
        sys.stdout.flush()
        self._stdout, self._hidden = os.dup(1), tempfile.TemporaryFile()
        os.dup2(self._hidden.fileno(), 1)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self._stdout, 1)
        os.close(self._stdout)
        with self._hidden as hidden:
            if self.is_broken:
                hidden.seek(0)
                sys.stdout.write(hidden.read().decode(errors='replace'))

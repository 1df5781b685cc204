# SPDX-License-Identifier: BSD-3-Clause
"""Run Spack to install the stack of one partition, only if it is not up to date. Needs no ReFrame."""

import fcntl
import functools
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

from plumbline.files import read_yaml, to_yaml
from plumbline.paths import SPACK_ENVS, software_directory
from plumbline.stacks import linkage
from plumbline.stacks.lock import LOCK, lock_digest, packages_of, packages_used, read_lock, root_specs
from plumbline.stacks.manifest import (  # fmt: skip
    INSTALLED,
    LOCK_INPUTS,
    MANIFEST,
    SCHEMA,
    Installed,
    features_of,
    known_benchmarks,
)
from plumbline.units import in_words

_PATH = '/usr/local/bin:/usr/bin:/bin'  # while the activation is recorded: folders before these come from the stack
_ERROR = re.compile(r'(?:==> Error: |^fatal: )(.*(?:\n +.*){0,3})', re.MULTILINE)  # with its continuation lines
_BUILD_LOG = re.compile(r'See build log for details:\s+(\S+)')
# The installer of Spack 1.2 prints the errors in the logs first, then the failed packages with their logs
_NOT_INSTALLED = re.compile(r'^([\w.+=-]+@[\w.+=-]+)/[a-z0-9]{32}: (\S+)$', re.MULTILINE)
_MARKED = re.compile(r'^> +(\S.*)$', re.MULTILINE)
_RAISED = re.compile(r'^ *[\w.]*Error: (.*(?:\n +.*){0,3})', re.MULTILINE)
_HEARTBEAT = 60.0  # seconds between signs of life
_GRACE = 10.0  # seconds that Spack and its builds have to end after a signal


class StackError(Exception):
    """Report that a stack cannot be installed; the message names the stack, the step and the cause."""


@functools.cache
def release() -> dict[str, str]:
    """Return ``spack_envs/release.yaml``: the source of the pinned Spack."""
    return read_yaml(SPACK_ENVS / 'release.yaml')


def find_spack() -> Path | None:
    """Return the Spack of ``$SPACK_ROOT``, else on PATH, else from `ci/provision`, else None. Raises StackError."""
    if root := os.environ.get('SPACK_ROOT'):
        stated = Path(root, 'bin', 'spack').absolute()
        if not stated.exists():
            raise StackError(f'SPACK_ROOT={root}: expected a folder with bin/spack in it')
        return stated
    if path := shutil.which('spack'):
        return Path(path).absolute()
    own = software_directory() / f'spack-{release()["tag"]}' / 'bin' / 'spack'
    return own if own.exists() else None


def needed_spack() -> Path:
    """Return :func:`find_spack`. Raises StackError if there is none."""
    if (spack := find_spack()) is None:
        raise StackError('no Spack: set SPACK_ROOT, put spack on PATH, or let ci/provision get one')
    return spack


def environment() -> dict[str, str]:
    """Return the variables for Spack: ~/.spack is neither read nor written, caches are in the software directory."""
    # without byte code every call of Spack takes twice as long
    variables = {key: value for key, value in os.environ.items() if key not in ('PYTHONDONTWRITEBYTECODE', 'SPACK_ENV')}
    if root := variables.get('SPACK_ROOT'):
        variables['SPACK_ROOT'] = str(Path(root).absolute())  # Spack is started in another folder
    for name in ('cache', 'config'):
        variables[f'SPACK_USER_{name.upper()}_PATH'] = str(software_directory() / f'spack-{name}')
    if importlib.util.find_spec('clingo'):
        variables['SPACK_PYTHON'] = sys.executable  # otherwise Spack gets its solver from the network
    return variables


class BringUp:
    """Install `stack` step by step; the output of each step goes to the terminal and to ``log.txt`` of its folder."""

    def __init__(self, stack: Installed):
        self.stack = stack
        self.name = f'stack {stack.stack} of {stack.site}:{stack.partition}'
        self.log = stack.folder / 'log.txt'
        if re.search(r'\s', str(stack.folder)):
            raise StackError(f'{stack.folder}: Spack cannot build below a path with a blank: set PLUMBLINE_SOFTWARE')

    def run(self) -> None:
        """Do the remaining steps, also after an interruption. Raises StackError."""
        folder = self.stack.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / 'lock').open('w') as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    with alive(f'{self.name}: waits for another process that installs it'):
                        fcntl.flock(lock, fcntl.LOCK_EX)
                if self.stack.fault() is None:
                    return  # done by another process meanwhile
                version = self.call('version', '--version', show=False).strip()
                if not re.match(r'[1-9]', version):
                    raise StackError(f'{self.name}: {find_spack()} is Spack {version}; expected 1.0 or later')
                self.concretize()
                self.remove_view_of_other_than(version.split()[0])
                there = self.call('search', '-e', str(folder), 'find', '--format', '{hash}', show=False)
                packages = packages_of(read_lock(folder / LOCK), there.split())
                print(f'plumbline: {self.name}: {packages}', flush=True)
                self.call('install', '-e', str(folder), 'install')
                self.describe()
        except OSError as error:
            raise StackError(f'{self.name}: {error.filename or folder}: {error.strerror}') from None

    def renew_lock(self) -> Path:
        """Concretize again into ``spack_envs/<site>/<stack>/spack.lock``; return its path. Raises StackError."""
        manifest = self.stack.manifest()
        if self.stack.externals.exists():
            raise StackError(f'{self.name}: its lock must not be committed, as its externals are of this machine')
        folder = software_directory() / self.stack.site / 'lock' / self.stack.stack
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_environment(folder, self.stack)
        self.call('concretize', '-e', str(folder), 'concretize')
        shutil.copyfile(folder / LOCK, manifest.lock)
        made = {'spack': read_lock(manifest.lock).spack, 'date': date.today().isoformat()}
        origin = json.dumps({'inputs': manifest.digest, **made})
        manifest.lock.with_name(LOCK_INPUTS).write_text(f'{origin}\n', encoding='utf-8')
        return manifest.lock

    def concretize(self) -> None:
        """Write manifest and lock into the environment: the committed lock, else a new one. Raises StackError."""
        folder, committed = self.stack.folder, self.stack.manifest().lock
        folder.mkdir(parents=True, exist_ok=True)
        if write_environment(folder, self.stack):
            (folder / LOCK).unlink(missing_ok=True)
        if lock_digest(committed) not in (None, lock_digest(folder / LOCK)):
            shutil.copyfile(committed, folder / LOCK)
        if not (folder / LOCK).exists():
            self.call('concretize', '-e', str(folder), 'concretize')

    def remove_view_of_other_than(self, version: str) -> None:
        """Remove the view unless this Spack made it: that of 1.1 is a link, and replaces no folder that 1.3 made."""
        view = self.stack.folder / '.spack-env/view'
        if self.stack.description().get('provenance', {}).get('stack_spack') == version:
            return
        if view.is_symlink():
            view.unlink()
        else:
            shutil.rmtree(view, ignore_errors=True)

    def describe(self) -> None:
        """Write the activation file, then ``stack.json``, which marks the stack as installed. Raises StackError."""
        folder = self.stack.folder
        script = self.call('activation', 'env', 'activate', '--sh', '-d', str(folder), path=_PATH, show=False)
        exports = dict(_exports(script))
        path = exports.get('PATH', '')
        programs = [part for part in path.split(':') if part.startswith(f'{folder}/')]
        if lost := programs_lost(self.stack.manifest().specs, path):
            # otherwise a job would run another program of this name, or none
            raise StackError(f'{self.name}: installed, but its activation does not put {", ".join(lost)} on PATH')
        self.stack.activation.write_text(activation(exports, programs, self.name), encoding='utf-8')
        findings = linkage.look(folder, self.stack.manifest(), self.stack.activation, programs)
        if missing := linkage.missing(findings):
            raise StackError(f'{self.name}: installed, but not as its benchmarks need it: {missing}')
        digest, lock = lock_digest(folder / LOCK), read_lock(folder / LOCK)
        description = {
            'schema': SCHEMA,
            'inputs': self.stack.manifest().digest,
            'lock': digest,
            'programs': programs,
            'provenance': {
                'stack': f'{self.stack.site}/{self.stack.stack}',
                'stack_lock': digest,
                'stack_spack': lock.spack,
                'stack_specs': '; '.join(root_specs(lock)),
                'stack_packages': '; '.join(packages_used(lock)),
                'stack_linkage': linkage.summary(findings),
            },
        }
        (folder / INSTALLED).write_text(json.dumps(description, indent=1), encoding='utf-8')

    def call(self, step: str, *arguments: str, path: str | None = None, show: bool = True) -> str:
        """Call :func:`run_spack` for this stack. Raises StackError."""
        try:
            return run_spack(*arguments, log=self.log, path=path, show=show)
        except StackError as error:
            raise StackError(f'{self.name}: {step} failed: {error}') from None


def write_environment(folder: Path, stack: Installed) -> bool:
    """Write the manifest of `stack` into `folder` with absolute includes; return True if it changed."""
    manifest = stack.manifest()
    content = read_yaml(manifest.path)
    own = content['spack']
    own['include'] = [_absolute(entry, manifest.path.parent) for entry in own.get('include', [])]
    if stack.externals.exists():
        own['include'].append(str(stack.externals))
    software = software_directory()
    # a Spack of all users may be read-only
    places = {'install_tree': {'root': str(software / 'store')}, 'source_cache': str(software / 'spack-cache/sources')}
    own['config'] = places | own.get('config', {})
    if not manifest.fits_host():
        own['concretizer'] = {'targets': {'host_compatible': False}} | own.get('concretizer', {})
    text = f'# inputs {manifest.digest}, written from {manifest.path}; edit that file\n{to_yaml(content)}'
    written = folder / MANIFEST
    if written.exists() and written.read_text(encoding='utf-8') == text:
        return False
    written.write_text(text, encoding='utf-8')
    return True


@contextmanager
def alive(what: str, at_once: bool = True) -> Iterator[None]:
    """Print `what` and the elapsed time each minute until the context is left; with `at_once` also at its start."""
    over, began = threading.Event(), time.monotonic()

    def beat() -> None:
        while not over.wait(_HEARTBEAT):
            print(f'plumbline: {what}: {in_words(time.monotonic() - began)} by now', flush=True)

    if at_once:
        print(f'plumbline: {what}', flush=True)
    clock = threading.Thread(target=beat, daemon=True)
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()


def run_spack(*arguments: str, log: Path, path: str | None = None, show: bool = True) -> str:
    """Run Spack; append its output to `log`, print it if `show`, and return it. Raises StackError.

    In the folder of `log`: an interrupted build leaves files where Spack was started.
    """
    spack = needed_spack()
    variables = environment() | ({'PATH': path} if path else {})
    printed: list[str] = []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('a', encoding='utf-8') as log_file:
        log_file.write(f'$ spack {shlex.join(arguments)}\n')
        process = subprocess.Popen(
            [spack, '--color=never', *arguments], env=variables, text=True, errors='replace',
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=log.parent,
        )  # fmt: skip
        try:
            with alive(f'spack {" ".join(arguments[:4])}', at_once=False):
                for line in process.stdout or ():
                    log_file.write(line)
                    printed.append(line)
                    if show and not line.startswith('remote:'):  # git's progress
                        print(line, end='', flush=True)
                failed = process.wait()
        except BaseException:  # Ctrl-C, or a signal: no build must outlive the process that asked for it
            _end_session(process)
            raise
    if failed:
        raise StackError(f'{why(printed)}; complete output: {log}')
    return ''.join(printed)


def _end_session(process: subprocess.Popen[str]) -> None:
    """End a process and its descendants, also those in process groups of their own, such as Spack's builds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _of_session(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        if not _of_session(process.pid):
            return


def _of_session(session: int) -> list[int]:
    pids = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        with suppress(OSError):
            state, _, _, session_id = stat.read_text(encoding='utf-8', errors='replace').rpartition(')')[2].split()[:4]
            if int(session_id) == session and state != 'Z':
                pids.append(int(stat.parent.name))
    return pids


def why(printed: list[str]) -> str:
    """Return what failed and where its log is, from the output of a failed Spack."""
    text = ''.join(printed)
    if failures := _NOT_INSTALLED.findall(text.partition('packages failed to install:')[2]):
        alone = text if len(failures) == 1 else ''
        return '; '.join(f'{package}: {_cause(Path(log), text, alone)} (build log: {log})' for package, log in failures)
    logs = sorted(set(_BUILD_LOG.findall(text)))
    where = f' (build log: {", ".join(logs)})' if logs else ''
    if error := _ERROR.search(text):
        cause = _short(error[1])
    else:
        cause = (text.strip().splitlines() or ['it printed nothing'])[-1].strip()
    return cause + where


def _cause(log: Path, printed: str, instead: str) -> str:
    """Return the cause from a build log: the first line that Spack marked, else the exception, else the end.

    `instead`: what to search where the log cannot be read.
    """
    try:
        content = log.read_text(encoding='utf-8', errors='replace')
    except OSError:
        content = instead
    marked = [line for line in _MARKED.findall(printed) if line in content]
    raised = _RAISED.search(content)
    return (marked or ([_short(raised[1])] if raised else content.strip().splitlines()[-1:]) or ['no cause found'])[0]


def _short(error: str) -> str:
    """Return an error in one short line, without Spack's prefix that repeats the URL."""
    return textwrap.shorten(re.sub(r'DetailedURLError: GET \S+ errored with: ', '', error), 450, placeholder=' ...')


def programs_lost(specs: list[str], path: str) -> list[str]:
    """Return the programs of the benchmarks of `specs` that are not on `path`; MPI's launcher may be the system's."""
    wanted = {name for feature in features_of(specs) for name in known_benchmarks()[feature].get('executables', ())}
    return sorted(name for name in wanted - {'mpirun'} if shutil.which(name, path=path or '/nonexistent') is None)


def activation(exports: dict[str, str], programs: list[str], name: str) -> str:
    """Return the shell lines that jobs source: the view on PATH and Spack's variables, without a Spack process."""
    lines = [f'# {name}, written when it was installed']
    for folder in programs[:1]:
        sentence = shlex.quote(f'plumbline: {name}: {folder} is not visible on this node')
        lines.append(f'[ -d {shlex.quote(folder)} ] || {{ echo {sentence} >&2; return 1; }}')
    for variable, value in exports.items():
        if variable.endswith('PATH'):
            lines.append(f'export {variable}={shlex.quote(value)}"${{{variable}:+:${variable}}}"')
        elif variable == 'NCCL_NET':
            # Slurm may configure no Slingshot for one node, and there the plugin does not start
            lines.append(f'[ "${{SLURM_JOB_NUM_NODES:-2}}" = 1 ] || export {variable}={shlex.quote(value)}')
        else:
            lines.append(f'export {variable}={shlex.quote(value)}')
    return '\n'.join([*lines, 'return 0', ''])


def _exports(script: str) -> Iterable[tuple[str, str]]:
    """Yield the variables that ``spack env activate --sh`` sets, but not Spack's own, nor folders of this shell."""
    for line in script.splitlines():
        if line.startswith('export ') and '=' in line:
            name, _, value = shlex.split(line.rstrip(';'))[1].partition('=')
            if not name.startswith('SPACK_') and name != 'PS1':
                here = _PATH if name == 'PATH' else os.environ.get(name, '')
                known = here.split(':') if name.endswith('PATH') else ()  # of this shell, and not of the stack
                yield name, ':'.join(part for part in value.split(':') if part not in known) if known else value


def _absolute(entry: Any, folder: Path) -> Any:
    if isinstance(entry, str):
        return entry if '://' in entry else str((folder / entry).resolve())
    return entry | {'path': _absolute(entry['path'], folder)} if 'path' in entry else entry

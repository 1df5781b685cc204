"""Runs Spack to bring up the stack of one partition.

The only place that starts Spack for a case, and only where the stack is not up to date. Needs no ReFrame.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from plumbline.paths import SPACK_ENVS, software_directory
from plumbline.stacks.manifest import (  # fmt: skip
    INSTALLED,
    LOCK,
    LOCK_INPUTS,
    MANIFEST,
    SCHEMA,
    Installed,
    features_of,
    file_digest,
    known_benchmarks,
    view_digest,
)

_PATH = '/usr/local/bin:/usr/bin:/bin'  # while the activation is recorded; what Spack puts before it is the stack's
_BUILT_FOR = re.compile(r'==> Error: ([\w.+=-]+)-[a-z0-9]{32}: (.+)')
_ERROR = re.compile(r'(?:==> Error: |^fatal: )(.*(?:\n +.*){0,3})', re.MULTILINE)  # with the lines that go on with it
_BUILD_LOG = re.compile(r'See build log for details:\s+(\S+)')


class StackError(Exception):
    """A stack cannot be brought up; the message says which, in which step and why."""


@functools.cache
def release() -> dict[str, str]:
    """``spack_envs/release.yaml``: where the pinned Spack comes from."""
    return yaml.safe_load((SPACK_ENVS / 'release.yaml').read_text(encoding='utf-8'))


def find_spack() -> Path | None:
    """The Spack of ``$SPACK_ROOT``, else that on PATH, else the one that `ci/provision` got; None without any."""
    if root := os.environ.get('SPACK_ROOT'):
        given = Path(root, 'bin', 'spack')
        if not given.exists():
            raise StackError(f'SPACK_ROOT={root}: expected a Spack with bin/spack in it')
        return given
    if found := shutil.which('spack'):
        return Path(found)
    own = software_directory() / f'spack-{release()["tag"]}' / 'bin' / 'spack'
    return own if own.exists() else None


def environment() -> dict[str, str]:
    """Variables for Spack: nothing of ~/.spack is read or written, and caches stay in the software directory."""
    software = software_directory()
    own = {
        'SPACK_USER_CACHE_PATH': str(software / 'spack-cache'),
        'SPACK_USER_CONFIG_PATH': str(software / 'spack-config'),
    }
    if _has_clingo():
        own['SPACK_PYTHON'] = sys.executable  # else Spack bootstraps its solver from the network
    # without byte code every call of Spack takes twice as long
    inherited = {key: value for key, value in os.environ.items() if key not in ('PYTHONDONTWRITEBYTECODE', 'SPACK_ENV')}
    return inherited | own


@functools.cache
def _has_clingo() -> bool:
    try:
        import clingo  # noqa: F401
    except ImportError:
        return False
    return True


class BringUp:
    """Brings `stack` up step by step; each step's output goes to the terminal and to ``log.txt`` of its folder."""

    def __init__(self, stack: Installed):
        self.stack = stack
        self.name = f'stack {stack.stack} of {stack.site}:{stack.partition}'
        self.log = stack.folder / 'log.txt'
        spack = find_spack()
        if spack is None:
            raise StackError(f'{self.name}: no Spack: set SPACK_ROOT, put spack on PATH, or let ci/provision get one')
        if re.search(r'\s', str(stack.folder)):
            raise StackError(f'{stack.folder}: Spack cannot build below a path with a blank: set PLUMBLINE_SOFTWARE')
        self.spack = spack

    def run(self):
        """Does what is not done yet, so that a run after an interruption goes on where that stopped."""
        folder = self.stack.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / 'lock').open('w') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self.stack.fault() is None:
                    return  # another process was faster
                self.refuse_old_spack()
                self.prepare()
                self.concretize()
                self.call('install', '-e', str(folder), 'install')
                self.describe()
        except OSError as error:
            raise StackError(f'{self.name}: {error.filename or folder}: {error.strerror}') from None

    def refuse_old_spack(self):
        version = self.call('version', '--version', show=False).strip()
        if not re.match(r'[1-9]', version):
            raise StackError(f'{self.name}: {self.spack} is Spack {version}; expected 1.0 or later')

    def renew_lock(self) -> Path:
        """Concretizes anew into ``spack_envs/<site>/<stack>/spack.lock``; returns its path."""
        manifest = self.stack.manifest()
        if self.stack.externals.exists():
            raise StackError(f'{self.name}: has no lock to commit: its externals are those of this very machine')
        folder = software_directory() / self.stack.site / 'lock' / self.stack.stack
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_environment(folder, self.stack)
        self.call('concretize', '-e', str(folder), 'concretize')
        shutil.copyfile(folder / LOCK, manifest.lock)
        made = {'spack': read_lock(manifest.lock)['spack'], 'date': date.today().isoformat()}
        origin = json.dumps({'inputs': manifest.digest, **made})
        manifest.lock.with_name(LOCK_INPUTS).write_text(f'{origin}\n', encoding='utf-8')
        return manifest.lock

    def concretize_only(self):
        """Leaves the lock in the environment directory, without building anything."""
        self.stack.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        self.concretize()

    def prepare(self):
        """The environment directory: a manifest whose includes are absolute, and the committed lock."""
        folder, manifest = self.stack.folder, self.stack.manifest()
        if write_environment(folder, self.stack):
            (folder / LOCK).unlink(missing_ok=True)
        if file_digest(manifest.lock) not in (None, file_digest(folder / LOCK)):
            shutil.copyfile(manifest.lock, folder / LOCK)

    def concretize(self):
        if not (self.stack.folder / LOCK).exists():
            self.call('concretize', '-e', str(self.stack.folder), 'concretize')

    def describe(self):
        """Writes the activation file, then ``stack.json``, which makes the stack count as installed."""
        folder = self.stack.folder
        script = self.call('activation', 'env', 'activate', '--sh', '-d', str(folder), path=_PATH, show=False)
        exports = dict(_exports(script))
        path = exports.get('PATH', '').removesuffix(_PATH)
        programs = [part for part in path.split(':') if part.startswith(f'{folder}/')]
        if lost := programs_lost(self.stack.manifest().specs, path):
            # a job would take another program of this name, or none
            raise StackError(f'{self.name}: installed, but its activation does not lead to {", ".join(lost)}')
        self.stack.activation.write_text(activation(exports, programs, self.name), encoding='utf-8')
        description = {
            'schema': SCHEMA,
            'stack': f'{self.stack.site}/{self.stack.stack}',
            'inputs': self.stack.manifest().digest,
            'lock': file_digest(folder / LOCK),
            'view': view_digest(programs),
            'activation': file_digest(self.stack.activation),
            'programs': programs,
            **read_lock(folder / LOCK),
        }
        unfinished = folder / f'{INSTALLED}.new'
        unfinished.write_text(json.dumps(description, indent=1), encoding='utf-8')
        unfinished.replace(folder / INSTALLED)

    def call(self, step: str, *arguments: str, path: str | None = None, show: bool = True) -> str:
        """:func:`run_spack` for this stack."""
        try:
            return run_spack(self.spack, *arguments, log=self.log, path=path, show=show)
        except StackError as error:
            raise StackError(f'{self.name}: {step} failed: {error}') from None


def write_environment(folder: Path, stack: Installed) -> bool:
    """The manifest of `stack` as one that stands in `folder`, its includes absolute; returns whether it changed."""
    manifest = stack.manifest()
    content = yaml.safe_load(manifest.path.read_text(encoding='utf-8'))
    own = content['spack']
    own['include'] = [_absolute(entry, manifest.path.parent) for entry in own.get('include', [])]
    if stack.externals.exists():
        own['include'].append(str(stack.externals))
    own['config'] = {'install_tree': {'root': str(software_directory() / 'store')}} | own.get('config', {})
    text = f'# inputs {manifest.digest}, made from {manifest.path}; edit that\n{yaml.safe_dump(content)}'
    written = folder / MANIFEST
    if written.exists() and written.read_text(encoding='utf-8') == text:
        return False
    written.write_text(text, encoding='utf-8')
    return True


def run_spack(spack: Path, *arguments: str, log: Path, path: str | None = None, show: bool = True) -> str:
    """Runs Spack with its output in `log` and, with `show`, on the terminal; returns what it said.

    Raises StackError with the package that failed and its build log.
    """
    variables = environment() | ({'PATH': path} if path else {})
    said = []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open('a', encoding='utf-8') as kept:
        kept.write(f'$ spack {shlex.join(arguments)}\n')
        process = subprocess.Popen(
            [spack, '--color=never', *arguments], env=variables, text=True, errors='replace',
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        for line in process.stdout:
            kept.write(line)
            said.append(line)
            if show and not line.startswith('remote:'):  # git's own progress
                print(line, end='', flush=True)
    if process.wait():
        raise StackError(f'{why(said)}; all that Spack said: {log}')
    return ''.join(said)


def why(said: list[str]) -> str:
    """What failed and where its log is, from the output of a failing Spack."""
    text = ''.join(said)
    logs = sorted(set(_BUILD_LOG.findall(text)))
    where = f' (build log: {", ".join(logs)})' if logs else ''
    failures: dict[str, str] = {}
    for package, cause in _BUILT_FOR.findall(text):
        if cause != 'Package was not installed':  # said too of what only needs the one that failed
            failures.setdefault(package, cause.strip())
    if failures:
        return '; '.join(f'{package}: {cause}' for package, cause in failures.items()) + where
    error = _ERROR.search(text)
    last = next((line.strip() for line in reversed(said) if line.strip()), 'it said nothing')
    return (textwrap.shorten(error[1], 300, placeholder=' ...') if error else last) + where


def programs_lost(specs: list[str], path: str) -> list[str]:
    """The programs of the benchmarks that `specs` bring which are not on `path`; MPI's launcher may be the system's."""
    wanted = {name for feature in features_of(specs) for name in known_benchmarks()[feature].get('executables', ())}
    return sorted(name for name in wanted - {'mpirun'} if shutil.which(name, path=path or '/nonexistent') is None)


def activation(exports: dict[str, str], programs: list[str], name: str) -> str:
    """The shell lines that jobs source: the view on PATH and Spack's other variables, with no Spack process."""
    lines = [f'# {name}, written when it was installed']
    for folder in programs[:1]:
        sentence = shlex.quote(f'plumbline: {name}: {folder} cannot be seen from this node')
        lines.append(f'[ -d {shlex.quote(folder)} ] || {{ echo {sentence} >&2; return 1; }}')
    for variable, value in exports.items():
        if variable.endswith('PATH'):
            value = value.removesuffix(_PATH).strip(':')
            lines.append(f'export {variable}={shlex.quote(value)}"${{{variable}:+:${variable}}}"')
        else:
            lines.append(f'export {variable}={shlex.quote(value)}')
    return '\n'.join([*lines, 'return 0', ''])


def _exports(script: str) -> Iterable[tuple[str, str]]:
    """The variables that ``spack env activate --sh`` sets, without those of Spack's own shell function."""
    for line in script.splitlines():
        if line.startswith('export ') and '=' in line:
            name, _, value = shlex.split(line.rstrip(';'))[1].partition('=')
            if not name.startswith('SPACK_') and name != 'PS1':
                yield name, value


def _absolute(entry: Any, folder: Path) -> Any:
    if isinstance(entry, str):
        return entry if '://' in entry else str((folder / entry).resolve())
    return entry | {'path': _absolute(entry['path'], folder)} if 'path' in entry else entry


def read_lock(path: Path) -> dict[str, Any]:
    """Spack's version and the root specs of a ``spack.lock``: name, version, variants, hash, compiler and MPI."""
    lock = json.loads(path.read_text(encoding='utf-8'))
    nodes, roots = lock['concrete_specs'], []
    for root in lock['roots']:
        node = nodes[root['hash']]
        provided = {
            virtual: f'{nodes[needed["hash"]]["name"]}@{nodes[needed["hash"]]["version"]}'
            for needed in node.get('dependencies', [])
            for virtual in needed.get('parameters', {}).get('virtuals', [])
        }
        roots.append(
            {
                'spec': root['spec'],
                'name': node['name'],
                'version': str(node['version']),
                'hash': root['hash'],
                'target': _target(node['arch']),
                'compiler': next((provided[k] for k in ('c', 'cxx', 'fortran') if k in provided), ''),
                'mpi': provided.get('mpi', ''),
            }
        )
    return {'spack': lock.get('spack', {}).get('version', ''), 'roots': sorted(roots, key=lambda root: root['name'])}


def _target(arch: dict[str, Any]) -> str:
    target = arch['target']
    return target if isinstance(target, str) else target['name']

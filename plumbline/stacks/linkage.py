# SPDX-License-Identifier: BSD-3-Clause
"""Check on a login node without a GPU that the programs of a stack are linked with the libraries that GPUs need.

A program without the libraries of GPUs, without Cray's GPU transport layer (GTL) or with another MPI is installed
without an error. What a feature requires is the key ``linkage`` of ``benchmarks.yaml``.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from shutil import which
from typing import Any

from plumbline.stacks.lock import LOCK, read_lock
from plumbline.stacks.manifest import Installed, Manifest, features_of, known_benchmarks, package_of

OK, MISSING, UNKNOWN = 'ok', 'missing', 'not looked at'
_LIMIT = 120.0  # seconds; ldd reads the libraries of all programs, perhaps from a cold parallel file system
_SOURCED = ('bash', '-c', '. "$0" && exec "$@"')
_MPI = re.compile(r'lib(?:mpi|mpich|mpi_(?!gtl|cxx|mpifh|usempi|java)\w+)\.so')
_PLUGINS = {'aws-ofi-nccl': 'lib[nr]ccl-net.so', 'aws-ofi-rccl': 'librccl-net.so'}  # by root spec


@dataclass(frozen=True)
class Finding:
    """One finding: `program` needs `wanted`, the file has `found`; `state` is OK, MISSING or UNKNOWN."""

    program: str
    wanted: str
    found: str
    state: str


def look(folder: Path, manifest: Manifest, activation: Path, programs: Sequence[str]) -> list[Finding]:
    """Return the findings on the programs of the benchmarks of `manifest`.

    `folder`: the folder of the stack, with its lock. `activation`: the file that jobs source. `programs`: the folders
    that this file puts on PATH.
    """
    nodes = read_lock(folder / LOCK).nodes
    wanted = dict(_wanted(manifest.specs))
    paths = {name: which(name, path=':'.join(programs) or '/nonexistent') for name in wanted}
    plugins = _plugins(manifest.specs, activation)
    linked = _libraries(activation, [path for path in [*paths.values(), *plugins.values()] if path])
    rows: list[Finding] = []
    for name, needs in wanted.items():
        if (path := paths[name]) is None:
            rows.append(Finding(name, 'the program', 'none in the view of the stack', MISSING))
        elif path not in linked:
            rows.append(Finding(name, 'to be looked at by ldd', 'no answer in the environment of jobs', MISSING))
        elif (libraries := linked[path]) is None:
            rows.append(Finding(name, 'shared libraries', 'a script, or linked statically', UNKNOWN))
        else:
            rows += _rows(name, needs, libraries, nodes)
    for name, plugin in plugins.items():
        libraries = (linked.get(plugin) or {}) if plugin else {}
        rows.append(_of_library(_PLUGINS[name], {Path(plugin).name: plugin} if plugin else {}, name))
        rows.append(_of_library('libfabric.so*', libraries, name))
        net = _said([*_SOURCED, str(activation), 'printenv', 'NCCL_NET']).strip()
        # without NCCL_NET, NCCL and RCCL fall back to sockets where the plugin does not start
        rows.append(Finding(name, 'NCCL_NET set', net or 'not set', OK if net else MISSING))
    return rows


def look_again(stack: Installed) -> list[Finding]:
    """Return the findings on an installed stack as it is now."""
    return look(stack.folder, stack.manifest(), stack.activation, stack.description()['programs'])


def missing(rows: Iterable[Finding]) -> str | None:
    """Return a text that names all that is missing; None if nothing is."""
    lines = [f'{row.program}: expected {row.wanted}, found {row.found}' for row in rows if row.state == MISSING]
    return '; '.join(lines) or None


def summary(rows: Sequence[Finding]) -> str:
    """Return the number of findings by state, as text."""
    counts = {state: sum(row.state == state for row in rows) for state in (OK, MISSING, UNKNOWN)}
    return ', '.join(f'{number} {state}' for state, number in counts.items() if number) or 'nothing to look at'


def table(rows: Sequence[Finding]) -> str:
    """Return the findings as text, one line each."""
    widths = [max((len(getattr(row, key)) for row in rows), default=0) for key in ('state', 'program', 'wanted')]
    return '\n'.join(
        f'  {row.state:{widths[0]}}  {row.program:{widths[1]}}  {row.wanted:{widths[2]}}  {row.found}' for row in rows
    )


def _wanted(specs: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each program of the benchmarks in `specs` with the requirements of all features that use it."""
    merged: dict[str, dict[str, Any]] = {}
    for feature in features_of(specs):
        known = known_benchmarks()[feature]
        needs = known.get('linkage', {})
        executables = [name for name in known.get('executables', ()) if name != 'mpirun']
        for name in [needs['program']] if 'program' in needs else executables[:1]:
            mpi = {'mpi': True} if 'mpirun' in known.get('executables', ()) else {}
            merged[name] = merged.get(name, {}) | mpi | needs
    yield from merged.items()


def _rows(
    name: str, needs: dict[str, Any], libraries: dict[str, str | None], nodes: dict[str, Any]
) -> Iterator[Finding]:
    mpi = next((node for node in nodes.values() if _provides_mpi(node, nodes)), None) if needs.get('mpi') else None
    if mpi:
        yield _mpi(name, mpi, libraries)
    required = list(needs.get('libraries', ()))
    if mpi and mpi['name'] == 'cray-mpich' and 'gtl' in needs:
        required.append(needs['gtl'])
    yield from (_of_library(library, libraries, name) for library in required)


def _provides_mpi(node: dict[str, Any], nodes: dict[str, Any]) -> bool:
    return any(
        'mpi' in needed.get('parameters', {}).get('virtuals', ()) and nodes[needed['hash']] is node
        for other in nodes.values()
        for needed in other.get('dependencies', ())
    )


def _mpi(name: str, mpi: dict[str, Any], libraries: dict[str, str | None]) -> Finding:
    """Return the finding on MPI: the program must be linked with the MPI of the lock, and with no other."""
    wanted = f'{mpi["name"]}@{mpi["version"]}, and no other MPI'
    linked = {os.path.realpath(where): where for lib, where in libraries.items() if where and _MPI.match(lib)}
    if len(linked) != 1:
        return Finding(name, wanted, ' and '.join(linked) or 'none', MISSING)
    ((real, path),) = linked.items()
    prefix = (mpi.get('external') or {}).get('path')
    if prefix is None:
        right = mpi['hash'] in real
    else:
        # a prefix of Debian holds a link to the library of the system, in Debian 13 without the number behind .so
        names = f'{Path(path).name.partition(".so")[0]}.so*'
        beside = [found for lib in ('lib', 'lib64', 'lib/release') for found in Path(prefix, lib).glob(names)]
        right = any(os.path.realpath(candidate) == real for candidate in beside) or real.startswith(
            f'{os.path.realpath(prefix)}/'
        )
    return Finding(name, wanted, path, OK if right else MISSING)


def _of_library(library: str, libraries: dict[str, str | None], name: str) -> Finding:
    matching = {lib: where for lib, where in libraries.items() if fnmatch(lib, library)}
    wanted = library.removesuffix('*')
    if not matching:
        return Finding(name, wanted, 'none', MISSING)
    if resolved := [where for where in matching.values() if where]:
        return Finding(name, wanted, resolved[0], OK)
    return Finding(name, wanted, f'{next(iter(matching))}, which is not on this node', MISSING)


def _libraries(activation: Path, paths: Sequence[str]) -> dict[str, dict[str, str | None] | None]:
    """Return the shared libraries of each program, direct and indirect, as name -> path; None for a static program."""
    # ldd prints the name of a program before its libraries only if it is given several programs
    printed = _said([*_SOURCED, str(activation), 'ldd', '/dev/null', *paths])
    by_program: dict[str, dict[str, str | None] | None] = {}
    libraries: dict[str, str | None] = {}
    for line in printed.splitlines():
        if line.endswith(':') and not line.startswith(('\t', ' ')):
            by_program[line[:-1]] = libraries = {}
        elif entry := re.match(r'\s+(\S+) => (/\S+|not found)', line):
            libraries[entry[1]] = entry[2] if entry[2] != 'not found' else None
    return {path: libraries or None for path, libraries in by_program.items()}


def _plugins(specs: list[str], activation: Path) -> dict[str, str | None]:
    """Return for each libfabric plugin in the root specs the file that NCCL or RCCL finds in a job; None if none."""
    roots = [name for name in _PLUGINS if name in map(package_of, specs)]
    folders = _said([*_SOURCED, str(activation), 'printenv', 'LD_LIBRARY_PATH']).strip().split(':') if roots else []
    files = {name: [file for at in folders if at for file in sorted(Path(at).glob(_PLUGINS[name]))] for name in roots}
    return {name: str(paths_found[0]) if paths_found else None for name, paths_found in files.items()}


def _said(command: Sequence[str]) -> str:
    """Return what a command prints, also where it fails; an empty text if it cannot be run or does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors='replace', timeout=_LIMIT, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ''
    return done.stdout + done.stderr

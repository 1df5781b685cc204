# SPDX-License-Identifier: BSD-3-Clause
"""What a ``spack.lock`` says: the packages of a concrete environment, by what they are to its benchmarks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

LOCK = 'spack.lock'
_NAMED = 6  # packages that are named one by one


class Lock(NamedTuple):
    """A lock: Spack's version, the hashes of the root specs, and all packages by hash."""

    spack: str
    roots: list[str]
    nodes: dict[str, Any]


def read_lock(path: Path) -> Lock:
    """Return the content of a ``spack.lock``. Raises OSError, and ValueError, TypeError or KeyError if it is none."""
    lock = json.loads(path.read_text(encoding='utf-8'))
    roots = sorted({root['hash'] for root in lock['roots']})
    return Lock(lock.get('spack', {}).get('version', ''), roots, lock['concrete_specs'])


def lock_digest(path: Path) -> str | None:
    """Return 16 hexadecimal digits of the specs of a ``spack.lock``; None if it cannot be read.

    The hashes of the specs cover all that matters; the other keys differ between versions of Spack.
    """
    try:
        lock = read_lock(path)
        specs = lock.roots, sorted(lock.nodes)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return hashlib.sha256(json.dumps(specs).encode()).hexdigest()[:16]


def root_specs(lock: Lock) -> list[str]:
    """Return the roots of a lock, by name: name, version, hash, compiler, target and MPI."""
    nodes, specs = lock.nodes, []
    for digest in sorted(lock.roots, key=lambda digest: nodes[digest]['name']):
        node = nodes[digest]
        provided = {
            virtual: '{name}@{version}'.format_map(nodes[needed['hash']])
            for needed in node.get('dependencies', [])
            for virtual in needed.get('parameters', {}).get('virtuals', [])
        }
        compiler = next((provided[language] for language in ('c', 'cxx', 'fortran') if language in provided), '')
        target = node['arch']['target']
        target = target if isinstance(target, str) else target['name']
        mpi = f' ^{provided["mpi"]}' if 'mpi' in provided else ''
        specs.append(f'{node["name"]}@{node["version"]}/{digest[:7]} %{compiler} target={target}{mpi}')
    return specs


def packages_used(lock: Lock) -> list[str]:
    """Return the packages that the roots of a lock are linked with or run, and their compilers, by name.

    Name, version and the first seven characters of the hash. Packages that only a build needs are left out: a change of
    them does not reach a program, unless it changes the hash of one that does.
    """
    used, ahead = set(), [*lock.roots]
    while ahead:
        digest = ahead.pop()
        if digest not in used:
            used.add(digest)
            for needed in lock.nodes[digest].get('dependencies', []):
                facts = needed.get('parameters', {})
                words = {*facts.get('deptypes', ()), *facts.get('virtuals', ())}
                if not words.isdisjoint(('link', 'run', 'c', 'cxx', 'fortran')):
                    ahead.append(needed['hash'])
    return sorted('{name}@{version}'.format_map(lock.nodes[digest]) + f'/{digest[:7]}' for digest in used)


@dataclass(frozen=True)
class Packages:
    """The packages of a concrete environment by where they come from: names, sorted."""

    build: tuple[str, ...]
    external: tuple[str, ...]
    installed: tuple[str, ...]

    def __str__(self) -> str:
        """Return ``packages: 8 to build (bison, ... and 2 more), 11 found on this machine``."""
        parts = []
        if self.build:
            more = len(self.build) - _NAMED
            named = ', '.join(self.build[:_NAMED]) + (f' and {more} more' if more > 0 else '')
            parts.append(f'{len(self.build)} to build ({named})')
        if self.installed:
            parts.append(f'{len(self.installed)} installed before')
        if self.external:
            parts.append(f'{len(self.external)} found on this machine')
        return 'packages: ' + ', '.join(parts)


def packages_of(lock: Lock, installed: Collection[str]) -> Packages:
    """Return the packages of a lock. `installed`: hashes, also of upstreams."""
    names: dict[str, set[str]] = {'build': set(), 'external': set(), 'installed': set()}
    for digest, spec in lock.nodes.items():
        kind = 'external' if spec.get('external') else 'installed' if digest in installed else 'build'
        names[kind].add(spec['name'])
    return Packages(*(tuple(sorted(names[kind])) for kind in ('build', 'external', 'installed')))

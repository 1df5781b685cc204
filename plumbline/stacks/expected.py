# SPDX-License-Identifier: BSD-3-Clause
"""Say before an installation how many packages Spack will build, and about how long that takes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from plumbline.units import in_words

#: Seconds that Spack took on 2 cores for a benchmark, a root of the environment (7 on Debian 12 and 13, Spack
#: 1.2: 4 to 57 s, OSU the longest), and for another package (53 with the benchmarks in an hour, Debian 12, Spack 1.1).
SECONDS_A_ROOT, SECONDS_A_PACKAGE = 30, 60
#: Packages that differ by far: two are only copied; OpenBLAS 0.3.27 took 21 minutes of CPU time (Spack 1.3.0.dev0).
SECONDS_OF = {'compiler-wrapper': 1, 'gcc-runtime': 1, 'openblas': 600}
_NAMED = 6  # packages that are named one by one


@dataclass(frozen=True)
class Packages:
    """The packages of a concrete environment by where they come from: names, sorted. `seconds`: expected to build."""

    build: tuple[str, ...]
    external: tuple[str, ...]
    installed: tuple[str, ...]
    seconds: int

    def __str__(self) -> str:
        """Return ``packages: 8 to build (bison, ... and 2 more), 11 found on this machine; about 8 min ...``."""
        parts = []
        if self.build:
            more = len(self.build) - _NAMED
            named = ', '.join(self.build[:_NAMED]) + (f' and {more} more' if more > 0 else '')
            parts.append(f'{len(self.build)} to build ({named})')
        if self.installed:
            parts.append(f'{len(self.installed)} installed before')
        if self.external:
            parts.append(f'{len(self.external)} found on this machine')
        took = f'; about {in_words(60 * math.ceil(self.seconds / 60))} on 2 cores without a build cache'
        return 'packages: ' + ', '.join(parts) + (took if self.build else '')


def packages_of(lock: Path, installed: Collection[str]) -> Packages:
    """Return the packages of the ``spack.lock`` of an environment. `installed`: hashes, also of upstreams."""
    content = json.loads(lock.read_text(encoding='utf-8'))
    roots = {root['hash'] for root in content['roots']}
    names: dict[str, set[str]] = {'build': set(), 'external': set(), 'installed': set()}
    seconds = 0
    for digest, spec in content['concrete_specs'].items():
        kind = 'external' if spec.get('external') else 'installed' if digest in installed else 'build'
        names[kind].add(spec['name'])
        if kind == 'build':
            seconds += SECONDS_OF.get(spec['name'], SECONDS_A_ROOT if digest in roots else SECONDS_A_PACKAGE)
    build, external, installed = (tuple(sorted(names[kind])) for kind in ('build', 'external', 'installed'))
    return Packages(build, external, installed, seconds)

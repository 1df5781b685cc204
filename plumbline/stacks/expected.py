# SPDX-License-Identifier: BSD-3-Clause
"""Say before an installation how many packages Spack will build, and about how long that takes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from plumbline.units import in_words

#: Seconds that Spack took for a package on 2 cores: 53 packages in an hour, and 9 in 11 min (Debian 12, Spack 1.1).
SECONDS_A_PACKAGE = 70
_NAMED = 6  # packages that are named one by one


@dataclass(frozen=True)
class Packages:
    """The packages of a concrete environment by where they come from: names, sorted."""

    build: tuple[str, ...]
    external: tuple[str, ...]
    installed: tuple[str, ...]

    def __str__(self) -> str:
        """Return ``packages: 8 to build (bison, ... and 2 more), 11 found on this machine; about 9 min ...``."""
        parts = []
        if self.build:
            more = len(self.build) - _NAMED
            named = ', '.join(self.build[:_NAMED]) + (f' and {more} more' if more > 0 else '')
            parts.append(f'{len(self.build)} to build ({named})')
        if self.installed:
            parts.append(f'{len(self.installed)} installed before')
        if self.external:
            parts.append(f'{len(self.external)} found on this machine')
        minutes = math.ceil(SECONDS_A_PACKAGE * len(self.build) / 60)
        took = f'; about {in_words(60 * minutes)} on 2 cores without a build cache'
        return 'packages: ' + ', '.join(parts) + (took if self.build else '')


def packages_of(lock: Path, installed: Collection[str]) -> Packages:
    """Return the packages of the ``spack.lock`` of an environment. `installed`: hashes, also of upstreams."""
    names: dict[str, set[str]] = {'build': set(), 'external': set(), 'installed': set()}
    for digest, spec in json.loads(lock.read_text(encoding='utf-8'))['concrete_specs'].items():
        kind = 'external' if spec.get('external') else 'installed' if digest in installed else 'build'
        names[kind].add(spec['name'])
    return Packages(**{kind: tuple(sorted(of)) for kind, of in names.items()})

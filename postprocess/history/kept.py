# SPDX-License-Identifier: BSD-3-Clause
"""Keep where a site stands as long as no file changes from which it follows: ``<results>/judged/<site>.json``.

This module does not import numpy or Arrow, because their import takes longer than `plumbline status` may take.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.paths import results_directory, site_folders
from plumbline.stacks.linkage import look_again, missing, summary
from plumbline.stacks.manifest import Installed
from postprocess.results import fingerprint

_FOLLOWING = 'verdicts', 'findings'  # tables that follow from the others, as the answer does


@dataclass(frozen=True)
class Standing:
    """Where a site stands. `stacks`: name -> partition and environ of each stack that Spack installs.

    `next`: what to do, with its command in backquotes. `sessions`: their number. Of the last session: `ran` of the
    `expected` cases, `verdicts` in words, `incidents` by state, `red`: True if it failed. Of the baseline: number of
    `rows`, `of` how many sessions, and the day on which the newest row was `recorded`. `unknown`: a sentence for each
    thing that could not be read or written; then the numbers of incidents are not known.
    """

    site: str
    description: str
    partitions: int
    stacks: dict[str, tuple[str, str]]
    next: str = ''
    sessions: int = 0
    started: datetime = datetime.min
    mode: str = ''
    ran: int = 0
    expected: int = 0
    verdicts: str = ''
    coverage: str = ''
    incidents: dict[str, int] = field(default_factory=dict)
    red: bool = False
    rows: int = 0
    of: int = 0
    recorded: str = ''
    unknown: list[str] = field(default_factory=list)

    def faults(self) -> dict[str, str]:
        """Return for each stack that must be installed: its name -> why. Raises SiteError."""
        by_stack = {name: Installed(self.site, *stack).fault() for name, stack in self.stacks.items()}
        return {name: fault for name, fault in by_stack.items() if fault}

    def linkage(self) -> str:
        """Return which library an installed stack is no longer linked with, else the number of correct findings."""
        by_stack = {name: look_again(Installed(self.site, *stack)) for name, stack in self.stacks.items()}
        for name, findings in by_stack.items():
            if lost := missing(findings):
                return f'{name}: {lost}'
        return f'linkage: {summary([row for findings in by_stack.values() for row in findings])}'


class State(NamedTuple):
    """Checksums of the present state of files: `inputs` of judging a session, and `told`: what sessions showed."""

    inputs: str
    told: str


class _Kept(NamedTuple):
    """What is kept: where a site stands, and the state of the files from which that follows."""

    state: State
    standing: Standing


def state(results: Path, site: str, root: Path | None) -> State:
    """Return the present state of the files from which it follows where a site stands.

    They are its part of the store, its folders, the baseline that is not accepted yet, the notes of persons, and our
    own code.
    """
    stored, folders = results / 'store', (*site_folders(root), *site_folders())
    sites = sorted(path.name for path in stored.glob('sessions/site=*'))  # if there are several, commands name the site
    texts = [str(path) for path in (results.absolute(), results_directory(), *folders, *sites)]
    tables = [path for path in stored.glob(f'*/site={site}') if path.parent.name not in _FOLLOWING]
    below = *fingerprint.CODE, *tables, *(folder / site for folder in folders)
    single = f'{results}/proposals/{site}.csv', f'{results}/incidents/{site}.jsonl'
    files = [*(file for folder in below for file in fingerprint.below(folder)), *single]
    return State(_checksum(files, texts), _checksum(fingerprint.below(stored / 'findings' / f'site={site}')))


def _checksum(files: Iterable[str], texts: Iterable[str] = ()) -> str:
    """Return a checksum of texts and of the state of files."""
    return fingerprint.checksum([*texts, *(f'{file} {fingerprint.state(file)}' for file in files)])


def standings(results: Path, site: str | None, root: Path | None) -> list[Standing]:
    """Return the standing of all sites in the store, or of `site`; empty if one of them is not known or out of date."""
    names = [site] if site else sorted(path.name[5:] for path in (results / 'store').glob('sessions/site=*'))
    kept = [(name, _read(results, name)) for name in names]
    known = [of.standing for name, of in kept if of and of.state == state(results, name, root)]
    return known if len(known) == len(names) else []


def keep(results: Path, standing: Standing, state: State) -> None:
    """Keep where a site stands, with the state of the files from which that followed.

    Where it cannot be written, the site is looked at again the next time.
    """
    with suppress(InputError):
        write_text(_path(results, standing.site), msgspec.json.encode(_Kept(state, standing)).decode())


def _read(results: Path, site: str) -> _Kept | None:
    """Return what is kept of a site; None without a readable file."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(_path(results, site).read_bytes(), type=_Kept)
    return None


def _path(results: Path, site: str) -> Path:
    return results / 'judged' / f'{site}.json'

# SPDX-License-Identifier: BSD-3-Clause
"""Keep the answer on the newest session of a site as long as none of its input files changes.

``<results>/judged/<site>.answer``: a line of JSON with the state of these files and where the site stands, then the
digest in MessagePack, compressed. As in git, a changed file is recognized by name, inode, size and times. This module
does not import numpy or Arrow, because their import takes longer than `plumbline status` may take.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import plumbline
from plumbline.errors import InputError
from plumbline.files import write_whole
from plumbline.paths import results_directory, site_folders
from plumbline.stacks.linkage import look_again, missing, summary
from plumbline.stacks.manifest import Installed

_Content = TypeVar('_Content')
#: The folders of our own code, of which a change may change the answer.
_CODE = Path(plumbline.__file__).parent, Path(__file__).resolve().parents[1]
_FOLLOWING = 'verdicts', 'findings'  # tables that follow from the others, as the answer does
_FAST = 1  # level of zlib: a fifth of the size in 10 ms; higher levels take more time than they save in reading


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


@dataclass(frozen=True)
class State:
    """The state of an answer's input files, and of the ledger after the session was judged."""

    inputs: str
    ledger: str


@dataclass(frozen=True)
class Page:
    """A page that was written from an answer, with `days` of history.

    `file`: state of the file, to detect that it was replaced or edited. `lines`: the sentences printed with it.
    `is_new`: True if the history has a new change for the worse.
    """

    path: str
    days: int
    file: str
    lines: tuple[str, ...] = field(default=(), compare=False)
    is_new: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Head:
    """The first line of the file: the `session`, the state of its inputs, and what was derived from the answer."""

    session: str
    state: State
    standing: Standing | None = None
    page: Page | None = None


def state(results: Path, site: str, root: Path | None) -> State:
    """Return the present state of the files on which the answer on a site depends.

    They are its part of the store, its folders, the baseline that is not accepted yet, the ledger, and our own code.
    """
    stored, folders = results / 'store', (*site_folders(root), *site_folders())
    sites = sorted(
        path.name for path in stored.glob('sessions/site=*')
    )  # the answer has commands, which name the site if there are several
    texts = [str(path) for path in (results.absolute(), results_directory(), *folders, *sites)]
    tables = (path for path in stored.glob(f'*/site={site}') if path.parent.name not in _FOLLOWING)
    below = *_CODE, *tables, *(folder / site for folder in folders)
    files = [*(file for folder in below for file in _files(folder)), *_file(results / 'proposals' / f'{site}.csv')]
    return State(_digest([*texts, *files]), _digest(_files(results / 'incidents' / site)))


def standings(results: Path, site: str | None, root: Path | None) -> list[Standing]:
    """Return the standing of all sites in the store, or of `site`; empty if one of them is not known or out of date."""
    names = [site] if site else sorted(path.name[5:] for path in (results / 'store').glob('sessions/site=*'))
    heads = [head(results, name) for name in names]
    known = [head.standing for head in heads if head and head.standing]
    current = all(head and head.state == state(results, name, root) for name, head in zip(names, heads, strict=True))
    return known if current and len(known) == len(names) else []


def head(results: Path, site: str) -> Head | None:
    """Return the first line of the file, without the answer; None without a readable file."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError), _path(results, site).open('rb') as stream:
        return msgspec.json.decode(stream.readline(), type=Head)
    return None


def read_kept(results: Path, site: str, type: type[_Content]) -> _Content | None:
    """Return the kept answer, even if its inputs have changed; None if it cannot be read."""
    with suppress(OSError, zlib.error, msgspec.DecodeError, UnicodeDecodeError):
        _, _, content = _path(results, site).read_bytes().partition(b'\n')
        return msgspec.msgpack.decode(zlib.decompress(content), type=type, dec_hook=_decoded)
    return None


def write(results: Path, site: str, head: Head, answer: object) -> None:
    """Keep an answer. If it cannot be written, the session is judged again the next time."""
    with suppress(InputError):
        _write(results, site, head, zlib.compress(msgspec.msgpack.encode(answer, enc_hook=str), _FAST))


def add(results: Path, site: str, more: Head) -> None:
    """Replace the first line of a kept answer by `more`, unless the answer was replaced meanwhile."""
    with suppress(OSError, InputError, msgspec.DecodeError, UnicodeDecodeError):
        first, _, content = _path(results, site).read_bytes().partition(b'\n')
        if msgspec.json.decode(first, type=Head).state == more.state:
            _write(results, site, more, content)


def page_of(path: Path, days: int) -> Page:
    """Return the page at `path` with the present state of its file."""
    return Page(str(path.absolute()), days, ''.join(_file(path)))


def _write(results: Path, site: str, head: Head, content: bytes) -> None:
    """Write the file of a kept answer as a whole."""
    write_whole({_path(results, site): lambda stream: stream.write(msgspec.json.encode(head) + b'\n' + content)})


def _path(results: Path, site: str) -> Path:
    """Return the path of the kept answer of a site."""
    return results / 'judged' / f'{site}.answer'


def _decoded(type: type, value: Any) -> Any:
    """Return a value of a type that MessagePack does not have; of our types these are paths."""
    return type(value)


def _digest(texts: Iterable[str]) -> str:
    """Return a checksum of several texts."""
    return hashlib.sha256('\0'.join(texts).encode(errors='surrogateescape')).hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Yield the state of each file below `folder`, except the bytecode that Python keeps there."""
    for path, below, names in os.walk(folder, followlinks=True):  # months may lie on another file system
        below[:] = sorted(name for name in below if name != '__pycache__')
        for name in sorted(names):
            yield from _file(f'{path}/{name}')


def _file(path: str | Path) -> Iterator[str]:
    """Yield the name, inode, size and times of a file, which differ after a change; nothing if it is absent."""
    with suppress(OSError):  # a file without permission to stat cannot be read either
        stat = os.stat(path)
        yield f'{path} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}'

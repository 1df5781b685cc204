# SPDX-License-Identifier: BSD-3-Clause
"""Recognize whether an answer still follows from the same files: by their content, or faster by their state.

This module does not import numpy or Arrow, because their import takes longer than `plumbline status` may take.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import plumbline

#: The folders of our own code, of which a change may change an answer.
CODE = Path(plumbline.__file__).parent, Path(__file__).resolve().parents[1]


def checksum(texts: Iterable[str]) -> str:
    """Return a checksum of several texts."""
    return hashlib.sha256('\0'.join(texts).encode(errors='surrogateescape')).hexdigest()


def below(folder: Path) -> Iterator[str]:
    """Yield each file below `folder`, always in the same order, except the bytecode that Python keeps there."""
    for path, folders, names in os.walk(folder, followlinks=True):  # months may lie on another file system
        folders[:] = sorted(name for name in folders if name != '__pycache__')
        yield from (f'{path}/{name}' for name in sorted(names))


def contents(files: Iterable[str | Path]) -> Iterator[str]:
    """Yield the name and a checksum of the content of each file; nothing of one that cannot be read."""
    for file in map(Path, files):
        with suppress(OSError):
            yield f'{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}'


def state(file: str | Path) -> str:
    """Return inode, size and times of a file, which differ after a change, as in git; empty if it is absent."""
    with suppress(OSError):  # a file without permission to stat cannot be read either
        of = os.stat(file)
        return f'{of.st_ino} {of.st_size} {of.st_mtime_ns} {of.st_ctime_ns}'
    return ''

# SPDX-License-Identifier: BSD-3-Clause
"""Evidence: what the benchmarks themselves wrote, one compressed archive for each case, below the results directory.

``<results>/evidence/<site>/<YYYY-MM>/<time>-<check>-<id>.tar.gz`` holds the stage directory of the case: the job
script, its generated inputs, and the output, stderr and binding of each trial. An archive that must stay longer than
the others has a file ``<archive>.keep`` beside it with the reason.
"""

import io
import os
import re
import tarfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from plumbline.files import write_whole
from plumbline.results import EVIDENCE, files_below, opened

_ARCHIVE = re.compile(r'\d{8}T\d{6}-.+\.tar\.gz')  # a name that `pack` gives
LARGEST_FILE = 16 * 2**20  # bytes of one file; the rest of a longer one is left out, and the archive says so


def pack(stage: Path, results: Path, site: str, name: str, without: Collection[str] = ()) -> str:
    """Pack the regular files below `stage`, and return the archive's path relative to `results`. Raises InputError.

    `name` tells the case apart from other cases that end in the same second. `without`: names of files and folders
    directly in `stage` that belong to the suite.
    """
    now = time.gmtime()
    stem = f'{time.strftime("%Y%m%dT%H%M%S", now)}-{name}'
    path = results / EVIDENCE / site / time.strftime('%Y-%m', now) / f'{stem}.tar.gz'

    def write(stream: BinaryIO) -> None:
        # the default format adds two blocks to each file, for the fraction of a second in its time
        with tarfile.open(fileobj=stream, mode='w:gz', compresslevel=6, format=tarfile.GNU_FORMAT) as archive:
            for file in sorted(stage.rglob('*')):
                path_in_stage = file.relative_to(stage)
                # a link leads to a file that is packed under its own path
                if file.is_file() and not file.is_symlink() and path_in_stage.parts[0] not in without:
                    _add(archive, file, f'{stem}/{path_in_stage}')

    write_whole({path: write})
    return str(path.relative_to(results))


def _add(archive: tarfile.TarFile, file: Path, name: str) -> None:
    info = archive.gettarinfo(file, name)
    cut = info.size - LARGEST_FILE
    info.size = min(info.size, LARGEST_FILE)
    with file.open('rb') as stream:
        archive.addfile(info, stream)
    if cut > 0:
        note = f'{file.name}: the last {cut} of {cut + LARGEST_FILE} bytes were left out\n'.encode()
        info = tarfile.TarInfo(f'{name}.cut')
        info.size = len(note)
        archive.addfile(info, io.BytesIO(note))


def keep(results: Path, evidence: str, why: str) -> None:
    """Mark an archive to be kept longer than others; `why` is one line such as ``failed``. The first reason stays."""
    path = results / evidence
    if evidence and path.is_file() and not _note(path).exists():
        with suppress(OSError):  # without the note the archive is removed by its age
            _note(path).write_text(why + '\n', encoding='utf-8')


def prune(results: Path, budget: float) -> int:
    """Remove archives, oldest first and kept ones last, until all fit into `budget` bytes; return their number.

    Raises InputError if their folder is a symbolic link.
    """
    removed = 0
    with suppress(FileNotFoundError), opened(results, EVIDENCE) as folder:
        excess = _excess(folder, budget)
        for path, month, names in files_below(folder) if excess else ():
            for name in names:
                if (path, name) in excess:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=month)
                        removed += 1
                        os.unlink(f'{name}.keep', dir_fd=month)
    return removed


def _excess(folder: int, budget: float) -> set[tuple[str, str]]:
    """Return month and name of the archives to remove so that the others fit into `budget` bytes."""
    archives = []
    for path, month, names in files_below(folder):
        for name in filter(_ARCHIVE.fullmatch, names if path.count('/') == 1 else ()):
            with suppress(OSError):  # another one has removed it
                status = os.stat(name, dir_fd=month, follow_symlinks=False)
                archives.append((f'{name}.keep' in names, status.st_mtime, status.st_size, path, name))
    excess, chosen = sum(size for _, _, size, _, _ in archives) - budget, set()
    for _, _, size, path, name in sorted(archives):
        if excess > 0:
            chosen.add((path, name))
            excess -= size
    return chosen


def _note(path: Path) -> Path:
    return path.with_name(f'{path.name}.keep')

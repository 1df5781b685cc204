# SPDX-License-Identifier: BSD-3-Clause
"""Remove old or too large files of nightly runs; only those that have names which runs give, and behind no link."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from plumbline.evidence import prune
from plumbline.results import STAGE, files_below, opened, remove_folder

SUMMARY = 'summary.txt'  # below the results: the verdict of the last session as text
STAGE_DAYS = 7  # how long the stage directories of a session are kept
LAST = 5  # newest files of each kind that are always kept: the clock may have been set forward
LARGEST_LOG = 20 * 2**20  # bytes at which one of ReFrame's performance logs is rotated; the store has all its numbers
_RUN = r'\d{8}T\d{6}Z[\w-]*'  # the name of a run: its begin, and the ending of a part of it
_LOG = re.compile(rf'{_RUN}\.(log|journal|cases)')
_JUNIT = re.compile(rf'{_RUN}\.xml')
_STAGE = re.compile(_RUN)
_PERFLOG = re.compile(r'[^/]+/[^/]+/[^/]+\.log')  # of a system, a partition, a check


def tidy(results: Path, days: int, evidence: float) -> None:
    """Remove logs and JUnit files older than `days`, old stage directories, and evidence beyond `evidence` bytes.

    Run reports are kept: the store can be rebuilt from them. Full performance logs are rotated. Raises InputError for
    a folder that is a symbolic link.
    """
    prune(results, evidence)
    for part, names in (('logs', _LOG), ('reports', _JUNIT)):
        with suppress(FileNotFoundError), opened(results, part) as folder:
            for name, age in _own(folder, names)[LAST:]:
                if age > days:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
    with suppress(FileNotFoundError), opened(results, STAGE) as folder:
        for name, _ in _own(folder, _STAGE, of_folders=True):
            if not any(files for *_, files, _ in os.fwalk(name, dir_fd=folder)):
                remove_folder(name, folder)
        for name, age in _own(folder, _STAGE, of_folders=True)[LAST:]:
            if age > min(days, STAGE_DAYS):
                remove_folder(name, folder)
    with suppress(FileNotFoundError), opened(results, 'perflogs') as folder:
        for path, below, files in files_below(folder):
            for name in files:
                if _PERFLOG.fullmatch(f'{path}/{name}') and os.stat(name, dir_fd=below).st_size > LARGEST_LOG:
                    with suppress(OSError):
                        os.replace(name, f'{name}.1', src_dir_fd=below, dst_dir_fd=below)


def _own(folder: int, names: re.Pattern[str], of_folders: bool = False) -> list[tuple[str, float]]:
    """Return (name, days since the last write) of each file, or folder, with such a name in `folder`, newest first.

    The days are negative if the clock was set back.
    """
    now, found = time.time(), []
    for name in filter(names.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # it is gone
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if (stat.S_ISDIR if of_folders else stat.S_ISREG)(status.st_mode):
                found.append((name, (now - status.st_mtime) / 86400))
    return sorted(found, key=lambda entry: entry[1])

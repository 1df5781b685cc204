# SPDX-License-Identifier: BSD-3-Clause
"""The results directory: who may write it, and its folders, opened without following symbolic links.

Who may write a folder of it can put a link there, and would choose with it what a command of another user removes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from plumbline import settings
from plumbline.errors import InputError

STAGE = 'nightly-stage'  # a folder for each run with the files of its failed cases
EVIDENCE = 'evidence'
_FOLDERS = (
    'changes', EVIDENCE, 'incidents', 'judged', 'logs', STAGE, 'node-checks', 'perflogs', 'proposals', 'reports',
    'store',
)  # fmt: skip
_BELOW = ('store/*', 'store/*/*', 'incidents/*', f'{EVIDENCE}/*', 'reports/parts')
_NO_LINK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def refuse_writable_by_all(results: Path) -> None:
    """Raise InputError if every user of this machine may write the results directory, or a folder of it.

    With the sticky bit, as of /tmp, nobody replaces the files of others. Folders of a month or a run are not looked at.
    """
    below = (path for pattern in _BELOW for path in results.glob(pattern))
    for folder in (results, *(results / name for name in _FOLDERS), *below):
        with suppress(OSError):
            mode = folder.stat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise InputError(
                    f'{folder}: every user of this machine may write here and change verdicts; '
                    f'chmod -R o-w {results}, or another --results'
                )


def refuse_links(results: Path) -> None:
    """Raise InputError for a folder of the results directory that is a symbolic link without being named as one."""
    for name in _FOLDERS:
        if (results / name).is_symlink() and not _is_allowed(name):
            raise _link(results / name)


@contextmanager
def opened(results: Path, name: str) -> Iterator[int]:
    """Open a folder of the results directory, and yield its descriptor.

    Raises FileNotFoundError, and InputError for a symbolic link that ``PLUMBLINE_LINKS`` does not name.
    """
    path = results / name
    try:
        folder = os.open(path, _NO_LINK & ~os.O_NOFOLLOW if _is_allowed(name) else _NO_LINK)
    except OSError as error:
        if path.is_symlink():
            raise _link(path) from None
        raise error
    try:
        yield folder
    finally:
        os.close(folder)


def files_below(folder: int) -> Iterator[tuple[str, int, list[str]]]:
    """Yield path, descriptor and names of the regular files of each folder below `folder`, on the same device.

    No symbolic link is followed. The descriptor is closed when the next folder is asked for.
    """
    device = os.fstat(folder).st_dev
    for path, folders, names, here in os.fwalk('.', dir_fd=folder):
        folders[:] = [name for name in folders if _status(name, here).st_dev == device]
        yield os.path.normpath(path), here, [name for name in names if stat.S_ISREG(_status(name, here).st_mode)]


def remove_folder(name: str, folder: int) -> None:
    """Remove the folder `name` of `folder` with what is in it, on the same device; of links, only the links.

    `folder`: its descriptor. What this user may not remove stays.
    """
    device = os.fstat(folder).st_dev
    with suppress(OSError, RecursionError):  # folders nested too deep for Python
        for _, folders, names, here in os.fwalk(name, topdown=False, dir_fd=folder):
            if os.fstat(here).st_dev != device:
                continue
            for entry in (*folders, *names):
                with suppress(OSError):
                    is_folder = stat.S_ISDIR(_status(entry, here).st_mode)
                    (os.rmdir if is_folder else os.unlink)(entry, dir_fd=here)
        os.rmdir(name, dir_fd=folder)


def _status(name: str, folder: int) -> os.stat_result:
    """Return the status of an entry of a folder, of a link its own; all zero if it is gone."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return os.stat_result((0,) * 10)


def _is_allowed(name: str) -> bool:
    """Return True if the administrator has named this folder as one that may be a symbolic link."""
    return name in settings.LINKS.get().split(':')


def _link(path: Path) -> InputError:
    """Return the error for a folder that is a symbolic link."""
    return InputError(
        f'{path}: is a symbolic link, and files of other people could be removed behind it; expected a folder, or '
        f'{settings.LINKS.name}={path.name} if the link is yours'
    )

# SPDX-License-Identifier: BSD-3-Clause
"""Read YAML files, and write files that are either complete or absent."""

import os
import platform
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from plumbline.errors import InputError, SiteError

_UNFINISHED = '.new.'  # in the names of files that are being written
_WRITING = 3600.0  # seconds that no writer takes
_DEEPEST = 50  # levels of a YAML file; PyYAML's own functions call themselves for each
_MOST_REPEATED = 10_000  # parts that the aliases of a YAML file stand for, all together


def read_yaml(path: Path, parse: str = 'load') -> Any:
    """Return the content of a YAML file; if `parse` is ``compose``, its nodes with line numbers. Raises SiteError."""
    import yaml  # here, so that `--help` needs no package

    loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)  # the loader of libyaml, if built in, is ten times faster
    try:
        text = path.read_text(encoding='utf-8')
        _refuse_endless(yaml.parse(text, Loader=loader))
        return getattr(yaml, parse)(text, Loader=loader)
    except OSError as error:
        raise SiteError(f'{path}: cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        line = error.object.count(b'\n', 0, error.start) + 1
        found = f'found the byte 0x{error.object[error.start]:02x}'
        raise SiteError(f'{path}:{line}: not valid YAML: expected UTF-8, {found}; save the file as UTF-8') from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f'{path}:{mark.line + 1}' if mark else f'{path}'
        began = f' {error.context} that begins in line {error.context_mark.line + 1}' if error.context_mark else ''
        raise SiteError(f'{where}: not valid YAML: {error.problem}{began}') from None
    except (yaml.YAMLError, ValueError) as error:  # a control character, or a date that does not exist
        raise SiteError(f'{path}: not valid YAML: {" ".join(str(error).split())}') from None


def _refuse_endless(events: Iterable[Any]) -> None:
    """Raise yaml.MarkedYAMLError if parts are too deep, or if aliases stand for themselves or for too many parts."""
    import yaml

    opened: list[tuple[str | None, int]] = []  # anchor of each part around the event, and number of parts before it
    sizes: dict[str | None, int] = {}
    parts = repeated = 0
    for event in events:
        wrong = ''
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, parts))
            wrong = f'more than {_DEEPEST} levels of brackets or indentation' if len(opened) > _DEEPEST else ''
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = parts - before
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            repeated += (size := sizes.get(event.anchor, 0))
            parts += size
            if any(anchor == event.anchor for anchor, _ in opened):
                wrong = f'the alias *{event.anchor} stands within the part that it repeats'
            elif repeated > _MOST_REPEATED:
                wrong = f'the aliases up to here repeat more than {_MOST_REPEATED} parts'
        parts += isinstance(event, yaml.NodeEvent)
        if wrong:
            raise yaml.MarkedYAMLError(problem=wrong, problem_mark=event.start_mark)


def to_yaml(content: Any) -> str:
    """Return `content` as YAML."""
    import yaml

    return yaml.safe_dump(content)


def keep_others_from_writing(results: Path | None = None) -> int:
    """Let this process make no file that every user may write, or that more users may use than the folder `results`.

    Return the umask.
    """
    mode = results.stat().st_mode if results and results.exists() else stat.S_IRWXG | stat.S_IRWXO
    umask = os.umask(0) | stat.S_IWOTH | ~mode & (stat.S_IRWXG | stat.S_IRWXO)
    os.umask(umask)
    return umask


def write_whole(contents: dict[Path, Callable[[BinaryIO], object]]) -> None:
    """Write each file by calling its function with a stream; replace files when all are written. Raises InputError."""
    waiting: dict[Path, Path] = {}
    try:
        for path, write in contents.items():
            make_folder(path.parent)
            if path.exists() and not path.is_file():  # /dev/stdout and other devices must not be replaced
                with path.open('wb') as stream:
                    write(stream)
                continue
            # unique, as hosts may share the folder; unpredictable, as other users may write there
            unique = f'{platform.node()}.{os.getpid()}.{secrets.token_hex(4)}'
            temporary = path.with_name(f'.{path.name}{_UNFINISHED}{unique}')
            waiting[path] = temporary
            with open(temporary, 'xb', opener=_as_wide_as_its_folder) as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
        for path, temporary in waiting.items():
            os.replace(temporary, path)
    except OSError as error:
        named = {str(temporary): path for path, temporary in waiting.items()}
        where = named.get(str(error.filename), error.filename or path)
        raise InputError(f'{where}: cannot be written: {error.strerror or error}') from None
    finally:
        for temporary in waiting.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def open_own(path: Path, mode: str) -> TextIO:
    """Open a text file of the suite to write or append, never through a symbolic link. Raises InputError."""

    try:
        return cast(TextIO, open(path, mode, encoding='utf-8', opener=_as_wide_as_its_folder))
    except OSError as error:
        if path.is_symlink():
            raise InputError(f'{path}: is a symbolic link, expected a file of ours; remove it') from None
        raise InputError(f'{path}: cannot be written: {error.strerror}') from None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; nobody may do more in it than in the one above, and not all may write."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent)
        folder.mkdir(0o777 & _at_most(folder.parent), exist_ok=True)


def _as_wide_as_its_folder(name: str, flags: int) -> int:
    """Open a file, never through a symbolic link; make it for nobody to whom its folder is closed, whatever umask."""
    return os.open(name, flags | os.O_NOFOLLOW, 0o666 & _at_most(Path(name).parent))


def _at_most(folder: Path) -> int:
    """Return the mode that what is made in `folder` may have: for others than the user, no more than the folder's.

    Who may not enter a folder gets nothing; who may enter it may read a file in it. Write access is never for all.
    """
    mode, allowed = folder.stat().st_mode, 0o775
    for group in (0o070, 0o007):
        if not mode & group & 0o011:
            allowed &= ~group
        elif not mode & group & 0o022:
            allowed &= ~(group & 0o022)
    return allowed


def is_unfinished(path: Path) -> bool:
    """Return True for a file that :func:`write_whole` has not put into its place."""
    return path.name.startswith('.') and _UNFINISHED in path.name


def remove_abandoned(folder: Path) -> list[Path]:
    """Remove the unfinished files in `folder` and below it that are older than an hour: their writers were killed.

    Return their paths.
    """
    removed = []
    for path in folder.rglob('.*'):
        with suppress(OSError):
            status = path.lstat()
            if is_unfinished(path) and stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _WRITING:
                path.unlink()
                removed.append(path)
    return removed


def write_text(path: Path, text: str) -> None:
    """Write one text file with :func:`write_whole`."""
    write_whole({path: lambda stream: stream.write(text.encode())})

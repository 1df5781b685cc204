"""Write files that are either complete or absent."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from plumbline.errors import InputError


def write_whole(contents: dict[Path, Callable[[BinaryIO], object]]) -> None:
    """Write each file by calling its value with an open binary stream, then replace the files in the order given.

    All are complete on disk before the first is replaced, so a full disk changes none of them. Raises InputError.
    """
    waiting: dict[Path, Path] = {}
    try:
        for path, write in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # /dev/stdout and other devices must not be replaced
                with path.open('wb') as stream:
                    write(stream)
                continue
            # unique, as hosts may share the folder
            temporary = path.with_name(f'.{path.name}.{platform.node()}.{os.getpid()}')
            waiting[path] = temporary
            with temporary.open('wb') as stream:
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


def write_text(path: Path, text: str) -> None:
    """Write one text file with :func:`write_whole`."""
    write_whole({path: lambda stream: stream.write(text.encode())})

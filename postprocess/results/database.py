# SPDX-License-Identifier: BSD-3-Clause
"""The DuckDB database of this process, which holds no table of its own."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


@cache
def instance() -> duckdb.DuckDBPyConnection:
    """Return the only DuckDB database of this process, because each one takes 35 ms to start."""
    import duckdb

    # What does not fit into memory goes to files, by default in the current directory. Not all cores are used: a login
    # node is shared, and hundreds of threads would also share the memory.
    threads = min(4, os.cpu_count() or 1)
    database = duckdb.connect(config={'memory_limit': '1GB', 'temp_directory': _own_folder(), 'threads': threads})
    database.execute('SET parquet_metadata_cache = true')  # the queries of a command read the same files
    return database


def _own_folder() -> str:
    """Return a folder below /tmp that only this user may enter, because DuckDB's files there may be read by all."""
    folder = Path(tempfile.gettempdir(), f'plumbline-{os.getuid()}')
    with suppress(OSError):
        folder.mkdir(0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return str(folder)
    return tempfile.mkdtemp(prefix='plumbline-')  # another user was first


def quoted(text: str) -> str:
    """Return `text` as a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"

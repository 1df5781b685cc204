"""The Parquet files of the store: list, write and read them; each missing or damaged one is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from postprocess.results.tables import COMMON


class Gone(Exception):
    """A listed file is gone: another process compacted its month."""


def listed(folder: Path) -> list[Path]:
    """Return what is in a folder, nothing if it does not exist. `glob` would ignore one that may not be read."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f'{folder}: cannot be read: {error.strerror}') from None


def write_table(rows: pa.Table, stream: BinaryIO) -> None:
    """Write `rows` as Parquet with checksums, which `plumbline store check` verifies."""
    pq.write_table(rows, stream, write_page_checksum=True)


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file of the store. Raises Gone, or InputError for a file that is damaged or not of the store."""
    index = path.parents[3] / 'sessions' / Path(*path.parts[-3:])
    repair = f'to replace it, remove {index} and ingest its reports again'
    try:
        with pq.ParquetFile(path) as file:
            if not COMMON.keys() <= set(file.schema_arrow.names):
                raise ValueError(f'it has no columns {" and ".join(COMMON)}')
            yield file
    except FileNotFoundError:
        raise Gone(f'{path}: the file of a stored session is missing; {repair}') from None
    except (OSError, ValueError) as error:  # Arrow's errors are of these kinds
        if isinstance(error, OSError) and error.errno:
            raise InputError(f'{path}: cannot be read: {os.strerror(error.errno)}') from None
        raise InputError(
            f'{path}: damaged, or not a file of the store: {str(error).splitlines()[0].rstrip(".")}; {repair}'
        ) from None


def read_table(path: Path, session: str | None = None) -> pa.Table:
    """Return the rows of a file, of one session where that is given. Raises as `opened` does."""
    with opened(path) as file:
        if session is None:
            return file.read()
        # not by a filter, which imports pandas: that takes longer than to read the file
        column = file.schema_arrow.names.index('session')
        groups = [file.metadata.row_group(place) for place in range(file.num_row_groups)]
        found = [place for place, group in enumerate(groups) if _only_text(group.column(column)) == session]
        return file.read_row_groups(found)


def rows_of(rows: pa.Table, session: str) -> pa.Table:
    """Return the rows of one session."""
    import pyarrow.compute as pc  # imports pandas

    return rows.filter(pc.equal(rows['session'], session))


def _only_text(column: pq.ColumnChunkMetaData) -> str | None:
    """Return the text that all rows of a part of a column have; None where they have several."""
    values = column.statistics
    return values.min if values and values.min == values.max else None

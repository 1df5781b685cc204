# SPDX-License-Identifier: BSD-3-Clause
"""Convert a store as versions before 1.0 wrote it: months in one file, and checksums in ``.sums`` beside them.

Its files are kept in ``<results>/store-before/``.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from operator import methodcaller
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import write_whole
from postprocess.results.files import in_table, place_of, session_in, write_session
from postprocess.results.tables import OF_CASES, TABLES
from postprocess.text import count

KEPT = 'store-before'  # folder of the results directory
_KNOWN = {*TABLES['sessions'].names}


def convert(store: Path) -> Iterator[str]:
    """Convert the files below `store`; yield a sentence for those of each month. Raises InputError for a damaged file.

    A conversion that was killed goes on when it is started again: it reads the kept files, and the ``.sums`` go last.
    """
    for folder in sorted({path.parent for path in (store / 'sessions').glob('*/*/*.sums')}):
        sums = sorted(folder.glob('*.sums'))
        kept = [_kept(path.with_suffix('.parquet'), store) for path in sums]
        rows = {index: pq.read_table(index).to_pylist() for index in kept}
        # a session that is also in a file of its own was stored again behind the others of its month
        of = {
            row['session']: (index, row)
            for index in sorted(kept, key=lambda one: -len(rows[one]))
            for row in rows[index]
        }
        for uuid, (index, row) in of.items():
            session = session_in({name: row[name] for name in row.keys() & _KNOWN}, place_of(index)[0])
            tables = {table: _of_session(in_table(index, table), table, uuid) for table in OF_CASES}
            write_session(folder / f'{uuid}.parquet', session, tables)
        for path in sums:
            if path.stem not in of:
                for table in TABLES:
                    in_table(path.with_suffix('.parquet'), table).unlink(missing_ok=True)
        for path in sums:
            path.unlink()
        yield f'{folder}: {count(len(of), "session")} of a version before 1.0 converted; kept in {store.parent / KEPT}'


def _kept(index: Path, store: Path) -> Path:
    """Return the kept copy of a file of the table sessions; copy it and those of the other tables, once verified."""
    copy = store.parent / KEPT / index.relative_to(store)
    if not copy.exists():
        sums = json.loads(index.with_suffix('.sums').read_bytes())
        contents: dict[Path, Callable[[BinaryIO], object]] = {}
        for table in (*OF_CASES, 'sessions'):
            path = in_table(index, table)
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InputError(f'{path}: cannot be read: {error.strerror}') from None
            if zlib.crc32(content) != sums.get(table):
                raise InputError(
                    f'{path}: its bytes are not those that were written: remove it, and ingest its reports again'
                )
            contents[in_table(copy, table)] = methodcaller('write', content)
        write_whole(contents)
        shutil.copy(index.with_suffix('.sums'), copy.with_suffix('.sums'))
    return copy


def _of_session(path: Path, table: str, session: str) -> pa.Table:
    """Return the rows of a session in a kept file, with the columns of today besides; those that it lacks are empty."""
    rows = pq.read_table(path)
    rows = rows.filter(pc.equal(rows['session'], session))
    for one in TABLES[table]:
        if one.name not in rows.column_names:
            rows = rows.append_column(one, pa.nulls(len(rows), one.type))
    return rows

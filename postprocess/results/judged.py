# SPDX-License-Identifier: BSD-3-Clause
"""What was judged of a session: one file of the session in each table of `postprocess.results.tables.JUDGED`.

``<results>/store/<table>/site=<site>/month=YYYY-MM/<uuid>.parquet`` is put in place whole. Its metadata holds a
checksum of what the rows follow from, facts of the whole session as JSON, and the checksum of the file. Without it, the
session is judged again.

A row is made of the fields of a record by their names and types: a new field needs a column in the schema alone.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.errors import InputError
from plumbline.files import write_whole
from plumbline.identity import Quantity, SeriesId
from plumbline.record import Summary
from postprocess.results.files import UNSEALED, opened, sealed
from postprocess.results.tables import JUDGED, LATER, SCHEMA

if TYPE_CHECKING:
    from postprocess.results.store import Session, Store

_Row = TypeVar('_Row')
_FLAT = (SeriesId, Quantity, Summary)
_Part = tuple[Callable[[Any], dict[str, Any]], Callable[[Mapping[str, Any]], Any]]  # how to write and read a field
_ROWS_AT_ONCE = 10_000
_FOLLOWS_FROM, _FACTS, _CHECKSUM, _WHOLE = b'follows_from', b'facts', b'crc32', b'whole'  # keys of the metadata


def to_row(record: Any) -> dict[str, Any]:
    """Return a record as a row; a part of a type in `_FLAT` and an interval are columns of it, other records are in it.

    What the table has no column for is not written.
    """
    if isinstance(record, SeriesId):
        return record.to_row()
    kind: Any = type(record)
    plain, parts = _fields(kind)
    row = {name: getattr(record, name) for name in plain}
    for name, (write, _) in parts.items():
        row |= write(getattr(record, name))
    return row


def from_row(kind: Any, row: Mapping[str, Any]) -> Any:
    """Return the record of type `kind` that `to_row` made a row of. Raises LookupError."""
    if kind is SeriesId:
        return SeriesId.from_row(row)
    plain, parts = _fields(kind)
    values = {name: row[name] for name in plain}
    return kind(**values, **{name: read(row) for name, (_, read) in parts.items()})


@cache
def _fields(kind: Any) -> tuple[list[str], dict[str, _Part]]:
    """Return the fields of a type of records that are as they are in a row, and of the others how to make them so."""
    hints = get_type_hints(kind)
    parts = {field.name: _part(field.name, hints[field.name]) for field in fields(kind)}
    return [name for name in parts if not parts[name]], {name: part for name, part in parts.items() if part}


def _part(name: str, hint: Any) -> _Part | None:
    """Return how to write and read a field of the type `hint`; None for a plain value."""
    of = get_args(hint)[0] if get_origin(hint) in (tuple, UnionType) else hint
    if name == 'interval':
        low, high = 'loss_low', 'loss_high'
        return (
            lambda ends: dict(zip((low, high), ends or (None, None), strict=True)),
            lambda row: None if row[low] is None else (row[low], row[high]),
        )
    if get_origin(hint) is tuple and is_dataclass(of):
        return (
            lambda values: {name: [*map(to_row, values)]},
            lambda row: tuple(from_row(of, value) for value in row[name]),
        )
    if get_origin(hint) is tuple:
        return lambda values: {name: values}, lambda row: tuple(row[name])
    if of in _FLAT:
        return to_row, lambda row: from_row(of, row)
    if is_dataclass(of):
        return lambda value: {name: value and to_row(value)}, lambda row: row[name] and from_row(of, row[name])
    return None


class _Head(NamedTuple):
    follows_from: bytes
    facts: bytes

    @property
    def checksum(self) -> bytes:
        """The checksum of both, because those of Parquet's pages do not cover the metadata."""
        return f'{zlib.crc32(b" ".join(self)):08x}'.encode()


def is_stored(store: Store, table: str, session: Session, follows_from: str) -> bool:
    """Return True if the rows of a session are stored and follow from what is so today."""
    try:
        with opened(store.path(table, session)) as file:
            return _is_of(file, table, follows_from)
    except InputError:
        return False


def read(
    store: Store, table: str, session: Session, follows_from: str, convert: Callable[[dict[str, Any]], _Row]
) -> tuple[bytes, list[_Row]] | None:
    """Return facts and converted rows of a session; None without a file, or if it is damaged or follows from others."""
    try:
        with opened(store.path(table, session)) as file:
            return _content(file, table, convert) if _is_of(file, table, follows_from) else None
    except InputError:
        return None


def read_any(
    store: Store, table: str, session: Session, convert: Callable[[dict[str, Any]], _Row]
) -> tuple[bytes, list[_Row]]:
    """Return facts and converted rows of a session, whatever they follow from.

    Raises InputError for a missing or damaged file, and for one with other columns than today.
    """
    with opened(store.path(table, session)) as file:
        return _content(file, table, convert)


def write(
    store: Store, table: str, session: Session, follows_from: str, rows: Iterable[dict[str, Any]], facts: bytes = b'{}'
) -> None:
    """Store the rows of a session, in portions that fit into memory. Raises InputError."""
    whole = ({'schema': SCHEMA, 'session': session.session, **row} for row in rows)
    portions = iter(lambda: [*islice(whole, _ROWS_AT_ONCE)], [])
    tables = (pa.Table.from_pylist(portion, JUDGED[table]) for portion in portions)
    _write(store.path(table, session), tables, _Head(follows_from.encode(), facts))


def replace_facts(store: Store, table: str, session: Session, facts: bytes) -> None:
    """Replace the facts of a session, and keep its rows. Raises InputError for a damaged file."""
    path = store.path(table, session)
    with opened(path) as file:
        head = _head(file)
        rows = pa.Table.from_pylist(_content(file, table, dict)[1], JUDGED[table])
    _write(path, [rows], head._replace(facts=facts))


def _write(path: Path, tables: Iterable[pa.Table], head: _Head) -> None:
    """Write the file of a session."""
    metadata = {_FOLLOWS_FROM: head.follows_from, _FACTS: head.facts, _CHECKSUM: head.checksum, _WHOLE: UNSEALED}

    def write_tables(stream: BinaryIO) -> None:
        schema, whole = JUDGED[path.parts[-4]].with_metadata(metadata), io.BytesIO()
        with pq.ParquetWriter(whole, schema, write_page_checksum=True) as writer:
            for table in tables:
                writer.write_table(table.replace_schema_metadata(metadata))
        stream.write(sealed(whole.getvalue()))

    write_whole({path: write_tables})


def read_whole(path: Path) -> None:
    """Read a file of a table of `JUDGED` and verify its checksums. Raises InputError."""
    with opened(path) as file:
        _head(file)
        groups = map(file.read_row_group, range(file.num_row_groups))
        of = {uuid for group in groups for uuid in group['session'].unique().to_pylist()}
        if of - {path.stem}:
            raise ValueError(f'it has rows of session {", ".join(sorted(of - {path.stem}))}')


def _content(file: pq.ParquetFile, table: str, convert: Callable[[dict[str, Any]], _Row]) -> tuple[bytes, list[_Row]]:
    """Return facts and converted rows of a file. Raises ValueError."""
    _verify_columns(file, table)
    groups = (file.read_row_group(n, use_threads=False) for n in range(file.num_row_groups))
    return _head(file).facts, [convert(LATER | row) for group in groups for row in group.to_pylist()]


def _verify_columns(file: pq.ParquetFile, table: str) -> None:
    """Raise ValueError if a file lacks a column of today but those of `LATER`; others are not read."""
    there = {field.name: field.type for field in file.schema_arrow}
    there = {field.name: field.type for field in JUDGED[table] if field.name in LATER} | there
    if any(there.get(field.name) != field.type for field in JUDGED[table]):
        raise ValueError('its columns are those of another version')


def _is_of(file: pq.ParquetFile, table: str, follows_from: str) -> bool:
    """Return True if the rows of a file follow from what is so today. Raises ValueError."""
    return _head(file).follows_from == follows_from.encode() and file.schema_arrow.equals(JUDGED[table])


def _head(file: pq.ParquetFile) -> _Head:
    """Return the metadata of a file. Raises ValueError."""
    metadata = file.metadata.metadata or {}
    head = _Head(metadata.get(_FOLLOWS_FROM, b''), metadata.get(_FACTS, b''))
    if metadata.get(_CHECKSUM) != head.checksum:
        raise ValueError('its metadata is not as it was written')
    return head

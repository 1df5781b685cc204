# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the results store: their columns, which numbers count as measured, and their Parquet files."""

from __future__ import annotations

import io
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.causes import Cause, sentence
from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.identity import ID_COLUMNS
from postprocess.text import one_line

SCHEMA = 1
_TIME = pa.timestamp('us')
_WORDS = pa.list_(pa.string())
#: The first columns of each table.
COMMON = {'schema': pa.int32(), 'session': pa.string()}


def _schema(**columns: pa.DataType) -> pa.Schema:
    """Return the schema of a table with the common columns and `columns`."""
    return pa.schema(COMMON | columns)


#: Table -> schema, in the order in which their files are written. `case_id`: a number within the session. `round`: 0
#: for the first run of a case, 1 for the next. `purpose` of a further run: ``node`` if a node is in doubt, ``look`` if
#: it shows how much a metric varies before there is a baseline. `params` and `dims` of metrics and samples: texts of
#: `plumbline.identity.to_text`. `dims`, `draw`, `figures`, `placement`, `provenance`, `health` and `causes` of a case:
#: JSON. `status` of a metric: see `status_of`. `selection`, `narrowed_by` and `problem_facts`: see `Session`.
TABLES = {
    'samples': _schema(
        case_id=pa.int32(), metric=pa.string(), dims=pa.string(), trial=pa.int32(), node=pa.string(),
        value=pa.float64(),
    ),
    'metrics': _schema(
        case_id=pa.int32(), metric=pa.string(), dims=pa.string(), unit=pa.string(), better=pa.string(), n=pa.int32(),
        mean=pa.float64(), std=pa.float64(), min=pa.float64(), max=pa.float64(), status=pa.string(),
        invalid=pa.string(), missing=pa.string(), judged=pa.bool_(), usual_spread=pa.float64(), floor=pa.float64(),
    ),
    'cases': _schema(
        case_id=pa.int32(), round=pa.int32(), purpose=pa.string(), partition=pa.string(), environ=pa.string(),
        check=pa.string(), params=pa.string(), name=pa.string(), fixture=pa.bool_(), benchmark=pa.bool_(),
        result=pa.string(), fail_phase=pa.string(), fail_reason=pa.string(), tags=_WORDS, trials=pa.int32(),
        scheduler=pa.string(), job_id=pa.string(), job_state=pa.string(), job_exitcode=pa.int32(), nodes=_WORDS,
        completed=_TIME, time_setup=pa.float64(), time_compile=pa.float64(), time_run=pa.float64(),
        time_sanity=pa.float64(), time_performance=pa.float64(), time_total=pa.float64(),
        trial_seconds=pa.list_(pa.float64()), dims=pa.string(), draw=pa.string(), figures=pa.string(),
        placement=pa.string(), provenance=pa.string(), health=pa.string(), causes=pa.string(), evidence=pa.string(),
    ),
    'sessions': _schema(
        started=_TIME, ended=_TIME, hostname=pa.string(), user=pa.string(), reframe=pa.string(), mode=pa.string(),
        cmdline=pa.string(), selection=_WORDS, narrowed_by=_WORDS, runs=pa.int32(), ran=pa.int32(),
        expected=pa.int32(), problems=_WORDS, problem_facts=pa.string(), report=pa.string(),
        report_sha256=pa.string(), source=pa.string(),
    ),
}  # fmt: skip

_SERIES = dict.fromkeys(ID_COLUMNS, pa.string())
_QUANTITY = dict.fromkeys(('unit', 'better'), pa.string())
_SUMMARY = {'n': pa.int64()} | dict.fromkeys(('mean', 'std', 'min', 'max'), pa.float64())
_LOSS = dict.fromkeys(('loss', 'loss_low', 'loss_high'), pa.float64())
_REFERENCE = pa.struct(
    _SERIES | _QUANTITY
    | {'mean': pa.float64(), 'std': pa.float64(), 'n': pa.int64()}
    | dict.fromkeys(('kind', 'source', 'recorded_at', 'mode', 'note', 'software'), pa.string())
    | {'spread': pa.float64(), 'df': pa.float64(), 'spread_n': pa.int64()}
    | dict.fromkeys(('usual_spread', 'floor'), pa.float64())
    | dict.fromkeys(('epoch', 'provenance', 'printed'), pa.string())
)  # fmt: skip
_LIMITS = pa.struct(
    dict.fromkeys(('bad', 'good', 'loss'), pa.float64()) | dict.fromkeys(('why', 'gate'), pa.string())
    | dict.fromkeys(('sd', 'df', 'detectable', 'sd_of_jobs'), pa.float64())
)  # fmt: skip
_JOB = pa.struct(
    {'round': pa.int32(), 'case_id': pa.int32(), 'nodes': _WORDS} | _SUMMARY
    | {'status': pa.string(), 'cause': pa.string(), 'ended': pa.bool_(), 'purpose': pa.string()}
)  # fmt: skip
_LEVEL = pa.struct(_SERIES | {'node': pa.string(), 'value': pa.float64(), 'better': pa.string(), 'ratio': pa.float64()})
_VALUE = pa.struct(_SERIES | _QUANTITY | {'value': pa.float64(), 'n': pa.int64(), 'expected': pa.float64()} | _LOSS)
#: Table -> schema of the tables that follow from the others, and are written when a session is judged: what
#: `postprocess.verdicts.verdict.Verdict` and `postprocess.incidents.incident.Incident` say. `code`: of the cause.
JUDGED = {
    'verdicts': _schema(
        **_SERIES, **_QUANTITY, verdict=pa.string(), cause=pa.string(), code=pa.string(), **_SUMMARY,
        reference=_REFERENCE, limits=_LIMITS, **_LOSS, window=pa.int32(), p=pa.float64(), q=pa.float64(),
        case_id=pa.int32(), nodes=_WORDS, jobs=pa.list_(_JOB),
    ),
    'findings': _schema(
        kind=pa.string(), sort=pa.string(), partition=pa.string(), environ=pa.string(), scope_nodes=_WORDS,
        device=pa.string(), link_class=pa.string(), place=pa.string(), same_nodes=_WORDS, checks=_WORDS,
        series=pa.list_(_VALUE), nodes=_WORDS, cause=pa.string(), code=pa.string(), **_LOSS, since=pa.string(),
        day=pa.string(), sessions=pa.int32(), changed=_WORDS, evidence=_WORDS, next_steps=_WORDS,
        levels=pa.list_(_LEVEL), certain=pa.bool_(), archives=_WORDS, named=pa.bool_(), cost=pa.float64(),
    ),
}  # fmt: skip

#: Whether the numbers of a series count, see `status_of`.
Status = Literal['measured', 'invalid', 'missing', 'failed']
#: ReFrame's result of a case if its fixture failed.
NEEDED_FAILED = 'fail_deps'


@dataclass(frozen=True)
class RunReport:
    """One session: its row, and the rows of its cases, metrics and samples, with the columns of `tables.TABLES`.

    Not stored: `notes`, sentences for the person who ingests it; `undecided`: (check, metric, unit) of metrics for
    which neither bounds nor unit nor a rule say whether higher or lower is better.
    """

    site: str
    session: dict[str, Any]
    cases: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
    undecided: frozenset[tuple[str, str, str]] = frozenset()


def reached_its_end(result: str, fail_phase: str | None) -> bool:
    """Return True if the numbers of a case are valid: it passed, or failed only against its references."""
    return result in ('pass', 'xfail', 'xpass') or (result == 'fail' and fail_phase == 'performance')


def status_of(result: str, fail_phase: str | None, invalid: bool, n: int, finite: bool) -> Status:
    """Return the status of a series in a session from the result of its case; the only definition of ``measured``.

    ``measured``; ``invalid``: the check found that its numbers cannot be true; ``missing``: declared, but without a
    number; ``failed``: its case failed, or its mean is not finite. `n`: number of samples. `finite`: True if the mean
    is finite.
    """
    if result == NEEDED_FAILED:
        return 'failed'
    if invalid:
        return 'invalid'
    if not n:
        return 'missing'
    return 'measured' if reached_its_end(result, fail_phase) and finite else 'failed'


def metric_row(case: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Return `row` of the table `metrics` with the id of its case and its status.

    Columns that it lacks will be null.
    """
    finite = row['mean'] is not None and math.isfinite(row['mean'])
    status = status_of(case['result'], case['fail_phase'], bool(row.get('invalid')), row['n'], finite)
    return {'case_id': case['case_id'], 'status': status} | row


def why_columns(causes: Sequence[Cause], evidence: str = '') -> dict[str, str | None]:
    """Return what is wrong with a case as its columns: data, and the sentence of them for people."""
    plain: list[dict[str, Any]] = [
        {name: one_line(of) or '' if isinstance(of, str) else of for name, of in vars(cause).items()}
        for cause in causes
    ]
    words = sentence([Cause(**each) for each in plain], evidence)
    return {'causes': json.dumps(plain), 'fail_reason': words or None}


def table_of(table: str, session: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Return the rows of a session as an Arrow table. Raises TypeError, ValueError or OverflowError."""
    schema = (TABLES | JUDGED)[table]
    own = pa.Table.from_pylist(rows, pa.schema(list(schema)[len(COMMON) :]))
    common = pa.repeat(pa.scalar(SCHEMA, COMMON['schema']), len(rows)), pa.repeat(session, len(rows))
    return pa.Table.from_arrays([*common, *own.columns], schema=schema)


# Files: each error names the missing or damaged file


class Gone(Exception):
    """Raised if a listed file no longer exists because another process compacted its month."""


def listed(folder: Path) -> list[Path]:
    """Return the paths in a folder; none if it does not exist.

    Raises InputError, where `glob` would ignore the error.
    """
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f'{folder}: cannot be read: {error.strerror}') from None


def write_table(rows: pa.Table, stream: BinaryIO) -> None:
    """Write `rows` as Parquet to `stream`."""
    pq.write_table(rows, stream, write_page_checksum=True)


def with_sums(contents: Mapping[Path, Callable[[BinaryIO], object]]) -> dict[Path, Callable[[BinaryIO], object]]:
    """Return what to write for the files of one or several sessions in each table, together with their checksums.

    The checksums cover whole files, because those of Parquet's pages do not cover its footer. They are written before
    the file of the table `sessions`, the last of `contents`, because a session exists with that file.
    """
    sums: dict[str, int] = {}

    def summed(path: Path, write: Callable[[BinaryIO], object]) -> Callable[[BinaryIO], object]:
        """Return a function that writes a file and notes its checksum."""

        def write_and_sum(stream: BinaryIO) -> None:
            write(through := _Summed(stream))  # type: ignore[arg-type]  # has all methods that writing needs
            sums[_table(path)] = through.sum

        return write_and_sum

    *others, last = contents
    memory = io.BytesIO()
    contents[last](memory)
    sums[_table(last)] = zlib.crc32(memory.getvalue())
    return {
        **{path: summed(path, contents[path]) for path in others},
        _sums_of(last): lambda stream: stream.write(json.dumps(sums).encode()),
        last: lambda stream: stream.write(memory.getvalue()),
    }


class _Summed(io.RawIOBase):
    """A stream that computes the checksum of the bytes written to it."""

    def __init__(self, stream: BinaryIO):
        self.stream, self.sum = stream, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.stream.tell()

    def write(self, data: Any) -> int:
        self.sum = zlib.crc32(data, self.sum)
        return self.stream.write(data)


def _table(path: Path) -> str:
    """Return the table of a file, from its path."""
    return path.parts[-4]


def _sums_of(path: Path) -> Path:
    """Return the path of the file with the checksums of a file of any table."""
    return (path.parents[3] / 'sessions' / Path(*path.parts[-3:])).with_suffix('.sums')


def has_sums(path: Path) -> bool:
    """Return True if a file of any table has checksums."""
    return _sums_of(path).exists()


def write_sums(index: Path) -> None:
    """Write the checksums of the present files of one or several sessions."""
    sums = {table: _sum_of(index.parents[3] / table / Path(*index.parts[-3:])) for table in TABLES}
    write_text(_sums_of(index), json.dumps(sums))


_verified: dict[Path, tuple[int, int, int]] = {}  # file that this process has verified -> its inode, time and size


def verify(path: Path) -> None:
    """Compare a file with its checksum, once in a process; a file without a checksum passes.

    Raises OSError, ValueError.
    """
    stat = path.stat()
    state = stat.st_ino, stat.st_mtime_ns, stat.st_size
    if _verified.get(path) == state:
        return
    for wait in (0.1, 0.4, 0):  # another process may be replacing it by a later report of the session
        try:
            wanted = json.loads(_sums_of(path).read_bytes())[_table(path)]
        except FileNotFoundError:
            break
        except (ValueError, LookupError, TypeError):
            wanted = None
        if wanted == _sum_of(path):
            break
        if not wait:
            raise ValueError('its bytes are not those that were written')
        time.sleep(wait)
    _verified[path] = state


def _sum_of(path: Path) -> int:
    """Return the checksum of a file."""
    checksum = 0
    with path.open('rb') as stream:
        while part := stream.read(2**20):
            checksum = zlib.crc32(part, checksum)
    return checksum


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file of the store. Raises Gone, or InputError for a file that is damaged or not of the store."""
    index = path.parents[3] / 'sessions' / Path(*path.parts[-3:])
    repair = f'to replace it, remove {index} and ingest its reports again'
    if judged := _table(path) in JUDGED:
        repair = 'remove it, and the session is judged again'
    try:
        if not judged:  # which have a checksum of their own
            verify(path)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if not COMMON.keys() <= set(file.schema_arrow.names):
                raise ValueError(f'it has no columns {" and ".join(COMMON)}')
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise Gone(f'{path}: the file of a stored session is missing; {repair}') from None
    except (OSError, ValueError) as error:  # Arrow's errors are of these kinds
        if isinstance(error, OSError) and error.errno:
            raise InputError(f'{path}: cannot be read: {os.strerror(error.errno)}') from None
        raise InputError(
            f'{path}: damaged, or not a file of the store: {str(error).splitlines()[0].rstrip(".")}; {repair}'
        ) from None


def read_table(path: Path, session: str | None = None) -> pa.Table:
    """Return the rows of a file; with `session`, only the rows of that session. Raises as `opened` does."""
    with opened(path) as file:
        if session is None:
            return file.read(use_threads=False)  # the file is small: to start threads takes as long as to read it
        # not with a filter, which imports pandas: the import takes longer than to read the file
        column = file.schema_arrow.names.index('session')
        groups = [file.metadata.row_group(place) for place in range(file.num_row_groups)]
        groups_found = [place for place, group in enumerate(groups) if _only_text(group.column(column)) == session]
        return file.read_row_groups(groups_found, use_threads=False)


def _only_text(column: pq.ColumnChunkMetaData) -> str | None:
    """Return the text that all rows of a part of a column have; None if they have different texts."""
    values = column.statistics
    return values.min if values and values.min == values.max else None

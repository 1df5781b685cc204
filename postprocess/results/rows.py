# SPDX-License-Identifier: BSD-3-Clause
"""The rows of a session: as readers collect them, as the store writes and returns them.

`postprocess.results.tables` describes the columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from plumbline.causes import Cause
from plumbline.identity import ID_COLUMNS, CaseId, Pairs, Quantity, SeriesId, from_text, short_name, to_text
from plumbline.problems import Problem
from plumbline.record import NOTHING, Purpose, Sample, Summary, summarize
from postprocess.results.tables import SCHEMA, Status, status_of
from postprocess.text import one_line

#: The `case_id` of a series that no case of its session measured.
NO_CASE = -1


@dataclass(frozen=True)
class Session:
    """One stored session. `ran`: cases of its report; `expected`: cases that should have run, None if not known.

    `selection`: what was asked for, each as ``option=value`` with ReFrame's long name of the option, such as
    ``name=Osu``; `narrowed_by`: the options that left out cases of the mode. `source`: where `report` came from:
    ``report``, ``database``; of another suite ``other report``, ``other database``, ``perflog``. `problems`: outside
    the cases, as `ci` and the reader of its report found them. `checksums`: see `postprocess.results.files`.
    """

    site: str
    session: str
    started: datetime
    ended: datetime
    ran: int
    problems: list[Problem]
    report: str
    report_sha256: str
    source: str
    hostname: str = ''
    reframe: str = ''
    cmdline: str = ''
    selection: list[str] = field(default_factory=list)
    narrowed_by: list[str] = field(default_factory=list)
    runs: int = 1
    user: str | None = None
    mode: str | None = None
    expected: int | None = None
    checksums: str | None = None
    schema: int = SCHEMA

    @property
    def month(self) -> str:
        """The month in which the session started, UTC."""
        return f'{self.started:%Y-%m}'

    @property
    def short_name(self) -> str:
        """The part of its uuid that names it."""
        return short_name(self.session)

    @property
    def day(self) -> str:
        """The day on which the session started, UTC."""
        return f'{self.started:%Y-%m-%d}'

    @property
    def time(self) -> str:
        """When the session started, in UTC: ``2026-11-22T04:00:00``."""
        return f'{self.started:%Y-%m-%dT%H:%M:%S}'

    @property
    def key(self) -> str:
        """The place of the session among those of its site, as a text to sort by."""
        return f'{self.time} {self.session}'

    @property
    def is_of_another_suite(self) -> bool:
        """True if the session ran with another ReFrame configuration than ours, with tests of others or our checks."""
        return self.source not in ('report', 'database')

    @property
    def epoch(self) -> int:
        """When the session started, in seconds since 1970, independent of the time zone of this machine."""
        return int(self.started.replace(tzinfo=timezone.utc).timestamp())

    @property
    def partition(self) -> str | None:
        """The partition that was asked for; None unless it was exactly one."""
        system = next((word for word in self.selection if word.startswith('system=')), '')
        return system.partition(':')[2] or None


class CaseRow(NamedTuple):
    """A run of a case or fixture; None: not known. Rows share mappings: nobody may change them.

    `causes`: what is wrong, the worst first.
    """

    case_id: int
    partition: str
    environ: str
    check: str
    params: Pairs
    name: str
    result: str
    fixture: bool = False
    benchmark: bool = True
    round: int = 0
    purpose: Purpose = ''
    tags: list[str] = []
    nodes: list[str] = []
    trial_seconds: list[float] = []
    dims: Mapping[str, Mapping[str, str]] = {}
    draw: Mapping[str, Mapping[str, Any]] = {}
    figures: Mapping[str, Mapping[str, Any]] = {}
    placement: Mapping[str, Any] = {}
    provenance: Mapping[str, str] = {}
    health: Mapping[str, Mapping[str, str]] = {}
    evidence: str = ''
    causes: Sequence[Cause] = ()
    trials: int | None = None
    fail_phase: str | None = None
    scheduler: str | None = None
    job_id: str | None = None
    job_state: str | None = None
    job_exitcode: int | None = None
    completed: datetime | None = None
    time_setup: float | None = None
    time_compile: float | None = None
    time_run: float | None = None
    time_sanity: float | None = None
    time_performance: float | None = None
    time_total: float | None = None

    @property
    def id(self) -> CaseId:
        """The identity of the case that ran."""
        return CaseId(self.partition, self.environ, self.check, self.params)


class MetricRow(NamedTuple):
    """A series in a run of a case; None: not known. `SessionRows.add` gives it its case, its status and its statistics.

    Not stored here: `samples`, which have a table of their own, and `is_decided`, False if neither bounds nor unit nor
    a rule say whether higher or lower is better.
    """

    metric: str
    dims: Pairs
    quantity: Quantity
    judged: bool = True
    invalid: str | None = None
    missing: str | None = None
    usual_spread: float | None = None
    floor: float | None = None
    case_id: int = NO_CASE
    status: Status = 'missing'
    summary: Summary = NOTHING
    samples: Sequence[Sample] = ()
    is_decided: bool = True


#: (case_id, metric, dims) -> samples.
Samples = Mapping[tuple[int, str, Pairs], Sequence[Sample]]


@dataclass
class SessionRows:
    """The rows of one session, as a reader collects them and the store returns them.

    Of the store, series have no samples. `notes`: sentences for the person who ingests the session.
    """

    session: Session
    notes: Sequence[str] = ()
    cases: list[CaseRow] = field(default_factory=list)
    metrics: list[MetricRow] = field(default_factory=list)

    def add(self, case: CaseRow, series: Iterable[MetricRow]) -> None:
        """Add a case and its series; each text of its causes becomes one line."""
        plain = []
        for cause in case.causes:
            texts: dict[str, Any] = {
                name: one_line(of) or '' for name, of in vars(cause).items() if isinstance(of, str)
            }
            plain.append(replace(cause, **texts))
        self.cases.append(case._replace(causes=plain))
        for row in series:
            found = summarize([value for *_, value in row.samples])
            is_finite = found.mean is not None and math.isfinite(found.mean)
            status = status_of(case.result, case.fail_phase, bool(row.invalid), found.n, is_finite)
            self.metrics.append(row._replace(case_id=case.case_id, status=status, summary=found))

    def columns(self, table: str) -> dict[str, Sequence[Any]]:
        """Return the rows of a table of the store as columns, and columns that the table does not have."""
        if table != 'samples':
            return columns_of(self.cases if table == 'cases' else self.metrics)
        write, _ = _PAIRS
        of_each = [(row.case_id, row.metric, write(row.dims), len(row.samples)) for row in self.metrics]
        samples = [sample for row in self.metrics for sample in row.samples]
        return {
            'case_id': [case for case, _, _, n in of_each for _ in range(n)],
            'metric': [metric for _, metric, _, n in of_each for _ in range(n)],
            'dims': [dims for _, _, dims, n in of_each for _ in range(n)],
            'trial': [trial for trial, _, _ in samples],
            'node': [node for _, node, _ in samples],
            'value': [value for _, _, value in samples],
        }

    @property
    def number_of_samples(self) -> int:
        """The number of samples of all series."""
        return sum(len(row.samples) for row in self.metrics)

    @property
    def undecided(self) -> set[tuple[str, str, str]]:
        """(check, metric, unit) of the series whose better direction is assumed."""
        checks = {case.case_id: case.check for case in self.cases}
        return {(checks[row.case_id], row.metric, row.quantity.unit) for row in self.metrics if not row.is_decided}


@lru_cache(2**14)  # most cases of a session say the same
def decoded(text: str | None) -> Mapping[str, Any]:
    """Return what is in one of the JSON columns of a case, which nobody may change; empty for None."""
    try:
        return msgspec.json.decode(text or '{}')  # 40 % faster than json
    except msgspec.DecodeError:  # a number that is not finite
        return json.loads(text or '{}')


def _encoded(facts: Mapping[str, Any]) -> str:
    """Return JSON that any encoding can hold: text from a file that is not UTF-8 has surrogates, which are replaced."""
    return json.dumps(facts, sort_keys=True, ensure_ascii=False).encode(errors='replace').decode() if facts else '{}'


@lru_cache(2**12)
def causes_in(text: str | None) -> Sequence[Cause]:
    """Return the causes in the column `causes`; none for None."""
    return msgspec.json.decode(text or '[]', type=tuple[Cause, ...])


_PAIRS = lru_cache(2**16)(to_text), from_text  # there are few different ones
# The fields of each kind of row that are texts in the store and something else in a row: how to write and read them.
_TEXTS: dict[type, dict[str, tuple[Callable[[Any], str | None], Callable[[Any], Any]]]] = {
    CaseRow: {
        'params': _PAIRS,
        'dims': (json.dumps, decoded),  # in the order declared
        **dict.fromkeys(('draw', 'figures', 'placement', 'provenance', 'health'), (_encoded, decoded)),
        'causes': (lambda causes: json.dumps([*map(vars, causes)]), causes_in),
    },
    MetricRow: {'dims': _PAIRS},
}
# The fields of rows that are several columns in the store, and their type.
_PARTS: dict[str, type[Quantity | Summary]] = {'quantity': Quantity, 'summary': Summary}
_Row = TypeVar('_Row', bound=NamedTuple)


def columns_of(rows: Sequence[NamedTuple]) -> dict[str, Sequence[Any]]:
    """Return typed rows of one kind as columns of a table of the store; none without rows."""
    if not rows:
        return {}
    kind = type(rows[0])
    columns: dict[str, Sequence[Any]] = dict(zip(kind._fields, zip(*rows, strict=True), strict=True))
    for name, (write, _) in _TEXTS[kind].items():
        columns[name] = [*map(write, columns[name])]
    for name in _PARTS.keys() & columns.keys():
        parts = columns.pop(name)
        columns |= {own.name: [getattr(part, own.name) for part in parts] for own in fields(_PARTS[name])}
    return columns


def typed(kind: type[_Row], table: pa.Table) -> list[_Row]:
    """Return the rows of a table of the store as records of type `kind`; columns of later versions have defaults.

    A case older than the column `causes` has what ReFrame said.
    """
    texts = _TEXTS[kind]
    columns: list[Iterable[Any]] = []
    for name in kind._fields:
        if part := _PARTS.get(name):
            columns.append(map(part, *(table[own.name].to_pylist() for own in fields(part))))
        elif name in table.column_names:
            values = table[name].to_pylist()
            columns.append(map(texts[name][1], values) if name in texts else values)
        else:
            columns.append(repeat(kind._field_defaults[name]))
    rows: list[Any] = [*map(kind._make, zip(*columns, strict=False))]
    if kind is CaseRow and 'fail_reason' in table.column_names:
        said = table['fail_reason'].to_pylist()
        rows = [row._replace(causes=_said(row, why)) for row, why in zip(rows, said, strict=True)]
    return rows


def _said(case: CaseRow, why: str | None) -> Sequence[Cause]:
    """Return the causes of a case, or `why` it failed in ReFrame's words if it is older than the column of causes."""
    return case.causes or ([Cause('said', why)] if why and case.fail_phase != 'performance' else ())


_OF_CASE = {*ID_COLUMNS[:4]}


def typed_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a query with `id`, of a series or else of a case, and `quantity` in place of their columns.

    Its `provenance` is no longer JSON.
    """
    if row.keys() >= _OF_CASE:
        kind = CaseId if row.get('metric') is None else SeriesId
        row['id'] = kind.from_row(row)
        for name in ID_COLUMNS:
            row.pop(name, None)
    if row.keys() >= {'unit', 'better'}:
        row['quantity'] = Quantity(row.pop('unit'), row.pop('better'))
    if 'provenance' in row:
        row['provenance'] = decoded(row['provenance'])
    return row

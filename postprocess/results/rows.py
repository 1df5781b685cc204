# SPDX-License-Identifier: BSD-3-Clause
"""The rows of a session: as readers collect them, as the store writes and returns them.

`postprocess.results.tables` describes the columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from plumbline.causes import Cause
from plumbline.identity import CaseId, Pairs, from_text, short_name, to_text
from plumbline.problems import Problem
from plumbline.record import Purpose, Sample, summarize
from postprocess.results.tables import SCHEMA, Status, status_of
from postprocess.text import one_line


@dataclass(frozen=True)
class Session:
    """One stored session. `ran`: cases of its report; `expected`: cases that should have run, None if not known.

    `selection`: what was asked for, each as ``option=value`` with ReFrame's long name of the option, such as
    ``name=Osu``; `narrowed_by`: the options that left out cases of the mode. `source`: where `report` came from:
    ``report``, ``database``; of another suite ``other report``, ``other database``, ``perflog``. `problem_facts`: JSON
    of those of `problems` that have facts. `checksums`: see `postprocess.results.files`.
    """

    site: str
    session: str
    started: datetime
    ended: datetime
    hostname: str
    reframe: str
    cmdline: str
    selection: list[str]
    narrowed_by: list[str]
    runs: int
    ran: int
    problems: list[str]
    report: str
    report_sha256: str
    source: str
    user: str | None = None
    mode: str | None = None
    expected: int | None = None
    problem_facts: str | None = None
    checksums: str | None = None
    schema: int = SCHEMA

    @property
    def month(self) -> str:
        """The month in which the session started, UTC."""
        return f'{self.started:%Y-%m}'

    @property
    def stored_problems(self) -> list[Problem]:
        """What went wrong outside the cases, as `ci` and the reader of its report found it."""
        facts = {
            fact['text']: Problem(**fact | {'nodes': (*fact['nodes'],)})
            for fact in json.loads(self.problem_facts or '[]')
        }
        return [facts.get(text, Problem(text)) for text in self.problems]

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
    """A series in a run of a case; None: not known, or without a number."""

    case_id: int
    metric: str
    dims: Pairs
    unit: str
    better: str
    n: int
    status: Status
    judged: bool = True
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    invalid: str | None = None
    missing: str | None = None
    usual_spread: float | None = None
    floor: float | None = None


class SampleRow(NamedTuple):
    """A sample of a series; `node`: names joined by commas."""

    case_id: int
    metric: str
    dims: Pairs
    trial: int
    node: str
    value: float


@dataclass
class RunReport:
    """One session, as a reader collects its rows.

    Not stored: `notes`, sentences for the person who ingests it; `undecided`: (check, metric, unit) of metrics for
    which neither bounds nor unit nor a rule say whether higher or lower is better.
    """

    session: Session
    notes: Sequence[str] = ()
    cases: list[CaseRow] = field(default_factory=list)
    metrics: list[MetricRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    undecided: set[tuple[str, str, str]] = field(default_factory=set)

    def add_case(self, case: CaseRow, causes: Sequence[Cause]) -> None:
        """Add a case with what is wrong with it."""
        plain = []
        for cause in causes:
            texts: dict[str, Any] = {
                name: one_line(of) or '' for name, of in vars(cause).items() if isinstance(of, str)
            }
            plain.append(replace(cause, **texts))
        self.cases.append(case._replace(causes=plain))

    def add_series(self, case: CaseRow, columns: Mapping[str, Any], samples: Sequence[Sample]) -> None:
        """Add a series of a case with its samples, their statistics and the status; `columns`: all others."""
        found = summarize([value for *_, value in samples])
        is_finite = found.mean is not None and math.isfinite(found.mean)
        status = status_of(case.result, case.fail_phase, bool(columns.get('invalid')), found.n, is_finite)
        row = MetricRow(case.case_id, status=status, **vars(found), **columns)
        self.metrics.append(row)
        self.samples += [SampleRow(case.case_id, row.metric, row.dims, *sample) for sample in samples]


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
#: The fields of each kind of row that are texts in the store and something else in a row: how to write and read them.
TEXTS: dict[type, dict[str, tuple[Callable[[Any], str | None], Callable[[Any], Any]]]] = {
    CaseRow: {
        'params': _PAIRS,
        'dims': (json.dumps, decoded),  # in the order declared
        **dict.fromkeys(('draw', 'figures', 'placement', 'provenance', 'health'), (_encoded, decoded)),
        'causes': (lambda causes: json.dumps([*map(vars, causes)]), causes_in),
    },
    MetricRow: {'dims': _PAIRS},
    SampleRow: {'dims': _PAIRS},
}
_Row = TypeVar('_Row', bound=NamedTuple)


def typed(kind: type[_Row], table: pa.Table) -> list[_Row]:
    """Return the rows of a table of the store as records of type `kind`; columns of later versions have defaults.

    A case older than the column `causes` has what ReFrame said.
    """
    columns: dict[str, Iterable[Any]] = {
        name: table[name].to_pylist() if name in table.column_names else repeat(kind._field_defaults[name])
        for name in kind._fields
    }
    for name, (_, read) in TEXTS[kind].items():
        columns[name] = map(read, columns[name]) if name in table.column_names else columns[name]
    said = dict(zip(table.column_names, table.columns, strict=True)).get('fail_reason') if kind is CaseRow else None
    if said is not None:
        columns['causes'] = [
            causes or ([Cause('said', why)] if why and phase != 'performance' else ())
            for causes, phase, why in zip(columns['causes'], columns['fail_phase'], said.to_pylist(), strict=False)
        ]
    return [*map(kind._make, zip(*columns.values(), strict=False))]

# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a session as typed records; `postprocess.results.tables` describes the columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from plumbline.causes import Cause
from plumbline.identity import CaseId, from_text
from plumbline.record import Purpose
from postprocess.results.tables import Status


class CaseRow(NamedTuple):
    """A run of a case or fixture; None: not known."""

    case_id: int
    partition: str
    environ: str
    check: str
    params: str
    name: str
    fixture: bool
    benchmark: bool
    result: str
    round: int
    purpose: Purpose
    tags: list[str]
    nodes: list[str]
    trial_seconds: list[float]
    dims: str
    draw: str
    figures: str
    placement: str
    provenance: str
    health: str
    evidence: str
    causes: str | None = None
    trials: int | None = None
    fail_phase: str | None = None
    fail_reason: str | None = None
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
        return CaseId(self.partition, self.environ, self.check, from_text(self.params))

    @property
    def why(self) -> list[Cause]:
        """What is wrong, the worst first; of a row older than the column `causes`, what ReFrame said."""
        if self.causes is None and self.fail_reason and self.fail_phase != 'performance':
            return [Cause('said', self.fail_reason)]
        return [Cause(**cause | {'trials': tuple(cause['trials'])}) for cause in json.loads(self.causes or '[]')]


class MetricRow(NamedTuple):
    """A series in a run of a case; None: not known, or without a number."""

    case_id: int
    metric: str
    dims: str
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


_Row = TypeVar('_Row', CaseRow, MetricRow)


def typed(kind: type[_Row], rows: Iterable[Mapping[str, Any]]) -> list[_Row]:
    """Return rows as records of type `kind`; columns that the type does not have are left out."""
    return [kind(**{name: row[name] for name in kind._fields if name in row}) for row in rows]

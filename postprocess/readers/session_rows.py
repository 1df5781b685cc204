# SPDX-License-Identifier: BSD-3-Clause
"""Collect the rows of a session, series by series, as every reader finds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from plumbline.causes import Cause, sentence
from plumbline.identity import Pairs, pairs
from plumbline.record import Sample, summarize
from postprocess.readers import values
from postprocess.readers.rules import Rules
from postprocess.results.rows import CaseRow, MetricRow, RunReport, SampleRow, Session
from postprocess.results.tables import status_of
from postprocess.text import one_line


class PerformanceValue(NamedTuple):
    """A performance value of a test of another suite, by the rules of that suite.

    `columns`: of its metric. `value`: None if it is no measurement. `is_decided`: bounds, unit or a rule say which
    direction is better. `cause`: that it is beyond its bounds.
    """

    columns: dict[str, Any]
    value: float | None
    is_decided: bool
    cause: Cause | None

    @classmethod
    def of(
        cls, rules: Rules, check: str, name: str, unit: str, value: float | None, bounds: Sequence[float | None],
        is_within: bool | None = None,
    ) -> PerformanceValue:  # fmt: skip
        """Return a value with its `bounds`: reference, and lower and upper bound as parts of it.

        `is_within`: what the test itself found. [default: as ReFrame finds it]
        """
        reference, lower, upper = bounds
        columns, factor, is_decided = rules.metric(check, name, unit, lower, upper)
        if is_within is None:
            is_within = value is None or values.is_within(value, reference, lower, upper)
        cause = None if is_within else values.beyond(columns['metric'], unit, value, reference, lower, upper)
        value = None if value is None else value * factor
        fault = '' if value is None else values.fault(value, columns)
        return cls(columns | {'missing': fault or None}, None if fault else value, is_decided, cause)


@dataclass
class SessionRows:
    """The rows of a session; `undecided` as in a `RunReport`."""

    cases: list[CaseRow] = field(default_factory=list)
    metrics: list[MetricRow] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    undecided: set[tuple[str, str, str]] = field(default_factory=set)

    def add_case(self, case: CaseRow, causes: Sequence[Cause]) -> None:
        """Add a case with what is wrong with it, as data and as the sentence of them for people."""
        plain = []
        for cause in causes:
            texts: dict[str, Any] = {
                name: one_line(of) or '' for name, of in vars(cause).items() if isinstance(of, str)
            }
            plain.append(replace(cause, **texts))
        said = sentence(plain, case.evidence) or None
        self.cases.append(case._replace(causes=plain, fail_reason=said))

    def add_series(self, case: CaseRow, columns: Mapping[str, Any], samples: Sequence[Sample]) -> None:
        """Add a series of a case with its samples, their statistics and the status; `columns`: all others."""
        found = summarize([value for *_, value in samples])
        is_finite = found.mean is not None and math.isfinite(found.mean)
        status = status_of(case.result, case.fail_phase, bool(columns.get('invalid')), found.n, is_finite)
        row = MetricRow(case.case_id, status=status, **vars(found), **columns)
        self.metrics.append(row)
        self.samples += [SampleRow(case.case_id, row.metric, row.dims, *sample) for sample in samples]

    def add_values(self, case: CaseRow, found: Iterable[PerformanceValue], dims: Pairs) -> None:
        """Add the values of a case of another suite; `dims`: params of the case that are dims of each value."""
        for columns, value, is_decided, _ in found:
            columns['dims'] = pairs(dict(columns['dims']) | dict(dims))
            if not is_decided:
                self.undecided.add((case.check, columns['metric'], columns['unit']))
            self.add_series(case, columns, [] if value is None else [(1, ','.join(case.nodes), value)])

    def report(self, session: Session, notes: Iterable[str] = ()) -> RunReport:
        """Return the session with its rows."""
        return RunReport(session, self.cases, self.metrics, self.samples, tuple(notes), frozenset(self.undecided))

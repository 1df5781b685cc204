# SPDX-License-Identifier: BSD-3-Clause
"""The references of a case as ReFrame's: what fails its performance, and the physical peaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import loggable, run_after, run_before
from reframe.core.exceptions import PerformanceError

from checks.core.job import node_sweep
from checks.core.reading.metrics import Metric, mean, variable_name
from plumbline.causes import Cause, Code
from plumbline.errors import SiteError
from plumbline.identity import SeriesId
from plumbline.limits import judges, tolerance_for
from plumbline.references import load_references
from plumbline.units import UNITS


class Bounded(rfm.RegressionTestPlugin):
    """The part of a check that compares what was measured with references and peaks."""

    @run_before('performance')
    def compare_with_references(self):
        """Make ReFrame's performance variables and references from the series that were measured."""
        if self.is_dry_run():
            return
        worst = 'worst_' if self.swept else ''  # of all places
        self.perf_variables, invalid = {}, []
        for metric, facts, series in self.result.series():
            name = variable_name(metric, series.dims)
            self.perf_variables[worst + name] = sn.make_performance_function(mean, facts.unit, series)
            if series.invalid:
                invalid.append(f'invalid: {name}: {series.invalid}')
        if invalid:
            raise self.unmet('invalid', '; '.join(invalid))
        try:
            bounds = self.bounds()
        except SiteError as error:
            raise self.unmet('site', str(error)) from None
        if self.swept:  # each place is judged by itself
            bounds = {worst + name: (reference, None, None, unit) for name, (reference, *_, unit) in bounds.items()}
        self.reference = {self.current_partition.fullname: bounds}

    @run_after('performance', always_last=True)
    def every_variable_has_a_value(self):
        """Fail if a performance function raised (ReFrame only warns) or a place of a node sweep is beyond a limit."""
        measured = {name.rpartition(':')[2] for name in self.perfvalues}
        if lost := set(self.perf_variables) - measured:
            raise self.unmet('lost-metric', f'declared and not measured: {", ".join(sorted(lost))}')
        if breaches := node_sweep.summary(self.swept, 'breaches'):
            more = f'; and {len(breaches) - 5} more' if breaches[5:] else ''
            raise PerformanceError(f'{len(breaches)} of {len(self.swept)} places: {"; ".join(breaches[:5])}{more}')

    def unmet(self, code: Code, what: str) -> PerformanceError:
        """Return the error that fails the performance phase, after its cause was added to the record."""
        self.result.causes.append(Cause(code, what))
        return PerformanceError(what)

    def bounds(self) -> dict[str, tuple[float, float | None, float | None, str]]:
        """Return ReFrame's reference tuples by performance variable; a reference that only warns has no thresholds.

        Raises SiteError where a unit or direction differs.
        """
        references, tuples = load_references(self.site.name), {}
        for metric, facts, series in self.plan().record.series():
            name = variable_name(metric, series.dims)
            id = SeriesId(self.partition.name, self.current_environ.name, self.check, self.params, metric, series.dims)
            tolerance = tolerance_for(self.site.tolerance, id, facts.floor, facts.usual_spread)
            rows = judges(references, id, tolerance)
            if not rows:
                continue
            reference, bound = rows[0]
            if why := reference.mismatch(facts.quantity):
                raise SiteError(f'{name}: {why}')
            threshold = bound.bad / reference.mean - 1 if bound.gates else None
            lower, upper = (threshold, None) if facts.better == 'higher' else (None, threshold)
            tuples[name] = (reference.mean, lower, upper, facts.unit)
        return tuples

    def limits(self) -> dict[str, float]:
        """Return the worst value that passes, by performance variable, where there is a threshold."""
        try:
            bounds = self.bounds()
        except SiteError:
            return {}  # the performance phase fails with the same error
        return {
            name: reference * (1 + threshold)
            for name, (reference, lower, upper, _) in bounds.items()
            if (threshold := upper if lower is None else lower) is not None
        }

    def peak_of(self, metric: Metric) -> float | None:
        """Return the physical peak of a metric in its base unit; None where unknown."""
        peak = self.partition.peaks.get(metric.peak or '')
        return None if peak is None else peak * self.num_nodes

    def figures_with_peaks(self, metrics: Iterable[Metric]) -> dict[str, dict[str, object]]:
        """Return `figures` with the physical peak, in its unit, of each metric with one peak for all its series."""
        stated: Mapping[str, Mapping[str, object]] = self.figures
        figures, peaks = {name: dict(of) for name, of in stated.items()}, dict[str, set[float | None]]()
        for metric in metrics if self.current_partition else ():  # no partition while ReFrame only describes the check
            peak = self.peak_of(metric)
            peaks.setdefault(metric.name, set()).add(peak and peak / UNITS[metric.unit])
        for name, (peak, *others) in peaks.items():
            if peak and not others:
                figures.setdefault(name, {})['peak'] = peak
        return figures

    @loggable
    @property
    def peaks(self) -> dict[str, float]:
        """In a dry run, for `plumbline sites --cases`: the physical peak of each series that has one, in its unit."""
        by_name: dict[str, float] = {}
        for metric in self.metrics if self.is_dry_run() and self.job else ():
            if peak := self.peak_of(metric):
                by_name |= {variable_name(metric.name, at): peak / UNITS[metric.unit] for at in metric.points()}
        return by_name

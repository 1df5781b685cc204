# SPDX-License-Identifier: BSD-3-Clause
"""The references of a case as ReFrame's: what fails its performance, and the physical peaks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

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
from plumbline.record import Record
from plumbline.references import load_references
from plumbline.site.sites import Site
from plumbline.units import UNITS

#: Performance variable -> reference, lower and upper threshold, unit.
Bounds = dict[str, tuple[float, float | None, float | None, str]]


def bounds_of(record: Record, site: Site, partition: str, environ: str) -> Bounds:
    """Return ReFrame's reference tuples of the series of a record; a reference that only warns has no thresholds.

    Raises SiteError where a unit or direction differs.
    """
    references, bounds = load_references(site.name), Bounds()
    for metric, facts, series in record.series():
        name = variable_name(metric, series.dims)
        id = SeriesId(partition, environ, record.check, record.params, metric, series.dims)
        rows = judges(references, id, tolerance_for(site.tolerance, id, facts.floor, facts.usual_spread))
        if not rows:
            continue
        reference, bound = rows[0]
        if why := reference.mismatch(facts.quantity):
            raise SiteError(f'{name}: {why}')
        threshold = bound.bad / reference.mean - 1 if bound.gates else None
        lower, upper = (threshold, None) if facts.better == 'higher' else (None, threshold)
        bounds[name] = (reference.mean, lower, upper, facts.unit)
    return bounds


def limits_of(bounds: Bounds) -> dict[str, float]:
    """Return the worst value that passes, by performance variable, where there is a threshold."""
    return {
        name: reference * (1 + threshold)
        for name, (reference, lower, upper, _) in bounds.items()
        if (threshold := upper if lower is None else lower) is not None
    }


def bounded(metric: Metric, peaks: Mapping[str, float], nodes: int) -> Metric:
    """Return a metric with the number that no value may exceed, where `peaks` of a node has its entry."""
    if not isinstance(metric.peak, str):
        return metric
    return replace(metric, peak=peaks[metric.peak] * nodes if metric.peak in peaks else None)


class Bounded(rfm.RegressionTestPlugin):
    """The performance phase of a check: what was measured against references and peaks."""

    def bounds(self) -> Bounds:
        """Return ReFrame's reference tuples. Raises SiteError where a unit or direction differs."""
        return bounds_of(self.plan().record, self.site, self.partition.name, self.current_environ.name)

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
            found = self.bounds()
        except SiteError as error:
            raise self.unmet('site', str(error)) from None
        if self.swept:  # each place is judged by itself
            found = {worst + name: (reference, None, None, unit) for name, (reference, *_, unit) in found.items()}
        self.reference = {self.current_partition.fullname: found}

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

    @loggable
    @property
    def peaks(self) -> dict[str, float]:
        """In a dry run, for `plumbline sites --cases`: the physical peak of each series that has one, in its unit."""
        if not (self.is_dry_run() and self.job):
            return {}
        metrics = [bounded(metric, self.partition.peaks, self.num_nodes) for metric in self.metrics]
        return {
            variable_name(of.name, at): of.peak / UNITS[of.unit]
            for of in metrics if isinstance(of.peak, int | float) and math.isfinite(of.peak) for at in of.points()
        }  # fmt: skip

# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of checks need to read outputs without a job."""

from checks.core.placement import Execution, Placement
from checks.core.reading.binding import Request, binding_faults
from checks.core.reading.causes import Run
from checks.core.reading.metrics import Metric, NotMeasured
from checks.core.reading.trials import Hooks, Plan, add_metrics
from plumbline.record import Record, Series


def value_of(metric: Metric, output: str) -> float:
    """Return the value of a metric of one series. Raises NotMeasured."""
    (value,) = values_of(metric, output).values()
    return value


def values_of(metric: Metric, output: str) -> dict[str, float]:
    """Return the values of a metric by the values of its dims. Raises NotMeasured where one is missing or too many."""
    reading = metric.reading_of(output)
    for reason in [*reading.missing.values(), *reading.faults]:
        raise NotMeasured(reason)
    return {' '.join(value for _, value in dims): number for dims, number in reading.values.items()}


def run_of(output: str, errors: str = '', name: str = 'run', **more) -> Run:
    """Return an execution with this output."""
    return Run(name, output, errors, **more)


def measured(record: Record, **samples: list[tuple[int, str, float]]) -> Record:
    """Return the record with these samples of metrics that have no dims."""
    for name, values in samples.items():
        record.metrics[name].series = [Series(samples=values)]
    return record


def plan_of(
    check: str, params=(), metrics=(), placement=None, *, trials=1, dims=None, figures=None, tags=(), provenance=None,
    usual_spread=None, runs=None, programs=None, num_nodes=1, host_of=None, near=(), archs=(),
    looks_required=True, **more,
) -> Plan:  # fmt: skip
    """Return the plan of a case without a check: what its record says, its runs, and what its ranks must get."""
    record = Record(
        check, params, tags=sorted(tags), trials=trials, dims=dict(dims or {}), provenance=dict(provenance or {}),
        figures={name: dict(of) for name, of in (figures or {}).items()},
    )  # fmt: skip
    if placement:
        record.placement = {'requested': placement.env_vars.get('PLUMBLINE_CPUS', ''), 'actual': {}}
    planned = {
        run: Execution((), program=(programs or {}).get(run, check), placement=own)
        for run, own in (runs or {'run': None}).items()
    }
    ranks = Request(placement or Placement(1, None), num_nodes, host_of, near, archs, looks_required)
    return Plan(add_metrics(record, metrics, usual_spread), metrics, planned, ranks, **more)


class HooksOf(Hooks):
    """The hooks of a check that are these functions, such as ``derive=function``."""

    def __init__(self, **functions):
        vars(self).update(functions)


def faults_of_ranks(placement, actual, num_nodes=1, nodes=(), **more) -> list[str]:
    """Return the faults of ranks of a job on `num_nodes` nodes for which a placement was requested."""
    return binding_faults(Request(placement, num_nodes, **more), actual, nodes)

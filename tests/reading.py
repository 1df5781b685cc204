# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of checks need to read outputs without a job."""

from checks.core.reading.trials import Metric, NotMeasured, Run
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

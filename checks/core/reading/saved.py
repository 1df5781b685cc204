# SPDX-License-Identifier: BSD-3-Clause
"""A saved output of a program that no check ran: its numbers as measurements. Imports no ReFrame.

The reader of each program is beside its parser, in a module that ends with ``_saved``, and registered in
pyproject.toml under ``plumbline.readers``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.core.reading import causes
from checks.core.reading.outputs import cut_of, text_of
from checks.core.reading.trials import Metric, variable_name
from plumbline.measurement import Measurement


def saved(path: Path) -> str:
    """Return the text of a saved output. Raises ValueError if there is none, or too much to read."""
    if cut := cut_of(path):
        raise ValueError(cut)
    if not (text := text_of(path)).strip():
        raise ValueError('it is empty')
    return text


def measured(
    check: str, params: Mapping[str, object], metrics: Sequence[Metric], output: str, faults: Sequence[str], **more: Any
) -> Iterator[Measurement]:
    """Yield each number that the metrics of a check expect, NaN where there is none.

    `faults`: what the check finds wrong; with one, or without all numbers, the case failed. `more`: other fields of a
    measurement.
    """
    readings = [(metric, metric.read(output)) for metric in metrics]
    wrong = [f'metric {metric.name}: {fault}' for metric, reading in readings for fault in reading.faults]
    lost = [
        f'metric {variable_name(metric.name, point)} not measured: {reason}'
        for metric, reading in readings
        for point, reason in reading.missing.items()
    ]
    failed = '; '.join(causes.some([*faults, *wrong]) or lost[:1])
    for metric, reading in readings:
        for point in metric.points():
            yield Measurement(
                check, metric.name, reading.values.get(point, math.nan), metric.unit, metric.better, params=params,
                dims=dict(point), judged=metric.is_judged(point), failed=failed, **more
            )  # fmt: skip

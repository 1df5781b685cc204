# SPDX-License-Identifier: BSD-3-Clause
"""Bencher Metric Format: JSON of benchmark -> measure -> `value`."""

from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers.formats import fields

_UNITS = {'latency': 'ns', 'throughput': '1/s'}  # units of Bencher's built-in measures


def read(path: Path) -> Iterator[Measurement]:
    """Yield the value of each measure; its bounds are ignored, because the baseline has its own."""
    for check, measures in fields.json_of(path.read_bytes()).items():
        if not measures:
            raise ValueError(f'{check:.40}: expected a measure')
        for metric, of in measures.items():
            yield Measurement(
                check=check, metric=metric, value=fields.number(of['value']), unit=_UNITS.get(metric, ''),
                better=fields.better_by_name(metric),
            )  # fmt: skip

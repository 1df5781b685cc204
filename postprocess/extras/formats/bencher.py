# SPDX-License-Identifier: BSD-3-Clause
"""Bencher Metric Format: JSON of benchmark -> measure -> `value`."""

import re
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import better_by_name
from postprocess.readers import fields

#: Units of Bencher's built-in measures, by their slugs (bencherdev/bencher, measure/built_in.rs).
_UNITS = {'latency': 'ns', 'throughput': '1/s', 'build-time': 's', 'file-size': 'B', 'allocated': 'B'}
#: Built-in measures of Valgrind's tools, of .NET and of the noise of a host: counts of what a program costs.
_LOWER = re.compile(r'bytes|blocks|cycles|instructions|accesses|hits$|miss|allocated|collects|steal|noise|read-write')


def read(path: Path) -> Iterator[Measurement]:
    """Yield the value of each measure; its bounds are ignored, because the baseline has its own."""
    for check, measures in fields.json_of(path.read_bytes()).items():
        if not measures:
            raise ValueError(f'{check:.40}: expected a measure')
        for metric, of in measures.items():
            slug = re.sub(r'\W+', '-', metric.lower())
            yield Measurement(
                check=check, metric=metric, value=fields.number(of['value']),
                unit=_UNITS.get(slug, 'B' if slug.endswith('-bytes') else ''),
                better='lower' if _LOWER.search(slug) else better_by_name(slug),
            )  # fmt: skip

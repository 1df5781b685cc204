# SPDX-License-Identifier: BSD-3-Clause
"""The points of :meth:`Results.points` as text: a time series for each series and set of nodes, a point per session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from plumbline.identity import from_text
from postprocess.results.frames import LABELS

FAMILY = 'plumbline_measured'
_HEAD = f"""\
# TYPE {FAMILY} gauge
# HELP {FAMILY} Mean of the samples of a series in one session, in the unit of its label.
"""


def to_openmetrics(points: Iterable[pa.Table]) -> Iterator[str]:
    """Yield the parts of an OpenMetrics text, in which a point stands at the time when its session started.

    A dim becomes a label ``dim_<name>``. Points with the same labels and time are one, their mean, because none may
    occur twice.
    """
    yield _HEAD
    for of_table in _points(points):
        lines = []
        for labels, time, point in of_table:
            text = ','.join(f'{name}="{escaped(value)}"' for name, value in labels.items())
            lines.append(f'{FAMILY}{{{text}}} {point["mean"]:.10g} {time // 10**9}\n')
        yield ''.join(lines)
    yield '# EOF\n'


def to_influx(points: Iterable[pa.Table]) -> Iterator[str]:
    """Yield the same in InfluxDB's line protocol: labels as tags, fields ``mean``, ``min``, ``max`` and ``n``."""
    for of_table in _points(points):
        lines = []
        for labels, time, point in of_table:
            tags = ''.join(f',{name}={_tag(value)}' for name, value in labels.items() if value)
            fields = ','.join(f'{name}={point[name]:.10g}' for name in ('mean', 'min', 'max'))
            lines.append(f'{FAMILY}{tags} {fields},n={point["n"]:.0f}i {time}\n')
        yield ''.join(lines)


def escaped(text: str) -> str:
    """Return the value of a label in OpenMetrics and in Prometheus' text format."""
    return text.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')


def _points(points: Iterable[pa.Table]) -> Iterator[Iterator[tuple[dict[str, str], int, dict[str, float]]]]:
    """Yield the (labels, time in ns since 1970, statistics) of each table."""
    for table in points:
        times = table['started'].cast(pa.timestamp('ns')).cast(pa.int64()).to_pylist()
        rows = table.drop_columns(['started']).to_pylist()
        yield ((_labels(row), time, row) for time, row in zip(times, rows, strict=True))


def _labels(row: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a point."""
    dims = {re.sub(r'\W', '_', f'dim_{name}'): text for name, text in from_text(row['dims'])}
    return {name: row[name] or '' for name in LABELS} | dims


def _tag(text: str) -> str:
    """Return the value of a tag in InfluxDB, which allows no line feed and no backslash at the end."""
    return re.sub(r'([,= ])', r'\\\1', text.replace('\n', ' ').rstrip('\\'))

"""Write measured values as OpenMetrics, the text that Prometheus and its relatives read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from plumbline.identity import from_text

if TYPE_CHECKING:
    import pandas

FAMILY = 'plumbline_measured'
_LABELS = ('site', 'partition', 'environ', 'check', 'params', 'metric', 'unit', 'better', 'nodes')
_HEAD = f"""\
# TYPE {FAMILY} gauge
# HELP {FAMILY} Mean of the samples of a series in one session, in the unit of its label.
"""


def to_openmetrics(metrics: pandas.DataFrame) -> str:
    """Return the measured values of a frame of :meth:`Results.metrics` (without `dims`) as OpenMetrics text.

    A time series for each series and set of nodes, a point for each session at the time it started. A dim becomes a
    label ``dim_<name>``. The mean of points with the same labels and time is written, since none may appear twice.
    """
    found = metrics[(metrics['status'] == 'measured') & metrics['mean'].notna()]
    means = found.groupby([*_LABELS, 'dims', 'started'], sort=True)['mean'].mean()
    lines = []
    for (*labels, dims, started), value in means.items():
        pairs = [*zip(_LABELS, labels, strict=True), *((f'dim_{_name(name)}', text) for name, text in from_text(dims))]
        text = ','.join(f'{name}="{_escaped(str(value))}"' for name, value in pairs)
        lines.append(f'{FAMILY}{{{text}}} {value:.10g} {started.timestamp():.3f}\n')
    return f'{_HEAD}{"".join(lines)}# EOF\n'


def _name(text: str) -> str:
    return re.sub(r'\W', '_', text)


def _escaped(text: str) -> str:
    return text.replace('\\', r'\\').replace('"', r'\"').replace('\n', r'\n')

# SPDX-License-Identifier: BSD-3-Clause
"""github-action-benchmark's ``data.js``, or the JSON of one run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import word
from postprocess.readers import fields

#: The tools of whose numbers the action says that larger is better; of the others it says smaller.
_HIGHER = ('benchmarkjs', 'pytest', 'customBiggerIsBetter')


def read(path: Path) -> Iterator[Measurement]:
    """Yield the value of each benchmark of each commit."""
    text = path.read_text(encoding='utf-8')
    document = fields.json_of(re.sub(r'^\s*window\.\w+\s*=\s*', '', text).rstrip().rstrip(';'))
    if isinstance(document, list):
        document = {'entries': {'benchmark': [{'benches': document}]}}
    for suite, runs in document['entries'].items():
        for run in runs:
            tool, date = run.get('tool', ''), run.get('date')
            common: dict[str, Any] = {
                'session': str(run.get('commit', {}).get('id', '')),
                'environ': word(suite),
            }
            if date is not None:
                common['time'] = fields.utc(date)
            for bench in run['benches']:
                unit = str(bench.get('unit', ''))
                if tool == 'go':
                    unit = unit.partition('\t')[0].partition(' ')[0]  # B/op and allocs/op may stand behind ns/op
                yield Measurement(
                    check=bench['name'], metric='value', value=fields.number(bench['value']), unit=unit,
                    better=_direction(tool, unit), **common,
                )  # fmt: skip


def _direction(tool: str, unit: str) -> str:
    """Return the direction of a tool's numbers; empty, so that the unit decides, of JMH's rates and without a tool."""
    if not tool or (tool == 'jmh' and unit.startswith('ops/')):
        return ''
    return 'higher' if tool in _HIGHER else 'lower'

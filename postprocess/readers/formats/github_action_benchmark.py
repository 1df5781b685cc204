# SPDX-License-Identifier: BSD-3-Clause
"""github-action-benchmark's ``data.js``, or the JSON of one run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plumbline.measurement import Measurement
from postprocess.readers.formats import fields


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
                'environ': fields.word(suite),
            }
            if date is not None:
                common['time'] = fields.utc(date)
            better = {'customBiggerIsBetter': 'higher', 'customSmallerIsBetter': 'lower'}.get(tool, '')
            for bench in run['benches']:
                unit = str(bench.get('unit', ''))
                way = better or ('lower' if re.match(r'[nmu]?s\b', unit) else 'higher')
                value = fields.number(bench['value'])
                yield Measurement(check=bench['name'], metric='value', value=value, unit=unit, better=way, **common)

# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark results in the form that Conbench takes (benchadapt's ``to_publishable_dict()``): one result or a list."""

import math
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers import fields


def read(path: Path) -> Iterator[Measurement]:
    """Yield each number of `stats.data`; all tags except the name are params, and each run id is a session."""
    document = fields.json_of(path.read_bytes())
    for result in document if isinstance(document, list) else [document]:
        params, stats, error = dict(result['tags']), result.get('stats') or {}, result.get('error')
        data, unit = stats.get('data', []), stats.get('unit', '')
        if not error and not data:
            raise ValueError(f'{params["name"]!r:.40}: expected stats.data or error')
        for trial, value in enumerate(data or [math.nan], 1):
            yield Measurement(
                check=params['name'], params={key: of for key, of in params.items() if key != 'name'}, metric='value',
                value=math.nan if value is None else fields.number(value), unit=unit,
                better='lower' if unit == 'B' else '', trial=trial, session=result.get('run_id') or '',
                time=fields.utc(result['timestamp']), node=(result.get('machine_info') or {}).get('name', ''),
                failed='; '.join(map(str, error.values()))[:200] if error else '',
            )  # fmt: skip

# SPDX-License-Identifier: BSD-3-Clause
"""A result file of airspeed velocity (``results/<machine>/<commit>-<environment>.json``, version 2)."""

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers import fields

_UNITS = {'time': 's', 'timeraw': 's', 'mem': 'B', 'peakmem': 'B', 'track': ''}


def read(path: Path) -> Iterator[Measurement]:
    """Yield the result of each benchmark with each of its parameters.

    For all of them lower is better, as asv assumes.
    """
    document = fields.json_of(path.read_bytes())
    if document['version'] != 2:
        raise ValueError(f'expected version 2, found {document["version"]!r:.20}')
    for name, columns in document['results'].items():
        row = dict(zip(document['result_columns'], columns, strict=False))  # columns at the end may be left out
        points = list(itertools.product(*row['params']))
        values = row['result'] if row['result'] is not None else [None] * len(points)  # None: all points failed
        if len(values) != len(points):
            raise ValueError(f'{name}: expected {len(points)} results, found {len(values)}')
        for point, value in zip(points, values, strict=True):
            yield Measurement(
                check=name, params={f'arg{place}': word for place, word in enumerate(point, 1)}, metric='value',
                value=math.nan if value is None else fields.number(value), better='lower',
                unit=_UNITS.get(name.rpartition('.')[2].partition('_')[0], ''), session=document['commit_hash'],
                time=fields.utc(row['started_at']), node=document['params']['machine'],
                failed='it failed' if value is None else '',
            )  # fmt: skip

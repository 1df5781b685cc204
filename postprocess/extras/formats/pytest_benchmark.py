# SPDX-License-Identifier: BSD-3-Clause
"""pytest-benchmark's ``--benchmark-json``."""

from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.extras.formats.common import mean_of
from postprocess.readers import fields


def read(path: Path) -> Iterator[Measurement]:
    """Yield the time of each round if ``--benchmark-save-data`` kept them, else the mean."""
    document = fields.json_of(path.read_bytes())
    for test in document['benchmarks']:
        stats = test['stats']
        if 'data' in stats and len(stats['data']) != stats['rounds']:
            raise ValueError(f'{test["fullname"]}: expected {stats["rounds"]} rounds, found {len(stats["data"])}')
        times = [fields.number(seconds) for seconds in stats.get('data') or []]
        mean_of(times, stats['mean'], test['fullname'])
        for trial, seconds in enumerate(times or [fields.number(stats['mean'])], 1):
            yield Measurement(
                check=test['fullname'].partition('[')[0], params=test['params'] or {}, metric='time', unit='s',
                value=seconds, trial=trial, time=fields.utc(document['datetime']),
                node=document['machine_info']['node'],
            )  # fmt: skip

# SPDX-License-Identifier: BSD-3-Clause
"""Google Benchmark's ``--benchmark_format=json``."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from plumbline import units
from plumbline.measurement import Measurement
from postprocess.extras.formats.common import better_by_name
from postprocess.readers import fields

#: Numbers of an entry that are Google Benchmark's own; all others are counters of the user.
_OWN = {
    'family_index', 'per_family_instance_index', 'repetitions', 'repetition_index', 'threads', 'iterations',
    'real_time', 'cpu_time', 'bytes_per_second', 'items_per_second', 'allocs_per_iter', 'max_bytes_used',
    'total_allocated_bytes', 'net_heap_growth',
}  # fmt: skip


def read(path: Path) -> Iterator[Measurement]:
    """Yield the real time of each iteration run, and its counters; each repetition is a trial.

    The unit of a counter of the user is what its name ends with, such as ``FOM: GB/s``, if that is a unit.
    """
    document = fields.json_of(path.read_bytes())
    context, at = document['context'], fields.utc(document['context']['date'])
    trials: Counter[str] = Counter()
    repetitions: dict[str, int] = {}
    for entry in document['benchmarks']:
        if entry.get('run_type', 'iteration') != 'iteration':
            continue
        name = entry['name']
        trials[name] += 1
        repetitions[name] = entry.get('repetitions', 1)
        check, *params = name.split('/')
        common = {
            'check': check, 'params': {f'arg{place}': word for place, word in enumerate(params, 1)}, 'time': at,
            'node': context.get('host_name', ''), 'trial': trials[name],
            'failed': str(entry.get('error_message', 'it failed')) if entry.get('error_occurred') else '',
        }  # fmt: skip
        seconds = fields.number(entry.get('real_time', math.nan))
        yield Measurement(metric='real_time', value=seconds, unit=entry.get('time_unit', 'ns'), **common)
        for key, metric, unit in (('bytes_per_second', 'bandwidth', 'B/s'), ('items_per_second', 'rate', '1/s')):
            if key in entry:
                yield Measurement(metric=metric, value=fields.number(entry[key]), unit=unit, **common)
        for key, value in entry.items():
            if key not in _OWN and isinstance(value, (int, float)) and not isinstance(value, bool):
                unit = units.plain(re.split(r'[\s\[(:]+', key.rstrip(')] '))[-1])
                better = '' if unit in units.UNITS else better_by_name(key)
                unit = unit if unit in units.UNITS else ''
                yield Measurement(metric=key, value=fields.number(value), unit=unit, better=better, **common)
    for name, asked in repetitions.items():
        if trials[name] % max(1, int(asked)):
            raise ValueError(f'{name:.60}: expected {asked} repetitions, found {trials[name]}')

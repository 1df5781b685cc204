# SPDX-License-Identifier: BSD-3-Clause
"""SuperBench's ``results-summary.jsonl``."""

import re
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers.formats import fields

#: Names of its metrics that are better lower, of 0.12 and, without ``time`` in them, of releases before 0.5.
_LOWER = re.compile(
    r'time|latency|lat(_|$)|error|overhead|cost|failed|mem_allocated|^(allgather|allreduce|nosharding)$'
)


def read(path: Path) -> Iterator[Measurement]:
    """Yield the metrics of each node; its monitor's are for information.

    A name is ``benchmark[:annotation]/metric[:rank]``. It has no units: `_LOWER` says what is better lower.
    """
    for line in path.read_text(encoding='utf-8').splitlines():
        found = fields.json_of(line)
        node = found.pop('node')
        for name, value in found.items():
            check, _, metric = name.rpartition('/')
            metric, _, rank = metric.partition(':')
            if metric == 'return_code' and not value:
                continue
            yield Measurement(
                check=check, metric=metric, value=fields.number(value), node=node,
                better='lower' if _LOWER.search(metric) else 'higher', dims={'rank': rank} if rank else {},
                judged=not check.startswith('monitor'),
                failed=f'return code {value}' if metric == 'return_code' else '',
            )  # fmt: skip

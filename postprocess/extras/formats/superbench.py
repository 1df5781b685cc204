# SPDX-License-Identifier: BSD-3-Clause
"""SuperBench's ``results-summary.jsonl``."""

import re
from collections.abc import Iterator
from pathlib import Path

from plumbline.measurement import Measurement
from postprocess.readers import fields

#: Parts of the names of metrics that are better lower, in release 0.12 and, without ``time``, in releases before 0.5.
_LOWER = re.compile(
    r'time|latency|lat(_|$)|error|overhead|cost|failed|mem_allocated|^(allgather|allreduce|nosharding)$'
)


def read(path: Path) -> Iterator[Measurement]:
    """Yield the metrics of each node; metrics of its monitor are not judged.

    A name is ``benchmark[:annotation]/metric[:rank]``. The file has no units: `_LOWER` decides what is better lower.
    """
    for line in path.read_text(encoding='utf-8').splitlines():
        values = fields.json_of(line)
        node = values.pop('node')
        for name, value in values.items():
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

# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of NCCL's and RCCL's tests."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading.saved import measured, saved
from checks.gpu import xccl_output as xccl
from plumbline.measurement import Measurement

_OF_A_WAY = ['time', 'algbw', 'busbw', '#wrong']
_COLUMNS = ['size', 'count', 'type', 'redop', 'root', *_OF_A_WAY, *_OF_A_WAY]


def read(path: Path) -> Iterator[Measurement]:
    """Yield both rates of each size; all count as failed if an element is wrong or a size is missing.

    The collective is named in the output from version 2.17 on, else by the command above it, or the name of the file.
    """
    output = saved(path)
    for columns in re.findall(r'^# +(size +count .*)', output, re.MULTILINE):
        if columns.split()[: len(_COLUMNS)] != _COLUMNS:
            raise ValueError(f'expected the columns {" ".join(_COLUMNS)}, found {" ".join(columns.split())}')
    named = set(re.findall(r'\b(\w+?)_perf\b', output)) or {*re.findall('|'.join(xccl.FACTORS), path.name)}
    if len(named & {*xccl.FACTORS}) != 1:
        raise ValueError(
            f'expected one of {", ".join(xccl.FACTORS)}, with _perf in the output or in the name of the file, '
            f'found {", ".join(sorted(named)) or "none"}'
        )
    (collective,) = named & {*xccl.FACTORS}
    asked = re.findall(
        r'^# nThread .* minBytes ([0-9]{1,15}) maxBytes ([0-9]{1,15}) step: 2\(factor\) ', output, re.MULTILINE
    )
    ranks = len(re.findall(r'^# +Rank +[0-9]+ ', output, re.MULTILINE))
    if len(asked) != 1 or ranks < 2:
        raise ValueError('expected one line "# nThread ... minBytes ... maxBytes ... step: 2(factor)" and two ranks')
    first, last = map(int, asked[0])
    sizes = [first * 2**power for power in range(64) if first and first * 2**power <= last]
    if not sizes or any(size & (size - 1) for size in sizes):
        raise ValueError(f'expected powers of two from minBytes to maxBytes, found {first} to {last}')
    # a test rounds the smallest sizes down by ranks: they are counted, and not read
    least = 1 if collective in ('all_reduce', 'sendrecv') else xccl.SMALLEST_OF_RANK * ranks
    rows, lines = xccl.rows_of(output), output.split('\n')
    for row in rows:
        if row.asked < least:
            lines[row.line - 1] = ''
    faults = [f'expected {len(sizes)} sizes, found {len(rows)}'] * (len(rows) != len(sizes))
    output, sizes = '\n'.join(lines), [size for size in sizes if size >= least]
    if not sizes:
        raise ValueError(f'expected sizes from {least} bytes on, which {ranks} ranks can share, found up to {last}')
    faults += xccl.faults_of(output, collective, sizes, ranks)
    yield from measured(
        f'{collective}_perf', {'ranks': ranks}, xccl.metrics_of(collective, sizes, ranks), output, faults
    )

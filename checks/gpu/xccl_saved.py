# SPDX-License-Identifier: BSD-3-Clause
"""Saved outputs of NCCL's and RCCL's tests, also of several runs."""

import re
from collections.abc import Iterator
from pathlib import Path

from checks.core.reading.saved import Part, Result, begins, results_of
from checks.gpu import xccl_output as xccl
from plumbline.measurement import Measurement

_OF_A_WAY = ['time', 'algbw', 'busbw', '#wrong']
_COLUMNS = ['size', 'count', 'type', 'redop', 'root', *_OF_A_WAY, *_OF_A_WAY]
_PROGRAM = re.compile(rf'\b({"|".join(xccl.FACTORS)})_perf')
_ASKED = (
    r'^# nThread .* minBytes ([0-9]{1,15}) maxBytes ([0-9]{1,15}) step: ([0-9]{1,15})\((factor|bytes)\)'
)  # fmt: skip
_MOST_SIZES = 10_000


def read(path: Path) -> Iterator[Measurement | str]:
    """Yield both rates of each size; all count as failed if an element is wrong or a size is missing.

    The collective is named in the output from version 2.17 on, else by the command above it, or the name of the file.
    """
    begin = begins(r'^(?:# \S+-tests version.*\n)?(?:# Collective test starting.*\n)?# nThread ')
    yield from results_of(path, begin, '# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor)', _run)


def _run(part: Part) -> Iterator[Result]:
    output = part.output
    for columns in re.findall(r'^# +(size +count .*)', output, re.MULTILINE):
        if columns.split()[: len(_COLUMNS)] != _COLUMNS:
            raise ValueError(f'expected the columns {" ".join(_COLUMNS)}, found {" ".join(columns.split())}')
    named = _PROGRAM.findall(output)[:1] or _PROGRAM.findall(part.above)[-1:] or _PROGRAM.findall(part.file)[:1]
    named = named or [name for name in xccl.FACTORS if name in part.file][:1]
    if not named:
        raise ValueError(
            f'expected one of {", ".join(xccl.FACTORS)}, with _perf in the output or the name of the file, found none'
        )
    (collective,) = named
    ranks = len(re.findall(r'^# +Rank +[0-9]+ ', output, re.MULTILINE))
    nodes = xccl.hosts_of(output)
    if ranks < 2:
        raise ValueError(f'expected lines "# Rank ..." of at least two ranks, found {ranks}')
    sizes = _sizes(output)
    # a test rounds the smallest sizes down by ranks: they are counted, and not read
    least = 1 if collective in ('all_reduce', 'sendrecv', 'broadcast', 'reduce') else xccl.SMALLEST_OF_RANK * ranks
    rows, lines = xccl.rows_of(output, sizes), output.split('\n')
    for row in rows:
        if row.asked < least:
            lines[row.line - 1] = ''
    faults = [f'expected {len(sizes)} sizes, found {len(rows)}'] * (len(rows) != len(sizes))
    output, sizes = '\n'.join(lines), [size for size in sizes if size >= least]
    if not sizes:
        raise ValueError(f'expected sizes from {least} bytes on, which {ranks} ranks can share')
    kinds = {row.kind for row in rows}
    if len(kinds) > 1:
        raise ValueError(f'expected one type and operation, found {", ".join(map(" ".join, sorted(kinds)))}')
    kind, operation = next(iter(kinds), xccl.KINDS[0])
    faults += xccl.faults_of(output, collective, sizes, ranks, kinds or xccl.KINDS)
    params = {
        'ranks': ranks, 'nodes': len(nodes) or '', 'type': '' if kind == 'float' else kind,
        'operation': '' if operation in ('sum', 'none') else operation,
    }  # fmt: skip
    header = '\n'.join([part.command(rf'{collective}_perf\w*'), *re.findall('^# nThread .*', output, re.MULTILINE)])
    metrics = xccl.metrics_of(collective, sizes, ranks)
    yield Result(f'{collective}_perf', params, metrics, output, faults, header, node=','.join(nodes))


def _sizes(output: str) -> list[int]:
    """Return the sizes in bytes that the run was asked for."""
    asked = re.findall(_ASKED, output, re.MULTILINE)
    if not asked:
        raise ValueError('expected minBytes, maxBytes and step in the line "# nThread ..."')
    first, last, step = map(int, asked[0][:3])
    last = min(
        [last, *map(int, re.findall(r'^# Reducing maxBytes to ([0-9]{1,15}) due to memory', output, re.MULTILINE))]
    )
    times, plus = (step, 0) if asked[0][3] == 'factor' else (1, step)
    sizes = [first]
    while 0 < sizes[-1] < (following := times * sizes[-1] + plus) <= last and len(sizes) < _MOST_SIZES:
        sizes.append(following)
    return sizes

# SPDX-License-Identifier: BSD-3-Clause
"""The tests of NCCL and RCCL: their rows, the faults of their output, and the transports that the library chose.

A row is bytes, elements, type, operation and root, then time in us, algorithm bandwidth, bus bandwidth (10^9 bytes/s)
and wrong elements, out of place and in place (``N/A``: not checked, as for alltoall). Bus bandwidth is the algorithm's
times a factor of the collective, so that it compares with a link whatever the ranks (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from checks.core.reading.metrics import Metric, NotMeasured, OutputRow
from checks.core.reading.saved import Part, Result, begins, results_of
from plumbline.measurement import Measurement

#: Collective -> function of the ranks: bytes that cross a link for each byte of the message.
FACTORS = {
    'all_reduce': lambda ranks: 2 * (ranks - 1) / ranks,
    'all_gather': lambda ranks: (ranks - 1) / ranks,
    'reduce_scatter': lambda ranks: (ranks - 1) / ranks,
    'alltoall': lambda ranks: (ranks - 1) / ranks,
    'sendrecv': lambda ranks: 1,
    'broadcast': lambda ranks: 1,
    'reduce': lambda ranks: 1,
    'gather': lambda ranks: (ranks - 1) / ranks,
    'scatter': lambda ranks: (ranks - 1) / ranks,
}
#: Collective that the check runs -> function of the number of nodes and the ranks of a node: most bytes of a message
#: for each byte that the network takes from a node or brings to it. Switches may add up and copy. In an all_reduce each
#: node must still send the sum of its own ranks; in the other collectives it must send what other nodes need of it, or
#: get what it needs.
OF_NETWORK = {
    'all_reduce': lambda nodes, ranks: 1,
    'all_gather': lambda nodes, ranks: nodes / (nodes - 1),
    'reduce_scatter': lambda nodes, ranks: nodes / (nodes - 1),
    'alltoall': lambda nodes, ranks: nodes / (nodes - 1) / ranks,
    'sendrecv': lambda nodes, ranks: 1,
}
LARGEST = 2**30
ITERATIONS, WARMUPS = 20, 5
SMALLEST_OF_RANK = 2**9  # bytes; a test rounds to 16 bytes a rank, which must not change the next power of two
_NUMBER = r'([0-9]{1,15}(?:\.[0-9]{1,9})?(?:e\+[0-9]{2})?)'
# The lines above the rows: the columns, to which an option of rccl-tests adds some, and their units
_OF_A_WAY = ['time', 'algbw', 'busbw', '#wrong']
_COLUMNS = ['size', 'count', 'type', 'redop', 'root', *_OF_A_WAY, *_OF_A_WAY]
_UNITS = ['(B)', '(elements)', *['(us)', '(GB/s)', '(GB/s)'] * 2]
_WAY = rf' +{_NUMBER} +{_NUMBER} +{_NUMBER} +([0-9.e+]+|N/A)'
_CHOICE = r'(?: +[A-Za-z]\w* +[A-Z]\w* +[0-9]{1,4})?'  # algorithm, protocol and channels, by an option of rccl-tests
_ROW = re.compile(rf' *([0-9]{{1,15}}) +[0-9]+ +([a-z]\w+) +([a-z]+) +(?:-1|0){_WAY}{_WAY}{_CHOICE} *')
_RANK = re.compile(r'^# +Rank +[0-9]+ (?:.* on +(\S+) device +\d+ \[(\S+)\] ?(.*\S)?)?', re.MULTILINE)
KINDS = (('float', 'sum'), ('float', 'none'))  # type and operation of the rows, as the check asks for them
_CHANNEL = re.compile(r'\bChannel \d+\S* *: .* via ((?:NET|COLLNET|P2P|SHM)/.*?\S)(?: +comm 0x.*)?$', re.MULTILINE)
# How NCCL numbers what it names since 2.23 (src/include/device.h)
_ALGORITHMS = ('TREE', 'RING', 'COLLNET_DIRECT', 'COLLNET_CHAIN', 'NVLS', 'NVLS_TREE', 'PAT')
_PROTOCOLS = ('LL', 'LL128', 'SIMPLE')


class SizeRow(NamedTuple):
    """The row of one size: bytes as printed, seconds, wrong elements both ways, line number.

    `ways`: time in us and algorithm bandwidth as printed, out of place and in place. `kind`: type and operation.
    `asked`: the size that was asked for: if the ranks do not divide it, a test takes less.
    """

    size: int
    seconds: float
    ways: tuple[tuple[str, str], tuple[str, str]]
    wrong: tuple[str, str]
    line: int
    kind: tuple[str, str]
    asked: int


def sizes_of(ranks: int) -> list[int]:
    """Return the message sizes of a run in bytes: powers of two from 64 KiB, or more with many ranks, to 1 GiB."""
    smallest = max(2**16, 1 << (SMALLEST_OF_RANK * ranks - 1).bit_length())
    return [2**power for power in range(smallest.bit_length() - 1, LARGEST.bit_length())]


def options_of(sizes: Sequence[int]) -> list[str]:
    """Return the options of a run with one rank for each GPU, which checks all received elements."""
    return f'-b {sizes[0]} -e {sizes[-1]} -f 2 -g 1 -c 1 -n {ITERATIONS} -w {WARMUPS}'.split()


def rows_of(output: str, sizes: Sequence[int] = ()) -> list[SizeRow]:
    """Return the complete rows of an output of a run that was asked for `sizes`."""

    def asked(size: int) -> int:
        return next((each for each in sizes if each >= size), size)

    return [row._replace(asked=asked(row.size)) for row in _rows(output)]


@functools.lru_cache(maxsize=1)  # both rates of a run and its faults are of the same rows
def _rows(output: str) -> tuple[SizeRow, ...]:
    """Return the complete rows of an output, each asked for in its own size."""

    def row_of(line: int, fields: re.Match[str]) -> SizeRow:
        size, time, algorithm = int(fields[1]), float(fields[4]), float(fields[5])
        if 'e' in fields[4]:  # two digits are left of a long time: the rate has more
            time = size / algorithm / 1e3 if algorithm else 0.0
        ways = (fields[4], fields[5]), (fields[8], fields[9])
        return SizeRow(size, time / 1e6, ways, (fields[7], fields[11]), line, (fields[2], fields[3]), size)

    lines = enumerate(output.split('\n')[:-1], start=1)
    return tuple(row_of(line, fields) for line, text in lines if (fields := _ROW.fullmatch(text)))


def _contradicts(size: int, time: str, rate: str) -> bool:
    """Return True if no time and rate that are printed so, in us and GB/s, make the size in bytes."""

    def bounds(number: str) -> tuple[float, float]:
        digits, _, exponent = number.partition('e')
        half = 0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition('.')[2]))
        return max(float(number) - half, 0.0), float(number) + half

    (shortest, longest), (lowest, highest) = bounds(time), bounds(rate)
    kilobytes, slack = size / 1e3, 1e-9
    return not shortest * lowest * (1 - slack) <= kilobytes <= longest * highest * (1 + slack)


def metrics_of(collective: str, sizes: Sequence[int], ranks: int, peak: float | None = None) -> list[Metric]:
    """Return both rates of a collective; bus bandwidth of the largest size is judged. `peak`: of the other rate."""
    expected, last = {'message_bytes': sizes}, str(sizes[-1])

    def rates(factor: float, output: str) -> Iterator[OutputRow]:
        """Yield the rate of each size by its time, which has more digits than the printed rate."""
        if not (rows := rows_of(output, sizes)):
            raise NotMeasured('there is no row of a message size')
        for row in rows:
            if row.seconds:
                rate = factor * row.size / row.seconds / 1e9
                yield OutputRow({'message_bytes': str(row.asked)}, rate, (row.line,))

    return [
        Metric(name, 'GB/s', 'higher', functools.partial(rates, factor), {'collective': collective}, expected,
               run=collective, judged=judged, peak=peak and factor * peak)
        for name, factor, judged in (
            ('algorithm_bandwidth', 1, False),
            ('bus_bandwidth', FACTORS[collective](ranks), lambda at: at['message_bytes'] == last),
        )
    ]  # fmt: skip


def column_faults(output: str) -> list[str]:
    """Return a sentence if the columns, or their units, are not those of the rows."""
    lines = [line[1:].split() for line in output.splitlines() if line.startswith('#')]
    faults = []
    for sign, words in (('busbw', _COLUMNS), ('(elements)', _UNITS)):
        found = [line for line in lines if sign in line]
        if [line[: len(words)] for line in found] != [words]:
            shown = '; '.join(' '.join(line) for line in found) or 'none'
            faults.append(f'expected the columns {" ".join(words)}, found {shown}')
    return faults


def faults_of(
    output: str, collective: str, sizes: Sequence[int], ranks: int, kinds: Collection[tuple[str, str]] = KINDS
) -> list[str]:
    """Return one sentence for each sign that an output is not of a complete and correct run.

    `kinds`: type and operation, of which the rows must be.
    """
    lines, rows = output.splitlines(), rows_of(output, sizes)
    broken = [line for line in lines if re.match(r' *[0-9]', line) and not _ROW.fullmatch(line)]
    broken += [lines[row.line - 1] for row in rows if row.kind not in kinds]
    faults = column_faults(output)
    faults += [f'cannot parse row: expected size, count, type, ..., found {line[:80]!r}' for line in broken]
    verdicts = re.findall(r'^# Out of bounds values : (.*?) *$', output, re.MULTILINE)
    if verdicts != ['0 OK']:
        faults.append(f'expected one line "Out of bounds values : 0 OK", found {verdicts or "none"}')
    faults += [
        f'{row.asked} bytes: wrong elements out of place {row.wrong[0]}, in place {row.wrong[1]}'
        for row in rows if not {*row.wrong} <= {'0', 'N/A'}
    ]  # fmt: skip
    faults += [
        f'{row.asked} bytes: {rate} GB/s and {time} us contradict each other'
        for row in rows for time, rate in row.ways if _contradicts(row.size, time, rate)
    ]  # fmt: skip
    ways = 1 if collective in ('alltoall', 'sendrecv') else 2  # in place these two check nothing
    if unchecked := sum('N/A' in row.wrong[:ways] for row in rows):
        faults.append(f'elements of {unchecked} of {len(rows)} sizes were not checked (N/A), which -c 1 asks for')
    if (seen := len(_RANK.findall(output))) != ranks:
        faults.append(f'expected {ranks} ranks, found {seen}')
    return faults


def iteration_faults(output: str) -> list[str]:
    """Return a sentence if the program says that it ran another number of iterations than was asked for."""
    numbers = re.findall(r'^# nThread .* iters: +([0-9]+) agg iters: ', output, re.MULTILINE)
    return [
        f'{ITERATIONS} iterations were asked for, it says {number}' for number in numbers if number != str(ITERATIONS)
    ]


def hosts_of(output: str) -> list[str]:
    """Return the nodes of the ranks, sorted."""
    return sorted({host for host, *_ in _RANK.findall(output) if host})


def devices_of(output: str) -> list[str]:
    """Return the device of each rank, such as ``NVIDIA A100-SXM4-40GB at 0000:0f:00``.

    The name alone if the program prints no PCI address: older versions print only the bus, ``[0x07]``.
    """
    return [f'{name} at {address}' if ':' in address else name for _, address, name in _RANK.findall(output) if name]


# What NCCL_DEBUG=INFO says


def transports_of(log: str) -> dict[str, int]:
    """Return the transports of the channels of all ranks, such as ``NET/IB/GDRDMA``, with their numbers."""
    ways = (re.sub(r'/\d+(?:\(\d+\))?(?=/|$)', '', way) for way in _CHANNEL.findall(log))
    return dict(sorted(Counter(ways).items()))


def algorithm_of(log: str) -> str:
    """Return algorithm and protocol of the largest message, such as ``RING/SIMPLE``; empty if the log has none."""
    matches = re.findall(r'\b(\d{1,15}) Bytes -> Algo (\w+) proto (\w+)', log)
    if not matches:
        return ''
    _, *chosen = max(matches, key=lambda one: int(one[0]))
    known = (_ALGORITHMS, _PROTOCOLS)
    return '/'.join(
        names[int(one)] if one.isdecimal() and len(one) < 3 and int(one) < len(names) else one.upper()
        for one, names in zip(chosen, known, strict=True)
    )


def fallbacks_of(log: str, nics: Sequence[str], fabric: Sequence[str] = (), direct: bool = True) -> list[str]:
    """Return a sentence for each sign that the library does not use the network devices that it should.

    `nics`: the devices that the site states. `fabric`: the InfiniBand or Slingshot devices of the node, used if the
    site states none. `direct`: whether GPU memory must be sent without a copy.
    """
    if not nics and not fabric:
        return []
    stated = f'site.yaml states the network devices {", ".join(nics)}' if nics else f'the node has {", ".join(fabric)}'
    if sockets := re.search(r'via NET/Socket|Using network Socket', log):
        return [
            f'NCCL fell back to sockets ({sockets[0]}); {stated}. Slingshot and EFA need the plugin aws-ofi-nccl: on '
            'LD_LIBRARY_PATH, with NCCL_NET="AWS Libfabric"'
        ]
    if 'NET/' not in log:
        return [f'NCCL did not say how it reaches other nodes; {stated}']
    faults = []
    used = {name for line in re.findall(r'NET/IB : Using (.*)', log) for name in re.findall(r'\[\d+\]([\w.-]+):', line)}
    if lacking := [name for name in nics if used and name not in used]:
        faults.append(f'NCCL uses {", ".join(sorted(used))} and not {", ".join(lacking)} of site.yaml')
    numbers = [int(number) for number in re.findall(r'NET/OFI Selected [pP]rovider is .*\(found (\d{1,4}) nics\)', log)]
    if numbers and min(numbers) < len(nics):
        faults.append(f'NCCL found {min(numbers)} network devices on a node; {stated}')
    between = {way: number for way, number in transports_of(log).items() if way.startswith('NET/')}
    through_host = sum(number for way, number in between.items() if 'GDRDMA' not in way)
    if direct and through_host:
        faults.append(
            f'{through_host} of {sum(between.values())} channels between nodes go through memory of the host, without '
            'GDRDMA: see NCCL_NET_GDR_LEVEL, and whether nvidia_peermem, or DMA-BUF, is there; or state transport: host'
        )
    return faults


def version_of(log: str) -> str:
    """Return the version of the library; empty if the log has none."""
    match = re.search(r'\bR?NCCL version *:? ([0-9][\w.+:-]*)', log) or re.search(r'RCCL version *: *(\S+)', log)
    return match[1] if match else ''


# Saved outputs, also of several runs

_PROGRAM = re.compile(rf'\b({"|".join(FACTORS)})_perf')
_ASKED = r'^# nThread .* minBytes ([0-9]{1,15}) maxBytes ([0-9]{1,15}) step: ([0-9]{1,15})\((factor|bytes)\)'
_MOST_SIZES = 10_000


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield both rates of each size; all count as failed if an element is wrong or a size is missing.

    The collective is named in the output from version 2.17 on, else by the command above it, or the name of the file.
    """
    begin = begins(r'^(?:# \S+-tests version.*\n)?(?:# Collective test starting.*\n)?# nThread ')
    yield from results_of(path, begin, '# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor)', _run)


def _run(part: Part) -> Iterator[Result]:
    output = part.output
    if ' busbw ' in output and (unknown := column_faults(output)):  # without, it ended before its first row
        raise ValueError(unknown[0])
    named = _PROGRAM.findall(output)[:1] or _PROGRAM.findall(part.above)[-1:] or _PROGRAM.findall(part.file)[:1]
    named = named or [name for name in FACTORS if name in part.file][:1]
    if not named:
        raise ValueError(
            f'expected one of {", ".join(FACTORS)}, with _perf in the output or the name of the file, found none'
        )
    (collective,) = named
    ranks, nodes = len(_RANK.findall(output)), hosts_of(output)
    if ranks < 2:
        raise ValueError(f'expected lines "# Rank ..." of at least two ranks, found {ranks}')
    sizes = _sizes(output)
    # a test rounds the smallest sizes down by ranks: they are counted, and not read
    least = 1 if collective in ('all_reduce', 'sendrecv', 'broadcast', 'reduce') else SMALLEST_OF_RANK * ranks
    rows, lines = rows_of(output, sizes), output.split('\n')
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
    kind, operation = next(iter(kinds), KINDS[0])
    faults += faults_of(output, collective, sizes, ranks, kinds or KINDS)
    params = {
        'ranks': ranks, 'nodes': len(nodes) or '', 'type': '' if kind == 'float' else kind,
        'operation': '' if operation in ('sum', 'none') else operation,
    }  # fmt: skip
    header = '\n'.join([part.command(rf'{collective}_perf\w*'), *re.findall('^# nThread .*', output, re.MULTILINE)])
    metrics = metrics_of(collective, sizes, ranks)
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

# SPDX-License-Identifier: BSD-3-Clause
"""The OSU Micro-Benchmarks: their metrics, their message sizes and the faults of their output.

Every program prints a banner, a line that names the columns, and a row for each message size: ``8     0.39``. The
latency of a collective is the mean over its ranks. Versions differ in comments between these lines, in blanks, and in
the first size; the sizes of a run are therefore part of its options, and a missing one is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from checks.core.reading.trials import Metric
from plumbline.machine.vendors import VENDORS

_NUMBER = r'[0-9]+\.[0-9]{2}'  # always two decimals
_LATENCY = r'(?:Avg )?Latency ?\(us\)'
_BANDWIDTH = r'Bandwidth \(MB/s\)'  # 10^6 bytes
MIB = 2**20
# Most bytes that a rank sends in a collective: twice this for 128 ranks fits into 16 GiB. Above 512 MiB OSU omits
# sizes.
LARGEST_BUFFER = 64 * MIB
SMALL = 8  # the largest message in bytes whose latency or rate is judged
MEMORY = {'host': 'H', 'device': 'D', 'managed': 'MD'}  # of a rank, by OSU's letters
# Bytes of the message that shows staging through the host: between GPUs of one node, and of two nodes
STAGED_WITHIN, STAGED_BETWEEN = 4 * MIB, 64 * 1024
_ONE_SIDED = ('# Window creation: MPI_Win_allocate', '# Synchronization: MPI_Win_flush')


class Program(NamedTuple):
    title: str  # in the banner, in upper or lower case
    metrics: tuple[str, ...]  # of the columns after the size
    unit: str
    header: str  # of these columns
    largest: int = 4 * MIB  # message in bytes; 0 where the program has none
    smallest: int = 1
    options: tuple[str, ...] = ()
    says: tuple[str, ...] = ()  # lines that must be printed; {pairs} is half of the ranks
    buffers: bool = False  # whether each rank holds a message for every rank


def _collective(title: str, name: str, **more) -> Program:
    return Program(f'{title} Latency Test', (name,), 'us', _LATENCY, largest=MIB, **more)


def _one_sided(name: str) -> Program:
    what, _, kind = name.partition('_')
    unit, header = ('us', _LATENCY) if kind == 'latency' else ('MB/s', _BANDWIDTH)
    options = ('-w', 'allocate', '-s', 'flush')
    title = f'MPI_{what.title()} {kind.title()} Test'
    return Program(title, (name,), unit, header, options=options, says=_ONE_SIDED)


# Reductions add numbers of 4 bytes up to version 7.0 and from 7.5 on; the versions between add numbers of 1 byte.
# fmt: off
PROGRAMS = {
    'osu_latency': Program('MPI Latency Test', ('latency',), 'us', _LATENCY),
    'osu_bw': Program('MPI Bandwidth Test', ('bandwidth',), 'MB/s', _BANDWIDTH),
    'osu_bibw': Program('MPI Bi-Directional Bandwidth Test', ('bidirectional_bandwidth',), 'MB/s', _BANDWIDTH),
    'osu_put_latency': _one_sided('put_latency'),
    'osu_get_latency': _one_sided('get_latency'),
    'osu_put_bw': _one_sided('put_bandwidth'),
    'osu_get_bw': _one_sided('get_bandwidth'),
    'osu_multi_lat': Program('MPI Multi Latency Test', ('multi_latency',), 'us', _LATENCY),
    'osu_mbw_mr': Program(
        'MPI Multiple Bandwidth / Message Rate Test', ('multi_bandwidth', 'message_rate'), 'MB/s',
        r'MB/s +Messages/s', says=('# [ pairs: {pairs} ] [ window size: 64 ]',),
    ),
    'osu_allreduce': _collective('MPI Allreduce', 'allreduce', smallest=4),
    'osu_reduce': _collective('MPI Reduce', 'reduce', smallest=4),
    'osu_reduce_scatter': _collective('MPI Reduce_scatter', 'reduce_scatter', smallest=4),
    'osu_alltoall': _collective('MPI All-to-All Personalized Exchange', 'alltoall', buffers=True),
    'osu_allgather': _collective('MPI Allgather', 'allgather', buffers=True),
    'osu_bcast': _collective('MPI Broadcast', 'bcast'),
    'osu_barrier': Program('MPI Barrier Latency Test', ('barrier',), 'us', _LATENCY, largest=0),
}
# fmt: on


def _program(name: str) -> Program:
    """Return the facts of a program; ``osu_xccl_<collective>`` differs from MPI's only in the library in its banner."""
    return PROGRAMS[name.replace('osu_xccl_', 'osu_')]


def title_of(name: str, gpu: str = '') -> str:
    """Return the title in the banner of a program whose ranks use the memory of the host, or of this kind of GPU."""
    library = VENDORS[gpu].collectives if '_xccl_' in name else 'MPI'
    return _program(name).title.replace('MPI', f'{library}-{gpu}' if gpu else library, 1)


def sizes_of(name: str, ranks: int = 2, first: int = 1, last: int = 0) -> list[int]:
    """Return the message sizes that a run on so many ranks must print, in bytes; none for a barrier.

    `first`, `last`: the ends that its option -m asks for; 0: the largest size that the program has by default.
    """
    program = _program(name)
    largest = min(program.largest, LARGEST_BUFFER // ranks if program.buffers else program.largest)
    powers = range((largest and (last or largest)).bit_length())
    return [2**power for power in powers if 2**power >= max(program.smallest, first)]


def options_of(name: str, sizes: list[int]) -> list[str]:
    """Return the options of a run. Sizes start at 1, which reductions count in elements up to version 7.0."""
    return [*(['-m', f'1:{sizes[-1]}'] if sizes else []), *_program(name).options]


def metrics_of(name: str, sizes: list[int], run: str = '', **dims: object) -> list[Metric]:
    """Return a metric for each column of a program, with a series for each message size; ``barrier`` has no sizes.

    `run`: name of the run, if it differs from the program's. `dims`: further dims of that run.
    """
    program, metrics = _program(name), []
    for column, what in enumerate(program.metrics):
        unit = 'ops/s' if what == 'message_rate' else program.unit
        numbers = [f'(?P<value>{_NUMBER})' if i == column else _NUMBER for i in range(len(program.metrics))]
        rows = rf'^(?P<message_bytes>{"|".join(map(str, sizes))}) +{" +".join(numbers)}(?: +Pass)?$'
        judged = {str(size) for size in judged_sizes(name, what, sizes)}
        metrics.append(Metric(
            what, unit, 'lower' if unit == 'us' else 'higher', rows if sizes else rf'^ +({_NUMBER})$', dims,
            {'message_bytes': sizes} if sizes else {}, run=run or name,
            judged=(lambda at, judged=judged: at['message_bytes'] in judged) if sizes else True,
        ))  # fmt: skip
    return metrics


def judged_sizes(name: str, what: str, sizes: list[int]) -> list[int]:
    """Return the sizes that need a reference; the others are informational.

    Of latencies and rates: the small ones. Of bandwidths: the largest one. Of collectives: both.
    """
    latency = _program(name).unit == 'us' or what == 'message_rate'
    small = [size for size in sizes if size <= SMALL] if latency else []
    return small + (sizes[-1:] if _program(name).largest == MIB or not latency else [])


def published_latency() -> Metric:
    """Return the "MPI latency" of tables 4 and 5 of 003.

    The tables name no message size. A latency below a microsecond is of a small message; the smallest message that the
    version of the tables (7.1) prints is 1 byte.
    """
    return Metric('mpi_latency', 'us', 'lower', rf'^1 +({_NUMBER})(?: +Pass)?$', run='osu_latency')


def version_of(output: str) -> str:
    """Return the version in the banner; empty if there is none."""
    version = re.search(r'^# OSU .* v([0-9][0-9.]*)$', output, re.MULTILINE)
    return version[1] if version else ''


def faults_of(
    output: str, name: str, sizes: list[int], ranks: int = 2, gpu: str = '', buffers: Sequence[str] = ()
) -> list[str]:
    """Return one sentence for each sign that an output is no complete run of `name` over `sizes` on so many ranks.

    `gpu`, `buffers`: kind of device, and the memory of the two ranks by OSU's letters.
    """
    program, lines = _program(name), output.splitlines()
    if name == 'osu_mbw_mr' and lines[:1] == lines[1:2]:
        lines = lines[1:]  # versions 6.0 to 7.2 print their banner twice
    missing = ['datatype', 'line of buffers']  # which most versions do not print
    if not sizes and version_of(output) == '7.1':
        missing.append('header')
    column = f'# {"Size +" if sizes else ""}{program.header}(?: +Validation)?'
    faults = []
    for what, kind, right in (
        ('banner', '# OSU ', rf'# OSU {title_of(name, gpu)} v[0-9.]+'),
        ('header', '# (Size|Avg|Latency)', column),
        ('datatype', '# Datatype', rf'# Datatype: MPI_{"(CHAR|INT)" if program.smallest == 4 else "CHAR"}\.'),
        ('line of buffers', '# Send Buffer', _buffers_line(buffers)),
    ):
        matching = [line for line in lines if re.match(kind, line)]
        if len(matching) != 1 and (matching or what not in missing):
            faults.append(f'expected one {what}, found {len(matching)}')
        faults += [
            f'unexpected {what}: {line[:80]}' for line in matching if not re.fullmatch(right, line, re.IGNORECASE)
        ]
    says = [line.format(pairs=ranks // 2) for line in program.says]
    faults += [f'expected one line {line!r}' for line in says if lines.count(line) != 1]
    return faults + _faults_of_rows(lines, len(program.metrics), sizes)


def time_of(name: str, output: str, size: int) -> float | None:
    """Return the time of a message of `size` bytes in µs, as osu_latency or osu_bw printed it; None without one."""
    row = re.search(rf'^{size} +({_NUMBER})\b', output, re.MULTILINE)
    if not row or not float(row[1]):
        return None
    return float(row[1]) if PROGRAMS[name].unit == 'us' else size / float(row[1])


def _buffers_line(buffers: Sequence[str]) -> str:
    """Return the pattern of the line of buffers in versions up to 7.0; versions before 5.7.1 print M for MD."""
    kinds = {letters: kind.upper() for kind, letters in MEMORY.items()}
    words = (rf'{kinds[letters]} \({letters.replace("MD", "MD?")}\)' for letters in buffers or ('H', 'H'))
    return '# Send Buffer on {} and Receive Buffer on {}'.format(*words)


def _faults_of_rows(lines: list[str], columns: int, sizes: list[int]) -> list[str]:
    rows = [line for line in lines if re.match(r' *[0-9]', line)]
    size = '([0-9]{1,12})' if sizes else '()'
    matches = [re.fullmatch(rf'{size}(?: +{_NUMBER}){{{columns}}}(?: +(Pass|Fail))?', row) for row in rows]
    broken = [row for row, match in zip(rows, matches, strict=True) if not match]
    faults = [f'cannot parse row: expected SIZE VALUE, found {row[:80]}' for row in broken]
    if len({len(row) for row in rows}) > 1:
        faults.append('rows are not equally wide: characters were lost or added')
    whole = [match for match in matches if match]
    faults += [f'validation failed for {match[1]} bytes' for match in whole if match[2] == 'Fail']
    if not sizes:
        return faults if len(rows) == 1 else [*faults, f'expected one value, found {len(rows)}']
    printed = [int(match[1]) for match in whole]
    expected = sorted({size for size in printed if size < sizes[0]}) + sizes  # some versions print smaller ones
    if printed != expected:
        wrong = [f'{size} bytes {printed.count(size)} times' for size in expected if printed.count(size) != 1]
        span = f'{sizes[0]} to {sizes[-1]} bytes'
        why = ', '.join(wrong) or 'wrong order'
        faults.append(f'expected a row for each of {span}: {why if printed else "there is none"}')
    return faults


def errors_of(errors: str) -> list[str]:
    """Return a sentence for each error after which OSU ends, or leaves out sizes and exits with 0."""
    pattern = r'This test requires [\w ]+ processes|Limiting max message size to: [0-9]+|Requested memory limit too low'
    return [f'OSU says: {line}' for line in dict.fromkeys(re.findall(pattern, errors))]


def device_errors_of(errors: str) -> list[str]:
    """Return why there are no device buffers, from the messages of OSU, MPI and the launchers."""
    causes = {
        'the programs were built without support for such buffers':
            r'Benchmark Does Not Support Accelerator Transfers|(?:CUDA|ROCm|Managed Memory) Support Not Enabled'
            r'|Managed memory support requires CUDA kernels|Invalid device type|Invalid option \[-d\]',
        'the program is not linked with GTL, the library of Cray MPICH for GPUs: see `ldd`, and docs/stacks.md':
            r'GTL library is not linked',
        # the library takes them for host memory
        'the MPI library does not seem to support device buffers':
            r'segmentation fault|SIGSEGV|signal:? 11\b|bus error|bad address|memory access fault',
    }  # fmt: skip
    matches = {cause: re.search(pattern, errors, re.IGNORECASE) for cause, pattern in causes.items()}
    return [f'{cause}: {match[0]}' for cause, match in matches.items() if match]

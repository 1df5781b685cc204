# SPDX-License-Identifier: BSD-3-Clause
"""The OSU Micro-Benchmarks: their metrics, their message sizes and the faults of their output.

Every program prints a banner, a line that names the columns, and a row for each message size: ``8     0.39``. The
latency of a collective is the mean over its ranks. Versions differ in comments between these lines, in blanks, and in
the first size; the sizes of a run are therefore part of its options, and a missing one is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import MIB
from checks.core.reading.saved import Part, Result, begins, results_of
from plumbline.machine.vendors import VENDORS
from plumbline.measurement import Measurement

NUMBER = r'[0-9]+\.[0-9]{2}'  # always two decimals
# Most bytes that a rank sends in a collective: twice this for 128 ranks fits into 16 GiB. Above 512 MiB OSU omits
# sizes.
LARGEST_BUFFER = 64 * MIB
SMALL = 8  # the largest message in bytes whose latency or rate is judged
MEMORY = {'host': 'H', 'device': 'D', 'managed': 'MD'}  # of a rank, by OSU's letters
_HEADERS = {'us': r'(?:Avg )?Latency ?\(us\)', 'MB/s': r'Bandwidth \(MB/s\)'}  # 10^6 bytes
_ONE_SIDED: dict[str, Any] = {
    'options': ('-w', 'allocate', '-s', 'flush'),
    'says': ('# Window creation: MPI_Win_allocate', '# Synchronization: MPI_Win_flush'),
}


class Program(NamedTuple):
    title: str  # in the banner, in upper or lower case
    metrics: tuple[str, ...]  # of the columns after the size
    unit: str = 'us'
    columns: str = ''  # the header of these columns, if it is not that of the unit
    largest: int = 4 * MIB  # message in bytes; 0 where the program has none
    smallest: int = 1
    options: tuple[str, ...] = ()
    says: tuple[str, ...] = ()  # lines that must be printed; {pairs} is half of the ranks
    buffers: bool = False  # whether each rank holds a message for every rank


def _collective(title: str, name: str, **more) -> Program:
    return Program(f'{title} Latency Test', (name,), largest=MIB, **more)


# Reductions add numbers of 4 bytes up to version 7.0 and from 7.5 on; the versions between add numbers of 1 byte.
PROGRAMS = {
    'osu_latency': Program('MPI Latency Test', ('latency',)),
    'osu_bw': Program('MPI Bandwidth Test', ('bandwidth',), 'MB/s'),
    'osu_bibw': Program('MPI Bi-Directional Bandwidth Test', ('bidirectional_bandwidth',), 'MB/s'),
    'osu_put_latency': Program('MPI_Put Latency Test', ('put_latency',), **_ONE_SIDED),
    'osu_get_latency': Program('MPI_Get Latency Test', ('get_latency',), **_ONE_SIDED),
    'osu_put_bw': Program('MPI_Put Bandwidth Test', ('put_bandwidth',), 'MB/s', **_ONE_SIDED),
    'osu_get_bw': Program('MPI_Get Bandwidth Test', ('get_bandwidth',), 'MB/s', **_ONE_SIDED),
    'osu_multi_lat': Program('MPI Multi Latency Test', ('multi_latency',)),
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
    'osu_barrier': Program('MPI Barrier Latency Test', ('barrier',), largest=0),
}  # fmt: skip


def program_of(name: str) -> Program:
    """Return the facts of a program; ``osu_xccl_<collective>`` differs from MPI's only in the library in its banner."""
    return PROGRAMS[name.replace('osu_xccl_', 'osu_')]


def title_of(name: str, gpu: str = '') -> str:
    """Return the title in the banner of a program whose ranks use the memory of the host, or of this kind of GPU."""
    library = VENDORS[gpu].collectives if '_xccl_' in name else 'MPI'
    return program_of(name).title.replace('MPI', f'{library}-{gpu}' if gpu else library, 1)


def sizes_of(name: str, ranks: int = 2, first: int = 1, last: int = 0) -> list[int]:
    """Return the message sizes that a run on so many ranks must print, in bytes; none for a barrier.

    `first`, `last`: the ends that its option -m asks for; 0: the largest size that the program has by default.
    """
    program = program_of(name)
    largest = min(program.largest, LARGEST_BUFFER // ranks if program.buffers else program.largest)
    powers = range((largest and (last or largest)).bit_length())
    return [2**power for power in powers if 2**power >= max(program.smallest, first)]


def metrics_of(name: str, sizes: list[int], run: str = '', peak: float | None = None, **dims: object) -> list[Metric]:
    """Return a metric for each column of a program, with a series for each message size; ``barrier`` has no sizes.

    `run`: name of the run, if it differs from the program's. `peak`: B/s of the path, one way. `dims`: further dims of
    that run.
    """
    program, metrics = program_of(name), []
    for column, what in enumerate(program.metrics):
        unit = 'ops/s' if what == 'message_rate' else program.unit
        numbers = [f'(?P<value>{NUMBER})' if i == column else NUMBER for i in range(len(program.metrics))]
        rows = rf'^(?P<message_bytes>{"|".join(map(str, sizes))}) +{" +".join(numbers)}(?: +Pass)?$'
        # of latencies and rates the small sizes need a reference, of bandwidths the largest, of collectives both
        judged = {str(size) for size in sizes if size <= SMALL} if unit != 'MB/s' else set()
        judged |= {str(size) for size in sizes[-1:]} if unit == 'MB/s' or program.largest == MIB else set()
        metrics.append(Metric(
            what, unit, 'lower' if unit == 'us' else 'higher', rows if sizes else rf'^ +({NUMBER})$', dims,
            {'message_bytes': sizes} if sizes else {}, run=run or name,
            peak=peak and (2 if what.startswith('bidirectional') else 1) * peak if unit == 'MB/s' else None,
            judged=(lambda at, judged=judged: at['message_bytes'] in judged) if sizes else True,
        ))  # fmt: skip
    return metrics


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
    program, lines = program_of(name), output.splitlines()
    if name == 'osu_mbw_mr' and lines[:1] == lines[1:2]:
        lines = lines[1:]  # versions 6.0 to 7.2 print their banner twice
    missing = ['datatype', 'line of buffers']  # which most versions do not print
    if not sizes and version_of(output) == '7.1':
        missing.append('header')
    column = f'# {"Size +" if sizes else ""}{program.columns or _HEADERS[program.unit]}(?: +Validation)?'
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
    return faults + _faults_of_rows(lines, len(program.metrics), bool(sizes))


def time_of(name: str, output: str, size: int) -> float | None:
    """Return the time of a message of `size` bytes in µs, as osu_latency or osu_bw printed it; None without one."""
    (metric,) = metrics_of(name, [size])
    value = next(iter(metric.reading_of(output).values.values()), None)
    return value if value is None or metric.unit == 'us' else size / value


def _buffers_line(buffers: Sequence[str]) -> str:
    """Return the pattern of the line of buffers in versions up to 7.0; versions before 5.7.1 print M for MD."""
    kinds = {letters: kind.upper() for kind, letters in MEMORY.items()}
    words = (rf'{kinds[letters]} \({letters.replace("MD", "MD?")}\)' for letters in buffers or ('H', 'H'))
    return '# Send Buffer on {} and Receive Buffer on {}'.format(*words)


def _faults_of_rows(lines: list[str], columns: int, of_sizes: bool) -> list[str]:
    """Return a sentence for each row that is broken or failed; that a row is missing its metrics say."""
    rows = [line for line in lines if re.match(r' *[0-9]', line)]
    size = '([0-9]{1,12})' if of_sizes else '()'
    matches = [re.fullmatch(rf'{size}(?: +{NUMBER}){{{columns}}}(?: +(Pass|Fail))?', row) for row in rows]
    broken = [row for row, match in zip(rows, matches, strict=True) if not match]
    faults = [f'cannot parse row: expected SIZE VALUE, found {row[:80]}' for row in broken]
    if len({len(row) for row in rows}) > 1:
        faults.append('rows are not equally wide: characters were lost or added')
    return faults + [f'validation failed for {match[1]} bytes' for match in matches if match and match[2] == 'Fail']


def errors_of(errors: str) -> list[str]:
    """Return a sentence for each error after which OSU ends, or leaves out sizes and exits with 0."""
    pattern = r'This test requires [\w ]+ processes|Limiting max message size to: [0-9]+|Requested memory limit too low'
    return [f'OSU says: {line}' for line in dict.fromkeys(re.findall(pattern, errors))]


# Saved outputs, also several in one file

# osu_mbw_mr 6.0 to 7.2 prints its banner twice
_BANNER = r'^(?P<banner># OSU (?P<title>.*) v[0-9][0-9.]*$\n?)(?P=banner)?'
_HINT = 'it was cut off, or -m asked for others; then its command belongs above the output, as set -x prints it'
# What -f adds to the mean of a collective
_FULL_HEADER = re.compile(
    r'^(# (?:Size +)?Avg Latency\(us\)) +Min Latency\(us\) +Max Latency\(us\) +Iterations$', re.MULTILINE
)
_FULL_ROW = re.compile(r'^(?P<kept>[0-9]* +[0-9.]+) +[0-9.]+ +[0-9.]+ +[0-9]+$', re.MULTILINE)
_KINDS = '|'.join(MEMORY).upper()
_BUFFERS = re.compile(rf'^# Send Buffer on ({_KINDS}) .* Receive Buffer on ({_KINDS}) ', re.MULTILINE)


def read_saved(path: Path) -> Iterator[Measurement | str]:
    """Yield the metrics of each program; the check has the name of the program.

    Each size that the program prints by default is expected; if a line above its output has the command, as ``set -x``
    prints it, each size that ``-m`` asks for there. That command is a param: the output does not say where ranks ran.
    """
    yield from results_of(path, begins(_BANNER), '# OSU MPI Latency Test v7.4', _run)


def _run(part: Part) -> Iterator[Result]:
    title = re.match(_BANNER, part.output, re.MULTILINE)
    name, gpu = _program_titled(title['title'] if title else '')
    output = _FULL_ROW.sub(r'\g<kept>', _FULL_HEADER.sub(r'\1', part.output))
    sizes, ranks = _sizes(name, part.above), 2
    if pairs := re.search(r'^# \[ pairs: ([0-9]{1,6}) \]', output, re.MULTILINE):
        ranks = 2 * int(pairs[1])
    memory = _BUFFERS.search(output)
    buffers = tuple(MEMORY[word.lower()] for word in memory.groups()) if memory else ()
    params = {
        'gpu': gpu, 'buffers': '-'.join(buffers) if gpu else '', 'pairs': ranks // 2 if pairs else '',
        'command': part.command(name),
    }  # fmt: skip
    faults = [*errors_of(output), *faults_of(output, name, sizes, ranks, gpu, buffers)]
    printed = [int(size) for size in re.findall(r'^([0-9]{1,12}) ', output, re.MULTILINE)]
    if sizes and (last := max(printed, default=0)) != sizes[-1]:
        faults.insert(0, f'expected sizes up to {sizes[-1]} bytes, found up to {last}: {_HINT}')
    header = ''.join(re.findall(r'^#.*\n', output, re.MULTILINE))
    yield Result(name, params, metrics_of(name, sizes), output, faults, header)


def _program_titled(title: str) -> tuple[str, str]:
    """Return the name of a program, and the kind of device whose buffers it used."""
    of_mpi = [(name, gpu) for gpu in ('', *VENDORS) for name in PROGRAMS]
    programs = of_mpi + [(name.replace('osu_', 'osu_xccl_'), gpu) for name, gpu in of_mpi if gpu]
    known = {title_of(name, gpu).lower(): (name, gpu) for name, gpu in programs}
    if title.lower() not in known:
        raise ValueError(f'no check reads the program "{title:.60}"')
    return known[title.lower()]


def _sizes(name: str, above: str) -> list[int]:
    """Return the message sizes that were asked for; `above`: the text between this output and the output before it."""
    asked = re.findall(rf'\b{name}\b[^\n]*? -m[ =]?(?:([0-9]{{1,12}}):)?([0-9]{{1,12}})\b', above)
    first, last = asked[-1] if asked else ('', '')
    return sizes_of(name, first=int(first or 1), last=int(last or 0))

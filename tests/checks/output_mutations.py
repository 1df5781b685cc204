# SPDX-License-Identifier: BSD-3-Clause
"""Mutate recorded outputs of real benchmarks.

Each recorded output is cut, doubled and interleaved with itself, loses or repeats lines, and gets colours, words for
numbers, huge numbers and bytes that are no text. Then it is read as a case is: it passes if all metrics of its check
have a value and its check finds no fault. The values must then be those of the original.

Not among the mutations: other or fewer digits within one line, where nothing else in the output contradicts them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from reading import run_of
from scratch import OUTPUTS

from checks.compute import hpcg_output as hpcg
from checks.compute import hpl_output as hpl
from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import plain
from checks.gpu import comm_scope_output as scope
from checks.gpu import xccl_output as xccl
from checks.mpi import osu_output as osu
from checks.storage import ior_output, mdtest_output

MIB = 2**20
WORDS = (
    '1_000', 'nan', '-1', '0', 'fast', '', '\uff11\uff12', '\u0663', '1,5', '1e999', '1' * 50_000, '0x1F', '+',
    '1.2.3', '\xbd',
)  # fmt: skip
Values = dict[tuple[str, str], float]


class Target(NamedTuple):
    """A recorded output, the metrics of its check and the function that finds its faults."""

    name: str
    text: str
    metrics: list[Metric]
    faults: Callable[[str], list[str]]

    def outcome(self, text: str) -> Values | None:
        """Return the values of a case that passes; None where a fault or a missing metric fails it."""
        text, values = plain(text), {}
        for metric in self.metrics:
            reading = metric.reading_of(text)
            if reading.missing or reading.faults:
                return None
            values |= {(metric.name, str(point)): value for point, value in reading.values.items()}
        return None if self.faults(text) else values


def given(faults_of: Callable[..., list[str]], *asked: Any) -> Callable[[str], list[str]]:
    """Return the faults of an output of what was asked for."""
    return lambda text: faults_of(text, *asked)


def targets() -> Iterator[Target]:
    """Yield every recorded output of a complete run. ReFrame's runtime must have been started."""
    from checks.compute import fft, hpcc, hpl_mxp, openssl
    from checks.gpu import clpeak, copies
    from checks.memory import babelstream_output, likwid
    from checks.memory.cache_latency import LATENCY
    from checks.storage import fio

    def target(file: str, metrics: list[Metric], faults: Callable[[str], list[str]] = lambda text: []) -> Target:
        text = (OUTPUTS / f'{file}.txt').read_text(encoding='utf-8', errors='replace')
        return Target(file, text, metrics, faults)

    yield target('hpcc-1.5.0', hpcc.METRICS, given(hpcc.faults_of, 10176))
    eight = tuple((n, nb, 1, 2) for n in (2304, 4608) for nb in (96, 192) for _ in range(2))
    for file, solved in (
        ('2.3', ((2000, 192, 1, 2),)), ('2.3-eight-configurations', eight), ('intel-2019', ((204288, 384, 2, 2),)),
    ):  # fmt: skip
        yield target(f'hpl-{file}', hpl.metrics_of(solved, 1, None), given(hpl.faults_of, solved))
    for file, *asked in (('3.1', 2, 1), ('3.1-threads', 1, 2), ('3.0', 2, 1)):
        yield target(f'hpcg-{file}', hpcg.metrics_of(1, None), given(hpcg.faults_of, (32, 32, 32), *asked))
    flops, triad = likwid.flop_metrics('run', {}, None), likwid.bandwidth_metrics('triad', None)
    yield target('likwid-bench-peakflops_avx512_fma', flops, given(likwid.faults_of, (0,)))
    yield target('likwid-bench-triad_avx512_fma', triad, given(likwid.faults_of, (0, 1)))
    yield target('multichase-20250815', [Metric('latency', 'ns', 'lower', LATENCY)])
    for file, times in (('5.0-omp', 10), ('5.0-omp-100', 100), ('5.0-ocl', 15), ('6.0rc-omp', 100)):
        faults = given(babelstream_output.faults_of, 2**25, times)
        yield target(f'babelstream-{file}', [babelstream_output.bandwidth()], faults)
    yield target('openssl-3.0.19-speed', [openssl.hash_rate(1024, 'block_1024')])
    for program in osu.PROGRAMS:
        asked = program, osu.sizes_of(program)
        file = f'{program}-7.4' + '-all-sizes' * (program == 'osu_latency')
        yield target(file, osu.metrics_of(*asked), given(osu.faults_of, *asked))
    for test in ('bandwidth', 'single', 'transfer', 'launch'):
        yield target(f'clpeak-1.1.2-{test}', clpeak.metrics_of(test)[:1], given(clpeak.faults_of, 0))
    for file, ranks, powers in (
        ('rccl-tests-all_reduce-8-ranks', 8, range(3, 34)), ('rccl-tests-all_reduce-16-ranks', 16, range(3, 35)),
        ('nccl-tests-2.18.3-16-ranks', 16, range(10, 35)),
    ):  # fmt: skip
        asked = 'all_reduce', [2**power for power in powers], ranks
        yield target(file, xccl.metrics_of(*asked), given(xccl.faults_of, *asked))
    yield target('heffte-2.4.1-stock', fft.Fft.metrics, given(fft.faults_of, 'stock', (64, 64, 256), 2))
    faults = given(hpl_mxp.faults_of, 258048, hpl_mxp.BLOCK, (4, 2))
    yield target('hpl-mxp-nvidia', hpl_mxp.HplMxp.metrics, faults)
    rate = Metric('bandwidth', 'GB/s', 'higher', copies.rates_of, {}, {'transfer': ['d0-g0']})
    yield target('transferbench-host-to-gpu', [rate], given(copies.faults_of, 1, 1024))
    write = ior_output.Requested('write', 'POSIX', MIB, 16 * MIB, 1, 2, 1, 3, True)
    read = write._replace(operation='read', repetitions=1)
    rows = mdtest_output.metrics_of('easy_unique', 'File', mdtest_output.OPERATIONS['File'])
    for version in ('3.3.0', '4.0.0'):
        for asked in (write, read):
            easy = [ior_output.metric_of(False, {})]
            yield target(f'ior-{version}-json-{asked.operation}', easy, given(ior_output.faults_of, asked))
        yield target(f'mdtest-{version}-files-unique', rows[:1], given(mdtest_output.faults_of, 2, 1, 400, 3))
    yield target('mdtest-4.1.0-nfs', rows[:1], given(mdtest_output.faults_of, 128, 1, 16384, 10))
    for pattern in ('write', 'randread'):
        faults = lambda text: fio.LocalDisk.sanity_faults(None, run_of(text))  # noqa: E731
        yield target(f'fio-3.33-{pattern}', fio.metrics_of(pattern), faults)
    for model in ('cuda', 'hip'):
        metrics_of_model = [
            scope.reading(Metric(name, unit, better), benchmark)
            for name, unit, better, benchmark in (
                ('launch', 'us', 'lower', scope.name_of(model, 'launch', 0, 1)),
                ('wait', 'us', 'lower', scope.name_of(model, 'wait', 0, 1)),
                ('latency', 'us', 'lower', scope.name_of(model, 'd2d', 0, 0, 2**8, 1)),
                ('bandwidth', 'GB/s', 'higher', scope.name_of(model, 'd2d', 0, 0, 2**30, 1)),
            )
        ]
        recorded = target(f'comm_scope-0.12.0-{model}', metrics_of_model)
        names = [entry['run_name'] for entry in json.loads(recorded.text)['benchmarks']]
        yield recorded._replace(faults=given(scope.faults_of, names))


# Mutations


def cut(draw: random.Random, text: str) -> str:
    return text[: draw.randrange(len(text))]


def cut_and_ended(draw: random.Random, text: str) -> str:
    return cut(draw, text).rstrip('0123456789') + '\n'


def lines_lost(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(min(len(lines), draw.randint(1, 5))):
        lines.pop(draw.randrange(len(lines)))
    return ''.join(lines)


def lines_repeated(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    first = draw.randrange(len(lines))
    last = first + draw.randint(1, 20)
    return ''.join(lines[:last] + lines[first:])


def lines_moved(draw: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    line = lines.pop(draw.randrange(len(lines)))
    lines.insert(draw.randrange(len(lines)), line)
    return ''.join(lines)


def doubled(draw: random.Random, text: str) -> str:
    return text * draw.randint(2, 3)


def interleaved(draw: random.Random, text: str) -> str:
    """Return the text as if two programs wrote their lines into one file."""
    first, second, lines = text.splitlines(keepends=True), text.splitlines(keepends=True), []
    while first or second:
        lines.append((first if first and (not second or draw.random() < 0.5) else second).pop(0))
    return ''.join(lines)


def coloured(draw: random.Random, text: str) -> str:
    for code in ('\x1b[1;32m', '\x1b[0m', '\x1b[K', '\x1b]0;title\x07'):
        at = draw.randrange(len(text))
        text = text[:at] + code + text[at:]
    return text


def other_word(draw: random.Random, text: str) -> str:
    """Return the text with one number replaced by a word, a number that only Python reads, or a huge number."""
    number = draw.choice(list(re.finditer(r'[0-9][0-9.e+-]*', text)))
    return text[: number.start()] + draw.choice(WORDS) + text[number.end() :]


def binary(draw: random.Random, text: str) -> str:
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(('\x00', '\ufffd', '\x07', '\x0c', '\u2028')) * draw.randint(1, 5) + text[at:]
    return text


def noisy(draw: random.Random, text: str) -> str:
    """Return the text with a line of another program, also in the middle of a line."""
    at = draw.randrange(len(text))
    line = draw.choice(('libibverbs: Warning: no userspace device', '[n1:42] 1 more process has sent help', '{'))
    return f'{text[:at]}{line}\n{text[at:]}'


MUTATIONS = (
    cut, cut_and_ended, lines_lost, lines_repeated, lines_moved, doubled, interleaved, coloured, other_word,
    binary, noisy,
)  # fmt: skip

# SPDX-License-Identifier: BSD-3-Clause
"""No mutated output of a real benchmark passes with other numbers, and none raises an error.

Each recorded output is cut, doubled and interleaved with itself, loses or repeats lines, and gets colours, words for
numbers, huge numbers and bytes that are no text. Then it is read as a case is: it passes if all metrics of its check
have a value and its check finds no fault. The values must then be those of the original.

Not among the mutations: other or fewer digits within one line, where nothing else in the output contradicts them.
"""

import json
import random
import re
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scratch import OUTPUTS

from checks.compute import fft, hpcc, hpl_mxp, openssl
from checks.compute import hpcg_output as hpcg
from checks.compute import hpl_output as hpl
from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import plain
from checks.gpu import clpeak, copies
from checks.gpu import comm_scope_output as scope
from checks.gpu import xccl_output as xccl
from checks.memory import babelstream_output, likwid
from checks.memory.cache_latency import LATENCY
from checks.mpi import osu_output as osu
from checks.storage import fio, ior_output, mdtest_output

MIB = 2**20
WORDS = (
    '1_000', 'nan', '-1', '0', 'fast', '', '\uff11\uff12', '\u0663', '1,5', '1e999', '1' * 50_000, '0x1F', '+',
    '1.2.3', '\xbd',
)  # fmt: skip


class Target(NamedTuple):
    """A recorded output, the metrics of its check and the function that finds its faults."""

    name: str
    text: str
    metrics: list
    faults: object

    def outcome(self, text):
        """Return the values of a case that passes; None where a fault or a missing metric fails it."""
        text, values = plain(text), {}
        for metric in self.metrics:
            reading = metric.reading_of(text)
            if reading.missing or reading.faults:
                return None
            values |= {(metric.name, str(point)): value for point, value in reading.values.items()}
        return None if self.faults(text) else values


def targets():
    """Yield every recorded output of a complete run."""

    def target(file, metrics, faults_of=lambda text: [], *asked):
        text = (OUTPUTS / f'{file}.txt').read_text(encoding='utf-8', errors='replace')
        return Target(file, text, metrics, lambda text: faults_of(text, *asked))

    yield target('hpcc-1.5.0', hpcc.METRICS, hpcc.faults_of, 10176)
    eight = tuple((n, nb, 1, 2) for n in (2304, 4608) for nb in (96, 192) for _ in range(2))
    for file, solved in (
        ('2.3', ((2000, 192, 1, 2),)), ('2.3-eight-configurations', eight), ('intel-2019', ((204288, 384, 2, 2),)),
    ):  # fmt: skip
        yield target(f'hpl-{file}', hpl.metrics_of(solved, 1, None), hpl.faults_of, solved)
    for file, *asked in (('3.1', 2, 1), ('3.1-threads', 1, 2), ('3.0', 2, 1)):
        yield target(f'hpcg-{file}', hpcg.metrics_of(1, None), hpcg.faults_of, (32, 32, 32), *asked)
    flops, triad = likwid.flop_metrics('run', {}, None), likwid.bandwidth_metrics('triad', None)
    yield target('likwid-bench-peakflops_avx512_fma', flops, likwid.faults_of, (0,))
    yield target('likwid-bench-triad_avx512_fma', triad, likwid.faults_of, (0, 1))
    yield target('multichase-20250815', [Metric('latency', 'ns', 'lower', LATENCY)])
    for file, times in (('5.0-omp', 10), ('5.0-omp-100', 100), ('5.0-ocl', 15), ('6.0rc-omp', 100)):
        yield target(
            f'babelstream-{file}', [babelstream_output.bandwidth()], babelstream_output.faults_of, 2**25, times
        )
    yield target('openssl-3.0.19-speed', [openssl.hash_rate(1024, 'block_1024')])
    for program in osu.PROGRAMS:
        asked = program, osu.sizes_of(program)
        file = f'{program}-7.4' + '-all-sizes' * (program == 'osu_latency')
        yield target(file, osu.metrics_of(*asked), osu.faults_of, *asked)
    for test in ('bandwidth', 'single', 'transfer', 'launch'):
        yield target(f'clpeak-1.1.2-{test}', clpeak.metrics_of(test)[:1], clpeak.faults_of, 0)
    for file, ranks, powers in (
        ('rccl-tests-all_reduce-8-ranks', 8, range(3, 34)), ('rccl-tests-all_reduce-16-ranks', 16, range(3, 35)),
        ('nccl-tests-2.18.3-16-ranks', 16, range(10, 35)),
    ):  # fmt: skip
        asked = 'all_reduce', [2**power for power in powers], ranks
        yield target(file, xccl.metrics_of(*asked), xccl.faults_of, *asked)
    yield target('heffte-2.4.1-stock', fft.Fft.metrics, fft.faults_of, 'stock', (64, 64, 256), 2)
    yield target('hpl-mxp-nvidia', hpl_mxp.HplMxp.metrics, hpl_mxp.faults_of, 258048, hpl_mxp.BLOCK, (4, 2))
    rate = Metric('bandwidth', 'GB/s', 'higher', copies.rates_of, {}, {'transfer': ['d0-g0']})
    yield target('transferbench-host-to-gpu', [rate], copies.faults_of, 1, 1024)
    write = {
        'operation': 'write', 'API': 'POSIX', 'transferSize': MIB, 'blockSize': 16 * MIB, 'segmentCount': 1,
        'numTasks': 2, 'nodes': 1, 'repetitions': 3, 'filePerProc': True, 'reorderTasks': True,
    }  # fmt: skip
    read = write | {'operation': 'read', 'repetitions': 1}
    rows = mdtest_output.metrics_of('easy_unique', 'File', mdtest_output.OPERATIONS['File'])
    for version in ('3.3.0', '4.0.0'):
        for asked in (write, read):
            easy = [ior_output.metric_of(False, {})]
            yield target(f'ior-{version}-json-{asked["operation"]}', easy, ior_output.faults_of, asked)
        yield target(f'mdtest-{version}-files-unique', rows[:1], mdtest_output.faults_of, 2, 1, 400, 3)
    yield target('mdtest-4.1.0-nfs', rows[:1], mdtest_output.faults_of, 128, 1, 16384, 10)
    for pattern in ('write', 'randread'):
        yield target(f'fio-3.33-{pattern}', fio.metrics_of(pattern), fio.faults_of)
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
        file = f'comm_scope-0.12.0-{model}'
        names = [entry['run_name'] for entry in json.loads((OUTPUTS / f'{file}.txt').read_text())['benchmarks']]
        yield target(file, metrics_of_model, scope.faults_of, names)


# Mutations


def cut(draw, text):
    """Return the text up to some place, or up to there with its last line ended."""
    part = text[: draw.randrange(len(text))]
    return draw.choice((part, part.rstrip('0123456789') + '\n'))


def lines_lost(draw, text):
    lines = text.splitlines(keepends=True)
    for _ in range(min(len(lines), draw.randint(1, 5))):
        lines.pop(draw.randrange(len(lines)))
    return ''.join(lines)


def lines_repeated(draw, text):
    lines = text.splitlines(keepends=True)
    first = draw.randrange(len(lines))
    last = first + draw.randint(1, 20)
    return ''.join(lines[:last] + lines[first:])


def lines_moved(draw, text):
    lines = text.splitlines(keepends=True)
    line = lines.pop(draw.randrange(len(lines)))
    lines.insert(draw.randrange(len(lines)), line)
    return ''.join(lines)


def doubled(draw, text):
    return text * draw.randint(2, 3)


def interleaved(draw, text):
    """Return the text as if two programs wrote their lines into one file."""
    first, second, lines = text.splitlines(keepends=True), text.splitlines(keepends=True), []
    while first or second:
        lines.append((first if first and (not second or draw.random() < 0.5) else second).pop(0))
    return ''.join(lines)


def other_word(draw, text):
    """Return the text with one number replaced by a word, a number that only Python reads, or a huge number."""
    number = draw.choice(list(re.finditer(r'[0-9][0-9.e+-]*', text)))
    return text[: number.start()] + draw.choice(WORDS) + text[number.end() :]


def binary(draw, text):
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice(('\x00', '\ufffd', '\x07', '\x0c', '\u2028')) * draw.randint(1, 5) + text[at:]
    return text


def noisy(draw, text):
    """Return the text with a line of another program, also in the middle of a line."""
    at = draw.randrange(len(text))
    line = draw.choice(('libibverbs: Warning: no userspace device', '[n1:42] 1 more process has sent help', '{'))
    return f'{text[:at]}{line}\n{text[at:]}'


MUTATIONS = (cut, lines_lost, lines_repeated, lines_moved, doubled, interleaved, other_word, binary, noisy)
TARGETS = [*targets()]


def test_every_recorded_output_of_a_whole_run_passes_unchanged_and_in_colours():
    assert len(TARGETS) > 30
    for target in TARGETS:
        values = target.outcome(target.text)
        assert values and len(values) >= len(target.metrics), target.name
        coloured = ''.join(f'\x1b[1;32m{line}\x1b[0m\x1b[K\r\n' for line in target.text.splitlines())
        assert target.outcome(coloured) == values, target.name


@given(st.sampled_from(TARGETS), st.sampled_from(MUTATIONS), st.integers(0, 2**32))
@settings(max_examples=300)
def test_a_mutated_output_gives_the_same_numbers_or_fails(target, mutation, seed):
    values = target.outcome(mutation(random.Random(seed), target.text))
    assert values is None or values == pytest.approx(target.outcome(target.text), rel=1e-9)

# SPDX-License-Identifier: BSD-3-Clause
"""What the OSU Micro-Benchmarks really printed, and what of a broken output is still a number."""

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reading import value_of
from reading import values_of as values_at
from rows import each_row
from scratch import OUTPUTS

from checks.core.reading.metrics import NotMeasured
from checks.core.topology import Topology
from checks.mpi.osu import OsuLatency, options_of, pairs
from checks.mpi.osu_devices import device_errors_of, is_staged
from checks.mpi.osu_output import (
    LARGEST_BUFFER,
    PROGRAMS,
    errors_of,
    faults_of,
    metrics_of,
    sizes_of,
    time_of,
    version_of,
)

FILES = {program: f'{program}-7.4.txt' for program in PROGRAMS} | {'osu_latency': 'osu_latency-7.4-all-sizes.txt'}
TEXTS = {program: (OUTPUTS / name).read_text(encoding='utf-8') for program, name in FILES.items()}


def values_of(text, program, sizes=None):
    sizes = sizes_of(program) if sizes is None else sizes
    return {
        f'{metric.name}_{at}'.removesuffix('_'): value
        for metric in metrics_of(program, sizes)
        for at, value in values_at(metric, text).items()
    }


def outcome(text, program):
    """The values of a case that passes; None where a fault or an unmeasured metric fails it."""
    try:
        measured = values_of(text, program)
    except NotMeasured:
        return None
    return None if faults_of(text, program, sizes_of(program)) else measured


@each_row('program', PROGRAMS)
def test_every_number_of_a_recorded_program_is_read(recorded, program):
    output, sizes = recorded(FILES[program]), sizes_of(program)
    assert faults_of(output, program, sizes) == []
    rows = [[float(word) for word in line.split()] for line in output.splitlines() if re.match(' *[0-9]', line)]
    asked = [row[1:] for row in rows if row[0] in sizes] if sizes else rows
    assert len(asked) == max(1, len(sizes))
    curves = [values_at(metric, output).values() for metric in metrics_of(program, sizes)]
    assert [list(row) for row in zip(*curves, strict=True)] == asked


@each_row('program', PROGRAMS)
def test_no_row_and_no_line_that_counts_can_be_lost(program):
    lines = TEXTS[program].splitlines(keepends=True)
    asked = outcome(TEXTS[program], program)
    assert asked
    for i, line in enumerate(lines):
        rest = ''.join(lines[:i] + lines[i + 1 :])
        # a comment that some versions print, a blank line, and sizes below those that are asked
        below = line.split()[:1] in (['1'], ['2']) and PROGRAMS[program].smallest == 4
        optional = not line.strip() or line.startswith('# Datatype') or below
        assert outcome(rest, program) == (asked if optional else None), line
        twice = ''.join(lines[: i + 1] + lines[i:])
        banner_that_some_versions_print_twice = program == 'osu_mbw_mr' and i == 0
        unread = not line.strip() or below or banner_that_some_versions_print_twice
        assert outcome(twice, program) is None or unread


@each_row('program', PROGRAMS)
def test_no_output_is_that_of_another_program(program):
    for other, text in TEXTS.items():
        assert other == program or faults_of(text, program, sizes_of(program))


OF_7_1 = ('osu_latency', 'osu_bw', 'osu_put_latency', 'osu_mbw_mr', 'osu_allreduce', 'osu_barrier')


OF_MPICH = OF_5_3 = ('osu_latency', 'osu_allreduce')


@each_row(
    ('version', 'program'),
    [*itertools.product(('5.9', '6.2'), PROGRAMS), *itertools.product(('7.1',), OF_7_1),
     *itertools.product(('5.3',), OF_5_3), *itertools.product(('7.4-mpich',), OF_MPICH)],
)  # fmt: skip
def test_other_versions_and_libraries_have_other_lines_before_their_rows(recorded, version, program):
    """5.3 starts at size 0. 7.1 prints the datatype after the columns, and no column above the value of a barrier; 6.2
    and 7.1 print the banner of osu_mbw_mr twice."""
    output, sizes = recorded(f'{program}-{version}.txt'), sizes_of(program)
    assert faults_of(output, program, sizes) == []
    assert version_of(output) == version.partition('-')[0]
    last = [float(number) for number in output.splitlines()[-1].split()]
    found = values_of(output, program)
    ends = [value for name, value in found.items() if not sizes or name.endswith(f'_{sizes[-1]}')]
    assert ends == (last[1:] if sizes else last)
    if program != 'osu_mbw_mr':
        assert faults_of(output.replace('# OSU', '# OSU MPI\n# OSU', 1), program, sizes)
    elsewhere = output.replace('v7.1', 'v7.4')
    assert (faults_of(elsewhere, program, sizes) != []) is (version == '7.1' and program == 'osu_barrier')


@each_row(('name', 'latency'), [('7.4-all-sizes', 0.18), ('7.1', 0.38), ('5.3', 0.13)])
def test_what_003_publishes_is_the_latency_of_1_byte(recorded, name, latency):
    (metric,) = OsuLatency.published
    assert (metric.name, metric.unit, metric.better) == ('mpi_latency', 'us', 'lower')
    assert value_of(metric, recorded(f'osu_latency-{name}.txt')) == latency  # 5.3 also prints 0.12, of no byte at all


def test_validated_rows_count_and_a_failed_one_does_not(recorded):
    output, sizes = recorded('osu_bw-7.4-validated.txt'), [2**power for power in range(7)]
    assert faults_of(output, 'osu_bw', sizes) == []
    assert values_of(output, 'osu_bw', sizes)['bandwidth_64'] == 794.13
    failed = output.replace('44.25              Pass', '44.25              Fail')
    assert faults_of(failed, 'osu_bw', sizes) == ['validation failed for 4 bytes']
    with pytest.raises(NotMeasured, match='not in the output'):
        values_of(failed, 'osu_bw', sizes)


def test_more_columns_are_refused(recorded):
    faults = faults_of(recorded('osu_allreduce-7.4-full.txt'), 'osu_allreduce', [4, 8, 16, 32, 64])
    assert any(fault.startswith('unexpected header: # Size       Avg Latency(us)   Min') for fault in faults)


def test_sizes_that_osu_left_out_for_want_of_memory(recorded):
    output = recorded('osu_allgather-7.4-limited.txt')
    with pytest.raises(NotMeasured, match='not in the output'):
        values_of(output, 'osu_allgather')
    assert any('max message size to: 524288' in said for said in errors_of(output))


def test_the_wrong_number_of_processes_in_osus_own_words(recorded):
    (said,) = errors_of(recorded('osu_latency-7.4-one-process.txt'))
    assert 'This test requires exactly two processes' in said
    assert errors_of('UCX  WARN  something else\n') == []


@each_row('name', ['osu_init-7.4.txt', 'osu_init-5.3.txt'])
def test_milliseconds_of_osu_init_are_nothing_else(recorded, name):
    for program in PROGRAMS:
        assert faults_of(recorded(name), program, sizes_of(program))


@each_row(('program', 'right', 'wrong'), [
    ('osu_bw', 'Bandwidth (MB/s)', 'Bandwidth (GB/s)'),
    ('osu_latency', 'Avg Latency(us)', 'Avg Latency(ms)'),
    ('osu_mbw_mr', 'Messages/s', 'kMessages/s'),
    ('osu_put_latency', 'Win_flush', 'Win_fence'),
    ('osu_latency', 'OSU MPI Latency', 'OSU MPI-CUDA Latency'),
])  # fmt: skip
def test_another_unit_type_window_or_kind_of_memory_is_a_fault(program, right, wrong):
    output = TEXTS[program].replace(right, wrong)
    assert output != TEXTS[program] and outcome(output, program) is None


def test_the_pairs_are_those_of_the_ranks():
    output, sizes = TEXTS['osu_mbw_mr'], sizes_of('osu_mbw_mr')
    assert faults_of(output, 'osu_mbw_mr', sizes, 4) == ["expected one line '# [ pairs: 2 ] [ window size: 64 ]'"]
    assert faults_of(output.replace('pairs: 1 ', 'pairs: 2 '), 'osu_mbw_mr', sizes, 4) == []


# In the memory of GPUs


@each_row(('device', 'host', 'direct', 'staged'), [
    # 4 MiB between two A100 with four NVLinks: 87.5 GB/s of 100, github.com/EESSI/software-layer/pull/716
    (47.9, 350.0, 41.9, False), (350.0, 350.0, 41.9, True),
    (170.0, 160.0, 83.9, None),  # a path that is hardly faster than the host's
    # 64 KiB between nodes
    (7.0, 5.5, None, False), (21.0, 5.5, None, True), (12.0, 5.5, None, False), (130.0, 110.0, None, False),
])  # fmt: skip
def test_buffers_that_mpi_stages_through_the_host_are_recognized_by_their_times(device, host, direct, staged):
    assert is_staged(device, host, direct) is staged


def test_the_time_of_one_message():
    assert time_of('osu_latency', TEXTS['osu_latency'], 4 * 2**20) == 1914.13
    assert time_of('osu_bw', TEXTS['osu_bw'], 4 * 2**20) == pytest.approx(2**22 / 7415.51)
    assert time_of('osu_bw', TEXTS['osu_bw'], 3) is None


def on_device(program: str, gpu: str, buffers: str | None) -> str:
    """The recorded output of the host's memory with the two lines that are others for GPUs, as other people's published
    outputs of 5.6 to 7.5 have them; no run on a GPU could be recorded."""
    banner, *rows = TEXTS[program].strip().splitlines()
    line = [f'# Send Buffer on {buffers}'] if buffers else []
    return '\n'.join([banner.replace('MPI', f'MPI-{gpu}', 1), *line, *rows])


@each_row('gpu', ['cuda', 'rocm'])
@each_row(('buffers', 'line'), [
    (('D', 'D'), None),
    (('D', 'D'), 'DEVICE (D) and Receive Buffer on DEVICE (D)'),
    (('H', 'D'), 'HOST (H) and Receive Buffer on DEVICE (D)'),
    (('MD', 'MD'), 'MANAGED (MD) and Receive Buffer on MANAGED (MD)'),
    (('MD', 'MD'), 'MANAGED (M) and Receive Buffer on MANAGED (M)'),
])  # fmt: skip
def test_device_buffers_are_those_that_were_asked(gpu, buffers, line):
    output, run = on_device('osu_bw', gpu.upper(), line), ('osu_bw', sizes_of('osu_bw'))
    assert faults_of(output, *run, 2, gpu, buffers) == []
    (fault,) = faults_of(output, *run, 2, 'rocm' if gpu == 'cuda' else 'cuda', buffers)
    assert fault.startswith(f'unexpected banner: # OSU MPI-{gpu.upper()}')
    assert faults_of(output, *run)  # no run in the memory of the host
    assert faults_of(TEXTS['osu_bw'], *run, 2, gpu, buffers)
    if line:
        other = ('D', 'H') if buffers[0] == 'D' else ('D', 'D')
        (fault,) = faults_of(output, *run, 2, gpu, other)
        assert fault == f'unexpected line of buffers: # Send Buffer on {line}'


@each_row(('gpu', 'banner'), [('cuda', 'OSU NCCL-CUDA Allreduce'), ('rocm', 'OSU RCCL-ROCM Allreduce')])
def test_programs_of_nccl_and_rccl_say_so_in_their_banner(recorded, gpu, banner):
    output = recorded('osu_allreduce-7.4.txt')
    sizes = sizes_of('osu_xccl_allreduce')
    assert sizes == sizes_of('osu_allreduce')
    assert faults_of(output.replace('OSU MPI Allreduce', banner), 'osu_xccl_allreduce', sizes, 2, gpu) == []
    assert faults_of(output, 'osu_xccl_allreduce', sizes, 2, gpu) != []


SUPPORT = 'the MPI library does not seem to support device buffers'
GTL = 'the program is not linked with GTL, the library of Cray MPICH for GPUs: see `ldd`, and docs/stacks.md'
BUILT = 'the programs were built without support for such buffers'


@each_row(('errors', 'cause'), [
    ((OUTPUTS / 'osu_latency-7.4-no-devices.txt').read_text(), BUILT),  # Invalid option [-d]
    ('[n1:42] *** Process received signal ***\n[n1:42] Signal: Segmentation fault (11)\n', SUPPORT),
    ('Memory access fault by GPU node-4 (Agent handle: 0x1) on address 0x7f.\n', SUPPORT),
    ('MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked\n', GTL),
    ('UCX  WARN  transport gdr_copy is not available\n', None),
])  # fmt: skip
def test_why_there_are_no_device_buffers(errors, cause):
    found = device_errors_of(errors)
    assert (len(found) == 1 and found[0].startswith(f'{cause}: ')) if cause else found == []


programs = st.sampled_from(list(PROGRAMS))


@given(programs, st.data())
@settings(max_examples=300)
def test_a_character_of_a_number_that_is_lost_added_or_no_digit_fails(program, data):
    text = TEXTS[program]
    smallest = max(PROGRAMS[program].smallest, 1)
    rows = [row for row in re.finditer(r'^([0-9]*) +.*[0-9]$', text, re.MULTILINE) if int(row[1] or 1) >= smallest]
    row = data.draw(st.sampled_from(rows))
    number = data.draw(st.sampled_from(list(re.finditer(r'[0-9]+\.[0-9]{2}', row[0]))))
    at = row.start() + data.draw(st.integers(number.start(), number.end() - 1))
    sign = data.draw(st.sampled_from(['', ',', '_', 'x', ' ', '٣', '½', '*', '-', '\n', '\x00', '55', '7.', 'nan']))
    assume(sign != ' ' or at > row.start() + number.start())  # a blank there leaves a number like any other
    # a barrier has one row, so that nothing shows a lost or added digit
    assert outcome(text[:at] + sign + text[at + 1 :], program) is None or program == 'osu_barrier'


@given(programs, st.integers(2, 2**20))
def test_sizes_fit_into_memory_whatever_the_ranks(program, ranks):
    sizes = sizes_of(program, ranks)
    assert sizes == sorted(set(sizes)) and all(size & (size - 1) == 0 for size in sizes)
    if PROGRAMS[program].buffers:
        assert sizes and sizes[-1] * ranks <= LARGEST_BUFFER
    assert options_of(program, sizes)[:2] == (['-m', f'1:{sizes[-1]}'] if sizes else [])


def node(cores, domains, sockets, nodes=1):
    def split(count):
        return tuple(frozenset(range(cores * i // count, cores * (i + 1) // count)) for i in range(count))

    cpus = tuple((core,) for core in range(cores))
    return Topology(cpus, split(domains), split(sockets), (), '', None, nodes_of_partition=nodes)


@each_row(('topology', 'expected'), [
    (node(1, 1, 1), {}),
    (node(68, 1, 1), {'same_numa': (0, 1), 'first_last': (0, 67)}),
    (node(48, 2, 2), {'same_numa': (0, 1), 'different_socket': (0, 24)}),
    (node(64, 4, 1), {'same_numa': (0, 1), 'same_socket': (0, 16), 'first_last': (0, 63)}),
    (node(128, 8, 2), {'same_numa': (0, 1), 'same_socket': (0, 16), 'different_socket': (0, 64)}),
    (node(1, 1, 1, nodes=2), {'two_nodes': (0,)}),
    # a domain of memory alone, and hardware threads of one core
    (replace(node(4, 1, 1), numa_domains=(frozenset(range(4)), frozenset())),
     {'same_numa': (0, 1), 'first_last': (0, 3)}),
    (replace(node(4, 1, 1), cores=((0, 2), (1, 3))), {'same_numa': (0, 1)}),
])  # fmt: skip
def test_pairs_are_those_that_a_node_has(topology, expected):
    assert pairs(topology) == expected

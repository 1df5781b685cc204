# SPDX-License-Identifier: BSD-3-Clause
"""What the OSU Micro-Benchmarks really printed, and what of a broken output is still a number."""

import itertools
import math
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reading import value_of
from reading import values_of as values_at
from rows import each_row
from scratch import OUTPUTS

from checks.core.placement import one_rank_each
from checks.core.reading.trials import NotMeasured
from checks.core.topology import Topology, pairs
from checks.mpi.osu_output import (
    LARGEST_BUFFER,
    PROGRAMS,
    device_errors_of,
    errors_of,
    faults_of,
    judged_sizes,
    metrics_of,
    options_of,
    published_latency,
    sizes_of,
    time_of,
    version_of,
)

FILES = {program: f'{program}-7.4.txt' for program in PROGRAMS} | {'osu_latency': 'osu_latency-7.4-all-sizes.txt'}
TEXTS = {program: (OUTPUTS / name).read_text(encoding='utf-8') for program, name in FILES.items()}
# Printed by 7.4 on this project's machine: first and last row of each output
ENDS = {
    'osu_latency': {'latency_1': 0.18, 'latency_4194304': 1914.13},
    'osu_bw': {'bandwidth_1': 13.12, 'bandwidth_4194304': 7415.51},
    'osu_bibw': {'bidirectional_bandwidth_1': 19.07, 'bidirectional_bandwidth_4194304': 8285.5},
    'osu_put_latency': {'put_latency_1': 0.09, 'put_latency_4194304': 1268.35},
    'osu_get_latency': {'get_latency_1': 0.09, 'get_latency_4194304': 209.53},
    'osu_put_bw': {'put_bandwidth_1': 34.65, 'put_bandwidth_4194304': 2431.29},
    'osu_get_bw': {'get_bandwidth_1': 32.23, 'get_bandwidth_4194304': 8746.18},
    'osu_multi_lat': {'multi_latency_1': 0.2, 'multi_latency_4194304': 977.77},
    'osu_mbw_mr': {
        'multi_bandwidth_1': 8.28,
        'message_rate_1': 8279634.3,
        'multi_bandwidth_4194304': 12337.15,
        'message_rate_4194304': 2941.41,
    },
    'osu_allreduce': {'allreduce_4': 0.48, 'allreduce_1048576': 154.12},
    'osu_reduce': {'reduce_4': 0.33, 'reduce_1048576': 93.13},
    'osu_reduce_scatter': {'reduce_scatter_4': 0.24, 'reduce_scatter_1048576': 93.82},
    'osu_alltoall': {'alltoall_1': 0.26, 'alltoall_1048576': 405.46},
    'osu_allgather': {'allgather_1': 0.2, 'allgather_1048576': 296.39},
    'osu_bcast': {'bcast_1': 0.17, 'bcast_1048576': 351.78},
    'osu_barrier': {'barrier': 0.45},
}


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


# Recorded outputs


def test_the_whole_curve_of_a_recorded_latency(recorded):
    output = recorded(FILES['osu_latency'])
    measured = values_of(output, 'osu_latency')
    rows = [line.split() for line in output.splitlines() if line[:1].isdigit()]
    assert len(measured) == len(rows) == 23
    assert list(measured.items()) == [(f'latency_{size}', float(value)) for size, value in rows]
    assert version_of(output) == '7.4'


@each_row('program', PROGRAMS)
def test_every_recorded_program_has_no_fault(recorded, program):
    output = recorded(FILES[program])
    sizes = sizes_of(program)
    assert faults_of(output, program, sizes) == []
    measured = values_of(output, program)
    assert len(measured) == len(PROGRAMS[program].metrics) * max(1, len(sizes))
    assert {name: measured[name] for name in ENDS[program]} == ENDS[program]


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
        assert outcome(twice, program) is None or not line.strip() or banner_that_some_versions_print_twice


@each_row('program', PROGRAMS)
def test_no_output_is_that_of_another_program(program):
    for other, text in TEXTS.items():
        assert other == program or faults_of(text, program, sizes_of(program))


def test_version_5_3_starts_at_size_0_and_has_other_headers(recorded):
    output = recorded('osu_latency-5.3.txt')
    assert faults_of(output, 'osu_latency', sizes_of('osu_latency')) == []
    assert values_of(output, 'osu_latency')['latency_4194304'] == 370.86
    output = recorded('osu_allreduce-5.3.txt')
    assert faults_of(output, 'osu_allreduce', sizes_of('osu_allreduce')) == []
    assert values_of(output, 'osu_allreduce')['allreduce_4'] == 0.45
    assert version_of(output) == '5.3'


OF_7_1 = ('osu_latency', 'osu_bw', 'osu_put_latency', 'osu_mbw_mr', 'osu_allreduce', 'osu_barrier')


@each_row(
    ('version', 'program'),
    [*itertools.product(('5.9', '6.2'), PROGRAMS), *itertools.product(('7.1',), OF_7_1)],
)
def test_versions_5_9_6_2_and_7_1_have_other_lines_before_their_rows(recorded, version, program):
    """7.1 prints the datatype after the columns, and no column above the value of a barrier; 6.2 and 7.1 print the
    banner of osu_mbw_mr twice."""
    output, sizes = recorded(f'{program}-{version}.txt'), sizes_of(program)
    assert faults_of(output, program, sizes) == []
    assert version_of(output) == version
    last = [float(number) for number in output.splitlines()[-1].split()]
    expected = last[1:] if sizes else last
    found = values_of(output, program)
    assert [value for name, value in found.items() if not sizes or name.endswith(f'_{sizes[-1]}')] == expected
    if program != 'osu_mbw_mr':
        assert faults_of(output.replace('# OSU', '# OSU MPI\n# OSU', 1), program, sizes)
    elsewhere = output.replace('v7.1', 'v7.4')
    assert (faults_of(elsewhere, program, sizes) != []) is (version == '7.1' and program == 'osu_barrier')


@each_row('program', ['osu_latency', 'osu_allreduce'])
def test_another_mpi_library(recorded, program):
    output, sizes = recorded(f'{program}-7.4-mpich.txt'), sizes_of(program)
    assert faults_of(output, program, sizes) == []
    assert len(values_of(output, program)) == len(sizes)


def test_what_003_publishes_is_the_latency_of_the_smallest_message_of_7_1(recorded):
    metric = published_latency()
    assert (metric.name, metric.unit, metric.better) == ('mpi_latency', 'us', 'lower')
    assert (
        value_of(metric, recorded(FILES['osu_latency'])) == values_of(TEXTS['osu_latency'], 'osu_latency')['latency_1']
    )
    assert value_of(metric, recorded('osu_latency-7.1.txt')) == 0.38
    assert value_of(metric, recorded('osu_latency-5.3.txt')) == 0.13  # not the 0.12 of no byte at all


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
    assert 'expected a row for each of 1 to 1048576 bytes: 1048576 bytes 0 times' in faults_of(
        output, 'osu_allgather', sizes_of('osu_allgather')
    )
    assert errors_of(output) == [
        'OSU says: Requested memory limit too low', 'OSU says: Limiting max message size to: 524288',
    ]  # fmt: skip


def test_the_wrong_number_of_processes_in_osus_own_words(recorded):
    assert errors_of(recorded('osu_latency-7.4-one-process.txt')) == [
        'OSU says: This test requires exactly two processes'
    ]
    assert errors_of('UCX  WARN  something else\n') == []


@each_row('name', ['osu_init-7.4.txt', 'osu_init-5.3.txt'])
def test_milliseconds_of_osu_init_are_nothing_else(recorded, name):
    for program in PROGRAMS:
        assert faults_of(recorded(name), program, sizes_of(program))


@each_row(('program', 'right', 'wrong'), [
    ('osu_bw', 'Bandwidth (MB/s)', 'Bandwidth (GB/s)'),
    ('osu_latency', 'Avg Latency(us)', 'Avg Latency(ms)'),
    ('osu_barrier', 'Avg Latency(us)', 'Avg Latency(ms)'),
    ('osu_mbw_mr', 'Messages/s', 'kMessages/s'),
    ('osu_allreduce', 'MPI_CHAR', 'MPI_FLOAT'),
    ('osu_put_latency', 'Win_flush', 'Win_fence'),
    ('osu_put_latency', 'MPI_Win_allocate', 'MPI_Win_create'),
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
    (47.9, 350.0, 41.9, False), (350.0, 350.0, 41.9, True), (900.0, 350.0, 41.9, True),
    (170.0, 160.0, 83.9, None),  # a path that is hardly faster than the host's
    (900.0, 350.0, math.inf, None),  # a path without a known peak
    # 64 KiB between nodes
    (7.0, 5.5, None, False), (21.0, 5.5, None, True), (12.0, 5.5, None, False), (130.0, 110.0, None, False),
])  # fmt: skip
def test_buffers_that_mpi_stages_through_the_host_are_recognized_by_their_times(device, host, direct, staged):
    from checks.mpi.osu_devices import is_staged  # here, after ReFrame's runtime is up

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
@each_row('program', ['osu_latency', 'osu_bw', 'osu_bibw'])
@each_row(('buffers', 'line'), [
    (('D', 'D'), None),
    (('D', 'D'), 'DEVICE (D) and Receive Buffer on DEVICE (D)'),
    (('H', 'D'), 'HOST (H) and Receive Buffer on DEVICE (D)'),
    (('MD', 'MD'), 'MANAGED (MD) and Receive Buffer on MANAGED (MD)'),
    (('MD', 'MD'), 'MANAGED (M) and Receive Buffer on MANAGED (M)'),
])  # fmt: skip
def test_device_buffers_are_those_that_were_asked(gpu, program, buffers, line):
    output, sizes = on_device(program, gpu.upper(), line), sizes_of(program)
    assert faults_of(output, program, sizes, 2, gpu, buffers) == []
    (fault,) = faults_of(output, program, sizes, 2, 'rocm' if gpu == 'cuda' else 'cuda', buffers)
    assert fault.startswith(f'unexpected banner: # OSU MPI-{gpu.upper()}')
    assert faults_of(output, program, sizes)  # no run in the memory of the host
    assert faults_of(TEXTS[program], program, sizes, 2, gpu, buffers)
    if line:
        other = ('D', 'H') if buffers[0] == 'D' else ('D', 'D')
        (fault,) = faults_of(output, program, sizes, 2, gpu, other)
        assert fault == f'unexpected line of buffers: # Send Buffer on {line}'


@each_row(('gpu', 'banner'), [('cuda', 'OSU NCCL-CUDA Allreduce'), ('rocm', 'OSU RCCL-ROCM Allreduce')])
def test_programs_of_nccl_and_rccl_say_so_in_their_banner(recorded, gpu, banner):
    output = recorded('osu_allreduce-7.4.txt')
    sizes = sizes_of('osu_xccl_allreduce')
    assert sizes == sizes_of('osu_allreduce')
    assert faults_of(output.replace('OSU MPI Allreduce', banner), 'osu_xccl_allreduce', sizes, 2, gpu) == []
    assert faults_of(output, 'osu_xccl_allreduce', sizes, 2, gpu) != []


def test_each_pair_of_devices_has_metrics_and_a_run_of_its_own():
    metrics = [
        metric
        for pair in ('0-1', '1-0')
        for metric in metrics_of('osu_latency', sizes_of('osu_latency'), f'osu_latency {pair}', pair=pair)
    ]
    assert [metric.run for metric in metrics] == ['osu_latency 0-1', 'osu_latency 1-0']
    assert values_at(metrics[0], TEXTS['osu_latency'])['1 0-1'] == 0.18


SUPPORT = 'the MPI library does not seem to support device buffers'
GTL = 'the program is not linked with GTL, the library of Cray MPICH for GPUs: see `ldd`, and docs/stacks.md'
BUILT = 'the programs were built without support for such buffers'


def test_programs_without_device_buffers(recorded):
    assert device_errors_of(recorded('osu_latency-7.4-no-devices.txt')) == [f'{BUILT}: Invalid option [-d]']


@each_row(('errors', 'cause'), [
    ('[n1:42] *** Process received signal ***\n[n1:42] Signal: Segmentation fault (11)\n', SUPPORT),
    ('srun: error: n1: task 0: Segmentation fault (core dumped)\n', SUPPORT),
    ('=   EXIT CODE: 139\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n', SUPPORT),
    ('Caught signal 11 (Segmentation fault: invalid permissions for mapped object at address 0x7f)\n', SUPPORT),
    ('Read -1, expected 8192, errno = 14 (Bad address)\n', SUPPORT),
    ('Memory access fault by GPU node-4 (Agent handle: 0x1) on address 0x7f.\n', SUPPORT),
    ('MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked\n', GTL),
    ('CUDA support not enabled.  Please recompile benchmark with CUDA support.\n', BUILT),
    ('ROCm Support Not Enabled\nPlease recompile benchmark with ROCm support [-d rocm]\n', BUILT),
    ('UCX  WARN  transport gdr_copy is not available\n', None),
    ('', None),
])  # fmt: skip
def test_why_there_are_no_device_buffers(errors, cause):
    found = device_errors_of(errors)
    assert (len(found) == 1 and found[0].startswith(f'{cause}: ')) if cause else found == []


# Broken outputs

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


def test_a_time_of_zero_is_no_measurement():
    number = re.search(r'(?<=^8 ) +([0-9.]+)', TEXTS['osu_latency'], re.MULTILINE)[1]
    zero = re.sub(rf'(?m)^(8 +){re.escape(number)}$', r'\g<1>0.00', TEXTS['osu_latency'])
    with pytest.raises(NotMeasured, match='above zero'):
        values_of(zero, 'osu_latency')


# Sizes and options


@given(programs, st.integers(2, 2**20))
def test_sizes_fit_into_memory_whatever_the_ranks(program, ranks):
    sizes = sizes_of(program, ranks)
    assert sizes == sorted(set(sizes)) and all(size & (size - 1) == 0 for size in sizes)
    if PROGRAMS[program].buffers:
        assert sizes and sizes[-1] * ranks <= LARGEST_BUFFER
    assert options_of(program, sizes)[:2] == (['-m', f'1:{sizes[-1]}'] if sizes else [])


@each_row(('program', 'judged'), [
    ('osu_latency', [1, 2, 4, 8]), ('osu_put_latency', [1, 2, 4, 8]), ('osu_multi_lat', [1, 2, 4, 8]),
    ('osu_bw', [2**22]), ('osu_bibw', [2**22]), ('osu_get_bw', [2**22]),
    ('osu_alltoall', [1, 2, 4, 8, 2**20]), ('osu_allreduce', [4, 8, 2**20]), ('osu_mbw_mr', [2**22]),
])  # fmt: skip
def test_few_sizes_of_a_curve_are_judged(program, judged):
    what = PROGRAMS[program].metrics[0]
    metrics = {
        f'{metric.name}_{dict(point)["message_bytes"]}': metric.is_judged(point)
        for metric in metrics_of(program, sizes_of(program))
        for point in metric.points()
    }
    assert [size for size in sizes_of(program) if metrics[f'{what}_{size}']] == judged
    assert judged_sizes('osu_mbw_mr', 'message_rate', [1, 8, 16]) == [1, 8]
    assert published_latency().judged and metrics_of('osu_barrier', [])[0].is_judged(())


def test_metrics_have_names_of_their_own():
    names = [metric.name for program in PROGRAMS for metric in metrics_of(program, sizes_of(program))]
    assert len(names) == len(set(names))
    assert {'latency', 'bandwidth', 'message_rate', 'allreduce', 'barrier'} <= set(names)


# Where ranks are


def node(cores, domains, sockets, nodes=1):
    cpus = tuple((core,) for core in range(cores))

    def split(count):
        return tuple(frozenset(range(cores * i // count, cores * (i + 1) // count)) for i in range(count))

    return Topology(cpus, split(domains), split(sockets), (), '', None, nodes_of_partition=nodes)


@each_row(('topology', 'expected'), [
    (node(1, 1, 1), {}),
    (node(2, 1, 1), {'same_numa': (0, 1)}),
    (node(68, 1, 1), {'same_numa': (0, 1), 'first_last': (0, 67)}),
    (node(48, 2, 2), {'same_numa': (0, 1), 'different_socket': (0, 24)}),
    (node(2, 2, 2), {'different_socket': (0, 1)}),
    (node(64, 4, 1), {'same_numa': (0, 1), 'same_socket': (0, 16), 'first_last': (0, 63)}),
    (node(128, 8, 2), {'same_numa': (0, 1), 'same_socket': (0, 16), 'different_socket': (0, 64)}),
    (node(4, 4, 2), {'same_socket': (0, 1), 'different_socket': (0, 2)}),
    (node(1, 1, 1, nodes=2), {'two_nodes': (0,)}),
    (node(8, 1, 1, nodes=9), {'same_numa': (0, 1), 'first_last': (0, 7), 'two_nodes': (0,)}),
])  # fmt: skip
def test_pairs_are_those_that_a_node_has(topology, expected):
    assert pairs(topology) == expected


def test_a_numa_domain_without_cores_has_no_pair():
    topology = node(4, 1, 1)
    with_hbm = Topology(topology.cores, (*topology.numa_domains, frozenset()), topology.sockets, (), '', None)
    assert pairs(with_hbm) == {'same_numa': (0, 1), 'first_last': (0, 3)}


def test_hardware_threads_of_one_core_are_no_pair():
    topology = Topology(((0, 2), (1, 3)), (frozenset(range(4)),), (frozenset(range(4)),), (), '', None)
    assert pairs(topology) == {'same_numa': (0, 1)}


@each_row(('topology', 'expected'), [
    (node(1, 1, 1), {'node': (0,)}),
    (node(4, 2, 1), {'node': (0,), 'core': (0, 1, 2, 3)}),
    (node(4, 2, 2), {'node': (0,), 'socket': (0, 2), 'core': (0, 1, 2, 3)}),
    (node(2, 2, 2), {'node': (0,), 'socket': (0, 1)}),
])  # fmt: skip
def test_ranks_of_their_own(topology, expected):
    placements = one_rank_each(topology)
    assert {name: tuple(cpu for (cpu,) in placement.cpus) for name, placement in placements.items()} == expected

# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of rccl-tests and nccl-tests that others published: read, cut, changed; and what their logs say."""

import re
from types import SimpleNamespace

import pytest
from reading import run_of, values_of
from rows import each_row
from scratch import OUTPUTS

from checks.core.reading.metrics import NotMeasured
from checks.gpu import xccl_output as xccl
from checks.gpu.xccl import XcclTests


def powers(first: int, last: int) -> list[int]:
    return [2**power for power in range(first, last + 1)]


# run, recorded or published by others -> collective, ranks, sizes, and the bus bandwidth printed for the largest
RUNS = {
    'rccl-tests-all_reduce-8-ranks': ('all_reduce', 8, powers(3, 33), 315.69),
    'rccl-tests-all_reduce-16-ranks': ('all_reduce', 16, powers(3, 34), 357.46),
    'rccl-tests-alltoall-8-ranks': ('alltoall', 8, powers(7, 27), 268.26),
    'rccl-tests-rocm-7.2-16-ranks': ('all_reduce', 16, powers(10, 31), 314.17),
    'rccl-tests-mi300x-one-blank': ('all_reduce', 8, powers(3, 33), 316.55),
    'nccl-tests-all_gather-8-ranks': ('all_gather', 8, powers(7, 30), 35.88),
    'nccl-tests-alltoall-8-ranks': ('alltoall', 8, powers(5, 30), 9.36),
    'nccl-tests-2.18.3-16-ranks': ('all_reduce', 16, powers(10, 34), 485.66),
    # 10 GiB are no power of two: the next one stands for it
    'nccl-tests-2.17.6-8-ranks': ('all_reduce', 8, [2**34], 233.29),
    'nccl-tests-2.17.6-16-ranks': ('all_reduce', 16, [2**34], 222.88),
}


def text_of(run: str) -> str:
    """The output without the sizes of nothing, with which 8 ranks begin where they are asked for 4 bytes."""
    return re.sub(r'^ +0 .*\n', '', (OUTPUTS / f'{run}.txt').read_text(encoding='utf-8'), flags=re.MULTILINE)


def outcome(run: str, output: str) -> dict[str, float] | None:
    """The bus bandwidths of a case that passes; None where a fault or a missing number fails it."""
    collective, ranks, sizes, _ = RUNS[run]
    try:
        found = values_of(xccl.metrics_of(collective, sizes, ranks)[1], output)
    except NotMeasured:
        return None
    return None if xccl.faults_of(output, collective, sizes, ranks) else found


@each_row('run', RUNS)
def test_recorded_curves_are_those_that_are_printed(run):
    collective, ranks, sizes, printed = RUNS[run]
    largest = f'{collective} {sizes[-1]}'
    found = outcome(run, text_of(run))
    assert len(found) == len(sizes) and found[largest] == pytest.approx(printed, rel=1e-3)
    algorithm = values_of(xccl.metrics_of(collective, sizes, ranks)[0], text_of(run))
    assert found[largest] / algorithm[largest] == pytest.approx(xccl.FACTORS[collective](ranks))


def test_a_long_time_is_taken_from_the_printed_rate_which_has_more_digits():
    """From 10 000 000 us on, nccl-tests print two digits of a time."""
    text = ' 17179869184 4294967296 float sum -1 1.2e+07 1.41 2.64 0 1.2e+07 1.41 2.64 0\n'
    (row,) = xccl.rows_of(text)
    assert row.seconds == pytest.approx(17179869184 / 1.41e9)


def test_rows_without_the_last_lines_are_no_whole_run(recorded):
    ranks = ''.join(f'#  Rank  {rank} Group  0 Pid 1 on n1\n' for rank in range(8))
    rows, sizes = ranks + recorded('nccl-tests-sendrecv-rows.txt'), powers(27, 30)
    (fault,) = xccl.faults_of(rows, 'sendrecv', sizes, 8)
    assert 'Out of bounds values' in fault
    whole = f'{rows}# Out of bounds values : 0 OK\n'
    assert xccl.faults_of(whole, 'sendrecv', sizes, 8) == []
    (fault,) = xccl.faults_of(whole, 'all_gather', sizes, 8)
    assert 'elements of 4 of 4 sizes were not checked' in fault


@each_row(('old', 'new', 'found'), [
    ('time   algbw', 'algbw   time', 'size count type redop root algbw time busbw #wrong time algbw busbw #wrong'),
    ('root     time', 'time', 'size count type redop time algbw busbw #wrong time algbw busbw #wrong'),
    ('size         count', 'count         size', 'count size type'),
    ('(us)  (GB/s)  (GB/s)            (us)', '(ms)  (GB/s)  (GB/s)            (us)', '(B) (elements) (ms) (GB/s)'),
    ('(us)  (GB/s)  (GB/s)            (us)', '(GB/s)  (us)  (GB/s)            (us)', '(B) (elements) (GB/s) (us)'),
    ('#       size ', '# ', 'found count type redop'),
    ('#       size         count', 'rank 3: size count', 'found none'),
    ('#        (B)    (elements)', '# (B)  (elements) (GB/s)\n# (B) (elements)', '(GB/s); (B)'),
])  # fmt: skip
def test_columns_of_other_names_or_units_are_a_fault(old, new, found):
    run = 'rccl-tests-all_reduce-8-ranks'
    collective, ranks, sizes, _ = RUNS[run]
    assert old in text_of(run)
    (fault,) = xccl.faults_of(text_of(run).replace(old, new, 1), collective, sizes, ranks)
    assert fault.startswith('expected the columns ') and found in fault


def test_rows_are_known_by_their_size_in_any_order_and_none_is_lost():
    run = 'rccl-tests-all_reduce-8-ranks'
    lines = text_of(run).splitlines(keepends=True)
    at = [number for number, line in enumerate(lines) if re.match(' *[0-9]', line)]
    for number in at:
        assert outcome(run, ''.join(lines[:number] + lines[number + 1 :])) is None
    lines[at[0]], lines[at[-1]] = lines[at[-1]], lines[at[0]]
    assert outcome(run, ''.join(lines)) == outcome(run, text_of(run))


@each_row(('old', 'new', 'says'), [
    ('313.66      0', '313.66      3', '1073741824 bytes: wrong elements out of place 3, in place 0'),
    ('313.36      0', '313.36    N/A', 'elements of 1 of 31 sizes were not checked'),
    ('47617  180.40', '47617  181.40', '8589934592 bytes: 181.40 GB/s and 47617 us contradict each other'),
    ('0 OK', '2 FAILED', '2 FAILED'),
    ('313.66', '1' * 5000, 'cannot parse row'),
    ('#  Rank  7 ', '#  ', 'expected 8 ranks, found 7'),
])  # fmt: skip
def test_a_wrong_output_says_why(old, new, says):
    run = 'rccl-tests-all_reduce-8-ranks'
    collective, ranks, sizes, _ = RUNS[run]
    assert text_of(run).count(old) == 1
    faults = xccl.faults_of(text_of(run).replace(old, new), collective, sizes, ranks)
    assert any(says in fault for fault in faults), faults


@each_row('ranks', (2, 12, 80000))
def test_sizes_keep_their_power_of_two_when_a_test_rounds_them_to_the_ranks(ranks):
    sizes = xccl.sizes_of(ranks)
    assert sizes[-1] == 2**30 and sizes[0] >= 2**16
    for size in sizes:
        taken = size // (16 * ranks) * 16 * ranks
        (row,) = xccl.rows_of(f'{taken} {taken // 4} float sum -1 1 1 1 0 1 1 1 0\n', sizes)
        assert row.asked == size


def test_recorded_logs_say_what_the_channels_go_through(recorded):
    assert xccl.transports_of(recorded('nccl-info-ib.txt')) == {'NET/IBext/GDRDMA': 5, 'P2P/CUMEM': 3}
    slingshot = {'NET/AWS Libfabric/GDRDMA': 24, 'P2P/CUMEM/read': 6}
    assert xccl.transports_of(recorded('nccl-info-slingshot.txt')) == slingshot
    assert xccl.version_of(recorded('rccl-tests-all_reduce-16-ranks.txt')) == '2.22.3-HEAD:7d8d67c'


@each_row(('way', 'is_'), [
    ('NET/Socket/0', 'NET/Socket'),
    ('NET/IB/0(3)/GDRDMA/Shared', 'NET/IB/GDRDMA/Shared'),
    ('NET/AWS Libfabric/2/GDRDMA comm 0x9bbf3b0 nRanks 4096', 'NET/AWS Libfabric/GDRDMA'),  # RCCL, on Frontier
])  # fmt: skip
def test_devices_of_a_way_are_counted_together(way, is_):
    assert xccl.transports_of(f'n1:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via {way}\n') == {is_: 1}


@each_row(('name', 'old', 'new', 'nics', 'says'), [
    ('sockets', '', '', ['mlx5_0'], ['fell back to sockets', 'mlx5_0']),
    ('sockets', '', '', [], []),
    ('devices', '', '', ['mlx5_1', 'mlx5_8'], []),
    ('devices', '', '', ['mlx5_1', 'mlx5_9'], ['not mlx5_9 of site.yaml']),
    ('slingshot', 'found 4 nics', 'found 1 nics', ['hsn0', 'hsn1'], ['NCCL found 1 network devices', 'hsn0, hsn1']),
    ('slingshot', '/GDRDMA', '', ['hsn0', 'hsn1'], ['1 of 24 channels between nodes', 'NCCL_NET_GDR_LEVEL']),
])  # fmt: skip
def test_a_way_around_the_network_devices_of_the_site_is_a_finding(recorded, name, old, new, nics, says):
    log = recorded(f'nccl-info-{name}.txt')
    found = xccl.fallbacks_of(log.replace(old, new, 1) if old else log, nics)
    assert len(found) == bool(says) and all(words in found[0] for words in says)


def test_a_library_that_says_nothing_of_other_nodes_is_a_finding_where_the_site_has_devices():
    (fault,) = xccl.fallbacks_of('', ['mlx5_0'])
    assert 'did not say' in fault


@each_row(('line', 'is_'), [
    ('AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008', 'RING/SIMPLE'),
    ('AllReduce: 8388608 Bytes -> Algo Ring proto LL128 channel{Lo..Hi}={0..15}', 'RING/LL128'),
    ('AllReduce: 8 Bytes -> Algo 7 proto 3 time 1', '7/3'),  # of later versions
    ('AllReduce: opCount 1', ''),
])  # fmt: skip
def test_the_algorithm_of_the_largest_message_is_named_as_nccl_does_since_2_23(line, is_):
    small = 'n1:1:1 [0] NCCL INFO AllGather: 4 Bytes -> Algo 0 proto 0 time 9\n' * bool(is_)
    assert xccl.algorithm_of(f'{small}n1:1:1 [0] NCCL INFO {line}\n{small}') == is_


def test_the_case_reads_the_logs_of_all_ranks_and_fails_with_the_fallback(recorded, tmp_path):
    for process, name in ((1, 'nccl-info-ib.txt'), (2, 'nccl-info-sockets.txt')):
        (tmp_path / f'nccl.n1.{process}').write_text(recorded(name))
    run = run_of(recorded('rccl-tests-all_reduce-8-ranks.txt'), name='all_reduce', folder=tmp_path)
    _, ranks, sizes, _ = RUNS['rccl-tests-all_reduce-8-ranks']
    case = SimpleNamespace(
        num_nodes=2, ranks=ranks, sizes=sizes, topology=SimpleNamespace(nics=('mlx5_0',)),
        partition=SimpleNamespace(transport='direct'),
    )  # fmt: skip
    (fault,) = XcclTests.sanity_faults(case, run)
    assert 'fell back to sockets' in fault
    assert run.provenance == {
        'transport_all_reduce': 'NET/IBext/GDRDMA 5, P2P/CUMEM 3', 'nccl_version': '2.16.5+cuda11.8',
        'algorithm_all_reduce': 'the library did not say',
    }  # fmt: skip
    case.num_nodes = 1
    assert XcclTests.sanity_faults(case, run) == []
    case.num_nodes, case.partition.transport = 2, 'sockets'
    assert XcclTests.sanity_faults(case, run) == []


def test_a_rank_whose_device_has_no_name_keeps_its_host():
    output = '# Rank 0 Pid 10632 on node1 device 0 [0000:43:00.0] \n# Rank 1 Pid 10633 on node2 device 1 [0x07] A100\n'
    assert (xccl.hosts_of(output), xccl.devices_of(output)) == (['node1', 'node2'], ['A100'])

# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of newer versions and of other machines, that others published: what is read of them, typed again by hand.

Intel's HPL is in test_hpl.py, the topologies of nodes with GPUs in tests/plumbline/test_gpu_links.py.
"""

import pytest
from reading import values_of
from rows import each_row

from checks.compute import fft
from checks.compute import hpcg_output as hpcg
from checks.core.reading.metrics import Metric
from checks.gpu import copies
from checks.gpu import xccl_output as xccl
from checks.memory import likwid
from checks.mpi import osu_output as osu
from checks.storage import ior_output, mdtest_output

DEVICES = ('D', 'D')


def powers(first, last):
    return [2**power for power in range(first, last + 1)]


# file -> program, sizes, ranks, kind of device; value of 8 bytes (or the first above) and of the largest message
OSU = {
    'osu_bw-7.5': ('osu_bw', powers(0, 22), 2, '', 7.47, 23979.28),
    'osu_bw-7.5-cuda': ('osu_bw', powers(0, 22), 2, 'cuda', 7.30, 23987.18),
    'osu_latency-7.5': ('osu_latency', powers(0, 22), 2, '', 3.34, 183.66),
    'osu_latency-7.5-cuda': ('osu_latency', powers(0, 22), 2, 'cuda', 3.96, 182.27),
    'osu_latency-7.5-cuda-lnx': ('osu_latency', powers(0, 22), 2, 'cuda', 3.19, 8.94),
    'osu_alltoall-7.5-cuda': ('osu_alltoall', powers(0, 20), 8, 'cuda', 22.28, 488.45),
    'osu_alltoall-7.5-36-ranks': ('osu_alltoall', powers(0, 26), 36, '', 36.18, 747888.64),
    'osu_allreduce-7.5-144-ranks': ('osu_allreduce', powers(2, 28), 144, '', 15.34, 496306.98),
    'osu_xccl_allreduce-7.5': ('osu_xccl_allreduce', [2**30], 8, 'cuda', 8955.18, 8955.18),
}


@each_row(('name', 'run'), OSU.items())
def test_every_size_of_an_output_of_osu_7_5_is_read(recorded, name, run):
    program, sizes, ranks, gpu, small, large = run
    output = recorded(f'{name}.txt')
    assert osu.version_of(output) == '7.5'
    assert osu.faults_of(output, program, sizes, ranks, gpu, DEVICES if gpu else ()) == []
    found = values_of(osu.metrics_of(program, sizes)[0], output)
    assert len(found) == len(sizes)
    assert (found[str(max(8, sizes[0]))], found[str(sizes[-1])]) == (small, large)


def test_only_reductions_of_osu_add_whole_numbers(recorded):
    """Version 7.5 adds MPI_INT, as those up to 7.0; a latency of MPI_INT was asked for by nobody."""
    output = recorded('osu_latency-7.5.txt').replace('MPI_CHAR', 'MPI_INT')
    assert osu.faults_of(output, 'osu_latency', powers(0, 22)) == ['unexpected datatype: # Datatype: MPI_INT.']
    other = recorded('osu_allreduce-7.5-144-ranks.txt').replace('MPI_INT', 'MPI_FLOAT')
    assert osu.faults_of(other, 'osu_allreduce', powers(2, 28), 144) == ['unexpected datatype: # Datatype: MPI_FLOAT.']


def test_algorithm_protocol_and_channels_of_rccl_tests_are_no_fault_of_a_row(recorded):
    output = recorded('rccl-tests-rocm-7.0-algorithms.txt')
    assert [row.size for row in xccl.rows_of(output)] == [1048576, 2097152, 268435456]
    # the page keeps the lines of two of 16 ranks
    assert xccl.faults_of(output, 'all_reduce', [2**20, 2**21, 2**28], 16) == ['expected 16 ranks, found 2']
    for broken in ('RING    SIMPLE', 'RING    SIMPLE          32 0', '7    SIMPLE        32'):
        assert len(xccl.rows_of(output.replace('RING    SIMPLE          32', broken))) == 1
    assert xccl.version_of(output) == '2.27.7-develop:29e1567'


@each_row(('name', 'microseconds'), [('slow-at-1-mb', 343.55), ('as-before', 145.95)])
def test_the_rows_of_an_issue_of_nccl(recorded, name, microseconds):
    """From 500000 to 1500000 bytes in steps of 100000, which no check asks for."""
    output = recorded(f'nccl-tests-2.18.3-{name}.txt')
    rows = xccl.rows_of(output)
    assert [row.size for row in rows] == list(range(500_000, 1_500_001, 100_000))
    assert rows[5].seconds == pytest.approx(microseconds * 1e-6)
    reading = xccl.metrics_of('all_reduce', powers(19, 20), 4)[0].reading_of(output)
    assert [*reading.missing.values()] == ['its line is there 5 times, expected once'] and len(reading.faults) == 5


def test_the_yaml_of_intels_hpcg(recorded):
    output = recorded('hpcg-intel-2018.txt')
    found = {metric.name: next(iter(values_of(metric, output).values())) for metric in hpcg.metrics_of(2, None)}
    assert found == {
        'gflops': 3.28908, 'raw_read_bandwidth': 20.456, 'raw_write_bandwidth': 4.72735,
        'raw_total_bandwidth': 25.1834, 'raw_spmv': 3.59339, 'total_bandwidth': 24.9461, 'gflops_per_node': 1.64454,
    }  # fmt: skip
    # it ran for 50 s
    assert hpcg.is_quick(output) and hpcg.faults_of(output, (104, 104, 104), 8, 1) == []


def test_heffte_on_amds_gpus(recorded):
    output = recorded('heffte-rocfft.txt')
    assert [list(values_of(metric, output).values()) for metric in fft.Fft.metrics] == [[324.41]]
    assert fft.faults_of(output, 'rocfft', (512, 512, 512), 4) == []


# file -> item, ranks, items of all ranks, iterations, and mean rates of OPERATIONS
MDTEST = [
    ('tree', 'File', 4, 24800, 5, [6168.335, 46905.151, 23862.868, 8757.431]),
    ('tree', 'Directory', 4, 24800, 5, [3184.206, 47021.209, 4128.215]),  # directories are not read
    ('libnfs', 'File', 128, 16384, 10, [6996.044, 91063.340, 89099.077, 24424.384]),
    ('nfs', 'File', 128, 16384, 10, [2203.859, 91270.677, 40800.066, 2840.170]),
]


@each_row(('name', 'item', 'ranks', 'items', 'iterations', 'rates'), MDTEST)
def test_mdtest_4_1_names_the_unit_above_its_table(recorded, name, item, ranks, items, iterations, rates):
    output = recorded(f'mdtest-4.1.0-{name}.txt')
    operations = mdtest_output.OPERATIONS[item]
    metric, _ = mdtest_output.metrics_of('any', item, operations)
    assert list(values_of(metric, output).values()) == rates
    assert mdtest_output.faults_of(output, ranks, 1, items, iterations) == []
    assert ior_output.complaint_of(output) == []
    assert mdtest_output.faults_of(output, ranks, 1, items, 1) == [f'iterations: 1 requested, mdtest says {iterations}']


def test_likwid_bench_of_two_machines(recorded):
    peak, triad = (recorded(f'likwid-bench-{run}.txt') for run in ('peakflops-i5-14500', 'triad_avx-3-threads'))
    flops, per_cycle = (next(iter(values_of(one, peak).values())) for one in likwid.flop_metrics('x', {}, None))
    assert flops == pytest.approx(9.91929)
    assert per_cycle == pytest.approx(15728640000 / 4122722646)  # of one core
    rate, of_core = (next(iter(values_of(one, triad).values())) for one in likwid.bandwidth_metrics('x', None))
    assert rate == pytest.approx(11.16334)
    assert of_core == pytest.approx(63999983616 / 22977763263 / 3)
    assert likwid.faults_of(peak, (0,)) == [] == likwid.faults_of(triad, (0, 1, 4))
    assert likwid.faults_of(triad, (0, 1, 2)) == [
        'threads were requested on CPUs [0, 1, 2] and ran on [0, 1, 4]'
    ]  # fmt: skip


def test_transfers_of_two_executors_of_transferbench(recorded):
    output = recorded('transferbench-two-executors.txt')
    ends = {'transfer': ['c0-n', 'g0-n', 'g0-g0', 'g0-g1']}
    metric = Metric('bandwidth', 'GB/s', 'higher', copies.rates_of, {}, ends, run='all')
    assert list(values_of(metric, output).values()) == [4.476, 0.014, 80.886, 48.807]
    assert copies.faults_of(output, 4, 32) == [
        f'{end} to N: 32 MiB were to be copied, 1048576 bytes were' for end in ('C0', 'G0')
    ]


def test_commas_of_transferbench_are_no_rows(recorded):
    """No check asks for OUTPUT_TO_CSV."""
    assert copies.faults_of(recorded('transferbench-1.69-csv.txt'), 1, 4) == [
        'cannot parse row: expected GB/s, ms, bytes and ends of a transfer, found '
        "'Transfer 0, 0.535 GB/s, 7.840 ms, 4194304 bytes, P0 -> D0:1 -> G0,'",
        'expected 1 transfers and their aggregate, found 0 transfers',
    ]  # fmt: skip

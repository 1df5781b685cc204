# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of newer versions and of other machines, that others published: what is read of them, typed again by hand."""

from reading import values_of
from rows import each_row

from checks.core.reading.trials import Metric
from checks.mpi import osu_output as osu
from checks.storage import storage_output as storage

DEVICES = ('D', 'D')
OPERATIONS = ('creation', 'stat', 'read', 'removal')


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
def test_osu_7_5(recorded, name, run):
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
    operations = [one for one in OPERATIONS if item == 'File' or one != 'read']
    rows = storage.mdtest_rows(item, operations)
    metric = Metric('rate', 'ops/s', 'higher', rows, {}, {'operation': operations})
    assert list(values_of(metric, output).values()) == rates
    assert storage.mdtest_faults(output, ranks, 1, items, iterations) == []
    assert storage.complaint_of(output) == []
    assert storage.mdtest_faults(output, ranks, 1, items, 1) == [f'iterations: 1 requested, mdtest says {iterations}']

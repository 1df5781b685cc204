# SPDX-License-Identifier: BSD-3-Clause
"""How bytes went from node to node: counters of network devices as files, what UCX prints, NCCL's log of sockets."""

import shutil
import subprocess

import pytest
from health_stand_in import COUNTERS, CXI, IB, NET, Node
from reading import plan_of
from rows import each_row

from checks.core.placement import one_rank_on
from checks.core.reading import transport
from checks.core.reading.trials import read_trials
from checks.gpu import xccl_output as xccl
from plumbline.paths import ROOT

GB = 10**9
BEFORE = COUNTERS | {
    f'{CXI}/hni_sts_tx_ok_octets': '5000@1675489372.701036980\n', f'{IB}/state': '4: ACTIVE\n',
    f'{IB}/counters/port_xmit_data': '1000\n', f'{NET}/statistics/tx_bytes': '7000\n', 'on_all_nodes': 'srun\n',
}  # fmt: skip
# As UCX 1.17 and 1.13 print them, with names of devices of this test
UCX_NEW = """\
[1701292112.829711] [n1:16:0] ucp_worker.c:1855 UCX  INFO    ucp_context_0 intra-node cfg#1 tag(sysv/memory cma/memory)
[1701292112.829711] [n1:16:0] ucp_worker.c:1855 UCX  INFO    ucp_context_0 inter-node cfg#2 tag({lane} {lane})
"""
UCX_OLD = """\
[1795465019.397189] [n1:21:0] ucp_worker.c:1763 UCX  INFO    ep_cfg[0]: tag(self/memory0 cma/memory) rma(self/memory0)
[1795465019.397406] [n1:21:0] ucp_worker.c:1763 UCX  INFO    ep_cfg[1]: tag({lane} {lane}); am(sysv/memory cma/memory)
"""


PORT, SLINGSHOT, SOCKETS = f'{IB}/counters/port_xmit_data', f'{CXI}/hni_sts_tx_ok_octets', f'{NET}/statistics/tx_bytes'
ETHERNET = {f'{IB}/link_layer': 'Ethernet\n'} | {name: '' for name in BEFORE if name.startswith(CXI)}  # no Slingshot


@each_row(
    ('otherwise', 'now', 'fabric', 'sockets'),
    [
        # InfiniBand counts in fours: (251000 - 1000) * 4 bytes are a million
        ({}, {PORT: '251000', SLINGSHOT: '90005000@1675489399.1', SOCKETS: '7300'}, 'cxi0 90000000, mlx5_0 1000000',
         'eth0 300'),
        # a fabric that sent nothing is told, and a port that is down is not
        ({f'{IB}/state': '1: DOWN\n'}, {SOCKETS: '5000007000'}, 'cxi0 0', 'eth0 5000000000'),
        # an Ethernet port is a fabric only where it sent by RDMA
        (ETHERNET, {PORT: '1000', SOCKETS: '40000007000'}, None, 'eth0 40000000000'),
        (ETHERNET, {PORT: '2000', SOCKETS: '40000007000'}, 'mlx5_0 4000', 'eth0 40000000000'),
        ({'on_all_nodes': ''}, {SLINGSHOT: '9999999@1'}, None, None),  # a job on one node
    ],
)  # fmt: skip
def test_a_node_tells_the_bytes_of_each_device_since_the_job_began(tmp_path, otherwise, now, fabric, sockets):
    node = Node(tmp_path / 'node')
    node({name: text for name, text in (BEFORE | otherwise).items() if text})
    facts = node({name: f'{text}\n' for name, text in now.items()})
    assert (facts.get('fabric_sent'), facts.get('sockets_sent')) == (fabric, sockets)


@pytest.mark.parametrize('text', [UCX_NEW, UCX_OLD])
def test_what_ucx_sends_through_is_told_and_judged(tmp_path, text):
    run = tmp_path / 'trial_1/run'
    run.mkdir(parents=True)
    for name, content in {'exit_code': '0\n', 'stdout': '', 'binding.n1.0': '0\n', 'binding.n2.0': '0\n'}.items():
        (run / name).write_text(content)
    (tmp_path / 'provenance.txt').write_text('fabric_sent=mlx5_0 0\n')
    plan = plan_of('OsuLatency', (), [], one_rank_on((0,)), num_nodes=2, nics=())
    for lane, faults in (('rc_mlx5/mlx5_0:1', 0), ('tcp/eth0', 1)):
        (run / 'ucx.n1.7.log').write_text(text.format(lane=lane))
        record = read_trials(tmp_path, plan, 'n1,n2')
        causes = [*map(str, record.causes)]
        assert record.provenance['mpi_transport'] == lane
        found = [cause for cause in causes if 'sockets' in cause]
        assert len(found) == faults and all('tcp/eth0' in cause for cause in found)


def test_the_real_ucx_of_this_machine_names_its_lanes_as_it_is_asked_to(tmp_path):
    """Two ranks of Debian's MPICH, which sends by UCX; within a node there is no lane to another."""
    if not all(map(shutil.which, ('mpicc.mpich', 'mpirun.mpich'))):
        pytest.skip('mpicc.mpich or mpirun.mpich is not installed')
    body = 'MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize();'
    (tmp_path / 'barrier.c').write_text(f'#include <mpi.h>\nint main() {{ {body} }}\n')
    built = subprocess.run(['mpicc.mpich', 'barrier.c', '-o', 'barrier'], cwd=tmp_path, capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f'mpicc.mpich says: {built.stderr[:200]}')
    folder = tmp_path / 'trial_1/run'
    folder.mkdir(parents=True)
    (tmp_path / 'on_all_nodes').write_text('\n')
    rank = ROOT / 'checks/core/job/parts/rank.sh'
    command = ['mpirun.mpich', '-n', '2', 'bash', rank, tmp_path / 'barrier']
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (log,) = folder.glob(transport.UCX_LOG)  # of one rank of the node
    assert 'ep_cfg' in log.read_text() or 'intra-node cfg' in log.read_text()
    assert transport.lanes_of(folder) == []


@each_row(
    ('fabric', 'sockets', 'nics', 'said'),
    [
        ('cxi0 10', 'eth0 4.9', (), ''),  # less than half of what the fabric sent
        ('cxi0 10', 'eth0 5.1', (), 'through sockets'),
        ('cxi0 41', 'hsn0 40', (), 'through sockets'),  # of the fabric itself, which counts them too
        ('cxi0 0.02', 'eth0 0.09', (), ''),  # less than 0.1 GB is of file systems and the launcher
        ('cxi0 0', 'eth0 0.11', (), 'through sockets'),
        ('', 'eth0 5', (), ''),  # without a fabric
        ('', 'eth0 5', ('mlx5_0',), 'through sockets'),  # RDMA over Ethernet that the site names, and that sent nothing
        ('', 'eth0 5', ('eth0',), ''),
        ('mlx5_0 0.001, mlx5_1 20', '', ('mlx5_0',), 'not through each of mlx5_0'),
        ('cxi0 9.5, cxi1 0.4', 'eth0 0', ('cxi0', 'cxi1'), 'not through each of cxi0, cxi1'),
        ('cxi0 9.4, cxi1 0.6', 'eth0 0', ('cxi0', 'cxi1'), ''),  # a tenth of an equal share is 0.5
        ('cxi0 0.09', 'eth0 0', ('cxi0', 'cxi1'), ''),
    ],
)
def test_which_way_bytes_went_by_the_counters(fabric, sockets, nics, said):
    def counted(text):
        return ', '.join(
            f'{name} {round(float(number) * GB)}' for name, number in map(str.split, filter(None, text.split(', ')))
        )

    facts = {'n1': {'fabric_sent': counted(fabric), 'sockets_sent': counted(sockets)}, 'n2': {}}
    found = [str(cause) for cause in transport.faults_of(facts, nics)]
    assert len(found) == bool(said)
    assert all(said in cause and ' on n1: sent ' in cause and 'n2' not in cause for cause in found)


def test_nccl_of_a_site_that_states_no_devices_is_judged_by_those_of_the_node(recorded):
    (fault,) = xccl.fallbacks_of(recorded('nccl-info-sockets.txt'), [], ['cxi0', 'cxi1'])
    assert 'fell back to sockets' in fault and 'cxi0, cxi1' in fault
    copied = recorded('nccl-info-slingshot.txt').replace('/GDRDMA', '')
    (fault,) = xccl.fallbacks_of(copied, [], ['cxi0'])
    assert 'through memory of the host' in fault
    assert xccl.fallbacks_of(copied, [], ['cxi0'], direct=False) == []

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


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / 'node')


def sent(node, **now):
    """Return what a node says it sent; before the job each device had counted a little."""
    node(BEFORE)
    facts = node({path: f'{number}\n' for path, number in now.items()})
    return {name: facts[name] for name in ('fabric_sent', 'sockets_sent') if name in facts}


def test_a_node_tells_the_bytes_of_each_device_since_the_job_began(node):
    """InfiniBand counts in fours: (251000 - 1000) * 4 bytes are a million."""
    assert sent(node, **{
        f'{IB}/counters/port_xmit_data': 251000, f'{CXI}/hni_sts_tx_ok_octets': '90005000@1675489399.1',
        f'{NET}/statistics/tx_bytes': 7300,
    }) == {'fabric_sent': 'cxi0 90000000, mlx5_0 1000000', 'sockets_sent': 'eth0 300'}  # fmt: skip


def test_a_fabric_that_sent_nothing_is_told_and_a_port_that_is_down_is_not(node):
    (node.folder / IB).mkdir(parents=True)
    node(BEFORE | {f'{IB}/state': '1: DOWN\n'})
    facts = node({f'{NET}/statistics/tx_bytes': '5000007000\n'})
    assert (facts['fabric_sent'], facts['sockets_sent']) == ('cxi0 0', 'eth0 5000000000')


@pytest.mark.parametrize(('sent_more', 'told'), [(0, None), (1000, 'mlx5_0 4000')])
def test_an_ethernet_port_is_a_fabric_only_where_it_sent_by_rdma(node, sent_more, told):
    without_slingshot = {name: text for name, text in BEFORE.items() if not name.startswith(CXI)}
    node(without_slingshot | {f'{IB}/link_layer': 'Ethernet\n'})
    facts = node({
        f'{IB}/counters/port_xmit_data': f'{1000 + sent_more}\n', f'{NET}/statistics/tx_bytes': '40000007000\n',
    })  # fmt: skip
    assert (facts.get('fabric_sent'), facts['sockets_sent']) == (told, 'eth0 40000000000')


def test_a_job_on_one_node_tells_nothing(node):
    alone = {name: text for name, text in BEFORE.items() if name != 'on_all_nodes'}
    node(alone)
    assert 'fabric_sent' not in node({f'{CXI}/hni_sts_tx_ok_octets': '9999999@1\n'})


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
        record, causes = read_trials(tmp_path, plan, 'n1,n2')
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

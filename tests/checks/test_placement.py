# SPDX-License-Identifier: BSD-3-Clause
"""What was requested for each rank against what it got, and the wrapper that asks."""

import os
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import faults_of_ranks
from rows import each_row
from scratch import ROOT

from checks.core.placement import (
    Placement,
    cpus_of_devices,
    one_rank_each,
    one_rank_per_core,
    parse_cpu_list,
    ranks_with_threads,
)
from checks.core.reading.binding import Gpu, Granted, granted, nodes_of, unlike
from checks.core.topology import Topology

RANK = ROOT / 'checks/core/job/parts/rank.sh'
TWO = Placement(2, ((0,), (1,)))
GPUS = Placement(2, None, devices=((0,), (3,)), gpu='cuda')
# As nvidia-smi 550 prints what rank.sh asks
NVIDIA_SMI = """\
0, GPU-aaaaaaaa-0000-0000-0000-000000000000, 00000000:07:00.0, NVIDIA A100-SXM4-40GB
1, GPU-bbbbbbbb-0000-0000-0000-000000000000, 00000000:46:00.0, NVIDIA A100-SXM4-40GB
"""
# What rocminfo of ROCm 5 and 6 prints of each agent, shortened; it shows what ROCR_VISIBLE_DEVICES leaves
ROCMINFO = r"""
echo "Agent 1"; echo "  Name:   AMD EPYC"; echo "  Uuid:                    CPU-XX"
IFS=, read -r -a devices <<< "$ROCR_VISIBLE_DEVICES"
for device in "${devices[@]}"; do
    [ $device -lt 2 ] || continue
    echo "Agent $((device + 2))"; echo "  Name:   gfx90a"; echo "  Uuid:   GPU-0000$device   "
    echo "  Marketing Name:          AMD Instinct MI250X      "; echo "  BDFID:        $((49408 + 1280 * device))      "
done
exit 0
"""


def start(folder, *command, script=RANK, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI', 'SLURM', 'PLUMBLINE'))}
    return subprocess.run(
        ['bash', script, *command], cwd=folder, env=clean | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def stand_in(tmp_path):
    """Puts a shell script before all other programs of that name; returns the variable that does."""

    def put(name: str, script: str) -> dict[str, str]:
        folder = tmp_path / 'bin'
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f'#!/bin/bash\n{script}\n')
        (folder / name).chmod(0o755)
        return {'PATH': f'{folder}:{os.environ["PATH"]}'}

    return put


@pytest.fixture
def other_sys(tmp_path):
    """`rank.sh` for a node whose /sys has these files alone."""

    def other(**files: str):
        for name, text in files.items():
            path = tmp_path / 'sys' / name.replace('__', '/')
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'{text}\n')
        script = tmp_path / 'rank.sh'
        script.write_text(re.sub('(?<!proc)/sys/', f'{tmp_path}/sys/', RANK.read_text()))
        shutil.copy(RANK.parent / 'watch.sh', tmp_path)
        return script

    return other


def of_cpus(*cpus: int) -> Granted:
    return Granted(frozenset(cpus))


def with_gpu(number: int, uuid: str) -> Granted:
    return Granted(frozenset({0}), {number: uuid})


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_kernels_lists_are_understood(cpus):
    assert parse_cpu_list(','.join(map(str, sorted(cpus)))) == cpus


def test_ranges():
    assert parse_cpu_list('0-3,8,10-11\n') == {0, 1, 2, 3, 8, 10, 11}


def test_a_granted_binding_has_no_fault():
    assert faults_of_ranks(TWO, {'n1.0': of_cpus(0), 'n1.1': of_cpus(1)}, 1) == []
    assert faults_of_ranks(Placement(1, None), {'n1.0': of_cpus(0, 1)}, 1) == []
    assert faults_of_ranks(GPUS, {'n1.0': with_gpu(0, 'GPU-a'), 'n1.1': with_gpu(3, 'GPU-b')}, 1) == []
    node = {f'n{i}.{rank}': with_gpu(3 * rank, f'GPU-{i}{rank}') for i in (1, 2) for rank in (0, 1)}
    assert faults_of_ranks(GPUS, node, 2) == []  # each node has GPUs of its own


@each_row(
    ('got', 'why'),
    [
        ({'n1.0': of_cpus(0)}, '2 ranks were requested, 1 reported'),
        ({}, '2 ranks were requested, 0 reported'),
        ({'n1.0': of_cpus(0), 'n1.7': of_cpus(1)}, 'rank n1.7 was requested to run on CPUs [] and got [1]'),
        ({'n1.0': of_cpus(0), 'n1.1': of_cpus()}, 'rank n1.1 was requested to run on CPUs [1] and got []'),
        ({'n1.0': of_cpus(0), 'n1.1': of_cpus(0, 1)}, 'rank n1.1 was requested to run on CPUs [1] and got [0, 1]'),
    ],
)
def test_a_binding_that_was_not_granted_is_named(got, why):
    assert any(why in fault for fault in faults_of_ranks(TWO, got, 1))


@each_row(
    ('first', 'second', 'why'),
    [
        (with_gpu(0, 'GPU-a'), with_gpu(1, 'GPU-b'), 'rank n.1 was requested to see GPUs [3] and got [1]'),
        (with_gpu(0, 'GPU-a'), of_cpus(0), 'rank n.1 was requested to see GPUs [3] and got []'),
        (with_gpu(0, 'GPU-a'), with_gpu(3, 'GPU-a'), 'GPU 0 of rank n.0 is GPU-a, GPU 3 of rank n.1 is GPU-a'),
        (with_gpu(3, 'GPU-a'), with_gpu(3, 'GPU-b'), 'GPU 3 of rank n.0 is GPU-a, GPU 3 of rank n.1 is GPU-b'),
    ],
)
def test_a_gpu_that_was_not_asked_or_is_two_or_the_same_is_named(first, second, why):
    assert why in faults_of_ranks(GPUS, {'n.0': first, 'n.1': second}, 1)


@each_row(
    ('field', 'asked', 'got', 'why'),
    [
        ('memory', ((0,),), frozenset({0, 1}), 'requested to take memory from NUMA nodes [0] and got [0, 1]'),
        ('nics', (('mlx5_0',),), {}, "requested to use network devices ['mlx5_0'] and got []"),
    ],
)
def test_other_memory_and_network_devices_are_named(field, asked, got, why):
    (fault,) = faults_of_ranks(Placement(1, None, **{field: asked}), {'n.0': Granted(frozenset(), **{field: got})}, 1)
    assert why in fault


@each_row(
    ('asked', 'switches', 'why'),
    [
        ('same', ('s0.s1', 's0.s1'), None),
        ('different', ('s0.s1', 's0.s2'), None),
        (None, ('s0.s1', 's0.s2'), None),
        ('same', ('s0.s1', 's0.s2'), 'same switches of the nodes were requested, and they are s0.s1 and s0.s2'),
        ('different', ('s0.s1', 's0.s1'), 'different switches of the nodes were requested, and they are s0.s1 and'),
        ('same', ('', ''), 'one that Slurm does not name'),
    ],
)
def test_the_switches_of_two_nodes(asked, switches, why):
    got = {f'n{i}.0': Granted(frozenset({0}), switch=switch) for i, switch in enumerate(switches)}
    faults = faults_of_ranks(Placement(1, ((0,),), switches=asked), got, 2)
    assert (why in faults[0]) if why else faults == []


def located(cpu: int, socket: int | None, numa: int) -> Granted:
    sockets = frozenset() if socket is None else frozenset({socket})
    return Granted(frozenset({cpu}), sockets=sockets, numa=frozenset({numa}))


@each_row(
    ('apart', 'second', 'fine'),
    [
        ('same_numa', located(1, 0, 0), True),
        ('same_numa', located(1, 1, 0), False),
        ('same_numa', located(1, 0, 3), False),
        ('same_socket', located(1, 0, 3), True),
        ('same_socket', located(1, 0, 0), False),
        ('different_socket', located(1, 1, 3), True),
        ('different_socket', located(1, 1, 0), True),  # interleaved: one NUMA domain of two sockets
        ('different_socket', located(1, 0, 3), False),
        (None, located(1, 1, 3), True),
    ],
)
def test_two_ranks_are_as_far_apart_as_asked_or_both_are_shown(apart, second, fine):
    """The CPUs are those that were requested; the site's description of them may be wrong."""
    got = {'n.0': located(0, 0, 0), 'n.1': second}
    faults = faults_of_ranks(Placement(2, ((0,), (1,)), apart=apart), got, 1)
    if fine:
        assert faults == []
    else:
        (socket,), (numa,) = second.sockets, second.numa
        assert faults == [
            f'{apart} was requested, and the kernel has rank n.0 on CPU 0 of socket 0, NUMA domain 0 '
            f'and rank n.1 on CPU 1 of socket {socket}, NUMA domain {numa}: see processor in site.yaml'
        ]


def test_a_kernel_that_does_not_say_which_socket_proves_nothing():
    got = {f'n.{cpu}': located(cpu, None, 0) for cpu in (0, 1)}
    (fault,) = faults_of_ranks(Placement(2, ((0,), (1,)), apart='same_numa'), got, 1)
    assert 'rank n.1 on CPU 1 of socket unknown, NUMA domain 0' in fault


@pytest.mark.parametrize(
    'variable',
    [
        'OMPI_COMM_WORLD_LOCAL_RANK', 'MPI_LOCALRANKID', 'PALS_LOCAL_RANKID', 'MV2_COMM_WORLD_LOCAL_RANK',
        'FLUX_TASK_LOCAL_ID', 'JSM_NAMESPACE_LOCAL_RANK', 'SLURM_LOCALID',
    ],
)  # fmt: skip
def test_each_launcher_tells_the_local_rank(tmp_path, stand_in, variable):
    cpu = max(os.sched_getaffinity(0))
    asked = Placement(2, ((0,), (cpu,)), devices=((1,), (0,)), gpu='cuda')
    query = '--query-gpu=index,uuid,pci.bus_id,name --format=csv,noheader'
    smi = stand_in('nvidia-smi', f'[ "$*" = "{query}" ] && echo "{NVIDIA_SMI}"')
    environment = asked.env_vars | smi | {variable: '1', 'SLURMD_NODENAME': 'n7'}
    answer = start(tmp_path, 'bash', '-c', 'echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER', **environment)
    assert (answer.returncode, answer.stdout) == (0, '0 PCI_BUS_ID\n'), answer.stderr
    uuid = 'GPU-aaaaaaaa-0000-0000-0000-000000000000'
    rank = f'{os.uname().nodename if variable == "MPI_LOCALRANKID" else "n7"}.1'
    assert granted(tmp_path) == {rank: Granted(frozenset({cpu}), {0: uuid})}
    assert str(granted(tmp_path)[rank]) == f'{cpu}; GPU 0 {uuid}'


@pytest.mark.parametrize('variable', [
    'OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'PALS_RANKID', 'MV2_COMM_WORLD_RANK', 'FLUX_TASK_RANK', 'JSM_NAMESPACE_RANK',
    'SLURM_PROCID',
])  # fmt: skip
def test_of_one_rank_a_node_each_takes_the_list_of_its_number_in_the_job(tmp_path, variable):
    pair = Placement(1, ((0,), (1,)), across=True)
    for rank, node in enumerate(('n1', 'n2')):
        local = {'OMPI_COMM_WORLD_LOCAL_RANK': '0', 'SLURM_LOCALID': '0', 'SLURMD_NODENAME': node}
        answer = start(tmp_path, 'true', **pair.env_vars, **local, **{variable: str(rank)})
        assert answer.returncode == 0, answer.stderr
    actual = granted(tmp_path)
    assert {name: has.cpus for name, has in actual.items()} == {'n1.0': {0}, 'n2.1': {1}}
    assert faults_of_ranks(pair, actual, 2) == []
    assert faults_of_ranks(pair, {'n1.0': actual['n2.1'], 'n2.1': actual['n2.1']}, 2)


def test_a_launcher_that_is_not_known_is_not_taken_for_rank_0_of_each_node(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', **TWO.env_vars, ALPS_APP_PE='1')
    assert (answer.returncode, answer.stdout) == (125, '')
    said = 'plumbline: local rank unknown: its launcher does not say which rank of its node it is: expected one of'
    (line,) = answer.stderr.splitlines()
    assert line.startswith(said) and line.endswith('JSM_NAMESPACE_LOCAL_RANK SLURM_LOCALID') and not granted(tmp_path)


def test_mpirun_inside_a_slurm_job_goes_before_slurm(tmp_path):
    start(tmp_path, 'true', OMPI_COMM_WORLD_LOCAL_RANK='1', SLURM_LOCALID='0', SLURMD_NODENAME='n7')
    assert list(granted(tmp_path)) == ['n7.1']


def test_without_cpus_asked_the_rank_keeps_what_it_has(tmp_path):
    assert start(tmp_path, 'true', SLURMD_NODENAME='n7').returncode == 0
    assert granted(tmp_path) == {'n7.0': Granted(frozenset(os.sched_getaffinity(0)))}


def test_a_cpu_that_is_not_there_ends_the_rank(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', PLUMBLINE_CPUS='4095')
    assert (answer.returncode, answer.stdout) == (125, '')
    assert 'local rank 0: taskset --cpu-list 4095 was requested; it says: taskset: failed to set' in answer.stderr
    assert granted(tmp_path) == {}


def test_one_process_binds_a_rank(tmp_path, stand_in):
    """Each takes some milliseconds, on each node and in each run of a case; watch.sh starts another for itself."""
    real = shutil.which('taskset')
    seen = stand_in('taskset', f'echo "$*" >> {tmp_path}/seen; exec {real} "$@"')
    free = sorted(os.sched_getaffinity(0))
    answer = start(tmp_path, 'grep', 'Cpus_allowed_list', '/proc/self/status', PLUMBLINE_CPUS=str(free[-1]), **seen)
    assert answer.stdout.split() == ['Cpus_allowed_list:', str(free[-1])]
    started = (tmp_path / 'seen').read_text().splitlines()
    assert started[0].startswith(f'--cpu-list --pid {free[-1]} ') and len(started) <= 2


def test_a_rank_for_which_nothing_was_asked_says_so(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', PLUMBLINE_CPUS='0', SLURM_LOCALID='3')
    assert answer.returncode == 125 and 'local rank 3' in answer.stderr


def test_the_programs_exit_code_and_arguments_pass_through(tmp_path):
    answer = start(tmp_path, 'bash', '-c', 'echo "$1"; exit 7', 'x', 'a  b')
    assert (answer.returncode, answer.stdout) == (7, 'a  b\n')


def test_a_run_of_its_own_asks_for_what_its_variables_say():
    own = Placement(2, ((2,), (3, 4)), devices=((1,), (0,)), memory=((0,), (1,)), nics=(('mlx5_0',), ('mlx5_1',)))
    assert TWO.with_lists(own.env_vars) == own
    assert TWO.with_lists({'OMP_NUM_THREADS': '4'}) == TWO


# Devices, memory and network devices


def test_several_devices_of_a_rank_in_their_order(tmp_path, stand_in):
    asked = Placement(1, None, devices=((1, 0),), gpu='cuda')
    answer = start(tmp_path, 'true', **asked.env_vars, **stand_in('nvidia-smi', f'echo "{NVIDIA_SMI}"'))
    assert answer.returncode == 0, answer.stderr
    (got,) = granted(tmp_path).values()
    assert [(number, uuid[:7]) for number, uuid in got.devices.items()] == [(1, 'GPU-bbb'), (0, 'GPU-aaa')]
    assert got.gpus[1] == Gpu('0000:46:00.0', -1, 'NVIDIA A100-SXM4-40GB'), 'this host has no such device'


def test_rocm_is_told_once_which_devices_there_are(tmp_path, stand_in):
    asked = Placement(1, None, devices=((1,),), gpu='rocm')
    show = 'echo "$ROCR_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES/$CUDA_VISIBLE_DEVICES/$GPU_DEVICE_ORDINAL"'
    before = {'HIP_VISIBLE_DEVICES': '0', 'CUDA_VISIBLE_DEVICES': '0', 'GPU_DEVICE_ORDINAL': '0'}
    answer = start(tmp_path, 'bash', '-c', show, **asked.env_vars, **stand_in('rocminfo', ROCMINFO), **before)
    assert (answer.returncode, answer.stdout) == (0, '1///\n'), answer.stderr
    (got,) = granted(tmp_path).values()
    assert got.devices == {1: 'GPU-00001'} and got.gpus == {1: Gpu('-', -1, 'AMD Instinct MI250X')}


@pytest.mark.parametrize('kind', ['cuda', 'rocm'])
def test_a_gpu_is_told_with_its_address_and_the_numa_domain_near_it(tmp_path, stand_in, kind):
    """BDFID 49408 is bus c1, device 0, function 0, of which the kernel knows the PCI domain."""
    script = tmp_path / 'parts'
    shutil.copytree(RANK.parent, script)
    for part in script.glob('*.sh'):
        part.write_text(part.read_text().replace('/sys/bus/pci/', f'{tmp_path}/'))
    address = {'cuda': '0000:07:00.0', 'rocm': '0002:c1:00.0'}[kind]
    for folder in ('devices', 'drivers/amdgpu'):
        (tmp_path / folder / address).mkdir(parents=True)
        (tmp_path / folder / address / 'numa_node').write_text('3\n')
    asked = Placement(1, None, devices=((0,),), gpu=kind)
    tools = stand_in('nvidia-smi', f'echo "{NVIDIA_SMI}"') | stand_in('rocminfo', ROCMINFO)
    answer = start(tmp_path, 'true', script=script / 'rank.sh', **asked.env_vars, **tools)
    assert answer.returncode == 0, answer.stderr
    (got,) = granted(tmp_path).values()
    assert (got.gpus[0].address, got.gpus[0].near) == (address, 3)


def with_gpus(**gpus) -> dict[str, Granted]:
    """What one rank got: the GPU of each number as address and NUMA domain."""
    given = {int(number[1:]): Gpu(address, near, 'NVIDIA A100') for number, (address, near) in gpus.items()}
    return {'n1.0': Granted(frozenset({0}), gpus=given)}


def test_gpus_in_another_order_than_the_site_states_are_named():
    actual = with_gpus(g0=('0000:07:00.0', 3), g1=('0000:46:00.0', 2), g2=('0000:85:00.0', -1))
    placement = Placement(1, ((0,),))
    assert faults_of_ranks(placement, actual, 1, near=(3, 2, 1, 0)) == []
    assert faults_of_ranks(placement, actual, 1) == []
    (fault,) = [one for one in faults_of_ranks(placement, actual, 1, near=(0, 2, 2, 3)) if 'GPU' in one]
    assert 'GPU 0 at 0000:07:00.0 is near NUMA domain 3 by the kernel; site.yaml states the domains 0, 2, 2, 3' in fault
    assert 'GPU 1' not in fault.partition(';')[0] and 'GPU 2' not in fault


@pytest.mark.parametrize(
    ('said', 'name', 'right'),
    [
        ('NVIDIA A100-SXM4-40GB', 'NVIDIA A100-SXM4-40GB', True),
        ('NVIDIA A100-SXM4-40GB at 0000:07:00', 'NVIDIA A100-SXM4-40GB', True),
        ('NVIDIA A100-SXM4-40GB at 0000:0f:00', 'NVIDIA A100-SXM4-40GB', False),  # another one of the node
        ('AMD Instinct MI250X', 'AMD Instinct MI250X', True),
        ('gfx90a:sramecc+:xnack-', 'AMD Instinct MI250X', True),  # as OpenCL calls it
        ('Intel(R) Data Center GPU Max 1550', 'Intel Data Center GPU Max 1550', True),
        ('NVIDIA H100', 'NVIDIA A100-SXM4-40GB', False),
        ('pthread-skylake-avx512-AMD EPYC', 'AMD Instinct MI250X', False),  # PoCL, on the processor
        ('AMD EPYC', 'AMD Instinct MI250X', False),  # HIP-CPU
        ('anything', '', True),  # the tool does not say its name
    ],
)
def test_a_program_that_ran_on_another_device_or_on_the_processor_is_named(said, name, right):
    actual = {'n1.0': Granted(frozenset({0}), gpus={0: Gpu('0000:07:00.0', 0, name)})}
    faults = unlike([said, said], actual, ['gfx90a'])
    assert faults == ([] if right else [f'the program says that it ran on {said}; it was given {name} at 0000:07:00.0'])


@pytest.mark.parametrize(
    ('gpu', 'device', 'script', 'why'),
    [
        ('cuda', 2, f'echo "{NVIDIA_SMI}"', 'GPU 2 was requested; nvidia-smi lists: 0, GPU-aaaaaaaa'),
        ('cuda', 0, 'echo "No devices were found"; exit 6', 'nvidia-smi says: No devices were found'),
        ('rocm', 2, ROCMINFO, 'GPU 2 was requested; rocminfo then lists: none'),
        ('rocm', 0, 'echo "ROCk module is NOT loaded"; exit 1', 'rocminfo says: ROCk module is NOT loaded'),
    ],
)  # fmt: skip
def test_a_device_that_is_not_there_ends_the_rank(tmp_path, stand_in, gpu, device, script, why):
    asked = Placement(1, None, devices=((device,),), gpu=gpu)
    tools = stand_in('nvidia-smi', script) | stand_in('rocminfo', script)
    answer = start(tmp_path, 'echo', 'ran', **asked.env_vars, **tools)
    assert (answer.returncode, answer.stdout) == (125, '')
    assert answer.stderr.startswith('plumbline: local rank 0: ') and why in answer.stderr
    assert granted(tmp_path) == {}


def test_a_kind_of_gpus_whose_part_of_the_job_is_not_there_ends_the_rank(tmp_path):
    answer = start(tmp_path, 'echo', 'ran', **GPUS.env_vars | {'PLUMBLINE_GPU': 'sycl'})
    assert (answer.returncode, answer.stdout) == (125, '')
    assert "PLUMBLINE_GPU: expected one of cuda rocm, found 'sycl'" in answer.stderr


@pytest.mark.skipif(shutil.which('nvidia-smi') is not None, reason='nvidia-smi is installed')
def test_a_node_without_the_tool_that_names_its_devices_says_so(tmp_path):
    answer = start(tmp_path, 'true', **Placement(1, None, devices=((0,),), gpu='cuda').env_vars)
    assert answer.returncode == 125
    assert 'GPU 0 was requested; nvidia-smi, which lists the GPUs, is not on PATH' in answer.stderr


def test_memory_of_one_numa_node(tmp_path, program):
    numactl = program('numactl')
    if subprocess.run([numactl, '--membind=0', 'true'], check=False, capture_output=True).returncode:
        pytest.skip('this machine lets nobody choose where memory comes from')
    asked = Placement(1, ((min(os.sched_getaffinity(0)),),), memory=((0,),))
    answer = start(tmp_path, 'numactl', '--show', **asked.env_vars)
    assert 'membind: 0' in answer.stdout, answer.stderr
    (got,) = granted(tmp_path).values()
    assert got == Granted(frozenset({min(os.sched_getaffinity(0))}), memory=frozenset({0}))
    nowhere = start(tmp_path, 'echo', 'ran', **Placement(1, None, memory=((63,),)).env_vars)
    assert (nowhere.returncode, nowhere.stdout) == (125, '')
    assert 'numactl --membind=63 was requested; it says: libnuma: Warning: node argument 63' in nowhere.stderr


def test_memory_without_numactl_is_refused(tmp_path, stand_in):
    stand_in('x', '')
    (tmp_path / 'bin/bash').symlink_to(shutil.which('bash'))
    only = {'PATH': str(tmp_path / 'bin')}
    answer = start(tmp_path, 'echo', 'ran', **Placement(1, None, memory=((0,),)).env_vars, **only)
    assert answer.returncode == 125 and 'numactl --membind=0 was requested; it says: ' in answer.stderr
    assert 'numactl: command not found' in answer.stderr


def test_a_network_device(tmp_path):
    answer = start(tmp_path, 'bash', '-c', 'echo $UCX_NET_DEVICES', **Placement(1, None, nics=(('lo',),)).env_vars)
    assert answer.stdout == 'lo\n', answer.stderr
    (got,) = granted(tmp_path).values()
    assert got.nics == {'lo': ''}
    answer = start(tmp_path, 'true', **Placement(1, None, nics=(('mlx5_77',),)).env_vars)
    assert answer.returncode == 125 and 'network device mlx5_77 was requested' in answer.stderr


PORT = 'class__infiniband__mlx5_1__ports__1__'


def test_an_infiniband_device_has_its_rate_written_down(tmp_path, other_sys):
    script = other_sys(**{f'{PORT}state': '4: ACTIVE', f'{PORT}rate': '100 Gb/sec (2X HDR)'})
    asked = Placement(1, None, nics=(('mlx5_1',),))
    answer = start(tmp_path, 'bash', '-c', 'echo $UCX_NET_DEVICES', script=script, **asked.env_vars)
    assert answer.stdout == 'mlx5_1:1\n', answer.stderr
    ((rank, got),) = granted(tmp_path).items()
    assert got.nics == {'mlx5_1': '100 Gb/sec (2X HDR)'} and '; mlx5_1 100 Gb/sec (2X HDR)' in str(got)
    assert faults_of_ranks(asked, {rank: got}, 1) == []


def test_an_infiniband_port_that_is_down_ends_the_rank(tmp_path, other_sys):
    script = other_sys(**{f'{PORT}state': '1: DOWN', f'{PORT}rate': '10 Gb/sec (4X SDR)'})
    answer = start(tmp_path, 'echo', 'ran', script=script, **Placement(1, None, nics=(('mlx5_1',),)).env_vars)
    assert (answer.returncode, answer.stdout) == (125, '')
    assert 'network device mlx5_1 was requested; its port 1 is in state 1: DOWN' in answer.stderr


def test_a_slingshot_device(tmp_path, other_sys):
    script, asked = other_sys(class__cxi__cxi0__uevent=''), Placement(1, None, nics=(('cxi0',),))
    answer = start(tmp_path, 'bash', '-c', 'echo $FI_CXI_DEVICE_NAME', script=script, **asked.env_vars)
    assert answer.stdout == 'cxi0\n', answer.stderr


def test_sockets_and_numa_domains_are_the_kernels(tmp_path, other_sys):
    first, *_ = sorted(os.sched_getaffinity(0))
    cpu = f'devices__system__cpu__cpu{first}__'
    script = other_sys(**{f'{cpu}topology__physical_package_id': '8', f'{cpu}node16__uevent': ''})
    asked = Placement(1, ((first,),), apart='same_numa')
    assert start(tmp_path, 'true', script=script, **asked.env_vars).returncode == 0
    assert list(granted(tmp_path).values()) == [
        Granted(frozenset({first}), sockets=frozenset({8}), numa=frozenset({16}))
    ]
    other_sys(**{f'{cpu}topology__physical_package_id': '-1'})  # the firmware does not say
    assert start(tmp_path, 'true', script=script, **asked.env_vars).stderr == ''
    (got,) = granted(tmp_path).values()
    assert got.sockets == frozenset()


def test_the_switch_that_slurm_tells(tmp_path):
    start(tmp_path, 'true', SLURMD_NODENAME='n1', SLURM_TOPOLOGY_ADDR='spine.leaf2.n1')
    start(tmp_path, 'true', SLURMD_NODENAME='n2', SLURM_TOPOLOGY_ADDR='n2')  # without a topology plugin
    assert {rank: got.switch for rank, got in granted(tmp_path).items()} == {'n1.0': 'spine.leaf2', 'n2.0': ''}


# For real


@pytest.mark.parametrize('launcher', ['mpirun.openmpi', 'mpirun.mpich'])
def test_mpirun_for_real(tmp_path, program, stand_in, launcher):
    mpirun = program(launcher)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip('needs two CPUs')
    first, second = sorted(os.sched_getaffinity(0))[:2]
    asked = Placement(2, ((second,), (first,)), devices=((1,), (0,)), gpu='cuda')
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'SLURMD_NODENAME': 'n'}
    script = 'echo "$CUDA_VISIBLE_DEVICES" > seen.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'
    subprocess.run(
        [mpirun, '-np', '2', 'bash', RANK, 'bash', '-c', script], cwd=tmp_path, check=True,
        env=os.environ | root | asked.env_vars | stand_in('nvidia-smi', f'echo "{NVIDIA_SMI}"'),
    )  # fmt: skip
    got = granted(tmp_path)
    assert faults_of_ranks(asked, got, 1) == []
    # Hydra hands on the variables of the node that it was started on
    node = os.uname().nodename if launcher == 'mpirun.mpich' else 'n'
    assert [got[f'{node}.{rank}'].cpus for rank in (0, 1)] == [{second}, {first}]
    assert [(tmp_path / f'seen.{rank}').read_text() for rank in (0, 1)] == ['1\n', '0\n']


@pytest.mark.parametrize('launcher', ['mpirun.openmpi', 'mpirun.mpich'])
def test_a_rank_that_cannot_have_its_device_ends_all(tmp_path, program, stand_in, launcher):
    asked = Placement(2, None, devices=((0,), (7,)), gpu='cuda')
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    answer = subprocess.run(
        [program(launcher), '-np', '2', 'bash', RANK, 'sleep', '60'], cwd=tmp_path, check=False, timeout=30,
        env=os.environ | root | asked.env_vars | stand_in('nvidia-smi', f'echo "{NVIDIA_SMI}"'),
        capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode != 0
    assert 'plumbline: local rank 1: GPU 7 was requested; nvidia-smi lists: 0, GPU-a' in answer.stderr


@each_row(
    ('named', 'wanted', 'found'),
    [
        (['n1'], 2, ['n1', 'n2']),  # h1 is the host of n1
        (['n1', 'n3'], 2, ['n1', 'n3']),
        ([], 2, ['h1', 'n1', 'n2']),
    ],
)
def test_nodes_that_the_scheduler_does_not_name_are_those_of_the_ranks(tmp_path, named, wanted, found):
    for number, node in enumerate(('n1', 'n2', 'h1'), start=1):
        (folder := tmp_path / f'trial_{number}/run').mkdir(parents=True, exist_ok=True)
        (folder / f'binding.{node}.0').write_text('0\n')
    assert nodes_of(named, wanted, tmp_path, lambda node: node.replace('n', 'h')) == found
    assert nodes_of(named, wanted, tmp_path, None) == named


def two_sockets(cores: int = 8, domains: int = 2) -> Topology:
    """A node of so many NUMA domains; each core has a second thread, numbered after all cores."""

    def parts(number: int) -> tuple[frozenset[int], ...]:
        share = cores // number
        firsts = [range(part * share, (part + 1) * share) for part in range(number)]
        return tuple(frozenset(first) | {cpu + cores for cpu in first} for first in firsts)

    return Topology(tuple((core, core + cores) for core in range(cores)), parts(domains), parts(2), (), 'zen3', 2**34)


@each_row(
    ('ranks', 'threads', 'cpus'),
    [
        (2, 1, ((0,), (4,))),
        (2, None, ((0, 1, 2, 3), (4, 5, 6, 7))),
        (4, 1, ((0,), (2,), (4,), (6,))),
        (4, None, ((0, 1), (2, 3), (4, 5), (6, 7))),
        (2, 2, ((0, 1), (4, 5))),
        (1, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
        (3, 2, ((0, 1), (2, 3), (4, 5))),
    ],
)
def test_ranks_are_spread_evenly_over_the_domains(ranks, threads, cpus):
    placed = ranks_with_threads(two_sockets(), ranks, threads)
    assert (placed.ranks_per_node, placed.cpus, placed.threads) == (ranks, cpus, len(cpus[0]))
    assert (placed.proc_bind, placed.places) == ('close', 'cores')


@each_row('ranks, threads', [(2, 5), (4, 3), (10, None), (2, 0)])
def test_more_cores_than_a_domain_has_are_refused(ranks, threads):
    with pytest.raises(ValueError, match='cores a domain do not suffice'):
        ranks_with_threads(two_sockets(), ranks, threads)


def test_ranks_that_numa_domains_do_not_divide_are_spread_over_sockets():
    node = two_sockets(domains=4)
    assert ranks_with_threads(node, 2, 1).cpus == ((0,), (4,))
    assert ranks_with_threads(node, 4, 1).cpus == ((0,), (2,), (4,), (6,))


def test_one_rank_a_node_socket_and_core_where_they_differ():
    assert {name: placed.cpus for name, placed in one_rank_each(two_sockets()).items()} == {
        'node': ((0,),), 'socket': ((0,), (4,)), 'core': ((0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)),
    }  # fmt: skip
    assert list(one_rank_each(two_sockets(2))) == ['node', 'socket'], 'a core of each socket are all cores'
    assert one_rank_per_core(two_sockets(2)).cpus == ((0,), (1,))


@each_row(
    ('gpus', 'near', 'cpus'),
    [
        (2, (1, 0), ((4, 5, 6, 7), (0, 1, 2, 3))),
        (4, (0, 0, 1, 1), ((0, 1), (2, 3), (4, 5), (6, 7))),
        (3, (1, 0, 1), ((4, 5), (0, 1, 2, 3), (6, 7))),
        (2, (), ((0, 1, 2, 3), (4, 5, 6, 7))),
        (16, (), ()),
        (0, (), ()),
    ],
)
def test_the_cores_of_each_device_are_a_share_of_its_domain(gpus, near, cpus):
    node = replace(two_sockets(), gpus=('sm_90',) * gpus, gpu_numa_ids=near, numa_ids=(0, 1))
    assert cpus_of_devices(node) == cpus

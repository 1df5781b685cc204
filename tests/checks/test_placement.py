# SPDX-License-Identifier: BSD-3-Clause
"""What was requested for each rank against what it got, and the wrapper that asks."""

import os
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from described_nodes import TWO as NODE
from reading import faults_of_ranks
from rows import each_row
from scratch import ROOT

from checks.core.placement import Placement, cpus_of_devices, ranks_with_threads
from checks.core.reading.binding import Gpu, Granted, granted, nodes_of, unlike
from checks.core.topology import Topology
from checks.mpi.osu import one_rank_each

RANK = ROOT / 'checks/core/job/parts/rank.sh'
TWO = Placement(2, ((0,), (1,)))
GPUS = Placement(2, None, devices=((0,), (3,)), gpu='cuda')
# As nvidia-smi 550 prints what rank.sh asks
NVIDIA_SMI = """\
echo "0, GPU-aaaaaaaa-0000-0000-0000-000000000000, 00000000:07:00.0, NVIDIA A100-SXM4-40GB
1, GPU-bbbbbbbb-0000-0000-0000-000000000000, 00000000:46:00.0, NVIDIA A100-SXM4-40GB"
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


def with_tools(folder, **tools: str):
    """The folder with these shell scripts; ``_`` in a name stands for ``-``."""
    (folder / 'bin').mkdir(exist_ok=True)
    for name, script in tools.items():
        path = folder / 'bin' / name.replace('_', '-')
        path.write_text(f'#!/bin/bash\n{script}\n')
        path.chmod(0o755)
    return folder / 'bin'


def start(folder, *command, script=RANK, tools=None, asked=None, **environment):
    """Run a command through `rank.sh`, with these shell scripts before all other programs of their names."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(('OMPI', 'SLURM', 'PLUMBLINE'))}
    clean['PATH'] = f'{with_tools(folder, **tools or {})}:{os.environ["PATH"]}'
    wanted = asked.env_vars if asked else {}
    return subprocess.run(
        ['bash', script, *command], cwd=folder, env=clean | wanted | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def got_of(folder, *command, **options) -> Granted:
    """What the one rank got that ran a command."""
    answer = start(folder, *command, **options)
    assert answer.returncode == 0, answer.stderr
    (got,) = granted(folder).values()
    return got


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


def of_cpus(*cpus: int, **more) -> Granted:
    return Granted(frozenset(cpus), **more)


def with_gpu(number: int, uuid: str) -> Granted:
    return of_cpus(0, devices={number: uuid})


def located(cpu: int, socket: int | None, numa: int) -> Granted:
    return of_cpus(cpu, sockets=frozenset() if socket is None else frozenset({socket}), numa=frozenset({numa}))


def apart(how: str | None) -> Placement:
    return Placement(2, ((0,), (1,)), apart=how)


@each_row(
    ('asked', 'first', 'second', 'fault'),
    [
        (TWO, of_cpus(0), of_cpus(1), None),
        (TWO, of_cpus(0), of_cpus(), 'rank n.1 was requested to run on CPUs [1] and got []'),
        (TWO, of_cpus(0), of_cpus(0, 1), 'rank n.1 was requested to run on CPUs [1] and got [0, 1]'),
        (TWO, of_cpus(0), None, '2 ranks were requested, 1 reported'),
        (Placement(1, None), of_cpus(0, 1), None, None),
        (Placement(1, ((0,),)), of_cpus(0), of_cpus(1), 'rank n.1 was requested to run on CPUs [] and got [1]'),
        (GPUS, with_gpu(0, 'GPU-a'), with_gpu(3, 'GPU-b'), None),
        (GPUS, with_gpu(0, 'GPU-a'), with_gpu(1, 'GPU-b'), 'rank n.1 was requested to see GPUs [3] and got [1]'),
        (GPUS, with_gpu(0, 'GPU-a'), of_cpus(0), 'rank n.1 was requested to see GPUs [3] and got []'),
        (GPUS, with_gpu(0, 'GPU-a'), with_gpu(3, 'GPU-a'), 'GPU 0 of rank n.0 is GPU-a, GPU 3 of rank n.1 is GPU-a'),
        (GPUS, with_gpu(3, 'GPU-a'), with_gpu(3, 'GPU-b'), 'GPU 3 of rank n.0 is GPU-a, GPU 3 of rank n.1 is GPU-b'),
        (Placement(1, None, memory=((0,),)), of_cpus(memory=frozenset({0, 1})), None,
         'requested to take memory from NUMA nodes [0] and got [0, 1]'),
        (Placement(1, None, nics=(('mlx5_0',),)), of_cpus(nics={}), None,
         "requested to use network devices ['mlx5_0'] and got []"),
        # as far apart as asked by the kernel, since the site's description of the CPUs may be wrong
        (apart('same_numa'), located(0, 0, 0), located(1, 0, 0), None),
        (apart('same_numa'), located(0, 0, 0), located(1, 1, 0), 'n.1 on CPU 1 of socket 1, NUMA domain 0'),
        (apart('same_numa'), located(0, None, 0), located(1, None, 0), 'n.1 on CPU 1 of socket unknown, NUMA domain 0'),
        (apart('same_socket'), located(0, 0, 0), located(1, 0, 3), None),
        (apart('same_socket'), located(0, 0, 0), located(1, 0, 0), 'same_socket was requested'),
        (apart('different_socket'), located(0, 0, 0), located(1, 1, 0), None),  # interleaved: one NUMA domain of two
        (apart('different_socket'), located(0, 0, 0), located(1, 0, 3), 'different_socket was requested'),
        (apart(None), located(0, 0, 0), located(1, 1, 3), None),
    ],
)  # fmt: skip
def test_what_was_not_granted_to_the_ranks_of_a_node_is_named(asked, first, second, fault):
    got = {f'n.{rank}': has for rank, has in enumerate((first, second)) if has}
    faults = faults_of_ranks(asked, got, 1)
    assert any(fault in one for one in faults) if fault else faults == []


def test_each_node_has_gpus_of_its_own():
    node = {f'n{i}.{rank}': with_gpu(3 * rank, f'GPU-{i}{rank}') for i in (1, 2) for rank in (0, 1)}
    assert faults_of_ranks(GPUS, node, 2) == []


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
def test_nodes_behind_other_switches_than_asked_for_are_named(asked, switches, why):
    got = {f'n{i}.0': of_cpus(0, switch=switch) for i, switch in enumerate(switches)}
    faults = faults_of_ranks(Placement(1, ((0,),), switches=asked), got, 2)
    assert (why in faults[0]) if why else faults == []


@each_row(
    'variable',
    [
        'OMPI_COMM_WORLD_LOCAL_RANK', 'MPI_LOCALRANKID', 'PALS_LOCAL_RANKID', 'MV2_COMM_WORLD_LOCAL_RANK',
        'FLUX_TASK_LOCAL_ID', 'JSM_NAMESPACE_LOCAL_RANK', 'SLURM_LOCALID',
    ],
)  # fmt: skip
def test_each_launcher_tells_the_local_rank(tmp_path, variable):
    (folder := tmp_path / variable).mkdir()
    cpu = max(os.sched_getaffinity(0))
    asked = Placement(2, ((0,), (cpu,)), devices=((1,), (0,)), gpu='cuda')
    show = ('bash', '-c', 'echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER')
    local = {variable: '1', 'SLURMD_NODENAME': 'n7'}
    answer = start(folder, *show, asked=asked, tools={'nvidia_smi': NVIDIA_SMI}, **local)
    assert (answer.returncode, answer.stdout) == (0, '0 PCI_BUS_ID\n'), answer.stderr
    uuid = 'GPU-aaaaaaaa-0000-0000-0000-000000000000'
    rank = f'{os.uname().nodename if variable == "MPI_LOCALRANKID" else "n7"}.1'
    assert granted(folder) == {rank: Granted(frozenset({cpu}), {0: uuid})}
    assert str(granted(folder)[rank]) == f'{cpu}; GPU 0 {uuid}'


@each_row('variable', [
    'OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'PALS_RANKID', 'MV2_COMM_WORLD_RANK', 'FLUX_TASK_RANK', 'JSM_NAMESPACE_RANK',
    'SLURM_PROCID',
])  # fmt: skip
def test_of_one_rank_a_node_each_takes_the_list_of_its_number_in_the_job(tmp_path, variable):
    (folder := tmp_path / variable).mkdir()
    pair = Placement(1, ((0,), (1,)), across=True)
    for rank, node in enumerate(('n1', 'n2')):
        local = {'OMPI_COMM_WORLD_LOCAL_RANK': '0', 'SLURM_LOCALID': '0', 'SLURMD_NODENAME': node}
        answer = start(folder, 'true', asked=pair, **local, **{variable: str(rank)})
        assert answer.returncode == 0, answer.stderr
    actual = granted(folder)
    assert {name: has.cpus for name, has in actual.items()} == {'n1.0': {0}, 'n2.1': {1}}
    assert faults_of_ranks(pair, actual, 2) == []
    assert faults_of_ranks(pair, {'n1.0': actual['n2.1'], 'n2.1': actual['n2.1']}, 2)


def of_gpu(device: int, kind: str) -> dict[str, str]:
    return Placement(1, None, devices=((device,),), gpu=kind).env_vars


@each_row(
    ('environment', 'tools', 'why'),
    [
        # its launcher is not known: it is not taken for rank 0 of its node
        (TWO.env_vars | {'ALPS_APP_PE': '1'}, {}, 'local rank unknown: its launcher does not say which rank'),
        ({'PLUMBLINE_CPUS': '4095'}, {}, 'local rank 0: taskset --cpu-list 4095 was requested; it says: taskset: f'),
        ({'PLUMBLINE_CPUS': '0', 'SLURM_LOCALID': '3'}, {}, 'local rank 3'),
        (of_gpu(2, 'cuda'), {'nvidia_smi': NVIDIA_SMI}, 'GPU 2 was requested; nvidia-smi lists: 0, GPU-aaaaaaaa'),
        (of_gpu(0, 'cuda'), {'nvidia_smi': 'echo "No devices"; exit 6'}, 'nvidia-smi says: No devices'),
        (of_gpu(0, 'cuda'), {}, 'GPU 0 was requested; nvidia-smi, which lists the GPUs, is not on PATH'),
        (of_gpu(2, 'rocm'), {'rocminfo': ROCMINFO}, 'GPU 2 was requested; rocminfo then lists: none'),
        (of_gpu(0, 'rocm'), {'rocminfo': 'echo "ROCk module is NOT loaded"; exit 1'}, 'ROCk module is NOT loaded'),
        (of_gpu(0, 'cuda') | {'PLUMBLINE_GPU': 'sycl'}, {}, "expected one of cuda rocm, found 'sycl'"),
        (Placement(1, None, memory=((0,),)).env_vars, {}, 'numactl --membind=0 was requested; it says: '),
        (Placement(1, None, nics=(('mlx5_77',),)).env_vars, {}, 'network device mlx5_77 was requested'),
    ],
)
def test_a_rank_that_cannot_have_what_was_asked_ends_before_its_program(tmp_path, environment, tools, why):
    """Bash, taskset and the tools are the only programs on PATH."""
    shutil.rmtree(tmp_path / 'bin', ignore_errors=True)
    path = with_tools(tmp_path, **tools)
    for name in ('bash', 'taskset'):
        (path / name).symlink_to(shutil.which(name))
    answer = start(tmp_path, 'echo', 'ran', **environment, PATH=str(path))
    assert (answer.returncode, answer.stdout) == (125, '')
    assert answer.stderr.startswith('plumbline: local rank ') and why in answer.stderr
    assert granted(tmp_path) == {}


# Devices, memory and network devices


def test_several_devices_of_a_rank_in_their_order(tmp_path):
    asked = Placement(1, None, devices=((1, 0),), gpu='cuda')
    got = got_of(tmp_path, 'true', asked=asked, tools={'nvidia_smi': NVIDIA_SMI})
    assert [(number, uuid[:7]) for number, uuid in got.devices.items()] == [(1, 'GPU-bbb'), (0, 'GPU-aaa')]
    assert got.gpus[1] == Gpu('0000:46:00.0', -1, 'NVIDIA A100-SXM4-40GB'), 'this host has no such device'


def test_rocm_is_told_once_which_devices_there_are(tmp_path):
    show = 'echo "$ROCR_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES/$CUDA_VISIBLE_DEVICES/$GPU_DEVICE_ORDINAL"'
    before = {'HIP_VISIBLE_DEVICES': '0', 'CUDA_VISIBLE_DEVICES': '0', 'GPU_DEVICE_ORDINAL': '0'}
    answer = start(tmp_path, 'bash', '-c', show, tools={'rocminfo': ROCMINFO}, **of_gpu(1, 'rocm'), **before)
    assert (answer.returncode, answer.stdout) == (0, '1///\n'), answer.stderr
    (got,) = granted(tmp_path).values()
    assert got.devices == {1: 'GPU-00001'} and got.gpus == {1: Gpu('-', -1, 'AMD Instinct MI250X')}


@each_row(('kind', 'address'), [('cuda', '0000:07:00.0'), ('rocm', '0002:c1:00.0')])
def test_a_gpu_is_told_with_its_address_and_the_numa_domain_near_it(tmp_path, kind, address):
    """BDFID 49408 is bus c1, device 0, function 0, of which the kernel knows the PCI domain."""
    script = tmp_path / 'parts'
    shutil.copytree(RANK.parent, script, dirs_exist_ok=True)
    for part in script.glob('*.sh'):
        part.write_text(part.read_text().replace('/sys/bus/pci/', f'{tmp_path}/'))
    for folder in ('devices', 'drivers/amdgpu'):
        (tmp_path / folder / address).mkdir(parents=True)
        (tmp_path / folder / address / 'numa_node').write_text('3\n')
    tools = {'nvidia_smi': NVIDIA_SMI, 'rocminfo': ROCMINFO}
    got = got_of(tmp_path, 'true', script=script / 'rank.sh', tools=tools, **of_gpu(0, kind))
    assert (got.gpus[0].address, got.gpus[0].near) == (address, 3)


def test_gpus_in_another_order_than_the_site_states_are_named():
    gpus = {n: Gpu(f'0000:0{n}:00.0', near, 'NVIDIA A100') for n, near in enumerate((3, 2, -1))}
    actual = {'n1.0': Granted(frozenset({0}), gpus=gpus)}
    placement = Placement(1, ((0,),))
    assert faults_of_ranks(placement, actual, 1, near=(3, 2, 1, 0)) == []
    assert faults_of_ranks(placement, actual, 1) == []
    (fault,) = faults_of_ranks(placement, actual, 1, near=(0, 2, 2, 3))
    assert 'GPU 0 at 0000:00:00.0 is near NUMA domain 3' in fault and '0, 2, 2, 3' in fault
    assert 'GPU 1' not in fault.partition(';')[0] and 'GPU 2' not in fault


@each_row(
    ('said', 'name', 'right'),
    [
        ('NVIDIA A100-SXM4-40GB', 'NVIDIA A100-SXM4-40GB', True),
        ('NVIDIA A100-SXM4-40GB at 0000:07:00', 'NVIDIA A100-SXM4-40GB', True),
        ('NVIDIA A100-SXM4-40GB at 0000:0f:00', 'NVIDIA A100-SXM4-40GB', False),  # another one of the node
        ('gfx90a:sramecc+:xnack-', 'AMD Instinct MI250X', True),  # as OpenCL calls it
        ('Intel(R) Data Center GPU Max 1550', 'Intel Data Center GPU Max 1550', True),
        ('pthread-skylake-avx512-AMD EPYC', 'AMD Instinct MI250X', False),  # PoCL, on the processor
        ('AMD EPYC', 'AMD Instinct MI250X', False),  # HIP-CPU
        ('anything', '', True),  # the tool does not say its name
    ],
)
def test_a_program_that_ran_on_another_device_or_on_the_processor_is_named(said, name, right):
    actual = {'n1.0': Granted(frozenset({0}), gpus={0: Gpu('0000:07:00.0', 0, name)})}
    faults = unlike([said, said], actual, ['gfx90a'])
    assert faults == ([] if right else [f'the program says that it ran on {said}; it was given {name} at 0000:07:00.0'])


def test_memory_of_one_numa_node(tmp_path, program):
    numactl = program('numactl')
    if subprocess.run([numactl, '--membind=0', 'true'], check=False, capture_output=True).returncode:
        pytest.skip('this machine lets nobody choose where memory comes from')
    cpu = min(os.sched_getaffinity(0))
    answer = start(tmp_path, 'numactl', '--show', asked=Placement(1, ((cpu,),), memory=((0,),)))
    assert 'membind: 0' in answer.stdout, answer.stderr
    (got,) = granted(tmp_path).values()
    assert got == Granted(frozenset({cpu}), memory=frozenset({0}))
    nowhere = start(tmp_path, 'echo', 'ran', asked=Placement(1, None, memory=((63,),)))
    assert (nowhere.returncode, nowhere.stdout) == (125, '')
    assert '--membind=63' in nowhere.stderr and 'node argument 63' in nowhere.stderr


PORT = 'class__infiniband__mlx5_1__ports__1__'


@each_row(
    ('nic', 'files', 'seen', 'rate'),
    [
        ('mlx5_1', {f'{PORT}state': '4: ACTIVE', f'{PORT}rate': '100 Gb/sec (2X HDR)'}, 'mlx5_1:1/',
         '100 Gb/sec (2X HDR)'),
        ('cxi0', {'class__cxi__cxi0__uevent': ''}, '/cxi0', ''),
        ('lo', {'class__net__lo__uevent': ''}, 'lo/', ''),
    ],
)  # fmt: skip
def test_a_network_device_is_told_to_ucx_or_libfabric_and_its_rate_written_down(
    tmp_path, other_sys, nic, files, seen, rate
):
    asked, show = Placement(1, None, nics=((nic,),)), 'echo $UCX_NET_DEVICES/$FI_CXI_DEVICE_NAME'
    answer = start(tmp_path, 'bash', '-c', show, script=other_sys(**files), asked=asked)
    assert answer.stdout == f'{seen}\n', answer.stderr
    actual = granted(tmp_path)
    (got,) = actual.values()
    assert got.nics == {nic: rate} and f'; {nic} {rate}'.rstrip() in str(got)
    assert faults_of_ranks(asked, actual, 1) == []


def test_an_infiniband_port_that_is_down_ends_the_rank(tmp_path, other_sys):
    script = other_sys(**{f'{PORT}state': '1: DOWN', f'{PORT}rate': '10 Gb/sec (4X SDR)'})
    answer = start(tmp_path, 'echo', 'ran', script=script, asked=Placement(1, None, nics=(('mlx5_1',),)))
    assert (answer.returncode, answer.stdout) == (125, '')
    assert 'mlx5_1' in answer.stderr and 'state 1: DOWN' in answer.stderr


def test_sockets_and_numa_domains_are_the_kernels(tmp_path, other_sys):
    first, *_ = sorted(os.sched_getaffinity(0))
    cpu = f'devices__system__cpu__cpu{first}__'
    script = other_sys(**{f'{cpu}topology__physical_package_id': '8', f'{cpu}node16__uevent': ''})
    asked = Placement(1, ((first,),), apart='same_numa')
    got = got_of(tmp_path, 'true', script=script, asked=asked)
    assert got == Granted(frozenset({first}), sockets=frozenset({8}), numa=frozenset({16}))
    other_sys(**{f'{cpu}topology__physical_package_id': '-1'})  # the firmware does not say
    assert got_of(tmp_path, 'true', script=script, asked=asked).sockets == frozenset()


def test_the_switch_that_slurm_tells(tmp_path):
    start(tmp_path, 'true', SLURMD_NODENAME='n1', SLURM_TOPOLOGY_ADDR='spine.leaf2.n1')
    start(tmp_path, 'true', SLURMD_NODENAME='n2', SLURM_TOPOLOGY_ADDR='n2')  # without a topology plugin
    assert {rank: got.switch for rank, got in granted(tmp_path).items()} == {'n1.0': 'spine.leaf2', 'n2.0': ''}


@pytest.mark.parametrize('launcher', ['mpirun.openmpi', 'mpirun.mpich'])
def test_a_rank_that_cannot_have_its_device_ends_all(tmp_path, program, launcher):
    asked = Placement(2, None, devices=((0,), (7,)), gpu='cuda')
    root = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    path = {'PATH': f'{with_tools(tmp_path, nvidia_smi=NVIDIA_SMI)}:{os.environ["PATH"]}'}
    answer = subprocess.run(
        [program(launcher), '-np', '2', 'bash', RANK, 'sleep', '60'], cwd=tmp_path, check=False, timeout=30,
        env=os.environ | root | asked.env_vars | path, capture_output=True, text=True,
    )  # fmt: skip
    assert answer.returncode != 0
    assert 'local rank 1: GPU 7 was requested' in answer.stderr and '0, GPU-a' in answer.stderr


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


# Cores of a node


def node(domains: int, sockets: int, cores: int = 8) -> Topology:
    """A node of so many NUMA domains; each core has a second thread, numbered after all cores."""

    def parts(number: int) -> tuple[frozenset[int], ...]:
        share = cores // number
        firsts = [range(part * share, (part + 1) * share) for part in range(number)]
        return tuple(frozenset(first) | {cpu + cores for cpu in first} for first in firsts)

    threads = tuple((core, core + cores) for core in range(cores))
    return replace(NODE, cores=threads, numa_domains=parts(domains), sockets=parts(sockets))


@each_row(
    ('domains', 'ranks', 'threads', 'cpus'),
    [
        (2, 2, 1, ((0,), (4,))),
        (2, 4, None, ((0, 1), (2, 3), (4, 5), (6, 7))),
        (2, 1, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
        (2, 3, 2, ((0, 1), (2, 3), (4, 5))),
        (4, 2, 1, ((0,), (4,))),  # by sockets, as they do not divide the ranks by domains
    ],
)
def test_ranks_are_spread_evenly_over_the_domains(domains, ranks, threads, cpus):
    placed = ranks_with_threads(node(domains, 2), ranks, threads)
    assert (placed.ranks_per_node, placed.cpus, placed.threads) == (ranks, cpus, len(cpus[0]))
    assert (placed.proc_bind, placed.places) == ('close', 'cores')


@each_row('ranks, threads', [(2, 5), (10, None), (2, 0)])
def test_more_cores_than_a_domain_has_are_refused(ranks, threads):
    with pytest.raises(ValueError, match='cores a domain do not suffice'):
        ranks_with_threads(node(2, 2), ranks, threads)


@each_row(
    ('topology', 'placed'),
    [
        (node(1, 1, cores=1), {'node': ((0,),)}),
        (node(2, 1, cores=4), {'node': ((0,),), 'core': ((0,), (1,), (2,), (3,))}),
        (node(2, 2, cores=4), {'node': ((0,),), 'socket': ((0,), (2,)), 'core': ((0,), (1,), (2,), (3,))}),
        (node(2, 2, cores=2), {'node': ((0,),), 'socket': ((0,), (1,))}),  # a core of each socket are all cores
    ],
)
def test_one_rank_a_node_socket_and_core_where_they_differ(topology, placed):
    assert {name: one.cpus for name, one in one_rank_each(topology).items()} == placed


@each_row(
    ('gpus', 'near', 'cpus'),
    [(3, (1, 0, 1), ((4, 5), (0, 1, 2, 3), (6, 7))), (2, (), ((0, 1, 2, 3), (4, 5, 6, 7))), (16, (), ())],
)
def test_the_cores_of_each_device_are_a_share_of_its_domain(gpus, near, cpus):
    assert cpus_of_devices(replace(node(2, 2), gpus=('sm_90',) * gpus, gpu_numa_ids=near)) == cpus

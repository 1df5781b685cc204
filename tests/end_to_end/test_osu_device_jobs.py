# SPDX-License-Identifier: BSD-3-Clause
"""OSU Micro-Benchmarks between GPUs through real jobs on a described node: stand-ins for the programs replay what they
printed in the memory of the host, with the banner of one for GPUs, and `nvidia-smi` knows two GPUs."""

import itertools
import re

import pytest
from scratch import OUTPUTS
from test_doe_jobs import dry_run
from test_osu_jobs import MPIRUN, needs_two_cpus, run, values

from checks.core.placement import parse_cpu_list

CHECK = 'checks/mpi/osu_devices.py'
NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}
devices: [{type: gpu, arch: sm_80, num_devices: 2}]
link_classes:
  A: {pairs: [[0, 1]], both_directions: true, peak: 25 GB/s}
"""
# Eight devices as of four MI250X
EIGHT = """\
processor: {num_cpus: 64, num_cpus_per_core: 1, num_sockets: 1, num_numa_domains: 4}
devices: [{type: gpu, arch: gfx90a, num_devices: 8}]
link_classes:
  A: {pairs: [[0, 1], [2, 3], [4, 5], [6, 7]]}
  D: {pairs: [[0, 7]]}
"""
# Latency of the smallest message: 0.10 us and the number of the device that the first rank sees. Buffers of the host
# have one size, at SLOWER us or MB/s
REPLAY = r"""
FAULT
[ ${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID} = 0 ] || exit 0
name=${0##*/} file=OUTPUTS/${0##*/}-7.4.txt
[ $name = osu_latency ] && file=OUTPUTS/osu_latency-7.4-all-sizes.txt
if [[ "$*" = *" H H" ]]; then
    sed -n 's/^# OSU MPI/&-CUDA/p; /^# Size/p' $file
    echo "4194304              SLOWER"
    exit 0
fi
sed -e 's/^# OSU MPI/&-CUDA/' -e "s/^\(1  .*\)0\.18$/\10.1$CUDA_VISIBLE_DEVICES/" $file
"""
SMI = 'echo "0, GPU-aaaa, 00000000:07:00.0, NVIDIA A100"; echo "1, GPU-bbbb, 00000000:46:00.0, NVIDIA A100"'


@pytest.fixture
def node(clone):
    """A clone with the described node; `node.programs(fault)` puts the stand-ins there."""

    def programs(fault: str = '', smi: str = SMI, partition: str = NODE, feature: str = 'osu-cuda'):
        clone.describe(partition, feature, launcher='mpirun')
        replay = REPLAY.replace('FAULT', fault).replace('OUTPUTS', str(OUTPUTS))
        for name, slower in (('osu_latency', '4000.00'), ('osu_bw', '2000.00'), ('osu_bibw', '')):
            clone.program(replay.replace('SLOWER', slower), name)
        clone.program(MPIRUN, 'mpirun')
        clone.program(smi, 'nvidia-smi')
        return clone

    clone.programs = programs
    return clone


def runs_of(script: str) -> dict[str, tuple[dict[str, str], str]]:
    """Name -> (what it asks rank.sh for, its words)."""
    lines = re.findall(r'^(osu_\w+|host_buffers)\)(.*) options=\((.*)\) ;;$', script, re.MULTILINE)
    return {
        name: (dict(re.findall(r'export PLUMBLINE_(\w+)=(\S+);', exports)), words) for name, exports, words in lines
    }


def listed(clone, *options) -> set[str]:
    lines = clone.reframe('-l', *options, checks=CHECK).stdout.splitlines()
    return {line.split('/')[0].removeprefix('- ').strip() for line in lines if line.startswith('- Osu')}


def test_pairs_and_cores_of_a_node_of_eight_devices_in_the_job_script(node):
    node.programs(partition=f'{EIGHT}num_nodes: 2\n', feature='osu-rocm')
    named = 'OsuDeviceBandwidth.*host.*A.*all|OsuDeviceRails.*device-device.*cross|OsuDeviceCollectives%nodes=2'
    answer = node.reframe('--dry-run', '-n', named, checks=CHECK)
    assert answer.returncode == 0, answer.stdout
    stage = node.results / 'stage'
    (script,), (rails,), (collectives,) = (
        stage.rglob(f'OsuDevice{check}*/rfm_job.sh') for check in ('Bandwidth', 'Rails', 'Collectives')
    )
    cores = [f'{",".join(map(str, range(8 * device, 8 * device + 8)))}' for device in range(8)]
    assert runs_of(rails.read_text()) == {
        f'{program}_{a}_{b}': (
            {'CPUS': f'{cores[a]}:{cores[b]}', 'DEVICES': f'{a}:{b}'},
            f'{program} -m 1:4194304 -d rocm D D',
        )
        for program in ('osu_latency', 'osu_bw', 'osu_bibw')
        for a, b in ((0, 4), (1, 5), (2, 6), (3, 7), (4, 0), (5, 1), (6, 2), (7, 3))
    } | {
        'host_buffers': (
            {'CPUS': f'{cores[0]}:{cores[4]}', 'DEVICES': '0:4'},
            'osu_latency -m 65536:65536 -d rocm H H',
        )
    }
    for job, lines in ((rails, {'GPU=rocm', 'ACROSS=1'}), (script, {'GPU=rocm'}), (collectives, {'GPU=rocm'})):
        assert lines <= set(re.findall(r'^export PLUMBLINE_(.*)$', job.read_text(), re.MULTILINE))
    assert f'export PLUMBLINE_CPUS={":".join(cores)}\n' in collectives.read_text()
    assert 'PLUMBLINE_DEVICES=0:1:2:3:4:5:6:7\n' in collectives.read_text()
    assert runs_of(collectives.read_text())['osu_alltoall'] == ({}, 'osu_alltoall -m 1:1048576 -d rocm')
    assert runs_of(script.read_text()) == {
        f'{program}_{a}_{a + 1}': (
            {'CPUS': f'{cores[a]}:{cores[a + 1]}', 'DEVICES': f'{a}:{a + 1}'},
            f'{program} -m 1:4194304 -d rocm H D',
        )
        for program in ('osu_bw', 'osu_bibw')
        for a in (0, 2, 4, 6)
    }


MI250X = (48, 56, 16, 24, 0, 8, 32, 40)  # two devices in each of four NUMA domains of 16 cores
FRONTIER = tuple(core + 1 for core in MI250X)  # the first of each eight is kept for the system


@pytest.mark.parametrize(
    ('site', 'gpu', 'firsts', 'classes'),
    [
        ('frontier', 'rocm', FRONTIER, 'ABCD'), ('tioga', 'rocm', MI250X, 'ABCD'),
        ('summit', 'cuda', (0, 28, 56, 88, 116, 144), 'AB'), ('polaris', 'cuda', (24, 16, 8, 0), 'A'),
    ],
)  # fmt: skip
def test_sites_of_the_study_have_a_case_for_each_class_of_table_5(clone, site, gpu, firsts, classes):
    """`firsts`: for each device the first CPU of its rank, near to it where the machine's guide says what is near."""
    scripts = dry_run(clone, site, CHECK, '-n', 'OsuDeviceLatency.*device-device')
    case = 'OsuDeviceLatency %buffers=device-device %link_class={} %pairs={}'
    assert set(scripts) == {case.format(name, pairs) for name in classes for pairs in ('first', 'all')}
    seen = []
    for name in classes:
        runs = runs_of(scripts[case.format(name, 'all')])
        assert next(iter(runs.items())) in runs_of(scripts[case.format(name, 'first')]).items()
        assert f'export PLUMBLINE_GPU={gpu}\n' in scripts[case.format(name, 'all')]
        of_hosts, compared = runs.pop('host_buffers'), next(iter(runs.values()))
        assert of_hosts == (compared[0], f'osu_latency -m 4194304:4194304 -d {gpu} H H')
        for run_name, (asked, words) in runs.items():
            first, second = map(int, asked['DEVICES'].split(':'))
            seen.append(frozenset((first, second)))
            assert run_name == f'osu_latency_{first}_{second}'
            assert words == f'osu_latency -m 1:4194304 -d {gpu} D D'
            near, far = (parse_cpu_list(cpus) for cpus in asked['CPUS'].split(':'))
            assert (min(near), min(far)) == (firsts[first], firsts[second]) and not near & far
    assert sorted(map(sorted, seen)) == [list(pair) for pair in itertools.combinations(range(len(firsts)), 2)]


def test_pairs_of_devices_have_cases_of_their_own_where_they_are_asked_for(node):
    """By ReFrame's -P, which takes the values of a parameter; a pair that no class has is no case."""
    node.programs(partition=EIGHT, feature='osu-rocm')
    asked = ('-P', 'OsuDeviceLatency.pairs=0_1,2_3,0_7,1_0,7_9', '-n', 'OsuDeviceLatency.*device-device')
    case = 'OsuDeviceLatency %buffers=device-device %link_class={} %pairs={}'.format
    assert listed(node, *asked) == {case('A', '0_1'), case('A', '2_3'), case('D', '0_7')}
    answer = node.reframe('--dry-run', *asked, checks=CHECK)
    assert answer.returncode == 0, answer.stdout
    scripts = (node.results / 'stage').rglob('OsuDevice*/rfm_job.sh')
    assert sorted(list(runs_of(script.read_text())) for script in scripts) == [
        [f'osu_latency_{pair}', 'host_buffers'] for pair in ('0_1', '0_7', '2_3')
    ]


def test_ranks_run_near_their_devices_and_hosts_buffers_are_there_where_the_site_says_where(node):
    described = EIGHT.replace('num_devices: 8', 'num_devices: 8, numa_domains: [3, 3, 1, 1, 0, 0, 2, 2]')
    node.programs(partition=described, feature='osu-rocm')
    answer = node.reframe('--dry-run', '-n', 'OsuDeviceLatency.*(host|device-device).*A.*all', checks=CHECK)
    assert answer.returncode == 0, answer.stdout
    asked = {}
    for script in (node.results / 'stage').rglob('OsuDevice*/rfm_job.sh'):
        for run_name, (variables, words) in runs_of(script.read_text()).items():
            asked[run_name, words[-3:]] = variables
    assert len(asked) == 8 + 1  # that of the first pair with buffers of the host
    near = {(0, 1): (3, 48), (2, 3): (1, 16), (4, 5): (0, 0), (6, 7): (2, 32)}  # -> domain, its first core
    for (a, b), (domain, first) in near.items():
        cpus = ':'.join(','.join(map(str, range(start, start + 8))) for start in (first, first + 8))
        expected = {'CPUS': cpus, 'DEVICES': f'{a}:{b}'}
        assert asked[f'osu_latency_{a}_{b}', 'D D'] == expected
        assert asked[f'osu_latency_{a}_{b}', 'H D'] == expected | {'MEMORY': f'{domain}:{domain}'}


@needs_two_cpus
def test_replayed_latency_of_both_directions_of_a_pair(node):
    node.programs('[[ "$*" =~ ^-m" "(1:4194304" -d cuda D D"|4194304:4194304" -d cuda H H")$ ]] || exit 9')
    case = run(node, 'OsuDeviceLatency.*device-device.*all', check=CHECK)
    assert case['result'] == 'pass', case['fail_reason']
    found, record = values(case), case['record']
    times = '4194304 bytes take 1914.1 us between the GPUs and 4000.0 us between the hosts'
    assert record['provenance']['gpu_buffers'] == f'direct: {times}'
    assert record['params'] == 'buffers=device-device,link_class=A,pairs=all'
    assert len(found) == 2 * 23 + 1
    curves = [found[f'latency message_bytes=1,pair={pair}'] for pair in ('0-1', '1-0')]
    assert (curves, found['mpi_latency']) == ([0.10, 0.11], pytest.approx(0.105))
    judged = {name for name, metric in record['metrics'].items() if metric['judged']}
    assert judged == {'mpi_latency'} | {
        f'latency message_bytes={size},pair={pair}' for size in (1, 2, 4, 8) for pair in ('0-1', '1-0')
    }
    assert record['placement']['actual'] == {
        'osu_latency_0_1 n0.0': '0; GPU 0 GPU-aaaa', 'osu_latency_0_1 n0.1': '1; GPU 1 GPU-bbbb',
        'osu_latency_1_0 n0.0': '1; GPU 1 GPU-bbbb', 'osu_latency_1_0 n0.1': '0; GPU 0 GPU-aaaa',
        'host_buffers n0.0': '0; GPU 0 GPU-aaaa', 'host_buffers n0.1': '1; GPU 1 GPU-bbbb',
    }  # fmt: skip


@needs_two_cpus
def test_a_rank_that_got_another_gpu_fails_the_case(node):
    node.programs('sed -i "s/^gpu 1/gpu 0/" binding.n0.1', SMI)
    case = run(node, 'OsuDeviceLatency.*device-device.*first', check=CHECK)
    assert case['result'] == 'fail'
    assert 'rank n0.1 was requested to see GPUs [1] and got [0]' in case['fail_reason']


# Under a real Slurm


@pytest.fixture
def on_slurm(node, slurm):
    """Runs a case there, its programs and `nvidia-smi` replaced by stand-ins."""
    local = 'scheduler: local\n    launcher: mpirun'
    remote = 'scheduler: slurm\n    launcher: srun\n    access: [-p compute]'

    def run_there(fault: str = '', smi: str = SMI):
        node.programs(fault, smi)
        text = node.site_file.read_text()
        assert local in text
        node.site_file.write_text(text.replace(local, remote))
        environment = slurm | {'PATH': f'{node.environment()["PATH"]}:{slurm["PATH"]}'}
        return run(node, 'OsuDeviceLatency.*device-device.*first', check=CHECK, **environment)

    return run_there


@needs_two_cpus
def test_replay_under_srun_whose_steps_have_all_cpus_of_a_node(on_slurm):
    """Four each; where Slurm confines a step to its own by cgroups, no rank could run on others."""
    case = on_slurm('[ "$SLURM_CPUS_ON_NODE" = 4 ] || exit 7')
    assert case['result'] == 'pass', case['fail_reason']
    got = case['record']['placement']['actual']
    assert list(got.values()) == 2 * ['0; GPU 0 GPU-aaaa', '1; GPU 1 GPU-bbbb']
    (host,) = case['record']['job']['nodes']
    assert list(got) == [f'{run} {host}.{rank}' for run in ('osu_latency_0_1', 'host_buffers') for rank in (0, 1)]


@needs_two_cpus
def test_srun_does_not_wait_for_a_rank_whose_partner_has_no_gpu(on_slurm):
    case = on_slurm('sleep 200', 'echo "0, GPU-aaaa, 00000000:07:00.0, NVIDIA A100"')
    assert case['result'] == 'fail'
    assert 'local rank 1: GPU 1 was requested; nvidia-smi lists: 0, GPU-aaaa' in case['fail_reason']
    assert case['time_run'] < 60

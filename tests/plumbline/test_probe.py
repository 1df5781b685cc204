# SPDX-License-Identifier: BSD-3-Clause
"""plumbline probe: this machine as it is, and clusters whose Slurm is a stand-in that prints what sinfo prints."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from commands import run_command
from rows import each_row
from scratch import OUTPUTS
from test_node import tree

from plumbline.machine import detect
from plumbline.machine.node import SCRIPT
from plumbline.site import probe, schedulers
from plumbline.site.sites import load_site, read_site

GPU = 'gpu|16|2|64|2|515000|gpu:a100:4(S:0-1),nvme:1|1-12:30:00'
SINFO = f"""\
compute|100|2|48|1|385000|(null)|infinite
compute|4|2|48|1|770000|(null)|infinite
{GPU}
2080ti|1|1|8|2|1|gpu:1|10:00
empty|0|1|1|1|1|(null)|infinite
"""
SOCKETS = {
    'arch': 'zen3', 'num_cpus': 256, 'num_cpus_per_core': 2, 'num_cpus_per_socket': 128, 'num_sockets': 2,
    'topology': {
        'numa_nodes': [hex((2**64 - 1) << 64 * i | (2**64 - 1) << 128 + 64 * i) for i in range(2)],
        'sockets': [hex((2**64 - 1) << 64 * i | (2**64 - 1) << 128 + 64 * i) for i in range(2)],
        'cores': [hex(1 << i | 1 << 128 + i) for i in range(128)],
        'caches': [
            {'type': 'L1', 'size': 32768, 'cpusets': [hex(1 << i | 1 << 128 + i) for i in range(128)]},
            {'type': 'L3', 'size': 2**25, 'cpusets': [hex(255 << 8 * i | 255 << 128 + 8 * i) for i in range(16)]},
        ],
    },
    'numa_ids': [0, 1], 'numa_distances': [[10, 32], [32, 10]],
}  # fmt: skip


@pytest.fixture
def slurm(programs, tmp_path):
    """A sinfo that says `said` of the cluster, and `of_node` of a single node."""

    def answers(said: str, of_node: str = ''):
        (tmp_path / 'all').write_text(said)
        (tmp_path / 'node').write_text(of_node)
        programs('sinfo', f'case "$*" in *--nodes=*) cat {tmp_path}/node;; *) cat {tmp_path}/all;; esac')

    return answers


def plumbline(*words, code=0):
    result = run_command(['probe', *words], env={'PLUMBLINE_SITE': None})
    assert result.exit_code == code, result.output
    return result


def site_of(text: str, folder: Path):
    """What the loader makes of the text."""
    (folder / 'here').mkdir(exist_ok=True)
    (folder / 'here/site.yaml').write_text(text)
    read_site.cache_clear()
    return load_site('here', folder)


def test_this_machine_without_slurm(programs, tmp_path):
    assert site_of(plumbline().stdout, tmp_path).environs['system'].features == ()
    programs('likwid-bench', '')
    text = plumbline().stdout
    site = site_of(text, tmp_path)
    (partition,) = site.partitions.values()
    assert (partition.name, partition.entry['scheduler'], partition.entry['max_jobs']) == ('node', 'local', 1)
    assert site.matches(os.uname().nodename) and site.environs['system'].features == ('likwid',)
    found = detect.detect_machine()
    assert partition.processor['num_cpus'] == found['processor']['num_cpus'] == len(os.sched_getaffinity(0))
    assert partition.memory_bytes == int(found['memory_per_node'].split()[0]) // 2**20 * 2**20
    assert partition.flop_per_cycle == found.get('peaks', {}).get('flop_per_cycle', {})
    assert '# add to peaks: memory_bandwidth of a node' in text
    assert 'Slurm' not in text


FACTS = """\
kernel\t-\t5.14.0
kernel_command_line\t-\tBOOT_IMAGE=/vmlinuz
kernel_command_line\t-\tmitigations=off
smt_active\t-\t0
governor\tCPU 0\tperformance
governor\tCPU 1\tpowersave
core_clock\tCPU 0\t3700 MHz
core_clock\tCPU 1\t3700 MHz
transparent_hugepages\t-\talways [madvise] never
turbo\t!\tcpufreq/boost cannot be read
gpus\t-\t4096
gpu_compute_mode\tGPU 0\tExclusive_Process
gpu_compute_mode\tGPU 1\tExclusive_Process
gpu_partition\tGPU 0\tSPX/NPS1
gpu_partition\tGPU 1\tSPX/NPS1
nics\t-\t2
nic_rate\tmlx5_0\t200 Gb/s
nic_rate\tmlx5_1\t200 Gb/s
file_systems\t-\t/scratch lustre
file_systems\t-\t/tmp tmpfs
"""


def test_how_the_node_is_set_becomes_what_is_expected(programs, tmp_path, monkeypatch):
    programs('bash', f"cat <<'E'\n{FACTS}E")
    text = plumbline().stdout
    (partition,) = site_of(text, tmp_path).partitions.values()
    assert dict(partition.expects) == {
        'kernel': '5.14.0', 'kernel_command_line': 'mitigations=off', 'smt_active': '0', 'core_clock': '3700 MHz',
        'gpu_compute_mode': 'Exclusive_Process', 'gpu_partition': 'SPX/NPS1',
        'transparent_hugepages': 'madvise', 'nics': '2', 'nic_rate': '200 Gb/s', 'file_systems': '/scratch lustre',
    }  # fmt: skip
    assert '# governor: ' in text and 'performance, powersave' in text
    assert '# gpus: the node has 4096, this process sees 0' in text


@pytest.fixture
def login_node(monkeypatch):
    """A machine that is no node of the site, so nothing may look at it."""
    monkeypatch.setattr(detect, 'detect_machine', lambda *_: pytest.fail('a login node was looked at'))


def test_partitions_of_slurm_from_a_login_node(slurm, tmp_path, login_node):
    slurm(SINFO)
    text = plumbline().stdout
    site = site_of(text, tmp_path)
    assert list(site.partitions) == ['compute', 'gpu', 'p2080ti']
    compute, gpu, small = site.partitions.values()
    assert compute.reframe()['access'] == ['-p compute']
    assert (compute.entry['scheduler'], compute.entry['launcher'], compute.num_nodes) == ('slurm', 'srun', 100)
    assert compute.processor == {'num_cpus': 96, 'num_cpus_per_core': 1, 'num_sockets': 2}
    assert '4 nodes of 2 sockets, 96 cores, 770000 MiB' in text
    assert gpu.processor == {'num_cpus': 256, 'num_cpus_per_core': 2, 'num_sockets': 2}
    assert (gpu.memory_bytes, gpu.entry['devices']) == (
        515000 * 2**20,
        [{'type': 'gpu', 'num_devices': 4, 'model': 'a100'}],
    )
    assert (small.memory_bytes, small.entry['devices']) == (None, [{'type': 'gpu', 'num_devices': 1}])
    assert small.reframe()['access'] == ['-p 2080ti']
    assert [one.max_time for one in (gpu, small)] == [36 * 3600 + 1800, 600] and text.count('max_time') == 2
    assert text.count('# add link_classes') == 1  # not for one GPU
    assert 'as the scheduler lists them' in text
    assert f'#   srun -p gpu -N 1 -n 1 --exclusive --gpus-per-node=4 bash {SCRIPT} "$(cat ' in text


def test_a_job_without_python_describes_its_node_and_others_are_as_slurm_says(slurm, programs, monkeypatch, tmp_path):
    slurm(SINFO)
    for name in ('bash', 'uname'):  # no Python
        Path(os.environ['PATH'], name).symlink_to(shutil.which(name, path=os.defpath))
    programs('srun', """[ "$2" = compute ] || { echo "srun: no account" >&2; exit 1; }
        while [ "$1" != bash ]; do shift; done
        SLURMD_NODENAME=node7 exec "$@" """)  # fmt: skip
    monkeypatch.setenv('SLURM_ACCOUNT', 'hpc1')
    said = []
    text = probe.site_yaml(said.append)
    assert 'name: compute  # detected on node node7\n' in text and 'access: [-p gpu, -A hpc1]' in text
    compute = site_of(text, tmp_path).partitions['compute']
    assert compute.processor['num_cpus'] == os.sysconf('SC_NPROCESSORS_CONF') and 'arch' in compute.processor
    assert compute.memory_bytes == 385000 * 2**20 and 'it also has 4 nodes' in text
    assert 'srun -p gpu' in text, 'the way to the rest'
    assert next(line for line in said if 'no account' in line).startswith('partition gpu: described as Slurm does')


def test_accounts_and_qos_are_those_that_each_partition_takes(programs, tmp_path, monkeypatch):
    monkeypatch.setenv('USER', 'root')
    programs('sinfo', f'cat {OUTPUTS}/sinfo-22.05.8-partitions.txt')
    programs('sacctmgr', f'case "$*" in *" user root "*) cat {OUTPUTS}/sacctmgr-22.05.8-user.txt;;'
             f' *) cat {OUTPUTS}/sacctmgr-22.05.8-associations.txt;; esac')  # fmt: skip
    (Path(os.environ['PATH']) / 'grep').symlink_to('/bin/grep')
    programs('scontrol', f'grep "^PartitionName=$4 " {OUTPUTS}/scontrol-22.05.8-partitions.txt')
    monkeypatch.setenv('LOGNAME', 'root')
    text = plumbline().stdout
    site = site_of(text, tmp_path)
    assert {name: one.entry['access'] for name, one in site.partitions.items()} == {
        'compute': ['-p compute'],  # of three accounts, the default one
        'debug': ['-p debug', '-A hpc1', '-q short'],  # AllowQos=short
        'fleet': ['-p fleet', '-A hpc1'],  # DenyAccounts=root
    }
    assert '# left out: urgent: it takes no account' in text  # AllowAccounts
    assert 'in place: -A hpc2, -q short' in text
    monkeypatch.setenv('SLURM_ACCOUNT', 'hpc2')
    site = site_of(plumbline().stdout, tmp_path)
    assert site.partitions['urgent'].entry['access'] == ['-p urgent', '-A hpc2']


@pytest.mark.parametrize(
    ('program', 'output', 'expected'),
    [
        ('pbsnodes', 'pbsnodes-2022.1.1-polaris', ('nodes', 'pbs', 'mpiexec', 1, 64, [('A100', 4)], 503)),
        ('lshosts', 'lshosts-10.1.0.13-power9', ('POWER9', 'lsf', 'mpirun', 1, 32, [], 30.7)),
        ('flux', 'flux-resource-r-fluke', ('batch', 'squeue', 'srun', 93, 4, [], None)),
    ],
)
def test_nodes_of_other_schedulers(programs, tmp_path, login_node, program, output, expected):
    programs(program, f'cat {OUTPUTS}/{output}.txt')
    text = plumbline().stdout
    first = next(iter(site_of(text, tmp_path).partitions.values()))
    gpus = [(one['model'], one['num_devices']) for one in first.entry.get('devices', [])]
    said = (first.name, first.entry['scheduler'], first.entry['launcher'], first.num_nodes, first.processor['num_cpus'])
    assert (*said, gpus) == expected[:-1], text
    memory = first.memory_bytes and first.memory_bytes / 2**30
    assert memory == (expected[-1] and pytest.approx(expected[-1], rel=0.01))
    assert 'num_cpus_per_core' in text and 'srun' not in text.partition('partitions:')[0]
    look = re.findall(rf'#   (bash {SCRIPT} .*) > FILE\n', text)[0]
    printed = subprocess.run(
        ['/bin/bash', '-c', look], env={'PATH': '/usr/bin:/bin'}, capture_output=True, text=True, check=True
    ).stdout
    assert '\n$ settings\tkernel\t' in printed and printed.endswith('$ end\t\n')


def test_vnodes_of_a_host_are_one_node_and_queues_are_partitions():
    """As on a cluster of cpusets, and where a node names its queue."""
    vnode = 'uv[{}]\n     resources_available.host = uv\n     resources_available.ncpus = 8\n     queue = smp\n'
    vnode += '     resources_available.mem = 2gb\n'
    (nodes,) = schedulers.of_pbs('\n'.join(vnode.format(number) for number in range(4)))
    assert (nodes.partition, nodes.number, nodes.cpus, nodes.memory) == (
        'smp',
        1,
        32,
        4 * 2048,
    ) and '-q smp' in nodes.access


@pytest.fixture
def job(monkeypatch):
    """In a job of the partition gpu on a node with two sockets and four GPUs, of which the job has one CPU."""
    for name, value in {'JOB_PARTITION': 'gpu', 'SUBMIT_HOST': 'login1'}.items():
        monkeypatch.setenv(f'SLURM_{name}', value)
    monkeypatch.setenv('SLURMD_NODENAME', 'node7')
    machine = {
        'processor': SOCKETS, 'memory_per_node': '4096 B', 'peaks': {'core_clock': '3500 MHz'},
        'devices': [{'type': 'gpu', 'arch': 'sm_80', 'model': 'NVIDIA A100', 'num_devices': 4}],
        'link_classes': {'A': {'pairs': [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]], 'descr': '4 NVLinks'}},
    }  # fmt: skip

    def detect_machine(allowed=None, node=None):
        assert allowed == set(range(os.sysconf('SC_NPROCESSORS_CONF')))  # all of the node, not what the job has
        return machine

    monkeypatch.setattr(detect, 'detect_machine', detect_machine)
    return machine


def test_the_partition_of_a_job_is_described_from_its_node(slurm, tmp_path, job):
    slurm(SINFO, of_node=GPU.replace('|16|', '|1|'))
    text = plumbline().stdout
    site = site_of(text, tmp_path)
    gpu = site.partitions['gpu']
    assert (gpu.num_nodes, gpu.memory_bytes, gpu.peaks) == (16, 515000 * 2**20, {'core_clock': 3.5e9})
    assert gpu.entry['devices'] == job['devices']
    assert list(gpu.link_classes) == ['A']
    found = gpu.processor
    assert (found['num_cpus'], found['num_numa_domains'], found['numa_distances']) == (256, 2, [[10, 32], [32, 10]])
    assert found['caches'] == {'L1': {'size': '32 KiB', 'num_cpus': 2}, 'L3': {'size': '32768 KiB', 'num_cpus': 16}}
    assert 'name: gpu  # detected on node node7\n' in text
    assert 'arch' not in site.partitions['compute'].processor
    assert site.hostnames == ('^login1$',)
    sockets = SOCKETS['topology'] | {'sockets': ['0x5', '0xa']}  # an unusual numbering keeps its masks
    job['processor'] = SOCKETS | {'topology': sockets}
    assert "sockets: ['0x5', '0xa']" in plumbline().stdout


def test_a_job_that_does_not_see_all_gpus_is_told_how_to_run(slurm, job):
    slurm(SINFO, of_node=GPU.replace('|16|', '|1|'))
    job['devices'][0]['num_devices'] = 1
    said = plumbline(code=2).stderr
    assert said == (
        'plumbline: this job sees 1 of the 4 GPUs of its node; expected all, as with: '
        'srun -p gpu -N 1 -n 1 --exclusive --gpus-per-node=4\n'
    )


def test_a_node_that_printed_itself_is_described_elsewhere(slurm, programs, tmp_path):
    printed = tmp_path / 'printed'
    printed.write_text(tree(tmp_path))
    slurm(SINFO, of_node='gpu|1|2|4|2|515000|(null)|1:00\n')
    assert 'node nid01, partition gpu: expected its kind' in plumbline('--node', printed, code=2).stderr
    slurm(SINFO + 'gpu|1|2|4|2|260000|(null)|infinite\n', of_node='gpu|1|2|4|2|260000|(null)|infinite\n')
    text = plumbline('--node', printed).stdout
    assert 'name: gpu  # detected on node nid01\n' in text and 'numa_ids: [0, 1, 2, 3]' in text
    assert 'kernel: 5.14.0' in text and site_of(text, tmp_path).partitions['gpu'].processor['arch'] == 'zen3'
    printed.write_text(tree(tmp_path).replace('partition\tgpu', 'partition\t'))  # in no job of Slurm
    (node,) = site_of(plumbline('--node', printed).stdout, tmp_path).partitions.values()
    assert (node.entry['scheduler'], node.processor['num_cpus']) == ('local', 16)
    printed.write_text('srun: no such partition')
    assert f'{printed}: expected the description of a node' in plumbline('--node', printed, code=2).stderr


@pytest.mark.parametrize('of_node', ['', 'gpu|1|2|64|2|1|(null)|1:00'])
def test_a_node_that_slurm_does_not_know_is_named(slurm, job, of_node):
    slurm(SINFO, of_node)
    assert plumbline(code=2).stderr.startswith('plumbline: node node7, partition gpu: ')


def test_a_slurm_without_an_answer_is_said(programs, tmp_path):
    programs('sinfo', 'echo "sinfo: error: no controller" >&2; exit 1')
    text = plumbline().stdout
    assert 'sinfo: error: no controller' in text
    assert list(site_of(text, tmp_path).partitions) == ['node']
    programs('sinfo', '')
    assert 'sinfo lists no node' in plumbline().stdout


@pytest.mark.parametrize('line', ['gpu|16|2+|64|2|515000|(null)|1:00', 'gpu'])
def test_what_sinfo_should_not_say_is_named(slurm, line):
    slurm(f'{line}\n')
    assert f'found {line!r}' in plumbline(code=2).stderr


def test_cpus_that_slurm_takes_for_sockets_are_not_written_as_sockets(slurm, tmp_path):
    """Where slurm.conf states CPUs alone, sinfo prints as many sockets of one core."""
    slurm('batch|4|96|1|1|100000|(null)|1:00:00\n')
    text = plumbline('--no-jobs').stdout
    assert 'num_sockets: 96' not in text and 'num_cpus_per_core' in text
    assert site_of(text, tmp_path).partitions['batch'].processor['num_cpus'] == 96


@each_row(
    ('sockets', 'cores', 'named'),
    [(2, 8, False), (1, 16, True), (0, 16, True)],
)
def test_a_job_compares_the_sockets_of_slurm_with_those_of_the_kernel(sockets, cores, named):
    kernels = {'num_cpus': 16, 'num_sockets': 2, 'num_cpus_per_core': 1}
    lines = probe._geometry(schedulers.EqualNodes('p', 4, sockets, cores, 1, 1000), kernels)
    assert bool(lines) == named
    assert not named or ('kernel' in lines[0] and 'Slurm states 4 nodes' in lines[0])


TREE = """\
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n3
SwitchName=g1 Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[1-2]
"""
BLOCK = """\
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n3 BlockSize=2
"""


@pytest.mark.parametrize(
    ('topology', 'written'),
    [
        (TREE, 'node,switch\nn1,s1\nn2,s1\nn3,s2\n'), (BLOCK, 'node,block\nn1,b1\nn2,b1\nn3,b2\n'), ('', None),
        ('SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-3]\n', None),
    ],
)  # fmt: skip
def test_the_topology_of_slurm_fills_the_locations_and_never_replaces_them(
    topology, written, slurm, programs, tmp_path, monkeypatch
):
    """The tree as Slurm 22.05 printed it here for such a topology.conf, the blocks as its manual has them."""
    slurm('batch|3|2|8|1|100000|(null)|1:00:00\n')
    (tmp_path / 'topology').write_text(topology)
    programs('scontrol', f'case "$*" in *topology) cat {tmp_path}/topology;; *"n[1-2]") echo n1; echo n2;; '
             '*"n[1-3]") echo n1; echo n2; echo n3;; *hostnames*) echo n3;; esac')  # fmt: skip
    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path / 'sites'))
    (tmp_path / 'sites').mkdir()
    said = plumbline('--name', 'box', '--no-jobs').stdout
    path = tmp_path / 'sites/box/locations.csv'
    assert (path.read_text() if path.exists() else None) == written
    assert (f'{path}: written' in said) == bool(written)
    if written:
        path.write_text('node,rack\nn1,r1\n')
        assert f'{path}: kept' in plumbline('--name', 'box', '--no-jobs', '--force').stdout
        assert path.read_text() == 'node,rack\nn1,r1\n'


@each_row(
    ('gres', 'gpus'),
    [
        ('(null)', ()), ('gpu:a100:4(S:0-1),nvme:1', (('a100', 4),)), ('craynetwork:4,gpu:8', (('', 8),)),
        ('gpu:a100_1g.5gb:7,gpu:a100:1', (('a100_1g.5gb', 7), ('a100', 1))), ('shard:gpu:2', ()),
    ],
)  # fmt: skip
def test_gpus_are_counted_by_type_from_the_gres_of_slurm(gres, gpus):
    (nodes,) = schedulers.of_slurm(f'p|1|1|1|1|1|{gres}|infinite')
    assert nodes.gpus == gpus


def test_it_is_written_whole_and_not_over_another(programs, tmp_path):
    path = tmp_path / 'deep/site.yaml'
    path.parent.mkdir()
    assert plumbline('--output', path).stdout.startswith(f'{path}: written')
    first = path.read_text()
    path.write_text('mine')
    assert plumbline('--output', path, code=2).stderr == f'plumbline: {path}: exists already; --force replaces it\n'
    assert path.read_text() == 'mine'
    plumbline('--output', path, '--force')
    assert path.read_text() == first
    assert [file.name for file in path.parent.iterdir()] == ['site.yaml']


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--name', 'a/b'], '--name: expected a letter, then letters, digits'),
        (['--name', 'here', '--output', 'x'], '--name and --output: expected only one of them'),
        (['--name', 'frontier'], 'frontier/site.yaml: exists already; --force replaces it'),
        (['--output', '/nonexistent/site.yaml'], 'there is no folder /nonexistent'),
    ],
)  # fmt: skip
def test_a_place_that_it_cannot_have_is_named(programs, words, said):
    assert said in plumbline(*words, code=2).stderr


def test_a_site_of_this_machine_passes_its_own_check(clone):
    """The whole way, with the programs of this machine."""
    written = clone.plumbline('probe', '--name', 'here')
    assert written.returncode == 0, written.stderr
    assert 'plumbline sites here --check' in written.stdout
    checked = clone.plumbline('sites', 'here', '--cases', PLUMBLINE_SITE='here')
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.endswith('references; next: ci/nightly --site here\n')
    assert 'here' in clone.plumbline('sites', 'here').stdout

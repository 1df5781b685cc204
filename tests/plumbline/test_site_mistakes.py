# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in a site.yaml that would be silent: all are found, with file, line, key and a guess."""

import pytest
from rows import each_row

from plumbline.errors import SiteError
from plumbline.site.file import read_site_file

GOOD = """\
descr: a cluster
hostnames: ['^login[0-9]+']
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    access: [-p gpu, --gpus-per-node=4]
    environs: [cuda]
    time_limit: 1h
    max_time: 12h
    num_nodes: 16
    queue: {needs: [account]}
    nics: [mlx5_0, mlx5_1]
    nic_numa_domains: [3, 0]
    processor:
      arch: zen3
      vendor: AuthenticAMD
      num_cpus: 128
      num_cpus_per_core: 2
      num_sockets: 1
      num_numa_domains: 4
      reserved_cores: [0, 8, 16]
      caches:
        L1: {size: 32 KiB, num_cpus: 2}
        L2: {size: 512 KiB, num_cpus: 2}
        L3: {size: 32 MiB, num_cpus: 16}
      numa_distances: [[10, 12, 12, 12], [12, 10, 12, 12], [12, 12, 10, 12], [12, 12, 12, 10]]
    devices:
      - {type: gpu, arch: sm_80, num_devices: 4, numa_domains: [3, 2, 1, 0]}
    link_classes:
      A: {pairs: [[0, 1], [2, 3]], peak: 200 GB/s}
      B: {pairs: [[0, 2], [0, 3], [1, 2], [1, 3]], peak: 100 GB/s}
    memory_per_node: 256 GiB
    memory_kinds: {near: [0, 1], far: [2, 3]}
    energy:
      nvml: {boundary: gpu, accuracy: 0.05}
      rapl: {boundary: package+dram, accuracy: 0.03}
      bmc: {command: bmc --power, boundary: node, accuracy: 0.02, interval: 5 s}
    power_cap: {command: cap, caps: [100 W, 150 W], normal: 200 W}
    expects: {smt_active: on, nics: 3, governor: performance, gpus: 4, kernel: '>=5.14 <6'}
    file_systems:
      scratch: {path: /scratch, kind: lustre}
      home: {path: /home, kind: nfs}
    container_platforms:
      - {type: Apptainer}
    peaks:
      memory_bandwidth: 204.8 GB/s
      device_memory_bandwidth: 1555.2 GB/s
      device_flops_double: 19.5 TFlop/s
      device_flops_half: 312 TFlop/s
      network_bandwidth: 50 GB/s
      flops_dp: 2.5 TFlop/s
      core_clock: 3.5 GHz
      flop_per_cycle: {avx_dp: 16}
    published_peaks: {flops_dp: 2.2 TFlop/s}
  - name: cpu
    scheduler: pbs
    launcher: mpiexec
    access: [-q workq, '-l place=scatter:excl']
    environs: [cpu]
    nics: [mlx5_0]
    max_jobs: 4
    processor: {num_cpus: 64, num_cpus_per_core: 1, num_sockets: 2}
environments:
  - {name: cuda, provider: system, features: [babelstream-cuda, osu], env_vars: [[A, 1], [B, 2]]}
  - {name: cpu, provider: system, prefix: /opt/benchmarks, features: [hpcc]}
tolerance:
  floor: 0.05
  rules:
    - {check: HPL, floor: 0.1, cap: 0.2, why: steady}
    - {check: 'Osu*', floor: 0.2, cap: 0.3, why: shared}
"""
GPU = 'partitions.0'
#: What is right, the mistake, its key, and words of the message.
MISTAKES = [
    # words
    ('launcher: srun', 'launcher: srunn', f'{GPU}.launcher', "'srunn': did you mean srun"),
    ('max_time:', 'max_tme:', f'{GPU}.max_tme', 'did you mean max_time'),
    ('arch: zen3', 'arch: zen33', f'{GPU}.processor.arch', 'did you mean zen3'),
    ('sm_80', 'sm80', f'{GPU}.devices.0.arch', 'did you mean sm_80'),
    ('smt_active: on', 'smt_active: 1', f'{GPU}.expects.smt_active', 'expected on or off; found 1'),
    ('>=5.14 <6', '=>5.14', f'{GPU}.expects.kernel', "'>=550.54 <560' (a version, a "),
    ('2.5 TFlop/s', '0 TFlop/s', f'{GPU}.peaks.flops_dp', 'a Flop rate above 0'),
    # what the job asks for, and what the node has
    ('--gpus-per-node=4', '-A x', f'{GPU}.access', 'asks for no GPU, and steps of Slurm get none then'),
    ('--gpus-per-node=4', "'--gres=gpu:a100:2'", f'{GPU}.access.1', 'asks for 2 GPUs'),
    ('place=scatter:excl', 'select=1:ngpus=4', 'partitions.1.access.1',
     'asks for 4 GPUs of a node, and devices says of no GPU'),
    ('queue: {needs: [account]}', 'queue: {needs: [constraint]}', f'{GPU}.access', 'states no constraint'),
    ('scatter:excl', 'scatter', 'partitions.1.access', 'asks for no whole nodes'),
    ('max_time: 12h', 'max_time: 5', f'{GPU}.max_time',
     'such as 2h, 1d12h, 90m (days, hours, minutes); found 5'),
    ('scheduler: slurm', 'scheduler: local', f'{GPU}.launcher', 'srun needs scheduler slurm'),
    ('scheduler: pbs', 'scheduler: flux', 'partitions.1.scheduler', 'expected one of local, slurm, squeue'),
    # the network
    ('[3, 0]\n', '[3, 4]\n', f'{GPU}.nic_numa_domains', 'found 4'),
    ('[3, 0]\n', '[3]\n', f'{GPU}.nic_numa_domains', 'expected 2 numbers, one for each of nics; found 1'),
    # the processor
    ('num_cpus: 64,', 'num_cpus: 63,', 'partitions.1.processor.num_cpus', 'in each of 2 sockets; found 63 cores'),
    ('num_sockets: 2', 'num_sockets: 2, num_numa_domains: 3', 'partitions.1.processor.num_numa_domains',
     'num_sockets, 2; found 3'),
    ('num_sockets: 2', 'num_sockets: 2, num_numa_domains: 10', 'partitions.1.processor.num_numa_domains',
     'found 10 domains of 64 cores'),
    ('num_cpus: 128', 'num_cpus: 127', f'{GPU}.processor.num_cpus', 'a multiple of num_cpus_per_core, 2'),
    ('[0, 8, 16]', '[0, 8, 64]', f'{GPU}.processor.reserved_cores.2', 'expected the first hardware thread of a core'),
    ('num_sockets: 2}', 'num_sockets: 2, reserved_cores: [' + ', '.join(map(str, range(64))) + ']}',
     'partitions.1.processor.reserved_cores', 'leaves no core of the 64'),
    ('MiB, num_cpus: 16', 'MiB, num_cpus: 7', f'{GPU}.processor.caches.L3.num_cpus', 'a divisor of num_cpus'),
    ('L1: {size: 32 KiB', 'L1: {size: 32 MiB', f'{GPU}.processor.caches.L1.size', '4 KiB to 1 MiB; found'),
    # the GPUs
    ('type: gpu', 'type: GPU', f'{GPU}.devices.0.type', "expected gpu, as the checks look for GPUs; found 'GPU'"),
    ('arch: sm_80, ', '', f'{GPU}.devices.0', 'lacks arch, so no check of GPUs has a case'),
    ('gpus: 4', 'gpus: 5', f'{GPU}.expects.gpus', 'expected 4, as processor and devices describe'),
    ('[3, 2, 1, 0]', '[3, 2, 1, 4]', f'{GPU}.devices.0.numa_domains', 'found 4'),
    ('[3, 2, 1, 0]', '[3, 2]', f'{GPU}.devices.0.numa_domains', 'expected 4 numbers'),
    ('[2, 3]], peak', '[2, 4]], peak', f'{GPU}.link_classes.A.pairs.1', 'of the 4 GPUs'),
    ('[2, 3]], peak', '[2, GPU3]], peak', f'{GPU}.link_classes.A.pairs.1', 'expected two different ones'),
    ('[1, 3]], peak', '[1, 0]], peak', f'{GPU}.link_classes.B.pairs.3', 'is in class A'),
    ('[[0, 1], [2, 3]]', '[]', f'{GPU}.link_classes.A.pairs', 'should be non-empty'),
    (', [1, 3]]', ']', f'{GPU}.link_classes', '1 are in none: [1, 3]'),
    # meters
    ('package+dram', 'socket', f'{GPU}.energy.rapl.boundary', "'socket'"),
    ('command: bmc --power, ', '', f'{GPU}.energy.bmc.command', 'is missing'),
    ('100 W', '100 Watt', f'{GPU}.power_cap.caps.0', '250 W'),
    ('max_jobs: 4', 'power_cap: {command: cap, caps: [9 W], normal: 8 W}', 'partitions.1.power_cap', 'pbs would'),
    (', normal: 200 W', '', f'{GPU}.power_cap.normal', 'is missing'),
    # numbers that no hardware has
    ('256 GiB', '256 MiB', f'{GPU}.memory_per_node', 'expected 500 MB to 256 TiB; found 256 MiB: a slip'),
    ('204.8 GB/s', '204.8 TB/s', f'{GPU}.peaks.memory_bandwidth', 'expected 1 GB/s to 50 TB/s'),
    ('1555.2 GB/s', '1555.2 TB/s', f'{GPU}.peaks.device_memory_bandwidth', 'found 1555.2 TB/s'),
    ('2.5 TFlop/s', '2.5 PFlop/s', f'{GPU}.peaks.flops_dp', 'found 2.5 PFlop/s'),
    ('avx_dp: 16', 'avx_dp: 1600', f'{GPU}.peaks.flop_per_cycle.avx_dp', 'at most 128 (Flop/cycle of one core)'),
    # names that nothing uses, or that stand twice
    ('name: cpu, provider', 'name: cpu2, provider', 'partitions.1.environs.0', "did you mean cpu2?"),
    ('environs: [cpu]', 'environs: [cuda]', 'environments.1.name', "no partition uses the environment 'cpu'"),
    ('[hpcc]', '[osu-rocm]', 'environments.1.features.0',
     'needs GPUs of the kind rocm, and the partitions of this environment have no GPU'),
    ('babelstream-cuda, osu', 'osu, babelstream-hip', 'environments.0.features.1', 'have GPUs of sm_80'),
    ('environments:\n', 'environments:\n  - {name: cpu, provider: system}\n', 'environments.2', "'cpu' is there twice"),
    ('prefix: /opt', 'prefix: opt', 'environments.1.prefix', '(an absolute path'),
    ("['^login[0-9]+']", "['.*']", 'hostnames.0', 'matches the name of every host'),
    ("['^login[0-9]+']", "['login*']", 'hostnames.0', "expected a regular expression: 'login.*'"),
    ("['^login[0-9]+']", "['login[']", 'hostnames.0', "such as ^login[0-9]+ (a regular expression); found 'login['"),
    ('descr: a cluster', 'descr: a cluster\nretired: 2090', 'retired', 'at most 2050 (year in which'),
    ('[[A, 1], [B, 2]]', '[[A]]', 'environments.0.env_vars.0', "['A'] is too short"),
    # rules
    ('  floor: 0.05', '  cap: 0.01\n  floor: 0.05', 'tolerance.floor', 'at most the cap, 0.01'),
    ('HPL, floor: 0.1', 'HPL, floor: 0.3', 'tolerance.rules.0.floor', 'at most the cap, 0.2; found 0.3'),
    ("check: 'Osu*'", 'check: HPL', 'tolerance.rules.0', 'has no effect: rule 1 is for the same'),
    ("check: 'Osu*', ", '', 'tolerance.rules.1', 'it holds for everything and hides the rules before it'),
    # of ReFrame's own keys
    ('{type: Apptainer}', '{type: Aptainer}', f'{GPU}.container_platforms.0.type', 'did you mean Apptainer?'),
]  # fmt: skip

#: Where a mistake is named in another line than it was made: what stands in that line.
_ELSEWHERE = {
    ('retired', 'descr: a cluster\nretired: 2090'): 'hostnames',
    (f'{GPU}.access', 'queue: {needs: [constraint]}'): 'access: [-p gpu',
    (f'{GPU}.launcher', 'scheduler: local'): 'launcher: srun',
    (f'{GPU}.link_classes', ']'): 'link_classes:',
    ('tolerance.floor', '  cap: 0.01\n  floor: 0.05'): '  rules:',
    ('environments.2', 'environments:\n  - {name: cpu, provider: system}\n'): 'tolerance:',
    (f'{GPU}.devices.0', ''): '- {type: gpu',
    ('partitions.1.environs.0', 'name: cpu2, provider'): 'environs: [cpu]',
    ('environments.1.name', 'environs: [cuda]'): 'name: cpu, provider',
    ('tolerance.rules.0', 'check: HPL'): 'check: HPL',
}


@each_row('right, mistake, key, words', MISTAKES)
def test_a_mistake_is_named_with_file_line_key_and_what_was_expected(faults, right, mistake, key, words):
    assert GOOD.count(right) == 1
    line = GOOD[: GOOD.index(_ELSEWHERE.get((key, mistake), right))].count('\n') + 1
    found = faults(GOOD.replace(right, mistake))
    assert any(said.startswith(f'site.yaml:{line}: {key}: ') and words in said for said in found), found


def test_link_classes_of_a_node_without_gpus_are_told_once(faults):
    (found,) = (said for said in faults(GOOD.replace('type: gpu', 'type: accelerator')) if 'link_classes' in said)
    assert 'link_classes: expected GPUs in the key devices' in found


#: Lines of shipped sites as they were when nobody had tried them on their machines, and what is said of each.
ONCE_SHIPPED = [
    (
        """\
  - name: gpu
    scheduler: slurm
    launcher: srun
    access: [-S 0, --threads-per-core=2]
    environs: [rocm]
    devices:
      - {type: gpu, arch: gfx90a, num_devices: 8}
environments:
  - {name: rocm, provider: spack, mpi: cray-mpich, features: [osu-rocm]}
""",
        [('site.yaml:7: partitions.0.access', '--gpus-per-node=8, or queue: {gives_gpus: true}')],
    ),
    (
        """\
  - name: acc
    scheduler: slurm
    launcher: srun
    access: [-p acc, '--gres=gpu:4']
    environs: [cuda]
    devices:
      - {type: gpu, arch: sm_90, num_devices: 4}
environments:
  - {name: cuda, provider: spack, mpi: intel-oneapi-mpi, features: [babelstream-cuda, osu-cuda]}
""",
        [('site.yaml:12: environments.0.features.1', 'I_MPI_OFFLOAD: 1')],
    ),
]  # fmt: skip


@pytest.mark.parametrize(('lines', 'said'), ONCE_SHIPPED, ids=['frontier', 'marenostrum5'])
def test_what_could_not_work_on_the_machine_of_a_shipped_site_is_refused(faults, tmp_path, lines, said):
    found = faults(f'descr: a cluster\nhostnames: []\npartitions:\n{lines}')
    for message, (place, words) in zip(found, said, strict=True):
        assert message.startswith(f'{place}: ') and words in message
    read_site_file(tmp_path / 'site.yaml')  # a site that is in use still loads


@each_row(
    'site, mistake, right',
    [
        (0, '-S 0', '-G 8'),
        (0, '-S 0', "'--gres=nvme:1,gpu:8'"),
        (0, '-S 0', '--gpus-per-task=1'),
        (0, 'environs: [rocm]', 'environs: [rocm]\n    queue: {gives_gpus: true}'),
        (0, 'scheduler: slurm', 'scheduler: squeue'),
        (1, 'mpi: intel-oneapi-mpi', 'mpi: openmpi'),
        (1, 'provider: spack', 'provider: spack, env_vars: [[I_MPI_OFFLOAD, 1]]'),
    ],
)
def test_what_a_site_may_state_is_no_mistake(faults, site, mistake, right):
    lines, _ = ONCE_SHIPPED[site]
    assert lines.count(mistake) == 1
    assert faults(f'descr: a cluster\nhostnames: []\npartitions:\n{lines.replace(mistake, right)}') == []
    assert faults(GOOD) == []


def test_an_entry_of_access_may_hold_several_options(faults):
    text = GOOD.replace('needs: [account]', 'needs: [constraint]')
    for options, together in (
        ('-p gpu, --gpus-per-node=4', '-p gpu -C a100 --gpus-per-node=4'),
        ("-q workq, '-l place=scatter:excl'", "'-q workq -l filesystems=home,place=scatter:excl'"),
    ):
        text = text.replace(options, together)
    assert faults(text) == []


def test_all_mistakes_of_the_form_are_found_at_once_and_then_all_contradictions(faults, tmp_path):
    contradictory = GOOD
    for right, mistake in (('zen3', 'zen33'), ('sm_80', 'sm80'), ('HPL, floor: 0.1', 'HPL, floor: 0.3')):
        contradictory = contradictory.replace(right, mistake)
    wrong = contradictory.replace('    memory_per_node', '    gpus: 3\n    nodes: 4\n    memory_per_node')
    for right, mistake in (('launcher: srun', 'launcher: srunn'), ('200 GB/s', '200 GB'), ('descr: a', 'desc: a')):
        wrong = wrong.replace(right, mistake)
    assert [message.split(': ')[1] for message in faults(wrong)] == [
        'desc', 'partitions.0.launcher', 'partitions.0.link_classes.A.peak', 'partitions.0.gpus', 'partitions.0.nodes',
    ]  # fmt: skip
    with pytest.raises(SiteError, match='unknown key'):
        read_site_file(tmp_path / 'site.yaml')
    assert [message.split(': ')[1] for message in faults(contradictory)] == [
        'partitions.0.processor.arch', 'partitions.0.devices.0.arch', 'tolerance.rules.0.floor',
    ]  # fmt: skip
    assert 'not valid YAML' in faults('partitions: [')[0]

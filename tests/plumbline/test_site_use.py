# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of the right form in a site.yaml: parts that contradict each other, and numbers that no hardware has."""

from rows import each_row

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
    queue: {threads_per_core: 1, system_cores: 8}
    nics: [mlx5_0, mlx5_1]
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
      - {type: gpu, arch: sm_80, num_devices: 4}
    link_classes:
      A: {pairs: [[0, 1], [2, 3]], peak: 200 GB/s}
      B: {pairs: [[0, 2], [0, 3], [1, 2], [1, 3]], peak: 100 GB/s}
    memory_per_node: 256 GiB
    memory_kinds: {near: [0, 1], far: [2, 3]}
    energy:
      nvml: {boundary: gpu, accuracy: 0.05}
    expects: {smt_active: on, nics: 3}
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
  rules:
    - {check: HPL, floor: 0.1, cap: 0.2, why: steady}
    - {check: 'Osu*', floor: 0.2, cap: 0.3, why: shared}
"""
GPU = 'partitions.0'
#: What is right, the mistake, its key, and words of the message.
MISTAKES = [
    # what the job asks for, and what the node has
    ('per-node=4', 'per-node=2', f'{GPU}.access.1', 'asks for 2 GPUs of a node, and devices says that a node has 4'),
    ('per-node=4', 'per-node=a100:8', f'{GPU}.access.1', 'asks for 8 GPUs'),
    ('--gpus-per-node=4', "'--gres=gpu:a100:2'", f'{GPU}.access.1', 'asks for 2 GPUs'),
    ('-p gpu', '--partitoin=gpu', f'{GPU}.access.0', 'no such option; found \'partitoin\': did you mean partition?'),
    ('-p gpu', '--nodes=two', f'{GPU}.access.0', "cannot be read as an option of slurm: invalid literal"),
    ('-q workq', '-Q workq', 'partitions.1.access.0', 'qsub has no such option'),
    ('place=scatter:excl', 'place=scater:excl', 'partitions.1.access.1', 'did you mean scatter'),
    ('place=scatter:excl', 'select=1:ngpus=4', 'partitions.1.access.1',
     'asks for 4 GPUs of a node, and devices says of no GPU'),
    ('time_limit: 1h', 'time_limit: 13h', f'{GPU}.time_limit', 'at most max_time, 12h; found 13h'),
    ('max_time: 12h', 'max_time: 12:00:00', f'{GPU}.max_time',
     'YAML reads 12:00:00 as the number 43200'),
    ('max_time: 12h', 'max_time: 5', f'{GPU}.max_time',
     'such as 2h, 1d12h, 90m (days, hours, minutes); found 5'),
    ('threads_per_core: 1', 'threads_per_core: 3', f'{GPU}.queue.threads_per_core',
     'at most num_cpus_per_core, 2; found 3'),
    ('system_cores: 8', 'system_cores: 64', f'{GPU}.queue.system_cores', 'fewer than the 64 cores of a node; found 64'),
    ('scheduler: slurm', 'scheduler: local', f'{GPU}.launcher', 'srun needs scheduler slurm'),
    # the network
    ('[mlx5_0, mlx5_1]', '[mlx5_0, mlx5_0]', f'{GPU}.nics.1', "'mlx5_0' is there twice, first as number 0"),
    ('[mlx5_0, mlx5_1]', '[mlx5_0, ib1]', f'{GPU}.nics.1', 'is a network interface, which MPI uses by sockets alone'),
    ('nics: 3', 'nics: 1', f'{GPU}.expects.nics', 'at least the 2 of the key nics; found 1'),
    # the processor
    ('vendor: AuthenticAMD', 'vendor: GenuineIntel', f'{GPU}.processor.vendor', 'expected AuthenticAMD, as of zen3'),
    ('vendor: AuthenticAMD', 'platform: aarch64', f'{GPU}.processor.platform', 'expected x86_64, as of zen3'),
    ('[0, 8, 16]', '[0, 8, 400]', f'{GPU}.processor.reserved_cores.2', '64 cores, 0 to 63; found 400'),
    ('[0, 8, 16]', '[0, 8, 8]', f'{GPU}.processor.reserved_cores.2', '8 is there twice'),
    ('L1: {size: 32 KiB', 'L1: {size: 32 MiB', f'{GPU}.processor.caches.L1.size', '4 to 1020 KiB, as of one'),
    ('L2: {size: 512 KiB', 'L2: {size: 64 MiB', f'{GPU}.processor.caches.L2.size', '8190 KiB, as of one cache of L2'),
    ('512 KiB, num_cpus: 2', '512 KiB, num_cpus: 32', f'{GPU}.processor.caches.L2.num_cpus',
     'no more CPUs than share L3'),
    ('size: 32 MiB', 'size: 32 GiB', f'{GPU}.processor.caches.L3.size', 'found 32 GiB: a slip of the unit?'),
    ('[12, 10, 12, 12]', '[12, 12, 10, 12]', f'{GPU}.processor.numa_distances.1', 'the least distance in its column 1'),
    ('smt_active: on', 'smt_active: off', f'{GPU}.expects.smt_active', 'expected on, as num_cpus_per_core is 2'),
    ('far: [2, 3]', 'far: [1, 2]', f'{GPU}.memory_kinds.far.0', 'domain 1 is of the kind near already'),
    # the GPUs
    ('type: gpu', 'type: GPU', f'{GPU}.devices.0.type', "expected gpu, as the checks look for GPUs; found 'GPU'"),
    ('arch: sm_80, ', '', f'{GPU}.devices.0', 'lacks arch, so no check of GPUs has a case'),
    ('nvml:', 'amdsmi:', f'{GPU}.energy.amdsmi', 'reads GPUs of the kind rocm, of which devices has none'),
    ('peak: 200 GB/s', 'peak: 50 GB/s', f'{GPU}.link_classes.B.peak',
     'the best class first: 100 GB/s is above 50 GB/s of A'),
    # numbers that no hardware has
    ('256 GiB', '256 MiB', f'{GPU}.memory_per_node', 'as of 64 cores; found 256 MiB: a slip of the unit?'),
    ('256 GiB', '256000 GiB', f'{GPU}.memory_per_node', 'found 256000 GiB'),
    ('204.8 GB/s', '204.8 TB/s', f'{GPU}.peaks.memory_bandwidth', 'expected 2.05 to 256 GB/s, as of 1 sockets of zen3'),
    ('204.8 GB/s', '204.8 MB/s', f'{GPU}.peaks.memory_bandwidth', 'found 204.8 MB/s: a slip of the unit?'),
    ('1555.2 GB/s', '1555.2 TB/s', f'{GPU}.peaks.device_memory_bandwidth', 'as of one device of sm_80'),
    ('1555.2 GB/s', '6220.8 GB/s', f'{GPU}.peaks.device_memory_bandwidth', 'expected 20.4 to 2550 GB/s'),
    ('19.5 TFlop/s', '195 TFlop/s', f'{GPU}.peaks.device_flops_double', 'found 195 TFlop/s'),
    ('312 TFlop/s', '312 GFlop/s', f'{GPU}.peaks.device_flops_half', 'found 312 GFlop/s'),
    ('50 GB/s', '50 TB/s', f'{GPU}.peaks.network_bandwidth', 'as of 2 network devices'),
    ('2.5 TFlop/s', '2.5 PFlop/s', f'{GPU}.peaks.flops_dp', 'as of 64 cores'),
    ('2.5 TFlop/s', '2.5 GFlop/s', f'{GPU}.peaks.flops_dp', 'as of 64 cores'),
    ('3.5 GHz', '3.5 MHz', f'{GPU}.peaks.core_clock', 'found 3.5 MHz'),
    ('avx_dp: 16', 'avx_dp: 1600', f'{GPU}.peaks.flop_per_cycle.avx_dp', 'at most 128 (Flop/cycle of one core)'),
    ('{flops_dp: 2.2 TFlop/s}', '{flops_dp: 2.2 GFlop/s}', f'{GPU}.published_peaks.flops_dp',
     'about that of peaks, 2.5 TFlop/s'),
    # names that nothing uses, or that stand twice
    ('environs: [cpu]', 'environs: [cpu, cpu]', 'partitions.1.environs.1', "'cpu' is there twice"),
    ('path: /home', 'path: /scratch', f'{GPU}.file_systems.home.path', '/scratch is that of scratch, too'),
    ('name: cpu, provider', 'name: cpu2, provider', 'partitions.1.environs.0', "did you mean cpu2?"),
    ('environs: [cpu]', 'environs: [cuda]', 'environments.1.name', "no partition uses the environment 'cpu'"),
    ('[hpcc]', '[hpcc, hpcc]', 'environments.1.features.1', "'hpcc' is there twice"),
    ('[hpcc]', '[osu-rocm]', 'environments.1.features.0',
     'needs GPUs of the kind rocm, and the partitions of this environment have no GPU'),
    ('babelstream-cuda, osu', 'osu, babelstream-hip', 'environments.0.features.1', 'have GPUs of sm_80'),
    ('prefix: /opt', 'prefix: opt', 'environments.1.prefix', '(an absolute path'),
    ('[B, 2]', '[A, 2]', 'environments.0.env_vars.1', 'A is set twice there'),
    ('[B, 2]', "['B=2', '']", 'environments.0.env_vars.1', "the name of a variable; found 'B=2'"),
    ("['^login[0-9]+']", "['.*']", 'hostnames.0', 'matches the name of every host'),
    ("['^login[0-9]+']", "['^a', '^a']", 'hostnames.1', 'is there twice'),
    ("['^login[0-9]+']", "['login*']", 'hostnames.0', "expected a regular expression: 'login.*'"),
    ("['^login[0-9]+']", "['login[']", 'hostnames.0', "such as ^login[0-9]+ (a regular expression); found 'login['"),
    ('descr: a cluster', 'descr: a cluster\nretired: 2090', 'retired', 'at most 2050 (year in which'),
    ('[hpcc]', '[hpcc], modules: [hpcc]', 'environments.1.modules', 'the site has no modules_system'),
    ('[[A, 1], [B, 2]]', '[[A]]', 'environments.0.env_vars.0', "['A'] is too short"),
    ('[[A, 1], [B, 2]]', '{A: 1}', 'environments.0.env_vars', 'expected a list'),
    ('-p gpu', '--time=24:00:00', f'{GPU}.access.0', '--time is stated for each job by the suite'),
    ('-p gpu', '-N 4', f'{GPU}.access.0', '-N is stated for each job by the suite'),
    ('place=scatter:excl', 'walltime=01:00:00', 'partitions.1.access.1', '-l walltime is stated for each job'),
    ('sm_80', 'sm_800', f'{GPU}.devices.0.arch', "such as sm_90 or gfx90a; found 'sm_800'"),
    # rules
    ("check: 'Osu*'", 'check: HPL', 'tolerance.rules.0', 'has no effect: rule 1 is for the same'),
    ("check: 'Osu*', ", '', 'tolerance.rules.1', 'it holds for everything and hides the rules before it'),
    # of ReFrame's own keys
    ('{type: Apptainer}', '{type: Aptainer}', f'{GPU}.container_platforms.0.type', 'did you mean Apptainer?'),
    ('{type: Apptainer}', '{typ: Apptainer}', f'{GPU}.container_platforms.0.type', 'is missing'),
]  # fmt: skip

#: Where a mistake is named in another line than it was made: what stands in that line.
_ELSEWHERE = {
    ('retired', 'descr: a cluster\nretired: 2090'): 'hostnames',
    (f'{GPU}.launcher', 'scheduler: local'): 'launcher: srun',
    (f'{GPU}.link_classes.B.peak', 'peak: 50 GB/s'): 'peak: 100 GB/s',
    (f'{GPU}.devices.0', ''): '- {type: gpu',
    ('partitions.1.environs.0', 'name: cpu2, provider'): 'environs: [cpu]',
    ('environments.1.name', 'environs: [cuda]'): 'name: cpu, provider',
    ('tolerance.rules.0', 'check: HPL'): 'check: HPL',
}


def test_the_site_without_a_mistake_has_none(faults, tmp_path):
    assert faults(GOOD) == []
    assert read_site_file(tmp_path / 'site.yaml')['partitions'][0]['name'] == 'gpu'


@each_row('right, mistake, key, words', MISTAKES)
def test_a_mistake_is_named_with_file_line_key_and_what_was_expected(faults, right, mistake, key, words):
    assert GOOD.count(right) == 1
    line = GOOD[: GOOD.index(_ELSEWHERE.get((key, mistake), right))].count('\n') + 1
    found = faults(GOOD.replace(right, mistake))
    assert any(said.startswith(f'site.yaml:{line}: {key}: ') and words in said for said in found), found

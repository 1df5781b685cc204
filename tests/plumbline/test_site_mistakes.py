# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in the files of a site that would be silent: all are found, with file, line, key and a guess."""

import importlib
import json

import pytest
from rows import each_row

from plumbline.errors import SiteError
from plumbline.references import COLUMNS, read_rows
from plumbline.site.file import read_site_file

GOOD = """\
descr: a cluster
hostnames: []
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    environs: [cuda]
    max_time: 1d12h
    access: [--gpus-per-node=3]
    nics: [cxi0, cxi1]
    nic_numa_domains: [4, 0]
    processor:
      arch: zen4
      num_cpus: 192
      num_cpus_per_core: 2
      num_sockets: 2
      num_numa_domains: 8
      caches:
        L3: {size: 32 MiB, num_cpus: 16}
    devices:
      - {type: gpu, arch: sm_90, num_devices: 3, numa_domains: [0, 2, 4]}
    link_classes:
      A: {pairs: [[0, 1], [0, 2]], peak: 200 GB/s}
      B: {pairs: [[1, 2]]}
    memory_per_node: 768 GiB
    peaks: {memory_bandwidth: 921.6 GB/s, flops_dp: 7 TFlop/s, core_clock: 3 GHz}
    expects: {smt_active: on, governor: performance, gpus: 3, kernel: '>=5.14 <6', core_clock: 3.1 GHz, nics: 4}
environments:
  - {name: cuda, provider: system, features: [babelstream-cuda]}
tolerance:
  floor: 0.1
  rules:
    - {check: HPL, floor: 0.1, cap: 0.2, why: steady}
"""
#: What is right, the mistake, its line and key, and words of the message.
MISTAKES = [
    ('launcher: srun', 'launcher: srunn', 6, 'partitions.0.launcher', "'srunn': did you mean srun"),
    ('scheduler: slurm', 'scheduler: slrum', 5, 'partitions.0.scheduler', "'slrum': did you mean slurm"),
    ('scheduler: slurm', 'scheduler: local', 6, 'partitions.0.launcher', 'srun needs scheduler slurm'),
    ('launcher: srun', 'launcher: jsrun', 6, 'partitions.0.launcher', 'jsrun needs scheduler lsf'),
    ('max_time: 1d12h', 'max_time: 36 hours', 8, 'partitions.0.max_time', '1d12h'),
    ('max_time:', 'max_tme:', 8, 'partitions.0.max_tme', 'did you mean max_time'),
    ('arch: zen4', 'arch: zen44', 13, 'partitions.0.processor.arch', 'did you mean zen4'),
    ('num_cpus: 192', 'num_cpus: 190', 14, 'partitions.0.processor.num_cpus', 'in each of 2 sockets; found 95 cores'),
    ('num_cpus: 192', 'num_cpus: 191', 14, 'partitions.0.processor.num_cpus', 'a multiple of num_cpus_per_core, 2'),
    (
        'domains: 8',
        'domains: 3',
        17,
        'partitions.0.processor.num_numa_domains',
        'num_sockets, 2; found 3',
    ),
    ('domains: 8', 'domains: 10', 17, 'partitions.0.processor.num_numa_domains', 'found 10 domains of 96 cores'),
    ('MiB, num_cpus: 16', 'MiB, num_cpus: 7', 19, 'partitions.0.processor.caches.L3.num_cpus', 'a divisor of num_cpus'),
    ('sm_90', 'sm90', 21, 'partitions.0.devices.0.arch', 'did you mean sm_90'),
    ('[0, 2, 4]', '[0, 2, 8]', 21, 'partitions.0.devices.0.numa_domains', 'found 8'),
    ('[0, 2, 4]', '[0, 2]', 21, 'partitions.0.devices.0.numa_domains', 'expected 3 numbers'),
    ('[[1, 2]]', '[[1, 2], [1, 3]]', 24, 'partitions.0.link_classes.B.pairs.1', 'of the 3 GPUs'),
    (', [0, 2]]', ']', 22, 'partitions.0.link_classes', '1 are in none: [0, 2]'),
    ('200 GB/s', '200 GB', 23, 'partitions.0.link_classes.A.peak', 'a bandwidth above 0'),
    ('768 GiB', '768 GHz', 25, 'partitions.0.memory_per_node', 'a size above 0'),
    ('921.6 GB/s', '921.6 GB', 26, 'partitions.0.peaks.memory_bandwidth', 'such as 614.4 GB/s (units: B/s, kB/s, MB/s'),
    ('7 TFlop/s', '0 TFlop/s', 26, 'partitions.0.peaks.flops_dp', 'a Flop rate above 0'),
    ('3 GHz', '3 GB', 26, 'partitions.0.peaks.core_clock', 'a frequency above 0'),
    ('environs: [cuda]', 'environs: [cudaa]', 7, 'partitions.0.environs.0', 'did you mean cuda'),
    ('governor:', 'governer:', 27, 'partitions.0.expects.governer', 'did you mean governor'),
    ('gpus: 3', 'gpus: 4', 27, 'partitions.0.expects.gpus', 'expected 3, as processor and devices describe'),
    ('smt_active: on', 'smt_active: 1', 27, 'partitions.0.expects.smt_active', 'expected on or off; found 1'),
    ('>=5.14 <6', '=>5.14', 27, 'partitions.0.expects.kernel', "'>=550.54 <560' (a version, a "),
    ('nics: 4', 'nics: four', 27, 'partitions.0.expects.nics', "expected a whole number; found 'four'"),
    ('  floor: 0.1', '  floor: 0.8', 31, 'tolerance.floor', 'at most the cap, 0.75; found 0.8'),
    ('  floor: 0.1', '  cap: 0.05\n  floor: 0.1', 32, 'tolerance.floor', 'at most the cap, 0.05'),
    ('HPL, floor: 0.1', 'HPL, floor: 0.3', 33, 'tolerance.rules.0.floor', 'at most the cap, 0.2; found 0.3'),
    ('[4, 0]', '[4]', 11, 'partitions.0.nic_numa_domains', 'expected 2 numbers, one for each of nics; found 1'),
    ('[4, 0]', '[4, 8]', 11, 'partitions.0.nic_numa_domains', 'found 8'),
    ('cxi0, ', 'hsn0, ', 10, 'partitions.0.nics.0', 'by sockets alone; expected cxi0'),
    ('--gpus-per-node=3', '-p gpu', 9, 'partitions.0.access', 'asks for no GPU, and steps of Slurm get none then'),
]


@pytest.mark.parametrize(('right', 'mistake', 'line', 'key', 'words'), MISTAKES)
def test_a_silent_mistake_is_named_with_file_line_key_and_a_guess(faults, right, mistake, line, key, words):
    assert GOOD.count(right) == 1
    (message,) = faults(GOOD.replace(right, mistake))
    assert message.startswith(f'site.yaml:{line}: {key}: ')
    assert words in message


#: Lines of shipped sites as they were when nobody had tried them on their machines, and what is said of each.
ONCE_SHIPPED = [
    (
        """\
  - name: gh200
    scheduler: slurm
    launcher: srun
    access: [-p normal, --gpus-per-node=4]
    environs: [cuda]
    nics: [hsn0, hsn1, hsn2, hsn3]
    devices:
      - {type: gpu, arch: sm_90, num_devices: 4}
environments:
  - {name: cuda, provider: system, mpi: cray-mpich, features: [osu, osu-cuda]}
""",
        [f'site.yaml:9: partitions.0.nics.{n}: is the Ethernet interface of a Slingshot device, which MPI uses by '
         f'sockets alone; expected cxi{n}' for n in range(4)],
    ),
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
        ['site.yaml:7: partitions.0.access: asks for no GPU, and steps of Slurm get none then; expected '
         '--gpus-per-node=8, or queue: {gives_gpus: true} where jobs need not ask'],
    ),
    (
        """\
  - name: gpu
    scheduler: pbs
    launcher: pals
    access: [-l filesystems=flare, '-l place=scatter:excl']
    environs: [sycl]
    queue: {needs: [account, queue]}
    devices:
      - {type: gpu, arch: intel_gpu_pvc, num_devices: 12}
    env_vars:
      - [ZE_FLAT_DEVICE_HIERARCHY, FLAT]
environments:
  - {name: sycl, provider: system, mpi: mpich, features: [babelstream-sycl]}
""",
        ['site.yaml:4: partitions.0.max_jobs: is missing: as many as the queue takes of a user; without it 8 are '
         'submitted at a time',
         'site.yaml:12: partitions.0.env_vars: lacks ONEAPI_DEVICE_SELECTOR: a device of SYCL may be the processor '
         'then; expected level_zero:gpu'],
    ),
    (
        """\
  - name: gpu
    scheduler: pbs
    launcher: pals
    environs: [cuda]
    queue: {needs: [account, queue]}
    devices:
      - {type: gpu, arch: sm_80, num_devices: 4}
environments:
  - {name: cuda, provider: spack, mpi: cray-mpich, features: [osu-cuda]}
""",
        ['site.yaml:4: partitions.0.max_jobs: is missing: as many as the queue takes of a user; without it 8 are '
         'submitted at a time'],
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
        ['site.yaml:12: environments.0.features.1: Intel MPI passes buffers of NVIDIA GPUs from 2021.13 on alone, and '
         'of AMD GPUs never; expected another MPI, or I_MPI_OFFLOAD: 1 in env_vars of this environment'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ('lines', 'said'), ONCE_SHIPPED, ids=['daint', 'frontier', 'aurora', 'polaris', 'marenostrum5']
)
def test_what_could_not_work_on_the_machine_of_a_shipped_site_is_refused(faults, tmp_path, lines, said):
    assert faults(f'descr: a cluster\nhostnames: []\npartitions:\n{lines}') == said
    read_site_file(tmp_path / 'site.yaml')  # a site that is in use still loads


@each_row(
    'mistake, right',
    [
        ('-S 0', '-G 8'), ('-S 0', "'--gres=nvme:1,gpu:8'"), ('-S 0', '--gpus-per-task=1'),
        ('environs: [rocm]', 'environs: [rocm]\n    queue: {gives_gpus: true}'),
        ('scheduler: slurm', 'scheduler: squeue'),
    ],
)  # fmt: skip
def test_jobs_that_get_gpus_are_no_mistake(faults, mistake, right):
    _, (lines, _), *_ = ONCE_SHIPPED
    assert faults(f'descr: a cluster\nhostnames: []\npartitions:\n{lines.replace(mistake, right)}') == []


@each_row(
    'site, mistake, right',
    [
        (4, 'mpi: intel-oneapi-mpi', 'mpi: openmpi'),
        (4, 'provider: spack', 'provider: spack, env_vars: [[I_MPI_OFFLOAD, 1]]'),
        (3, 'environs: [cuda]', 'environs: [cuda]\n    max_jobs: 1'),
        (3, '[account, queue]', '[account]'),
        (0, 'environs: [cuda]', 'environs: [cuda]\n    transport: sockets'),
    ],
)
def test_what_a_site_may_state_is_no_mistake(faults, site, mistake, right):
    lines, _ = ONCE_SHIPPED[site]
    assert lines.count(mistake) == 1
    assert faults(f'descr: a cluster\nhostnames: []\npartitions:\n{lines.replace(mistake, right)}') == []


METERS = """\
    energy:
      rapl: {boundary: package+dram, accuracy: 0.03}
      bmc: {command: bmc --power, boundary: node, accuracy: 0.02, interval: 5 s}
    power_cap: {command: cap, caps: [100 W, 150 W], normal: 200 W}
"""


@each_row(
    ('right', 'mistake', 'key', 'words'),
    [
        ('package+dram', 'socket', 'energy.rapl.boundary', "'socket'"),
        ('command: bmc --power, ', '', 'energy.bmc.command', 'is missing'),
        ('5 s', '5 sec', 'energy.bmc.interval', '100 ms'),
        ('accuracy: 0.02', 'accuracy: 2', 'energy.bmc.accuracy', '2'),
        ('rapl: {', 'rapl: {source: rapl, ', 'energy.rapl.source', 'unknown key'),
        ('bmc:', 'BMC:', 'energy.BMC', 'unknown key'),
        ('scheduler: slurm', 'scheduler: pbs', 'power_cap', 'pbs would not restore the cap'),
        ('100 W', '100 Watt', 'power_cap.caps.0', '250 W'),
        (', normal: 200 W', '', 'power_cap.normal', 'is missing'),
    ],
)
def test_a_mistake_in_a_meter_is_named(faults, right, mistake, key, words):
    text = GOOD.replace('    expects:', METERS + '    expects:').replace('launcher: srun', 'launcher: mpirun')
    assert not faults(text) and text.count(right) == 1
    (message,) = faults(text.replace(right, mistake))
    assert f': partitions.0.{key}: ' in message and words in message


def test_all_mistakes_are_found_at_once_in_the_order_of_their_lines(faults, tmp_path):
    assert faults(GOOD) == []
    wrong = GOOD
    for right, mistake in (
        ('launcher: srun', 'launcher: srunn'), ('zen4', 'zen44'), ('sm_90', 'sm90'), ('200 GB/s', '200 GB'),
        ('descr: a', 'desc: a'),
    ):  # fmt: skip
        wrong = wrong.replace(right, mistake)
    found = faults(wrong.replace('    memory_per_node', '    gpus: 3\n    nodes: 4\n    memory_per_node'))
    assert [message.split(': ')[1] for message in found] == [
        'desc', 'partitions.0.launcher', 'partitions.0.processor.arch', 'partitions.0.devices.0.arch',
        'partitions.0.link_classes.A.peak', 'partitions.0.gpus', 'partitions.0.nodes',
    ]  # fmt: skip
    with pytest.raises(SiteError, match='unknown key'):
        read_site_file(tmp_path / 'site.yaml')
    assert 'not valid YAML' in faults('partitions: [')[0]


ROW = 'gpu,cuda,BabelStreamDevice,device=0,bandwidth,kernel=copy,GB/s,higher,900,1.5,10,published,a paper,2026-02-28,,'


# A change of the row -> what it says of it
MISTAKES = {
    'GB/s,higher > GB/s,lower': 'better: of GB/s higher is better',
    'GB/s,higher > us,higher': 'better: of us lower is better',
    'GB/s > GBs': "unit: found 'GBs': did you mean GB/s",
    'higher > hihger': "better: expected one of higher, lower; found 'hihger': did you mean higher",
    '2026-02-28 > 2026-02-30': "recorded_at: expected a date such as 2026-11-21; found '2026-02-30'",
    '2026-02-28 > February': 'recorded_at: expected a date',
    'published, > publsihed,': 'did you mean published',
    ',900, > ,-900,': 'mean: expected a finite number of at least 0',
}


@each_row('change, words', MISTAKES.items())
def test_a_mistake_in_a_row_is_named(tmp_path, change, words):
    path, wrong = tmp_path / 'published.csv', ROW.replace(*change.split(' > '), 1)
    path.write_text('\n'.join([','.join(COLUMNS), ROW.replace('=0,', '=1,'), wrong, ROW]))
    rows, faults = read_rows(path, 'published')
    assert [line for line, _ in rows] == [2, 4]  # a wrong row hides no other
    assert faults and all(message.startswith(f'{path}:3: ') for message in faults)
    assert any(words in message for message in faults)


def test_every_wrong_row_is_named(tmp_path):
    path = tmp_path / 'published.csv'
    path.write_text('\n'.join([','.join(COLUMNS), ROW, ROW, ROW.replace('GB/s', 'us'), 'x,y', ROW]))
    places = [message.removeprefix(f'{path}:').partition(': ')[::2] for message in read_rows(path, 'published')[1]]
    assert [line for line, _ in places] == ['3', '4', '5', '6']
    assert 'as line 2' in places[0][1] and 'expected' in places[2][1]


def test_schedulers_and_launchers_are_those_of_reframe_and_our_own():
    from reframe.core import backends

    import reframe_settings.launchers  # noqa: F401  registers ours
    from plumbline.paths import SCHEMAS
    from plumbline.site.mpi import FAMILIES

    schema = json.loads((SCHEMAS / 'site.schema.json').read_text())['$defs']
    assert set(schema['stack']['properties']['mpi']['enum']) == set(FAMILIES)
    known = schema['partition']['properties']
    for kind in ('scheduler', 'launcher'):
        for module in getattr(backends, f'_{kind}_backend_modules'):
            importlib.import_module(module)
        registered = {name for name in getattr(backends, f'_{kind}s') if not name.startswith('plumbline-')}
        assert set(known[kind]['enum']) == {name for name in registered if not name.endswith('-on-whole-nodes')}

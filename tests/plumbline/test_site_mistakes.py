# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes in the files of a site that would be silent: all are found, with file, line, key and a guess."""

import importlib
import json

import pytest
from rows import each_row

from plumbline.errors import SiteError
from plumbline.references import COLUMNS, read_rows
from plumbline.site.file import faults_of_site_file, read_site_file

GOOD = """\
descr: a cluster
hostnames: []
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    environs: [cuda]
    max_time: 1d12h
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
    ('arch: zen4', 'arch: zen44', 10, 'partitions.0.processor.arch', 'did you mean zen4'),
    ('num_cpus: 192', 'num_cpus: 190', 11, 'partitions.0.processor.num_cpus', 'in each of 2 sockets; found 95 cores'),
    ('num_cpus: 192', 'num_cpus: 191', 11, 'partitions.0.processor.num_cpus', 'a multiple of num_cpus_per_core, 2'),
    (
        'domains: 8',
        'domains: 1',
        14,
        'partitions.0.processor.num_numa_domains',
        'a multiple of num_sockets, 2; found 1',
    ),
    ('domains: 8', 'domains: 10', 14, 'partitions.0.processor.num_numa_domains', 'found 10 domains of 96 cores'),
    ('MiB, num_cpus: 16', 'MiB, num_cpus: 7', 16, 'partitions.0.processor.caches.L3.num_cpus', 'a divisor of num_cpus'),
    ('sm_90', 'sm90', 18, 'partitions.0.devices.0.arch', 'did you mean sm_90'),
    ('[0, 2, 4]', '[0, 2, 8]', 18, 'partitions.0.devices.0.numa_domains', 'found 8'),
    ('[0, 2, 4]', '[0, 2]', 18, 'partitions.0.devices.0.numa_domains', 'expected 3 numbers'),
    ('[[1, 2]]', '[[1, 2], [1, 3]]', 21, 'partitions.0.link_classes.B.pairs.1', 'of the 3 GPUs'),
    (', [0, 2]]', ']', 19, 'partitions.0.link_classes', '1 are in none: [0, 2]'),
    ('200 GB/s', '200 GB', 20, 'partitions.0.link_classes.A.peak', 'a bandwidth above 0'),
    ('768 GiB', '768 GHz', 22, 'partitions.0.memory_per_node', 'a size above 0'),
    ('921.6 GB/s', '921.6 GB', 23, 'partitions.0.peaks.memory_bandwidth', "'614.4 GB/s'; found '921.6 GB'"),
    ('7 TFlop/s', '0 TFlop/s', 23, 'partitions.0.peaks.flops_dp', 'a Flop rate above 0'),
    ('3 GHz', '3 GB', 23, 'partitions.0.peaks.core_clock', 'a frequency above 0'),
    ('environs: [cuda]', 'environs: [cudaa]', 7, 'partitions.0.environs.0', 'did you mean cuda'),
    ('governor:', 'governer:', 24, 'partitions.0.expects.governer', 'did you mean governor'),
    ('gpus: 3', 'gpus: 4', 24, 'partitions.0.expects.gpus', 'expected 3, as processor and devices describe'),
    ('smt_active: on', 'smt_active: 1', 24, 'partitions.0.expects.smt_active', 'expected boolean, found 1'),
    ('>=5.14 <6', '=>5.14', 24, 'partitions.0.expects.kernel', "a range such as '>=550.54 <560'; found '=>5.14'"),
    ('nics: 4', 'nics: four', 24, 'partitions.0.expects.nics', "expected integer, found 'four'"),
    ('  floor: 0.1', '  floor: 0.8', 28, 'tolerance.floor', 'at most the cap, 0.75; found 0.8'),
    ('  floor: 0.1', '  cap: 0.05\n  floor: 0.1', 29, 'tolerance.floor', 'at most the cap, 0.05'),
    ('HPL, floor: 0.1', 'HPL, floor: 0.3', 30, 'tolerance.rules.0.floor', 'at most the cap, 0.2; found 0.3'),
]


@pytest.fixture
def faults(tmp_path):
    def faults(text: str) -> list[str]:
        (tmp_path / 'site.yaml').write_text(text)
        return [message.removeprefix(f'{tmp_path}/') for message in faults_of_site_file(tmp_path / 'site.yaml')]

    return faults


@pytest.mark.parametrize(('right', 'mistake', 'line', 'key', 'words'), MISTAKES)
def test_a_silent_mistake_is_named_with_file_line_key_and_a_guess(faults, right, mistake, line, key, words):
    assert GOOD.count(right) == 1
    (message,) = faults(GOOD.replace(right, mistake))
    assert message.startswith(f'site.yaml:{line}: {key}: ')
    assert words in message


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
        ('command: bmc --power, ', '', 'energy.bmc', "lacks the key 'command'"),
        ('5 s', '5 sec', 'energy.bmc.interval', '100 ms'),
        ('accuracy: 0.02', 'accuracy: 2', 'energy.bmc.accuracy', '2'),
        ('rapl: {', 'rapl: {source: rapl, ', 'energy.rapl.source', 'unknown key'),
        ('bmc:', 'BMC:', 'energy.BMC', 'unknown key'),
        ('scheduler: slurm', 'scheduler: pbs', 'power_cap', 'pbs would not restore the cap'),
        ('100 W', '100 Watt', 'power_cap.caps.0', '250 W'),
        (', normal: 200 W', '', 'power_cap', "lacks the key 'normal'"),
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
        'desc', 'the file', 'partitions.0.launcher', 'partitions.0.link_classes.A.peak', 'partitions.0.gpus',
        'partitions.0.nodes',
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

# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of people in a site.yaml: `plumbline sites SITE --check` tells each in one sentence."""

import json
import re

import pytest
from run_reports import reference

from plumbline.programs import find_reframe
from plumbline.site.sites import read_site
from postprocess import site_check

HERON = """\
descr: 64 nodes with four H100 behind Slurm
hostnames: ['^login[0-9]+']
modules_system: lmod
partitions:
  - name: gpu
    scheduler: slurm
    launcher: srun
    access: [-p gpu, --gpus-per-node=4]
    environs: [cuda]
    max_time: 1d
    max_jobs: 8
    num_nodes: 64
    nics: [mlx5_0, mlx5_1]
    processor:
      arch: zen3
      num_cpus: 256
      num_cpus_per_core: 2
      num_sockets: 2
      num_numa_domains: 8
      caches:
        L1: {size: 32 KiB, num_cpus: 2}
        L2: {size: 512 KiB, num_cpus: 2}
        L3: {size: 32 MiB, num_cpus: 16}
    devices:
      - {type: gpu, arch: sm_90, num_devices: 4, numa_domains: [3, 2, 1, 0]}
    memory_per_node: 768 GiB
    peaks:
      memory_bandwidth: 409.6 GB/s
      network_bandwidth: 50 GB/s
      flops_dp: 7.168 TFlop/s
      core_clock: 3.5 GHz
      flop_per_cycle: {avx_dp: 16}
    expects: {gpus: 4, smt_active: on, nics: 2, nic_rate: 200 Gb/s}
    file_systems:
      scratch: {path: /scratch/benchmarks, kind: lustre}
environments:
  - {name: cuda, provider: system, mpi: openmpi, features: [babelstream-cuda, osu, hpcc]}
"""


@pytest.fixture
def check(work):
    """`plumbline sites cluster --check` of a site.yaml: exit code, and its sentences without the path."""
    path = work.sites / 'cluster' / 'site.yaml'

    def check(content: str | bytes) -> tuple[int, list[str]]:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        read_site.cache_clear()
        answer = work.run('sites', 'cluster', '--check')
        return answer.exit_code, [line.replace(f'plumbline: {path}:', '') for line in answer.stderr.splitlines()]

    return check


def changed(*changes: str) -> str:
    """HERON with changes such as ``num_nodes: 64 > num_nodes: 0100``."""
    text = HERON
    for change in changes:
        right, mistake = change.split(' > ')
        assert text.count(right) == 1, right
        text = text.replace(right, mistake)
    return text


def test_a_site_without_a_mistake_says_what_its_nodes_are_and_the_next_step(check, work, monkeypatch):
    monkeypatch.setattr(site_check, 'find_reframe', lambda: pytest.fail('ReFrame takes seconds to start'))
    assert check(HERON)[0] == 0
    assert work.run('sites', 'cluster', '--check').stdout.splitlines() == [
        'cluster:gpu: 2 sockets x 64 cores x 2 threads, 4 GPUs sm_90, 2 NICs, 768 GiB, 64 nodes',
        'ok: 1 partition, 0 references; next: plumbline sites cluster --cases',
    ]


#: A change -> the line and key that are named, words of the one sentence, and words that are not in it.
ONE = {
    'num_nodes: 64 > zzz: 64': ('12: partitions.0.zzz', 'unlike all 35 that are known', 'max_jobs'),
    'zen3 > i9': ('15: partitions.0.processor.arch', "found 'i9'", 'zen'),
    '768 GiB > 768': ('26: partitions.0.memory_per_node', 'such as 256 GiB', 'string'),
    '768 GiB > 2 PiB': ('26: partitions.0.memory_per_node', 'found 2 PiB: a slip of the unit?', ''),
    'rate: 200 Gb/s > rate: 400 GB/s': ('33: partitions.0.expects.nic_rate', 'such as 400 Gb/s', '[0-9]'),
    '/scratch/benchmarks > scratch': ('35: partitions.0.file_systems.scratch.path', 'such as /scratch/bench', '[A-Z'),
    '/scratch/benchmarks > /': ('35: partitions.0.file_systems.scratch.path', 'not /', '[A-Z'),
    'L3: > L5:': ('23: partitions.0.processor.caches.L5', 'expected one of L1, L2, L3, L4; found', '^L'),
    'avx_dp > avx2_dp': ('32: partitions.0.peaks.flop_per_cycle.avx2_dp', 'did you mean avx_dp', '^('),
    'L3: {size: 32 MiB > L3: {size: 32 KiB': ('23: partitions.0.processor.caches.L3.size', 'found 32 KiB', 'L2'),
    'num_cpus: 256 > num_cpus: 128': ('16: partitions.0.processor.num_cpus', 'flops_dp is that of 128 cores', ''),
    'num_cpus: 256 > num_cpus: 256.0': ('16: partitions.0.processor.num_cpus', 'a whole number; found 256.0', ''),
    'num_nodes: 64 > num_nodes: 0192': ('12: partitions.0.num_nodes', "a whole number; found '0192'", ''),
    'num_nodes: 64 > num_nodes: 6400000': ('12: partitions.0.num_nodes', 'at most 200000', ''),
    '50 GB/s > 400 GB/s': ('29: partitions.0.peaks.network_bandwidth', '2 network devices of 200 Gb/s', ''),
    'hpcc > HPCC': ('37: environments.0.features.2', 'did you mean hpcc?', ''),
}


@pytest.mark.parametrize('change', ONE)
def test_one_mistake_is_one_sentence_with_line_key_and_what_was_expected(check, change):
    place, words, absent = ONE[change]
    code, (said,) = check(changed(change))
    assert code == 2 and said.startswith(f'{place}: ') and words in said
    assert not absent or absent not in said


#: A change -> words of a note: it may be meant, and costs something.
NOTED = {
    'nics: 2 > nics: 4': 'expects 4 nics and names 2 in the key nics',
    "['^login[0-9]+'] > []": 'hostnames is empty: the site is chosen by --site or PLUMBLINE_SITE alone',
    ', features: [babelstream-cuda, osu, hpcc] > ': 'no environ of partition gpu has features',
}


@pytest.mark.parametrize('change', NOTED)
def test_what_may_be_meant_is_noted(check, change):
    code, said = check(changed(change))
    assert code == 0 and any(NOTED[change] in line for line in said)
    assert not any(NOTED[change] in line for line in check(HERON)[1])


def test_a_partition_without_environs_is_noted_and_no_night_follows(check, work, monkeypatch):
    other = '  - {name: other, scheduler: slurm, launcher: srun, environs: [cuda]}\nenvironments:'
    code, said = check(changed(
        'environs: [cuda] > environs: []', f'environments: > {other}', 'babelstream-cuda, osu, hpcc > hpcc',
    ))  # fmt: skip
    assert code == 0 and any('partition gpu has no environs: it has no case' in line for line in said)
    monkeypatch.setattr(site_check, 'find_reframe', lambda: 'reframe')
    answer = work.run('sites', 'cluster', '--cases')
    assert answer.stdout.splitlines()[-1] == 'ok: 0 cases, 0 references' and answer.exit_code == 0


def test_cores_by_the_name_of_the_processor(check):
    (said,) = check(changed('arch: zen3 > model: AMD EPYC 7763 64-Core Processor', 'num_cpus: 256 > num_cpus: 128',
                            '      flops_dp: 7.168 TFlop/s\n > '))[1]  # fmt: skip
    assert said.startswith('16: partitions.0.processor.num_cpus: expected 256 hardware threads')


@pytest.mark.parametrize(
    ('one', 'says'),
    [
        (reference(partition='gpus', environ='cuda'), "partition 'gpus': expected one of gpu; found 'gpus'"),
        (reference(partition='gpu', environ='sytem'), 'expected one of cuda'),
        (reference(partition='gpu', environ='cuda'), ''),
    ],
)
def test_a_reference_of_no_partition_or_environ_is_named_without_a_case(work, check, one, says):
    work.reference(one)
    code, said = check(HERON)
    of_row = [line for line in said if line.startswith(f'plumbline: {work.baseline}:2: ')]
    assert code == (2 if says else 0) and len(of_row) == bool(says) and all(says in line for line in of_row)


RULE = '\ntolerance:\n  rules:\n    - {check: OsuLatency, floor: 0.2, cap: 0.3, why: far}\n'


@pytest.mark.parametrize(
    ('right', 'mistake', 'place', 'words'),
    [
        ('check: OsuLatency', 'check: OsuLatencies', '41: ', "found 'OsuLatencies': did you mean OsuLatency"),
        ('check: OsuLatency', "check: 'Ozu*'", '41: ', 'no check has this name, so the rule has no effect'),
        ('provider: system', 'provider: spack', '37: environments.0.provider: ', ''),
    ],
)  # fmt: skip
def test_what_the_files_beside_it_do_not_have_is_named_with_its_line(check, right, mistake, place, words):
    code, (said,) = check((HERON + RULE).replace(right, mistake))
    assert code == 2 and said.startswith(place) and words in said


def test_locations_are_checked_with_the_files(work, check):
    (work.sites / 'cluster' / 'locations.csv').write_text('node,switch\nn1,s1\nn1,s2\n')
    code, (said,) = check(HERON)
    assert code == 2 and 'locations.csv:3: node n1: expected one row of 2 columns' in said


LAUGHS = 'a0: &a0 [x, x, x, x, x, x, x, x, x]\n' + ''.join(
    f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]\n' for i in range(1, 10)
)
#: What PyYAML itself dies of, or takes minutes and GB for, and words of the one sentence.
NO_YAML = {
    'not UTF-8': (HERON.replace('four', 'f\xfcnf').encode('latin-1'), '1: not valid YAML: expected UTF-8, found'),
    'alias to itself': (HERON + 'env_vars: &a [*a]\n', '38: not valid YAML: the alias *a stands within'),
    'merge of itself': (HERON + 'tolerance: &a {<<: *a}\n', '38: not valid YAML: the alias *a stands within'),
    'brackets': (HERON + f'env_vars: {"[" * 3000}{"]" * 3000}\n', '38: not valid YAML: more than 50 levels'),
    'many brackets': (HERON + f'env_vars: {"[" * 300_000}\n', '38: not valid YAML: more than 50 levels'),
    'indentation': (HERON + f'env_vars:\n  {"- " * 3000}x\n', '39: not valid YAML: more than 50 levels'),
    'billion laughs': (HERON + LAUGHS, '42: not valid YAML: the aliases up to here repeat more than 10000 parts'),
}


@pytest.mark.parametrize('kind', NO_YAML)
def test_what_a_parser_dies_of_is_one_sentence_and_stops_no_other_site(check, work, kind):
    text, words = NO_YAML[kind]
    (work.sites / 'other').mkdir()
    (work.sites / 'other' / 'site.yaml').write_text(HERON)
    code, (said,) = check(text)
    assert code == 2 and said.startswith(words) and len(said) < 200
    rows = {row['site']: row for row in json.loads(work.run('sites', '--format', 'json').stdout)}
    assert words in rows['cluster']['problem'] and rows['other']['partitions'] == ['gpu']


def test_aliases_that_save_typing_are_read(check, work):
    second = '  - {name: large, scheduler: slurm, launcher: srun, environs: [cuda], processor: *cpu}\n'
    text = changed('    processor:\n >     processor: &cpu\n', f'environments: > {second}environments:')
    assert check(text)[0] == 0
    assert 'cluster:large: 2 sockets x 64 cores x 2 threads' in work.run('sites', 'cluster', '--check').stdout


@pytest.mark.skipif(find_reframe() is None, reason='no reframe here')
def test_the_time_limit_of_each_job_contains_its_trials(work, monkeypatch):
    """Of IOR without a stated size: twice 768 GiB a node, for which a day of the queue is too short at 0.2 GB/s."""
    path = work.sites / 'heron' / 'site.yaml'
    path.parent.mkdir()
    path.write_text(
        changed(
            '[babelstream-cuda, osu, hpcc] > [ior, mdtest]', 'num_nodes: 64 > num_nodes: 2', 'modules_system: lmod\n > '
        )
    )
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    said = work.run('sites', 'heron', '--jobs').output
    trial = re.compile(r': (?P<of>\w+)[^:]*: (\d+ trials?) of about (?P<seconds>[^,]+), (?P<rest>.*)')
    of = {m['of']: m for m in trial.finditer(said)}
    assert of.keys() >= {'IOR', 'IORRanks', 'Mdtest', 'MdtestRanks'}, said
    for match in trial.finditer(said):
        if 'longer than max_time, 24 h' in match['rest']:
            assert in_seconds(match['seconds']) > 86400
        else:
            ended = re.match('(?:each )?ended after ([^:]+) at the latest', match['rest'])
            assert in_seconds(match['seconds']) <= in_seconds(ended[1]) <= 86400
    assert 'longer than max_time' in said


def in_seconds(words: str) -> int:
    """The seconds of ``2 h 5 min``."""
    return sum(int(number) * {'s': 1, 'min': 60, 'h': 3600}[unit] for number, unit in re.findall(r'(\d+) (\w+)', words))

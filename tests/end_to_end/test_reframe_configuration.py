# SPDX-License-Identifier: BSD-3-Clause
"""The checks with ReFrame configurations that are not ours: listed, skipped with the reason, run, and judged.

Those of `tests/data/own-configurations` have the form of three public suites, with other names.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from scratch import ROOT, ScratchClone

CONFIGURATIONS = ROOT / 'tests/data/own-configurations'
WITH_GPUS = {'osprey:normal', 'egret:gpu_A100'}
PROCESSOR = {'num_cpus': 128, 'num_cpus_per_core': 1, 'num_cpus_per_socket': 64, 'num_sockets': 2}
HERE = """\
site_configuration = {
    'systems': [{'name': 'wren', 'descr': 'this machine', 'hostnames': ['.*'], 'partitions': [
        {'name': 'node', 'scheduler': 'local', 'launcher': 'local', 'environs': ['plain']},
    ]}],
    'environments': [{'name': 'plain'}],
}
"""


@pytest.fixture(scope='module')
def clone(tmp_path_factory):
    return ScratchClone(tmp_path_factory.mktemp('own'))


def detected(home: Path, *partitions: str) -> None:
    """Write the files that ReFrame keeps of processors that it detected on nodes."""
    for name in partitions:
        (folder := home / '.reframe/topology' / name).mkdir(parents=True)
        (folder / 'processor.json').write_text(json.dumps(PROCESSOR))


def reframe(clone, configuration: Path, *options: str, checks: str = 'checks', home: Path | None = None):
    """Run plain ReFrame, to which nothing but the configuration and the checks is told."""
    return clone.fork(
        'reframe', '-C', configuration, '-c', clone.root / checks, '-R', *options, cwd=home or configuration.parent,
        HOME=str(home or configuration.parent), PLUMBLINE_SITE='',
    )  # fmt: skip


@pytest.mark.parametrize(
    'name, files, partitions, said',
    [
        (
            'typed', [], {'heron:compute-node', 'heron:v100'},
            'heron: no case on odd: processor.num_sockets: expected a divisor of the 64 cores of a node; found 3; the '
            'GPUs of v100: its `devices` do not say how many',
        ),
        (
            'devices', ['osprey-normal'], {'osprey:normal'},
            'osprey: no case on login: others log in there, as it is beside partitions with a scheduler',
        ),
        ('vendors', ['egret-rome', 'egret-gpu_A100'], {'egret:rome', 'egret:gpu_A100'}, ''),
    ],
)  # fmt: skip
def test_the_checks_list_from_the_forms_of_three_suites(clone, tmp_path, name, files, partitions, said):
    detected(tmp_path, *files)
    answer = reframe(clone, CONFIGURATIONS / f'{name}.py', '-lC', home=tmp_path)
    assert answer.returncode == 0 and 'skipping test' not in answer.stdout, answer.stdout
    cases = re.findall(r'^- (\w+) .*@(\S+?)\+(\S+)$', answer.stdout, re.MULTILINE)
    assert {partition for _, partition, _ in cases} == partitions
    for one in partitions:
        assert len({check for check, partition, _ in cases if partition == one}) >= 10
    assert said in answer.stdout
    assert {partition for check, partition, _ in cases if check == 'XcclTests'} == partitions & WITH_GPUS


def test_what_an_environ_says_that_it_has_is_all_that_it_has(clone, tmp_path):
    detected(tmp_path, 'osprey-normal')
    said = reframe(clone, CONFIGURATIONS / 'devices.py', '-lC', '-p', 'PrgEnv-ours', home=tmp_path).stdout
    checks = set(re.findall(r'^- (\w+)', said, re.MULTILINE))
    assert 'HPCC' in checks and 'HPL' not in checks
    assert any(name.startswith('BabelStream') for name in checks)


def test_jobs_ask_for_the_gpus_of_their_nodes(clone, tmp_path):
    """By `num_gpus_per_node`, which such a configuration turns into an option of its scheduler."""
    detected(tmp_path, 'egret-rome', 'egret-gpu_A100')
    answer = reframe(
        clone, CONFIGURATIONS / 'vendors.py', '--dry-run', '-n', 'OsuLatency%pair=same_numa',
        '-S', 'trials=1', home=tmp_path,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout
    scripts = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.glob('stage/**/rfm_job.sh')}
    assert len(scripts) == 2
    for name, text in scripts.items():
        assert ('#SBATCH --gpus-per-node=4' in text) is ('gpu_A100' in name)
        assert '#SBATCH --exclusive' in text and '\ntrue\n' in text


def test_a_case_whose_programs_are_not_there_is_skipped_and_the_session_fails_where_no_other_ran(clone, tmp_path):
    own = tmp_path / 'own.py'
    own.write_text(HERE)
    answer = clone.plumbline(
        'gate', '--', 'reframe', '-C', str(own), '-c', str(clone.root / 'checks/compute'), '-r',
        '-n', 'HPL%size=quick', '-p', 'plain',
        cwd=tmp_path, HOME=str(tmp_path), PATH=f'{Path(sys.executable).parent}:/usr/bin:/bin',
        PLUMBLINE_RESULTS=str(tmp_path / 'results'),
    )  # fmt: skip
    assert 'plain has no xhpl on its PATH' in answer.stdout and '1 skipped' in answer.stdout, answer.stdout
    assert answer.returncode == 1 and 'no case ran' in answer.stdout


def test_without_a_processor_one_check_says_so_and_fails(clone, tmp_path):
    own = tmp_path / 'own.py'
    own.write_text((CONFIGURATIONS / 'vendors.py').read_text().replace("'remote_detect': True", ''))
    listed = reframe(clone, own, '-l')
    assert 'NoCase' in listed.stdout and 'Found 1 check(s)' in listed.stdout
    why = 'egret: no case on rome: ReFrame knows no num_cpus, num_cpus_per_core and num_sockets of its processor'
    assert listed.stdout.count(why) == 1
    ran = reframe(clone, own, '-r', '--prefix', str(tmp_path), '--system=egret:rome')
    assert ran.returncode == 1, ran.stdout

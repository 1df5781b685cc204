# SPDX-License-Identifier: BSD-3-Clause
"""How a node is set, read from a tree with the kernel's files of a node with GPUs, and compared with expectations."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from reading import run_of
from rows import each_row

from plumbline.paths import ROOT

SCRIPT = ROOT / 'checks/core/job/parts/settings.sh'
FILES = {
    'proc/cmdline': 'BOOT_IMAGE=/vmlinuz-5.14 root=UUID=1 mitigations=off nosmt=force',
    'proc/cpuinfo': 'processor\t: 0\nmodel name\t: AMD EPYC 7A53 64-Core Processor\nmicrocode\t: 0xa001173\n',
    'proc/self/mounts': 'mgs@tcp:/scratch /scratch lustre rw 0 0\ntmpfs /tmp tmpfs rw 0 0',
    'proc/sys/vm/nr_hugepages': '0',
    'sys/devices/system/cpu/smt/active': '0',
    'sys/devices/system/cpu/cpufreq/boost': '1',
    'sys/kernel/mm/transparent_hugepage/enabled': 'always [madvise] never',
    'sys/class/dmi/id/bios_version': '1.5.3',
    **{f'sys/devices/system/node/node{n}/cpulist': f'{n}' for n in range(4)},
    'sys/devices/system/node/node4/cpulist': '',  # memory alone
    **{f'sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor': 'performance' for n in range(4)},
    **{f'sys/devices/system/cpu/cpu{n}/cpufreq/cpuinfo_max_freq': '3500000' for n in range(4)},
    **{f'sys/class/infiniband/mlx5_{n}/ports/1/rate': '200 Gb/sec (4X HDR)' for n in range(4)},
    **{f'sys/class/infiniband/mlx5_{n}/fw_ver': '28.39.1002' for n in range(4)},
}
GPU = '550.54.15, 96.00.89.00.01, Enabled, 1980 MHz'


@pytest.fixture
def node(tmp_path):
    """Return a function: further files, GPUs as nvidia-smi prints them, expectations -> what compare prints."""
    programs = tmp_path / 'bin'
    programs.mkdir()

    def node(expects: str, files: dict[str, str] | None = None, gpus: str = '\n'.join([GPU] * 8), word='compare'):
        shutil.rmtree(tmp_path / 'root', ignore_errors=True)
        for name, text in (FILES | (files or {})).items():
            path = tmp_path / 'root' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'{text}\n' if text else '')
        (programs / 'nvidia-smi').write_text(f'#!/bin/sh\ncat <<E\n{gpus}\nE\nexit {int(gpus.startswith("No"))}\n')
        (programs / 'nvidia-smi').chmod(0o755)
        (tmp_path / 'expects').write_text(''.join(f'{line}\n' for line in expects.replace('=>', '\t').split(' ; ')))
        environment = {'node_root': str(tmp_path / 'root'), 'PATH': f'{programs}:/usr/bin:/bin'}
        answer = subprocess.run(
            ['bash', SCRIPT, word, tmp_path / 'expects'], env=environment, capture_output=True, text=True, check=False
        )
        assert answer.stderr == ''
        return answer.returncode, answer.stdout.splitlines()

    return node


ALL = (
    'kernel=>* ; kernel_command_line=>mitigations=off ; kernel_command_line=>nosmt=force ; smt_active=>0 ; '
    'numa_domains=>4 ; transparent_hugepages=>madvise ; hugepages=>0 ; governor=>performance ; turbo=>1 ; '
    'core_clock=>3500 MHz ; cpu_model=>AMD EPYC 7A53* ; microcode=>>=0xa001100 <0xa001200 ; bios=>1.5.3 ; gpus=>8 ; '
    'gpu_driver=>>=550.54 <560 ; gpu_firmware=>96.00.89.00.01 ; gpu_ecc=>1 ; gpu_clock=>1980 MHz ; nics=>4 ; '
    'nic_rate=>200 Gb/s ; nic_firmware=>>28.9 ; file_systems=>/scratch lustre ; file_systems=>/tmp *'
)


def test_a_node_that_is_set_as_expected_has_no_difference(node):
    assert node(ALL) == (0, ['as expected: 23 of 23'])
    assert node(ALL, word='refuse') == (0, [])


def cpu(number: int, name: str) -> str:
    return f'sys/devices/system/cpu/cpu{number}/{name}'


@each_row(
    'files, gpus, key, says',
    [
        ({}, [GPU] * 7, 'gpus', 'gpus: expected 8, found 7'),
        ({}, [GPU] * 7 + [GPU.replace('Enabled', 'Disabled')], 'gpu_ecc',
         'gpu_ecc: expected on, found off (GPU 7)'),
        ({}, [GPU.replace('Enabled', '[N/A]')] * 8, 'gpu_ecc',
         'gpu_ecc: expected on, cannot be read: the driver does not tell it of GPU 0'),
        ({}, [GPU.replace('550.54.15', '560.28')] * 8, 'gpu_driver',
         'gpu_driver: expected >=550.54 <560, found 560.28 (GPU 0, GPU 1, GPU 2 and 5 more of 8)'),
        ({}, ['No devices were found'], 'gpus',
         'gpus: expected 8, cannot be read: nvidia-smi says: No devices were found'),
        ({'sys/class/infiniband/mlx5_2/ports/1/rate': '100 Gb/sec (2X HDR)'}, [], 'nic_rate',
         'nic_rate: expected 200 Gb/s, found 100 Gb/s (mlx5_2)'),
        ({'sys/class/infiniband/mlx5_4/fw_ver': '28.39.1002'}, [], 'nics', 'nics: expected 4, found 5'),
        ({cpu(3, 'cpufreq/scaling_governor'): 'powersave'}, [], 'governor',
         'governor: expected performance, found powersave (CPU 3)'),
        ({cpu(0, 'cpufreq/cpuinfo_max_freq'): '2000000'}, [], 'core_clock',
         'core_clock: expected 3500 MHz, found 2000 MHz (CPU 0)'),
        ({'sys/devices/system/cpu/smt/active': '1'}, [], 'smt_active', 'smt_active: expected off, found on'),
        ({'sys/devices/system/cpu/cpufreq/boost': '0'}, [], 'turbo', 'turbo: expected on, found off'),
        ({'sys/devices/system/cpu/intel_pstate/no_turbo': '1'}, [], 'turbo', 'turbo: expected on, found off'),
        ({'sys/devices/system/node/node4/cpulist': '9'}, [], 'numa_domains', 'numa_domains: expected 4, found 5'),
        ({'sys/kernel/mm/transparent_hugepage/enabled': '[always] madvise never'}, [], 'transparent_hugepages',
         'transparent_hugepages: expected madvise, found always'),
        ({'proc/cpuinfo': 'microcode : 0xa001200\n'}, [], 'microcode',
         'microcode: expected >=0xa001100 <0xa001200, found 0xa001200'),
        ({'proc/cmdline': 'nosmt=force'}, [], 'kernel_command_line',
         'kernel_command_line: expected mitigations=off, which is not there'),
        ({'proc/self/mounts': 'tmpfs /tmp tmpfs rw 0 0'}, [], 'file_systems',
         'file_systems: expected /scratch lustre, which is not there'),
        ({'sys/class/dmi/id/bios_version': ''}, [], 'bios',
         'bios: expected 1.5.3, cannot be read: /sys/class/dmi/id/bios_version cannot be read'),
    ],
)  # fmt: skip
def test_a_setting_that_is_another_is_one_sentence(node, files, gpus, key, says):
    wanted = ' ; '.join(line for line in ALL.split(' ; ') if line.startswith(f'{key}=>'))
    code, (sentence, counts) = node(wanted, files, '\n'.join(gpus or [GPU] * 8))
    assert (code, sentence) == (0, says)
    assert counts.startswith('as expected: ')


def test_a_node_that_is_refused_is_named_with_all_differences(node):
    code, (line,) = node(ALL, {'proc/sys/vm/nr_hugepages': '512'}, '\n'.join([GPU] * 7), 'refuse')
    assert code == 1
    assert 'hugepages: expected 0, found 512; gpus: expected 8, found 7' in line


@each_row('path', ['/dev/null', '/nonexistent'])
def test_a_node_of_which_nothing_could_be_compared_is_refused(path):
    answer = subprocess.run(['bash', SCRIPT, 'refuse', path], capture_output=True, text=True, check=False)
    assert answer.returncode == 1 and 'could not be compared' in answer.stdout


@each_row(
    'found, wanted, well',
    [
        ('5.14.0-427.el9', '>=5.14 <6', True), ('5.9', '>=5.14', False), ('6', '<6', False), ('6', '<=6', True),
        ('5.14.0-427.el9', '5.14.0-427.*', True), ('535.10', '>535.9', True), ('535.9', '>535.9', False),
    ],
)  # fmt: skip
def test_versions_and_their_ranges(node, found, wanted, well):
    _, lines = node(f'bios=>{wanted}', {'sys/class/dmi/id/bios_version': found})
    assert lines[-1] == f'as expected: {int(well)} of 1'


def test_each_node_of_a_job_is_looked_at_once_by_its_first_rank(tmp_path):
    run = tmp_path / 'trial_1/run'
    run.mkdir(parents=True)
    required, seen = tmp_path / 'required.tsv', tmp_path / f'as_expected.{os.uname().nodename}'

    def rank(number: int) -> subprocess.CompletedProcess:
        words = ['bash', SCRIPT.with_name('rank.sh'), 'echo', 'ran']
        environment = {'PATH': os.environ['PATH'], 'SLURM_LOCALID': str(number)}
        return subprocess.run(words, cwd=run, env=environment, capture_output=True, text=True, check=False)

    required.write_text('kernel\t>=99\n')
    refused = rank(0)
    assert (refused.returncode, refused.stdout, seen.exists()) == (125, '', False)
    assert refused.stderr.startswith(f'plumbline: local rank 0: {os.uname().nodename} is not set as site.yaml expects')
    assert f'kernel: expected >=99, found {os.uname().release}' in refused.stderr
    assert (rank(1).stdout, seen.exists()) == ('ran\n', False)
    required.write_text('kernel\t>=1\n')
    assert (rank(0).stdout, seen.exists()) == ('ran\n', True)
    required.write_text('kernel\t>=99\n')
    assert rank(0).stdout == 'ran\n', 'the next program of the job'


def test_only_a_site_that_expects_settings_has_the_check_and_each_other_setting_is_a_fault(reframe_runtime):
    from checks.node.settings import NodeSettings

    known = [
        NodeSettings.supports(None, SimpleNamespace(expects=expects)) for expects in ((), (('smt_active', 'off'),))
    ]
    assert known == [False, True]
    said = 'smt_active: expected off, found on'
    assert NodeSettings.sanity_faults(None, run_of(f'{said}\nas expected: 3 of 4\n')) == [said]
    assert NodeSettings.sanity_faults(None, run_of('as expected: 4 of 4\n')) == []

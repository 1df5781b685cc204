# SPDX-License-Identifier: BSD-3-Clause
"""How a node is set, read from a tree with the kernel's files of a node with GPUs, and compared with expectations."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from reading import run_of
from rows import each_row
from scratch import OUTPUTS

from checks.node.settings import NodeSettings
from plumbline.paths import ROOT

SCRIPT = ROOT / 'checks/core/job/parts/settings.sh'
CPU, NVIDIA, BRIDGE = 'sys/devices/system/cpu', 'sys/bus/pci/drivers/nvidia', 'sys/bus/pci/devices/0000:17:01.0'


def with_acs(control: int) -> bytes:
    """Return the configuration of a PCI bridge whose second extended capability is ACS, by the specification."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, 'little')  # AER, version 1, the next is at 148h
    config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, 'little')  # ACS, the last
    config[0x14E:0x150] = control.to_bytes(2, 'little')
    return bytes(config)


FILES = {
    'etc/ld.so.preload': '/opt/libtrace.so\n/opt/libclock.so',
    'proc/cmdline': 'BOOT_IMAGE=/vmlinuz-5.14 root=UUID=1 mitigations=off nosmt=force',
    'proc/cpuinfo': 'processor\t: 0\nmodel\t\t: 48\nmodel name\t: AMD EPYC 7A53 64-Core Processor\n'
    'microcode\t: 0xa001173\n',
    'proc/self/mounts': 'mgs@tcp:/scratch /scratch lustre rw 0 0\ntmpfs /tmp tmpfs rw 0 0',
    'proc/sys/vm/nr_hugepages': '0',
    'proc/sys/kernel/numa_balancing': '0',
    f'{CPU}/smt/active': '0',
    f'{CPU}/cpufreq/boost': '1',
    'sys/kernel/mm/transparent_hugepage/enabled': 'always [madvise] never',
    'sys/class/dmi/id/bios_version': '1.5.3',
    **{f'sys/devices/system/node/node{n}/cpulist': f'{n}' for n in range(4)},
    'sys/devices/system/node/node4/cpulist': '',  # memory alone
    **{f'{CPU}/cpu{n}/cpufreq/scaling_governor': 'performance' for n in range(4)},
    **{f'{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq': '3500000' for n in range(4)},
    **{f'sys/class/infiniband/mlx5_{n}/ports/1/rate': '200 Gb/sec (4X HDR)' for n in range(4)},
    **{f'sys/class/infiniband/mlx5_{n}/fw_ver': '28.39.1002' for n in range(4)},
    'sys/module/nvidia/version': '565.57.01',
    'sys/module/nvidia_peermem/version': '565.57.01',
    **{f'{NVIDIA}/0000:{bus}:00.0/current_link_speed': '32.0 GT/s PCIe' for bus in ('18', '2a')},
    **{f'{NVIDIA}/0000:{bus}:00.0/current_link_width': '16' for bus in ('18', '2a')},
    f'{BRIDGE}/class': '0x060400',
    f'{BRIDGE}/config': with_acs(0),
}
GPU = '550.54.15, 96.00.89.00.01, Enabled, 1980 MHz'
DETAIL = (OUTPUTS / 'nvidia-smi-q-565-h100.txt').read_text()  # of each GPU


@pytest.fixture
def node(tmp_path):
    """Return a function: expectations, other files (None: absent), GPUs as nvidia-smi prints them -> what it prints.

    `detail`: what `nvidia-smi -q` prints.
    """

    def node(expects: str, files: dict | None = None, gpus=(GPU,) * 8, word='compare', detail: str = DETAIL):
        shutil.rmtree(tmp_path / 'root', ignore_errors=True)
        there = {name: text for name, text in (FILES | (files or {})).items() if text is not None}
        for name, text in there.items():
            path = tmp_path / 'root' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else f'{text}\n'.encode() if text else b'')
        programs = tmp_path / f'bin{bool(gpus)}'
        programs.mkdir(exist_ok=True)
        (tmp_path / 'detail').write_text(detail)
        if gpus:
            print_detail = f'[ "$1" != -q ] || exec cat {tmp_path}/detail'
            listed = '\n'.join(gpus)
            text = f'#!/bin/sh\n{print_detail}\ncat <<E\n{listed}\nE\nexit {int(listed.startswith("No"))}\n'
            (programs / 'nvidia-smi').write_text(text)
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
    'preload=>/opt/libtrace.so /opt/libclock.so ; '
    'numa_domains=>4 ; numa_balancing=>0 ; transparent_hugepages=>madvise ; hugepages=>0 ; '
    'governor=>performance ; turbo=>1 ; '
    'core_clock=>3500 MHz ; cpu_model=>AMD EPYC 7A53* ; microcode=>>=0xa001100 <0xa001200 ; bios=>1.5.3 ; gpus=>8 ; '
    'gpu_driver=>>=550.54 <560 ; gpu_firmware=>96.00.89.00.01 ; gpu_ecc=>1 ; gpu_clock=>1980 MHz ; nics=>4 ; '
    'nic_rate=>200 Gb/s ; nic_firmware=>>28.9 ; file_systems=>/scratch lustre ; file_systems=>/tmp * ; '
    'gpu_power_limit=>700 W ; gpu_persistence=>1 ; gpu_mig=>0 ; gpu_compute_mode=>Default ; gpu_fabric=>Completed ; '
    'gpu_pcie=>Gen5 x16 ; gpu_peer_memory=>1 ; acs=>0'
)


def test_a_node_that_is_set_as_expected_has_no_difference(node):
    assert node(ALL) == (0, ['as expected: 33 of 33'])
    assert node(ALL, word='refuse') == (0, [])


def test_what_an_older_driver_does_not_tell_cannot_be_read(node, recorded):
    wanted = 'gpu_power_limit=>400 W ; gpu_persistence=>1 ; gpu_mig=>0 ; gpu_fabric=>Completed'
    assert node(wanted, detail=recorded('nvidia-smi-q-525-a100.txt')) == (0, [
        'gpu_fabric: expected Completed, cannot be read: the driver does not tell it of GPU 0', 'as expected: 3 of 4',
    ])  # fmt: skip


def of_amd(device: str, mode: str, memory: str, watts: int) -> dict[str, str]:
    folder = f'sys/bus/pci/drivers/amdgpu/0000:{device}:00.0'
    return {
        f'{folder}/current_compute_partition': mode, f'{folder}/current_memory_partition': memory,
        f'{folder}/hwmon/hwmon4/power1_cap': f'{watts}000000',
    }  # fmt: skip


@each_row(
    'second, says',
    [
        (('SPX', 'NPS1', 750), None),
        (('CPX', 'NPS1', 750), 'gpu_partition: expected SPX/NPS1, found CPX/NPS1 (GPU 1)'),
        (('SPX', 'NPS4', 750), 'gpu_partition: expected SPX/NPS1, found SPX/NPS4 (GPU 1)'),
        (('SPX', 'NPS1', 550), 'gpu_power_limit: expected 750 W, found 550 W (GPU 1)'),
    ],
)
def test_a_gpu_of_amd_that_is_divided_or_capped_otherwise_is_named(node, second, says):
    files = of_amd('c1', 'SPX', 'NPS1', 750) | of_amd('c6', *second)
    code, lines = node('gpu_partition=>SPX/NPS1 ; gpu_power_limit=>750 W', files, gpus=())
    assert (code, lines) == (0, [*[says] * bool(says), f'as expected: {1 if says else 2} of 2'])


def test_gpus_of_amd_are_those_of_their_driver_also_where_it_tells_less(node):
    devices = [f'sys/bus/pci/drivers/amdgpu/0000:{bus}:00.0' for bus in ('c1', 'c6', 'c9', 'ce')]
    files = {f'{device}/vendor': '0x1002' for device in devices} | {f'{devices[0]}/vbios_version': '113-D65201-046'}
    wanted = 'gpus=>4 ; gpu_firmware=>113-* ; gpu_partition=>SPX/NPS1 ; gpu_power_limit=>750 W'
    untold = 'cannot be read: the driver does not tell it of GPU'
    assert node(wanted, files, gpus=()) == (0, [
        f'gpu_firmware: expected 113-*, {untold} 1', f'gpu_partition: expected SPX/NPS1, {untold} 0',
        f'gpu_power_limit: expected 750 W, {untold} 0', 'as expected: 1 of 4',
    ])  # fmt: skip


def other_detail(part: str, right: str, wrong: str) -> dict[str, str]:
    before, part, rest = DETAIL.partition(part)
    assert right in rest
    return {'detail': before + part + rest.replace(right, wrong, 1)}


@each_row(
    'change, says',
    [
        ({'gpus': [GPU] * 7}, 'gpus: expected 8, found 7'),
        ({'gpus': [*[GPU] * 7, GPU.replace('Enabled', 'Disabled')]}, 'gpu_ecc: expected on, found off (GPU 7)'),
        ({'gpus': [GPU.replace('550.54.15', '560.28')] * 8},
         'gpu_driver: expected >=550.54 <560, found 560.28 (GPU 0, GPU 1, GPU 2 and 5 more of 8)'),
        ({'gpus': ['No devices were found']},
         'gpus: expected 8, cannot be read: nvidia-smi says: No devices were found'),
        (other_detail('GPU Power', '700.00 W', '500.00 W'), 'gpu_power_limit: expected 700 W, found 500 W (GPU 0)'),
        (other_detail('Persistence Mode', 'Enabled', 'Disabled'), 'gpu_persistence: expected on, found off (GPU 0)'),
        (other_detail('MIG Mode', 'Disabled', 'Enabled'), 'gpu_mig: expected off, found on (GPU 0)'),
        (other_detail('Compute Mode', 'Default', 'Prohibited'),
         'gpu_compute_mode: expected Default, found Prohibited (GPU 0)'),
        (other_detail('Fabric', 'Completed', 'In Progress'),
         'gpu_fabric: expected Completed, found In Progress (GPU 0)'),
        (other_detail('Fabric', 'Success', 'Insufficient Resources'),
         'gpu_fabric: expected Completed, found Completed (Insufficient Resources) (GPU 0)'),
        ({f'{BRIDGE}/config': with_acs(0x1D)}, 'acs: expected off, found on (0000:17:01.0)'),
        ({f'{BRIDGE}/class': None, f'{BRIDGE}/config': None},
         'acs: expected off, cannot be read: no PCI bridge has it'),
        ({f'{BRIDGE}/config': with_acs(0)[:64]},
         'acs: expected off, cannot be read: root alone can read the configuration of PCI bridges'),
        ({f'{NVIDIA}/0000:2a:00.0/current_link_width': '8'}, 'gpu_pcie: expected Gen5 x16, found Gen5 x8 (GPU 1)'),
        ({f'{NVIDIA}/0000:18:00.0/current_link_speed': '8.0 GT/s PCIe'},
         'gpu_pcie: expected Gen5 x16, found Gen3 x16 (GPU 0)'),
        ({'sys/module/nvidia_peermem/version': None}, 'gpu_peer_memory: expected on, found off'),
        ({'sys/class/infiniband/mlx5_2/ports/1/rate': '100 Gb/sec (2X HDR)'},
         'nic_rate: expected 200 Gb/s, found 100 Gb/s (mlx5_2)'),
        ({'sys/class/infiniband/mlx5_4/fw_ver': '28.39.1002'}, 'nics: expected 4, found 5'),
        ({f'{CPU}/cpu3/cpufreq/scaling_governor': 'powersave'},
         'governor: expected performance, found powersave (CPU 3)'),
        ({f'{CPU}/cpu0/cpufreq/cpuinfo_max_freq': '2000000'}, 'core_clock: expected 3500 MHz, found 2000 MHz (CPU 0)'),
        ({f'{CPU}/smt/active': '1'}, 'smt_active: expected off, found on'),
        ({f'{CPU}/cpufreq/boost': '0'}, 'turbo: expected on, found off'),
        ({f'{CPU}/intel_pstate/no_turbo': '1'}, 'turbo: expected on, found off'),
        ({'proc/sys/kernel/numa_balancing': '1'}, 'numa_balancing: expected off, found on'),
        ({'sys/devices/system/node/node4/cpulist': '9'}, 'numa_domains: expected 4, found 5'),
        ({'sys/kernel/mm/transparent_hugepage/enabled': '[always] madvise never'},
         'transparent_hugepages: expected madvise, found always'),
        ({'proc/cpuinfo': 'microcode : 0xa001200\n'}, 'microcode: expected >=0xa001100 <0xa001200, found 0xa001200'),
        ({'proc/cpuinfo': 'processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800MHz\n'},
         'cpu_model: expected AMD EPYC 7A53*, found POWER9, altivec supported'),  # its name on POWER
        ({'proc/cmdline': 'nosmt=force'}, 'kernel_command_line: expected mitigations=off, which is not there'),
        ({'proc/self/mounts': 'tmpfs /tmp tmpfs rw 0 0'}, 'file_systems: expected /scratch lustre, which is not there'),
        ({'sys/class/dmi/id/bios_version': ''},
         'bios: expected 1.5.3, cannot be read: /sys/class/dmi/id/bios_version cannot be read'),
    ],
)  # fmt: skip
def test_a_setting_that_is_another_is_one_sentence(node, change, says):
    wanted = ' ; '.join(line for line in ALL.split(' ; ') if line.startswith(f'{says.partition(":")[0]}=>'))
    of_gpus = {name: change[name] for name in ('gpus', 'detail') if name in change}
    code, (sentence, counts) = node(wanted, {} if of_gpus else change, **of_gpus)
    assert (code, sentence) == (0, says)
    assert counts.startswith('as expected: ')


def test_a_node_that_is_refused_is_named_with_all_differences(node):
    code, (line,) = node(ALL, {'proc/sys/vm/nr_hugepages': '512'}, [GPU] * 7, 'refuse')
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


def test_only_a_site_that_expects_settings_has_the_check_and_each_other_setting_is_a_fault():
    known = [
        NodeSettings.supports(None, SimpleNamespace(expects=expects)) for expects in ((), (('smt_active', 'off'),))
    ]
    assert known == [False, True]
    said = 'smt_active: expected off, found on'
    assert NodeSettings.sanity_faults(None, run_of(f'{said}\nas expected: 3 of 4\n')) == [said]
    assert NodeSettings.sanity_faults(None, run_of('as expected: 4 of 4\n')) == []

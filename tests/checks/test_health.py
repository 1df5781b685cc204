"""The counters of faults of a node, before and after a job: files of its own stand for those of the kernel."""

import re
import subprocess

import pytest

from checks.core.trials import Plan, read
from plumbline.paths import ROOT

HEALTH = ROOT / 'checks/core/job/health.sh'
CPU, EDAC, IB = 'sys/devices/system/cpu', 'sys/devices/system/edac/mc', 'sys/class/infiniband/mlx5_0/ports/1'
PCI, CXI, NET = 'sys/bus/pci/devices/0000:3b:00.0', 'sys/class/cxi/cxi0/device/telemetry', 'sys/class/net/eth0'
COUNTERS = {
    'proc/vmstat': 'nr_free_pages 12\noom_kill 4\n',
    f'{CPU}/cpu0/thermal_throttle/core_throttle_count': '7\n',
    f'{CPU}/cpu1/thermal_throttle/core_throttle_count': '0\n',
    f'{EDAC}/mc0/ce_count': '3\n', f'{EDAC}/mc1/ce_count': '0\n', f'{EDAC}/mc1/ue_count': '0\n',
    f'{IB}/counters/symbol_error': '0\n', f'{IB}/counters/link_downed': '1\n',
    f'{IB}/counters/port_xmit_wait': '18446744073709551000\n',
    f'{PCI}/aer_dev_correctable': 'RxErr 1\nBadTLP 0\nTOTAL_ERR_COR 1\n', f'{PCI}/aer_dev_fatal': 'TOTAL_ERR_FATAL 0\n',
    f'{CXI}/hni_pcs_uncorrected_cw': '90049@1675489372.701036980\n',
    f'{NET}/statistics/rx_dropped': '5\n', f'{NET}/statistics/tx_errors': '0\n', f'{NET}/device/vendor': '0x15b3\n',
}  # fmt: skip


@pytest.fixture
def node(tmp_path):
    """Write counters below a folder; `node(**env)` returns the facts and errors since the first time."""
    script = tmp_path / 'health.sh'
    text = re.sub(r'/(sys/(?:devices|class|bus)/|proc/vmstat)', rf'{tmp_path}/\1', HEALTH.read_text())
    script.write_text(text)

    def shell(command, **env):
        words = ['bash', '-c', f'. ./health.sh; {command}']
        path = f'{tmp_path}/bin:/usr/bin:/bin'
        answer = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=True, env={'PATH': path} | env
        )
        assert not answer.stderr
        return dict(line.split('=', 1) for line in answer.stdout.splitlines())

    def counted(counters, **env):
        first = not (tmp_path / 'counters.txt').exists()
        for name, value in counters.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(value)
        return shell('count_faults > counters.txt' if first else 'compare_faults counters.txt', **env)

    return counted


def test_a_node_on_which_nothing_happens(node, tmp_path):
    node(COUNTERS)
    assert node({}) == {'clock_throttled': '0', 'counters_lacking': 'clock'}
    assert (tmp_path / 'health.txt').read_text() == ''


def test_each_counter_is_told_with_its_device(node, tmp_path):
    node(COUNTERS)
    found = node(
        {
            'proc/vmstat': 'nr_free_pages 9\noom_kill 6\n',
            f'{CPU}/cpu0/thermal_throttle/core_throttle_count': '107\n',
            f'{CPU}/cpu1/thermal_throttle/core_throttle_count': '312\n',
            f'{EDAC}/mc0/ce_count': '5\n', f'{EDAC}/mc1/ce_count': '1\n', f'{EDAC}/mc1/ue_count': '2\n',
            f'{IB}/counters/symbol_error': '12\n', f'{IB}/counters/link_downed': '2\n',
            f'{PCI}/aer_dev_correctable': 'RxErr 9\nBadTLP 0\nTOTAL_ERR_COR 9\n',
            f'{CXI}/hni_pcs_uncorrected_cw': '90050@1675489399.101036980\n',
            f'{NET}/statistics/rx_dropped': '9\n', f'{NET}/statistics/tx_errors': '1\n',
        }
    )  # fmt: skip
    assert found == {
        'health_OOM_kills': '2', 'clock_throttled': '412', 'health_corrected_memory_errors': '3 on mc0, mc1',
        'health_uncorrected_memory_errors': '2 on mc1', 'health_InfiniBand_symbol_errors': '12 on mlx5_0 port 1',
        'health_losses_of_an_InfiniBand_link': '1 on mlx5_0 port 1',
        'health_corrected_PCIe_errors': '8 on 0000:3b:00.0', 'health_Slingshot_uncorrected_codewords': '1 on cxi0',
        'counted_network_drops': '4 on eth0', 'health_network_errors': '1 on eth0', 'counters_lacking': 'clock',
    }  # fmt: skip
    _, causes = read(tmp_path, Plan('HPL', (), []), 'n17,n18')
    assert sorted(re.sub(r' while the job ran; .+', '', cause) for cause in causes[:3]) == [
        'n17: OOM kills +2', 'n17: losses of an InfiniBand link +1 on mlx5_0 port 1',
        'n17: uncorrected memory errors +2 on mc1',
    ]  # fmt: skip


def test_an_error_of_the_node_comes_before_the_program_that_died(node, tmp_path):
    node(COUNTERS)
    node({f'{EDAC}/mc1/ue_count': '1\n'})
    (tmp_path / 'trial_1/run').mkdir(parents=True)
    (tmp_path / 'trial_1/run/exit_code').write_text('135\n')
    _, causes = read(tmp_path, Plan('HPL', (), []), 'n17')
    assert causes[0].startswith('n17: uncorrected memory errors +1 on mc1') and 'SIGBUS' in causes[1]


def test_a_counter_of_64_bits_may_wrap_and_one_that_was_reset_is_named_and_not_counted(node):
    node(COUNTERS)
    found = node({f'{IB}/counters/port_xmit_wait': '384\n', f'{EDAC}/mc0/ce_count': '0\n'})
    assert found['counted_InfiniBand_waits'] == '1000 on mlx5_0 port 1'  # from 616 below 2^64
    assert found['counters_reset'] == 'ce_count of mc0'
    assert not [name for name in found if name.startswith('health_')]


def test_a_node_without_any_counter_says_so_in_one_line(node, tmp_path):
    node({})
    assert node({}) == {'counters_lacking': 'clock, throttle, EDAC, PCIe, InfiniBand, Slingshot, OOM'}
    assert (tmp_path / 'health.txt').read_text() == ''


def test_many_devices_are_cut(node):
    node({f'{EDAC}/mc{i}/ce_count': '0\n' for i in range(8)})
    found = node({f'{EDAC}/mc{i}/ce_count': '1\n' for i in range(8)})
    assert found['health_corrected_memory_errors'] == '8 on mc0, mc1, mc2, mc3, ...'


def test_gpus_are_asked_only_where_the_case_uses_them(node, tmp_path):
    """Lines as nvidia-smi documents them; the errors of AMD's GPUs are files of the kernel."""
    ras = 'sys/class/drm/card1/device/ras/umc_err_count'
    (tmp_path / 'bin').mkdir()
    said = tmp_path / 'said'
    said.write_text('0, 0, 0\n1, [N/A], [N/A]\n')
    for name, prints in (('nvidia-smi', f'cat {said}'), ('dmesg', f'cat {tmp_path}/log')):
        (tmp_path / 'bin' / name).write_text(f'#!/bin/sh\n{prints}\n')
        (tmp_path / 'bin' / name).chmod(0o755)
    (tmp_path / 'log').write_text('usb 1-1\n')
    node(COUNTERS | {ras: 'ue: 0\nce: 3\n'}, PLUMBLINE_GPU='cuda')
    said.write_text('0, 4, 1\n1, [N/A], [N/A]\n')
    (tmp_path / 'log').write_text('usb 1-1\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n')
    found = node({ras: 'ue: 0\nce: 5\n'}, PLUMBLINE_GPU='cuda')
    assert found['health_corrected_GPU_memory_errors'] in ('6 on card1, GPU 0', '6 on GPU 0, card1')
    assert found['health_uncorrected_GPU_memory_errors'] == '1 on GPU 0'
    assert found['health_Xid_errors_of_NVIDIA_GPUs'] == '1'
    (tmp_path / 'bin/dmesg').write_text('#!/bin/sh\nexit 1\n')  # as for a user where kernel.dmesg_restrict is 1
    assert node({}, PLUMBLINE_GPU='cuda')['counters_lacking'] == 'clock, Xid'
    assert 'GPU 0' not in ' '.join(node({}).values())  # of a case that uses none

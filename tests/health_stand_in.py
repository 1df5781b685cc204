# SPDX-License-Identifier: BSD-3-Clause
"""A node whose counters of heat and errors a test writes: files below a folder stand for those of the kernel."""

import re
import shutil
import subprocess
from pathlib import Path

from plumbline.paths import ROOT

JOB = ROOT / 'checks/core/job/parts'
CPU, EDAC, IB = 'sys/devices/system/cpu', 'sys/devices/system/edac/mc', 'sys/class/infiniband/mlx5_0/ports/1'
PCI, CXI, NET = 'sys/bus/pci/devices/0000:3b:00.0', 'sys/class/cxi/cxi0/device/telemetry', 'sys/class/net/eth0'
OST, CGROUP = 'proc/fs/lustre/osc/scratch-OST0001-osc-ffff', 'sys/fs/cgroup/system.slice/slurmstepd.scope'
COUNTERS = {
    'proc/vmstat': 'nr_free_pages 12\noom_kill 4\n', 'proc/self/cgroup': '0::/system.slice/slurmstepd.scope/job_7\n',
    f'{CPU}/cpu0/thermal_throttle/core_throttle_count': '7\n',
    f'{CPU}/cpu0/thermal_throttle/package_power_limit_count': '9\n',
    f'{CPU}/cpu1/thermal_throttle/core_throttle_count': '0\n',
    f'{CGROUP}/cpu.stat': 'usage_usec 5\nnr_periods 100\nnr_throttled 1\n',
    f'{EDAC}/mc0/ce_count': '3\n', f'{EDAC}/mc1/ce_count': '0\n', f'{EDAC}/mc1/ue_count': '0\n',
    f'{IB}/counters/symbol_error': '0\n', f'{IB}/counters/link_downed': '1\n',
    f'{IB}/counters/port_xmit_wait': '18446744073709551000\n',
    f'{PCI}/aer_dev_correctable': 'RxErr 1\nBadTLP 0\nTOTAL_ERR_COR 1\n', f'{PCI}/aer_dev_fatal': 'TOTAL_ERR_FATAL 0\n',
    f'{PCI}/current_link_width': '16\n',
    f'{CXI}/hni_pcs_uncorrected_cw': '90049@1675489372.701036980\n',
    f'{NET}/statistics/rx_dropped': '5\n', f'{NET}/statistics/tx_errors': '0\n', f'{NET}/device/vendor': '0x15b3\n',
    f'{OST}/import': 'import:\n    name: scratch-OST0001\n    connection:\n       connection_attempts: 1\n',
    'var/adm/ras/mmfs.log.latest': '2026-11-22_01:00:00.000+0100: [I] mmfsd ready\n',
    'var/lib/rasdaemon/ras-mc_event.db': '2',  # which the stand-in of sqlite3 prints
    'dmesg.txt': 'usb 1-1\n',
}  # fmt: skip


class Node:
    """A node below `folder`, whose scripts of a job read its files instead of the kernel's."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / 'bin').mkdir(parents=True)
        for name in ('health.sh', 'counters.sh', *(part.name for part in JOB.glob('gpu_*.sh'))):
            text = re.sub(r'/(sys/|proc/(?:vmstat|fs|self/cgroup)|var/)', rf'{folder}/\1', (JOB / name).read_text())
            (folder / name).write_text(text)
        self.program('dmesg', f'cat {folder}/dmesg.txt')
        self.program('sqlite3', f'echo "rasdaemon/machine_check:$(cat {folder}/var/lib/rasdaemon/ras-mc_event.db)"')
        self.program('nvidia-smi', 'exit 9')

    def program(self, name: str, script: str) -> None:
        """Put a program on the PATH of the node."""
        path = self.folder / 'bin' / name
        path.write_text(f'#!/bin/sh\n{script}\n')
        path.chmod(0o755)

    def __call__(self, counters: dict[str, str], **env: str) -> dict[str, str]:
        """Write counters; return the facts of a job that began when this was called first, and ends now."""
        first = not (self.folder / 'counters.txt').exists()
        for name, value in counters.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(value)
        command = 'count_faults > counters.txt' if first else 'compare_faults counters.txt'
        answer = subprocess.run(
            ['bash', '-c', f'. ./health.sh; {command}'], cwd=self.folder, capture_output=True, text=True, check=True,
            env={'PATH': f'{self.folder}/bin:/usr/bin:/bin'} | env,
        )  # fmt: skip
        assert not answer.stderr
        return dict(line.split('=', 1) for line in answer.stdout.splitlines())

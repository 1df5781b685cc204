# SPDX-License-Identifier: BSD-3-Clause
"""What kind of machine this is, from the files of the kernel of machines that are known."""

import pytest

from plumbline.machine.kind import kind_of
from plumbline.machine.node import Node

CPU = 'sys/devices/system/cpu/cpu0'
# user nice system idle iowait irq softirq steal guest guest_nice, in hundredths of a second: proc(5)
STAT = 'cpu  4000 0 500 5000 100 0 150 250 0 0\ncpu0 1 2 3\n'


@pytest.mark.parametrize(
    ('files', 'said'),
    [
        (
            {
                'proc/cpuinfo': 'flags\t\t: fpu vme hypervisor lahf_lm\n',
                'proc/stat': STAT,
                'sys/class/dmi/id/sys_vendor': 'QEMU\n',
                'sys/class/dmi/id/product_name': 'Standard PC (Q35 + ICH9, 2009)\n',
                f'{CPU}/topology/thread_siblings_list': '0\n',
            },
            'virtual machine (QEMU Standard PC (Q35 + ICH9, 2009)), of whose CPU time its host took 2.5 % since it '
            'booted; one thread a core; clock not shown',
        ),
        (
            {
                'proc/cpuinfo': 'flags\t\t: fpu vme lahf_lm\n',
                'proc/stat': STAT,
                'sys/class/dmi/id/sys_vendor': 'Dell Inc.\n',
                'sys/class/dmi/id/product_name': 'PowerEdge R640\n',
                f'{CPU}/topology/thread_siblings_list': '0,48\n',
                f'{CPU}/cpufreq/scaling_min_freq': '1000000\n',
                f'{CPU}/cpufreq/scaling_max_freq': '3700000\n',
                f'{CPU}/cpufreq/scaling_governor': 'schedutil\n',
            },
            'no sign of a hypervisor (Dell Inc. PowerEdge R640); SMT siblings share its cores; '
            'clock moves between 1000 and 3700 MHz (governor schedutil)',
        ),
        (
            {
                'proc/cpuinfo': 'Features\t: fp asimd\n',
                'sys/hypervisor/type': 'xen\n',
                '.dockerenv': '',
                f'{CPU}/topology/thread_siblings_list': '0\n',
                f'{CPU}/cpufreq/scaling_min_freq': '2500000\n',
                f'{CPU}/cpufreq/scaling_max_freq': '2500000\n',
            },
            'container on a virtual machine (xen), of whose CPU time its host took 0 % since it booted; '
            'one thread a core; clock fixed at 2500 MHz',
        ),
        ({}, 'no sign of a hypervisor; threads of a core not shown; clock not shown'),
    ],
)
def test_the_kind_of_a_machine_is_told_from_the_files_of_its_kernel(tmp_path, files, said):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert kind_of(Node(root=tmp_path)) == said

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes unlike most, made up of a few kernel files: `plumbline probe --node` describes each, and the checks load."""

import re
import subprocess
from dataclasses import dataclass, field

import pytest
import yaml
from archspec.cpu import TARGETS
from test_probe import plumbline

from plumbline.machine.node import PARTS
from plumbline.node_check import benchmarks
from plumbline.paths import ROOT

CPU = '/sys/devices/system/cpu/cpu{}'


@dataclass
class Machine:
    """Kernel files of a node, in few words, and what is true of it.

    `cores`: the CPUs of each; `sockets`, `domains`: the CPUs of each, of domains by number. `cpuinfo`: the lines of the
    first CPU. `files`: others. `node`: as `sites --check` prints it. `says`: lines of its site.yaml; `not_said`: none.
    """

    cores: list[list[int]]
    sockets: list[list[int]]
    domains: dict[int, list[int]]
    node: str
    says: list[str] = field(default_factory=list)
    not_said: list[str] = field(default_factory=list)
    machine: str = 'x86_64'
    cpuinfo: list[str] = field(default_factory=lambda: ['vendor_id\t: X'])
    clocks: dict[int, int] = field(default_factory=dict)  # kHz
    caches: dict[str, list[tuple[str, list[int]]]] = field(default_factory=dict)  # level -> size and CPUs of each
    files: dict[str, str] = field(default_factory=dict)
    memory: str = 'MemTotal: 8388608 kB'

    def printed(self) -> str:
        """As node.sh prints it."""
        files = {'/proc/meminfo': self.memory, '/proc/cpuinfo': '\n'.join(self.cpuinfo)}
        for groups, name in ((self.cores, 'core_cpus'), (self.sockets, 'package_cpus')):
            files |= {f'{CPU.format(cpu)}/topology/{name}': mask(group) for group in groups for cpu in group}
        files |= {f'{CPU.format(cpu)}/cpufreq/cpuinfo_max_freq': str(khz) for cpu, khz in self.clocks.items()}
        for index, (level, caches) in enumerate(self.caches.items()):
            for size, group in caches:
                row = {'level': level[1:], 'type': 'Unified', 'size': size, 'shared_cpu_map': mask(group)}
                for cpu in group:
                    files |= {f'{CPU.format(cpu)}/cache/index{index}/{key}': text for key, text in row.items()}
        for number, group in self.domains.items():
            of_domain = f'/sys/devices/system/node/node{number}'
            distance = ' '.join('10' if other == number else '20' for other in self.domains)
            files |= {f'{of_domain}/cpumap': mask(group), f'{of_domain}/distance': distance}
        lines = [f'{path}\t{line}' for path, text in (files | self.files).items() for line in text.splitlines()]
        return '\n'.join(['$ name\tn1', f'$ machine\t{self.machine}', '$ partition\t', *lines, '$ end\t', ''])


def mask(cpus: list[int]) -> str:
    """In words of 32 bits, as the kernel prints it."""
    number = sum(1 << cpu for cpu in cpus)
    return ','.join(f'{number >> shift & 0xFFFFFFFF:08x}' for shift in (96, 64, 32, 0))


def each(cpus) -> list[list[int]]:
    return [[cpu] for cpu in cpus]


KFD = '/sys/class/kfd/kfd/topology/nodes/{}/properties'
PCI = '/sys/bus/pci/drivers/amdgpu/0000:{:02x}:00.0/{}'
#: Eight GPUs, each divided into eight; the nodes 0 and 1 of the kernel's list are processors.
DIVIDED = {KFD.format(node): f'cpu_cores_count 0\ngfx_target_version {90402 * (node > 1)}' for node in range(66)} | {
    PCI.format(gpu, name): text
    for gpu in range(8)
    for name, text in (('numa_node', '0'), ('current_compute_partition', 'CPX'))
}
#: Six cores of two threads at 5.2 GHz, of which the first two reach 5.0; eight of one at 3.9 GHz.
LARGE, SMALL = [[2 * core, 2 * core + 1] for core in range(6)], each(range(12, 20))
# By its features alone it would be a Neoverse V2
NEOVERSE_N2 = ' '.join(TARGETS['neoverse_n2'].features)
MACHINES = {
    'riscv_without_numa': Machine(
        each(range(8)), [[*range(8)]], {}, '1 socket x 8 cores x 1 thread', ['arch: x60', 'num_numa_domains: 1'],
        machine='riscv64', cpuinfo=['hart\t: 0', 'uarch\t: spacemit,x60'],
    ),
    'one_domain_of_two_sockets': Machine(
        [[0, 4], [1, 5], [2, 6], [3, 7]], [[0, 1, 4, 5], [2, 3, 6, 7]], {0: [*range(8)]},
        '2 sockets x 2 cores x 2 threads', ['num_numa_domains: 1'],
    ),
    'three_clusters': Machine(
        each(range(8)), [[0, 1, 2, 3], [4, 5, 6], [7]], {}, '3 sockets, 8 cores, 8 threads', ['arch: neoverse_n2'],
        machine='aarch64', cpuinfo=['CPU implementer\t: 0x41', 'CPU part\t: 0xd49', f'Features\t: {NEOVERSE_N2}'],
        caches={'L2': [('256K', [0, 1, 2, 3]), ('512K', [4, 5, 6]), ('1024K', [7])]},
    ),
    'two_kinds_of_cores': Machine(
        LARGE + SMALL, [[*range(20)]], {0: [*range(20)]}, '1 socket, 14 cores, 20 threads', ['core_clock: 5200 MHz'],
        clocks={cpu: 5000000 if cpu < 4 else 5200000 if cpu < 12 else 3900000 for cpu in range(20)},
        caches={'L2': [*(('1280K', core) for core in LARGE), ('2048K', [*range(12, 16)]), ('2048K', [*range(16, 20)])]},
    ),
    'offline': Machine(  # CPU 7 of two sockets of two cores of two threads
        [[0, 4], [1, 5], [2, 6], [3]], [[0, 1, 4, 5], [2, 3, 6]], {0: [0, 1, 4, 5], 1: [2, 3, 6]},
        '2 sockets, 4 cores, 7 threads', ['num_cpus: 7'], files={CPU.format(7) + '/online': '0'},
    ),
    'sparse_numbers': Machine(
        each([4, 5, 10, 11]), [[4, 5], [10, 11]], {1: [4, 5], 3: [10, 11]}, '2 sockets x 2 cores x 1 thread',
        ['numa_ids: [1, 3]', 'arch: aarch64'], machine='aarch64', cpuinfo=['CPU implementer\t: 0x41'],
    ),
    'power9': Machine(
        [[*range(4 * core, 4 * core + 4)] for core in range(4)], [[*range(8)], [*range(8, 16)]],
        {0: [*range(8)], 8: [*range(8, 16)], 255: []}, '2 sockets x 2 cores x 4 threads',
        ['arch: power9le', 'vendor: IBM', 'numa_ids: [0, 8]'],
        machine='ppc64le', cpuinfo=['processor\t: 0', 'cpu\t\t: POWER9, altivec supported'],
    ),
    'the_same_cpus_in_each_domain': Machine(
        each(range(4)), [[0, 1], [2, 3]], {0: [*range(4)], 1: [*range(4)]}, '2 sockets x 2 cores x 1 thread',
        ['num_numa_domains: 1', '# numa_distances are left out'], ['numa_ids:'],
    ),
    'loongarch': Machine(
        each(range(2)), [[0, 1]], {0: [0, 1]}, '1 socket x 2 cores x 1 thread', ['arch is left out: archspec'],
        ['arch:', 'vendor:'], machine='loongarch64', cpuinfo=['system type\t: generic-loongson-machine'],
    ),
    'no_meminfo': Machine(
        each(range(2)), [[0, 1]], {0: [0, 1]}, '1 socket x 2 cores x 1 thread', ['# add memory_per_node'],
        ['memory_per_node:'], memory='',
    ),
    'no_cache_of_a_size': Machine(
        each(range(2)), [[0, 1]], {0: [0, 1]}, '1 socket x 2 cores x 1 thread', ['# add caches'], ['caches:'],
        caches={'L2': [('0K', [0, 1])]},
    ),
    'more_caches_than_cores': Machine(
        [[0, 1]], [[0, 1]], {0: [0, 1]}, '1 socket x 1 core x 2 threads', ['topology:'],
        caches={'L1': [('32K', [0]), ('32K', [1])]},
    ),
    'divided_gpus': Machine(
        each(range(2)), [[0, 1]], {0: [0, 1]}, '1 socket x 2 cores x 1 thread, 64 GPUs gfx942',
        ['# programs see 64 GPUs of 8 PCI devices (partition mode CPX)'], ['numa_domains: ['], files=DIVIDED,
    ),
}  # fmt: skip


def test_each_machine_is_described_checked_and_loaded_by_all_checks(programs, tmp_path, clone, subtests):
    partitions = []
    for name, machine in MACHINES.items():
        (tmp_path / name).write_text(machine.printed())
        with subtests.test(machine=name):
            text = plumbline('--node', tmp_path / name).stdout
            lines = [line.strip() for line in text.splitlines()]
            for part in machine.says:
                assert any(part in line for line in lines), text
            for part in machine.not_said:
                assert not any(line.startswith(part) for line in lines), text
            assert str(tmp_path) not in text and '/tmp' not in text
            partitions.append(yaml.safe_load(text)['partitions'][0] | {'name': name})
    site = {'descr': 'all', 'hostnames': ['nowhere'], 'partitions': partitions}
    site['environments'] = [{'name': 'system', 'provider': 'system', 'features': ['likwid', 'hpcc', 'clpeak']}]
    path = clone.root / 'site_configs/all/site.yaml'
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(site, width=10**6))
    checked = clone.plumbline('sites', 'all', '--check')
    assert checked.returncode == 0, checked.stderr
    nodes = dict(re.findall(r'^all:(\w+): (.*?)(?:, [\d.]+ [GM]iB)?$', checked.stdout, re.MULTILINE))
    assert nodes == {name: machine.node for name, machine in MACHINES.items()}
    listed = clone.reframe('-l', '--system=all', checks='checks', PLUMBLINE_SITE='all')
    assert listed.returncode == 0 and 'LikwidBandwidth' in listed.stdout, listed.stdout


def test_cores_that_differ_are_each_measured_where_it_is_possible():
    """likwid-bench takes every n-th hardware thread, which are not the cores where some have one and others two."""
    topology = {'numa_nodes': ['0xf'], 'sockets': ['0xf'], 'cores': ['0x3', '0x4', '0x8'], 'caches': []}
    node = benchmarks.node_of({'topology': topology}, 0)
    assert node.domains[0][1] == [0, 2, 3]
    places = {one.program: [*one.places(node)] for one in benchmarks.BENCHMARKS}
    assert places['likwid-bench'] == [] and len(places['openssl']) == 1


@pytest.mark.parametrize(
    ('files', 'says'),
    [
        ({}, ['gpus: expected 8, found 64 (PCI devices: 8, partition mode CPX)', 'as expected: 0 of 1']),
        ({KFD.format(node): '' for node in range(10, 66)}, ['as expected: 1 of 1']),
    ],
)
def test_a_node_whose_gpus_were_divided_is_not_set_as_expected(tmp_path, files, says):
    for name, text in (DIVIDED | files).items():
        (tmp_path / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name[1:]).write_text(f'{text}\n')
    (tmp_path / 'expects').write_text('gpus\t8\n')
    compared = subprocess.run(
        ['bash', PARTS / 'settings.sh', 'compare', tmp_path / 'expects'], capture_output=True, text=True, check=True,
        env={'node_root': str(tmp_path), 'PATH': '/usr/bin:/bin'}, cwd=ROOT,
    )  # fmt: skip
    assert compared.stdout.splitlines() == says and not compared.stderr


def test_a_node_that_cannot_be_described_is_refused_without_a_temporary_path(programs, tmp_path):
    (tmp_path / 'printed').write_text('$ name\tn1\n$ machine\tx86_64\n$ partition\t\n$ end\t\n')
    said = plumbline('--node', tmp_path / 'printed', code=2).stderr
    assert 'the processor cannot be detected: /sys/devices/system/cpu' in said

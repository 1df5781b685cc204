# SPDX-License-Identifier: BSD-3-Clause
"""A node that prints itself, against what ReFrame detects, and one that is not like this machine."""

import subprocess
from pathlib import Path

import pytest
from archspec.cpu import TARGETS
from reframe.utility import cpuinfo

from plumbline.machine import detect, node


def tree(folder: Path) -> str:
    """As node.sh prints a Milan node of two sockets, each with two NUMA domains of two cores of two threads."""
    sets = {'core': 0x0101, 'L3': 0x0303, 'domain': 0x0303, 'socket': 0x0F0F}
    lines = ['$ name\tnid01', '$ machine\tx86_64', '$ partition\tgpu']

    def mask(kind: str, cpu: int, wide: int) -> str:
        return f'{sets[kind] << cpu % 8 // wide * wide:08x},00000000'  # words of 32 CPUs; the first has none

    for cpu in range(32, 48):
        of_cpu = f'/sys/devices/system/cpu/cpu{cpu}'
        lines += [f'{of_cpu}/topology/thread_siblings\t{mask("core", cpu, 1)}']
        lines += [f'{of_cpu}/topology/core_siblings\t{mask("socket", cpu, 4)}']
        kinds = (1, 'Data', '32K', 'core', 1), (1, 'Instruction', '64K', 'core', 1), (3, 'Unified', '32M', 'L3', 2)
        for index, (level, kind, size, shared, wide) in enumerate(kinds):
            row = {'level': level, 'type': kind, 'size': size, 'shared_cpu_map': mask(shared, cpu, wide)}
            lines += [f'{of_cpu}/cache/index{index}/{key}\t{value}' for key, value in row.items()]
    for number in range(4):
        of_domain = f'/sys/devices/system/node/node{number}'
        distance = ' '.join(str(10 if other == number else 32) for other in range(4))
        lines += [f'{of_domain}/cpumap\t{mask("domain", 2 * number, 2)}', f'{of_domain}/distance\t{distance}']
    lines += [f'/sys/class/kfd/kfd/topology/nodes/{number}/properties\tgfx_target_version 90010' for number in (4, 5)]
    lines += ['/proc/meminfo\tMemTotal:       263842044 kB', '! rocm-smi --showtopo --shownodesbw\t3']
    flags = ' '.join(sorted(TARGETS['zen3'].features))
    about = {'vendor_id': 'AuthenticAMD', 'cpu family': 25, 'model': 1, 'model name': 'AMD EPYC 7763', 'flags': flags}
    lines += [f'/proc/cpuinfo\t{key}\t: {value}' for key, value in about.items()]
    lines += ['$ settings\tkernel\t-\t5.14.0', '$ settings\tsmt_active\t-\t1', '$ end\t']
    return '\n'.join(lines) + '\n'


def comparable(processor: dict) -> dict:
    """ReFrame sorts masks as text, with zeros in front, and knows the lines of caches."""

    def numbers(masks: list[str]) -> list[int]:
        return sorted({int(mask, 16) for mask in masks} - {0})

    topology = processor['topology']
    caches = {(one['type'], one['size'], one['num_cpus'], *numbers(one['cpusets'])) for one in topology['caches']}
    kinds = {kind: numbers(topology[kind]) for kind in ('numa_nodes', 'sockets', 'cores')}
    return processor | {'topology': kinds | {'caches': caches}}


def test_this_machine_as_it_prints_itself_is_what_reframe_detects(tmp_path):
    printed = subprocess.run(node.command(), capture_output=True, text=True, check=True).stdout
    there = node.unpack(printed, tmp_path)
    ours, theirs = node.processor_of(there), cpuinfo.cpuinfo()
    assert comparable(ours) == comparable(theirs)
    allowed = node.cpus_of(there)
    here, shown = detect.detect_machine(allowed), detect.detect_machine(allowed, there)
    assert int(here.pop('memory_per_node')[:-2]) <= int(shown.pop('memory_per_node')[:-2])  # a cgroup has less
    assert here == shown
    assert node.settings_of(there) == node.settings_of(node.this_node())


def test_a_node_of_two_sockets_four_numa_domains_and_two_threads_a_core(tmp_path):
    there = node.unpack(tree(tmp_path), tmp_path)
    machine = detect.detect_machine(node.cpus_of(there), there)
    processor = machine['processor']
    assert {key: value for key, value in processor.items() if key not in ('topology', 'numa_distances')} == {
        'arch': 'zen3', 'vendor': 'AuthenticAMD', 'model': 'AMD EPYC 7763', 'platform': 'x86_64', 'num_cpus': 16,
        'num_cpus_per_core': 2, 'num_cpus_per_socket': 8, 'num_sockets': 2, 'numa_ids': [0, 1, 2, 3],
    }  # fmt: skip
    first = 1 << 32
    assert processor['topology'] == {
        'cores': [hex(0x0101 * first << core) for core in range(8)],
        'sockets': [hex(0x0F0F * first << 4 * socket) for socket in range(2)],
        'numa_nodes': [hex(0x0303 * first << 2 * domain) for domain in range(4)],
        'caches': [
            {'type': 'L1', 'size': 2**15, 'num_cpus': 2, 'cpusets': [hex(0x0101 * first << core) for core in range(8)]},
            {'type': 'L3', 'size': 2**25, 'num_cpus': 4, 'cpusets': [hex(0x0303 * first << 2 * i) for i in range(4)]},
        ],
    }
    assert processor['numa_distances'][1] == [32, 10, 32, 32]
    assert machine['memory_per_node'] == f'{263842044 * 1024} B'
    assert machine['devices'] == [{'type': 'gpu', 'model': 'AMD gfx90a', 'arch': 'gfx90a', 'num_devices': 2}]
    assert 'rocm-smi --showtopo --shownodesbw: ended with 3' in machine['no_link_classes']
    assert machine['peaks']['flop_per_cycle']['avx_dp'] == 16
    assert node.settings_of(there)[0] == {'kernel': '5.14.0', 'smt_active': True}
    assert node.processor_of(there)['num_cpus'] == 16 and there.name == 'nid01'


def test_what_is_no_node_is_named(tmp_path):
    with pytest.raises(ValueError, match=r'expected the description of a node, found .*no such'):
        node.unpack('bash: no such thing\n', tmp_path)
    with pytest.raises(ValueError, match='expected the description of a node'):
        node.unpack(tree(tmp_path)[:3000], tmp_path)  # the job was ended

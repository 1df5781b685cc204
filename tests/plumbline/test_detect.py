# SPDX-License-Identifier: BSD-3-Clause
"""Detection of a machine, from its files and programs."""

import json
import os
import tempfile
from pathlib import Path

from rows import each_row

from plumbline.machine import detect
from plumbline.machine.node import Node

TWO_SOCKETS = {
    'arch': 'zen4', 'num_cpus': 8, 'num_cpus_per_core': 2, 'num_cpus_per_socket': 4, 'num_sockets': 2,
    'topology': {
        'numa_nodes': ['0x33', '0xcc'], 'sockets': ['0x33', '0xcc'], 'cores': ['0x11', '0x22', '0x44', '0x88'],
        'caches': [{'type': 'L3', 'size': 1024, 'num_cpus': 4, 'cpusets': ['0x33', '0xcc']}],
    },
}  # fmt: skip


def test_threads_that_this_process_may_not_use_do_not_count():
    cut = detect.restrict_to(TWO_SOCKETS, {0, 1, 4})
    assert (cut['num_cpus'], cut['num_cpus_per_core'], cut['num_sockets']) == (3, 2, 1)
    assert cut['topology']['cores'] == ['0x11', '0x2']
    assert cut['topology']['caches'][0]['cpusets'] == ['0x13']
    assert TWO_SOCKETS['num_cpus'] == 8


def test_it_is_detected_once(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    calls = []
    monkeypatch.setattr(detect, 'detect_machine', lambda: calls.append(1) or {'memory_per_node': '1 GiB'})
    for _ in range(2):
        entry = {'partitions': [{'name': 'node'}], 'environments': [{'name': 'system', 'provider': 'system'}]}
        detect.complete('localhost', entry)
        assert entry['partitions'][0]['memory_per_node'] == '1 GiB'
    assert len(calls) == 1
    (cached,) = (tmp_path / 'plumbline').glob('machine-*')
    cached.write_text('{"half')  # a torn file is made anew, not believed
    detect.complete('localhost', {'partitions': [{'name': 'node'}], 'environments': []})
    assert len(calls) == 2 and json.loads(cached.read_text())


def test_what_the_file_states_is_not_overwritten():
    entry = {
        'partitions': [{'name': 'node', 'memory_per_node': '3 GiB'}],
        'environments': [{'name': 'system', 'provider': 'system', 'features': ['mine']}],
    }
    detect.complete('localhost', entry)
    assert entry['partitions'][0]['memory_per_node'] == '3 GiB'
    assert entry['environments'][0]['features'] == ['mine']


def test_benchmarks_come_from_path_each_time(tmp_path, monkeypatch, programs):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    assert detect.lacking_on_path()['likwid'] == 'likwid-bench not on PATH'
    assert None not in detect.lacking_on_path().values()
    programs('likwid-bench', 'echo "no access to the processor" >&2; exit 1')
    why = detect.lacking_on_path()['likwid']
    assert 'likwid-bench -t load' in why and 'no access to the processor' in why
    works = programs('likwid-bench', 'exit 0')  # another file: it is tried again
    assert [name for name, lacking in detect.lacking_on_path().items() if lacking is None] == ['likwid']
    works.write_text('#!/bin/sh\nexit 1')
    os.utime(works, ns=(0, 0))
    detect.lacking_on_path()
    works.write_text('#!/bin/sh\nexit 0')
    os.utime(works, ns=(0, 0))
    assert detect.lacking_on_path()['likwid'], 'it was tried twice without need'


def test_caches_that_the_kernel_does_not_show_come_from_the_c_library(programs):
    answers = 'case $1 in LEVEL1*) echo 32768 ;; LEVEL2*) echo ;; *) echo 335544320 ;; esac'
    getconf = programs('getconf', answers)
    topology = {'cores': ['0x1', '0x2'], 'sockets': ['0x3']}
    assert detect.caches_of_libc(topology, Node()) == [
        {'type': 'L1', 'size': 32768, 'cpusets': ['0x1', '0x2']},
        {'type': 'L3', 'size': 335544320, 'cpusets': ['0x3']},
    ]
    getconf.unlink()
    assert detect.caches_of_libc(topology, Node()) == []


def numa_node(folder: Path, number: int, cpumap: str, distance: str):
    node = folder / f'sys/devices/system/node/node{number}'
    node.mkdir(parents=True)
    (node / 'cpumap').write_text(f'{cpumap}\n')
    (node / 'distance').write_text(f'{distance}\n')


def test_numa_distances_are_those_of_the_domains_that_may_be_used(tmp_path):
    """Domains numbered against the order of their CPUs; one of memory alone; one of CPUs of someone else."""
    numa_node(tmp_path, 0, '00000000,0000000c', '10 20 30 40')
    numa_node(tmp_path, 8, '00000000,00000003', '21 11 31 41')
    numa_node(tmp_path, 9, '00000000,00000000', '22 23 12 42')
    numa_node(tmp_path, 10, '00000001,00000000', '24 25 26 13')
    assert detect.numa_distances({0, 1, 2, 3}, tmp_path) == {'numa_ids': [8, 0], 'numa_distances': [[11, 21], [20, 10]]}
    assert detect.numa_distances({2, 32}, tmp_path)['numa_ids'] == [0, 10]


def test_distances_that_are_not_there_or_contradict_the_domains_are_left_out(tmp_path):
    assert detect.numa_distances({0}, tmp_path) == {}  # without NUMA
    for first, second in (('', ''), ('0 0', '0 0'), ('10 0', '20 10'), ('10', '20 10')):
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        numa_node(root, 0, '1', first)
        numa_node(root, 1, '2', second)
        assert detect.numa_distances({0, 1}, root) == {'numa_ids': [0, 1]}


MOUNTS = '22 1 0:21 / / rw - ext4 /dev/a rw\n{}\n23 1 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n'
V2 = MOUNTS.format('31 23 0:27 {} {} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate')
V1 = MOUNTS.format('35 23 0:32 {} {} rw,relatime - cgroup cgroup rw,memory')
TASK = '/slurm/job_7/step_0/user/task_0'


@each_row(
    ('of_process', 'mounts', 'limits', 'mib'),
    [
        (f'0::{TASK}', V2.format('/', '/sys/fs/cgroup'), {}, 1024),
        # Slurm with cgroup v2: the job has the limit, the leaf says max
        (f'0::{TASK}', V2.format('/', '/sys/fs/cgroup'),
         {f'sys/fs/cgroup{TASK}/memory.max': 'max', 'sys/fs/cgroup/slurm/job_7/memory.max': 48 * 2**20,
          'sys/fs/cgroup/slurm/memory.max': 96 * 2**20}, 48),
        # the limit of another job, and a file with the name of a limit outside the mount
        (f'0::{TASK}', V2.format('/', '/sys/fs/cgroup'),
         {'sys/fs/cgroup/slurm/job_8/memory.max': 2**20, 'sys/fs/memory.max': 2**20}, 1024),
        # a container that sees a part of the tree, from outside and from inside its namespace
        ('0::/pod/app/x', V2.format('/pod', '/sys/fs/cgroup'), {'sys/fs/cgroup/app/memory.max': 2**20}, 1),
        ('0::/../other', V2.format('/', '/sys/fs/cgroup'), {'sys/fs/cgroup/memory.max': 2**20}, 1),
        ('0::/a', V2.format('/b', '/sys/fs/cgroup'), {'sys/fs/cgroup/memory.max': 2**20, 'sys/fs/a/memory.max': 1}, 1),
        # cgroup v1, alone and beside an empty v2
        ('4:memory:/slurm/uid_0/job_7\n3:cpu,cpuacct:/', V1.format('/', '/sys/fs/cgroup/memory'),
         {'sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes': 9223372036854771712,
          'sys/fs/cgroup/memory/slurm/uid_0/memory.limit_in_bytes': 48 * 2**20}, 48),
        ('4:memory:/docker/a\n0::/', V1.format('/docker/a', '/cgroup') + V2.format('/', '/sys/fs/cgroup/unified'),
         {'cgroup/memory.limit_in_bytes': 2**20}, 1),
    ],
)  # fmt: skip
def test_the_least_limit_of_the_cgroups_around_a_process_is_the_memory_there_is(
    tmp_path, of_process, mounts, limits, mib
):
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    files = {'proc/self/cgroup': of_process, 'proc/self/mountinfo': mounts, 'proc/meminfo': 'MemTotal: 1048576 kB'}
    for name, text in (files | limits).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f'{text}\n')
    assert detect.memory_bytes(root) == mib * 2**20


def test_memory_that_nothing_shows_is_not_known(tmp_path):
    assert detect.memory_bytes(tmp_path) is None

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of a partition as the checks see them: of two sockets, with four GPUs, and others."""

from dataclasses import replace

from checks.core.topology import Cache, Topology
from plumbline.site.sites import FileSystem

MIB = 2**20
FIRST, SECOND = frozenset({0, 1, 2, 3, 8, 9, 10, 11}), frozenset({4, 5, 6, 7, 12, 13, 14, 15})
# 16 GB/s and 192 GFlop/s at least: 8 cores of 2 GB/s, and of 2 GHz with one multiply-add of 8 doubles at 0.75 of it
TWO = Topology(
    cores=tuple((core, core + 8) for core in range(8)), numa_domains=(FIRST, SECOND), sockets=(FIRST, SECOND),
    caches=(
        *(Cache(1, 2**15, frozenset({core, core + 8})) for core in range(8)),
        *(Cache(2, MIB, frozenset({core, core + 8})) for core in range(8)),
        Cache(3, 16 * MIB, FIRST), Cache(3, 16 * MIB, SECOND),
    ),
    arch='zen4', described_memory=64 * 2**30, nodes_of_partition=4, numa_distances=((10, 32), (32, 10)),
    numa_ids=(0, 1), nics=('mlx5_0', 'mlx5_1'), nic_numa_ids=(1, 0), memory_kinds={'ddr': (0,), 'hbm': (1,)},
    file_systems={'scratch': FileSystem('/scratch', 'lustre'), 'tmp': FileSystem('/tmp', 'local')},
)  # fmt: skip
LINKS = {'near': ((0, 1), (2, 3)), 'far': ((0, 2),)}
GPUS = replace(TWO, gpus=('sm_90',) * 4, gpu_numa_ids=(0, 0, 1, 1), opencl_devices=4, link_classes=LINKS)
NODES = {
    'two': TWO, 'gpus': GPUS, 'opencl': replace(TWO, opencl_devices=2), 'unified': replace(GPUS, unified=True),
    'intel': replace(GPUS, gpus=('intel_pvc',) * 4), 'odd': replace(TWO, cores=TWO.cores[:3]),
    'one_gpu': replace(GPUS, gpus=('sm_90',), gpu_numa_ids=(0,), opencl_devices=1, link_classes={}),
    'large': replace(TWO, nodes_of_partition=32, resources=('different_switch',)),
    'alone': replace(
        TWO, cores=((0,),), numa_domains=(frozenset({0}),), sockets=(frozenset({0}),), caches=(), numa_ids=(0,),
        nodes_of_partition=1, nics=(), nic_numa_ids=(), memory_kinds={},
    ),
}  # fmt: skip

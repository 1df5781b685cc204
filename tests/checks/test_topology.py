# SPDX-License-Identifier: BSD-3-Clause
"""Nodes as masks (detected) or counts (described), and the sets of cores that benchmarks run on."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scratch import site_text

from checks.core.placement import cpus_of_devices
from checks.core.topology import (
    Topology,
    _from_counts,
    _from_masks,
    gpu_pairs,
    topology_of,
)
from checks.memory.likwid import layouts
from plumbline.errors import SiteError

# two sockets of two cores with two threads each, numbered as Linux does, one NUMA domain a socket
MASKS = {
    'topology': {
        'numa_nodes': ['0xcc', '0x33'], 'sockets': ['0x33', '0xcc'], 'cores': ['0x88', '0x11', '0x22', '0x44'],
        'caches': [{'type': 'L3', 'size': 1024, 'num_cpus': 4, 'cpusets': ['0x33', '0xcc']},
                   {'type': 'L1', 'size': 32, 'num_cpus': 2, 'cpusets': ['0x11', '0x22', '0x44', '0x88']}],
    },
}  # fmt: skip
COUNTS = {
    'num_cpus': 8, 'num_cpus_per_core': 2, 'num_sockets': 2,
    'caches': {'L3': {'size': '1024 B', 'num_cpus': 4}, 'L1': {'size': '32 B', 'num_cpus': 2}},
}  # fmt: skip


def node(fields) -> Topology:
    return Topology(arch='zen4', described_memory=None, **fields)


def counted(sockets: int, domains: int, cores: int, threads: int = 1) -> Topology:
    return node(_from_counts({
        'num_cpus': cores * threads, 'num_cpus_per_core': threads, 'num_sockets': sockets, 'num_numa_domains': domains,
    }))  # fmt: skip


def test_cores_that_the_system_keeps_are_none_of_the_node_and_its_domains_stay_as_they_are():
    whole, kept = node(_from_counts(COUNTS)), node(_from_counts(COUNTS | {'reserved_cores': [0, 2]}))
    assert kept.cores == tuple(core for core in whole.cores if core[0] in (1, 3))
    assert (kept.sockets, kept.numa_domains, kept.caches) == (whole.sockets, whole.numa_domains, whole.caches)
    assert replace(kept, nic_numa_ids=(1,), numa_ids=(0, 1)).cpu_near_nic() == 3


def test_a_node_is_told_by_its_sockets_and_gpus():
    assert counted(2, 4, 8).hardware == {'sockets': '2'}
    with_gpus = node(_from_counts(COUNTS) | {'gpu_models': ('A100 40 GB', 'A100 40 GB', 'A30')})
    assert with_gpus.hardware == {'sockets': '2', 'gpus': '2 x A100 40 GB; 1 x A30'}
    assert topology_of('polaris', 'gpu').hardware == {'sockets': '1', 'gpus': '4 x NVIDIA A100 40 GB'}


def test_a_described_node_equals_the_detected_one():
    consecutive = node(_from_counts(COUNTS | {'consecutive_threads': True}))
    assert consecutive.cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert consecutive.sockets == (frozenset(range(4)), frozenset(range(4, 8)))
    detected, described = node(_from_masks(MASKS)), node(_from_counts(COUNTS))
    assert detected.cores == described.cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert detected.numa_domains == described.numa_domains == (frozenset({0, 1, 4, 5}), frozenset({2, 3, 6, 7}))
    assert set(detected.caches) == set(described.caches)
    assert detected.sockets == described.sockets


def test_caches_memory_and_instructions_of_a_set_of_cores():
    topology = node(_from_masks(MASKS))
    assert (topology.cache_bytes(1, (0,)), topology.cache_bytes(2, (0,)), topology.cache_bytes(3, (0, 1))) == (
        32,
        0,
        1024,
    )
    assert topology.last_level_cache_bytes((0, 2)) == 2048
    assert topology.has_instructions('avx512f') and topology.has_instructions(None)
    assert not topology.has_instructions('sve')
    nothing = counted(1, 1, 2)
    with pytest.raises(SiteError, match=r'memory_per_node in site\.yaml'):
        _ = nothing.memory_bytes
    with pytest.raises(SiteError, match=r'processor\.caches in site\.yaml'):
        nothing.last_level_cache_bytes((0,))


def test_layouts_of_one_domain_and_of_two_sockets_of_two_domains():
    assert list(layouts(counted(1, 1, 2))) == ['node', 'core']
    found = layouts(counted(2, 4, 16, threads=2))
    assert list(found) == ['node', 'core', 'half_close', 'half_spread', 'socket1', 'numa0', 'numa1', 'numa2', 'numa3']
    assert found['half_close'] == {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}  # socket 0, which has no layout of its own
    assert found['half_spread'] == {0: (0, 2), 1: (4, 6), 2: (8, 10), 3: (12, 14)}
    assert [*found['socket1']] == [2, 3]


@given(st.sampled_from([1, 2, 4, 12]), st.sampled_from([1, 2]), st.integers(1, 8))
def test_layouts_use_cores_of_the_node_once_and_never_twice_the_same_set(sockets, per_socket, per_domain):
    topology = counted(sockets, sockets * per_socket, sockets * per_socket * per_domain)
    found = layouts(topology)
    used = [[cpu for cpus in layout.values() for cpu in cpus] for layout in found.values()]
    assert len({frozenset(cpus) for cpus in used}) == len(used)
    for layout, all_of_it in zip(found.values(), used, strict=True):
        assert len(set(all_of_it)) == len(all_of_it) > 0
        assert set(all_of_it) <= set(topology.cpu_of_core)
        for domain, cpus in layout.items():
            assert set(cpus) <= topology.numa_domains[domain]


@each_row(
    ('link_class', 'which', 'number', 'first'),
    [
        ('D', 'all', 16, (0, 3)), ('C', 'first', 1, (0, 2)), (None, 'first', 0, None),
        ('A', '2_3', 1, (2, 3)), ('B', '2_3', 0, None), ('A', '3_2', 0, None), ('A', 'x', 0, None),
    ],
)  # fmt: skip
def test_pairs_of_gpus_by_class_and_devices(link_class, which, number, first):
    found = gpu_pairs(topology_of('frontier', 'gpu'), link_class, which)
    assert (len(found), next(iter(found), None)) == (number, first)


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Return the node of a site that is described so, each under a name of its own."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path))

    def described(text: str) -> Topology:
        (folder := tmp_path / f'cluster{len([*tmp_path.iterdir()])}').mkdir()
        (folder / 'site.yaml').write_text(site_text(text))
        topology_of.cache_clear()
        return topology_of(folder.name, 'node')

    yield described
    topology_of.cache_clear()


@each_row(('both', 'expected'), [('true', ((0, 1), (2, 3), (1, 0), (3, 2))), ('false', ((0, 1), (2, 3)))])
def test_a_path_that_is_not_symmetric_is_measured_both_ways(described, both, expected):
    topology = described(f"""\
processor: {{num_cpus: 8, num_cpus_per_core: 1, num_sockets: 1}}
devices: [{{type: gpu, num_devices: 4}}]
link_classes:
  A: {{pairs: [[0, 1], [2, 3]], both_directions: {both}}}
  B: {{pairs: [[0, 2], [0, 3], [1, 2], [1, 3]]}}
""")
    assert topology.link_classes['A'] == gpu_pairs(topology, 'A', 'all') == expected


@each_row(
    ('devices', 'found'),
    [
        ('[{type: gpu, num_devices: 3}]', ()),
        ('[{type: gpu, num_devices: 3, numa_domains: [8, 0, 8]}]', (8, 0, 8)),
        ('[{type: gpu, num_devices: 1, numa_domains: [8]}, {type: gpu, num_devices: 1, numa_domains: [0]}]', (8, 0)),
        ('[{type: gpu, num_devices: 3, numa_domains: [8, 0]}]', 'expected 3 numbers, one for each device; found 2'),
        ('[{type: gpu, num_devices: 2, numa_domains: [8, 1]}]', 'expected NUMA domains of the node, 0, 8; found 1'),
        ('[{type: gpu, num_devices: 1, numa_domains: [8]}, {type: gpu, num_devices: 1}]', 'lacks numa_domains'),
    ],
)
def test_the_numa_domain_near_each_gpu_is_one_of_the_node_or_refused(described, devices, found):
    text = f'processor: {{num_cpus: 8, num_cpus_per_core: 1, num_sockets: 2, numa_ids: [0, 8]}}\ndevices: {devices}\n'
    if isinstance(found, tuple):
        assert described(text).gpu_numa_ids == found
    else:
        with pytest.raises(SiteError, match=rf'site\.yaml:10: partitions\.0\.devices\.[01].*: {re.escape(found)}'):
            described(text)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 16))
def test_each_gpu_has_cores_of_its_own_in_the_domain_near_it(near, per_domain):
    """Of four NUMA domains, numbered against the order of their cores."""
    described = _from_counts(
        {'num_cpus': 4 * per_domain, 'num_cpus_per_core': 1, 'num_sockets': 1, 'num_numa_domains': 4}
    )
    topology = node(described | {'gpus': ('sm_90',) * len(near), 'gpu_numa_ids': tuple(near), 'numa_ids': (3, 2, 1, 0)})
    lists = cpus_of_devices(topology)
    if any(near.count(domain) > per_domain for domain in near):
        assert lists == ()
        return
    used = [cpu for cpus in lists for cpu in cpus]
    assert len(lists) == len(near) and len(used) == len(set(used))
    for domain, cpus in zip(near, lists, strict=True):
        assert set(cpus) <= topology.numa_domains[3 - domain]
        assert len(cpus) == per_domain // near.count(domain) > 0

# SPDX-License-Identifier: BSD-3-Clause
"""The Superdome Flex of the study 002: its latencies and bandwidths by distance."""

import pytest
from rows import each_row

from checks.core.topology import topology_of
from checks.memory.numa_matrix import distance_classes
from plumbline.identity import SeriesId, from_text
from plumbline.references import load_references

SITE = 'superdome-flex'


def value(check: str, metric: str) -> float:
    name, _, dims = metric.partition(' ')
    return load_references(SITE).find(SeriesId('node', 'cpu', check, (), name, from_text(dims))).mean


def test_the_node_is_twelve_sockets_in_three_groups():
    topology = topology_of(SITE, 'node')
    assert (len(topology.sockets), len(topology.numa_domains), len(topology.cores)) == (12, 12, 288)
    assert sum(map(len, topology.cores)) == 576 and topology.memory_bytes == 9 * 2**40
    classes = distance_classes(topology.numa_distances, 12)
    assert {name: len(members) for name, members in classes.items()} == {
        'local': 12, 'same_group_16': 24, 'same_group_26': 12, 'other_group': 96,
    }  # fmt: skip
    groups = {(i // 4, j // 4) for i, j in classes['other_group']}
    assert all(a != b for a, b in groups) and len(groups) == 6


def test_every_class_of_distance_has_a_latency_and_a_bandwidth():
    classes = distance_classes(topology_of(SITE, 'node').numa_distances, 12)
    for check, quantity in (('NumaLatency', 'latency'), ('NumaBandwidth', 'bandwidth')):
        names = [row.id.name for row in load_references(SITE).rows if row.id.check == check]
        assert names == [f'{quantity} distance={name}' for name in classes]


def test_the_distances_are_the_latencies_over_the_local_one():
    classes = distance_classes(topology_of(SITE, 'node').numa_distances, 12)
    distances = topology_of(SITE, 'node').numa_distances
    for name, ((i, j), *_) in classes.items():
        assert distances[i][j] == pytest.approx(10 * value('NumaLatency', f'latency distance={name}') / 81, abs=0.5)


@each_row(
    ('check', 'metric', 'low', 'high'),
    [
        ('NumaLatency', 'latency distance=local', 81, 81),
        ('NumaLatency', 'latency distance=same_group_16', 132, 132),
        ('NumaLatency', 'latency distance=same_group_26', 210, 215),
        ('NumaLatency', 'latency distance=other_group', 360, 360),
        ('NumaBandwidth', 'bandwidth distance=local', 107, 107),
        ('NumaBandwidth', 'bandwidth distance=same_group_16', 16.7, 16.9),
        ('NumaBandwidth', 'bandwidth distance=same_group_26', 16.7, 16.9),
        ('NumaBandwidth', 'bandwidth distance=other_group', 12.6, 12.7),
    ],
)
def test_section_2_and_the_middle_of_its_ranges(check, metric, low, high):
    assert value(check, metric) == pytest.approx((low + high) / 2)

# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of the Superdome Flex study (002): its latencies and bandwidths by distance, Tables I and II."""

import pytest
from rows import each_row

from checks.core.topology import topology_of
from checks.memory.numa_matrix import distance_classes
from plumbline.identity import SeriesId, from_text, to_text
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references, read_references

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


def test_table_1_on_both_machines():
    rows = {}
    for site in (SITE, 'cori'):
        for row in read_references(SUITE_SITES / site / 'published.csv', 'published'):
            if row.source == '002 Table I':
                rows[site, to_text(row.id.params[:1]), row.id.metric] = row.mean
    assert rows == {
        (SITE, 'hyperthreads=yes', 'time'): 144, (SITE, 'hyperthreads=yes', 'cv'): 0.0193,
        (SITE, 'hyperthreads=no', 'time'): 172, (SITE, 'hyperthreads=no', 'cv'): 0.0146,
        ('cori', 'hyperthreads=yes', 'time'): 167, ('cori', 'hyperthreads=yes', 'cv'): 0.0108,
        ('cori', 'hyperthreads=no', 'time'): 170, ('cori', 'hyperthreads=no', 'cv'): 0.0185,
    }  # fmt: skip


def test_table_2_the_check_measures_the_row_of_one_thread_a_core():
    assert value('NumaStream', 'triad_cv') == pytest.approx(0.00163)
    assert value('NumaStream', 'triad_range') == pytest.approx(0.00601)
    rows = read_references(SUITE_SITES / SITE / 'published.csv', 'published')
    others = {(row.id.check, to_text(row.id.params), row.id.metric): row.mean for row in rows
              if row.source == '002 Table II' and not row.is_limit}  # fmt: skip
    assert others == {
        ('EP', 'hyperthreads=yes', 'cv'): 0.0154, ('EP', 'hyperthreads=yes', 'range'): 0.0601,
        ('EP', 'hyperthreads=no', 'cv'): 0.0147, ('EP', 'hyperthreads=no', 'range'): 0.0457,
        ('STREAM', 'hyperthreads=yes', 'cv'): 0.00240, ('STREAM', 'hyperthreads=yes', 'range'): 0.00689,
    }  # fmt: skip


def test_the_scaling_figures_of_the_text():
    rows = read_references(SUITE_SITES / SITE / 'published.csv', 'published')
    speedups = [(row.id.check, row.mean) for row in rows if row.id.metric == 'speedup_of_12_sockets']
    assert speedups == [
        ('MetaHipMer', 7.5), ('MetaHipMer', 8.0), ('BT', 11.2), ('BT', 11.7), ('BT', 6), ('SP', 10.8), ('SP', 11.1),
        ('SP', 6.7),
    ]  # fmt: skip

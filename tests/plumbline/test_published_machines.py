# SPDX-License-Identifier: BSD-3-Clause
"""What the documents 000 to 002 say of their machines in the text: figures, and facts that a site had wrong once."""

import csv
import re

import pytest
from rows import each_row
from scratch import ROOT

from checks.core.topology import topology_of
from plumbline.identity import SeriesId, from_text
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references
from plumbline.site.sites import load_site


def value(site: str, partition: str, check: str, params: str, name: str):
    """The reference of a metric with its dims on CPUs, or None."""
    metric, _, dims = name.partition(' ')
    of = SeriesId(partition, 'cpu', check, from_text(params), metric, from_text(dims))
    return load_references(site).find(of)


def published(site: str) -> list[dict[str, str]]:
    with (SUITE_SITES / site / 'published.csv').open(newline='', encoding='utf-8') as stream:
        return list(csv.DictReader(stream))


# MareNostrum 5 (000); the tables of its report are in tests/studies

TWO_NODES = 'num_nodes=2,pair=two_nodes'


@each_row(
    ('check', 'params', 'name', 'mean', 'unit'),
    [
        ('LikwidPeakFlops', 'layout=core', 'flops isa=avx512,precision=dp', 70.44, 'GFlop/s'),
        ('LikwidPeakFlops', 'layout=node', 'flops isa=avx512,precision=dp', 8640, 'GFlop/s'),
        ('LikwidBandwidth', 'layout=node,level=memory', 'bandwidth kernel=copy', 386.25, 'GB/s'),
        ('LikwidBandwidth', 'layout=core,level=memory', 'bandwidth kernel=copy', 31.50, 'GB/s'),
        ('OsuBandwidth', TWO_NODES, 'bandwidth message_bytes=131072', 25000, 'MB/s'),
        ('OsuBandwidth', TWO_NODES, 'bandwidth message_bytes=4194304', 25000, 'MB/s'),
        ('OsuLatency', TWO_NODES, 'latency message_bytes=8', 1.50, 'us'),
    ],
)
def test_the_figures_of_the_text_on_marenostrum5(check, params, name, mean, unit):
    found = value('marenostrum5', 'gpp-ddr', check, params, name)
    assert found.mean == pytest.approx(mean, rel=1e-3) and found.quantity.unit == unit


def test_messages_outside_of_what_the_text_says_have_no_reference():
    for partition, check, name in (
        ('gpp-ddr', 'OsuBandwidth', 'bandwidth message_bytes=65536'),
        ('gpp-ddr', 'OsuLatency', 'latency message_bytes=16'),
        ('gpp-highmem', 'OsuLatency', 'latency message_bytes=8'),
    ):
        assert value('marenostrum5', partition, check, TWO_NODES, name) is None


def test_the_best_over_kernels_and_bindings_is_no_limit_of_one_of_them():
    best = [row for row in published('marenostrum5') if re.match('"(at best|up to)"', row['note'])]
    assert [(row['mean'], row['kind']) for row in best] == [('409.56', 'unmeasured'), ('1459', 'unmeasured')]


def test_the_node_bandwidth_is_the_one_that_its_share_of_the_peak_gives():
    found = value('marenostrum5', 'gpp-ddr', 'LikwidBandwidth', 'layout=node,level=memory', 'bandwidth kernel=copy')
    peak = load_site('marenostrum5').partitions['gpp-ddr'].peaks['memory_bandwidth']
    assert found.mean * 1e9 / peak == pytest.approx(0.6287, abs=1e-4) and '62.87 GB/s' in found.note


@each_row(('partition', 'nodes', 'cpus', 'file_systems', 'flops'), [
    ('gpp-ddr', 6192, 112, ['scratch', 'disk'], 10.75e12), ('gpp-highmem', 216, 112, ['scratch', 'disk'], 10.75e12),
    ('gpp-hbm', 72, 112, ['scratch', 'disk'], 10.75e12),  # 000, section 6: the cores of the others
    ('acc', 1120, 80, [], None),  # its stack has no ior, as the head of the site says
])  # fmt: skip
def test_marenostrum5_has_the_nodes_cores_and_file_systems_of_its_report(partition, nodes, cpus, file_systems, flops):
    site = load_site('marenostrum5')
    described = site.partitions[partition]
    assert (described.num_nodes, described.processor['num_cpus']) == (nodes, cpus)
    assert [*described.file_systems] == file_systems and described.peaks.get('flops_dp') == flops
    ranks = {name: (one['ranks_per_node'], one['threads_per_rank']) for name, one in described.benchmarks.items()}
    if partition == 'acc':
        assert ranks['hpl-nvidia'] == ranks['hpcg-nvidia'] == (4, 20) and len(described.link_classes['A'].pairs) == 6
        # each of four GPUs has 200 Gbit/s, though the next sentence of the report has two links of NDR200
        assert described.peaks['network_bandwidth'] == 100e9
        assert 'hpl-mxp-nvidia' in site.environs['ngc'].features
    else:
        assert (ranks['hpl'], ranks['hpcg-intel']) == ((2, 56), (8, 11))


# The machines of 001 to 003

DOCUMENTS = ['000', '001', '002', '003']


def test_a_core_of_tegra_2_has_a_cache_of_its_own_and_its_numbers_a_compiler():
    (node,) = load_site('tegra2').partitions.values()
    assert node.processor['caches']['L1'] == {'size': '32 KiB', 'num_cpus': 1}
    assert all(
        row['software'].startswith('GCC 4.6, ') for row in published('tegra2') if 'STREAM' in row['check'].upper()
    )


def test_castorc_has_the_peaks_and_the_pair_of_its_report():
    (node,) = load_site('castorc').partitions.values()
    wanted = {'device_flops_double': 515e9, 'network_bandwidth': 4e9}
    assert {name: node.peaks[name] for name in wanted} == wanted
    assert [(link.pairs, link.peak) for link in node.link_classes.values()] == [(((0, 1),), 16e9)]


def test_no_site_of_a_document_states_meters_or_caps_and_a_page_says_why():
    sites = [path.parent.name for path in SUITE_SITES.glob('*/published.csv')]
    documents = {site: {row['source'][:3] for row in published(site)} & set(DOCUMENTS) for site in sites}
    described = [site for site in sites if documents[site]]
    reasons = re.findall('^- (00[0-3]): ', (ROOT / 'docs/tables.md').read_text(), re.MULTILINE)
    assert reasons == DOCUMENTS and set.union(*documents.values()) == set(DOCUMENTS) and len(described) >= 27
    for site in described:
        for partition in load_site(site).partitions.values():
            assert not partition.energy and not partition.power_cap, site


# Superdome Flex (002): latencies and bandwidths by distance


def test_superdome_flex_is_twelve_sockets():
    topology = topology_of('superdome-flex', 'node')
    assert (len(topology.sockets), len(topology.numa_domains), len(topology.cores)) == (12, 12, 288)
    assert sum(map(len, topology.cores)) == 576 and topology.memory_bytes == 9 * 2**40


@each_row(
    ('distance', 'latency', 'bandwidth'),
    [  # section 2, and the middle of its ranges
        ('local', 81, 107),
        ('same_group_16', 132, (16.7 + 16.9) / 2),
        ('same_group_26', (210 + 215) / 2, (16.7 + 16.9) / 2),
        ('other_group', 360, (12.6 + 12.7) / 2),
    ],
)
def test_each_distance_has_a_latency_and_a_bandwidth(distance, latency, bandwidth):
    of = 'superdome-flex', 'node'
    assert value(*of, 'NumaLatency', '', f'latency distance={distance}').mean == pytest.approx(latency)
    assert value(*of, 'NumaBandwidth', '', f'bandwidth distance={distance}').mean == pytest.approx(bandwidth)


def test_every_number_of_superdome_flex_names_its_software():
    rows = published('superdome-flex')
    assert all(row['software'] for row in rows)
    hybrid = [row['software'] for row in rows if 'mpi+openmp' in row['params']]
    assert hybrid and all('Open MPI 4.0.2' in text for text in hybrid)

# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the text of the MareNostrum 5 report (000); its tables are reprinted in test_published_tables.py."""

import csv
import re
from dataclasses import replace

import pytest
from rows import each_row

from plumbline.identity import SeriesId, from_text, pairs
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references
from plumbline.site.sites import load_site

SITE = 'marenostrum5'


@each_row(
    ('partition', 'environ', 'check', 'params', 'metric', 'dims', 'mean', 'unit'),
    [
        ('gpp-ddr', 'cpu', 'LikwidPeakFlops', 'layout=core', 'flops', 'isa=avx512,precision=dp', 70.44, 'GFlop/s'),
        ('gpp-ddr', 'cpu', 'LikwidPeakFlops', 'layout=node', 'flops', 'isa=avx512,precision=dp', 8640, 'GFlop/s'),
        ('gpp-ddr', 'cpu', 'LikwidBandwidth', 'layout=node,level=memory', 'bandwidth', 'kernel=copy', 386.25, 'GB/s'),
        ('gpp-ddr', 'cpu', 'LikwidBandwidth', 'layout=core,level=memory', 'bandwidth', 'kernel=copy', 31.50, 'GB/s'),
        (
            'gpp-ddr',
            'cpu',
            'OsuBandwidth',
            'num_nodes=2,pair=two_nodes',
            'bandwidth',
            'message_bytes=131072',
            25000,
            'MB/s',
        ),
        (
            'gpp-ddr',
            'cpu',
            'OsuBandwidth',
            'num_nodes=2,pair=two_nodes',
            'bandwidth',
            'message_bytes=4194304',
            25000,
            'MB/s',
        ),
        ('gpp-ddr', 'cpu', 'OsuLatency', 'num_nodes=2,pair=two_nodes', 'latency', 'message_bytes=8', 1.50, 'us'),
    ],
)
def test_the_figures_of_the_text(partition, environ, check, params, metric, dims, mean, unit):
    of = SeriesId(partition, environ, check, from_text(params), metric, from_text(dims))
    found = load_references(SITE).find(of)
    assert found.mean == pytest.approx(mean, rel=1e-3) and found.quantity.unit == unit


def test_the_best_over_kernels_and_bindings_is_no_limit_of_one_of_them():
    with (SUITE_SITES / SITE / 'published.csv').open(newline='', encoding='utf-8') as stream:
        best = [row for row in csv.DictReader(stream) if re.match('"(at best|up to)"', row['note'])]
    assert [(row['mean'], row['kind']) for row in best] == [('409.56', 'unmeasured'), ('1459', 'unmeasured')]


def test_messages_outside_of_what_the_text_says_have_no_reference():
    references = load_references(SITE)

    def found(partition, check, metric, size):
        of = SeriesId(partition, 'cpu', check, from_text('num_nodes=2,pair=two_nodes'), metric)
        return references.find(replace(of, dims=pairs({'message_bytes': size})))

    assert found('gpp-ddr', 'OsuLatency', 'latency', 8)
    assert found('gpp-ddr', 'OsuBandwidth', 'bandwidth', 65536) is None
    assert found('gpp-ddr', 'OsuLatency', 'latency', 16) is None
    assert found('gpp-highmem', 'OsuLatency', 'latency', 8) is None


def test_the_node_bandwidth_is_the_one_that_its_share_of_the_peak_gives():
    params, dims = from_text('layout=node,level=memory'), from_text('kernel=copy')
    found = load_references(SITE).find(SeriesId('gpp-ddr', 'cpu', 'LikwidBandwidth', params, 'bandwidth', dims))
    peak = load_site(SITE).partitions['gpp-ddr'].peaks['memory_bandwidth']
    assert found.mean * 1e9 / peak == pytest.approx(0.6287, abs=1e-4) and '62.87 GB/s' in found.note


def test_the_partitions_and_the_ranks_of_hpl_and_hpcg():
    partitions = load_site(SITE).partitions
    assert [*partitions] == ['gpp-ddr', 'gpp-highmem', 'gpp-hbm', 'acc', 'gpp-ng', 'acc-ng']
    assert {name: partitions[name].num_nodes for name in ('gpp-ddr', 'gpp-highmem', 'gpp-hbm')} == {
        'gpp-ddr': 6192, 'gpp-highmem': 216, 'gpp-hbm': 72,
    }  # fmt: skip
    for name in ('gpp-ddr', 'gpp-highmem', 'gpp-hbm'):
        found = partitions[name]
        assert found.processor['num_cpus'] == 112
        assert found.benchmarks['hpl'] == {'ranks_per_node': 2, 'threads_per_rank': 56}
        assert found.benchmarks['hpcg-intel'] == {'ranks_per_node': 8, 'threads_per_rank': 11}
    acc = partitions['acc']
    assert acc.processor['num_cpus'] == 80 and len(acc.link_classes['A'].pairs) == 6
    for name in ('hpl-nvidia', 'hpcg-nvidia'):
        assert (acc.benchmarks[name]['ranks_per_node'], acc.benchmarks[name]['threads_per_rank']) == (4, 20)
    assert not partitions['gpp-ng'].processor and not partitions['acc-ng'].processor

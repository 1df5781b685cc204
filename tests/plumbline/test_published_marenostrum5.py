# SPDX-License-Identifier: BSD-3-Clause
"""Tables 2 to 6 of the MareNostrum 5 report (000), digit for digit, and the figures of its text."""

import csv
import re
from dataclasses import replace

import pytest
from rows import each_row

from plumbline.identity import SeriesId, from_text, pairs, to_text
from plumbline.paths import SUITE_SITES
from plumbline.references import load_references, read_references
from plumbline.site.sites import load_site

SITE = 'marenostrum5'
ROWS = read_references(SUITE_SITES / SITE / 'published.csv', 'published')

# Typed again from the paper, in the order of its columns
TABLE_2 = """
x86.sp      1.93   3.20  2.69   8.00  2.98   4.00  100.00   11.90  2.41  152.70  0.08
x86.dp      1.93   3.20  2.70   8.00  2.97   4.00  100.00   11.87  2.41  158.94  0.07
avx2.sp     1.93  25.60  2.70   8.02  2.98  31.92   99.75   94.95  2.40  152.52  0.62
avx2.dp     1.93  12.80  2.70   8.02  2.98  15.96   99.75   47.49  2.40  159.46  0.30
avx512.sp   3.53 102.00  7.30  16.00  2.20  63.80   99.69  140.37  2.20  152.35  0.92
avx512.dp   3.53  51.20  6.49  16.00  2.47  31.91   99.72   78.86  2.20  152.43  0.52
"""
TABLE_2_COLUMNS = (
    'instructions', 'operations', 'duration', 'cycles', 'frequency', 'flop_per_cycle', 'peak_fraction', 'performance',
    'instructions_per_cycle', 'power', 'efficiency',
)  # fmt: skip
TABLE_3 = """
x86.rd       53.63   1280      0  17.99  160.31  2.98   23.87   71.14  2.99
avx2.rd      54.04   5120      0  18.13  160.31  2.98   94.75  282.38  2.97
avx512.rd    84.87  10240      0  28.48  160.31  2.98  120.65  359.54  1.89
x86.wr      160.31      0   1280  26.86   80.08  2.98   15.98   47.65  2.00
avx2.wr     160.31      0   5120  26.86   80.08  2.98   63.94  190.59  2.00
avx512.wr   160.31      0  10240  53.71  160.31  2.98   63.96  190.65  1.00
"""
TABLE_3_COLUMNS = (
    'instructions', 'read', 'written', 'duration', 'cycles', 'frequency', 'bytes_per_cycle', 'bandwidth',
    'instructions_per_cycle',
)  # fmt: skip
# partition, nodes, RPeak, RMax, % of RPeak, power, GFlop/(s W)
TABLE_4 = """
gpp-ddr     1    7.17    6.61  92.19  0.87   7.59
acc         1  232.00  179.70  77.46  3.50  66.29
gpp-ddr  6264   44.90   40.10  89.31  5.75   6.97
acc      1080  250.56  175.30  69.96  4.16  42.15
"""
# partition, nodes, RPeak, RMax, % of RPeak
TABLE_5 = """
gpp-ddr     1       7.17     0.08  1.16
acc         1     232.00     1.06  0.46
gpp-ddr  6270   44943.36   484.00  1.08
acc      1024  237568.00  1145.98  0.48
"""
# nodes, s, kWh, kW
TABLE_6 = """
16  2473.04  32.76   47.68
78  644.254  33.36  186.41
"""


def cells(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def means(source: str) -> dict[tuple[str, str, str, str], str]:
    """(partition, check, params, metric with dims) -> the mean as it is written."""
    with (SUITE_SITES / SITE / 'published.csv').open(newline='', encoding='utf-8') as stream:
        rows = [row for row in csv.DictReader(stream) if row['source'] == source]
    return {(row['partition'], row['check'], row['params'], SeriesId.from_row(row).name): row['mean'] for row in rows}


def test_every_cell_of_table_2_and_where_it_is_measured():
    found = means('000 Table 2')
    measured = {'avx2.sp': 'flops isa=avx,precision=sp', 'avx2.dp': 'flops isa=avx,precision=dp'}
    scale = {'instructions': 'e10', 'operations': 'e10', 'cycles': 'e9', 'peak_fraction': 'e-2'}
    for isa, *values in cells(TABLE_2):
        for column, value in zip(TABLE_2_COLUMNS, values, strict=True):
            key = ('gpp-ddr', 'FPU_uKernel', f'isa={isa}', column)
            if column == 'performance' and isa in measured:
                key = ('gpp-ddr', 'LikwidPeakFlops', 'layout=core', measured[isa])
            assert found.pop(key) == value + scale.get(column, '')
    assert not found


def test_the_columns_of_table_2_that_are_off_by_powers_of_ten_are_mended():
    """Instructions are said to be in 10^9 and operations in 10^7."""
    rows = {(to_text(row.id.params), row.id.metric): row.mean for row in ROWS if row.source == '000 Table 2'}
    for isa, *_ in cells(TABLE_2):
        of = {metric: mean for (case, metric), mean in rows.items() if case == f'isa={isa}'}
        assert of['instructions'] == pytest.approx(of['instructions_per_cycle'] * of['cycles'], rel=0.01)
        assert of['operations'] == pytest.approx(of['flop_per_cycle'] * of['cycles'], rel=0.01)
        assert of['cycles'] == pytest.approx(of['duration'] * of['frequency'] * 1e9, rel=0.01)


def test_every_cell_of_table_3_and_where_it_is_measured():
    found = means('000 Table 3')
    measured = {'avx512.rd': 'bandwidth kernel=load', 'avx512.wr': 'bandwidth kernel=store'}
    for isa, *values in cells(TABLE_3):
        by_column = dict(zip(TABLE_3_COLUMNS, values, strict=True))
        if isa.endswith('.rd'):  # the two columns are exchanged in these rows
            by_column |= {'instructions': by_column['cycles'], 'cycles': by_column['instructions']}
        for column, value in by_column.items():
            key = ('gpp-ddr', 'MEM_uKernel', f'isa={isa}', column)
            if column == 'bandwidth' and isa in measured:
                key = ('gpp-ddr', 'LikwidBandwidth', 'layout=core,level=L1', measured[isa])
            if value == '0':
                assert key not in found
            else:
                assert found.pop(key) == value + {'instructions': 'e9', 'cycles': 'e9'}.get(column, '')
    assert not found


def test_the_rows_of_table_3_are_consistent_as_they_are_recorded():
    rows = {(to_text(row.id.params), row.id.metric): row.mean for row in ROWS if row.source == '000 Table 3'}
    for isa, *_ in cells(TABLE_3):
        cycles = rows[f'isa={isa}', 'cycles']
        assert cycles == pytest.approx(rows[f'isa={isa}', 'duration'] * 2.98e9, rel=0.01)
        ratio = rows[f'isa={isa}', 'instructions'] / cycles
        assert ratio == pytest.approx(rows[f'isa={isa}', 'instructions_per_cycle'], rel=0.01)


def test_every_cell_of_table_4():
    found = means('000 Table 4')
    for partition, nodes, peak, most, percent, power, efficiency in cells(TABLE_4):
        raw = (partition, 'HPL', f'nodes={nodes}')
        measured = (partition, 'HPL', f'implementation={"netlib" if partition == "gpp-ddr" else "nvidia"},size=full')
        assert found.pop((*raw, 'rpeak')) == peak
        if nodes == '1':
            assert found.pop((*measured, 'gflops')) == f'{most}e3'
        else:
            assert found.pop((*raw, 'rmax')) == most
        fraction = measured if (partition, nodes) == ('gpp-ddr', '1') else raw
        assert found.pop((*fraction, 'peak_fraction')) == f'{percent}e-2'
        assert float(most) / float(peak) == pytest.approx(float(percent) / 100, abs=6e-5)
        assert found.pop((*raw, 'power')) == power
        assert found.pop((*raw, 'efficiency')) == efficiency
    assert not found


def test_what_table_4_contradicts():
    rows = {
        (row.id.partition, to_text(row.id.params), row.id.metric): row for row in ROWS if row.source == '000 Table 4'
    }
    whole = rows['gpp-ddr', 'nodes=6264', 'rmax']
    assert (whole.mean, whole.quantity.unit) == (40.10, 'PFlop/s') and 'prints 40.10 TFlop/s' in whole.note
    for partition, nodes, peak, most, _, power, efficiency in cells(TABLE_4):
        row = rows[partition, f'nodes={nodes}', 'efficiency']
        right = float(most) / float(power) == pytest.approx(float(efficiency), rel=2e-3)
        assert row.kind == ('unmeasured' if right else 'invalid')
        if not right:
            assert float(peak) / float(power) == pytest.approx(float(efficiency), rel=1e-3)


def test_every_cell_of_table_5():
    found = means('000 Table 5')
    for partition, nodes, peak, most, percent in cells(TABLE_5):
        raw = (partition, 'HPCG', f'nodes={nodes}')
        implementation = 'intel' if partition == 'gpp-ddr' else 'nvidia'
        of_nodes = f'num_nodes={nodes},' if nodes == '1024' else ''
        measured = (partition, 'HPCG', f'implementation={implementation},{of_nodes}size=full')
        assert found.pop((*raw, 'rpeak')) == peak
        if nodes in ('1', '1024'):  # powers of two
            assert found.pop((*measured, 'gflops')) == f'{most}e3'
        else:
            assert found.pop((*raw, 'rmax')) == most
        fraction = measured if (partition, nodes) == ('gpp-ddr', '1') else raw
        assert found.pop((*fraction, 'peak_fraction')) == f'{percent}e-2'
    assert not found


def test_every_cell_of_table_6():
    found = means('000 Table 6')
    for nodes, seconds, energy, power in cells(TABLE_6):
        for metric, value in (('time', seconds), ('energy', energy), ('power', power)):
            assert found.pop(('acc', 'DL-BENCH', f'nodes={nodes}', metric)) == value
    assert not found


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

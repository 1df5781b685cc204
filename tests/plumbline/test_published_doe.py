# SPDX-License-Identifier: BSD-3-Clause
"""Tables 4, 5 and 6 of the US DOE study of June 2023 (003), digit for digit, and Table 7, which follows from them."""

from rows import each_row

from plumbline.paths import SUITE_SITES
from plumbline.references import load_references, read_references

# Typed again from the paper, without its peaks: mean+-standard deviation of 100 runs, in the order of the columns
TABLE_4 = {  # memory bandwidth of one thread and of all in GB/s; MPI latency on-socket and on-node in us
    'trinity': '12.36+-0.16 347.28+-5.76 0.67+-0.01 0.99+-0.01',
    'theta': '18.76+-0.58 119.72+-0.54 5.95+-0.01 6.25+-0.05',
    'sawtooth': '13.06+-0.35 238.70+-8.39 0.48+-0.01 0.48+-0.01',
    'eagle': '13.45+-0.03 208.24+-0.92 0.17+-0.00 0.38+-0.01',
    'manzano': '15.27+-0.05 234.86+-0.12 0.32+-0.00 0.56+-0.01',
}
TABLE_5 = {  # memory bandwidth of a device in GB/s; MPI latency host-to-host, device-to-device of classes A to D in us
    'frontier': '1336.35+-1.11 0.45+-0.01 0.44+-0.00 0.44+-0.00 0.44+-0.00 0.44+-0.00',
    'summit': '786.43+-0.11 0.34+-0.07 18.10+-0.22 19.30+-0.15',
    'sierra': '861.40+-0.65 0.38+-0.01 18.72+-0.12 19.76+-0.37',
    'perlmutter': '1363.74+-0.23 0.46+-0.06 13.50+-0.13',
    'polaris': '1362.75+-0.17 0.21+-0.00 10.42+-0.03',
    'lassen': '861.03+-0.53 0.37+-0.00 18.68+-0.20 19.72+-0.13',
    'rzvernal': '1291.38+-0.77 0.49+-0.00 0.50+-0.01 0.50+-0.01 0.50+-0.00 0.49+-0.01',
    'tioga': '1336.81+-0.97 0.49+-0.00 0.50+-0.00 0.50+-0.00 0.50+-0.00 0.49+-0.01',
}
# Kernel launch and wait; between host and device latency, bandwidth in GB/s; device-to-device A to D; times in us
TABLE_6 = {
    'frontier': '1.51+-0.00 0.14+-0.00 12.91+-0.02 24.87+-0.01 12.02+-0.05 12.56+-0.03 12.68+-0.02 12.02+-0.10',
    'summit': '4.84+-0.01 4.31+-0.01 7.82+-0.07 44.88+-0.00 24.97+-0.16 27.44+-0.14',
    'sierra': '4.13+-0.01 5.59+-0.02 7.27+-0.23 63.40+-0.01 23.91+-0.16 27.70+-0.12',
    'perlmutter': '1.77+-0.01 0.98+-0.00 4.24+-0.01 24.74+-0.00 14.74+-0.41',
    'polaris': '1.83+-0.00 1.32+-0.01 5.33+-0.02 23.71+-0.00 32.84+-0.30',
    'lassen': '4.56+-0.00 5.52+-0.01 7.76+-0.32 63.34+-0.02 24.56+-0.28 27.69+-0.10',
    'rzvernal': '2.16+-0.01 0.12+-0.00 12.20+-0.07 24.88+-0.00 9.85+-0.01 12.58+-0.00 12.45+-0.02 10.21+-0.01',
    'tioga': '2.15+-0.01 0.12+-0.00 12.19+-0.04 24.88+-0.00 9.85+-0.02 12.59+-0.01 12.46+-0.01 10.12+-0.02',
}
# Table 7: lowest and highest mean of the machines with an accelerator
TABLE_7 = {
    'V100': (
        ('summit', 'sierra', 'lassen'),
        '786.43-861.40 18.10-18.72 4.13-4.84 4.31-5.59 7.27-7.82 44.88-63.40 23.91-24.97',
    ),
    'A100': (
        ('perlmutter', 'polaris'),
        '1362.75-1363.74 10.42-13.50 1.77-1.83 0.98-1.32 4.24-5.33 23.71-24.74 14.74-32.84',
    ),
    'MI250X': (
        ('frontier', 'rzvernal', 'tioga'),
        '1291.38-1336.81 0.44-0.50 1.51-2.16 0.12-0.14 12.19-12.91 24.87-24.88 9.85-12.02',
    ),
}
XEON_PHI = ('trinity', 'theta')
WITH_HIP = TABLE_7['MI250X'][0]


def column_keys(table: int, site: str) -> list[tuple[str, str, str, str]]:
    """(check, case, metric, unit) of each column of a table."""
    model = 'hip' if site in WITH_HIP else 'cuda'
    if table == 4:
        far = 'first_last' if site in XEON_PHI else 'different_socket'
        return [
            ('BabelStreamBest', '-', 'single_best', 'GB/s'),
            ('BabelStreamBest', '-', 'all_best', 'GB/s'),
            ('OsuLatency', 'pair=same_numa', 'mpi_latency', 'us'),
            ('OsuLatency', f'pair={far}', 'mpi_latency', 'us'),
        ]
    if table == 5:
        return [
            ('BabelStreamDevice', f'device=*,model={model}', 'best', 'GB/s'),
            ('OsuLatency', 'pair=same_numa', 'mpi_latency', 'us'),
            *(('OsuDeviceLatency', f'buffers=device-device,link_class={name},pairs=*', 'mpi_latency', 'us')
              for name in 'ABCD'),
        ]  # fmt: skip
    return [
        ('CommScopeKernel', f'device=*,model={model}', 'launch', 'us'),
        ('CommScopeKernel', f'device=*,model={model}', 'wait', 'us'),
        ('CommScopeHostDevice', f'device=*,model={model}', 'latency', 'us'),
        ('CommScopeHostDevice', f'device=*,model={model}', 'bandwidth', 'GB/s'),
        *(('CommScopeDevicePair', f'link_class={name},model={model},pairs=*', 'latency', 'us') for name in 'ABCD'),
    ]  # fmt: skip


def printed(site: str) -> list[str]:
    """The lines that the tables make of a published.csv, as text: no digit may get lost in a float."""
    (partition,) = {row.id.partition for row in read_references(SUITE_SITES / site / 'published.csv', 'published')}
    stack = 'cpu' if site in TABLE_4 else 'rocm' if site in WITH_HIP else 'cuda'
    lines = []
    for number, table in ((4, TABLE_4), (5, TABLE_5), (6, TABLE_6)):
        for (check, case, metric, unit), cell in zip(
            column_keys(number, site), table.get(site, '').split(), strict=False
        ):
            mean, std = cell.split('+-')
            quoted = f'"{case}"' if ',' in case else case
            better = 'higher' if unit == 'GB/s' else 'lower'
            key = f'{partition},{stack},{check},{quoted},{metric},-'
            lines.append(f'{key},{unit},{better},{mean},{std},100,published,003 Table {number},,')
    return lines


@each_row('site', [*TABLE_4, *TABLE_5])
def test_every_number_digit_for_digit_and_no_other(site):
    _, *lines = (SUITE_SITES / site / 'published.csv').read_text().splitlines()
    lines = [line for line in lines if ',003 Table' in line]
    expected = printed(site)
    assert len(lines) == len(expected)
    for line, beginning in zip(lines, expected, strict=True):
        assert line.startswith(beginning)


def test_the_columns_of_every_table_are_taken():
    """So that `strict=False` above leaves out only classes of links that a machine has not."""
    assert {len(row.split()) for row in TABLE_4.values()} == {4}
    assert {len(row.split()) for row in TABLE_5.values()} == {3, 4, 6} and TABLE_5.keys() == TABLE_6.keys()
    for site in TABLE_5:
        classes = len(TABLE_5[site].split()) - 2
        assert len(TABLE_6[site].split()) - 4 == classes
        found = {dict(row.id.params).get('link_class') for row in load_references(site).rows} - {None}
        assert found == set('ABCD'[:classes])


@each_row('accelerator', TABLE_7)
def test_table_7_follows_from_tables_5_and_6(accelerator):
    """The paper calls it the ranges of all means, but between devices it has those of class A alone."""
    sites, row = TABLE_7[accelerator]
    columns = [
        ('BabelStreamDevice', 'best'), ('OsuDeviceLatency', 'mpi_latency'), ('CommScopeKernel', 'launch'),
        ('CommScopeKernel', 'wait'), ('CommScopeHostDevice', 'latency'), ('CommScopeHostDevice', 'bandwidth'),
        ('CommScopeDevicePair', 'latency'),
    ]  # fmt: skip
    rows = [found for site in sites for found in load_references(site).rows]
    for (check, metric), expected in zip(columns, row.split(), strict=True):
        of_metric = [each for each in rows if (each.id.check, each.id.metric) == (check, metric)]
        means = [each.mean for each in of_metric if dict(each.id.params).get('link_class', 'A') == 'A']
        assert len(means) == len(sites)
        assert f'{min(means):.2f}-{max(means):.2f}' == expected
    if accelerator != 'A100':
        (low, high) = map(float, row.split()[-1].split('-'))
        pairs = [each for each in rows if each.id.check == 'CommScopeDevicePair']
        other = [each.mean for each in pairs if dict(each.id.params)['link_class'] == 'B']
        assert min(other) > high > low

# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of PRACE's report on prototypes (001): STREAM, HPL, I/O, metadata, energy, and which are wrong."""

import pytest
from rows import each_row

from plumbline.identity import to_text
from plumbline.paths import SUITE_SITES
from plumbline.references import Reference, load_references, read_references

PROTOTYPES = (
    'coolmuc', 'castorc', 'tegra2', 'numaconnect', 'dsp-c6678', 'psnc', 'cea-clusterstor', 'cines-clusterstor',
    'juniors',
)  # fmt: skip
KERNELS = ('copy', 'scale', 'sum', 'triad')
# Table 24: MB/s and MB/J of the largest vectors, typed again
TABLE_24 = {
    'tegra2': '1487 1363 932 1041 155.5 138.4 94.3 105.3',
    'castorc': '88530 88829 89283 89281 269.5 270.5 271.8 271.8',
    'coolmuc': '49627 35458 39036 39010 228.5 163.2 179.7 179.6',
    'dsp-c6678': '3028 2910 2979 3642 398.9 384.8 403.8 480.5',
    'numaconnect': '602625 593412 633213 635794 132.8 130.8 139.5 140.1',
}
# Tables 106 and 110: nodes, GFlop/s, W, MFlop/J, typed again
HPL = {
    'tegra2': """
        2 2.2 16.2 133, 4 4.3 33.4 130, 8 8.5 71.3 119, 16 17.3 141 123, 32 33.4 283 118, 64 63.0 562 112,
        96 99.0 842 118, 128 127 1127 112, 160 152 1405 108, 192 175 1656 106, 224 200 1966 101
    """,
    'coolmuc': """
        1 108 333 326, 2 200 696 286, 4 415 1332 312, 8 820 2602 315, 16 1275 5114 249, 32 2225 10209 218
    """,
}


def rows(site: str) -> list[Reference]:
    return read_references(SUITE_SITES / site / 'published.csv', 'published')


def stream(site: str) -> dict[str, float]:
    """MB/s of each kernel with the largest vectors and the threads of Table 24."""
    found = {}
    for row in rows(site):
        of, unit = row.id, row.quantity.unit
        if (of.check, of.metric, unit, row.kind) == ('STREAM', 'bandwidth', 'MB/s', 'unmeasured'):
            case = dict(of.params)
            if case.get('threads', '276') == '276' and 'doubles' not in case:
                found[case['kernel']] = row.mean
        if of.check in ('BabelStreamHost', 'BabelStreamDevice') and to_text(of.params) != 'binding=one':
            kernel = {'copy': 'copy', 'mul': 'scale', 'add': 'sum', 'triad': 'triad'}[dict(of.dims)['kernel']]
            found[kernel] = row.mean * 1e3
    return found


@each_row('site', TABLE_24)
def test_table_24(site):
    rates, efficiencies = TABLE_24[site].split()[:4], TABLE_24[site].split()[4:]
    assert stream(site) == pytest.approx(dict(zip(KERNELS, map(float, rates), strict=True)))
    found = [row for row in rows(site) if row.source == '001 Table 24']
    assert [(row.id.metric, row.quantity.unit, row.mean) for row in found] == [
        ('efficiency', 'MB/J', float(each)) for each in efficiencies
    ]


@each_row('site', HPL)
def test_hpl_on_several_nodes(site):
    """Numbers of nodes that are no power of two have no case."""
    every = rows(site)
    for entry in HPL[site].split(','):
        nodes, rate, power, efficiency = entry.split()
        several = f'num_nodes={nodes},' if nodes != '1' else ''
        case = f'implementation=netlib,{several}size=full'
        rates = [(to_text(row.id.params), row) for row in every if row.id.metric == 'gflops']
        mine = [row for params, row in rates if (row.id.check, params) == ('HPL', case)]
        mine += [row for params, row in rates
                 if params.endswith(f',nodes={nodes}') and row.source != '001 Table 68']  # fmt: skip
        assert [row.mean for row in mine] == [float(rate)]
        assert mine[0].is_limit is (int(nodes) & (int(nodes) - 1) == 0)
        table = {'coolmuc': '001 Table 110', 'tegra2': '001 Table 106'}[site]
        of_table = [row for row in every if row.source == table]
        spent = {row.id.metric: row.mean for row in of_table if to_text(row.id.params).endswith(f',nodes={nodes}')}
        assert (spent['power'], spent['efficiency']) == (float(power), float(efficiency))


def test_hpl_on_single_nodes():
    found = {}
    for site in PROTOTYPES:
        for row in load_references(site).rows:
            of = row.id
            if (of.check, to_text(of.params), of.metric) == ('HPL', 'implementation=netlib,size=full', 'gflops'):
                found[site, of.partition] = row.mean
    assert found == {
        ('coolmuc', 'node'): 108, ('tegra2', 'node'): 1.13, ('psnc', 'llano'): 24.8, ('psnc', 'trinity'): 34.7,
        ('psnc', 'ivybridge'): 72.8,
    }  # fmt: skip


# What contradicts itself in the report: (site, check, metric, number), and a word of the reason
KNOWN_TO_BE_WRONG = [
    ('juniors', 'IOR', 'read', 13597, '12 GB/s'),
    ('juniors', 'SIONlib', 'read', 13056, '12 GB/s'),
    ('juniors', 'SIONlib', 'read', 12379, '12 GB/s'),
    ('cea-clusterstor', 'SIONlib', 'read', 28, 'write'),
    ('cea-clusterstor', 'metadata', 'removal', 2000, '1500'),
    ('castorc', 'HPL', 'power', 150, '24 s'),
    ('castorc', 'HPL', 'efficiency', 689, '24 s'),
    ('castorc', 'STREAM', 'efficiency', 269.5, 'two GPUs'),
    ('dsp-c6678', 'STREAM', 'efficiency_of_dsp', 5.50, '5.87'),
    ('dsp-c6678', 'STREAM', 'efficiency_of_dsp', 0.87, '0.39'),
    ('dsp-c6678', 'HPL', 'gflops', 3.0, '38.66'),
    ('psnc', 'STREAM', 'bandwidth', 1862, 'to the digit'),
    ('coolmuc', 'HPL', 'energy', 297000, 'twice'),
    ('coolmuc', 'HPL', 'energy', 80038800, 'twice'),
    ('coolmuc', 'HPL', 'gflops', 12.5, 'another rate'),
    ('coolmuc', 'HPL', 'power', 272, '313'),
    ('coolmuc', 'HPL', 'peak_fraction', 0.77, '84 %'),
    ('coolmuc', 'STREAM', 'bandwidth', 3664, 'timer'),
]


@each_row(('site', 'check', 'metric', 'number', 'word'), KNOWN_TO_BE_WRONG)
def test_what_is_wrong_stands_there_with_its_reason_and_is_no_limit(site, check, metric, number, word):
    found = [row for row in rows(site) if (row.id.check, row.id.metric, row.mean) == (check, metric, number)]
    wrong = [row for row in found if row.kind == 'invalid']
    assert wrong and all(word in row.note for row in wrong)
    assert not [row for row in found if row.is_limit]


@each_row(
    ('site', 'check', 'metric', 'number'),
    [
        ('tegra2', 'HPL', 'time', 575),  # of two times, the one that agrees with energy over power and with the rate
        ('cea-clusterstor', 'SSU', 'efficiency', 3.69),
        ('cea-clusterstor', 'metadata', 'removal_per_process', 1500),  # agrees with the printed ratio of 1.88
    ],
)
def test_of_two_numbers_that_contradict_each_other_the_right_one_is_kept(site, check, metric, number):
    (found,) = [row for row in rows(site) if (row.id.check, row.id.metric, row.mean) == (check, metric, number)]
    assert found.kind == 'unmeasured'
    if site == 'tegra2':
        assert number == pytest.approx(4599 / 7.99, rel=0.01)
        assert number == pytest.approx(2 / 3 * 9920**3 / 1.13e9, rel=0.01)


def test_energy_of_hpl_on_coolmuc_is_twice_its_time_times_power():
    """434 s at 333 W are 145 kJ; 297 kJ is published, so it is invalid."""
    energies = [row.mean for row in rows('coolmuc') if row.id.metric == 'energy']
    seconds, watts = (434, 668, 912, 1306, 2376, 3857), (333, 696, 1332, 2602, 5114, 10209)
    assert len(energies) == 6
    for energy, time, power in zip(energies, seconds, watts, strict=True):
        assert 2.0 < energy / (time * power) < 2.1


def test_the_spread_of_stream_on_a_gpu_is_the_printed_percentage_of_its_mean():
    for row in load_references('castorc').rows:
        assert row.n == 12
        assert row.std / row.mean == pytest.approx(
            0.0002 if dict(row.id.dims)['kernel'] in ('add', 'triad') else 0.0003, rel=0.01
        )


@each_row('site', PROTOTYPES)
def test_every_row_names_its_table_or_section(site):
    for row in rows(site):
        assert row.source.startswith(('001 Table ', '001 section '))


# Tables 22 and 23: GB/s, W of cores, of memory and of the board, GB/J of the cores and of the DSP; typed again
DSP = {
    ('copy', 'L1'): '124.2 6.81 0.42 14.20 18.24 17.19',
    ('copy', 'L2'): '47.6 6.54 0.42 13.85 7.27 6.84',
    ('copy', 'MCSM'): '38.7 6.65 0.42 13.99 5.81 5.47',
    ('copy', 'DDR3'): '3.0 5.59 1.95 14.47 0.54 0.40',
    ('scale', 'L1'): '123.7 7.17 0.42 14.69 17.23 16.28',
    ('scale', 'L2'): '41.8 6.70 0.42 14.05 6.24 5.50',
    ('scale', 'MCSM'): '21.9 6.44 0.42 13.71 3.40 3.19',
    ('scale', 'DDR3'): '2.9 5.60 1.91 14.44 0.52 0.87',
}
DSP_COLUMNS = ('bandwidth', 'power_of_cores', 'power_of_memory', 'power_of_board', 'efficiency_of_cores',
               'efficiency_of_dsp')  # fmt: skip


@each_row(('of', 'printed'), DSP.items())
def test_tables_22_and_23(of, printed):
    """GB/s of DDR3 are those of Tables 60 and 61, which have more digits."""
    kernel, memory = of
    numbers = dict(zip(DSP_COLUMNS, map(float, printed.split()), strict=True))
    table = {'copy': '001 Table 22', 'scale': '001 Table 23'}[kernel]
    found = [row for row in rows('dsp-c6678') if row.source == table and dict(row.id.params)['memory'] == memory]
    expected = {name: number for name, number in numbers.items() if (name, memory) != ('bandwidth', 'DDR3')}
    assert {row.id.metric: row.mean for row in found} == expected and len(found) == len(expected)
    # 3.0 GB/s are between 2.95 and 3.05
    assert numbers['bandwidth'] / numbers['power_of_cores'] == pytest.approx(numbers['efficiency_of_cores'], rel=0.02)


def test_table_27():
    """Order, GFlop/s and % of 40 GFlop/s, typed again."""
    printed = '127 0.7 1.7, 255 3.0 7.6, 511 6.8 16.9, 1023 13.0 32.4, 2047 19.2 48.1, 4095 25.9 64.8, 8063 30.9 77.2'
    found = {(to_text(row.id.params), row.id.metric): row for row in rows('dsp-c6678') if row.id.check == 'HPL'}
    for entry in printed.split(', '):
        order, rate, share = entry.split()
        assert found[f'N={order}', 'gflops'].mean == float(rate)
        of_peak = found[f'N={order}', 'peak_fraction']
        assert (of_peak.mean, of_peak.source) == (pytest.approx(float(share) / 100), '001 Table 27')
        assert of_peak.mean == pytest.approx(float(rate) / 40, abs=0.0015)
        assert (of_peak.kind == 'invalid') is (order == '255')


def test_table_28():
    found = {row.id.metric: row for row in rows('tegra2') if row.source == '001 Table 28'}
    assert {name: row.mean for name, row in found.items()} == {'dmips': 2466, 'energy': 110.8}
    assert all('116.8 J at 19246 DMIPS' in row.note for row in found.values())


# Table 33: s with noutput=2000, 1 and 0, typed again
HYDRO = {
    500: (7.762, 31.442, 7.870), 1000: (27.557, 60.891, 27.860), 2000: (109.222, 166.986, 106.663),
    5000: (713.219, 905.420, 797.331), 10000: (2985.870, 3558.290, 3157.874),
}  # fmt: skip


def test_table_33():
    found = {to_text(row.id.params): row for row in rows('juniors') if row.source == '001 Table 33'}
    assert len(found) == 15 and {row.kind for row in found.values()} == {'unmeasured'}
    for grid, seconds in HYDRO.items():
        of = [found[f'grid={grid},output={output},ranks=32'] for output in ('once', 'every_step', 'none')]
        assert tuple(row.mean for row in of) == seconds
        once, _, none = seconds
        assert ('longer than' in of[2].note) is (none > once)

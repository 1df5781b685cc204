# SPDX-License-Identifier: BSD-3-Clause
"""The papers' tables: reprinted digit for digit, and what a session measured below what was published."""

import csv
import io
import json
import re
from types import SimpleNamespace

import pytest
from commands import run_command
from rows import each_row
from run_reports import BEGAN, SITE, Workplace, case, metric, reference, report
from scratch import ROOT

from plumbline.identity import CaseId, Quantity
from plumbline.references import Reference
from postprocess.extras.papers import cells as module
from postprocess.extras.papers.energy import contradiction, efficiency, energy, energy_delay, hpl_seconds, power
from postprocess.extras.papers.printed import formatted_tables as render
from postprocess.extras.papers.tables import paper_tables

# As the papers print their tables, typed from them; columns apart by blanks, `+-` before a standard deviation. Columns
# that are not numbers, and signs such as %, are left out.
PRINTED = {
    ('doe', 'Table 4'): """
        29. Trinity     12.36+-0.16 347.28+-5.76 >450   0.67+-0.01 0.99+-0.01
        94. Theta       18.76+-0.58 119.72+-0.54 >450   5.95+-0.01 6.25+-0.05
        109. Sawtooth   13.06+-0.35 238.70+-8.39 281.50  0.48+-0.01 0.48+-0.01
        127. Eagle      13.45+-0.03 208.24+-0.92 255.97  0.17+-0.00 0.38+-0.01
        141. Manzano    15.27+-0.05 234.86+-0.12 281.50  0.32+-0.00 0.56+-0.01
    """,
    ('doe', 'Table 5'): """
        1. Frontier   1336.35+-1.11 1600   0.45+-0.01 0.44+-0.00 0.44+-0.00 0.44+-0.00 0.44+-0.00
        5. Summit     786.43+-0.11 900     0.34+-0.07 18.10+-0.22 19.30+-0.15
        6. Sierra     861.40+-0.65 900     0.38+-0.01 18.72+-0.12 19.76+-0.37
        8. Perlmutter 1363.74+-0.23 1555.2 0.46+-0.06 13.50+-0.13
        19. Polaris   1362.75+-0.17 1555.2 0.21+-0.00 10.42+-0.03
        36. Lassen    861.03+-0.53 900     0.37+-0.00 18.68+-0.20 19.72+-0.13
        116. RZVernal 1291.38+-0.77 1600   0.49+-0.00 0.50+-0.01 0.50+-0.01 0.50+-0.00 0.49+-0.01
        132. Tioga    1336.81+-0.97 1600   0.49+-0.00 0.50+-0.00 0.50+-0.00 0.50+-0.00 0.49+-0.01
    """,
    ('doe', 'Table 6'): """
        1. Frontier   1.51+-0.00 0.14+-0.00 12.91+-0.02 24.87+-0.01 12.02+-0.05 12.56+-0.03 12.68+-0.02 12.02+-0.10
        5. Summit     4.84+-0.01 4.31+-0.01 7.82+-0.07 44.88+-0.00 24.97+-0.16 27.44+-0.14
        6. Sierra     4.13+-0.01 5.59+-0.02 7.27+-0.23 63.40+-0.01 23.91+-0.16 27.70+-0.12
        8. Perlmutter 1.77+-0.01 0.98+-0.00 4.24+-0.01 24.74+-0.00 14.74+-0.41
        19. Polaris   1.83+-0.00 1.32+-0.01 5.33+-0.02 23.71+-0.00 32.84+-0.30
        36. Lassen    4.56+-0.00 5.52+-0.01 7.76+-0.32 63.34+-0.02 24.56+-0.28 27.69+-0.10
        116. RZVernal 2.16+-0.01 0.12+-0.00 12.20+-0.07 24.88+-0.00 9.85+-0.01 12.58+-0.00 12.45+-0.02 10.21+-0.01
        132. Tioga    2.15+-0.01 0.12+-0.00 12.19+-0.04 24.88+-0.00 9.85+-0.02 12.59+-0.01 12.46+-0.01 10.12+-0.02
    """,
    ('doe', 'Table 7'): """
        V100   786.43-861.40 18.10-18.72 4.13-4.84 4.31-5.59 7.27-7.82 44.88-63.40 23.91-24.97
        A100   1362.75-1363.74 10.42-13.50 1.77-1.83 0.98-1.32 4.24-5.33 23.71-24.74 14.74-32.84
        MI250X 1291.38-1336.81 0.44-0.50 1.51-2.16 0.12-0.14 12.19-12.91 24.87-24.88 9.85-12.02
    """,
    ('mn5', 'Table 2'): """
        x86.sp    1.93 3.20   2.69 8.00  2.98 4.00  100.00 11.90  2.41 152.70 0.08
        x86.dp    1.93 3.20   2.70 8.00  2.97 4.00  100.00 11.87  2.41 158.94 0.07
        avx2.sp   1.93 25.60  2.70 8.02  2.98 31.92 99.75  94.95  2.40 152.52 0.62
        avx2.dp   1.93 12.80  2.70 8.02  2.98 15.96 99.75  47.49  2.40 159.46 0.30
        avx512.sp 3.53 102.00 7.30 16.00 2.20 63.80 99.69  140.37 2.20 152.35 0.92
        avx512.dp 3.53 51.20  6.49 16.00 2.47 31.91 99.72  78.86  2.20 152.43 0.52
    """,
    ('mn5', 'Table 3'): """
        x86.rd    53.63  1280  0     17.99 160.31 2.98 23.87  71.14  2.99
        avx2.rd   54.04  5120  0     18.13 160.31 2.98 94.75  282.38 2.97
        avx512.rd 84.87  10240 0     28.48 160.31 2.98 120.65 359.54 1.89
        x86.wr    160.31 0     1280  26.86 80.08  2.98 15.98  47.65  2.00
        avx2.wr   160.31 0     5120  26.86 80.08  2.98 63.94  190.59 2.00
        avx512.wr 160.31 0     10240 53.71 160.31 2.98 63.96  190.65 1.00
    """,
    ('mn5', 'Table 4'): """
        GPP            7.17   6.61   92.19 0.87 7.59
        ACC            232.00 179.70 77.46 3.50 66.29
        GPP 6264 nodes 44.90  40.10  89.31 5.75 6.97
        ACC 1080 nodes 250.56 175.30 69.96 4.16 42.15
    """,
    ('mn5', 'Table 5'): """
        GPP            7.17      0.08    1.16
        ACC            232.00    1.06    0.46
        GPP 6270 nodes 44943.36  484.00  1.08
        ACC 1024 nodes 237568.00 1145.98 0.48
    """,
    ('mn5', 'Table 6'): """
        ACC 16 nodes 2473.04 32.76 47.68
        ACC 78 nodes 644.254 33.36 186.41
    """,
    ('numa', 'Section II'): """
        its own                 81         107
        neighbours in its group 132        16.7to16.9
        the rest of its group   210to215   16.7to16.9
        other groups            360        12.6to12.7
    """,
    ('numa', 'Table I:'): """
        SDF, HyperThreads          144 1.93
        SDF                        172 1.46
        Cori Haswell, HyperThreads 167 1.08
        Cori Haswell               170 1.85
    """,
    ('numa', 'Table II:'): """
        EP, HyperThreads     1.54  6.01
        EP                   1.47  4.57
        STREAM, HyperThreads 0.240 0.689
        STREAM               0.163 0.601
    """,
    ('prace', 'Table 24'): """
        BSC-1   1487   1363   932    1041   155.5 138.4 94.3  105.3
        CaSToRC 88530  88829  89283  89281  269.5 270.5 271.8 271.8
        LRZ     49627  35458  39036  39010  228.5 163.2 179.7 179.6
        PSNC-BR 1950   1862   2194   2194
        SNIC    3028   2910   2979   3642   398.9 384.8 403.8 480.5
        UiO     602625 593412 633213 635794 132.8 130.8 139.5 140.1
    """,
}


# Tables of words, typed from the paper but for the names of the bindings, which are those of the check.
WORDS = {
    'Table 1': """
        one | 1 | not set | not set
        one-true | 1 | true | not set
        cores | #cores | not set | not set
        cores-true | #cores | true | not set
        cores-spread | #cores | spread | cores
        threads | #threads | not set | not set
        threads-true | #threads | true | not set
        threads-close | #threads | close | threads
    """,
    'Table 2': """
        29. Trinity | LANL | Intel Xeon Phi 7250
        94. Theta | ANL | Intel Xeon Phi 7230
        109. Sawtooth | INL | Intel Xeon Platinum 8268
        127. Eagle | NREL | Intel Xeon Gold 6154
        141. Manzano | SNL | Intel Xeon Platinum 8268
    """,
    'Table 3': """
        1. Frontier | ORNL | AMD EPYC | AMD MI250X
        5. Summit | ORNL | IBM Power9 | NVIDIA GV100
        6. Sierra | LLNL | IBM Power9 | NVIDIA GV100
        8. Perlmutter | NERSC | AMD EPYC 7763 | NVIDIA A100
        19. Polaris | ANL | AMD EPYC 7532 | NVIDIA A100
        36. Lassen | LLNL | IBM Power9 | NVIDIA V100
        116. RZVernal | LLNL | AMD EPYC | AMD MI250X
        132. Tioga | LLNL | AMD EPYC | AMD MI250X
    """,
    'Table 8': """
        29. Trinity | intel/2022.0.2 | cray-mpich/7.7.20
        94. Theta | intel/19.1.0.166 | cray-mpich/7.7.14
        109. Sawtooth | intel/19.0.5 | intel-mpi/2019.0.117
        127. Eagle | gcc/8.4.0 | openmpi/4.1.0
        141. Manzano | intel/16.0 | openmpi/1.10
    """,
    'Table 9': """
        1. Frontier | amd-mixed/5.3.0 | amd-mixed/5.3.0 | cray-mpich/8.1.23
        5. Summit | xl/16.1.1-10 | cuda/11.0.3 | spectrum-mpi/10.4.0.3-20210112
        6. Sierra | gcc/8.3.1 | cuda/10.1.243 | spectrum-mpi/rolling-release
        8. Perlmutter | gcc/11.2.0 | cuda/11.7 | cray-mpich/8.1.25
        19. Polaris | nvhpc/21.9 | cuda/11.4 | cray-mpich/8.1.16
        36. Lassen | gcc/7.3.1 | cuda/10.1.243 | spectrum-mpi/rolling-release
        116. RZVernal | amd/5.6.0 | amd/5.6.0 | cray-mpich/8.1.26
        132. Tioga | amd/5.6.0 | amd/5.6.0 | cray-mpich/8.1.26
    """,
}


@pytest.mark.parametrize('title', WORDS)
def test_a_papers_table_of_words_is_reprinted(title):
    (table,) = (table for table in paper_tables('doe', [], None, 'latest') if table.title.startswith(title))
    printed = [' | '.join(row) for row in table.texts.itertuples(name=None)]
    assert printed == [line.strip() for line in WORDS[title].split('\n') if line.strip()]


def test_named_sites_have_their_lines_of_words_alone():
    found = {table.title[:7]: [*table.texts.index] for table in paper_tables('doe', ['theta'], None, 'latest')}
    assert found == {name: ['94. Theta'] for name in ('Table 2', 'Table 4', 'Table 8')}


@each_row(('style', 'title'), PRINTED)
def test_a_papers_table_is_reprinted_digit_for_digit(style, title):
    printed = [table for table in paper_tables(style, [], None, 'latest') if table.title.startswith(title)]
    rows = []
    for table in printed:
        texts = table.texts.loc[:, [', computed' not in ' '.join(of) for of in table.columns]]
        for row, *cells in texts.itertuples(name=None):
            rows.append(' '.join([row, *(text.replace(' ', '').replace('±', '+-') for text in cells if text)]))
    assert rows == [' '.join(line.split()) for line in PRINTED[style, title].split('\n') if line.strip()]


def shown(style, title, *sites):
    (table,) = (table for table in paper_tables(style, list(sites), None, 'latest') if table.title.startswith(title))
    return table, {' '.join(column).strip(): texts for column, texts in table.texts.items()}


def test_the_energy_figures_of_000_follow_from_what_its_tables_print():
    """Table 4: RMax over power; Table 6: E = W x N x T, W of one node."""
    for title, expected in {'one node': ['7.60', '51.34'], 'many nodes': ['6.97', '42.14']}.items():
        _, columns = shown('mn5', f'Table 4: HPL, {title}')
        assert list(columns['GFlop/J, computed']) == expected
    table, columns = shown('mn5', 'Table 6')
    assert list(columns['Energy kWh, computed']) == ['32.75', '33.36']  # printed: 32.76, 33.36
    assert list(columns['EDP kWh h, computed']) == ['22.50', '5.97']
    assert not table.notes
    assert energy(47.68e3 / 16, 2473.04, nodes=16) / 3.6e6 == pytest.approx(32.76, rel=1e-3)


def test_the_energy_figures_of_001_follow_from_its_tables_where_these_agree():
    table, columns = shown('prace', 'HPL')
    accepted = [row for row in columns['MFlop/J'].index if columns['MFlop/J'][row]]
    off = {row: float(columns['MFlop/J, computed'][row]) / float(columns['MFlop/J'][row]) - 1 for row in accepted}
    assert len(off) == 30 and max(map(abs, off.values())) < 0.025  # 2.2 GFlop/s has two digits
    times = {'LRZ, 1 node': 434, 'LRZ, 2 nodes': 668, 'LRZ, 4 nodes': 912, 'BSC-1, 1 node': 575}  # Tables 110, 39
    assert {row: float(columns['s, computed'][row]) for row in times} == pytest.approx(times, rel=5e-3)
    assert float(columns['J, computed']['BSC-1, 1 node']) == pytest.approx(4599, rel=2e-3)  # Table 106
    # Table 110 prints twice the energy in all its rows, and nothing else is beyond its accuracy
    fires = [note for note in table.notes if 'expected 5% at most' in note]
    rows = '; '.join(note.split(':')[1].strip() for note in fires).split('; ')
    assert [row.partition(',')[0] for row in rows] == ['LRZ'] * 6
    assert all(': J: ' in note and ('off by 51%' in note or 'off by 52%' in note) for note in fires)


def babelstream(**metrics):
    return case('BabelStreamBest', '-', metrics)


def osu(pair, latency):
    return case('OsuLatency', f'pair={pair}', {'mpi_latency': metric(latency, 'us', 'lower')})


@pytest.fixture
def measured(work):
    work.reference(
        reference(check='BabelStreamBest', params='-', metric='all_best', mean='238.70', std='8.39', n='100',
                  kind='published', source='a paper'),
        file='published.csv',
    )  # fmt: skip
    work.ingest(
        report(
            babelstream(single_best=metric([13.0, 13.2]), all_best=metric([230.0, 232.0])),
            osu('same_numa', [0.4, 0.5]), osu('first_last', [9.0, 9.0]), osu('different_socket', [0.7, 0.8]),
            case('HPCC', '-', {'x': metric([1.0])}),
        )
    )  # fmt: skip
    return work


def test_a_site_that_is_in_no_paper_gets_rows_of_its_own(measured):
    answer = measured.run('tables', 'doe', SITE, '--format', 'csv')
    assert answer.exit_code == 0, answer.output
    rows = list(csv.DictReader(io.StringIO(answer.stdout)))
    assert {row['row'] for row in rows} == {f'{SITE}:cpu', f'{SITE}:cpu, measured'}  # its GPUs have no number
    cells = {(row['kind'], row['column']): row for row in rows}
    assert cells['published', 'All']['text'] == '238.70 ± 8.39' and cells['published', 'All']['source'] == 'a paper'
    assert cells['measured', 'All']['text'] == '231.00 ± 1.41'
    assert {cells['measured', 'All'][key] for key in ('n', 'unit', 'source')} == {'2', 'GB/s', 'session aaaa1111'}
    assert cells['measured', 'On-Node']['text'] == '0.75 ± 0.07'  # of two sockets rather than of the ends of one
    published = measured.run('tables', 'doe', SITE, '--published').stdout
    assert '238.70 ± 8.39' in published and 'measured' not in published


def test_devices_count_together_and_all_pairs_of_a_class_come_before_its_first(work):
    devices = [
        case('BabelStreamDevice', f'device={i},model=cuda', {'best': metric(rates)}, partition='gpu')
        for i, rates in enumerate(([1300.0, 1302.0], [1310.0, 1312.0]))
    ]
    pairs = [
        case('CommScopeDevicePair', f'link_class=A,model=cuda,pairs={which}',
             {'latency': metric(latency, 'us', 'lower')}, partition='gpu')
        for which, latency in (('first', [9.0, 9.0]), ('all', [10.0, 12.0]))
    ]  # fmt: skip
    work.ingest(report(*devices, *pairs))
    rows = json.loads(work.run('tables', 'doe', SITE, '--format', 'json').stdout)
    cells = {(row['table'][:7], row['column']): row for row in rows}
    device, pair = cells['Table 5', 'Device'], cells['Table 6', 'A']
    assert (device['mean'], device['n']) == (1306.0, 4) and (pair['mean'], pair['n']) == (11.0, 2)


def test_another_unit_is_converted_or_refused(work):
    for unit, value in (('MB/s', 1.3e6), ('us', 1.3e3)):
        entry = case('BabelStreamDevice', 'device=0,model=cuda', {'best': metric([value], unit)}, partition='gpu')
        work.ingest(report(entry, uuid=unit.replace('/', ''), began=BEGAN + len(unit)))
    assert '1300.00' in work.run('tables', 'doe', SITE, '--session', 'MBs').stdout
    answer = work.run('tables', 'doe', SITE, '--session', 'us')
    assert answer.exit_code == 2
    assert 'BabelStreamDevice best (session us) is in us, and the column Device in GB/s' in answer.stderr


def test_published_numbers_without_n_are_not_pooled(work):
    rows = [
        reference(partition='gpu', check='BabelStreamDevice', params=f'device={i},model=cuda', metric='best', std='',
                  n='', kind='published', source='a paper')
        for i in (0, 1)
    ]  # fmt: skip
    work.reference(*rows, file='published.csv')
    answer = work.run('tables', 'doe', SITE, '--published')
    assert answer.exit_code == 2
    assert answer.output.count('\n') == 1
    for named in ('BabelStreamDevice', 'a paper', '2 rows', 'column Device', 'expected n'):
        assert named in answer.stderr


@each_row(('format', 'line'), [
    ('markdown', '| 29. Trinity | 12.36 ± 0.16 | 347.28 ± 5.76 | > 450 |'),
    ('latex', r'29. Trinity & 12.36 $\pm$ 0.16 & 347.28 $\pm$ 5.76 & $>$ 450 &'),
])  # fmt: skip
def test_a_table_is_printed_as_markdown_and_latex(format, line):
    assert line in render(paper_tables('doe', [], None, 'latest'), format)


@pytest.mark.parametrize(('words', 'sentence'), [
    (['top500'], 'tables top500: expected one of doe, mn5, numa, prace, efficiency'),
    (['doe', SITE], f'{SITE}: neither a published nor a measured number belongs into style doe'),
    (['doe', 'nosuch'], "has no site 'nosuch'"),
])  # fmt: skip
def test_bad_input_is_one_sentence(work, words, sentence):
    answer = work.run('tables', *words)
    assert answer.exit_code == 2 and sentence in answer.output and answer.output.count('\n') == 1


# The annex of the PRACE report

CODES = (
    'mod2am', 'mod2as', 'mod2f', 'Hydro', 'Linpack', 'STREAM copy', 'STREAM scale', 'STREAM sum', 'STREAM triad',
)  # fmt: skip


@pytest.fixture(scope='module')
def annex():
    """The tables of the annex by code, as `plumbline tables prace` prints them."""
    found = [table for table in paper_tables('prace', [], None, 'latest') if table.title.startswith('Annex')]
    assert all(table.title.startswith(f'Annex, {code}') for code, table in zip(CODES, found, strict=True))
    return dict(zip(CODES, found, strict=True))


@pytest.mark.parametrize(('name', 'row', 'shown'), [
    ('mod2am', '104: BSC-1, 16 nodes, 8000',
     ['MPI', '449000', '142', '63701', '2282', '7.1', '16.1', '16.1', '6.38e+04', '', '']),
    ('mod2f', '48: CaSToRC, 2^18',
     ['CUDA (CUFFT)', '967 ± 28.5', '296 ± 5.21', '0.286 ± 0.00981', '142677 ± 471', '', '95.7 ± 3.28', '482', '0.286',
      '', '']),
    ('STREAM copy', '60: SNIC, 1024', ['C on 8 cores', '0.16', '8.56', '1e-06', '103052', '966.4', '12037', '1.2e+04',
                                       '1.37e-06']),
])  # fmt: skip
def test_a_row_shows_performance_share_of_the_peak_power_and_efficiency_together(annex, name, row, shown):
    assert list(annex[name].texts.loc[row]) == shown


def test_the_rules_fire_on_the_inconsistent_rows_of_the_annex_and_on_no_other(annex):
    """Efficiency against rate over power, energy against power times time; beyond 5 % and what rounding explains."""
    fired = {
        (name, row, column)
        for name, table in annex.items()
        for row, column, fault in table.cells[['row', 'column', 'fault']].itertuples(index=False)
        if 'expected 5%' in fault
    }
    sizes = {1: 41328, 2: 58464, 4: 82824, 8: 117096, 16: 165648, 32: 234360}
    assert fired == (
        {('mod2f', f'48: CaSToRC, 2^{n}', 'MFlop/J') for n in (18, 21)}
        | {('mod2f', f'57: SNIC, 2^{n}', 'MFlop/J') for n in range(11, 21)}
        | {('Linpack', f'110: LRZ, {n} node{"s" * (n > 1)}, {size}', 'J') for n, size in sizes.items()}
    )
    said = ' '.join(note for table in annex.values() for note in table.notes)
    assert 'Not to be believed: 69: LRZ, 1365; 69: LRZ, 2731; 69: LRZ, 5461; 69: LRZ, 10923: us, ' in said


def test_what_measures_the_same_kernel_here_stands_beside_it_as_another_code(work):
    of_hpcc = {'StarDGEMM_Gflops': 40.0, 'SingleDGEMM_Gflops': 50.0, 'SingleFFT_Gflops': 2.5}
    work.ingest(report(
        case('HPCC', '-', {name: metric([rate], 'GFlop/s') for name, rate in of_hpcc.items()}),
        case('HPCG', 'implementation=reference,size=quick', {'raw_spmv': metric([2.25], 'GFlop/s')}),
    ))  # fmt: skip
    answer = work.run('tables', 'prace', SITE, '--format', 'csv')
    assert answer.exit_code == 0, answer.output
    found = {(row['table'].split()[1], row['group'], row['column']): row['text']
             for row in csv.DictReader(io.StringIO(answer.stdout)) if row['kind'] == 'measured'}  # fmt: skip
    assert found == {
        ('mod2am', 'another code: HPCC DGEMM, GFlop/s', 'a core, all busy'): '40.00',
        ('mod2am', 'another code: HPCC DGEMM, GFlop/s', 'a core alone'): '50.00',
        ('mod2as', 'another code', 'HPCG SpMV, GFlop/s'): '2.25',
        ('mod2f', 'another code: HPCC FFT, GFlop/s', 'a core alone'): '2.50',
    }


# Single cells: units, digits, percent of a peak, and formulas

STREAM = CaseId('cpu', 'system', 'STREAM', (('size', 'big'), ('threads', '4')))


def number(mean=100.0, std=None, n=3, unit='GB/s', printed='', note='', kind='published'):
    id = STREAM.series('triad', ())
    return Reference(id, Quantity(unit, 'higher'), mean, std, n, kind, '001 Table 7', note=note, printed=printed)


PARTITION = SimpleNamespace(peaks={'memory_bandwidth': 200e9}, published_peaks={'flops': 1e12})


@each_row(('row', 'column', 'entry', 'shown'), [
    (number(12.345, 0.5), {}, {}, {'text': '12.35 ± 0.50', 'mean': 12.345, 'std': 0.5}),
    (number(12.345, 0.5), {'spread': False}, {}, {'text': '12.35', 'mean': 12.345, 'std': 0.5}),
    (number(12.345, 0.5), {'unit': 'MB/s', 'format': '.0f'}, {},
     {'text': '12345 ± 500', 'mean': 12345.0, 'std': 500.0, 'unit': 'MB/s'}),
    (number(12.345), {'times': 10, 'format': '.1f'}, {}, {'text': '123.5', 'mean': 123.45}),
    # 100 GB/s of 200 GB/s; of a peak of the row, and of two nodes
    (number(), {'percent_of': 'memory_bandwidth'}, {},
     {'text': '50.00', 'mean': 50.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'memory_bandwidth'}, {'peak': '400 GB/s', 'nodes': '2'},
     {'text': '12.50', 'mean': 12.5, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(50.0, unit='GFlop/s'), {'percent_of': 'flops'}, {},
     {'text': '5.00', 'mean': 5.0, 'unit': '%', 'source': 'computed from 001 Table 7'}),
    (number(), {'percent_of': 'none'}, {}, None),
    (number(63.0, printed='63.0'), {'format': 'g'}, {}, {'text': '63.0', 'mean': 63.0}),
    (number(63.0, printed='63.0'), {'format': 'g', 'times': 2}, {}, {'text': '126', 'mean': 126.0}),
    (number(63.0, 1.2345, printed='63.0'), {'format': 'printed'}, {}, {'text': '63.0 ± 1.23', 'mean': 63.0,
    'std': 1.2345}),
    (number(note='middle of 90.5 to 109.5 of it'), {}, {}, {'text': '90.5 to 109.5', 'mean': 100.0}),
    (number(note='twice', kind='invalid'), {}, {}, {'text': '100.00', 'mean': 100.0, 'fault': 'twice'}),
])  # fmt: skip
def test_a_number_is_shown_in_the_unit_of_its_column(row, column, entry, shown):
    known = {'std': None, 'n': 3, 'unit': 'GB/s', 'source': '001 Table 7', 'fault': ''}
    found = module._shown(row, {'title': 'x'} | column, entry, PARTITION)
    assert found == (module.CELL if shown is None else known | shown)


@each_row(('value', 'printed', 'shown'), [
    (9.161, '9.16', '9.16'), (0.0286, '0.029', '0.029'), (12345.0, '9447', '12345'), (123.4, '86.5', '123.'),
    (99.94, '86.5', '99.9'), (1.0, '4e-3', '1.'), (1.5, '', '2'), (1000.0, '123', '1000'), (999.0, '123', '999.'),
])  # fmt: skip
def test_a_number_keeps_the_significant_digits_of_its_source(value, printed, shown):
    assert f'{value:{module.as_printed(value, printed)}}' == shown


def test_energy_power_efficiency_and_the_time_of_hpl_follow_the_papers():
    assert (energy(10.0, 5.0, 3), energy_delay(10.0, 5.0)) == (150.0, 50.0)
    assert (efficiency(10.0, 4.0), power(10.0, 4.0)) == (2.5, 2.5)
    # 2 / 3 x 30^3 + 3 / 2 x 30^2 = 18000 + 1350
    assert hpl_seconds(30.0, 10.0) == pytest.approx(1935.0)
    assert contradiction(100.0, 94.0, 0.07) == '' and contradiction(100.0, 105.0, 0.05) == ''
    assert contradiction(50.0, 56.0, 0.1).startswith('off by 12%')


def test_what_follows_from_a_session_is_a_table_of_value_formula_and_source(work):
    figures = {'gflops': {'solver': 'dense', 'scaling': 'weak'}}

    def hpl(rate, *nodes):
        params = f'{f"num_nodes={len(nodes)}," if len(nodes) > 1 else ""}size=full'
        return case('HPL', params, {'gflops': metric([rate], 'GFlop/s')}, nodes=nodes, figures=figures)

    work.ingest(report(hpl(100.0, 'n1'), hpl(180.0, 'n1', 'n2')))
    answer = work.run('tables', 'efficiency', SITE, '--format', 'json')
    assert answer.exit_code == 0, answer.output
    cells, rows = json.loads(answer.stdout), {}
    for cell in cells:
        rows.setdefault(cell['row'].partition(',')[0], {})[cell['column']] = cell
    assert set(rows) == {'speed-up', 'parallel efficiency'}
    assert all(set(row) == {'Value', 'Formula', 'Source'} for row in rows.values())
    assert rows['parallel efficiency']['Value']['mean'] == pytest.approx(0.9)


def test_a_store_from_which_nothing_follows(work):
    work.ingest(report(case()))
    answer = work.run('tables', 'efficiency')
    assert answer.exit_code == 2 and 'nothing of efficiency follows' in answer.output


@each_row(
    'words, said',
    [
        ('dooe', "found 'dooe': did you mean doe?"), ('doe nosuch', "has no site 'nosuch'"),
        ('mn5 --session nosuch', "no session whose uuid begins with 'nosuch'"),
        ('mn5 --session 0000', f'is of site {SITE}, which was not asked for'),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table_is_said(words, said, tmp_path_factory):
    work = Workplace(tmp_path_factory.mktemp('tables'))
    work.ingest(report(case(metrics={'triad': metric([100.0])}), uuid='0000'))
    result = work.run('tables', *words.split())
    assert result.exit_code == 2 and said in ' '.join(result.stderr.split()), result.output


def test_the_table_that_a_page_shows_is_what_its_command_prints():
    shown = re.search(r'```text\n(Table 4.*?)```', (ROOT / 'docs/tables.md').read_text(), re.DOTALL)[1]
    printed = run_command(['tables', 'doe', 'theta', '--published']).stdout
    from_there = printed[printed.index('Table 4') :].splitlines()
    assert [line.split() for line in shown.splitlines()] == [line.split() for line in from_there[:4]]

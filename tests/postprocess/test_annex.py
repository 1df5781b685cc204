# SPDX-License-Identifier: BSD-3-Clause
"""The annex of the PRACE report: what a row shows, and that what disagrees with itself is named."""

import csv
import io

import pytest
from run_reports import SITE, case, metric, report

from postprocess.papers.tables import paper_tables

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
    ('mod2am', '36: BSC-1, 1000', ['', '9447', '9.16', '86.5', '212', '10.6', '23.1', '23.1', '86.5', '', '']),
    ('mod2am', '104: BSC-1, 16 nodes, 8000',
     ['MPI', '449000', '142', '63701', '2282', '7.1', '16.1', '16.1', '6.38e+04', '', '']),
    ('mod2as', '65: LRZ, 40000x40000 5 %', ['', '285000', '', '', '561', '0.4', '', '', '', '']),
    ('mod2f', '48: CaSToRC, 2^18',
     ['CUDA (CUFFT)', '967 ± 28.5', '296 ± 5.21', '0.286 ± 0.00981', '142677 ± 471', '', '95.7 ± 3.28', '482', '0.286',
      '', '']),
    ('Hydro', '91: PSNC-TR-G, 500x500', ['OpenCL on GPU', '0.23', '42.1', '9.67', '1087', '25.8', '25.8', '9.68']),
    ('Linpack', '106: BSC-1, 224 nodes, 147840',
     ['MPI', '10798', '1966', '21226700', '200', '44.6', '101', '102', '2.12e+07']),
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
    assert 'Not to be believed: 69: LRZ, 1365; 2731; 5461; 10923, us, ' in said


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

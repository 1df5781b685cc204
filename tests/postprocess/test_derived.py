# SPDX-License-Identifier: BSD-3-Clause
"""What follows from the numbers of one session: each figure by hand, on the terminal and on the page."""

import json

import pytest
from lxml import html
from run_reports import SITE, case, metric, report


def hpl(rate, nodes, size='full', **more):
    params = f'implementation=netlib,{f"num_nodes={len(nodes)}," if len(nodes) > 1 else ""}size={size}'
    stated = {'solver': 'dense', 'scaling': 'weak'} | ({'intensity': 'high'} if len(nodes) == 1 else {})
    if size == 'strong':
        stated |= {'scaling': 'strong', 'one_node': {'size': 'full'}}
    return case('HPL', params, {'gflops': metric([rate], 'GFlop/s')}, nodes=nodes, figures={'gflops': stated}, **more)


def capped(cap, rate, efficiency):
    metrics = {'bandwidth kernel=triad': metric([rate]),
               'efficiency kernel=triad,meter=rapl:package': metric([efficiency], 'GB/J')}  # fmt: skip
    dims = {'kernel': ('name', ''), 'meter': ('name', ''), 'cap': ('count', 'W')}
    figures = {'efficiency': {'capped': 'cap'}}
    return case('BabelStreamPowerCap', f'binding=cores,cap={cap}', metrics, dims=dims, figures=figures)


@pytest.fixture
def measured(work):
    work.ingest(report(
        # of two single nodes the one of the larger set counts
        hpl(90.0, ('n9',), unique_name='other', display_name='HPL %nid=n9'), hpl(100.0, ('n1',)),
        hpl(180.0, ('n1', 'n2')), hpl(320.0, ('n1', 'n2', 'n3', 'n4')),
        hpl(150.0, ('n1', 'n2'), size='strong'),
        case('HPCG', 'implementation=reference,size=full',
             {'gflops': metric([4.0], 'GFlop/s'), 'raw_total_bandwidth': metric([32.0])},
             figures={'gflops': {'solver': 'sparse', 'intensity': 'raw_total_bandwidth', 'scaling': 'weak'}}),
        case('LikwidPeakFlops', 'layout=node', {'flops isa=avx,precision=dp': metric([160.0], 'GFlop/s'),
                                                  'flops isa=avx,precision=sp': metric([320.0], 'GFlop/s')},
             dims={'isa': ('name', ''), 'precision': ('name', '')},
             figures={'flops': {'roof': 'flops', 'dims': {'precision': 'dp'}}}),
        case('BabelStreamHost', 'binding=cores', {'bandwidth kernel=triad': metric([40.0]),
                                                  'bandwidth kernel=dot': metric([38.0])},
             dims={'kernel': ('name', '')}, figures={'bandwidth': {'roof': 'bandwidth', 'peak': 51.2}}),
        case('NumaStream', '-', {'triad domain=0': metric([20.0]), 'triad domain=1': metric([10.0]),
                                 'triad_total': metric([30.0])}, dims={'domain': ('name', '')},
             figures={'triad': {'balance': 'domain'}, 'triad_total': {'intensity': 2 / 24}}),
        capped(60, 20.0, 0.25), capped(100, 38.0, 0.4), capped(220, 40.0, 0.3),
    ))  # fmt: skip
    return work


def test_each_figure_has_its_value_formula_and_source(measured):
    answer = measured.run('tables', 'efficiency', SITE, '--format', 'json')
    assert answer.exit_code == 0, answer.output
    cells = json.loads(answer.stdout)
    named = {cell['row']: cell['row'].partition(':')[0].removesuffix(', cpu/system') for cell in cells}
    values = [(named[cell['row']], round(cell['mean'], 4)) for cell in cells if cell['mean'] is not None]
    assert sorted(values) == [
        ('HPCG / HPL', 0.04), ('energy saved by a power cap', 0.25),
        ('parallel efficiency, strong scaling', 0.75),
        ('parallel efficiency, weak scaling', 0.8), ('parallel efficiency, weak scaling', 0.9),
        ('power cap of least energy', 100),
        ('share of the peak', 0.7812),  # 40 of 51.2 GB/s
        ('share of the roofline', 0.5625), ('share of the roofline', 0.625),  # HPL on n9, and on n1
        ('share of the roofline', 0.75), ('share of the roofline', 0.8),
        ('speed-up, strong scaling', 1.5), ('speed-up, weak scaling', 1.8), ('speed-up, weak scaling', 3.2),
        ('thread balance', 0.75),
    ]  # fmt: skip
    by_row = {}
    for cell in cells:
        by_row.setdefault(cell['row'], set()).add(cell['column'])
    assert set(map(frozenset, by_row.values())) == {frozenset(('Value', 'Formula', 'Source'))}


def test_they_are_on_the_page(measured):
    assert measured.run('report').exit_code < 2
    page = html.fromstring((measured.results / 'report.html').read_text())
    (table,) = page.xpath('//table[@id="figures"]')
    assert ['parallel efficiency, weak scaling', '0.8'] in [
        [cell.text_content() for cell in row[:2]] for row in table.find('tbody')
    ]
    assert page.xpath('//figure[contains(., "cap (W)") and contains(., "GB/J")]')


def test_a_store_from_which_nothing_follows(work):
    work.ingest(report(case()))
    answer = work.run('tables', 'efficiency')
    assert answer.exit_code == 2 and 'nothing of efficiency follows' in answer.output

# SPDX-License-Identifier: BSD-3-Clause
"""What follows from the numbers of one session: each figure by hand, and on the page."""

import pytest
from lxml import html
from run_reports import case, metric, report

from postprocess.results.store import Store
from postprocess.verdicts.derived import derived
from postprocess.verdicts.measured import measured_in


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
    store = Store(measured.results)
    session = store.find('latest')
    rows = (row for row in measured_in(store, session) if row.status == 'measured')
    figures = derived(rows, store.cases(session))
    assert all(figure.formula and figure.source for figure in figures)
    values = {f'{figure.what}: {figure.of}': round(figure.value, 4) for figure in figures}
    params = 'HPL implementation=netlib'
    under_caps = 'BabelStreamPowerCap binding=cores, kernel=triad,meter=rapl:package, caps from 60 to 220 W'
    assert values == {
        f'speed-up, weak scaling: {params},size=full, 2 nodes against 1: n1, n2 against n1': 1.8,
        f'parallel efficiency, weak scaling: {params},size=full, 2 nodes against 1: n1, n2 against n1': 0.9,
        f'speed-up, weak scaling: {params},size=full, 4 nodes against 1: n1, n2, n3, n4 against n1': 3.2,
        f'parallel efficiency, weak scaling: {params},size=full, 4 nodes against 1: n1, n2, n3, n4 against n1': 0.8,
        f'speed-up, strong scaling: {params},size=strong, 2 nodes against 1: n1, n2 against n1': 1.5,
        f'parallel efficiency, strong scaling: {params},size=strong, 2 nodes against 1: n1, n2 against n1': 0.75,
        'HPCG / HPL: size=full, 1 node': 0.04,
        f'share of the roofline: {params},size=full, I > P / B': 0.625,
        'share of the roofline: HPCG implementation=reference,size=full, I = 0.125 Flop/B': 0.8,
        'share of the roofline: NumaStream -, I = 0.0833 Flop/B': 0.75,
        'share of the peak: BabelStreamHost binding=cores bandwidth kernel=triad': 0.7812,  # 40 of 51.2 GB/s
        'thread balance: NumaStream -, 2 domains of n1': 0.75,
        f'power cap of least energy: {under_caps}': 100,
        f'energy saved by a power cap: {under_caps}': 0.25,
    }


def test_they_are_on_the_page(measured):
    assert measured.run('report').exit_code < 2
    page = html.fromstring((measured.results / 'report.html').read_text())
    (table,) = page.xpath('//table[@id="figures"]')
    assert ['parallel efficiency, weak scaling', '0.8'] in [
        [cell.text_content() for cell in row[:2]] for row in table.find('tbody')
    ]
    assert page.xpath('//figure[contains(., "cap (W)") and contains(., "GB/J")]')

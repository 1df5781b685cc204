"""The HTML page, read as a browser would."""

import re

import pytest
from lxml import html
from run_reports import case, metric, reference, report

from postprocess.compare import MetricVerdict
from postprocess.report import strip


@pytest.fixture
def page(work):
    work.reference(reference(), reference(case='size=lost'))
    entries = [
        case(
            metrics={'triad': metric([50.0, 51.0, 90.0]), 'new': metric([1.0])},
            provenance={'cpu_model': 'EPYC <b>7763</b>', 'kernel': '6.1'},
        ),
        case(check='HPCC', result='fail', fail_phase='setup', fail_reason='<script>alert("x")</script>'),
        case(check='Later', result='skip'),
    ]
    work.ingest(report(*entries, mode='quick'), expected='9', problem='a & b <i>')
    result = work.run('report')
    path = work.results / 'report.html'
    assert (result.exit_code, result.stdout.strip()) == (0, str(path))
    return path.read_text(encoding='utf-8')


def cells(page, table):
    return [[cell.text_content().strip() for cell in row.iter('td')] for row in html.fromstring(page).iter('tr')
            if row.getparent().getparent().get('id') == table and row.getparent().tag == 'tbody']  # fmt: skip


def test_every_verdict_is_a_row(page):
    rows = cells(page, 'verdicts')
    assert [row[0] for row in rows] == ['regressed', 'missing', 'failed', 'failed', 'no_reference']
    triad = rows[0]
    assert triad[3:7] == ['triad', '63.67 ± 23 GB/s', '3', '100 ± 1 GB/s']
    assert triad[8] == '-36.3 %'


def test_what_fell_short_stands_first_with_its_cause(page):
    rows = cells(page, 'failures')
    assert [row[0] for row in rows] == ['regressed', 'missing', 'failed', 'failed']
    assert 'below the limit' in rows[0][-1]
    assert page.index('id="failures"') < page.index('id="verdicts"')


def test_text_is_never_markup(page):
    tree = html.fromstring(page)
    assert len(list(tree.iter('script'))) == 1
    assert not list(tree.iter('i'))
    text = tree.text_content()
    for part in ('<script>alert("x")</script>', 'a & b <i>', 'EPYC <b>7763</b>'):
        assert part in text


def test_the_page_needs_nothing_else(page):
    assert not re.search(r'https?:|//[a-z]|@import|url\(', page)
    tree = html.fromstring(page)
    assert not [element for element in tree.iter() if element.get('src') or element.tag == 'link']


def test_the_page_is_accessible(page):
    tree = html.fromstring(page)
    assert tree.get('lang') == 'en'
    assert 'FAILED, 1 regressed' in tree.findtext('.//title')
    assert all(cell.get('scope') == 'col' for cell in tree.iter('th'))
    assert all(len(label) for label in tree.iter('label'))
    assert page.count('prefers-color-scheme: dark') == page.count('@media print') == 1


def test_session_problems_what_was_not_run_and_provenance(page):
    tree = html.fromstring(page)
    text = ' '.join(tree.text_content().split())
    assert '9 cases expected, 3 ran' in text
    assert 'Later size=big on cpu: not run: ReFrame skipped it' in text
    assert 'STREAM size=lost triad on cpu: no case of this quick session measured it' in text
    facts = {term.text_content(): term.getnext().text_content() for term in tree.iter('dt')}
    assert facts['kernel'] == '6.1'


def test_a_session_without_references_says_how_to_record_them(work):
    work.ingest(report(case(metrics={'triad': metric([1.0, 2.0])})))
    work.run('report', '--output', work.results / 'x.html')
    assert (work.results / 'x.html').read_text().count('plumbline record propose') == 1


def test_300_metrics_with_100_samples_stay_below_300_kb(work):
    values = [90 + (k * 37 % 100) / 5 for k in range(100)]
    metrics = {f'metric_{j}': metric(values) for j in range(10)}
    entries = [case(parameters=f'index={i}', metrics=metrics) for i in range(30)]
    work.reference(*(reference(case=f'index={i}', metric=f'metric_{j}') for i in range(30) for j in range(10)))
    work.ingest(report(*entries))
    work.run('report')
    assert (work.results / 'report.html').stat().st_size < 300_000


def matrix(work, pairs, better='higher', bad=(), **fields):
    """The heat maps of a page about one case with a metric for each pair, those of `bad` far below their reference."""
    metrics = {f'rate_{i}_{j}': metric([float(value)], better=better) for (i, j), value in pairs.items()}
    work.reference(*(reference(check='Numa', case='-', metric=f'rate_{i}_{j}') for i, j in bad))
    work.ingest(report(case(check='Numa', parameters='-', metrics=metrics, **fields)))
    work.run('report')
    return html.fromstring((work.results / 'report.html').read_text(encoding='utf-8')).find_class('heat')


def shades(table):
    return [
        [re.search(r'[\d.]+', cell.get('style'))[0] if cell.get('style') else None for cell in row.iter('td')]
        for row in table.find('tbody')
    ]


def test_pairs_are_a_heat_map_of_the_logarithms(work):
    (table,) = matrix(work, {(0, 0): 100, (0, 8): 25, (8, 0): 50, (8, 8): 100}, bad=[(0, 8)])
    assert table.findtext('caption').startswith('Numa rate on cpu/system, GB/s')
    assert [cell.text for cell in table.iter('th')] == ['0', '8', '0', '8']
    assert [cell.get('scope') for cell in table.iter('th')] == ['col', 'col', 'row', 'row']
    assert [[cell.text for cell in row.iter('td')] for row in table.find('tbody')] == [['100', '25'], ['50', '100']]
    assert shades(table) == [['1.00', '0.00'], ['0.50', '1.00']]
    assert [cell.get('title') for cell in table.find_class('b')] == ['rate_0_8: regressed']


def test_of_latencies_the_lowest_is_the_best(work):
    (table,) = matrix(work, {(0, 0): 80, (0, 1): 320, (1, 0): 160, (1, 1): 80}, better='lower')
    assert shades(table) == [['1.00', '0.00'], ['0.50', '1.00']]


def test_equal_pairs_look_equal(work):
    (table,) = matrix(work, dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], 5))
    assert shades(table) == [['1.00'] * 2] * 2


def test_a_pair_that_was_not_measured_is_a_gap_or_says_so(work):
    (table,) = matrix(work, {(0, 0): 4, (0, 1): 2, (1, 0): 2}, bad=[(2, 2)])
    texts = [[cell.text for cell in row.iter('td')] for row in table.find('tbody')]
    assert texts == [['4', '2', None], ['2', None, None], [None, None, 'missing']]


@pytest.mark.parametrize('pairs', [{(0, 0): 5}, {(0, 0): 5, (0, 1): 6}])
def test_one_row_is_no_heat_map(work, pairs):
    assert matrix(work, pairs) == []


def ticks(path):
    return [(int(x), int(height)) for x, height in re.findall(r'M(\d+) 14v-(\d+)', path)]


def verdict(**fields):
    return MetricVerdict('ok', 'cpu', 'system', 'A', '-', 'x', 'GB/s', 'higher', **fields)


def test_two_levels_are_two_groups_of_ticks():
    shape = strip(verdict(limit=60.0, expected=100.0), [70.0] * 3 + [100.0] * 6)
    low, high = ticks(shape['samples'])
    assert low[0] < high[0] - 20
    assert low[1] < high[1]
    assert shape['limit'] == 'M2 0v14'
    assert shape['expected'] == 'M98 0v14'


@pytest.mark.parametrize('samples', [[5.0], [5.0, 5.0], [0.0, 0.0]])
def test_samples_without_spread_have_a_strip(samples):
    shape = strip(verdict(), samples)
    assert ticks(shape['samples']) == [(50, 12)]
    assert shape['limit'] == shape['expected'] == ''


def test_no_strip_without_finite_samples():
    assert strip(verdict(), []) is None
    assert strip(verdict(), [float('nan')]) is None

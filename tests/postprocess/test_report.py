# SPDX-License-Identifier: BSD-3-Clause
"""The HTML page, read as a program would; test_report_in_browser.py reads it as a browser does."""

import re
from types import SimpleNamespace

import pytest
from browser import unpacked
from lxml import html
from run_reports import BEGAN, DAY, case, metric, reference, report

from plumbline.identity import CaseId, Quantity
from postprocess.views import history

BYTES = {'message_bytes': ('size', 'B')}


def tree_of(work, *arguments):
    """The page of the latest session."""
    result = work.run('report', *arguments)
    assert result.exit_code in (0, 1), result.output
    return html.fromstring((work.results / 'report.html').read_text(encoding='utf-8'))


def text_of(element):
    return ' '.join(element.text_content().split())


@pytest.fixture
def page(work):
    work.reference(reference(), reference(params='size=lost'))
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
    said, verdict = result.stdout.splitlines()
    assert (result.exit_code, said) == (1, str(path)) and verdict.startswith('FAILED: 6 incidents open')
    return path.read_text(encoding='utf-8')


def cells(page, table):
    """The rows of a table, by the names of their columns."""
    return [{cell.get('data-column'): text_of(cell) for cell in row.iter('td')}
            for row in html.fromstring(page).xpath(f'//table[@id="{table}"]/tbody/tr')]  # fmt: skip


def card_of(tree, word):
    """The one card that has this word."""
    (card,) = (card for card in tree.find_class('card') if word in text_of(card))
    return card


def test_the_first_screen_has_a_card_for_each_incident_and_tells_nothing_twice(page):
    tree = html.fromstring(page)
    (banner,) = tree.find_class('banner')
    said, besides = text_of(banner).split('; besides ')
    assert said == 'FAILED: 6 incidents open, 6 new cluster: a & b <i>'
    assert besides == '9 cases expected, 3 ran, HPCC, STREAM and 1 other incident'
    (counts,) = tree.find_class('counts')
    assert [text_of(item) for item in counts] == ['5 metrics:', '1regressed', '1missing', '2failed', '1no reference']
    assert len(tree.find_class('card')) == 6 and not tree.find_class('folded')
    slow = card_of(tree, '36.3 % less')
    for words in ('open', 'n1', 'STREAM size=big triad', 'new in this session', 'expected 100 ± 1 GB/s'):
        assert words in text_of(slow)
    assert 'FAILED, 6 incidents open' in tree.findtext('.//title')
    assert text_of(slow.find_class('next')[-1]).startswith('plumbline incidents acknowledge')
    assert [a.get('href') for a in slow.iter('a')] == [f'#{slow.get("id")}', '#m0']
    for words in ('9 cases expected, 3 ran', 'no case of this quick session measured it'):
        assert card_of(tree, words) is not None
    (rest,) = tree.find_class('first')
    assert 'Problems of the session' not in text_of(rest)
    for words in ('1 gated', '1 vanished', 'Later size=big on cpu: not run: ReFrame skipped it'):
        assert words in text_of(rest)


def test_an_acknowledged_incident_is_folded_with_what_people_noted(work):
    work.reference(reference())
    work.ingest(report(case(metrics={'triad': metric([80.0] * 3)}), mode='quick'))
    (card,) = tree_of(work).find_class('card')
    until = ('--until', '2099-01-01')
    assert work.run('incidents acknowledge', card.get('id')[1:], '--why', 'ordered', *until).exit_code == 0
    (folded,) = tree_of(work).find_class('folded')
    assert not folded.get('open') and '1 acknowledged' in text_of(folded) and 'ordered' in text_of(folded)


def test_an_interval_is_shown_with_the_estimate_that_it_is_of(work):
    """The first job raised a doubt, and eight further ones, which decide, are better than it and the reference."""
    work.reference(reference(mean=100.0, std=1.0, n=10))
    jobs = [case(metrics={'triad': metric([value, value])}) for value in (94.0, *[101.0] * 8)]
    content = report(jobs[-1], earlier_runs=[[job] for job in jobs[:-1]], mode='quick')
    work.ingest(content)
    tree_of(work)
    (row,) = cells((work.results / 'report.html').read_text(), 'verdicts')
    loss, low, high = map(float, re.findall(r'[-+.\d]+', row['loss'].replace('95 %', ''))[:3])
    assert low <= loss <= high and loss == pytest.approx(-1, abs=0.2), 'of the further jobs'
    assert row['deviation'] == '+0.2 %', 'the mean of all nine'


def test_the_page_counts_the_same_metrics_as_the_terminal_and_the_same_busy_cases(work):
    busy, hot = {'load_beside': '1.9'}, {'load_beside': '0.1', 'clock_throttled': '7'}
    entries = [
        case(f'Check{i}', '-', {'rate': metric([1.0]), 'more': metric([1.0]) | {'judged': False}}, provenance=facts)
        for i, facts in enumerate((busy, busy, hot))
    ]
    work.ingest(report(*entries, mode='quick'))
    tree = tree_of(work)
    assert [text_of(item) for item in tree.find_class('counts')[0]] == [
        '6 metrics:', '3no reference', '3 informational: shown, not judged'
    ]  # fmt: skip
    said = ' '.join(work.run('compare', '--summary').stdout.split())
    assert said.endswith('; 3 no reference, 3 informational (not judged)')
    for text in (said, text_of(tree), ' '.join(work.run('status').stdout.split())):
        assert set(re.findall(r'(\d+) cases? ran on busy nodes', text)) == {'3'}


@pytest.mark.parametrize(
    ('value', 'load', 'rows', 'said'),
    [
        (100.0, '0.00', 1, 'OK: 1 metric judged, none fell short'),
        (100.0, '3.20', 1, 'NEEDS A LOOK: 1 case ran on busy nodes'),
        (100.0, '0.00', 0, 'NEEDS A LOOK: nothing was judged'),
        (50.0, '3.20', 1, 'FAILED: 1 incident open, 1 new'),
    ],
)
def test_the_banner_has_three_states(work, value, load, rows, said):
    work.reference(*[reference()] * rows)
    work.ingest(report(case(metrics={'triad': metric([value] * 3)}, provenance={'load_beside': load}), mode='quick'))
    (banner,) = tree_of(work).find_class('banner')
    assert text_of(banner) == said


NASTY = '"><img src=x onerror=alert(1)>'


def test_no_name_and_no_fact_is_ever_markup(work):
    name = NASTY.replace(' ', '').replace('=', '')
    names = [f'{name} pair={i}-{j}' for i in (0, 1) for j in (0, 1)] + [f'{name} size={2**i}' for i in range(5)]
    metrics = {text: metric([1.0], unit=NASTY, node=NASTY) for text in [*names, f'{name} {name}={name}']}
    metrics |= {f'x device={i}': metric([60.0 if i == 3 else 100.0], node=NASTY) for i in range(4)}  # stands out
    dims = {'pair': ('pair', ''), 'size': ('size', NASTY), name: ('name', ''), 'device': ('name', '')}
    facts = {NASTY: NASTY, 'kernel': NASTY}
    entries = [
        case(NASTY, f'link_class={name}{i}', metrics, NASTY, NASTY, nodes=(NASTY,), provenance=facts, dims=dims)
        for i in range(2)
    ]
    work.ingest(report(*entries, cmdline=f'reframe -r {NASTY}'), problem=NASTY)
    tree = tree_of(work)
    assert tree.find_class('heat') and tree.find_class('curve')
    assert not list(tree.iter('img'))
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith('on')]
    assert tree.text_content().count(NASTY) > 50 and tree.text_content().count(name) > 50


def test_every_number_leads_to_its_samples_its_job_and_its_provenance(page):
    tree = html.fromstring(page)
    links = (a for a in tree.get_element_by_id('verdicts').iter('a') if a.text == 'triad')
    link, _ = links  # the other one is missing
    data = unpacked(tree)
    details = data['metrics'][link.get('href')[2:]]
    ((verdict, job, samples),) = details['jobs']
    assert (verdict, samples) == ('regressed', {'n1': '50 51 90'})
    assert 'baseline, session x' in details['facts']['Expected']
    assert data['cases'][str(job)]['job'] == '7'
    facts = data['cases'][str(job)]['facts']
    assert (facts['kernel'], facts['Nodes']) == ('6.1', 'n1')


def test_every_link_leads_somewhere(work):
    metrics = {f'latency message_bytes={2**i}': metric([1.0 + i]) | {'judged': False} for i in range(8)}
    metrics |= {'rate': metric([5.0])}
    work.ingest(report(*(case('Osu', f'pair={pair}', metrics, dims=BYTES) for pair in ('near', 'far'))))
    tree = tree_of(work)
    ids, data = {element.get('id') for element in tree.iter()}, unpacked(tree)
    ids |= {f'{kind}{id}' for kind, of in (('m', 'metrics'), ('c', 'cases'), ('n=', 'nodes')) for id in data[of]}
    links = {a.get('href') for a in tree.iter('a')}
    assert {link[1:].split('?')[0] for link in links if link.startswith('#')} - {''} <= ids
    paths = [link for link in links if not link.startswith('#')]
    assert paths and all(not link.startswith('/') and (work.results / link).exists() for link in paths)
    # what nobody judges has its samples, too
    numbers = next(details for details in tree.iter('details') if text_of(details).startswith('Numbers'))
    details = data['metrics'][next(numbers.iter('a')).get('href')[2:]]
    assert details['name'].endswith('latency message_bytes=1') and details['jobs'][0][2] == {'n1': '1'}


def nights(work, values, **changed):
    """Sessions of a metric, a night each; `changed`: provenance from the night of its number on."""
    for night, value in enumerate(values):
        facts = {name: 'new' if night >= at else 'old' for name, at in changed.items()}
        entry = case(metrics={'triad': metric([value] * 3)}, provenance=facts)
        work.ingest(report(entry, uuid=f'{night:08x}', began=BEGAN + night * DAY))


def test_a_step_in_the_history_is_annotated_with_what_changed(work):
    nights(work, [100 + night % 3 / 5 for night in range(12)] + [90 + night % 3 / 5 for night in range(8)], driver=12)
    tree = tree_of(work)
    (row,) = cells((work.results / 'report.html').read_text(), 'changes')
    assert row == {
        'kind': 'step', 'since': '2026-12-03', 'partition': 'cpu/system', 'check': 'STREAM', 'params': 'size=big',
        'metric': 'triad', 'was': '100.2', 'became': '90.2 GB/s', 'change': '-10.0 %', 'sessions': '8',
        'with_it': 'driver: old -> new',
    }  # fmt: skip
    assert tree.xpath('//figure/@data-history') == ['0']
    assert unpacked(tree)['metrics']['0']['changes'] == [[12, '-10.0 % 3 Dec, driver: old -> new']]


def test_a_number_leads_to_what_the_benchmark_wrote(work):
    entry = case(metrics={'rate': metric([5.0])}, dims={'unused': ('name', '')})
    entry['record']['evidence'] = 'evidence/cluster/2026-11/a b.tar.gz'
    work.ingest(report(entry))
    tree = tree_of(work)
    (details,) = unpacked(tree)['cases'].values()
    assert details['output'] == 'evidence/cluster/2026-11/a%20b.tar.gz'
    page = work.results / 'pages/x.html'
    page.parent.mkdir()
    work.reference(reference(check=entry['record']['check'], metric='rate', mean=10, dims='-'))
    work.run('report', '--output', page)
    tree = html.fromstring(page.read_text())
    (details,) = unpacked(tree)['cases'].values()
    links = [a.get('href') for a in tree.get_element_by_id('incidents').iter('a')]
    assert details['output'] == '../evidence/cluster/2026-11/a%20b.tar.gz' and details['output'] in links
    assert str(work.results / 'evidence') not in page.read_text()


def test_the_page_links_to_its_run_report_as_long_as_that_is_there(work):
    path = work.write(report(case(metrics={'rate': metric([5.0])})))
    assert work.run('ingest', path).exit_code == 0
    for links in (1, 0):
        provenance = tree_of(work).get_element_by_id('provenance').getparent()
        assert path.name in text_of(provenance)
        assert len([a for a in provenance.iter('a') if a.get('href').endswith(path.name)]) == links
        path.unlink(missing_ok=True)


def test_the_usual_range_is_of_what_was_measured(work):
    for night in range(6):
        failed = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'wrong'} if night == 2 else {}
        metrics = {f'rate message_bytes={2**i}': metric([1000.0 if failed else 10.0 + night / 10]) for i in range(4)}
        entry = case(metrics=metrics, dims=BYTES, **failed)
        work.ingest(report(entry, uuid=f'{night:08x}', began=BEGAN + night * DAY))
    (band,) = tree_of(work).find_class('band')
    heights = {float(y) for y in re.findall(r'\d+ (\d+)', band.get('d'))}
    assert max(heights) - min(heights) < 30, 'the failed session would have made it as high as the plot'


STREAM = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))


def test_changes_of_one_session_and_direction_are_one_and_drifts_one_of_a_case():
    triad, copy = STREAM.series('triad', ()), STREAM.series('copy', ())
    sessions = [SimpleNamespace(session=f's{i}', day=f'2026-11-0{i + 1}') for i in range(4)]
    changes = [
        SimpleNamespace(
            kind=kind, since=sessions[at], with_it=(), series=of, change=change, quantity=Quantity('GB/s', 'higher'),
            before=sessions[at - 1], session=sessions[at], was=100.0, became=100.0 + change, sessions=2,
        )
        for kind, at, of, change in (
            ('step', 1, triad, -1.0), ('step', 1, copy, -2.0), ('step', 1, triad, 1.0), ('step', 2, triad, -1.0),
            ('drift', 1, triad, -1.0), ('drift', 3, copy, -1.0),
        )
    ]  # fmt: skip
    digest = SimpleNamespace(sessions=sessions, trend=SimpleNamespace(changes=changes), new=[changes[3]])
    found = history.alike(digest, {(triad, Quantity('GB/s', 'higher')): 4})
    assert [(row['id'], row['metric'], row['kind'], row['change']) for row in found] == [
        (4, 'triad and 1 other metric', 'step', -1.0), (4, 'triad', 'step', 1.0), (4, 'triad', 'step, new', -1.0),
        (4, 'triad and 1 other metric', 'drift', -1.0),
    ]  # fmt: skip

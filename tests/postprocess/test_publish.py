# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline publish`: what it writes, and that it writes no more; the site in a real browser, from files and HTTP."""

import functools
import http.server
import json
import shutil
import threading
import time
from urllib.parse import quote

import duckdb
import pytest
from browser import ALL
from lxml import html
from run_reports import BEGAN, DAY, SITE, Workplace, case, metric, reference, report

from postprocess.demo import plant
from postprocess.report import publish as module
from postprocess.report import site_data

NIGHTS = 34
TITLE = "document.querySelector('dialog[open] h2')?.textContent"


def night(work, ago, value=100.0, **options):
    """A session so many days before the last one of the tests."""
    work.ingest(
        report(case(metrics={'triad': metric([value])}), uuid=f'{900 - ago:08x}', began=BEGAN - ago * DAY), **options
    )


def published(work, *words):
    folder = work.results.parent / 'site'
    answer = work.run('publish', folder, *words)
    assert answer.exit_code == 0, answer.output
    return folder, {path.relative_to(folder): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def content(folder, name='site'):
    return site_data.read(folder / SITE, name)


@pytest.mark.parametrize('page', ['index.html', f'{SITE}/index.html'])
@pytest.mark.parametrize('text', ['', '<html><title>Plumbline</title></html>'])
def test_a_page_of_others_stays_and_nothing_is_written(page, text, work):
    night(work, 0)
    path = work.results.parent / 'site' / page
    path.parent.mkdir(parents=True)
    path.write_text(text)
    answer = work.run('publish', work.results.parent / 'site')
    assert answer.exit_code == 2 and f'{path}: is not a page of `plumbline publish`' in answer.stderr
    assert [one.read_text() for one in (work.results.parent / 'site').rglob('*') if one.is_file()] == [text]


def test_a_night_adds_its_session_and_rewrites_no_other(work):
    work.reference(reference())
    for ago in (40, 30, 2, 1):
        night(work, ago)
    folder, before = published(work)
    night(work, 0, 70.0)
    _, after = published(work)
    changed = {str(path) for path in after if after[path] != before.get(path)}
    page = f'{SITE}/sessions/{900:08x}.html'
    of_site = {
        f'{SITE}/{name}'
        for name in ('index.html', 'latest.json', 'latest.svg', 'data/site.js', 'data/nodes.js', 'data/2026-11.js')
    }
    assert changed == {'index.html', page, *of_site} and before.keys() <= after.keys()
    assert [one['word'] for one in content(folder)['sessions'].values()] == ['OK'] * 4 + ['FAILED']
    state = json.loads((folder / SITE / 'latest.json').read_text())
    assert (state['word'], state['session'], state['sessions']) == ('FAILED', f'{900:08x}', 5) and state['incidents']
    assert 'cluster: failed 2026-11-21' in (folder / SITE / 'latest.svg').read_text()
    assert content(folder, '2026-11')['rows'][f'{900:08x}']['values'] == [70]
    links = html.fromstring((folder / page).read_text()).xpath('//a/@href')
    assert f'../index.html#session={900:08x}' in links and all(link[0] in '#.' for link in links)


def test_published_again_an_incident_is_as_it_is_now_and_one_that_is_gone_keeps_its_address(work):
    work.reference(reference())
    night(work, 0, 70.0)
    folder, _ = published(work)
    ((id, one),) = content(folder)['incidents'].items()
    assert one['state'] == 'open' and one['sessions'] == [f'{900:08x}'] and one['size'] == '30.0 % less'
    assert work.run('incidents acknowledge', id, '--why', 'a test', '--until', '2099-01-01').exit_code == 0
    published(work)
    assert content(folder)['incidents'][id]['state'] == 'acknowledged'
    work.reference(reference(mean=70))
    published(work)
    assert content(folder)['incidents'][id]['state'] == 'closed'


def test_sessions_that_the_store_lost_stay_and_what_ran_again_is_renewed(work):
    night(work, 1)
    folder, _ = published(work)
    for path in work.results.glob('store/*/*/*/*.parquet'):
        path.unlink()
    night(work, 0)
    again = [case(metrics={'triad': metric([103.0])})]
    published(work)
    one = report(*again, uuid=f'{900:08x}', began=BEGAN, earlier_runs=[again])
    assert work.run('ingest', work.write(one)).exit_code == 0
    published(work)
    assert list(content(folder)['sessions']) == [f'{899:08x}', f'{900:08x}']
    assert content(folder, '2026-11')['rows'][f'{900:08x}']['values'] == [103]


def test_sites_that_are_published_at_the_same_time_are_both_listed(work, monkeypatch):
    night(work, 0)
    written = []

    def write(path, text):
        if path.name == 'index.html' and not written:
            written.append(path)
            state = json.loads((path.parent / SITE / 'latest.json').read_text())
            (path.parent / 'other/data').mkdir(parents=True)
            (path.parent / 'other/data/site.js').touch()
            (path.parent / 'begun/data').mkdir(parents=True)
            (path.parent / 'begun/data/site.js').touch()
            (path.parent / 'other/latest.json').write_text(json.dumps(state | {'site': 'other'}))
        return path.parent.mkdir(parents=True, exist_ok=True) or path.write_text(text)

    monkeypatch.setattr(module, 'write_text', write)
    folder, _ = published(work)
    assert html.fromstring((folder / 'index.html').read_text()).xpath('//article//h2//text()') == [SITE, 'other']


@pytest.mark.parametrize(('text', 'says'), [('nonsense', 'not a file of'), ('plumbline({"schema":99})\n', 'schema 99')])
def test_a_folder_that_cannot_be_read_is_left_as_it_is(work, text, says):
    night(work, 0)
    folder, _ = published(work)
    data = folder / SITE / 'data/site.js'
    data.write_text(text)
    answer = work.run('publish', folder)
    assert answer.exit_code == 2 and str(data) in answer.stderr and says in answer.stderr and 'remove' in answer.stderr
    assert data.read_text() == text


def test_times_do_not_depend_on_the_time_zone_of_the_machine(work, monkeypatch):
    night(work, 0)
    monkeypatch.setenv('TZ', 'America/New_York')
    time.tzset()
    try:
        folder, _ = published(work)
    finally:
        monkeypatch.delenv('TZ')
        time.tzset()
    (one,) = content(folder)['sessions'].values()
    assert one['at'] == int(BEGAN)


# Nodes: what is kept of each, by hand and by a query of the test

NODES = ['n1', 'n2', 'n3', 'n4', 'n5']
# Percent from the median of the nodes, half of the series and the furthest behind, written anew over the Parquet files
LEVELS = """
    WITH own AS (
        SELECT session, nodes[1] AS node, metric, better, mean FROM '{0}/store/metrics/*/*/*.parquet'
        JOIN '{0}/store/cases/*/*/*.parquet' USING (session, case_id)
    ), middle AS (SELECT session, metric, quantile_cont(mean, 0.5) AS level FROM own GROUP BY ALL)
    SELECT node, session, avg(change), min(change) FROM (
        SELECT node, session, if(better = 'higher', 1, -1) * 100 * (mean - level) / level AS change
        FROM own JOIN middle USING (session, metric)
    ) GROUP BY ALL
"""


def night_of_nodes(work, place, slow=None, factor=1.0, hot='', nodes=NODES):
    """Ingest the session of a night, in which `slow` has `factor` of the rate and of the speed."""
    cases = []
    for i, node in enumerate(nodes):
        own = (1 + 0.001 * i + 0.0005 * (place % 3)) * (factor if node == slow else 1)
        metrics = {'triad': metric([100 * own], node=node), 'time': metric([10 / own], 'us', 'lower', node=node)}
        facts = {'clock_throttled': '412' if node == hot else '0'}
        cases.append(case(metrics=metrics, nodes=[node], provenance=facts, unique_name=f'STREAM_{node}'))
    uuid = f'{place:08x}'
    work.ingest(report(*cases, uuid=uuid, began=BEGAN - (40 - place) * DAY))
    return uuid


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """Nine nights, of which n3 was a fifth slower in two and is healthy since, and n2 is in the last one, by heat."""
    work = Workplace(tmp_path_factory.mktemp('made'))
    work.reference(reference(), reference(metric='time', better='lower', mean=10, std=0.1) | {'unit': 'us'})
    (work.sites / SITE / 'locations.csv').write_text('node,switch\n' + ''.join(f'{node},s1\n' for node in NODES))
    for place in range(9):
        slow, factor = ('n3', 0.8) if place in (1, 2) else ('n2', 0.9) if place == 8 else (None, 1.0)
        night_of_nodes(work, place, slow, factor, hot='n2' if place == 8 else '')
        assert work.run('compare').exit_code in (0, 1)
    published(work, '--pages', 0)
    return work


@pytest.fixture
def site(made, tmp_path):
    """These nights as they were published, of one test alone."""
    shutil.copytree(made.results.parent, tmp_path, dirs_exist_ok=True)
    return Workplace(tmp_path)


def place_of(site):
    return site.results.parent / 'site' / SITE


def test_only_nodes_that_an_incident_named_have_a_history_and_it_is_what_was_measured(site):
    place = place_of(site)
    nodes = content(place.parent, 'nodes')['nodes']
    assert {path.name for path in place.glob('data/node-*.js')} == {'node-0.js', 'node-1.js'} and nodes.keys() == set(
        NODES
    )
    assert {name: node['file'] for name, node in nodes.items() if 'file' in node} == {'n2': 0, 'n3': 1}
    ((slow,), (hot,)) = (node['incidents'].values() for node in (nodes['n3'], nodes['n2']))
    assert slow == ['2026-10-13', '2026-10-14', 2] and hot == ['2026-10-20', '2026-10-20', 1]
    assert nodes['n2']['counted'] == 'thermal throttle +412' and 'counted' not in nodes['n1']
    assert all(node['place'] == ['switch s1'] and node['at'] == int(BEGAN) - 32 * DAY for node in nodes.values())
    found = duckdb.sql(LEVELS.format(site.results)).fetchall()
    expected = {(node, session): levels for node, session, *levels in found}
    series = content(place.parent, 'site')['series']
    for name in ('n2', 'n3'):
        rows = content(place.parent, f'node-{nodes[name]["file"]}')['rows']
        assert len(rows) == 9
        for session, (typical, furthest, worst, counted) in rows.items():
            assert [typical, furthest] == pytest.approx(expected[name, session], abs=0.001, rel=0.001)
            assert series[worst][4] in ('triad', 'time')
            assert bool(counted) is (name == 'n2' and session == f'{8:08x}')
    assert nodes['n1']['typical'] == pytest.approx(expected['n1', f'{8:08x}'][0], abs=0.001)


def test_a_node_that_is_named_for_the_first_time_gets_the_sessions_before_and_a_number_of_its_own(site):
    place = place_of(site)
    night_of_nodes(site, 9, 'n5', 0.7)
    before = (place / 'data/node-1.js').read_text()
    published(site, '--pages', 0)
    nodes = content(place.parent, 'nodes')['nodes']
    assert (nodes['n2']['file'], nodes['n3']['file'], nodes['n5']['file']) == (0, 1, 2)
    assert content(place.parent, 'node-2')['rows'].keys() == {f'{i:08x}' for i in range(10)}
    assert content(place.parent, 'node-2')['rows'][f'{9:08x}'][1] == pytest.approx(-42.9, abs=1)  # of the time: 1 / 0.7
    assert (place / 'data/node-1.js').read_text().startswith(before.removesuffix('}})\n'))


def test_a_session_of_before_is_not_the_last_one_of_a_node_and_one_that_is_gone_stays(site):
    place = place_of(site)
    night_of_nodes(site, 9, nodes=NODES[1:])
    published(site, '--pages', 0)
    late = BEGAN - 50 * DAY
    cases = [case(metrics={'triad': metric([50.0])}, nodes=[node], unique_name=node) for node in NODES]
    site.ingest(report(*cases, uuid='late', began=late))
    published(site, '--pages', 0)
    nodes = content(place.parent, 'nodes')['nodes']
    assert [nodes[name]['at'] for name in ('n1', 'n2')] == [int(BEGAN) - 32 * DAY, int(BEGAN) - 31 * DAY]
    assert 'late' in content(place.parent, 'node-0')['rows']


# In a browser


@pytest.fixture(scope='module')
def year(tmp_path_factory):
    """The published site of 34 nights of 8 cases, one of which is 10 % slower since a new kernel four nights ago."""

    def cases(ago):
        for k in range(8):
            factor = 0.9 if k == 3 and ago < 4 else 1
            rates = {f'rate_{j}': (100 + 7 * k + j, factor) for j in range(4)}
            yield f'App{k // 4}', f'input={k % 4}', [f'n{k}'], 'GB/s', rates

    nights = tmp_path_factory.mktemp('nights')
    plant(nights, NIGHTS, cases, kernel=4)
    work = Workplace(nights)
    folder = tmp_path_factory.mktemp('published')
    answer = work.run('publish', folder, '--pages', 2)
    assert answer.exit_code == 0 and '2026-10: 13 sessions' in answer.output
    return folder


@pytest.fixture(params=['file', 'http'])
def address(request, year):
    """Where the site is: as files, and on a web server."""
    if request.param == 'file':
        yield year.as_uri()
        return

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=year)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


@pytest.fixture
def browser(chromium):
    chromium.emulate()
    yield chromium
    assert chromium.errors == []


def test_from_the_list_of_sites_to_a_cause_its_metric_and_its_session(browser, address):
    browser.open(f'{address}/index.html')
    assert browser.run(ALL('article h2') + '.map(one => one.textContent)') == [SITE]
    assert browser.run(ALL('.day') + '.length') == 30
    assert browser.run("document.querySelector('time').textContent").endswith(' ago')
    browser.open(f'{address}/{SITE}/index.html')
    cards = browser.run(ALL('#cards .card') + '.map(card => card.innerText)')
    assert len(cards) == 1 and 'App0 input=3' in cards[0] and '4 sessions since 2026-11-18' in cards[0]
    assert browser.run(ALL('#months .day, .folded .day') + '.length') == NIGHTS
    browser.run(f'{ALL("#cards .card a")}[0].focus()')
    browser.press('Enter')
    browser.until(f"{TITLE} && location.hash.startsWith('#incident=')")
    browser.run(f"{ALL('dialog a')}.find(a => a.textContent.includes('rate_1')).click()")
    browser.until(f"{TITLE} === 'App0 input=3 rate_1' && document.querySelector('dialog .u-legend')")
    assert browser.run('location.hash') == f'#metric={quote("cpu/system/App0/input=3/rate_1/-", safe="")}'
    browser.press('Escape')
    browser.until(f'!{TITLE} && document.activeElement === {ALL("#cards .card a")}[0]')
    browser.run(f'{ALL("#months .day")}.at(-1).click()')
    browser.until(f"{TITLE}?.startsWith('Session of 2026')")
    assert all(url.startswith((address, 'data:')) for url in browser.asked), browser.asked


def test_any_two_sessions_are_compared_and_their_address_says_which(browser, year):
    first, last = f'{1:08x}', f'{NIGHTS:08x}'
    browser.open(year / SITE / 'index.html')
    browser.run(f"document.forms[0].before.value = '{first}'; document.forms[0].after.value = '{last}'")
    browser.run("document.forms[0].querySelector('button').click()")
    browser.until(f"location.hash === '#compare={first}..{last}' && !document.querySelector('#changes').hidden")
    rows = browser.run(f'{ALL("#changes tbody tr")}.map(row => [...row.cells].map(cell => cell.textContent))')
    found = {row[0]: float(row[5].split()[0]) for row in rows}
    slowed = {f'App0 input=3 rate_{j}' for j in range(4)}
    assert slowed <= found.keys() and all(found[name] == pytest.approx(-10, abs=1.5) for name in slowed)
    said = browser.run("document.querySelector('#changes caption').textContent")
    assert 'kernel: 6.1.0-28 \N{RIGHTWARDS ARROW} 6.1.0-37' in said and f'plumbline compare {first} {last}' in said
    every = browser.run("document.querySelector('#metrics ~ .filters output').textContent").split()[0]
    browser.run("document.forms[0].querySelector('[type=button]').click()")
    assert browser.run(f'{ALL("#changes tbody tr")}.length') == int(every)
    browser.open(year / SITE / 'index.html', '#compare=nosuch..latest')
    assert browser.run("document.querySelector('#fault').textContent") == 'This site has no compare nosuch..latest'


@pytest.mark.parametrize(
    ('page', 'state'),
    [
        ('index.html', ''),
        (f'{SITE}/index.html', f'#compare={1:08x}..{NIGHTS:08x}'),
        (f'{SITE}/index.html', f'#session={NIGHTS:08x}'),
        (f'{SITE}/index.html', '#node=n3'),
    ],
)
def test_axe_finds_nothing_and_nothing_is_cut_on_a_telephone(browser, year, page, state):
    axe = pytest.importorskip('axe_core_python.base', reason='axe-core-python is not installed')
    browser.emulate(scheme='dark' if 'session' in state else 'light')
    browser.open(year / page, state, width=400, height=800)
    browser.run(f'{ALL("details")}.forEach(details => {{ details.open = true; }})')
    cut = f'{ALL("body *")}.filter(e => e.getBoundingClientRect().right > 401).map(e => e.outerHTML.slice(0, 200))'
    assert browser.run(cut) == []
    assert browser.violations(axe.AXE_SCRIPT) == []
    small = f'{ALL("td a")}.filter(link => link.checkVisibility() && link.getBoundingClientRect().height < 24)'
    assert browser.run(f'{small}.map(link => link.outerHTML)') == []


def test_has_this_node_been_slow_before(browser, site):
    place = place_of(site)
    browser.open(place / 'index.html')
    marks = browser.run(f'{ALL("#map a")}.map(node => [node.title.split(" ")[0], node.className])')
    assert marks == [['n1', ''], ['n2', 'found'], ['n3', 'before'], ['n4', ''], ['n5', '']]
    assert 'never stood out' in browser.run("document.querySelector('#map a').title")
    rows = browser.run(f'{ALL("#fleet tbody tr")}.map(row => row.cells[0].textContent)')
    assert rows[:2] == ['n2', 'n3'] and set(rows) == set(NODES)
    browser.run(f"{ALL('#fleet a')}.find(a => a.textContent === 'n3').focus()")
    browser.press('Enter')
    browser.until(f"{TITLE} === 'n3' && document.querySelector('dialog canvas')")
    assert browser.run('location.hash') == '#node=n3'
    said = browser.run("document.querySelector('dialog').innerText")
    assert 'Named by 1 incident, none open: first on 2026-10-13, last on 2026-10-14.' in said
    (row,) = browser.run(f'{ALL("dialog .past tbody tr")}.map(row => [...row.cells].map(cell => cell.textContent))')
    assert row[0] == 'closed' and row[3:] == ['2026-10-13', '2026-10-14', '2026-10-18', '2']
    browser.press('Escape')
    browser.until(f"!{TITLE} && document.activeElement.textContent === 'n3'")
    browser.open(place / 'index.html', '#node=n2')
    browser.until(f"{TITLE} === 'n2' && document.querySelector('dialog li')")
    said = browser.run("document.querySelector('dialog').innerText")
    assert '1 open' in said and 'thermal throttle +412' in said
    name, svg = browser.saved('dialog', 'SVG')
    assert name == 'Node-n2-beside-the-other-nodes.svg' and svg.count(b'stroke-width') > 2
    browser.open(place / 'index.html', '#node=n1')
    assert 'Never stood out' in browser.run("document.querySelector('dialog').innerText")
    browser.open(place / 'index.html', '#node=n9')
    assert browser.run("document.querySelector('#fault').textContent") == 'This site has no node n9'

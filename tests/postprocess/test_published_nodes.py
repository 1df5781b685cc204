# SPDX-License-Identifier: BSD-3-Clause
"""The nodes of a published site: what is kept of each, by hand and by a query of the test, and in a real browser."""

import shutil

import duckdb
import pytest
from browser import ALL
from run_reports import BEGAN, SITE, Workplace, case, metric, reference, report

from postprocess.report.site_data import site_content

DAY = 86400
NODES = ['n1', 'n2', 'n3', 'n4', 'n5']
TITLE = "document.querySelector('dialog[open] h2')?.textContent"
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


def night(work, place, slow=None, factor=1.0, hot='', nodes=NODES):
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


def publish(work):
    folder = work.results.parent / 'site'
    answer = work.run('publish', folder, '--pages', 0)
    assert answer.exit_code == 0, answer.output
    return folder / SITE


def data(place, name):
    return site_content(place / f'data/{name}.js', place)


def files(place):
    return {path.name for path in place.glob('data/node-*.js')}


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """Nine nights, of which n3 was a fifth slower in two and is healthy since, and n2 is in the last one, by heat."""
    work = Workplace(tmp_path_factory.mktemp('made'))
    work.reference(reference(), reference(metric='time', better='lower', mean=10, std=0.1) | {'unit': 'us'})
    (work.sites / SITE / 'locations.csv').write_text('node,switch\n' + ''.join(f'{node},s1\n' for node in NODES))
    for place in range(9):
        slow, factor = ('n3', 0.8) if place in (1, 2) else ('n2', 0.9) if place == 8 else (None, 1.0)
        night(work, place, slow, factor, hot='n2' if place == 8 else '')
        assert work.run('compare').exit_code in (0, 1)
    publish(work)
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
    nodes = data(place, 'nodes')['nodes']
    assert files(place) == {'node-0.js', 'node-1.js'} and nodes.keys() == set(NODES)
    assert {name: node['file'] for name, node in nodes.items() if 'file' in node} == {'n2': 0, 'n3': 1}
    ((slow,), (hot,)) = (node['incidents'].values() for node in (nodes['n3'], nodes['n2']))
    assert slow == ['2026-10-13', '2026-10-14', 2] and hot == ['2026-10-20', '2026-10-20', 1]
    assert nodes['n2']['counted'] == 'thermal throttle +412' and 'counted' not in nodes['n1']
    assert all(node['place'] == ['switch s1'] and node['at'] == int(BEGAN) - 32 * DAY for node in nodes.values())
    found = duckdb.sql(LEVELS.format(site.results)).fetchall()
    expected = {(node, session): levels for node, session, *levels in found}
    series = data(place, 'site')['series']
    for name in ('n2', 'n3'):
        rows = data(place, f'node-{nodes[name]["file"]}')['rows']
        assert len(rows) == 9
        for session, (typical, furthest, worst, counted) in rows.items():
            assert [typical, furthest] == pytest.approx(expected[name, session], abs=0.001, rel=0.001)
            assert series[worst][4] in ('triad', 'time')
            assert bool(counted) is (name == 'n2' and session == f'{8:08x}')
    assert nodes['n1']['typical'] == pytest.approx(expected['n1', f'{8:08x}'][0], abs=0.001)


def test_a_node_that_is_named_for_the_first_time_gets_the_sessions_before_and_a_number_of_its_own(site):
    place = place_of(site)
    night(site, 9, 'n5', 0.7)
    before = (place / 'data/node-1.js').read_text()
    publish(site)
    nodes = data(place, 'nodes')['nodes']
    assert (nodes['n2']['file'], nodes['n3']['file'], nodes['n5']['file']) == (0, 1, 2)
    assert data(place, 'node-2')['rows'].keys() == {f'{i:08x}' for i in range(10)}
    assert data(place, 'node-2')['rows'][f'{9:08x}'][1] == pytest.approx(-42.9, abs=1)  # of the time: 1 / 0.7
    assert (place / 'data/node-1.js').read_text().startswith(before.removesuffix('}})\n'))


def test_a_session_of_before_is_not_the_last_one_of_a_node_and_one_that_is_gone_stays(site):
    place = place_of(site)
    night(site, 9, nodes=NODES[1:])
    publish(site)
    late = BEGAN - 50 * DAY
    cases = [case(metrics={'triad': metric([50.0])}, nodes=[node], unique_name=node) for node in NODES]
    site.ingest(report(*cases, uuid='late', began=late))
    publish(site)
    nodes = data(place, 'nodes')['nodes']
    assert [nodes[name]['at'] for name in ('n1', 'n2')] == [int(BEGAN) - 32 * DAY, int(BEGAN) - 31 * DAY]
    assert 'late' in data(place, 'node-0')['rows']


def test_published_by_an_earlier_version_the_nodes_are_added(site):
    place = place_of(site)
    whole = {name: (place / f'data/{name}.js').read_text() for name in ('nodes', 'node-0', 'node-1')}
    for name in whole:
        (place / f'data/{name}.js').unlink()
    publish(site)
    assert {name: (place / f'data/{name}.js').read_text() for name in whole} == whole


# In a browser


@pytest.fixture
def browser(chromium):
    chromium.emulate()
    yield chromium
    assert chromium.errors == []


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


def test_the_page_of_a_node_is_printed_alone_and_that_of_a_session_leads_to_it(browser, site):
    place = place_of(site)
    browser.open(place / f'sessions/{8:08x}.html', '#n=n2')
    link = browser.run(f"{ALL('dialog a')}.find(a => a.textContent === 'This node in all sessions').href")
    assert link == f'{(place / "index.html").as_uri()}#node=n2'
    browser.emulate(media='print')
    browser.open(place / 'index.html', '#node=n2', width=717, height=1000)
    browser.until(f"{TITLE} === 'n2'")
    assert browser.run(f'{ALL("main, header, .close")}.filter(one => one.checkVisibility()).length') == 0
    box = browser.run("(({left, right}) => [left, right])(document.querySelector('dialog').getBoundingClientRect())")
    assert box[0] >= 0 and box[1] <= 717

# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline publish`: what it writes, and that it writes no more; the site in a real browser, from files and HTTP."""

import functools
import http.server
import json
import threading
import time
from urllib.parse import quote

import pytest
from browser import ALL
from lxml import html
from run_reports import BEGAN, DAY, SITE, Workplace, case, metric, reference, report

from postprocess.demo import plant
from postprocess.extras.publish import data, pages
from postprocess.history import verdicts
from postprocess.report import page

NIGHTS = 34
TITLE = "document.querySelector('dialog[open] h2')?.textContent"


def night(work, ago, triad=100.0, **others):
    """A session so many days before the last one of the tests."""
    metrics = {name: metric([value]) for name, value in {'triad': triad, **others}.items()}
    work.ingest(report(case(metrics=metrics), uuid=f'{900 - ago:08x}', began=BEGAN - ago * DAY))


def published(work, *words):
    folder = work.results.parent / 'site'
    answer = work.run('publish', folder, *words)
    assert answer.exit_code == 0, answer.output
    return folder, {path.relative_to(folder): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def content(folder, name='site'):
    return data.read(folder / SITE, name)


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
    night(work, 0, 70.0, copy=50.0)
    _, after = published(work)
    changed = {str(path) for path in after if after[path] != before.get(path)}
    page = f'{SITE}/sessions/{900:08x}.html'
    of_site = {
        f'{SITE}/{name}' for name in ('index.html', 'latest.json', 'latest.svg', 'data/site.js', 'data/2026-11.js')
    }
    assert changed == {'index.html', page, *of_site} and before.keys() <= after.keys()
    assert [one['word'] for one in content(folder)['sessions'].values()] == ['OK'] * 4 + ['FAILED']
    state = json.loads((folder / SITE / 'latest.json').read_text())
    assert (state['word'], state['session'], state['sessions']) == ('FAILED', f'{900:08x}', 5) and state['incidents']
    assert 'cluster: failed 2026-11-21' in (folder / SITE / 'latest.svg').read_text()
    assert content(folder, '2026-11')['rows'][f'{900:08x}']['values'] == [70, 50]
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


def test_an_incident_that_was_merged_says_so_and_leads_to_the_whole(work):
    nodes = [f'n{i}' for i in range(8)]
    work.reference(reference(metric='triad'))
    cases = [
        case(metrics={'triad': metric([{'n3': 80.0, 'n6': 70.0}.get(node, 100.0)])}, nodes=[node], unique_name=node)
        for node in nodes
    ]
    work.ingest(report(*cases, uuid=f'{900:08x}', began=BEGAN))
    folder, _ = published(work)
    first, second = content(folder)['incidents']
    assert work.run('incidents merge', first, second, '--why', 'one DIMM').exit_code == 0
    published(work)
    found = content(folder)['incidents']
    assert any('one DIMM' in said for said in found[first]['corrected'])
    assert (found[second]['state'], found[second]['since']) == ('closed', f'is part of {first}')


def test_where_the_ledger_cannot_be_read_no_incident_is_published_as_closed(work):
    work.reference(reference())
    night(work, 1, 70.0)
    folder, _ = published(work)
    (id,) = content(folder)['incidents']
    assert work.run('incidents acknowledge', id, '--why', 'a test', '--until', '2099-01-01').exit_code == 0
    published(work)
    night(work, 0)
    notes = work.results / f'incidents/{SITE}.jsonl'
    notes.write_text('no note\n' + notes.read_text())
    answer = work.run('publish', folder)
    assert answer.exit_code == 2 and str(notes) in answer.stderr, answer.output
    assert [one['state'] for one in content(folder)['incidents'].values()] == ['acknowledged']
    notes.write_text(notes.read_text().removeprefix('no note\n'))
    published(work)
    (one,) = content(folder)['incidents'].values()
    assert (one['state'], one['sessions']) == ('healing', [f'{899:08x}']), 'without the one that shows it healthy'


def test_what_was_judged_is_read_and_a_page_has_no_output_of_programs(work, monkeypatch):
    work.reference(reference())
    night(work, 0, 70.0)
    assert work.run('compare').exit_code == 1

    def never(*_, **__):
        raise AssertionError('judged again, or an archive was read')

    monkeypatch.setattr(verdicts, 'judge_session', never)
    monkeypatch.setattr(page, 'printed', never)
    published(work)


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
        if path.parent.name == 'site' and path.name == 'index.html' and not written:
            written.append(path)
            state = json.loads((path.parent / SITE / 'latest.json').read_text())
            (path.parent / 'other/data').mkdir(parents=True)
            (path.parent / 'other/data/site.js').touch()
            (path.parent / 'begun/data').mkdir(parents=True)
            (path.parent / 'begun/data/site.js').touch()
            (path.parent / 'other/latest.json').write_text(json.dumps(state | {'site': 'other'}))
        return path.parent.mkdir(parents=True, exist_ok=True) or path.write_text(text)

    monkeypatch.setattr(pages, 'write_text', write)
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

# SPDX-License-Identifier: BSD-3-Clause
"""The page of stores with planted causes in a real browser: what it shows and does, without an error or a request."""

import json
import math
from datetime import date

import pytest
import recomputed
from browser import ALL
from run_reports import Workplace, case, metric, reference, report

from studies import planted

ROWS = ALL('#verdicts tbody tr')
EVERY_ROW = "+document.querySelector('[data-of=metrics] output').textContent.split(' ')[2]"
CELLS = f"{ROWS}.map(row => row.querySelector('[data-column=%s]'))"
NODES = f'{ALL("#fleet tbody [data-column=name]")}.map(cell => cell.textContent)'
TITLE = "document.querySelector('dialog[open] h2')?.textContent"
TYPE = """{
    const box = document.querySelector('[data-of=%s] input');
    box.value = '%s';
    box.dispatchEvent(new Event('input'));
}"""


def made(folder, store, *scale, exit_code=1):
    causes, work = store(folder, *scale), Workplace(folder)
    assert work.run('report').exit_code == exit_code
    return work.results / 'report.html', causes


@pytest.fixture(scope='module')
def year(tmp_path_factory):
    return made(tmp_path_factory.mktemp('year'), planted.year, 0.1)


@pytest.fixture(scope='module')
def page(year):
    return year[0]


@pytest.fixture(scope='module')
def night(tmp_path_factory):
    return made(tmp_path_factory.mktemp('night'), planted.night, 0.1)


@pytest.fixture(scope='module')
def fleet(tmp_path_factory):
    return made(tmp_path_factory.mktemp('fleet'), planted.fleet, 0.05)


@pytest.fixture(scope='module')
def first(tmp_path_factory):
    return made(tmp_path_factory.mktemp('first'), planted.first, exit_code=0)


@pytest.fixture(scope='module')
def thousand(tmp_path_factory):
    return made(tmp_path_factory.mktemp('thousand'), planted.night)[0]


@pytest.mark.parametrize(('store', 'judged', 'nodes'), [
    ('year', 111, 16), ('fleet', 3, 60), ('night', 100, 8), ('first', 0, 8)
])  # fmt: skip
def test_every_number_of_the_page_is_computed_again_and_told_alike(store, judged, nodes, request):
    page, causes = request.getfixturevalue(store)
    incidents = len(causes) if judged else 0
    assert recomputed.check(Workplace(page.parent.parent)) == (judged, incidents, nodes)


@pytest.mark.parametrize('store', ['year', 'fleet', 'night'])
def test_each_planted_cause_is_one_card_on_the_first_screen(browser, store, request):
    page, causes = request.getfixturevalue(store)
    browser.open(page, width=1400, height=900)
    cards = browser.run(
        ALL('.card')
        + """.map(card => ({
            text: card.innerText, where: card.querySelector('h2').textContent, top: card.getBoundingClientRect().top,
            since: card.innerText.match(/since ([0-9-]{10})|new in this session/)[1] ?? '2026-11-21',
            size: parseFloat(card.querySelector('.size').textContent),
        }))"""
    )
    assert len(cards) == len(causes)
    for cause in causes:
        (card,) = (card for card in cards if card['where'].endswith(cause.where))
        assert cause.what in card['text'] and cause.changed in card['text']
        assert ('Changed' in card['text']) is bool(cause.changed)
        assert card['size'] == pytest.approx(-cause.change, abs=0.8)
        assert abs((date.fromisoformat(card['since']) - date.fromisoformat(cause.day)).days) <= 1
        assert card['top'] < 800


def test_a_first_night_says_what_was_measured_beside_the_peaks_and_what_to_do_next(browser, first):
    page, (cause,) = first
    browser.open(page)
    start = browser.run("document.querySelector('.start').innerText")
    assert f'{cause.where} is furthest behind the others: -1' in start and 'plumbline record propose' in start
    shares = browser.run(f'{ALL("#figures tbody [data-column=value]")}.map(cell => parseFloat(cell.textContent))')
    # of 3379.2 GFlop/s and 307.2 GB/s, with the best of eight nodes a little above its mean
    assert shares == pytest.approx([3000 / 3379.2, 240 / 307.2, 250 / 307.2], rel=0.01)
    heads = browser.run(f'{ALL("#verdicts th")}.map(head => head.dataset.column)')
    of_nodes = ['expected', 'limit', 'loss']  # beside the median of the nodes
    assert heads == ['verdict', 'partition', 'check', 'params', 'metric', 'value', 'n', *of_nodes], (
        'nothing else is known'
    )


def test_every_chart_is_drawn_inside_its_box(browser, page):
    browser.open(page)
    drawn, outside = browser.run(
        f"""(() => {{
        const parts = {ALL('svg path, svg text')}, outside = parts.filter(part => {{
          const box = part.getBBox(), view = part.ownerSVGElement.viewBox.baseVal;
          return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
        }});
        return [parts.length, outside.map(part => part.outerHTML)];
    }})()"""
    )
    assert drawn > 300 and outside == []
    assert browser.run("['.heat', '.plot'].every(kind => document.querySelector(kind))")
    for box in ('[data-history]', '.curve'):  # drawn when they are seen
        for i in range(browser.run(f'{ALL(box)}.length')):
            browser.run(f'{ALL(box)}[{i}].scrollIntoView()')
            browser.until(f"{ALL(box)}[{i}].querySelector('canvas')")
    efficiency = "document.querySelector('.curve .legend').textContent"
    assert '100 % of the ideal' in browser.run(efficiency)


def test_words_and_a_verdict_filter_and_the_address_keeps_them(browser, page):
    browser.open(page)
    every = browser.run(EVERY_ROW)
    assert browser.run(f'{ROWS}.length') == 100 < every, 'the others are folded'
    browser.run(TYPE % ('metrics', 'osulatency =1'))
    found = browser.run(f'{ROWS}.length')
    assert 0 < found < every
    said = browser.run("document.querySelector('[data-of=metrics] output').textContent")
    assert said == f'{found} of {every} metrics'
    address = browser.run('location.hash')
    browser.open(page, address)
    assert browser.run(f'{ROWS}.length') == found
    browser.run("document.querySelector('.counts a').click()")
    browser.until(f"location.hash === '#metrics?verdict=regressed' && {ROWS}.length !== {found}")
    assert set(browser.run(f'{CELLS % "verdict"}.map(cell => cell.textContent)')) == {'regressed'}


def test_a_click_on_a_title_sorts_and_a_second_one_turns_the_order(browser, page):
    browser.open(page)
    values = f'{CELLS}.map(cell => parseFloat(cell.dataset.v ?? cell.textContent))'
    for title, column, turned in (
        ('Measured', 'value', False),
        ('Measured', 'value', True),
        ('Deviation', 'deviation', True),
    ):
        browser.run(f"{ALL('#verdicts th button')}.find(button => button.textContent === '{title}').click()")
        found = browser.run(values % column)
        assert len(set(found)) > 10 and found == sorted(found, reverse=turned)
        (by,) = browser.run(f'{ALL("#verdicts [aria-sort]")}.map(head => [head.textContent, head.ariaSort])')
        assert by == [title, 'descending' if turned else 'ascending']
    assert browser.run('location.hash') == '#metrics?sort=-deviation'


def test_a_page_of_1000_metrics_is_small_and_has_no_more_rows_than_are_looked_at(browser, thousand):
    assert thousand.stat().st_size < 500_000
    browser.open(thousand)
    rows, said = f'{ROWS}.length', "document.querySelector('[data-of=metrics] output').textContent"
    assert browser.run(f'[{rows}, {said}]') == [100, '100 of 1000 metrics']
    browser.run("document.querySelector('#verdicts [data-column=value] button').click()")
    assert browser.run(rows) == 100
    values = f'{CELLS % "value"}.map(cell => parseFloat(cell.textContent))'
    assert browser.run(f'Math.max(...{values})') < 175, 'the smallest of all metrics, not of the first 100'
    browser.run("document.querySelector('[data-of=metrics] button').click()")
    assert browser.run(f'[{rows}, {said}]') == [1000, '1000 of 1000 metrics']


def test_every_judged_metric_is_drawn_in_the_overview_and_states_differ_without_colour(browser, page):
    browser.open(page, height=20_000)  # a box is drawn when it is seen
    browser.until(f'{ALL(".mini svg")}.length === {ALL(".mini")}.length')
    drawn = f'{ALL(".mini .line")}.filter(line => line.getBoundingClientRect().width > 30).length'
    assert browser.run(f'{ALL(".mini")}.length') == browser.run(drawn) == browser.run(EVERY_ROW)
    states = ['ok', 'improved', 'regressed', 'missing', 'warning', 'no_reference']
    box = "document.querySelector('.mini')"
    sign = f"{box}.className = `mini mark ${{state}}`, getComputedStyle({box}, '::before').content"
    assert len(set(browser.run(f'{json.dumps(states)}.map(state => ({sign}))'))) == len(states)


def test_nodes_are_capped_the_worst_first_and_every_one_is_found(browser, fleet):
    page, causes = fleet
    browser.open(page)
    assert set(browser.run(NODES)[:3]) == {cause.where for cause in causes} and len(browser.run(NODES)) == 40
    for words, found in (('cn0059', ['cn0059']), ('switch s2', [f'cn{i:04d}' for i in range(41, 61)]), ('cn9', [])):
        browser.run(TYPE % ('nodes', words))
        assert sorted(browser.run(NODES)) == found
    assert browser.run('location.hash') == '#nodes?q=cn9'
    browser.run(TYPE % ('nodes', ''))
    browser.run("document.querySelector('[data-of=nodes] button').click()")
    assert len(browser.run(NODES)) == 60


def test_details_open_from_a_link_lead_to_the_job_and_give_the_focus_back(browser, page):
    browser.open(page, '#metrics?q=triad')
    link = f"{ROWS}[0].querySelector('[data-column=metric] a')"
    browser.run(f'{link}.focus()')
    browser.press('Enter')
    browser.until(f"{TITLE} === 'STREAM size=big triad' && document.querySelector('dialog .u-legend')")
    browser.run(f"{ALL('dialog a')}.find(a => a.textContent.startsWith('Job')).click()")
    browser.until(f"{TITLE}?.startsWith('STREAM size=big on') && location.hash.startsWith('#c')")
    browser.press('Escape')
    browser.until(f"!{TITLE} && location.hash === '#metrics?q=triad'")
    assert browser.run(f'document.activeElement === {link}')
    for close in ("document.querySelector('dialog .close')", "document.querySelector('dialog')"):
        browser.run(f'{link}.click()')
        browser.until(f"{TITLE} === 'STREAM size=big triad'")
        browser.run(f'{close}.click()')
        browser.until(f"!{TITLE} && location.hash === '#metrics?q=triad'")


def test_details_open_of_what_failed_is_missing_or_is_no_number(browser, work):
    values = {'low': [50.0], 'new': [1.0], 'nan': [math.nan], 'none': [], 'zero': [0.0], 'absurd': [1e308]}
    entries = [
        case(metrics={name: metric(of) for name, of in values.items()}),
        case(check='HPCC', result='fail', fail_phase='setup', fail_reason='<b>no</b>'),
        case(check='Later', result='skip'),
    ]
    work.reference(reference(metric='low'), reference(params='size=lost'))
    work.ingest(report(*entries, mode='quick'))
    assert work.run('report').exit_code == 1
    browser.open(work.results / 'report.html')
    links = browser.run(f'{ALL("#verdicts [data-column=metric] a")}.map(link => [link.hash, link.textContent])')
    assert len(links) > 7
    for address, name in links:
        browser.run(f"location.hash = '{address}'")
        browser.until(f'{TITLE}?.endsWith({json.dumps(name)})')


def test_a_history_tells_its_values_under_the_mouse_and_zooms(browser, page):
    browser.open(page)
    browser.run("document.querySelector('[data-history]').scrollIntoView()")
    browser.until("document.querySelector('[data-history] .u-over')")
    box = "document.querySelector('[data-history] .u-over').getBoundingClientRect()"
    x, y, width, height = browser.run(f'[{box}.x, {box}.y, {box}.width, {box}.height]')
    day = "document.querySelector('[data-history] .u-legend .u-value').textContent"
    seen = "[...document.querySelectorAll('[data-history] .u-value')].filter(value => value.checkVisibility()).length"
    assert browser.run(seen) == 0, 'without a mouse there is no value to tell'
    for share, month in ((0.1, '2026-10'), (0.9, '2026-11')):
        browser.mouse((x + share * width, y + height / 2))
        browser.until(f"{day}.startsWith('{month}')")
    assert browser.run(seen) > 0
    browser.mouse((x + 0.6 * width, y + 20), (x + 0.8 * width, y + 20), (x + 0.9 * width, y + 20), drag=True)
    browser.mouse((x + 5, y + height / 2))
    browser.until(f"{day} > '2026-11-04' && {day} < '2026-11-09'")  # the first of those between which it was dragged


def test_times_are_those_of_the_reader_with_utc_beside(browser, page):
    browser('Emulation.setTimezoneOverride', timezoneId='Asia/Tokyo')
    browser.open(page)
    began = "document.querySelector('time')"
    assert browser.run(f'[{began}.textContent, {began}.title]') == ['2026-11-21 19:38 GMT+9', '2026-11-21 10:38 UTC']
    browser('Emulation.setTimezoneOverride', timezoneId='')


def test_the_page_of_a_node_has_its_metrics_counters_commands_and_gives_the_focus_back(browser, fleet):
    page, causes = fleet
    browser.open(page)
    node = causes[0].where
    squares = browser.run(
        f'{ALL("#map .place .place a")}.map(a => [a.hash, a.className, getComputedStyle(a).backgroundColor])'
    )
    assert len(squares) == 60 and {hash[3:] for hash, found, _ in squares if found} == {one.where for one in causes}
    assert len({color for hash, found, color in squares if found}) == 3, 'the darker the slower'
    assert browser.run(f'{ALL("#map .place .place > span")}.map(s => s.textContent)') == [
        'switch s0',
        'switch s1',
        'switch s2',
    ]
    link = f"{ALL('#fleet a')}.find(a => a.textContent === '{node}')"
    browser.run(f'{link}.focus()')
    browser.press('Enter')
    browser.until(f"{TITLE} === '{node}' && {ALL('dialog .uplot')}.length > 0")
    text = browser.run("document.querySelector('dialog').innerText")
    assert 'rack r0, switch s0' in text and 'thermal throttle +' in text and text.count('fell short') == 3
    commands = browser.run(f'{ALL("dialog .next code")}.map(code => code.textContent)')
    assert commands[0] == f'scontrol show node {node}' and commands[1].startswith(f'scontrol update NodeName={node} ')
    assert browser.run("document.querySelector('dialog .u-legend').textContent").count(node) == 1
    browser.run("document.querySelector('dialog details a').click()")
    browser.until(f"location.hash.startsWith('#c') && {TITLE}.startsWith('STREAM')")
    again = browser.run("document.querySelector('dialog .next code').textContent")
    assert again.startswith('ci/nightly') and f'nodelist={node}' in again
    browser.press('Escape')
    browser.until(f'!{TITLE}')
    assert browser.run(f'document.activeElement === {link}')


def test_a_button_copies_a_command(browser, page):
    browser.open(page)
    said, copied, command = browser.run(
        """(async () => {
        let copied = '';
        Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { copied = text; }}});
        const button = document.querySelector('.card .next button');
        button.click();
        await null;
        return [button.textContent, copied, button.previousElementSibling.textContent];
    })()"""
    )
    assert said == 'Copied' and copied == command and command.startswith('ci/nightly')


def test_the_keyboard_walks_over_every_control(browser, fleet):
    browser.open(fleet[0])
    found = (
        f'{ALL("a[href]:not([tabindex]), button, input, select, summary")}.filter(control => control.checkVisibility())'
    )
    controls = browser.run(f'(window.controls = {found}).length')
    reached = set()
    for _ in range(controls + 5):
        browser.press('Tab')
        reached.add(browser.run('controls.indexOf(document.activeElement)'))
    assert controls > 50 and reached >= set(range(controls))


@pytest.mark.parametrize('store', ['year', 'fleet', 'first'])
def test_nothing_sticks_out_at_any_width_and_on_a_telephone_nothing_is_cut(browser, store, request):
    browser.open(request.getfixturevalue(store)[0], width=400, height=800)
    cut = f"{ALL('body *')}.filter(e => e.getBoundingClientRect().right > 401 && !e.closest('.wide:not(:has(.full))'))"
    assert browser.run(f'{cut}.map(element => element.outerHTML.slice(0, 200))') == []
    for width in (400, 640, 641, 961, 1024, 1279, 1280, 1600, 1920):
        browser('Emulation.setDeviceMetricsOverride', width=width, height=900, deviceScaleFactor=1, mobile=False)
        assert browser.run('document.documentElement.scrollWidth') <= width, width


def test_long_names_are_whole_and_a_busy_node_is_marked(browser, work):
    names = ['NaturallyOrderedRingBandwidth_GBytes', 'NaturallyOrderedRingLatency_usec', 'StarSTREAM_Triad']
    entry = case('HPCC', 'size=quick', {name: metric([1.0, 1.1]) for name in names}, provenance={'load_beside': '1.9'})
    work.ingest(report(entry, case(metrics={'quiet': metric([1.0, 1.1])}), mode='quick'))
    work.run('report')
    browser.open(work.results / 'report.html')
    cut = f'{ALL(".mini > *")}.filter(part => part.scrollWidth > part.clientWidth + 1).map(part => part.textContent)'
    assert browser.run(cut) == []
    mark = "getComputedStyle(box.querySelector('b'), '::after').content"
    marks = browser.run(f'{ALL(".mini")}.map(box => [box.firstChild.textContent, {mark}])')
    assert dict(marks) == dict.fromkeys(names, '"*"') | {'quiet': 'none'}
    places = browser.run(f'{CELLS % "partition"}.map(cell => cell.textContent)')
    assert sorted(places) == ['cpu/system on n1', *['cpu/system on n1, busy'] * 3]


def test_on_paper_it_is_light_nothing_is_cut_and_there_are_no_controls(browser, page):
    browser.emulate(media='print', scheme='dark')
    browser.open(page, width=717, height=1000)  # A4 with the margins of Chromium, in CSS pixels
    cut = f'{ALL("main *")}.filter(element => element.getBoundingClientRect().right > innerWidth)'
    controls = f'{ALL(".filters, .links, summary, dialog")}.filter(element => element.checkVisibility())'
    assert browser.run(f'[...{cut}, ...{controls}].map(element => element.outerHTML.slice(0, 200))') == []
    assert browser.run("getComputedStyle(document.documentElement).getPropertyValue('--page')") == '#fff'
    browser.until("'uPlot' in window")
    assert len(browser('Page.printToPDF')['data']) > 20_000
    drawn = [f'{ALL(box)}.every(figure => figure.querySelector("canvas"))' for box in ('[data-history]', '.curve')]
    assert browser.run(f'[{", ".join(drawn)}]') == [True, True], 'all of it is drawn for paper'


@pytest.mark.parametrize(('scheme', 'state'), [('light', ''), ('dark', '#m0'), ('light', '#n=cn0007')])
def test_axe_finds_nothing(browser, fleet, scheme, state):
    axe = pytest.importorskip('axe_core_python.base', reason='axe-core-python is not installed')
    browser.emulate(scheme=scheme)
    browser.open(fleet[0], state)
    assert browser.violations(axe.AXE_SCRIPT) == []

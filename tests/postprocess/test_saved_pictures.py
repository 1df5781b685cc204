# SPDX-License-Identifier: BSD-3-Clause
"""Charts that are saved as pictures: what they hold and what their caption tells, in a real browser."""

import base64

import pytest
from lxml import etree
from run_reports import SITE, Workplace

from studies import planted

NIGHTS = 40  # of the page
KEEP = """{
    const made = URL.createObjectURL;
    window.blobs = [];
    URL.createObjectURL = blob => { blobs.push(blob); return made(blob); };
    HTMLAnchorElement.prototype.click = function () { window.file = this.download; };
}"""
READ = """new Promise(done => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blobs.at(-1));
})"""
SVG = '{http://www.w3.org/2000/svg}'


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """The page of the last of 40 nights."""
    planted.year(folder := tmp_path_factory.mktemp('year'), 0.1)
    work = Workplace(folder)
    assert work.run('report').exit_code == 1
    return work.results / 'report.html'


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """The published site of six nights, in the last of which a node is slow."""

    def cases(ago):
        for i in range(5):
            yield 'Dgemm', '-', [f'n{i}'], 'GFlop/s', {'rate': (3000, 0.7 if i == 2 and ago == 0 else 1)}

    planted.plant(folder := tmp_path_factory.mktemp('six'), 6, cases)
    work = Workplace(folder)
    folder = work.results.parent / 'site'
    assert work.run('publish', folder, '--pages', 0).exit_code == 0
    return folder / SITE / 'index.html'


@pytest.fixture
def browser(chromium):
    chromium.emulate(scheme='dark')
    yield chromium
    assert chromium.errors == []


def saved(browser, figure, kind):
    """Press the button below a chart; return the name of the file and its content."""
    button = f"[...document.querySelectorAll('{figure} .save button')].find(one => one.textContent === '{kind}')"
    browser.run(f"document.querySelector('{figure}').scrollIntoView()")
    browser.until(button)
    browser.run(KEEP)
    browser.run(f'{button}.focus()')
    browser.press('Enter')
    browser.until('blobs.length')
    return browser.run('window.file'), base64.b64decode(browser.run(READ).partition(',')[2])


def texts(svg):
    return [text.text for text in etree.fromstring(svg).iter(f'{SVG}text')]


def points(svg):
    """The numbers of points of the lines of a chart."""
    paths = [path.get('d') for path in etree.fromstring(svg).findall(f'{SVG}svg/{SVG}path') if path.get('stroke-width')]
    return [path.count('L') + path.count('M') for path in paths]


def test_a_history_is_saved_in_the_colours_of_paper_with_what_it_shows_and_where_it_is_from(browser, page):
    browser.open(page)
    name, svg = saved(browser, '[data-history]', 'SVG')
    said = ' '.join(texts(svg))
    assert name.endswith('-on-cpu-system.svg') and ' is better; median of the ' in said
    assert f'n = {NIGHTS} sessions, 2026-10-13 to 2026-11-21; n = 3 samples a job in the last one.' in said
    assert f'Site {SITE}; sessions 00000001 to {NIGHTS:08x}, the last one from night.json (sha256 ' in said
    assert points(svg)[0] == NIGHTS
    tree = etree.fromstring(svg)
    colours = {one.get(kind) for one in tree.iter() for kind in ('fill', 'stroke')} - {None, 'none', 'white'}
    assert all(colour.startswith('rgb(') for colour in colours) and 'rgb(0,96,168)' in colours, 'as on a light page'
    assert not [one for one in tree.iter() if one.get('class') or one.get('style')]
    assert tree.findtext(f'{SVG}title') in said.replace('  ', ' ')


def test_a_curve_is_saved_with_its_axes_and_the_samples_of_a_point(browser, page):
    browser.open(page)
    name, svg = saved(browser, '.curve', 'SVG')
    shown = texts(svg)
    assert name == 'HPL-on-cpu-system-rate-TFlop-s-over-num-nodes.svg'
    assert {'2', '4', '8', '16', 'num_nodes', 'TFlop/s', 'rate', 'ideal'} <= set(shown)
    assert 'higher is better; one session; n = 3 samples a point; shaded' in ' '.join(shown)
    assert f'session {NIGHTS:08x} of 2026-11-21, from night.json' in ' '.join(shown) and points(svg)[0] == 4


def test_as_png_it_is_wide_enough_for_a_paper_and_not_empty(browser, page):
    browser.open(page)
    name, png = saved(browser, '.curve', 'PNG')
    assert name.endswith('.png') and png[:8] == b'\x89PNG\r\n\x1a\n'
    assert int.from_bytes(png[16:20], 'big') == 2400 and len(png) > 50_000


def test_a_metric_and_a_node_of_the_published_site_are_saved(browser, site):
    browser.open(site, '#metric=cpu%2Fsystem%2FDgemm%2F-%2Frate%2F-')
    name, svg = saved(browser, 'dialog', 'SVG')
    said = ' '.join(texts(svg))
    assert name == 'Dgemm-rate-on-cpu-system.svg' and 'n = 6 sessions, 2026-11-16 to 2026-11-21' in said
    assert 'sessions 00000001 to 00000006, the last one from night.json (sha256 ' in said
    browser.open(site, '#node=n2')
    name, svg = saved(browser, 'dialog', 'SVG')
    assert name == 'Node-n2-beside-the-other-nodes.svg' and points(svg) == [6, 6]


def test_on_paper_there_are_no_buttons(browser, page):
    browser.emulate(media='print')
    browser.open(page)
    browser.run("document.querySelector('.curve').scrollIntoView()")
    browser.until("document.querySelector('.save')")
    assert browser.run("document.querySelector('.save').checkVisibility()") is False

"""The page in headless Chromium, which runs its script: what it shows, and that it logs no error."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from lxml import html
from run_reports import BEGAN, Workplace, case, metric, reference, report

DAY = 86400


class Browser:
    """Opens a page, does to it what `script` says, and returns what is then there."""

    def __init__(self, program: str, folder: Path):
        self.program, self.folder = program, folder

    def run(self, page: Path, *options: str, fragment: str = '') -> str:
        answer = subprocess.run(
            [self.program, '--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking',
             '--no-first-run', '--disable-sync', '--enable-logging=stderr', '--virtual-time-budget=5000',
             f'--user-data-dir={self.folder / "profile"}', *options, page.as_uri() + fragment],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert not re.findall(r'CONSOLE.*', answer.stderr)
        return answer.stdout

    def open(self, page: Path, script: str = '', fragment: str = '', *options: str):
        changed = self.folder / 'changed.html'
        text = page.read_text(encoding='utf-8')
        changed.write_text(text.replace('</body>', f'<script>{script}</script></body>'), encoding='utf-8')
        return html.fromstring(self.run(changed, '--dump-dom', *options, fragment=fragment))


@pytest.fixture
def browser(program, tmp_path):
    return Browser(program('chromium'), tmp_path)


@pytest.fixture(scope='module')
def page(tmp_path_factory) -> Path:
    """One of each kind of chart, a step in the history, and several kinds of verdicts."""
    work = Workplace(tmp_path_factory.mktemp('page'))
    size, pair = {'message_bytes': ('size', 'B')}, {'pair': ('pair', '')}
    curve = {f'latency message_bytes={2**i}': metric([1.0 + i], 'us', 'lower') | {'judged': i < 2} for i in range(10)}
    matrix = {f'rate pair={i}-{j}': metric([100.0 + i - j]) for i in (0, 1) for j in (0, 1)}
    kernels = {name: metric([90.0]) for name in ('copy', 'triad', 'dot')}
    work.reference(*(reference(metric=name, params='size=1') for name in kernels), reference(check='Gone'))
    for night in range(12):
        level = 100.0 if night < 7 else 70.0
        entries = [
            case(
                parameters='size=1',
                metrics=kernels | {'copy': metric([level] * 3)},
                provenance={'kernel': str(night > 6)},
            ),
            case(parameters='size=2', metrics=kernels),
            *(case('OsuLatency', f'pair={name}', curve, dims=size) for name in ('near', 'far')),
            case('Numa', '-', matrix, dims=pair),
            *(case('HPL', f'num_nodes={n}', {'gflops': metric([50.0 * n], 'GFlop/s')}) for n in (2, 4, 8)),
        ]
        work.ingest(report(*entries, uuid=f'{night:08x}', began=BEGAN + night * DAY, mode='quick'))
    assert work.run('report', f'{11:08x}').exit_code == 0
    return work.results / 'report.html'


def shown(tree):
    return [
        row.get('data-verdict') for row in tree.get_element_by_id('verdicts').find('tbody') if row.get('hidden') is None
    ]


def test_it_is_rendered_whole_and_without_an_error(browser, page):
    tree = browser.open(page)
    assert tree.get_element_by_id('shown').text == f'{len(shown(tree))} of {len(shown(tree))} metrics'
    headings = [heading.text_content().split(' on ')[0] for heading in tree.iter('h3')]
    assert {'STREAM', 'OsuLatency', 'Numa', 'HPL'} <= set(headings)
    assert tree.find_class('heat') and tree.find_class('bars') and tree.find_class('step')
    assert not tree.xpath('//dialog[@open]')


def test_everything_drawn_is_inside_its_box(browser, page):
    tree = browser.open(
        page,
        """
        document.querySelectorAll('dialog').forEach(dialog => { dialog.show(); });
        const outside = [...document.querySelectorAll('svg path, svg text')].filter(part => {
          const box = part.getBBox(), view = part.ownerSVGElement.viewBox.baseVal;
          return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
        });
        document.title = JSON.stringify([document.querySelectorAll('svg').length, outside.map(part => part.outerHTML)]);
        """,
    )
    drawn, outside = json.loads(tree.findtext('.//title'))
    assert drawn > 20
    assert outside == []


def test_it_is_filtered_by_words_and_verdict(browser, page):
    typed = "search.value = 'STREAM size=1'; search.dispatchEvent(new Event('input'));"
    tree = browser.open(page, typed)
    assert sorted(shown(tree)) == ['regressed', 'regressed', 'regressed']
    chosen = "verdict.value = 'missing'; verdict.dispatchEvent(new Event('change'));"
    assert shown(browser.open(page, chosen)) == ['missing']
    assert shown(browser.open(page, typed + chosen)) == []


def test_a_count_filters(browser, page):
    tree = browser.open(page, "document.querySelector('[data-only=missing]').click();")
    assert shown(tree) == ['missing']


def test_a_button_copies_a_command(browser, page):
    tree = browser.open(
        page,
        """
        let copied = '';
        Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { copied = text; }}});
        const button = document.querySelector('.card .next button');
        button.click();
        setTimeout(() => { document.title = button.textContent + ': ' + copied; }, 100);
        """,
    )
    assert tree.findtext('.//title') == 'Copied: ' + tree.find_class('next')[0].findtext('code')


def test_a_click_on_a_title_sorts_numbers_as_numbers_and_a_second_one_turns_them(browser, page):
    title = (
        "const title = [...document.querySelectorAll('#verdicts th button')].find(b => b.textContent === 'Measured');"
    )
    for clicks, order, said in (
        (1, sorted, 'ascending'),
        (2, lambda values: sorted(values, reverse=True), 'descending'),
    ):
        tree = browser.open(page, title + 'title.click();' * clicks)
        values = [
            float(row[4].text.split()[0]) for row in tree.get_element_by_id('verdicts').find('tbody') if row[4].text
        ]
        assert len(set(values)) > 3
        assert values == order(values)
        (sorted_by,) = tree.xpath('//table[@id="verdicts"]//th[@aria-sort]')
        assert (sorted_by.text_content(), sorted_by.get('aria-sort')) == ('Measured', said)


def test_a_click_on_deviation_puts_the_worst_first_whatever_its_sign(browser, page):
    click = "[...document.querySelectorAll('#verdicts th button')].find(b => b.textContent === 'Deviation').click();"
    rows = browser.open(page, click).get_element_by_id('verdicts').find('tbody')
    worst = [float(row.xpath('td[10]')[0].get('data-v')) for row in rows if row.xpath('td[10]/@data-v')]
    assert worst == sorted(worst, reverse=True) and worst[0] == 30.0


def test_every_judged_metric_is_drawn_in_the_overview_and_states_differ_without_colour(browser, page):
    tree = browser.open(
        page,
        """
        const boxes = [...document.querySelectorAll('.mini')];
        const sign = box => getComputedStyle(box, '::before').content;
        const drawn = boxes.filter(box => box.querySelector('use')?.getBoundingClientRect().width > 40);
        const signs = Object.fromEntries(boxes.map(box => [box.classList[2], sign(box)]));
        document.title = JSON.stringify([boxes.length, drawn.length, signs]);
        """,
    )
    boxes, drawn, signs = json.loads(tree.findtext('.//title'))
    assert boxes == len(shown(tree)) and drawn > 10
    assert {'regressed', 'missing', 'no_reference'} <= signs.keys()
    assert len(set(signs.values())) == len(signs)


def test_a_node_is_found_by_its_name_and_nodes_are_sorted(browser, page):
    find = "const box = document.querySelector('[data-of]'); box.value = '%s'; box.dispatchEvent(new Event('input'));"
    for name, found in (('n1', 1), ('n9', 0)):
        rows = browser.open(page, find % name).get_element_by_id('fleet').find('tbody')
        assert [row.get('hidden') for row in rows].count(None) == found


def test_on_a_telephone_nothing_is_cut(browser, page):
    """Rows are cards there. Chromium has no window of 400 pixels: what the style says of such is applied to a body."""
    narrow = page.with_name('narrow.html')
    text = page.read_text(encoding='utf-8').replace('(max-width: 40rem)', '(min-width: 1px)')
    narrow.write_text(text.replace('</style>', 'body { width: 400px; margin: 0 } </style>', 1), encoding='utf-8')
    tree = browser.open(
        narrow,
        """
        const parts = [...document.querySelectorAll('.card *, .full *, .row *, .banner, .counts *')];
        const cut = parts.filter(part => part.getBoundingClientRect().right > 400);
        document.title = JSON.stringify([parts.length, cut.map(part => part.outerHTML)]);
        """,
        '',
        '--window-size=1400,900',
    )
    parts, cut = json.loads(tree.findtext('.//title'))
    assert parts > 500 and cut == []


def test_a_link_opens_the_details_and_one_in_them_those_of_the_job(browser, page):
    tree = browser.open(page, fragment='#m0')
    (dialog,) = tree.xpath('//dialog[@open]')
    assert dialog.get('id') == 'm0'
    job = next(link.get('href') for link in dialog.iter('a') if link.text_content().startswith('Job'))
    follow = f'setTimeout(() => document.querySelector(\'#m0 a[href="{job}"]\').click(), 100);'
    (dialog,) = browser.open(page, follow, '#m0').xpath('//dialog[@open]')
    assert '#' + dialog.get('id') == job


@pytest.mark.parametrize('where', ['#m0 .close', '#m0'], ids=['link', 'beside'])
def test_a_click_closes_the_details_and_the_address_forgets_them(browser, page, where):
    click = f"document.querySelector('{where}').click(); document.title = 'at ' + location.hash;"
    tree = browser.open(page, f'setTimeout(() => {{ {click} }}, 100);', '#m0')
    assert not tree.xpath('//dialog[@open]')
    assert tree.findtext('.//title') == 'at '


def test_the_keyboard_reaches_every_control(browser, page):
    tree = browser.open(
        page,
        """
        const controls = [...document.querySelectorAll('main a, main button, main input, main select, main summary')];
        document.title = controls.filter(control => {
          control.focus();
          return control.checkVisibility() && document.activeElement !== control;
        }).length + ' of ' + controls.length;
        """,
    )
    missed, _, all_of_them = tree.findtext('.//title').split()
    assert (missed, int(all_of_them) > 20) == ('0', True)


@pytest.mark.parametrize(('scheme', 'is_dark'), [(0, True), (1, False)])
def test_light_and_dark_have_text_that_stands_out(browser, page, scheme, is_dark):
    """At least 4.5 to 1, as WCAG 2.1 asks of text; of the page and of each kind of verdict on it."""
    tree = browser.open(
        page,
        """
        const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        const light = color => {
          const [r, g, b] = color.match(/[0-9.]+/g).map(v => linear(v / 255));
          return .2126 * r + .7152 * g + .0722 * b;
        };
        const page = light(getComputedStyle(document.body).backgroundColor);
        const texts = [document.body, ...document.querySelectorAll('.b, .w, .o, .i, .u, th, figcaption')];
        const lights = texts.map(text => light(getComputedStyle(text).color));
        const ratios = lights.map(v => (Math.max(v, page) + .05) / (Math.min(v, page) + .05));
        document.title = JSON.stringify([page, Math.min(...ratios)]);
        """,
        '',
        f'--blink-settings=preferredColorScheme={scheme}',
    )
    background, contrast = json.loads(tree.findtext('.//title'))
    assert (background < 0.1) is is_dark
    assert contrast >= 4.5


def test_on_paper_it_is_light_nothing_is_cut_and_there_are_no_controls(browser, page, tmp_path):
    paper = tmp_path / 'paper.html'
    paper.write_text(page.read_text(encoding='utf-8').replace('@media print', '@media all'), encoding='utf-8')
    tree = browser.open(
        paper,
        """
        const cut = [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth);
        const controls = document.querySelectorAll('.filters, .links, summary, dialog');
        document.title = JSON.stringify([
          innerWidth, cut.map(e => e.outerHTML), [...controls].filter(e => e.checkVisibility()).length,
          getComputedStyle(document.documentElement).getPropertyValue('--page'),
        ]);
        """,
        '',
        '--window-size=717,1000',  # A4 with the margins of Chromium, in CSS pixels
        '--hide-scrollbars',
        '--blink-settings=preferredColorScheme=0',
    )
    assert json.loads(tree.findtext('.//title')) == [717, [], 0, '#fff']


def test_it_prints(browser, page):
    printed = browser.folder / 'page.pdf'
    browser.run(page, f'--print-to-pdf={printed}', '--no-pdf-header-footer')
    assert printed.read_bytes().startswith(b'%PDF') and printed.stat().st_size > 20_000

# SPDX-License-Identifier: BSD-3-Clause
"""What stands out after a night: the page and what `plumbline report` prints."""

import re

from lxml import html
from run_reports import BEGAN, DAY, SITE, on_nodes, report

NODES = [f'n{i}' for i in range(12)]


def night(work, number, levels=None, nodes=NODES, provenance=None):
    """A session of a metric on each node, at 100 but for `levels`."""
    noise = {node: 100 + (i * 7 + number * 3) % 5 / 10 for i, node in enumerate(nodes)}
    entries = on_nodes(noise | (levels or {}), provenance=provenance)
    work.ingest(report(*entries, uuid=f'{number:08x}', began=BEGAN + number * DAY))


def lines(work, number, code=0):
    """What is said after a night but the verdict and the path of the page, and the page."""
    result = work.run('report', f'{number:08x}')
    assert result.exit_code == code or (code, result.exit_code) == (0, 1), result.output
    page = work.results / 'report.html'
    *said, path, verdict = result.stdout.splitlines()
    assert verdict.split(':')[0] in ('OK', 'NEEDS A LOOK', 'FAILED') and path == str(page)
    return said, html.fromstring(page.read_text(encoding='utf-8'))


def column(tree, table, name):
    """The texts of a column; nothing of one that is left out."""
    return [cell.text_content() for cell in tree.xpath(f'//table[@id="{table}"]/tbody//td[@data-column="{name}"]')]


def test_a_slow_node_is_on_the_page_with_the_days_on_which_it_was_slow(work):
    for number in range(5):
        night(work, number)
    assert lines(work, 4)[0] == [], 'an ordinary night says nothing'
    assert not (work.results / 'incidents').exists()
    night(work, 5, {'n3': 80})
    said, tree = lines(work, 5)
    (card,) = tree.find_class('card')
    assert said == [] and card.find('h2').text == 'n3' and '-20.' in card.text_content()
    assert column(tree, 'fleet', 'before') == []
    night(work, 6, {'n3': 80})
    (proposal,), tree = lines(work, 6)
    assert 'proposal to drain 1 node' in proposal
    assert column(tree, 'fleet', 'before')[:2] == ['2026-11-26', '']
    night(work, 7)
    assert lines(work, 7)[0] == []


def test_a_node_that_measured_nothing_is_named(work):
    for number in range(6):
        night(work, number, nodes=NODES if number < 4 else [node for node in NODES if node != 'n3'])
    (said,), tree = lines(work, 4)
    assert 'not measured' in said and said.endswith(': n3')
    banner = tree.find_class('banner')[0].text_content()
    assert banner.startswith('NEEDS A LOOK') and '1 node not measured' in banner


def test_a_step_is_said_on_its_fifth_night_and_not_again(work):
    told = []
    for number in range(13):
        levels = dict.fromkeys(NODES, 92.0 + number % 2 / 10) if number >= 7 else {}
        night(work, number, levels, provenance={'kernel': '6.5' if levels else '6.1'})
        if number >= 10:
            said, tree = lines(work, number)
            told += [line for line in said if line.startswith('step')]
            new = ['step, new'] if number == 11 else ['step']
            assert number < 11 or column(tree, 'changes', 'kind') == new
    (line,) = told
    assert line.startswith('step since 2026-11-28: -8.')
    assert re.search(r'STREAM size=big triad: 100\.\d to 92\.?\d* GB/s', line) and 'kernel: 6.1 -> 6.5' in line


def test_a_file_that_cannot_be_read_costs_the_nodes_and_not_the_page(work):
    path = work.sites / SITE / 'locations.csv'
    path.write_text('x\n')
    night(work, 0)
    result = work.run('report')
    assert result.exit_code == 2
    assert f'the nodes were not compared: {path}:1: ' in result.stderr
    tree = html.fromstring((work.results / 'report.html').read_text())
    assert str(path) in tree.find_class('first')[0].text_content()
    assert len(tree.xpath('//table[@id="verdicts"]/tbody/tr')) == 1, 'the metrics are there, all the same'

# SPDX-License-Identifier: BSD-3-Clause
"""Cards, map and rows of a store whose causes overlap, each number of them computed again by other code."""

import json

import pytest
import recomputed
from browser import ALL
from lxml import html
from run_reports import Workplace

from studies.planted import overlap


@pytest.fixture(scope='module')
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp('overlap')
    causes, work = overlap(folder), Workplace(folder)
    assert work.run('report').exit_code == 1
    return work, causes


@pytest.fixture(scope='module')
def incidents(planted):
    work, _ = planted
    return json.loads(work.run('incidents', '--format', 'json').stdout)


def test_each_cause_is_one_incident_at_its_place_since_its_day(planted, incidents):
    _, causes = planted
    assert len(incidents) == len(causes)
    for cause in causes:
        (one,) = (one for one in incidents if one['where'] == cause.where and cause.what in one['checks'])
        assert one['since'] == cause.day
        assert one['loss'] == pytest.approx(-cause.change, abs=1)
        assert one['loss_low'] <= -cause.change + 0.3 and -cause.change - 0.3 <= one['loss_high']
        assert one['changed'] == ([cause.changed] if cause.changed else [])


def test_the_costliest_is_first_and_the_banner_names_it(planted, incidents):
    work, _ = planted
    costs = [one['loss'] * max(len(one['nodes']), 1) * one['metrics'] for one in incidents[:2]]
    assert incidents[0]['checks'] == ['STREAM'] and costs[0] == max(costs)
    page = html.parse(str(work.results / 'report.html')).getroot()
    banner = ' '.join(page.find_class('banner')[0].text_content().split())
    assert 'STREAM' in banner and 'with kernel: 6.1.0-28 -> 6.1.0-37; besides cn020, ' in banner
    assert [card.get('id') for card in page.find_class('card')] == [f'i{one["id"]}' for one in incidents]


def test_every_number_of_the_page_is_computed_again_and_told_alike(planted):
    work, causes = planted
    assert recomputed.check(work) == (84, len(causes), 64)


@pytest.mark.parametrize('width', [1400, 400])
def test_eight_cards_fit_the_first_screen_and_unfold_by_mouse_and_keyboard(browser, planted, width):
    work, causes = planted
    browser.open(work.results / 'report.html', width=width, height=900)
    bottoms = browser.run(f'{ALL(".card")}.map(card => card.getBoundingClientRect().bottom)')
    assert len(bottoms) == len(causes) == 8 and (max(bottoms) < 900 or width == 400)
    folded = f'{ALL(".card details")}.map(details => details.open)'
    command = "document.querySelector('.card .next code')"
    assert not any(browser.run(folded)) and not browser.run(f'{command}.checkVisibility()')
    place = "(box => [box.x + 20, box.y + 60])(document.querySelector('.card').getBoundingClientRect())"
    browser.mouse(tuple(browser.run(place)), drag=True)
    assert browser.run(folded) == [True] + 7 * [False] and browser.run(f'{command}.checkVisibility()')
    browser.run("document.querySelectorAll('.card summary')[1].focus()")
    browser.press('Enter')
    assert browser.run(folded) == [True, True] + 6 * [False]
    browser.run('scrollTo(0, 0)')
    browser.mouse(tuple(browser.run(place)), drag=True)
    assert browser.run(folded) == [False, True] + 6 * [False]

# SPDX-License-Identifier: BSD-3-Clause
"""Cards, map and rows of a store whose causes overlap, against its Parquet files read by other code."""

import csv
import json
import math
import re
from itertools import pairwise
from statistics import median

import duckdb
import pytest
import recomputed
from browser import ALL
from lxml import html
from run_reports import SITE, Workplace

from studies.planted import overlap

ROWS = """
    SELECT sessions.started::DATE::VARCHAR AS day, "check", params, metric, metrics.dims, nodes, mean, better
    FROM read_parquet($folder || '/metrics/**/*.parquet', hive_partitioning=false) AS metrics
    JOIN read_parquet($folder || '/cases/**/*.parquet', hive_partitioning=false) AS cases USING (session, case_id)
    JOIN read_parquet($folder || '/sessions/**/*.parquet', hive_partitioning=false) AS sessions USING (session)
"""
SERIES = 'check', 'params', 'metric', 'dims'


@pytest.fixture(scope='module')
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp('overlap')
    causes, work = overlap(folder), Workplace(folder)
    assert work.run('report').exit_code == 1
    return work, causes


@pytest.fixture(scope='module')
def measured(planted):
    """Performance beside the reference of each series on its nodes, by day."""
    work, _ = planted
    with duckdb.connect(config={}) as connection:
        rows = connection.execute(ROWS, {'folder': str(work.results / 'store')})
        names = [column[0] for column in rows.description]
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    expected = {}
    for file in (work.sites / SITE).glob('*.csv'):
        for row in csv.DictReader(file.read_text().splitlines()):
            if 'mean' in row:
                expected[tuple(row[name] for name in SERIES)] = float(row['mean'])
    for row in found:
        ratio = row['mean'] / expected[tuple(row[name] for name in SERIES)]
        row['performance'] = ratio if row['better'] == 'higher' else 1 / ratio
    return found


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


def rows_of(one, measured, incidents):
    """The rows of an incident: its series, on its nodes where it names some, else where no other names the node."""
    series = set(of_incident(one))
    own = set(one['nodes']) if one['place'] or one['where'] in one['nodes'] else None
    others = {
        (other['where'], *of) for other in incidents if other['where'] in other['nodes'] for of in of_incident(other)
    }
    for row in measured:
        of = tuple(row[name] for name in SERIES)
        if of in series and (set(row['nodes']) & own if own else not others & {(node, *of) for node in row['nodes']}):
            yield row


def elsewhere(row, measured):
    """The median performance of a series on the other nodes on the day of a row."""
    same = [*SERIES, 'day']
    return median(
        of['performance'] for of in measured
        if of['nodes'] != row['nodes'] and all(of[name] == row[name] for name in same)
    )  # fmt: skip


def of_incident(one):
    return [tuple(row[name] for name in SERIES) for row in one['rows']]


@pytest.fixture(scope='module')
def whole(planted, incidents):
    work, _ = planted
    for one in incidents:
        document = json.loads(work.run('incidents show', one['id'], '--format', 'json').stdout)
        one['rows'] = document['series']
    return incidents


def test_every_number_of_a_card_is_of_its_own_rows(planted, measured, whole):
    work, _ = planted
    page = html.parse(str(work.results / 'report.html')).getroot()
    days = sorted({row['day'] for row in measured})
    for one in whole:
        card = page.get_element_by_id(f'i{one["id"]}')
        own = list(rows_of(one, measured, whole))
        sign = -1 if {row['better'] for row in own} == {'lower'} else 1
        by_day = {
            day: 100 * (median(row['performance'] ** sign for row in own if row['day'] == day) - 1) for day in days
        }
        caption = card.find('.//figure/svg').get('aria-label')
        assert float(re.search(r'([-+.\d]+) % now', caption)[1]) == pytest.approx(by_day[days[-1]], abs=0.06)
        words = card.find_class('size')[0].text_content()
        size = -sign * float(re.fullmatch(r'([.\d]+) % (?:less|slower)', words)[1])
        assert ('slower' in words) is (sign < 0)
        since = [day for day in days if day >= one['since']]
        if recomputed.is_beside_others(one):  # which the kernel slows, too
            beside = [row['performance'] / min(elsewhere(row, measured), 1) for row in own if row['day'] in since]
            assert size == pytest.approx(100 * (median(beside) - 1), abs=1.2)
        else:
            assert size == pytest.approx(median(by_day[day] for day in since), abs=1.2)
        before = by_day[days[days.index(one['since']) - 1]]
        assert abs(before) < 2 or one['where'] == 'cn020', 'the day before was healthy'
        nodes = {node for row in own for node in row['nodes']}
        nodes |= {'cn020'} if one['kind'] == 'SOFTWARE' else set()  # slowed by the kernel, too
        assert set(one['nodes']) <= nodes
        for name in re.findall(r'\bcn\d{3}\b', card.text_content()):
            assert name in nodes, f'{one["where"]} tells of {name}'
        for row in one['rows']:
            tonight = [of for of in own if of['day'] == days[-1] and tuple(of[name] for name in SERIES) ==
                       tuple(row[name] for name in SERIES)]  # fmt: skip
            assert any(math.isclose(of['mean'], row['value'], rel_tol=1e-9) for of in tonight)


def test_every_number_of_the_page_is_computed_again_and_told_alike(planted):
    work, causes = planted
    assert recomputed.check(work) == (84, len(causes), 64)


def test_rows_map_and_nodes_name_the_incident_of_their_place(planted, whole):
    work, _ = planted
    of_node = {one['where']: one['id'] for one in whole if one['kind'] == 'NODE'}
    (switch,) = (one for one in whole if one['place'])
    assert switch['nodes'] == [f'cn{i:03d}' for i in range(17, 33)]
    document = json.loads(work.run('compare', '--format', 'json').stdout)
    for row in document['verdicts']:
        if row['verdict'] != 'regressed':
            continue
        (node, *_) = row['nodes']
        if row['check'] in ('STREAM', 'Dgemm'):
            (other,) = (one['id'] for one in whole if one['checks'] == ['STREAM'] and one['metrics'] == 2)
            assert row['incident'] == (of_node[node] if row['check'] == 'Dgemm' or node == 'cn020' else other)
        if row['check'] == 'OsuBandwidth':
            assert row['incident'] in (switch['id'], of_node.get('cn020'))
    page = html.parse(str(work.results / 'report.html')).getroot()
    table = page.get_element_by_id('nodes').xpath('following::table[1]')[0]
    rows = [{cell.get('data-column'): cell.text_content() for cell in row} for row in table.find('tbody')]
    cells = {row['name']: row['incidents'] for row in rows}
    assert all(switch['id'] in cells[node] for node in switch['nodes'] if node in cells)
    assert sum(switch['id'] in text for text in cells.values()) == 16


def test_what_is_healthy_there_is_counted_once_and_is_of_other_checks(whole):
    for one in whole:
        for line in one['evidence']:
            if line.startswith('healthy there: '):
                number = int(re.search(r'\d+', line)[0])
                assert number <= 84
                assert not any(re.search(rf'\b{check}\b', line) for check in one['checks'])


def test_the_page_orders_incidents_by_cost(measured, whole):
    last = max(row['day'] for row in measured)

    def cost(one):
        return sum(1 - row['performance'] for row in rows_of(one, measured, whole) if row['day'] == last)

    costs = [cost(one) for one in whole]
    assert all(before > 0.8 * after for before, after in pairwise(costs)), costs


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

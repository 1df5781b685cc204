# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of a page, computed again from the Parquet files of its store by code that shares nothing with ours."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import defaultdict
from statistics import fmean, median, stdev

import duckdb
import pytest
from browser import unpacked
from lxml import html
from run_reports import SITE

TABLES = """
    SELECT "partition" || '/' || environ AS place, "check", params, metrics.metric, metrics.dims, unit, better, nodes,
        mean, n, sessions.started AS "at", samples."values"
    FROM read_parquet($folder || '/metrics/**/*.parquet', hive_partitioning=false) AS metrics
    JOIN read_parquet($folder || '/cases/**/*.parquet', hive_partitioning=false) AS cases USING (session, case_id)
    JOIN read_parquet($folder || '/sessions/**/*.parquet', hive_partitioning=false) AS sessions USING (session)
    JOIN (
        SELECT session, case_id, metric, dims, list(value) AS "values"
        FROM read_parquet($folder || '/samples/**/*.parquet', hive_partitioning=false) GROUP BY ALL
    ) AS samples ON (samples.session, samples.case_id, samples.metric, samples.dims)
        = (metrics.session, metrics.case_id, metrics.metric, metrics.dims)
    ORDER BY "at"
"""
SERIES = 'check', 'params', 'metric', 'dims'
NUMBER = r'[-+]?\d+(?:\.\d+)?'
FAILING = 'open', 'intermittent'


def text_of(element):
    return ' '.join(element.text_content().split())


def numbers(text):
    return [float(part) for part in re.findall(NUMBER, text)]


class Recomputed:
    """What a store measured, by series in words, and the page of its last session."""

    def __init__(self, work):
        self.work = work
        self.page = html.fromstring((work.results / 'report.html').read_text(encoding='utf-8'))
        self.data = unpacked(self.page)
        expected = {}
        if work.baseline.exists():
            for row in csv.DictReader(work.baseline.read_text().splitlines()):
                expected[tuple(row[name] for name in SERIES)] = float(row['mean'])
        with duckdb.connect(config={}) as connection:
            found = connection.execute(TABLES, {'folder': str(work.results / 'store')})
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        last = max(row['at'] for row in rows)
        self.nights = sorted({row['at'] for row in rows})
        self.jobs = defaultdict(list)
        for row in rows:
            row['expected'] = expected.get(tuple(row[name] for name in SERIES))
            row['tonight'] = row['at'] == last
            dims = '' if row['dims'] == '-' else f' {row["dims"]}'
            self.jobs[f'{row["check"]} {row["params"]} {row["metric"]}{dims}', row['place']].append(row)

    def tonight(self, id):
        """The jobs of tonight of the metric with this number on the page."""
        one = self.data['metrics'][id]
        return [job for job in self.jobs[one['name'], one['where']] if job['tonight']]

    def rows(self):
        """(number of the metric, text of each cell) of every row of the table of metrics, also of those packed."""
        shown = self.page.get_element_by_id('verdicts').find('tbody').findall('tr')
        if len(packed := self.page.xpath('//*[@id="of-verdicts"]')):
            shown += html.fromstring(f'<table>{unpacked(self.page, packed[0].get("id"))}</table>').iter('tr')
        for row in shown:
            cells = {cell.get('data-column'): cell for cell in row.iter('td')}
            yield cells['metric'].find('a').get('href')[2:], {name: text_of(cell) for name, cell in cells.items()}

    def tiles(self):
        found = self.page.xpath('//a[contains(@class, "mini")]')
        if self.page.xpath('//*[@id="of-boxes"]'):
            found += html.fromstring(f'<div>{unpacked(self.page, "of-boxes")}</div>').xpath('//a')
        return {tile.get('href')[2:]: tile for tile in found}

    def cards(self):
        """(card, its incident as `incidents show` tells it)."""
        for card in self.page.find_class('card'):
            shown = self.work.run('incidents show', card.get('id')[1:], '--format', 'json').stdout
            yield card, json.loads(shown)

    def own(self, incident, others):
        """The jobs of all nights of an incident: on its nodes if it names them, else where no other names the node."""
        named = incident['nodes'] if incident['place'] or incident['where'] in incident['nodes'] else ()
        taken = {(other['where'], series) for other in others for series in series_of(other)
                 if other is not incident and other['where'] in other['nodes']}  # fmt: skip
        for series in series_of(incident):
            for job in self.jobs[series]:
                on = set(job['nodes'])
                if on & set(named) if named else not any((node, series) in taken for node in on):
                    yield job

    def elsewhere(self, job, incident):
        """How much a series lost on the other nodes tonight, if a node is told beside them; 0 where it lost nothing."""
        if not is_beside_others(incident):
            return 0.0
        (same,) = (jobs for jobs in self.jobs.values() if any(of is job for of in jobs))
        lost = [performance(of) for of in same if of['tonight'] and not set(of['nodes']) & set(incident['nodes'])]
        return min(median(lost), 0.0) if lost else 0.0


def is_beside_others(incident):
    """Whether an incident tells the loss of a node beside the other nodes, not beside the references of its series."""
    return any(line.startswith(f'node {incident["where"]}: ') for line in incident['evidence'])


def series_of(incident):
    """The series of an incident, named as the keys of `jobs`."""
    for row in incident['series']:
        dims = '' if row['dims'] == '-' else f' {row["dims"]}'
        yield f'{row["check"]} {row["params"]} {row["metric"]}{dims}', f'{row["partition"]}/{row["environ"]}'


def deviation(job):
    return 100 * (job['mean'] / job['expected'] - 1)


def performance(job):
    """The logarithm of performance beside the reference."""
    return math.log(job['mean'] / job['expected']) * (1 if job['better'] == 'higher' else -1)


def check_metrics(of):
    """Row, tile, chart and details of each metric tell what its jobs measured, and the same."""
    tiles, charted = of.tiles(), defaultdict(list)
    for link in of.page.xpath('//table[contains(@class, "cells")]//td/a'):
        charted[link.get('href')[2:]].append(link.text_content())
    checked = 0
    for id, row in of.rows():
        jobs, facts = of.tonight(id), of.data['metrics'][id].get('facts', {})
        place, _, on = row['partition'].partition(' on ')
        nodes, _, worst = on.partition(', the worst of ')
        (shown,) = (job for job in jobs if ', '.join(job['nodes'][:4]) == nodes.removesuffix(' ...'))
        assert place == shown['place'] and worst == (f'{len(jobs)} jobs' if len(jobs) > 1 else '')
        value, std, unit = re.fullmatch(rf'({NUMBER}) ± ({NUMBER}) (\S+)', row['value']).groups()
        digit = 10.0 ** -len(std.partition('.')[2])
        assert float(value) == pytest.approx(shown['mean'], abs=0.51 * digit) and unit == shown['unit']
        assert float(std) == pytest.approx(stdev(shown['values']), abs=0.51 * digit)
        assert int(row['n']) == shown['n'] == len(shown['values'])
        tile, middle = tiles[id], median(job['mean'] for job in jobs)
        assert numbers(text_of(tile.find('b')))[0] == pytest.approx(middle, rel=1e-3)
        assert row['verdict'].replace(' ', '_') in tile.get('class').split()
        for text in charted[id]:
            assert float(text) == numbers(text_of(tile.find('b')))[0]
        assert numbers(facts['Measured'])[0] == pytest.approx(float(value), rel=1e-3)
        if len(jobs) > 1:
            assert float(facts['Measured'].rpartition(' ')[2]) == pytest.approx(middle, rel=1e-3)
        if shown['expected'] is None:
            continue
        assert numbers(row['expected'])[0] == pytest.approx(shown['expected'], rel=1e-3)
        assert numbers(row['deviation']) == pytest.approx([deviation(shown)], abs=0.051)
        assert facts['Change'].startswith(row['deviation'])
        if row['verdict'] == 'regressed':
            assert performance(shown) == min(map(performance, jobs)), 'the worst of its jobs'
        loss, low, high, sessions = (*numbers(row['loss'].replace('95 %', '')), 1)[:4]
        assert low <= loss <= high
        nights = of.nights[-int(sessions) :]
        past = [performance(job) for job in of.jobs[of.data['metrics'][id]['name'], place]
                if job['at'] in nights and job['nodes'] == shown['nodes']]  # fmt: skip
        assert loss == pytest.approx(-100 * math.expm1(fmean(past)), abs=0.15)
        assert f'performance lost {loss:.1f} %, 95 % interval {low:.1f} to {high:.1f} %' in facts['Change']
        checked += 1
    assert len(tiles) == len(list(of.rows()))
    return checked


def check_cards(of):
    """Size, interval, course and evidence of each card are of its own jobs, and the metrics it names are linked."""
    known = list(of.cards())
    for card, one in known:
        own = list(of.own(one, [other for _, other in known]))
        tonight = [job for job in own if job['tonight']]
        if own[0]['expected'] is None:
            continue
        lower = {job['better'] for job in own} == {'lower'}
        words = card.find_class('size')[0].text_content()
        (size,) = numbers(words)
        low, high = numbers(text_of(card.find_class('size')[0].getnext()))[:2]
        assert low <= size <= high and one['loss_low'] <= one['loss'] <= one['loss_high']
        lost = fmean(performance(job) - of.elsewhere(job, one) for job in tonight)
        change = 100 * (math.exp(-lost) - 1 if lower else 1 - math.exp(lost))
        assert ('slower' in words) is lower
        assert size == pytest.approx(change, rel=0.02, abs=0.7), 'of the last sessions, the surest series weigh most'
        caption = card.find('.//figure/svg')
        if caption is not None:
            now = 100 * (math.exp(median(map(performance, tonight)) * (-1 if lower else 1)) - 1)
            assert float(re.search(rf'({NUMBER}) % now', caption.get('aria-label'))[1]) == pytest.approx(now, abs=0.051)
        named, evidence = text_of(card.find_class('what')[0]), text_of(card.find_class('since')[0])
        series = next(iter(series_of(one)))
        assert named.startswith(series[0])
        if f'{series[0]}: ' in evidence:  # not the counters of a node
            value, nodes = re.search(rf': ({NUMBER}) \S+ on (.+);', evidence).groups()
            (job,) = (job for job in of.jobs[series] if job['tonight'] and ', '.join(job['nodes']) == nodes)
            assert float(value) == pytest.approx(job['mean'], rel=1e-3)
            assert numbers(evidence.partition('expected ')[2])[0] == pytest.approx(job['expected'], rel=1e-3)
        for link in card.xpath('.//li/a[starts-with(@href, "#m") and not(contains(@href, "?"))]'):
            (told,) = numbers(link.tail)
            there = {job['place'] for job in own}, of.data['metrics'][link.get('href')[2:]]['name']
            jobs = [job for job in tonight if job in of.jobs[there[1], next(iter(there[0]))]]
            assert any(told == pytest.approx(deviation(job), abs=0.051) for job in jobs)
    rows = {id: row for id, row in of.rows() if row.get('incident')}
    for id, row in rows.items():
        first, *_ = ids = row['incident'].split()
        (shown,) = (one for _, one in known if one['id'] == first)
        name = of.data['metrics'][id]['name']
        assert {one['id'] for _, one in known if name in {series for series, _ in series_of(one)}} == set(ids)
        at = {job['nodes'][0] for job in of.own(shown, [other for _, other in known]) if job['tonight']}
        assert re.search(r' on ([^ ,]+)', row['partition'])[1] in at, 'the first incident is the one of the job'
    return known


def check_counts(of, known):
    """Banner, counts, terminal and `status` count the same, and what is new is told on its card."""
    banner = text_of(of.page.find_class('banner')[0])
    is_open = [card for card, one in known if one['state'] in FAILING]
    new = [card for card in is_open if any(text_of(line).startswith('new') for line in card.find_class('since'))]
    if is_open:
        assert f'{len(is_open)} incident' in banner and (f', {len(new)} new' in banner) is bool(new)
        if len(is_open) > 1:
            size = is_open[0].find_class('size')[0]
            assert f'{size.text_content()} ({text_of(size.getnext()).removesuffix(", 95 %")})' in banner
    verdicts = [row['verdict'] for _, row in of.rows()]
    counts = {text_of(item) for item in of.page.find_class('counts')[0]}
    assert f'{len(verdicts)} metrics:' in counts
    said = of.work.run('compare', '--summary').stdout.splitlines()[-1]
    standing = ' '.join(of.work.run('status', '--site', SITE).stdout.split())
    for verdict in set(verdicts):
        number = verdicts.count(verdict)
        assert f'{number}{verdict}' in counts and f'{number} {verdict}' in said and f'{number} {verdict}' in standing
    if is_open:
        assert f'{len(is_open)} incident' in said and f'incidents {len(is_open)} open' in standing


def check_nodes(of):
    """The node table tells how far the worst metric of each node is behind the median of the nodes."""
    table = of.page.xpath('//table[@id="fleet"]/tbody/tr')
    beside = defaultdict(list)
    for jobs in of.jobs.values():
        alone = [job for job in jobs if job['tonight'] and len(job['nodes']) == 1]
        if len({job['nodes'][0] for job in alone}) >= 5:
            level = median(job['mean'] for job in alone)
            for job in alone:
                beside[job['nodes'][0]].append(
                    100 * (job['mean'] / level - 1) * (1 if job['better'] == 'higher' else -1)
                )
    for row in table:
        cells = {cell.get('data-column'): text_of(cell) for cell in row}
        if cells.get('furthest'):
            assert numbers(cells['furthest'])[0] == pytest.approx(min(beside[cells['name']]), abs=0.051)
            assert numbers(cells['typical'])[0] == pytest.approx(median(beside[cells['name']]), abs=0.051)
    return len(table)


def check(work):
    """Compute every number of the page of a store again."""
    of = Recomputed(work)
    known = check_cards(of)
    check_counts(of, known)
    return check_metrics(of), len(known), check_nodes(of)

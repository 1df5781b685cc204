# SPDX-License-Identifier: BSD-3-Clause
"""Which further jobs `plumbline compare` asks for, and what jobs that ran for another reason say."""

import random
from collections import Counter
from dataclasses import replace

import numpy
import pytest
from pytest import approx
from run_reports import BEGAN, SITE, case, metric, reference, report

from plumbline.identity import Quantity, SeriesId
from plumbline.references import Reference
from postprocess.results.store import Store
from postprocess.verdicts.decide import Facts
from postprocess.verdicts.gather import earlier_sessions
from postprocess.verdicts.measured import measured_in

TRIAD = SeriesId('cpu', 'system', 'STREAM', (), 'triad')


def again_of(content, entries):
    return content | {'runs': [*content['runs'], {'run_index': len(content['runs']), 'testcases': entries}]}


def unknown(count):
    return [case(f'Check{i:02}', '-', {'rate': metric([100.0 + i])}, nodes=(f'n{i}',)) for i in range(count)]


def test_while_a_baseline_is_recorded_eight_percent_of_the_cases_run_twice_once(work):
    entries = unknown(25)
    content = report(*entries, uuid='night', mode='nightly')
    work.ingest(content)
    wanted = work.compare()['again']
    assert [(one['jobs'], one['on']) for one in wanted] == [(1, '')] * 2
    assert all(one['not_on'] == [f'n{int(one["name"][5:7])}'] and 'at random' in one['why'] for one in wanted)
    work.ingest(
        again_of(content, [entry for entry in entries if entry['display_name'] in {one['name'] for one in wanted}])
    )
    assert work.compare()['again'] == [], 'they ran twice'


def test_cases_of_a_small_site_and_those_with_a_reference_do_not_run_twice_by_chance(work):
    work.ingest(report(*unknown(6), uuid='small', mode='nightly'))
    assert work.compare()['again'] == []
    work.reference(*(reference(check=f'Check{i:02}', params='-', metric='rate', mean=100.0 + i) for i in range(25)))
    work.ingest(report(*unknown(25), uuid='large', mode='nightly', began=BEGAN + 86400))
    assert work.compare()['again'] == []


@pytest.mark.parametrize(('purpose', 'verdict'), [('', 'regressed'), ('node', 'ok')])
def test_jobs_that_ran_to_judge_a_node_confirm_no_loss_of_the_case(work, purpose, verdict):
    """A first job alone is no loss; eight further ones that lost as much are, unless they ran because of a node."""
    work.reference(reference(mean=100.0, std=1.0, n=10))
    first = case(metrics={'triad': metric([96.0, 96.1])}, nodes=('n1',))
    content = report(first, uuid='night', mode='nightly')
    for number in range(8):
        further = case(metrics={'triad': metric([96.0, 96.1])}, nodes=(f'n{number + 2}',))
        content = again_of(content, [further | {'plumbline_purpose': purpose}])
    work.ingest(content)
    (row,) = work.compare()['verdicts']
    assert row['verdict'] == verdict


def job(rng, check, partition, node, swept, **fields):
    """An entry of a case that may fail, or measure one of its two series only."""
    values = {name: metric([rng.gauss(100, 1)] if rng.random() < 0.7 else ()) for name in ('copy', 'triad')}
    name = f'{check} %size=big' + f' %.nid={node}' * swept
    failed = {'result': 'fail', 'fail_phase': 'run'} if rng.random() < 0.3 else {}
    of = {'nodes': (node,), 'partition': partition, 'display_name': name, 'unique_name': name}
    return case(check, metrics=values, missing=dict.fromkeys(values, 'none'), **of, **failed, **fields)


def sessions_with_further_jobs(work):
    """A store of six sessions, whose cases on a node, and places of a node sweep, ran again for each reason."""
    rng = random.Random(1)
    places = [('Sweep', 'cpu', f'n{i}', True) for i in range(6)]
    places += [(check, partition, 'n1', False) for check in ('HPL', 'IOR') for partition in ('cpu', 'gpu')]
    for night in range(6):
        content = report(*(job(rng, *place) for place in places), uuid=f'{night}', began=BEGAN + night * 86400)
        for purpose in ('', 'node', 'look'):
            again = [(*name, 'n9' if purpose == 'node' and not swept else node, swept)
                     for *name, node, swept in rng.sample(places, 6)]  # fmt: skip
            content = again_of(content, [job(rng, *place, plumbline_purpose=purpose) for place in again])
        work.ingest(content)
    store = Store(work.results)
    return store, store.sessions(SITE)


def test_the_first_jobs_that_queries_read_are_those_that_a_verdict_is_of(work):
    """Also if a case measured a series only when it ran again, on its place of a node sweep or for a node in doubt."""
    store, sessions = sessions_with_further_jobs(work)
    rows = store.select('FROM first_jobs', sessions)
    first = {(row['night'], row['id'], row['case_id'], row['mean']) for row in rows}
    assert len(first) == len(rows) and any(row['round'] for row in rows)
    assert first == {
        (night, row.id, row.case_id, row.measuring[0].value)
        for night, session in enumerate(sessions) for row in measured_in(store, session) if row.measuring
    }  # fmt: skip


def test_the_jobs_of_an_earlier_session_are_those_that_it_was_judged_by(work):
    """On each node of a node sweep, in order, and without those that ran because a node was in doubt."""
    store, sessions = sessions_with_further_jobs(work)
    of_series = Reference(TRIAD, Quantity('GB/s', 'higher'), 100.0, 1.0, 10, 'baseline', 'x', recorded_at='2000-01-01')
    *before, tonight = (
        [Facts(row, [(replace(of_series, id=row.id), None)]) for row in measured_in(store, one)] for one in sessions
    )
    since = earlier_sessions(store, sessions[-1], tonight).since
    several = {id for id, number in Counter(row.measured.id for row in tonight).items() if number > 1}
    found = [
        [value for row in rows if row.measured.id == of.measured.id
         and (of.measured.id not in several or row.measured.nodes == of.measured.nodes) for value in row.jobs]
        for of in tonight for rows in before
    ]  # fmt: skip
    assert [values[numpy.isfinite(values)].tolist() for of in since for values in of] == [
        approx(jobs) for jobs in found
    ]
    assert {len(jobs) for jobs in found} > {0, 1, 2} and several

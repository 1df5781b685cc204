# SPDX-License-Identifier: BSD-3-Clause
"""Which further jobs `plumbline compare` asks for, and what jobs that ran for another reason say."""

import pytest
from run_reports import BEGAN, case, metric, reference, report


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

# SPDX-License-Identifier: BSD-3-Clause
"""Jobs with other CPUs, memory or GPUs than their baseline are a problem of the session, and none of them counts."""

import csv

import pytest
from rows import each_row
from run_reports import BEGAN, DAY, baseline, case, metric, record, report

from postprocess.verdicts.hardware import unlike

WHOLE = {'cpus': '2', 'memory': '24 GiB', 'gpus': '2 x A; 1 x B'}
HALF = WHOLE | {'cpus': '1 of 2'}


def night(work, number, value=100.0, facts=WHOLE):
    """Ingest a session of two metrics of one case."""
    metrics = {name: metric([0.999 * value, 1.001 * value]) for name in ('triad', 'copy')}
    entry = case(metrics=metrics, provenance=dict(facts))
    work.ingest(report(entry, uuid=f'{number:08x}', began=BEGAN + number * DAY))


@pytest.fixture
def recorded(work):
    """A site with the baseline of a night."""
    night(work, 1)
    record(work)
    return work


@each_row(
    ('had', 'says'),
    [
        ({'cpus': '1 of 2'}, ['1 of 2 CPUs', '2']), ({'cpus': '1'}, ['1 CPU ']), ({'cpus': '4'}, ['4 CPUs']),
        ({'cpus': '2 of 4'}, []), ({'memory': '23 GiB'}, []), ({'memory': '12 GiB'}, ['12 GiB of memory', '24 GiB']),
        ({'gpus': '1 x A; 1 x B'}, ['1 x A', '2 x A']), ({'cpus': ''}, []),
    ],
)  # fmt: skip
def test_what_differs_is_said_with_both_numbers(had, says):
    found = unlike(WHOLE | had, WHOLE | {'gpus': '2 x A, 1 x B'})
    assert bool(found) is bool(says) and all(word in found for word in says)


def test_half_of_the_cpus_is_named_first_and_nothing_is_improved(recorded):
    night(recorded, 2, 130.0, HALF)
    document = recorded.compare()
    assert document['exit_code'] == 1
    assert document['counts'] == {'invalid': 2}
    (incident,) = document['incidents']
    for said in (document['problems'][0], incident['what']):
        assert 'n1' in said and '1 of 2 CPUs' in said and '(in the baseline 2)' in said
    for table, rows in (('verdicts', 2), ('findings', 1)):
        exported = recorded.run('export --days 1 --to csv --table', table).stdout
        assert [row['code'] for row in csv.DictReader(exported.splitlines()) if row['code']] == ['settings'] * rows
    summary = recorded.run('compare', '--summary')
    assert summary.exit_code == 1 and 'improved' not in summary.stdout
    assert '1 of 2 CPUs' in ' '.join(recorded.run('status').stdout.split())
    assert recorded.run('report').exit_code == 1
    assert '1 of 2 CPUs' in (recorded.results / 'report.html').read_text()


def test_the_nights_after_are_judged_as_if_it_had_not_been(recorded):
    for number in (2, 4):
        night(recorded, number, 97.0)
    never = [row['p'] for row in recorded.compare()['verdicts']]
    night(recorded, 3, 60.0, HALF)
    assert [row['p'] for row in recorded.compare()['verdicts']] == never
    recorded.compare('00000003')
    assert recorded.compare()['exit_code'] == 0


def test_a_baseline_takes_no_night_with_other_hardware(recorded):
    night(recorded, 2, 130.0, HALF)
    night(recorded, 3)
    proposed = recorded.run('record propose')
    assert 'left out: session 00000002' in proposed.stdout and '1 of 2 CPUs' in proposed.stdout
    recorded.run('record accept')
    assert {(row.n, round(row.mean)) for row in baseline(recorded).values()} == {(2, 100)}


def test_of_the_first_nights_those_with_all_cpus_become_the_baseline(work):
    for number, facts in ((1, HALF), (2, WHOLE), (3, HALF)):
        night(work, number, facts=facts)
    work.run('record propose')
    work.run('record accept')
    assert {row.facts['sessions'] for row in baseline(work).values()} == {'00000002'}


def test_a_planned_change_is_recorded_by_its_name(recorded):
    more = WHOLE | {'cpus': '4', 'memory': '48 GiB'}
    night(recorded, 2, 200.0, more)
    assert recorded.compare()['counts'] == {'invalid': 2}
    assert recorded.run('record propose', '00000002', '--epoch', 'new node').exit_code == 0
    recorded.run('record accept')
    assert recorded.compare()['counts'] == {'ok': 2}
    night(recorded, 3, 200.0, more)
    document = recorded.compare()
    assert (document['exit_code'], document['problems']) == (0, [])

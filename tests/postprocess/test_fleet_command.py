# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline fleet` on stored sessions, and the ledger of slow nodes."""

import csv
import io
import json
import re

import numpy
import pytest
from lxml import html
from run_reports import BEGAN, SITE, case, metric, reference, report

from plumbline.references import RECORDED
from postprocess.incidents import ledger

DAY = 86400
RECORDED_ROW = reference() | dict.fromkeys(RECORDED, '')


def sessions(work, nodes=12, nights=8, slow=None, seed=5, provenance=None, jobs=None, first=0, better='higher'):
    """Ingests nights with a value a node, or a job of several; `slow`: (node or nodes, night) -> share that is left."""
    rng = numpy.random.default_rng(seed)
    names = jobs or [(f'n{i}',) for i in range(nodes)]
    levels = 100 * numpy.exp(0.02 * rng.standard_normal(len(names)))
    reports = []
    for night in range(nights):
        values = levels * numpy.exp(0.003 * rng.standard_normal(len(names)) + 0.005 * rng.standard_normal())
        entries = []
        for name, value in zip(names, values, strict=True):
            left = (slow or (lambda name, night: 1))(','.join(name), first + night)
            facts = (provenance or (lambda name, night: {}))(name[0], first + night)
            entry = case(metrics={'triad': metric([value * left] * 2, better=better)}, nodes=name, provenance=facts)
            entries.append(entry | {'unique_name': '_'.join(name)})
        reports.append(report(*entries, uuid=f'{first + night:04}', began=BEGAN + (first + night) * DAY))
    work.ingest(*reports)


def events(work, *words, code=1):
    result = work.run('fleet', *words, '--format', 'json')
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    return [(event['kind'], event['where']) for event in document['events']], document


def test_every_node_is_listed_as_the_page_has_it(work):
    sessions(work, slow=lambda name, night: 0.9 if name == 'n3' else 1, nights=1)
    work.reference(reference())
    answer = work.run('fleet', '--nodes', '--format', 'csv')
    rows = list(csv.DictReader(io.StringIO(answer.stdout)))
    assert work.run('report').exit_code < 2
    table = html.fromstring((work.results / 'report.html').read_text()).get_element_by_id('fleet')
    named = [head.get('data-column') for head in table.find('thead/tr')]
    assert named == [name for name in rows[0] if name in named] and {'name', 'furthest', 'worst'} <= set(named)
    shown = [{cell.get('data-column'): cell.text_content() for cell in row} for row in table.find('tbody')]
    assert [row['name'] for row in shown] == [row['name'] for row in rows] and len(rows) == 12
    for on_page, row in zip(shown, rows, strict=True):
        assert on_page['furthest'] == f'{round(float(row["furthest"]), 1) + 0.0:+.1f} %'
    heads = re.split('  +', work.run('fleet', '--nodes').stdout.splitlines()[0].strip())
    assert [head.text_content().lower() for head in table.find('thead/tr')] == heads
    assert {name for name in rows[0] if any(row[name] for row in rows)} == set(named), 'what is empty is left out'


def test_a_healthy_site(work):
    sessions(work)
    assert events(work, code=0)[0] == []
    assert 'cluster: 12 nodes in session 0007, compared over 8 sessions' in work.run('fleet').stdout
    assert not (work.results / 'incidents').exists()


def test_a_node_is_flagged_kept_in_the_ledger_and_proposed_to_be_drained_the_second_time(work):
    def slow(name, night):
        return 0.9 if name == 'n3' and night > 6 else 1

    sessions(work, nights=8, slow=slow)
    work.run('compare')
    found, document = events(work, '0007')
    assert found == [('NODE', 'n3')]
    assert document['drain'] == {}
    assert document['events'][0]['change'] == pytest.approx(-10, abs=2)
    sessions(work, nights=1, first=8, slow=slow)
    work.run('compare')
    shown = work.run('fleet', '0008')
    proposal = work.results / 'proposals/drain-cluster-2026-11-29.txt'
    assert proposal.read_text() == (
        "scontrol update NodeName=n3 State=DRAIN Reason='plumbline 2026-11-29 STREAM triad "
        f"{events(work)[1]['events'][0]['change']:+.1f} %, not for the first time'\n"
    )
    assert 'a proposal to drain 1 node; no node was drained' in shown.stdout
    assert [(entry.date, entry.session, entry.node) for entry in ledger.entries(work.results, SITE)] == [
        ('2026-11-28', '0007', 'n3'),
        ('2026-11-29', '0008', 'n3'),
    ]


def test_a_node_is_still_flagged_after_many_slow_nights(work):
    """Slow in its last 55 of 70 nights, and there is no ledger: what it was is read from the first sessions."""
    sessions(work, nodes=10, nights=70, slow=lambda name, night: 0.95 if name == 'n3' and night >= 15 else 1)
    found, document = events(work)
    assert found == [('NODE', 'n3')]
    assert document['events'][0]['change'] == pytest.approx(-5, abs=1)
    assert document['sessions'] == 50  # of 30 days, and the first 20 sessions


def test_the_sessions_of_the_baseline_tell_what_a_node_should_be(work):
    sessions(work, nights=26, slow=lambda name, night: 0.95 if name == 'n3' and night >= 8 else 1)
    assert events(work)[0] == [('NODE', 'n3')]
    # recorded from sessions in which the node was as slow as now, and accepted
    row = {'params': 'size=big', 'mean': 90, 'provenance': f'sessions={", ".join(f"{n:04}" for n in range(10, 20))}'}
    lines = [list(RECORDED_ROW), list((RECORDED_ROW | {key: str(value) for key, value in row.items()}).values())]
    work.baseline.write_text(''.join(','.join(f'"{cell}"' for cell in line) + '\n' for line in lines))
    assert events(work, code=0)[0] == []


def test_all_nodes_that_are_slow_together_are_the_system_and_no_node(work):
    """16 nodes lost 7 % with a new kernel."""
    sessions(
        work, nodes=16, slow=lambda name, night: 0.93 if night == 7 else 1,
        provenance=lambda name, night: {'kernel': '6.5' if night == 7 else '6.1'},
    )  # fmt: skip
    ((kind, where),), document = events(work)
    assert (kind in ('SYSTEM', 'SOFTWARE'), where) == (True, 'cpu')
    assert document['drain'] == {}
    assert document['events'][0]['evidence'] == ['kernel: 6.1 -> 6.5']


def test_a_night_looked_at_again_is_in_the_ledger_once(work):
    sessions(work, slow=lambda name, night: 0.9 if name == 'n3' and night == 7 else 1)
    first = [work.compare()['incidents'] for _ in range(3)]
    assert first[0] == first[1] == first[2]
    assert len(ledger.entries(work.results, SITE)) == len(ledger.read_ledger(work.results, SITE)) == 1


def test_a_name_of_a_node_cannot_become_a_command(work):
    slow = 'n3; rm -rf /'
    names = [(f'n{i}',) for i in range(8)] + [(slow,)]
    for first, nights in ((0, 8), (8, 1)):
        sessions(
            work, nights=nights, first=first, jobs=names,
            slow=lambda name, night: 0.8 if name == slow and night > 6 else 1,
        )  # fmt: skip
        work.run('compare')
    events(work)
    (line,) = next(work.results.glob('proposals/drain-*')).read_text().splitlines()
    assert line.startswith("scontrol update NodeName='n3; rm -rf /' State=DRAIN Reason=")


def test_a_loss_of_all_is_of_the_system_or_of_its_software(work):
    sessions(work, nights=8, slow=lambda name, night: 0.9 if night == 7 else 1)
    assert events(work)[0] == [('SYSTEM', 'cpu')]
    sessions(
        work, nights=1, first=8, slow=lambda name, night: 0.85,
        provenance=lambda name, night: {'kernel': '6.5'},
    )  # fmt: skip
    assert events(work)[0] == [('SYSTEM', 'cpu')]  # the nights before say nothing of their kernel


def test_a_loss_with_a_new_kernel_is_of_the_software(work):
    sessions(
        work, slow=lambda name, night: 0.9 if night == 7 else 1,
        provenance=lambda name, night: {'kernel': '6.5' if night == 7 else '6.1', 'load_average': f'{night}'},
    )  # fmt: skip
    found, document = events(work)
    assert found == [('SOFTWARE', 'cpu')]
    assert document['events'][0]['evidence'] == ['kernel: 6.1 -> 6.5']


@pytest.mark.parametrize('nights', [1, 8])
def test_a_node_whose_software_is_unlike_that_of_the_others(work, nights):
    def is_it(name, night):
        return (name, night) == ('n3', nights - 1)

    sessions(
        work, nights=nights, nodes=20, slow=lambda name, night: 0.7 if is_it(name, night) else 1,
        provenance=lambda name, night: {'governor': 'powersave' if is_it(name, night) else 'performance'},
    )  # fmt: skip
    found, document = events(work)
    assert found == [('SOFTWARE', 'n3')]
    (said,) = document['events'][0]['evidence']
    assert said in ('governor: performance -> powersave', 'governor: powersave, elsewhere performance')
    assert document['drain'] == {}


PAIRS = [(f'n{i}', f'n{j}') for i in range(8) for j in range(i + 1, 8)]


def test_jobs_that_share_a_node_tell_of_the_node(work):
    sessions(work, jobs=PAIRS, slow=lambda name, night: 0.8 if night == 7 and 'n3' in name.split(',') else 1)
    assert events(work)[0] == [('NODE', 'n3')]


def test_jobs_that_share_a_switch_tell_of_the_fabric(work):
    (work.sites / SITE / 'locations.csv').write_text(
        'node,switch,chassis\n' + ''.join(f'n{i},s{i // 2},c{i // 4}\n' for i in range(8))
    )

    def slow(name, night):
        return 0.8 if night == 7 and {'n4', 'n5'} & set(name.split(',')) else 1

    sessions(work, jobs=PAIRS, slow=slow)
    found, document = events(work)
    assert found == [('FABRIC', 'switch s2')]
    assert document['events'][0]['evidence'] == ['slow: 13 of 13 jobs over several nodes there']


def test_one_slow_job_of_several_nodes_is_between_them(work):
    sessions(work, jobs=PAIRS, slow=lambda name, night: 0.8 if night == 7 and name == 'n2,n5' else 1)
    assert events(work)[0] == [('FABRIC', 'n2,n5')]


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        ('name,switch\nn1,s1\n', '1: expected the columns node and at least one kind of place'),
        ('node,switch\nn1,s1,c1\n', '2: node n1: expected one row of 2 columns'),
        ('node,switch\nn1,s1\nn1,s2\n', '3: node n1: expected one row of 2 columns'),
        ('', '1: expected the columns node and at least one kind of place'),
    ],
)
def test_a_wrong_location_table_is_named(work, text, says):
    sessions(work, nights=1)
    path = work.sites / SITE / 'locations.csv'
    path.write_text(text)
    result = work.run('fleet')
    assert result.exit_code == 2
    assert result.stderr.startswith(f'plumbline: {path}:{says}')


def test_a_wrong_ledger_is_named(work):
    sessions(work, nights=1)
    path = work.results / f'incidents/{SITE}.jsonl'
    path.parent.mkdir(parents=True)
    path.write_text('{"what": "known"}\n')
    result = work.run('fleet')
    assert result.exit_code == 2
    assert result.stderr.startswith(f'plumbline: {path}: line 1 is not a note on incidents, or damaged (')


def test_a_node_that_ran_a_case_twice_counts_once(work):
    sessions(work, jobs=[(f'n{i % 12}',) for i in range(24)])
    assert events(work, code=0)[1]['nodes'] == 12

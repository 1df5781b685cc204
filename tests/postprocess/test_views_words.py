# SPDX-License-Identifier: BSD-3-Clause
"""What commands name of a site, a baseline, a plan, a trend, a session and its incidents."""

import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.history import plan as plans
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Known, Seen
from postprocess.site_check import Checked
from postprocess.verdicts.verdict import Verdict
from postprocess.views import baseline, history, incidents, nodes, plan, sites, standing, table, verdicts

CASE = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY = CASE.series('triad', ()), CASE.series('copy', ())
RATE = Quantity('GB/s', 'higher')


def stub(**fields):
    return SimpleNamespace(**fields)


# A site


def site(**fields):
    known = {
        'site': 'demo', 'unknown': [], 'description': 'a cluster', 'partitions': 1, 'stacks': [], 'sessions': 2,
        'mode': 'quick',
        'ran': 1, 'expected': 2, 'started': datetime(2026, 11, 22, 10, 38), 'recorded': '2026-11-20', 'rows': 1,
        'of': 3,
        'incidents': {'open': 1, 'healing': 2}, 'verdicts': '2 ok', 'coverage': 'all',
        'next': 'run `ci/nightly --site x`',
        'faults': dict, 'linkage': lambda: 'all linked',
    }  # fmt: skip
    return stub(**known | fields)


@pytest.fixture
def utc(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv('TZ', 'UTC')
        time.tzset()
        yield
    time.tzset()


NOW = datetime(2026, 11, 23, 1)


@each_row(('fields', 'unfinished', 'line', 'named', 'absent'), [
    ({}, '', 'session', ['2026-11-22 10:38 UTC', 'quick', 'yesterday', '1 of 2 cases', '2 sessions'], []),
    ({}, '', 'site', ['demo', 'a cluster', '1 partition'], []), ({}, '', 'verdicts', ['2 ok'], []),
    ({}, '', 'baseline', ['1 row of 3 sessions', '2026-11-20', '3 days ago'], []),
    ({}, '', 'incidents', ['1 open', '2 healing'], []), ({}, '', 'next', ['`ci/nightly --site x`'], []),
    ({'stacks': ['a', 'b'], 'faults': lambda: {'cpu of demo': 'not installed'}}, '', 'stacks',
     ['cpu of demo: not installed', '`ci/provision --site demo`'], ['more']),
    ({'stacks': ['a', 'b'], 'faults': lambda: {'a': 'gone', 'b': 'old', 'c': 'x'}}, '', 'stacks',
     ['a: gone', '2 more', '`ci/provision --site demo`'], []),
    ({'stacks': ['a', 'b']}, '', 'stacks', ['2 stacks installed', 'all linked'], []),
    ({'mode': ''}, '', 'session', ['10:38 UTC, yesterday'], ['quick']),
    ({'rows': 0}, '', 'baseline', ['none'], ['row']), ({'recorded': ''}, '', 'baseline', ['3 sessions'], ['2026']),
    ({'recorded': '2026-11-23'}, '', 'baseline', ['2026-11-23, today'], []),
    ({'started': datetime(2026, 11, 22, 23, 30)}, '', 'session', ['23:30 UTC, quick, 1 h ago'], []),
    ({'incidents': {}}, '', 'incidents', ['none'], ['open']),
    ({}, 'it measures', 'now', ['it measures'], []),
])  # fmt: skip
def test_where_a_site_stands(utc, fields, unfinished, line, named, absent):
    said = standing.lines(site(**fields), NOW, unfinished).replace(f'\n{11 * " "}', ' ')
    lines = dict(line.split(maxsplit=1) for line in said.splitlines())
    assert [name for name in named if name not in lines[line]] == [], lines[line]
    assert [name for name in absent if name in lines[line]] == []


@each_row(('then', 'now', 'says'), [
    ('22 23:51', '23 00:09', '18 min ago'), ('22 23:51', '22 23:51', 'just now'), ('22 23:51', '22 23:52', '1 min ago'),
    ('22 23:51', '23 00:50', '59 min ago'), ('22 23:51', '23 00:51', '1 h ago'), ('22 23:51', '23 05:59', '6 h ago'),
    ('22 23:51', '23 06:00', 'last night'), ('22 18:00', '23 23:00', 'last night'),
    ('23 05:59', '23 09:00', 'last night'),
    ('23 06:00', '23 23:30', '17 h ago'), ('22 17:59', '23 09:00', 'yesterday'), ('22 10:38', '23 01:00', 'yesterday'),
    ('20 23:51', '23 00:09', '3 days ago'), ('21 23:51', '23 08:00', '2 days ago'),
    ('23 12:00', '23 11:00', 'just now'),  # another host's clock is ahead
])  # fmt: skip
def test_ages_are_told_as_people_say_them(then, now, says, utc):
    assert standing.ago(*(datetime.fromisoformat(f'2026-11-{time}') for time in (then, now))) == says


def test_which_night_it_was_is_told_in_the_time_zone_of_the_host(utc, monkeypatch):
    then, now = datetime(2026, 11, 22, 13), datetime(2026, 11, 23, 0)
    assert standing.ago(then, now) == '11 h ago'
    monkeypatch.setenv('TZ', 'Asia/Tokyo')  # from 22:00 to 9:00
    time.tzset()
    assert standing.ago(then, now) == 'last night'


def test_a_site_without_sessions_has_its_next_step_or_what_runs_now():
    first = 'site       demo: a cluster; 1 partition\nsession    none yet\n'
    assert standing.lines(site(sessions=0), NOW) == first + 'next       run `ci/nightly --site x`'
    assert standing.lines(site(sessions=0), NOW, 'it measures') == first + 'now        it measures'


@each_row(('checked', 'says'), [
    ([Checked('a', nodes=['x', 'y'], references=3)], 'ok: 2 partitions, 3 references'),
    ([Checked('a', nodes=['x'], references=1, cases=2)], 'ok: 2 cases, 1 reference'),
    ([Checked('a', cases=2, scripts=1)], 'ok: 2 cases, 1 job script'),
    ([Checked('a', nodes=['x'], references=1), Checked('b', nodes=['y'], references=2)],
     'ok: 2 sites, 2 partitions, 3 references'),
    ([Checked('a')], 'ok: '), ([Checked('a', mistakes=['x']), Checked('b', mistakes=['y', 'z'])], '3 mistakes'),
])  # fmt: skip
def test_what_was_checked_is_told_of_all_sites_together(checked, says):
    assert sites.outcome(checked) == says


def test_a_partition_is_told_with_its_widest_units_and_its_devices():
    of = stub(
        name='gpu', environs=['system'], memory_bytes=2**39, flop_per_cycle={'a_dp': 16.0, 'b_dp': 32.0, 'c_sp': 64.0},
        processor={'num_cpus': 256, 'num_sockets': 2, 'num_cpus_per_core': 2, 'arch': 'zen3'},
        entry={'scheduler': 'slurm', 'peaks': {'memory_bandwidth': '100 GB/s', 'flop_per_cycle': 1},
               'devices': [{'type': 'gpu', 'num_devices': 4}, {'type': 'gpu', 'num_devices': 2, 'model': 'A100'}]},
    )  # fmt: skip
    known = sites._partition(of)
    assert known == {
        'partition': 'gpu', 'scheduler': 'slurm', 'environs': ['system'], 'memory': '512 GiB',
        'processor': 'zen3, 2 sockets, 128 cores, 256 threads', 'devices': ['4 x gpu', '2 x A100'],
        'peaks': {'memory_bandwidth': '100 GB/s', 'flop_per_cycle.b_dp': '32'},
    }  # fmt: skip
    bare = sites._partition(stub(name='x', environs=[], memory_bytes=None, flop_per_cycle={}, processor={}, entry={}))
    assert bare == {
        'partition': 'x',
        'scheduler': '',
        'environs': [],
        'memory': '',
        'processor': '',
        'devices': [],
        'peaks': {},
    }
    unnamed = sites._processor({'num_cpus': 1, 'num_sockets': 1, 'num_cpus_per_core': 1})
    assert unnamed == 'unnamed processor, 1 socket, 1 core, 1 thread'


# A baseline


def row(of=TRIAD, old=None, **fields):
    """A proposed row of 100 GB/s, with a limit of 95, in the place of one of `old`."""

    def reference(mean):
        return Reference(of, RATE, mean, 1.0, 3, 'baseline', 'session x', recorded_at='2026-11-20')

    def limit(mean):
        return Limits(0.95 * mean, mean, 0.05, 'the floor')

    known = {
        'new': reference(100.0), 'new_limits': limit(100.0), 'old': old and reference(old),
        'old_limits': old and limit(old),
        'what': 'changed' if old else 'new', 'difference': old and 100 * (100 / old - 1), 'objections': [],
        'withheld': False,
    }  # fmt: skip
    return stub(**known | fields)


def proposal(**fields):
    sessions = [
        stub(session=f'night{day}-and-more', short_name=f'night{day}-', day=f'2026-11-{day}') for day in (20, 21)
    ]
    known = {
        'site': 'demo', 'rows': [], 'refused': [], 'taken': sessions, 'left_out': {}, 'unusable': [], 'doubted': False,
        'ended': {}, 'in_force': frozenset(),
    }  # fmt: skip
    return stub(**known | fields)


def test_a_proposal_tells_what_is_new_withheld_refused_and_left_out():
    doubt = [stub(why='busy'), stub(why='an incident')]
    refused = [
        stub(id=TRIAD, cause='failed: x', sessions=('a', 'b')), stub(id=COPY, cause='failed: x', sessions=('a', 'b')),
        stub(id=COPY, cause='no number', sessions=()), stub(id=COPY, cause='lost', sessions=tuple('abc')),
        stub(id=TRIAD, cause='lost', sessions=tuple('abcd')),
    ]  # fmt: skip
    found = proposal(
        rows=[row(COPY, objections=doubt, withheld=True), row(TRIAD, 80.0)], refused=refused, unusable=['night9'],
        left_out={'night19-and-more': 'it is narrowed'}, doubted=True,
        ended={TRIAD: stub(short_name='night20-')}, in_force=frozenset((TRIAD, COPY)),
    )  # fmt: skip
    shown = baseline.proposal(found, Path('p.csv'), ['advice'], lambda words: f'<{words}>')
    assert 'demo' in shown.before and len(shown.faults) == 1 and 'night9' in shown.faults[0]
    withheld, taken, left, *refused, ended, next_step, advice, where = shown.notes
    assert all(word in withheld for word in ('STREAM size=big copy', 'busy', 'an incident'))
    assert all(word in taken for word in ('2 sessions', '2026-11-20 to 2026-11-21', 'night20-, night21-'))
    assert 'night19-' in left and 'it is narrowed' in left
    assert [note.partition(' STREAM size=big ')[2] for note in refused] == [
        'triad, copy: failed: x (session a, b)', 'copy: no number', 'copy: lost (session a, b, c)',
        'triad: lost (4 sessions)',
    ]  # fmt: skip
    assert 'triad' in ended and 'night20-' in ended and "<record retire 'STREAM triad' --why REASON>" in ended
    assert '<record propose --although REASON>' in next_step and '--epoch NAME>' in next_step and advice == 'advice'
    assert all(word in where for word in ('p.csv', '1 row', '<record accept>'))
    copy, triad = shown.rows
    assert {key: triad[key] for key in (
        'metric', 'change', 'old_mean', 'old_std', 'old_unit', 'old_limit', 'mean', 'limit', 'limit_why', 'difference',
        'objections',
    )} == {
        'metric': 'triad', 'change': 'changed', 'old_mean': 80.0, 'old_std': 1.0, 'old_unit': 'GB/s', 'old_limit': 76.0,
        'mean': 100.0, 'limit': 95.0, 'limit_why': 'the floor', 'difference': 25.0, 'objections': [],
    }  # fmt: skip
    assert {key: copy[key] for key in ('metric', 'change', 'old_mean', 'old_unit', 'old_limit', 'objections')} == {
        'metric': 'copy', 'change': 'new', 'old_mean': None, 'old_unit': '', 'old_limit': None,
        'objections': ['busy', 'an incident'],
    }  # fmt: skip
    assert shown.document['withheld'] == ['cpu/system STREAM size=big copy: busy; an incident']
    assert shown.document['taken'] == ['night20-and-more', 'night21-and-more']


def test_of_many_sentences_of_a_proposal_the_first_20_are_told():
    left = {f'night{number:03}': 'narrowed' for number in range(22)}
    sessions = [stub(session='', short_name=f'{number:08}', day='2026-11-20') for number in range(21)]
    shown = baseline.proposal(proposal(left_out=left, taken=sessions), None, '', str)
    taken, *notes = shown.notes
    assert taken == 'taken: 21 sessions of 2026-11-20: 00000000, ..., ' + ', '.join(f'{i:08}' for i in range(2, 21))
    assert len(notes) == 21 and notes[19:] == ['left out: session night019: narrowed', 'and 2 sessions more']
    shown = baseline.proposal(proposal(left_out=dict(list(left.items())[:20]), taken=sessions[:20]), None, '', str)
    assert len(shown.notes) == 21 and shown.notes[0].endswith(', '.join(f'{i:08}' for i in range(20)))
    assert shown.notes[-1] == 'left out: session night019: narrowed'
    assert baseline.proposal(proposal(taken=[]), None, '', str).notes == []


# A plan, a trend, nodes


def look(name, nodes=1, seconds=60.0):
    return plans.PossibleCase(plans.CaseName('cpu', 'system', name), seconds, nodes, 1.0, None, {})


def a_plan(**fields):
    looks = [look('A'), look('B', 2, 90.0), look('C'), look('D'), look('E')]
    fault = {name: stub(name=name, where='node', source='x') for name in ('slow', 'cold', 'worn', 'none', 'half')}
    known = {
        'site': 'demo', 'minutes': 4.0, 'budget': 240.0, 'longest': 7, 'looks': looks, 'chosen': looks[:2],
        'rotation': 1,
        'coverage': [
            plans.Coverage(fault['slow'], True, 0.9, 0.95, 1.0), plans.Coverage(fault['cold'], True, 0.1, 0.5, 0.2),
            plans.Coverage(fault['worn'], True, 0.1, 0.4, 0.2), plans.Coverage(fault['none'], False, 0.0, 0.0, 0.0),
            plans.Coverage(fault['half'], True, 0.5, 0.5, 0.5),
        ],
        'share': 0.9, 'late': [], 'too_long': [], 'unguarded': 0, 'reason': lambda one: f'why {one.place.name}',
    }  # fmt: skip
    return stub(**known | fields)


def test_a_plan_tells_what_it_finds_and_what_it_does_not():
    shown = plan.plan(a_plan(), why=False)
    # 60 and 2 x 90 of 60 + 180 + 3 x 60 node-seconds; 0.9 + 0.1 + 0.1 + 0.5 are 1.6, 0.95 + 0.5 + 0.4 + 0.5 are 2.35
    assert all(word in shown.before for word in ('demo', '2 of 5 cases', '1 of them by rotation', '4 min of 7 min'))
    lines = [line.split() for line in shown.after.splitlines()]
    assert [line for line in lines if '%' in line] == [
        line.split() for line in (
            'slow node 90 % 100 % 95 %', 'cold node 10 % 20 % 50 %', 'worn node 10 % 20 % 40 %',
            'half node 50 % 50 % 50 %',
        )
    ]  # fmt: skip
    uncovered = [line for line in shown.after.splitlines() if line.startswith('not covered')]
    assert [line.rpartition(': ')[2] for line in uncovered] == ['cold', 'worn', 'none']
    assert 'ci/node-sweep' in uncovered[1] and 'no case' in uncovered[2]
    assert all(word in shown.after for word in ('OK', '1.6 of 4', '2.4', '`ci/nightly --minutes 4 --nodes 1`'))
    assert [(one['name'], one['nodes'], one['seconds'], one['why']) for one in shown.rows] == [
        ('A', 1, 60.0, 'why A'), ('B', 2, 90.0, 'why B'),
    ]  # fmt: skip
    assert (shown.document['spent'], shown.document['whole']) == (240.0, 420.0)
    assert 'why A' not in shown.render('table') and 'why A' in plan.plan(a_plan(), why=True).render('table')
    two = plan.plan(a_plan(budget=480.0), False)
    assert two.after.endswith('`ci/nightly --minutes 4` runs it')


def test_a_plan_that_is_too_short_or_leaves_something_out_says_so():
    looks = a_plan().looks
    shown = plan.plan(a_plan(late=looks, too_long=looks[:3], unguarded=2, coverage=[]), False)
    waits, long, unjudged = (line for line in shown.after.splitlines() if line.startswith('not covered'))
    assert '7 days' in waits and 'A (1 min), B (3 min), C (1 min) and 2 more' in waits
    assert long.endswith('A (1 min), B (3 min), C (1 min)') and '2 series' in unjudged
    assert 'TOO SHORT' in shown.after and 'OK' not in shown.after


def test_a_trend_has_each_number_in_its_column():
    days = [stub(day=f'2026-11-0{day}', session=f's{day}') for day in range(1, 5)]
    change = stub(
        series=TRIAD, quantity=RATE, kind='step', since=days[2], before=days[1], session=days[2], was=100.0,
        became=90.0,
        change=-10.0, sessions=2, with_it=['kernel: a -> b'],
    )  # fmt: skip
    found = stub(
        site='demo', sessions=days, examined=1, changes=[change], left_out=['copy: two units'],
        recent=lambda n: [change] if n == 3 else [],
    )  # fmt: skip
    shown = history.trend(found, 3)
    assert all(word in shown.before for word in ('demo', '1 metric', '4 sessions', '2026-11-01 to 2026-11-04'))
    (row,) = [line for line in shown.render('table').splitlines() if line.startswith('step')]
    expected = 'step 2026-11-03 cpu/system STREAM size=big triad 100 90 GB/s -10.0 % 2 kernel: a -> b'
    assert ' '.join(row.split()) == expected
    assert 'copy: two units' in shown.render('table') and '1 change' in shown.after and '3 sessions' in shown.after
    assert history.trend(found, 1).after == '0 changes for the worse in the last 1 session, 1 in all'


def test_a_list_of_nodes_counts_those_with_an_incident_and_names_the_proposal():
    of = stub(comparison=stub(session=stub(session='s4')), drain=Path('drain.txt'), to_drain={'n1': 'x'})
    rows = [stub(bad=bad, incidents=ids, to_row=dict) for bad, ids in (([], []), ([3], ['a']), ([], ['b']))]
    shown = nodes.listing(rows, 4, of)
    assert shown.after == '4 nodes in session s4: 2 with an incident, 1 with metrics that fell short'
    (proposal,) = shown.notes
    assert 'drain.txt' in proposal and '1 node;' in proposal
    of.drain = None
    assert nodes.listing([], 0, of).notes == []


# Verdicts


def verdict(kind, of=TRIAD, value=90.0, expected=100.0, **fields):
    reference = expected and Reference(of, RATE, expected, 1.0, 3, 'baseline', 'session x')
    limit = expected and Limits(0.95 * expected, expected, 0.05, 'the floor')
    measured = NOTHING if value is None else Summary(2, value, 1.0, value - 1, value + 1)
    return Verdict(kind, of, RATE, measured, reference, limit, **fields)


def compared(*rows, **fields):
    known = {
        'verdicts': rows, 'problems': [], 'common': [], 'hints': [], 'guard': 'all', 'nothing_to_compare_with': False,
        'scope': 'two sessions', 'word': 'FAILED', 'headline': '1 regressed', 'exit_code': 1, 'counts': {},
        'session': stub(site='demo', session='s1', started=NOW, mode='quick', narrowed_by=()),
    }  # fmt: skip
    return stub(**known | fields)


BAD = verdict('regressed', cause='10 % less')
NEAR = verdict('ok', COPY, 96.0)
WARNING = verdict('warning', CASE.series('add', ()), 99.0, cause='busy')


def test_the_summary_of_two_sessions_has_each_failure_with_its_cause_and_the_worst_of_the_rest():
    found = compared(BAD, NEAR, WARNING, verdict('improved', CASE.series('up', ()), 120.0), problems=['1 ran'],
                     common=['check STREAM lost'], hints=['do this'])  # fmt: skip
    body = [
        '', 'Furthest on the bad side of their references', '  -4.0 %  STREAM size=big copy: 96 GB/s, limit 95',
        '  -1.0 %  STREAM size=big add: 99 GB/s, limit 95', '', 'Problems of the session', '  1 ran', '',
        'Losses in common', '  check STREAM lost', '', 'Failures',
        '  regressed: cpu/system STREAM size=big triad: 10 % less', '', 'Warnings',
        '  warning: cpu/system STREAM size=big add: busy', '', 'do this', 'Guarded: all',
    ]  # fmt: skip
    first, scope = 'FAILED: 1 regressed', 'two sessions'
    assert verdicts.summary(found).splitlines() == [first, scope, *body]
    assert verdicts.summary(found, verdict_last=True).splitlines() == [scope, *body, '', first]
    without = [line for line in body if 'limit' not in line and 'Furthest' not in line][1:]
    assert verdicts.summary(found, alone=False).splitlines() == [scope, *without, '', first]
    assert verdicts.summary(compared(nothing_to_compare_with=True)).splitlines() == [first, scope, '']


def test_the_summary_of_a_night_has_its_incidents_once():
    known = known_incident()
    digest = stub(known=[known], day='2026-11-23', word='FAILED', headline='1 incident open')
    told = verdicts.summary(compared(BAD, NEAR), digest)
    assert told.splitlines()[:2] == ['FAILED: 1 incident open', 'two sessions']
    assert told.count('abc NODE n1') == 1 and 'Furthest' not in told and 'Failures' not in told
    beside = verdicts.summary(compared(BAD, NEAR), digest, alone=False)
    assert beside.splitlines() == ['two sessions', '', 'Guarded: all', '', 'FAILED: 1 incident open']
    quiet = stub(known=[], day='2026-11-23', word='OK', headline='2 ok')
    many = [verdict('ok', CASE.series(f'm{i}', ()), 99.0 - i / 10) for i in range(6)]
    told = verdicts.summary(compared(*many), quiet).splitlines()
    # of a night the four furthest, of two sessions eight
    assert [line.split()[0] for line in told if 'limit' in line] == ['-1.5', '-1.4', '-1.3', '-1.2']
    assert sum('limit' in line for line in verdicts.summary(compared(*many)).splitlines()) == 6


def test_of_many_warnings_the_first_ten_are_told_and_of_one_cause_the_metrics():
    rows = [verdict('warning', CASE.series(f'm{i:02}', ()), cause=f'busy {i}') for i in range(12)]
    assert verdicts._warnings(compared(*rows), None)[9:] == [
        'warning: cpu/system STREAM size=big m09: busy 9',
        'and 2 more',
    ]
    assert len(verdicts._warnings(compared(*rows[:10]), None)) == 10
    digest = stub(known=[stub(incident=stub(series=[rows[0].id]))])
    assert verdicts._warnings(compared(*rows[:2]), digest) == ['warning: cpu/system STREAM size=big m01: busy 1']
    failed = [verdict('failed', CASE.series(name, ()), None, cause='x') for name in 'abcd']
    assert list(verdicts._causes(failed)) == ['failed: cpu/system STREAM size=big 4 metrics: x']
    assert list(verdicts._causes(failed[:3])) == ['failed: cpu/system STREAM size=big a, b, c: x']
    assert list(verdicts._causes([verdict('failed', CASE.series('*', ()), None, cause='x')])) == [
        'failed: cpu/system STREAM size=big: x'
    ]


@each_row(('levels', 'marks', 'expected', 'limit', 'drawn'), [
    (None, (), 100.0, 95.0, ''), ([], (), 100.0, 95.0, ''),
    # from 95 to 105 in seven steps: 100 is the middle one
    ([95.0, 100.0, None, 105.0], (1, 3), 100.0, 95.0, '▁|▄ |▇'), ([90.0, 100.0, 110.0], (0,), 100.0, 95.0, '|▁▄▇'),
    ([1.0, 2.0], (), None, None, '▁▇'), ([2.0, 2.0], (), None, None, '▁▁'), ([None], (), None, None, ' '),
    ([1.0, 2.0], (), 1.5, None, '▁▇'),
])  # fmt: skip
def test_levels_are_drawn_between_the_lowest_and_the_highest(levels, marks, expected, limit, drawn):
    assert verdicts._sparkline(levels, marks, expected, limit) == drawn


def test_a_row_of_a_verdict_has_each_number_in_its_unit():
    bound = {'loss': 0.1, 'interval': (0.05, 0.15), 'window': 3, 'nodes': ('n1',), 'p': 0.01, 'case_id': 7}
    full = verdicts.to_row(verdict('regressed', **bound), 2)
    expected = {
        'verdict': 'regressed', 'value': 90.0, 'std': 1.0, 'n': 2, 'min': 89.0, 'max': 91.0, 'expected': 100.0,
        'expected_std': 1.0, 'expected_n': 3, 'limit': 95.0, 'limit_why': 'the floor', 'loss': 10.0, 'loss_low': 5.0,
        'loss_high': 15.0, 'window': 3, 'nodes': ['n1'], 'places': 2, 'deviation': pytest.approx(-10.0),
        'gate': 'gated',
        'reference_kind': 'baseline', 'epoch': '', 'reference_source': 'session x', 'sd': None, 'df': None,
        'marks': (), 'history': None, 'case_id': 7,
    }  # fmt: skip
    assert {key: full[key] for key in expected} == expected
    none = verdicts.to_row(verdict('no_reference', expected=None))
    assert (none['expected'], none['expected_n'], none['limit'], none['limit_why'], none['loss'], none['loss_low']) == (
        None, None, None, '', None, None,
    )  # fmt: skip
    assert (none['gate'], none['sd'], none['detectable'], none['reference_kind'], none['epoch']) == (
        '',
        None,
        None,
        '',
        '',
    )
    assert verdicts._lost(1.5, 1.0, 2.0, 1) == '1.5 (1.0 to 2.0) %' and verdicts._lost(None, None, 2.0, 3) == ''
    assert verdicts._lost(1.5, 1.0, 2.0, 2) == '1.5 (1.0 to 2.0) % in 2 sessions'
    assert [verdicts._measured(*of) for of in ((None, None, 'x', 2), (1.234, 0.5, 'x', 2), (1.234, None, '1', 1),
                                               (1234.5, 12.0, 'x', None))] == [
        '', '1.23 ± 0.50 x', '1.2', '1234 ± 12 x',
    ]  # fmt: skip
    assert (verdicts._limit(1.256, 1), verdicts._limit(1.256, None)) == ('1.3', '1.256')


def test_a_needed_look_is_told_with_its_doubts():
    found = stub(word='NEEDS A LOOK', headline='2 ok', beside_counts=['1 case ran on busy nodes'])
    assert verdicts.verdict_of(found) == 'NEEDS A LOOK: 1 case ran on busy nodes; 2 ok'
    found.word = 'OK'
    assert verdicts.verdict_of(found) == 'OK: 2 ok'
    narrowed = compared(scope='')
    assert (
        verdicts.origin(narrowed)
        == 'demo, session s1, 2026-11-23 01:00 UTC, mode quick, against the references of the site'
    )
    narrowed.session.narrowed_by, narrowed.session.mode = ('a', 'b'), ''
    assert verdicts.origin(narrowed).endswith('01:00 UTC, narrowed by a, b, against the references of the site')


# Incidents


def known_incident(id='abc', bad=('n1',), healthy=(), **fields):
    of = {
        'cause': '', 'loss': 0.1, 'interval': (0.08, 0.12), 'since': 's1', 'day': '2026-11-22', 'sessions': 2,
        'changed': ('kernel: a -> b',), 'evidence': ('measured 90', 'others 100', 'third'),
        'values': {TRIAD: Value('GB/s', 'higher', 90.0, 2, 100.0, 0.1, (0.08, 0.12))}, 'archives': ('evidence/x',),
    } | fields  # fmt: skip
    where = of.pop('where', Scope('demo', 'cpu', nodes=('n1',)))
    incident = Incident('NODE', where, 'loss', ('STREAM',), (TRIAD, COPY), ('n1', 'n2'), **of)
    seen = {'s1': Seen('2026-11-22T01:00:00', ('n1',), (), 0.1), 's2': Seen('2026-11-23T01:00:00', bad, healthy, None)}
    return Known(id, incident, seen, results=Path('results'))


def test_an_incident_is_told_whole():
    one = known_incident()
    shown = incidents.details(one, '2026-11-23')
    title = 'abc NODE n1: 10.0 % less (8.0 to 12.0 %) in STREAM size=big triad and 1 other metric'
    lines = shown.before.split('\n')
    assert ' '.join(' '.join(lines[:2]).split()) == title
    assert '  on n2' in lines and '  changed then: kernel: a -> b' in lines
    assert [line for line in lines if line in ('  measured 90', '  others 100', '  third')] == [
        '  measured 90', '  others 100', '  third',
    ]  # fmt: skip
    assert '  output of the benchmark: results/evidence/x' in lines
    assert shown.after == (
        '2026-11-22 session s1: bad on n1, 10.0 % of the performance lost\n2026-11-23 session s2: bad on n1'
    )
    assert [
        tuple(line[key] for key in ('metric', 'value', 'unit', 'n', 'expected', 'loss', 'loss_low', 'loss_high'))
        for line in shown.rows
    ] == [('triad', 90.0, 'GB/s', 2, 100.0, 10.0, 8.0, 12.0), ('copy', None, None, None, None, None, None, None)]
    assert incidents.details(known_incident(bad=(), healthy=('n1', '')), '2026-11-23').after.endswith(
        '2026-11-23 session s2: healthy on n1'
    )
    places = known_incident(where=Scope('demo', place='rack r1', same_nodes=('row 1', 'switch s1')))
    assert incidents.same_nodes(places) == [
        'rack r1, row 1 and switch s1 have the same nodes: no measurement tells which it is'
    ]
    assert list(incidents.text(one, '2026-11-23', most=1)).count('  others 100') == 0
    listed = incidents.listing([one, known_incident('def', (), ('n1',))], '2026-11-23')
    assert listed.after == '2 incidents, 1 open' and [line['state'] for line in listed.rows] == ['open', 'healing']
    assert (listed.rows[0]['metrics'], listed.rows[0]['loss'], listed.rows[0]['loss_low']) == (2, 10.0, 8.0)
    assert (listed.rows[0]['acknowledged_why'], listed.rows[0]['holds']) == ('', [])


def test_incidents_share_the_lines_that_there_are():
    many = [known_incident(f'id{i}') for i in range(4)]
    day = '2026-11-23'
    for most in (3, 4, 5, 9, 16, 40):
        lines = incidents.first_lines(many, day, most)
        assert len(lines) <= most
        named = 4 if most >= 4 else most - 1
        assert [line.split()[0] for line in lines if line.startswith('id')] == [f'id{i}' for i in range(named)]
        assert lines[-1].startswith('and 2 other incidents: plumbline incidents') is (most == 3)
    full = incidents.first_lines(many[:1], day, 40)
    assert '  measured 90' in full and '  others 100' in full and '  third' not in full
    healed = incidents.first_lines([known_incident('abc', (), ('n1', 'n2'))], day, 40)
    assert healed[0].startswith('abc healing: NODE n1: 10.0 % less') and 'measured 90' not in ' '.join(healed)
    said = list(incidents.markdown(many[:1], day))
    assert said[0].startswith('- **open** `id0` NODE n1: 10.0 % less (8.0 to 12.0 %) in STREAM size=big triad')
    assert said[1:] == ['  - changed then: kernel: a -> b', '  - on n2']


def test_the_lines_of_a_program_are_marked():
    part = stub(marks={'triad': [2]}, caption='stdout, 2 lines', lines=[(1, 'title'), (2, 'Triad 90')])
    assert list(incidents.printed(stub(problem='gone', parts=[part]))) == [
        '  gone', '  stdout, 2 lines', '       1 title', '  >    2 Triad 90',
    ]  # fmt: skip
    assert incidents._command('$ ' + 'word ' * 20) == [
        '  $ ' + ' '.join(['word'] * 15) + ' \\', '      ' + ' '.join(['word'] * 5),
    ]  # fmt: skip


# Any table


def test_what_json_and_csv_cannot_hold_is_left_out():
    assert table.to_json({'a': [float('inf'), 1.5, (float('nan'),)], 'b': {'c': 'x'}}) == (
        '{\n  "a": [\n    null,\n    1.5,\n    [\n      null\n    ]\n  ],\n  "b": {\n    "c": "x"\n  }\n}\n'
    )
    assert [table._joined(value) for value in (['a', 1], {'a': 1, 'b': 2}, 'x', 2.5)] == ['a; 1', 'a 1, b 2', 'x', 2.5]
    assert [table.as_text(value) for value in (None, {'a': 1}, ('a', 2), 0)] == ['', 'a 1', 'a, 2', '0']
    assert [table._cut('abcd', room) for room in (5, 4, 3)] == ['abcd', 'abcd', 'ab~']
    assert [table.Column('x', title).heading for title in ('n', 'name', None)] == ['n', 'Name', '']
    column = table.Column('x', 'x', unit='%')
    assert [column.text({'x': value}) for value in (1, None)] == ['1 %', '']


def test_a_comment_has_as_many_rows_as_there_is_room_for():
    """60 000 characters, less the text of 10, heading and rule of 6 each and 200 for what is around the table."""
    text, head, rule = 'x' * 10, '| ab |', '| -- |'
    # rows of 99 and a line feed: 59 778 / 100
    before, shown, after = table._folded(text, '\n'.join([head, rule, *['r' * 99] * 700]))
    assert before == f'{text}\n\n<details><summary>700 verdicts, the first 597</summary>' and after == '</details>'
    assert shown.split('\n') == [head, rule, *['r' * 99] * 597]
    before, shown, _ = table._folded(text, '\n'.join([head, rule, *['r' * 99] * 597]))
    assert before.endswith('<summary>597 verdicts</summary>') and shown.count('\n') == 598
    # a text of 30 000 is cut at a line
    lines = 'y' * 29_989 + '\n' + 'z' * 20
    assert table._folded(lines, f'{head}\n{rule}')[0].startswith('y' * 29_989 + '\n\nand more\n\n<details>')
    assert table._folded('y' * 29_999, f'{head}\n{rule}')[0].startswith('y' * 29_999 + '\n\n<details>')


def test_a_long_command_goes_on_in_each_line_and_levels_have_four_digits():
    """Of 78 columns, 15 words of four letters fit into the first line and 14 into each further one."""
    first, *further = incidents._command('$ ' + 'word ' * 40)
    assert first == '  $ ' + ' '.join(['word'] * 15) + ' \\'
    assert further == ['      ' + ' '.join(['word'] * 14) + ' \\', '      ' + ' '.join(['word'] * 11)]
    course = stub(levels={(TRIAD, RATE): [123456.0, None, 0.0, 1.00004]}, marks=(1,))
    assert verdicts._beside(verdict('ok'), course) == {'history': [123500.0, None, 0.0, 1.0], 'marks': (1,)}
    assert verdicts._beside(NEAR, course) == verdicts._beside(NEAR, None) == {}

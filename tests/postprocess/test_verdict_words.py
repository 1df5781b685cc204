# SPDX-License-Identifier: BSD-3-Clause
"""What is said beside verdicts: what to do next, what speaks against a row, and which node was disturbed."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits, Tolerance
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.results.rows import CaseRow
from postprocess.verdicts import advice, objections
from postprocess.verdicts.advice import hints
from postprocess.verdicts.candidates import Candidate, Doubt
from postprocess.verdicts.health import Health, busy_beside, counted, disturbances, facts_by_node
from postprocess.verdicts.verdict import Common, Verdict

RATE = Quantity('GB/s', 'higher')
STREAM = CaseId('cpu', 'system', 'STREAM', ())
TRIAD = STREAM.series('triad', ())


def case(id=STREAM, case_id=1, result='pass', reason=None, nodes=('n1',), provenance=None, health=None, **fields):
    return CaseRow(
        case_id=case_id, partition=id.partition, environ=id.environ, check=id.check, params=(),
        fixture=False, benchmark=True, result=result, round=0, purpose='', tags=[], nodes=list(nodes),
        fail_reason=reason, provenance=provenance or {}, health=health or {}, **{'name': id.check} | fields,
    )  # fmt: skip


def reference(of=TRIAD, mean=100.0, facts=None, **fields):
    fields |= {'provenance': '; '.join(f'{name}={value}' for name, value in (facts or {}).items())}
    return Reference(of, RATE, mean, None, fields.pop('n', 3), fields.pop('kind', 'baseline'), 'session x', **fields)


def verdict(metric='triad', id=STREAM, judged=True, kind='ok', value=100.0, **fields):
    of = id.series(metric, ())
    measured = NOTHING if value is None else Summary(1, value, None, value, value)
    row = fields.pop('reference', reference(of) if judged else None)
    return Verdict(kind, of, RATE, measured, row, row and Limits(95.0, 105.0, 0.05, ''), **fields)


def command(words):
    return f'<{words}>'


# What to do next


def places(*ids):
    """A metric that is judged on partition cpu, and one without a reference at each of some cases."""
    return [verdict(f'm{i}') for i in range(2 * len(ids))] + [verdict(id=id, judged=False) for id in ids]


MANY = [CaseId('cpu', 'system', f'C{i}', ()) for i in range(6)]


FAILED, OTHER = case(case_id=2, result='fail', reason='x', name='b'), case(case_id=3, name='c')
NONE_JUDGED = ['nothing was judged', '<record propose>', '<record accept>']


@each_row(('series', 'cases', 'named'), [
    ([], [], []), ([verdict()], [case()], []), ([verdict(judged=False, kind='informational')], [case()], []),
    ([verdict(judged=False)], [case()], NONE_JUDGED),
    ([verdict(judged=False)], [case(), FAILED, OTHER], [*NONE_JUDGED, '1 of 3 cases']),
    ([verdict(judged=False)], [case(), FAILED], ['no baseline yet', '1 of 2 cases', 'repair', '<record propose>']),
    ([verdict(value=None, judged=False)], [case(), case(name='b'), case(result='fail', reason='x', name='c')],
     ['no baseline yet', '1 of 3 cases', 'repair', '<record propose>']),
    ([verdict(value=None), verdict(judged=False)], [case(result='fail', reason='x')], [*NONE_JUDGED, '1 of 1 case ']),
    ([verdict(value=None)], [case(result='fail', reason='x')], []),  # a baseline waits for it
    # a case that was skipped did not run, and a run that failed first and passed then did
    ([verdict(judged=False)], [case(), FAILED, case(case_id=3, result='skip', name='c'), case(case_id=4, name='d')],
     [*NONE_JUDGED, '1 of 3 cases']),
    ([verdict(), verdict('copy', judged=False)], [case()], ['1 of 2 metrics', '<record propose>']),
    (places(CaseId('gpu', 'system', 'STREAM', ())), [case()], ['partition gpu (1 metric)', '<record propose>']),
    (places(CaseId('cpu', 'other', 'STREAM', ()), CaseId('cpu', 'other', 'Osu', ())), [case()],
     ['environ other of partition cpu (2 metrics)']),
    (places(MANY[0]), [case()], ['C0 with environ system of partition cpu (1 metric)']),
    (places(*MANY[:5]), [case()], [f'C{i} with environ system of partition cpu (1 metric)' for i in range(5)]),
    (places(*MANY), [case()], [*(f'C{i} with environ' for i in range(5)), 'and 1 more']),
    # a metric beside judged ones of its check is no place
    ([*[verdict(f'm{i}') for i in range(2)], verdict('new', judged=False)], [case()], []),
])  # fmt: skip
def test_the_next_step_where_something_could_not_be_judged(series, cases, named):
    said = hints(series, cases, command)
    assert len(said) == bool(named) and [name for name in named if name not in said[0]] == [], said
    assert not said or ('more' in said[0]) is ('and 1 more' in named)
    assert not said or ('failed' in said[0]) is any(' case' in name for name in named)


@each_row(('gone', 'says'), [
    (verdict(kind='missing', value=None), (1, 'record retire STREAM --why REASON')),
    (verdict(kind='missing', value=None, case_id=3), (0, '')), (verdict(kind='failed', value=None), (0, '')),
    (verdict(kind='missing', value=None, reference=reference(kind='published')), (0, '')),
    (verdict(kind='missing', value=None, reference=replace(reference(), id=CaseId('*', '*', 'STREAM', ()).series('x',
    ()))),
     (0, '')),
])  # fmt: skip
def test_what_no_job_measured_is_to_be_retired(gone, says):
    assert advice.retiring([gone], [case(name='Osu')], [reference()]) == says
    assert advice.retiring([gone], [case(result='fail', reason='x')], [reference()]) == (0, '')


def with_code(before, now, checks=1):
    ids = [CaseId('cpu', 'system', f'C{i}', ()) for i in range(checks)]
    series = [
        verdict(id=id, case_id=i, reference=reference(id.series('triad', ()), facts={'check_code': before}))
        for i, id in enumerate(ids)
    ]
    return series, [case(id, i, provenance={'check_code': now} if now else {}) for i, id in enumerate(ids)]


@each_row(('before', 'now', 'checks', 'which'), [
    ('a', 'b', 1, 'the code of C0'), ('a | b', 'b', 1, ''), ('a', '', 1, ''), ('', 'b', 1, ''),
    ('a', 'b', 5, 'the code of C0, C1, C2, C3, C4'), ('a', 'b', 6, 'the code of 6 checks'),
])  # fmt: skip
def test_a_check_whose_code_has_changed_is_named(before, now, checks, which):
    said = advice.changed_checks(*with_code(before, now, checks), command)
    assert len(said) == bool(which)
    assert not said or (f'{which} has changed' in said[0] and '<record propose --epoch NEW_CHECK>' in said[0])


def gains(better, others, since=2, before='6.1', name='kernel'):
    kinds = ['improved'] * better + ['ok'] * others
    rows = [
        verdict(f'm{i}', kind=kind, case_id=1 if i < since else 2, reference=reference(facts={name: before}))
        for i, kind in enumerate(kinds)
    ]
    return rows, [case(case_id=1, provenance={name: '6.2'}), case(case_id=2, provenance={name: '6.1'})]


@each_row(('given', 'says'), [
    (gains(3, 2), '3 of 5 metrics are better than their references since kernel 6.1 -> 6.2'), (gains(3, 3), ''),
    (gains(2, 0), ''), (gains(4, 0), '4 of 4 metrics are better than their references'),
    (gains(3, 0, name='load'), '3 of 3 metrics are better than their references'),
    (gains(3, 0, before='6.1 | 6.2'), '3 of 3 metrics are better than their references'),
])  # fmt: skip
def test_many_gains_are_told_with_what_changed_in_most_of_them(given, says):
    said = advice.improved(*given, command)
    assert len(said) == bool(says)
    assert not said or (said[0].startswith(f'{says}: ') and '<record propose --epoch WHAT_CHANGED>' in said[0])


def test_more_sessions_are_asked_for_while_they_sharpen_a_baseline(monkeypatch):
    """Rows of 1, 2 and 6 sessions have a median of 2; what is noticed is set for each number of sessions."""
    rows = [(reference(n=n), None) for n in (1, 2, 6)]
    assert advice.sessions_of([row for row, _ in rows]) == 2 and advice.sessions_of([reference(n=None)]) == 1

    def told(noticed, *words):
        monkeypatch.setattr(advice, '_noticed', lambda rows, n: noticed.get(n))
        said = advice.more_sessions(rows, 'record')
        assert bool(said) == bool(words) and [word for word in words if word not in said] == [], said
        return advice.narrowing(rows)

    assert told({2: 0.2, 3: 0.16, 5: 0.149}, '2 sessions', '20 %', '3 more sessions', '15 %', 'then record') == (2, 5)
    assert told({2: 0.2, 3: 0.16, 5: 0.151, 10: 0.151}, '20 %', '1 more session', 'then record') == (2, 3)
    assert told({3: 0.1}, '1 more session', '10 %', 'then record') == (2, 3)
    assert told({}) == (2, 3)
    rows[:] = [(reference(n=30), None)]
    assert told({30: 0.2}, '30 sessions', '20 %', 'little') == (30, None)
    assert advice.more_sessions([], 'record') == ''


# What speaks against a row


def candidate(values, nights=None, better='higher'):
    nights = numpy.arange(len(values)) if nights is None else numpy.array(nights)
    nothing = numpy.full(len(values), math.nan)
    return Candidate(
        TRIAD, Quantity('GB/s', better), 'quick', {}, nights, 10 + nights, numpy.array(values), nothing,
        numpy.array(['n1'] * len(values)),
    )  # fmt: skip


SESSIONS = [SimpleNamespace(day=f'2026-11-{day:02}', short_name=f'night{day:02}x') for day in range(1, 20)]
FLOOR = Tolerance(0.02, 1.0, 0.01)


@each_row(('values', 'better', 'lost'), [
    # a straight line of 2 % each of five steps in the logarithm: exp(-0.1)
    ([100 * math.exp(-0.02 * i) for i in range(6)], 'higher', '9.5 %'), ([100.0] * 6, 'higher', ''),
    ([100 * math.exp(0.02 * i) for i in range(6)], 'higher', ''),
    ([100 * math.exp(0.02 * i) for i in range(6)], 'lower', '9.5 %'),
    ([100 * math.exp(-0.02 * i) for i in range(4)], 'higher', ''), ([100 * math.exp(-0.02 * i) for i in range(5)],
    'higher', '7.7 %'),
    ([100 * math.exp(-0.004 * i) for i in range(6)], 'higher', ''),  # 2 % is the floor, 1 - exp(-0.02) is below it
    ([100 * math.exp(-0.0042 * i) for i in range(6)], 'higher', '2.1 %'),
    ([100.0, 90.0, 104.0, 88.0, 101.0, 86.0], 'higher', ''),
])  # fmt: skip
def test_a_loss_little_by_little_speaks_against_a_row(values, better, lost):
    said = objections.slow_loss(candidate(values, better=better), FLOOR, SESSIONS)
    days = f'from 2026-11-01 to 2026-11-{len(values):02}'
    assert [(one.kind, one.why) for one in said] == (
        [('slow_loss', f'lost {lost} little by little {days}')] if lost else []
    )
    # several jobs of a night are one value
    twice = objections.slow_loss(
        candidate(numpy.repeat(values, 2), numpy.repeat(numpy.arange(len(values)), 2), better), FLOOR, SESSIONS
    )
    assert twice == said


@each_row(('new', 'old', 'found'), [
    (reference(mean=90.0, spread=0.01, df=30.0, n=10), reference(n=10), '10.0 %'),
    (reference(mean=98.1, spread=0.0001, df=30.0, n=10), reference(n=10), ''),
    (reference(mean=97.9, spread=0.0001, df=30.0, n=10), reference(n=10), '2.1 %'),
    (reference(mean=110.0, spread=0.01, df=30.0, n=10), reference(n=10), ''), (reference(mean=90.0), None, ''),
    (reference(mean=90.0), replace(reference(), kind='elsewhere'), ''),
    (reference(mean=90.0), replace(reference(), quantity=Quantity('MB/s', 'higher')), ''),
    # Student's 0.1 % quantile of 30 degrees of freedom is 3.385: of 0.1 sqrt(1/4 + 1/4) 0.239, of 0.1 / 2 alone 0.169
    (reference(mean=79.0, spread=0.1, df=30.0, n=4), reference(n=4), ''),
    (reference(mean=78.0, spread=0.1, df=30.0, n=4), reference(n=4), '22.0 %'),
    (reference(mean=84.0, spread=0.1, df=30.0, n=4), reference(n=None), '16.0 %'),
    (reference(mean=85.0, spread=0.1, df=30.0, n=4), reference(n=None), ''),
])  # fmt: skip
def test_a_row_worse_than_what_is_in_force_or_published_is_told(new, old, found):
    why = f'{new.mean:g} GB/s is worse than what is in force, 100, by {found} (session x)'
    assert objections.worse(new, old, None, FLOOR) == ([objections.Objection('in_force', why)] if found else [])
    published = why.replace('in force', 'published')
    assert objections.worse(new, None, old, FLOOR) == ([objections.Objection('published', published)] if found else [])


def test_doubts_and_levels_in_words():
    doubts = [Doubt(night, 10 + night, STREAM, 'n1' * (night > 0), 'busy') for night in range(3)]
    known = {(one.night, one.case_id): one for one in doubts}
    assert objections.doubtful_jobs(candidate([1.0, 1.0]), {}) == []
    (one,) = objections.doubtful_jobs(candidate([1.0, 1.0, 1.0]), known)
    assert (one.kind, one.why) == ('jobs', 'busy (STREAM), and 2 jobs more')
    assert objections.doubtful_jobs(candidate([1.0], [1]), known)[0].why == 'busy (STREAM on n1)'
    assert objections.doubtful_jobs(candidate([1.0], [9]), known) == []
    level = SimpleNamespace(levels=((90.0, 1), (100.0, 4)), worse=None, switched=None)
    two = 'two levels, 90 GB/s in 1 session and 100 GB/s in 4 sessions; the worse one is taken'
    assert [one.why for one in objections.two_levels(level, 'GB/s', SESSIONS)] == [two]
    level.switched, level.worse = 1, 3
    assert objections.two_levels(level, 'GB/s', SESSIONS)[0].why == (
        f'{two.replace("session", "job")}; it changed once, with session night02x of 2026-11-02: after a planned '
        'change name the sessions since and give --epoch'
    )
    assert objections.two_levels(SimpleNamespace(levels=()), 'GB/s', SESSIONS) == []


# Verdicts


def test_a_loss_in_common_is_held_by_what_may_have_lost_half_of_it():
    one = Common('node', 'n1', (TRIAD,), 0.1, (0.05, 0.15), 0.01)
    assert str(one) == 'node n1: 1 series lost 10.0 % in common (95 % interval 5.0 to 15.0 %)'
    on_node = verdict(nodes=('n1', 'n2'))
    assert (
        one.holds(on_node) and not one.holds(verdict('copy', nodes=('n1',))) and not one.holds(verdict(nodes=('n2',)))
    )
    assert replace(one, kind='check').holds(verdict(nodes=('n2',)))
    assert one.holds(replace(on_node, interval=(0.0, 0.05))) and not one.holds(replace(on_node, interval=(0.0, 0.049)))


def test_numbers_of_a_verdict_are_those_of_one_quantity():
    bad = verdict(kind='regressed', value=90.0)
    assert (bad.expected, bad.limit, bad.ratio, bad.deviation) == (100.0, 95.0, 0.9, pytest.approx(-10.0))
    assert (bad.worse_by, bad.standing, bad.detectable) == (pytest.approx(10.0), 'gated', 0.0)
    lower = replace(bad, quantity=Quantity('us', 'lower'))
    assert (lower.expected, lower.limit, lower.worse_by) == (None, None, pytest.approx(-10.0))
    for none in (verdict(kind='failed', value=90.0), verdict(kind='regressed', value=None)):
        assert (none.ratio, none.deviation, none.worse_by) == (None, None, 0.0)
    assert (
        verdict(kind='missing', value=None).standing == 'vanished' and verdict(judged=False).standing == 'no_reference'
    )
    assert verdict(kind='informational').standing == 'informational'
    assert replace(bad, limits=replace(bad.limits, detectable=0.2)).detectable == 0.2


# Nodes


def test_a_node_that_was_slowed_is_told_beside_the_others():
    def of(node, case_id, **facts):
        return case(case_id=case_id, nodes=[node], provenance=facts)

    cases = [
        of('n1', 1, clock_in_run='1900', clock_throttled='412 on 0, 1'), of('n2', 2, clock_in_run='2600'),
        of('n3', 3, clock_in_run='2500'), of('n4', 4, clock_in_run='2423', load_beside='1.1'),
        of('n5', 5, health_ecc='3 on 1', health_pci_replay='7', health_none='0', load_beside='0.5'),
    ]  # fmt: skip
    found = Health(cases)
    assert found.of([STREAM], ['n1']) == {'n1': '1.9 GHz against 2.5, thermal throttle +412 on 0, 1'}
    # 2423 is above 95 % of the median of 1900, 2600 and 2500; n5, of which no clock is known, is not called slow
    assert found.of([STREAM], ['n4']) == {'n4': '1.1 CPUs were busy beside the benchmark, expected at most 0.5'}
    assert found.of([STREAM], ['n5']) == {'n5': 'pci replay +7, ecc +3 on 1'} and found.of([STREAM], ['n2']) == {}
    assert found.of([], ['n1']) == {}


@each_row(('clock', 'others', 'says'), [
    ('2374', ['2500'], '2.37 GHz against 2.5'), ('2375', ['2500'], ''), ('1000', [], ''), ('x', ['2500'], ''),
    ('2000', ['2500', '2100', '2700'], '2 GHz against 2.5'),
])  # fmt: skip
def test_a_clock_below_95_percent_of_the_others_is_told(clock, others, says):
    cases = [case(case_id=0, nodes=['n0'], provenance={'clock_at_end': clock})]
    cases += [case(case_id=i, nodes=[f'n{i}'], provenance={'clock_at_end': one}) for i, one in enumerate(others, 1)]
    assert Health(cases).of([STREAM], ['n0']) == ({'n0': says} if says else {})
    if clock != 'x':  # of several jobs the lowest counts
        cases.append(case(case_id=99, nodes=['n0'], provenance={'clock_at_end': '9999'}))
        assert Health(cases).of([STREAM], ['n0']) == ({'n0': says} if says else {})


@each_row(('load', 'steal', 'others', 'says'), [
    ('0.5', '2.0', [], []), ('0.6', '2.1', [], [
        '0.6 CPUs were busy beside the benchmark, expected at most 0.5',
        'the hypervisor took 2.1 % of the CPU time, expected at most 2 %',
    ]),
    ('1.2', '0', ['0.5'], ['1.2 CPUs were busy beside the benchmark, expected at most 0.5']), ('1.0', '0', ['0.5'], []),
])  # fmt: skip
def test_a_load_explains_a_loss_where_the_other_nodes_have_less(load, steal, others, says):
    own = {'load_beside': load, 'cpu_steal': steal}
    cases = [case(case_id=0, nodes=['n0'], provenance=own)]
    cases += [case(case_id=i, nodes=[f'n{i}'], provenance={'load_beside': one}) for i, one in enumerate(others, 1)]
    assert Health(cases).of([STREAM], ['n0']) == ({'n0': ', '.join(says)} if says else {})
    if not others:
        assert busy_beside(cases[0]) == says


def test_the_facts_of_each_node_and_what_they_counted():
    assert facts_by_node(['n1', 'n2'], {'a': '1'}, {'n2': {'b': '2'}}) == {'n1': {'a': '1'}, 'n2': {'b': '2'}}
    assert facts_by_node([], {}, {}) == {} and facts_by_node(['n1'], {}, {}) == {'n1': {}}
    assert disturbances({'load_beside': 0.51, 'cpu_steal': None, 'clock_throttled': 0.0}) == [
        '0.51 CPUs were busy beside the benchmark, expected at most 0.5'
    ]
    assert disturbances({'clock_throttled': 2.0}) == ['heat lowered the clock 2 times']
    two = [{'health_ecc_errors': '2 on 0', 'kernel': '6.1'}, {'health_ecc_errors': '1 on 1', 'clock_throttled': '9'}]
    assert counted(two) == ['thermal throttle +9', 'ecc errors +3 on 0, 1'] and counted([{'health_x': 'unknown'}]) == []

# SPDX-License-Identifier: BSD-3-Clause
"""Small parts of the verdicts, each function on its own: jobs, groups, health, rows of a baseline, what is retired."""

import math
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row

from plumbline.causes import Cause
from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits, Tolerance
from plumbline.paths import ROOT
from plumbline.problems import Problem
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from postprocess.results.rows import CaseRow, MetricRow
from postprocess.statistics.groups import Groups, InCommon
from postprocess.statistics.levels import Level
from postprocess.statistics.nodes import Slow
from postprocess.verdicts import baseline as rows_of_baseline
from postprocess.verdicts import compare, gather, measured, together
from postprocess.verdicts.baseline import Proposal, Replacement, Wanted
from postprocess.verdicts.candidates import Candidate, Doubt
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.elsewhere import beside
from postprocess.verdicts.measured import Job, Measured
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.proposals import to_baseline

RATE = Quantity('GB/s', 'higher')
STREAM = CaseId('cpu', 'system', 'STREAM', ())
TRIAD = STREAM.series('triad', ())
TOLERANCE = Tolerance(0.02, 1.0, 0.01)


def case(case_id=1, check='STREAM', result='pass', round=0, nodes=('n1',), reason=None, **fields):
    return CaseRow(
        case_id=case_id, partition='cpu', environ='system', check=check, params=(), result=result, round=round,
        nodes=list(nodes), fail_reason=reason, **{'name': check} | fields,
    )  # fmt: skip


def of(code):
    """The column of one cause."""
    return [Cause(code, 'x')]


SAID = of('said')
KILLED = [Cause('crash', 'killed', 'n1', (2,), 3, ': "x"', 'test the memory'), Cause('time-limit', 'late')]


def metric(case_id=1, name='triad', mean=100.0, status='measured', **fields):
    return MetricRow(case_id, name, (), 'GB/s', 'higher', 1, status, mean=mean, min=mean, max=mean, **fields)


def reference(of=TRIAD, mean=100.0, facts=None, **fields):
    provenance = '; '.join(f'{name}={value}' for name, value in (facts or {}).items())
    return Reference(of, RATE, mean, None, fields.pop('n', 3), 'baseline', 'session x', provenance=provenance, **fields)


def job(status='measured', value=100.0, round=0, case_id=1, nodes=('n1',), ended=True, cause=''):
    summary = Summary(1, value, None, value, value) if status == 'measured' else NOTHING
    return Job(round, case_id, nodes, summary, status, cause, ended)


def series(*jobs, of=TRIAD, **fields):
    return Measured(of, RATE, 'quick', jobs or (job(),), **fields)


def candidate(values=(1.0, 1.0), nights=None, of=TRIAD, quantity=RATE):
    nights = numpy.arange(len(values)) if nights is None else numpy.array(nights)
    return Candidate(
        id=of, quantity=quantity, mode='quick', nights=nights, cases=10 + nights, values=numpy.array(values),
        nodes=numpy.array(['n1'] * len(values)), std=numpy.full(len(values), math.nan), looks={},
        stated={'floor': None, 'usual_spread': None},
    )  # fmt: skip


# Jobs of a session


def test_a_case_that_runs_again_is_one_with_several_runs():
    runs = [case(1), case(2), case(3, round=1), case(4, check='Osu'), case(5, check='Osu', round=2), case(6, round=1)]
    assert [[one.case_id for one in group] for group in measured.runs_of(runs)] == [[1, 3, 6], [2], [4, 5]]
    assert [one.case_id for one in measured.last_runs(runs)] == [6, 2, 5]
    assert [len(group) for group in measured.runs_of([case(1, round=1)])] == [1]


def test_the_series_of_a_session_with_their_jobs():
    rows = [case(1, nodes=('n1', 'n2')), case(2, result='fail', reason='killed', fail_phase='run', round=1)]
    (one,) = measured.measured(rows, [metric(1), metric(2, status='failed', mean=None)])
    assert [(of.case_id, of.status, of.cause, of.ended, of.round) for of in one.jobs] == [
        (1, 'measured', '', True, 0), (2, 'failed', 'failed in run: killed', False, 1),
    ]  # fmt: skip
    assert (one.value, one.status, one.nodes, one.case_id, one.lost) == (100.0, 'measured', ('n1', 'n2'), 1, ())
    # a run that declares nothing, with and without an end
    (one,) = measured.measured([rows[0], rows[1]._replace(result='pass', fail_reason=None)], [metric(1)])
    assert one.jobs[1].ended and one.jobs[1].status == 'failed' and "'pass'" in one.jobs[1].cause
    (one,) = measured.measured(rows, [metric(1)])
    assert not one.jobs[1].ended and one.jobs[1].cause == 'failed in run: killed'


@each_row(('row', 'names'), [
    (case(), ['*']), (case(benchmark=False), []), (case(result='skip'), ['*']),
    (case(result='skip', benchmark=False), []), (case(result='fail', benchmark=False, reason='x'), ['*']),
    (case(benchmark=False, causes=of('reference'), result='fail', fail_phase='performance'), ['*']),
])  # fmt: skip
def test_a_case_without_a_series_stands_for_itself_where_something_is_lost(row, names):
    assert [one.id.metric for one in measured.measured([row], [])] == names


def test_a_failed_stack_is_the_cause_of_its_cases():
    stack = case(1, check='Stack', fixture=True, result='fail', reason='no compiler', fail_phase='sanity')
    (one,) = measured.measured([stack, case(2, result=measured.NEEDED_FAILED)], [])
    assert 'stack system' in one.cause and 'no compiler' in one.cause
    (one,) = measured.measured([case(1, check='Stack', fixture=True), case(2, result=measured.NEEDED_FAILED)], [])
    assert 'stack' not in one.cause


def test_jobs_that_ended_without_a_number_are_lost():
    found = series(job('missing', ended=False), job('invalid', case_id=2), job(case_id=3, value=90.0), job('failed'))
    assert [one.case_id for one in found.lost] == [2]
    assert (found.value, found.case_id, [one.case_id for one in found.measuring]) == (90.0, 3, [3])
    assert series(job('missing', cause='gone', case_id=7)).cause == 'gone'
    # only jobs on the same nodes as the first are pooled
    two = series(job(value=90.0), job(value=110.0, round=1), job(value=500.0, nodes=('n2',)))
    assert two.value == 100.0 and two.summary.n == 2


@each_row(('fields', 'says'), [
    ({'result': 'fail', 'fail_phase': 'run', 'causes': KILLED, 'evidence': 'a.tar.gz'},
     'failed in run: killed in trial 2 of 3 on n1: "x"; test the memory; also: late; all output: a.tar.gz'),
    ({'result': 'fail', 'fail_phase': 'run', 'causes': of('not-run')}, 'not run to its end: x'),
    ({'result': 'abort', 'causes': of('not-run')}, 'not run to its end: x'),
    ({'result': 'abort'}, 'not run to its end: the session was aborted'),
    ({'result': 'fail', 'fail_phase': 'performance', 'causes': SAID}, None),
    ({'result': 'fail', 'fail_phase': 'sanity', 'reason': 'lost'}, 'failed: lost'),  # of before causes were stored
])  # fmt: skip
def test_why_a_case_failed_is_said_from_its_causes(fields, says):
    assert measured.failure(case(**fields)) == says


# Groups of series


@each_row(('points', 'ranges'), [
    (8, [(0, 8), (0, 4), (2, 6), (4, 8)]), (4, [(0, 4)]), (3, []), (0, []), (9, [(0, 9), (0, 4), (2, 6), (4, 8)]),
])  # fmt: skip
def test_stretches_of_a_curve_overlap_by_half(points, ranges):
    fewest = gather._FEWEST
    expected = [list(range(*part)) for part in ranges if part[1] - part[0] >= fewest]
    found = list(gather._ranges(list(range(points))))
    assert [part for part in found if len(part) >= 4] == expected
    assert all(len(part) >= fewest for part in found)


def test_series_share_what_their_names_say():
    one = CaseId('gpu', 'cuda', 'Copies', (('link_class', 'nvlink'),)).series('rate', (('link_class', 'pcie'),))
    found = dict.fromkeys(gather._commons(series(job(nodes=('n1',)), of=one), True))
    assert list(found) == [
        ('partition', 'gpu'), ('environ', 'gpu/cuda'), ('check', 'gpu/cuda Copies'), ('case', str(one.case)),
        ('link_class', 'gpu nvlink'), ('link_class', 'gpu pcie'), ('node', 'n1'),
    ]  # fmt: skip
    for several, swept in ((('n1', 'n2'), True), (('n1',), False)):
        kinds = [kind for kind, _ in gather._commons(series(job(nodes=several)), swept)]
        assert kinds == ['partition', 'environ', 'check', 'case']
    assert [gather._order((kind, 'b'))[0] for kind in ('partition', 'environ', 'check', 'case', 'link_class', 'node')
            ] == [0, 1, 2, 3, 4, 5]  # fmt: skip


def test_of_equal_groups_only_the_widest_is_judged():
    ids = [
        CaseId('cpu', 'system', check, ()).series(f'm{i}', ()) for check in ('A', 'B') for i in range(gather._FEWEST)
    ]
    rows = [SimpleNamespace(measured=series(of=of)) for of in ids]
    groups, names = gather.groups_of(rows, {})
    assert list(zip(groups.kinds, names, strict=True)) == [
        ('partition', 'cpu'), ('check', 'cpu/system A'), ('check', 'cpu/system B'),
    ]  # fmt: skip
    assert [part.tolist() for part in groups.members] == [
        [*range(2 * gather._FEWEST)], [*range(gather._FEWEST)], [*range(gather._FEWEST, 2 * gather._FEWEST)],
    ]  # fmt: skip
    groups, _ = gather.groups_of(rows[: gather._FEWEST - 1], {})
    assert not groups.members


# What went wrong in a session


def session(problems=(), expected=2, ran=2, mode='quick'):
    return SimpleNamespace(stored_problems=[*map(Problem, problems)], expected=expected, ran=ran, mode=mode)


@each_row(('of', 'cases', 'rows', 'kinds'), [
    (session(), [], [series()], []), (session(expected=3), [], [series()], ['session']),
    (session(expected=None), [], [series()], []), (session(ran=0, expected=0), [], [], ['session']),
    (session(), [], [series(job('failed'))], ['not measured']), (session(), [], [], ['not measured']),
    (session(), [], [series(job('failed')), series()], []),
    (session(mode='hourly'), [], [series()], ['session']), (session(mode=None), [], [series()], []),
    (session(['x', 'x']), [], [series()], ['session']),
    (session(), [case(2, fixture=True, result='fail', reason='x')], [series()], ['fixture']),
    (session(), [case(2, fixture=True)], [series()], []),
    # a case that failed shows it by its series, one that ended with another reason does not
    (session(), [case(2, result='fail', causes=SAID, fail_phase='run')], [series()], []),
    (session(), [case(2, result='fail', causes=SAID, fail_phase='performance')], [series()], ['case']),
    (session(), [case(2, result='fail', causes=of('reference'), fail_phase='performance')], [series()], []),
    (session(), [case(1, result='fail', causes=SAID, fail_phase='performance')], [series(), series(job('missing'))],
     []),
    (session(), [case(1, result='fail', causes=SAID, fail_phase='performance')], [series()], ['case']),
])  # fmt: skip
def test_what_went_wrong_outside_the_series(of, cases, rows, kinds):
    assert [problem.kind for problem in problems_of(of, cases, rows)] == kinds


# Rows of a baseline


@each_row(('old', 'new', 'what', 'percent'), [
    (None, reference(), 'new', None), (reference(), reference(), 'same', 0.0),
    (reference(), reference(mean=110.0), 'changed', 10.0),
    (reference(mean=80.0), reference(mean=60.0), 'changed', -25.0),
    (reference(), reference(n=4), 'changed', 0.0), (reference(), reference(spread=0.1, df=3.0), 'changed', 0.0),
    (reference(), replace(reference(), note='other'), 'same', 0.0),
    (replace(reference(), quantity=Quantity('MB/s', 'higher')), reference(), 'changed', None),
])  # fmt: skip
def test_a_proposed_row_beside_the_one_in_force(old, new, what, percent):
    limits = Limits(95.0, 105.0, 0.05, '')
    found = Replacement(new, limits, old, old and limits, TOLERANCE)
    assert found.what == what and replace(found, withheld=True).what == 'withheld'
    assert found.difference == (None if percent is None else pytest.approx(percent))


@each_row(('rows', 'unusable', 'doubted', 'complete'), [
    ([False], [], False, True), ([True], [], False, False), ([True, False], [], False, True), ([], [], False, False),
    ([False], ['x'], False, False), ([False], [], True, False),
])  # fmt: skip
def test_a_proposal_is_complete_where_all_that_was_asked_for_is_in_it(rows, unusable, doubted, complete):
    some = [SimpleNamespace(withheld=withheld) for withheld in rows]
    assert Proposal('s', some, [], [], {}, unusable, doubted, []).complete is complete


@each_row(('group', 'units', 'says'), [
    ([candidate()], ('GB/s',), ''), ([candidate()], ('MB/s', 's'), 'GB/s'), ([candidate()], (), ''),
    ([candidate((1e-3, 0.0))], (), '0'), ([candidate((-1.0,))], (), '-1'), ([candidate((1e-9,))], (), ''),
    ([candidate(), candidate(quantity=Quantity('s', 'lower'))], (), 'lower'),
])  # fmt: skip
def test_values_that_can_be_no_reference(group, units, says):
    found = rows_of_baseline._unusable(group, units)
    assert (says in found and bool(found)) if says else found == ''


@each_row(('value', 'text'), [(None, ''), (1234.5678, '1234.57'), (3, '3'), ('x', 'x'), (1e-7, '1e-07')])
def test_numbers_of_a_file_have_six_digits(value, text):
    assert rows_of_baseline.digits(value) == text


def test_a_row_keeps_its_spread_through_a_change_of_level():
    new, old = reference(mean=90.0), reference(spread=0.03, df=7.0, spread_n=9)
    assert [getattr(rows_of_baseline.with_spread_of(new, old), name) for name in ('mean', 'spread', 'df', 'spread_n')
            ] == [90.0, 0.03, 7.0, 9]  # fmt: skip
    assert rows_of_baseline.with_spread_of(new, replace(old, spread_n=None)).spread_n == 3
    other = replace(old, quantity=Quantity('s', 'lower'))
    assert rows_of_baseline.with_spread_of(new, other) is new


def test_when_a_row_was_retired_is_in_its_provenance():
    when = datetime(2026, 11, 2, 3, 4, 5)
    assert rows_of_baseline.retired_at(reference(facts={'retired': '2026-11-02T03:04:05'})) == when
    assert rows_of_baseline.retired_at(reference(facts={'retired': 'soon'})) is None
    assert rows_of_baseline.retired_at(reference()) is None and rows_of_baseline.part('a;b;c') == 'a,b,c'


NIGHTS = [
    SimpleNamespace(
        session=f'night{n:03}xyz', short_name=f'night{n:03}', started=datetime(2026, 11, n), is_of_another_suite=False
    )
    for n in range(1, 5)
]


def recorder(in_force=None, retired=None, doubts=None, named=False, site='cluster'):
    of = object.__new__(rows_of_baseline._Recorder)
    of.sessions = of.of_site = NIGHTS
    of.wanted, of.site, of.doubts = Wanted(named), site, doubts or {}
    of.in_force, of.retired = {TRIAD: in_force} if in_force else {}, retired or {}
    of.refused, of.doubted = [], False
    return of


@each_row(('old', 'since'), [
    (None, None), (reference(facts={'sessions': 'night003, night002'}), datetime(2026, 11, 2)),
    (reference(facts={'sessions': 'earlier', 'dates': '2026-10-03..2026-10-09'}), datetime(2026, 10, 3)),
    (reference(recorded_at='2026-10-09'), None),
    (reference(recorded_at='2026-10-09', epoch='kernel'), datetime(2026, 10, 9)),
    (reference(recorded_at='2026-10-09', epoch='kernel', facts={'dates': '2026-10-03'}), datetime(2026, 10, 3)),
    (reference(facts={'dates': 'long ago'}), None),
])  # fmt: skip
def test_a_baseline_begins_at_the_first_session_of_its_row(old, since):
    assert recorder(old).since(TRIAD) == since


def test_a_retired_series_begins_when_it_was_retired():
    assert recorder(retired={TRIAD: datetime(2026, 11, 3)}).since(TRIAD) == datetime(2026, 11, 3)


@each_row(('levels', 'switched', 'worse', 'site', 'alternates'), [
    (2, None, [1.0], 'cluster', True), (2, None, None, 'cluster', False), (2, 3, [1.0], 'cluster', False),
    (0, None, [1.0], 'cluster', False), (2, None, None, rows_of_baseline.UNDESCRIBED, True),
    (2, 3, None, rows_of_baseline.UNDESCRIBED, False),
])  # fmt: skip
def test_a_machine_that_goes_to_and_fro_between_levels(levels, switched, worse, site, alternates):
    of = Level(numpy.ones(1, bool), levels=((90.0, 1), (100.0, 2))[:levels], switched=switched,
               worse=None if worse is None else numpy.array(worse))  # fmt: skip
    assert recorder(site=site).alternates(of) is alternates


def test_jobs_that_count_for_a_baseline():
    doubt = Doubt(1, 11, STREAM, '', 'busy')
    of = recorder(reference(facts={'sessions': 'night002'}), doubts={(1, 11): doubt})
    assert of.choose([candidate((1.0, 2.0, 3.0, 4.0))]).values.tolist() == [3.0, 4.0] and not of.doubted
    # sessions that were named count before the row begins, and a doubt among them is told
    of = recorder(reference(facts={'sessions': 'night002'}), doubts={(1, 11): doubt}, named=True)
    assert of.choose([candidate((1.0, 2.0, 3.0, 4.0))]).values.tolist() == [1.0, 3.0, 4.0] and of.doubted
    of = recorder(doubts={(1, 11): doubt})
    assert of.choose([candidate((2.0,), [1])]) is None and of.doubted and len(of.refused) == 1
    assert recorder(reference(facts={'sessions': 'night004'})).choose([candidate()]) is None


def test_why_jobs_are_left_out():
    doubts = {(0, 10): Doubt(0, 10, STREAM, '', 'busy'), (2, 12): Doubt(2, 12, STREAM, '', 'hot')}
    of = recorder(doubts=doubts)
    every = candidate((1.0, 2.0, 3.0), [0, 1, 2])
    found = of.left_out([every], [candidate((1.0, 3.0), [0, 2])], [0, 2])
    assert list(found) == ['night002xyz', 'night004xyz']
    assert found['night002xyz'] == rows_of_baseline._BEFORE and found['night004xyz'] == rows_of_baseline._NOTHING
    found = of.left_out([every], [candidate((2.0,), [1])], [1, 2])
    assert 'busy' in found['night001xyz'] and not found['night001xyz'].startswith('some of its jobs')
    assert found['night003xyz'].startswith('some of its jobs') and 'hot' in found['night003xyz']
    named = recorder(named=True).left_out([every], [], [])
    assert set(named.values()) == {rows_of_baseline._NOTHING}


# The table that decides

BOUND = Limits(95.0, 105.0, 0.05, '')
RULES = [(reference(), BOUND)]
OTHER_UNIT = [(reference(), BOUND), (replace(reference(), quantity=Quantity('MB/s', 'higher')), BOUND)]
LOST = job('invalid', cause='too fast', nodes=('n2',))
#: From the most important fact to the least: each with the verdict and the cause that it has beside all that follow.
FACTS = [
    ({'row': series(job('failed', cause='killed'))}, 'failed', 'killed'),
    ({'row': series(job('invalid', cause='above the peak'))}, 'invalid', 'above the peak'),
    ({'row': series(job('missing', cause='no line'))}, 'missing', 'no line'),
    ({'hardware': '1 of 2 CPUs'}, 'invalid', '1 of 2 CPUs'),
    ({'rules': OTHER_UNIT}, 'failed', 'unit differs'),
    ({'loss': Loss('regressed', '10 % less')}, 'regressed', '10 % less'),
    ({'lost': LOST}, 'invalid', 'too fast'), ({'lost': replace(LOST, status='missing', cause='-')}, 'missing', '-'),
    ({'loss': Loss('warning', 'not confirmed')}, 'warning', 'not confirmed'),
    ({'loss': Loss('improved')}, 'improved', ''), ({'common': 'all lost 2 %'}, 'warning', 'all lost 2 %'),
    ({'loss': Loss('ok')}, 'ok', ''),
]  # fmt: skip


def test_of_several_facts_the_most_important_decides():
    for place, (_, verdict, cause) in enumerate(FACTS):
        known = {'row': series(), 'rules': RULES}
        for fact, *_ in reversed(FACTS[place:]):
            known |= fact
        found = decide(Facts(**known))
        assert (found.verdict, found.cause.partition(':')[0]) == (verdict, cause), known
        assert found.nodes == (('n2',) if known.get('lost') and found.cause == known['lost'].cause else ('n1',))


@each_row(('known', 'verdict', 'cause'), [
    ({}, 'no_reference', ''), ({'row': series(judged=False)}, 'informational', ''),
    ({'row': series(job('missing', cause='no line'))}, 'failed', 'no line'),
    ({'own_test': 'too slow'}, 'failed', 'too slow'), ({'own_test': 'too slow', 'rules': RULES}, 'ok', ''),
    ({'own_test': 'too slow', 'row': series(judged=False)}, 'informational', ''),
    ({'own_test': 'too slow', 'lost': LOST}, 'failed', 'too slow'),
    ({'lost': LOST, 'row': series(judged=False)}, 'invalid', 'too fast'),
    # not measured before a change, and lost by one job after it
    ({'lost': LOST, 'loss': Loss('warning', 'cannot tell')}, 'invalid', 'too fast'),
])  # fmt: skip
def test_what_decides_without_a_reference(known, verdict, cause):
    found = decide(Facts(**{'row': series()} | known))
    assert (found.verdict, found.cause) == (verdict, cause)


def test_a_verdict_has_the_numbers_of_its_loss_else_those_of_the_series():
    found = decide(Facts(series(), RULES, 'abc'))
    assert (found.reference, found.limits, found.session, found.case_id) == (*RULES[0], 'abc', 1)
    assert (found.value, found.loss, found.interval, found.window, found.p) == (100.0, None, None, 1, None)
    of_node = replace(reference(), mean=90.0)
    found = decide(Facts(series(), RULES, loss=Loss('ok', '', of_node, None, None, 0.1, (0.0, 0.2), 3, 0.5, 0.9)))
    assert (found.reference, found.limits, found.loss, found.interval) == (of_node, BOUND, 0.1, (0.0, 0.2))
    assert (found.window, found.p, found.q) == (3, 0.5, 0.9)
    absent = decide(Facts(Measured.absent(TRIAD, RATE, 'no case measured it'), RULES))
    assert (absent.verdict, absent.cause, absent.value, absent.case_id, absent.nodes) == (
        'missing', 'no case measured it', None, None, (),
    )  # fmt: skip


@each_row(('known', 'numbers'), [
    ({}, 1), ({'row': series(job('invalid'))}, 0), ({'hardware': 'half'}, 0), ({'rules': OTHER_UNIT}, 0),
    ({'rules': [(reference(), replace(BOUND, gate='elsewhere'))]}, 0), ({'rules': RULES * 2, 'lost': LOST}, 2),
])  # fmt: skip
def test_a_loss_is_computed_where_no_other_fact_decides(known, numbers):
    assert len(Facts(**{'row': series(), 'rules': RULES} | known).referenced) == numbers


@each_row(('value', 'better', 'side'), [(94.9, 'higher', 'below'), (95.0, 'higher', ''), (105.1, 'lower', 'above')])
def test_beside_machines_elsewhere_a_worse_number_warns(value, better, side):
    row = replace(series(job(value=value)), quantity=Quantity('GB/s', better))
    bound = Limits(95.0 if better == 'higher' else 105.0, 0.0, 0.05, 'of others', 'elsewhere')
    found = beside(row, reference(), bound, 'abc')
    assert (found.shows == 'warning' and f'is {side} the limit' in found.cause) if side else found == Loss()


def test_a_test_of_another_suite_fails_by_its_own_references():
    failed = case(result='fail', fail_phase='performance')
    assert compare.own_test(series(), case()) == '' != compare.own_test(series(), failed)
    for name, missed in (('triad', True), ('my.triad', False), ('copy', False)):
        cause = Cause('reference', name, detail=': 1 s, expected at most 0.5')
        found = compare.own_test(series(), failed._replace(causes=[cause]))
        assert f'{name}: 1 s, expected at most 0.5' in found if missed else found == ''


# Losses in common


@each_row(('red', 'told'), [([], True), ([0, 1, 2], True), ([0, 1, 2, 3], False)])
def test_a_loss_in_common_is_told_unless_most_of_it_regressed(red, told):
    rows = [SimpleNamespace(measured=series(of=STREAM.series(f'm{i}', ()))) for i in range(4)]
    common = InCommon(red=[0], loss={0: (0.1, 0.05, 0.2)}, p={0: 0.01})
    answer = SimpleNamespace(common=common, red=numpy.isin(numpy.arange(4), red), slow=Slow(numpy.zeros(4, bool)))
    found = together._in_common(answer, Groups(['check'], [numpy.arange(4)]), ['STREAM'], rows)
    assert [(one.kind, one.where, len(one.series), one.p) for one in found] == (
        [('check', 'STREAM', 4, 0.01)] if told else []
    )
    for one in found:
        assert (one.loss, *one.interval) == pytest.approx([1 - math.exp(-size) for size in (0.1, 0.05, 0.2)])


def test_a_slow_node_is_a_loss_of_what_ran_on_it():
    rows = [SimpleNamespace(measured=series(job(nodes=nodes), of=STREAM.series(f'm{i}', ())))
            for i, nodes in enumerate((('n1',), ('n2',), ('n1', 'n2'), ('n2', 'n3')))]  # fmt: skip
    apart = {1: numpy.array([3])}  # a job on two nodes that lost less
    answer = SimpleNamespace(slow=Slow(numpy.zeros(4, bool), {1: (0.1, 0.05, 0.2, 0.01)}, apart))
    (found,) = together._slow_nodes(answer, SimpleNamespace(names=['n1', 'n2']), rows)
    assert (found.kind, found.where, [of.metric for of in found.series]) == ('node', 'n2', ['m1', 'm2'])
    assert found.loss == pytest.approx(1 - math.exp(-0.1)) and found.p == 0.01


def test_further_jobs_are_asked_for_by_case():
    more = [SimpleNamespace(case=1, jobs=2, on=-1, avoid=(0,)), SimpleNamespace(case=0, jobs=1, on=1, avoid=())]
    of = SimpleNamespace(ids=[4, 7], names=['n1', 'n2'])
    found = together._further_jobs(SimpleNamespace(more=more), of, [case(4), case(7, check='Osu')])
    assert [(one.case_id, one.name, one.jobs, one.on, one.not_on) for one in found] == [
        (7, 'Osu', 2, '', ('n1',)), (4, 'STREAM', 1, 'n2', ()),
    ]  # fmt: skip
    assert found[1].why.startswith('n2') and not found[0].why.startswith('n')


def test_what_a_check_no_longer_judges_is_missing():
    recorded, other = reference(facts={'sessions': 'night001'}), reference()
    for judged, row, status in ((False, recorded, 'missing'), (True, recorded, 'measured'), (False, other, 'measured')):
        (found,) = compare.without_judgement([series(judged=judged)], SimpleNamespace(exact={TRIAD: row}))
        assert found.status == status
    # a curve of which another point is judged goes on
    points = [STREAM.series('rate', (('size', str(size)),)) for size in (1, 2)]
    exact = {points[0]: reference(points[0], facts={'sessions': 'night001'})}
    rows = [series(of=points[0], judged=False), series(of=points[1])]
    assert [one.status for one in compare.without_judgement(rows, SimpleNamespace(exact=exact))] == ['measured'] * 2
    rows = [series(of=points[0], judged=False), series(of=STREAM.series('lag', (('size', '2'),)))]
    assert [one.status for one in compare.without_judgement(rows, SimpleNamespace(exact=exact))] == [
        'missing', 'measured',
    ]  # fmt: skip


# Rows that are retired


@pytest.fixture
def site(tmp_path):
    """The root of a site with rows of two metrics, and the results with a proposal of one of them."""
    folder, results = tmp_path / 'sites/cluster', tmp_path / 'results'
    folder.mkdir(parents=True)
    (results / 'proposals').mkdir(parents=True)
    rows = [
        replace(reference(STREAM.series(name, ())), std=1.0, recorded_at='2026-11-01') for name in ('copy', 'triad')
    ]
    (folder / 'baseline.csv').write_text(to_baseline(rows))
    (results / 'proposals/cluster.csv').write_text(to_baseline(rows[:1]))
    return tmp_path / 'sites', results


def test_mypy_refuses_a_verdict_that_does_not_exist(tmp_path):
    """Only the modules that define the words are read: what they import takes a minute."""
    words = [str(ROOT / name) for name in ('postprocess/verdicts/verdict.py', 'plumbline/limits.py')]
    lines = 'from postprocess.verdicts.verdict import Verdict\n\n\ndef is_worse(row: Verdict) -> bool:\n'
    found = {}
    for word in ('regressed', 'regresed'):
        (tmp_path / 'own.py').write_text(f"{lines}    return row.verdict == '{word}'\n")
        options = ['--strict', '--follow-imports=skip', '--explicit-package-bases', f'--cache-dir={tmp_path}/cache']
        more = ['--disable-error-code=misc', '--disable-error-code=no-any-return', str(tmp_path / 'own.py')]
        found[word] = subprocess.run(
            [sys.executable, '-m', 'mypy', *options, *more, *words], cwd=ROOT, capture_output=True, text=True
        )
    assert found['regressed'].returncode == 0, found['regressed'].stdout
    assert found['regresed'].returncode == 1 and 'own.py:5' in found['regresed'].stdout

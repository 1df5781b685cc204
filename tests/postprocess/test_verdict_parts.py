# SPDX-License-Identifier: BSD-3-Clause
"""Small parts of the verdicts: jobs, groups, what decides, what to do next, and what speaks against a row."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from rows import each_row

from plumbline.causes import Cause
from plumbline.identity import CaseId, Quantity
from plumbline.limits import Limits, Tolerance
from plumbline.problems import Problem
from plumbline.record import NOTHING, Summary
from plumbline.references import Reference
from plumbline.site.sites import UNDESCRIBED
from postprocess.results.rows import CaseRow, MetricRow, SessionRows
from postprocess.statistics.groups import Groups, InCommon
from postprocess.statistics.levels import Level
from postprocess.statistics.nodes import Slow
from postprocess.verdicts import advice, baseline, facts, measured, missing, objections, sets, together
from postprocess.verdicts.candidates import Candidate, Doubt
from postprocess.verdicts.decide import Facts, Loss, decide
from postprocess.verdicts.elsewhere import beside
from postprocess.verdicts.measured import Job, Measured
from postprocess.verdicts.problems import problems_of
from postprocess.verdicts.verdict import Common, Verdict

RATE = Quantity('GB/s', 'higher')
STREAM = CaseId('cpu', 'system', 'STREAM', ())
TRIAD = STREAM.series('triad', ())


def case(case_id=1, id=STREAM, result='pass', round=0, nodes=('n1',), reason=None, **fields):
    known = {'name': id.check, 'causes': [Cause('said', reason)] if reason else []}
    return CaseRow(
        case_id=case_id, partition=id.partition, environ=id.environ, check=id.check, params=(), result=result,
        round=round, nodes=list(nodes), **known | fields,
    )  # fmt: skip


def of(code):
    """The column of one cause."""
    return [Cause(code, 'x')]


SAID = of('said')
KILLED = [Cause('crash', 'killed', 'n1', (2,), 3, ': "x"', 'test the memory'), Cause('time-limit', 'late')]
OSU = CaseId('cpu', 'system', 'Osu', ())


def metric(case_id=1, name='triad', mean=100.0, status='measured', **fields):
    summary = Summary(1, mean, None, mean, mean)
    return MetricRow(name, (), RATE, case_id=case_id, status=status, summary=summary, **fields)


def series_of(cases, metrics):
    return measured.measured(SessionRows(None, cases=cases, metrics=metrics))


def reference(of=TRIAD, mean=100.0, facts=None, **fields):
    provenance = '; '.join(f'{name}={value}' for name, value in (facts or {}).items())
    return Reference(of, RATE, mean, None, fields.pop('n', 3), 'baseline', 'session x', provenance=provenance, **fields)


def job(status='measured', value=100.0, round=0, case_id=1, nodes=('n1',), ended=True, cause='', code=None):
    summary = Summary(1, value, None, value, value) if status == 'measured' else NOTHING
    return Job(round, case_id, nodes, summary, status, cause, ended, code=code)


def series(*jobs, of=TRIAD, **fields):
    return Measured(of, RATE, 'quick', jobs or (job(),), **fields)


def verdict(metric='triad', id=STREAM, judged=True, kind='ok', value=100.0, **fields):
    of = id.series(metric, ())
    measured = NOTHING if value is None else Summary(1, value, None, value, value)
    row = fields.pop('reference', reference(of) if judged else None)
    return Verdict(kind, of, RATE, measured, row, row and Limits(95.0, 105.0, 0.05, ''), **fields)


def command(words):
    return f'<{words}>'


# Jobs of a session


def test_a_case_that_runs_again_is_one_with_several_runs():
    runs = [case(1), case(2), case(3, round=1), case(4, OSU), case(5, OSU, round=2), case(6, round=1)]
    assert [[one.case_id for one in group] for group in measured.runs_of(runs)] == [[1, 3, 6], [2], [4, 5]]
    assert [one.case_id for one in measured.last_runs(runs)] == [6, 2, 5]


def test_the_series_of_a_session_with_their_jobs():
    rows = [case(1, nodes=('n1', 'n2')), case(2, result='fail', reason='killed', fail_phase='run', round=1)]
    (one,) = series_of(rows, [metric(1), metric(2, status='failed', mean=None)])
    assert [(of.case_id, of.status, of.cause, of.ended, of.round) for of in one.jobs] == [
        (1, 'measured', '', True, 0), (2, 'failed', 'failed in run: killed', False, 1),
    ]  # fmt: skip
    assert (one.value, one.status, one.nodes, one.case_id, one.lost) == (100.0, 'measured', ('n1', 'n2'), 1, ())
    # a run that passed and declares nothing
    (one,) = series_of([rows[0], rows[1]._replace(result='pass', causes=[])], [metric(1)])
    assert one.jobs[1].ended and one.jobs[1].status == 'failed' and "'pass'" in one.jobs[1].cause


def test_a_failed_stack_is_the_cause_of_its_cases():
    stack = case(1, fixture=True, result='fail', reason='no compiler', fail_phase='sanity')
    (one,) = series_of([stack, case(2, result=measured.NEEDED_FAILED)], [])
    assert 'stack system' in one.cause and 'no compiler' in one.cause
    (one,) = series_of([stack._replace(causes=of('license')), case(2, result=measured.NEEDED_FAILED)], [])
    assert one.first.code == 'license'


@each_row(('fields', 'row', 'code'), [
    ({}, {}, None), ({}, {'status': 'invalid', 'invalid': 'too fast'}, 'invalid'),
    ({}, {'status': 'missing', 'missing': 'no line'}, 'lost-metric'),
    ({}, {'status': 'missing', 'summary': NOTHING}, 'lost-metric'),
    ({}, {'status': 'failed', 'summary': Summary(1, math.nan, None, None, None)}, 'invalid'), ({}, None, 'lost-metric'),
    ({'causes': SAID}, None, 'said'),
    ({'result': 'fail', 'causes': KILLED}, {'status': 'missing', 'missing': 'no line'}, 'crash'),
    ({'result': 'fail', 'causes': KILLED}, {'status': 'failed'}, 'crash'),
    ({'result': 'fail', 'causes': KILLED}, None, 'crash'),
    ({'result': 'fail', 'causes': KILLED}, {'status': 'invalid', 'invalid': 'too fast'}, 'invalid'),
    *(({'result': result}, None, 'not-run') for result in ('abort', 'skip', measured.NEEDED_FAILED)),
    ({'result': 'new'}, None, 'said'),
])  # fmt: skip
def test_each_job_without_a_number_that_counts_has_a_code(fields, row, code):
    rows = [case(1), case(2, round=1, **fields)]
    (one,) = series_of(rows, [metric(1), *([metric(2)._replace(**row)] if row is not None else [])])
    assert one.jobs[1].code == code and bool(one.jobs[1].cause) == bool(code)


def test_only_jobs_on_the_nodes_of_the_first_are_pooled():
    two = series(job(value=90.0), job(value=110.0, round=1), job(value=500.0, nodes=('n2',)))
    assert two.value == 100.0 and two.summary.n == 2


@each_row(('fields', 'says'), [
    ({'result': 'fail', 'fail_phase': 'run', 'causes': KILLED, 'evidence': 'a.tar.gz'},
     'failed in run: killed in trial 2 of 3 on n1: "x"; test the memory; also: late; all output: a.tar.gz'),
    ({'result': 'abort', 'causes': of('not-run')}, 'not run to its end: x'),
    ({'result': 'abort'}, 'not run to its end: the session was aborted'),
    ({'result': 'fail', 'fail_phase': 'performance', 'causes': SAID}, None),
    ({'result': 'fail', 'fail_phase': 'sanity', 'reason': 'lost'}, 'failed: lost'),
    ({'result': 'new'}, "ended with result 'new' in an unknown phase"),  # of a later ReFrame
])  # fmt: skip
def test_why_a_case_failed_is_said_from_its_causes(fields, says):
    assert measured.failure(case(**fields)) == says


# Groups of series


def test_series_share_what_their_names_say_and_of_equal_groups_only_the_widest_is_judged():
    """Per link class three series of a GPU, and on each of two nodes three of a CPU; their partition is their case."""
    copies = CaseId('gpu', 'cuda', 'Copies', (('link_class', 'nvlink'),))
    links = [copies.series(f'm{i}', (('link_class', 'pcie'),)) for i in range(3)] + [copies.series('rate', ())]
    swept = [series(job(nodes=(node,), case_id=i), of=STREAM.series(f'm{j}', ()))
             for i, node in enumerate(('n1', 'n2')) for j in range(3)]  # fmt: skip
    rows = [SimpleNamespace(measured=one) for one in [*(series(of=id) for id in links), *swept]]
    groups, names = sets.groups_of(rows, {})
    members = [part.tolist() for part in groups.members]
    assert [*zip(groups.kinds, names, members, strict=True)] == [
        ('partition', 'cpu', [4, 5, 6, 7, 8, 9]), ('partition', 'gpu', [0, 1, 2, 3]),
        ('link_class', 'gpu pcie', [0, 1, 2]), ('node', 'n1', [4, 5, 6]), ('node', 'n2', [7, 8, 9]),
    ]  # fmt: skip
    assert not sets.groups_of(rows[:2], {})[0].members, 'two series are no group'


def test_stretches_of_a_curve_overlap_by_half():
    """Of 9 sizes: all of them, which are the partition, and three stretches of four."""
    sizes = [STREAM.series('rate', (('size', str(2**i)),)) for i in range(9)]
    rows = [SimpleNamespace(measured=series(of=of), reference=reference(of)) for of in sizes]
    groups, names = sets.groups_of(rows, sets.curves_of(rows, {1: frozenset({'size'})}))
    assert groups.kinds == ['partition', 'curve', 'curve', 'curve']
    assert [part.tolist() for part in groups.members[1:]] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert names[1] == 'cpu/system STREAM - rate size=1..8'


# What went wrong in a session


@each_row(('cases', 'rows', 'kinds'), [
    ([case(2, fixture=True)], [series()], []),
    # a case that failed shows it by its series, one that ended with another reason does not
    ([case(2, result='fail', causes=SAID, fail_phase='run')], [series()], []),
    ([case(2, result='fail', causes=SAID, fail_phase='performance')], [series()], ['case']),
    ([case(2, result='fail', causes=of('reference'), fail_phase='performance')], [series()], []),
    ([case(1, result='fail', causes=SAID, fail_phase='performance')], [series(), series(job('missing'))], []),
])  # fmt: skip
def test_what_went_wrong_outside_the_series(cases, rows, kinds):
    session = SimpleNamespace(problems=[], expected=2, ran=2, mode='quick')
    assert [problem.kind for problem in problems_of(session, cases, rows)] == kinds


def test_a_session_that_was_cut_short_is_told_once():
    cut = SimpleNamespace(problems=[Problem('ended', 'cut short')], expected=3, ran=2, mode='quick')
    assert [problem.kind for problem in problems_of(cut, [], [series()])] == ['cut short']


# The table that decides

BOUND = Limits(95.0, 105.0, 0.05, '')
RULES = [(reference(), BOUND)]
OTHER_UNIT = [(reference(), BOUND), (replace(reference(), quantity=Quantity('MB/s', 'higher')), BOUND)]
LOST = job('invalid', cause='too fast', nodes=('n2',), code='invalid')
NO_LINE = job('missing', cause='no line', code='lost-metric')
#: From the most important fact to the least: each with the verdict, the cause and the code that it has beside all that
#: follow.
FACTS = [
    ({'measured': series(job('failed', cause='killed', code='crash'))}, 'failed', 'killed', 'crash'),
    ({'measured': series(job('invalid', cause='too high', code='invalid'))}, 'invalid', 'too high', 'invalid'),
    ({'measured': series(NO_LINE)}, 'missing', 'no line', 'lost-metric'),
    ({'hardware': Problem('1 of 2 CPUs', 'hardware')}, 'invalid', '1 of 2 CPUs', 'settings'),
    ({'rules': OTHER_UNIT}, 'failed', 'unit differs', 'reference'),
    ({'loss': Loss('regressed', '10 % less')}, 'regressed', '10 % less', None),
    ({'lost': LOST}, 'invalid', 'too fast', 'invalid'),
    ({'lost': replace(NO_LINE, nodes=('n2',))}, 'missing', 'no line', 'lost-metric'),
    ({'loss': Loss('warning', 'not confirmed')}, 'warning', 'not confirmed', None),
    ({'loss': Loss('improved')}, 'improved', '', None), ({'common': 'all lost 2 %'}, 'warning', 'all lost 2 %', None),
    ({'loss': Loss('ok')}, 'ok', '', None),
]  # fmt: skip


def test_of_several_facts_the_most_important_decides():
    for place, (_, verdict, cause, code) in enumerate(FACTS):
        known = {'measured': series(), 'rules': RULES}
        for fact, *_ in reversed(FACTS[place:]):
            known |= fact
        found = decide(Facts(**known))
        assert (found.verdict, found.cause.partition(':')[0], found.code) == (verdict, cause, code), known
        assert found.nodes == (('n2',) if known.get('lost') and found.cause == known['lost'].cause else ('n1',))


@each_row(('known', 'verdict', 'cause'), [
    ({}, 'no_reference', ''), ({'measured': series(judged=False)}, 'informational', ''),
    ({'measured': series(NO_LINE)}, 'failed', 'no line'),
    ({'own_test': 'too slow'}, 'failed', 'too slow'), ({'own_test': 'too slow', 'rules': RULES}, 'ok', ''),
    ({'own_test': 'too slow', 'measured': series(judged=False)}, 'informational', ''),
    ({'own_test': 'too slow', 'lost': LOST}, 'failed', 'too slow'),
    ({'lost': LOST, 'measured': series(judged=False)}, 'invalid', 'too fast'),
    # not measured before a change, and lost by one job after it
    ({'lost': LOST, 'loss': Loss('warning', 'cannot tell')}, 'invalid', 'too fast'),
])  # fmt: skip
def test_what_decides_without_a_reference(known, verdict, cause):
    found = decide(Facts(**{'measured': series()} | known))
    assert (found.verdict, found.cause) == (verdict, cause)
    codes = {'no line': 'lost-metric', 'too slow': 'reference', 'too fast': 'invalid'}
    assert found.code == codes.get(cause)


@each_row(('value', 'better', 'side'), [(94.9, 'higher', 'below'), (95.0, 'higher', ''), (105.1, 'lower', 'above')])
def test_beside_machines_elsewhere_a_worse_number_warns(value, better, side):
    row = replace(series(job(value=value)), quantity=Quantity('GB/s', better))
    bound = Limits(95.0 if better == 'higher' else 105.0, 0.0, 0.05, 'of others', 'elsewhere')
    found = beside(row, reference(), bound, 'abc')
    assert (found.shows == 'warning' and f'is {side} the limit' in found.cause) if side else found == Loss()


@each_row(
    ('kind', 'red', 'told'),
    [('check', [0, 1, 2], True), ('check', [0, 1, 2, 3], False), ('partition', [0, 1, 2, 3], True)],
)
def test_a_loss_in_common_is_told_unless_most_of_a_part_of_an_environ_regressed(kind, red, told):
    checks = ('STREAM', 'HPL') if kind == 'partition' else ('STREAM',)
    rows = [
        SimpleNamespace(measured=series(of=replace(STREAM, check=checks[i % len(checks)]).series(f'm{i}', ())))
        for i in range(4)
    ]
    common = InCommon(red=[0], loss={0: (0.1, 0.05, 0.2)}, p={0: 0.01})
    answer = SimpleNamespace(common=common, red=numpy.isin(numpy.arange(4), red), slow=Slow(numpy.zeros(4, bool)))
    found = together._in_common(answer, Groups([kind], [numpy.arange(4)]), ['STREAM'], rows)
    assert [(one.kind, one.where, len(one.series), one.p) for one in found] == [(kind, 'STREAM', 4, 0.01)] * told
    for one in found:
        assert (one.loss, *one.interval) == pytest.approx([1 - math.exp(-size) for size in (0.1, 0.05, 0.2)])


def test_a_slow_node_is_a_loss_of_what_ran_on_it():
    ran = ('n1',), ('n2',), ('n1', 'n2'), ('n2', 'n3')
    rows = [
        SimpleNamespace(measured=series(job(nodes=nodes), of=STREAM.series(f'm{i}', ()))) for i, nodes in enumerate(ran)
    ]
    apart = {1: numpy.array([3])}  # a job on two nodes that lost less
    answer = SimpleNamespace(slow=Slow(numpy.zeros(4, bool), {1: (0.1, 0.05, 0.2, 0.01)}, apart))
    (found,) = together._slow_nodes(answer, SimpleNamespace(names=['n1', 'n2']), rows)
    assert (found.kind, found.where, [of.metric for of in found.series]) == ('node', 'n2', ['m1', 'm2'])
    assert found.loss == pytest.approx(1 - math.exp(-0.1)) and found.p == 0.01


def test_a_test_of_another_suite_fails_by_its_own_references():
    failed = case(result='fail', fail_phase='performance')
    assert facts.own_test(series(), case()) == '' != facts.own_test(series(), failed)
    for name, missed in (('triad', True), ('my.triad', False), ('copy', False)):
        cause = Cause('reference', name, detail=': 1 s, expected at most 0.5')
        found = facts.own_test(series(), failed._replace(causes=[cause]))
        assert f'{name}: 1 s, expected at most 0.5' in found if missed else found == ''


def test_a_curve_of_which_another_point_is_judged_goes_on():
    """One of which none is judged any longer is missing."""
    points = [STREAM.series('rate', (('size', str(size)),)) for size in (1, 2)]
    references = SimpleNamespace(exact={points[0]: reference(points[0], facts={'sessions': 'night001'})})
    for judged, status in ((points[1], 'measured'), (STREAM.series('lag', (('size', '2'),)), 'missing')):
        found = missing.without_judgement([series(of=points[0], judged=False), series(of=judged)], references)
        assert [one.status for one in found] == [status, 'measured']
        assert found[0].first.code == ('lost-metric' if status == 'missing' else None)


@each_row(('known', 'numbers'), [
    ({}, 1), ({'measured': series(job('invalid'))}, 0), ({'hardware': Problem('half')}, 0), ({'rules': OTHER_UNIT}, 0),
    ({'rules': [(reference(), replace(BOUND, gate='elsewhere'))]}, 0), ({'rules': RULES * 2, 'lost': LOST}, 2),
])  # fmt: skip
def test_a_loss_is_computed_where_no_other_fact_decides(known, numbers):
    assert len(Facts(**{'measured': series(), 'rules': RULES} | known).referenced) == numbers


def test_numbers_of_a_verdict_are_those_of_one_quantity():
    bad = verdict(kind='regressed', value=90.0)
    assert (bad.expected, bad.limit, bad.ratio, bad.worse_by) == (100.0, 95.0, 0.9, pytest.approx(10.0))
    other = replace(bad, quantity=Quantity('us', 'lower'))
    assert (other.expected, other.limit, other.worse_by) == (None, None, pytest.approx(-10.0))
    for none in (verdict(kind='failed', value=90.0), verdict(kind='regressed', value=None)):
        assert (none.ratio, none.deviation, none.worse_by) == (None, None, 0.0)


def test_further_jobs_are_asked_for_by_case():
    more = [SimpleNamespace(case=1, jobs=2, on=-1, avoid=(0,)), SimpleNamespace(case=0, jobs=1, on=1, avoid=())]
    of = SimpleNamespace(ids=[4, 7], names=['n1', 'n2'])
    found = together._further_jobs(SimpleNamespace(more=more), of, [case(4), case(7, OSU)])
    assert [(one.case_id, one.name, one.jobs, one.on, one.not_on) for one in found] == [
        (7, 'Osu', 2, '', ('n1',)), (4, 'STREAM', 1, 'n2', ()),
    ]  # fmt: skip


def test_a_loss_in_common_is_held_by_what_may_have_lost_half_of_it():
    one = Common('node', 'n1', (TRIAD,), 0.1, (0.05, 0.15), 0.01)
    assert str(one) == 'node n1: 1 series lost 10.0 % in common (95 % interval 5.0 to 15.0 %)'
    on_node = verdict(nodes=('n1', 'n2'))
    assert one.holds(on_node)
    assert not one.holds(verdict('copy', nodes=('n1',))) and not one.holds(verdict(nodes=('n2',)))
    assert replace(one, kind='check').holds(verdict(nodes=('n2',)))
    assert one.holds(replace(on_node, interval=(0.0, 0.05))) and not one.holds(replace(on_node, interval=(0.0, 0.049)))


# What to do next


MANY = [CaseId('cpu', 'system', f'C{i}', ()) for i in range(6)]
FAILED = case(case_id=2, result='fail', reason='x', name='b')
NONE_JUDGED = ['nothing was judged', '<record propose>', '<record accept>']


def places(*ids):
    """Metrics that are judged on partition cpu, and one without a reference at each of some cases."""
    return [verdict(f'm{i}') for i in range(2 * len(ids))] + [verdict(id=id, judged=False) for id in ids]


@each_row(('series', 'cases', 'named'), [
    ([verdict(judged=False, kind='informational')], [case()], []),
    ([verdict(judged=False)], [case()], NONE_JUDGED),
    ([verdict(judged=False)], [case(), FAILED], ['no baseline yet', '1 of 2 cases', 'repair', '<record propose>']),
    ([verdict(value=None)], [case(result='fail', reason='x')], []),  # a baseline waits for it
    # a case that was skipped did not run, and a run that failed first and passed then did
    ([verdict(judged=False)], [case(), FAILED, case(case_id=3, result='skip', name='c'), case(case_id=4, name='d')],
     [*NONE_JUDGED, '1 of 3 cases']),
    ([verdict(), verdict('copy', judged=False)], [case()], ['1 of 2 metrics', '<record propose>']),
    (places(CaseId('gpu', 'system', 'STREAM', ())), [case()], ['partition gpu (1 metric)', '<record propose>']),
    (places(CaseId('cpu', 'other', 'STREAM', ()), CaseId('cpu', 'other', 'Osu', ())), [case()],
     ['environ other of partition cpu (2 metrics)']),
    (places(*MANY), [case()], [*(f'C{i} with environ' for i in range(5)), 'and 1 more']),
    # a metric beside judged ones of its check is no place
    ([*[verdict(f'm{i}') for i in range(2)], verdict('new', judged=False)], [case()], []),
])  # fmt: skip
def test_the_next_step_where_something_could_not_be_judged(series, cases, named):
    said = advice.hints(series, cases, command)
    assert len(said) == bool(named) and [name for name in named if name not in said[0]] == [], said


@each_row(('fields', 'gone'), [
    ({}, 1), ({'case_id': 3}, 0), ({'kind': 'failed'}, 0), ({'reference': replace(reference(), kind='published')}, 0),
    ({'reference': reference(CaseId('*', '*', 'STREAM', ()).series('x', ()))}, 0),
])  # fmt: skip
def test_what_no_job_measured_is_to_be_retired(fields, gone):
    missing = verdict(**{'kind': 'missing', 'value': None} | fields)
    command = 'record retire STREAM --why REASON' if gone else ''
    assert advice.retiring([missing], [case(id=OSU)], [reference()]) == (gone, command)
    assert advice.retiring([missing], [case(result='fail', reason='x')], [reference()]) == (0, '')


def test_a_change_that_is_also_in_the_baseline_is_none_and_more_than_five_checks_are_counted():
    def told(before, checks):
        recorded = {'check_code': before}
        rows = [verdict(id=id, case_id=number, reference=reference(id.series('triad', ()), facts=recorded))
                for number, id in enumerate(MANY[:checks])]  # fmt: skip
        cases = [case(number, id, provenance={'check_code': 'b'}) for number, id in enumerate(MANY[:checks])]
        return ''.join(advice.changed_checks(rows, cases, command))

    assert told('a | b', 1) == '' and 'the code of C0 has changed' in told('a', 1)
    assert 'the code of 6 checks has changed' in told('a', 6)


@each_row(('better', 'others', 'says'), [
    (3, 2, '3 of 5 metrics are better than their references since kernel 6.1 -> 6.2: '), (3, 3, ''), (2, 0, ''),
])  # fmt: skip
def test_many_gains_are_told_with_what_changed_in_most_of_them(better, others, says):
    rows = [
        verdict(f'm{i}', kind=kind, case_id=1 if i < 2 else 2, reference=reference(facts={'kernel': '6.1'}))
        for i, kind in enumerate(['improved'] * better + ['ok'] * others)
    ]
    cases = [case(case_id=1, provenance={'kernel': '6.2'}), case(case_id=2, provenance={'kernel': '6.1'})]
    said = advice.improved(rows, cases, command)
    assert len(said) == bool(says) and ''.join(said).startswith(says)


# What speaks against a row


FLOOR = Tolerance(0.02, 1.0, 0.01)


def falling(share, sessions):
    """A straight line in the logarithm."""
    return [100 * math.exp(-share * i) for i in range(sessions)]


@each_row(('values', 'better', 'lost'), [
    # 2 % each of five steps: exp(-0.1)
    (falling(0.02, 6), 'higher', '9.5 %'), (falling(-0.02, 6), 'higher', ''), (falling(-0.02, 6), 'lower', '9.5 %'),
    (falling(0.02, 4), 'higher', ''), (falling(0.02, 5), 'higher', '7.7 %'),
    (falling(0.004, 6), 'higher', ''),  # 2 % is the floor, 1 - exp(-0.02) is below it
    (falling(0.0042, 6), 'higher', '2.1 %'), ([100.0, 90.0, 104.0, 88.0, 101.0, 86.0], 'higher', ''),
])  # fmt: skip
def test_a_loss_little_by_little_speaks_against_a_row(values, better, lost):
    sessions = [SimpleNamespace(day=f'2026-11-{day:02}', short_name=f'night{day:02}x') for day in range(1, 20)]
    nights, days = numpy.arange(len(values)), f'from 2026-11-01 to 2026-11-{len(values):02}'
    for jobs in (1, 2):  # several jobs of a night are one value
        places = numpy.repeat(nights, jobs)
        one = Candidate(
            TRIAD, Quantity('GB/s', better), 'quick', {}, places, 10 + places, numpy.repeat(values, jobs),
            numpy.full(len(places), math.nan), numpy.array(['n1'] * len(places)),
        )  # fmt: skip
        said = [(found.kind, found.why) for found in objections.slow_loss(one, FLOOR, sessions)]
        assert said == ([('slow_loss', f'lost {lost} little by little {days}')] if lost else [])


@each_row(('levels', 'switched', 'worse', 'site', 'alternates'), [
    (2, None, [1.0], 'cluster', True), (2, None, None, 'cluster', False), (2, 3, [1.0], 'cluster', False),
    (0, None, [1.0], 'cluster', False), (2, None, None, UNDESCRIBED, True), (2, 3, None, UNDESCRIBED, False),
])  # fmt: skip
def test_a_machine_that_goes_to_and_fro_between_levels(levels, switched, worse, site, alternates):
    recorder = object.__new__(baseline._Recorder)
    recorder.site = site
    two = ((90.0, 1), (100.0, 2))[:levels]
    worse = None if worse is None else numpy.array(worse)
    assert recorder.alternates(Level(numpy.ones(1, bool), levels=two, switched=switched, worse=worse)) is alternates


def test_of_several_doubts_the_first_is_told_and_the_others_are_counted():
    doubts = [Doubt(night, 10 + night, STREAM, 'n1' * (night > 0), 'busy') for night in range(3)]
    assert objections.summary_of(doubts) == 'busy (STREAM), and 2 jobs more'
    assert objections.summary_of(doubts[1:2]) == 'busy (STREAM on n1)'


@each_row(('new', 'old', 'found'), [
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
    for rows, what in (((old, None), 'in force'), ((None, old), 'published')):
        said = objections.worse(new, *rows, FLOOR)
        assert len(said) == bool(found)
        assert not said or f'worse than what is {what}, 100, by {found}' in said[0].why

# SPDX-License-Identifier: BSD-3-Clause
"""The rules by which incidents are dated, divided, grouped, compared and closed, each function by hand."""

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace as stub

import numpy
import pytest
from rows import each_row
from run_reports import SITE_YAML

from plumbline.causes import Cause
from plumbline.grouping import Named
from plumbline.identity import CaseId, Quantity, from_text
from plumbline.problems import Problem
from plumbline.record import NOTHING, Summary
from postprocess.incidents import (
    accused,
    alike,
    background,
    corrections,
    failures,
    fold,
    healing,
    ledger,
    levels,
    losses,
    nodes,
    problems,
    recheck,
    splits,
)  # fmt: skip
from postprocess.incidents.draft import Draft
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Acknowledged, Known
from postprocess.incidents.notes import Began, Note, Selection
from postprocess.incidents.part import Part, Seen, likeness
from postprocess.incidents.provenance import ALL as ALL_NODES
from postprocess.incidents.provenance import Difference, Provenance, difference
from postprocess.results.rows import CaseRow
from postprocess.verdicts.measured import broken_stacks
from postprocess.verdicts.verdict import Verdict

CASE = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))
TRIAD, COPY, ADD = (CASE.series(name) for name in ('triad', 'copy', 'add'))
ALL = CASE.series('*')
OSU = CaseId('cpu', 'system', 'Osu', ()).series('latency')


def verdict(word='regressed', of=TRIAD, nodes=('n1',), value=90.0, case_id=1, **fields):
    measured = NOTHING if value is None else Summary(2, value, 1.0, value - 1, value + 1)
    return Verdict(word, of, Quantity('GB/s', 'higher'), measured, nodes=nodes, case_id=case_id, **fields)


def case(check='STREAM', nodes=('n1',), result='pass', params='size=big', case_id=1, **fields):
    known = {
        'name': '', 'case_id': case_id, 'partition': 'cpu', 'environ': 'system', 'check': check,
        'params': from_text(params), 'fixture': False, 'benchmark': True, 'result': result, 'round': 1,
        'nodes': list(nodes),
    }  # fmt: skip
    return CaseRow(**known | fields)


def of(*codes, what='x'):
    """The column of these causes."""
    return [Cause(code, what) for code in codes]


def names(*named):
    """Return the provenance of a case that names what is bad: kind, place, nodes, text and perhaps a rail."""
    return {'named': json.dumps(named)}


def incident(sort='loss', series=(TRIAD,), nodes=('n1',), where=None, kind='NODE', **fields):
    where = Scope('site', 'cpu', nodes=nodes) if where is None else where
    return Incident(kind, where, sort, tuple(sorted({of.check for of in series})), series, nodes, **fields)


def seen(day, bad=('n1',), healthy=(), **fields):
    return Seen(f'2026-11-{day:02}T02:00:00', bad, healthy, **fields)


BAD, WELL = (('n1',), ()), ((), ('n1',))


def in_ledger(of=None, days='', **fields):
    """Return a known incident.

    `days`: what each session from 2026-11-01 on shows of n1: bad (B), healthy (H) or nothing (-); or its bad and
    healthy nodes.
    """
    shown = {'B': BAD, 'H': WELL}
    entries = {f's{i}': seen(i, *shown.get(each, each)) for i, each in enumerate(days, 1) if each != '-'}
    entries = fields.pop('seen', entries)
    own = {name: fields.pop(name) for name in [*fields] if name in Part.__dataclass_fields__}
    return Known('abc123', (Part('abc123', of or incident(), entries, **own),), **fields)


def part_of(*args, **fields):
    """Return the only part of a known incident."""
    return in_ledger(*args, **fields).parts[0]


def shown_by(of, rows=(), cases=()):
    """What a session shows of an incident of one node or of none: True if it is over, False if not, else None."""
    bad, healthy = healing.seen_again(part_of(of), stub(verdicts=list(rows)), list(cases))
    assert bad | healthy <= {'n1', ''} and not bad & healthy
    return True if healthy else False if bad else None


# Over, or still bad


#: As a series told its loss tonight that has none
NONE_LOST = {'loss': 0.01, 'interval': (-0.03, 0.05)}


@each_row(('series', 'rows', 'healthy'), [
    ((TRIAD,), [verdict('ok', **NONE_LOST)], True), ((TRIAD,), [verdict('improved', **NONE_LOST)], True),
    ((TRIAD,), [verdict('warning', **NONE_LOST)], None), ((TRIAD,), [], None),
    ((TRIAD,), [verdict()], False), ((TRIAD, COPY), [verdict('ok', **NONE_LOST), verdict(of=COPY)], False),
    ((TRIAD, COPY, ADD), [verdict('ok', **NONE_LOST)], True), ((TRIAD,), [verdict('ok')], None),
    # of a loss of 20 % here: more than half must be regained, and all of it excluded
    ((TRIAD,), [verdict('ok', loss=0.09, interval=(-0.1, 0.19))], True),
    ((TRIAD,), [verdict('ok', loss=0.09, interval=(-0.1, 0.21))], None),
    ((TRIAD,), [verdict('ok', loss=0.11, interval=(0.05, 0.17))], None),
    ((TRIAD,), [verdict('ok', nodes=('n2',), **NONE_LOST)], None), ((TRIAD,), [verdict(nodes=('n2',))], None),
    ((TRIAD,), [verdict('ok', COPY, **NONE_LOST)], None),
])  # fmt: skip
def test_a_loss_of_a_node_is_over_where_one_of_its_series_shows_it_there_and_none_is_bad(series, rows, healthy):
    assert shown_by(incident(series=series, loss=0.2), rows) is healthy


@each_row(('values', 'better', 'sd', 'back'), [
    # of a loss of 10 %: half is regained at 94.9, times at 105.4
    ([95.5], 'higher', 0.01, True), ([94.0], 'higher', 0.01, False), ([96.5, 94.0], 'higher', 0.01, None),
    ([105.0], 'lower', 0.01, True), ([106.0], 'lower', 0.01, False), ([math.nan], 'higher', 0.01, None),
    # and the noise of one job excludes it: 0.9 times exp(2 x 0.04) is 97.5
    ([97.0], 'higher', 0.04, None), ([98.0], 'higher', 0.04, True), ([], 'higher', 0.01, None),
])  # fmt: skip
def test_a_further_job_on_the_node_tells_whether_a_loss_is_over(values, better, sd, back):
    jobs = [stub(value=value, purpose='node', nodes=('n1',)) for value in values]
    others = [stub(value=98.0, purpose='node', nodes=('n2',)), stub(value=98.0, purpose='', nodes=('n1',))]
    row = stub(id=TRIAD, verdict='warning', nodes=('n2',), value=None, reference=None, jobs=[*jobs, *others],
               expected=100.0, limits=stub(sd=sd), quantity=Quantity('GB/s', better))  # fmt: skip
    assert shown_by(incident(loss=0.1), [row]) is back
    there = [stub(**vars(job) | {'nodes': ('n1', 'n3')}) for job in jobs]
    assert shown_by(incident(loss=0.1), [stub(**vars(row) | {'jobs': there})]) is back, 'in jobs on several nodes, too'
    assert shown_by(incident(loss=0.1), [stub(**vars(row) | {'expected': None})]) is None


@each_row(('share', 'asked'), [(None, ['n1']), (0.1, ['n1']), (0, [])])
def test_a_node_that_no_case_reached_gets_a_job_unless_the_site_allows_none(share, asked, tmp_path):
    (tmp_path / 'site').mkdir(exist_ok=True)
    stated = '' if share is None else f', further_jobs: {share}'
    (tmp_path / 'site/site.yaml').write_text(SITE_YAML.replace('floor: 0.02', f'floor: 0.02{stated}'))
    lasting = in_ledger(incident(loss=0.2), 'B')
    shown = stub(session=stub(day='2026-11-02', site='site'), verdicts=[verdict('ok', nodes=('n2',))])
    of_session = stub(cases=lambda session: [case(nodes=('n2',))])
    there = stub(session=shown.session, verdicts=[verdict('ok', **NONE_LOST)])
    for one, on in ((shown, asked), (there, [])):  # there it was looked at
        of_references = stub(session=one.session, with_stand_ins=one)
        assert [again.on for again in recheck.rechecks(of_session, [lasting], of_references, tmp_path)] == on


def test_a_loss_of_no_node_is_over_where_half_of_its_series_are_well():
    anywhere = incident(nodes=(), where=Scope('site', 'cpu'))
    assert shown_by(anywhere, [verdict('ok', nodes=('n7',))]) is True
    more = replace(anywhere, series=(TRIAD, COPY, ADD))
    assert shown_by(more, [verdict('ok', nodes=('n7',))]) is None
    assert shown_by(more, [verdict('ok'), verdict('ok', COPY)]) is True


def test_what_was_split_off_heals_no_incident_and_a_session_that_ran_is_healthy():
    part = part_of(without=(Selection(metric='triad'),))
    assert healing.seen_again(part, stub(verdicts=[verdict('ok')]), []) == (set(), set())
    for names, healthy in ((('n1', 'n2'), {'n1', 'n2'}), ((), {''})):
        of = part_of(incident('session', (), names))
        assert healing.seen_again(of, stub(verdicts=[]), []) == (set(), healthy)
        hardware = part_of(incident('session', nodes=names))
        ran = {'nodes': ('n1',), 'provenance': {'cpus': '2'}}
        assert healing.seen_again(hardware, stub(verdicts=[]), [case(**ran)]) == (set(), healthy - {'n2'})
        for other in (case(nodes=('n1',)), case(**ran, partition='gpu')):  # the first did not begin
            assert healing.seen_again(hardware, stub(verdicts=[]), [other]) == (set(), set())


@each_row(('of', 'cases', 'rows', 'healthy'), [
    ((TRIAD,), [case()], [], True), ((TRIAD,), [case(result='fail')], [], False),
    ((TRIAD,), [case(result='fail', fail_phase='performance')], [], True),
    ((TRIAD,), [case('Osu', result='fail')], [], None), ((TRIAD,), [case('Osu')], [], True),
    ((TRIAD,), [case(nodes=('n2',))], [], None), ((TRIAD,), [case(fixture=True)], [], None),
    ((TRIAD,), [case()], [verdict('missing')], False), ((TRIAD,), [case()], [verdict()], True),
    ((TRIAD,), [], [verdict('failed', nodes=('n2',))], None),
    ((TRIAD,), [], [verdict('missing', nodes=(), case_id=None)], None),
    ((ALL,), [], [verdict('invalid')], False), ((ALL,), [], [verdict('ok', OSU)], None),
    ((ALL,), [], [verdict('ok', COPY)], True),
    ((TRIAD,), [], [verdict('no_reference')], True), ((TRIAD, COPY), [], [verdict()], True),
    ((TRIAD, COPY, ADD), [], [verdict()], None),
])  # fmt: skip
def test_a_failure_on_a_node_is_over_where_a_job_passed_there_or_half_of_its_series_have_numbers(
    of, cases, rows, healthy
):
    assert shown_by(incident('failure', of), rows, cases) is healthy


def test_a_failure_of_no_node_is_over_where_half_of_its_series_have_numbers():
    of = incident('failure', (TRIAD, COPY, ADD), (), Scope('site', 'cpu'))
    rows = [verdict('ok', nodes=('n7',)), verdict('warning', COPY, nodes=('n8',))]
    assert shown_by(of, rows[:1], [case()]) is None
    assert shown_by(of, rows, [case(result='fail')]) is True
    assert shown_by(of, [*rows, verdict('invalid', ADD)]) is False


BAD_NODE, BAD_OTHER = ({'result': 'fail', 'provenance': names(['node', 'n1', [node], 'slow'])} for node in ('n1', 'n2'))


@each_row(('cases', 'healthy'), [
    ([case()], True), ([case(nodes=('n2',))], None), ([case(result='fail')], None), ([case('Osu')], None),
    ([case(fixture=True)], None), ([case(**BAD_NODE)], False), ([case(), case(**BAD_NODE)], False),
    ([case('Osu', **BAD_NODE)], None), ([case(nodes=('n1', 'n2'), **BAD_OTHER)], True),
    ([case(nodes=('n2',), **BAD_OTHER)], None),
])  # fmt: skip
def test_what_a_job_named_is_over_where_such_a_job_passed_or_names_others(cases, healthy):
    assert shown_by(incident('failure', named=True), [], cases) is healthy


def test_a_named_place_is_over_where_a_job_passed_on_two_of_its_nodes():
    of = incident('failure', nodes=('n1', 'n2', 'n3'), where=Scope('site', 'cpu', place='n1 to n2'), named=True)
    assert shown_by(of, [], [case(nodes=('n1', 'n2', 'n9'))]) is True
    assert shown_by(of, [], [case(nodes=('n1', 'n9'))]) is None
    named = case(nodes=('n1', 'n2'), provenance=names(['pair', 'n1 to n2', ['n1', 'n2'], 'slow']))
    assert shown_by(of, [], [named]) is False


def test_the_level_of_an_incident_is_recorded_where_a_baseline_was_taken_from_its_bad_sessions():
    def recorded(of=None, sessions=('s1',), series=TRIAD):
        of = of or incident(nodes=(), where=Scope('site', 'cpu'))
        row = verdict('ok', series, reference=stub(sessions=sessions))
        return healing.is_recorded(part_of(of, [(('',), ()), ((), ('',))]), stub(verdicts=[verdict(), row]))

    assert recorded() and recorded(sessions=('s0', 's1'))
    assert not recorded(sessions=('s2',)) and not recorded(series=COPY) and not recorded(incident())
    assert not recorded(incident('failure', nodes=(), where=Scope('site', 'cpu')))


# What jobs name


@each_row(('kind', 'rail', 'where', 'sort'), [
    *((kind, None, {'nodes': ('n1',)}, 'NODE') for kind in ('settings', 'loopback', 'node', 'group')),
    ('rail', 2, {'nodes': ('n1',), 'device': 'rail 2'}, 'DEVICE'),
    ('rail', 0, {'nodes': ('n1',), 'device': 'rail 0'}, 'DEVICE'),
    ('rail', None, {'nodes': ('n1',), 'device': 'there'}, 'DEVICE'),
    *((kind, None, {'place': 'there'}, 'FABRIC') for kind in ('pair', 'uplink', 'plane', 'place')),
])  # fmt: skip
def test_what_is_named_lies_on_its_nodes_in_a_part_of_them_or_between(kind, rail, where, sort):
    named = Named(kind, 'there', ('n1',), 'slow', rail)
    one = case(provenance=names([*named]), job_id='7', causes=of('said'), nodes=('n1', 'n2'))
    night = stub(session=stub(site='site'))
    (draft,) = accused.drafts_of(one, [verdict()], ['n4', 'n5'], night)
    assert (draft.kind, draft.where, draft.sort) == (sort, Scope('site', 'cpu', **where), 'failure')
    assert (draft.series, draft.nodes, draft.cases, draft.named) == ({TRIAD}, {'n1'}, {CASE}, True)
    job, again = draft.evidence
    assert draft.cause == Cause('named', 'slow') and 'job 7 on n1, n2' in job and 'n4, n5' in again
    (draft,) = accused.drafts_of(one, [], [], night)
    assert draft.series == {ALL} and len(draft.evidence) == 1


def test_a_job_that_names_another_part_of_a_node_accuses_not_this_one():
    rail = incident('failure', where=Scope('site', 'cpu', nodes=('n1',), device='rail 2'), named=True)
    whole, own = ({'provenance': names(told)} for told in (
        ['node', 'n1', ['n1'], 'slow'], ['rail', 'n1 rail 2', ['n1'], 'slow', 2],
    ))  # fmt: skip
    assert shown_by(rail, [], [case(**own)]) is False and shown_by(rail, [], [case(**whole)]) is True


# What a person corrected


@each_row(('selection', 'node', 'series', 'both'), [
    ({}, True, True, True), ({'case': 'STREAM'}, True, True, True), ({'case': 'STREAM size=big'}, True, True, True),
    ({'case': 'cpu/system STREAM*'}, True, True, True), ({'case': 'STR?AM'}, True, True, True),
    ({'case': 'STREA'}, True, False, False),
    ({'metric': 't*'}, True, True, True), ({'metric': 'copy'}, True, False, False),
    ({'case': 'STREAM', 'metric': 'copy'}, True, False, False),
    ({'case': 'Osu', 'metric': 'triad'}, True, False, False),
    ({'node': 'n1'}, True, True, True), ({'node': 'n[12]'}, True, True, True), ({'node': 'n2'}, False, True, True),
    ({'node': 'n3'}, False, True, False), ({'node': 'n1', 'metric': 'copy'}, True, False, False),
])  # fmt: skip
def test_a_selection_takes_by_pattern_of_case_metric_and_node(selection, node, series, both):
    by = Selection(**selection)
    assert (by.takes_node('n1'), by.takes_series(TRIAD), by.takes(TRIAD, ['n1', 'n2'])) == (node, series, both)


# Dividing


def test_a_part_of_a_known_incident_has_its_series_nodes_and_share_of_the_cost():
    values = {
        TRIAD: Value('GB/s', 'higher', loss=0.2, interval=(0.1, 0.3)), COPY: Value('GB/s', 'higher', loss=1.0),
        OSU: Value('us', 'lower'),
    }  # fmt: skip
    of = incident(series=(TRIAD, COPY, OSU), nodes=('n1', 'n2'), values=values, cost=6.0, loss=0.5)
    whole = part_of(of, [(('n1', 'n2'), ()), (('n2',), ('n1',)), ((), ('n1', 'n2'))])
    one = splits.part_of(whole, by := Selection(metric='triad'), True)
    assert (one.only, one.without, one.seen.keys()) == ((by,), (), {'s1', 's2', 's3'})
    assert one.incident.series == (TRIAD,) and one.incident.cost == 2.0 and one.incident.checks == ('STREAM',)
    assert one.incident.loss == pytest.approx(0.2)
    assert one.seen['s1'].loss is None and one.seen['s2'].loss == one.incident.loss
    assert one.seen['s2'].worst == one.incident.worst == (0.1, 0.2)
    rest = splits.part_of(whole, by, False)
    assert (rest.only, rest.without, rest.incident.series) == ((), (by,), (COPY, OSU))
    assert (rest.incident.loss, rest.incident.interval, rest.incident.cost) == (None, None, 4.0)
    one = splits.part_of(whole, Selection(node='n1'), True)
    assert (one.incident.nodes, one.incident.cost, one.incident.where.nodes) == (('n1',), 3.0, ('n1',))
    assert [(entry.bad, entry.healthy) for entry in one.seen.values()] == [BAD, WELL, WELL]
    assert one.seen['s1'].loss is not None and one.seen['s2'].loss is None
    assert splits.part_of(whole, Selection(metric='add'), True) is None
    healed = part_of(of, [(('n2',), ()), ((), ('n1',))])
    assert splits.part_of(healed, Selection(node='n1'), True) is None
    anywhere = part_of(incident(nodes=('n1', 'n2'), where=Scope('site')), [(('',), ())])
    divided = [splits.part_of(anywhere, Selection(node='n1'), side).seen['s1'].bad for side in (True, False)]
    assert divided == [('n1',), ('',)], 'what names no node stays so without the part'


# Failures by cause


@each_row(('one', 'other', 'same'), [
    # what checks share, whatever its words; what is of one check; and what only a sentence says
    (('license', 'x', 'STREAM'), ('license', 'y', 'Osu'), True),
    (('license', 'x', 'STREAM'), ('stack', 'x', 'STREAM'), False),
    (('crash', 'x', 'STREAM'), ('crash', 'y', 'STREAM'), True),
    (('crash', 'x', 'STREAM'), ('crash', 'x', 'Osu'), False),
    (('said', 'n1 took 12.5 s at 02:03', 'STREAM'), ('said', 'n10 took 3 s at 14:00', 'Osu'), True),
    (('said', 'exit code 1 on n1', 'STREAM'), ('said', 'exit code 2 on n1', 'STREAM'), False),
    (('said', 'lost', 'STREAM'), ('said', 'gone', 'STREAM'), False),
])  # fmt: skip
def test_causes_are_alike_by_their_code(one, other, same):
    jobs = [case(check, causes=of(code, what=what)) for code, what, check in (one, other)]
    assert ('1 other causes' not in str(failures.cause_of(jobs))) == same


def test_failed_jobs_are_summed_up_by_their_most_frequent_cause():
    said = ('lost 3 lines', 'gone', 'lost 4 lines')
    lost, gone, more = (case(result='fail', causes=of('said', what=why)) for why in said)
    assert failures.cause_of([lost, more]) == Cause('said', 'failed: lost 3 lines')
    assert str(failures.cause_of([gone, lost, more])) == 'failed: lost 3 lines; and 1 other causes'
    killed = case(
        result='fail', causes=[Cause('crash', 'killed', detail=': 9; 8', remedy='test it'), Cause('said', 'late')]
    )
    found = failures.cause_of([gone, killed, killed])
    assert (found.code, found.what) == ('crash', 'failed: killed: 9; 8')
    assert str(found) == 'failed: killed: 9; 8; test it; also: late; and 1 other causes'


def test_a_case_whose_stack_failed_has_its_cause():
    stack = case('Stack', fixture=True, result='fail', causes=of('license', what='none'))
    (found,) = failures.failures(a_night(cases=[stack, case(result='fail_deps')]))
    assert found.cause == Cause('license', 'not run: its stack system failed: none')


@each_row(('fields', 'kind'), [
    ({}, 'NODE'), ({'nodes': ()}, None), ({'result': 'abort'}, None),
    *(({'job_state': state}, None) for state in ('PREEMPTED', 'CANCELLED', 'REQUEUED')),
    ({'job_state': 'NODE_FAIL'}, 'NODE'), ({'job_state': 'FAILED'}, 'NODE'), ({'job_state': 'OUT_OF_MEMORY'}, 'CASE'),
    ({'causes': of('oom-limit')}, 'CASE'), ({'causes': of('crash', 'oom-limit')}, 'CASE'),
    ({'job_state': 'OUT_OF_MEMORY', 'causes': of('oom-node')}, 'NODE'),
    ({'causes': of('oom-limit', 'oom-node')}, 'NODE'),
])  # fmt: skip
def test_a_job_that_then_passed_failed_of_its_node_its_memory_limit_or_the_scheduler(fields, kind):
    runs = [case(**{'result': 'fail'} | fields), case(nodes=('n2',), round=2, case_id=2)]
    assert [draft.kind for draft in failures.failures(a_night(cases=runs))] == ([kind] if kind else [])


def problem(kind, text, why=''):
    return Problem(text, kind, why=why)


@each_row(('fields', 'problems', 'why'), [
    ({'result': 'fail'}, [problem('cut short', 'killed')], ''),
    ({'result': 'abort'}, [problem('part ended', 'x'), problem('cut short', 'killed')], 'killed'),
    ({'result': 'abort', 'causes': of('said', what='ended')}, [], 'ended'),
    *(({'result': 'fail', 'causes': of('not-run', what='late')}, [problem(kind, 'part', why)], told)
      for kind, why, told in (('part ended', 'late', 'part'), ('part ended', 'lost', ''), ('cut short', 'late', ''))),
    ({'result': 'fail', 'causes': of('said', what='late')}, [problem('part ended', 'part', 'late')], ''),
])  # fmt: skip
def test_why_a_case_was_ended_is_told_by_its_session(fields, problems, why):
    (draft,) = failures.failures(a_night(problems=problems, cases=[case(**fields)]))
    assert str(draft.cause) == why if why else str(draft.cause) not in ('part', 'killed')
    assert draft.problem in problems if why in ('part', 'killed') else draft.problem not in problems


def failed_on(*nodes, check='STREAM', **fields):
    return case(check, nodes, 'fail', **{'causes': of('said')} | fields)


@each_row(('failed', 'healthy', 'kind'), [
    ([failed_on('n1')], [case(nodes=('n2',)), case(nodes=('n3',))], 'NODE'),
    # a case that passes on as many others as it fails on
    ([failed_on('n1')], [case(nodes=('n2',))], 'CASE'), ([failed_on('n1')], [], 'CASE'),
    ([failed_on('n1')], [case('Osu', nodes=('n2', 'n3'))], 'CASE'),
    # several cases on one node, while another node works
    ([failed_on('n1'), failed_on('n1', check='Osu')], [case('Hpl', nodes=('n2',))], 'NODE'),
    ([failed_on('n1'), failed_on('n1', check='Osu')], [case('Hpl', nodes=('n1',))], 'CASE'),
    # Slurm says so
    *(([failed_on('n1', job_state=state)], [], 'NODE') for state in ('NODE_FAIL', 'BOOT_FAIL')),
    ([failed_on('n1', job_state='TIMEOUT')], [], 'CASE'),
])  # fmt: skip
def test_jobs_fail_on_a_node_only_where_others_work(failed, healthy, kind):
    ran = [one._replace(case_id=number, name=f'{number}') for number, one in enumerate([*failed, *healthy])]
    (draft,) = failures.failures(a_night(cases=ran))
    assert draft.kind == kind


def a_night(*verdicts, nodes=8, problems=(), cases=()):
    return stub(
        several=lambda partition: True, places_of=lambda nodes: set(),
        session=stub(site='site'), comparison=stub(verdicts=verdicts, problems=problems), cases=cases,
        stacks=broken_stacks(cases), nodes={'cpu': {f'n{i}' for i in range(nodes)}},
    )  # fmt: skip


@each_row(('rows', 'nodes', 'where'), [
    ([verdict('missing')], 8, ('n1',)), ([verdict('missing'), verdict('missing', nodes=('n2',))], 5, ('n1', 'n2')),
    ([verdict('missing'), verdict('missing', nodes=('n2',))], 4, ()), ([verdict('missing')], 2, ()),
    ([verdict('missing', nodes=())], 8, ()), ([verdict('missing', case_id=None)], 8, ()),
])  # fmt: skip
def test_what_has_no_number_on_less_than_half_of_the_nodes_is_of_these(rows, nodes, where):
    for word in ('ok', 'improved', 'warning'):
        well = verdict(word, nodes=('n7',))
        (found,) = failures.failures(a_night(*rows, well, nodes=nodes))
        own = where if word != 'warning' else ()
        assert (found.kind, found.where.nodes) == ('NODE' if own else 'CASE', own)
        assert found.where.environ == ('' if own else 'system') and found.rows == rows
    (found,) = failures.failures(a_night(*rows, verdict('ok', COPY, nodes=('n7',)), nodes=nodes))
    assert found.kind == 'CASE', 'another series is healthy'


def test_what_has_no_number_is_grouped_by_check_unless_no_case_measured_it():
    measured = [verdict('invalid', of, cause=f'{i} lines') for i, of in enumerate((TRIAD, COPY, OSU))]
    assert [draft.rows for draft in failures.failures(a_night(*measured))] == [measured[:2], measured[2:]]
    gone = [verdict('missing', of, case_id=None, nodes=(), cause='gone', code='not-run') for of in (TRIAD, OSU)]
    (found,) = failures.failures(a_night(*gone, verdict('ok'), verdict()))
    assert (found.rows, found.cause, found.sort) == (gone, Cause('not-run', 'missing: gone'), 'failure')
    assert (found.cases, found.series) == ({CASE, OSU.case}, {TRIAD, OSU})
    gone[1] = verdict('missing', OSU, case_id=None, nodes=(), cause='gone', code='lost-metric')
    assert [one.rows for one in failures.failures(a_night(*gone))] == [gone[:1], gone[1:]], 'of two codes'
    gone[0] = verdict('invalid', cause='half', code='settings')
    assert [one.rows for one in failures.failures(a_night(*gone))] == [gone[1:]], 'that is an incident of the hardware'


def test_what_had_other_hardware_is_of_the_problem_of_its_nodes():
    half = Problem('n1 had half', 'hardware', 'cpu', nodes=('n1',))
    rows = [verdict('invalid', nodes=('n1',), code=code, cause=cause) for code, cause in (
        ('settings', 'n1 had half'), ('settings', 'n1 had other memory'), ('invalid', 'n1 had half'),
    )]  # fmt: skip
    drafts = []
    problems.add_problems(drafts, [half], a_night(*rows))
    assert [(one.rows, one.where.nodes, one.cause) for one in drafts] == [
        (rows[:1], ('n1',), Cause('settings', 'n1 had half')),
    ]  # fmt: skip


def test_what_a_job_named_is_no_part_of_what_failed_there():
    """Only another such job clears it."""
    lost = [failed_on('n1', job_state='NODE_FAIL', name='1'), failed_on('n1', check='Osu', job_state='NODE_FAIL')]
    told = [failed_on('n1', check=check, name=check, provenance=names(['node', 'n1', ['n1'], why]))
            for check, why in (('A', 'slow'), ('B', 'cold'))]  # fmt: skip
    named, failed = sorted(failures.failures(a_night(cases=[*lost, *told])), key=lambda draft: not draft.named)
    assert named.cause.what == 'slow' and 'cold' in named.evidence and named.cases == {one.id for one in told}
    assert not failed.named and len(failed.failed) == 2 and failed.where == named.where


# Since when


def test_a_loss_shows_above_half_of_it_in_the_last_session():
    # half of a loss of 10 % is ln 0.9 / 2 = -0.0527; 0.1 % counts as 1 %, -0.0050; all as 99 %, -2.30
    for loss, above, below in ((0.1, -0.05, -0.06), (0.001, -0.004, -0.006), (1.0, -2.2, -2.4)):
        for value, shown in ((above, False), (below, True)):
            of = numpy.array([3, 7]), numpy.array([-9.0, value])
            assert levels.shows(of, loss, 7) is shown and levels.shows(of, loss, 8) is False
    assert levels.shows((numpy.array([7, 7]), numpy.array([0.0, -1.0])), 0.1, 7) is True


def test_a_drift_begins_where_the_level_turned_down_if_a_step_describes_it_less_well():
    # four flat sessions and a slope: squares of 17.5, of which the best step, before the last three, leaves
    # 17.5 - 8 * 3 * 5 / 64 * 2.8 ** 2 = 2.8; four variances of 0.83 are less than that, of 0.84 more
    values = numpy.array([0.0, 0, 0, 0, -1, -2, -3, -4])
    assert levels.start_of_slope(values, 0.83) == 4 and levels.start_of_slope(values, 0.84) is None
    assert levels.start_of_slope(values + 5, 0.83) == 4, 'of whatever level'
    assert levels.start_of_slope(-values, 0.01) is None, 'a rise'
    assert levels.start_of_slope(numpy.array([0.0, 0, 0, 0, -4, -4, -4, -4]), 0.01) is None, 'a step'
    assert levels.start_of_slope(numpy.array([0.0, -1, -2]), 0.01) is None, 'too short'
    assert levels.start_of_slope(numpy.array([0.0, -1, -2, -3]), 0.01) == 1


def test_of_many_series_50_are_read_spread_evenly():
    assert levels.evenly_spread(range(50)) == range(50)
    assert list(levels.evenly_spread(range(51))) == list(range(0, 51, 2))


# Nodes with one cause


def of_node(node, loss=0.1, series=(TRIAD,), partition='cpu', **fields):
    return Draft('NODE', Scope('site', partition, nodes=(node,)), 'loss', series=set(series), nodes={node}, loss=loss,
                 **fields)  # fmt: skip


def session(racks, measured=12):
    names = [f'n{i}' for i in range(1, measured + 1)]
    places = {node: {f'rack r{(i // racks)}'} for i, node in enumerate(names)}
    return stub(
        nodes={'cpu': set(names), 'gpu': set(names)}, places=places,
        places_of=lambda nodes: set().union(*(places[node] for node in nodes)),
    )  # fmt: skip


def test_nodes_that_lost_alike_are_one_incident_of_a_place_or_of_half_of_all():
    def found(*nodes, night=None, before=()):
        drafts = [of_node(f'n{i}') for i in nodes]
        return [(one.where.place, sorted(one.nodes)) for one in alike.joined(drafts, before, night or session(4))]

    # three of twelve in one rack of four: 4 of 220 choices, 0.018; four: 1 of 495
    assert found(1, 2, 3) == [('', ['n1']), ('', ['n2']), ('', ['n3'])]
    assert found(1, 2, 3, 4) == [('rack r0', ['n1', 'n2', 'n3', 'n4'])]
    # with a fifth elsewhere 8 of 792, for each of two racks: 0.020; of 24 nodes 20 of 42504
    assert len(found(1, 2, 3, 4, 9)) == 5
    assert found(1, 2, 3, 4, 9, night=session(4, 24)) == [('', ['n9']), ('rack r0', ['n1', 'n2', 'n3', 'n4'])]
    # four of a switch of four, which hangs in a rack of eight
    within = session(4)
    within.places |= {f'n{i}': {'rack r0', *(['switch s1'] if i < 5 else [])} for i in range(1, 9)}
    assert found(1, 2, 3, 4, night=within) == [('switch s1', ['n1', 'n2', 'n3', 'n4'])]
    # half of all, wherever
    six = [1, 2, 5, 6, 9, 10]
    assert found(*six) == [('', sorted(f'n{i}' for i in six))] and len(found(*six[:5])) == 5
    assert len(found(1, 2, night=session(4, 3))) == 2, 'two are too few'
    known = part_of(incident(nodes=('n4',)))
    assert len(found(1, 2, 3, 4, before=[known])) == 4, 'a node that is known to be slow stays by itself'


def test_losses_of_a_rack_are_alike_within_a_factor_of_one_and_a_half_in_a_check_of_most():
    def places(*losses, last=TRIAD):
        drafts = [of_node(f'n{i}', loss, (TRIAD if i < 4 else last,)) for i, loss in enumerate(losses, 1)]
        return [one.where.place for one in alike.joined(drafts, (), session(4))]

    # the usual one is 0.2: from 0.2 / 1.5 = 0.133 to 0.3
    assert places(0.14, 0.2, 0.2, 0.29) == ['rack r0']
    assert places(0.13, 0.2, 0.2, 0.29) == places(0.14, 0.2, 0.2, 0.31) == [''] * 4
    assert places(0.2, 0.2, 0.2, 0.2, last=OSU) == [''] * 4


# Open, healing, closed


@each_row(('before', 'needed'), [
    ('B', 3),  # (1/3)^3 = 3.7 %, ^2 = 11 %
    ('BB', 3),  # (1/4)^3 = 1.6 %, ^2 = 6.3 %
    ('BBB', 3),  # (1/5)^2 is 4 %, and not less
    ('BBBB', 2),  # (1/6)^2 = 2.8 %
    ('BHB', 4),  # 1 - 3/5: 0.4^4 = 2.6 %, ^3 = 6.4 %
    ('BBHHHBB', 4),  # 1 - 5/9: 0.444^4 = 3.9 %, ^3 = 8.8 %
    ('B-H--B-', 4),  # what did not measure it says nothing
])  # fmt: skip
def test_an_incident_is_closed_after_as_many_healthy_sessions_as_its_course_needs(before, needed):
    almost = in_ledger(days=before + 'H' * (needed - 1))
    assert (almost.closed, almost.closes_in) == ('', 1)
    assert in_ledger(days=before + 'H' * needed).closed == f'2026-11-{len(before) + needed:02}'


BOTH_BAD, BOTH_WELL = (('n1', 'n2'), ()), ((), ('n1', 'n2'))
UNSURE, OF_SESSION = {'of': incident(certain=False)}, {'of': incident('session')}


@each_row(('days', 'fields', 'state', 'unhealed', 'closes_in'), [
    ('B', {}, 'open', ['n1'], 3), ('BH', {}, 'healing', ['n1'], 2), ('BHHH', {}, 'closed', [], 0),
    ('BHB', {}, 'intermittent', ['n1'], 4), ('BHHHHHB', {}, 'intermittent', ['n1'], 8),  # healed, and returned
    ('BH', {'accepted': True}, 'closed', [], 0), ('B', {'accepted': True}, 'open', ['n1'], 1),
    ('B', UNSURE, 'suspected', ['n1'], 1), ('BH', UNSURE, 'closed', [], 0), ('BB', UNSURE, 'open', ['n1'], 3),
    ('BBH', UNSURE, 'healing', ['n1'], 2),
    ('B', OF_SESSION, 'open', ['n1'], 1), ('BH', OF_SESSION, 'closed', [], 0),
    ([BOTH_BAD, ((), ('n2',))], {}, 'open', ['n1', 'n2'], 3), ([BOTH_BAD, BOTH_WELL], {}, 'healing', ['n1', 'n2'], 2),
    ([BAD, (('n1',), ('n1',))], {}, 'open', ['n1'], 3), ([BAD, ((), ('n2',))], {}, 'open', ['n1'], 3),
    # n1 is bad in 4 of 4 sessions and needs two healthy ones, n2 in 3 of 3 and needs three: both on the sixth day
    ([*[BOTH_BAD] * 3, (('n1',), ('n2',)), BOTH_WELL], {}, 'healing', ['n1', 'n2'], 1),
    ([*[BOTH_BAD] * 3, (('n1',), ('n2',)), BOTH_WELL, BOTH_WELL], {}, 'closed', [], 0),
])  # fmt: skip
def test_the_state_of_an_incident_is_computed_from_its_sessions(days, fields, state, unhealed, closes_in):
    one = in_ledger(days=days, **fields)
    assert (one.state('2026-11-20'), one.unhealed, one.closes_in) == (state, unhealed, closes_in)
    assert one.closed == (f'2026-11-{len(days):02}' if state == 'closed' else '')


def test_the_course_of_an_incident_is_counted_in_sessions():
    one = in_ledger(incident(sessions=3), 'BHBHH')
    assert (one.first, one.last_bad.day, one.sessions, one.healthy_for) == ('s1', '2026-11-03', 4, 2)
    assert one.course == 'intermittent: bad in 2 of 5 sessions' and in_ledger(days='BBH').course == ''
    assert in_ledger(days='B').is_new('2026-11-01') and not in_ledger(days='BB').is_new('2026-11-02')
    assert not in_ledger(days='B').is_new('2026-11-02'), 'no session of that day shows it'


@each_row(('days', 'both', 'bad'), [
    ('BhhBhhBh', 3, 3), ('BhhBhhBhhbh', 3, 4), ('BhHhBhBh', 3, 3),  # three of four are both
    ('BhhhBh', 0, 2), ('BhhBhhbh', 0, 3),  # too few
    ('BhHhBhHhBh', 0, 3), ('BHBHBH', 0, 3), ('BhhBhhBhbbh', 0, 5),  # neither only nor always then
])  # fmt: skip
def test_what_is_bad_in_the_first_sessions_after_a_boot_and_then_alone_comes_with_maintenance(days, both, bad):
    """Upper case: the first session after a boot; it is bad (b) or healthy (h)."""
    shown = {'b': BAD, 'h': WELL}
    entries = {f's{i}': seen(i, *shown[of.lower()], booted=of.isupper()) for i, of in enumerate(days, 1)}
    often = f'bad in {bad} of {len(days)} sessions'
    after = f', in the first session after a boot on {both} of {bad} occasions'
    course = f'intermittent, with maintenance: {often}{after}' if both else f'intermittent: {often}'
    assert in_ledger(seen=entries).course == course


def test_what_booted_since_the_session_before_is_known_of_first_nodes_by_their_partition():
    def ran(*nodes, on='cpu', **facts):
        return case(nodes=nodes, provenance=facts)._replace(partition=on)

    before = [stub(mode='nightly', epoch=1000), stub(mode='quick', epoch=3000)]
    cases = [
        ran('n1', boot_time='2000'), ran('n2', 'n5', boot_time='2000'), ran('n3', boot_time='900'), ran('n4'), ran(),
        ran('g1', on='gpu', boot_time='900'), ran('g2', on='gpu', boot_time='2000'),
        ran('g3', on='gpu', boot_time='not shown'),
    ]  # fmt: skip
    night = stub(mode='nightly')
    assert nodes.booted(cases, night, before) == (('g2', 'n1', 'n2'), ('', 'cpu')), 'of two in gpu one is not most'
    assert nodes.booted(cases, night, before[1:]) == nodes.booted([ran('n1')], night, before) == ((), ())


@each_row(('booted', 'of_node', 'of_all'), [
    ((('n1',), ()), True, False), ((('n2',), ('gpu', '')), False, False), (((), ('cpu',)), False, True),
])  # fmt: skip
def test_a_session_tells_of_each_incident_whether_its_nodes_had_booted(booted, of_node, of_all):
    shown = [incident(), incident(kind='SYSTEM', where=Scope('site', 'cpu'))]
    ids = [one.id for one in sorted(folded(night(1, *shown)), key=lambda one: one.incident.kind)]
    looks = {ids[0]: fold.Look((), ('n1',)), ids[1]: fold.Look(('',), ())}
    facts = {'booted': fold.Booted(*booted)}
    known = sorted(folded(night(1, *shown, **facts), night(2, looks=looks, **facts)), key=lambda one: one.incident.kind)
    assert [[entry.booted for entry in one.seen.values()] for one in known] == [[of_node] * 2, [of_all] * 2]


def acknowledged(**fields):
    note = Note('acknowledged', ('abc123',), 'known', 'ann', '2026-11-01', '', until='2026-11-10')
    return Acknowledged(note, seen(1, **fields), (CASE.series('m0'), CASE.series('m1')))


@each_row(('then', 'now', 'series', 'says'), [
    ({}, {}, 1, ''), ({}, {'bad': ('n1', 'n2')}, 1, 'n2'), ({'bad': ('n1', 'n2')}, {}, 1, ''),
    ({'loss': 0.1}, {'loss': 0.15}, 1, ''), ({'loss': 0.1}, {'loss': 0.16}, 1, '16.0 %'), ({}, {'loss': 0.5}, 1, ''),
    # intervals that do not overlap
    ({'loss': 0.1, 'interval': (0.09, 0.11)}, {'loss': 0.12, 'interval': (0.115, 0.125)}, 1, '12.0 %'),
    ({'loss': 0.1, 'interval': (0.09, 0.11)}, {'loss': 0.12, 'interval': (0.1, 0.14)}, 1, ''),
    ({'worst': (0.1, 0.2)}, {'worst': (0.31, 0.4)}, 1, '40.0 %'),
    ({'worst': (0.1, 0.2)}, {'worst': (0.29, 0.6)}, 1, ''),
    # more than 1.5 * 2 + 1 metrics
    ({}, {}, 4, ''), ({}, {}, 5, '5 metrics'),
])  # fmt: skip
def test_an_acknowledged_incident_is_worse_on_more_nodes_in_more_metrics_or_by_half(then, now, series, says):
    of = incident(series=tuple(CASE.series(f'm{i}') for i in range(series)))
    parts = (Part('abc123', of, {'s1': seen(1, **{'bad': ('n1',)} | now)}),)
    one = Known('abc123', parts, acknowledged(**{'bad': ('n1',)} | then))
    assert bool(one.worse()) == bool(says) and says in one.worse()
    assert one.state('2026-11-10') == ('open' if says else 'acknowledged') and one.state('2026-11-11') == 'open'
    assert not replace(one, acknowledged=None).worse()


# One of the ledger, or another


@each_row(('one', 'other', 'like'), [
    ({}, {}, 2.0), ({'series': (TRIAD, COPY)}, {'series': (COPY, TRIAD, ADD)}, 3.0), ({}, {'series': (COPY,)}, 1.0),
    ({}, {'sort': 'failure'}, 0.0), ({}, {'nodes': ('n2',)}, 0.0),
    ({}, {'where': Scope('site', 'cpu')}, 0.0), ({}, {'where': Scope('site', 'gpu', nodes=('n1',))}, 0.0),
    ({}, {'where': Scope('site', nodes=('n1',))}, 2.0), ({}, {'series': (OSU,)}, 1.0),  # whatever check met a slow node
    ({}, {'where': Scope('site', 'cpu', nodes=('n1',), device='rail 1')}, 0.0),
    # places with the same nodes
    *(({'where': Scope('site', place='rack r1', same_nodes=('switch s1',))},
       {'where': Scope('site', place=place)}, like)
      for place, like in (('switch s1', 2.0), ('rack r2', 0.0), ('', 2.0))),
    # another case of the same check, in all of a partition
    ({'where': Scope('site', 'cpu')}, {'where': Scope('site', 'cpu'), 'series': (replace(TRIAD, params=()),)}, 0.0),
    ({'where': Scope('site', 'cpu')}, {'where': Scope('site', 'cpu'), 'series': (COPY,)}, 1.0),
    ({}, {'series': (replace(TRIAD, params=()),)}, 1.0),
    # a failure of other metrics is another, one of all metrics may be the same
    ({'sort': 'failure'}, {'sort': 'failure', 'series': (COPY,)}, 0.0), ({'sort': 'failure'}, {'sort': 'failure'}, 2.0),
    ({'sort': 'failure'}, {'sort': 'failure', 'series': (ALL,)}, 1.0),
    ({'sort': 'session', 'cause': 'x'}, {'sort': 'session', 'cause': 'y', 'nodes': ('n2',)}, 0.0),
    ({'sort': 'session', 'cause': 'x'}, {'sort': 'session', 'cause': 'x', 'nodes': ('n2',)}, 1.0),
    ({'sort': 'session', 'where': Scope('site'), 'cause': 'x'},
     {'sort': 'session', 'where': Scope('site'), 'cause': 'y'}, 0.0),
])  # fmt: skip
def test_an_incident_of_tonight_is_a_known_one_at_the_same_place_in_the_same_checks(one, other, like):
    assert likeness(incident(**one), incident(**other)) == like
    assert in_ledger(incident(**one)).likeness(incident(**other)) == like
    assert likeness(incident(**other), incident(**one)) == like


def test_a_merged_incident_is_like_the_best_of_its_parts_and_a_split_one_only_what_it_took():
    parts = (part_of(incident(nodes=('n2',))), part_of(incident(series=(TRIAD, COPY))))
    assert Known('abc123', parts).likeness(incident(series=(TRIAD, COPY))) == 3.0
    split = in_ledger(incident(series=(TRIAD, COPY)), without=(Selection(metric='copy'),))
    assert split.likeness(incident()) == 2.0 and split.likeness(incident(series=(COPY,))) == 0.0
    assert split.likeness(incident(series=(TRIAD, COPY))) == 3.0, "it took a part of tonight's"
    assert split.holds(TRIAD, ['n1']) and not split.holds(COPY, ['n1']) and not split.holds(TRIAD, ['n2'])
    assert split.ids == {'abc123'}


def test_a_merged_incident_lies_at_the_place_that_its_parts_share():
    def whole(*of):
        return Known('0', tuple(replace(part_of(one, 'B'), id=f'{number}') for number, one in enumerate(of))).incident

    first, second, other = (
        incident(nodes=(node,), where=Scope('site', 'cpu', 'system', (node,), place=place), changed=('kernel', node))
        for node, place in (('n1', 'rack r1'), ('n2', 'rack r1'), ('n3', 'rack r2'))
    )
    assert whole(first).where == first.where
    one = whole(first, second)
    assert one.where == Scope('site', 'cpu', 'system', ('n1', 'n2'), place='rack r1') and one.kind == 'NODE'
    assert set(one.changed) == {'kernel', 'n1', 'n2'}
    assert whole(first, second, other).where == Scope('site', 'cpu', 'system', ('n1', 'n2', 'n3'))
    anywhere = replace(second, kind='CASE', where=Scope('site', 'cpu'))
    assert (whole(first, anywhere).kind, whole(first, anywhere).where) == ('SYSTEM', Scope('site', 'cpu'))
    rails = [replace(first, kind='DEVICE', where=Scope('site', 'cpu', nodes=('n1',), device=f'rail {i}')) for i in '12']
    assert whole(*rails).kind == whole(rails[0], first).kind == 'NODE' and whole(*rails[:1] * 2).kind == 'DEVICE'


def night(number, *incidents, **facts):
    """A session that shows these incidents."""
    at = (datetime(2026, 10, 31, 2) + timedelta(days=number)).isoformat()
    session = stub(session=f's{number}', time=at, day=at[:10], key=f'{at} s{number}')
    return fold.Night(session, incidents, fold.NightFacts(**facts))


def folded(*events):
    return fold.fold(events, fold.Folded()).known


def note(what, *ids, number=1, **fields):
    """A note that a person made after the session of this number."""
    return Note(what, ids, 'so', 'ann', f'2026-11-{number:02}', f'{night(number).key}', **fields)


@each_row(('of', 'last', 'what', 'same'), [
    ({}, 32, '', True), ({}, 33, '', False), ({}, 32, 'closed', False),
    ({'certain': False}, 20, '', False), ({'sort': 'session'}, 20, '', False), ({'nodes': ('n2',)}, 20, '', False),
])  # fmt: skip
def test_what_healed_and_returns_within_a_month_is_the_same_incident(of, last, what, same):
    """Not what a person closed, what was only suspected, nor problems of a session."""
    first = night(1, incident(**{name: value for name, value in of.items() if name != 'nodes'}))
    id = folded(first)[0].id
    healed = [night(number, looks={id: fold.Look((), ('n1',))}) for number in (2, 3, 4)]
    by = [note(what, id)] if what else []
    assert folded(first, *by, *healed)[0].closed
    *_, found = folded(first, *by, *healed, night(last, incident(**of)))
    assert (found.id == id) is same and found.before == (() if same or 'nodes' in of else (id,))
    assert found.returned is same and not found.closed
    if same:
        well = [night(last + number, looks={id: fold.Look((), ('n1',))}) for number in (1, 2, 3)]
        assert folded(first, *by, *healed, night(last, incident(**of)), *well)[0].closes_in == 3


def test_a_note_counts_from_the_session_after_which_it_was_made():
    nights = [night(number, incident(loss=loss)) for number, loss in ((1, 0.1), (2, 0.3))]
    id = folded(nights[0])[0].id
    for number, worse in ((1, True), (2, False)):  # acknowledged with 10 or with 30 %
        at = note('acknowledged', id, number=number, until='2026-11-30')
        (one,) = folded(*fold.in_turn(nights, [at]))
        assert bool(one.worse()) == worse
    assert folded(*fold.in_turn(nights, [note('closed', 'ffffff')])) == folded(*nights), 'nothing has this id'


def test_one_metric_that_gets_much_worse_opens_an_acknowledged_incident():
    nights = [
        night(number, incident(series=(TRIAD, COPY), loss=0.1, values={COPY: Value('GB/s', 'higher', loss=loss)}))
        for number, loss in ((1, 0.1), (2, 0.3))
    ]
    at = note('acknowledged', folded(nights[0])[0].id, until='2026-11-30')
    (one,) = folded(*fold.in_turn(nights, [at]))
    assert one.state('2026-11-02') == 'open' and '30.0 % in one metric' in one.worse(), 'the mean is as before'


def test_only_a_node_that_no_session_since_showed_healthy_is_known_to_be_slow():
    first = night(1, incident(loss=0.1))
    state = fold.fold([first], fold.Folded())
    (part,) = state.parts
    assert state.slow == {'n1': 0.1}
    well = night(2, looks={part.key: fold.Look(healthy=('n1',))})
    assert fold.fold([well], state).slow == {}
    assert fold.fold([night(1, incident(loss=0.1, certain=False))], fold.Folded()).slow == {}, 'suspected'


def test_a_look_of_a_session_tells_of_incidents_before_it():
    id = folded(night(1, incident()))[0].id
    well, bad = fold.Look((), ('n1',)), fold.Look(('n1',), ())
    (one,) = folded(night(1, incident(loss=0.2)), night(2, looks={id: well}), night(3, looks={id: bad}), night(4))
    assert [(of.bad, of.healthy) for of in one.seen.values()] == [(('n1',), ()), ((), ('n1',)), (('n1',), ())]
    assert one.seen['s3'].loss == 0.2 and one.state('2026-11-04') == 'intermittent'
    (one,) = folded(night(1, incident()), night(2, looks={id: well._replace(accepted=True)}))
    assert one.closed == '2026-11-02'


def test_a_split_holds_although_the_sessions_since_its_part_began_were_forgotten():
    first = night(1, incident(series=(TRIAD, COPY)))
    began = {'made': Began('2026-11-02', 's2', 1, ('s1',))}
    by = note('split', folded(first)[0].id, part=Selection(metric='copy'), made='made', began=began)
    assert {one.id: (one.first, one.incident.series) for one in folded(first, by)}['made'] == ('s1', (COPY,))


# What an administrator reads of it


def test_cases_run_again_by_the_nightly_or_by_the_command_of_their_suite():
    ours = stub(is_of_another_suite=False, mode='quick', site='demo')
    said = background.again(ours, 'cpu', ['STREAM', 'Osu'], ('n1', 'n2'))
    assert all(words in said for words in ('--mode quick', '--system=demo:cpu ', 'nodelist=n1,n2', '^STREAM'))
    said = background.again(stub(**vars(ours) | {'mode': ''}), '', ['STREAM'])
    assert '--system=demo ' in said and 'nodelist' not in said and '--mode' not in said
    assert background.again(stub(is_of_another_suite=True, cmdline=''), 'cpu', ['STREAM']) == ''


# What changed with it


def facts(**values):
    return {name: (value,) for name, value in values.items()}


@each_row(('before', 'after', 'fact'), [
    ([facts(kernel='1')], [facts(kernel='2')], ['kernel']),
    ([facts(kernel='1')], [facts(kernel='1')], []), ([facts(kernel='1'), facts(kernel='3')], [facts(kernel='2')], []),
    ([facts(kernel='1')], [facts(kernel='2'), facts(kernel='1')], []), ([], [facts(kernel='2')], []),
    ([facts(kernel='1')], [], []), ([facts()], [facts(kernel='2')], ['kernel']),
    ([facts(a='1', b='1')], [facts(a='2', b='2')], ['a', 'b']),
])  # fmt: skip
def test_a_fact_changed_where_it_was_constant_before_and_after(before, after, fact):
    assert [one.fact for one in difference(before, after)] == fact


@each_row(('was', 'now', 'words'), [
    ('6.1', '6.5', '6.1 -> 6.5'), ('a@1/x', 'a@1/x; b@2/z', 'nothing -> b@2/z'),
    ('a@1/x; b@1/y', 'a@1/w; b@2/z', 'b@1/y -> b@2/z'),  # a was built again
    ('a@1/x; b@1/y', 'a@1/w; b@1/y', 'a@1/x -> a@1/w'),
    ('; '.join('abcdefghi'), 'a; b', 'c, d, e, f, g, h and 1 more -> nothing'),
])  # fmt: skip
def test_of_lists_only_what_differs_is_named(was, now, words):
    assert str(Difference('stack_packages', (was,), (now,))) == f'stack_packages: {words}'


def test_a_node_is_unlike_others_that_agree():
    def unlike(mine, *theirs):
        nodes = {'n1': facts(kernel=mine), ALL_NODES: facts(kernel='9')}
        nodes |= {f'n{i}': facts(kernel=value) for i, value in enumerate(theirs, 2)}
        return Provenance({(CASE, 3): nodes}).unlike(CASE, 3, 'n1')

    assert unlike('2', '1', '1') == [Difference('kernel', ('1',), ('2',), True)]
    assert unlike('2', '1') == unlike('1', '1', '1') == unlike('2', '1', '3') == []


def test_what_changed_is_what_most_cases_show_and_software_what_all_show_and_nowhere_else():
    kernel, stack, governor = (Difference(name, ('1',), ('2',)) for name in ('kernel', 'stack', 'governor'))
    session = background.Background(stub(store=None, comparison=None, cases=[], before=[stub()], session=stub()))

    def changed(bad, well=(), sort='loss', nodes=(), of_all=()):
        told = {str(i): list(of) for i, of in enumerate([*bad, *well])} | {ALL_NODES: list(of_all)}
        read = stub(change=lambda case, before, after, node: told[node], unlike=lambda case, n, node: [])
        cases = [(CASE, str(i)) for i in range(len(told) - 1)]
        draft = Draft('NODE', Scope('site', 'cpu', nodes=nodes), sort)
        return session._changed(read, draft, cases[: len(bad)], cases[len(bad) :], range(1), range(1, 2))

    assert changed([[kernel], [kernel]]) == ((kernel,), True)
    assert changed([[kernel], [stack]]) == ((kernel, stack), False), 'half of the cases'
    assert changed([[kernel], [governor], [governor]]) == ((governor,), False)
    assert changed([[kernel]], [[kernel]]) == ((kernel,), False), 'healthy ones have it, too'
    assert changed([[kernel]], sort='failure') == ((kernel,), False)
    assert changed([[]], of_all=[kernel]) == ((kernel,), True), 'the case ran on other nodes before'
    assert changed([[kernel, stack]], nodes=('n1',), of_all=[kernel]) == ((stack,), True), 'of a node what is its own'


# Losses by cause


def job(value, *nodes, status='measured'):
    return stub(value=value, nodes=nodes, status=status)


@each_row(('jobs', 'nodes', 'elsewhere'), [
    # a loss of 20 %: slow below 90
    ([job(80.0, 'n1', 'n2'), job(89.0, 'n1', 'n3')], ('n1',), False),
    ([job(80.0, 'n1', 'n2'), job(91.0, 'n2', 'n3')], ('n1',), True),
    ([job(80.0, 'n1', 'n2'), job(100.0, 'n4', 'n3')], ('n1', 'n2'), True),
    ([job(80.0, 'n1'), job(80.0, 'n2')], (), False),
    ([job(80.0, 'n1'), job(100.0, 'n1')], (), False), ([job(80.0, 'n7')], ('n1',), False),
    ([job(99.0, 'n7'), job(99.0, 'n8')], ('n1',), False),
    ([job(80.0, 'n7'), job(99.0, 'n8', status='invalid')], ('n1',), False),
])  # fmt: skip
def test_guilty_are_the_nodes_that_all_slow_jobs_share_and_no_fast_one_has(jobs, nodes, elsewhere):
    reference = stub(mean=100.0, quantity=Quantity('GB/s', 'higher'))
    row = verdict(loss=0.2, jobs=tuple(jobs), reference=reference)
    assert losses.guilty_nodes(row, 1, 1) == (nodes, elsewhere)
    assert losses.guilty_nodes(replace(row, loss=None), 1, 1) == (('n1',), False)
    assert losses.guilty_nodes(replace(row, reference=None), 1, 1) == (('n1',), False)


@each_row(('jobs', 'low', 'known', 'nodes', 'elsewhere'), [
    # a loss of 20 % in a first job on n1
    ([job(80.0, 'n1')], 0.15, {'n1': 0.2}, ('n1',), True), ([job(80.0, 'n1')], 0.15, {'n2': 0.2}, ('n1',), False),
    ([job(80.0, 'n1')], 0.15, {'n1': 0.08}, ('n1',), False),  # surely lost more than the node
    ([job(80.0, 'n1'), job(80.0, 'n1')], 0.15, {'n1': 0.2}, ('n1',), True),
    ([job(80.0, 'n1'), job(80.0, 'n2')], 0.15, {'n1': 0.2}, (), False),  # the case lost elsewhere, too
    ([job(80.0, 'n1'), job(80.0, 'n2')], 0.15, {'n2': 0.2}, ('n1',), False),  # n2 explains its job
])  # fmt: skip
def test_a_node_that_is_known_to_be_slow_explains_a_loss_of_its_size(jobs, low, known, nodes, elsewhere):
    reference = stub(mean=100.0, quantity=Quantity('GB/s', 'higher'))
    row = verdict(loss=0.2, interval=(low, 0.25), jobs=tuple(jobs), reference=reference)
    assert losses.guilty_nodes(row, 1, 1, known) == (nodes, elsewhere)


def test_of_a_series_of_many_nodes_a_node_is_guilty_where_at_most_half_are_slow():
    row = verdict()
    assert losses.guilty_nodes(row, 4, 2) == (('n1',), True) and losses.guilty_nodes(row, 4, 3) == ((), False)
    assert losses.guilty_nodes(verdict(nodes=()), 4, 1) == ((), False)


def test_a_loss_in_common_is_of_its_series_but_those_that_lost_much_more():
    """On n3, which is slow by itself, also of those that lost more."""
    rows = [verdict(loss=0.1, interval=(0.05, 0.15)), verdict(loss=0.6, interval=(0.5, 0.7)), verdict(),
            verdict(loss=0.3), verdict(loss=0.2, interval=(0.15, 0.25), nodes=('n3',))]  # fmt: skip
    slow = {'n3': 0.1}
    for kind, holds, known, shared in (
        ('check', lambda row: True, {}, [0, 3, 4]), ('check', lambda row: True, slow, [0, 3]),
        ('node', lambda row: True, slow, [0, 1, 3, 4]), ('check', lambda row: row.loss == 0.3, {}, [3]),
    ):  # fmt: skip
        night = stub(comparison=stub(verdicts=rows), slow=known)
        found = losses.rows_that_share(stub(kind=kind, loss=0.1, holds=holds), night)
        assert found == [rows[place] for place in shared]


# Corrected dates


SESSIONS = [
    stub(session=f's{i}', day=f'2026-11-0{i}', time=f'2026-11-0{i}T02:00:00', started=datetime(2026, 11, i, 2))
    for i in range(1, 6)
]


def test_a_date_is_a_session_or_the_first_session_since_a_day():
    assert corrections.session_from([SESSIONS[0], SESSIONS[4]], '2026-11-02') == (SESSIONS[4], '2026-11-02')
    assert corrections.session_from(SESSIONS, 's4') == (SESSIONS[3], '2026-11-04')


def test_sessions_are_in_doubt_from_the_first_that_an_incident_shows_until_it_healed(monkeypatch, tmp_path):
    def doubts(*of, epoch=''):
        monkeypatch.setattr(ledger, 'read_ledger', lambda results, site: of)
        on = [stub(**vars(session), site='site') for session in SESSIONS]
        return {session: names for session, names in ledger.accused(tmp_path, on, epoch).items() if names}

    lasting = in_ledger(days='--BH')
    found = doubts(lasting)
    assert {session: [*names] for session, names in found.items()} == {name: ['n1'] for name in ('s3', 's4', 's5')}
    assert 'abc123' in found['s3']['n1'] and 'not healed' in found['s3']['n1']
    closed = doubts(in_ledger(days='BH', accepted=True))
    assert closed.keys() == {'s1'} and 'not healed' not in closed['s1']['n1']
    since = in_ledger(incident(since='s1'), '--BH')
    assert doubts(since).keys() == {'s1', 's3', 's4', 's5'}
    assert doubts(lasting, epoch='x') == doubts(lasting), 'no change of the machine explains a node'
    assert doubts(in_ledger(seen={'s0': seen(3, *BAD)}), epoch='x')
    of_all = in_ledger(incident(nodes=(), where=Scope('site')), ['-', '-', (('',), ())])
    assert list(doubts(of_all)['s3']) == [str(CASE)]
    assert doubts(of_all, epoch='x') == {}, 'it began within the epoch'


def test_a_merged_incident_counts_the_sessions_of_its_parts():
    one = part_of(incident(since='s2', day='2026-11-02', sessions=4))
    parts = (
        replace(one, id='a', seen={'s3': seen(3, ('n1',)), 's4': seen(4, (), ('n1',))}),
        replace(one, id='b', incident=incident(nodes=('n2',), day='2026-11-04'),
                seen={'s2': seen(2, ('n2',)), 's4': seen(4, ('n2',))}),
    )  # fmt: skip
    whole = Known('abc123', parts)
    assert list(whole.seen) == ['s2', 's3', 's4'] and whole.first == 's2'
    assert (whole.incident.since, whole.incident.day, whole.incident.sessions) == ('s2', '2026-11-02', 3)
    assert whole.ids == {'abc123', 'a', 'b'} and len(whole.told) == 2
    # n1 was bad once and is healthy once, 3 - 1; n2 was bad in two of two: (1/4) ** 3 = 0.016
    assert whole.unhealed == ['n1', 'n2'] and whole.closes_in == 3


# Problems outside the series


def of_all(sort='loss', environ='', **more):
    return Draft('SYSTEM', Scope('s', 'cpu', environ), sort, series={TRIAD}, **more)


@each_row(('problem', 'drafts', 'evidence', 'new'), [
    (Problem('x'), [], [], ('CASE', ())), (Problem('x', 'node lost', 'cpu', nodes=('n1',)), [], [], ('NODE', ('n1',))),
    (Problem('x', 'not measured'), [of_all('failure')], ['x'], None),
    (Problem('x', 'not measured'), [of_all()], [], ('CASE', ())),
    (Problem('x', 'fixture', 'cpu', 'system'), [of_all('failure', 'system')], ['x'], None),
    (Problem('x', 'fixture', 'cpu', 'system'), [of_all('failure', 'gcc')], [], ('CASE', ())),
    (Problem('x', 'session', 'cpu', 'system'), [of_all('failure', 'system')], [], ('CASE', ())),
    (Problem('x', 'not measured'), [of_all('failure', problem=Problem('x', 'not measured'))], [], None),
])  # fmt: skip
def test_a_problem_is_told_of_what_it_broke_or_is_an_incident_of_its_own(problem, drafts, evidence, new):
    found = [replace(one, evidence=[]) for one in drafts]
    problems.add_problems(found, [problem], stub(session=stub(site='s')))
    assert [line for one in found[: len(drafts)] for line in one.evidence] == evidence
    assert [(one.kind, one.where.nodes) for one in found[len(drafts) :]] == ([new] if new else [])
    assert all((one.sort, str(one.cause), one.problem) == ('session', 'x', problem) for one in found[len(drafts) :])

# SPDX-License-Identifier: BSD-3-Clause
"""What a node sweep has and lacks: no node that was to run is without a row."""

import json
import time
from itertools import combinations

import pytest
from rows import each_row
from test_session import case

from ci.session import RESUMABLE, CaseSelection, PlannedSession
from ci.sweep import PART, STATE, Allocation, Sweep
from plumbline.record import MetricRecord, Record, Series

SELECTION = CaseSelection('s', 'quick')
ONE, TWO = ('hash-one', 's:p+e'), ('hash-two', 's:p+e')


def record(*nodes: str, code: int | None = 0, state: str = 'COMPLETED', faults=()) -> dict:
    job = {'id': '7', 'nodes': list(nodes), 'exitcode': code, 'state': state}
    rate = MetricRecord('GB/s', 'higher', [Series(samples=[(1, nodes[0], 5.0)] if code == 0 else [])])
    return Record('one', (), metrics={'rate': rate}, job=job).to_dict() | {'faults': list(faults), 'breaches': []}


def entry(name: str, *places: dict, **more) -> dict:
    empty = Record(name, (), metrics={'rate': MetricRecord('GB/s', 'higher', [Series()])}).to_dict()
    return case(name, **{'record': empty | ({'swept': list(places)} if places else {}), 'num_nodes': 1, **more})


@pytest.fixture
def sweep(tmp_path):
    found = Sweep.new(SELECTION)
    found.cases, found.nodes = {ONE: 'one', TWO: 'two'}, ['n1', 'n2', 'n3']
    return found


def add(sweep, results, nodes: list[str], *entries: dict, why: str = '', cases=None, round: int = 0):
    """An allocation; ReFrame wrote no report of it where there are no entries."""
    session = PlannedSession.new(results, SELECTION, 0, f'part{len(sweep.parts)}')
    sweep.parts.append(Allocation(session, nodes, cases, why, round))
    if entries:
        path = session.part(PART)
        path.parent.mkdir(parents=True, exist_ok=True)
        info = {'uuid': 'theirs', 'time_start_unix': 1, 'time_end_unix': 2}
        path.write_text(json.dumps({'session_info': info, 'runs': [{'run_index': 0, 'testcases': list(entries)}]}))


def rows(content: dict, run: int = 0) -> dict[tuple[str, str], tuple[str, str]]:
    cases = content['runs'][run]['testcases']
    return {(one['hashcode'], ','.join(one['job_nodelist'])): (one['result'], one['fail_reason']) for one in cases}


def test_every_node_has_a_row_also_without_a_report_and_without_an_allocation(sweep, tmp_path):
    """Of the case that ran elsewhere it has the series, of the other only its name and the cause."""
    sweep.absent['n3'] = 'the node was no longer free'
    add(sweep, tmp_path, ['n1'], entry('one', record('n1')), why='told to end by SIGTERM')
    add(sweep, tmp_path, ['n2'], why='job 8 ended in state PREEMPTED')
    content, missing = sweep.content()
    assert rows(content) == {
        ('hash-one', 'n1'): ('pass', None),
        ('hash-two', 'n1'): ('fail', 'n1: told to end by SIGTERM'),
        ('hash-one', 'n2'): ('fail', 'n2: job 8 ended in state PREEMPTED'),
        ('hash-two', 'n2'): ('fail', 'n2: job 8 ended in state PREEMPTED'),
        ('hash-one', 'n3'): ('fail', 'n3: the node was no longer free'),
        ('hash-two', 'n3'): ('fail', 'n3: the node was no longer free'),
    }
    lost = next(one for one in content['runs'][0]['testcases'] if one['display_name'] == 'one %.nid=n2')
    assert lost['record']['metrics']['rate']['series'][0]['missing'] == 'job 8 ended in state PREEMPTED'
    assert content['session_info']['uuid'] == sweep.uuid and content['session_info']['plumbline_mode'] == 'quick'
    assert sorted(sweep.left(missing)) == [(['n1', 'n2', 'n3'], [TWO]), (['n2', 'n3'], [ONE])]


def test_a_node_that_failed_is_no_missing_one(sweep, tmp_path):
    """To resume would hide that. A node without an exit code went down, unless the whole allocation ended."""
    down = record('n1', code=None, state='NODE_FAIL', faults=['did not end'])
    late = record('n3', code=None, state='CANCELLED', faults=['not run: the time of the allocation was used up'])
    one = entry('one', down, record('n2', code=3, state='FAILED', faults=['exit code 3']), late)
    two = entry('two', result='fail', fail_phase='setup', fail_reason='no such stack')
    add(sweep, tmp_path, sweep.nodes, one, two)
    content, missing = sweep.content()
    assert missing == [(ONE, ('n3',))]
    assert rows(content)['hash-one', 'n1'] == ('fail', 'n1: did not end')
    assert [rows(content)['hash-two', node] for node in sweep.nodes] == [
        ('fail', f'{node}: no such stack') for node in sweep.nodes
    ]
    sweep.parts[0].why = 'interrupted'
    content, missing = sweep.content()
    assert missing == [(ONE, ('n1',)), (ONE, ('n3',))] and rows(content)['hash-one', 'n1'][1] == 'n1: interrupted'


def test_what_was_resumed_takes_the_place_of_what_was_missing(sweep, tmp_path):
    """As a further run: the store takes a report of the same session only with more of them."""
    sweep.cases, sweep.nodes = {ONE: 'one'}, ['n1', 'n2']
    ended = record('n2', code=143, state='FAILED', faults=['exit code 143'])
    add(sweep, tmp_path, ['n1', 'n2'], entry('one', record('n1'), ended, result='abort'), why='interrupted')
    sweep.round = 1
    add(sweep, tmp_path, ['n2'], entry('one', record('n2')), cases=[ONE], round=1)
    content, missing = sweep.content()
    assert not missing
    assert [rows(content, run) for run in (0, 1)] == [
        {('hash-one', 'n1'): ('pass', None)}, {('hash-one', 'n2'): ('pass', None)},
    ]  # fmt: skip
    assert [case['plumbline_purpose'] for case in content['runs'][1]['testcases']] == ['rest']


def test_pairs_of_nodes_and_trials_that_were_left_out(sweep, tmp_path):
    """All that met run again; a node without a partner is a problem, not a missing place."""
    short = record('n3')
    short['provenance'] = {'trials_left_out': '4 of 5 trials'}
    pairs = entry('two', record('n1', 'n2', code=None, state='NODE_FAIL'), num_nodes=2)
    add(sweep, tmp_path, ['n1', 'n2'], entry('one', record('n1'), record('n2')), pairs, why='interrupted')
    add(sweep, tmp_path, ['n3'], entry('one', short))
    content, missing = sweep.content()
    assert missing == [(TWO, ('n1', 'n2'))] and sweep.left(missing) == [(['n1', 'n2'], [TWO])]
    trials, alone = sorted(map(str, sweep.problems(content)))
    assert trials.startswith('one: 4 of 5 trials') and alone == 'two: not run on n3'


def test_nodes_that_were_taken_before_their_pairs_ran_are_missing(sweep, tmp_path):
    sweep.cases, sweep.nodes = {TWO: 'two'}, ['n1', 'n2', 'n3', 'n4']
    sweep.absent = dict.fromkeys(['n3', 'n4'], 'the node was no longer free')
    add(sweep, tmp_path, ['n1', 'n2'], entry('two', record('n1', 'n2'), num_nodes=2))
    content, missing = sweep.content()
    assert rows(content)['hash-two', 'n3'] == ('fail', 'n3: the node was no longer free')
    assert sweep.left(missing) == [(['n3', 'n4'], [TWO])], 'together, so that they are a pair'
    sweep.round = 1
    add(sweep, tmp_path, ['n3', 'n4'], entry('two', record('n3', 'n4'), num_nodes=2), cases=[TWO], round=1)
    assert sweep.content()[1] == []


def test_pairs_that_were_measured_stay_when_fewer_rounds_are_asked_for_later(sweep, tmp_path, monkeypatch):
    sweep.cases, sweep.nodes = {TWO: 'two'}, ['n1', 'n2', 'n3', 'n4']
    pairs = list(combinations(sweep.nodes, 2))
    add(sweep, tmp_path, sweep.nodes, entry('two', *(record(*pair) for pair in pairs), num_nodes=2))
    monkeypatch.setenv('PLUMBLINE_NODE_SWEEP_ROUNDS', '1')
    content, missing = sweep.content()
    assert rows(content) == {('hash-two', ','.join(pair)): ('pass', None) for pair in pairs} and not missing


def test_a_node_sweep_is_kept_for_resumption(sweep, tmp_path):
    assert Sweep.unfinished(tmp_path) is None
    add(sweep, tmp_path, ['n1'], cases=[ONE])
    sweep.remember(tmp_path)
    assert Sweep.unfinished(tmp_path) == sweep
    assert sweep.can_resume(SELECTION) and not sweep.can_resume(CaseSelection('s', 'nightly'))
    (tmp_path / STATE).write_text('{"command": ["reframe"], "done": []}')
    assert Sweep.unfinished(tmp_path) is None


@each_row('age, can', [(0, True), (RESUMABLE - 5, True), (RESUMABLE + 5, False), (-100, False)])
def test_a_sweep_is_resumed_within_20_hours_of_its_start(age, can, sweep, tmp_path):
    """However often it was kept since then: a node that stays away must not keep all others from being measured."""
    assert not Sweep.new(SELECTION).can_resume(SELECTION)
    add(sweep, tmp_path, ['n1'], cases=[ONE])
    sweep.parts[0].session.started = time.time() - age
    add(sweep, tmp_path, ['n2'], cases=[ONE])
    assert sweep.can_resume(SELECTION) == can


def test_breaches_of_a_node_are_of_the_performance_and_faults_of_the_sanity(sweep, tmp_path):
    """Of many faults three are named."""
    slow = record('n2') | {'breaches': ['rate: 1 < 5']}
    wrong = record('n3', code=1, state='FAILED', faults=['a', 'b', 'c', 'd']) | {'breaches': ['rate: 1 < 5']}
    sweep.cases = {ONE: 'one'}
    add(sweep, tmp_path, sweep.nodes, entry('one', record('n1'), slow, wrong))
    content, missing = sweep.content()
    found = {one['job_nodelist'][0]: one for one in content['runs'][0]['testcases']}
    assert [found[name]['fail_phase'] for name in sweep.nodes] == [None, 'performance', 'sanity'] and missing == []
    assert [found[name]['fail_reason'] for name in sweep.nodes] == [None, 'n2: rate: 1 < 5', 'n3: a; b; c']
    assert found['n3']['display_name'] == 'one %.nid=n3' and found['n3']['unique_name'] == 'one_n3'
    assert (found['n3']['job_state'], found['n3']['jobid'], found['n3']['scheduler']) == ('FAILED', '7', 'slurm')


@each_row(
    'code, state, why, is_missing',
    [
        (None, 'NODE_FAIL', '', False), (None, 'NODE_FAIL', 'ended', True), (137, 'FAILED', 'ended', True),
        (130, 'FAILED', 'ended', True), (1, 'FAILED', 'ended', False),
        (137, 'FAILED', '', False), (None, 'CANCELLED', '', True),
        (None, 'CANCELLED', 'ended', True), (0, 'COMPLETED', 'ended', False),
    ],
)  # fmt: skip
def test_what_was_killed_with_its_allocation_can_be_resumed(code, state, why, is_missing, sweep, tmp_path):
    sweep.cases, sweep.nodes, sweep.parts = {ONE: 'one'}, ['n1'], []
    faults = [] if code == 0 else ['it ended']
    add(sweep, tmp_path, ['n1'], entry('one', record('n1', code=code, state=state, faults=faults)), why=why)
    content, missing = sweep.content()
    assert missing == [(ONE, ('n1',))] * is_missing
    ((result, reason),) = rows(content).values()
    assert result == ('pass' if code == 0 else 'fail') and (reason == 'n1: ended') == (is_missing and bool(why))


@each_row('result, is_missing', [('abort', True), ('pass', True), ('fail', False), ('error', False)])
def test_a_case_that_failed_before_it_reached_a_node_is_not_resumed(result, is_missing, sweep, tmp_path):
    sweep.cases, sweep.nodes, sweep.parts = {ONE: 'one'}, ['n1'], []
    add(sweep, tmp_path, ['n1'], entry('one', result=result, fail_phase='setup', fail_reason='no stack'))
    content, missing = sweep.content()
    assert missing == [(ONE, ('n1',))] * is_missing
    (found,) = content['runs'][0]['testcases']
    assert (found['fail_phase'], found['job_state']) == (('run', 'CANCELLED') if is_missing else ('setup', 'FAILED'))
    assert found['result'] == ('fail' if is_missing else result)
    assert found['fail_reason'] == ('n1: ReFrame ended without it' if is_missing else 'n1: no stack')


def test_the_session_began_with_its_first_allocation_and_holds_what_is_no_case(sweep, tmp_path):
    sweep.cases, sweep.nodes = {ONE: 'one'}, ['n1', 'n2']
    add(sweep, tmp_path, ['n1'], entry('one', record('n1')), entry('build ~s:p+e'))
    sweep.parts[0].session.started = 5.0
    add(sweep, tmp_path, ['n2'], entry('one', record('n2')))
    content, _ = sweep.content()
    assert content['session_info']['time_start_unix'] == 5.0
    assert [one['display_name'] for one in content['runs'][0]['testcases']] == [
        'build ~s:p+e', 'one %.nid=n1', 'one %.nid=n2',
    ]  # fmt: skip
    assert len(content['runs']) == 1

# SPDX-License-Identifier: BSD-3-Clause
"""Incidents: what a session shows, by cause, and what becomes of it over the sessions."""

import json
import math
import random
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from lxml import etree
from rows import each_row
from run_reports import SITE, case, metric, report, verdict_of
from simulated_site import METRICS, NODES, OSU, Site, named, slow_node, three_causes

from plumbline.grouping import explain
from plumbline.identity import SeriesId
from plumbline.problems import Problem
from plumbline.references import read_references
from postprocess.history.digest import judge
from postprocess.incidents.incident import Incident, Scope, Value
from postprocess.incidents.known import Known, Seen
from postprocess.incidents.levels import began
from postprocess.incidents.losses import losses
from postprocess.incidents.words import since
from postprocess.results.store import Store
from postprocess.statistics.pooled import pooled
from postprocess.verdicts.stored import verdicts_of
from postprocess.verdicts.verdict import Common
from postprocess.views import verdicts as views
from postprocess.views.incidents import _command


def states(found):
    return {one['id']: one['state'] for one in found}


def failed(node, reason, metrics=METRICS, **fields):
    """A job that failed on a node, as it stands in the first round."""
    return case(
        nodes=(node,), **named(node), result='fail', fail_phase='sanity', fail_reason=reason,
        metrics={f'm{i}': metric([]) for i in range(metrics)}, **fields,
    )  # fmt: skip


def failed_check(check, node):
    """The same of one of the MPI checks."""
    return case(
        check=check, nodes=(node,), stack='other', result='fail', fail_phase='sanity', fail_reason=f'{check}: lost',
        metrics={f'm{i}': metric([]) for i in range(METRICS)},
    )  # fmt: skip


# Causes


def test_many_metrics_of_three_causes_are_three_incidents(site):
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    document = site.work.compare()
    assert document['counts']['regressed'] == 30 + 5 + 10
    found = {one['kind']: one for one in document['incidents']}
    assert len(document['incidents']) == 3
    assert (found['NODE']['where'], found['NODE']['metrics']) == ('n3', 5)
    assert found['NODE']['loss'] == pytest.approx(20, abs=1)
    assert (found['DEVICE']['where'], found['DEVICE']['metrics']) == ('g1 device 2', 10)
    other = found['SYSTEM' if 'SYSTEM' in found else 'SOFTWARE']
    assert (other['where'], other['metrics'], other['checks']) == ('cpu/other', 30, sorted(OSU))
    assert {one['since'] for one in document['incidents']} == {'2026-11-26'}
    assert {one['sessions'] for one in document['incidents']} == {2}
    of_rows = {row['incident'] for row in document['verdicts'] if row['verdict'] == 'regressed'}
    assert of_rows == {one['id'] for one in document['incidents']}


def test_a_small_loss_that_many_metrics_share_is_one_incident(young):
    """Of 2.2 %, where a job varies by 1 %: hardly one of the 30 metrics shows it alone."""

    def noisy(level):
        def values(of_job):
            return [100 * level * of_job * (1 + young.random.gauss(0, 0.001)) for _ in range(3)]

        return {f'm{i}': metric(values(1 + young.random.gauss(0, 0.01))) for i in range(METRICS)}

    young.metrics = noisy
    young.healthy(10)
    assert young.work.run('record propose').exit_code == 0
    assert young.work.run('record accept').exit_code == 0
    for _ in range(3):
        young.run(lambda check, node, device: 0.978 if check in OSU else 1.0)
    (one,) = young.judged(1)
    assert (one['kind'], one['where'], one['metrics']) == ('SYSTEM', 'cpu/other', 30)
    assert one['loss'] == pytest.approx(2.2, abs=0.5)


def test_a_loss_of_all_nodes_with_a_new_kernel_is_of_the_software_and_of_no_node(site):
    site.run(lambda check, node, device: 0.93 if check == 'STREAM' else 1.0, lambda check: {'kernel': '6.5'})
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('SOFTWARE', 'cpu/system')
    assert one['nodes'] == NODES
    assert one['changed'] == ['kernel: 6.1 -> 6.5']


def test_a_planned_change_becomes_an_epoch_in_one_step(site):
    """Of three nights with a new kernel; one node is slow besides, and stays as it was recorded."""

    def changed(check, node, device):
        return 0.93 * slow_node(0.7)(check, node, device) if check == 'STREAM' else 1.0

    for _ in range(3):
        site.run(changed, lambda check: {'kernel': '6.5'})
        found = {one['kind']: one for one in site.judged(1)}
    (step,) = [one for one in found['SOFTWARE']['next_steps'] if '--epoch' in one]
    assert step.startswith("plumbline record propose --epoch 'kernel: 6.1 -> 6.5'")
    if found['SOFTWARE'] == min(found.values(), key=lambda one: one['id']):
        assert '--epoch' in site.work.run('status').stdout
    told = site.work.run('record propose', '--epoch', 'another change')
    assert 'SOFTWARE, not healed' in told.output, 'what began with the kernel is not of this change'
    told = site.work.run('record propose', '--epoch', 'kernel: 6.1 -> 6.5')
    assert 'SOFTWARE, not healed' not in told.output
    assert told.exit_code == 1 and 'NODE, not healed (STREAM on n3)' in told.output, 'the rest is refused'
    assert site.work.run('record accept').exit_code == 0
    rows = [row for row in read_references(site.work.baseline, 'baseline') if row.id.check == 'STREAM']
    assert {round(row.mean / 93) for row in rows} == {1} and {row.epoch for row in rows} == {'kernel: 6.1 -> 6.5'}
    site.run(changed, lambda check: {'kernel': '6.5'})
    states = {one['kind']: one['state'] for one in site.judged(1)}
    assert states == {'SOFTWARE': 'closed', 'NODE': 'open'}


def test_facts_that_differ_each_night_are_never_software(site):
    site.run(lambda check, node, device: 0.93 if check == 'STREAM' else 1.0)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['changed']) == ('SYSTEM', 'cpu/system', [])


def test_a_slow_node_says_what_the_others_measured_and_what_is_healthy(site):
    site.run(lambda check, node, device: 0.8 if node == 'n3' and check == 'STREAM' else 1.0)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n3', ['n3'])
    said = ' | '.join(one['evidence'])
    assert re.search(r'STREAM size=big m\d: (79|80)[\d.]* GB/s on n3; expected 100', said)
    assert 'on 15 other nodes: ' in said
    options = f'--results {site.work.results} --site {SITE}'
    assert one['next_steps'] == [
        f"ci/nightly --no-provision {options} -- --system=cluster:cpu -n '^STREAM%size=big'",
        f'plumbline incidents show {one["id"]} {options}',
        f'plumbline incidents acknowledge {one["id"]} --why REASON --until DAY {options}',
    ]


def test_reruns_tell_the_node_from_the_system(work):
    """One job a check, on any node: only what ran again on others can tell."""
    site = Site(work, nodes=['n1'])
    site.healthy(2)
    slow = {'n1': case(metrics=site.metrics(0.7), nodes=('n5',), unique_name='x')}
    rerun = [
        [case(metrics=site.metrics(level), nodes=(node,), unique_name='x')]
        for node, level in (('n5', 0.7), ('n5', 0.7), ('n7', 1.0))
    ]
    site.run(replaced=slow, again=rerun)
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('NODE', 'n5')
    assert 'on n7' in ' '.join(one['evidence'])


def test_a_node_that_crashes_its_job_is_an_incident_though_the_rerun_passes(site):
    assert site.judged(0) == []
    again = case(metrics=site.metrics(1.0), nodes=('n9',), **named('n5'))
    site.run(replaced={'n5': failed('n5', 'job 4711 ended in state NODE_FAIL, exit code 0, on n5')}, again=[[again]])
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n5', ['n5'])
    assert 'NODE_FAIL' in one['cause']
    assert 'passed when it ran again on n9' in one['evidence']
    site.run()
    assert states(site.judged(0)) == {one['id']: 'healing'}, 'nothing is wrong tonight'
    assert ' healing: NODE n5: ' in site.work.run('compare --summary').stdout


@pytest.mark.parametrize(('state', 'code', 'kind'), [
    ('OUT_OF_MEMORY', 'time-limit', 'CASE'),
    ('FAILED', 'oom-limit', 'CASE'),
    ('OUT_OF_MEMORY', 'oom-node', 'NODE'),  # it was killed since the node was short
])  # fmt: skip
def test_a_job_that_reached_its_own_memory_limit_accuses_no_node(site, state, code, kind):
    again = case(metrics=site.metrics(1.0), nodes=('n9',), **named('n5'))
    killed = failed('n5', 'OOM: the job used more memory than it was given on n5')
    killed['record']['job']['state'] = state
    killed['record']['causes'] = [{'code': code, 'what': 'OOM', 'nodes': 'n5'}]
    site.run(replaced={'n5': killed}, again=[[again]])
    (one,) = site.judged(1)
    assert one['kind'] == kind and 'OOM' in one['cause']
    assert (one['where'] == 'n5') == (kind == 'NODE')


def test_a_program_that_is_dead_everywhere_is_one_case(site):
    dead = {node: failed(node, f'exit code 127, on {node}') for node in NODES}
    site.run(replaced=dead)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['metrics'], len(one['nodes'])) == ('CASE', 'cpu/system', METRICS, 16)


def test_jobs_that_fail_on_one_node_are_one_incident_of_the_node(site):
    dead = {check: failed_check(check, 'n4') for check in OSU[:3]}
    site.run(replaced=dead | {'n4': failed('n4', 'lost')})
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('NODE', 'n4')
    assert one['checks'] == sorted([*OSU[:3], 'STREAM'])


def test_failed_jobs_on_some_of_400_nodes_name_their_nodes_in_every_output(work, tmp_path):
    site = Site(work, [f'n{i:04}' for i in range(400)], rest=False, metrics=1)
    lost = random.Random(1).sample(site.nodes, 22)
    said = 'xhpl ended with exit code 3 in trial 1 of 3 on {}; all output: evidence/demo/2026-11/{}.tar.gz'
    reasons = {node: said.format(node, node.encode().hex()) for node in lost}
    reasons[lost[0]] = reasons[lost[0]].replace('; all', f'; also: {lost[0]}: boost changed from 1 to 0; all')
    jobs = {node: failed(node, reason, 1) for node, reason in reasons.items()}
    for node, job in jobs.items():
        job['record']['causes'] = [{'code': 'exit-code', 'what': 'xhpl ended with exit code 3', 'nodes': node}]
    site.run(replaced=jobs)
    (one,) = site.judged(1)
    assert one['kind'] == 'NODE'
    assert one['nodes'] == sorted(lost)
    texts = [work.run('compare', '--summary', '--junit', tmp_path / 'x.xml').stdout, work.run('incidents').stdout]
    store = Store(work.results)
    session = store.find('latest')
    view = views.comparison(verdicts_of(store, session, work.sites), judge(store, session.session, root=work.sites))
    texts += [view.render(format) for format in ('table', 'markdown', 'csv', 'json')]
    names = [element.get('name') for element in etree.parse(tmp_path / 'x.xml').findall('.//testcase')]
    assert len(names) == len(set(names))
    texts.append(etree.parse(tmp_path / 'x.xml').find('.//failure').get('message'))
    for text in texts:
        assert [node for node in lost if node not in text] == []


def ladder(site, *named, nodes=NODES, check='NodeLadder'):
    """A node ladder that names these: kind, where, nodes, evidence; it passes where it names nobody."""
    ended = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': named[0][-1]} if named else {}
    said = {'named': json.dumps(named)} if named else {}
    return case(check=check, metrics={'pair': metric([] if named else [5])}, nodes=nodes, provenance=said, **ended)


SLOW_NODE = ['node', 'node n7', ['n7'], 'node n7: 10 MB/s, expected 50 (-80%) in 3 of 3 pairs']
SLOW_RAIL = ['rail', 'rail 2 of node n5', ['n5'], 'rail 2 of node n5: 10 MB/s, expected 50 (-80%) in 3 of 3 pairs', 2]
SLOW_PAIR = ['pair', 'pair n1,n2', ['n1', 'n2'], 'pair n1,n2: no result in 2 of 2 pairs']
UPLINK = [
    'uplink',
    'uplink of switch s1',
    ['n8', 'n9'],
    'uplink of switch s1: 7 MB/s, expected 12 (-40%) in 9 of 9 pairs',
]


def test_what_a_ladder_names_are_incidents_that_another_ladder_clears(site):
    other = ladder(site, ['loopback', 'node n7', ['n7'], 'node n7: no result within the node'], check='Other')
    site.run(again=[[ladder(site, SLOW_NODE, SLOW_RAIL, SLOW_PAIR, UPLINK), other]])
    found = {one['where']: one for one in site.judged(1)}
    assert {where: one['kind'] for where, one in found.items()} == {
        'n7': 'NODE', 'n5 rail 2': 'DEVICE', 'pair n1,n2': 'FABRIC', 'uplink of switch s1': 'FABRIC',
    }  # fmt: skip
    assert found['n7']['cause'] == SLOW_NODE[-1] and 'node n7: no result within the node' in found['n7']['evidence']
    assert found['uplink of switch s1']['nodes'] == ['n8', 'n9']
    assert any('job 7 on' in line for line in found['pair n1,n2']['evidence'])
    ids = {where: one['id'] for where, one in found.items()}
    site.run()  # whose other checks pass on n7, and say nothing of its network
    assert set(states(site.judged(1)).values()) == {'open'}
    site.run(again=[[ladder(site, SLOW_RAIL, nodes=[node for node in NODES if node != 'n2'])]])
    found = states(site.judged(1))
    assert {where: found[id] for where, id in ids.items()} == {
        'n7': 'healing', 'n5 rail 2': 'open', 'pair n1,n2': 'open', 'uplink of switch s1': 'healing',
    }, 'n2 took no part'  # fmt: skip
    site.run(again=[[ladder(site)]])
    assert set(states(site.judged(0)).values()) == {'healing'}


def test_a_problem_of_the_session_is_an_incident_of_that_session_alone(young):
    young.run(problem=Problem('ReFrame was killed'))
    (one,) = young.judged(1)
    assert (one['kind'], one['what']) == ('CASE', 'ReFrame was killed')
    young.run()
    (closed,) = young.judged(0)
    assert (closed['id'], closed['state']) == (one['id'], 'closed')


def test_a_node_that_is_lost_is_named(site):
    site.run(problem=Problem('n7 of cpu is down*', 'node lost', 'cpu', nodes=('n7',)))
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n7', ['n7'])


# Over the sessions


def test_an_incident_is_acknowledged_gets_worse_heals_and_is_closed(site):
    site.run(slow_node(0.85))
    (one,) = site.judged(1)
    assert one['acknowledged_why'] == ''
    said = site.work.run('incidents acknowledge', one['id'], '--why', 'fan is ordered', '--until', '2026-12-24')
    assert said.exit_code == 0 and one['id'] in said.stdout
    (known,) = site.judged(0)
    assert (known['id'], known['state'], known['acknowledged_why']) == (one['id'], 'acknowledged', 'fan is ordered')

    site.run(slow_node(0.85))
    assert states(site.judged(0)) == {one['id']: 'acknowledged'}
    site.run(slow_node(0.6))
    (worse,) = site.judged(1)
    assert (worse['id'], worse['state']) == (one['id'], 'open')
    assert 'FAILED: 1 incident open, 1 new; ' in site.work.run('compare --summary').stdout
    assert '40' in worse['worse'] and '15' in worse['worse']
    assert any('incidents acknowledge' in step for step in worse['next_steps'])
    assert 'fan is ordered' in site.work.run('incidents show', one['id']).stdout

    for night in range(3):  # bad in three of three: the chance of a healthy one is 1/5, and 1/5^3 < 1 %
        site.run()
        (healing,) = site.judged(0)
        assert (healing['healthy_for'], healing['state']) == (night + 1, 'closed' if night == 2 else 'healing')
        assert not any('acknowledge' in step or step.startswith('ci/nightly') for step in healing['next_steps'])
    site.run()
    assert site.judged(0) == []
    listed = json.loads(site.work.run('incidents', '--format', 'json').stdout)
    assert states(listed) == {one['id']: 'closed'}


def test_one_metric_of_an_acknowledged_incident_that_gets_much_worse_opens_it(site):
    site.run(lambda check, node, device: 0.9 if check in OSU else 1.0)
    (one,) = site.judged(1)
    assert one['metrics'] == 30
    site.work.run('incidents acknowledge', one['id'], '--why', 'x', '--until', '2026-12-24')
    site.run(lambda check, node, device: 0.9 if check in OSU else 1.0)
    assert states(site.judged(0)) == {one['id']: 'acknowledged'}
    levels = site.metrics(0.9) | {'m0': metric([40.0, 40.1])}
    site.run(
        lambda check, node, device: 0.9 if check in OSU else 1.0,
        replaced={OSU[0]: case(OSU[0], metrics=levels, stack='other')},
    )
    found = site.judged(1)
    assert states(found)[one['id']] == 'open' and len(found) == 1, 'the mean of all of them lost hardly more'
    assert 'in one metric, acknowledged with 1' in found[0]['worse']


def test_an_incident_that_comes_back_while_it_heals_is_the_same(site):
    site.run(slow_node(0.8))
    (one,) = site.judged(1)
    site.run()
    assert states(site.judged(0)) == {one['id']: 'healing'}
    site.run(slow_node(0.8))
    assert states(site.judged(1)) == {one['id']: 'intermittent'}
    said = site.work.run('compare --summary').stdout
    assert 'FAILED: 1 incident open, 1 intermittent; ' in said, 'it is not new'
    assert 'intermittent: bad in 2 of 3 sessions' in said


def course(text, sort='loss', certain=True):
    """An incident of node n1 over sessions a day each: bad (B), healthy (H), or not measured (-)."""
    incident = Incident('NODE', Scope(SITE, nodes=('n1',)), sort, ('STREAM',), (), ('n1',), certain=certain)
    seen = {
        f'{day:08}': Seen(f'2026-12-{day:02}T00:00:00', ('n1',) * (what == 'B'), ('n1',) * (what == 'H'))
        for day, what in enumerate(text, 1)
        if what != '-'
    }
    return Known('abc', incident, seen)


@each_row(
    ('before', 'needed'),
    [
        ('B', 5),  # (1/3)^5 = 0.4 %, ^4 = 1.2 %
        ('BB', 4),  # (1/4)^4 = 0.4 %, ^3 = 1.6 %
        ('BBBBB', 3),  # (1/7)^3 = 0.3 %, ^2 = 2 %
        ('BBBBBBBB', 3),  # (1/10)^2 is 1 %, and not less
        ('BBBBBBBBB', 2),  # (1/11)^2 = 0.8 %
        ('BHB', 6),  # 1 - 3/5: 0.4^6 = 0.4 %, ^5 = 1.02 %
        ('BBHHHBB', 6),  # 1 - 5/9: 0.444^6 = 0.8 %, ^5 = 1.7 %
        ('B-H--B-', 6),  # what did not measure it says nothing
    ],
)
def test_an_incident_is_closed_after_as_many_healthy_sessions_as_its_course_needs(before, needed):
    assert course(before + 'H' * (needed - 1)).closed == ''
    assert course(before + 'H' * (needed - 1)).closes_in == 1
    assert course(before + 'H' * needed).closed == f'2026-12-{len(before) + needed:02}'


def test_two_bad_sessions_of_five_are_one_incident_for_as_long_as_they_go_on():
    """The first three are too few by one. At the end it was bad in 18 of 42: (25/44)^9 = 0.6 %, ^8 = 1.1 %."""
    flapping = 'BBHHH' * 9
    found = [course(flapping[:n]).state('2026-12-31') for n in range(1, 28)]
    again = ['intermittent', 'intermittent']
    assert found == ['open', 'open', *['healing'] * 3, *[*again, *['healing'] * 3] * 4, *again]
    incident = course('B').incident
    names = [f'{i:08}' for i in range(45 + 9)]

    def after(text):
        return Known('abc', incident, {
            name: Seen(f'2027-01-01T{name}', ('n1',) * (what == 'B'), ('n1',) * (what == 'H'))
            for name, what in zip(names, text, strict=False)
        })  # fmt: skip

    assert not any(after(flapping[:n]).closed for n in range(1, 46))
    assert after(flapping).closes_in == 6
    assert not after(flapping + 'H' * 5).closed and after(flapping + 'H' * 6).closed
    assert since(after(flapping[:14]), '2027-01-01') == (
        'since ; intermittent: bad in 6 of 14 sessions; healthy in the last 2 sessions; it is closed after 5 more'
    )


def test_one_healthy_session_closes_a_problem_of_a_session_and_a_suspicion():
    assert course('BH', 'session').closed and course('BH', certain=False).closed
    assert not course('BBH', certain=False).closed


def test_each_node_closes_by_its_own_course():
    incident = replace(course('B').incident, where=Scope(SITE, nodes=('n1', 'n2')))
    nights = [*[(('n1', 'n2'), ())] * 2, (('n1',), ('n2',)), *[((), ('n1', 'n2'))] * 3, ((), ('n1',))]
    seen = {f'{i}': Seen(f'2026-12-0{i}', *of) for i, of in enumerate(nights, 1)}
    # n1 bad in 3 of 3: 1/5^3 = 0.8 %, so it is closed on day 6; n2 bad in 2 of 2: 1/4^4, on day 6 too
    assert Known('abc', incident, dict(list(seen.items())[:5])).unhealed == ['n1', 'n2']
    assert Known('abc', incident, seen).closed == '2026-12-06'
    assert not Known('abc', incident, seen).returned


def test_losses_of_several_sessions_are_told_together():
    told = [(0.10, (0.08, 0.12)), (0.11, (0.09, 0.13)), (0.09, (0.07, 0.11))]
    loss, (low, high) = pooled(told)
    assert loss == pytest.approx(0.10, abs=0.001)
    assert low == pytest.approx(0.08, abs=0.005) and high == pytest.approx(0.12, abs=0.005), 'they may share an error'
    assert pooled([(0.1, (0.09, 0.11)), (0.3, None)]) == (0.2, None), (
        'an interval of one of them does not hold the mean'
    )
    assert pooled([(0.1, (0.09, 0.11)), (0.2, (0.1, 0.3))])[0] == pytest.approx(0.1, abs=0.005), 'the sharper counts'


def test_a_fault_of_two_nights_in_five_is_one_incident(work):
    site = Site(work, ['n1'], rest=False, metrics=2)
    ids = set()
    for night, what in enumerate('BBHHHBB'):
        site.run(lambda check, node, device, what=what: 0.9 if what == 'B' else 1.0)
        (one,) = site.judged(int(what == 'B'))
        ids.add(one['id'])
        assert one['state'] == ('healing' if what == 'H' else 'open' if night < 5 else 'intermittent')
        assert what == 'H' or one['loss'] == pytest.approx(10, abs=1)
    assert len(ids) == 1
    assert 'intermittent: bad in 4 of 7 sessions' in work.run('incidents show', one['id']).stdout


def test_what_is_bad_again_after_it_was_closed_is_another_incident_that_names_it(work):
    site = Site(work, ['n1'], rest=False, metrics=2)
    for level in (0.9, *[1.0] * 5, 0.9):  # five healthy sessions close what was bad in one
        site.run(lambda check, node, device, level=level: level)
        (one,) = site.judged(int(level < 1))
        if one['state'] == 'closed':
            closed = one
    assert (one['state'], one['before']) == ('open', [closed['id']]) and one['id'] != closed['id']
    assert f'seen before: {closed["id"]}' in work.run('incidents show', one['id']).stdout


def test_an_incident_of_two_nodes_is_open_until_each_of_them_was_healthy(site):
    site.run(replaced={node: failed(node, 'lost') for node in ('n4', 'n5')})
    (one,) = site.judged(1)
    assert (one['kind'], one['nodes']) == ('NODE', ['n4', 'n5'])
    site.nodes = [node for node in NODES if node != 'n5']
    site.run()
    (still,) = site.judged(1)
    assert (still['id'], still['state']) == (one['id'], 'open'), 'one of them was not measured'
    assert any(step.startswith('ci/nightly') for step in still['next_steps'])
    site.nodes = NODES
    site.run()
    assert states(site.judged(0)) == {one['id']: 'healing'}


def test_an_acknowledged_node_excuses_no_other(site, tmp_path):
    def two_slow(check, node, device):
        return 0.8 if check == 'STREAM' and node in ('n3', 'n9') else 1.0

    site.run(two_slow)
    known, other = sorted(site.judged(1), key=lambda one: one['where'])
    site.work.run('incidents acknowledge', known['id'], '--why', 'x', '--until', '2026-12-24')
    site.judged(1)
    site.work.run('compare --junit', tmp_path / 'x.xml')
    bad = {
        outcome: {name.rpartition(' on ')[2] for name in tree_names(tmp_path / 'x.xml', outcome) if ' on ' in name}
        for outcome in ('failure', 'skipped')
    }
    assert bad == {'failure': {other['where']}, 'skipped': {known['where']}}


def tree_names(path, outcome):
    """The names of the test cases that have such an element."""
    return [element.getparent().get('name') for element in etree.parse(path).findall(f'.//{outcome}')]


def test_an_acknowledgement_ends_with_its_day(site):
    site.run(slow_node(0.7))
    (one,) = site.judged(1)
    site.work.run('incidents acknowledge', one['id'], '--why', 'x', '--until', '2026-11-27')
    site.run(slow_node(0.7))
    site.run(slow_node(0.7))
    assert states(site.judged(1)) == {one['id']: 'open'}


def test_judging_a_session_again_changes_nothing(site):
    site.run(three_causes)
    site.judged(1)
    first = site.work.judged()
    assert len(site.work.run('incidents --format csv').stdout.splitlines()) == 4
    for command in ('report', 'compare --summary'):
        site.work.run(command)
        assert site.work.judged() == first


def test_a_report_of_a_session_with_reruns_takes_the_place_of_what_it_said_before(site):
    dead = {'n5': failed('n5', 'exit code 3')}
    uuid = site.run(replaced=dead)
    (before,) = site.judged(1)
    content = json.loads((site.work.reports / f'{uuid}.json').read_text())
    again = case(metrics=site.metrics(1.0), nodes=('n5',), **named('n5'))
    content['runs'].append({'testcases': [again]})
    site.work.ingest(content)
    (one,) = site.judged(1)
    assert (one['id'], one['kind'], one['where']) == (before['id'], 'NODE', 'n5')
    assert len(site.work.run('incidents --format csv').stdout.splitlines()) == 2


def test_an_older_session_that_was_never_judged_is_recorded_in_its_place(site):
    old = site.run(slow_node(0.7))
    site.run()
    document = site.work.compare(old)
    assert document['exit_code'] == 1
    assert [one['kind'] for one in document['incidents']] == ['NODE']
    assert states(site.judged(0)) == {document['incidents'][0]['id']: 'healing'}


def test_what_a_single_job_without_a_baseline_shows_counts_when_it_is_seen_again(work):
    site = Site(work, rest=False)
    work.reference()
    site.healthy(6)
    site.run(slow_node(0.96))
    (one,) = site.judged(0)
    assert (one['kind'], one['where'], one['state']) == ('NODE', 'n3', 'suspected')
    rows = json.loads(work.run('incidents show', one['id'], '--format', 'json').stdout)['series']
    assert len(rows) == 5 and all(row['value'] == pytest.approx(0.96 * row['expected'], rel=0.01) for row in rows)
    site.run(slow_node(0.96))
    (one,) = site.judged(1)
    assert one['state'] == 'open'


def test_a_slow_node_stays_open_until_it_is_as_it_was(work):
    """Its new level is never its usual one, however long that lasts."""
    site = Site(work, NODES[:8], rest=False, metrics=2)
    work.reference()
    site.healthy(6)
    for code, nights in enumerate((1, 1, 19, 20)):
        site.work.ingest(*(site.content(slow_node(0.85)) for _ in range(nights)))
        found = site.judged(min(code, 1))  # first a single job shows it
        assert [(one['kind'], one['where'], one['since']) for one in found] == [('NODE', 'n3', '2026-11-27')]
    site.run()
    assert [one['state'] for one in site.judged(0)] == ['healing']


# The command


# Grouping


def test_a_part_of_a_curve_that_is_less_likely_than_its_check_is_the_same_incident():
    sizes = [SeriesId('cpu', 'system', 'Osu', (), 'latency', (('bytes', str(2**i)),)) for i in range(23)]
    rows = [replace(verdict_of(of, 1.0, 'regressed'), loss=0.07) for of in sizes]
    part, other, check = (
        Common(kind, 'x', tuple(series), 0.07, (0.06, 0.08), 1e-9)
        for kind, series in (('curve', sizes[:11]), ('curve', sizes[5:16]), ('check', sizes))
    )
    night = SimpleNamespace(
        comparison=SimpleNamespace(common=[part, other, check], verdicts=rows), session=SimpleNamespace(site=SITE)
    )
    (draft,) = losses(night)
    assert draft.series == set(sizes)


def causes(rows, common=()):
    """The drafts of a night of these verdicts, of which several nodes took part."""
    comparison = SimpleNamespace(common=common, verdicts=rows)
    return list(
        losses(
            SimpleNamespace(
                comparison=comparison, session=SimpleNamespace(site=SITE), store=None, before=[], cases=[],
                several=lambda partition: True, places_of=lambda nodes: set(),
            )
        )
    )  # fmt: skip


def judged(of, lost, number):
    """A verdict of a job on one of 16 nodes: a loss of 5 %, or none."""
    low = 0.05 if lost else 0.0
    row = replace(verdict_of(of, 95.0 if lost else 100.0, 'regressed' if lost else 'ok'), loss=low)
    return replace(row, interval=(low - 0.02, low + 0.02), nodes=(f'n{number % 16}',), case_id=number)


CASES = [
    [SeriesId('cpu', f'environ{check // 10}', f'Check{check}', (), f'm{i}') for i in range(8)] for check in range(50)
]


@each_row(
    ('lost', 'wanted'),
    [
        ([CASES[4 * i][i % 8] for i in range(12)], 12),  # unrelated ones, of 400 series in 5 environs
        (CASES[7], 1),  # all of a case
        (CASES[7][:3], 1),  # some of it
        ([of for case in CASES[20:30] for of in case], 1),  # all of an environ
        ([of for case in CASES for of in case], 1),  # all of the site
        ([of for case in CASES[20:30] for of in case] + CASES[4] + CASES[41][2:3], 3),
    ],
)
def test_causes_are_told_as_planted(lost, wanted):
    rows = [judged(of, of in lost, number) for number, case in enumerate(CASES) for of in case]
    drafts = causes(rows)
    assert len(drafts) == wanted
    assert sorted(of for draft in drafts for of in draft.series) == sorted(lost), 'each is of one of them'
    assert {draft.kind for draft in drafts} <= {'SYSTEM', 'CASE'}


def test_what_a_loss_in_common_does_not_explain_is_told_beside_it():
    """All of an environ lost 5 %; one curve lost more than it, in part surely three times as much, and is one cause."""
    environ = [of for case in CASES[20:30] for of in case]
    common = Common('environ', 'cpu/environ2', tuple(environ), 0.05, (0.04, 0.06), 1e-9)
    rows = [judged(of, of in environ, number) for number, case in enumerate(CASES) for of in case]
    much = [replace(row, loss=0.3, interval=(0.28, 0.32)) if row.id in CASES[22] else row for row in rows]
    assert [draft.series for draft in causes(rows, [common])] == [set(environ)]
    shared, own = causes(much, [common])
    assert own.series == set(CASES[22]) and shared.series == set(environ) - own.series


@each_row(('loss', 'wanted'), [(0.06, {('SYSTEM', ())}), (0.0, {('NODE', ('n1',)), ('NODE', ('n2',))})])
def test_nodes_whose_loss_is_not_sure_are_not_healthy(loss, wanted):
    """Two nodes of twelve surely lost 8 %; the others lost 6 % within the limits, or nothing."""
    series = [SeriesId('cpu', 'system', 'STREAM', (), metric) for metric in ('copy', 'triad')]
    rows = [
        replace(
            verdict_of(of, 92.0, 'regressed' if node < 3 else 'ok'), loss=0.08 if node < 3 else loss,
            interval=(0.05, 0.11), nodes=(f'n{node}',), case_id=node,
        )
        for node in range(1, 13)
        for of in series
    ]  # fmt: skip
    assert {(draft.kind, draft.where.nodes) for draft in causes(rows)} == wanted


def test_checks_of_one_family_that_lost_are_one_cause():
    families = [f'{family}{kind}' for family in ('Numa', 'Gpu', 'Osu', 'Hpl') for kind in ('Read', 'Write', 'Copy')]
    series = [SeriesId('cpu', 'system', check, (), f'm{i}') for check in families for i in range(4)]
    rows = [judged(of, of.check.startswith('Numa'), number) for number, of in enumerate(series)]
    assert [sorted({of.check for of in draft.series}) for draft in causes(rows)] == [sorted(families[:3])]


def test_a_class_of_links_that_lost_in_several_checks_is_one_cause():
    checks = [f'{check}{kind}' for check in ('Osu', 'Comm', 'Copy') for kind in ('Read', 'Write')]
    series = [SeriesId('cpu', 'system', check, (('link_class', of),), f'm{i}')
              for check in checks for of in 'ABCD' for i in range(3)]  # fmt: skip
    (draft,) = causes([judged(of, dict(of.params)['link_class'] == 'B', 0) for of in series])
    assert (draft.kind, draft.where.link_class) == ('FABRIC', 'B')


def test_a_device_whose_pairs_are_slow_is_named():
    series = [SeriesId('cpu', 'system', 'Comm', (), 'latency', (('pair', f'{a}-{b}'),))
              for a in range(5) for b in range(a + 1, 5)]  # fmt: skip
    (draft,) = causes([judged(of, '3' in dict(of.dims)['pair'], 1) for of in series])
    assert (draft.kind, draft.where.nodes, draft.where.device) == ('DEVICE', ('n1',), 'device 3')


def test_a_node_whose_pairs_are_slow_is_named_though_it_is_fast_alone():
    """Three pairs of n1 are slow, those of the others are not; five metrics of n1 itself are as they were."""
    pairs = [(a, b) for a in range(1, 7) for b in range(a + 1, 7)]
    osu = SeriesId('cpu', 'system', 'Osu', (), 'latency')
    rows = [
        replace(judged(osu, pair[0] == 1, number), nodes=tuple(f'n{node}' for node in pair))
        for number, pair in enumerate(pairs)
    ]
    alone = [SeriesId('cpu', 'system', 'STREAM', (), f'm{i}') for i in range(30)]
    rows += [replace(judged(of, False, 50), nodes=('n1',)) for of in alone]
    (draft,) = causes(rows)
    assert (draft.kind, draft.where.nodes) == ('NODE', ('n1',))


def test_one_curve_is_one_incident_though_only_a_part_of_it_lost_in_common():
    sizes = [SeriesId('cpu', 'system', 'Osu', (), 'latency', (('bytes', str(2**i)),)) for i in range(23)]
    rows = [replace(judged(of, True, 0), loss=0.01 * i) for i, of in enumerate(sizes, 1)]
    part = Common('curve', 'x', tuple(sizes[:11]), 0.06, (0.05, 0.07), 1e-9)
    (draft,) = causes(rows, [part])
    assert draft.series == set(sizes)
    (draft,) = causes(rows)
    assert draft.series == set(sizes)


# Since when


def level(*values, cv=0.0, seed=0):
    """The level of an incident on nights of these logarithms, with noise."""
    noise = numpy.random.default_rng(seed).standard_normal(len(values))
    return numpy.arange(len(values)), numpy.array(values) + cv * noise


@each_row('after', [1, 2, 3, 5, 10, 30])
def test_a_step_began_in_its_first_session(after):
    values = [0.0] * 10 + [math.log(0.95)] * after
    found = [began(level(*values, cv=0.01, seed=seed), 0.05, len(values) - 1) for seed in range(100)]
    assert found.count(10) >= 96, 'five standard deviations; a session before or after it may be halfway by chance'
    assert began(level(*values), 0.05, len(values) - 1) == 10


@each_row('after', [12, 20])
def test_a_drift_began_where_it_did(after):
    """Of 0.2 % a session, in the median of the series of an incident; found when 12 sessions of it are over."""
    values = [0.0] * 10 + [-0.002 * (night + 1) for night in range(after)]
    found = [began(level(*values, cv=0.002, seed=seed), 0.002 * after, len(values) - 1) for seed in range(100)]
    assert sum(abs(begin - 10) <= 3 for begin in found) >= 98
    assert numpy.median(found) == 10


def test_a_loss_began_after_the_last_healthy_sessions():
    low = math.log(0.9)
    assert began(level(*[low] * 5, *[0.0] * 3, low, low), 0.1, 9) == 8
    assert began(level(*[0.0] * 5, low, low, 0.5 * low - 0.001, 0.4 * low, low, low), 0.1, 10) == 5, 'half of it'
    assert began(level(*[0.0] * 5, low, low, 0.0, low, low), 0.1, 9) == 8
    assert began(level(low), 0.1, 0) == 0
    assert began((numpy.array([], int), numpy.array([])), 0.1, 4) == 4


@pytest.mark.parametrize(
    ('interval', 'said'),
    [((0.06, 0.084), '6.0 to 8.4 %'), ((0.0701, 0.0704), '7.01 to 7.04 %'), ((0.0, 0.0), '0.0 to 0.0 %')],
)
def test_an_interval_has_the_digits_that_tell_its_ends_apart(interval, said):
    assert Incident('NODE', Scope(SITE), 'loss', (), (), (), loss=0.07, interval=interval).range == said


@pytest.mark.parametrize(
    ('series', 'said'),
    [
        ({'GB/s': 'higher'}, '7.4 % less (6.0 to 9.0 %)'),
        ({'us': 'lower'}, '8.0 % slower (6.4 to 9.9 %)'),  # 1 / (1 - 0.074) is 1.080
        ({'J': 'lower'}, '8.0 % more (6.4 to 9.9 %)'),
        ({'GB/s': 'higher', 'us': 'lower'}, '7.4 % less (6.0 to 9.0 %)'),
        ({'': ''}, '7.4 % less (6.0 to 9.0 %)'),
    ],
)
def test_a_loss_is_told_by_how_much_the_values_changed(series, said):
    of = {
        SeriesId('cpu', 'system', 'Check', (), f'm{i}'): Value(unit, better=better)
        for i, (unit, better) in enumerate(series.items())
    }
    known = {'loss': 0.074, 'interval': (0.06, 0.09), 'values': of}
    assert Incident('NODE', Scope(SITE), 'loss', ('Check',), tuple(of), (), **known).what.startswith(f'{said} in Check')


def test_a_loss_that_the_series_of_a_node_share_is_of_no_other_node():
    triad = SeriesId('cpu', 'system', 'STREAM', (), 'triad')
    of_node = Common('node', 'n3', (triad,), 0.02, (0.01, 0.03), 1e-9)
    here, there = (replace(verdict_of(triad, 98.0), nodes=(node,)) for node in ('n3', 'n4'))
    assert of_node.holds(here) and not of_node.holds(there)
    assert replace(of_node, kind='check', where='STREAM').holds(there)
    assert of_node.holds(replace(here, interval=(-0.02, 0.02)))
    assert not of_node.holds(replace(here, interval=(-0.02, 0.005))), 'surely without half of it'


def test_a_scope_needs_more_bad_than_healthy_things():
    bad = [[('check', 'a'), ('node', 'n1')], [('check', 'a'), ('node', 'n2')]]
    healthy = [[('check', 'a'), ('node', 'n3')]] * 5
    assert [(group.key, group.places) for group in explain(bad, healthy)] == [
        (('node', 'n1'), (0,)),
        (('node', 'n2'), (1,)),
    ]
    assert [group.key for group in explain(bad, [])] == [('check', 'a')]


def test_the_narrow_scope_is_named_where_two_explain_the_same():
    assert [group.key for group in explain([[('check', 'a'), ('partition', 'p')]] * 3, [])] == [('check', 'a')]


@pytest.mark.parametrize('tags', [('quick', 'gpu', 'experimental'), ('quick', 'gpu')])
def test_a_failed_case_such_as_never_ran_for_real_says_so(work, tags):
    failed = case(check='Gemm', result='fail', fail_phase='sanity', fail_reason='no row of results', tags=tags)
    work.ingest(report(failed, uuid='one'))
    (incident,) = json.loads(work.run('compare --format json').stdout)['incidents']
    assert any('experimental' in line for line in incident['evidence']) is ('experimental' in tags)


def test_a_command_is_split_between_its_words():
    line = f"plumbline incidents acknowledge abc --why 'a new kernel, {'x' * 30} since monday' --until 2026-12-31"
    lines = _command(line)
    assert len(lines) > 1 and shlex.split('\n'.join(lines).replace('\\\n', '')) == shlex.split(line)
    assert all(part.endswith(' \\') for part in lines[:-1]) and "'a new kernel" in ''.join(lines)

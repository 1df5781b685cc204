# SPDX-License-Identifier: BSD-3-Clause
"""Incidents: what a session shows, by cause, and what becomes of it over the sessions."""

import json
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy
import pytest
from lxml import etree
from rows import each_row
from run_reports import BEGAN, DAY, SITE, case, metric, reference, report, verdict_of
from simulated_site import METRICS, NODES, OSU, Site, named, slow_node, three_causes

from plumbline.identity import SeriesId
from plumbline.references import read_references
from postprocess.incidents.incident import Scope
from postprocess.incidents.levels import began
from postprocess.incidents.losses import losses
from postprocess.statistics.pooled import pooled
from postprocess.verdicts.verdict import Common


def states(found):
    return {one['id']: one['state'] for one in found}


def failed(node, reason, metrics=METRICS, **fields):
    """A job that failed on a node, as it stands in the first round."""
    return case(
        nodes=(node,), **named(node), result='fail', fail_phase='sanity', fail_reason=reason,
        metrics={f'm{i}': metric([]) for i in range(metrics)}, **fields,
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
    other = found['SOFTWARE']
    again, stack = (step for step in other['next_steps'] if step.startswith(('ci/nightly', 'git log')))
    assert stack == f'git log -p -- spack_envs/{SITE}/other'
    assert '^OsuAllreduce' in again and 'size=' not in again, 'six cases are named by their checks'
    assert (other['where'], other['metrics'], other['checks']) == ('cpu/other', 30, sorted(OSU))
    assert {one['since'] for one in document['incidents']} == {'2026-11-26'}
    assert {one['sessions'] for one in document['incidents']} == {2}
    of_rows = {row['incident'] for row in document['verdicts'] if row['verdict'] == 'regressed'}
    assert of_rows == {one['id'] for one in document['incidents']}


def test_a_planned_change_becomes_an_epoch_in_one_step(site):
    """Of three nights with a new kernel; one node is slow besides, and stays as it was recorded."""

    def changed(check, node, device):
        return 0.93 * slow_node(0.7)(check, node, device) if check == 'STREAM' else 1.0

    for _ in range(3):
        site.run(changed, lambda check: {'kernel': '6.5'})
        found = {one['kind']: one for one in site.judged(1)}
    software = found['SOFTWARE']
    assert (software['where'], software['nodes'], software['changed']) == ('cpu/system', NODES, ['kernel: 6.1 -> 6.5'])
    (step,) = [one for one in found['SOFTWARE']['next_steps'] if '--epoch' in one]
    assert step.startswith("plumbline record propose --epoch 'kernel: 6.1 -> 6.5'")
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


def test_jobs_that_fail_after_each_maintenance_and_never_else_are_one_incident_that_says_so(site):
    for night in range(5):
        booted = {'boot_time': f'{BEGAN + (site.night - night % 2) * DAY - 3600:.0f}'}
        dead = {'n3': failed('n3', 'lost', provenance=booted)}
        site.run(facts=lambda check, booted=booted: booted, replaced={} if night % 2 else dead)
        (one,) = site.judged(int(not night % 2))
    assert one['sessions'] == 3 and one['state'] == 'intermittent'
    told = ' '.join(site.work.run('compare', '--summary').stdout.split())
    often = 'bad in 3 of 5 sessions, in the first session after a boot on 3 of 3 occasions'
    assert f'intermittent, with maintenance: {often}' in told


def test_failed_jobs_on_some_of_400_nodes_name_their_nodes_in_every_output(work, tmp_path):
    site = Site(work, [f'n{i:04}' for i in range(400)], rest=False, metrics=1)
    lost = random.Random(1).sample(site.nodes, 22)
    jobs = {node: failed(node, f'xhpl ended with exit code 3 on {node}; output: {node.encode().hex()}', 1)
            for node in lost}  # fmt: skip
    for node, job in jobs.items():
        job['record']['causes'] = [{'code': 'exit-code', 'what': 'xhpl ended with exit code 3', 'nodes': node}]
    site.run(replaced=jobs)
    (one,) = site.judged(1)
    assert (one['kind'], one['nodes']) == ('NODE', sorted(lost))
    texts = [work.run('compare', '--summary', '--junit', tmp_path / 'x.xml').stdout, work.run('incidents').stdout]
    texts += [work.run('compare', '--format', format).stdout for format in ('table', 'markdown', 'csv', 'json')]
    junit = etree.parse(tmp_path / 'x.xml')
    names = [element.get('name') for element in junit.findall('.//testcase')]
    assert len(names) == len(set(names))
    for text in [*texts, junit.find('.//failure').get('message')]:
        assert [node for node in lost if node not in text] == []


def ladder(site, *named, nodes=NODES, check='NodeLadder'):
    """A node ladder that names these: kind, where, nodes, evidence; it passes where it names nobody."""
    ended = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': named[0][3]} if named else {}
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


# Over the sessions


def test_an_incident_is_acknowledged_gets_worse_heals_and_is_closed(site):
    site.run(slow_node(0.85))
    (one,) = site.judged(1)
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


def test_losses_of_several_sessions_are_told_together():
    told = [(0.10, (0.08, 0.12)), (0.11, (0.09, 0.13)), (0.09, (0.07, 0.11))]
    loss, (low, high) = pooled(told)
    assert loss == pytest.approx(0.10, abs=0.001)
    assert low == pytest.approx(0.08, abs=0.005) and high == pytest.approx(0.12, abs=0.005), 'they may share an error'
    assert pooled([(0.1, (0.09, 0.11)), (0.3, None)]) == (0.2, None), (
        'an interval of one of them does not hold the mean'
    )
    assert pooled([(0.1, (0.09, 0.11)), (0.2, (0.1, 0.3))])[0] == pytest.approx(0.1, abs=0.005), 'the sharper counts'


def test_an_acknowledged_node_excuses_no_other(site, tmp_path):
    def two_slow(check, node, device):
        return 0.8 if check == 'STREAM' and node in ('n3', 'n9') else 1.0

    site.run(two_slow)
    known, other = sorted(site.judged(1), key=lambda one: one['where'])
    site.work.run('incidents acknowledge', known['id'], '--why', 'x', '--until', '2026-12-24')
    site.judged(1)
    site.work.run('compare --junit', tmp_path / 'x.xml')
    for outcome, node in (('failure', other['where']), ('skipped', known['where'])):
        found = etree.parse(tmp_path / 'x.xml').findall(f'.//{outcome}')
        names = [element.getparent().get('name').partition(' on ') for element in found]
        assert {on for _, separator, on in names if separator} == {node}


def test_a_slow_node_without_a_baseline_is_suspected_then_open_until_it_is_as_it_was(work):
    """Its new level is never its usual one, however long that lasts."""
    site = Site(work, NODES[:8], rest=False, metrics=2)
    work.reference()
    site.healthy(6)
    site.run(slow_node(0.85))
    (one,) = site.judged(0)
    assert (one['kind'], one['where'], one['state'], one['since']) == ('NODE', 'n3', 'suspected', '2026-11-27')
    rows = work.shown(one['id'])['series']
    assert len(rows) == 2 and all(row['value'] == pytest.approx(0.85 * row['expected'], rel=0.01) for row in rows)
    for nights in (1, 20):
        site.work.ingest(*(site.content(slow_node(0.85)) for _ in range(nights)))
        (one,) = site.judged(1)
        assert (one['where'], one['state'], one['since']) == ('n3', 'open', '2026-11-27')
    site.run()
    assert [one['state'] for one in site.judged(0)] == ['healing']


# Grouping


def causes(rows, common=()):
    """The drafts of a night of these verdicts, of which several nodes took part."""
    night = SimpleNamespace(
        comparison=SimpleNamespace(common=common, verdicts=rows), session=SimpleNamespace(site=SITE), store=None,
        before=[], cases=[], several=lambda partition: True, places_of=lambda nodes: set(), slow={},
    )  # fmt: skip
    return list(losses(night))


def judged(of, lost, number):
    """A verdict of a job on one of 16 nodes: a loss of 5 %, or none."""
    low = 0.05 if lost else 0.0
    row = replace(verdict_of(of, 95.0 if lost else 100.0, 'regressed' if lost else 'ok'), loss=low)
    return replace(row, interval=(low - 0.02, low + 0.02), nodes=(f'n{number % 16}',), case_id=number)


CASES = [
    [SeriesId('cpu', f'environ{check // 10}', f'Check{check}', (), f'm{i}') for i in range(8)] for check in range(50)
]


OF_ENVIRON = [of for case in CASES[20:30] for of in case]


@each_row(('lost', 'kinds'), [
    ([CASES[4 * i][i % 8] for i in range(12)], ['CASE'] * 12),  # unrelated ones, of 400 series in 5 environs
    (CASES[7], ['CASE']),  # all of a case
    (CASES[7][:3], ['CASE']),  # some of it
    (OF_ENVIRON, ['SYSTEM']), ([of for case in CASES for of in case], ['SYSTEM']),  # all of an environ, of the site
    (OF_ENVIRON + CASES[4] + CASES[41][2:3], ['CASE', 'CASE', 'SYSTEM']),
])  # fmt: skip
def test_causes_are_told_as_planted(lost, kinds):
    drafts = causes([judged(of, of in lost, number) for number, case in enumerate(CASES) for of in case])
    assert sorted(draft.kind for draft in drafts) == kinds
    assert sorted(of for draft in drafts for of in draft.series) == sorted(lost), 'each is of one of them'


def test_what_a_loss_in_common_does_not_explain_is_told_beside_it():
    """All of an environ lost 5 %; one curve lost more than it, in part surely three times as much, and is one cause."""
    common = Common('environ', 'cpu/environ2', tuple(OF_ENVIRON), 0.05, (0.04, 0.06), 1e-9)
    rows = [judged(of, of in OF_ENVIRON, number) for number, case in enumerate(CASES) for of in case]
    much = [replace(row, loss=0.3, interval=(0.28, 0.32)) if row.id in CASES[22] else row for row in rows]
    assert [draft.series for draft in causes(rows, [common])] == [set(OF_ENVIRON)]
    shared, own = causes(much, [common])
    assert own.series == set(CASES[22]) and shared.series == set(OF_ENVIRON) - own.series


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


@each_row(('interval', 'wanted'), [
    ((0.11, 0.13), {('SYSTEM', ()), ('NODE', ('n1',))}),
    ((0.10, 0.14), {('SYSTEM', ())}),  # not surely 1.5 times as much as 7 %
])  # fmt: skip
def test_a_node_that_surely_lost_much_more_than_all_others_has_a_further_cause(interval, wanted):
    triad = SeriesId('cpu', 'system', 'STREAM', (), 'triad')
    lost = {1: interval} | dict.fromkeys(range(2, 13), (0.06, 0.08))
    rows = [
        replace(verdict_of(triad, 90.0, 'regressed'), loss=sum(ends) / 2, interval=ends, nodes=(f'n{node}',),
                case_id=node)
        for node, ends in lost.items()
    ]  # fmt: skip
    assert {(draft.kind, draft.where.nodes) for draft in causes(rows)} == wanted


@each_row(('kind', 'of', 'where'), [
    ('node', 'NODE', {'nodes': ('x',)}), ('link_class', 'FABRIC', {'link_class': 'A'}), ('partition', 'SYSTEM', {}),
    ('check', 'SYSTEM', {'environ': 'system'}),
])  # fmt: skip
def test_a_loss_in_common_has_the_scope_of_its_kind(kind, of, where):
    """The metrics of one job of a check are a case, as they are on the next night, when each lost by itself."""
    series = tuple(SeriesId('cpu', 'system', 'Osu', (('link_class', 'A'),), name) for name in ('bw', 'latency'))
    for jobs, found in (((0, 1), of), ((0, 0), 'CASE' if kind == 'check' else of)):
        rows = [replace(judged(one, True, job), nodes=('x',)) for one, job in zip(series, jobs, strict=True)]
        (draft,) = causes(rows, [Common(kind, 'x', series, 0.05, (0.04, 0.06), 1e-9)])
        assert (draft.kind, draft.where) == (found, Scope(SITE, 'cpu', **where)) and draft.loss == 0.05


def test_what_else_lost_on_a_slow_node_is_of_its_draft():
    """Also less than half as much, which is no part of the loss in common."""
    hpl, osu = (SeriesId('cpu', 'system', check, (), 'rate') for check in ('Hpl', 'Osu'))
    rows = [replace(judged(of, True, 7), loss=loss, interval=(loss - 0.01, loss + 0.01), case_id=case)
            for case, (of, loss) in enumerate(((hpl, 0.15), (osu, 0.03)))]  # fmt: skip
    others = [judged(of, False, number) for of in (hpl, osu) for number in range(8, 12)]
    (draft,) = causes([*rows, *others], [Common('node', 'n7', (hpl, osu), 0.15, (0.13, 0.17), 1e-9)])
    assert (draft.where.nodes, draft.series, draft.loss) == (('n7',), {hpl, osu}, 0.15)


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
    check, part, other = (
        Common(kind, 'x', tuple(series), 0.06, (0.05, 0.07), 1e-9)
        for kind, series in (('check', sizes), ('curve', sizes[:11]), ('curve', sizes[5:16]))
    )
    for commons in ([part], [], [check, part, other]):
        (draft,) = causes(rows, commons)
        assert draft.series == set(sizes)


# Since when


def level(*values):
    """The level of an incident on nights of these logarithms."""
    return numpy.arange(len(values)), numpy.array(values)


def test_a_loss_began_after_the_last_healthy_sessions():
    low = math.log(0.9)
    assert began(level(*[low] * 5, *[0.0] * 3, low, low), 0.1, 9) == 8
    assert began(level(*[0.0] * 5, low, low, 0.5 * low - 0.001, 0.4 * low, low, low), 0.1, 10) == 5, 'half of it'
    assert began(level(*[0.0] * 5, low, low, 0.0, low, low), 0.1, 9) == 8
    nights, values = numpy.array([2, 3, 5, 7, 8, 9]), numpy.array([0.0, 0, 0, low, low, low])
    assert began((nights, values), 0.1, 9) == 7
    assert began((nights, -values), 0.1, 9) == 9, 'no session shows it'
    assert began((nights, values), 0.1, 3) == 3, 'nothing of later sessions counts'
    assert began((nights[:0], values[:0]), 0.1, 9) == 9


@pytest.mark.parametrize('tags', [('quick', 'gpu', 'experimental'), ('quick', 'gpu')])
def test_a_failed_case_such_as_never_ran_for_real_says_so(work, tags):
    failed = case(check='Gemm', result='fail', fail_phase='sanity', fail_reason='no row of results', tags=tags)
    work.ingest(report(failed, uuid='one'))
    (incident,) = json.loads(work.run('compare --format json').stdout)['incidents']
    assert any('experimental' in line for line in incident['evidence']) is ('experimental' in tags)


def test_an_incident_is_new_in_the_session_that_found_it_alone(work):
    """A later session of the same day that measures something else says when it was seen."""
    work.reference(reference(), reference(check='Other'))
    values = {'triad': metric([100.0])}
    work.ingest(report(case(metrics=values), case('Other', metrics=values), uuid='whole', began=BEGAN))
    work.run('compare')
    work.ingest(report(case(metrics={'triad': metric([50.0])}), uuid='slow', began=BEGAN + 3600))
    found = ' '.join(work.run('compare', '--summary').stdout.split())
    assert 'new in this session' in found and '1 incident open, 1 new;' in found, found
    work.ingest(report(case('Other', metrics=values), uuid='quick', began=BEGAN + 7200))
    after = ' '.join(work.run('compare', '--summary').stdout.split())
    assert 'since 2026-11-21; last seen on 2026-11-21' in after and '1 incident open; 1 ok' in after, after

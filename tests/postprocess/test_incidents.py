"""Incidents: what a session shows, by cause, and what becomes of it over the sessions."""

import csv
import io
import json
import random
import re
import shutil
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from lxml import etree
from run_reports import BEGAN, SITE, Workplace, case, metric, reference, report, verdict_of

from plumbline.identity import SeriesId
from postprocess.history.digest import digest
from postprocess.history.incidents.grouping import explain
from postprocess.history.incidents.incident import Incident, Scope
from postprocess.history.incidents.losses import losses
from postprocess.results.store import Store
from postprocess.verdicts.compare import judge_session
from postprocess.verdicts.verdict import Common
from postprocess.views import verdicts as views

DAY = 86400
NODES = [f'n{i}' for i in range(16)]
OSU = [f'Osu{name}' for name in ('Latency', 'Bandwidth', 'Allreduce', 'Alltoall', 'Bcast', 'Barrier')]
METRICS = 5


class Site:
    """A simulated site: STREAM on each of 16 nodes, six MPI checks with environ `other`, eight GPUs of one node."""

    def __init__(self, work, nodes=NODES, rest=True, metrics=METRICS):
        self.work, self.nodes, self.rest, self.night, self.n = work, nodes, rest, 0, metrics
        self.random = random.Random(3)
        rows = [reference(metric=f'm{i}') for i in range(metrics)]
        if rest:
            rows += [reference(check=check, environ='other', metric=f'm{i}') for check in OSU for i in range(METRICS)]
            rows += [
                reference(check=check, partition='gpu', params=f'device={device}', metric=f'm{i}')
                for check in ('Gemm', 'Copy')
                for device in range(8)
                for i in range(METRICS)
            ]
        work.reference(*rows)

    def metrics(self, level):
        return {
            f'm{i}': metric([100 * level * (1 + self.random.gauss(0, 0.002)) for _ in range(3)]) for i in range(self.n)
        }

    def content(self, level=lambda check, node, device: 1.0, facts=lambda check: {}, replaced=(), again=()):
        """A night. `level`: of check, node and device; `replaced`: cases by node or check; `again`: further runs."""

        def entry(check, node, device=None, **more):
            said = {'kernel': '6.1', 'load_average': f'{self.random.random():.2f}', 'free_memory': f'{self.night} GB'}
            return case(
                check=check, metrics=self.metrics(level(check, node, device)), nodes=(node,),
                provenance=said | facts(check), **more,
            )  # fmt: skip

        own = dict(replaced)
        entries = [own.get(node) or entry('STREAM', node, **named(node)) for node in self.nodes]
        if self.rest:
            entries += [
                own.get(check) or entry(check, self.nodes[self.random.randrange(len(self.nodes))], stack='other')
                for check in OSU
            ]
            entries += [
                entry(check, 'g1', device, partition='gpu', parameters=f'device={device}')
                for check in ('Gemm', 'Copy')
                for device in range(8)
            ]
        content = report(*entries, uuid=f'{self.night:08x}', began=BEGAN + self.night * DAY)
        content['runs'] += [{'testcases': list(part)} for part in again]
        self.night += 1
        return content

    def run(self, *args, problem=None, **kwargs):
        """Ingest a night; its uuid."""
        content = self.content(*args, **kwargs)
        self.work.ingest(content, **({'problem': problem} if problem else {}))
        return content['session_info']['uuid']

    def healthy(self, nights=5):
        self.work.ingest(*(self.content() for _ in range(nights)))

    def take(self, other):
        """Begin where another site is."""
        shutil.copytree(other.work.results, self.work.results, dirs_exist_ok=True)
        self.random.setstate(other.random.getstate())
        self.night = other.night

    def judged(self, code):
        """The incidents of the newest session, as `plumbline compare` prints them; the exit code must be `code`."""
        document = self.work.compare()
        assert document['exit_code'] == code, document['incidents']
        return document['incidents']


@pytest.fixture(scope='module')
def ordinary(tmp_path_factory):
    """A site of five healthy nights."""
    site = Site(Workplace(tmp_path_factory.mktemp('ordinary')))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('postprocess.results.reports.now', lambda: datetime(2050, 1, 1))
        site.healthy()
    return site


@pytest.fixture
def young(work):
    """A site without a night."""
    return Site(work)


@pytest.fixture
def site(young, ordinary):
    """A site after five healthy nights."""
    young.take(ordinary)
    return young


def states(found):
    return {one['id']: one['state'] for one in found}


def named(node):
    """What tells the cases of --distribute apart."""
    return {'unique_name': f'STREAM_{node}', 'display_name': f'STREAM %size=big %cpu.nid={node}'}


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


def three_causes(check, node, device):
    if check in OSU:
        return 0.9
    if check == 'STREAM':
        return 0.8 if node == 'n3' else 1.0
    return 0.7 if device == 2 else 1.0


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


def test_what_a_slow_node_counted_is_the_first_evidence_of_its_incident(site):
    """Heat, memory errors and a link; the clock beside that of other nodes. A quiet node is not named."""
    content = site.content(lambda check, node, device: 0.8 if check == 'STREAM' and node == 'n3' else 1.0)
    for one in content['runs'][0]['testcases']:
        if one['record']['check'] == 'STREAM':
            one['record']['provenance'] |= {'clock_throttled': '0', 'clock_at_end': '2600'}
            if one['record']['job']['nodes'] == ['n3']:
                one['record']['provenance'] |= {
                    'clock_throttled': '412', 'clock_at_end': '1900', 'counted_network_drops': '9 on eth0',
                    'health_corrected_memory_errors': '7 on mc0, mc1',
                    'health_InfiniBand_symbol_errors': '12 on mlx5_0 port 1',
                }  # fmt: skip
    site.work.ingest(content)
    (one,) = site.judged(1)
    first = (
        'n3, while it ran: clock 1900 MHz, on other nodes 2600, thermal throttle +412, '
        'InfiniBand symbol errors +12 on mlx5_0 port 1, corrected memory errors +7 on mc0, mc1'
    )
    assert (one['where'], one['evidence'][0]) == ('n3', first)
    assert 'while it ran' not in ' '.join(one['evidence'][1:])
    assert not site.work.run('report').exception
    assert 'thermal throttle +412' in (site.work.results / 'report.html').read_text()


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
    site.run(replaced={node: failed(node, reason, 1) for node, reason in reasons.items()})
    (one,) = site.judged(1)
    assert one['kind'] == 'NODE'
    assert one['nodes'] == sorted(lost)
    texts = [work.run('compare', '--summary', '--junit', tmp_path / 'x.xml').stdout, work.run('incidents').stdout]
    store = Store(work.results)
    comparison = judge_session(store, store.find('latest'), root=work.sites)
    view = views.comparison(comparison, digest(store, comparison, work.sites))
    texts += [view.render(format) for format in ('table', 'markdown', 'csv', 'json')]
    names = [element.get('name') for element in etree.parse(tmp_path / 'x.xml').findall('.//testcase')]
    assert len(names) == len(set(names))
    texts.append(etree.parse(tmp_path / 'x.xml').find('.//failure').get('message'))
    for text in texts:
        assert [node for node in lost if node not in text] == []


def test_a_problem_of_the_session_is_an_incident_of_that_session_alone(young):
    young.run(problem='ReFrame was killed')
    (one,) = young.judged(1)
    assert (one['kind'], one['what']) == ('CASE', 'ReFrame was killed')
    young.run()
    (closed,) = young.judged(0)
    assert (closed['id'], closed['state']) == (one['id'], 'closed')


def test_a_node_that_is_lost_is_named(site):
    site.run(problem='n7 of cpu is down* (Not responding), but not drained')
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n7', ['n7'])


# Over the sessions


def slow_node(level):
    return lambda check, node, device: level if (check, node) == ('STREAM', 'n3') else 1.0


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

    for night in range(3):
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
    assert states(site.judged(1)) == {one['id']: 'open'}
    assert 'FAILED: 1 incident open; ' in site.work.run('compare --summary').stdout, 'it is not new'


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
    folder = site.work.results / 'incidents' / SITE
    site.judged(1)
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(first) == 3
    for command in ('report', 'compare --summary'):
        site.work.run(command)
        assert {path.name: path.read_text() for path in folder.iterdir()} == first


def test_a_report_of_a_session_with_reruns_takes_the_place_of_what_it_said_before(site):
    dead = {'n5': failed('n5', 'exit code 3')}
    uuid = site.run(replaced=dead)
    assert len(site.judged(1)) == 1
    ledger = site.work.results / 'incidents' / SITE
    before = [path.name for path in ledger.iterdir()]
    content = json.loads((site.work.reports / f'{uuid}.json').read_text())
    again = case(metrics=site.metrics(1.0), nodes=('n5',), **named('n5'))
    content['runs'].append({'testcases': [again]})
    site.work.ingest(content)
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('NODE', 'n5')
    assert [path.name for path in ledger.iterdir()] == before


def test_an_older_session_is_read_and_not_recorded(site):
    old = site.run(slow_node(0.7))
    site.run()
    document = site.work.compare(old)
    assert document['exit_code'] == 1
    assert [one['kind'] for one in document['incidents']] == ['NODE']
    assert not (site.work.results / 'incidents').exists()


def test_a_node_that_only_the_other_nodes_accuse_counts_when_it_is_seen_again(work):
    site = Site(work, rest=False)
    work.reference()
    site.healthy(6)
    site.run(slow_node(0.96))
    (one,) = site.judged(0)
    assert (one['kind'], one['where'], one['state']) == ('NODE', 'n3', 'suspected')
    (row,) = json.loads(work.run('incidents show', one['id'], '--format', 'json').stdout)['series']
    assert row['value'] == pytest.approx(0.96 * row['expected'], rel=0.01)
    site.run(slow_node(0.96))
    (one,) = site.judged(1)
    assert one['state'] == 'open'


def test_a_slow_node_stays_open_until_it_is_as_it_was(work):
    """Its new level is never its usual one, however long that lasts."""
    site = Site(work, NODES[:8], rest=False, metrics=2)
    work.reference()
    site.healthy(6)
    for nights in (1, 19, 20):
        site.work.ingest(*(site.content(slow_node(0.85)) for _ in range(nights)))
        found = site.judged(1)
        assert [(one['kind'], one['where'], one['since']) for one in found] == [('NODE', 'n3', '2026-11-27')]
    site.run()
    assert [one['state'] for one in site.judged(0)] == ['healing']


# The command


def test_show_tells_all_of_an_incident(site):
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    listed = site.judged(1)
    for one in listed:
        text = site.work.run('incidents show', one['id'][:4]).stdout
        assert one['id'] in text and one['what'].split(' in ')[0] in ' '.join(text.split())
        assert all(check in text for check in one['checks'])
        assert f'plumbline incidents acknowledge {one["id"]}' in ' '.join(text.split())
    slow = next(one for one in listed if one['kind'] == 'NODE')
    shown = json.loads(site.work.run('incidents show', slow['id'], '--format', 'json').stdout)
    assert len(shown['series']) == shown['metrics'] == slow['metrics'] == METRICS
    for row in shown['series']:
        assert row['value'] == pytest.approx(80, rel=0.01)
        assert (row['expected'], row['unit'], row['n']) == (100, 'GB/s', 3)
        assert 15 < row['loss_low'] < row['loss'] < row['loss_high'] < 25


def test_a_file_of_an_earlier_version_is_read(site):
    """It names the series alone, and the archives in a sentence."""
    site.run(slow_node(0.5))
    (one,) = site.judged(1)
    (path,) = (site.work.results / 'incidents' / SITE).iterdir()
    values = json.loads(path.read_text())
    del values['incident']['archives']
    values['incident']['series'] = [dict(list(row.items())[:6]) for row in values['incident']['series']]
    path.write_text(json.dumps(values))
    shown = json.loads(site.work.run('incidents show', one['id'], '--format', 'json').stdout)
    assert [row['value'] for row in shown['series']] == [None] * METRICS


def test_the_list_begins_with_what_is_open(site):
    site.run(three_causes)
    site.judged(1)
    result = site.work.run('incidents', '--format', 'csv')
    assert result.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row['state'] for row in rows] == ['open'] * 3
    site.work.run('incidents acknowledge', rows[0]['id'], '--why', 'x', '--until', '2026-12-31')
    rows = list(csv.DictReader(io.StringIO(site.work.run('incidents', '--format', 'csv').stdout)))
    assert [row['state'] for row in rows] == ['open', 'open', 'acknowledged']


def test_without_an_incident_the_list_is_empty(young):
    young.run()
    young.judged(0)
    result = young.work.run('incidents')
    assert (result.exit_code, result.stdout) == (0, '0 incidents, 0 open\n')


def test_no_incident_is_no_answer_where_no_session_is(young):
    result = young.work.run('incidents')
    assert result.exit_code == 2 and str(young.work.results) in result.stderr
    young.run()
    result = young.work.run('incidents', '--site', 'nosuch')
    assert result.exit_code == 2 and 'nosuch' in result.stderr


@pytest.mark.parametrize(
    ('words', 'says'),
    [
        (('show', 'ffff'), "no incident has the id 'ffff'"),
        (('acknowledge', 'ffff', '--why', 'x', '--until', '2026-12-31'), "no incident has the id 'ffff'"),
        (('show', ''), "no incident has the id ''"),
        (('acknowledge', 'ID', '--why', 'x', '--until', 'soon'), '--until: expected a day such as 2026-12-31'),
        (('acknowledge', 'ID', '--why', 'x', '--until', '2020-01-01'), '2020-01-01 is before the last session'),
        (('acknowledge', 'ID', '--why', ' ', '--until', '2026-12-31'), '--why: expected a reason'),
    ],
)
def test_a_wrong_word_is_one_sentence(site, words, says):
    site.run(slow_node(0.5))
    (one,) = site.judged(1)
    result = site.work.run('incidents', *(one['id'] if word == 'ID' else word for word in words))
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count('\n') == 1


def test_a_damaged_file_of_the_ledger_is_named(young):
    young.run()
    path = young.work.results / 'incidents' / SITE / 'x.json'
    path.parent.mkdir(parents=True)
    path.write_text('{}')
    for command in ('compare', 'incidents', 'report'):
        result = young.work.run(command)
        assert result.exit_code == 2
        assert str(path) in result.stderr


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


@pytest.mark.parametrize(
    ('interval', 'said'),
    [((0.06, 0.084), '-8.4 % to -6.0 %'), ((0.0701, 0.0704), '-7.04 % to -7.01 %'), ((0.0, 0.0), '+0.0 % to +0.0 %')],
)
def test_an_interval_has_the_digits_that_tell_its_ends_apart(interval, said):
    assert Incident('NODE', Scope(SITE), 'loss', (), (), (), loss=0.07, interval=interval).range == said


def test_a_loss_that_the_series_of_a_node_share_is_of_no_other_node():
    triad = SeriesId('cpu', 'system', 'STREAM', (), 'triad')
    of_node = Common('node', 'n3', (triad,), 0.02, (0.01, 0.03), 1e-9)
    assert of_node.holds(triad, ['n3']) and not of_node.holds(triad, ['n4'])
    assert replace(of_node, kind='check', where='STREAM').holds(triad, ['n4'])


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

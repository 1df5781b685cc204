"""Incidents: what a session shows, by cause, and what becomes of it over the sessions."""

import csv
import io
import json
import random
import re

import pytest
from lxml import etree
from run_reports import BEGAN, SITE, case, metric, reference, report

from postprocess.history.incidents.grouping import explain

DAY = 86400
NODES = [f'n{i}' for i in range(16)]
OSU = [f'Osu{name}' for name in ('Latency', 'Bandwidth', 'Allreduce', 'Alltoall', 'Bcast', 'Barrier')]
METRICS = 5


class Site:
    """A simulated site: STREAM on each of 16 nodes, six MPI checks with environ `other`, eight GPUs of one node."""

    def __init__(self, work, nodes=NODES, rest=True):
        self.work, self.nodes, self.rest, self.night = work, nodes, rest, 0
        self.random = random.Random(3)
        rows = [reference(metric=f'm{i}') for i in range(METRICS)]
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
            f'm{i}': metric([100 * level * (1 + self.random.gauss(0, 0.002)) for _ in range(3)]) for i in range(METRICS)
        }

    def run(self, level=lambda check, node, device: 1.0, facts=lambda check: {}, replaced=(), again=(), **fields):
        """Ingest a night. `level`: of check, node and device; `replaced`: cases by node or check; `again`: runs."""

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
        uuid = f'{self.night:08x}'
        content = report(*entries, uuid=uuid, began=BEGAN + self.night * DAY)
        content['runs'] += [{'testcases': list(part)} for part in again]
        self.work.ingest(content, **fields)
        self.night += 1
        return uuid

    def healthy(self, nights=5):
        for _ in range(nights):
            self.run()

    def judged(self, code):
        """The incidents of the newest session, as `plumbline compare` prints them; the exit code must be `code`."""
        document = self.work.compare()
        assert document['exit_code'] == code, document['incidents']
        return document['incidents']


@pytest.fixture
def site(work):
    return Site(work)


def states(found):
    return {one['id']: one['state'] for one in found}


def named(node):
    """What tells the cases of --distribute apart."""
    return {'unique_name': f'STREAM_{node}', 'display_name': f'STREAM %size=big %cpu.nid={node}'}


def failed(node, reason, **fields):
    """A job that failed on a node, as it stands in the first round."""
    return case(
        nodes=(node,), **named(node), result='fail', fail_phase='sanity', fail_reason=reason,
        metrics={f'm{i}': metric([]) for i in range(METRICS)}, **fields,
    )  # fmt: skip


# Causes


def three_causes(check, node, device):
    if check in OSU:
        return 0.9
    if check == 'STREAM':
        return 0.8 if node == 'n3' else 1.0
    return 0.7 if device == 2 else 1.0


def test_many_metrics_of_three_causes_are_three_incidents(site):
    site.healthy()
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


def test_a_small_loss_that_many_metrics_share_is_one_incident(site):
    """Of 2.2 %, where a job varies by 1 %: hardly one of the 30 metrics shows it alone."""

    def noisy(level):
        def values(of_job):
            return [100 * level * of_job * (1 + site.random.gauss(0, 0.001)) for _ in range(3)]

        return {f'm{i}': metric(values(1 + site.random.gauss(0, 0.01))) for i in range(METRICS)}

    site.metrics = noisy
    site.healthy(10)
    assert site.work.run('record propose').exit_code == 0
    assert site.work.run('record accept').exit_code == 0
    for _ in range(3):
        site.run(lambda check, node, device: 0.978 if check in OSU else 1.0)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['metrics']) == ('SYSTEM', 'cpu/other', 30)
    assert one['loss'] == pytest.approx(2.2, abs=0.5)


def test_a_loss_of_all_nodes_with_a_new_kernel_is_of_the_software_and_of_no_node(site):
    site.healthy()
    site.run(lambda check, node, device: 0.93 if check == 'STREAM' else 1.0, lambda check: {'kernel': '6.5'})
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('SOFTWARE', 'cpu/system')
    assert one['nodes'] == NODES
    assert one['changed'] == ['kernel: 6.1 -> 6.5']


def test_facts_that_differ_each_night_are_never_software(site):
    site.healthy()
    site.run(lambda check, node, device: 0.93 if check == 'STREAM' else 1.0)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['changed']) == ('SYSTEM', 'cpu/system', [])


def test_a_slow_node_says_what_the_others_measured_and_what_is_healthy(site):
    site.healthy()
    site.run(lambda check, node, device: 0.8 if node == 'n3' and check == 'STREAM' else 1.0)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n3', ['n3'])
    said = ' | '.join(one['evidence'])
    assert re.search(r'STREAM size=big m\d: (79|80)[\d.]* GB/s on n3; expected 100', said)
    assert 'on 15 other nodes: ' in said
    assert one['next_steps'][0].startswith("ci/nightly --no-provision -- --system=cluster:cpu -n '^STREAM%size=big'")


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
    site.healthy()
    assert site.judged(0) == []
    again = case(metrics=site.metrics(1.0), nodes=('n9',), **named('n5'))
    site.run(replaced={'n5': failed('n5', 'job 4711 ended in state NODE_FAIL, exit code 0, on n5')}, again=[[again]])
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n5', ['n5'])
    assert 'NODE_FAIL' in one['cause']
    assert 'passed when it ran again on n9' in one['evidence']


def test_a_program_that_is_dead_everywhere_is_one_case(site):
    site.healthy()
    dead = {node: failed(node, f'exit code 127, on {node}') for node in NODES}
    site.run(replaced=dead)
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['metrics'], len(one['nodes'])) == ('CASE', 'cpu/system', METRICS, 16)


def test_jobs_that_fail_on_one_node_are_one_incident_of_the_node(site):
    site.healthy()
    dead = {
        check: case(
            check=check, nodes=('n4',), stack='other', result='fail', fail_phase='sanity', fail_reason=f'{check}: lost',
            metrics={f'm{i}': metric([]) for i in range(METRICS)},
        )
        for check in OSU[:3]
    }  # fmt: skip
    site.run(replaced=dead | {'n4': failed('n4', 'lost')})
    (one,) = site.judged(1)
    assert (one['kind'], one['where']) == ('NODE', 'n4')
    assert one['checks'] == sorted([*OSU[:3], 'STREAM'])


def test_failed_jobs_on_some_of_1200_nodes_name_their_nodes_in_every_output(work, tmp_path):
    site = Site(work, [f'n{i:04}' for i in range(1200)], rest=False)
    lost = random.Random(1).sample(site.nodes, 22)
    site.run(replaced={node: failed(node, f'job 47 ended in state FAILED, exit code 3, on {node}') for node in lost})
    (one,) = site.judged(1)
    assert one['kind'] == 'NODE'
    assert one['nodes'] == sorted(lost)
    texts = [work.run('compare', '--format', format).stdout for format in ('table', 'markdown', 'csv', 'json')]
    texts += [work.run('compare', '--summary', '--junit', tmp_path / 'x.xml').stdout, work.run('incidents').stdout]
    names = [element.get('name') for element in etree.parse(tmp_path / 'x.xml').findall('.//testcase')]
    assert len(names) == len(set(names))
    texts.append(etree.parse(tmp_path / 'x.xml').find('.//failure').get('message'))
    for text in texts:
        assert [node for node in lost if node not in text] == []


def test_a_problem_of_the_session_is_an_incident_of_that_session_alone(site):
    site.run(problem='ReFrame was killed')
    (one,) = site.judged(1)
    assert (one['kind'], one['what']) == ('CASE', 'ReFrame was killed')
    site.run()
    (closed,) = site.judged(0)
    assert (closed['id'], closed['state']) == (one['id'], 'closed')


def test_a_node_that_is_lost_is_named(site):
    site.run(problem='n7 of cpu is down* (Not responding), but not drained')
    (one,) = site.judged(1)
    assert (one['kind'], one['where'], one['nodes']) == ('NODE', 'n7', ['n7'])


# Over the sessions


def slow_node(level):
    return lambda check, node, device: level if (check, node) == ('STREAM', 'n3') else 1.0


def test_an_incident_is_acknowledged_gets_worse_heals_and_is_closed(site):
    site.healthy()
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
    assert '40' in worse['worse'] and '15' in worse['worse']
    assert any('incidents acknowledge' in step for step in worse['next_steps'])
    assert 'fan is ordered' in site.work.run('incidents show', one['id']).stdout

    for night in range(3):
        site.run()
        (healing,) = site.judged(int(night < 2))
        assert healing['healthy_for'] == night + 1
    assert healing['state'] == 'closed'
    site.run()
    assert site.judged(0) == []
    listed = json.loads(site.work.run('incidents', '--format', 'json').stdout)
    assert states(listed) == {one['id']: 'closed'}


def test_an_acknowledgement_ends_with_its_day(site):
    site.healthy(1)
    site.run(slow_node(0.7))
    (one,) = site.judged(1)
    site.work.run('incidents acknowledge', one['id'], '--why', 'x', '--until', '2026-11-23')
    site.run(slow_node(0.7))
    site.run(slow_node(0.7))
    assert states(site.judged(1)) == {one['id']: 'open'}


def test_judging_a_session_again_changes_nothing(site):
    site.healthy()
    site.run(three_causes)
    folder = site.work.results / 'incidents' / SITE
    site.judged(1)
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(first) == 3
    for command in ('compare', 'report', 'compare --summary'):
        site.work.run(command)
        assert {path.name: path.read_text() for path in folder.iterdir()} == first


def test_a_report_of_a_session_with_reruns_takes_the_place_of_what_it_said_before(site):
    site.healthy()
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
    site.healthy(2)
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
    site.run(slow_node(0.96))
    (one,) = site.judged(1)
    assert one['state'] == 'open'


def test_a_slow_node_stays_open_until_it_is_as_it_was(work):
    """Its new level is never its usual one, however long that lasts."""
    site = Site(work, rest=False)
    work.reference()
    site.healthy(6)
    for _ in range(40):
        site.run(slow_node(0.85))
        found = site.judged(1)
        assert [(one['kind'], one['where']) for one in found] == [('NODE', 'n3')]
    assert found[0]['sessions'] == 40
    for night in range(3):
        site.run()
        found = site.judged(int(night < 2))
    assert found[0]['state'] == 'closed'


# The command


def test_show_tells_all_of_an_incident(site):
    site.healthy()
    site.run(three_causes, lambda check: {'stack_lock': 'b' if check in OSU else 'a'})
    listed = site.judged(1)
    for one in listed:
        text = site.work.run('incidents show', one['id'][:4]).stdout
        assert one['id'] in text and one['what'].split(' in ')[0] in ' '.join(text.split())
        assert all(check in text for check in one['checks'])
        assert f'plumbline incidents acknowledge {one["id"]}' in ' '.join(text.split())
    shown = json.loads(site.work.run('incidents show', listed[0]['id'], '--format', 'json').stdout)
    assert len(shown['series']) == shown['metrics'] == listed[0]['metrics']


def test_the_list_begins_with_what_is_open(site):
    site.healthy()
    site.run(three_causes)
    site.judged(1)
    result = site.work.run('incidents', '--format', 'csv')
    assert result.exit_code == 1
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row['state'] for row in rows] == ['open'] * 3
    site.work.run('incidents acknowledge', rows[0]['id'], '--why', 'x', '--until', '2026-12-31')
    rows = list(csv.DictReader(io.StringIO(site.work.run('incidents', '--format', 'csv').stdout)))
    assert [row['state'] for row in rows] == ['open', 'open', 'acknowledged']


def test_without_an_incident_the_list_is_empty(site):
    site.run()
    site.judged(0)
    result = site.work.run('incidents')
    assert (result.exit_code, result.stdout) == (0, '0 incidents, 0 open\n')


def test_no_incident_is_no_answer_where_no_session_is(site):
    result = site.work.run('incidents')
    assert result.exit_code == 2 and str(site.work.results) in result.stderr
    site.run()
    result = site.work.run('incidents', '--site', 'nosuch')
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


def test_a_damaged_file_of_the_ledger_is_named(site):
    site.run()
    path = site.work.results / 'incidents' / SITE / 'x.json'
    path.parent.mkdir(parents=True)
    path.write_text('{}')
    for command in ('compare', 'incidents', 'report'):
        result = site.work.run(command)
        assert result.exit_code == 2
        assert str(path) in result.stderr


# Grouping


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

# SPDX-License-Identifier: BSD-3-Clause
"""What incidents say of sites whose causes are planted: scope, beginning, loss, and what is healthy beside them."""

from statistics import NormalDist, median

import pytest
from run_reports import BEGAN, DAY, SITE, case, metric, on_nodes, reference, report

NODES = [f'n{i}' for i in range(1, 17)]
RACK = NODES[10:]
CHECKS = ('STREAM', 'Dgemm', 'Hpcg')


class Cluster:
    """Nodes in racks, by default six of sixteen in the second one; three checks on each, two jobs of two nodes."""

    def __init__(self, work, racks=(NODES[:10], RACK), switches=False):
        self.work, self.night = work, 0
        self.nodes = [node for rack in racks for node in rack]
        rows = [f'{node},r{i}{f",s{i}" * switches}' for i, rack in enumerate(racks, 1) for node in rack]
        head = f'node,rack{",switch" * switches}'
        (work.sites / SITE / 'locations.csv').write_text('\n'.join([head, *rows]) + '\n')
        work.reference(*(reference(check=check) for check in (*CHECKS, 'Osu')))

    def night_of(self, level=lambda check, node: 1.0, pairs=(('n1', 'n2'), ('n11', 'n12')), kernel='6.1'):
        """The run report of a night. `level`: of a check on a node, its first one for a pair."""

        def entry(check, nodes):
            # three values within 0.2 %, of each node and night others
            part = (7 * self.night + 3 * self.nodes.index(nodes[0]) + len(check)) % 5 - 2
            values = [100 * level(check, nodes[0]) * (1 + 0.001 * part + 0.0005 * i) for i in (-1, 0, 1)]
            name = f'{check}_{"_".join(nodes)}'
            made = case(
                check=check, metrics={'triad': metric(values, node=nodes[0])}, nodes=nodes, unique_name=name,
                provenance={'kernel': kernel}, scheduler='slurm',
            )  # fmt: skip
            made['record']['evidence'] = f'evidence/{name}.tar.gz'
            return made

        entries = [entry(check, (node,)) for check in CHECKS for node in self.nodes]
        entries += [entry('Osu', nodes) for nodes in pairs]
        self.night += 1
        return report(*entries, uuid=f'{self.night - 1:08x}', began=BEGAN + (self.night - 31) * DAY)

    def healthy(self, **more):
        """Ingest four healthy nights; the cluster."""
        self.work.ingest(*(self.night_of(**more) for _ in range(4)))
        return self

    def run(self, *level, **more):
        """Ingest and judge a night; the incidents."""
        self.work.ingest(self.night_of(*level, **more))
        return {one['where']: one for one in self.work.compare()['incidents']}


@pytest.fixture
def cluster(work):
    return Cluster(work).healthy()


def of_rack(check, node):
    return 0.88 if check == 'STREAM' and node in RACK else 1.0


def test_a_rack_that_is_slow_in_one_check_is_one_incident_and_a_node_of_it_another(cluster):
    def slow(check, node):
        return 0.6 if (check, node) == ('STREAM', 'n12') else of_rack(check, node)

    rack = f'rack r2 ({", ".join(RACK)})'
    (first,) = cluster.run(of_rack).values()
    assert (first['kind'], first['where'], first['nodes']) == ('NODE', rack, RACK)
    assert first['loss'] == pytest.approx(12, abs=0.3)
    for _ in range(2):
        found = cluster.run(slow)
    assert found.keys() == {rack, 'n12'}
    assert (found[rack]['id'], found['n12']['since']) == (first['id'], '2026-10-27')
    assert found['n12']['loss'] == pytest.approx(40, abs=0.3)
    assert found[rack]['loss'] == pytest.approx(12, abs=0.3)
    rows = cluster.work.compare()['verdicts']
    told = {row['nodes'][0]: row['incident'] for row in rows if row['verdict'] == 'regressed'}
    assert told == {node: found['n12' if node == 'n12' else rack]['id'] for node in RACK}
    (*_, proposal) = sorted((cluster.work.results / 'proposals').glob('drain-*.txt'))
    drained = [line.split()[2] for line in proposal.read_text().splitlines()]
    assert drained == ['NodeName=n12'], 'a rack is not to be drained'


def test_an_incident_of_a_node_tells_what_is_healthy_there_and_how_to_look_at_it(cluster):
    (found,) = cluster.run(lambda check, node: 0.9 if (check, node) == ('STREAM', 'n1') else 1.0).values()
    # Dgemm and Hpcg ran there, too, and the first of the pairs
    assert 'healthy there: 3 other metrics of Dgemm, Hpcg, Osu' in found['evidence']
    look, again, *_ = found['next_steps']
    assert look == 'scontrol show node n1' and again.startswith('ci/nightly') and 'nodelist=n1' in again
    assert not any('plumbline compare' in step for step in found['next_steps'])
    assert 'evidence/STREAM_n1.tar.gz' in cluster.work.run('incidents show', found['id']).stdout


def test_jobs_elsewhere_do_not_heal_a_place(cluster):
    def slow(check, node):
        return 0.85 if check == 'Osu' and node in RACK else 1.0

    pairs = ('n1', 'n2'), ('n3', 'n4'), ('n5', 'n6'), ('n7', 'n8'), ('n11', 'n12'), ('n13', 'n14'), ('n15', 'n9')
    (found,) = cluster.run(slow, pairs).values()
    assert (found['kind'], found['where']) == ('FABRIC', 'rack r2')
    assert found['nodes'] == ['n11', 'n12', 'n13', 'n14', 'n15'], 'n9 lies in the other rack'
    (found,) = cluster.run(pairs=(('n1', 'n2'), ('n3', 'n4'))).values()
    assert found['state'] == 'open', 'no job ran in that rack'
    (found,) = cluster.run(pairs=(('n1', 'n2'), ('n11', 'n12'))).values()
    assert found['state'] == 'healing'


def test_what_a_node_lost_after_all_did_is_its_own(cluster):
    """All nodes lose 7 % with a kernel, and one of them 12 % of its own, two nights later."""

    def of_all(check, node):
        return 0.93 if check == 'STREAM' else 1.0

    def and_of_one(check, node):
        return of_all(check, node) * (0.88 if (check, node) == ('STREAM', 'n5') else 1)

    for _ in range(2):
        cluster.run(of_all, kernel='6.6')
    for _ in range(2):
        found = cluster.run(and_of_one, kernel='6.6')
        assert found.keys() == {'cpu/system', 'n5'}
        everywhere, there = found['cpu/system'], found['n5']
        assert (everywhere['kind'], everywhere['since']) == ('SOFTWARE', '2026-10-26')
        assert everywhere['changed'] == ['kernel: 6.1 -> 6.6']
        assert everywhere['loss'] == pytest.approx(7, abs=0.2)
        assert any(step.startswith('plumbline compare 00000003 ') for step in everywhere['next_steps'])
        assert (there['kind'], there['since'], there['changed']) == ('NODE', '2026-10-28', [])
        assert there['loss'] == pytest.approx(12, abs=0.5)


def test_a_node_that_loses_much_more_than_its_rack_is_no_longer_one_with_it(cluster):
    """The rack is well again on the night on which one of its nodes loses 40 %."""
    (rack,) = cluster.run(of_rack).values()
    found = cluster.run(lambda check, node: 0.6 if (check, node) == ('STREAM', 'n12') else 1.0)
    assert found['n12']['id'] != rack['id'] and found['n12']['nodes'] == ['n12']
    assert found['n12']['since'] == '2026-10-27'


def test_a_rack_and_a_switch_with_the_same_nodes_are_both_named(work):
    racks = [[f'n{i}' for i in range(first, first + 4)] for first in (1, 5, 9, 13)]
    cluster = Cluster(work, racks, switches=True)
    cluster.healthy(pairs=())
    slow = ['n9', 'n10', 'n11', 'n12']
    (found,) = cluster.run(lambda check, node: 0.9 if node in slow else 1.0, pairs=()).values()
    assert (found['place'], found['same_nodes'], found['nodes']) == ('rack r3', ['switch s3'], slow)
    assert found['where'] == 'rack r3 and switch s3 (n9, n10, n11, n12)'
    said = 'rack r3 and switch s3 have the same nodes: no measurement tells which it is'
    assert said in work.run('compare', '--format', 'markdown').stdout
    assert work.run('report').exit_code == 1 and said in (work.results / 'report.html').read_text()
    again = cluster.run(lambda check, node: 0.9 if node in slow else 1.0, pairs=())
    assert [one['id'] for one in again.values()] == [found['id']]


def test_a_node_that_only_the_others_show_has_the_interval_of_their_spread(work):
    """The first session, of 24 nodes; one loses 7 %, which the wide baseline allows."""
    names = [f'n{i}' for i in range(24)]
    work.reference(reference(std=8, n=1))
    levels = {name: 100 + 0.4 * NormalDist().inv_cdf((i + 0.5) / 24) for i, name in enumerate(names)}
    levels['n7'] = 93.0
    work.ingest(report(*on_nodes(levels)))
    (found,) = work.compare()['incidents']
    assert (found['kind'], found['where']) == ('NODE', 'n7')
    assert found['loss'] == pytest.approx(100 * (1 - 93 / median(levels.values())), abs=0.01)
    assert 4.5 < found['loss_low'] < 7 < found['loss_high'] < 9  # that it is told is a choice of large losses

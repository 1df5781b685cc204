# SPDX-License-Identifier: BSD-3-Clause
"""Stories of a site of six nodes over nights: which incidents go on, which are others, and what each of them says."""

import random
from datetime import datetime, timezone

import pytest
from run_reports import BEGAN, DAY, case, metric, record, report

NODES = [f'n{number}' for number in range(1, 7)]
BOTH = 'STREAM', 'Dgemm'
UNTIL = '2027-01-31'


class Nights:
    """A site that is played night by night; its values vary by 0.4 %."""

    def __init__(self, work):
        self.work, self.random, self.next = work, random.Random(1), 0

    def triad(self, mean, node):
        level = mean * (1 + self.random.gauss(0, 0.004))
        return {'triad': metric([0.999 * level, level, 1.001 * level], node=node)}

    def job(self, check, nodes, mean=100.0, params='size=big', **fields):
        return case(check, params, self.triad(mean, nodes[0]), nodes=tuple(nodes), **fields)

    def swept(self, check, node, mean=100.0):
        names = {'unique_name': f'{check}_{node}', 'display_name': f'{check} %size=big %cpu.nid={node}'}
        return self.job(check, [node], mean, **names)

    def sweep(self, level=lambda check, node: 1.0):
        """Both checks on each node, at these shares of their usual level."""
        return [self.swept(check, node, 100 * level(check, node)) for check in BOTH for node in NODES]

    def night(self, *entries, further=()):
        """Play a night; return what `compare` says of it."""
        content = report(*entries, uuid=f'{self.next:08x}', mode='quick', began=BEGAN + (self.next - 60) * DAY)
        content['runs'] += [{'testcases': list(further)}] * bool(further)
        self.next += 1
        self.work.store(content)
        return self.work.compare(content['session_info']['uuid'])

    def nights(self, count, entries):
        """Play nights, and return what is said of the last one."""
        return [self.night(*entries()) for _ in range(count)][-1]

    def recorded(self, entries=None, nights=6):
        self.nights(nights, entries or self.sweep)
        record(self.work)
        return self

    def acknowledge(self, document):
        (one,) = document['incidents']
        answer = self.work.run('incidents acknowledge', one['id'], '--why', 'the DIMM is ordered', '--until', UNTIL)
        assert answer.exit_code == 0, answer.output


@pytest.fixture
def site(work):
    return Nights(work)


def slow(node, share, *checks):
    """The level of a site where a node is slow in these checks."""
    return lambda check, name: share if name == node and check in (checks or BOTH) else 1.0


def day(number):
    return f'{datetime.fromtimestamp(BEGAN + (number - 60) * DAY, timezone.utc):%Y-%m-%d}'


def only(document):
    (one,) = document['incidents']
    return one


def losses(document):
    return {one['where']: one for one in document['incidents'] if one['loss'] is not None}


def test_a_node_heals_from_each_of_two_faults_by_itself(site):
    """It is still 20 % slow in one check, while the other one, which lost 60 %, is repaired."""
    site.recorded(lambda: [site.job(check, ['n1']) for check in BOTH], 8)
    levels = {'STREAM': 80.0, 'Dgemm': 40.0}
    further = [site.job(check, [node]) for check in BOTH for node in ('n2', 'n4')]
    further += [site.job(check, ['n3'], levels[check], plumbline_purpose='node') for check in BOTH for _ in range(2)]
    document = site.night(*(site.job(check, ['n3'], levels[check]) for check in BOTH), further=further)
    assert document['exit_code'] == 1 and only(document)['where'] == 'n3'
    for _ in range(3):
        there = [site.job('STREAM', ['n3'], 80.0, plumbline_purpose='node')]
        document = site.night(*(site.job(check, ['n1']) for check in BOTH), further=there)
        assert (document['exit_code'], only(document)['state']) == (1, 'open')


def test_the_size_of_a_node_is_that_of_what_is_still_slow_there(site):
    site.recorded()
    site.nights(2, lambda: site.sweep(lambda *of: {'STREAM': 0.8, 'Dgemm': 0.4}[of[0]] if of[1] == 'n3' else 1.0))
    assert only(site.nights(2, lambda: site.sweep(slow('n3', 0.8, 'STREAM'))))['loss'] == pytest.approx(20, abs=1)


def test_what_returns_has_the_size_of_today(site):
    site.recorded()
    site.nights(2, lambda: site.sweep(slow('n3', 0.6)))
    site.nights(4, site.sweep)
    assert only(site.nights(3, lambda: site.sweep(slow('n3', 0.94))))['loss'] == pytest.approx(6, abs=0.5)


def test_an_acknowledged_fault_of_a_node_that_is_repaired_excuses_no_other(site):
    site.recorded()
    site.acknowledge(site.nights(2, lambda: site.sweep(slow('n3', 0.7, 'STREAM'))))
    assert site.night(*site.sweep(slow('n3', 0.7, 'STREAM')))['exit_code'] == 0
    document = site.night(*site.sweep(slow('n3', 0.7, 'Dgemm')))
    assert (
        document['exit_code'] == 1
        and 'Dgemm size=big triad, and what was acknowledged is healthy' in only(document)['worse']
    )


def test_an_acknowledgement_ends_with_the_fault(site):
    site.recorded()
    site.acknowledge(site.nights(2, lambda: site.sweep(slow('n3', 0.7))))
    site.nights(4, site.sweep)
    site.next += 5
    document = site.night(*site.sweep(slow('n3', 0.7)))
    assert (document['exit_code'], only(document)['state']) == (1, 'intermittent')


def test_an_acknowledged_missing_check_excuses_no_other(site):
    checks = ['STREAM', 'Gemm', 'HPL', 'IOR']
    site.recorded(lambda: [site.job(check, ['n1']) for check in checks], 5)
    checks.remove('IOR')
    site.acknowledge(site.night(*(site.job(check, ['n1']) for check in checks)))
    assert site.night(*(site.job(check, ['n1']) for check in checks))['exit_code'] == 0
    checks.remove('HPL')
    assert site.night(*(site.job(check, ['n1']) for check in checks))['exit_code'] == 1


def test_a_renamed_metric_that_is_recorded_keeps_its_row_when_the_old_one_is_retired(site):
    site.recorded(lambda: [site.job('STREAM', ['n1']), site.job('Gemm', ['n1'])])

    def renamed():
        values = site.triad(100.0, 'n1')['triad']
        return [case('STREAM', 'size=big', {'triad_bw': values}), site.job('Gemm', ['n1'])]

    id = only(site.nights(2, renamed))['id']
    record(site.work)
    shown = ' '.join(site.work.run('incidents show', id).stdout.split())
    assert "record retire 'STREAM triad' --why" in shown
    assert site.work.run('record retire', 'STREAM triad', '--why', 'renamed').exit_code == 0
    assert 'triad_bw' in site.work.baseline.read_text()


def test_an_epoch_takes_no_jobs_of_a_node_that_broke_in_its_night(site):
    site.recorded()
    document = site.night(*site.sweep(slow('n3', 0.5)))
    assert document['exit_code'] == 1 and only(document)['where'] == 'n3'
    proposed = site.work.run('record propose', '--epoch', 'OFED 24.10', '--format', 'json')
    assert proposed.exit_code == 1 or '"n3"' not in proposed.stdout, proposed.output


def test_a_slow_node_excuses_no_job_that_was_well_there(site):
    """A job on several nodes, which did not wait for the slow node before."""
    hpl = 'n1', 'n2', 'n3', 'n4'
    site.recorded(lambda: [*site.sweep(), site.job('HPL', hpl)])
    site.acknowledge(site.nights(2, lambda: [*site.sweep(slow('n3', 0.4, 'STREAM')), site.job('HPL', hpl)]))
    document = site.night(*site.sweep(slow('n3', 0.4, 'STREAM')), site.job('HPL', hpl, 50.0))
    assert document['exit_code'] == 1 and len(losses(document)) == 2


def test_a_rate_of_zero_began_when_it_was_zero(site):
    site.recorded(lambda: [site.job('Gemm', ['n1'])])
    nothing = case('Gemm', 'size=big', {'triad': metric([0.0] * 3)})
    assert only(site.nights(2, lambda: [nothing]))['since'] == day(6)


def test_nothing_is_drained_whose_incident_a_person_closed(site):
    site.recorded()
    one = only(site.nights(2, lambda: site.sweep(slow('n3', 0.7))))
    assert 'a proposal to drain 1 node' in site.work.run('fleet').output
    assert site.work.run('incidents close', one['id'], '--why', 'x').exit_code == 0
    assert 'drain' not in site.work.run('fleet').output


def test_a_raised_floor_ends_the_incidents_below_it(site):
    site.recorded()
    site.nights(2, lambda: site.sweep(slow('n3', 0.8)))
    path = site.work.sites / 'cluster/site.yaml'
    path.write_text(path.read_text().replace('floor: 0.02', 'floor: 0.3'))
    assert site.night(*site.sweep(slow('n3', 0.8)))['exit_code'] == 0


def test_a_floor_of_other_metrics_ends_no_incident(site):
    checks = [f'C{number}' for number in range(6)]
    path = site.work.sites / 'cluster/site.yaml'
    rules = ', '.join(f'{{check: {check}, floor: 0.1, cap: 0.5, why: x}}' for check in ('C4', 'C5'))
    path.write_text(path.read_text().replace('floor: 0.02', f'floor: 0.02, rules: [{rules}]'))
    levels = {name: 95.0 if name == 'n3' else 100.0 for name in NODES}

    def swept(level=levels.get):
        return [site.swept(check, node, level(node)) for check in checks for node in NODES]

    site.recorded(lambda: swept(lambda node: 100.0))
    assert only(site.nights(2, swept))['where'] == 'n3'
    for _ in range(3):
        document = site.night(site.swept('C4', 'n3', 95.0), *(site.swept(check, 'n1') for check in checks))
        assert (document['exit_code'], losses(document)['n3']['state']) == (1, 'open')


def test_a_loss_of_all_that_is_over_does_not_live_on_as_that_of_one_case(site):
    checks = [f'C{number}' for number in range(8)]

    def entries(level):
        return [site.job(check, ['n1'], 100 * level(check)) for check in checks]

    site.recorded(lambda: entries(lambda check: 1.0), 8)
    first = only(site.nights(3, lambda: entries(lambda check: 0.94)))
    assert first['where'] == 'cpu' and len(first['checks']) == 8
    document = site.nights(3, lambda: entries(lambda check: 0.6 if check == 'C3' else 1.0))
    (one,) = [one for one in document['incidents'] if one['state'] == 'open']
    assert one['checks'] == ['C3'] and one['id'] != first['id'] and one['since'] == day(11)


def test_a_node_that_lost_more_than_all_is_named_beside_them(site):
    """All lose 6 % and n3 34 %: jobs elsewhere show the 6 %, so jobs on n3 are asked for, and decide."""

    def again(node, share, **fields):
        names = {check: f'{check} %size=big %cpu.nid=n3' for check in BOTH}
        return [
            site.job(check, [node], 100 * share, unique_name=f'{check}_n3', display_name=name, **fields)
            for check, name in names.items()
        ]

    site.recorded()
    lost = [0.94 * share for share in (1.0, 0.7)]
    levels = lambda _, node: lost[node == 'n3']  # noqa: E731
    elsewhere = [entry for node in ('n1', 'n2', 'n4', 'n5') for entry in again(node, lost[0])]
    document = site.night(*site.sweep(levels), further=elsewhere)
    assert {(more['on'], more['jobs']) for more in document['again']} == {('n3', 2)}
    there = [entry for _ in range(2) for entry in again('n3', lost[1], plumbline_purpose='node')]
    found = losses(site.night(*site.sweep(levels), further=[*elsewhere, *there]))
    assert found.keys() == {'cpu', 'n3'}
    assert found['cpu']['loss'] == pytest.approx(6, abs=1) and found['n3']['loss'] == pytest.approx(34, abs=1)


def test_a_session_that_came_late_and_nobody_judged_is_named(site):
    site.recorded()
    site.next += 1
    site.night(*site.sweep())
    late = report(
        *site.sweep(slow('n3', 0.5)), uuid=f'{site.next - 2:08x}', mode='quick', began=BEGAN + (site.next - 62) * DAY
    )
    site.work.store(late)
    document = site.night(*site.sweep())
    assert document['exit_code'] == 0
    for command in ('status', 'compare --summary'):
        said = ' '.join(site.work.run(command).output.split())
        assert '1 session never judged: `plumbline compare 00000006 ' in said, command
    assert site.work.compare('00000006')['exit_code'] == 1
    assert 'never judged' not in site.work.run('status').output

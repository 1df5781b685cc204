# SPDX-License-Identifier: BSD-3-Clause
"""What a slow node counted is named first: in the cause of its verdicts, in its incident, and on the page."""

from types import SimpleNamespace

import pytest
from health_stand_in import COUNTERS, CPU, EDAC, IB, Node
from lxml import html
from rows import each_row
from run_reports import BEGAN, case, metric, reference, report

from plumbline.identity import CaseId
from postprocess.verdicts.health import Health

SLOW = {'n3': 0.8, 'n5': 0.7, 'n9': 0.6, 'n11': 0.5}
#: of a node: what its counters say after the job -> what is told first
PLANTED = {
    'n3': ({f'{CPU}/cpu0/thermal_throttle/core_throttle_count': '419\n'}, 'thermal throttle +412'),
    'n5': ({f'{EDAC}/mc1/ce_count': '7\n'}, 'corrected memory errors +7 on mc1'),
    'n9': ({f'{IB}/counters/symbol_error': '12\n'}, 'InfiniBand symbol errors +12 on mlx5_0 port 1'),
}


def night(number, facts, level=lambda node: 1.0):
    """STREAM on each of 16 nodes."""

    def values(i):
        return [100 * level(f'n{i}') * (1 + 0.001 * ((number * i + trial) % 3)) for trial in range(3)]

    entries = [
        case(
            nodes=(f'n{i}',), unique_name=f'STREAM_n{i}', display_name=f'STREAM %size=big %cpu.nid=n{i}',
            provenance=facts.get(f'n{i}', {}), metrics={'triad': metric(values(i))},
        )
        for i in range(16)
    ]  # fmt: skip
    return report(*entries, uuid=f'{number:08x}', began=BEGAN + number * 86400)


@pytest.fixture
def counted(tmp_path):
    """What health.sh says on each node; of another than those in PLANTED nothing happened."""
    found = {}
    for name, (counters, _) in (PLANTED | {'quiet': ({}, '')}).items():
        node = Node(tmp_path / name)
        node(COUNTERS)
        found[name] = node(counters)
    return found


def test_what_slowed_each_node_is_named_first(work, counted):
    """Counters as the kernel's files show them, read by the scripts of the job, to the page.

    A node that is as busy as a slow one and not slow has no incident.
    """
    work.reference(reference(metric='triad'))
    facts = {f'n{i}': counted['quiet'] | {'clock_in_run': '2600', 'load_beside': '0.10'} for i in range(16)}
    for node in PLANTED:
        facts[node] |= counted[node]
    facts['n3'] |= {'clock_in_run': '1900', 'clock_at_end': '3100'}
    for node in ('n11', 'n12'):
        facts[node] |= {'load_beside': '2.00', 'cpu_steal': '0.09'}
    for number in range(5):
        work.ingest(night(number, {}))
    work.ingest(night(5, facts, lambda node: SLOW.get(node, 1.0)))

    document = work.compare()
    incidents = {one['where']: one for one in document['incidents']}
    causes = {tuple(row['nodes']): row['cause'] for row in document['verdicts'] if row['verdict'] == 'regressed'}
    assert set(incidents) == set(SLOW)
    assert work.run('report').exit_code == 1
    page = html.fromstring((work.results / 'report.html').read_text())
    expected = {node: told for node, (_, told) in PLANTED.items()}
    expected['n3'] = f'1.9 GHz against 2.6, {expected["n3"]}'
    expected['n11'] = '2 CPUs were busy beside the benchmark, expected at most 0.5'
    for node, told in expected.items():
        assert causes[node,].startswith(f'{node}: {told}; ')
        first = incidents[node]['evidence'][0]
        assert first == f'STREAM {incidents[node]["loss"]:.1f} % less on {node}: {told}'
        assert first in page.get_element_by_id('incidents').text_content()
    said = ' '.join(work.run('compare', '--summary').stdout.split())
    assert f' on n11: {expected["n11"]} ' in said and ' on n11; expected ' in said, 'neither hides the other'


STREAM = CaseId('cpu', 'system', 'STREAM', (('size', 'big'),))


def ran(nodes, provenance, health=None):
    return SimpleNamespace(id=STREAM, nodes=nodes, provenance=provenance, health=health or {})


def test_a_slow_node_of_a_job_on_several_is_told_beside_the_others():
    nodes = ['n1', 'n2', 'n3']
    others = {'n2': {'clock_in_run': '1900', 'clock_throttled': '412'}, 'n3': {'clock_in_run': '2610'}}
    first = {'clock_in_run': '2600', 'load_beside': '0.40'}
    assert Health([ran(nodes, first, others)]).of([STREAM], nodes) == {
        'n2': '1.9 GHz against 2.6, thermal throttle +412'
    }


BUSY = '2.09 CPUs were busy beside the benchmark, expected at most 0.5'


@each_row(('own', 'others', 'says'), [
    # 95 % of 2500 are 2375; of several others the median counts
    ({'clock_at_end': '2374'}, [{'clock_at_end': '2500'}], '2.37 GHz against 2.5'),
    ({'clock_at_end': '2375'}, [{'clock_at_end': '2500'}], ''), ({'clock_at_end': '1000'}, [], ''),
    ({'clock_at_end': '2000'}, [{'clock_at_end': of} for of in ('2500', '2100', '2700')], '2 GHz against 2.5'),
    ({'clock_at_end': '2400'}, [{'clock_at_end': of} for of in ('2500', '2100', '2700')], ''),
    ({'clock_at_end': 'x'}, [{'clock_at_end': '2500'}], ''),
    ({'health_ecc': '3 on 1', 'health_pci_replay': '7', 'health_none': '0'}, [], 'pci replay +7, ecc +3 on 1'),
    ({'counted_network_drops': '9 on eth0', 'health_OOM_kills': '1'}, [], 'OOM kills +1'),
    ({'load_beside': '0.5', 'cpu_steal': '2.0'}, [], ''),
    ({'cpu_steal': '2.1'}, [], 'the hypervisor took 2.1 % of the CPU time, expected at most 2 %'),
    # what takes the CPUs of all nodes alike explains no slow one
    ({'load_beside': '2.09'}, [{'load_beside': '1.9'}], ''), ({'load_beside': '2.09'}, [{'load_beside': '0.2'}], BUSY),
    ({'load_beside': '2.09'}, [{}], BUSY),
])  # fmt: skip
def test_what_slowed_a_node_is_told_where_the_other_nodes_show_less_of_it(own, others, says):
    health = Health([ran([f'n{number}'], facts) for number, facts in enumerate((own, *others), 1)])
    assert health.of([STREAM], ['n1']) == ({'n1': says} if says else {})


def test_of_several_jobs_of_a_node_counts_add_up_and_the_lowest_clock_is_told():
    first = ran(['n1'], {'clock_at_end': '1900', 'health_ecc_errors': '2 on 0'})
    again = ran(['n1'], {'clock_at_end': '9999', 'health_ecc_errors': '1 on 1'})
    other = ran(['n2'], {'clock_at_end': '2500'})
    assert Health([first, again, other]).of([STREAM], ['n1']) == {'n1': '1.9 GHz against 2.5, ecc errors +3 on 0, 1'}

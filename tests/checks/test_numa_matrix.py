# SPDX-License-Identifier: BSD-3-Clause
"""Classes of NUMA distances, variation between domains, and the parsers on recorded outputs."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of

from checks.core import topology as topology_module
from checks.core.placement import Placement
from checks.core.reading.trials import NotMeasured, variable_name
from checks.core.topology import topology_of
from checks.memory.likwid_base import allocated_from, repetitions
from checks.memory.numa_matrix import coefficient_of_variation, distance_classes, normalized_range
from plumbline.errors import SiteError
from plumbline.site.sites import Partition


@pytest.fixture(scope='module')
def numa_matrix():
    import checks.memory.numa_matrix  # here, after ReFrame's runtime is up

    return checks.memory.numa_matrix


def rows(domains: int, distance) -> list[list[int]]:
    return [[distance(i, j) for j in range(domains)] for i in range(domains)]


matrices = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from([10, 11, 12, 16, 21, 32]), min_size=n, max_size=n),
                       min_size=n, max_size=n)
)  # fmt: skip


@given(matrices)
def test_every_pair_is_in_one_class_of_one_distance(distances):
    domains = len(distances)
    classes = distance_classes(distances, domains)
    pairs = [pair for members in classes.values() for pair in members]
    assert sorted(pairs) == [(i, j) for i in range(domains) for j in range(domains)]
    assert all(classes.values()), classes
    assert all(i == j for i, j in classes['local']) and len(classes['local']) == domains
    levels = [{distances[i][j] for i, j in members} for name, members in classes.items() if name != 'local']
    assert all(len(level) == 1 for level in levels)
    assert levels == sorted(levels, key=min)  # nearest first


@given(matrices)
def test_the_classes_do_not_depend_on_the_unit_of_distance(distances):
    def without_levels(found):
        return {re.sub(r'_\d+$', '', name) for name in found}

    thrice = [[3 * distance for distance in row] for row in distances]
    classes, scaled = (distance_classes(each, len(each)) for each in (distances, thrice))
    assert without_levels(classes) == without_levels(scaled)
    assert list(classes.values()) == list(scaled.values())


@given(st.integers(2, 12))
def test_without_distances_all_other_domains_are_remote(domains):
    classes = distance_classes((), domains)
    assert list(classes) == ['local', 'remote']
    assert len(classes['remote']) == domains * (domains - 1)


def test_two_sockets_of_one_domain_have_no_groups():
    assert distance_classes([[10, 21], [21, 10]], 2) == {'local': [(0, 0), (1, 1)], 'remote': [(0, 1), (1, 0)]}


def test_two_sockets_of_several_domains_are_two_groups():
    classes = distance_classes(rows(4, lambda i, j: 10 if i == j else 12 if i // 2 == j // 2 else 32), 4)
    assert {name: len(members) for name, members in classes.items()} == {'local': 4, 'same_group': 4, 'other_group': 8}
    assert classes['same_group'] == [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_twelve_sockets_in_three_rings_have_two_classes_within_a_group():
    """As in 002: two neighbours, one domain across the ring, eight in other chassis. The distances are invented."""

    def distance(i, j):
        if i // 4 != j // 4:
            return 50
        return {0: 10, 1: 16, 2: 19, 3: 16}[(i - j) % 4]

    classes = distance_classes(rows(12, distance), 12)
    counted = {name: len(members) for name, members in classes.items()}
    assert counted == {'local': 12, 'same_group_16': 24, 'same_group_19': 12, 'other_group': 96}


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12), st.floats(1e-3, 1e3))
def test_variation_has_no_unit_and_is_never_negative(times, factor):
    scaled = [factor * time for time in times]
    for function in (coefficient_of_variation, normalized_range):
        assert function(times) >= 0
        assert function(scaled) == pytest.approx(function(times), rel=1e-6, abs=1e-9)
    assert coefficient_of_variation(times) <= normalized_range(times) + 1e-9


def test_variation_of_known_times():
    assert normalized_range([1.0, 1.01, 1.0601]) == pytest.approx(0.0601)  # 002, table II: EP, 6.01 %
    assert coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)


class Node:
    """What `choose_runs` needs of a ReFrame test."""


def chosen(numa_matrix, name: str, **fields):
    """The metrics that a check of a node with one domain declares."""
    check = getattr(numa_matrix, name)
    node = Node()
    (topology,) = (topology for _, topology in topology_module.topologies())
    node.__dict__ |= {
        'topology': topology, 'domains': topology.numa_domains, 'runs': {}, 'provenance': {},
        'cpus': [topology.cpus_in(domain) for domain in topology.numa_domains], 'placement': Placement(1, None),
        'loop_seconds': 1, 'half_seconds': 3, 'trial_seconds': 10, 'num_nodes': 1, 'estimates': [], 'trials': 3,
        'trials_of_case': 3,
    } | fields  # fmt: skip
    for method in (
        'seconds_of',
        'seconds_beyond_caches',
        'rate',
        'options',
        'add_pairs',
        'choose_runs',
        'sanity_faults',
        'beyond_caches',
        'fit',
    ):
        if function := getattr(check, method, None):
            setattr(node, method, function.__get__(node))
    node.choose_runs()
    return node


@pytest.mark.parametrize(
    ('check', 'metric', 'output', 'expected', 'line'),
    [
        ('NumaBandwidth', 'bandwidth pair=0-0', 'likwid-bench-load-stream-placed.txt', 29.52409, r'^MByte/s:.*\n'),
        ('NumaStream', 'triad domain=0', 'likwid-bench-stream-stream-placed.txt', 13.64562, r'^MByte/s:.*\n'),
        ('NumaLatency', 'latency pair=0-0', 'multichase-20250815.txt', 151.3, r'^ *151\.3\n'),
    ],
)
def test_recorded_outputs(recorded, numa_matrix, check, metric, output, expected, line):
    text = recorded(output)
    metrics = chosen(numa_matrix, check).metrics
    (found,) = (each for each in metrics if variable_name(each.name, each.points()[0]) == metric)
    assert value_of(found, text) == pytest.approx(expected, rel=1e-9)
    cut, times = re.subn(line, '', text, flags=re.MULTILINE)
    assert times == 1
    with pytest.raises(NotMeasured, match='not in the output'):
        value_of(found, cut)
    with pytest.raises(NotMeasured, match='there 2 times'):
        value_of(found, text + text)


def test_the_recorded_command_is_what_the_check_asks_for(numa_matrix, recorded, tmp_path):
    """On the machine that recorded it: two cores, and a last-level cache of 32 MiB."""
    caches = (topology_module.Cache(3, 2**25, frozenset({0, 1})),)
    topology = topology_module.Topology(
        cores=((0,), (1,)), numa_domains=(frozenset({0, 1}),), sockets=(frozenset({0, 1}),), caches=caches,
        arch='zen4', described_memory=None, numa_ids=(0,), numa_distances=((10,),),
    )  # fmt: skip
    node = {'topology': topology, 'domains': topology.numa_domains, 'cpus': [(0, 1)]}
    for check, run, output in (
        ('NumaBandwidth', 'bandwidth_0_0', 'likwid-bench-load-stream-placed'),
        ('NumaLatency', 'latency_0_0', 'multichase-20250815'),
        ('NumaStream', 'triad_0', 'likwid-bench-stream-stream-placed'),
    ):
        seconds = 2 if check == 'NumaStream' else 1
        found = chosen(numa_matrix, check, **node, loop_seconds=seconds)
        command, *_ = recorded(f'{output}.header').splitlines()
        assert command.endswith(in_a_job(tmp_path, run, found.runs[run].options))
        assert found.sanity_faults(run_of(recorded(f'{output}.txt'), name=run)) == []


def in_a_job(folder, run: str, options: list[str]) -> str:
    """The options as the job's shell expands them in the second trial."""
    (here := folder / f'trial_2/{run}').mkdir(parents=True, exist_ok=True)
    words = ['bash', '-c', f'run={run}; echo {" ".join(options)}']
    return subprocess.run(words, cwd=here, capture_output=True, text=True, check=True).stdout.strip()


def test_later_trials_repeat_the_loop_as_often_as_the_first(recorded, tmp_path):
    options = ['-t', 'triad', repetitions(2), '-w', 'M0']
    assert in_a_job(tmp_path, 'dp', options) == '-t triad -s 2 -w M0'
    (first := tmp_path / 'trial_1/dp').mkdir(parents=True)
    (first / 'stdout').write_text('the program was killed\n')
    assert in_a_job(tmp_path, 'dp', options) == '-t triad -s 2 -w M0'
    (first / 'stdout').write_text(recorded('likwid-bench-triad_avx512_fma.txt'))
    assert in_a_job(tmp_path, 'dp', options) == '-t triad -i 64 -w M0'


def test_threads_and_memory_elsewhere_are_seen(recorded, numa_matrix):
    text = recorded('likwid-bench-stream-stream-placed.txt')
    assert allocated_from(text) == {0}
    node = chosen(numa_matrix, 'NumaStream', domains=(frozenset({0, 1}), frozenset({2, 3})), cpus=[(0, 1), (2, 3)])
    assert node.sanity_faults(run_of(text, name='triad_0')) == []
    assert node.sanity_faults(run_of(text, name='triad_1')) == [
        'threads were requested on CPUs [2, 3] and ran on [0, 1]',
        'memory was requested in NUMA domain 1 and allocated from CPUs [0]',
    ]
    unplaced = re.sub(r'^Allocate:.*\n', '', text, flags=re.MULTILINE)
    assert node.sanity_faults(run_of(unplaced, name='triad_0')) == [
        'memory was requested in NUMA domain 0 and allocated from CPUs []'
    ]


def test_a_chain_of_another_length_is_seen(recorded, numa_matrix):
    node = chosen(numa_matrix, 'NumaLatency')
    node.memory_mib = 1024
    (fault,) = node.sanity_faults(run_of(recorded('multichase-20250815.txt')))
    assert 'not as long as requested: expected total_memory = 1073741824' in fault


def described(monkeypatch, **processor):
    processor = {'num_cpus': 4, 'num_cpus_per_core': 1, 'num_sockets': 2, **processor}
    entry = {'launcher': 'local', 'processor': processor}
    site = type('Site', (), {'from_reframe': False, 'partitions': {'node': Partition('node', entry)}})
    monkeypatch.setattr(topology_module, 'load_site', lambda name: site)
    return topology_of.__wrapped__('s', 'node')


def test_distances_of_a_described_node(monkeypatch):
    topology = described(monkeypatch, numa_distances=[[10, 40], [40, 10]], numa_ids=[0, 8])
    assert (topology.numa_ids, topology.numa_distances) == ((0, 8), ((10, 40), (40, 10)))
    topology = described(monkeypatch)
    assert (topology.numa_ids, topology.numa_distances) == ((0, 1), ())


@pytest.mark.parametrize(
    'wrong', [{'numa_distances': [[10]]}, {'numa_distances': [[10, 20], [20]]}, {'numa_ids': [0]}], ids=str
)
def test_distances_that_do_not_fit_the_node_are_named(monkeypatch, wrong):
    with pytest.raises(SiteError, match=r's:node: processor\.numa_ids, numa_distances: expected 2 numbers, and 2 rows'):
        described(monkeypatch, **wrong)

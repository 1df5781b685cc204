# SPDX-License-Identifier: BSD-3-Clause
"""Classes of NUMA distances, variation between domains, and the parsers on recorded outputs."""

import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of

from checks.core import topology as topology_module
from checks.core.topology import Cache, Topology, topology_of
from checks.memory.likwid import repetitions
from checks.memory.numa_matrix import coefficient_of_variation, distance_classes, normalized_range
from plumbline.errors import SiteError
from plumbline.site.sites import Partition

HOOKS = 'choose_modes look_at_the_domains choose_budget choose_runs'
# The machine that recorded the outputs: two cores, and a last-level cache of 32 MiB
BOTH = frozenset({0, 1})
RECORDER = Topology(
    cores=((0,), (1,)), numa_domains=(BOTH,), sockets=(BOTH,), caches=(Cache(3, 2**25, BOTH),), arch='zen4',
    described_memory=None, numa_ids=(0,), numa_distances=((10,),),
)  # fmt: skip
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


def test_two_sockets_of_several_domains_are_two_groups():
    distances = [[10, 12, 32, 32], [12, 10, 32, 32], [32, 32, 10, 12], [32, 32, 12, 10]]
    classes = distance_classes(distances, 4)
    assert {name: len(members) for name, members in classes.items()} == {'local': 4, 'same_group': 4, 'other_group': 8}
    assert classes['same_group'] == [(0, 1), (1, 0), (2, 3), (3, 2)]


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


@pytest.mark.parametrize(
    ('check', 'run', 'seconds', 'output', 'value'),
    [
        ('NumaBandwidth', 'bandwidth_0_0', 1, 'likwid-bench-load-stream-placed', 29.52409),
        ('NumaLatency', 'latency_0_0', 1, 'multichase-20250815', 151.3),
        ('NumaStream', 'triad_0', 2, 'likwid-bench-stream-stream-placed', 13.64562),
    ],
)
def test_recorded_outputs_of_the_commands_that_the_checks_ask_for(
    case_on, recorded, tmp_path, check, run, seconds, output, value
):
    case = case_on(check, RECORDER, HOOKS, trials_of_case=3, **{'loop_seconds': seconds} if 'likwid' in output else {})
    command, *_ = recorded(f'{output}.header').splitlines()
    assert command.endswith(in_a_job(tmp_path, run, case.runs[run].options))
    assert case.sanity_faults(run_of(recorded(f'{output}.txt'), name=run)) == []
    (metric,) = (metric for metric in case.metrics if metric.run == run)
    assert value_of(metric, recorded(f'{output}.txt')) == pytest.approx(value, rel=1e-9)
    if check == 'NumaLatency':
        case.memory_mib = 1024
        (fault,) = case.sanity_faults(run_of(recorded(f'{output}.txt'), name=run))
        assert 'not as long as requested: expected total_memory = 1073741824' in fault


def test_threads_and_memory_elsewhere_are_seen(case_on, recorded):
    text = recorded('likwid-bench-stream-stream-placed.txt')
    domains = (frozenset({0, 1}), frozenset({2, 3}))
    node = replace(RECORDER, cores=((0,), (1,), (2,), (3,)), numa_domains=domains)
    case = case_on('NumaStream', node, HOOKS, trials_of_case=3)
    assert case.sanity_faults(run_of(text, name='triad_0')) == []
    assert case.sanity_faults(run_of(text, name='triad_1')) == [
        'threads were requested on CPUs [2, 3] and ran on [0, 1]',
        'memory was requested in NUMA domain 1 and allocated from CPUs [0]',
    ]
    unplaced = re.sub(r'^Allocate:.*\n', '', text, flags=re.MULTILINE)
    (fault,) = case.sanity_faults(run_of(unplaced, name='triad_0'))
    assert 'NUMA domain 0' in fault and '[]' in fault


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


def described(monkeypatch, **processor):
    processor = {'num_cpus': 4, 'num_cpus_per_core': 1, 'num_sockets': 2, **processor}
    entry = {'launcher': 'local', 'processor': processor}
    site = type('Site', (), {'from_reframe': False, 'partitions': {'node': Partition('node', entry)}})
    monkeypatch.setattr(topology_module, 'load_site', lambda name: site)
    return topology_of.__wrapped__('s', 'node')


def test_numa_distances_are_those_of_the_site_file_or_none(monkeypatch):
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


def test_the_distances_of_superdome_flex_are_those_of_its_latencies_and_fall_into_its_groups():
    """Of 002, section 2: latencies in ns, and four domains in each of three groups."""
    distances = topology_of('superdome-flex', 'node').numa_distances
    classes = distance_classes(distances, 12)
    assert {name: len(members) for name, members in classes.items()} == {
        'local': 12, 'same_group_16': 24, 'same_group_26': 12, 'other_group': 96,
    }  # fmt: skip
    groups = {(i // 4, j // 4) for i, j in classes['other_group']}
    assert all(a != b for a, b in groups) and len(groups) == 6
    for name, latency in (('local', 81), ('same_group_16', 132), ('same_group_26', 212.5), ('other_group', 360)):
        (i, j), *_ = classes[name]
        assert distances[i][j] == pytest.approx(10 * latency / 81, abs=0.5)

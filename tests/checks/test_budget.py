# SPDX-License-Identifier: BSD-3-Clause
"""Sizes within the budget of a trial, whatever a machine reports, and caches that no processor has.

How a case cuts its data to time and memory is in test_benchmark.py.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from described_nodes import TWO
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row
from scratch import site_text

from checks.core import budget
from checks.core.topology import LARGEST_CACHE_OF_CORE, Cache, Topology, topology_of

GIB = 2**30


def node(cores: int, arch: str = '') -> Topology:
    cpus = frozenset(range(cores))
    return Topology(tuple((cpu,) for cpu in range(cores)), (cpus,), (cpus,), (), arch, 8 * GIB)


@given(st.floats(1, 1e15), st.floats(1e-3, 1e12), st.floats(1, 3), st.floats(0.1, 1e5))
def test_the_largest_size_takes_no_longer_than_allowed(wanted, rate, power, seconds):
    def takes(size):
        return size**power / rate

    found = budget.largest(wanted, takes, seconds)
    assert 0 <= found <= wanted and takes(found) <= seconds
    assert found == wanted or takes(found * 1.001 + 1e-9 * wanted) > seconds


@each_row(
    ('slowed', 'size', 'informational'),
    [(1, 3 * GIB, False), (2, 2 * GIB, True), (4, 0.75 * GIB, True), (40, 3 * GIB, False)],
)
def test_a_busy_node_cuts_a_size_that_is_then_informational(case_on, monkeypatch, slowed, size, informational):
    """A trial of 10 s takes 1 s without data: 40 times as slow, no size would do, and the usual one is taken."""
    monkeypatch.setattr('checks.core.budget.slowed', lambda *of: slowed)
    case = case_on('HPCC', TWO, 'start_empty choose_budget', trial_seconds=10)
    assert case.fit(3 * GIB, 0, lambda size: 1 + 2 * size / GIB) == 3 * GIB and not case.below_caches
    found = case.fit(3 * GIB, 0, lambda size: 1 + 2 * size / GIB, yields=True)
    assert (round(found / GIB, 2), case.below_caches) == (round(size / GIB, 2), informational)
    assert ('busy' in case.provenance.get('size_cut', '')) is informational


@pytest.mark.parametrize(('size', 'beside', 'kind', 'cut'), [
    ('quick', 2.0, '', True), ('quick', 2.0, 'elsewhere', True), ('quick', 0.0, '', False), ('full', 2.0, '', False),
    ('quick', 2.0, 'baseline', False),
])  # fmt: skip
def test_hpcc_fits_its_quick_size_to_a_busy_node_unless_a_reference_needs_the_usual_one(
    case_on, monkeypatch, size, beside, kind, cut
):
    rows = [SimpleNamespace(kind=kind, id=SimpleNamespace(check='HPCC'))] * bool(kind)
    monkeypatch.setattr('checks.core.budget.load_references', lambda _: SimpleNamespace(rows=rows))
    two = replace(node(2, 'zen4'), caches=(Cache(3, 32 * 2**20, frozenset({0, 1})),))
    usual, found = (
        case_on(
            'HPCC', two, 'start_empty', beside=others, size=size, trial_seconds=55, mode='quick',
            site=SimpleNamespace(name='s'), placement=SimpleNamespace(ranks_per_node=2),
        ) for others in (0.0, beside)
    )  # fmt: skip
    quiet, n = usual.choose_order(2), found.choose_order(2)
    assert (0 < n < quiet if cut else n == quiet) and found.below_caches is (usual.below_caches or cut)


@each_row(
    ('topology', 'peaks', 'least', 'most'),
    [
        (node(2, 'zen4'), {}, 20e9, 93e9),  # measured: 93 GFlop/s
        (node(2), {'flops_dp': 100e9}, 30e9, 60e9),
    ],
)
def test_dense_algebra_is_estimated_slower_than_it_is(topology, peaks, least, most):
    assert least <= budget.dense_rate(topology, peaks) <= most


def test_a_cache_that_no_processor_has_is_reduced_and_said(tmp_path, monkeypatch):
    def described(cores: int, size: int):
        (tmp_path / f'of{size}').mkdir()
        text = site_text(f"""\
processor:
  {{num_cpus: {cores}, num_cpus_per_core: 1, num_sockets: 1, caches: {{L3: {{size: {size} MiB, num_cpus: {cores}}}}}}}
""")
        (tmp_path / f'of{size}/site.yaml').write_text(text)
        return topology_of(f'of{size}', 'node')

    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path))
    of_a_host = described(2, 480)
    assert of_a_host.last_level_cache_bytes((0, 1)) == 2 * LARGEST_CACHE_OF_CORE
    assert 'L3 of 480 MiB for 2 cores counts as 128 MiB' in of_a_host.cache_note
    real = described(16, 768)  # EPYC 9184X, its caches as one
    assert (real.last_level_cache_bytes((0,)), real.cache_note) == (768 * 2**20, '')


@each_row(
    'trials, seconds, max_time, jobs',
    [
        (100, 60, 7200, 1),
        # a job of 660 s holds 5 trials of 100 s: 660 - 60 beside them - half a trial of reserve
        (5, 100, 660, 1),
        (6, 100, 660, 2),
        (5, 200, 1080, 2),
    ],
)
def test_the_jobs_that_a_queue_makes_of_the_trials(trials, seconds, max_time, jobs):
    assert budget.jobs_for(trials, seconds, max_time) == jobs
    assert [budget.longest_trial(most) for most in (3600, 61, 10)] == [2360, 1, 1]


@each_row(
    'trials, seconds, limit, max_time, named',
    [  # 160 s are 60 s and ten times 10 s; a job has 60 s beside its trials
        (1, 10, 160, None, ['about 10 s', 'after 2 min 40 s', 'a job of 3 min 40 s']),
        (5, 1803, 7872, 3600, ['about 30 min 3 s', 'each ended after 1 h', '5 jobs of max_time, 1 h']),
        (5, 264_000, 1_056_660, 86400, ['73 h 20 min', 'longer than max_time, 24 h', 'file_systems']),
    ],
)
def test_the_time_of_a_job_in_words(trials, seconds, limit, max_time, named):
    said = budget.time_in_words(trials, seconds, limit, max_time)
    assert all(words in said for words in named)

# SPDX-License-Identifier: BSD-3-Clause
"""Latency of the caches: the chain that fills half of each, and what multichase printed of two of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of

from checks.core.topology import Cache, Topology


@pytest.fixture(scope='module')
def module():
    import checks.memory.cache_latency  # here, after ReFrame's runtime is up

    return checks.memory.cache_latency


@pytest.fixture
def node(module):
    """What `choose_runs` needs of a test, on the machine that recorded the outputs: two cores with L1 and L2 each."""
    cores = ((0,), (1,))
    caches = tuple(Cache(level, size, frozenset(core)) for core in cores for level, size in ((1, 2**15), (2, 2**20)))
    topology = Topology(
        cores=cores, numa_domains=(frozenset({0, 1}),), sockets=(frozenset({0, 1}),), caches=caches, arch='zen4',
        described_memory=None,
    )  # fmt: skip
    node = type('Node', (), {'topology': topology, 'half_seconds': 3, 'runs': {}})()
    module.CacheLatency.choose_runs(node)
    return node


@pytest.mark.parametrize(('level', 'expected'), [('L1', 1.173), ('L2', 4.044)])
def test_recorded_outputs_of_the_command_that_the_check_asks_for(module, node, recorded, level, expected):
    name = f'multichase-20250815-{level}'
    command, *_ = recorded(f'{name}.header').splitlines()
    assert command.endswith(' '.join(['multichase', *node.runs[level].options]))
    (metric,) = (metric for metric in node.metrics if metric.run == level)
    assert (value_of(metric, recorded(f'{name}.txt')), metric.dims) == (expected, {'level': level})
    faults = module.CacheLatency.sanity_faults
    assert faults(node, run_of(recorded(f'{name}.txt'), name=level)) == []
    (fault,) = faults(node, run_of(recorded(f'{name}.txt'), name={'L1': 'L2', 'L2': 'L1'}[level]))
    assert 'not as long as requested: expected total_memory = ' in fault


@given(st.integers(2**13, 2**30))
def test_a_chain_fits_its_cache_and_has_whole_parts(cache):
    from checks.memory.cache_latency import chain_within

    size, locality = chain_within(cache)
    assert cache / 4 < size <= cache / 2 and size % locality == 0 and locality <= 2**18

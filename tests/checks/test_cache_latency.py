# SPDX-License-Identifier: BSD-3-Clause
"""Latency of the caches: the chain that fills half of each, and what multichase printed of two of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of

from checks.core.topology import Cache, Topology
from checks.memory.cache_latency import chain_within

# The machine that recorded the outputs: two cores with L1 and L2 each
CORES, BOTH = ((0,), (1,)), frozenset({0, 1})
RECORDER = Topology(
    cores=CORES, numa_domains=(BOTH,), sockets=(BOTH,), arch='zen4', described_memory=None,
    caches=tuple(Cache(level, size, frozenset(core)) for core in CORES for level, size in ((1, 2**15), (2, 2**20))),
)  # fmt: skip


@pytest.mark.parametrize(('level', 'other', 'expected'), [('L1', 'L2', 1.173), ('L2', 'L1', 4.044)])
def test_recorded_outputs_of_the_command_that_the_check_asks_for(case_on, recorded, level, other, expected):
    case = case_on('CacheLatency', RECORDER, 'choose_budget choose_runs')
    output = recorded(f'multichase-20250815-{level}.txt')
    command, *_ = recorded(f'multichase-20250815-{level}.header').splitlines()
    assert command.endswith(' '.join(['multichase', *case.runs[level].options]))
    (metric,) = (metric for metric in case.metrics if metric.run == level)
    assert (value_of(metric, output), metric.dims) == (expected, {'level': level})
    assert case.sanity_faults(run_of(output, name=level)) == []
    (fault,) = case.sanity_faults(run_of(output, name=other))
    assert 'not as long as requested: expected total_memory = ' in fault


@given(st.integers(2**13, 2**30))
def test_a_chain_fits_its_cache_and_has_whole_parts(cache):
    size, locality = chain_within(cache)
    assert cache / 4 < size <= cache / 2 and size % locality == 0 and locality <= 2**18

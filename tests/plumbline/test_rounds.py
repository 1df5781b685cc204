# SPDX-License-Identifier: BSD-3-Clause
"""The tournament of a sweep over pairs of nodes."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.rounds import rounds_of

VARIABLE = 'PLUMBLINE_NODE_SWEEP_ROUNDS'


def names(count: int) -> list[str]:
    return [f'n{i}' for i in range(count)]


@given(st.integers(2, 40))
def test_every_pair_once_and_no_node_twice_in_a_round(count):
    rounds = list(rounds_of(names(count), 2))
    assert len(rounds) == count - 1 + count % 2
    for pairs in rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy)) == count // 2 * 2
    # a pair has one name, whichever nodes are there beside it
    assert sorted(pair for pairs in rounds for pair in pairs) == sorted(combinations(names(count), 2))


@given(st.integers(1, 40))
def test_single_nodes_are_one_round(count):
    assert list(rounds_of(names(count), 1)) == [[(name,) for name in names(count)]]


@given(st.integers(2, 25), st.integers(1, 30))
def test_a_sample_of_the_pairs_lets_each_node_meet_others_far_from_each_other(count, asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(asked))
        rounds = [[tuple(int(name[1:]) for name in pair) for pair in pairs] for pairs in rounds_of(names(count), 2)]
    ring = count - 1 + count % 2
    assert len(rounds) == min(asked, ring)
    assert all(len(pairs) == count // 2 for pairs in rounds)
    for node in range(ring):
        met = [sum(pair) - node for pairs in rounds for pair in pairs if node in pair and ring not in pair]
        assert len(met) == len(set(met))
        apart = [min((a - b) % ring, (b - a) % ring) for a, b in combinations(met, 2)]
        assert min(apart, default=ring) >= ring // len(rounds)

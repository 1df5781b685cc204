"""The tournament of a sweep over pairs of nodes."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from checks.core.sweep import rounds_of

nodes = st.integers(2, 40).map(lambda n: [f'n{i}' for i in range(n)])


@given(nodes)
def test_every_pair_once_and_no_node_twice_in_a_round(names):
    rounds = rounds_of(names, 2)
    assert len(rounds) == len(names) - 1 + len(names) % 2
    for pairs in rounds:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy)) == len(names) // 2 * 2
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(sorted, combinations(names, 2)))


@given(nodes)
def test_single_nodes_are_one_round(names):
    assert rounds_of(names, 1) == [[(name,) for name in names]]


def test_a_sample_of_the_pairs(monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SWEEP_ROUNDS', '2')
    assert [len(pairs) for pairs in rounds_of([f'n{i}' for i in range(8)], 2)] == [4, 4]

# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of a node sweep: every node alone, or every pair of nodes, no node twice in a round."""

from collections.abc import Iterator, Sequence

from plumbline import settings

Place = tuple[str, ...]


def number_of_rounds(nodes: int) -> int:
    """Return the number of rounds in which each node meets every other; ``PLUMBLINE_NODE_SWEEP_ROUNDS`` limits it."""
    every = nodes - 1 + nodes % 2
    chosen = settings.NODE_SWEEP_ROUNDS.get()
    return every if chosen is None else min(chosen, every)


def rounds_of(nodes: list[str], per_place: int) -> Iterator[list[Place]]:
    """Yield the places of each round: every node in one round, or every pair of nodes in as few rounds as possible.

    `per_place`: nodes of a place, 1 or 2. With an odd number of nodes, one of them pauses in each round.
    """
    if per_place == 1:
        yield [(node,) for node in nodes]
    else:
        yield from tournament(nodes, number_of_rounds(len(nodes)))


def tournament(nodes: Sequence[str], count: int) -> Iterator[list[Place]]:
    """Yield `count` rounds of pairs of nodes. All rounds together pair each node with every other.

    If `count` is less than all rounds, the partners of a node are spread over the list as far as possible: neighbours
    in the list are often neighbours in the network.
    """
    size = len(nodes) - 1 + len(nodes) % 2
    for number in range(count):
        # Two nodes meet if their indices add up to `total` modulo `size`, which is odd; the node that would meet itself
        # meets the node of index `size`, where there is one.
        total = number * size // count
        alone = total * (size + 1) // 2 % size
        pairs = [(alone, size), *(((alone - i) % size, (alone + i) % size) for i in range(1, size // 2 + 1))]
        yield [tuple(nodes[i] for i in sorted(pair)) for pair in pairs if len(nodes) not in pair]

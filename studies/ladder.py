#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How surely the node ladder names what is slow, and what it costs: simulated nodes, the decisions of the real check.

    python studies/ladder.py quality [NODES SESSIONS]   1024 nodes, 100 sessions of each kind
    python studies/ladder.py cost                       rounds and seconds by nodes and rails, by the model of the time

Nodes have switches of 16. A pair has the bandwidth of the slowest of its two network devices, the uplinks of its
switches, if they are two, and of the pair itself, with log-normal noise of 3 %; one of 200 measurements loses 20 to
70 % to the traffic of others. What is planted loses 15 to 80 %: all network devices of one node in 100, or one of four,
as many pairs of nodes that meet, or the uplink of a switch.
"""

import math
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from checks.ladder import judge  # noqa: E402

LEVEL, NOISE, OUTLIERS = 12_000.0, 0.03, 1 / 200
OF_SWITCH, LIMIT = 16, 840
KINDS = ('nothing', 'nodes', 'rails', 'pairs', 'a switch')


class Simulated:
    """A machine with planted losses. `left`: slow node, rail, pair or uplink -> share of its bandwidth that is left."""

    def __init__(self, nodes: int, rails: int, random: random.Random):
        self.random, self.rails, self.spent = random, rails, 0.0
        self.nodes = [f'n{number}' for number in range(nodes)]
        self.places = {node: [f'switch s{number // OF_SWITCH}'] for number, node in enumerate(self.nodes)}
        self.left: dict[tuple, float] = {}

    def plant(self, kind: str, rounds: int):
        """Make something of this kind slow; a slow pair is one that meets in the rounds."""
        lost = lambda: 1 - self.random.uniform(0.15, 0.8)  # noqa: E731
        few = max(1, len(self.nodes) // 100)
        if kind == 'nodes':
            self.left |= {('node', node): lost() for node in self.random.sample(self.nodes, few)}
        elif kind == 'rails':
            chosen = self.random.sample(self.nodes, few)
            self.left |= {('rail', node, self.random.randrange(self.rails)): lost() for node in chosen}
        elif kind == 'pairs':
            met = [pair for pairs in judge.plan(self.nodes, self.places, rounds) for pair in pairs]
            self.left |= {('pair', *pair): lost() for pair in self.random.sample(met, few)}
        elif kind == 'a switch':
            self.left['uplink', f'switch s{self.random.randrange(len(self.nodes) // OF_SWITCH)}'] = lost()

    def share(self, keys) -> float:
        return min((self.left[key] for key in keys if key in self.left), default=1.0)

    def noisy(self, value: float) -> float:
        lost = self.random.uniform(0.2, 0.7) if self.random.random() < OUTLIERS else 0.0
        return value * (1 - lost) * math.exp(self.random.gauss(0, NOISE))

    def preflight(self, nodes) -> dict[str, str]:
        self.spent += judge.ROUND + len(nodes) * judge.STEP
        return {}

    def loopback(self, nodes) -> dict[str, float]:
        self.spent += judge.ROUND + len(nodes) * judge.STEP
        return {node: self.noisy(2 * LEVEL) for node in nodes}

    def meet(self, rail: int, pairs) -> list[float]:
        self.spent += judge.ROUND + len(pairs) * judge.STEP
        return [self.noisy(LEVEL * self.share(self.keys(rail, pair))) for pair in pairs]

    def keys(self, rail: int, pair):
        (first,), (second,) = (self.places[node] for node in pair)
        uplinks = [('uplink', first), ('uplink', second)] if first != second else []
        own = [key for node in pair for key in (('node', node), ('rail', node, rail))]
        return [('pair', *pair), ('pair', *reversed(pair)), *own, *uplinks]

    def together(self, nodes) -> float:
        self.spent += judge.ROUND + len(nodes) * 0.005
        of_all = [('node', node) for node in nodes] + [('uplink', self.places[node][0]) for node in nodes]
        return LEVEL * self.share(of_all) * math.exp(self.random.gauss(0, NOISE))

    def seconds(self) -> float:
        return self.spent


def quality(nodes: int, sessions: int):
    """Print for each kind the share that was found, false names in a session, and the time of a session."""
    print(f'{nodes} nodes, {sessions} sessions of each kind; one rail, or four where rails are slow')
    print(f'{"planted":10} {"of them":>8} {"found %":>9} {"false a session":>16} {"rounds":>7} {"seconds":>8}')
    for kind in KINDS:
        rails = 4 if kind == 'rails' else 1
        planted = right_names = false = 0
        spent, rounds = 0.0, judge.rounds_within(nodes, rails, LIMIT)
        for seed in range(sessions):
            machine = Simulated(nodes, rails, random.Random(f'{kind} {seed}'))
            machine.plant(kind, rounds)
            ended = judge.climb(machine, machine.nodes, machine.places, rails, rounds, seconds=LIMIT)
            right = {where(key) for key in machine.left}
            named = {suspect.where for suspect in ended.named}
            planted, right_names = planted + len(right), right_names + len(right & named)
            false += len(named - right)
            spent = max(spent, machine.seconds())
        share = f'{100 * right_names / planted:.2f}' if planted else '-'
        print(f'{kind:10} {planted:8} {share:>9} {false / sessions:16.3f} {rounds:7} {spent:8.0f}', flush=True)


def where(key: tuple) -> str:
    """Return the words by which the ladder names a planted loss."""
    kind, *words = key
    return {
        'node': 'node {0}', 'rail': 'rail {1} of node {0}', 'pair': 'pair {0},{1}', 'uplink': 'uplink of {0}',
    }[kind].format(*words, '')  # fmt: skip


def cost():
    """Print the rounds and seconds of a ladder, and of one job for each pair that it measures."""
    print(f'{"nodes":>6} {"rails":>6} {"rounds":>7} {"pairs":>8} {"seconds":>8} {"node hours":>11}')
    for nodes in (2, 16, 64, 256, 1000, 4000, 9000):
        for rails in (1, 4, 8):
            rounds = judge.rounds_within(nodes, rails, LIMIT)
            seconds = judge.seconds_of(nodes, rounds)
            pairs, hours = rounds * (nodes // 2), nodes * seconds / 3600
            print(f'{nodes:6} {rails:6} {rounds:7} {pairs:8} {seconds:8.0f} {hours:11.1f}')


if __name__ == '__main__':
    match sys.argv[1:]:
        case ['quality', *given] if len(given) in (0, 2):
            quality(*(map(int, given) if given else (1024, 100)))
        case ['cost']:
            cost()
        case _:
            sys.exit(__doc__)

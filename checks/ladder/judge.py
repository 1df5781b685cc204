# SPDX-License-Identifier: BSD-3-Clause
"""Climb the ladder over the nodes of a job: settings, loopback, rounds of pairs, largest group with full bandwidth.

This module decides; a `Machine` measures: ``on_node.py`` in a job, its tests by simulation. A node takes
part in a rung if it passed the rungs before. Bandwidths are in MB/s, 0 without a result.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import NamedTuple, Protocol

from plumbline.grouping import Key, Named, explain
from plumbline.rounds import tournament

Pair = tuple[str, ...]
Places = Mapping[str, Iterable[str]]  # node -> its places, such as ``switch s3``

MEETINGS = 4  # least meetings of each node on each rail: fewer cannot tell a node from its partners
SUSTAIN = 0.7  # part of the bandwidth of the group before that a larger group must keep
AGAIN = 2  # further meetings of a suspect, since a burst of another job may slow one meeting
_NOISE = 3  # standard deviations of healthy pairs that a slow one must be below
_FEW = 12  # least number of meetings whose median is the level of their kind
# Weight of a healthy meeting against a suspect: a place must be slow in four of five of its meetings
_COST = {'uplink': 4.0, 'place': 4.0, 'plane': 4.0}
# Seconds in the model of the run time: `STEP` to start each of several steps, `ROUND` until the last step has measured,
# `_RANK` to start each rank of a group. docs/fleet.md has the measurements.
STEP, ROUND, _RANK = 0.02, 4.0, 0.005
_FOR_GROUPS = 0.3  # part of the time that is kept for groups


class Machine(Protocol):
    """The measurements of a ladder. Each method measures all its arguments at the same time."""

    def preflight(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return why nodes are not set as expected, by node."""

    def loopback(self, nodes: Sequence[str]) -> dict[str, float]:
        """Return the bandwidth within each node; empty if a node has room for one rank only."""

    def meet(self, rail: int, pairs: Sequence[Pair]) -> list[float]:
        """Return the bandwidth of each pair of nodes on a rail."""

    def together(self, nodes: Sequence[str]) -> float:
        """Return the bus bandwidth of all nodes in one collective."""

    def seconds(self) -> float:
        """Return the time since the start."""


class Rules(NamedTuple):
    """How long a ladder may take, and what it names: losses of more than `tolerance` against comparable pairs.

    `rounds`: of pairs, at most. `seconds`: of all.
    """

    rounds: int
    seconds: float
    tolerance: float = 0.1


class Meeting(NamedTuple):
    """A pair of nodes that was measured on a rail, in a round that counts from 1."""

    round: int
    rail: int
    pair: Pair
    value: float


class Climbed(NamedTuple):
    """The result of a ladder. `group`: the largest group that keeps its bandwidth; `bandwidth`: its bus bandwidth."""

    named: list[Named]
    meetings: list[Meeting]
    loopback: dict[str, float]
    group: list[str]
    bandwidth: float


# Rounds


def rounds_within(nodes: int, rails: int, seconds: float) -> int:
    """Return the number of rounds of pairs that fit into the time, at most all: every pair on every rail."""
    every = nodes - 1 + nodes % 2
    wanted = every * -(-MEETINGS * rails // every)
    for_rounds = seconds * (1 - _FOR_GROUPS) - 2 * (ROUND + nodes * STEP)
    return min(wanted, max(1, int(for_rounds / (ROUND + nodes // 2 * STEP)) - AGAIN))


def seconds_of(nodes: int, rounds: int) -> float:
    """Return the estimated seconds of a whole ladder in which one node is bad."""
    groups = 3 * math.ceil(math.log2(max(nodes, 2)))
    return (
        2 * (ROUND + nodes * STEP) + (rounds + AGAIN) * (ROUND + nodes // 2 * STEP) + groups * (ROUND + nodes * _RANK)
    )


def plan(nodes: Sequence[str], places: Places, most: int) -> list[list[Pair]]:
    """Return at most `most` rounds of pairs: whole tournaments, or a part of one.

    In a part of a tournament, a quarter of the rounds stays within the narrowest place of each node, which tells a
    switch with a slow uplink from a switch that is slow inside.
    """
    sizes = Counter(place for node in nodes for place in places.get(node, ()))
    inner = {node: min(places.get(node, ['']), key=lambda place: (sizes[place], place)) for node in nodes}
    ordered = sorted(nodes, key=inner.__getitem__)
    every = len(nodes) - 1 + len(nodes) % 2
    if every <= most:
        return list(tournament(ordered, every)) * (most // every)
    groups = defaultdict(list)
    for node in ordered:
        groups[inner[node]].append(node)
    within = [
        list(tournament(group, min(most // 4, len(group) - 1 + len(group) % 2)))
        for group in groups.values()
        if 1 < len(group) < len(nodes)
    ]
    rounds = [[pair for part in parts for pair in part] for parts in zip_longest(*within, fillvalue=[])]
    return rounds + list(tournament(ordered, most - len(rounds)))


def rail_of(number: int, nodes: int, rails: int) -> int:
    """Return the rail of round `number`, counted from 0; when a pair meets again, it uses another rail."""
    again, at = divmod(number, nodes - 1 + nodes % 2)
    return (at + again) % rails


# Conclusions


def suspects(meetings: Sequence[Meeting], places: Places, tolerance: float, rails: int = 1) -> list[Named]:
    """Return the suspects of the slow pairs: nodes, their rails, places, their uplinks, rails of all nodes, pairs.

    A pair is slow if its best meeting on a rail is below the level of its kind by more than `tolerance` and by more
    than noise. Pairs that share the same number of places are of one kind.
    """
    best: dict[tuple[frozenset[str], int], Meeting] = {}
    for meeting in meetings:
        key = frozenset(meeting.pair), meeting.rail
        if meeting.value >= best.get(key, meeting).value:
            best[key] = meeting
    best_meetings = list(best.values())
    bounds = _expected(best_meetings, places, tolerance)
    levels = {meeting: level for meeting, (level, _) in bounds.items()}
    slow = [meeting for meeting, (_, least) in bounds.items() if meeting.value < least]
    well = [meeting for meeting, (_, least) in bounds.items() if meeting.value >= least]
    scopes = {meeting: _scopes(meeting, places, rails) for meeting in best_meetings}
    healthy = Counter(key for meeting in well for key in scopes[meeting])
    named = []
    for group in explain([scopes[meeting] for meeting in slow], [scopes[meeting] for meeting in well], _COST):
        its = [slow[index] for index in group.places]
        if group.key[0] != 'pair' or len(its) > healthy[group.key]:
            named.append(_named(group.key, its, healthy[group.key], levels, places))
    return named


def level_of(values: Sequence[float]) -> float:
    """Return the median of the healthy values, which are those near the upper fifth; a fifth must be healthy."""
    upper = sorted(values)[-1 - len(values) // 5] if values else 0.0
    return median([value for value in values if value >= 0.9 * upper] or [0.0])


def least_of(values: Sequence[float], level: float, tolerance: float) -> float:
    """Return the least value that is not slow; the noise is taken from the values above the level."""
    above = [math.log(value / level) for value in values if level and value >= level]
    noise = 1.4826 * median(above) if above else 0.0
    return level * min(1 - tolerance, math.exp(-_NOISE * noise))


def _expected(meetings: Sequence[Meeting], places: Places, tolerance: float) -> dict[Meeting, tuple[float, float]]:
    """Return for each meeting the level and the least healthy value of its kind; if its kind has few, of all kinds."""
    kinds = {one: len(set.intersection(*(set(places.get(node, ())) for node in one.pair))) for one in meetings}
    values = defaultdict(list)
    for meeting, kind in kinds.items():
        values[kind].append(meeting.value)
    every = [meeting.value for meeting in meetings]
    bounds = {}
    for kind, of_kind in values.items():
        alike = of_kind if len(of_kind) >= _FEW else every
        bounds[kind] = level_of(alike), least_of(alike, level_of(alike), tolerance)
    return {meeting: bounds[kind] for meeting, kind in kinds.items()}


def _scopes(one: Meeting, places: Places, rails: int) -> list[Key]:
    """Return the scopes that may make a pair slow, the narrowest first."""
    first, second = (set(places.get(node, ())) for node in one.pair)
    scopes: list[Key] = [('pair', *one.pair)]
    if rails > 1:
        scopes += [('rail', node, one.rail) for node in one.pair]
    scopes += [('node', node) for node in one.pair]
    scopes += [('uplink', place) for place in sorted(first ^ second)]
    scopes += [('place', place) for place in sorted(first | second)]
    return scopes + ([('plane', one.rail)] if rails > 1 else [])


def _named(key: Key, slow: Sequence[Meeting], healthy: int, expected: Mapping[Meeting, float], places: Places) -> Named:
    kind, *words = key
    where = {
        'pair': 'pair {0},{1}', 'rail': 'rail {1} of node {0}', 'node': 'node {0}', 'uplink': 'uplink of {0}',
        'place': '{0}', 'plane': 'rail {0} of all nodes',
    }[str(kind)].format(*words)  # fmt: skip
    if kind in ('uplink', 'place'):
        there = {node for meeting in slow for node in meeting.pair if words[0] in list(places.get(node, ()))}
        nodes = tuple(sorted(there))
    else:
        nodes = tuple(word for word in words if isinstance(word, str))
    lost = _lost(median(meeting.value for meeting in slow), median(expected[meeting] for meeting in slow))
    text = f'{where}: {lost} in {len(slow)} of {len(slow) + healthy} pairs'
    return Named(str(kind), where, nodes, text, int(str(words[1])) if kind == 'rail' else None)


def _lost(value: float, expected: float) -> str:
    return f'{value:.4g} MB/s, expected {expected:.4g} ({value / expected - 1:+.0%})' if value else 'no result'


def rounds_again(named: Sequence[Named], nodes: Sequence[str], rails: int) -> list[tuple[int, list[Pair]]]:
    """Return rail and pairs of the rounds that measure suspects again; suspected nodes meet healthy partners."""
    accused = {node for suspect in named for node in suspect.nodes}
    partners = [node for node in nodes if node not in accused]
    wanted: list[tuple[int, Pair]] = []
    for suspect in named:
        its = range(rails) if suspect.rail is None else [suspect.rail]
        if suspect.kind == 'pair':
            wanted += [(rail, suspect.nodes) for rail in its] * AGAIN
        elif suspect.kind in ('node', 'rail') and partners:
            for rail in its:
                chosen = [partners[(len(wanted) * 7 + turn) % len(partners)] for turn in range(AGAIN)]
                wanted += [(rail, (suspect.nodes[0], partner)) for partner in chosen]
    rounds: list[tuple[int, list[Pair]]] = []
    for rail, pair in wanted:
        for its_rail, pairs in rounds:
            if rail == its_rail and not set(pair) & {node for other in pairs for node in other}:
                pairs.append(pair)
                break
        else:
            rounds.append((rail, [pair]))
    return rounds


def confirmed(meetings: Sequence[Meeting], places: Places, tolerance: float, rails: int = 1) -> list[Named]:
    """Return the suspects, except pairs that met only once."""
    met = Counter(one.pair for one in meetings)
    return [one for one in suspects(meetings, places, tolerance, rails) if one.kind != 'pair' or met[one.nodes] > 1]


def low_within(values: Mapping[str, float], tolerance: float) -> list[Named]:
    """Return the nodes whose loopback is below that of the others by more than `tolerance` and more than noise."""
    level = level_of(list(values.values()))
    least = least_of(list(values.values()), level, tolerance)
    return [
        Named('loopback', f'node {node}', (node,), f'node {node}: {_lost(value, level)} within the node')
        for node, value in values.items()
        if value < least or not value
    ]


# Groups


def in_order(nodes: Sequence[str], meetings: Sequence[Meeting], places: Places) -> list[str]:
    """Return the nodes in the order of growth: the best pair, then the others by the places that they share with it."""
    members = set(nodes)
    best = max((one for one in meetings if members.issuperset(one.pair)), key=lambda one: one.value, default=None)
    first = list(best.pair) if best else []
    near = {place for node in first for place in places.get(node, ())}

    def distance(node: str) -> tuple[int, list[str]]:
        its = sorted(places.get(node, ()))
        return -len(near.intersection(its)), its

    return first + sorted((node for node in nodes if node not in first), key=distance)


def grow(
    nodes: Sequence[str], together: Callable[[Sequence[str]], float], late: Callable[[], bool]
) -> tuple[list[str], float, list[Named]]:
    """Return the largest group grown from the first two nodes, its bandwidth, and the refused nodes.

    A group doubles as long as it keeps `SUSTAIN` times the bandwidth of the group before. Otherwise the added half is
    bisected down to the single nodes that reduce it. When `late` returns True, growth stops.
    """
    refused: list[Named] = []
    group, level, rest = list(nodes[:2]), 0.0, list(nodes[2:])
    if len(group) == 2 and not (level := together(group)):
        pair = f'pair {",".join(group)}'
        return [], 0.0, [Named('group', pair, tuple(group), f'{pair}: no result of the collective')]
    parts: list[list[str]] = []
    while (parts or rest) and not late():
        if not parts:
            parts, rest = [rest[: len(group)]], rest[len(group) :]
        part = parts.pop(0)
        for _ in range(1 + (len(part) == 1)):  # a single node is refused only after two slow runs
            if (value := together([*group, *part])) and value >= SUSTAIN * level:
                break
        if value and value >= SUSTAIN * level:
            group, level = [*group, *part], value
        elif len(part) > 1:
            parts = [part[: len(part) // 2], part[len(part) // 2 :], *parts]
        else:
            result = f'{value:.4g} MB/s' if value else 'no result'
            without = f'in a group with {len(group)} nodes, which have {level:.4g} MB/s without it'
            refused.append(Named('group', f'node {part[0]}', (part[0],), f'node {part[0]}: {result} {without}'))
    return group, level, refused


def climb(
    machine: Machine, nodes: Sequence[str], places: Places, rails: int, rules: Rules,
    tell: Callable[..., None] = lambda *words: None,
) -> Climbed:  # fmt: skip
    """Climb the ladder; call `tell` with the words of each result."""
    named = [
        Named('settings', f'node {node}', (node,), f'node {node}: {why}')
        for node, why in sorted(machine.preflight(nodes).items())
    ]
    remaining = _without(nodes, named)
    loopback: dict[str, float] = {}
    low: list[Named] = []
    for _ in range(1 + AGAIN):
        for node, value in machine.loopback([suspect.nodes[0] for suspect in low] or remaining).items():
            loopback[node] = max(value, loopback.get(node, 0.0))
            tell('loopback', node, f'{value:.2f}')
        if not (low := low_within(loopback, rules.tolerance)):
            break
    named += low
    remaining = _without(remaining, named)
    meetings: list[Meeting] = []

    def meet(rail: int, pairs: Sequence[Pair]) -> None:
        number, began = meetings[-1].round + 1 if meetings else 1, machine.seconds()
        for pair, value in zip(pairs, machine.meet(rail, pairs), strict=True):
            meetings.append(Meeting(number, rail, pair, value))
            tell('pair', number, rail, ','.join(pair), f'{value:.2f}')
        tell('round', number, len(pairs), f'{machine.seconds() - began:.1f} s')

    until = rules.seconds * (1 - _FOR_GROUPS)
    for number, pairs in enumerate(plan(remaining, places, rules.rounds) if len(remaining) > 1 else []):
        if machine.seconds() > until:
            tell('late', f'{number} of {rules.rounds} rounds of pairs were measured')
            break
        meet(rail_of(number, len(remaining), rails), pairs)
    again = rounds_again(suspects(meetings, places, rules.tolerance, rails), remaining, rails)
    for rail, pairs in again[: 4 * AGAIN * rails]:
        meet(rail, pairs)
    named += confirmed(meetings, places, rules.tolerance, rails)
    good = in_order(_without(remaining, named), meetings, places)

    def together(group: Sequence[str]) -> float:
        value = machine.together(group)
        tell('group', len(group), f'{value:.2f}', ','.join(group))
        return value

    group, bandwidth, refused = grow(good, together, lambda: machine.seconds() > rules.seconds)
    for suspect in (named := named + refused):
        tell('named', json.dumps(suspect))
    tell('largest', len(group), f'{bandwidth:.2f}')
    return Climbed(named, meetings, loopback, group, bandwidth)


def _without(nodes: Sequence[str], named: Sequence[Named]) -> list[str]:
    """Return the nodes that are not named; both nodes of a named pair stay, since each may be healthy."""
    out = {node for suspect in named if suspect.kind != 'pair' for node in suspect.nodes}
    return [node for node in nodes if node not in out]

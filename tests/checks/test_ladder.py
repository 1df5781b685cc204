# SPDX-License-Identifier: BSD-3-Clause
"""The decisions of the node ladder, on simulated nodes with planted faults."""

import json
import math
import random
import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row

from checks.ladder import judge
from checks.ladder.judge import Meeting
from plumbline.grouping import Named

LEVEL, NOISE, OUTLIERS = 12_000.0, 0.03, 1 / 200
OF_SWITCH, LIMIT = 16, 840


class Simulated:
    """A machine with planted losses. `left`: slow node, rail, pair or uplink -> share of its bandwidth that is left.

    Also of a node within itself, or in a group alone; `wrong`: node -> why it is not set as expected.
    """

    def __init__(self, nodes: int, rails: int, random: random.Random):
        self.random, self.rails, self.spent = random, rails, 0.0
        self.nodes = [f'n{number}' for number in range(nodes)]
        self.places = {node: [f'switch s{number // OF_SWITCH}'] for number, node in enumerate(self.nodes)}
        self.left: dict[tuple, float] = {}
        self.wrong: dict[str, str] = {}

    def share(self, keys) -> float:
        return min((self.left[key] for key in keys if key in self.left), default=1.0)

    def noisy(self, value: float) -> float:
        lost = self.random.uniform(0.2, 0.7) if self.random.random() < OUTLIERS else 0.0
        return value * (1 - lost) * math.exp(self.random.gauss(0, NOISE))

    def preflight(self, nodes) -> dict[str, str]:
        self.spent += judge.ROUND + len(nodes) * judge.STEP
        return self.wrong

    def loopback(self, nodes) -> dict[str, float]:
        self.spent += judge.ROUND + len(nodes) * judge.STEP
        return {node: self.noisy(2 * LEVEL * self.share([('within', node)])) for node in nodes}

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
        of_all = [key for node in nodes for key in (('node', node), ('group', node), ('uplink', *self.places[node]))]
        return LEVEL * self.share(of_all) * math.exp(self.random.gauss(0, NOISE))

    def seconds(self) -> float:
        return self.spent


def climbed(machine, rails=1, rounds=None, seconds=LIMIT, told=None):
    told = [] if told is None else told
    rules = judge.Rules(rounds or judge.rounds_within(len(machine.nodes), rails, LIMIT), seconds)
    return judge.climb(machine, machine.nodes, machine.places, rails, rules, lambda *words: told.append(words))


def named(found) -> dict[str, str]:
    return {one.where: one.text for one in found.named}


def test_a_thousand_nodes_with_slow_nodes_pairs_and_a_switch():
    machine = Simulated(1024, 1, random.Random('all at once'))
    rounds = judge.rounds_within(1024, 1, LIMIT)
    machine.left['uplink', 'switch s9'] = 0.6
    machine.left |= {('node', node): 0.5 for node in ('n3', 'n500')}
    met = chain(*judge.plan(machine.nodes, machine.places, rounds))
    slow = {'n3', 'n500', *(node for node, places in machine.places.items() if places == ['switch s9'])}
    well = [pair for pair in met if not slow & set(pair)]
    first, second = well[700]
    machine.left['pair', first, second] = 0.4
    found = climbed(machine)
    assert set(named(found)) == {'node n3', 'node n500', 'uplink of switch s9', f'pair {first},{second}'}
    assert machine.seconds() < 900
    assert '(-50%)' in named(found)['node n3'] and 'MB/s' in named(found)['uplink of switch s9']
    assert len(found.group) == 1024 - 2 - 16


@each_row(
    ('nodes', 'rails', 'left', 'said'),
    [
        (64, 4, {('rail', 'n5', 2): 0.5, ('node', 'n9'): 0.5}, {'rail 2 of node n5': 'MB/s', 'node n9': 'MB/s'}),
        (64, 4, {('rail', f'n{number}', 1): 0.5 for number in range(64)}, {'rail 1 of all nodes': 'MB/s'}),
        (16, 1, {('node', 'n4'): 0.0}, {'node n4': 'no result'}),
    ],
)
def test_a_loss_is_named_where_it_is_and_leaves_the_group(nodes, rails, left, said):
    machine = Simulated(nodes, rails, random.Random('losses'))
    machine.left = left
    found = climbed(machine, rails)
    assert named(found).keys() == said.keys() and all(said[where] in text for where, text in named(found).items())
    assert len(found.group) == nodes - sum(len(one.nodes) for one in found.named)


def test_each_rung_has_the_nodes_that_passed_those_before():
    machine, told = Simulated(32, 1, random.Random('rungs')), []
    machine.wrong, machine.left = {'n1': 'gpus: expected 8, found 7'}, {('within', 'n2'): 0.5, ('group', 'n30'): 0.3}
    found = climbed(machine, told=told)
    assert set(named(found)) == {'node n1', 'node n2', 'node n30'}
    assert 'expected 8, found 7' in named(found)['node n1'] and 'within the node' in named(found)['node n2']
    assert 'in a group with' in named(found)['node n30']
    assert sorted(found.group) == sorted(set(machine.nodes) - {'n1', 'n2', 'n30'})
    assert not {'n1', 'n2'} & {node for one in found.meetings for node in one.pair}
    said = [Named(*json.loads(words[1])) for words in told if words[0] == 'named']
    assert [one._replace(nodes=tuple(one.nodes)) for one in said] == found.named


def test_one_slow_message_accuses_nobody():
    """It is measured again; a pair that was measured once is no evidence."""
    machine = Simulated(16, 1, random.Random('once'))
    meet, first = machine.meet, iter([True])
    machine.meet = lambda rail, pairs: [value * (0.3 if next(first, False) else 1) for value in meet(rail, pairs)]
    assert climbed(machine).named == []


def test_a_ladder_that_is_late_ends_with_what_it_has():
    machine, told = Simulated(64, 1, random.Random('late')), []
    found = climbed(machine, rounds=63, seconds=60, told=told)
    assert any(words[0] == 'late' for words in told)
    assert len(found.group) < 64 and machine.seconds() < 120


@given(st.integers(2, 40), st.integers(1, 8), st.integers(1, 60), st.integers(1, 5))
def test_rounds_hold_each_node_once_and_whole_tournaments_each_pair(nodes, rails, most, of_switch):
    names = [f'n{number}' for number in range(nodes)]
    places = {name: [f'switch s{number // of_switch}'] for number, name in enumerate(names)}
    rounds = judge.plan(names, places, most)
    assert 1 <= len(rounds) <= most
    for pairs in rounds:
        assert len(set(chain(*pairs))) == 2 * len(pairs)
    every = nodes - 1 + nodes % 2
    if most >= every:
        assert {frozenset(pair) for pair in chain(*rounds)} >= {frozenset((names[0], other)) for other in names[1:]}
    assert judge.rounds_within(nodes, rails, 10_000) >= max(every, 4 * rails)


@each_row(
    ('values', 'level'),
    [
        # the third from above of ten is 106: the middle of those from 95.4 on
        ([100.0, 102.0, 104.0, 106.0, 108.0, 110.0, 50.0, 50.0, 50.0, 50.0], 105.0),
        # more than a fifth is the level, a fifth is not
        ([*[100.0] * 3, *[40.0] * 7], 100.0),
        ([*[100.0] * 2, *[40.0] * 8], 40.0),
        # less than a tenth below the others is well
        ([*[100.0] * 5, *[91.0] * 6], 91.0),
        ([*[100.0] * 5, *[89.0] * 6], 100.0),
    ],
)
def test_the_level_of_meetings_is_the_middle_of_those_that_are_well(values, level):
    assert judge.level_of(values) == level


@each_row(
    ('values', 'tolerance', 'least'),
    [
        ([100.0] * 5, 0.1, 90.0),
        ([100.0] * 5, 0.25, 75.0),
        # the middle of 0, ln 1.1 and ln 1.2 above the level, as a deviation of 1.4826 ln 1.1: 100 / 1.1 ** (3 x 1.4826)
        ([100.0, 110.0, 120.0, 60.0], 0.1, 65.446),
        ([0.0], 0.1, 0.0),
    ],
)
def test_what_is_slow_is_below_the_tolerance_and_below_noise(values, tolerance, least):
    level = 100.0 if max(values) else 0.0
    assert judge.least_of(values, level, tolerance) == pytest.approx(least, rel=1e-4)


@each_row(
    ('nodes', 'rails', 'seconds', 'rounds'),
    [
        (16, 1, 840, 15),  # each node meets each other one once
        (16, 4, 840, 30),
        (1000, 1, 840, 36),  # 70 % less two rungs of 24 s are 540 s, of 14 s a round 38, of which two are for suspects
        (16, 1, 60, 6),  # 42 s less 2 x 4.32 s, of 4.16 s a round
    ],
)
def test_the_rounds_within_a_time(nodes, rails, seconds, rounds):
    assert judge.rounds_within(nodes, rails, seconds) == rounds


def test_two_nodes_without_a_collective_are_no_group():
    machine = Simulated(2, 1, random.Random('two'))
    machine.together = lambda nodes: 0.0
    found = climbed(machine)
    assert (found.group, [one.kind for one in found.named]) == ([], ['group'])


def test_a_real_group_grew_to_all_nodes_of_the_job(recorded):
    """Each step follows from the bandwidths that were measured before."""
    found = re.findall(r'^group \d+ (\S+) (\S+)$', recorded('node-ladder-16-nodes.txt'), re.MULTILINE)
    measured = iter([(float(value), nodes.split(',')) for value, nodes in found])

    def together(group):
        value, nodes = next(measured)
        assert list(group) == nodes
        return value

    group, bandwidth, refused = judge.grow(found[-1][1].split(','), together, lambda: False)
    assert (len(group), bandwidth, refused) == (16, 94.93, []) and not list(measured)


def test_real_pairs_of_64_nodes_name_what_was_slowed(recorded):
    """Pairs that had not ended in time, on a busy host, were well when they were measured again."""
    rows = re.findall(r'^pair (\d+) (\d+) (\S+) (\S+)$', recorded('node-ladder-64-nodes.txt'), re.MULTILINE)
    meetings = [Meeting(int(turn), int(rail), tuple(pair.split(',')), float(value)) for turn, rail, pair, value in rows]
    places = {f'n{number}': [f'switch s{(number - 1) // 8}'] for number in range(1, 65)}
    found = {one.where for one in judge.confirmed(meetings, places, 0.1)}
    assert found == {'uplink of switch s6', 'node n20', 'pair n5,n25'}
    assert any(one.value == 0 for one in meetings)


@each_row(
    ('nodes', 'rails', 'rounds', 'found'),
    [
        # a tournament of four nodes has three rounds, of six nodes five, of sixteen fifteen
        (4, 4, range(6), [0, 1, 2, 1, 2, 3]),
        (6, 2, range(10), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
        (16, 8, range(0, 120, 15), [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_each_rail_has_rounds_and_a_pair_meets_again_on_another(nodes, rails, rounds, found):
    assert [judge.rail_of(number, nodes, rails) for number in rounds] == found


def test_a_pair_is_slow_below_the_least_value_and_not_at_it():
    """Of equal values the least is 90 %: 90.0 is well, 89.9 is not; a pair counts by its best meeting on a rail."""
    well = [Meeting(1, 0, (f'a{i}', f'b{i}'), 100.0) for i in range(12)]
    for value, slow in ((90.0, []), (89.9, ['pair a,b'])):
        meetings = [*well, Meeting(1, 0, ('a', 'b'), value), Meeting(2, 0, ('b', 'a'), value - 1)]
        assert [one.where for one in judge.suspects(meetings, {}, 0.1)] == slow
    (found,) = judge.suspects([*well, Meeting(1, 0, ('a', 'b'), 50.0)], {}, 0.1)
    assert found == Named('pair', 'pair a,b', ('a', 'b'), 'pair a,b: 50 MB/s, expected 100 (-50%) in 1 of 1 pairs')


@each_row('slow_on', [(0, 1), (0,)])
def test_a_pair_is_accused_where_it_is_slow_on_most_rails(slow_on):
    """Slow on one rail of two, it may have met the burst of another job."""
    nodes = [f'n{number}' for number in range(6)]
    pairs = [(a, b) for a in nodes for b in nodes if a < b]
    meetings = [
        Meeting(1, rail, pair, 50.0 if pair == ('n0', 'n1') and rail in slow_on else 100.0)
        for pair in pairs
        for rail in (0, 1)
    ]
    found = [one.where for one in judge.suspects(meetings, {}, 0.1, rails=2)]
    assert found == (['pair n0,n1'] if len(slow_on) == 2 else [])


@each_row(('across', 'found'), [(20, []), (3, ['uplink of switch s0'])])
def test_pairs_over_switches_have_a_level_of_their_own_once_there_are_enough_of_them(across, found):
    """They may be slower than pairs of one switch by nature, which three of them cannot show."""
    places = {f'n{number}': [f'switch s{number // 4}'] for number in range(40)}
    near = [(f'n{a}', f'n{a + b}') for a in range(0, 40, 4) for b in (1, 2, 3)]
    far = [(f'n{a}', f'n{a + 4}') for a in range(across)]
    meetings = [Meeting(1, 0, pair, 50.0 if pair in far else 100.0) for pair in (*near, *far)]
    assert [one.where for one in judge.suspects(meetings, places, 0.1)] == found


def test_a_group_grows_from_the_best_pair_over_the_places_that_are_near_it():
    places = {
        'n1': ['rack r1', 'switch s1'], 'n2': ['rack r1', 'switch s1'], 'n3': ['rack r1', 'switch s1'],
        'n4': ['rack r1', 'switch s2'], 'n5': ['rack r2', 'switch s3'], 'n6': ['rack r1', 'switch s2'],
    }  # fmt: skip
    meetings = [
        Meeting(1, 0, ('n1', 'n9'), 200.0),
        Meeting(1, 0, ('n2', 'n1'), 100.0),
        Meeting(1, 0, ('n4', 'n5'), 90.0),
    ]
    nodes = ['n5', 'n4', 'n1', 'n6', 'n2', 'n3']  # n9 was left out
    assert judge.in_order(nodes, meetings, places) == ['n2', 'n1', 'n3', 'n4', 'n6', 'n5']
    assert judge.in_order(['n5', 'n4'], [], {}) == ['n5', 'n4']


@pytest.mark.parametrize(
    ('slow', 'late', 'measured', 'group', 'level', 'refused'),
    [
        # each group is twice the one before, the last one what is left
        ({}, 99, ['12', '1234', '12345678', '123456789'], '123456789', 100.0, {}),
        # the half with 6 is bisected: 56, then 5, and 6 twice, then 78 and the rest
        (
            {'6': 69.0}, 99, ['12', '1234', '12345678', '123456', '12345', '123456', '123456', '1234578', '12345789'],
            '12345789', 100.0, {'6': ('69 MB/s', '5 nodes')},
        ),
        ({'6': 70.0}, 99, ['12', '1234', '12345678', '123456789'], '123456789', 70.0, {}),  # it sustains 0.7
        ({'9': 0.0}, 99, ['12', '1234', '12345678', '123456789', '123456789'], '12345678', 100.0,
         {'9': ('no result', '8 nodes')}),
        ({}, 1, ['12', '1234'], '1234', 100.0, {}),
    ],
)  # fmt: skip
def test_how_a_group_grows(slow, late, measured, group, level, refused):
    asked, looks = [], iter(range(100))

    def together(nodes):
        asked.append(''.join(sorted(nodes)))
        return min((slow[node] for node in nodes if node in slow), default=100.0)

    found = judge.grow('123456789', together, lambda: next(looks) >= late)
    assert (asked, ''.join(sorted(found[0])), found[1]) == (measured, group, level)
    assert [one.where for one in found[2]] == [f'node {node}' for node in refused]
    assert all(word in one.text for one in found[2] for word in (*refused[one.nodes[0]], '100 MB/s'))


def test_suspects_are_measured_again_with_partners_that_are_well():
    """A pair on each rail twice; a node on each rail with two partners, its rail on that one; others have no round."""
    nodes = ['n1', 'n2', 'n3', 'n4', 'n5']
    pair = Named('pair', 'x', ('n1', 'n2'), 'x')
    assert judge.rounds_again([pair], nodes, 2) == [
        (0, [('n1', 'n2')]), (1, [('n1', 'n2')]), (0, [('n1', 'n2')]), (1, [('n1', 'n2')]),
    ]  # fmt: skip
    of_rail = Named('rail', 'x', ('n1',), 'x', 1)
    assert judge.rounds_again([of_rail], nodes, 2) == [(1, [('n1', 'n2')]), (1, [('n1', 'n3')])]
    two = [Named('node', 'x', ('n1',), 'x'), Named('node', 'x', ('n2',), 'x')]
    assert judge.rounds_again(two, nodes, 1) == [
        (0, [('n1', 'n3'), ('n2', 'n5')]), (0, [('n1', 'n4'), ('n2', 'n3')]),
    ]  # fmt: skip
    assert judge.rounds_again([Named('uplink', 'x', ('n1',), 'x')], nodes, 1) == []
    assert judge.rounds_again([two[0]], ['n1'], 1) == []


def test_a_node_whose_loopback_is_low_is_named():
    (found,) = judge.low_within({'n1': 100.0, 'n2': 89.0, 'n3': 100.0, 'n4': 90.0}, 0.1)
    assert found.text == 'node n2: 89 MB/s, expected 100 (-11%) within the node'


def test_a_part_of_a_tournament_stays_a_quarter_within_the_narrowest_place():
    """Of 16 nodes on switches of 4 in one rack, 8 of 15 rounds: two within the switches, six over all."""
    nodes = [f'n{number:02}' for number in range(16)]
    places = {node: ['rack r1', f'switch s{number // 4}'] for number, node in enumerate(nodes)}
    rounds = judge.plan(nodes, places, 8)
    within = [all(set(places[a]) == set(places[b]) for a, b in pairs) for pairs in rounds]
    assert len(rounds) == 8 and within[:2] == [True, True] and not any(within[2:])
    assert [len(pairs) for pairs in rounds] == [8] * 8
    assert len(judge.plan(nodes, places, 31)) == 30  # whole tournaments of 15 rounds
    assert len(judge.plan(nodes[:5], {}, 11)) == 10

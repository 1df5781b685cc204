# SPDX-License-Identifier: BSD-3-Clause
"""Simulated sites whose truth is known: noise, pool of nodes, past and planted losses.

A *world* is what sites have in common. A *site* is one of them, by number. Values are the logarithm of performance, of
series m on night t in a job on node h:

    y = level[m] + cv[m] * (effect[m, h] + noise[m, t, job]) + losses

First jobs of a case run on any node. Seeded: the first jobs of a site, and further job j of a case tonight, are the
same whatever further jobs a rule orders by `Run`.
"""

from __future__ import annotations

import csv
import math
import sys
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy
from numpy import ndarray
from numpy.random import Generator

ROOT = Path(__file__).resolve().parent.parent
SEED = 20261123
PARTITIONS = 5  # a site has so many equal parts; the last one is its second partition
LOW = math.log(0.85)  # the lower level of a series with two levels
NOISES = (
    'normal', 'gamma', 'heavy', 'slow jobs', 'slow nights, half', 'slow nights, all', 'AR(1)', 'common', 'weekly',
    'spread', 'steps', 'alike', 'levels 0.1', 'levels 0.5', 'recorded', 'recorded, a tenth',
)  # fmt: skip
MADE = tuple(noise for noise in NOISES if not noise.startswith('recorded'))  # of any number of series
RECORDED = ROOT / 'tests/outputs/virtual-machine-series.txt'
#: The usual spreads that checks state for the recorded metrics: part of the name -> spread; the first that fits counts.
STATED = {
    'flops': 0.01,
    'DGEMM': 0.01,
    'Latency': 0.04,
    'mem': 0.015,
    ' L': 0.015,
    'STREAM': 0.015,
    'write': 0.1,
    '': 0.03,
}


@cache
def recorded() -> tuple[list[ndarray], ndarray]:
    """Return the series that were recorded on a virtual machine, and the spreads that checks state for such metrics.

    A series has the logarithms of performance about their median, in the order of the jobs; series of HPC Challenge
    come last. RandomAccess is left out: it fell to a fifth in two of 22 runs, which is a loss beyond the cap at any
    time.
    """
    values: dict[str, list[float]] = {}
    with RECORDED.open(newline='', encoding='utf-8') as stream:
        for row in csv.DictReader(stream):
            sign = -1 if 'Latency' in row['metric'] else 1
            values.setdefault(row['metric'], []).append(sign * math.log(float(row['value'])))
    names = sorted((name for name in values if 'RandomAccess' not in name), key=lambda name: (name[:4] == 'hpcc', name))
    series = [numpy.array(values[name]) - numpy.median(values[name]) for name in names]
    return series, numpy.array([next(of for part, of in STATED.items() if part in name) for name in names])


@dataclass(frozen=True)
class Layout:
    """What a rule knows about a site: arrays with an element for each of its M series, and the number of `nodes`.

    `case`, `environ`, `partition`: their numbers, from 0; a case lies in one environ, an environ in one partition.
    `usual`: stated standard deviation of the logarithm of a session's value. `floor`: logarithm of the smallest loss
    that matters.
    """

    case: ndarray
    environ: ndarray
    partition: ndarray
    usual: ndarray
    nodes: int
    floor: float = -math.log1p(-0.02)

    @property
    def cases(self) -> int:
        """The number of cases."""
        return int(self.case[-1]) + 1

    def series(self, case: int) -> slice:
        """Return the series of a case."""
        return slice(*map(int, numpy.searchsorted(self.case, [case, case + 1])))


@dataclass(frozen=True)
class Cause:
    """One cause of losses. `members`: its series. `node`: its node, -1 if it has none.

    Kinds: ``series``, ``case``, ``environ``, ``partition``, ``site``, ``node``; one series of one node is both.
    """

    kind: str
    members: frozenset[int] = frozenset()
    node: int = -1


#: A function that runs a further job of a case tonight, on a given node or on any nodes except those to avoid, and
#: returns the values of its series and its nodes. Raises ValueError if too few nodes are left.
Run = Callable[..., tuple[ndarray, ndarray]]


@dataclass(frozen=True)
class Night:
    """What a rule says after a night, which is red if a series in `red`, a group or a node is. Arrays of M series.

    `loss`, `low`, `high`: the loss as a logarithm with its 95 % interval, NaN if the rule tells none.
    """

    red: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray
    groups: Sequence[Cause] = ()
    nodes: Sequence[int] = ()

    @property
    def is_red(self) -> bool:
        """True if the night is red."""
        return bool(self.red.any() or self.groups or self.nodes)


@dataclass(frozen=True)
class Loss:
    """A planted loss: what `of` names loses the share `size` of its performance. `cv`: new CV of the series, if given.

    `of`: ``series`` (4, in 4 cases), ``steady`` (the one that varies least), ``case``, ``first case``, ``environ``,
    ``all``, ``node``, ``other node``, ``third node``, ``series on a node``. The loss is there from night `start` until
    `stop`, on the first `on` of every `every` nights; with `drift` it grows by `size` each night.
    """

    of: str
    size: float
    cv: float | None = None
    start: int = 0
    stop: int = sys.maxsize
    every: int = 1
    on: int = 1
    drift: bool = False

    def on_night(self, night: int) -> bool:
        """Return True if the loss is there on a night."""
        return self.start <= night < self.stop and (night - self.start) % self.every < self.on


@dataclass(frozen=True)
class World:
    """The common properties of simulated sites.

    `m`: series, in cases of `size` series; `environ`: cases of an environ, in turn. `n`: sessions of the baseline.
    `cv`: median CV of the series, log-normal by `factor`; `usual`: the stated one. `kinds`: instead, (CV, usual) of
    each equal part of the series. `effects`: sd of the lasting effects of nodes on each series; `offsets`: sd of their
    effects on all series alike; both in units of the CV. `missing`: share of cases without a value. `closed`: share of
    nights without a session. `skipped`: first nights that do not count. `looks`: further jobs of each case in the first
    session. `span`: fewest and most nodes of a case; the slowest decides. `season`: amplitude of a wave of 60 nights
    that all series share. `floor`: the smallest loss that matters.
    """

    noise: str = 'normal'
    m: int = 400
    size: int = 8
    environ: tuple[int, ...] = (3, 2)
    n: int = 10
    nights: int = 14
    cv: float = 0.01
    factor: float = 2.0
    usual: float = 0.02
    kinds: tuple[tuple[float, float], ...] = ()
    nodes: int = 1
    effects: float = 0.0
    offsets: float = 0.0
    losses: tuple[Loss, ...] = ()
    missing: float = 0.0
    closed: float = 0.0
    skipped: int = 0
    looks: int = 0
    span: tuple[int, int] = (1, 1)
    season: float = 0.0
    floor: float = 0.02

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ValueError(f'noise {self.noise!r}: expected one of {", ".join(NOISES)}')


class Site:
    """Site `number` of a world. `first` begins a night, in order from night ``-n``; `job` runs a case again tonight."""

    def __init__(self, world: World, name: str, number: int):
        self.world, self._seed = world, (SEED, zlib.crc32(name.encode()), number)
        m, rng = world.m, self._stream(0)
        case = numpy.arange(m) // world.size
        cases = int(case[-1]) + 1
        environ = numpy.arange(cases).repeat(numpy.resize(world.environ, cases))[case]
        partition = (environ >= environ[-1] + 1 - max((environ[-1] + 1) // PARTITIONS, 1)).astype(int)
        kinds = numpy.array(world.kinds or ((world.cv, world.usual),))[numpy.arange(m) * max(len(world.kinds), 1) // m]
        self.layout = Layout(case, environ, partition, kinds[:, 1], world.nodes, -math.log1p(-world.floor))
        self.cv = kinds[:, 0] * world.factor ** rng.standard_normal(m)
        self.level = rng.uniform(0, 3, m)
        self.effects = world.effects * rng.standard_normal((m, world.nodes))
        self.effects = self.effects + world.offsets * rng.standard_normal(world.nodes)
        self.phase = rng.uniform(0, 2 * math.pi, cases)[case]
        self.spans = self._stream(4).integers(world.span[0], world.span[1] + 1, size=cases)
        self.lost = [self._lost(loss, number) for loss in world.losses]
        if world.noise.startswith('recorded'):
            self.layout = replace(self.layout, usual=recorded()[1])
            self.cv = numpy.full(m, 0.1 if world.noise.endswith('tenth') else 1.0)
        for loss, causes in zip(world.losses, self.lost, strict=True):
            if loss.cv:
                self.cv[sorted(set().union(*(cause.members for cause in causes)))] = loss.cv
        self.night, self._last = -world.n - 1, rng.standard_normal(m)

    def _stream(self, *key: int) -> Generator:
        return numpy.random.default_rng([*self._seed, *key])

    def _lost(self, loss: Loss, number: int) -> list[Cause]:
        """Return the causes of a planted loss."""
        m, layout = self.world.m, self.layout
        node = number % self.world.nodes
        if loss.of == 'steady':
            return [Cause('series', frozenset({int(numpy.argmin([of.std() for of in recorded()[0]]))}))]
        if loss.of in ('series', 'series on a node'):
            several = 4 if loss.of == 'series' else 1
            where = node if loss.of == 'series on a node' else -1
            return [Cause('series', frozenset({place * (m // several) + 1}), where) for place in range(several)]
        apart = {'node': 0, 'other node': 5, 'third node': 11}
        if loss.of in apart:
            return [Cause('node', node=(node + apart[loss.of]) % self.world.nodes)]
        if loss.of == 'all':
            return [Cause('site', frozenset(range(m)))]
        of = {'case': layout.case == 3, 'first case': layout.case == 0, 'environ': layout.environ == 1}[loss.of]
        return [Cause(loss.of, frozenset(numpy.flatnonzero(of).tolist()))]

    def planted(self, night: int) -> list[Cause]:
        """Return the causes of the losses that are there on a night."""
        losses = zip(self.world.losses, self.lost, strict=True)
        return [cause for loss, causes in losses if loss.on_night(night) for cause in causes]

    def change(self, night: int, nodes: ndarray) -> ndarray:
        """Return what planted losses and the season add on a night to the values of M series on M x S `nodes`."""
        total = numpy.full(self.world.m, self.world.season * math.sin(2 * math.pi * night / 60))
        for loss, causes in zip(self.world.losses, self.lost, strict=True):
            if not loss.on_night(night):
                continue
            for cause in causes:
                members = sorted(cause.members) or range(self.world.m)
                there = (cause.node == -1) | (nodes[members] == cause.node).any(axis=1)
                size = loss.size * (night - loss.start + 1) if loss.drift else loss.size
                total[members] += math.log1p(-size) * there
        return total

    def takes_place(self, night: int) -> bool:
        """Return True if there is a session on a night."""
        return night < 0 or self._stream(3, night).random() >= self.world.closed

    def first(self, night: int) -> tuple[ndarray, ndarray]:
        """Begin a night: return the values of its first jobs, M, and the node of each case, C; NaN and -1 if none."""
        world, layout = self.world, self.layout
        rng = self._stream(1, night + world.n)
        self.night, m = night, world.m
        self._jobs: dict[int, int] = {}
        self._common = rng.standard_normal(m)  # noise that all jobs of tonight share
        self._factor = math.exp(math.log(1.5) * rng.standard_normal() - math.log(1.5) ** 2)
        self._time = rng.random()  # place in the recorded series, as a share of its length
        self._slow = (rng.random(m) < 0.05) * rng.uniform(3, 10, m)
        self._low = numpy.zeros(m)
        if world.noise.startswith('levels'):
            self._low[:: m // 5] = LOW * (rng.random(5) < float(world.noise.split()[1]))
        absent = (rng.random(layout.cases) < world.missing)[layout.case]
        self._absent = absent
        nodes = numpy.full((layout.cases, world.span[1]), -1)
        nodes[:, 0] = rng.integers(world.nodes, size=layout.cases)
        others = self._stream(5, night + world.n)
        for case in numpy.flatnonzero(self.spans > 1):
            rest = numpy.setdiff1d(numpy.arange(world.nodes), nodes[case, :1])
            nodes[case, 1 : self.spans[case]] = others.choice(rest, self.spans[case] - 1, replace=False)
        values = self._values(rng, slice(0, m), nodes[layout.case], first=True)
        self._before = self._last
        there = numpy.bincount(layout.case, ~absent) > 0
        return values, numpy.where(there[:, None], nodes, -1)

    def job(self, case: int, node: int | None = None, avoid: Collection[int] = ()) -> tuple[ndarray, ndarray]:
        """Run a case again tonight; see `Run`."""
        number = self._jobs[case] = self._jobs.get(case, 0) + 1
        rng = self._stream(2, self.night + self.world.n, case, number)
        own = [] if node is None else [node]
        while len(own) < self.spans[case]:
            left = numpy.setdiff1d(numpy.arange(self.world.nodes), [*avoid, *own])
            if not len(left):
                raise ValueError(f'case {case}: too few of {self.world.nodes} nodes without {sorted(avoid)}')
            own.append(int(left[rng.integers(len(left))]))
        nodes = numpy.full(self.world.span[1], -1)
        nodes[: len(own)] = own
        part = self.layout.series(case)
        return self._values(rng, part, numpy.tile(nodes, (part.stop - part.start, 1)), first=False), nodes

    def _values(self, rng: Generator, part: slice, nodes: ndarray, first: bool) -> ndarray:
        rows = numpy.arange(part.start, part.stop)
        effects = numpy.where(nodes < 0, math.inf, self.effects[rows[:, None], nodes]).min(axis=1)
        noise = self._noise(rng, part, first) + effects
        where = numpy.full((self.world.m, nodes.shape[1]), -2)
        where[part] = nodes
        values = self.level[part] + self.cv[part] * noise + self._low[part] + self.change(self.night, where)[part]
        return numpy.where(self._absent[part], numpy.nan, values)

    def _noise(self, rng: Generator, part: slice, first: bool) -> ndarray:
        """Return the noise of one job in standard deviations, for the series in `part`: all, or those of a case."""
        kind, k = self.world.noise, part.stop - part.start
        if kind.startswith('recorded'):
            # neighbouring jobs of the record are jobs of one night; smoothed by noise, as there are few
            job = 0 if first else self._jobs[int(self.layout.case[part.start])]
            of = recorded()[0][part]
            values = [logs[(int(self._time * len(logs)) + job) % len(logs)] for logs in of]
            return numpy.array(values) + 0.25 * numpy.array([logs.std() for logs in of]) * rng.standard_normal(k)
        if kind == 'gamma':  # skewed to the bad side
            return -(rng.standard_gamma(4, k) - 4) / 2
        if kind == 'heavy':
            return rng.standard_t(3, k) / math.sqrt(3)
        x = rng.standard_normal(k)
        if kind == 'slow jobs':
            return x - (rng.random(k) < 0.05) * rng.uniform(3, 10, k)
        if kind.startswith('slow nights'):
            stays = first or kind.endswith('all') or rng.random(k) < 0.5
            return x - stays * self._slow[part]
        if kind == 'AR(1)':  # further jobs are further steps; the next night follows the first job
            last = self._last if first else self._before
            last = last.copy()
            last[part] = 0.5 * last[part] + math.sqrt(0.75) * x
            if first:
                self._last = last
            else:
                self._before = last
            return last[part]
        if kind == 'common':
            return math.sqrt(0.5) * (rng.standard_normal(k // self.world.size).repeat(self.world.size) + x)
        if kind == 'weekly':
            return math.sqrt(0.5) * x + numpy.sin(2 * math.pi * self.night / 7 + self.phase[part])
        if kind == 'spread':
            return self._factor * x
        if kind == 'steps':
            return 0.5 * x - rng.choice([0, 2, 4], k, p=[0.7, 0.2, 0.1])
        if kind == 'alike':
            return math.sqrt(0.5) * (self._common[part] + x)
        return x

# SPDX-License-Identifier: BSD-3-Clause
"""Simulated sites whose truth is known, and whole nights of any rule for verdicts on them; prints tables.

    python studies/worlds.py                                   every table; docs/tolerances.md quotes rows: hours
    python studies/worlds.py --rule studies/product.py:Small   ... with the budget of later sessions from the first on
    python studies/worlds.py --rule FILE.py:NAME               ... by another rule
    python studies/worlds.py --sites 20 --only "AR(1)"         rows or tables whose name holds this, of 20 sites each

A *world* is what sites have in common: noise, pool of nodes, past, planted losses. A *site* is one of them, by number.
Values are the logarithm of performance, of series m on night t in a job on node h:

    y = level[m] + cv[m] * (effect[m, h] + noise[m, t, job]) + losses

First jobs of a case run on any node; a rule orders further jobs by `Run`. A rule is a callable that takes a `Layout`
and returns a `Rule`. Seeded: the same options print the same figures, and the first jobs of a site, and further job j
of a case tonight, are the same whatever a rule orders. Brackets: 95 % Wilson intervals.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy
from numpy import ndarray
from numpy.random import Generator

HERE = Path(__file__).resolve().parent
SEED = 20261123
PARTITIONS = 5  # a site has so many equal parts; the last one is its second partition
CHANGES = 3  # the night on which an upgrade comes, series are renamed, a partition goes away
AWAY = 5  # nights that a partition is away
ANEW = 3  # sessions after an upgrade that become the new baseline
LOW = math.log(0.85)  # the lower level of a series with two levels
NOISES = (
    'normal', 'gamma', 'heavy', 'slow jobs', 'slow nights, half', 'slow nights, all', 'AR(1)', 'common', 'weekly',
    'spread', 'steps', 'alike', 'levels 0.1', 'levels 0.5', 'recorded', 'recorded, a tenth',
)  # fmt: skip
MADE = tuple(noise for noise in NOISES if not noise.startswith('recorded'))  # of any number of series
RECORDED = HERE.parent / 'tests/outputs/virtual-machine-series.txt'
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
    """One cause of losses. `members`: its series. `node`: its node, -1 if it has none. `id`: of its incident, if any.

    Kinds: ``series``, ``case``, ``environ``, ``partition``, ``site``, ``node``; one series of one node is both.
    """

    kind: str
    members: frozenset[int] = frozenset()
    node: int = -1
    id: str = ''

    def is_of(self, planted: Cause) -> bool:
        """Return True if this cause matches the `planted` one: same kind and node, three quarters of the series."""
        both, either = self.members & planted.members, self.members | planted.members
        alike = self.kind == 'node' or 4 * len(both) >= 3 * len(either)
        return self.kind == planted.kind and self.node == planted.node and alike


#: A function that runs a further job of a case tonight, on a given node or on any nodes except those to avoid, and
#: returns the values of its series and its nodes. Raises ValueError if too few nodes are left.
Run = Callable[..., tuple[ndarray, ndarray]]


@dataclass(frozen=True)
class Night:
    """What a rule says after a night, which is red if a series in `red`, a group or a node is. Arrays of M series.

    `loss`, `low`, `high`: the loss as a logarithm with its 95 % interval, NaN if the rule tells none. `suspected`:
    nodes that are shown and do not make the night red. `incidents`: the incidents that are open after this night.
    """

    red: ndarray
    loss: ndarray
    low: ndarray
    high: ndarray
    groups: Sequence[Cause] = ()
    nodes: Sequence[int] = ()
    suspected: Sequence[int] = ()
    incidents: Sequence[Cause] = ()

    @property
    def is_red(self) -> bool:
        """True if the night is red."""
        return bool(self.red.any() or self.groups or self.nodes)


class Rule(Protocol):
    """A rule for verdicts on one site. Values are logarithms, NaN where there is none; nodes C x S, -1 likewise.

    `looks`: values of the further jobs of the first session, M x `World.looks`; None without such jobs.
    """

    looks: ndarray | None

    def pairs(self, rng: Generator) -> Collection[int]:
        """Return the cases that run twice in a session of the baseline."""

    def record(self, first: ndarray, nodes: ndarray, again: ndarray, elsewhere: ndarray, renewed: ndarray) -> None:
        """Take n sessions as the baseline: M x n values of the first jobs on C x S x n nodes; second jobs likewise.

        `renewed`: which of the M series get a new baseline here; their earlier sessions no longer count.
        """

    def night(self, first: ndarray, nodes: ndarray, run: Run) -> Night:
        """Judge a night by its first jobs, M values on C x S nodes, and by further jobs."""


@dataclass(frozen=True)
class Loss:
    """A planted loss: what `of` names loses the share `size` of its performance. `cv`: new CV of the series, if given.

    `of`: ``series`` (4, in 4 cases), ``steady`` (the one that varies least), ``unrelated`` (12), ``case``, ``first
    case``, ``environ``, ``most`` (three quarters of the site, up to `worst`), ``all``, ``node``, ``other node``,
    ``series on a node``. The loss is there from night `start` until `stop`, on the first `on` of every `every` nights;
    with `drift` it grows by `size` each night.
    """

    of: str
    size: float
    cv: float | None = None
    worst: float = 0.0
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
    nights without a session. `upgrade`: logarithmic step of an environ, which is then recorded anew. `skipped`: first
    nights that do not count. `looks`: further jobs of each case in the first session. `span`: fewest and most
    nodes of a case; the slowest decides. `season`: amplitude of a wave of 60 nights that all series share. `floor`: the
    smallest loss that matters.
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
    upgrade: float = 0.0
    renamed: bool = False
    away: bool = False
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
        self.upgraded = numpy.flatnonzero(environ == 1)
        self.step = world.upgrade * (-1) ** number
        # Series that end; the series after each begins
        self.renamed = numpy.arange(4) * (m // 4) // world.size * world.size
        self.night, self._last = -world.n - 1, rng.standard_normal(m)

    def _stream(self, *key: int) -> Generator:
        return numpy.random.default_rng([*self._seed, *key])

    def _lost(self, loss: Loss, number: int) -> list[Cause]:
        """Return the causes of a planted loss."""
        m, layout = self.world.m, self.layout
        node = number % self.world.nodes
        if loss.of == 'steady':
            return [Cause('series', frozenset({int(numpy.argmin([of.std() for of in recorded()[0]]))}))]
        if loss.of in ('series', 'unrelated', 'series on a node'):
            several = {'series': 4, 'unrelated': 12, 'series on a node': 1}[loss.of]
            where = node if loss.of == 'series on a node' else -1
            return [Cause('series', frozenset({place * (m // several) + 1}), where) for place in range(several)]
        if loss.of in ('node', 'other node'):
            return [Cause('node', node=(node + 5 * (loss.of == 'other node')) % self.world.nodes)]
        if loss.of in ('most', 'all'):
            return [Cause('site', frozenset(range(3 * m // 4 if loss.of == 'most' else m)))]
        of = {'case': layout.case == 3, 'first case': layout.case == 0, 'environ': layout.environ == 1}[loss.of]
        return [Cause(loss.of, frozenset(numpy.flatnonzero(of).tolist()))]

    def planted(self, night: int) -> list[Cause]:
        """Return the causes of the losses that are there on a night."""
        losses = zip(self.world.losses, self.lost, strict=True)
        return [cause for loss, causes in losses if loss.on_night(night) for cause in causes]

    def change(self, night: int, nodes: ndarray) -> ndarray:
        """Return what planted losses and the upgrade add on a night to the values of M series on M x S `nodes`."""
        total = numpy.full(self.world.m, self.world.season * math.sin(2 * math.pi * night / 60))
        for loss, causes in zip(self.world.losses, self.lost, strict=True):
            if not loss.on_night(night):
                continue
            for cause in causes:
                members = sorted(cause.members) or range(self.world.m)
                sizes = numpy.linspace(loss.size, loss.worst or loss.size, len(members))
                sizes = sizes * (night - loss.start + 1) if loss.drift else sizes
                there = (cause.node == -1) | (nodes[members] == cause.node).any(axis=1)
                total[members] += numpy.log1p(-sizes) * there
        if night >= CHANGES:
            total[self.upgraded] += self.step
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
        absent = absent | bool(world.away and CHANGES <= night < CHANGES + AWAY) & (layout.partition == 1)
        if world.renamed:
            absent[self.renamed + (night < CHANGES)] = True
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


# Nights


@dataclass(frozen=True)
class Tonight:
    """A simulated night: what the rule said, how many further jobs it ran, whether an incident is new."""

    number: int
    said: Night
    jobs: int
    new: bool


@dataclass
class Played:
    """The results of a site. `nights`: the nights that count."""

    site: Site
    nights: list[Tonight] = field(default_factory=list)
    noticed: float = math.nan  # the loss that half of the series notice by the rule's own account

    def night_of(self, shows: Callable[[Night], bool]) -> float:
        """Return the number, from 1, of the first night for which `shows` is true; infinity if there is none."""
        return next((place for place, tonight in enumerate(self.nights, 1) if shows(tonight.said)), math.inf)


def play(world: World, name: str, number: int, make: Callable[[Layout], Rule]) -> Played:
    """Record the baseline of site `number` by a rule, simulate its nights, and return the results."""
    site = Site(world, name, number)
    rule, layout, played = make(site.layout), site.layout, Played(site)
    columns: list[tuple[ndarray, ...]] = []
    for night in range(-world.n, 0):
        first, nodes = site.first(night)
        again, elsewhere = numpy.full(world.m, numpy.nan), numpy.full((layout.cases, world.span[1]), -1)
        for case in rule.pairs(numpy.random.default_rng([SEED, number, -night])):
            avoid = nodes[case].tolist() if world.nodes > world.span[1] else []
            again[layout.series(case)], elsewhere[case] = site.job(case, avoid=avoid)
        columns.append((first, nodes, again, elsewhere))
        if night == -world.n and world.looks:
            rule.looks = numpy.stack([
                numpy.concatenate([site.job(case)[0] for case in range(layout.cases)]) for _ in range(world.looks)
            ], axis=1)  # fmt: skip
    rule.record(*_stacked(columns), numpy.ones(world.m, bool))
    renewed = numpy.isin(numpy.arange(world.m), site.upgraded)
    played.noticed = getattr(rule, 'noticed', math.nan)
    known: set[object] = set()
    for night in range(world.nights):
        if not site.takes_place(night):
            continue
        first, nodes = site.first(night)
        jobs = 0

        def run(case: int, node: int | None = None, avoid: Collection[int] = ()) -> tuple[ndarray, ndarray]:
            nonlocal jobs
            jobs += 1
            return site.job(case, node, avoid)

        answer = rule.night(first.copy(), nodes.copy(), run)
        new = [incident for incident in answer.incidents if not known & _keys(incident)]
        known |= set().union(*map(_keys, answer.incidents))
        if night >= world.skipped:
            played.nights.append(Tonight(night, answer, jobs, bool(new)))
        if world.upgrade and night >= CHANGES:
            nothing = numpy.full(world.m, numpy.nan), numpy.full((layout.cases, world.span[1]), -1)
            columns.append((numpy.where(renewed, first, numpy.nan), nodes, *nothing))
            if night == CHANGES + ANEW - 1:
                columns[: world.n] = [
                    (numpy.where(renewed, numpy.nan, old), *rest) for old, *rest in columns[: world.n]
                ]
                rule.record(*_stacked(columns), renewed)
    return played


def _stacked(columns: Sequence[tuple[ndarray, ...]]) -> list[ndarray]:
    return [numpy.stack(part, axis=-1) for part in zip(*columns, strict=True)]


def _keys(cause: Cause) -> set[object]:
    """Return the keys by which a cause is known: its id, else its node, else its series."""
    if cause.id:
        return {cause.id}
    return {('node', cause.node)} if cause.kind == 'node' else set(cause.members)


# Tables


def wilson(hits: float, n: int) -> str:
    """Return a share in % and its 95 % interval, ``0.1 [0.0-0.5]``; ``-`` if `n` is 0."""
    if not n:
        return '-'
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return f'{100 * share:.1f} [{100 * max(middle - half, 0):.1f}-{100 * min(middle + half, 1):.1f}]'


def _share(values: Sequence[bool] | ndarray) -> str:
    return wilson(float(numpy.sum(values)), int(numpy.size(values)))


def _by(found: Sequence[float], night: int) -> str:
    return _share(numpy.array(found) <= night)


def _jobs(sites: Sequence[Played]) -> str:
    """Return the mean number of further jobs of a night, in % of the cases."""
    return f'{100 * numpy.mean([night.jobs / site.site.layout.cases for site in sites for night in site.nights]):.1f}'


def healthy(sites: Sequence[Played]) -> list[str]:
    """Return the cells of the table of sites without losses in the nights that count."""
    nights = [night for site in sites for night in site.nights]
    shown = [len({*night.said.nodes, *night.said.suspected}) for night in nights]
    return [
        _share([site.nights[0].said.is_red for site in sites]),
        _share([night.said.is_red for site in sites for night in site.nights[1:]]),
        _share([night.new for night in nights]), f'{numpy.mean(shown):.3g}', _jobs(sites),
    ]  # fmt: skip


def first_nights(sites: Sequence[Played]) -> list[str]:
    """Return the loss in % that half of the series notice, and the cells of :func:`healthy`."""
    return [f'{100 * numpy.median([site.noticed for site in sites]):.0f}', *healthy(sites)]


def losses(sites: Sequence[Played]) -> list[str]:
    """Return the cells of the table of series that lose, each by itself."""
    first_red, told, biases = [], [], []
    for site in sites:
        for cause in (tonight for causes in site.site.lost for tonight in causes if tonight.kind == 'series'):
            (place,) = cause.members
            night = site.night_of(lambda said, place=place: bool(said.red[place]))
            first_red.append(night)
            if night == math.inf:
                continue
            tonight = site.nights[int(night) - 1]
            if math.isfinite(tonight.said.loss[place]):
                true = -site.site.change(tonight.number, numpy.full((site.site.world.m, 1), cause.node))[place]
                told.append(tonight.said.low[place] <= true <= tonight.said.high[place])
                biases.append(tonight.said.loss[place] / true - 1)
    bias = f'{100 * numpy.median(biases):+.1f}' if biases else '-'
    last = len(sites[0].nights)
    return [_by(first_red, 1), _by(first_red, 3), f'{_by(first_red, last)} ({last})', _share(told), bias, _jobs(sites)]


def together(sites: Sequence[Played]) -> list[str]:
    """Return the cells of a group of series that loses; it is found if one of them, or a group with one, is red."""

    def shows(site: Played) -> Callable[[Night], bool]:
        members = set().union(*(cause.members for causes in site.site.lost for cause in causes))
        return lambda said: (
            bool(said.red[sorted(members)].any()) or any(members & group.members for group in said.groups)
        )

    first_shown = [site.night_of(shows(site)) for site in sites]
    return [_by(first_shown, 1), _by(first_shown, 3), _jobs(sites)]


def slowed(sites: Sequence[Played]) -> list[str]:
    """Return the cells of sites with a loss, which is found if the night is red."""
    first_red = [site.night_of(lambda said: said.is_red) for site in sites]
    return [_by(first_red, 1), _by(first_red, 2), _jobs(sites)]


def nodes(sites: Sequence[Played]) -> list[str]:
    """Return the cells of a node that loses: how often it is named or shown, other nodes are, and what else is red."""
    named, shown, wrong, others, besides, bad = [], [], 0, 0, [], []
    for site in sites:
        node = site.site.lost[0][0].node
        named.append(site.night_of(lambda said, node=node: node in said.nodes))
        shown.append(site.night_of(lambda said, node=node: node in {*said.nodes, *said.suspected}))
        for night in site.nights:
            wrong += len(set(night.said.nodes) - {node})
            others += len(set(night.said.suspected) - {node})
            besides.append(bool(night.said.red.any() or night.said.groups))
            if site.site.planted(night.number):
                bad.append(node in night.said.nodes)
    return [
        _by(named, 1), _by(named, 3), _by(shown, 1), _share(bad), f'{wrong} and {others} of {len(besides)}',
        _share(besides), _jobs(sites),
    ]  # fmt: skip


def causes(sites: Sequence[Played]) -> list[str]:
    """Return the cells of the first night of planted causes: incidents, causes told as planted, red series."""
    counts, told, exact, lost, false, all_healthy = [], [], [], [], 0, 0
    for site in sites:
        answer, planted = site.nights[0].said, site.site.planted(site.nights[0].number)
        counts.append(len(answer.incidents))
        hits = [any(incident.is_of(cause) for incident in answer.incidents) for cause in planted]
        told += hits
        exact.append(all(hits) and len(answer.incidents) == len(planted))
        members = set().union(*(cause.members for cause in planted))
        in_groups = set().union(*(group.members for group in answer.groups))
        lost += [bool(answer.red[place]) or place in in_groups for place in members]
        false += int(answer.red.sum() - answer.red[sorted(members)].sum())
        all_healthy += len(answer.red) - len(members)
    return [f'{numpy.mean(counts):.2f}', _share(told), _share(exact), _share(lost), f'{false} of {all_healthy}']


def courses(sites: Sequence[Played]) -> list[str]:
    """Return the cells of losses that come and go or grow: incidents, red series on bad nights, red good nights."""
    ids, red, late, told, good, first = [], [], [], [], [], []
    for site in sites:
        members = sorted(set().union(*(cause.members for causes in site.site.lost for cause in causes)))
        bad = [night for night in site.nights if site.site.planted(night.number)]
        red.append(numpy.concatenate([night.said.red[members] for night in bad]))
        late.append(numpy.concatenate([night.said.red[members] for night in bad[-max(len(bad) // 4, 1) :]]))
        ids.append(
            len(set().union(*(_keys(cause) for night in site.nights for cause in night.said.incidents if cause.id)))
        )
        good += [night.said.is_red for night in site.nights if not site.site.planted(night.number)]
        for night in bad:
            true = -site.site.change(night.number, numpy.zeros((site.site.world.m, 1)))[members]
            told += (night.said.loss[members] / true - 1)[night.said.red[members]].tolist()
        first += [site.night_of(lambda said, place=place: bool(said.red[place])) for place in members]
    bias = f'{100 * numpy.median(told):+.1f}' if told else '-'
    return [
        f'{numpy.mean(ids):.2f}', _share(numpy.concatenate(red)), _share(numpy.concatenate(late)), bias, _share(good),
        f'{numpy.median(first):g}',
    ]  # fmt: skip


def stories(sites: Sequence[Played]) -> list[str]:
    """Return the cells of sites with lasting or passing losses of nodes, of all series, or of none."""
    named, wrong, count, whole, good = [], 0, 0, [], []
    for site in sites:
        for node in {cause.node for causes in site.site.lost for cause in causes if cause.kind == 'node'}:
            named.append(site.night_of(lambda said, node=node: node in said.nodes))
        for night in site.nights:
            planted = site.site.planted(night.number)
            nodes = {cause.node for cause in planted if cause.kind == 'node'}
            wrong, count = wrong + len(set(night.said.nodes) - nodes), count + 1
            if any(cause.kind == 'site' for cause in planted):
                told = [group for group in night.said.groups if 2 * len(group.members) > len(night.said.red)]
                whole.append(bool(told))
            if not planted:
                good.append(night.said.is_red)
    return [_by(named, 1), _by(named, 3), f'{wrong} of {count}', _share(whole), _share(good), _jobs(sites)]


@dataclass(frozen=True)
class Table:
    """A table. `cells`: computes the cells of a row. `heads`: of the columns. `rows`: name -> world."""

    title: str
    cells: Callable[[Sequence[Played]], list[str]]
    heads: tuple[str, ...]
    rows: dict[str, World]


def _pools() -> Iterator[tuple[str, World]]:
    for count in (16, 64, 1024):
        for sd in (0.0, 1.0, 1.5):
            yield f'{count} nodes, effects {sd:g} sd', World(nodes=count, effects=sd)
    for noise in ('gamma', 'common', 'AR(1)', 'slow jobs'):
        yield f'16 nodes, effects 1 sd, {noise}', World(noise, nodes=16, effects=1.0)
    yield '16 nodes, offsets 1 sd in all series', World(nodes=16, offsets=1.0)
    yield '16 nodes, effects and offsets 1 sd', World(nodes=16, effects=1.0, offsets=1.0)
    yield '16 nodes, effects 1 sd, n = 3', World(nodes=16, effects=1.0, n=3)
    yield '16 nodes, effects 1 sd, n = 30', World(nodes=16, effects=1.0, n=30)


def _fault(loss: float) -> World:
    """Return a world in which a case loses 10 % for one night; a night after its repair four series lose `loss`."""
    past = Loss('case', 0.1, start=1, stop=2)
    return World(losses=(past, Loss('series', loss, 0.01, start=3)), skipped=3, nights=6)


FAULT = (Loss('case', 0.1, cv=0.01, stop=1),)
MIXED = World(kinds=((0.01, 0.01), (0.1, 0.1)), factor=1.3)
HEALTHY = {
    **{f'noise {noise}': World(noise) for noise in MADE},
    'half CV 1 %, half 10 %': MIXED,
    'noise levels 0.1, n = 30': World('levels 0.1', n=30),
    'noise slow nights, half, n = 30': World('slow nights, half', n=30),
    **dict(_pools()),
    'after a fault of 8 series, one night': World(losses=FAULT, skipped=1),
    '16 nodes, effects 1 sd, after a fault of 8 series': World(nodes=16, effects=1.0, losses=FAULT, skipped=1),
    'a third of the cases missing': World(missing=1 / 3),
    'a third of the nights missing': World(closed=1 / 3),
    'upgrade of an environ by 5 %, recorded anew': World(upgrade=0.05, skipped=CHANGES + ANEW),
    'four series renamed': World(renamed=True),
    'a partition away for 5 nights': World(away=True),
    '30 nights before': World(skipped=30, nights=60),
    '30 nights before, noise gamma': World('gamma', skipped=30, nights=60),
    '30 nights before, 16 nodes, effects 1 sd': World(skipped=30, nights=60, nodes=16, effects=1.0),
    **{f'{m} series': World(m=m) for m in (40, 4000)},
    **{f'{m} series, noise gamma': World('gamma', m=m) for m in (40, 4000)},
    **{f'n = {n}, noise {noise}': World(noise, n=n) for n in (1, 3, 30)
       for noise in ('normal', 'gamma', 'AR(1)', 'steps')},
    'n = 1, CV 3 %, stated 1 %': World(n=1, cv=0.03, usual=0.01),
    'n = 1, CV 10 %, stated 3 %': World(n=1, cv=0.1, usual=0.03, factor=1.3),
    'n = 1, half CV 1 %, half 10 %': replace(MIXED, n=1),
    'n = 1, half CV 1 %, half 10 %, both stated 2 %': replace(MIXED, n=1, kinds=((0.01, 0.02), (0.1, 0.02))),
}  # fmt: skip


def _loss(size: float, cv: float, nights: int, **more: object) -> tuple[str, World]:
    world = World(losses=(Loss('series', size, cv),), nights=nights, **more)  # type: ignore[arg-type]
    words = {
        'n': 'n = {}',
        'noise': 'noise {}',
        'nodes': '{} nodes',
        'effects': 'effects {:g} sd',
        'missing': 'missing {:.2g}',
    }
    besides = ''.join(f', {words[key].format(value)}' for key, value in more.items() if key in words)
    return f'-{100 * size:g} %, CV {100 * cv:g} %{besides}', world


LOSSES = dict([
    *(_loss(0.05, 0.01, 7, noise=noise) for noise in MADE),
    *(_loss(0.05, 0.01, 7, n=n) for n in (20, 30)), *(_loss(0.03, 0.01, 7, n=n) for n in (10, 20)),
    *(_loss(0.1, 0.03, 7, n=n) for n in (10, 20)), *(_loss(0.05, 0.03, 14, n=n) for n in (10, 20, 30)),
    _loss(0.3, 0.01, 2), _loss(0.05, 0.01, 7, missing=1 / 3),
    *(_loss(0.05, 0.01, 7, nodes=16, effects=sd) for sd in (0.0, 1.0, 1.5)), _loss(0.1, 0.01, 7, nodes=16, effects=1.0),
    ('-5 % two nights after a repaired fault of 8', _fault(0.05)),
    ('-30 % two nights after a repaired fault of 8', _fault(0.3)),
    *(_loss(size, cv, 2, n=1, factor=factor) for size, cv, factor in (
        (0.5, 0.05, 2.0), (0.5, 0.1, 2.0), (0.9, 0.1,
    2.0))), _loss(0.5, 0.1, 2, n=3), _loss(0.1, 0.01, 2, n=3), ('one series on one node of 16, -10 %',
    World(losses=(Loss('series on a node', 0.1, 0.01),), nodes=16)),
])  # fmt: skip
OF_20 = {'size': 10, 'environ': (2,), 'cv': 0.02, 'factor': 1.0, 'nights': 3, 'losses': (Loss('environ', 0.02),)}
TOGETHER = {
    **{f'noise {noise}, n = {n}': World(noise, n=n, **OF_20)  # type: ignore[arg-type]
       for noise, n in (('normal', 10), ('normal', 20), ('gamma', 10), ('common', 10), ('AR(1)', 10))},
    '16 nodes, effects 1 sd': World(nodes=16, effects=1.0, **OF_20),  # type: ignore[arg-type]
}  # fmt: skip
SLOW, FLAPPING = Loss('node', 0.05), Loss('node', 0.05, every=5, on=2)
NODES = {
    f'{count} nodes, effects {sd:g} sd, noise {noise}': World(noise, nodes=count, effects=sd, losses=(SLOW,), nights=7)
    for noise, count, sd in (
        ('normal', 16, 0.0), ('normal', 16, 1.0), ('normal', 64, 0.0), ('normal', 64, 1.0), ('normal', 1024, 1.0),
        ('common', 16, 1.0), ('gamma', 16, 1.5),
    )
} | {
    '16 nodes, effects and offsets 1 sd': World(nodes=16, effects=1.0, offsets=1.0, losses=(SLOW,), nights=7),
    '16 nodes, effects 1 sd, n = 1': World(nodes=16, effects=1.0, n=1, losses=(SLOW,), nights=7),
    '16 nodes, effects 1 sd, two nights in five': World(nodes=16, effects=1.0, losses=(FLAPPING,), nights=25),
}  # fmt: skip
CAUSES = {
    name: World(losses=(loss,), nights=1, factor=1.0, **more)  # type: ignore[arg-type]
    for name, loss, more in (
        ('12 unrelated series, -5 %', Loss('unrelated', 0.05), {}),
        ('20 of one environ, -5 %', Loss('environ', 0.05), {'size': 10, 'environ': (2,)}),
        ('8 of one case, -5 %', Loss('case', 0.05), {}),
        ('a node of 16, -5 %', Loss('node', 0.05), {'nodes': 16}),
        ('300 of 400, -5 to -20 %', Loss('most', 0.05, worst=0.2), {}),
        ('nothing', Loss('case', 0.0), {}),
    )
}
COURSES = {
    'case, -10 %, two nights in five': World(losses=(Loss('case', 0.1, 0.01, every=5, on=2),), nights=45),
    'case, -10 %, five nights, then repaired': World(losses=(Loss('case', 0.1, 0.01, stop=5),), nights=12),
    'four series, 0.2 % more a night, CV 1 %': World(losses=(Loss('series', 0.002, 0.01, drift=True),), nights=40),
    'four series, 0.2 % more a night, CV 3 %': World(losses=(Loss('series', 0.002, 0.03, drift=True),), nights=40),
}
_SITE = {'m': 160, 'environ': (5,), 'factor': 1.5, 'nodes': 16, 'effects': 1.0}
_SPREAD = {**_SITE, 'm': 240, 'nodes': 32, 'span': (2, 4)}
STORIES = {
    name: World(**{**_SITE, **more})  # type: ignore[arg-type]
    for name, more in {
        'healthy': {'nights': 20},
        'healthy, n = 20': {'nights': 20, 'n': 20},
        'healthy, 64 nodes': {'nights': 20, 'nodes': 64},
        'healthy, slow jobs': {'nights': 20, 'noise': 'slow jobs'},
        'healthy, slow jobs, n = 20': {'nights': 20, 'noise': 'slow jobs', 'n': 20},
        'healthy, cases on 2 to 4 of 32 nodes': {**_SPREAD, 'nights': 20},
        'season of 1.5 %, floor 2 %': {'nights': 60, 'season': 0.015},
        'season of 1 %, floor 2 %': {'nights': 60, 'season': 0.01},
        'all -2 % in each 14th night': {'nights': 28, 'losses': (Loss('all', 0.02, start=2, every=14),)},
        'all -3 % in one night': {'losses': (Loss('all', 0.03, start=2, stop=3),)},
        'all -4 % from the first night on': {'nights': 20, 'losses': (Loss('all', 0.04),)},
        'all -8 % for three nights, floor 15 %': {'floor': 0.15, 'losses': (Loss('all', 0.08, stop=3),)},
        'a case -8 %, floor 15 %': {'floor': 0.15, 'losses': (Loss('case', 0.08, stop=14),)},
        'a quarter of the cases -6 %': {'losses': (Loss('environ', 0.06),)},
        'a node -10 % for four nights, repaired': {'losses': (Loss('node', 0.1, stop=4),)},
        'a node of 64 -10 % for four nights, repaired': {'nodes': 64, 'losses': (Loss('node', 0.1, stop=4),)},
        'two nodes -10 and -6 %': {'losses': (Loss('node', 0.1), Loss('other node', 0.06))},
        'a node of 32 -10 % in cases on 2 to 4 nodes': {**_SPREAD, 'losses': (Loss('node', 0.1),)},
        'a node of 32 -30 % in cases on 2 to 4 nodes': {**_SPREAD, 'losses': (Loss('node', 0.3),)},
    }.items()
}
UNDESCRIBED = {
    f'{what}, n = {n}, {"without further jobs" if not looks else f"{looks} further jobs"}': World(
        noise, m=38, size=13, environ=(3,), n=n, nights=8, looks=looks)
    for noise, what in (('recorded', 'virtual machine'), ('recorded, a tenth', 'quiet machine'))
    for n, looks in ((1, 0), (1, 5), (3, 5), (10, 5))
}  # fmt: skip
SLOWED = (
    ('-20 % of the steadiest metric', Loss('steady', 0.2)),
    ('a benchmark slowed to a half', Loss('first case', 0.5)),
)
TABLES = (
    Table('An undescribed machine, healthy', first_nights, (
        'half notice %', 'first night red %', 'later nights red %', 'nights with a new incident %',
        'nodes shown a night', 'further jobs, % of the cases'), UNDESCRIBED),
    Table('An undescribed machine that lost', slowed, ('same night %', 'within 2 %', 'further jobs %'), {
        f'{name}: {loss}': replace(world, losses=(what,), nights=3)
        for name, world in UNDESCRIBED.items() for loss, what in SLOWED}),
    Table('Healthy nights', healthy, (
        'first night red %', 'later nights red %', 'nights with a new incident %', 'nodes shown a night',
        'further jobs, % of the cases'), HEALTHY),
    Table('Losses of single series, four a site', losses, (
        'same night %', 'within 3 %', 'within (nights) %', 'interval covers %', 'median bias %',
        'further jobs %'), LOSSES),
    Table('-2 % of an environ of 20 series of CV 2 %', together,
          ('same night %', 'within 3 %', 'further jobs %'), TOGETHER),
    Table('One node loses 5 %', nodes, (
        'named same night %', 'within 3 %', 'shown same night %', 'named on bad nights %',
        'others named and shown, of site-nights', 'series red besides, nights %', 'further jobs %'), NODES),
    Table('Causes of one night', causes, (
        'incidents', 'causes told as planted %', 'nights told exactly %', 'lost series red %',
        'healthy series red'), CAUSES),
    Table('Nights of sites of 20 to 30 cases', stories, (
        'nodes named same night %', 'within 3 %', 'others named, of site-nights', 'told as of the site %',
        'red nights without a loss %', 'further jobs %'), STORIES),
    Table('Losses that come and go, or grow', courses, (
        'incidents', 'series red on bad nights %', 'on the last quarter of them %', 'median bias of told %',
        'red nights without a loss %', 'first red on night (median)'), COURSES),
)  # fmt: skip


def rule_of(words: str) -> Callable[[Layout], Rule]:
    """Return the rule `NAME` of a file, from words such as ``FILE.py:NAME``."""
    path, _, name = words.rpartition(':')
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec and spec.loader, f'{words}: expected FILE.py:NAME'
    sys.modules.setdefault('worlds', sys.modules[__name__])  # the rule imports this very module
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default='', help='rows whose table and name hold this')
    parser.add_argument('--sites', type=int, default=100, help='simulated for each row (default: 100)')
    parser.add_argument(
        '--rule', default=f'{HERE / "product.py"}:Product', metavar='FILE.py:NAME', help='callable that takes a layout'
    )
    arguments = parser.parse_args()
    make = rule_of(arguments.rule)
    for table in TABLES:
        rows = {name: world for name, world in table.rows.items() if arguments.only in f'{table.title}: {name}'}
        if rows:
            print(
                f'\n{table.title}\n\n| world | sites | {" | ".join(table.heads)} |\n'
                + '|---' * (len(table.heads) + 2)
                + '|'
            )
        for name, world in rows.items():
            count = max(arguments.sites * 400 // max(world.m, 400), 1)
            sites = [play(world, name, number, make) for number in range(count)]
            print(f'| {name} | {count} | {" | ".join(table.cells(sites))} |', flush=True)


if __name__ == '__main__':
    main()

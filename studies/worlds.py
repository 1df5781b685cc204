# SPDX-License-Identifier: BSD-3-Clause
"""Whole nights of simulated sites, judged by the functions of the product; prints tables.

    python studies/worlds.py                            every table; docs/method.md quotes rows: hours
    python studies/worlds.py --sites 20 --only "AR(1)"  rows or tables whose name holds this, of 20 sites each

The same options print the same figures. Brackets: 95 % Wilson intervals.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy
from numpy import ndarray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from studies.product import Product  # noqa: E402
from studies.simulated import MADE, SEED, Loss, Night, Site, World  # noqa: E402

# Nights


@dataclass(frozen=True)
class Tonight:
    """A simulated night: what the rule said, and how many further jobs it ran."""

    number: int
    said: Night
    jobs: int


@dataclass
class Played:
    """The results of a site. `nights`: the nights that count."""

    site: Site
    nights: list[Tonight] = field(default_factory=list)
    noticed: float = math.nan  # the loss that half of the series notice by the rule's own account

    def night_of(self, shows: Callable[[Night], bool]) -> float:
        """Return the number, from 1, of the first night for which `shows` is true; infinity if there is none."""
        return next((place for place, tonight in enumerate(self.nights, 1) if shows(tonight.said)), math.inf)


def play(world: World, name: str, number: int) -> Played:
    """Record the baseline of site `number`, simulate its nights, and return the results."""
    site = Site(world, name, number)
    rule, layout, played = Product(site.layout), site.layout, Played(site)
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
    rule.record(*(numpy.stack(part, axis=-1) for part in zip(*columns, strict=True)))
    played.noticed = rule.noticed
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
        if night >= world.skipped:
            played.nights.append(Tonight(night, answer, jobs))
    return played


# Tables


def wilson(hits: float, n: int, digits: int = 1) -> str:
    """Return a share in % and its 95 % interval, ``0.1 [0.0-0.5]``; ``-`` if `n` is 0."""
    if not n:
        return '-'
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(middle - half, 0), min(middle + half, 1)
    return f'{100 * share:.{digits}f} [{100 * low:.{digits}f}-{100 * high:.{digits}f}]'


def _share(values: Sequence[bool] | ndarray) -> str:
    return wilson(float(numpy.sum(values)), int(numpy.size(values)))


def _by(found: Sequence[float], night: int) -> str:
    return _share(numpy.array(found) <= night)


def _jobs(sites: Sequence[Played]) -> str:
    """Return the mean number of further jobs of a night, in % of the cases."""
    return f'{100 * numpy.mean([night.jobs / site.site.layout.cases for site in sites for night in site.nights]):.1f}'


def healthy(sites: Sequence[Played]) -> list[str]:
    """Return the cells of the table of sites without losses in the nights that count."""
    return [
        _share([site.nights[0].said.is_red for site in sites]),
        _share([night.said.is_red for site in sites for night in site.nights[1:]]),
        _jobs(sites),
    ]


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
    """Return the cells of a node that loses: how often it is named, others are, and what else is red."""
    named, wrong, besides, bad = [], 0, [], []
    for site in sites:
        node = site.site.lost[0][0].node
        named.append(site.night_of(lambda said, node=node: node in said.nodes))
        for night in site.nights:
            wrong += len(set(night.said.nodes) - {node})
            besides.append(bool(night.said.red.any() or night.said.groups))
            if site.site.planted(night.number):
                bad.append(node in night.said.nodes)
    return [
        _by(named, 1), _by(named, 3), _share(bad), f'{wrong} of {len(besides)}', _share(besides), _jobs(sites),
    ]  # fmt: skip


def courses(sites: Sequence[Played]) -> list[str]:
    """Return the cells of losses that come later, come and go or grow: red series on bad nights, red good nights."""
    red, late, told, good, first = [], [], [], [], []
    for site in sites:
        members = sorted(set().union(*(cause.members for causes in site.site.lost for cause in causes)))
        bad = [night for night in site.nights if site.site.planted(night.number)]
        red.append(numpy.concatenate([night.said.red[members] for night in bad]))
        late.append(numpy.concatenate([night.said.red[members] for night in bad[-max(len(bad) // 4, 1) :]]))
        good += [night.said.is_red for night in site.nights if not site.site.planted(night.number)]
        for night in bad:
            true = -site.site.change(night.number, numpy.zeros((site.site.world.m, 1)))[members]
            told += (night.said.loss[members] / true - 1)[night.said.red[members]].tolist()
        first += [site.night_of(lambda said, place=place: bool(said.red[place])) for place in members]
    bias = f'{100 * numpy.median(told):+.1f}' if told else '-'
    return [
        _share(numpy.concatenate(red)), _share(numpy.concatenate(late)), bias, _share(good),
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
    '30 nights before': World(skipped=30, nights=60),
    **{f'30 nights before, n = {n}': World(n=n, skipped=30, nights=37) for n in (1, 3)},
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
    *((f'-5 % 30 nights after a baseline, n = {n}',
       World(losses=(Loss('series', 0.05, 0.01, start=30),), skipped=30, nights=37, n=n)) for n in (1, 3)),
    *(_loss(size, cv, 2, n=1, factor=factor) for size, cv, factor in (
        (0.5, 0.05, 2.0), (0.5, 0.1, 2.0), (0.9, 0.1,
    2.0))), _loss(0.5, 0.1, 2, n=3), _loss(0.1, 0.01, 2, n=3), ('one series on one node of 16, -10 %',
    World(losses=(Loss('series on a node', 0.1, 0.01),), nodes=16)),
])  # fmt: skip
OF_20 = {'size': 10, 'environ': (2,), 'cv': 0.02, 'factor': 1.0, 'nights': 3, 'losses': (Loss('environ', 0.02),)}
TOGETHER = {
    'noise normal, n = 10': World(**OF_20),  # type: ignore[arg-type]
}  # fmt: skip
NODES = {
    f'{count} nodes, effects 1 sd': World(nodes=count, effects=1.0, losses=(Loss('node', 0.05),), nights=7)
    for count in (16, 64, 1024)
} | {
    '16 nodes, effects 1 sd, n = 1': World(nodes=16, effects=1.0, n=1, losses=(Loss('node', 0.05),), nights=7),
    '16 nodes, effects 1 sd, two nights in five': World(
        nodes=16, effects=1.0, losses=(Loss('node', 0.05, every=5, on=2),), nights=25
    ),
}
COURSES = {
    'case, -10 %, two nights in five': World(losses=(Loss('case', 0.1, 0.01, every=5, on=2),), nights=45),
    'case, -10 %, five nights, then repaired': World(losses=(Loss('case', 0.1, 0.01, stop=5),), nights=12),
    'four series, 0.2 % more a night, CV 1 %': World(losses=(Loss('series', 0.002, 0.01, drift=True),), nights=40),
    'four series, 0.2 % more a night, CV 3 %': World(losses=(Loss('series', 0.002, 0.03, drift=True),), nights=40),
    'n = 1, case, -10 % from the tenth night on': World(n=1, losses=(Loss('case', 0.1, 0.01, start=9),), nights=18),
    'n = 1, four series, -10 % from the tenth night on': World(
        n=1, losses=(Loss('series', 0.1, 0.01, start=9),), nights=18
    ),
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
        'all -5 % for twelve nights': {'nights': 16, 'losses': (Loss('all', 0.05, start=1, stop=13),)},
        'a node that always lost 6 %': {'losses': (Loss('node', 0.06, start=-100),)},
        'a quarter of the cases -6 %': {'losses': (Loss('environ', 0.06),)},
        'a node -10 % for four nights, repaired': {'losses': (Loss('node', 0.1, stop=4),)},
        'a node of 64 -10 % for four nights, repaired': {'nodes': 64, 'losses': (Loss('node', 0.1, stop=4),)},
        'two nodes -10 and -6 %': {'losses': (Loss('node', 0.1), Loss('other node', 0.06))},
        'three nodes of 24 -7 %': {
            'nodes': 24,
            'losses': tuple(Loss(of, 0.07) for of in ('node', 'other node', 'third node')),
        },
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
        'half notice %', 'first night red %', 'later nights red %', 'further jobs, % of the cases'), UNDESCRIBED),
    Table('An undescribed machine that lost', slowed, ('same night %', 'within 2 %', 'further jobs %'), {
        f'{name}: {loss}': replace(world, losses=(what,), nights=3)
        for name, world in UNDESCRIBED.items() for loss, what in SLOWED}),
    Table('Healthy nights', healthy, (
        'first night red %', 'later nights red %', 'further jobs, % of the cases'), HEALTHY),
    Table('Losses of single series, four a site', losses, (
        'same night %', 'within 3 %', 'within (nights) %', 'interval covers %', 'median bias %',
        'further jobs %'), LOSSES),
    Table('-2 % of an environ of 20 series of CV 2 %', together,
          ('same night %', 'within 3 %', 'further jobs %'), TOGETHER),
    Table('One node loses 5 %', nodes, (
        'named same night %', 'within 3 %', 'named on bad nights %', 'others named, of site-nights',
        'series red besides, nights %', 'further jobs %'), NODES),
    Table('Nights of sites of 20 to 30 cases', stories, (
        'nodes named same night %', 'within 3 %', 'others named, of site-nights', 'told as of the site %',
        'red nights without a loss %', 'further jobs %'), STORIES),
    Table('Losses that come later, come and go, or grow', courses, (
        'series red on bad nights %', 'on the last quarter of them %', 'median bias of told %',
        'red nights without a loss %', 'first red on night (median)'), COURSES),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default='', help='rows whose table and name hold this')
    parser.add_argument('--sites', type=int, default=100, help='simulated for each row (default: 100)')
    arguments = parser.parse_args()
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
            sites = [play(world, name, number) for number in range(count)]
            print(f'| {name} | {count} | {" | ".join(table.cells(sites))} |', flush=True)


if __name__ == '__main__':
    main()

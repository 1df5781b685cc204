"""How often trend and fleet are wrong, measured on noise whose truth is known; prints, asserts nothing.

    python studies/trend_quality.py trend   stable half-years with a change; steps found 5 and 10 nights later
    python studies/trend_quality.py fleet   false nodes a session; nodes that lost 5 %; losses of the system

Seeded: the same options print the same numbers. Every share has its 95 % Wilson interval. `--trials N` sets how many
series or sessions a cell is made of (default 2000 and 1000, a minute at most).

`trend` calls `trend.steps` and `trend.drift`, `fleet` calls `fleet.outliers`, both with the default floor of 2 %. A
step after 60 nights is found when one is placed within 3 nights of it. Beside them: a fixed 5 % below the mean of the
first ten nights, as ReFrame's references are, and apache-otava with its defaults where it is installed (it pins numpy,
so this project does not).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
from numpy.random import Generator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'studies')]

from verdict_quality import wilson  # noqa: E402

from plumbline.identity import Quantity, SeriesId  # noqa: E402
from plumbline.limits import DEFAULT_CAP, DEFAULT_FLOOR, Tolerance  # noqa: E402
from postprocess.history.changepoints import changes  # noqa: E402
from postprocess.history.nodes import NodeTable, outliers  # noqa: E402

SEED = 20261121
CVS = (0.005, 0.01, 0.03, 0.05)
HALF_YEAR, BEFORE = 180, 60
LOSSES = (0.02, 0.03, 0.05, 0.10)
FLEETS = (16, 64, 128, 256, 512)
SPREAD, RUN, NIGHT = 0.03, 0.007, 0.01  # of healthy nodes, of one run, and of a whole night
Finder = Callable[[numpy.ndarray], list[list[int]]]


# Noise: standard normal but for what the name says, along the last axis, which is time


def normal(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    return rng.standard_normal(shape)


def skewed(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """One night of twenty is 3 to 10 standard deviations slow."""
    return rng.standard_normal(shape) - (rng.random(shape) < 0.05) * rng.uniform(3, 10, shape)


def correlated(rng: Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """AR(1) with 0.5: each night is half like the one before; the reruns are further steps of the same series."""
    values = rng.standard_normal(shape)
    for night in range(1, shape[-1]):
        values[..., night] = 0.5 * values[..., night - 1] + math.sqrt(0.75) * values[..., night]
    return values


NOISES = {'normal': normal, 'skewed': skewed, 'AR(1) 0.5': correlated}


def ours(rows: numpy.ndarray) -> list[list[int]]:
    return [found.steps for row in rows for found in changes([row], [DEFAULT_FLOOR])[0]]


def fixed(rows: numpy.ndarray) -> list[list[int]]:
    """The nights more than 5 % below the mean of the first ten."""
    values = numpy.exp(rows)
    below = values < 0.95 * values[:, :10].mean(axis=1, keepdims=True)
    return [[int(night) for night in numpy.flatnonzero(row)] for row in below]


def otava() -> Finder | None:
    try:
        from otava.analysis import compute_change_points
    except ImportError:
        return None

    def find(rows: numpy.ndarray) -> list[list[int]]:
        return [[point.index for point in compute_change_points(numpy.exp(row).tolist())[0]] for row in rows]

    return find


def trend(trials: int) -> None:
    finders: dict[str, Finder] = {'plumbline trend': ours, 'ReFrame, -5 %': fixed}
    if found := otava():
        finders['apache-otava'] = found
    for name, find in finders.items():
        few = trials if name == 'plumbline trend' else max(trials // 10, 100)
        print(f'\n{name}, {few} series a cell\n')
        print(
            '| noise | CV | stable half-years with a change | steps of 2, 3, 5, 10 % found after 5 nights | after 10 |'
        )
        print('|---|---:|---|---|---|')
        for noise, draw in NOISES.items():
            for cv in CVS:
                rng = numpy.random.default_rng(SEED)
                rows = numpy.log1p(cv * draw(rng, (few, HALF_YEAR)).clip(-0.9 / cv))
                false = [bool(ends) for ends in find(rows)]
                if name == 'plumbline trend':
                    drifts = [changes([row], [DEFAULT_FLOOR])[0][0].drift for row in rows]
                    false = [wrong or drift is not None for wrong, drift in zip(false, drifts, strict=True)]
                cells = []
                for after in (5, 10):
                    shares = []
                    for loss in LOSSES:
                        rows = numpy.log1p(cv * draw(rng, (few // 2, BEFORE + after)).clip(-0.9 / cv))
                        rows[:, BEFORE:] += math.log1p(-loss)
                        hits = sum(any(abs(end - BEFORE) <= 3 for end in ends) for ends in find(rows))
                        shares.append(wilson(hits, few // 2) if loss == 0.05 else f'{100 * hits / (few // 2):.0f} %')
                    cells.append(', '.join(shares))
                print(f'| {noise} | {100 * cv:g} % | {wilson(sum(false), few)} | {" | ".join(cells)} |', flush=True)


def fleet(trials: int) -> None:
    print(
        '| nodes | past nights | metrics | false nodes a session | sessions with one | node found that lost 5 % '
        '| of a quarter that did |'
    )
    print('|---:|---:|---:|---:|---|---|---:|')
    for nodes in FLEETS:
        for nights, metrics in ((0, 1), (1, 1), (4, 1), (10, 1), (30, 1), (10, 20)):
            rng, few = numpy.random.default_rng(SEED), max(trials // metrics, min(trials, 50))
            healthy = [flagged(rng, nodes, nights, metrics)[0] for _ in range(few)]
            one = [flagged(rng, nodes, nights, metrics, slow=1)[0] for _ in range(few)]
            many = [flagged(rng, nodes, nights, metrics, slow=nodes // 4)[0] for _ in range(few // 4)]
            found = sum(0 in names for names in one)
            quarter = sum(name < nodes // 4 for names in many for name in names) / len(many) / (nodes // 4)
            false = f'{sum(map(len, healthy)) / few:.3f} | {wilson(sum(map(bool, healthy)), few)}'
            cells = f'{false} | {wilson(found, few)} | {100 * quarter:.1f} %'
            print(f'| {nodes} | {nights} | {metrics} | {cells} |', flush=True)
    print('\nThe whole system lost 4 % and 8 %, one metric:\n')
    print('| nodes | past nights | loss | nodes flagged a session | found as a loss of the system |')
    print('|---:|---:|---:|---:|---|')
    for nodes in FLEETS:
        for nights in (4, 10):
            for loss in (0.04, 0.08):
                rng = numpy.random.default_rng(SEED)
                found = [flagged(rng, nodes, nights, 1, system=loss) for _ in range(trials)]
                false = sum(len(names) for names, _ in found) / trials
                share = wilson(sum(of for _, of in found), trials)
                print(f'| {nodes} | {nights} | {100 * loss:g} % | {false:.3f} | {share} |', flush=True)
    print('\nOne run of twenty on a node 3 to 10 standard deviations slow (skewed), 10 past nights, one metric:\n')
    print('| nodes | runs more than 3 % slow a session | nodes flagged a session | flagged in two sessions |')
    print('|---:|---|---|---|')
    for nodes in FLEETS:
        rng = numpy.random.default_rng(SEED)
        slow, once, twice = 0, 0, 0
        for _ in range(trials):
            noise = NOISES['skewed'](rng, (nodes, 12))
            table = SPREAD * rng.standard_normal((nodes, 1)) + NIGHT * rng.standard_normal((1, 12)) + RUN * noise
            first, second = (judged([table[:, : 11 + night]])[0] for night in (0, 1))
            slow += (noise[:, 10] < -0.03 / RUN).sum()
            once, twice = once + len(first), twice + len(first & second)
        print(f'| {nodes} | {slow / trials:.2f} | {once / trials:.2f} | {twice / trials:.3f} |', flush=True)


def flagged(rng, nodes: int, nights: int, metrics: int, slow: int = 0, system: float = 0.0) -> tuple[set[int], bool]:
    """The nodes flagged in a session, and whether the system is; `slow` of them lost 5 % in the first metric."""
    level = SPREAD * rng.standard_normal((nodes, 1))
    tables = []
    for metric in range(metrics):
        night = NIGHT * rng.standard_normal((1, nights + 1))
        performance = level + night + RUN * rng.standard_normal((nodes, nights + 1))
        performance[:, -1] += math.log1p(-system)
        performance[: slow if metric == 0 else 0, -1] += math.log1p(-0.05)
        tables.append(performance)
    return judged(tables)


def judged(tables: list[numpy.ndarray]) -> tuple[set[int], bool]:
    names = [str(node) for node in range(len(tables[0]))]
    tolerance = Tolerance(DEFAULT_FLOOR, DEFAULT_CAP)
    found = [
        NodeTable(
            SeriesId('cpu', 'system', 'Check', (('metric', str(i)),), 'triad'), Quantity('GB/s', 'higher'), tolerance,
            names, table,
        )
        for i, table in enumerate(tables)
    ]  # fmt: skip
    nodes, systems = outliers(found)
    return {int(flag.node) for flag in nodes}, bool(systems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=('trend', 'fleet'))
    parser.add_argument('--trials', type=int)
    given = parser.parse_args()
    if given.what == 'trend':
        trend(given.trials or 2000)
    else:
        fleet(given.trials or 1000)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""How often `plumbline node-check` drains a healthy node, and finds one that lost 10 %; prints, asserts nothing.

    python studies/node_check_rates.py                    noise of models, and series recorded on a virtual machine
    python studies/node_check_rates.py --public FOLDER    also clones of public histories, as for public_series.py

Each table has a row for each noise: the standard deviation of one look, healthy checks of 8 metrics that end in a
drain, and checks of a metric with a loss that find it, with 95 % Wilson intervals; `finds`: the median of the loss that
the command says it finds; the share of nodes on which it judges the metric, which the loss is counted of. Seeded. The
limits and the looks are those of the product.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
from numpy import ndarray
from numpy.random import Generator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'studies')]

import public_histories  # noqa: E402
from worlds import recorded, wilson  # noqa: E402

from plumbline.references import read_references  # noqa: E402
from postprocess.node_check import LOOKS, take_looks  # noqa: E402
from postprocess.statistics.lowest import OWN, lowest  # noqa: E402

SEED = 20261124
SERIES = 8  # metrics of a check, such as the domains of two sockets twice
LOSS = 0.1
CHECKS = 1000  # healthy checks of a node
LOST = 25  # checks of a node that lost
LOOKED_AT = ROOT / 'tests/outputs/node-check-looks.txt'
#: Draws the logarithms of the looks of so many checks, checks x LOOKS, about a level of 0.
Noise = Callable[[Generator, int], ndarray]


def of_model(cv: float, kind: str) -> Noise:
    """Return noise of a model; `kind` says whether looks vary by themselves or all looks of a check together."""

    def draw(rng: Generator, checks: int) -> ndarray:
        looks, shared = rng.standard_normal((checks, LOOKS)), rng.standard_normal((checks, 1))
        if kind == 'each look':
            return cv * looks
        if kind == 'half of it shared by the looks of a check':
            return cv * (looks + shared) / math.sqrt(2)
        if kind == 'all of it shared':
            return cv * (0.05 * looks + shared)
        if kind == 'heavy tails, Student t of 3':
            return cv * rng.standard_t(3, (checks, LOOKS)) / math.sqrt(3)
        if kind == 'drift, AR(1) of 0.9 over checks':
            steps, values = cv * math.sqrt(1 - 0.81) * rng.standard_normal(checks), numpy.zeros(checks)
            for check in range(1, checks):
                values[check] = 0.9 * values[check - 1] + steps[check]
            return values[:, None] + 0.3 * cv * looks
        slow = rng.random((checks, LOOKS)) < 0.02  # 'one look of 50 loses a fifth'
        return cv * looks + math.log(0.8) * slow

    return draw


def of_series(logs: ndarray, factor: float = 1.0) -> Noise:
    """Return the noise of a recorded series: a check has neighboring values of it, from a place drawn by chance."""

    def draw(rng: Generator, checks: int) -> ndarray:
        places = rng.integers(len(logs), size=(checks, 1)) + numpy.arange(LOOKS)
        return factor * (logs - numpy.median(logs))[places % len(logs)]

    return draw


def study(name: str, noises: list[Noise], nodes: int, own: int) -> None:
    """Print the row of `nodes` nodes, each with one of `noises` in turn and with `own` earlier checks."""
    rng = numpy.random.default_rng([SEED, own, *name.encode()])
    false = caught = judged = 0
    spreads, finds = [], []
    for node in range(nodes):
        logs = noises[node % len(noises)](rng, own + CHECKS + LOST)
        limit = lowest(numpy.exp(logs[:own, 0]).tolist(), [], SERIES)
        assert limit is not None
        judged += limit.limit > 0
        spreads.append(float(logs[:, 0].std()))
        finds.append(limit.notices)
        healthy, lost = logs[own : own + CHECKS], logs[own + CHECKS :] + math.log1p(-LOSS)
        false += sum(drains(looks, limit.limit) for looks in healthy[numpy.exp(healthy[:, 0]) < limit.limit])
        caught += sum(drains(looks, limit.limit) for looks in lost) if limit.limit else 0
    rate = 1e4 * SERIES * false / (nodes * CHECKS)
    bounds = interval(false, nodes * CHECKS)
    spread = 100 * numpy.median(spreads)
    print(
        f'| {name} | {spread:.{1 if spread >= 0.1 else 2}f} % | {rate:.2f} [{bounds}] '
        f'| {wilson(caught, judged * LOST)} % | {100 * numpy.median(finds):.0f} % | {100 * judged / nodes:.0f} % |'
    )


def study_of_peers(count: int, spread: float, nodes: int) -> None:
    """Print the row of new nodes with `count` peers of 20 checks each; the levels of all nodes differ by `spread`."""
    rng = numpy.random.default_rng([SEED, count])
    false = caught = healthy = 0
    finds = []
    for _ in range(5 * nodes):
        levels = spread * rng.standard_normal(count + 1)
        peers = [numpy.exp(level + 0.005 * rng.standard_normal(20)).tolist() for level in levels[1:]]
        limit = lowest([], peers, SERIES)
        assert limit is not None
        finds.append(limit.notices)
        mine = spread * rng.standard_normal((200, 1)) + 0.005 * rng.standard_normal((200, LOOKS))  # 200 new nodes
        healthy += len(mine)
        false += sum(drains(looks, limit.limit) for looks in mine[numpy.exp(mine[:, 0]) < limit.limit])
        caught += drains(mine[0] + math.log1p(-LOSS), limit.limit)
    print(
        f'| {count} peers, levels differ by {100 * spread:g} % | 0.5 % | {1e4 * SERIES * false / healthy:.2f} '
        f'[{interval(false, healthy)}] | {wilson(caught, 5 * nodes)} % | {100 * numpy.median(finds):.0f} % | - |'
    )


def interval(hits: int, n: int) -> str:
    """Return the 95 % Wilson interval of drains in 10 000 checks of `SERIES` metrics."""
    z, share = 1.96, hits / n
    middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1e4 * SERIES / (1 + z * z / n)
    return f'{scale * max(middle - half, 0):.2f}-{scale * (middle + half):.2f}'


def drains(looks: ndarray, limit: float) -> bool:
    """Return True if a check with these logarithms as its looks ends in a drain."""
    remaining: Iterator[float] = iter(numpy.exp(looks).tolist())
    _, (best,) = take_looks(lambda: ([next(remaining)], 0.0), [limit], quiet=1, pause=0)
    return best < limit


def head(title: str) -> None:
    print(f'\n{title}\n\n| noise | of a look | drains in 10 000 healthy checks | -10 % found | finds | judged |')
    print('|---|---:|---:|---:|---:|---:|')


def looks_of_this_tool() -> Iterator[tuple[str, ndarray]]:
    """Yield, by metric, the logarithms of rates recorded look by look while others used at most a quarter of a CPU."""
    with LOOKED_AT.open(newline='', encoding='utf-8') as stream:
        rows = [row for row in csv.DictReader(stream) if float(row['others_cpus']) <= 0.25]
    for name in rows[0]:
        if name.endswith('_rate'):
            yield name.removesuffix('_rate'), numpy.log([float(row[name]) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=400, help='nodes of a row, each with 1000 healthy checks')
    parser.add_argument('--public', type=Path, help='folder with clones of public histories')
    arguments = parser.parse_args()
    for own in (OWN,):
        head(f'Models, {own} earlier checks')
        for cv in (0.002, 0.005, 0.01, 0.015, 0.02, 0.03):
            study('each look by itself', [of_model(cv, 'each look')], arguments.nodes, own)
        for kind in ('half of it shared by the looks of a check', 'all of it shared', 'heavy tails, Student t of 3',
                     'drift, AR(1) of 0.9 over checks', 'one look of 50 loses a fifth'):  # fmt: skip
            study(kind, [of_model(0.01, kind)], arguments.nodes, own)
        head(f'Published spreads, {own} earlier checks')
        for check, what in (('BabelStreamDevice', 'memory of a GPU'), ('BabelStreamBest', 'memory of CPUs')):
            spreads = published_spreads(check)
            for kind in ('each look', 'all of it shared', 'heavy tails, Student t of 3'):
                name = f'{what}, {len(spreads)} published spreads, {kind}'
                study(name, [of_model(cv, kind) for cv in spreads], arguments.nodes, own)
        head('A new node among peers')
        for count, spread in ((8, 0.01), (64, 0.01), (64, 0.02)):
            study_of_peers(count, spread, arguments.nodes)
        head(f'Recorded, {own} earlier checks')
        series = [*recorded()[0]]
        for low, high in ((0, 0.01), (0.01, 0.02), (0.02, 0.05), (0.05, 9)):
            among = [of_series(logs) for logs in series if low <= logs.std() < high]
            if among:
                borders = f'{100 * low:.0f} to {100 * high:.0f} %' if high < 9 else f'above {100 * low:.0f} %'
                study(f'virtual machine, {len(among)} metrics of {borders}', among, arguments.nodes, own)
        study('virtual machine, all metrics, a tenth', [of_series(logs, 0.1) for logs in series], arguments.nodes, own)
        for name, logs in looks_of_this_tool():
            study(f'looks of node-check, {name}', [of_series(logs)], arguments.nodes, own)
        for history in public_histories.read(arguments.public).values() if arguments.public else ():
            residuals = [logs - running_median(logs) for logs in history.series.values()]
            quiet = [of_series(logs) for logs in residuals if public_histories.noise(logs) < 0.015]
            if quiet:
                study(f'{history.name}, {len(quiet)} series with noise below 1.5 %', quiet, arguments.nodes, own)


def published_spreads(check: str) -> list[float]:
    """Return the published relative standard deviations of the bandwidths of a check, over all machines."""
    rows = [
        row
        for path in sorted((ROOT / 'site_configs').glob('*/published.csv'))
        for row in read_references(path, 'published')
    ]
    return [row.std / row.mean for row in rows if row.id.check == check and row.kind == 'published' and row.std]


def running_median(logs: ndarray, width: int = 41) -> ndarray:
    """Return the median of `width` neighbors, edges mirrored, so that lasting changes do not count as noise."""
    padded = numpy.pad(logs, width // 2, mode='reflect' if len(logs) > width // 2 else 'edge')
    return numpy.median(numpy.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


if __name__ == '__main__':
    main()

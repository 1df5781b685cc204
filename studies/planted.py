# SPDX-License-Identifier: BSD-3-Clause
"""Make stores with planted causes, and say which: what the page, the terminal and the incidents must find.

    python studies/planted.py year FOLDER    365 nights of 16 nodes and 459 metrics: kernel, network, drift, slow node
    python studies/planted.py fleet FOLDER   20 nights of 1200 nodes with their switches, three of them slow
    python studies/planted.py night FOLDER   30 nights of 1000 metrics, the last with one slower benchmark
    python studies/planted.py first FOLDER   the first night of 8 nodes: no reference yet, and one slow node
    python studies/planted.py overlap FOLDER 30 nights of 64 nodes: eight causes on the same nodes, nights and series

Each prints its causes, the verdict, and the size of the page, FOLDER/results/report.html. The numbers are made up,
seeded; `--scale X` makes X times as many nights and metrics, or nodes. One session a night. `--publish` makes the site
of all sessions, too, FOLDER/site/index.html.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from postprocess.demo import SITE, Case, PlantedCause, day, plant, year  # noqa: E402
from postprocess.history.digest import judge  # noqa: E402
from postprocess.results.store import Store  # noqa: E402


def fleet(folder: Path, scale: float = 1) -> list[PlantedCause]:
    """Make 20 nights of 1200 nodes, three of them slow for three nights, the first by heat; return their causes."""
    nodes = [f'cn{i:04d}' for i in range(1, max(60, round(1200 * scale)) + 1)]
    slow = {nodes[round(share * len(nodes))]: factor for share, factor in ((0.1, 0.92), (0.4, 0.88), (0.9, 0.94))}

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            factor = slow.get(node, 1) if ago < 3 else 1
            yield 'STREAM', 'size=big', [node], 'GB/s', {'copy': (240, factor), 'triad': (250, factor)}
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, factor)}

    plant(folder, 20 if scale == 1 else 8, night, scheduler='slurm', hot=min(slow))
    places = [f'{node},s{i // 20},r{i // 100}' for i, node in enumerate(nodes)]
    (folder / 'sites' / SITE / 'locations.csv').write_text('\n'.join(['node,switch,rack', *places]) + '\n')
    return [PlantedCause(node, 'STREAM', round(100 * factor - 100, 1), day(2)) for node, factor in slow.items()]


def night(folder: Path, scale: float = 1) -> list[PlantedCause]:
    """Make 30 nights of 1000 metrics in 100 cases; in the last, a benchmark is 9 % slower; return its cause."""

    def night(ago: int) -> Iterator[Case]:
        for k in range(max(10, round(100 * scale))):
            rates = {f'rate_{j}': (100 + 7 * k + j, 0.91 if k == 7 and ago == 0 else 1) for j in range(10)}
            yield f'App{k // 10}', f'input={k % 10}', [f'n{k % 8}'], 'GB/s', rates

    plant(folder, 30, night)
    return [PlantedCause('n7', 'App0 input=7', -9, day(0))]


def first(folder: Path, scale: float = 1) -> list[PlantedCause]:
    """Make the first night of 8 nodes, one of them 12 % slower, without references; return its cause."""
    nodes = [f'nid{i:06d}' for i in range(1, max(5, round(8 * scale)) + 1)]

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            own = 0.88 if node == nodes[2] else 1
            yield 'STREAM', 'size=big', [node], 'GB/s', {'copy': (240, 1), 'triad': (250, 1)}
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, own)}
        latency = {f'latency message_bytes={2**i}': (1.5 + 2**i / 2e4, 1) for i in range(20)}
        yield 'OsuLatency', 'pair=remote', nodes[:2], 'us', latency

    plant(folder, 1, night, referenced=False)
    return [PlantedCause(nodes[2], 'Dgemm', -12, day(0))]


def overlap(folder: Path, scale: float = 1) -> list[PlantedCause]:
    """Make 30 nights of 64 nodes on four switches with causes that share nodes, nights and series; return the causes.

    The last 12 nights are judged. A new kernel takes 7 % of memory bandwidth on all nodes. A node also loses half of
    all its numbers, three other nodes lose 8 % of one series, the jobs of a switch 15 %. A curve is 8 % slower, and one
    case of 60 loses 9 % in the last night.
    """
    nodes = [f'cn{i:03d}' for i in range(1, 65)]
    switch = {node: i // 16 for i, node in enumerate(nodes)}
    hurt, half = ('cn005', 'cn037', 'cn060'), 'cn020'

    def night(ago: int) -> Iterator[Case]:
        kernel = 0.93 if ago < 10 else 1
        for node in nodes:
            own = 0.5 if node == half and ago < 4 else 1
            yield 'STREAM', 'size=big', [node], 'GB/s', {'copy': (240, own * kernel), 'triad': (250, own * kernel)}
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, own * (0.92 if node in hurt and ago < 3 else 1))}
        for pair in zip(nodes[::2], nodes[1::2], strict=True):
            slow = 0.85 if switch[pair[0]] == 1 and ago < 2 else 1
            yield 'OsuBandwidth', 'pair=near', pair, 'GB/s', {'bandwidth message_bytes=1048576': (24, slow)}
        latency = {f'latency message_bytes={2**i}': (1.5 + 2**i / 2e4, 1.08 if ago < 6 else 1) for i in range(20)}
        yield 'OsuLatency', 'pair=remote', [nodes[0], nodes[40]], 'us', latency
        for k in range(round(60 * scale)):
            lost = 0.91 if k == 7 and ago == 0 else 1
            yield f'App{k // 9}', f'input={k % 9}', [nodes[7 * k % 64]], 'GFlop/s', {'rate': (100 + 7 * k, lost)}

    plant(folder, 30, night, 10, scheduler='slurm')
    places = [f'{node},s{i},r{i // 2}' for node, i in switch.items()]
    (folder / 'sites' / SITE / 'locations.csv').write_text('\n'.join(['node,switch,rack', *places]) + '\n')
    of_site = Store(folder / 'results')
    for session in of_site.sessions(SITE)[-12:]:
        judge(of_site, session.session, root=folder / 'sites')
    return [
        PlantedCause('cpu/system', 'STREAM', -7, day(9), 'kernel: 6.1.0-28 -> 6.1.0-37'),
        PlantedCause(half, 'STREAM', -50, day(3)),  # beside the other nodes
        PlantedCause('cpu/system', 'OsuLatency', -7.4, day(5)),
        PlantedCause('switch s1', 'OsuBandwidth', -15, day(1)),
        PlantedCause('cpu/system', 'App0', -9, day(0)),
        *(PlantedCause(node, 'Dgemm', -8, day(2)) for node in hurt),
    ]


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('store', choices=('year', 'fleet', 'night', 'first', 'overlap'))
    parser.add_argument('folder', type=lambda text: Path(text).absolute())
    parser.add_argument('--scale', type=float, default=1)
    parser.add_argument('--publish', action='store_true', help='make a site of all sessions, too: FOLDER/site')
    given = parser.parse_args()
    stores = {'year': year, 'fleet': fleet, 'night': night, 'first': first, 'overlap': overlap}
    for cause in stores[given.store](given.folder, given.scale):
        print('planted:', *cause, flush=True)
    where = ['--results', given.folder / 'results', '--references', given.folder / 'sites']
    for words in (['report', '--days', '365'], *[['publish', given.folder / 'site']] * given.publish):
        subprocess.run([sys.executable, '-m', 'plumbline', *words, *where], cwd=ROOT, check=False)
    print(f'{(given.folder / "results/report.html").stat().st_size / 1e6:.2f} MB')

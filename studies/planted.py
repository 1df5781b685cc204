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
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'tests/postprocess')]

from run_reports import BEGAN, SITE, Workplace, case, metric, reference, report  # noqa: E402

from postprocess.history.digest import digest  # noqa: E402
from postprocess.readers.run_reports import read_report  # noqa: E402
from postprocess.results.store import Store  # noqa: E402
from postprocess.verdicts.compare import judge_session  # noqa: E402

DAY = 86400
LAST = BEGAN  # the last night; one of the future would have a wrong clock
BYTES = {'message_bytes': ('size', 'B')}
PEAKS = {'STREAM': 307.2, 'Dgemm': 3379.2}  # of a node, in the unit of the check
DIMS = {'OsuLatency': BYTES, 'OsuBandwidth': BYTES, 'NumaBandwidth': {'pair': ('pair', '')}}
# Check, params, nodes, unit, and metric -> (mean, factor in that night)
Case = tuple[str, str, Sequence[str], str, dict[str, tuple[float, float]]]


class Cause(NamedTuple):
    """A planted cause: `where` and `what` a card must name, the `change` in %, its first `day`, and what `changed`."""

    where: str
    what: str
    change: float
    day: str
    changed: str = ''


def day(ago: int) -> str:
    """Return the day of the session that was `ago` nights before the last one."""
    return f'{datetime.fromtimestamp(LAST - ago * DAY, timezone.utc):%Y-%m-%d}'


def store(
    folder: Path, nights: int, night: Callable[[int], Iterable[Case]], kernel: int = 0, scheduler: str = 'local',
    hot: str = '', referenced: bool = True,
) -> Workplace:  # fmt: skip
    """Make a store. `night`: returns the cases of the session so many nights before the last one.

    `kernel`: how many nights have the new kernel. `hot`: a node that is throttled in the last three nights.
    `referenced`: whether every metric has a baseline with its planted mean.
    """
    folder.mkdir(parents=True, exist_ok=True)
    work, rng, rows = Workplace(folder), random.Random(1), {}

    def metrics(check: str, params: str, nodes: Sequence[str], unit: str, means: dict[str, tuple[float, float]]):
        better = 'lower' if unit == 'us' else 'higher'
        for text, (mean, factor) in means.items():
            name, _, dims = text.partition(' ')
            row = dict(check=check, params=params, metric=name, dims=dims or '-', mean=mean, std=0.004 * mean)
            rows[check, params, text] = reference(**row, better=better, recorded_at='2025-11-01') | {'unit': unit}
            samples = [mean * factor * (1 + 0.004 * rng.gauss(0, 1)) for _ in range(3)]
            yield text, metric(samples, unit, better, node=nodes[0])

    for ago in range(nights - 1, -1, -1):
        facts = {'kernel': '6.1.0-37' if ago < kernel else '6.1.0-28', 'governor': 'performance'}
        cases = [
            case(row[0], row[1], dict(metrics(*row)), nodes=row[2], dims=DIMS.get(row[0]), scheduler=scheduler,
                 provenance=facts | ({'clock_throttled': '412'} if row[2] == [hot] and ago < 3 else {}),
                 unique_name=f'{row[0]} {row[1]} {row[2]}',
                 figures={text.partition(' ')[0]: {'peak': PEAKS[row[0]]} for text in row[4] if row[0] in PEAKS})
            for row in night(ago)
        ]  # fmt: skip
        content = report(*cases, uuid=f'{nights - ago:08x}', mode='nightly', began=LAST - ago * DAY)
        Store(work.results).add(read_report(work.write(content, 'night.json')))
    if referenced:
        work.reference(*rows.values())
    Store(work.results).compact(SITE)
    return work


def year(folder: Path, scale: float = 1) -> tuple[Workplace, list[Cause]]:
    """Make a year of 16 nodes: a new kernel (-7 %), latency +8 %, a drift, a slow node; return it with its causes."""
    nights, nodes = max(40, round(365 * scale)), [f'nid{i:06d}' for i in range(1, 17)]
    kernel, network, slow, drift = min(42, nights // 3), min(20, nights // 4), 4, nights // 2
    apps, sizes = range(max(12, round(387 * scale))), [2**i for i in range(23)]

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            own = 0.9 if node == 'nid000011' and ago < slow else 1
            memory = own * (0.93 if ago < kernel else 1)
            rates = {'copy': (240, memory), 'triad': (250, memory), 'add': (248, memory)}
            yield 'STREAM', 'size=big', [node], 'GB/s', rates
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, own)}
        latency = {f'latency message_bytes={s}': (1.5 + s / 2e4, 1.08 if ago < network else 1) for s in sizes}
        yield 'OsuLatency', 'pair=remote', nodes[:2], 'us', latency
        bandwidth = {f'bandwidth message_bytes={s}': (24 * s / (s + 9000), 1) for s in sizes}
        yield 'OsuBandwidth', 'pair=remote', nodes[2:4], 'GB/s', bandwidth
        pairs = {f'bandwidth pair={i}-{j}': (180 if i == j else 95, 1) for i in range(4) for j in range(4)}
        yield 'NumaBandwidth', '-', nodes[4:5], 'GB/s', pairs
        worn = 0.94 ** (max(0, drift - ago) / drift)
        yield 'IOR', 'fs=scratch', nodes[5:6], 'MiB/s', {'write': (5200, worn), 'read': (7100, worn)}
        for n in (2, 4, 8, 16):
            yield 'HPL', f'num_nodes={n}', nodes[:n], 'TFlop/s', {'rate': (2.9 * n, 1)}
        for k in apps:
            yield f'App{k // 9}', f'input={k % 9}', [nodes[k % 16]], 'GFlop/s', {'rate': (100 + 7 * k, 1)}

    return store(folder, nights, night, kernel), [
        Cause('16 of 16 nodes', 'STREAM', -7, day(kernel - 1), 'kernel: 6.1.0-28 -> 6.1.0-37'),
        Cause('nid000001, nid000002', 'OsuLatency', -7.4, day(network - 1)),
        Cause('nid000006', 'IOR', -6, day(drift - 1)),
        Cause('nid000011', 'STREAM', -14.7, day(slow - 1)),  # its 10 % in four metrics, the kernel's 7 % in three
    ]


def fleet(folder: Path, scale: float = 1) -> tuple[Workplace, list[Cause]]:
    """Make 20 nights of 1200 nodes, three of them slow for three nights, the first by heat; return them with causes."""
    nodes = [f'cn{i:04d}' for i in range(1, max(60, round(1200 * scale)) + 1)]
    slow = {nodes[round(share * len(nodes))]: factor for share, factor in ((0.1, 0.92), (0.4, 0.88), (0.9, 0.94))}

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            factor = slow.get(node, 1) if ago < 3 else 1
            yield 'STREAM', 'size=big', [node], 'GB/s', {'copy': (240, factor), 'triad': (250, factor)}
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, factor)}

    work = store(folder, 20 if scale == 1 else 8, night, scheduler='slurm', hot=min(slow))
    places = [f'{node},s{i // 20},r{i // 100}' for i, node in enumerate(nodes)]
    (work.sites / SITE / 'locations.csv').write_text('\n'.join(['node,switch,rack', *places]) + '\n')
    return work, [Cause(node, 'STREAM', round(100 * factor - 100, 1), day(2)) for node, factor in slow.items()]


def night(folder: Path, scale: float = 1) -> tuple[Workplace, list[Cause]]:
    """Make 30 nights of 1000 metrics in 100 cases; in the last, a benchmark is 9 % slower; return it with its cause."""

    def night(ago: int) -> Iterator[Case]:
        for k in range(max(10, round(100 * scale))):
            rates = {f'rate_{j}': (100 + 7 * k + j, 0.91 if k == 7 and ago == 0 else 1) for j in range(10)}
            yield f'App{k // 10}', f'input={k % 10}', [f'n{k % 8}'], 'GB/s', rates

    return store(folder, 30, night), [Cause('n7', 'App0 input=7', -9, day(0))]


def first(folder: Path, scale: float = 1) -> tuple[Workplace, list[Cause]]:
    """Make the first night of 8 nodes, one of them 12 % slower, without references; return it with its cause."""
    nodes = [f'nid{i:06d}' for i in range(1, max(5, round(8 * scale)) + 1)]

    def night(ago: int) -> Iterator[Case]:
        for node in nodes:
            own = 0.88 if node == nodes[2] else 1
            yield 'STREAM', 'size=big', [node], 'GB/s', {'copy': (240, 1), 'triad': (250, 1)}
            yield 'Dgemm', '-', [node], 'GFlop/s', {'rate': (3000, own)}
        latency = {f'latency message_bytes={2**i}': (1.5 + 2**i / 2e4, 1) for i in range(20)}
        yield 'OsuLatency', 'pair=remote', nodes[:2], 'us', latency

    return store(folder, 1, night, referenced=False), [Cause(nodes[2], 'Dgemm', -12, day(0))]


def overlap(folder: Path, scale: float = 1) -> tuple[Workplace, list[Cause]]:
    """Make 30 nights of 64 nodes on four switches with causes that share nodes, nights and series; return causes, too.

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

    work = store(folder, 30, night, 10, scheduler='slurm')
    places = [f'{node},s{i},r{i // 2}' for node, i in switch.items()]
    (work.sites / SITE / 'locations.csv').write_text('\n'.join(['node,switch,rack', *places]) + '\n')
    of_site = Store(work.results)
    for session in of_site.sessions(SITE)[-12:]:
        digest(of_site, judge_session(of_site, session, work.sites), work.sites)
    return work, [
        Cause('cpu/system', 'STREAM', -7, day(9), 'kernel: 6.1.0-28 -> 6.1.0-37'),
        Cause(half, 'STREAM', -52.4, day(3)),
        Cause('cpu/system', 'OsuLatency', -7.4, day(5)),
        Cause('switch s1', 'OsuBandwidth', -15, day(1)),
        Cause('cpu/system', 'App0', -9, day(0)),
        *(Cause(node, 'Dgemm', -8, day(2)) for node in hurt),
    ]


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('store', choices=('year', 'fleet', 'night', 'first', 'overlap'))
    parser.add_argument('folder', type=Path)
    parser.add_argument('--scale', type=float, default=1)
    parser.add_argument('--publish', action='store_true', help='make a site of all sessions, too: FOLDER/site')
    given = parser.parse_args()
    stores = {'year': year, 'fleet': fleet, 'night': night, 'first': first, 'overlap': overlap}
    work, causes = stores[given.store](given.folder, given.scale)
    for cause in causes:
        print('planted:', *cause)
    print(work.run('report', '--days', 365).output, end='')
    print(f'{(work.results / "report.html").stat().st_size / 1e6:.2f} MB')
    if given.publish:
        print(work.run('publish', given.folder / 'site').output, end='')

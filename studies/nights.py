# SPDX-License-Identifier: BSD-3-Clause
"""Sites night after night through the command line: `ingest`, `record`, further jobs, `compare` and the ledger.

    python studies/nights.py --sites 20                    every row: hours
    python studies/nights.py --sites 20 --only "64 nodes"  rows whose name holds this

A loss lasts for some nights and is repaired. The same options print the same figures. Brackets: 95 % Wilson intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
from numpy import ndarray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / 'tests'), str(ROOT / 'tests/postprocess')]

from run_reports import BEGAN, DAY, Workplace, all_nights_over, case, metric, record, report  # noqa: E402

from studies.simulated import Loss, Site, World  # noqa: E402
from studies.worlds import wilson  # noqa: E402

STEPS = 8  # of further jobs in a session, as in ci/rerun.py
AFTER = 8  # nights after a repair
Document = Mapping[str, Any]


class Nights:
    """A world of `studies/simulated.py` whose values are what benchmarks measured in jobs of nodes n0, n1, ..."""

    def __init__(self, work: Workplace, world: World, number: int = 0):
        self.work, self.world, self.site = work, world, Site(world, 'by command', number)
        self.layout = self.site.layout

    def entry(self, number: int, values: ndarray, nodes: ndarray) -> dict[str, Any]:
        """Return a job of a case in ReFrame's report."""
        own = values if len(values) < len(self.layout.case) else values[self.layout.series(number)]
        means = (100 * numpy.exp(own)).tolist()
        metrics = {f'm{place}': metric([0.999 * mean, 1.001 * mean]) for place, mean in enumerate(means)}
        return case(f'Check{number:02}', '-', metrics, nodes=tuple(f'n{node}' for node in nodes if node >= 0))

    def first(self, night: int) -> dict[str, Any]:
        """Return the run report of the first jobs of a night."""
        values, nodes = self.site.first(night)
        entries = [self.entry(number, values, nodes[number]) for number in range(self.layout.cases)]
        began = BEGAN + (night + self.world.n) * DAY
        return report(*entries, uuid=f'{night + self.world.n:08x}', mode='nightly', began=began)

    def recorded(self) -> Nights:
        """Ingest the nights of the baseline, and accept it."""
        self.work.ingest(*(self.first(night) for night in range(-self.world.n, 0)))
        record(self.work, '--although', 'simulated')
        return self

    def job(self, case: int, on: int | None, avoid: Collection[int]) -> dict[str, Any]:
        """Return a further job of a case, on a node, or beside those to `avoid` if enough others are left."""
        left = self.world.nodes - len(avoid) - self.world.span[1]
        return self.entry(case, *self.site.job(case, on, avoid if left > 0 else ()))

    def judged(self, night: int) -> tuple[Document, int]:
        """Play a night with its further jobs; return the document of the comparison and how many of these ran."""
        content, ran = self.first(night), 0
        self.work.ingest(content)
        for _ in range(STEPS):
            document = self.work.compare()
            if not document['again']:
                break
            for wanted in document['again']:
                number, on = int(wanted['name'][5:7]), int(wanted['on'][1:]) if wanted['on'] else None
                for _ in range(wanted['jobs']):
                    again = self.job(number, on, [int(name[1:]) for name in wanted['not_on']])
                    again['plumbline_purpose'] = 'node' if wanted['on'] else ''
                    content['runs'].append({'run_index': len(content['runs']), 'testcases': [again]})
                    ran += 1
            self.work.ingest(content)
        return document, ran

    def play(self, nights: int) -> tuple[list[Document], float]:
        """Return the documents of so many nights, and how many further jobs ran in the mean of the cases."""
        played = [self.judged(night) for night in range(nights)]
        return [document for document, _ in played], sum(ran for _, ran in played) / nights / self.layout.cases


_SITE = {'m': 160, 'n': 10, 'factor': 1.5, 'nodes': 16, 'effects': 1.0}
_SPREAD = _SITE | {'m': 240, 'nodes': 32, 'span': (2, 4)}
_FOUR = (Loss('node', 0.1, stop=4),)
ROWS: dict[str, dict[str, Any]] = {
    'the only node -10 % for 4 nights': _SITE | {'nodes': 1, 'effects': 0.0, 'losses': (Loss('all', 0.1, stop=4),)},
    'a node of 16 -10 % for 4 nights': _SITE | {'losses': _FOUR},
    'a node of 64 -10 % for 4 nights': _SITE | {'nodes': 64, 'losses': _FOUR},
    'a node of 1024 -10 % for 4 nights': _SITE | {'nodes': 1024, 'losses': _FOUR},
    'a node of 4 -10 % for one night': _SITE | {'nodes': 4, 'losses': (Loss('node', 0.1, stop=1),)},
    'a node of 32 -10 % for 5 nights, cases on 2 to 4 nodes': _SPREAD | {'losses': (Loss('node', 0.1, stop=5),)},
    'two nodes of 16 -10 and -6 % for 5 nights': _SITE | {
        'losses': (Loss('node', 0.1, stop=5), Loss('other node', 0.06, stop=5))
    },
    'a case -10 % for 4 nights': _SITE | {'losses': (Loss('case', 0.1, stop=4),)},
    'all -4 % for 6 nights': _SITE | {'losses': (Loss('all', 0.04, stop=6),)},
}  # fmt: skip
HEADS = (
    'red while bad %',
    'red after the repair %',
    'incidents a site',
    'not planted',
    'closed after nights: median; 95 %',
)


def row(sites: Sequence[tuple[World, Sequence[Document]]]) -> list[str]:
    """Return the cells of a row: the documents of the nights of each site."""
    bad, after, ids, others, closed = [], [], [], 0, []
    for world, nights in sites:
        last = max(loss.stop for loss in world.losses)
        bad += [night['exit_code'] for night in nights[:last]]
        after += [night['exit_code'] for night in nights[last:]]
        found = {one['id']: (one['kind'], one['where']) for night in nights for one in night['incidents']}
        planted = {('node', 'NODE'), ('other node', 'NODE'), ('case', 'CASE'), ('all', 'SYSTEM'), ('all', 'NODE')}
        kinds = {kind for of, kind in planted if of in {loss.of for loss in world.losses}}
        ids.append(len(found))
        others += sum(kind not in kinds for kind, _ in found.values())
        lasting = [any(one['state'] != 'closed' for one in night['incidents']) for night in nights[last:]]
        closed.append(lasting.index(False) + 1 if False in lasting else len(lasting) + 1)
    middle, most = numpy.percentile(closed, [50, 95], method='higher').tolist()
    return [
        wilson(sum(bad), len(bad)), wilson(sum(after), len(after)), f'{numpy.mean(ids):.2f}', str(others),
        f'{middle}; {most}',
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default='', help='rows whose name holds this')
    parser.add_argument('--sites', type=int, default=20, help='simulated for each row (default: 20)')
    arguments = parser.parse_args()
    print(f'| world | sites | {" | ".join(HEADS)} |\n' + '|---' * (len(HEADS) + 2) + '|')
    for name in (name for name in ROWS if arguments.only in name):
        world, sites = World(**ROWS[name]), []
        for number in range(arguments.sites):
            with tempfile.TemporaryDirectory() as folder, all_nights_over():
                nights = Nights(Workplace(Path(folder)), world, number).recorded()
                sites.append((world, nights.play(max(loss.stop for loss in world.losses) + AFTER)[0]))
        print(f'| {name} | {len(sites)} | {" | ".join(row(sites))} |', flush=True)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Simulated sites night after night through the command line: `ingest`, `record`, further jobs, `compare`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy
from numpy import ndarray
from run_reports import BEGAN, DAY, Workplace, case, metric, record, report

from studies.simulated import Site, World

STEPS = 8  # of further jobs in a session, as in ci/rerun.py
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

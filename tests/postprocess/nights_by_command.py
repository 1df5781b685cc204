# SPDX-License-Identifier: BSD-3-Clause
"""Nights of a simulated site through the command line, with the further jobs that `plumbline compare` asks for."""

from __future__ import annotations

import numpy
from run_reports import BEGAN, case, metric, report

from studies.simulated import Site, World

DAY = 86400
STEPS = 8  # of further jobs in a session, as in ci/rerun.py


class Nights:
    """A world of `studies/simulated.py` whose values are what benchmarks measured in jobs of nodes n0, n1, ..."""

    def __init__(self, work, world: World, number: int = 0):
        self.work, self.site, self.layout = work, Site(world, 'by command', number), None
        self.layout = self.site.layout
        self.world = world

    def entry(self, number: int, values, nodes):
        own = values if len(values) < len(self.layout.case) else values[self.layout.series(number)]
        means = (100 * numpy.exp(own)).tolist()
        metrics = {f'm{place}': metric([0.999 * mean, 1.001 * mean]) for place, mean in enumerate(means)}
        return case(f'Check{number:02}', '-', metrics, nodes=tuple(f'n{node}' for node in nodes if node >= 0))

    def first(self, night: int):
        """Return the run report of the first jobs of a night."""
        values, nodes = self.site.first(night)
        entries = [self.entry(number, values, nodes[number]) for number in range(self.layout.cases)]
        began = BEGAN + (night + self.world.n) * DAY
        return report(*entries, uuid=f'{night + self.world.n:08x}', mode='nightly', began=began)

    def recorded(self):
        """Ingest the nights of the baseline, and accept it."""
        self.work.ingest(*(self.first(night) for night in range(-self.world.n, 0)))
        assert self.work.run('record propose', '--although', 'simulated').exit_code == 0
        assert self.work.run('record accept').exit_code == 0
        return self

    def judged(self, night: int):
        """Play a night with its further jobs; return the document of the comparison and how many of these ran."""
        content = self.first(night)
        self.work.ingest(content)
        ran = 0
        for _ in range(STEPS):
            document = self.work.compare()
            if not document['again']:
                break
            for wanted in document['again']:
                number, on = int(wanted['name'][5:7]), wanted['on'] and int(wanted['on'][1:])
                avoid = [int(name[1:]) for name in wanted['not_on']] if self.world.nodes > 1 else []
                for _ in range(wanted['jobs']):
                    values, nodes = self.site.job(number, *([on] if wanted['on'] else [None, avoid]))
                    again = self.entry(number, values, nodes) | {'plumbline_purpose': 'node' if wanted['on'] else ''}
                    content['runs'].append({'run_index': len(content['runs']), 'testcases': [again]})
                    ran += 1
            self.work.ingest(content)
        return document, ran

    def play(self, nights: int, first: int = 0):
        """Return the documents of so many nights, and how many further jobs ran in the mean of the cases."""
        played = [self.judged(night) for night in range(first, first + nights)]
        return [document for document, _ in played], sum(ran for _, ran in played) / nights / self.layout.cases

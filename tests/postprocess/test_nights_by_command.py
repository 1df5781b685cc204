# SPDX-License-Identifier: BSD-3-Clause
"""Sites as they are, night after night through `ingest`, `record`, `compare` and `incidents`, with their further jobs.

Small worlds, of one seed each; `studies/worlds.py` measures the same with intervals.
"""

import numpy
import pytest
from run_reports import BEGAN, DAY, Workplace, case, metric, record, report

from studies.simulated import Loss, Site, World

STEPS = 8  # of further jobs in a session, as in ci/rerun.py
SMALL = {'m': 80, 'n': 10, 'factor': 1.3}


class Nights:
    """A world of `studies/simulated.py` whose values are what benchmarks measured in jobs of nodes n0, n1, ..."""

    def __init__(self, work, world: World):
        self.work, self.world, self.site = work, world, Site(world, 'by command', 0)
        self.layout = self.site.layout

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
        record(self.work, '--although', 'simulated')
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

    def play(self, nights: int):
        """Return the documents of so many nights, and how many further jobs ran in the mean of the cases."""
        played = [self.judged(night) for night in range(nights)]
        return [document for document, _ in played], sum(ran for _, ran in played) / nights / self.layout.cases


@pytest.fixture
def play(tmp_path):
    return lambda **world: Nights(Workplace(tmp_path), World(**SMALL | world)).recorded()


def told(document, *states):
    return [one for one in document['incidents'] if one['state'] in (states or ('open',))]


def test_a_pool_of_16_healthy_nodes_with_lasting_differences_is_never_red(play):
    nights, further = play(nodes=16, effects=1.0).play(3)
    assert [document['exit_code'] for document in nights] == [0] * 3
    assert not any(document['incidents'] for document in nights), 'nobody is suspected'
    assert further <= 0.5


def test_a_slow_node_is_named_by_the_cases_that_ran_there_and_nothing_else_is(play):
    nights, _ = play(m=240, nodes=8, effects=1.0, losses=(Loss('node', 0.05),)).play(2)
    (one,) = told(nights[1])
    assert (one['kind'], one['where']) == ('NODE', 'n0')
    assert one['loss'] == pytest.approx(5, abs=1.5)


def test_a_loss_of_the_whole_site_is_one_incident_every_night_and_accuses_no_node(play):
    nights, _ = play(m=160, nodes=16, effects=1.0, losses=(Loss('all', 0.05, start=1, stop=6),)).play(7)
    assert [document['exit_code'] for document in nights] == [0, *[1] * 5, 0]
    (ids,) = {tuple(one['id'] for one in document['incidents']) for document in nights[1:]}
    assert len(ids) == 1
    for document in nights[1:6]:
        (one,) = document['incidents']
        assert one['kind'] == 'SYSTEM' and one['loss'] == pytest.approx(5, abs=0.5)


def test_a_node_that_was_repaired_is_one_incident_green_the_next_night_and_closed_within_a_week(play):
    nights, _ = play(m=160, nodes=8, effects=1.0, losses=(Loss('node', 0.1, stop=4),)).play(10)
    assert [document['exit_code'] for document in nights] == [1] * 4 + [0] * 6
    of_node = [one for document in nights for one in document['incidents'] if one['where'] == 'n0']
    assert len({one['id'] for one in of_node}) == 1 and not told(nights[9], 'open', 'healing')

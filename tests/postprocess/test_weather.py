# SPDX-License-Identifier: BSD-3-Clause
"""What a whole site lost below the floor is told with its size and beginning; what is an incident is not told twice."""

from datetime import date, timedelta
from types import SimpleNamespace as stub

import numpy
import pytest
from rows import each_row

from plumbline.identity import Quantity, SeriesId
from plumbline.limits import Tolerance
from postprocess.history.series import History
from postprocess.history.weather import below

SESSIONS = [stub(day=f'{date(2026, 3, 1) + timedelta(days=night)}') for night in range(20)]


def told(loss, begin=8, cases=8, floor=0.02, nights=20, better='higher', kind='baseline'):
    """The sentence on a site whose series lose a share from a night on; two series of each case."""
    sign = 1 if better == 'higher' else -1
    levels = numpy.where(numpy.arange(nights) >= begin, 100 * (1 - loss) ** sign, 100.0)
    quantity, rows, histories = Quantity('GB/s', better), [], []
    for place in range(2 * cases):
        id = SeriesId('cpu', 'system', f'Check{place // 2}', (), f'm{place}')
        rows.append(stub(id=id, reference=stub(kind=kind, mean=100.0, quantity=quantity)))
        histories.append(History(id, quantity, Tolerance(floor=floor), numpy.arange(nights), levels))
    return below(stub(series=rows), histories, SESSIONS[:nights])


@each_row(('fields', 'size'), [
    ({'loss': 0.012}, '1.2'), ({'loss': 0.012, 'better': 'lower'}, '1.2'), ({'loss': 0.04, 'floor': 0.05}, '4.0'),
    ({'loss': 0.009}, ''), ({'loss': 0.019}, ''), ({'loss': 0.1}, ''),  # below half of the floor, and an incident
    ({'loss': 0.012, 'cases': 7}, ''), ({'loss': 0.012, 'kind': 'published'}, ''), ({'loss': 0.012, 'begin': 17}, ''),
    ({'loss': 0.012, 'nights': 6, 'begin': 0}, ''),
])  # fmt: skip
def test_a_loss_of_the_site_is_told_between_half_of_the_floor_and_an_incident(fields, size):
    assert (f' {size} % below its baseline' in told(**fields)) if size else told(**fields) == ''


@pytest.mark.parametrize('begin', [0, 5, 8])
def test_it_began_in_the_first_week_whose_mean_shows_half_of_the_floor(begin):
    """A loss of 1.8 % shows half of 2.1 % with five of seven nights."""
    said = told(0.018, begin=begin, floor=0.021)
    assert f'since {SESSIONS[max(begin - 2, 0)].day}:' in said

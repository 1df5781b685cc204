# SPDX-License-Identifier: BSD-3-Clause
"""Published numbers become levels by hardware."""

import math

import pytest

from plumbline.identity import Quantity, SeriesId
from postprocess.verdicts.elsewhere import CARRIED, NodeHardware
from studies.elsewhere import of_series, summarize, table


def test_the_carried_file_is_what_was_published():
    assert table() == CARRIED.read_text(), 'run python -m studies elsewhere'


def test_parts_of_a_node_are_one_level_and_machines_are_its_spread():
    rate, machine = Quantity('GB/s', 'higher'), NodeHardware('AMD EPYC 7763', 2, (('A100', 4),))
    values = []
    for site, factor in (('a', 1.0), ('b', 1.1)):
        for device in range(3):
            id = SeriesId(site, 'cuda', 'Copies', (('device', str(device)),), 'rate')
            values.append((of_series(id, rate, machine), site, factor * (10 + device), 'x'))
    (level,) = summarize(values)
    assert (level.part, level.model, level.number, level.row.id.params) == ('gpu', 'A100', None, (('device', '*'),))
    assert level.row.mean == pytest.approx(11.55) and level.row.n == 2
    assert level.row.spread == pytest.approx(math.log(1.1) / math.sqrt(2))


@pytest.mark.parametrize(('params', 'is_level'), [((('pair', 'same_numa'),), True), ((('num_nodes', '2'),), False)])
def test_only_series_of_single_nodes_are_levels(params, is_level):
    id = SeriesId('p', 'e', 'Osu', params, 'latency')
    found = of_series(id, Quantity('us', 'lower'), NodeHardware('POWER9', 2, ()))
    assert (found.params, found.number) == (params, 2) if is_level else found is None

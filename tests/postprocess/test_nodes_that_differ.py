# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that differ for good, each measured every night: no alarm for what they always were, and one for a change."""

import csv
import random

import pytest
from run_reports import BEGAN, on_nodes, record, report

NODES = [f'n{number:02}' for number in range(1, 13)]
#: What each node has for good, of 100 GB/s.
LEVELS = dict(zip(NODES, (97.0, 98.0, 98.5, 99.0, 99.5, 100.0, 100.0, 100.5, 101.0, 101.5, 102.0, 103.0), strict=True))


@pytest.fixture(scope='module')
def nights():
    rng = random.Random(3)
    return [{node: level * (1 + rng.gauss(0, 0.005)) for node, level in LEVELS.items()} for _ in range(16)]


def measure(work, number, values):
    work.ingest(report(*on_nodes(values), uuid=f'{number:04}aaaa', mode='quick', began=BEGAN + number * 86400))


def test_no_node_is_red_for_what_it_always_was_and_one_that_changed_is(work, nights):
    for number in range(10):
        measure(work, number, nights[number])
    record(work, '--although', 'planted')
    for number in range(10, 15):
        measure(work, number, nights[number])
        assert work.run('compare').exit_code == 0, f'night {number}'
    changed = nights[15] | {'n12': nights[15]['n12'] * 0.94}  # from 103 to 96.8: as much as n01 always had
    measure(work, 15, changed)
    document = work.compare()
    (worst,) = (row for row in document['verdicts'] if row['verdict'] == 'regressed')
    assert worst['nodes'] == ['n12']
    assert 4 < worst['loss'] < 8, 'the planted 6 %, against 103 GB/s'
    assert 102 < worst['expected'] < 104


def test_a_reference_that_a_person_set_stays_in_force_on_every_node(work, nights):
    """Of 100 GB/s a person makes 130."""
    for number in range(10):
        measure(work, number, nights[number])
    record(work, '--although', 'planted')
    header, row = work.baseline.read_text().splitlines()
    fields = dict(zip(header.split(','), next(csv.reader([row])), strict=True))
    work.baseline.write_text(f'{header}\n{row.replace(fields["mean"], "130", 1)}\n')
    measure(work, 10, nights[10])
    document = work.compare()
    assert document['counts'] == {'regressed': 1} and document['exit_code'] == 1
    expected = {row['nodes'][0]: row['expected'] for row in document['verdicts']}
    assert 125 < expected['n01'] < 128 < 132 < expected['n12'] < 136, 'each node by as much as it differs'

# SPDX-License-Identifier: BSD-3-Clause
"""No mutated output of a real benchmark passes with other numbers, and none raises an error."""

import random

import output_mutations as study
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope='module')
def targets():
    return list(study.targets())


def test_every_recorded_output_of_a_whole_run_passes_unchanged(targets):
    assert len(targets) > 30
    for target in targets:
        values = target.outcome(target.text)
        assert values and len(values) >= len(target.metrics), target.name


@given(st.data(), st.integers(0, 2**32))
@settings(max_examples=300)
def test_a_mutated_output_gives_the_same_numbers_or_fails(targets, data, seed):
    target = data.draw(st.sampled_from(targets), 'output')
    mutation = data.draw(st.sampled_from(study.MUTATIONS), 'mutation')
    values, original = target.outcome(mutation(random.Random(seed), target.text)), target.outcome(target.text)
    assert values is None or values == pytest.approx(original, rel=1e-9)


def test_a_coloured_output_has_the_same_numbers(targets):
    for target in targets:
        lines = target.text.splitlines()
        coloured = ''.join(f'\x1b[1;32m{line}\x1b[0m\x1b[K\r\n' for line in lines)
        assert target.outcome(coloured) == target.outcome(target.text), target.name
